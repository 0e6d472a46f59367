/*-------------------------------------------------------------------------
 *
 * worker.h
 *	  The worker id and its lease.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_WORKER_H
#define SNOWFLAKE_WORKER_H

#include "shared.h"

/* The worker id in use, with the datacenter id, and where its ids begin. */
typedef struct Worker
{
	int64		id;				/* -1: there is no lease */
	int64		bits;			/* both ids and the timeline, in place */
	bool		leased;
	int64		lease_start;	/* first tick of the lease; 0 if not leased */
	uint32		changes;		/* so many, when all this was read */
} Worker;

/* The name of a LeaseState in snowflake_status(), and the hint for it. */
typedef struct LeaseWords
{
	const char *name;
	const char *hint;
} LeaseWords;

extern void WorkerGet(Worker *worker);
extern int64 WorkerLeaseEnd(const Worker *worker);
extern void WorkerPutBits(Worker *worker, const Layout *layout);
extern const char *WorkerUnfit(const Worker *worker, const Layout *layout);
extern const LeaseWords *WorkerLeaseWords(void);

extern void WorkerAskForLease(void);

/* for the lease worker */
extern void WorkerSetLatch(struct Latch *latch);
extern void WorkerSetLease(int64 worker_id, TimestampTz starts,
						   TimestampTz ends);
extern void WorkerSetLeaseState(LeaseState state);
extern TimestampTz WorkerEndLease(void);

#endif							/* SNOWFLAKE_WORKER_H */
