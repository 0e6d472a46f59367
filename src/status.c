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

#include "access/htup_details.h"
#include "access/xlog.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "decode.h"
#include "extension.h"
#include "lane.h"
#include "limit.h"
#include "settings.h"
#include "slot.h"
#include "stats.h"
#include "wait.h"
#include "worker.h"

PG_FUNCTION_INFO_V1(snowflake_status);
PG_FUNCTION_INFO_V1(snowflake_stat);
PG_FUNCTION_INFO_V1(snowflake_stat_reset);

typedef struct Status
{
	const Layout *layout;		/* NULL: the setting is unusable */
	Worker		worker;
	TimestampTz lease_starts;	/* DT_NOBEGIN, here and below: not known */
	TimestampTz lease_ends;
	TimestampTz last_id_at;		/* of all databases, since the start */
	bool		has_slot;		/* the database has one, or can take one */
	bool		has_mark;		/* it could be read: */
	Mark		mark;
	bool		has_written;	/* this server has written it */
	uint64		limit;			/* of the database, if it has */
	int64		greater_mark;	/* of sequence and guard */
	TimestampTz mark_at;
	uint64		mark_from;		/* another server, or 0 */
} Status;

static void
status_get(Status *status)
{
	const Layout *layout = SharedLayoutIfFixed();
	DatabaseSlot *slot = SlotPeek();
	uint64		last_tick;

	memset(status, 0, sizeof(Status));
	status->lease_starts = status->lease_ends = DT_NOBEGIN;
	status->last_id_at = status->mark_at = DT_NOBEGIN;
	if (layout == NULL && SettingsLayoutIsUsable())
		layout = &setting_layout;
	status->layout = layout;
	status->has_slot = slot != NULL;
	WorkerGet(&status->worker);
	status->has_mark =
		LimitPeek(layout, slot, &status->mark, &status->has_written);
	if (status->has_mark)
	{
		status->greater_mark =
			Max(status->mark.value, status->mark.guard.bound);
		status->mark_from = LimitOtherSystem(&status->mark.guard);
	}
	if (status->mark_from == 0)
		status->mark_from = pg_atomic_read_u64(&shared->other_system);
	if (layout == NULL)
		return;

	if (status->worker.leased && status->worker.id >= 0)
	{
		status->lease_starts =
			LayoutTickInstant(layout, status->worker.lease_start);
		status->lease_ends =
			LayoutTickInstant(layout, WorkerLeaseEnd(&status->worker));
	}
	last_tick = LaneLastTick(layout);
	if (last_tick > 0)
		status->last_id_at = LayoutTickInstant(layout, last_tick);
	if (status->has_written)
		status->limit = pg_atomic_read_u64(&slot->limit);
	/* a mark of 0 has no time: no ids have been made yet */
	if (status->greater_mark != 0)
		status->mark_at = LayoutTickInstant(layout,
											(uint64) status->greater_mark >>
											layout->shift[FIELD_TIME]);
}

/* Call a function of the extension that returns a text; "" if it was dropped. */
static char *
status_call_sql(const char *name)
{
	Oid			function = ExtensionFunction(name, NULL, 0);

	return OidIsValid(function) ? TextDatumGetCString(OidFunctionCall0(function)) : "";
}

/*
 * What a call for an id would find of a mark that can be read, as far as that
 * can be told without making one.
 */
