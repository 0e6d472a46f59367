/*-------------------------------------------------------------------------
 *
 * iso.h
 *	  Instants in ISO-8601.
 *
 * snowflake/src/iso.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_ISO_H
#define SNOWFLAKE_ISO_H

#include "datatype/timestamp.h"

extern bool IsoParse(const char *text, TimestampTz *instant, char **reason);
extern char *IsoFromInstant(TimestampTz instant);

#endif							/* SNOWFLAKE_ISO_H */
