/*-------------------------------------------------------------------------
 *
 * mark.pml
 *	  The mark, through crashes and SQL commands that set it.
 *
 * With -DPARALLEL the sessions are processes of one parallel group, which
 * the lock on the mark does not keep apart.  With -DSETVAL the owner sets the
 * sequence to a lower value at any time, or to a higher one before ids are
 * made, as a dump does.
 *
 * snowflake/model/mark.pml
 *
 *-------------------------------------------------------------------------
 */
#include "limit.pml"

#ifdef SETVAL
bool restored;

/* The owner of the database may set the sequence. */
proctype Owner()
{
	byte lower;

end:
	do
	/* to a lower value */
	:: atomic {
		!restored && page[0].mark > 0 && !page_locked[0] ->
		choose(lower, 0, page[0].mark - 1);
		page[0].mark = lower;
		lower = 0 }
	/* to a higher value, like a dump that restores ids, before any are made here */
	:: d_step {
		!restored && slot.limit == 0 && !page_locked[0] && !mark_locked[0] &&
		page[0].guard < LAST_TICK && kept == 0 ->
		restored = true;
		page[0].mark = LAST_TICK;
		flush_all();
		kept = ID(0, LAST_TICK - 1) }
	od
}
#endif

init
{
	atomic {
#ifdef SETVAL
		run Owner();
#endif
		run Fate();
		run Session(0);
		run Session(1)
	}
}
