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
	bool		has_mark;
	int64		mark;			/* the greater one of mark and guard */
	TimestampTz mark_at;
	uint64		mark_from;		/* another server, or 0 */
	TimestampTz ids_clock;		/* when the mark was written */
	bool		other_layout;	/* the last ids were made in another layout */
} Status;

/* The tick of the mark, which may be that of another layout. */
static uint64
status_mark_tick(const Status *status)
{
	return (uint64) status->mark >> status->layout->shift[FIELD_TIME];
}

static void
status_get(Status *status)
{
	const Layout *layout = SharedLayoutIfFixed();
	Mark		mark;
	uint64		last_tick;

	memset(status, 0, sizeof(Status));
	status->lease_starts = status->lease_ends = status->last_id_at =
		DT_NOBEGIN;
	status->mark_at = status->ids_clock = DT_NOBEGIN;
	if (layout == NULL && SettingsLayoutIsUsable())
		layout = &setting_layout;
	status->layout = layout;
	WorkerGet(&status->worker);
	status->has_mark = MarkPeek(&mark);
	if (status->has_mark)
	{
		status->mark = Max(mark.value, mark.guard.bound);
		status->mark_from = LimitOtherSystem(&mark.guard);
		if (mark.guard.bound != 0)
			status->ids_clock = mark.guard.clock;
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
	if (status->has_mark)
	{
		status->mark_at = LayoutTickInstant(layout, status_mark_tick(status));
		status->other_layout = LimitIsOfOtherLayout(layout, &mark.guard);
	}
}

/* Whether an instant is further ahead of the id clock than ids may be. */
static bool
status_is_far_ahead(TimestampTz instant, TimestampTz ids, int64 reserve)
{
	return setting_max_ahead >= 0 && !TIMESTAMP_NOT_FINITE(instant) &&
		instant > ids + setting_max_ahead * INT64CONST(1000) + reserve;
}

/* Call a function of the extension that returns a text; "" if it was dropped. */
static char *
status_call_sql(const char *name)
{
	Oid			function = ExtensionFunction(name, NULL, 0);

	return OidIsValid(function) ? TextDatumGetCString(OidFunctionCall0(function)) : "";
}

/*
 * What would happen to a call for an id, as far as that can be told without
 * making one.  *hint is what to do next, "" if there is nothing to do.
 */
static const char *
status_get_state(const Status *status, const char **hint)
{
	const Layout *layout = status->layout;

	/* a call would let the id clock go on from that of the mark */
	ClockReading reading = ClockPeek(status->ids_clock);
	TimestampTz ids = reading.ids;
	const char *unusable;
	int64		tick;

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

	*hint = "Try again when sessions in other databases have ended.";
	if (!SlotIsAvailable())
		return "too many databases";

	*hint = WorkerLeaseWords()->hint;
	if (status->worker.leased &&
		(status->worker.id < 0 || status->lease_ends <= reading.time ||
		 status->lease_ends <= status->last_id_at ||
		 status_is_far_ahead(status->lease_starts, ids, 0)))
		return "no lease";

	*hint = "Set the clock of the server right, or choose a layout with an earlier epoch and restart the server.";
	if (ids < layout->epoch && status->mark == 0)
		return "before epoch";

	*hint = "Set the clock of the server right. If it is right, raise \"snowflake.max_jump\" and reload. Lower it again after the next restart.";
	if (reading.refused)
		return "clock refused";

	*hint = status->other_layout ? HINT_OTHER_LAYOUT :
		"Set the clock of the server right. If it is right, choose a layout with more bits of time or, if there are no ids yet, a later epoch, and restart the server. If the sequence \"snowflake_internal.mark\" was set by hand, correct it.";
	if (!LayoutTimeToTick(layout, Max(ids, layout->epoch), &tick) ||
		(status->has_mark &&
		 status_mark_tick(status) > (uint64) layout->last_tick))
		return "exhausted";

	*hint = "Call snowflake_nextval(): its error says whether to wait for a transaction that changes the mark, or how to create the mark again.";
	if (!status->has_mark)
		return "no mark";

	*hint = status->other_layout ? HINT_OTHER_LAYOUT :
		reading.time + reading.set_back > ids ? HINT_GO_ON("max_set_back") :
		HINT_GO_ON("max_ahead");
	if (status_is_far_ahead(status->mark_at, ids,
							(LimitReservation(layout) + 1) * layout->tick) ||
		status_is_far_ahead(status->last_id_at, ids, layout->tick))
		return "too far ahead";

	*hint = "";
	if (status->mark_from != 0 && !status->worker.leased)
		*hint = "The mark comes from another server, see \"mark_from\". If that server also makes ids, set \"snowflake.worker_id\" here to one that no other server has.";
	return "ready";
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
	status_add(&row, Int64GetDatum(status.mark), !status.has_mark);
	/* a mark of 0 has no time: no ids have been made yet */
	status_add_ahead(&row, status.mark == 0 ? DT_NOBEGIN : status.mark_at);
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
