/*-------------------------------------------------------------------------
 *
 * pod_change.c
 *		Changes pods: removes gates, annotates, deletes and removes
 *		finalizers.
 *
 * Each change of a pod is a merge patch that names the version on which the
 * decision was based. The API server refuses it (409) if another client
 * changed the pod first. Then the watch delivers the newer version, and the
 * bridge decides again. Therefore answers do not change the state of pods
 * here: only the watch shows what was done.
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "clock.h"
#include "config.h"
#include "log.h"
#include "memory.h"
#include "pod_change.h"
#include "texts.h"

#define NEWS_LATE	(2 * NS_PER_S)	/* time after a change by which the watch
									 * has delivered the new version */

static char *pod_path(const KubePod *pod);
static void patch(KubePod *pod, json_t * metadata, json_t * spec);
static void changed(long status, json_t * body, void *context);
static void deleted(long status, json_t * body, void *context);
static void ignore_event_answer(long status, json_t * body, void *context);
static void report(KubePod *pod, const char *reason, const char *status,
				   json_t * finalizers);
static json_t * with_finalizer(const KubePod *pod);
static json_t * on_typed_nodes(const KubePod *pod);
static json_t * without(json_t * list, const char *name, const char *what);

/*
 * Whether no call about the pod is under way and its newest version is known.
 */
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
 * Changes a pod, unless it has changed meanwhile. The function takes ownership
 * of its arguments.
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
 * Handles the answer of patch(). After 409 and 404, the watch delivers the
 * newer state. Any other refusal would be repeated, so the pod is marked as
 * refused.
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
		PodLose(pod);
	if (good || status == 0)
		return;
	LogLine("event=pod_refused pod=%s/%s status=%ld error=\"%.300s\"",
			pod->space, pod->name, status, ApiProblem(body));
	if (!pod->kept && status == 422)
		pod->refused = true;
}

/*
 * Removes the gate of a pod whose credit is held. The pod is restricted to
 * nodes of the priced type, or of any known type, and to the time that the
 * credit lasts. A pod that Kueue admitted does not have the bridge's gate.
 */
void
PodRemoveGate(KubePod *pod, const char *job, const char *held, const char *type,
			  long wall_s)
{
	json_t	   *kept = with_finalizer(pod);
	char	   *status = Format("funded: %s credits are held", held);
	json_t	   *spec;

	spec = json_object();
	if (pod->gated)
		json_object_set_new(spec, "schedulingGates",
							without(pod->gates, "name", GATE));
	if (pod->gated && type != NULL && pod->request.selected == NULL)
		json_object_set_new(spec, "nodeSelector",
							json_pack("{s:s}", kube.type_label, type));
	else if (pod->gated && pod->request.selected == NULL)
		json_object_set_new(spec, "affinity", on_typed_nodes(pod));
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
 * Restricts a pod to nodes with a label for their GPU type. Kubernetes lets a
 * gated pod's terms only become narrower. A term without expressions matches
 * no node, so it stays as it is.
 */
static json_t *
on_typed_nodes(const KubePod *pod)
{
	json_t	   *known = json_pack("{s:s,s:s}", "key", kube.type_label,
								  "operator", "Exists");
	json_t	   *terms = json_array_size(pod->terms) > 0 ?
		json_deep_copy(pod->terms) : json_pack("[{s:[O]}]",
											   "matchExpressions", known);
	json_t	   *term;
	size_t		i;

	json_array_foreach(json_array_size(pod->terms) > 0 ? terms : NULL, i, term)
	{
		json_t	   *all = json_object_get(term, "matchExpressions");

		if (json_is_array(all))
			json_array_append(all, known);
		else if (json_is_array(json_object_get(term, "matchFields")))
			json_object_set_new(term, "matchExpressions",
								json_pack("[O]", known));
	}
	json_decref(known);
	return json_pack("{s:{s:{s:o}}}", "nodeAffinity", REQUIRED,
					 "nodeSelectorTerms", terms);
}

/*
 * Informs the pod's owner once, by an annotation and an event.
 */
void
PodReportReason(KubePod *pod, const char *reason, const char *status)
{
	report(pod, reason, status, NULL);
}

/*
 * Informs the owner of a pod that runs unpaid. The bridge's finalizer keeps
 * the pod until its run is billed.
 */
void
PodReportUnpaid(KubePod *pod, const char *status)
{
	report(pod, "CreditMissing", status,
		   pod->kept || pod->deleting ? NULL : with_finalizer(pod));
}

/*
 * Writes the annotation and the event. The function takes ownership of
 * "finalizers", the pod's new list, or NULL for no change.
 */
static void
report(KubePod *pod, const char *reason, const char *status,
	   json_t * finalizers)
{
	json_t	   *metadata;
	char	   *path;
	char		now[32];
	time_t		at = time(NULL);
	struct tm	tm;

	if (pod->written_status == NULL)
		TextSet(&pod->written_status, pod->status);
	if ((pod->written_status != NULL && strcmp(pod->written_status, status) == 0) || !PodMayChange(pod))
	{
		json_decref(finalizers);
		return;
	}
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
	metadata = json_pack("{s:{s:s}}", "annotations", WORD("status"), status);
	if (finalizers != NULL)
		json_object_set_new(metadata, "finalizers", finalizers);
	patch(pod, metadata, NULL);
}

/*
 * Returns the pod's finalizers with the bridge's added.
 */
static json_t *
with_finalizer(const KubePod *pod)
{
	json_t	   *all = json_is_array(pod->finalizers) ?
		json_copy(pod->finalizers) : json_array();

	if (!pod->kept)
		json_array_append_new(all, json_string(FINALIZER));
	return all;
}

/*
 * Handles the answer to an event. A lost event does no harm, as the annotation
 * has the same text.
 */
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
 * Deletes a pod: kubelet sends SIGTERM now, and SIGKILL after grace_s seconds.
 * A pod that is being deleted with a longer grace period is deleted again.
 */
void
PodDelete(KubePod *pod, long grace_s)
{
	char	   *path;

	if (pod->calls > 0 || pod->gone || MonotonicNs() < pod->again_ns ||
		(pod->stopped && pod->stop_grace_s <= grace_s) ||
		(pod->deleting && pod->grace_s <= grace_s))
		return;
	path = pod_path(pod);
	pod->calls++;
	pod->stopped = true;
	pod->stop_grace_s = grace_s;
	ApiCall("DELETE", path, API_JSON,
			json_pack("{s:s,s:s,s:I,s:{s:s}}", "apiVersion", "v1", "kind",
					  "DeleteOptions", "gracePeriodSeconds",
					  (json_int_t) grace_s, "preconditions", "uid", pod->uid),
			deleted, pod);
	free(path);
}

/*
 * Handles the answer to DELETE. Without an answer, the call is repeated.
 */
static void
deleted(long status, json_t * body, void *context)
{
	KubePod    *pod = context;

	pod->calls--;
	if (status == 404)
		PodLose(pod);
	if (status == 200 || status == 202 || status == 404)
		return;
	/* 409: another pod has the name. */
	pod->stopped = false;
	/* 429: the API server is overloaded. */
	pod->again_ns = MonotonicNs() + NS_PER_S;
	if (status != 0)
		LogLine("event=delete_refused pod=%s/%s status=%ld error=\"%.200s\"",
				pod->space, pod->name, status, ApiProblem(body));
}

/*
 * Removes the bridge's finalizer from a pod, so that the API server can delete
 * the pod.
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
 * Copies a list without the item that has this name or text.
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
