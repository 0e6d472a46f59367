/*-------------------------------------------------------------------------
 *
 * adjust.c
 *	  Moves the mark on demand: for a new extension, or an advance.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"

#include "snowflake.h"

PG_FUNCTION_INFO_V1(snowflake_begin);
PG_FUNCTION_INFO_V1(snowflake_advance);

/*
 * begin(), the last call in the extension's script: begin with a mark that was
 * just created.  It is put above all ids made since the start of the server,
 * in any database, because the extension may have been dropped in this one
 * before.
 */
Datum
snowflake_begin(PG_FUNCTION_ARGS)
{
	const Layout *layout;
	ClockReading reading;
	Mark		mark;
	int64		last_tick;

	SharedAttach();
	reading = ClockPeek(DT_NOBEGIN);
	SlotEnter();
	/* nobody else can have locked or damaged what is not committed yet */
	if (MarkOpen(&mark, MARK_CREATE) != MARK_OPENED || !MarkLockPages(&mark))
		elog(ERROR, "could not write a new mark");

	/* the mark that covers the present limit is gone */
	SlotForget();

	/* without a layout there are no ids; looking must not fix the layout */
	layout = SharedLayoutIfFixed();
	last_tick = layout != NULL ? LaneLastTick(layout) : 0;
	if (last_tick > 0)
		(void) MarkWritePages(&mark, LayoutLastIdBefore(layout, last_tick + 1),
							  reading.time + reading.set_back);
	else
		MarkUnlockPages(&mark);
	MarkClose(&mark);

	/* others make ids once they see the extension: a crash must not undo it */
	ForceSyncCommit();
	PG_RETURN_VOID();
}

static void
adjust_refuse_advance(const Layout *layout, int64 id)
{
	int64		tick = LayoutGet(layout, FIELD_TIME, id);
	const char *time = timestamptz_to_str(LayoutTickToTime(layout, tick));

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
	ClockReading reading;
	int64		tick;
	int64		ids_tick;
	LimitResult result;
	FoundMark	found;

	PreventCommandDuringRecovery("snowflake_advance()");
	WaitBegin();
	(void) GeneratorConfigure();
	layout = SharedLayout();
	LayoutCheckId(layout, id);
	if (force && !superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to force snowflake ids ahead of the clock")));

	tick = LayoutGet(layout, FIELD_TIME, id) + 1;
	/* until a limit with this floor is on disk */
	while (LimitFloor(layout, pg_atomic_read_u64(&my_slot->limit)) < tick)
	{
		CHECK_FOR_INTERRUPTS();
		worker = GeneratorConfigure();
		reading = WaitReadClock(layout);
		ids_tick = LayoutTick(layout, reading.ids);
		if (!force && tick > LimitMaxAdvance(layout, ids_tick) + 1)
			adjust_refuse_advance(layout, id);
		result = LimitMove(layout, worker, tick,
						   force ? LIMIT_FORCE : LIMIT_ADVANCE, &reading,
						   &found);
		if (result == LIMIT_LOCKED)
			WaitForMark();
		else if (result == LIMIT_IS_FAR)
			adjust_refuse_advance(layout,
								  LayoutLastIdBefore(layout, found.tick));
	}
	PG_RETURN_VOID();
}
