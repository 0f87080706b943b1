/*
 * victims_search.c
 *	  Finds the cheapest running jobs to evict, on one host or, for a gang, on
 *	  several hosts.
 *
 * On one host every set of the host's candidates is tried, the cheapest first.
 * Sets that cannot be better than the best so far are skipped, because larger
 * sets only cost more.  With policy reclaim, candidates of the job's own
 * organisation come first: after they have left, the job may get devices from
 * other organisations.  If a host has too many candidates to try all sets
 * (which happens with shares, never with 8 whole devices), the cheapest
 * candidates are chosen until there is room; then those that are not needed
 * are spared.
 *
 * A gang that does not fit on a single host is treated so: within each scope
 * that the topology allows, only the least important tiers necessary must
 * leave.  Hosts with the largest possible capacity are cleared first, then
 * those with the least loss, until the gang has room.  Then the victims that
 * are not needed are spared, the most expensive ones first.  So a gang gets
 * few hosts, and whole ones.  The cheapest scope wins; a gang that may be
 * placed anywhere gets one NVLink domain, or one leaf, if that needs no more
 * important victims.
 *
 * If that fails, victims of the gang's own organisation leave first.  Trying
 * all sets of victims found nothing more for the gangs of the msr trace in
 * pools of 62 to 1,213 hosts, and spared 0.5 % of the victims.
 */
#include <string.h>

#include "decide/preempt/claim_state.h"

#define HOST_STEPS	4096		/* most candidates that are tried on a host */

typedef struct Descent
{
	int32_t		host;
	int32_t		first;			/* index of the host's first holder */
	int32_t		last;
	int32_t		steps;
	Cost		cost;			/* cost of the candidates chosen so far */
	Cost		best;
	int32_t		best_host;		/* -1 until a set was found */
} Descent;

/*
 * Whether an account is another one, or below it.
 */
static bool
is_below(const DecideInput *input, int32_t account, int32_t above)
{
	while (account >= 0 && account != above)
		account = input->accounts[account].parent;
	return account >= 0;
}

/*
 * Whether the search's job may make a candidate leave, and by what right.
 */
bool
DecideVictimMay(const Cycle *cycle, const Candidate *candidate,
				DecideWhy *why)
{
	const DecideInput *input = cycle->input;
	const Search *search = &cycle->claims->search;
	const DecideRunning *running = &input->running[candidate->running];

	if (candidate->gone || candidate->given || search->no_victims ||
		candidate->rank <= search->above)
		return false;
	*why = DecideVictimWhy(cycle, candidate);
	if ((search->tier_only && *why != DECIDE_WHY_TIER) ||
		(search->within >= 0 &&
		 !is_below(input, running->account, search->within)))
		return false;
	if (*why == DECIDE_WHY_TIER)
		return true;
	if (*why == DECIDE_WHY_MOVE)
		return search->rank <= candidate->rank && running->request >= 0;
	return input->policy.reclaim && search->rank <= candidate->rank &&
		candidate->price <= search->budget &&
		DecideReclaimable(input, running) &&
		DecideEntitleMay(cycle, search->account, search->amount,
						 running->account, candidate->amount);
}

/*
 * Whether the search's job may still get devices from all chosen victims after
 * one of them has been spared.  The account of the spared one uses its devices
 * again.
 */
static bool
victims_entitled(const Cycle *cycle, int32_t spared)
{
	const DecideInput *input = cycle->input;
	const ClaimState *claims = cycle->claims;
	const int32_t *root = cycle->queue->tree.use.root;
	const Search *search = &claims->search;
	int32_t		i;

	if (search->moving || !input->policy.reclaim ||
		root[input->running[claims->candidates[spared].running].account] !=
		root[search->account])
		return true;
	for (i = 0; i < claims->n_chosen; i++)
	{
		const Candidate *candidate = claims->chosen[i] < 0 ? NULL :
			&claims->candidates[claims->chosen[i]];

		if (candidate != NULL && candidate->given &&
			DecideVictimWhy(cycle, candidate) == DECIDE_WHY_ENTITLEMENT &&
			!DecideEntitleWithin(cycle, search->account, search->amount,
								 input->running[candidate->running].account) &&
			!DecideEntitleMay(cycle, search->account, search->amount,
							  input->running[candidate->running].account, 0))
			return false;
	}
	return true;
}

