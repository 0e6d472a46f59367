/*-------------------------------------------------------------------------
 *
 * generator.c
 *	  Makes a session's ids.
 *
 * The words of these files:
 *
 *		tick		unit of the time in ids, a millisecond by default
 *		lane		share of a session in the ids of each tick	lane.c
 *		word		tick and sequence of a lane's last id		lane.c
 *		window		tick that a session takes ids from			lane.c
 *		bound		id on disk that no id has exceeded			mark.c
 *		mark		sequence that holds the bound, as dumps do	mark.c
 *		guard		row that holds it, too, out of reach of SQL	mark.c
 *		limit		first tick that has no ids yet				limit.c
 *		floor		tick below which no window opens			limit.c
 *		reservation	how far the limit is moved at a time		limit.c
 *
 * A call may use the ticks from one instant on and before another:
 *
 *		from	the latest of	the clock or, if that has passed the limit since
 *								the call began, the tick before the limit
 *								the floor of the database		limit.c
 *								the start of the worker's lease	worker.c
 *								the session's next tick, if its worker changed
 *		end		the earliest of	the limit of the database		limit.c
 *								the end of the worker's lease	worker.c
 *								the clock plus max_ahead
 *								the end of the layout
 *
 * find_range() computes both.  If the lane of the session has ids in "from" or,
 * if it is ahead, in its next tick, and that is before the end, we open a
 * window there.  If not, make_room()
 * deals with the end that is in the way: it moves the limit, waits, or throws
 * the error of that end.  Then we look at everything again.
 *
 * A call waits for at most snowflake.max_wait, not counting the time in which
 * it moves the limit.  It does not begin to wait for a clock that needs longer.
 *
 * A window is used only while the clock stays in the tick in which the window
 * was opened, which may be earlier than the tick of the ids, and while nobody
 * moves the limit.  Until then, an id costs a look at the clock, a few
 * comparisons and a compare-and-swap.  A reload closes the window.
 *
 * Why no id is made twice: while a server runs, two of its ids differ in
 * lane, tick or sequence (invariant 1 in lane.c).  Across a start they differ
 * in the tick: before the start, every id was below a limit that the flushed
 * mark covers (invariant 4 in limit.c); after it, no window opens below the
 * first tick that the mark leaves free (invariant 5).  A promotion is a start,
 * too; ids whose mark had not reached the standby differ in the timeline, if
 * the layout has one.  Ids of two servers differ in the worker id or, with
 * leases, in the tick (worker.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "generator.h"
#include "lane.h"
#include "limit.h"
#include "settings.h"
#include "slot.h"
#include "worker.h"

/* The ticks that a call may use, and what bounds them. */
typedef struct TickRange
{
	const Worker *worker;
	int64		wall_tick;		/* of the wall clock; -1: not in the layout */
	uint64		now_tick;		/* of the time that is believed */
	uint64		first_now_tick; /* the same when the call began */
	bool		is_overtaken;	/* the clock has passed the limit since then */
	uint64		floor;
	uint64		limit;
	uint64		lease_end;
	uint64		ahead_end;
	uint64		from;
	uint64		end;
	bool		greedy;			/* must leave room for others */
} TickRange;

/* The session's copy of the layout in force, the settings and its worker. */
static struct
{
	uint32		settings_version;
	Worker		worker;
	uint64		next_tick;		/* first tick after a change of worker id */
	Layout		layout;
	uint64		sequence_mask;
}			config;

/* Where the session's next ids come from. */
static struct
{
	Window		lane;
	/* usable while the clock is in this tick, in PostgreSQL's microseconds */
	TimestampTz clock_start;
	uint64		clock_length;	/* 0: no window is open */
	uint64		limit;			/* of the database, when it was opened */
	int64		id_bits;		/* server bits and lane, in place */
	uint64		counted_from;	/* tick of the clock: to count ids taken since */
	uint64		ids_before;		/* made by the session before that tick */
}			window;

static uint64 last_word = 0;	/* 0: none yet */
static int64 last_id = -1;		/* -1: none yet */
static int64 forgotten_id = -1; /* see GeneratorForgetLast() */

/* Log what kind of ids this server makes, once after each start. */
static void
announce(const Layout *layout, const Worker *worker)
{
	bool		announced;

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	announced = shared->announced;
	shared->announced = true;
	LWLockRelease(&shared->lock);
	if (announced)
		return;

	ereport(LOG_SERVER_ONLY,
			(errmsg("making snowflake ids with worker id " INT64_FORMAT " from %s",
					worker->id,
					worker->leased ? "the registry" : "\"snowflake.worker_id\""),
			 errdetail("The datacenter id is %d. The layout is \"%s\".",
					   setting_datacenter_id, LayoutToText(layout))));
}

