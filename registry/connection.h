/*-------------------------------------------------------------------------
 *
 * connection.h
 *	  The lease worker's connection to the registry.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_CONNECTION_H
#define SNOWFLAKE_CONNECTION_H

#include "libpq-fe.h"
#include "portability/instr_time.h"

#include "snowflake.h"

/* A lease is renewed after its length divided by this number. */
#define RENEWALS			3

extern bool ConnectionOpen(void);
extern bool ConnectionIsOpen(void);
extern void ConnectionClose(void);
extern PGresult *ConnectionQuery(const char *sql, int num_values,
								 const char *const *values);
extern long ConnectionElapsed(instr_time start);

/* in snowflake_lease.c */
extern void LeaseNoteFailure(LeaseState state, const char *message,
							 const char *detail);

#endif							/* SNOWFLAKE_CONNECTION_H */
