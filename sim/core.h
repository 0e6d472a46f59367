/*-------------------------------------------------------------------------
 *
 * core.h
 *	  Comes before each file of the core: turns what other processes can see
 *	  into calls of the simulator.
 *
 * PostgreSQL's headers come first, so that the macros below do not change
 * their inline functions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_SIM_CORE_H
#define SNOWFLAKE_SIM_CORE_H

#include "postgres.h"

#include <time.h>

#include "common/pg_prng.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/lwlock.h"
#include "utils/timestamp.h"

#include "memory.h"

extern int	ClockReadReference(struct timespec *now);
extern uint64 RandomBits(void);

#define pg_atomic_read_u64(ptr)			MemoryRead((ptr), 8)
#define pg_atomic_read_u32(ptr)			((uint32) MemoryRead((ptr), 4))
#define pg_atomic_write_u64(ptr, value) MemoryWrite((ptr), 8, (value))
#define pg_atomic_write_u32(ptr, value) MemoryWrite((ptr), 4, (value))
#define pg_atomic_fetch_add_u64(ptr, n) MemoryAdd((ptr), 8, (n))
#define pg_atomic_fetch_add_u32(ptr, n) MemoryAdd((ptr), 4, (n))
#define pg_atomic_compare_exchange_u64(ptr, expected, value) \
	MemorySwap((ptr), (expected), (value))
#undef pg_read_barrier
#define pg_read_barrier()				MemoryReadBarrier()
#undef pg_write_barrier
#define pg_write_barrier()				MemoryWriteBarrier()

#define clock_gettime(clock, now)		ClockReadReference(now)
#define pg_prng_uint64(state)			RandomBits()

#endif							/* SNOWFLAKE_SIM_CORE_H */
