/*-------------------------------------------------------------------------
 *
 * snowflake_lease.c
 *	  The lease worker: leases a worker id from the registry.
 *
 * A library of its own, which alone has libpq; src/registry.h says what it and
 * the main library call of each other.
 *
 * The lease worker is a background worker that runs when the main library is
 * preloaded and snowflake.registry is set.  It connects to the database with the extension
 * "snowflake_registry", leases a worker id there, renews the lease every third
 * of its time, and tells the generator how far it goes.
 *
 * A lease is a range of time in the ids, and the registry never grants what
 * it has granted before.  So nothing here has to happen in time:
 *
 *		The generator is told of a lease after the registry has committed it,
 *		and told of the end of one before the registry is.
 *
 * If an answer does not arrive, the registry may have moved the end further
 * than we know; it refuses to renew then, and we lease anew.  Ids that were
 * allowed once stay allowed, unless we gave them back.
 *
 * The worker starts when recovery has ended, so that a standby leases nothing
 * before it is promoted.
 *
 * snowflake/registry/snowflake_lease.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <pthread.h>
#include <unistd.h>

#include "common/pg_prng.h"
#include "fmgr.h"
#include "libpq-fe.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "portability/instr_time.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "postmaster/postmaster.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "compat.h"
#include "errors.h"
#include "layout.h"
#include "registry.h"

PG_MODULE_MAGIC;

/* How often a lease is renewed before its end. */
#define RENEWALS			3
/*
 * How long to wait for a connection or an answer, in ms, but not longer than
 * between renewals.  acquire() gives up before that if it has to wait.
 */
#define ANSWER_TIMEOUT		5000
/* The same once the server is being stopped. */
#define SHUTDOWN_TIMEOUT	1000
/* How often to look whether an attempt to connect has begun, in ms. */
#define ATTEMPT_POLL		10
/*
 * How long to wait after a failure, in ms: twice as long each time, but not
 * longer than until a renewal.
 */
#define FIRST_BACKOFF		100
#define LAST_BACKOFF		5000

/*
 * Our queries must mean the same whatever objects others have created in the
 * registry's database, and whatever search_path it sets.  So every parameter has
 * a type, and types and operators are those of pg_catalog: by name, or as types
 * that are keywords.
 */
#define SQL_INTERVAL(parameter, unit) \
	"(" parameter "::double precision OPERATOR(pg_catalog.*) interval '1 " unit "')"
/* Unix microseconds, in SQL and from there */
#define SQL_EPOCH				"timestamp with time zone 'epoch'"
#define SQL_INSTANT(parameter) \
	"(" SQL_EPOCH " OPERATOR(pg_catalog.+) " SQL_INTERVAL(parameter, "microsecond") ")"
#define SQL_MICROSECONDS(instant) \
	"(extract(epoch FROM greatest(" instant ", " SQL_EPOCH ")) OPERATOR(pg_catalog.*) 1000000::numeric)::bigint"

