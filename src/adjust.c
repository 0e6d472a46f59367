/*-------------------------------------------------------------------------
 *
 * adjust.c
 *	  Moves the mark on demand: for a new extension, an advance, or a reset.
 *
 * None of the three raises a limit.  LimitMove() waits for synchronous
 * standbys before it raises one, so no id depends on the wait here.  It comes
 * after the mark is closed; if it is canceled, we only warn, as a commit does.
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
#include "clock.h"
#include "decode.h"
#include "generator.h"
#include "lane.h"
#include "limit.h"
#include "settings.h"

PG_FUNCTION_INFO_V1(snowflake_current_guard);
PG_FUNCTION_INFO_V1(snowflake_begin);
PG_FUNCTION_INFO_V1(snowflake_advance);
PG_FUNCTION_INFO_V1(snowflake_reset_mark);

/* Open the mark and lock its pages, waiting until others are done with it. */
static void
open_mark(Mark *mark, MarkMode mode)
{
	CallWaits	waits = {0};
	MarkOpenResult result;

	while ((result = LimitOpenMark(mark, mode, true)) != MARK_OPENED)
	{
		if (result == MARK_LOCKED)
			BoundWaitForMark(&waits);
	}
	if (!MarkLockPages(mark))
	{
		MarkClose(mark);
		MarkThrowDamaged();
	}
}

/* Unlock the pages and close the mark, without writing it. */
static void
leave_mark(Mark *mark)
{
	MarkUnlockPages(mark);
	MarkClose(mark);
}

/* Wait until the mark is flushed.  It must be closed. */
static void
flush_mark(XLogRecPtr lsn)
{
	while (!MarkFlush(lsn))
	{
		if (MarkNoticeReload())
			continue;
		/* what is written stays, so there is nothing left to cancel */
		QueryCancelPending = false;
		ereport(WARNING,
				(errmsg("canceled the wait for synchronous standbys"),
				 errdetail("The snowflake mark has already been changed here, but might not have been replicated to the standbys.")));
		break;
	}
}

/* Write the new contents of the mark, and close it. */
static void
write_mark(Mark *mark)
{
	XLogRecPtr	lsn = MarkWritePages(mark);

	MarkClose(mark);
	flush_mark(lsn);
}

/* Write the mark, and have new ids of this database begin at a tick. */
static void
begin_ids_at(Mark *mark, uint64 tick)
{
	/* sessions that notice the change wait for the guard's page: we hold it */
	LaneBeginChange();
	pg_atomic_write_u64(&my_slot->floor, tick);
	my_slot->closed_below = tick;
	my_slot->written = mark->guard.bound;
	LaneEndChange();
	write_mark(mark);
}

/*
 * begin(), the last call in the extension's script: begin with a mark that was
 * just created.  It is put above all ids made since the start of the server, in
 * any database, because the extension may have been dropped in this one before.
 */
