/*-------------------------------------------------------------------------
 *
 * snowflake.pml
 *	  A model of generator.c and mark.c, for the model checker spin.
 *
 * The checker takes every step that a process can take, in every order, and
 * looks in each state that comes about whether the promises hold:
 *
 *		Never twice.  No id, which is a worker id, a timeline, a tick, a lane
 *		and a sequence, is issued twice.
 *
 *		Increasing.  The ids of a session increase.
 *
 * For the first, a list of all ids that were issued would be too much to
 * remember.  Instead at most one is kept, any one: when an id is issued, or
 * when one came from elsewhere that new ids shall be above, it may become the
 * one that is kept.  No other id may ever be equal to it.  As the checker
 * tries every choice, this finds whatever the whole list would.
 *
 * All guards stand where they stand in the C code, and go by the same names.
 * Each has an #ifndef NO_..., or an #ifdef for what is done wrong, and "run"
 * shows that an id comes twice then.  What is not needed for that is not among
 * them:
 *
 *	- the lock on the extension: with -DPARALLEL it keeps nobody out, like
 *	  among the processes of a parallel query, and the promises hold;
 *	- the bound of ids ahead of the clock, which is for honest time.
 *
 * The model is checked in parts, for all at once is too much:
 *
 *	LANES		lanes, spill, sessions that know their last id; no mark
 *	CRASH		the lease and the mark: crashes of the server, sessions that are
 *				cancelled in the middle of an extension
 *	FAILOVER	two servers, of which one follows the other with any delay and
 *				is promoted, while the other may go on; then the other may be
 *				rewound, follow, and be promoted itself; timeline bits
 *	SYNC		the same once, with a synchronous standby and no timeline bits
 *	SETVAL		somebody sets snowflake_internal.mark to anything, or restores a dump
 *	DROP		the extension is dropped and created again by a session that
 *				makes ids, in one transaction or two, which may fail
 *
 * The server may crash at any point in all of them but the first, any number
 * of times.  There the processes end, the shared memory and the buffers are
 * lost, and the mark is what was flushed.
 *
 * The clock may show any tick at any look.  This covers
 * steps in both directions, at any time, while the server runs and while it
 * is down.  How long a session keeps to a window is arbitrary, too.
 *
 * Bounds: two sessions (three in FAILOVER), 3 to 5 ticks, two lanes, one or
 * two ids per lane and tick, a lease of one tick beyond the one in use.
 *
 * Not in the model: several databases, WAL that others flush (it only makes
 * the mark on disk higher; a mark that is lowered by hand is flushed or not),
 * snowflake_advance() and snowflake_reset_mark() with their generations,
 * weakly ordered memory, settings other than the worker id, changes of the
 * layout, what the sequence starts with in a tick, waiting, errors that do
 * not leave anything behind, a second synchronous standby, point-in-time
 * recovery (an asynchronous promotion), more timelines than the timeline bits
 * can tell apart.
 *
 * snowflake/model/snowflake.pml
 *
 *-------------------------------------------------------------------------
 */

/* -------- bounds -------- */

#ifndef TICKS
#define TICKS		4
#endif
#ifndef SEQUENCES
#define SEQUENCES	1
#endif

#ifndef NUM_LANES
#define NUM_LANES	2
#endif
#define LAST_TICK	(TICKS - 1)
#define LEASE		1
#ifndef AHEAD
#define AHEAD		1
#endif


#if defined(FAILOVER) || defined(SYNC)
#define SERVERS		2
#ifndef SESSIONS
#define SESSIONS	2
#endif
#define SERVER_OF(session)	(session == SESSIONS - 1 -> 1 : 0)
#else
#define SERVERS		1
#define SESSIONS	2
#define SERVER_OF(session)	0
#endif

#if defined(FAILOVER) && !defined(NO_TIMELINE)
#define TIMELINES	3
#define TIMELINE_BITS(timeline)	timeline
#else
#define TIMELINES	1
#define TIMELINE_BITS(timeline)	0
#endif

#ifdef DROP
#define EXTENSIONS	3			/* 0: none */
#else
#define EXTENSIONS	1
#define extension	0
#endif

