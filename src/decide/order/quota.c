/*
 * quota.c
 *	  Quotas: the most that an account and all accounts below it may use.
 *
 * A quota counts what running jobs in all pools, claims and this cycle's
 * starts of its account and of all accounts below it use: jobs, devices, cpu
 * and memory, and the devices of jobs that are not evicted for others.  A
 * limit on a resource that a job does not use does not keep it from starting.
 * Within a round use only grows, so what a quota has once forbidden stays
 * forbidden.  Jobs for which nothing is left of a quota are not queued, unless
 * jobs below their tier may leave for them
 * (preempt/quota_claim.c).  Other jobs lose, at their turn, the offers that quotas do not
 * allow.  Reservations are counted only against other reservations: they are
 * for a later time, and starts have precedence.
 *
 * Of a waiting job's claim only that counts beyond what its leaving jobs return under the
 * same quota: its job does not start before they have left.  So a job may take
 * the place of less important ones within a full quota.
 *
 * If quotas allow a job only a part of its request, offers are kept whose
 * types have enough quota left, and a range is reduced to that many devices.
 * Jobs of a class that are allowed the same part share a class of their own,
 * so hosts need not be examined again for each job.  What failed for the whole
 * class fails for the part, too.
 */
#include <string.h>

#include "decide/order/order.h"

/*
 * Links the quotas of each account.  Returns false if memory runs out.
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
 * Whether a quota counts jobs with devices of this type.
 */
static bool
quota_counts(const DecideQuota *quota, int32_t type)
{
	return quota->type == DECIDE_ANY_TYPE || quota->type == type;
}

/*
 * Returns the next quota that counts this type for an account or one above it,
 * after the given quota, or from the account's first one on if quota is -1.
 * Returns -1 if there is no more.  *account becomes the quota's account.
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
 * Adds a use to all quotas that count an account.
 */
void
DecideQuotaAdd(Cycle *cycle, int32_t account, int32_t type,
			   const DecideUse *use, bool reserved)
{
	Quotas	   *quotas = cycle->quotas;
	int32_t		q = -1;

	DecideAssert(account >= 0 && account < cycle->input->n_accounts);
	if (quotas == NULL || !quotas->any[account])
		return;
	while ((q = next_over(cycle, type, &account, q)) >= 0)
		DecideUseAdd(reserved ? &quotas->reserved[q] : &quotas->used[q], use);
}

/*
 * Whether a quota counts a running job.
 */
bool
DecideQuotaCounts(const Cycle *cycle, int32_t quota,
				  const DecideRunning *running)
{
	const DecideInput *input = cycle->input;
	int32_t		account = running->account;

	DecideAssert(quota >= 0 && quota < input->n_quotas);
	if (!quota_counts(&input->quotas[quota], running->type))
		return false;
	while (account >= 0 && account != input->quotas[quota].account)
		account = input->accounts[account].parent;
	return account >= 0;
}

/*
 * What running jobs return under a quota when they leave.
 */
static DecideUse
returned_by(const Cycle *cycle, int32_t quota, const int32_t *leavers,
			int32_t n)
{
	const DecideInput *input = cycle->input;
	DecideUse	sum = {{0}};
	int32_t		i;

	for (i = 0; i < n; i++)
	{
		const DecideRunning *running = &input->running[leavers[i]];

		if (DecideQuotaCounts(cycle, quota, running))
		{
			DecideUse	use = DecideRunningUse(running, input->running_parts);

			DecideUseAdd(&sum, &use);
		}
	}
	return sum;
}

/*
 * Adds a claim's use to all quotas that count its account, as far as it
 * exceeds what the jobs return that leave for it.
 */
void
DecideQuotaPromise(Cycle *cycle, int32_t account, int32_t type,
				   const DecideUse *use, const int32_t *leavers, int32_t n)
{
	Quotas	   *quotas = cycle->quotas;
	int32_t		q = -1;

	DecideAssert(account >= 0 && account < cycle->input->n_accounts);
	DecideAssert(n >= 0);
	if (quotas == NULL || !quotas->any[account])
		return;
	while ((q = next_over(cycle, type, &account, q)) >= 0)
	{
		DecideUse	returned = returned_by(cycle, q, leavers, n);
		DecideUse	more = DecideUseBeyond(use, &returned);

		DecideUseAdd(&quotas->used[q], &more);
	}
}

/*
 * Whether quotas allow an account a use once some running jobs have left.  If
 * not, *lacking is set to the first quota that does not, of the account itself
 * or the nearest one above it, and *resource to the resource of which it
 * leaves too little.
 */
