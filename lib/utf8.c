/*-------------------------------------------------------------------------
 *
 * utf8.c
 *		Makes text valid UTF-8, which the database requires.
 *-------------------------------------------------------------------------
 */
#include <stdbool.h>

#include "utf8.h"

/*
 * Replaces each byte that is not part of a valid UTF-8 character. The database
 * would refuse such text, and the programs whose output is stored may write
 * any bytes.
 */
void
Utf8Mend(char *text)
{
	unsigned char *at = (unsigned char *) text;

	while (*at != '\0')
	{
		int			len = *at < 0x80 ? 1 : *at >= 0xc2 && *at < 0xe0 ? 2 :
			*at >= 0xe0 && *at < 0xf0 ? 3 : *at >= 0xf0 && *at < 0xf5 ? 4 : 0;
		bool		good = len > 0;

		for (int i = 1; i < len && good; i++)
			good = (at[i] & 0xc0) == 0x80;

		/*
		 * Overlong forms, surrogates and code points past U+10FFFF are
		 * invalid.
		 */
		if (good && len == 3)
			good = !(at[0] == 0xe0 && at[1] < 0xa0) &&
				!(at[0] == 0xed && at[1] >= 0xa0);
		if (good && len == 4)
			good = !(at[0] == 0xf0 && at[1] < 0x90) &&
				!(at[0] == 0xf4 && at[1] >= 0x90);
		if (good)
			at += len;
		else
			*at++ = '?';
	}
}
