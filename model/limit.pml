/*-------------------------------------------------------------------------
 *
 * limit.pml
 *	  A model of limit.c and mark.c: sessions that make ids below a limit.
 *
 * Not a part by itself: mark.pml and others include it, and add other actors.
 * The server may crash at any point.  Then its processes end, shared memory and
 * buffers are lost, and the pages are as they were last flushed.  Other
 * processes may flush what a process has written at any time.
 *
 * Assumes what lanes.pml shows:
 *
 *	- words are taken one at a time, so that one lane with one id per tick is enough;
 *	- a window stays open until a change is over, and is opened with values from
 *	  before a change or from after it.
 *
 * Each reading of the clock may be any tick, which covers all steps of the
 * clock, while the server runs and while it is down.
 *
 * A bound is given as the first tick above it; 0 means no bound.
 *
 * snowflake/model/limit.pml
 *
 *-------------------------------------------------------------------------
 */
#include "common.pml"

#ifndef LAST_TICK
#define LAST_TICK	3
#endif
#define RESERVATION	1

/*
 * Defaults that a part may override.  An id has an owner, which distinguishes
 * it from other ids of the same tick.
 */
#ifndef OWNERS
#define OWNERS		1
#define OWNER		0
#endif
#ifndef MARKS
#define MARKS		1
#define MARK		0			/* the one that a session sees */
#endif
#ifndef CANNOT_OPEN_MARK
#define CANNOT_OPEN_MARK	false
#define MARK_STAYS	true
#endif
#ifndef MORE_OF_SESSION
#define MORE_OF_SESSION
#endif
#ifndef MORE_BETWEEN_CALLS
#define MORE_BETWEEN_CALLS
#endif
#ifndef MORE_OF_CONFIGURE
#define MORE_OF_CONFIGURE
#endif
#ifndef MORE_OF_END
#define MORE_OF_END				/* of a session, by a crash */
#define MORE_OF_START			/* of the server after that */
#endif
#ifndef LOOK_AT_CLOCK
#define LOOK_AT_CLOCK	choose(now, 1, LAST_TICK)
#define AHEAD_END		(LAST_TICK + 1)
#define IS_FAR(tick)	false
#endif
#ifndef MORE_OF_PAGES
#define MORE_OF_PAGES
#define COPY_MORE_OF_PAGES(to, from)
#define SIGN_PAGES
#define FIRST_TICK		0		/* LimitStartAfterReset() */
#endif
#ifndef FLUSH_MORE
#define FLUSH_MORE
#endif
#ifndef CHECK_ID
#define CHECK_ID	assert(tick < BOUND(disk[MARK]))
#endif

byte word;						/* of the lane: the tick of its last id */

typedef DatabaseSlot
{
	byte limit;
	byte floor;
	byte closed_below;
	byte written
}
DatabaseSlot slot;

/* The sequence, and the guard, which no SQL command lowers. */
typedef Pages
{
	byte mark;
	byte guard
	MORE_OF_PAGES
}
Pages page[MARKS];				/* in shared buffers */
Pages disk[MARKS];				/* as the flushed WAL has them */
bool page_locked[MARKS];
bool mark_locked[MARKS];		/* by the session that moves it */

#ifdef NO_GUARD
#define BOUND(pages)	pages.mark
#else
#define BOUND(pages)	MAX(pages.mark, pages.guard)
#endif
/* locks do not keep the processes of a parallel group apart */
#ifdef PARALLEL
#define IS_BUSY(mark)	false
#else
#define IS_BUSY(mark)	mark_locked[mark]
#endif

bool lwlock;					/* shared->lock */
bool current[2];				/* a session's version is that of shared memory */
bool is_open[2];				/* its window is open */
bool killed[3];					/* it must end; the third is not a session */

#define ID(owner, tick)	((tick) * OWNERS + (owner))

inline copy_pages(to, from)
{
	to.mark = from.mark;
	to.guard = from.guard
	COPY_MORE_OF_PAGES(to, from)
}

