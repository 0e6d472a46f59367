/*-------------------------------------------------------------------------
 *
 * memory.c
 *	  The shared memory of the simulated server.
 *
 * Each access is a step, before which another process may go on.
 *
 * If the plan says that memory is weak, a read may return an older value that
 * another process has overwritten, as on a machine that reorders accesses:
 *
 *		Each location keeps its last values, with the time at which each was
 *		overwritten.  A process has a horizon: what was overwritten before it,
 *		the process cannot read any more.  Each value carries the horizon that
 *		its writer had announced by a barrier; a read barrier takes over the
 *		horizons of all values that were read before it.
 *
 * This covers all orders but that of a read with a later write of the same
 * process.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "sim.h"

#define LOCATIONS		(MEMORY_SIZE / 8)
#define OLD_VALUES		6

typedef struct Value
{
	uint64		value;
	uint64		overwritten_at;
	uint64		horizon;
} Value;

typedef struct Location
{
	bool		used;
	int			num_old;
	Value		old[OLD_VALUES];
	uint64		horizon;		/* of the present value */
	/* what each process has seen last here: it never sees an older one */
	uint64		seen[MAX_PROCESSES];
} Location;

char	   *memory;

static Location locations[LOCATIONS];
static int	used_locations[LOCATIONS];
static int	num_used = 0;
static uint64 now = 0;			/* counts writes */

/* Forget old values, as at a start. */
void
MemoryForget(void)
{
	while (num_used > 0)
		memset(&locations[used_locations[--num_used]], 0, sizeof(Location));
}

static Location *
location_of(volatile void *ptr)
{
	ptrdiff_t	index = ((volatile char *) ptr - memory) / 8;

	if (!plan.weak_memory || me == NULL || index < 0 || index >= LOCATIONS)
		return NULL;
	if (!locations[index].used)
	{
		locations[index].used = true;
		used_locations[num_used++] = index;
	}
	return &locations[index];
}

static uint64
load(volatile void *ptr, int size)
{
	return size == 8 ? *(volatile uint64 *) ptr : *(volatile uint32 *) ptr;
}

static void
store(volatile void *ptr, int size, uint64 value)
{
	Location   *location = location_of(ptr);

	if (location != NULL)
	{
		Value	   *old;

		if (location->num_old == OLD_VALUES)
			memmove(&location->old[0], &location->old[1],
					sizeof(Value) * --location->num_old);
		old = &location->old[location->num_old++];
		old->value = load(ptr, size);
		old->horizon = location->horizon;
		old->overwritten_at = ++now;
		location->horizon = me->announced;
		location->seen[me->id] = me->written = now;
	}
	if (size == 8)
		*(volatile uint64 *) ptr = value;
	else
		*(volatile uint32 *) ptr = (uint32) value;
}

uint64
MemoryRead(volatile void *ptr, int size)
{
	Location   *location;
	uint64		seen;
	int			oldest;
	int			chosen;

	ProcessStep();
	location = location_of(ptr);
	if (location == NULL)
		return load(ptr, size);

	seen = Max(me->horizon, location->seen[me->id]);
	oldest = location->num_old;
	while (oldest > 0 && location->old[oldest - 1].overwritten_at > seen)
		oldest--;
	chosen = location->num_old;
	if (oldest < chosen && RandomOneIn(4))
		chosen -= RandomBelow(chosen - oldest + 1);

	location->seen[me->id] = chosen > 0 ?
		Max(seen, location->old[chosen - 1].overwritten_at) : seen;
	if (chosen == location->num_old)
	{
		me->read_horizon = Max(me->read_horizon, location->horizon);
		return load(ptr, size);
	}
	me->read_horizon = Max(me->read_horizon, location->old[chosen].horizon);
	return location->old[chosen].value;
}

void
MemoryWrite(volatile void *ptr, int size, uint64 value)
{
	ProcessStep();
	store(ptr, size, value);
}

/* A barrier on both sides of an atomic change: its value announces all. */
static void
announce(volatile void *ptr)
{
	Location   *location = location_of(ptr);

	MemoryFullBarrier();
	if (location != NULL)
		location->horizon = now;
}

uint64
MemoryAdd(volatile void *ptr, int size, int64 number)
{
	uint64		old;

	ProcessStep();
	old = load(ptr, size);
	store(ptr, size, old + number);
	announce(ptr);
	return old;
}

bool
MemorySwap(volatile void *ptr, uint64 *expected, uint64 value)
{
	uint64		old;

	ProcessStep();
	MemoryFullBarrier();
	old = load(ptr, 8);
	if (old != *expected)
	{
		*expected = old;
		return false;
	}
	store(ptr, 8, value);
	announce(ptr);
	return true;
}

void
MemoryReadBarrier(void)
{
	ProcessStep();
	if (me != NULL)
		me->horizon = Max(me->horizon, me->read_horizon);
}

void
MemoryWriteBarrier(void)
{
	ProcessStep();
	if (me != NULL)
		me->announced = Max(me->written, me->horizon);
}

/* Also what taking or releasing a lock does. */
void
MemoryFullBarrier(void)
{
	if (me != NULL)
		me->horizon = me->read_horizon = me->announced = now;
}

/*
 * Plain accesses.  The core is compiled with -fsanitize=thread, so that it
 * calls a function before each access.  These functions are ours: an access to
 * shared memory is a step, and must be guarded as src/snowflake.h says.
 */

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

/*
 * How many locks the process holds, exclusively if it writes: a given one or,
 * if NULL, content locks.
 */
static int
held(const LWLock *lock, bool writes)
{
	int			number = 0;

	for (int i = 0; i < MAX_LWLOCKS; i++)
	{
		if (me->lwlocks[i] != NULL &&
			(lock != NULL ? me->lwlocks[i] == lock :
			 me->lwlocks[i]->tranche == LWTRANCHE_BUFFER_CONTENT) &&
			(me->lwlock_is_exclusive[i] || !writes))
			number++;
	}
	return number;
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
		held(&state->lock, writes) || held(AddinShmemInitLock, true) ||
		(first != BY_LOCK && last != BY_LOCK && held(NULL, writes) == 2))
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
