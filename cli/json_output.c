/*-------------------------------------------------------------------------
 *
 * json_output.c
 *		Prints results of calls as JSON.
 *
 * Whole numbers and booleans become JSON numbers and booleans, and documents
 * are embedded. All other values become strings, including amounts, so that no
 * digit is lost.
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* OIDs of types in PostgreSQL's catalog */
enum
{
	BOOL_TYPE = 16, INT8_TYPE = 20, INT2_TYPE = 21, INT4_TYPE = 23,
	JSON_TYPE = 114, JSONB_TYPE = 3802
};

static json_t * json_value(const PGresult * result, int row, int column);

/*
 * Returns one row as an object.
 */
json_t *
CliJsonRow(const PGresult * result, int row)
{
	json_t	   *object = json_object();

	for (int c = 0; c < PQnfields(result); c++)
		json_object_set_new(object, PQfname(result, c),
							json_value(result, row, c));
	return object;
}

/*
 * Returns all rows as an array of objects.
 */
json_t *
CliJsonRows(const PGresult * result)
{
	json_t	   *rows = json_array();

	for (int r = 0; r < PQntuples(result); r++)
		json_array_append_new(rows, CliJsonRow(result, r));
	return rows;
}

/* Returns one value as a new reference to the JSON of its type. */
static json_t *
json_value(const PGresult * result, int row, int column)
{
	const char *text = PQgetvalue(result, row, column);

	if (PQgetisnull(result, row, column))
		return json_null();
	switch (PQftype(result, column))
	{
		case BOOL_TYPE:
			return json_boolean(*text == 't');
		case INT2_TYPE:
		case INT4_TYPE:
		case INT8_TYPE:
			return json_integer(strtoll(text, NULL, 10));
		case JSON_TYPE:
		case JSONB_TYPE:
			return json_loads(text, JSON_DECODE_ANY, NULL);
		default:
			return json_string(text);
	}
}

/*
 * Prints a document and frees it.
 */
void
CliPrintJson(json_t * document)
{
	if (json_dumpf(document, stdout, JSON_INDENT(2)) != 0)
		Fail(CLI_REFUSED, "could not write the output");
	putchar('\n');
	json_decref(document);
}

/*
 * Prints a result as a table, or as JSON.
 */
void
CliShow(const PGresult * result, bool json)
{
	if (json)
		CliPrintJson(CliJsonRows(result));
	else
		CliTable(result, true);
}

/*
 * Removes a word from the command line. Returns whether it was there.
 */
bool
CliFlag(int *argc, char **argv, const char *word)
{
	bool		found = false;
	int			n = 1;

	for (int i = 1; i < *argc; i++)
	{
		if (strcmp(argv[i], word) == 0)
			found = true;
		else
			argv[n++] = argv[i];
	}
	argv[n] = NULL;
	*argc = n;
	return found;
}
