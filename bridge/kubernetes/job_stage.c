/*-------------------------------------------------------------------------
 *
 * job_stage.c
 *		Changes a job's pods as its stage requires, and advances the stage.
 *
 * JobsTurn() calls JobTend() for each job whenever the watch or the database
 * may have changed something. What a stage needs of the database is called by
 * database.c, and JobFunded(), JobRefuse() and JobBegin() advance the stage
 * when the answer arrives.
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>

#include "clock.h"
#include "config.h"
#include "job.h"
#include "job_stage.h"
#include "log.h"
#include "memory.h"
#include "place.h"
#include "pod_change.h"
#include "texts.h"
#include "unpaid.h"

static void tend_waiting(KubeJob *job, int64_t now);
static void tend_funded(KubeJob *job, int64_t now);
static void start_together(KubeJob *job, int64_t now);
static void tend_starting(KubeJob *job, int64_t now);
static void leave_unknown_node(KubeJob *job, int64_t now);
static void report_waiting(KubeJob *job, int64_t now);
static void tend_running(KubeJob *job, int64_t now);
static void tend_over(KubeJob *job);
static bool broken(const KubeJob *job);
static bool is_another(const KubeJob *job);
static bool can_go(const KubePod *pod);
static void end_pods(KubeJob *job, long grace_s);

/*
 * Does what one job needs now.
 */
void
JobTend(KubeJob *job, int64_t now)
{
	if (job->calling)
		return;
	for (int i = 0; i < job->n; i++)
		if (job->pods[i]->refused)
		{
			job->pods[i]->refused = false;
			JobEndPods(job, "the API server refuses the change");
		}
	switch (job->stage)
	{
		case KUBE_GATHERS:
		case KUBE_ASKS:
		case KUBE_REFUSED:
			tend_waiting(job, now);
			break;
		case KUBE_FUNDED:
			tend_funded(job, now);
			break;
		case KUBE_STARTS:
			tend_starting(job, now);
			break;
		case KUBE_RUNS:
			tend_running(job, now);
			break;
		case KUBE_DROPS:
			break;
		case KUBE_OVER:
			tend_over(job);
			break;
	}
}

/*
 * Handles a job without credit: pods that no longer wait leave the job, and a
 * pod that lost its gate is deleted.
 */
static void
tend_waiting(KubeJob *job, int64_t now)
{
	bool		whole = true;

	for (int i = job->n - 1; i >= 0; i--)
	{
		KubePod    *pod = job->pods[i];

		/*
		 * The pod has changed, so the reason of an earlier refusal may no
		 * longer hold.
		 */
		if (pod->fresh && job->refusals == 0)
			job->again_ns = 0;
		pod->fresh = false;
		if (JobPodWaits(pod))
			continue;
		whole = false;
		JobDetach(job, i);
	}
	if (!whole && job->stage != KUBE_GATHERS)
	{
		/* The job lacks a pod: consider the remaining pods again. */
		while (job->n > 0)
			JobDetach(job, job->n - 1);
		return;
	}
	if (job->stage == KUBE_GATHERS || job->stage == KUBE_ASKS)
		return;
	for (int i = 0; i < job->n; i++)
		if (job->pods[i]->gated)
			PodReportReason(job->pods[i], "CreditRefused", job->refusal);
		else
		{
			JobEndPods(job, job->refusal);
			return;
		}
	if (now < job->again_ns)
		return;
	if (job->n > 0 && JobRefusalOf(job->pods[0]) != NULL)
		JobDetach(job, 0);
	else
		JobComplete(job);
}

/*
 * Handles a job whose credit is held: removes the gates of its pods. The pods
 * of a workload appear once Kueue admits it.
 */
static void
tend_funded(KubeJob *job, int64_t now)
{
	bool		all = job->n == job->size;

	if (broken(job) || is_another(job))
	{
		job->stage = KUBE_DROPS;
		return;
	}
	for (int i = 0; i < job->n; i++)
	{
		KubePod    *pod = job->pods[i];
		bool		free_to_go = pod->kept && !pod->gated;

		all &= free_to_go;
		if (!free_to_go && PodMayChange(pod))
			PodRemoveGate(pod, job->id, job->held, job->chosen, job->wall_s);
	}
	if (all)
		job->stage = KUBE_STARTS;
	else
		start_together(job, now);
}

/*
 * Whether a pod of the job ended before it started, or is missing.
 */
static bool
broken(const KubeJob *job)
{
	for (int i = 0; i < job->n; i++)
	{
		const KubePod *pod = job->pods[i];

		/*
		 * The deletion of a bound pod does not count: it may still start
		 * before kubelet knows of the deletion.
		 */
		if (pod->started == 0 && (pod->gone || pod->over ||
								  (pod->deleting && pod->node == NULL)))
			return true;
	}
	return job->n < job->size &&
		!(job->stage == KUBE_FUNDED && JobAdmitted(job));
}

/*
 * Whether a pod selects another GPU type than the one that the job's credit
 * pays for.
 */
static bool
is_another(const KubeJob *job)
{
	for (int i = 0; i < job->n; i++)
	{
		const KubePod *pod = job->pods[i];

		if (pod->gated && pod->request.selected != NULL && job->type != NULL &&
			!TypeAmong(job->type, pod->request.selected))
			return true;
	}
	return false;
}

/*
 * Ends the job if one of its pods has started and not all have within
 * gang_wait_s.
 */
static void
start_together(KubeJob *job, int64_t now)
{
	bool		any = false;

	for (int i = 0; i < job->n; i++)
		any |= job->pods[i]->started != 0;
	if (any && job->seen_ns == 0)
		job->seen_ns = now;
	if (any && now - job->seen_ns > kube.gang_wait_s * NS_PER_S)
		JobEndPods(job, "the other pods of its gang did not start");
}

