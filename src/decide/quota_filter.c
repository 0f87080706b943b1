/*
 * quota_filter.c
 *	  A job's turn where quotas leave it a part of what it requests.
 *
 * Of its offers those count whose types its quotas leave it enough of, and of a
 * range no more devices than that.  Jobs of a class that are left the same are
 * a class of their own, so that they cost no more looks at hosts than others;
 * what could start none of the whole class starts none of these.
 */
#include <string.h>

#include "decide/quota.h"

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

	*held = false;
	cycle->filter = NULL;
	if (quotas == NULL || !quotas->any[j->account])
		return true;
	if (request->max_gpus == 0)
	{
		*held = DecideQuotaMost(cycle, j, request, DECIDE_NO_TYPE, reserving) < 0;
		return true;
	}
	*held = request->n_offers > 0;
	for (i = 0; i < request->n_offers; i++)
	{
		quotas->most[i] = DecideQuotaMost(cycle, j, request,
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
 * What the job whose turn it is requests, as far as quotas let it.
 */
const DecideRequestClass *
DecideJobRequest(const Cycle *cycle, int32_t job)
{
	return cycle->filter != NULL ? &cycle->filter->request :
		&cycle->input->requests[cycle->input->jobs[job].request];
}

/*
 * The most devices of an offer that the job whose turn it is may have.
 */
int32_t
DecideQuotaFilterMost(const Cycle *cycle, const DecideRequestClass *request,
					  const DecideOffer *offer)
{
	return cycle->filter != NULL && request == &cycle->filter->request ?
		cycle->filter->most[offer - request->offers] : request->max_gpus;
}

/*
 * Note why a job cannot start with what quotas leave it, for its request, unless
 * they left it all: false.
 */
bool
DecideQuotaFilterExplain(Cycle *cycle, int32_t job)
{
	DecideWait *wait;

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
