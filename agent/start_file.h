/*-------------------------------------------------------------------------
 *
 * start_file.h
 *		Writes "start", the file that describes to a keeper what to run.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_START_FILE_H
#define GPUCREDIT_AGENT_START_FILE_H

#include <stddef.h>
#include <stdio.h>

/*
 * A "start" that is being written. "refused" is the reason why the attempt
 * cannot be started, or NULL.
 */
typedef struct Writer
{
	FILE	   *out;
	FILE	   *env;			/* podman's environment file; NULL if the
								 * environment goes to "start" */
	char	   *env_text;
	size_t		env_len;
	char	   *refused;
} Writer;

extern void StartPut(Writer *writer, const char *key, const char *format,...)
			__attribute__((format(printf, 3, 4)));
extern void StartRefuse(Writer *writer, const char *kind, int status,
						const char *format,...)
			__attribute__((format(printf, 4, 5)));

#endif							/* GPUCREDIT_AGENT_START_FILE_H */
