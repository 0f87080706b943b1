/*
 * queue.c
 *	  The order of turns: a queue whose order each start may change.
 *
 * Tiers with a share of the pool go first, as long as their use and their
 * first job stay within the share; then come all tiers by rank.  Before the
 * jobs of a rank come the aged jobs that may go before them, by the time at
 * which they became aged, organisation and job.  Within a rank the trees
 * decide: accounts by fair share, which each start changes, then priority,
 * time of submission, organisation, job.
 *
 * A job has one turn in a cycle.  If a request could not start a job, the
 * caller blocks the request, and its other jobs then have no turn.
 *
 * There is one tree for the tiers of each rank, and one for each tier with a
 * share; a job that has its turn is removed from both.  The leaves of a tree
 * are the own jobs of accounts, in lines: one line for each request.  Each
 * leaf keeps a heap of its lines, each inner node a heap of its children.  A
 * tree's first job is found by following the first children downwards.
 *
 * Children are compared by weight over use.  If these are equal, they are
 * compared by their first children, and so on downwards, finally by their
 * first jobs.  If one path ends at a leaf while all was equal, the leaf counts
 * like a child without use.  Because the order of nodes depends on the nodes
 * below them, it is restored from the bottom upwards after a change.
 */
#include <string.h>

#include "decide/order/heap.h"
#include "decide/order/order.h"

static void line_moved(void *context, int32_t line, int32_t at);
static bool line_before(void *context, int32_t a, int32_t b);
static void node_moved(void *context, int32_t node, int32_t at);
static bool node_before(void *context, int32_t a, int32_t b);

static const HeapKind line_heap = {line_before, line_moved};
static const HeapKind node_heap = {node_before, node_moved};

/*----------
 * The order of the jobs of one account in one tier:
 *
 * 1. priority, the highest first;
 * 2. with policy "shortest", expected run time, the shortest first;
 * 3. time of submission;
 * 4. number of the job.
 *----------
 */
