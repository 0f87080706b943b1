/*-------------------------------------------------------------------------
 *
 * limit_again.c
 *		Jobs that a quota holds back, until what was in their way is given up.
 *
 * While a cycle decides, a start may be counted under a quota, another job be
 * held back for it, and the start then be given up itself: its job's row, or
 * another quota of its, is locked elsewhere, or it passes another quota by what
 * starts in its place.  So those held back are kept, and put back into the
 * queue: all of them whenever something was not to be had, which is left out of
 * the cycle for good; and once each where the decision, kept by all quotas,
 * leaves room for them.  Else they would wait as long as the row is locked: each
 * cycle would try the same start first.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "sched/limit.h"

/* A job that was taken out of the queue. */
struct HeldJob
{
	DecideJob	job;
	Queued		queued;
};

static bool widen(Cycle *cycle);
static bool admits(const Cycle *cycle, const char *org, const Queued *queued,
				   const DecideAsk *narrow, const DecideAsk *ask);
static bool offers(const DecideAsk *ask, int32 type);
static bool has_room(const QuotaLimit *limit, int64 milli);
static void put_back(Cycle *cycle, const struct HeldJob *held, bool again);
static void find_again(Cycle *cycle, int32 from);

/*
 * Take jobs out of the cycle that pass a quota, and remember them.
 */
void
LimitsDrop(Cycle *cycle, const bool *drop)
{
	for (int32 j = 0; j < cycle->input.n_jobs; j++)
	{
		if (!drop[j])
			continue;
		if (cycle->n_held == cycle->max_held)
		{
			Size		size;

			cycle->max_held = Max(64, cycle->max_held * 2);
			size = sizeof(struct HeldJob) * cycle->max_held;
			cycle->held = cycle->held == NULL ?
				MemoryContextAllocHuge(CurrentMemoryContext, size) :
				repalloc_huge(cycle->held, size);
		}
		cycle->held[cycle->n_held++] = (struct HeldJob)
		{
			cycle->jobs[j], cycle->queued[j]
		};
	}
	CycleDrop(cycle, drop);
}

/*
 * Something that was decided is not to be had: quotas are gone through from the
 * beginning, without it.
 */
void
LimitsBeginAgain(Cycle *cycle)
{
	int32		from = cycle->input.n_jobs;

	for (int32 j = 0; j < from; j++)
	{
		Queued	   *queued = &cycle->queued[j];

		queued->again = false;
		if (queued->whole_ask > 0)
			cycle->jobs[j].ask = queued->whole_ask - 1;
		queued->whole_ask = 0;
	}
	for (int i = 0; i < cycle->n_held; i++)
		put_back(cycle, &cycle->held[i], false);
	cycle->n_held = 0;
	cycle->gave_up = false;
	find_again(cycle, from);
	LimitsHoldBack(cycle);
}

/*
 * A decision keeps all quotas.  False: it leaves room for jobs that were held
 * back, which are in the queue again.
 */
bool
LimitsSettled(Cycle *cycle)
{
	int32		from = cycle->input.n_jobs;
	int			kept = 0;
	bool		wider;

	if (!cycle->gave_up)
		return true;			/* no start was in anybody's way */
	wider = widen(cycle);
	for (int i = 0; i < cycle->n_held; i++)
	{
		const struct HeldJob *held = &cycle->held[i];
		int32		whole = held->queued.whole_ask > 0 ?
			held->queued.whole_ask - 1 : held->job.ask;

		CHECK_FOR_INTERRUPTS();
		if (!held->queued.again &&
			admits(cycle, held->job.org, &held->queued, NULL,
				   &cycle->asks[whole]))
			put_back(cycle, held, true);
		else
			cycle->held[kept++] = *held;
	}
	cycle->n_held = kept;
	if (cycle->input.n_jobs > from)
		find_again(cycle, from);
	return cycle->input.n_jobs == from && !wider;
}

/*
 * Let those that wait, and that quotas narrowed, ask for all they want again,
 * where there is room for more of it than was left them.
 */
