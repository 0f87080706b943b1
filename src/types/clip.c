/*-------------------------------------------------------------------------
 *
 * clip.c
 *		Caller's text, cut short enough to stand in an error message.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "mb/pg_wchar.h"

#include "types/clip.h"

/*
 * ClipForMessage
 *		The text itself if it is short, else its first CLIP_BYTES bytes, less
 *		a character cut in two, and an ellipsis.
 */
const char *
ClipForMessage(const char *text)
{
	int			len = (int) strnlen(text, CLIP_BYTES + MAX_MULTIBYTE_CHAR_LEN);

	if (len <= CLIP_BYTES)
		return text;
	return psprintf("%.*s...", pg_mbcliplen(text, len, CLIP_BYTES), text);
}
