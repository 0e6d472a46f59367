/*-------------------------------------------------------------------------
 *
 * mark.c
 *	  The mark and its guard on disk.
 *
 * Each database that has the extension keeps a bound of its ids:
 *
 *		Every id that was ever returned is at most the bound, which was on disk
 *		before the id was returned, and is never lowered.  After a start, every
 *		new id is greater than the bound.
 *
 * It is kept in the guard: the row of a materialized view, which no SQL command
 * lowers.  The view takes no DML, is neither published nor dumped, and a REFRESH
 * keeps its row.
 *
 * The mark is the last_value of a sequence.  pg_dump saves it, a restore sets it,
 * and the owner of the database may set it, too.  Only a value above the bound
 * matters.  It is looked at whenever the guard is, and written with it, unless a
 * transaction changes the sequence.  Both are in the schema snowflake_internal.
 *
 * The pages are written with generic WAL.  That needs no transaction id, so
 * ids can be made in read-only transactions and in parallel workers.  We log
 * full images, because a delta would leave out bytes that core's nextval() may
 * have changed without logging them.
 *
 * Writing is not transactional, but the view is.  If a transaction that has
 * created it fails, it is gone with its row.  If one that has given it a new file
 * fails, the old file comes back, without what was written to the new one.
 * MarkOpen() refuses that.
 *
 * Note about locking issues: one session at a time writes the mark.  It locks
 * the two relations as nextval() does, and then the mark: a lock on the guard
 * with a sub-id that nobody else uses.  It never waits for any of these, so a
 * canceled wait never ends with one of them, and does without the lock of the
 * sequence if it does not get that.  While it holds
 * the lock of the mark, it looks at no catalog, and so waits for no other lock.
 * Content locks guard what the pages hold.  They are taken on the sequence first,
 * and released before the WAL is flushed.
 *
 * PostgreSQL sends an error to the client before it releases locks, and keeps
 * them as long as the client does not read:
 *
 *		While we hold the lock of the mark, nothing of ours is reported, and
 *		interrupts are held off.  While we hold content locks, nothing is called
 *		that can throw.
 *
 * So the functions below return what they find, and their callers close the
 * mark before they throw.  What can still throw is PostgreSQL's own, such as a
 * lack of memory or a page that cannot be read.
 *
 * The lock of the mark does not exclude processes of the same parallel group,
 * so LimitMove() must be correct without it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/generic_xlog.h"
#include "access/htup_details.h"
#include "access/parallel.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "commands/extension.h"
#include "commands/sequence.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "replication/syncrep.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "storage/bufmgr.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/lwlock.h"
#include "storage/procsignal.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/wait_event.h"

#include "compat.h"
#include "extension.h"
#include "mark.h"
#include "settings.h"
#include "stats.h"

/* the sub-id of our lock on the guard; a lock on the relation itself has 0 */
#define MARK_LOCK_SUBID		1

/* The two relations, as the session has found them. */
static Oid	mark_sequence_oid = InvalidOid;
static Oid	mark_guard_oid = InvalidOid;

/*
 * Which one made a row, of the running transaction and its subtransactions,
 * which may still take it back; InvalidTransactionId if none of them did.
 */
static TransactionId
mark_running_maker(HeapTuple tuple)
{
	TransactionId xmin = HeapTupleHeaderGetXmin(tuple->t_data);

	return TransactionIdIsCurrentTransactionId(xmin) ? xmin : InvalidTransactionId;
}

/*
 * The transaction that created the extension, if it is the running one or a
 * subtransaction of it; else InvalidTransactionId.  Sets *dropped if the
 * running one has dropped or updated an earlier extension.
 */
