/*
 * entitle.c
 *	  Computes what each account is entitled to now.
 *
 * The pool's capacity is divided among organisations by weight, with no
 * organisation receiving more than its demand (water-filling).  An account's
 * part is divided in the same way among its children and its own jobs, which
 * count as a child of weight 1.  Demand is running and waiting jobs; past use
 * does not matter.  If the pool lets jobs grow, an elastic job demands the
 * most devices that it may have, waiting or running, so that entitlements stay
 * the same while it grows.  Amounts are in the unit of usage:
 * device-thousandths times the type's weight.
 *
 * One account may get devices of another if, below the account where their
 * paths join, the taker's side stays within its entitlement and the giver's
 * side keeps its own.  If there are no such victims, it is enough that the
 * giver's side has more than its entitlement before its largest victim leaves.
 * Jobs are indivisible, so an account could otherwise keep an excess in one
 * large job.  Each victim still reduces an excess, because a taker never has
 * one.
 *
 * Devices are indivisible, too, and the parts of the capacity by weight need
 * not be whole devices.  A taker may round its entitlement up, if what it has
 * beyond the exact part and what a giver then lacks of its own are together
 * less than a device of the cheapest type (and less than what is taken).  So
 * the nearest whole numbers win, and of two accounts at most one may round up
 * against the other.  As above, the giver has more than its entitlement
 * before.
 *
 * What is due to an account does not depend on what else it asks for.  If an
 * account asks for little, the rest is divided among the others, and no
 * account then has more than its entitlement, although the free devices may be
 * of a shape that its job cannot use.  So if a job finds no victims, the
 * entitlement of its account is computed as if it asked for the whole pool (it
 * is "raised"), and those of the other accounts accordingly.  If the raised
 * account then has L for each unit of its weight, it stays at or below L with
 * what it takes, and givers are above L.  So each such eviction reduces the
 * largest amount per unit of weight among the accounts concerned, and nothing
 * is moved back and forth.
 */
#include <string.h>

#include "decide/preempt/claim_state.h"

typedef __int128 Wide;

/* One of several accounts that share an amount. */
struct Sharer
{
	int32_t		account;		/* -1 for the parent's own jobs */
	int32_t		parent;			/* -1 if the pool's capacity is shared */
	int32_t		depth;			/* depth of the account, or of a child of
								 * parent */
	int64_t		weight;
	int64_t		demand;
	bool		raised;			/* it is assumed to demand everything */
};

/*----------
 * The order in which amounts are shared out:
 *
 * 1. depth in the tree, from the top down;
 * 2. parent, so that those who share an amount are side by side;
 * 3. demand over weight, the lowest first: in this order sharers have enough
 *	  while a common level rises;
 * 4. number of the account, and the parent's own jobs last.
 *----------
 */
static int
compare_sharers(const void *context, int32_t a, int32_t b)
{
	const Sharer *x = (const Sharer *) context + a;
	const Sharer *y = (const Sharer *) context + b;
	Wide		left = (Wide) x->demand * y->weight;
	Wide		right = (Wide) y->demand * x->weight;

	if (x->depth != y->depth)
		return x->depth < y->depth ? -1 : 1;
	if (x->parent != y->parent)
		return x->parent < y->parent ? -1 : 1;
	if (left != right)
		return left < right ? -1 : 1;
	if ((x->account < 0) != (y->account < 0))
		return x->account < 0 ? 1 : -1;
	return x->account < y->account ? -1 : x->account > y->account;
}

/*
 * Divides an amount among the sharers from first to last, which are sorted:
 * none gets more than its demand, and the raised one gets what remains.
 */
static void
deal(const Cycle *cycle, int64_t amount, int32_t first, int32_t last,
	 EntitleDue *to)
{
	const Entitle *entitle = &cycle->claims->entitle;
	Wide		weight = 0;
	int32_t		raised = -1;
	int32_t		i;

	for (i = first; i < last; i++)
		weight += entitle->sharers[entitle->order[i]].weight;
	for (i = first; i <= last; i++)
	{
		int32_t		index = i < last ? entitle->order[i] : raised;
		const Sharer *sharer;
		int64_t		due;

		if (index < 0)
			break;
		sharer = &entitle->sharers[index];
		if (i < last && sharer->raised)
		{
			raised = index;
			continue;
		}
		due = (int64_t) ((Wide) amount * sharer->weight / weight);
		/* after the first one that gets less than its demand, all get less */
		if (sharer->demand <= due && !sharer->raised)
		{
			due = sharer->demand;
			amount -= due;
			weight -= sharer->weight;
		}
		if (sharer->account >= 0)
			to->all[sharer->account] = due;
		else
			to->own[sharer->parent] = due;
	}
}

