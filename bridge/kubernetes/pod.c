/*-------------------------------------------------------------------------
 *
 * pod.c
 *		The bridge's copy of the cluster's state: pods, nodes and namespaces.
 *
 * The documents that the watches deliver become structures here. The
 * annotation of a namespace names the organisation that pays; a pod cannot
 * choose it.
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "config.h"
#include "document.h"
#include "pod.h"
#include "table.h"
#include "texts.h"

#define LEAST_GRACE_S		2	/* kubelet's shortest grace period, in seconds */

static KubeTable spaces;
static KubeTable nodes;
static KubeTable pods;

static void mark_spaces(void);
static void put_space(json_t * object);
static void drop_space(json_t * object);
static void sweep_spaces(void);
static void mark_nodes(void);
static void put_node(json_t * object);
static void drop_node(json_t * object);
static void sweep_nodes(void);
static void mark_pods(void);
static void put_pod(json_t * object);
static void note_start(KubePod *pod, bool waited);
static void note_deletion(KubePod *pod, json_t * metadata);
static int64_t grace_of(const KubePod *pod, long deletion_s);
static void drop_pod(json_t * object);
static void sweep_pods(void);
static void read_status(KubePod *pod, json_t * status);
static void read_container(KubePod *pod, json_t * status, time_t *finished);
static void read_terminated(KubePod *pod, json_t * state);
static void earlier(time_t *at, time_t other);

KubeWatch	space_watch = {
	.path = "/api/v1/namespaces", .mark = mark_spaces, .put = put_space,
	.drop = drop_space, .sweep = sweep_spaces
};
KubeWatch	node_watch = {
	.path = "/api/v1/nodes", .mark = mark_nodes, .put = put_node,
	.drop = drop_node, .sweep = sweep_nodes
};
KubeWatch	pod_watch = {
	.path = "/api/v1/pods", .mark = mark_pods, .put = put_pod,
	.drop = drop_pod, .sweep = sweep_pods
};

/* Whether each list has been read completely once. */
bool
ClusterKnown(void)
{
	return space_watch.complete && node_watch.complete && pod_watch.complete;
}

KubeSpace *
SpaceFind(const char *name)
{
	return TableFind(&spaces, name);
}

KubeNode *
NodeFind(const char *name)
{
	return TableFind(&nodes, name);
}

KubePod *
PodFind(const char *uid)
{
	return TableFind(&pods, uid);
}

int
PodCount(void)
{
	return pods.n;
}

KubePod *
PodAt(int i)
{
	return pods.all[i];
}

int
NodeCount(void)
{
	return nodes.n;
}

KubeNode *
NodeAt(int i)
{
	return nodes.all[i];
}

static const char *
name_of(json_t * object)
{
	return DocumentText(object, "metadata", "name");
}

/* Namespaces */

static void
mark_spaces(void)
{
	for (int i = 0; i < spaces.n; i++)
		((KubeSpace *) spaces.all[i])->seen = false;
}

/*
 * Stores a namespace. Its annotations name the account that pays.
 */
static void
put_space(json_t * object)
{
	json_t	   *annotations = DocumentGet(object, "metadata", "annotations");
	const char *name = name_of(object);
	KubeSpace  *space;

	if (name == NULL)
		return;
	space = TableFind(&spaces, name);
	if (space == NULL)
		space = TableAdd(&spaces, name, sizeof(*space));
	space->seen = true;
	TextSet(&space->org, DocumentText(annotations, WORD("org")));
	TextSet(&space->account, DocumentText(annotations, WORD("account")));
}

static void
drop_space(json_t * object)
{
	KubeSpace  *space = TableFind(&spaces, name_of(object));

	if (space != NULL)
		TextSet(&space->org, NULL);
}

static void
sweep_spaces(void)
{
	for (int i = 0; i < spaces.n; i++)
		if (!((KubeSpace *) spaces.all[i])->seen)
			TextSet(&((KubeSpace *) spaces.all[i])->org, NULL);
}

