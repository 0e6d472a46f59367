/*-------------------------------------------------------------------------
 *
 * limit.c
 *	  Limit and floor of a database's ids.
 *
 * The limit of a database is the first tick in which no id may be made yet.
 * Its floor, a reservation of two seconds below that, is where ids were when
 * the limit was moved.
 *
 *		Invariant 4.  No id is in a tick at the limit or later.  The mark
 *		covers all ids before the limit, and was flushed before the limit was
 *		moved there; for statements that begin after synchronous standbys were
 *		named, by these as well.
 *
 *		Invariant 5.  No window is opened in a tick below the floor, and no
 *		call that begins after the limit was moved uses one that was opened
 *		before.  So ids are in the order of calls to within a reservation, and
 *		no tick from before a start is used again, even if the clock was set
 *		back: the first limit comes with a floor above everything that the
 *		mark covered.
 *
 * "reserved" is the limit for which this server wrote the pages last, 0 after
 * a start, or after the slot was cleared.  If that move was canceled, the next
 * one goes on from its floor.  A bound that does not belong to "reserved" was
 * written before the start, or came with a template: ids begin above it, and
 * the id clock goes on from the clock that the guard has.  It does not go on
 * from the bound, which is ahead of that by a reservation and more: restarts
 * in a row would carry it ahead.
 *
 * A mark above the guard was set by SQL.  Ids are above it from the next move
 * of the limit on, which the first session in the slot makes due.  If it, or a
 * bound, is too far ahead of the id clock, the limit is not moved, and calls
 * wait or fail.
 *
 * Note about locking issues: reserved changes under the content locks of the
 * mark's pages, which are taken before the shared lock.  The limit is raised
 * after these are released, under the shared lock, because a flush must not
 * hold up the pages.  SlotEnter() clears a slot without sessions under the
 * shared lock alone, and SlotForget() ours while nobody else can move the
 * mark.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "commands/dbcommands.h"
#include "utils/lsyscache.h"

#include "snowflake.h"

/* How far above a tick the limit is moved, in us of id time. */
#define RESERVATION		(2 * USECS_PER_SEC)
/* How many ms to sleep while another session moves the limit. */
#define SLEEP_FOR_LIMIT	10

/*
 * Instead of MarkStandbys(): the synchronous standbys have flushed the mark,
 * but by which names is not known, or none were named any more.
 */
#define SOME_STANDBYS	1

/*
 * Whoever has moved the limit to this one or a later one wrote the mark after
 * we had read our settings, or was ourselves.
 */
static int64 limit_since_reload = 0;

/* The first tick whose ids are all above an id; 0 if there is none. */
static int64
limit_first_tick_above(const Layout *layout, int64 id)
{
	return id == 0 ? 0 : (id >> layout->shift[FIELD_TIME]) + 1;
}

/*
 * Whether the lease does not go as far as the id clock.  Then ids go by the
 * believed clock instead, as the reading says from now on.  They may go back,
 * but not below the floor.
 */
bool
LimitFollowLease(const Layout *layout, int64 lease_end, ClockReading *reading)
{
	bool		is_beyond = LayoutTick(layout, reading->ids) >= lease_end;

	if (is_beyond)
		reading->ids = reading->time;
	return is_beyond;
}

/* A reservation, in ticks. */
int64
LimitReservation(const Layout *layout)
{
	return RESERVATION / layout->tick;
}

/* How many ticks ids may be ahead of the id clock. */
int64
LimitAhead(const Layout *layout)
{
	return setting_max_ahead < 0 ? PG_INT64_MAX / 2 :
		setting_max_ahead * INT64CONST(1000) / layout->tick;
}

/* The floor that goes with a limit. */
int64
LimitFloor(const Layout *layout, int64 limit)
{
	return limit == 0 ? 0 : limit - 1 - LimitReservation(layout);
}

/*
 * Whether the synchronous standbys, if any are named, have flushed the mark
 * for a limit that the caller has just read.  A process that may have had old
 * settings when it moved the limit has waited for those that were named then,
 * which will do if we had read our settings before it wrote the mark.
 */
