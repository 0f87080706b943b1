/*
 * equivalence.c
 *	  Classes: requests that are equal in all but their wall limit.
 *
 * They fit wherever the other fits, as long as nothing is reserved.  Behind
 * reservations one with a longer limit sees the less: where it is known that a
 * class cannot start a job of some limit, no longer one needs to be tried, and
 * none at all where it is not for reservations.  In the same way none can be
 * reserved for sooner than it was for a shorter one.
 */
#include <string.h>

#include "decide/quota.h"

/*
 * Mix a number into a hash.
 */
static uint64_t
mix(uint64_t hash, int64_t value)
{
	hash = (hash ^ (uint64_t) value) * UINT64_C(0x9E3779B97F4A7C15);
	return hash ^ hash >> 32;
}

/*
 * A number that equal classes share.
 */
static uint64_t
class_hash(const DecideRequestClass *request)
{
	uint64_t	hash = mix(0, request->min_gpus);
	int32_t		i;

	hash = mix(hash, request->max_gpus);
	hash = mix(hash, request->share);
	hash = mix(hash,
			   request->topology << 4 | request->prefer << 1 | request->spot_ok);
	hash = mix(hash, request->cpu_milli);
	hash = mix(hash, request->memory_mib);
	for (i = 0; i < request->n_offers; i++)
		hash = mix(mix(hash, request->offers[i].type),
				   request->offers[i].min_memory);
	return hash;
}

/*
 * Are two requests equal in all but their wall limit?
 */
static bool
same_class(const DecideRequestClass *a, const DecideRequestClass *b)
{
	int32_t		i;

	if (a->min_gpus != b->min_gpus || a->max_gpus != b->max_gpus ||
		a->share != b->share || a->n_offers != b->n_offers ||
		a->topology != b->topology || a->prefer != b->prefer ||
		a->cpu_milli != b->cpu_milli || a->memory_mib != b->memory_mib ||
		a->spot_ok != b->spot_ok || a->apart || b->apart)
		return false;
	for (i = 0; i < a->n_offers && a->offers != b->offers; i++)
	{
		if (a->offers[i].type != b->offers[i].type ||
			a->offers[i].min_memory != b->offers[i].min_memory ||
			a->offers[i].tied != b->offers[i].tied)
			return false;
	}
	return true;
}

/*
 * Find the class of each request.  False: out of memory.
 */
bool
DecideClassesFind(Cycle *cycle)
{
	const DecideInput *input = cycle->input;
	int32_t		n = input->n_requests;
	uint64_t	size = 16;
	int32_t    *table;
	int32_t		n_classes = 0;
	int32_t		i;

	while (size < (uint64_t) n * 2)
		size *= 2;
	table = DecideAlloc(cycle->arena, (int64_t) size, sizeof(int32_t));
	cycle->class_of = DecideAlloc(cycle->arena, n, sizeof(int32_t));
	if (table == NULL || cycle->class_of == NULL)
		return false;
	memset(table, 0xFF, size * sizeof(int32_t));
	for (i = 0; i < n; i++)
	{
		uint64_t	at = class_hash(&input->requests[i]) & (size - 1);

		while (table[at] >= 0 &&
			   !same_class(&input->requests[table[at]], &input->requests[i]))
			at = (at + 1) & (size - 1);
		if (table[at] < 0)
		{
			table[at] = i;
			cycle->class_of[i] = n_classes++;
		}
		else
			cycle->class_of[i] = cycle->class_of[table[at]];
	}
	cycle->classes = DecideAlloc(cycle->arena, n_classes,
								 sizeof(EquivalenceClass));
	if (cycle->classes == NULL)
		return false;
	memset(cycle->classes, 0, (size_t) n_classes * sizeof(EquivalenceClass));
	return true;
}

/*
 * The class of a job; of the one whose turn it is, as far as quotas let it.
 */
EquivalenceClass *
DecideClassOf(const Cycle *cycle, int32_t job)
{
	return cycle->filter != NULL ? &cycle->filter->class :
		&cycle->classes[cycle->class_of[cycle->input->jobs[job].request]];
}

/*
 * Is it known that no job of a class can start that may run for so long?
 */
bool
DecideClassFailed(const EquivalenceClass *class, int64_t wall_limit)
{
	return class->full || (class->failed && wall_limit >= class->shortest);
}

/*
 * How far a class got, for a job of this limit.  What was found out for a
 * shorter one holds, but for the scores of hosts, which look different.
 */
RequestState *
DecideClassState(const Cycle *cycle, EquivalenceClass *class,
				 int64_t wall_limit)
{
	RequestState *state = &class->state;

	if (!DecideAvailabilityAlike(cycle, class->limit, wall_limit))
	{
		if (wall_limit < class->limit)
		{
			state->offer = 0;
			state->spread = false;
		}
		state->started = false;
		state->best = NULL;
	}
	class->limit = wall_limit;
	return state;
}

/*
 * A job of this limit could not start.
 */
void
DecideClassFail(EquivalenceClass *class, int64_t wall_limit, bool full)
{
	if (!class->failed || wall_limit < class->shortest)
		class->shortest = wall_limit;
	class->failed = true;
	class->full |= full;
}

/*
 * Nothing of a class is to be reserved for a job of this limit before then.
 */
int64_t
DecideClassFloor(const Cycle *cycle, const EquivalenceClass *class,
				 int64_t wall_limit)
{
	int64_t		floor = cycle->input->now;
	int32_t		i;

	for (i = 0; i < class->n_floors; i++)
	{
		if (class->floors[i].wall_limit <= wall_limit &&
			class->floors[i].at > floor)
			floor = class->floors[i].at;
	}
	return floor;
}

/*
 * Note the earliest time that was found for a job of this limit.  False: out
 * of memory.
 */
bool
DecideClassReserved(const Cycle *cycle, EquivalenceClass *class,
					int64_t wall_limit,
					int64_t at)
{
	ClassFloor *kept = class->floors;
	int32_t		n = 0;
	int32_t		i;

	for (i = 0; i < class->n_floors; i++)
	{
		if (kept[i].wall_limit < wall_limit || kept[i].at > at)
			kept[n++] = kept[i];
	}
	class->floors = DecideGrow(cycle->arena, class->floors, n,
							   &class->floors_capacity, sizeof(ClassFloor));
	if (class->floors == NULL)
		return false;
	class->floors[n].wall_limit = wall_limit;
	class->floors[n].at = at;
	class->n_floors = n + 1;
	return true;
}
