/*-------------------------------------------------------------------------
 *
 * limit.c
 *	  Limit and floor of a database's ids.
 *
 * The limit of a database is the first tick in which no id may be made yet, and
 * its floor is where ids were when the limit was moved.  They are in the slot
 * of the database in shared memory, see slot.c:
 *
 *		Invariant 4.  No id is in a tick at the limit or later.  The mark
 *		covers all ids before the limit, and was flushed before the limit was
 *		moved there.
 *
 *		Invariant 5.  No window is opened in a tick below the floor that goes
 *		with its limit.  After a start the first limit comes with a floor above
 *		everything that the mark covered, so no tick from before the start is
 *		used again, even if the clock was set back.  The floor also keeps a
 *		lane that was idle from falling behind the others.
 *
 * The limit moves ahead by a reservation at a time, about once a second.  The
 * session that first notices that half of the reservation is used moves it.
 * The floor is raised before the mark is written, and the limit after the mark
 * was flushed; sessions read the two in the opposite order.  So a session that
 * sees a new limit also sees its floor.
 *
 * "written" is the last bound that this server wrote to the pages, 0 after a
 * start, or after the slot was cleared.  Any other bound found there was
 * written before that, or came with a template, or with another database that
 * had our OID: ids begin above it.  Each attempt to move the limit reads it
 * again, until one succeeds.
 *
 * A mark above the guard was set by SQL.  Ids are above it from the next move
 * of the limit on.  If it is too far ahead of the clock, the limit is not
 * moved, and calls wait or fail.
 *
 * Note about locking issues: floor, closed, written and changed of a slot
 * change under the content locks of the mark's pages, which are taken before
 * the shared lock.  The limit is raised after these are released, under the
 * shared lock, because a flush must not hold up the pages.  SlotEnter() clears
 * a slot without sessions under the shared lock alone, and SlotForget() ours
 * while nobody else can move the mark.  "moved_at" has no lock: it only serves
 * to choose a reservation.
 *
 * snowflake/src/limit.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"

#include "clock.h"
#include "lane.h"
#include "limit.h"
#include "origin.h"
#include "settings.h"
#include "slot.h"

/* How far the limit is moved, in us of id time, unless a tick is longer. */
#define RESERVATION		(2 * USECS_PER_SEC)
/* How many ms to sleep while another session moves the limit. */
#define SLEEP_FOR_LIMIT	10


/*
 * The bound to write for a limit at this tick: one below the worker's smallest
 * id in the tick.  It covers all ids before the limit, and the id above it
 * shows a reset which worker wrote it.
 */
int64
LimitMarkBelow(const Layout *layout, const Worker *worker, uint64 tick)
{
	if (tick > (uint64) layout->last_tick)
		return LayoutLargestId(layout);
	return ((int64) (tick << layout->shift[FIELD_TIME]) | worker->bits) - 1;
}

/* The first tick whose ids are all above an id; 0 if there is none. */
uint64
LimitTickAbove(const Layout *layout, int64 id)
{
	return id == 0 ? 0 : ((uint64) id >> layout->shift[FIELD_TIME]) + 1;
}

/* By how many ticks the limit is moved, unless ids outrun the clock. */
uint64
LimitReservation(const Layout *layout)
{
	return Max(RESERVATION / layout->tick, 1);
}

/* How many ticks ids may be ahead of the clock. */
uint64
LimitAhead(const Layout *layout)
{
	return setting_max_ahead < 0 ? PG_INT64_MAX / 2 :
		setting_max_ahead * INT64CONST(1000) / layout->tick;
}

/*
 * The first tick that a worker may use after another one reset the mark.  A
 * lease has a start of its own.
 */
uint64
LimitTickOf(const Layout *layout, const Worker *worker, const Guard *guard)
{
	if (worker->leased || worker->pair == guard->exempt)
		return 0;
	return LimitTickAbove(layout, guard->others);
}

/*
 * Read the pages when a session begins or something has changed.  Sets *start
 * to the first tick that the worker may use.  False if the pages are locked.
 */
bool
LimitReadPages(const Layout *layout, const Worker *worker, uint64 *start)
{
	Mark		mark;

	SlotEnter();
	if (!MarkLook(&mark, MARK_READ))
		return false;
	*start = Max(worker->start, LimitTickOf(layout, worker, &mark.guard));
	return true;
}

