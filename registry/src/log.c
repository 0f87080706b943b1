/*-------------------------------------------------------------------------
 *
 * log.c
 *		The daemon's log: lines on standard error, which systemd collects.
 *
 *-------------------------------------------------------------------------
 */
#include "log.h"

#include <stdarg.h>
#include <stdio.h>

/*
 * Writes one line.  Several threads may do so at once: a line is one write.
 */
void
log_message(const char *format,...)
{
	va_list		args;
	char		line[1024];

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fprintf(stderr, "registryd: %s\n", line);
}
