/*
 * preemptable_bound.c
 *	  The most that victims could give, as far as entitlements go.
 *
 * During a search for victims, use only falls.  So a candidate larger than
 * its account's excess over its entitlement, or an ancestor's, stays too
 * large for the whole search.  An account's victims together never exceed its
 * excess; if the search is under, they exceed it by less than the largest of
 * them.  So the most that victims could give to jobs of one tier is added up
 * once, from the bottom of the tree.  What an account may take grows as
 * others of its organisation leave, but by no more than these give.
 *
 * Free devices and those of such candidates within one place are the most
 * that any set of them makes room for there.
 *
 * Most jobs that wait for an entitlement find no victims, or too few.  They
 * are done here without a look at any host.  The sums hold until some usage
 * changes.
 */
#include <string.h>

#include "decide/preempt/claim_state.h"

/* Candidates, and the most that they could give. */
typedef struct Some
{
	int64_t		amount;
	int64_t		least;			/* the least of one candidate; INT64_MAX:
								 * there are none */
	int64_t		largest;		/* the largest of one candidate */
	int64_t		rest;			/* whole devices beyond amount */
	int32_t		n;
} Some;

/* What could be given to jobs of a tier. */
typedef struct PreemptableBound
{
	uint64_t	changes;		/* of usage, when computed */
	Some	   *own;			/* of an account's own jobs */
	Some	   *below;			/* of these and the accounts below, */
	Some	   *all;			/* limited by the account's excess */
	Some		top;			/* of all organisations */
	Some		by_tier;		/* of less important tiers, in any account */
	int32_t    *bring;			/* devices on a host that could be given */
	int64_t    *most;			/* by type's number and topology: devices in
								 * one place that are free or could be given */
} PreemptableBound;

#define TOPOLOGIES	(DECIDE_TOPOLOGY_LEAF + 1)

static const Some none = {0, INT64_MAX, 0, 0, 0};

/*
 * Add some candidates to others.
 */
static void
some_add(Some *sum, const Some *more)
{
	sum->amount += more->amount;
	sum->rest += more->rest;
	sum->n += more->n;
	if (more->least < sum->least)
		sum->least = more->least;
	if (more->largest > sum->largest)
		sum->largest = more->largest;
}

/*
 * What of some candidates an account with this excess could give.
 */
static Some
some_within(const Cycle *cycle, Some some, int64_t beyond)
{
	if (cycle->claims->search.under && beyond > 0)
		beyond += some.largest - 1;
	if (some.n == 0 || some.least > beyond)
		return none;
	if (some.amount > beyond)
		some.amount = beyond;
	return some;
}

/*----------
 * The order in which accounts are summed up into their parents:
 *
 * 1. depth in the tree, the deepest first;
 * 2. number of the account.
 *----------
 */
static int
compare_depth(const void *context, int32_t a, int32_t b)
{
	const int32_t *depth = context;

	if (depth[a] != depth[b])
		return depth[a] > depth[b] ? -1 : 1;
	return a < b ? -1 : a > b;
}

/*
 * Allocate the bound of a tier.  NULL: out of memory.
 */
static PreemptableBound *
preemptable_alloc(Cycle *cycle, int32_t index)
{
	const DecideArena *arena = cycle->arena;
	Entitle    *entitle = &cycle->claims->entitle;
	int32_t		n = cycle->input->n_accounts;
	PreemptableBound *preemptable = DecideAlloc(arena, 1,
												sizeof(PreemptableBound));
	int32_t		i;

	if (entitle->deepest == NULL)
	{
		entitle->deepest = DecideAlloc(arena, n, sizeof(int32_t));
		if (entitle->deepest == NULL)
			return NULL;
		for (i = 0; i < n; i++)
			entitle->deepest[i] = i;
		if (!DecideSort(arena, entitle->deepest, n, compare_depth,
						entitle->depth))
			return NULL;
	}
	if (preemptable == NULL)
		return NULL;
	preemptable->changes = UINT64_MAX;
	preemptable->own = DecideAlloc(arena, n, sizeof(Some));
	preemptable->below = DecideAlloc(arena, n, sizeof(Some));
	preemptable->all = DecideAlloc(arena, n, sizeof(Some));
	preemptable->bring = DecideAlloc(arena, cycle->n_hosts, sizeof(int32_t));
	preemptable->most = DecideAlloc(arena, (int64_t) cycle->n_types *
									TOPOLOGIES, sizeof(int64_t));
	if (preemptable->own == NULL || preemptable->below == NULL ||
		preemptable->all == NULL || preemptable->bring == NULL ||
		preemptable->most == NULL)
		return NULL;
	entitle->preemptable[index] = preemptable;
	return preemptable;
}

