/*-------------------------------------------------------------------------
 *
 * mark.c
 *	  The mark and its guard on disk, here and on synchronous standbys.
 *
 * Each database that has the extension keeps a bound of its ids:
 *
 *		Every id that was ever returned is at most the bound, which was on disk
 *		before the id was returned, and is never lowered.  After a start, every
 *		new id is greater than the bound.
 *
 * The bound is kept in two places; the greater one counts.  Both are in the
 * schema snowflake_internal, and are written together:
 *
 * - The mark is the last_value of a sequence.  pg_dump saves it, a restore
 *	 sets it, and the owner of the database may set it, too.
 * - The guard is the row of a materialized view, which no SQL command lowers:
 *	 it takes no DML, is neither published nor dumped, and a REFRESH keeps its
 *	 row, as the view's query reads it from the view itself.
 *
 * The pages are written with generic WAL.  That needs no transaction id, so
 * ids can be made in read-only transactions and in parallel workers.  We log
 * full images, because a delta would leave out bytes that core's nextval() may
 * have changed without logging them.
 *
 * Writing is not transactional, but the two relations are.  If a transaction
 * that has created them fails, they are gone with their contents.  If one that
 * has given them new files fails, the old files come back, without what was
 * written to the new ones.  MarkOpen() refuses that.
 *
 * Note about locking issues: one session at a time writes the mark.  It locks
 * the two relations as nextval() does, and then the mark: a lock on the guard
 * with a sub-id that nobody else uses.  It takes all of these only if it gets
 * them at once, so a canceled wait never ends with one of them.  While it
 * holds the lock of the mark, it looks at no catalog, and so waits for no
 * other lock.  Content locks guard what the pages hold.  They are taken on the
 * sequence first, and released before the WAL is flushed.
 *
 * PostgreSQL sends an error to the client before it releases locks, and keeps
 * them as long as the client does not read:
 *
 *		While we hold the lock of the mark, nothing of ours is reported, and
 *		interrupts are held off.  While we hold content locks, nothing is
 *		called that can throw.
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
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_am.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_namespace.h"
#include "commands/extension.h"
#include "commands/sequence.h"
#include "common/hashfn.h"
#include "postmaster/interrupt.h"
#include "replication/syncrep.h"
#include "replication/walsender.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/procsignal.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "snowflake.h"

/* the sub-id of our lock on the guard; a lock on the relation itself has 0 */
#define MARK_LOCK_SUBID		1

/* What to do about a mark that cannot be used. */
#define HINT_CREATE_AGAIN \
	"Drop the extension and create it again, then call snowflake_advance() with the largest existing id."

/* The two relations, as the session has found them. */
static Oid	mark_sequence_oid = InvalidOid;
static Oid	mark_guard_oid = InvalidOid;

/*
 * Whether the running transaction, or a subtransaction of it, made a row, and
 * so may still take it back.  If so, note which of them did: *changed_by made
 * all rows noted so far; FrozenTransactionId stands for several.
 */
static bool
mark_note_change(TransactionId *changed_by, HeapTuple tuple)
{
	TransactionId xmin = HeapTupleHeaderGetXmin(tuple->t_data);

	if (!TransactionIdIsCurrentTransactionId(xmin))
		return false;
	*changed_by = !TransactionIdIsValid(*changed_by) || *changed_by == xmin ?
		xmin : FrozenTransactionId;
	return true;
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
	scan = systable_beginscan(extensions, InvalidOid, false, SnapshotAny, 0,
							  NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_extension extension = (Form_pg_extension) GETSTRUCT(tuple);
		HeapTupleHeader header = tuple->t_data;
		TransactionId xmax;

		if (strcmp(NameStr(extension->extname), "snowflake") != 0)
			continue;
		if (extension->oid == current && mark_note_change(&created, tuple))
			continue;
		if (header->t_infomask & HEAP_XMAX_INVALID)
			continue;
		xmax = HeapTupleHeaderGetUpdateXid(header);
		if (TransactionIdIsCurrentTransactionId(xmax))
			*dropped = true;
	}
	systable_endscan(scan);
	table_close(extensions, AccessShareLock);
	return created;
}

/*
 * Refuse to write the mark if the running transaction has changed it: after a
 * rollback, even one to a savepoint, the old mark would come back and not
 * cover the new ids.  It is allowed if the same subtransaction has created the
 * extension, and none was dropped, because then there is no old mark.
 */
static void
mark_check_stays(const Mark *mark)
{
	bool		dropped;

	if (TransactionIdIsValid(mark->changed_by) &&
		(mark->changed_by == FrozenTransactionId ||
		 mark->changed_by != mark_created_here(&dropped) || dropped))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("snowflake mark was changed in this transaction"),
				 errdetail("If the transaction fails, the old mark comes back, and does not cover new ids."),
				 errhint("Make ids after the transaction has been committed.")));
}

void
MarkReportDamaged(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("snowflake mark is damaged"),
			 errdetail("The first row is not where it should be in \"snowflake_internal.mark\" or \"snowflake_internal.guard\"."),
			 errhint(HINT_CREATE_AGAIN)));
}

