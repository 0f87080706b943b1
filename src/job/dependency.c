/*-------------------------------------------------------------------------
 *
 * dependency.c
 *		Converts a dependency to text in memory of the server.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "job/dependency.h"
#include "lib/stringinfo.h"

/* Writes one term of a dependency as a text that DependencyParse() reads. */
char *
DependencyTermText(const DependencyTerm *term)
{
	char	   *text = palloc(DEPENDENCY_TERM_SIZE);

	(void) DependencyTermPrint(term, text);
	return text;
}

char *
DependencyToCString(const Dependency *dependency)
{
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 0; i < dependency->n; i++)
		appendStringInfo(&text, "%s%s", i == 0 ? "" :
						 dependency->any ? "?" : ",",
						 DependencyTermText(&dependency->terms[i]));
	return text.data;
}
