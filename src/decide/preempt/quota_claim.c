/*
 * quota_claim.c
 *	  Claims of jobs that quotas keep from starting.
 *
 * A job whose tier may preempt takes the place of less important jobs that are
 * counted by the quotas in its way.  An account then runs its most important
 * jobs within its quota, whatever it started before.  Jobs that no quota in
 * its way counts leave only if the job would not fit otherwise.
 *
 * Three sets of victims are tried, and the first that is enough is used:
 *
 * 1. the cheapest jobs that the quotas in its way count, if the job fits what
 *	  is free and what they return;
 * 2. the cheapest of these jobs whose devices suit the job, and if that is not
 *	  enough for the quotas the cheapest others of them;
 * 3. the first set, and the cheapest jobs of any account that are less
 *	  important.
 *
 * Then each victim is spared that is not needed, the most expensive first.
 * Nobody leaves for the entitlement of the job's account here, because it is
 * no other account that keeps the job from starting.
 */
#include <string.h>

#include "decide/order/order.h"
#include "decide/preempt/claim_state.h"

/*
 * The most jobs that leave for one job because of quotas.  This bounds the
 * time of a search, which grows with the square of their number.
 */
#define MOST_VICTIMS	1024

/*
 * Whether quotas allow the search's job its request once the chosen victims
 * have left.  If not, *lacking and *resource say what is too little.
 */
static bool
quotas_suffice(const Cycle *cycle, int32_t *lacking, int *resource)
{
	const ClaimState *claims = cycle->claims;
	const Search *search = &claims->search;
	int32_t		type = search->offer != NULL ? search->offer->type :
		DECIDE_NO_TYPE;
	DecideUse	use = DecideJobUse(search->request, type,
								   search->request->min_gpus);
	int32_t    *leavers = cycle->quotas->leavers;
	int32_t		n = 0;
	int32_t		i;

	for (i = 0; i < claims->n_chosen; i++)
	{
		const Candidate *candidate = &claims->candidates[claims->chosen[i]];

		if (candidate->given)
			leavers[n++] = candidate->running;
	}
	return DecideQuotaSuffices(cycle, search->account, type, &use, leavers, n,
							   lacking, resource);
}

/*
 * Whether a candidate may leave and returns some of a resource under a quota.
 */
static bool
helps(const Cycle *cycle, const Candidate *candidate, int32_t quota,
	  int resource)
{
	const DecideInput *input = cycle->input;
	const DecideRunning *running = &input->running[candidate->running];
	DecideWhy	why;

	return DecideVictimMay(cycle, candidate, &why) &&
		DecideQuotaCounts(cycle, quota, running) &&
		DecideRunningUse(running, input->running_parts).of[resource] > 0;
}

/*
 * Chooses and releases the cheapest victims, in addition to those chosen
 * already, until quotas allow the search's job its request.  Returns false if
 * they do not, whoever leaves.
 */
static bool
choose_for_quotas(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;
	int32_t		before = -1;
	int			resource_before = -1;
	int32_t		lacking;
	int			resource;
	int32_t		i = 0;

	while (!quotas_suffice(cycle, &lacking, &resource))
	{
		/* who did not help this quota before does not help it now */
		if (lacking != before || resource != resource_before)
			i = 0;
		before = lacking;
		resource_before = resource;
		while (i < claims->n_candidates &&
			   !helps(cycle, &claims->candidates[i], lacking, resource))
			i++;
		if (i == claims->n_candidates || claims->n_chosen >= MOST_VICTIMS)
			return false;
		DecideVictimRelease(cycle, i, true);
		claims->chosen[claims->n_chosen++] = i;
	}
	return true;
}

/*
 * Chooses victims of the account whose quota is nearest to the job, such that
 * the job fits, and then those that quotas need in addition.  Returns false,
 * and releases nothing, if there are none.
 */
static bool
choose_within(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;
	Search	   *search = &claims->search;
	int32_t		lacking;
	int			resource;
	bool		found;

	if (quotas_suffice(cycle, &lacking, &resource))
		return false;
	search->within = cycle->input->quotas[lacking].account;
	found = DecideVictimsFind(cycle);
	search->within = -1;
	if (!found)
		return false;
	if (DecideSearchRoom(cycle) && choose_for_quotas(cycle))
		return true;
	DecideVictimsGiveUp(cycle);
	return false;
}

