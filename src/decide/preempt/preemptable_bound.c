/*
 * preemptable_bound.c
 *	  The most that victims could give, as far as entitlements allow.
 *
 * During a search for victims, use only falls.  So a candidate that is larger
 * than its account's excess over its entitlement, or an ancestor's, stays too
 * large for the whole search.  An account's victims together never exceed its
 * excess; if the search is under or rounding, they exceed it by less than the
 * largest of them.  So the most that victims could give to jobs of one tier is
 * added up once, from the bottom of the tree.  What an account may get grows
 * as other jobs of its organisation leave, but by no more than these give.
 *
 * Free devices plus those of such candidates within one scope are the most
 * devices for which any set of them makes room there.
 *
 * Most jobs that wait for an entitlement find no victims, or too few.  They
 * are recognised here without examining any host.  The sums remain valid until
 * some use changes.  They are not computed if no account has more than its
 * entitlement, which is compared first.
 */
#include <string.h>

#include "decide/preempt/claim_state.h"

/* Some candidates, and the most that they could give. */
typedef struct CandidateSums
{
	int64_t		amount;
	int64_t		least;			/* the smallest amount of one candidate;
								 * INT64_MAX if there are none */
	int64_t		largest;		/* the largest amount of one candidate */
	int64_t		rest;			/* what the whole devices of the candidates
								 * are beyond amount */
	int32_t		n;
} CandidateSums;

/* What candidates could give to jobs of a tier. */
typedef struct PreemptableBound
{
	uint64_t	changes;		/* value of Entitle.changes when this was
								 * computed */
	int32_t		raised_for;		/* the account whose entitlement was raised,
								 * or -1 */
	CandidateSums *own;			/* for each account, its own jobs */
	CandidateSums *below;		/* for each account, its own jobs and those of
								 * the accounts below it */
	CandidateSums *all;			/* the same, limited by the account's excess */
	CandidateSums top;			/* sum over all organisations */
	CandidateSums by_tier;		/* candidates of less important tiers, in any
								 * account */
	int32_t    *bring;			/* devices on each host that could be given */
	int64_t    *most;			/* for each type and topology, the most
								 * devices in one scope that are free or could
								 * be given */
} PreemptableBound;

#define TOPOLOGIES	(DECIDE_TOPOLOGY_LEAF + 1)

static const CandidateSums none = {0, INT64_MAX, 0, 0, 0};

/*
 * Adds the sums of some candidates to those of others.
 */
static void
sums_add(CandidateSums *sum, const CandidateSums *more)
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
 * Whether victims of the current search may leave an account less than its
 * entitlement.
 */
static bool
may_lack(const Cycle *cycle)
{
	return cycle->claims->search.under || cycle->claims->search.rounding;
}

/*
 * The part of some candidates that an account with this excess could give.
 */
static CandidateSums
sums_within(const Cycle *cycle, CandidateSums some, int64_t beyond)
{
	if (may_lack(cycle) && beyond > 0)
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
 * Allocates the bound of a tier.  Returns NULL if memory runs out.
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
	preemptable->own = DecideAlloc(arena, n, sizeof(CandidateSums));
	preemptable->below = DecideAlloc(arena, n, sizeof(CandidateSums));
	preemptable->all = DecideAlloc(arena, n, sizeof(CandidateSums));
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
 * Adds a candidate's devices to those that could be given on each host.
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
 * Finds the most devices within one scope of each topology that are free or
 * could be given.
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
 * Adds up the candidates for a job of the tier, for each account.
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
		CandidateSums one = {candidate->amount, candidate->amount,
			candidate->amount, 0, 1};
		int64_t		beyond = entitle->used_own[account] -
			entitle->due_own[account];

		if (candidate->gone)
			continue;
		one.rest = DecideUsage(input, running->type, running->gpus,
							   DECIDE_WHOLE) - candidate->amount;
		if (input->tiers[tier].can_preempt &&
			input->tiers[tier].rank < candidate->rank)
			sums_add(&preemptable->by_tier, &one);
		else if (input->policy.reclaim &&
				 input->tiers[tier].rank <= candidate->rank &&
				 (candidate->amount <= beyond ||
				  (may_lack(cycle) && beyond > 0)))
			sums_add(&preemptable->own[account], &one);
		else
			continue;
		bring_add(cycle, running, preemptable);
	}
}

/*
 * Returns the bound for jobs of a tier.  Returns NULL if memory runs out.
 */
