/*
 * entitle.c
 *	  What each account is entitled to now.
 *
 * The pool's capacity is divided among organisations by weight, to none more
 * than its demand (water-filling).  An account's part is divided likewise
 * among its children and its own jobs, a child of weight 1.  Demand is
 * running and waiting jobs; past use plays no part.  Where the pool lets jobs
 * grow, an elastic job demands the most devices it may have, waiting or
 * running.  So entitlements stay the same while it grows.  Amounts are in
 * usage's unit: device-thousandths times the type's weight.
 *
 * One account may take from another if, from where their paths part, the
 * taker's side stays within its entitlement and the giver's side keeps its
 * own.  If there are no such victims, the giver's side need only have more
 * than its entitlement before its largest victim leaves.  Jobs are whole, so
 * an account could otherwise keep an excess in one large job.  Each victim
 * still lowers an excess, as a taker never has one.
 */
#include <string.h>

#include "decide/preempt/claim_state.h"

typedef __int128 Wide;

/* One of several accounts that share an amount. */
typedef struct Sharer
{
	int32_t		account;		/* -1: the parent's own jobs */
	int64_t		weight;
	int64_t		demand;
} Sharer;

/*----------
 * The order in which sharers have enough while a common level rises:
 *
 * 1. demand over weight, the lowest first;
 * 2. place in the array.
 *----------
 */
static int
compare_sharers(const void *context, int32_t a, int32_t b)
{
	const Sharer *x = (const Sharer *) context + a;
	const Sharer *y = (const Sharer *) context + b;
	Wide		left = (Wide) x->demand * y->weight;
	Wide		right = (Wide) y->demand * x->weight;

	if (left != right)
		return left < right ? -1 : 1;
	return a < b ? -1 : a > b;
}

/*
 * Divide an amount among sharers.  False: out of memory.
 */
static bool
deal(Cycle *cycle, int64_t amount, const Sharer *sharers, int32_t n,
	 int32_t parent)
{
	Entitle    *entitle = &cycle->claims->entitle;
	int32_t    *order = DecideAlloc(cycle->arena, n, sizeof(int32_t));
	Wide		weight = 0;
	int32_t		i;

	if (order == NULL)
		return false;
	for (i = 0; i < n; i++)
	{
		order[i] = i;
		weight += sharers[i].weight;
	}
	if (!DecideSort(cycle->arena, order, n, compare_sharers, sharers))
		return false;
	for (i = 0; i < n; i++)
	{
		const Sharer *sharer = &sharers[order[i]];
		int64_t		due = (int64_t) ((Wide) amount * sharer->weight / weight);

		/* after one is not filled, none is */
		if (sharer->demand <= due)
		{
			due = sharer->demand;
			amount -= due;
			weight -= sharer->weight;
		}
		if (sharer->account >= 0)
			entitle->due[sharer->account] = due;
		else
			entitle->due_own[parent] = due;
	}
	return true;
}

/*
 * Add to an account's own usage, and to that of all above it.
 */
static void
add_up(const DecideInput *input, int64_t *own, int64_t *sum, int32_t account,
	   int64_t amount)
{
	own[account] += amount;
	for (; account >= 0; account = input->accounts[account].parent)
		sum[account] += amount;
}

/*
 * The pool's capacity in usage's unit.
 */
static int64_t
capacity(const DecideInput *input)
{
	int64_t		sum = 0;
	int32_t		i;

	for (i = 0; i < input->n_nodes; i++)
	{
		const DecideNode *node = &input->nodes[i];
		uint64_t	has = node->gpus == 0 ? 0 :
			UINT64_MAX >> (DECIDE_MAX_DEVICES - node->gpus);

		if (node->schedulable)
			sum += DecideUsage(input, node->type,
							   __builtin_popcountll(node->usable & has),
							   DECIDE_WHOLE);
	}
	return sum;
}

/*
 * How many devices an elastic job demands.
 */
static int32_t
useful(const Cycle *cycle, int32_t account, int32_t type, int32_t least,
	   int32_t most)
{
	return least >= most ||
		cycle->input->policy.elastic_idle_delay == DECIDE_NEVER ?
		least : DecideQuotaEver(cycle, account, type, least, most);
}

/*
 * A running job's demand.  A job that is over demands no more than it has;
 * nor does one whose growth could not be paid (its request is not loaded).
 */
static int64_t
running_amount(const Cycle *cycle, const DecideRunning *running)
{
	int32_t		gpus = running->gpus;

	if (!running->over && running->type != DECIDE_NO_TYPE &&
		(running->request >= 0 || running->leaving))
		gpus = useful(cycle, running->account, running->type, gpus,
					  running->max_gpus);
	return DecideUsage(cycle->input, running->type, gpus,
					   DecideRunningCounted(running));
}