/*
 * Chooses the cheapest victims for the quotas, and victims of any account such
 * that the job fits.  Returns false, and releases nothing, if there are none.
 */
static bool
choose_from_all(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;
	int32_t    *own = claims->movers;	/* nothing moves in this search */
	int32_t		n_own;
	bool		found;

	(void) DecideSearchRoom(cycle);
	if (!choose_for_quotas(cycle))
	{
		DecideVictimsGiveUp(cycle);
		return false;
	}
	n_own = claims->n_chosen;
	if (n_own > 0)
		memcpy(own, claims->chosen, (size_t) n_own * sizeof(int32_t));
	claims->n_chosen = 0;
	found = DecideVictimsFind(cycle);
	if (n_own > 0)
		memcpy(claims->chosen + claims->n_chosen, own,
			   (size_t) n_own * sizeof(int32_t));
	claims->n_chosen += n_own;
	if (found && DecideSearchRoom(cycle))
		return true;
	DecideVictimsGiveUp(cycle);
	return false;
}

/*
 * Spares the victims that are not needed, the most expensive first, and puts
 * the others in order of cost.
 */
static void
spare(Cycle *cycle)
{
	ClaimState *claims = cycle->claims;
	int32_t		lacking;
	int			resource;
	int32_t		i;

	for (i = claims->n_candidates - 1; i >= 0; i--)
	{
		if (!claims->candidates[i].given)
			continue;
		DecideVictimRelease(cycle, i, false);
		if (claims->n_ready == 0 ||
			!quotas_suffice(cycle, &lacking, &resource))
			DecideVictimRelease(cycle, i, true);
	}
	claims->n_chosen = 0;
	for (i = 0; i < claims->n_candidates; i++)
	{
		if (claims->candidates[i].given)
			claims->chosen[claims->n_chosen++] = i;
	}
}

/*
 * Tries to make a claim with one offer (NULL for a CPU-only request).  Returns
 * false if memory runs out.
 */
static bool
claim_with_offer(Cycle *cycle, int32_t job, const DecideOffer *offer,
				 bool *made)
{
	ClaimState *claims = cycle->claims;
	Search	   *search = &claims->search;
	uint64_t	changes = claims->entitle.changes;
	bool		found;

	DecideClaimSearch(cycle, job, offer);
	if (search->range.n == 0)
		return true;
	search->tier_only = search->no_shrinks = true;
	claims->trials = 0;
	claims->n_chosen = 0;
	(void) DecideSearchRoom(cycle);
	found = choose_for_quotas(cycle);
	if (found && claims->n_ready == 0)
	{
		DecideVictimsGiveUp(cycle);
		found = choose_within(cycle) || choose_from_all(cycle);
	}
	if (!found)
	{
		DecideVictimsGiveUp(cycle);
		claims->entitle.changes = changes;
		return true;
	}
	spare(cycle);
	return DecideClaimMake(cycle, made);
}

/*
 * Tries to make a claim for a job to which quotas allow nothing.  Returns
 * false if memory runs out.
 */
bool
DecideClaimWithinQuota(Cycle *cycle, int32_t job, bool *made)
{
	const DecideInput *input = cycle->input;
	const DecideRequestClass *request = DecideJobRequest(cycle, job);
	const DecideTier *tier = &input->tiers[input->jobs[job].tier];
	bool		cpu_only = request->max_gpus == 0;
	int32_t		n_offers = cpu_only ? 1 : request->n_offers;
	int32_t    *tried;
	int32_t		i;

	DecideAssert(job >= 0 && job < input->n_jobs);
	DecideAssert(cycle->quotas != NULL && cycle->filter == NULL);
	*made = false;
	if (cycle->claims == NULL || !tier->can_preempt || request->unpaid ||
		tier->rank >= cycle->claims->least ||
		cycle->result->n_evictions >= input->max_evictions)
		return true;
	if (!DecideClaimsLoad(cycle))
		return false;
	if (DecideClaimTried(cycle, job, &tried))
		return true;
	DecideAvailabilityShow(cycle, request->wall_limit);
	for (i = 0; i < n_offers && !*made; i++)
	{
		if (!claim_with_offer(cycle, job, cpu_only ? NULL :
							  &request->offers[i], made))
			return false;
	}
	if (!*made)
		*tried = job;
	return true;
}
