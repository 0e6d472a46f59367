/*-------------------------------------------------------------------------
 *
 * promise.c
 *	  What must never happen, see doc/guarantees.md.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "sim.h"

/* Every id of a seed, by its hash. */
#define ID_BITS		20
#define MOST_IDS	((1 << ID_BITS) / 4 * 3)

typedef struct MadeId
{
	int64		id;
	int			incarnation;	/* of the extension that made it */
	int			run;			/* of the server */
	uint32		seed;			/* entries of other seeds are free */
} MadeId;

/* in us */
#define LONGEST_LAG	6500000

/* How long the clock was there or higher since the postmaster's start. */
typedef struct Stay
{
	int64		offset;
	int64		duration;
	int64		lower;			/* for how long it has been lower since then */
} Stay;

#define MOST_STAYS	500
/* in us; a clock that drifts has many offsets */
#define STAY_ROUNDED	50000

static MadeId *made = NULL;
static uint32 made_seed = 0;
static int	num_made;
int64		highest_ever;

static Stay stays[MOST_STAYS];
static int	num_stays;
static int64 highest_offset;	/* that may be believed */
static int64 last_offset;
static int64 stepped_at;		/* when the offset changed last */
static int64 lagged;			/* for how long ids were behind the clock */
static int64 lags_at;			/* a call that made one; 0: none yet */
static int64 envelope;			/* the id clock was never later, */
static int64 envelope_at;		/* at this instant of the reference clock */
static int64 highest_since;		/* that a look can have believed since */
static bool was_set_back;		/* the wall clock, since then */
static int64 ids_seen;			/* the id clock when it was last seen, */
static int64 ids_seen_at;		/* at this instant */
static int	ids_seen_in;		/* in this run of the server */
static char broken[300];

void
PromiseBegin(void)
{
	if (made == NULL)
		made = calloc(sizeof(MadeId), 1 << ID_BITS);
	made_seed++;
	num_made = 0;
	num_stays = 0;
	last_offset = highest_offset = highest_ever = highest_since = wall_offset;
	envelope = 0;
	envelope_at = reference;
	ids_seen_in = -1;
	broken[0] = '\0';
}

const char *
PromiseWhatBroke(void)
{
	return broken[0] != '\0' ? broken : NULL;
}

void
PromiseBroken(const char *format,...)
{
	va_list		args;

	if (broken[0] != '\0')
		return;
	va_start(args, format);
	vsnprintf(broken, sizeof(broken), format, args);
	va_end(args);
	Say("BROKEN: %s", broken);
	ProcessLeave();
}

/*
 * How far ahead the clock may be believed.  Steps of less than a second are
 * believed at once, others after three seconds in which no look found a lower
 * offset; at most that was the whole time that the clock was there or higher,
 * or lower for no more than a second.
 */

static void
note_clock(int64 elapsed)
{
	int64		offset = (wall_offset / STAY_ROUNDED + 1) * STAY_ROUNDED;
	int			i = 0;

	if (wall_offset != last_offset)
		stepped_at = reference;
	was_set_back |= wall_offset < last_offset;
	last_offset = wall_offset;
	while (i < num_stays && stays[i].offset != offset)
		i++;
	if (i == num_stays)
	{
		/* no room: allow too much rather than too little */
		if (num_stays == MOST_STAYS)
		{
			highest_offset = Max(highest_offset, offset);
			highest_ever = Max(highest_ever, highest_offset);
			return;
		}

		/* it was there for as long as it was at the next higher one */
		memset(&stays[num_stays], 0, sizeof(Stay));
		stays[num_stays].offset = PG_INT64_MAX;
		for (i = 0; i < num_stays; i++)
		{
			if (stays[i].offset > offset &&
				stays[i].offset < stays[num_stays].offset)
				stays[num_stays] = stays[i];
		}
		stays[num_stays++].offset = offset;
	}

	/* both are rounded up */
	if (offset <= highest_offset + USECS_PER_SEC || !memory_exists ||
		!((SharedState *) memory)->clock.noted)
		highest_offset = Max(highest_offset, offset);
	for (i = 0; i < num_stays; i++)
	{
		Stay	   *stay = &stays[i];

		if (offset < stay->offset)
			stay->lower += elapsed;
		else
		{
			/* nobody need have looked for a second */
			stay->duration += elapsed + (stay->lower <= USECS_PER_SEC ?
										 stay->lower : 0);
			stay->lower = 0;
			if (stay->duration >= 2900000)
				highest_offset = Max(highest_offset, stay->offset);
		}
	}
	highest_ever = Max(highest_ever, highest_offset);
}

