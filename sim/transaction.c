/*-------------------------------------------------------------------------
 *
 * transaction.c
 *	  Transactions that change the relations of the mark.
 *
 * One transaction at a time can do so in a database, and keeps all others
 * from the relations meanwhile.  What is written to files that it has made
 * is gone if it fails, or is rolled back to a savepoint.  One that is prepared
 * belongs to nobody, and outlives a crash.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"

#include "sim.h"

#define MAX_LEVELS	4			/* of savepoints */
#define MAX_XIDS	16

typedef struct Level
{
	TransactionId xid;
	Disk		before;			/* the database, when the level began */
} Level;

/* The transaction of a process. */
typedef struct Transaction
{
	int			num_levels;		/* 0: none is running */
	int			changed_at;		/* level at which it took the relations; -1 */
	Level		levels[MAX_LEVELS];

	/* its transaction ids that were not rolled back, with their levels */
	int			num_xids;
	TransactionId xids[MAX_XIDS];
	int			level_of[MAX_XIDS];
} Transaction;

/* One that was prepared in a database, which then has no process. */
typedef struct Prepared
{
	/* of its record, and of the one that ends it; 0: there is none */
	XLogRecPtr	lsn;
	XLogRecPtr	finished;
	Disk		disk;			/* the database, as it sees it */
	bool		changes[2];
} Prepared;

static Transaction transactions[MAX_PROCESSES + MAX_DATABASES_HERE];
static Prepared prepared[MAX_DATABASES_HERE];
static Process nobody[MAX_DATABASES_HERE];	/* in place of its process */
static int	last_file;
static int	last_relations;
static int	last_incarnation;

/* Give the relations of a transaction to none of the sessions. */
static void
give_to_nobody(int database)
{
	nobody[database].id = MAX_PROCESSES + database;
	databases[database].changer = &nobody[database];
}

/*
 * The server has gone down, and has the WAL up to a position: of all
 * transactions, only those that were prepared by then go on.
 */
void
TransactionRecover(XLogRecPtr lsn)
{
	/* those that the seed before has prepared have more WAL than this one */
	memset(transactions, 0, sizeof(transactions));
	for (int i = 0; i < plan.num_databases; i++)
	{
		Database   *database = &databases[i];
		Disk	   *disk = &prepared[i].disk;

		database->changer = NULL;
		if (prepared[i].lsn > lsn ||
			(prepared[i].finished != 0 && prepared[i].finished <= lsn))
			prepared[i].lsn = 0;
		if (prepared[i].lsn == 0)
			continue;
		prepared[i].finished = 0;
		if (disk->files[0] == database->disk.files[0])
			disk->value = database->disk.value;
		if (disk->files[1] == database->disk.files[1])
			disk->guard = database->disk.guard;
		/* ids are above what this start finds, once it is committed */
		disk->found_guard = disk->guard.bound;
		disk->found = Max(disk->value, disk->found_guard);
		give_to_nobody(i);
		transactions[MAX_PROCESSES + i].num_levels = 1;
		transactions[MAX_PROCESSES + i].levels[0].before = database->disk;
		database->disk = *disk;
		memcpy(database->changes, prepared[i].changes, sizeof(bool) * 2);
	}
}

static Transaction *
mine(void)
{
	return &transactions[me->id];
}

bool
TransactionIsRunning(void)
{
	return mine()->num_levels > 0;
}

/* Whether a transaction keeps a relation from this process. */
bool
TransactionKeeps(const Database *database, int which)
{
	return database->locked_until > reference ||
		(database->changer != NULL && database->changer != me &&
		 database->changes[which]);
}

/* What is committed of a database. */
const Disk *
TransactionCommitted(const Database *database)
{
	return database->changer == NULL ? &database->disk :
		&transactions[database->changer->id].levels[0].before;
}

/* What this process sees of a database. */
const Disk *
TransactionSees(const Database *database)
{
	return database->changer == me ?
		&database->disk : TransactionCommitted(database);
}

/* The files were written to: what shares them has the same contents. */
void
TransactionNoteWrite(Database *database)
{
	Transaction *transaction;

	if (database->changer == NULL)
		return;
	transaction = &transactions[database->changer->id];
	for (int i = 0; i < transaction->num_levels; i++)
	{
		Disk	   *before = &transaction->levels[i].before;

		if (before->files[0] == database->disk.files[0])
		{
			/* as set_mark() does, which alone lowers it */
			if (database->disk.value < Min(before->value, before->found))
				before->found = before->found_guard;
			before->value = database->disk.value;
		}
		if (before->files[1] == database->disk.files[1])
			before->guard = database->disk.guard;
	}
}

