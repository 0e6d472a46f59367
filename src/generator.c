/*-------------------------------------------------------------------------
 *
 * generator.c
 *	  Makes snowflake ids: shared memory, lanes, limits, the next id.
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
 *		Invariant 3.  No id is above the limit of its database, and the
 *		database's mark on disk covers all ids up to the limit: it is written
 *		and flushed before the limit is raised to it.  After a start, or when
 *		the mark is found above what was written here, the first tick is above
 *		the mark.  See mark.c.
 *
 *		Invariant 4.  No window opens in a tick below the floor of the
 *		database, which is where the ids were when the limit was moved.  So no
 *		lane, however long it was idle, falls back behind the others when the
 *		clock does.
 *
 *		Invariant 5.  No id is ahead of the clock by more than max_ahead less
 *		the lease (or 0, if that is less); the limit is ahead of the ids by a
 *		lease at most.  After a start, until the clock has come near to the
 *		mark, ids may be ahead by all of max_ahead.
 *
 * A backend keeps a window: the lane and the tick that it takes ids from, for
 * as long as the clock stays in the tick that it was in.  A window is opened
 * below the limit, and so are all of its ids.  Within the window an id costs
 * a look at the clock, a few comparisons and the compare-and-swap.
 * Everything else happens when a new window is opened, at most once per tick
 * or filled lane.
 *
 *		Invariant 6.  A new generation closes all windows.  An id looks at
 *		the generation between reading the word of its lane and the
 *		compare-and-swap, and who begins a generation changes all words after
 *		that.  So a compare-and-swap that belongs to an earlier one fails.
 *
 *		Invariant 7.  If the worker id is leased, a window's tick is within the
 *		lease that its id bits are taken from.  A session copies worker id,
 *		start and end together, and keeps them until it sees that there is
 *		something newer.  It need not see that in time: the ids that an old
 *		lease allows are never anybody else's.  See registry.c.
 *
 * Note about locking issues: words, limits, floors and the generation are
 * atomics.  The spinlock guards what changes when sessions come and go and
 * when limits are moved, for a few instructions each time.  Who moves the
 * limit of a database holds its mark, which is a heavyweight lock; a reset
 * moves the limits of all databases, and is told apart by its number.
 * Nothing else here holds a lock while it waits.
 *
 * snowflake/src/generator.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
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
#include "mark.h"
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

/* Less than this, in us, is no step of the clock. */
#define CLOCK_STEP		10000

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

/*
 * Databases that can make ids between two starts of the server.  A slot is
 * never given up, so that it still knows when the extension is dropped and
 * created again what was written before.
 */
#define MAX_DATABASES	128

typedef struct DatabaseSlot
{
	Oid			database;		/* InvalidOid: free; guarded by the spinlock */

	/*
	 * The first tick that the mark does not cover, and the tick that the ids
	 * had reached when the limit was moved.  Written under the spinlock,
	 * about once a second, and lowered by a reset only.
	 */
	pg_atomic_uint64 limit;
	pg_atomic_uint64 floor;
	/* highest mark written since the server was started, an id bound */
	pg_atomic_uint64 written;
	/* when the limit was moved, by the monotonic clock; guarded by the mark */
	int64		extended_at;
} DatabaseSlot;

/*
 * Worker ids, with datacenter ids, that are used between two starts of the
 * server, and the first tick that none of their ids can be in.
 */
#define MAX_SERVERS		32

typedef struct ServerSlot
{
	int64		server_bits;	/* in place, or -1: free; guarded by the
								 * spinlock */
	pg_atomic_uint64 end;
	bool		retired;		/* set aside by a reset; guarded by the
								 * spinlock */
} ServerSlot;

/* A worker id, and the ticks that its ids may be in: from start, before end. */
typedef struct WorkerLease
{
	int64		worker_id;		/* -1: there is none */
	uint64		start;
	uint64		end;
} WorkerLease;

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
	 * A new generation closes all windows.  Read with every id, and hardly
	 * ever written: so it has a cache line of its own.
	 */
	union
	{
		pg_atomic_uint32 generation;
		char		pad[PG_CACHE_LINE_SIZE];
	};

	/* counts resets, and is odd while one is under way */
	pg_atomic_uint32 resets;
	/* highest tick that any database had to start with, because of its mark */
	pg_atomic_uint64 start;
	/* wall clock less monotonic clock in us; 0 before the first look */
	pg_atomic_uint64 clock_offset;

	/* guarded by the spinlock; not used if the worker id is that of a setting */
	WorkerLease worker_lease;
	LeaseState	lease_state;
	/* counts what was written to it; read without the spinlock */
	pg_atomic_uint32 leases;
	/* all leased worker ids share one: what each can make, its lease tells */
	ServerSlot	leased_server;

	StatsShared stats;

	ServerSlot	servers[MAX_SERVERS];
	DatabaseSlot slots[MAX_DATABASES];
	Lane		lanes[GENERATOR_MAX_LANES];
} GeneratorShared;

StaticAssertDecl(sizeof(GeneratorShared) <= SHMEM_SIZE,
				 "shared memory of the generator outgrew its size");

/* What a session sleeps for, as pg_stat_activity shows it. */
typedef enum WaitReason
{
	WAIT_CLOCK,
	WAIT_LEASE,
	WAIT_MARK					/* a lock on it, or its reset */
} WaitReason;

static GeneratorShared *shared = NULL;
static DatabaseSlot *slot = NULL;	/* that of our database */
static ServerSlot *server = NULL;	/* that of the worker id in use */

/* What a session knows of the layout in force and of the settings. */
static struct
{
	uint32		settings_version;
	uint32		resets;
	uint32		leases;
	WorkerLease worker_lease;	/* or the setting, without bounds */
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
	uint64		max_ahead;		/* ticks that anything may be ahead of the
								 * clock */
	uint64		ahead;			/* ticks that an id may be */
	uint64		lease;			/* ticks that the limit is moved by */
}			config;

