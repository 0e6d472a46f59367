/*-------------------------------------------------------------------------
 *
 * call.h
 *	  Shared by the SQL functions: their layout, and the row that they return.
 *
 * snowflake/src/call.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_CALL_H
#define SNOWFLAKE_CALL_H

#include "fmgr.h"

#include "layout.h"

extern const Layout *CallLayout(FunctionCallInfo fcinfo, int arg);
extern Datum CallRow(FunctionCallInfo fcinfo, Datum *values, bool *nulls);

#endif							/* SNOWFLAKE_CALL_H */
