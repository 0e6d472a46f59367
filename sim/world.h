/*-------------------------------------------------------------------------
 *
 * world.h
 *	  The server, its databases and its disk.
 *
 * snowflake/sim/world.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_SIM_WORLD_H
#define SNOWFLAKE_SIM_WORLD_H

#include "sim.h"

/*
 * What the disk has of a database, and what was promised about that: if a crash
 * takes back a write, it takes back the promise as well.
 */
typedef struct Disk
{
	int64		value;			/* of the sequence */
	Guard		guard;
	int			incarnation;	/* of the extension: another one may repeat
								 * ids */
	int			relations;		/* which the extension created: their OIDs
								 * differ */
} Disk;

typedef struct Database
{
	Oid			oid;
	TransactionId row;			/* xmin in pg_database */
	int			sessions;
	Disk		disk;			/* in buffers */
	LWLock		pages[2];
	int			writers;		/* that hold the lock of the mark */
	int			writers_group;
	int			relation_locks;
	int64		locked_until;	/* by a transaction that changes the mark */
	bool		recreated;		/* a transaction creates the extension */
	Disk		committed;		/* the one before */

	/* promises, see promise.c */
	int64		found;			/* ids are above what was found at the start */
	int64		found_guard;
	int64		advanced;		/* and above an advance */
	uint64		used;			/* worker ids that have made ids, a bit each */
	int			resets;			/* number of, and of those in progress */
	int			resetting;
} Database;

/* What the registry has granted. */
typedef struct Grant
{
	int64		worker_id;
	TimestampTz starts;
	TimestampTz ends;
} Grant;

#define MAX_GRANTS	256

extern Database databases[MAX_DATABASES_HERE];
extern Grant grants[MAX_GRANTS];
extern int	num_grants;
extern int	run;				/* of the server: a start begins another one */
extern int64 made_since_start;	/* the largest id of all databases */
extern int	configured_ahead;
extern int	configured_worker;
extern int	configured_wait;
extern uint32 configuration;

extern void WorldWrite(Database *database);
extern Disk WorldFlushed(const Database *database, bool by_standby);
extern void WorldLease(void);
extern void WorldRecreate(Database *database);
extern bool WorldMustGiveIds(void);

#endif							/* SNOWFLAKE_SIM_WORLD_H */
