/*-------------------------------------------------------------------------
 *
 * clock.c
 *	  The clock that ids follow, and waiting for it.
 *
 * The wall clock may be stepped at any time, in either direction.  Ids do not
 * follow a step forward at once: otherwise one look at a clock that says 2090
 * would carry every database there.
 *
 *		A step forward is believed once it has lasted for some seconds; one
 *		of more than snowflake.max_jump is never believed.
 *
 * To see steps, we compare the wall clock with a reference clock, which nobody
 * can set.  The difference is the offset.  While a new offset is in doubt,
 * time goes on at the old one.  An offset up to the highest one that was ever
 * believed is believed at once, as when a clock that was set back is
 * corrected.  The first look after a start is believed at once as well, unless
 * it exceeds max_jump: it can be compared only with the last checkpoint before
 * the start.
 *
 * Sessions need not look all the time: ids cannot pass the limit of their
 * database, so a step forward matters only to a session that finds the clock
 * at or beyond the limit.  See look() in generator.c.
 *
 * A server with a leased worker id does not doubt its clock, because its ids
 * cannot pass the end of the lease.
 *
 * snowflake/src/clock.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "compat.h"
#include "errors.h"
#include "settings.h"
#include "shared.h"

/* Smaller differences are noise, not steps.  All times here are in us. */
#define SMALLEST_STEP		10000
/* Smaller steps are not logged, unless ids stop for them. */
#define SMALLEST_LOGGED		100000
/* Smaller steps forward are believed at once. */
#define LARGEST_UNDOUBTED	USECS_PER_SEC
/* Larger ones are believed once they have lasted for this long. */
#define TIME_TO_BELIEVE		(3 * USECS_PER_SEC)

/*
 * Between two looks at the wall clock we look at the reference clock.  If the
 * two are further apart than this, we look again, but only so many times.
 */
#define LONGEST_LOOK		2000
#define MAX_LOOKS			10


/*
 * The reference clock.  CLOCK_BOOTTIME goes on while the machine is suspended;
 * with CLOCK_MONOTONIC, a resume may look like a step.  INSTR_TIME will not
 * do: it may be the CPU's counter, which drifts away from the wall clock.
 */
int64
ClockReference(void)
{
	struct timespec now;

#ifdef CLOCK_BOOTTIME
	clock_gettime(CLOCK_BOOTTIME, &now);
#else
	clock_gettime(CLOCK_MONOTONIC, &now);
#endif
	return now.tv_sec * USECS_PER_SEC + now.tv_nsec / 1000;
}

/* Read both clocks at the same time, or nearly so. */
static void
read_clocks(TimestampTz *wall, int64 *reference)
{
	for (int i = 0; i < MAX_LOOKS; i++)
	{
		TimestampTz before = GetCurrentTimestamp();

		*reference = ClockReference();
		*wall = GetCurrentTimestamp();
		if (*wall >= before && *wall - before < LONGEST_LOOK)
			break;
	}
}

/* When the last checkpoint began, by the clock at that time. */
TimestampTz
ClockReadCheckpoint(void)
{
	bool		crc_ok;
	ControlFileData *control;
	pg_time_t	checkpoint;

	LWLockAcquire(ControlFileLock, LW_SHARED);
	control = get_controlfile(DataDir, &crc_ok);
	LWLockRelease(ControlFileLock);
	checkpoint = control->checkPointCopy.time;
	pfree(control);
	return time_t_to_timestamptz(checkpoint);
}

/*
 * How far the clock moved from the last checkpoint before the start of the
 * server to the start, which includes the time that the server was down.
 * Nothing else is known about the clock at a first look.  The start is that of
 * the postmaster or, if the library is preloaded, the creation of shared
 * memory, which a crash repeats.
 */
static int64
jump_at_start(TimestampTz wall)
{
	const ClockState *clock = &shared->clock;

	if (clock->started)
		return 0;
	if (clock->server_start != 0)
		return Min(wall, clock->server_start) - clock->checkpoint;
	return Min(wall, PgStartTime) - ClockReadCheckpoint();
}

static bool
is_too_far(int64 jump)
{
	return setting_max_jump >= 0 && !SettingsRegistryIsUsed() &&
		jump > setting_max_jump * USECS_PER_SEC;
}

/* Count a step that was believed, and log it if it matters. */
static void
note_step(int64 step, TimestampTz wall)
{
	if (step < 0)
		StatsAddStepBack(-step, wall);
	if (llabs(step) >= SMALLEST_LOGGED ||
		(step < 0 && setting_max_ahead >= 0 && -step > setting_max_ahead * INT64CONST(1000)))
		ereport(LOG_SERVER_ONLY,
				(step > 0 ?
				 errmsg("clock was stepped forward by %.3f s", step / 1e6) :
				 errmsg("clock was stepped back by %.3f s", -step / 1e6),
				 errdetail("It now says %s.", timestamptz_to_str(wall))));
}

/*
 * The time to use: that of the wall clock or, while it is in doubt, that of
 * the old offset.  Throws an error if the clock has jumped too far.
 */
