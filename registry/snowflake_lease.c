/*-------------------------------------------------------------------------
 *
 * snowflake_lease.c
 *	  The lease worker: leases a worker id from the registry.
 *
 * A background worker of a library of its own, which runs when the main
 * library is preloaded and snowflake.registry is set.  It connects to the
 * database with the extension "snowflake_registry", leases a worker id there,
 * renews the lease after each third of its length, and tells the generator
 * when it ends.
 *
 * As src/worker.c says, nothing has to happen in time.  Only the order counts:
 *
 *		The generator learns of a lease after the registry has committed it,
 *		and of the end of a lease before the registry does.
 *
 * If an answer does not arrive, the registry may have moved the end further
 * than we know; it then refuses to renew, and we lease again.  Ids that were
 * allowed once stay allowed, unless we gave them back.
 *
 * The worker starts when recovery has ended, so that a standby leases nothing
 * before it is promoted.
 *
 * Only one thing here waits for long: libpq looks up the name of a host for
 * as long as the resolver takes, and no signal ends that.  Meanwhile the
 * lease goes on, but a server that is being stopped waits.  Addresses need no
 * look-up.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "common/pg_prng.h"
#include "libpq-fe.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "postmaster/postmaster.h"
#include "storage/ipc.h"
#include "utils/fmgrprotos.h"
#include "utils/memutils.h"

#include "snowflake.h"

PG_MODULE_MAGIC;

/* A lease is renewed after its length divided by this number. */
#define RENEWALS			3
/*
 * How long to wait for a connection or an answer, in ms, but not longer than
 * between renewals.  acquire() in the registry gives up sooner.
 */
#define ANSWER_TIMEOUT		5000
/* The same for all that is left to do once the server is being stopped. */
#define SHUTDOWN_TIMEOUT	1000
/* How long to wait after a failure, in ms: twice as long each time. */
#define FIRST_BACKOFF		100
#define LAST_BACKOFF		5000
/* How often to look at a clock in doubt, in ms. */
#define CLOCK_WATCH			100

/*
 * Our queries must mean the same whatever objects others have created in the
 * registry's database, and whatever search_path it sets.  So every parameter
 * has a type, and types and operators are those of pg_catalog: by name or, for
 * some types, by keyword.
 */
#define SQL_INTERVAL(parameter, unit) \
	"(" parameter "::double precision OPERATOR(pg_catalog.*) interval '1 " unit "')"
/* Unix microseconds, to SQL and back */
#define SQL_EPOCH				"timestamp with time zone 'epoch'"
#define SQL_INSTANT(parameter) \
	"(" SQL_EPOCH " OPERATOR(pg_catalog.+) " SQL_INTERVAL(parameter, "microsecond") ")"
#define SQL_MICROSECONDS(instant) \
	"(extract(epoch FROM greatest(" instant ", " SQL_EPOCH ")) OPERATOR(pg_catalog.*) 1000000::numeric)::bigint"

extern PGDLLEXPORT void SnowflakeLeaseWorker(Datum main_arg);

/* Our token, which each process makes up: a copy of the server has another. */
static char *instance;

/* Our lease, if the worker id is not negative. */
static struct
{
	int64		worker_id;
	TimestampTz starts;
	TimestampTz ends;
}			lease = {.worker_id = -1};

static PGconn *connection = NULL;
static int	next_host = 0;		/* index of the next host to try */
static bool gave_up_standbys;	/* the registry did not wait for them */

/* The last failure that was logged; empty: none since the last success. */
static char logged_failure[1024] = "";

