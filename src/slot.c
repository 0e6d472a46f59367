/*-------------------------------------------------------------------------
 *
 * slot.c
 *	  The slot of a database in shared memory.
 *
 * Each database that makes ids has a slot, which limit.c uses.  A session that
 * has entered its database's slot stays there to its end.  As the pages of the
 * mark hold everything that matters, a slot without sessions can go to another
 * database.  A database that was created again, with the same OID, finds the
 * slot of the one before: each session compares it with the pages first, see
 * LimitEnter().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"

#include "lane.h"
#include "slot.h"

/* the slot of our database, from SlotEnter() on */
DatabaseSlot *my_slot = NULL;

static void
slot_clear(DatabaseSlot *slot)
{
	pg_atomic_write_u64(&slot->limit, 0);
	pg_atomic_write_u64(&slot->standbys, 0);
	slot->reserved = 0;
}

/*
 * Forget what is known of our database, as after a start, because it does not
 * describe the present pages, which the caller has locked.  Nobody is about to
 * raise the limit: who has written the pages has made them match the slot.
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
