/*
 * earlier.c
 *	  Tests whether any reservation of a result could be earlier.
 *
 * Each reservation is moved to every instant at which anything before it ends
 * or starts.  The check of reservations then judges the result as it was when
 * the reservation was made.  If it finds nothing wrong, the search missed that
 * instant.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "decide/check/check.h"
#include "world.h"

/*
 * How long a job is expected to run.
 */
static int64_t
run_of(const World *world, int job)
{
	const DecideJob *j = &world->jobs[job];
	int64_t		wall = world->requests[j->request].wall_limit;

	return j->expected_run > 0 && j->expected_run < wall ? j->expected_run :
		wall;
}

/*
 * The sum of an instant and a duration.
 */
static int64_t
later(int64_t at, int64_t by)
{
	return by > DECIDE_NEVER - at ? DECIDE_NEVER : at + by;
}

/*
 * Lists the instants at which anything before a reservation ends or starts.
 */
static int
instants_list(const World *world, const DecideResult *result, int index,
			  int64_t *instants)
{
	const DecideReservation *r = result->reservations;
	int			n = 0;
	int			i;

	for (i = 0; i < world->n_running; i++)
		instants[n++] = world->running[i].expected_end;
	for (i = 0; i < r[index].after; i++)
		instants[n++] = later(world->now,
							  run_of(world, result->starts[i].job));
	for (i = 0; i < index; i++)
	{
		instants[n++] = r[i].at;
		instants[n++] = later(r[i].at, run_of(world, r[i].job));
	}
	return n;
}

/*
 * Whether the check would accept the last reservation of a result at an
 * instant.
 */
static bool
allowed_at(const DecideInput *input, DecideResult *made, int64_t at)
{
	DecideReservation *r = &made->reservations[made->n_reservations - 1];
	DecideReservation was = *r;
	Pool		pool;
	DecideArena arena;
	bool		allowed;

	pool_init(&pool);
	arena = pool_arena(&pool);
	r->at = at;
	allowed = DecideCheckReserved(input, made, &arena) == NULL;
	*r = was;
	pool_free(&pool);
	return allowed;
}

/*
 * Returns which reservation could be earlier, and when, or NULL.
 */
char *
earlier_error(const World *world, const DecideResult *result)
{
	DecideInput input = world_input(world);
	int64_t    *instants = malloc(sizeof(int64_t) *
								  (size_t) (world->n_running +
											result->n_starts +
											2 * result->n_reservations + 1));
	char	   *why = NULL;
	int			i;
	int			k;

	for (i = 0; i < result->n_reservations && why == NULL; i++)
	{
		const DecideReservation *r = &result->reservations[i];
		DecideResult made = *result;
		int			n = instants_list(world, result, i, instants);

		made.n_reservations = i + 1;
		made.n_reserved_parts = r->first_part + r->n_parts;
		made.n_starts = r->after;
		for (k = 0; k < n && why == NULL; k++)
		{
			if (instants[k] > world->now && instants[k] < r->at &&
				allowed_at(&input, &made, instants[k]))
				why = format("reservation %d could be at %" PRId64 ", not %"
							 PRId64, i, instants[k], r->at);
		}
	}
	free(instants);
	return why;
}