/*
 * Adds an amount to an account's own usage, and to the sums of the account and
 * all accounts above it.
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
 * The pool's capacity in the unit of usage.
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
 * The number of devices that an elastic job demands.
 */
static int32_t
useful(const Cycle *cycle, int32_t account, int32_t type, bool stays,
	   int32_t least, int32_t most)
{
	return least >= most ||
		cycle->input->policy.elastic_idle_delay == DECIDE_NEVER ?
		least : DecideQuotaEver(cycle, account, type, stays, least, most);
}

/*
 * A running job's demand.  A job that has ended demands no more than it has,
 * nor does a job whose growth could not be paid (its request is not loaded).
 */
static int64_t
running_amount(const Cycle *cycle, const DecideRunning *running)
{
	int32_t		gpus = running->gpus;

	if (!running->over && running->type != DECIDE_NO_TYPE &&
		(running->request >= 0 || running->leaving))
		gpus = useful(cycle, running->account, running->type, running->stays,
					  gpus, running->max_gpus);
	return DecideUsage(cycle->input, running->type, gpus,
					   DecideRunningCounted(running));
}

/*
 * A waiting job's demand, with the first type that it accepts.
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
					   useful(cycle, job->account, type, request->stays,
							  request->min_gpus, request->max_gpus),
					   DecideCounted(request, type));
}

/*
 * Adds up the demand and use of running jobs, waiting jobs, and claims of jobs
 * that take no part in the cycle.
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
 * The depth of an account below its organisation.
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

/*
 * Lists all sharers, in order.  Returns false if memory runs out.
 */
static bool
list_sharers(Cycle *cycle, const int64_t *demand, const int64_t *demand_own)
{
	const DecideInput *input = cycle->input;
	Entitle    *entitle = &cycle->claims->entitle;
	int32_t		n = input->n_accounts;
	int32_t		i;

	entitle->sharers = DecideAlloc(cycle->arena, 2 * (int64_t) n,
								   sizeof(Sharer));
	entitle->order = DecideAlloc(cycle->arena, 2 * (int64_t) n,
								 sizeof(int32_t));
	entitle->own_sharer = DecideAlloc(cycle->arena, n, sizeof(int32_t));
	if (entitle->sharers == NULL || entitle->order == NULL ||
		entitle->own_sharer == NULL)
		return false;
	for (i = 0; i < n; i++)
	{
		entitle->depth[i] = depth_of(input, i);
		entitle->own_sharer[i] = -1;
		entitle->sharers[i] = (Sharer)
		{
			i, input->accounts[i].parent, entitle->depth[i],
				input->accounts[i].weight, demand[i], false
		};
	}
	entitle->n_sharers = n;
	for (i = 0; i < n; i++)
	{
		int32_t		parent = input->accounts[i].parent;

		if (parent < 0 || entitle->own_sharer[parent] >= 0)
			continue;
		entitle->own_sharer[parent] = entitle->n_sharers;
		entitle->sharers[entitle->n_sharers++] = (Sharer)
		{
			-1, parent, entitle->depth[i], DECIDE_WEIGHT_ONE,
				demand_own[parent], false
		};
	}
	for (i = 0; i < entitle->n_sharers; i++)
		entitle->order[i] = i;
	return DecideSort(cycle->arena, entitle->order, entitle->n_sharers,
					  compare_sharers, entitle->sharers);
}

/*
 * Divides the pool among organisations, and so on down the tree.
 */
static void
deal_all(const Cycle *cycle, EntitleDue *to)
{
	const Entitle *entitle = &cycle->claims->entitle;
	int32_t		first;
	int32_t		last;
	int32_t		i;

	for (first = 0; first < entitle->n_sharers; first = last)
	{
		int32_t		parent = entitle->sharers[entitle->order[first]].parent;

		for (last = first + 1; last < entitle->n_sharers &&
			 entitle->sharers[entitle->order[last]].parent == parent; last++)
			;
		deal(cycle, parent < 0 ? entitle->capacity : to->all[parent], first,
			 last, to);
	}
	/* without accounts below it, all is due to its own jobs */
	for (i = 0; i < cycle->input->n_accounts; i++)
	{
		if (entitle->own_sharer[i] < 0)
			to->own[i] = to->all[i];
	}
}

/*
 * Whether an account's own jobs, the account or an account above it get as
 * much as they demand.  If not, the account would not be entitled to more if
 * it demanded more.
 */
static bool
is_filled(const Cycle *cycle, int32_t account)
{
	const Entitle *entitle = &cycle->claims->entitle;
	int32_t		own = entitle->own_sharer[account];

	if (own >= 0 && entitle->due_own[account] >= entitle->sharers[own].demand)
		return true;
	for (; account >= 0; account = cycle->input->accounts[account].parent)
	{
		if (entitle->due[account] >= entitle->sharers[account].demand)
			return true;
	}
	return false;
}

