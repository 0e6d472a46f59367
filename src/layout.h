/*-------------------------------------------------------------------------
 *
 * layout.h
 *	  How the 63 bits of a snowflake id are divided.
 *
 * A layout is one line of text, for example:
 *
 *		time:41 worker:5 timeline:2 lane:2 sequence:13 tick:1ms
 *		epoch:2026-01-01T00:00:00Z
 *
 * It is parsed once, into the struct below, which everything else uses.
 * Nothing here knows of shared memory, locks or settings.
 *
 *-------------------------------------------------------------------------
 */
#ifndef SNOWFLAKE_LAYOUT_H
#define SNOWFLAKE_LAYOUT_H

#include "datatype/timestamp.h"

/* The sign bit stays clear, so that ids sort in time order as bigint. */
#define LAYOUT_MAX_BITS			63
/* Every field but the time is shown to SQL as an integer. */
#define LAYOUT_MAX_FIELD_BITS	31
/* At least one bit is left to tell two ids of a tick apart. */
#define LAYOUT_MAX_TIME_BITS	62

/* Add this to a timestamp to get microseconds since 1970. */
#define UNIX_EPOCH_TO_POSTGRES \
	((int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY)

typedef enum LayoutField
{
	FIELD_TIME,
	FIELD_DATACENTER,
	FIELD_WORKER,
	FIELD_TIMELINE,
	FIELD_LANE,
	FIELD_SEQUENCE,
	FIELD_TAG
} LayoutField;

#define LAYOUT_NUM_FIELDS	(FIELD_TAG + 1)

/* A field of no bits is the same as an absent field; its shift is zero. */
typedef struct Layout
{
	int32		num_fields;
	LayoutField order[LAYOUT_NUM_FIELDS];	/* most significant first */
	int32		bits[LAYOUT_NUM_FIELDS];
	int32		shift[LAYOUT_NUM_FIELDS];
	int64		tick;			/* in microseconds */
	TimestampTz epoch;			/* start of tick 0 */
	int64		last_tick;		/* where the field or timestamptz ends */
} Layout;

extern const char *const layout_field_names[];

extern bool LayoutParse(const char *text, Layout *layout, char **reason);
extern PGDLLEXPORT char *LayoutToText(const Layout *layout);
extern char *LayoutInstantToText(TimestampTz instant);

extern int64 LayoutTick(const Layout *layout, TimestampTz instant);
extern void LayoutCheckValue(const Layout *layout, LayoutField field,
							 int64 value);
extern void LayoutCheckId(const Layout *layout, int64 id);

/* The largest value of a field, which is also its mask. */
static inline int64
LayoutLargest(const Layout *layout, LayoutField field)
{
	return (INT64CONST(1) << layout->bits[field]) - 1;
}

static inline int64
LayoutGet(const Layout *layout, LayoutField field, int64 id)
{
	return (id >> layout->shift[field]) & LayoutLargest(layout, field);
}

/* The value must fit, and must be 0 for an absent field. */
static inline int64
LayoutPut(const Layout *layout, LayoutField field, int64 value)
{
	Assert(value >= 0 && value <= LayoutLargest(layout, field));
	return value << layout->shift[field];
}

/* The largest id; timestamptz may end before the time field is full. */
static inline int64
LayoutLargestId(const Layout *layout)
{
	int			shift = layout->shift[FIELD_TIME];

	return (layout->last_tick << shift) | ((INT64CONST(1) << shift) - 1);
}

/* The largest id before a tick; -1 if there is none. */
static inline int64
LayoutLastIdBefore(const Layout *layout, int64 tick)
{
	return tick > layout->last_tick ? LayoutLargestId(layout) :
		(tick << layout->shift[FIELD_TIME]) - 1;
}

/* Microseconds from one instant to a later one, which may not fit an int64. */
static inline uint64
LayoutSpan(TimestampTz from, TimestampTz to)
{
	return (uint64) to - (uint64) from;
}

/* The start of a tick, which must not be far beyond the layout. */
static inline TimestampTz
LayoutTickToTime(const Layout *layout, int64 tick)
{
	return (TimestampTz) ((uint64) layout->epoch +
						  (uint64) tick * (uint64) layout->tick);
}

/* The start of a tick or, if that is after the last one, of the last one. */
static inline TimestampTz
LayoutTickToTimeCapped(const Layout *layout, int64 tick)
{
	return LayoutTickToTime(layout, Min(tick, layout->last_tick));
}

/* The start of the last tick. */
static inline TimestampTz
LayoutLastInstant(const Layout *layout)
{
	return LayoutTickToTime(layout, layout->last_tick);
}

#endif							/* SNOWFLAKE_LAYOUT_H */
