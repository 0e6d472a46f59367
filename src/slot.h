/*-------------------------------------------------------------------------
 *
 * slot.h
 *	  The slot of a database in shared memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_SLOT_H
#define SNOWFLAKE_SLOT_H

#include "shared.h"

extern DatabaseSlot *my_slot;

extern DatabaseSlot *SlotPeek(void);
extern void SlotEnter(void);
extern void SlotForget(void);

#endif							/* SNOWFLAKE_SLOT_H */
