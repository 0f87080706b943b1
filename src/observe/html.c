/*-------------------------------------------------------------------------
 *
 * html.c
 *		html(): escapes a text for use in a page, between tags and in
 *		quoted attributes.
 *
 * The result is ASCII in any database encoding, so a page is correct with
 * every client_encoding: other characters become numeric references.
 *
 * Tenants choose names, so characters are made visible that are invisible or
 * would change the order of their neighbours.  A control character is replaced
 * by the picture of it, a direction mark by the replacement character.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/compat.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(gpucredit_html);

#define REPLACEMENT		0xfffd
#define PICTURE_OF(c)	(0x2400 + (c))
#define PICTURE_OF_DEL	0x2421

static void put_reference(StringInfo page, pg_wchar c);
static bool directs_writing(pg_wchar c);
static bool is_no_character(pg_wchar c);

Datum
gpucredit_html(PG_FUNCTION_ARGS)
{
	text	   *given = PG_GETARG_TEXT_PP(0);
	int			size = VARSIZE_ANY_EXHDR(given);
	char	   *utf8 = VARDATA_ANY(given);
	bool		known = GetDatabaseEncoding() != PG_SQL_ASCII;
	StringInfoData page;

	initStringInfo(&page);
	if (known)
	{
		char	   *converted = pg_server_to_any(utf8, size, PG_UTF8);

		if (converted != utf8)
		{
			utf8 = converted;
			size = strlen(converted);
		}
	}
	for (int i = 0; i < size;)
	{
		unsigned char c = utf8[i];
		int			length = c >= 0x80 && known ?
			pg_utf_mblen((unsigned char *) utf8 + i) : 1;

		if (c == '<')
			appendStringInfoString(&page, "&lt;");
		else if (c == '>')
			appendStringInfoString(&page, "&gt;");
		else if (c == '&')
			appendStringInfoString(&page, "&amp;");
		else if (c == '"')
			appendStringInfoString(&page, "&quot;");
		else if (c == '\'')
			appendStringInfoString(&page, "&#39;");
		else if (c < 0x20)
			put_reference(&page, PICTURE_OF(c));
		else if (c == 0x7f)
			put_reference(&page, PICTURE_OF_DEL);
		else if (c < 0x80)
			appendStringInfoChar(&page, c);
		else if (!known || length > size - i)
			put_reference(&page, REPLACEMENT);
		else
			put_reference(&page,
						  utf8_to_unicode((unsigned char *) utf8 + i));
		i += length;
	}
	PG_RETURN_TEXT_P(cstring_to_text_with_len(page.data, page.len));
}

/*
 * Writes a character that is not ASCII as a numeric reference.  One that could
 * change the direction of the text around it is replaced.
 */
static void
put_reference(StringInfo page, pg_wchar c)
{
	if (directs_writing(c) || is_no_character(c) || (c >= 0x80 && c < 0xa0))
		c = REPLACEMENT;
	appendStringInfo(page, "&#x%X;", c);
}

/*
 * Whether the character is a mark, embedding, override or isolate of
 * bidirectional text, a line or paragraph separator, or a character without
 * width.
 */
static bool
directs_writing(pg_wchar c)
{
	return c == 0x061c || (c >= 0x200b && c <= 0x200f) ||
		(c >= 0x2028 && c <= 0x202e) || c == 0x2060 ||
		(c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

/*
 * Whether the code point is one that is never a character.  A page must not
 * refer to these.
 */
static bool
is_no_character(pg_wchar c)
{
	return (c & 0xfffe) == 0xfffe || (c >= 0xfdd0 && c <= 0xfdef);
}
