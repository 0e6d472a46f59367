/*-------------------------------------------------------------------------
 *
 * bound.c
 *	  Moves the bounds of the ticks that a call may use, or waits for them.
 *
 * generator.c lists the bounds.  Whatever these functions do, the caller looks
 * at all bounds again.
 *
 * A call waits for at most snowflake.max_wait, not counting the time in which
 * it moves the limit.  The caller keeps "waited", which is 0 at first.
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


/* Wait for a lease, or for ours to be extended. */
void
BoundWaitForLease(const Worker *worker, int64 *waited)
{
	if (ClockKeepWaiting(10000, WAIT_LEASE, 0, waited))
		return;

	ereport(ERROR,
			(errcode(ERRCODE_SNOWFLAKE_NO_LEASE),
			 errmsg("server has no lease of a worker id for snowflake ids"),
			 worker->id < 0 ? 0 :
			 errdetail("Its lease of worker id " INT64_FORMAT " is for ids before %s.",
					   worker->id,
					   timestamptz_to_str(LayoutTickInstant(SharedLayout(), WorkerLeaseEnd(worker)))),
			 errhint("%s", WorkerLeaseWords()->hint)));
}

/* Wait for a transaction that changes or drops a relation of the mark. */
void
BoundWaitForMark(int64 *waited)
{
	if (!ClockKeepWaiting(10000, WAIT_MARK, 0, waited))
		MarkThrowLocked();
}

/* Report a mark that leaves no tick to the layout. */
static void
throw_mark_exhausted(const Layout *layout, const Worker *worker, uint64 tick)
{
	ereport(ERROR,
			(errcode(ERRCODE_SNOWFLAKE_LAYOUT_EXHAUSTED),
			 errmsg("snowflake layout has no tick left above the mark"),
			 errdetail("At least the ids up to " INT64_FORMAT " are taken in this database, and the largest id of the layout \"%s\" is " INT64_FORMAT ".",
					   LimitMarkBelow(layout, worker, tick),
					   LayoutToText(layout), LayoutLargestId(layout)),
			 errhint("If the layout was changed, choose one whose ids are greater than those of the old one. If the sequence \"snowflake_internal.mark\" was set by hand, correct it.")));
}

/*
 * Wait for the clock to come near enough to a tick.  Throws an error once the
 * call has waited long enough.  The tick can be "ahead" of the clock by so
 * many ticks.  "mark_tick" is the tick itself if it is the first one above a
 * mark that was found on disk, or 0.
 */
static void
wait_for_clock(const Layout *layout, const TickRange *range, uint64 tick,
			   uint64 ahead, uint64 mark_tick, int64 *waited)
{
	uint64		reservation = LimitReservation(layout);
	uint64		begin = Max(mark_tick, Max(range->floor, range->start));
	int64		at_least = 0;
	int64		missing;
	TimestampTz now = ClockLook();
	uint64		now_tick = ClockTick(layout, now);

	/* the clock may have come near enough since the caller looked */
	if (tick <= now_tick + ahead)
		return;
	missing = LayoutTickToTime(layout, tick - ahead) - now;

	/*
	 * After a start the mark is up to a reservation ahead of the last id.
	 * Wait that long even beyond max_wait, so that a restart alone causes no
	 * error, unless the session is greedy and max_ahead small.  Add 2: the
	 * limit is the tick after the reservation, and if the mark is in that
	 * tick, ids begin in the one after it.
	 */
	if (mark_tick != 0 && tick - ahead - now_tick <= reservation + 2)
		at_least = (reservation + 2) * layout->tick;

	/* look again now and then, in case the clock is corrected */
	if (ClockKeepWaiting(Max(Min(missing, 100000), 1), WAIT_CLOCK, at_least, waited))
		return;

	if (mark_tick == 0 && range->worker->start > now_tick + ahead)
		ereport(ERROR,
				(errcode(ERRCODE_SNOWFLAKE_NO_LEASE),
				 errmsg("lease of a worker id for snowflake ids begins ahead of the clock"),
				 errdetail("The lease is for worker id " INT64_FORMAT " and for ids from %s on. The clock has to advance by another %.3f ms before the first id.",
						   range->worker->id,
						   timestamptz_to_str(LayoutTickInstant(layout, range->worker->start)),
						   missing / 1e3),
				 errhint("Wait until the clock gets there: the lease begins above all ids that others can have made with this worker id. No other worker id was free, or the registry might have lost grants.")));
	if (begin > now_tick + ahead)
		ereport(ERROR,
				(errcode(ERRCODE_SNOWFLAKE_TOO_FAR_AHEAD),
				 errmsg("snowflake ids are too far ahead of the clock"),
				 errdetail("Ids up to " INT64_FORMAT " are taken in this database, and the clock of the server allows ids from " INT64_FORMAT " on. It has to advance by another %.3f ms before the next id. \"snowflake.max_ahead\" is %d%s, and \"snowflake.max_wait\" is %d ms.",
						   LimitMarkBelow(layout, range->worker, begin),
						   LayoutPut(layout, FIELD_TIME, now_tick) | range->worker->bits,
						   missing / 1e3, setting_max_ahead,
						   setting_max_ahead < 0 ? "" : " ms", setting_max_wait),
				 errhint("If the clock was set back, wait until it has caught up, or raise \"snowflake.max_ahead\". If it was far ahead before, give the server a worker id that has never been used, restart it, and call snowflake_reset_mark(). If the layout or its epoch was changed, choose a layout whose ids are greater than those of the old one. If the sequence \"snowflake_internal.mark\" was set by hand, correct it.")));
	ereport(ERROR,
			(errcode(ERRCODE_SNOWFLAKE_TOO_FAR_AHEAD),
			 errmsg("snowflake ids are too far ahead of the clock"),
			 errdetail("The clock has to advance by another %.3f ms before the next id. \"snowflake.max_ahead\" is %d ms, and \"snowflake.max_wait\" is %d ms.",
					   missing / 1e3, setting_max_ahead, setting_max_wait),
			 errhint("If ids are needed faster than the layout provides them, give it more bits of lane or sequence, or raise \"snowflake.max_ahead\".")));
}

/* Deal with the bound that excludes a tick: move it, wait, or throw. */
void
BoundMakeRoom(const Layout *layout, const TickRange *range, uint64 tick,
			  int64 *waited)
{
	uint64		mark_tick;
	uint64		mark_ahead;

	if (tick > (uint64) layout->last_tick)
	{
		if (range->floor > (uint64) layout->last_tick)
			throw_mark_exhausted(layout, range->worker, range->floor);
		ClockThrowExhausted(layout);
	}
	if (tick >= range->ahead_end)
	{
		wait_for_clock(layout, range, tick, range->ahead_end - range->now_tick - 1,
					   0, waited);
		return;
	}
	if (tick >= range->lease_end)
	{
		BoundWaitForLease(range->worker, waited);
		return;
	}
	switch (LimitMove(layout, range->worker, range->version, tick, true,
					  &mark_tick, &mark_ahead))
	{
		case LIMIT_MOVED:
		case LIMIT_BUSY:
			break;
		case LIMIT_LOCKED:
			BoundWaitForMark(waited);
			break;
		case LIMIT_IS_FAR:
			if (mark_tick > (uint64) layout->last_tick)
				throw_mark_exhausted(layout, range->worker, mark_tick);
			wait_for_clock(layout, range, mark_tick, mark_ahead, mark_tick, waited);
			break;
	}
}
