/*
 * claim.c
 *	  Claims: devices promised to a job before their holders leave.
 *
 * A job that cannot start gets a claim if running jobs can leave for it: they
 * go on elsewhere or with fewer devices (shrink.c, defragment.c), or return to the queue
 * (victims_search.c).  After a failed search, jobs of the same account and
 * tier with the same request and at least the same limit are not tried again,
 * until some claim is made.  Then all that failed get another turn, so that
 * another cycle at the same instant decides nothing.
 *
 * What the leaving jobs of a claim still have, and give back for it.
 *
 * The claim takes only the rest from the free devices.  The parts of all
 * leaving jobs are sorted by claim and host, so that each is looked at once.
 *
 * Claims of earlier cycles, before the queue.
 *
 * A claim whose devices are all free becomes a start on them, if its quotas
 * are kept.  Other claims are kept out of everybody's reach.  A claim that no
 * longer fits its job's request starts nothing, and keeps its devices until
 * it ends.
 */
#include <string.h>

#include "decide/preempt/claim_state.h"

typedef struct Leavers Leavers;

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
	Leaving		leaving;		/* for the last claim and host asked for */
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
 * Find the parts of all jobs that leave for claims.  NULL: out of memory.
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
 * What leaving jobs give back for a claim on a host, valid until the next
 * call; NULL: nothing.
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
 * Does a claim still fit its job's request?
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
			DecideShareTakes(host, request) ||
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
 * Does a leaving job still have part of a claim that was made at this
 * instant?  Then the claim waits for it, even if as much is free beside it:
 * that is kept for a reservation.
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
 * Start a job on the devices of its claim.  False: out of memory.
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
 * Start the jobs whose claims are free, and keep the other claims from
 * everybody, also from later claims.  False: out of memory.
 */
static bool
claims_restore(Cycle *cycle)
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

/*
 * Could a job make others leave, shrink or move?
 */
static bool
has_rights(const Cycle *cycle, int32_t job)
{
	const DecideInput *input = cycle->input;
	const ClaimState *claims = cycle->claims;
	const DecideTier *tier = &input->tiers[input->jobs[job].tier];

	if (DecideJobRequest(cycle, job)->unpaid)
		return false;
	return claims->elastic ||
		(claims->least > INT32_MIN &&
		 (input->policy.reclaim || input->policy.consolidate ||
		  (tier->can_preempt && tier->rank < claims->least)));
}

/*
 * Find which running jobs could leave, and for which requests that matters.
 */
static void
see_rights(Cycle *cycle)
{
	const DecideInput *input = cycle->input;
	ClaimState *claims = cycle->claims;
	int32_t		i;

	claims->least = INT32_MIN;
	for (i = 0; i < input->n_running; i++)
	{
		const DecideRunning *running = &input->running[i];
		int32_t		rank = input->tiers[running->tier].rank;

		claims->elastic |= DecideElasticMayShrink(input, running);
		if (running->preemptible == DECIDE_PREEMPT_CAPACITY &&
			rank > claims->least && DecideRunningSettled(input, running))
			claims->least = rank;
	}
	for (i = 0; i < input->n_requests; i++)
		cycle->may_claim[i] = false;
	for (i = 0; i < input->n_jobs; i++)
		cycle->may_claim[input->jobs[i].request] |= has_rights(cycle, i);
}

/*
 * Get ready for claims, old and new, before the queue.  False: out of memory.
 */
bool
DecideClaimsBegin(Cycle *cycle)
{
	const DecideInput *input = cycle->input;
	ClaimState *claims;
	int32_t		i;

	DecideAssert(cycle->claims == NULL);
	DecideAssert(cycle->result->n_starts == 0);
	if (input->n_claims == 0 && input->n_running == 0 &&
		!input->policy.reclaim)
		return true;
	claims = DecideAlloc(cycle->arena, 1, sizeof(ClaimState));
	if (claims == NULL)
		return false;
	memset(claims, 0, sizeof(*claims));
	claims->parts = DecideAlloc(cycle->arena, cycle->n_hosts,
								sizeof(DecidePart));
	claims->host_of = DecideAlloc(cycle->arena, cycle->n_hosts,
								  sizeof(int32_t));
	cycle->promised = DecideAlloc(cycle->arena, input->n_jobs, sizeof(bool));
	cycle->on_claim = DecideAlloc(cycle->arena, input->n_jobs, sizeof(bool));
	cycle->may_claim = DecideAlloc(cycle->arena, input->n_requests, sizeof(bool));
	if (cycle->may_claim == NULL || claims->host_of == NULL ||
		claims->parts == NULL ||
		cycle->promised == NULL ||
		cycle->on_claim == NULL)
		return false;
	for (i = 0; i < cycle->n_hosts; i++)
		claims->host_of[cycle->hosts[i].node] = i;
	if (input->n_jobs > 0)
	{
		memset(cycle->promised, 0, (size_t) input->n_jobs * sizeof(bool));
		memset(cycle->on_claim, 0, (size_t) input->n_jobs * sizeof(bool));
	}
	cycle->claims = claims;
	see_rights(cycle);
	return input->n_claims == 0 || claims_restore(cycle);
}

