/*-------------------------------------------------------------------------
 *
 * pod_change.c
 *		What the bridge does to pods: ungate, annotate, delete, release.
 *
 * Each change of a pod is a merge patch that names the version it was decided
 * on.  The API server refuses it (409) if another client was faster.  Then the
 * watch brings the newer version, and the bridge decides again.  So answers
 * change no state here: only the watch shows what was done.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pod_change.h"
#include "api.h"
#include "config.h"
#include "texts.h"
#include "util.h"

#define NEWS_LATE	(2 * NS_PER_S)	/* the watch has brought them by then */

static char *pod_path(const KubePod *pod);
static void patch(KubePod *pod, json_t * metadata, json_t * spec);
static void changed(long status, json_t * body, void *context);
static void deleted(long status, json_t * body, void *context);
static void ignore_event_answer(long status, json_t * body, void *context);
static json_t * without(json_t * list, const char *name, const char *what);

/* is no call under way, and is the newest version known? */
bool
PodMayChange(const KubePod *pod)
{
	return pod->calls == 0 && !pod->gone && MonotonicNs() >= pod->again_ns;
}

static char *
pod_path(const KubePod *pod)
{
	return Format("/api/v1/namespaces/%s/pods/%s", pod->space, pod->name);
}

/*
 * Change a pod, if it is still as it is known; takes over what it gets.
 */
static void
patch(KubePod *pod, json_t * metadata, json_t * spec)
{
	char	   *path = pod_path(pod);
	json_t	   *body = json_pack("{s:o}", "metadata", metadata);

	json_object_set_new(metadata, "resourceVersion",
						json_string(pod->version));
	json_object_set_new(metadata, "uid", json_string(pod->uid));
	if (spec != NULL)
		json_object_set_new(body, "spec", spec);
	pod->calls++;
	pod->again_ns = INT64_MAX;
	ApiCall("PATCH", path, API_MERGE, body, changed, pod);
	free(path);
}

/*
 * After 409 and 404 the watch brings the newer state.  Any other refusal would
 * come again.
 */
static void
changed(long status, json_t * body, void *context)
{
	KubePod    *pod = context;
	bool		good = status == 200 || status == 409 || status == 404;

	pod->calls--;
	if (pod->again_ns == INT64_MAX)
		pod->again_ns = MonotonicNs() + NEWS_LATE;
	if (status == 404)
		pod->gone = true;
	if (good || status == 0)
		return;
	LogLine("event=pod_refused pod=%s/%s status=%ld error=\"%.300s\"",
			pod->space, pod->name, status, ApiProblem(body));
	if (!pod->kept && status == 422)
		pod->refused = true;
}

/*
 * Ungate a pod whose credit is held: for nodes of the priced type, and no
 * longer than the credit lasts.  A pod that Kueue admitted has no gate of
 * ours.
 */
void
PodRemoveGate(KubePod *pod, const char *job, const char *held, const char *type,
			  long wall_s)
{
	json_t	   *kept = json_is_array(pod->finalizers) ?
		json_copy(pod->finalizers) : json_array();
	char	   *status = Format("funded: %s credits are held", held);
	json_t	   *spec;

	if (!pod->kept)
		json_array_append_new(kept, json_string(FINALIZER));
	spec = json_object();
	if (pod->gated)
		json_object_set_new(spec, "schedulingGates",
							without(pod->gates, "name", GATE));
	if (pod->gated && type != NULL && pod->request.selected == NULL)
		json_object_set_new(spec, "nodeSelector",
							json_pack("{s:s}", kube.type_label, type));
	if (pod->request.deadline_s == 0 || pod->request.deadline_s > wall_s)
		json_object_set_new(spec, "activeDeadlineSeconds",
							json_integer(wall_s));
	patch(pod, json_pack("{s:o,s:{s:s,s:s}}", "finalizers", kept,
						 "annotations", WORD("job"), job, WORD("status"),
						 status), spec);
	TextSet(&pod->written_status, status);
	free(status);
}

/*
 * Inform the pod's owner once, by an annotation and an event.
 */
