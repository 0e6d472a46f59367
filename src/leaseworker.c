/*-------------------------------------------------------------------------
 *
 * leaseworker.c
 *	  Starts the lease worker, and hands it the functions that it calls.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"

#include "leaseworker.h"
#include "settings.h"
#include "worker.h"

extern PGDLLEXPORT void SnowflakeLeaseWorkerMain(Datum main_arg);

/* Register the lease worker, if the library is being preloaded. */
void
LeaseWorkerInit(void)
{
	BackgroundWorker worker;

	if (!process_shared_preload_libraries_in_progress ||
		!SettingsRegistryIsUsed() || IsBinaryUpgrade)
		return;

	memset(&worker, 0, sizeof(worker));
	/* no database: nobody's DROP DATABASE waits while we look up a host */
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = 1;
	strlcpy(worker.bgw_library_name, "snowflake", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "SnowflakeLeaseWorkerMain", BGW_MAXLEN);
	strlcpy(worker.bgw_name, "snowflake lease worker", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "snowflake lease worker", BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);
}

void
SnowflakeLeaseWorkerMain(Datum main_arg)
{
	static const SnowflakeInterface interface = {
		.version = LIBRARY_VERSION,
		.set_lease = WorkerSetLease,
		.set_lease_state = WorkerSetLeaseState,
		.end_lease = WorkerEndLease,
		.layout_is_usable = SettingsLayoutIsUsable,
		.layout = SharedLayout,
		.read_clock = ClockRead,
		.layout_to_text = LayoutToText,
		.registry = &setting_registry,
		.node_name = &setting_node_name,
		.registry_lease = &setting_registry_lease
	};
	LeaseWorkerFunction run = (LeaseWorkerFunction)
	load_external_function(LEASE_LIBRARY, "SnowflakeLeaseWorker", true, NULL);

	WorkerSetLatch(MyLatch);
	run(&interface);
}
