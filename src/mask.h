/*-------------------------------------------------------------------------
 *
 * mask.h
 *	  Ids that tell nothing to who does not have the key.
 *
 * snowflake/src/mask.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_MASK_H
#define SNOWFLAKE_MASK_H

/* Any bytes. */
typedef struct MaskBytes
{
	const uint8 *data;
	size_t		length;
} MaskBytes;

/* A key and a tweak, prepared for many ids. */
typedef struct MaskKey MaskKey;

extern MaskKey *MaskPrepare(MaskBytes key, MaskBytes tweak, MemoryContext context);
extern bool MaskIsOf(const MaskKey *prepared, MaskBytes key, MaskBytes tweak);
extern int64 MaskId(int64 id, MaskKey *prepared);
extern int64 UnmaskId(int64 masked, MaskKey *prepared);

#endif							/* SNOWFLAKE_MASK_H */
