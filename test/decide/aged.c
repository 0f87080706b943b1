/*
 * aged.c
 *	  Tests that aged jobs start in time, even if more of them wait than can
 *	  have reservations.
 *
 * An aged job waits no longer than the jobs ahead of it and one more may run,
 * one after the other.  Only 256 aged jobs have reservations at a time.  So
 * more jobs than that wait for most of a cluster, in a stream of small jobs
 * that would fit, and each wait is compared with the bound.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define GANGS		280
#define SMALL		60
#define JOBS		(GANGS + SMALL)
#define NODES		2
#define DEVICES		4			/* devices of a node */
#define LONGEST		10			/* longest wall limit */
#define MAX_WAIT	50
#define NOT_STARTED	(-1)

typedef struct AgedJob
{
	int			gpus;
	int64_t		comes;
	int64_t		wall;
	int64_t		runs;			/* <= wall */
	int64_t		started;
	int			n_previous;		/* parts of its previous reservation, or of
								 * its run */
	DecidePart	parts[NODES];
} AgedJob;

typedef struct AgedLine
{
	AgedJob		jobs[JOBS];
	int64_t		now;
	int			most_aged;		/* largest number of aged jobs that waited at
								 * once */
	int			passed;			/* number of small jobs that started before an
								 * older gang */
} AgedLine;

/*
 * Makes gangs that wait from the start and use their whole limits, every
 * second one on all devices; and small jobs that arrive continuously and fit
 * beside other jobs.
 */
static void
line_begin(AgedLine *line, uint64_t *seed)
{
	int			i;

	memset(line, 0, sizeof(*line));
	for (i = 0; i < JOBS; i++)
	{
		AgedJob    *job = &line->jobs[i];
		bool		gang = i < GANGS;

		job->started = NOT_STARTED;
		job->gpus = !gang ? 1 : i % 2 == 0 ? DEVICES + 1 : NODES * DEVICES;
		job->wall = gang ? LONGEST : 1 + random_below(seed, LONGEST);
		job->comes = gang ? 0 : random_below(seed, GANGS * LONGEST);
		job->runs = job->wall;
	}
}

/*
 * Whether a job runs at an instant.
 */
static bool
runs_at(const AgedJob *job, int64_t now)
{
	return job->started != NOT_STARTED && job->started + job->runs > now;
}

/*
 * Makes the world that a cycle loads.
 */
static void
line_world(AgedLine *line, World *world)
{
	DecideOffer offer = {0};
	int			aged = 0;
	int			tier;
	int			i;
	int			p;

	world_init(world);
	world->now = line->now;
	offer.type = world_type(world, "a");
	for (i = 0; i < NODES; i++)
		world_node(world, i == 0 ? "n0" : "n1", offer.type, DEVICES);
	tier = world_rank(world, 0);
	world->tiers[tier].max_wait = MAX_WAIT;
	for (i = 0; i < JOBS; i++)
	{
		const AgedJob *job = &line->jobs[i];
		DecideRequestClass request = {
			.min_gpus = job->gpus, .max_gpus = job->gpus,
			.share = DECIDE_WHOLE, .n_offers = 1, .offers = &offer,
			.wall_limit = job->wall
		};

		if (job->started == NOT_STARTED && job->comes <= line->now)
		{
			DecideJob  *waits = world_job(world, world_request(world,
															   &request), "o",
										  "", i);

			waits->submitted = job->comes;
			waits->aged_at = job->comes + MAX_WAIT;
			aged += waits->aged_at < line->now;
		}
		else if (runs_at(job, line->now))
		{
			DecideRunning *runs = world_running(world, "o", i);

			runs->account = world_account(world, "o");
			runs->type = offer.type;
			runs->gpus = runs->min_gpus = runs->max_gpus = job->gpus;
			runs->started = runs->saved_at = job->started;
			runs->expected_end = runs->limit_end = job->started + job->wall;
			for (p = 0; p < job->n_previous; p++)
			{
				const DecidePart *part = &job->parts[p];
				uint64_t	rest = part->devices;

				*world_part(world, runs) = *part;
				for (; rest != 0; rest &= rest - 1)
					world->nodes[part->node].device_left
						[__builtin_ctzll(rest)] = 0;
			}
		}
	}
	if (aged > line->most_aged)
		line->most_aged = aged;
}

/*
 * Fills in the previous reservations of waiting jobs.
 */
static void
line_previous(const AgedLine *line, DecideInput *input,
			  DecidePreviousReservation *previous,
			  DecidePart *parts)
{
	int			i;
	int			p;

	input->previous = previous;
	input->previous_parts = parts;
	for (i = 0; i < input->n_jobs; i++)
	{
		const AgedJob *job = &line->jobs[input->jobs[i].id];

		if (job->n_previous == 0)
			continue;
		previous[input->n_previous++] = (DecidePreviousReservation)
		{
			.job = i, .gpus = job->gpus,
				.first_part = input->n_previous_parts,
				.n_parts = job->n_previous
		};
		for (p = 0; p < job->n_previous; p++)
			parts[input->n_previous_parts++] = job->parts[p];
	}
}

