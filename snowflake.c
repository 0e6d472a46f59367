/*-------------------------------------------------------------------------
 *
 * snowflake.c
 *	  The module, and the functions that make ids.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "nodes/makefuncs.h"
#include "nodes/supportnodes.h"
#include "postmaster/bgworker.h"
#include "tcop/cmdtag.h"
#include "tcop/pquery.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/syscache.h"
#include "utils/tuplestore.h"

#include "snowflake.h"

PG_MODULE_MAGIC;

extern PGDLLEXPORT void _PG_init(void);

const char *const snowflake_version = LIBRARY_VERSION;

PG_FUNCTION_INFO_V1(snowflake_nextval);
PG_FUNCTION_INFO_V1(snowflake_nextval_support);
PG_FUNCTION_INFO_V1(snowflake_nextval_tag);
PG_FUNCTION_INFO_V1(snowflake_reserve);
PG_FUNCTION_INFO_V1(snowflake_currval);

/* The most ids that one call of snowflake_reserve() returns. */
#define MAX_RESERVED	1000000

static ProcessUtility_hook_type next_process_utility = NULL;

/* Poolers run DISCARD between clients: forget currval, as core does. */
static void
process_utility(PlannedStmt *pstmt, const char *query_string,
				bool read_only_tree, ProcessUtilityContext context,
				ParamListInfo params, QueryEnvironment *environment,
				DestReceiver *dest, QueryCompletion *completion)
{
	DiscardStmt *discard = (DiscardStmt *) pstmt->utilityStmt;
	bool		forget = IsA(discard, DiscardStmt) &&
	(discard->target == DISCARD_ALL || discard->target == DISCARD_SEQUENCES);

	(next_process_utility ? next_process_utility : standard_ProcessUtility)
		(pstmt, query_string, read_only_tree, context, params, environment,
		 dest, completion);
	if (forget)
		GeneratorForgetLast();
}

/*
 * Register the lease worker, if the library is being preloaded.  It has a
 * library of its own, the only one that uses libpq: loading that takes longer
 * than all that a session needs for an id, and hardly any session needs it.
 */
static void
register_lease_worker(void)
{
	BackgroundWorker worker;

	if (!process_shared_preload_libraries_in_progress ||
		!SettingsRegistryIsUsed() || IsBinaryUpgrade)
		return;

	memset(&worker, 0, sizeof(worker));
	/* no database: nobody's DROP DATABASE waits while we look up a host */
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = 1;
	strlcpy(worker.bgw_library_name, "snowflake_lease", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "SnowflakeLeaseWorker", BGW_MAXLEN);
	strlcpy(worker.bgw_name, "snowflake lease worker", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "snowflake lease worker", BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);
}

void
_PG_init(void)
{
	SettingsDefine();
	SharedInit();
	register_lease_worker();
	next_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}

Datum
snowflake_nextval(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(GeneratorNext(0));
}

static bool
may_execute(Oid function)
{
	return DatumGetBool(DirectFunctionCall2(has_function_privilege_id,
											ObjectIdGetDatum(function),
											CStringGetTextDatum("EXECUTE")));
}

/*
 * Planner support for snowflake_nextval() and snowflake_id(): lets COPY insert
 * rows in batches.
 *
 * COPY inserts rows one by one if the default of a column is volatile, because
 * that might read the table.  Our functions do not.  It exempts nextval(),
 * both as a function and as a node of its own, NextValueExpr.  COPY plans a
 * default as an expression without a query around it; there we replace the
 * call by
 *
 *		COALESCE(nextval_batch(<argument>), <NextValueExpr>)
 *
 * nextval_batch() is the same function, but labeled STABLE.  It never returns
 * NULL, so the node is never evaluated.
 *
 * Other commands must not see this expression: Citus evaluates the defaults
 * of an INSERT argument by argument, and would reach the node.  So we require
 * that the portal runs COPY.  Even then the request may not come from COPY:
 *
 * - A trigger that COPY fires may run ALTER TABLE ADD COLUMN.  The node keeps
 *	 the expression volatile there, so that each row gets an id of its own.
 * - To estimate selectivities for COPY (SELECT ...) TO, the planner has no
 *	 query at hand, and calls stable functions whose arguments are constants.
 *	 So we pass an argument that is not a constant, although the function
 *	 ignores it: planning must not make ids.
 *
 * The argument's type is internal: nobody can call the function where its
 * label would be wrong, and only a superuser can create another one.
 */
Datum
snowflake_nextval_support(PG_FUNCTION_ARGS)
{
	Node	   *request = (Node *) PG_GETARG_POINTER(0);
	SupportRequestSimplify *simplify;
	Oid			argtype = INTERNALOID;
	Oid			schema;
	Oid			function;
	CoerceToDomainValue *argument;
	FuncExpr   *call;
	NextValueExpr *never;
	CoalesceExpr *result;

	if (!IsA(request, SupportRequestSimplify))
		PG_RETURN_POINTER(NULL);
	simplify = (SupportRequestSimplify *) request;
	if (simplify->root != NULL ||
		ActivePortal == NULL || ActivePortal->commandTag != CMDTAG_COPY)
		PG_RETURN_POINTER(NULL);

	/* unless the user may execute both, the original call gives the error */
	schema = get_namespace_oid("snowflake_internal", true);
	function = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
							   CStringGetDatum("nextval_batch"),
							   PointerGetDatum(buildoidvector(&argtype, 1)),
							   ObjectIdGetDatum(schema));
	if (!OidIsValid(function) || !may_execute(function) ||
		!may_execute(simplify->fcall->funcid))
		PG_RETURN_POINTER(NULL);

	/* no constant, yet harmless: NULL outside of a domain constraint */
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
	const Layout *layout;

	PreventCommandDuringRecovery("snowflake_nextval()");
	layout = SharedLayout();
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

/* reserve(count int): blocks of consecutive ids */
Datum
snowflake_reserve(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	int32		count = PG_GETARG_INT32(0);
	int64		reservable;
	Datum		values[2];
	bool		nulls[2] = {false};

	PreventCommandDuringRecovery("snowflake_reserve()");
	if (count < 1 || count > MAX_RESERVED)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of snowflake ids is out of range: %d", count),
				 errdetail("One call reserves 1 to %d ids.", MAX_RESERVED)));
	/* check first, so that a call that must fail takes no ids from others */
	reservable = GeneratorReservable();
	if (count > reservable)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("number of snowflake ids is out of range: %d", count),
				 errdetail("The layout, \"snowflake.max_ahead\" and \"snowflake.max_wait\" allow at most " INT64_FORMAT " ids in one call.",
						   reservable),
				 errhint("Reserve fewer ids at once.")));

	InitMaterializedSRF(fcinfo, 0);
	CallCheckColumns(rsinfo->setDesc, lengthof(values));
	while (count > 0)
	{
		int64		first_id;
		int64		last_id;

		CHECK_FOR_INTERRUPTS();
		count -= GeneratorReserve(count, &first_id, &last_id);
		values[0] = Int64GetDatum(first_id);
		values[1] = Int64GetDatum(last_id);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values,
							 nulls);
	}
	return (Datum) 0;
}

Datum
snowflake_currval(PG_FUNCTION_ARGS)
{
	int64		id = GeneratorLast();

	if (id < 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no snowflake id has been made in this session yet"),
				 errhint("Call snowflake_nextval() first.")));
	PG_RETURN_INT64(id);
}