static TransactionId
mark_created_here(bool *dropped)
{
	Oid			current = get_extension_oid("snowflake", true);
	Relation	extensions = table_open(ExtensionRelationId, AccessShareLock);
	TransactionId created = InvalidTransactionId;
	SysScanDesc scan;
	HeapTuple	tuple;

	*dropped = false;
	scan = systable_beginscan(extensions, InvalidOid, false, SnapshotAny, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_extension extension = (Form_pg_extension) GETSTRUCT(tuple);
		HeapTupleHeader header = tuple->t_data;

		if (strcmp(NameStr(extension->extname), "snowflake") != 0)
			continue;
		if (extension->oid == current && TransactionIdIsValid(mark_running_maker(tuple)))
			created = mark_running_maker(tuple);
		else if (!(header->t_infomask & HEAP_XMAX_INVALID) &&
				 TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetUpdateXid(header)))
			*dropped = true;
	}
	systable_endscan(scan);
	table_close(extensions, AccessShareLock);
	return created;
}

/*
 * Refuse to write the mark if the running transaction has changed it: after a
 * rollback, even one to a savepoint, the old mark would come back and not cover
 * the new ids.  It is allowed if the same subtransaction has created the
 * extension, and none was dropped, because then there is no old mark.
 */
static void
mark_check_stays(const Mark *mark)
{
	bool		dropped;

	if (TransactionIdIsValid(mark->changed_by) &&
		(mark->changed_by != mark_created_here(&dropped) || dropped))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("snowflake mark was changed in this transaction"),
				 errdetail("If the transaction fails, the old mark comes back, and does not cover new ids."),
				 errhint("Make ids after the transaction has been committed.")));
}

void
MarkReportLocked(void)
{
	ereport(ERROR,
			(StatsErrcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("could not obtain lock on the snowflake mark"),
			 errdetail("Another transaction is changing or dropping a relation that holds it. \"snowflake.max_wait\" is %d ms.",
					   setting_max_wait),
			 errhint("Ids can be made once that transaction has ended.")));
}

/* What to do about a mark that cannot be used. */
static int
mark_errhint_create_again(void)
{
	return errhint("Drop the extension and create it again, then call snowflake_advance() with the largest existing id.");
}

void
MarkReportDamaged(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("snowflake mark is damaged"),
			 errdetail("The first row is not where it should be in \"snowflake_internal.mark\" or \"snowflake_internal.guard\"."),
			 mark_errhint_create_again()));
}

static void
mark_report_empty(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("materialized view \"snowflake_internal.guard\" has no row"),
			 errdetail("It held the bound of all snowflake ids of this database."),
			 mark_errhint_create_again()));
}

/* Find the two relations in the catalogs. */
static bool
mark_find_relations(void)
{
	Oid			schema;

	if (OidIsValid(mark_guard_oid))
		return true;
	schema = ExtensionSchema();
	mark_sequence_oid = get_relname_relid("mark", schema);
	mark_guard_oid = get_relname_relid("guard", schema);
	if (!OidIsValid(mark_sequence_oid))
		mark_guard_oid = InvalidOid;
	return OidIsValid(mark_guard_oid);
}

/*
 * Look up the guard, which must be locked.  Returns false if it is gone or, with
 * MARK_PEEK, if it cannot be used.
 */
static bool
mark_look_up_guard(Mark *mark)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(mark_guard_oid));
	Form_pg_class form;
	bool		usable;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_class) GETSTRUCT(tuple);
	usable = form->relkind == RELKIND_MATVIEW && form->relispopulated &&
		form->relpersistence == RELPERSISTENCE_PERMANENT &&
		form->relam == HEAP_TABLE_AM_OID;
	if (!form->relispopulated && mark->mode != MARK_PEEK)
		mark_report_empty();
	if (!usable && mark->mode != MARK_PEEK)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("relation \"%s\" cannot guard the snowflake mark",
						NameStr(form->relname)),
				 errdetail("It must be a permanent materialized view of the access method \"heap\"."),
				 errhint("Use ALTER MATERIALIZED VIEW ... SET ACCESS METHOD.")));
	mark->changed_by = mark_running_maker(tuple);
	mark->guard_file = compat_file(form);
	ReleaseSysCache(tuple);
	return usable;
}