static int
compare_own(const void *context, int32_t a, int32_t b)
{
	const DecideInput *input = context;
	const DecideJob *x = &input->jobs[a];
	const DecideJob *y = &input->jobs[b];

	if (x->priority != y->priority)
		return x->priority > y->priority ? -1 : 1;
	if (input->policy.order == DECIDE_ORDER_SHORTEST &&
		x->order_run != y->order_run)
		return x->order_run < y->order_run ? -1 : 1;
	if (x->submitted != y->submitted)
		return x->submitted < y->submitted ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

/*----------
 * The order of jobs whose accounts have equal shares:
 *
 * 1. time of submission;
 * 2. organisation, by name;
 * 3. number of the job.
 *----------
 */
static int
job_compare(const FairUse *use, int32_t a, int32_t b)
{
	const DecideJob *x = &use->input->jobs[a];
	const DecideJob *y = &use->input->jobs[b];
	int32_t		org_x = use->org[x->account];
	int32_t		org_y = use->org[y->account];

	if (x->submitted != y->submitted)
		return x->submitted < y->submitted ? -1 : 1;
	if (org_x != org_y)
		return org_x < org_y ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

/*
 * The first job of a line.
 */
static int32_t
line_job(const FairshareTree *tree, int32_t line)
{
	return tree->items[tree->lines[line].next];
}

static bool
line_before(void *context, int32_t a, int32_t b)
{
	const FairshareTree *tree = context;

	return compare_own(tree->input, line_job(tree, a),
					   line_job(tree, b)) < 0;
}

static void
line_moved(void *context, int32_t line, int32_t at)
{
	((FairshareTree *) context)->lines[line].at = at;
}

/*
 * What decides a node's place among its siblings.  It is the same for all
 * roots.
 */
static FairShare
node_share(const FairshareTree *tree, const FairshareNode *node)
{
	static const FairShare root = {DECIDE_WEIGHT_ONE, 0};

	if (node->account < 0)
		return root;
	return node->own ? DecideFairOwn(&tree->use, node->account) :
		DecideFairOf(&tree->use, node->account);
}

/*----------
 * Whether node a, with all accounts and jobs below it, comes before node b of
 * the same level.  What decides is:
 *
 * 1. weight over use of the two nodes (DecideFairCompare());
 * 2. the same of the child that is first in each, and so on downwards.  A
 *    node without children counts as one without use;
 * 3. the order of the first job of each (job_compare()).
 *----------
 */
static bool
node_before(void *context, int32_t a, int32_t b)
{
	static const FairShare ended = {DECIDE_WEIGHT_ONE, 0};
	const FairshareTree *tree = context;
	const FairshareNode *x = &tree->nodes[a];
	const FairshareNode *y = &tree->nodes[b];
	FairShare	share_x = node_share(tree, x);
	FairShare	share_y = node_share(tree, y);

	for (;;)
	{
		int			order = DecideFairCompare(share_x, share_y);

		if (order != 0)
			return order < 0;
		if (x->leaf && y->leaf)
			return job_compare(&tree->use,
							   line_job(tree, x->heap[0]),
							   line_job(tree, y->heap[0])) < 0;
		share_x = share_y = ended;
		if (!x->leaf)
		{
			x = &tree->nodes[x->heap[0]];
			share_x = node_share(tree, x);
		}
		if (!y->leaf)
		{
			y = &tree->nodes[y->heap[0]];
			share_y = node_share(tree, y);
		}
	}
}

static void
node_moved(void *context, int32_t node, int32_t at)
{
	((FairshareTree *) context)->nodes[node].at = at;
}

/*
 * Restores a node's place among its siblings, or removes the node if no job is
 * left below it.
 */
static void
node_fix(FairshareTree *tree, int32_t index)
{
	FairshareNode *node = &tree->nodes[index];
	FairshareNode *parent;

	if (node->parent < 0 || node->at < 0)
		return;
	parent = &tree->nodes[node->parent];
	if (node->n > 0)
		DecideHeapFix(&node_heap, tree, parent->heap, parent->n, node->at);
	else
		DecideHeapRemove(&node_heap, tree, parent->heap, parent->n--,
						 node->at);
}

/*
 * Restores the order above a line whose first job has changed, or removes the
 * line if it has no more jobs.
 */
static void
line_fix(FairshareTree *tree, int32_t index)
{
	FairshareLine *line = &tree->lines[index];
	FairshareNode *leaf = &tree->nodes[line->leaf];
	int32_t		node;

	if (line->at < 0)
		return;
	if (line->next < line->end)
		DecideHeapFix(&line_heap, tree, leaf->heap, leaf->n, line->at);
	else
		DecideHeapRemove(&line_heap, tree, leaf->heap, leaf->n--, line->at);
	for (node = line->leaf; node >= 0; node = tree->nodes[node].parent)
		node_fix(tree, node);
}

/*
 * Returns the first job of a tree, or -1 if the tree is empty.
 */
static int32_t
tree_first(const FairshareTree *tree, int32_t root)
{
	const FairshareNode *node = &tree->nodes[root];

	DecideAssert(root < tree->n_nodes);
	if (node->n == 0)
		return -1;
	while (!node->leaf)
		node = &tree->nodes[node->heap[0]];
	return line_job(tree, node->heap[0]);
}

/*
 * Removes a job from its trees.
 */
static void
tree_remove(FairshareTree *tree, int32_t job)
{
	int			which;

	DecideAssert(!tree->taken[job]);
	tree->taken[job] = true;
	for (which = 0; which < 2; which++)
	{
		int32_t		index = tree->job_lines[which][job];
		FairshareLine *line;

		if (index < 0)
			continue;
		line = &tree->lines[index];
		while (line->next < line->end &&
			   tree->taken[tree->items[line->next]])
			line->next++;
		line_fix(tree, index);
	}
}

/*
 * Removes all jobs of a request.
 */
static void
tree_block(FairshareTree *tree, int32_t request)
{
	int32_t		line = tree->request_lines[request];

	for (; line >= 0; line = tree->lines[line].next_of_request)
	{
		tree->lines[line].next = tree->lines[line].end;
		line_fix(tree, line);
	}
	tree->request_lines[request] = -1;
}

/*
 * Adds to an account's use, and restores the order of its nodes.
 */
static void
tree_charge(FairshareTree *tree, int32_t account, int32_t type, int64_t milli)
{
	DecideFairCharge(&tree->use, account, type, milli);
	for (; account >= 0; account = tree->input->accounts[account].parent)
	{
		int32_t		node = tree->account_nodes[account];

		/*
		 * the node of an account's own jobs comes before that of the account
		 */
		for (; node >= 0; node = tree->nodes[node].next_of_account)
			node_fix(tree, node);
	}
}

/*
 * Adds a node.  Returns false if memory runs out.
 */
static bool
node_add(FairshareTree *tree, const DecideArena *arena, int32_t account,
		 int32_t parent, bool leaf, bool own)
{
	FairshareNode *node;

	tree->nodes = DecideGrow(arena, tree->nodes, tree->n_nodes,
							 &tree->nodes_capacity, sizeof(FairshareNode));
	if (tree->nodes == NULL)
		return false;
	node = &tree->nodes[tree->n_nodes];
	memset(node, 0, sizeof(*node));
	node->account = account;
	node->parent = parent;
	node->leaf = leaf;
	node->own = own;
	node->next_of_account = -1;
	if (parent >= 0)
		tree->nodes[parent].n++;
	if (account >= 0)
	{
		node->next_of_account = tree->account_nodes[account];
		tree->account_nodes[account] = tree->n_nodes;
	}
	tree->n_nodes++;
	return true;
}

/*
 * Returns the inner node of an account in the tree that is being made, which
 * it adds if necessary, or -1 if memory runs out.
 */
static int32_t
inner_node(FairshareTree *tree, const DecideArena *arena, int32_t root,
		   int32_t account)
{
	int32_t		parent = tree->input->accounts[account].parent;
	int32_t		above = root;

	/* nodes of this tree have higher numbers than its root */
	if (tree->account_inner[account] > root)
		return tree->account_inner[account];
	if (parent >= 0)
		above = inner_node(tree, arena, root, parent);
	if (above < 0 ||
		!node_add(tree, arena, account, above, false, false))
		return -1;
	tree->account_inner[account] = tree->n_nodes - 1;
	return tree->n_nodes - 1;
}

/*
 * Adds a leaf for an account's own jobs.  Returns -1 if memory runs out.
 */
static int32_t
leaf_node(FairshareTree *tree, const DecideArena *arena, int32_t root,
		  int32_t account)
{
	int32_t		parent = tree->input->accounts[account].parent;
	bool		own = tree->use.inner[account];
	int32_t		above = root;

	if (own)
		above = inner_node(tree, arena, root, account);
	else if (parent >= 0)
		above = inner_node(tree, arena, root, parent);
	if (above < 0 || !node_add(tree, arena, account, above, true, own))
		return -1;
	return tree->n_nodes - 1;
}

/*
 * Adds a line of one account's jobs of one request, items[first] to items[end
 * - 1].  Returns false if memory runs out.
 */
static bool
line_add(FairshareTree *tree, const DecideArena *arena, int which,
		 int32_t leaf,
		 int32_t first, int32_t end)
{
	int32_t		request = tree->input->jobs[tree->items[first]].request;
	FairshareLine *line;
	int32_t		i;

	tree->lines = DecideGrow(arena, tree->lines, tree->n_lines,
							 &tree->lines_capacity, sizeof(FairshareLine));
	if (tree->lines == NULL ||
		!DecideSort(arena, tree->items + first, end - first, compare_own,
					tree->input))
		return false;
	line = &tree->lines[tree->n_lines];
	line->leaf = leaf;
	line->next = first;
	line->end = end;
	line->at = -1;
	line->next_of_request = tree->request_lines[request];
	tree->request_lines[request] = tree->n_lines;
	tree->nodes[leaf].n++;
	for (i = first; i < end; i++)
		tree->job_lines[which][tree->items[i]] = tree->n_lines;
	tree->n_lines++;
	return true;
}

/*
 * Adds a tree over items[first] to items[end - 1], which must be sorted by
 * account and request.  which is 0 for the tree of a rank, 1 for that of a
 * tier with a share.  Returns the root, or -1 if memory runs out.
 */
static int32_t
tree_make(FairshareTree *tree, const DecideArena *arena,
		  int which,
		  int32_t first, int32_t end)
{
	const DecideJob *jobs = tree->input->jobs;
	int32_t		root = tree->n_nodes;
	int32_t		leaf = -1;
	int32_t		account = -1;

	DecideAssert(which == 0 || which == 1);
	DecideAssert(first >= 0 && first <= end);
	if (!node_add(tree, arena, -1, -1, first == end, false))
		return -1;
	while (first < end)
	{
		const DecideJob *job = &jobs[tree->items[first]];
		int32_t		next = first + 1;

		while (next < end && jobs[tree->items[next]].request == job->request &&
			   jobs[tree->items[next]].account == job->account)
			next++;
		if (job->account != account)
		{
			account = job->account;
			leaf = leaf_node(tree, arena, root, account);
			if (leaf < 0)
				return -1;
		}
		if (!line_add(tree, arena, which, leaf, first, next))
			return -1;
		first = next;
	}
	return root;
}

/*
 * Makes the heaps of all trees.  Returns false if memory runs out.
 */
static bool
trees_ready(FairshareTree *tree, const DecideArena *arena)
{
	int32_t    *slots = DecideAlloc(arena, (int64_t) tree->n_nodes +
									tree->n_lines, sizeof(int32_t));
	int32_t		i;

	if (slots == NULL)
		return false;
	for (i = 0; i < tree->n_nodes; i++)
	{
		tree->nodes[i].heap = slots;
		slots += tree->nodes[i].n;
		tree->nodes[i].n = 0;
	}
	for (i = 0; i < tree->n_nodes; i++)
	{
		FairshareNode *node = &tree->nodes[i];

		if (node->parent >= 0)
		{
			FairshareNode *parent = &tree->nodes[node->parent];

			parent->heap[parent->n++] = i;
		}
	}
	for (i = 0; i < tree->n_lines; i++)
	{
		FairshareNode *leaf = &tree->nodes[tree->lines[i].leaf];

		leaf->heap[leaf->n++] = i;
	}
	/* children have higher numbers than their parents */
	for (i = tree->n_nodes - 1; i >= 0; i--)
		DecideHeapBuild(tree->nodes[i].leaf ? &line_heap : &node_heap,
						tree, tree->nodes[i].heap, tree->nodes[i].n);
	return true;
}

/*
 * Begins without trees, with room for n_items items.  Returns NULL, or a
 * message that says what is wrong.
 */
static const char *
trees_begin(const DecideInput *input, const DecideArena *arena,
			int32_t n_items, FairshareTree *tree)
{
	size_t		jobs = (size_t) input->n_jobs;
	size_t		accounts = (size_t) input->n_accounts;

	memset(tree, 0, sizeof(*tree));
	tree->input = input;
	tree->items = DecideAlloc(arena, n_items, sizeof(int32_t));
	tree->taken = DecideAlloc(arena, input->n_jobs, sizeof(bool));
	tree->job_lines[0] = DecideAlloc(arena, input->n_jobs, sizeof(int32_t));
	tree->job_lines[1] = DecideAlloc(arena, input->n_jobs, sizeof(int32_t));
	tree->request_lines = DecideAlloc(arena, input->n_requests,
									  sizeof(int32_t));
	tree->account_nodes = DecideAlloc(arena, input->n_accounts,
									  sizeof(int32_t));
	tree->account_inner = DecideAlloc(arena, input->n_accounts,
									  sizeof(int32_t));
	if (tree->items == NULL || tree->taken == NULL ||
		tree->job_lines[0] == NULL || tree->job_lines[1] == NULL ||
		tree->request_lines == NULL || tree->account_nodes == NULL ||
		tree->account_inner == NULL)
		return "out of memory";
	memset(tree->taken, 0, jobs * sizeof(bool));
	memset(tree->job_lines[0], 0xFF, jobs * sizeof(int32_t));
	memset(tree->job_lines[1], 0xFF, jobs * sizeof(int32_t));
	memset(tree->request_lines, 0xFF,
		   (size_t) input->n_requests * sizeof(int32_t));
	memset(tree->account_nodes, 0xFF, accounts * sizeof(int32_t));
	memset(tree->account_inner, 0xFF, accounts * sizeof(int32_t));
	return DecideFairBegin(input, arena, &tree->use);
}

/*
 * Compares two tiers by rank.
 */
static int
compare_rank(const void *context, int32_t a, int32_t b)
{
	const DecideTier *tiers = context;

	return tiers[a].rank < tiers[b].rank ? -1 : tiers[a].rank > tiers[b].rank;
}

/*
 * Sorts jobs by account or by request, and keeps the order of equal ones.
 * count must have room for n_keys + 1 entries.
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
 * Separates the aged jobs from the others, and sorts the others by account and
 * request.  Jobs that quotas hold back are left out.  Returns false if memory
 * runs out.
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
	return DecideAgedSort(queue, arena);
}

/*
 * Adds a tree for the jobs of some tiers, with items from *first on.  Returns
 * false if memory runs out.
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
	*root = tree_make(&queue->tree, arena, which, *first, end);
	*first = end;
	return *root >= 0;
}

/*
 * Adds a tree for each rank, and one for each tier with a share.  Returns
 * false if memory runs out.
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
	return trees_ready(&queue->tree, arena);
}

/*
 * Computes how many of the pool's healthy devices the share of each tier is,
 * and how many the tier uses.  Returns false if memory runs out.
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
 * Returns a message if a job occurs twice or belongs to another organisation
 * than its account, otherwise NULL.
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
 * Makes the queue of all jobs that quotas do not hold back; held may be NULL
 * if quotas hold back no job.  Returns NULL, or a message that says what is
 * wrong.
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
	error = trees_begin(input, arena, input->n_jobs * 2,
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
 * Returns the first job of the tiers that use less than their share: of the
 * lowest rank, then by fair share.  *rank is the rank.  Returns -1 if no
 * tier's first job would stay within the share.
 */
static int32_t
share_turn(Queue *queue, int32_t *rank)
{
	const DecideInput *input = queue->input;
	const TierQueue *best = NULL;
	int32_t		first = -1;
	int32_t		i;

	for (i = 0; i < queue->n_shares; i++)
	{
		const TierQueue *share = &queue->shares[i];
		int32_t		job = tree_first(&queue->tree, share->root);
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
		if (best == NULL || node_before(&queue->tree,
										share->root,
										best->root))
		{
			best = share;
			first = job;
			*rank = input->tiers[share->tier].rank;
		}
	}
	return first;
}

/*
 * Returns the job that has its turn next, or -1 if all jobs had their turns.
 */
int32_t
DecideQueueNext(Queue *queue)
{
	int32_t		rank = INT32_MAX;
	int32_t		job;
	int32_t		aged;

	DecideAssert(queue->next_aged <= queue->n_aged);
	DecideAssert(queue->first_rank <= queue->n_ranks);
	job = share_turn(queue, &rank);
	while (job < 0 && queue->first_rank < queue->n_ranks)
	{
		job = tree_first(&queue->tree,
						 queue->ranks[queue->first_rank]);
		if (job < 0)
			queue->first_rank++;
		else
			rank = queue->input->tiers[queue->input->jobs[job].tier].rank;
	}
	aged = DecideAgedNext(queue, rank);
	if (aged >= 0)
		return aged;
	if (job >= 0)
		tree_remove(&queue->tree, job);
	return job;
}

/*
 * Charges an account, and its job's tier (-1 if no tier is charged), for
 * thousandths of devices of a type.
 */
void
DecideQueueCharge(Queue *queue, int32_t account, int32_t tier, int32_t type,
				  int64_t milli)
{
	DecideAssert(account >= 0 && account < queue->input->n_accounts);
	DecideAssert(tier < queue->input->n_tiers && milli >= 0);
	if (tier >= 0)
		queue->tier_used[tier] += milli;
	tree_charge(&queue->tree, account, type, milli);
}

/*
 * Removes all jobs of a request from the queue, so that they have no more
 * turns.
 */
void
DecideQueueBlock(Queue *queue, int32_t request)
{
	DecideAssert(request >= 0 && request < queue->input->n_requests);
	DecideAssert(queue->blocked != NULL);
	if (queue->blocked[request])
		return;
	queue->blocked[request] = true;
	tree_block(&queue->tree, request);
}

/*
 * Finds the turn of a job in the queue as it would be if no job started before
 * it.  held contains the jobs that quotas hold back.
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
