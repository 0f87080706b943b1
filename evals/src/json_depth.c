/*-------------------------------------------------------------------------
 *
 * json_depth.c
 *		Measures how deep JSON is nested.
 *
 * PostgreSQL's parser is recursive, so text that a model wrote is measured
 * before it is parsed.
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "json_depth.h"

#define MAX_DEPTH	32

/*
 * Whether a text is nested deeper than MAX_DEPTH. Brackets in strings do not
 * count; the parser later checks that strings are terminated.
 */
bool
JsonIsTooDeep(const char *text, int len)
{
	int			depth = 0;
	bool		in_string = false;

	for (int i = 0; i < len; i++)
	{
		if (in_string && text[i] == '\\')
			i++;
		else if (text[i] == '"')
			in_string = !in_string;
		else if (in_string)
			continue;
		else if (text[i] == '{' || text[i] == '[')
		{
			if (++depth > MAX_DEPTH)
				return true;
		}
		else if (text[i] == '}' || text[i] == ']')
			depth--;
	}
	return false;
}
