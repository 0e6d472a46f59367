/*-------------------------------------------------------------------------
 *
 * extension.h
 *	  The extension in the catalogs.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_EXTENSION_H
#define SNOWFLAKE_EXTENSION_H

extern Oid	ExtensionSchema(void);
extern Oid	ExtensionFunction(const char *name, const Oid *argtypes,
							  int nargs);

#endif							/* SNOWFLAKE_EXTENSION_H */
