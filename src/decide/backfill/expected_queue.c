/*
 * expected_queue.c
 *	  Estimates when jobs without a reservation will start.
 *
 * Only some jobs have reservations.  For the others a queue is replayed that
 * counts devices by type, as if any of them were suitable: jobs start in the
 * order of the queue, each runs as long as it is likely to, and a job passes
 * the first one that does not fit if it does not delay that one.  Jobs with a
 * reservation take part like the others, but their time is known better.  Each
 * turn counts in fair share, as a start does.  What a cycle would place better
 * or worse than this is not known, because nodes do not count.  So this is an
 * estimate that influences no decision, and its error is measured (tools/sim).
 *
 * Only the first jobs of a long queue are replayed.  A job behind them is
 * expected to start when all devices together have done the work before it.
 * Devices whose job has no known end are not counted for this.
 */
#include <string.h>

#include "decide/core/fit.h"
#include "decide/order/order.h"

#define MOST_REPLAYED	4096	/* most jobs of a type that are replayed */

/* The queue of jobs that wait for devices of a type. */
typedef struct TypeQueue
{
	int32_t		devices;		/* number of devices on nodes that accept work */
	int32_t		passed_on;		/* number of these devices whose jobs are
								 * known to end */
	int32_t		largest;		/* number of devices of the largest node */
	int64_t		work;			/* device time, in microseconds, of the
								 * running and waiting jobs that are known to
								 * end */
	DecideArrival *arrivals;	/* in the order of the queue */
	int32_t		n;
	int32_t		size;
	int32_t		shared;			/* the arrival that further shares can join,
								 * or -1 */
	int32_t		shared_left;	/* thousandths of a device that are free in it */
} TypeQueue;

typedef struct Expecting
{
	const DecideInput *input;
	const DecideResult *result;
	const DecideArena *arena;
	int64_t   **device_at;		/* for each node and device the time until
								 * which it is occupied; NULL for nodes that
								 * accept no work */
	TypeQueue  *types;
	int32_t		n_types;
	bool	   *known;			/* whether each job starts now or is promised
								 * devices */
	int32_t    *type;			/* for each job the type in whose queue it is,
								 * or -1 */
	int32_t    *arrival;		/* for each job its position in that queue */
	int64_t    *at;				/* the expected start of each job */
} Expecting;

/*
 * Marks devices as occupied until an instant, unless they are occupied longer.
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
 * How long a job is likely to run, in microseconds.
 */
static int64_t
likely_run(const DecideInput *input, int32_t job)
{
	int64_t		limit = DecideJobRun(input, job);
	int64_t		run = input->jobs[job].likely_run;

	return run > 0 && run < limit ? run : limit;
}

/*
 * Marks devices as occupied by a job from an instant on.
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
 * Finds all devices on nodes that accept work, and until when the jobs that
 * run, start or are promised devices occupy them.  Returns false if memory
 * runs out.
 */
static bool
devices_begin(Expecting *e)
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
	return true;
}

/*
 * Counts the devices of each type and the work of the jobs that occupy them.
 * Returns false if memory runs out.
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
	e->types = DecideAlloc(e->arena, e->n_types, sizeof(TypeQueue));
	if (e->types == NULL)
		return false;
	memset(e->types, 0, (size_t) e->n_types * sizeof(TypeQueue));
	for (i = 0; i < input->n_nodes; i++)
	{
		const DecideNode *node = &input->nodes[i];
		TypeQueue  *type;

		if (e->device_at[i] == NULL)
			continue;
		type = &e->types[node->type];
		if (type->largest < node->gpus)
			type->largest = node->gpus;
		for (d = 0; d < node->gpus; d++)
		{
			if (((node->usable >> d) & 1) == 0)
				continue;
			type->devices++;
			if (e->device_at[i][d] == DECIDE_NEVER)
				continue;
			type->passed_on++;
			if (e->device_at[i][d] > input->now)
				type->work = DecideTimeAdd(type->work, e->device_at[i][d] -
										   input->now);
		}
	}
	for (i = 0; i < e->n_types; i++)
		e->types[i].shared = -1;
	return true;
}

/*
 * How long the devices of a type whose jobs are known to end are busy before a
 * job with so many devices has its turn; DECIDE_NEVER if there are too few
 * such devices.
 */
