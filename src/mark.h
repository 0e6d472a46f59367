/*-------------------------------------------------------------------------
 *
 * mark.h
 *	  The mark and its guard on disk.
 *
 * snowflake/src/mark.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_MARK_H
#define SNOWFLAKE_MARK_H

#include "access/generic_xlog.h"
#include "access/xlogdefs.h"
#include "storage/buf.h"
#include "storage/lock.h"
#include "utils/relcache.h"

#include "compat.h"

/* The row of the guard, as it is on disk: three columns of type bigint. */
typedef struct Guard
{
	int64		bound;			/* all ids are at most this, or "others" */
	int64		exempt;			/* the worker of the last reset, or -1 */
	int64		others;			/* other workers begin above; 0: no reset */
} Guard;

/* What MarkOpen() does if another session is moving the mark. */
typedef enum MarkMode
{
	MARK_PEEK,					/* read it; no error if there is no mark */
	MARK_READ,					/* read it */
	MARK_TRY,					/* give up */
	MARK_WAIT					/* wait until that is done */
} MarkMode;

typedef enum MarkOpenResult
{
	MARK_OPENED,
	MARK_BUSY,					/* another session moves it */
	MARK_LOCKED,				/* a transaction is about to change it */
	MARK_MISSING				/* only with MARK_PEEK */
} MarkOpenResult;

typedef struct Mark
{
	/* what its pages held when they were locked */
	int64		value;			/* of the sequence */
	Guard		guard;

	/* for mark.c */
	MarkMode	mode;
	int			nest_level;		/* of settings, see MarkOpen() */
	LOCKMODE	lockmode;
	LOCKTAG		lock;
	TransactionId changed_by;	/* see note_change() */
	Relation	sequence;		/* to write it; else NULL */
	CompatFile	sequence_file;
	CompatFile	view_file;
	Buffer		sequence_buffer;
	Buffer		view_buffer;
} Mark;

extern MarkOpenResult MarkOpen(Mark *mark, MarkMode mode);
extern void MarkClose(Mark *mark);
extern void MarkCheckStays(const Mark *mark);
extern void MarkLockPages(Mark *mark);
extern void MarkLeave(Mark *mark);
extern bool MarkLook(Mark *mark, MarkMode mode);
extern XLogRecPtr MarkWritePages(Mark *mark);
extern char *MarkFirstRow(Buffer buffer, Size size);
extern char *MarkCopyOfRow(GenericXLogState *state, Buffer buffer, const void *row);
pg_noreturn extern void MarkThrowLocked(void);
extern Guard MarkCurrentGuard(void);

/* in flush.c */
extern bool MarkFlush(XLogRecPtr lsn, bool finish);

#endif							/* SNOWFLAKE_MARK_H */
