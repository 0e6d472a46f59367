/*-------------------------------------------------------------------------
 *
 * snowflake.h
 *	  What the files of the library share, by the file that explains it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_H
#define SNOWFLAKE_H

#include "access/generic_xlog.h"
#include "access/tupdesc.h"
#include "access/xlogdefs.h"
#include "fmgr.h"
#include "port/atomics.h"
#include "storage/buf.h"
#include "storage/condition_variable.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "utils/relcache.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "layout.h"

/* timestamptz_to_str() has one buffer for all of its results. */
#define TIME_TEXT(instant)	pstrdup(timestamptz_to_str(instant))

/*
 * SQLSTATEs of our own.  The SQL standard leaves classes that start with a
 * letter from I to Z to implementations.
 */
#define ERRCODE_SNOWFLAKE_TOO_FAR_AHEAD	MAKE_SQLSTATE('S','F','0','0','1')
#define ERRCODE_SNOWFLAKE_CLOCK_REFUSED	MAKE_SQLSTATE('S','F','0','0','2')
#define ERRCODE_SNOWFLAKE_LAYOUT_EXHAUSTED	MAKE_SQLSTATE('S','F','0','0','3')
#define ERRCODE_SNOWFLAKE_NO_LEASE	MAKE_SQLSTATE('S','F','0','0','4')

/* snowflake.c; if preloaded, older than the extension until a restart */
extern PGDLLEXPORT const char *const snowflake_version;

/*
 * settings.c
 */

typedef enum SequenceStart
{
	SEQUENCE_START_RANDOM,
	SEQUENCE_START_ZERO
} SequenceStart;

extern int	setting_worker_id;
extern int	setting_datacenter_id;
extern Layout setting_layout;	/* parsed; may not be the one in force */
extern int	setting_sequence_start; /* a SequenceStart */
extern int	setting_max_ahead;	/* in ms, -1: any */
extern int	setting_max_wait;	/* in ms */
extern int	setting_max_set_back;	/* in s, -1: any */
extern int	setting_max_jump;	/* in s, -1: any */

/* a connection string, or empty */
extern PGDLLEXPORT char *setting_registry;
extern PGDLLEXPORT int setting_registry_lease;	/* in ms */

/* empty: made from host and port */
extern PGDLLEXPORT char *setting_node_name;

/* the settings were defined when the server was started */
extern bool settings_are_preloaded;

/* Why ids cannot be made with a setting, for errors and status. */
typedef struct SettingProblem
{
	const char *name;
	const char *detail;
	const char *hint;
} SettingProblem;

extern void SettingsDefine(void);
extern void SettingsCheckUsable(void);
extern PGDLLEXPORT bool SettingsLayoutIsUsable(void);
extern bool SettingsRegistryIsUsed(void);
extern const SettingProblem *SettingsProblem(void);

/*
 * stats.c
 */

/* In the order of the columns of snowflake_stat(); times in us. */
typedef enum StatsCounter
{
	STATS_IDS,					/* counted by each process for itself */
	STATS_WAITS,
	STATS_WAIT_TIME,
	STATS_MARK_EXTENSIONS,
	STATS_MARK_FLUSH_TIME,
	STATS_STEPS_BACK,
	STATS_LARGEST_STEP_BACK,
	STATS_ERRORS,				/* for each SQLSTATE, see StatsErrcode() */
	STATS_LAST_STEP_BACK = STATS_ERRORS + 7,	/* a TimestampTz, or 0 */
	STATS_RESET_AT,				/* a TimestampTz */
	NUM_STATS
} StatsCounter;

/* Ids that this process has made; StatsFoldNowAndThen() does the rest. */
extern uint64 stats_ids;

extern void StatsFold(void);
extern void StatsFoldNowAndThen(TimestampTz now);
extern int	StatsErrcode(int code);
extern void StatsAdd(StatsCounter counter, uint64 number);
extern void StatsAddStepBack(int64 step, TimestampTz now);
extern void StatsReset(void);

/*
 * shared.c: the shared memory.  One lock guards all but atomics, "reserved",
 * and the layout and its flag, which are read without it.
 */

/* The most lanes, however wide the field of the layout is. */
#define MAX_LANES		64

/* Databases that can make ids at the same time. */
#define MAX_DATABASES	1024

/* A cache line each, to avoid false sharing. */
typedef union Lane
{
	/* tick << sequence bits | sequence: no lower one is taken any more */
	pg_atomic_uint64 word;
	char		pad[PG_CACHE_LINE_SIZE];
} Lane;

