/*-------------------------------------------------------------------------
 *
 * job.c
 *		A pod, a gang of pods, or a workload, that is one job of gpucredit.
 *
 * A job has a stage.  JobsTurn() reads the last state of the watch and the
 * database, changes pods as the stage needs, and moves the stage on.  database.c
 * makes the database's calls that a stage needs.  Nothing is kept on disk:
 * after a restart DatabaseLoaded() finds each job's stage from the database and the
 * pods.
 *
 * A pod that was given credit carries our finalizer until it is settled, so
 * that the API server cannot forget when its containers ended.
 *
 *-------------------------------------------------------------------------
 */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pod_change.h"
#include "config.h"
#include "job.h"
#include "texts.h"
#include "util.h"

#define NODE_NEWS_NS	(2 * NS_PER_S)	/* the watch has brought them by then */

static KubeJob **jobs;
static void *numbered;			/* those that have a number, by that */
static int	n_jobs;
static int	room;

static KubeJob *new_job(void);
static void free_job(int i);
static void join(KubeJob *job, KubePod *pod);
static void consider(KubePod *pod, int64_t now);
static const char *refusal_of(const KubePod *pod);
static KubeWorkload *leader_of(const KubePod *pod);
static bool waits(const KubePod *pod);
static void gather(KubePod *pod, const char *org);
static void evict(KubeJob *job, const char *why);
static KubeJob *gathering(const KubePod *pod);
static void unpaid(KubePod *pod, const char *why);
static void complete(KubeJob *job);
static void ask(KubeJob *job, const PodRequest *request, const KubeSpace *space);
static int	by_uid(const void *a, const void *b);
static char *key_of(const KubeJob *job);
static void tend(KubeJob *job, int64_t now);
static void tend_waiting(KubeJob *job, int64_t now);
static void tend_funded(KubeJob *job, int64_t now);
static void start_together(KubeJob *job, int64_t now);
static void tend_starting(KubeJob *job, int64_t now);
static void tend_running(KubeJob *job, int64_t now);
static void tend_over(KubeJob *job);
static bool broken(const KubeJob *job);
static bool is_another(const KubeJob *job);
static bool can_go(const KubePod *pod);
static void detach(KubeJob *job, int i);
static void end_pods(KubeJob *job, long grace_s);

int
JobCount(void)
{
	return n_jobs;
}

KubeJob *
JobAt(int i)
{
	return jobs[i];
}

/*----------
 * The order of jobs in the search tree:
 *
 * 1. number of the job, as text;
 * 2. organisation.
 *----------
 */
static int
by_number(const void *a, const void *b)
{
	const KubeJob *one = a;
	const KubeJob *other = b;
	int			way = strcmp(one->id, other->id);

	return way != 0 ? way : strcmp(one->org, other->org);
}

KubeJob *
JobFind(const char *org, const char *id)
{
	KubeJob		sought = {.org = (char *) org, .id = (char *) id};
	void	   *found = tfind(&sought, &numbered, by_number);

	return found == NULL ? NULL : *(KubeJob **) found;
}

/*
 * Note the number that the database gave a job.
 */
void
JobName(KubeJob *job, const char *id)
{
	TextSet(&job->id, id);
	if (tsearch(job, &numbered, by_number) == NULL)
		Die("out of memory");
}

/*
 * A job without pods.
 */
static KubeJob *
new_job(void)
{
	KubeJob    *job = Alloc(sizeof(*job));

	if (n_jobs == room)
	{
		room = room == 0 ? 64 : 2 * room;
		jobs = realloc(jobs, room * sizeof(KubeJob *));
		if (jobs == NULL)
			Die("out of memory");
	}
	job->size = 1;
	jobs[n_jobs++] = job;
	return job;
}

/*
 * Forget a job; its pods are considered again.
 */
