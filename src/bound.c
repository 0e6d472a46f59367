/*-------------------------------------------------------------------------
 *
 * bound.c
 *	  Moves the bounds of the ticks that a call may use, or waits for them.
 *
 * generator.c lists the bounds.  Whatever these functions do, the caller looks
 * at all bounds again.
 *
 * A call waits for at most snowflake.max_wait, not counting the time in which
 * it moves the limit.  The caller keeps "waits", which are 0 at first.
 *
 * snowflake/src/bound.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "bound.h"
#include "clock.h"
#include "errors.h"
#include "limit.h"
#include "settings.h"

/* How often, in us, to look whether the clock has been corrected. */
#define LONGEST_SLEEP	100000


/* Wait for a lease, or for ours to be extended. */
void
BoundWaitForLease(const Worker *worker, CallWaits *waits)
{
	if (ClockKeepWaiting(10000, WAIT_LEASE, 0, waits))
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
	if (!ClockKeepWaiting(10000, WAIT_MARK, 0, waits))
		MarkThrowLocked();
}

/* Report a mark that leaves no tick to the layout. */
static void
throw_mark_exhausted(const Layout *layout, const Worker *worker, uint64 tick)
{
	ereport(ERROR,
			(StatsErrcode(ERRCODE_SNOWFLAKE_LAYOUT_EXHAUSTED),
			 errmsg("snowflake layout has no tick left above the mark"),
			 errdetail("At least the ids up to " INT64_FORMAT " are taken in this database, and the largest id of the layout \"%s\" is " INT64_FORMAT ".",
					   LimitBoundBelow(layout, worker, tick),
					   LayoutToText(layout), LayoutLargestId(layout)),
			 errhint("If the layout was changed, choose one whose ids are greater than those of the old one. If the sequence \"snowflake_internal.mark\" was set by hand, correct it.")));
}

/*
 * Wait for the clock to come near enough to a tick, which can be "ahead" of it
 * by so many ticks.  Throws an error once the call has waited long enough.
 * "mark_tick" is the tick itself if it is the first one above a mark that was
 * found on disk, or 0.
 */
