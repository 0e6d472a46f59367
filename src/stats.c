/*-------------------------------------------------------------------------
 *
 * stats.c
 *	  Counts what the server does with ids.
 *
 * The counters are atomics in shared memory, one set for all databases, since
 * the server was started or they were reset.  What is counted with every id is
 * counted by each process for itself, and added to them a second later by a
 * timeout, and when the process exits.  So an id costs no more than an addition
 * to a variable of its process, and a session that makes one id and then waits
 * for its client is counted, too.
 *
 * Note about locking issues: pending counts are read by a signal handler, and
 * only that and the end of the process move what was folded.  Counters are
 * exact but for those that a reset meets on their way.
 *
 * snowflake/src/stats.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "storage/ipc.h"
#include "utils/timeout.h"
#include "utils/timestamp.h"

#include "stats.h"

/* After how many ms pending counts are added to those of the server. */
#define FOLD_DELAY		1000

uint64		stats_pending[NUM_PENDING_STATS];

static uint64 folded[NUM_PENDING_STATS];
static StatsShared *shared_stats = NULL;
static TimeoutId fold_timeout = MAX_TIMEOUTS;
static volatile uint64 *open_window_length;


/* Memory that nobody else has seen yet.  Must not fail. */
void
StatsInit(StatsShared *memory)
{
	for (int i = 0; i < NUM_STATS; i++)
		pg_atomic_init_u64(&memory->counters[i], 0);
	pg_atomic_init_u64(&memory->last_step_back, 0);
	pg_atomic_init_u64(&memory->reset_at, GetCurrentTimestamp());
}

/* Without shared memory there is nothing to count but why it is not there. */
void
StatsAdd(StatsCounter counter, uint64 number)
{
	if (shared_stats == NULL)
		return;
	pg_atomic_fetch_add_u64(&shared_stats->counters[counter], number);
}

/*
 * Runs in a signal handler.  Closes the session's window: what is counted from
 * now on is to find a timeout that has not been used up.
 */
static void
fold(void)
{
	*open_window_length = 0;
	for (int i = 0; i < NUM_PENDING_STATS; i++)
	{
		uint64		pending = stats_pending[i];

		StatsAdd(i, pending - folded[i]);
		folded[i] = pending;
	}
}

/* The same at any other time, when the handler must not come in between. */
static void
fold_now(void)
{
	if (fold_timeout == MAX_TIMEOUTS)
		return;
	disable_timeout(fold_timeout, false);
	fold();
}

/* Before dynamic shared memory is gone. */
static void
fold_at_exit(int code, Datum arg)
{
	fold_now();
	shared_stats = NULL;
}

/* An error ends all timeouts. */
static void
fold_at_abort(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_ABORT || event == XACT_EVENT_PARALLEL_ABORT)
		fold_now();
}

static void
fold_at_subabort(SubXactEvent event, SubTransactionId subid,
				 SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		fold_now();
}

void
StatsAttach(StatsShared *memory)
{
	shared_stats = memory;
}

/*
 * Have pending counts added a second from now.  To be called whenever a window
 * has been opened, whose length is set to 0 then.
 */
void
StatsFoldSoon(TimestampTz now, volatile uint64 *window_length)
{
	open_window_length = window_length;
	if (fold_timeout == MAX_TIMEOUTS)
	{
		fold_timeout = RegisterTimeout(USER_TIMEOUT, fold);
		before_shmem_exit(fold_at_exit, (Datum) 0);
		RegisterXactCallback(fold_at_abort, NULL);
		RegisterSubXactCallback(fold_at_subabort, NULL);
	}
	/* they go by the clock, which may have been set back since */
	if (!get_timeout_active(fold_timeout) ||
		get_timeout_finish_time(fold_timeout) - now > 2 * FOLD_DELAY * INT64CONST(1000))
		enable_timeout_after(fold_timeout, FOLD_DELAY);
}

/* Count a step of the clock, in us. */
void
StatsAddStepBack(int64 step, TimestampTz now)
{
	pg_atomic_uint64 *largest = &shared_stats->counters[STATS_LARGEST_STEP_BACK];
	uint64		old = pg_atomic_read_u64(largest);

	StatsAdd(STATS_STEPS_BACK, 1);
	while (old < step && !pg_atomic_compare_exchange_u64(largest, &old, step))
		;
	pg_atomic_write_u64(&shared_stats->last_step_back, now);
}

void
StatsGet(Stats *stats)
{
	/* a session is not to miss what it knows of */
	fold_now();
	for (int i = 0; i < NUM_STATS; i++)
		stats->counters[i] = pg_atomic_read_u64(&shared_stats->counters[i]);
	stats->last_step_back = pg_atomic_read_u64(&shared_stats->last_step_back);
	stats->reset_at = pg_atomic_read_u64(&shared_stats->reset_at);
}

void
StatsReset(void)
{
	fold_now();
	for (int i = 0; i < NUM_STATS; i++)
		pg_atomic_write_u64(&shared_stats->counters[i], 0);
	pg_atomic_write_u64(&shared_stats->last_step_back, 0);
	pg_atomic_write_u64(&shared_stats->reset_at, GetCurrentTimestamp());
}