/* The highest offset that a look can believe now. */
static int64
believable(void)
{
	if (wall_offset < highest_offset + USECS_PER_SEC)
		return wall_offset;
	return highest_offset;
}

void
PromiseNoteClock(int64 elapsed)
{
	int64		believed;

	note_clock(elapsed);
	believed = believable();
	highest_since = Max(highest_since, believed);
	for (int i = 0; i < MAX_PROCESSES; i++)
	{
		Process    *process = &processes[i];

		process->highest_since = Max(process->highest_since, believed);
	}
}

/*
 * The id clock of the server, without max_set_back, and with what the guard
 * says if a call goes by that first.  It never goes back.
 */
static int64
id_clock(const Disk *disk)
{
	const SharedState *state = (SharedState *) memory;
	int64		slow = reference - reference / 8;
	int64		ids = PG_INT64_MIN / 2;

	/* even before a clock was believed */
	if (memory_exists)
		ids = Max(ids, state->clock.pace + slow);
	if (memory_exists && state->clock.started)
		ids = Max(ids, reference + state->clock.offset);
	/* under the lock, it is about to be changed by what was read before */
	if (memory_exists && state->clock.started &&
		!LWLockIsExclusive(&state->lock))
	{
		if (ids_seen_in == run &&
			ids < ids_seen + (reference - ids_seen_at) / 8 * 7 - 100)
			PromiseBroken("the id clock goes back by " INT64_FORMAT " us", ids_seen - ids);
		ids_seen = ids;
		ids_seen_at = reference;
		ids_seen_in = run;
	}
	return disk->guard.bound == 0 ? ids : Max(ids, disk->guard.clock);
}

/* A process reads the wall clock. */
void
PromiseLook(void)
{
	me->ids_looked = id_clock(TransactionSees(&databases[me->database]));
}

void
PromiseCallBegins(void)
{
	PromiseLook();
	me->ids_began = me->ids_looked;
	me->ahead_began = setting_max_ahead;
	me->highest_since = believable();
}

/*
 * Ids are ahead of the clock only because it was set back, by no more than
 * that and max_set_back, and by no more than max_ahead.
 */
static void
check_honesty(int64 id, uint64 tick)
{
	int64		elapsed = reference - envelope_at;
	bool		bounded = setting_max_ahead >= 0 && me->ahead_began >= 0;
	int64		most = Max(setting_max_ahead, me->ahead_began);
	int64		ahead = bounded ? most * 1000 + world_layout->tick : -1;
	int64		instant = LayoutTickToTime(world_layout, tick);
	int64		at_offset_0 = WALL_AT_REFERENCE_0 + reference;
	int64		wall;

	/* the id clock goes on at full pace until somebody looks */
	envelope += elapsed > USECS_PER_SEC ? elapsed : elapsed - elapsed / 8;
	if (was_set_back)
		envelope += USECS_PER_SEC / 4;
	envelope = Max(envelope, at_offset_0 + highest_since);
	envelope_at = reference;
	highest_since = believable();
	was_set_back = false;

	/* two clocks are not read at once */
	if (ahead >= 0 && instant > envelope + ahead + 20000)
		PromiseBroken("id " INT64_FORMAT " is ahead of the id clock by " INT64_FORMAT " us", id, instant - envelope);
	wall = at_offset_0 + me->highest_since;
	if (ahead >= 0 && setting_max_set_back >= 0 &&
		configuration == me->configuration &&
		instant > wall + setting_max_set_back * USECS_PER_SEC + ahead +
		USECS_PER_SEC)
		PromiseBroken("id " INT64_FORMAT " is ahead of the clock by " INT64_FORMAT " us", id, instant - wall);
}