/*
 * Find the two relations in the catalogs.  A statement can outlive the
 * extension whose functions it runs, and whoever may drop that can also create
 * a schema of the same name.  So it must belong to the extension; then its
 * owner is a superuser, and nobody else can create objects in it.
 */
static bool
mark_find_relations(void)
{
	Oid			extension;
	Oid			schema;

	if (OidIsValid(mark_guard_oid))
		return true;
	extension = get_extension_oid("snowflake", true);
	schema = get_namespace_oid("snowflake_internal", true);
	if (!OidIsValid(extension) ||
		getExtensionOfObject(NamespaceRelationId, schema) != extension)
		return false;
	mark_sequence_oid = get_relname_relid("mark", schema);
	mark_guard_oid = get_relname_relid("guard", schema);
	if (!OidIsValid(mark_sequence_oid))
		mark_guard_oid = InvalidOid;
	return OidIsValid(mark_guard_oid);
}

/*
 * Look up a relation, which must be locked.  Returns false if it is gone or,
 * with MARK_PEEK, if it cannot hold the mark.
 */
static bool
mark_look_up(Mark *mark, Oid oid, char relkind, RelFileLocator *file)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(oid));
	Form_pg_class form;
	bool		usable;

	if (!HeapTupleIsValid(tuple))
		return false;
	form = (Form_pg_class) GETSTRUCT(tuple);
	usable = form->relkind == relkind && form->relispopulated &&
		form->relpersistence == RELPERSISTENCE_PERMANENT &&
		(relkind == RELKIND_SEQUENCE || form->relam == HEAP_TABLE_AM_OID);
	if (!form->relispopulated && mark->mode != MARK_PEEK)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("materialized view \"snowflake_internal.guard\" has no row"),
				 errdetail("It held the bound of all snowflake ids of this database."),
				 errhint(HINT_CREATE_AGAIN)));
	if (!usable && mark->mode != MARK_PEEK)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("relation \"%s\" cannot hold the snowflake mark",
						NameStr(form->relname)),
				 errdetail("The mark must be a permanent sequence, and its guard a permanent materialized view of the access method \"heap\"."),
				 errhint("Use ALTER SEQUENCE ... SET LOGGED, or ALTER MATERIALIZED VIEW ... SET ACCESS METHOD.")));
	mark_note_change(&mark->changed_by, tuple);
	*file = (RelFileLocator)
	{
		OidIsValid(form->reltablespace) ?
			form->reltablespace : MyDatabaseTableSpace,
			MyDatabaseId, form->relfilenode
	};
	ReleaseSysCache(tuple);
	return usable;
}

static void
mark_unlock_relations(const Mark *mark)
{
	UnlockRelationOid(mark_guard_oid, mark->lockmode);
	UnlockRelationOid(mark_sequence_oid, mark->lockmode);
}

/* Lock the two relations, and look them up. */
static MarkOpenResult
mark_lock_relations(Mark *mark)
{
	if (!ConditionalLockRelationOid(mark_sequence_oid, mark->lockmode))
		return MARK_LOCKED;
	if (!ConditionalLockRelationOid(mark_guard_oid, mark->lockmode))
	{
		UnlockRelationOid(mark_sequence_oid, mark->lockmode);
		return MARK_LOCKED;
	}

	/* now that we hold the locks, they can no longer change */
	mark->changed_by = InvalidTransactionId;
	if (mark_look_up(mark, mark_sequence_oid, RELKIND_SEQUENCE,
					 &mark->sequence_file) &&
		mark_look_up(mark, mark_guard_oid, RELKIND_MATVIEW, &mark->guard_file))
		return MARK_OPENED;
	mark_unlock_relations(mark);
	/* others may have taken the place of relations that are gone */
	mark_guard_oid = InvalidOid;
	return MARK_MISSING;
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
	if (LockAcquire(&mark->lock, ExclusiveLock, false, true) ==
		LOCKACQUIRE_NOT_AVAIL)
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

	/* what the session found earlier may be gone */
	int			tries = OidIsValid(mark_guard_oid) ? 2 : 1;

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
					 errhint(HINT_CREATE_AGAIN)));
	} while (result == MARK_MISSING && (mode != MARK_PEEK || --tries > 0));
	if (result != MARK_OPENED || mode < MARK_WRITE)
		return result;

	if (mode == MARK_WRITE)
		mark_check_stays(mark);
	mark->sequence = relation_open(mark_sequence_oid, NoLock);
	if (mark_begin_writing(mark))
		return MARK_OPENED;
	relation_close(mark->sequence, NoLock);
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
		LockRelease(&mark->lock, ExclusiveLock, false);
		RESUME_INTERRUPTS();
		AtEOXact_GUC(true, mark->nest_level);
		relation_close(mark->sequence, NoLock);
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

/* A session that makes one id need not build relcache entries. */
static Buffer
mark_pin_page(RelFileLocator file)
{
	return ReadBufferWithoutRelcache(file, MAIN_FORKNUM, 0, RBM_NORMAL, NULL,
									 true);
}

/*
 * Pin and lock the pages, and read them.  False if they are damaged; then they
 * are not locked.
 */