/*
 * Spares victims that the search does not need, the most expensive first.  The
 * other victims stay in order of cost.
 */
static void
victims_fill_back(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;
	int32_t		kept = 0;
	int32_t		i;

	for (i = claims->n_chosen - 1; i >= 0; i--)
	{
		DecideVictimRelease(cycle, claims->chosen[i], false);
		if (claims->n_ready == 0 ||
			!victims_entitled(cycle, claims->chosen[i]))
			DecideVictimRelease(cycle, claims->chosen[i], true);
		else
			claims->chosen[i] = -1;
	}
	for (i = 0; i < claims->n_chosen; i++)
	{
		if (claims->chosen[i] >= 0)
			claims->chosen[kept++] = claims->chosen[i];
	}
	claims->n_chosen = kept;
}

/*
 * The cost of a set of victims.
 */
static Cost
victims_cost(const Cycle *cycle, const int32_t *chosen, int32_t n)
{
	Cost		cost = {INT32_MAX, 0, n, INT64_MAX, 0, 0};
	int32_t		i;

	for (i = 0; i < n; i++)
	{
		const Candidate *candidate = &cycle->claims->candidates[chosen[i]];
		const DecideRunning *running =
		&cycle->input->running[candidate->running];

		if (candidate->rank < cost.rank)
			cost.rank = candidate->rank;
		if (running->started < cost.oldest)
			cost.oldest = running->started;
		cost.gpus += running->gpus;
		cost.lost += candidate->lost;
		if (cost.lost > INT64_MAX / 2)
			cost.lost = INT64_MAX / 2;
	}
	return cost;
}

/*----------
 * The cheaper set of victims of two comes first:
 *
 * 1. rank of its most important victim, the less important the better;
 * 2. work lost since the last checkpoints;
 * 3. number of victims;
 * 4. start of its oldest victim, the later the better;
 * 5. devices that elastic jobs give up without leaving;
 * 6. devices of all victims.
 *----------
 */
static int
cost_compare(const Cost *a, const Cost *b)
{
	if (a->rank != b->rank)
		return a->rank > b->rank ? -1 : 1;
	if (a->lost != b->lost)
		return a->lost < b->lost ? -1 : 1;
	if (a->n != b->n)
		return a->n < b->n ? -1 : 1;
	if (a->oldest != b->oldest)
		return a->oldest > b->oldest ? -1 : 1;
	if (a->shrunk != b->shrunk)
		return a->shrunk < b->shrunk ? -1 : 1;
	if (a->gpus != b->gpus)
		return a->gpus < b->gpus ? -1 : 1;
	return 0;
}

/*
 * Begins to count room within the scopes of a topology, or on single hosts.
 */
static void
search_begin(Cycle *cycle, DecideTopology topology, bool single)
{
	ClaimState *claims = cycle->claims;
	const Search *search = &claims->search;
	int32_t		i;

	claims->n_ready = 0;
	for (i = 0; i < cycle->n_hosts; i++)
	{
		claims->scope_of[i] = -1;
		claims->scope_capacity[i] = 0;
	}
	for (i = 0; i < search->range.n; i++)
	{
		int32_t		index = search->hosts != NULL ? search->hosts[i] : i;
		const Host *host = &cycle->hosts[index];

		claims->capacity[index] = 0;
		if (single || topology == DECIDE_TOPOLOGY_NODE)
			claims->scope_of[index] = index;
		else if (topology == DECIDE_TOPOLOGY_NVLINK)
			claims->scope_of[index] = host->domain;
		else if (topology == DECIDE_TOPOLOGY_LEAF)
			claims->scope_of[index] = host->leaf;
		else
			claims->scope_of[index] = 0;
		DecideSearchUpdate(cycle, index);
	}
}

/*
 * The cost of a set of victims with one more victim.
 */
