/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  Every difference between the supported versions of PostgreSQL.
 *
 * Other files are written for the newest version; this header makes them work
 * on older ones.  Include it after the PostgreSQL headers that a file needs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_COMPAT_H
#define SNOWFLAKE_COMPAT_H

#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "replication/walsender_private.h"
#include "storage/lwlock.h"
#if PG_VERSION_NUM >= 160000
#include "storage/relfilelocator.h"
#include "varatt.h"
#else
#include "storage/relfilenode.h"
/* 16 renamed everything about the file of a relation */
#define RelFileLocator RelFileNode
#endif
#include "storage/shmem.h"
#include "utils/guc.h"
#include "utils/guc_tables.h"
#include "utils/wait_event.h"

#if PG_VERSION_NUM < 150000
#error "snowflake needs PostgreSQL 15 or later"
#endif
#if PG_VERSION_NUM >= 170000
#include "storage/dsm_registry.h"
#endif

/* 19 gave signal handlers a type of their own. */
#ifndef PG_SIG_IGN
#define PG_SIG_IGN SIG_IGN
#endif

/* 17 added transaction_timeout. */
#if PG_VERSION_NUM < 170000
#define TransactionTimeoutPending false
#endif

/* 18 added pg_noreturn, which comes before a declaration. */
#if PG_VERSION_NUM < 180000
#define pg_noreturn pg_attribute_noreturn()
#endif

/* Allows a setting to be defined in a parallel query, as older versions do. */
#ifndef GUC_ALLOW_IN_PARALLEL
#define GUC_ALLOW_IN_PARALLEL 0
#endif

/* From 16 on, a GUC's check hook must allocate its "extra" by guc_malloc(). */
#if PG_VERSION_NUM < 160000
#define guc_malloc(elevel, size) malloc(size)
#endif

/*
 * Whether synchronous standbys are named, as the checkpointer knows it.  From
 * 15.13, 16.9 and 17.5 on, a first bit says that it does know, and the byte
 * has another name.  The server may be of another minor release than its
 * headers were.
 */
#if PG_VERSION_NUM >= 170005 || \
	(PG_VERSION_NUM >= 160009 && PG_VERSION_NUM < 170000) || \
	(PG_VERSION_NUM >= 150013 && PG_VERSION_NUM < 160000)
#define sync_standbys_defined sync_standbys_status
#endif

static inline bool
compat_standbys_are_named(bool *is_known)
{
	static int	version = 0;
	uint8		status = *(volatile uint8 *) &WalSndCtl->sync_standbys_defined;

	if (version == 0)
		version = atoi(GetConfigOption("server_version_num", false, false));
	*is_known = true;
	if (version >= 170005 ||
		(version >= 160009 && version < 170000) ||
		(version >= 150013 && version < 160000))
	{
		*is_known = (status & 1) != 0;
		status >>= 1;
	}
	return (status & 1) != 0;
}

/* The record of a setting, or NULL; 16 exported the function for that. */
#if PG_VERSION_NUM >= 160000
#define compat_find_setting(name) find_option(name, false, true, DEBUG5)
#else
static inline int
compat_compare_name(const void *name, const void *setting)
{
	struct config_generic *const *record = setting;

	return pg_strcasecmp(name, (*record)->name);
}

static inline struct config_generic *
compat_find_setting(const char *name)
{
	struct config_generic **found =
	bsearch(name, get_guc_variables(), GetNumConfigOptions(),
			sizeof(struct config_generic *), compat_compare_name);

	return found != NULL ? *found : NULL;
}
#endif

/* From 17 on, the wait events of an extension have names. */
#if PG_VERSION_NUM >= 170000
#define compat_wait_event(name) WaitEventExtensionNew(name)
#else
#define compat_wait_event(name) PG_WAIT_EXTENSION
#endif

/* The callback that initializes shared memory; 19 gave it an argument. */
#if PG_VERSION_NUM >= 190000
#define SHMEM_INIT_ARGS void *ptr, void *arg
#define COMPAT_INITIALIZE(function, ptr) (function) ((ptr), NULL)
#else
#define SHMEM_INIT_ARGS void *ptr
#define COMPAT_INITIALIZE(function, ptr) (function) (ptr)
#endif

/* 19 keeps the names of tranches in shared memory. */
#if PG_VERSION_NUM >= 190000
#define compat_new_tranche(name) LWLockNewTrancheId(name)
#define compat_register_tranche(tranche, name) ((void) 0)
#else
#define compat_new_tranche(name) LWLockNewTrancheId()
#define compat_register_tranche(tranche, name) \
	LWLockRegisterTranche(tranche, name)
#endif

/*
 * Attach to named shared memory from a backend, even if the library is not
 * preloaded.  The first caller has it initialized, which must not fail; the
 * others wait for that.
 *
 * 17 has a registry of dynamic shared memory for this.  Before 17, the memory
 * comes from what the main segment has to spare, which is little.
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
