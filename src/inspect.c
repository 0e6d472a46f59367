/*-------------------------------------------------------------------------
 *
 * inspect.c
 *	  A picture of an id, for a terminal of 80 columns.
 *
 * The first line shows the bits, grouped by field.  Below it, each field has a
 * line with its name and value.  The least significant field comes first, so
 * that bars can connect the others to their bits:
 *
 *		00000110100001001101011101011110111110110 00000 01 110 011101110101
 *		|                                         |     |  |   |
 *		|                                         |     |  |   sequence 1909
 *		|                                         |     |  lane 6
 *		|                                         |     timeline 1
 *		|                                         worker 0
 *		time 27995257782, which is 2026-11-21T00:47:37.782Z
 *
 * snowflake/src/inspect.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"

#include "inspect.h"

/* The bits of all fields, separated by blanks. */
static void
append_bits(StringInfo text, const Layout *layout, int64 id)
{
	for (int i = 0; i < layout->num_fields; i++)
	{
		LayoutField field = layout->order[i];
		int64		value = LayoutGet(layout, field, id);

		if (i > 0)
			appendStringInfoChar(text, ' ');
		for (int bit = layout->bits[field] - 1; bit >= 0; bit--)
			appendStringInfoChar(text, (value >> bit) & 1 ? '1' : '0');
	}
}

static void
append_field(StringInfo text, const Layout *layout, LayoutField field, int64 id)
{
	int64		value = LayoutGet(layout, field, id);

	appendStringInfo(text, "%s " INT64_FORMAT, layout_field_names[field], value);
	if (field == FIELD_TIME)
		appendStringInfo(text, ", which is %s",
						 LayoutInstantToText(LayoutTickToTime(layout, value)));
}

/*
 * One of num_fields + 2 lines: the bits, a bar below the first bit of each
 * field, and the fields from the last to the first, each in the place of its
 * bar.
 */
char *
InspectLine(const Layout *layout, int64 id, int line)
{
	int			num_marks = layout->num_fields + 1 - line;
	StringInfoData text;

	initStringInfo(&text);
	if (line == 0)
	{
		append_bits(&text, layout, id);
		return text.data;
	}
	for (int i = 0; i < num_marks; i++)
	{
		appendStringInfoChar(&text, '|');
		if (i < layout->num_fields - 1)
			appendStringInfoSpaces(&text, layout->bits[layout->order[i]]);
	}
	if (line > 1)
		append_field(&text, layout, layout->order[num_marks], id);
	return text.data;
}
