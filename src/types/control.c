/*-------------------------------------------------------------------------
 *
 * control.c
 *		Characters that a terminal obeys and a reader does not see.
 *
 * These are: the control characters of ASCII and Unicode (with the escape that
 * begins a terminal's commands, and its one-character form U+009B); the line
 * and paragraph separators; the marks that turn the direction of a text;
 * spaces and joiners without width, which make two names look the same. The
 * joiners and non-joiners within words (U+200C, U+200D) change how neighbours
 * look, so they are allowed.
 *
 * An encoding of ISO 8859 has both sets of control characters.  In other
 * encodings only ASCII's count: no server encoding uses their bytes within
 * other characters.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "types/control.h"

static bool is_control(pg_wchar code);
static bool is_iso_8859(int encoding);

static bool
is_control(pg_wchar code)
{
	return code < 0x20 || (code >= 0x7F && code <= 0x9F) ||
		code == 0x061C || code == 0x200B || code == 0x200E || code == 0x200F ||
		(code >= 0x2028 && code <= 0x202E) || code == 0x2060 ||
		(code >= 0x2066 && code <= 0x2069) || code == 0xFEFF;
}

/*
 * In this encoding, is each byte a character, and each below 0xA0 the same as
 * in Unicode?
 */
static bool
is_iso_8859(int encoding)
{
	return (encoding >= PG_LATIN1 && encoding <= PG_LATIN10) ||
		(encoding >= PG_ISO_8859_5 && encoding <= PG_ISO_8859_8);
}

/*
 * The first such character of a text in the database's encoding, with its size
 * in bytes and its number; NULL: there is none.
 */
const char *
ControlCharIn(const char *text, int len, int *size, pg_wchar *code)
{
	const unsigned char *at = (const unsigned char *) text;
	const unsigned char *end = at + len;
	bool		utf8 = GetDatabaseEncoding() == PG_UTF8;
	bool		iso_8859 = is_iso_8859(GetDatabaseEncoding());

	while (at < end)
	{
		*size = 1;
		*code = *at;
		if (*at >= 0x80 && !iso_8859)
		{
			/* a truncated character is not in the list */
			*size = utf8 ? pg_utf_mblen(at) : 1;
			*code = utf8 && *size <= end - at ? utf8_to_unicode(at) : ' ';
		}
		if (is_control(*code))
			return (const char *) at;
		at += *size;
	}
	return NULL;
}
