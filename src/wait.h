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

extern void WaitBegin(void);
extern ClockReading WaitForTime(const Layout *layout);
extern void WaitForMark(void);
extern void WaitForLease(const Worker *worker);
extern bool WaitForClock(const Layout *layout, const Worker *worker,
						 int64 tick, int64 ahead, const FoundMark *found);
extern bool WaitWouldDo(const Layout *layout, int64 tick, int64 ahead,
						const ClockReading *reading);
extern bool WaitIsPossible(const Layout *layout, int64 tick, int64 ahead,
						   const FoundMark *found,
						   const ClockReading *reading);

#endif							/* SNOWFLAKE_WAIT_H */
