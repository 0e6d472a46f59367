/*-------------------------------------------------------------------------
 *
 * fuzz.c
 *	  Reads texts of layouts, made by libFuzzer, in a real backend.
 *
 * This file is linked into the module together with all of its sources, and
 * called as an SQL function; t/world/fuzz/run does both.  It calls the same
 * functions that SQL calls.  The sanitizers find some faults; this file also
 * checks what must hold.  Any fault aborts, and libFuzzer keeps the input.
 *
 * No input leaves anything behind for the next one to see: each has a memory
 * context of its own, and call sites of its own in it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "snowflake.h"

PG_FUNCTION_INFO_V1(snowflake_fuzz);

typedef int (*FuzzCallback) (const uint8 *data, size_t size);

/* libFuzzer's entry point; it has no header */
extern int	LLVMFuzzerRunDriver(int *argc, char ***argv,
								FuzzCallback callback);

/* How many ids are tried in each layout, besides the edges. */
#define NUM_IDS		4

typedef enum Function
{
	CAPACITY,
	DECODE,
	COMPOSE,
	FIRST_FROM,
	LAST_BEFORE
} Function;

#define NUM_FUNCTIONS	(LAST_BEFORE + 1)

static const char *const signatures[NUM_FUNCTIONS] = {
	[CAPACITY] = "snowflake_capacity(text)",
	[DECODE] = "snowflake_decode(bigint, text)",
	[COMPOSE] = "snowflake_compose(timestamptz, text, integer, integer, integer, integer, integer, integer)",
	[FIRST_FROM] = "snowflake_first_from(timestamptz, text)",
	[LAST_BEFORE] = "snowflake_last_before(timestamptz, text)",
};

/* The outcome of a call. */
typedef struct Outcome
{
	int			sqlstate;		/* 0 if there was no error */
	char	   *detail;			/* of the error */
	Datum		value;
	bool		isnull;
} Outcome;

static Oid	function_oids[NUM_FUNCTIONS];
static FmgrInfo call_sites[NUM_FUNCTIONS];

/* The context of the input that is being tried. */
static MemoryContext input_context;

static void fault(const char *format,...) pg_attribute_noreturn()
			pg_attribute_printf(1, 2);

