/*-------------------------------------------------------------------------
 *
 * place.c
 *		Registers nodes in the database, and chooses device numbers for pods.
 *
 * Only kubelet knows which devices of a node a pod has. The bridge therefore
 * numbers devices itself: a pod gets the lowest free numbers of its node. So
 * the database counts devices correctly, but a number does not identify a
 * physical device.
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "config.h"
#include "db.h"
#include "log.h"
#include "memory.h"
#include "place.h"

#define BEAT_NS		(5 * NS_PER_S)

static int64_t beat_ns;			/* when to send the next heartbeats */

static void count_devices(KubeNode *node, long numbers);
static void changed_node(PGresult * result, void *context);
static void beat(void);
static void beaten(PGresult * result, void *context);
static int	by_name(const void *a, const void *b);
static char *running_on(const char *node);
static KubeShare *share_of(KubeJob *job, const char *node);
static uint64_t devices_used_on(const KubeNode *node);

/*
 * Makes the next call about nodes, if one is needed: registers a new node, or
 * removes a node that is gone and has no attempt. Returns whether a call was
 * made.
 */
bool
NodesCall(void)
{
	int64_t		now = MonotonicNs();

	for (int i = 0; i < NodeCount(); i++)
	{
		KubeNode   *node = NodeAt(i);
		bool		stands = node->registered != node->gone;
		uint64_t	used = stands && node->numbers <= node->gpus ? 0 :
			devices_used_on(node);
		char		gpus[16];
		char		mib[16];
		const char *values[] = {kube.pool, node->name, node->type, gpus, mib};

		/*
		 * An earlier bridge registered more devices, which attempts still
		 * use.
		 */
		while (node->numbers < MOST_GPUS && used >> node->numbers != 0)
			node->numbers++;

		/*
		 * The attempts that needed the additional device numbers have ended.
		 */
		if (node->registered && node->numbers > node->gpus &&
			used >> node->gpus == 0)
			count_devices(node, node->gpus);
		if (stands || now < node->again_ns ||
			(node->gone && used != 0))
			continue;
		snprintf(gpus, sizeof(gpus), "%ld", node->numbers);
		snprintf(mib, sizeof(mib), "%ld", node->gpu_mib);
		node->removing = node->gone;
		node->changed = false;
		if (node->removing)
			DbCall("SELECT gpucredit.remove_node($1)", 1, values + 1,
				   changed_node, node);
		else
			DbCall("SELECT gpucredit.register_node($1, $2, $3,"
				   " $4::pg_catalog.int4, $5::pg_catalog.int8)", 5, values,
				   changed_node, node);
		return true;
	}
	if (now < beat_ns || NodeCount() == 0)
		return false;
	beat();
	return true;
}

/*
 * Has the node registered with this number of devices.
 */
static void
count_devices(KubeNode *node, long numbers)
{
	node->numbers = numbers;
	node->registered = false;
	node->changed = true;
}

/*
 * Handles the answer. A call that attempts on the node prevent is repeated,
 * and so is a call about a node that has changed since.
 */