static void
free_job(int i)
{
	KubeJob    *job = jobs[i];

	while (job->n > 0)
		detach(job, job->n - 1);
	if (job->workload != NULL && job->workload->job == job)
		job->workload->job = NULL;
	jobs[i] = jobs[--n_jobs];
	if (job->id != NULL && JobFind(job->org, job->id) == job)
		tdelete(job, &numbered, by_number);
	for (int s = 0; s < job->n_shares; s++)
		free(job->shares[s].node);
	free(job->shares);
	free(job->pods);
	free(job->org);
	free(job->account);
	free(job->tier);
	free(job->type);
	free(job->chosen);
	free(job->key);
	free(job->id);
	free(job->attempt);
	free(job->held);
	free(job->billed);
	free(job->refusal);
	free(job->stop_reason);
	free(job);
}

static void
join(KubeJob *job, KubePod *pod)
{
	job->pods = realloc(job->pods, (job->n + 1) * sizeof(KubePod *));
	if (job->pods == NULL)
		Die("out of memory");
	job->pods[job->n++] = pod;
	pod->job = job;
}

static void
detach(KubeJob *job, int i)
{
	job->pods[i]->job = NULL;
	job->pods[i] = job->pods[--job->n];
}

/*
 * Reserve the credit of a workload that has quota.
 */
void
JobAdmit(KubeWorkload *workload, const char *org)
{
	KubeJob    *job = new_job();

	job->workload = workload;
	workload->job = job;
	TextSet(&job->org, org);
	complete(job);
}

/* is this the credit of its workload's present admission? */
bool
JobAdmitted(const KubeJob *job)
{
	char	   *key;
	bool		is;

	if (job->workload == NULL || WorkloadCheck(job->workload) == NULL)
		return false;
	key = WorkloadKey(job->workload);
	is = strcmp(job->key, key) == 0;
	free(key);
	return is;
}

/* does a job know of this workload? */
bool
JobFollows(const KubeWorkload *workload)
{
	for (int i = 0; i < n_jobs; i++)
		if (jobs[i]->workload == workload)
			return true;
	return false;
}

/*
 * Make the job that the database has for these pods or for a workload.  The
 * pods leave another job that is not reserved yet.
 */
KubeJob *
JobAdopt(KubePod **pods, int n, KubeWorkload *workload)
{
	KubeJob    *job = new_job();

	for (int i = 0; i < n; i++)
	{
		KubeJob    *other = pods[i]->job;

		for (int k = 0; other != NULL && k < other->n; k++)
			if (other->pods[k] == pods[i])
				detach(other, k--);
		join(job, pods[i]);
	}
	job->size = n;
	job->workload = workload;
	if (n > 0 || workload != NULL)
		complete(job);
	return job;
}

/*
 * Do what each job needs now.
 */
void
JobsTurn(void)
{
	int64_t		now = MonotonicNs();

	for (int i = PodCount() - 1; i >= 0; i--)
	{
		KubePod    *pod = PodAt(i);

		if (pod->job == NULL && pod->gone && pod->calls == 0)
			PodForget(pod);
		else if (pod->job == NULL)
			consider(pod, now);
	}
	for (int i = n_jobs - 1; i >= 0; i--)
	{
		KubeJob    *job = jobs[i];

		tend(job, now);
		if (job->n == 0 && !job->calling &&
			(job->stage == KUBE_OVER ||
			 (job->id == NULL && !JobAdmitted(job))))
			free_job(i);
	}
}

/*
 * Handle a pod without a job: it gets one if it waits for credit, and is
 * deleted if it runs without credit.
 */
