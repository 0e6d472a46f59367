/*-------------------------------------------------------------------------
 *
 * snowflake.c
 *	  The module: what SQL can call.
 *
 * The functions that take apart or put together an id have two forms: one
 * for the layout in force, and one whose last argument is the text of any
 * layout.  Both share their code and tell themselves apart by the number of
 * arguments.
 *
 * snowflake/snowflake.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "nodes/makefuncs.h"
#include "nodes/supportnodes.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "adjust.h"
#include "compat.h"
#include "generator.h"
#include "inspect.h"
#include "lane.h"
#include "layout.h"
#include "mark.h"
#include "mask.h"
#include "registry.h"
#include "settings.h"
#include "shared.h"
#include "text.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

PG_FUNCTION_INFO_V1(snowflake_nextval);
PG_FUNCTION_INFO_V1(snowflake_nextval_support);
PG_FUNCTION_INFO_V1(snowflake_nextval_tag);
PG_FUNCTION_INFO_V1(snowflake_reserve);
PG_FUNCTION_INFO_V1(snowflake_currval);
PG_FUNCTION_INFO_V1(snowflake_advance);
PG_FUNCTION_INFO_V1(snowflake_reset_mark);
PG_FUNCTION_INFO_V1(snowflake_begin);
PG_FUNCTION_INFO_V1(snowflake_current_guard);
PG_FUNCTION_INFO_V1(snowflake_decode);
PG_FUNCTION_INFO_V1(snowflake_compose);
PG_FUNCTION_INFO_V1(snowflake_from_timestamp);
PG_FUNCTION_INFO_V1(snowflake_first_from);
PG_FUNCTION_INFO_V1(snowflake_last_before);
PG_FUNCTION_INFO_V1(snowflake_inspect);
PG_FUNCTION_INFO_V1(snowflake_to_text);
PG_FUNCTION_INFO_V1(snowflake_from_text);
PG_FUNCTION_INFO_V1(snowflake_mask);
PG_FUNCTION_INFO_V1(snowflake_unmask);
PG_FUNCTION_INFO_V1(snowflake_layout);
PG_FUNCTION_INFO_V1(snowflake_capacity);

/* The most ids that one call of snowflake_reserve() gives. */
#define MAX_RESERVED	1000000

/* What a call site keeps from one call to the next. */
typedef struct CallSite
{
	TupleDesc	tupdesc;		/* of functions that return a row */
	Layout		layout;			/* of the text, if there is an argument */
	text	   *layout_text;
	MaskKey    *mask_key;		/* of the last call */
} CallSite;

void
_PG_init(void)
{
	SettingsDefine();
	SharedInit();
	RegistryInit();
}

static CallSite *
get_call_site(FunctionCallInfo fcinfo)
{
	if (fcinfo->flinfo->fn_extra == NULL)
		fcinfo->flinfo->fn_extra =
			MemoryContextAllocZero(fcinfo->flinfo->fn_mcxt, sizeof(CallSite));
	return (CallSite *) fcinfo->flinfo->fn_extra;
}

static void
parse_layout(text *layout_text, Layout *layout)
{
	char	   *reason;

	if (!LayoutParse(text_to_cstring(layout_text), layout, &reason))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid snowflake layout: \"%s\"",
						text_to_cstring(layout_text)),
				 errdetail("%s", reason)));
}

/*
 * The layout that a function works with: that of its argument, if it was
 * declared with so many, or the one in force.
 */
static const Layout *
get_layout(FunctionCallInfo fcinfo, int layout_arg)
{
	CallSite   *site;
	text	   *layout_text;
	Size		size;

	if (PG_NARGS() <= layout_arg)
		return SharedLayout();

	/* mostly the text is a constant: read it once */
	site = get_call_site(fcinfo);
	layout_text = PG_GETARG_TEXT_PP(layout_arg);
	size = VARSIZE_ANY(layout_text);
	if (site->layout_text == NULL ||
		VARSIZE_ANY(site->layout_text) != size ||
		memcmp(site->layout_text, layout_text, size) != 0)
	{
		Layout		layout;
		text	   *old_text = site->layout_text;

		parse_layout(layout_text, &layout);
		site->layout_text = MemoryContextAlloc(fcinfo->flinfo->fn_mcxt, size);
		memcpy(site->layout_text, layout_text, size);
		site->layout = layout;
		if (old_text != NULL)
			pfree(old_text);
	}
	return &site->layout;
}

