/*-------------------------------------------------------------------------
 *
 * connection.c
 *	  The lease worker's connection to the registry.
 *
 * Nothing here waits for long or keeps the server from being stopped, because
 * the function of libpq that looks up names is called only in a thread.
 *
 * snowflake/registry/connection.c
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

#include "compat.h"
#include "connection.h"

/*
 * How long to wait for a connection or an answer, in ms, but not longer than
 * between renewals.  acquire() in the registry gives up sooner if it has to
 * wait.
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

static uint32
wait_event(void)
{
	static uint32 event = 0;

	if (event == 0)
		event = compat_wait_event("SnowflakeRegistry");
	return event;
}

/* Sleep for "delay" ms, or until a signal arrives. */
void
ConnectionSleep(long delay)
{
	(void) WaitLatch(MyLatch,
					 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 delay, wait_event());
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
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
 * as long as the resolver takes, and no signal ends that, so that the server
 * could not be stopped meanwhile.  The thread calls no function of the server,
 * and handles no signals.
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

/* Returns NULL if the worker has to end; the thread then goes on. */
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
		ConnectionSleep(ATTEMPT_POLL);
	}
	if (started)
		pthread_join(thread, NULL);
	return attempt.connection;
}

/*
 * Begin to connect to the next host in the setting, and to no other one.  Each
 * attempt has a time limit; if libpq tried all hosts in one, a host that hangs
 * would use it up.
 */
static PGconn *
start_connection(void)
{
	int			num_keywords = 2;
	int			num_hosts = 1;
	PQconninfoOption *options = PQconninfoParse(*snowflake->registry, NULL);

	attempt.keywords[0] = "fallback_application_name";
	attempt.values[0] = "snowflake";
	/* libpq expands a connection string in the place of a database's name */
	attempt.keywords[1] = "dbname";
	attempt.values[1] = *snowflake->registry;
	for (PQconninfoOption *option = options; option != NULL && option->keyword != NULL; option++)
	{
		int			length;

		if (option->val == NULL ||
			(strcmp(option->keyword, "host") != 0 &&
			 strcmp(option->keyword, "hostaddr") != 0 &&
			 strcmp(option->keyword, "port") != 0))
			continue;
		/* later keywords take precedence */
		attempt.keywords[num_keywords] = option->keyword;
		attempt.values[num_keywords++] = list_element(option->val, next_host, &length);
		num_hosts = Max(num_hosts, length);
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