static void
consider(KubePod *pod, int64_t now)
{
	KubeSpace  *space = SpaceFind(pod->space);
	bool		tenant = space != NULL && space->org != NULL;
	const char *why;

	if (pod->kept && (pod->deleting || pod->over))
	{
		if (PodMayChange(pod))
			PodRemoveFinalizer(pod, NULL);
	}
	else if (waits(pod))
	{
		why = tenant ? refusal_of(pod) :
			"refused: the namespace names no organisation";
		if (why != NULL && pod->gated)
			PodReportReason(pod, "CreditRefused", why);
		else if (why != NULL)
			unpaid(pod, why);
		else
			gather(pod, space->org);
	}
	else if (tenant && pod->request.gpus > 0 && !pod->deleting && !pod->over)
	{
		/* its list and the database's are of two instants */
		if (pod->unpaid_ns == 0)
			pod->unpaid_ns = now;
		if (now - pod->unpaid_ns > NS_PER_S)
			unpaid(pod, "deleted: it had no gate " GATE " and no credit");
	}
}

/*
 * The workload that a pod was admitted with; NULL: none that has credit.
 */
static KubeWorkload *
leader_of(const KubePod *pod)
{
	KubeWorkload *workload = WorkloadFind(pod->workload);

	return workload != NULL && workload->stop == NULL &&
		strcmp(workload->space, pod->space) == 0 &&
		WorkloadIn(workload, "Ready") ? workload : NULL;
}

/*
 * Does a pod wait for credit?  One that Kueue admitted waits without a gate,
 * and may be over by now.
 */
static bool
waits(const KubePod *pod)
{
	if (pod->gone || pod->deleting || (pod->over && pod->paid_by != NULL))
		return false;
	return (pod->gated && !pod->over) ||
		(pod->request.gpus > 0 && leader_of(pod) != NULL);
}

/*
 * Find the job of a pod: its workload's, if that lacks pods, or its gang's, or
 * one of its own.
 */
static void
gather(KubePod *pod, const char *org)
{
	KubeWorkload *workload = leader_of(pod);
	KubeJob    *job = workload == NULL ? NULL : workload->job;
	long		gpus = pod->request.gpus;

	for (int i = 0; job != NULL && i < job->n; i++)
		gpus += job->pods[i]->request.gpus;
	if (job != NULL && job->stage == KUBE_FUNDED && job->n < job->size &&
		gpus <= job->gpus)
	{
		join(job, pod);
		return;
	}
	job = workload == NULL ? gathering(pod) : NULL;
	if (job == NULL)
	{
		job = new_job();
		job->size = workload == NULL ? pod->request.gang_size : 1;
		TextSet(&job->org, org);
	}
	join(job, pod);
	if (job->n == job->size)
		complete(job);
}

/*
 * A workload or a pod of it lost its credit: have Kueue evict it.
 */
static void
evict(KubeJob *job, const char *why)
{
	KubeWorkload *workload = JobAdmitted(job) ? job->workload :
		job->workload == NULL && job->n > 0 && !job->pods[0]->gated ?
		leader_of(job->pods[0]) : NULL;

	if (workload == NULL || workload->stop != NULL)
		return;
	TextSet(&workload->stop, why);
	workload->for_good = job->for_good;
}

/*
 * What is wrong with a pod; NULL: nothing.  The text stays until the next.
 */
static const char *
refusal_of(const KubePod *pod)
{
	static char *text;

	if (pod->request.wrong == NULL && pod->request.gpus > 0)
		return NULL;
	free(text);
	text = pod->request.wrong != NULL ? Format("refused: %s", pod->request.wrong) :
		Format("refused: it asks for no %s", kube.resource);
	return text;
}

/*
 * The gang that a pod completes.
 */
static KubeJob *
gathering(const KubePod *pod)
{
	if (pod->request.gang == NULL)
		return NULL;
	for (int i = 0; i < n_jobs; i++)
		if (jobs[i]->stage == KUBE_GATHERS && jobs[i]->n > 0 &&
			jobs[i]->n < jobs[i]->size && jobs[i]->size == pod->request.gang_size &&
			strcmp(jobs[i]->pods[0]->space, pod->space) == 0 &&
			strcmp(jobs[i]->pods[0]->request.gang, pod->request.gang) == 0)
			return jobs[i];
	return NULL;
}

