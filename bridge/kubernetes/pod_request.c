/*-------------------------------------------------------------------------
 *
 * pod_request.c
 *		Parses the request of a pod, or of a pod template.
 *
 * A tenant wrote the whole document. A mistake in it is stored in "wrong" and
 * reported to the tenant; it is never an error of the bridge.
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "document.h"
#include "memory.h"
#include "pod_request.h"
#include "texts.h"

#define DEFAULT_GRACE_S		30	/* seconds, for a pod that names no grace
								 * period */

static long read_seconds(PodRequest *request, json_t * annotations,
						 const char *name, const char *wrong);
static const char *read_gpus(PodRequest *request, json_t * spec);
static void more_gpus(long *sum, long gpus);
static const char *read_other_devices(PodRequest *request, json_t * spec);
static bool asks_for_part(json_t * container);
static const char *read_grace(PodRequest *request, json_t * spec);
static void longer(long *grace_s, json_t * seconds);
static long gpus_of(json_t * container);
static bool plain_type(const char *text);

/*
 * Parses the annotations and the spec of a document.
 */
void
PodRequestRead(PodRequest *request, json_t * object)
{
	json_t	   *annotations = DocumentGet(object, "metadata", "annotations");
	const char *type = DocumentText(annotations, WORD("gpu-type"));
	const char *size = DocumentText(annotations, WORD("gang-size"));
	const char *other;
	const char *grace;

	TextSet(&request->selected, DocumentText(object, "spec", "nodeSelector",
											 kube.type_label));
	TextSet(&request->type, request->selected == NULL ? type : request->selected);
	TextSet(&request->account, DocumentText(annotations, WORD("account")));
	TextSet(&request->tier, DocumentText(annotations, WORD("tier")));
	TextSet(&request->gang, DocumentText(annotations, WORD("gang")));
	request->wrong = read_gpus(request, json_object_get(object, "spec"));
	other = read_other_devices(request, json_object_get(object, "spec"));
	grace = read_grace(request, json_object_get(object, "spec"));
	if (other != NULL)
		request->wrong = other;
	else if (grace != NULL && request->gpus > 0)
		request->wrong = grace;
	if (request->type != NULL && !plain_type(request->type))
		request->wrong = "the GPU type cannot be read";
	request->wall_s = read_seconds(request, annotations, WORD("wall-limit"),
								   "wall-limit is no duration");
	request->window_s = read_seconds(request, annotations, WORD("hold-window"),
									 "hold-window is no duration");
	request->deadline_s =
		json_integer_value(DocumentGet(object, "spec",
									   "activeDeadlineSeconds"));
	if (request->wall_s == 0)
		request->wall_s = request->deadline_s;
	request->gang_size = 1;
	if (request->gang != NULL)
	{
		request->gang_size = DocumentCount(size, 1024);
		if (request->gang_size < 1)
			request->wrong = "gang-size is no count from 1 to 1024";
	}
}

/*
 * Parses a duration from an annotation, in seconds. Returns 0 if there is
 * none.
 */
static long
read_seconds(PodRequest *request, json_t * annotations, const char *name,
			 const char *wrong)
{
	const char *text = DocumentText(annotations, name);
	long		seconds = DocumentSeconds(text);

	if (text == NULL)
		return 0;
	if (seconds < 0)
	{
		request->wrong = wrong;
		return 0;
	}
	return seconds;
}

/*
 * Counts the GPUs that the scheduler reserves and kubelet allocates: those of
 * all containers and sidecars together or, if that is more, those of an init
 * container and of the sidecars that were started before it. A sidecar is an
 * init container that is always restarted. Returns NULL, or what is wrong.
 */
static const char *
read_gpus(PodRequest *request, json_t * spec)
{
	long		at_once = 0;
	long		sidecars = 0;
	long		before = 0;
	json_t	   *one;
	size_t		i;

	/* This also holds if the number of GPUs cannot be parsed. */
	request->devices = true;
	request->gpus = 0;
	json_array_foreach(json_object_get(spec, "containers"), i, one)
	{
		long		gpus = gpus_of(one);

		if (gpus < 0)
			return "the number of GPUs cannot be read";
		more_gpus(&at_once, gpus);
	}
	json_array_foreach(json_object_get(spec, "initContainers"), i, one)
	{
		long		gpus = gpus_of(one);
		const char *policy = DocumentText(one, "restartPolicy");

		if (gpus < 0)
			return "the number of GPUs cannot be read";
		if (policy != NULL && strcmp(policy, "Always") == 0)
		{
			more_gpus(&at_once, gpus);
			more_gpus(&sidecars, gpus);
			gpus = sidecars;
		}
		else
			more_gpus(&gpus, sidecars);
		if (gpus > before)
			before = gpus;
	}
	request->gpus = at_once > before ? at_once : before;
	request->devices = request->gpus > 0;
	if (request->gpus > MOST_GPUS)
		return "it asks for more than 64 GPUs";
	return NULL;
}

/*
 * Adds to a sum. Beyond the largest node, the sum need not be exact, so it is
 * limited.
 */
