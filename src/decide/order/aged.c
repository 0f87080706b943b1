/*
 * aged.c
 *	  Jobs that have waited longer than their tier's max_wait.
 *
 * Aged jobs go first within their rank.  They also go before all jobs whose
 * rank is at least their tier's ages_to.  Among each other aged jobs go in the
 * order in which they became aged, whatever their account.
 */
#include "decide/order/order.h"

/*
 * The time at which a job became aged.
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
 * Sorts the aged jobs.  Returns false if memory runs out.
 */
bool
DecideAgedSort(Queue *queue, const DecideArena *arena)
{
	DecideAssert(queue != NULL);
	DecideAssert(queue->n_aged <= queue->input->n_jobs);
	return DecideSort(arena, queue->aged, queue->n_aged, compare_aged, queue);
}

/*
 * Returns the next aged job that may go before all jobs of a rank, or -1.
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
 * Returns a tier's ages_to if an operator has not set it: its aged jobs go
 * before all ranks down to, but not including, the rank of a tier that may
 * preempt it.  A waiting job should not go before one that could evict it once
 * it runs.
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
