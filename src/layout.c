/*-------------------------------------------------------------------------
 *
 * layout.c
 *	  How the 63 bits of a snowflake id are divided.
 *
 * Reading the text of a layout must not throw, because it happens in the
 * check hook of a setting, where an error would take the server down.  It
 * returns a reason instead.  The checks of values and ids do throw.
 *
 * The meaning of the text must not depend on the session's DateStyle and
 * TimeZone: functions that take a layout are IMMUTABLE.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <ctype.h>
#include <math.h>

#include "common/int.h"
#include "lib/stringinfo.h"
#include "utils/timestamp.h"

#include "layout.h"

/* The keys of a layout's words are the fields and these two. */
#define KEY_TICK	LAYOUT_NUM_FIELDS
#define KEY_EPOCH	(LAYOUT_NUM_FIELDS + 1)
#define NUM_KEYS	(LAYOUT_NUM_FIELDS + 2)

const char *const layout_field_names[] = {
	[FIELD_TIME] = "time",
	[FIELD_DATACENTER] = "datacenter",
	[FIELD_WORKER] = "worker",
	[FIELD_TIMELINE] = "timeline",
	[FIELD_LANE] = "lane",
	[FIELD_SEQUENCE] = "sequence",
	[FIELD_TAG] = "tag",
	[KEY_TICK] = "tick",
	[KEY_EPOCH] = "epoch",
};

/*
 * Layouts that have a name.  The first is the default.  The epochs, in Unix
 * milliseconds, are those that the generators of these names use.
 */
static const struct
{
	const char *name;
	const char *text;
}			presets[] =
{
	{"snowflake", "time:41 worker:5 timeline:2 lane:2 sequence:13 epoch:1767225600000"},
	{"twitter", "time:41 datacenter:5 worker:5 sequence:12 epoch:1288834974657"},
	{"leaf", "time:41 worker:10 sequence:12 epoch:1288834974657"},
	{"discord", "time:41 worker:5 lane:5 sequence:12 epoch:1420070400000"},
	{"instagram", "time:40 worker:13 sequence:10 epoch:1314220021721"},
	{"sonyflake", "time:39 sequence:8 worker:16 tick:10ms epoch:1409529600000"},
	{"sonyflake2", "time:39 sequence:8 worker:16 tick:10ms epoch:1735689600000"},
	{"uid-generator", "time:28 worker:22 sequence:13 tick:1s epoch:1463673600000"},
	{"cosid", "time:41 worker:10 sequence:12 epoch:1577203200000"},
	{"mastodon", "time:47 sequence:16 epoch:0"},
	{"pgedge", "time:41 worker:10 sequence:12 epoch:1672531200000"},
	{"pgactive", "time:39 worker:10 sequence:14 epoch:1475796139634"},
	{"js53", "time:41 worker:3 sequence:9 epoch:1767225600000"},
};

/* Units of a tick, in microseconds; the largest first, for LayoutToText(). */
static const struct
{
	const char *name;
	int64		length;
}			tick_units[] =
{
	{"s", USECS_PER_SEC},
	{"ms", 1000},
	{"us", 1},
};

#define DEFAULT_TICK	INT64CONST(1000)
#define MAX_TICK		USECS_PER_SEC

/* 2026-01-01 00:00 UTC, as in the default layout */
#define DEFAULT_EPOCH_UNIX_MS	INT64CONST(1767225600000)

/* Far more than any sensible layout needs; messages quote no more. */
#define MAX_TEXT_LENGTH 500

static bool
layout_read_number(const char *digits, int64 *number)
{
	char	   *end;

	/* strtoll() would take leading blanks and a plus sign */
	if (!isdigit((unsigned char) digits[*digits == '-' ? 1 : 0]))
		return false;
	errno = 0;
	*number = strtoll(digits, &end, 10);
	return errno == 0 && *end == '\0';
}

