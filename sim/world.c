/*-------------------------------------------------------------------------
 *
 * world.c
 *	  The server, its operator and its registry, and what befalls them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "common/controldata_utils.h"
#include "postmaster/interrupt.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"

#include "sim.h"

Grant		grants[MAX_GRANTS];
int			num_grants;
int			run;
int64		made_since_start;
int			configured_standby;
uint32		configuration;
uint32		standby_since;
Layout		layouts[2];
TransactionId next_xid;
int64		standby_returns_at[NUM_STANDBYS];
int64		standby_had_all_at[NUM_STANDBYS];
Layout	   *world_layout;		/* in force */

static TimeLineID timeline;
static int	configured_ahead;
static int	configured_worker;
static int	configured_datacenter;
static int	configured_wait;
static bool always_synchronous; /* the standby is, since it had all */
static int	clock_drift;		/* of the wall clock, in millionths */
static int	configured_start;
static int	configured_jump;
static int	configured_set_back;
static bool was_unbounded;		/* max_ahead */
static Layout *configured_layout;	/* from the next start on */
static pg_time_t checkpoint;
static int64 offsets[4];		/* where the clock likes to be */
static TimestampTz free_from[4];	/* worker ids of the registry */
static int64 registry_offset;	/* of its clock */
static int64 glitch_ends_at;	/* 0: there is none */
static int64 offset_after_glitch;
static int64 drifted;			/* in millionths of a us, not counted yet */
static int	glitches;			/* that follow it */
static int64 rested_at;
static bool has_lost_ids;		/* by the promotion of a standby that lagged */
static bool has_unread;			/* the checkpointer: a reload */
bool		has_other_layout;

ControlFileData *
get_controlfile(const char *directory, bool *crc_ok)
{
	ControlFileData *control = palloc0(sizeof(ControlFileData));

	control->checkPointCopy.time = checkpoint;
	*crc_ok = true;
	return control;
}

/*
 * Settings
 */

TimeLineID
GetWALInsertionTimeLine(void)
{
	return timeline;
}

static char *const standby_names[] = {"", "one", "two"};

/* A process reads the configuration. */
void
WorldLoadSettings(void)
{
	setting_worker_id = configured_worker;
	setting_datacenter_id = configured_datacenter;
	setting_max_ahead = configured_ahead;
	setting_max_wait = configured_wait;
	setting_max_jump = configured_jump;
	setting_max_set_back = configured_set_back;
	setting_sequence_start = configured_start;
	memcpy(&setting_layout, configured_layout, sizeof(Layout));
	setting_registry = plan.leased ? "host=registry" : "";
	SyncRepStandbyNames = standby_names[configured_standby];
	if (me != NULL)
	{
		/* no two are at the same time, even where the clock stands still */
		PgReloadTime++;
		ConfigReloadPending = false;
		me->configuration = configuration;
	}
}

static int
pick(int number, const int *values)
{
	return values[RandomBelow(number)];
}

#define PICK(...) \
	pick(sizeof((int[]) {__VA_ARGS__}) / sizeof(int), (int[]) {__VA_ARGS__})

/* A layout with fields of these bits, in any order */
static void
make_layout(Layout *layout, const int *bits, const char *tick)
{
	static const char *const names[] = {"worker", "timeline", "lane", "sequence", "tag", "datacenter"};
	int			order[] = {0, 1, 2, 3, 4, 5};
	int			time_bits;
	char		text[200];
	char	   *end = text;
	char	   *reason;

	for (int i = 5; i > 0; i--)
	{
		int			j = i - RandomBelow(i + 1);
		int			swap = order[i];

		order[i] = order[j];
		order[j] = swap;
	}
	time_bits = Min(44,
					LAYOUT_MAX_BITS - bits[0] - bits[1] - bits[2] - bits[3] -
					bits[4] - bits[5]);
	end += sprintf(end, "time:%d tick:%s", time_bits, tick);
	for (int i = 0; i < 6; i++)
	{
		/* a tag is the last field */
		if (order[i] != 4)
			end += sprintf(end, " %s:%d", names[order[i]], bits[order[i]]);
	}
	if (bits[4] > 0)
		end += sprintf(end, " tag:%d", bits[4]);
	if (!LayoutParse(text, layout, &reason))
		elog(PANIC, "invalid layout \"%s\": %s", text, reason);
	/* one that ends soon */
	if (RandomOneIn(12))
		layout->last_tick = (WALL_AT_REFERENCE_0 - layout->epoch +
							 RandomBelow(2 * USECS_PER_MINUTE)) /
			layout->tick;
	Say("layout %s", text);
}

