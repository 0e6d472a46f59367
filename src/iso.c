/*-------------------------------------------------------------------------
 *
 * iso.c
 *	  Instants in ISO-8601, the form of a layout's epoch.
 *
 * Their meaning does not depend on the session's DateStyle and TimeZone.
 * Reading one must not throw, see layout.c.
 *
 * snowflake/src/iso.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <ctype.h>

#include "utils/datetime.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "layout.h"

/*
 * Whether the text begins with YYYY-MM-DDThh:mm[:ss[.ffffff]].  Sets *zone to
 * what follows.
 */
static bool
is_instant(const char *text, const char **zone)
{
	const char *shape = "dddd-dd-ddTdd:dd";

	for (; *shape != '\0'; shape++, text++)
	{
		if (*shape == 'd' ? !isdigit((unsigned char) *text) :
			pg_toupper((unsigned char) *text) != *shape)
			return false;
	}
	if (text[0] == ':' && isdigit((unsigned char) text[1]) &&
		isdigit((unsigned char) text[2]))
	{
		text += 3;
		if (*text == '.' && isdigit((unsigned char) text[1]))
			text += 1 + strspn(text + 1, "0123456789");
	}
	*zone = text;
	return true;
}

static bool
is_zone(const char *zone)
{
	size_t		length = strlen(zone);

	if (pg_strcasecmp(zone, "Z") == 0)
		return true;
	/* +hh, +hhmm or +hh:mm */
	return (zone[0] == '+' || zone[0] == '-') &&
		strspn(zone + 1, "0123456789:") == length - 1 &&
		((length == 3 && zone[2] != ':') ||
		 (length == 5 && strchr(zone, ':') == NULL) ||
		 (length == 6 && zone[3] == ':' && strchr(zone + 4, ':') == NULL));
}

/*
 * Read an instant that has the ISO form with PostgreSQL's own parser.  The
 * parser must not see the letters "T" and "Z": it would look them up among the
 * session's zone abbreviations, which a parallel worker may not have yet when
 * it is given the settings.
 */
static bool
read_instant(const char *value, const char *zone_text, TimestampTz *instant)
{
	char	   *text = psprintf("%.*s%s", (int) (zone_text - value), value,
								isalpha((unsigned char) *zone_text) ? "+00" : zone_text);
	char		workbuf[MAXDATELEN + MAXDATEFIELDS];
	char	   *field[MAXDATEFIELDS];
	int			ftype[MAXDATEFIELDS];
	int			nf;
	int			dtype;
	struct pg_tm tm;
	fsec_t		fsec;
	int			zone;

	text[strlen("YYYY-MM-DD")] = ' ';
	return ParseDateTime(text, workbuf, sizeof(workbuf), field, ftype,
						 MAXDATEFIELDS, &nf) == 0 &&
		compat_decode_datetime(field, ftype, nf, &dtype, &tm, &fsec,
							   &zone) == 0 &&
		dtype == DTK_DATE &&
		tm2timestamp(&tm, fsec, &zone, instant) == 0;
}

/* Take an instant apart, in UTC.  False unless its year has four digits. */
static bool
to_fields(TimestampTz instant, struct pg_tm *tm, fsec_t *fsec)
{
	return timestamp2tm(instant, NULL, tm, fsec, NULL, NULL) == 0 &&
		tm->tm_year >= 1 && tm->tm_year <= 9999;
}

/* Read an epoch.  If it is not one, return false and a reason. */
bool
IsoParse(const char *text, TimestampTz *instant, char **reason)
{
	const char *zone;
	struct pg_tm tm;
	fsec_t		fsec;

	if (!is_instant(text, &zone))
		*reason = psprintf("\"epoch:%s\" is neither an ISO-8601 instant with a zone, such as 2026-01-01T00:00:00Z, nor Unix milliseconds, such as 1767225600000.",
						   text);
	else if (*zone == '\0')
		*reason = psprintf("\"epoch:%s\" has no zone; append \"Z\" for UTC, or an offset such as \"+01:00\".",
						   text);
	else if (!is_zone(zone))
		*reason = psprintf("\"epoch:%s\" ends with \"%s\", which is not a zone; use \"Z\" for UTC, or an offset such as \"+01:00\".",
						   text, zone);
	else if (!read_instant(text, zone, instant))
		*reason = psprintf("\"epoch:%s\" is not an instant of the calendar.",
						   text);
	/* its zone may shift it to a year that IsoFromInstant() cannot write */
	else if (!to_fields(*instant, &tm, &fsec))
		*reason = psprintf("\"epoch:%s\" is not in the years 1 to 9999 of UTC; give it in Unix milliseconds.",
						   text);
	else
		return true;
	return false;
}

/* An instant in UTC, or NULL if its year does not have four digits. */
char *
IsoFromInstant(TimestampTz instant)
{
	struct pg_tm tm;
	fsec_t		fsec;
	char		fraction[8] = "";

	if (!to_fields(instant, &tm, &fsec))
		return NULL;

	if (fsec % 1000 != 0)
		snprintf(fraction, sizeof(fraction), ".%06d", (int) fsec);
	else if (fsec != 0)
		snprintf(fraction, sizeof(fraction), ".%03d", (int) fsec / 1000);
	return psprintf("%04d-%02d-%02dT%02d:%02d:%02d%sZ",
					tm.tm_year, tm.tm_mon, tm.tm_mday,
					tm.tm_hour, tm.tm_min, tm.tm_sec, fraction);
}