static bool
layout_read_bits(LayoutField field, const char *value, Layout *layout,
				 char **reason)
{
	bool		is_time = (field == FIELD_TIME);
	int64		least = is_time ? 1 : 0;
	int64		most = is_time ? LAYOUT_MAX_TIME_BITS : LAYOUT_MAX_FIELD_BITS;
	int64		bits;

	if (!layout_read_number(value, &bits) || bits < least || bits > most)
	{
		*reason = psprintf("\"%s:%s\" is not valid: the field takes %d to %d bits.",
						   layout_field_names[field], value,
						   (int) least, (int) most);
		return false;
	}

	/* A field that the preset has keeps its place; others go below. */
	if (layout->bits[field] == 0)
		layout->order[layout->num_fields++] = field;
	layout->bits[field] = (int32) bits;
	return true;
}

static bool
layout_read_tick(const char *value, Layout *layout, char **reason)
{
	size_t		num_digits = strspn(value, "0123456789");

	/* no tick that is allowed has more digits than a million */
	for (int i = 0; num_digits <= 7 && i < lengthof(tick_units); i++)
	{
		layout->tick = atoi(value) * tick_units[i].length;
		if (pg_strcasecmp(value + num_digits, tick_units[i].name) == 0 &&
			layout->tick >= 1 && layout->tick <= MAX_TICK)
			return true;
	}
	*reason = psprintf("\"tick:%s\" is not valid: a tick is 1us to 1s, given as a whole number with the unit \"us\", \"ms\" or \"s\".",
					   value);
	return false;
}

/*
 * Read an instant in the one form in which LayoutInstantToText() writes it.
 * PostgreSQL's own parser throws errors, and goes by DateStyle and TimeZone.
 */
static bool
layout_read_instant(const char *text, TimestampTz *instant)
{
	struct pg_tm tm = {0};
	double		sec;
	int			zone = 0;

	if (sscanf(text, "%d-%d-%dT%d:%d:%lfZ", &tm.tm_year, &tm.tm_mon,
			   &tm.tm_mday, &tm.tm_hour, &tm.tm_min, &sec) != 6 ||
		!(sec >= 0 && sec < SECS_PER_MINUTE))
		return false;
	tm.tm_sec = (int) sec;
	return tm2timestamp(&tm, (fsec_t) rint((sec - tm.tm_sec) * 1e6), &zone,
						instant) == 0 &&
		strcmp(LayoutInstantToText(*instant), text) == 0;
}

static bool
layout_read_epoch(const char *value, Layout *layout, char **reason)
{
	int64		unix_ms;

	if (layout_read_instant(value, &layout->epoch))
		return true;
	if (layout_read_number(value, &unix_ms) &&
		!pg_mul_s64_overflow(unix_ms, 1000, &layout->epoch) &&
		!pg_sub_s64_overflow(layout->epoch, UNIX_EPOCH_TO_POSTGRES,
							 &layout->epoch) &&
		IS_VALID_TIMESTAMP(layout->epoch))
		return true;
	*reason = psprintf("\"epoch:%s\" is neither an instant in UTC, such as 2026-01-01T00:00:00Z or 2026-01-01T00:00:00.500Z, nor one in Unix milliseconds, such as 1767225600000.",
					   value);
	return false;
}

static const char *
layout_find_preset(const char *name)
{
	for (int i = 0; i < lengthof(presets); i++)
	{
		if (pg_strcasecmp(name, presets[i].name) == 0)
			return presets[i].text;
	}
	return NULL;
}

static char *
layout_list_presets(void)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < lengthof(presets); i++)
		appendStringInfo(&list, "%s%s", i > 0 ? ", " : "", presets[i].name);
	return list.data;
}