static void
more_gpus(long *sum, long gpus)
{
	*sum += gpus;
	if (*sum > 100000)
		*sum = 100000;
}

/*
 * Checks for devices that have no price: parts of a GPU (MIG instances, shared
 * GPUs), which are other resources of the same vendor, and claims of dynamic
 * resource allocation. Returns NULL, or what is wrong.
 */
static const char *
read_other_devices(PodRequest *request, json_t * spec)
{
	static const char *const lists[] = {"containers", "initContainers", NULL};
	bool		part = false;
	bool		claims = json_array_size(json_object_get(spec,
														 "resourceClaims")) > 0;
	json_t	   *one;
	size_t		i;

	for (int l = 0; lists[l] != NULL; l++)
		json_array_foreach(json_object_get(spec, lists[l]), i, one)
	{
		part |= asks_for_part(one);
	}
	request->devices |= part || claims;
	return part ? "it asks for a part of a GPU, which has no price" :
		claims ? "it asks for devices by resourceClaims, which have no price" :
		NULL;
}

/*
 * Whether a container requests a resource of the GPUs' vendor other than the
 * whole GPU.
 */
static bool
asks_for_part(json_t * container)
{
	static const char *const lists[] = {"limits", "requests", NULL};
	size_t		vendor = strcspn(kube.resource, "/") + 1;
	const char *name;
	json_t	   *quantity;

	for (int l = 0; lists[l] != NULL; l++)
		json_object_foreach(DocumentGet(container, "resources", lists[l]), name,
							quantity)
	{
		if (strncmp(name, kube.resource, vendor) == 0 &&
			strcmp(name, kube.resource) != 0)
			return true;
	}
	return false;
}

/*
 * Determines the longest time that kubelet waits between SIGTERM and SIGKILL
 * of a container. Nobody can shorten the wait once it has begun, so a pod
 * whose time exceeds that of a stop is not funded. Returns NULL, or what is
 * wrong.
 */
static const char *
read_grace(PodRequest *request, json_t * spec)
{
	static const char *const lists[] = {"containers", "initContainers", NULL};
	static const char *const probes[] = {"livenessProbe", "startupProbe", NULL};
	static char *wrong;
	json_t	   *its = json_object_get(spec, "terminationGracePeriodSeconds");
	json_t	   *one;
	size_t		i;

	request->grace_s = its == NULL ? DEFAULT_GRACE_S : 1;
	longer(&request->grace_s, its);
	for (int l = 0; lists[l] != NULL; l++)
		json_array_foreach(json_object_get(spec, lists[l]), i, one)
	{
		for (int p = 0; probes[p] != NULL; p++)
			longer(&request->grace_s,
				   DocumentGet(one, probes[p],
							   "terminationGracePeriodSeconds"));
	}
	if (request->grace_s <= KubeStopGrace())
		return NULL;
	if (wrong == NULL)
		wrong = Format("terminationGracePeriodSeconds is above %ld, which is"
					   " all the time that a pod has to end", KubeStopGrace());
	return wrong;
}

static void
longer(long *grace_s, json_t * seconds)
{
	long		its = DocumentGrace(seconds);

	if (its > *grace_s)
		*grace_s = its;
}

/*
 * Returns the GPUs of one container, or -1 if the value is not a count.
 */
static long
gpus_of(json_t * container)
{
	json_t	   *limit = DocumentGet(container, "resources", "limits",
									kube.resource);
	json_t	   *requested = DocumentGet(container, "resources", "requests",
										kube.resource);

	if (limit == NULL)
		limit = requested;
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
 * Whether a text has only characters that a label's value may have, and |
 * between types.
 */
static bool
plain_type(const char *text)
{
	size_t		len = strlen(text);

	return len > 0 && len <= 250 &&
		strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
			   "0123456789._-|") == len;
}

/* Whether a type is in a list that is separated by |. */
bool
TypeAmong(const char *types, const char *type)
{
	size_t		len = strlen(type);

	while (types != NULL)
	{
		size_t		n = strcspn(types, "|");

		if (n == len && strncmp(types, type, n) == 0)
			return true;
		types = types[n] == '|' ? types + n + 1 : NULL;
	}
	return false;
}

static bool
same(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* Whether one hold can pay for both requests. */
bool
PodRequestEqual(const PodRequest *a, const PodRequest *b)
{
	return a->wall_s == b->wall_s && a->window_s == b->window_s &&
		same(a->type, b->type) && same(a->account, b->account) &&
		same(a->tier, b->tier);
}

/*
 * Copies another request, except for its GPUs.
 */
void
PodRequestCopy(PodRequest *request, const PodRequest *other)
{
	TextSet(&request->account, other->account);
	TextSet(&request->type, other->type);
	TextSet(&request->selected, other->selected);
	TextSet(&request->tier, other->tier);
	request->wall_s = other->wall_s;
	request->grace_s = other->grace_s;
	request->window_s = other->window_s;
}

void
PodRequestFree(PodRequest *request)
{
	free(request->account);
	free(request->type);
	free(request->selected);
	free(request->tier);
	free(request->gang);
	memset(request, 0, sizeof(*request));
}
