/*-------------------------------------------------------------------------
 *
 * bound.c
 *	  Moves the bounds of the ticks that a call may use, or waits for them.
 *
 * generator.c lists the bounds.  Whatever these functions do, the caller looks
 * at all bounds again.
 *
 * A call waits for at most snowflake.max_wait, not counting the time in which
 * it moves the limit.  It does not begin to wait for a clock that needs longer.
 * The caller keeps "waits", which are 0 at first.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "bound.h"
#include "clock.h"
#include "limit.h"
#include "settings.h"

/* Wait for a lease, or for ours to be extended. */
void
BoundWaitForLease(const Worker *worker, CallWaits *waits)
{
	if (ClockKeepWaiting(0, WAIT_LEASE, 0, waits))
		return;

	ereport(ERROR,
			(StatsErrcode(ERRCODE_SNOWFLAKE_NO_LEASE),
			 errmsg("server has no lease of a worker id for snowflake ids"),
			 worker->id < 0 ? 0 :
			 errdetail("Its lease of worker id " INT64_FORMAT " is for ids before %s.",
					   worker->id,
					   timestamptz_to_str(LayoutTickInstant(SharedLayout(), WorkerLeaseEnd(worker)))),
			 errhint("%s", WorkerLeaseWords()->hint)));
}

/* Wait for a transaction that changes or drops a relation of the mark. */
void
BoundWaitForMark(CallWaits *waits)
{
	if (!ClockKeepWaiting(0, WAIT_MARK, 0, waits))
		MarkThrowLocked();
}

/* Report a mark that leaves no tick to the layout. */
static void
throw_mark_exhausted(const Layout *layout, uint64 tick, bool other_layout)
{
	ereport(ERROR,
			(StatsErrcode(ERRCODE_SNOWFLAKE_LAYOUT_EXHAUSTED),
			 errmsg("snowflake layout has no tick left above the mark"),
			 errdetail("At least the ids up to " INT64_FORMAT " are taken in this database, and the largest id of the layout \"%s\" is " INT64_FORMAT ".",
					   LimitBoundBelow(layout, tick),
					   LayoutToText(layout), LayoutLargestId(layout)),
			 errhint("%s If the sequence \"snowflake_internal.mark\" was set by hand, correct it.",
					 other_layout ? HINT_OTHER_LAYOUT : "Choose a layout whose ids are greater.")));
}

/* Throw the error of the bound that excludes a tick until an awaited time. */
static void
throw_too_far_ahead(const Layout *layout, const TickRange *range, uint64 tick,
					uint64 allowed_tick, const FoundMark *found,
					const ClockSight *sight, TimestampTz awaited)
{
	const Worker *worker = range->worker;
	int64		missing = awaited - sight->time;
	char	   *wait = psprintf("The time that ids follow is %s, and has to reach %s before the next id. \"snowflake.max_ahead\" is %d%s, and \"snowflake.max_wait\" is %d ms.",
	/* timestamptz_to_str() has one buffer for all of its results */
								pstrdup(timestamptz_to_str(sight->time)),
								pstrdup(timestamptz_to_str(awaited)),
								setting_max_ahead, setting_max_ahead < 0 ? "" : " ms", setting_max_wait);

	if (found != NULL)
		ereport(ERROR,
				(StatsErrcode(ERRCODE_SNOWFLAKE_TOO_FAR_AHEAD),
				 errmsg("snowflake mark is too far ahead of the clock"),
				 errdetail("Ids up to " INT64_FORMAT " are taken in this database, and the clock of the server allows ids up to " INT64_FORMAT ". %s",
						   LimitBoundBelow(layout, tick),
						   LimitBoundBelow(layout, allowed_tick + 1), wait),
				 errhint("%s If the sequence \"snowflake_internal.mark\" was set by hand, correct it.",
						 found->other_layout ? HINT_OTHER_LAYOUT : HINT_GO_ON)));
	if (worker->lease_start > allowed_tick)
		ereport(ERROR,
				(StatsErrcode(ERRCODE_SNOWFLAKE_NO_LEASE),
				 errmsg("lease of a worker id for snowflake ids begins ahead of the clock"),
				 errdetail("The lease is for worker id " INT64_FORMAT " and for ids from %s on. %s",
						   worker->id,
						   timestamptz_to_str(LayoutTickInstant(layout, worker->lease_start)), wait),
				 errhint("Wait until the clock gets there: the lease begins above all ids that others can have made with this worker id. No other worker id was free, or the registry might have lost grants.")));
	/* would the clock allow the tick if it had not been set back? */
	if (sight->set_back > 0 && missing <= sight->set_back + layout->tick)
		ereport(ERROR,
				(StatsErrcode(ERRCODE_SNOWFLAKE_TOO_FAR_AHEAD),
				 errmsg("snowflake ids are too far ahead of the clock, which was set back"),
				 errdetail("%s", wait),
				 errhint(HINT_GO_ON)));
	ereport(ERROR,
			(StatsErrcode(ERRCODE_SNOWFLAKE_TOO_FAR_AHEAD),
			 errmsg("snowflake ids are too far ahead of the clock"),
			 errdetail("%s%s", range->greedy ? "Sessions that take many ids get half of \"snowflake.max_ahead\". " : "", wait),
			 errhint("If ids are needed faster than the layout provides them, give it more bits of lane or sequence, or raise \"snowflake.max_ahead\".")));
}

