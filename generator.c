/*-------------------------------------------------------------------------
 *
 * generator.c
 *	  Makes snowflake ids: shared memory, lanes, the next id.
 *
 * A lane is a 64-bit word of shared memory that holds the tick and the
 * sequence of the last id made on it.  An id is made by moving the word of a
 * lane ahead with one compare-and-swap:
 *
 *		Invariant 1.  The word of a lane only grows, and every id takes a word
 *		of its own.  So no two ids have the same lane, tick and sequence.
 *
 *		Invariant 2.  The ids of a backend increase.  On one lane that is
 *		invariant 1.  A backend goes to another lane only in a later tick than
 *		that of its last id or, if the lane field is more significant than the
 *		sequence, in the same tick to a lane with a higher number.
 *
 *		Invariant 3.  No id is above the limit, which is moved ahead of the
 *		ids by a second or two at a time, and no window opens in a tick below
 *		the floor, which is where the ids were when the limit was moved.  So no
 *		lane, however long it was idle, falls back behind the others when the
 *		clock does.
 *
 *		Invariant 4.  No id is ahead of the clock by more than max_ahead less
 *		the lease (or 0, if that is less); the limit is ahead of the ids by a
 *		lease at most.
 *
 * A backend keeps a window: the lane and the tick that it takes ids from, for
 * as long as the clock stays in the tick that it was in.  Within the window
 * an id costs a look at the clock, a few comparisons and the
 * compare-and-swap.  Everything else happens when a new window is opened, at
 * most once per tick or filled lane.
 *
 * Note about locking issues: the words, the limit and the floor are atomics.
 * The spinlock guards what changes when sessions come and go, for a few
 * instructions each time.  Nothing here holds a lock while it waits.
 *
 * snowflake/generator.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "portability/instr_time.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "generator.h"
#include "settings.h"

#define SHMEM_NAME		"snowflake generator"
/*
 * The same in every version of the library, however much of it is used, so
 * that a library replaced under a running server finds the memory of the old
 * one and can refuse it by the header.
 */
#define SHMEM_SIZE		16384
#define SHMEM_MAGIC		0x534e4f57	/* "SNOW" */
#ifndef SHMEM_VERSION
#define SHMEM_VERSION	1
#endif

typedef union Lane
{
	struct
	{
		/* tick << sequence bits | sequence, of the last id */
		pg_atomic_uint64 word;
		/* whose home this is; guarded by the spinlock */
		int			sessions;
	};
	char		pad[PG_CACHE_LINE_SIZE];
} Lane;

typedef struct GeneratorShared
{
	/* never changes */
	uint32		magic;
	uint32		version;
	uint32		size;

	slock_t		mutex;
	/* guarded by the spinlock; the layout never changes once it is fixed */
	bool		layout_fixed;
	Layout		layout;
	uint32		pending_layout; /* hash of the one last warned about, or 0 */

	/*
	 * Highest word that may be issued, and the tick that the ids had reached
	 * when it was set.  Both only grow.  On a cache line that is written about
	 * once a second.
	 */
	union
	{
		struct
		{
			pg_atomic_uint64 limit;
			pg_atomic_uint64 floor;
		};
		char		pad[PG_CACHE_LINE_SIZE];
	};

	Lane		lanes[GENERATOR_MAX_LANES];
} GeneratorShared;

StaticAssertDecl(sizeof(GeneratorShared) <= SHMEM_SIZE,
				 "shared memory of the generator outgrew its size");

static GeneratorShared *shared = NULL;

/* What a session knows of the layout in force and of the settings. */
static struct
{
	uint32		settings_version;
	int			sequence_bits;
	int			sequence_shift;
	int			time_shift;
	int			lane_shift;
	uint64		sequence_mask;
	int64		lane_mask;
	bool		spills;			/* the lane outranks the sequence */
	int			first_lane;		/* the lanes that a session may use */
	int			end_lane;
	int64		server_bits;	/* datacenter, worker and timeline, in place */
	uint64		ahead;			/* ticks that an id may be ahead of the clock */
	uint64		lease;			/* ticks that the limit is moved by */
} config;

/* Where the session's next ids come from, and its last one. */
static struct
{
	/* while the clock is in this tick, in PostgreSQL's microseconds */
	TimestampTz clock_start;
	uint64		clock_length;	/* 0: no window is open */
	pg_atomic_uint64 *word;
	uint64		first;			/* word of the tick's sequence 0 */
	uint64		start;			/* word to start an unused tick with */
	uint64		last;			/* word of the tick's highest sequence */
	int64		id_bits;		/* server bits and lane, in place */
} window;