/* XLogFlush(), by any process */
inline flush_all()
{
	copy_pages(disk[0], page[0]);
#if MARKS > 1
	copy_pages(disk[1], page[1]);
#endif
#if MARKS > 2
	copy_pages(disk[2], page[2]);
#endif
	FLUSH_MORE
}

inline clear_slot()
{
	slot.limit = 0;
	slot.floor = 0;
	slot.closed_below = 0;
	slot.written = 0
}

inline start_server()
{
	word = 0;
	clear_slot();
	lwlock = false;
	current[0] = false;
	current[1] = false;
	is_open[0] = false;
	is_open[1] = false;
	killed[0] = true;
	killed[1] = true;
	killed[2] = true;
	copy_pages(page[0], disk[0]);
	page_locked[0] = false;
	mark_locked[0] = false;
#if MARKS > 1
	copy_pages(page[1], disk[1]);
	page_locked[1] = false;
	mark_locked[1] = false;
#endif
#if MARKS > 2
	copy_pages(page[2], disk[2]);
	page_locked[2] = false;
	mark_locked[2] = false;
#endif
	MORE_OF_START
}

inline LaneBeginChange()
{
	atomic {
		!lwlock ->
		lwlock = true;
		current[0] = false;
		current[1] = false
	}
}

inline LaneEndChange()
{
	atomic {
		is_open[0] = false;
		is_open[1] = false;
		lwlock = false
	}
}

/* The caller has locked the pages. */
inline SlotForget()
{
	if
	:: atomic { slot.limit == 0 -> clear_slot() }
	:: atomic { slot.limit != 0 };
#ifndef NO_CHANGE_TO_FORGET
		LaneBeginChange();
#endif
		atomic { slot.limit = 0 };
		atomic { clear_slot() };
#ifndef NO_CHANGE_TO_FORGET
		LaneEndChange()
#endif
	fi
}

/* Set found to the bound in the pages, if this server has not written it. */
inline LimitCheckFound(found)
{
	found = 0;
	if
#ifndef NO_FOUND
#ifndef NO_GUARD
	:: page[MARK].mark > page[MARK].guard -> found = page[MARK].mark
	:: page[MARK].mark <= page[MARK].guard && page[MARK].guard != slot.written -> found = page[MARK].guard
#else
	:: page[MARK].mark != slot.written -> found = page[MARK].mark
#endif
#endif
	:: else
	fi
}

#define limit_is_near(tick) \
	(tick < slot.limit && tick >= slot.floor && tick - slot.floor >= slot.limit - 1 - tick)

