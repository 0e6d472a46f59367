/*-------------------------------------------------------------------------
 *
 * stubs.c
 *	  What the core calls of PostgreSQL without any effect here.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/lwlock.h"
#include "utils/guc.h"

/* The linker knows a function by its name, whatever its arguments are. */
#define STUB(name, result) \
extern long stub_##name(void) __asm__(#name); \
long \
stub_##name(void) \
{ \
	return result; \
}

/* memory and errors */
STUB(pfree, 0)
STUB(errdetail, 0)
STUB(errhint, 0)
STUB(geterrcode, 0)
STUB(pre_format_elog_string, 0)
STUB(format_elog_string, 0)

/* settings: none is known beforehand, and WorldLoadSettings() sets all */
STUB(DefineCustomIntVariable, 0)
STUB(DefineCustomEnumVariable, 0)
STUB(DefineCustomStringVariable, 0)
STUB(get_guc_variables, 0)
STUB(GetNumConfigOptions, 0)
STUB(MarkGUCPrefixReserved, 0)
STUB(set_config_option, 1)

/* processes, and shared memory */
STUB(SetLatch, 0)
STUB(ProcessProcSignalBarrier, 0)
STUB(RequestAddinShmemSpace, 0)
STUB(LWLockNewTrancheId, LWTRANCHE_FIRST_USER_DEFINED)
STUB(LWLockRegisterTranche, 0)
STUB(ConditionVariableInit, 0)

/* transactions; all servers descend from one */
STUB(RegisterXactCallback, 0)
STUB(ForceSyncCommit, 0)
STUB(superuser, true)
STUB(GetSystemIdentifier, 1)
STUB(get_database_name, 0)
STUB(PreventCommandDuringRecovery, 0)

/*
 * rows and relations; the xid is only asked for if several transactions lock a
 * row
 */
STUB(ReleaseSysCache, 0)
STUB(systable_endscan, 0)
STUB(HeapTupleGetUpdateXid, 0)
STUB(relation_close, 0)
STUB(table_close, 0)
STUB(GenericXLogAbort, 0)

/* instants are numbers here: no text of one is read or written */
STUB(timestamp2tm, -1)
STUB(tm2timestamp, -1)
STUB(timestamptz_to_str, (long) "")

const char *
GetConfigOption(const char *name, bool missing_ok, bool restrict_privileged)
{
	return CppAsString2(PG_VERSION_NUM);
}
