/*-------------------------------------------------------------------------
 *
 * submission.h
 *		A submission: a script and its options.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CLI_SUBMISSION_H
#define GPUCREDIT_CLI_SUBMISSION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "types/dependency_parse.h"

/* Values of options without a short form. */
enum
{
	OPT_GPUS_PER_NODE = 256, OPT_GPUS_PER_TASK, OPT_GRES, OPT_NTASKS_PER_NODE,
	OPT_CPUS_PER_GPU, OPT_MEM, OPT_MEM_PER_GPU, OPT_MEM_PER_CPU, OPT_EXPORT,
	OPT_REQUEUE, OPT_NO_REQUEUE, OPT_PARSABLE, OPT_WRAP, OPT_REQUEST,
	OPT_TOPOLOGY, OPT_HOLD_WINDOW, OPT_CHECKPOINT_EVERY, OPT_CHECKPOINT_SIGNAL, OPT_MAX_RETRIES,
	OPT_KEY, OPT_IMAGE, OPT_LAUNCH, OPT_DEADLINE, OPT_KILL, OPT_COMMENT,
	OPT_LABEL, OPT_WCKEY, OPT_DRY_RUN, OPT_JSON, OPT_NTASKS_PER_GPU,
	OPT_SIGNAL, OPT_NICE, OPT_EXCLUSIVE, OPT_WITHOUT_EFFECT
};

/* The longest lists in a placement that reserve() accepts */
#define PLACEMENT_NODES_MOST	64
#define PLACEMENT_LABELS_MOST	32

/* The tasks of an array, such as "0-15:4%2". */
typedef struct ArraySpec
{
	char	   *indexes;		/* text of a bigint array, or NULL if it is no
								 * array */
	int64_t		n;
	int64_t		lowest;
	int64_t		highest;
	int64_t		step;
	int64_t		at_most;		/* how many tasks may run at once, or 0 for no
								 * limit */
} ArraySpec;

/* What each of the nodes of a job has that gets whole nodes. */
typedef struct WholeNode
{
	int64_t		nodes;			/* how many the job gets; 0 if it does not get
								 * whole nodes */
	int64_t		gpus;
	int64_t		cpus;			/* 0 if its cpus are not limited */
	int64_t		memory_mib;		/* 0 if its memory is not limited */
} WholeNode;

typedef struct StoredSubmission
{
	/* Values of options; 0 or NULL if an option was not given */
	char	   *account;
	char	   *name;
	char	   *pool;
	char	   *tier;
	char	   *request;		/* request in gpucredit's syntax, which
								 * overrides the counts */
	char	   *topology;
	char	   *hold_window;
	char	   *checkpoint_every;
	char	   *checkpoint_signal;
	char	   *key;
	char	   *constraint;		/* features of nodes (constraint.c) */
	char	   *constraint_place;	/* where it was written */
	json_t	   *features;		/* those that are labels, as a placement's
								 * labels, or NULL */
	json_t	   *nodelist;		/* names of all of the job's nodes, or NULL */
	char	   *nodelist_place; /* where they were written */
	json_t	   *excluded;		/* names of nodes that it must not use, or
								 * NULL */
	char	   *workdir;
	char	   *image;
	char	   *launch;
	char	   *output;
	char	   *error;
	char	   *exported;
	char	   *wrap;
	char	   *gpu_type;
	int64_t		gpus;			/* -1 if not given */
	int64_t		gpus_per_node;	/* -1 if not given */
	bool		gres;			/* gpus_per_node was set by --gres */
	bool		per_node;		/* gpus_per_node was set by --gpus-per-node */
	int64_t		gpus_per_task;
	int64_t		nodes;
	int64_t		tasks;
	int64_t		tasks_per_node;
	int64_t		tasks_per_gpu;
	int64_t		cpus_per_task;
	int64_t		cpus_per_gpu;
	int			memory_option;	/* which of the following three was given */
	bool		memory_of_command;	/* it was given on the command line */
	int64_t		memory_mib;		/* memory per node */
	int64_t		memory_per_gpu_mib;
	int64_t		memory_per_cpu_mib;
	char	   *exclusive_place;	/* where --exclusive was written, or NULL */
	WholeNode	whole;			/* what --exclusive means (exclusive.c) */
	int64_t		seconds;		/* wall limit, or 0 for the tier's */
	int64_t		retries;		/* -1 if not given */
	ArraySpec	array;

	/* When the job may start (start_options.c) */
	char	   *begin;			/* as it was written */
	char	   *deadline;
	Dependency *after;			/* dependency, or NULL */
	bool		kills;			/* cancel the job once the dependency can
								 * never be satisfied */
	bool		hold;
	json_t	   *labels;			/* NULL if there are none */
	int64_t		nice;			/* how far it goes behind the account's other
								 * jobs; 0 if not given */
	json_t	   *signal;			/* signal before the wall limit, as the spec
								 * has it, or NULL */

	bool		waits;			/* the command waits for the end of the job */
	bool		parsable;
	bool		dry_run;		/* print a quote and submit nothing (quote.c) */
	bool		json;			/* print the quote as JSON */
	bool		warns;			/* warn about options without effect */
	bool		of_command;		/* options that are parsed now are those of
								 * the command line */

	/* The program */
	char	   *script;			/* text of the script */
	int			nargs;
	char	  **args;
} StoredSubmission;

/* The counts of the whole job that the options mean. */
typedef struct JobCounts
{
	int64_t		nodes;
	bool		counts_nodes;	/* an option defines the number; otherwise it
								 * is a minimum */
	int64_t		tasks;
	bool		counts_tasks;	/* an option defines the number; otherwise one
								 * per node */
	int64_t		gpus;
	int64_t		cpus;
	bool		counts_cpus;	/* an option defines the number; otherwise
								 * there is no limit */
	int64_t		memory_mib;		/* 0 for no limit */
	bool		one_node;		/* all GPUs must be on one node */
} JobCounts;

extern void SubmissionInit(StoredSubmission *submission);
extern int	SubmissionOptions(StoredSubmission *submission, int argc,
							  char **argv,
							  const char *where);
extern const struct option *SubmissionOptionTable(const char **short_options);
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

/* counts.c */
extern JobCounts SubmissionCounts(const StoredSubmission *submission);

/* hostlist.c */
extern json_t * HostlistExpand(const char *text, bool is_file,
							   const char *option, const char *where);

/* placement.c */
extern void PlacementCount(StoredSubmission *submission);
extern json_t * PlacementOption(const StoredSubmission *submission);
extern bool SubmissionOnOneNode(const StoredSubmission *submission);

/* refused_option.c */
extern void OptionRefused(const char *word, int letter, const char *where)
			__attribute__((noreturn));

extern char *SubmissionRequest(const StoredSubmission *submission);
extern json_t * SubmissionAsks(const StoredSubmission *submission);
extern char *SubmissionAsksText(const StoredSubmission *submission);
extern char *SubmissionSpec(const StoredSubmission *submission);

/* constraint.c */
extern void ConstraintApply(StoredSubmission *submission);

/* exclusive.c */
extern void ExclusiveSet(StoredSubmission *submission, const char *value,
						 const char *where);
extern void ExclusiveApply(StoredSubmission *submission,
						   bool (*could_run) (const StoredSubmission *));

/* large_spec.c */
extern const char *LargeSpecStored(const char *spec, const char *org,
								   const char *account);
extern const char *LargeSpecQuoted(const char *spec);

#endif							/* GPUCREDIT_CLI_SUBMISSION_H */
