/*
 * oracle_victims.c
 *	  Which running jobs may be evicted for the only waiting job, or for a
 *	  running one that grows, computed from scratch.
 *
 * A set may be evicted if each member may be, by tier or entitlement.  After
 * all have left, each account that gives devices for an entitlement must still
 * have its own, and the taker must have at most its own.  With under, the
 * giver must have had more than its own if any one of these had stayed.  The
 * order of leaving does not matter.
 */
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define MOST_ACCOUNTS 16

/*
 * Amounts for each account: of its own jobs, and including all accounts below
 * it.
 */
typedef struct Amounts
{
	int64_t		own[MOST_ACCOUNTS];
	int64_t		all[MOST_ACCOUNTS];
} Amounts;

static void
amounts_add(const World *world, Amounts *amounts, int account, int64_t amount)
{
	amounts->own[account] += amount;
	for (; account >= 0; account = world->accounts[account].parent)
		amounts->all[account] += amount;
}

/*
 * Divides an amount among the children of an account (-1 for the
 * organisations) and its own jobs, unless it has no children.  Children that
 * ask for no more than their part of what is left are given that first, one
 * after the other.
 */
static void
deal(const World *world, const Amounts *demand, int parent, int64_t amount,
	 Amounts *due)
{
	bool		full[MOST_ACCOUNTS + 1] = {false};
	int64_t		weights = 0;
	int			n = world->n_accounts;
	int			i;

	if (parent >= 0)
		due->all[parent] = due->own[parent] = amount;
	for (i = 0; i < n; i++)
	{
		full[i] = world->accounts[i].parent != parent;
		weights += full[i] ? 0 : world->accounts[i].weight;
	}
	if (weights == 0)
		return;
	full[n] = parent < 0;
	weights += full[n] ? 0 : DECIDE_WEIGHT_ONE;
	for (i = 0; i <= n; i++)
	{
		int64_t		weight = i < n ? world->accounts[i].weight :
			DECIDE_WEIGHT_ONE;
		int64_t		wants = i < n ? demand->all[i] :
			parent < 0 ? 0 : demand->own[parent];

		if (full[i] || wants * weights > amount * weight)
			continue;
		full[i] = true;
		if (i < n)
			deal(world, demand, i, wants, due);
		else
			due->own[parent] = wants;
		amount -= wants;
		weights -= weight;
		i = -1;					/* begin again with the first child */
	}
	for (i = 0; i <= n; i++)
	{
		if (full[i])
			continue;
		if (i < n)
			deal(world, demand, i,
				 amount * world->accounts[i].weight / weights, due);
		else
			due->own[parent] = amount * DECIDE_WEIGHT_ONE / weights;
	}
}

/*
 * Computes what each account is entitled to.  raised is the account that is
 * assumed to ask for everything, or -1.
 */
static void
entitled(const World *world, int raised, Amounts *due)
{
	bool		grows = world->policy.elastic_idle_delay != DECIDE_NEVER;
	Amounts		demand = {{0}, {0}};
	int64_t		capacity = 0;
	int			i;
	int			d;

	for (i = 0; i < world->n_nodes; i++)
	{
		for (d = 0; d < world->nodes[i].gpus; d++)
			capacity += world->nodes[i].schedulable &&
				((world->nodes[i].usable >> d) & 1) ? DECIDE_WHOLE : 0;
	}
	for (i = 0; i < world->n_running; i++)
	{
		const DecideRunning *r = &world->running[i];

		amounts_add(world, &demand, r->account, (int64_t) r->share *
					(grows && r->max_gpus > r->gpus ? r->max_gpus : r->gpus));
	}
	for (i = 0; i < world->n_jobs; i++)
	{
		const DecideRequestClass *request = &world->requests[world->jobs[i].request];

		amounts_add(world, &demand, world->jobs[i].account, (int64_t)
					request->share * (grows ? request->max_gpus :
									  request->min_gpus));
	}
	if (raised >= 0)
		amounts_add(world, &demand, raised, capacity);
	deal(world, &demand, -1, capacity, due);
}

/*
 * Whether an account is the other one, or below it.
 */
