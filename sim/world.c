/*-------------------------------------------------------------------------
 *
 * world.c
 *	  The server, its databases and its disk, and what befalls them.
 *
 * Each write of the mark is a WAL record with all that the disk has of a
 * database.  A crash leaves the records that were flushed and, maybe, some
 * more; a promotion leaves those that the standby has.
 *
 * snowflake/sim/world.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/generic_xlog.h"
#include "access/htup_details.h"
#include "access/xlog.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_control.h"
#include "commands/sequence.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "replication/syncrep.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "compat.h"
#include "extension.h"
#include "lane.h"
#include "memory.h"
#include "settings.h"
#include "shared.h"
#include "worker.h"
#include "world.h"

/* A record of the WAL takes so many bytes. */
#define RECORD_SIZE		10
/* Where the row is on each of our pages. */
#define ROW_OFFSET		(BLCKSZ - 256)
#define ROW_HEADER		MAXALIGN(SizeofHeapTupleHeader)

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
Grant		grants[MAX_GRANTS];
int			num_grants;
int			run;
int64		made_since_start;
int			configured_ahead;
int			configured_worker;
int			configured_wait;
uint32		configuration;
Layout	   *world_layout;

static History histories[MAX_DATABASES_HERE];
static XLogRecPtr written;
static XLogRecPtr flushed;
static XLogRecPtr on_standby;
static TimeLineID timeline;
static TransactionId next_xid;
static int	last_incarnation;
static int	next_worker;		/* all before it may have been used */
static int	configured_jump;
static int	configured_start;
static pg_time_t checkpoint;
static int64 offsets[4];		/* where the clock likes to be */
static TimestampTz free_from[4];	/* worker ids of the registry */
static Layout layouts[2];
static RelationData relation;

/* The pages of a database, made from its Disk when they are locked. */
static char pages[2 * MAX_DATABASES_HERE][BLCKSZ] pg_attribute_aligned(MAXIMUM_ALIGNOF);
char	   *BufferBlocks = (char *) pages;
Block	   *LocalBufferBlockPointers;

/* What a process is about to write. */
static struct
{
	char		page[2][BLCKSZ];
	bool		registered[2];
}			images[MAX_PROCESSES];


/*
 * WAL
 */

void
WorldWrite(Database *database)
{
	History    *history = &histories[database - databases];

	if (history->number == history->space)
	{
		history->space = history->space * 2 + 16;
		history->records = realloc(history->records, sizeof(Record) * history->space);
	}
	written += RECORD_SIZE;
	history->records[history->number].lsn = written;
	history->records[history->number++].disk = database->disk;
}

/* The disk of a database as of a position in the WAL. */
static Disk
disk_at(const Database *database, XLogRecPtr lsn)
{
	const History *history = &histories[database - databases];
	int			i = history->number - 1;

	while (i > 0 && history->records[i].lsn > lsn)
		i--;
	return history->records[i].disk;
}

Disk
WorldFlushed(const Database *database, bool by_standby)
{
	return disk_at(database, by_standby ? on_standby : flushed);
}

/* Forget records that nothing goes back to. */
static void
prune(History *history)
{
	XLogRecPtr	oldest = Min(flushed, on_standby);
	int			keep = history->number - 1;

	if (history->number < 64)
		return;
	while (keep > 0 && history->records[keep].lsn > oldest)
		keep--;
	history->number -= keep;
	memmove(history->records, history->records + keep, sizeof(Record) * history->number);
}

void
XLogFlush(XLogRecPtr lsn)
{
	XLogRecPtr	target;

	ProcessStep();
	if (lsn <= flushed)
		return;
	target = written;
	ProcessSleep(RandomBelow(plan.longest_flush * (RandomOneIn(50) ? 20 : 1) + 1), PROCESS_FLUSHES);
	flushed = Max(flushed, target);
}

/* Time has passed: the standby receives more. */
void
WorldProgress(void)
{
	if (on_standby < flushed)
		on_standby += RandomBelow(flushed - on_standby + 1);
	if (WalSndCtl != NULL)
		WalSndCtl->lsn[SYNC_REP_WAIT_FLUSH] = on_standby;
}

