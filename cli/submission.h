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
#include <time.h>

#include "types/dependency_parse.h"

/* Options without a letter. */
enum
{
	OPT_GPUS_PER_NODE = 256, OPT_GPUS_PER_TASK, OPT_GRES, OPT_NTASKS_PER_NODE,
	OPT_CPUS_PER_GPU, OPT_MEM, OPT_MEM_PER_GPU, OPT_MEM_PER_CPU, OPT_EXPORT,
	OPT_REQUEUE, OPT_NO_REQUEUE, OPT_PARSABLE, OPT_WRAP, OPT_REQUEST,
	OPT_TOPOLOGY, OPT_HOLD_WINDOW, OPT_CHECKPOINT_EVERY, OPT_CHECKPOINT_SIGNAL, OPT_MAX_RETRIES,
	OPT_KEY, OPT_IMAGE, OPT_LAUNCH, OPT_DEADLINE, OPT_KILL, OPT_COMMENT,
	OPT_LABEL, OPT_WCKEY, OPT_DRY_RUN, OPT_JSON, OPT_WITHOUT_EFFECT
};

/* The tasks of an array: "0-15:4%2". */
typedef struct ArraySpec
{
	char	   *indexes;		/* as text of a bigint array; NULL: no array */
	int64_t		n;
	int64_t		lowest;
	int64_t		highest;
	int64_t		step;
	int64_t		at_most;		/* how many run at once; 0: no limit */
} ArraySpec;

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
	ArraySpec	array;

	/* when it may start (start_options.c) */
	char	   *begin;			/* as the option has it */
	char	   *deadline;
	Dependency *after;			/* NULL: none */
	bool		kills;			/* cancel it once "after" can never hold */
	bool		hold;
	json_t	   *labels;			/* NULL: none */

	bool		waits;			/* the command ends when the job does */
	bool		parsable;
	bool		dry_run;		/* nothing is submitted (quote.c) */
	bool		json;			/* of a dry run */
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

/* interpreter.c */
extern void InterpreterCheck(const char *path, const char *script);
extern void InterpreterWarn(const char *path, const char *script);

/* array_spec.c */
extern void ArrayParse(ArraySpec *array, const char *text, const char *where);

/* start_options.c */
extern bool SubmissionStartOption(StoredSubmission *submission, int option,
								  const char *value, const char *where);
extern char *SubmissionReserveOptions(const StoredSubmission *submission,
									  time_t base);

extern char *SubmissionRequest(const StoredSubmission *submission);
extern bool SubmissionOnOneNode(const StoredSubmission *submission);
extern int64_t SubmissionGpus(const StoredSubmission *submission);
extern int64_t SubmissionCpuMilli(const StoredSubmission *submission);
extern int64_t SubmissionMemoryMib(const StoredSubmission *submission);
extern char *SubmissionSpec(const StoredSubmission *submission);

#endif							/* GPUCREDIT_CLI_SUBMISSION_H */