/* Where the session's next ids come from, and its last one. */
static struct
{
	/* while the clock is in this tick, in PostgreSQL's microseconds */
	TimestampTz clock_start;
	uint64		clock_length;	/* 0: no window is open */
	uint32		generation;
	pg_atomic_uint64 *word;
	uint64		first;			/* word of the tick's sequence 0 */
	uint64		start;			/* word to start an unused tick with */
	uint64		last;			/* word of the tick's highest sequence */
	int64		id_bits;		/* server bits and lane, in place */
}			window;

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
	for (int i = 0; i < MAX_SERVERS; i++)
	{
		memory->servers[i].server_bits = -1;
		pg_atomic_init_u64(&memory->servers[i].end, 0);
	}
	pg_atomic_init_u32(&memory->generation, 0);
	pg_atomic_init_u32(&memory->resets, 0);
	pg_atomic_init_u64(&memory->start, 0);
	pg_atomic_init_u64(&memory->clock_offset, 0);
	memory->worker_lease.worker_id = -1;
	pg_atomic_init_u32(&memory->leases, 0);
	pg_atomic_init_u64(&memory->leased_server.end, 0);
	StatsInit(&memory->stats);
	for (int i = 0; i < MAX_DATABASES; i++)
	{
		pg_atomic_init_u64(&memory->slots[i].limit, 0);
		pg_atomic_init_u64(&memory->slots[i].floor, 0);
		pg_atomic_init_u64(&memory->slots[i].written, 0);
	}
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
	StatsAttach(&shared->stats);
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
	StatsAttach(&shared->stats);
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

/* Microseconds of a clock that no one steps. */
static int64
monotonic_now(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return (int64) INSTR_TIME_GET_MICROSEC(now);
}

/* Sleep, but wake up for whoever wants this process to do something else. */
static void
sleep_for(int64 microseconds, WaitReason reason)
{
	static const char *const names[] = {
		[WAIT_CLOCK] = "SnowflakeClock",
		[WAIT_LEASE] = "SnowflakeLease",
		[WAIT_MARK] = "SnowflakeMark"
	};
	static uint32 events[lengthof(names)];

	if (events[reason] == 0)
		events[reason] = compat_wait_event(names[reason]);
	(void) WaitLatch(MyLatch,
					 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 (microseconds + 999) / 1000, events[reason]);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/*
 * Sleep for a while; false if the call has waited for as long as it may.  All
 * in microseconds of the monotonic clock: the other one may be stepping.
 */
static bool
keep_waiting(int64 a_while, WaitReason reason, int64 max_wait,
			 int64 *wait_start)
{
	int64		now = monotonic_now();
	int64		left;

	if (*wait_start == 0)
	{
		*wait_start = now;
		StatsAdd(STATS_WAITS, max_wait > 0 ? 1 : 0);
	}
	left = max_wait - (now - *wait_start);
	if (left <= 0)
		return false;
	sleep_for(Min(a_while, left), reason);
	StatsAdd(STATS_WAIT_TIME, monotonic_now() - now);
	return true;
}

/* The slot of our database, taken if it has none; NULL if that is not wanted. */
static DatabaseSlot *
find_slot(bool take)
{
	DatabaseSlot *found = NULL;
	DatabaseSlot *free = NULL;

	SpinLockAcquire(&shared->mutex);
	for (int i = 0; i < MAX_DATABASES && found == NULL && free == NULL; i++)
	{
		if (shared->slots[i].database == MyDatabaseId)
			found = &shared->slots[i];
		else if (shared->slots[i].database == InvalidOid)
			free = &shared->slots[i];
	}
	if (found == NULL && free != NULL && take)
	{
		free->database = MyDatabaseId;
		found = free;
	}
	SpinLockRelease(&shared->mutex);

	if (found == NULL && take)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many databases make snowflake ids"),
				 errdetail("There is room for %d between two starts of the server.",
						   MAX_DATABASES),
				 errhint("Restart the server, which forgets those that have been dropped.")));
	return found;
}

/*
 * The slot of a worker id and datacenter id, or the one that they would take;
 * NULL if there is none.  The caller holds the spinlock.
 */
static ServerSlot *
look_up_server(int64 server_bits)
{
	for (int i = 0; i < MAX_SERVERS; i++)
	{
		if (shared->servers[i].server_bits == server_bits ||
			shared->servers[i].server_bits == -1)
			return &shared->servers[i];
	}
	return NULL;
}

/* The slot of a worker id and datacenter id, which may not be a retired one. */
static ServerSlot *
find_server(int64 server_bits)
{
	ServerSlot *found;
	bool		retired = false;

	SpinLockAcquire(&shared->mutex);
	found = look_up_server(server_bits);
	if (found != NULL)
	{
		found->server_bits = server_bits;
		retired = found->retired;
	}
	SpinLockRelease(&shared->mutex);

	if (found == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many worker ids make snowflake ids"),
				 errdetail("There is room for %d between two starts of the server.",
						   MAX_SERVERS),
				 errhint("Restart the server.")));
	if (retired)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("worker id %d was set aside by a reset of the snowflake mark",
						setting_worker_id),
				 errdetail("It may have ids that are ahead of the clock."),
				 errhint("Use the worker id that the server had at the reset, or another fresh one. A session takes it over after its statement.")));
	return found;
}

/* Whether find_server() would refuse it; takes no slot. */
static bool
is_set_aside(int64 server_bits)
{
	ServerSlot *found;
	bool		retired;

	SpinLockAcquire(&shared->mutex);
	found = look_up_server(server_bits);
	retired = found != NULL && found->retired;
	SpinLockRelease(&shared->mutex);
	return retired;
}

/*
 * The worker id to use, and the number of what was last written about leases.
 * False if there is no worker id.
 */
static bool
get_worker_lease(WorkerLease *lease, uint32 *number)
{
	if (!SettingsRegistryIsUsed())
	{
		lease->worker_id = setting_worker_id;
		lease->start = 0;
		lease->end = PG_UINT64_MAX;
		*number = 0;
		return true;
	}
	SpinLockAcquire(&shared->mutex);
	*lease = shared->worker_lease;
	*number = pg_atomic_read_u32(&shared->leases);
	SpinLockRelease(&shared->mutex);
	return lease->worker_id >= 0;
}

/* The instant of a tick, also of one past the last. */
static TimestampTz
tick_instant(const Layout *layout, uint64 tick)
{
	return LayoutTickToTime(layout, Min(tick, (uint64) layout->last_tick));
}

