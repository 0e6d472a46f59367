/*-------------------------------------------------------------------------
 *
 * mark.c
 *	  The durable mark: no id above it was ever returned.
 *
 * Each database that has the extension keeps a mark, a bound of its ids:
 *
 *		Every id that was ever returned is at most the mark, and the mark was
 *		on disk before the id was returned.  After a start, every new id is
 *		greater than the mark.
 *
 * The mark is the last_value of two sequences, and what counts is the greater
 * one.  snowflake_mark belongs to the user: pg_dump writes it, restoring sets
 * it, and who owns the database may set it.  Nobody but us sets
 * snowflake_mark_guard, so that a mark set too low, by a restore into a
 * database that is in use for example, makes nothing worse.  Both are written
 * at once.
 *
 * The pages are written with generic WAL.  That needs no transaction id, so
 * ids can be made in read-only transactions and in parallel workers.  They
 * are full images: the core's nextval() does not write the bytes that a delta
 * would leave out.
 *
 * Nothing of this is transactional, as in nextval().  But the sequences are:
 * if the transaction that created them fails, or if a crash ends it, they are
 * gone with the mark in them, and with the extension.
 *
 * Note about locking issues: one session at a time writes the mark.  It holds
 * a lock on the extension, with a sub-id that nobody else uses, and waits for
 * no other lock while it does: the sequences are locked as nextval() does,
 * but only if that is possible at once.  What the pages hold is guarded by
 * their content locks, in the order of the sequences' OIDs, and these are
 * released before the WAL is flushed.  Processes of one parallel group do not
 * keep each other out by the lock on the extension, so nothing depends on it
 * but the work that it saves.
 *
 * snowflake/src/mark.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/parallel.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_proc.h"
#include "commands/extension.h"
#include "commands/sequence.h"
#include "miscadmin.h"
#include "replication/syncrep.h"
#include "replication/walsender_private.h"
#include "storage/bufmgr.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "compat.h"
#include "mark.h"

/* the sub-id of the extension in our lock; that of the extension itself is 0 */
#define MARK_LOCK_SUBID		1

/* what commands/sequence.c has at the end of a sequence's page */
#define SEQUENCE_MAGIC		0x1717

/* The two pages, pinned and locked, and the sequences' data in them. */
typedef struct MarkPages
{
	Buffer		buffers[MARK_COPIES];
	int64		values[MARK_COPIES];
} MarkPages;

/* The OIDs of the extension's sequences, in order.  Returns their number. */
static int
find_sequences(Oid extension, Oid *sequences)
{
	Relation	depends = table_open(DependRelationId, AccessShareLock);
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	int			found = 0;

	ScanKeyInit(&key[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(ExtensionRelationId));
	ScanKeyInit(&key[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(extension));
	scan = systable_beginscan(depends, DependReferenceIndexId, true, NULL,
							  lengthof(key), key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend depend = (Form_pg_depend) GETSTRUCT(tuple);

		if (depend->classid != RelationRelationId ||
			depend->deptype != DEPENDENCY_EXTENSION ||
			get_rel_relkind(depend->objid) != RELKIND_SEQUENCE)
			continue;
		if (found < MARK_COPIES)
			sequences[found] = depend->objid;
		found++;
	}
	systable_endscan(scan);
	table_close(depends, AccessShareLock);

	if (found >= MARK_COPIES && sequences[0] > sequences[1])
	{
		Oid			swap = sequences[0];

		sequences[0] = sequences[1];
		sequences[1] = swap;
	}
	return found;
}

/* The same, where there have to be all of them. */
static void
get_sequences(Oid extension, Oid *sequences)
{
	int			found = find_sequences(extension, sequences);

	if (found != MARK_COPIES)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("snowflake mark is not there"),
				 errdetail("The extension has %d sequences, and must have \"snowflake_mark\" and \"snowflake_mark_guard\".",
						   found),
				 errhint("Create the missing one with MINVALUE 0, and use ALTER EXTENSION to add it.")));
}

/* Refuse what would not survive, or be undone. */
static void
check_sequence(Relation sequence)
{
	if (sequence->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("sequence \"%s\" is not permanent",
						RelationGetRelationName(sequence)),
				 errdetail("It holds the snowflake mark, which a crash must not take away."),
				 errhint("Use ALTER SEQUENCE ... SET LOGGED.")));
	/* a parallel worker may see this of a sequence that its leader created */
	if (sequence->rd_createSubid == InvalidSubTransactionId &&
		!IsParallelWorker() &&
		COMPAT_FIRST_FILE_SUBID(sequence) != InvalidSubTransactionId)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("sequence \"%s\" was altered in this transaction",
						RelationGetRelationName(sequence)),
				 errdetail("It holds the snowflake mark, which the end of the transaction might take back."),
				 errhint("Make ids after the transaction has ended.")));
}