/*
 * A waiting job's demand, with the first type it accepts.
 */
static int64_t
job_amount(const Cycle *cycle, const DecideJob *job)
{
	const DecideRequestClass *request = &cycle->input->requests[job->request];
	int32_t		type;

	if (request->n_offers == 0 || request->min_gpus == 0)
		return 0;
	type = request->offers[0].type;
	return DecideUsage(cycle->input, type,
					   useful(cycle, job->account, type, request->min_gpus,
							  request->max_gpus),
					   DecideCounted(request, type));
}

/*
 * Count running jobs, waiting jobs, and the devices of others in claims.
 */
static void
count(Cycle *cycle, int64_t *demand, int64_t *demand_own)
{
	const DecideInput *input = cycle->input;
	Entitle    *entitle = &cycle->claims->entitle;
	int32_t		i;

	for (i = 0; i < input->n_running; i++)
	{
		const DecideRunning *running = &input->running[i];

		add_up(input, demand_own, demand, running->account,
			   running_amount(cycle, running));
		if (!running->leaving)
			add_up(input, entitle->used_own, entitle->used, running->account,
				   DecideUsage(input, running->type, running->gpus,
							   DecideRunningCounted(running)));
	}
	for (i = 0; i < input->n_jobs; i++)
	{
		/* jobs that quotas hold back demand nothing */
		if (cycle->result->held == NULL || cycle->result->held[i] != 0)
			add_up(input, demand_own, demand, input->jobs[i].account,
				   job_amount(cycle, &input->jobs[i]));
	}
	for (i = 0; i < input->n_claims; i++)
	{
		const DecideClaim *claim = &input->claims[i];
		int64_t		amount = DecideUsage(input, claim->type, claim->gpus,
										 DecideClaimCounted(claim));

		if (claim->job < 0 && !claim->running)
			add_up(input, demand_own, demand, claim->account, amount);
		add_up(input, entitle->used_own, entitle->used, claim->account,
			   amount);
	}
}

/*
 * How deep an account is below its organisation.
 */
static int32_t
depth_of(const DecideInput *input, int32_t account)
{
	int32_t		depth = 0;

	while (input->accounts[account].parent >= 0)
	{
		account = input->accounts[account].parent;
		depth++;
	}
	return depth;
}

/*----------
 * The order that puts the children of an account side by side:
 *
 * 1. parent, where organisations have none and come first;
 * 2. number of the account.
 *----------
 */
static int
compare_parent(const void *context, int32_t a, int32_t b)
{
	const DecideAccount *accounts = context;

	if (accounts[a].parent != accounts[b].parent)
		return accounts[a].parent < accounts[b].parent ? -1 : 1;
	return a < b ? -1 : a > b;
}

/*
 * Divide among the children of each account, from the top down.
 */
static bool
deal_all(Cycle *cycle, const int64_t *demand, const int64_t *demand_own)
{
	const DecideInput *input = cycle->input;
	Entitle    *entitle = &cycle->claims->entitle;
	int32_t		n = input->n_accounts;
	int32_t    *order = DecideAlloc(cycle->arena, n, sizeof(int32_t));
	Sharer	   *sharers = DecideAlloc(cycle->arena, (int64_t) n + 1,
									  sizeof(Sharer));
	int32_t		deepest = 0;
	int32_t		depth;
	int32_t		i;

	if (order == NULL || sharers == NULL)
		return false;
	for (i = 0; i < n; i++)
	{
		order[i] = i;
		entitle->depth[i] = depth_of(input, i);
		if (entitle->depth[i] > deepest)
			deepest = entitle->depth[i];
	}
	if (!DecideSort(cycle->arena, order, n, compare_parent, input->accounts))
		return false;
	for (depth = 0; depth <= deepest; depth++)
	{
		int32_t		first;
		int32_t		last;

		for (first = 0; first < n; first = last)
		{
			int32_t		parent = input->accounts[order[first]].parent;
			int32_t		sharing = 0;

			for (last = first; last < n &&
				 input->accounts[order[last]].parent == parent; last++)
			{
				int32_t		child = order[last];

				sharers[sharing++] = (Sharer)
				{
					child, input->accounts[child].weight, demand[child]
				};
			}
			if (entitle->depth[order[first]] != depth)
				continue;
			if (parent >= 0)
				sharers[sharing++] = (Sharer)
			{
				-1, DECIDE_WEIGHT_ONE, demand_own[parent]
			};
			if (!deal(cycle, parent < 0 ? capacity(input) :
					  entitle->due[parent], sharers, sharing, parent))
				return false;
		}
	}
	return true;
}