static const char *
lease_hint(LeaseState state)
{
	switch (state)
	{
		case LEASE_NOT_ASKED:
			return "The server was started or promoted a moment ago, and asks the registry for a lease. If that goes on, \"max_worker_processes\" may have no room for the lease worker.";
		case LEASE_HELD:
			return "The lease is renewed every third of \"snowflake.registry_lease\". If that is too late, raise it, or lower \"snowflake.max_ahead\".";
		case LEASE_UNREACHABLE:
			return "The registry cannot be reached; the server's log tells why. Ids are made again as soon as it answers.";
		case LEASE_NONE_FREE:
			return "The registry has no free worker id. Ids are made again as soon as it has one.";
		case LEASE_REFUSED:
			return "The registry refuses this server; the server's log tells why.";
		case LEASE_RELEASED:
			return "The lease was given back, because the server or its lease worker is being stopped.";
	}
	return NULL;				/* keep compiler quiet */
}

/* Wait for a lease that begins or goes further than the one that we know. */
static void
wait_for_lease(int64 *wait_start)
{
	const Layout *layout = GeneratorLayout();
	WorkerLease lease;
	LeaseState	state;

	if (keep_waiting(10000, WAIT_LEASE, setting_max_wait * INT64CONST(1000), wait_start))
		return;

	SpinLockAcquire(&shared->mutex);
	lease = shared->worker_lease;
	state = shared->lease_state;
	SpinLockRelease(&shared->mutex);
	ereport(ERROR,
			(errcode(ERRCODE_SNOWFLAKE_NO_LEASE),
			 errmsg("server has no lease of a worker id for snowflake ids"),
			 lease.worker_id < 0 ? 0 :
			 errdetail("Its lease of worker id " INT64_FORMAT " is for ids before %s.",
					   lease.worker_id,
					   timestamptz_to_str(tick_instant(layout, lease.end))),
			 errhint("%s", lease_hint(state))));
}

/* What of an id says which server made it. */
static int64
server_mask(const Layout *layout)
{
	return LayoutPut(layout, FIELD_DATACENTER,
					 LayoutLargest(layout, FIELD_DATACENTER)) |
		LayoutPut(layout, FIELD_WORKER, LayoutLargest(layout, FIELD_WORKER));
}

/*
 * Take over the settings, at first use and whenever they, the lease or the
 * number of resets have changed.
 */
static void
configure(int64 *wait_start)
{
	const Layout *layout;
	int64		server_bits;
	uint32		resets;
	int			num_lanes;
	int64		lease;
	WorkerLease worker_lease;
	uint32		leases;

	/* the timeline is not known before recovery has ended */
	PreventCommandDuringRecovery("snowflake_nextval()");

	SettingsCheckUsable();
	layout = GeneratorLayout();
	if (slot == NULL)
		slot = find_slot(true);

	while ((resets = pg_atomic_read_u32(&shared->resets)) & 1)
		sleep_for(10000, WAIT_MARK);

	while (!get_worker_lease(&worker_lease, &leases))
		wait_for_lease(wait_start);
	server_bits =
		server_id_bits(layout, FIELD_DATACENTER, "snowflake.datacenter_id",
					   setting_datacenter_id) |
		server_id_bits(layout, FIELD_WORKER, "snowflake.worker_id",
					   worker_lease.worker_id);
	server = SettingsRegistryIsUsed() ? &shared->leased_server : find_server(server_bits);
	server_bits |= LayoutPut(layout, FIELD_TIMELINE,
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
	 * Half of what ids may be ahead of the clock is kept for the limit,
	 * within bounds: less would move it too often, more would serve nothing.
	 */
	lease = setting_max_ahead < 0 ? 2000 :
		Min(Max(setting_max_ahead / 2, 200), 2000);
	config.lease = Max(lease * 1000 / layout->tick, 1);
	if (setting_max_ahead < 0)
		config.ahead = config.max_ahead = PG_INT64_MAX;
	else
	{
		config.max_ahead = setting_max_ahead * INT64CONST(1000) / layout->tick;
		config.ahead = Max(setting_max_ahead - lease, 0) * 1000 / layout->tick;
	}

	/* another worker id may be a lower one: go on in the next tick */
	if (last_id >= 0 && server_bits != config.server_bits)
		min_tick = (last_word >> config.sequence_bits) + 1;
	/* a reset goes back, with a worker id that has made no ids there */
	if (resets != config.resets)
		min_tick = last_word = 0;
	config.worker_lease = worker_lease;
	config.leases = leases;
	config.server_bits = server_bits;
	config.resets = resets;

	config.settings_version = settings_version;
}

/* Whether this session knows of the latest settings, lease and resets. */
static bool
is_configured(void)
{
	return config.settings_version == settings_version &&
		config.resets == pg_atomic_read_u32(&shared->resets) &&
		config.leases == pg_atomic_read_u32(&shared->leases);
}

/* The same for calls that make no ids. */
static void
ensure_configured(void)
{
	int64		wait_start = 0;

	while (!is_configured())
		configure(&wait_start);
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

	*tick = Max(*tick, Max(min_tick, config.worker_lease.start));
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
	 * A tick that has no id of this session.  It begins at home, and a
	 * session that keeps filling lanes begins at the lowest, to have all of
	 * them.
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

/*
 * Look whether the wall clock was stepped: it is compared with the monotonic
 * clock, which is not.  Who sees a step first logs it.  Returns true if so,
 * and interrupts may have been served then.
 */
static bool
watch_clock(void)
{
	/* read before the clocks, lest somebody log a step that we have not seen */
	uint64		known = pg_atomic_read_u64(&shared->clock_offset);
	int64		before = monotonic_now();
	TimestampTz now = GetCurrentTimestamp();
	int64		after = monotonic_now();
	int64		offset = now - after;
	int64		step = offset - (int64) known;

	/* if we were stopped between the looks, they tell nothing */
	if (after - before > CLOCK_STEP ||
		(known != 0 && Max(step, -step) < CLOCK_STEP + (after - before)))
		return false;
	if (!pg_atomic_compare_exchange_u64(&shared->clock_offset, &known, offset) ||
		known == 0)
		return false;
	if (step < 0)
		StatsAddStepBack(-step, now);

	ereport(WARNING,
			(step > 0 ?
			 errmsg("clock was stepped forward by %.3f s", step / 1e6) :
			 errmsg("clock was stepped back by %.3f s", -step / 1e6),
			 errdetail("It says %s now.", timestamptz_to_str(now))));
	return true;
}

/* The highest id that ids from this tick on do without. */
static int64
mark_below(const Layout *layout, uint64 tick)
{
	if (tick > (uint64) layout->last_tick)
		return LayoutLargestId(layout);
	return ((int64) (tick << config.time_shift) | config.server_bits) - 1;
}

/* The first tick whose ids are all above a mark. */
static uint64
first_tick_above(int64 mark)
{
	int64		tick = mark >> config.time_shift;

	if (((tick << config.time_shift) | config.server_bits) <= mark)
		tick++;
	return tick;
}

static void
mark_exhausted(const Layout *layout, uint64 mark_tick)
{
	ereport(ERROR,
			(errcode(ERRCODE_SNOWFLAKE_LAYOUT_EXHAUSTED),
			 errmsg("snowflake layout has no tick left above the mark"),
			 errdetail("Ids up to " INT64_FORMAT " or more are taken in this database, and the largest of the layout \"%s\" is " INT64_FORMAT ".",
					   mark_below(layout, mark_tick), LayoutToText(layout),
					   LayoutLargestId(layout)),
			 errhint("If the layout was changed, choose one whose ids are greater than those of the old one. If the sequence \"snowflake_mark\" was set by hand, set it right.")));
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
	{
		(void) watch_clock();
		ereport(ERROR,
				(errcode(ERRCODE_SNOWFLAKE_BEFORE_EPOCH),
				 errmsg("clock is before the epoch of the snowflake layout"),
				 errdetail("The clock says %s, and the layout is \"%s\".",
						   timestamptz_to_str(now), LayoutToText(layout)),
				 errhint("Set the clock of the server right, or choose a layout with an earlier epoch.")));
	}
	if (!LayoutTimeToTick(layout, now, &tick))
		layout_exhausted(layout);
	return tick;
}

/* The last tick that ids may be in. */
static uint64
ahead_bound(uint64 now_tick, uint64 mark_tick)
{
	uint64		start = Max(mark_tick, pg_atomic_read_u64(&shared->start));
	uint64		bound = now_tick + config.ahead;

	return start > bound ? now_tick + config.max_ahead : bound;
}

/* Wait for a lock on the mark that is not one of ours to be given up. */
static void
wait_for_lock(int64 *wait_start)
{
	if (!keep_waiting(10000, WAIT_MARK, setting_max_wait * INT64CONST(1000), wait_start))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("could not obtain lock on the snowflake mark"),
				 errdetail("Another transaction changes or drops a sequence that holds it. \"snowflake.max_wait\" is %d ms.",
						   setting_max_wait),
				 errhint("Ids can be made when that transaction has ended.")));
}

