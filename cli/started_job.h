/*-------------------------------------------------------------------------
 *
 * started_job.h
 *		Jobs that a command submits and then serves until they end.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CLI_STARTED_JOB_H
#define GPUCREDIT_CLI_STARTED_JOB_H

#include <signal.h>

/* A list of words for a command line, which grows. */
typedef struct Words
{
	char	  **word;			/* ends with NULL */
	int			n;
} Words;

/* Whether a job runs yet. */
typedef enum JobProgress
{
	JOB_WAITS, JOB_RUNS, JOB_IS_OVER
} JobProgress;

extern void WordsAdd(Words *words, const char *word);
extern char *StartedJobSubmit(const Words *options, const char *script,
							  char *const *args);
extern JobProgress StartedJobProgress(const char *job, const char *after);
extern int	RunSelf(const char *command, const Words *words,
					const volatile sig_atomic_t * stop);

#endif							/* GPUCREDIT_CLI_STARTED_JOB_H */