#define UNIX_TO_POSTGRES \
	((POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY)

extern PGDLLEXPORT void SnowflakeLeaseWorker(const SnowflakeInterface *interface);
extern PGDLLEXPORT char *SnowflakeCheckConnectionString(const char *text);

/* The main library. */
static const SnowflakeInterface *snowflake;

static PGconn *connection = NULL;
static int	next_host = 0;		/* where to connect, of those in the setting */
static bool gave_up_standbys;	/* the registry, during a query */

/* Made up by this process, so that a copy of the server has another one. */
static char instance[2 * UUID_LEN + 1];

/* The lease that we have, if the worker id is not negative. */
static struct
{
	int64		worker_id;
	int64		starts;			/* Unix microseconds */
	int64		ends;
}			lease = {.worker_id = -1};

/* What was logged last about a failure; NULL: there was none since. */
static char *logged_failure = NULL;


/* Why a text is no connection string, or NULL.  Any process may ask. */
char *
SnowflakeCheckConnectionString(const char *text)
{
	char	   *message = NULL;
	char	   *reason;
	PQconninfoOption *options = PQconninfoParse(text, &message);

	if (options != NULL)
	{
		PQconninfoFree(options);
		return NULL;
	}
	reason = message != NULL ? pchomp(message) : pstrdup("Out of memory.");
	PQfreemem(message);
	return reason;
}

/*
 * Log a failure, once for as long as it is the same.  When the registry cannot
 * be reached, that is what the last of its hosts says.
 */
static void
note_failure(LeaseState state, const char *message, const char *detail)
{
	/* what fails now is to give the lease back */
	if (ShutdownRequestPending)
		return;
	snowflake->set_lease_state(state);
	if (state == LEASE_UNREACHABLE && next_host != 0)
		return;
	if (logged_failure != NULL && strcmp(logged_failure, message) == 0)
		return;
	if (logged_failure != NULL)
		pfree(logged_failure);
	logged_failure = MemoryContextStrdup(TopMemoryContext, message);

	ereport(WARNING,
			(errcode(ERRCODE_SNOWFLAKE_NO_LEASE),
			 lease.worker_id < 0 ?
			 errmsg("could not lease a worker id for snowflake ids: %s", message) :
			 errmsg("could not renew the lease of worker id " INT64_FORMAT " for snowflake ids: %s",
					lease.worker_id, message),
			 detail != NULL ? errdetail("%s", detail) : 0,
			 errhint("Ids are made as long as there is a lease, and again when there is one. The registry is asked again every few seconds.")));
}

static void
note_success(void)
{
	if (logged_failure == NULL)
		return;
	pfree(logged_failure);
	logged_failure = NULL;
	ereport(LOG, (errmsg("registry of snowflake worker ids answers again")));
}

static void
disconnect(void)
{
	PQfinish(connection);
	connection = NULL;
}

/* Give the connection up, and say why. */
static void
fail_connection(const char *message)
{
	note_failure(LEASE_UNREACHABLE, message, NULL);
	disconnect();
}

/*
 * A commit whose wait for synchronous standbys is cancelled succeeds, with a
 * warning.  It has no code of its own, but comes from the one function.
 */
static void
receive_notice(void *arg, const PGresult *result)
{
	const char *function = PQresultErrorField(result, PG_DIAG_SOURCE_FUNCTION);

	if (function != NULL && strcmp(function, "SyncRepWaitForLSN") == 0)
		gave_up_standbys = true;
}

static uint32
wait_event(void)
{
	static uint32 event = 0;

	if (event == 0)
		event = compat_wait_event("SnowflakeRegistry");
	return event;
}

/*
 * Wait until the connection can be read from or written to.  False if that
 * takes too long; "start" is when we began to wait.
 */
static bool
wait_for_socket(int event, instr_time start)
{
	instr_time	elapsed;
	long		left;
	int			occurred;

	INSTR_TIME_SET_CURRENT(elapsed);
	INSTR_TIME_SUBTRACT(elapsed, start);
	left = Min(ANSWER_TIMEOUT, *snowflake->registry_lease / RENEWALS) -
		(long) INSTR_TIME_GET_MILLISEC(elapsed);
	if (ShutdownRequestPending)
		left = Min(left, SHUTDOWN_TIMEOUT);
	if (left <= 0)
		return false;

	occurred = WaitLatchOrSocket(MyLatch,
								 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH | event,
								 PQsocket(connection), left, wait_event());
	if (occurred & WL_LATCH_SET)
	{
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	return !(occurred & WL_TIMEOUT);
}

/* An element of a list that is separated by commas; the only one for all. */
static char *
list_element(const char *list, int number)
{
	const char *end = strchr(list, ',');

	if (end == NULL)
		return pstrdup(list);
	for (; number > 0 && end != NULL; number--)
	{
		list = end + 1;
		end = strchr(list, ',');
	}
	return end == NULL ? pstrdup(list) : pnstrdup(list, end - list);
}

/*
 * What PQconnectStart() does before it returns, in a thread: it looks up the
 * name of the host, for as long as the resolver likes, and no signal ends that.
 * The server would have to wait for it when it is stopped.  The thread calls
 * nothing of the server's, and handles no signals.
 */
static struct
{
	const char *keywords[6];
	const char *values[6];
	PGconn	   *connection;
	pg_atomic_uint32 ended;
}			attempt;

static void *
run_attempt(void *arg)
{
	attempt.connection = PQconnectStartParams(attempt.keywords, attempt.values, true);
	pg_atomic_write_u32(&attempt.ended, 1);
	return NULL;
}

/* Returns NULL if the worker is to end, in which case the thread goes on. */
static PGconn *
make_attempt(void)
{
	pthread_t	thread;
	sigset_t	all_signals;
	sigset_t	old_signals;
	bool		started;

	pg_atomic_init_u32(&attempt.ended, 0);
	sigfillset(&all_signals);
	pthread_sigmask(SIG_SETMASK, &all_signals, &old_signals);
	started = pthread_create(&thread, NULL, run_attempt, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &old_signals, NULL);
	if (!started)
		run_attempt(NULL);

	while (pg_atomic_read_u32(&attempt.ended) == 0)
	{
		if (ShutdownRequestPending)
			return NULL;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 ATTEMPT_POLL, wait_event());
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	if (started)
		pthread_join(thread, NULL);
	return attempt.connection;
}

/*
 * Begin to connect to the next of the hosts in the setting.  We have a time
 * limit for each attempt, which one that hangs would use up for all of them.
 */
static PGconn *
start_connection(void)
{
	int			num_keywords = 2;
	int			num_hosts = 1;
	PQconninfoOption *options = PQconninfoParse(*snowflake->registry, NULL);

	attempt.keywords[0] = "fallback_application_name";
	attempt.values[0] = "snowflake";
	/* a connection string in the place of a database's name is expanded */
	attempt.keywords[1] = "dbname";
	attempt.values[1] = *snowflake->registry;
	for (PQconninfoOption *option = options; option != NULL && option->keyword != NULL; option++)
	{
		int			length = 1;

		if (option->val == NULL ||
			(strcmp(option->keyword, "host") != 0 &&
			 strcmp(option->keyword, "hostaddr") != 0 &&
			 strcmp(option->keyword, "port") != 0))
			continue;
		for (const char *comma = option->val; (comma = strchr(comma, ',')) != NULL; comma++)
			length++;
		num_hosts = Max(num_hosts, length);
		/* later ones have precedence */
		attempt.keywords[num_keywords] = option->keyword;
		attempt.values[num_keywords++] = list_element(option->val, next_host % length);
	}
	PQconninfoFree(options);
	attempt.keywords[num_keywords] = NULL;
	next_host = (next_host + 1) % num_hosts;
	return make_attempt();
}

static bool
connect_to_registry(void)
{
	PostgresPollingStatusType status = PGRES_POLLING_WRITING;
	instr_time	start;

	connection = start_connection();
	if (connection == NULL)
		return false;
	INSTR_TIME_SET_CURRENT(start);
	PQsetNoticeReceiver(connection, receive_notice, NULL);
	if (PQstatus(connection) == CONNECTION_BAD)
		status = PGRES_POLLING_FAILED;
	while (status != PGRES_POLLING_OK && status != PGRES_POLLING_FAILED)
	{
		if (!wait_for_socket(status == PGRES_POLLING_READING ?
							 WL_SOCKET_READABLE : WL_SOCKET_WRITEABLE, start))
		{
			fail_connection("connection timed out");
			return false;
		}
		status = PQconnectPoll(connection);
	}
	if (status == PGRES_POLLING_FAILED)
	{
		fail_connection(pchomp(PQerrorMessage(connection)));
		return false;
	}
	return true;
}

/*
 * Call a function of the registry.  Returns its answer, when the registry has
 * committed it, or NULL.
 */
static PGresult *
query(const char *sql, int num_values, const char *const *values)
{
	PGresult   *answer = NULL;
	PGresult   *result;
	instr_time	start;

	INSTR_TIME_SET_CURRENT(start);
	gave_up_standbys = false;
	if (!PQsendQueryParams(connection, sql, num_values, NULL, values, NULL, NULL, 0))
	{
		fail_connection(pchomp(PQerrorMessage(connection)));
		return NULL;
	}

	/* the commit comes after the answer and before the end of the results */
	for (;;)
	{
		while (PQisBusy(connection))
		{
			if (!wait_for_socket(WL_SOCKET_READABLE, start))
			{
				PQclear(answer);
				fail_connection("query timed out");
				return NULL;
			}
			/* what goes wrong here is seen below */
			(void) PQconsumeInput(connection);
		}
		result = PQgetResult(connection);
		if (result == NULL)
			break;
		/* an error is what counts, should there be one after the answer */
		if (answer == NULL || PQresultStatus(result) != PGRES_TUPLES_OK)
		{
			PQclear(answer);
			answer = result;
		}
		else
			PQclear(result);
	}

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
		const char *message = PQresultErrorField(answer, PG_DIAG_MESSAGE_PRIMARY);

		note_failure(LEASE_REFUSED, message != NULL ? message : "no answer",
					 PQresultErrorField(answer, PG_DIAG_MESSAGE_DETAIL));
		/* the next one may lead to another server, as after a failover */
		disconnect();
	}
	PQclear(answer);
	return NULL;
}

static char *
node_name(void)
{
	char		host[256] = "";

	if (**snowflake->node_name != '\0')
		return *snowflake->node_name;
	if (gethostname(host, sizeof(host) - 1) != 0)
		strlcpy(host, "unknown", sizeof(host));
	return psprintf("%s:%d", host, PostPortNumber);
}

static int64
unix_microseconds(TimestampTz instant)
{
	return instant + UNIX_TO_POSTGRES;
}

static TimestampTz
instant_of(int64 microseconds)
{
	return microseconds - UNIX_TO_POSTGRES;
}

static char *
int64_text(int64 value)
{
	return psprintf(INT64_FORMAT, value);
}

static int64
answer_int64(const PGresult *answer, int column)
{
	return strtoll(PQgetvalue(answer, 0, column), NULL, 10);
}

/* Tell the generator what we have. */
static void
pass_lease_on(void)
{
	snowflake->set_lease(lease.worker_id, instant_of(lease.starts),
						 instant_of(lease.ends));
	note_success();
}

/* Lease a worker id.  Returns whether we have one. */
static bool
acquire(void)
{
	const Layout *layout = snowflake->layout();
	int64		worker_ids = LayoutLargest(layout, FIELD_WORKER) + 1;
	const char *values[] = {
		node_name(),
		instance,
		snowflake->layout_to_text(layout),
		int64_text(worker_ids),
		int64_text(unix_microseconds(GetCurrentTimestamp())),
		int64_text(*snowflake->registry_lease)
	};
	PGresult   *answer;

	answer = query("SELECT worker_id, " SQL_MICROSECONDS("starts") ", " SQL_MICROSECONDS("ends")
				   " FROM snowflake_registry.acquire($1::pg_catalog.text, $2::pg_catalog.uuid,"
				   " $3::pg_catalog.text, $4::bigint, " SQL_INSTANT("$5") ", "
				   SQL_INTERVAL("$6", "millisecond") ")",
				   lengthof(values), values);
	if (answer == NULL)
		return false;
	if (PQntuples(answer) == 1)
	{
		lease.worker_id = answer_int64(answer, 0);
		lease.starts = answer_int64(answer, 1);
		lease.ends = answer_int64(answer, 2);
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

/* Renew the lease that we have.  Returns whether we still have it. */
static bool
renew(void)
{
	const char *values[] = {
		int64_text(lease.worker_id),
		instance,
		int64_text(lease.ends),
		int64_text(unix_microseconds(GetCurrentTimestamp())),
		int64_text(*snowflake->registry_lease)
	};
	PGresult   *answer;

	answer = query("SELECT " SQL_MICROSECONDS("ends")
				   " FROM snowflake_registry.renew($1::bigint, $2::pg_catalog.uuid, "
				   SQL_INSTANT("$3") ", " SQL_INSTANT("$4") ", " SQL_INTERVAL("$5", "millisecond")
				   ") AS ends WHERE ends IS NOT NULL",
				   lengthof(values), values);
	if (answer == NULL)
		return false;
	if (PQntuples(answer) == 1)
	{
		lease.ends = answer_int64(answer, 0);
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

/* Returns whether we have a lease that was renewed or acquired right now. */
static bool
keep_lease(void)
{
	/* the generator says what is wrong with it */
	if (!snowflake->layout_is_usable())
		return false;

	/*
	 * One that was closed meanwhile is not worth a word.  The first look may
	 * only bring why it was.
	 */
	if (connection != NULL &&
		!(PQconsumeInput(connection) && PQconsumeInput(connection)))
		disconnect();
	if (connection == NULL && !connect_to_registry())
		return false;
	if (lease.worker_id >= 0 && renew())
		return true;

	/* renewing may have failed in other ways than that the lease is lost */
	return lease.worker_id < 0 && connection != NULL && acquire();
}

/* Give the lease back, so that nobody has to wait until it ends. */
static void
release(void)
{
	if (lease.worker_id >= 0)
	{
		TimestampTz used = snowflake->end_lease();
		const char *values[] = {
			int64_text(lease.worker_id),
			instance,
			TIMESTAMP_NOT_FINITE(used) ? NULL : int64_text(unix_microseconds(used))
		};

		if (connection != NULL)
			PQclear(query("SELECT snowflake_registry.release($1::bigint, $2::pg_catalog.uuid, "
						  SQL_INSTANT("$3") ")",
						  lengthof(values), values));
	}
	disconnect();
}

static void
make_instance(void)
{
	uint8		bytes[UUID_LEN];
	char	   *text = instance;

	if (!pg_strong_random(bytes, UUID_LEN))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	for (int i = 0; i < UUID_LEN; i++)
		text += sprintf(text, "%02x", bytes[i]);
}

void
SnowflakeLeaseWorker(const SnowflakeInterface *interface)
{
	MemoryContext context;
	long		backoff = FIRST_BACKOFF;

	snowflake = interface;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	/* to be cancelled would be to forget the lease */
	pqsignal(SIGINT, SIG_IGN);
	BackgroundWorkerUnblockSignals();
	/* to no database, but to be seen in pg_stat_activity */
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	make_instance();
	context = AllocSetContextCreate(TopMemoryContext, "snowflake lease worker",
									ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(context);

	while (!ShutdownRequestPending)
	{
		long		delay;

		MemoryContextReset(context);
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}

		if (keep_lease())
		{
			delay = *snowflake->registry_lease / RENEWALS;
			backoff = FIRST_BACKOFF;
		}
		else
		{
			delay = backoff;
			backoff = Min(2 * backoff, LAST_BACKOFF);
			backoff = Min(backoff, *snowflake->registry_lease / RENEWALS);
		}
		/* many servers may have been started, or have failed, at once */
		delay -= pg_prng_uint64(&pg_global_prng_state) % (delay / 4);

		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 delay, wait_event());
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}

	release();
	/* to be started again, if it is not the server that is being stopped */
	proc_exit(1);
}
