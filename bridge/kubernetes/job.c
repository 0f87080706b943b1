/*-------------------------------------------------------------------------
 *
 * job.c
 *		A pod, a gang of pods, or a workload, which is one job of gpucredit.
 *
 * A job has a stage. JobsTurn() reads the newest state of the watch and the
 * database, and job_stage.c changes pods as the stage requires, and advances
 * the stage.
 * database.c makes the calls of the database that a stage requires. The bridge
 * keeps no state on disk: after a restart it determines each job's stage from
 * the database and the pods.
 *
 * A pod that was given credit carries the bridge's finalizer until it is
 * settled, so that the API server cannot delete the pod, and with it the time
 * when its containers ended.
 *-------------------------------------------------------------------------
 */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

static KubeJob **jobs;
static void *numbered;			/* search tree of the jobs that have a number
								 * in the database */
static int	n_jobs;
static int	room;

static KubeJob *new_job(void);
static void free_job(int i);
static void join(KubeJob *job, KubePod *pod);
static void consider(KubePod *pod, int64_t now);
static KubeWorkload *leader_of(const KubePod *pod);
static void gather(KubePod *pod, const char *org);
static KubeJob *gathering(const KubePod *pod);
static void ask(KubeJob *job, const PodRequest *request, const KubeSpace *space);
static int	by_uid(const void *a, const void *b);
static char *key_of(const KubeJob *job);

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
 *  1. number of the job, as text;
 *  2. organisation.
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
 * Stores the number that the database gave a job, and adds the job to the
 * search tree.
 */
void
JobName(KubeJob *job, const char *id)
{
	TextSet(&job->id, id);
	if (tsearch(job, &numbered, by_number) == NULL)
		Die("out of memory");
}

/*
 * Adds a job without pods.
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
 * Removes a job. Its pods are considered again by the next JobsTurn().
 */
