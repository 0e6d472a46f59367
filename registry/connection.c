/*-------------------------------------------------------------------------
 *
 * connection.c
 *	  The lease worker's connection to the registry.
 *
 * Nothing here waits for long, keeps other hosts from being tried, or keeps the
 * server from being stopped, because libpq looks up the hosts in the setting
 * only in a thread.  (It looks up those of a service file in this process.)
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <pthread.h>

#include "fmgr.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "portability/instr_time.h"
#include "postmaster/interrupt.h"
#include "storage/latch.h"
#include "utils/memutils.h"

#include "compat.h"
#include "connection.h"

/*
 * How long to wait for a connection or an answer, in ms, but not longer than
 * between renewals.  acquire() in the registry gives up sooner.
 */
#define ANSWER_TIMEOUT		5000
/* The same once the server is being stopped. */
#define SHUTDOWN_TIMEOUT	1000
/* How often to look whether PQconnectStart() has returned, in ms. */
#define ATTEMPT_POLL		10

extern PGDLLEXPORT char *SnowflakeCheckConnectionString(const char *text);

static PGconn *connection = NULL;
static int	next_host = 0;		/* index of the next host to try */
static bool gave_up_standbys;	/* the registry did not wait for them */

/* Why libpq rejects a connection string, or NULL.  Any process may call it. */
char *
SnowflakeCheckConnectionString(const char *text)
{
	char	   *message = NULL;
	char	   *reason = NULL;
	PQconninfoOption *options = PQconninfoParse(text, &message);

	if (options == NULL)
		reason = message != NULL ? pchomp(message) : pstrdup("Out of memory.");
	PQconninfoFree(options);
	PQfreemem(message);
	return reason;
}

void
ConnectionClose(void)
{
	PQfinish(connection);
	connection = NULL;
}

/* Give up the connection, and log why. */
static void
fail_connection(const char *message)
{
	LeaseNoteFailure(LEASE_UNREACHABLE, message, NULL);
	ConnectionClose();
}

/*
 * Give up a host that cannot be connected to.  Log why only after the last one
 * of the setting: as long as one of them answers, the registry can be reached.
 */
static void
fail_host(const char *message)
{
	fail_connection(next_host == 0 ? message : NULL);
}

/*
 * A commit whose wait for synchronous standbys is canceled succeeds, with a
 * warning.  The warning has no code of its own, but only one function raises
 * it.
 */
static void
receive_notice(void *arg, const PGresult *result)
{
	const char *function = PQresultErrorField(result, PG_DIAG_SOURCE_FUNCTION);

	if (function != NULL && strcmp(function, "SyncRepWaitForLSN") == 0)
		gave_up_standbys = true;
}