/* Wait for a lease, or for ours to be extended. */
static void
wait_for_lease(const Worker *worker, CallWaits *waits)
{
	if (ClockKeepWaiting(0, WAIT_LEASE, 0, waits))
		return;

	ereport(ERROR,
			(StatsErrcode(ERRCODE_SNOWFLAKE_NO_LEASE),
			 errmsg("server has no lease of a worker id for snowflake ids"),
			 worker->id < 0 ? 0 :
			 errdetail("Its lease of worker id " INT64_FORMAT " is for ids before %s.",
					   worker->id,
					   timestamptz_to_str(LayoutTickInstant(SharedLayout(), WorkerLeaseEnd(worker)))),
			 errhint("%s", WorkerLeaseWords()->hint)));
}

/*
 * Take over the settings and the worker.  Read the worker's version first, and
 * take it over last: if anything changes meanwhile, the next comparison shows it.
 */
static void
configure(CallWaits *waits)
{
	const Layout *layout;
	Worker		worker;
	Mark		mark;

	/* the timeline is not known until recovery has ended */
	PreventCommandDuringRecovery("snowflake_nextval()");

	SettingsCheckUsable();
	layout = SharedLayout();
	while (WorkerGet(&worker), worker.id < 0)
		wait_for_lease(&worker, waits);
	WorkerPutBits(&worker, layout);

	/*
	 * Ids of the new worker may sort below those of the old one: go on in the
	 * next tick, so that the session's ids still increase.
	 */
	if (last_word != 0 && worker.bits != config.worker.bits)
		config.next_tick = (last_word >> config.layout.bits[FIELD_SEQUENCE]) + 1;
	SlotEnter();
	/* a mark that cannot be moved is an error at once, not at the next move */
	while (!MarkRead(&mark, MARK_READ))
		LimitWaitForMark(waits);
	if (!shared->announced)
		announce(layout, &worker);

	config.layout = *layout;
	config.sequence_mask = LayoutLargest(layout, FIELD_SEQUENCE);

	config.worker = worker;
	config.settings_version = settings_version;
}

static inline bool
is_configured(void)
{
	return config.settings_version == settings_version &&
		config.worker.version == pg_atomic_read_u32(&shared->version);
}

/*
 * Compute the ticks that a call may use.  A session that wants a block, or
 * has lately taken more than an eighth of a lane per tick of the clock, must
 * leave room for others: its ids may be only half as far ahead of the clock.
 */
static void
find_range(const Layout *layout, TimestampTz now, bool block, TickRange *range,
		   CallWaits *waits)
{
	uint64		taken = stats_pending[STATS_IDS] - window.ids_before;
	uint64		ahead = LimitAhead(layout);
	int64		elapsed;

	range->worker = &config.worker;
	range->limit = pg_atomic_read_u64(&my_slot->limit);
	range->floor = LimitFloor(layout, range->limit);
	range->lease_end = WorkerLeaseEnd(&config.worker);

	/*
	 * Below the limit, a clock that was stepped ahead does no harm.  So check
	 * it only at the limit, below the floor, where it was stepped back, and
	 * while it is in doubt.  If we miss the beginning of a doubt, LimitMove()
	 * sees it.
	 */
	if (!LayoutTimeToTick(layout, now, &range->wall_tick))
		range->wall_tick = -1;	/* as uint64, beyond any limit */
	range->now_tick = range->wall_tick;
	if (range->now_tick >= range->limit || range->now_tick < range->floor ||
		shared->clock.doubted)
		range->now_tick = ClockTick(layout, ClockNow(layout, waits));

	/*
	 * A slow flush can take longer than the ticks last that it reserves.  Use
	 * the last of them, for this call only, if it is not from before the
	 * call: reserving others could go on forever.
	 */
	range->first_now_tick = Min(range->first_now_tick, range->now_tick);
	range->is_overtaken = range->now_tick >= range->limit &&
		range->limit > range->first_now_tick;
	if (range->is_overtaken)
		range->now_tick = range->limit - 1;

	range->from = Max(Max(range->now_tick, range->floor),
					  Max(config.worker.lease_start, config.next_tick));
	/* negative if the clock was stepped back */
	elapsed = range->now_tick - window.counted_from;
	range->greedy = block ||
		taken / Max(elapsed, 1) > config.sequence_mask / 8;
	range->ahead_end = range->now_tick + (range->greedy ? ahead / 2 : ahead) + 1;
	range->end = Min(Min(range->limit, range->lease_end),
					 Min(range->ahead_end, (uint64) layout->last_tick + 1));
}

