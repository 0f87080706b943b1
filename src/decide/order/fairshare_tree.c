/*
 * fairshare_tree.c
 *	  Trees of accounts over their waiting jobs, which know whose turn it is.
 *
 * A tree is an urgency's: the jobs of the tiers of one rank, or of one tier
 * that is guaranteed a share.  Its leaves are accounts' own jobs, in lines:
 * one for each request, in the order of the account.  Each leaf has a heap of its
 * lines, each inner node a heap of its children, so that the first job of a
 * tree is found by going down its first children.
 *
 * Children compare by weight over use.  Equal ones are merged: they compare by
 * their first children, and so on down, and at last by their first jobs.  A
 * leaf that ends this while all was equal is as good as a child that used
 * nothing.  So a node's order depends on all first nodes below it, and what
 * changes below is put right from the bottom upwards.
 *
 * A job may be in two trees.  Who takes it takes it out of both.
 */
#include <string.h>

#include "decide/order/order.h"

typedef struct HeapKind
{
	bool		(*before) (void *context, int32_t a, int32_t b);
	void		(*moved) (void *context, int32_t item, int32_t at);
} HeapKind;

/* What places a sibling among others: more use for its weight, later. */
typedef struct FairShare
{
	int64_t		weight;
	int64_t		usage;
} FairShare;

/*
 * What accounts have used, and who of two siblings is behind.
 *
 * An account's use is its decayed past and what it runs now, counted for the
 * policy's horizon; starts of the cycle add to it at once.  Its own jobs are
 * one thing, all at or below it another.  Siblings compare by weight over use,
 * exactly: nothing used is ahead of anything, whatever the weights.
 */

/*
 * A sum that stays at the top of its range.
 */
