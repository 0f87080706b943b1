/*
 * stream.c
 *	  Runs clusters, cycle after cycle, through a stream of small jobs, and
 *	  tests that reservations are kept.
 *
 * Gangs and small jobs of one account wait in the order of their arrival; jobs
 * that start run as long as expected, or up to their limits, and small jobs
 * arrive continuously.  Every cycle must satisfy the following:
 *
 * - No start has a device of a reservation made before it, unless its wall
 *   limit has passed by then; and no job waits because of a reservation that it
 *   would not delay.
 * - A job with a reservation in the previous cycle has one that is no later, or
 *   starts: jobs that were allowed to start behind it never move it, whether it
 *   is the first reservation of its cycle or the last.  This is not required of
 *   jobs behind one that starts earlier than reserved, nor in a cycle in which
 *   a job ended early or ran longer than expected: then all may move, but only
 *   as far as if no job had been allowed to start behind them.
 *
 * A gang of 64 devices must start exactly when it was first told, during a
 * stream of small jobs that never lets the cluster become idle.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stream.h"

/*
 * A job's position in the order of turns.
 */
int64_t
stream_turn(const Stream *stream, int job)
{
	return stream->jobs[job].comes * MOST_JOBS + job;
}

/*
 * The time at which a running job is expected to end, as the scheduler
 * computes it: the expected run is doubled whenever it was exceeded, up to the
 * limit.
 */
static int64_t
expected_end(const Stream *stream, const StreamJob *job)
{
	int64_t		run = job->expected;

	while (job->started + run <= stream->now && run < job->wall)
		run = run * 2 < job->wall ? run * 2 : job->wall;
	return job->started + run;
}

/*
 * Makes the world of a cycle, with the stream's job numbers.
 */
void
stream_world(const Stream *stream, World *world)
{
	int			type;
	int			i;
	int			p;

	world_init(world);
	world->now = stream->now;
	world->policy.backfill_depth = stream->depth;
	type = world_type(world, "a");
	for (i = 0; i < stream->n_nodes; i++)
	{
		char	   *name = format("n%02d", i);
		DecideNode *node = world_node(world, name, type, stream->gpus[i]);

		node->domain = stream->domain[i];
		node->cpu_milli = node->cpu_left = stream->cpu_milli;
		free(name);
	}
	for (i = 0; i < stream->n; i++)
	{
		const StreamJob *job = &stream->jobs[i];
		DecideOffer offer = {.type = type};
		DecideRequestClass request = {
			.min_gpus = job->gpus, .max_gpus = job->gpus, .share = job->share,
			.n_offers = 1, .offers = &offer, .topology = job->topology,
			.cpu_milli = job->cpu_milli, .wall_limit = job->wall
		};

		if (job->state == STATE_WAITS)
		{
			DecideJob  *waits = world_job(world, world_request(world,
															   &request), "o",
										  "", i);

			waits->submitted = stream_turn(stream, i);
			waits->expected_run = job->expected < job->wall ?
				job->expected : 0;
		}
		if (job->state == STATE_RUNS)
		{
			DecideRunning *runs = world_running(world, "o", i);

			runs->account = world_account(world, "o");
			runs->type = type;
			runs->share = job->share;
			runs->gpus = runs->min_gpus = runs->max_gpus = job->gpus;
			runs->started = runs->saved_at = job->started;
			runs->expected_end = expected_end(stream, job);
			runs->limit_end = job->started + job->wall;
			for (p = 0; p < job->n_parts; p++)
			{
				const DecidePart *part = &job->parts[p];
				DecideNode *node = &world->nodes[part->node];

				*world_part(world, runs) = *part;
				devices_allocate(node, part, job->share, 1);
				if (node->cpu_milli > 0)
					node->cpu_left -= part->cpu_milli;
			}
		}
	}
}

/*
 * Fills in the previous reservations of waiting jobs.
 */
