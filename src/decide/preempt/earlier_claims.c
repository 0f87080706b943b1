/*
 * earlier_claims.c
 *	  The claims of earlier cycles, which are served before the queue.
 *
 * A claim whose devices are all free becomes a start on them, if its quotas
 * allow it.  The devices of other claims are kept from all other jobs.  A
 * claim that no longer fits its job's request starts nothing, and keeps its
 * devices until it is cancelled.
 *
 * The free devices of a claim are those that its leaving jobs do not return.
 * The parts of all leaving jobs are sorted by claim and host, so that each is
 * examined once.
 */
#include <string.h>

#include "decide/preempt/claim_state.h"

typedef struct Leavers Leavers;

/* A part of a running job that leaves for a claim. */
typedef struct Leaver
{
	int32_t		claim;			/* index into the input's claims */
	int32_t		host;
	int32_t		share;
	const DecidePart *part;
} Leaver;

struct Leavers
{
	Leaver	   *all;
	int32_t    *order;			/* in order of claim and host */
	int32_t		n;
	Leaving		leaving;		/* result of leavers_of() for the last claim
								 * and host */
};

/*----------
 * The order for the binary search of claims by their job:
 *
 * 1. number of the job: it decides nearly always;
 * 2. organisation.
 *----------
 */
static int
compare_jobs(const void *context, int32_t a, int32_t b)
{
	const DecideClaim *x = (const DecideClaim *) context + a;
	const DecideClaim *y = (const DecideClaim *) context + b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return strcmp(x->org, y->org);
}

/*----------
 * The order for the binary search of what leaves for a claim:
 *
 * 1. claim;
 * 2. host.
 *----------
 */
static int
compare_leavers(const void *context, int32_t a, int32_t b)
{
	const Leaver *x = (const Leaver *) context + a;
	const Leaver *y = (const Leaver *) context + b;

	if (x->claim != y->claim)
		return x->claim < y->claim ? -1 : 1;
	return x->host < y->host ? -1 : x->host > y->host;
}

/*
 * Returns the claim for which a running job leaves, or -1.  by_job contains
 * the claims sorted by their jobs.
 */
static int32_t
claim_find(const DecideInput *input, const int32_t *by_job,
		   const DecideRunning *running)
{
	int32_t		low = 0;
	int32_t		high = input->n_claims;

	if (!running->leaving || running->for_org == NULL)
		return -1;
	while (low < high)
	{
		int32_t		middle = low + (high - low) / 2;
		const DecideClaim *claim = &input->claims[by_job[middle]];

		if (claim->id == running->for_job &&
			strcmp(claim->org, running->for_org) == 0)
			return by_job[middle];
		if (claim->id < running->for_job ||
			(claim->id == running->for_job &&
			 strcmp(claim->org, running->for_org) < 0))
			low = middle + 1;
		else
			high = middle;
	}
	return -1;
}

/*
 * Finds the parts of all jobs that leave for claims.  Returns NULL if memory
 * runs out.
 */
static Leavers *
leavers_load(Cycle *cycle)
{
	const DecideInput *input = cycle->input;
	Leavers    *leavers = DecideAlloc(cycle->arena, 1, sizeof(Leavers));
	int32_t    *by_job = DecideAlloc(cycle->arena, input->n_claims,
									 sizeof(int32_t));
	int32_t		i;
	int32_t		p;

	if (leavers == NULL || by_job == NULL)
		return NULL;
	*leavers = (Leavers)
	{
		0
	};
	leavers->all = DecideAlloc(cycle->arena, input->n_running_parts,
							   sizeof(Leaver));
	leavers->order = DecideAlloc(cycle->arena, input->n_running_parts,
								 sizeof(int32_t));
	if (leavers->all == NULL || leavers->order == NULL)
		return NULL;
	for (i = 0; i < input->n_claims; i++)
		by_job[i] = i;
	if (!DecideSort(cycle->arena, by_job, input->n_claims, compare_jobs,
					input->claims))
		return NULL;
	for (i = 0; i < input->n_running; i++)
	{
		const DecideRunning *running = &input->running[i];
		int32_t		claim = claim_find(input, by_job, running);

		for (p = running->first_part;
			 claim >= 0 && p < running->first_part + running->n_parts; p++)
		{
			const DecidePart *part = &input->running_parts[p];

			leavers->order[leavers->n] = leavers->n;
			leavers->all[leavers->n++] = (Leaver)
			{
				claim, cycle->claims->host_of[part->node], running->share, part
			};
		}
	}
	return DecideSort(cycle->arena, leavers->order, leavers->n,
					  compare_leavers, leavers->all) ? leavers : NULL;
}

