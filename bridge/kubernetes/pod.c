/*-------------------------------------------------------------------------
 *
 * pod.c
 *		What the bridge knows of the cluster: pods, nodes, namespaces.
 *
 * The watches' documents become structures here.  All that a pod says was
 * written by a tenant: what is not as it should be is noted in wrong, and is
 * an answer to the tenant, never an error of the bridge.  The organisation is
 * never the pod's to say: its namespace's annotation names it.
 *
 *-------------------------------------------------------------------------
 */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "document.h"
#include "job.h"
#include "pod.h"
#include "util.h"

/* structures that begin with their name */
typedef struct KubeTable
{
	void	   *tree;
	void	  **all;
	int			n;
	int			room;
} KubeTable;

static KubeTable spaces;
static KubeTable nodes;
static KubeTable pods;

static int	by_name(const void *a, const void *b);
static void *find(KubeTable *table, const char *name);
static void *add(KubeTable *table, const char *name, size_t size);
static void forget(KubeTable *table, void *one);
static void set(char **text, const char *value);
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
static void drop_pod(json_t * object);
static void sweep_pods(void);
static void read_wishes(KubePod *pod, json_t * object);
static long read_seconds(KubePod *pod, json_t * annotations, const char *name,
						 const char *wrong);
static const char *read_gpus(KubePod *pod, json_t * spec);
static long gpus_of(json_t * container);
static void read_status(KubePod *pod, json_t * status);
static void read_container(KubePod *pod, json_t * status, time_t *finished);
static void read_terminated(KubePod *pod, json_t * state);
static void earlier(time_t *at, time_t other);
static bool plain_type(const char *text);

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

