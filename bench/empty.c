/*-------------------------------------------------------------------------
 *
 * empty.c
 *	  The floor of bench/run: a call of a C function that does nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(empty);

Datum
empty(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(0);
}
