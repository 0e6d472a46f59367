/*-------------------------------------------------------------------------
 *
 * shared.h
 *	  The shared memory of the extension: what it holds, and what guards it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_SHARED_H
#define SNOWFLAKE_SHARED_H

#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/lwlock.h"

#include "layout.h"
#include "stats.h"

/* The most lanes, however wide the field of the layout is. */
#define MAX_LANES		64

/* Databases that can make ids at the same time. */
#define MAX_DATABASES	1024

/* See lane.c.  A cache line each, to avoid false sharing. */
typedef union Lane
{
	/* tick << sequence bits | sequence: no lower one is taken any more */
	pg_atomic_uint64 word;
	char		pad[PG_CACHE_LINE_SIZE];
} Lane;

/*
 * See shared.c.  The lock in SharedState guards database and sessions; the
 * note in limit.c says what guards the rest.
 */
typedef struct DatabaseSlot
{
	Oid			database;		/* InvalidOid: free */
	int			sessions;
	/* the first tick in which no id may be made yet */
	pg_atomic_uint64 limit;
	/* synchronous standbys have the mark for it: MarkStandbys(), or 0 */
	pg_atomic_uint64 standbys;
	/* the limit for which this server wrote the pages last; 0: none yet */
	int64		reserved;
} DatabaseSlot;

/*
 * See clock.c.  Offsets are the wall clock minus the reference clock, in us.
 * Guarded by the lock, but for reading "doubted" in generator.c, and "pace".
 */
typedef struct ClockState
{
	bool		noted;			/* the two offsets of the start are set */
	bool		started;		/* an offset is believed */
	bool		doubted;
	/* the one believed last or, at first, that of the server's start */
	int64		offset;
	int64		highest;		/* ever believed, or of the start */
	int64		checkpoint_offset;	/* of the last checkpoint before that */

	/*
	 * Where the id clock goes on if it is ahead of the believed clock: the
	 * instant minus seven eighths of the reference clock; DT_NOBEGIN at first
	 */
	pg_atomic_uint64 pace;

	/* while in doubt; instants are those of the reference clock, in us */
	int64		lowest;			/* lowest offset that was seen */
	int64		doubted_since;
	int64		seen_at;
	int64		watched;
} ClockState;

/* How the last attempt to lease a worker id, or to renew the lease, ended. */
typedef enum LeaseState
{
	LEASE_NOT_ASKED,
	LEASE_HELD,
	LEASE_UNREACHABLE,
	LEASE_NONE_FREE,
	LEASE_REFUSED,
	LEASE_RELEASED
} LeaseState;

/* See worker.c.  All but the atomic are guarded by the lock. */
typedef struct WorkerLease
{
	int64		worker_id;		/* -1: there is none */
	int64		start;			/* its ids are in ticks from here */
	pg_atomic_uint64 end;		/* and before this one */
	LeaseState	state;
	struct Latch *latch;		/* of the lease worker, once it was started */
} WorkerLease;

typedef struct SharedState
{
	/* of the struct; these never change */
	uint32		magic;
	uint32		struct_version;
	uint32		size;

	LWLock		lock;

	/* guarded by the lock; the layout never changes once it is fixed */
	bool		layout_fixed;
	Layout		layout;
	bool		announced;		/* in the log; read without the lock */

	ClockState	clock;
	WorkerLease lease;
	StatsShared stats;

	/* sessions wait here for a limit to be moved */
	ConditionVariable limit_moved;

	DatabaseSlot slots[MAX_DATABASES];

	/*
	 * How many changes have closed windows, see lane.c.  Read with every id
	 * and hardly ever written, so nothing that is often written shares its
	 * cache line.
	 */
	union
	{
		pg_atomic_uint32 changes;
		char		pad[PG_CACHE_LINE_SIZE];
	};

	Lane		lanes[MAX_LANES];
} SharedState;

/* NULL until SharedAttach() */
extern SharedState *shared;

/* that of our database; NULL until SlotEnter() */
extern DatabaseSlot *my_slot;

extern void SharedInit(void);
extern void SharedAttach(void);
extern const Layout *SharedLayout(void);
extern const Layout *SharedLayoutToRead(void);
extern const Layout *SharedLayoutIfFixed(void);
extern DatabaseSlot *SlotPeek(void);
extern void SlotEnter(void);
extern void SlotForget(void);

#endif							/* SNOWFLAKE_SHARED_H */
