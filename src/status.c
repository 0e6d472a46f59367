/*-------------------------------------------------------------------------
 *
 * status.c
 *	  What snowflake_status() and snowflake_stat() show.
 *
 * Looking does not move the mark, believe the clock, fix the layout, or wait
 * for anything.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "utils/builtins.h"

#include "snowflake.h"

PG_FUNCTION_INFO_V1(snowflake_status);
PG_FUNCTION_INFO_V1(snowflake_stat);
PG_FUNCTION_INFO_V1(snowflake_stat_reset);

typedef struct Status
{
	const Layout *layout;		/* NULL: the setting is unusable */
	Worker		worker;
	DatabaseSlot *slot;			/* of the database, or one that it can take */
	bool		has_mark;		/* it could be read: */
	Mark		mark;
	bool		has_written;	/* this server has written it */
} Status;

static void
status_get(Status *status)
{
	memset(status, 0, sizeof(Status));
	status->layout = SharedLayoutIfFixed();
	if (status->layout == NULL && SettingsLayoutIsUsable())
		status->layout = &setting_layout;
	status->slot = SlotPeek();
	WorkerGet(&status->worker);
	status->has_mark = LimitPeek(status->layout, status->slot, &status->mark,
								 &status->has_written);
}

/*
 * What a call for an id would find of a mark that can be read, as far as that
 * can be told without making one.
 */
static const char *
status_of_mark(const Status *status, ClockReading *reading, const char **hint)
{
	const Layout *layout = status->layout;
	int64		limit = status->has_written ?
	pg_atomic_read_u64(&status->slot->limit) : 0;
	int64		lease_end = WorkerLeaseEnd(&status->worker);
	int64		ahead = LimitAhead(layout);
	int64		last_tick = LaneLastTick(layout);
	int64		first = LimitFloor(layout, limit);	/* that is left */
	int64		ids_tick;
	int64		capped;
	bool		is_beyond_lease;
	FoundMark	found;

	LimitFind(layout, &status->mark, status->has_written, reading->ids,
			  &found);
	is_beyond_lease = LimitFollowLease(layout, lease_end, reading);
	ids_tick = LayoutTick(layout, reading->ids);
	/* a mark that was set counts from the next move of the limit on */
	if (ids_tick <= layout->last_tick && Max(ids_tick, first) < limit)
		memset(&found, 0, sizeof(found));
	first = Max(first, found.tick);

	*hint = ids_tick <= layout->last_tick ? HINT_FAR_MARK :
		HINT_CLOCK_EXHAUSTED;
	if (Max(ids_tick, first) > layout->last_tick)
		return "exhausted";

	*hint = WorkerLeaseWords()->hint;
	if (status->worker.leased &&
		(Max(Max(ids_tick, first), last_tick) >= lease_end ||
		 !WaitIsPossible(layout, is_beyond_lease ? Max(first, last_tick) :
						 status->worker.lease_start, ahead, NULL, reading)))
		return "no lease";

	/* what max_set_back takes away, but for noise */
	capped = reading->time + reading->set_back - reading->ids;
	*hint = capped > CLOCK_SMALLEST_STEP ?
		HINT_GO_ON("max_set_back") : found.is_far ? HINT_FAR_MARK :
		reading->ids < layout->epoch ? HINT_EPOCH : HINT_GO_ON("max_ahead");
	if ((found.is_far &&
		 !WaitIsPossible(layout, found.tick, found.ahead, &found, reading)) ||
		!WaitIsPossible(layout, Max(first, last_tick), ahead, NULL, reading))
		return "too far ahead";

	*hint = !SettingsLayoutIsUsable() ||
		memcmp(layout, &setting_layout, sizeof(Layout)) == 0 ? "" :
		"The setting \"snowflake.layout\" was changed. Restart the server, so that this takes effect.";
	return "ready";
}

/*
 * What would happen to a call for an id.  *hint is what to do next, "" if
 * there is nothing to do.
 */
static const char *
status_get_state(const Status *status, const char **hint)
{
	const Guard *guard = &status->mark.guard;
	ClockReading reading;
	const char *unusable = NULL;

	*hint = "Make ids on the primary. After a promotion they are made here.";
	if (RecoveryInProgress())
		return "standby";

	if (SettingsProblem() != NULL)
		unusable = SettingsProblem()->name;
	else if (status->layout != NULL)
		unusable = WorkerUnfit(&status->worker, status->layout);
	if (unusable != NULL)
	{
		*hint = psprintf("Correct \"%s\" in the server's configuration, and reload or restart the server. The error of snowflake_nextval() says more.",
						 unusable);
		return "unusable settings";
	}

	*hint = WorkerLeaseWords()->hint;
	if (status->worker.id < 0)
		return "no lease";

	*hint = "Try again when sessions in other databases have ended.";
	if (status->slot == NULL)
		return "too many databases";

	*hint = "Call snowflake_nextval(): its error says whether to wait for a transaction that changes the mark, or how to create the mark again.";
	if (!status->has_mark)
		return "no mark";

	/* a call would let the id clock go on from that of the mark */
	reading = ClockPeek(guard->bound != 0 ? guard->clock : DT_NOBEGIN);
	*hint = HINT_CLOCK_REFUSED;
	if (reading.refused)
		return "clock refused";

	return status_of_mark(status, &reading, hint);
}

