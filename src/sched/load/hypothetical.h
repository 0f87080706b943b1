/*-------------------------------------------------------------------------
 *
 * hypothetical.h
 *		The hypothetical nodes and jobs of plan_with.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_HYPOTHETICAL_H
#define GPUCREDIT_HYPOTHETICAL_H

#include "job/submit/submission.h"
#include "sched/sched.h"

typedef struct Hypothetical
{
	int			n_nodes;
	GpuNode    *nodes;
	int			n_jobs;
	Submission *jobs;
	const char **denied;		/* by job, the reason why reserve() would deny
								 * it, or NULL if it is queued */
} Hypothetical;

#endif							/* GPUCREDIT_HYPOTHETICAL_H */
