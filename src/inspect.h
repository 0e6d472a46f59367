/*-------------------------------------------------------------------------
 *
 * inspect.h
 *	  A picture of an id.
 *
 * snowflake/src/inspect.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_INSPECT_H
#define SNOWFLAKE_INSPECT_H

#include "layout.h"

extern char *InspectLine(const Layout *layout, int64 id, int line);

#endif							/* SNOWFLAKE_INSPECT_H */
