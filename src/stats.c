/*-------------------------------------------------------------------------
 *
 * stats.c
 *	  Counts what the server does with ids.
 *
 * The counters are atomics in shared memory, one set for all databases, and
 * count since the server was started or they were reset.  A process first
 * counts its ids in a variable, so that this costs no more than an addition.
 * It adds them to the counter at the end of a transaction, and once a second
 * during a long one.  Counters are exact, except for ids that were pending
 * during a reset.  Do not infer an order from them: of two events, the later
 * one may show up first.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"

#include "snowflake.h"

/* How often, in us, a long transaction adds its ids. */
#define FOLD_DELAY		USECS_PER_SEC

uint64		stats_ids = 0;

static uint64 folded = 0;
static TimestampTz folded_at = 0;	/* 0: never */

/* Count something now.  Without shared memory, nothing can be counted. */
void
StatsAdd(StatsCounter counter, uint64 number)
{
	if (shared != NULL)
		pg_atomic_fetch_add_u64(&shared->counters[counter], number);
}

/* Add the ids of this process to the counter of the server. */
void
StatsFold(void)
{
	StatsAdd(STATS_IDS, stats_ids - folded);
	folded = stats_ids;
}

static void
stats_fold_at_end(XactEvent event, void *arg)
{
	if (stats_ids != folded)
		StatsFold();
}

/* Call this before a window is opened. */
void
StatsFoldNowAndThen(TimestampTz now)
{
	if (folded_at == 0)
	{
		RegisterXactCallback(stats_fold_at_end, NULL);
		folded_at = now;
	}
	/* if the clock was set back, the difference is a huge number */
	if (((uint64) now - (uint64) folded_at) >= FOLD_DELAY)
	{
		StatsFold();
		folded_at = now;
	}
}

/* errcode() for an error that keeps a session from making ids: counts it. */
int
StatsErrcode(int code)
{
	/* in the order of the counters */
	static const int codes[] = {
		ERRCODE_SNOWFLAKE_TOO_FAR_AHEAD,
		ERRCODE_SNOWFLAKE_CLOCK_REFUSED,
		ERRCODE_SNOWFLAKE_LAYOUT_EXHAUSTED,
		ERRCODE_SNOWFLAKE_NO_LEASE,
		ERRCODE_CONFIG_FILE_ERROR,
		ERRCODE_LOCK_NOT_AVAILABLE,
		ERRCODE_PROGRAM_LIMIT_EXCEEDED
	};

	StaticAssertStmt(lengthof(codes) == STATS_LAST_STEP_BACK - STATS_ERRORS,
					 "each of these errors has a counter");
	for (int i = 0; i < lengthof(codes); i++)
	{
		if (codes[i] == code)
			StatsAdd(STATS_ERRORS + i, 1);
	}
	return errcode(code);
}

/* Count a step back of the clock, in us. */
void
StatsAddStepBack(int64 step, TimestampTz now)
{
	pg_atomic_uint64 *largest =
	&shared->counters[STATS_LARGEST_STEP_BACK];
	uint64		old = pg_atomic_read_u64(largest);

	StatsAdd(STATS_STEPS_BACK, 1);
	while (old < step && !pg_atomic_compare_exchange_u64(largest, &old, step))
		;
	pg_atomic_write_u64(&shared->counters[STATS_LAST_STEP_BACK], now);
}

void
StatsReset(void)
{
	StatsFold();
	for (int i = 0; i < STATS_RESET_AT; i++)
		pg_atomic_write_u64(&shared->counters[i], 0);
	pg_atomic_write_u64(&shared->counters[STATS_RESET_AT],
						GetCurrentTimestamp());
}
