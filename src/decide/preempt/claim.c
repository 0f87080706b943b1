/*
 * claim.c
 *	  Claims: devices that are promised to a job before their holders leave.
 *
 * A job that cannot start gets a claim if running jobs can leave for it: they
 * continue elsewhere or with fewer devices (shrink.c, defragment.c), or return
 * to the queue (victims_search.c).  After a failed search, jobs of the same
 * account and tier with the same request and at least the same wall limit are
 * not tried again until another claim is made.  Then all jobs whose search
 * failed get another turn, so that another cycle at the same instant decides
 * nothing.
 *
 * The claims of earlier cycles come before the queue (earlier_claims.c).
 */
#include <string.h>

#include "decide/preempt/claim_state.h"

/*
 * Evictions may cost one part in so many of the device time that a job waited
 * for.
 */
#define FAR_FROM_ENTITLEMENT	10
#define NEAR_ENTITLEMENT		100

/*
 * Whether a job could make other jobs leave, shrink or move.
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
 * Finds which running jobs could leave, and for which requests this matters.
 */
static void
find_rights(Cycle *cycle)
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
 * Prepares for old and new claims, before the queue.  Returns false if memory
 * runs out.
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
	find_rights(cycle);
	return input->n_claims == 0 || DecideClaimsRestore(cycle);
}

/*
 * Adds a start to the use that entitlements count.
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
 * Whether two jobs are equal for claims, apart from their wall limits.
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
 * Returns the hash table's entry for jobs like this one.  It contains -1 if no
 * search for such a job has failed.
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
 * Whether a search has failed for a job like this one with at most its wall
 * limit.  *tried is set to the entry that is to contain the job if its own
 * search fails.
 */
bool
DecideClaimTried(Cycle *cycle, int32_t job, int32_t **tried)
{
	const DecideInput *input = cycle->input;

	DecideAssert(cycle->claims != NULL && cycle->claims->loaded);
	DecideAssert(job >= 0 && job < input->n_jobs);
	*tried = tried_entry(cycle, job);
	return **tried >= 0 &&
		input->requests[input->jobs[**tried].request].wall_limit <=
		DecideJobRequest(cycle, job)->wall_limit;
}

/*
 * The device time that a job waited for, in device-thousandth-seconds, divided
 * by divisor.  INT64_MAX if the pool has no restart cost, as evictions then
 * cost nothing.
 */
static int64_t
waited_part(const Cycle *cycle, int32_t job, int64_t divisor)
{
	const DecideInput *input = cycle->input;
	const DecideRequestClass *request = DecideJobRequest(cycle, job);
	int64_t		waited = input->now - input->jobs[job].waits_from;
	__int128	budget;

	if (input->policy.restart_cost == 0)
		return INT64_MAX;
	if (waited <= 0)
		return 0;
	budget = (__int128) (waited / 1000000) * request->min_gpus *
		request->share / divisor;
	return budget > INT64_MAX / 2 ? INT64_MAX / 2 : (int64_t) budget;
}

/*
 * What evictions for a job's entitlement may cost, in
 * device-thousandth-seconds: a tenth of the device time that the job waited
 * for, if its account has at most half of its entitlement, otherwise a
 * hundredth.  So the nearer an account is to its entitlement, the longer it
 * waits for jobs to end by themselves; their devices then go to it first.
 */
static int64_t
reclaim_budget(const Cycle *cycle, int32_t job)
{
	const DecideInput *input = cycle->input;
	const Entitle *entitle = &cycle->claims->entitle;
	int32_t		account = input->jobs[job].account;
	int64_t		divisor = NEAR_ENTITLEMENT;

	for (; account >= 0; account = input->accounts[account].parent)
	{
		if (entitle->used[account] <= entitle->due[account] / 2)
			divisor = FAR_FROM_ENTITLEMENT;
	}
	return waited_part(cycle, job, divisor);
}

/*
 * Whether any running job could leave for a job's entitlement, however large
 * that is.  The caller checks this before it raises an entitlement, which
 * takes time for all accounts and candidates.
 */
static bool
reclaim_might(const Cycle *cycle, int32_t job)
{
	const ClaimState *claims = cycle->claims;

	return claims->n_elastics > 0 ||
		(claims->least_price < INT64_MAX &&
		 claims->least_price <= waited_part(cycle, job, FAR_FROM_ENTITLEMENT));
}