static int64_t
sum(int64_t a, int64_t b)
{
	return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/*
 * What so many device-thousandths, weighted, count in use.
 */
static int64_t
for_horizon(const DecideInput *input, __int128 live)
{
	__int128	amount = live * input->policy.fair_horizon;

	return amount > INT64_MAX ? INT64_MAX : (int64_t) amount;
}

/*
 * What so many thousandths of devices of a type, just started, count in use.
 */
int64_t
DecideFairAmount(const DecideInput *input, int32_t type, int64_t milli)
{
	int64_t		weight = 1000;

	DecideAssert(milli >= 0);
	DecideAssert(type != DECIDE_ANY_TYPE);
	if (type == DECIDE_NO_TYPE)
		return 0;
	if (type < input->n_types)
		weight = input->types[type].weight;
	return for_horizon(input, (__int128) milli * weight / 1000);
}

/*
 * Which of two siblings has less for its weight: below 0, the first.
 */
static int
fair_compare(FairShare a, FairShare b)
{
	__int128	left = (__int128) a.weight * b.usage;
	__int128	right = (__int128) b.weight * a.usage;

	return left > right ? -1 : left < right;
}

/*
 * Add to an account's use.
 */
static void
fair_add(FairUse *use, int32_t account, int64_t amount)
{
	use->own[account] = sum(use->own[account], amount);
	for (; account >= 0; account = use->input->accounts[account].parent)
		use->total[account] = sum(use->total[account], amount);
}

/*
 * Compare two organisations by name.
 */
static int
compare_name(const void *context, int32_t a, int32_t b)
{
	const DecideAccount *accounts = context;

	return strcmp(accounts[a].name, accounts[b].name);
}

/*
 * Number each account's organisation by the order of their names.
 */
static const char *
number_organisations(FairUse *use, const DecideArena *arena)
{
	const DecideAccount *accounts = use->input->accounts;
	int32_t		n = use->input->n_accounts;
	int32_t    *roots = DecideAlloc(arena, n, sizeof(int32_t));
	int32_t		n_roots = 0;
	int32_t		i;

	if (roots == NULL)
		return "out of memory";
	for (i = 0; i < n; i++)
	{
		if (accounts[i].parent < 0)
			roots[n_roots++] = i;
	}
	if (!DecideSort(arena, roots, n_roots, compare_name, accounts))
		return "out of memory";
	for (i = 0; i < n_roots; i++)
	{
		if (i > 0 && compare_name(accounts, roots[i - 1], roots[i]) == 0)
			return "an organisation is there twice";
		use->org[roots[i]] = i;
	}
	for (i = 0; i < n; i++)
	{
		int32_t		root = i;

		while (accounts[root].parent >= 0)
			root = accounts[root].parent;
		use->root[i] = root;
		use->org[i] = use->org[root];
	}
	return NULL;
}

/*
 * What all accounts have used before the cycle.  Returns NULL, or what is
 * wrong.
 */
static const char *
fair_begin(const DecideInput *input, const DecideArena *arena,
		   FairUse *use)
{
	int32_t		n = input->n_accounts;
	int32_t		i;

	use->input = input;
	use->own = DecideAlloc(arena, n, sizeof(int64_t));
	use->total = DecideAlloc(arena, n, sizeof(int64_t));
	use->inner = DecideAlloc(arena, n, sizeof(bool));
	use->org = DecideAlloc(arena, n, sizeof(int32_t));
	use->root = DecideAlloc(arena, n, sizeof(int32_t));
	if (use->own == NULL || use->total == NULL || use->inner == NULL ||
		use->org == NULL || use->root == NULL)
		return "out of memory";
	memset(use->own, 0, (size_t) n * sizeof(int64_t));
	memset(use->total, 0, (size_t) n * sizeof(int64_t));
	memset(use->inner, 0, (size_t) n * sizeof(bool));
	for (i = 0; i < n; i++)
	{
		const DecideAccount *account = &input->accounts[i];

		if (account->parent >= 0)
			use->inner[account->parent] = true;
		fair_add(use, i, sum(account->usage,
							 for_horizon(input, account->live)));
	}
	return number_organisations(use, arena);
}

/*
 * An account's place among its siblings.
 */
static FairShare
fair_of(const FairUse *use, int32_t account)
{
	FairShare	share = {use->input->accounts[account].weight,
		use->total[account]};

	return share;
}

/*
 * The place of an inner account's own jobs among its children.
 */
static FairShare
fair_own(const FairUse *use, int32_t account)
{
	FairShare	share = {DECIDE_WEIGHT_ONE, use->own[account]};

	return share;
}

/*
 * Heaps of numbers, whose order the caller knows.
 *
 * The first item is before all others.  Each item is told where it stands, so
 * that one whose order changed, or that goes, is found.
 */

/*
 * Put an item somewhere, and tell it.
 */
static void
put(const HeapKind *kind, void *context, int32_t *items, int32_t at,
	int32_t item)
{
	items[at] = item;
	kind->moved(context, item, at);
}

/*
 * Let an item sink from a place to where none below is before it.
 */
static void
sink(const HeapKind *kind, void *context, int32_t *items, int32_t n,
	 int32_t at, int32_t item)
{
	for (;;)
	{
		int64_t		child = 2 * (int64_t) at + 1;

		if (child >= n)
			break;
		if (child + 1 < n &&
			kind->before(context, items[child + 1], items[child]))
			child++;
		if (!kind->before(context, items[child], item))
			break;
		put(kind, context, items, at, items[child]);
		at = (int32_t) child;
	}
	put(kind, context, items, at, item);
}

/*
 * Give the item at a place its place again, after its order changed.
 */
static void
heap_fix(const HeapKind *kind, void *context, int32_t *items, int32_t n,
		 int32_t at)
{
	int32_t		item = items[at];

	while (at > 0 && kind->before(context, item, items[(at - 1) / 2]))
	{
		put(kind, context, items, at, items[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	sink(kind, context, items, n, at, item);
}

/*
 * Make a heap of n items in any order.
 */
static void
heap_build(const HeapKind *kind, void *context, int32_t *items,
		   int32_t n)
{
	int32_t		at;

	for (at = 0; at < n; at++)
		kind->moved(context, items[at], at);
	for (at = n / 2 - 1; at >= 0; at--)
		sink(kind, context, items, n, at, items[at]);
}

/*
 * Take out the item at a place of a heap of n.
 */
static void
heap_remove(const HeapKind *kind, void *context, int32_t *items,
			int32_t n, int32_t at)
{
	kind->moved(context, items[at], -1);
	if (at == n - 1)
		return;
	put(kind, context, items, at, items[n - 1]);
	heap_fix(kind, context, items, n - 1, at);
}

static void line_moved(void *context, int32_t line, int32_t at);
static bool line_before(void *context, int32_t a, int32_t b);
static void node_moved(void *context, int32_t node, int32_t at);
static bool node_before(void *context, int32_t a, int32_t b);

static const HeapKind line_heap = {line_before, line_moved};
static const HeapKind node_heap = {node_before, node_moved};

/*
 * The order of the jobs of one account: below 0, a is first.
 */
static int
job_compare_own(const DecideInput *input, int32_t a, int32_t b)
{
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

/*
 * The order of jobs whose accounts are equal.
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

static int
compare_own(const void *context, int32_t a, int32_t b)
{
	return job_compare_own(context, a, b);
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

	return job_compare_own(tree->input, line_job(tree, a),
						   line_job(tree, b)) < 0;
}

static void
line_moved(void *context, int32_t line, int32_t at)
{
	((FairshareTree *) context)->lines[line].at = at;
}

/*
 * A node's place among its siblings; of a root, the same as of any other.
 */
static FairShare
node_share(const FairshareTree *tree, const FairshareNode *node)
{
	static const FairShare root = {DECIDE_WEIGHT_ONE, 0};

	if (node->account < 0)
		return root;
	return node->own ? fair_own(&tree->use, node->account) :
		fair_of(&tree->use, node->account);
}

/*
 * Is a, with all below it, before b?  They stand on one level.
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
		int			order = fair_compare(share_x, share_y);

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
 * Put a node right among its siblings, or take it from among them when there
 * is nothing left below it.
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
		heap_fix(&node_heap, tree, parent->heap, parent->n, node->at);
	else
		heap_remove(&node_heap, tree, parent->heap, parent->n--,
					node->at);
}

/*
 * A line's first job changed, or it ended: put right all above it.
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
		heap_fix(&line_heap, tree, leaf->heap, leaf->n, line->at);
	else
		heap_remove(&line_heap, tree, leaf->heap, leaf->n--, line->at);
	for (node = line->leaf; node >= 0; node = tree->nodes[node].parent)
		node_fix(tree, node);
}

/*
 * The first job of a tree, -1: it is empty.
 */
int32_t
DecideFairshareTreeFirst(const FairshareTree *tree, int32_t root)
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
 * Is the first job of one tree before that of another?  Neither is empty.
 */
bool
DecideFairshareTreeBefore(FairshareTree *tree, int32_t root_a, int32_t root_b)
{
	DecideAssert(root_a >= 0 && root_a < tree->n_nodes);
	DecideAssert(root_b >= 0 && root_b < tree->n_nodes);
	return node_before(tree, root_a, root_b);
}

/*
 * Take a job out of its trees.
 */
void
DecideFairshareTreeTake(FairshareTree *tree, int32_t job)
{
	int			which;

	DecideAssert(job >= 0 && job < tree->input->n_jobs);
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
 * Take all jobs of a request out.
 */
void
DecideFairshareTreeBlock(FairshareTree *tree, int32_t request)
{
	int32_t		line = tree->request_lines[request];

	DecideAssert(request >= 0 && request < tree->input->n_requests);
	DecideAssert(tree->request_lines != NULL);
	for (; line >= 0; line = tree->lines[line].next_of_request)
	{
		tree->lines[line].next = tree->lines[line].end;
		line_fix(tree, line);
	}
	tree->request_lines[request] = -1;
}

/*
 * An account's use grew.
 */
void
DecideFairshareTreeCharge(FairshareTree *tree, int32_t account, int64_t amount)
{
	DecideAssert(account >= 0 && account < tree->input->n_accounts);
	DecideAssert(amount >= 0);
	fair_add(&tree->use, account, amount);
	for (; account >= 0; account = tree->input->accounts[account].parent)
	{
		int32_t		node = tree->account_nodes[account];

		/* an account's own jobs stand before the account itself */
		for (; node >= 0; node = tree->nodes[node].next_of_account)
			node_fix(tree, node);
	}
}

/*
 * Add a node.  False: out of memory.
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
 * The node of an account that is no leaf, in the tree that is being made;
 * -1: out of memory.
 */
static int32_t
inner_node(FairshareTree *tree, const DecideArena *arena, int32_t root,
		   int32_t account)
{
	int32_t		parent = tree->input->accounts[account].parent;
	int32_t		above = root;

	/* nodes of this tree come after its root */
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
 * Add an account's own jobs as a leaf; -1: out of memory.
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
 * Add a line of one account's jobs of one request, items[first] to items[end - 1].
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
 * Add a tree over items[first] to items[end - 1], which come account by
 * account and request by request; which: the first or the second tree that they are
 * in.  Returns its root, or -1: out of memory.
 */
int32_t
DecideFairshareTreeAdd(FairshareTree *tree, const DecideArena *arena,
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
 * All trees were added: make their heaps.  False: out of memory.
 */
bool
DecideFairshareTreeReady(FairshareTree *tree, const DecideArena *arena)
{
	int32_t    *slots = DecideAlloc(arena, (int64_t) tree->n_nodes +
									tree->n_lines, sizeof(int32_t));
	int32_t		i;

	DecideAssert(tree->input != NULL);
	DecideAssert(arena != NULL);
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
		heap_build(tree->nodes[i].leaf ? &line_heap : &node_heap,
				   tree, tree->nodes[i].heap, tree->nodes[i].n);
	return true;
}

/*
 * A forest without trees, with room for so many items.  Returns NULL, or what
 * is wrong.
 */
const char *
DecideFairshareTreeBegin(const DecideInput *input, const DecideArena *arena,
						 int32_t n_items, FairshareTree *tree)
{
	size_t		jobs = (size_t) input->n_jobs;
	size_t		accounts = (size_t) input->n_accounts;

	DecideAssert(n_items >= 0);
	DecideAssert(tree != NULL);
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
	return fair_begin(input, arena, &tree->use);
}

/*
 * All accounts by the fair tree: whose own jobs would go first.
 */

#define MOST_STEPS	80			/* levels, and the step to an account's own
								 * jobs */

/*
 * The way from the organisation to an account's own jobs.
 */
static int
way_to(const FairUse *use, int32_t account, FairShare *way)
{
	int			n = 0;
	int			i;

	if (use->inner[account])
		way[n++] = fair_own(use, account);
	for (; account >= 0; account = use->input->accounts[account].parent)
		way[n++] = fair_of(use, account);
	for (i = 0; i < n / 2; i++)
	{
		FairShare	swap = way[i];

		way[i] = way[n - 1 - i];
		way[n - 1 - i] = swap;
	}
	return n;
}

/*
 * Compare two accounts' ways, step by step.  One that ends while all was
 * equal is as good as one that goes on through accounts that used nothing.
 */
static int
compare_ways(const void *context, int32_t a, int32_t b)
{
	static const FairShare ended = {DECIDE_WEIGHT_ONE, 0};
	const FairUse *use = context;
	FairShare	way_a[MOST_STEPS];
	FairShare	way_b[MOST_STEPS];
	int			n_a = way_to(use, a, way_a);
	int			n_b = way_to(use, b, way_b);
	int			i;

	for (i = 0; i < n_a || i < n_b; i++)
	{
		int			order = fair_compare(i < n_a ? way_a[i] : ended,
										 i < n_b ? way_b[i] : ended);

		if (order != 0)
			return order;
	}
	return 0;
}

/*
 * Rank all accounts, from 1; equals share a rank.
 */
const char *
DecideFairRank(const DecideInput *input, const DecideArena *arena,
			   int32_t **ranks)
{
	FairUse		use;
	const char *error = DecideInputError(input);
	int32_t		n = input->n_accounts;
	int32_t    *order;
	int32_t		i;

	if (error == NULL)
		error = fair_begin(input, arena, &use);
	if (error != NULL)
		return error;
	order = DecideAlloc(arena, n, sizeof(int32_t));
	*ranks = DecideAlloc(arena, n, sizeof(int32_t));
	if (order == NULL || *ranks == NULL)
		return "out of memory";
	for (i = 0; i < n; i++)
		order[i] = i;
	if (!DecideSort(arena, order, n, compare_ways, &use))
		return "out of memory";
	for (i = 0; i < n; i++)
		(*ranks)[order[i]] = i > 0 &&
			compare_ways(&use, order[i - 1], order[i]) == 0 ?
			(*ranks)[order[i - 1]] : i + 1;
	return NULL;
}
