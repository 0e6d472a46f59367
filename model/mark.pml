/*-------------------------------------------------------------------------
 *
 * mark.pml
 *	  The mark, over crashes and commands of SQL that set it.
 *
 * With -DPARALLEL the sessions are of one parallel group, whose processes do not
 * keep each other out by the lock on the mark.  With -DSETVAL somebody sets the
 * sequence to less at any time, or to more before ids are made, as a dump does.
 *
 * snowflake/model/mark.pml
 *
 *-------------------------------------------------------------------------
 */
#include "limit.pml"

#ifdef SETVAL
bool restored;

/* Who owns the database may set the sequence. */
proctype Owner()
{
	byte lower;

end:
	do
	/* to less */
	:: atomic {
		!restored && page[0].mark > 0 && !page_locked[0] ->
		choose(lower, 0, page[0].mark - 1);
		page[0].mark = lower;
		lower = 0 }
	/* to more, as a dump does that brings ids: before any are made here */
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