ControlFileData *
get_controlfile(const char *directory, bool *crc_ok)
{
	ControlFileData *control = palloc0(sizeof(ControlFileData));

	control->checkPointCopy.time = checkpoint;
	*crc_ok = true;
	return control;
}

/*
 * The mark's relations
 */

static Database *
my_database(void)
{
	return &databases[me->database];
}

/* Each extension makes relations with other OIDs. */
static Oid
relation_oid(const Database *database, bool guard)
{
	return 10000 + 10000 * (database - databases) + 2 * database->disk.relations + guard;
}

Oid
ExtensionSchema(void)
{
	ProcessStep();
	return 99;
}

Oid
get_relname_relid(const char *name, Oid schema)
{
	ProcessStep();
	return relation_oid(my_database(), strcmp(name, "guard") == 0);
}

/* The rows of pg_database and pg_class. */
HeapTuple
SearchSysCache1(int cache, Datum key)
{
	static struct
	{
		HeapTupleData tuple;
		char		row[512] pg_attribute_aligned(MAXIMUM_ALIGNOF);
	}			found[MAX_PROCESSES];
	Database   *database = my_database();
	HeapTuple	tuple = &found[me->id].tuple;
	Oid			oid = DatumGetObjectId(key);
	bool		guard = oid == relation_oid(database, true);
	Form_pg_class form;

	ProcessStep();
	memset(&found[me->id], 0, sizeof(found[0]));
	tuple->t_data = (HeapTupleHeader) found[me->id].row;
	tuple->t_data->t_hoff = ROW_HEADER;
	HeapTupleHeaderSetXmin(tuple->t_data, database->row);
	if (cache == DATABASEOID)
		return tuple;
	if (!guard && oid != relation_oid(database, false))
		return NULL;
	form = (Form_pg_class) GETSTRUCT(tuple);
	form->relkind = guard ? RELKIND_MATVIEW : RELKIND_SEQUENCE;
	form->relispopulated = true;
	form->relpersistence = RELPERSISTENCE_PERMANENT;
	form->relam = HEAP_TABLE_AM_OID;
	form->relfilenode = guard;
	return tuple;
}

void
ReleaseSysCache(HeapTuple tuple)
{
}

Relation
relation_open(Oid oid, LOCKMODE lockmode)
{
	ProcessStep();
	return &relation;
}

void
relation_close(Relation closed, LOCKMODE lockmode)
{
}

Relation
table_open(Oid oid, LOCKMODE lockmode)
{
	return relation_open(oid, lockmode);
}

void
table_close(Relation closed, LOCKMODE lockmode)
{
}

BlockNumber
RelationGetNumberOfBlocksInFork(Relation counted, ForkNumber fork)
{
	return 1;
}

/* Whether a transaction keeps the relations from all others. */
static bool
is_kept(const Database *database)
{
	return (database->locked_until > reference || database->recreated) && !me->recreates;
}

bool
ConditionalLockRelationOid(Oid oid, LOCKMODE lockmode)
{
	Database   *database = my_database();

	ProcessStep();
	if (is_kept(database))
		return false;
	database->relation_locks++;
	me->num_relations++;
	return true;
}

void
UnlockRelationOid(Oid oid, LOCKMODE lockmode)
{
	ProcessStep();
	my_database()->relation_locks--;
	me->num_relations--;
}