/*
 * Make up two layouts: few lanes and sequences, so that they fill up.  Most
 * often, they have the same fields in another order, so that ids can be equal.
 */
static void
make_layouts(void)
{
	static const char *const ticks[] = {"1ms", "1ms", "4ms", "10ms", "100ms", "1s", "100us"};
	int			bits[6] = {0};
	const char *tick = NULL;

	for (int i = 0; i < 2; i++)
	{
		if (i == 0 || RandomOneIn(3))
		{
			bits[0] = PICK(2, 4, 4, 6);
			bits[1] = PICK(0, 0, 2, 4);
			bits[2] = PICK(0, 0, 1, 1, 2, 3);
			bits[3] = PICK(0, 1, 2, 2, 3, 5, 8);
			bits[4] = PICK(0, 0, 0, 3);
			bits[5] = PICK(0, 0, 0, 1);
			tick = ticks[RandomBelow(lengthof(ticks))];
			if (!plan.leased && RandomOneIn(8))
				bits[0] = 0;
			if (bits[2] == 0 && bits[3] == 0)
				bits[3] = 1;
		}
		make_layout(&layouts[i], bits, tick);
	}
}

/*
 * The server
 */

/* Ids begin above what is found. */
static void
note_found(Database *database)
{
	database->disk.advanced = 0;
	database->disk.found_guard = database->disk.guard.bound;
	database->disk.found = DiskLargest(&database->disk);
	if (database->disk.found_guard < database->advanced)
		PromiseBroken("the advance to " INT64_FORMAT " is lost", database->advanced);
}

/* The database has another mark, or finds its own again. */
void
WorldNewMark(Database *database)
{
	database->marks++;
	database->furthest = 0;
}

/* Leave a free slot for one database only, or for two. */
static void
crowd_slots(void)
{
	SharedState *state = (SharedState *) memory;

	for (int i = RandomBelow(2) + 1; i < MAX_DATABASES; i++)
	{
		state->slots[i].database = 100 + i;
		state->slots[i].sessions = 1;
	}
}

/* The checkpointer reads the configuration. */
static void
note_standbys(void)
{
	has_unread = false;
	WalSndCtl->sync_standbys_status = SYNC_STANDBY_INIT |
		(configured_standby > 0 ? SYNC_STANDBY_DEFINED : 0);
}

/*
 * Start it, with the WAL up to a position.  "by_crash": the postmaster has
 * lived on.
 */
static void
start_server(XLogRecPtr lsn, bool by_crash)
{
	PostgresReset();
	run++;
	made_since_start = 0;
	if (!by_crash)
		ProcessNewPostmaster();
	process_shared_preload_libraries_in_progress = plan.preloaded;
	has_unread = false;
	if (plan.parallel)
		note_standbys();
	SettingsDefine();
	WorldLoadSettings();
	if (plan.preloaded)
	{
		if (!by_crash)
			SharedInit();
		shmem_startup_hook();
		if (plan.crowded)
			crowd_slots();
	}
	process_shared_preload_libraries_in_progress = false;
	ProcessSavePostmaster();
	for (int i = 0; i < plan.num_databases; i++)
	{
		Database   *database = &databases[i];

		LWLockInitialize(&database->pages[0], LWTRANCHE_BUFFER_CONTENT);
		LWLockInitialize(&database->pages[1], LWTRANCHE_BUFFER_CONTENT);
		database->sessions = database->writers = 0;
		database->relation_locks[0] = database->relation_locks[1] = 0;
		database->locked_until = 0;
		WorldNewMark(database);
		note_found(database);
	}
	TransactionRecover(lsn);
	if (configured_standby == 0)
		always_synchronous = false;
	else if (on_standby[configured_standby - 1] == written)
		always_synchronous = true;
	PromiseNewServer(by_crash);
	for (int i = 0; i < plan.num_processes; i++)
		processes[i].state = PROCESS_FREE;
}

