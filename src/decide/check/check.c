/*
 * check.c
 *	  Is a result right?  Shares no code with what made it.
 *
 * Each start is compared with its request; then the parts are sorted by node,
 * and each node's parts are compared with what the node has.  Only what the
 * result names is looked at, so the time depends on its size.
 */
#include <string.h>

#include "decide/check/check.h"

typedef unsigned __int128 Wide;

/*
 * total * gpus / count, rounded up.
 */
static int64_t
split(int64_t total, int32_t gpus, int32_t count)
{
	Wide		product = (Wide) total * (Wide) gpus;
	Wide		whole = product / (Wide) count;

	return (int64_t) (whole + (whole * (Wide) count < product ? 1 : 0));
}

/*
 * The MiB of a device that a start of the request takes: 0 for whole devices;
 * for a share its floor for the type, or as much of the memory as of the
 * device.
 */
static int64_t
memory_of_device(const DecideRequestClass *request, const DecideNode *node)
{
	Wide		least = (Wide) INT64_MAX;
	int32_t		i;

	if (request->share == DECIDE_WHOLE)
		return 0;
	for (i = 0; i < request->n_offers; i++)
	{
		Wide		floor = ((Wide) request->offers[i].min_memory + 1048575) /
			1048576;

		if (request->offers[i].type == node->type && floor < least)
			least = floor;
	}
	return least > 0 ? (int64_t) least : (int64_t)
		((Wide) node->gpu_memory_mib * (Wide) request->share / DECIDE_WHOLE);
}

/*
 * Does one of the request's offers allow the start's type on all of its nodes?
 */
static bool
offer_allows(const DecideInput *input, const DecideResult *result,
			 const DecideStart *start, const DecideRequestClass *request)
{
	int32_t		i;
	int32_t		j;

	for (i = 0; i < request->n_offers; i++)
	{
		const DecideOffer *offer = &request->offers[i];

		if (offer->type != start->type)
			continue;
		for (j = 0; j < start->n_parts; j++)
		{
			const DecidePart *part = &result->parts[start->first_part + j];
			Wide		has = (Wide) input->nodes[part->node].gpu_memory_mib;

			if (has * 1048576 < (Wide) offer->min_memory)
				break;
		}
		if (j == start->n_parts)
			return true;
	}
	return false;
}

/*
 * Is a start as close together as its topology says?
 */
static bool
topology_holds(const DecideInput *input, const DecideResult *result,
			   const DecideStart *start, DecideTopology topology)
{
	const DecidePart *parts = &result->parts[start->first_part];
	const DecideNode *first = &input->nodes[parts[0].node];
	int32_t		i;

	for (i = 1; i < start->n_parts; i++)
	{
		const DecideNode *node = &input->nodes[parts[i].node];

		if (topology == DECIDE_TOPOLOGY_NODE)
			return false;
		if (topology == DECIDE_TOPOLOGY_NVLINK &&
			(node->domain < 0 || node->domain != first->domain))
			return false;
		if (topology == DECIDE_TOPOLOGY_LEAF &&
			(node->leaf < 0 || node->leaf != first->leaf))
			return false;
	}
	return true;
}

/*
 * What is wrong with one part of a start by itself, or NULL.
 */
static const char *
part_error(const DecideInput *input, const DecideStart *start,
		   const DecideRequestClass *request, const DecidePart *part)
{
	const DecideNode *node;
	uint64_t	rest;
	int32_t		devices = 0;
	int32_t		count = start->gpus > 0 ? start->gpus : 1;
	int32_t		gpus = start->gpus > 0 ? part->gpus : 1;

	if (part->node < 0 || part->node >= input->n_nodes)
		return "a start is on a node that is not there";
	node = &input->nodes[part->node];
	if (!node->schedulable)
		return "a start is on a node that takes no new work";
	if (node->spot && !request->spot_ok)
		return "a start that must not be preempted is on a spot node";
	if (start->gpus > 0 && node->type != start->type)
		return "a start is on a node of another type";
	for (rest = part->devices; rest != 0; rest &= rest - 1)
	{
		int			i = __builtin_ctzll(rest);

		if (i >= node->gpus || ((node->usable >> i) & 1) == 0)
			return "a start has a device that is not usable";
		devices++;
	}
	if (devices != part->gpus)
		return "a part's devices are not as many as it says";
	if (start->gpus > 0 && devices == 0)
		return "a start has a part without devices";
	if (part->cpu_milli != split(request->cpu_milli, gpus, count) ||
		part->memory_mib != split(request->memory_mib, gpus, count))
		return "a part's cpu or memory is not its share of the job's";
	if (part->gpu_memory_mib != memory_of_device(request, node))
		return "a part takes another memory of its device than its ask";
	return NULL;
}