/* Look up the sequence, which must be locked.  Returns false if it is gone. */
static bool
mark_look_up_sequence(Mark *mark)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(mark_sequence_oid));

	if (!HeapTupleIsValid(tuple))
		return false;
	mark->sequence_file = compat_file((Form_pg_class) GETSTRUCT(tuple));
	ReleaseSysCache(tuple);
	return true;
}

static void
mark_unlock_relations(const Mark *mark)
{
	if (mark->has_sequence)
		UnlockRelationOid(mark_sequence_oid, mark->lockmode);
	UnlockRelationOid(mark_guard_oid, mark->lockmode);
}

/* Lock the two relations, and look them up.  The guard will do. */
static MarkOpenResult
mark_lock_relations(Mark *mark)
{
	if (!ConditionalLockRelationOid(mark_guard_oid, mark->lockmode))
		return MARK_LOCKED;
	mark->has_sequence = ConditionalLockRelationOid(mark_sequence_oid, mark->lockmode);

	/* now that we hold the locks, they can no longer change */
	if (mark_look_up_guard(mark) &&
		(!mark->has_sequence || mark_look_up_sequence(mark)))
		return MARK_OPENED;
	mark_unlock_relations(mark);
	/* others may have taken the place of relations that are gone */
	mark_guard_oid = InvalidOid;
	return MARK_MISSING;
}

static void
mark_end_writing(Mark *mark)
{
	LockRelease(&mark->lock, ExclusiveLock, false);
	RESUME_INTERRUPTS();
	AtEOXact_GUC(true, mark->nest_level);
}

/*
 * Lock the mark for writing.  False if another session writes it.  Until it is
 * unlocked, a cancel waits, and the client is sent nothing but errors: anybody
 * may ask for PostgreSQL's DEBUG messages, and then not read them.
 */
static bool
mark_begin_writing(Mark *mark)
{
	mark->nest_level = NewGUCNestLevel();
	(void) set_config_option("client_min_messages", "error",
							 PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
							 true, 0, false);
	SET_LOCKTAG_OBJECT(mark->lock, MyDatabaseId, RelationRelationId,
					   mark_guard_oid, MARK_LOCK_SUBID);
	if (LockAcquire(&mark->lock, ExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
	{
		AtEOXact_GUC(true, mark->nest_level);
		return false;
	}
	HOLD_INTERRUPTS();
	return true;
}

/* Open the mark and its guard. */
MarkOpenResult
MarkOpen(Mark *mark, MarkMode mode)
{
	MarkOpenResult result;

	mark->mode = mode;
	mark->lockmode = mode >= MARK_WRITE ? RowExclusiveLock : AccessShareLock;
	mark->xlog = NULL;
	do
	{
		if (mark_find_relations())
			result = mark_lock_relations(mark);
		else if (mode == MARK_PEEK)
			return MARK_MISSING;
		else
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("snowflake mark does not exist"),
					 errdetail("The extension must have the sequence \"snowflake_internal.mark\" and the materialized view \"snowflake_internal.guard\"."),
					 mark_errhint_create_again()));
	} while (result == MARK_MISSING && mode != MARK_PEEK);
	if (result != MARK_OPENED || mode < MARK_WRITE)
		return result;

	if (mode == MARK_WRITE)
		mark_check_stays(mark);
	mark->guard_relation = relation_open(mark_guard_oid, NoLock);
	if (mark_begin_writing(mark))
		return MARK_OPENED;
	relation_close(mark->guard_relation, NoLock);
	mark_unlock_relations(mark);
	return MARK_BUSY;
}

void
MarkClose(Mark *mark)
{
	/* its pages were unlocked */
	Assert(mark->xlog == NULL);
	if (mark->mode >= MARK_WRITE)
	{
		mark_end_writing(mark);
		relation_close(mark->guard_relation, NoLock);
	}
	mark_unlock_relations(mark);
}

