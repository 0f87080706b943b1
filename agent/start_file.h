/*-------------------------------------------------------------------------
 *
 * start_file.h
 *		Write "start", the file that tells a keeper what to run.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_AGENT_START_FILE_H
#define GPUCREDIT_AGENT_START_FILE_H

#include <stddef.h>
#include <stdio.h>

/* "start" during the write; refused: the reason */
typedef struct Writer
{
	FILE	   *out;
	FILE	   *env;			/* podman's environment file; NULL: "start"
								 * takes it */
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