/* Report a mark that leaves no tick to the layout. */
static void
throw_mark_exhausted(const Layout *layout, uint64 tick, bool other_layout)
{
	ereport(ERROR,
			(StatsErrcode(ERRCODE_SNOWFLAKE_LAYOUT_EXHAUSTED),
			 errmsg("snowflake layout has no tick left above the mark"),
			 errdetail("At least the ids up to " INT64_FORMAT " are taken in this database, and the largest id of the layout \"%s\" is " INT64_FORMAT ".",
					   LimitBoundBelow(layout, tick),
					   LayoutToText(layout), LayoutLargestId(layout)),
			 errhint("%s If the sequence \"snowflake_internal.mark\" was set by hand, correct it.",
					 other_layout ? HINT_OTHER_LAYOUT : "Choose a layout whose ids are greater.")));
}

/* Throw the error of the bound that excludes a tick until an awaited time. */
static void
throw_too_far_ahead(const Layout *layout, const TickRange *range, uint64 tick,
					uint64 allowed_tick, const FoundMark *found,
					const ClockSight *sight, TimestampTz awaited)
{
	const Worker *worker = range->worker;
	int64		missing = awaited - sight->time;
	char	   *wait = psprintf("The time that ids follow is %s, and has to reach %s before the next id. \"snowflake.max_ahead\" is %d%s, and \"snowflake.max_wait\" is %d ms.",
	/* timestamptz_to_str() has one buffer for all of its results */
								pstrdup(timestamptz_to_str(sight->time)),
								pstrdup(timestamptz_to_str(awaited)),
								setting_max_ahead, setting_max_ahead < 0 ? "" : " ms", setting_max_wait);

	if (found != NULL)
		ereport(ERROR,
				(StatsErrcode(ERRCODE_SNOWFLAKE_TOO_FAR_AHEAD),
				 errmsg("snowflake mark is too far ahead of the clock"),
				 errdetail("Ids up to " INT64_FORMAT " are taken in this database, and the clock of the server allows ids up to " INT64_FORMAT ". %s",
						   LimitBoundBelow(layout, tick),
						   LimitBoundBelow(layout, allowed_tick + 1), wait),
				 errhint("%s If the sequence \"snowflake_internal.mark\" was set by hand, correct it.",
						 found->other_layout ? HINT_OTHER_LAYOUT : HINT_GO_ON)));
	if (worker->lease_start > allowed_tick)
		ereport(ERROR,
				(StatsErrcode(ERRCODE_SNOWFLAKE_NO_LEASE),
				 errmsg("lease of a worker id for snowflake ids begins ahead of the clock"),
				 errdetail("The lease is for worker id " INT64_FORMAT " and for ids from %s on. %s",
						   worker->id,
						   timestamptz_to_str(LayoutTickInstant(layout, worker->lease_start)), wait),
				 errhint("Wait until the clock gets there: the lease begins above all ids that others can have made with this worker id. No other worker id was free, or the registry might have lost grants.")));
	/* would the clock allow the tick if it had not been set back? */
	if (sight->set_back > 0 && missing <= sight->set_back + layout->tick)
		ereport(ERROR,
				(StatsErrcode(ERRCODE_SNOWFLAKE_TOO_FAR_AHEAD),
				 errmsg("snowflake ids are too far ahead of the clock, which was set back"),
				 errdetail("%s", wait),
				 errhint(HINT_GO_ON)));
	ereport(ERROR,
			(StatsErrcode(ERRCODE_SNOWFLAKE_TOO_FAR_AHEAD),
			 errmsg("snowflake ids are too far ahead of the clock"),
			 errdetail("%s%s", range->greedy ? "Sessions that take many ids get half of \"snowflake.max_ahead\". " : "", wait),
			 errhint("If ids are needed faster than the layout provides them, give it more bits of lane or sequence, or raise \"snowflake.max_ahead\".")));
}

/*
 * Wait for the clock to come near enough to a tick, which can be "ahead" of it
 * by so many ticks.  Throws an error if that takes longer than the call may wait.
 * "found" is NULL unless it is the first tick above a mark that was found on
 * disk.
 *
 * After a start the mark is up to a reservation ahead of the last id.  Wait that
 * long even beyond max_wait, so that a restart alone causes no error, unless the
 * session is greedy and max_ahead small.  Add 2: the limit is the tick after the
 * reservation, and if the mark is in that tick, ids begin in the one after it.
 */