static const char *
status_of_mark(const Status *status, ClockReading *reading, const char **hint)
{
	const Layout *layout = status->layout;
	const Worker *worker = &status->worker;
	uint64		lease_end = WorkerLeaseEnd(worker);
	uint64		ahead = LimitAhead(layout);
	uint64		last_tick = LaneLastTick(layout);
	uint64		first;			/* that the database leaves */
	int64		ids_tick;
	bool		is_in_layout;
	bool		is_beyond_lease;
	FoundMark	found;

	LimitFind(layout, &status->mark, status->has_written, reading->ids,
			  &found);
	is_beyond_lease = !LimitIsGranted(layout, lease_end, reading->ids);
	if (is_beyond_lease)
		reading->ids = reading->time;
	is_in_layout =
		LayoutTimeToTick(layout, Max(reading->ids, layout->epoch), &ids_tick);
	first = LimitFloor(layout, status->limit);
	/* a mark that was set counts from the next move of the limit on */
	if (is_in_layout && Max((uint64) ids_tick, first) < status->limit)
		found = (FoundMark)
	{
		0
	};
	first = Max(first, found.tick);

	*hint = found.other_layout ? HINT_OTHER_LAYOUT :
		"Set the clock of the server right. If it is right, choose a layout with more bits of time or, if there are no ids yet, a later epoch, and restart the server. If the sequence \"snowflake_internal.mark\" was set by hand, correct it.";
	if (!is_in_layout || first > (uint64) layout->last_tick)
		return "exhausted";

	*hint = WorkerLeaseWords()->hint;
	if (Max(Max((uint64) ids_tick, first), last_tick) >= lease_end ||
		!WaitIsPossible(layout, is_beyond_lease ? Max(first, last_tick) :
						worker->lease_start, ahead, NULL, reading))
		return "no lease";

	*hint = found.other_layout ? HINT_OTHER_LAYOUT :
		reading->time + reading->set_back > reading->ids ?
		HINT_GO_ON("max_set_back") : HINT_GO_ON("max_ahead");
	if ((found.is_far &&
		 !WaitIsPossible(layout, found.tick, found.ahead, &found, reading)) ||
		!WaitIsPossible(layout, Max(first, last_tick), ahead, NULL, reading))
		return "too far ahead";

	*hint = "";
	if (status->mark_from != 0 && !worker->leased)
		*hint = "The mark comes from another server, see \"mark_from\". If that server also makes ids, set \"snowflake.worker_id\" here to one that no other server has.";
	return "ready";
}

/*
 * What would happen to a call for an id.  *hint is what to do next, "" if
 * there is nothing to do.
 */
static const char *
status_get_state(const Status *status, const char **hint)
{
	const Layout *layout = status->layout;
	const Guard *guard = &status->mark.guard;
	ClockReading reading;
	const char *unusable;

	*hint = "Make ids on the primary. After a promotion they are made here.";
	if (RecoveryInProgress())
		return "standby";

	unusable = SettingsUnusable();
	if (unusable == NULL)
		unusable = layout ? WorkerUnfit(&status->worker, layout) : "snowflake.layout";
	if (unusable != NULL)
	{
		*hint = psprintf("Correct \"%s\" in the server's configuration, and reload or restart the server. The error of snowflake_nextval() says what it takes.",
						 unusable);
		return "unusable settings";
	}

	*hint = WorkerLeaseWords()->hint;
	if (status->worker.id < 0)
		return "no lease";

	*hint = "Try again when sessions in other databases have ended.";
	if (!status->has_slot)
		return "too many databases";

	*hint = "Call snowflake_nextval(): its error says whether to wait for a transaction that changes the mark, or how to create the mark again.";
	if (!status->has_mark)
		return "no mark";

	/* a call would let the id clock go on from that of the mark */
	reading = ClockPeek(guard->bound != 0 ? guard->clock : DT_NOBEGIN);
	*hint = "Set the clock of the server right. If it is right, raise \"snowflake.max_jump\" and reload. Lower it again after the next restart.";
	if (reading.refused)
		return "clock refused";

	*hint = "Set the clock of the server right, or choose a layout with an earlier epoch and restart the server.";
	if (reading.ids < layout->epoch && status->greater_mark == 0)
		return "before epoch";

	return status_of_mark(status, &reading, hint);
}

/* A row, put together column by column. */
typedef struct Row
{
	Datum		values[18];
	bool		nulls[18];
	int			number;
} Row;

