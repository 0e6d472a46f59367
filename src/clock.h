/*-------------------------------------------------------------------------
 *
 * clock.h
 *	  The clock that ids follow, and waiting for it.
 *
 * snowflake/src/clock.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_CLOCK_H
#define SNOWFLAKE_CLOCK_H

#include "compat.h"
#include "layout.h"

/* Why a session sleeps, as pg_stat_activity shows it. */
typedef enum WaitReason
{
	WAIT_CLOCK,
	WAIT_LEASE,
	WAIT_MARK
} WaitReason;

extern TimestampTz ClockLook(void);
extern uint64 ClockTick(const Layout *layout, TimestampTz now);
extern bool ClockIsRefused(void);
extern int64 ClockReference(void);
pg_noreturn extern void ClockThrowExhausted(const Layout *layout);
extern TimestampTz ClockReadCheckpoint(void);
extern uint32 ClockWaitEvent(WaitReason reason);
extern bool ClockKeepWaiting(int64 a_while, WaitReason reason, int64 at_least,
							 int64 *waited);

#endif							/* SNOWFLAKE_CLOCK_H */
