/*-------------------------------------------------------------------------
 *
 * stubs.c
 *	  What the core calls of PostgreSQL without any effect here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/generic_xlog.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/condition_variable.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "decode.h"

#define STUB(type, name, arguments, result) \
type \
name arguments \
{ \
	return result; \
}

/* memory and errors */
STUB(void, pfree, (void *ptr),)
STUB(int, errdetail, (const char *format,...), 0)
STUB(int, errhint, (const char *format,...), 0)
STUB(ErrorData *, CopyErrorData, (void), NULL)
STUB(void, FlushErrorState, (void),)
STUB(void, pre_format_elog_string, (int errnumber, const char *domain),)
STUB(char *, format_elog_string, (const char *format,...), NULL)

/* settings */
STUB(const char *, GetConfigOption,
	 (const char *name, bool missing_ok, bool restrict_privileged),
	 CppAsString2(PG_VERSION_NUM))
STUB(const char *, GetConfigOptionResetString, (const char *name), NULL)
STUB(void, MarkGUCPrefixReserved, (const char *prefix),)
STUB(int, set_config_option,
	 (const char *name, const char *value, GucContext context,
	  GucSource source, GucAction action, bool change, int elevel,
	  bool is_reload),
	 1)

/* processes, and shared memory */
STUB(void *, load_external_function,
	 (const char *file, const char *function, bool signal, void **handle),
	 NULL)
STUB(void, SetLatch, (struct Latch *latch),)
STUB(void, RequestAddinShmemSpace, (Size size),)
STUB(int, LWLockNewTrancheId, (void), LWTRANCHE_FIRST_USER_DEFINED)
STUB(void, LWLockRegisterTranche, (int tranche, const char *name),)
STUB(void, ConditionVariableInit, (ConditionVariable *variable),)

/* transactions; all servers descend from one */
STUB(void, RegisterXactCallback, (XactCallback callback, void *arg),)
STUB(void, ForceSyncCommit, (void),)
STUB(bool, superuser, (void), true)
STUB(uint64, GetSystemIdentifier, (void), 1)
STUB(void, PreventCommandDuringRecovery, (const char *command),)

/*
 * rows and relations; the xid is only asked for if several transactions lock a
 * row
 */
STUB(void, ReleaseSysCache, (HeapTuple tuple),)
STUB(void, systable_endscan, (SysScanDesc scan),)
STUB(TransactionId, HeapTupleGetUpdateXid, (HeapTupleHeader header),
	 InvalidTransactionId)
STUB(void, relation_close, (Relation closed, LOCKMODE lockmode),)
STUB(void, table_close, (Relation closed, LOCKMODE lockmode),)
STUB(BlockNumber, RelationGetNumberOfBlocksInFork,
	 (Relation counted, ForkNumber fork), 1)
STUB(void, GenericXLogAbort, (GenericXLogState *state),)
STUB(Datum, CallRow,
	 (FunctionCallInfo fcinfo, Datum *values, bool *nulls, int number),
	 (Datum) 0)

/* instants are numbers here: no text of one is read or written */
STUB(int, timestamp2tm,
	 (Timestamp timestamp, int *zone, struct pg_tm *tm, fsec_t *fsec,
	  const char **name, pg_tz *timezone),
	 -1)
STUB(int, tm2timestamp,
	 (struct pg_tm *tm, fsec_t fsec, int *zone, Timestamp *timestamp), -1)

/* these are declared differently in each version */
int			parse_no_text(void) __asm__("ParseDateTime");
int			decode_no_text(void) __asm__("DecodeDateTime");

STUB(int, parse_no_text, (void), -1)
STUB(int, decode_no_text, (void), -1)