typedef struct DatabaseSlot
{
	Oid			database;		/* InvalidOid: free */
	int			sessions;
	/* the first tick in which no id may be made yet */
	pg_atomic_uint64 limit;
	/* who has the mark for it: MarkStandbys(), SOME_STANDBYS; 0: unknown */
	pg_atomic_uint64 standbys;
	/* the limit for which this server wrote the pages last; 0: none yet */
	int64		reserved;		/* guarded by the pages' locks, see limit.c */
} DatabaseSlot;

/* Offsets are the wall clock minus the reference clock, in us. */
typedef struct ClockState
{
	bool		noted;			/* the two offsets of the start are set */
	bool		started;		/* an offset is believed */
	bool		doubted;
	/* the offset believed last or, at first, that of the server's start */
	int64		offset;
	int64		highest;		/* ever believed, or of the start */
	int64		checkpoint_offset;	/* of the last checkpoint before that */

	/*
	 * Where the id clock goes on if it is ahead of the believed clock: the
	 * instant minus seven eighths of the reference clock; DT_NOBEGIN at first
	 */
	TimestampTz pace;

	/* while in doubt; instants are those of the reference clock, in us */
	int64		lowest;			/* lowest offset that was seen */
	int64		doubted_since;
	int64		seen_at;
	int64		watched;
} ClockState;

/* How the last attempt to lease a worker id, or to renew the lease, ended. */
typedef enum LeaseState
{
	LEASE_NOT_ASKED,
	LEASE_HELD,
	LEASE_UNREACHABLE,
	LEASE_NONE_FREE,
	LEASE_REFUSED,
	LEASE_RELEASED
} LeaseState;

typedef struct WorkerLease
{
	int64		worker_id;		/* -1: there is none */
	int64		start;			/* first tick of its ids */
	pg_atomic_uint64 end;		/* first tick after its ids */
	LeaseState	state;
	Latch	   *latch;			/* of the lease worker; NULL: not started */
} WorkerLease;

typedef struct SharedState
{
	/* of the struct; these never change */
	uint32		magic;
	uint32		struct_version;
	uint32		size;

	LWLock		lock;

	/* the layout never changes once it is fixed */
	bool		layout_fixed;
	Layout		layout;
	pg_atomic_uint32 announced; /* in the log, if not 0 */

	ClockState	clock;
	WorkerLease lease;

	pg_atomic_uint64 counters[NUM_STATS];

	/* sessions wait here for a limit to be moved */
	ConditionVariable limit_moved;

	DatabaseSlot slots[MAX_DATABASES];

	/*
	 * How many changes have closed windows, see lane.c.  Read with every id
	 * and hardly ever written, so nothing that is often written shares its
	 * cache line.
	 */
	union
	{
		pg_atomic_uint32 changes;
		char		pad[PG_CACHE_LINE_SIZE];
	};

	Lane		lanes[MAX_LANES];
} SharedState;

/* NULL until SharedAttach() */
extern SharedState *shared;

/* that of our database; NULL until SlotEnter() */
extern DatabaseSlot *my_slot;

extern void SharedInit(void);
extern void SharedAttach(void);
extern PGDLLEXPORT const Layout *SharedLayout(void);
extern const Layout *SharedLayoutToRead(void);
extern const Layout *SharedLayoutIfFixed(void);
extern DatabaseSlot *SlotPeek(void);
extern void SlotEnter(void);
extern bool SlotIsOurs(void);
extern void SlotForget(void);

/*
 * lane.c
 */

/* What a session takes ids from: a tick of its lane. */
typedef struct Window
{
	pg_atomic_uint64 *word;
	uint32		changes;		/* when the window was opened */
	uint64		first;			/* word of the tick's sequence 0 */
	uint64		initial;		/* word to take first if the tick is unused */
	uint64		last;			/* highest word to take */
} Window;

/*
 * Take "count" ids at once from the window, or as many as it has left.
 * Returns their number, and sets *last_word to the word of the last one.
 *
 * The barrier pairs with a change, which is counted before all else and moves
 * the words last, both by full barriers.  If we read the word after the move,
 * or the window was opened with anything that the change made, we see the new
 * count; otherwise the compare-and-swap fails, or came before the move.  Until
 * the words are moved, a take that has already compared the count can still
 * succeed.  t/world/model checks all of this.
 */
static inline int
LaneTake(const Window *window, int count, uint64 *last_word)
{
	uint64		old = pg_atomic_read_u64(window->word);
	uint64		word;
	uint64		last;
	bool		swapped;

	do
	{
		word = old < window->first ? window->initial : old + 1;
		pg_read_barrier();
		if (unlikely(word > window->last ||
					 window->changes != pg_atomic_read_u32(&shared->changes)))
			return 0;
		last = Min(word + (count - 1), window->last);
		swapped = pg_atomic_compare_exchange_u64(window->word, &old, last);
	} while (unlikely(!swapped));

	/* invariant 1 */
	Assert(last >= word && word > old);
	*last_word = last;
	return last - word + 1;
}

