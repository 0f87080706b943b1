/*-------------------------------------------------------------------------
 *
 * place.c
 *		Nodes in the database, and devices within them.
 *
 * Only kubelet knows which devices of a node a pod has.  The bridge numbers
 * them itself: a pod gets the first that are free on its node.  So the
 * database counts them right, but a number names no real device.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "db.h"
#include "place.h"
#include "util.h"

#define BEAT_NS		(5 * NS_PER_S)

static int64_t beat_ns;			/* when to send the next heartbeats */

static void changed_node(PGresult * result, void *context);
static void beat(void);
static void beaten(PGresult * result, void *context);
static int	by_name(const void *a, const void *b);
static char *running_on(const char *node);
static KubeShare *share_of(KubeJob *job, const char *node);
static uint64_t devices_used_on(const KubeNode *node);

/*
 * Make the next call about nodes, if any: register a new node, or remove one
 * that is gone and empty.
 */
bool
NodesCall(void)
{
	int64_t		now = MonotonicNs();

	for (int i = 0; i < NodeCount(); i++)
	{
		KubeNode   *node = NodeAt(i);
		char		gpus[16];
		char		mib[16];
		const char *values[] = {kube.pool, node->name, node->type, gpus, mib};

		if (node->registered != node->gone || now < node->again_ns ||
			(node->gone && devices_used_on(node) != 0))
			continue;
		snprintf(gpus, sizeof(gpus), "%ld", node->gpus);
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
 * Take the answer.  A call that attempts on the node prevent is repeated, and
 * so is one about a node that has changed since.
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
 * Send heartbeats of the live nodes with what runs there.  Whatever else the
 * database believes to run there is over.
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
 * Obey the database's answers about attempts.  A node that somebody removed
 * from the database is registered again.
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
 * The attempts on a node, one a line.
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
 * Add these devices of a node to a job.
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
 * Take the devices that the database has for a job: lines of node and set.
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
 * Choose devices on the nodes of a job's pods; false: there are not enough.  A
 * choice stays, as the call may be repeated.
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

		if (i == 0 && job->n_shares > 0)
			break;
		for (long d = 0; node != NULL && d < node->gpus && left > 0; d++)
			if ((taken >> d & 1) == 0)
			{
				mine |= UINT64_C(1) << d;
				left--;
			}
		fits = node != NULL && left == 0;
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
 * Are the nodes of its pods registered?
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
