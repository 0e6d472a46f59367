/*-------------------------------------------------------------------------
 *
 * text.h
 *	  Ids as text.
 *
 * snowflake/src/text.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_TEXT_H
#define SNOWFLAKE_TEXT_H

extern char *TextFromId(int64 id, const char *encoding);
extern int64 TextToId(const char *text, const char *encoding);

#endif							/* SNOWFLAKE_TEXT_H */
