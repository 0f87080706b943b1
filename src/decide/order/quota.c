/*
 * quota.c
 *	  The most that an account with all below it may have.
 *
 * A quota counts running jobs in all pools, claims, and this cycle's starts,
 * of its account and all below it.  Within a round that only grows, so what a
 * quota once forbids stays forbidden.  Jobs with no quota left are not
 * queued.  Others lose at their turn the offers that no quota is left for.
 * Reservations count only among themselves: they are for later, and starts
 * come first.
 */
#include <string.h>

#include "decide/order/order.h"

/*
 * Chain the quotas of each account.  False: out of memory.
 */
static bool
quota_chain(const DecideInput *input, const DecideArena *arena,
			QuotaChains *chains)
{
	int32_t		i;

	chains->first = DecideAlloc(arena, input->n_accounts, sizeof(int32_t));
	chains->next = DecideAlloc(arena, input->n_quotas, sizeof(int32_t));
	if (chains->first == NULL || chains->next == NULL)
		return false;
	for (i = 0; i < input->n_accounts; i++)
		chains->first[i] = -1;
	for (i = 0; i < input->n_quotas; i++)
	{
		int32_t    *first = &chains->first[input->quotas[i].account];

		chains->next[i] = *first;
		*first = i;
	}
	return true;
}

/*
 * Does a quota count devices of this type?
 */
static bool
quota_counts(const DecideQuota *quota, int32_t type)
{
	return quota->type == DECIDE_ANY_TYPE || quota->type == type;
}

/*
 * The next quota after quota (-1: from the account's first) that counts this
 * type for an account or one above it; -1: none.  *account becomes the
 * quota's account.
 */
static int32_t
next_over(const Cycle *cycle, int32_t type, int32_t *account, int32_t quota)
{
	const DecideInput *input = cycle->input;
	const QuotaChains *chains = &cycle->quotas->chains;

	quota = quota < 0 ? chains->first[*account] : chains->next[quota];
	for (;;)
	{
		while (quota >= 0 && !quota_counts(&input->quotas[quota], type))
			quota = chains->next[quota];
		if (quota >= 0 || input->accounts[*account].parent < 0)
			return quota;
		*account = input->accounts[*account].parent;
		quota = chains->first[*account];
	}
}

/*
 * Add to all quotas that count an account.
 */
void
DecideQuotaTake(Cycle *cycle, int32_t account, int32_t type, int64_t milli,
				int32_t jobs, bool reserved)
{
	Quotas	   *quotas = cycle->quotas;
	int32_t		q = -1;

	DecideAssert(account >= 0 && account < cycle->input->n_accounts);
	DecideAssert(milli >= 0 && jobs >= 0);
	if (quotas == NULL || !quotas->any[account])
		return;
	while ((q = next_over(cycle, type, &account, q)) >= 0)
	{
		(reserved ? quotas->reserved_milli : quotas->milli)[q] += milli;
		(reserved ? quotas->reserved_running : quotas->running)[q] += jobs;
	}
}

/*
 * The most devices of a type that quotas leave a job, up to its request; -1:
 * it may not start.
 */
static int32_t
quota_most(const Cycle *cycle, const DecideJob *job,
		   const DecideRequestClass *request, int32_t type,
		   bool reserving)
{
	const Quotas *quotas = cycle->quotas;
	int32_t		account = job->account;
	int64_t		most = request->max_gpus;
	int32_t		q = -1;

	while ((q = next_over(cycle, type, &account, q)) >= 0)
	{
		const DecideQuota *quota = &cycle->input->quotas[q];
		int64_t		running = quotas->running[q];
		int64_t		capacity = quota->max_milli - quotas->milli[q];

		if (reserving)
		{
			running += quotas->reserved_running[q];
			capacity -= quotas->reserved_milli[q];
		}
		if (quota->max_running >= 0 && running >= quota->max_running)
			return -1;
		if (quota->max_milli < 0 || request->max_gpus == 0)
			continue;			/* it takes no devices */
		if (capacity < 0)
			return -1;
		if (capacity / request->share < most)
			most = capacity / request->share;
	}
	return most < request->min_gpus ? -1 : (int32_t) most;
}

/*
 * Are all quotas kept that count an account's devices of a type?
 */
