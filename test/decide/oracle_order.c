/*
 * oracle_order.c
 *	  The order of turns, computed from scratch at every turn.
 *
 * Of the accounts on one level, those with the most weight for their use are
 * kept.  The accounts below them are the next level, until only accounts' own
 * jobs remain.
 */
#include <stdlib.h>
#include <string.h>

#include "world.h"

/* An account, or an account's own jobs. */
typedef struct Thing
{
	int			account;
	bool		own;
	bool		ended;			/* it was equal to others and has no more
								 * levels */
} Thing;

struct OracleQueue
{
	const World *world;
	bool	   *gone;			/* whether each job had its turn, or gets none */
	int64_t    *used;			/* for each account: the devices of its own
								 * jobs that started */
	int64_t    *tier_used;
};

OracleQueue *
oracle_queue(const World *world)
{
	OracleQueue *queue = calloc(1, sizeof(OracleQueue));
	int			i;

	queue->world = world;
	queue->gone = calloc((size_t) world->n_jobs + 1, sizeof(bool));
	queue->used = calloc((size_t) world->n_accounts + 1, sizeof(int64_t));
	queue->tier_used = calloc((size_t) world->n_tiers + 1, sizeof(int64_t));
	for (i = 0; i < world->n_tiers; i++)
		queue->tier_used[i] = world->tiers[i].live;
	return queue;
}

void
oracle_queue_free(OracleQueue *queue)
{
	free(queue->gone);
	free(queue->used);
	free(queue->tier_used);
	free(queue);
}

/*
 * Whether an account is another one, or below it.
 */
static bool
within(const World *world, int account, int above)
{
	while (account >= 0 && account != above)
		account = world->accounts[account].parent;
	return account == above;
}

static bool
has_children(const World *world, int account)
{
	int			i;

	for (i = 0; i < world->n_accounts; i++)
	{
		if (world->accounts[i].parent == account)
			return true;
	}
	return false;
}

/*
 * All use of a thing, including jobs that started.
 */
static int64_t
use_of(const OracleQueue *queue, const Thing *thing)
{
	const World *world = queue->world;
	int64_t		use = 0;
	int			i;

	for (i = 0; i < world->n_accounts; i++)
	{
		const DecideAccount *account = &world->accounts[i];

		if (thing->own ? i == thing->account :
			within(world, i, thing->account))
			use += account->usage + queue->used[i] +
				account->live * world->policy.fair_horizon;
	}
	return use;
}

/*----------
 * Which of two accounts is served first:
 *
 * 1. an account without use;
 * 2. weight over use, the highest first.
 *----------
 */
static int
compare_things(const OracleQueue *queue, const Thing *a, const Thing *b)
{
	int64_t		use_a = a->ended ? 0 : use_of(queue, a);
	int64_t		use_b = b->ended ? 0 : use_of(queue, b);
	int64_t		weight_a = a->own ? DECIDE_WEIGHT_ONE :
		queue->world->accounts[a->account].weight;
	int64_t		weight_b = b->own ? DECIDE_WEIGHT_ONE :
		queue->world->accounts[b->account].weight;

	if (use_a == 0 || use_b == 0)
		return (use_a != 0) - (use_b != 0);
	if ((__int128) weight_a * use_b == (__int128) weight_b * use_a)
		return 0;
	return (__int128) weight_a * use_b > (__int128) weight_b * use_a ? -1 : 1;
}

/*
 * Returns the one of two jobs of one account, or of equal accounts, that goes
 * first.
 */
static int
earlier(const World *world, int a, int b, bool own)
{
	const DecideJob *x = &world->jobs[a];
	const DecideJob *y = &world->jobs[b];
	int			names;

	if (a < 0 || b < 0)
		return a < 0 ? b : a;
	if (own && x->priority != y->priority)
		return x->priority > y->priority ? a : b;
	if (own && world->policy.order == DECIDE_ORDER_SHORTEST &&
		x->order_run != y->order_run)
		return x->order_run < y->order_run ? a : b;
	if (x->submitted != y->submitted)
		return x->submitted < y->submitted ? a : b;
	names = strcmp(x->org, y->org);
	if (names != 0)
		return names < 0 ? a : b;
	return x->id < y->id ? a : b;
}

