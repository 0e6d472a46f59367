/*-------------------------------------------------------------------------
 *
 * worker.c
 *	  The worker id and its lease.
 *
 * The worker id comes from a setting, or is leased from a registry.  A lease
 * is a range of ticks, not a stretch of wall-clock time:
 *
 *		No id with a leased worker id is in a tick before the lease's start, or
 *		at its end or later.
 *
 * The registry grants no tick of a worker id twice, so nothing here has to
 * happen in time.  If an id is made late, under a lease whose worker id has
 * since gone to another server, it is still in a tick that the other server
 * cannot use.
 *
 * Worker id, start and end change together, which closes all windows.  A
 * renewal only moves the end, and closes none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"

#include "snowflake.h"

/* The worker id to use, and the count of changes that goes with it. */
void
WorkerGet(Worker *worker)
{
	/* if there is a change going on, this waits for its end */
	LWLockAcquire(&shared->lock, LW_SHARED);
	worker->changes = pg_atomic_read_u32(&shared->changes);
	worker->leased = SettingsRegistryIsUsed();
	worker->id = worker->leased ? shared->lease.worker_id : setting_worker_id;
	worker->lease_start = worker->leased ? shared->lease.start : 0;
	LWLockRelease(&shared->lock);
}

/*
 * The first tick after the lease.  No barrier is needed: an old value is too
 * low, which does no harm, or of another lease, which is a change, see lane.c.
 */
int64
WorkerLeaseEnd(const Worker *worker)
{
	return worker->leased ?
		(int64) pg_atomic_read_u64(&shared->lease.end) : PG_INT64_MAX;
}

/* Throw an error if a worker or datacenter id does not fit its field. */
static void
worker_check_field(const Layout *layout, LayoutField field,
				   const char *setting, int64 value)
{
	if (value > LayoutLargest(layout, field))
		ereport(ERROR,
				(StatsErrcode(ERRCODE_CONFIG_FILE_ERROR),
				 errmsg("parameter \"%s\" is out of range for the snowflake layout: " INT64_FORMAT,
						setting, value),
				 layout->bits[field] == 0 ?
				 errdetail("The layout \"%s\" has no field \"%s\", so only 0 is possible.",
						   LayoutToText(layout), layout_field_names[field]) :
				 errdetail("The layout \"%s\" takes values from 0 to " INT64_FORMAT ".",
						   LayoutToText(layout), LayoutLargest(layout, field)),
				 errhint("Correct the parameter and reload, or choose another layout and restart the server.")));
}

/*
 * Set the bits that distinguish the ids of this server, and of its timeline.
 * Throws an error if a value does not fit the layout.
 */
void
WorkerPutBits(Worker *worker, const Layout *layout)
{
	worker_check_field(layout, FIELD_DATACENTER, "snowflake.datacenter_id",
					   setting_datacenter_id);
	worker_check_field(layout, FIELD_WORKER, "snowflake.worker_id",
					   worker->id);
	worker->bits = LayoutPut(layout, FIELD_DATACENTER, setting_datacenter_id) |
		LayoutPut(layout, FIELD_WORKER, worker->id) |
		LayoutPut(layout, FIELD_TIMELINE,
				  GetWALInsertionTimeLine() &
				  LayoutLargest(layout, FIELD_TIMELINE));
}

/* The setting for which WorkerPutBits() would throw an error, or NULL. */
const char *
WorkerUnfit(const Worker *worker, const Layout *layout)
{
	if (setting_datacenter_id > LayoutLargest(layout, FIELD_DATACENTER))
		return "snowflake.datacenter_id";
	if (worker->id > LayoutLargest(layout, FIELD_WORKER))
		return "snowflake.worker_id";
	return NULL;
}

