/*-------------------------------------------------------------------------
 *
 * start_file.c
 *		Writes "start", the file that describes to a keeper what to run.
 *-------------------------------------------------------------------------
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "memory.h"
#include "start_file.h"

/*
 * Adds an entry. The environment of an image's program goes to a separate file
 * that podman reads.
 */
void
StartPut(Writer *writer, const char *key, const char *format,...)
{
	va_list		args;

	va_start(args, format);
	if (writer->env != NULL && strcmp(key, "env") == 0)
	{
		vfprintf(writer->env, format, args);
		fputc('\n', writer->env);
	}
	else
	{
		fprintf(writer->out, "%s=", key);
		vfprintf(writer->out, format, args);
		fputc('\0', writer->out);
	}
	va_end(args);
}

/* Records why the attempt cannot be started. The first reason is kept. */
void
StartRefuse(Writer *writer, const char *kind, int status, const char *format,...)
{
	va_list		args;
	char	   *why;

	va_start(args, format);
	if (vasprintf(&why, format, args) < 0)
		Die("out of memory");
	va_end(args);
	if (writer->refused == NULL)
		writer->refused = Format("%s %d 0 %s", kind, status, why);
	free(why);
}