/* Open the mark of a function's extension, waiting for all who are at it. */
static void
open_mark(Mark *mark, Oid function)
{
	int64		wait_start = 0;

	while (!MarkOpen(mark, function, true))
		wait_for_lock(&wait_start);
}

/*
 * Wait for the clock to come nearer to the tick that the next id can be in.
 * Throws an error when the call has waited for long enough.  "mark_tick" is
 * the first tick above a mark that was not written here, or 0.
 */
static void
wait_for_clock(const Layout *layout, uint64 tick, uint64 mark_tick,
			   int64 *wait_start)
{
	TimestampTz now = GetCurrentTimestamp();
	uint64		now_tick = clock_tick(layout, now);
	uint64		ahead = ahead_bound(now_tick, mark_tick) - now_tick;
	uint64		begin = Max(pg_atomic_read_u64(&slot->floor), mark_tick);
	int64		max_wait = setting_max_wait * INT64CONST(1000);
	int64		missing;

	/* others may have seen a later clock than we did, before we slept */
	if (tick <= now_tick + ahead)
		return;
	missing = LayoutTickToTime(layout, Min(tick, (uint64) layout->last_tick) - ahead) - now;

	/* after a start, what the mark has in advance is waited out in any case */
	if (tick <= Max(mark_tick, pg_atomic_read_u64(&shared->start)) &&
		tick - now_tick - ahead <= config.lease + 1)
		max_wait = Max(max_wait, (int64) (config.lease + 1) * layout->tick);

	/* look up now and then, in case somebody sets the clock right */
	if (keep_waiting(Min(missing, 100000), WAIT_CLOCK, max_wait, wait_start))
		return;

	if (config.worker_lease.start > now_tick + ahead)
		ereport(ERROR,
				(errcode(ERRCODE_SNOWFLAKE_NO_LEASE),
				 errmsg("lease of a worker id for snowflake ids begins ahead of the clock"),
				 errdetail("It is for worker id " INT64_FORMAT " and for ids from %s on. The clock has to advance by another %.3f ms before the first.",
						   config.worker_lease.worker_id,
						   timestamptz_to_str(tick_instant(layout, config.worker_lease.start)),
						   missing / 1e3),
				 errhint("It begins above what others can have made with the worker id. No other one was free, or the registry may have lost grants.")));
	if (begin > now_tick + ahead)
		ereport(ERROR,
				(errcode(ERRCODE_SNOWFLAKE_TOO_FAR_AHEAD),
				 errmsg("snowflake ids are too far ahead of the clock"),
				 errdetail("Ids up to " INT64_FORMAT " are taken in this database, and the clock of the server gives ids from " INT64_FORMAT " on. It has to advance by another %.3f ms before the next id. \"snowflake.max_ahead\" is %d ms, \"snowflake.max_wait\" is %d ms.",
						   mark_below(layout, begin),
						   (int64) (now_tick << config.time_shift) | config.server_bits,
						   missing / 1e3, setting_max_ahead, setting_max_wait),
				 errhint("If the clock was set back, it will catch up, or raise \"snowflake.max_ahead\". If it had been far ahead, give the server a fresh \"snowflake.worker_id\" and call snowflake_reset_mark(). If layout or epoch were changed, ids of the new layout must be greater than those of the old one.")));
	ereport(ERROR,
			(errcode(ERRCODE_SNOWFLAKE_TOO_FAR_AHEAD),
			 errmsg("snowflake ids are too far ahead of the clock"),
			 errdetail("The clock has to advance by another %.3f ms before the next id. \"snowflake.max_ahead\" is %d ms, \"snowflake.max_wait\" is %d ms.",
					   missing / 1e3, setting_max_ahead, setting_max_wait),
			 errhint("If ids are wanted faster than the layout has them, give it more bits of lane or sequence, or raise \"snowflake.max_ahead\".")));
}

/* Raise what the spinlock guards. */
static void
raise_to(pg_atomic_uint64 *value, uint64 target)
{
	if (pg_atomic_read_u64(value) < target)
		pg_atomic_write_u64(value, target);
}

/* Whether the limit is reached, or half of the way to it is used. */
static bool
limit_is_near(uint64 tick, uint64 floor, uint64 limit)
{
	return tick >= limit ||
		(tick >= floor && tick - floor >= limit - 1 - tick);
}

