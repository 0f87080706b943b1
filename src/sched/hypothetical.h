/*-------------------------------------------------------------------------
 *
 * hypothetical.h
 *		What plan_with supposes: nodes and jobs that are not there.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_SUPPOSE_H
#define GPUCREDIT_SUPPOSE_H

#include "job/submission.h"
#include "sched/sched.h"

typedef struct Hypothetical
{
	int			n_nodes;
	GpuNode    *nodes;
	int			n_jobs;
	Submission *jobs;
	const char **denied;		/* of each job; NULL: it is in the queue */
} Hypothetical;

#endif							/* GPUCREDIT_SUPPOSE_H */