void
stream_previous(const Stream *stream, DecideInput *input,
				DecidePreviousReservation *previous,
				DecidePart *parts)
{
	int			i;
	int			p;

	input->previous = previous;
	input->previous_parts = parts;
	for (i = 0; i < input->n_jobs; i++)
	{
		const StreamJob *job = &stream->jobs[input->jobs[i].id];

		if (job->previous == NOT_RESERVED)
			continue;
		previous[input->n_previous++] = (DecidePreviousReservation)
		{
			.job = i, .gpus = job->gpus,
				.first_part = input->n_previous_parts,
				.n_parts = job->n_parts
		};
		for (p = 0; p < job->n_parts; p++)
			parts[input->n_previous_parts++] = job->parts[p];
	}
}

/*
 * Records the parts of a start or a reservation.
 */
static void
parts_note(StreamJob *job, const DecidePart *parts, int n)
{
	int			p;

	job->n_parts = n;
	for (p = 0; p < n; p++)
		job->parts[p] = parts[p];
}

/*
 * Whether these are the devices of a job's reservation.
 */
static bool
parts_same(const StreamJob *job, const DecidePart *parts, int n)
{
	bool		same = job->n_parts == n;
	int			p;

	for (p = 0; p < n && same; p++)
		same = job->parts[p].node == parts[p].node &&
			job->parts[p].devices == parts[p].devices;
	return same;
}

/*
 * Applies a cycle's decision, and compares its reservations with the previous
 * ones.
 */
static char *
stream_apply(Stream *stream, const World *world, const DecideResult *result)
{
	int64_t		previous[MOST_JOBS];
	int64_t		gains = INT64_MAX;	/* turn of the first job that starts
									 * earlier than reserved */
		int			i;

	for (i = 0; i < stream->n; i++)
		previous[i] = NOT_RESERVED;
	for (i = 0; i < result->n_reservations; i++)
	{
		const DecideReservation *r = &result->reservations[i];
		StreamJob  *job = &stream->jobs[world->jobs[r->job].id];
		const DecidePart *parts = &result->reserved_parts[r->first_part];

		if (job->previous != r->at || !parts_same(job, parts, r->n_parts))
			job->previous_since = stream->now;
		parts_note(job, parts, r->n_parts);
		previous[world->jobs[r->job].id] = r->at;
	}
	for (i = 0; i < result->n_starts; i++)
	{
		const DecideStart *start = &result->starts[i];
		StreamJob  *job = &stream->jobs[world->jobs[start->job].id];

		job->state = STATE_RUNS;
		job->started = stream->now;
		parts_note(job, &result->parts[start->first_part], start->n_parts);
		previous[world->jobs[start->job].id] = stream->now;
		stream->backfilled += start->let_in;
	}
	for (i = 0; i < stream->n; i++)
	{
		const StreamJob *job = &stream->jobs[i];

		if (previous[i] != NOT_RESERVED && previous[i] < job->previous &&
			stream_turn(stream, i) < gains)
			gains = stream_turn(stream, i);
	}
	for (i = 0; i < stream->n; i++)
	{
		StreamJob  *job = &stream->jobs[i];
		bool		before = job->previous != NOT_RESERVED;

		if (before && !stream->unexpected && stream_turn(stream, i) < gains)
		{
			stream->kept++;
			if (previous[i] == NOT_RESERVED || previous[i] > job->previous)
				return format("job %d was to start at %" PRId64 ", and is at %"
							  PRId64, i, job->previous, previous[i]);
		}
		if (job->first_previous == NOT_RESERVED)
			job->first_previous = previous[i];
		job->previous = job->state == STATE_RUNS ? NOT_RESERVED : previous[i];
	}
	stream->unexpected = false;
	return NULL;
}

/*
 * Runs one cycle.  Returns NULL, or what is wrong.
 */
