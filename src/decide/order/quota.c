/*
 * quota.c
 *	  What accounts, with all below them, may have at most.
 *
 * A quota counts what runs, wherever, what is promised and what this cycle
 * starts, of its account and all below it; within a round that only grows.  So
 * what a quota once keeps from starting it keeps: jobs that it leaves nothing
 * before the queue are not in it, nor in anybody's way, and others lose at
 * their turn what it no longer leaves them.  What is reserved counts
 * among reservations alone: it is for later, and what starts now comes first.
 */
#include <string.h>

#include "decide/order/order.h"

/*
 * Classes: requests that are equal in all but their wall limit.
 *
 * They fit wherever the other fits, as long as nothing is reserved.  Behind
 * reservations one with a longer limit sees the less: where it is known that a
 * class cannot start a job of some limit, no longer one needs to be tried, and
 * none at all where it is not for reservations.  In the same way none can be
 * reserved for sooner than it was for a shorter one.
 */

/*
 * Mix a number into a hash.
 */
static uint64_t
mix(uint64_t hash, int64_t value)
{
	hash = (hash ^ (uint64_t) value) * UINT64_C(0x9E3779B97F4A7C15);
	return hash ^ hash >> 32;
}

/*
 * A number that equal classes share.
 */
static uint64_t
class_hash(const DecideRequestClass *request)
{
	uint64_t	hash = mix(0, request->min_gpus);
	int32_t		i;

	hash = mix(hash, request->max_gpus);
	hash = mix(hash, request->share);
	hash = mix(hash,
			   request->topology << 4 | request->prefer << 1 | request->spot_ok);
	hash = mix(hash, request->cpu_milli);
	hash = mix(hash, request->memory_mib);
	for (i = 0; i < request->n_offers; i++)
		hash = mix(mix(hash, request->offers[i].type),
				   request->offers[i].min_memory);
	return hash;
}

/*
 * Are two requests equal in all but their wall limit?
 */
static bool
same_class(const DecideRequestClass *a, const DecideRequestClass *b)
{
	int32_t		i;

	if (a->min_gpus != b->min_gpus || a->max_gpus != b->max_gpus ||
		a->share != b->share || a->n_offers != b->n_offers ||
		a->topology != b->topology || a->prefer != b->prefer ||
		a->cpu_milli != b->cpu_milli || a->memory_mib != b->memory_mib ||
		a->spot_ok != b->spot_ok || a->apart || b->apart)
		return false;
	for (i = 0; i < a->n_offers && a->offers != b->offers; i++)
	{
		if (a->offers[i].type != b->offers[i].type ||
			a->offers[i].min_memory != b->offers[i].min_memory ||
			a->offers[i].tied != b->offers[i].tied)
			return false;
	}
	return true;
}

/*
 * Find the class of each request.  False: out of memory.
 */
bool
DecideClassesFind(Cycle *cycle)
{
	const DecideInput *input = cycle->input;
	int32_t		n = input->n_requests;
	uint64_t	size = 16;
	int32_t    *table;
	int32_t		n_classes = 0;
	int32_t		i;

	DecideAssert(cycle->classes == NULL);
	DecideAssert(cycle->input != NULL);
	while (size < (uint64_t) n * 2)
		size *= 2;
	table = DecideAlloc(cycle->arena, (int64_t) size, sizeof(int32_t));
	cycle->class_of = DecideAlloc(cycle->arena, n, sizeof(int32_t));
	if (table == NULL || cycle->class_of == NULL)
		return false;
	memset(table, 0xFF, size * sizeof(int32_t));
	for (i = 0; i < n; i++)
	{
		uint64_t	at = class_hash(&input->requests[i]) & (size - 1);

		while (table[at] >= 0 &&
			   !same_class(&input->requests[table[at]], &input->requests[i]))
			at = (at + 1) & (size - 1);
		if (table[at] < 0)
		{
			table[at] = i;
			cycle->class_of[i] = n_classes++;
		}
		else
			cycle->class_of[i] = cycle->class_of[table[at]];
	}
	cycle->classes = DecideAlloc(cycle->arena, n_classes,
								 sizeof(EquivalenceClass));
	if (cycle->classes == NULL)
		return false;
	memset(cycle->classes, 0, (size_t) n_classes * sizeof(EquivalenceClass));
	return true;
}

/*
 * How far a class got, for a job of this limit.  What was found out for a
 * shorter one holds, but for the scores of hosts, which look different.
 */
