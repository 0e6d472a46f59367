/*-------------------------------------------------------------------------
 *
 * generator.h
 *	  Makes snowflake ids.
 *
 * snowflake/src/generator.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_GENERATOR_H
#define SNOWFLAKE_GENERATOR_H

#include "layout.h"
#include "stats.h"

/*
 * Errors of our own.  The SQL standard leaves classes that start with a
 * letter from I to Z to implementations.
 */
#define ERRCODE_SNOWFLAKE_TOO_FAR_AHEAD		MAKE_SQLSTATE('S','F','0','0','1')
#define ERRCODE_SNOWFLAKE_BEFORE_EPOCH		MAKE_SQLSTATE('S','F','0','0','2')
#define ERRCODE_SNOWFLAKE_LAYOUT_EXHAUSTED	MAKE_SQLSTATE('S','F','0','0','3')
#define ERRCODE_SNOWFLAKE_NO_LEASE			MAKE_SQLSTATE('S','F','0','0','4')

/* Lanes that exist in shared memory, however wide the layout's field is. */
#define GENERATOR_MAX_LANES 64

/* What came of the last attempt to lease a worker id, or to renew the lease. */
typedef enum LeaseState
{
	LEASE_NOT_ASKED,
	LEASE_HELD,
	LEASE_UNREACHABLE,
	LEASE_NONE_FREE,
	LEASE_REFUSED,
	LEASE_RELEASED
} LeaseState;

typedef struct GeneratorStatus
{
	bool		usable;			/* the settings */
	const Layout *layout;		/* NULL: none can be used */
	bool		set_aside;		/* the worker id, by a reset */
	bool		leased;
	int64		worker_id;		/* -1: there is no lease */
	LeaseState	lease_state;
	TimestampTz lease_starts;	/* these three are DT_NOBEGIN if not known */
	TimestampTz lease_ends;
	TimestampTz last_id_at;		/* of all databases, since the start */
	int			lanes_in_use;
	int			sessions;		/* that have made ids and are still there */
} GeneratorStatus;

extern void GeneratorInit(void);
extern const Layout *GeneratorLayout(void);
extern int64 GeneratorNext(int64 tag_bits, Oid function);
extern int64 GeneratorReservable(void);
extern int	GeneratorReserve(int count, int64 *first, int64 *last,
							 int64 *wait_start, Oid function);
extern bool GeneratorLast(int64 *id);
extern void GeneratorAdvance(int64 id, Oid function);
extern void GeneratorReset(bool force, Oid function);
extern void GeneratorRestoreMark(Oid function);
extern void GeneratorSetLease(int64 worker_id, TimestampTz starts,
							  TimestampTz ends);
extern void GeneratorSetLeaseState(LeaseState state);
extern TimestampTz GeneratorEndLease(void);
extern void GeneratorGetStatus(GeneratorStatus *status);
extern void GeneratorGetStats(Stats *stats);
extern void GeneratorResetStats(void);

#endif							/* SNOWFLAKE_GENERATOR_H */