#define ADMINISTRATOR	SESSIONS

#define MAX(a, b)	(a > b -> a : b)
#define MIN(a, b)	(a < b -> a : b)

inline raise_to(variable, target)
{
	if
	:: variable < target -> variable = target
	:: else
	fi
}

/* -------- what there is -------- */

/* A word of a lane holds a tick and a sequence: that of the lane's last id. */
#define tick_of(word)	(word / SEQUENCES)
#define first_word(tick)	(tick * SEQUENCES)
/* the tick that a lane's next id can be in, at the earliest */
#define next_tick(l)	tick_of((my.word[l] + 1))

/* A mark is the first tick that it does not cover.  Two sequences hold it. */
typedef Mark
{
	byte	mark;
	byte	guard
}

#ifdef NO_GUARD_COPY
#define VALUE(m)	m.mark
#else
#define VALUE(m)	MAX(m.mark, m.guard)
#endif

typedef Server
{
	/* shared memory, as in GeneratorShared and DatabaseSlot */
	byte	word[NUM_LANES];
	byte	limit;
	byte	floor;
	byte	written;
	byte	generation;
	bool	locked[EXTENSIONS];	/* the lock on the extension */
	Mark	page[EXTENSIONS];	/* the sequences' pages in shared buffers */

	/* what outlives a crash */
	Mark	disk[EXTENSIONS];	/* what WAL that was flushed makes of them */
	bool	recovery;			/* a standby */
	byte	timeline
}

Server server_[SERVERS];
#define my	server_[server]

/* the server has crashed, and the process has to end */
bool killed[SESSIONS + 1];

/* an id that was issued or came from elsewhere, or 0 */
short kept;
#define ID(word) \
	((timeline * NUM_LANES + lane) * TICKS * SEQUENCES + word + 1)

#define TOO_FAR_AHEAD	false

#ifdef NO_FLOOR
#define FLOOR			0
#else
#define FLOOR			my.floor
#endif

#if defined(ADVANCE) || defined(SETVAL)
bool advanced;
bool set;
bool restored;
#endif

#if SERVERS == 2
byte standby = 1;				/* which follows the other, or NOBODY */
byte promotions;
#define NOBODY			2
#endif

/* -------- what lasts -------- */

/* XLogFlush(): of the page, and of all that came before it */
inline flush(from)
{
	d_step {
		from.disk[extension].mark = from.page[extension].mark;
		from.disk[extension].guard = from.page[extension].guard
#ifdef DROP
		;
		visible_on_disk = visible
#endif
	}
}

inline clear_lanes(s)
{
	s.word[0] = 0
#if NUM_LANES == 2
	;
	s.word[1] = 0
#endif
}

/* What a server starts with; and its processes have to end. */
inline start(s)
{
	clear_lanes(server_[s]);
	server_[s].limit = 0;
	server_[s].floor = 0;
	server_[s].written = 0;
	server_[s].generation = 0;
	i = 0;
	do
	:: i < EXTENSIONS ->
		server_[s].locked[i] = false;
		server_[s].page[i].mark = server_[s].disk[i].mark;
		server_[s].page[i].guard = server_[s].disk[i].guard;
		i++
	:: else -> break
	od;
	i = 0;
	do
	:: i < SESSIONS -> killed[i] = killed[i] || SERVER_OF(i) == s; i++
	:: else -> break
	od;
#if defined(ADVANCE) || defined(SETVAL)
	killed[ADMINISTRATOR] = true;
#endif
	i = 0
}

/* -------- mark.c -------- */

/*
 * Both pages are read and written under their content locks, so this is one
 * step.  Leaves in "found" what they held, and in "raised" whether the mark
 * covers the bound now.
 */
inline MarkRaise(accept, bound)
{
	found = VALUE(my.page[extension]);
	raised = true;
	if
#ifndef NO_START_ABOVE_MARK
	/* it was not written here: all new ids must be above it */
	:: found > accept && found > my.written -> raised = false
	:: else ->
#else
	:: true ->
#endif
		value = MAX(found, my.written);
#ifdef READ_UNFLUSHED
		unchanged = (value == found && bound <= value);
#endif
		if
		:: bound > value -> value = bound
		:: else
		fi;
		my.written = value;
		my.page[extension].mark = value;
		my.page[extension].guard = value;
		value = 0
	fi
}

