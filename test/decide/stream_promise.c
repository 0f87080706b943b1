/*
 * stream_promise.c
 *	  Tests that promises to waiting jobs are kept in a stream.
 *
 * No start runs into any reservation that it is behind.  No job is kept
 * waiting without need.  A job that gets a later time than before would get
 * the same time if no job had been allowed to start behind it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stream.h"

/*
 * Returns an error if a start keeps devices beyond the beginning of an earlier
 * reservation.
 */
char *
stream_outlives(const World *world, const DecideResult *result)
{
	int			s;
	int			r;
	int			p;
	int			q;

	for (s = 0; s < result->n_starts; s++)
	{
		const DecideStart *start = &result->starts[s];
		int64_t		end = world->now +
			world->requests[world->jobs[start->job].request].wall_limit;

		for (r = 0; r < result->n_reservations; r++)
		{
			const DecideReservation *held = &result->reservations[r];
			int			share =
			world->requests[world->jobs[held->job].request].share;

			if (held->after > s || end <= held->at ||
				start->share + share <= DECIDE_WHOLE)
				continue;
			for (p = 0; p < start->n_parts; p++)
			{
				const DecidePart *mine = &result->parts[start->first_part + p];

				for (q = 0; q < held->n_parts; q++)
				{
					const DecidePart *theirs =
					&result->reserved_parts[held->first_part + q];

					if (mine->node == theirs->node &&
						(mine->devices & theirs->devices) != 0)
						return format("job %" PRId64 " may outlive what job %"
									  PRId64 " is promised at %" PRId64,
									  world->jobs[start->job].id,
									  world->jobs[held->job].id, held->at);
				}
			}
		}
	}
	return NULL;
}


/*
 * Whether the result would still be right if a job that is kept from reserved
 * devices started on these as well.
 */
static bool
harmless_start(const World *world, const DecideInput *input,
			   const DecideResult *result, int job, int node, uint64_t devices)
{
	const DecideRequestClass *request = &world->requests[world->jobs[job].request];
	DecideStart starts[MOST_JOBS];
	DecidePart	parts[MOST_JOBS * MOST_PARTS];
	DecideReservation reservations[MOST_JOBS];
	DecidePart	reserved[MOST_JOBS * MOST_PARTS];
	DecideResult with = *result;
	Pool		pool;
	DecideArena arena;
	bool		right;
	int			i;
	int			p;

	for (i = 0; i < result->n_starts; i++)
		starts[i] = result->starts[i];
	for (i = 0; i < result->n_parts; i++)
		parts[i] = result->parts[i];
	starts[with.n_starts++] = (DecideStart)
	{
		.job = job, .type = 0, .gpus = request->min_gpus,
			.share = request->share,
			.first_part = result->n_parts, .n_parts = 1
	};
	parts[with.n_parts++] = (DecidePart)
	{
		node, request->min_gpus, devices, request->cpu_milli,
			request->memory_mib,
			share_memory(&world->nodes[node], request->share)
	};
	with.n_reservations = with.n_reserved_parts = 0;
	for (i = 0; i < result->n_reservations; i++)
	{
		DecideReservation held = result->reservations[i];

		/* the job's own claim does not delay it */
		if (held.job == job)
			continue;
		for (p = 0; p < held.n_parts; p++)
			reserved[with.n_reserved_parts + p] =
				result->reserved_parts[held.first_part + p];
		held.first_part = with.n_reserved_parts;
		with.n_reserved_parts += held.n_parts;
		reservations[with.n_reservations++] = held;
	}
	with.starts = starts;
	with.parts = parts;
	with.reservations = reservations;
	with.reserved_parts = reserved;
	pool_init(&pool);
	arena = pool_arena(&pool);
	right = DecideCheck(input, &with, &arena, NULL) == NULL;
	pool_free(&pool);
	return right;
}

/*
 * Returns an error if a job waits for a reservation although it could use
 * devices of one node without delaying it.  Every set of devices of each node
 * is tried; the start comes after all others and all reservations, which
 * allows it no more than its own turn would.
 */
char *
stream_harmless(const World *world, const DecideInput *input,
				const DecideResult *result, long *refused)
{
	int			a;
	int			n;

	for (a = 0; a < world->n_requests; a++)
	{
		const DecideWait *wait = &result->waits[a];

		if (wait->reason != DECIDE_RESERVED)
			continue;
		++*refused;
		for (n = 0; n < world->n_nodes; n++)
		{
			uint64_t	all = UINT64_C(1) << world->nodes[n].gpus;
			uint64_t	devices;

			for (devices = 1; devices < all; devices++)
			{
				if (__builtin_popcountll(devices) != world->requests[a].min_gpus ||
					!harmless_start(world, input, result, wait->job, n,
									devices))
					continue;
				return format("job %" PRId64 " is kept from devices 0x%" PRIx64
							  " of node %s, whose reservations it does not"
							  " touch", world->jobs[wait->job].id, devices,
							  world->nodes[n].name);
			}
		}
	}
	return NULL;
}