/* The operator sets ids that fit the layout. */
static void
fit_ids(void)
{
	if (configured_worker > LayoutLargest(world_layout, FIELD_WORKER))
		configured_worker = LayoutLargest(world_layout, FIELD_WORKER);
	if (configured_datacenter > LayoutLargest(world_layout, FIELD_DATACENTER))
		configured_datacenter = LayoutLargest(world_layout, FIELD_DATACENTER);
}

/*
 * The operator chooses a layout.  Only in the same layout, its timeline keeps
 * a standby apart from what it lost.
 */
static void
configure_layout(void)
{
	if (has_lost_ids || plan.layout_changes == 0 || !RandomOneIn(3))
		return;
	configured_layout = &layouts[configured_layout == &layouts[0]];
	has_other_layout = true;
	Say("another layout is configured");
}

/*
 * The server goes down, and comes up with the WAL up to a position.  A
 * promotion may lose ids.
 */
static void
restart(XLogRecPtr lsn, bool promotion, bool loses_ids)
{
	bool		by_crash = !promotion && RandomOneIn(2);

	Say("%s with the WAL up to %llu of %llu", promotion ? "a standby is promoted" : by_crash ? "the server crashes" : "the server is restarted",
		(unsigned long long) lsn, (unsigned long long) written);
	DiskGoBack(lsn, promotion);
	for (int i = 0; loses_ids && i < plan.num_databases; i++)
		databases[i].advanced = databases[i].largest[0] =
			databases[i].largest[1] = 0;
	has_lost_ids |= loses_ids;
	if (promotion)
		timeline++;
	if (!by_crash)
	{
		clock_drift = 0;
		glitch_ends_at = 0;
		PassTime(RandomSize(5000000));
		checkpoint = GetCurrentTimestamp() / USECS_PER_SEC;
		if (plan.clock_steps > 0 && RandomOneIn(3))
			wall_offset = offsets[RandomBelow(lengthof(offsets))];
		configure_layout();
	}
	if (configured_layout != world_layout)
	{
		Say("with another layout");
		world_layout = configured_layout;
		fit_ids();
	}
	start_server(lsn, by_crash);
}

/* Set a flag of a process, as a signal handler of PostgreSQL does. */
static void
set_flag(Process *process, volatile sig_atomic_t *flag)
{
	*(volatile sig_atomic_t *) ProcessStatic(process, (void *) flag) = true;
}

/* Interrupt a process. */
static void
interrupt(bool die)
{
	Process    *process = &processes[RandomBelow(plan.num_processes)];

	if (process->state == PROCESS_FREE || process->is_lease_worker)
		return;
	set_flag(process, die ? &ProcDiePending : &QueryCancelPending);
	set_flag(process, &InterruptPending);
	ProcessSetLatch(process);
	Say("process %d is %s", process->id, die ? "terminated" : "canceled");
}

static void
start_glitch(void)
{
	glitch_ends_at = reference + RandomBelow(300000);
	offset_after_glitch = wall_offset;
	wall_offset = RandomOneIn(2) ? offsets[2] :
		wall_offset + RandomBelow(3 * USECS_PER_SEC);
	PromiseNoteClock(0);
	Say("a glitch sets the clock to " INT64_FORMAT " us from its start", wall_offset);
}

/* Time passes.  The wall clock may drift, and even stop; a glitch ends. */
void
PassTime(int64 us)
{
	if (glitch_ends_at != 0 && glitch_ends_at <= reference + us)
	{
		int64		before = Max(glitch_ends_at - reference, 0);

		glitch_ends_at = 0;
		PassTime(before);
		wall_offset = offset_after_glitch;
		us -= before;
		/* another one after some silence */
		if (glitches-- > 0)
		{
			PassTime(RandomBelow(8 * USECS_PER_SEC));
			start_glitch();
		}
	}
	reference += us;
	drifted += us * clock_drift;
	wall_offset += drifted / 1000000;
	drifted %= 1000000;
	PromiseNoteClock(us);
}

