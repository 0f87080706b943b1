/*
 * forest.c
 *	  Trees of accounts over their waiting jobs, which know whose turn it is.
 *
 * A tree is an urgency's: the jobs of the tiers of one rank, or of one tier
 * that is guaranteed a share.  Its leaves are accounts' own jobs, in lines:
 * one for each ask, in the order of the account.  Each leaf has a heap of its
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

#include "decide/core.h"

static void line_moved(void *context, int32_t line, int32_t at);
static bool line_before(void *context, int32_t a, int32_t b);
static void node_moved(void *context, int32_t node, int32_t at);
static bool node_before(void *context, int32_t a, int32_t b);

static const HeapKind line_heap = {line_before, line_moved};
static const HeapKind node_heap = {node_before, node_moved};

/*
 * The order of the jobs of one account: below 0, a is first.
 */
int
DecideJobCompareOwn(const DecideInput *input, int32_t a, int32_t b)
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
int
DecideJobCompare(const FairUse *use, int32_t a, int32_t b)
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
	return DecideJobCompareOwn(context, a, b);
}

/*
 * The first job of a line.
 */
static int32_t
line_job(const Forest *forest, int32_t line)
{
	return forest->items[forest->lines[line].next];
}

static bool
line_before(void *context, int32_t a, int32_t b)
{
	const Forest *forest = context;

	return DecideJobCompareOwn(forest->input, line_job(forest, a),
							   line_job(forest, b)) < 0;
}

static void
line_moved(void *context, int32_t line, int32_t at)
{
	((Forest *) context)->lines[line].at = at;
}

/*
 * A node's place among its siblings; of a root, the same as of any other.
 */
static FairShare
node_share(const Forest *forest, const ForestNode *node)
{
	static const FairShare root = {DECIDE_WEIGHT_ONE, 0};

	if (node->account < 0)
		return root;
	return node->own ? DecideFairOwn(&forest->use, node->account) :
		DecideFairOf(&forest->use, node->account);
}

/*
 * Is a, with all below it, before b?  They stand on one level.
 */
static bool
node_before(void *context, int32_t a, int32_t b)
{
	static const FairShare ended = {DECIDE_WEIGHT_ONE, 0};
	const Forest *forest = context;
	const ForestNode *x = &forest->nodes[a];
	const ForestNode *y = &forest->nodes[b];
	FairShare	share_x = node_share(forest, x);
	FairShare	share_y = node_share(forest, y);

	for (;;)
	{
		int			order = DecideFairCompare(share_x, share_y);

		if (order != 0)
			return order < 0;
		if (x->leaf && y->leaf)
			return DecideJobCompare(&forest->use,
									line_job(forest, x->heap[0]),
									line_job(forest, y->heap[0])) < 0;
		share_x = share_y = ended;
		if (!x->leaf)
		{
			x = &forest->nodes[x->heap[0]];
			share_x = node_share(forest, x);
		}
		if (!y->leaf)
		{
			y = &forest->nodes[y->heap[0]];
			share_y = node_share(forest, y);
		}
	}
}

static void
node_moved(void *context, int32_t node, int32_t at)
{
	((Forest *) context)->nodes[node].at = at;
}

/*
 * Put a node right among its siblings, or take it from among them when there
 * is nothing left below it.
 */
static void
node_fix(Forest *forest, int32_t index)
{
	ForestNode *node = &forest->nodes[index];
	ForestNode *parent;

	if (node->parent < 0 || node->at < 0)
		return;
	parent = &forest->nodes[node->parent];
	if (node->n > 0)
		DecideHeapFix(&node_heap, forest, parent->heap, parent->n, node->at);
	else
		DecideHeapRemove(&node_heap, forest, parent->heap, parent->n--,
						 node->at);
}

/*
 * A line's first job changed, or it ended: put right all above it.
 */
static void
line_fix(Forest *forest, int32_t index)
{
	ForestLine *line = &forest->lines[index];
	ForestNode *leaf = &forest->nodes[line->leaf];
	int32_t		node;

	if (line->at < 0)
		return;
	if (line->next < line->end)
		DecideHeapFix(&line_heap, forest, leaf->heap, leaf->n, line->at);
	else
		DecideHeapRemove(&line_heap, forest, leaf->heap, leaf->n--, line->at);
	for (node = line->leaf; node >= 0; node = forest->nodes[node].parent)
		node_fix(forest, node);
}

/*
 * The first job of a tree, -1: it is empty.
 */
int32_t
DecideForestFirst(const Forest *forest, int32_t root)
{
	const ForestNode *node = &forest->nodes[root];

	if (node->n == 0)
		return -1;
	while (!node->leaf)
		node = &forest->nodes[node->heap[0]];
	return line_job(forest, node->heap[0]);
}

