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

#define DEPENDENCY_MOST		64	/* most terms of a dependency */

/* room for the text of any term */
#define DEPENDENCY_TERM_SIZE	80

/* The words of Slurm's option --dependency, such as "afterok". */
typedef enum DependencyKind
{
	AFTER_BEGUN,				/* "after": the other job must have begun */
	AFTER_ANY,
	AFTER_OK,
	AFTER_NOT_OK,
	AFTER_CORRESPONDING,		/* replaced by AFTER_OK for one task when the
								 * job is submitted */
	AFTER_SINGLETON
} DependencyKind;

/* What one term refers to: a job, a task of an array, or the whole array. */
typedef enum DependencyScope
{
	DEPENDENCY_JOB,				/* as in "17" */
	DEPENDENCY_TASK,			/* as in "17_3"; replaced by the task's job at
								 * submission */
	DEPENDENCY_ARRAY			/* as in "17_*": all tasks of job 17's array */
} DependencyScope;

typedef struct DependencyTerm
{
	DependencyKind kind;
	DependencyScope scope;
	int64_t		job;			/* 0 for AFTER_SINGLETON, which names no job */
	int64_t		task;
	int32_t		minutes;		/* for AFTER_BEGUN: minutes to wait after the
								 * other job's begin */
} DependencyTerm;

typedef struct Dependency
{
	bool		any;			/* one fulfilled term is enough, instead of
								 * all */
	int			n;
	DependencyTerm terms[DEPENDENCY_MOST];
} Dependency;

extern const char *DependencyParse(const char *text, Dependency *dependency);
extern size_t DependencyTermPrint(const DependencyTerm *term, char *buf);

#endif							/* GPUCREDIT_DEPENDENCY_PARSE_H */