/* The state of the lease, as status and errors show it. */
const LeaseWords *
WorkerLeaseWords(void)
{
	static const LeaseWords words[] = {
		[LEASE_NOT_ASKED] = {"not asked",
		"The server was started or promoted a moment ago, and asks the registry for a lease. If this state persists, \"max_worker_processes\" might leave no room for the lease worker."},
		[LEASE_HELD] = {"held",
		"The lease is renewed after each third of \"snowflake.registry_lease\". If ids reach its end before that, raise \"snowflake.registry_lease\", or lower \"snowflake.max_ahead\"."},
		[LEASE_UNREACHABLE] = {"unreachable",
		"The registry cannot be reached. See the reason in the server's log, and check that the registry runs and accepts connections from here. Ids are made again as soon as it answers."},
		[LEASE_NONE_FREE] = {"none free",
		"The registry has no free worker id. If it was promoted or restored, wait until the time in the column \"lost_until\" of snowflake_registry.registry. If not, stop a server that is no longer needed, or end a reservation with snowflake_registry.unreserve(). Ids are made again as soon as one is free."},
		[LEASE_REFUSED] = {"refused",
		"The registry refuses this server. See the error in the server's log, and correct what it names: the layout, the clock, \"snowflake.registry_lease\", a grant, or a library that was replaced."},
		[LEASE_RELEASED] = {"released",
		"The lease was given back, because the server or its lease worker is being stopped. If this state persists, restart the server."}
	};
	LeaseState	state;

	LWLockAcquire(&shared->lock, LW_SHARED);
	state = shared->lease.state;
	LWLockRelease(&shared->lock);
	return &words[state];
}

/*
 * The first tick that does not begin before an instant; beyond the last tick
 * of the layout, it does not matter which.  If one lease ends at the instant
 * at which another starts, no tick is in both.
 */
static int64
worker_first_tick_from(const Layout *layout, TimestampTz instant)
{
	int64		before = LayoutTick(layout, instant - 1);

	return Max(before + 1, 0);
}

/* Wake the lease worker.  If it has ended, another process may wake up. */
void
WorkerAskForLease(void)
{
	struct Latch *latch;

	LWLockAcquire(&shared->lock, LW_SHARED);
	latch = shared->lease.latch;
	LWLockRelease(&shared->lock);
	if (latch != NULL)
		SetLatch(latch);
}

/* Where the lease worker can be woken. */
void
WorkerSetLatch(struct Latch *latch)
{
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	shared->lease.latch = latch;
	LWLockRelease(&shared->lock);
}

/* Use a worker id for ids whose time is from one instant to before another. */
void
WorkerSetLease(int64 worker_id, TimestampTz starts, TimestampTz ends)
{
	const Layout *layout = SharedLayout();
	WorkerLease *lease = &shared->lease;
	int64		start = worker_first_tick_from(layout, starts);
	int64		end = worker_first_tick_from(layout, ends);

	Assert(start <= end);
	/* only the lease worker changes these, so it needs no lock to read them */
	if (lease->worker_id == worker_id && lease->start == start &&
		(int64) pg_atomic_read_u64(&lease->end) <= end)
	{
		pg_atomic_write_u64(&lease->end, end);
		WorkerSetLeaseState(LEASE_HELD);
		return;
	}

	LaneBeginChange();
	lease->worker_id = worker_id;
	lease->start = start;
	pg_atomic_write_u64(&lease->end, end);
	lease->state = LEASE_HELD;
	LaneEndChange();
}

/* Note how the last attempt at a lease ended, for status and errors. */
void
WorkerSetLeaseState(LeaseState state)
{
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	shared->lease.state = state;
	LWLockRelease(&shared->lock);
}

/*
 * Stop making ids under the lease.  Returns the first instant after all of
 * them.
 */
TimestampTz
WorkerEndLease(void)
{
	const Layout *layout = SharedLayout();
	int64		end;

	LaneBeginChange();
	shared->lease.worker_id = -1;
	shared->lease.state = LEASE_RELEASED;
	LaneEndChange();

	end = LaneLastTick(layout) + 1;
	return end > layout->last_tick ?
		DT_NOEND : LayoutTickToTime(layout, end);
}
