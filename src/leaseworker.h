/*-------------------------------------------------------------------------
 *
 * leaseworker.h
 *	  The lease worker, and the interface between its library and this one.
 *
 * The lease worker has a library of its own, the only one that uses libpq.
 * Loading libpq takes longer than everything else that a session needs for an
 * id, and hardly any session needs it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_LEASEWORKER_H
#define SNOWFLAKE_LEASEWORKER_H

#include "clock.h"
#include "shared.h"

#define LEASE_LIBRARY "snowflake_lease"

/*
 * What the lease worker calls, and the addresses of the settings that it
 * reads.
 */
typedef struct SnowflakeInterface
{
	const char *version;		/* of the main library; this comes first */
	void		(*set_lease) (int64 worker_id, TimestampTz starts,
							  TimestampTz ends);
	void		(*set_lease_state) (LeaseState state);
	TimestampTz (*end_lease) (void);
	bool		(*layout_is_usable) (void);
	const Layout *(*layout) (void);
	ClockReading (*read_clock) (void);
	char	   *(*layout_to_text) (const Layout *layout);
	char	   *const *registry;
	char	   *const *node_name;
	const int  *registry_lease;
} SnowflakeInterface;

/* In the other library: SnowflakeLeaseWorker(), which does not return. */
typedef void (*LeaseWorkerFunction) (const SnowflakeInterface *interface);

extern void LeaseWorkerInit(void);

#endif							/* SNOWFLAKE_LEASEWORKER_H */
