/*-------------------------------------------------------------------------
 *
 * memory.h
 *	  The shared memory of the simulated server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_SIM_MEMORY_H
#define SNOWFLAKE_SIM_MEMORY_H

#define MEMORY_SIZE		65536

extern char *memory;

extern uint64 MemoryRead(volatile void *ptr, int size);
extern void MemoryWrite(volatile void *ptr, int size, uint64 value);
extern uint64 MemoryAdd(volatile void *ptr, int size, int64 number);
extern bool MemorySwap(volatile void *ptr, uint64 *expected, uint64 value);
extern void MemoryReadBarrier(void);
extern void MemoryWriteBarrier(void);
extern void MemoryFullBarrier(void);
extern void MemoryForget(void);

#endif							/* SNOWFLAKE_SIM_MEMORY_H */
