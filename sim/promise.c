/*-------------------------------------------------------------------------
 *
 * promise.c
 *	  What must never happen, see doc/guarantees.md.
 *
 * snowflake/sim/promise.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/elog.h"

#include "memory.h"
#include "settings.h"
#include "shared.h"
#include "world.h"

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

/* For how long the clock has had an offset since the postmaster's start. */
typedef struct Stay
{
	int64		offset;
	int64		duration;
} Stay;

#define MOST_STAYS	500

static MadeId *made = NULL;
static uint32 made_seed = 0;
static int	num_made;
static Stay stays[MOST_STAYS];
static int	num_stays;
static int64 highest_offset;	/* that may be believed */
static int64 highest_ever;		/* by any server of this seed */
static char broken[300];


void
PromiseBegin(void)
{
	if (made == NULL)
		made = calloc(sizeof(MadeId), 1 << ID_BITS);
	made_seed++;
	num_made = 0;
	num_stays = 0;
	highest_offset = highest_ever = wall_offset;
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
 * offset; at most that was the whole time that the clock was there or higher.
 */

static bool
has_looked(void)
{
	return ((SharedState *) memory)->clock.noted;
}

void
PromiseNoteClock(int64 elapsed)
{
	int			i = 0;

	while (i < num_stays && stays[i].offset != wall_offset)
		i++;
	if (i == num_stays)
	{
		if (num_stays == MOST_STAYS)
			return;
		stays[num_stays].offset = wall_offset;
		stays[num_stays++].duration = 0;
	}
	stays[i].duration += elapsed;

	if (wall_offset < highest_offset + USECS_PER_SEC || !has_looked())
		highest_offset = Max(highest_offset, wall_offset);
	for (i = 0; i < num_stays; i++)
	{
		int64		longest = 0;

		if (stays[i].offset <= highest_offset)
			continue;
		for (int j = 0; j < num_stays; j++)
		{
			if (stays[j].offset >= stays[i].offset)
				longest += stays[j].duration;
		}
		if (longest >= 2900000)
			highest_offset = stays[i].offset;
	}
	highest_ever = Max(highest_ever, highest_offset);
}

/* The clock has been right for all ids if it is there. */
int64
PromiseHighestOffset(void)
{
	return highest_ever;
}

void
PromiseNewServer(bool by_crash)
{
	/* a postmaster that has preloaded the library knows its start */
	if (!plan.preloaded || !by_crash)
	{
		num_stays = 0;
		highest_offset = wall_offset;
	}
	PromiseNoteClock(0);
}

/* Remember an id, and that it is made only once. */
static void
remember(int64 id, int incarnation)
{
	uint64		hash = ((uint64) id * UINT64CONST(0x9e3779b97f4a7c15)) >> (64 - ID_BITS);

	for (; made[hash].seed == made_seed; hash = (hash + 1) & ((1 << ID_BITS) - 1))
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

static int64
largest_of(const Disk *disk)
{
	return Max(disk->value, Max(disk->guard.bound, disk->guard.others));
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
	const Guard *guard = &database->disk.guard;
	Disk		on_disk = WorldFlushed(database, false);
	Disk		on_standby = WorldFlushed(database, true);
	uint64		tick = LayoutGet(world_layout, FIELD_TIME, last);
	int64		worker_id = LayoutGet(world_layout, FIELD_WORKER, last);
	int64		clock = GetCurrentTimestamp() - wall_offset + highest_offset;

	/* a reset sets ids back */
	bool		is_quiet = database->resets == me->resets && database->resetting == 0;

	counts.ids += last - first + 1;
	Say("id " INT64_FORMAT ", tick " UINT64_FORMAT, first, tick);
	if (first <= me->last_id)
		PromiseBroken("a session goes from id " INT64_FORMAT " to " INT64_FORMAT, me->last_id, first);
	me->last_id = last;
	database->used |= UINT64CONST(1) << worker_id;
	for (int64 id = first; id <= last; id++)
		remember(id, database->disk.incarnation);

	if (last > largest_of(&on_disk))
		PromiseBroken("id " INT64_FORMAT " is above the flushed bound " INT64_FORMAT, last, largest_of(&on_disk));
	if (plan.synchronous && last > largest_of(&on_standby))
		PromiseBroken("id " INT64_FORMAT " is above the bound of the standby, " INT64_FORMAT, last, largest_of(&on_standby));
	if (is_quiet && first <= database->found)
		PromiseBroken("id " INT64_FORMAT " is not above the bound found at the start, " INT64_FORMAT, first, database->found);
	if (is_quiet && first <= me->above)
		PromiseBroken("id " INT64_FORMAT " is not above an advance, " INT64_FORMAT, first, me->above);
	if (is_quiet && !plan.leased && first <= guard->others &&
		(worker_id != guard->exempt || guard->layout != world_layout->hash))
		PromiseBroken("id " INT64_FORMAT " of worker %d, which has not reset the mark, is below " INT64_FORMAT,
					  first, (int) worker_id, guard->others);
	if (plan.leased && !is_leased(worker_id, tick))
		PromiseBroken("id " INT64_FORMAT " of worker %d, tick " UINT64_FORMAT ", is in no lease", last, (int) worker_id, tick);
	if (configured_ahead >= 0 &&
		tick > (uint64) (clock - world_layout->epoch + configured_ahead * INT64CONST(1000) + 2 * USECS_PER_SEC) / world_layout->tick + 4)
		PromiseBroken("id " INT64_FORMAT ", tick " UINT64_FORMAT ", is too far ahead of the clock", last, tick);
	made_since_start = Max(made_since_start, last);
}

/* Something is reported: nobody may wait for this process. */
void
PromiseReport(int elevel, const char *file, int line)
{
	Say("reports at %s:%d: %s", file, line, me->report.message);
	if (me->num_lwlocks > 0 || me->num_pages > 0 || me->holds_mark)
		PromiseBroken("a report at %s:%d while %s is locked, in %s", file, line,
					  me->num_lwlocks > 0 ? "shared memory" : me->num_pages > 0 ? "a page" : "the mark", me->doing);
	if (elevel >= ERROR && at_rest && WorldMustGiveIds() && strcmp(me->doing, "nextval") == 0 &&
		me->report.code != ERRCODE_QUERY_CANCELED && me->report.code != ERRCODE_ADMIN_SHUTDOWN)
		PromiseBroken("no id although nothing is in the way: %s:%d", file, line);
}

/* A call is over. */
void
PromiseNothingLeft(void)
{
	if (me->num_lwlocks > 0 || me->num_pages > 0 || me->num_relations > 0 || me->num_guc_levels > 0 ||
		me->holds_mark || InterruptHoldoffCount > 0)
		PromiseBroken("%s leaves something locked or held", me->doing);
}
