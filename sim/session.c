/*-------------------------------------------------------------------------
 *
 * session.c
 *	  What the processes do: sessions, and the lease worker.
 *
 * snowflake/sim/session.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "postmaster/interrupt.h"

#include "generator.h"
#include "settings.h"
#include "world.h"

extern Datum snowflake_advance(PG_FUNCTION_ARGS);
extern Datum snowflake_reset_mark(PG_FUNCTION_ARGS);
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
	me->above = database->advanced;
	me->resets = database->resets;
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
	CallWaits	waits = {0};
	int			count = RandomSize(256);

	begin_call("reserve");
	(void) GeneratorReservable();
	while (count > 0)
	{
		int64		first;
		int64		last;
		int			number = GeneratorReserve(count, &first, &last, &waits);

		PromiseIds(first, last);
		count -= number;
	}
}

/* An id that is up to some seconds ahead of the latest one. */
static int64
id_ahead(int64 most_us)
{
	int64		id = made_since_start +
	((int64) RandomBelow(most_us / world_layout->tick + 2) << world_layout->shift[FIELD_TIME]);

	return id < LayoutLargestId(world_layout) ? id : LayoutLargestId(world_layout) - 1;
}

static void
advance(void)
{
	Database   *database = &databases[me->database];
	int64		id = id_ahead(3000000);
	int			resets = database->resets;

	begin_call("advance");
	Say("advances to " INT64_FORMAT, id);
	call(snowflake_advance, Int64GetDatum(id), BoolGetDatum(false));
	counts.advances++;
	if (resets == database->resets && database->resetting == 0)
		database->advanced = Max(database->advanced, id);
}

/* setval() of the mark */
static void
set_mark(void)
{
	Database   *database = &databases[me->database];
	int64		value = RandomOneIn(2) ? 1 : id_ahead(8000000);

	begin_call("setval");
	if (database->recreated || database->locked_until > reference)
		return;
	database->relation_locks++;
	me->num_relations++;
	LWLockAcquire(&database->pages[0], LW_EXCLUSIVE);
	Say("sets the mark to " INT64_FORMAT, value);
	database->disk.value = Max(value, 1);
	/* a lower value counts for less than one that was found */
	database->found = Min(database->found, database->found_guard);
	WorldWrite(database);
	LWLockRelease(&database->pages[0]);
	database->relation_locks--;
	me->num_relations--;
}

static void
reset_mark(void)
{
	Database   *database = &databases[me->database];

	begin_call("reset");
	Say("resets the mark for worker id %d", configured_worker);
	database->resetting++;
	call(snowflake_reset_mark, Int32GetDatum(configured_worker), (Datum) 0);
	database->resetting--;
	database->resets++;
	database->found = database->found_guard = database->advanced = 0;
	counts.resets++;
}

/* DROP EXTENSION and CREATE EXTENSION, and COMMIT */
static void
recreate_extension(void)
{
	Database   *database = &databases[me->database];
	int64		before;

	begin_call("create extension");
	if (database->recreated)
		return;
	/* the lock of the relations comes only when nobody has it */
	database->recreated = true;
	while (database->relation_locks > 0)
	{
		InterruptsCheck();
		ProcessSleep(1000, PROCESS_SLEEPS);
	}
	Say("drops the extension and creates it again");
	WorldRecreate(database);
	me->recreates = true;
	before = made_since_start;
	call(snowflake_begin, (Datum) 0, (Datum) 0);
	database->found = database->found_guard = before;
	database->advanced = 0;
	database->resets++;
	WorldWrite(database);
	XLogFlush(PG_INT64_MAX);
	me->recreates = false;
	database->recreated = false;
	counts.recreations++;
}

/* One call, as the plan of the seed allows. */
static void
do_something(void)
{
	Database   *database = &databases[me->database];
	int			chance = RandomBelow(100);

	if (chance < 80)
		make_id();
	else if (chance < 90)
		reserve_ids();
	else if (chance < 94 && plan.advance)
		advance();
	else if (chance < 96 && plan.set_mark)
		set_mark();
	else if (chance < 98 && plan.reset &&
			 (database->used & (UINT64CONST(1) << configured_worker)) == 0)
		reset_mark();
	else if (chance == 98 && plan.recreate)
		recreate_extension();
	else if (chance == 99 && plan.lock_mark && !at_rest)
		database->locked_until = reference + RandomBelow(3000000);
}

/* What the end of a transaction undoes. */
static void
clean_up(void)
{
	Database   *database = &databases[me->database];

	database->relation_locks -= me->num_relations;
	me->num_relations = 0;
	if (me->holds_mark)
		database->writers--;
	me->holds_mark = false;
	if (strcmp(me->doing, "reset") == 0)
	{
		database->resetting--;
		/* it may have been done all the same */
		database->resets++;
		database->found = database->found_guard = database->advanced = 0;
	}
	if (strcmp(me->doing, "create extension") == 0)
	{
		if (me->recreates)
			database->disk = database->committed;
		database->recreated = me->recreates = false;
	}
	PostgresReleaseAll();
}

/* A session, from its start to its end. */
void
SessionRun(void)
{
	Database   *database = &databases[me->database];

	MyProcPid = me->pid;
	MyDatabaseId = database->oid;
	counts.sessions++;
	me->doing = "start";
	if (!plan.preloaded)
		SettingsDefine();
	WorldLoadSettings();
	Say("connects to database %d", me->database);
	while (me->calls_left-- > 0)
	{
		me->doing = "idle";
		if (sigsetjmp(me->on_error, 0) != 0)
		{
			bool		is_over = me->report.elevel >= FATAL;

			clean_up();
			if (is_over)
				break;
			continue;
		}
		QueryCancelPending = false;
		InterruptsCheck();
		if (me->configuration != configuration && RandomOneIn(2))
		{
			ConfigReloadPending = false;
			WorldLoadSettings();
		}
		if (me->is_lease_worker)
		{
			begin_call("lease");
			WorldLease();
			ProcessSleep(RandomBelow(300000), PROCESS_SLEEPS);
		}
		else
		{
			int			calls = RandomOneIn(4) ? RandomSize(64) : 1;

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
