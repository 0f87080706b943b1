/*-------------------------------------------------------------------------
 *
 * log.c
 *		Writes the lines of a program's log to standard error.
 *
 * systemd's journal records what a service writes there. Each line is written
 * by one write(), so lines of several threads or processes do not mix.
 *
 * What is logged may come from a stranger, such as an address or the error of
 * another server. Control characters are therefore written as \xNN, so that
 * nobody can begin a line of his own or send commands to a terminal.
 *
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "log.h"

static const char *program;		/* prefix of each line, or NULL for none */

static void write_line(const char *format, va_list args);

/*
 * Makes each line begin with the program's name. The string is not copied.
 */
void
LogProgram(const char *name)
{
	program = name;
}

void
LogLine(const char *format,...)
{
	va_list		args;

	va_start(args, format);
	write_line(format, args);
	va_end(args);
}

/*
 * Logs a line and ends the program with exit status 1.
 */
void
Die(const char *format,...)
{
	va_list		args;

	va_start(args, format);
	write_line(format, args);
	va_end(args);
	exit(1);
}

/*
 * Whether the byte at "text" is a control character, or the second byte of a
 * control character of UTF-8 (U+0080 to U+009F). "begin" is the message's start.
 */
static bool
is_control(const char *begin, const char *text)
{
	unsigned char byte = (unsigned char) *text;

	return byte < 0x20 || byte == 0x7f ||
		(byte >= 0x80 && byte < 0xa0 && text > begin && (unsigned char) text[-1] == 0xc2);
}

/*
 * Writes a line. A line longer than the buffer is truncated. Newlines at the end
 * of the message, as libpq's messages have, are left out.
 */
static void
write_line(const char *format, va_list args)
{
	char		message[2048] = "";
	char		line[2048 + 256];
	size_t		length;
	int			most = sizeof(line) - 1;	/* leaves room for the newline */
	int			used = 0;

	if (program != NULL)
		used = snprintf(line, 200, "%.190s: ", program);
	(void) vsnprintf(message, sizeof(message), format, args);
	for (length = strlen(message); length > 0 && message[length - 1] == '\n'; length--)
		;
	for (size_t i = 0; i < length && used < most - 4; i++)
	{
		if (is_control(message, message + i))
			used += snprintf(line + used, 5, "\\x%02x", (unsigned char) message[i]);
		else
			line[used++] = message[i];
	}
	line[used++] = '\n';
	(void) WriteAll(STDERR_FILENO, line, used);
}
