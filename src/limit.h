/*-------------------------------------------------------------------------
 *
 * limit.h
 *	  Limit and floor of a database's ids.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_LIMIT_H
#define SNOWFLAKE_LIMIT_H

#include "clock.h"
#include "mark.h"
#include "shared.h"
#include "worker.h"

/* What to do if ids are ahead of the clock. */
#define HINT_GO_ON(setting) \
	"Wait until the clock has caught up, or raise \"snowflake." setting "\" and reload, so that ids go on above those that have been made."
/* What to do if the mark is far ahead of it, or leaves no tick. */
#define HINT_FAR_MARK \
	"If the sequence \"snowflake_internal.mark\" was set by hand, correct it. If the ids are of another layout, return to that, or choose one whose ids are greater; if none of them is needed, drop the extension and create it again. Else wait until the clock has caught up, or raise \"snowflake.max_ahead\" and reload."

/* What to do if the clock is before the epoch. */
#define HINT_EPOCH \
	"The clock is before the epoch of the layout. Set the clock of the server right, or choose a layout with an earlier epoch and restart the server."

typedef enum LimitResult
{
	LIMIT_LOOK_AGAIN,			/* it was moved, or something has changed */
	LIMIT_LOCKED,				/* a transaction is about to change the mark */
	LIMIT_IS_FAR				/* the mark is too far ahead of the clock */
} LimitResult;

/* Why the limit is moved. */
typedef enum LimitReason
{
	LIMIT_EARLY,				/* half of the reservation is used */
	LIMIT_REACHED,				/* the tick is at the limit or beyond */
	LIMIT_ADVANCE,				/* ids are to begin at the tick, */
	LIMIT_FORCE					/* however far ahead what is found is */
} LimitReason;

/* A value in the mark's pages that this server has not written. */
typedef struct FoundMark
{
	int64		tick;			/* first tick above it; 0: there is none */
	int64		ahead;			/* how far that can be ahead of the id clock */
	bool		is_far;			/* it is further ahead */
} FoundMark;

/*
 * Whether the lease does not go as far as the id clock.  Then ids go by the
 * believed clock instead, as the reading says from now on.  They may go back,
 * but not below the floor.
 */
static inline bool
LimitIsBeyondLease(const Layout *layout, int64 lease_end,
				   ClockReading *reading)
{
	bool		is_beyond = LayoutTick(layout, reading->ids) >= lease_end;

	if (is_beyond)
		reading->ids = reading->time;
	return is_beyond;
}

extern bool LimitPeek(const Layout *layout, const DatabaseSlot *slot,
					  Mark *mark, bool *has_written);
extern void LimitFind(const Layout *layout, const Mark *mark,
					  bool has_written, TimestampTz ids, FoundMark *found);
pg_noreturn extern void LimitReportExhausted(const Layout *layout,
											 int64 tick);
extern int64 LimitFloor(const Layout *layout, int64 limit);
extern bool LimitIsCovered(int64 limit);
extern bool LimitHalfUsed(const Layout *layout, int64 tick);
extern LimitResult LimitMove(const Layout *layout, const Worker *worker,
							 int64 tick, LimitReason reason,
							 const ClockReading *reading, FoundMark *found);
extern MarkOpenResult LimitOpenMark(Mark *mark, MarkMode mode, bool must);

extern int64 LimitReservation(const Layout *layout);
extern int64 LimitAhead(const Layout *layout);
extern int64 LimitMaxAdvance(const Layout *layout, int64 ids_tick);
extern int64 LimitBoundBelow(const Layout *layout, int64 tick);
extern bool LimitEnter(const Layout *layout);

#endif							/* SNOWFLAKE_LIMIT_H */
