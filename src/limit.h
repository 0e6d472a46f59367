/*-------------------------------------------------------------------------
 *
 * limit.h
 *	  Limit and floor of a database's ids.
 *
 * snowflake/src/limit.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_LIMIT_H
#define SNOWFLAKE_LIMIT_H

#include "mark.h"
#include "worker.h"

typedef enum LimitResult
{
	LIMIT_MOVED,				/* or something else changed: look again */
	LIMIT_BUSY,					/* another session moves it */
	LIMIT_LOCKED,				/* a transaction is about to change the mark */
	LIMIT_IS_FAR				/* the mark is too far ahead of the clock */
} LimitResult;

extern bool LimitReadPages(const Layout *layout, const Worker *worker,
						   uint64 *start);
extern bool LimitPeek(const Layout *layout, const Worker *worker, int64 *mark,
					  uint64 *start);
extern void LimitGet(uint64 *limit, uint64 *floor);
extern bool LimitIsNear(uint64 tick);
extern LimitResult LimitMove(const Layout *layout, const Worker *worker,
							 uint32 version, uint64 tick, bool must,
							 uint64 *mark_tick, uint64 *mark_ahead);

extern uint64 LimitReservation(const Layout *layout);
extern uint64 LimitAhead(const Layout *layout);
extern uint64 LimitFarthest(const Layout *layout, uint64 now_tick);
extern int64 LimitMarkBelow(const Layout *layout, const Worker *worker,
							uint64 tick);
extern uint64 LimitTickAbove(const Layout *layout, int64 id);
extern uint64 LimitTickFound(const Layout *layout, const Mark *mark,
							 uint64 now_tick, uint64 *ahead);
extern bool LimitTickIsFar(const Layout *layout, uint64 tick,
						   uint64 now_tick, uint64 ahead);
extern uint64 LimitTickOf(const Layout *layout, const Worker *worker,
						  const Guard *guard);

#endif							/* SNOWFLAKE_LIMIT_H */