/*
 * What is wrong with one start by its request, or NULL.
 */
static const char *
start_error(const DecideInput *input, const DecideResult *result,
			const DecideStart *start)
{
	const DecideRequestClass *request;
	const char *error;
	int64_t		gpus = 0;
	int32_t		i;

	if (start->job < 0 || start->job >= input->n_jobs)
		return "a start is of a job that is not there";
	request = &input->requests[input->jobs[start->job].request];
	if (start->n_parts < 1 || start->first_part < 0 ||
		start->n_parts > result->n_parts - start->first_part)
		return "a start has no parts, or parts that are not there";
	if (start->gpus < request->min_gpus || start->gpus > request->max_gpus)
		return "a start has fewer or more devices than its ask";
	if (start->share != request->share)
		return "a start has another share than its ask";
	for (i = 0; i < start->n_parts; i++)
	{
		const DecidePart *part = &result->parts[start->first_part + i];

		error = part_error(input, start, request, part);
		if (error != NULL)
			return error;
		gpus += part->gpus;
	}
	if (gpus != start->gpus)
		return "a gang is not whole";
	if (start->gpus == 0 && (start->n_parts != 1 ||
							 start->type != DECIDE_NO_TYPE))
		return "a start without devices is not on one node";
	if (start->gpus > 0 && !offer_allows(input, result, start, request))
		return "a start has a type or memory that its ask does not accept";
	if (!topology_holds(input, result, start, request->topology))
		return "a start is not together as its topology asks";
	return NULL;
}

/*
 * Are all quotas kept, and is no job held back without reason?
 *
 * Running jobs are added to claims, and to what the result starts, promises
 * and lets grow.  No quota that counts something new may be exceeded, also
 * not with reservations.  A job that is held back could not start.  Growth
 * adds devices and no job; a job without devices adds no devices.  So a quota
 * that was exceeded before may stay so, if nothing of its kind is added.
 */

/* Sums under one quota. */
typedef struct Sum
{
	DecideUse	used;
	bool		more[DECIDE_LIMITED];	/* the result adds some of it */
} Sum;

typedef struct QuotaSums
{
	const DecideInput *input;
	int32_t    *order;			/* quotas by account */
	Sum		   *sums;			/* by quota */
} QuotaSums;

/*
 * Compare two quotas by account.
 */
static int
compare_quotas(const void *context, int32_t a, int32_t b)
{
	const DecideQuota *quotas = context;

	if (quotas[a].account != quotas[b].account)
		return quotas[a].account < quotas[b].account ? -1 : 1;
	return a < b ? -1 : a > b;
}

/*
 * Where an account's own quotas begin in the order.
 */