void
PromiseNewServer(bool by_crash)
{
	/* a postmaster that has preloaded the library knows its start */
	if (!plan.preloaded || !by_crash)
	{
		num_stays = 0;
		last_offset = highest_offset = wall_offset;
	}
	stepped_at = reference;
	lags_at = 0;
	PromiseNoteClock(0);
}

/*
 * A call may go by an old time while a step is not believed, but for no longer
 * than three seconds that were watched, which a call does for a second at
 * most.  If an earlier step was in doubt, that one is believed first.
 */
static void
check_lag(int64 id, uint64 tick)
{
	TimestampTz began = WALL_AT_REFERENCE_0 + me->began + wall_offset;
	TimestampTz end = LayoutTickToTimeCapped(world_layout, tick + 1);

	if (me->began <= stepped_at)
		return;
	/* no step is in doubt */
	if (num_stays == 1 && end + CLOCK_SMALLEST_STEP < began &&
		tick < (uint64) world_layout->last_tick)
		PromiseBroken("id " INT64_FORMAT " is " INT64_FORMAT " us older than its call", id, began - end);
	if (end > began)
	{
		lags_at = 0;
		return;
	}
	if (lags_at <= stepped_at)
		lagged = 0;
	else if (me->began > lags_at)
		lagged += Min(me->began - lags_at, USECS_PER_SEC);
	lags_at = Max(lags_at, me->began);
	if (lagged > LONGEST_LAG + 2 * world_layout->tick)
		PromiseBroken("id " INT64_FORMAT " is behind the clock, as others were for " INT64_FORMAT " us",
					  id, lagged);
}

/* Remember an id, and that it is made only once. */
static void
remember(int64 id, const Database *database)
{
	/* without one, a statement that still runs uses one being created */
	const Disk *seen = TransactionSees(database);
	int			incarnation = OidIsValid(seen->extension) ?
	seen->incarnation : database->disk.incarnation;
	uint64		hash =
	((uint64) id * UINT64CONST(0x9e3779b97f4a7c15)) >> (64 - ID_BITS);

	for (; made[hash].seed == made_seed;
		 hash = (hash + 1) & ((1 << ID_BITS) - 1))
	{
		if (made[hash].id != id)
			continue;
		if (made[hash].incarnation == incarnation)
			PromiseBroken("id " INT64_FORMAT " is made twice in a database, by runs %d and %d of the server",
						  id, made[hash].run, run);
		else if (made[hash].run == run)
			PromiseBroken("id " INT64_FORMAT " is made in two databases of a running server", id);
	}
	/* no room for more: this seed has done enough */
	if (++num_made > MOST_IDS)
		last_step = step;
	made[hash].id = id;
	made[hash].incarnation = incarnation;
	made[hash].run = run;
	made[hash].seed = made_seed;
}

/* Whether the database has had one mark since the call began. */
static bool
has_same_mark(void)
{
	return databases[me->database].marks == me->marks;
}

static bool
is_leased(int64 worker_id, uint64 tick)
{
	TimestampTz begins = LayoutTickToTime(world_layout, tick);

	for (int i = 0; i < num_grants; i++)
	{
		if (grants[i].worker_id == worker_id &&
			begins >= grants[i].starts && begins < grants[i].ends)
			return true;
	}
	return false;
}

