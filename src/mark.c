/*-------------------------------------------------------------------------
 *
 * mark.c
 *	  The mark and its guard on disk.
 *
 * Each database that has the extension keeps a bound of its ids:
 *
 *		Every id that was ever returned is at most the bound, and the bound
 *		was on disk before the id was returned.  After a start, every new id
 *		is greater than the bound.
 *
 * The bound is kept in two places; the greater one counts.  Both are in the
 * schema snowflake_internal, and are written together:
 *
 * - The mark is the last_value of a sequence.  pg_dump saves it, a restore
 *	 sets it, and the owner of the database may set it, too.
 * - The guard is the row of a materialized view, which no SQL command lowers:
 *	 it takes no DML, is neither published nor dumped, and a REFRESH keeps its
 *	 row.  It also holds what a reset decided, see adjust.c.
 *
 * The pages are written with generic WAL.  That needs no transaction id, so
 * ids can be made in read-only transactions and in parallel workers.  We log
 * full images, because a delta would leave out bytes that core's nextval() may
 * have changed without logging them.
 *
 * Writing is not transactional, but the two relations are.  If a transaction
 * that has created them fails, they are gone with their contents.  If one that
 * has given them new files fails, the old files come back, without what was
 * written to the new ones.  MarkCheckStays() refuses to write in such a
 * transaction.
 *
 * Note about locking issues: one session at a time moves the mark.  It holds
 * a lock on the guard, with a sub-id that nobody else uses, and waits for no
 * other lock meanwhile: it locks the relations as nextval() does, but only if
 * that is possible at once.  Content locks guard what the pages hold.  They
 * are taken on the sequence first, and released before the WAL is flushed, see
 * flush.c.
 *
 * The lock on the guard does not exclude processes of the same parallel group,
 * so LimitMove() must be correct without it.  AdjustReset() relies on it,
 * because a session that has looked at the clock before the reset must not
 * move the mark after it; but no parallel query runs AdjustReset().
 *
 * snowflake/src/mark.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "commands/extension.h"
#include "commands/sequence.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "compat.h"
#include "extension.h"
#include "mark.h"
#include "settings.h"

/* the sub-id of our lock on the guard; a lock on the relation itself has 0 */
#define MARK_LOCK_SUBID		1

/* The two relations, as the session has found them. */
static Oid	sequence_oid = InvalidOid;
static Oid	view_oid = InvalidOid;


/*
 * Whether the running transaction, or a subtransaction of it, made a row, and
 * so may still take it back.  If so, note which of them did: *changed_by is
 * the one that made all rows noted so far, or FrozenTransactionId if several
 * did.
 */
static bool
note_change(TransactionId *changed_by, HeapTuple tuple)
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
created_here(bool *dropped)
{
	Oid			current = get_extension_oid("snowflake", false);
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
		if (extension->oid == current && note_change(&created, tuple))
			continue;
		if (!(header->t_infomask & HEAP_XMAX_INVALID) &&
			TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetUpdateXid(header)))
			*dropped = true;
	}
	systable_endscan(scan);
	table_close(extensions, AccessShareLock);
	return created;
}

/*
 * Refuse to write the mark if the running transaction has changed it: after a
 * rollback, be it to a savepoint, the old mark would come back and not cover
 * the new ids.  It is all right if the same subtransaction has created the
 * extension, and none was dropped, because then there is no old mark.
 */
void
MarkCheckStays(const Mark *mark)
{
	bool		dropped;

	if (TransactionIdIsValid(mark->changed_by) &&
		(mark->changed_by == FrozenTransactionId ||
		 mark->changed_by != created_here(&dropped) || dropped))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("snowflake mark was changed in this transaction"),
				 errdetail("If the transaction fails, the old mark comes back, and does not cover new ids."),
				 errhint("Make ids after the transaction has been committed.")));
}

static void
throw_empty(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("materialized view \"snowflake_internal.guard\" has no row"),
			 errdetail("It held the bound of all snowflake ids of this database."),
			 errhint("Drop the extension and create it again, then call snowflake_advance() with the largest existing id.")));
}

/*
 * Look up a relation, which must be locked.  Returns false if it is gone or,
 * with MARK_PEEK, if it cannot hold the mark.
 */
