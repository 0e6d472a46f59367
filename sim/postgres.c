/*-------------------------------------------------------------------------
 *
 * postgres.c
 *	  What the core calls of PostgreSQL, as far as the simulator needs it.
 *
 * libpgcommon and libpgport give what does not depend on the server.  Errors,
 * interrupts, locks, latches, clocks and settings stand here; disk.c has
 * catalogs, pages and WAL, and stubs.c what has no effect.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "replication/walsender_private.h"
#include "storage/condition_variable.h"
#include "storage/procsignal.h"

#include "sim.h"

/* Of the world, not of a process. */
int64		reference;
int64		wall_offset;
LWLockPadded *MainLWLockArray;
WalSndCtlData *WalSndCtl;
int			max_wal_senders;
char	   *DataDir = "";
MemoryContext TopMemoryContext;
MemoryContext CurrentMemoryContext;
sigjmp_buf *PG_exception_stack;
char	   *GUC_check_errdetail_string;
bool		IsUnderPostmaster = true;
Oid			MyDatabaseTableSpace = 1663;

/* Of a process: in the section of the core's static variables, see core.ld. */
#define OF_PROCESS	__attribute__((section("core_statics")))

int			MyProcPid OF_PROCESS;
int			ParallelWorkerNumber OF_PROCESS = -1;
BackendType MyBackendType OF_PROCESS = B_BACKEND;
char	   *SyncRepStandbyNames OF_PROCESS;
TimestampTz PgReloadTime OF_PROCESS;
Oid			MyDatabaseId OF_PROCESS;
struct Latch *MyLatch OF_PROCESS;
ErrorContextCallback *error_context_stack OF_PROCESS;
volatile sig_atomic_t InterruptPending OF_PROCESS;
volatile sig_atomic_t QueryCancelPending OF_PROCESS;
volatile sig_atomic_t ProcDiePending OF_PROCESS;
volatile sig_atomic_t ConfigReloadPending OF_PROCESS;
volatile sig_atomic_t ProcSignalBarrierPending OF_PROCESS;
volatile uint32 InterruptHoldoffCount OF_PROCESS;
bool		process_shared_preload_libraries_in_progress OF_PROCESS;
shmem_request_hook_type shmem_request_hook OF_PROCESS;
shmem_startup_hook_type shmem_startup_hook OF_PROCESS;

static LWLockPadded main_lwlocks[64];
static WalSndCtlData wal_senders;
bool		memory_exists;

/* Nothing that the server has in memory outlives it. */
void
PostgresReset(void)
{
	memset(main_lwlocks, 0, sizeof(main_lwlocks));
	MainLWLockArray = main_lwlocks;
	WalSndCtl = &wal_senders;
	memset(&wal_senders, 0, sizeof(wal_senders));
	memory_exists = false;
	/* recycled memory may hold anything */
	memset(memory, 0xA5, MEMORY_SIZE);
	MemoryForget();
}

/*
 * Memory.  It lasts until the end of a call, in an arena of the process.
 */

void *
palloc(Size size)
{
	char	   *ptr;

	size = MAXALIGN(size);
	if (me == NULL)
		return malloc(size);
	if (me->arena_used + size > ARENA_SIZE)
		elog(PANIC, "ARENA_SIZE is too small");
	ptr = me->arena + me->arena_used;
	me->arena_used += size;
	return ptr;
}

void *
palloc0(Size size)
{
	return memset(palloc(size), 0, size);
}

void *
repalloc(void *ptr, Size size)
{
	return memcpy(palloc(size), ptr, size / 2);
}

char *
pstrdup(const char *string)
{
	return strcpy(palloc(strlen(string) + 1), string);
}

/*
 * Errors
 */

bool
errstart(int elevel, const char *domain)
{
	if (me == NULL)
		return elevel >= ERROR;
	me->report.elevel = elevel;
	me->report.code = elevel >= ERROR ?
		ERRCODE_INTERNAL_ERROR : ERRCODE_SUCCESSFUL_COMPLETION;
	me->report.message[0] = '\0';
	return true;
}

bool
errstart_cold(int elevel, const char *domain)
{
	return errstart(elevel, domain);
}

int
errcode(int code)
{
	me->report.code = code;
	return 0;
}

int
errmsg(const char *format,...)
{
	va_list		args;

	if (me == NULL)
		return 0;
	va_start(args, format);
	vsnprintf(me->report.message, sizeof(me->report.message), format, args);
	va_end(args);
	return 0;
}

int
errmsg_internal(const char *format,...)
{
	return errmsg("%s", format);
}

void
errfinish(const char *file, int line, const char *function)
{
	const char *name = strrchr(file, '/');

	name = name != NULL ? name + 1 : file;
	if (me == NULL || me->report.elevel >= PANIC)
	{
		fprintf(stderr, "failed at %s:%d: %s\n", name, line, me != NULL ? me->report.message : "");
		abort();
	}
	PromiseReport(me->report.elevel, name, line);
	/* it waits until the client reads */
	if (me->is_deaf && me->report.elevel >= NOTICE &&
		me->report.code != ERRCODE_IO_ERROR && !at_rest)
		ProcessSleep(RandomSize(20 * USECS_PER_SEC), PROCESS_FLUSHES);
	if (me->report.elevel < ERROR)
		return;
	InterruptHoldoffCount = 0;
	siglongjmp(me->on_error, me->report.elevel);
}

/*
 * Interrupts
 */

void
ProcessInterrupts(void)
{
	if (me == NULL || InterruptHoldoffCount > 0)
		return;
	if (ProcDiePending)
		ereport(FATAL,
				(errcode(ERRCODE_ADMIN_SHUTDOWN),
				 errmsg("terminating connection due to administrator command")));
	if (QueryCancelPending)
	{
		QueryCancelPending = false;
		ereport(ERROR,
				(errcode(ERRCODE_QUERY_CANCELED),
				 errmsg("canceling statement due to user request")));
	}
}