/* The present process has made ids. */
void
PromiseIds(int64 first, int64 last)
{
	Database   *database = &databases[me->database];
	const Disk *disk = TransactionSees(database);
	Disk		on_disk = DiskAt(database, flushed);
	Disk		standby;
	uint64		tick = LayoutGet(world_layout, FIELD_TIME, last);
	int64		worker_id = LayoutGet(world_layout, FIELD_WORKER, last);
	int			layout = world_layout - layouts;
	bool		is_quiet = has_same_mark();
	bool		has_bound;

	num_ids += last - first + 1;
	Say("id " INT64_FORMAT ", tick " UINT64_FORMAT, first, tick);
	if (first <= me->last_id)
		PromiseBroken("a session goes from id " INT64_FORMAT " to " INT64_FORMAT, me->last_id, first);
	me->last_id = last;
	for (int64 id = first; id <= last; id++)
		remember(id, database);

	if (!plan.leased && worker_id != setting_worker_id)
		PromiseBroken("id " INT64_FORMAT " is of worker %d, but the setting is %d", last, (int) worker_id, setting_worker_id);
	if (LayoutGet(world_layout, FIELD_DATACENTER, last) !=
		setting_datacenter_id)
		PromiseBroken("id " INT64_FORMAT " is of another datacenter than %d", last, setting_datacenter_id);
	if (LayoutGet(world_layout, FIELD_TIMELINE, last) !=
		(GetWALInsertionTimeLine() &
		 LayoutLargest(world_layout, FIELD_TIMELINE)))
		PromiseBroken("id " INT64_FORMAT " is of another timeline", last);
	if (tick > (uint64) world_layout->last_tick)
		PromiseBroken("id " INT64_FORMAT " is beyond the last tick", last);
	check_lag(last, tick);
	/* worker ids are elsewhere in ids of another layout */
	if (!plan.transact && first <= database->largest[1 - layout] &&
		memcmp(&layouts[0], &layouts[1], sizeof(Layout)) != 0)
		PromiseBroken("id " INT64_FORMAT " is below " INT64_FORMAT ", which is of another layout",
					  first, database->largest[1 - layout]);
	database->largest[layout] = Max(database->largest[layout], last);

	/* an extension that is being created, or is gone, has no bound there */
	has_bound = OidIsValid(disk->extension) && database->changer != me;
	if (has_bound && on_disk.extension == disk->extension &&
		last > DiskLargest(&on_disk))
		PromiseBroken("id " INT64_FORMAT " is above the flushed bound " INT64_FORMAT, last, DiskLargest(&on_disk));
	if (configured_standby > 0)
		standby = DiskAt(database, on_standby[configured_standby - 1]);
	/* in a statement that began after it was named */
	if (has_bound && configured_standby > 0 &&
		me->configuration >= standby_since &&
		standby.extension == disk->extension && last > DiskLargest(&standby))
		PromiseBroken("id " INT64_FORMAT " is above the bound of the standby, " INT64_FORMAT, last, DiskLargest(&standby));
	if (is_quiet && first <= disk->found)
		PromiseBroken("id " INT64_FORMAT " is not above the bound found at the start, " INT64_FORMAT, first, disk->found);

	/* ids are in the order of the calls, to within a reservation */
	if (is_quiet &&
		tick + Max(2 * USECS_PER_SEC / world_layout->tick, 1) < me->furthest)
		PromiseBroken("id " INT64_FORMAT ", tick " UINT64_FORMAT ", is far below tick " UINT64_FORMAT " of an earlier call",
					  first, tick, me->furthest);
	database->furthest = Max(database->furthest, tick);
	if (is_quiet && first <= me->above)
		PromiseBroken("id " INT64_FORMAT " is not above an advance, " INT64_FORMAT, first, me->above);
	if (plan.leased && !is_leased(worker_id, tick))
		PromiseBroken("id " INT64_FORMAT " of worker %d, tick " UINT64_FORMAT ", is in no lease", last, (int) worker_id, tick);
	check_honesty(last, tick);
	made_since_start = Max(made_since_start, last);
}

/*
 * The present process writes a mark.  Once a layout has ended, only a new
 * extension does.
 */
void
PromiseMark(void)
{
	TimestampTz end = LayoutTickToTime(world_layout,
									   world_layout->last_tick + 1);

	if (me->ids_looked > end + USECS_PER_SEC && setting_max_set_back < 0 &&
		!plan.leased && strcmp(me->doing, "change") != 0 &&
		strcmp(me->doing, "transaction") != 0)
		PromiseBroken("%s writes a mark although the layout has ended",
					  me->doing);
}