/* The data of the first row of a page, of at least "size" bytes; or NULL. */
static char *
mark_first_row(Buffer buffer, Size size)
{
	Page		page = BufferGetPage(buffer);

	if (PageGetMaxOffsetNumber(page) >= FirstOffsetNumber)
	{
		ItemId		item = PageGetItemId(page, FirstOffsetNumber);

		if (ItemIdIsNormal(item) &&
			ItemIdGetOffset(item) >= SizeOfPageHeaderData &&
			ItemIdGetOffset(item) + ItemIdGetLength(item) <= BLCKSZ &&
			ItemIdGetLength(item) >= SizeofHeapTupleHeader)
		{
			HeapTupleHeader tuple = (HeapTupleHeader) PageGetItem(page, item);

			if (tuple->t_hoff + size <= ItemIdGetLength(item))
				return (char *) tuple + tuple->t_hoff;
		}
	}
	return NULL;
}

/* The row of a locked page; NULL if it is damaged. */
static Form_pg_sequence_data
mark_sequence_row(const Mark *mark)
{
	return (Form_pg_sequence_data)
		mark_first_row(mark->sequence_buffer,
					   offsetof(FormData_pg_sequence_data, is_called) + sizeof(bool));
}

static char *
mark_guard_row(const Mark *mark)
{
	return mark_first_row(mark->guard_buffer, sizeof(Guard));
}

/* A session that makes one id need not build relcache entries. */
static Buffer
mark_pin_page(CompatFile file)
{
	return ReadBufferWithoutRelcache(file, MAIN_FORKNUM, 0, RBM_NORMAL, NULL, true);
}

/*
 * Pin and lock the pages, and read them.  False if they are damaged; then they
 * are not locked.
 */
bool
MarkLockPages(Mark *mark)
{
	int			lock = mark->mode >= MARK_WRITE ? BUFFER_LOCK_EXCLUSIVE : BUFFER_LOCK_SHARE;

	/* all of this may throw, so do it first */
	if (mark->has_sequence)
		mark->sequence_buffer = mark_pin_page(mark->sequence_file);
	mark->guard_buffer = mark_pin_page(mark->guard_file);
	mark->xlog = mark->mode >= MARK_WRITE ? GenericXLogStart(mark->guard_relation) : NULL;

	if (mark->has_sequence)
		LockBuffer(mark->sequence_buffer, lock);
	LockBuffer(mark->guard_buffer, lock);
	if ((mark->has_sequence && mark_sequence_row(mark) == NULL) || mark_guard_row(mark) == NULL)
	{
		MarkUnlockPages(mark);
		return false;
	}
	memcpy(&mark->guard, mark_guard_row(mark), sizeof(Guard));
	mark->value = mark->has_sequence ? mark_sequence_row(mark)->last_value : mark->guard.bound;
	return true;
}

/* Unlock the pages without writing them. */
void
MarkUnlockPages(Mark *mark)
{
	UnlockReleaseBuffer(mark->guard_buffer);
	if (mark->has_sequence)
		UnlockReleaseBuffer(mark->sequence_buffer);
	if (mark->xlog != NULL)
		GenericXLogAbort(mark->xlog);
	mark->xlog = NULL;
}

/* Read the mark, if that can be done now. */
bool
MarkPeek(Mark *mark)
{
	bool		is_sound;

	if (MarkOpen(mark, MARK_PEEK) != MARK_OPENED)
		return false;
	is_sound = MarkLockPages(mark);
	if (is_sound)
		MarkUnlockPages(mark);
	MarkClose(mark);
	return is_sound;
}

/* The row in the copy of its page that will be written. */
static char *
mark_row_to_write(GenericXLogState *state, Buffer buffer, const void *row)
{
	ptrdiff_t	offset = (const char *) row - (const char *) BufferGetPage(buffer);

	return (char *) GenericXLogRegisterBuffer(state, buffer, GENERIC_XLOG_FULL_IMAGE) + offset;
}

/*
 * Write mark->guard, and its bound as the mark, and unlock the pages.  Returns
 * where the WAL record ends.  With wal_level = minimal there is none in the
 * transaction that creates the extension; its commit makes the files durable.
 */