/*
 * Begins a search for a job with one offer.
 */
void
DecideClaimSearch(Cycle *cycle, int32_t job, const DecideOffer *offer)
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
 * The rank up to which jobs that seek their entitlement may use what a job has
 * reserved, or INT32_MIN if none may.  Reservations beyond an entitlement are
 * given up for them, because otherwise one large waiting job would keep all
 * others from their devices.  The reservation of an aged job is given up for
 * nobody, nor is one that is due: a guaranteed start is kept, whoever is
 * entitled to the devices.
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
	if (!input->policy.reclaim || DecideJobAged(input, job) ||
		(cycle->was_due != NULL && cycle->was_due[job]))
		return INT32_MIN;
	DecideAssert(cycle->claims != NULL && cycle->claims->loaded);
	return DecideEntitleWithin(cycle, account,
							   input->policy.restart_cost > 0 ? 1 : amount,
							   -1) ? INT32_MIN :
		input->tiers[input->jobs[job].tier].rank;
}

/*
 * Whether a job's account, or one above it, has as much as it is entitled to
 * already.  A job of an account that has less may exceed the entitlement,
 * because a large job could otherwise never start.  Aged jobs go before all
 * others of their rank, and keep what they get.
 */
bool
DecideClaimBeyond(const Cycle *cycle, int32_t job)
{
	const DecideInput *input = cycle->input;

	DecideAssert(job >= 0 && job < input->n_jobs);
	DecideAssert(cycle->claims != NULL && cycle->claims->loaded);
	return DecideJobRequest(cycle, job)->min_gpus > 0 &&
		!DecideJobAged(input, job) && !cycle->promised[job] &&
		!DecideEntitleWithin(cycle, input->jobs[job].account, 1, -1);
}

/*
 * Whether the chosen victims that leave for an entitlement together cost no
 * more than the search's budget.
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
 * Finds victims in addition to the devices that elastic jobs give.  If both
 * together would leave an account less than its entitlement, elastic jobs give
 * no devices.
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
 * Makes the claim as planned; its victims are chosen and released.  Returns
 * false if memory runs out.
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
	if (!DecideEvictionsAdd(cycle, index, -1, &why))
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
 * Adds the use of a new claim, which is the last promise but for those of jobs
 * that move for it, to quotas.  Evicted jobs return what they use; jobs that
 * continue elsewhere do not.
 */
static void
claim_count(Cycle *cycle, const DecidePromise *promise)
{
	const DecideResult *result = cycle->result;
	const DecideRequestClass *request = cycle->claims->search.request;
	DecideUse	use = DecideJobUse(request, promise->type, promise->gpus);
	int32_t    *leavers;
	int32_t		n = 0;
	int32_t		i;

	if (cycle->quotas == NULL)
		return;
	leavers = cycle->quotas->leavers;
	for (i = promise->first_eviction;
		 i < promise->first_eviction + promise->n_evictions; i++)
	{
		const DecideEviction *eviction = &result->evictions[i];

		if (eviction->why == DECIDE_WHY_TIER ||
			eviction->why == DECIDE_WHY_ENTITLEMENT)
			leavers[n++] = eviction->running;
	}
	DecideQuotaPromise(cycle, cycle->input->jobs[promise->job].account,
					   promise->type, &use, leavers, n);
}

/*
 * Makes a claim for the search's job on what is free and what is released.
 * Returns false if memory runs out.
 */
bool
DecideClaimMake(Cycle *cycle, bool *made)
{
	const Search *search = &cycle->claims->search;
	int32_t		index = cycle->result->n_promises;
	Plan	   *plan = DecideClaimPlan(cycle, search->request, search->offer,
									   search->request->min_gpus);

	DecideAssert(search->job >= 0);
	DecideAssert(made != NULL);
	*made = plan != NULL;
	if (plan == NULL || !claim_add(cycle, plan))
		return false;
	cycle->passes = INT32_MAX;
	claim_count(cycle, &cycle->result->promises[index]);
	return true;
}

/* Which entitlements a search may exceed. */
typedef enum ClaimRight
{
	RIGHT_EXACT = 0,			/* all accounts keep their entitlements */
	RIGHT_UNDER,				/* the largest victim may leave its account
								 * less than its entitlement */
	RIGHT_ROUNDED				/* the entitlement of the job's account is
								 * rounded up to a whole device */
} ClaimRight;