/*
 * Is the first job of one tree before that of another?  Neither is empty.
 */
bool
DecideForestBefore(Forest *forest, int32_t root_a, int32_t root_b)
{
	return node_before(forest, root_a, root_b);
}

/*
 * Take a job out of its trees.
 */
void
DecideForestTake(Forest *forest, int32_t job)
{
	int			which;

	forest->taken[job] = true;
	for (which = 0; which < 2; which++)
	{
		int32_t		index = forest->job_lines[which][job];
		ForestLine *line;

		if (index < 0)
			continue;
		line = &forest->lines[index];
		while (line->next < line->end &&
			   forest->taken[forest->items[line->next]])
			line->next++;
		line_fix(forest, index);
	}
}

/*
 * Take all jobs of an ask out.
 */
void
DecideForestBlock(Forest *forest, int32_t ask)
{
	int32_t		line = forest->ask_lines[ask];

	for (; line >= 0; line = forest->lines[line].next_of_ask)
	{
		forest->lines[line].next = forest->lines[line].end;
		line_fix(forest, line);
	}
	forest->ask_lines[ask] = -1;
}

/*
 * An account's use grew.
 */
void
DecideForestCharge(Forest *forest, int32_t account, int64_t amount)
{
	DecideFairAdd(&forest->use, account, amount);
	for (; account >= 0; account = forest->input->accounts[account].parent)
	{
		int32_t		node = forest->account_nodes[account];

		/* an account's own jobs stand before the account itself */
		for (; node >= 0; node = forest->nodes[node].next_of_account)
			node_fix(forest, node);
	}
}

/*
 * Add a node.  False: out of memory.
 */
static bool
node_add(Forest *forest, const DecideArena *arena, int32_t account,
		 int32_t parent, bool leaf, bool own)
{
	ForestNode *node;

	forest->nodes = DecideGrow(arena, forest->nodes, forest->n_nodes,
							   &forest->nodes_room, sizeof(ForestNode));
	if (forest->nodes == NULL)
		return false;
	node = &forest->nodes[forest->n_nodes];
	memset(node, 0, sizeof(*node));
	node->account = account;
	node->parent = parent;
	node->leaf = leaf;
	node->own = own;
	node->next_of_account = -1;
	if (parent >= 0)
		forest->nodes[parent].n++;
	if (account >= 0)
	{
		node->next_of_account = forest->account_nodes[account];
		forest->account_nodes[account] = forest->n_nodes;
	}
	forest->n_nodes++;
	return true;
}

/*
 * The node of an account that is no leaf, in the tree that is being made;
 * -1: out of memory.
 */
static int32_t
inner_node(Forest *forest, const DecideArena *arena, int32_t root,
		   int32_t account)
{
	int32_t		parent = forest->input->accounts[account].parent;
	int32_t		above = root;

	/* nodes of this tree come after its root */
	if (forest->account_inner[account] > root)
		return forest->account_inner[account];
	if (parent >= 0)
		above = inner_node(forest, arena, root, parent);
	if (above < 0 ||
		!node_add(forest, arena, account, above, false, false))
		return -1;
	forest->account_inner[account] = forest->n_nodes - 1;
	return forest->n_nodes - 1;
}

/*
 * Add an account's own jobs as a leaf; -1: out of memory.
 */
static int32_t
leaf_node(Forest *forest, const DecideArena *arena, int32_t root,
		  int32_t account)
{
	int32_t		parent = forest->input->accounts[account].parent;
	bool		own = forest->use.inner[account];
	int32_t		above = root;

	if (own)
		above = inner_node(forest, arena, root, account);
	else if (parent >= 0)
		above = inner_node(forest, arena, root, parent);
	if (above < 0 || !node_add(forest, arena, account, above, true, own))
		return -1;
	return forest->n_nodes - 1;
}

/*
 * Add a line of one account's jobs of one ask, items[first] to items[end - 1].
 */
static bool
line_add(Forest *forest, const DecideArena *arena, int which, int32_t leaf,
		 int32_t first, int32_t end)
{
	int32_t		ask = forest->input->jobs[forest->items[first]].ask;
	ForestLine *line;
	int32_t		i;

	forest->lines = DecideGrow(arena, forest->lines, forest->n_lines,
							   &forest->lines_room, sizeof(ForestLine));
	if (forest->lines == NULL ||
		!DecideSort(arena, forest->items + first, end - first, compare_own,
					forest->input))
		return false;
	line = &forest->lines[forest->n_lines];
	line->leaf = leaf;
	line->next = first;
	line->end = end;
	line->at = -1;
	line->next_of_ask = forest->ask_lines[ask];
	forest->ask_lines[ask] = forest->n_lines;
	forest->nodes[leaf].n++;
	for (i = first; i < end; i++)
		forest->job_lines[which][forest->items[i]] = forest->n_lines;
	forest->n_lines++;
	return true;
}

