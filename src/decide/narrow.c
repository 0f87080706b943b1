/*
 * narrow.c
 *	  A job's turn where quotas leave it a part of what it asks.
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
static Narrow *
narrow_make(Cycle *cycle, const DecideAsk *ask, AskClass *whole)
{
	const DecideArena *arena = cycle->arena;
	const int32_t *key = cycle->quotas->most;
	DecideOffer *offers = DecideAlloc(arena, ask->n_offers,
									  sizeof(DecideOffer));
	Narrow	   *narrow = DecideAlloc(arena, 1, sizeof(Narrow));
	bool		tied = false;
	int32_t		n = 0;
	int32_t		i;

	if (narrow == NULL || offers == NULL)
		return NULL;
	memset(narrow, 0, sizeof(Narrow));
	narrow->most = DecideAlloc(arena, ask->n_offers, sizeof(int32_t));
	narrow->key = DecideAlloc(arena, ask->n_offers, sizeof(int32_t));
	if (narrow->most == NULL || narrow->key == NULL)
		return NULL;
	memcpy(narrow->key, key, (size_t) ask->n_offers * sizeof(int32_t));
	narrow->ask = *ask;
	narrow->ask.offers = offers;
	narrow->ask.max_gpus = ask->min_gpus;
	for (i = 0; i < ask->n_offers; i++)
	{
		/* tied to the last one that is left, through all between */
		tied &= ask->offers[i].tied;
		if (key[i] < 0)
			continue;
		offers[n] = ask->offers[i];
		offers[n].tied = tied;
		tied = true;
		narrow->most[n++] = key[i];
		if (key[i] > narrow->ask.max_gpus)
			narrow->ask.max_gpus = key[i];
	}
	narrow->ask.n_offers = n;
	narrow->whole = whole;
	return narrow;
}

/*
 * Find what is left of a class, for a key in the scratch, or make it.  NULL:
 * out of memory.
 */
static Narrow *
narrow_find(Cycle *cycle, const DecideAsk *ask, int32_t class)
{
	Quotas	   *quotas = cycle->quotas;
	int32_t		n = cycle->input->n_asks;
	Narrow	   *narrow;

	if (quotas->narrows == NULL)
	{
		quotas->narrows = DecideAlloc(cycle->arena, n, sizeof(Narrow *));
		quotas->waits = DecideAlloc(cycle->arena, n, sizeof(DecideWait));
		if (quotas->narrows == NULL || quotas->waits == NULL)
			return NULL;
		memset(quotas->narrows, 0, (size_t) n * sizeof(Narrow *));
		memset(quotas->waits, 0, (size_t) n * sizeof(DecideWait));
	}
	for (narrow = quotas->narrows[class]; narrow != NULL;
		 narrow = narrow->next)
	{
		if (memcmp(narrow->key, quotas->most,
				   (size_t) ask->n_offers * sizeof(int32_t)) == 0)
			return narrow;
	}
	narrow = narrow_make(cycle, ask, &cycle->classes[class]);
	if (narrow != NULL)
	{
		narrow->next = quotas->narrows[class];
		quotas->narrows[class] = narrow;
	}
	return narrow;
}

/*
 * See what quotas leave a job whose turn it is; *held: nothing.  False: out of
 * memory.
 */
bool
DecideNarrow(Cycle *cycle, int32_t job, bool reserving, bool *held)
{
	const DecideJob *j = &cycle->input->jobs[job];
	const DecideAsk *ask = &cycle->input->asks[j->ask];
	Quotas	   *quotas = cycle->quotas;
	bool		all = true;
	int32_t		i;

	*held = false;
	cycle->narrow = NULL;
	if (quotas == NULL || !quotas->any[j->account])
		return true;
	if (ask->max_gpus == 0)
	{
		*held = DecideQuotaMost(cycle, j, ask, DECIDE_NO_TYPE, reserving) < 0;
		return true;
	}
	*held = ask->n_offers > 0;
	for (i = 0; i < ask->n_offers; i++)
	{
		quotas->most[i] = DecideQuotaMost(cycle, j, ask, ask->offers[i].type,
										  reserving);
		all &= quotas->most[i] == ask->max_gpus;
		*held &= quotas->most[i] < 0;
	}
	if (all || *held)
		return true;
	cycle->narrow = narrow_find(cycle, ask, cycle->class_of[j->ask]);
	if (cycle->narrow == NULL)
		return false;
	cycle->narrow->ask.wall_limit = ask->wall_limit;
	return true;
}

/*
 * What the job whose turn it is asks, as far as quotas let it.
 */
const DecideAsk *
DecideJobAsk(const Cycle *cycle, int32_t job)
{
	return cycle->narrow != NULL ? &cycle->narrow->ask :
		&cycle->input->asks[cycle->input->jobs[job].ask];
}

/*
 * The most devices of an offer that the job whose turn it is may have.
 */
int32_t
DecideNarrowMost(const Cycle *cycle, const DecideAsk *ask,
				 const DecideOffer *offer)
{
	return cycle->narrow != NULL && ask == &cycle->narrow->ask ?
		cycle->narrow->most[offer - ask->offers] : ask->max_gpus;
}

/*
 * Note why a job cannot start with what quotas leave it, for its ask, unless
 * they left it all: false.
 */
bool
DecideNarrowExplain(Cycle *cycle, int32_t job)
{
	DecideWait *wait;

	if (cycle->narrow == NULL)
		return false;
	wait = &cycle->quotas->waits[cycle->input->jobs[job].ask];
	if (wait->reason == DECIDE_NOT_WAITING)
	{
		*wait = cycle->narrow->class.failed ? cycle->narrow->class.wait :
			cycle->narrow->whole->wait;
		wait->job = job;
	}
	return true;
}

/*
 * Tell why asks wait of which no job waits that was left all.
 */
void
DecideNarrowEnd(Cycle *cycle)
{
	int32_t		i;

	if (cycle->quotas == NULL || cycle->quotas->narrows == NULL)
		return;
	for (i = 0; i < cycle->input->n_asks; i++)
	{
		if (cycle->result->waits[i].reason == DECIDE_NOT_WAITING &&
			cycle->quotas->waits[i].reason != DECIDE_NOT_WAITING)
			cycle->result->waits[i] = cycle->quotas->waits[i];
	}
}
