/*-------------------------------------------------------------------------
 *
 * decode.c
 *	  Functions that take ids apart and put them together, and show layouts.
 *
 * They work on any layout.  The ids that they return do not count as made: the
 * generator may still make the same ones.
 *
 * The layout of a call and the row that it returns, which other SQL functions
 * use, too, are kept from one call to the next, because a query calls a
 * function once per row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/tuplestore.h"

#include "snowflake.h"

PG_FUNCTION_INFO_V1(snowflake_decode);
PG_FUNCTION_INFO_V1(snowflake_timestamp);
PG_FUNCTION_INFO_V1(snowflake_compose);
PG_FUNCTION_INFO_V1(snowflake_first_from);
PG_FUNCTION_INFO_V1(snowflake_last_before);
PG_FUNCTION_INFO_V1(snowflake_layout);
PG_FUNCTION_INFO_V1(snowflake_capacity);

/* What a call site caches. */
typedef struct CallSite
{
	TupleDesc	tupdesc;
	Layout		layout;			/* parsed from the text, if there is one */
	text	   *layout_text;
} CallSite;

static CallSite *
decode_get_call_site(FunctionCallInfo fcinfo)
{
	if (fcinfo->flinfo->fn_extra == NULL)
		fcinfo->flinfo->fn_extra =
			MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(CallSite));
	return (CallSite *) fcinfo->flinfo->fn_extra;
}

/*
 * The layout that a function works with: the one in force or, if there is such
 * an argument, the one that this describes.
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
	site = decode_get_call_site(fcinfo);
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
	CallSite   *site = decode_get_call_site(fcinfo);

	if (site->tupdesc == NULL)
	{
		MemoryContext oldcontext =
		MemoryContextSwitchTo(fcinfo->flinfo->fn_mcxt);
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

/* One field of an id as SQL sees it; NULL if the layout has no such field. */
static Datum
decode_field(const Layout *layout, LayoutField field, int64 id, bool *isnull)
{
	int64		value = LayoutGet(layout, field, id);

	*isnull = layout->bits[field] == 0;
	if (field == FIELD_TIME)
		return TimestampTzGetDatum(LayoutTickToTime(layout, value));
	return Int32GetDatum((int32) value);
}

/* decode(id bigint [, layout text]) */
Datum
snowflake_decode(PG_FUNCTION_ARGS)
{
	int64		id = PG_GETARG_INT64(0);
	const Layout *layout = CallLayout(fcinfo, 1);
	Datum		values[LAYOUT_NUM_FIELDS];
	bool		nulls[LAYOUT_NUM_FIELDS];

	LayoutCheckId(layout, id);
	for (int field = 0; field < LAYOUT_NUM_FIELDS; field++)
		values[field] = decode_field(layout, (LayoutField) field, id,
									 &nulls[field]);
	PG_RETURN_DATUM(CallRow(fcinfo, values, nulls, lengthof(values)));
}

/* timestamp(id bigint [, layout text]) */
Datum
snowflake_timestamp(PG_FUNCTION_ARGS)
{
	const Layout *layout = CallLayout(fcinfo, 1);

	LayoutCheckId(layout, PG_GETARG_INT64(0));
	return decode_field(layout, FIELD_TIME, PG_GETARG_INT64(0),
						&fcinfo->isnull);
}

/*
 * compose(generated_at timestamptz, [layout text,] datacenter_id, worker_id,
 * timeline, lane, sequence, tag int)
 *
 * The fields are in the order of LayoutField.  Decoding returns NULL for a
 * field that the layout lacks, so NULL is expected there; any other NULL makes
 * the id NULL.
 */