static void
step_clock(void)
{
	glitch_ends_at = 0;
	/* as when a machine goes on elsewhere: nobody sees time pass */
	if (RandomOneIn(6))
	{
		int64		jump = RandomSize(20 * USECS_PER_SEC);

		reference += jump;
		wall_offset -= jump;
		PromiseNoteClock(0);
		Say("the reference clock jumps by " INT64_FORMAT " us", jump);
		return;
	}
	if (RandomOneIn(4))
	{
		glitches = RandomBelow(3);
		start_glitch();
		return;
	}
	if (RandomOneIn(4))
	{
		clock_drift = PICK(0, 500, -500, 50000, -1000000);
		Say("the clock goes wrong by %d us per s", clock_drift);
		return;
	}
	if (RandomOneIn(3))
		wall_offset = offsets[RandomBelow(lengthof(offsets))];
	else
		wall_offset += RandomOneIn(2) ?
			RandomSize(3000000) : -RandomSize(3000000);
	PromiseNoteClock(0);
	Say("the clock is set to " INT64_FORMAT " us from its start", wall_offset);
}

/* The configuration was changed: processes are about to learn of it. */
static void
note_configuration(void)
{
	configuration++;
	has_unread = true;
	/* a parallel worker knows no more than it does */
	if (plan.parallel)
		note_standbys();
}

/* Sessions, some of them or all, are told to read the configuration. */
static void
tell_sessions(bool all)
{
	for (int i = 0; i < plan.num_processes; i++)
	{
		if (processes[i].state == PROCESS_FREE ||
			processes[i].configuration == configuration ||
			0 <= *(int *) ProcessStatic(&processes[i],
										&ParallelWorkerNumber) ||
			(!all && !RandomOneIn(2)))
			continue;
		set_flag(&processes[i], &ConfigReloadPending);
		ProcessSetLatch(&processes[i]);
	}
}

/*
 * The operator changes a setting.  The checkpointer has read the change
 * before.
 */
static void
reload(void)
{
	if (has_unread)
		note_standbys();
	switch (PICK(0, 0, 1, 2, 3, 4, 5))
	{
		case 0:
			if (plan.leased)
				return;
			configured_worker =
				RandomBelow(world_layout->bits[FIELD_WORKER] > 0 ? 4 : 1);
			Say("the worker id is set to %d", configured_worker);
			break;
		case 1:
			configured_ahead = PICK(0, 100, 1000, 5000, 20000, -1);
			configured_set_back = PICK(-1, 86400, 0, 2);
			was_unbounded |= configured_ahead < 0;
			break;
		case 2:
			configured_wait = PICK(0, 100, 1000, 5000);
			break;
		case 3:
			if (!plan.synchronous)
				return;
			configured_standby = RandomBelow(NUM_STANDBYS + 1);
			standby_since = configuration + 1;
			always_synchronous = false;
			Say("the synchronous standby is \"%s\"", standby_names[configured_standby]);
			break;
		case 4:
			configured_datacenter =
				RandomBelow(LayoutLargest(world_layout, FIELD_DATACENTER) + 1);
			Say("the datacenter id is set to %d", configured_datacenter);
			break;
		case 5:
			/* who has not yet read it could fix either of them */
			if (!memory_exists || !((SharedState *) memory)->layout_fixed)
				return;
			configure_layout();
			break;
	}
	note_configuration();
	/* before walsenders have read which standbys to wait for */
	if (standby_since == configuration)
		tell_sessions(true);
}

/*
 * Standbys receive WAL, the checkpointer reads the configuration, and sessions
 * are told to; each as late as may be.
 */
void
WorldSignal(void)
{
	DiskReplicate();
	if (RandomOneIn(2))
		note_standbys();
	tell_sessions(false);
}