/*
 * Count a candidate's devices as possible gifts.
 */
static void
bring_add(const Cycle *cycle, const DecideRunning *running,
		  PreemptableBound *preemptable)
{
	int32_t		p;

	for (p = running->first_part; p < running->first_part + running->n_parts;
		 p++)
	{
		const DecidePart *part = &cycle->input->running_parts[p];

		preemptable->bring[cycle->claims->host_of[part->node]] +=
			__builtin_popcountll(part->devices);
	}
}

/*
 * The most devices, within one place of each kind, that are free or could be
 * given.
 */
static void
most_find(Cycle *cycle, PreemptableBound *preemptable)
{
	int32_t		t;
	int			topology;

	for (t = 0; t < cycle->n_types * TOPOLOGIES; t++)
		preemptable->most[t] = 0;
	for (t = 0; t < cycle->n_types; t++)
	{
		for (topology = 0; topology < TOPOLOGIES; topology++)
		{
			int64_t    *most = &preemptable->most[t * TOPOLOGIES + topology];
			Scope		scope = {0};
			int32_t		i;

			while (DecideScopeNext(cycle, &cycle->types[t],
								   (DecideTopology) topology, &scope))
			{
				int64_t		sum = 0;

				for (i = 0; i < scope.n; i++)
					sum += DecideHostTruth(cycle, scope.hosts[i])->n_free +
						preemptable->bring[scope.hosts[i]];
				*most = sum > *most ? sum : *most;
			}
		}
	}
}

/*
 * List the candidates for a job of the tier, with their accounts.
 */
static void
candidates_add(const Cycle *cycle, int32_t tier, PreemptableBound *preemptable)
{
	const DecideInput *input = cycle->input;
	const ClaimState *claims = cycle->claims;
	const Entitle *entitle = &claims->entitle;
	int32_t		i;

	preemptable->by_tier = none;
	for (i = 0; i < claims->n_candidates; i++)
	{
		const Candidate *candidate = &claims->candidates[i];
		const DecideRunning *running = &input->running[candidate->running];
		int32_t		account = running->account;
		Some		one = {candidate->amount, candidate->amount,
			candidate->amount, 0, 1};
		int64_t		beyond = entitle->used_own[account] -
			entitle->due_own[account];

		if (candidate->gone)
			continue;
		one.rest = DecideUsage(input, running->type, running->gpus,
							   DECIDE_WHOLE) - candidate->amount;
		if (input->tiers[tier].can_preempt &&
			input->tiers[tier].rank < candidate->rank)
			some_add(&preemptable->by_tier, &one);
		else if (input->policy.reclaim &&
				 input->tiers[tier].rank <= candidate->rank &&
				 (candidate->amount <= beyond ||
				  (claims->search.under && beyond > 0)))
			some_add(&preemptable->own[account], &one);
		else
			continue;
		bring_add(cycle, running, preemptable);
	}
}

/*
 * The bound for jobs of a tier.  NULL: out of memory.
 */
