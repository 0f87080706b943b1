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

/* Options of a submission that are stored apart from the job's own fields. */
typedef struct JobOptions
{
	Dependency *after;			/* NULL if it waits for no job */
	const char *name;			/* NULL if it has no name */
	const char *array;			/* NULL if it is in no array */
	int64		task;			/* -1 if it has no number in an array */
	int32		at_most;		/* 0 if there is no limit */
	TimestampTz begin;			/* DT_NOBEGIN if it may begin at once */
	TimestampTz deadline;		/* DT_NOEND if there is no deadline */
	bool		hold;
} JobOptions;

/* A submission: the job, and what is stored or checked beside the job. */
typedef struct Submission
{
	Job			job;
	AccountPath path;
	Jsonb	   *spec;
	Jsonb	   *options;
	char	   *cache;			/* NULL if it prefers no cache */
	SaveSpec	save;
	JobOptions	wishes;
	bool		tier_preemptible;	/* whether preemptible comes from the tier */
	bool		tier_wall;		/* whether the wall limit comes from the tier */
} Submission;

extern void ParseSubmission(FunctionCallInfo fcinfo, Submission *submission,
							Request *request);
extern const char *SubmissionCheck(Submission *submission,
								   const NodeSet *supposed, bool counted);

/* Defined in options.c. */
extern void SubmissionOptions(Submission *submission);

/* Defined in dependency_check.c. */
extern void SubmissionResolve(Submission *submission);

#endif							/* GPUCREDIT_SUBMISSION_H */
