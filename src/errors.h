/*-------------------------------------------------------------------------
 *
 * errors.h
 *	  SQLSTATEs of our own.
 *
 * The SQL standard leaves classes that start with a letter from I to Z to
 * implementations.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_ERRORS_H
#define SNOWFLAKE_ERRORS_H

#define ERRCODE_SNOWFLAKE_TOO_FAR_AHEAD		MAKE_SQLSTATE('S','F','0','0','1')
#define ERRCODE_SNOWFLAKE_BEFORE_EPOCH		MAKE_SQLSTATE('S','F','0','0','2')
#define ERRCODE_SNOWFLAKE_LAYOUT_EXHAUSTED	MAKE_SQLSTATE('S','F','0','0','3')
#define ERRCODE_SNOWFLAKE_NO_LEASE			MAKE_SQLSTATE('S','F','0','0','4')
#define ERRCODE_SNOWFLAKE_CLOCK_REFUSED		MAKE_SQLSTATE('S','F','0','0','5')

#endif							/* SNOWFLAKE_ERRORS_H */