/* Drop a database, and create a copy of another one with its OID. */
static void
copy_database(void)
{
	int			to = RandomBelow(plan.num_databases);
	int			from = RandomBelow(plan.num_databases);
	Disk		before = databases[to].disk;

	if (databases[to].sessions > 0)
	{
		/* they are asked to leave */
		for (int i = 0; i < plan.num_processes; i++)
		{
			if (processes[i].database == to)
				processes[i].calls_left = 0;
		}
		return;
	}
	if (to == from || databases[from].sessions > 0 ||
		databases[to].changer != NULL || databases[from].changer != NULL)
		return;
	TransactionCopy(&databases[to], &databases[from]);
	note_found(&databases[to]);
	/* a copy of itself, which has made no ids meanwhile */
	if (databases[to].disk.guard.bound == before.guard.bound &&
		databases[to].disk.guard.database == before.guard.database &&
		databases[to].disk.value <= Max(before.value, before.guard.bound))
	{
		databases[to].disk.found = before.found;
		databases[to].disk.found_guard = before.found_guard;
	}
	memcpy(databases[to].largest, databases[from].largest,
		   sizeof(databases[to].largest));
	WorldNewMark(&databases[to]);
	DiskLog(&databases[to]);
	flushed = on_standby[0] = on_standby[1] = written;
	Say("database %d is now a copy of database %d", to, from);
}

/* Something befalls the server. */
void
WorldFault(void)
{
	int			kinds[] = {
		plan.crashes, plan.promotions, plan.clock_steps, plan.cancels,
		plan.terminations, plan.reloads, plan.copies, plan.cuts, plan.lulls
	};
	int			sum = 0;
	int			kind = 0;
	int			chosen;
	int			standby = RandomBelow(NUM_STANDBYS);
	bool		has_all = always_synchronous && configured_standby == standby +
	1;

	for (int i = 0; i < lengthof(kinds); i++)
		sum += kinds[i];
	if (sum == 0)
		return;
	for (chosen = RandomBelow(sum); chosen >= kinds[kind]; kind++)
		chosen -= kinds[kind];
	switch (kind)
	{
		case 0:
			restart(RandomOneIn(4) ? flushed + RandomBelow(written - flushed +
														   1) : flushed, false,
					false);
			break;
		case 1:

			/*
			 * with ids of another layout, only a synchronous standby may take
			 * over; and where the bits of a timeline come again, only if no
			 * ids were lost before
			 */
			if ((has_other_layout && !has_all) ||
				(timeline >= LayoutLargest(world_layout, FIELD_TIMELINE) &&
				 (has_lost_ids || !has_all)))
				break;

			/* that time comes again if the old primary has lived on */
			if (RandomOneIn(2))
				wall_offset -= reference - standby_had_all_at[standby];
			restart(on_standby[standby], true, !has_all);
			break;
		case 2:
			step_clock();
			break;
		case 3:
		case 4:
			interrupt(kind == 4);
			break;
		case 5:
			reload();
			break;
		case 6:
			copy_database();
			break;
		case 7:
			standby_returns_at[standby] =
				reference + RandomSize(30 * USECS_PER_SEC);
			Say("standby %d is cut off", standby + 1);
			break;
		case 8:
			Say("nothing happens for a while");
			PassTime(RandomBelow(60 * USECS_PER_SEC));
			break;
	}
}

/*
 * Whether faults stop now.  The operator sets everything right, and time
 * passes, so that all calls must succeed soon.
 */
bool
WorldRest(void)
{
	int64		now;
	int64		furthest;

	if (step < last_step / 4 * 3)
		return false;
	Say("faults have stopped");
	clock_drift = 0;
	glitch_ends_at = 0;
	memset(standby_returns_at, 0, sizeof(standby_returns_at));
	configured_ahead = 20000;
	configured_wait = 5000;
	configured_jump = configured_set_back = -1;
	fit_ids();
	if (has_unread)
		note_standbys();
	note_configuration();

	/*
	 * The clock may have been set back, which stops no ids; but a registry
	 * grants no more than it does.  Elsewhere it gets beyond all that is
	 * there.
	 */
	if (plan.leased || plan.set_mark || has_other_layout || was_unbounded ||
		RandomOneIn(2))
	{
		wall_offset = Max(Max(wall_offset, highest_ever), 0);
		registry_offset = wall_offset;
		now = furthest = WallClock();
		for (int i = 0; i < plan.num_databases; i++)
		{
			const Disk *disk = &databases[i].disk;
			int64		bound = DiskLargest(disk);
			int64		largest = Max(made_since_start, bound);
			uint64		tick = largest >> world_layout->shift[FIELD_TIME];
			TimestampTz made = LayoutTickToTimeCapped(world_layout, tick);

			furthest = Max(furthest, made);
		}
		for (int i = 0; i < lengthof(free_from); i++)
			furthest = Max(furthest, free_from[i]);
		/* the id clock is caught up by an eighth of the time */
		PassTime((furthest - now) * (furthest - now < 30 * USECS_PER_DAY ?
									 8 : 1));
	}
	for (int i = 0; i < plan.num_databases; i++)
		databases[i].locked_until = 0;
	PassTime(30 * USECS_PER_SEC);
	rested_at = reference;
	return true;
}

