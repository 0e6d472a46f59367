/*-------------------------------------------------------------------------
 *
 * clock.h
 *	  The clock that ids follow.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_CLOCK_H
#define SNOWFLAKE_CLOCK_H

#include "compat.h"
#include "shared.h"

/* Smaller differences, in us, are noise, not steps. */
#define CLOCK_SMALLEST_STEP		10000
/* For how long a clock in doubt must be watched to be believed, in us. */
#define CLOCK_TIME_TO_BELIEVE	(3 * USECS_PER_SEC)
/* Longer times between two looks are not watched. */
#define CLOCK_LONGEST_GAP		USECS_PER_SEC

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
extern int64 ClockReference(void);
pg_noreturn extern void ClockReportExhausted(const Layout *layout);
extern void ClockNoteStart(ClockState *clock);

#endif							/* SNOWFLAKE_CLOCK_H */
