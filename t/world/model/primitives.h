/*
 * primitives.h
 *	  The promises of PostgreSQL's atomics and barriers, expressed in C11.
 *
 * Reads and writes order nothing.  A fetch-and-add is a full barrier; so is a
 * compare-and-swap, but here it orders nothing, as no code relies on that.
 */
#define READ(x)			atomic_load_explicit(x, memory_order_relaxed)
#define WRITE(x, value)	atomic_store_explicit(x, value, memory_order_relaxed)
#define READ_BARRIER	atomic_thread_fence(memory_order_acquire);
#define WRITE_BARRIER	atomic_thread_fence(memory_order_release);
#define FULL_BARRIER	atomic_thread_fence(memory_order_seq_cst);
#define COMPARE_AND_SWAP(x, old, new) \
	atomic_compare_exchange_strong_explicit(x, old, new, \
		memory_order_relaxed, memory_order_relaxed)

#ifdef WEAK_FETCH_ADD
#define FETCH_ADD(old, x) \
	int old = atomic_fetch_add_explicit(x, 1, memory_order_relaxed);
#else
#define FETCH_ADD(old, x) \
	FULL_BARRIER \
	int old = atomic_fetch_add_explicit(x, 1, memory_order_relaxed); \
	FULL_BARRIER
#endif

/* LaneBeginChange() and LaneEndChange().  P0 holds the lock from the start. */
#ifdef WORDS_BEFORE_VERSION
#define BEGIN_CHANGE	FETCH_ADD(word_before, word)
#define END_CHANGE		FETCH_ADD(changes_before, changes) FULL_BARRIER \
						WRITE(held, 0);
#else
#define BEGIN_CHANGE	FETCH_ADD(changes_before, changes)
#define END_CHANGE		FETCH_ADD(word_before, word) FULL_BARRIER \
						WRITE(held, 0);
#endif

/* The barrier in LaneTake(). */
#ifdef NO_BARRIER_TO_TAKE
#define TAKE_BARRIER
#else
#define TAKE_BARRIER	READ_BARRIER
#endif
