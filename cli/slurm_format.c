/*-------------------------------------------------------------------------
 *
 * slurm_format.c
 *		Formats of Slurm's lists: text with %[.][WIDTH]LETTER, and lists of
 *		NAME[:[.][WIDTH][TEXT]].
 *
 * An unknown letter or name ends the command: a tool that got something else than it
 * asked for would draw wrong conclusions.
 *
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
		.before = CliFormat("%s", text)
	};
}

/*
 * Parse a list of names.  Without a width a field has 20 characters, and the text
 * after the width comes after the field.
 */
void
SlurmFormatParseNames(const SlurmField *fields, const SlurmFieldName *names,
					  const char *text, SlurmFormat *format)
{
	char	   *copy = CliFormat("%s", text);
	char	   *after = CliFormat("%s", "");
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
		after = CliFormat("%s", at);
	}
	free(copy);
	format->columns[format->n] = (SlurmColumn)
	{
		.before = after
	};
}

/*
 * A width, and go past it; 0: there is none.
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