/* MarkSet(), up to the flush */
inline MarkSet(set_to)
{
	my.page[extension].mark = set_to;
	my.page[extension].guard = set_to;
	my.written = set_to
}

/* -------- generator.c -------- */

#define NONE	NUM_LANES
#define home	(me % NUM_LANES)

/* A lane that has ids left in the tick, better one that is unused in it. */
inline find_lane(from)
{
	i = from;
	do
	:: i < NUM_LANES && tick_of(my.word[i]) < tick -> lane = i; break
	:: i < NUM_LANES && tick_of(my.word[i]) >= tick ->
		if
		:: lane == NONE && next_tick(i) == tick -> lane = i
		:: else
		fi;
		i++
	:: i == NUM_LANES -> break
	od;
	i = 0
}

/* One step, though others go on meanwhile: what it finds is only a good try. */
inline choose_lane()
{
	lane = NONE;
	if
	:: last_word > 0 && tick <= tick_of(last_word) ->
		/* still in the tick of the last id, or the clock is behind it */
		tick = tick_of(last_word);
		if
		:: next_tick(last_lane) <= tick -> lane = last_lane
		:: else ->
#ifndef SPILL_ANYWHERE
			find_lane(last_lane + 1);
#else
			find_lane(0);
#endif
			if
			:: lane == NONE -> tick++
			:: else
			fi
		fi
	:: else
	fi;
	/* a tick that has no id of this session: at home, or from the lowest on */
	if
	:: lane == NONE && next_tick(home) <= tick -> lane = home
	:: lane == NONE -> find_lane(0)
	:: lane != NONE
	fi;
	/* every lane is full in this tick: take the one that is free the soonest */
	if
	:: lane == NONE ->
#if NUM_LANES == 1
		lane = 0;
#else
		lane = (next_tick(1) < next_tick(0) -> 1 : 0);
#endif
		tick = MAX(tick, next_tick(lane))
	:: else
	fi
}

/* Whether the limit is reached, or half of the way to it is used. */
#define limit_is_near(from, end) \
	(tick >= end || (tick >= from && tick - from >= end - 1 - tick))

/* -------- a session that makes ids -------- */

#ifdef DROP
#define MIGRATOR	0			/* the session that drops and creates */
byte visible = 1;				/* the extension that all sessions see, or 0 */
byte visible_on_disk = 1;
bool dropped;					/* in the migrator's open transaction */
byte created;					/* in the migrator's open transaction, or 0 */
byte latest = 1;				/* the last one that was committed */

#define SEEN \
	(me == MIGRATOR && created > 0 -> created : (me == MIGRATOR && dropped -> 0 : visible))
#define IS_GONE			(extension != SEEN)
#define IS_THERE		(extension == SEEN)
/* the transaction has locked the sequences that it has dropped */
#define MARK_IS_LOCKED	(my.locked[extension] || (dropped && extension == visible))
#else
#define IS_GONE			false
#define IS_THERE		true
#ifdef PARALLEL
#define MARK_IS_LOCKED	false
#else
#define MARK_IS_LOCKED	my.locked[extension]
#endif
#endif

/*
 * Where other processes can come in between.  Without anybody who closes
 * windows, a bigger step does as well.
 */
#define NEXT_LOOK

inline MarkClose()
{
	my.locked[extension] = false
}

inline clear()
{
	now = 0; tick = 0; lane = 0; limit = 0; must = false; raised = false;
	unchanged = false; found = 0; floor = 0; known = false
}

/* Begin again in open_window(), with a new look at everything. */
inline start_over()
{
	clear();
	goto again
}

inline close_window()
{
	clear();
	window_open = false; generation = 0; mark_tick = 0; tried = false;
	old = 0; word = 0
}

inline fail()
{
	close_window();
	goto call
}