static int32_t
own_quotas(const QuotaSums *sums, int32_t account)
{
	int32_t		low = 0;
	int32_t		high = sums->input->n_quotas;

	while (low < high)
	{
		int32_t		middle = low + (high - low) / 2;

		if (sums->input->quotas[sums->order[middle]].account < account)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/*
 * Add what jobs with devices of a type use to all quotas that count them.
 */
static void
sum_add(const QuotaSums *sums, int32_t account, int32_t type, DecideUse use,
		bool more)
{
	const DecideInput *input = sums->input;
	int32_t		i;
	int			l;

	for (; account >= 0; account = input->accounts[account].parent)
	{
		for (i = own_quotas(sums, account); i < input->n_quotas &&
			 input->quotas[sums->order[i]].account == account; i++)
		{
			int32_t		q = sums->order[i];
			Sum		   *sum = &sums->sums[q];

			if (input->quotas[q].type != DECIDE_ANY_TYPE &&
				input->quotas[q].type != type)
				continue;
			for (l = 0; l < DECIDE_LIMITED; l++)
			{
				if (sum->used.of[l] > INT64_MAX - use.of[l])
					sum->used.of[l] = INT64_MAX;
				else
					sum->used.of[l] += use.of[l];
				sum->more[l] |= more && use.of[l] > 0;
			}
		}
	}
}

/*
 * What a job of a class uses, computed apart from the code that decides.
 */
static DecideUse
job_use(const DecideRequestClass *request, int32_t type, int32_t gpus)
{
	DecideUse	use;

	use.of[DECIDE_LIMITED_JOBS] = 1;
	use.of[DECIDE_LIMITED_DEVICES] = (int64_t) gpus *
		DecideCheckCounted(request, type);
	use.of[DECIDE_LIMITED_CPU] = request->cpu_milli;
	use.of[DECIDE_LIMITED_MEMORY] = request->memory_mib;
	return use;
}

/*
 * What the job of a claim uses: the sums over its parts.
 */
static DecideUse
claim_use(const DecideInput *input, const DecideClaim *claim)
{
	DecideUse	use = {.of[DECIDE_LIMITED_JOBS] = 1};
	int32_t		p;

	use.of[DECIDE_LIMITED_DEVICES] = (int64_t) claim->gpus *
		(claim->counted > 0 ? claim->counted : claim->share);
	for (p = 0; p < claim->n_parts; p++)
	{
		const DecidePart *part = &input->claim_parts[claim->first_part + p];

		use.of[DECIDE_LIMITED_CPU] += part->cpu_milli;
		use.of[DECIDE_LIMITED_MEMORY] += part->memory_mib;
	}
	return use;
}

/*
 * What a running job that grows adds: devices only.
 */
static DecideUse
grown_use(int64_t gpus, int32_t counted, int32_t share)
{
	DecideUse	use = {{0}};

	use.of[DECIDE_LIMITED_DEVICES] = gpus * (counted > 0 ? counted : share);
	return use;
}

/*
 * Add claims that do not start, beyond what runs.  False: out of memory.
 */
static bool
sum_claims(const QuotaSums *sums, const DecideResult *result,
		   const DecideArena *arena)
{
	const DecideInput *input = sums->input;
	bool	   *starts = DecideAlloc(arena, input->n_jobs, sizeof(bool));
	int32_t		i;
	int32_t		r;

	if (starts == NULL)
		return false;
	if (input->n_jobs > 0)
		memset(starts, 0, (size_t) input->n_jobs * sizeof(bool));
	for (i = 0; i < result->n_starts; i++)
		starts[result->starts[i].job] = true;
	for (i = 0; i < input->n_claims; i++)
	{
		const DecideClaim *claim = &input->claims[i];
		int64_t		gpus = claim->gpus;

		if (claim->job >= 0 && starts[claim->job])
			continue;
		for (r = 0; claim->running && r < input->n_running; r++)
		{
			const DecideRunning *running = &input->running[r];

			if (running->id == claim->id && !running->over &&
				strcmp(running->org, claim->org) == 0)
				break;
		}
		if (claim->running)
			gpus -= r < input->n_running ? input->running[r].gpus : gpus;
		if (!claim->running)
			sum_add(sums, claim->account, claim->type, claim_use(input, claim),
					false);
		else if (gpus > 0)
			sum_add(sums, claim->account, claim->type,
					grown_use(gpus, claim->counted, claim->share), false);
	}
	return true;
}

/*
 * Add what the result starts, promises, and lets grow.
 */
static void
sum_result(const QuotaSums *sums, const DecideResult *result)
{
	const DecideInput *input = sums->input;
	int32_t		i;

	for (i = 0; i < result->n_starts; i++)
	{
		const DecideStart *s = &result->starts[i];
		const DecideJob *job = &input->jobs[s->job];

		sum_add(sums, job->account, s->type,
				job_use(&input->requests[job->request], s->type, s->gpus),
				true);
	}
	for (i = 0; i < result->n_promises; i++)
	{
		const DecidePromise *p = &result->promises[i];
		const DecideRunning *running = p->job >= 0 ? NULL :
			&input->running[p->running];

		if (running == NULL)
			sum_add(sums, input->jobs[p->job].account, p->type,
					job_use(&input->requests[input->jobs[p->job].request],
							p->type, p->gpus), true);
		else if (p->gpus > running->gpus)
			sum_add(sums, running->account, p->type,
					grown_use(p->gpus - running->gpus, running->counted,
							  running->share), true);
	}
}

/*
 * Would a job that uses this, with devices of a type, keep all its quotas?
 */
static bool
has_capacity(const QuotaSums *sums, int32_t account, int32_t type,
			 DecideUse use)
{
	const DecideInput *input = sums->input;
	int32_t		i;
	int			l;

	for (; account >= 0; account = input->accounts[account].parent)
	{
		for (i = own_quotas(sums, account); i < input->n_quotas &&
			 input->quotas[sums->order[i]].account == account; i++)
		{
			const DecideQuota *quota = &input->quotas[sums->order[i]];
			const Sum  *sum = &sums->sums[sums->order[i]];

			if (quota->type != DECIDE_ANY_TYPE && quota->type != type)
				continue;
			for (l = 0; l < DECIDE_LIMITED; l++)
			{
				if (quota->most.of[l] >= 0 && use.of[l] > 0 &&
					use.of[l] > quota->most.of[l] - sum->used.of[l])
					return false;
			}
		}
	}
	return true;
}

/*
 * Could a job start that is reported as held back?
 */
static bool
is_wronged(const QuotaSums *sums, const DecideJob *job)
{
	const DecideRequestClass *request = &sums->input->requests[job->request];
	int32_t		i;

	if (request->max_gpus == 0)
		return has_capacity(sums, job->account, DECIDE_NO_TYPE,
							job_use(request, DECIDE_NO_TYPE, 0));
	for (i = 0; i < request->n_offers; i++)
	{
		int32_t		type = request->offers[i].type;

		if (has_capacity(sums, job->account, type,
						 job_use(request, type, request->min_gpus)))
			return true;
	}
	return false;
}

/*
 * Is a quota exceeded to which something was added?
 */
static bool
is_passed(const QuotaSums *sums)
{
	int32_t		i;
	int			l;

	for (i = 0; i < sums->input->n_quotas; i++)
	{
		const DecideQuota *quota = &sums->input->quotas[i];
		const Sum  *sum = &sums->sums[i];

		for (l = 0; l < DECIDE_LIMITED; l++)
		{
			if (sum->more[l] && quota->most.of[l] >= 0 &&
				sum->used.of[l] > quota->most.of[l])
				return true;
		}
	}
	return false;
}

/*
 * Verify that quotas are kept, and hold back no other jobs.
 */
static const char *
quotas_error(const DecideInput *input, const DecideResult *result,
			 const DecideArena *arena)
{
	QuotaSums	sums = {.input = input};
	int32_t		i;

	if (input->n_quotas == 0)
		return NULL;
	sums.order = DecideAlloc(arena, input->n_quotas, sizeof(int32_t));
	sums.sums = DecideAlloc(arena, input->n_quotas, sizeof(Sum));
	if (sums.order == NULL || sums.sums == NULL)
		return "out of memory";
	for (i = 0; i < input->n_quotas; i++)
	{
		sums.order[i] = i;
		sums.sums[i] = (Sum)
		{
			.used = input->quotas[i].used
		};
	}
	if (!DecideSort(arena, sums.order, input->n_quotas, compare_quotas,
					input->quotas))
		return "out of memory";
	if (!sum_claims(&sums, result, arena))
		return "out of memory";
	sum_result(&sums, result);
	if (is_passed(&sums))
		return "a quota is passed";
	if (input->n_jobs > 0 && result->held == NULL)
		return "it is not said whom quotas hold back";
	for (i = 0; i < input->n_jobs; i++)
	{
		if (result->held[i] != DECIDE_NOT_HELD &&
			is_wronged(&sums, &input->jobs[i]))
			return "a job is held back that its quotas leave something";
	}
	for (i = 0; i < result->n_reservations; i++)
	{
		const DecideReservation *r = &result->reservations[i];
		const DecideJob *job = &input->jobs[r->job];

		if (result->held[r->job] != DECIDE_NOT_HELD)
			return "a job has a reservation that quotas hold back";
		sum_add(&sums, job->account, r->type,
				job_use(&input->requests[job->request], r->type, r->gpus),
				true);
	}
	/* after max_starts, later turns were not looked at */
	return result->n_starts < input->max_starts && is_passed(&sums) ?
		"a quota is passed by what is reserved" : NULL;
}

/*
 * Compare two parts by node.
 */
static int
compare_node(const void *context, int32_t a, int32_t b)
{
	const DecidePart *parts = context;

	if (parts[a].node != parts[b].node)
		return parts[a].node < parts[b].node ? -1 : 1;
	return a < b ? -1 : 1;
}

/*
 * Compare two starts by job.
 */
static int
compare_job(const void *context, int32_t a, int32_t b)
{
	const DecideStart *starts = context;

	return starts[a].job < starts[b].job ? -1 : starts[a].job > starts[b].job;
}

/*
 * What is wrong with the n listed parts on one node, or NULL; *bad is the
 * wrong part.
 */
static const char *
node_error(const DecideInput *input, const DecideResult *result,
		   const int32_t *owner, const int32_t *list, int32_t n, int32_t *bad)
{
	const DecideNode *node = &input->nodes[result->parts[list[0]].node];
	Wide		cpu = 0;
	Wide		memory = 0;
	int32_t		given[DECIDE_MAX_DEVICES] = {0};
	Wide		gpu_memory[DECIDE_MAX_DEVICES] = {0};
	uint64_t	rest;
	int32_t		i;

	for (i = 0; i < n; i++)
	{
		const DecidePart *part = &result->parts[list[i]];
		int32_t		share = result->starts[owner[list[i]]].share;

		*bad = list[i];
		if (i > 0 && owner[list[i]] == owner[list[i - 1]])
			return "a start is on one node twice";
		for (rest = part->devices; rest != 0; rest &= rest - 1)
		{
			int			d = __builtin_ctzll(rest);

			given[d] += share;
			if (given[d] > node->device_left[d])
				return "a device is given out twice or over what it has left";
			gpu_memory[d] += (Wide) part->gpu_memory_mib;
			if (part->gpu_memory_mib > 0 &&
				gpu_memory[d] + (Wide) node->gpu_memory_used[d] >
				(Wide) node->gpu_memory_mib)
				return "a device's memory is given out over what it has left";
		}
		cpu += (Wide) part->cpu_milli;
		memory += (Wide) part->memory_mib;
		if (node->cpu_milli > 0 && part->cpu_milli > 0 &&
			(node->cpu_left < 0 || cpu > (Wide) node->cpu_left))
			return "a node's cpu is given out over what it has left";
		if (node->memory_mib > 0 && part->memory_mib > 0 &&
			(node->memory_left < 0 || memory > (Wide) node->memory_left))
			return "a node's memory is given out over what it has left";
	}
	return NULL;
}

/*
 * Verify that the nodes have what the parts take.
 */
static const char *
nodes_error(const DecideInput *input, const DecideResult *result,
			const DecideArena *arena, int32_t *where)
{
	int32_t		n = result->n_parts;
	int32_t    *owner = DecideAlloc(arena, n, sizeof(int32_t));
	int32_t    *list = DecideAlloc(arena, n, sizeof(int32_t));
	int32_t		first;
	int32_t		last;
	int32_t		i;

	if (owner == NULL || list == NULL)
		return "out of memory";
	for (i = 0; i < result->n_starts; i++)
	{
		const DecideStart *start = &result->starts[i];

		for (first = 0; first < start->n_parts; first++)
			owner[start->first_part + first] = i;
	}
	for (i = 0; i < n; i++)
		list[i] = i;
	if (!DecideSort(arena, list, n, compare_node, result->parts))
		return "out of memory";
	for (first = 0; first < n; first = last)
	{
		int32_t		bad = 0;
		const char *error;

		for (last = first + 1; last < n; last++)
		{
			if (result->parts[list[last]].node !=
				result->parts[list[first]].node)
				break;
		}
		error = node_error(input, result, owner, list + first, last - first,
						   &bad);
		if (error != NULL)
		{
			*where = owner[bad];
			return error;
		}
	}
	return NULL;
}

/*
 * Verify that no job starts twice.
 */
static const char *
jobs_error(const DecideResult *result, const DecideArena *arena,
		   int32_t *where)
{
	int32_t		n = result->n_starts;
	int32_t    *list = DecideAlloc(arena, n, sizeof(int32_t));
	int32_t		i;

	if (list == NULL)
		return "out of memory";
	for (i = 0; i < n; i++)
		list[i] = i;
	if (!DecideSort(arena, list, n, compare_job, result->starts))
		return "out of memory";
	for (i = 1; i < n; i++)
	{
		if (result->starts[list[i - 1]].job == result->starts[list[i]].job)
		{
			*where = list[i];
			return "a job starts twice";
		}
	}
	return NULL;
}

/*
 * Verify that promises to waiting jobs are what they request.
 */
static const char *
promises_error(const DecideInput *input, const DecideResult *result)
{
	DecideResult as_parts = {
		.parts = result->promise_parts, .n_parts = result->n_promise_parts
	};
	int32_t		i;

	for (i = 0; i < result->n_promises; i++)
	{
		const DecidePromise *promise = &result->promises[i];
		DecideStart start = {promise->job, promise->type, promise->gpus,
			promise->share, promise->first_part, promise->n_parts, 0, false};
		const char *error = promise->job < 0 ? NULL :
			start_error(input, &as_parts, &start);

		if (error != NULL)
			return error;
	}
	return NULL;
}

/*
 * Verify that reservations are what the jobs request.
 */
static const char *
reserved_error(const DecideInput *input, const DecideResult *result)
{
	DecideResult as_parts = {
		.parts = result->reserved_parts, .n_parts = result->n_reserved_parts
	};
	const char *error = NULL;
	int32_t		i;

	if (result->n_reservations < 0 || result->n_reserved_parts < 0)
		return "a number of reservations is negative";
	for (i = 0; i < result->n_reservations && error == NULL; i++)
	{
		const DecideReservation *r = &result->reservations[i];
		DecideStart start = {r->job, r->type, r->gpus, 0, r->first_part,
			r->n_parts, 0, false};

		if (r->job < 0 || r->job >= input->n_jobs)
			return "a reservation is of a job that is not there";
		start.share = input->requests[input->jobs[r->job].request].share;
		error = start_error(input, &as_parts, &start);
	}
	return error;
}

/*
 * Does no job start before an equal one ahead of it?
 *
 * Among jobs of one account, tier and request, the first can have whatever
 * the others can.  So a job that starts has no waiting one ahead of it.  Aged
 * jobs are ahead, by submit time; then the order is priority, run time (if
 * the policy says so), submit time, number.  Jobs with claims start on these
 * alone, and do not count here.
 *
 * Each job is looked at once, and only if something starts.
 */

/* Starts, sorted by account, tier and request. */
typedef struct Starts
{
	const DecideInput *input;
	const DecideResult *result;
	int32_t    *order;
	int32_t		n;
} Starts;

/*
 * Compare two jobs by account, tier and request.
 */
static int
compare_kind(const DecideJob *x, const DecideJob *y)
{
	if (x->account != y->account)
		return x->account < y->account ? -1 : 1;
	if (x->tier != y->tier)
		return x->tier < y->tier ? -1 : 1;
	return x->request < y->request ? -1 : x->request > y->request;
}

/*
 * Does one job go before another of its kind?
 */
static bool
goes_before(const DecideInput *input, const DecideJob *x, const DecideJob *y)
{
	bool		x_aged = x->aged_at < input->now;
	bool		y_aged = y->aged_at < input->now;

	if (x_aged != y_aged)
		return x_aged;
	if (!x_aged && x->priority != y->priority)
		return x->priority > y->priority;
	if (!x_aged && input->policy.order == DECIDE_ORDER_SHORTEST &&
		x->order_run != y->order_run)
		return x->order_run < y->order_run;
	if (x->submitted != y->submitted)
		return x->submitted < y->submitted;
	return x->id < y->id;
}

/*
 * Compare two starts by kind, the last of each kind first.
 */
static int
compare_starts(const void *context, int32_t a, int32_t b)
{
	const Starts *starts = context;
	const DecideJob *x =
	&starts->input->jobs[starts->result->starts[a].job];
	const DecideJob *y =
	&starts->input->jobs[starts->result->starts[b].job];
	int			order = compare_kind(x, y);

	if (order != 0)
		return order;
	if (goes_before(starts->input, y, x))
		return -1;
	return goes_before(starts->input, x, y) ? 1 : a < b ? -1 : a > b;
}

/*
 * The last start of a job's kind, -1: there is none.
 */
static int32_t
last_start(const Starts *starts, const DecideJob *job)
{
	int32_t		low = 0;
	int32_t		high = starts->n;

	while (low < high)
	{
		int32_t		middle = low + (high - low) / 2;
		const DecideStart *start =
		&starts->result->starts[starts->order[middle]];

		if (compare_kind(&starts->input->jobs[start->job], job) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == starts->n ||
		compare_kind(&starts->input->jobs
					 [starts->result->starts[starts->order[low]].job],
					 job) != 0)
		return -1;
	return starts->order[low];
}

/*
 * Verify that no job starts before an equal one ahead of it.  *where is the
 * start that does.
 */
static const char *
check_order(const DecideInput *input, const DecideResult *result,
			const DecideArena *arena, int32_t *where)
{
	Starts		starts = {input, result, NULL, 0};
	bool	   *apart = DecideAlloc(arena, input->n_jobs, sizeof(bool));
	bool	   *asked = DecideAlloc(arena, input->n_requests, sizeof(bool));
	int32_t		i;

	if (result->n_starts == 0)
		return NULL;
	starts.order = DecideAlloc(arena, result->n_starts, sizeof(int32_t));
	if (apart == NULL || asked == NULL || starts.order == NULL)
		return "out of memory";
	memset(apart, 0, (size_t) input->n_jobs * sizeof(bool));
	memset(asked, 0, (size_t) input->n_requests * sizeof(bool));
	for (i = 0; i < input->n_claims; i++)
	{
		if (input->claims[i].job >= 0)
			apart[input->claims[i].job] = true;
	}
	for (i = 0; i < result->n_promises; i++)
	{
		if (result->promises[i].job >= 0)
			apart[result->promises[i].job] = true;
	}
	for (i = 0; i < result->n_starts; i++)
	{
		int32_t		job = result->starts[i].job;

		if (!apart[job])
			starts.order[starts.n++] = i;
		apart[job] = true;
		asked[input->jobs[job].request] = true;
	}
	if (!DecideSort(arena, starts.order, starts.n, compare_starts, &starts))
		return "out of memory";
	for (i = 0; i < input->n_jobs; i++)
	{
		const DecideJob *job = &input->jobs[i];
		int32_t		start;

		if (apart[i] || !asked[job->request])
			continue;
		start = last_start(&starts, job);
		if (start < 0 ||
			!goes_before(input, job, &input->jobs[result->starts[start].job]))
			continue;
		*where = start;
		return "a job starts, and one like it that is ahead of it waits";
	}
	return NULL;
}

/*
 * Verify a result against its input.
 */
const char *
DecideCheck(const DecideInput *input, const DecideResult *result,
			const DecideArena *arena, int32_t *where)
{
	int32_t		nowhere;
	int32_t		next_part = 0;
	const char *error;
	int32_t		i;

	if (where == NULL)
		where = &nowhere;
	*where = -1;
	if (result->n_starts < 0 || result->n_parts < 0)
		return "a number of starts or parts is negative";
	if (result->n_starts > input->max_starts)
		return "more jobs start than may";
	for (i = 0; i < result->n_starts; i++)
	{
		const DecideStart *start = &result->starts[i];

		*where = i;
		error = start_error(input, result, start);
		if (error != NULL)
			return error;
		if (start->first_part != next_part)
			return "the starts' parts overlap or leave a gap";
		next_part += start->n_parts;
	}
	*where = -1;
	if (next_part != result->n_parts)
		return "the starts' parts overlap or leave a gap";
	error = jobs_error(result, arena, where);
	if (error != NULL)
		return error;
	error = nodes_error(input, result, arena, where);
	if (error != NULL)
		return error;
	*where = -1;
	error = promises_error(input, result);
	if (error == NULL)
		error = reserved_error(input, result);
	if (error == NULL)
		error = quotas_error(input, result, arena);
	if (error == NULL)
		error = DecideCheckReserved(input, result, arena);
	if (error == NULL)
		error = DecideCheckClaims(input, result, arena);
	if (error == NULL)
		error = DecideCheckEntitled(input, result, arena);
	return error != NULL ? error :
		check_order(input, result, arena, where);
}