/* Nodes */

static void
mark_nodes(void)
{
	for (int i = 0; i < nodes.n; i++)
		((KubeNode *) nodes.all[i])->seen = false;
}

/*
 * Stores a node. Only a node with the label for its GPU type counts.
 */
static void
put_node(json_t * object)
{
	json_t	   *labels = DocumentGet(object, "metadata", "labels");
	const char *type = DocumentText(labels, kube.type_label);
	const char *memory = DocumentText(labels, kube.memory_label);
	long		gpus = DocumentCount(DocumentText(object, "status", "capacity",
												  kube.resource), MOST_GPUS);
	long		mib = DocumentCount(memory, 100000000);
	const char *name = name_of(object);
	KubeNode   *node = TableFind(&nodes, name);
	json_t	   *condition;
	size_t		i;
	bool		ready = false;

	if (name == NULL || (node == NULL && (type == NULL || gpus < 1)))
		return;
	if (node == NULL)
		node = TableAdd(&nodes, name, sizeof(*node));
	node->seen = true;
	node->gone = false;
	if (type != NULL && gpus > 0 &&
		(node->type == NULL || strcmp(node->type, type) != 0 ||
		 node->gpus != gpus || node->gpu_mib != (mib < 1 ? 1 : mib)))
	{
		TextSet(&node->type, type);
		node->gpus = gpus;
		if (node->numbers < gpus)
			node->numbers = gpus;
		node->gpu_mib = mib < 1 ? 1 : mib;
		node->registered = false;
		node->changed = true;
	}
	json_array_foreach(DocumentGet(object, "status", "conditions"), i,
					   condition)
	{
		const char *kind = DocumentText(condition, "type");
		const char *status = DocumentText(condition, "status");

		if (kind != NULL && status != NULL && strcmp(kind, "Ready") == 0)
			ready = strcmp(status, "True") == 0;
	}
	if (ready)
		node->unready_ns = 0;
	else if (node->unready_ns == 0)
		node->unready_ns = MonotonicNs();
	node->ready = ready;
}

static void
lose_node(KubeNode *node)
{
	node->gone = true;
	node->ready = false;
	if (node->unready_ns == 0)
		node->unready_ns = MonotonicNs();
}

static void
drop_node(json_t * object)
{
	KubeNode   *node = TableFind(&nodes, name_of(object));

	if (node != NULL)
		lose_node(node);
}

static void
sweep_nodes(void)
{
	for (int i = 0; i < nodes.n; i++)
		if (!((KubeNode *) nodes.all[i])->seen)
			lose_node(nodes.all[i]);
}

/* Pods */

static void
mark_pods(void)
{
	for (int i = 0; i < pods.n; i++)
		((KubePod *) pods.all[i])->seen = false;
}

/*
 * Stores a new version of a pod.
 */