/*
 * The same for a function that returns a set, where there is no room for what
 * get_layout() keeps.
 */
static Layout *
copy_layout(FunctionCallInfo fcinfo, int layout_arg, MemoryContext context)
{
	Layout	   *layout = MemoryContextAlloc(context, sizeof(Layout));

	if (PG_NARGS() > layout_arg)
		parse_layout(PG_GETARG_TEXT_PP(layout_arg), layout);
	else
		*layout = *SharedLayout();
	return layout;
}

/* The type of the rows that a function returns, to be kept in a context. */
static TupleDesc
look_up_row_type(FunctionCallInfo fcinfo, MemoryContext context)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(context);
	TupleDesc	tupdesc;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	tupdesc = BlessTupleDesc(CreateTupleDescCopy(tupdesc));
	MemoryContextSwitchTo(oldcontext);
	return tupdesc;
}

static TupleDesc
get_row_type(FunctionCallInfo fcinfo)
{
	CallSite   *site = get_call_site(fcinfo);

	if (site->tupdesc == NULL)
		site->tupdesc = look_up_row_type(fcinfo, fcinfo->flinfo->fn_mcxt);
	return site->tupdesc;
}

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

Datum
snowflake_nextval(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(GeneratorNext(0));
}

/*
 * Planner support of snowflake_nextval(), for COPY.
 *
 * COPY adds rows one by one if the default of a column is volatile, because
 * such a default might look at the table.  It makes an exception for
 * nextval() as a function or as a node of its own, NextValueExpr.  We do not
 * look at the table either.  So where an expression is planned without a
 * query around it, as COPY does with defaults, the call is replaced by
 *
 *		COALESCE(nextval_batch(<argument>), <NextValueExpr>)
 *
 * where the function is the same but for its label, STABLE, and never gives
 * NULL.  The node, which is never reached, keeps the expression volatile for
 * everybody else: ALTER TABLE ADD COLUMN still makes an id for each row.
 *
 * The planner also has no query at hand when it estimates selectivities, and
 * calls stable functions of constants then.  The argument is ignored, and is
 * no constant, so that planning makes no ids.  Its type is internal, so that
 * nobody can call the function in a place where the label would be wrong.
 */
Datum
snowflake_nextval_support(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);
	SupportRequestSimplify *simplify;
	Oid			argtype = INTERNALOID;
	Oid			function;
	CoerceToDomainValue *argument;
	FuncExpr   *call;
	NextValueExpr *never;
	CoalesceExpr *result;

	if (!IsA(request, SupportRequestSimplify))
		PG_RETURN_POINTER(NULL);
	simplify = (SupportRequestSimplify *) request;
	if (simplify->root != NULL)
		PG_RETURN_POINTER(NULL);

	/* who may not execute both is left with the original, and its error */
	function = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
							   CStringGetDatum("nextval_batch"),
							   PointerGetDatum(buildoidvector(&argtype, 1)),
							   ObjectIdGetDatum(get_namespace_oid("snowflake_internal", true)));
	if (!OidIsValid(function) || !compat_may_execute(function) ||
		!compat_may_execute(simplify->fcall->funcid))
		PG_RETURN_POINTER(NULL);

	/* outside of a domain's constraint, this node gives NULL */
	argument = makeNode(CoerceToDomainValue);
	argument->typeId = INTERNALOID;
	argument->typeMod = -1;
	argument->location = -1;
	call = makeFuncExpr(function, INT8OID, list_make1(argument),
						InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
	never = makeNode(NextValueExpr);
	never->seqid = InvalidOid;
	never->typeId = INT8OID;
	result = makeNode(CoalesceExpr);
	result->coalescetype = INT8OID;
	result->args = list_make2(call, never);
	result->location = -1;
	PG_RETURN_POINTER(result);
}