/* The extension that a function belongs to, whatever its name is. */
static Oid
extension_of(Oid function)
{
	Oid			extension = getExtensionOfObject(ProcedureRelationId, function);

	if (!OidIsValid(extension))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("function %u does not belong to the extension \"snowflake\"",
						function),
				 errdetail("The mark is found by the extension that a function belongs to.")));
	return extension;
}

/*
 * Open the mark of the extension that a function belongs to, to write it.
 *
 * Returns false if somebody else is at it and we shall not wait for that, or
 * if a sequence is locked by somebody who is about to change it.
 */
bool
MarkOpen(Mark *mark, Oid function, bool wait)
{
	Oid			sequences[MARK_COPIES];
	int			opened;

	mark->extension = extension_of(function);
	get_sequences(mark->extension, sequences);

	SET_LOCKTAG_OBJECT(mark->lock, MyDatabaseId, ExtensionRelationId,
					   mark->extension, MARK_LOCK_SUBID);
	if (LockAcquire(&mark->lock, ExclusiveLock, false, !wait) == LOCKACQUIRE_NOT_AVAIL)
		return false;

	for (opened = 0; opened < MARK_COPIES; opened++)
	{
		if (!ConditionalLockRelationOid(sequences[opened], RowExclusiveLock))
			break;
		mark->sequences[opened] = try_relation_open(sequences[opened], NoLock);
		if (mark->sequences[opened] == NULL)
		{
			/* dropped a moment ago */
			UnlockRelationOid(sequences[opened], RowExclusiveLock);
			break;
		}
		check_sequence(mark->sequences[opened]);
	}
	if (opened == MARK_COPIES)
		return true;

	while (opened-- > 0)
		relation_close(mark->sequences[opened], RowExclusiveLock);
	LockRelease(&mark->lock, ExclusiveLock, false);
	return false;
}

void
MarkClose(Mark *mark)
{
	for (int i = 0; i < MARK_COPIES; i++)
		relation_close(mark->sequences[i], RowExclusiveLock);
	LockRelease(&mark->lock, ExclusiveLock, false);
}

/*
 * Refuse to raise the mark if the running transaction has dropped the extension,
 * and created it anew: if the transaction fails, or is rolled back to a
 * savepoint, the old one comes back with the mark that it had.
 */
static void
check_not_recreated(const Mark *mark)
{
	Relation	extensions = table_open(ExtensionRelationId, AccessShareLock);
	char	   *name = get_extension_name(mark->extension);
	SysScanDesc scan;
	HeapTuple	tuple;

	scan = systable_beginscan(extensions, InvalidOid, false, SnapshotAny, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_extension extension = (Form_pg_extension) GETSTRUCT(tuple);
		HeapTupleHeader header = tuple->t_data;

		if (extension->oid != mark->extension &&
			strcmp(NameStr(extension->extname), name) == 0 &&
			!(header->t_infomask & HEAP_XMAX_INVALID) &&
			TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetUpdateXid(header)))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("extension \"%s\" was dropped and created again in this transaction",
							name),
					 errdetail("If the transaction fails, the old extension comes back, and its mark does not cover new snowflake ids."),
					 errhint("Make ids after the transaction has been committed.")));
	}
	systable_endscan(scan);
	table_close(extensions, AccessShareLock);
}

static Form_pg_sequence_data
sequence_data(Page page)
{
	ItemId		item = PageGetItemId(page, FirstOffsetNumber);
	HeapTupleHeader tuple = (HeapTupleHeader) PageGetItem(page, item);

	return (Form_pg_sequence_data) ((char *) tuple + tuple->t_hoff);
}

/* Pin and lock the pages, and read the values in them. */
static void
lock_pages(const Mark *mark, MarkPages *pages)
{
	for (int i = 0; i < MARK_COPIES; i++)
	{
		Page		page;

		pages->buffers[i] = ReadBuffer(mark->sequences[i], 0);
		LockBuffer(pages->buffers[i], BUFFER_LOCK_EXCLUSIVE);
		page = BufferGetPage(pages->buffers[i]);
		if (PageGetSpecialSize(page) != MAXALIGN(sizeof(uint32)) ||
			*(uint32 *) PageGetSpecialPointer(page) != SEQUENCE_MAGIC ||
			PageGetMaxOffsetNumber(page) != FirstOffsetNumber)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("page of sequence \"%s\" is not that of a sequence",
							RelationGetRelationName(mark->sequences[i]))));
		pages->values[i] = sequence_data(page)->last_value;
	}
}

static void
unlock_pages(const MarkPages *pages)
{
	for (int i = MARK_COPIES - 1; i >= 0; i--)
		UnlockReleaseBuffer(pages->buffers[i]);
}

/* Write a value to both pages.  Returns where its WAL ends, if there is any. */
static XLogRecPtr
write_pages(const Mark *mark, const MarkPages *pages, int64 value)
{
	GenericXLogState *state;

	/* with wal_level = minimal a new relation needs none */
	state = GenericXLogStart(RelationNeedsWAL(mark->sequences[0]) ?
							 mark->sequences[0] : mark->sequences[1]);
	for (int i = 0; i < MARK_COPIES; i++)
	{
		Page		page = GenericXLogRegisterBuffer(state, pages->buffers[i],
													 GENERIC_XLOG_FULL_IMAGE);
		Form_pg_sequence_data data = sequence_data(page);

		data->last_value = value;
		data->log_cnt = 0;
		data->is_called = true;
	}
	return GenericXLogFinish(state);
}

