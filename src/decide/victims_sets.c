/*
 * victims_sets.c
 *	  Victims for a gang that may take only what accounts are entitled to.
 *
 * What an account has beyond its entitlement may be used up by victims that do
 * not suffice, where others beside them would.  So sets are tried: of those who
 * may leave, in a certain order, each is taken or passed over, until there is
 * room.  Who has the most in common with the job's account comes first: once
 * those have left it may take from the others, and in this order each set
 * that all may leave may do so one by one.  Then come those who have little
 * where it is of no use to the gang, those who have most, the cheapest.  No set
 * is gone on with that all who come after it could not make room for.
 *
 * What suffices is a matter of many numbers at once, and there are as many sets
 * as there are: after so many steps nothing is found.  And where many gangs find
 * nothing, the last of them do not try: there is a bound for all of a round,
 * which a hundred gangs come near that each may look for theirs among thousands.
 */
#include <string.h>

#include "decide/claim.h"

#define MOST_IN_ROUND	(INT64_C(1) << 21)	/* listed and tried */
#define MOST_SHARED	254			/* levels of accounts, as a key tells them */
#define MOST_DEVICES	0xFFF	/* likewise */

/*
 * How many levels of accounts a candidate's has in common with the job's.
 */
static int32_t
levels_shared(const Cycle *cycle, int32_t giver)
{
	const DecideAccount *accounts = cycle->input->accounts;
	const int32_t *depth = cycle->claims->entitle.depth;
	int32_t		taker = cycle->claims->search.account;

	while (taker != giver && taker >= 0 && giver >= 0)
	{
		if (depth[taker] >= depth[giver])
			taker = accounts[taker].parent;
		else
			giver = accounts[giver].parent;
	}
	if (taker != giver)
		return 0;
	return depth[taker] < MOST_SHARED ? depth[taker] + 1 : MOST_SHARED;
}

/*
 * Might a candidate leave for the gang, when others have?
 */
static bool
might_leave(const Cycle *cycle, const Candidate *candidate, int32_t rank)
{
	const DecideInput *input = cycle->input;
	const Search *search = &cycle->claims->search;
	const DecideRunning *running = &input->running[candidate->running];

	return !candidate->gone && candidate->rank >= rank &&
		candidate->rank > search->above &&
		(DecideVictimWhy(cycle, candidate) == DECIDE_WHY_TIER ||
		 (search->rank <= candidate->rank &&
		  DecideEntitleBeyond(cycle, search->account, running->account,
							  candidate->amount)));
}

/*
 * List who might leave the hosts of a scope, and what each would bring; returns
 * how many devices are free there now.
 */
static int64_t
list_scope(Cycle *cycle, const Scope *scope, int32_t rank)
{
	ClaimState *claims = cycle->claims;
	const DecidePart *parts = cycle->input->running_parts;
	int64_t		n_free = 0;
	int32_t		i;
	int32_t		h;

	claims->n_listed = 0;
	for (i = 0; i < scope->n; i++)
	{
		int32_t		host = scope->hosts[i];

		if (!DecideFitAllowed(&cycle->hosts[host], claims->search.request,
							  claims->search.offer))
			continue;
		n_free += cycle->hosts[host].n_free;
		for (h = claims->first_holder[host];
			 h < claims->first_holder[host + 1]; h++)
		{
			int32_t		index = claims->holders[h].candidate;

			if (!might_leave(cycle, &claims->candidates[index], rank))
				continue;
			if (claims->brings[index] < 0)
			{
				claims->listed[claims->n_listed++] = index;
				claims->brings[index] = 0;
			}
			claims->brings[index] += __builtin_popcountll
				(parts[claims->holders[h].part].devices &
				 cycle->hosts[host].usable);
		}
	}
	return n_free;
}

/*
 * Devices, as far as a key tells them.
 */
static uint64_t
told(int32_t gpus)
{
	return (uint64_t) (gpus < MOST_DEVICES ? gpus : MOST_DEVICES);
}

/*
 * Put them in order, and add up what they bring, from each on.
 */
