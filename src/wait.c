/*-------------------------------------------------------------------------
 *
 * wait.c
 *	  Waits for what keeps a call from its next id.
 *
 * A call waits for the clock, for a lease, or for a transaction that holds the
 * mark.  All of its waits together take at most snowflake.max_wait, not
 * counting the time in which it moves the limit, or watches a clock in doubt.
 * If that would not do, the error says what is waited for.
 *
 * Nothing is locked here, so errors can be thrown.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "snowflake.h"

/*
 * How often, and for how long, a call watches a clock in doubt.  In us, as all
 * times here.  The interval is short because a call may be canceled soon.
 */
#define LOOK_INTERVAL		10000
#define TIME_TO_WATCH		(CLOCK_TIME_TO_BELIEVE + 10 * LOOK_INTERVAL)

/* A call that waits for the clock looks whether it has been corrected. */
#define LONGEST_SLEEP		100000
/* What others do has no known end. */
#define SLEEP_FOR_OTHERS	10000

/* For how long the present call has waited, in us. */
static int64 waited = 0;		/* this counts for snowflake.max_wait */
static int64 watched = 0;		/* a clock in doubt */

/* A call begins. */
void
WaitBegin(void)
{
	waited = watched = 0;
}

/* Sleep for up to so many us.  Returns for how long. */
static int64
wait_sleep(int64 us, const char *wait_event)
{
	int64		begin = ClockReference();
	int64		slept;

	(void) WaitLatch(MyLatch,
					 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 (us + 999) / 1000, compat_wait_event(wait_event));
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	slept = ClockReference() - begin;
	slept = Max(slept, 1);
	StatsAdd(STATS_WAIT_TIME, slept);
	return slept;
}

static int64
wait_max(void)
{
	return setting_max_wait * INT64CONST(1000);
}

/*
 * Sleep for a while, "missing" us at most; 0 if the end of the wait is not
 * known.  False if the call has waited for the longest time it may, or is
 * known to need longer.
 */
static bool
wait_some(int64 missing, int64 longest, const char *wait_event)
{
	int64		left = longest - waited;

	if (left <= 0 || missing > left)
		return false;
	if (waited == 0)
		StatsAdd(STATS_WAITS, 1);
	waited += wait_sleep(missing != 0 ? Min(missing, LONGEST_SLEEP) :
						 Min(SLEEP_FOR_OTHERS, left), wait_event);
	return true;
}

/*
 * Sleep until the next look at a clock in doubt, whatever snowflake.max_wait
 * is.  False if the call has watched it for long enough to believe it.
 */
static bool
wait_watch(void)
{
	int64		slept;

	if (watched >= TIME_TO_WATCH)
		return false;
	if (watched == 0)
		StatsAdd(STATS_WAITS, 1);
	slept = wait_sleep(LOOK_INTERVAL, WAIT_CLOCK);
	/* as in clock_watch(): nobody watched while the process was stopped */
	if (slept <= CLOCK_LONGEST_GAP)
		watched += slept;
	return true;
}

/*
 * Look at the clock.  Throws an error if it has jumped too far.  If a doubt is
 * old, or the old time cannot be used, the call watches the clock.
 */
ClockReading
WaitReadClock(const Layout *layout)
{
	ClockReading reading;

	do
	{
		reading = ClockRead();
		ClockCheck(&reading);
	} while ((reading.doubted_for >= CLOCK_TIME_TO_BELIEVE ||
			  (reading.doubt > 0 && reading.ids < layout->epoch)) &&
			 wait_watch());
	return reading;
}

/* Wait for a transaction that changes or drops a relation of the mark. */
void
WaitForMark(void)
{
	if (!wait_some(0, wait_max(), WAIT_MARK))
		ereport(ERROR,
				(StatsErrcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("could not obtain lock on the snowflake mark"),
				 errdetail("Another transaction is changing or dropping a relation that holds it. \"snowflake.max_wait\" is %d ms.",
						   setting_max_wait),
				 errhint("Ids can be made once that transaction has ended.")));
}

/* Wait for a lease, or for ours to be extended. */
void
WaitForLease(const Worker *worker)
{
	TimestampTz ends;

	WorkerAskForLease();
	if (wait_some(0, wait_max(), WAIT_LEASE))
		return;

	ends = LayoutTickToTimeCapped(SharedLayout(), WorkerLeaseEnd(worker));
	ereport(ERROR,
			(StatsErrcode(ERRCODE_SNOWFLAKE_NO_LEASE),
			 errmsg("server has no lease of a worker id for snowflake ids"),
			 worker->id < 0 ? 0 :
			 errdetail("Its lease of worker id " INT64_FORMAT " is for ids before %s.",
					   worker->id,
					   timestamptz_to_str(ends)),
			 errhint("%s", WorkerLeaseWords()->hint)));
}

