/*-------------------------------------------------------------------------
 *
 * reset.pml
 *	  After the clock was far ahead, snowflake_reset_mark() lowers the mark.
 *
 * Checks not only that no id is made twice: after a reset, the mark also stays
 * near the clock, unless the clock goes far ahead again.
 *
 * The operator gives the server a fresh worker id, as he states by the call (with
 * -DLIES, any one).  A session may have either worker id at any time, because of
 * a reload or a long statement.
 *
 * Bounds: one session (-DTWO_SESSIONS needs more memory than most machines
 * have), two worker ids, a clock that is right or far ahead.
 *
 * snowflake/model/reset.pml
 *
 *-------------------------------------------------------------------------
 */
#define WORKERS		2
#define NO_WORKER	WORKERS
#define OWNERS		WORKERS
#define OWNER		worker

/* the clock shows 1 or FAR */
#define FAR			5
#define LAST_TICK	5
#define AHEAD		1			/* snowflake.max_ahead */
/* from here on, the clock, max_ahead and a reservation do not explain a tick */
#define FAR_TICK	(1 + AHEAD + RESERVATION + 2)

#define LOOK_AT_CLOCK	now = (clock_is_far -> FAR : 1)
#define AHEAD_END		(now + AHEAD + 1)
#define IS_FAR(tick)	(tick > now + AHEAD)

/* what a reset decides */
#define MORE_OF_PAGES \
	; byte exempt; byte others
#define COPY_MORE_OF_PAGES(to, from) \
	; to.exempt = from.exempt; to.others = from.others
#define SIGN_PAGES \
	used = used | (1 << worker); \
	assert(!is_reset || found < FAR_TICK + RESERVATION);

#define MORE_OF_SESSION \
	byte worker;
#define MORE_OF_CONFIGURE \
	; choose(worker, 0, WORKERS - 1)
#define MORE_BETWEEN_CALLS \
	:: atomic { current[me] -> is_open[me] = false; tick = 0; current[me] = false } \
	:: atomic { \
		/* the session ends, and another database takes the slot */ \
		ONLY_SESSION && !mark_locked[0] -> \
		is_open[me] = false; tick = 0; current[me] = false; clear_slot() }
#define MORE_OF_END	; worker = 0
#ifdef TWO_SESSIONS
#define ONLY_SESSION	false
#else
#define ONLY_SESSION	true
#endif
#define MORE_OF_START

#ifndef NO_OTHERS
#define FIRST_TICK	(worker == page[0].exempt -> 0 : page[0].others)
#else
#define FIRST_TICK	0
#endif

#define CHECK_ID \
	assert(tick < BOUND(disk[0])); \
	assert(!is_reset || tick < FAR_TICK); \
	used = used | (1 << worker)

bool clock_is_far;
bool is_reset;
byte used;						/* worker ids that have made ids or moved the limit */

#include "limit.pml"

proctype Clock()
{
end:
	do
	:: clock_is_far -> clock_is_far = false
	:: atomic { !clock_is_far -> clock_is_far = true; is_reset = false }
	od
}

/* AdjustReset() */
proctype Operator()
{
	byte worker;
	bool bound_is_far;
	byte near;

reset:
	{
		atomic {
			!IS_BUSY(0) && !clock_is_far ->
			choose(worker, 0, WORKERS - 1);
#ifndef LIES
			if
			:: (used & (1 << worker)) == 0
			:: else -> worker = 0; goto reset
			fi;
#endif
			mark_locked[0] = true
		};
		atomic {
			!page_locked[0] ->
			page_locked[0] = true;
			near = page[0].guard;
			bound_is_far = (near >= FAR_TICK);
			if
			:: !bound_is_far && (worker == page[0].exempt || page[0].others < FAR_TICK) -> goto leave
			:: else
			fi
		};
		atomic {
			if
#ifndef NO_LANES_CHECK
			:: word >= FAR_TICK -> goto leave
#endif
#ifndef NO_WRITTEN_CHECK
			:: slot.written >= FAR_TICK -> goto leave
#endif
			:: else
			fi
		};
		LaneBeginChange();
		atomic {
			near = MAX((bound_is_far -> 0 : near), 1);
			near = MAX(near, slot.written);
			slot.floor = near
		};
		atomic {
			slot.closed_below = near;
			slot.written = near
		};
		LaneEndChange();
		atomic {
			page[0].others = MAX(page[0].others, page[0].guard);
			page[0].exempt = worker;
			page[0].mark = near;
			page[0].guard = near;
			used = used | (1 << worker);
			page_locked[0] = false;
			mark_locked[0] = false;
			if
			:: !clock_is_far ->
				is_reset = true;
				/* ids can be made */
				assert(page[0].guard < FAR_TICK && word < FAR_TICK)
			:: else
			fi
		};
		d_step { flush_all() };
		goto finish;
leave:
		atomic {
			page_locked[0] = false;
			mark_locked[0] = false
		};
finish:
		atomic {
			worker = 0;
			bound_is_far = false;
			near = 0;
			goto reset
		}
	}
	unless
	{
		atomic {
			killed[2] ->
			killed[2] = false;
			worker = 0;
			bound_is_far = false;
			near = 0;
			goto reset
		}
	}
}

init
{
	atomic {
		page[0].exempt = NO_WORKER;
		disk[0].exempt = NO_WORKER;
		run Fate();
		run Clock();
		run Operator();
		run Session(0)
#ifdef TWO_SESSIONS
		;
		run Session(1)
#endif
	}
}
