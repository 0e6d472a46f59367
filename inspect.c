/*-------------------------------------------------------------------------
 *
 * inspect.c
 *	  A picture of an id, for a terminal of 80 columns.
 *
 * The bits stand in the first line, in groups of a field each.  Below that,
 * each field has a line with its name and value, beginning with the least
 * significant one, so that the others can be joined to their bits:
 *
 *		00000110100001001101011101011110111110110 00000 01 110 011101110101
 *		|                                         |     |  |   |
 *		|                                         |     |  |   sequence 1909
 *		|                                         |     |  lane 6
 *		|                                         |     timeline 1
 *		|                                         worker 0
 *		time 27995257782, which is 2026-11-21T00:47:37.782Z
 *
 * snowflake/inspect.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "lib/stringinfo.h"

#include "inspect.h"

/* One of the lines, of which there are num_fields + 2; 0 is the first. */
char *
InspectLine(const Layout *layout, int64 id, int line)
{
	/* how many fields have something in this line */
	int			last = Min(layout->num_fields, layout->num_fields + 2 - line);
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 0; i < last; i++)
	{
		LayoutField field = layout->order[i];
		int64		value = LayoutGet(layout, field, id);
		int			bits = layout->bits[field];

		if (line == 0)
		{
			for (int bit = bits - 1; bit >= 0; bit--)
				appendStringInfoChar(&text, (value >> bit) & 1 ? '1' : '0');
		}
		else if (line == 1 || i < last - 1)
			appendStringInfoChar(&text, '|');
		else
			appendStringInfo(&text, "%s " INT64_FORMAT,
							 layout_field_names[field], value);

		if (line > 1 && i == last - 1)
		{
			if (field == FIELD_TIME)
				appendStringInfo(&text, ", which is %s",
								 LayoutInstantToText(LayoutTickToTime(layout, value)));
		}
		else if (i < last - 1)
			appendStringInfoSpaces(&text, line == 0 ? 1 : bits);
	}
	return text.data;
}
