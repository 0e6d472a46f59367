/*-------------------------------------------------------------------------
 *
 * statics.c
 *	  Variables of PostgreSQL that each process has for itself.
 *
 * They are linked into the section of the core's own static variables, which
 * process.c keeps for each process.
 *
 * snowflake/sim/statics.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "miscadmin.h"
#include "storage/ipc.h"

int			MyProcPid;
char	   *SyncRepStandbyNames;
Oid			MyDatabaseId;
struct Latch *MyLatch;
ErrorContextCallback *error_context_stack;
volatile	sig_atomic_t InterruptPending;
volatile	sig_atomic_t QueryCancelPending;
volatile	sig_atomic_t ProcDiePending;
volatile	sig_atomic_t ConfigReloadPending;
volatile	sig_atomic_t ProcSignalBarrierPending;
volatile uint32 InterruptHoldoffCount;
bool		process_shared_preload_libraries_in_progress;
shmem_request_hook_type shmem_request_hook;
shmem_startup_hook_type shmem_startup_hook;