/* Whether a lane has more ids than are used here. */
bool
WorldHasAmpleIds(void)
{
	return LaneIdsPerSecond(world_layout) / LaneCount(world_layout) >= 8000;
}

/* Whether a call for an id must succeed. */
bool
WorldMustGiveIds(void)
{
	const Disk *disk = &databases[me->database].disk;
	int64		bound = DiskLargest(disk);
	TimestampTz world_ends =
	LayoutTickToTimeCapped(world_layout, world_layout->last_tick);

	return at_rest && step > last_step / 10 * 9 && me->began > rested_at &&
		me->configuration == configuration &&
		WorldHasAmpleIds() &&
		WallClock() + USECS_PER_MINUTE < world_ends &&
		me->ids_began + USECS_PER_MINUTE < world_ends &&
		(bound >> world_layout->shift[FIELD_TIME]) < world_layout->last_tick &&
		OidIsValid(disk->extension) && !plan.transact && !plan.crowded;
}

/* At the end of a seed, no call for an id has been going on for long. */
void
WorldEnd(void)
{
	for (int i = 0; i < plan.num_processes; i++)
	{
		bool		waits;

		me = &processes[i];
		waits = me->state != PROCESS_FREE && strcmp(me->doing, "nextval") == 0 && WorldMustGiveIds() &&
			reference > me->began + USECS_PER_MINUTE;
		me = NULL;
		if (waits)
			PromiseBroken("no id for a minute although nothing is in the way");
	}
}

/* Plan a seed, and make its world. */
void
WorldBegin(void)
{
	memset(&plan, 0, sizeof(plan));
	plan.num_processes = PICK(2, 2, 3, 3, 4, 6);
	plan.num_databases = PICK(1, 1, 1, 2, 3);
	plan.by_priority = RandomOneIn(3);
	plan.switch_every = PICK(2, 4, 16, 64);
	plan.stall_every = PICK(0, 50, 200, 1000);
	plan.longest_stall = PICK(64, 1024, 16384);
	plan.step_us = PICK(1, 20, 200, 2000, 20000);
	plan.fault_every = PICK(100, 400, 2000, 2000, 10000);
	plan.longest_flush = RandomOneIn(10) ? 5 * USECS_PER_SEC :
		PICK(1, 1000, 10000, 200000);
	plan.weak_memory = RandomOneIn(2);
	plan.plain_steps = RandomOneIn(2);
	plan.synchronous = RandomOneIn(4);
	plan.preloaded = RandomOneIn(2);
	plan.leased = RandomOneIn(5);
	if (plan.leased)
		plan.preloaded = true;
	plan.parallel = RandomOneIn(8);
	plan.crashes = PICK(0, 1, 1, 4);
	plan.promotions = PICK(0, 0, 1, 2);
	plan.clock_steps = PICK(0, 0, 2, 10);
	plan.cancels = PICK(0, 1, 5);
	plan.terminations = PICK(0, 1);
	plan.reloads = PICK(0, 0, 1, 3);
	plan.copies = plan.num_databases > 1 ? PICK(0, 3) : 0;
	plan.layout_changes = PICK(0, 0, 0, 1);
	plan.cuts = PICK(0, 0, 1);
	plan.crowded = plan.preloaded && plan.num_databases > 1 && RandomOneIn(2);
	plan.deaf_clients = RandomOneIn(6);
	plan.server_fails = RandomOneIn(6);
	plan.advance = !plan.parallel && RandomOneIn(2);
	plan.set_mark = RandomOneIn(4);
	plan.lock_mark = RandomOneIn(6);
	plan.transact = !plan.parallel && RandomOneIn(6);
	plan.lulls = PICK(0, 0, 1, 3);
	if (plan.leased)
		plan.layout_changes = 0;

	max_wal_senders = plan.synchronous;
	configured_standby = plan.synchronous ? 1 : 0;
	make_layouts();
	world_layout = configured_layout = &layouts[0];
	configured_start = RandomBelow(2);
	configured_ahead = PICK(0, 100, 1000, 5000, 5000, 20000, -1);
	configured_set_back = PICK(-1, -1, -1, 86400, 0, 2);
	was_unbounded = configured_ahead < 0;
	configured_wait = PICK(0, 100, 1000, 5000);
	configured_jump = PICK(365 * 86400, 10, -1);
	configured_worker = configured_datacenter = 0;
	configuration = standby_since = 1;

	always_synchronous = has_lost_ids = has_other_layout = false;
	run = 0;
	timeline = 1;
	next_xid = 800;
	num_grants = 0;
	memset(standby_returns_at, 0, sizeof(standby_returns_at));
	memset(free_from, 0, sizeof(free_from));
	reference = 1000000 + RandomBelow(1000000);
	standby_had_all_at[0] = standby_had_all_at[1] = reference;
	glitch_ends_at = drifted = 0;
	wall_offset = clock_drift = registry_offset = offset_after_glitch =
		glitches = 0;
	offsets[0] = 0;
	offsets[1] = RandomSize(10 * USECS_PER_SEC);
	offsets[2] = PICK(20, 20, 40, 3600) * USECS_PER_SEC;
	offsets[3] = -RandomSize(10 * USECS_PER_SEC);
	checkpoint = GetCurrentTimestamp() / USECS_PER_SEC - RandomBelow(100);
	/* a machine that boots behind */
	if (RandomOneIn(16))
		wall_offset = -RandomSize(2 * 365 * USECS_PER_DAY);
	for (int i = 0; i < MAX_DATABASES_HERE; i++)
	{
		memset(&databases[i], 0, sizeof(Database));
		databases[i].oid = 5000 + i;
		TransactionNewExtension(&databases[i], 750 + i);
	}
	DiskBegin();
	at_rest = false;
	PromiseBegin();
	start_server(written, false);
}