Datum
snowflake_begin(PG_FUNCTION_ARGS)
{
	Worker		anybody = {.bits = 0};
	const Layout *layout;
	Mark		mark;

	SharedAttach();
	SlotEnter();
	open_mark(&mark, MARK_CREATE);

	/* the mark that covers the present limit is gone */
	SlotForget();

	/* without a layout there are no ids; looking must not fix the layout */
	layout = SharedLayoutIfFixed();
	if (layout != NULL && LaneFurthestTick(layout) > 0)
	{
		anybody.bits = WorkerMask(layout);
		mark.guard.bound = LimitBoundBelow(layout, &anybody, LaneFurthestTick(layout) + 1);
		/* which layouts these had is lost with the guard */
		mark.guard.layout = layout->hash;
		mark.guard.older = mark.guard.bound;
		write_mark(&mark);
	}
	else
		leave_mark(&mark);

	/* others make ids once they see the extension: a crash must not undo it */
	ForceSyncCommit();
	PG_RETURN_VOID();
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

/* advance(id bigint, force boolean): make new ids of this database greater. */
Datum
snowflake_advance(PG_FUNCTION_ARGS)
{
	int64		id = PG_GETARG_INT64(0);
	bool		force = PG_GETARG_BOOL(1);
	const Layout *layout;
	const Worker *worker;
	Mark		mark;
	uint64		now_tick;
	uint64		tick;
	uint64		floor;
	int64		bound;
	FoundMark	found;
	CallWaits	waits = {0};

	PreventCommandDuringRecovery("snowflake_advance()");
	worker = GeneratorWorker();
	layout = SharedLayout();
	LayoutCheckId(layout, id);
	if (force && !superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to force snowflake ids ahead of the clock")));

	now_tick = ClockTick(layout, ClockNow(layout, &waits));
	tick = LayoutGet(layout, FIELD_TIME, id) + 1;
	if (tick > LimitFarthest(layout, now_tick) + 1 && !force)
		refuse_advance(layout, id);

	open_mark(&mark, MARK_WRITE);

	/*
	 * Nothing changes if ids begin above it anyway.  After a start they begin
	 * above the bound, which must go on to show who wrote it.  Another
	 * advance may have written that, and not have flushed it yet.
	 */
	if (mark.value <= mark.guard.bound &&
		(my_slot->written == 0 ? id <= mark.guard.bound :
		 my_slot->written == mark.guard.bound && tick <= my_slot->closed_below))
	{
		leave_mark(&mark);
		flush_mark(mark.lsn);
		PG_RETURN_VOID();
	}
	LimitCheckFound(layout, &mark, now_tick, &found);
	if (found.is_far && mark.value > mark.guard.bound && !force)
	{
		int64		largest = LayoutLargestId(layout);

		leave_mark(&mark);
		refuse_advance(layout, Min(mark.value, largest));
	}

	/*
	 * Close windows even if the floor is high enough: LimitMove() raises the
	 * floor without closing the windows below it, whose next ids would be
	 * less than the given one.
	 */
	floor = pg_atomic_read_u64(&my_slot->floor);
	tick = Max(Max(tick, found.tick), floor);
	LimitNoteLayout(layout, &mark);
	bound = LimitBoundBelow(layout, worker, tick);
	mark.guard.bound = Max(bound, mark.guard.bound);
	begin_ids_at(&mark, tick);
	PG_RETURN_VOID();
}

/*
 * Whether a bound shows this worker as its writer, see LimitBoundBelow().  The
 * largest id of the layout shows none, and neither does what snowflake_begin()
 * writes, which looks like that of the worker with all bits set.
 */
static bool
is_written_by(const Layout *layout, const Worker *worker, int64 bound)
{
	int64		mask = WorkerMask(layout);
	int64		writer = (bound + 1) & mask;

	return bound < LayoutLargestId(layout) && writer != mask &&
		writer == (worker->bits & mask);
}

/* How a reset ends. */
typedef enum ResetResult
{
	RESET_DONE,
	RESET_NOT_NEEDED,
	RESET_NEEDS_RESTART,
	RESET_OTHER_LAYOUT,
	RESET_BY_WRITER
} ResetResult;

/*
 * Decide on a reset and, if it can be done, put it into the guard.  New ids will
 * begin at *tick; those made far ahead are at most *far_bound.
 */
static ResetResult
decide_reset(const Layout *layout, const Worker *worker, uint64 now_tick,
			 Mark *mark, uint64 *tick, int64 *far_bound)
{
	Guard	   *guard = &mark->guard;
	uint64		far_tick = now_tick + LimitAhead(layout) + LimitReservation(layout) + 2;
	int64		bound = Max(mark->value, guard->bound);
	bool		bound_is_far = LimitFirstTickAbove(layout, bound) >= far_tick;
	uint64		written_tick = LimitFirstTickAbove(layout, my_slot->written);
	uint64		older_tick = LimitFirstTickAbove(layout, guard->older);
	uint64		mark_tick = LimitFirstTickAbove(layout, mark->value);
	uint64		guard_tick = LimitFirstTickAbove(layout, guard->bound);

	*far_bound = bound_is_far ? bound : guard->others;
	if (!bound_is_far &&
		LimitStartAfterReset(layout, worker, guard) < far_tick)
		return RESET_NOT_NEEDED;
	if (LaneFurthestTick(layout) >= far_tick || written_tick >= far_tick)
		return RESET_NEEDS_RESTART;
	/* a restored dump does not show its layout */
	if (LimitIsOfOtherLayout(layout, guard) || older_tick >= far_tick)
		return RESET_OTHER_LAYOUT;
	if (!worker->leased && is_written_by(layout, worker, *far_bound))
		return RESET_BY_WRITER;

	/* if one of the two is near, ids begin above it */
	*tick = Max(Max(now_tick, written_tick), older_tick);
	if (mark_tick < far_tick)
		*tick = Max(*tick, mark_tick);
	if (guard_tick < far_tick)
		*tick = Max(*tick, guard_tick);
	guard->others = Max(guard->others, bound);
	guard->exempt = worker->leased ? -1 : worker->pair;
	guard->layout = layout->hash;
	guard->bound = LimitBoundBelow(layout, worker, *tick);
	return RESET_DONE;
}

/* What the argument of a reset means, and what else there is to do. */
static int
errhint_reset(void)
{
	return errhint("The argument is your statement that this worker id, which must be the one in force, has never made an id in this database. Give the server such a worker id, restart it, and pass that worker id. If there is none, do not reset the mark. " HINT_GO_ON);
}

/*
 * reset_mark(worker_id int): set the mark back to the clock, after the clock was
 * far ahead, or to the guard if only the mark is far ahead.  From then on only
 * the worker id keeps new ids apart from those made then, and no file shows
 * which have made ids there: the operator says that this one has not.
 *
 *		The worker that resets is exempt, as long as the layout stays.  Any other
 *		one that is not leased starts above what was made, and all start above
 *		the ids of other layouts.
 *
 * The guard records this, for workers that come back later.  A lease starts
 * above what was made under it.  The lanes of this server must not have reached
 * those ticks: lanes only move ahead, so going back takes a restart.
 */
Datum
snowflake_reset_mark(PG_FUNCTION_ARGS)
{
	int32		worker_id = PG_GETARG_INT32(0);
	const Layout *layout;
	const Worker *worker;
	Mark		mark;
	uint64		now_tick;
	uint64		tick;
	int64		far_bound;
	ResetResult result;
	CallWaits	waits = {0};

	PreventCommandDuringRecovery("snowflake_reset_mark()");
	worker = GeneratorWorker();
	layout = SharedLayout();
	if (WorkerMask(layout) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("snowflake mark cannot be reset in a layout without worker ids"),
				 errdetail("Only another worker id could keep new ids apart from those that were made ahead of the clock. The layout is \"%s\".",
						   LayoutToText(layout)),
				 errhint(HINT_GO_ON " If the sequence \"snowflake_internal.mark\" was set by hand, set it back by setval().")));
	if (worker_id != worker->id)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("worker id %d is not the one in force", worker_id),
				 errdetail("The worker id in force is " INT64_FORMAT ".", worker->id),
				 errhint_reset()));

	now_tick = ClockTick(layout, ClockNow(layout, &waits));
	open_mark(&mark, MARK_WRITE);
	result = decide_reset(layout, worker, now_tick, &mark, &tick, &far_bound);
	if (result == RESET_DONE)
		begin_ids_at(&mark, tick);
	else
		leave_mark(&mark);

	switch (result)
	{
		case RESET_DONE:
			ereport(NOTICE,
					(errmsg("snowflake mark was reset"),
					 errdetail("Ids with other worker ids begin above " INT64_FORMAT " in this database.",
							   mark.guard.others)));
			break;
		case RESET_NOT_NEEDED:
			ereport(NOTICE,
					(errmsg("snowflake mark is not too far ahead of the clock"),
					 errdetail("Nothing was reset. \"snowflake.max_ahead\" is %d%s.",
							   setting_max_ahead, setting_max_ahead < 0 ? "" : " ms")));
			break;
		case RESET_NEEDS_RESTART:
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("snowflake mark cannot be reset while ids of this server are far ahead of the clock"),
					 errdetail("They were made after the server was started."),
					 errhint("Restart the server.")));
			break;
		case RESET_OTHER_LAYOUT:
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("snowflake mark cannot be reset below ids of another layout"),
					 errdetail("Ids up to " INT64_FORMAT " might have the worker id in other bits, so that no worker id keeps new ids apart from them.",
							   far_bound),
					 errhint(HINT_GO_ON " If the layout was changed, you can also return to the old one.")));
			break;
		case RESET_BY_WRITER:
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("snowflake mark cannot be reset for the same worker id"),
					 errdetail("It has made ids up to " INT64_FORMAT ", and would make them again when the clock gets there.",
							   far_bound),
					 errhint_reset()));
			break;
	}
	PG_RETURN_VOID();
}

/* current_guard(): the row of the materialized view */
Datum
snowflake_current_guard(PG_FUNCTION_ARGS)
{
	Guard		guard = MarkCurrentGuard();
	const int64 *columns = (const int64 *) &guard;
	bool		nulls[6] = {false};
	Datum		values[6];

	for (int i = 0; i < lengthof(values); i++)
		values[i] = Int64GetDatum(columns[i]);
	PG_RETURN_DATUM(CallRow(fcinfo, values, nulls, lengthof(values)));
}