/* The lock of the mark; processes of one group do not exclude each other. */
LockAcquireResult
LockAcquire(const LOCKTAG *tag, LOCKMODE lockmode, bool for_session, bool dont_wait)
{
	Database   *database = my_database();

	ProcessStep();
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
 * Its pages
 */

Buffer
ReadBufferWithoutRelcache(CompatFile file, ForkNumber fork, BlockNumber block,
						  ReadBufferMode mode, BufferAccessStrategy strategy, bool permanent)
{
	ProcessStep();
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
	ItemIdSetNormal(&header->pd_linp[0], ROW_OFFSET, BLCKSZ - ROW_OFFSET);
	tuple->t_hoff = ROW_HEADER;
	if ((buffer - 1) % 2 == 0)
		((Form_pg_sequence_data) ((char *) tuple + ROW_HEADER))->last_value = disk->value;
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
}

GenericXLogState *
GenericXLogStart(Relation changed)
{
	ProcessStep();
	images[me->id].registered[0] = images[me->id].registered[1] = false;
	return (GenericXLogState *) &images[me->id];
}

void
GenericXLogAbort(GenericXLogState *state)
{
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
	if (!images[me->id].registered[0] || !images[me->id].registered[1] || me->num_pages != 2)
		PromiseBroken("a page of the mark is missing from its record, or is not locked");
	database->disk.value = ((Form_pg_sequence_data) sequence)->last_value;
	memcpy(&database->disk.guard, images[me->id].page[1] + ROW_OFFSET + ROW_HEADER, sizeof(Guard));
	/* what a transaction writes to its own extension, its commit logs */
	if (me->recreates)
		written += RECORD_SIZE;
	else
		WorldWrite(database);
	MemoryFullBarrier();
	counts.moves++;
	Say("writes the mark " INT64_FORMAT " at %llu", database->disk.guard.bound, (unsigned long long) written);
	return written;
}

/*
 * Settings
 */

TimeLineID
GetWALInsertionTimeLine(void)
{
	return timeline;
}

FullTransactionId
ReadNextFullTransactionId(void)
{
	ProcessStep();
	return FullTransactionIdFromU64(next_xid);
}

/* A process reads the configuration. */
void
WorldLoadSettings(void)
{
	setting_worker_id = configured_worker;
	setting_max_ahead = configured_ahead;
	setting_max_wait = configured_wait;
	setting_max_jump = configured_jump;
	setting_sequence_start = configured_start;
	memcpy(&setting_layout, world_layout, sizeof(Layout));
	setting_registry = plan.leased ? "host=registry" : "";
	settings_version++;
	if (me != NULL)
		me->configuration = configuration;
}

/* The operator gives the server a worker id that has made no ids, if any is left. */
static void
choose_fresh_worker(void)
{
	if (next_worker >= LayoutLargest(world_layout, FIELD_WORKER))
		return;
	configured_worker = ++next_worker;
	configuration++;
	Say("the operator sets the fresh worker id %d", configured_worker);
}

static int
pick(int number, const int *values)
{
	return values[RandomBelow(number)];
}

#define PICK(...) \
	pick(sizeof((int[]) {__VA_ARGS__}) / sizeof(int), (int[]) {__VA_ARGS__})

/* Make up a layout: few lanes and sequences, so that they fill up. */
static void
make_layout(Layout *layout)
{
	static const char *const ticks[] = {"1ms", "1ms", "4ms", "10ms", "100ms", "1s", "100us"};
	int			bits[] = {
		PICK(2, 4, 4, 6), PICK(0, 0, 2, 4), PICK(0, 0, 1, 1, 2, 3), PICK(0, 1, 2, 2, 3, 5, 8)
	};
	static const char *const names[] = {"worker", "timeline", "lane", "sequence"};
	int			order[] = {0, 1, 2, 3};
	char		text[200];
	char	   *end = text;
	char	   *reason;

	if (!plan.leased && RandomOneIn(8))
		bits[0] = 0;
	if (bits[2] == 0 && bits[3] == 0)
		bits[3] = 1;
	for (int i = 3; i > 0; i--)
	{
		int			j = RandomBelow(i + 1);
		int			swap = order[i];

		order[i] = order[j];
		order[j] = swap;
	}
	end += sprintf(end, "time:%d tick:%s", Min(44, LAYOUT_MAX_BITS - bits[0] - bits[1] - bits[2] - bits[3]),
				   ticks[RandomBelow(lengthof(ticks))]);
	for (int i = 0; i < 4; i++)
		end += sprintf(end, " %s:%d", names[order[i]], bits[order[i]]);
	if (!LayoutParse(text, layout, &reason))
		elog(PANIC, "invalid layout \"%s\": %s", text, reason);
	Say("layout %s", text);
}

/*
 * The server
 */

/* Start it.  "by_crash": the postmaster has lived on. */
static void
start_server(bool by_crash)
{
	PostgresReset();
	WalSndCtl->lsn[SYNC_REP_WAIT_FLUSH] = on_standby;
	run++;
	made_since_start = 0;
	if (!by_crash)
		ProcessNewPostmaster();
	process_shared_preload_libraries_in_progress = plan.preloaded;
	SettingsDefine();
	WorldLoadSettings();
	if (plan.preloaded)
	{
		if (!by_crash)
			SharedInit();
		shmem_startup_hook();
	}
	process_shared_preload_libraries_in_progress = false;
	ProcessSavePostmaster();
	for (int i = 0; i < plan.num_databases; i++)
	{
		Database   *database = &databases[i];

		LWLockInitialize(&database->pages[0], LWTRANCHE_BUFFER_CONTENT);
		LWLockInitialize(&database->pages[1], LWTRANCHE_BUFFER_CONTENT);
		database->sessions = database->writers = database->relation_locks = 0;
		database->resetting = 0;
		database->locked_until = 0;
		database->recreated = false;
		database->resets++;
		database->advanced = 0;
		database->found = Max(database->disk.value, database->disk.guard.bound);
		database->found_guard = database->disk.guard.bound;
	}
	PromiseNewServer(by_crash);
	for (int i = 0; i < plan.num_processes; i++)
		processes[i].state = PROCESS_FREE;
}

/* The server goes down, and comes up with the WAL up to a position. */
static void
restart(XLogRecPtr lsn, bool promotion)
{
	bool		by_crash = !promotion && RandomOneIn(2);

	Say("%s with the WAL up to %llu of %llu", promotion ? "a standby is promoted" : by_crash ? "the server crashes" : "the server is restarted",
		(unsigned long long) lsn, (unsigned long long) written);
	for (int i = 0; i < plan.num_databases; i++)
	{
		History    *history = &histories[i];

		databases[i].disk = disk_at(&databases[i], lsn);
		while (history->number > 1 && history->records[history->number - 1].lsn > lsn)
			history->number--;
	}
	flushed = written;
	on_standby = promotion || lsn > on_standby ? written : on_standby;
	if (promotion)
		timeline++;
	if (!by_crash)
	{
		int64		down = RandomSize(5000000);

		PromiseNoteClock(down);
		reference += down;
		checkpoint = GetCurrentTimestamp() / USECS_PER_SEC;
		if (plan.clock_steps > 0 && RandomOneIn(3))
			wall_offset = offsets[RandomBelow(lengthof(offsets))];
		/* servers with different layouts can make equal ids */
		if (!promotion && plan.layout_changes > 0 && RandomOneIn(4))
		{
			world_layout = &layouts[world_layout == &layouts[0]];
			Say("with another layout");
			if (configured_worker > LayoutLargest(world_layout, FIELD_WORKER))
				configured_worker = LayoutLargest(world_layout, FIELD_WORKER);
		}
		if (plan.reset && RandomOneIn(2))
			choose_fresh_worker();
	}
	start_server(by_crash);
}

/* Interrupt a process. */
static void
interrupt(bool die)
{
	Process    *process = &processes[RandomBelow(plan.num_processes)];

	if (process->state == PROCESS_FREE || process->is_lease_worker)
		return;
	*(volatile sig_atomic_t *) ProcessStatic(process, die ? &ProcDiePending : &QueryCancelPending) = true;
	*(volatile sig_atomic_t *) ProcessStatic(process, &InterruptPending) = true;
	ProcessSetLatch(process);
	counts.cancels++;
	Say("process %d is %s", process->id, die ? "terminated" : "canceled");
}

static void
step_clock(void)
{
	counts.clock_steps++;
	if (RandomOneIn(3))
		wall_offset = offsets[RandomBelow(lengthof(offsets))];
	else
		wall_offset += RandomOneIn(2) ? RandomSize(3000000) : -RandomSize(3000000);
	PromiseNoteClock(0);
	Say("the clock is set to " INT64_FORMAT " us from its start", wall_offset);
}

static void
reload(void)
{
	if (plan.leased)
		return;
	configured_worker = RandomBelow(next_worker + 1);
	configuration++;
	for (int i = 0; i < plan.num_processes; i++)
	{
		if (processes[i].state != PROCESS_FREE)
			*(volatile sig_atomic_t *) ProcessStatic(&processes[i], &ConfigReloadPending) = true;
	}
	Say("the worker id is set to %d", configured_worker);
}

/* Drop a database, and create a copy of another one with its OID. */
static void
copy_database(void)
{
	int			to = RandomBelow(plan.num_databases);
	int			from = RandomBelow(plan.num_databases);

	if (databases[to].sessions > 0)
	{
		/* they are asked to leave */
		for (int i = 0; i < plan.num_processes; i++)
		{
			if (processes[i].database == to)
				processes[i].calls_left = 0;
		}
		return;
	}
	if (to == from || databases[from].sessions > 0)
		return;
	databases[to].row = next_xid++;
	databases[to].disk = databases[from].disk;
	databases[to].disk.incarnation = ++last_incarnation;
	databases[to].found = Max(databases[to].disk.value, databases[to].disk.guard.bound);
	databases[to].found_guard = databases[to].disk.guard.bound;
	databases[to].advanced = 0;
	databases[to].used = databases[from].used;
	databases[to].resets++;
	WorldWrite(&databases[to]);
	flushed = on_standby = written;
	Say("database %d is now a copy of database %d", to, from);
}

/* Something befalls the server. */
void
WorldFault(void)
{
	int			kinds[] = {
		plan.crashes, plan.promotions, plan.clock_steps, plan.cancels,
		plan.terminations, plan.reloads, plan.copies
	};
	int			sum = 0;
	int			kind = 0;
	int			chosen;

	for (int i = 0; i < lengthof(kinds); i++)
		sum += kinds[i];
	if (sum == 0)
		return;
	for (chosen = RandomBelow(sum); chosen >= kinds[kind]; kind++)
		chosen -= kinds[kind];
	switch (kind)
	{
		case 0:
			counts.crashes++;
			restart(RandomOneIn(4) ? flushed + RandomBelow(written - flushed + 1) : flushed, false);
			break;
		case 1:
			/* without bits for it, only a synchronous standby may take over */
			if (!plan.synchronous && timeline >= LayoutLargest(world_layout, FIELD_TIMELINE))
				break;
			counts.promotions++;
			restart(on_standby, true);
			break;
		case 2:
			step_clock();
			break;
		case 3:
		case 4:
			interrupt(kind == 4);
			break;
		case 5:
			reload();
			break;
		case 6:
			copy_database();
			break;
	}
	for (int i = 0; i < plan.num_databases; i++)
		prune(&histories[i]);
}

/* Whether faults stop now, so that all calls must succeed. */
bool
WorldRest(void)
{
	if (step < last_step / 4 * 3)
		return false;
	/* the clock has been right for long */
	if (wall_offset < PromiseHighestOffset())
		wall_offset = PromiseHighestOffset();
	PromiseNoteClock(30 * USECS_PER_SEC);
	reference += 30 * USECS_PER_SEC;
	Say("faults have stopped");
	return true;
}

/* Whether a call for an id must succeed once faults have stopped. */
bool
WorldMustGiveIds(void)
{
	return step > last_step / 10 * 9 && configured_wait >= 1000 && configured_jump != 10 &&
		configured_ahead >= 5000 && LaneIdsPerSecond(world_layout) >= 8000 &&
		!plan.leased && !plan.set_mark && !plan.lock_mark && !plan.recreate &&
		!plan.reset && plan.layout_changes == 0;
}

/* Plan a seed, and make its world. */
void
WorldBegin(void)
{
	memset(&plan, 0, sizeof(plan));
	plan.num_processes = PICK(2, 2, 3, 3, 4, 6);
	plan.num_databases = PICK(1, 1, 1, 2, 3);
	plan.by_priority = RandomOneIn(3);
	plan.switch_every = PICK(2, 4, 16, 64);
	plan.stall_every = PICK(0, 50, 200, 1000);
	plan.longest_stall = PICK(64, 1024, 16384);
	plan.step_us = PICK(1, 20, 200, 2000, 20000);
	plan.fault_every = PICK(100, 400, 2000, 2000, 10000);
	plan.longest_flush = PICK(1, 1000, 10000, 200000);
	plan.weak_memory = RandomOneIn(2);
	plan.synchronous = RandomOneIn(4);
	plan.preloaded = RandomOneIn(2);
	plan.leased = RandomOneIn(5);
	plan.parallel = RandomOneIn(8);
	plan.crashes = PICK(0, 1, 1, 4);
	plan.promotions = PICK(0, 0, 1, 2);
	plan.clock_steps = PICK(0, 0, 2, 10);
	plan.cancels = PICK(0, 1, 5);
	plan.terminations = PICK(0, 1);
	plan.reloads = PICK(0, 0, 1, 3);
	plan.copies = plan.num_databases > 1 ? PICK(0, 3) : 0;
	plan.layout_changes = PICK(0, 0, 0, 1);
	plan.advance = !plan.parallel && RandomOneIn(2);
	plan.set_mark = RandomOneIn(4);
	plan.reset = !plan.parallel && !plan.leased && RandomOneIn(3);
	plan.lock_mark = RandomOneIn(6);
	plan.recreate = !plan.parallel && RandomOneIn(8);
	if (plan.leased)
		plan.layout_changes = 0;

	max_wal_senders = plan.synchronous;
	SyncRepStandbyNames = plan.synchronous ? "standby" : "";
	make_layout(&layouts[0]);
	make_layout(&layouts[1]);
	world_layout = &layouts[0];
	configured_start = RandomBelow(2);
	configured_ahead = PICK(0, 100, 1000, 5000, 5000, 20000, -1);
	configured_wait = PICK(0, 100, 1000, 5000);
	configured_jump = PICK(365 * 86400, 10, -1);
	configured_worker = next_worker = 0;
	configuration = 1;

	run = 0;
	timeline = 1;
	next_xid = 800;
	last_incarnation = 0;
	num_grants = 0;
	memset(free_from, 0, sizeof(free_from));
	written = flushed = on_standby = RECORD_SIZE;
	reference = 1000000 + RandomBelow(1000000);
	wall_offset = 0;
	offsets[0] = 0;
	offsets[1] = RandomSize(10 * USECS_PER_SEC);
	offsets[2] = RandomOneIn(2) ? USECS_PER_HOUR : 20 * USECS_PER_SEC;
	offsets[3] = -RandomSize(10 * USECS_PER_SEC);
	checkpoint = GetCurrentTimestamp() / USECS_PER_SEC - RandomBelow(100);
	for (int i = 0; i < MAX_DATABASES_HERE; i++)
	{
		histories[i].number = 0;
		memset(&databases[i], 0, sizeof(Database));
		databases[i].oid = 5000 + i;
		databases[i].row = 700 + i;
		databases[i].disk.guard.exempt = -1;
		databases[i].disk.incarnation = ++last_incarnation;
		WorldWrite(&databases[i]);
	}
	flushed = on_standby = written;
	at_rest = false;
	PromiseBegin();
	start_server(false);
}

/* A new extension, which a transaction creates. */
void
WorldRecreate(Database *database)
{
	database->committed = database->disk;
	memset(&database->disk, 0, sizeof(Disk));
	database->disk.guard.exempt = -1;
	database->disk.incarnation = ++last_incarnation;
	database->disk.relations = database->committed.relations + 1;
}

/*
 * The registry, as the lease worker sees it: no tick of a worker id is granted
 * twice.
 */
void
WorldLease(void)
{
	Grant	   *held = num_grants > 0 ? &grants[num_grants - 1] : NULL;
	TimestampTz now = GetCurrentTimestamp() - wall_offset;
	int64		worker_id;

	if (num_grants == MAX_GRANTS)
		return;
	if (held != NULL && held->ends > now && !RandomOneIn(4))
	{
		held->ends = Max(held->ends, now) + RandomBelow(3 * USECS_PER_SEC);
		free_from[held->worker_id] = held->ends;
		Say("renews the lease of worker id " INT64_FORMAT, held->worker_id);
		WorkerSetLease(held->worker_id, held->starts, held->ends);
		return;
	}
	if (held != NULL && RandomOneIn(2))
	{
		TimestampTz used = WorkerEndLease();

		Say("gives the lease of worker id " INT64_FORMAT " back", held->worker_id);
		if (used < held->ends)
		{
			held->ends = Max(used, held->starts);
			free_from[held->worker_id] = held->ends;
		}
	}
	worker_id = RandomBelow(lengthof(free_from));
	held = &grants[num_grants++];
	held->worker_id = worker_id;
	held->starts = Max(free_from[worker_id], now);
	held->ends = held->starts + world_layout->tick + RandomBelow(3 * USECS_PER_SEC);
	free_from[worker_id] = held->ends;
	Say("leases worker id " INT64_FORMAT, worker_id);
	WorkerSetLease(worker_id, held->starts, held->ends);
}