/* Report what keeps a tick from being used until the id clock is "awaited". */
static void
wait_report_far(const Layout *layout, const Worker *worker, int64 tick,
				const FoundMark *found, const ClockReading *reading,
				TimestampTz awaited)
{
	TimestampTz starts = LayoutTickToTimeCapped(layout, worker->lease_start);
	char	   *wait = psprintf("The time that ids follow is %s, and has to reach %s before the next id. \"snowflake.max_ahead\" is %d%s, and \"snowflake.max_wait\" is %d ms.",
								TIME_TEXT(reading->ids), TIME_TEXT(awaited),
								setting_max_ahead, setting_max_ahead < 0 ? "" : " ms", setting_max_wait);

	/* is this mostly because the clock was set back? */
	if (setting_max_set_back >= 0 &&
		reading->set_back - setting_max_set_back * USECS_PER_SEC >
		(awaited - reading->ids) / 2)
		ereport(ERROR,
				(StatsErrcode(ERRCODE_SNOWFLAKE_TOO_FAR_AHEAD),
				 errmsg("clock was set back too far for snowflake ids"),
				 errdetail("Ids are ahead of it by %.3f s. \"snowflake.max_set_back\" is %d s, and \"snowflake.max_wait\" is %d ms.",
						   reading->set_back / 1e6, setting_max_set_back,
						   setting_max_wait),
				 errhint(HINT_GO_ON("max_set_back"))));
	if (found != NULL)
		ereport(ERROR,
				(StatsErrcode(ERRCODE_SNOWFLAKE_TOO_FAR_AHEAD),
				 errmsg("snowflake mark is too far ahead of the clock"),
				 errdetail("Ids up to " INT64_FORMAT " are taken in this database. %s",
						   LayoutLastIdBefore(layout, tick), wait),
				 errhint("%s", HINT_FAR_MARK)));
	if (worker->leased && worker->lease_start >= tick)
		ereport(ERROR,
				(StatsErrcode(ERRCODE_SNOWFLAKE_NO_LEASE),
				 errmsg("lease of a worker id for snowflake ids begins ahead of the clock"),
				 errdetail("The lease is for worker id " INT64_FORMAT " and for ids from %s on. %s",
						   worker->id,
						   timestamptz_to_str(starts), wait),
				 errhint("Wait until the clock gets there: the lease begins above all ids that others can have made with this worker id. No other worker id was free, or the registry might have lost grants.")));
	ereport(ERROR,
			(StatsErrcode(ERRCODE_SNOWFLAKE_TOO_FAR_AHEAD),
			 errmsg("snowflake ids are too far ahead of the clock"),
			 errdetail("%s", wait),
			 reading->ids < layout->epoch ?
			 errhint(HINT_EPOCH) :
			 errhint("If ids are needed faster than the layout provides them, give it more bits of sequence, or raise \"snowflake.max_ahead\".")));
}

/*
 * How long it takes, in us, until a tick is not ahead of the id clock by more
 * than so many ticks.
 */
static int64
wait_missing(const Layout *layout, int64 tick, int64 ahead,
			 const ClockReading *reading)
{
	int64		missing;

	if (tick <= LayoutTick(layout, reading->ids) + ahead)
		return 0;
	missing = LayoutTickToTime(layout, tick - ahead) - reading->ids;

	/* the id clock goes on a little slower while it is ahead */
	if (reading->ids > reading->time)
		missing += missing / 7;
	return missing;
}

/*
 * How long a call may wait for "missing" us.  After a start the mark can be a
 * reservation, and half of max_ahead, further ahead than it may be.  Wait for
 * three reservations even beyond max_wait, so that a restart alone causes no
 * error, unless max_ahead is over 8 s.  Add 2 ticks: the limit is the tick
 * after the reservation, and if the mark is in that tick, ids begin in the one
 * after it.
 */
static int64
wait_longest(const Layout *layout, const FoundMark *found, int64 missing)
{
	int64		longest = wait_max();
	int64		after_start =
	(3 * LimitReservation(layout) + 2) * layout->tick;

	if (found != NULL && missing <= after_start)
		longest = Max(longest, after_start);
	return longest;
}

/* Whether a new call could wait until a tick is near enough. */
bool
WaitIsPossible(const Layout *layout, int64 tick, int64 ahead,
			   const FoundMark *found, const ClockReading *reading)
{
	/* a doubt may end at any time */
	int64		missing = wait_missing(layout, tick, ahead, reading) -
	reading->doubt;

	return missing <= wait_longest(layout, found, missing);
}

/*
 * Whether a call may take an id of a tick that is too far ahead, and wait then
 * until it is not.
 */
bool
WaitMayClaim(const Layout *layout, int64 tick, int64 ahead,
			 const ClockReading *reading)
{
	return reading->doubt == 0 &&
		wait_missing(layout, tick, ahead, reading) <= wait_max() - waited;
}

/*
 * Wait for a while for the id clock to come near enough to a tick.  Returns
 * whether it has; throws an error if that takes longer than the call may wait.
 * "found" is NULL unless it is the first tick above a mark that was found on
 * disk.
 */
bool
WaitForClock(const Layout *layout, const Worker *worker, int64 tick,
			 int64 ahead, const FoundMark *found)
{
	ClockReading reading = ClockRead();
	int64		missing;

	ClockCheck(&reading);
	(void) LimitFollowLease(layout, WorkerLeaseEnd(worker), &reading);
	missing = wait_missing(layout, tick, ahead, &reading);
	if (missing == 0)
		return true;

	/* a clock that is right may only be in doubt, which may end at any time */
	if (reading.doubt > 0 &&
		WaitIsPossible(layout, tick, ahead, found, &reading) && wait_watch())
		return false;
	if (!wait_some(reading.doubt > 0 ? 0 : missing,
				   wait_longest(layout, found, missing), WAIT_CLOCK))
		wait_report_far(layout, worker, tick, found, &reading,
						LayoutTickToTime(layout, tick - ahead));
	return false;
}
