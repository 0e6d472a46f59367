/*-------------------------------------------------------------------------
 *
 * decode.c
 *	  Functions that take ids apart and put them together, and show layouts.
 *
 * They work on any layout.  The ids that they return do not count as made: the
 * generator may still make the same ones.
 *
 * snowflake/src/decode.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "call.h"
#include "inspect.h"
#include "lane.h"

PG_FUNCTION_INFO_V1(snowflake_decode);
PG_FUNCTION_INFO_V1(snowflake_compose);
PG_FUNCTION_INFO_V1(snowflake_from_timestamp);
PG_FUNCTION_INFO_V1(snowflake_first_from);
PG_FUNCTION_INFO_V1(snowflake_last_before);
PG_FUNCTION_INFO_V1(snowflake_inspect);
PG_FUNCTION_INFO_V1(snowflake_layout);
PG_FUNCTION_INFO_V1(snowflake_capacity);


/* One field of an id as SQL sees it; NULL if the layout has no such field. */
static Datum
field_datum(const Layout *layout, LayoutField field, int64 id, bool *isnull)
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
		values[field] = field_datum(layout, (LayoutField) field, id,
									&nulls[field]);
	PG_RETURN_DATUM(CallRow(fcinfo, values, nulls, lengthof(values)));
}

/* One function for each field: (id bigint [, layout text]) */
static Datum
decode_field(FunctionCallInfo fcinfo, LayoutField field)
{
	int64		id = PG_GETARG_INT64(0);
	const Layout *layout = CallLayout(fcinfo, 1);

	LayoutCheckId(layout, id);
	return field_datum(layout, field, id, &fcinfo->isnull);
}

#define FIELD_FUNCTION(name, field) \
	PG_FUNCTION_INFO_V1(name); \
	Datum \
	name(PG_FUNCTION_ARGS) \
	{ \
		return decode_field(fcinfo, field); \
	}

FIELD_FUNCTION(snowflake_timestamp, FIELD_TIME)
FIELD_FUNCTION(snowflake_datacenter_id, FIELD_DATACENTER)
FIELD_FUNCTION(snowflake_worker_id, FIELD_WORKER)
FIELD_FUNCTION(snowflake_timeline, FIELD_TIMELINE)
FIELD_FUNCTION(snowflake_lane, FIELD_LANE)
FIELD_FUNCTION(snowflake_sequence, FIELD_SEQUENCE)
FIELD_FUNCTION(snowflake_tag, FIELD_TAG)

/* The tick of an instant.  Throws an error if the layout has none for it. */
static int64
instant_to_tick(const Layout *layout, TimestampTz instant)
{
	int64		tick;

	if (!LayoutTimeToTick(layout, instant, &tick))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("timestamp %s is out of range for snowflake field \"time\"",
						timestamptz_to_str(instant)),
		/* timestamptz_to_str() has one buffer for all of its results */
				 errdetail("Ticks of the layout \"%s\" range from %s to %s.",
						   LayoutToText(layout),
						   pstrdup(timestamptz_to_str(layout->epoch)),
						   pstrdup(timestamptz_to_str(LayoutTickToTime(layout, layout->last_tick))))));
	return tick;
}

/*
 * compose(generated_at timestamptz, datacenter_id, worker_id, timeline, lane,
 * sequence, tag int [, layout text])
 *
 * The arguments are in the order of LayoutField.  Decoding returns NULL for a
 * field that the layout lacks, so NULL is expected there; any other NULL makes
 * the id NULL.
 */
Datum
snowflake_compose(PG_FUNCTION_ARGS)
{
	const Layout *layout;
	int64		id;

	if (PG_ARGISNULL(FIELD_TIME) ||
		(PG_NARGS() > LAYOUT_NUM_FIELDS && PG_ARGISNULL(LAYOUT_NUM_FIELDS)))
		PG_RETURN_NULL();
	layout = CallLayout(fcinfo, LAYOUT_NUM_FIELDS);

	id = LayoutPut(layout, FIELD_TIME,
				   instant_to_tick(layout, PG_GETARG_TIMESTAMPTZ(FIELD_TIME)));

	for (int field = FIELD_TIME + 1; field < LAYOUT_NUM_FIELDS; field++)
	{
		if (!PG_ARGISNULL(field))
		{
			LayoutCheckValue(layout, (LayoutField) field,
							 PG_GETARG_INT32(field));
			id |= LayoutPut(layout, (LayoutField) field,
							PG_GETARG_INT32(field));
		}
		else if (layout->bits[field] > 0)
			PG_RETURN_NULL();
	}
	PG_RETURN_INT64(id);
}

/* from_timestamp(instant timestamptz [, layout text]) */
Datum
snowflake_from_timestamp(PG_FUNCTION_ARGS)
{
	const Layout *layout = CallLayout(fcinfo, 1);

	PG_RETURN_INT64(LayoutPut(layout, FIELD_TIME,
							  instant_to_tick(layout, PG_GETARG_TIMESTAMPTZ(0))));
}

/* The largest id before the tick of any instant; -1 if there is none. */
static int64
last_before(const Layout *layout, TimestampTz instant)
{
	int64		tick;

	if (instant < layout->epoch)
		return -1;
	if (!LayoutTimeToTick(layout, instant, &tick))
		return LayoutLargestId(layout);
	return LayoutPut(layout, FIELD_TIME, tick) - 1;
}

/* last_before(instant timestamptz [, layout text]) */
Datum
snowflake_last_before(PG_FUNCTION_ARGS)
{
	const Layout *layout = CallLayout(fcinfo, 1);

	PG_RETURN_INT64(last_before(layout, PG_GETARG_TIMESTAMPTZ(0)));
}

/* first_from(instant timestamptz [, layout text]) */
Datum
snowflake_first_from(PG_FUNCTION_ARGS)
{
	const Layout *layout = CallLayout(fcinfo, 1);
	int64		last = last_before(layout, PG_GETARG_TIMESTAMPTZ(0));

	/* no bigint is greater than the last id of 63 bits */
	PG_RETURN_INT64(last == PG_INT64_MAX ? last : last + 1);
}

/* inspect(id bigint [, layout text]): a picture, line by line */
Datum
snowflake_inspect(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	int64		id = PG_GETARG_INT64(0);
	const Layout *layout = CallLayout(fcinfo, 1);
	bool		isnull = false;

	LayoutCheckId(layout, id);
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	for (int i = 0; i < layout->num_fields + 2; i++)
	{
		Datum		line = CStringGetTextDatum(InspectLine(layout, id, i));

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, &line, &isnull);
	}
	return (Datum) 0;
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
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
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
	values[3] = TimestampTzGetDatum(LayoutTickToTime(layout, layout->last_tick));
	values[4] = Int64GetDatum(INT64CONST(1) << (layout->bits[FIELD_DATACENTER] +
												layout->bits[FIELD_WORKER]));
	values[5] = Int32GetDatum(LaneCount(layout));
	values[6] = Int64GetDatum(LaneIdsPerSecond(layout));
	PG_RETURN_DATUM(CallRow(fcinfo, values, nulls, lengthof(values)));
}