static int64
lease_time(void)
{
	return at_rest ? 60 * USECS_PER_SEC : RandomBelow(3 * USECS_PER_SEC);
}

/*
 * The registry, as the lease worker sees it: no tick of a worker id is granted
 * twice.
 */
void
WorldLease(void)
{
	Grant	   *held = num_grants > 0 ? &grants[num_grants - 1] : NULL;
	TimestampTz now = GetCurrentTimestamp() - wall_offset + registry_offset;
	int64		worker_id;

	if (num_grants == MAX_GRANTS)
		return;
	if (held != NULL && held->ends > now && (at_rest || !RandomOneIn(4)))
	{
		held->ends = Max(held->ends, now) + lease_time();
		free_from[held->worker_id] = held->ends;
		Say("renews the lease of worker id " INT64_FORMAT, held->worker_id);
		WorkerSetLease(held->worker_id, held->starts, held->ends);
		return;
	}
	if (held != NULL && RandomOneIn(2))
	{
		TimestampTz used = WorkerEndLease();

		Say("gives the lease of worker id " INT64_FORMAT " back", held->worker_id);
		if (used < held->ends)
		{
			held->ends = Max(used, held->starts);
			free_from[held->worker_id] = held->ends;
		}
	}
	worker_id = RandomBelow(lengthof(free_from));
	/* meanwhile, another server may have had it */
	if (RandomOneIn(4))
		free_from[worker_id] =
			Max(free_from[worker_id], now) + RandomSize(3 * USECS_PER_SEC);
	/* the registry checks its clock, but not to the second */
	if (RandomOneIn(8) && !at_rest)
		registry_offset += RandomSize(2 * USECS_PER_SEC) - USECS_PER_SEC;
	held = &grants[num_grants++];
	held->worker_id = worker_id;
	held->starts = Max(free_from[worker_id], now);
	held->ends = held->starts + world_layout->tick + lease_time();
	free_from[worker_id] = held->ends;
	Say("leases worker id " INT64_FORMAT, worker_id);
	WorkerSetLease(worker_id, held->starts, held->ends);
}
