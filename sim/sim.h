/*-------------------------------------------------------------------------
 *
 * sim.h
 *	  What the files of the simulator share.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_SIM_H
#define SNOWFLAKE_SIM_H

#include <setjmp.h>
#include <ucontext.h>

#include "storage/ipc.h"
#include "storage/lwlock.h"

#include "memory.h"
#include "snowflake.h"

#define MAX_PROCESSES	8
#define MAX_DATABASES_HERE 3
/* more than the static variables of the core need */
#define MAX_STATICS		4096
#define MAX_EXIT_CALLBACKS 4
#define MAX_LWLOCKS		4
#define ARENA_SIZE		65536

/* What a seed decides before anything runs.  "every" counts steps. */
typedef struct Plan
{
	/* scheduling */
	int			num_processes;
	int			num_databases;
	bool		by_priority;	/* the runnable process of highest priority */
	int			switch_every;
	int			stall_every;	/* 0: never */
	int			longest_stall;	/* in steps */
	int			step_us;		/* time that passes at some steps */
	bool		weak_memory;
	bool		plain_steps;	/* at plain accesses to shared memory, too */

	/* faults, and how likely each is among them */
	int			fault_every;
	int			crashes;
	int			promotions;
	int			clock_steps;
	int			cancels;
	int			terminations;
	int			reloads;
	int			copies;			/* of databases */
	int			layout_changes;
	int			cuts;			/* of the line to the standby */
	int			lulls;

	/* the server */
	bool		preloaded;
	bool		leased;
	bool		parallel;		/* the processes of a database are a group */
	bool		synchronous;	/* there is a synchronous standby */
	bool		crowded;		/* there is a slot for but one database */
	bool		deaf_clients;	/* which do not read what they are sent */
	int			longest_flush;	/* in us */
	bool		server_fails;	/* with errors of its own */

	/* what sessions do besides making ids */
	bool		advance;
	bool		set_mark;
	bool		lock_mark;		/* a transaction locks the relations */
	bool		transact;		/* it changes or drops them */
} Plan;

typedef enum ProcessState
{
	PROCESS_FREE,
	PROCESS_READY,
	PROCESS_SLEEPS,				/* until an instant, or its latch is set */
	PROCESS_FLUSHES,			/* until an instant */
	PROCESS_WAITS,				/* for a lock */
	PROCESS_STALLS				/* for a number of steps */
} ProcessState;

/* A report that is being made. */
typedef struct Report
{
	int			elevel;
	int			code;
	char		message[200];
} Report;

typedef struct Process
{
	int			id;
	int			pid;
	int			database;
	int			group;
	bool		is_lease_worker;
	bool		is_deaf;
	ProcessState state;
	int			priority;
	int64		wake_at;
	uint64		stalls_until;
	const void *waits_for;
	bool		latch;
	bool		on_condition;	/* waits for the condition variable */

	/* how it goes on */
	bool		is_new;
	ucontext_t	start;
	jmp_buf		context;
	char	   *stack;
	char		statics[MAX_STATICS];
	sigjmp_buf	on_error;

	/* of PostgreSQL */
	Report		report;
	LWLock	   *lwlocks[MAX_LWLOCKS];
	bool		lwlock_is_exclusive[MAX_LWLOCKS];
	int			num_lwlocks;	/* but for content locks */
	int			num_pages;		/* content locks */
	int			num_pins;
	int			num_relations[2];	/* relation locks */
	int			num_guc_levels;
	bool		holds_mark;
	pg_on_exit_callback exit_callbacks[MAX_EXIT_CALLBACKS];
	int			num_exit_callbacks;
	char		arena[ARENA_SIZE];
	int			arena_used;

	/* weak memory, see memory.c */
	uint64		horizon;
	uint64		read_horizon;
	uint64		announced;
	uint64		written;

	/* what it does, and what it was promised */
	const char *doing;
	Oid			extension;		/* when its statement began */
	uint64		steps;			/* of the present call */
	int			flushes;		/* that it has waited for */
	int64		began;			/* when it began */
	int			calls_left;
	uint32		configuration;	/* that it has read */
	int64		last_id;
	int64		above;			/* ids of this call must be */
	int			marks;			/* of the database, when the call began */
	int64		ids_looked;		/* the id clock before its last look, */
	int64		ids_began;		/* and when the call began, */
	int			ahead_began;	/* and max_ahead */
	int64		highest_since;	/* offset that can have been believed since
								 * then */
	uint64		furthest;		/* tick of the database's ids then; 0: nobody
								 * has told of it */
	Oid			extension_before;	/* that it saw when the call began */
} Process;

