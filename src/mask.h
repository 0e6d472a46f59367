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

extern int64 MaskId(int64 id, MaskBytes key, MaskBytes tweak);
extern int64 UnmaskId(int64 masked, MaskBytes key, MaskBytes tweak);

#endif							/* SNOWFLAKE_MASK_H */
