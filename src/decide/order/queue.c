/*
 * queue.c
 *	  Whose turn it is: a queue that hears of each start.
 *
 * Aged jobs go first, by when they had to be (submitted and their tier's
 * max_wait), organisation, job.  Then tiers that are guaranteed a share of the
 * pool, as long as their first job stays within it, and then all tiers by
 * rank.  Within these the forest says who is first: accounts by fair share,
 * which each start changes, then priority inside the account, submit time,
 * organisation, job.
 *
 * A job has one turn in a cycle.  A request that could not start a job is blocked
 * by the caller, and its other jobs have none.
 */
#include <string.h>

#include "decide/order/order.h"

/*
 * When a job had to go first.
 */
static int64_t
aged_since(const DecideInput *input, const DecideJob *job)
{
	int64_t		wait = input->tiers[job->tier].max_wait;

	if (job->submitted > 0 && wait > INT64_MAX - job->submitted)
		return INT64_MAX;
	return job->submitted + wait;
}

/*
 * Compare two aged jobs.
 */
static int
compare_aged(const void *context, int32_t a, int32_t b)
{
	const Queue *queue = context;
	const DecideJob *x = &queue->input->jobs[a];
	const DecideJob *y = &queue->input->jobs[b];
	int64_t		since_x = aged_since(queue->input, x);
	int64_t		since_y = aged_since(queue->input, y);
	int32_t		org_x = queue->tree.use.org[x->account];
	int32_t		org_y = queue->tree.use.org[y->account];

	if (since_x != since_y)
		return since_x < since_y ? -1 : 1;
	if (org_x != org_y)
		return org_x < org_y ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

/*
 * Compare two tiers by rank.
 */
static int
compare_rank(const void *context, int32_t a, int32_t b)
{
	const DecideTier *tiers = context;

	return tiers[a].rank < tiers[b].rank ? -1 : tiers[a].rank > tiers[b].rank;
}

/*
 * Sort jobs by a number from 0 to n_keys - 1 of each, keeping the order of
 * equals.  count has room for one more than n_keys.
 */
static void
sort_by(const DecideInput *input, const int32_t *from, int32_t *to, int32_t n,
		bool by_account, int32_t *count, int32_t n_keys)
{
	int32_t		i;

	memset(count, 0, ((size_t) n_keys + 1) * sizeof(int32_t));
	for (i = 0; i < n; i++)
	{
		const DecideJob *job = &input->jobs[from[i]];

		count[(by_account ? job->account : job->request) + 1]++;
	}
	for (i = 0; i < n_keys; i++)
		count[i + 1] += count[i];
	for (i = 0; i < n; i++)
	{
		const DecideJob *job = &input->jobs[from[i]];

		to[count[by_account ? job->account : job->request]++] = from[i];
	}
}

/*
 * Put aged jobs apart, and the others account by account, request by request.  Whom
 * quotas hold back are not in the queue.
 */
static bool
jobs_sort(Queue *queue, const DecideArena *arena, const int32_t *held,
		  int32_t *others, int32_t *n_others)
{
	const DecideInput *input = queue->input;
	int32_t		n_keys = input->n_requests > input->n_accounts ?
		input->n_requests :
		input->n_accounts;
	int32_t    *spare = DecideAlloc(arena, input->n_jobs, sizeof(int32_t));
	int32_t    *count = DecideAlloc(arena, (int64_t) n_keys + 1,
									sizeof(int32_t));
	int32_t		i;

	queue->aged = DecideAlloc(arena, input->n_jobs, sizeof(int32_t));
	if (spare == NULL || count == NULL || queue->aged == NULL)
		return false;
	*n_others = 0;
	for (i = 0; i < input->n_jobs; i++)
	{
		if (held != NULL && held[i] != DECIDE_NOT_HELD)
			continue;
		if (DecideJobAged(input, i))
			queue->aged[queue->n_aged++] = i;
		else
			others[(*n_others)++] = i;
	}
	sort_by(input, others, spare, *n_others, false, count, input->n_requests);
	sort_by(input, spare, others, *n_others, true, count, input->n_accounts);
	return DecideSort(arena, queue->aged, queue->n_aged, compare_aged, queue);
}

/*
 * Add a tree for the jobs of some tiers, whose items start at first.
 */
static bool
tree_add(Queue *queue, const DecideArena *arena, int which, const bool *tiers,
		 const int32_t *jobs, int32_t n, int32_t *first, int32_t *root)
{
	int32_t    *items = queue->tree.items;
	int32_t		end = *first;
	int32_t		i;

	for (i = 0; i < n; i++)
	{
		if (tiers[queue->input->jobs[jobs[i]].tier])
			items[end++] = jobs[i];
	}
	*root = DecideFairshareTreeAdd(&queue->tree, arena, which, *first, end);
	*first = end;
	return *root >= 0;
}

/*
 * A tree for each rank, and one for each tier with a share.
 */
static bool
trees_add(Queue *queue, const DecideArena *arena, const int32_t *jobs,
		  int32_t n)
{
	const DecideTier *tiers = queue->input->tiers;
	int32_t		n_tiers = queue->input->n_tiers;
	int32_t    *order = DecideAlloc(arena, n_tiers, sizeof(int32_t));
	bool	   *these = DecideAlloc(arena, n_tiers, sizeof(bool));
	int32_t		first = 0;
	int32_t		i;

	queue->ranks = DecideAlloc(arena, n_tiers, sizeof(int32_t));
	queue->shares = DecideAlloc(arena, n_tiers, sizeof(TierQueue));
	if (order == NULL || these == NULL || queue->ranks == NULL ||
		queue->shares == NULL)
		return false;
	memset(these, 0, (size_t) n_tiers * sizeof(bool));
	for (i = 0; i < n_tiers; i++)
		order[i] = i;
	if (!DecideSort(arena, order, n_tiers, compare_rank, tiers))
		return false;
	for (i = 0; i < n_tiers; i++)
	{
		these[order[i]] = true;
		if (i + 1 < n_tiers && compare_rank(tiers, order[i], order[i +
																   1]) == 0)
			continue;
		if (!tree_add(queue, arena, 0, these, jobs, n, &first,
					  &queue->ranks[queue->n_ranks++]))
			return false;
		memset(these, 0, (size_t) n_tiers * sizeof(bool));
	}
	for (i = 0; i < n_tiers; i++)
	{
		TierQueue  *share = &queue->shares[queue->n_shares];

		if (tiers[order[i]].share_ppm == 0)
			continue;
		these[order[i]] = true;
		share->tier = order[i];
		if (!tree_add(queue, arena, 1, these, jobs, n, &first, &share->root))
			return false;
		these[order[i]] = false;
		queue->n_shares++;
	}
	return DecideFairshareTreeReady(&queue->tree, arena);
}

/*
 * What of the pool's healthy devices each tier is guaranteed, and uses.
 */
static bool
shares_begin(Queue *queue, const DecideArena *arena)
{
	const DecideInput *input = queue->input;
	int64_t		devices = 0;
	int32_t		i;

	queue->tier_used = DecideAlloc(arena, input->n_tiers, sizeof(int64_t));
	queue->tier_share = DecideAlloc(arena, input->n_tiers, sizeof(int64_t));
	if (queue->tier_used == NULL || queue->tier_share == NULL)
		return false;
	for (i = 0; i < input->n_nodes; i++)
	{
		const DecideNode *node = &input->nodes[i];
		uint64_t	there = node->gpus < 64 ?
			(UINT64_C(1) << node->gpus) - 1 : UINT64_MAX;

		devices += __builtin_popcountll(node->usable & there);
	}
	for (i = 0; i < input->n_tiers; i++)
	{
		queue->tier_used[i] = input->tiers[i].live;
		queue->tier_share[i] = devices * input->tiers[i].share_ppm /
			(1000000 / DECIDE_WHOLE);
	}
	return true;
}

/*
 * Is a job there twice, or of another organisation than its account?
 */
static const char *
jobs_error(const Queue *queue, const DecideArena *arena)
{
	const DecideInput *input = queue->input;
	const FairUse *use = &queue->tree.use;
	uint64_t	size = 16;
	int32_t    *table;
	int32_t		i;

	while (size < (uint64_t) input->n_jobs * 2)
		size *= 2;
	table = DecideAlloc(arena, (int64_t) size, sizeof(int32_t));
	if (table == NULL)
		return "out of memory";
	memset(table, 0xFF, size * sizeof(int32_t));
	for (i = 0; i < input->n_jobs; i++)
	{
		const DecideJob *job = &input->jobs[i];
		int32_t		org = use->org[job->account];
		uint64_t	at = ((uint64_t) job->id * UINT64_C(0x9E3779B97F4A7C15) ^
						  (uint64_t) org * UINT64_C(0xC2B2AE3D27D4EB4F));

		if (strcmp(job->org, input->accounts[use->root[job->account]].name))
			return "a job is of another organisation than its account";
		for (at = (at ^ at >> 32) & (size - 1); table[at] >= 0;
			 at = (at + 1) & (size - 1))
		{
			const DecideJob *other = &input->jobs[table[at]];

			if (other->id == job->id && use->org[other->account] == org)
				return "a job is in the queue twice";
		}
		table[at] = i;
	}
	return NULL;
}

/*
 * Line up the jobs, but those that quotas hold back (NULL: there are none).
 * Returns NULL, or what is wrong.
 */
const char *
DecideQueueOpen(const DecideInput *input, const DecideArena *arena,
				const int32_t *held, Queue *queue)
{
	int32_t    *jobs = DecideAlloc(arena, input->n_jobs, sizeof(int32_t));
	const char *error;
	int32_t		n;

	DecideAssert(queue != NULL);
	DecideAssert(arena != NULL);
	memset(queue, 0, sizeof(*queue));
	queue->input = input;
	queue->blocked = DecideAlloc(arena, input->n_requests, sizeof(bool));
	if (jobs == NULL || queue->blocked == NULL ||
		input->n_jobs > INT32_MAX / 2)
		return "out of memory";
	memset(queue->blocked, 0, (size_t) input->n_requests * sizeof(bool));
	error = DecideFairshareTreeBegin(input, arena, input->n_jobs * 2,
									 &queue->tree);
	if (error == NULL)
		error = jobs_error(queue, arena);
	if (error != NULL)
		return error;
	if (!shares_begin(queue, arena) ||
		!jobs_sort(queue, arena, held, jobs, &n) ||
		!trees_add(queue, arena, jobs, n))
		return "out of memory";
	return NULL;
}

/*
 * The first job of the tiers that have not got their share: of the lowest
 * rank, then by fair share.  -1: there is none that stays within it.
 */
static int32_t
share_turn(Queue *queue)
{
	const DecideInput *input = queue->input;
	const TierQueue *best = NULL;
	int32_t		first = -1;
	int32_t		i;

	for (i = 0; i < queue->n_shares; i++)
	{
		const TierQueue *share = &queue->shares[i];
		int32_t		job = DecideFairshareTreeFirst(&queue->tree, share->root);
		const DecideRequestClass *request;

		if (best != NULL && compare_rank(input->tiers, best->tier,
										 share->tier) != 0)
			break;
		if (job < 0)
			continue;
		request = &input->requests[input->jobs[job].request];
		if (queue->tier_used[share->tier] + (int64_t) request->min_gpus *
			request->share > queue->tier_share[share->tier])
			continue;
		if (best == NULL || DecideFairshareTreeBefore(&queue->tree,
													  share->root,
													  best->root))
		{
			best = share;
			first = job;
		}
	}
	return first;
}

/*
 * The job whose turn it is, which it has with that.  -1: all had theirs.
 */
int32_t
DecideQueueNext(Queue *queue)
{
	int32_t		job;

	DecideAssert(queue->next_aged <= queue->n_aged);
	DecideAssert(queue->first_rank <= queue->n_ranks);
	while (queue->next_aged < queue->n_aged)
	{
		job = queue->aged[queue->next_aged++];
		if (!queue->blocked[queue->input->jobs[job].request])
			return job;
	}
	job = share_turn(queue);
	while (job < 0 && queue->first_rank < queue->n_ranks)
	{
		job = DecideFairshareTreeFirst(&queue->tree,
									   queue->ranks[queue->first_rank]);
		if (job < 0)
			queue->first_rank++;
	}
	if (job >= 0)
		DecideFairshareTreeTake(&queue->tree, job);
	return job;
}

/*
 * A job got so many devices of a type: its account has them from here on.
 */
void
DecideQueueCharge(Queue *queue, int32_t job, int32_t type, int32_t gpus)
{
	const DecideInput *input = queue->input;
	const DecideJob *j = &input->jobs[job];
	int64_t		milli = (int64_t) gpus * input->requests[j->request].share;

	DecideAssert(job >= 0 && job < queue->input->n_jobs);
	DecideAssert(gpus >= 0);
	queue->tier_used[j->tier] += milli;
	DecideFairshareTreeCharge(&queue->tree, j->account,
							  DecideFairAmount(input, type, milli));
}

/*
 * No job of a request gets a turn any more.
 */
void
DecideQueueBlock(Queue *queue, int32_t request)
{
	DecideAssert(request >= 0 && request < queue->input->n_requests);
	DecideAssert(queue->blocked != NULL);
	if (queue->blocked[request])
		return;
	queue->blocked[request] = true;
	DecideFairshareTreeBlock(&queue->tree, request);
}

/*
 * The order in which the jobs would have their turns if each started with the
 * least devices it takes, of the first type it accepts: where a job stands.
 */
const char *
DecideTurns(const DecideInput *input, const DecideArena *arena,
			int32_t **turns)
{
	DecideResult result = {0};
	Cycle		cycle = {.input = input, .arena = arena, .result = &result};
	Queue		queue;
	const char *error = DecideInputError(input);
	int32_t		n = 0;
	int32_t		job;

	if (error == NULL && !DecideQuotasBegin(&cycle))
		error = "out of memory";
	if (error == NULL)
		error = DecideQueueOpen(input, arena, result.held, &queue);
	if (error != NULL)
		return error;
	*turns = DecideAlloc(arena, input->n_jobs, sizeof(int32_t));
	if (*turns == NULL)
		return "out of memory";
	memset(*turns, 0xFF, (size_t) input->n_jobs * sizeof(int32_t));
	while ((job = DecideQueueNext(&queue)) >= 0)
	{
		const DecideRequestClass *request = &input->requests[input->jobs[job].request];

		if (n % 256 == 0)
			DecidePoll(arena);
		(*turns)[n++] = job;
		DecideQueueCharge(&queue, job, request->n_offers > 0 ?
						  request->offers[0].type : DECIDE_NO_TYPE,
						  request->min_gpus);
	}
	return NULL;
}

/*
 * The turn that a job has as long as nothing starts before it, among those that
 * no quota holds back.
 */
const char *
DecideTurn(const DecideInput *input, const DecideArena *arena,
		   const int32_t *held, int32_t job, int32_t *turn, int32_t *turns)
{
	Queue		queue;
	const char *error = DecideInputError(input);
	int32_t		next;
	int32_t		i;

	*turn = *turns = 0;
	if (error == NULL)
		error = DecideQueueOpen(input, arena, held, &queue);
	if (error != NULL)
		return error;
	for (i = 0; i < input->n_jobs; i++)
		*turns += held == NULL || held[i] == DECIDE_NOT_HELD;
	do
	{
		next = DecideQueueNext(&queue);
		++*turn;
	} while (next >= 0 && next != job);
	return NULL;
}