/*
 * What the disk has of a database, and what was promised about that: if a
 * crash or a rollback takes back a write, it takes back the promise as well.
 */
typedef struct Disk
{
	int64		value;			/* of the sequence */
	Guard		guard;
	XLogRecPtr	lsn;			/* of the pages */

	/* catalogs */
	Oid			extension;		/* InvalidOid: there is none */
	Oid			relations;		/* the sequence; the guard has the next OID */
	TransactionId rows[2];		/* that wrote their rows in pg_class */
	int			files[2];

	/* promises, see promise.c */
	int			incarnation;	/* of the extension: another one may repeat
								 * ids */
	int64		found;			/* ids are above what was found at the start */
	int64		found_guard;
	int64		advanced;		/* and above an advance */
} Disk;

/* A row of pg_extension, dead or alive. */
typedef struct ExtensionRow
{
	Oid			oid;
	TransactionId xmin;
	TransactionId xmax;
} ExtensionRow;

/* with those of many transactions that were rolled back */
#define MAX_EXTENSION_ROWS	100

typedef struct Database
{
	Oid			oid;
	int			sessions;
	Disk		disk;			/* in buffers */
	ExtensionRow extensions[MAX_EXTENSION_ROWS];
	LWLock		pages[2];
	int			writers;		/* that hold the lock of the mark */
	int			writers_group;
	int			relation_locks[2];	/* on the sequence and the guard */
	int64		locked_until;	/* by a transaction that changes nothing */
	Process    *changer;		/* its transaction changes the relations, */
	bool		changes[2];		/* these of them */

	/* promises */
	int64		advanced;		/* ids are above it, whatever happens */
	int64		largest[2];		/* id of each layout */
	int			marks;			/* how many it has had, one at a time */
	uint64		furthest;		/* tick of the ids under the present mark */
} Database;

/* What the registry has granted. */
typedef struct Grant
{
	int64		worker_id;
	TimestampTz starts;
	TimestampTz ends;
} Grant;

#define MAX_GRANTS	256

#define NUM_STANDBYS	2

extern Plan plan;
extern Process processes[MAX_PROCESSES];
extern Process *me;				/* NULL: outside of all processes */
extern uint64 step;				/* of this seed */
extern uint64 last_step;
extern uint64 num_ids;			/* of all seeds */
extern bool at_rest;			/* faults have stopped */

/* process.c */
extern void ProcessInit(void);
extern void ProcessSavePostmaster(void);
extern void ProcessNewPostmaster(void);
extern void ProcessStart(Process *process, void (*run) (void));
extern void ProcessStep(void);
extern void ProcessSleep(int64 us, ProcessState state);
extern void ProcessWait(const void *object);
extern void ProcessWake(const void *object);
extern void ProcessSetLatch(Process *process);
extern void ProcessLeave(void);
extern bool ProcessRun(void);
extern void *ProcessStatic(Process *process, volatile void *variable);

/* postgres.c */
extern bool LWLockIsExclusive(const LWLock *lock);
extern int64 reference;			/* the reference clock, in us */
extern int64 wall_offset;		/* of the wall clock, to the reference */
extern bool memory_exists;		/* somebody has created it */
extern void PostgresReset(void);
extern void PostgresReleaseAll(void);