Datum
snowflake_nextval_tag(PG_FUNCTION_ARGS)
{
	int32		tag = PG_GETARG_INT32(0);
	const Layout *layout = SharedLayout();

	if (layout->bits[FIELD_TAG] == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("snowflake layout has no field \"tag\""),
				 errdetail("The layout in force is \"%s\".",
						   LayoutToText(layout)),
				 errhint("Call snowflake_nextval() without a tag, or set \"snowflake.layout\" to a layout that has the field and restart the server.")));
	LayoutCheckValue(layout, FIELD_TAG, tag);
	PG_RETURN_INT64(GeneratorNext(LayoutPut(layout, FIELD_TAG, tag)));
}

/* What snowflake_reserve() returns. */
typedef struct Block
{
	int64		first_id;
	int64		last_id;
} Block;

/* Reserve so many ids.  Returns the number of blocks. */
static int
reserve_blocks(int count, Block **blocks)
{
	int			num_blocks = 0;
	int			max_blocks = 16;
	int64		wait_start = 0;

	*blocks = palloc(max_blocks * sizeof(Block));
	while (count > 0)
	{
		Block	   *block;

		CHECK_FOR_INTERRUPTS();
		if (num_blocks == max_blocks)
		{
			max_blocks *= 2;
			*blocks = repalloc(*blocks, max_blocks * sizeof(Block));
		}
		block = &(*blocks)[num_blocks++];
		count -= GeneratorReserve(count, &block->first_id, &block->last_id, &wait_start);
	}
	return num_blocks;
}

/* reserve(count int): blocks of consecutive ids */
Datum
snowflake_reserve(PG_FUNCTION_ARGS)
{
	FuncCallContext *funcctx;
	Block	   *block;
	Datum		values[2];
	bool		nulls[2] = {false};

	if (SRF_IS_FIRSTCALL())
	{
		int32		count = PG_GETARG_INT32(0);
		int64		reservable;
		MemoryContext oldcontext;

		if (count < 1 || count > MAX_RESERVED)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("number of snowflake ids is out of range: %d", count),
					 errdetail("One call reserves 1 to %d ids.", MAX_RESERVED)));
		/* lest a call that must fail take what others could have */
		reservable = GeneratorReservable();
		if (count > reservable)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("number of snowflake ids is out of range: %d", count),
					 errdetail("With this layout, \"snowflake.max_ahead\" and \"snowflake.max_wait\", one call can reserve " INT64_FORMAT " ids at most.",
							   reservable),
					 errhint("Reserve fewer ids at once.")));

		funcctx = SRF_FIRSTCALL_INIT();
		funcctx->tuple_desc = look_up_row_type(fcinfo, funcctx->multi_call_memory_ctx);
		oldcontext = MemoryContextSwitchTo(funcctx->multi_call_memory_ctx);
		funcctx->max_calls = reserve_blocks(count, &block);
		funcctx->user_fctx = block;
		MemoryContextSwitchTo(oldcontext);
	}
	funcctx = SRF_PERCALL_SETUP();

	if (funcctx->call_cntr >= funcctx->max_calls)
		SRF_RETURN_DONE(funcctx);
	block = &((Block *) funcctx->user_fctx)[funcctx->call_cntr];
	values[0] = Int64GetDatum(block->first_id);
	values[1] = Int64GetDatum(block->last_id);
	SRF_RETURN_NEXT(funcctx,
					HeapTupleGetDatum(heap_form_tuple(funcctx->tuple_desc,
													  values, nulls)));
}

Datum
snowflake_currval(PG_FUNCTION_ARGS)
{
	int64		id;

	if (!GeneratorLast(&id))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no snowflake id has been made in this session yet"),
				 errhint("Call snowflake_nextval() first.")));
	PG_RETURN_INT64(id);
}

/* advance(id bigint, force boolean) */
Datum
snowflake_advance(PG_FUNCTION_ARGS)
{
	AdjustAdvance(PG_GETARG_INT64(0), PG_GETARG_BOOL(1));
	PG_RETURN_VOID();
}

/* reset_mark(force boolean) */
Datum
snowflake_reset_mark(PG_FUNCTION_ARGS)
{
	AdjustReset(PG_GETARG_BOOL(0));
	PG_RETURN_VOID();
}

/* begin(): what the extension's script ends with */
Datum
snowflake_begin(PG_FUNCTION_ARGS)
{
	AdjustBegin();
	PG_RETURN_VOID();
}