static void
free_job(int i)
{
	KubeJob    *job = jobs[i];

	while (job->n > 0)
		JobDetach(job, job->n - 1);
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

void
JobDetach(KubeJob *job, int i)
{
	job->pods[i]->job = NULL;
	job->pods[i] = job->pods[--job->n];
}

/*
 * Creates the job that reserves the credit of a workload that has quota.
 */
void
JobAdmit(KubeWorkload *workload, const char *org)
{
	KubeJob    *job = new_job();

	job->workload = workload;
	workload->job = job;
	TextSet(&job->org, org);
	JobComplete(job);
}

/* Whether the job holds the credit for its workload's present admission. */
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

/* Whether any job refers to this workload. */
bool
JobFollows(const KubeWorkload *workload)
{
	for (int i = 0; i < n_jobs; i++)
		if (jobs[i]->workload == workload)
			return true;
	return false;
}

/*
 * Creates the job that the database has for these pods or for a workload. Pods
 * that belonged to a job that was not reserved yet leave it.
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
				JobDetach(other, k--);
		join(job, pods[i]);
	}
	job->size = n;
	job->workload = workload;
	if (n > 0 || workload != NULL)
		JobComplete(job);
	return job;
}

/*
 * Does what each job needs now.
 */
void
JobsTurn(void)
{
	int64_t		now = MonotonicNs();

	for (int i = PodCount() - 1; i >= 0; i--)
	{
		KubePod    *pod = PodAt(i);

		if (pod->job == NULL && pod->gone && pod->calls == 0 && !UnpaidOwes(pod) &&
			!pod->charging)
			PodForget(pod);
		else if (pod->job == NULL)
			consider(pod, now);
	}
	for (int i = n_jobs - 1; i >= 0; i--)
	{
		KubeJob    *job = jobs[i];

		JobTend(job, now);
		if (job->n == 0 && !job->calling &&
			(job->stage == KUBE_OVER ||
			 (job->id == NULL && !JobAdmitted(job))))
			free_job(i);
	}
}

/*
 * Handles a pod without a job: it gets a job if it waits for credit, and is
 * deleted if it runs without credit.
 */
static void
consider(KubePod *pod, int64_t now)
{
	KubeSpace  *space = SpacePaying(pod);
	bool		tenant = space != NULL;
	const char *why;

	if (pod->kept && (pod->over || (pod->deleting && !UnpaidOwes(pod))))
	{
		if (PodMayChange(pod) && !UnpaidOwes(pod) && !pod->charging)
			PodRemoveFinalizer(pod, NULL);
	}
	else if (JobPodWaits(pod))
	{
		why = tenant ? JobRefusalOf(pod) :
			"refused: the namespace names no organisation";
		if (why != NULL && pod->gated)
			PodReportReason(pod, "CreditRefused", why);
		else if (why != NULL)
			UnpaidDelete(pod, why);
		else
			gather(pod, space->org);
	}
	else if (tenant && pod->request.devices && !pod->over && !pod->gone)
	{
		/*
		 * A pod with the bridge's finalizer or a workload's annotation may
		 * have been paid: the lists of pods and of the database's jobs are
		 * read at different times, so it gets a second.
		 */
		if (pod->unpaid_ns == 0)
			pod->unpaid_ns = now;
		if ((!pod->kept && pod->workload == NULL) ||
			now - pod->unpaid_ns > NS_PER_S)
			UnpaidDelete(pod, pod->request.wrong != NULL ? JobRefusalOf(pod) :
						 "deleted: it had no gate " GATE " and no credit");
	}
}

/*
 * Returns the workload that a pod was admitted with, or NULL if it has none
 * with credit.
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
 * Whether a pod waits for credit. A pod that Kueue admitted waits without a
 * gate, and may have ended already.
 */
bool
JobPodWaits(const KubePod *pod)
{
	if (pod->gone || pod->deleting || (pod->over && pod->paid_by != NULL))
		return false;
	return (pod->gated && !pod->over) ||
		(pod->request.gpus > 0 && leader_of(pod) != NULL);
}

/*
 * Finds the job of a pod: the job of its workload if that lacks pods, or the
 * job of its gang, or a new one for the pod alone.
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
		JobComplete(job);
}

/*
 * Makes Kueue evict a workload that lost its credit, or one of whose pods did.
 */
void
JobEvict(KubeJob *job, const char *why)
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
 * Returns what is wrong with a pod, or NULL if nothing is. The text is valid
 * until the next call.
 */
const char *
JobRefusalOf(const KubePod *pod)
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
 * Finds the incomplete gang that a pod belongs to, or returns NULL.
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
 * Prepares the reservation of a job whose pods are all known: adds up their
 * requests.
 */
void
JobComplete(KubeJob *job)
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
 * Sets what the job requests from the database.
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
	job->end_s = request->grace_s;
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
 * Builds the job's idempotency key. A pod's key is its UID. A gang's key is
 * the smallest UID and a digest (FNV-1a) of all UIDs, because a gang that lost
 * a pod is another gang.
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
 * Handles a refusal by the database: reports it to the owner and tries again
 * after a pause, or at once under a key that no earlier bridge has used.
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
 * Advances a job whose credit is held.
 */
void
JobFunded(KubeJob *job)
{
	char	   *end;
	const char *choice = job->type;
	KubeNode   *any = NULL;

	job->stage = KUBE_FUNDED;
	job->again_ns = 0;
	job->funded_ns = MonotonicNs();
	free(job->chosen);
	job->chosen = NULL;
	/* Of several types, take the first that a node has. */
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
 * Ends a job that cannot continue: its pods are deleted and its credit is
 * released.
 */
void
JobEndPods(KubeJob *job, const char *why)
{
	char	   *text = Format("deleted: %s", why);

	job->stage = job->id == NULL ? KUBE_OVER : KUBE_DROPS;
	job->ends_pods = true;
	job->again_ns = 0;
	JobEvict(job, why);
	free(job->refusal);
	job->refusal = text;
}

/*
 * Advances a job that has an attempt. "ran_ns" is how long its containers are
 * known to have run.
 */
void
JobBegin(KubeJob *job, int64_t ran_ns)
{
	job->stage = KUBE_RUNS;
	job->base_ns = ran_ns;
	job->since_ns = MonotonicNs();
	job->metered_ns = 0;
	job->again_ns = 0;
	for (int i = 0; i < job->n; i++)
		job->pods[i]->paid = true;
}

/*
 * Executes a directive of the database for a running job: to stop at once, or
 * within left_s seconds.
 */
void
JobObey(KubeJob *job, const char *action, const char *reason, double left_s)
{
	bool		stop = strcmp(action, "stop") == 0;

	/* The metered time is report_late_s behind the real time. */
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

/*
 * Whether all pods of the job have started and are bound, so that the bridge
 * must create its attempt.
 */
bool
JobReady(KubeJob *job)
{
	for (int i = 0; i < job->n; i++)
		if (job->pods[i]->started == 0 || job->pods[i]->node == NULL)
			return false;
	return job->n > 0;
}

/* Whether the pods have ended, so that the bridge must settle the job. */
bool
JobEnded(KubeJob *job)
{
	bool		all = true;
	bool		all_reported = true;

	for (int i = 0; i < job->n; i++)
	{
		all &= job->pods[i]->over || PodEnded(job->pods[i]);
		all_reported &= job->pods[i]->over && job->pods[i]->finished != 0;
	}
	if (!all)
		job->ended_ns = 0;
	else if (job->ended_ns == 0)
		job->ended_ns = MonotonicNs();

	/*
	 * If kubelet has not reported all ends, wait, as its report may be under
	 * way.
	 */
	return job->lost ||
		(all && (all_reported || MonotonicNs() - job->ended_ns > NODE_NEWS_NS));
}
