/*-------------------------------------------------------------------------
 *
 * admit.c
 *		Sets the state of the bridge's AdmissionChecks on Kueue's workloads.
 *
 * Kueue reserves quota for a workload and adds the bridge's check in state
 * Pending. The bridge reserves the workload's credit and sets the check to
 * Ready: Kueue then starts the pods, with the node selector and the annotation
 * that podSetUpdates contains. Without credit the check stays Pending, with
 * the reason as its message. If the credit is lost later, the bridge sets the
 * check to Retry, and Kueue evicts the workload and queues it again; or to
 * Rejected, and Kueue deactivates the workload.
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "admit.h"
#include "api.h"
#include "clock.h"
#include "config.h"
#include "document.h"
#include "job.h"
#include "log.h"
#include "memory.h"

#define NEWS_LATE	(2 * NS_PER_S)	/* time after a change by which the watch
									 * has delivered the new version */

static void activate(KubeCheck *check);
static void activated(long status, json_t * body, void *context);
static void admit(KubeWorkload *workload);
static void admit_pending(KubeWorkload *workload);
static void admit_new(KubeWorkload *workload);
static json_t * updates_of(const KubeWorkload *workload, json_t * names);
static void set_check(KubeWorkload *workload, const char *state,
					  const char *message, json_t * updates);
static void check_answer(long status, json_t * body, void *context);
static json_t * now_text(void);

/*
 * Makes the calls of the API server that workloads and checks need now.
 */
void
AdmitTurn(void)
{
	int64_t		now = MonotonicNs();

	for (int i = 0; i < CheckCount(); i++)
	{
		KubeCheck  *check = CheckAt(i);

		if (check->ours && !check->active && check->calls == 0 &&
			now >= check->again_ns)
			activate(check);
	}
	for (int i = WorkloadCount() - 1; i >= 0; i--)
	{
		KubeWorkload *workload = WorkloadAt(i);

		if (workload->job != NULL && !JobAdmitted(workload->job))
			workload->job = NULL;	/* the job belonged to an earlier
									 * admission */
		if (workload->calls > 0 || now < workload->again_ns)
			continue;
		if (workload->gone && !JobFollows(workload))
			WorkloadForget(workload);
		else
			admit(workload);
	}
}

/*
 * Sets a check's condition Active. Kueue keeps the ClusterQueues that use the
 * check inactive until then.
 */
static void
activate(KubeCheck *check)
{
	char	   *path = Format(KUEUE_GROUP "%s/admissionchecks/%s/status",
							  kube.kueue, check->name);
	json_t	   *rest = json_array();
	json_t	   *one;
	size_t		i;

	json_array_foreach(DocumentGet(check->object, "status", "conditions"), i,
					   one)
	{
		const char *type = DocumentText(one, "type");

		if (type != NULL && strcmp(type, "Active") != 0)
			json_array_append(rest, one);
	}
	json_array_append_new(rest, json_pack("{s:s,s:s,s:s,s:s,s:o}", "type",
										  "Active", "status", "True",
										  "reason", "Active", "message",
										  "gpucredit-bridge checks credit",
										  "lastTransitionTime", now_text()));
	check->calls++;
	check->again_ns = INT64_MAX;
	ApiCall("PATCH", path, API_MERGE,
			json_pack("{s:{s:O},s:{s:o}}", "metadata", "resourceVersion",
					  DocumentGet(check->object, "metadata",
								  "resourceVersion"), "status", "conditions",
					  rest), activated, check);
	free(path);
}

static void
activated(long status, json_t * body, void *context)
{
	KubeCheck  *check = context;

	check->calls--;
	if (check->again_ns == INT64_MAX)
		check->again_ns = MonotonicNs() + NEWS_LATE;
	if (status != 200 && status != 0 && status != 404 && status != 409)
		LogLine("event=check_refused check=%s status=%ld error=\"%.300s\"",
				check->name, status, ApiProblem(body));
}

/*
 * Sets the bridge's check of one workload, if its state has changed.
 */
static void
admit(KubeWorkload *workload)
{
	bool		pending = WorkloadIn(workload, "Pending");

	if (workload->stop != NULL && (pending || WorkloadIn(workload, "Ready")))
		set_check(workload, workload->for_good ? "Rejected" : "Retry",
				  workload->stop, NULL);
	else if (pending)
		admit_pending(workload);
}

/*
 * Handles a workload that has quota and waits for credit.
 */
static void
admit_pending(KubeWorkload *workload)
{
	KubeJob    *job = workload->job;

	if (job == NULL)
		admit_new(workload);
	else if (job->stage == KUBE_REFUSED)
		set_check(workload, job->for_good ? "Rejected" : "Pending", job->refusal,
				  NULL);
	else if (job->stage == KUBE_FUNDED)
	{
		json_t	   *names = json_array();
		PodRequest	request;
		char	   *text = Format("funded: %s credits are held", job->held);

		WorkloadWish(workload, &request, names);
		set_check(workload, "Ready", text, updates_of(workload, names));
		PodRequestFree(&request);
		json_decref(names);
		free(text);
	}
}

