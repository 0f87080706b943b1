/*-------------------------------------------------------------------------
 *
 * slurm_format.c
 *		Formats of Slurm's lists: text with %[.][WIDTH]LETTER.
 *
 * An unknown letter ends the command: a tool that got something else than it
 * asked for would draw wrong conclusions.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "slurm_format.h"

static void print_line(const SlurmFormat *format, const PGresult * result,
					   int row, int first);
static void print_text(const SlurmColumn *column, const char *text);

/*
 * The field of a letter; NULL: there is none.
 */
const SlurmField *
SlurmFieldFind(const SlurmField *fields, char letter)
{
	for (const SlurmField *field = fields; field->letter != '\0'; field++)
	{
		if (field->letter == letter)
			return field;
	}
	return NULL;
}

/*
 * Parse a format: "%", maybe "." for right-aligned, maybe a width, a letter.
 * The text after the last field makes one more.
 */
void
SlurmFormatParse(const SlurmField *fields, const char *text,
				 SlurmFormat *format)
{
	const char *at = text;

	format->n = 0;
	while (*at != '\0')
	{
		SlurmColumn *column = &format->columns[format->n];

		if (*at != '%')
		{
			at++;
			continue;
		}
		if (format->n == SLURM_FORMAT_MOST)
			Fail(CLI_USAGE, "the format is too long");
		column->before = CliFormat("%.*s", (int) (at - text), text);
		at++;
		column->right = *at == '.';
		at += column->right;
		column->width = (int) strtol(at, (char **) &at, 10);
		if (column->width < 0 || column->width > 1000)
			Fail(CLI_USAGE, "a width of the format is not supported");
		column->field = SlurmFieldFind(fields, *at);
		if (column->field == NULL)
			Fail(CLI_USAGE, "\"%%%c\" of the format is not supported",
				 *at == '\0' ? ' ' : *at);
		text = ++at;
		format->n++;
	}
	format->columns[format->n] = (SlurmColumn)
	{
		.before = CliFormat("%s", text)
	};
}

/*
 * The columns of a SELECT, each under its heading.
 */
char *
SlurmFormatSelect(const SlurmFormat *format)
{
	char	   *sql = CliFormat("%s", "");

	for (int i = 0; i < format->n; i++)
	{
		const SlurmField *field = format->columns[i].field;
		char	   *more = CliFormat("%s%s%s AS \"%s\"", sql,
									 i == 0 ? "" : ", ", field->sql,
									 field->heading);

		free(sql);
		sql = more;
	}
	return sql;
}

/*
 * Print a result, whose columns are the format's from "first" on.
 */
void
SlurmFormatPrint(const SlurmFormat *format, const PGresult * result,
				 int first, bool heading)
{
	for (int row = heading ? -1 : 0; row < PQntuples(result); row++)
		print_line(format, result, row, first);
}

/* one line; row -1: the headings */
static void
print_line(const SlurmFormat *format, const PGresult * result, int row,
		   int first)
{
	for (int i = 0; i < format->n; i++)
	{
		const SlurmColumn *column = &format->columns[i];

		fputs(column->before, stdout);
		print_text(column, row < 0 ? column->field->heading :
				   PQgetvalue(result, row, first + i));
	}
	puts(format->columns[format->n].before);
}

/* cut longer values, as Slurm does */
static void
print_text(const SlurmColumn *column, const char *text)
{
	if (column->width == 0)
		fputs(text, stdout);
	else if (column->right)
		printf("%*.*s", column->width, column->width, text);
	else
		printf("%-*.*s", column->width, column->width, text);
}
