/*-------------------------------------------------------------------------
 *
 * json_depth.c
 *		How deep JSON nests.
 *
 * PostgreSQL's parser recurses, so what came from a model is measured before it
 * is parsed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "json_depth.h"

#define MAX_DEPTH	32

/*
 * Whether a text nests deeper than MAX_DEPTH.  Strings are skipped; the parser
 * checks that they end.
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
