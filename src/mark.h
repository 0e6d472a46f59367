/*-------------------------------------------------------------------------
 *
 * mark.h
 *	  The durable mark: no id above it was ever returned.
 *
 * snowflake/src/mark.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_MARK_H
#define SNOWFLAKE_MARK_H

#include "port/atomics.h"
#include "storage/lock.h"
#include "utils/relcache.h"

/* snowflake_mark and snowflake_mark_guard */
#define MARK_COPIES 2

/* The mark of a database, while it is held by one session. */
typedef struct Mark
{
	Oid			extension;
	LOCKTAG		lock;
	Relation	sequences[MARK_COPIES];
} Mark;

extern bool MarkOpen(Mark *mark, Oid function, bool wait);
extern void MarkClose(Mark *mark);
extern bool MarkLook(Oid function, int64 *value);
extern void MarkRead(const Mark *mark, int64 *values);
extern bool MarkRaise(const Mark *mark, int64 accept, int64 value,
					  pg_atomic_uint64 *written, int64 *found);
extern void MarkSet(const Mark *mark, int64 value, pg_atomic_uint64 *written);

#endif							/* SNOWFLAKE_MARK_H */
