/*-------------------------------------------------------------------------
 *
 * hostlist.c
 *		Expands Slurm's lists of nodes, such as "n[1-3,07],login".
 *
 * A name may have several parts in brackets, each a list of numbers and
 * ranges. The digits of a range's first number say how wide its numbers are.
 * Names that occur twice count once.
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "submission.h"

#define FILE_MOST	65536
#define DIGITS_MOST	9

/* An expansion under way. */
typedef struct Expansion
{
	const char *option;
	const char *where;
	const char *text;			/* whole list, for messages */
	json_t	   *names;
} Expansion;

static char *file_list(const char *path, const char *option,
					   const char *where);
static size_t word_length(const Expansion *e, const char *at);
static void expand(const Expansion *e, const char *done, const char *rest);
static void expand_range(const Expansion *e, const char *done,
						 const char *range, const char *rest);
static void add_name(const Expansion *e, const char *name);
static void refuse(const Expansion *e) __attribute__((noreturn));

/*
 * Returns the names of a list. As in Slurm, a text with a slash is the path of
 * a file with such a list, which may have several lines.
 */
json_t *
HostlistExpand(const char *text, bool is_file, const char *option,
			   const char *where)
{
	char	   *list = is_file || strchr(text, '/') != NULL ?
		file_list(text, option, where) : Format("%s", text);
	Expansion	e = {option, where, text, json_array()};
	const char *at = list;

	for (;;)
	{
		size_t		length;
		char	   *word;

		at += strspn(at, ", \t\r\n");
		if (*at == '\0')
			break;
		length = word_length(&e, at);
		word = Format("%.*s", (int) length, at);
		expand(&e, "", word);
		free(word);
		at += length;
	}
	if (json_array_size(e.names) == 0)
		Fail(CLI_USAGE, "%s: %s=%s names no node; remove it", where, option,
			 text);
	free(list);
	return e.names;
}

/*
 * Returns the text of a file with a list.
 */
static char *
file_list(const char *path, const char *option, const char *where)
{
	FILE	   *file = fopen(path, "r");
	char	   *text = Alloc(FILE_MOST + 1);
	size_t		len;

	if (file == NULL)
		Fail(CLI_USAGE, "%s: could not read the file of %s=%s: %s; use"
			 " --nodelist=n1,n2", where, option, path, strerror(errno));
	len = fread(text, 1, FILE_MOST, file);
	fclose(file);
	text[len] = '\0';
	if (len == FILE_MOST || strlen(text) != len)
		Fail(CLI_USAGE, "%s: the file of %s=%s is no list of nodes; use"
			 " --nodelist=n1,n2", where, option, path);
	return text;
}

/*
 * Returns the length of the word at the beginning of a list, which ends at a
 * comma or space outside brackets.
 */
static size_t
word_length(const Expansion *e, const char *at)
{
	size_t		length = 0;
	bool		inside = false;

	for (; at[length] != '\0' &&
		 (inside || strchr(", \t\r\n", at[length]) == NULL); length++)
	{
		if (at[length] == '[' && inside)
			refuse(e);
		if (at[length] == '[' || at[length] == ']')
			inside = at[length] == '[';
	}
	if (inside)
		refuse(e);
	return length;
}

/*
 * Adds the names that begin with "done" and go on as "rest" says.
 */
static void
expand(const Expansion *e, const char *done, const char *rest)
{
	size_t		plain = strcspn(rest, "[]");
	char	   *name = Format("%s%.*s", done, (int) plain, rest);
	const char *end = strchr(rest + plain, ']');

	if (rest[plain] == '\0')
		add_name(e, name);
	else if (rest[plain] == ']' || end == NULL)
		refuse(e);
	else
	{
		char	   *ranges = Format("%.*s", (int) (end - rest - plain - 1),
									rest + plain + 1);
		char	   *save = NULL;
		char	   *range = strtok_r(ranges, ",", &save);

		if (range == NULL)
			refuse(e);
		for (; range != NULL; range = strtok_r(NULL, ",", &save))
			expand_range(e, name, range, end + 1);
		free(ranges);
	}
	free(name);
}

/*
 * Adds the names of a range, such as "07" or "1-3".
 */
static void
expand_range(const Expansion *e, const char *done, const char *range,
			 const char *rest)
{
	size_t		width = strspn(range, "0123456789");
	const char *dash = range + width;
	size_t		digits = *dash == '-' ? strspn(dash + 1, "0123456789") : 0;
	long		from = strtol(range, NULL, 10);
	long		to = digits > 0 ? strtol(dash + 1, NULL, 10) : from;

	if (width == 0 || width > DIGITS_MOST || digits > DIGITS_MOST ||
		(*dash != '\0' && (digits == 0 || dash[1 + digits] != '\0')) ||
		to < from)
		refuse(e);
	for (long number = from; number <= to; number++)
	{
		char	   *name = Format("%s%0*ld", done, (int) width, number);

		expand(e, name, rest);
		free(name);
	}
}

/*
 * Adds a name, unless the list has it already.
 */
static void
add_name(const Expansion *e, const char *name)
{
	for (size_t i = 0; i < json_array_size(e->names); i++)
	{
		if (strcmp(json_string_value(json_array_get(e->names, i)),
				   name) == 0)
			return;
	}
	if (json_array_size(e->names) == PLACEMENT_NODES_MOST)
		Fail(CLI_USAGE, "%s: %s=%s names more than %d nodes; use --constraint"
			 " with a feature that they have", e->where, e->option, e->text,
			 PLACEMENT_NODES_MOST);
	if (*name == '\0' ||
		json_array_append_new(e->names, json_string(name)) != 0)
		refuse(e);
}

static void
refuse(const Expansion *e)
{
	Fail(CLI_USAGE, "%s: %s=%s is no list of nodes, as n1,n[3-5]", e->where,
		 e->option, e->text);
}
