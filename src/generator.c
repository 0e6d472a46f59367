/*-------------------------------------------------------------------------
 *
 * generator.c
 *	  Makes a session's ids.
 *
 * The words of the core, by the file that explains them:
 *
 * layout.c		epoch			start of tick 0
 *				tick			unit of the time in ids, 1 ms by default
 *				lane			share of the ids of each tick
 *				sequence		number of an id in its tick and lane
 *				worker id		tells servers apart, as does the datacenter id
 *				datacenter id
 *				timeline		tells a standby from its old primary
 *				tag				what a caller wants an id to carry
 * shared.c		layout in force	fixed by the first call that needs it
 *				slot			what the server keeps of a database
 * lane.c		word			tick and sequence of a lane's last id
 *				window			tick of a lane that a session takes ids from
 *				change			of what windows depend on; it closes them all
 * worker.c		lease			ticks in which a server has a worker id
 * mark.c		bound			id on disk that no id has exceeded
 *				mark			sequence that holds the bound, as dumps do
 *				guard			row that holds it, too, out of reach of SQL
 *				mode			what the mark is opened for
 *				busy			another session writes the mark
 *				locked			a transaction may change or drop it
 * limit.c		limit			first tick that may have no ids yet
 *				floor			tick below which no window opens
 *				reservation		how far above a tick the limit is moved
 *				reserved		the limit for which the mark was written last
 *				covered			by the mark, on all standbys that are named
 *				found			value of the mark that was not written here
 *				far				so far ahead of the clock that calls wait
 *				reason			why the limit is moved
 * clock.c		wall clock		may be stepped at any time
 *				reference clock	nobody can set it
 *				offset			wall clock minus reference clock
 *				believed		offset, or time, that ids may follow
 *				highest			offset believed so far
 *				doubt			about an offset that is higher by a second
 *				watched			time in which somebody looked at it
 *				jump			how far an offset is ahead of all that is known
 *				refused			because of its jump
 *				id clock		believed clock, but goes back by noise only
 *				pace			where the id clock goes on if it is ahead
 *				set back		how far it is ahead of the believed clock
 * wait.c		waited			by a call, which max_wait limits
 * generator.c	from, end		ticks that a call may use, see below
 *				ceiling			tick above which a call has to wait
 *				claim			id that is taken before that wait
 * settings.c	problem			with a setting, so that no id is made
 *
 * A call may use the ticks from one instant on and before another:
 *
 *		from	the latest of	the id clock, at the call's lowest look
 *								the floor of the database		limit.c
 *								the start of the worker's lease	worker.c
 *								the session's next tick, if its worker changed
 *		end		the earliest of	the limit of the database, if
 *								standbys have the mark for it	limit.c
 *								the end of the worker's lease	worker.c
 *								the end of the layout
 *
 * generator_find_range() computes both.  If the lane of the session has ids in
 * "from" or, if it is ahead, in its next tick, and that is before the end, we
 * open a window there.  If not, generator_make_room() deals with the end that
 * is in the way: it moves the limit, waits, or throws the error of that end.
 * Then we look again.
 *
 * The ceiling is max_ahead after the id clock, or half of that for a session
 * that comes again within two ticks: those who take all they can get leave the
 * other half to those who come now and then.  A call whose tick is above the
 * ceiling takes its id first, and then waits until the ceiling gets there:
 * first come, first served.  It takes no id if the wait would be too long, or
 * while the clock is in doubt, and no other one until its ceiling gets there.
 *
 * A window is used only while the wall clock stays in the tick in which the
 * window was opened, which need not be the tick of the ids, and while nobody
 * moves the limit, reloads the configuration, or makes a change.  Until then,
 * an id costs a reading of that clock, a few comparisons and a
 * compare-and-swap.  A window that is behind the clock or above the ceiling,
 * or that of a block, serves one call.
 *
 * Why no id is made twice: while a server runs, two of its ids differ in lane,
 * tick or sequence (invariant 1 in lane.c).  Across a start they differ in the
 * tick: before the start, every id was below a limit that the flushed mark
 * covers (invariant 4 in limit.c); after it, no window opens below the first
 * tick that the mark leaves free (invariant 5).  A promotion is a start, too;
 * ids whose mark had not reached the standby differ in the timeline, if the
 * layout has one.  Ids of two servers differ in the worker or datacenter id
 * or, with leases, in the tick (worker.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"

#include "snowflake.h"

/* The ticks that a call may use, and what they follow from. */
typedef struct TickRange
{
	ClockReading reading;
	int64		ids_tick;		/* of the id clock */
	int64		lowest_ids_tick;	/* that the call has seen */
	bool		is_beyond_lease;	/* the id clock is, and ids go by the
									 * believed clock */
	int64		floor;
	int64		limit;
	int64		lease_end;
	int64		ahead;			/* how far ids may be ahead of the id clock */
	int64		ceiling;
	int64		from;
	int64		end;
} TickRange;