static const PreemptableBound *
preemptable_of(Cycle *cycle, int32_t tier)
{
	const DecideInput *input = cycle->input;
	Entitle    *entitle = &cycle->claims->entitle;
	const Search *search = &cycle->claims->search;
	bool		raised = entitle->due != entitle->asked.all;
	int32_t		raised_for = raised ? entitle->raised_for : -1;
	int32_t		index = PREEMPTABLE_BOUNDS * tier + 3 * raised +
		(search->under ? 1 : search->rounding ? 2 : 0);
	PreemptableBound *preemptable = entitle->preemptable[index];
	int32_t		i;

	if (preemptable == NULL)
		preemptable = preemptable_alloc(cycle, index);
	if (preemptable == NULL || (preemptable->changes == entitle->changes &&
								preemptable->raised_for == raised_for))
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
			sums_within(cycle, preemptable->own[account],
						entitle->used_own[account] -
						entitle->due_own[account]);
		sums_add(&preemptable->below[account], &preemptable->own[account]);
		preemptable->all[account] =
			sums_within(cycle, preemptable->below[account],
						entitle->used[account] - entitle->due[account]);
		sums_add(parent < 0 ? &preemptable->top : &preemptable->below[parent],
				 &preemptable->all[account]);
	}
	preemptable->changes = entitle->changes;
	preemptable->raised_for = raised_for;
	return preemptable;
}

/*
 * The most that the search's job could get.  It goes up from the job's account
 * as long as that may get devices from outside.
 */
static CandidateSums
within_reach(const Cycle *cycle, const PreemptableBound *preemptable)
{
	const DecideInput *input = cycle->input;
	const Entitle *entitle = &cycle->claims->entitle;
	const Search *search = &cycle->claims->search;
	int32_t		account = input->jobs[search->job].account;
	bool		by_tier = preemptable->by_tier.n > 0;
	CandidateSums sum = preemptable->by_tier;
	const CandidateSums *counted = &preemptable->own[account];

	/*
	 * jobs of its own account may leave by tier, and then it may get that
	 * much more
	 */
	for (;;)
	{
		const CandidateSums *here = account < 0 ? &preemptable->top :
			&preemptable->below[account];

		sum.amount += here->amount - counted->amount;
		sum.rest += here->rest - counted->rest;
		sum.n += here->n - counted->n;
		if (account < 0 ||
			(!by_tier && entitle->used[account] + search->amount - sum.amount >
			 entitle->due[account] + DecideEntitleSlack(cycle)))
			return sum;
		counted = &preemptable->all[account];
		account = input->accounts[account].parent;
	}
}

/*
 * Whether some account could give the smallest candidate to the account taker
 * and keep its entitlement, or has more than its entitlement before it gives.
 * Then the account has more than its entitlement, and so have those above it,
 * up to where its path meets the taker's.
 */
static bool
any_account_has_excess(const Cycle *cycle, int32_t taker)
{
	const DecideInput *input = cycle->input;
	const Entitle *entitle = &cycle->claims->entitle;
	int64_t		more = cycle->claims->least_amount;
	int32_t		i;

	if (may_lack(cycle) && more > 1)
		more = 1;
	for (i = 0; i < input->n_accounts; i++)
	{
		int32_t		giver = i;
		int32_t		shared = taker;

		if (i == taker ||
			entitle->used_own[i] - entitle->due_own[i] < more)
			continue;
		while (giver >= 0 &&
			   entitle->used[giver] - entitle->due[giver] >= more)
			giver = input->accounts[giver].parent;

		/*
		 * the first account above it that has no more must be above the
		 * taker, too
		 */
		while (shared >= 0 && shared != giver)
			shared = input->accounts[shared].parent;
		if (shared == giver)
			return true;
	}
	return false;
}

/*
 * Finds whether there could be victims for the search.  *might is set to false
 * only if no set of candidates suffices.  Returns false if memory runs out.
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
	bool		by_tier;
	CandidateSums sum;
	int32_t		i;

	DecideAssert(might != NULL);
	DecideAssert(cycle->claims->search.request != NULL);
	*might = true;
	if (search->moving || claims->n_elastics > 0)
		return true;
	/* no job of its own account leaves for an entitlement */
	due = entitle->used_own[job->account] + search->amount <=
		entitle->due_own[job->account] + DecideEntitleSlack(cycle);
	by_tier = tier->can_preempt && claims->n_ranks > 0 &&
		tier->rank < claims->ranks[0];
	*might = by_tier || (due && any_account_has_excess(cycle, job->account));
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
