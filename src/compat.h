/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Every difference between the supported versions of PostgreSQL.
 *
 * The code elsewhere is written for the newest version; here it is made to
 * work on the older ones.  Included after the PostgreSQL headers that a file
 * needs, and by .c files only.
 *
 * snowflake/src/compat.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_COMPAT_H
#define SNOWFLAKE_COMPAT_H

#include "access/xlog.h"
#include "catalog/pg_proc.h"
#include "miscadmin.h"
#include "replication/syncrep.h"
#include "replication/walsender.h"
#include "replication/walsender_private.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/acl.h"
#include "utils/datetime.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"

#if PG_VERSION_NUM >= 150000
#include "common/pg_prng.h"
#else
#include "utils/timestamp.h"
#endif
#if PG_VERSION_NUM >= 170000
#include "storage/dsm_registry.h"
#include "utils/wait_event.h"
#elif PG_VERSION_NUM >= 140000
#include "utils/wait_event.h"
#else
#error "snowflake needs PostgreSQL 14 or later"
#endif

/* 15 brought a generator of random numbers that is fast and seeded per process. */
static inline uint64
compat_random(void)
{
#if PG_VERSION_NUM >= 150000
	return pg_prng_uint64(&pg_global_prng_state);
#else
	return ((uint64) random() << 31) ^ (uint64) random();
#endif
}

#if PG_VERSION_NUM < 150000
#define MarkGUCPrefixReserved(prefix) EmitWarningsOnPlaceholders(prefix)
/* In 14 a process learns the timeline when it finds that recovery is over. */
#define GetWALInsertionTimeLine() ThisTimeLineID
#endif

/* From 15 on shared memory is requested in a hook, before during preloading. */
#if PG_VERSION_NUM >= 150000
#define COMPAT_HOOK_SHMEM_REQUEST(previous, function) \
	((previous) = shmem_request_hook, shmem_request_hook = (function))
#else
typedef void (*shmem_request_hook_type) (void);
#define COMPAT_HOOK_SHMEM_REQUEST(previous, function) ((function) ())
#endif

/*
 * Settings that can be defined while a parallel query runs; older versions
 * do not mind.
 */
#ifndef GUC_ALLOW_IN_PARALLEL
#define GUC_ALLOW_IN_PARALLEL 0
#endif

/* 16 wants the memory that a GUC's check hook hands over from guc_malloc(). */
#if PG_VERSION_NUM < 160000
#define guc_malloc(elevel, size) malloc(size)
#endif

/* 16 gave DecodeDateTime() an argument for details of errors. */
static inline int
compat_decode_datetime(char **field, int *ftype, int nf, int *dtype,
					   struct pg_tm *tm, fsec_t *fsec, int *tzp)
{
#if PG_VERSION_NUM >= 160000
	DateTimeErrorExtra extra;

	return DecodeDateTime(field, ftype, nf, dtype, tm, fsec, tzp, &extra);
#else
	return DecodeDateTime(field, ftype, nf, dtype, tm, fsec, tzp);
#endif
}

/* The record of a setting, or NULL; 16 exported the function for that. */
static inline struct config_generic *
compat_find_setting(const char *name)
{
#if PG_VERSION_NUM >= 160000
	return find_option(name, false, true, DEBUG5);
#else
	struct config_generic **settings = get_guc_variables();
	int			num_settings = GetNumConfigOptions();

	for (int i = 0; i < num_settings; i++)
	{
		/* most of the hundreds differ in the first letter */
		if (pg_tolower((unsigned char) settings[i]->name[0]) == name[0] &&
			pg_strcasecmp(settings[i]->name, name) == 0)
			return settings[i];
	}
	return NULL;
#endif
}

/* Whether the current user may execute a function. */
static inline bool
compat_may_execute(Oid function)
{
#if PG_VERSION_NUM >= 160000
	return object_aclcheck(ProcedureRelationId, function, GetUserId(),
						   ACL_EXECUTE) == ACLCHECK_OK;
#else
	return pg_proc_aclcheck(function, GetUserId(), ACL_EXECUTE) == ACLCHECK_OK;
#endif
}

/* The subtransaction that first gave a relation another file, in this transaction. */
#if PG_VERSION_NUM >= 160000
#define COMPAT_FIRST_FILE_SUBID(relation) ((relation)->rd_firstRelfilelocatorSubid)
#else
#define COMPAT_FIRST_FILE_SUBID(relation) ((relation)->rd_firstRelfilenodeSubid)
#endif

/*
 * Whether there are to be synchronous standbys.  Minor releases of 2025 turned
 * a flag into two bits, of which one says that the other has been set; before
 * that, right after a start, commits go by the setting.
 */
static inline bool
compat_sync_standbys_defined(void)
{
	if (max_wal_senders == 0)
		return false;
#ifdef SYNC_STANDBY_DEFINED
	if ((WalSndCtl->sync_standbys_status & SYNC_STANDBY_INIT) == 0)
		return SyncRepStandbyNames != NULL && SyncRepStandbyNames[0] != '\0';
	return (WalSndCtl->sync_standbys_status & SYNC_STANDBY_DEFINED) != 0;
#else
	return WalSndCtl->sync_standbys_defined;
#endif
}

/* Wait events of an extension have names from 17 on. */
static inline uint32
compat_wait_event(const char *name)
{
#if PG_VERSION_NUM >= 170000
	return WaitEventExtensionNew(name);
#else
	return PG_WAIT_EXTENSION;
#endif
}

/* The function that initialises named shared memory; 19 gave it an argument. */
#if PG_VERSION_NUM >= 190000
#define SHMEM_INIT_ARGS void *ptr, void *arg
#else
#define SHMEM_INIT_ARGS void *ptr
#endif

/*
 * Attach to the shared memory of that name from a backend, without a word in
 * shared_preload_libraries.  Whoever comes first has it initialised, which
 * must not fail; the others wait for that.
 *
 * 17 has a registry of dynamic shared memory for this.  Before, the memory
 * comes out of the little that the server keeps spare.
 */
static inline void *
compat_attach_shmem(const char *name, Size size,
					void (*initialize) (SHMEM_INIT_ARGS))
{
	void	   *ptr;
	bool		found;

#if PG_VERSION_NUM >= 190000
	ptr = GetNamedDSMSegment(name, size, initialize, &found, NULL);
#elif PG_VERSION_NUM >= 170000
	ptr = GetNamedDSMSegment(name, size, initialize, &found);
#else
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	ptr = ShmemInitStruct(name, size, &found);
	if (!found)
		initialize(ptr);
	LWLockRelease(AddinShmemInitLock);
#endif
	return ptr;
}

#endif							/* SNOWFLAKE_COMPAT_H */