/*
 * Add a tree over items[first] to items[end - 1], which come account by
 * account and ask by ask; which: the first or the second tree that they are
 * in.  Returns its root, or -1: out of memory.
 */
int32_t
DecideForestAdd(Forest *forest, const DecideArena *arena, int which,
				int32_t first, int32_t end)
{
	const DecideJob *jobs = forest->input->jobs;
	int32_t		root = forest->n_nodes;
	int32_t		leaf = -1;
	int32_t		account = -1;

	if (!node_add(forest, arena, -1, -1, first == end, false))
		return -1;
	while (first < end)
	{
		const DecideJob *job = &jobs[forest->items[first]];
		int32_t		next = first + 1;

		while (next < end && jobs[forest->items[next]].ask == job->ask &&
			   jobs[forest->items[next]].account == job->account)
			next++;
		if (job->account != account)
		{
			account = job->account;
			leaf = leaf_node(forest, arena, root, account);
			if (leaf < 0)
				return -1;
		}
		if (!line_add(forest, arena, which, leaf, first, next))
			return -1;
		first = next;
	}
	return root;
}

/*
 * All trees were added: make their heaps.  False: out of memory.
 */
bool
DecideForestReady(Forest *forest, const DecideArena *arena)
{
	int32_t    *slots = DecideAlloc(arena, (int64_t) forest->n_nodes +
									forest->n_lines, sizeof(int32_t));
	int32_t		i;

	if (slots == NULL)
		return false;
	for (i = 0; i < forest->n_nodes; i++)
	{
		forest->nodes[i].heap = slots;
		slots += forest->nodes[i].n;
		forest->nodes[i].n = 0;
	}
	for (i = 0; i < forest->n_nodes; i++)
	{
		ForestNode *node = &forest->nodes[i];

		if (node->parent >= 0)
		{
			ForestNode *parent = &forest->nodes[node->parent];

			parent->heap[parent->n++] = i;
		}
	}
	for (i = 0; i < forest->n_lines; i++)
	{
		ForestNode *leaf = &forest->nodes[forest->lines[i].leaf];

		leaf->heap[leaf->n++] = i;
	}
	/* children have higher numbers than their parents */
	for (i = forest->n_nodes - 1; i >= 0; i--)
		DecideHeapBuild(forest->nodes[i].leaf ? &line_heap : &node_heap,
						forest, forest->nodes[i].heap, forest->nodes[i].n);
	return true;
}

/*
 * A forest without trees, with room for so many items.  Returns NULL, or what
 * is wrong.
 */
const char *
DecideForestBegin(const DecideInput *input, const DecideArena *arena,
				  int32_t n_items, Forest *forest)
{
	size_t		jobs = (size_t) input->n_jobs;
	size_t		accounts = (size_t) input->n_accounts;

	memset(forest, 0, sizeof(*forest));
	forest->input = input;
	forest->items = DecideAlloc(arena, n_items, sizeof(int32_t));
	forest->taken = DecideAlloc(arena, input->n_jobs, sizeof(bool));
	forest->job_lines[0] = DecideAlloc(arena, input->n_jobs, sizeof(int32_t));
	forest->job_lines[1] = DecideAlloc(arena, input->n_jobs, sizeof(int32_t));
	forest->ask_lines = DecideAlloc(arena, input->n_asks, sizeof(int32_t));
	forest->account_nodes = DecideAlloc(arena, input->n_accounts,
										sizeof(int32_t));
	forest->account_inner = DecideAlloc(arena, input->n_accounts,
										sizeof(int32_t));
	if (forest->items == NULL || forest->taken == NULL ||
		forest->job_lines[0] == NULL || forest->job_lines[1] == NULL ||
		forest->ask_lines == NULL || forest->account_nodes == NULL ||
		forest->account_inner == NULL)
		return "out of memory";
	memset(forest->taken, 0, jobs * sizeof(bool));
	memset(forest->job_lines[0], 0xFF, jobs * sizeof(int32_t));
	memset(forest->job_lines[1], 0xFF, jobs * sizeof(int32_t));
	memset(forest->ask_lines, 0xFF, (size_t) input->n_asks * sizeof(int32_t));
	memset(forest->account_nodes, 0xFF, accounts * sizeof(int32_t));
	memset(forest->account_inner, 0xFF, accounts * sizeof(int32_t));
	return DecideFairBegin(input, arena, &forest->use);
}