/*
 * Marks an account's own jobs and the accounts on its path as raised, or
 * removes the marks.
 */
static void
mark_raised(const Cycle *cycle, int32_t account, bool raised)
{
	const Entitle *entitle = &cycle->claims->entitle;

	if (entitle->own_sharer[account] >= 0)
		entitle->sharers[entitle->own_sharer[account]].raised = raised;
	for (; account >= 0; account = cycle->input->accounts[account].parent)
		entitle->sharers[account].raised = raised;
}

/*
 * Sets the entitlements to those that hold if an account asks for the whole
 * pool, until DecideEntitleRestore().  Returns false, and changes nothing, if
 * they would be the same.
 */
bool
DecideEntitleRaise(Cycle *cycle, int32_t account)
{
	Entitle    *entitle = &cycle->claims->entitle;

	DecideAssert(account >= 0 && account < cycle->input->n_accounts);
	DecideAssert(entitle->due == entitle->asked.all);
	if (!is_filled(cycle, account))
		return false;
	if (entitle->raised_for != account)
	{
		mark_raised(cycle, account, true);
		deal_all(cycle, &entitle->raised);
		mark_raised(cycle, account, false);
		entitle->raised_for = account;
	}
	entitle->due = entitle->raised.all;
	entitle->due_own = entitle->raised.own;
	return true;
}

/*
 * Sets the entitlements to those by what accounts ask for.
 */
void
DecideEntitleRestore(Cycle *cycle)
{
	Entitle    *entitle = &cycle->claims->entitle;

	DecideAssert(cycle->claims != NULL);
	entitle->due = entitle->asked.all;
	entitle->due_own = entitle->asked.own;
}

/*
 * Computes what every account is entitled to and what it uses.  Returns false
 * if memory runs out.
 */