/*
 * Whether a job was allowed to start behind another one that waits, to end
 * before its reservation.
 */
static bool
let_in_behind(const Stream *stream, int job, int other)
{
	const StreamJob *waits = &stream->jobs[job];
	const StreamJob *runs = &stream->jobs[other];

	return runs->state == STATE_RUNS &&
		runs->started >= waits->previous_since &&
		runs->started + runs->wall <= waits->previous &&
		stream_turn(stream, other) > stream_turn(stream, job);
}

/*
 * Returns when and where a cycle starts a job, or NOT_TOLD.
 */
static int64_t
decided_of(const World *world, const DecideResult *result, int job,
		   const DecidePart **parts, int *n_parts)
{
	int			i;

	for (i = 0; i < result->n_starts; i++)
	{
		const DecideStart *start = &result->starts[i];

		*parts = &result->parts[start->first_part];
		*n_parts = start->n_parts;
		if (world->jobs[start->job].id == job)
			return world->now;
	}
	for (i = 0; i < result->n_reservations; i++)
	{
		const DecideReservation *held = &result->reservations[i];

		*parts = &result->reserved_parts[held->first_part];
		*n_parts = held->n_parts;
		if (world->jobs[held->job].id == job)
			return held->at;
	}
	*n_parts = 0;
	return NOT_RESERVED;
}

/*
 * Whether two cycles of a stream start all jobs ahead of a job at the same
 * times and places.
 */
static bool
same_ahead(const Stream *stream, int job,
		   const World *world_a, const DecideResult *a,
		   const World *world_b, const DecideResult *b)
{
	int			i;
	int			p;

	for (i = 0; i < stream->n; i++)
	{
		const DecidePart *x;
		const DecidePart *y;
		int			n_x;
		int			n_y;

		if (stream_turn(stream, i) >= stream_turn(stream, job))
			continue;
		if (decided_of(world_a, a, i, &x, &n_x) !=
			decided_of(world_b, b, i, &y, &n_y) || n_x != n_y)
			return false;
		for (p = 0; p < n_x; p++)
		{
			if (x[p].node != y[p].node || x[p].devices != y[p].devices)
				return false;
		}
	}
	return true;
}

/*
 * A job's time if no job had been allowed to start behind it; INT64_MAX if it
 * would never start, or if jobs ahead of it would differ, too.
 */
static int64_t
previous_alone(const Stream *stream, int job, const World *world,
			   const DecideResult *result)
{
	Stream	   *alone = malloc(sizeof(Stream));
	int64_t		at = NOT_RESERVED;
	World		then;
	Pool		pool;
	DecideArena arena;
	DecideInput input;
	DecideResult decided;
	DecidePreviousReservation previous[MOST_JOBS];
	DecidePart	parts[MOST_JOBS * MOST_PARTS];
	const DecidePart *where;
	int			i;

	*alone = *stream;
	for (i = 0; i < stream->n; i++)
	{
		if (let_in_behind(stream, job, i))
			alone->jobs[i].state = STATE_OVER;
	}
	stream_world(alone, &then);
	pool_init(&pool);
	arena = pool_arena(&pool);
	input = world_input(&then);
	stream_previous(alone, &input, previous, parts);
	if (DecideRun(&input, &arena, &decided) == NULL &&
		same_ahead(stream, job, world, result, &then, &decided))
		at = decided_of(&then, &decided, job, &where, &i);
	pool_free(&pool);
	world_free(&then);
	free(alone);
	return at == NOT_RESERVED ? INT64_MAX : at;
}

/*
 * Returns an error if a job gets a later time than it would if no job had been
 * allowed to start behind it.
 *
 * The stream is in its state before the cycle.  Jobs with a later time than
 * before are examined, even if a job ended early or ran longer than expected:
 * that may move any job, but not because of jobs behind it.  A job that would
 * start before its time is not examined, because something ahead of it moved
 * then.
 */
char *
stream_in_the_way(const Stream *stream, const World *world,
				  const DecideResult *result, long *moved)
{
	int			i;
	int			k;

	for (i = 0; i < stream->n; i++)
	{
		const StreamJob *job = &stream->jobs[i];
		bool		behind = false;
		const DecidePart *parts;
		int			n;
		int64_t		at;
		int64_t		alone;

		if (job->state != STATE_WAITS || job->previous == NOT_RESERVED)
			continue;
		at = decided_of(world, result, i, &parts, &n);
		if (at == NOT_RESERVED)
			at = INT64_MAX;
		for (k = 0; k < stream->n && !behind; k++)
			behind = let_in_behind(stream, i, k);
		if (!behind || at <= job->previous)
			continue;
		alone = previous_alone(stream, i, world, result);
		if (alone < job->previous || alone == INT64_MAX)
			continue;
		++*moved;
		if (alone < at)
			return format("job %d, that was to start at %" PRId64
						  ", is to at %" PRId64 ", and would at %" PRId64
						  " had nobody been let in", i, job->previous, at,
						  alone);
	}
	return NULL;
}
