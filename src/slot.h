/*-------------------------------------------------------------------------
 *
 * slot.h
 *	  The slots of databases in shared memory.
 *
 * snowflake/src/slot.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_SLOT_H
#define SNOWFLAKE_SLOT_H

#include "shared.h"

extern DatabaseSlot *my_slot;

extern void SlotEnter(void);
extern void SlotForget(void);

#endif							/* SNOWFLAKE_SLOT_H */
