/*-------------------------------------------------------------------------
 *
 * world.h
 *	  The server, its databases and its disk.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_SIM_WORLD_H
#define SNOWFLAKE_SIM_WORLD_H

#include "sim.h"

/* about 2026-06 */
#define WALL_AT_REFERENCE_0		INT64CONST(835000000000000)

/* What the wall clock says; no step, unlike GetCurrentTimestamp(). */
static inline int64
WallClock(void)
{
	return WALL_AT_REFERENCE_0 + reference + wall_offset;
}

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

extern Database databases[MAX_DATABASES_HERE];
extern Grant grants[MAX_GRANTS];
extern int	num_grants;
extern int	run;				/* of the server: a start begins another one */
extern int64 made_since_start;	/* the largest id of all databases */
extern int	configured_ahead;
extern int	configured_worker;
extern int	configured_datacenter;
extern int	configured_wait;
extern int	configured_standby; /* that is synchronous, from 1 on; 0: none */
extern bool always_synchronous; /* it is, since it had everything */
extern uint32 configuration;
extern uint32 standby_since;	/* the configuration that named it */
extern bool has_other_layout;	/* than in the beginning */
extern Layout layouts[2];		/* that are changed for each other */
extern TransactionId next_xid;
extern int64 standby_returns_at[NUM_STANDBYS];
extern int64 standby_had_all_at[NUM_STANDBYS];

/* world.c */
extern void WorldLease(void);
extern void WorldNewMark(Database *database);
extern void WorldReload(void);
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
extern void DiskPrune(void);

/* transaction.c */
extern void TransactionForgetAll(void);
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

#endif							/* SNOWFLAKE_SIM_WORLD_H */
