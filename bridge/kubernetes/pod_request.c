/*-------------------------------------------------------------------------
 *
 * pod_request.c
 *		What a pod, or the template of one, asks for.
 *
 * A tenant wrote all of it.  A mistake goes into "wrong", and from there to
 * the tenant; it is never an error of the bridge.
 *
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "document.h"
#include "texts.h"
#include "pod_request.h"

static long read_seconds(PodRequest *request, json_t * annotations,
						 const char *name, const char *wrong);
static const char *read_gpus(PodRequest *request, json_t * spec);
static long gpus_of(json_t * container);
static bool plain_type(const char *text);

/*
 * Read annotations and spec of a document.
 */
void
PodRequestRead(PodRequest *request, json_t * object)
{
	json_t	   *annotations = DocumentGet(object, "metadata", "annotations");
	const char *type = DocumentText(annotations, WORD("gpu-type"));
	const char *size = DocumentText(annotations, WORD("gang-size"));

	TextSet(&request->selected, DocumentText(object, "spec", "nodeSelector",
											 kube.type_label));
	TextSet(&request->type, request->selected == NULL ? type : request->selected);
	TextSet(&request->account, DocumentText(annotations, WORD("account")));
	TextSet(&request->tier, DocumentText(annotations, WORD("tier")));
	TextSet(&request->gang, DocumentText(annotations, WORD("gang")));
	request->wrong = read_gpus(request, json_object_get(object, "spec"));
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
 * A duration among annotations; 0: there is none.
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
 * Count the GPUs that kubelet gives the pod: those of all containers at once,
 * or of the init container that asks for most.  Init containers that stay
 * count with the others.  NULL, or what is wrong.
 */
static const char *
read_gpus(PodRequest *request, json_t * spec)
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
	request->gpus = at_once > before ? at_once : before;
	if (request->gpus > MOST_GPUS)
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
 * Characters that a label's value may have, and | between types.
 */
static bool
plain_type(const char *text)
{
	size_t		len = strlen(text);

	return len > 0 && len <= 250 &&
		strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
			   "0123456789._-|") == len;
}

/* is a type among several, which | parts? */
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

/* can one hold pay for both? */
bool
PodRequestEqual(const PodRequest *a, const PodRequest *b)
{
	return a->wall_s == b->wall_s && a->window_s == b->window_s &&
		same(a->type, b->type) && same(a->account, b->account) &&
		same(a->tier, b->tier);
}

/*
 * Copy another request, but for its GPUs.
 */
void
PodRequestCopy(PodRequest *request, const PodRequest *other)
{
	TextSet(&request->account, other->account);
	TextSet(&request->type, other->type);
	TextSet(&request->selected, other->selected);
	TextSet(&request->tier, other->tier);
	request->wall_s = other->wall_s;
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