bool
DecideQuotaKept(const Cycle *cycle, int32_t account, int32_t type)
{
	const Quotas *quotas = cycle->quotas;
	int32_t		q = -1;

	DecideAssert(account >= 0 && account < cycle->input->n_accounts);
	DecideAssert(type != DECIDE_ANY_TYPE);
	if (quotas == NULL || !quotas->any[account])
		return true;
	while ((q = next_over(cycle, type, &account, q)) >= 0)
	{
		const DecideQuota *quota = &cycle->input->quotas[q];

		if ((quota->max_running >= 0 &&
			 quotas->running[q] > quota->max_running) ||
			(quota->max_milli >= 0 && type != DECIDE_NO_TYPE &&
			 quotas->milli[q] > quota->max_milli))
			return false;
	}
	return true;
}

/*
 * The most devices that quotas let a running job have.
 */
int32_t
DecideQuotaMore(const Cycle *cycle, const DecideRunning *running)
{
	int32_t		account = running->account;
	int64_t		more = running->max_gpus - running->gpus;
	int32_t		q = -1;

	DecideAssert(running->type >= 0);
	DecideAssert(running->account >= 0 && running->account < cycle->input->n_accounts);
	if (cycle->quotas == NULL || !cycle->quotas->any[account])
		return running->max_gpus;
	while ((q = next_over(cycle, running->type, &account, q)) >= 0)
	{
		const DecideQuota *quota = &cycle->input->quotas[q];
		int64_t		capacity = quota->max_milli - cycle->quotas->milli[q];

		if (quota->max_milli < 0)
			continue;
		if (capacity / running->share < more)
			more = capacity < 0 ? 0 : capacity / running->share;
	}
	return running->gpus + (int32_t) more;
}

/*
 * Of a range of devices, the most that quotas could ever allow, whatever else
 * runs.
 */
int32_t
DecideQuotaEver(const Cycle *cycle, int32_t account, int32_t type,
				int32_t least, int32_t most)
{
	int32_t		q = -1;

	DecideAssert(account >= 0 && account < cycle->input->n_accounts);
	DecideAssert(least <= most);
	if (cycle->quotas == NULL || !cycle->quotas->any[account])
		return most;
	while ((q = next_over(cycle, type, &account, q)) >= 0)
	{
		int64_t		ever = cycle->input->quotas[q].max_milli / DECIDE_WHOLE;

		if (cycle->input->quotas[q].max_milli >= 0 && ever < most)
			most = ever > least ? (int32_t) ever : least;
	}
	return most;
}

/*
 * How many devices a running job with a claim has now; if it no longer runs,
 * as many as the claim.
 */
static int32_t
gpus_now(const DecideInput *input, const DecideClaim *claim)
{
	int32_t		i;

	for (i = 0; i < input->n_running; i++)
	{
		const DecideRunning *running = &input->running[i];

		if (running->id == claim->id && !running->over &&
			running->account == claim->account)
			return running->gpus;
	}
	return claim->gpus;
}

/*
 * Count claims under quotas.
 */
static void
count_claims(Cycle *cycle)
{
	const DecideInput *input = cycle->input;
	int32_t		i;

	for (i = 0; i < input->n_claims; i++)
	{
		const DecideClaim *claim = &input->claims[i];
		int64_t		more = claim->gpus;

		if (!cycle->quotas->any[claim->account])
			continue;
		if (claim->running)
			more -= gpus_now(input, claim);
		if (more > 0 || !claim->running)
			DecideQuotaTake(cycle, claim->account, claim->type,
							more * claim->share, !claim->running, false);
	}
}

/*
 * Do quotas leave a job nothing at all?
 */
static bool
leave_nothing(const Cycle *cycle, const DecideJob *job)
{
	const DecideRequestClass *request = &cycle->input->requests[job->request];
	int32_t		i;

	if (request->max_gpus == 0)
		return quota_most(cycle, job, request, DECIDE_NO_TYPE, false) < 0;
	for (i = 0; i < request->n_offers; i++)
	{
		if (quota_most(cycle, job, request, request->offers[i].type,
					   false) >= 0)
			return false;
	}
	return request->n_offers > 0;
}

/*
 * Hold back jobs with no quota left, before the queue.  Jobs with claims are
 * counted already.
 */
static void
hold_back(Cycle *cycle)
{
	const DecideInput *input = cycle->input;
	DecideResult *result = cycle->result;
	int32_t		i;

	for (i = 0; i < input->n_jobs; i++)
		result->held[i] = DECIDE_NOT_HELD;
	for (i = 0; i < input->n_claims; i++)
	{
		if (input->claims[i].job >= 0)
			result->held[input->claims[i].job] = 0;
	}
	for (i = 0; i < input->n_jobs; i++)
	{
		const DecideJob *job = &input->jobs[i];

		if (i % 4096 == 0)
			DecidePoll(cycle->arena);
		if (result->held[i] == 0)
			result->held[i] = DECIDE_NOT_HELD;
		else if (cycle->quotas->any[job->account] && leave_nothing(cycle, job))
			result->held[i] = 0;
	}
}

