/*-------------------------------------------------------------------------
 *
 * dependency.h
 *		What a job waits for: other jobs that must have begun or ended.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_DEPENDENCY_H
#define GPUCREDIT_DEPENDENCY_H

#define DEPENDENCY_MOST		64	/* terms */

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
	int64		job;			/* 0: singleton */
	int64		task;
	int32		minutes;		/* after its begin */
} DependencyTerm;

typedef struct Dependency
{
	bool		any;			/* one term is enough */
	int			n;
	DependencyTerm terms[DEPENDENCY_MOST];
} Dependency;

extern const char *DependencyParse(const char *text, Dependency *dependency);
extern char *DependencyToCString(const Dependency *dependency);
extern char *DependencyTermText(const DependencyTerm *term);

#endif							/* GPUCREDIT_DEPENDENCY_H */
