/*-------------------------------------------------------------------------
 *
 * workload.c
 *		The bridge's copy of Kueue's state: workloads, checks and flavors.
 *
 * A workload's request is the sum of the requests of its pod sets' templates.
 * If quota is reserved again, that is another admission, whose credit has
 * another key. The resource flavor that Kueue chose may name the GPU type.
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "document.h"
#include "memory.h"
#include "table.h"
#include "texts.h"
#include "workload.h"

#define MOST_PODS		1024	/* most pods of a workload */

typedef struct KubeFlavor
{
	char	   *name;			/* key of the table, so the first field */
	bool		seen;
	char	   *type;			/* the GPU type that the flavor names, or NULL */
} KubeFlavor;

static KubeTable workloads;
static KubeTable checks;
static KubeTable flavors;

static void mark_workloads(void);
static void put_workload(json_t * object);
static void drop_workload(json_t * object);
static void sweep_workloads(void);
static void mark_checks(void);
static void put_check(json_t * object);
static void drop_check(json_t * object);
static void sweep_checks(void);
static void mark_flavors(void);
static void put_flavor(json_t * object);
static void drop_flavor(json_t * object);
static void sweep_flavors(void);
static json_t * condition(json_t * object, const char *type);
static json_t * named(json_t * list, const char *name);
static void add_set(PodRequest *all, const PodRequest *one, long count,
					int *pods);

KubeWatch	workload_watch = {
	.mark = mark_workloads, .put = put_workload, .drop = drop_workload,
	.sweep = sweep_workloads
};
KubeWatch	check_watch = {
	.mark = mark_checks, .put = put_check, .drop = drop_check,
	.sweep = sweep_checks
};
KubeWatch	flavor_watch = {
	.mark = mark_flavors, .put = put_flavor, .drop = drop_flavor,
	.sweep = sweep_flavors
};

/*
 * Sets the version of Kueue's API whose objects are watched.
 */
void
WorkloadsUse(const char *version)
{
	workload_watch.path = Format(KUEUE_GROUP "%s/workloads", version);
	check_watch.path = Format(KUEUE_GROUP "%s/admissionchecks", version);
	flavor_watch.path = Format(KUEUE_GROUP "%s/resourceflavors", version);
}

/* Whether each list has been read completely once. */
bool
WorkloadsKnown(void)
{
	return workload_watch.complete && check_watch.complete &&
		flavor_watch.complete;
}

int
WorkloadCount(void)
{
	return workloads.n;
}

KubeWorkload *
WorkloadAt(int i)
{
	return workloads.all[i];
}

KubeWorkload *
WorkloadFind(const char *uid)
{
	return TableFind(&workloads, uid);
}

int
CheckCount(void)
{
	return checks.n;
}

KubeCheck *
CheckAt(int i)
{
	return checks.all[i];
}

/* Workloads */

static void
mark_workloads(void)
{
	for (int i = 0; i < workloads.n; i++)
		WorkloadAt(i)->seen = false;
}

/*
 * Stores a new version of a workload. When the admission ends, the reason why
 * its credit was lost is reset.
 */
static void
put_workload(json_t * object)
{
	const char *uid = DocumentText(object, "metadata", "uid");
	const char *space = DocumentText(object, "metadata", "namespace");
	const char *name = DocumentText(object, "metadata", "name");
	json_t	   *quota = condition(object, "QuotaReserved");
	const char *since = quota == NULL ? NULL :
		DocumentText(quota, "lastTransitionTime");
	KubeWorkload *workload;

	if (uid == NULL || space == NULL || name == NULL)
		return;
	workload = TableFind(&workloads, uid);
	if (workload == NULL)
	{
		workload = TableAdd(&workloads, uid, sizeof(*workload));
		TextSet(&workload->space, space);
		TextSet(&workload->name, name);
	}
	workload->seen = true;
	workload->gone = false;
	workload->again_ns = 0;
	json_decref(workload->object);
	workload->object = json_incref(object);
	workload->over = condition(object, "Finished") != NULL ||
		condition(object, "Evicted") != NULL ||
		DocumentGet(object, "metadata", "deletionTimestamp") != NULL ||
		json_is_false(DocumentGet(object, "spec", "active"));
	if (since == NULL || workload->admission == NULL ||
		strcmp(since, workload->admission) != 0)
		TextSet(&workload->stop, NULL);
	TextSet(&workload->admission, since);
}