#ifdef DROP
inline drop_extension()
{
	/* waits for who is at the mark */
	atomic {
		me == MIGRATOR && !dropped && created == 0 && visible > 0 &&
			!my.locked[visible] && my.written > 0 ->
		dropped = true
	}
}

inline create_extension()
{
	atomic {
		me == MIGRATOR && created == 0 && (dropped || visible == 0) ->
		created = 3 - latest;
		extension = created;
		my.page[extension].mark = 0;
		my.page[extension].guard = 0;
		my.disk[extension].mark = 0;
		my.disk[extension].guard = 0
	};
#ifndef NO_RESTORE_AFTER_DROP
	/* GeneratorRestoreMark() */
	atomic { found = my.written; my.locked[extension] = true };
	if
	:: found > 0 ->
		MarkSet(found);
		flush(my);
		if
		:: dropped -> my.limit = 0
		:: !dropped
		fi
	:: found == 0
	fi;
	atomic { found = 0; MarkClose() }
#endif
}

inline commit()
{
	if
	:: atomic { me == MIGRATOR && created > 0 ->
		/* ForceSyncCommit() */
		visible = created; latest = created; created = 0; dropped = false;
#ifndef NO_FORCE_SYNC
		flush(my)
#endif
		}
	:: atomic { me == MIGRATOR && created == 0 && dropped ->
		visible = 0; dropped = false }
	fi
}

inline roll_back()
{
	atomic { me == MIGRATOR && (created > 0 || dropped) ->
		created = 0; dropped = false }
}
#endif

