/*-------------------------------------------------------------------------
 *
 * job_stage.h
 *		What job.c and job_stage.c need of each other.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_KUBERNETES_JOB_STAGE_H
#define GPUCREDIT_KUBERNETES_JOB_STAGE_H

#include "job.h"

#define NODE_NEWS_NS	(2 * NS_PER_S)	/* time by which the watch has
										 * delivered what happened before */

/* job_stage.c */
extern void JobTend(KubeJob *job, int64_t now);

/* job.c */
extern bool JobPodWaits(const KubePod *pod);
extern void JobEvict(KubeJob *job, const char *why);
extern const char *JobRefusalOf(const KubePod *pod);
extern void JobComplete(KubeJob *job);
extern void JobDetach(KubeJob *job, int i);

#endif							/* GPUCREDIT_KUBERNETES_JOB_STAGE_H */
