/*-------------------------------------------------------------------------
 *
 * clock.c
 *	  The clock that ids follow.
 *
 * The wall clock may be stepped at any time, in either direction.  Ids do not
 * follow a step forward at once: otherwise one look at a clock that says 2090
 * would carry every database there.  To see steps, we compare the wall clock
 * with a reference clock, which nobody can set.  The difference is the offset.
 *
 *		An offset is believed at once if it exceeds the highest one ever
 *		believed by less than a second, as when a clock that was set back is
 *		corrected.  A higher one is in doubt.  When three seconds have been
 *		watched in which none was lower by a second, the lowest of them is
 *		believed.  Meanwhile, time goes on at the old offset.
 *
 * Only time in which somebody looks at least once a second is watched, so that
 * two glitches do not pass for a step.  A call that finds an old doubt looks
 * until it ends, so that rare calls get to the new time, too.
 *
 *		An offset is refused if it exceeds by more than snowflake.max_jump the
 *		one that is believed, that of the last checkpoint before the start, and
 *		that of the id clock.
 *
 * So a machine that boots years behind can be set right.  Before the first
 * look, the offset of the start counts as the highest one, but is not
 * believed; from then on it is, if that look is in doubt.  The postmaster
 * keeps it, and that of the last checkpoint before it, across crashes.  If the
 * library is not preloaded, the first look is the start.
 *
 * Ids follow the id clock:
 *
 *		The id clock is the believed clock, unless that is set back.  Then it
 *		goes on from where it was, at seven eighths of the pace of the
 *		reference clock, until the believed clock has caught up, as adjtime()
 *		does.  So it goes back by noise only, unless snowflake.max_set_back
 *		limits how far it may be ahead.
 *
 * The guard stores what it says, and a start goes on from there.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <time.h>

#include "catalog/pg_control.h"
#include "common/controldata_utils.h"

#include "snowflake.h"

/*
 * Smaller steps are not logged, unless ids stop for them.  All times here are
 * in us.
 */
#define SMALLEST_LOGGED		100000
/* Smaller steps forward are believed at once, larger ones are in doubt. */
#define SMALLEST_DOUBTED	USECS_PER_SEC

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
clock_read_both(TimestampTz *wall, int64 *reference)
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
static TimestampTz
clock_read_checkpoint(void)
{
	bool		crc_ok;
	ControlFileData *control;
	pg_time_t	checkpoint;

	LWLockAcquire(ControlFileLock, LW_SHARED);
	control = get_controlfile(DataDir, &crc_ok);
	LWLockRelease(ControlFileLock);
	if (!crc_ok)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("incorrect checksum in control file")));
	checkpoint = control->checkPointCopy.time;
	pfree(control);
	return time_t_to_timestamptz(checkpoint);
}

/*
 * Note the offset of now, unless one has been noted, and that of a checkpoint.
 */
static void
clock_note_offset(ClockState *clock, TimestampTz checkpoint)
{
	TimestampTz wall;
	int64		reference;

	if (clock->noted)
		return;
	clock_read_both(&wall, &reference);
	clock->offset = clock->highest = wall - reference;
	clock->checkpoint_offset = checkpoint - reference;
	clock->noted = true;
}

/*
 * Note the offset of the start, and the checkpoint before that of recovery.
 * The postmaster calls this whenever it creates shared memory.  If the clock
 * has been set back by then, the start was wrong.
 */
void
ClockNoteStart(ClockState *clock)
{
	static ClockState start;
	TimestampTz wall;
	int64		reference;
	int64		offset;

	if (!start.noted)
		clock_note_offset(&start, clock_read_checkpoint());
	clock_read_both(&wall, &reference);
	offset = wall - reference;
	start.offset = start.highest = Min(start.offset, offset);
	*clock = start;
	clock->pace = DT_NOBEGIN;
}

/* The reference clock at the pace of an id clock that is ahead. */
static int64
clock_slow(int64 reference)
{
	return reference - reference / 8;
}

/*
 * Where the id clock would be without max_set_back, if that is ahead of the
 * believed clock.
 */
static TimestampTz
clock_paced(const ClockState *clock, int64 reference)
{
	return clock->pace == DT_NOBEGIN ? DT_NOBEGIN :
		clock->pace + clock_slow(reference);
}