/* Read one word of a layout that is not a preset: key, colon, value. */
static bool
layout_read_word(char *word, Layout *layout, uint32 *seen, char **reason)
{
	char	   *value = strchr(word, ':');
	int			key = value == NULL ? NUM_KEYS : 0;

	if (value != NULL)
		*value++ = '\0';
	while (key < NUM_KEYS && pg_strcasecmp(word, layout_field_names[key]) != 0)
		key++;
	if (key == NUM_KEYS)
	{
		*reason = psprintf("\"%s\" is neither a field (time, datacenter, worker, timeline, lane, sequence, tag) with its bits, nor \"tick:\", nor \"epoch:\", nor a preset that comes first (%s).",
						   word, layout_list_presets());
		return false;
	}
	if (*seen & (1 << key))
	{
		*reason = psprintf("\"%s\" is given twice.", word);
		return false;
	}
	*seen |= 1 << key;

	if (key == KEY_TICK)
		return layout_read_tick(value, layout, reason);
	if (key == KEY_EPOCH)
		return layout_read_epoch(value, layout, reason);
	return layout_read_bits((LayoutField) key, value, layout, reason);
}

/* Compute order, shifts and last tick from the bits, tick and epoch. */
static bool
layout_finish(Layout *layout, char **reason)
{
	int			num_fields = layout->num_fields;
	int			shift = 0;
	uint64		largest;
	uint64		span_ticks;

	/* leave out fields without bits */
	layout->num_fields = 0;
	for (int i = 0; i < num_fields; i++)
	{
		LayoutField field = layout->order[i];

		layout->order[i] = 0;
		if (layout->bits[field] > 0)
			layout->order[layout->num_fields++] = field;
	}
	memset(layout->shift, 0, sizeof(layout->shift));
	for (int i = layout->num_fields - 1; i >= 0; i--)
	{
		layout->shift[layout->order[i]] = shift;
		shift += layout->bits[layout->order[i]];
	}

	if (shift > LAYOUT_MAX_BITS)
	{
		*reason = psprintf("The fields have %d bits, and an id has %d. For scale, %d bits of time at this tick last %.1f years.",
						   shift, LAYOUT_MAX_BITS,
						   layout->bits[FIELD_TIME],
						   (double) (LayoutLargest(layout, FIELD_TIME) + 1) *
						   layout->tick / USECS_PER_SEC / SECS_PER_YEAR);
		return false;
	}

	if (layout->order[0] != FIELD_TIME)
	{
		*reason = psprintf("\"%s\" comes before \"time\", which must be the first field, so that ids sort by time.",
						   layout_field_names[layout->order[0]]);
		return false;
	}

	largest = LayoutLargest(layout, FIELD_TIME);
	span_ticks = LayoutSpan(layout->epoch, END_TIMESTAMP - 1) / layout->tick;
	layout->last_tick = Min(largest, span_ticks);
	return true;
}

/*
 * Read the text of a layout.  If the text is invalid, return false and a
 * reason, a sentence that can serve as an error's detail.
 */
bool
LayoutParse(const char *text, Layout *layout, char **reason)
{
	char	   *words;
	char	   *rest;
	char	   *word;
	uint32		seen = 0;
	bool		first = true;

	if (strlen(text) > MAX_TEXT_LENGTH)
	{
		*reason = psprintf("The text is longer than %d bytes.",
						   MAX_TEXT_LENGTH);
		return false;
	}

	memset(layout, 0, sizeof(*layout));
	layout->tick = DEFAULT_TICK;
	layout->epoch = DEFAULT_EPOCH_UNIX_MS * 1000 - UNIX_EPOCH_TO_POSTGRES;

	words = pstrdup(text);
	for (word = strtok_r(words, " \t\r\n", &rest); word != NULL;
		 word = strtok_r(NULL, " \t\r\n", &rest))
	{
		const char *preset = first ? layout_find_preset(word) : NULL;

		if (preset != NULL ? !LayoutParse(preset, layout, reason) :
			!layout_read_word(word, layout, &seen, reason))
			return false;
		first = false;
	}
	pfree(words);

	if (layout->bits[FIELD_TIME] == 0)
	{
		*reason = pstrdup("A layout needs the field \"time\", such as \"time:41 worker:10 sequence:12\".");
		return false;
	}
	return layout_finish(layout, reason);
}