/* current_guard(): the row of the materialized view */
Datum
snowflake_current_guard(PG_FUNCTION_ARGS)
{
	Guard		guard = MarkCurrentGuard();
	Datum		values[3];
	bool		nulls[3] = {false};
	int			i = 0;

	values[i++] = Int64GetDatum(guard.bound);
	values[i++] = Int64GetDatum(guard.exempt);
	values[i++] = Int64GetDatum(guard.others);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(get_row_type(fcinfo),
													  values, nulls)));
}

/* decode(id bigint [, layout text]) */
Datum
snowflake_decode(PG_FUNCTION_ARGS)
{
	int64		id = PG_GETARG_INT64(0);
	const Layout *layout = get_layout(fcinfo, 1);
	Datum		values[LAYOUT_NUM_FIELDS];
	bool		nulls[LAYOUT_NUM_FIELDS];

	LayoutCheckId(layout, id);
	for (int field = 0; field < LAYOUT_NUM_FIELDS; field++)
		values[field] = field_datum(layout, (LayoutField) field, id,
									&nulls[field]);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(get_row_type(fcinfo),
													  values, nulls)));
}

/* One function for each field: (id bigint [, layout text]) */
static Datum
decode_field(FunctionCallInfo fcinfo, LayoutField field)
{
	int64		id = PG_GETARG_INT64(0);
	const Layout *layout = get_layout(fcinfo, 1);

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

/* The tick of an instant, which must be one of the layout. */
static int64
instant_to_tick(const Layout *layout, TimestampTz instant)
{
	int64		tick;

	if (!LayoutTimeToTick(layout, instant, &tick))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("timestamp %s is out of range for snowflake field \"time\"",
						timestamptz_to_str(instant)),
		/* the function has one buffer for all of its results */
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
 * The arguments are in the order of LayoutField.  Decoding gives NULL for a
 * field that the layout lacks, so NULL is what is wanted there; any other
 * NULL makes the id NULL.
 */
Datum
snowflake_compose(PG_FUNCTION_ARGS)
{
	const Layout *layout;
	int64		id;

	if (PG_ARGISNULL(FIELD_TIME) ||
		(PG_NARGS() > LAYOUT_NUM_FIELDS && PG_ARGISNULL(LAYOUT_NUM_FIELDS)))
		PG_RETURN_NULL();
	layout = get_layout(fcinfo, LAYOUT_NUM_FIELDS);

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
	const Layout *layout = get_layout(fcinfo, 1);

	PG_RETURN_INT64(LayoutPut(layout, FIELD_TIME,
							  instant_to_tick(layout, PG_GETARG_TIMESTAMPTZ(0))));
}

/* The largest id before the tick of any instant, or -1. */
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
	const Layout *layout = get_layout(fcinfo, 1);

	PG_RETURN_INT64(last_before(layout, PG_GETARG_TIMESTAMPTZ(0)));
}

/* first_from(instant timestamptz [, layout text]) */
Datum
snowflake_first_from(PG_FUNCTION_ARGS)
{
	const Layout *layout = get_layout(fcinfo, 1);
	int64		last = last_before(layout, PG_GETARG_TIMESTAMPTZ(0));

	/* above the last id of 63 bits there is no bigint */
	PG_RETURN_INT64(last == PG_INT64_MAX ? last : last + 1);
}

/* inspect(id bigint [, layout text]): a picture, line by line */
Datum
snowflake_inspect(PG_FUNCTION_ARGS)
{
	FuncCallContext *funcctx;
	int64		id = PG_GETARG_INT64(0);
	Layout	   *layout;
	Datum		line;

	if (SRF_IS_FIRSTCALL())
	{
		funcctx = SRF_FIRSTCALL_INIT();
		funcctx->user_fctx = copy_layout(fcinfo, 1, funcctx->multi_call_memory_ctx);
		LayoutCheckId((Layout *) funcctx->user_fctx, id);
	}
	funcctx = SRF_PERCALL_SETUP();
	layout = (Layout *) funcctx->user_fctx;

	if (funcctx->call_cntr >= layout->num_fields + 2)
		SRF_RETURN_DONE(funcctx);
	/* the macro counts before it looks at the result */
	line = CStringGetTextDatum(InspectLine(layout, id, funcctx->call_cntr));
	SRF_RETURN_NEXT(funcctx, line);
}

/* An id of any layout. */
static int64
get_any_id(FunctionCallInfo fcinfo, int arg)
{
	int64		id = PG_GETARG_INT64(arg);

	if (id < 0)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint " INT64_FORMAT " is not a snowflake id", id),
				 errdetail("Ids are not negative.")));
	return id;
}