static int	home_lane = -1;		/* -1: not counted in any lane */
static bool lane_filled = false;	/* in the tick of the last id */
static uint64 min_tick = 0;		/* no id below, since the server bits changed */
static uint64 last_word;
static int64 last_id = -1;		/* -1: none yet */

static shmem_startup_hook_type prev_shmem_startup_hook = NULL;
static shmem_request_hook_type prev_shmem_request_hook = NULL;


/* Must not fail: the memory is visible to others as soon as it has a name. */
static void
initialize_shared(SHMEM_INIT_ARGS)
{
	GeneratorShared *memory = (GeneratorShared *) ptr;

	/* recycled memory may hold anything */
	memset(memory, 0, sizeof(GeneratorShared));
	memory->magic = SHMEM_MAGIC;
	memory->version = SHMEM_VERSION;
	memory->size = sizeof(GeneratorShared);
	SpinLockInit(&memory->mutex);
	pg_atomic_init_u64(&memory->limit, 0);
	pg_atomic_init_u64(&memory->floor, 0);
	for (int i = 0; i < GENERATOR_MAX_LANES; i++)
		pg_atomic_init_u64(&memory->lanes[i].word, 0);
}

/* Add a hint to an error of PostgreSQL's that says there is no memory left. */
static void
shmem_error_callback(void *arg)
{
	int			code = geterrcode();

	/* the last two are of dynamic shared memory: no slot, no room */
	if (code == ERRCODE_OUT_OF_MEMORY ||
		code == ERRCODE_INSUFFICIENT_RESOURCES ||
		code == ERRCODE_DISK_FULL)
		errhint("Add \"snowflake\" to \"shared_preload_libraries\" and restart the server, so that it sets memory aside.");
}

static void
attach_shared(void)
{
	GeneratorShared *memory;
	ErrorContextCallback errcallback;

	errcallback.callback = shmem_error_callback;
	errcallback.arg = NULL;
	errcallback.previous = error_context_stack;
	error_context_stack = &errcallback;

	memory = compat_attach_shmem(SHMEM_NAME, SHMEM_SIZE, initialize_shared);

	error_context_stack = errcallback.previous;

	if (memory->magic != SHMEM_MAGIC || memory->version != SHMEM_VERSION ||
		memory->size != sizeof(GeneratorShared))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("snowflake library was replaced while the server was running"),
				 errdetail("Shared memory has version %u and size %u, this library has version %u and size %u.",
						   memory->version, memory->size,
						   SHMEM_VERSION, (uint32) sizeof(GeneratorShared)),
				 errhint("Restart the server.")));
	shared = memory;
}

static void
request_shared(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(SHMEM_SIZE);
}

static void
create_shared(void)
{
	bool		found;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct(SHMEM_NAME, SHMEM_SIZE, &found);
	if (!found)
		initialize_shared(shared);
	LWLockRelease(AddinShmemInitLock);
}

/* Reserve shared memory, if the library is being preloaded. */
void
GeneratorInit(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;

	COMPAT_HOOK_SHMEM_REQUEST(prev_shmem_request_hook, request_shared);
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = create_shared;
}

/* Warn once that a changed layout waits for the next start of the server. */
static void
warn_of_pending_layout(void)
{
	bool		pending;
	uint32		hash = 0;
	bool		warn;

	if (!SettingsLayoutIsUsable())
		return;
	pending = memcmp(&setting_layout, &shared->layout, sizeof(Layout)) != 0;
	if (pending)
		hash = hash_bytes((unsigned char *) &setting_layout, sizeof(Layout));

	SpinLockAcquire(&shared->mutex);
	warn = pending && shared->pending_layout != hash;
	shared->pending_layout = hash;
	SpinLockRelease(&shared->mutex);

	if (warn)
		ereport(WARNING,
				(errcode(ERRCODE_CANT_CHANGE_RUNTIME_PARAM),
				 errmsg("parameter \"snowflake.layout\" cannot be changed without restarting the server"),
				 errdetail("The layout \"%s\" stays in force until then.",
						   LayoutToText(&shared->layout))));
}

/*
 * The layout in force.  Whoever asks first after the start of the server
 * fixes it to what the setting says.
 */
const Layout *
GeneratorLayout(void)
{
	static uint32 settings_seen = 0;

	if (likely(settings_seen == settings_version))
		return &shared->layout;

	if (shared == NULL)
		attach_shared();

	/* errors cannot be thrown under the spinlock */
	if (!shared->layout_fixed && !SettingsLayoutIsUsable())
		SettingsCheckUsable();
	SpinLockAcquire(&shared->mutex);
	if (!shared->layout_fixed)
	{
		memcpy(&shared->layout, &setting_layout, sizeof(Layout));
		shared->layout_fixed = true;
	}
	SpinLockRelease(&shared->mutex);

	warn_of_pending_layout();
	settings_seen = settings_version;
	return &shared->layout;
}