static void
order_listed(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;
	int32_t		n = claims->n_listed;
	int32_t		i;

	for (i = 0; i < n; i++)
	{
		int32_t		index = claims->listed[i];
		const DecideRunning *running =
		&cycle->input->running[claims->candidates[index].running];
		int32_t		wasted = running->gpus - claims->brings[index];

		claims->order[i] = (uint64_t)
			(MOST_SHARED - levels_shared(cycle, running->account)) << 56 |
			told(wasted) << 44 | (MOST_DEVICES - told(running->gpus)) << 32 |
			(uint64_t) index;
	}
	if (n > 1)
		DecideSortKeys(claims->order, claims->order_spare, n);
	claims->to_come[n] = 0;
	for (i = n - 1; i >= 0; i--)
	{
		claims->listed[i] = (int32_t) (claims->order[i] & UINT32_MAX);
		claims->to_come[i] = claims->to_come[i + 1] +
			claims->brings[claims->listed[i]];
	}
}

/*
 * Choose one of the listed, or the last chosen no longer.
 */
static void
choose(Cycle *cycle, int32_t index)
{
	ClaimState *claims = cycle->claims;

	DecideVictimRelease(cycle, index, true);
	claims->chosen[claims->n_chosen++] = index;
}

static int32_t
choose_not(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;
	int32_t		index = claims->chosen[--claims->n_chosen];

	DecideVictimRelease(cycle, index, false);
	return index;
}

/*
 * There is room: spare whom that can do without.  False: it comes to nothing,
 * and all are as before.
 */
static bool
settle(Cycle *cycle, const int32_t *taken, int32_t n)
{
	ClaimState *claims = cycle->claims;
	int32_t		i;

	DecideVictimsFillBack(cycle);
	if (DecideVictimsAllEntitled(cycle))
		return true;
	while (claims->n_chosen > 0)
		(void) choose_not(cycle);
	for (i = 0; i < n; i++)
		choose(cycle, claims->listed[taken[i]]);
	claims->search.steps -= n;
	return false;
}

/*
 * Try the sets of the listed; n_free devices are free without.
 */
static bool
try_sets(Cycle *cycle, int64_t n_free)
{
	ClaimState *claims = cycle->claims;
	int32_t		count = claims->search.count;
	int32_t    *taken = claims->taken;
	int32_t		n = 0;
	int32_t		i = 0;

	claims->search.steps += claims->n_listed;
	while (claims->search.steps > 0)
	{
		for (; i < claims->n_listed && claims->n_ready == 0 &&
			 n_free + claims->to_come[i] >= count; i++)
		{
			int32_t		index = claims->listed[i];
			DecideWhy	why;

			claims->search.steps--;
			if (!DecideVictimMay(cycle, &claims->candidates[index], &why))
				continue;
			choose(cycle, index);
			taken[n++] = i;
			n_free += claims->brings[index];
		}
		if (claims->n_ready > 0 && settle(cycle, taken, n))
			return true;
		if (n == 0)
			return false;
		/* the last of them is passed over */
		n_free -= claims->brings[choose_not(cycle)];
		i = taken[--n] + 1;
	}
	while (claims->n_chosen > 0)
		(void) choose_not(cycle);
	return false;
}

/*
 * Find victims within a scope, of tiers not more important than rank; they are
 * then chosen and given back.  False: none were found, and nothing is given.
 */
bool
DecideVictimsOfSets(Cycle *cycle, const Scope *scope, int32_t rank)
{
	ClaimState *claims = cycle->claims;
	int32_t		steps = claims->search.steps;
	int64_t		n_free;
	int64_t		most;
	bool		found = false;
	int32_t		i;

	if (claims->set_steps >= MOST_IN_ROUND)
		return false;
	most = n_free = list_scope(cycle, scope, rank);
	DecidePoll(cycle->arena);
	for (i = 0; i < claims->n_listed; i++)
		most += claims->brings[claims->listed[i]];
	if (most >= claims->search.count)
	{
		order_listed(cycle);
		found = try_sets(cycle, n_free);
	}
	else
		claims->search.steps += claims->n_listed;
	for (i = 0; i < claims->n_listed; i++)
		claims->brings[claims->listed[i]] = -1;
	/* a step was granted for each that is listed */
	claims->set_steps += 2 * (int64_t) claims->n_listed + steps -
		claims->search.steps;
	return found;
}
