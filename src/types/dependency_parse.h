/*-------------------------------------------------------------------------
 *
 * dependency_parse.h
 *		What a job waits for: other jobs that must have begun or ended.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_DEPENDENCY_PARSE_H
#define GPUCREDIT_DEPENDENCY_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DEPENDENCY_MOST		64	/* terms */

/* enough for the text of any term */
#define DEPENDENCY_TERM_SIZE	80

/* The words of Slurm's option --dependency. */
typedef enum DependencyKind
{
	AFTER_BEGUN,				/* after */
	AFTER_ANY,
	AFTER_OK,
	AFTER_NOT_OK,
	AFTER_CORRESPONDING,		/* only until it is submitted: then afterok */
	AFTER_SINGLETON
} DependencyKind;

/* What one term refers to. */
typedef enum DependencyScope
{
	DEPENDENCY_JOB,				/* 17 */
	DEPENDENCY_TASK,			/* 17_3, only until it is submitted */
	DEPENDENCY_ARRAY			/* 17_*: the array of job 17 */
} DependencyScope;

typedef struct DependencyTerm
{
	DependencyKind kind;
	DependencyScope scope;
	int64_t		job;			/* 0: singleton */
	int64_t		task;
	int32_t		minutes;		/* after its begin */
} DependencyTerm;

typedef struct Dependency
{
	bool		any;			/* one term is enough */
	int			n;
	DependencyTerm terms[DEPENDENCY_MOST];
} Dependency;

extern const char *DependencyParse(const char *text, Dependency *dependency);
extern size_t DependencyTermPrint(const DependencyTerm *term, char *buf);

#endif							/* GPUCREDIT_DEPENDENCY_PARSE_H */