/*
 * Adds what is returned with a part.  Whole devices are returned with all
 * their memory.
 */
static void
leaving_add(const Host *host, const Leaver *leaver, Leaving *leaving)
{
	uint64_t	rest;

	for (rest = leaver->part->devices; rest != 0; rest &= rest - 1)
	{
		int32_t		i = __builtin_ctzll(rest);

		leaving->devices[i] += leaver->share;
		leaving->gpu_memory[i] += leaver->part->gpu_memory_mib > 0 ?
			leaver->part->gpu_memory_mib : host->gpu_memory_mib;
	}
	leaving->cpu_milli += leaver->part->cpu_milli;
	leaving->memory_mib += leaver->part->memory_mib;
}

/*
 * Returns what leaving jobs return for a claim on a host, valid until the next
 * call, or NULL if that is nothing.
 */
static const Leaving *
leavers_of(Cycle *cycle, Leavers *leavers, int32_t claim, int32_t host)
{
	int32_t		low = 0;
	int32_t		high = leavers->n;

	while (low < high)
	{
		int32_t		middle = low + (high - low) / 2;
		const Leaver *at = &leavers->all[leavers->order[middle]];

		if (at->claim < claim || (at->claim == claim && at->host < host))
			low = middle + 1;
		else
			high = middle;
	}
	leavers->leaving = (Leaving)
	{
		0
	};
	for (high = low; high < leavers->n; high++)
	{
		const Leaver *at = &leavers->all[leavers->order[high]];

		if (at->claim != claim || at->host != host)
			break;
		leaving_add(&cycle->hosts[host], at, &leavers->leaving);
	}
	return high > low ? &leavers->leaving : NULL;
}

/*----------
 * The order in which claims are served:
 *
 * 1. instant of the cycle that made the claim;
 * 2. its turn in that cycle;
 * 3. organisation, by name;
 * 4. number of the job.
 *----------
 */
static int
compare_claims(const void *context, int32_t a, int32_t b)
{
	const DecideClaim *x = (const DecideClaim *) context + a;
	const DecideClaim *y = (const DecideClaim *) context + b;
	int			order;

	if (x->made != y->made)
		return x->made < y->made ? -1 : 1;
	if (x->turn != y->turn)
		return x->turn < y->turn ? -1 : 1;
	order = strcmp(x->org, y->org);
	if (order != 0)
		return order;
	return x->id < y->id ? -1 : x->id > y->id;
}

/*
 * Whether a claim still fits its job's request.
 */
static bool
claim_suits(const Cycle *cycle, const DecideClaim *claim)
{
	const DecideInput *input = cycle->input;
	const DecideRequestClass *request = &input->requests[input->jobs[claim->job].request];
	const DecideOffer *offer = NULL;
	const Host *first = NULL;
	int32_t		i;

	for (i = 0; i < request->n_offers && offer == NULL; i++)
	{
		if (request->offers[i].type == claim->type)
			offer = &request->offers[i];
	}
	if (claim->share != request->share || claim->gpus < request->min_gpus ||
		claim->gpus > request->max_gpus || (offer == NULL && claim->gpus > 0))
		return false;
	for (i = claim->first_part; i < claim->first_part + claim->n_parts; i++)
	{
		const Host *host =
		&cycle->hosts[cycle->claims->host_of[input->claim_parts[i].node]];

		if (!DecideFitAllowed(host, request, claim->gpus > 0 ? offer : NULL) ||
			input->claim_parts[i].gpu_memory_mib !=
			DecideShareUse(host, request) ||
			!DecideHostHas(host, &input->claim_parts[i], claim->share))
			return false;
		if (first == NULL)
			first = host;
		if ((request->topology == DECIDE_TOPOLOGY_NODE && host != first) ||
			(request->topology == DECIDE_TOPOLOGY_NVLINK &&
			 host->domain != first->domain) ||
			(request->topology == DECIDE_TOPOLOGY_LEAF &&
			 host->leaf != first->leaf))
			return false;
	}
	return true;
}

