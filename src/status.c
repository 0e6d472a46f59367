/*-------------------------------------------------------------------------
 *
 * status.c
 *	  What snowflake_status() and snowflake_stat() show.
 *
 * Looking does not move the mark, believe the clock, fix the layout, or wait for
 * anything.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xlog.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "bound.h"
#include "clock.h"
#include "decode.h"
#include "extension.h"
#include "lane.h"
#include "limit.h"
#include "settings.h"
#include "stats.h"
#include "worker.h"

PG_FUNCTION_INFO_V1(snowflake_status);
PG_FUNCTION_INFO_V1(snowflake_stat);
PG_FUNCTION_INFO_V1(snowflake_stat_reset);

/* If preloaded, it may be older than the extension until a restart. */
#define LIBRARY_VERSION "1.0"

typedef struct Status
{
	const Layout *layout;		/* NULL: the setting is unusable */
	Worker		worker;
	TimestampTz lease_starts;	/* DT_NOBEGIN, here and below: not known */
	TimestampTz lease_ends;
	TimestampTz last_id_at;		/* of all databases, since the start */
	bool		has_mark;
	MarkSight	mark;
	TimestampTz mark_at;
	TimestampTz worker_starts;	/* after a reset by another one */
} Status;

/* What would happen to a call for an id. */
typedef enum State
{
	STATE_READY,
	STATE_STANDBY,
	STATE_UNUSABLE_SETTINGS,
	STATE_NO_LEASE,
	STATE_BEFORE_EPOCH,
	STATE_CLOCK_REFUSED,
	STATE_EXHAUSTED,
	STATE_NO_MARK,
	STATE_WORKER_ID_SET_ASIDE,
	STATE_TOO_FAR_AHEAD
} State;

static const struct
{
	const char *name;
	const char *hint;			/* what to do next */
}			state_words[] =
{
	[STATE_READY] = {"ready", NULL},
	[STATE_STANDBY] = {
		"standby",
		"Make ids on the primary. After a promotion they are made here."
	},
	[STATE_UNUSABLE_SETTINGS] = {
		"unusable settings",
		"Call snowflake_nextval(): its error names the setting and its range."
	},
	[STATE_NO_LEASE] = {"no lease", NULL},	/* see WorkerLeaseWords() */
	[STATE_BEFORE_EPOCH] = {
		"before epoch",
		"Set the clock of the server right, or choose a layout with an earlier epoch and restart the server."
	},
	[STATE_CLOCK_REFUSED] = {
		"clock refused",
		"Set the clock of the server right. If it is right, raise \"snowflake.max_jump\" and reload. Lower it again after the next restart."
	},
	[STATE_EXHAUSTED] = {
		"exhausted",
		"Set the clock of the server right. If it is right, choose a layout with more bits of time or, if there are no ids yet, a later epoch, and restart the server. If the sequence \"snowflake_internal.mark\" was set by hand, correct it."
	},
	[STATE_NO_MARK] = {
		"no mark",
		"Call snowflake_nextval(): its error says whether to wait for a transaction that changes the mark, or how to create the mark again."
	},
	[STATE_WORKER_ID_SET_ASIDE] = {
		"worker id set aside",
		"Return to the worker id, and the layout, for which the mark was reset. Only that worker id was said to have made no ids ahead of the clock."
	},
	[STATE_TOO_FAR_AHEAD] = {"too far ahead", NULL} /* see BoundWayOut() */
};

/* The tick of the mark, which may be that of another layout. */
static uint64
mark_tick(const Status *status)
{
	return (uint64) status->mark.value >> status->layout->shift[FIELD_TIME];
}