/*
 * Move the floor to the tick; false if there was a reset that this session
 * does not know of.  To be done before the mark is written, which may fail
 * half way.  From then on the mark is one that was written here, and nothing
 * but the floor keeps ids above what it was before.
 */
static bool
raise_floor(uint64 tick)
{
	bool		known;

	SpinLockAcquire(&shared->mutex);
	known = pg_atomic_read_u32(&shared->resets) == config.resets;
	if (known)
		raise_to(&slot->floor, tick);
	SpinLockRelease(&shared->mutex);
	return known;
}

/* By how many ticks to move the limit.  The caller holds the mark. */
static uint64
next_lease(uint64 floor, uint64 limit)
{
	uint64		last_lease;
	int64		elapsed;

	if (setting_max_ahead >= 0)
		return config.lease;

	/*
	 * Ids may run ahead of the clock as fast as they are made.  Adapt to
	 * that, so that the limit is moved about once a second.
	 */
	last_lease = limit > floor ? limit - floor : 0;
	elapsed = monotonic_now() - slot->extended_at;
	if (elapsed < USECS_PER_SEC / 2)
		last_lease *= 2;
	else if (elapsed > 2 * USECS_PER_SEC)
		last_lease /= 2;
	return Max(last_lease, config.lease);
}

/*
 * Move the limit a lease ahead of the tick, and the floor to it, and have the
 * mark cover that before.  This is what keeps invariant 3.
 *
 * If that must be done now, this waits for others who are at it; else they do
 * it.  Returns false if the mark is locked.  Nothing is moved if the mark is
 * found above the tick; then *mark_tick is the first tick above it.
 */
static bool
extend_limit(Oid function, const Layout *layout, uint64 tick, uint64 now_tick,
			 bool must, uint64 *mark_tick)
{
	Mark		mark;
	uint64		lease;
	uint64		floor;
	uint64		limit;
	int64		found;
	int64		begin;

	if (!MarkOpen(&mark, function, must))
		return false;
	floor = pg_atomic_read_u64(&slot->floor);
	limit = pg_atomic_read_u64(&slot->limit);
	if (!(must ? tick >= limit : limit_is_near(tick, floor, limit)) ||
		!raise_floor(tick))
	{
		/*
		 * Somebody else did it before we had the lock, or has set the mark
		 * back: then the tick is not what it should be, and must not bring
		 * the old mark back.
		 */
		MarkClose(&mark);
		return true;
	}

	/*
	 * The limit may be ahead of the clock by max_ahead, and by a lease if
	 * that is more.  After a start the ids may be there already; move it by a
	 * part of the lease then, so that it is not written for each tick.
	 */
	lease = next_lease(floor, limit);
	limit = now_tick + Max(config.max_ahead, config.lease);
	limit = Max(Min(limit, tick + lease), tick + Max(lease / 8, 1));
	limit = Min(limit, (uint64) layout->last_tick) + 1;

	begin = monotonic_now();
	if (MarkRaise(&mark, mark_below(layout, tick), mark_below(layout, limit),
				  &slot->written, &found))
	{
		slot->extended_at = monotonic_now();
		StatsAdd(STATS_MARK_EXTENSIONS, 1);
		StatsAdd(STATS_MARK_FLUSH_TIME, slot->extended_at - begin);
		SpinLockAcquire(&shared->mutex);
		if (pg_atomic_read_u32(&shared->resets) == config.resets)
		{
			raise_to(&slot->limit, limit);
			raise_to(&shared->start, *mark_tick);
		}
		SpinLockRelease(&shared->mutex);
	}
	else if (must)
		*mark_tick = first_tick_above(found);
	MarkClose(&mark);
	return true;
}

/* Remember that the worker id in use may have ids in the tick. */
static void
note_use(uint64 tick)
{
	uint64		end = pg_atomic_read_u64(&server->end);

	while (end <= tick &&
		   !pg_atomic_compare_exchange_u64(&server->end, &end,
										   Max(tick + 1, pg_atomic_read_u64(&slot->limit))))
		;
}

/* What comes up for want of ids is counted if it has the code of an error. */
static void
count_error(void *arg)
{
	int			code = geterrcode();

	if (code == ERRCODE_SNOWFLAKE_TOO_FAR_AHEAD)
		StatsAdd(STATS_ERRORS_AHEAD, 1);
	else if (code == ERRCODE_SNOWFLAKE_BEFORE_EPOCH)
		StatsAdd(STATS_ERRORS_EPOCH, 1);
	else if (code == ERRCODE_SNOWFLAKE_LAYOUT_EXHAUSTED)
		StatsAdd(STATS_ERRORS_EXHAUSTED, 1);
	else if (code == ERRCODE_SNOWFLAKE_NO_LEASE)
		StatsAdd(STATS_ERRORS_LEASE, 1);
	else if (code == ERRCODE_CONFIG_FILE_ERROR)
		StatsAdd(STATS_ERRORS_SETTING, 1);
	else if (code == ERRCODE_LOCK_NOT_AVAILABLE)
		StatsAdd(STATS_ERRORS_LOCK, 1);
}

/*
 * Open a window: settle which lane and tick the next ids come from, moving
 * the limit and waiting for the clock if need be.
 */
