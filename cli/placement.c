/*-------------------------------------------------------------------------
 *
 * placement.c
 *		The nodes of a submission: "placement" of the options of reserve().
 *
 * As in Slurm, a job with --nodelist runs on all nodes of the list, so their
 * number is that of --nodes. Where options define the number of nodes, GPUs
 * are divided evenly among them, which makes --nodes exact.
 *-------------------------------------------------------------------------
 */
#include <string.h>

#include "cli.h"
#include "submission.h"

#define NODE_GPUS_MOST	64		/* as many as a node can have */

static int64_t gpus_per_node(const StoredSubmission *s);

/*
 * Sets the number of nodes to that of --nodelist.
 */
void
PlacementCount(StoredSubmission *s)
{
	int64_t		named = (int64_t) json_array_size(s->nodelist);
	JobCounts	counts;

	if (named == 0)
		return;
	if (s->nodes != 0 && s->nodes != named)
		Fail(CLI_USAGE, "%s: --nodelist names %lld nodes, and --nodes is %lld;"
			 " name as many nodes as the job has", s->nodelist_place,
			 (long long) named, (long long) s->nodes);
	s->nodes = named;
	counts = SubmissionCounts(s);
	if (counts.nodes != named)
		Fail(CLI_USAGE, "%s: --nodelist names %lld nodes, and the job has %lld"
			 " tasks; name fewer nodes", s->nodelist_place,
			 (long long) named, (long long) counts.tasks);
	if (named > 1 && gpus_per_node(s) == 0)
		Fail(CLI_USAGE, "%s: --nodelist names %lld nodes, and the job has the"
			 " same number of GPUs on each; use --gpus-per-node",
			 s->nodelist_place, (long long) named);
}

/*
 * Returns the placement of a submission, or NULL if it may use all nodes and
 * any number of GPUs on each.
 */
json_t *
PlacementOption(const StoredSubmission *s)
{
	json_t	   *placement = json_object();
	int64_t		per_node = gpus_per_node(s);

	if (s->nodelist != NULL)
		json_object_set(placement, "nodes", s->nodelist);
	if (s->excluded != NULL)
		json_object_set(placement, "exclude", s->excluded);
	if (json_array_size(s->features) > 0)
		json_object_set(placement, "labels", s->features);
	if (per_node > 0)
		json_object_set_new(placement, "gpus_per_node",
							json_integer(per_node));
	if (s->whole.nodes > 0)
		json_object_set_new(placement, "whole_nodes", json_true());
	if (json_object_size(placement) > 0)
		return placement;
	json_decref(placement);
	return NULL;
}

/*
 * Whether a job has one node, whatever the scheduler does.
 */
bool
SubmissionOnOneNode(const StoredSubmission *s)
{
	JobCounts	counts = SubmissionCounts(s);

	return counts.one_node || (s->request == NULL && counts.gpus <= 1) ||
		(s->topology != NULL && strcmp(s->topology, "node") == 0);
}

/*
 * Returns how many GPUs a job of several nodes has on each, or 0 if the
 * scheduler chooses.
 */
static int64_t
gpus_per_node(const StoredSubmission *s)
{
	JobCounts	counts = SubmissionCounts(s);

	if (s->whole.nodes > 0)
		return s->whole.gpus;
	if (s->request != NULL || counts.nodes < 2 || counts.gpus < counts.nodes ||
		counts.gpus % counts.nodes != 0 ||
		counts.gpus / counts.nodes > NODE_GPUS_MOST)
		return 0;
	return counts.gpus / counts.nodes;
}
