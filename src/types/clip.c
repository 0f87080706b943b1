/*-------------------------------------------------------------------------
 *
 * clip.c
 *		A caller's text, made fit for an error message.
 *
 * A message is written to a log and to terminals, so control characters appear
 * in it as escapes such as \x1b or \u009b.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "types/entry.h"
#include "lib/stringinfo.h"
#include "mb/pg_wchar.h"
#include "types/clip.h"
#include "types/control.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(gpucredit_clip_for_message);

/*
 * Returns the text itself if it is short and has no control characters.
 * Otherwise returns its first CLIP_BYTES bytes, without a character that would
 * be cut in two, and an ellipsis; control characters are escaped.
 */
const char *
ClipForMessage(const char *text)
{
	int			len = (int) strnlen(text, CLIP_BYTES + MAX_MULTIBYTE_CHAR_LEN);
	bool		whole = len <= CLIP_BYTES;
	StringInfoData message;
	const char *control;
	const char *end;
	pg_wchar	code;
	int			size;

	if (!whole)
		len = pg_mbcliplen(text, len, CLIP_BYTES);
	end = text + len;
	control = ControlCharIn(text, len, &size, &code);
	if (whole && control == NULL)
		return text;
	initStringInfo(&message);
	while (control != NULL)
	{
		appendBinaryStringInfo(&message, text, control - text);
		appendStringInfo(&message, code < 0x80 ? "\\x%02x" : "\\u%04x", code);
		text = control + size;
		control = ControlCharIn(text, end - text, &size, &code);
	}
	appendBinaryStringInfo(&message, text, end - text);
	if (!whole)
		appendStringInfoString(&message, "...");
	return message.data;
}

/*
 * ClipForMessage() for functions written in SQL.
 */
Datum
gpucredit_clip_for_message(PG_FUNCTION_ARGS)
{
	char	   *value = text_to_cstring(PG_GETARG_TEXT_PP(0));

	PG_RETURN_TEXT_P(cstring_to_text(ClipForMessage(value)));
}
