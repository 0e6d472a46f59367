/*-------------------------------------------------------------------------
 *
 * adjust.c
 *	  Moves the mark on demand: for a new extension, an advance, or a reset.
 *
 * None of the three raises a limit.  LimitMove() waits for synchronous
 * standbys before it raises one, so no id depends on the wait here.  If that
 * wait is canceled, we only warn, as a commit does.
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
#include "slot.h"

PG_FUNCTION_INFO_V1(snowflake_current_guard);
PG_FUNCTION_INFO_V1(snowflake_begin);
PG_FUNCTION_INFO_V1(snowflake_advance);
PG_FUNCTION_INFO_V1(snowflake_reset_mark);


/* Open the mark, waiting until others are done with it. */
static void
open_mark(Mark *mark)
{
	int64		waited = 0;

	while (MarkOpen(mark, MARK_WAIT) != MARK_OPENED)
		BoundWaitForMark(&waited);
}

/* Write the new contents of the mark, and unlock it. */
static void
write_mark(Mark *mark)
{
	bool		finished = MarkFlush(MarkWritePages(mark), true);

	MarkClose(mark);
	if (!finished)
		ereport(WARNING,
				(errmsg("canceled the wait for synchronous standbys"),
				 errdetail("The snowflake mark has already been changed here, but might not have been replicated to the standbys.")));
}

/* Write the mark, and have new ids of this database begin at a tick. */
static void
begin_ids_at(Mark *mark, uint64 tick)
{
	/* sessions that notice the change wait for the guard's page: we hold it */
	LaneBeginChange();
	pg_atomic_write_u64(&my_slot->floor, tick);
	my_slot->closed = tick;
	my_slot->written = mark->guard.bound;
	LaneEndChange();
	write_mark(mark);
}

/*
 * Begin with a mark that was just created.  It is put above all ids made since
 * the start of the server, in any database, because the extension may have
 * been dropped in this one before.
 */
static void
AdjustBegin(void)
{
	Worker		anybody = {.bits = 0};
	const Layout *layout;
	Mark		mark;

	SharedAttach();
	SlotEnter();
	open_mark(&mark);
	MarkLockPages(&mark);

	/* the mark that covers the present limit is gone */
	SlotForget();

	/* without a layout there are no ids; looking must not fix the layout */
	layout = SharedLayoutIfFixed();
	if (layout != NULL && LaneFurthestTick(layout) > 0)
	{
		anybody.bits = WorkerMask(layout);
		mark.guard.bound = LimitMarkBelow(layout, &anybody, LaneFurthestTick(layout) + 1);
		write_mark(&mark);
	}
	else
		MarkLeave(&mark);

	/* others make ids once they see the extension: a crash must not undo it */
	ForceSyncCommit();
}

static void
refuse_advance(const Layout *layout, int64 id)
{
	const char *time =
	timestamptz_to_str(LayoutTickToTime(layout, LayoutGet(layout, FIELD_TIME, id)));

	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("snowflake ids cannot be advanced too far ahead of the clock"),
			 setting_max_ahead < 0 ?
			 errdetail("The time of the id " INT64_FORMAT " is %s. Neither the clock nor other ids have reached it, and \"snowflake.max_ahead\" is -1.",
					   id, time) :
			 errdetail("The time of the id " INT64_FORMAT " is %s. It can be ahead of the clock by half of \"snowflake.max_ahead\", which is %d ms.",
					   id, time, setting_max_ahead),
			 errhint("Check that the id is of the layout in force. A superuser can call snowflake_advance() with force => true.")));
}

/* Make new ids of this database greater than a given id. */
static void
AdjustAdvance(int64 id, bool force)
{
	const Layout *layout;
	const Worker *worker;
	Mark		mark;
	uint64		now_tick;
	uint64		tick;
	uint64		found_tick;
	uint64		found_ahead;

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

	/*
	 * Nothing changes if ids begin above it anyway.  After a start they begin
	 * above the bound, which must go on to show who wrote it.
	 */
	if (mark.value <= mark.guard.bound &&
		(my_slot->written == 0 ? id <= mark.guard.bound :
		 my_slot->written == mark.guard.bound && tick <= my_slot->closed))
	{
		MarkLeave(&mark);
		return;
	}
	found_tick = LimitTickFound(layout, &mark, now_tick, &found_ahead);
	if (LimitTickIsFar(layout, found_tick, now_tick, found_ahead) &&
		mark.value > mark.guard.bound && !force)
	{
		MarkLeave(&mark);
		refuse_advance(layout, Min(mark.value, LayoutLargestId(layout)));
	}

	/*
	 * Close windows even if the floor is high enough: LimitMove() raises the
	 * floor without closing the windows below it, whose next ids would be
	 * less than the given one.
	 */
	tick = Max(Max(tick, found_tick), pg_atomic_read_u64(&my_slot->floor));
	mark.guard.bound = Max(LimitMarkBelow(layout, worker, tick), mark.guard.bound);
	begin_ids_at(&mark, tick);
}

/*
 * Whether this worker may have written a bound, see LimitMarkBelow().  A bound
 * shows only its last writer.  The largest id of the layout shows none, and
 * neither does what AdjustBegin() writes.
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
 * Set the mark back to the clock, after the clock was far ahead, or to the
 * guard if only the mark is far ahead.  The worker id keeps new ids apart from
 * those made then:
 *
 *		The worker that resets must have made no ids there.  It alone is
 *		exempt: any other one that is not leased starts above what was made.
 *
 * So a worker id that comes back, by a reload, in a long statement or on a
 * promoted standby, does not use those ticks again.  The guard records all
 * this.  The lanes of this server must not have reached those ticks either:
 * lanes only move ahead, so going back takes a restart.
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
				 errmsg("snowflake mark cannot be reset while \"snowflake.max_ahead\" is -1"),
				 errhint("Set \"snowflake.max_ahead\" to 0 or more, and reload.")));

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
		LimitTickAbove(layout, my_slot->written) >= far_tick)
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
				 errdetail("Ids up to " INT64_FORMAT " might have been made with it, and would be made again when the clock gets there.",
						   Max(Max(mark.value, guard->bound), guard->others)),
				 errhint("Give the server a worker id that has never been used, restart it, and call snowflake_reset_mark().")));

	if (bound_is_far)
	{
		/* if the guard is near, it was SQL that set the mark far ahead */
		guard->others = Max(guard->others, Max(mark.value, guard->bound));
		near_tick = LimitTickAbove(layout, guard->bound);
		if (near_tick >= far_tick)
			near_tick = 0;
	}
	near_tick = Max(Max(near_tick, now_tick), LimitTickAbove(layout, my_slot->written));
	guard->exempt = worker->pair;
	guard->bound = LimitMarkBelow(layout, worker, near_tick);
	begin_ids_at(&mark, near_tick);
	ereport(NOTICE,
			(errmsg("snowflake mark was reset"),
			 errdetail("Ids with other worker ids begin above " INT64_FORMAT " in this database.",
					   mark.guard.others)));
}

/* begin(): the last call in the extension's script */
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
