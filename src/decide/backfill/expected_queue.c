/*
 * expected_queue.c
 *	  When jobs without a reservation are expected to start.
 *
 * Only some jobs have reservations.  For the others devices are counted by
 * type, as if any of them would do: in the order of the queue each job gets
 * those that are likely to be free first, for as long as it is likely to run.
 * Each turn counts in fair share, as a start does.  What a cycle would place
 * better or worse than that is not known yet: neither nodes nor who passes
 * others by a short wall limit counts.  So this is an estimate that nothing is
 * decided by, and its error is measured (tools/sim).
 */
#include <string.h>

#include "decide/core/fit.h"
#include "decide/order/order.h"

/* When the devices of a type are likely to be free: a heap, first one first. */
typedef struct FreeTimes
{
	int64_t    *at;
	int32_t		n;
	int32_t		largest;		/* devices of the largest node */
	int64_t		shared_at;		/* when the device is free that shares fill */
	int32_t		shared_left;	/* thousandths; 0: there is none */
} FreeTimes;

typedef struct Expecting
{
	const DecideInput *input;
	const DecideResult *result;
	const DecideArena *arena;
	int64_t   **device_at;		/* by node and device; NULL: it takes no work */
	FreeTimes  *types;
	int32_t		n_types;
	bool	   *known;			/* by job: it starts, is promised or reserved */
	int64_t    *at;				/* by job */
} Expecting;

/*
 * Move an instant down the heap until none below is before it.
 */
static void
heap_sink(FreeTimes *times, int32_t i)
{
	int64_t		item = times->at[i];

	for (;;)
	{
		int64_t		child = 2 * (int64_t) i + 1;

		if (child >= times->n)
			break;
		if (child + 1 < times->n && times->at[child + 1] < times->at[child])
			child++;
		if (times->at[child] >= item)
			break;
		times->at[i] = times->at[child];
		i = (int32_t) child;
	}
	times->at[i] = item;
}

/*
 * Keep devices until an instant, where they are not kept longer.
 */
static void
devices_keep(Expecting *e, const DecidePart *parts, int32_t n, int64_t until)
{
	int32_t		p;
	int32_t		d;

	for (p = 0; p < n; p++)
	{
		int64_t    *at = e->device_at[parts[p].node];

		for (d = 0; at != NULL && d < e->input->nodes[parts[p].node].gpus; d++)
		{
			if (((parts[p].devices >> d) & 1) != 0 && at[d] < until)
				at[d] = until;
		}
	}
}

/*
 * How long a job is likely to run.
 */
static int64_t
likely_run(const DecideInput *input, int32_t job)
{
	int64_t		limit = DecideJobRun(input, job);
	int64_t		run = input->jobs[job].likely_run;

	return run > 0 && run < limit ? run : limit;
}

/*
 * Keep devices for a job that has them from an instant on.
 */
static void
job_keep(Expecting *e, int32_t job, const DecidePart *parts, int32_t n,
		 int64_t from)
{
	e->known[job] = true;
	devices_keep(e, parts, n,
				 DecideTimeAdd(from, likely_run(e->input, job)));
}

/*
 * All devices that take work, and until when what is decided has them.
 */