static char *
stream_cycle(Stream *stream)
{
	World		world;
	Pool		pool;
	DecideArena arena;
	DecideInput input;
	DecideResult result;
	DecidePreviousReservation previous[MOST_JOBS];
	DecidePart	parts[MOST_JOBS * MOST_PARTS];
	const char *error;
	char	   *why = NULL;

	stream_world(stream, &world);
	pool_init(&pool);
	arena = pool_arena(&pool);
	input = world_input(&world);
	stream_previous(stream, &input, previous, parts);
	error = DecideRun(&input, &arena, &result);
	if (error == NULL)
		error = DecideCheck(&input, &result, &arena, NULL);
	if (error != NULL)
		why = format("%s", error);
	if (why == NULL)
		why = stream_outlives(&world, &result);
	if (why == NULL)
		why = stream_harmless(&world, &input, &result, &stream->refused);
	if (why == NULL)
		why = stream_in_the_way(stream, &world, &result, &stream->moved);
	if (why == NULL)
		why = stream_apply(stream, &world, &result);
	if (why != NULL)
	{
		char	   *decided = world_render(&world, &result, NULL);
		char	   *full = format("at %" PRId64 ": %s\n%s", stream->now, why,
								  decided);

		free(decided);
		free(why);
		why = full;
	}
	pool_free(&pool);
	world_free(&world);
	return why;
}

/*
 * Advances to the next instant at which a job arrives or ends.  Returns false
 * if there is none.
 */
static bool
stream_step(Stream *stream)
{
	int64_t		next = INT64_MAX;
	int			i;

	for (i = 0; i < stream->n; i++)
	{
		const StreamJob *job = &stream->jobs[i];
		int64_t		at = job->state == STATE_COMES ? job->comes :
			job->state == STATE_RUNS ? job->started + job->runs : INT64_MAX;

		if (at < next)
			next = at;
	}
	if (next == INT64_MAX)
		return false;
	stream->now = next;
	for (i = 0; i < stream->n; i++)
	{
		StreamJob  *job = &stream->jobs[i];

		if (job->state == STATE_COMES && job->comes <= next)
			job->state = STATE_WAITS;
		else if (job->state == STATE_RUNS)
		{
			if (job->started + job->runs <= next)
			{
				job->state = STATE_OVER;
				stream->unexpected |= job->runs != job->expected;
			}
			else if (job->started + job->expected <= next)
				stream->unexpected = true;	/* it ran longer than expected */
		}
	}
	return true;
}

/*
 * Runs cycles until no more jobs arrive.  Returns NULL, or what is wrong.
 */
static char *
stream_run(Stream *stream)
{
	char	   *why = NULL;

	while (why == NULL && stream_step(stream))
		why = stream_cycle(stream);
	return why;
}

/*
 * Add a job.
 */
static StreamJob *
stream_job(Stream *stream, int gpus, int64_t comes, int64_t wall)
{
	StreamJob  *job = &stream->jobs[stream->n++];

	memset(job, 0, sizeof(*job));
	job->gpus = gpus;
	job->share = DECIDE_WHOLE;
	job->comes = comes;
	job->wall = job->expected = job->runs = wall;
	job->previous = job->first_previous = NOT_RESERVED;
	return job;
}

/*
 * Makes a random cluster and a random stream.
 */
