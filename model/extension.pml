/*-------------------------------------------------------------------------
 *
 * extension.pml
 *	  The extension is dropped, created again, or given new files, by a
 *	  session that makes ids in the same transaction, which may fail.
 *
 * Not promised, and so not checked: that ids differ from those of an extension
 * that was dropped, if the server has been restarted since.
 *
 * snowflake/model/extension.pml
 *
 *-------------------------------------------------------------------------
 */
#define MARKS		3
#define NONE		3
#define MARK		((me == 0 && in_transaction) -> mine : committed)

/* relations that will not come back when the transaction ends or the server crashes */
#define UNUSED \
	(committed != 0 && disk_committed != 0 -> 0 : (committed != 1 && disk_committed != 1 -> 1 : 2))

/* a transaction that changes the mark locks it against others */
#define CANNOT_OPEN_MARK	(MARK == NONE || (me == 1 && in_transaction && has_dropped))
/* check_stays() */
#ifndef NO_CHECK_STAYS
#define MARK_STAYS	(!(me == 0 && in_transaction) || (has_created && !has_dropped))
#else
#define MARK_STAYS	true
#endif

/* an extension that others can see is on disk */
#define CHECK_ID \
	assert(disk_committed == NONE -> \
		   (committed == NONE || wal_committed == NONE || (me == 0 && in_transaction)) : \
		   (tick < BOUND(disk[disk_committed])))
#define FLUSH_MORE	; disk_committed = wal_committed; forget_unused()
#define MORE_OF_END
#define MORE_OF_START \
	committed = disk_committed; \
	wal_committed = disk_committed; \
	end_transaction(); \
	if \
	:: committed == NONE -> kept = 0 \
	:: else -> is_old = (kept > 0) \
	fi;

#define MORE_BETWEEN_CALLS \
	:: atomic { me == 0 && !in_transaction && committed != NONE && !mark_locked[committed] -> \
		in_transaction = true; \
		has_dropped = true; \
		if \
		:: mine = NONE \
		:: /* new files */ \
			mine = UNUSED; \
			copy_pages(page[mine], page[committed]) \
		fi } \
	:: atomic { me == 0 && MARK == NONE -> \
		mine = UNUSED; \
		in_transaction = true; \
		has_created = true; \
		page[mine].mark = 0; \
		page[mine].guard = 0; \
		copy_pages(disk[mine], page[mine]) } ; \
		AdjustBegin() \
	:: atomic { me == 0 && in_transaction -> \
		wal_committed = mine; \
		if \
		:: is_old && has_dropped && (has_created || mine == NONE) -> \
			kept = 0; \
			is_old = false \
		:: else \
		fi } ; \
		FORCE_SYNC_COMMIT \
		atomic { committed = mine; end_transaction() } \
	:: atomic { me == 0 && in_transaction -> end_transaction() }

#ifndef NO_FORCE_SYNC
#define FORCE_SYNC_COMMIT	if :: has_created -> d_step { flush_all() } :: !has_created fi;
#else
#define FORCE_SYNC_COMMIT
#endif

byte committed = 0;				/* the relations that everybody sees */
byte wal_committed = 0;
byte disk_committed = 0;

/* the transaction of session 0 */
bool in_transaction;
bool has_dropped;
bool has_created;
byte mine = NONE;				/* the relations that it sees */

bool is_old;					/* the id was made before the last start */

/* Make relations that are gone look alike, to spare the checker states. */
inline forget_one(i)
{
	if
	:: i != committed && i != wal_committed && i != disk_committed && i != mine ->
		page[i].mark = 0;
		page[i].guard = 0;
		copy_pages(disk[i], page[i])
	:: else
	fi
}

inline forget_unused()
{
	forget_one(0);
	forget_one(1);
	forget_one(2)
}

inline end_transaction()
{
	in_transaction = false;
	has_dropped = false;
	has_created = false;
	mine = NONE;
	forget_unused()
}

/* No other session can lock the new pages yet. */
inline AdjustBegin()
{
#ifdef LOOK_BEFORE_FORGET
	atomic { found = word };
#endif
#ifndef NO_FORGET
	SlotForget();
#endif
#ifndef NO_BEGIN
	atomic {
#ifndef LOOK_BEFORE_FORGET
		found = word;
#endif
		if
		:: found > 0 ->
			page[mine].mark = found + 1;
			page[mine].guard = found + 1
		:: else
		fi;
		found = 0
	};
	d_step { flush_all() }
#endif
}

#include "limit.pml"

init
{
	atomic {
		run Fate();
		run Session(0);
		run Session(1)
	}
}
