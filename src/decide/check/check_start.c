/*
 * check_start.c
 *	  Does a job get what it requests, and as its quotas allow?  By code that
 *	  shares nothing with what made it.
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
 * The MiB of a node's device that a start of the request takes: none of whole
 * devices; a share the floor it requests of the type, or as much of the memory as
 * of the device.
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
 * Does a start keep together as its topology says?
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
 * What is wrong with one part of a start, seen by itself, or NULL.
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
 * What is wrong with one start, held against its request, or NULL.
 */
const char *
DecideCheckStart(const DecideInput *input, const DecideResult *result,
				 const DecideStart *start)
{
	const DecideRequestClass *request;
	const char *error;
	int64_t		gpus = 0;
	int32_t		i;

	DecideAssert(input != NULL && result != NULL);
	DecideAssert(start != NULL);
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
 * Are all quotas kept, and is nobody held back whom they leave something?
 * By code that shares nothing with what made it.
 *
 * What runs is added to what was promised before and what the result starts,
 * promises and lets grow.  No quota that counts something new of this is
 * passed, nor by what is reserved besides; and whoever is said to be held back
 * could not start beside it.  What grows is new devices and no new job: more
 * jobs may run than a quota allows by now; and a job without devices is no new
 * device: more may be in use.
 */

/* Added up under one quota. */
typedef struct Sum
{
	int64_t		milli;
	int64_t		running;
	bool		more;			/* the result adds devices */
	bool		more_jobs;		/* the result adds jobs */
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
 * Add what has devices of a type to all quotas that count it.
 */
static void
sum_add(const QuotaSums *sums, int32_t account, int32_t type, int64_t milli,
		int32_t jobs, bool more)
{
	const DecideInput *input = sums->input;
	int32_t		i;

	for (; account >= 0; account = input->accounts[account].parent)
	{
		for (i = own_quotas(sums, account); i < input->n_quotas &&
			 input->quotas[sums->order[i]].account == account; i++)
		{
			int32_t		q = sums->order[i];

			if (input->quotas[q].type != DECIDE_ANY_TYPE &&
				input->quotas[q].type != type)
				continue;
			sums->sums[q].milli += milli;
			sums->sums[q].running += jobs;
			sums->sums[q].more |= more && milli > 0;
			sums->sums[q].more_jobs |= more && jobs > 0;
		}
	}
}

/*
 * What was promised before and does not start, beyond what runs.  False: out
 * of memory.
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
		if (gpus > 0 || !claim->running)
			sum_add(sums, claim->account, claim->type, gpus * claim->share,
					!claim->running, false);
	}
	return true;
}

/*
 * What the result starts, promises, and lets grow.
 */
static void
sum_result(const QuotaSums *sums, const DecideResult *result)
{
	const DecideInput *input = sums->input;
	int32_t		i;

	for (i = 0; i < result->n_starts; i++)
	{
		const DecideStart *s = &result->starts[i];

		sum_add(sums, input->jobs[s->job].account, s->type,
				(int64_t) s->gpus * s->share, 1, true);
	}
	for (i = 0; i < result->n_promises; i++)
	{
		const DecidePromise *p = &result->promises[i];
		const DecideRunning *running = p->job >= 0 ? NULL :
			&input->running[p->running];

		if (running == NULL)
			sum_add(sums, input->jobs[p->job].account, p->type,
					(int64_t) p->gpus * p->share, 1, true);
		else if (p->gpus > running->gpus)
			sum_add(sums, running->account, p->type,
					(int64_t) (p->gpus - running->gpus) * p->share, 0, true);
	}
}

/*
 * Would a job with so much of a type keep all its quotas beside that?
 */
static bool
has_capacity(const QuotaSums *sums, int32_t account, int32_t type,
			 int64_t milli)
{
	const DecideInput *input = sums->input;
	int32_t		i;

	for (; account >= 0; account = input->accounts[account].parent)
	{
		for (i = own_quotas(sums, account); i < input->n_quotas &&
			 input->quotas[sums->order[i]].account == account; i++)
		{
			const DecideQuota *quota = &input->quotas[sums->order[i]];
			const Sum  *sum = &sums->sums[sums->order[i]];

			if (quota->type != DECIDE_ANY_TYPE && quota->type != type)
				continue;
			if ((quota->max_running >= 0 &&
				 sum->running + 1 > quota->max_running) ||
				(quota->max_milli >= 0 && milli > 0 &&
				 sum->milli + milli > quota->max_milli))
				return false;
		}
	}
	return true;
}

/*
 * Could a job that is said to be held back start?
 */
static bool
is_wronged(const QuotaSums *sums, const DecideJob *job)
{
	const DecideRequestClass *request = &sums->input->requests[job->request];
	int64_t		milli = (int64_t) request->min_gpus * request->share;
	int32_t		i;

	if (request->max_gpus == 0)
		return has_capacity(sums, job->account, DECIDE_NO_TYPE, 0);
	for (i = 0; i < request->n_offers; i++)
	{
		if (has_capacity(sums, job->account, request->offers[i].type, milli))
			return true;
	}
	return false;
}

/*
 * Is a quota passed that something was added to?
 */
static bool
is_passed(const QuotaSums *sums)
{
	int32_t		i;

	for (i = 0; i < sums->input->n_quotas; i++)
	{
		const DecideQuota *quota = &sums->input->quotas[i];
		const Sum  *sum = &sums->sums[i];

		if ((sum->more_jobs && quota->max_running >= 0 &&
			 sum->running > quota->max_running) ||
			(sum->more && quota->max_milli >= 0 &&
			 sum->milli > quota->max_milli))
			return true;
	}
	return false;
}

/*
 * Verify that quotas are kept, and hold back nobody else.
 */
const char *
DecideCheckQuotas(const DecideInput *input, const DecideResult *result,
				  const DecideArena *arena)
{
	QuotaSums	sums = {.input = input};
	int32_t		i;

	DecideAssert(input != NULL && result != NULL);
	DecideAssert(arena != NULL);
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
			.milli = input->quotas[i].used_milli,
				.running = input->quotas[i].running
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
		sum_add(&sums, job->account, r->type, (int64_t) r->gpus *
				input->requests[job->request].share, 1, true);
	}
	/* where more could have started, what came after was not looked at */
	return result->n_starts < input->max_starts && is_passed(&sums) ?
		"a quota is passed by what is reserved" : NULL;
}
