/*-------------------------------------------------------------------------
 *
 * reports.c
 *	  Finds what is reported while others may wait for us.
 *
 * PostgreSQL sends a message to the client before it releases locks, and the
 * client may not read it.  So while a process holds the lock of the mark, the
 * lock of our shared memory or the content lock of a page, nothing may be sent
 * to the client, and nothing of ours reported at all.  This module of the
 * tests is loaded into all sessions, sees all that they report, and writes
 * every breach to the file that SNOWFLAKE_TEST_REPORTS names.
 *
 * It does not see content locks from PostgreSQL 19 on, where they are no
 * LWLocks any more, nor any LWLock in early minor releases, which cannot list
 * those that are held, nor the lock of the mark in a parallel worker.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "parser/analyze.h"
#include "storage/lock.h"
#include "storage/lwlock.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/wait_event.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

#if PG_VERSION_NUM < 170000
#define holds_lock(tag) LockHeldByMe(tag, ExclusiveLock)
#else
#define holds_lock(tag) LockHeldByMe(tag, ExclusiveLock, false)
#endif
#if PG_VERSION_NUM < 190000
#define ANALYZE_ARGS ParseState *pstate, Query *query, JumbleState *jstate
#else
#define ANALYZE_ARGS \
	ParseState *pstate, Query *query, const JumbleState *jstate
#endif

/* Our source files: SOURCES is a list of strings. */
static const char *const sources[] = {SOURCES};

static emit_log_hook_type next_emit_log = NULL;
static post_parse_analyze_hook_type next_analyze = NULL;
static Oid	guard = InvalidOid;

/* Look up the relation whose lock is that of the mark, see src/mark.c. */
static void
analyze(ANALYZE_ARGS)
{
	if (next_analyze)
		next_analyze(pstate, query, jstate);
	if (IsTransactionState())
		guard = get_relname_relid("guard", get_namespace_oid("snowflake_internal", true));
}

static bool
holds_mark(void)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, RelationRelationId, guard, 1);
	return OidIsValid(guard) && holds_lock(&tag);
}

#if PG_VERSION_NUM < 190000
/* early minor releases have no such function */
typedef void (*LWLockCallback) (LWLock *, LWLockMode, void *);
extern void
			ForEachLWLockHeldByMe(LWLockCallback,
								  void *) __attribute__((weak));

static void
look_at_lwlock(LWLock *lock, LWLockMode mode, void *held)
{
	if (lock->tranche == LWTRANCHE_BUFFER_CONTENT ||
		strcmp(GetLWLockIdentifier(PG_WAIT_LWLOCK, lock->tranche), "snowflake") == 0)
		*(bool *) held = true;
}
#endif

static bool
is_ours(const char *filename)
{
	for (int i = 0; i < lengthof(sources); i++)
	{
		if (filename != NULL && strcmp(sources[i], filename) == 0)
			return true;
	}
	return false;
}

static void
emit_log(ErrorData *error)
{
	bool		holds_lwlock = false;
	const char *path = getenv("SNOWFLAKE_TEST_REPORTS");

	if (next_emit_log)
		next_emit_log(error);

#if PG_VERSION_NUM < 190000
	if (ForEachLWLockHeldByMe != NULL)
		ForEachLWLockHeldByMe(look_at_lwlock, &holds_lwlock);
#endif
	/* a PANIC ends all sessions */
	if (path != NULL && error->elevel < PANIC &&
		(error->output_to_client || is_ours(error->filename)) &&
		(holds_lwlock || holds_mark()))
	{
		char		line[1000];
		int			file = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);

		snprintf(line, sizeof(line), "%s: \"%s\" at %s:%d while holding %s\n",
				 DataDir, error->message, error->filename, error->lineno,
				 holds_lwlock ? "an LWLock" : "the mark");
		if (file < 0 || write(file, line, strlen(line)) < 0)
			abort();
		close(file);
	}

	/* the log is for people */
	if (error->elevel < LOG)
		error->output_to_server = false;
}

void
_PG_init(void)
{
	next_emit_log = emit_log_hook;
	emit_log_hook = emit_log;
	/* the hook sees what could go to the log */
	SetConfigOption("log_min_messages", "debug5", PGC_SUSET, PGC_S_OVERRIDE);
	next_analyze = post_parse_analyze_hook;
	post_parse_analyze_hook = analyze;
}