static const PreemptableBound *
preemptable_of(Cycle *cycle, int32_t tier)
{
	const DecideInput *input = cycle->input;
	Entitle    *entitle = &cycle->claims->entitle;
	int32_t		index = 2 * tier + cycle->claims->search.under;
	PreemptableBound *preemptable = entitle->preemptable[index];
	int32_t		i;

	if (preemptable == NULL)
		preemptable = preemptable_alloc(cycle, index);
	if (preemptable == NULL || preemptable->changes == entitle->changes)
		return preemptable;
	for (i = 0; i < input->n_accounts; i++)
		preemptable->own[i] = preemptable->below[i] = none;
	preemptable->top = none;
	if (cycle->n_hosts > 0)
		memset(preemptable->bring, 0,
			   (size_t) cycle->n_hosts * sizeof(int32_t));
	candidates_add(cycle, tier, preemptable);
	most_find(cycle, preemptable);
	for (i = 0; i < input->n_accounts; i++)
	{
		int32_t		account = entitle->deepest[i];
		int32_t		parent = input->accounts[account].parent;

		preemptable->own[account] =
			some_within(cycle, preemptable->own[account],
						entitle->used_own[account] -
						entitle->due_own[account]);
		some_add(&preemptable->below[account], &preemptable->own[account]);
		preemptable->all[account] =
			some_within(cycle, preemptable->below[account],
						entitle->used[account] - entitle->due[account]);
		some_add(parent < 0 ? &preemptable->top : &preemptable->below[parent],
				 &preemptable->all[account]);
	}
	preemptable->changes = entitle->changes;
	return preemptable;
}

/*
 * The most that the search's job could take, going up from its account as far
 * as it may take from outside.
 */
static Some
within_reach(const Cycle *cycle, const PreemptableBound *preemptable)
{
	const DecideInput *input = cycle->input;
	const Entitle *entitle = &cycle->claims->entitle;
	const Search *search = &cycle->claims->search;
	int32_t		account = input->jobs[search->job].account;
	bool		by_tier = preemptable->by_tier.n > 0;
	Some		sum = preemptable->by_tier;
	const Some *counted = &preemptable->own[account];

	/* its own jobs may leave by tier, and then it may take that much more */
	for (;;)
	{
		const Some *here = account < 0 ? &preemptable->top :
			&preemptable->below[account];

		sum.amount += here->amount - counted->amount;
		sum.rest += here->rest - counted->rest;
		sum.n += here->n - counted->n;
		if (account < 0 ||
			(!by_tier && entitle->used[account] + search->amount - sum.amount >
			 entitle->due[account]))
			return sum;
		counted = &preemptable->all[account];
		account = input->accounts[account].parent;
	}
}

/*
 * Could there be victims for the search?  *might is false only if no set of
 * candidates suffices.  False: out of memory.
 */
bool
DecidePreemptableMight(Cycle *cycle, bool *might)
{
	const ClaimState *claims = cycle->claims;
	const Entitle *entitle = &claims->entitle;
	const Search *search = &claims->search;
	const DecideJob *job = &cycle->input->jobs[search->job];
	const DecideTier *tier = &cycle->input->tiers[job->tier];
	const PreemptableBound *preemptable;
	int64_t		lacking = search->count;
	bool		due;
	Some		sum;
	int32_t		i;

	DecideAssert(might != NULL);
	DecideAssert(cycle->claims->search.request != NULL);
	*might = true;
	if (search->moving || claims->n_elastics > 0)
		return true;
	/* nobody of its own account leaves for an entitlement */
	due = entitle->used_own[job->account] + search->amount <=
		entitle->due_own[job->account];
	*might = due || (tier->can_preempt && claims->n_ranks > 0 &&
					 tier->rank < claims->ranks[0]);
	if (!*might)
		return true;
	preemptable = preemptable_of(cycle, job->tier);
	if (preemptable == NULL)
		return false;
	sum = within_reach(cycle, preemptable);
	*might = sum.n > 0 && (due || preemptable->by_tier.n > 0);
	if (!*might || !search->whole)
		return true;
	*might = preemptable->most[cycle->hosts[search->hosts[0]].kind * TOPOLOGIES +
							   search->request->topology] >= search->count;
	if (!*might)
		return true;
	for (i = 0; i < search->range.n; i++)
		lacking -= cycle->hosts[search->hosts[i]].n_free;
	*might = lacking <= 0 || sum.amount + sum.rest >=
		lacking * DecideUsage(cycle->input, search->offer->type, 1,
							  DECIDE_WHOLE);
	return true;
}