bool
MarkLockPages(Mark *mark)
{
	int			lock = mark->mode >= MARK_WRITE ?
	BUFFER_LOCK_EXCLUSIVE : BUFFER_LOCK_SHARE;

	/* all of this may throw, so do it first */
	mark->sequence_buffer = mark_pin_page(mark->sequence_file);
	mark->guard_buffer = mark_pin_page(mark->guard_file);
	mark->xlog = mark->mode >= MARK_WRITE ?
		GenericXLogStart(mark->sequence) : NULL;

	LockBuffer(mark->sequence_buffer, lock);
	LockBuffer(mark->guard_buffer, lock);
	/* up to the last column */
	mark->sequence_row =
		mark_first_row(mark->sequence_buffer,
					   offsetof(FormData_pg_sequence_data, is_called) +
					   sizeof(bool));
	mark->guard_row = mark_first_row(mark->guard_buffer, sizeof(Guard));
	if (mark->sequence_row == NULL || mark->guard_row == NULL)
	{
		MarkUnlockPages(mark);
		return false;
	}
	mark->value = ((Form_pg_sequence_data) mark->sequence_row)->last_value;
	memcpy(&mark->guard, mark->guard_row, sizeof(Guard));
	return true;
}

/* Unlock the pages without writing them. */
void
MarkUnlockPages(Mark *mark)
{
	UnlockReleaseBuffer(mark->guard_buffer);
	UnlockReleaseBuffer(mark->sequence_buffer);
	if (mark->xlog != NULL)
		GenericXLogAbort(mark->xlog);
	mark->xlog = NULL;
}

/* The row in the copy of its page that will be written. */
static char *
mark_row_to_write(GenericXLogState *state, Buffer buffer, const char *row)
{
	ptrdiff_t	offset = row - (const char *) BufferGetPage(buffer);

	return (char *) GenericXLogRegisterBuffer(state, buffer,
											  GENERIC_XLOG_FULL_IMAGE) +
		offset;
}

/*
 * Write a bound, with the id clock of now, and unlock the pages.  Returns
 * where the WAL record ends.  With wal_level = minimal there is none in the
 * transaction that creates the extension; its commit makes the files durable.
 */
XLogRecPtr
MarkWritePages(Mark *mark, int64 bound, TimestampTz clock)
{
	Guard		guard = {
		.bound = bound,
		.clock = clock,
		.database = MyDatabaseId,
		.system = (int64) GetSystemIdentifier()
	};
	Form_pg_sequence_data data;
	XLogRecPtr	lsn;

	Assert(mark->mode >= MARK_WRITE && mark->xlog != NULL);
	data = (Form_pg_sequence_data) mark_row_to_write(mark->xlog,
													 mark->sequence_buffer,
													 mark->sequence_row);
	data->last_value = bound;
	data->log_cnt = 0;
	data->is_called = true;
	memcpy(mark_row_to_write(mark->xlog, mark->guard_buffer, mark->guard_row),
		   &guard, sizeof(Guard));
	lsn = GenericXLogFinish(mark->xlog);
	mark->xlog = NULL;
	MarkUnlockPages(mark);
	return lsn;
}

/*
 * Whether this process knows the setting that names synchronous standbys as
 * it is now.  A parallel worker may not: it takes its leader's settings, and
 * is told of no reload.
 */
bool
MarkKnowsStandbys(void)
{
	return MyBackendType == B_BACKEND && !ConfigReloadPending;
}

/*
 * Whether synchronous standbys are named, as far as the checkpointer knows, or
 * this process, which may have read the setting before it.
 */
static bool
mark_has_standbys(void)
{
	bool		is_known;

	if (max_wal_senders == 0 || !IsUnderPostmaster)
		return false;
	return compat_standbys_are_named(&is_known) ||
		(SyncRepStandbyNames[0] != '\0' &&
		 (MarkKnowsStandbys() || !is_known));
}

/*
 * The synchronous standbys, as a hash of the setting that names them, as this
 * process has read it; 0 if there are none.  It is never 1, SOME_STANDBYS in
 * limit.c.
 */
uint64
MarkStandbys(void)
{
	if (!mark_has_standbys() || SyncRepStandbyNames[0] == '\0')
		return 0;
	return hash_bytes_extended((unsigned char *) SyncRepStandbyNames,
							   strlen(SyncRepStandbyNames), 0) | 2;
}

/* Whether synchronous standbys have yet to flush the WAL up to a position. */
static bool
mark_standbys_are_behind(XLogRecPtr lsn)
{
	bool		behind;

	if (!mark_has_standbys())
		return false;
	LWLockAcquire(SyncRepLock, LW_SHARED);
	behind = WalSndCtl->lsn[SYNC_REP_WAIT_FLUSH] < lsn;
	LWLockRelease(SyncRepLock);
	return behind;
}

/*
 * Flush the WAL up to a position, and wait until synchronous standbys have
 * flushed it, too.  Not in SyncRepWaitForLSN(), as commits do: it obeys the
 * session's synchronous_commit, and hides that the wait was canceled.  False
 * if it was: the caller must close the mark before the error is thrown.
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