bool
DecideEntitleLoad(Cycle *cycle)
{
	const DecideArena *arena = cycle->arena;
	Entitle    *entitle = &cycle->claims->entitle;
	int32_t		n = cycle->input->n_accounts;
	int64_t   **sums[] = {
		&entitle->asked.all, &entitle->asked.own, &entitle->raised.all,
		&entitle->raised.own, &entitle->used, &entitle->used_own,
		&entitle->giving, &entitle->giving_own
	};
	int64_t    *demand = DecideAlloc(arena, n, sizeof(int64_t));
	int64_t    *demand_own = DecideAlloc(arena, n, sizeof(int64_t));
	int32_t		n_bounds = PREEMPTABLE_BOUNDS * cycle->input->n_tiers;
	size_t		i;

	DecideAssert(cycle->claims != NULL);
	DecideAssert(cycle->claims->entitle.depth == NULL);
	entitle->depth = DecideAlloc(arena, n, sizeof(int32_t));
	entitle->preemptable = DecideAlloc(arena, n_bounds,
									   sizeof(struct PreemptableBound *));
	if (demand == NULL || demand_own == NULL || entitle->depth == NULL ||
		entitle->preemptable == NULL)
		return false;
	for (i = 0; i < sizeof(sums) / sizeof(sums[0]); i++)
	{
		*sums[i] = DecideAlloc(arena, n, sizeof(int64_t));
		if (*sums[i] == NULL)
			return false;
		if (n > 0)
			memset(*sums[i], 0, (size_t) n * sizeof(int64_t));
	}
	for (i = 0; i < (size_t) n_bounds; i++)
		entitle->preemptable[i] = NULL;
	entitle->raised_for = -1;
	DecideEntitleRestore(cycle);
	if (n == 0)
		return true;
	memset(demand, 0, (size_t) n * sizeof(int64_t));
	memset(demand_own, 0, (size_t) n * sizeof(int64_t));
	entitle->capacity = capacity(cycle->input);
	count(cycle, demand, demand_own);
	if (!list_sharers(cycle, demand, demand_own))
		return false;
	deal_all(cycle, &entitle->asked);
	for (i = 0; i < (size_t) cycle->result->n_starts; i++)
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
 * Adds to an account's use.
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
 * Records that an elastic job gives devices in the current search, or with a
 * negative number that it keeps them after all.  They count as used until it
 * is told to shrink.
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
 * The largest amount of a chosen victim of an account and all accounts below
 * it (with own true, of its own jobs) that leaves for an entitlement; 0 if
 * there is none.
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
 * Whether an account (with own true, its own jobs) keeps its entitlement if it
 * gives this much more.  It may lack less than short_of, which is 1 if it may
 * lack nothing, or any amount if the search is under; in both cases only if it
 * has more than its entitlement before its largest victim leaves.
 */
static bool
keeps(const Cycle *cycle, int32_t account, bool own, int64_t given,
	  int64_t short_of)
{
	const Entitle *entitle = &cycle->claims->entitle;
	int64_t		beyond = own ?
		entitle->used_own[account] - entitle->due_own[account] :
		entitle->used[account] - entitle->due[account];
	int64_t		largest;

	if (cycle->claims->search.shrinking)
		beyond -= own ? entitle->giving_own[account] :
			entitle->giving[account];

	if (given <= beyond)
		return true;
	if (given - beyond >= short_of && !cycle->claims->search.under)
		return false;
	if (beyond > 0 && given > 0)
		return true;
	largest = victims_largest(cycle, account, own);
	return (given > largest ? given : largest) > given - beyond;
}

/*
 * By how much an account exceeds its entitlement with what it takes: the
 * largest excess of its own jobs, of the account, and of the accounts above it
 * below the point where the giver's path joins (all accounts above it if giver
 * is -1).  The result is negative if it has less.
 */
static int64_t
beyond_most(const Cycle *cycle, int32_t taker, int64_t taken, int32_t giver)
{
	const DecideAccount *accounts = cycle->input->accounts;
	const Entitle *entitle = &cycle->claims->entitle;
	int64_t		most = entitle->used_own[taker] + taken -
		entitle->due_own[taker];

	while (taker >= 0)
	{
		int32_t		above = giver;

		while (above >= 0 && entitle->depth[above] > entitle->depth[taker])
			above = accounts[above].parent;
		if (above == taker)
			break;
		if (entitle->used[taker] + taken - entitle->due[taker] > most)
			most = entitle->used[taker] + taken - entitle->due[taker];
		taker = accounts[taker].parent;
	}
	return most;
}

/*
 * The amount of the current search's account beyond its entitlement, plus that
 * of a giver below its own, must be less than the result: a device of the
 * cheapest type, or what the account takes if that is less.  The result is 1
 * if the account may not round up.
 */
static int64_t
rounds_below(const Cycle *cycle)
{
	const Search *search = &cycle->claims->search;

	if (!search->rounding)
		return 1;
	return search->amount < DECIDE_WHOLE ? search->amount : DECIDE_WHOLE;
}

/*
 * Whether one account may get devices while another gives some.
 */
bool
DecideEntitleMay(const Cycle *cycle, int32_t taker, int64_t taken,
				 int32_t giver, int64_t given)
{
	const DecideAccount *accounts = cycle->input->accounts;
	const Entitle *entitle = &cycle->claims->entitle;
	int64_t		short_of = rounds_below(cycle);
	int64_t		beyond;

	DecideAssert(taker >= 0 && taker < cycle->input->n_accounts);
	DecideAssert(giver >= 0 && giver < cycle->input->n_accounts);
	DecideAssert(taken >= 0 && given >= 0);
	if (taker == giver)
		return false;
	beyond = beyond_most(cycle, taker, taken, giver);
	if (beyond > 0)
		short_of -= beyond;
	else
		short_of = 1;
	/* an account's own jobs compete with the accounts below it */
	if (short_of < 1 || !keeps(cycle, giver, true, given, short_of))
		return false;
	while (giver >= 0)
	{
		int32_t		above = taker;

		while (above >= 0 && entitle->depth[above] > entitle->depth[giver])
			above = accounts[above].parent;
		if (above == giver)
			break;
		if (!keeps(cycle, giver, false, given, short_of))
			return false;
		giver = accounts[giver].parent;
	}
	return true;
}

/*
 * Whether an account stays within its entitlement with what it takes, below
 * the point where the giver's path joins.
 */
bool
DecideEntitleWithin(const Cycle *cycle, int32_t taker, int64_t taken,
					int32_t giver)
{
	DecideAssert(taker >= 0 && taker < cycle->input->n_accounts);
	DecideAssert(giver < cycle->input->n_accounts);
	return beyond_most(cycle, taker, taken, giver) <= 0;
}

/*
 * Rounds up the entitlement of the current search's account if its job needs
 * that.  Returns false if it does not.
 */
bool
DecideEntitleRound(Cycle *cycle)
{
	Search	   *search = &cycle->claims->search;

	DecideAssert(search->job >= 0 && !search->under);
	search->rounding = beyond_most(cycle, search->account, search->amount,
								   -1) > 0;
	return search->rounding;
}

/*
 * The most by which the current search's account may exceed its entitlement,
 * and a giver may fall below its own.
 */
int64_t
DecideEntitleSlack(const Cycle *cycle)
{
	DecideAssert(cycle->claims != NULL);
	return rounds_below(cycle) - 1;
}

/*
 * Whether all accounts keep their entitlements after all chosen victims have
 * left, and the search's job stays within its own.  Victims that leave for a
 * tier reduce the use, too.
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