static void
leave_home_lane(int code, Datum arg)
{
	if (home_lane < 0)
		return;
	SpinLockAcquire(&shared->mutex);
	shared->lanes[home_lane].sessions--;
	SpinLockRelease(&shared->mutex);
	home_lane = -1;
}

/*
 * Settle in the lane that the low bits of the PID name or, if another session
 * lives there, in the one with the fewest sessions.
 */
static void
enter_home_lane(int num_lanes)
{
	int			home = MyProcPid & (num_lanes - 1);

	/* dynamic shared memory is gone by the time of on_shmem_exit() */
	before_shmem_exit(leave_home_lane, (Datum) 0);

	SpinLockAcquire(&shared->mutex);
	for (int i = 0; i < num_lanes; i++)
	{
		if (shared->lanes[i].sessions < shared->lanes[home].sessions)
			home = i;
	}
	shared->lanes[home].sessions++;
	SpinLockRelease(&shared->mutex);
	home_lane = home;
}

/* Check one of the ids that the configuration gives, and put it in place. */
static int64
server_id_bits(const Layout *layout, LayoutField field, const char *setting,
			   int value)
{
	if (value > LayoutLargest(layout, field))
		ereport(ERROR,
				(errcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("parameter \"%s\" is out of range for the snowflake layout: %d",
						setting, value),
				 layout->bits[field] == 0 ?
				 errdetail("The layout \"%s\" has no field \"%s\", so that only 0 is possible.",
						   LayoutToText(layout), layout_field_names[field]) :
				 errdetail("The layout \"%s\" takes values from 0 to " INT64_FORMAT ".",
						   LayoutToText(layout), LayoutLargest(layout, field)),
				 errhint("Correct the parameter and reload, or choose another layout and restart the server.")));
	return LayoutPut(layout, field, value);
}

/* Take over the settings, at first use and whenever they have changed. */
static void
configure(void)
{
	const Layout *layout;
	int64		server_bits;
	int			num_lanes;
	int64		lease;

	/* the timeline is not known before recovery has ended */
	PreventCommandDuringRecovery("snowflake_nextval()");

	SettingsCheckUsable();
	layout = GeneratorLayout();

	server_bits =
		server_id_bits(layout, FIELD_DATACENTER, "snowflake.datacenter_id",
					   setting_datacenter_id) |
		server_id_bits(layout, FIELD_WORKER, "snowflake.worker_id",
					   setting_worker_id) |
		LayoutPut(layout, FIELD_TIMELINE,
				  GetWALInsertionTimeLine() & LayoutLargest(layout, FIELD_TIMELINE));

	num_lanes = Min(LayoutLargest(layout, FIELD_LANE) + 1, GENERATOR_MAX_LANES);
	if (home_lane < 0)
		enter_home_lane(num_lanes);

	config.sequence_bits = layout->bits[FIELD_SEQUENCE];
	config.sequence_shift = layout->shift[FIELD_SEQUENCE];
	config.time_shift = layout->shift[FIELD_TIME];
	config.lane_shift = layout->shift[FIELD_LANE];
	config.sequence_mask = LayoutLargest(layout, FIELD_SEQUENCE);
	config.lane_mask = LayoutLargest(layout, FIELD_LANE);
	config.spills = config.sequence_bits == 0 ||
		config.lane_shift > config.sequence_shift;
	config.first_lane = config.spills ? 0 : home_lane;
	config.end_lane = config.spills ? num_lanes : home_lane + 1;

	/*
	 * Half of what ids may be ahead of the clock is kept for the limit, within
	 * bounds: less would move it too often, more would serve nothing.
	 */
	lease = setting_max_ahead < 0 ? 2000 :
		Min(Max(setting_max_ahead / 2, 200), 2000);
	config.lease = Max(lease * 1000 / layout->tick, 1);
	if (setting_max_ahead < 0)
		config.ahead = PG_INT64_MAX;
	else
		config.ahead = Max(setting_max_ahead - lease, 0) * 1000 / layout->tick;

	/* another worker id may be a lower one: go on in the next tick */
	if (last_id >= 0 && server_bits != config.server_bits)
		min_tick = (last_word >> config.sequence_bits) + 1;
	config.server_bits = server_bits;

	config.settings_version = settings_version;
}

/* The tick that a lane's next id can be in, at the earliest. */
static inline uint64
next_tick(int lane)
{
	uint64		word = pg_atomic_read_u64(&shared->lanes[lane].word);

	return (word + 1) >> config.sequence_bits;
}