bool
LimitIsCovered(int64 limit)
{
	uint64		standbys = MarkStandbys();
	uint64		flushed;

	/* pairs with limit_raise() */
	pg_read_barrier();
	flushed = pg_atomic_read_u64(&my_slot->standbys);
	return standbys == 0 || flushed == standbys ||
		(flushed != 0 && limit >= limit_since_reload);
}

/* Whether it is time to move the limit. */
bool
LimitHalfUsed(const Layout *layout, int64 tick)
{
	int64		limit = pg_atomic_read_u64(&my_slot->limit);
	int64		floor = LimitFloor(layout, limit);

	return tick < limit && tick - floor >= limit - 1 - tick;
}

/*
 * The last tick that SQL may set the mark to, or advance ids to: the later of
 * the tick that is half of max_ahead after the id clock, and the tick of the
 * last id, but at most max_ahead after the id clock.  If max_ahead is -1, no
 * tick after the id clock is half of it.  Without this, one database could
 * carry the others along.
 */
int64
LimitMaxAdvance(const Layout *layout, int64 ids_tick)
{
	int64		ahead = LimitAhead(layout);
	int64		reached = LaneLastTick(layout);

	return Max(ids_tick + (setting_max_ahead >= 0 ? ahead / 2 : 0),
			   Min(reached, ids_tick + ahead));
}

/*
 * Whether the bound on the pages, which the caller has locked, is the one that
 * this server wrote last.
 */
static bool
limit_has_written(const Layout *layout, const DatabaseSlot *slot,
				  const Guard *guard)
{
	return slot->reserved != 0 &&
		guard->bound == LayoutLastIdBefore(layout, slot->reserved) &&
		guard->database == MyDatabaseId;
}

/*
 * Enter the slot of our database.  If it does not belong to the pages, it may
 * be that of a database that is gone, and had our OID.  The id clock goes on
 * from what it was when a bound was written that we did not write.  False if
 * the mark is locked.
 */
bool
LimitEnter(const Layout *layout)
{
	Mark		mark;

	SlotEnter();
	if (MarkOpen(&mark, MARK_READ) != MARK_OPENED)
		return false;
	if (!MarkLockPages(&mark))
	{
		MarkClose(&mark);
		MarkReportDamaged();
	}
	/* a copy of a copy of our database may come with a mark of its own */
	if (!limit_has_written(layout, my_slot, &mark.guard) ||
		(mark.value > mark.guard.bound && SlotIsOurs()))
	{
		if (my_slot->reserved != 0)
			SlotForget();
		if (mark.guard.bound != 0)
			ClockRaiseIds(mark.guard.clock);
	}
	limit_since_reload = my_slot->reserved + 1;
	MarkUnlockPages(&mark);
	MarkClose(&mark);
	return true;
}

/*
 * Find out what is in the pages that this server has not written.  Any of it
 * may be ahead of the id clock by half of max_ahead: with each copy of a
 * database, or extension that is created again, ids begin a reservation
 * further on.
 */
void
LimitFind(const Layout *layout, const Mark *mark, bool has_written,
		  TimestampTz ids, FoundMark *found)
{
	int64		bound = mark->guard.bound;
	int64		ids_tick = LayoutTick(layout, ids);
	int64		most = ids_tick + LimitAhead(layout) / 2;

	found->tick = has_written ? 0 : limit_first_tick_above(layout, bound);
	if (mark->value > bound)
	{
		found->tick = limit_first_tick_above(layout, mark->value);
		most = LimitMaxAdvance(layout, ids_tick);
	}
	found->ahead = most - ids_tick;
	found->is_far = found->tick > 0 &&
		found->tick > Min(most, layout->last_tick);
}

/*
 * Read the mark, if that can be done now, and whether this server has written
 * what it holds.  "slot" is that of our database, or one that it can take; it
 * may change meanwhile, so this is for status only.
 */
bool
LimitPeek(const Layout *layout, const DatabaseSlot *slot, Mark *mark,
		  bool *has_written)
{
	bool		is_sound;

	if (MarkOpen(mark, MARK_PEEK) != MARK_OPENED)
		return false;
	is_sound = MarkLockPages(mark);
	if (is_sound)
	{
		*has_written = layout != NULL && slot != NULL &&
			slot->database == MyDatabaseId &&
			limit_has_written(layout, slot, &mark->guard) &&
			(mark->value <= mark->guard.bound || slot->sessions > 0);
		MarkUnlockPages(mark);
	}
	MarkClose(mark);
	return is_sound;
}