/*
 * Mark the accounts that some quota counts.
 */
static void
note_any(const DecideInput *input, Quotas *quotas)
{
	int32_t		i;

	for (i = 0; i < input->n_accounts; i++)
	{
		int32_t		account = i;

		while (account >= 0 && quotas->chains.first[account] < 0)
			account = input->accounts[account].parent;
		quotas->any[i] = account >= 0;
	}
}

/*
 * Count what runs and what is claimed, before anything is decided.  False:
 * out of memory.
 */
bool
DecideQuotasBegin(Cycle *cycle)
{
	const DecideInput *input = cycle->input;
	const DecideArena *arena = cycle->arena;
	size_t		size = (size_t) input->n_quotas * sizeof(int64_t);
	Quotas	   *quotas;
	int32_t		offers = 0;
	int32_t		i;

	DecideAssert(cycle->quotas == NULL);
	DecideAssert(cycle->result != NULL);
	if (input->n_quotas == 0)
		return true;
	quotas = DecideAlloc(arena, 1, sizeof(Quotas));
	if (quotas == NULL)
		return false;
	memset(quotas, 0, sizeof(Quotas));
	for (i = 0; i < input->n_requests; i++)
	{
		if (input->requests[i].n_offers > offers)
			offers = input->requests[i].n_offers;
	}
	quotas->any = DecideAlloc(arena, input->n_accounts, sizeof(bool));
	quotas->milli = DecideAlloc(arena, input->n_quotas, sizeof(int64_t));
	quotas->running = DecideAlloc(arena, input->n_quotas, sizeof(int64_t));
	quotas->reserved_milli = DecideAlloc(arena, input->n_quotas,
										 sizeof(int64_t));
	quotas->reserved_running = DecideAlloc(arena, input->n_quotas,
										   sizeof(int64_t));
	quotas->most = DecideAlloc(arena, offers, sizeof(int32_t));
	cycle->result->held = DecideAlloc(arena, input->n_jobs, sizeof(int32_t));
	if (!quota_chain(input, arena, &quotas->chains) ||
		quotas->any == NULL || quotas->milli == NULL ||
		quotas->running == NULL || quotas->reserved_milli == NULL ||
		quotas->reserved_running == NULL || quotas->most == NULL ||
		cycle->result->held == NULL)
		return false;
	for (i = 0; i < input->n_quotas; i++)
	{
		quotas->milli[i] = input->quotas[i].used_milli;
		quotas->running[i] = input->quotas[i].running;
	}
	memset(quotas->reserved_milli, 0, size);
	memset(quotas->reserved_running, 0, size);
	note_any(input, quotas);
	cycle->quotas = quotas;
	count_claims(cycle);
	hold_back(cycle);
	return true;
}

/*
 * A turn where quotas leave a job part of its request.
 *
 * Offers count whose types have enough quota left, and a range is cut to that
 * many devices.  Jobs of a class with the same rest share a class of their
 * own, so hosts are not looked at more often.  What failed for the whole
 * class fails for its part.
 */

/*
 * Make the rest of a class for the key in the scratch.  NULL: out of memory.
 */
static QuotaFilter *
filter_make(Cycle *cycle, const DecideRequestClass *request,
			EquivalenceClass *whole)
{
	const DecideArena *arena = cycle->arena;
	const int32_t *key = cycle->quotas->most;
	DecideOffer *offers = DecideAlloc(arena, request->n_offers,
									  sizeof(DecideOffer));
	QuotaFilter *filter = DecideAlloc(arena, 1, sizeof(QuotaFilter));
	bool		tied = false;
	int32_t		n = 0;
	int32_t		i;

	if (filter == NULL || offers == NULL)
		return NULL;
	memset(filter, 0, sizeof(QuotaFilter));
	filter->most = DecideAlloc(arena, request->n_offers, sizeof(int32_t));
	filter->key = DecideAlloc(arena, request->n_offers, sizeof(int32_t));
	if (filter->most == NULL || filter->key == NULL)
		return NULL;
	memcpy(filter->key, key, (size_t) request->n_offers * sizeof(int32_t));
	filter->request = *request;
	filter->request.offers = offers;
	filter->request.max_gpus = request->min_gpus;
	for (i = 0; i < request->n_offers; i++)
	{
		/* tied to the last one left if all between are tied */
		tied &= request->offers[i].tied;
		if (key[i] < 0)
			continue;
		offers[n] = request->offers[i];
		offers[n].tied = tied;
		tied = true;
		filter->most[n++] = key[i];
		if (key[i] > filter->request.max_gpus)
			filter->request.max_gpus = key[i];
	}
	filter->request.n_offers = n;
	filter->whole = whole;
	return filter;
}

