/*-------------------------------------------------------------------------
 *
 * mark.h
 *	  The mark and its guard on disk.
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

/* The row of the guard, on disk: columns of type bigint, all 0 at first. */
typedef struct Guard
{
	int64		bound;			/* all ids are at most this */
	TimestampTz clock;			/* the id clock when the bound was written */
	int64		database;		/* OID of the one for which it was written */
	int64		system;			/* identifier of the server that wrote it */
} Guard;

typedef enum MarkMode
{
	MARK_PEEK,					/* read it; no error if there is no mark */
	MARK_READ,					/* read it */
	MARK_WRITE,
	MARK_CREATE					/* write it while the extension is created */
} MarkMode;

typedef enum MarkOpenResult
{
	MARK_OPENED,
	MARK_BUSY,					/* another session writes it */
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
	int			nest_level;		/* of settings, see mark_begin_writing() */
	LOCKMODE	lockmode;
	LOCKTAG		lock;
	TransactionId changed_by;	/* see mark_note_change() */
	Relation	sequence;		/* to write it */
	CompatFile	sequence_file;
	CompatFile	guard_file;
	Buffer		sequence_buffer;
	Buffer		guard_buffer;
	GenericXLogState *xlog;
} Mark;

extern MarkOpenResult MarkOpen(Mark *mark, MarkMode mode);
extern void MarkClose(Mark *mark);
extern bool MarkLockPages(Mark *mark);
extern void MarkUnlockPages(Mark *mark);
extern XLogRecPtr MarkWritePages(Mark *mark);
extern bool MarkFlush(XLogRecPtr lsn);
extern bool MarkKnowsSettings(void);
extern uint64 MarkStandbys(void);
pg_noreturn extern void MarkReportLocked(void);
pg_noreturn extern void MarkReportDamaged(void);

#endif							/* SNOWFLAKE_MARK_H */