static void
open_window(TimestampTz now, int64 *wait_start, Oid function)
{
	const Layout *layout;
	uint64		mark_tick = 0;
	bool		watched = false;
	bool		tried = false;
	uint64		now_tick;
	uint64		tick;
	int			lane;
	ErrorContextCallback errcallback = {
		.callback = count_error,
		.previous = error_context_stack
	};

	window.clock_length = 0;
	error_context_stack = &errcallback;

	/* whatever takes time begins again, with a new look at everything */
	for (;; now = GetCurrentTimestamp())
	{
		uint64		floor;
		uint64		limit;
		bool		must;

		/*
		 * Before a look at the number of resets and the lease, for a reset or
		 * the end of a lease makes that known first, and then begins a new
		 * generation.
		 */
		if (shared != NULL)
			window.generation = pg_atomic_read_u32(&shared->generation);
		pg_read_barrier();
		if (!is_configured())
		{
			configure(wait_start);
			mark_tick = 0;
			continue;
		}
		layout = GeneratorLayout();

		/*
		 * In this order: an old floor may be below the mark that a new limit
		 * is covered by.
		 */
		limit = pg_atomic_read_u64(&slot->limit);
		pg_read_barrier();
		floor = Max(mark_tick, pg_atomic_read_u64(&slot->floor));

		now_tick = clock_tick(layout, now);
		if (!watched &&
			(now_tick < floor || limit_is_near(now_tick, floor, limit)))
		{
			watched = true;
			if (watch_clock())
				continue;
		}
		tick = Max(floor, now_tick);
		choose_lane(&tick, &lane);

		if (mark_tick > (uint64) layout->last_tick)
			mark_exhausted(layout, mark_tick);
		if (tick > (uint64) layout->last_tick)
			layout_exhausted(layout);
		if (tick > ahead_bound(now_tick, mark_tick))
		{
			if (!watch_clock())
				wait_for_clock(layout, tick, mark_tick, wait_start);
			continue;
		}
		if (tick >= config.worker_lease.end)
		{
			wait_for_lease(wait_start);
			continue;
		}

		must = tick >= limit;
		if (!must && (tried || !limit_is_near(tick, floor, limit)))
			break;
		tried = true;
		if (!extend_limit(function, layout, tick, now_tick, must, &mark_tick) && must)
			wait_for_lock(wait_start);
	}

	error_context_stack = errcallback.previous;

	/* a filled lane made the session go on to another in the same tick */
	if (last_id >= 0 && tick == last_word >> config.sequence_bits &&
		lane != ((last_id >> config.lane_shift) & config.lane_mask))
		StatsPend(STATS_SPILLS, 1);

	/* before the first id: a reset looks at it when all windows are closed */
	note_use(tick);

	window.clock_start = LayoutTickToTime(layout, now_tick);
	window.clock_length = layout->tick;
	window.word = &shared->lanes[lane].word;
	window.first = tick << config.sequence_bits;
	window.last = window.first | config.sequence_mask;
	window.start = window.first;
	if (setting_sequence_start == SEQUENCE_START_RANDOM && !lane_filled)
		window.start |= compat_random() & (config.sequence_mask >> 1);
	window.id_bits = config.server_bits | ((int64) lane << config.lane_shift);

	/* at the end, for it may close the window at any time */
	StatsFoldSoon(now, &window.clock_length);
}

/* Remember the word of the last id, and the id. */
static inline void
note_last(uint64 word, int64 tag_bits)
{
	last_word = word;
	last_id = (int64) (word >> config.sequence_bits) << config.time_shift |
		(int64) (word & config.sequence_mask) << config.sequence_shift |
		window.id_bits | tag_bits;
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
		pg_read_barrier();
		if (unlikely(word > window.last ||
					 window.generation != pg_atomic_read_u32(&shared->generation)))
			return false;
	} while (unlikely(!pg_atomic_compare_exchange_u64(window.word, &old, word)));

	note_last(word, tag_bits);
	StatsPend(STATS_IDS, 1);
	return true;
}

/*
 * Take so many ids at once from the window, or those that it has left.
 * Returns their number.
 */
static int
take_block(int count)
{
	uint64		old = pg_atomic_read_u64(window.word);
	uint64		first;
	uint64		last;

	do
	{
		if (old >= window.first)
			first = old + 1;
		else if (window.last - window.start >= count - 1)
			first = window.start;
		else
			first = window.first;
		pg_read_barrier();
		if (first > window.last ||
			window.generation != pg_atomic_read_u32(&shared->generation))
			return 0;
		last = Min(first + count - 1, window.last);
	} while (!pg_atomic_compare_exchange_u64(window.word, &old, last));

	note_last(last, 0);
	StatsPend(STATS_IDS, last - first + 1);
	return last - first + 1;
}

/*
 * Make an id.  The value of its tag, if it has one, is given in its place.
 * The function that is called tells which extension's mark covers the id.
 */
int64
GeneratorNext(int64 tag_bits, Oid function)
{
	TimestampTz now = GetCurrentTimestamp();
	int64		wait_start = 0;

	/* one comparison for both ends of the clock's tick */
	if (likely(LayoutSpan(window.clock_start, now) < window.clock_length) &&
		likely(take_id(tag_bits)))
		return last_id;

	for (;;)
	{
		open_window(now, &wait_start, function);
		if (take_id(tag_bits))
			return last_id;
		now = GetCurrentTimestamp();
	}
}

/*
 * How many consecutive ids one call can get at most, beginning with no id
 * ahead of the clock, before it has waited for too long.  Throws an error if
 * the layout has none.
 */
int64
GeneratorReservable(void)
{
	const Layout *layout = GeneratorLayout();
	double		per_tick;
	double		ticks;
	ErrorContextCallback errcallback = {
		.callback = count_error,
		.previous = error_context_stack
	};

	if (layout->order[layout->num_fields - 1] != FIELD_SEQUENCE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("snowflake layout has no consecutive ids"),
				 errdetail("The last field of the layout \"%s\" must be \"sequence\".",
						   LayoutToText(layout)),
				 errhint("Call snowflake_nextval() for each id, or set \"snowflake.layout\" to another layout and restart the server.")));

	error_context_stack = &errcallback;
	ensure_configured();
	error_context_stack = errcallback.previous;
	per_tick = (config.end_lane - config.first_lane) * (config.sequence_mask + 1.0);
	ticks = 1 + config.ahead + (double) setting_max_wait * 1000 / layout->tick;
	return Min(per_tick * ticks, PG_INT32_MAX);
}

/*
 * Make consecutive ids, as many as are wanted or as the lane has left in its
 * tick.  Returns their number.  There must be some, see above.  A caller who
 * goes on until it has all of them has one "wait_start" for them, 0 at first,
 * and waits once for them all.
 */
int
GeneratorReserve(int count, int64 *first, int64 *last, int64 *wait_start,
				 Oid function)
{
	int			taken;

	do
	{
		open_window(GetCurrentTimestamp(), wait_start, function);
		taken = take_block(count);
	} while (taken == 0);
	*last = last_id;
	*first = last_id - taken + 1;
	return taken;
}

/* The last id that this process has made; false if there is none. */
bool
GeneratorLast(int64 *id)
{
	*id = last_id;
	return last_id >= 0;
}

/* Begin a new generation of windows, see invariant 6. */
static void
close_windows(void)
{
	pg_atomic_fetch_add_u32(&shared->generation, 1);
	for (int i = 0; i < GENERATOR_MAX_LANES; i++)
		pg_atomic_fetch_add_u64(&shared->lanes[i].word, 1);
}