/*
 * Handles a job whose pods have no gate any more, and that kube-scheduler and
 * kubelet are starting.
 */
static void
tend_starting(KubeJob *job, int64_t now)
{
	if (broken(job))
	{
		job->stage = KUBE_DROPS;
		job->ends_pods = true;
		TextSet(&job->refusal, job->n < 2 ? "deleted: it ended before it"
				" started" : "deleted: a pod of its gang ended before it"
				" started");
	}
	else if (!JobReady(job))
		start_together(job, now);
	else
		leave_unknown_node(job, now);
	if (job->stage == KUBE_STARTS)
		report_waiting(job, now);
}

/*
 * Ends a job that runs on a node without a label for its GPU type, because it
 * cannot be billed. The label may appear late, so the job gets a moment.
 */
static void
leave_unknown_node(KubeJob *job, int64_t now)
{
	const char *node = PlaceUnknownNode(job);
	char	   *why;

	if (node == NULL)
		job->unknown_ns = 0;
	else if (job->unknown_ns == 0)
		job->unknown_ns = now;
	else if (now - job->unknown_ns > NODE_NEWS_NS)
	{
		why = Format("its node %s has no label %s", node, kube.type_label);
		LogLine("event=node_without_type org=%s job=%s node=%s", job->org,
				job->id, node);
		JobEndPods(job, why);
		free(why);
	}
}

/*
 * Reports once that a job's credit has been held for long although the job
 * does not run.
 */
static void
report_waiting(KubeJob *job, int64_t now)
{
	char	   *why;

	if (job->late || now - job->funded_ns < kube.held_alert_s * NS_PER_S)
		return;
	job->late = true;
	LogLine("event=held_not_placed org=%s job=%s held=%s seconds=%lld",
			job->org, job->id, job->held,
			(long long) ((now - job->funded_ns) / NS_PER_S));
	why = Format("waits: %s credits have been held for %ld s, and it does not"
				 " run", job->held, kube.held_alert_s);
	for (int i = 0; i < job->n; i++)
		if (job->pods[i]->started == 0)
			PodReportReason(job->pods[i], "CreditHeld", why);
	free(why);
}

/*
 * Handles a running job: stops it if it has to stop, and checks whether one of
 * its nodes is lost.
 */
static void
tend_running(KubeJob *job, int64_t now)
{
	bool		failed = false;
	bool		known = job->n > 0;

	job->lost = false;
	for (int i = 0; i < job->n; i++)
		known &= job->pods[i]->over && job->pods[i]->finished != 0;
	/* A pod that ended by itself needs no time to save its work. */
	for (int i = 0; i < job->n_shares && !known; i++)
	{
		KubeNode   *node = NodeFind(job->shares[i].node);

		if (node == NULL || node->gone ||
			(node->unready_ns != 0 &&
			 now - node->unready_ns > kube.node_lost_s * NS_PER_S))
			job->lost = true;
	}
	for (int i = 0; i < job->n; i++)
		failed |= job->pods[i]->failed || job->pods[i]->gone ||
			job->pods[i]->deleting;
	/* A workload's controller decides what the failure of a pod means. */
	if (failed && job->n > 1 && job->stop_reason == NULL &&
		job->workload == NULL)
	{
		TextSet(&job->stop_reason, "part_failed");
		job->stop_ns = now;
		job->grace_s = kube.stop_grace_s;
	}
	if (job->stop_ns == 0 || now < job->stop_ns)
		return;
	for (int i = 0; i < job->n; i++)
		if (!job->pods[i]->over && !job->pods[i]->deleting &&
			!job->pods[i]->stopped && PodMayChange(job->pods[i]))
		{
			char	   *why = Format("stopped: %s", job->stop_reason);

			PodReportReason(job->pods[i], "CreditEnds", why);
			free(why);
		}
	job->stopped = true;
	JobEvict(job, job->stop_reason);
	end_pods(job, job->grace_s);
}

static void
end_pods(KubeJob *job, long grace_s)
{
	for (int i = 0; i < job->n; i++)
		if (!job->pods[i]->over)
			PodDelete(job->pods[i], grace_s < 1 ? 1 : grace_s);
}

/*
 * Handles a settled or cancelled job: releases its pods. Those that still run
 * are deleted with the shortest grace period, as no credit pays for them any
 * more. Pods that still wait, after a gang broke or a pod changed before it
 * started, are considered again.
 */
static void
tend_over(KubeJob *job)
{
	for (int i = job->n - 1; i >= 0; i--)
	{
		KubePod    *pod = job->pods[i];

		if (pod->gone || (can_go(pod) && !pod->kept) ||
			(pod->over && UnpaidOwes(pod)))
			JobDetach(job, i);
		else if (pod->gated && !job->ends_pods)
			JobDetach(job, i);
		else if (pod->kept && (can_go(pod) || job->lost) && PodMayChange(pod))
			PodRemoveFinalizer(pod, job->billed);
		else if (!pod->over && !pod->deleting)
		{
			if (job->refusal != NULL && !pod->stopped)
				PodReportReason(pod, "CreditEnds", job->refusal);
			JobEvict(job, job->refusal == NULL ? "its job is over" :
					 job->refusal);
			PodDelete(pod, 1);
		}
		else if (!pod->over)
			PodDelete(pod, 1);
	}
}

/*
 * Whether a pod's finalizer can be removed: it holds no GPU, or is being
 * deleted on a node that is lost.
 */
static bool
can_go(const KubePod *pod)
{
	return pod->over || (pod->deleting && pod->started == 0) ||
		(pod->deleting && pod->job->lost);
}
