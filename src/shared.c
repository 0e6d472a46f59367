/*-------------------------------------------------------------------------
 *
 * shared.c
 *	  The extension's shared memory: how to attach to it, the layout in force,
 *	  and the slots of databases.
 *
 * If the library is preloaded, the memory is reserved when the server starts.
 * If not, the first session that needs the memory creates it.  One function
 * initializes it in both cases.  It must not fail, because others see the
 * memory as soon as it has a name.
 *
 * Each database that makes ids has a slot, which limit.c uses.  A session that
 * has entered its database's slot stays there to its end.  As the pages of the
 * mark hold everything that matters, a slot without sessions can go to another
 * database.
 *
 * Note about locking issues: what the lock guards is in snowflake.h.  It is
 * held for a few instructions at a time, never while waiting, and taken last:
 * after heavyweight locks and after the content locks of buffers.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/ipc.h"

#include "snowflake.h"

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
#define SHMEM_VERSION	6
#endif

StaticAssertDecl(sizeof(SharedState) <= SHMEM_SIZE,
				 "shared memory outgrew its size");

SharedState *shared = NULL;

/* the slot of our database, from SlotEnter() on */
DatabaseSlot *my_slot = NULL;

/* Whether this process has seen that the layout is fixed. */
static bool layout_is_known = false;

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
	pg_atomic_init_u32(&state->announced, 0);
	state->clock.pace = DT_NOBEGIN;
	ConditionVariableInit(&state->limit_moved);
	pg_atomic_init_u32(&state->changes, 0);
	for (int i = 0; i < NUM_STATS; i++)
		pg_atomic_init_u64(&state->counters[i],
						   i == STATS_RESET_AT ? GetCurrentTimestamp() : 0);
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

/* Fix the layout to what the setting says, unless that has been done. */
static void
shared_fix_layout(void)
{
	bool		usable = SettingsLayoutIsUsable();

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	if (!shared->layout_fixed && usable)
	{
		memcpy(&shared->layout, &setting_layout, sizeof(Layout));
		/* pairs with SharedLayoutIfFixed() */
		pg_write_barrier();
		shared->layout_fixed = true;
	}
	LWLockRelease(&shared->lock);
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
 * The layout for calls that make ids, and for leases.  The first of them after
 * the start of the server fixes it, as the words of lanes depend on it.
 */
const Layout *
SharedLayout(void)
{
	if (unlikely(!layout_is_known) && SharedLayoutIfFixed() == NULL)
		shared_fix_layout();
	return SharedLayoutToRead();
}

/* The layout for calls that only read ids: until it is fixed, the setting. */
const Layout *
SharedLayoutToRead(void)
{
	if (likely(layout_is_known))
		return &shared->layout;

	if (SharedLayoutIfFixed() == NULL)
	{
		if (!SettingsLayoutIsUsable())
			SettingsCheckUsable();
		return &setting_layout;
	}
	layout_is_known = true;
	return &shared->layout;
}

/*
 * Slots
 */

static void
slot_clear(DatabaseSlot *slot)
{
	pg_atomic_write_u64(&slot->limit, 0);
	pg_atomic_write_u64(&slot->standbys, 0);
	slot->reserved = 0;
}

/* Whether no other session is in the slot of our database. */
bool
SlotIsOurs(void)
{
	bool		is_ours;

	LWLockAcquire(&shared->lock, LW_SHARED);
	is_ours = my_slot->sessions == 1;
	LWLockRelease(&shared->lock);
	return is_ours;
}

/*
 * Forget what is known of our database, as after a start, because it does not
 * describe the present pages, which the caller has locked.  Nobody is about to
 * raise the limit: who has written the pages has made them match the slot, or
 * has left it.
 */
void
SlotForget(void)
{
	LaneBeginChange();
	slot_clear(my_slot);
	LaneEndChange();
}

static void
slot_leave(int code, Datum arg)
{
	if (my_slot == NULL)
		return;
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	Assert(my_slot->sessions > 0);
	my_slot->sessions--;
	LWLockRelease(&shared->lock);
	my_slot = NULL;
}

/*
 * The slot of our database or, if it has none, one that it can take: a free
 * one, or else, of those without sessions, the one with the lowest limit.
 * NULL if there is none.  The caller holds the lock.
 */
static DatabaseSlot *
slot_find(void)
{
	DatabaseSlot *unused = NULL;

	for (int i = 0; i < MAX_DATABASES; i++)
	{
		DatabaseSlot *candidate = &shared->slots[i];

		/* free slots come after those that were used */
		if (candidate->database == MyDatabaseId ||
			!OidIsValid(candidate->database))
			return candidate;
		if (candidate->sessions == 0 &&
			(unused == NULL ||
			 pg_atomic_read_u64(&candidate->limit) <
			 pg_atomic_read_u64(&unused->limit)))
			unused = candidate;
	}
	return unused;
}

/* The slot of our database, or one that it can take; NULL if there is none. */
DatabaseSlot *
SlotPeek(void)
{
	DatabaseSlot *found;

	LWLockAcquire(&shared->lock, LW_SHARED);
	found = slot_find();
	LWLockRelease(&shared->lock);
	return found;
}

/*
 * Enter the slot of our database.  If it is taken from another database, the
 * ids of that one will begin above its mark, as after a start.
 */
void
SlotEnter(void)
{
	static bool leaves = false;
	DatabaseSlot *found;

	if (my_slot != NULL)
		return;

	/* this may throw, so do it first */
	if (!leaves)
		before_shmem_exit(slot_leave, (Datum) 0);
	leaves = true;

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	found = slot_find();
	if (found != NULL && found->database != MyDatabaseId)
	{
		Assert(found->sessions == 0);
		found->database = MyDatabaseId;
		slot_clear(found);
	}
	if (found != NULL)
		found->sessions++;
	LWLockRelease(&shared->lock);

	if (found == NULL)
		ereport(ERROR,
				(StatsErrcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many databases make snowflake ids"),
				 errdetail("There is room for %d at the same time.",
						   MAX_DATABASES),
				 errhint("Try again when sessions in other databases have ended.")));
	my_slot = found;
}
