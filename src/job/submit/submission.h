/*-------------------------------------------------------------------------
 *
 * submission.h
 *		A job as it is submitted.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_SUBMISSION_H
#define GPUCREDIT_SUBMISSION_H

#include "job/job.h"
#include "request/request.h"

/* What a submission has beyond the job itself. */
typedef struct Submission
{
	Job			job;
	AccountPath path;
	Jsonb	   *spec;
	Jsonb	   *options;
	char	   *cache;			/* NULL: none */
	SaveSpec	save;
	bool		tier_preemptible;	/* preemptible was not given */
	bool		tier_wall;		/* wall_limit was not given */
} Submission;

extern void SubmissionTake(FunctionCallInfo fcinfo, Submission *submission,
						   Request *request);
extern const char *SubmissionCheck(Submission *submission,
								   const NodeSet *supposed);

#endif							/* GPUCREDIT_SUBMISSION_H */
