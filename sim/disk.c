/*-------------------------------------------------------------------------
 *
 * disk.c
 *	  The WAL, and the relations and pages of the mark.
 *
 * Each write of the mark is a WAL record with all that the disk has of a
 * database.  A crash leaves the records that were flushed and, maybe, some
 * more; a promotion leaves those that the standby has.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_extension.h"
#include "commands/extension.h"
#include "commands/sequence.h"
#include "replication/walsender_private.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "sim.h"

/* Where the row is on each of our pages. */
#define ROW_OFFSET		(BLCKSZ - 256)
#define ROW_HEADER		MAXALIGN(SizeofHeapTupleHeader)
/* A call for an id that flushes more often gets nowhere. */
#define MOST_FLUSHES	5

typedef struct Record
{
	XLogRecPtr	lsn;
	Disk		disk;
} Record;

/* The records of a database, the newest last. */
typedef struct History
{
	Record	   *records;
	int			number;
	int			space;
} History;

Database	databases[MAX_DATABASES_HERE];
XLogRecPtr	written;
XLogRecPtr	flushed;
XLogRecPtr	on_standby[NUM_STANDBYS];

SnapshotData SnapshotAnyData;

static History histories[MAX_DATABASES_HERE];
static RelationData relation;

/* The pages of a database, made from its Disk when they are locked. */
static char pages[2 * MAX_DATABASES_HERE][BLCKSZ]
			pg_attribute_aligned(MAXIMUM_ALIGNOF);
char	   *BufferBlocks = (char *) pages;
Block	   *LocalBufferBlockPointers;

/* What a process is about to write. */
static struct
{
	char		page[2][BLCKSZ];
	bool		registered[2];
}			images[MAX_PROCESSES];

/* A row that a process has found in a catalog, with its place in a scan. */
static struct
{
	HeapTupleData tuple;
	char		row[512] pg_attribute_aligned(MAXIMUM_ALIGNOF);
	int			next;
}			found_rows[MAX_PROCESSES];

/*
 * WAL
 */

/* Lack of memory, or a page that cannot be read: PostgreSQL's own errors. */
static void
may_fail(void)
{
	if (plan.server_fails && !at_rest && me != NULL && RandomOneIn(150))
		ereport(ERROR,
				(errcode(ERRCODE_IO_ERROR),
				 errmsg("the server fails")));
}

/* All databases are new, and on disk. */
void
DiskBegin(void)
{
	written = RECORD_SIZE;
	for (int i = 0; i < MAX_DATABASES_HERE; i++)
	{
		histories[i].number = 0;
		DiskLog(&databases[i]);
	}
	flushed = on_standby[0] = on_standby[1] = written;
}

/* Log what is committed of a database. */
void
DiskLog(Database *database)
{
	History    *history = &histories[database - databases];

	if (history->number == history->space)
	{
		history->space = history->space * 2 + 16;
		history->records =
			realloc(history->records, sizeof(Record) * history->space);
	}
	written += RECORD_SIZE;
	history->records[history->number].lsn = written;
	history->records[history->number++].disk = *TransactionCommitted(database);
}

/* The disk of a database as of a position in the WAL. */
Disk
DiskAt(const Database *database, XLogRecPtr lsn)
{
	const History *history = &histories[database - databases];
	int			i = history->number - 1;

	while (i > 0 && history->records[i].lsn > lsn)
		i--;
	return history->records[i].disk;
}

/* Lose what comes after a position in the WAL. */
void
DiskGoBack(XLogRecPtr lsn, bool promotion)
{
	for (int i = 0; i < plan.num_databases; i++)
	{
		History    *history = &histories[i];

		databases[i].disk = DiskAt(&databases[i], lsn);
		while (history->number > 1 &&
			   history->records[history->number - 1].lsn > lsn)
			history->number--;
	}
	flushed = written;
	if (promotion)
		on_standby[0] = on_standby[1] = written;
}

void
XLogFlush(XLogRecPtr lsn)
{
	XLogRecPtr	target;
	int64		longest;

	ProcessStep();
	if (lsn <= flushed)
		return;

	/* unless a lease ends, or others fill the lane meanwhile */
	if (++me->flushes > MOST_FLUSHES && !plan.leased &&
		plan.num_databases == 1 && WorldHasAmpleIds() &&
		strcmp(me->doing, "nextval") == 0)
		PromiseBroken("%s moves the limit again and again", me->doing);
	target = written;
	longest = plan.longest_flush * (RandomOneIn(50) ? 20 : 1);
	longest = Min(longest, 5 * USECS_PER_SEC);
	ProcessSleep(RandomBelow(longest + 1), PROCESS_FLUSHES);
	flushed = Max(flushed, target);
}

