/*-------------------------------------------------------------------------
 *
 * stats.h
 *	  Counts what the server does with ids, and the codes of its errors.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_STATS_H
#define SNOWFLAKE_STATS_H

#include "datatype/timestamp.h"
#include "port/atomics.h"

/*
 * SQLSTATEs of our own.  The SQL standard leaves classes that start with a
 * letter from I to Z to implementations.
 */
#define ERRCODE_SNOWFLAKE_TOO_FAR_AHEAD		MAKE_SQLSTATE('S','F','0','0','1')
#define ERRCODE_SNOWFLAKE_CLOCK_REFUSED		MAKE_SQLSTATE('S','F','0','0','2')
#define ERRCODE_SNOWFLAKE_LAYOUT_EXHAUSTED	MAKE_SQLSTATE('S','F','0','0','3')
#define ERRCODE_SNOWFLAKE_NO_LEASE			MAKE_SQLSTATE('S','F','0','0','4')

/* What a session waits for, as pg_stat_activity shows it from 17 on. */
#define WAIT_CLOCK		"SnowflakeClock"
#define WAIT_LEASE		"SnowflakeLease"
#define WAIT_MARK		"SnowflakeMark"

/* In the order of the columns of snowflake_stat(); times in us. */
typedef enum StatsCounter
{
	STATS_IDS,					/* counted by each process for itself */
	STATS_WAITS,
	STATS_WAIT_TIME,
	STATS_MARK_EXTENSIONS,
	STATS_MARK_FLUSH_TIME,
	STATS_STEPS_BACK,
	STATS_LARGEST_STEP_BACK,
	STATS_ERRORS,				/* for each SQLSTATE, see StatsErrcode() */
	NUM_STATS = STATS_ERRORS + 7
} StatsCounter;

/* In shared memory, for the whole server. */
typedef struct StatsShared
{
	pg_atomic_uint64 counters[NUM_STATS];
	pg_atomic_uint64 last_step_back;	/* a TimestampTz, or 0 */
	pg_atomic_uint64 reset_at;	/* likewise */
} StatsShared;

/* Ids that this process has made; StatsFoldNowAndThen() does the rest. */
extern uint64 stats_ids;

extern void StatsInit(StatsShared *memory);
extern void StatsFold(void);
extern void StatsFoldNowAndThen(TimestampTz now);
extern int	StatsErrcode(int code);
extern void StatsAdd(StatsCounter counter, uint64 number);
extern void StatsAddStepBack(int64 step, TimestampTz now);
extern void StatsReset(void);

#endif							/* SNOWFLAKE_STATS_H */