static void
put_pod(json_t * object)
{
	json_t	   *metadata = json_object_get(object, "metadata");
	json_t	   *spec = json_object_get(object, "spec");
	const char *uid = DocumentText(metadata, "uid");
	const char *space = DocumentText(metadata, "namespace");
	const char *name = DocumentText(metadata, "name");
	const char *version = DocumentText(metadata, "resourceVersion");
	KubePod    *pod;
	bool		waited;
	json_t	   *one;
	size_t		i;

	if (uid == NULL || space == NULL || name == NULL)
		return;
	pod = TableFind(&pods, uid);
	if (pod != NULL && pod_watch.stage == WATCH_STREAMS &&
		DocumentOlder(version, pod->version))
		return;
	waited = pod != NULL && pod->started == 0;
	if (pod == NULL)
	{
		pod = TableAdd(&pods, uid, sizeof(*pod));
		TextSet(&pod->space, space);
		TextSet(&pod->name, name);
	}
	pod->seen = true;
	pod->gone = false;
	pod->again_ns = 0;
	TextSet(&pod->version, version);
	TextSet(&pod->status, DocumentText(metadata, "annotations", WORD("status")));
	TextSet(&pod->node, DocumentText(spec, "nodeName"));
	TextSet(&pod->workload, DocumentText(metadata, "annotations",
										 WORD("workload")));
	TextSet(&pod->paid_by, DocumentText(metadata, "annotations",
										WORD("job")));
	json_decref(pod->gates);
	json_decref(pod->finalizers);
	pod->gates = json_incref(json_object_get(spec, "schedulingGates"));
	pod->finalizers = json_incref(json_object_get(metadata, "finalizers"));
	json_decref(pod->terms);
	pod->terms = json_incref(DocumentGet(spec, "affinity", "nodeAffinity",
										 REQUIRED, "nodeSelectorTerms"));
	pod->gated = false;
	json_array_foreach(pod->gates, i, one)
	{
		const char *gate = DocumentText(one, "name");

		pod->gated |= gate != NULL && strcmp(gate, GATE) == 0;
	}
	pod->kept = false;
	json_array_foreach(pod->finalizers, i, one)
	{
		pod->kept |= json_is_string(one) &&
			strcmp(json_string_value(one), FINALIZER) == 0;
	}
	json_array_foreach(json_object_get(metadata, "ownerReferences"), i, one)
	{
		if (json_is_true(json_object_get(one, "controller")))
			TextSet(&pod->owner, DocumentText(one, "uid"));
	}
	PodRequestRead(&pod->request, object);
	note_deletion(pod, metadata);
	read_status(pod, json_object_get(object, "status"));
	note_start(pod, waited);
	pod->fresh = true;
}

/*
 * Records by the bridge's clock when a pod started, or when it was last seen
 * not started.
 */
static void
note_start(KubePod *pod, bool waited)
{
	int64_t		known = WatchKnownNs(&pod_watch);

	if (pod->started != 0 && !waited)
		return;
	if (pod->started == 0 && pod_watch.stage != WATCH_STREAMS)
		known = pod_watch.list_ns;
	if (known > pod->idle_ns)
		pod->idle_ns = known;
	if (pod->started != 0 && pod_watch.stage == WATCH_STREAMS &&
		MonotonicNs() - known < NS_PER_S)
		pod->began_ns = known;
}

static void
drop_pod(json_t * object)
{
	KubePod    *pod = TableFind(&pods, DocumentText(object, "metadata", "uid"));

	if (pod == NULL)
		return;
	/* The last version may contain the end. */
	put_pod(object);
	PodLose(pod);
}

/*
 * Handles the removal of a pod from the API server. Kubelet, which still has
 * the pod, ends it within the grace period of its deletion, or else within the
 * pod's own.
 */
void
PodLose(KubePod *pod)
{
	pod->gone = true;
	if (pod->ends_ns == 0)
		pod->ends_ns = MonotonicNs() + grace_of(pod, 0);
}

/*
 * Returns how long kubelet waits between SIGTERM and SIGKILL, in nanoseconds.
 */
static int64_t
grace_of(const KubePod *pod, long deletion_s)
{
	long		its = deletion_s > 0 ? deletion_s : pod->request.grace_s;

	return (its < LEAST_GRACE_S ? LEAST_GRACE_S : its) * NS_PER_S;
}

/*
 * Records when a pod that is being deleted must have ended. Kubelet ends it
 * within the grace period of the first deletion that it received, as it does
 * not shorten the period once it has sent SIGTERM. For a period of 0, which is
 * a forced deletion, it uses the pod's own.
 */
static void
note_deletion(KubePod *pod, json_t * metadata)
{
	json_t	   *grace = json_object_get(metadata, "deletionGracePeriodSeconds");

	pod->deleting = DocumentText(metadata, "deletionTimestamp") != NULL;
	if (!pod->deleting)
		return;
	pod->grace_s = DocumentGrace(grace);
	if (pod->ends_ns == 0)
		pod->ends_ns = MonotonicNs() + grace_of(pod, pod->grace_s);
}

