/*-------------------------------------------------------------------------
 *
 * slot.c
 *	  The slot of a database in shared memory.
 *
 * Each database that makes ids has a slot, which limit.c uses.  A session that
 * has entered its database's slot stays there to its end.  As the pages of the
 * mark hold everything that matters, a slot without sessions can go to another
 * database.  But the bound in a copied database may equal ours, so a database
 * that was created again must not inherit a slot.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/transam.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "utils/syscache.h"

#include "lane.h"
#include "slot.h"

/* the slot of our database, from SlotEnter() on */
DatabaseSlot *my_slot = NULL;

static void
slot_clear(DatabaseSlot *slot)
{
	pg_atomic_write_u64(&slot->limit, 0);
	slot->reserved = 0;
}

/*
 * Forget what is known of our database, as after a start, because it does not
 * describe the present pages.  The caller has opened the mark, so that nobody
 * is about to raise the limit, and locked the pages.  Below a limit of 0 no
 * window can be open, so that there are none to close.
 */
void
SlotForget(void)
{
	if (pg_atomic_read_u64(&my_slot->limit) != 0)
	{
		LaneBeginChange();
		slot_clear(my_slot);
		LaneEndChange();
	}
	else
		slot_clear(my_slot);
	my_slot->can_recur = true;
}

static void
slot_leave(int code, Datum arg)
{
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	my_slot->sessions--;
	LWLockRelease(&shared->lock);
	my_slot = NULL;
}

/*
 * The transaction that wrote our database's row in pg_database.  Another
 * database with the same OID has another row.
 */
static TransactionId
slot_database_row(void)
{
	HeapTuple	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(MyDatabaseId));
	TransactionId row;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for database %u", MyDatabaseId);
	row = HeapTupleHeaderGetRawXmin(tuple->t_data);
	ReleaseSysCache(tuple);
	return row;
}

/*
 * Find the slot of our database, or take one: a free one, or else, of those
 * without sessions, the one with the lowest limit.  The ids of the database that
 * had it then begin above its mark, as after a start.  A slot that was used
 * before can recur, see LimitCheckFound(): the owner of many databases can take
 * them in turn.
 *
 * If our slot has no sessions and another row, our database may be another one
 * with the same OID, or ALTER DATABASE has written the row: the slot is cleared.
 */
void
SlotEnter(void)
{
	TransactionId row;
	FullTransactionId next_xid;
	DatabaseSlot *found = NULL;
	DatabaseSlot *unused = NULL;

	if (my_slot != NULL)
		return;
	row = slot_database_row();

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	next_xid = ReadNextFullTransactionId();
	if (!FullTransactionIdIsValid(shared->first_xid))
		shared->first_xid = next_xid;
	for (int i = 0; i < MAX_DATABASES && found == NULL; i++)
	{
		DatabaseSlot *candidate = &shared->slots[i];

		/* free slots come after those that were used */
		if (candidate->database == MyDatabaseId ||
			!OidIsValid(candidate->database))
			found = candidate;
		else if (candidate->sessions == 0 &&
				 (unused == NULL ||
				  pg_atomic_read_u64(&candidate->limit) < pg_atomic_read_u64(&unused->limit)))
			unused = candidate;
	}
	if (found == NULL)
		found = unused;
	if (found != NULL &&
		(found->database != MyDatabaseId ||
		 (found->sessions == 0 && found->row != row)))
	{
		/* the row may be older than a comparison of two xids allows */
		found->can_recur = OidIsValid(found->database) ||
			XidFromFullTransactionId(next_xid) - row <=
			U64FromFullTransactionId(next_xid) - U64FromFullTransactionId(shared->first_xid);
		found->database = MyDatabaseId;
		found->row = row;
		slot_clear(found);
	}
	if (found != NULL)
		found->sessions++;
	LWLockRelease(&shared->lock);

	if (found == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many databases make snowflake ids"),
				 errdetail("There is room for %d at the same time.",
						   MAX_DATABASES),
				 errhint("Try again when sessions in other databases have ended.")));
	my_slot = found;
	before_shmem_exit(slot_leave, (Datum) 0);
}