static bool
look_up(Mark *mark, Oid oid, char relkind, CompatFile *file)
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
		throw_empty();
	if (!usable && mark->mode != MARK_PEEK)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("relation \"%s\" cannot hold the snowflake mark",
						NameStr(form->relname)),
				 errdetail("The mark must be a permanent sequence, and its guard a permanent materialized view of the access method \"heap\"."),
				 errhint("Use ALTER SEQUENCE ... SET LOGGED, or ALTER MATERIALIZED VIEW ... SET ACCESS METHOD.")));
	note_change(&mark->changed_by, tuple);
	*file = compat_file(form);
	ReleaseSysCache(tuple);
	return usable;
}

static void
unlock(Mark *mark, bool view)
{
	if (view)
		UnlockRelationOid(view_oid, mark->lockmode);
	UnlockRelationOid(sequence_oid, mark->lockmode);
	if (mark->mode >= MARK_TRY)
		LockRelease(&mark->lock, ExclusiveLock, false);
}

/* Find the two relations, and lock them. */
static MarkOpenResult
lock_relations(Mark *mark)
{
	MarkMode	mode = mark->mode;

	for (;;)
	{
		if (!OidIsValid(view_oid))
		{
			Oid			schema = ExtensionSchema();

			sequence_oid = get_relname_relid("mark", schema);
			view_oid = get_relname_relid("guard", schema);
		}
		if (!OidIsValid(view_oid) || !OidIsValid(sequence_oid))
		{
			view_oid = InvalidOid;
			if (mode == MARK_PEEK)
				return MARK_MISSING;
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("snowflake mark does not exist"),
					 errdetail("The extension must have the sequence \"snowflake_internal.mark\" and the materialized view \"snowflake_internal.guard\"."),
					 errhint("Drop the extension and create it again, then call snowflake_advance() with the largest existing id.")));
		}

		SET_LOCKTAG_OBJECT(mark->lock, MyDatabaseId, RelationRelationId,
						   view_oid, MARK_LOCK_SUBID);
		if (mode >= MARK_TRY &&
			LockAcquire(&mark->lock, ExclusiveLock, false, mode == MARK_TRY) == LOCKACQUIRE_NOT_AVAIL)
			return MARK_BUSY;
		if (!ConditionalLockRelationOid(sequence_oid, mark->lockmode))
		{
			if (mode >= MARK_TRY)
				LockRelease(&mark->lock, ExclusiveLock, false);
			return MARK_LOCKED;
		}
		if (!ConditionalLockRelationOid(view_oid, mark->lockmode))
		{
			unlock(mark, false);
			return MARK_LOCKED;
		}

		/* now that we hold the locks, they can no longer change */
		mark->changed_by = InvalidTransactionId;
		if (look_up(mark, sequence_oid, RELKIND_SEQUENCE, &mark->sequence_file) &&
			look_up(mark, view_oid, RELKIND_MATVIEW, &mark->view_file))
			break;
		unlock(mark, true);
		view_oid = InvalidOid;
		if (mode == MARK_PEEK)
			return MARK_MISSING;
	}
	mark->sequence = mode >= MARK_TRY ? relation_open(sequence_oid, NoLock) : NULL;
	return MARK_OPENED;
}

/* Open the mark and its guard. */
MarkOpenResult
MarkOpen(Mark *mark, MarkMode mode)
{
	MarkOpenResult result;

	mark->mode = mode;
	mark->lockmode = mode >= MARK_TRY ? RowExclusiveLock : AccessShareLock;

	/*
	 * Until we close it, send the client nothing but errors.  Anybody may ask
	 * for PostgreSQL's DEBUG messages and for those of log_lock_waits, and to
	 * send one takes forever if the client does not read.  All others would
	 * wait for us meanwhile.
	 */
	mark->nest_level = NewGUCNestLevel();
	(void) set_config_option("client_min_messages", "error",
							 PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
							 true, 0, false);
	result = lock_relations(mark);
	if (result != MARK_OPENED)
		AtEOXact_GUC(true, mark->nest_level);
	return result;
}

void
MarkClose(Mark *mark)
{
	if (mark->sequence != NULL)
		relation_close(mark->sequence, NoLock);
	unlock(mark, true);
	AtEOXact_GUC(true, mark->nest_level);
}

