/*-------------------------------------------------------------------------
 *
 * lanes.pml
 *	  A model of lane.c: words, windows, and the version that closes them.
 *
 * Checks invariants 1 to 3 at the head of lane.c:
 *
 *		No lane, tick and sequence is taken twice.
 *
 *		The ids of a session increase, even in blocks, on other lanes, and with
 *		another worker id.
 *
 *		Once a change is over, no id is made from the values before it; and no
 *		id is made from a mixture of old and new values.
 *
 * Two sessions take single ids and blocks of two, from any lane that
 * LaneChoose() may choose.  Each reading of the clock may be any tick, and a
 * window may stay open for any time.  A third process changes what windows
 * depend on: the worker id, which is read under the lock, and another value,
 * which is not.
 *
 * Bounds: three ticks, two lanes, two sequences, two changes.
 *
 * Left out: weakly ordered memory, see weak/take.litmus; and the choice among
 * possible lanes, what a greedy session leaves to others, and where the
 * sequence begins in a tick, all of which only skip ids.
 *
 * snowflake/model/lanes.pml
 *
 *-------------------------------------------------------------------------
 */
#ifndef TICKS
#define TICKS		2
#endif
#ifndef LANES
#define LANES		2
#endif
#ifndef SEQUENCES
#define SEQUENCES	2
#endif
#ifndef CHANGES
#define CHANGES		1
#endif

#include "common.pml"

#define tick_of(word)		((word) / SEQUENCES)
#define first_word(tick)	((tick) * SEQUENCES)
#define LAST_WORD			(first_word(TICKS + 1) - 1)

byte words[LANES];
byte version;
bool lwlock;					/* shared->lock */

/* Values that a change sets, to its number, so that no old value comes back. */
byte worker;
byte other;
byte done;						/* changes that are over */

#define ID(lane, word)	((word) * LANES + (lane))

inline move_words()
{
	atomic { words[0] = MIN(words[0] + 1, LAST_WORD) };
#if LANES > 1
	atomic { words[1] = MIN(words[1] + 1, LAST_WORD) }
#endif
}

proctype Changer()
{
	byte number;

end:
	do
	:: number < CHANGES ->
		number++;
		/* LaneBeginChange() */
		atomic { !lwlock -> lwlock = true };
#ifdef WORDS_BEFORE_VERSION
		move_words();
#endif
#ifndef RAISE_AT_THE_END
		atomic { version++ };
#endif
		worker = number;
		other = number;
		/* LaneEndChange() */
#ifdef RAISE_AT_THE_END
		atomic { version++ };
#endif
#if !defined(NO_WORDS) && !defined(WORDS_BEFORE_VERSION)
		move_words();
#endif
		atomic { lwlock = false; done = number }
	od
}

proctype Session()
{
	/* config */
	byte my_version;
	byte my_worker;
	byte next_tick;
	/* window */
	byte lane;
	byte tick;
	byte my_other;
	/* the last id */
	byte last_word;
	byte last_lane;
	byte last_worker;
	/* 0 except in LaneTake() */
	byte old;
	byte new;
	byte count;

configure:
	atomic {
		/* WorkerGet() */
#ifndef NO_LOCK
		!lwlock ->
#endif
		my_version = version;
		my_worker = worker;
#ifndef NO_NEXT_TICK
		next_tick = (last_word > 0 && my_worker != last_worker -> tick_of(last_word) + 1 : 0)
#endif
	};

look:
	atomic {
		if
		:: my_version != version -> goto configure
		:: else
		fi
	};
	atomic { my_other = other };
	atomic {
		choose(tick, 1, TICKS);
		tick = MAX(tick, next_tick);
		choose(lane, 0, LANES - 1);
		/* LaneChoose() */
		if
		:: last_word > 0 && tick <= tick_of(last_word) ->
			tick = tick_of(last_word);
#ifndef ANY_LANE
			if
			:: lane < last_lane -> tick++
			:: else
			fi
#endif
		:: else
		fi;
		tick = MAX(tick, tick_of(words[lane] + 1));
		if
		:: tick > TICKS -> goto finished
		:: else
		fi
	};

take:	/* LaneTake() */
#ifdef VERSION_BEFORE_WORD
	atomic {
		if
		:: my_version != version -> goto configure
		:: else
		fi
	};
#endif
	atomic { old = words[lane] };
	atomic {
		new = MAX(old + 1, first_word(tick));
		if
		:: tick_of(new) > tick -> old = 0; new = 0; goto look
#if !defined(NO_VERSION) && !defined(VERSION_BEFORE_WORD)
		:: tick_of(new) <= tick && my_version != version -> old = 0; new = 0; goto configure
#endif
		:: else
		fi;
		if
		:: count = 1
		:: tick_of(new + 1) == tick -> count = 2
		fi
	};
	atomic {
#ifndef NO_COMPARE
		if
		:: words[lane] != old -> old = 0; new = 0; count = 0; goto take
		:: else
		fi;
#endif
#ifndef ONE_WORD_OF_A_BLOCK
		words[lane] = new + count - 1;
#else
		words[lane] = new;
#endif
		/* no mixture of old and new values, and no old ones after a change */
		assert(my_worker == my_other);
		assert(my_worker >= done);
		/* increasing */
		assert(last_word == 0 ||
			   tick_of(new) > tick_of(last_word) ||
			   (tick_of(new) == tick_of(last_word) && my_worker == last_worker &&
				(lane > last_lane || (lane == last_lane && new > last_word))));
		issue(ID(lane, new));
		if
		:: count == 2 -> issue(ID(lane, new + 1))
		:: else
		fi;
		last_word = new + count - 1;
		last_lane = lane;
		last_worker = my_worker;
		old = 0;
		new = 0;
		count = 0;
		if
		:: goto take
		:: goto look
		fi
	};

finished:
	skip
}

init
{
	atomic {
		run Changer();
		run Session();
		run Session()
	}
}