static void
lose_workload(KubeWorkload *workload)
{
	workload->gone = true;
	TextSet(&workload->admission, NULL);
}

static void
drop_workload(json_t * object)
{
	KubeWorkload *workload =
	WorkloadFind(DocumentText(object, "metadata", "uid"));

	if (workload != NULL)
		lose_workload(workload);
}

static void
sweep_workloads(void)
{
	for (int i = 0; i < workloads.n; i++)
		if (!WorkloadAt(i)->seen)
			lose_workload(WorkloadAt(i));
}

void
WorkloadForget(KubeWorkload *workload)
{
	TableForget(&workloads, workload);
	json_decref(workload->object);
	free(workload->uid);
	free(workload->space);
	free(workload->name);
	free(workload->admission);
	free(workload->stop);
	free(workload);
}

/* Returns a condition that is true, or NULL. */
static json_t *
condition(json_t * object, const char *type)
{
	json_t	   *one;
	size_t		i;

	json_array_foreach(DocumentGet(object, "status", "conditions"), i, one)
	{
		const char *name = DocumentText(one, "type");
		const char *status = DocumentText(one, "status");

		if (name != NULL && status != NULL && strcmp(name, type) == 0)
			return strcmp(status, "True") == 0 ? one : NULL;
	}
	return NULL;
}

/*
 * Returns the state of the bridge's check on a workload that has quota.
 * Returns NULL if the workload has none, or the check is not the bridge's.
 */
json_t *
WorkloadCheck(const KubeWorkload *workload)
{
	json_t	   *one;
	size_t		i;

	if (workload->gone || workload->over || workload->admission == NULL)
		return NULL;
	json_array_foreach(DocumentGet(workload->object, "status",
								   "admissionChecks"), i, one)
	{
		KubeCheck  *check = TableFind(&checks, DocumentText(one, "name"));

		if (check != NULL && check->ours)
			return one;
	}
	return NULL;
}

/* Whether the bridge's check has this state. */
bool
WorkloadIn(const KubeWorkload *workload, const char *state)
{
	const char *is = DocumentText(WorkloadCheck(workload), "state");

	return is != NULL && strcmp(is, state) == 0;
}

/*
 * Returns the idempotency key of the workload's credit. The caller frees it.
 */
char *
WorkloadKey(const KubeWorkload *workload)
{
	return Format("%s/%s", workload->uid, workload->admission);
}

/*
 * Adds up the requests of the workload's pods. Returns how many pods request
 * GPUs and, if "names" is not NULL, adds the names of their pod sets to it.
 */
int
WorkloadWish(const KubeWorkload *workload, PodRequest *request, json_t * names)
{
	json_t	   *given = DocumentGet(workload->object, "status", "admission",
									"podSetAssignments");
	json_t	   *most = DocumentGet(workload->object, "spec",
								   "maximumExecutionTimeSeconds");
	json_t	   *set;
	size_t		i;
	int			pods = 0;

	memset(request, 0, sizeof(*request));
	json_array_foreach(DocumentGet(workload->object, "spec", "podSets"), i,
					   set)
	{
		const char *name = DocumentText(set, "name");
		json_t	   *mine = named(given, name);
		json_t	   *count = json_object_get(mine, "count");
		KubeFlavor *flavor = TableFind(&flavors, DocumentText(mine, "flavors",
															  kube.resource));
		PodRequest	one = {0};

		PodRequestRead(&one, json_object_get(set, "template"));
		if (!json_is_integer(count))
			count = json_object_get(set, "count");
		if (flavor != NULL && flavor->type != NULL)
		{
			if (one.type != NULL && !TypeAmong(one.type, flavor->type))
				one.wrong = "the resource flavor is of another GPU type";
			TextSet(&one.type, flavor->type);
		}
		if (one.wrong != NULL ||
			(one.gpus > 0 && json_integer_value(count) > 0))
		{
			if (names != NULL)
				json_array_append_new(names, json_string(name));
			add_set(request, &one, json_integer_value(count), &pods);
		}
		PodRequestFree(&one);
	}
	if (json_integer_value(most) > 0 &&
		(request->wall_s == 0 || request->wall_s > json_integer_value(most)))
		request->wall_s = json_integer_value(most);
	return pods;
}