/*
 * Find a lane that has ids left in the tick, from a number upwards: one that
 * is unused in that tick, so that sessions keep out of each other's way, else
 * any.  Returns -1 if there is none.
 */
static int
find_lane(int from, uint64 tick)
{
	int			found = -1;

	for (int i = from; i < config.end_lane; i++)
	{
		uint64		word = pg_atomic_read_u64(&shared->lanes[i].word);

		if (word >> config.sequence_bits < tick)
			return i;
		if (found < 0 && (word + 1) >> config.sequence_bits == tick)
			found = i;
	}
	return found;
}

/*
 * Choose the lane and the tick of the next ids, not before the given tick.
 * This is what keeps invariant 2.
 */
static void
choose_lane(uint64 *tick, int *lane)
{
	uint64		last_tick = last_word >> config.sequence_bits;
	bool		busy;
	uint64		soonest;

	*tick = Max(*tick, min_tick);
	if (last_id >= 0 && *tick <= last_tick)
	{
		/* still in the tick of the last id, or the clock is behind it */
		*tick = last_tick;
		*lane = (last_id >> config.lane_shift) & config.lane_mask;
		if (next_tick(*lane) <= *tick)
			return;
		lane_filled = busy = true;
		if (config.spills && (*lane = find_lane(*lane + 1, *tick)) >= 0)
			return;
		(*tick)++;
	}
	else
	{
		/* who keeps filling lanes does so in consecutive ticks */
		busy = lane_filled && *tick == last_tick + 1;
		lane_filled = false;
	}

	/*
	 * A tick that has no id of this session.  It begins at home, and a session
	 * that keeps filling lanes begins at the lowest, to have all of them.
	 */
	*lane = home_lane;
	if (!(busy && config.spills) && next_tick(*lane) <= *tick)
		return;
	*lane = find_lane(config.first_lane, *tick);
	if (*lane >= 0)
		return;

	/* Every lane is full in this tick: take the one that is free the soonest. */
	soonest = PG_UINT64_MAX;
	for (int i = config.first_lane; i < config.end_lane; i++)
	{
		uint64		free_tick = next_tick(i);

		if (free_tick < soonest)
		{
			soonest = free_tick;
			*lane = i;
		}
	}
	*tick = Max(*tick, soonest);
}

static void
layout_exhausted(const Layout *layout)
{
	ereport(ERROR,
			(errcode(ERRCODE_SNOWFLAKE_LAYOUT_EXHAUSTED),
			 errmsg("snowflake layout has no tick left"),
			 errdetail("The last tick of the layout \"%s\" begins at %s.",
					   LayoutToText(layout),
					   timestamptz_to_str(LayoutTickToTime(layout, layout->last_tick))),
			 errhint("Set the clock of the server right, or choose a layout with a later epoch or more bits of time.")));
}

/* The tick that the clock is in. */
static uint64
clock_tick(const Layout *layout, TimestampTz now)
{
	int64		tick;

	if (now < layout->epoch)
		ereport(ERROR,
				(errcode(ERRCODE_SNOWFLAKE_BEFORE_EPOCH),
				 errmsg("clock is before the epoch of the snowflake layout"),
				 errdetail("The clock says %s, and the layout is \"%s\".",
						   timestamptz_to_str(now), LayoutToText(layout)),
				 errhint("Set the clock of the server right, or choose a layout with an earlier epoch.")));
	if (!LayoutTimeToTick(layout, now, &tick))
		layout_exhausted(layout);
	return tick;
}

/*
 * Wait for the clock, which has to advance by so many microseconds.  Throws
 * an error when the call has waited for max_wait.
 */
static void
wait_for_clock(int64 missing, instr_time *wait_start)
{
	static uint32 wait_event = 0;
	instr_time	elapsed;
	int64		left;
	long		timeout;

	if (wait_event == 0)
		wait_event = compat_wait_event("SnowflakeClock");

	/* the clock at issue may be stepping, this one does not */
	INSTR_TIME_SET_CURRENT(elapsed);
	if (INSTR_TIME_IS_ZERO(*wait_start))
		*wait_start = elapsed;
	INSTR_TIME_SUBTRACT(elapsed, *wait_start);
	left = setting_max_wait * INT64CONST(1000) -
		(int64) INSTR_TIME_GET_MICROSEC(elapsed);
	if (left <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_SNOWFLAKE_TOO_FAR_AHEAD),
				 errmsg("snowflake ids are too far ahead of the clock"),
				 errdetail("The clock has to advance by another %.3f ms before the next id. \"snowflake.max_ahead\" is %d ms, \"snowflake.max_wait\" is %d ms.",
						   missing / 1e3, setting_max_ahead, setting_max_wait),
				 errhint("If the clock was set back, it will catch up, or raise \"snowflake.max_ahead\". If ids are wanted faster than the layout has them, give it more bits of lane or sequence.")));

	/* look up now and then, in case somebody sets the clock right */
	timeout = Min(Min(missing, left), 100000);
	(void) WaitLatch(MyLatch,
					 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 (timeout + 999) / 1000, wait_event);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