/* Log a failure, unless it is the same as the last one. */
static void
note_failure(LeaseState state, const char *message, const char *detail)
{
	/* once we stop, only giving the lease back can fail: nobody has to act */
	if (ShutdownRequestPending)
		return;
	WorkerSetLeaseState(state);
	if (message == NULL ||
		strncmp(logged_failure, message, sizeof(logged_failure) - 1) == 0)
		return;
	strlcpy(logged_failure, message, sizeof(logged_failure));

	ereport(WARNING,
			(errcode(ERRCODE_SNOWFLAKE_NO_LEASE),
			 lease.worker_id < 0 ?
			 errmsg("could not lease a worker id for snowflake ids: %s", message) :
			 errmsg("could not renew the lease of worker id " INT64_FORMAT " for snowflake ids: %s",
					lease.worker_id, message),
			 detail != NULL ? errdetail("%s", detail) : 0,
			 errhint("Nothing has to be done if the registry is only down for a while: the server asks again every few seconds, and makes ids as long as it has a lease.")));
}

/*
 * Connection
 */

static void
close_connection(void)
{
	PQfinish(connection);
	connection = NULL;
}

/* Give up the connection, and log why. */
static void
fail_connection(const char *message)
{
	note_failure(LEASE_UNREACHABLE, message, NULL);
	close_connection();
}

/*
 * A commit whose wait for synchronous standbys is canceled succeeds, with a
 * warning, which has no code of its own, but only one function raises it.
 */
static void
receive_notice(void *arg, const PGresult *result)
{
	const char *function = PQresultErrorField(result, PG_DIAG_SOURCE_FUNCTION);

	if (function != NULL && strcmp(function, "SyncRepWaitForLSN") == 0)
		gave_up_standbys = true;
}

/* The time since an instant of the reference clock, in ms. */
static long
elapsed_since(int64 start)
{
	return (long) ((ClockReference() - start) / 1000);
}

/*
 * How many ms are left of those for a connection or an answer; "start" is when
 * we began to wait.
 */
static long
time_left(int64 start)
{
	static int64 stopping_since = 0;
	long		timeout = setting_registry_lease / RENEWALS;
	long		left;

	timeout = Min(ANSWER_TIMEOUT, timeout) - elapsed_since(start);
	if (!ShutdownRequestPending)
		return timeout;
	if (stopping_since == 0)
		stopping_since = ClockReference();
	left = SHUTDOWN_TIMEOUT - elapsed_since(stopping_since);
	return Min(timeout, left);
}

/*
 * Wait until the connection can be read from or written to.  False if that
 * takes too long.
 */