/*
 * Records the parts of a start or a reservation.
 */
static void
parts_note(AgedJob *job, const DecidePart *parts, int n)
{
	int			p;

	job->n_previous = n;
	for (p = 0; p < n; p++)
		job->parts[p] = parts[p];
}

/*
 * Runs one cycle.  Returns NULL, or what is wrong.
 */
static const char *
line_cycle(AgedLine *line)
{
	World		world;
	Pool		pool;
	DecideArena arena;
	DecideInput input;
	DecideResult result;
	DecidePreviousReservation previous[JOBS];
	DecidePart	parts[JOBS * NODES];
	const char *error;
	int			i;

	line_world(line, &world);
	pool_init(&pool);
	arena = pool_arena(&pool);
	input = world_input(&world);
	line_previous(line, &input, previous, parts);
	error = DecideRun(&input, &arena, &result);
	if (error == NULL)
		error = DecideCheck(&input, &result, &arena, NULL);
	for (i = 0; i < JOBS && error == NULL; i++)
	{
		if (line->jobs[i].started == NOT_STARTED)
			line->jobs[i].n_previous = 0;
	}
	for (i = 0; i < result.n_reservations && error == NULL; i++)
	{
		const DecideReservation *r = &result.reservations[i];

		parts_note(&line->jobs[world.jobs[r->job].id],
				   &result.reserved_parts[r->first_part], r->n_parts);
	}
	for (i = 0; i < result.n_starts && error == NULL; i++)
	{
		const DecideStart *start = &result.starts[i];
		int			id = (int) world.jobs[start->job].id;

		line->jobs[id].started = line->now;
		line->passed += id >= GANGS &&
			line->jobs[GANGS - 1].started == NOT_STARTED;
		parts_note(&line->jobs[id], &result.parts[start->first_part],
				   start->n_parts);
	}
	pool_free(&pool);
	world_free(&world);
	return error;
}

/*
 * Advances to the next instant at which a job arrives, ends or becomes aged.
 * Returns false if there is none.
 */
static bool
line_step(AgedLine *line)
{
	int64_t		next = INT64_MAX;
	int			i;

	for (i = 0; i < JOBS; i++)
	{
		const AgedJob *job = &line->jobs[i];
		int64_t		at[] = {job->comes, job->comes + MAX_WAIT + 1,
		job->started + job->runs};
		int			first = job->started == NOT_STARTED ? 0 : 2;
		int			last = job->started == NOT_STARTED ? 1 : 2;

		for (; first <= last; first++)
		{
			if (at[first] > line->now && at[first] < next)
				next = at[first];
		}
	}
	line->now = next;
	return next < INT64_MAX;
}

/*
 * Returns an error if a job waited longer than it may.  Ahead of it are the
 * jobs that arrived before it and still waited when it became aged.
 */
static char *
line_late(const AgedLine *line)
{
	int			i;
	int			k;

	for (i = 0; i < JOBS; i++)
	{
		const AgedJob *job = &line->jobs[i];
		int64_t		aged_at = job->comes + MAX_WAIT;
		int			ahead = 0;

		if (job->started == NOT_STARTED)
			return format("job %d never started", i);
		for (k = 0; k < JOBS; k++)
		{
			const AgedJob *other = &line->jobs[k];

			ahead += (other->comes < job->comes ||
					  (other->comes == job->comes && k < i)) &&
				other->started > aged_at;
		}
		if (job->started > aged_at + (int64_t) (ahead + 1) * LONGEST)
			return format("job %d, aged at %" PRId64 " behind %d others, "
						  "started at %" PRId64, i, aged_at, ahead,
						  job->started);
	}
	return NULL;
}

/*
 * Runs cycles from the first until no job waits.
 */
void
aged_tests(Tap *tap)
{
	AgedLine   *line = malloc(sizeof(AgedLine));
	uint64_t	seed = 900000000;
	const char *error;
	char	   *why;

	line_begin(line, &seed);
	do
		error = line_cycle(line);
	while (error == NULL && line_step(line));
	why = error != NULL ? format("at %" PRId64 ": %s", line->now, error) :
		line_late(line);
	printf("# %d aged at once, %d let in before them\n", line->most_aged,
		   line->passed);
	tap_ok(tap, why == NULL, "aged: each starts no later than promised", why);
	tap_ok(tap, why != NULL || (line->most_aged > 256 && line->passed > 20),
		   "aged: more than have reservations, and some are let in", NULL);
	free(why);
	free(line);
}