/* See to it that new ids of this database are greater than this one. */
void
GeneratorAdvance(int64 id, Oid function)
{
	const Layout *layout;
	Mark		mark;
	uint64		tick;
	uint64		now_tick;
	int64		found;

	PreventCommandDuringRecovery("snowflake_advance()");
	for (;;)
	{
		ensure_configured();
		layout = GeneratorLayout();
		LayoutCheckId(layout, id);
		tick = (id >> config.time_shift) + 1;

		open_mark(&mark, function);
		if (raise_floor(tick))
			break;
		MarkClose(&mark);
	}
	/* if it finds the mark above that, all new ids will be above the mark */
	(void) MarkRaise(&mark, mark_below(layout, tick), mark_below(layout, tick),
					 &slot->written, &found);
	MarkClose(&mark);
	close_windows();

	now_tick = clock_tick(layout, GetCurrentTimestamp());
	if (tick > now_tick + config.max_ahead)
		ereport(WARNING,
				(errmsg("snowflake ids are too far ahead of the clock now"),
				 errdetail("The id " INT64_FORMAT " is of %s, and ids may be %d ms ahead of the clock.",
						   id, timestamptz_to_str(LayoutTickToTime(layout, tick - 1)),
						   setting_max_ahead)));
}

/* What is too far ahead of the clock for new ids to be above it. */
static void
reset_refused(const Layout *layout, uint64 tick)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("snowflake mark cannot be reset for the same worker id"),
			 errdetail("Ids up to " INT64_FORMAT ", of %s, may have been made with it, and would be made again when the clock gets there.",
					   mark_below(layout, tick),
					   timestamptz_to_str(tick_instant(layout, tick))),
			 errhint("Give the server a \"snowflake.worker_id\" that has never been used, reload, and call snowflake_reset_mark() in a new session.")));
}

/*
 * The first tick of the clock or later that is above the marks, except for
 * those that are too far ahead and that another worker id has written.
 */
static uint64
tick_after_reset(const Layout *layout, const int64 *marks, uint64 now_tick,
				 bool force)
{
	uint64		begin = now_tick;
	int64		mask = server_mask(layout);

	for (int i = 0; i < MARK_COPIES; i++)
	{
		int64		mark = Min(marks[i], LayoutLargestId(layout));
		uint64		tick = first_tick_above(mark);

		/* the id after a mark tells who wrote it, see mark_below() */
		if (tick <= now_tick + config.max_ahead)
			begin = Max(begin, tick);
		else if (!force &&
				 (mask == 0 || mark == LayoutLargestId(layout) ||
				  ((mark + 1) & mask) == (config.server_bits & mask)))
			reset_refused(layout, tick);
	}
	return begin;
}

/* Set back limit, mark and lanes.  What a reset does while others wait for it. */
static void
set_back(const Mark *mark, const Layout *layout, uint64 begin, uint64 bound,
		 bool force)
{
	uint64		used;

	close_windows();
	used = pg_atomic_read_u64(&server->end);
	if (used <= bound)
		begin = Max(begin, used);
	else if (!force)
		reset_refused(layout, used);

	/* should the rest fail half way, the mark no longer covers the limit */
	SpinLockAcquire(&shared->mutex);
	pg_atomic_write_u64(&slot->limit, 0);
	SpinLockRelease(&shared->mutex);
	MarkSet(mark, mark_below(layout, begin), &slot->written);

	SpinLockAcquire(&shared->mutex);

	/*
	 * To what no word was before: a compare-and-swap might wait for that.
	 * With a lease they are never far ahead, and tell how much of it is used.
	 */
	if (server != &shared->leased_server)
	{
		for (int i = 0; i < GENERATOR_MAX_LANES; i++)
			pg_atomic_write_u64(&shared->lanes[i].word,
								pg_atomic_read_u32(&shared->resets));
	}
	for (int i = 0; i < MAX_DATABASES; i++)
	{
		DatabaseSlot *other = &shared->slots[i];
		int64		written = (int64) pg_atomic_read_u64(&other->written);

		pg_atomic_write_u64(&other->limit, 0);
		raise_to(&other->floor, Max(begin, first_tick_above(written)));
	}
	pg_atomic_write_u64(&slot->floor, begin);
	pg_atomic_write_u64(&shared->start, begin);
	for (int i = 0; i < MAX_SERVERS; i++)
		shared->servers[i].retired =
			shared->servers[i].server_bits != -1 && &shared->servers[i] != server;
	pg_atomic_write_u64(&server->end, begin);
	SpinLockRelease(&shared->mutex);
}

static void
end_reset(int code, Datum arg)
{
	pg_atomic_fetch_add_u32(&shared->resets, 1);
}

/* Have all others wait meanwhile, and go on whatever comes of it. */
static void
reset_alone(const Mark *mark, const Layout *layout, uint64 begin,
			uint64 bound, bool force)
{
	bool		busy;

	SpinLockAcquire(&shared->mutex);
	busy = pg_atomic_read_u32(&shared->resets) != config.resets;
	if (!busy)
		pg_atomic_fetch_add_u32(&shared->resets, 1);
	SpinLockRelease(&shared->mutex);
	if (busy)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("another snowflake mark is being reset"),
				 errhint("Try again.")));

	PG_ENSURE_ERROR_CLEANUP(end_reset, (Datum) 0);
	{
		set_back(mark, layout, begin, bound, force);
	}
	PG_END_ENSURE_ERROR_CLEANUP(end_reset, (Datum) 0);
	end_reset(0, (Datum) 0);
}

/*
 * Set the mark back to the clock, after the clock was far ahead.  The ids made
 * then are kept apart from new ones by the worker id.
 *
 * New ids begin above all that is within their reach, whoever made it, so
 * nothing is set back that need not be.  Lanes are set back, too, and all
 * databases share these.  The other databases go on as after a start, above
 * their own marks.
 */
