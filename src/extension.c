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

#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "commands/extension.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

#include "extension.h"

/* The schema snowflake_internal, or InvalidOid. */
Oid
ExtensionSchema(void)
{
	Oid			extension = get_extension_oid("snowflake", true);
	Oid			schema = get_namespace_oid("snowflake_internal", true);

	return OidIsValid(extension) &&
		getExtensionOfObject(NamespaceRelationId, schema) == extension ?
		schema : InvalidOid;
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
