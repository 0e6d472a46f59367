/*-------------------------------------------------------------------------
 *
 * connection.c
 *	  The lease worker's connection to the registry.
 *
 * Only one thing here waits for long: libpq looks up the name of a host for
 * as long as the resolver takes, and no signal ends that.  Meanwhile the
 * lease goes on, but a server that is being stopped waits.  Addresses need no
 * look-up.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "postmaster/interrupt.h"

#include "connection.h"

/*
 * How long to wait for a connection or an answer, in ms, but not longer than
 * between renewals.  acquire() in the registry gives up sooner.
 */
#define ANSWER_TIMEOUT		5000
/* The same for all that is left to do once the server is being stopped. */
#define SHUTDOWN_TIMEOUT	1000

static PGconn *connection = NULL;
static int	next_host = 0;		/* index of the next host to try */
static bool gave_up_standbys;	/* the registry did not wait for them */

void
ConnectionClose(void)
{
	PQfinish(connection);
	connection = NULL;
}

/* The time in ms since an instant. */
long
ConnectionElapsed(instr_time start)
{
	instr_time	elapsed;

	INSTR_TIME_SET_CURRENT(elapsed);
	INSTR_TIME_SUBTRACT(elapsed, start);
	return (long) INSTR_TIME_GET_MILLISEC(elapsed);
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

/*
 * How many ms are left of those for a connection or an answer; "start" is when
 * we began to wait.
 */
static long
time_left(instr_time start)
{
	long		timeout = setting_registry_lease / RENEWALS;

	timeout = Min(ANSWER_TIMEOUT, timeout) - ConnectionElapsed(start);
	if (ShutdownRequestPending)
	{
		static bool noted = false;
		static instr_time noted_at;
		long		left;

		if (!noted)
			INSTR_TIME_SET_CURRENT(noted_at);
		noted = true;
		left = SHUTDOWN_TIMEOUT - ConnectionElapsed(noted_at);
		timeout = Min(timeout, left);
	}
	return timeout;
}

/*
 * Wait until the connection can be read from or written to.  False if that
 * takes too long.
 */
static bool
wait_for_socket(int event, instr_time start)
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
	if (!PQsendQueryParams(connection, sql, num_values, NULL, values, NULL,
						   NULL, 0))
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
		const char *message =
		PQresultErrorField(answer, PG_DIAG_MESSAGE_PRIMARY);

		LeaseNoteFailure(LEASE_REFUSED, message != NULL ? message : "no answer",
						 PQresultErrorField(answer, PG_DIAG_MESSAGE_DETAIL));
		/* the next may lead to another server, as after a failover */
		ConnectionClose();
	}
	PQclear(answer);
	return NULL;
}
