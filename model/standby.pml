/*-------------------------------------------------------------------------
 *
 * standby.pml
 *	  Two servers: one follows the other, and is promoted.
 *
 * The old primary may go on, unaware of the promotion, or be rewound, follow,
 * and be promoted itself.  Either the standby is synchronous, or ids have
 * timeline bits (with -DTIMELINES).
 *
 * Assumes what mark.pml shows: every id of a server is below the bound of its
 * pages, and above the bound that it last started with.
 *
 * Left out: two standbys that are promoted separately, point-in-time recovery,
 * and more timelines than the bits can distinguish.
 *
 * snowflake/model/standby.pml
 *
 *-------------------------------------------------------------------------
 */
#include "common.pml"

#define LAST_TICK	5
#define PROMOTIONS	2

#define OTHER		(1 - me)

bool is_primary[2];
bool follows[2];				/* streams from the other */
byte timeline[2];				/* of its WAL */
byte newest;					/* timeline of all */

byte disk[2];					/* the bound, as the first tick above */

#ifdef TIMELINES
#define ID(tick)	((tick) * (PROMOTIONS + 1) + bits)
#else
#define ID(tick)	(tick)
#endif

proctype Server(byte me)
{
	/* shared memory */
	byte word;
	byte limit;
	byte floor;
	byte written;
	byte bits;					/* the timeline in ids */

	byte tick;

end:
	do
	/* LimitMove() */
	:: atomic {
		is_primary[me] ->
		choose(tick, 1, LAST_TICK);
		tick = MAX(tick, floor);
		if
		:: disk[me] != written -> tick = MAX(tick, disk[me])
		:: else
		fi;
		if
		:: tick > LAST_TICK -> tick = 0; goto end
		:: else
		fi;
		floor = MAX(floor, tick);
		written = MAX(tick + 1, disk[me]);
		disk[me] = written };
		if
#if defined(TIMELINES) || defined(NO_WAIT)
		:: atomic { true -> limit = MAX(limit, tick + 1) }
#else
		/* MarkFlush(): the standby has it, or the wait is canceled */
		:: atomic { follows[OTHER] && disk[OTHER] >= written -> limit = MAX(limit, tick + 1) }
#endif
		:: true
		fi;
		tick = 0
	:: atomic {
		is_primary[me] && limit > 0 ->
		choose(tick, 1, LAST_TICK);
		tick = MAX(tick, MAX(floor, word + 1));
		if
		:: tick < limit ->
			word = tick;
			issue(ID(tick))
		:: else
		fi;
		tick = 0 }

	/* it crashes and starts again */
	:: atomic {
		is_primary[me] ->
		word = 0;
		limit = 0;
		floor = 0;
		written = 0;
		bits = timeline[me] }

	/* it follows, as a fresh copy of the other or after a rewind */
	:: atomic {
		is_primary[OTHER] && !follows[me] && newest == timeline[OTHER] ->
		is_primary[me] = false;
		follows[me] = true;
		word = 0;
		limit = 0;
		floor = 0;
		written = 0;
		disk[me] = disk[OTHER];
		timeline[me] = timeline[OTHER];
#ifdef TIMELINE_IN_RECOVERY
		bits = timeline[me]
#endif
		}
	:: atomic { follows[me] && is_primary[OTHER] -> disk[me] = disk[OTHER] }
	:: atomic {
		/* it is promoted; the other may go on */
		follows[me] && newest < PROMOTIONS ->
		follows[me] = false;
		is_primary[me] = true;
		newest++;
		timeline[me] = newest;
#ifndef TIMELINE_IN_RECOVERY
		bits = newest
#endif
		}
	od
}

init
{
	atomic {
		is_primary[0] = true;
		run Server(0);
		run Server(1)
	}
}