static void
wait_for_clock(const Layout *layout, const TickRange *range, uint64 tick,
			   uint64 ahead, const FoundMark *found, CallWaits *waits)
{
	ClockSight	sight = ClockLook();
	int64		after_start = found != NULL ? (LimitReservation(layout) + 2) * layout->tick : 0;
	uint64		allowed_tick;	/* the last one that the clock allows */
	TimestampTz awaited;		/* when it allows ours */
	int64		missing;

	ClockCheck(&sight);

	/* the clock may have come near enough since the caller looked */
	allowed_tick = ClockTick(layout, sight.time) + ahead;
	if (tick <= allowed_tick)
		return;
	awaited = LayoutTickToTime(layout, tick - ahead);
	missing = awaited - sight.time;

	/* a clock that is right may only be in doubt, which may end at any time */
	if (sight.doubt > 0 && missing <= sight.doubt + after_start && ClockKeepWatching(waits))
		return;
	if (!ClockKeepWaiting(sight.doubt > 0 ? 0 : missing, WAIT_CLOCK,
						  missing <= after_start ? after_start : 0, waits))
		throw_too_far_ahead(layout, range, tick, allowed_tick, found, &sight, awaited);
}

/* Deal with the bound that excludes a tick: move it, wait, or throw. */
static void
make_room(const Layout *layout, const TickRange *range, uint64 tick,
		  CallWaits *waits)
{
	FoundMark	found;
	LimitResult result;

	if (tick > (uint64) layout->last_tick)
	{
		if (range->floor > (uint64) layout->last_tick)
			throw_mark_exhausted(layout, range->floor, false);
		ClockThrowExhausted(layout);
	}
	if (tick >= range->ahead_end)
	{
		wait_for_clock(layout, range, tick, range->ahead_end - range->now_tick - 1,
					   NULL, waits);
		return;
	}
	if (tick >= range->lease_end)
	{
		wait_for_lease(range->worker, waits);
		return;
	}
	result = LimitMove(layout, range->worker, tick, LIMIT_REACHED, &found);
	if (result == LIMIT_LOCKED)
		LimitWaitForMark(waits);
	else if (result == LIMIT_IS_FAR && found.tick > (uint64) layout->last_tick)
		throw_mark_exhausted(layout, found.tick, found.other_layout);
	else if (result == LIMIT_IS_FAR)
		wait_for_clock(layout, range, found.tick, found.ahead, &found, waits);
}

/*
 * Open a window: choose the tick that the next ids come from.  Not inline,
 * because then most ids would save registers that they do not need.
 */
static pg_noinline void
open_window(TimestampTz now, bool block, CallWaits *waits)
{
	const Layout *layout;
	TickRange	range = {.first_now_tick = PG_UINT64_MAX};
	uint64		lane_tick;
	uint64		tick;
	FoundMark	found;
	bool		tried = false;

	window.clock_length = 0;
	StatsFoldNowAndThen(now);

	/* after anything that takes time, look at everything again */
	for (;; now = GetCurrentTimestamp())
	{
		CHECK_FOR_INTERRUPTS();
		if (!is_configured())
		{
			configure(waits);
			continue;
		}

		/*
		 * No barrier is needed: if this sees any part of a later change,
		 * LaneTake() sees the new version.
		 */
		layout = SharedLayout();
		find_range(layout, now, block, &range, waits);
		lane_tick = LaneNextTick(layout, range.greedy);
		tick = Max(range.from, lane_tick);
		if (tick >= range.end)
		{
			/* if the last tick that a slow flush reserved is full, start over */
			if (range.is_overtaken)
				range.first_now_tick = PG_UINT64_MAX;
			else
				make_room(layout, &range, tick, waits);
			continue;
		}

		/* try once to move the limit early, so that nobody has to wait for it */
		if (tried || range.is_overtaken || !LimitHalfUsed(layout, tick))
			break;
		(void) LimitMove(layout, &config.worker, tick, LIMIT_EARLY, &found);
		tried = true;
	}

	window.clock_start = LayoutTickToTime(layout, Max(range.wall_tick, 0));
	window.limit = range.limit;
	window.lane.version = config.worker.version;
	window.lane.word = &shared->lanes[LaneMine(layout)].word;
	window.lane.first = window.lane.initial = tick << config.layout.bits[FIELD_SEQUENCE];
	window.lane.last = window.lane.first |
		(range.greedy ? LaneGreedyLast(config.sequence_mask) : config.sequence_mask);
	/* a lane that is ahead is used up in each tick */
	if (setting_sequence_start == SEQUENCE_START_RANDOM && lane_tick <= range.from && !block)
		window.lane.initial |= pg_prng_uint64(&pg_global_prng_state) & (config.sequence_mask >> 1);
	window.id_bits = config.worker.bits | LayoutPut(layout, FIELD_LANE, LaneMine(layout));
	if (range.now_tick != window.counted_from)
	{
		window.counted_from = range.now_tick;
		window.ids_before = stats_pending[STATS_IDS];
	}
	window.clock_length = range.wall_tick < 0 || range.is_overtaken ? 0 : layout->tick;
}

