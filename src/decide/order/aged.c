/*
 * aged.c
 *	  Jobs that have waited longer than their tier's max_wait.
 *
 * They go first within their rank.  Before jobs of other ranks they go as far
 * as their tier's ages_to says: before every job whose rank is this or higher.
 * Among themselves they go by when they became aged, whosever they are.
 */
#include "decide/order/order.h"

/*
 * When a job became aged.
 */
static int64_t
aged_since(const DecideInput *input, const DecideJob *job)
{
	int64_t		wait = input->tiers[job->tier].max_wait;

	if (job->submitted > 0 && wait > INT64_MAX - job->submitted)
		return INT64_MAX;
	return job->submitted + wait;
}

/*----------
 * The order of aged jobs, whose account does not matter:
 *
 * 1. rank of the tier;
 * 2. when the job became aged;
 * 3. organisation, by name;
 * 4. number of the job.
 *----------
 */
static int
compare_aged(const void *context, int32_t a, int32_t b)
{
	const Queue *queue = context;
	const DecideJob *x = &queue->input->jobs[a];
	const DecideJob *y = &queue->input->jobs[b];
	int32_t		rank_x = DecideAgedRank(queue->input, a);
	int32_t		rank_y = DecideAgedRank(queue->input, b);
	int64_t		since_x = aged_since(queue->input, x);
	int64_t		since_y = aged_since(queue->input, y);
	int32_t		org_x = queue->tree.use.org[x->account];
	int32_t		org_y = queue->tree.use.org[y->account];

	if (rank_x != rank_y)
		return rank_x < rank_y ? -1 : 1;
	if (since_x != since_y)
		return since_x < since_y ? -1 : 1;
	if (org_x != org_y)
		return org_x < org_y ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

/*
 * Put the aged jobs in order.  False: out of memory.
 */
bool
DecideAgedSort(Queue *queue, const DecideArena *arena)
{
	DecideAssert(queue != NULL);
	DecideAssert(queue->n_aged <= queue->input->n_jobs);
	return DecideSort(arena, queue->aged, queue->n_aged, compare_aged, queue);
}

/*
 * The next aged job that may go before all jobs of a rank, or -1.
 */
int32_t
DecideAgedNext(Queue *queue, int32_t rank)
{
	DecideAssert(queue->next_aged <= queue->n_aged);
	DecideAssert(queue->blocked != NULL);
	while (queue->next_aged < queue->n_aged)
	{
		int32_t		job = queue->aged[queue->next_aged];

		if (!queue->blocked[queue->input->jobs[job].request])
		{
			if (DecideAgedRank(queue->input, job) > rank)
				return -1;
			queue->next_aged++;
			return job;
		}
		queue->next_aged++;
	}
	return -1;
}

/*
 * Before which ranks a tier's aged jobs go where nothing else is set: before
 * all down to, but without, that of a tier that may preempt it.  A job that
 * waits should not be in the way of one that could evict it once it runs.
 */
int32_t
DecideAgesTo(const DecideTier *tiers, int32_t n_tiers, int32_t tier)
{
	int32_t		rank = 0;
	int32_t		i;

	DecideAssert(tiers != NULL);
	DecideAssert(tier >= 0 && tier < n_tiers);
	for (i = 0; i < n_tiers; i++)
	{
		if (tiers[i].can_preempt && tiers[i].rank < tiers[tier].rank &&
			tiers[i].rank >= rank)
			rank = tiers[i].rank + 1;
	}
	return rank;
}
