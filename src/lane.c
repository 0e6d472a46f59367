/*-------------------------------------------------------------------------
 *
 * lane.c
 *	  Lanes: where ids are taken from.
 *
 * A lane is a 64-bit word of shared memory that holds the tick and the
 * sequence of the last id made on it.  An id is made by moving the word ahead
 * with one compare-and-swap:
 *
 *		Invariant 1.  The word of a lane only grows, and every id takes a word
 *		of its own.  So no two ids have the same lane, tick and sequence.
 *
 *		Invariant 2.  The ids of a session increase.  On one lane, invariant 1
 *		ensures that.  A session changes to another lane only in a later tick
 *		than that of its last id or, if the lane field is more significant
 *		than the sequence, in the same tick to a lane with a higher number.
 *
 * A session keeps a window: a lane and a tick to take ids from.  It depends on
 * the worker id, the lease, and the limit of the database.  A session sees by
 * itself that the limit was moved, or the settings changed, and a renewed lease
 * leaves open windows valid.  All other changes raise one version, which every
 * window records:
 *
 *		Invariant 3.  Once LaneEndChange() has returned, no session can take
 *		an id from a window opened before LaneBeginChange().
 *
 * The version is raised before the change, so that no id is made from half of
 * it.  After the change, the word of every lane is moved ahead by one.  A
 * session that has read a word before that fails to swap it, and looks again;
 * see LaneTake().
 *
 * Note about locking issues: words and version are atomics.  The lock guards
 * how many sessions a lane is home to, and is held during a change, which must
 * therefore neither wait nor throw an error.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"

#include "lane.h"

/* How this session uses lanes. */
static int	home = -1;			/* -1: not counted in any lane */
static int	first_lane;
static int	end_lane;
static bool spills;				/* the lane outranks the sequence */
static int	sequence_bits;
static uint64 sequence_mask;

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

static void
leave_home(int code, Datum arg)
{
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	shared->lanes[home].sessions--;
	LWLockRelease(&shared->lock);
	home = -1;
}

/*
 * Choose a home lane: the one that the low bits of the PID select or, if it is
 * not home to the fewest sessions, one that is.
 */
void
LaneEnter(const Layout *layout)
{
	int			num_lanes = LaneCount(layout);
	int			lane = MyProcPid & (num_lanes - 1);

	if (home >= 0)
		return;

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < num_lanes; i++)
	{
		if (shared->lanes[i].sessions < shared->lanes[lane].sessions)
			lane = i;
	}
	shared->lanes[lane].sessions++;
	LWLockRelease(&shared->lock);

	home = lane;
	sequence_bits = layout->bits[FIELD_SEQUENCE];
	sequence_mask = LayoutLargest(layout, FIELD_SEQUENCE);
	spills = sequence_bits == 0 ||
		layout->shift[FIELD_LANE] > layout->shift[FIELD_SEQUENCE];
	first_lane = spills ? 0 : home;
	end_lane = spills ? num_lanes : home + 1;
	/* not on_shmem_exit(): dynamic shared memory is gone by then */
	before_shmem_exit(leave_home, (Datum) 0);
}

/* How many lanes this session can take ids from. */
int
LaneReach(void)
{
	return end_lane - first_lane;
}

/* The highest sequence that a greedy session takes: it leaves an eighth. */
uint64
LaneGreedyLast(uint64 mask)
{
	return mask - (mask + 1) / 8;
}

/*
 * The first tick, not before "from", in which the lane has an id for this
 * session.  Sets *used if ids of that tick have been taken already.
 */
static uint64
first_tick(int lane, uint64 from, uint64 last_sequence, bool *used)
{
	uint64		next = pg_atomic_read_u64(&shared->lanes[lane].word) + 1;
	uint64		tick = next >> sequence_bits;

	if ((next & sequence_mask) > last_sequence)
		tick++;
	*used = tick >= from && (next & sequence_mask) != 0 &&
		(next & sequence_mask) <= last_sequence;
	return Max(tick, from);
}

/*
 * Choose where the next ids come from: the first tick, not before "from", in
 * which a lane has ids.  Prefer the home lane, or the lane of the last id
 * while its tick lasts, unless another lane has ids earlier.  Among others,
 * prefer one that is unused in that tick, so that sessions keep out of each
 * other's way.  A session that has filled a lane begins the next tick at the
 * lowest lane, so that it can use all of them.
 *
 * "last_word" is the word of the session's last id, 0 if there is none; it
 * serves to keep invariant 2.
 */
LaneSpot
LaneChoose(uint64 from, uint64 last_word, int last_lane, bool greedy,
		   bool filled)
{
	uint64		last_tick = last_word >> sequence_bits;
	uint64		last_sequence = greedy ? LaneGreedyLast(sequence_mask) : sequence_mask;
	bool		goes_on = last_word != 0 && from <= last_tick;
	int			preferred = goes_on ? last_lane : home;
	LaneSpot	best = {.lane = preferred,.tick = PG_UINT64_MAX};
	bool		best_used = true;
	bool		used;

	if (goes_on)
		from = last_tick;
	if (goes_on || !(filled && from == last_tick + 1))
	{
		best.tick = first_tick(preferred, from, last_sequence, &best_used);
		if (best.tick == from)
			return best;
		/* it has filled this lane, and begins the next tick at the lowest */
		if (goes_on)
			best.tick = PG_UINT64_MAX;
	}
	for (int i = first_lane; i < end_lane; i++)
	{
		uint64		tick = first_tick(i, goes_on && i <= last_lane && i != preferred ? from + 1 : from,
									  last_sequence, &used);

		if (tick < best.tick ||
			(tick == best.tick && best_used && !used))
		{
			best.lane = i;
			best.tick = tick;
			best_used = used;
		}
	}
	return best;
}

/* The furthest tick that any id made so far can be in. */
uint64
LaneLastTick(const Layout *layout)
{
	uint64		furthest = 0;

	for (int i = 0; i < MAX_LANES; i++)
	{
		uint64		word = pg_atomic_read_u64(&shared->lanes[i].word);

		furthest = Max(furthest, word);
	}
	return furthest >> layout->bits[FIELD_SEQUENCE];
}

/* How many lanes are homes, and to how many sessions. */
void
LaneGetUse(int *lanes, int *sessions)
{
	*lanes = *sessions = 0;
	LWLockAcquire(&shared->lock, LW_SHARED);
	for (int i = 0; i < MAX_LANES; i++)
	{
		*sessions += shared->lanes[i].sessions;
		*lanes += shared->lanes[i].sessions > 0;
	}
	LWLockRelease(&shared->lock);
}

/* Begin to change something that windows depend on. */
void
LaneBeginChange(void)
{
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);

	/*
	 * A full barrier, which pairs with LaneTake(): a session that sees the
	 * change, or a moved word, sees the new version.
	 */
	pg_atomic_fetch_add_u32(&shared->version, 1);
}

/*
 * Close all windows, after the change was made.  Moving a word is a full
 * barrier, too: a session that sees a moved word sees the change.
 */
void
LaneEndChange(void)
{
	for (int i = 0; i < MAX_LANES; i++)
		pg_atomic_fetch_add_u64(&shared->lanes[i].word, 1);
	LWLockRelease(&shared->lock);
}