/* to_text(id bigint, encoding text) */
Datum
snowflake_to_text(PG_FUNCTION_ARGS)
{
	int64		id = get_any_id(fcinfo, 0);
	char	   *encoding = text_to_cstring(PG_GETARG_TEXT_PP(1));

	PG_RETURN_TEXT_P(cstring_to_text(TextFromId(id, encoding)));
}

/* from_text(id text, encoding text) */
Datum
snowflake_from_text(PG_FUNCTION_ARGS)
{
	char	   *id = text_to_cstring(PG_GETARG_TEXT_PP(0));
	char	   *encoding = text_to_cstring(PG_GETARG_TEXT_PP(1));

	PG_RETURN_INT64(TextToId(id, encoding));
}

/* The bytes of a text, or of a bytea. */
static MaskBytes
get_bytes(FunctionCallInfo fcinfo, int arg)
{
	struct varlena *value = PG_GETARG_VARLENA_PP(arg);

	MaskBytes	bytes;

	bytes.data = (const uint8 *) VARDATA_ANY(value);
	bytes.length = VARSIZE_ANY_EXHDR(value);
	return bytes;
}

/* The key and the tweak of a call, which mostly are those of the last one. */
static MaskKey *
get_mask_key(FunctionCallInfo fcinfo)
{
	CallSite   *site = get_call_site(fcinfo);
	MaskBytes	key = get_bytes(fcinfo, 1);
	MaskBytes	tweak = get_bytes(fcinfo, 2);

	if (key.length == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("key for masking snowflake ids must not be empty")));
	if (site->mask_key == NULL || !MaskIsOf(site->mask_key, key, tweak))
	{
		MaskKey    *old_key = site->mask_key;

		site->mask_key = MaskPrepare(key, tweak, fcinfo->flinfo->fn_mcxt);
		if (old_key != NULL)
			pfree(old_key);
	}
	return site->mask_key;
}

/* mask(id bigint, key text or bytea, tweak text) */
Datum
snowflake_mask(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(MaskId(get_any_id(fcinfo, 0), get_mask_key(fcinfo)));
}

/* unmask(masked bigint, key text or bytea, tweak text) */
Datum
snowflake_unmask(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(UnmaskId(get_any_id(fcinfo, 0), get_mask_key(fcinfo)));
}

/* layout([layout text]): a row for each field, the most significant first */
Datum
snowflake_layout(PG_FUNCTION_ARGS)
{
	FuncCallContext *funcctx;
	Layout	   *layout;
	LayoutField field;
	Datum		values[4];
	bool		nulls[4] = {false};

	if (SRF_IS_FIRSTCALL())
	{
		funcctx = SRF_FIRSTCALL_INIT();
		funcctx->tuple_desc = look_up_row_type(fcinfo, funcctx->multi_call_memory_ctx);
		funcctx->user_fctx = copy_layout(fcinfo, 0, funcctx->multi_call_memory_ctx);
	}
	funcctx = SRF_PERCALL_SETUP();
	layout = (Layout *) funcctx->user_fctx;

	if (funcctx->call_cntr >= layout->num_fields)
		SRF_RETURN_DONE(funcctx);
	field = layout->order[funcctx->call_cntr];
	values[0] = CStringGetTextDatum(layout_field_names[field]);
	values[1] = Int32GetDatum(layout->bits[field]);
	values[2] = Int32GetDatum(layout->shift[field]);
	values[3] = Int64GetDatum(LayoutLargest(layout, field));
	SRF_RETURN_NEXT(funcctx,
					HeapTupleGetDatum(heap_form_tuple(funcctx->tuple_desc,
													  values, nulls)));
}

/*
 * capacity([layout text]): until when ids last, for how many workers, and how
 * many of them there are
 */
Datum
snowflake_capacity(PG_FUNCTION_ARGS)
{
	const Layout *layout = get_layout(fcinfo, 0);
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
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(get_row_type(fcinfo),
													  values, nulls)));
}
