/*-------------------------------------------------------------------------
 *
 * session.c
 *	  What the processes do: sessions, and the lease worker.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "postmaster/interrupt.h"

#include "sim.h"

extern Datum snowflake_advance(PG_FUNCTION_ARGS);
extern Datum snowflake_begin(PG_FUNCTION_ARGS);

static void
call(Datum (*function) (PG_FUNCTION_ARGS), Datum arg0, Datum arg1)
{
	LOCAL_FCINFO(fcinfo, 2);

	fcinfo->args[0].value = arg0;
	fcinfo->args[1].value = arg1;
	fcinfo->args[0].isnull = fcinfo->args[1].isnull = false;
	(void) function(fcinfo);
}

static void
begin_call(const char *name)
{
	Database   *database = &databases[me->database];

	me->doing = name;
	me->steps = 0;
	me->flushes = 0;
	me->began = reference;
	PromiseCallBegins();
	me->arena_used = 0;
	me->marks = database->marks;
	/* who has seen an id, or made an advance, may have told us */
	me->above = me->furthest = 0;
	if (RandomOneIn(2))
	{
		MemoryFullBarrier();
		me->above = TransactionSees(database)->advanced;
		me->furthest = database->furthest;
	}
	me->extension_before = TransactionSees(database)->extension;
}

static void
make_id(void)
{
	int64		id;

	begin_call("nextval");
	id = GeneratorNext(0);
	PromiseIds(id, id);
}

static void
reserve_ids(void)
{
	int			count = RandomSize(256);

	/* most layouts have no consecutive ids */
	if (world_layout->order[world_layout->num_fields - 1] != FIELD_SEQUENCE &&
		!RandomOneIn(8))
		return;
	begin_call("reserve");
	(void) GeneratorReservable();
	while (count > 0)
	{
		int64		first;
		int64		last;
		int			number = GeneratorReserve(count, &first, &last);

		PromiseIds(first, last);
		count -= number;
		me->steps = 0;
	}
}

/* An id that is up to some seconds ahead of the latest one. */
static int64
id_ahead(int64 most_us)
{
	int64		id = made_since_start +
	((int64) RandomBelow(most_us / world_layout->tick + 2)
	 << world_layout->shift[FIELD_TIME]);

	return id < LayoutLargestId(world_layout) ?
		id : LayoutLargestId(world_layout) - 1;
}

static void
advance(void)
{
	Database   *database = &databases[me->database];
	int64		id = id_ahead(3000000);
	int			marks = database->marks;

	begin_call("advance");
	Say("advances to " INT64_FORMAT, id);
	call(snowflake_advance, Int64GetDatum(id), BoolGetDatum(false));
	if (marks == database->marks)
	{
		database->disk.advanced = Max(database->disk.advanced, id);
		if (database->changer == NULL)
			database->advanced = Max(database->advanced, id);
	}
}

/* setval() of the mark */
static void
set_mark(void)
{
	Database   *database = &databases[me->database];
	int64		value = RandomOneIn(2) ? 1 : id_ahead(8000000);

	begin_call("setval");
	/* nor when nothing may be in the way of ids */
	if (TransactionKeeps(database, 0) ||
		!OidIsValid(database->disk.extension) || at_rest)
		return;
	database->relation_locks[0]++;
	me->num_relations[0]++;
	LWLockAcquire(&database->pages[0], LW_EXCLUSIVE);
	Say("sets the mark to " INT64_FORMAT, value);
	database->disk.value = Max(value, 1);
	/* a lower value counts for less than one that was found */
	if (value < database->disk.found)
		database->disk.found = database->disk.found_guard;
	DiskWritten(database);
	LWLockRelease(&database->pages[0]);
	database->relation_locks[0]--;
	me->num_relations[0]--;
}

/* CREATE EXTENSION, in the running transaction */
static void
create_extension(void)
{
	Database   *database = &databases[me->database];
	int64		before = made_since_start;

	if (!TransactionCreate())
		return;
	call(snowflake_begin, (Datum) 0, (Datum) 0);
	database->disk.found = database->disk.found_guard = before;
	database->disk.advanced = 0;
	WorldNewMark(database);
}

/* A statement that changes the relations, or makes ids above all */
static void
change_relations(void)
{
	const Disk *seen;

	begin_call("change");
	switch (RandomBelow(5))
	{
		case 0:
			seen = TransactionSees(&databases[me->database]);
			if (OidIsValid(seen->extension))
				make_id();
			break;
		case 1:
			TransactionRewrite(0);
			break;
		case 2:
			TransactionRewrite(1);
			break;
		case 3:
			TransactionDrop();
			break;
		case 4:
			create_extension();
			break;
	}
}