void
PodReportReason(KubePod *pod, const char *reason, const char *status)
{
	char	   *path;
	char		now[32];
	time_t		at = time(NULL);
	struct tm	tm;

	if (pod->written_status == NULL)
		TextSet(&pod->written_status, pod->status);
	if ((pod->written_status != NULL && strcmp(pod->written_status, status) == 0) || !PodMayChange(pod))
		return;
	TextSet(&pod->written_status, status);
	gmtime_r(&at, &tm);
	strftime(now, sizeof(now), "%Y-%m-%dT%H:%M:%SZ", &tm);
	path = Format("/api/v1/namespaces/%s/events", pod->space);
	pod->calls++;
	ApiCall("POST", path, API_JSON,
			json_pack("{s:s,s:s,s:{s:s,s:s},s:{s:s,s:s,s:s,s:s,s:s},s:s,s:s,"
					  "s:s,s:{s:s},s:s,s:s,s:i}",
					  "apiVersion", "v1", "kind", "Event", "metadata",
					  "generateName", "gpucredit-", "namespace", pod->space,
					  "involvedObject", "apiVersion", "v1", "kind", "Pod",
					  "namespace", pod->space, "name", pod->name, "uid",
					  pod->uid, "reason", reason, "message", status, "type",
					  strcmp(reason, "CreditEnds") == 0 ? "Normal" : "Warning",
					  "source", "component", "gpucredit-bridge",
					  "firstTimestamp", now, "lastTimestamp", now, "count", 1),
			ignore_event_answer, pod);
	free(path);
	patch(pod, json_pack("{s:{s:s}}", "annotations", WORD("status"), status),
		  NULL);
}

/* a lost event does no harm: the annotation has the same text */
static void
ignore_event_answer(long status, json_t * body, void *context)
{
	KubePod    *pod = context;

	pod->calls--;
	if (status != 201 && status != 0 && status != 404)
		LogLine("event=event_refused pod=%s/%s status=%ld error=\"%.200s\"",
				pod->space, pod->name, status, ApiProblem(body));
}

/*
 * Have kubelet end a pod: SIGTERM now, SIGKILL after grace_s.
 */
void
PodDelete(KubePod *pod, long grace_s)
{
	char	   *path;

	if (pod->stopped || pod->calls > 0 || pod->gone)
		return;
	path = pod_path(pod);
	pod->calls++;
	pod->stopped = true;
	ApiCall("DELETE", path, API_JSON,
			json_pack("{s:s,s:s,s:I,s:{s:s}}", "apiVersion", "v1", "kind",
					  "DeleteOptions", "gracePeriodSeconds",
					  (json_int_t) grace_s, "preconditions", "uid", pod->uid),
			deleted, pod);
	free(path);
}

/*
 * Take the answer to DELETE; without an answer the call is repeated.
 */
static void
deleted(long status, json_t * body, void *context)
{
	KubePod    *pod = context;

	pod->calls--;
	if (status == 404)
		pod->gone = true;
	if (status == 200 || status == 202 || status == 404)
		return;
	/* 409: another pod has the name */
	pod->stopped = false;
	if (status != 0)
		LogLine("event=delete_refused pod=%s/%s status=%ld error=\"%.200s\"",
				pod->space, pod->name, status, ApiProblem(body));
}

/*
 * Take our finalizer from a pod, so that the API server may forget it.
 */
void
PodRemoveFinalizer(KubePod *pod, const char *billed)
{
	json_t	   *metadata = json_pack("{s:o}", "finalizers",
									 without(pod->finalizers, NULL,
											 FINALIZER));

	if (billed != NULL)
		json_object_set_new(metadata, "annotations",
							json_pack("{s:s}", WORD("billed"), billed));
	patch(pod, metadata, NULL);
}

/*
 * Copy a list without the item of this name or text.
 */
static json_t *
without(json_t * list, const char *name, const char *what)
{
	json_t	   *rest = json_array();
	json_t	   *one;
	size_t		i;

	json_array_foreach(list, i, one)
	{
		const char *text = json_string_value(name == NULL ? one :
											 json_object_get(one, name));

		if (text == NULL || strcmp(text, what) != 0)
			json_array_append(rest, one);
	}
	return rest;
}