/* A row, put together column by column. */
typedef struct Row
{
	Datum		values[16];
	bool		nulls[16];
	int			number;
} Row;

static void
status_add(Row *row, Datum value, bool isnull)
{
	row->values[row->number] = value;
	row->nulls[row->number++] = isnull;
}

/* When a tick of a layout begins. */
static void
status_add_tick(Row *row, const Layout *layout, int64 tick, bool isnull)
{
	status_add(row, TimestampTzGetDatum(LayoutTickToTimeCapped(layout, tick)),
			   isnull);
}

/* How far it is ahead of the clock. */
static void
status_add_ahead(Row *row, const Layout *layout, int64 tick, bool isnull)
{
	Interval   *ahead = palloc0(sizeof(Interval));

	if (!isnull)
		ahead->time = LayoutTickToTimeCapped(layout, tick) -
			GetCurrentTimestamp();
	status_add(row, IntervalPGetDatum(ahead), isnull);
}

/* status() */
Datum
snowflake_status(PG_FUNCTION_ARGS)
{
	Status		status;
	const Layout *layout;
	const Worker *worker = &status.worker;
	const char *state;
	const char *hint;
	int64		mark;
	int64		last_tick;
	bool		has_lease;
	Row			row = {.number = 0};

	status_get(&status);
	state = status_get_state(&status, &hint);
	has_lease = status.layout != NULL && worker->leased && worker->id >= 0;
	/* what goes by it is NULL if there is none */
	layout = status.layout != NULL ? status.layout : &setting_layout;
	mark = Max(status.mark.value, status.mark.guard.bound);
	last_tick = LaneLastTick(layout);

	status_add(&row, CStringGetTextDatum(state), false);
	status_add(&row, CStringGetTextDatum(hint), *hint == '\0');
	status_add(&row, Int32GetDatum((int32) worker->id), worker->id < 0);
	status_add(&row, CStringGetTextDatum(worker->leased ? "registry" : "setting"), false);
	status_add(&row, Int32GetDatum(setting_datacenter_id), false);
	status_add(&row, CStringGetTextDatum(LayoutToText(layout)),
			   status.layout == NULL);
	status_add(&row, Int64GetDatum(LaneIdsPerSecond(layout)),
			   status.layout == NULL);
	status_add(&row, TimestampTzGetDatum(LayoutLastInstant(layout)),
			   status.layout == NULL);
	/* of all databases, since the start */
	status_add_ahead(&row, layout, last_tick,
					 status.layout == NULL || last_tick == 0);
	status_add(&row, Int64GetDatum(mark), !status.has_mark);
	/* a mark of 0 has no time: no ids have been made yet */
	status_add_ahead(&row, layout, mark >> layout->shift[FIELD_TIME],
					 status.layout == NULL || mark == 0);
	status_add(&row, CStringGetTextDatum(WorkerLeaseWords()->name),
			   !worker->leased);
	status_add_tick(&row, layout, worker->lease_start, !has_lease);
	status_add_tick(&row, layout, WorkerLeaseEnd(worker), !has_lease);
	status_add(&row, CStringGetTextDatum(snowflake_version), false);
	status_add(&row, BoolGetDatum(settings_are_preloaded), false);
	PG_RETURN_DATUM(CallRow(fcinfo, row.values, row.nulls, row.number));
}

/* stat() */
Datum
snowflake_stat(PG_FUNCTION_ARGS)
{
	Datum		values[NUM_STATS];
	bool		nulls[NUM_STATS] = {false};

	SharedAttach();
	/* a session must see its own counts */
	StatsFold();
	for (int i = 0; i < NUM_STATS; i++)
	{
		uint64		counter = pg_atomic_read_u64(&shared->counters[i]);

		if (i == STATS_WAIT_TIME || i == STATS_MARK_FLUSH_TIME ||
			i == STATS_LARGEST_STEP_BACK)
			values[i] = Float8GetDatum(counter / 1000.0);
		else
			values[i] = Int64GetDatum(counter);
	}
	nulls[STATS_LAST_STEP_BACK] =
		DatumGetInt64(values[STATS_LAST_STEP_BACK]) == 0;
	PG_RETURN_DATUM(CallRow(fcinfo, values, nulls, lengthof(values)));
}

/* stat_reset() */
Datum
snowflake_stat_reset(PG_FUNCTION_ARGS)
{
	SharedAttach();
	StatsReset();
	PG_RETURN_VOID();
}