static void
changed_node(PGresult * result, void *context)
{
	KubeNode   *node = context;

	if (result != NULL && (*DbState(result) == '\0' ||
						   (node->removing &&
							strcmp(DbState(result), "UC401") == 0)))
	{
		node->registered = !node->removing && !node->changed;
		return;
	}
	node->again_ns = MonotonicNs() + BEAT_NS;
	LogLine("event=node_refused node=%s error=\"%s\"", node->name,
			result == NULL ? "no answer" :
			PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
}

/*
 * Sends heartbeats of the live nodes with their running attempts. The database
 * settles any other attempt that it has on them.
 */
static void
beat(void)
{
	TextArray	nodes = {0};
	TextArray	running = {0};
	const char **names = Alloc(NodeCount() * sizeof(char *) + 1);
	const char *values[2];
	int			n = 0;

	beat_ns = MonotonicNs() + BEAT_NS;
	for (int i = 0; i < NodeCount(); i++)
		if (NodeAt(i)->ready && !NodeAt(i)->gone)
			names[n++] = NodeAt(i)->name;
	qsort(names, n, sizeof(char *), by_name);
	for (int i = 0; i < n; i++)
	{
		char	   *list = running_on(names[i]);

		TextsAdd(&nodes, names[i]);
		TextsAdd(&running, list);
		free(list);
	}
	free(names);
	values[0] = TextsOf(&nodes);
	values[1] = TextsOf(&running);
	DbCall("SELECT h.org, h.job, h.action, h.reason,"
		   " extract(epoch FROM h.time_left) AS left_s"
		   " FROM ROWS FROM (pg_catalog.unnest($1::pg_catalog.text[]),"
		   "  pg_catalog.unnest($2::pg_catalog.text[])) n(node, running)"
		   " CROSS JOIN LATERAL gpucredit.heartbeat(n.node, NULL,"
		   "  pg_catalog.string_to_array(n.running, E'\\n')) h", 2, values,
		   beaten, NULL);
	TextsFree(&nodes);
	TextsFree(&running);
}

/*
 * Executes the database's directives about attempts. A node that somebody
 * removed from the database is registered again.
 */
static void
beaten(PGresult * result, void *context)
{
	(void) context;
	if (result == NULL)
		return;
	if (*DbState(result) != '\0')
	{
		LogLine("event=heartbeat_refused state=%s error=\"%s\"", DbState(result),
				PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
		for (int i = 0; i < NodeCount(); i++)
			NodeAt(i)->registered &= strcmp(DbState(result), "UC401") != 0;
		return;
	}
	for (int i = 0; i < PQntuples(result); i++)
	{
		KubeJob    *job = JobFind(DbField(result, i, "org"),
								  DbField(result, i, "job"));
		const char *reason = DbField(result, i, "reason");
		const char *left = DbField(result, i, "left_s");

		if (job != NULL && strcmp(DbField(result, i, "action"), "start") != 0)
			JobObey(job, DbField(result, i, "action"),
					reason == NULL ? "" : reason,
					left == NULL ? 0 : strtod(left, NULL));
	}
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

/*
 * Lists the attempts on a node, one per line.
 */
static char *
running_on(const char *node)
{
	char	   *list = Dup("");

	for (int i = 0; i < JobCount(); i++)
	{
		KubeJob    *job = JobAt(i);
		char	   *more;

		if (job->stage != KUBE_RUNS || share_of(job, node) == NULL)
			continue;
		more = Format("%s%s%s/%s/%s", list, *list == '\0' ? "" : "\n",
					  job->org, job->id, job->attempt);
		free(list);
		list = more;
	}
	return list;
}

static KubeShare *
share_of(KubeJob *job, const char *node)
{
	for (int i = 0; i < job->n_shares; i++)
		if (strcmp(job->shares[i].node, node) == 0)
			return &job->shares[i];
	return NULL;
}

static uint64_t
devices_used_on(const KubeNode *node)
{
	uint64_t	taken = 0;

	for (int i = 0; i < JobCount(); i++)
	{
		KubeShare  *share = share_of(JobAt(i), node->name);

		if (share != NULL && JobAt(i)->stage < KUBE_OVER)
			taken |= share->gpus;
	}
	return taken;
}

/*
 * Adds devices of a node to a job.
 */
static void
add_share(KubeJob *job, const char *node, uint64_t gpus)
{
	KubeShare  *share = share_of(job, node);

	if (share != NULL)
	{
		share->gpus |= gpus;
		return;
	}
	job->shares = realloc(job->shares, (job->n_shares + 1) *
						  sizeof(KubeShare));
	if (job->shares == NULL)
		Die("out of memory");
	job->shares[job->n_shares++] = (KubeShare)
	{
		Dup(node), gpus
	};
}

/*
 * Parses the devices that the database has for a job: lines of a node and a
 * gpuset.
 */
void
PlaceRead(KubeJob *job, const char *shares)
{
	char	   *copy = Dup(shares);
	char	   *rest = copy;
	char	   *line;

	while ((line = strsep(&rest, "\n")) != NULL)
	{
		char	   *set = strchr(line, ' ');

		if (set == NULL)
			continue;
		*set++ = '\0';
		add_share(job, line, DevicesOf(set));
	}
	free(copy);
}

/*
 * Chooses device numbers for a job's pods. Returns false if that is not
 * possible yet. Kubelet may have given this job the devices of a pod that is
 * not settled yet; then the node is registered with more devices for a while.
 * Once made, a choice is kept, as the call may be repeated.
 */
bool
PlaceChoose(KubeJob *job, TextArray *nodes, TextArray *gpus,
			const char **type)
{
	bool		fits = true;

	for (int i = 0; i < job->n && fits && job->n_shares >= 0; i++)
	{
		KubeNode   *node = NodeFind(job->pods[i]->node);
		uint64_t	taken = node == NULL ? 0 : devices_used_on(node);
		uint64_t	mine = 0;
		long		left = job->pods[i]->request.gpus;
		long		last = 0;

		if (i == 0 && job->n_shares > 0)
			break;
		for (long d = 0; node != NULL && d < MOST_GPUS && left > 0; d++)
			if ((taken >> d & 1) == 0)
			{
				mine |= UINT64_C(1) << d;
				last = d;
				left--;
			}
		fits = node != NULL && left == 0;
		if (node != NULL && left > 0)
		{
			LogLine("event=no_devices job=%s node=%s", job->id, node->name);
			job->again_ns = MonotonicNs() + NS_PER_S;
		}
		if (fits && last >= node->numbers)
			count_devices(node, last + 1);
		fits &= node != NULL && node->registered;
		if (fits)
			add_share(job, node->name, mine);
	}
	if (!fits)
		PlaceForget(job);
	for (int i = 0; i < job->n_shares; i++)
	{
		char	   *set = DevicesText(job->shares[i].gpus);
		KubeNode   *node = NodeFind(job->shares[i].node);

		TextsAdd(nodes, job->shares[i].node);
		TextsAdd(gpus, set);
		if (node != NULL)
			*type = node->type;
		free(set);
	}
	return fits;
}

void
PlaceForget(KubeJob *job)
{
	while (job->n_shares > 0)
		free(job->shares[--job->n_shares].node);
}

/*
 * Returns a node that runs one of the job's pods and has no label for its GPU
 * type, or NULL if there is none.
 */
const char *
PlaceUnknownNode(const KubeJob *job)
{
	for (int i = 0; i < job->n; i++)
		if (job->pods[i]->node != NULL && NodeFind(job->pods[i]->node) == NULL)
			return job->pods[i]->node;
	return NULL;
}

/*
 * Whether all nodes of the job's pods are registered.
 */
bool
PlaceStands(const KubeJob *job)
{
	for (int i = 0; i < job->n; i++)
	{
		KubeNode   *node = NodeFind(job->pods[i]->node);

		if (job->pods[i]->node != NULL && (node == NULL || node->gone))
			return false;
	}
	return true;
}
