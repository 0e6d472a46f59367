/*-------------------------------------------------------------------------
 *
 * registry.h
 *	  The lease worker: leases a worker id from the registry.
 *
 * snowflake/src/registry.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_REGISTRY_H
#define SNOWFLAKE_REGISTRY_H

extern void RegistryInit(void);

#endif							/* SNOWFLAKE_REGISTRY_H */