/*
 * Whether any of these jobs belong to a thing.
 */
static bool
has_jobs(const World *world, const bool *jobs, const Thing *thing)
{
	int			i;

	for (i = 0; i < world->n_jobs; i++)
	{
		if (jobs[i] && (thing->own ?
						world->jobs[i].account == thing->account :
						within(world, world->jobs[i].account,
							   thing->account)))
			return true;
	}
	return false;
}

/*
 * Finds the next level below the things of a level; ended ones are kept.
 */
static int
next_level(const World *world, const bool *jobs, const Thing *things, int n,
		   Thing *below)
{
	int			n_below = 0;
	int			i;
	int			c;

	for (i = 0; i < n; i++)
	{
		Thing		own = {things[i].account, true, false};

		if (things[i].own || !has_children(world, things[i].account))
		{
			below[n_below] = things[i];
			below[n_below++].ended = true;
			continue;
		}
		if (has_jobs(world, jobs, &own))
			below[n_below++] = own;
		for (c = 0; c < world->n_accounts; c++)
		{
			Thing		child = {c, false, false};

			if (world->accounts[c].parent == things[i].account &&
				has_jobs(world, jobs, &child))
				below[n_below++] = child;
		}
	}
	return n_below;
}

/*
 * Returns the first of some jobs, or -1 if there are none.  With own, they are
 * jobs of one account, in order of priority and the policy's order.
 */
static int
fair_first(const OracleQueue *queue, const bool *jobs, bool own)
{
	const World *world = queue->world;
	size_t		room = (size_t) world->n_accounts * 2 + 1;
	Thing	   *things = calloc(room, sizeof(Thing));
	Thing	   *below = calloc(room, sizeof(Thing));
	bool		all_ended = false;
	int			n = 0;
	int			best = -1;
	int			i;
	int			j;

	for (i = 0; i < world->n_accounts; i++)
	{
		Thing		root = {i, false, false};

		if (world->accounts[i].parent < 0 && has_jobs(world, jobs, &root))
			things[n++] = root;
	}
	while (n > 0 && !all_ended)
	{
		int			n_best = 0;

		for (i = 0; i < n; i++)
		{
			for (j = 0; j < n; j++)
			{
				if (compare_things(queue, &things[j], &things[i]) < 0)
					break;
			}
			if (j == n)
				below[n_best++] = things[i];
		}
		n = next_level(world, jobs, below, n_best, things);
		all_ended = true;
		for (i = 0; i < n; i++)
			all_ended &= things[i].ended;
	}
	for (i = 0; i < n; i++)
	{
		int			first = -1;

		for (j = 0; j < world->n_jobs; j++)
		{
			if (jobs[j] && world->jobs[j].account == things[i].account)
				first = earlier(world, first, j, own);
		}
		best = earlier(world, best, first, false);
	}
	free(things);
	free(below);
	return best;
}

static bool
is_aged(const World *world, int job)
{
	return world->now > world->jobs[job].aged_at;
}

/*
 * The lowest rank whose jobs an aged job passes.
 */
static int
passes(const World *world, int job)
{
	const DecideTier *tier = &world->tiers[world->jobs[job].tier];

	return tier->ages_to < tier->rank ? tier->ages_to : tier->rank;
}

/*
 * Of the aged jobs that pass the lowest rank, returns the one that became aged
 * first.
 */
static int
aged_first(const OracleQueue *queue)
{
	const World *world = queue->world;
	int			best = -1;
	int64_t		since = 0;
	int			i;

	for (i = 0; i < world->n_jobs; i++)
	{
		const DecideJob *job = &world->jobs[i];
		int64_t		due = job->submitted + world->tiers[job->tier].max_wait;
		bool		before = best < 0;

		if (queue->gone[i] || !is_aged(world, i))
			continue;
		if (!before && passes(world, i) != passes(world, best))
			before = passes(world, i) < passes(world, best);
		else if (!before && due != since)
			before = due < since;
		else if (!before && strcmp(job->org, world->jobs[best].org) != 0)
			before = strcmp(job->org, world->jobs[best].org) < 0;
		else if (!before)
			before = job->id < world->jobs[best].id;
		if (before)
		{
			best = i;
			since = due;
		}
	}
	return best;
}