/*
 * Compute what every account is entitled to and what it uses.  False: out of
 * memory.
 */
bool
DecideEntitleLoad(Cycle *cycle)
{
	const DecideArena *arena = cycle->arena;
	Entitle    *entitle = &cycle->claims->entitle;
	int32_t		n = cycle->input->n_accounts;
	size_t		size = (size_t) n * sizeof(int64_t);
	int64_t    *demand = DecideAlloc(arena, n, sizeof(int64_t));
	int64_t    *demand_own = DecideAlloc(arena, n, sizeof(int64_t));
	int32_t		i;

	DecideAssert(cycle->claims != NULL);
	DecideAssert(cycle->claims->entitle.depth == NULL);
	entitle->depth = DecideAlloc(arena, n, sizeof(int32_t));
	entitle->due = DecideAlloc(arena, n, sizeof(int64_t));
	entitle->due_own = DecideAlloc(arena, n, sizeof(int64_t));
	entitle->used = DecideAlloc(arena, n, sizeof(int64_t));
	entitle->used_own = DecideAlloc(arena, n, sizeof(int64_t));
	entitle->giving = DecideAlloc(arena, n, sizeof(int64_t));
	entitle->giving_own = DecideAlloc(arena, n, sizeof(int64_t));
	entitle->preemptable = DecideAlloc(arena,
									   2 * (int64_t) cycle->input->n_tiers,
									   sizeof(struct PreemptableBound *));
	if (demand == NULL || demand_own == NULL || entitle->depth == NULL ||
		entitle->preemptable == NULL ||
		entitle->due == NULL || entitle->due_own == NULL ||
		entitle->used == NULL || entitle->used_own == NULL ||
		entitle->giving == NULL || entitle->giving_own == NULL)
		return false;
	for (i = 0; i < 2 * cycle->input->n_tiers; i++)
		entitle->preemptable[i] = NULL;
	if (n == 0)
		return true;
	memset(demand, 0, size);
	memset(demand_own, 0, size);
	memset(entitle->used, 0, size);
	memset(entitle->used_own, 0, size);
	memset(entitle->giving, 0, size);
	memset(entitle->giving_own, 0, size);
	count(cycle, demand, demand_own);
	for (i = 0; i < n; i++)
		entitle->due_own[i] = -1;
	if (!deal_all(cycle, demand, demand_own))
		return false;
	for (i = 0; i < n; i++)
	{
		/* no accounts below: all is its own */
		if (entitle->due_own[i] < 0)
			entitle->due_own[i] = entitle->due[i];
	}
	for (i = 0; i < cycle->result->n_starts; i++)
	{
		const DecideStart *start = &cycle->result->starts[i];

		DecideEntitleUse(cycle, cycle->input->jobs[start->job].account,
						 DecideUsage(cycle->input, start->type, start->gpus,
									 DecideCounted(DecideJobRequest(cycle, start->job),
												   start->type)));
	}
	return true;
}

/*
 * Change an account's use.
 */
void
DecideEntitleUse(Cycle *cycle, int32_t account, int64_t amount)
{
	Entitle    *entitle = &cycle->claims->entitle;

	DecideAssert(cycle->claims != NULL);
	DecideAssert(account >= 0 && account < cycle->input->n_accounts);
	add_up(cycle->input, entitle->used_own, entitle->used, account, amount);
	entitle->changes++;
}

/*
 * An elastic job gives devices in the current search, or keeps them after
 * all.  They count as used until it is told.
 */
void
DecideEntitleShrink(Cycle *cycle, const DecideRunning *running, int32_t gpus)
{
	Entitle    *entitle = &cycle->claims->entitle;

	DecideAssert(cycle->claims != NULL);
	DecideAssert(running->account >= 0 && running->account < cycle->input->n_accounts);
	add_up(cycle->input, entitle->giving_own, entitle->giving,
		   running->account, DecideUsage(cycle->input, running->type, gpus,
										 DecideRunningCounted(running)));
}

/*
 * The largest amount of a chosen victim of an account and all below it (own:
 * of its own jobs) that leaves for an entitlement; 0: there is none.
 */
