/*-------------------------------------------------------------------------
 *
 * origin.c
 *	  The server that a mark comes from.
 *
 * If a server is copied, two servers have the same worker id in their
 * configuration; and a dump may be restored on a server that has the same one.
 * Dumps and copies by pg_createsubscriber can be told from the original.  So
 * we keep the system identifier beside the mark, in a sequence that pg_dump
 * saves like the mark.  If it turns out to be another server's when ids are
 * made, the log says what to check, and our own replaces it, so that it says
 * so once.
 *
 * No id depends on this sequence.  So we neither flush it nor wait for it, and
 * leave it alone if it is locked, damaged or not what it should be.
 *
 * snowflake/src/origin.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "access/relation.h"
#include "access/xlog.h"
#include "commands/dbcommands.h"
#include "commands/sequence.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "extension.h"
#include "mark.h"
#include "origin.h"
#include "shared.h"


/*
 * Read the sequence, and write the replacement to it unless that is 0.
 * Returns the old value, or 0 if the sequence cannot be read.
 */
static uint64
read_or_replace(uint64 replacement)
{
	LOCKMODE	lockmode = replacement == 0 ? AccessShareLock : RowExclusiveLock;
	Oid			oid = get_relname_relid("system_identifier", ExtensionSchema());
	Relation	sequence;
	Buffer		buffer;
	char	   *row;
	int64		found = 0;

	if (!OidIsValid(oid) || !ConditionalLockRelationOid(oid, lockmode))
		return 0;
	sequence = try_relation_open(oid, NoLock);
	if (sequence == NULL)
	{
		UnlockRelationOid(oid, lockmode);
		return 0;
	}
	if (sequence->rd_rel->relkind == RELKIND_SEQUENCE &&
		sequence->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT &&
		RelationGetNumberOfBlocks(sequence) > 0)
	{
		/* this may throw, so do it before the page is locked */
		GenericXLogState *state = replacement == 0 ? NULL : GenericXLogStart(sequence);

		buffer = ReadBuffer(sequence, 0);
		LockBuffer(buffer, state == NULL ? BUFFER_LOCK_SHARE : BUFFER_LOCK_EXCLUSIVE);
		row = MarkFirstRow(buffer, sizeof(int64));
		if (row != NULL)
			found = ((Form_pg_sequence_data) row)->last_value;
		if (row != NULL && state != NULL && (uint64) found != replacement)
		{
			row = MarkCopyOfRow(state, buffer, row);
			((Form_pg_sequence_data) row)->last_value = (int64) replacement;
			(void) GenericXLogFinish(state);
		}
		else if (state != NULL)
			GenericXLogAbort(state);
		UnlockReleaseBuffer(buffer);
	}
	relation_close(sequence, lockmode);
	return (uint64) found;
}

/*
 * Note that this server makes ids from now on.  If the mark comes from another
 * one, log that, unless the worker id is leased: somebody has to check it.
 */
void
OriginCheck(bool leased)
{
	uint64		here = GetSystemIdentifier();
	uint64		found = read_or_replace(here);

	if (found == 0 || found == here)
		return;
	pg_atomic_write_u64(&shared->other_origin, found);
	if (!leased)
		ereport(LOG_SERVER_ONLY,
				(errmsg("snowflake mark of database \"%s\" comes from another server",
						get_database_name(MyDatabaseId)),
				 errdetail("The system identifier of the mark is " UINT64_FORMAT ", and that of this server is " UINT64_FORMAT ": the database was copied, restored or upgraded.",
						   found, here),
				 errhint("If the other server also makes ids, set \"snowflake.worker_id\" here to one that no other server has.")));
}

/*
 * The server that the mark of our database comes from, if it is another one;
 * else the last other one that was found for any database since the start of
 * this server, or 0.
 */
uint64
OriginPeek(void)
{
	uint64		found = read_or_replace(0);

	return found != 0 && found != GetSystemIdentifier() ? found :
		pg_atomic_read_u64(&shared->other_origin);
}