/*
 * Count a start in entitlements.
 */
void
DecideClaimsStarted(Cycle *cycle, const DecideStart *start)
{
	DecideAssert(start->job >= 0 && start->job < cycle->input->n_jobs);
	DecideAssert(start->gpus >= 0);
	if (cycle->claims != NULL && cycle->claims->loaded)
		DecideEntitleUse(cycle, cycle->input->jobs[start->job].account,
						 DecideUsage(cycle->input, start->type, start->gpus,
									 DecideCounted(DecideJobRequest(cycle, start->job),
												   start->type)));
}

/*
 * Are two jobs equal for claims, apart from their wall limits?
 */
static bool
stand_alike(const Cycle *cycle, int32_t a, int32_t b)
{
	const DecideInput *input = cycle->input;

	return cycle->class_of[input->jobs[a].request] ==
		cycle->class_of[input->jobs[b].request] &&
		input->jobs[a].tier == input->jobs[b].tier &&
		input->jobs[a].account == input->jobs[b].account;
}

/*
 * The entry for jobs like this one; -1 in it: none was tried in vain.
 */
static int32_t *
tried_entry(const Cycle *cycle, int32_t job)
{
	const ClaimState *claims = cycle->claims;
	const DecideJob *j = &cycle->input->jobs[job];
	uint64_t	hash = (uint64_t) (uint32_t) cycle->class_of[j->request] << 32 ^
		(uint64_t) (uint32_t) j->tier << 24 ^ (uint32_t) j->account;
	uint64_t	at;

	hash *= UINT64_C(0x9E3779B97F4A7C15);
	for (at = (hash ^ hash >> 32) & (claims->tried_size - 1);
		 claims->tried[at] >= 0 &&
		 !stand_alike(cycle, claims->tried[at], job);
		 at = (at + 1) & (claims->tried_size - 1))
		;
	return &claims->tried[at];
}

/*
 * What evictions for a job's entitlement may cost, in device-thousandth-
 * seconds: a tenth of what it waited for, where its account has no more than
 * half of what it is entitled to, else a hundredth.  So the nearer
 * an account is to its entitlement, the more it waits for others to end, for
 * whose devices it is first in turn.
 */
static int64_t
reclaim_budget(const Cycle *cycle, int32_t job)
{
	const DecideInput *input = cycle->input;
	const Entitle *entitle = &cycle->claims->entitle;
	const DecideRequestClass *request = DecideJobRequest(cycle, job);
	int32_t		account = input->jobs[job].account;
	int64_t		waited = input->now - input->jobs[job].waits_from;
	int64_t		divisor = 100;
	__int128	budget;

	if (input->policy.restart_cost == 0)
		return INT64_MAX;
	for (; account >= 0; account = input->accounts[account].parent)
	{
		if (entitle->used[account] <= entitle->due[account] / 2)
			divisor = 10;
	}
	if (waited <= 0)
		return 0;
	budget = (__int128) (waited / 1000000) * request->min_gpus *
		request->share / divisor;
	return budget > INT64_MAX / 2 ? INT64_MAX / 2 : (int64_t) budget;
}

/*
 * Begin a search for a job with one offer.
 */
static void
search_for_job(Cycle *cycle, int32_t job, const DecideOffer *offer)
{
	const DecideInput *input = cycle->input;
	const DecideRequestClass *request = DecideJobRequest(cycle, job);
	const DecideTier *tier = &input->tiers[input->jobs[job].tier];
	Search	   *search = &cycle->claims->search;

	DecideSearchFor(cycle, request, offer);
	search->job = job;
	search->account = input->jobs[job].account;
	search->rank = tier->rank;
	search->preempts = tier->can_preempt;
	search->amount = offer == NULL ? 0 :
		DecideUsage(input, offer->type, request->min_gpus,
					DecideCounted(request, offer->type));
	search->budget = reclaim_budget(cycle, job);
}

/*
 * The rank to whose entitlements a job's reservation yields; INT32_MIN: to
 * none.  Reservations beyond an entitlement yield, or one large waiting job
 * would keep all others from their devices.  An aged job's yields to nobody.
 */