static int64_t
type_busy(const TypeQueue *type, int32_t gpus)
{
	if (type->passed_on <= 0 || type->passed_on < gpus ||
		type->work == DECIDE_NEVER)
		return DECIDE_NEVER;
	return type->work / type->passed_on;
}

/*
 * Returns the acceptable type that has enough devices and the least work for
 * each device, or -1.
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
			e->types[type].devices < request->min_gpus ||
			(request->topology == DECIDE_TOPOLOGY_NODE &&
			 e->types[type].largest < request->min_gpus))
			continue;
		if (best < 0 || type_busy(&e->types[type], request->min_gpus) <
			type_busy(&e->types[best], request->min_gpus))
			best = type;
	}
	return best;
}

/*
 * Whether the pool could run the request at all, as far as the cycle found
 * out.
 */
static bool
is_possible(const DecideWait *wait)
{
	switch (wait->reason)
	{
		case DECIDE_NO_SUCH_TYPE:
		case DECIDE_NO_SUCH_MEMORY:
		case DECIDE_FILTERED:
		case DECIDE_SPOT_ONLY:
		case DECIDE_POOL_TOO_SMALL:
		case DECIDE_NODES_UNAVAILABLE:
			return false;
		default:
			return true;
	}
}

/*
 * Add a job to the queue of a type.  Returns false if memory runs out.
 */
static bool
arrival_add(Expecting *e, TypeQueue *type, int32_t job,
			const DecideRequestClass *request)
{
	int64_t		run = likely_run(e->input, job);
	bool		share = request->share < DECIDE_WHOLE;
	int64_t		busy = type_busy(type, request->min_gpus);

	if (busy < DECIDE_NEVER && run == DECIDE_NEVER)
		type->passed_on -= share ? 0 : request->min_gpus;
	else if (busy < DECIDE_NEVER)
		type->work = DecideTimeAdd(type->work, run < DECIDE_NEVER /
								   (request->min_gpus + 1) ?
								   run * request->min_gpus / DECIDE_WHOLE *
								   request->share : DECIDE_NEVER);
	if (type->n == MOST_REPLAYED)
	{
		e->arrival[job] = -1;
		e->at[job] = DecideTimeAdd(e->input->now, busy);
		return true;
	}
	if (share && type->shared >= 0 && type->shared_left >= request->share)
	{
		/*
		 * it starts together with the share that was the first on the device
		 */
		type->shared_left -= request->share;
		e->arrival[job] = type->shared;
		return true;
	}
	type->arrivals = DecideGrow(e->arena, type->arrivals, type->n, &type->size,
								sizeof(DecideArrival));
	if (type->arrivals == NULL)
		return false;
	type->arrivals[type->n] = (DecideArrival){
												.at = e->input->now, .run = run,
												.devices = (int64_t) request->min_gpus * DECIDE_WHOLE
		};
	if (share)
	{
		type->shared = type->n;
		type->shared_left = DECIDE_WHOLE - request->share;
	}
	e->arrival[job] = type->n++;
	return true;
}

/*
 * Adds a job to the queue of a type at its turn, and counts it in fair share.
 * Returns false if memory runs out.
 */
static bool
job_expect(Expecting *e, Queue *queue, int32_t job)
{
	const DecideInput *input = e->input;
	const DecideJob *j = &input->jobs[job];
	const DecideRequestClass *request = &input->requests[j->request];
	int32_t		type = type_choose(e, request);

	if (request->min_gpus == 0 || request->unpaid || type < 0 ||
		!is_possible(&e->result->waits[j->request]))
		return true;
	DecideQueueCharge(queue, j->account, j->tier, type,
					  (int64_t) request->min_gpus *
					  DecideCounted(request, type));
	if (e->known[job] || request->filter != NULL)
		return true;
	e->type[job] = type;
	return arrival_add(e, &e->types[type], job, request);
}

/*
 * Replay the queue of a type.  Returns false if memory runs out.
 */