/* Sleep for "delay" ms, or until a signal arrives. */
void
ConnectionSleep(long delay)
{
	(void) WaitLatch(MyLatch,
					 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 delay, compat_wait_event("SnowflakeRegistry"));
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/*
 * How many ms are left of those for a connection or an answer; "start" is when
 * we began to wait.
 */
static long
time_left(instr_time start)
{
	instr_time	elapsed;
	long		timeout = *snowflake->registry_lease / RENEWALS;

	INSTR_TIME_SET_CURRENT(elapsed);
	INSTR_TIME_SUBTRACT(elapsed, start);
	timeout = Min(ANSWER_TIMEOUT, timeout) - (long) INSTR_TIME_GET_MILLISEC(elapsed);
	return ShutdownRequestPending ? Min(timeout, SHUTDOWN_TIMEOUT) : timeout;
}

/*
 * Wait until the connection can be read from or written to.  False if that
 * takes too long.
 */
static bool
wait_for_socket(int event, instr_time start)
{
	long		left = time_left(start);
	int			occurred;

	if (left <= 0)
		return false;

	occurred = WaitLatchOrSocket(MyLatch,
								 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH | event,
								 PQsocket(connection), left, compat_wait_event("SnowflakeRegistry"));
	if (occurred & WL_LATCH_SET)
	{
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	return !(occurred & WL_TIMEOUT);
}

/* One element of a comma-separated list, and the number of its elements. */
static char *
list_element(const char *list, int number, int *length)
{
	*length = 1;
	for (const char *comma = list; (comma = strchr(comma, ',')) != NULL; comma++)
		(*length)++;
	for (number %= *length; number > 0; number--)
		list = strchr(list, ',') + 1;
	return pnstrdup(list, strcspn(list, ","));
}

/*
 * We start a connection in a thread: libpq looks up the name of the host for
 * as long as the resolver takes, and no signal ends that.  If it takes too
 * long, we go on to the next host, and free the attempt once the thread has
 * ended.  The thread calls no function of the server, and handles no signals.
 */
typedef struct Attempt
{
	struct Attempt *next;
	MemoryContext context;		/* of all of it */
	int			host;			/* index in the setting */
	char	   *keywords[6];
	char	   *values[6];
	int			number;			/* of keywords; NULL follows */
	pthread_t	thread;
	PGconn	   *connection;
	pg_atomic_uint32 ended;
} Attempt;

/* Attempts that took too long. */
static Attempt *hanging = NULL;

static void
add_keyword(Attempt *attempt, const char *keyword, const char *value)
{
	attempt->keywords[attempt->number] = MemoryContextStrdup(attempt->context, keyword);
	attempt->values[attempt->number++] = MemoryContextStrdup(attempt->context, value);
}

/* End an attempt whose thread has ended.  Returns its connection. */
static PGconn *
end_attempt(Attempt *attempt)
{
	PGconn	   *made;

	pthread_join(attempt->thread, NULL);
	made = attempt->connection;
	MemoryContextDelete(attempt->context);
	return made;
}

/* Free attempts that have ended, and tell whether one for a host has not. */
static bool
host_hangs(int host)
{
	bool		hangs = false;

	for (Attempt **link = &hanging; *link != NULL;)
	{
		Attempt    *attempt = *link;

		if (pg_atomic_read_u32(&attempt->ended) != 0)
		{
			*link = attempt->next;
			PQfinish(end_attempt(attempt));
			continue;
		}
		hangs |= attempt->host == host;
		link = &attempt->next;
	}
	return hangs;
}

static void *
run_attempt(void *arg)
{
	Attempt    *attempt = (Attempt *) arg;

	attempt->connection = PQconnectStartParams((const char *const *) attempt->keywords,
											   (const char *const *) attempt->values, true);
	pg_atomic_fetch_add_u32(&attempt->ended, 1);
	return NULL;
}

/* Returns NULL if the attempt takes too long, or the worker has to end. */
static PGconn *
make_attempt(Attempt *attempt, instr_time start)
{
	sigset_t	all_signals;
	sigset_t	old_signals;
	int			error;

	pg_atomic_init_u32(&attempt->ended, 0);
	sigfillset(&all_signals);
	pthread_sigmask(SIG_SETMASK, &all_signals, &old_signals);
	error = pthread_create(&attempt->thread, NULL, run_attempt, attempt);
	pthread_sigmask(SIG_SETMASK, &old_signals, NULL);
	if (error != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not start a thread: %s", strerror(error))));

	while (pg_atomic_read_u32(&attempt->ended) == 0)
	{
		if (ShutdownRequestPending || time_left(start) <= 0)
		{
			attempt->next = hanging;
			hanging = attempt;
			return NULL;
		}
		ConnectionSleep(ATTEMPT_POLL);
	}
	return end_attempt(attempt);
}

/*
 * Begin to connect to the next host in the setting, and to no other one.  Each
 * attempt has a time limit; if libpq tried all hosts in one, a host that hangs
 * would use it up.
 */
static PGconn *
start_connection(instr_time start)
{
	int			num_hosts = 1;
	int			host = next_host;
	PQconninfoOption *options;
	MemoryContext context;
	Attempt    *attempt;

	context = AllocSetContextCreate(TopMemoryContext, "snowflake connection", ALLOCSET_SMALL_SIZES);
	attempt = MemoryContextAllocZero(context, sizeof(Attempt));
	attempt->context = context;
	attempt->host = host;
	add_keyword(attempt, "fallback_application_name", "snowflake");
	/* libpq expands a connection string in the place of a database's name */
	add_keyword(attempt, "dbname", *snowflake->registry);
	options = PQconninfoParse(*snowflake->registry, NULL);
	for (PQconninfoOption *option = options; option != NULL && option->keyword != NULL; option++)
	{
		int			length;

		if (option->val == NULL ||
			(strcmp(option->keyword, "host") != 0 &&
			 strcmp(option->keyword, "hostaddr") != 0 &&
			 strcmp(option->keyword, "port") != 0))
			continue;
		/* later keywords take precedence */
		add_keyword(attempt, option->keyword, list_element(option->val, host, &length));
		num_hosts = Max(num_hosts, length);
	}
	PQconninfoFree(options);
	next_host = (host + 1) % num_hosts;
	/* at most one thread for each host */
	if (host_hangs(host))
	{
		MemoryContextDelete(attempt->context);
		return NULL;
	}
	return make_attempt(attempt, start);
}

static bool
connect_to_registry(void)
{
	PostgresPollingStatusType status = PGRES_POLLING_WRITING;
	instr_time	start;

	INSTR_TIME_SET_CURRENT(start);
	connection = start_connection(start);
	if (connection == NULL)
	{
		fail_host("lookup of the host name timed out");
		return false;
	}
	PQsetNoticeReceiver(connection, receive_notice, NULL);
	if (PQstatus(connection) == CONNECTION_BAD)
		status = PGRES_POLLING_FAILED;
	while (status != PGRES_POLLING_OK && status != PGRES_POLLING_FAILED)
	{
		if (!wait_for_socket(status == PGRES_POLLING_READING ?
							 WL_SOCKET_READABLE : WL_SOCKET_WRITEABLE, start))
		{
			fail_host("connection timed out");
			return false;
		}
		status = PQconnectPoll(connection);
	}
	if (status == PGRES_POLLING_FAILED)
	{
		fail_host(pchomp(PQerrorMessage(connection)));
		return false;
	}
	return true;
}

/* Connect, unless we are connected.  Returns whether we are. */
bool
ConnectionOpen(void)
{
	/*
	 * If the connection was closed meanwhile, reconnect without a message.
	 * The first call may only read why it was closed.
	 */
	if (connection != NULL &&
		!(PQconsumeInput(connection) && PQconsumeInput(connection)))
		ConnectionClose();
	return connection != NULL || connect_to_registry();
}

bool
ConnectionIsOpen(void)
{
	return connection != NULL;
}

/*
 * Call a function of the registry.  Returns its answer, once the registry has
 * committed it, or NULL.
 */
PGresult *
ConnectionQuery(const char *sql, int num_values, const char *const *values)
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
			/* errors show up below */
			(void) PQconsumeInput(connection);
		}
		result = PQgetResult(connection);
		if (result == NULL)
			break;
		/* an error counts, even if it comes after the answer */
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

		LeaseNoteFailure(LEASE_REFUSED, message != NULL ? message : "no answer",
						 PQresultErrorField(answer, PG_DIAG_MESSAGE_DETAIL));
		/* the next may lead to another server, as after a failover */
		ConnectionClose();
	}
	PQclear(answer);
	return NULL;
}