/*
 * Delete a pod that would run, or runs, without credit.
 */
static void
unpaid(KubePod *pod, const char *why)
{
	if (strcmp(kube.enforce, "yes") != 0)
		return;
	if (PodMayChange(pod) && !pod->stopped)
		PodReportReason(pod, "CreditMissing", why);
	PodDelete(pod, kube.stop_grace_s < 1 ? 1 : kube.stop_grace_s);
}

/*
 * All pods of a gang are there: add up their requests.
 */
static void
complete(KubeJob *job)
{
	KubeWorkload *workload = job->workload;
	KubePod    *first;
	PodRequest	request;

	if (workload != NULL)
	{
		job->size = WorkloadWish(workload, &request, NULL);
		ask(job, &request, SpaceFind(workload->space));
		PodRequestFree(&request);
		free(job->key);
		job->key = WorkloadKey(workload);
		return;
	}
	qsort(job->pods, job->n, sizeof(KubePod *), by_uid);
	first = job->pods[0];
	for (int i = 1; i < job->n; i++)
		if (first->request.gpus != job->pods[i]->request.gpus ||
			!PodRequestEqual(&first->request, &job->pods[i]->request))
		{
			JobRefuse(job, "the pods of a gang ask for the same", false);
			job->refusals = 0;
			job->again_ns = INT64_MAX;
			return;
		}
	ask(job, &first->request, SpaceFind(first->space));
	job->gpus = first->request.gpus * job->n;
	workload = leader_of(first);
	if (workload != NULL && first->request.wall_s == 0)
	{
		WorkloadWish(workload, &request, NULL);
		job->wall_s = request.wall_s == 0 ? kube.wall_s : request.wall_s;
		PodRequestFree(&request);
	}
	free(job->key);
	job->key = key_of(job);
}

/*
 * What a job asks the database for.
 */
static void
ask(KubeJob *job, const PodRequest *request, const KubeSpace *space)
{
	const char *above = space == NULL ? NULL : space->account;
	const char *below = request->account;

	free(job->account);
	job->account = above == NULL || *above == '\0' ?
		Dup(below == NULL ? "" : below) :
		below == NULL || *below == '\0' ? Dup(above) :
		Format("%s/%s", above, below);
	TextSet(&job->tier, request->tier == NULL ? kube.tier : request->tier);
	TextSet(&job->type, request->type);
	job->gpus = request->gpus;
	job->wall_s = request->wall_s == 0 ? kube.wall_s : request->wall_s;
	job->window_s = request->window_s;
	job->stage = KUBE_ASKS;
	job->again_ns = 0;
}

static int
by_uid(const void *a, const void *b)
{
	return strcmp((*(KubePod *const *) a)->uid, (*(KubePod *const *) b)->uid);
}

/*
 * A pod's key is its UID.  A gang's key is the smallest UID and a digest
 * (FNV-1a) of all, as a gang that lost a pod is another gang.
 */
static char *
key_of(const KubeJob *job)
{
	uint64_t	digest = UINT64_C(0xcbf29ce484222325);

	if (job->n == 1)
		return Dup(job->pods[0]->uid);
	for (int i = 0; i < job->n; i++)
		for (const char *c = job->pods[i]->uid; *c != '\0'; c++)
			digest = (digest ^ (unsigned char) *c) * UINT64_C(0x100000001b3);
	return Format("%s+%d-%016llx", job->pods[0]->uid, job->n - 1,
				  (unsigned long long) digest);
}

/*
 * The database refused: inform the owner, and ask again later, or at once
 * under a key that no earlier bridge has used.
 */
void
JobRefuse(KubeJob *job, const char *why, bool at_once)
{
	int64_t		pause = kube.retry_ms * NS_PER_MS;

	job->tries++;
	if (at_once)
	{
		if (job->tries < time(NULL))
			job->tries = time(NULL);
		return;
	}
	for (int i = 0; i < job->refusals && pause < 60 * NS_PER_S; i++)
		pause *= 2;
	job->refusals++;
	job->again_ns = MonotonicNs() + pause;
	job->stage = KUBE_REFUSED;
	free(job->refusal);
	job->refusal = Format("refused: %s", why);
}

