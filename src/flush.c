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
#include "storage/procsignal.h"
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
 * flushed it, too.  False if something else has to be done first: throw the
 * error of a cancel, or MarkNoticeReload().  The caller must close the mark
 * before that.
 */
bool
MarkFlush(XLogRecPtr lsn)
{
	if (XLogRecPtrIsInvalid(lsn))
		return true;
	XLogFlush(lsn);

	while (standbys_are_behind(lsn))
	{
		if (QueryCancelPending || ProcDiePending || TransactionTimeoutPending ||
			(ConfigReloadPending && !IsInParallelMode()))
			return false;
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 10, WAIT_EVENT_SYNC_REP);
		ResetLatch(MyLatch);
		/* others wait for this, and interrupts may be held off */
		if (ProcSignalBarrierPending)
			ProcessProcSignalBarrier();
	}
	return true;
}

/*
 * Read the configuration, if it has changed, and return whether.  Otherwise a
 * statement would wait forever after synchronous_standby_names was emptied.
 *
 * PostgreSQL's sessions do this between statements only, but nothing of it has
 * to wait for that: what a statement relies on, it copies, because functions
 * that it calls can change settings by SET.  The exception is a parallel query,
 * whose workers must agree; its wait has to be canceled.
 */
bool
MarkNoticeReload(void)
{
	if (!ConfigReloadPending || IsInParallelMode())
		return false;
	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
	return true;
}