/* about 2026-06 */
#define WALL_AT_REFERENCE_0		INT64CONST(835000000000000)

/* What the wall clock says; no step, unlike GetCurrentTimestamp(). */
static inline int64
WallClock(void)
{
	return WALL_AT_REFERENCE_0 + reference + wall_offset;
}

/* world.c */
extern Database databases[MAX_DATABASES_HERE];
extern Grant grants[MAX_GRANTS];
extern int	num_grants;
extern int	run;				/* of the server: a start begins another one */
extern int64 made_since_start;	/* the largest id of all databases */
extern int	configured_standby; /* that is synchronous, from 1 on; 0: none */
extern uint32 configuration;
extern uint32 standby_since;	/* the configuration that named it */
extern bool has_other_layout;	/* than in the beginning */
extern Layout layouts[2];		/* that are changed for each other */
extern Layout *world_layout;	/* in force */
extern TransactionId next_xid;
extern int64 standby_returns_at[NUM_STANDBYS];
extern int64 standby_had_all_at[NUM_STANDBYS];
extern void PassTime(int64 us);
extern void WorldBegin(void);
extern void WorldFault(void);
extern bool WorldRest(void);
extern void WorldEnd(void);
extern void WorldLoadSettings(void);
extern void WorldSignal(void);
extern void WorldLease(void);
extern void WorldNewMark(Database *database);
extern bool WorldHasAmpleIds(void);
extern bool WorldMustGiveIds(void);

/* disk.c */
/* each record of the WAL */
#define RECORD_SIZE		10

extern XLogRecPtr written;
extern XLogRecPtr flushed;
extern XLogRecPtr on_standby[NUM_STANDBYS];
extern void DiskBegin(void);
extern void DiskLog(Database *database);
extern void DiskWritten(Database *database);
extern Disk DiskAt(const Database *database, XLogRecPtr lsn);
extern void DiskGoBack(XLogRecPtr lsn, bool promotion);
extern void DiskReplicate(void);

/* The largest id that a mark covers. */
static inline int64
DiskLargest(const Disk *disk)
{
	return Max(disk->value, disk->guard.bound);
}

/* transaction.c */
extern void TransactionRecover(XLogRecPtr lsn);
extern bool TransactionIsRunning(void);
extern bool TransactionKeeps(const Database *database, int which);
extern const Disk *TransactionCommitted(const Database *database);
extern const Disk *TransactionSees(const Database *database);
extern void TransactionNoteWrite(Database *database);
extern bool TransactionBegin(void);
extern void TransactionRewrite(int which);
extern void TransactionNewExtension(Database *database, TransactionId xid);
extern void TransactionCopy(Database *database, const Database *from);
extern void TransactionDrop(void);
extern bool TransactionCreate(void);
extern void TransactionRelease(void);
extern void TransactionRollback(void);
extern void TransactionCommit(void);
extern void TransactionPrepare(void);
extern bool TransactionFinish(bool commit);

/* session.c */
extern void SessionRun(void);

/* promise.c */
extern int64 highest_ever;		/* offset of the clock that a server of this
								 * seed may have believed */
extern void PromiseBegin(void);
extern void PromiseBroken(const char *format,...) pg_attribute_printf(1, 2);
extern void PromiseCallBegins(void);
extern void PromiseLook(void);
extern void PromiseIds(int64 first, int64 last);
extern void PromiseMark(void);
extern void PromiseNoteClock(int64 elapsed);
extern void PromiseNewServer(bool by_crash);
extern void PromiseReport(int elevel, const char *file, int line);
extern void PromiseNothingLeft(void);
extern const char *PromiseWhatBroke(void);

/* main.c */
extern uint64 RandomBits(void);
extern uint64 RandomBelow(uint64 number);
extern bool RandomOneIn(int number);
extern int64 RandomSize(int64 largest);
extern void Say(const char *format,...) pg_attribute_printf(1, 2);

#endif							/* SNOWFLAKE_SIM_H */
