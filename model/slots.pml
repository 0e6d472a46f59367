/*-------------------------------------------------------------------------
 *
 * slots.pml
 *	  Two databases compete for the only slot, and replace each other in it.
 *
 * A database is dropped, and created again with the same OID as a copy of the
 * other one, including the ids in it.  Only its row in pg_database reveals
 * that; but ALTER DATABASE also writes a new row, for the same database.
 *
 * snowflake/model/slots.pml
 *
 *-------------------------------------------------------------------------
 */
#define DATABASES	2
#define OWNERS		DATABASES
#define OWNER		database
#define MARKS		DATABASES
#define MARK		database
#define NONE		2
#define ROWS		2			/* rows that pg_database may gain for a database */

#define MORE_OF_SESSION \
	byte database = me; \
	bool has_entered;

/* SlotEnter() */
#define MORE_OF_CONFIGURE \
	; if \
	:: has_entered \
	:: !has_entered && slot_database == database && IS_SAME_ROW -> \
		has_entered = true; \
		slot_sessions++ \
	:: !has_entered && !(slot_database == database && IS_SAME_ROW) && IS_UNUSED -> \
		has_entered = true; \
		CLEAR_TAKEN_SLOT \
		slot_database = database; \
		slot_row = row[database]; \
		slot_sessions++ \
	:: else -> current[me] = false; goto failed \
	fi

#define IS_SAME_ROW	(slot_row == row[database] || slot_sessions > 0)
#define IS_UNUSED	(slot_sessions == 0)
#define CLEAR_TAKEN_SLOT	clear_slot();
#ifdef SAME_OID
#undef IS_SAME_ROW
#define IS_SAME_ROW	true
#endif
#ifdef ANY_ROW_CLEARS
#undef IS_SAME_ROW
#define IS_SAME_ROW	(slot_row == row[database])
#undef IS_UNUSED
#define IS_UNUSED	(slot_sessions == 0 || slot_database == database)
#endif
#ifdef TAKE_SLOT_IN_USE
#undef IS_UNUSED
#define IS_UNUSED	true
#endif
#ifdef KEEP_TAKEN_SLOT
#undef CLEAR_TAKEN_SLOT
#define CLEAR_TAKEN_SLOT
#endif

/* The session ends, and another one starts. */
#define MORE_BETWEEN_CALLS \
	:: atomic { \
		true -> \
		slot_sessions = slot_sessions - has_entered; \
		has_entered = false; \
		is_open[me] = false; \
		current[me] = false; \
		start = 0; \
		tick = 0; \
		inside[me] = NONE } ; \
		atomic { choose(database, 0, 1); inside[me] = database }

#define MORE_OF_END	; has_entered = false; inside[me] = database
#define MORE_OF_START \
	slot_database = NONE; \
	slot_row = 0; \
	slot_sessions = 0;

byte slot_database = NONE;
byte slot_row;
byte slot_sessions;

byte row[DATABASES];			/* number of its row, like the row's xmin */
byte inside[2] = NONE;			/* databases that the sessions are connected to */

#include "limit.pml"

#define is_empty(database)	(inside[0] != database && inside[1] != database)

proctype Administrator()
{
end:
	do
	/* drop one database, and create it again as a copy of the other */
	:: atomic {
		row[0] < ROWS && is_empty(0) && is_empty(1) ->
		row[0]++;
		copy_pages(page[0], page[1]);
		flush_all();
		/* the copy includes the id */
		if
		:: kept > 0 && kept % DATABASES == 0 -> kept = 0
		:: kept > 0 && kept % DATABASES == 1 && kept / DATABASES < BOUND(page[0]) ->
			kept = ID(0, kept / DATABASES)
		:: kept == 0 || kept % DATABASES == 1
		fi }
	/* ALTER DATABASE */
	:: atomic { row[0] < ROWS -> row[0]++ }
	od
}

init
{
	atomic {
		inside[0] = 0;
		inside[1] = 1;
		run Administrator();
		run Fate();
		run Session(0);
		run Session(1)
	}
}
