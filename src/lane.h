/*-------------------------------------------------------------------------
 *
 * lane.h
 *	  Lanes: where ids are taken from.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_LANE_H
#define SNOWFLAKE_LANE_H

#include "shared.h"

/* What a session takes ids from: a tick of its lane, or its beginning. */
typedef struct Window
{
	pg_atomic_uint64 *word;
	uint32		changes;		/* when the window was opened, see lane.c */
	uint64		first;			/* word of the tick's sequence 0 */
	uint64		initial;		/* word to take first if the tick is unused */
	uint64		last;			/* highest word to take */
} Window;

/*
 * Take "count" ids at once from the window, or as many as it has left.
 * Returns their number, and sets *last_word to the word of the last one.
 *
 * The barrier pairs with a change, which is counted before all else and moves
 * the words last, both by full barriers.  If we read the word after the move,
 * or the window was opened with anything that the change made, we see the new
 * count; otherwise the compare-and-swap fails, or came before the move.  Until
 * the words are moved, a take that has already compared the count can still
 * succeed.  t/world/model checks all of this.
 */
static inline int
LaneTake(const Window *window, int count, uint64 *last_word)
{
	uint64		old = pg_atomic_read_u64(window->word);
	uint64		word;
	uint64		last;
	bool		swapped;

	do
	{
		word = old < window->first ? window->initial : old + 1;
		pg_read_barrier();
		if (unlikely(word > window->last ||
					 window->changes != pg_atomic_read_u32(&shared->changes)))
			return 0;
		last = Min(word + (count - 1), window->last);
		swapped = pg_atomic_compare_exchange_u64(window->word, &old, last);
	} while (unlikely(!swapped));

	/* invariant 1 */
	Assert(last >= word && word > old);
	*last_word = last;
	return last - word + 1;
}

extern int	LaneCount(const Layout *layout);
extern int64 LaneIdsPerSecond(const Layout *layout);
extern int	LaneMine(const Layout *layout);
extern int64 LaneNextTick(const Layout *layout, int lane);
extern int64 LaneLastTick(const Layout *layout);
extern void LaneBeginChange(void);
extern void LaneEndChange(void);

#endif							/* SNOWFLAKE_LANE_H */