Datum
snowflake_compose(PG_FUNCTION_ARGS)
{
	bool		has_layout = PG_NARGS() > LAYOUT_NUM_FIELDS;
	const Layout *layout;
	TimestampTz instant;
	int64		tick;
	int64		id;

	if (PG_ARGISNULL(0) || (has_layout && PG_ARGISNULL(1)))
		PG_RETURN_NULL();
	layout = CallLayout(fcinfo, has_layout ? 1 : LAYOUT_NUM_FIELDS);
	instant = PG_GETARG_TIMESTAMPTZ(0);
	tick = LayoutTick(layout, instant);
	if (tick < 0 || tick > layout->last_tick)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("timestamp %s is out of range for snowflake field \"time\"",
						timestamptz_to_str(instant)),
				 errdetail("Ticks of the layout \"%s\" range from %s to %s.",
						   LayoutToText(layout), TIME_TEXT(layout->epoch),
						   TIME_TEXT(LayoutLastInstant(layout)))));
	id = LayoutPut(layout, FIELD_TIME, tick);

	for (int field = FIELD_TIME + 1; field < LAYOUT_NUM_FIELDS; field++)
	{
		int			arg = field + has_layout;

		if (!PG_ARGISNULL(arg))
		{
			LayoutCheckValue(layout, field, PG_GETARG_INT32(arg));
			id |= LayoutPut(layout, field, PG_GETARG_INT32(arg));
		}
		else if (layout->bits[field] > 0)
			PG_RETURN_NULL();
	}
	PG_RETURN_INT64(id);
}

/*
 * last_before(instant timestamptz [, layout text]): the largest id before the
 * tick of any instant; -1 if there is none
 */
Datum
snowflake_last_before(PG_FUNCTION_ARGS)
{
	const Layout *layout = CallLayout(fcinfo, 1);
	int64		tick = LayoutTick(layout, PG_GETARG_TIMESTAMPTZ(0));

	PG_RETURN_INT64(LayoutLastIdBefore(layout, Max(tick, 0)));
}

/* first_from(instant timestamptz [, layout text]): the one after that */
Datum
snowflake_first_from(PG_FUNCTION_ARGS)
{
	int64		last = DatumGetInt64(snowflake_last_before(fcinfo));

	/* no bigint is greater than the last id of 63 bits */
	PG_RETURN_INT64(last == PG_INT64_MAX ? last : last + 1);
}

/* layout([layout text]): a row for each field, the most significant first */
Datum
snowflake_layout(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const Layout *layout = CallLayout(fcinfo, 0);
	Datum		values[4];
	bool		nulls[4] = {false};

	InitMaterializedSRF(fcinfo, 0);
	CallCheckColumns(rsinfo->setDesc, lengthof(values));
	for (int i = 0; i < layout->num_fields; i++)
	{
		LayoutField field = layout->order[i];

		values[0] = CStringGetTextDatum(layout_field_names[field]);
		values[1] = Int32GetDatum(layout->bits[field]);
		values[2] = Int32GetDatum(layout->shift[field]);
		values[3] = Int64GetDatum(LayoutLargest(layout, field));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values,
							 nulls);
	}
	return (Datum) 0;
}

/*
 * capacity([layout text]): from when to when there are ids, how many workers
 * can make them, and how many each of them makes per second at most
 */
Datum
snowflake_capacity(PG_FUNCTION_ARGS)
{
	const Layout *layout = CallLayout(fcinfo, 0);
	Interval	tick = {.time = layout->tick};
	Datum		values[7];
	bool		nulls[7] = {false};

	values[0] = CStringGetTextDatum(LayoutToText(layout));
	values[1] = IntervalPGetDatum(&tick);
	values[2] = TimestampTzGetDatum(layout->epoch);
	values[3] = TimestampTzGetDatum(LayoutLastInstant(layout));
	values[4] =
		Int64GetDatum(INT64CONST(1) << (layout->bits[FIELD_DATACENTER] +
										layout->bits[FIELD_WORKER]));
	values[5] = Int32GetDatum(LaneCount(layout));
	values[6] = Int64GetDatum(LaneIdsPerSecond(layout));
	PG_RETURN_DATUM(CallRow(fcinfo, values, nulls, lengthof(values)));
}