static Cost
cost_with(const Cycle *cycle, Cost cost, int32_t index)
{
	Cost		one = victims_cost(cycle, &index, 1);

	cost.rank = one.rank < cost.rank ? one.rank : cost.rank;
	cost.oldest = one.oldest < cost.oldest ? one.oldest : cost.oldest;
	cost.lost = cost.lost + one.lost > INT64_MAX / 2 ? INT64_MAX / 2 :
		cost.lost + one.lost;
	cost.n++;
	cost.gpus += one.gpus;
	return cost;
}

/*
 * Keeps the chosen candidates as the best set if they are cheaper than the
 * best set so far.
 */
static void
keep_best_host(Cycle *cycle, Descent *descent)
{
	ClaimState *claims = cycle->claims;

	if ((descent->best_host >= 0 &&
		 cost_compare(&descent->best, &descent->cost) <= 0) ||
		(claims->search.moving && !DecideDefragmentFit(cycle)))
		return;
	descent->best = descent->cost;
	descent->best_host = descent->host;
	claims->n_best = claims->n_chosen;
	if (claims->n_chosen > 0)
		memcpy(claims->best, claims->chosen,
			   (size_t) claims->n_chosen * sizeof(int32_t));
}

/*
 * The pass in which a candidate is tried: 0 for those of the job's own
 * organisation, 1 for others.
 */
static int
pass_of(const Cycle *cycle, int32_t index)
{
	const DecideInput *input = cycle->input;
	const int32_t *root = cycle->queue->tree.use.root;
	const ClaimState *claims = cycle->claims;

	return input->policy.reclaim &&
		root[claims->search.account] !=
		root[input->running[claims->candidates[index].running].account];
}

/*
 * Tries all sets that contain the chosen candidates and others from the index
 * from on.
 */
static void
descend(Cycle *cycle, Descent *descent, int pass, int32_t from)
{
	ClaimState *claims = cycle->claims;
	int32_t		i;

	if (claims->capacity[descent->host] >= claims->search.count)
	{
		keep_best_host(cycle, descent);
		return;
	}
	for (i = from; descent->steps > 0; i++)
	{
		Cost		before = descent->cost;
		int32_t		index;
		DecideWhy	why;

		if (i == descent->last && pass == 0 && cycle->input->policy.reclaim)
		{
			pass = 1;
			i = descent->first;
		}
		if (i >= descent->last)
			break;
		index = claims->holders[i].candidate;
		if (pass_of(cycle, index) != pass)
			continue;
		descent->steps--;
		if (!DecideVictimMay(cycle, &claims->candidates[index], &why))
			continue;
		descent->cost = cost_with(cycle, before, index);
		if (descent->best_host < 0 ||
			cost_compare(&descent->cost, &descent->best) < 0)
		{
			DecideVictimRelease(cycle, index, true);
			claims->chosen[claims->n_chosen++] = index;
			descend(cycle, descent, pass, i + 1);
			claims->n_chosen--;
			DecideVictimRelease(cycle, index, false);
		}
		descent->cost = before;
	}
}

/*
 * Chooses the cheapest candidates until there is room, then spares those that
 * are not needed.
 */
static void
choose_greedily(Cycle *cycle, Descent *descent)
{
	ClaimState *claims = cycle->claims;
	int32_t		i;

	for (i = descent->first; i < descent->last &&
		 claims->capacity[descent->host] < claims->search.count; i++)
	{
		int32_t		index = claims->holders[i].candidate;
		DecideWhy	why;

		if (!DecideVictimMay(cycle, &claims->candidates[index], &why))
			continue;
		DecideVictimRelease(cycle, index, true);
		claims->chosen[claims->n_chosen++] = index;
	}
	if (claims->capacity[descent->host] >= claims->search.count)
	{
		Cost		shrunk = descent->cost;

		for (i = claims->n_chosen - 1; i >= 0; i--)
		{
			DecideVictimRelease(cycle, claims->chosen[i], false);
			if (claims->capacity[descent->host] < claims->search.count ||
				!victims_entitled(cycle, claims->chosen[i]))
			{
				DecideVictimRelease(cycle, claims->chosen[i], true);
				continue;
			}
			claims->n_chosen--;
			memmove(&claims->chosen[i], &claims->chosen[i + 1],
					(size_t) (claims->n_chosen - i) * sizeof(int32_t));
		}
		descent->cost = victims_cost(cycle, claims->chosen,
									 claims->n_chosen);
		descent->cost.shrunk = shrunk.shrunk;
		keep_best_host(cycle, descent);
	}
	while (claims->n_chosen > 0)
		DecideVictimRelease(cycle, claims->chosen[--claims->n_chosen], false);
}