static void
get_status(Status *status)
{
	const Layout *layout = SharedLayoutIfFixed();
	uint64		last_tick;

	memset(status, 0, sizeof(Status));
	status->lease_starts = status->lease_ends = status->last_id_at = DT_NOBEGIN;
	status->mark_at = status->worker_starts = DT_NOBEGIN;
	if (layout == NULL && SettingsLayoutIsUsable())
		layout = &setting_layout;
	status->layout = layout;
	WorkerGet(&status->worker);
	status->has_mark = LimitPeek(layout, &status->worker, &status->mark);
	if (layout == NULL)
		return;

	if (status->worker.leased && status->worker.id >= 0)
	{
		status->lease_starts = LayoutTickInstant(layout, status->worker.lease_start);
		status->lease_ends = LayoutTickInstant(layout, WorkerLeaseEnd(&status->worker));
	}
	last_tick = LaneFurthestTick(layout);
	if (last_tick > 0)
		status->last_id_at = LayoutTickInstant(layout, last_tick);
	if (status->has_mark)
	{
		status->mark_at = LayoutTickInstant(layout, mark_tick(status));
		status->worker_starts = LayoutTickInstant(layout, status->mark.start);
	}
}

/* Whether an instant is further ahead of the clock than ids may be. */
static bool
is_far_ahead(TimestampTz instant, TimestampTz now, int64 reserve)
{
	return setting_max_ahead >= 0 && !TIMESTAMP_NOT_FINITE(instant) &&
		instant > now + setting_max_ahead * INT64CONST(1000) + reserve;
}

/* The state, as far as it can be told without making an id. */
static State
get_state(const Status *status)
{
	const Layout *layout = status->layout;
	TimestampTz now = GetCurrentTimestamp();
	int64		tick;

	if (RecoveryInProgress())
		return STATE_STANDBY;
	if (!SettingsAreUsable() || layout == NULL ||
		!WorkerFits(&status->worker, layout))
		return STATE_UNUSABLE_SETTINGS;
	if (status->worker.leased &&
		(status->worker.id < 0 || status->lease_ends <= now ||
		 is_far_ahead(status->lease_starts, now, 0)))
		return STATE_NO_LEASE;
	if (now < layout->epoch)
		return STATE_BEFORE_EPOCH;
	if (ClockIsRefused())
		return STATE_CLOCK_REFUSED;
	if (!LayoutTimeToTick(layout, now, &tick))
		return STATE_EXHAUSTED;
	if (!status->has_mark)
		return STATE_NO_MARK;
	if (mark_tick(status) > (uint64) layout->last_tick)
		return STATE_EXHAUSTED;
	if (is_far_ahead(status->worker_starts, now, 0))
		return STATE_WORKER_ID_SET_ASIDE;
	if (is_far_ahead(status->mark_at, now, (LimitReservation(layout) + 1) * layout->tick) ||
		is_far_ahead(status->last_id_at, now, layout->tick))
		return STATE_TOO_FAR_AHEAD;
	return STATE_READY;
}

/* How far an instant, if it is one, is ahead of the clock, as an interval. */
static Datum
ahead_datum(TimestampTz instant, bool *isnull)
{
	Interval   *ahead = palloc0(sizeof(Interval));

	*isnull = TIMESTAMP_NOT_FINITE(instant);
	if (!*isnull)
		ahead->time = instant - GetCurrentTimestamp();
	return IntervalPGetDatum(ahead);
}

/*
 * What to do if nobody has set a worker id although there seem to be other
 * servers, or NULL.  A function in plpgsql finds that out.
 */
static const char *
worker_id_hint(void)
{
	Oid			function = ExtensionFunction("worker_id_hint", NULL, 0);

	LOCAL_FCINFO(fcinfo, 0);
	FmgrInfo	flinfo;
	Datum		hint;

	/* an extension that has not been updated lacks the function */
	if (!OidIsValid(function))
		return NULL;
	fmgr_info(function, &flinfo);
	InitFunctionCallInfoData(*fcinfo, &flinfo, 0, InvalidOid, NULL, NULL);
	hint = FunctionCallInvoke(fcinfo);
	return fcinfo->isnull ? NULL : TextDatumGetCString(hint);
}

/* What to check although ids can be made, or NULL. */
static const char *
ready_hint(const Status *status)
{
	const char *hint = worker_id_hint();

	if (hint == NULL && status->mark.other_system != 0 && !status->worker.leased)
		hint = "The mark comes from another server, see \"mark_from\". If that server also makes ids, set \"snowflake.worker_id\" here to one that no other server has.";
	return hint;
}

