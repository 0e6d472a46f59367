/*-------------------------------------------------------------------------
 *
 * limit.c
 *	  Limit and floor of a database's ids.
 *
 * The limit of a database is the first tick in which no id may be made yet.  Its
 * floor, a reservation of two seconds below that, is where ids were when the
 * limit was moved.
 *
 *		Invariant 4.  No id is in a tick at the limit or later.  The mark
 *		covers all ids before the limit, and was flushed before the limit was
 *		moved there.
 *
 *		Invariant 5.  No window is opened in a tick below the floor, and none
 *		is used under another limit than that it was opened under.  So ids are
 *		in the order of calls to within a reservation, and no tick from before
 *		a start is used again, even if the clock was set back: the first limit
 *		comes with a floor above everything that the mark covered.
 *
 * The session that first notices that half of the reservation is used moves the
 * limit.  An advance is a move as well: it makes a given tick the floor.
 *
 * "reserved" is the limit for which this server wrote the pages last, 0 after a
 * start, or after the slot was cleared.  If that move was canceled, the next one
 * goes on from its floor.  A bound that does not belong to it was written before
 * the start, or came with a template, or with another database that had our
 * OID: ids begin above it.
 *
 * A mark above the guard was set by SQL.  Ids are above it from the next move
 * of the limit on.  If it is too far ahead of the clock, the limit is not
 * moved, and calls wait or fail.
 *
 * Note about locking issues: reserved and can_recur of a slot change under the
 * content locks of the mark's pages, which are taken before the shared lock.
 * The limit is raised after these are released, under the shared lock, because
 * a flush must not hold up the pages.  SlotEnter() clears a slot without
 * sessions under the shared lock alone, and SlotForget() ours while nobody else
 * can move the mark.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"

#include "clock.h"
#include "lane.h"
#include "limit.h"
#include "settings.h"
#include "slot.h"

/* How far the limit is moved, in us of id time, unless a tick is longer. */
#define RESERVATION		(2 * USECS_PER_SEC)
/* How many ms to sleep while another session moves the limit. */
#define SLEEP_FOR_LIMIT	10

/* The bound to write for a limit at this tick: the largest id before it. */
int64
LimitBoundBelow(const Layout *layout, uint64 tick)
{
	if (tick > (uint64) layout->last_tick)
		return LayoutLargestId(layout);
	return (int64) (tick << layout->shift[FIELD_TIME]) - 1;
}

/* The first tick whose ids are all above an id; 0 if there is none. */
uint64
LimitFirstTickAbove(const Layout *layout, int64 id)
{
	return id == 0 ? 0 : ((uint64) id >> layout->shift[FIELD_TIME]) + 1;
}

/* By how many ticks the limit is moved. */
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

/* Whether the last ids were made in another layout; 0 tells of none. */
bool
LimitIsOfOtherLayout(const Layout *layout, const Guard *guard)
{
	return guard->layout != layout->hash && guard->layout != 0;
}

/* The floor that goes with a limit. */
uint64
LimitFloor(const Layout *layout, uint64 limit)
{
	return limit == 0 ? 0 : limit - 1 - LimitReservation(layout);
}

/* Whether it is time to move the limit. */
bool
LimitHalfUsed(const Layout *layout, uint64 tick)
{
	uint64		limit = pg_atomic_read_u64(&my_slot->limit);
	uint64		floor = LimitFloor(layout, limit);

	return tick < limit && tick >= floor && tick - floor >= limit - 1 - tick;
}

/*
 * The furthest tick that SQL may set the mark to, or advance ids to.  Without
 * this bound, one database could carry the others along.  Beyond half of
 * max_ahead, sessions that take many ids would have no room.  If max_ahead gives
 * no bound, it is the furthest tick that ids have reached.
 */
uint64
LimitMaxAdvance(const Layout *layout, uint64 now_tick)
{
	uint64		reached;

	if (setting_max_ahead >= 0)
		return now_tick + LimitAhead(layout) / 2;
	reached = LaneLastTick(layout);
	return Max(now_tick, reached);
}