static void
status_add(Row *row, Datum value, bool isnull)
{
	row->values[row->number] = value;
	row->nulls[row->number++] = isnull;
}

/* How far an instant is ahead of the clock. */
static void
status_add_ahead(Row *row, TimestampTz instant)
{
	Interval   *ahead = palloc0(sizeof(Interval));
	bool		isnull = TIMESTAMP_NOT_FINITE(instant);

	if (!isnull)
		ahead->time = instant - GetCurrentTimestamp();
	status_add(row, IntervalPGetDatum(ahead), isnull);
}

/* status() */
Datum
snowflake_status(PG_FUNCTION_ARGS)
{
	Status		status;
	const Layout *layout;
	const char *state;
	const char *hint;
	const char *version;
	Row			row = {.number = 0};

	status_get(&status);
	layout = status.layout;
	state = status_get_state(&status, &hint);
	version = status_call_sql("version");

	status_add(&row, CStringGetTextDatum(state), false);
	status_add(&row, CStringGetTextDatum(hint), *hint == '\0');
	status_add(&row, Int32GetDatum((int32) status.worker.id),
			   status.worker.id < 0);
	status_add(&row, CStringGetTextDatum(status.worker.leased ? "registry" : "setting"), false);
	status_add(&row, Int32GetDatum(setting_datacenter_id), false);
	status_add(&row, layout != NULL ?
			   CStringGetTextDatum(LayoutToText(layout)) : 0, layout == NULL);
	status_add(&row, layout != NULL ?
			   Int64GetDatum(LaneIdsPerSecond(layout)) : 0, layout == NULL);
	status_add(&row, layout != NULL ?
			   TimestampTzGetDatum(LayoutLastInstant(layout)) : 0,
			   layout == NULL);
	status_add_ahead(&row, status.last_id_at);
	status_add(&row, Int64GetDatum(status.greater_mark), !status.has_mark);
	status_add_ahead(&row, status.mark_at);
	status_add(&row, Int64GetDatum((int64) status.mark_from),
			   status.mark_from == 0);
	status_add(&row, CStringGetTextDatum(WorkerLeaseWords()->name),
			   !status.worker.leased);
	status_add(&row, TimestampTzGetDatum(status.lease_starts),
			   TIMESTAMP_NOT_FINITE(status.lease_ends));
	status_add(&row, TimestampTzGetDatum(status.lease_ends),
			   TIMESTAMP_NOT_FINITE(status.lease_ends));
	/* if preloaded, it may be older than the extension until a restart */
	status_add(&row, CStringGetTextDatum(LIBRARY_VERSION), false);
	status_add(&row, CStringGetTextDatum(version), *version == '\0');
	status_add(&row, BoolGetDatum(SettingsArePreloaded()), false);
	PG_RETURN_DATUM(CallRow(fcinfo, row.values, row.nulls, row.number));
}

/* stat() */
Datum
snowflake_stat(PG_FUNCTION_ARGS)
{
	TimestampTz last_step_back;
	Datum		values[NUM_STATS + 2];
	bool		nulls[NUM_STATS + 2] = {false};

	SharedAttach();
	/* a session must see its own counts */
	StatsFold();
	for (int i = 0; i < NUM_STATS; i++)
	{
		uint64		counter = pg_atomic_read_u64(&shared->stats.counters[i]);

		if (i == STATS_WAIT_TIME || i == STATS_MARK_FLUSH_TIME ||
			i == STATS_LARGEST_STEP_BACK)
			values[i] = Float8GetDatum(counter / 1000.0);
		else
			values[i] = Int64GetDatum(counter);
	}
	last_step_back = pg_atomic_read_u64(&shared->stats.last_step_back);
	values[NUM_STATS] = TimestampTzGetDatum(last_step_back);
	nulls[NUM_STATS] = last_step_back == 0;
	values[NUM_STATS + 1] =
		TimestampTzGetDatum(pg_atomic_read_u64(&shared->stats.reset_at));
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