/* The hint that comes with a state, or NULL. */
static const char *
get_hint(const Status *status, State state)
{
	TimestampTz ids_at = Max(status->mark_at, status->last_id_at);

	switch (state)
	{
		case STATE_READY:
			return ready_hint(status);
		case STATE_NO_LEASE:
			return WorkerLeaseWords()->hint;
		case STATE_TOO_FAR_AHEAD:
			return BoundWayOut(status->layout,
							   ids_at - GetCurrentTimestamp() - setting_max_ahead * INT64CONST(1000),
							   status->mark.other_layout);
		case STATE_EXHAUSTED:
			return status->mark.other_layout ? HINT_OTHER_LAYOUT : state_words[state].hint;
		default:
			return state_words[state].hint;
	}
}

/* status() */
Datum
snowflake_status(PG_FUNCTION_ARGS)
{
	Status		status;
	const Layout *layout;
	int			lanes_in_use;
	int			sessions;
	State		state;
	const char *hint;
	Datum		values[20] = {0};
	bool		nulls[20] = {false};
	int			i = 0;

	get_status(&status);
	layout = status.layout;
	LaneGetUse(&lanes_in_use, &sessions);

	state = get_state(&status);
	values[i++] = CStringGetTextDatum(state_words[state].name);
	hint = get_hint(&status, state);
	nulls[i] = hint == NULL;
	values[i++] = CStringGetTextDatum(hint != NULL ? hint : "");
	nulls[i] = status.worker.id < 0;
	values[i++] = Int32GetDatum((int32) status.worker.id);
	values[i++] = CStringGetTextDatum(status.worker.leased ? "registry" : "setting");
	values[i++] = Int32GetDatum(setting_datacenter_id);
	nulls[i] = nulls[i + 1] = nulls[i + 2] = layout == NULL;
	if (layout != NULL)
	{
		values[i] = CStringGetTextDatum(LayoutToText(layout));
		values[i + 1] = Int64GetDatum(LaneIdsPerSecond(layout));
		values[i + 2] = TimestampTzGetDatum(LayoutTickToTime(layout, layout->last_tick));
	}
	i += 3;
	values[i++] = Int32GetDatum(lanes_in_use);
	values[i++] = Int32GetDatum(sessions);
	values[i] = ahead_datum(status.last_id_at, &nulls[i]);
	i++;
	nulls[i] = !status.has_mark;
	values[i++] = Int64GetDatum(status.mark.value);
	/* a mark of 0 has no time: no ids have been made yet */
	values[i] = ahead_datum(status.mark.value == 0 ? DT_NOBEGIN : status.mark_at, &nulls[i]);
	i++;
	nulls[i] = status.mark.other_system == 0;
	values[i++] = Int64GetDatum((int64) status.mark.other_system);
	nulls[i] = !status.worker.leased;
	values[i++] = CStringGetTextDatum(WorkerLeaseWords()->name);
	nulls[i] = nulls[i + 1] = TIMESTAMP_NOT_FINITE(status.lease_ends);
	values[i++] = TimestampTzGetDatum(status.lease_starts);
	values[i++] = TimestampTzGetDatum(status.lease_ends);
	values[i++] = CStringGetTextDatum(LIBRARY_VERSION);
	values[i++] = CStringGetTextDatum(ExtensionVersion());
	values[i++] = BoolGetDatum(SettingsArePreloaded());
	PG_RETURN_DATUM(CallRow(fcinfo, values, nulls, i));
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

		if (i == STATS_WAIT_TIME || i == STATS_MARK_FLUSH_TIME || i == STATS_LARGEST_STEP_BACK)
			values[i] = Float8GetDatum(counter / 1000.0);
		else
			values[i] = Int64GetDatum(counter);
	}
	last_step_back = pg_atomic_read_u64(&shared->stats.last_step_back);
	values[NUM_STATS] = TimestampTzGetDatum(last_step_back);
	nulls[NUM_STATS] = last_step_back == 0;
	values[NUM_STATS + 1] = TimestampTzGetDatum(pg_atomic_read_u64(&shared->stats.reset_at));
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
