/*-------------------------------------------------------------------------
 *
 * flush.c
 *	  Flushes what was written to the mark.
 *
 * A commit waits in SyncRepWaitForLSN(), which obeys the session's
 * synchronous_commit and hides that the wait was canceled, because the commit
 * has already happened.  The mark serves all sessions, and must not count
 * before the standbys have it.  So we wait in a loop of our own.
 *
 * snowflake/src/flush.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "replication/syncrep.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "utils/guc.h"
#include "utils/wait_event.h"

#include "compat.h"
#include "mark.h"


/* Whether synchronous standbys have yet to flush the WAL up to a position. */
static bool
standbys_are_behind(XLogRecPtr lsn)
{
	bool		behind;

	/*
	 * Test the setting, not the flag that the checkpointer derives from it in
	 * shared memory: minor releases have changed what that flag means.
	 */
	if (max_wal_senders == 0 ||
		SyncRepStandbyNames == NULL || SyncRepStandbyNames[0] == '\0')
		return false;
	LWLockAcquire(SyncRepLock, LW_SHARED);
	behind = WalSndCtl->lsn[SYNC_REP_WAIT_FLUSH] < lsn;
	LWLockRelease(SyncRepLock);
	return behind;
}

/*
 * Flush the WAL up to a position, and wait until synchronous standbys have
 * flushed it, too.  False if the wait was canceled.  The caller must close the
 * mark before it throws the error of the cancel, because the error is sent
 * before locks are released, and the client may not read it.  With "finish",
 * the cancel is over.
 */
bool
MarkFlush(XLogRecPtr lsn, bool finish)
{
	if (XLogRecPtrIsInvalid(lsn))
		return true;
	XLogFlush(lsn);

	while (standbys_are_behind(lsn))
	{
		if (QueryCancelPending || ProcDiePending || TransactionTimeoutPending)
		{
			if (finish)
				QueryCancelPending = false;
			return false;
		}
		if (!finish)
			CHECK_FOR_INTERRUPTS();
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 10, WAIT_EVENT_SYNC_REP);
		ResetLatch(MyLatch);

		/*
		 * Notice when synchronous_standby_names is emptied, or we would wait
		 * forever.  We are not within a commit, so a reload is as safe here
		 * as set_config() in a query.  Parallel queries may not change
		 * settings; their wait has to be canceled.
		 */
		if (ConfigReloadPending && !IsInParallelMode())
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
	}
	return true;
}
