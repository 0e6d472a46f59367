/*-------------------------------------------------------------------------
 *
 * adjust.h
 *	  The mark moved on demand: a new extension, advance, reset.
 *
 * snowflake/src/adjust.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_ADJUST_H
#define SNOWFLAKE_ADJUST_H

extern void AdjustBegin(void);
extern void AdjustAdvance(int64 id, bool force);
extern void AdjustReset(bool force);

#endif							/* SNOWFLAKE_ADJUST_H */
