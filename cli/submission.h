/*-------------------------------------------------------------------------
 *
 * submission.h
 *		The request of a script and its options.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CLI_SUBMISSION_H
#define GPUCREDIT_CLI_SUBMISSION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct StoredSubmission
{
	/* as the options say; 0 or NULL: no option */
	char	   *account;
	char	   *name;
	char	   *pool;
	char	   *tier;
	char	   *request;		/* gpucredit's own form, wins */
	char	   *topology;
	char	   *hold_window;
	char	   *checkpoint_every;
	char	   *checkpoint_signal;
	char	   *key;
	char	   *workdir;
	char	   *image;
	char	   *launch;
	char	   *output;
	char	   *error;
	char	   *exported;
	char	   *wrap;
	char	   *gpu_type;
	int64_t		gpus;			/* -1: no option */
	int64_t		gpus_per_node;	/* -1: no option */
	int64_t		gpus_per_task;
	int64_t		nodes;
	int64_t		tasks;
	int64_t		tasks_per_node;
	int64_t		cpus_per_task;
	int64_t		cpus_per_gpu;
	int64_t		memory_mib;		/* per node */
	int64_t		memory_per_gpu_mib;
	int64_t		memory_per_cpu_mib;
	int64_t		seconds;		/* seconds of the wall limit; 0: the tier's */
	int64_t		retries;		/* -1: no option */
	char	   *array;			/* the indexes, as text of a bigint array */
	bool		parsable;
	bool		warns;			/* of options without effect */

	/* the program */
	char	   *script;			/* its text */
	int			nargs;
	char	  **args;
} StoredSubmission;

extern void SubmissionInit(StoredSubmission *submission);
extern int	SubmissionOptions(StoredSubmission *submission, int argc,
							  char **argv,
							  const char *where);
extern void SubmissionScript(StoredSubmission *submission, const char *path);

extern char *SubmissionRequest(const StoredSubmission *submission);
extern bool SubmissionOnOneNode(const StoredSubmission *submission);
extern int64_t SubmissionGpus(const StoredSubmission *submission);
extern int64_t SubmissionCpuMilli(const StoredSubmission *submission);
extern int64_t SubmissionMemoryMib(const StoredSubmission *submission);
extern char *SubmissionSpec(const StoredSubmission *submission);

#endif							/* GPUCREDIT_CLI_SUBMISSION_H */