/*
 * Wait until synchronous standbys have flushed the WAL up to here, if there
 * are any.
 *
 * A commit waits in SyncRepWaitForLSN(), which does what the session's
 * synchronous_commit says, and lets the wait be cancelled because the commit
 * has happened.  The mark is for all sessions, and must not count before the
 * standbys have it.
 */
static void
wait_for_standbys(XLogRecPtr lsn)
{
	for (;;)
	{
		bool		done;

		LWLockAcquire(SyncRepLock, LW_SHARED);
		done = !compat_sync_standbys_defined() ||
			WalSndCtl->lsn[SYNC_REP_WAIT_FLUSH] >= lsn;
		LWLockRelease(SyncRepLock);
		if (done)
			return;

		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 10, WAIT_EVENT_SYNC_REP);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

static void
make_durable(XLogRecPtr lsn)
{
	if (XLogRecPtrIsInvalid(lsn))
		return;
	XLogFlush(lsn);
	wait_for_standbys(lsn);
}

/*
 * Look at the mark, without waiting.  False if it is not there to be moved: a
 * sequence is missing, not permanent, or being altered.  It may not have been
 * flushed yet.
 */
bool
MarkLook(Oid function, int64 *value)
{
	Oid			sequences[MARK_COPIES];

	*value = 0;
	if (find_sequences(extension_of(function), sequences) != MARK_COPIES)
		return false;
	for (int i = 0; i < MARK_COPIES; i++)
	{
		Relation	sequence;
		Buffer		buffer;

		if (!ConditionalLockRelationOid(sequences[i], AccessShareLock))
			return false;
		sequence = try_relation_open(sequences[i], NoLock);
		if (sequence == NULL)
		{
			UnlockRelationOid(sequences[i], AccessShareLock);
			return false;
		}
		if (sequence->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		{
			relation_close(sequence, AccessShareLock);
			return false;
		}
		buffer = ReadBuffer(sequence, 0);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		*value = Max(*value, sequence_data(BufferGetPage(buffer))->last_value);
		UnlockReleaseBuffer(buffer);
		relation_close(sequence, AccessShareLock);
	}
	return true;
}

/* What the sequences hold. */
void
MarkRead(const Mark *mark, int64 *values)
{
	MarkPages	pages;

	lock_pages(mark, &pages);
	unlock_pages(&pages);
	memcpy(values, pages.values, sizeof(pages.values));
}

/*
 * Raise the mark to a value, or leave it where it is if that is higher.  When
 * this returns true, the mark is on disk.
 *
 * "written" is the highest mark that was written in this database since the
 * server was started, and whatever the pages hold, the mark does not fall
 * below it.  If they hold more than that, it came from before the start, from
 * a restore, or from somebody's hand.  Then all new ids must be above it:
 * unless it is at most "accept", nothing is changed, and false is returned
 * with what was found.  By then the caller must have seen to it that no id is
 * made below "accept" any more: what is found is soon taken for our own.
 */
bool
MarkRaise(const Mark *mark, int64 accept, int64 value,
		  pg_atomic_uint64 *written, int64 *found)
{
	MarkPages	pages;
	int64		old_written;
	XLogRecPtr	lsn;

	check_not_recreated(mark);
	lock_pages(mark, &pages);
	old_written = (int64) pg_atomic_read_u64(written);
	*found = Max(pages.values[0], pages.values[1]);
	if (*found > Max(accept, old_written))
	{
		unlock_pages(&pages);
		return false;
	}

	value = Max(value, Max(*found, old_written));
	/* before the pages, so that what is found there is never unknown here */
	pg_atomic_write_u64(written, value);

	/*
	 * Write them even if nothing changes: another session may have written
	 * what we found, and not flushed it yet.
	 */
	lsn = write_pages(mark, &pages, value);
	unlock_pages(&pages);

	for (int i = 0; i < MARK_COPIES; i++)
	{
		if (pages.values[i] < old_written)
			ereport(WARNING,
					(errmsg("sequence \"%s\" was set below the snowflake ids that have been made",
							RelationGetRelationName(mark->sequences[i])),
					 errdetail("It was found at " INT64_FORMAT ", and is at " INT64_FORMAT " now.",
							   pages.values[i], value)));
	}
	make_durable(lsn);
	return true;
}

/* Set the mark to any value.  It is on disk when this returns. */
void
MarkSet(const Mark *mark, int64 value, pg_atomic_uint64 *written)
{
	MarkPages	pages;
	XLogRecPtr	lsn;

	lock_pages(mark, &pages);
	lsn = write_pages(mark, &pages, value);
	pg_atomic_write_u64(written, value);
	unlock_pages(&pages);
	make_durable(lsn);
}