static void
raise_to(pg_atomic_uint64 *value, uint64 target)
{
	uint64		old = pg_atomic_read_u64(value);

	while (old < target &&
		   !pg_atomic_compare_exchange_u64(value, &old, target))
		;
}

/*
 * Move the limit a lease ahead of the tick, and the floor to it.
 *
 * For now the limit is only the memory of how far ids have come.  A durable
 * mark has to be written and flushed here before the limit is raised to it.
 */
static void
extend_limit(uint64 tick, const Layout *layout)
{
	uint64		limit_tick = Min(tick + config.lease,
								 (uint64) layout->last_tick);

	raise_to(&shared->floor, tick);
	raise_to(&shared->limit,
			 (limit_tick << config.sequence_bits) | config.sequence_mask);
}

/*
 * Open a window: settle which lane and tick the next ids come from, waiting
 * for the clock if need be.
 */
static void
open_window(TimestampTz now, instr_time *wait_start)
{
	const Layout *layout;
	uint64		now_tick;
	uint64		limit_tick;
	uint64		tick;
	int			lane;

	window.clock_length = 0;
	if (config.settings_version != settings_version)
		configure();
	layout = GeneratorLayout();

	for (;;)
	{
		uint64		bound;

		now_tick = clock_tick(layout, now);
		tick = Max(now_tick, pg_atomic_read_u64(&shared->floor));
		choose_lane(&tick, &lane);

		if (tick > (uint64) layout->last_tick)
			layout_exhausted(layout);
		bound = now_tick + config.ahead;
		if (tick <= bound)
			break;

		/* others may have seen a later clock than we did, before we slept */
		now = GetCurrentTimestamp();
		if (tick > clock_tick(layout, now) + config.ahead)
		{
			wait_for_clock(LayoutTickToTime(layout, tick - config.ahead) - now,
						   wait_start);
			now = GetCurrentTimestamp();
		}
	}

	limit_tick = pg_atomic_read_u64(&shared->limit) >> config.sequence_bits;
	if (tick + config.lease / 2 >= limit_tick)
		extend_limit(tick, layout);

	window.clock_start = LayoutTickToTime(layout, now_tick);
	window.clock_length = layout->tick;
	window.word = &shared->lanes[lane].word;
	window.first = tick << config.sequence_bits;
	window.last = window.first | config.sequence_mask;
	window.start = window.first;
	if (setting_sequence_start == SEQUENCE_START_RANDOM && !lane_filled)
		window.start |= compat_random() & (config.sequence_mask >> 1);
	window.id_bits = config.server_bits | ((int64) lane << config.lane_shift);
}

/* Take the next id from the window; false if it has none left. */
static inline bool
take_id(int64 tag_bits)
{
	uint64		old = pg_atomic_read_u64(window.word);
	uint64		word;

	do
	{
		word = old < window.first ? window.start : old + 1;
		if (unlikely(word > window.last ||
					 word > pg_atomic_read_u64(&shared->limit)))
			return false;
	} while (unlikely(!pg_atomic_compare_exchange_u64(window.word, &old, word)));

	last_word = word;
	last_id = (int64) (word >> config.sequence_bits) << config.time_shift |
		(int64) (word & config.sequence_mask) << config.sequence_shift |
		window.id_bits | tag_bits;
	return true;
}

/*
 * Make an id.  The value of its tag, if it has one, is given in its place.
 */
int64
GeneratorNext(int64 tag_bits)
{
	TimestampTz now = GetCurrentTimestamp();
	instr_time	wait_start;

	/* one comparison for both ends of the clock's tick */
	if (likely(LayoutSpan(window.clock_start, now) < window.clock_length) &&
		likely(take_id(tag_bits)))
		return last_id;

	INSTR_TIME_SET_ZERO(wait_start);
	for (;;)
	{
		open_window(now, &wait_start);
		if (take_id(tag_bits))
			return last_id;
		now = GetCurrentTimestamp();
	}
}

/* The last id that this process has made; false if there is none. */
bool
GeneratorLast(int64 *id)
{
	*id = last_id;
	return last_id >= 0;
}