/*
 * How far an offset is ahead of everything that is known about the clock, at
 * an instant of the reference clock.
 */
static int64
clock_jump(const ClockState *clock, int64 offset, int64 reference)
{
	int64		known = clock->checkpoint_offset;
	TimestampTz paced = clock_paced(clock, reference);

	if (clock->started)
		known = Max(known, clock->offset);
	if (paced != DT_NOBEGIN)
		known = Max(known, paced - reference);
	return offset - known;
}

static bool
clock_is_too_far(int64 jump)
{
	return setting_max_jump >= 0 && jump > setting_max_jump * USECS_PER_SEC;
}

static bool
clock_is_doubtful(const ClockState *clock, int64 offset)
{
	return offset >= clock->highest + SMALLEST_DOUBTED;
}

/* Note a doubtful offset.  Returns whether it can be believed now. */
static bool
clock_watch(ClockState *clock, int64 offset, int64 reference)
{
	int64		gap = reference - clock->seen_at;

	/* what was seen of a later time proves nothing about an earlier one */
	if (!clock->doubted || offset <= clock->lowest - SMALLEST_DOUBTED)
	{
		clock->doubted = true;
		clock->doubted_since = reference;
		clock->watched = 0;
		clock->lowest = offset;
	}
	else if (gap <= CLOCK_LONGEST_GAP)
		clock->watched += gap;
	clock->seen_at = reference;
	clock->lowest = Min(clock->lowest, offset);
	return clock->watched >= CLOCK_TIME_TO_BELIEVE;
}

/* Count a step that was believed, and log it if it matters. */
static void
clock_note_step(int64 step, TimestampTz time)
{
	if (step < 0)
		StatsAddStepBack(-step, time);
	if (llabs(step) >= SMALLEST_LOGGED ||
		(step < 0 && setting_max_ahead >= 0 &&
		 -step > setting_max_ahead * INT64CONST(1000)))
		ereport(LOG_SERVER_ONLY,
				(step > 0 ?
				 errmsg("clock was stepped forward by %.3f s", step / 1e6) :
				 errmsg("clock was stepped back by %.3f s", -step / 1e6),
				 errdetail("It now says %s.", timestamptz_to_str(time))));
}

static TimestampTz
clock_capped(TimestampTz paced, TimestampTz believed)
{
	if (setting_max_set_back >= 0)
		paced = Min(paced, believed + setting_max_set_back * USECS_PER_SEC);
	return Max(paced, believed);
}

/* The id clock, for a time that is believed. */
TimestampTz
ClockIds(TimestampTz believed)
{
	TimestampTz paced;

	LWLockAcquire(&shared->lock, LW_SHARED);
	paced = clock_paced(&shared->clock, ClockReference());
	LWLockRelease(&shared->lock);
	return clock_capped(paced, believed);
}

static void
clock_raise_ids(ClockState *clock, TimestampTz ids, int64 reference)
{
	TimestampTz pace = ids - clock_slow(reference);

	clock->pace = Max(clock->pace, pace);
}

/* Let the id clock go on from an instant, unless it is later already. */
void
ClockRaiseIds(TimestampTz ids)
{
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	clock_raise_ids(&shared->clock, ids, ClockReference());
	LWLockRelease(&shared->lock);
}

/* Complete a reading by the id clock. */
static void
clock_add_ids(const ClockState *clock, int64 reference, ClockReading *reading)
{
	TimestampTz paced = clock_paced(clock, reference);

	reading->ids = clock_capped(paced, reading->time);
	Assert(reading->ids >= reading->time);
	reading->set_back = paced > reading->time ? paced - reading->time : 0;
}

/*
 * Judge the wall clock, and note in *clock what follows.  Returns the step
 * that is believed now, in us.
 */