static bool
widen(Cycle *cycle)
{
	bool	   *taken = palloc0(sizeof(bool) * (cycle->input.n_jobs + 1));
	bool		wider = false;

	for (int s = 0; s < cycle->result.n_starts; s++)
		taken[cycle->result.starts[s].job] = true;
	for (int p = 0; p < cycle->result.n_promises; p++)
	{
		if (cycle->result.promises[p].job >= 0)
			taken[cycle->result.promises[p].job] = true;
	}
	for (int32 j = 0; j < cycle->input.n_jobs; j++)
	{
		Queued	   *queued = &cycle->queued[j];
		DecideJob  *job = &cycle->jobs[j];

		if (queued->whole_ask == 0 || queued->again || taken[j] ||
			!admits(cycle, job->org, queued, &cycle->asks[job->ask],
					&cycle->asks[queued->whole_ask - 1]))
			continue;
		job->ask = queued->whole_ask - 1;
		queued->whole_ask = 0;
		queued->again = wider = true;
	}
	pfree(taken);
	return wider;
}

/*
 * Would quotas let a job start beside what is decided, with one of the types it
 * asks for?  Where it was left a part of that, with more than that part.
 */
static bool
admits(const Cycle *cycle, const char *org, const Queued *queued,
	   const DecideAsk *narrow, const DecideAsk *ask)
{
	bool		fewer = narrow != NULL && narrow->max_gpus < ask->max_gpus;
	int64		milli = (int64) (fewer ? narrow->max_gpus + 1 :
								 ask->min_gpus) * ask->share;
	LimitList	over = LimitsOver(cycle, org, queued->account);
	bool		typed = false;

	for (int l = 0; l < over.n; l++)
	{
		if (over.limits[l]->busy)
			return false;
		if (*over.limits[l]->gpu_type != '\0')
			typed = true;
		else if (!has_room(over.limits[l], milli))
			return false;
	}
	if (narrow == NULL && (!typed || ask->n_offers == 0))
		return true;
	for (int32 o = 0; o < ask->n_offers; o++)
	{
		const char *type = cycle->set->types.names[ask->offers[o].type];
		bool		room = fewer || narrow == NULL ||
			!offers(narrow, ask->offers[o].type);

		for (int l = 0; l < over.n; l++)
			room &= !LimitConcerns(over.limits[l], type) ||
				has_room(over.limits[l], milli);
		if (room)
			return true;
	}
	return false;
}

static bool
offers(const DecideAsk *ask, int32 type)
{
	for (int32 o = 0; o < ask->n_offers; o++)
	{
		if (ask->offers[o].type == type)
			return true;
	}
	return false;
}

static bool
has_room(const QuotaLimit *limit, int64 milli)
{
	return (limit->max_running < 0 || limit->running + limit->claimed +
			limit->new_running < limit->max_running) &&
		(limit->max_milli < 0 || limit->used_milli + limit->claimed_milli +
		 limit->new_milli + milli <= limit->max_milli);
}

/*
 * Put a job back into the queue, with all it asks for.
 */
static void
put_back(Cycle *cycle, const struct HeldJob *held, bool again)
{
	int32		n = cycle->input.n_jobs++;
	Queued	   *queued = &cycle->queued[n];

	cycle->jobs[n] = held->job;
	*queued = held->queued;
	queued->again = again;
	if (queued->whole_ask > 0)
		cycle->jobs[n].ask = queued->whole_ask - 1;
	queued->whole_ask = 0;
}

/*
 * Those from there on are in the queue again: so are their claims, what was
 * told of them, and how long they are expected to run.
 */
static void
find_again(Cycle *cycle, int32 from)
{
	for (int c = 0; c < cycle->input.n_claims; c++)
	{
		DecideClaim *claim = &cycle->claims[c];

		for (int32 j = from; j < cycle->input.n_jobs && claim->job < 0 &&
			 !claim->running; j++)
		{
			if (cycle->jobs[j].id == claim->id &&
				strcmp(cycle->jobs[j].org, claim->org) == 0)
				claim->job = j;
		}
	}
	ToldFind(cycle);
	CycleExpectAgain(cycle);
}