static bool
is_below(const World *world, int account, int other)
{
	while (account >= 0 && account != other)
		account = world->accounts[account].parent;
	return account == other;
}

/*
 * Whether a job may be evicted for a taker by the taker's tier, or possibly by
 * entitlement.
 */
static bool
may_evict(const World *world, const Taker *taker,
		  const DecideRunning *running, bool *by_tier)
{
	const DecideTier *mine = &world->tiers[taker->tier];
	const DecideTier *its = &world->tiers[running->tier];

	*by_tier = taker->preempts && mine->rank < its->rank;
	return running->preemptible == DECIDE_PREEMPT_CAPACITY &&
		!running->leaving && world->now > running->started &&
		world->now >= running->started + its->min_run &&
		(*by_tier || (world->policy.reclaim && mine->rank <= its->rank &&
					  taker->account != running->account));
}

/*
 * Whether an account (with own, its own jobs) has its entitlement without a
 * set, or would have more if any one of those had stayed that leave it for an
 * entitlement.
 */
static bool
keeps_due(const World *world, const Taker *taker, uint64_t set, bool under,
		  int64_t over, int account, bool own, int64_t used, int64_t due)
{
	bool		by_tier;
	int			i;

	if (used >= due)
		return over == 0 || (over < DECIDE_WHOLE && over < taker->taken);
	if (over > 0 && (due - used + over >= DECIDE_WHOLE ||
					 due - used + over >= taker->taken))
		return false;
	for (i = 0; i < world->n_running && (under || over > 0); i++)
	{
		const DecideRunning *r = &world->running[i];

		if (((set >> i) & 1) == 0 || !may_evict(world, taker, r, &by_tier) ||
			by_tier || (own ? r->account != account :
						!is_below(world, r->account, account)))
			continue;
		if (used + (int64_t) r->gpus * r->share > due)
			return true;
	}
	return false;
}

/*
 * How much a taker has beyond its entitlement, on the path up from its account
 * to where a giver's path joins; at least 0.
 */
static int64_t
amount_beyond_due(const World *world, const Taker *taker, int giver,
				  const Amounts *used, const Amounts *due)
{
	int64_t		over = used->own[taker->account] + taker->taken -
		due->own[taker->account];
	int			a;

	for (a = taker->account; a >= 0 && !is_below(world, giver, a);
		 a = world->accounts[a].parent)
	{
		if (used->all[a] + taker->taken - due->all[a] > over)
			over = used->all[a] + taker->taken - due->all[a];
	}
	return over > 0 ? over : 0;
}

/*
 * Whether a set may be evicted for a taker by this right.
 */
bool
oracle_may_evict(const World *world, const Taker *taker, uint64_t set,
				 OracleRight right)
{
	bool		under = right % 3 == ORACLE_UNDER;
	Amounts		due = {{0}, {0}};
	Amounts		used = {{0}, {0}};
	bool		by_tier;
	int			i;
	int			a;

	entitled(world, right >= ORACLE_RAISED ? taker->account : -1, &due);
	for (i = 0; i < world->n_running; i++)
	{
		const DecideRunning *r = &world->running[i];

		if (!r->leaving && ((set >> i) & 1) == 0)
			amounts_add(world, &used, r->account,
						(int64_t) r->gpus * r->share);
	}
	for (i = 0; i < world->n_running; i++)
	{
		int			giver = world->running[i].account;
		int64_t		over;

		if (((set >> i) & 1) == 0)
			continue;
		if (!may_evict(world, taker, &world->running[i], &by_tier))
			return false;
		if (by_tier)
			continue;
		over = amount_beyond_due(world, taker, giver, &used, &due);
		if ((over > 0 && right % 3 != ORACLE_ROUNDED) ||
			!keeps_due(world, taker, set, under, over, giver, true,
					   used.own[giver], due.own[giver]))
			return false;
		for (a = giver; a >= 0 && !is_below(world, taker->account, a);
			 a = world->accounts[a].parent)
		{
			if (!keeps_due(world, taker, set, under, over, a, false,
						   used.all[a], due.all[a]))
				return false;
		}
	}
	return true;
}