TimestampTz
ClockLook(void)
{
	ClockState *clock = &shared->clock;
	TimestampTz wall;
	int64		reference;
	int64		offset;
	int64		start_jump;
	int64		jump;
	int64		step = 0;
	bool		doubtful = false;
	bool		refused = false;

	read_clocks(&wall, &reference);

	/* usually nothing has changed */
	LWLockAcquire(&shared->lock, LW_SHARED);
	step = clock->started && !clock->doubted ? wall - reference - clock->offset : SMALLEST_STEP;
	LWLockRelease(&shared->lock);
	if (llabs(step) < SMALLEST_STEP)
		return wall;
	start_jump = jump_at_start(wall);

	/* look again, as another session may have noted a step meanwhile */
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	read_clocks(&wall, &reference);
	offset = wall - reference;
	jump = clock->started ? offset - clock->offset : start_jump;
	if (!clock->started)
		refused = is_too_far(jump);
	else if (offset >= clock->highest + LARGEST_UNDOUBTED &&
			 !SettingsRegistryIsUsed())
	{
		if (!clock->doubted ||
			llabs(offset - clock->candidate) >= LARGEST_UNDOUBTED)
		{
			clock->doubted = true;
			clock->candidate = offset;
			clock->candidate_since = reference;
		}
		if (reference - clock->candidate_since < TIME_TO_BELIEVE)
			doubtful = true;
		else
			refused = is_too_far(jump);
	}
	step = 0;
	if (doubtful)
		wall = reference + clock->offset;
	else if (!refused)
	{
		if (clock->started && llabs(jump) >= SMALLEST_STEP)
			step = jump;
		clock->highest = clock->started ? Max(clock->highest, offset) : offset;
		clock->offset = offset;
		clock->doubted = false;
		clock->started = true;
	}
	LWLockRelease(&shared->lock);

	if (refused)
		ereport(ERROR,
				(errcode(ERRCODE_SNOWFLAKE_CLOCK_REFUSED),
				 errmsg("clock jumped too far ahead for snowflake ids"),
				 errdetail("The clock says %s, but it should be %s. \"snowflake.max_jump\" is %d s.",
		/* timestamptz_to_str() has one buffer for all of its results */
						   pstrdup(timestamptz_to_str(wall)),
						   pstrdup(timestamptz_to_str(wall - jump)), setting_max_jump),
				 errhint("Set the clock of the server right. If it is right, raise \"snowflake.max_jump\", reload, and lower it again once ids have been made.")));
	if (step != 0)
		note_step(step, wall);
	return wall;
}

void
ClockThrowExhausted(const Layout *layout)
{
	ereport(ERROR,
			(errcode(ERRCODE_SNOWFLAKE_LAYOUT_EXHAUSTED),
			 errmsg("snowflake layout has no tick left"),
			 errdetail("The last tick of the layout \"%s\" begins at %s.",
					   LayoutToText(layout),
					   timestamptz_to_str(LayoutTickToTime(layout, layout->last_tick))),
			 errhint("Set the clock of the server right. If it is right, choose a layout with more bits of time or, if there are no ids yet, a later epoch, and restart the server.")));
}

/* The tick that the clock is in. */
uint64
ClockTick(const Layout *layout, TimestampTz now)
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
		ClockThrowExhausted(layout);
	return tick;
}

/* Whether ClockLook() would refuse the clock, sooner or later. */
bool
ClockIsRefused(void)
{
	TimestampTz wall;
	int64		reference;
	int64		jump;

	read_clocks(&wall, &reference);
	jump = jump_at_start(wall);
	LWLockAcquire(&shared->lock, LW_SHARED);
	if (shared->clock.started)
		jump = wall - reference < shared->clock.highest + LARGEST_UNDOUBTED ? 0 :
			wall - reference - shared->clock.offset;
	LWLockRelease(&shared->lock);
	return is_too_far(jump);
}

/* The wait event of a reason, allocated at its first use. */
uint32
ClockWaitEvent(WaitReason reason)
{
	static const char *const names[] = {
		[WAIT_CLOCK] = "SnowflakeClock",
		[WAIT_LEASE] = "SnowflakeLease",
		[WAIT_MARK] = "SnowflakeMark"
	};
	static uint32 events[lengthof(names)];

	if (events[reason] == 0)
		events[reason] = compat_wait_event(names[reason]);
	return events[reason];
}

/*
 * Sleep for a while.  False if the call has already waited for the longer of
 * snowflake.max_wait and "at_least".  "waited" is for how long, in us.  Go by
 * the reference clock, because the wall clock may be stepped meanwhile.
 */
bool
ClockKeepWaiting(int64 a_while, WaitReason reason, int64 at_least,
				 int64 *waited)
{
	int64		max_wait = Max(setting_max_wait * INT64CONST(1000), at_least);
	int64		left = max_wait - *waited;
	int64		begin = ClockReference();
	int64		slept;

	if (left <= 0)
		return false;
	if (*waited == 0)
		StatsAdd(STATS_WAITS, 1);

	(void) WaitLatch(MyLatch,
					 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 (Min(a_while, left) + 999) / 1000,
					 ClockWaitEvent(reason));
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	slept = Max(ClockReference() - begin, 1);
	*waited += slept;
	StatsAdd(STATS_WAIT_TIME, slept);
	return true;
}