extern int	LaneCount(const Layout *layout);
extern int64 LaneIdsPerSecond(const Layout *layout);
extern int	LaneMine(const Layout *layout);
extern int64 LaneNextTick(const Layout *layout, int lane);
extern int64 LaneLastTick(const Layout *layout);
extern void LaneBeginChange(void);
extern void LaneEndChange(void);

/*
 * clock.c
 */

/* Smaller differences, in us, are noise, not steps. */
#define CLOCK_SMALLEST_STEP		10000
/* For how long a clock in doubt must be watched to be believed, in us. */
#define CLOCK_TIME_TO_BELIEVE	(3 * USECS_PER_SEC)
/* Longer times between two looks are not watched. */
#define CLOCK_LONGEST_GAP		USECS_PER_SEC

/* What a look at the clock has found; times in us. */
typedef struct ClockReading
{
	TimestampTz wall;
	TimestampTz time;			/* believed */
	TimestampTz ids;			/* the id clock */
	bool		refused;		/* the wall clock, for its jump */
	int64		jump;			/* how far it is ahead of all that is known */
	int64		doubt;			/* how far it is ahead of "time" */
	int64		doubted_for;	/* how long ago the doubt began */
	int64		set_back;		/* how far the id clock would be ahead of
								 * "time" without max_set_back */
} ClockReading;

extern PGDLLEXPORT ClockReading ClockRead(void);
extern ClockReading ClockPeek(TimestampTz ids);
extern TimestampTz ClockIds(TimestampTz believed);
extern void ClockRaiseIds(TimestampTz ids);
extern void ClockCheck(const ClockReading *reading);
extern PGDLLEXPORT int64 ClockReference(void);
pg_noreturn extern void ClockReportExhausted(const Layout *layout);
extern void ClockNoteStart(ClockState *clock);

/*
 * worker.c
 */

/* The worker id in use, with the datacenter id, and where its ids begin. */
typedef struct Worker
{
	int64		id;				/* -1: there is no lease */
	int64		bits;			/* both ids and the timeline, in place */
	bool		leased;
	int64		lease_start;	/* first tick of the lease; 0 if not leased */
	uint32		changes;		/* so many, when all this was read */
} Worker;

/* The name of a LeaseState in snowflake_status(), and the hint for it. */
typedef struct LeaseWords
{
	const char *name;
	const char *hint;
} LeaseWords;

extern void WorkerGet(Worker *worker);
extern int64 WorkerLeaseEnd(const Worker *worker);
extern void WorkerPutBits(Worker *worker, const Layout *layout);
extern const char *WorkerUnfit(const Worker *worker, const Layout *layout);
extern const LeaseWords *WorkerLeaseWords(void);
extern void WorkerAskForLease(void);

/* for the lease worker, in registry/snowflake_lease.c */
extern PGDLLEXPORT void WorkerSetLatch(Latch *latch);
extern PGDLLEXPORT void WorkerSetLease(int64 worker_id, TimestampTz starts,
									   TimestampTz ends);
extern PGDLLEXPORT void WorkerSetLeaseState(LeaseState state);
extern PGDLLEXPORT TimestampTz WorkerEndLease(void);

/*
 * mark.c
 */

/* The row of the guard, on disk: columns of type bigint, all 0 at first. */
typedef struct Guard
{
	int64		bound;			/* all ids are at most this */
	TimestampTz clock;			/* the id clock then, without max_set_back */
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
	RelFileLocator sequence_file;
	RelFileLocator guard_file;
	Buffer		sequence_buffer;
	Buffer		guard_buffer;
	char	   *sequence_row;	/* on its page, while that is locked */
	char	   *guard_row;
	GenericXLogState *xlog;
} Mark;

extern MarkOpenResult MarkOpen(Mark *mark, MarkMode mode);
extern void MarkClose(Mark *mark);
extern bool MarkLockPages(Mark *mark);
extern void MarkUnlockPages(Mark *mark);
extern XLogRecPtr MarkWritePages(Mark *mark, int64 bound, TimestampTz clock);
extern bool MarkFlush(XLogRecPtr lsn);
extern bool MarkKnowsStandbys(void);
extern uint64 MarkStandbys(void);
pg_noreturn extern void MarkReportDamaged(void);

/*
 * limit.c
 */

/* What to do if ids are ahead of the clock. */
#define HINT_GO_ON(setting) \
	"Wait until the clock has caught up, or raise \"snowflake." setting "\" and reload, so that ids go on above those that have been made."