#define N_RIGHTS	3

/*
 * Tries to make a claim with one offer.  With moves true, running jobs may
 * continue elsewhere.  Returns false if memory runs out.
 */
static bool
claim_with_offer(Cycle *cycle, int32_t job, const DecideOffer *offer,
				 ClaimRight right, bool moves, bool *made)
{
	Search	   *search = &cycle->claims->search;
	bool		found = false;
	uint64_t	changes = cycle->claims->entitle.changes;
	bool		might;

	DecideClaimSearch(cycle, job, offer);
	if (search->range.n == 0)
		return true;
	if (right == RIGHT_ROUNDED && !DecideEntitleRound(cycle))
		return true;
	search->under = right == RIGHT_UNDER;
	search->moving = cycle->input->policy.consolidate && moves;
	cycle->claims->trials = 0;
	if (search->moving)
		found = DecideVictimsFind(cycle);
	if (!found)
	{
		search->moving = false;
		if (cycle->input->policy.reclaim &&
			DecideEntitleWithin(cycle, search->account,
								search->amount - DecideEntitleSlack(cycle),
								search->account))
			cycle->passes = search->rank;
		if (!DecidePreemptableMight(cycle, &might))
			return false;
		found = might && find_entitled(cycle);
	}
	if (!found)
	{
		cycle->passes = INT32_MAX;
		/* all releases were undone */
		cycle->claims->entitle.changes = changes;
		return true;
	}
	return DecideClaimMake(cycle, made);
}

/*
 * Tries to make a claim by each right in turn.  Returns false if memory runs
 * out.
 */
static bool
claim_with_offers(Cycle *cycle, int32_t job, int32_t n_offers, bool moves,
				  bool *made)
{
	const DecideRequestClass *request = DecideJobRequest(cycle, job);
	int			n_rights = cycle->input->policy.reclaim ? N_RIGHTS : 1;
	int			right;
	int32_t		i;

	for (right = 0; right < n_rights; right++)
	{
		for (i = 0; i < n_offers && !*made; i++)
		{
			if (!claim_with_offer(cycle, job, request->max_gpus == 0 ? NULL :
								  &request->offers[i], (ClaimRight) right,
								  moves && right == RIGHT_EXACT, made))
				return false;
		}
	}
	return true;
}

/*
 * Tries to make a claim for a job that cannot start.  Returns false if memory
 * runs out.
 */
bool
DecideClaimTry(Cycle *cycle, int32_t job, bool *made)
{
	const DecideRequestClass *request = DecideJobRequest(cycle, job);
	bool		cpu_only = request->max_gpus == 0;
	int32_t		n_offers = cpu_only ? 1 : request->n_offers;
	int32_t    *tried;

	DecideAssert(job >= 0 && job < cycle->input->n_jobs);
	DecideAssert(made != NULL);
	*made = false;
	if (cycle->claims == NULL || !has_rights(cycle, job) ||
		cycle->result->n_evictions >= cycle->input->max_evictions)
		return true;
	if (!DecideClaimsLoad(cycle))
		return false;
	if (!cycle->claims->again)
		cycle->claims->waiting[cycle->claims->n_waiting++] = job;
	if (DecideClaimTried(cycle, job, &tried))
		return true;
	DecideAvailabilityShow(cycle, request->wall_limit);
	if (!claim_with_offers(cycle, job, n_offers, true, made))
		return false;
	if (!*made && cycle->input->policy.reclaim && cycle->claims->n_ranks > 0 &&
		!cpu_only && reclaim_might(cycle, job) &&
		DecideEntitleRaise(cycle, cycle->input->jobs[job].account))
	{
		bool		fine = claim_with_offers(cycle, job, n_offers, false, made);

		DecideEntitleRestore(cycle);
		if (!fine)
			return false;
	}
	if (!*made)
		*tried = job;
	return true;
}

/*
 * Gives the jobs whose search failed further turns, as long as another claim
 * is made.  Returns false if memory runs out.
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
 * Finishes claims after the queue: makes claims that others made possible,
 * lets elastic jobs grow, and sets the reasons of jobs with claims.  Returns
 * false if memory runs out.
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