bool
DecideQuotaSuffices(const Cycle *cycle, int32_t account, int32_t type,
					const DecideUse *use, const int32_t *leavers, int32_t n,
					int32_t *lacking, int *resource)
{
	int32_t		q = -1;

	DecideAssert(cycle->quotas != NULL);
	DecideAssert(account >= 0 && account < cycle->input->n_accounts);
	while ((q = next_over(cycle, type, &account, q)) >= 0)
	{
		DecideUse	returned = returned_by(cycle, q, leavers, n);
		DecideUse	left = DecideUseBeyond(&cycle->quotas->used[q], &returned);

		*resource = DecideUseOver(&cycle->input->quotas[q].most, &left, use);
		*lacking = q;
		if (*resource >= 0)
			return false;
	}
	return true;
}

/*
 * Finds the running jobs that leave for a claim, in quotas->leavers, and
 * returns their number.
 */
static int32_t
find_leavers(const Cycle *cycle, const DecideClaim *claim)
{
	const Quotas *quotas = cycle->quotas;
	int32_t		n = 0;
	int32_t		i;

	for (i = 0; i < quotas->n_leaving; i++)
	{
		if (DecideLeavesFor(cycle->input,
							&cycle->input->running[quotas->leaving[i]],
							claim))
			quotas->leavers[n++] = quotas->leaving[i];
	}
	return n;
}

/*
 * How many thousandths of devices a quota leaves beside what is used, or
 * INT64_MAX if it limits none.  stays is whether they are for a job that is
 * not evicted for others.
 */
static int64_t
spare_devices(const DecideQuota *quota, const DecideUse *used, bool stays)
{
	int64_t		left = INT64_MAX;
	int64_t		most = quota->most.of[DECIDE_LIMITED_DEVICES];
	int64_t		most_staying = quota->most.of[DECIDE_LIMITED_STAYING];

	if (most >= 0)
		left = most - used->of[DECIDE_LIMITED_DEVICES];
	if (stays && most_staying >= 0 &&
		most_staying - used->of[DECIDE_LIMITED_STAYING] < left)
		left = most_staying - used->of[DECIDE_LIMITED_STAYING];
	return left;
}

/*
 * Returns the most devices of a type that quotas allow a job, up to its
 * request, or -1 if it may not start.
 */
static int32_t
quota_most(const Cycle *cycle, const DecideJob *job,
		   const DecideRequestClass *request, int32_t type,
		   bool reserving)
{
	const Quotas *quotas = cycle->quotas;
	int32_t		account = job->account;
	DecideUse	least = DecideJobUse(request, type, request->min_gpus);
	int32_t		counted = DecideCounted(request, type);
	int64_t		most = request->max_gpus;
	int32_t		q = -1;

	while ((q = next_over(cycle, type, &account, q)) >= 0)
	{
		const DecideQuota *quota = &cycle->input->quotas[q];
		DecideUse	used = quotas->used[q];
		int64_t		left;

		if (reserving)
			DecideUseAdd(&used, &quotas->reserved[q]);
		if (DecideUseOver(&quota->most, &used, &least) >= 0)
			return -1;
		if (request->max_gpus == 0)
			continue;
		left = spare_devices(quota, &used, request->stays);
		if (left / counted < most)
			most = left / counted;
	}
	return most < request->min_gpus ? -1 : (int32_t) most;
}

/*
 * Whether the use of a claim, which has been added to the quotas already,
 * exceeds none of them.  What its leaving jobs have not returned yet was not
 * added, and counts here.
 */
bool
DecideQuotaKept(const Cycle *cycle, const DecideClaim *claim)
{
	const Quotas *quotas = cycle->quotas;
	DecideUse	use = DecideClaimUse(cycle->input->claim_parts, claim, 0);
	int32_t		account = claim->account;
	int32_t		q = -1;
	int32_t		n;
	int			i;

	DecideAssert(account >= 0 && account < cycle->input->n_accounts);
	DecideAssert(claim->type != DECIDE_ANY_TYPE);
	if (quotas == NULL || !quotas->any[account])
		return true;
	n = find_leavers(cycle, claim);
	while ((q = next_over(cycle, claim->type, &account, q)) >= 0)
	{
		const DecideQuota *quota = &cycle->input->quotas[q];
		DecideUse	returned = returned_by(cycle, q, quotas->leavers, n);
		DecideUse	beyond = DecideUseBeyond(&use, &returned);

		for (i = 0; i < DECIDE_LIMITED; i++)
		{
			if (quota->most.of[i] >= 0 && use.of[i] > 0 &&
				quotas->used[q].of[i] > quota->most.of[i] -
				(use.of[i] - beyond.of[i]))
				return false;
		}
	}
	return true;
}

