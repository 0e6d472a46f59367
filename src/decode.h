/*-------------------------------------------------------------------------
 *
 * decode.h
 *	  What SQL functions share: their layout, and the row that they return.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_DECODE_H
#define SNOWFLAKE_DECODE_H

#include "access/tupdesc.h"
#include "fmgr.h"

#include "layout.h"

extern const Layout *CallLayout(FunctionCallInfo fcinfo, int arg);
extern Datum CallRow(FunctionCallInfo fcinfo, Datum *values, bool *nulls,
					 int number);
extern void CallCheckColumns(TupleDesc tupdesc, int number);

#endif							/* SNOWFLAKE_DECODE_H */
