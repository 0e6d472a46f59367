/*-------------------------------------------------------------------------
 *
 * call.c
 *	  Shared by the SQL functions: their layout, and the row that they return.
 *
 * Both are kept from one call to the next, because a query calls a function
 * once per row.
 *
 * snowflake/src/call.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "funcapi.h"
#include "utils/builtins.h"

#include "call.h"
#include "shared.h"

/* What a call site caches. */
typedef struct CallSite
{
	TupleDesc	tupdesc;
	Layout		layout;			/* parsed from the text, if there is one */
	text	   *layout_text;
} CallSite;

static CallSite *
get_call_site(FunctionCallInfo fcinfo)
{
	if (fcinfo->flinfo->fn_extra == NULL)
		fcinfo->flinfo->fn_extra =
			MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(CallSite));
	return (CallSite *) fcinfo->flinfo->fn_extra;
}

/*
 * The layout that a function works with.  Each function has two forms: one for
 * the layout in force, and one whose last argument is the text of any layout.
 * Both share their code, which tells them apart by the number of arguments.
 */
const Layout *
CallLayout(FunctionCallInfo fcinfo, int arg)
{
	CallSite   *site;
	text	   *layout_text;
	Size		size;

	if (PG_NARGS() <= arg)
		return SharedLayoutToRead();

	/* the text is usually a constant: parse it once */
	site = get_call_site(fcinfo);
	layout_text = PG_GETARG_TEXT_PP(arg);
	size = VARSIZE_ANY(layout_text);
	if (site->layout_text == NULL ||
		VARSIZE_ANY(site->layout_text) != size ||
		memcmp(site->layout_text, layout_text, size) != 0)
	{
		Layout		layout;
		char	   *reason;
		text	   *old_text = site->layout_text;

		if (!LayoutParse(text_to_cstring(layout_text), &layout, &reason))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("invalid snowflake layout: \"%s\"",
							text_to_cstring(layout_text)),
					 errdetail("%s", reason)));
		site->layout_text = MemoryContextAlloc(fcinfo->flinfo->fn_mcxt, size);
		memcpy(site->layout_text, layout_text, size);
		site->layout = layout;
		if (old_text != NULL)
			pfree(old_text);
	}
	return &site->layout;
}

/* The row of "number" columns that a function returns. */
Datum
CallRow(FunctionCallInfo fcinfo, Datum *values, bool *nulls, int number)
{
	CallSite   *site = get_call_site(fcinfo);

	if (site->tupdesc == NULL)
	{
		MemoryContext oldcontext = MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);
		TupleDesc	tupdesc;

		if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
			elog(ERROR, "return type must be a row type");
		CallCheckColumns(tupdesc, number);
		site->tupdesc = BlessTupleDesc(CreateTupleDescCopy(tupdesc));
		MemoryContextSwitchTo(oldcontext);
	}
	return HeapTupleGetDatum(heap_form_tuple(site->tupdesc, values, nulls));
}

/*
 * Check how many columns a function was declared with: the extension may be
 * newer than the library, until the server is restarted.
 */
void
CallCheckColumns(TupleDesc tupdesc, int number)
{
	if (tupdesc->natts != number)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("snowflake library and extension are of different versions"),
				 errdetail("The function was declared with %d columns, but the library has %d.",
						   tupdesc->natts, number),
				 errhint("Restart the server, or run ALTER EXTENSION snowflake UPDATE.")));
}