bool
TransactionIdIsCurrentTransactionId(TransactionId xid)
{
	for (int i = 0; i < mine()->num_xids; i++)
	{
		if (mine()->xids[i] == xid)
			return true;
	}
	return false;
}

/* BEGIN or SAVEPOINT.  False if there are too many. */
bool
TransactionBegin(void)
{
	Transaction *transaction = mine();

	if (transaction->num_levels == MAX_LEVELS ||
		transaction->num_xids == MAX_XIDS)
		return false;
	if (transaction->num_levels == 0)
		transaction->changed_at = -1;
	transaction->levels[transaction->num_levels].xid = next_xid;
	transaction->levels[transaction->num_levels].before =
		databases[me->database].disk;
	transaction->xids[transaction->num_xids] = next_xid++;
	transaction->level_of[transaction->num_xids++] = transaction->num_levels++;
	Say(transaction->num_levels == 1 ? "begins a transaction" : "sets a savepoint");
	return true;
}

/*
 * Take a relation, to change it.  Waits until nobody else has it, and returns
 * false if a transaction changes any.
 */
static bool
take_relation(Database *database, int which)
{
	Transaction *transaction = mine();

	if (database->locked_until > reference ||
		(database->changer != NULL && database->changer != me))
		return false;
	if (database->changer == NULL)
	{
		database->changer = me;
		database->changes[0] = database->changes[1] = false;
		transaction->changed_at = transaction->num_levels - 1;
		/* it may drop what has been advanced */
		database->advanced = 0;
		/* from now on, see TransactionNoteWrite() */
		for (int i = 0; i < transaction->num_levels; i++)
			transaction->levels[i].before = database->disk;
	}
	database->changes[which] = true;
	/* others that have it may still write */
	while (database->relation_locks[which] - me->num_relations[which] > 0)
	{
		ProcessStep();
		ProcessInterrupts();
		ProcessSleep(1000, PROCESS_SLEEPS);
	}
	return true;
}

static bool
take_relations(Database *database)
{
	return take_relation(database, 0) && take_relation(database, 1);
}

static TransactionId
current_xid(void)
{
	return mine()->levels[mine()->num_levels - 1].xid;
}

/* Give one of the relations a new file, with the same contents. */
void
TransactionRewrite(int which)
{
	Database   *database = &databases[me->database];

	if (!take_relation(database, which) ||
		!OidIsValid(database->disk.extension))
		return;
	Say("gives the %s a new file", which == 0 ? "mark" : "guard");
	database->disk.files[which] = ++last_file;
	database->disk.rows[which] = current_xid();
}

/* What CREATE EXTENSION leaves in a database. */
void
TransactionNewExtension(Database *database, TransactionId xid)
{
	Disk	   *disk = &database->disk;

	memset(disk, 0, sizeof(Disk));
	disk->incarnation = ++last_incarnation;
	disk->relations = 100000 + 2 * ++last_relations;
	disk->extension = 10000 + last_relations;
	disk->files[0] = ++last_file;
	disk->files[1] = ++last_file;
	disk->rows[0] = disk->rows[1] = xid;
	memmove(&database->extensions[1], &database->extensions[0],
			sizeof(ExtensionRow) * (MAX_EXTENSION_ROWS - 1));
	database->extensions[0].oid = disk->extension;
	database->extensions[0].xmin = xid;
	database->extensions[0].xmax = InvalidTransactionId;
}

/* A copy of a database may repeat its ids; a file of it is another one. */
void
TransactionCopy(Database *database, const Database *from)
{
	Disk	   *disk = &database->disk;

	*disk = from->disk;
	database->advanced = 0;
	memcpy(database->extensions, from->extensions, sizeof(from->extensions));
	disk->incarnation = ++last_incarnation;
	disk->files[0] = ++last_file;
	disk->files[1] = ++last_file;
}