/* What to do if the mark is far ahead of the clock, or leaves no tick. */
#define HINT_FAR_MARK \
	"If the sequence \"snowflake_internal.mark\" was set by hand, correct it. If the ids are of another layout, return to that, or choose one whose ids are greater; if none of them is needed, drop the extension and create it again. Else wait until the clock has caught up, or raise \"snowflake.max_ahead\" and reload."

/* What to do about the clock. */
#define HINT_CLOCK_REFUSED \
	"Set the clock of the server right. If it is right, raise \"snowflake.max_jump\" and reload. Lower it again after the next regular restart."
#define HINT_CLOCK_EXHAUSTED \
	"Set the clock of the server right. If it is right, choose a layout with more bits of time or, if there are no ids yet, a later epoch, and restart the server."
#define HINT_EPOCH \
	"The clock is before the epoch of the layout. Set the clock of the server right, or choose a layout with an earlier epoch and restart the server."

typedef enum LimitResult
{
	LIMIT_LOOK_AGAIN,			/* it was moved, or something has changed */
	LIMIT_LOCKED,				/* a transaction is about to change the mark */
	LIMIT_IS_FAR,				/* the mark is too far ahead of the clock */
	LIMIT_ENDED,				/* in limit.c only: the layout has */
	LIMIT_WRITTEN,				/* in limit.c only: the mark was */
	LIMIT_DAMAGED				/* in limit.c only: the mark is */
} LimitResult;

/* Why the limit is moved. */
typedef enum LimitReason
{
	LIMIT_EARLY,				/* half of the reservation is used */
	LIMIT_REACHED,				/* the tick is at the limit or beyond */
	LIMIT_ADVANCE,				/* ids are to begin at the tick */
	LIMIT_FORCE					/* the same, however far ahead that is */
} LimitReason;

/* A value in the mark's pages that this server has not written. */
typedef struct FoundMark
{
	int64		tick;			/* first tick above it; 0: there is none */
	int64		ahead;			/* how far that can be ahead of the id clock */
	bool		is_far;			/* it is further ahead */
} FoundMark;

extern bool LimitPeek(const Layout *layout, const DatabaseSlot *slot,
					  Mark *mark, bool *has_written);
extern void LimitFind(const Layout *layout, const Mark *mark,
					  bool has_written, TimestampTz ids, FoundMark *found);
pg_noreturn extern void LimitReportExhausted(const Layout *layout,
											 int64 tick);
extern int64 LimitFloor(const Layout *layout, int64 limit);
extern bool LimitIsCovered(int64 limit);
extern bool LimitHalfUsed(const Layout *layout, int64 tick);
extern LimitResult LimitMove(const Layout *layout, const Worker *worker,
							 int64 tick, LimitReason reason,
							 const ClockReading *reading, FoundMark *found);
extern bool LimitFollowLease(const Layout *layout, int64 lease_end,
							 ClockReading *reading);
extern int64 LimitReservation(const Layout *layout);
extern int64 LimitAhead(const Layout *layout);
extern int64 LimitMaxAdvance(const Layout *layout, int64 ids_tick);
extern bool LimitEnter(const Layout *layout);

/*
 * wait.c
 */

/* What a session waits for, as pg_stat_activity shows it from 17 on. */
#define WAIT_CLOCK		"SnowflakeClock"
#define WAIT_LEASE		"SnowflakeLease"
#define WAIT_MARK		"SnowflakeMark"

extern void WaitBegin(void);
extern ClockReading WaitReadClock(const Layout *layout);
extern void WaitForMark(void);
extern void WaitForLease(const Worker *worker);
extern bool WaitForClock(const Layout *layout, const Worker *worker,
						 int64 tick, int64 ahead, const FoundMark *found);
extern bool WaitMayClaim(const Layout *layout, int64 tick, int64 ahead,
						 const ClockReading *reading);
extern bool WaitIsPossible(const Layout *layout, int64 tick, int64 ahead,
						   const FoundMark *found,
						   const ClockReading *reading);

/*
 * generator.c
 */

extern int64 GeneratorNext(int64 tag_bits);
extern int64 GeneratorReservable(void);
extern int	GeneratorReserve(int count, int64 *first, int64 *last);
extern int64 GeneratorLast(void);
extern void GeneratorForgetLast(void);
extern const Worker *GeneratorConfigure(void);

/*
 * decode.c
 */

extern const Layout *CallLayout(FunctionCallInfo fcinfo, int arg);
extern Datum CallRow(FunctionCallInfo fcinfo, Datum *values, bool *nulls,
					 int number);
extern void CallCheckColumns(TupleDesc tupdesc, int number);

#endif							/* SNOWFLAKE_H */