/*
 * Read the limit first: with a new limit and an old floor, a session could
 * make ids in ticks that were used before the last start.  Pairs with
 * LimitMove().
 */
void
LimitGet(uint64 *limit, uint64 *floor)
{
	*limit = pg_atomic_read_u64(&my_slot->limit);
	pg_read_barrier();
	*floor = pg_atomic_read_u64(&my_slot->floor);
}

/* Whether it is time to move the limit: half of the reservation is used. */
bool
LimitIsNear(uint64 tick)
{
	uint64		limit;
	uint64		floor;

	LimitGet(&limit, &floor);
	return tick < limit && tick >= floor && tick - floor >= limit - 1 - tick;
}

/*
 * The furthest tick that SQL may set the mark to, or advance ids to.  Without
 * this bound, one database could carry the others along.  Sessions that take
 * many ids can be ahead of the clock by half of max_ahead, see look()
 * in generator.c; beyond that, the lanes would have no room for them.  If
 * max_ahead gives no bound, it is the furthest tick that ids have reached.
 */
uint64
LimitFarthest(const Layout *layout, uint64 now_tick)
{
	if (setting_max_ahead < 0)
		return Max(now_tick, LaneFurthestTick(layout));
	return now_tick + LimitAhead(layout) / 2;
}

/*
 * The first tick above a value in the pages; 0 if this server knows that it
 * has written it.  Sets *ahead to how far it can be ahead of the clock.
 */
uint64
LimitTickFound(const Layout *layout, const Mark *mark, uint64 now_tick,
			   uint64 *ahead)
{
	if (mark->value > mark->guard.bound)
	{
		*ahead = LimitFarthest(layout, now_tick) - now_tick;
		return LimitTickAbove(layout, mark->value);
	}

	/*
	 * A bound from before the start can be as far ahead as ids.  But the
	 * owner of a database can have its bound found again and again, by ALTER
	 * DATABASE for example, and each time ids begin a reservation further on.
	 */
	*ahead = LimitAhead(layout) / (my_slot->changed ? 2 : 1);
	if (mark->guard.bound != my_slot->written)
		return LimitTickAbove(layout, mark->guard.bound);
	return 0;
}

/* Whether a tick that was found is too far ahead of the clock for ids. */
bool
LimitTickIsFar(const Layout *layout, uint64 tick, uint64 now_tick, uint64 ahead)
{
	return tick > Min(now_tick + ahead, (uint64) layout->last_tick);
}

/*
 * Open the mark to move the limit beyond a tick.  A session that needs the
 * move now, and finds another session at it, sleeps until that is done.  It
 * queues up for the lock only if that takes long, because the lock wakes one
 * session at a time, and the condition variable all of them.
 */
static MarkOpenResult
open_to_move(Mark *mark, uint64 tick, bool must)
{
	MarkOpenResult result;

	if (!must)
		return MarkOpen(mark, MARK_TRY);

	ConditionVariablePrepareToSleep(&shared->limit_moved);
	result = MarkOpen(mark, MARK_TRY);
	if (result == MARK_BUSY)
		ConditionVariableTimedSleep(&shared->limit_moved, SLEEP_FOR_LIMIT,
									ClockWaitEvent(WAIT_MARK));
	ConditionVariableCancelSleep();
	if (result == MARK_BUSY && tick >= pg_atomic_read_u64(&my_slot->limit))
		result = MarkOpen(mark, MARK_WAIT);
	return result;
}

/* By how many ticks to move the limit of our slot. */
static uint64
next_reservation(const Layout *layout)
{
	uint64		limit = pg_atomic_read_u64(&my_slot->limit);
	uint64		floor = pg_atomic_read_u64(&my_slot->floor);
	uint64		reservation = limit > floor ? limit - floor : 0;
	int64		elapsed;

	/*
	 * If max_ahead is -1, ids may run ahead of the clock as fast as they are
	 * made.  Adapt to that, so that the limit is moved about once a second.
	 */
	if (setting_max_ahead >= 0)
		return LimitReservation(layout);
	elapsed = ClockReference() - my_slot->moved_at;
	if (elapsed < USECS_PER_SEC / 2)
		reservation *= 2;
	else if (elapsed > 2 * USECS_PER_SEC)
		reservation /= 2;
	return Max(reservation, LimitReservation(layout));
}