void
GeneratorReset(bool force, Oid function)
{
	const Layout *layout;
	Mark		mark;
	int64		marks[MARK_COPIES];
	int64		old_mark;
	uint64		now_tick;
	uint64		begin;

	PreventCommandDuringRecovery("snowflake_reset_mark()");
	ensure_configured();
	layout = GeneratorLayout();

	open_mark(&mark, function);
	now_tick = clock_tick(layout, GetCurrentTimestamp());
	MarkRead(&mark, marks);
	begin = tick_after_reset(layout, marks, now_tick, force);
	old_mark = Min(Max(marks[0], marks[1]), LayoutLargestId(layout));
	if (!force && begin >= first_tick_above(old_mark))
	{
		MarkClose(&mark);
		ereport(NOTICE,
				(errmsg("snowflake mark is not too far ahead of the clock"),
				 errdetail("Nothing was reset.")));
		return;
	}
	reset_alone(&mark, layout, begin, now_tick + config.max_ahead, force);
	MarkClose(&mark);
	ereport(NOTICE,
			(errmsg("snowflake mark was reset"),
			 errdetail("Ids up to " INT64_FORMAT ", of %s, were taken in this database. Do not use the worker id that they have before then.",
					   old_mark,
					   timestamptz_to_str(LayoutTickToTime(layout, LayoutGet(layout, FIELD_TIME, old_mark))))));
}

/*
 * Give a mark that was just created what is known to have been written in
 * this database, by an extension that has been dropped or not been committed.
 */
void
GeneratorRestoreMark(Oid function)
{
	Mark		mark;
	int64		written;

	if (shared == NULL)
		attach_shared();
	slot = find_slot(false);
	written = slot == NULL ? 0 : (int64) pg_atomic_read_u64(&slot->written);
	if (written != 0)
	{
		open_mark(&mark, function);
		MarkSet(&mark, written, &slot->written);

		/* what the old mark covered is to be covered by the new one */
		SpinLockAcquire(&shared->mutex);
		pg_atomic_write_u64(&slot->limit, 0);
		SpinLockRelease(&shared->mutex);
		close_windows();
		MarkClose(&mark);
	}

	/* others make ids as soon as they see the extension: it must not get lost */
	ForceSyncCommit();
}

/* The first tick that does not begin before an instant. */
static uint64
first_tick_from(const Layout *layout, TimestampTz instant)
{
	int64		tick;

	if (instant <= layout->epoch)
		return 0;
	if (!LayoutTimeToTick(layout, instant - 1, &tick))
		return (uint64) layout->last_tick + 1;
	return tick + 1;
}

/*
 * Take ids whose time is from an instant on and before another from a worker
 * id that nobody else has them from.  For the lease worker.
 */
void
GeneratorSetLease(int64 worker_id, TimestampTz starts, TimestampTz ends)
{
	const Layout *layout = GeneratorLayout();
	WorkerLease lease = {
		.worker_id = worker_id,
		.start = first_tick_from(layout, starts),
		.end = first_tick_from(layout, ends)
	};

	SpinLockAcquire(&shared->mutex);
	shared->worker_lease = lease;
	shared->lease_state = LEASE_HELD;
	pg_atomic_fetch_add_u32(&shared->leases, 1);
	SpinLockRelease(&shared->mutex);
}

/* Say why the lease is not renewed, for errors when it has ended. */
void
GeneratorSetLeaseState(LeaseState state)
{
	SpinLockAcquire(&shared->mutex);
	shared->lease_state = state;
	SpinLockRelease(&shared->mutex);
}

/*
 * Make no more ids under the lease.  Returns the first instant that none of
 * them can be of: by invariant 6, no session makes one after that.
 */
TimestampTz
GeneratorEndLease(void)
{
	const Layout *layout = GeneratorLayout();
	uint64		end = 0;

	SpinLockAcquire(&shared->mutex);
	shared->worker_lease.worker_id = -1;
	shared->lease_state = LEASE_RELEASED;
	pg_atomic_fetch_add_u32(&shared->leases, 1);
	SpinLockRelease(&shared->mutex);
	close_windows();

	for (int i = 0; i < GENERATOR_MAX_LANES; i++)
	{
		uint64		word = pg_atomic_read_u64(&shared->lanes[i].word);

		end = Max(end, (word >> layout->bits[FIELD_SEQUENCE]) + 1);
	}
	return end > (uint64) layout->last_tick ? DT_NOEND : LayoutTickToTime(layout, end);
}

/* Look at everything, without changing anything or waiting. */
void
GeneratorGetStatus(GeneratorStatus *status)
{
	WorkerLease lease;
	uint32		number;
	uint64		last_tick = 0;

	memset(status, 0, sizeof(*status));
	status->last_id_at = status->lease_starts = status->lease_ends = DT_NOBEGIN;
	status->usable = SettingsAreUsable();
	if (shared == NULL)
		attach_shared();
	/* not GeneratorLayout(), which would fix it */
	SpinLockAcquire(&shared->mutex);
	if (shared->layout_fixed)
		status->layout = &shared->layout;
	SpinLockRelease(&shared->mutex);
	if (status->layout == NULL && SettingsLayoutIsUsable())
		status->layout = &setting_layout;

	status->leased = SettingsRegistryIsUsed();
	status->worker_id = get_worker_lease(&lease, &number) ? lease.worker_id : -1;
	if (status->leased && status->worker_id >= 0)
	{
		status->lease_starts = tick_instant(status->layout, lease.start);
		status->lease_ends = tick_instant(status->layout, lease.end);
	}

	SpinLockAcquire(&shared->mutex);
	status->lease_state = shared->lease_state;
	for (int i = 0; i < GENERATOR_MAX_LANES; i++)
	{
		status->sessions += shared->lanes[i].sessions;
		if (shared->lanes[i].sessions > 0)
			status->lanes_in_use++;
	}
	SpinLockRelease(&shared->mutex);

	if (status->layout == NULL)
		return;
	if (status->worker_id > LayoutLargest(status->layout, FIELD_WORKER) ||
		setting_datacenter_id > LayoutLargest(status->layout, FIELD_DATACENTER))
		status->usable = false;
	else if (!status->leased)
		status->set_aside = is_set_aside(LayoutPut(status->layout, FIELD_DATACENTER, setting_datacenter_id) |
										 LayoutPut(status->layout, FIELD_WORKER, status->worker_id));
	for (int i = 0; i < GENERATOR_MAX_LANES; i++)
		last_tick = Max(last_tick,
						pg_atomic_read_u64(&shared->lanes[i].word) >> status->layout->bits[FIELD_SEQUENCE]);
	if (last_tick > 0)
		status->last_id_at = tick_instant(status->layout, last_tick);
}

void
GeneratorGetStats(Stats *stats)
{
	if (shared == NULL)
		attach_shared();
	StatsGet(stats);
}

void
GeneratorResetStats(void)
{
	if (shared == NULL)
		attach_shared();
	StatsReset();
}