/*
 * Time has passed: standbys receive more, unless they are cut off.  What the
 * one that is named has flushed counts, even if another one is named later.
 */
void
DiskReplicate(void)
{
	XLogRecPtr *confirmed = &WalSndCtl->lsn[SYNC_REP_WAIT_FLUSH];

	for (int i = 0; i < NUM_STANDBYS; i++)
	{
		if (on_standby[i] < flushed && reference >= standby_returns_at[i])
			on_standby[i] +=
				RandomBelow(flushed - on_standby[i] + 1);
		if (on_standby[i] == flushed)
			standby_had_all_at[i] = reference;
		if (configured_standby == i + 1)
			*confirmed = Max(*confirmed, on_standby[i]);
	}
}

/*
 * Catalogs
 */

static Database *
my_database(void)
{
	return &databases[me->database];
}

Oid
get_namespace_oid(const char *name, bool missing_ok)
{
	ProcessStep();
	return 99;
}

Oid
getExtensionOfObject(Oid class, Oid object)
{
	return TransactionSees(my_database())->extension;
}

Oid
get_extension_oid(const char *name, bool missing_ok)
{
	return TransactionSees(my_database())->extension;
}

Oid
get_relname_relid(const char *name, Oid schema)
{
	const Disk *disk = TransactionSees(my_database());

	ProcessStep();
	return !OidIsValid(disk->extension) ? InvalidOid :
		disk->relations + (strcmp(name, "guard") == 0 ? 1 : 0);
}

/* An empty row. */
static HeapTuple
make_row(TransactionId xmin)
{
	HeapTuple	tuple = &found_rows[me->id].tuple;

	memset(tuple, 0, sizeof(*tuple));
	memset(found_rows[me->id].row, 0, sizeof(found_rows[0].row));
	tuple->t_data = (HeapTupleHeader) found_rows[me->id].row;
	tuple->t_data->t_hoff = ROW_HEADER;
	tuple->t_data->t_infomask = HEAP_XMAX_INVALID;
	HeapTupleHeaderSetXmin(tuple->t_data, xmin);
	return tuple;
}

/* The rows of pg_class. */
HeapTuple
SearchSysCache1(int cache, Datum key)
{
	Database   *database = my_database();
	const Disk *disk = TransactionSees(database);
	Oid			which = DatumGetObjectId(key) - disk->relations;
	HeapTuple	tuple;
	Form_pg_class form;

	ProcessStep();
	if (!OidIsValid(disk->extension) || which > 1)
		return NULL;
	tuple = make_row(disk->rows[which]);
	form = (Form_pg_class) GETSTRUCT(tuple);
	form->relkind = which == 1 ? RELKIND_MATVIEW : RELKIND_SEQUENCE;
	form->relispopulated = true;
	form->relpersistence = RELPERSISTENCE_PERMANENT;
	form->relam = HEAP_TABLE_AM_OID;
	form->relfilenode = which;
	return tuple;
}

/* All rows of pg_extension, those that are dead as well */
SysScanDesc
systable_beginscan(Relation scanned, Oid index, bool index_ok,
				   Snapshot snapshot, int num_keys, ScanKey keys)
{
	found_rows[me->id].next = 0;
	return NULL;
}

HeapTuple
systable_getnext(SysScanDesc scan)
{
	Database   *database = my_database();
	ExtensionRow *row = &database->extensions[found_rows[me->id].next++];
	HeapTuple	tuple;
	Form_pg_extension form;

	if (row == &database->extensions[MAX_EXTENSION_ROWS] ||
		!OidIsValid(row->oid))
		return NULL;
	tuple = make_row(row->xmin);
	if (TransactionIdIsValid(row->xmax))
	{
		tuple->t_data->t_infomask &= ~HEAP_XMAX_INVALID;
		HeapTupleHeaderSetXmax(tuple->t_data, row->xmax);
	}
	form = (Form_pg_extension) GETSTRUCT(tuple);
	form->oid = row->oid;
	strcpy(NameStr(form->extname), "snowflake");
	return tuple;
}

/*
 * Relations
 */

Relation
relation_open(Oid oid, LOCKMODE lockmode)
{
	may_fail();
	ProcessStep();
	return &relation;
}

Relation
table_open(Oid oid, LOCKMODE lockmode)
{
	return relation_open(oid, lockmode);
}

bool
ConditionalLockRelationOid(Oid oid, LOCKMODE lockmode)
{
	Database   *database = my_database();

	may_fail();
	ProcessStep();
	if (TransactionKeeps(database, oid % 2))
		return false;
	database->relation_locks[oid % 2]++;
	me->num_relations[oid % 2]++;
	return true;
}