/*
 * Move the limit a reservation ahead of a tick.  If that "must" be done now,
 * the tick is at or beyond the limit; otherwise half of the reservation is
 * used.
 *
 * Once we have the mark, we look at everything again, because others may have
 * moved the limit or reset the mark meanwhile.  If the mark turns out to be
 * too far ahead of the clock, nothing is moved, *mark_tick is the first tick
 * above it, and *mark_ahead is how far that can be ahead.
 */
LimitResult
LimitMove(const Layout *layout, const Worker *worker, uint32 version,
		  uint64 tick, bool must, uint64 *mark_tick, uint64 *mark_ahead)
{
	Mark		mark;
	uint64		now_tick;
	uint64		found_tick;
	uint64		found_ahead;
	bool		was_lowered;
	bool		is_strange;
	uint64		limit;
	XLogRecPtr	lsn;
	int64		begin;

	switch (open_to_move(&mark, tick, must))
	{
		case MARK_OPENED:
			break;
		case MARK_BUSY:
			return LIMIT_BUSY;
		default:
			return LIMIT_LOCKED;
	}
	MarkCheckStays(&mark);
	now_tick = ClockTick(layout, ClockLook());
	if (version != pg_atomic_read_u32(&shared->version) ||
		tick > now_tick + LimitAhead(layout) ||
		!(must ? tick >= pg_atomic_read_u64(&my_slot->limit) : LimitIsNear(tick)))
	{
		MarkClose(&mark);
		return LIMIT_MOVED;
	}

	MarkLockPages(&mark);
	found_tick = LimitTickFound(layout, &mark, now_tick, &found_ahead);
	if (LimitTickIsFar(layout, found_tick, now_tick, found_ahead))
	{
		MarkLeave(&mark);
		*mark_tick = found_tick;
		*mark_ahead = found_ahead;
		return LIMIT_IS_FAR;
	}
	was_lowered = mark.value < mark.guard.bound;
	is_strange = my_slot->written == 0 || mark.value != my_slot->written;
	/* a clock that jumps after the look must not take the mark along */
	tick = Max(tick, Max(found_tick, Min(now_tick, WorkerLeaseEnd(worker))));
	limit = Min(tick + next_reservation(layout), (uint64) layout->last_tick) + 1;

	/* the floor before the limit, see LimitGet(); writing WAL is a barrier */
	if (pg_atomic_read_u64(&my_slot->floor) < tick)
		pg_atomic_write_u64(&my_slot->floor, tick);
	mark.guard.bound = Max(LimitMarkBelow(layout, worker, limit), mark.guard.bound);
	my_slot->written = mark.guard.bound;
	begin = ClockReference();
	lsn = MarkWritePages(&mark);

	/*
	 * If this is canceled, the limit stays.  The bound on the pages and the
	 * floor are higher than needed, which is safe; the next move keeps them.
	 */
	if (!MarkFlush(lsn, false))
	{
		MarkClose(&mark);
		CHECK_FOR_INTERRUPTS();
		return LIMIT_MOVED;
	}

	/* another process of our parallel group may have raised it further */
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u64(&my_slot->limit) < limit)
		pg_atomic_write_u64(&my_slot->limit, limit);
	LWLockRelease(&shared->lock);
	my_slot->moved_at = ClockReference();
	MarkClose(&mark);
	ConditionVariableBroadcast(&shared->limit_moved);

	StatsAdd(STATS_MARK_EXTENSIONS, 1);
	StatsAdd(STATS_MARK_FLUSH_TIME, ClockReference() - begin);
	if (was_lowered)
		ereport(LOG_SERVER_ONLY,
				(errmsg("sequence \"snowflake_internal.mark\" was set below the snowflake ids that have been made"),
				 errdetail("It has been corrected.")));
	if (is_strange)
		OriginCheck(worker->leased);
	return LIMIT_MOVED;
}

/*
 * Read the mark, and where this worker's ids can begin, without waiting.
 * False if the mark does not exist, is locked, or is of the wrong kind.
 */
bool
LimitPeek(const Layout *layout, const Worker *worker, int64 *value,
		  uint64 *start)
{
	Mark		mark;

	if (!MarkLook(&mark, MARK_PEEK))
		return false;
	*value = Max(mark.value, mark.guard.bound);
	*start = layout == NULL ? 0 : LimitTickOf(layout, worker, &mark.guard);
	return true;
}