static void
wait_for_clock(const Layout *layout, const TickRange *range, uint64 tick,
			   uint64 ahead, uint64 mark_tick, CallWaits *waits)
{
	uint64		reservation = LimitReservation(layout);
	ClockSight	sight = ClockLook();
	const Worker *worker = range->worker;
	uint64		now_tick;
	uint64		allowed_tick;	/* the last one that the clock allows */
	int64		missing;		/* us until it allows ours */
	bool		is_set_back;	/* it would allow ours otherwise */
	int64		at_least;
	int64		a_while;
	const char *what_is_set;

	/*
	 * After a start the mark is up to a reservation ahead of the last id.
	 * Wait that long even beyond max_wait, so that a restart alone causes no
	 * error, unless the session is greedy and max_ahead small.  Add 2: the
	 * limit is the tick after the reservation, and if the mark is in that
	 * tick, ids begin in the one after it.
	 */
	int64		after_start = mark_tick != 0 ? (reservation + 2) * layout->tick : 0;

	ClockCheck(&sight);
	now_tick = ClockTick(layout, sight.time);

	/* the clock may have come near enough since the caller looked */
	allowed_tick = now_tick + ahead;
	if (tick <= allowed_tick)
		return;
	missing = LayoutTickToTime(layout, tick - ahead) - sight.time;
	is_set_back = sight.set_back > 0 && missing <= sight.set_back + layout->tick;

	/* a clock that is right may only be in doubt */
	if (sight.doubt > 0 && missing <= sight.doubt + after_start && ClockKeepWatching(waits))
		return;

	/* look again now and then, in case the clock is corrected */
	at_least = missing <= after_start ? after_start : 0;
	a_while = Min(missing, LONGEST_SLEEP);
	if (ClockKeepWaiting(a_while, WAIT_CLOCK, at_least, waits))
		return;

	/* name the bound that is in the way */
	what_is_set = psprintf("The clock has to advance by another %.3f ms before the next id. \"snowflake.max_ahead\" is %d%s, and \"snowflake.max_wait\" is %d ms.",
						   missing / 1e3, setting_max_ahead, setting_max_ahead < 0 ? "" : " ms", setting_max_wait);
	if (mark_tick == 0 && worker->lease_start > allowed_tick)
		ereport(ERROR,
				(StatsErrcode(ERRCODE_SNOWFLAKE_NO_LEASE),
				 errmsg("lease of a worker id for snowflake ids begins ahead of the clock"),
				 errdetail("The lease is for worker id " INT64_FORMAT " and for ids from %s on. The clock has to advance by another %.3f ms before the first id.",
						   worker->id,
						   timestamptz_to_str(LayoutTickInstant(layout, worker->lease_start)),
						   missing / 1e3),
				 errhint("Wait until the clock gets there: the lease begins above all ids that others can have made with this worker id. No other worker id was free, or the registry might have lost grants.")));
	if (mark_tick == 0 && range->worker_start > allowed_tick)
		ereport(ERROR,
				(StatsErrcode(ERRCODE_SNOWFLAKE_TOO_FAR_AHEAD),
				 errmsg("snowflake ids of worker id " INT64_FORMAT " are too far ahead of the clock",
						worker->id),
				 errdetail("The mark was reset for another worker id or layout, so that ids of this one begin above " INT64_FORMAT ". %s",
						   LimitBoundBelow(layout, worker, range->worker_start), what_is_set),
				 errhint("Return to the worker id, and the layout, for which the mark was reset. Otherwise wait until the clock has caught up, or raise \"snowflake.max_ahead\".")));
	if (mark_tick != 0 || is_set_back)
		ereport(ERROR,
				(StatsErrcode(ERRCODE_SNOWFLAKE_TOO_FAR_AHEAD),
				 mark_tick != 0 ?
				 errmsg("snowflake mark is too far ahead of the clock") :
				 errmsg("snowflake ids are too far ahead of the clock, which was set back"),
				 mark_tick != 0 ?
				 errdetail("Ids up to " INT64_FORMAT " are taken in this database, and the clock of the server allows ids up to " INT64_FORMAT ". %s",
						   LimitBoundBelow(layout, worker, mark_tick),
						   LimitBoundBelow(layout, worker, allowed_tick + 1), what_is_set) :
				 errdetail("%s", what_is_set),
				 errhint("Wait until the clock has caught up, or raise \"snowflake.max_ahead\", so that ids go on above those that have been made. If the clock was far ahead before, you can also give the server a worker id that has never made an id in this database, restart it, and call snowflake_reset_mark() with that worker id. If the layout or its epoch was changed, choose a layout whose ids are greater than those of the old one. If the sequence \"snowflake_internal.mark\" was set by hand, correct it.")));
	ereport(ERROR,
			(StatsErrcode(ERRCODE_SNOWFLAKE_TOO_FAR_AHEAD),
			 errmsg("snowflake ids are too far ahead of the clock"),
			 range->greedy ?
			 errdetail("Sessions that take many ids get half of \"snowflake.max_ahead\". %s", what_is_set) :
			 errdetail("%s", what_is_set),
			 errhint("If ids are needed faster than the layout provides them, give it more bits of lane or sequence, or raise \"snowflake.max_ahead\".")));
}

/* Deal with the bound that excludes a tick: move it, wait, or throw. */
void
BoundMakeRoom(const Layout *layout, const TickRange *range, uint64 tick,
			  CallWaits *waits)
{
	FoundMark	found;

	if (tick > (uint64) layout->last_tick)
	{
		uint64		begin = Max(range->floor, range->worker_start);

		if (begin > (uint64) layout->last_tick)
			throw_mark_exhausted(layout, range->worker, begin);
		ClockThrowExhausted(layout);
	}
	if (tick >= range->ahead_end)
	{
		wait_for_clock(layout, range, tick, range->ahead_end - range->now_tick - 1,
					   0, waits);
		return;
	}
	if (tick >= range->lease_end)
	{
		BoundWaitForLease(range->worker, waits);
		return;
	}
	switch (LimitMove(layout, range->worker, tick, true, &found))
	{
		case LIMIT_LOOK_AGAIN:
		case LIMIT_BUSY:
			break;
		case LIMIT_LOCKED:
			BoundWaitForMark(waits);
			break;
		case LIMIT_IS_FAR:
			if (found.tick > (uint64) layout->last_tick)
				throw_mark_exhausted(layout, range->worker, found.tick);
			wait_for_clock(layout, range, found.tick, found.ahead, found.tick, waits);
			break;
	}
}