/*
 * Whether a tier stays within its share of the pool if a job starts.
 */
static bool
within_share(const OracleQueue *queue, int job)
{
	const World *world = queue->world;
	int			tier = world->jobs[job].tier;
	const DecideRequestClass *request = &world->requests[world->jobs[job].request];
	int64_t		devices = 0;
	int			i;
	int			d;

	for (i = 0; i < world->n_nodes; i++)
	{
		for (d = 0; d < world->nodes[i].gpus; d++)
			devices += (world->nodes[i].usable >> d) & 1;
	}
	return queue->tier_used[tier] + (int64_t) request->min_gpus * request->share <=
		devices * world->tiers[tier].share_ppm / 1000;
}

/*
 * Returns the next job, or -1 if none is left.
 */
int
oracle_next(OracleQueue *queue)
{
	const World *world = queue->world;
	bool	   *jobs = calloc((size_t) world->n_jobs + 1, sizeof(bool));
	bool	   *heads = calloc((size_t) world->n_jobs + 1, sizeof(bool));
	int			aged = aged_first(queue);
	int			job = -1;
	bool		found = false;
	int64_t		rank = INT64_MAX;
	int			t;
	int			i;

	/* tiers of the lowest rank whose first job stays within their share */
	for (t = 0; t < world->n_tiers; t++)
	{
		int			first;

		for (i = 0; i < world->n_jobs; i++)
			jobs[i] = !queue->gone[i] && !is_aged(world, i) &&
				world->jobs[i].tier == t;
		first = world->tiers[t].share_ppm > 0 ?
			fair_first(queue, jobs, true) : -1;
		if (first < 0 || !within_share(queue, first) ||
			world->tiers[t].rank > rank)
			continue;
		if (world->tiers[t].rank < rank)
			memset(heads, 0, (size_t) world->n_jobs);
		rank = world->tiers[t].rank;
		heads[first] = true;
		found = true;
	}
	if (found)
		job = fair_first(queue, heads, false);
	for (i = 0; i < world->n_jobs && !found; i++)
	{
		if (!queue->gone[i] && !is_aged(world, i) &&
			world->tiers[world->jobs[i].tier].rank < rank)
			rank = world->tiers[world->jobs[i].tier].rank;
	}
	for (i = 0; i < world->n_jobs; i++)
		jobs[i] = !queue->gone[i] && !is_aged(world, i) &&
			world->tiers[world->jobs[i].tier].rank == rank;
	if (aged >= 0 && passes(world, aged) <= rank)
		job = aged;
	else if (job < 0)
		job = fair_first(queue, jobs, true);
	if (job >= 0)
		queue->gone[job] = true;
	free(jobs);
	free(heads);
	return job;
}

/*
 * Records that a job started on this many devices.
 */
void
oracle_started(OracleQueue *queue, int job, int type, int gpus)
{
	const World *world = queue->world;
	const DecideJob *j = &world->jobs[job];
	int64_t		milli = (int64_t) gpus * world->requests[j->request].share;

	queue->tier_used[j->tier] += milli;
	if (type >= 0)
		queue->used[j->account] += milli * world->weights[type].weight /
			1000 * world->policy.fair_horizon;
}

/*
 * Records that a job could not start.  Other jobs of its request get no more
 * turns, unless they may get claims.
 */
void
oracle_failed(OracleQueue *queue, int job)
{
	const World *world = queue->world;
	int			i;

	for (i = 0; i < world->n_jobs && world->n_running == 0; i++)
		queue->gone[i] |= world->jobs[i].request == world->jobs[job].request;
}
