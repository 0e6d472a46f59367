/*-------------------------------------------------------------------------
 *
 * wait.h
 *	  Waits for what keeps a call from its next id.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_WAIT_H
#define SNOWFLAKE_WAIT_H

#include "clock.h"
#include "limit.h"
#include "worker.h"

/* For how long a call has waited, in us. */
typedef struct CallWaits
{
	int64		waited;			/* this counts for snowflake.max_wait */
	int64		watched;		/* a clock in doubt */
} CallWaits;

extern TimestampTz WaitForTime(const Layout *layout, CallWaits *waits);
extern void WaitForMark(CallWaits *waits);
extern void WaitForLease(const Worker *worker, CallWaits *waits);
extern bool WaitForClock(const Layout *layout, const Worker *worker,
						 uint64 tick, uint64 ahead, const FoundMark *found,
						 CallWaits *waits);
extern bool WaitWouldDo(const Layout *layout, const Worker *worker,
						uint64 tick, uint64 ahead, const CallWaits *waits);
extern bool WaitIsPossible(const Layout *layout, uint64 tick, uint64 ahead,
						   const FoundMark *found,
						   const ClockReading *reading);

#endif							/* SNOWFLAKE_WAIT_H */