int32_t
DecideReservationYields(const Cycle *cycle, int32_t job,
						const DecideReservation *made)
{
	const DecideInput *input = cycle->input;
	int32_t		account = input->jobs[job].account;
	int64_t		amount = DecideUsage(input, made->type, made->gpus,
									 DecideCounted(DecideJobRequest(cycle, job),
												   made->type));

	DecideAssert(job >= 0 && job < cycle->input->n_jobs);
	DecideAssert(made->job == job);
	return cycle->claims == NULL || !cycle->claims->loaded ||
		!input->policy.reclaim || DecideJobAged(input, job) ||
		DecideEntitleWithin(cycle, account,
							cycle->input->policy.restart_cost > 0 ? 1 :
							amount, -1) ? INT32_MIN :
		input->tiers[input->jobs[job].tier].rank;
}

/*
 * Whether a job's account, or one above it, has what it is entitled to
 * already.  A job of one that has less may take it beyond that: a large job
 * would never start otherwise.  Aged jobs go before all others of their rank,
 * and keep what they get.  False: out of memory.
 */
bool
DecideClaimBeyond(Cycle *cycle, int32_t job, bool *beyond)
{
	const DecideInput *input = cycle->input;

	DecideAssert(job >= 0 && job < input->n_jobs);
	DecideAssert(input->policy.reclaim && beyond != NULL);
	*beyond = false;
	if (DecideJobRequest(cycle, job)->min_gpus == 0 ||
		DecideJobAged(input, job) || cycle->promised[job])
		return true;
	if (!DecideClaimsLoad(cycle))
		return false;
	*beyond = !DecideEntitleWithin(cycle, input->jobs[job].account, 1, -1);
	return true;
}

/*
 * Whether the chosen victims that leave for an entitlement cost no more than
 * the search may spend.
 */
static bool
affordable(const Cycle *cycle)
{
	const ClaimState *claims = cycle->claims;
	int64_t		left = claims->search.budget;
	int32_t		i;

	for (i = 0; i < claims->n_chosen; i++)
	{
		const Candidate *candidate = &claims->candidates[claims->chosen[i]];

		if (DecideVictimWhy(cycle, candidate) != DECIDE_WHY_ENTITLEMENT)
			continue;
		if (candidate->price > left)
			return false;
		left -= candidate->price;
	}
	return true;
}

/*
 * Find victims beside the devices that elastic jobs give.  If both together
 * would leave an account less than its entitlement, elastic jobs give none.
 */
static bool
find_entitled(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;
	bool		entitled;

	if (!DecideVictimsFind(cycle))
		return false;
	if (!affordable(cycle))
	{
		DecideVictimsGiveUp(cycle);
		return false;
	}
	if (claims->n_given == 0)
		return true;
	claims->search.shrinking = true;
	entitled = DecideVictimsAllEntitled(cycle);
	claims->search.shrinking = false;
	if (entitled)
		return true;
	DecideVictimsGiveUp(cycle);
	claims->search.no_shrinks = true;
	return DecideVictimsFind(cycle);
}

/*
 * Make the claim as planned; its victims are chosen and released.  False: out
 * of memory.
 */
static bool
claim_add(Cycle *cycle, Plan *plan)
{
	ClaimState *claims = cycle->claims;
	const Search *search = &claims->search;
	int32_t		index = cycle->result->n_promises;
	DecideWhy	why = DECIDE_WHY_SHRINK;
	DecidePromise *promise = DecidePromiseAdd(cycle, search->request,
											  search->request->min_gpus, plan);
	int32_t		p;

	if (promise == NULL)
		return false;
	promise->job = search->job;
	promise->type = search->offer != NULL ? search->offer->type :
		DECIDE_NO_TYPE;
	if (!DecideLeaversTell(cycle, index, -1, &why))
		return false;
	cycle->result->promises[index].why = why;
	for (p = 0; p < cycle->result->promises[index].n_parts; p++)
	{
		const DecidePart *part = &cycle->result->promise_parts
			[cycle->result->promises[index].first_part + p];

		DecideHostPromise(cycle, claims->host_of[part->node], part,
						  search->request->share, NULL);
	}
	cycle->promised[search->job] = true;
	DecideEntitleUse(cycle, cycle->input->jobs[search->job].account,
					 search->amount);
	if (search->moving && !DecideDefragmentAdd(cycle, index))
		return false;
	claims->n_chosen = 0;
	return true;
}

/*
 * Try to make a claim with one offer.  under: victims may leave their
 * accounts less than their entitlements.  False: out of memory.
 */