/*
 * The job's credit is held.
 */
void
JobFunded(KubeJob *job)
{
	char	   *end;
	const char *choice = job->type;
	KubeNode   *any = NULL;

	job->stage = KUBE_FUNDED;
	job->again_ns = 0;
	free(job->chosen);
	job->chosen = NULL;
	/* of several types, the first that a node has */
	while (choice != NULL && any == NULL)
	{
		size_t		len = strcspn(choice, "|");

		for (int i = 0; i < NodeCount() && any == NULL; i++)
			if (NodeAt(i)->ready && strlen(NodeAt(i)->type) == len &&
				strncmp(NodeAt(i)->type, choice, len) == 0)
				any = NodeAt(i);
		choice = choice[len] == '|' ? choice + len + 1 : NULL;
	}
	if (any != NULL)
		job->chosen = Dup(any->type);
	else if (job->type != NULL)
	{
		job->chosen = Dup(job->type);
		end = strchr(job->chosen, '|');
		if (end != NULL)
			*end = '\0';
	}
}

/*
 * The job cannot go on: delete its pods and return its credit.
 */
void
JobEndPods(KubeJob *job, const char *why)
{
	char	   *text = Format("deleted: %s", why);

	job->stage = job->id == NULL ? KUBE_OVER : KUBE_DROPS;
	job->ends_pods = true;
	job->again_ns = 0;
	evict(job, why);
	free(job->refusal);
	job->refusal = text;
}

/*
 * Its attempt exists; its containers have run for ran_ns, as far as is known.
 */
void
JobBegin(KubeJob *job, int64_t ran_ns)
{
	job->stage = KUBE_RUNS;
	job->base_ns = ran_ns;
	job->since_ns = MonotonicNs();
	job->metered_ns = 0;
	job->again_ns = 0;
}

/*
 * Obey the database's order for a running job: stop at once, or within left_s.
 */
void
JobObey(KubeJob *job, const char *action, const char *reason, double left_s)
{
	bool		stop = strcmp(action, "stop") == 0;

	/* metered is what ran some seconds ago */
	int64_t		left = (left_s < kube.report_late_s ? 0 :
						left_s - kube.report_late_s) * NS_PER_S;
	int64_t		grace = kube.stop_grace_s * NS_PER_S;

	if (job->stopped || job->stage != KUBE_RUNS)
		return;
	if (strcmp(action, "continue") == 0)
		job->stop_ns = 0;
	job->for_good |= strcmp(reason, "cancelled") == 0;
	if ((!stop && strcmp(action, "checkpoint") != 0) ||
		(!stop && strcmp(reason, "periodic") == 0))
		return;
	TextSet(&job->stop_reason, reason);
	job->stop_ns = MonotonicNs() + (stop || left < grace ? 0 : left - grace);
	job->grace_s = stop || left > grace ? kube.stop_grace_s : left / NS_PER_S;
}

/* must the bridge make its attempt? */
bool
JobReady(KubeJob *job)
{
	for (int i = 0; i < job->n; i++)
		if (job->pods[i]->started == 0 || job->pods[i]->node == NULL)
			return false;
	return job->n > 0;
}

/* must the bridge settle it? */
bool
JobEnded(KubeJob *job)
{
	bool		all = true;
	bool		all_reported = true;

	for (int i = 0; i < job->n; i++)
	{
		all &= job->pods[i]->over || job->pods[i]->gone;
		all_reported &= job->pods[i]->over && job->pods[i]->finished != 0;
	}
	if (!all)
		job->ended_ns = 0;
	else if (job->ended_ns == 0)
		job->ended_ns = MonotonicNs();
	/* if kubelet reported no end, news of its node may be under way */
	return job->lost ||
		(all && (all_reported || MonotonicNs() - job->ended_ns > NODE_NEWS_NS));
}

