/*-------------------------------------------------------------------------
 *
 * flush.h
 *	  Flushes the mark, here and on synchronous standbys.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_FLUSH_H
#define SNOWFLAKE_FLUSH_H

#include "access/xlogdefs.h"

extern bool FlushMark(XLogRecPtr lsn);
extern bool FlushKnowsSettings(void);
extern uint64 FlushStandbys(void);

#endif							/* SNOWFLAKE_FLUSH_H */
