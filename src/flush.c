/*-------------------------------------------------------------------------
 *
 * flush.c
 *	  Flushes the mark, here and on synchronous standbys.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "replication/syncrep.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/procsignal.h"
#include "utils/wait_event.h"

#include "compat.h"
#include "flush.h"

/*
 * Whether what this process knows of the settings is what the configuration
 * says.  Only a session is told of a reload for certain, and is told to stop
 * relying on what it has read before.
 */
bool
FlushKnowsSettings(void)
{
	return MyBackendType == B_BACKEND && !ConfigReloadPending;
}

/*
 * Whether synchronous standbys are named, as far as the checkpointer knows, or
 * this session, which may have read the setting before it.
 */
static bool
flush_has_standbys(void)
{
	if (max_wal_senders == 0 || !IsUnderPostmaster)
		return false;
	return compat_standbys_are_named() ||
		(FlushKnowsSettings() && SyncRepStandbyNames[0] != '\0');
}

/*
 * The synchronous standbys, as a hash of the setting that names them, as this
 * process has read it; 0 if there are none.
 */
uint64
FlushStandbys(void)
{
	if (!flush_has_standbys() || SyncRepStandbyNames[0] == '\0')
		return 0;
	return hash_bytes_extended((unsigned char *) SyncRepStandbyNames,
							   strlen(SyncRepStandbyNames), 0) | 1;
}

/* Whether synchronous standbys have yet to flush the WAL up to a position. */
static bool
flush_standbys_are_behind(XLogRecPtr lsn)
{
	bool		behind;

	if (!flush_has_standbys())
		return false;
	LWLockAcquire(SyncRepLock, LW_SHARED);
	behind = WalSndCtl->lsn[SYNC_REP_WAIT_FLUSH] < lsn;
	LWLockRelease(SyncRepLock);
	return behind;
}

/*
 * Flush the WAL up to a position, and wait until synchronous standbys have
 * flushed it, too.  Not in SyncRepWaitForLSN(), as commits do: it obeys the
 * session's synchronous_commit, and hides that the wait was canceled.  False
 * if it was: the caller must close the mark before the error is thrown.
 */
bool
FlushMark(XLogRecPtr lsn)
{
	if (XLogRecPtrIsInvalid(lsn))
		return true;
	XLogFlush(lsn);

	while (flush_standbys_are_behind(lsn))
	{
		if (QueryCancelPending || ProcDiePending || TransactionTimeoutPending)
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