/*
 * Wait for the clock to come near enough to a tick, which can be "ahead" of it
 * by so many ticks.  Throws an error if that takes longer than the call may wait.
 * "found" is NULL unless it is the first tick above a mark that was found on
 * disk.
 *
 * After a start the mark is up to a reservation ahead of the last id.  Wait that
 * long even beyond max_wait, so that a restart alone causes no error, unless the
 * session is greedy and max_ahead small.  Add 2: the limit is the tick after the
 * reservation, and if the mark is in that tick, ids begin in the one after it.
 */
static void
wait_for_clock(const Layout *layout, const TickRange *range, uint64 tick,
			   uint64 ahead, const FoundMark *found, CallWaits *waits)
{
	ClockSight	sight = ClockLook();
	int64		after_start = found != NULL ? (LimitReservation(layout) + 2) * layout->tick : 0;
	uint64		allowed_tick;	/* the last one that the clock allows */
	TimestampTz awaited;		/* when it allows ours */
	int64		missing;

	ClockCheck(&sight);

	/* the clock may have come near enough since the caller looked */
	allowed_tick = ClockTick(layout, sight.time) + ahead;
	if (tick <= allowed_tick)
		return;
	awaited = LayoutTickToTime(layout, tick - ahead);
	missing = awaited - sight.time;

	/* a clock that is right may only be in doubt, which may end at any time */
	if (sight.doubt > 0 && missing <= sight.doubt + after_start && ClockKeepWatching(waits))
		return;
	if (!ClockKeepWaiting(sight.doubt > 0 ? 0 : missing, WAIT_CLOCK,
						  missing <= after_start ? after_start : 0, waits))
		throw_too_far_ahead(layout, range, tick, allowed_tick, found, &sight, awaited);
}

/* Deal with the bound that excludes a tick: move it, wait, or throw. */
void
BoundMakeRoom(const Layout *layout, const TickRange *range, uint64 tick,
			  CallWaits *waits)
{
	FoundMark	found;
	LimitResult result;

	if (tick > (uint64) layout->last_tick)
	{
		if (range->floor > (uint64) layout->last_tick)
			throw_mark_exhausted(layout, range->floor, false);
		ClockThrowExhausted(layout);
	}
	if (tick >= range->ahead_end)
	{
		wait_for_clock(layout, range, tick, range->ahead_end - range->now_tick - 1,
					   NULL, waits);
		return;
	}
	if (tick >= range->lease_end)
	{
		BoundWaitForLease(range->worker, waits);
		return;
	}
	result = LimitMove(layout, range->worker, tick, true, &found);
	if (result == LIMIT_LOCKED)
		BoundWaitForMark(waits);
	else if (result == LIMIT_IS_FAR && found.tick > (uint64) layout->last_tick)
		throw_mark_exhausted(layout, found.tick, found.other_layout);
	else if (result == LIMIT_IS_FAR)
		wait_for_clock(layout, range, found.tick, found.ahead, &found, waits);
}
