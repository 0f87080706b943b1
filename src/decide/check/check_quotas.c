/*
 * check_quotas.c
 *	  Checks that quotas are kept, and that no job is held back without
 *	  reason.
 *
 * What running jobs use is added to claims, and to what the result starts,
 * promises and lets grow.  A waiting job's claim counts as far as it exceeds what the jobs
 * return that leave for it.  No quota may be exceeded that counts any addition,
 * including reservations.  A job that is held back must be unable to start.
 * Growth adds devices and no job; a job without devices adds no devices.  So a
 * quota that was exceeded before may remain exceeded if nothing is added that
 * it limits.
 */
#include <string.h>

#include "decide/check/check.h"

/* Sums under one quota. */
typedef struct Sum
{
	DecideUse	used;
	bool		more[DECIDE_LIMITED];	/* whether the result adds to each
										 * resource */
} Sum;

typedef struct QuotaSums
{
	const DecideInput *input;
	int32_t    *order;			/* quotas in order of their accounts */
	Sum		   *sums;			/* one for each quota */
} QuotaSums;

/*----------
 * The order that puts the quotas of one account side by side:
 *
 * 1. account;
 * 2. place in the array.
 *----------
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
 * The position at which an account's own quotas begin in the order.
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
 * Adds a use to what one quota counts.
 */
static void
quota_add(Sum *sum, DecideUse use, bool more)
{
	int			l;

	for (l = 0; l < DECIDE_LIMITED; l++)
	{
		if (sum->used.of[l] > INT64_MAX - use.of[l])
			sum->used.of[l] = INT64_MAX;
		else
			sum->used.of[l] += use.of[l];
		sum->more[l] |= more && use.of[l] > 0;
	}
}

/*
 * Adds what jobs with devices of a type use to all quotas that count them.
 */
static void
sum_add(const QuotaSums *sums, int32_t account, int32_t type, DecideUse use,
		bool more)
{
	const DecideInput *input = sums->input;
	int32_t		i;

	for (; account >= 0; account = input->accounts[account].parent)
	{
		for (i = own_quotas(sums, account); i < input->n_quotas &&
			 input->quotas[sums->order[i]].account == account; i++)
		{
			int32_t		q = sums->order[i];

			if (input->quotas[q].type == DECIDE_ANY_TYPE ||
				input->quotas[q].type == type)
				quota_add(&sums->sums[q], use, more);
		}
	}
}

/*
 * What a job of a class uses, computed independently of the code that decides.
 */
static DecideUse
job_use(const DecideRequestClass *request, int32_t type, int32_t gpus)
{
	DecideUse	use;

	use.of[DECIDE_LIMITED_JOBS] = 1;
	use.of[DECIDE_LIMITED_DEVICES] = (int64_t) gpus *
		DecideCheckCounted(request, type);
	use.of[DECIDE_LIMITED_STAYING] = request->stays ?
		use.of[DECIDE_LIMITED_DEVICES] : 0;
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
	if (claim->stays)
		use.of[DECIDE_LIMITED_STAYING] = use.of[DECIDE_LIMITED_DEVICES];
	for (p = 0; p < claim->n_parts; p++)
	{
		const DecidePart *part = &input->claim_parts[claim->first_part + p];

		use.of[DECIDE_LIMITED_CPU] += part->cpu_milli;
		use.of[DECIDE_LIMITED_MEMORY] += part->memory_mib;
	}
	return use;
}

/*
 * What a running job uses in addition when it grows: devices only.
 */
static DecideUse
grown_use(int64_t gpus, int32_t counted, int32_t share, bool stays)
{
	DecideUse	use = {{0}};

	use.of[DECIDE_LIMITED_DEVICES] = gpus * (counted > 0 ? counted : share);
	use.of[DECIDE_LIMITED_STAYING] = stays ? use.of[DECIDE_LIMITED_DEVICES] : 0;
	return use;
}

/*
 * Whether a running job leaves for a claim and has no claim of its own, so
 * that it returns what it uses.
 */
static bool
returns_for(const DecideInput *input, const DecideRunning *running,
			const DecideClaim *claim)
{
	int32_t		i;

	if (!running->leaving || running->over || running->for_org == NULL ||
		running->for_job != claim->id ||
		strcmp(running->for_org, claim->org) != 0)
		return false;
	for (i = 0; i < input->n_claims; i++)
	{
		if (input->claims[i].running && input->claims[i].id == running->id &&
			strcmp(input->claims[i].org, running->org) == 0)
			return false;
	}
	return true;
}