/*
 * Whether victims on a host could be cheaper than the best so far.
 */
static bool
worth_it(const Cycle *cycle, const Descent *descent)
{
	const ClaimState *claims = cycle->claims;
	const Host *host = &cycle->hosts[descent->host];
	int64_t		devices = host->n_free;
	int64_t		least = INT64_MAX;
	int32_t		rank = INT32_MIN;
	int32_t		i;

	if (!DecideFitAllowed(host, claims->search.request,
						  claims->search.offer) ||
		(claims->search.whole && host->gpus < claims->search.count))
		return false;
	for (i = descent->first; i < descent->last; i++)
	{
		const Candidate *candidate =
		&claims->candidates[claims->holders[i].candidate];

		if (candidate->gone)
			continue;
		devices += cycle->input->running_parts[claims->holders[i].part].gpus;
		if (candidate->lost < least)
			least = candidate->lost;
		if (candidate->rank > rank)
			rank = candidate->rank;
	}
	if (claims->n_elastics == 0 && rank == INT32_MIN)
		return false;
	if (claims->search.whole && claims->n_elastics == 0 &&
		devices < claims->search.count)
		return false;
	return descent->best_host < 0 || claims->n_elastics > 0 ||
		rank > descent->best.rank ||
		(rank == descent->best.rank && least <= descent->best.lost);
}

/*
 * Finds the cheapest victims on any single host, chooses and releases them.
 * Returns false if there are none.
 */
static bool
victims_on_host(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;
	const Search *search = &claims->search;
	Descent		descent = {.best_host = -1};
	int32_t		i;

	search_begin(cycle, DECIDE_TOPOLOGY_NODE, true);
	claims->n_chosen = claims->n_best = 0;
	for (i = 0; i < search->range.n; i++)
	{
		int32_t		index = search->hosts != NULL ? search->hosts[i] : i;

		descent.host = index;
		descent.first = claims->first_holder[index];
		descent.last = claims->first_holder[index + 1];
		descent.steps = HOST_STEPS;
		if (!worth_it(cycle, &descent))
			continue;
		if (i % 64 == 0)
			DecidePoll(cycle->arena);
		descent.cost = victims_cost(cycle, NULL, 0);
		descent.cost.shrunk = DecideShrinkRelease(cycle, index);
		descend(cycle, &descent, 0, descent.first);
		if (descent.steps <= 0)
			choose_greedily(cycle, &descent);
		DecideShrinkUndo(cycle);
	}
	if (descent.best_host < 0)
		return false;
	(void) DecideShrinkRelease(cycle, descent.best_host);
	for (i = 0; i < claims->n_best; i++)
	{
		claims->chosen[i] = claims->best[i];
		DecideVictimRelease(cycle, claims->chosen[i], true);
	}
	claims->n_chosen = claims->n_best;
	DecideShrinkFillBack(cycle);
	return true;
}

#define INDEX_MASK	UINT64_C(0xFFFFFF)
#define MOST_LOST	UINT32_MAX	/* largest number of lost device-seconds in a
								 * key */

/*
 * Releases a candidate if it may leave and its tier is not more important than
 * rank.
 */
static void
clear_of(Cycle *cycle, int32_t index, int32_t rank)
{
	ClaimState *claims = cycle->claims;
	DecideWhy	why;

	if (claims->candidates[index].rank < rank ||
		!DecideVictimMay(cycle, &claims->candidates[index], &why))
		return;
	DecideVictimRelease(cycle, index, true);
	claims->chosen[claims->n_chosen++] = index;
}

