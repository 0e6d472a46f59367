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
/* What to do if ids of another layout are greater than those of this one. */
#define HINT_OTHER_LAYOUT \
	"If no id of the layout before is needed, drop the extension and create it again. If one is, return to that layout, or choose one whose ids are greater."

typedef enum LimitResult
{
	LIMIT_LOOK_AGAIN,			/* it was moved, or something has changed */
	LIMIT_LOCKED,				/* a transaction is about to change the mark */
	LIMIT_BEFORE_EPOCH,			/* the clock is, and there are no ids */
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
	uint64		tick;			/* first tick above it; 0: there is none */
	uint64		ahead;			/* how far that can be ahead of the id clock */
	bool		is_far;			/* it is further ahead */
	bool		other_layout;	/* the last ids were made in another layout */
} FoundMark;

extern bool LimitIsGranted(const Layout *layout, uint64 lease_end,
						   TimestampTz ids);
extern bool LimitPeek(const Layout *layout, const DatabaseSlot *slot,
					  Mark *mark, bool *has_written);
extern void LimitFind(const Layout *layout, const Mark *mark,
					  bool has_written, TimestampTz ids, FoundMark *found);
pg_noreturn extern void LimitReportExhausted(const Layout *layout,
											 uint64 tick, bool other_layout);
extern uint64 LimitFloor(const Layout *layout, uint64 limit);
extern bool LimitIsCovered(uint64 limit);
extern bool LimitHalfUsed(const Layout *layout, uint64 tick);
extern LimitResult LimitMove(const Layout *layout, const Worker *worker,
							 uint64 tick, LimitReason reason,
							 FoundMark *found);
extern MarkOpenResult LimitOpenMark(Mark *mark, MarkMode mode, bool must);

extern uint64 LimitOtherSystem(const Guard *guard);
extern uint64 LimitReservation(const Layout *layout);
extern uint64 LimitAhead(const Layout *layout);
extern uint64 LimitMaxAdvance(const Layout *layout, uint64 ids_tick);
extern int64 LimitBoundBelow(const Layout *layout, uint64 tick);
extern bool LimitEnter(const Layout *layout);

#endif							/* SNOWFLAKE_LIMIT_H */
