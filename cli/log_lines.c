/*-------------------------------------------------------------------------
 *
 * log_lines.c
 *		Prints output, with a prefix before each line if it comes from
 *		several jobs or nodes.
 *
 * A line is printed when it is whole, so that lines of several streams do not
 * mix.  One that is longer than LINE_MOST is printed in parts.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "log_part.h"

#define LINE_MOST	65536

static void print_line(LogLines *lines, const char *end);
static void write_out(FILE *out, const void *data, size_t len);

void
LogLinesPrint(LogLines *lines, const void *data, size_t len)
{
	const char *at = data;
	const char *end = at + len;

	if (lines->prefix == NULL)
		write_out(lines->out, data, len);
	while (lines->prefix != NULL && at < end)
	{
		const char *stop = memchr(at, '\n', end - at);
		size_t		part = (stop == NULL ? end : stop) - at;

		if (lines->begun == NULL)
			lines->begun = Alloc(LINE_MOST);
		if (part > LINE_MOST - lines->len)
		{
			part = LINE_MOST - lines->len;
			stop = NULL;
		}
		memcpy(lines->begun + lines->len, at, part);
		lines->len += part;
		at += part + (stop != NULL);
		if (stop != NULL || lines->len == LINE_MOST)
			print_line(lines, "\n");
	}
	if (fflush(lines->out) != 0)
		Fail(CLI_REFUSED, "could not write the output");
}

/*
 * Prints a last line that has no end, once the stream is over.
 */
void
LogLinesEnd(LogLines *lines)
{
	if (lines->len > 0)
		print_line(lines, "\n");
	free(lines->begun);
	lines->begun = NULL;
	(void) fflush(lines->out);
}

static void
print_line(LogLines *lines, const char *end)
{
	write_out(lines->out, lines->prefix, strlen(lines->prefix));
	write_out(lines->out, lines->begun, lines->len);
	write_out(lines->out, end, strlen(end));
	lines->len = 0;
}

static void
write_out(FILE *out, const void *data, size_t len)
{
	if (len > 0 && fwrite(data, len, 1, out) != 1)
		Fail(CLI_REFUSED, "could not write the output");
}