/*
 * Releases candidates on a host until there is room.
 */
static void
clear_host(Cycle *cycle, int32_t host, int32_t rank)
{
	ClaimState *claims = cycle->claims;
	int32_t		i;

	for (i = claims->first_holder[host]; i < claims->first_holder[host + 1] &&
		 claims->n_ready == 0; i++)
		clear_of(cycle, claims->holders[i].candidate, rank);
}

/*
 * Returns the most devices that a host would have without its candidates.
 * *key orders the hosts for clearing: by this number, then by the loss.
 */
static int64_t
clearing_of(const Cycle *cycle, int32_t host, int32_t rank, uint64_t *key)
{
	const ClaimState *claims = cycle->claims;
	int64_t		capacity = cycle->hosts[host].n_free;
	int64_t		lost = 0;
	int32_t		i;

	*key = UINT64_MAX;
	if (!DecideFitAllowed(&cycle->hosts[host], claims->search.request,
						  claims->search.offer))
		return 0;
	for (i = claims->first_holder[host]; i < claims->first_holder[host + 1];
		 i++)
	{
		const Candidate *candidate =
		&claims->candidates[claims->holders[i].candidate];
		DecideWhy	why;

		if (candidate->rank < rank ||
			!DecideVictimMay(cycle, candidate, &why))
			continue;
		capacity += cycle->input->running_parts[claims->holders[i].part].gpus;
		lost += claims->search.moving ? candidate->amount : candidate->lost;
	}
	if (capacity > cycle->hosts[host].gpus)
		capacity = cycle->hosts[host].gpus;
	lost /= DECIDE_WHOLE;
	*key = (uint64_t) (DECIDE_MAX_DEVICES - capacity) << 56 |
		(uint64_t) (lost < MOST_LOST ? lost : MOST_LOST) << 24;
	return capacity;
}

/*
 * Undoes the release of all chosen candidates.
 */
static void
undo_release(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;

	while (claims->n_chosen > 0)
		DecideVictimRelease(cycle, claims->chosen[--claims->n_chosen], false);
}

/*
 * Releases all candidates of the job's own organisation in a scope: after they
 * have left, the job may get more from other organisations.
 */
static void
clear_own(Cycle *cycle, const Scope *scope, int32_t rank)
{
	ClaimState *claims = cycle->claims;
	const int32_t *root = cycle->queue->tree.use.root;
	int32_t		i;
	int32_t		h;

	for (i = 0; i < scope->n; i++)
	{
		int32_t		host = scope->hosts[i];

		if (!DecideFitAllowed(&cycle->hosts[host], claims->search.request,
							  claims->search.offer))
			continue;
		for (h = claims->first_holder[host];
			 h < claims->first_holder[host + 1]; h++)
		{
			int32_t		index = claims->holders[h].candidate;

			int32_t		account = cycle->input->running
				[claims->candidates[index].running].account;

			if (root[account] == root[claims->search.account])
				clear_of(cycle, index, rank);
		}
	}
}

/*
 * Clears the hosts of a scope, those with the largest possible capacity first,
 * until there is room, and spares the victims that are not needed.  Returns
 * false if there is not enough room.
 */
static bool
clear_scope(Cycle *cycle, const Scope *scope, int32_t rank)
{
	ClaimState *claims = cycle->claims;
	int64_t		capacity = 0;
	int32_t		i;

	for (i = 0; i < scope->n; i++)
	{
		capacity += clearing_of(cycle, scope->hosts[i], rank,
								&claims->keys[i]);
		claims->keys[i] = (claims->keys[i] & ~INDEX_MASK) | (uint64_t) i;
	}
	if (capacity < claims->search.count)
		return false;
	if (scope->n > 1)
		DecideSortKeys(claims->keys, claims->keys_spare, scope->n);
	for (i = 0; i < scope->n && claims->n_ready == 0; i++)
		clear_host(cycle, scope->hosts[claims->keys[i] & INDEX_MASK], rank);
	DecidePoll(cycle->arena);
	if (claims->n_ready == 0)
		return false;
	victims_fill_back(cycle);
	return DecideVictimsAllEntitled(cycle);
}