/*
 * Subtracts from a use what a running job returns under a quota, if the quota
 * counts the job.
 */
static void
subtract_returned(const DecideInput *input, const DecideQuota *quota,
				  const DecideRunning *running, DecideUse *use)
{
	int32_t		account = running->account;
	DecideUse	has = {.of[DECIDE_LIMITED_JOBS] = 1};
	int32_t		p;
	int			l;

	while (account >= 0 && account != quota->account)
		account = input->accounts[account].parent;
	if (account < 0 || (quota->type != DECIDE_ANY_TYPE &&
						quota->type != running->type))
		return;
	has.of[DECIDE_LIMITED_DEVICES] = (int64_t) running->gpus *
		(running->counted > 0 ? running->counted : running->share);
	if (running->stays)
		has.of[DECIDE_LIMITED_STAYING] = has.of[DECIDE_LIMITED_DEVICES];
	for (p = running->first_part; p < running->first_part + running->n_parts;
		 p++)
	{
		has.of[DECIDE_LIMITED_CPU] += input->running_parts[p].cpu_milli;
		has.of[DECIDE_LIMITED_MEMORY] += input->running_parts[p].memory_mib;
	}
	for (l = 0; l < DECIDE_LIMITED; l++)
		use->of[l] = use->of[l] > has.of[l] ? use->of[l] - has.of[l] : 0;
}

/*
 * Adds the use of a claim to all quotas that count it, as far as it exceeds
 * what the jobs return that leave for it: those of a claim of an earlier
 * cycle, or those that a new promise evicts.
 */
static void
sum_claim(const QuotaSums *sums, const DecideResult *result, int32_t account,
		  int32_t type, DecideUse use, const DecideClaim *claim,
		  const DecidePromise *promise)
{
	const DecideInput *input = sums->input;
	int32_t		i;
	int32_t		r;

	for (; account >= 0; account = input->accounts[account].parent)
	{
		for (i = own_quotas(sums, account); i < input->n_quotas &&
			 input->quotas[sums->order[i]].account == account; i++)
		{
			int32_t		q = sums->order[i];
			const DecideQuota *quota = &input->quotas[q];
			DecideUse	more = use;

			if (quota->type != DECIDE_ANY_TYPE && quota->type != type)
				continue;
			for (r = 0; claim != NULL && r < input->n_running; r++)
			{
				if (returns_for(input, &input->running[r], claim))
					subtract_returned(input, quota, &input->running[r], &more);
			}
			for (r = 0; promise != NULL && r < promise->n_evictions; r++)
			{
				const DecideEviction *eviction =
				&result->evictions[promise->first_eviction + r];

				if (eviction->why == DECIDE_WHY_TIER ||
					eviction->why == DECIDE_WHY_ENTITLEMENT)
					subtract_returned(input, quota,
									  &input->running[eviction->running],
									  &more);
			}
			quota_add(&sums->sums[q], more, promise != NULL);
		}
	}
}

/*
 * Adds claims that do not start, as far as they exceed what runs.  Returns
 * false if memory runs out.
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
			sum_claim(sums, result, claim->account, claim->type,
					  claim_use(input, claim), claim, NULL);
		else if (gpus > 0)
			sum_add(sums, claim->account, claim->type,
					grown_use(gpus, claim->counted, claim->share,
							  claim->stays), false);
	}
	return true;
}

/*
 * Adds what the result starts, promises, and lets grow.
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
			sum_claim(sums, result, input->jobs[p->job].account, p->type,
					  job_use(&input->requests[input->jobs[p->job].request],
							  p->type, p->gpus), NULL, p);
		else if (p->gpus > running->gpus)
			sum_add(sums, running->account, p->type,
					grown_use(p->gpus - running->gpus, running->counted,
							  running->share, running->stays), true);
	}
}

/*
 * Whether a job with this use, on devices of a type, would keep all its
 * quotas.
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
 * Whether a job that is reported as held back could start.
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
 * Whether a quota is exceeded to which the result adds something.
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
 * Verifies that quotas are kept, and that they hold back only the jobs
 * reported.
 */
const char *
DecideCheckQuotas(const DecideInput *input, const DecideResult *result,
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
	/* if max_starts was reached, later turns were not decided */
	return result->n_starts < input->max_starts && is_passed(&sums) ?
		"a quota is passed by what is reserved" : NULL;
}