/* Report a mark that leaves no tick to the layout. */
void
LimitReportExhausted(const Layout *layout, int64 tick)
{
	ereport(ERROR,
			(StatsErrcode(ERRCODE_SNOWFLAKE_LAYOUT_EXHAUSTED),
			 errmsg("snowflake layout has no tick left above the mark"),
			 errdetail("At least the ids up to " INT64_FORMAT " are taken in this database, and the largest id of the layout \"%s\" is " INT64_FORMAT ".",
					   LayoutLastIdBefore(layout, tick),
					   LayoutToText(layout), LayoutLargestId(layout)),
			 errhint("%s", HINT_FAR_MARK)));
}

/*
 * Open the mark for writing.  If another session writes it, and we "must" have
 * it, sleep for a while, or until that is done: the lock would wake one
 * session at a time, but the condition variable wakes all of them.
 */
static MarkOpenResult
limit_open_mark(Mark *mark, bool must)
{
	MarkOpenResult result;

	if (!must)
		return MarkOpen(mark, MARK_WRITE);

	ConditionVariablePrepareToSleep(&shared->limit_moved);
	result = MarkOpen(mark, MARK_WRITE);
	if (result == MARK_BUSY)
		ConditionVariableTimedSleep(&shared->limit_moved, SLEEP_FOR_LIMIT,
									compat_wait_event(WAIT_MARK));
	ConditionVariableCancelSleep();
	return result;
}

/* Whether the limit still has to be moved. */
static bool
limit_is_due(const Layout *layout, int64 tick, LimitReason reason)
{
	int64		limit = pg_atomic_read_u64(&my_slot->limit);

	if (reason >= LIMIT_ADVANCE)
		return tick > LimitFloor(layout, limit);
	return reason == LIMIT_REACHED ?
		tick >= limit || !LimitIsCovered(limit) : LimitHalfUsed(layout, tick);
}

/*
 * Raise the limit, now that the mark for it is flushed, also by "standbys".  A
 * process that may have old settings must not vouch for their names: these may
 * have been changed, and changed back.
 */
static void
limit_raise(int64 limit, uint64 standbys)
{
	if (standbys != 0 && !MarkKnowsStandbys())
		standbys = SOME_STANDBYS;
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	if ((int64) pg_atomic_read_u64(&my_slot->limit) <= limit)
	{
		/* who sees the limit must not see standbys of an earlier one */
		pg_atomic_write_u64(&my_slot->standbys, standbys);
		pg_write_barrier();
		pg_atomic_write_u64(&my_slot->limit, limit);
	}
	LWLockRelease(&shared->lock);
	/* after a canceled move, the next one may reach the same limit */
	limit_since_reload = Min(limit_since_reload, limit);
}

/*
 * Move the limit, having opened the mark.  Others may have moved it meanwhile,
 * so look at everything again but the wall clock: a time that is a bit old
 * only makes the move shorter.
 */
