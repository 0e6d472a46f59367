/*-------------------------------------------------------------------------
 *
 * lease.pml
 *	  A model of worker.c and the lease worker: worker ids from a registry.
 *
 * The server leases one of two worker ids, renews the lease, perhaps late,
 * returns it, and crashes; other servers lease the same worker ids and make
 * ids.  Time plays no part, and the database's mark is left out, so that
 * only leases keep ids apart.
 *
 * Assumes what lanes.pml shows, as limit.pml does.
 *
 * snowflake/model/lease.pml
 *
 *-------------------------------------------------------------------------
 */
#include "common.pml"

#ifndef LAST_TICK
#define LAST_TICK	3
#endif
#define WORKERS		2
#define NONE		WORKERS

/* shared->lease */
byte lease_worker = NONE;
byte lease_start;
byte lease_end;

byte word;						/* of the lane: the tick of its last id */
bool lwlock;					/* shared->lock */
bool current;					/* the session's version is that of shared memory */
bool is_open;					/* its window is open */
bool killed[2];

/* in the registry: the first tick that is not granted of each worker id */
byte granted[WORKERS];

#define ID(worker, tick)	((tick) * WORKERS + (worker))

inline LaneBeginChange()
{
	atomic { !lwlock -> lwlock = true; current = false }
}

inline LaneEndChange()
{
	atomic { is_open = false; lwlock = false }
}

proctype Session()
{
	byte worker;
	byte start;
	byte end;
	byte tick;

look:
	{
		atomic {
			if
			/* WorkerGet(), which waits for a lease */
			:: !current && !lwlock && lease_worker != NONE ->
				current = true;
				worker = lease_worker;
#ifndef NO_LEASE_START
				start = lease_start
#endif
			:: current
			fi
		};
		atomic { end = lease_end };
		atomic {
#ifdef NO_LEASE_END
			end = LAST_TICK + 1;
#endif
			choose(tick, 1, LAST_TICK);
			tick = MAX(tick, MAX(start, word + 1));
			if
			:: tick < MIN(end, LAST_TICK + 1) && current -> is_open = true; end = 0
			:: else -> end = 0; tick = 0; goto look
			fi
		};
		atomic {
			if
			:: is_open && tick > word ->
				word = tick;
				issue(ID(worker, tick))
			:: !is_open || tick <= word
			:: is_open					/* the clock has moved on */
			fi;
			is_open = false;
			tick = 0;
			goto look
		}
	}
	unless
	{
		atomic {
			killed[0] ->
			killed[0] = false;
			worker = 0;
			start = 0;
			end = 0;
			tick = 0;
			goto look
		}
	}
}

proctype LeaseWorker()
{
	byte worker = NONE;
	byte start;
	byte end;

next:
	{
		if
		/* acquire(): any worker id, including the one it had */
		:: atomic {
			worker == NONE ->
			choose(worker, 0, WORKERS - 1);
			if
			:: granted[worker] > LAST_TICK -> worker = NONE; goto next
			:: else
			fi;
#ifndef BEGIN_ANYWHERE
			start = granted[worker];
#endif
			choose(end, granted[worker] + 1, LAST_TICK + 1);
			granted[worker] = end;
			goto set_lease }

		/* renew(): the registry's answer may take any time to arrive */
		:: atomic {
			worker != NONE && end <= LAST_TICK && granted[worker] == end ->
			choose(end, end + 1, LAST_TICK + 1);
			granted[worker] = end };
			atomic { lease_end = end }

		/* it is late, and acquires another lease while the old one is in force */
		:: atomic { worker != NONE -> worker = NONE; end = 0; goto next }

		:: atomic { worker != NONE && lease_worker == worker -> goto end_lease }
		fi;
		goto next;

set_lease:	/* WorkerSetLease() */
#ifndef NO_CHANGE_TO_SET
		LaneBeginChange();
#endif
		atomic { lease_worker = worker };
		atomic { lease_start = start; start = 0 };
		atomic { lease_end = end };
#ifndef NO_CHANGE_TO_SET
		LaneEndChange();
#endif
		goto next;

end_lease:	/* WorkerEndLease(), and release() */
#ifdef LOOK_BEFORE_END
		atomic { start = word + 1 };
#endif
#ifndef NO_CHANGE_TO_END
		LaneBeginChange();
		atomic { lease_worker = NONE };
		LaneEndChange();
#else
		atomic { lease_worker = NONE };
#endif
#ifndef LOOK_BEFORE_END
		atomic { start = word + 1 };
#endif
		atomic {
			if
			:: granted[worker] == end -> granted[worker] = MIN(end, MAX(lease_start, start))
			:: else
			fi;
			start = 0;
			worker = NONE;
			end = 0;
			goto next
		}
	}
	unless
	{
		atomic { killed[1] -> killed[1] = false; worker = NONE; start = 0; end = 0; goto next }
	}
}

/* Other servers lease a worker id, and make an id at once. */
proctype OtherServers()
{
	byte worker;
	byte tick;

end:
	do
	:: atomic {
		choose(worker, 0, WORKERS - 1);
		if
		:: granted[worker] <= LAST_TICK ->
			choose(tick, 1, LAST_TICK);
			tick = MAX(tick, granted[worker]);
			granted[worker] = tick + 1;
			issue(ID(worker, tick))
		:: else
		fi;
		worker = 0;
		tick = 0 }
	od
}

proctype Fate()
{
end:
	do
	:: d_step {
		true ->
		word = 0;
		lwlock = false;
		current = false;
		is_open = false;
		lease_worker = NONE;
		lease_start = 0;
		lease_end = 0;
		killed[0] = true;
		killed[1] = true }
	od
}

init
{
	atomic {
		run Session();
		run LeaseWorker();
		run OtherServers();
		run Fate()
	}
}
