/*
 * claim_leavers.c
 *	  What those who leave for a claim still have, and give back for it.
 *
 * The claim needs only the rest of what is free now.  The parts of all who
 * leave are sorted by claim and host, so that each is looked at once.
 */
#include <string.h>

#include "decide/claim.h"

/* Part of a running job that leaves for a claim. */
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
	int32_t    *order;			/* by claim, then host */
	int32_t		n;
	Leaving		leaving;		/* of the claim and host asked for last */
};

/*
 * Compare two claims by their jobs.
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

/*
 * Compare two parts by claim and host.
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
 * The claim that a running job leaves for, or -1.  by_job: claims by their jobs.
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
 * Find the parts of all who leave for claims.  NULL: out of memory.
 */
Leavers *
DecideLeaversLoad(Cycle *cycle)
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
 * Add what comes back with a part.  Whole devices come with all their memory.
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
 * What those who leave for a claim give back on a host; NULL: nothing.  It is
 * good until the next call.
 */
const Leaving *
DecideLeaversOf(Cycle *cycle, Leavers *leavers, int32_t claim, int32_t host)
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