/* Find out what is in the pages that this server has not written. */
void
LimitCheckFound(const Layout *layout, const Mark *mark, uint64 now_tick,
				FoundMark *found)
{
	uint64		farthest;

	found->tick = 0;
	if (mark->value > mark->guard.bound)
	{
		found->tick = LimitFirstTickAbove(layout, mark->value);
		found->ahead = LimitMaxAdvance(layout, now_tick) - now_tick;
	}
	else
	{
		if (mark->guard.bound != LimitBoundBelow(layout, my_slot->reserved))
			found->tick = LimitFirstTickAbove(layout, mark->guard.bound);

		/*
		 * A bound from before the start can be as far ahead as ids.  But each
		 * time that the owner of a database has it found again, by ALTER
		 * DATABASE for example, ids begin a reservation further on.
		 */
		found->ahead = LimitAhead(layout) / (my_slot->can_recur ? 2 : 1);
	}
	found->other_layout = LimitIsOfOtherLayout(layout, &mark->guard);
	farthest = now_tick + found->ahead;
	found->is_far = found->tick > Min(farthest, (uint64) layout->last_tick);
}

/* Wait for a transaction that changes or drops a relation of the mark. */
void
LimitWaitForMark(CallWaits *waits)
{
	if (!ClockKeepWaiting(0, WAIT_MARK, 0, waits))
		MarkThrowLocked();
}

/*
 * Open the mark for writing.  If another session writes it, and we "must" have
 * it, sleep until that is done: the lock would wake one session at a time, but
 * the condition variable wakes all of them.
 */
MarkOpenResult
LimitOpenMark(Mark *mark, MarkMode mode, bool must)
{
	MarkOpenResult result;

	if (!must)
		return MarkOpen(mark, mode);

	ConditionVariablePrepareToSleep(&shared->limit_moved);
	result = MarkOpen(mark, mode);
	if (result == MARK_BUSY)
		ConditionVariableTimedSleep(&shared->limit_moved, SLEEP_FOR_LIMIT,
									compat_wait_event(WAIT_MARK));
	ConditionVariableCancelSleep();
	return result;
}

/* The system identifier of another server that a mark comes from, or 0. */
uint64
LimitOtherSystem(const Guard *guard)
{
	uint64		system = (uint64) guard->system;

	return system == GetSystemIdentifier() ? 0 : system;
}

/* A copy of a server, as by pg_createsubscriber, has the same worker id. */
static void
report_other_system(uint64 system, bool leased)
{
	pg_atomic_write_u64(&shared->other_system, system);
	if (!leased)
		ereport(LOG_SERVER_ONLY,
				(errmsg("snowflake mark of database \"%s\" comes from another server",
						get_database_name(MyDatabaseId)),
				 errdetail("The system identifier of the mark is " UINT64_FORMAT ", and that of this server is " UINT64_FORMAT ": the server was copied or upgraded.",
						   system, GetSystemIdentifier()),
				 errhint("If the other server also makes ids, set \"snowflake.worker_id\" here to one that no other server has.")));
}

/* What there is to say about a move, once nothing is locked. */
typedef struct MoveReport
{
	bool		interrupted;	/* see MarkFlush() */
	bool		damaged;
	bool		was_lowered;	/* SQL had set the mark below the guard */
	uint64		other_system;	/* the server that the mark comes from, or 0 */
} MoveReport;

/*
 * Move the limit, having opened the mark.  Others may have moved it meanwhile,
 * so look at everything again but the clock: a time that is a bit old only
 * makes the move shorter.
 */
