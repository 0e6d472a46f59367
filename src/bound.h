/*-------------------------------------------------------------------------
 *
 * bound.h
 *	  Moves the bounds of the ticks that a call may use, or waits for them.
 *
 * snowflake/src/bound.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_BOUND_H
#define SNOWFLAKE_BOUND_H

#include "worker.h"

/* The ticks that a call may use, and what bounds them. */
typedef struct TickRange
{
	uint32		version;		/* see lane.c */
	const Worker *worker;
	int64		wall_tick;		/* of the wall clock; -1: not in the layout */
	uint64		now_tick;		/* of the time that is believed */
	uint64		called;			/* that tick when the call began */
	bool		late;			/* it is past the limit, and was not then */
	uint64		start;			/* first tick that the worker may use */
	uint64		floor;
	uint64		limit;
	uint64		lease_end;
	uint64		ahead_end;
	uint64		from;
	uint64		end;
	bool		greedy;			/* must leave room for others */
} TickRange;

extern void BoundMakeRoom(const Layout *layout, const TickRange *range,
						  uint64 tick, int64 *waited);
extern void BoundWaitForLease(const Worker *worker, int64 *waited);
extern void BoundWaitForMark(int64 *waited);

#endif							/* SNOWFLAKE_BOUND_H */