/* The data of the first row of a page, of at least "size" bytes; or NULL. */
char *
MarkFirstRow(Buffer buffer, Size size)
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

/* An error leaves the page locked until the transaction is aborted. */
static char *
row_of_mark(Buffer buffer, Size size)
{
	char	   *row = MarkFirstRow(buffer, size);

	if (row == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("snowflake mark is damaged"),
				 errdetail("The first row is not where it should be in \"snowflake_internal.mark\" or \"snowflake_internal.guard\"."),
				 errhint("Drop the extension and create it again, then call snowflake_advance() with the largest existing id.")));
	return row;
}

static Form_pg_sequence_data
sequence_row(const Mark *mark)
{
	return (Form_pg_sequence_data)
		row_of_mark(mark->sequence_buffer,
					offsetof(FormData_pg_sequence_data, is_called) + sizeof(bool));
}

static char *
view_row(const Mark *mark)
{
	return row_of_mark(mark->view_buffer, sizeof(Guard));
}

static Buffer
lock_page(const Mark *mark, CompatFile file)
{
	/* a session that makes one id need not build relcache entries */
	Buffer		buffer = ReadBufferWithoutRelcache(file, MAIN_FORKNUM, 0,
												   RBM_NORMAL, NULL, true);

	LockBuffer(buffer, mark->mode >= MARK_TRY ? BUFFER_LOCK_EXCLUSIVE : BUFFER_LOCK_SHARE);
	return buffer;
}

/* Pin and lock the pages, and read them. */
void
MarkLockPages(Mark *mark)
{
	mark->sequence_buffer = lock_page(mark, mark->sequence_file);
	mark->view_buffer = lock_page(mark, mark->view_file);
	mark->value = sequence_row(mark)->last_value;
	memcpy(&mark->guard, view_row(mark), sizeof(Guard));
}

static void
unlock_pages(const Mark *mark)
{
	UnlockReleaseBuffer(mark->view_buffer);
	UnlockReleaseBuffer(mark->sequence_buffer);
}

/* Unlock the pages and close the mark, without writing it. */
void
MarkLeave(Mark *mark)
{
	unlock_pages(mark);
	MarkClose(mark);
}

/* Read the mark.  False if it could not be opened. */
bool
MarkLook(Mark *mark, MarkMode mode)
{
	if (MarkOpen(mark, mode) != MARK_OPENED)
		return false;
	MarkLockPages(mark);
	MarkLeave(mark);
	return true;
}

/* The row in the copy of its page that will be written. */
char *
MarkCopyOfRow(GenericXLogState *state, Buffer buffer, const void *row)
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
	GenericXLogState *state = GenericXLogStart(mark->sequence);
	Form_pg_sequence_data data;
	XLogRecPtr	lsn;

	data = (Form_pg_sequence_data) MarkCopyOfRow(state, mark->sequence_buffer, sequence_row(mark));
	data->last_value = mark->guard.bound;
	data->log_cnt = 0;
	data->is_called = true;
	memcpy(MarkCopyOfRow(state, mark->view_buffer, view_row(mark)), &mark->guard, sizeof(Guard));
	lsn = GenericXLogFinish(state);
	unlock_pages(mark);
	return lsn;
}

void
MarkThrowLocked(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("could not obtain lock on the snowflake mark"),
			 errdetail("Another transaction is changing or dropping a relation that holds it. \"snowflake.max_wait\" is %d ms.",
					   setting_max_wait),
			 errhint("Ids can be made once that transaction has ended.")));
}

/*
 * The contents of the guard, for the query of the materialized view, so that a
 * REFRESH keeps them.  While the extension is created, there are none yet.
 */
Guard
MarkCurrentGuard(void)
{
	Mark		mark;
	Guard		guard = {.exempt = -1};
	Relation	view;
	bool		dropped;

	if (MarkOpen(&mark, MARK_READ) != MARK_OPENED)
		MarkThrowLocked();
	view = relation_open(view_oid, NoLock);
	if (RelationGetNumberOfBlocks(view) > 0)
	{
		MarkLockPages(&mark);
		guard = mark.guard;
		unlock_pages(&mark);
	}
	else if (!TransactionIdIsValid(created_here(&dropped)))
		throw_empty();
	relation_close(view, NoLock);
	MarkClose(&mark);
	return guard;
}
