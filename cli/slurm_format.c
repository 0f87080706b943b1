/*-------------------------------------------------------------------------
 *
 * slurm_format.c
 *		Parses the formats of Slurm's lists: text with %[.][WIDTH]LETTER, and
 *		lists of NAME[:[.][WIDTH][TEXT]].
 *
 * An unknown letter or name ends the command, because a tool that got another
 * field than it requested would draw wrong conclusions.
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"
#include "slurm_format.h"

#define NAMED_WIDTH	20

static int	parse_width(const char **at);
static void print_line(const SlurmFormat *format, const PGresult * result,
					   int row, int first);
static void print_text(const SlurmColumn *column, const char *text);

/*
 * Returns the field of a letter, or NULL if there is none.
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
 * Parses a format: "%", optionally "." for right alignment, optionally a
 * width, and a letter. Text after the last field is stored as one more column.
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
		column->before = Format("%.*s", (int) (at - text), text);
		at++;
		column->right = *at == '.';
		at += column->right;
		column->width = parse_width(&at);
		column->field = SlurmFieldFind(fields, *at);
		if (column->field == NULL)
			Fail(CLI_USAGE, "\"%%%c\" of the format is not supported",
				 *at == '\0' ? ' ' : *at);
		text = ++at;
		format->n++;
	}
	format->columns[format->n] = (SlurmColumn)
	{
		.before = Format("%s", text)
	};
}

/*
 * Parses a list of names. The default width is 20 characters. Text that
 * follows the width is printed after the field.
 */
void
SlurmFormatParseNames(const SlurmField *fields, const SlurmFieldName *names,
					  const char *text, SlurmFormat *format)
{
	char	   *copy = Format("%s", text);
	char	   *after = Format("%s", "");
	char	   *save = NULL;

	format->n = 0;
	for (char *word = strtok_r(copy, ",", &save); word != NULL;
		 word = strtok_r(NULL, ",", &save))
	{
		SlurmColumn *column = &format->columns[format->n];
		const SlurmFieldName *name = names;
		char	   *colon = strchr(word, ':');
		const char *at = "";

		if (format->n++ == SLURM_FORMAT_MOST)
			Fail(CLI_USAGE, "the format is too long");
		if (colon != NULL)
		{
			*colon = '\0';
			at = colon + 1;
		}
		while (name->name != NULL && strcasecmp(name->name, word) != 0)
			name++;
		if (name->name == NULL)
			Fail(CLI_USAGE, "\"%s\" of the format is not supported", word);
		column->before = after;
		column->field = SlurmFieldFind(fields, name->letter);
		column->right = *at == '.';
		at += column->right;
		column->width = parse_width(&at);
		if (column->width == 0)
			column->width = NAMED_WIDTH;
		after = Format("%s", at);
	}
	free(copy);
	format->columns[format->n] = (SlurmColumn)
	{
		.before = after
	};
}

/*
 * Parses a width and advances past it. Returns 0 if there is none.
 */
static int
parse_width(const char **at)
{
	long		width = strtol(*at, (char **) at, 10);

	if (width < 0 || width > 1000)
		Fail(CLI_USAGE, "a width of the format is not supported");
	return (int) width;
}

/*
 * Returns the columns of a SELECT, each named by its heading.
 */
char *
SlurmFormatSelect(const SlurmFormat *format)
{
	char	   *sql = Format("%s", "");

	for (int i = 0; i < format->n; i++)
	{
		const SlurmField *field = format->columns[i].field;
		char	   *more = Format("%s%s%s AS \"%s\"", sql,
								  i == 0 ? "" : ", ", field->sql,
								  field->heading);

		free(sql);
		sql = more;
	}
	return sql;
}

/*
 * Prints a result. Column "first" of the result is the first column of the
 * format.
 */
void
SlurmFormatPrint(const SlurmFormat *format, const PGresult * result,
				 int first, bool heading)
{
	for (int row = heading ? -1 : 0; row < PQntuples(result); row++)
		print_line(format, result, row, first);
}

/* Prints one line. Row -1 is the headings. */
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

/* Prints a value. A value longer than the width is truncated, as in Slurm. */
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