static LimitResult
limit_move(Mark *mark, const Layout *layout, const Worker *worker, uint64 tick,
		   LimitReason reason, uint64 now_tick, FoundMark *found,
		   MoveReport *report)
{
	uint64		lease_end = WorkerLeaseEnd(worker);
	uint64		limit = pg_atomic_read_u64(&my_slot->limit);
	uint64		reserved_floor;
	int64		begin;
	XLogRecPtr	lsn;

	if (worker->version != pg_atomic_read_u32(&shared->version))
		return LIMIT_LOOK_AGAIN;
	if (reason == LIMIT_ADVANCE ? tick <= LimitFloor(layout, limit) :
		tick > now_tick + LimitAhead(layout) ||
		!(reason == LIMIT_REACHED ? tick >= limit : LimitHalfUsed(layout, tick)))
		return LIMIT_LOOK_AGAIN;
	report->damaged = !MarkLockPages(mark);
	if (report->damaged)
		return LIMIT_LOOK_AGAIN;

	LimitCheckFound(layout, mark, now_tick, found);
	if (found->is_far)
	{
		MarkUnlockPages(mark);
		return LIMIT_IS_FAR;
	}
	report->was_lowered = mark->value < mark->guard.bound;
	report->other_system = LimitOtherSystem(&mark->guard);
	mark->guard.system = (int64) GetSystemIdentifier();
	/* a clock that jumps after the look must not take the mark along */
	now_tick = Min(now_tick, lease_end);
	tick = Max(Max(tick, now_tick), found->tick);
	/* another process of our parallel group may be about to raise the limit */
	reserved_floor = LimitFloor(layout, my_slot->reserved);
	tick = Max(tick, reserved_floor);

	limit = tick + LimitReservation(layout) + 1;
	Assert(limit >= my_slot->reserved &&
		   LimitBoundBelow(layout, limit) >= mark->guard.bound);
	my_slot->reserved = limit;
	mark->guard.bound = LimitBoundBelow(layout, limit);
	mark->guard.layout = layout->hash;
	begin = ClockReference();
	lsn = MarkWritePages(mark);

	/* if this is interrupted, the limit stays */
	report->interrupted = !MarkFlush(lsn);
	if (report->interrupted)
		return LIMIT_LOOK_AGAIN;
	StatsAdd(STATS_MARK_EXTENSIONS, 1);
	StatsAdd(STATS_MARK_FLUSH_TIME, ClockReference() - begin);

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u64(&my_slot->limit) < limit)
		pg_atomic_write_u64(&my_slot->limit, limit);
	LWLockRelease(&shared->lock);
	return LIMIT_LOOK_AGAIN;
}

/*
 * Move the limit a reservation ahead of a tick, which becomes the floor unless
 * ids are further ahead.
 */
LimitResult
LimitMove(const Layout *layout, const Worker *worker, uint64 tick,
		  LimitReason reason, FoundMark *found)
{
	Mark		mark;
	MoveReport	report = {0};
	MarkOpenResult opened;
	LimitResult result;
	ClockSight	sight = ClockLook();
	int64		now_tick;

	ClockCheck(&sight);
	/* if the layout has no tick for it, the caller finds that, too */
	if (!LayoutTimeToTick(layout, sight.time, &now_tick))
		return LIMIT_LOOK_AGAIN;

	opened = LimitOpenMark(&mark, MARK_WRITE, reason != LIMIT_EARLY);
	if (opened != MARK_OPENED)
		return opened == MARK_BUSY ? LIMIT_LOOK_AGAIN : LIMIT_LOCKED;
	result = limit_move(&mark, layout, worker, tick, reason, now_tick, found,
						&report);
	MarkClose(&mark);
	ConditionVariableBroadcast(&shared->limit_moved);

	if (report.damaged)
		MarkThrowDamaged();
	if (report.was_lowered)
		ereport(LOG_SERVER_ONLY,
				(errmsg("sequence \"snowflake_internal.mark\" was set below the snowflake ids that have been made"),
				 errdetail("It has been corrected.")));
	if (report.other_system != 0)
		report_other_system(report.other_system, worker->leased);
	if (report.interrupted)
		(void) MarkNoticeReload();
	return result;
}