XLogRecPtr
MarkWritePages(Mark *mark)
{
	XLogRecPtr	lsn;

	Assert(mark->mode >= MARK_WRITE && mark->xlog != NULL);
	if (mark->has_sequence)
	{
		Form_pg_sequence_data data = (Form_pg_sequence_data)
		mark_row_to_write(mark->xlog, mark->sequence_buffer, mark_sequence_row(mark));

		data->last_value = mark->guard.bound;
		data->log_cnt = 0;
		data->is_called = true;
	}
	memcpy(mark_row_to_write(mark->xlog, mark->guard_buffer, mark_guard_row(mark)), &mark->guard, sizeof(Guard));
	lsn = GenericXLogFinish(mark->xlog);
	mark->xlog = NULL;
	MarkUnlockPages(mark);
	return lsn;
}

/*
 * The synchronous standbys, as a hash of the setting that names them.  0 if there
 * are none, or if the setting may have changed since this process has read it; a
 * parallel worker, which is not told, cannot know more than whether there are any.
 */
uint64
MarkStandbys(void)
{
	if (max_wal_senders == 0 || !IsUnderPostmaster || SyncRepStandbyNames[0] == '\0' ||
		(IsParallelWorker() ? !compat_standbys_are_named() : ConfigReloadPending))
		return 0;
	return hash_bytes_extended((unsigned char *) SyncRepStandbyNames,
							   strlen(SyncRepStandbyNames), 0) | 1;
}

/*
 * Whether synchronous standbys have yet to flush the WAL up to a position.  When
 * the setting has changed, the checkpointer may know of that before we do, or we
 * before it.
 */
static bool
mark_standbys_are_behind(XLogRecPtr lsn)
{
	bool		behind;

	if (MarkStandbys() == 0 && (max_wal_senders == 0 || !compat_standbys_are_named()))
		return false;
	LWLockAcquire(SyncRepLock, LW_SHARED);
	behind = WalSndCtl->lsn[SYNC_REP_WAIT_FLUSH] < lsn;
	LWLockRelease(SyncRepLock);
	return behind;
}

/*
 * Flush the WAL up to a position, and wait until synchronous standbys have
 * flushed it, too.  Not in SyncRepWaitForLSN(), as commits do: it obeys the
 * session's synchronous_commit, and hides that the wait was canceled.  False if
 * it was: the caller must close the mark before the error is thrown.
 */
bool
MarkFlush(XLogRecPtr lsn)
{
	if (XLogRecPtrIsInvalid(lsn))
		return true;
	XLogFlush(lsn);

	while (mark_standbys_are_behind(lsn))
	{
		if (QueryCancelPending || ProcDiePending || TransactionTimeoutPending)
			return false;
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 10, WAIT_EVENT_SYNC_REP);
		ResetLatch(MyLatch);
		/* others wait for this, and interrupts may be held off */
		if (ProcSignalBarrierPending)
			ProcessProcSignalBarrier();
	}
	return true;
}

/*
 * The contents of the guard, for the query of the materialized view, so that a
 * REFRESH keeps them.  While the extension is created, there are none yet.
 */
Guard
MarkCurrentGuard(void)
{
	Mark		mark;
	Guard		guard = {.system = GetSystemIdentifier()};
	Relation	view;
	bool		has_page;
	bool		is_sound;
	bool		dropped;

	if (MarkOpen(&mark, MARK_READ) != MARK_OPENED)
		MarkReportLocked();
	view = relation_open(mark_guard_oid, NoLock);
	has_page = RelationGetNumberOfBlocks(view) > 0;
	relation_close(view, NoLock);
	is_sound = has_page && MarkLockPages(&mark);
	if (is_sound)
	{
		guard = mark.guard;
		MarkUnlockPages(&mark);
	}
	MarkClose(&mark);
	if (has_page && !is_sound)
		MarkReportDamaged();
	if (!has_page && !TransactionIdIsValid(mark_created_here(&dropped)))
		mark_report_empty();
	return guard;
}