static bool
wait_for_socket(int event, int64 start)
{
	int			occurred = 0;

	while (!(occurred & event))
	{
		long		left = time_left(start);

		if (left <= 0)
			return false;
		occurred = WaitLatchOrSocket(MyLatch, event | WL_LATCH_SET |
									 WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
									 PQsocket(connection), left,
									 PG_WAIT_EXTENSION);
		if (occurred & WL_LATCH_SET)
			ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	return true;
}

/* One element of a comma-separated list, and the number of its elements. */
static char *
list_element(const char *list, int number, int *length)
{
	*length = 1;
	for (const char *comma = list; (comma = strchr(comma, ',')) != NULL;
		 comma++)
		(*length)++;
	for (number %= *length; number > 0; number--)
		list = strchr(list, ',') + 1;
	return pnstrdup(list, strcspn(list, ","));
}

/*
 * Begin to connect to the next host in the setting, and to no other one; NULL
 * if that is not a connection string, or if there is no memory.  Each
 * attempt has a time limit; if libpq tried all hosts in one, a host that hangs
 * would use it up.
 */
static PGconn *
start_connection(void)
{
	/* libpq expands a connection string in the place of a database's name */
	const char *keywords[6] = {"fallback_application_name", "dbname"};
	const char *values[6] = {"snowflake", setting_registry};
	int			number = 2;
	int			num_hosts = 1;
	char	   *message = NULL;
	PQconninfoOption *options = PQconninfoParse(setting_registry,
												&message);
	PGconn	   *started;

	/* libpq would take such a text for the name of a database */
	if (options == NULL)
	{
		fail_connection(message != NULL ? pchomp(message) : "out of memory");
		PQfreemem(message);
		return NULL;
	}
	for (PQconninfoOption *option = options; option->keyword != NULL;
		 option++)
	{
		int			length;

		if (option->val == NULL ||
			(strcmp(option->keyword, "host") != 0 &&
			 strcmp(option->keyword, "hostaddr") != 0 &&
			 strcmp(option->keyword, "port") != 0))
			continue;
		/* later keywords take precedence */
		keywords[number] = option->keyword;
		values[number++] = list_element(option->val, next_host, &length);
		num_hosts = Max(num_hosts, length);
	}
	started = PQconnectStartParams(keywords, values, true);
	PQconninfoFree(options);
	next_host = (next_host + 1) % num_hosts;
	return started;
}

static bool
connect_to_registry(void)
{
	PostgresPollingStatusType status = PGRES_POLLING_WRITING;
	bool		in_time = true;
	int64		start;

	connection = start_connection();
	if (connection == NULL)
		return false;
	start = ClockReference();
	PQsetNoticeReceiver(connection, receive_notice, NULL);
	if (PQstatus(connection) == CONNECTION_BAD)
		status = PGRES_POLLING_FAILED;
	while (status != PGRES_POLLING_OK && status != PGRES_POLLING_FAILED &&
		   in_time)
	{
		in_time = wait_for_socket(status == PGRES_POLLING_READING ?
								  WL_SOCKET_READABLE : WL_SOCKET_WRITEABLE,
								  start);
		if (in_time)
			status = PQconnectPoll(connection);
	}
	if (status == PGRES_POLLING_OK)
		return true;

	/* as long as one of the hosts answers, the registry can be reached */
	if (next_host != 0)
		fail_connection(NULL);
	else
		fail_connection(in_time ? pchomp(PQerrorMessage(connection)) :
						"connection timed out");
	return false;
}

/* Connect, unless we are connected.  Returns whether we are. */
static bool
open_connection(void)
{
	/* reconnect if it was closed; the first call may only read why */
	if (connection != NULL &&
		!(PQconsumeInput(connection) && PQconsumeInput(connection)))
		close_connection();
	return connection != NULL || connect_to_registry();
}

/*
 * Call a function of the registry.  Returns its answer, once the registry has
 * committed it, or NULL.
 */
static PGresult *
call_registry(const char *sql, int num_values, const char *const *values)
{
	PGresult   *answer = NULL;
	PGresult   *result;
	int64		start = ClockReference();

	gave_up_standbys = false;
	if (!PQsendQueryParams(connection, sql, num_values, NULL, values, NULL,
						   NULL, 0))
	{
		fail_connection(pchomp(PQerrorMessage(connection)));
		return NULL;
	}

	/* the commit comes after the answer and before the end of the results */
	do
	{
		while (PQisBusy(connection))
		{
			if (!wait_for_socket(WL_SOCKET_READABLE, start))
			{
				PQclear(answer);
				fail_connection("query timed out");
				return NULL;
			}
			/* errors show up below */
			(void) PQconsumeInput(connection);
		}
		result = PQgetResult(connection);
		/* what comes after the answer is an error, and counts */
		if (result != NULL)
		{
			PQclear(answer);
			answer = result;
		}
	} while (result != NULL);

	if (answer != NULL && PQresultStatus(answer) == PGRES_TUPLES_OK)
	{
		if (!gave_up_standbys)
			return answer;
		fail_connection("the registry's wait for its synchronous standbys was canceled");
	}
	else if (PQstatus(connection) == CONNECTION_BAD)
		fail_connection(pchomp(PQerrorMessage(connection)));
	else
	{
		const char *message =
		PQresultErrorField(answer, PG_DIAG_MESSAGE_PRIMARY);

		note_failure(LEASE_REFUSED, message != NULL ? message : "no answer",
					 PQresultErrorField(answer, PG_DIAG_MESSAGE_DETAIL));
		/* the next may lead to another server, as after a failover */
		close_connection();
	}
	PQclear(answer);
	return NULL;
}

/*
 * Lease
 */

static char *
node_name(void)
{
	char		host[256] = "";

	if (*setting_node_name != '\0')
		return setting_node_name;
	if (gethostname(host, sizeof(host) - 1) != 0)
		strlcpy(host, "unknown", sizeof(host));
	return psprintf("%s:%d", host, PostPortNumber);
}

static char *
int64_text(int64 value)
{
	return psprintf(INT64_FORMAT, value);
}

static char *
instant_text(TimestampTz instant)
{
	return int64_text(instant + UNIX_EPOCH_TO_POSTGRES);
}

static int64
answer_int64(const PGresult *answer, int column)
{
	return strtoll(PQgetvalue(answer, 0, column), NULL, 10);
}

static TimestampTz
answer_instant(const PGresult *answer, int column)
{
	return answer_int64(answer, column) - UNIX_EPOCH_TO_POSTGRES;
}

/* Tell the generator what lease we have. */
static void
pass_lease_on(void)
{
	WorkerSetLease(lease.worker_id, lease.starts, lease.ends);
	if (logged_failure[0] != '\0')
		ereport(LOG, (errmsg("registry of snowflake worker ids answers again")));
	logged_failure[0] = '\0';
}

/*
 * The time that ids follow.  False if the clock is refused: a lease by such a
 * clock would block the worker id for as long as it is ahead.
 */
static bool
look_at_clock(TimestampTz *now)
{
	ClockReading reading = ClockRead();

	*now = reading.ids;
	if (reading.refused)
		note_failure(LEASE_REFUSED, "the clock jumped too far ahead",
					 psprintf("The clock says %s.", timestamptz_to_str(reading.wall)));
	return !reading.refused;
}

/* Lease a worker id.  Returns whether we have one. */
static bool
acquire(TimestampTz now)
{
	const Layout *layout = SharedLayout();
	int64		worker_ids = LayoutLargest(layout, FIELD_WORKER) + 1;
	const char *values[] = {
		node_name(),
		instance,
		LayoutToText(layout),
		int64_text(worker_ids),
		instant_text(now),
		int64_text(setting_registry_lease)
	};
	PGresult   *answer =
	call_registry("SELECT worker_id, " SQL_MICROSECONDS("starts") ", " SQL_MICROSECONDS("ends")
				  " FROM snowflake_registry.acquire($1::pg_catalog.text, $2::pg_catalog.uuid,"
				  " $3::pg_catalog.text, $4::bigint, " SQL_INSTANT("$5") ", "
				  SQL_INTERVAL("$6", "millisecond") ")",
				  lengthof(values), values);

	if (answer == NULL)
		return false;
	if (PQntuples(answer) == 1)
	{
		lease.worker_id = answer_int64(answer, 0);
		lease.starts = answer_instant(answer, 1);
		lease.ends = answer_instant(answer, 2);
	}
	PQclear(answer);

	if (lease.worker_id < 0 || lease.worker_id >= worker_ids)
	{
		lease.worker_id = -1;
		note_failure(LEASE_NONE_FREE, "the registry has no free worker id", NULL);
		return false;
	}
	ereport(LOG,
			(errmsg("leased worker id " INT64_FORMAT " for snowflake ids",
					lease.worker_id)));
	pass_lease_on();
	return true;
}

/* Renew our lease.  Returns whether we still have it. */
static bool
renew(TimestampTz now)
{
	const char *values[] = {
		int64_text(lease.worker_id),
		instance,
		instant_text(lease.ends),
		instant_text(now),
		int64_text(setting_registry_lease)
	};
	PGresult   *answer =
	call_registry("SELECT " SQL_MICROSECONDS("ends")
				  " FROM snowflake_registry.renew($1::bigint, $2::pg_catalog.uuid, "
				  SQL_INSTANT("$3") ", " SQL_INSTANT("$4") ", " SQL_INTERVAL("$5", "millisecond")
				  ") AS ends WHERE ends IS NOT NULL",
				  lengthof(values), values);

	if (answer == NULL)
		return false;
	if (PQntuples(answer) == 1)
	{
		lease.ends = answer_instant(answer, 0);
		pass_lease_on();
	}
	else
	{
		ereport(LOG,
				(errmsg("lost the lease of worker id " INT64_FORMAT " for snowflake ids",
						lease.worker_id)));
		lease.worker_id = -1;
	}
	PQclear(answer);
	return lease.worker_id >= 0;
}

/* Returns whether we have a lease that was renewed or acquired just now. */
static bool
keep_lease(void)
{
	TimestampTz now;

	/* if the layout cannot be used, the generator says why */
	if (!SettingsLayoutIsUsable() || !open_connection() ||
		!look_at_clock(&now))
		return false;
	if (lease.worker_id >= 0 && renew(now))
		return true;

	/* if renewing failed, but the lease is not lost, renew it later */
	return lease.worker_id < 0 && connection != NULL && acquire(now);
}

/* Give the lease back, so that nobody has to wait until it ends. */
static void
release(void)
{
	if (lease.worker_id >= 0)
	{
		TimestampTz used = WorkerEndLease();
		const char *values[] = {
			int64_text(lease.worker_id),
			instance,
			TIMESTAMP_NOT_FINITE(used) ? NULL : instant_text(used)
		};

		if (connection != NULL)
			PQclear(call_registry("SELECT snowflake_registry.release($1::bigint, $2::pg_catalog.uuid, "
								  SQL_INSTANT("$3") ")",
								  lengthof(values), values));
	}
	close_connection();
}

/*
 * Wait for "delay" ms, or until a doubt about the clock has ended, which
 * others may be too idle to notice.  A session that waits for a lease wakes
 * us, but not after a failure, nor at once.
 */
static void
wait_for_next_attempt(long delay, bool failed)
{
	int64		start = ClockReference();
	long		elapsed = 0;
	bool		doubts = false;

	while (!ShutdownRequestPending && !ConfigReloadPending && elapsed < delay)
	{
		bool		doubted = doubts;
		long		wait;
		int			occurred;

		doubts = ClockRead().doubt > 0;
		if (doubted && !doubts)
			break;
		wait = Min(doubts ? CLOCK_WATCH : delay, delay - elapsed);
		occurred = WaitLatch(MyLatch,
							 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
							 wait, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		elapsed = elapsed_since(start);
		if ((occurred & WL_LATCH_SET) && !failed && elapsed >= FIRST_BACKOFF)
			break;
	}
}

void
SnowflakeLeaseWorker(Datum main_arg)
{
	MemoryContext context;
	Datum		token;
	long		backoff = FIRST_BACKOFF;

	WorkerSetLatch(MyLatch);
	/* this library may have been replaced since the server was started */
	if (strcmp(snowflake_version, LIBRARY_VERSION) != 0)
	{
		WorkerSetLeaseState(LEASE_REFUSED);
		ereport(WARNING,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("library of the snowflake lease worker was replaced while the server was running"),
				 errdetail("It is of version %s, but the server runs version %s.",
						   LIBRARY_VERSION, snowflake_version),
				 errhint("Restart the server.")));
		/* exit code 0 keeps us from being restarted */
		proc_exit(0);
	}

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	/* ignore SIGINT: a cancel would lose the lease */
	pqsignal(SIGINT, PG_SIG_IGN);
	BackgroundWorkerUnblockSignals();

	/* a background worker begins in TopMemoryContext, so this lasts */
	token = DirectFunctionCall1(gen_random_uuid, (Datum) 0);
	instance = DatumGetCString(DirectFunctionCall1(uuid_out, token));
	context = AllocSetContextCreate(TopMemoryContext, "snowflake lease worker",
									ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(context);

	while (!ShutdownRequestPending)
	{
		long		renewal;
		long		delay;
		bool		failed;

		MemoryContextReset(context);
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}

		failed = !keep_lease();
		renewal = setting_registry_lease / RENEWALS;
		delay = failed ? Min(backoff, renewal) : renewal;
		backoff = failed ? Min(2 * backoff, LAST_BACKOFF) : FIRST_BACKOFF;
		/* spread the load of servers that were started, or failed, together */
		delay -= pg_prng_uint64(&pg_global_prng_state) % (delay / 4);
		wait_for_next_attempt(delay, failed);
	}

	release();
	/* exit code 1 gets us restarted, unless the server is being stopped */
	proc_exit(1);
}