RequestState *
DecideClassState(const Cycle *cycle, EquivalenceClass *class,
				 int64_t wall_limit)
{
	RequestState *state = &class->state;

	DecideAssert(class != NULL);
	DecideAssert(wall_limit > 0);
	if (!DecideAvailabilityAlike(cycle, class->limit, wall_limit))
	{
		if (wall_limit < class->limit)
		{
			state->offer = 0;
			state->spread = false;
		}
		state->started = false;
		state->best = NULL;
	}
	class->limit = wall_limit;
	return state;
}

/*
 * Nothing of a class is to be reserved for a job of this limit before then.
 */
int64_t
DecideClassFloor(const Cycle *cycle, const EquivalenceClass *class,
				 int64_t wall_limit)
{
	int64_t		floor = cycle->input->now;
	int32_t		i;

	DecideAssert(class != NULL);
	DecideAssert(wall_limit > 0);
	for (i = 0; i < class->n_floors; i++)
	{
		if (class->floors[i].wall_limit <= wall_limit &&
			class->floors[i].at > floor)
			floor = class->floors[i].at;
	}
	return floor;
}

/*
 * Note the earliest time that was found for a job of this limit.  False: out
 * of memory.
 */
bool
DecideClassReserved(const Cycle *cycle, EquivalenceClass *class,
					int64_t wall_limit,
					int64_t at)
{
	ClassFloor *kept = class->floors;
	int32_t		n = 0;
	int32_t		i;

	DecideAssert(wall_limit > 0);
	DecideAssert(at >= cycle->input->now);
	for (i = 0; i < class->n_floors; i++)
	{
		if (kept[i].wall_limit < wall_limit || kept[i].at > at)
			kept[n++] = kept[i];
	}
	class->floors = DecideGrow(cycle->arena, class->floors, n,
							   &class->floors_capacity, sizeof(ClassFloor));
	if (class->floors == NULL)
		return false;
	class->floors[n].wall_limit = wall_limit;
	class->floors[n].at = at;
	class->n_floors = n + 1;
	return true;
}

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
 * Does a quota count what has devices of this type, or none?
 */
static bool
quota_counts(const DecideQuota *quota, int32_t type)
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
		while (quota >= 0 && !quota_counts(&input->quotas[quota], type))
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
 * The most devices of a type, up to what is asked, that quotas leave a job;
 * -1: they do not let it start.
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
 * Of a job's range of devices, from least to most: as many as quotas could ever
 * let it have, whatever else runs.
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
 * A job's turn where quotas leave it a part of what it requests.
 *
 * Of its offers those count whose types its quotas leave it enough of, and of a
 * range no more devices than that.  Jobs of a class that are left the same are
 * a class of their own, so that they cost no more looks at hosts than others;
 * what could start none of the whole class starts none of these.
 */

/*
 * What is left of a class, for a key in the scratch.  NULL: out of memory.
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
		/* tied to the last one that is left, through all between */
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
 * Find what is left of a class, for a key in the scratch, or make it.  NULL:
 * out of memory.
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
 * See what quotas leave a job whose turn it is; *held: nothing.  False: out of
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
 * Note why a job cannot start with what quotas leave it, for its request, unless
 * they left it all: false.
 */
bool
DecideQuotaFilterExplain(Cycle *cycle, int32_t job)
{
	DecideWait *wait;

	DecideAssert(job >= 0 && job < cycle->input->n_jobs);
	DecideAssert(cycle->result->waits != NULL);
	if (cycle->filter == NULL)
		return false;
	wait = &cycle->quotas->waits[cycle->input->jobs[job].request];
	if (wait->reason == DECIDE_NOT_WAITING)
	{
		*wait = cycle->filter->class.failed ? cycle->filter->class.wait :
			cycle->filter->whole->wait;
		wait->job = job;
	}
	return true;
}

/*
 * Tell why requests wait of which no job waits that was left all.
 */
void
DecideQuotaFilterEnd(Cycle *cycle)
{
	int32_t		i;

	if (cycle->quotas == NULL || cycle->quotas->filters == NULL)
		return;
	for (i = 0; i < cycle->input->n_requests; i++)
	{
		if (cycle->result->waits[i].reason == DECIDE_NOT_WAITING &&
			cycle->quotas->waits[i].reason != DECIDE_NOT_WAITING)
			cycle->result->waits[i] = cycle->quotas->waits[i];
	}
}

/*
 * Quotas count what started.
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
