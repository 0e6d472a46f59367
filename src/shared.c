/*-------------------------------------------------------------------------
 *
 * shared.c
 *	  Attaches to the extension's shared memory, and fixes the layout in force.
 *
 * If the library is preloaded, the memory is reserved when the server starts.
 * If not, the first session that needs the memory creates it.  One function
 * initializes it in both cases.  It must not fail, because others see the
 * memory as soon as it has a name.
 *
 * Note about locking issues: one LWLock guards everything that is not an
 * atomic.  It is held for a few instructions at a time, never while waiting,
 * and taken last: after heavyweight locks and after the content locks of
 * buffers.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "clock.h"
#include "compat.h"
#include "settings.h"
#include "shared.h"

#define SHMEM_NAME		"snowflake"

/*
 * The same in every version of the library, however much of it is used.  If a
 * library is replaced under a running server, the new one must find the memory
 * of the old one, so that it can look at the header and refuse it.
 */
#ifndef PG_HAVE_ATOMIC_U64_SIMULATION
#define SHMEM_SIZE		49152
#else
/* each 64-bit atomic has a spinlock beside it */
#define SHMEM_SIZE		65536
#endif
#define SHMEM_MAGIC		0x534e4f57	/* "SNOW" */
#ifndef SHMEM_VERSION
#define SHMEM_VERSION	5
#endif

StaticAssertDecl(sizeof(SharedState) <= SHMEM_SIZE,
				 "shared memory outgrew its size");

SharedState *shared = NULL;

/*
 * settings_changes, when the fixed layout was last compared with the setting
 */
static uint32 settings_seen = 0;

static shmem_startup_hook_type prev_shmem_startup_hook = NULL;
static shmem_request_hook_type prev_shmem_request_hook = NULL;

/* Must not fail, see above. */
static void
shared_initialize(SHMEM_INIT_ARGS)
{
	SharedState *state = (SharedState *) ptr;

	/* recycled memory may hold anything */
	memset(state, 0, sizeof(SharedState));
	state->magic = SHMEM_MAGIC;
	state->struct_version = SHMEM_VERSION;
	state->size = sizeof(SharedState);
	LWLockInitialize(&state->lock, compat_new_tranche("snowflake"));
	state->lease.worker_id = -1;
	pg_atomic_init_u64(&state->lease.end, 0);
	StatsInit(&state->stats);
	pg_atomic_init_u64(&state->clock.pace, (uint64) DT_NOBEGIN);
	pg_atomic_init_u64(&state->other_system, 0);
	ConditionVariableInit(&state->limit_moved);
	pg_atomic_init_u32(&state->changes, 0);
	for (int i = 0; i < MAX_DATABASES; i++)
	{
		pg_atomic_init_u64(&state->slots[i].limit, 0);
		pg_atomic_init_u64(&state->slots[i].standbys, 0);
	}
	for (int i = 0; i < MAX_LANES; i++)
		pg_atomic_init_u64(&state->lanes[i].word, 0);
}

/* Add a hint to PostgreSQL's errors for lack of memory. */
static void
shared_error_callback(void *arg)
{
	int			code = geterrcode();

	/* for dynamic shared memory, the last two mean no slot, and no room */
	if (code == ERRCODE_OUT_OF_MEMORY ||
		code == ERRCODE_INSUFFICIENT_RESOURCES ||
		code == ERRCODE_DISK_FULL)
		errhint("Add \"snowflake\" to \"shared_preload_libraries\" and restart the server, so that it reserves the memory when it starts.");
}

static void
shared_use(SharedState *state)
{
	compat_register_tranche(state->lock.tranche, "snowflake");
	shared = state;
}

/* Attach to the memory, unless we already have. */
void
SharedAttach(void)
{
	SharedState *state;
	ErrorContextCallback errcallback = {
		.callback = shared_error_callback,
		.previous = error_context_stack
	};

	if (shared != NULL)
		return;
	error_context_stack = &errcallback;
	state = compat_attach_shmem(SHMEM_NAME, SHMEM_SIZE, shared_initialize);
	error_context_stack = errcallback.previous;

	if (state->magic != SHMEM_MAGIC ||
		state->struct_version != SHMEM_VERSION ||
		state->size != sizeof(SharedState))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("snowflake library was replaced while the server was running"),
				 errdetail("Shared memory has version %u and size %u, but this library has version %u and size %u.",
						   state->struct_version, state->size,
						   SHMEM_VERSION, (uint32) sizeof(SharedState)),
				 errhint("Restart the server.")));
	shared_use(state);
}

static void
shared_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	RequestAddinShmemSpace(SHMEM_SIZE);
}

static void
shared_create(void)
{
	bool		found;
	SharedState *state;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	state = ShmemInitStruct(SHMEM_NAME, SHMEM_SIZE, &found);
	if (!found)
	{
		COMPAT_INITIALIZE(shared_initialize, state);
		ClockNoteStart(&state->clock);
	}
	LWLockRelease(AddinShmemInitLock);
	shared_use(state);
}

/* Reserve the memory, if the library is being preloaded. */
void
SharedInit(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;

	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = shared_request;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = shared_create;
}

/* Warn that a changed layout waits for a restart, once for each layout. */
static void
shared_warn_of_pending_layout(void)
{
	int64		hash = 0;
	bool		warn;

	if (!SettingsLayoutIsUsable())
		return;
	if (setting_layout.hash != shared->layout.hash)
		hash = setting_layout.hash;

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	warn = hash != 0 && shared->pending_layout_hash != hash;
	shared->pending_layout_hash = hash;
	LWLockRelease(&shared->lock);

	if (warn)
		ereport(WARNING,
				(errcode(ERRCODE_CANT_CHANGE_RUNTIME_PARAM),
				 errmsg("parameter \"snowflake.layout\" cannot be changed without restarting the server"),
				 errdetail("The layout \"%s\" stays in force until then.",
						   LayoutToText(&shared->layout))));
}

/* Fix the layout to what the setting says, unless that has been done. */
static void
shared_fix_layout(void)
{
	bool		usable = SettingsLayoutIsUsable();
	bool		fixed;

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	if (!shared->layout_fixed && usable)
	{
		memcpy(&shared->layout, &setting_layout, sizeof(Layout));
		/* pairs with SharedLayoutIfFixed() */
		pg_write_barrier();
		shared->layout_fixed = true;
	}
	fixed = shared->layout_fixed;
	LWLockRelease(&shared->lock);

	if (!fixed)
		SettingsCheckUsable();
}

/* The layout in force, or NULL if nothing has fixed it since the start. */
const Layout *
SharedLayoutIfFixed(void)
{
	SharedAttach();
	if (!shared->layout_fixed)
		return NULL;
	pg_read_barrier();
	return &shared->layout;
}

/*
 * The layout for calls that make ids.  The first of them after the start of
 * the server fixes it, because the words of lanes depend on it.
 */
const Layout *
SharedLayout(void)
{
	if (settings_seen != settings_changes && SharedLayoutIfFixed() == NULL)
		shared_fix_layout();
	return SharedLayoutToRead();
}

/* The layout for calls that only read ids: until it is fixed, the setting. */
const Layout *
SharedLayoutToRead(void)
{
	if (likely(settings_seen == settings_changes))
		return &shared->layout;

	if (SharedLayoutIfFixed() == NULL)
	{
		if (!SettingsLayoutIsUsable())
			SettingsCheckUsable();
		return &setting_layout;
	}
	shared_warn_of_pending_layout();
	settings_seen = settings_changes;
	return &shared->layout;
}
