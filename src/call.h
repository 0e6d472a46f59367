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

#include "access/tupdesc.h"
#include "fmgr.h"

#include "layout.h"

extern const Layout *CallLayout(FunctionCallInfo fcinfo, int arg);
extern Datum CallRow(FunctionCallInfo fcinfo, Datum *values, bool *nulls,
					 int number);
extern void CallCheckColumns(TupleDesc tupdesc, int number);

#endif							/* SNOWFLAKE_CALL_H */