/* The session's copy of the layout in force and its worker. */
static struct
{
	TimestampTz reloaded_at;	/* by this session; 0: not configured yet */
	Worker		worker;
	int64		next_tick;		/* first tick after a change of worker id */
	Layout		layout;
	uint64		sequence_mask;
}			config;

/* Where the session's next ids come from. */
static struct
{
	Window		window;
	/* usable while the clock is in this tick, in PostgreSQL's microseconds */
	TimestampTz clock_start;
	uint64		clock_length;	/* 0: no window is open */
	int64		limit;			/* of the database, when it was opened */
	int64		id_bits;		/* server bits and lane, in place */
}			current;

static uint64 last_word = 0;	/* 0: none yet */
static int64 last_id = -1;		/* -1: none yet, or forgotten */

/* when a call that opens a window began, or its wait went on, last */
static TimestampTz served_at = 0;
static int64 claimed_tick = 0;	/* that was above the ceiling */

/* Log what kind of ids this server makes, once after each start. */
static void
generator_announce(const Layout *layout, const Worker *worker)
{
	if (pg_atomic_read_u32(&shared->announced) > 0 ||
		pg_atomic_fetch_add_u32(&shared->announced, 1) > 0)
		return;

	ereport(LOG_SERVER_ONLY,
			(errmsg("making snowflake ids with worker id " INT64_FORMAT " from %s",
					worker->id,
					worker->leased ? "the registry" : "\"snowflake.worker_id\""),
			 errdetail("The datacenter id is %d. The layout is \"%s\".",
					   setting_datacenter_id, LayoutToText(layout))));
}

/*
 * Take over the settings and the worker.  What is compared later is read
 * first: if anything changes meanwhile, the next comparison shows it.
 */
static void
generator_configure(void)
{
	TimestampTz reloaded_at = PgReloadTime;
	const Layout *layout;
	Worker		worker;

	/* the timeline is not known until recovery has ended */
	PreventCommandDuringRecovery("snowflake_nextval()");

	SettingsCheckUsable();
	layout = SharedLayout();
	while (WorkerGet(&worker), worker.id < 0)
		WaitForLease(&worker);
	WorkerPutBits(&worker, layout);

	/*
	 * Ids of the new worker may sort below those of the old one: go on in the
	 * next tick, so that the session's ids still increase.
	 */
	if (last_word != 0 && worker.bits != config.worker.bits)
		config.next_tick =
			(last_word >> config.layout.bits[FIELD_SEQUENCE]) + 1;
	while (!LimitEnter(layout))
		WaitForMark();
	generator_announce(layout, &worker);

	config.layout = *layout;
	config.sequence_mask = LayoutLargest(layout, FIELD_SEQUENCE);
	config.worker = worker;
	config.reloaded_at = reloaded_at;
	current.clock_length = 0;
}

static inline bool
generator_is_configured(void)
{
	return config.reloaded_at == PgReloadTime &&
		config.worker.changes == pg_atomic_read_u32(&shared->changes);
}

/* Take over the settings and the worker, which is returned. */
const Worker *
GeneratorConfigure(void)
{
	while (!generator_is_configured())
		generator_configure();
	return &config.worker;
}