static bool
devices_begin(Expecting *e, const int64_t *reserved_at)
{
	const DecideInput *input = e->input;
	const DecideResult *result = e->result;
	int32_t		i;
	int32_t		d;

	for (i = 0; i < input->n_nodes; i++)
	{
		const DecideNode *node = &input->nodes[i];

		e->device_at[i] = NULL;
		if (!node->schedulable || node->type < 0 || node->gpus == 0)
			continue;
		e->device_at[i] = DecideAlloc(e->arena, node->gpus, sizeof(int64_t));
		if (e->device_at[i] == NULL)
			return false;
		for (d = 0; d < node->gpus; d++)
			e->device_at[i][d] = input->now;
	}
	for (i = 0; i < input->n_running; i++)
	{
		const DecideRunning *running = &input->running[i];

		devices_keep(e, &input->running_parts[running->first_part],
					 running->n_parts, running->leaving ?
					 running->expected_end : running->likely_end);
	}
	for (i = 0; i < result->n_starts; i++)
		job_keep(e, result->starts[i].job,
				 &result->parts[result->starts[i].first_part],
				 result->starts[i].n_parts, input->now);
	for (i = 0; i < input->n_claims; i++)
	{
		if (input->claims[i].job >= 0)
			job_keep(e, input->claims[i].job,
					 &input->claim_parts[input->claims[i].first_part],
					 input->claims[i].n_parts, input->now);
	}
	for (i = 0; i < result->n_promises; i++)
	{
		if (result->promises[i].job >= 0)
			job_keep(e, result->promises[i].job,
					 &result->promise_parts[result->promises[i].first_part],
					 result->promises[i].n_parts, input->now);
	}
	for (i = 0; i < result->n_reservations; i++)
	{
		const DecideReservation *r = &result->reservations[i];

		job_keep(e, r->job, &result->reserved_parts[r->first_part],
				 r->n_parts, reserved_at[i]);
		e->at[r->job] = reserved_at[i];
	}
	return true;
}

/*
 * The heap of each type.
 */
static bool
types_begin(Expecting *e)
{
	const DecideInput *input = e->input;
	int32_t		i;
	int32_t		d;

	for (i = 0; i < input->n_nodes; i++)
	{
		if (e->device_at[i] != NULL && input->nodes[i].type >= e->n_types)
			e->n_types = input->nodes[i].type + 1;
	}
	e->types = DecideAlloc(e->arena, e->n_types, sizeof(FreeTimes));
	if (e->types == NULL)
		return false;
	memset(e->types, 0, (size_t) e->n_types * sizeof(FreeTimes));
	for (i = 0; i < input->n_nodes; i++)
	{
		FreeTimes  *times;

		if (e->device_at[i] == NULL)
			continue;
		times = &e->types[input->nodes[i].type];
		times->n += input->nodes[i].gpus;
		if (times->largest < input->nodes[i].gpus)
			times->largest = input->nodes[i].gpus;
	}
	for (i = 0; i < e->n_types; i++)
	{
		e->types[i].at = DecideAlloc(e->arena, e->types[i].n,
									 sizeof(int64_t));
		if (e->types[i].at == NULL)
			return false;
		e->types[i].n = 0;
	}
	for (i = 0; i < input->n_nodes; i++)
	{
		for (d = 0; e->device_at[i] != NULL && d < input->nodes[i].gpus; d++)
		{
			FreeTimes  *times = &e->types[input->nodes[i].type];

			if (((input->nodes[i].usable >> d) & 1) != 0)
				times->at[times->n++] = e->device_at[i][d];
		}
	}
	for (i = 0; i < e->n_types; i++)
	{
		for (d = e->types[i].n / 2 - 1; d >= 0; d--)
			heap_sink(&e->types[i], d);
	}
	return true;
}

/*
 * The acceptable type that has enough devices and is free first, or -1.
 */
static int32_t
type_choose(const Expecting *e, const DecideRequestClass *request)
{
	int32_t		best = -1;
	int32_t		o;

	for (o = 0; o < request->n_offers; o++)
	{
		int32_t		type = request->offers[o].type;

		if (type < 0 || type >= e->n_types ||
			e->types[type].n < request->min_gpus ||
			(request->topology == DECIDE_TOPOLOGY_NODE &&
			 e->types[type].largest < request->min_gpus))
			continue;
		if (best < 0 || e->types[type].at[0] < e->types[best].at[0])
			best = type;
	}
	return best;
}

/*
 * Take whole devices of a type: when the last of them is free.
 */
