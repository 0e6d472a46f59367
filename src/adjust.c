/*-------------------------------------------------------------------------
 *
 * adjust.c
 *	  Moves the mark on demand: for a new extension, or an advance.
 *
 * Neither raises a limit.  LimitMove() waits for synchronous
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

#include "clock.h"
#include "decode.h"
#include "generator.h"
#include "lane.h"
#include "limit.h"
#include "settings.h"
#include "slot.h"

PG_FUNCTION_INFO_V1(snowflake_current_guard);
PG_FUNCTION_INFO_V1(snowflake_begin);
PG_FUNCTION_INFO_V1(snowflake_advance);

/* Open the mark and lock its pages, waiting until others are done with it. */
static void
open_mark(Mark *mark, MarkMode mode)
{
	CallWaits	waits = {0};
	MarkOpenResult result;

	while ((result = LimitOpenMark(mark, mode, true)) != MARK_OPENED)
	{
		if (result == MARK_LOCKED)
			LimitWaitForMark(&waits);
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
		mark.guard.bound = LimitBoundBelow(layout, LaneFurthestTick(layout) + 1);
		mark.guard.layout = layout->hash;
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
	Mark		mark;
	uint64		now_tick;
	uint64		tick;
	uint64		floor;
	int64		bound;
	FoundMark	found;
	CallWaits	waits = {0};

	PreventCommandDuringRecovery("snowflake_advance()");
	(void) GeneratorWorker();
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
	 * above the bound.  Another advance may have written that, and not have
	 * flushed it yet.
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
	bound = LimitBoundBelow(layout, tick);
	mark.guard.bound = Max(bound, mark.guard.bound);
	mark.guard.layout = layout->hash;
	begin_ids_at(&mark, tick);
	PG_RETURN_VOID();
}

/* current_guard(): the row of the materialized view */
Datum
snowflake_current_guard(PG_FUNCTION_ARGS)
{
	Guard		guard = MarkCurrentGuard();
	const int64 *columns = (const int64 *) &guard;
	bool		nulls[3] = {false};
	Datum		values[3];

	for (int i = 0; i < lengthof(values); i++)
		values[i] = Int64GetDatum(columns[i]);
	PG_RETURN_DATUM(CallRow(fcinfo, values, nulls, lengthof(values)));
}
