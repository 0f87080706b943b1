/*-------------------------------------------------------------------------
 *
 * settings.c
 *		Reads a configuration file with lines of the form "name = value".
 *-------------------------------------------------------------------------
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "memory.h"
#include "settings.h"

static char *trim(char *text);

/*
 * Reads a file. Any mistake in it ends the program, because a guess could run
 * jobs on the wrong node. Settings that are not in the table are passed to
 * other().
 */
void
SettingsRead(const char *path, const Setting *table, int n,
			 SettingOther other)
{
	FILE	   *file = fopen(path, "r");
	char		line[4096];

	if (file == NULL)
		Die("could not read %s: %s", path, strerror(errno));
	for (int number = 1; fgets(line, sizeof(line), file) != NULL; number++)
	{
		char	   *name = trim(line);
		char	   *value = strchr(name, '=');
		int			i = 0;

		if (*name == '\0' || *name == '#')
			continue;
		if (value == NULL)
			Die("%s:%d: not \"name = value\"", path, number);
		*value++ = '\0';
		name = trim(name);
		value = trim(value);
		while (i < n && strcmp(name, table[i].name) != 0)
			i++;
		if (i < n && table[i].text != NULL)
			*table[i].text = Dup(value);
		else if (i < n)
			*table[i].number = SettingNumber(value, table[i].least,
											 table[i].most, name, path,
											 number);
		else if (other == NULL || !other(name, value, path, number))
			Die("%s:%d: there is no setting \"%s\"", path, number, name);
	}
	fclose(file);
}

/*
 * Parses a whole number within bounds. A mistake ends the program.
 */
long
SettingNumber(const char *value, long least, long most, const char *name,
			  const char *path, int line)
{
	char	   *end;
	long		number;

	errno = 0;
	number = strtol(value, &end, 10);
	if (end == value || *end != '\0' || errno != 0 || number < least ||
		number > most)
		Die("%s:%d: %s is a number from %ld to %ld", path, line, name, least,
			most);
	return number;
}

static char *
trim(char *text)
{
	char	   *end;

	while (isspace((unsigned char) *text))
		text++;
	end = text + strlen(text);
	while (end > text && isspace((unsigned char) end[-1]))
		*--end = '\0';
	return text;
}