static void
sweep_pods(void)
{
	for (int i = 0; i < pods.n; i++)
		if (!((KubePod *) pods.all[i])->seen && !((KubePod *) pods.all[i])->gone)
			PodLose(pods.all[i]);
}

/*
 * Reads the status of a pod. Its earliest start is kept, because a status
 * contains only a container's last two runs.
 */
static void
read_status(KubePod *pod, json_t * status)
{
	const char *phase = DocumentText(status, "phase");
	const char *reason = DocumentText(status, "reason");
	time_t		finished = 0;
	json_t	   *one;
	size_t		i;

	pod->failed = phase != NULL && strcmp(phase, "Failed") == 0;
	pod->over = pod->failed ||
		(phase != NULL && strcmp(phase, "Succeeded") == 0);
	pod->late = reason != NULL && strcmp(reason, "DeadlineExceeded") == 0;
	pod->coded = false;
	pod->oom = false;
	json_array_foreach(json_object_get(status, "initContainerStatuses"), i,
					   one)
	{
		read_container(pod, one, &finished);
	}
	json_array_foreach(json_object_get(status, "containerStatuses"), i, one)
	{
		read_container(pod, one, &finished);
	}
	pod->finished = pod->over ? finished : 0;

	/*
	 * The pod's node was lost, or its kubelet did not report when the pod
	 * ended.
	 */
	if (pod->over && pod->finished == 0 && pod->ends_ns == 0)
		pod->ends_ns = MonotonicNs();
}

/*
 * Reads the status of one container, with its present run and the one before.
 */
static void
read_container(KubePod *pod, json_t * status, time_t *finished)
{
	json_t	   *now = json_object_get(status, "state");
	json_t	   *ended = json_object_get(now, "terminated");
	time_t		at = DocumentTime(ended, "finishedAt");

	earlier(&pod->started, DocumentTime(json_object_get(now, "running"),
										"startedAt"));
	earlier(&pod->started, DocumentTime(ended, "startedAt"));
	earlier(&pod->started,
			DocumentTime(DocumentGet(status, "lastState", "terminated"),
						 "startedAt"));
	if (at > *finished)
		*finished = at;
	if (ended != NULL)
		read_terminated(pod, ended);
}

/*
 * Records the end of a container. The first failure of a container determines
 * the exit code.
 */
static void
read_terminated(KubePod *pod, json_t * state)
{
	const char *reason = DocumentText(state, "reason");
	json_t	   *code = json_object_get(state, "exitCode");

	pod->oom |= reason != NULL && strcmp(reason, "OOMKilled") == 0;
	if (json_is_integer(code) && (!pod->coded || pod->exit_code == 0))
	{
		pod->exit_code = json_integer_value(code) & 255;
		pod->coded = true;
	}
}

static void
earlier(time_t *at, time_t other)
{
	if (other != 0 && (*at == 0 || other < *at))
		*at = other;
}

/* Whether the pod is gone and kubelet must have ended its containers. */
bool
PodEnded(const KubePod *pod)
{
	return pod->gone && (pod->started == 0 || MonotonicNs() >= pod->ends_ns);
}

/*
 * Returns the namespace that pays for a pod, or NULL if no organisation does.
 */
KubeSpace *
SpacePaying(const KubePod *pod)
{
	KubeSpace  *space = SpaceFind(pod->space);

	return space != NULL && space->org != NULL ? space : NULL;
}

void
PodForget(KubePod *pod)
{
	TableForget(&pods, pod);
	json_decref(pod->gates);
	json_decref(pod->finalizers);
	json_decref(pod->terms);
	free(pod->uid);
	free(pod->space);
	free(pod->name);
	free(pod->version);
	free(pod->owner);
	free(pod->node);
	free(pod->workload);
	free(pod->paid_by);
	PodRequestFree(&pod->request);
	free(pod->status);
	free(pod->written_status);
	free(pod);
}