/* GeneratorNext(), in a loop. */
proctype Session(byte me)
{
	byte start;
	byte tick;
	/* the rest is 0 between two calls */
	byte now;
	byte limit;
	byte floor;
	byte found;
	bool must;
	MORE_OF_SESSION

call:
	{
		if
		/* the clock may still be in the window's tick */
		:: atomic { is_open[me] -> goto take }
		:: atomic { true -> is_open[me] = false; tick = 0; goto look }
		/* move the limit early, while the others carry on */
		:: atomic {
			current[me] && limit_is_near(slot.limit - 1) ->
			is_open[me] = false;
			choose(tick, slot.floor, slot.limit - 1);
			if
			:: limit_is_near(tick) -> goto move
			:: else -> tick = 0; goto look
			fi
		}
		MORE_BETWEEN_CALLS
		fi;

look:
		atomic {
			if
			:: !current[me] -> goto configure
			:: else
			fi;
#ifndef FLOOR_BEFORE_LIMIT
			limit = slot.limit
#else
			floor = slot.floor
#endif
		};
		atomic {
#ifndef FLOOR_BEFORE_LIMIT
			floor = slot.floor;
#else
			limit = slot.limit;
#endif
			LOOK_AT_CLOCK;
			tick = MAX(MAX(now, start), MAX(floor, word + 1));
			if
			:: tick > LAST_TICK || tick >= AHEAD_END -> goto failed
			:: tick <= LAST_TICK && tick < AHEAD_END && tick >= limit ->
				now = 0; limit = 0; floor = 0;
				must = true;
				goto move
			:: else ->
				now = 0; limit = 0; floor = 0;
				if
				:: current[me] -> is_open[me] = true; goto take
				:: else -> goto configure
				fi
			fi
		};

configure:
		/* WorkerGet() */
		atomic {
			!lwlock ->
			current[me] = true;
			tick = 0
			MORE_OF_CONFIGURE
		};
		/* LimitReadStart() */
		atomic {
			if
			:: CANNOT_OPEN_MARK -> current[me] = false; goto failed
			:: !(CANNOT_OPEN_MARK) && !page_locked[MARK] ->
				start = FIRST_TICK;
				goto look
			fi
		};

move:	/* LimitMove() */
		atomic { LOOK_AT_CLOCK };
		atomic {
			if
			:: CANNOT_OPEN_MARK -> goto failed
			:: !(CANNOT_OPEN_MARK) && !IS_BUSY(MARK) -> mark_locked[MARK] = true
			:: !(CANNOT_OPEN_MARK) && IS_BUSY(MARK) && !must -> goto look
			:: !(CANNOT_OPEN_MARK) && IS_BUSY(MARK) -> goto failed		/* canceled */
			fi
		};
		atomic {
			if
			:: !(MARK_STAYS) -> goto close_and_fail
#ifndef NO_SECOND_LOOK
			:: (MARK_STAYS) &&
				(!current[me] || tick >= AHEAD_END ||
				 !(must -> tick >= slot.limit : limit_is_near(tick))) -> goto close
#endif
			:: else
			fi
		};
		atomic {
			!page_locked[MARK] ->
			page_locked[MARK] = true;
			LimitCheckFound(found);
			if
			:: found > 0 && IS_FAR(found) -> page_locked[MARK] = false; goto close_and_fail
			:: else
			fi;
			tick = MAX(tick, MAX(found, now));
			limit = MIN(tick + RESERVATION, LAST_TICK) + 1;
			found = MAX(limit, page[MARK].guard);
			now = 0;
#ifndef FLOOR_AT_LAST
			slot.floor = MAX(slot.floor, tick);
#endif
			slot.written = found
		};
#ifdef PUBLISH_BEFORE_FLUSH
		atomic { slot.limit = MAX(slot.limit, limit) };
#endif
		/* MarkWritePages() */
		atomic {
			SIGN_PAGES
			page[MARK].mark = found;
			page[MARK].guard = found;
			page_locked[MARK] = false
		};
		/* MarkFlush() */
#ifndef NO_FLUSH
		d_step { flush_all() };
#endif
		if
		:: atomic { true -> found = 0 }
		:: goto close_and_fail		/* the wait for standbys was canceled */
		fi;
		atomic {
			!lwlock ->
#ifdef FLOOR_AT_LAST
			slot.floor = MAX(slot.floor, tick);
#endif
			slot.limit = MAX(slot.limit, limit)
		};
close:
		atomic {
			mark_locked[MARK] = false;
			now = 0; limit = 0; found = 0; must = false; tick = 0;
			goto look
		};

close_and_fail:
		atomic { mark_locked[MARK] = false; goto failed };

failed:
		atomic {
			now = 0; limit = 0; floor = 0; found = 0; must = false; tick = 0;
			goto call
		};

take:	/* LaneTake() */
		atomic {
			if
			:: is_open[me] && tick > word ->
				word = tick;
				CHECK_ID;
				issue(ID(OWNER, tick));
				goto call
			:: else -> is_open[me] = false; tick = 0; goto look
			fi
		}
	}
	unless
	{
		atomic {
			killed[me] ->
			killed[me] = false;
			start = 0; tick = 0; now = 0; limit = 0; floor = 0; found = 0; must = false
			MORE_OF_END;
			goto call
		}
	}
}

/* The server crashes, or some process flushes WAL. */
proctype Fate()
{
end:
	do
	:: d_step { true -> flush_all() }
	:: d_step { true -> start_server() }
	od
}