/*
 * Do what one job needs now.
 */
static void
tend(KubeJob *job, int64_t now)
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
 * Of pods without credit, those that left the queue leave the job, and one
 * that lost its gate is deleted.
 */
static void
tend_waiting(KubeJob *job, int64_t now)
{
	bool		whole = true;

	for (int i = job->n - 1; i >= 0; i--)
	{
		KubePod    *pod = job->pods[i];

		/* the reason of the refusal may be gone */
		if (pod->fresh && job->refusals == 0)
			job->again_ns = 0;
		pod->fresh = false;
		if (waits(pod))
			continue;
		whole = false;
		detach(job, i);
	}
	if (!whole && job->stage != KUBE_GATHERS)
	{
		/* the other pods are considered again */
		while (job->n > 0)
			detach(job, job->n - 1);
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
	if (job->n > 0 && refusal_of(job->pods[0]) != NULL)
		detach(job, 0);
	else
		complete(job);
}

/*
 * Ungate the pods.  Those of a workload come once Kueue admits it.
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
 * Did a pod end before it started, or is one missing?
 */
static bool
broken(const KubeJob *job)
{
	for (int i = 0; i < job->n; i++)
	{
		const KubePod *pod = job->pods[i];

		/* a bound pod may start before kubelet learns of its deletion */
		if (pod->started == 0 && (pod->gone || pod->over ||
								  (pod->deleting && pod->node == NULL)))
			return true;
	}
	return job->n < job->size &&
		!(job->stage == KUBE_FUNDED && JobAdmitted(job));
}

/*
 * Does a pod select another GPU type than its credit pays for?
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
 * Once one pod of a job has started, all must start, or all end.
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
 * Scheduler and kubelet are at work.  All pods of a gang must start.
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
}

/*
 * Stop it, if it has to stop; see whether a node is lost.
 */
static void
tend_running(KubeJob *job, int64_t now)
{
	bool		failed = false;
	bool		known = job->n > 0;

	job->lost = false;
	for (int i = 0; i < job->n; i++)
		known &= job->pods[i]->over && job->pods[i]->finished != 0;
	/* a pod that ended by itself needs no time to save */
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
	/* a workload's owner decides what a failure means */
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
	evict(job, job->stop_reason);
	end_pods(job, job->grace_s);
}

static void
end_pods(KubeJob *job, long grace_s)
{
	for (int i = 0; i < job->n; i++)
		if (!job->pods[i]->over && !job->pods[i]->deleting)
			PodDelete(job->pods[i], grace_s < 1 ? 1 : grace_s);
}

/*
 * Release a job's pods.  Those whose credit ended are deleted.  If a gang
 * broke or a pod changed before it started, waiting pods are considered again.
 */
static void
tend_over(KubeJob *job)
{
	for (int i = job->n - 1; i >= 0; i--)
	{
		KubePod    *pod = job->pods[i];

		if (pod->gone || (can_go(pod) && !pod->kept))
			detach(job, i);
		else if (pod->gated && !job->ends_pods)
			detach(job, i);
		else if (pod->kept && (can_go(pod) || job->lost) && PodMayChange(pod))
			PodRemoveFinalizer(pod, job->billed);
		else if (!pod->over && !pod->deleting)
		{
			if (job->refusal != NULL && !pod->stopped)
				PodReportReason(pod, "CreditEnds", job->refusal);
			evict(job, job->refusal == NULL ? "its job is over" :
				  job->refusal);
			PodDelete(pod, kube.stop_grace_s < 1 ? 1 : kube.stop_grace_s);
		}
	}
}

/* it holds no GPU, or the API server will forget it */
static bool
can_go(const KubePod *pod)
{
	return pod->over || (pod->deleting && pod->started == 0) ||
		(pod->deleting && pod->job->lost);
}