static bool
type_replay(Expecting *e, int32_t t, int64_t **starts)
{
	const DecideInput *input = e->input;
	TypeQueue  *type = &e->types[t];
	uint64_t   *ends = DecideAlloc(e->arena, type->devices, sizeof(uint64_t));
	uint64_t   *spare = DecideAlloc(e->arena, type->devices, sizeof(uint64_t));
	DecideReplay replay = {.arrivals = type->arrivals, .n = type->n,
		.wait = DECIDE_NEVER, .arena = e->arena};
	int32_t		n_ends = 0;
	int32_t		n = 0;
	int32_t		i;
	int32_t		d;

	replay.running = DecideAlloc(e->arena, (int64_t) type->devices + type->n,
								 sizeof(DecideArrival));
	replay.queue = DecideAlloc(e->arena, type->n, sizeof(int32_t));
	*starts = replay.starts = DecideAlloc(e->arena, type->n, sizeof(int64_t));
	if (ends == NULL || spare == NULL || replay.running == NULL ||
		replay.queue == NULL || *starts == NULL)
		return false;
	for (i = 0; i < input->n_nodes; i++)
	{
		if (e->device_at[i] == NULL || input->nodes[i].type != t)
			continue;
		for (d = 0; d < input->nodes[i].gpus; d++)
		{
			if (((input->nodes[i].usable >> d) & 1) != 0 &&
				e->device_at[i][d] > input->now)
				ends[n_ends++] = (uint64_t) e->device_at[i][d];
		}
	}
	DecideSortKeys(ends, spare, n_ends);
	for (i = 0; i < n_ends; i++)
	{
		if (n == 0 || replay.running[n - 1].at != (int64_t) ends[i])
			replay.running[n++] = (DecideArrival){.at = (int64_t) ends[i]};
		replay.running[n - 1].devices += DECIDE_WHOLE;
	}
	for (i = 0; i < type->n; i++)
		(*starts)[i] = DECIDE_NEVER;
	DecideReplayRun(&replay, (int64_t) type->devices * DECIDE_WHOLE, n,
					~(DeviceTime) 0);
	return true;
}

/*
 * Computes when each waiting job is expected to start.  reserved_at is what
 * DecideExpectedStarts computed.
 */
const char *
DecideExpectedQueue(const DecideInput *input, const DecideResult *result,
					const DecideArena *arena, const int64_t *reserved_at,
					int64_t **at)
{
	Expecting	e = {.input = input, .result = result, .arena = arena};
	int64_t   **starts;
	Queue		queue;
	const char *error;
	int32_t		turns = 0;
	int32_t		job;
	int32_t		i;

	DecideAssert(input != NULL && result != NULL);
	DecideAssert(arena != NULL && at != NULL);
	e.at = *at = DecideAlloc(arena, input->n_jobs, sizeof(int64_t));
	e.known = DecideAlloc(arena, input->n_jobs, sizeof(bool));
	e.type = DecideAlloc(arena, input->n_jobs, sizeof(int32_t));
	e.arrival = DecideAlloc(arena, input->n_jobs, sizeof(int32_t));
	e.device_at = DecideAlloc(arena, input->n_nodes, sizeof(int64_t *));
	if (e.at == NULL || e.known == NULL || e.device_at == NULL ||
		e.type == NULL || e.arrival == NULL)
		return "out of memory";
	for (job = 0; job < input->n_jobs; job++)
		e.type[job] = -1;
	memset(e.known, 0, (size_t) input->n_jobs * sizeof(bool));
	if (!devices_begin(&e) || !types_begin(&e))
		return "out of memory";
	error = DecideQueueOpen(input, arena, result->held, &queue);
	while (error == NULL && (job = DecideQueueNext(&queue)) >= 0)
	{
		if (turns++ % 256 == 0)
			DecidePoll(arena);
		if (!job_expect(&e, &queue, job))
			return "out of memory";
	}
	if (error != NULL)
		return error;
	starts = DecideAlloc(arena, e.n_types, sizeof(int64_t *));
	if (starts == NULL)
		return "out of memory";
	for (i = 0; i < e.n_types; i++)
	{
		if (e.types[i].n > 0 && !type_replay(&e, i, &starts[i]))
			return "out of memory";
	}
	for (job = 0; job < input->n_jobs; job++)
	{
		if (e.type[job] < 0)
			e.at[job] = DECIDE_NEVER;
		else if (e.arrival[job] >= 0)
			e.at[job] = starts[e.type[job]][e.arrival[job]];
	}
	for (i = 0; i < result->n_reservations; i++)
		e.at[result->reservations[i].job] = reserved_at[i];
	return NULL;
}