/* Report what does not hold, and abort. */
static void
fault(const char *format,...)
{
	va_list		args;

	va_start(args, format);
	fputs("fault: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	abort();
}

/* Call a function as SQL does.  Any error must be about the arguments. */
static Outcome
call(Function function, int num_args, const NullableDatum *args)
{
	LOCAL_FCINFO(fcinfo, LAYOUT_NUM_FIELDS + 1);
	FmgrInfo   *site = &call_sites[function];
	volatile Outcome outcome = {0};

	if (site->fn_oid == InvalidOid)
		fmgr_info_cxt(function_oids[function], site, input_context);
	InitFunctionCallInfoData(*fcinfo, site, num_args, InvalidOid, NULL, NULL);
	memcpy(fcinfo->args, args, num_args * sizeof(NullableDatum));

	PG_TRY();
	{
		outcome.value = FunctionCallInvoke(fcinfo);
		outcome.isnull = fcinfo->isnull;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(input_context);
		error = CopyErrorData();
		FlushErrorState();
		outcome.sqlstate = error->sqlerrcode;
		outcome.detail = error->detail;
		if (error->sqlerrcode != ERRCODE_INVALID_PARAMETER_VALUE &&
			error->sqlerrcode != ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE &&
			error->sqlerrcode != ERRCODE_DATETIME_VALUE_OUT_OF_RANGE)
			fault("%s: SQLSTATE %s: %s", signatures[function],
				  unpack_sql_state(error->sqlerrcode), error->message);
	}
	PG_END_TRY();
	return outcome;
}

/* A call with (bigint or timestamptz, text). */
static Outcome
call_int(Function function, int64 value, Datum text)
{
	NullableDatum args[] = {{Int64GetDatum(value), false}, {text, false}};

	return call(function, 2, args);
}

/* A call that must return a bigint, or throw an error with one SQLSTATE. */
static void
expect(Function function, int64 argument, Datum text, int64 result)
{
	Outcome		outcome = call_int(function, argument, text);

	if (outcome.sqlstate != 0)
		fault("%s of " INT64_FORMAT ": SQLSTATE %s, and not " INT64_FORMAT,
			  signatures[function], argument,
			  unpack_sql_state(outcome.sqlstate), result);
	if (outcome.isnull || DatumGetInt64(outcome.value) != result)
		fault("%s of " INT64_FORMAT ": " INT64_FORMAT ", and not " INT64_FORMAT,
			  signatures[function], argument, DatumGetInt64(outcome.value),
			  result);
}

static void
expect_error(Function function, Outcome outcome, int sqlstate)
{
	if (outcome.sqlstate == 0)
		fault("%s: no error, and not SQLSTATE %s", signatures[function],
			  unpack_sql_state(sqlstate));
	if (outcome.sqlstate != sqlstate)
	{
		char	   *expected = pstrdup(unpack_sql_state(sqlstate));

		fault("%s: SQLSTATE %s, and not %s", signatures[function],
			  unpack_sql_state(outcome.sqlstate), expected);
	}
}

/*
 * The id of an instant's tick with all other fields 0 must be this one; an
 * error is expected if it is negative, as the layout has no such tick.
 */
static void
expect_composed(TimestampTz instant, Datum layout_text, int64 id)
{
	NullableDatum args[LAYOUT_NUM_FIELDS + 1] = {
		{TimestampTzGetDatum(instant), false}, {layout_text, false}
	};
	Outcome		outcome = call(COMPOSE, LAYOUT_NUM_FIELDS + 1, args);

	if (id < 0)
		expect_error(COMPOSE, outcome, ERRCODE_DATETIME_VALUE_OUT_OF_RANGE);
	else if (outcome.sqlstate != 0 || outcome.isnull ||
			 DatumGetInt64(outcome.value) != id)
		fault("instant " INT64_FORMAT " is not composed to " INT64_FORMAT,
			  instant, id);
}

/* Any bigint, the same for the same input. */
static int64
any_number(const char *input, size_t length, int which)
{
	return (int64) hash_bytes_extended((const unsigned char *) input,
									   (int) length, which);
}

/*
 * Check that the text of an instant gives the instant back: exactly in
 * ISO-8601, to the millisecond as a number.
 */
static void
check_instant_text(TimestampTz instant)
{
	char	   *text = LayoutInstantToText(instant);

	if (strchr(text, 'T') != NULL)
	{
		Layout		layout;
		char	   *reason;

		if (!LayoutParse(psprintf("time:1 epoch:%s", text), &layout, &reason))
			fault("instant " INT64_FORMAT ": %s", instant, reason);
		if (layout.epoch != instant)
			fault("instant " INT64_FORMAT " is read from \"%s\" as " INT64_FORMAT,
				  instant, text, layout.epoch);
	}
	else
	{
		int128		difference = (int128) strtoll(text, NULL, 10) * 1000 -
		((int128) instant + UNIX_EPOCH_TO_POSTGRES);

		if (difference <= -1000 || difference >= 1000)
			fault("instant " INT64_FORMAT " is shown as \"%s\"", instant, text);
	}
}

/* Check by arithmetic how an id is taken apart and put together again. */
static void
check_id(const Layout *layout, Datum layout_text, int64 id)
{
	Outcome		decoded = call_int(DECODE, id, layout_text);

	/* the time, the layout, and the other fields */
	NullableDatum args[LAYOUT_NUM_FIELDS + 1];
	Outcome		composed;
	TimestampTz instant;
	int64		first;

	if (decoded.sqlstate != 0)
		fault("id " INT64_FORMAT " is not decoded: %s", id, decoded.detail);
	args[1].value = layout_text;
	args[1].isnull = false;
	for (int field = 0; field < LAYOUT_NUM_FIELDS; field++)
	{
		int64		value = (id >> layout->shift[field]) %
		(INT64CONST(1) << layout->bits[field]);
		NullableDatum *arg = &args[field == FIELD_TIME ? 0 : field + 1];

		arg->value = GetAttributeByNum(DatumGetHeapTupleHeader(decoded.value),
									   field + 1, &arg->isnull);
		if (arg->isnull != (layout->bits[field] == 0) ||
			(field != FIELD_TIME && !arg->isnull &&
			 DatumGetInt32(arg->value) != value))
			fault("id " INT64_FORMAT " is decoded to %s %d, and not " INT64_FORMAT,
				  id, layout_field_names[field],
				  DatumGetInt32(arg->value), value);
	}
	composed = call(COMPOSE, LAYOUT_NUM_FIELDS + 1, args);
	if (composed.sqlstate != 0)
		fault("id " INT64_FORMAT " is not composed: %s", id, composed.detail);
	if (composed.isnull || DatumGetInt64(composed.value) != id)
		fault("id " INT64_FORMAT " is decoded, and composed to " INT64_FORMAT,
			  id, DatumGetInt64(composed.value));

	/* a value that does not fit its field would change another one */
	for (int field = FIELD_TIME + 1; field < LAYOUT_NUM_FIELDS; field++)
	{
		NullableDatum arg = args[field + 1];

		if (layout->bits[field] == LAYOUT_MAX_FIELD_BITS)
			continue;
		args[field + 1].value = Int32GetDatum(1 << layout->bits[field]);
		args[field + 1].isnull = false;
		expect_error(COMPOSE, call(COMPOSE, LAYOUT_NUM_FIELDS + 1, args),
					 ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE);
		args[field + 1] = arg;
	}

	instant = DatumGetTimestampTz(args[FIELD_TIME].value);
	first = id - id % (INT64CONST(1) << layout->shift[FIELD_TIME]);
	expect_composed(instant, layout_text, first);
	expect(FIRST_FROM, instant, layout_text, first);
	expect(LAST_BEFORE, instant, layout_text, first - 1);
	check_instant_text(instant);
}

/* Check the ids that bound an instant. */
static void
check_instant(const Layout *layout, Datum layout_text, TimestampTz instant)
{
	uint64		tick = LayoutSpan(layout->epoch, instant) / layout->tick;
	int			shift = layout->shift[FIELD_TIME];

	if (instant < layout->epoch)
	{
		expect_composed(instant, layout_text, -1);
		expect(FIRST_FROM, instant, layout_text, 0);
	}
	else if (!IS_VALID_TIMESTAMP(instant) ||
			 tick > (uint64) layout->last_tick)
	{
		expect_composed(instant, layout_text, -1);
		expect(LAST_BEFORE, instant, layout_text, LayoutLargestId(layout));
	}
	else
		expect_composed(instant, layout_text, (int64) tick << shift);
}

/* Check that what a layout says of itself adds up. */
static void
check_fields(const Layout *layout)
{
	int			shift = 0;
	int			seen = 0;

	if (layout->num_fields < 1 || layout->num_fields > LAYOUT_NUM_FIELDS ||
		layout->order[0] != FIELD_TIME)
		fault("%d fields, of which the first is %d", layout->num_fields,
			  layout->order[0]);
	for (int i = layout->num_fields - 1; i >= 0; i--)
	{
		LayoutField field = layout->order[i];

		if (seen & (1 << field))
			fault("%s is twice in the order", layout_field_names[field]);
		seen |= 1 << field;
		if (layout->bits[field] < 1 || layout->shift[field] != shift)
			fault("%s has %d bits above %d, and not above %d",
				  layout_field_names[field], layout->bits[field],
				  layout->shift[field], shift);
		shift += layout->bits[field];
	}
	for (int field = 0; field < LAYOUT_NUM_FIELDS; field++)
	{
		if ((seen & (1 << field)) == 0 &&
			(layout->bits[field] != 0 || layout->shift[field] != 0))
			fault("%s has bits, and no place", layout_field_names[field]);
	}
	if (shift > 63)
		fault("an id of %d bits", shift);
	if (layout->tick < 1 || layout->tick > USECS_PER_SEC)
		fault("a tick of " INT64_FORMAT " microseconds", layout->tick);

	/* the last tick fits the field, and begins before timestamps end */
	if (layout->last_tick < 0 ||
		layout->last_tick > LayoutLargest(layout, FIELD_TIME) ||
		!IS_VALID_TIMESTAMP(layout->epoch) ||
		layout->epoch + (int128) layout->last_tick * layout->tick >=
		END_TIMESTAMP)
		fault("the last tick is " INT64_FORMAT, layout->last_tick);
}

static void
check_layout(char *input, size_t length)
{
	Layout		layout;
	Layout		again;
	char	   *reason = NULL;
	char	   *canonical = NULL;
	Datum		layout_text;
	NullableDatum arg;
	Outcome		capacity;
	bool		valid;

	valid = LayoutParse(input, &layout, &reason);
	if (valid)
	{
		check_fields(&layout);
		canonical = LayoutToText(&layout);
		if (!LayoutParse(canonical, &again, &reason))
			fault("not read back: \"%s\": %s", canonical, reason);
		if (memcmp(&layout, &again, sizeof(Layout)) != 0)
			fault("not the same when read back: \"%s\", then \"%s\"",
				  canonical, LayoutToText(&again));
	}
	else if (reason == NULL || *reason == '\0')
		fault("no layout, and no reason");

	/* a configuration file may have any bytes, SQL only valid ones */
	if (!pg_verifymbstr(input, (int) length, true))
		return;
	layout_text = CStringGetTextDatum(input);
	arg.value = layout_text;
	arg.isnull = false;
	capacity = call(CAPACITY, 1, &arg);
	if (!valid)
	{
		expect_error(CAPACITY, capacity, ERRCODE_INVALID_PARAMETER_VALUE);
		if (strcmp(capacity.detail, reason) != 0)
			fault("\"%s\" is not the reason \"%s\"", capacity.detail, reason);
		return;
	}
	if (capacity.sqlstate != 0)
		fault("no capacity: %s", capacity.detail);
	arg.value = GetAttributeByNum(DatumGetHeapTupleHeader(capacity.value), 1,
								  &arg.isnull);
	if (strcmp(TextDatumGetCString(arg.value), canonical) != 0)
		fault("\"%s\", and not \"%s\"", TextDatumGetCString(arg.value),
			  canonical);

	check_instant_text(layout.epoch);
	check_instant(&layout, layout_text, layout.epoch - 1);
	check_instant(&layout, layout_text, DT_NOBEGIN);
	check_instant(&layout, layout_text, DT_NOEND);
	check_instant(&layout, layout_text, any_number(input, length, 0));
	check_id(&layout, layout_text, 0);
	check_id(&layout, layout_text, LayoutLargestId(&layout));
	for (int i = 1; i <= NUM_IDS; i++)
	{
		/* small ones are as likely as large ones */
		uint64		number = (uint64) any_number(input, length, i) >>
		(any_number(input, length, -i) & 63);

		if (number > (uint64) LayoutLargestId(&layout))
			number %= (uint64) LayoutLargestId(&layout) + 1;
		check_id(&layout, layout_text, (int64) number);
	}
	expect_error(DECODE, call_int(DECODE, -1, layout_text),
				 ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE);
	if (LayoutLargestId(&layout) < PG_INT64_MAX)
		expect_error(DECODE,
					 call_int(DECODE, LayoutLargestId(&layout) + 1,
							  layout_text),
					 ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE);
}

/* For libFuzzer: an input fails by aborting. */
static int
try_input(const uint8 *data, size_t size)
{
	MemoryContext oldcontext;

	/* sizes for which PostgreSQL does not keep deleted contexts for reuse */
	input_context = AllocSetContextCreate(CurrentMemoryContext, "fuzz",
										  0, 4 * 1024, 64 * 1024);
	oldcontext = MemoryContextSwitchTo(input_context);
	memset(call_sites, 0, sizeof(call_sites));

	PG_TRY();
	{
		/* a text cannot have a byte of 0 */
		size_t		length = strnlen((const char *) data, size);
		char	   *input = palloc(length + 1);

		memcpy(input, data, length);
		input[length] = '\0';
		check_layout(input, length);
	}
	PG_CATCH();
	{
		EmitErrorReport();
		fault("an error where there must be none");
	}
	PG_END_TRY();

	MemoryContextSwitchTo(oldcontext);
	MemoryContextDelete(input_context);
	return 0;
}

/* fuzz(VARIADIC arguments text[]), the arguments of libFuzzer */
Datum
snowflake_fuzz(PG_FUNCTION_ARGS)
{
	Datum	   *texts;
	int			argc;
	char	  **argv;

	deconstruct_array(PG_GETARG_ARRAYTYPE_P(0), TEXTOID, -1, false,
					  TYPALIGN_INT, &texts, NULL, &argc);
	argv = palloc0((argc + 1) * sizeof(char *));
	for (int i = 0; i < argc; i++)
		argv[i] = TextDatumGetCString(texts[i]);

	for (int i = 0; i < NUM_FUNCTIONS; i++)
	{
		Datum		signature = CStringGetDatum(signatures[i]);

		function_oids[i] =
			DatumGetObjectId(DirectFunctionCall1(regprocedurein, signature));
	}

	/* libFuzzer leaves alone any signal that has a handler */
	pqsignal(SIGALRM, SIG_DFL);
	pqsignal(SIGINT, SIG_DFL);
	pqsignal(SIGTERM, SIG_DFL);

	/* a fault ends the process */
	LLVMFuzzerRunDriver(&argc, &argv, try_input);
	PG_RETURN_VOID();
}