/* A transaction, or only CREATE EXTENSION if there is none */
static void
transact(void)
{
	Database   *database = &databases[me->database];

	begin_call("transaction");
	if (!TransactionIsRunning())
	{
		if (TransactionFinish(RandomOneIn(2)))
			return;
		(void) TransactionBegin();
	}
	if (!OidIsValid(TransactionSees(database)->extension))
	{
		if (TransactionKeeps(database, 1))
			ProcessSleep(1000, PROCESS_SLEEPS);
		create_extension();
	}
	for (int statements = RandomBelow(6); statements > 0; statements--)
	{
		begin_call("transaction");
		switch (RandomBelow(8))
		{
			case 6:
				(void) TransactionBegin();
				break;
			case 7:
				if (RandomOneIn(2))
					TransactionRelease();
				else
					TransactionRollback();
				break;
			default:
				change_relations();
				break;
		}
		if (!TransactionIsRunning())
			return;
	}
	begin_call("commit");
	if (RandomOneIn(3))
	{
		while (TransactionIsRunning())
			TransactionRollback();
	}
	else if (RandomOneIn(4))
		TransactionPrepare();
	else
		TransactionCommit();
}

/* One call, as the plan of the seed allows. */
static void
do_something(void)
{
	Database   *database = &databases[me->database];
	int			chance = TransactionIsRunning() ? 98 : RandomBelow(100);

	/* only a running statement goes on with functions that are gone */
	if (!OidIsValid(TransactionSees(database)->extension) &&
		!OidIsValid(me->extension))
		chance = 98;
	if (chance < 80)
		make_id();
	else if (chance < 90)
		reserve_ids();
	else if (chance < 94 && plan.advance)
		advance();
	else if (chance == 94 && plan.set_mark)
		set_mark();
	else if (chance == 98 && plan.transact)
	{
		transact();
		me->extension = TransactionSees(database)->extension;
	}
	else if (chance == 99 && plan.lock_mark && !at_rest)
		database->locked_until = reference + RandomBelow(3000000);
}

/* What the end of a transaction undoes. */
static void
clean_up(void)
{
	Database   *database = &databases[me->database];

	for (int i = 0; i < 2; i++)
	{
		database->relation_locks[i] -= me->num_relations[i];
		me->num_relations[i] = 0;
	}
	if (me->holds_mark)
		database->writers--;
	me->holds_mark = false;
	PostgresReleaseAll();
}

/* A session, from its start to its end. */
void
SessionRun(void)
{
	Database   *database = &databases[me->database];

	MyProcPid = me->pid;
	MyDatabaseId = database->oid;

	/* it lives for one statement of another process, and reloads nothing */
	if (plan.parallel && me->id % 2 > 0)
	{
		ParallelWorkerNumber = 0;
		MyBackendType = B_BG_WORKER;
	}
	if (!plan.preloaded)
		SettingsDefine();
	WorldLoadSettings();
	Say("connects to database %d", me->database);
	while (me->calls_left-- > 0 || TransactionIsRunning())
	{
		me->doing = "idle";
		if (sigsetjmp(me->on_error, 0) != 0)
		{
			bool		is_over = me->report.elevel >= FATAL;

			clean_up();
			/* to a savepoint, if there is one */
			do
				TransactionRollback();
			while (TransactionIsRunning() && (is_over || RandomOneIn(2)));
			if (is_over)
				break;
			continue;
		}
		QueryCancelPending = false;
		ProcessStep();
		ProcessInterrupts();
		if (ConfigReloadPending && (at_rest || RandomOneIn(2)))
			WorldLoadSettings();
		if (me->is_lease_worker)
		{
			begin_call("lease");
			WorldLease();
			ProcessSleep(RandomBelow(300000), PROCESS_SLEEPS);
		}
		else
		{
			int			calls = RandomOneIn(4) ? RandomSize(64) : 1;

			me->extension = TransactionSees(database)->extension;
			while (calls-- > 0)
			{
				do_something();
				PromiseNothingLeft();
				me->arena_used = 0;
			}
			if (RandomOneIn(8))
				ProcessSleep(RandomSize(2000000), PROCESS_SLEEPS);
		}
	}
	Say("leaves");
	me->doing = "exit";
	me->steps = 0;
	if (sigsetjmp(me->on_error, 0) == 0)
	{
		while (me->num_exit_callbacks > 0)
			me->exit_callbacks[--me->num_exit_callbacks] (0, (Datum) 0);
	}
	database->sessions--;
}
