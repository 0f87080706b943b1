/*
 * oracle_order.c
 *	  The order of the queue, found the slow way.
 */
#include <stdlib.h>
#include <string.h>

#include "world.h"

/*
 * Is a job before another: by priority if that counts, then by what gives
 * jobs their turns?
 */
static bool
before(const World *world, const DecideJob *a, const DecideJob *b,
	   bool by_priority)
{
	int			rank_a = world->tiers[a->tier].rank;
	int			rank_b = world->tiers[b->tier].rank;

	if (by_priority && a->priority != b->priority)
		return a->priority > b->priority;
	if (rank_a != rank_b)
		return rank_a < rank_b;
	if (a->submitted != b->submitted)
		return a->submitted < b->submitted;
	if (a->id != b->id)
		return a->id < b->id;
	return strcmp(a->org, b->org) < 0;
}

/*
 * The first of the jobs not yet taken, of the group of one of them if given.
 */
static int
first_left(const World *world, const bool *taken, const DecideJob *of)
{
	int			best = -1;
	int			i;

	for (i = 0; i < world->n_jobs; i++)
	{
		const DecideJob *job = &world->jobs[i];

		if (taken[i] || (of != NULL &&
						 (world->tiers[job->tier].rank !=
						  world->tiers[of->tier].rank ||
						  job->account != of->account)))
			continue;
		if (best < 0 || before(world, job, &world->jobs[best],
							   of != NULL))
			best = i;
	}
	return best;
}

/*
 * Each turn goes to the first job by tier, submit time, id and organisation
 * that has given none yet; who takes it is the job of highest priority of that
 * one's organisation, account and tier.
 */
int *
oracle_order(const World *world)
{
	size_t		n = (size_t) world->n_jobs;
	int		   *order = malloc(sizeof(int) * (n + 1));
	bool	   *given = calloc(n + 1, sizeof(bool));
	bool	   *taken = calloc(n + 1, sizeof(bool));
	int			turn;

	for (turn = 0; turn < world->n_jobs; turn++)
	{
		int			giver = first_left(world, given, NULL);

		given[giver] = true;
		order[turn] = first_left(world, taken, &world->jobs[giver]);
		taken[order[turn]] = true;
	}
	free(given);
	free(taken);
	return order;
}