void
UnlockRelationOid(Oid oid, LOCKMODE lockmode)
{
	ProcessStep();
	my_database()->relation_locks[oid % 2]--;
	me->num_relations[oid % 2]--;
}

/* The lock of the mark; processes of one group do not exclude each other. */
LockAcquireResult
LockAcquire(const LOCKTAG *tag, LOCKMODE lockmode, bool for_session,
			bool dont_wait)
{
	Database   *database = my_database();

	ProcessStep();
	may_fail();
	if (tag->locktag_field4 != 1 || !dont_wait)
		PromiseBroken("the mark is locked in another way");
	if (database->writers > 0 && database->writers_group != me->group)
		return LOCKACQUIRE_NOT_AVAIL;
	database->writers++;
	database->writers_group = me->group;
	me->holds_mark = true;
	return LOCKACQUIRE_OK;
}

bool
LockRelease(const LOCKTAG *tag, LOCKMODE lockmode, bool for_session)
{
	ProcessStep();
	if (!me->holds_mark)
		PromiseBroken("the lock of the mark is released, but not held");
	my_database()->writers--;
	me->holds_mark = false;
	return true;
}

/*
 * Pages
 */

Buffer
ReadBufferWithoutRelcache(RelFileLocator file, ForkNumber fork,
						  BlockNumber block,
						  ReadBufferMode mode, BufferAccessStrategy strategy,
						  bool permanent)
{
	may_fail();
	ProcessStep();
	me->num_pins++;
	return 1 + 2 * me->database + file.relNode;
}

static Database *
database_of(Buffer buffer)
{
	return &databases[(buffer - 1) / 2];
}

/* Lay out a page, and fill its row from the disk. */
static void
fill_page(Buffer buffer)
{
	const Disk *disk = &database_of(buffer)->disk;
	char	   *page = pages[buffer - 1];
	PageHeader	header = (PageHeader) page;
	HeapTupleHeader tuple = (HeapTupleHeader) (page + ROW_OFFSET);

	header->pd_lower = SizeOfPageHeaderData + sizeof(ItemIdData);
	header->pd_upper = ROW_OFFSET;
	header->pd_special = BLCKSZ;
	PageSetLSN(page, disk->lsn);
	ItemIdSetNormal(&header->pd_linp[0], ROW_OFFSET, BLCKSZ - ROW_OFFSET);
	tuple->t_hoff = ROW_HEADER;
	if ((buffer - 1) % 2 == 0)
		((Form_pg_sequence_data) ((char *) tuple + ROW_HEADER))->last_value =
			disk->value;
	else
		memcpy((char *) tuple + ROW_HEADER, &disk->guard, sizeof(Guard));
}

void
LockBuffer(Buffer buffer, int mode)
{
	LWLockAcquire(&database_of(buffer)->pages[(buffer - 1) % 2],
				  mode == BUFFER_LOCK_EXCLUSIVE ? LW_EXCLUSIVE : LW_SHARED);
	fill_page(buffer);
}

void
UnlockReleaseBuffer(Buffer buffer)
{
	LWLockRelease(&database_of(buffer)->pages[(buffer - 1) % 2]);
	me->num_pins--;
}

GenericXLogState *
GenericXLogStart(Relation changed)
{
	may_fail();
	ProcessStep();
	images[me->id].registered[0] = images[me->id].registered[1] = false;
	return (GenericXLogState *) &images[me->id];
}

Page
GenericXLogRegisterBuffer(GenericXLogState *state, Buffer buffer, int flags)
{
	int			which = (buffer - 1) % 2;

	if (!images[me->id].registered[which])
		memcpy(images[me->id].page[which], pages[buffer - 1], BLCKSZ);
	images[me->id].registered[which] = true;
	return images[me->id].page[which];
}

XLogRecPtr
GenericXLogFinish(GenericXLogState *state)
{
	Database   *database = my_database();
	char	   *sequence = images[me->id].page[0] + ROW_OFFSET + ROW_HEADER;

	ProcessStep();
	if (!images[me->id].registered[0] || !images[me->id].registered[1] ||
		me->num_pages != 2)
		PromiseBroken("a page of the mark is missing from its record, or is not locked");
	PromiseMark();
	database->disk.value = ((Form_pg_sequence_data) sequence)->last_value;
	memcpy(&database->disk.guard,
		   images[me->id].page[1] + ROW_OFFSET + ROW_HEADER, sizeof(Guard));
	DiskWritten(database);
	MemoryFullBarrier();
	Say("writes the mark " INT64_FORMAT " at %llu", database->disk.guard.bound, (unsigned long long) written);
	return written;
}

/* The files of the mark were written to. */
void
DiskWritten(Database *database)
{
	database->disk.lsn = written + RECORD_SIZE;
	TransactionNoteWrite(database);
	DiskLog(database);
}