/* GeneratorNext() again and again, until the server crashes */
proctype Session(byte me; byte server)
{
	/* config */
	bool configured;
	byte timeline;

	/* window */
	bool window_open;
	byte generation;
	byte tick;
	byte lane;

	byte last_word;				/* 0: no id yet */
	byte last_lane;

#ifdef DROP
	byte extension;				/* that of the function which is called */
#endif

	/* the rest is 0 when no call is under way */
	byte now;
	byte mark_tick;
	byte limit;
	byte floor;
	bool must;
	bool tried;
	bool known;
	bool raised;
	bool unchanged;
	byte found;
	byte value;
	byte old;
	byte word;
	byte i;

call:
	{
		/* between two calls */
		if
		:: atomic { window_open ->
			/* the clock is still in the window's tick */
			 goto take_id }
#ifdef DROP
		:: atomic { window_open -> close_window(); goto call }
#else
		:: atomic { window_open -> close_window(); start_over() }
#endif
#ifndef DROP
		:: atomic { !window_open -> start_over() }
#else
		:: atomic { !window_open && extension > 0 -> start_over() }
		:: atomic { extension != SEEN -> extension = SEEN; goto call }
		:: drop_extension(); goto call
		:: create_extension(); goto call
		:: commit(); goto call
		:: roll_back(); goto call
#endif
		fi;

configure: /* once recovery and a reset have ended */
		atomic {
#ifndef TIMELINE_IN_RECOVERY
			!my.recovery;
#endif
			timeline = TIMELINE_BITS(my.timeline);
			configured = true;
			start_over()
		};

again:	/* open_window() */
		atomic {
			/* is_configured(); the generation before limit and floor */
			generation = my.generation;
			known = configured;
			if
			:: !known -> goto configure
			:: else -> known = false
			fi;
			NEXT_LOOK

			/* an old floor may be below the mark that a new limit is covered by */
#ifndef FLOOR_BEFORE_LIMIT
			limit = my.limit;
			}; atomic {
			floor = MAX(mark_tick, FLOOR);
#else
			floor = MAX(mark_tick, FLOOR);
			}; atomic {
			limit = my.limit;
#endif
			tick = floor;
			/* whatever the clock says */
			do
			:: tick < LAST_TICK -> tick++
			:: break
			od;
			choose_lane();
			if
			:: tick > LAST_TICK || TOO_FAR_AHEAD -> fail()
			:: else -> now = 0
			fi
		};

		atomic {
			must = tick >= limit;
			if
			:: must || (!tried && limit_is_near(floor, limit)) ->
				tried = true; lane = 0; floor = 0; limit = 0
			:: else ->
				mark_tick = 0; tried = false; floor = 0; limit = 0; goto take_id
			fi
		};

		/* extend_limit(): MarkOpen(), which may wait, and serves interrupts */
		if
		:: atomic { IS_GONE -> fail() }
		:: atomic { IS_THERE && !MARK_IS_LOCKED && !my.recovery -> my.locked[extension] = true }
		:: atomic { IS_THERE && MARK_IS_LOCKED && !must -> start_over() }
		fi;

		atomic {
			if
			:: must && tick >= my.limit
			:: !must && limit_is_near(my.floor, my.limit)
			:: else -> MarkClose(); start_over()	/* somebody else did it */
			fi
		};
#ifndef NO_FLOOR_FIRST
		/* before the mark is written, which may fail half way */
		atomic { raise_to(my.floor, tick) };
#endif
#if defined(DROP) && !defined(NO_REFUSE_RECREATED)
		if
		:: atomic { me == MIGRATOR && dropped && created > 0 -> MarkClose(); fail() }
		:: else
		fi;
#endif

#if defined(DROP) && !defined(NO_REFUSE_RECREATED)
		/* check_not_recreated() */
		if
		:: atomic { me == MIGRATOR && dropped && created > 0 -> MarkClose(); fail() }
		:: !(me == MIGRATOR && dropped && created > 0)
		fi;
#endif
		atomic {
			limit = MIN(tick + LEASE, LAST_TICK) + 1;
			MarkRaise(tick, limit);
			if
			:: raised -> raised = false; found = 0
			:: !raised && must -> mark_tick = found; MarkClose(); start_over()
			:: !raised && !must -> MarkClose(); start_over()
			fi
		};

#ifdef PUBLISH_BEFORE_FLUSH
		raise_to(my.limit, limit);
#endif
		/* make_durable(), or an error */
		if
#ifdef NO_FLUSH
		:: true
#elif defined(READ_UNFLUSHED)
		:: unchanged
		:: !unchanged -> flush(my)
#else
		:: flush(my)
#endif
		:: atomic { true -> MarkClose(); fail() }
		fi;
#if defined(SYNC) && !defined(NO_SYNC_WAIT)
		/* wait_for_standbys(), if there are any; may be cancelled */
		if
		:: server == 1 || (standby == 1 && server_[1].disk[0].mark >= limit)
		:: atomic { true -> MarkClose(); fail() }
		fi;
#endif

		/* publish */
		atomic {
#ifdef NO_FLOOR_FIRST
			raise_to(my.floor, tick);
#endif
			raise_to(my.limit, limit)
		};
		atomic { MarkClose(); mark_tick = 0; tried = false; start_over() };

take_id:
		atomic {
			old = my.word[lane];
			word = (old < first_word(tick) -> first_word(tick) : old + 1);
			if
			:: tick_of(word) > tick -> fail()	/* to open another one */
			:: else -> word = 0
			fi;
			NEXT_LOOK
			if
			:: generation != my.generation -> fail()
			:: else
			fi
		};
		if
		:: atomic {
#ifndef NO_CAS
			my.word[lane] == old ->
#endif
			word = (old < first_word(tick) -> first_word(tick) : old + 1);
			my.word[lane] = word;

			/* never twice */
			assert(kept != ID(word));
			if
			:: kept == 0 -> kept = ID(word)
			:: true
			fi;
#ifdef LANES
			/* increasing: the lane outranks the sequence */
			assert(tick_of(word) > tick_of(last_word) ||
				(tick_of(word) == tick_of(last_word) && lane > last_lane) ||
				(lane == last_lane && word > last_word));
			last_word = word;
			last_lane = lane;
#endif
			window_open = true; old = 0; word = 0;
			goto call }
		:: atomic { my.word[lane] != old -> old = 0; goto take_id }
		fi
	}
	unless
	{
		atomic {
			killed[me] ->
			killed[me] = false;
			configured = false; timeline = 0;
			close_window(); value = 0; i = 0; last_word = 0; last_lane = 0;
#ifdef DROP
			extension = 0;
#endif
			goto call
		}
	}
}

