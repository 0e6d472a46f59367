/*-------------------------------------------------------------------------
 *
 * bound.h
 *	  Moves the bounds of the ticks that a call may use, or waits for them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_BOUND_H
#define SNOWFLAKE_BOUND_H

#include "clock.h"
#include "worker.h"

/* The ticks that a call may use, and what bounds them. */
typedef struct TickRange
{
	const Worker *worker;
	int64		wall_tick;		/* of the wall clock; -1: not in the layout */
	uint64		now_tick;		/* of the time that is believed */
	uint64		first_now_tick; /* the same when the call began */
	bool		is_overtaken;	/* the clock has passed the limit since then */
	uint64		floor;
	uint64		limit;
	uint64		lease_end;
	uint64		ahead_end;
	uint64		from;
	uint64		end;
	bool		greedy;			/* must leave room for others */
} TickRange;

/* What to do if ids are ahead of the clock. */
#define HINT_GO_ON \
	"Wait until the clock has caught up, or raise \"snowflake.max_ahead\" and reload, so that ids go on above those that have been made."
/* What to do if ids of another layout are greater than those of this one. */
#define HINT_OTHER_LAYOUT \
	"If no id of the layout before is needed, drop the extension and create it again. If one is, return to that layout, or choose one whose ids are greater."

extern void BoundMakeRoom(const Layout *layout, const TickRange *range,
						  uint64 tick, CallWaits *waits);
extern void BoundWaitForLease(const Worker *worker, CallWaits *waits);
extern void BoundWaitForMark(CallWaits *waits);

#endif							/* SNOWFLAKE_BOUND_H */