static int64_t
victims_largest(const Cycle *cycle, int32_t account, bool own)
{
	const DecideInput *input = cycle->input;
	const ClaimState *claims = cycle->claims;
	int64_t		largest = 0;
	int32_t		i;

	for (i = 0; i < claims->n_chosen; i++)
	{
		const Candidate *candidate = claims->chosen[i] < 0 ? NULL :
			&claims->candidates[claims->chosen[i]];
		int32_t		giver;

		if (candidate == NULL || !candidate->given ||
			candidate->amount <= largest ||
			DecideVictimWhy(cycle, candidate) == DECIDE_WHY_TIER)
			continue;
		giver = input->running[candidate->running].account;
		while (!own && giver >= 0 && giver != account)
			giver = input->accounts[giver].parent;
		if (giver == account)
			largest = candidate->amount;
	}
	return largest;
}

/*
 * Does an account keep its entitlement if it gives this much more?  own: its
 * own jobs only.
 */
static bool
keeps(const Cycle *cycle, int32_t account, bool own, int64_t given)
{
	const Entitle *entitle = &cycle->claims->entitle;
	int64_t		beyond = own ?
		entitle->used_own[account] - entitle->due_own[account] :
		entitle->used[account] - entitle->due[account];
	int64_t		largest;

	if (cycle->claims->search.shrinking)
		beyond -= own ? entitle->giving_own[account] :
			entitle->giving[account];

	if (given <= beyond || !cycle->claims->search.under)
		return given <= beyond;
	if (beyond > 0 && given > 0)
		return true;
	largest = victims_largest(cycle, account, own);
	return (given > largest ? given : largest) > given - beyond;
}

/*
 * May one account take devices while another gives some?
 */
bool
DecideEntitleMay(const Cycle *cycle, int32_t taker, int64_t taken,
				 int32_t giver, int64_t given)
{
	const DecideAccount *accounts = cycle->input->accounts;
	const Entitle *entitle = &cycle->claims->entitle;

	DecideAssert(taker >= 0 && taker < cycle->input->n_accounts);
	DecideAssert(giver >= 0 && giver < cycle->input->n_accounts);
	DecideAssert(taken >= 0 && given >= 0);
	if (taker == giver)
		return false;
	/* an account's own jobs compete with the accounts below it */
	if (entitle->used_own[taker] + taken > entitle->due_own[taker] ||
		!keeps(cycle, giver, true, given))
		return false;
	while (taker != giver)
	{
		if (taker >= 0 && (giver < 0 ||
						   entitle->depth[taker] >= entitle->depth[giver]))
		{
			if (giver >= 0 && entitle->depth[taker] == entitle->depth[giver])
			{
				/* same level: both sides go up */
				if (!keeps(cycle, giver, false, given))
					return false;
				giver = accounts[giver].parent;
			}
			if (entitle->used[taker] + taken > entitle->due[taker])
				return false;
			taker = accounts[taker].parent;
		}
		else
		{
			if (!keeps(cycle, giver, false, given))
				return false;
			giver = accounts[giver].parent;
		}
	}
	return true;
}

/*
 * Does an account stay within its entitlement with what it takes, up to where
 * the other's path joins?
 */
bool
DecideEntitleWithin(const Cycle *cycle, int32_t taker, int64_t taken,
					int32_t giver)
{
	const DecideAccount *accounts = cycle->input->accounts;
	const Entitle *entitle = &cycle->claims->entitle;

	DecideAssert(taker >= 0 && taker < cycle->input->n_accounts);
	DecideAssert(giver < cycle->input->n_accounts);
	if (entitle->used_own[taker] + taken > entitle->due_own[taker])
		return false;
	while (taker >= 0)
	{
		int32_t		above = giver;

		while (above >= 0 && entitle->depth[above] > entitle->depth[taker])
			above = accounts[above].parent;
		if (above == taker)
			break;
		if (entitle->used[taker] + taken > entitle->due[taker])
			return false;
		taker = accounts[taker].parent;
	}
	return true;
}

/*
 * Do all accounts keep their entitlements after all chosen victims have left,
 * and stays the search's job within its own?  Victims that leave for a tier
 * count, too.
 */
bool
DecideVictimsAllEntitled(const Cycle *cycle)
{
	const ClaimState *claims = cycle->claims;
	const DecideInput *input = cycle->input;
	int32_t		i;

	DecideAssert(cycle->claims != NULL);
	DecideAssert(cycle->claims->n_chosen >= 0);
	for (i = 0; i < claims->n_chosen && input->policy.reclaim; i++)
	{
		const Candidate *candidate = &claims->candidates[claims->chosen[i]];

		if (DecideVictimWhy(cycle, candidate) == DECIDE_WHY_ENTITLEMENT &&
			!DecideEntitleMay(cycle, claims->search.account,
							  claims->search.amount,
							  input->running[candidate->running].account, 0))
			return false;
	}
	return true;
}