/*
 * The most devices that quotas allow a running job, including those it has.
 */
int32_t
DecideQuotaMore(const Cycle *cycle, const DecideRunning *running)
{
	int32_t		account = running->account;
	int64_t		more = running->max_gpus - running->gpus;
	int32_t		counted = DecideRunningCounted(running);
	int32_t		q = -1;

	DecideAssert(running->type >= 0);
	DecideAssert(running->account >= 0 && running->account < cycle->input->n_accounts);
	if (cycle->quotas == NULL || !cycle->quotas->any[account])
		return running->max_gpus;
	while ((q = next_over(cycle, running->type, &account, q)) >= 0)
	{
		int64_t		left = spare_devices(&cycle->input->quotas[q],
										 &cycle->quotas->used[q],
										 running->stays);

		if (left / counted < more)
			more = left < 0 ? 0 : left / counted;
	}
	return running->gpus + (int32_t) more;
}

/*
 * The most devices of a range that quotas could ever allow, whatever else
 * runs.
 */
int32_t
DecideQuotaEver(const Cycle *cycle, int32_t account, int32_t type, bool stays,
				int32_t least, int32_t most)
{
	DecideUse	nothing = {{0}};
	int32_t		q = -1;

	DecideAssert(account >= 0 && account < cycle->input->n_accounts);
	DecideAssert(least <= most);
	if (cycle->quotas == NULL || !cycle->quotas->any[account])
		return most;
	while ((q = next_over(cycle, type, &account, q)) >= 0)
	{
		int64_t		ever = spare_devices(&cycle->input->quotas[q], &nothing,
										 stays) / DECIDE_WHOLE;

		if (ever < most)
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
 * Adds the use of all claims to the quotas.
 */
static void
count_claims(Cycle *cycle)
{
	const DecideInput *input = cycle->input;
	int32_t		i;

	for (i = 0; i < input->n_claims; i++)
	{
		const DecideClaim *claim = &input->claims[i];
		DecideUse	use;

		if (!cycle->quotas->any[claim->account])
			continue;
		use = DecideClaimUse(input->claim_parts, claim, claim->running ?
							 gpus_now(input, claim) : 0);
		DecideQuotaPromise(cycle, claim->account, claim->type, &use,
						   cycle->quotas->leavers, claim->running ? 0 :
						   find_leavers(cycle, claim));
	}
}

/*
 * Whether quotas allow a job nothing at all.
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
 * Whether each quota that keeps a job from devices of a type counts a running
 * job that could leave for it.
 */
static bool
could_leave(const Cycle *cycle, const DecideJob *job,
			const DecideRequestClass *request, int32_t type)
{
	const Quotas *quotas = cycle->quotas;
	DecideUse	least = DecideJobUse(request, type, request->min_gpus);
	DecideUse	nothing = {{0}};
	int32_t		account = job->account;
	int32_t		rank = cycle->input->tiers[job->tier].rank;
	int32_t		q = -1;

	while ((q = next_over(cycle, type, &account, q)) >= 0)
	{
		const DecideUse *most = &cycle->input->quotas[q].most;
		DecideUse	staying = {{0}};

		if (DecideUseOver(most, &quotas->used[q], &least) < 0)
			continue;

		/*
		 * Jobs that are counted by a limit on those that stay are never
		 * evicted, so nobody's leaving makes room within it.
		 */
		staying.of[DECIDE_LIMITED_STAYING] = least.of[DECIDE_LIMITED_STAYING];
		if (DecideUseOver(most, &quotas->used[q], &staying) >= 0)
			return false;
		if (DecideUseOver(most, &nothing, &least) >= 0 ||
			quotas->evictable[account] <= rank)
			return false;
	}
	return true;
}

/*
 * Whether less important jobs of the same account could leave for a job to
 * which quotas allow nothing.
 */
static bool
could_displace(const Cycle *cycle, const DecideJob *job)
{
	const DecideRequestClass *request = &cycle->input->requests[job->request];
	int32_t		i;

	if (!cycle->input->tiers[job->tier].can_preempt || request->unpaid)
		return false;
	if (request->max_gpus == 0)
		return could_leave(cycle, job, request, DECIDE_NO_TYPE);
	for (i = 0; i < request->n_offers; i++)
	{
		if (could_leave(cycle, job, request, request->offers[i].type))
			return true;
	}
	return false;
}

/*
 * Marks the jobs to which quotas allow nothing, before the queue is made.
 * Jobs with claims are not marked, because the quotas count their claims
 * already; nor are those for which less important jobs could leave.
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
		else if (cycle->quotas->any[job->account] &&
				 leave_nothing(cycle, job) && !could_displace(cycle, job))
			result->held[i] = 0;
	}
}

/*
 * Marks the accounts that at least one quota counts.
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
 * Lists the running jobs that leave, and finds the least important rank that
 * may be evicted of each account.
 */
static void
note_running(const DecideInput *input, Quotas *quotas)
{
	int32_t		i;

	for (i = 0; i < input->n_accounts; i++)
		quotas->evictable[i] = INT32_MIN;
	for (i = 0; i < input->n_running; i++)
	{
		const DecideRunning *running = &input->running[i];
		int32_t		rank = input->tiers[running->tier].rank;
		int32_t		account = running->account;

		if (running->leaving)
			quotas->leaving[quotas->n_leaving++] = i;
		if (running->leaving || running->over ||
			running->preemptible != DECIDE_PREEMPT_CAPACITY)
			continue;
		for (; account >= 0 && quotas->evictable[account] < rank;
			 account = input->accounts[account].parent)
			quotas->evictable[account] = rank;
	}
}

/*
 * Counts what runs and what is claimed, before anything is decided.  Returns
 * false if memory runs out.
 */
bool
DecideQuotasBegin(Cycle *cycle)
{
	const DecideInput *input = cycle->input;
	const DecideArena *arena = cycle->arena;
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
	quotas->used = DecideAlloc(arena, input->n_quotas, sizeof(DecideUse));
	quotas->reserved = DecideAlloc(arena, input->n_quotas, sizeof(DecideUse));
	quotas->most = DecideAlloc(arena, offers, sizeof(int32_t));
	quotas->evictable = DecideAlloc(arena, input->n_accounts,
									sizeof(int32_t));
	quotas->leaving = DecideAlloc(arena, input->n_running, sizeof(int32_t));
	quotas->leavers = DecideAlloc(arena, input->n_running, sizeof(int32_t));
	cycle->result->held = DecideAlloc(arena, input->n_jobs, sizeof(int32_t));
	cycle->result->held_beside = DecideAlloc(arena, input->n_jobs,
											 sizeof(bool));
	if (!quota_chain(input, arena, &quotas->chains) ||
		quotas->any == NULL || quotas->used == NULL ||
		quotas->reserved == NULL || quotas->most == NULL ||
		quotas->evictable == NULL || quotas->leaving == NULL ||
		quotas->leavers == NULL ||
		cycle->result->held == NULL || cycle->result->held_beside == NULL)
		return false;
	for (i = 0; i < input->n_quotas; i++)
		quotas->used[i] = input->quotas[i].used;
	memset(quotas->reserved, 0, (size_t) input->n_quotas * sizeof(DecideUse));
	memset(cycle->result->held_beside, 0,
		   (size_t) input->n_jobs * sizeof(bool));
	note_any(input, quotas);
	note_running(input, quotas);
	cycle->quotas = quotas;
	count_claims(cycle);
	hold_back(cycle);
	return true;
}

/*
 * Makes the filter of a class for the numbers of devices in quotas->most.
 * Returns NULL if memory runs out.
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
		/*
		 * it is tied to the last kept offer if all offers between them are
		 * tied
		 */
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
 * Finds or makes the filter of a class for the numbers of devices in
 * quotas->most.  Returns NULL if memory runs out.
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
 * Finds what quotas allow the job whose turn it is, and sets cycle->filter if
 * it is only a part of its request.  *held becomes true if it is nothing.
 * Returns false if memory runs out.
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
 * Copies the quotas for the next round, and adds the use of the round's starts
 * to them.
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
		const DecideJob *job = &input->jobs[start->job];
		DecideUse	use = DecideJobUse(&input->requests[job->request],
									   start->type, start->gpus);
		int32_t		account = job->account;
		int32_t		q;

		for (; account >= 0; account = input->accounts[account].parent)
		{
			for (q = chains.first[account]; q >= 0; q = chains.next[q])
			{
				if (quota_counts(&quotas[q], start->type))
					DecideUseAdd(&quotas[q].used, &use);
			}
		}
	}
	next->quotas = quotas;
	return true;
}