/* has each list been read once? */
bool
ClusterKnown(void)
{
	return space_watch.complete && node_watch.complete && pod_watch.complete;
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

static void *
find(KubeTable *table, const char *name)
{
	void	  **found = name == NULL ? NULL : tfind(&name, &table->tree,
													by_name);

	return found == NULL ? NULL : *found;
}

/*
 * A new one, zeroed but for its name.
 */
static void *
add(KubeTable *table, const char *name, size_t size)
{
	char	  **one = Alloc(size);

	*one = Dup(name);
	if (tsearch(one, &table->tree, by_name) == NULL)
		Die("out of memory");
	if (table->n == table->room)
	{
		table->room = table->room == 0 ? 64 : 2 * table->room;
		table->all = realloc(table->all, table->room * sizeof(void *));
		if (table->all == NULL)
			Die("out of memory");
	}
	return table->all[table->n++] = one;
}

/*
 * Take one out of its table; the caller frees it.
 */
static void
forget(KubeTable *table, void *one)
{
	tdelete(one, &table->tree, by_name);
	for (int i = 0; i < table->n; i++)
		if (table->all[i] == one)
		{
			table->all[i] = table->all[--table->n];
			break;
		}
}

KubeSpace *
SpaceFind(const char *name)
{
	return find(&spaces, name);
}

KubeNode *
NodeFind(const char *name)
{
	return find(&nodes, name);
}

KubePod *
PodFind(const char *uid)
{
	return find(&pods, uid);
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

static void
set(char **text, const char *value)
{
	char	   *copy = Dup(value);

	free(*text);
	*text = copy;
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
 * A namespace: its annotations say who pays.
 */
static void
put_space(json_t * object)
{
	json_t	   *annotations = DocumentGet(object, "metadata", "annotations");
	const char *name = name_of(object);
	KubeSpace  *space;

	if (name == NULL)
		return;
	space = find(&spaces, name);
	if (space == NULL)
		space = add(&spaces, name, sizeof(*space));
	space->seen = true;
	set(&space->org, DocumentText(annotations, WORD("org")));
	set(&space->account, DocumentText(annotations, WORD("account")));
}

static void
drop_space(json_t * object)
{
	KubeSpace  *space = find(&spaces, name_of(object));

	if (space != NULL)
		set(&space->org, NULL);
}

static void
sweep_spaces(void)
{
	for (int i = 0; i < spaces.n; i++)
		if (!((KubeSpace *) spaces.all[i])->seen)
			set(&((KubeSpace *) spaces.all[i])->org, NULL);
}

/* Nodes */

static void
mark_nodes(void)
{
	for (int i = 0; i < nodes.n; i++)
		((KubeNode *) nodes.all[i])->seen = false;
}

/*
 * A node of GPUs has the label of their type.
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
	KubeNode   *node = find(&nodes, name);
	json_t	   *condition;
	size_t		i;
	bool		ready = false;

	if (name == NULL || (node == NULL && (type == NULL || gpus < 1)))
		return;
	if (node == NULL)
		node = add(&nodes, name, sizeof(*node));
	node->seen = true;
	node->gone = false;
	if (type != NULL && gpus > 0 &&
		(node->type == NULL || strcmp(node->type, type) != 0 ||
		 node->gpus != gpus || node->gpu_mib != (mib < 1 ? 1 : mib)))
	{
		set(&node->type, type);
		node->gpus = gpus;
		node->gpu_mib = mib < 1 ? 1 : mib;
		node->registered = false;
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
	KubeNode   *node = find(&nodes, name_of(object));

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
 * A pod in a new version.
 */
static void
put_pod(json_t * object)
{
	json_t	   *metadata = json_object_get(object, "metadata");
	json_t	   *spec = json_object_get(object, "spec");
	const char *uid = DocumentText(metadata, "uid");
	const char *space = DocumentText(metadata, "namespace");
	const char *name = DocumentText(metadata, "name");
	KubePod    *pod;
	json_t	   *one;
	size_t		i;

	if (uid == NULL || space == NULL || name == NULL)
		return;
	pod = find(&pods, uid);
	if (pod == NULL)
	{
		pod = add(&pods, uid, sizeof(*pod));
		set(&pod->space, space);
		set(&pod->name, name);
		pod->created = DocumentTime(metadata, "creationTimestamp");
	}
	pod->seen = true;
	pod->gone = false;
	pod->again_ns = 0;
	set(&pod->version, DocumentText(metadata, "resourceVersion"));
	set(&pod->status, DocumentText(metadata, "annotations", WORD("status")));
	set(&pod->node, DocumentText(spec, "nodeName"));
	pod->deleting = DocumentText(metadata, "deletionTimestamp") != NULL;
	json_decref(pod->gates);
	json_decref(pod->finalizers);
	pod->gates = json_incref(json_object_get(spec, "schedulingGates"));
	pod->finalizers = json_incref(json_object_get(metadata, "finalizers"));
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
			set(&pod->owner, DocumentText(one, "uid"));
	}
	pod->deadline_s = json_integer_value(json_object_get(spec,
														 "activeDeadlineSeconds"));
	read_wishes(pod, object);
	read_status(pod, json_object_get(object, "status"));
	JobsSee(pod);
}

static void
drop_pod(json_t * object)
{
	KubePod    *pod = find(&pods, DocumentText(object, "metadata", "uid"));

	if (pod == NULL)
		return;
	/* the last version may tell of the end */
	put_pod(object);
	pod->gone = true;
}

static void
sweep_pods(void)
{
	for (int i = 0; i < pods.n; i++)
		if (!((KubePod *) pods.all[i])->seen)
			((KubePod *) pods.all[i])->gone = true;
}

/*
 * What the pod asks for.
 */
static void
read_wishes(KubePod *pod, json_t * object)
{
	json_t	   *annotations = DocumentGet(object, "metadata", "annotations");
	const char *type = DocumentText(annotations, WORD("gpu-type"));
	const char *size = DocumentText(annotations, WORD("gang-size"));

	set(&pod->selected, DocumentText(object, "spec", "nodeSelector",
									 kube.type_label));
	set(&pod->type, pod->selected == NULL ? type : pod->selected);
	set(&pod->account, DocumentText(annotations, WORD("account")));
	set(&pod->tier, DocumentText(annotations, WORD("tier")));
	set(&pod->gang, DocumentText(annotations, WORD("gang")));
	pod->wrong = read_gpus(pod, json_object_get(object, "spec"));
	if (pod->type != NULL && !plain_type(pod->type))
		pod->wrong = "the GPU type cannot be read";
	pod->wall_s = read_seconds(pod, annotations, WORD("wall-limit"),
							   "wall-limit is no duration");
	pod->window_s = read_seconds(pod, annotations, WORD("hold-window"),
								 "hold-window is no duration");
	if (pod->wall_s == 0)
		pod->wall_s = pod->deadline_s;
	pod->gang_size = 1;
	if (pod->gang != NULL)
	{
		pod->gang_size = DocumentCount(size, 1024);
		if (pod->gang_size < 1)
			pod->wrong = "gang-size is no count from 1 to 1024";
	}
}

/*
 * A duration among annotations; 0: there is none.
 */
static long
read_seconds(KubePod *pod, json_t * annotations, const char *name,
			 const char *wrong)
{
	const char *text = DocumentText(annotations, name);
	long		seconds = DocumentSeconds(text);

	if (text == NULL)
		return 0;
	if (seconds < 0)
	{
		pod->wrong = wrong;
		return 0;
	}
	return seconds;
}

/*
 * Count the GPUs that kubelet gives the pod: those of all containers at once,
 * or of the init container that asks for most.  Init containers that stay
 * count with the others.  NULL, or what is wrong.
 */
static const char *
read_gpus(KubePod *pod, json_t * spec)
{
	long		at_once = 0;
	long		before = 0;
	json_t	   *one;
	size_t		i;

	json_array_foreach(json_object_get(spec, "containers"), i, one)
	{
		long		gpus = gpus_of(one);

		if (gpus < 0)
			return "the number of GPUs cannot be read";
		at_once += gpus;
	}
	json_array_foreach(json_object_get(spec, "initContainers"), i, one)
	{
		long		gpus = gpus_of(one);
		const char *policy = DocumentText(one, "restartPolicy");

		if (gpus < 0)
			return "the number of GPUs cannot be read";
		if (policy != NULL && strcmp(policy, "Always") == 0)
			at_once += gpus;
		else if (gpus > before)
			before = gpus;
	}
	pod->gpus = at_once > before ? at_once : before;
	if (pod->gpus > MOST_GPUS)
		return "it asks for more than 64 GPUs";
	return NULL;
}

/*
 * The GPUs of one container; -1: not a count.
 */
static long
gpus_of(json_t * container)
{
	json_t	   *limit = DocumentGet(container, "resources", "limits",
									kube.resource);
	json_t	   *request = DocumentGet(container, "resources", "requests",
									  kube.resource);

	if (limit == NULL)
		limit = request;
	if (limit == NULL)
		return 0;
	if (json_is_integer(limit))
	{
		json_int_t	count = json_integer_value(limit);

		return count < 0 || count > 100000 ? -1 : count;
	}
	return DocumentCount(json_string_value(limit), 100000);
}

/*
 * How far the pod has come.  What was seen of its start is kept, as a status
 * tells of a container's last two runs only.
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
}

/*
 * One container, in its present run and the last.
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
 * How a container ended: of several the first that failed counts.
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

/*
 * Letters that a label's value may have, and | between types.
 */
static bool
plain_type(const char *text)
{
	size_t		len = strlen(text);

	return len > 0 && len <= 250 &&
		strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
			   "0123456789._-|") == len;
}

void
PodForget(KubePod *pod)
{
	forget(&pods, pod);
	json_decref(pod->gates);
	json_decref(pod->finalizers);
	free(pod->uid);
	free(pod->space);
	free(pod->name);
	free(pod->version);
	free(pod->owner);
	free(pod->node);
	free(pod->account);
	free(pod->type);
	free(pod->selected);
	free(pod->tier);
	free(pod->gang);
	free(pod->status);
	free(pod->said);
	free(pod);
}
