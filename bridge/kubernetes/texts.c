/*-------------------------------------------------------------------------
 *
 * texts.c
 *		Strings, and arrays and sets in the database's syntax.
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "memory.h"
#include "texts.h"

static void put(TextArray *array, const char *data, size_t len);

/*
 * Replaces a string by a copy of another, or by NULL.
 */
void
TextSet(char **text, const char *value)
{
	char	   *copy = Dup(value);

	free(*text);
	*text = copy;
}

/*
 * Appends an item, quoted.
 */
void
TextsAdd(TextArray *array, const char *item)
{
	put(array, array->n++ == 0 ? "{\"" : ",\"", 2);
	for (; *item != '\0'; item++)
	{
		if (*item == '"' || *item == '\\')
			put(array, "\\", 1);
		put(array, item, 1);
	}
	put(array, "\"", 1);
}

/* Returns the array as text. Items can still be added afterwards. */
const char *
TextsOf(TextArray *array)
{
	if (array->n == 0)
		return "{}";
	put(array, "}", 2);
	array->len -= 2;
	return array->text;
}

void
TextsFree(TextArray *array)
{
	free(array->text);
	memset(array, 0, sizeof(*array));
}

static void
put(TextArray *array, const char *data, size_t len)
{
	if (array->len + len > array->room)
	{
		array->room = 2 * (array->len + len);
		array->text = realloc(array->text, array->room);
		if (array->text == NULL)
			Die("out of memory");
	}
	memcpy(array->text + array->len, data, len);
	array->len += len;
}

/*
 * Formats a bit mask of devices as a gpuset.
 */
char *
DevicesText(uint64_t devices)
{
	char		text[256] = "{";
	size_t		len = 1;

	for (int i = 0; i < 64; i++)
		if (devices >> i & 1)
			len += snprintf(text + len, sizeof(text) - len, "%s%d",
							len > 1 ? "," : "", i);
	snprintf(text + len, sizeof(text) - len, "}");
	return Dup(text);
}

/*
 * Parses a gpuset, such as "{0-3,6}", to a bit mask of devices.
 */
uint64_t
DevicesOf(const char *text)
{
	uint64_t	devices = 0;
	char	   *rest = (char *) text + 1;

	while (*text == '{' && *rest >= '0' && *rest <= '9')
	{
		long		from = strtol(rest, &rest, 10);
		long		to = *rest == '-' ? strtol(rest + 1, &rest, 10) : from;

		for (long i = from; i <= to && i < 64; i++)
			devices |= UINT64_C(1) << i;
		if (*rest == ',')
			rest++;
	}
	return devices;
}
