/*-------------------------------------------------------------------------
 *
 * lane.c
 *	  Lanes: where ids are taken from.
 *
 * A lane is a 64-bit word of shared memory that holds the tick and the
 * sequence of the last id made on it, or a later one.  All databases share the
 * lanes.  An id is made by moving the word ahead with one compare-and-swap:
 *
 *		Invariant 1.  The word of a lane only grows, and every id takes a word
 *		of its own.  So no two ids have the same lane, tick and sequence.
 *
 *		Invariant 2.  The ids of a session increase: it keeps its lane, and
 *		goes on in the next tick when its worker id changes.
 *
 * A session keeps a window: a tick of its lane to take ids from.  It depends
 * on the worker id, the lease, and the limit of the database.  A session sees
 * by itself that the limit was moved, or the settings changed, and a renewed
 * lease leaves open windows valid.  All other changes are counted, and every
 * window records the count:
 *
 *		Invariant 3.  Once LaneEndChange() has returned, no session can take
 *		an id from a window opened before LaneBeginChange().
 *
 * A change is counted before it is made, so that no id is made from half of
 * it.  After the change, the word of every lane is moved ahead by one.  A
 * session that has read a word before that fails to swap it, and looks again;
 * see LaneTake().
 *
 * Note about locking issues: words and count are atomics.  The lock is held
 * during a change, which must therefore neither wait nor throw an error.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"

#include "snowflake.h"

/* How many lanes a layout has. */
int
LaneCount(const Layout *layout)
{
	int64		lanes = LayoutLargest(layout, FIELD_LANE) + 1;

	return Min(lanes, MAX_LANES);
}

/* No overflow: lanes, sequence and second take at most 6, 31 and 20 bits. */
int64
LaneIdsPerSecond(const Layout *layout)
{
	return LaneCount(layout) * (LayoutLargest(layout, FIELD_SEQUENCE) + 1) *
		USECS_PER_SEC / layout->tick;
}

/*
 * The lane of this session.  The low bits of PIDs would not do: where clients
 * run on the server's machine, sessions get every other PID.
 */
int
LaneMine(const Layout *layout)
{
	return hash_bytes_uint32(MyProcPid) & (LaneCount(layout) - 1);
}

/* The first tick in which a lane has ids. */
int64
LaneNextTick(const Layout *layout, int lane)
{
	uint64		next = pg_atomic_read_u64(&shared->lanes[lane].word) + 1;

	return (int64) (next >> layout->bits[FIELD_SEQUENCE]);
}

/* The furthest tick that any id made so far can be in. */
int64
LaneLastTick(const Layout *layout)
{
	uint64		furthest = 0;

	for (int i = 0; i < MAX_LANES; i++)
	{
		uint64		word = pg_atomic_read_u64(&shared->lanes[i].word);

		furthest = Max(furthest, word);
	}
	return (int64) (furthest >> layout->bits[FIELD_SEQUENCE]);
}

/* Begin to change something that windows depend on. */
void
LaneBeginChange(void)
{
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);

	/* a full barrier, see LaneTake() */
	pg_atomic_fetch_add_u32(&shared->changes, 1);
}

/*
 * Close all windows, after the change was made.  Moving a word is a full
 * barrier, too.
 */
void
LaneEndChange(void)
{
	/* invariant 3: nobody has seen half of the change */
	Assert(LWLockHeldByMeInMode(&shared->lock, LW_EXCLUSIVE));
	for (int i = 0; i < MAX_LANES; i++)
		pg_atomic_fetch_add_u64(&shared->lanes[i].word, 1);
	LWLockRelease(&shared->lock);
}