/*
 * Finds victims within a scope, of tiers not more important than rank, chooses
 * and releases them.  Returns false if there are none; then nothing is
 * released.
 */
static bool
choose_in_scope(Cycle *cycle, const Scope *scope, int32_t rank)
{
	ClaimState *claims = cycle->claims;
	int64_t		most = 0;
	int32_t		i;

	for (i = 0; i < scope->n; i++)
		most += cycle->hosts[scope->hosts[i]].gpus;
	if (most < claims->search.count)
		return false;
	if (clear_scope(cycle, scope, rank))
		return true;
	undo_release(cycle);
	if (!cycle->input->policy.reclaim || claims->search.moving)
		return false;
	clear_own(cycle, scope, rank);
	if (claims->n_chosen > 0 && clear_scope(cycle, scope, rank))
		return true;
	undo_release(cycle);
	return false;
}

/*
 * Keeps the chosen candidates as the best set if they are cheaper than the
 * best set so far.
 */
static void
keep_best(Cycle *cycle, Cost *best, bool *found)
{
	ClaimState *claims = cycle->claims;
	Cost		cost = victims_cost(cycle, claims->chosen,
									claims->n_chosen);

	if ((*found && cost_compare(best, &cost) <= 0) ||
		(claims->search.moving && !DecideDefragmentFit(cycle)))
		return;
	*best = cost;
	*found = true;
	claims->n_best = claims->n_chosen;
	if (claims->n_chosen > 0)
		memcpy(claims->best, claims->chosen,
			   (size_t) claims->n_chosen * sizeof(int32_t));
}

/*
 * Chooses the best set again, and releases it.
 */
static void
choose_best(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;
	int32_t		i;

	for (i = 0; i < claims->n_best; i++)
	{
		claims->chosen[i] = claims->best[i];
		DecideVictimRelease(cycle, claims->chosen[i], true);
	}
	claims->n_chosen = claims->n_best;
}

/*
 * Spares victims that the gang does not need if it may use all hosts instead
 * of one scope.  If the victims move, the remaining ones may not find places
 * without the spared one's hosts; then all of them move.
 */
static void
spare_within_all(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;

	search_begin(cycle, claims->search.request->topology, false);
	victims_fill_back(cycle);
	if (claims->search.moving && claims->n_chosen < claims->n_best &&
		!DecideDefragmentFit(cycle))
	{
		undo_release(cycle);
		choose_best(cycle);
	}
	DecideShrinkFillBack(cycle);
}

/*
 * Searches the scopes of a topology for cheaper victims than the best so far.
 * With only_rank, only victims of less important tiers replace the best.
 */
static void
try_scopes(Cycle *cycle, DecideTopology topology, bool only_rank, Cost *best,
		   bool *found)
{
	ClaimState *claims = cycle->claims;
	Scope		scope = {0};
	int32_t		r;

	search_begin(cycle, topology, false);
	while (DecideScopeNext(cycle, &claims->search.range, topology, &scope))
	{
		for (r = 0; r < claims->n_ranks; r++)
		{
			int32_t		rank = claims->ranks[r];

			if (*found && (rank < best->rank ||
						   (rank == best->rank && only_rank)))
				break;
			if (!choose_in_scope(cycle, &scope, rank))
				continue;
			keep_best(cycle, best, found);
			undo_release(cycle);
			break;
		}
	}
}

/*
 * Finds victims for a gang in addition to what elastic jobs give, chooses and
 * releases them.  Returns false if there are none.
 */