/* Whether the present error names what can have been in the way. */
static bool
is_in_the_way(void)
{
	const Database *database = &databases[me->database];
	const Disk *disk = TransactionSees(database);
	const SharedState *state = (SharedState *) memory;
	int64		largest = DiskLargest(disk);
	int64		furthest = Max(disk->advanced, largest);
	uint64		tick = (furthest >> world_layout->shift[FIELD_TIME]) + 2;
	int64		now = me->ids_began;

	switch (me->report.code)
	{
		case ERRCODE_SNOWFLAKE_TOO_FAR_AHEAD:
			/* what it knew of a mark is gone */
			if (!OidIsValid(disk->extension) ||
				disk->extension != me->extension_before)
				return true;
			if (setting_max_set_back >= 0)
			{
				/* another database may have raised the id clock since then */
				if (strstr(me->report.message, "set back") != NULL)
					return me->ids_began - me->began > state->clock.offset +
						setting_max_set_back * USECS_PER_SEC - 20000 ||
						id_clock(disk) - reference > state->clock.offset +
						setting_max_set_back * USECS_PER_SEC - 20000;
				now = Min(now,
						  me->began + state->clock.offset +
						  setting_max_set_back * USECS_PER_SEC);
			}
			else if (strstr(me->report.message, "set back") != NULL)
				return false;
			/* beyond the lease, ids go by the believed clock */
			if (plan.leased)
				now = Min(now, me->began + state->clock.offset);
			for (int i = 0; i < MAX_DATABASES; i++)
			{
				if (state->slots[i].database == database->oid)
					tick = Max(tick, state->slots[i].limit.value);
			}
			for (int i = 0; i < MAX_LANES; i++)
				tick = Max(tick,
						   (state->lanes[i].word.value >>
							world_layout->bits[FIELD_SEQUENCE]) +
						   2);
			return setting_max_ahead < 0 || plan.set_mark ||
				has_other_layout ||
				LayoutTickToTimeCapped(world_layout, tick) > now - 20000 +
				setting_max_ahead * INT64CONST(1000) / world_layout->tick /
				2 * world_layout->tick;
		case ERRCODE_SNOWFLAKE_NO_LEASE:
			return plan.leased;
		case ERRCODE_SNOWFLAKE_CLOCK_REFUSED:
			return setting_max_jump >= 0;
		case ERRCODE_LOCK_NOT_AVAILABLE:
			return plan.lock_mark || plan.transact;
		default:
			return true;
	}
}

/* Something is reported: nobody may wait for this process. */
void
PromiseReport(int elevel, const char *file, int line)
{
	Say("reports at %s:%d: %s", file, line, me->report.message);
	/* only an error of the server may come then, but for its locks */
	if (me->num_lwlocks > 0 || me->num_pages > 0 ||
		(me->holds_mark && me->report.code != ERRCODE_IO_ERROR))
		PromiseBroken("a report at %s:%d while %s is locked, in %s", file, line,
					  me->num_lwlocks > 0 ? "shared memory" : me->num_pages > 0 ? "a page" : "the mark", me->doing);
	if (elevel < ERROR)
		return;
	if (WorldMustGiveIds() && strcmp(me->doing, "nextval") == 0 &&
		me->report.code != ERRCODE_QUERY_CANCELED &&
		me->report.code != ERRCODE_ADMIN_SHUTDOWN)
		PromiseBroken("no id although nothing is in the way: %s:%d", file, line);
	if (has_same_mark() && me->began > stepped_at && !is_in_the_way())
		PromiseBroken("an error names what is not in the way: %s", me->report.message);
}

/* A call is over. */
void
PromiseNothingLeft(void)
{
	if (me->num_lwlocks > 0 || me->num_pages > 0 || me->num_relations[0] > 0 ||
		me->num_relations[1] > 0 || me->num_guc_levels > 0 ||
		me->num_pins > 0 || me->holds_mark || InterruptHoldoffCount > 0)
		PromiseBroken("%s leaves something locked or held", me->doing);
}