/*
 * Find the rest of a class for the key in the scratch, or make it.  NULL: out
 * of memory.
 */
static QuotaFilter *
filter_find(Cycle *cycle, const DecideRequestClass *request, int32_t class)
{
	Quotas	   *quotas = cycle->quotas;
	int32_t		n = cycle->input->n_requests;
	QuotaFilter *filter;

	if (quotas->filters == NULL)
	{
		quotas->filters = DecideAlloc(cycle->arena, n, sizeof(QuotaFilter *));
		quotas->waits = DecideAlloc(cycle->arena, n, sizeof(DecideWait));
		if (quotas->filters == NULL || quotas->waits == NULL)
			return NULL;
		memset(quotas->filters, 0, (size_t) n * sizeof(QuotaFilter *));
		memset(quotas->waits, 0, (size_t) n * sizeof(DecideWait));
	}
	for (filter = quotas->filters[class]; filter != NULL;
		 filter = filter->next)
	{
		if (memcmp(filter->key, quotas->most,
				   (size_t) request->n_offers * sizeof(int32_t)) == 0)
			return filter;
	}
	filter = filter_make(cycle, request, &cycle->classes[class]);
	if (filter != NULL)
	{
		filter->next = quotas->filters[class];
		quotas->filters[class] = filter;
	}
	return filter;
}

/*
 * Find what quotas leave the job at its turn; *held: nothing.  False: out of
 * memory.
 */
bool
DecideQuotaFilter(Cycle *cycle, int32_t job, bool reserving, bool *held)
{
	const DecideJob *j = &cycle->input->jobs[job];
	const DecideRequestClass *request = &cycle->input->requests[j->request];
	Quotas	   *quotas = cycle->quotas;
	bool		all = true;
	int32_t		i;

	DecideAssert(job >= 0 && job < cycle->input->n_jobs);
	DecideAssert(cycle->queue != NULL);
	*held = false;
	cycle->filter = NULL;
	if (quotas == NULL || !quotas->any[j->account])
		return true;
	if (request->max_gpus == 0)
	{
		*held = quota_most(cycle, j, request, DECIDE_NO_TYPE, reserving) < 0;
		return true;
	}
	*held = request->n_offers > 0;
	for (i = 0; i < request->n_offers; i++)
	{
		quotas->most[i] = quota_most(cycle, j, request,
									 request->offers[i].type,
									 reserving);
		all &= quotas->most[i] == request->max_gpus;
		*held &= quotas->most[i] < 0;
	}
	if (all || *held)
		return true;
	cycle->filter = filter_find(cycle, request, cycle->class_of[j->request]);
	if (cycle->filter == NULL)
		return false;
	cycle->filter->request.wall_limit = request->wall_limit;
	return true;
}

/*
 * Copy the quotas for the next round, and count the starts.
 */
bool
DecideQuotasApply(const DecideInput *input, const DecideResult *result,
				  const DecideArena *arena, DecideInput *next)
{
	DecideQuota *quotas;
	QuotaChains chains;
	int32_t		i;

	DecideAssert(next->quotas == input->quotas);
	DecideAssert(result->n_starts >= 0);
	if (input->n_quotas == 0)
		return true;
	quotas = DecideAlloc(arena, input->n_quotas, sizeof(DecideQuota));
	if (quotas == NULL || !quota_chain(input, arena, &chains))
		return false;
	memcpy(quotas, input->quotas,
		   (size_t) input->n_quotas * sizeof(DecideQuota));
	for (i = 0; i < result->n_starts; i++)
	{
		const DecideStart *start = &result->starts[i];
		int32_t		account = input->jobs[start->job].account;
		int32_t		q;

		for (; account >= 0; account = input->accounts[account].parent)
		{
			for (q = chains.first[account]; q >= 0; q = chains.next[q])
			{
				if (!quota_counts(&quotas[q], start->type))
					continue;
				quotas[q].used_milli += (int64_t) start->gpus * start->share;
				quotas[q].running++;
			}
		}
	}
	next->quotas = quotas;
	return true;
}