static bool
victims_of_gang(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;
	DecideTopology topology = claims->search.request->topology;
	Cost		best = {0};
	bool		found = false;

	claims->n_chosen = claims->n_best = 0;
	search_begin(cycle, topology, false);
	(void) DecideShrinkRelease(cycle, -1);
	if (claims->n_ready > 0)
	{
		/* what elastic jobs give is enough */
		DecideShrinkFillBack(cycle);
		return true;
	}
	if (claims->search.no_victims)
	{
		DecideShrinkUndo(cycle);
		return false;
	}
	if (topology == DECIDE_TOPOLOGY_ANY)
	{
		try_scopes(cycle, DECIDE_TOPOLOGY_NVLINK, false, &best, &found);
		try_scopes(cycle, DECIDE_TOPOLOGY_LEAF, found, &best, &found);
	}
	try_scopes(cycle, topology, topology == DECIDE_TOPOLOGY_ANY && found,
			   &best, &found);
	if (!found)
	{
		DecideShrinkUndo(cycle);
		return false;
	}
	choose_best(cycle);
	spare_within_all(cycle);
	return true;
}

/*
 * Begins a search for a request with one offer (NULL for a CPU-only request).
 */
void
DecideSearchFor(Cycle *cycle, const DecideRequestClass *request,
				const DecideOffer *offer)
{
	Search	   *search = &cycle->claims->search;
	TypeRange	all = {DECIDE_NO_TYPE, 0, cycle->n_hosts};

	DecideAssert(cycle->claims != NULL);
	DecideAssert(offer != NULL || request->min_gpus == 0);
	search->request = request;
	search->offer = offer;
	search->range = offer != NULL ? DecideHostsOfType(cycle, offer->type) :
		all;
	search->hosts = offer != NULL ? cycle->by_type + search->range.first :
		NULL;
	search->whole = offer != NULL && request->share == DECIDE_WHOLE;
	search->count = search->whole ? request->min_gpus : 1;
	search->above = INT32_MIN;
	search->within = -1;
	search->tier_only = false;
	search->budget = INT64_MAX;
	search->no_victims = search->no_shrinks = false;
	search->moving = search->under = search->rounding = false;
	cycle->passes = INT32_MAX;
}

/*
 * Whether the search's request fits what is free and what is released, and
 * begins to count room anew for that.
 */
bool
DecideSearchRoom(Cycle *cycle)
{
	const Search *search = &cycle->claims->search;

	DecideAssert(cycle->claims != NULL);
	DecideAssert(search->request != NULL);
	search_begin(cycle, search->whole ? search->request->topology :
				 DECIDE_TOPOLOGY_NODE, !search->whole);
	return cycle->claims->n_ready > 0;
}

/*
 * Undoes all releases of the search, also those of elastic jobs.
 */
void
DecideVictimsGiveUp(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;

	DecideAssert(cycle->claims != NULL);
	DecideAssert(cycle->claims->n_chosen >= 0 && cycle->claims->n_given >= 0);
	while (claims->n_chosen > 0)
		DecideVictimRelease(cycle, claims->chosen[--claims->n_chosen], false);
	DecideShrinkUndo(cycle);
}

/*
 * Finds victims on one host.  For a gang it finds victims on several hosts if
 * no host can be cleared, or only by evicting more important victims.
 */
bool
DecideVictimsFind(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;
	Search	   *search = &claims->search;
	bool		found = victims_on_host(cycle);
	Cost		cost;

	DecideAssert(cycle->claims != NULL && cycle->claims->loaded);
	DecideAssert(cycle->claims->search.request != NULL);
	if (!search->whole || search->count < 2 ||
		search->request->topology == DECIDE_TOPOLOGY_NODE)
		return found;
	if (!found)
		return victims_of_gang(cycle);
	if (search->moving)
		return true;
	cost = victims_cost(cycle, claims->chosen, claims->n_chosen);
	if (claims->n_ranks > 0 && cost.rank < claims->ranks[0])
	{
		DecideVictimsGiveUp(cycle);
		search->above = cost.rank;
		found = victims_of_gang(cycle);
		search->above = INT32_MIN;
		if (found || !victims_on_host(cycle))
			return found;
	}
	/* over several hosts fewer victims may be enough */
	search_begin(cycle, search->request->topology, false);
	victims_fill_back(cycle);
	DecideShrinkFillBack(cycle);
	return true;
}
