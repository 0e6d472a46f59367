/*-------------------------------------------------------------------------
 *
 * advance.pml
 *	  snowflake_advance() is called with ids from elsewhere.
 *
 * snowflake/model/advance.pml
 *
 *-------------------------------------------------------------------------
 */
#include "limit.pml"

/* AdjustAdvance(), in a loop */
proctype Owner()
{
	byte above;					/* the first tick above the id */
	byte tick;
	byte found;

advance:
	{
		atomic {
			!IS_BUSY(0) ->
			mark_locked[0] = true;
			choose(above, 2, LAST_TICK + 1)
		};
		atomic {
			!page_locked[0] ->
			page_locked[0] = true;
			if
#ifdef TRUST_FLOOR
			:: above <= slot.floor && slot.written == page[0].guard ->
#else
			:: above <= slot.closed_below && slot.written == page[0].guard ->
#endif
				page_locked[0] = false;
				mark_locked[0] = false;
				goto finish
			:: else
			fi;
			LimitCheckFound(found);
			tick = MAX(MAX(above, found), slot.floor);
			found = 0
		};
#ifndef NO_CHANGE_TO_ADVANCE
		LaneBeginChange();
#endif
		atomic { slot.floor = tick };
		atomic { slot.closed_below = tick };
#ifndef NO_CHANGE_TO_ADVANCE
		LaneEndChange();
#endif
		atomic {
			tick = MAX(tick, page[0].guard);
			slot.written = tick
		};
		atomic {
			page[0].mark = tick;
			page[0].guard = tick;
			page_locked[0] = false;
			mark_locked[0] = false
		};
#ifndef NO_FLUSH_TO_ADVANCE
		d_step { flush_all() };
#endif
finish:
		atomic {
			/* keep any id up to the given one */
			choose(tick, 1, above - 1);
			keep(ID(0, tick));
			above = 0;
			tick = 0;
			goto advance
		}
	}
	unless
	{
		atomic { killed[2] -> killed[2] = false; above = 0; tick = 0; found = 0; goto advance }
	}
}

init
{
	atomic {
		run Fate();
		run Session(0);
		run Session(1);
		run Owner()
	}
}
