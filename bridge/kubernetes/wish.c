/*-------------------------------------------------------------------------
 *
 * wish.c
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
#include "wish.h"

static long read_seconds(KubeWish *wish, json_t * annotations,
						 const char *name, const char *wrong);
static const char *read_gpus(KubeWish *wish, json_t * spec);
static long gpus_of(json_t * container);
static bool plain_type(const char *text);

/*
 * Read annotations and spec of a document.
 */
void
WishRead(KubeWish *wish, json_t * object)
{
	json_t	   *annotations = DocumentGet(object, "metadata", "annotations");
	const char *type = DocumentText(annotations, WORD("gpu-type"));
	const char *size = DocumentText(annotations, WORD("gang-size"));

	TextSet(&wish->selected, DocumentText(object, "spec", "nodeSelector",
										  kube.type_label));
	TextSet(&wish->type, wish->selected == NULL ? type : wish->selected);
	TextSet(&wish->account, DocumentText(annotations, WORD("account")));
	TextSet(&wish->tier, DocumentText(annotations, WORD("tier")));
	TextSet(&wish->gang, DocumentText(annotations, WORD("gang")));
	wish->wrong = read_gpus(wish, json_object_get(object, "spec"));
	if (wish->type != NULL && !plain_type(wish->type))
		wish->wrong = "the GPU type cannot be read";
	wish->wall_s = read_seconds(wish, annotations, WORD("wall-limit"),
								"wall-limit is no duration");
	wish->window_s = read_seconds(wish, annotations, WORD("hold-window"),
								  "hold-window is no duration");
	wish->deadline_s =
		json_integer_value(DocumentGet(object, "spec",
									   "activeDeadlineSeconds"));
	if (wish->wall_s == 0)
		wish->wall_s = wish->deadline_s;
	wish->gang_size = 1;
	if (wish->gang != NULL)
	{
		wish->gang_size = DocumentCount(size, 1024);
		if (wish->gang_size < 1)
			wish->wrong = "gang-size is no count from 1 to 1024";
	}
}

/*
 * A duration among annotations; 0: there is none.
 */
static long
read_seconds(KubeWish *wish, json_t * annotations, const char *name,
			 const char *wrong)
{
	const char *text = DocumentText(annotations, name);
	long		seconds = DocumentSeconds(text);

	if (text == NULL)
		return 0;
	if (seconds < 0)
	{
		wish->wrong = wrong;
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
read_gpus(KubeWish *wish, json_t * spec)
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
	wish->gpus = at_once > before ? at_once : before;
	if (wish->gpus > MOST_GPUS)
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
WishAlike(const KubeWish *a, const KubeWish *b)
{
	return a->wall_s == b->wall_s && a->window_s == b->window_s &&
		same(a->type, b->type) && same(a->account, b->account) &&
		same(a->tier, b->tier);
}

/*
 * Copy another request, but for its GPUs.
 */
void
WishTake(KubeWish *wish, const KubeWish *other)
{
	TextSet(&wish->account, other->account);
	TextSet(&wish->type, other->type);
	TextSet(&wish->selected, other->selected);
	TextSet(&wish->tier, other->tier);
	wish->wall_s = other->wall_s;
	wish->window_s = other->window_s;
}

void
WishFree(KubeWish *wish)
{
	free(wish->account);
	free(wish->type);
	free(wish->selected);
	free(wish->tier);
	free(wish->gang);
	memset(wish, 0, sizeof(*wish));
}
