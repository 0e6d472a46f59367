/*-------------------------------------------------------------------------
 *
 * clock.h
 *	  The clock that ids follow, and waiting for it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_CLOCK_H
#define SNOWFLAKE_CLOCK_H

#include "compat.h"
#include "shared.h"

/* What a session waits for, as pg_stat_activity shows it from 17 on. */
#define WAIT_CLOCK		"SnowflakeClock"
#define WAIT_LEASE		"SnowflakeLease"
#define WAIT_MARK		"SnowflakeMark"

/*
 * For how long a clock must be watched to be believed; and how often, and for
 * how long, a call watches a clock in doubt.  In us.  The interval is short
 * because a call may be canceled soon.
 */
#define CLOCK_TIME_TO_BELIEVE	(3 * USECS_PER_SEC)
#define CLOCK_LOOK_INTERVAL		10000
#define CLOCK_TIME_TO_WATCH \
	(CLOCK_TIME_TO_BELIEVE + 10 * CLOCK_LOOK_INTERVAL)

/* For how long a call has waited, in us. */
typedef struct CallWaits
{
	int64		waited;			/* this counts for snowflake.max_wait */
	int64		watched;		/* a clock in doubt */
} CallWaits;

/* What a look at the clock has found; times in us. */
typedef struct ClockReading
{
	int64		reference;		/* when this was read */
	TimestampTz wall;
	TimestampTz time;			/* believed */
	TimestampTz ids;			/* the id clock */
	bool		refused;		/* the wall clock is, by so much: */
	int64		jump;
	int64		doubt;			/* how far it is ahead of "time" */
	int64		doubted_for;	/* how long ago the doubt began */
	int64		set_back;		/* how far the id clock would be ahead of
								 * "time" without max_set_back */
} ClockReading;

extern ClockReading ClockRead(void);
extern ClockReading ClockPeek(TimestampTz ids);
extern TimestampTz ClockIds(TimestampTz believed);
extern void ClockRaiseIds(TimestampTz ids);
extern void ClockCheck(const ClockReading *reading);
extern TimestampTz ClockNow(const Layout *layout, CallWaits *waits);
extern uint64 ClockTick(const Layout *layout, TimestampTz time);
pg_noreturn extern void ClockReportBeforeEpoch(const Layout *layout);
extern int64 ClockReference(void);
pg_noreturn extern void ClockReportExhausted(const Layout *layout);
extern void ClockNoteStart(ClockState *clock);
extern bool ClockKeepWaiting(int64 missing, const char *wait_event,
							 int64 at_least, CallWaits *waits);
extern bool ClockKeepWatching(CallWaits *waits);

#endif							/* SNOWFLAKE_CLOCK_H */