/* DROP EXTENSION */
void
TransactionDrop(void)
{
	Database   *database = &databases[me->database];

	if (!take_relations(database) || !OidIsValid(database->disk.extension))
		return;
	Say("drops the extension");
	for (int i = 0; i < MAX_EXTENSION_ROWS; i++)
	{
		if (database->extensions[i].oid == database->disk.extension)
			database->extensions[i].xmax = current_xid();
	}
	/* with it go its bounds and what was promised about these */
	memset(&database->disk.guard, 0, sizeof(Guard));
	database->disk.value = 0;
	database->disk.found = database->disk.found_guard =
		database->disk.advanced = 0;
	database->disk.extension = InvalidOid;
}

/* CREATE EXTENSION.  False if that cannot be done now. */
bool
TransactionCreate(void)
{
	Database   *database = &databases[me->database];

	if (!take_relations(database) || OidIsValid(database->disk.extension))
		return false;
	Say("creates the extension");
	TransactionNewExtension(database, current_xid());
	return true;
}

/* RELEASE SAVEPOINT */
void
TransactionRelease(void)
{
	Transaction *transaction = mine();
	int			last = transaction->num_levels - 1;

	if (last < 1)
		return;
	Say("releases a savepoint");
	for (int i = 0; i < transaction->num_xids; i++)
	{
		if (transaction->level_of[i] == last)
			transaction->level_of[i] = last - 1;
	}
	transaction->changed_at = Min(transaction->changed_at, last - 1);
	transaction->num_levels = last;
}

/* ROLLBACK TO SAVEPOINT, or ROLLBACK if there is none */
void
TransactionRollback(void)
{
	Transaction *transaction = mine();
	Database   *database = &databases[me->database];
	int			last = transaction->num_levels - 1;

	if (last < 0)
		return;
	Say(last > 0 ? "rolls back to a savepoint" : "rolls back");
	if (database->changer == me)
	{
		database->disk = transaction->levels[last].before;
		if (transaction->changed_at >= last)
		{
			database->changer = NULL;
			transaction->changed_at = -1;
		}
		/* what was made above an advance may be gone with it */
		WorldNewMark(database);
	}
	while (transaction->num_xids > 0 &&
		   transaction->level_of[transaction->num_xids - 1] >= last)
		transaction->num_xids--;
	transaction->num_levels = last;
}

/* Others see what was committed, or prepared, once it is on disk. */
static void
flush_transaction(Database *database)
{
	XLogRecPtr	lsn;

	DiskLog(database);
	XLogFlush(lsn = written);
	while (configured_standby > 0 &&
		   on_standby[configured_standby - 1] < lsn)
	{
		ProcessStep();
		ProcessSleep(10000, PROCESS_FLUSHES);
	}
}

/* COMMIT */
void
TransactionCommit(void)
{
	Transaction *transaction = mine();
	Database   *database = &databases[me->database];

	Say("commits");
	if (database->changer == me)
	{
		transaction->levels[0].before = database->disk;
		flush_transaction(database);
		database->changer = NULL;
		WorldNewMark(database);
	}
	transaction->num_levels = transaction->num_xids = 0;
}

/* PREPARE TRANSACTION, or COMMIT if it has not changed the relations */
void
TransactionPrepare(void)
{
	Transaction *transaction = mine();
	Database   *database = &databases[me->database];
	Prepared   *record = &prepared[me->database];

	if (database->changer != me)
	{
		TransactionCommit();
		return;
	}
	Say("prepares its transaction");
	give_to_nobody(me->database);
	transactions[MAX_PROCESSES + me->database] = *transaction;
	transaction->num_levels = transaction->num_xids = 0;
	record->disk = database->disk;
	memcpy(record->changes, database->changes, sizeof(bool) * 2);
	record->lsn = written + RECORD_SIZE;
	record->finished = 0;
	flush_transaction(database);
}

/* COMMIT PREPARED, or ROLLBACK PREPARED; false if there is none. */
bool
TransactionFinish(bool commit)
{
	Database   *database = &databases[me->database];
	Disk	   *before =
	&transactions[MAX_PROCESSES + me->database].levels[0].before;

	if (database->changer != &nobody[me->database])
		return false;
	Say("%s a prepared transaction", commit ? "commits" : "rolls back");
	/* nobody else finishes it */
	database->changer = me;
	mine()->num_levels = 1;
	mine()->changed_at = 0;
	mine()->levels[0].before = *before;
	prepared[me->database].finished = written + RECORD_SIZE;
	if (commit)
		TransactionCommit();
	else
		TransactionRollback();
	return true;
}