/* Take ids from the window.  Returns their number, 0 if it has none left. */
static inline int
take(int count, int64 tag_bits)
{
	int			taken = LaneTake(&window.lane, count, &last_word);

	if (likely(taken > 0))
	{
		last_id = LayoutPut(&config.layout, FIELD_TIME, last_word >> config.layout.bits[FIELD_SEQUENCE]) |
			LayoutPut(&config.layout, FIELD_SEQUENCE, last_word & config.sequence_mask) |
			window.id_bits | tag_bits;
		StatsPend(STATS_IDS, taken);
	}
	return taken;
}

/* Look at everything again before the next id. */
void
GeneratorCloseWindow(void)
{
	window.clock_length = 0;
}

/* Make an id.  The tag, if the layout has one, is shifted into its place. */
int64
GeneratorNext(int64 tag_bits)
{
	TimestampTz now = GetCurrentTimestamp();
	CallWaits	waits;

	/* one comparison checks both ends of the clock's tick */
	if (likely(LayoutSpan(window.clock_start, now) < window.clock_length) &&
		likely(window.limit == pg_atomic_read_u64(&my_slot->limit)) &&
		likely(take(1, tag_bits) > 0))
		return last_id;

	memset(&waits, 0, sizeof(waits));
	for (;; now = GetCurrentTimestamp())
	{
		open_window(now, false, &waits);
		if (take(1, tag_bits) > 0)
			return last_id;
	}
}

/* The worker to make ids with, for callers elsewhere. */
const Worker *
GeneratorWorker(void)
{
	CallWaits	waits = {0};

	while (!is_configured())
		configure(&waits);
	return &config.worker;
}

/*
 * How many ids one call can reserve before it has waited for too long, if no
 * id is ahead of the clock when it begins.  A call that takes blocks gets half
 * of max_ahead.  Throws an error if the layout has no consecutive ids.
 */
int64
GeneratorReservable(void)
{
	const Layout *layout = SharedLayout();
	double		per_tick;
	double		ticks;

	if (layout->order[layout->num_fields - 1] != FIELD_SEQUENCE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("snowflake layout has no consecutive ids"),
				 errdetail("The last field of the layout \"%s\" must be \"sequence\".",
						   LayoutToText(layout)),
				 errhint("Call snowflake_nextval() for each id, or set \"snowflake.layout\" to another layout and restart the server.")));

	(void) GeneratorWorker();
	per_tick = LaneGreedyLast(config.sequence_mask) + 1.0;
	ticks = 1 + LimitAhead(layout) / 2 + (double) setting_max_wait * 1000 / layout->tick;
	return Min(per_tick * ticks, PG_INT32_MAX);
}

/*
 * Make a block of consecutive ids, which the layout must have: "count" or, if
 * that is less, as many as the lane has left in its tick.  Returns their number.
 * One "waits", 0 at first, covers all blocks of a call.
 */
int
GeneratorReserve(int count, int64 *first, int64 *last, CallWaits *waits)
{
	int			taken;

	do
	{
		open_window(GetCurrentTimestamp(), true, waits);
		taken = take(count, 0);
	} while (taken == 0);

	/* single ids may go on where a greedy session must stop */
	GeneratorCloseWindow();
	*last = last_id;
	*first = last_id - taken + 1;
	return taken;
}

/* The last id that this session has made; false if there is none. */
bool
GeneratorLast(int64 *id)
{
	*id = last_id;
	return last_id != forgotten_id;
}

/* The session gets a new client, which has made no id yet. */
void
GeneratorForgetLast(void)
{
	forgotten_id = last_id;
}