static LimitResult
limit_move(Mark *mark, const Layout *layout, const Worker *worker, int64 tick,
		   LimitReason reason, const ClockReading *reading, FoundMark *found)
{
	int64		lease_end = WorkerLeaseEnd(worker);
	int64		limit;
	TimestampTz ids;
	TimestampTz paced = reading->time + reading->set_back;
	int64		ids_tick;
	int64		reserved_floor;
	int64		begin;
	uint64		standbys;
	XLogRecPtr	lsn;

	/* the look may be old, and others may have raised the id clock since */
	ids = ClockIds(reading->time);
	ids_tick = LayoutTick(layout, ids);
	/* beyond the lease, ids go by the believed clock */
	if (ids_tick >= lease_end)
		ids_tick = LayoutTick(layout, reading->time);

	if (worker->changes != pg_atomic_read_u32(&shared->changes) ||
		!limit_is_due(layout, tick, reason))
		return LIMIT_LOOK_AGAIN;
	/* a clock past the end of the layout must not leave a mark there */
	if (ids_tick > layout->last_tick)
		return LIMIT_ENDED;
	if (!MarkLockPages(mark))
		return LIMIT_DAMAGED;
	LimitFind(layout, mark, limit_has_written(layout, my_slot, &mark->guard),
			  ids, found);
	if ((found->is_far && reason != LIMIT_FORCE) ||
		found->tick > layout->last_tick)
	{
		MarkUnlockPages(mark);
		return LIMIT_IS_FAR;
	}
	/* nothing is refused any more */
	if (reason == LIMIT_FORCE)
	{
		TimestampTz forced = LayoutTickToTimeCapped(layout, tick);

		ClockRaiseIds(forced);
		ids = Max(ids, forced);
	}
	/* reserve no further than the lease, whatever the clock says */
	ids_tick = Min(ids_tick, lease_end);
	tick = Max(Max(tick, ids_tick), found->tick);
	/* another process of our parallel group may be about to raise the limit */
	reserved_floor = LimitFloor(layout, my_slot->reserved);
	tick = Max(tick, reserved_floor);

	limit = tick + LimitReservation(layout) + 1;
	Assert(limit >= my_slot->reserved &&
		   LayoutLastIdBefore(layout, limit) >= mark->guard.bound);
	my_slot->reserved = limit;
	begin = ClockReference();
	/* the guard goes by no max_set_back: it may be raised before a start */
	paced = Max(paced, ids);
	lsn = MarkWritePages(mark, LayoutLastIdBefore(layout, limit),
						 Max(mark->guard.clock, paced));
	/* after the write: see limit_since_reload */
	standbys = MarkStandbys();

	/* if this is canceled, the limit stays */
	if (!MarkFlush(lsn))
		return LIMIT_WRITTEN;
	StatsAdd(STATS_MARK_EXTENSIONS, 1);
	StatsAdd(STATS_MARK_FLUSH_TIME, ClockReference() - begin);

	limit_raise(limit, standbys);
	return LIMIT_WRITTEN;
}

/*
 * Move the limit a reservation ahead of a tick, which becomes the floor unless
 * the id clock, the mark or an earlier move is further ahead.
 */
LimitResult
LimitMove(const Layout *layout, const Worker *worker, int64 tick,
		  LimitReason reason, const ClockReading *reading, FoundMark *found)
{
	Mark		mark;
	MarkOpenResult opened;
	LimitResult result;

	opened = limit_open_mark(&mark, reason != LIMIT_EARLY);
	if (opened != MARK_OPENED)
		return opened == MARK_BUSY ? LIMIT_LOOK_AGAIN : LIMIT_LOCKED;
	result = limit_move(&mark, layout, worker, tick, reason, reading, found);
	MarkClose(&mark);
	ConditionVariableBroadcast(&shared->limit_moved);

	/* the mark still has what its pages held before */
	if (result == LIMIT_WRITTEN && mark.value < mark.guard.bound)
		ereport(LOG_SERVER_ONLY,
				(errmsg("sequence \"snowflake_internal.mark\" was set below the snowflake ids that have been made"),
				 errdetail("It has been corrected.")));
	/* a copy of a server, as by pg_createsubscriber, has the same worker id */
	if (result == LIMIT_WRITTEN && mark.guard.system != 0 &&
		mark.guard.system != (int64) GetSystemIdentifier() && !worker->leased)
		ereport(LOG_SERVER_ONLY,
				(errmsg("snowflake mark of database \"%s\" comes from another server",
						get_database_name(MyDatabaseId)),
				 errdetail("The system identifier of the mark is " UINT64_FORMAT ", and that of this server is " UINT64_FORMAT ": the server was copied or upgraded.",
						   (uint64) mark.guard.system, GetSystemIdentifier()),
				 errhint("If the other server also makes ids, set \"snowflake.worker_id\" here to one that no other server has.")));
	if (result == LIMIT_DAMAGED)
		MarkReportDamaged();
	if (result == LIMIT_ENDED && reason != LIMIT_EARLY)
		ClockReportExhausted(layout);
	if (result == LIMIT_IS_FAR && reason != LIMIT_EARLY &&
		found->tick > layout->last_tick)
		LimitReportExhausted(layout, found->tick);
	return result == LIMIT_WRITTEN ? LIMIT_LOOK_AGAIN : result;
}
