/*-------------------------------------------------------------------------
 *
 * extension.c
 *	  The extension in the catalogs.
 *
 * A statement can outlive the extension whose functions it runs: no lock keeps
 * others from dropping it.  Whoever may do that can also create a schema, with
 * objects, of the names that ours had.  So a name alone proves nothing; ours
 * is the schema that belongs to the extension.  Its owner is a superuser, and
 * nobody else can create objects in it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "commands/extension.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "extension.h"

/* The schema snowflake_internal, or InvalidOid. */
Oid
ExtensionSchema(void)
{
	Oid			extension = get_extension_oid("snowflake", true);
	Oid			schema = get_namespace_oid("snowflake_internal", true);

	return OidIsValid(extension) &&
		getExtensionOfObject(NamespaceRelationId, schema) == extension ? schema : InvalidOid;
}

/* A function in that schema, or InvalidOid. */
Oid
ExtensionFunction(const char *name, const Oid *argtypes, int nargs)
{
	return GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
						   CStringGetDatum(name),
						   PointerGetDatum(buildoidvector(argtypes, nargs)),
						   ObjectIdGetDatum(ExtensionSchema()));
}

/* The version of the extension. */
char *
ExtensionVersion(void)
{
	Relation	extensions = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	char	   *version = "";

	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ,
				CStringGetDatum("snowflake"));
	scan = systable_beginscan(extensions, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		bool		isnull;
		Datum		datum = heap_getattr(tuple, Anum_pg_extension_extversion,
										 RelationGetDescr(extensions), &isnull);

		version = TextDatumGetCString(datum);
	}
	systable_endscan(scan);
	table_close(extensions, AccessShareLock);
	return version;
}