/*
 * Handles a workload that has just got quota: reserves its credit, or reports
 * why that is impossible.
 */
static void
admit_new(KubeWorkload *workload)
{
	KubeSpace  *space = SpaceFind(workload->space);
	PodRequest	request;
	int			pods = WorkloadWish(workload, &request, NULL);
	char	   *text = NULL;

	if (space == NULL || space->org == NULL)
		set_check(workload, "Pending",
				  "refused: the namespace names no organisation", NULL);
	else if (request.wrong != NULL)
	{
		text = Format("refused: %s", request.wrong);
		set_check(workload, "Rejected", text, NULL);
	}
	else if (pods == 0)
	{
		text = Format("it asks for no %s", kube.resource);
		set_check(workload, "Ready", text, NULL);
	}
	else
		JobAdmit(workload, space->org);
	free(text);
	PodRequestFree(&request);
}

/*
 * Builds what Kueue adds to the pods: the uid of their workload, and a node
 * selector for the type that the credit pays for.
 */
static json_t *
updates_of(const KubeWorkload *workload, json_t * names)
{
	json_t	   *updates = json_array();
	json_t	   *name;
	size_t		i;

	json_array_foreach(names, i, name)
	{
		json_t	   *one = json_pack("{s:O,s:{s:s}}", "name", name,
									"annotations", WORD("workload"),
									workload->uid);

		if (workload->job->chosen != NULL)
			json_object_set_new(one, "nodeSelector",
								json_pack("{s:s}", kube.type_label,
										  workload->job->chosen));
		json_array_append_new(updates, one);
	}
	return updates;
}

/*
 * Changes the bridge's entry among the workload's checks, unless the workload
 * has changed meanwhile. The function takes ownership of "updates".
 */
static void
set_check(KubeWorkload *workload, const char *state, const char *message,
		  json_t * updates)
{
	json_t	   *ours = WorkloadCheck(workload);
	const char *before = DocumentText(ours, "message");
	bool		moves = !WorkloadIn(workload, state);
	json_t	   *checks;
	json_t	   *entry;
	json_t	   *one;
	size_t		i;
	char	   *path;

	if (!moves && before != NULL && strcmp(before, message) == 0)
	{
		json_decref(updates);
		return;
	}
	entry = json_copy(ours);
	json_object_set_new(entry, "state", json_string(state));
	json_object_set_new(entry, "message", json_string(message));
	if (moves)
		json_object_set_new(entry, "lastTransitionTime", now_text());
	json_object_del(entry, "podSetUpdates");
	json_object_del(entry, "requeueAfterSeconds");
	if (updates != NULL)
		json_object_set_new(entry, "podSetUpdates", updates);
	if (strcmp(state, "Retry") == 0)
		json_object_set_new(entry, "requeueAfterSeconds",
							json_integer((kube.retry_ms + 999) / 1000));
	checks = json_array();
	json_array_foreach(DocumentGet(workload->object, "status",
								   "admissionChecks"), i, one)
	{
		json_array_append(checks, one == ours ? entry : one);
	}
	json_decref(entry);
	if (moves && strcmp(state, "Ready") != 0)
		LogLine("event=workload_%s workload=%s/%s reason=\"%.300s\"",
				strcmp(state, "Retry") == 0 ? "evicted" : "rejected",
				workload->space, workload->name, message);
	path = Format(KUEUE_GROUP "%s/namespaces/%s/workloads/%s/status",
				  kube.kueue, workload->space, workload->name);
	workload->calls++;
	workload->again_ns = INT64_MAX;
	ApiCall("PATCH", path, API_MERGE,
			json_pack("{s:{s:s,s:O},s:{s:o}}", "metadata", "uid",
					  workload->uid, "resourceVersion",
					  DocumentGet(workload->object, "metadata",
								  "resourceVersion"), "status",
					  "admissionChecks", checks), check_answer, workload);
	free(path);
}

/*
 * Handles the answer. After 409 and 404, the watch delivers the newer state.
 */
static void
check_answer(long status, json_t * body, void *context)
{
	KubeWorkload *workload = context;

	workload->calls--;
	if (workload->again_ns == INT64_MAX)
		workload->again_ns = MonotonicNs() + NEWS_LATE;
	if (status != 200 && status != 0 && status != 404 && status != 409)
		LogLine("event=workload_refused workload=%s/%s status=%ld"
				" error=\"%.300s\"", workload->space, workload->name, status,
				ApiProblem(body));
}

static json_t *
now_text(void)
{
	char		text[32];
	time_t		at = time(NULL);
	struct tm	tm;

	gmtime_r(&at, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	return json_string(text);
}