static int64_t
devices_allocate(Expecting *e, FreeTimes *times, int32_t n, int64_t run)
{
	int64_t		begins = e->input->now;
	int32_t		i;

	for (i = 0; i < n; i++)
	{
		begins = times->at[0] > begins ? times->at[0] : begins;
		times->at[0] = times->at[--times->n];
		if (times->n > 0)
			heap_sink(times, 0);
	}
	for (i = 0; i < n; i++)
	{
		int32_t		at = times->n++;
		int64_t		end = DecideTimeAdd(begins, run);

		while (at > 0 && times->at[(at - 1) / 2] > end)
		{
			times->at[at] = times->at[(at - 1) / 2];
			at = (at - 1) / 2;
		}
		times->at[at] = end;
	}
	return begins;
}

/*
 * Take a share of a device: of the one that shares fill up, or of another.
 */
static int64_t
share_allocate(Expecting *e, FreeTimes *times, int32_t share, int64_t run)
{
	if (times->shared_left < share)
	{
		times->shared_at = devices_allocate(e, times, 1, run);
		times->shared_left = DECIDE_WHOLE;
	}
	times->shared_left -= share;
	return times->shared_at;
}

/*
 * Could the pool run the request at all, as far as the cycle found out?
 */
static bool
is_possible(const DecideWait *wait)
{
	switch (wait->reason)
	{
		case DECIDE_NO_SUCH_TYPE:
		case DECIDE_NO_SUCH_MEMORY:
		case DECIDE_SPOT_ONLY:
		case DECIDE_POOL_TOO_SMALL:
		case DECIDE_NODES_UNAVAILABLE:
			return false;
		default:
			return true;
	}
}

/*
 * A job's turn.
 */
static void
job_expect(Expecting *e, Queue *queue, int32_t job)
{
	const DecideInput *input = e->input;
	const DecideJob *j = &input->jobs[job];
	const DecideRequestClass *request = &input->requests[j->request];
	int32_t		type = type_choose(e, request);

	if (request->min_gpus == 0 || request->unpaid || type < 0 ||
		!is_possible(&e->result->waits[j->request]))
		return;
	DecideQueueCharge(queue, j->account, j->tier, type,
					  (int64_t) request->min_gpus *
					  DecideCounted(request, type));
	if (e->known[job])
		return;
	e->at[job] = request->share < DECIDE_WHOLE ?
		share_allocate(e, &e->types[type], request->share,
					   likely_run(input, job)) :
		devices_allocate(e, &e->types[type], request->min_gpus,
						 likely_run(input, job));
}

/*
 * When each waiting job is expected to start; reserved_at is what
 * DecideExpectedStarts found.
 */
const char *
DecideExpectedQueue(const DecideInput *input, const DecideResult *result,
					const DecideArena *arena, const int64_t *reserved_at,
					int64_t **at)
{
	Expecting	e = {.input = input, .result = result, .arena = arena};
	Queue		queue;
	const char *error;
	int32_t		turns = 0;
	int32_t		job;

	DecideAssert(input != NULL && result != NULL);
	DecideAssert(arena != NULL && at != NULL);
	e.at = *at = DecideAlloc(arena, input->n_jobs, sizeof(int64_t));
	e.known = DecideAlloc(arena, input->n_jobs, sizeof(bool));
	e.device_at = DecideAlloc(arena, input->n_nodes, sizeof(int64_t *));
	if (e.at == NULL || e.known == NULL || e.device_at == NULL)
		return "out of memory";
	for (job = 0; job < input->n_jobs; job++)
		e.at[job] = DECIDE_NEVER;
	memset(e.known, 0, (size_t) input->n_jobs * sizeof(bool));
	if (!devices_begin(&e, reserved_at) || !types_begin(&e))
		return "out of memory";
	error = DecideQueueOpen(input, arena, result->held, &queue);
	while (error == NULL && (job = DecideQueueNext(&queue)) >= 0)
	{
		if (turns++ % 256 == 0)
			DecidePoll(arena);
		job_expect(&e, &queue, job);
	}
	return error;
}
