/*-------------------------------------------------------------------------
 *
 * field_list.c
 *		Parses and prints lists of fields such as "JobID,State%20", for sacct
 *		and sshare.
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"
#include "field_list.h"

/*
 * Returns the columns of a SELECT for a list of fields. Slurm's widths are
 * accepted but ignored: columns are as wide as their content. An unknown field
 * ends the command.
 */
char *
FieldListSelect(const NamedField *fields, const char *format)
{
	char	   *copy = Format("%s", format);
	char	   *list = Format("%s", "");
	char	   *save = NULL;

	for (char *word = strtok_r(copy, ",", &save); word != NULL;
		 word = strtok_r(NULL, ",", &save))
	{
		const NamedField *field = fields;

		word[strcspn(word, "%")] = '\0';
		while (field->name != NULL && strcasecmp(word, field->name) != 0)
			field++;
		if (field->name == NULL)
			Fail(CLI_USAGE, "field \"%s\" is not supported; %s --helpformat"
				 " lists those that are", word, cli_program);
		list = Format("%s%s%s AS \"%s\"", list, *list == '\0' ? "" : ", ",
					  field->sql, field->name);
	}
	free(copy);
	if (*list == '\0')
		Fail(CLI_USAGE, "the format has no fields");
	return list;
}

void
FieldListNames(const NamedField *fields)
{
	for (const NamedField *field = fields; field->name != NULL; field++)
		puts(field->name);
}

void
FieldListPrint(const PGresult * result, FieldListForm form, bool heading)
{
	if (form == FIELDS_JSON)
		CliPrintJson(CliJsonRows(result));
	else if (form == FIELDS_TABLE)
		CliTable(result, heading);
	else
	{
		for (int row = heading ? -1 : 0; row < PQntuples(result); row++)
		{
			for (int c = 0; c < PQnfields(result); c++)
				printf("%s%s", c == 0 ? "" : "|", row < 0 ?
					   PQfname(result, c) : PQgetvalue(result, row, c));
			puts(form == FIELDS_BARS_END ? "|" : "");
		}
	}
}
