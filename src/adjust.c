/*-------------------------------------------------------------------------
 *
 * adjust.c
 *	  The mark moved on demand: a new extension, advance, reset.
 *
 * None of the three publishes a limit, so no id depends on the standbys having
 * what they write; the next LimitMove() waits for that.  A canceled wait for
 * synchronous standbys therefore gives a warning, as at a commit.
 *
 * snowflake/src/adjust.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "bound.h"
#include "call.h"
#include "clock.h"
#include "generator.h"
#include "lane.h"
#include "limit.h"
#include "settings.h"

PG_FUNCTION_INFO_V1(snowflake_current_guard);
PG_FUNCTION_INFO_V1(snowflake_begin);
PG_FUNCTION_INFO_V1(snowflake_advance);
PG_FUNCTION_INFO_V1(snowflake_reset_mark);


/* Open the mark, waiting for all who are at it. */
static void
open_mark(Mark *mark)
{
	int64		wait_start = 0;

	while (MarkOpen(mark, MARK_WAIT) != MARK_OPENED)
		BoundWaitForMark(&wait_start);
}

/* Write what the mark is to be, and unlock it. */
static void
write_mark(Mark *mark)
{
	bool		finished = MarkFlush(MarkWritePages(mark), true);

	MarkClose(mark);
	if (!finished)
		ereport(WARNING,
				(errmsg("canceled the wait for synchronous standbys"),
				 errdetail("The snowflake mark has already been changed here, but may not have been replicated to the standbys.")));
}

/* Write the mark, and let ids of this database begin in a tick. */
static void
begin_ids_at(Mark *mark, uint64 tick)
{
	/* a session that reads the guard again waits for its page */
	LaneBeginChange();
	pg_atomic_write_u64(&limit_slot->floor, tick);
	limit_slot->closed = tick;
	limit_slot->written = mark->guard.bound;
	LaneEndChange();
	write_mark(mark);
}

/*
 * Begin with a mark that was just created.  Ids that were made since the start
 * of the server are below it, in whatever database they were made, as the
 * extension may have been dropped in this one.
 */
static void
AdjustBegin(void)
{
	Worker		anybody = {.bits = 0};
	const Layout *layout;
	Mark		mark;

	SharedAttach();
	LimitEnter();
	open_mark(&mark);
	MarkLockPages(&mark);

	/* the limit rests upon the old mark, which the new one does not know */
	LimitForget();

	/* no layout, no ids; and looking must not fix it */
	layout = SharedLayoutIfFixed();
	if (layout != NULL && LaneFurthestTick(layout) > 0)
	{
		anybody.bits = WorkerMask(layout);
		mark.guard.bound = LimitMarkBelow(layout, &anybody, LaneFurthestTick(layout) + 1);
		write_mark(&mark);
	}
	else
		MarkLeave(&mark);

	/* others make ids as soon as they see the extension: it must not get lost */
	ForceSyncCommit();
}

static void
refuse_advance(const Layout *layout, int64 id)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("snowflake ids cannot be advanced too far ahead of the clock"),
			 errdetail("The id " INT64_FORMAT " is of %s, and \"snowflake.max_ahead\" is %d ms.",
					   id, timestamptz_to_str(LayoutTickToTime(layout, LayoutGet(layout, FIELD_TIME, id))),
					   setting_max_ahead),
			 errhint("Check that the id is of the layout in force. A superuser can call snowflake_advance() with force => true.")));
}