/* -------- an administrator -------- */

/* An id of these ticks came from elsewhere, or none that matters. */
inline keep_one(from, end)
{
	if
	:: kept == 0 && from < end ->
		i = from;
		do
		:: i < end - 1 -> i++
		:: break
		od;
		if
		:: lane = 0
		:: lane = NUM_LANES - 1
		fi;
		kept = ID(first_word(i));
		lane = 0;
		i = 0
	:: true
	fi
}

/* Begin a new generation, and then change all words: see invariant 6. */
inline close_windows()
{
	my.generation++
	;
	my.word[0]++;
	my.word[1]++
}

#if defined(ADVANCE) || defined(SETVAL)
proctype Administrator(byte me; byte server)
{
	byte tick;
	byte lane;
	byte timeline;
	bool raised;
	byte found;
	byte value;
	byte i;

call:
	{
		if
		:: atomic {
			!set && !restored ->
			/* setval('snowflake_internal.mark', anything), committed or not */
			set = true;
			my.page[0].mark = 0;
			do
			:: my.page[0].mark < LAST_TICK -> my.page[0].mark++
			:: break
			od;
			if
			:: flush(my)
			:: true
			fi }
		:: atomic {
			!restored ->
			/* a dump is restored, and brings ids that were never covered here */
			restored = true;
			my.page[0].mark = LAST_TICK;
			flush(my);
			tick = MAX(my.limit, my.written);
			keep_one(tick, LAST_TICK);
			tick = 0 }
		fi;
		goto call
	}
	unless
	{
		atomic {
			killed[me] ->
			killed[me] = false;
			tick = 0; lane = 0; raised = false; found = 0; value = 0; i = 0;
			goto call
		}
	}
}
#endif


/* -------- what happens to servers -------- */

#ifndef LANES
proctype Crash(byte server)
{
	byte i;

end:
	do
	:: d_step {
#ifdef DROP
		/* if there is no extension then, and so no mark, nothing is promised */
		visible > 0 ->
		visible = visible_on_disk;
		latest = (visible == 0 -> latest : visible);
		dropped = false;
		created = 0;
#else
		!my.recovery ->
#endif
		start(server) }
	od
}
#endif

#if SERVERS == 2
/* A standby follows the other server.  Its mark is that of any moment ago. */
proctype Replication()
{
	byte i;

end:
	do
	:: d_step {
		standby != NOBODY ->
		/* WAL that the other has flushed arrives */
		server_[standby].disk[0].mark = server_[1 - standby].disk[0].mark;
		server_[standby].disk[0].guard = server_[1 - standby].disk[0].guard;
		server_[standby].page[0].mark = server_[standby].disk[0].mark;
		server_[standby].page[0].guard = server_[standby].disk[0].guard;
		server_[standby].timeline = server_[1 - standby].timeline }
	:: d_step {
		standby != NOBODY ->
		/* promotion; the other one goes on */
		promotions++;
		server_[standby].timeline = promotions;
		server_[standby].recovery = false;
		standby = NOBODY }
#ifdef FAILOVER
	:: d_step {
		standby == NOBODY && promotions == 1 ->
		/* pg_rewind of the old primary */
		server_[0].disk[0].mark = server_[1].disk[0].mark;
		server_[0].disk[0].guard = server_[1].disk[0].guard;
		server_[0].timeline = server_[1].timeline;
		server_[0].recovery = true;
		start(0);
		standby = 0 }
#endif
	od
}
#endif

init
{
	byte i;

	atomic {
#ifdef LANES
		server_[0].limit = TICKS;
#else
		run Crash(0);
#endif
#if SERVERS == 2
		server_[1].recovery = true;
		run Crash(1);
		run Replication();
#endif
#if defined(ADVANCE) || defined(SETVAL)
		run Administrator(ADMINISTRATOR, 0);
#endif
		do
		:: i < SESSIONS -> run Session(i, SERVER_OF(i)); i++
		:: else -> break
		od;
		i = 0
	}
}