/* Look at the clock, and compute the ticks that a call may use. */
static void
generator_find_range(TickRange *range)
{
	const Layout *layout = &config.layout;

	/* this may wait */
	range->reading = WaitReadClock(layout);

	range->limit = pg_atomic_read_u64(&my_slot->limit);
	range->floor = LimitFloor(layout, range->limit);
	range->lease_end = WorkerLeaseEnd(&config.worker);
	range->is_beyond_lease =
		LimitFollowLease(layout, range->lease_end, &range->reading);
	range->ids_tick = LayoutTick(layout, range->reading.ids);
	range->ceiling = range->ids_tick + range->ahead;

	/*
	 * A call that waits does not go by the clock of now: the limit that a
	 * slow flush brings is behind that, and would be moved forever.
	 */
	range->lowest_ids_tick = Min(range->lowest_ids_tick, range->ids_tick);
	range->from = Max(Max(range->lowest_ids_tick, range->floor),
					  Max(config.worker.lease_start, config.next_tick));
	range->end = Min(Min(range->limit, range->lease_end),
					 layout->last_tick + 1);
	/* standbys that were just named need a move of the limit */
	if (!LimitIsCovered(range->limit))
		range->end = 0;
}

/* Deal with the end that excludes a tick: move it, wait, or throw. */
static void
generator_make_room(const TickRange *range, int64 tick)
{
	const Layout *layout = &config.layout;
	LimitResult result;
	FoundMark	found;

	if (tick > layout->last_tick)
	{
		if (range->floor > layout->last_tick)
			LimitReportExhausted(layout, range->floor);
		ClockReportExhausted(layout);
	}
	if (tick >= range->lease_end ||
		(tick > range->ceiling && range->is_beyond_lease))
	{
		WaitForLease(&config.worker);
		return;
	}
	if (tick > range->ceiling)
	{
		(void) WaitForClock(layout, &config.worker, tick, range->ahead, NULL);
		return;
	}
	result = LimitMove(layout, &config.worker, tick, LIMIT_REACHED,
					   &range->reading, &found);
	if (result == LIMIT_LOCKED)
		WaitForMark();
	else if (result == LIMIT_IS_FAR)
		(void) WaitForClock(layout, &config.worker, found.tick, found.ahead,
							&found);
}

/* The next ids come from this tick, on a lane that is at lane_tick. */
static void
generator_set_window(const TickRange *range, int lane, int64 lane_tick,
					 int64 tick, bool is_block)
{
	const Layout *layout = &config.layout;

	/* invariant 5, and the lease */
	Assert(tick >= range->floor && tick >= config.worker.lease_start &&
		   tick < range->end);
	current.limit = range->limit;
	current.window.changes = config.worker.changes;
	current.window.word = &shared->lanes[lane].word;
	current.window.first = (uint64) tick << layout->bits[FIELD_SEQUENCE];
	current.window.initial = current.window.first;
	current.window.last = current.window.first | config.sequence_mask;
	/* a lane that is ahead is used up in each tick */
	if (setting_sequence_start == SEQUENCE_START_RANDOM &&
		lane_tick <= range->from && !is_block)
		current.window.initial |= pg_prng_uint64(&pg_global_prng_state) &
			(config.sequence_mask >> 1);
	current.id_bits = config.worker.bits | LayoutPut(layout, FIELD_LANE, lane);
	current.clock_start =
		LayoutTickToTime(layout, LayoutTick(layout, range->reading.wall));
	/* the next single id after a block begins at a random sequence */
	if (!is_block && tick >= range->ids_tick && tick <= range->ceiling)
		current.clock_length = layout->tick;
}

/* Open a window: choose the tick that the next ids come from. */
static void
generator_open_window(TickRange *range, bool again, bool is_block)
{
	const Layout *layout = &config.layout;
	int			lane;
	int64		lane_tick;
	int64		tick;

	current.clock_length = 0;

	/* after anything that takes time, look at everything again */
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		(void) GeneratorConfigure();
		range->ahead = again ? LimitAhead(layout) / 2 : LimitAhead(layout);
		generator_find_range(range);
		lane = LaneMine(layout);
		lane_tick = LaneNextTick(layout, lane);
		tick = Max(range->from, lane_tick);
		if (tick < range->end &&
			(tick <= range->ceiling ||
			 (claimed_tick <= range->ceiling &&
			  WaitMayClaim(layout, tick, range->ahead, &range->reading))))
			break;
		generator_make_room(range, tick);
	}
	generator_set_window(range, lane, lane_tick, tick, is_block);
}

