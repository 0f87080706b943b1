/*-------------------------------------------------------------------------
 *
 * submission.h
 *		A job as it is submitted.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_SUBMISSION_H
#define GPUCREDIT_SUBMISSION_H

#include "job/dependency.h"
#include "job/job.h"
#include "request/request.h"

/* What options say beside the job's own fields. */
typedef struct JobOptions
{
	Dependency *after;			/* NULL: none */
	const char *name;			/* NULL: none */
	const char *array;			/* NULL: none */
	int64		task;			/* -1: none */
	int32		at_most;		/* 0: no limit */
	TimestampTz begin;			/* DT_NOBEGIN: none */
	TimestampTz deadline;		/* DT_NOEND: none */
	bool		hold;
} JobOptions;

/* What a submission has beyond the job itself. */
typedef struct Submission
{
	Job			job;
	AccountPath path;
	Jsonb	   *spec;
	Jsonb	   *options;
	char	   *cache;			/* NULL: none */
	SaveSpec	save;
	JobOptions	wishes;
	bool		tier_preemptible;	/* preemptible was not given */
	bool		tier_wall;		/* wall_limit was not given */
} Submission;

extern void SubmissionTake(FunctionCallInfo fcinfo, Submission *submission,
						   Request *request);
extern const char *SubmissionCheck(Submission *submission,
								   const NodeSet *supposed, bool counted);

/* options.c */
extern void SubmissionOptions(Submission *submission);

/* dependency_check.c */
extern void SubmissionResolve(Submission *submission);

#endif							/* GPUCREDIT_SUBMISSION_H */
