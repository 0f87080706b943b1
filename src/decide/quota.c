/*
 * quota.c
 *	  What accounts, with all below them, may have at most.
 *
 * A quota counts what runs, wherever, what is promised and what this cycle
 * starts, of its account and all below it; within a round that only grows.  So
 * what a quota once keeps from starting it keeps: jobs that it leaves nothing
 * before the queue are not in it, nor in anybody's way, and others lose at
 * their turn what it no longer leaves them (quota_filter.c).  What is reserved counts
 * among reservations alone: it is for later, and what starts now comes first.
 */
#include <string.h>

#include "decide/quota.h"

/*
 * Chain the quotas of each account.  False: out of memory.
 */
bool
DecideQuotaChain(const DecideInput *input, const DecideArena *arena,
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
 * Does a quota count what has devices of this type, or none?
 */
bool
DecideQuotaCounts(const DecideQuota *quota, int32_t type)
{
	return quota->type == DECIDE_ANY_TYPE || quota->type == type;
}

/*
 * The first quota that an account stands under and that counts a type, from
 * one on (-1: the account's own first); -1: there is none.  *account is whose
 * it is.
 */
static int32_t
next_over(const Cycle *cycle, int32_t type, int32_t *account, int32_t quota)
{
	const DecideInput *input = cycle->input;
	const QuotaChains *chains = &cycle->quotas->chains;

	quota = quota < 0 ? chains->first[*account] : chains->next[quota];
	for (;;)
	{
		while (quota >= 0 && !DecideQuotaCounts(&input->quotas[quota], type))
			quota = chains->next[quota];
		if (quota >= 0 || input->accounts[*account].parent < 0)
			return quota;
		*account = input->accounts[*account].parent;
		quota = chains->first[*account];
	}
}

/*
 * Count so much more under all quotas that an account stands under.
 */
void
DecideQuotaTake(Cycle *cycle, int32_t account, int32_t type, int64_t milli,
				int32_t jobs, bool reserved)
{
	Quotas	   *quotas = cycle->quotas;
	int32_t		q = -1;

	if (quotas == NULL || !quotas->any[account])
		return;
	while ((q = next_over(cycle, type, &account, q)) >= 0)
	{
		(reserved ? quotas->reserved_milli : quotas->milli)[q] += milli;
		(reserved ? quotas->reserved_running : quotas->running)[q] += jobs;
	}
}

/*
 * The most devices of a type, up to what is asked, that quotas leave a job;
 * -1: they do not let it start.
 */
int32_t
DecideQuotaMost(const Cycle *cycle, const DecideJob *job,
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
			continue;			/* of devices it takes none */
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
 * Of a job's range of devices, from least to most: as many as quotas could ever
 * let it have, whatever else runs.
 */
int32_t
DecideQuotaEver(const Cycle *cycle, int32_t account, int32_t type,
				int32_t least, int32_t most)
{
	int32_t		q = -1;

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
 * How many devices a running job has that is to go on elsewhere; as many as it
 * will have where it is not there.
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
 * What is promised is spoken for.
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
		return DecideQuotaMost(cycle, job, request, DECIDE_NO_TYPE, false) < 0;
	for (i = 0; i < request->n_offers; i++)
	{
		if (DecideQuotaMost(cycle, job, request, request->offers[i].type,
							false) >= 0)
			return false;
	}
	return request->n_offers > 0;
}

/*
 * Hold back, before the queue, whom quotas leave nothing.  Who has a claim is
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
 * Which accounts stand under a quota.
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
 * Count what there is, before anything is decided.  False: out of memory.
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
	if (!DecideQuotaChain(input, arena, &quotas->chains) ||
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
