/*-------------------------------------------------------------------------
 *
 * text.c
 *	  Ids as text: shorter than in decimal digits, and of a fixed width.
 *
 * An id is written as a number in some base, padded with the digit for zero to
 * the width that the largest bigint needs.  The digits of all encodings but
 * two are in ASCII order, so under the collation "C" the texts sort as the ids
 * do.
 *
 * Input may be shorter, because other programs leave out leading zeros.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/int.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "layout.h"

PG_FUNCTION_INFO_V1(snowflake_to_text);
PG_FUNCTION_INFO_V1(snowflake_from_text);

/* Enough for any text that can be an id; longer ones are cut in messages. */
#define SHOWN_LENGTH	40

typedef struct Encoding
{
	const char *name;
	const char *digits;
	int			width;			/* digits that the largest bigint takes */
	bool		one_case;		/* upper and lower case are the same digit */
	/* pairs: a character, and the digit that it is read as */
	const char *aliases;
	const char *ignored;		/* characters that are skipped */
} Encoding;

static const Encoding encodings[] =
{
	/* Crockford's, https://www.crockford.com/base32.html */
	{"base32", "0123456789ABCDEFGHJKMNPQRSTVWXYZ", 13, true, "O0I1L1", "-"},
	/* of bwmarrin/snowflake: the digits of z-base-32, which are in no order */
	{"base32-bwmarrin", "ybndrfg8ejkmcpqxot1uwisza345h769", 13, false, "", ""},
	{"base36", "0123456789abcdefghijklmnopqrstuvwxyz", 13, true, "", ""},
	/* Bitcoin's: without 0, O, I and l */
	{"base58", "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz", 11, false, "", ""},
	/* of bwmarrin/snowflake and Flickr: lower case comes first */
	{"base58-bwmarrin", "123456789abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ", 11, false, "", ""},
	{"base62", "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 11, false, "", ""},
	{"hex", "0123456789abcdef", 16, true, "", ""},
};

static const Encoding *
text_find_encoding(text *encoding)
{
	char	   *name = text_to_cstring(encoding);
	StringInfoData names;

	for (int i = 0; i < lengthof(encodings); i++)
	{
		if (pg_strcasecmp(encodings[i].name, name) == 0)
			return &encodings[i];
	}

	initStringInfo(&names);
	for (int i = 0; i < lengthof(encodings); i++)
		appendStringInfo(&names, "%s%s", i == 0 ? "" : ", ", encodings[i].name);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unrecognized encoding of snowflake ids: \"%s\"", name),
			 errhint("Available encodings: %s.", names.data)));
	return NULL;				/* keep compiler quiet */
}

/* to_text(id bigint, encoding text) */
Datum
snowflake_to_text(PG_FUNCTION_ARGS)
{
	int64		id = PG_GETARG_INT64(0);
	const Encoding *encoding;
	int			base;
	char	   *string;

	LayoutCheckId(NULL, id);
	encoding = text_find_encoding(PG_GETARG_TEXT_PP(1));
	base = strlen(encoding->digits);
	string = palloc(encoding->width + 1);
	string[encoding->width] = '\0';
	for (int i = encoding->width - 1; i >= 0; i--)
	{
		string[i] = encoding->digits[id % base];
		id /= base;
	}
	PG_RETURN_TEXT_P(cstring_to_text(string));
}

/* The value of a digit, or -1. */
static int
text_digit_value(const Encoding *encoding, char c)
{
	const char *digit;

	if (c == '\0')
		return -1;
	for (const char *alias = encoding->aliases; *alias != '\0'; alias += 2)
	{
		if (pg_ascii_toupper((unsigned char) c) == alias[0])
			c = alias[1];
	}
	digit = strchr(encoding->digits, c);
	if (digit == NULL && encoding->one_case)
		digit = strchr(encoding->digits, pg_ascii_toupper((unsigned char) c));
	if (digit == NULL && encoding->one_case)
		digit = strchr(encoding->digits, pg_ascii_tolower((unsigned char) c));
	return digit == NULL ? -1 : digit - encoding->digits;
}

/* Report that a text is not an id in the encoding. */
static void
text_invalid_text(const char *text, const Encoding *encoding, int code,
				  char *detail)
{
	int			length = strlen(text);
	int			shown = pg_mbcliplen(text, length, SHOWN_LENGTH);

	ereport(ERROR,
			(errcode(code),
			 errmsg("invalid snowflake id in %s: \"%.*s%s\"",
					encoding->name, shown, text, shown < length ? "..." : ""),
			 errdetail_internal("%s", detail)));
}

/* from_text(id text, encoding text) */
Datum
snowflake_from_text(PG_FUNCTION_ARGS)
{
	char	   *string = text_to_cstring(PG_GETARG_TEXT_PP(0));
	const Encoding *encoding = text_find_encoding(PG_GETARG_TEXT_PP(1));
	int			base = strlen(encoding->digits);
	int			num_digits = 0;
	int			position = 0;
	int64		id = 0;

	for (const char *c = string; *c != '\0'; c += pg_mblen(c))
	{
		int			value = text_digit_value(encoding, *c);

		/* a text can have any number of ignored characters */
		CHECK_FOR_INTERRUPTS();
		position++;
		if (strchr(encoding->ignored, *c) != NULL)
			continue;
		if (value < 0)
			text_invalid_text(string, encoding,
							  ERRCODE_INVALID_TEXT_REPRESENTATION,
							  psprintf(_("The character \"%.*s\" at position %d is none of %s."),
									   pg_mblen(c), c, position,
									   encoding->digits));
		if (++num_digits > encoding->width)
			text_invalid_text(string, encoding,
							  ERRCODE_INVALID_TEXT_REPRESENTATION,
							  psprintf(_("An id has at most %d digits, but the text goes on at position %d."),
									   encoding->width, position));
		if (pg_mul_s64_overflow(id, base, &id) ||
			pg_add_s64_overflow(id, value, &id))
			text_invalid_text(string, encoding,
							  ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE,
							  psprintf(_("The value up to position %d is out of range for type %s."),
									   position, "bigint"));
	}
	if (num_digits == 0)
		text_invalid_text(string, encoding,
						  ERRCODE_INVALID_TEXT_REPRESENTATION,
						  _("The text has no digits."));
	PG_RETURN_INT64(id);
}