/*
 * An instant in the form of an epoch: in ISO-8601, or in Unix milliseconds if
 * the year does not have four digits.
 */
char *
LayoutInstantToText(TimestampTz instant)
{
	struct pg_tm tm;
	fsec_t		fsec;
	char		fraction[8] = "";

	/* microseconds since 1970 could overflow */
	if (timestamp2tm(instant, NULL, &tm, &fsec, NULL, NULL) != 0 ||
		tm.tm_year < 1 || tm.tm_year > 9999)
		return psprintf(INT64_FORMAT, instant / 1000 - (instant % 1000 < 0) +
						UNIX_EPOCH_TO_POSTGRES / 1000);

	if (fsec % 1000 != 0)
		snprintf(fraction, sizeof(fraction), ".%06d", (int) fsec);
	else if (fsec != 0)
		snprintf(fraction, sizeof(fraction), ".%03d", (int) fsec / 1000);
	return psprintf("%04d-%02d-%02dT%02d:%02d:%02d%sZ",
					tm.tm_year, tm.tm_mon, tm.tm_mday,
					tm.tm_hour, tm.tm_min, tm.tm_sec, fraction);
}

/* The layout in full, as a text that LayoutParse() reads back. */
char *
LayoutToText(const Layout *layout)
{
	StringInfoData text;
	int			unit = 0;

	initStringInfo(&text);
	for (int i = 0; i < layout->num_fields; i++)
		appendStringInfo(&text, "%s:%d ",
						 layout_field_names[layout->order[i]],
						 layout->bits[layout->order[i]]);

	while (layout->tick % tick_units[unit].length != 0)
		unit++;
	appendStringInfo(&text, "tick:%d%s epoch:%s",
					 (int) (layout->tick / tick_units[unit].length),
					 tick_units[unit].name,
					 LayoutInstantToText(layout->epoch));
	return text.data;
}

/*
 * The tick of an instant.  It is below 0 before the epoch, and after the last
 * tick it is the next one.
 */
int64
LayoutTick(const Layout *layout, TimestampTz instant)
{
	bool		is_before = instant < layout->epoch;
	uint64		span = is_before ? LayoutSpan(instant, layout->epoch) - 1 :
	LayoutSpan(layout->epoch, instant);

	/* more than any layout has, and small enough to be added */
	int64		ticks = Min(span / layout->tick, PG_INT64_MAX / 2 + 1);

	return is_before ? -1 - ticks : Min(ticks, layout->last_tick + 1);
}

/* Throw an error unless the value fits its field. */
void
LayoutCheckValue(const Layout *layout, LayoutField field, int64 value)
{
	if (value >= 0 && value <= LayoutLargest(layout, field))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("value " INT64_FORMAT " is out of range for snowflake field \"%s\"",
					value, layout_field_names[field]),
			 layout->bits[field] == 0 ?
			 errdetail("The layout \"%s\" has no field \"%s\", so only 0 is possible.",
					   LayoutToText(layout), layout_field_names[field]) :
			 errdetail("The field has %d bits in the layout \"%s\" and takes values from 0 to " INT64_FORMAT ".",
					   layout->bits[field], LayoutToText(layout),
					   LayoutLargest(layout, field))));
}

/* Throw an error unless this can be an id of the layout. */
void
LayoutCheckId(const Layout *layout, int64 id)
{
	if (id >= 0 && id <= LayoutLargestId(layout))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
			 errmsg("bigint " INT64_FORMAT " is not a snowflake id", id),
			 errdetail("Ids of the layout \"%s\" range from 0 to " INT64_FORMAT ".",
					   LayoutToText(layout), LayoutLargestId(layout))));
}