/* Take ids from the window.  Returns their number, 0 if it has none left. */
static inline int
generator_take(int count, int64 tag_bits)
{
	uint64		before PG_USED_FOR_ASSERTS_ONLY = last_word;
	int			taken = LaneTake(&current.window, count, &last_word);

	if (likely(taken > 0))
	{
		/* invariants 2 and 4 */
		Assert(last_word > before &&
			   last_word >> config.layout.bits[FIELD_SEQUENCE] <
			   (uint64) current.limit);
		last_id = LayoutPut(&config.layout, FIELD_TIME,
							last_word >> config.layout.bits[FIELD_SEQUENCE]) |
			LayoutPut(&config.layout, FIELD_SEQUENCE,
					  last_word & config.sequence_mask) |
			current.id_bits | tag_bits;
		stats_ids += taken;
	}
	return taken;
}

/*
 * Take ids from a new window.  Then wait until the ceiling gets there, or move
 * the limit early.  Not inline, because then most ids would save registers
 * that they do not need.
 */
static pg_noinline int
generator_take_slowly(TimestampTz now, int count, bool is_block,
					  int64 tag_bits)
{
	const Layout *layout = &config.layout;

	/* before the session is configured, the tick is 0, and this false */
	bool		again = LayoutSpan(served_at, now) < 2 * layout->tick;
	TickRange	range = {.lowest_ids_tick = PG_INT64_MAX};
	int64		before = last_id;
	int64		made;
	int64		tick;
	int			taken;
	FoundMark	found;

	served_at = now;
	StatsFoldNowAndThen(now);
	do
	{
		generator_open_window(&range, again, is_block);
		taken = generator_take(count, tag_bits);
	} while (taken == 0);

	/* if what follows throws, no call has returned the id */
	made = last_id;
	last_id = before;
	tick = last_word >> layout->bits[FIELD_SEQUENCE];
	if (tick > range.ceiling)
	{
		claimed_tick = tick;
		while (!WaitForClock(layout, &config.worker, tick, range.ahead, NULL))
			served_at = GetCurrentTimestamp();
	}
	/* whatever comes of it: nobody waits for the limit yet */
	else if (tick >= range.ids_tick && LimitHalfUsed(layout, tick))
		(void) LimitMove(layout, &config.worker, tick, LIMIT_EARLY,
						 &range.reading, &found);
	last_id = made;
	return taken;
}

/* Make an id.  The tag, if the layout has one, is shifted into its place. */
int64
GeneratorNext(int64 tag_bits)
{
	TimestampTz now = GetCurrentTimestamp();

	/* one comparison checks both ends of the clock's tick */
	if (likely(LayoutSpan(current.clock_start, now) < current.clock_length) &&
		likely(current.limit == pg_atomic_read_u64(&my_slot->limit)) &&
		likely(config.reloaded_at == PgReloadTime) &&
		likely(generator_take(1, tag_bits) > 0))
		return last_id;

	WaitBegin();
	(void) generator_take_slowly(now, 1, false, tag_bits);
	return last_id;
}

/*
 * How many ids one call can reserve before it has waited for too long, if no
 * id is ahead of the clock when it begins.  Throws an error if the layout has
 * no consecutive ids.
 */
int64
GeneratorReservable(void)
{
	const Layout *layout = SharedLayout();
	double		ticks;

	if (layout->order[layout->num_fields - 1] != FIELD_SEQUENCE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("snowflake layout has no consecutive ids"),
				 errdetail("The last field of the layout \"%s\" must be \"sequence\".",
						   LayoutToText(layout)),
				 errhint("Call snowflake_nextval() for each id, or set \"snowflake.layout\" to another layout and restart the server.")));

	WaitBegin();
	(void) GeneratorConfigure();
	ticks = 1 + LimitAhead(layout) / 2 +
		(double) setting_max_wait * 1000 / layout->tick;
	return Min((config.sequence_mask + 1.0) * ticks, PG_INT32_MAX);
}

/*
 * Make a block of consecutive ids, which the layout must have: "count" or, if
 * that is less, as many as the lane has left in its tick.  Returns their
 * number.  What blocks wait for counts from GeneratorReservable() on.
 */
int
GeneratorReserve(int count, int64 *first, int64 *last)
{
	TimestampTz now = GetCurrentTimestamp();
	int			taken = generator_take_slowly(now, count, true, 0);

	*last = last_id;
	*first = last_id - taken + 1;
	return taken;
}

/* The last id that this session has made; -1 if there is none. */
int64
GeneratorLast(void)
{
	return last_id;
}

/* The session gets a new client, which has made no id yet. */
void
GeneratorForgetLast(void)
{
	last_id = -1;
}