/*
 * Lightweight locks: the state counts shared holders, and an exclusive one as
 * a thousand.
 */
#define EXCLUSIVE	1000
#define LWLOCK_STATE(lock)	(*(volatile uint32 *) &(lock)->state)

void
LWLockInitialize(LWLock *lock, int tranche)
{
	memset(lock, 0, sizeof(LWLock));
	lock->tranche = tranche;
}

bool
LWLockIsExclusive(const LWLock *lock)
{
	return LWLOCK_STATE(lock) >= EXCLUSIVE;
}

/* It is asked only by those who hold it. */
bool
LWLockHeldByMeInMode(LWLock *lock, LWLockMode mode)
{
	return LWLockIsExclusive(lock);
}

bool
LWLockAcquire(LWLock *lock, LWLockMode mode)
{
	bool		exclusive = mode == LW_EXCLUSIVE;
	int			i = 0;

	if (me == NULL)
		return true;
	ProcessStep();
	while (exclusive ?
		   LWLOCK_STATE(lock) != 0 : LWLOCK_STATE(lock) >= EXCLUSIVE)
		ProcessWait(lock);
	LWLOCK_STATE(lock) += exclusive ? EXCLUSIVE : 1;
	while (i < MAX_LWLOCKS && me->lwlocks[i] != NULL)
		i++;
	if (i == MAX_LWLOCKS)
		PromiseBroken("a process holds %d locks", i);
	else
	{
		me->lwlocks[i] = lock;
		me->lwlock_is_exclusive[i] = exclusive;
	}
	if (lock->tranche == LWTRANCHE_BUFFER_CONTENT)
		me->num_pages++;
	else
		me->num_lwlocks++;
	MemoryFullBarrier();
	return true;
}

static void
release(int i)
{
	LWLock	   *lock = me->lwlocks[i];

	LWLOCK_STATE(lock) -= me->lwlock_is_exclusive[i] ? EXCLUSIVE : 1;
	me->lwlocks[i] = NULL;
	if (lock->tranche == LWTRANCHE_BUFFER_CONTENT)
		me->num_pages--;
	else
		me->num_lwlocks--;
	MemoryFullBarrier();
	ProcessWake(lock);
}

void
LWLockRelease(LWLock *lock)
{
	if (me == NULL)
		return;
	ProcessStep();
	for (int i = 0; i < MAX_LWLOCKS; i++)
	{
		if (me->lwlocks[i] == lock)
		{
			release(i);
			return;
		}
	}
	PromiseBroken("a lock is released that is not held");
}

/* What the end of a transaction releases. */
void
PostgresReleaseAll(void)
{
	for (int i = 0; i < MAX_LWLOCKS; i++)
	{
		if (me->lwlocks[i] != NULL)
			release(i);
	}
	me->num_guc_levels = me->num_pins = 0;
	me->on_condition = false;
	me->arena_used = 0;
	error_context_stack = NULL;
}

/*
 * Latches and condition variables.  There is one of the latter.
 */

/* assertions on buffers compare with these */
int			NBuffers = 1000;
int			NLocBuffer = 0;

void
ExceptionalCondition(const char *condition, const char *type,
					 const char *file, int line)
{
	PromiseBroken("an assertion fails: %s", condition);
	abort();
}

int
WaitLatch(Latch *latch, int events, long timeout, uint32 event)
{
	ProcessStep();
	if (!me->latch)
		ProcessSleep(timeout * 1000, PROCESS_SLEEPS);
	return 0;
}

void
ResetLatch(Latch *latch)
{
	me->latch = false;
}

void
ConditionVariablePrepareToSleep(ConditionVariable *variable)
{
	ProcessStep();
	me->on_condition = true;
	me->latch = false;
}

bool
ConditionVariableTimedSleep(ConditionVariable *variable, long timeout,
							uint32 event)
{
	ProcessInterrupts();
	(void) WaitLatch(NULL, 0, timeout, event);
	me->latch = false;
	ProcessInterrupts();
	return false;
}

void
ConditionVariableCancelSleep(void)
{
	me->on_condition = false;
}

void
ConditionVariableBroadcast(ConditionVariable *variable)
{
	ProcessStep();
	for (int i = 0; i < plan.num_processes; i++)
	{
		if (processes[i].on_condition)
			ProcessSetLatch(&processes[i]);
	}
}

/*
 * Clocks
 */

TimestampTz
GetCurrentTimestamp(void)
{
	ProcessStep();
	if (me != NULL)
		PromiseLook();
	return WallClock();
}

int
ClockReadReference(struct timespec *now)
{
	ProcessStep();
	now->tv_sec = reference / USECS_PER_SEC;
	now->tv_nsec = reference % USECS_PER_SEC * 1000;
	return 0;
}

TimestampTz
time_t_to_timestamptz(pg_time_t time)
{
	return time * USECS_PER_SEC;
}

/*
 * Settings
 */

int
NewGUCNestLevel(void)
{
	return ++me->num_guc_levels;
}

void
AtEOXact_GUC(bool is_commit, int level)
{
	me->num_guc_levels--;
}

/*
 * The rest
 */

void *
ShmemInitStruct(const char *name, Size size, bool *found)
{
	*found = memory_exists;
	memory_exists = true;
	return memory;
}

void
before_shmem_exit(pg_on_exit_callback function, Datum arg)
{
	if (me->num_exit_callbacks == MAX_EXIT_CALLBACKS)
		elog(PANIC, "MAX_EXIT_CALLBACKS is too small");
	me->exit_callbacks[me->num_exit_callbacks++] = function;
}
