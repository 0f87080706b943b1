/*-------------------------------------------------------------------------
 *
 * control.c
 *		Characters that a terminal obeys and a reader does not see.
 *
 * These are the control characters of ASCII and Unicode (among them the escape
 * that begins a terminal's commands, and its one-character form U+009B), the
 * line and paragraph separators, the marks that change the direction of a
 * text, and the spaces and joiners without width, which make two different
 * names look the same.  The joiners and non-joiners within words (U+200C,
 * U+200D) change how their neighbours look, so they are allowed.
 *
 * An encoding of ISO 8859 has the control characters of ASCII and those from
 * U+0080 to U+009F.  In other encodings only those of ASCII are searched for:
 * no server encoding uses their bytes within other characters.
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
 * Whether each byte of the encoding is one character, and those below 0xA0
 * have the same meaning as in Unicode.
 */
static bool
is_iso_8859(int encoding)
{
	return (encoding >= PG_LATIN1 && encoding <= PG_LATIN10) ||
		(encoding >= PG_ISO_8859_5 && encoding <= PG_ISO_8859_8);
}

/*
 * Returns the first such character of a text in the database's encoding, and
 * stores its size in bytes and its code point.  Returns NULL if the text has
 * none.
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
			/*
			 * A truncated character counts as a space, which is no control
			 * character.
			 */
			*size = utf8 ? pg_utf_mblen(at) : 1;
			*code = utf8 && *size <= end - at ? utf8_to_unicode(at) : ' ';
		}
		if (is_control(*code))
			return (const char *) at;
		at += *size;
	}
	return NULL;
}