static void
random_stream(Stream *stream, uint64_t *seed)
{
	bool		exact = random_below(seed, 2) == 0;
	bool		tight = random_below(seed, 2) == 0; /* cpu runs out before
													 * devices */
		int			together = random_below(seed, 2) == 0 ? 25 : 1;
	int			total = 0;
	int			i;

	memset(stream, 0, sizeof(*stream));
	stream->n_nodes = 1 + random_below(seed, 5);
	stream->depth = 1 + random_below(seed, 6);
	for (i = 0; i < stream->n_nodes; i++)
	{
		stream->gpus[i] = 1 + random_below(seed, 6);
		stream->domain[i] = random_below(seed, 3) == 0 ? DECIDE_OWN_GROUP :
			random_below(seed, 2);
		total += stream->gpus[i];
	}
	stream->cpu_milli = tight ? 2000 * (1 + random_below(seed, 3)) : 0;
	for (i = 0; i < 40; i++)
	{
		bool		gang = random_below(seed, 4) == 0;
		StreamJob  *job = stream_job(stream, gang ?
									 1 + random_below(seed, total) :
									 1 + random_below(seed, 2),
									 random_below(seed, 200) / together *
									 together,
									 1 + random_below(seed, gang ? 60 : 30));

		job->topology = random_below(seed, 4) > 0 ? DECIDE_TOPOLOGY_ANY :
			(DecideTopology) random_below(seed, 3);
		if (job->gpus == 1 && random_below(seed, 3) == 0)
			job->share = 100 * (1 + random_below(seed, 9));
		if (tight && random_below(seed, 3) > 0)
			job->cpu_milli = 500 * (1 + random_below(seed, 4));
		if (random_below(seed, 2) == 0)
			job->expected = 1 + random_below(seed, (int) job->wall);
		job->runs = exact ? job->expected : 1 + random_below(seed,
															 (int) job->wall);
	}
}

/*
 * Tests eight nodes of eight devices, a stream of small jobs, and a gang of
 * 64.
 */
static char *
gang_error(uint64_t seed)
{
	Stream	   *stream = calloc(1, sizeof(Stream));
	StreamJob  *gang = NULL;
	char	   *why;
	int			i;

	stream->n_nodes = 8;
	stream->depth = 1;
	for (i = 0; i < 8; i++)
	{
		stream->gpus[i] = 8;
		stream->domain[i] = DECIDE_OWN_GROUP;
	}
	for (i = 0; i < 140; i++)
	{
		StreamJob  *job = stream_job(stream, i == 40 ? 64 :
									 1 + random_below(&seed, 4),
									 i < 40 ? 0 : i,
									 20 + random_below(&seed, 100));

		if (i == 40)
			gang = job;
	}
	why = stream_run(stream);
	if (why == NULL && gang->started != gang->first_previous)
		why = format("the gang was to start at %" PRId64 ", and did at %"
					 PRId64, gang->first_previous, gang->started);
	if (why == NULL && stream->backfilled < 5)
		why = format("nothing was let in behind the gang");
	free(stream);
	return why;
}

/*
 * Tests random streams, and the gang.
 */
void
stream_tests(Tap *tap, int instances)
{
	Stream	   *stream = calloc(1, sizeof(Stream));
	long		kept = 0;
	long		backfilled = 0;
	long		refused = 0;
	long		moved = 0;
	char	   *why = NULL;
	uint64_t	i;

	for (i = 0; i < (uint64_t) instances && why == NULL; i++)
	{
		uint64_t	seed = 700000000 + i;

		random_stream(stream, &seed);
		why = stream_run(stream);
		kept += stream->kept;
		backfilled += stream->backfilled;
		refused += stream->refused;
		moved += stream->moved;
		if (why != NULL)
		{
			char	   *full = format("stream %" PRIu64 ": %s", i, why);

			free(why);
			why = full;
		}
	}
	free(stream);
	printf("# %ld reservations seen again, %ld starts behind one; %ld asks kept"
		   " out, %ld reservations moved\n", kept, backfilled, refused, moved);
	tap_ok(tap, why == NULL, "streams: no reservation moves later, nobody "
		   "outlives one", why);
	tap_ok(tap, why != NULL || (kept > instances && backfilled > instances),
		   "streams: there are reservations and starts behind them", NULL);
	free(why);
	why = NULL;
	for (i = 0; i < 20 && why == NULL; i++)
		why = gang_error(800000000 + i);
	tap_ok(tap, why == NULL, "streams: a gang of 64 starts when it was told",
		   why);
	free(why);
}