static bool
claim_with_offer(Cycle *cycle, int32_t job, const DecideOffer *offer,
				 bool under, bool *made)
{
	Search	   *search = &cycle->claims->search;
	bool		found = false;
	uint64_t	changes = cycle->claims->entitle.changes;
	bool		might;
	Plan	   *plan;
	int32_t		type = offer != NULL ? offer->type : DECIDE_NO_TYPE;
	DecideUse	use;

	search_for_job(cycle, job, offer);
	if (search->range.n == 0)
		return true;
	search->under = under;
	search->moving = cycle->input->policy.consolidate && !under;
	cycle->claims->trials = 0;
	if (search->moving)
		found = DecideVictimsFind(cycle);
	if (!found)
	{
		search->moving = false;
		if (cycle->input->policy.reclaim &&
			DecideEntitleWithin(cycle, search->account, search->amount,
								search->account))
			cycle->passes = search->rank;
		if (!DecidePreemptableMight(cycle, &might))
			return false;
		found = might && find_entitled(cycle);
	}
	if (!found)
	{
		cycle->passes = INT32_MAX;
		/* everything released was taken again */
		cycle->claims->entitle.changes = changes;
		return true;
	}
	plan = DecideClaimPlan(cycle, search->request, offer,
						   search->request->min_gpus);
	*made = plan != NULL;
	if (plan == NULL || !claim_add(cycle, plan))
		return false;
	cycle->passes = INT32_MAX;
	use = DecideJobUse(search->request, type, search->request->min_gpus);
	DecideQuotaAdd(cycle, cycle->input->jobs[job].account, type, &use, false);
	return true;
}

/*
 * Give a job that cannot start its turn for a claim.  False: out of memory.
 */
bool
DecideClaimTry(Cycle *cycle, int32_t job, bool *made)
{
	const DecideRequestClass *request = DecideJobRequest(cycle, job);
	bool		cpu_only = request->max_gpus == 0;
	int32_t		n_offers = cpu_only ? 1 : request->n_offers;
	int32_t		n_tries = cycle->input->policy.reclaim ? 2 * n_offers :
		n_offers;
	int32_t    *tried;
	int32_t		i;

	DecideAssert(job >= 0 && job < cycle->input->n_jobs);
	DecideAssert(made != NULL);
	*made = false;
	if (cycle->claims == NULL || !has_rights(cycle, job))
		return true;
	if (!DecideClaimsLoad(cycle))
		return false;
	tried = tried_entry(cycle, job);
	if (!cycle->claims->again)
		cycle->claims->waiting[cycle->claims->n_waiting++] = job;
	if (*tried >= 0 && cycle->input->requests
		[cycle->input->jobs[*tried].request].wall_limit <= request->wall_limit)
		return true;
	DecideAvailabilityShow(cycle, request->wall_limit);
	for (i = 0; i < n_tries && !*made; i++)
	{
		if (!claim_with_offer(cycle, job, cpu_only ? NULL :
							  &request->offers[i % n_offers], i >= n_offers,
							  made))
			return false;
	}
	if (!*made)
		*tried = job;
	return true;
}

/*
 * Give jobs that failed more turns, as long as that leads to claims.  False:
 * out of memory.
 */
static bool
claims_settle(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;
	int32_t		before = 0;
	int32_t		i;

	claims->again = true;
	while (before < cycle->result->n_promises)
	{
		before = cycle->result->n_promises;
		memset(claims->tried, 0xFF, claims->tried_size * sizeof(int32_t));
		for (i = 0; i < claims->n_waiting; i++)
		{
			int32_t		job = claims->waiting[i];
			bool		made;
			bool		held;

			if (cycle->promised[job])
				continue;
			if (!DecideQuotaFilter(cycle, job, false, &held) ||
				(!held && !DecideClaimTry(cycle, job, &made)))
				return false;
		}
	}
	cycle->filter = NULL;
	return true;
}

/*
 * After the queue: claims that others made possible, elastic jobs that grow,
 * and the reasons of jobs with claims.  False: out of memory.
 */
bool
DecideClaimsEnd(Cycle *cycle)
{
	const DecideInput *input = cycle->input;
	int32_t		i;

	DecideAssert(!cycle->reserving);
	DecideAssert(cycle->filter == NULL);
	if (cycle->claims == NULL)
		return true;
	if ((cycle->claims->loaded && !claims_settle(cycle)) ||
		!DecideElasticsGrow(cycle))
		return false;
	for (i = 0; i < input->n_claims; i++)
	{
		int32_t		job = input->claims[cycle->claims->in_turn[i]].job;
		DecideWait *wait = job < 0 ? NULL :
			&cycle->result->waits[input->jobs[job].request];

		if (wait != NULL && wait->reason == DECIDE_NOT_WAITING &&
			!cycle->on_claim[job])
		{
			wait->reason = DECIDE_PROMISED;
			wait->job = job;
		}
	}
	for (i = 0; i < cycle->result->n_promises; i++)
	{
		int32_t		job = cycle->result->promises[i].job;
		DecideWait *wait = job < 0 ? NULL :
			&cycle->result->waits[input->jobs[job].request];

		if (wait != NULL && wait->reason == DECIDE_NOT_WAITING)
		{
			wait->reason = DECIDE_PROMISED;
			wait->job = job;
		}
	}
	return true;
}
