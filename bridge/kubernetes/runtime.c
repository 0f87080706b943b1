/*-------------------------------------------------------------------------
 *
 * runtime.c
 *		Determines how long a job ran, by clocks that may differ.
 *
 * Kubelet reports when containers started and ended, by its node's clock, in
 * whole seconds. So the length of a pod's run is right even if the node's
 * clock is wrong. If the bridge saw the pod start, it uses its own monotonic
 * clock and compares no two clocks. If the bridge was not running then, it
 * assumes that the clocks agree within CLOCKS_DIFFER_S. It then reports the
 * earliest possible start, as the database accepts no run longer than the time
 * since the start, and the lowest possible use, as metered use cannot be taken
 * back.
 *-------------------------------------------------------------------------
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "config.h"
#include "leader.h"
#include "runtime.h"

#define CLOCKS_DIFFER_S	60

static int64_t first_begin(const KubeJob *job);
static long may_have_run(const KubeJob *job);
static time_t first_start(const KubeJob *job);
static time_t last_finish(const KubeJob *job);

/*
 * Returns when the first of the job's pods was seen to start, or 0 if the
 * bridge missed the start of any.
 */
static int64_t
first_begin(const KubeJob *job)
{
	int64_t		first = 0;

	for (int i = 0; i < job->n; i++)
	{
		int64_t		at = job->pods[i]->began_ns;

		if (at == 0)
			return 0;
		if (first == 0 || at < first)
			first = at;
	}
	return first;
}

/*
 * Returns the longest time in seconds that the first pod may have run, by when
 * it was last seen waiting.
 */
static long
may_have_run(const KubeJob *job)
{
	int64_t		idle = 0;

	for (int i = 0; i < job->n; i++)
	{
		int64_t		at = job->pods[i]->idle_ns;

		if (at == 0)
			return LONG_MAX;
		if (idle == 0 || at < idle)
			idle = at;
	}
	return (MonotonicNs() - idle + NS_PER_S) / NS_PER_S;
}

static time_t
first_start(const KubeJob *job)
{
	time_t		first = 0;

	for (int i = 0; i < job->n; i++)
	{
		time_t		at = job->pods[i]->started;

		if (at != 0 && (first == 0 || at < first))
			first = at;
	}
	return first;
}

static time_t
last_finish(const KubeJob *job)
{
	time_t		last = 0;

	for (int i = 0; i < job->n; i++)
		if (job->pods[i]->finished > last)
			last = job->pods[i]->finished;
	return last;
}

/*
 * Returns the time that the job has certainly run when its attempt is created,
 * without earlier attempts.
 */
int64_t
JobRuntimeAtLeastNs(const KubeJob *job)
{
	int64_t		begin = first_begin(job);
	long		most = may_have_run(job);
	long		by_clock = time(NULL) - first_start(job) - CLOCKS_DIFFER_S;
	int64_t		ran = begin != 0 ? MonotonicNs() - begin :
		(by_clock < most ? by_clock : most) * NS_PER_S;

	ran -= job->settled_s * NS_PER_S;
	return ran < 0 ? 0 : ran;
}

/*
 * Returns the longest time that the job may have run by now.
 */
long
JobRuntimeAtMostSeconds(const KubeJob *job)
{
	int64_t		begin = first_begin(job);
	time_t		started = first_start(job);
	long		length = last_finish(job) - started;
	long		most = may_have_run(job);
	long		ran;

	if (begin != 0)
		ran = (MonotonicNs() - begin + NS_PER_S) / NS_PER_S;
	else
		ran = time(NULL) - started + CLOCKS_DIFFER_S;
	if (ran > most)
		ran = most;
	if (ran < length)
		ran = length;
	ran -= job->settled_s;
	return ran < 0 ? 0 : ran;
}

/*
 * Returns how long a running job has run by the bridge's monotonic clock. It
 * counts until the API server last answered, kubelets reported on the job's
 * pods, and its nodes were ready, whichever is earliest.
 */
int64_t
JobRuntimeNowNs(const KubeJob *job)
{
	int64_t		until = LeaderHeardNs();
	int64_t		watched = WatchReportedNs(&pod_watch);

	if (watched < until)
		until = watched;

	if (job->ended_ns != 0 && job->ended_ns < until)
		until = job->ended_ns;
	for (int i = 0; i < job->n_shares; i++)
	{
		KubeNode   *node = NodeFind(job->shares[i].node);

		if (node != NULL && node->unready_ns != 0 && node->unready_ns < until)
			until = node->unready_ns;
	}
	return job->base_ns + (until > job->since_ns ? until - job->since_ns : 0);
}

/*
 * Returns how much of the run time to meter, which is the least that is
 * billed. It is shorter than the time so far, because kubelet truncates to
 * seconds and reports an end late.
 */
int64_t
JobRuntimeMeteredNs(const KubeJob *job)
{
	int64_t		ran = JobRuntimeNowNs(job) - kube.report_late_s * NS_PER_S;

	return ran > 0 ? ran : 0;
}

/*
 * Returns how long an ended job ran, from the first start to the last end.
 * Pods on several nodes have several clocks. If the clocks differ, each pod
 * counts from when the bridge saw it start, for as long as its node reports.
 */
long
JobRuntimeSeconds(const KubeJob *job)
{
	time_t		started = first_start(job);
	int64_t		begin = first_begin(job);
	long		by_stamps = last_finish(job) - started;
	long		by_ours = 0;
	long		ran;
	bool		one_clock = true;

	for (int i = 0; i < job->n; i++)
	{
		const KubePod *pod = job->pods[i];
		long		after = (pod->began_ns - begin) / NS_PER_S;
		long		length = after + pod->finished - pod->started;

		one_clock &= pod->node != NULL && job->pods[0]->node != NULL &&
			strcmp(pod->node, job->pods[0]->node) == 0;
		if (length > by_ours)
			by_ours = length;
	}
	ran = one_clock || begin == 0 || labs(by_stamps - by_ours) <= 2 ?
		by_stamps : by_ours;
	return ran > job->settled_s ? ran - job->settled_s : 0;
}