/*
 * Whether a leaving job still has part of a claim that was made at this very
 * instant.  The claim then waits for that job, even if as much is free beside
 * it, because that is kept for a reservation.
 */
static bool
claim_is_new(const DecideInput *input, const DecideClaim *claim)
{
	int32_t		r;
	int32_t		i;
	int32_t		p;

	for (r = 0; claim->made == input->now && r < input->n_running; r++)
	{
		const DecideRunning *running = &input->running[r];

		if (!running->leaving || running->over)
			continue;
		for (i = running->first_part;
			 i < running->first_part + running->n_parts; i++)
		{
			const DecidePart *has = &input->running_parts[i];

			for (p = claim->first_part;
				 p < claim->first_part + claim->n_parts; p++)
			{
				const DecidePart *part = &input->claim_parts[p];

				if (part->node == has->node &&
					((part->devices & has->devices) != 0 ||
					 (part->cpu_milli > 0 && has->cpu_milli > 0) ||
					 (part->memory_mib > 0 && has->memory_mib > 0)))
					return true;
			}
		}
	}
	return false;
}

/*
 * Starts a job on the devices of its claim.  Returns false if memory runs out.
 */
static bool
claim_start(Cycle *cycle, const DecideClaim *claim)
{
	DecideResult *result = cycle->result;
	DecideStart *start;
	int32_t		i;

	result->starts = DecideGrow(cycle->arena, result->starts,
								result->n_starts, &cycle->starts_capacity,
								sizeof(DecideStart));
	if (result->starts == NULL)
		return false;
	start = &result->starts[result->n_starts++];
	start->job = claim->job;
	start->type = claim->type;
	start->gpus = claim->gpus;
	start->share = claim->share;
	start->first_part = result->n_parts;
	start->n_parts = claim->n_parts;
	start->fit = 0;
	for (i = 0; i < claim->n_parts; i++)
	{
		const DecidePart *part =
		&cycle->input->claim_parts[claim->first_part + i];

		result->parts = DecideGrow(cycle->arena, result->parts,
								   result->n_parts, &cycle->parts_capacity,
								   sizeof(DecidePart));
		if (result->parts == NULL)
			return false;
		result->parts[result->n_parts++] = *part;
		DecideHostAllocate(cycle, cycle->claims->host_of[part->node], part,
						   claim->share);
	}
	return true;
}

/*
 * Starts the jobs whose claims are free, and keeps the devices of the other
 * claims from all other jobs, including those with later claims.  Returns
 * false if memory runs out.
 */
bool
DecideClaimsRestore(Cycle *cycle)
{
	const DecideInput *input = cycle->input;
	int32_t    *order = DecideAlloc(cycle->arena, input->n_claims,
									sizeof(int32_t));
	Leavers    *leavers = leavers_load(cycle);
	int32_t		i;
	int32_t		p;

	if (order == NULL || leavers == NULL || !DecideHostsGroup(cycle))
		return false;
	cycle->claims->in_turn = order;
	for (i = 0; i < input->n_claims; i++)
		order[i] = i;
	if (!DecideSort(cycle->arena, order, input->n_claims, compare_claims,
					input->claims))
		return false;
	for (i = 0; i < input->n_claims; i++)
	{
		const DecideClaim *claim = &input->claims[order[i]];

		if (claim->job >= 0)
			cycle->promised[claim->job] = true;
		if (claim->job >= 0 && cycle->result->n_starts < input->max_starts &&
			claim_suits(cycle, claim) && !claim_is_new(input, claim) &&
			DecideQuotaKept(cycle, claim))
		{
			if (!claim_start(cycle, claim))
				return false;
			cycle->on_claim[claim->job] = true;
			continue;
		}
		for (p = 0; p < claim->n_parts; p++)
		{
			const DecidePart *part = &input->claim_parts[claim->first_part +
														 p];
			int32_t		host = cycle->claims->host_of[part->node];

			DecideHostPromise(cycle, host, part, claim->share,
							  leavers_of(cycle, leavers, order[i], host));
		}
	}
	return true;
}
