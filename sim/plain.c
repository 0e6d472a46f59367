/*-------------------------------------------------------------------------
 *
 * plain.c
 *	  Plain accesses to shared memory.
 *
 * The core is compiled with -fsanitize=thread, so that it calls a function
 * before each access.  These functions are ours: an access to shared memory
 * is a step, and must be guarded as src/shared.h says.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "memory.h"
#include "shared.h"
#include "sim.h"

/* What must be held to access a field. */
typedef enum Guarded
{
	BY_NOTHING,
	BY_LOCK,					/* that of SharedState */
	BY_PAGES					/* content locks of the mark, or the lock */
} Guarded;

typedef struct Field
{
	Size		offset;
	Size		size;
	Guarded		reads;
	Guarded		writes;
} Field;

#define FIELD(name, reads, writes) \
	{offsetof(SharedState, name), sizeof(((SharedState *) NULL)->name), \
	reads, writes}

/* All others are guarded by the lock. */
static const Field fields[] = {
	FIELD(magic, BY_NOTHING, BY_LOCK),
	FIELD(struct_version, BY_NOTHING, BY_LOCK),
	FIELD(size, BY_NOTHING, BY_LOCK),
	FIELD(lock, BY_NOTHING, BY_NOTHING),
	/* never change once they are fixed */
	FIELD(layout_fixed, BY_NOTHING, BY_LOCK),
	FIELD(layout, BY_NOTHING, BY_LOCK),
	FIELD(announced, BY_NOTHING, BY_LOCK),
	FIELD(clock.doubted, BY_NOTHING, BY_LOCK),
	FIELD(limit_moved, BY_NOTHING, BY_NOTHING),
	/* of each slot */
	FIELD(slots[0].reserved, BY_PAGES, BY_PAGES)
};

/* The lease worker, which alone changes it, reads it without the lock. */
static const Field lease = FIELD(lease, BY_NOTHING, BY_LOCK);

static bool
is_in(const Field *field, Size offset)
{
	return offset >= field->offset && offset < field->offset + field->size;
}

/* What guards a byte of shared memory. */
static Guarded
guarded_at(Size offset, bool writes)
{
	Size		slots = offsetof(SharedState, slots);

	if (me->is_lease_worker && is_in(&lease, offset))
		return writes ? lease.writes : lease.reads;
	if (offset >= slots && offset < offsetof(SharedState, changes))
		offset = slots + (offset - slots) % sizeof(DatabaseSlot);
	for (int i = 0; i < lengthof(fields); i++)
	{
		if (is_in(&fields[i], offset))
			return writes ? fields[i].writes : fields[i].reads;
	}
	return BY_LOCK;
}

/* Whether the process holds a lock, exclusively if it writes. */
static bool
holds(const LWLock *lock, bool writes)
{
	for (int i = 0; i < MAX_LWLOCKS; i++)
	{
		if (me->lwlocks[i] == lock && (me->lwlock_is_exclusive[i] || !writes))
			return true;
	}
	return false;
}

static bool
holds_pages(bool writes)
{
	int			held = 0;

	for (int i = 0; i < MAX_LWLOCKS; i++)
	{
		if (me->lwlocks[i] != NULL &&
			me->lwlocks[i]->tranche == LWTRANCHE_BUFFER_CONTENT &&
			(me->lwlock_is_exclusive[i] || !writes))
			held++;
	}
	return held == 2;
}

static void
note_access(const volatile void *address, Size size, bool writes)
{
	SharedState *state = (SharedState *) memory;
	ptrdiff_t	offset = (const char *) address - memory;
	Guarded		first;
	Guarded		last;

	if (offset < 0 || offset >= sizeof(SharedState) || me == NULL)
		return;
	if (plan.plain_steps)
		ProcessStep();

	first = guarded_at(offset, writes);
	last = guarded_at(offset + size - 1, writes);
	/* who creates the memory has it alone, and others wait for this lock */
	if ((first == BY_NOTHING && last == BY_NOTHING) ||
		holds(&state->lock, writes) || holds(AddinShmemInitLock, true) ||
		(first != BY_LOCK && last != BY_LOCK && holds_pages(writes)))
		return;
	PromiseBroken("%s shared memory at %d without its lock, in %s",
				  writes ? "writes" : "reads", (int) offset, me->doing);
}

#define ACCESS(kind, size, writes) \
extern void __tsan_##kind##size(void *address); \
void \
__tsan_##kind##size(void *address) \
{ \
	note_access(address, size, writes); \
}

ACCESS(read, 1, false)
ACCESS(read, 2, false)
ACCESS(read, 4, false)
ACCESS(read, 8, false)
ACCESS(read, 16, false)
ACCESS(write, 1, true)
ACCESS(write, 2, true)
ACCESS(write, 4, true)
ACCESS(write, 8, true)
ACCESS(write, 16, true)
ACCESS(unaligned_read, 8, false)
ACCESS(unaligned_write, 8, true)

extern void __tsan_read_range(void *address, Size size);
void
__tsan_read_range(void *address, Size size)
{
	note_access(address, size, false);
}

extern void __tsan_write_range(void *address, Size size);
void
__tsan_write_range(void *address, Size size)
{
	note_access(address, size, true);
}

extern void __tsan_init(void);
void
__tsan_init(void)
{
}
