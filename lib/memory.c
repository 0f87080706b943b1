/*-------------------------------------------------------------------------
 *
 * memory.c
 *		Allocates memory and strings. The program ends if memory runs out.
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "memory.h"

void *
Alloc(size_t size)
{
	void	   *memory = calloc(1, size);

	if (memory == NULL)
		Die("out of memory");
	return memory;
}

char *
Dup(const char *text)
{
	char	   *copy = text == NULL ? NULL : strdup(text);

	if (text != NULL && copy == NULL)
		Die("out of memory");
	return copy;
}

char *
Format(const char *format,...)
{
	char	   *text;
	va_list		args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		Die("out of memory");
	va_end(args);
	return text;
}
