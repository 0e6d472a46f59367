/*-------------------------------------------------------------------------
 *
 * generator.h
 *	  Makes a session's ids.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_GENERATOR_H
#define SNOWFLAKE_GENERATOR_H

#include "worker.h"

extern int64 GeneratorNext(int64 tag_bits);
extern int64 GeneratorReservable(void);
extern int	GeneratorReserve(int count, int64 *first, int64 *last);
extern bool GeneratorLast(int64 *id);
extern void GeneratorForgetLast(void);
extern const Worker *GeneratorConfigure(void);

#endif							/* SNOWFLAKE_GENERATOR_H */