/* See to it that new ids of this database are greater than this one. */
static void
AdjustAdvance(int64 id, bool force)
{
	const Layout *layout;
	const Worker *worker;
	Mark		mark;
	uint64		now_tick;
	uint64		tick;
	uint64		found_tick;
	bool		is_far;

	PreventCommandDuringRecovery("snowflake_advance()");
	worker = GeneratorWorker();
	layout = SharedLayout();
	LayoutCheckId(layout, id);
	if (force && !superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to force snowflake ids ahead of the clock")));

	now_tick = ClockTick(layout, ClockLook());
	tick = LayoutGet(layout, FIELD_TIME, id) + 1;
	if (tick > LimitFarthest(layout, now_tick) + 1 && !force)
		refuse_advance(layout, id);

	open_mark(&mark);
	MarkCheckStays(&mark);
	MarkLockPages(&mark);
	if (tick <= limit_slot->closed &&
		limit_slot->written == mark.guard.bound &&
		mark.value <= mark.guard.bound)
	{
		MarkLeave(&mark);
		return;
	}
	found_tick = LimitTickFound(layout, &mark, now_tick, &is_far);
	if (is_far && mark.value > mark.guard.bound && !force)
	{
		MarkLeave(&mark);
		refuse_advance(layout, Min(mark.value, LayoutLargestId(layout)));
	}

	/*
	 * Close windows even if the floor is high enough: LimitMove() raises it
	 * without closing those below, whose next ids would be below this one.
	 */
	tick = Max(Max(tick, found_tick), pg_atomic_read_u64(&limit_slot->floor));
	mark.guard.bound = Max(LimitMarkBelow(layout, worker, tick), mark.guard.bound);
	begin_ids_at(&mark, tick);
}

/*
 * Whether a bound may be that of the same worker, see LimitMarkBelow().  It
 * shows only who has written it last.
 */
static bool
is_written_by(const Layout *layout, const Worker *worker, int64 bound)
{
	int64		mask = WorkerMask(layout);

	return bound >= LayoutLargestId(layout) ||
		((bound + 1) & mask) == mask ||
		((bound + 1) & mask) == (worker->bits & mask);
}

/*
 * Set the mark back to the clock, after the clock was far ahead.  Ids that
 * were made then are kept apart from new ones by the worker id:
 *
 *		The worker that resets must have made no ids there.  It alone is
 *		exempt: any other one that is not leased starts above what was made.
 *
 * So a worker id that comes back, with a reload, a long statement or a
 * promoted standby, does not live those ticks again.  All of that is in the
 * guard.  The lanes of this server must not have been there, as they only
 * move ahead: that takes a restart.
 */
static void
AdjustReset(bool force)
{
	const Layout *layout;
	const Worker *worker;
	Mark		mark;
	Guard	   *guard = &mark.guard;
	uint64		now_tick;
	uint64		far_tick;
	uint64		near_tick;
	bool		bound_is_far;
	bool		others_are_far;

	PreventCommandDuringRecovery("snowflake_reset_mark()");
	worker = GeneratorWorker();
	layout = SharedLayout();
	if (setting_max_ahead < 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("snowflake mark cannot be reset while ids may be any time ahead of the clock"),
				 errhint("Set \"snowflake.max_ahead\" to something else than -1, and reload.")));

	open_mark(&mark);
	MarkCheckStays(&mark);
	now_tick = ClockTick(layout, ClockLook());
	far_tick = now_tick + LimitAhead(layout) + LimitReservation(layout) + 2;
	MarkLockPages(&mark);
	near_tick = LimitTickAbove(layout, Max(mark.value, guard->bound));
	bound_is_far = near_tick >= far_tick;
	others_are_far = LimitTickOf(layout, worker, guard) >= far_tick;
	if (!bound_is_far && !others_are_far)
	{
		MarkLeave(&mark);
		ereport(NOTICE,
				(errmsg("snowflake mark is not too far ahead of the clock"),
				 errdetail("Nothing was reset.")));
		return;
	}

	if (LaneFurthestTick(layout) >= far_tick ||
		LimitTickAbove(layout, limit_slot->written) >= far_tick)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("snowflake mark cannot be reset while ids of this server are far ahead of the clock"),
				 errdetail("They have been made since the server was started."),
				 errhint("Restart the server.")));
	if (!force &&
		((bound_is_far && (is_written_by(layout, worker, mark.value) ||
						   is_written_by(layout, worker, guard->bound))) ||
		 (others_are_far && is_written_by(layout, worker, guard->others))))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("snowflake mark cannot be reset for the same worker id"),
				 errdetail("Ids up to " INT64_FORMAT " may have been made with it, and would be made again when the clock gets there.",
						   Max(Max(mark.value, guard->bound), guard->others)),
				 errhint("Give the server a \"snowflake.worker_id\" that has never been used, restart it, and call snowflake_reset_mark().")));

	if (bound_is_far)
	{
		guard->others = Max(guard->others, Max(mark.value, guard->bound));
		near_tick = 0;
	}
	near_tick = Max(Max(near_tick, now_tick), LimitTickAbove(layout, limit_slot->written));
	guard->exempt = worker->pair;
	guard->bound = LimitMarkBelow(layout, worker, near_tick);
	begin_ids_at(&mark, near_tick);
	ereport(NOTICE,
			(errmsg("snowflake mark was reset"),
			 errdetail("Ids with other worker ids begin above " INT64_FORMAT " in this database.",
					   mark.guard.others)));
}

/* begin(): what the extension's script ends with */
Datum
snowflake_begin(PG_FUNCTION_ARGS)
{
	AdjustBegin();
	PG_RETURN_VOID();
}

/* advance(id bigint, force boolean) */
Datum
snowflake_advance(PG_FUNCTION_ARGS)
{
	AdjustAdvance(PG_GETARG_INT64(0), PG_GETARG_BOOL(1));
	PG_RETURN_VOID();
}

/* reset_mark(force boolean) */
Datum
snowflake_reset_mark(PG_FUNCTION_ARGS)
{
	AdjustReset(PG_GETARG_BOOL(0));
	PG_RETURN_VOID();
}

/* current_guard(): the row of the materialized view */
Datum
snowflake_current_guard(PG_FUNCTION_ARGS)
{
	Guard		guard = MarkCurrentGuard();
	bool		nulls[3] = {false};
	Datum		values[3];

	values[0] = Int64GetDatum(guard.bound);
	values[1] = Int64GetDatum(guard.exempt);
	values[2] = Int64GetDatum(guard.others);
	PG_RETURN_DATUM(CallRow(fcinfo, values, nulls));
}