/*
 * Adds a pod set of "count" pods. One hold pays for all sets, so they must
 * agree in everything except the number of GPUs.
 */
static void
add_set(PodRequest *all, const PodRequest *one, long count, int *pods)
{
	const char *wrong = one->wrong;

	if (*pods > 0 && !PodRequestEqual(all, one))
		wrong = "its pod sets differ in more than the number of GPUs";
	if (count > MOST_PODS - *pods)
		wrong = "it has more than 1024 pods";
	if (wrong != NULL)
	{
		all->wrong = wrong;
		return;
	}
	if (*pods == 0)
		PodRequestCopy(all, one);
	if (one->grace_s > all->grace_s)
		all->grace_s = one->grace_s;
	all->gpus += one->gpus * count;
	*pods += count;
}

static json_t *
named(json_t * list, const char *name)
{
	json_t	   *one;
	size_t		i;

	json_array_foreach(list, i, one)
	{
		const char *its = DocumentText(one, "name");

		if (its != NULL && name != NULL && strcmp(its, name) == 0)
			return one;
	}
	return NULL;
}

/* Checks */

static void
mark_checks(void)
{
	for (int i = 0; i < checks.n; i++)
		CheckAt(i)->seen = false;
}

/*
 * Stores a check. The name of its controller shows whether it is the bridge's.
 */
static void
put_check(json_t * object)
{
	const char *name = DocumentText(object, "metadata", "name");
	const char *controller = DocumentText(object, "spec", "controllerName");
	KubeCheck  *check = TableFind(&checks, name);

	if (name == NULL)
		return;
	if (check == NULL)
		check = TableAdd(&checks, name, sizeof(*check));
	check->seen = true;
	check->again_ns = 0;
	check->ours = controller != NULL && strcmp(controller, CONTROLLER) == 0;
	check->active = condition(object, "Active") != NULL;
	json_decref(check->object);
	check->object = json_incref(object);
}

static void
drop_check(json_t * object)
{
	KubeCheck  *check = TableFind(&checks, DocumentText(object, "metadata",
														"name"));

	if (check != NULL)
		check->ours = false;
}

static void
sweep_checks(void)
{
	for (int i = 0; i < checks.n; i++)
		CheckAt(i)->ours &= CheckAt(i)->seen;
}

/* Flavors */

static void
mark_flavors(void)
{
	for (int i = 0; i < flavors.n; i++)
		((KubeFlavor *) flavors.all[i])->seen = false;
}

static void
put_flavor(json_t * object)
{
	const char *name = DocumentText(object, "metadata", "name");
	KubeFlavor *flavor = TableFind(&flavors, name);

	if (name == NULL)
		return;
	if (flavor == NULL)
		flavor = TableAdd(&flavors, name, sizeof(*flavor));
	flavor->seen = true;
	TextSet(&flavor->type, DocumentText(object, "spec", "nodeLabels",
										kube.type_label));
}

static void
drop_flavor(json_t * object)
{
	KubeFlavor *flavor = TableFind(&flavors, DocumentText(object, "metadata",
														  "name"));

	if (flavor != NULL)
		TextSet(&flavor->type, NULL);
}

static void
sweep_flavors(void)
{
	for (int i = 0; i < flavors.n; i++)
		if (!((KubeFlavor *) flavors.all[i])->seen)
			TextSet(&((KubeFlavor *) flavors.all[i])->type, NULL);
}