static int64
clock_judge(ClockState *clock, ClockReading *reading)
{
	TimestampTz wall;
	int64		reference;
	int64		offset;
	int64		used;			/* offset of the time to use */
	int64		step = 0;
	bool		is_believed = true;

	clock_read_both(&wall, &reference);
	used = offset = wall - reference;
	if (clock_is_doubtful(clock, offset))
	{
		is_believed = clock_watch(clock, offset, reference);
		used = is_believed ? clock->lowest : clock->offset;
	}

	/* before the first look, not even the offset of the start was checked */
	if (!clock->started || (is_believed && clock_is_doubtful(clock, used)))
		reading->refused =
			clock_is_too_far(clock_jump(clock, used, reference));
	if (is_believed && !reading->refused)
	{
		step = used - clock->offset;
		/* a first look at a clock that was set back is no step */
		if (!clock->started)
		{
			step = Max(step, 0);
			clock->highest = used;
		}
		if (step < 0)
			clock_raise_ids(clock, reference + clock->offset, reference);
		clock->highest = Max(clock->highest, used);
		clock->offset = used;
		clock->doubted = false;
	}
	/* what is used, even while the first look is in doubt, is believed */
	if (!reading->refused)
		clock->started = true;
	reading->wall = wall;
	reading->time = reference + (reading->refused ? clock->offset : used);
	reading->doubt = reading->refused || is_believed ? 0 : offset - used;
	reading->doubted_for = clock->doubted ?
		reference - clock->doubted_since : 0;
	reading->jump = clock_jump(clock, offset, reference);
	clock_add_ids(clock, reference, reading);
	return step;
}

/*
 * Look at the clock.  Only the first look of a library that is not preloaded
 * can throw an error, as it reads a file; none waits.
 */
ClockReading
ClockRead(void)
{
	ClockState *clock = &shared->clock;
	ClockReading reading = {0};
	TimestampTz wall;
	int64		reference;
	int64		step;
	TimestampTz checkpoint = 0;
	bool		noted;
	bool		is_usual;

	clock_read_both(&wall, &reference);

	/* usually nothing has changed */
	LWLockAcquire(&shared->lock, LW_SHARED);
	noted = clock->noted;
	is_usual = clock->started && !clock->doubted &&
		llabs(wall - reference - clock->offset) < CLOCK_SMALLEST_STEP;
	if (is_usual)
	{
		reading.wall = reading.time = wall;
		clock_add_ids(clock, reference, &reading);
	}
	LWLockRelease(&shared->lock);
	if (is_usual)
		return reading;
	if (!noted)
		checkpoint = clock_read_checkpoint();

	/* look again, as another session may have noted a step meanwhile */
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	clock_note_offset(clock, checkpoint);
	step = clock_judge(clock, &reading);
	LWLockRelease(&shared->lock);

	if (llabs(step) >= CLOCK_SMALLEST_STEP)
		clock_note_step(step, reading.time);
	return reading;
}

/*
 * What ClockRead() would find if the id clock went on from an instant, unless
 * that is DT_NOBEGIN; changes nothing.
 */
ClockReading
ClockPeek(TimestampTz ids)
{
	ClockReading reading = {0};
	ClockState	clock;

	LWLockAcquire(&shared->lock, LW_SHARED);
	clock = shared->clock;
	LWLockRelease(&shared->lock);
	if (!clock.noted)
		clock_note_offset(&clock, clock_read_checkpoint());
	if (ids != DT_NOBEGIN)
		clock_raise_ids(&clock, ids, ClockReference());
	(void) clock_judge(&clock, &reading);
	/* sooner or later */
	reading.refused = (!clock.started || reading.doubt > 0) &&
		clock_is_too_far(reading.jump);
	return reading;
}

/* Throw an error if the clock has jumped too far. */
void
ClockCheck(const ClockReading *reading)
{
	if (reading->refused)
		ereport(ERROR,
				(StatsErrcode(ERRCODE_SNOWFLAKE_CLOCK_REFUSED),
				 errmsg("clock jumped too far ahead for snowflake ids"),
				 errdetail("The clock says %s, but it should be %s. \"snowflake.max_jump\" is %d s.",
						   TIME_TEXT(reading->wall),
						   TIME_TEXT(reading->wall - reading->jump),
						   setting_max_jump),
				 errhint(HINT_CLOCK_REFUSED)));
}

void
ClockReportExhausted(const Layout *layout)
{
	ereport(ERROR,
			(StatsErrcode(ERRCODE_SNOWFLAKE_LAYOUT_EXHAUSTED),
			 errmsg("snowflake layout has no tick left"),
			 errdetail("The last tick of the layout \"%s\" begins at %s.",
					   LayoutToText(layout),
					   timestamptz_to_str(LayoutLastInstant(layout))),
			 errhint(HINT_CLOCK_EXHAUSTED)));
}
