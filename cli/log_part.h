/*-------------------------------------------------------------------------
 *
 * log_part.h
 *		Reads a job's output on one node, and prints it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CLI_LOG_PART_H
#define GPUCREDIT_CLI_LOG_PART_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Where a stream is printed. */
typedef struct LogLines
{
	FILE	   *out;
	const char *prefix;			/* prefix of each line, or NULL to print bytes
								 * as they come */
	char	   *begun;			/* a line that has no end yet */
	size_t		len;			/* its length */
} LogLines;

/* One of the part's streams. */
typedef struct LogStream
{
	const char *name;
	LogLines	lines;
	bool		wanted;
	bool		over;
	int64_t		at;				/* position of the next byte, or -1 until it
								 * is known where the tail begins */
	int64_t		written;
	int64_t		until;			/* where to stop if the job is not followed,
								 * or -1 if not yet known */
	int64_t		dropped;
	double		asked;			/* when the piece was last requested, or 0 */
	double		since;			/* since when an answer is missing, or 0 */
} LogStream;

/* A job's output on one node, of one attempt or of each in turn. */
typedef struct LogPart
{
	const char *job;
	const char *attempt;		/* NULL for the newest */
	const char *node;			/* NULL for the first */
	int64_t		from;			/* position of the first byte to print */
	int64_t		tail;			/* how many bytes of the end to print, or -1
								 * to print from there */
	bool		follow;
	bool		any_attempt;	/* follow the next attempt as well */
	bool		all_nodes;		/* read the other nodes of the attempt, too */
	bool		prefixed;
	LogStream	streams[2];
	bool		over;
	bool		said_waits;
	bool		said_silent;
	double		due;			/* time of the next step */
	struct LogPart *next;
} LogPart;

extern int	log_status;			/* the command's exit status */

extern void LogPartBegin(LogPart *part);
extern bool LogPartStep(LogPart *part);

extern void LogLinesPrint(LogLines *lines, const void *data, size_t len);
extern void LogLinesEnd(LogLines *lines);

#endif							/* GPUCREDIT_CLI_LOG_PART_H */
