/*-------------------------------------------------------------------------
 *
 * origin.h
 *	  The server that a mark comes from.
 *
 * snowflake/src/origin.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_ORIGIN_H
#define SNOWFLAKE_ORIGIN_H

extern void OriginCheck(bool leased);
extern uint64 OriginPeek(void);

#endif							/* SNOWFLAKE_ORIGIN_H */
