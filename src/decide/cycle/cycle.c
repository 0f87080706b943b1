/*
 * cycle.c
 *	  A round of turns: jobs in order, each onto the first offer that fits now.
 *
 * A cycle is one of them, or several (fixpoint.c).  Within one capacity only
 * shrinks.  So what failed once stays failed: a request that could not start a job
 * is passed over, an offer that did not fit is not looked at again, and once no
 * single host can take a request, only gangs are tried.
 */
#include <string.h>

#include "decide/backfill/backfill.h"
#include "decide/cycle/cycle.h"

/*
 * Try to start a job.  A CPU-only request is tried once, without an offer.
 */
static PlaceOutcome
job_start(Cycle *cycle, RequestState *state, int32_t job,
		  const DecideRequestClass *request)
{
	bool		cpu_only = request->max_gpus == 0;
	int32_t		n_offers = cpu_only ? 1 : request->n_offers;

	while (state->offer < n_offers)
	{
		const DecideOffer *offers = cpu_only ? NULL :
			&request->offers[state->offer];
		int32_t		n = cpu_only ? 1 :
			DecideSingleOffers(cycle, request, state->offer);
		PlaceOutcome outcome = DecidePreviousTry(cycle, job, request,
												 offers, n);

		if (outcome != OUTCOME_NO_FIT)
			return outcome;
		outcome = DecideTryOffers(cycle, state, job, request, offers, n);
		if (outcome != OUTCOME_NO_FIT)
			return outcome;
		state->offer += n;
		state->spread = state->started = false;
		state->best = NULL;
	}
	return OUTCOME_NO_FIT;
}

/*
 * Promises of earlier cycles count as starts do.
 */
static void
claims_charge(Cycle *cycle)
{
	const DecideInput *input = cycle->input;
	int32_t		i;

	for (i = 0; i < input->n_claims; i++)
	{
		const DecideClaim *claim = &input->claims[i];

		if (claim->job >= 0)
			DecideQueueCharge(cycle->queue, claim->job, claim->type,
							  claim->gpus);
		else if (!claim->running)
			DecideFairshareTreeCharge(&cycle->queue->tree, claim->account,
									  DecideFairAmount(input, claim->type,
													   (int64_t) claim->gpus *
													   claim->share));
	}
}

/*
 * So does what a job was just promised.
 */
static void
promise_charge(Cycle *cycle, int32_t job)
{
	const DecideResult *result = cycle->result;
	int32_t		i = result->n_promises - 1;

	while (i >= 0 && result->promises[i].job != job)
		i--;
	if (i >= 0)
		DecideQueueCharge(cycle->queue, job, result->promises[i].type,
						  result->promises[i].gpus);
}

/*
 * A job could not start: find out why, and whether any of its class could.
 * False: out of memory.
 */
static bool
class_fails(Cycle *cycle, EquivalenceClass *class, int32_t job,
			const DecideRequestClass *request)
{
	PlaceOutcome outcome;

	if (!DecideHostsGroup(cycle))
		return false;
	class->wait.type = DECIDE_NO_TYPE;
	DecideReasonFind(cycle, request, &class->wait);
	outcome = DecideFreeButReserved(cycle, job, &class->wait.type);
	if (outcome == OUTCOME_STARTED)
	{
		class->wait.reason = DECIDE_RESERVED;
		class->wait.wanted = class->wait.available = 0;
	}
	DecideClassFail(class, request->wall_limit, outcome == OUTCOME_NO_FIT);
	return outcome != OUTCOME_OUT_OF_MEMORY;
}

/*
 * Try to start a job, unless it is known to be in vain.
 */
static PlaceOutcome
job_try(Cycle *cycle, int32_t job)
{
	const DecideRequestClass *request = DecideJobRequest(cycle, job);
	EquivalenceClass *class = DecideClassOf(cycle, job);
	PlaceOutcome outcome;

	if (DecideClassFailed(class, request->wall_limit) ||
		(cycle->filter != NULL &&
		 DecideClassFailed(cycle->filter->whole, request->wall_limit)))
		return OUTCOME_NO_FIT;
	DecideAvailabilityShow(cycle, request->wall_limit);
	outcome = job_start(cycle,
						DecideClassState(cycle, class, request->wall_limit),
						job, request);
	if (outcome == OUTCOME_NO_FIT && !class_fails(cycle, class, job, request))
		return OUTCOME_OUT_OF_MEMORY;
	return outcome;
}

/*
 * Say why a job does not start now, once for each request: what stood in the way
 * of the last of its class that was tried.
 */
static void
job_explain(Cycle *cycle, int32_t job)
{
	DecideWait *wait = &cycle->result->waits[cycle->input->jobs[job].request];

	if (DecideQuotaFilterExplain(cycle, job) ||
		wait->reason != DECIDE_NOT_WAITING)
		return;
	*wait = DecideClassOf(cycle, job)->wait;
	wait->job = job;
}

/*
 * A job had its turn and does not start: it may get a reservation.  The others
 * of its request have turns only where they might get one, or be promised devices.
 * False: out of memory.
 */
static bool
job_waits(Cycle *cycle, int32_t job)
{
	if (cycle->n_before < 0)
		cycle->n_before = cycle->result->n_starts;
	job_explain(cycle, job);
	if (!DecideReserve(cycle, job))
		return false;
	if (cycle->filter == NULL &&
		!DecideClaimsMay(cycle, cycle->input->jobs[job].request) &&
		!DecideMayReserve(cycle, job))
		DecideQueueBlock(cycle->queue, cycle->input->jobs[job].request);
	return true;
}

/*
 * No more jobs may start in this cycle.
 */
static void
job_too_many(Cycle *cycle, int32_t job)
{
	int32_t		request = cycle->input->jobs[job].request;

	cycle->result->waits[request].reason = DECIDE_ENOUGH_STARTED;
	cycle->result->waits[request].job = job;
	DecideQueueBlock(cycle->queue, request);
}

/*
 * Is it still to be seen whether a job can start?
 */
static bool
job_may_start(const Cycle *cycle, int32_t job)
{
	const DecideJob *j = &cycle->input->jobs[job];

	return cycle->filter != NULL ?
		!DecideClassFailed(&cycle->filter->class,
						   cycle->filter->request.wall_limit) :
		cycle->result->waits[j->request].reason == DECIDE_NOT_WAITING;
}

/*
 * Give a job its turn: to start, else to be promised devices, else to say why
 * it waits, and until when.  What it gets counts in fair share at once.  False:
 * out of memory.
 */
static bool
job_serve(Cycle *cycle, int32_t job)
{
	DecideResult *result = cycle->result;
	PlaceOutcome outcome = OUTCOME_NO_FIT;
	bool		promised = false;

	if (job_may_start(cycle, job))
	{
		if (result->n_starts >= cycle->input->max_starts)
		{
			job_too_many(cycle, job);
			return true;
		}
		outcome = job_try(cycle, job);
	}
	if (outcome == OUTCOME_OUT_OF_MEMORY)
		return false;
	if (outcome == OUTCOME_STARTED)
	{
		const DecideStart *start = &result->starts[result->n_starts - 1];

		DecideQueueCharge(cycle->queue, job, start->type, start->gpus);
		DecideQuotaTake(cycle, cycle->input->jobs[job].account, start->type,
						(int64_t) start->gpus * start->share, 1, false);
		DecideClaimsStarted(cycle, start);
		return true;
	}
	if (!DecideClaimTry(cycle, job, &promised))
		return false;
	if (promised)
		promise_charge(cycle, job);
	return promised || job_waits(cycle, job);
}

/*
 * Give a job its turn, with what quotas leave it of what it requests: where that is
 * nothing it is held back, and in nobody's way.  False: out of memory.
 */
static bool
job_turn(Cycle *cycle, int32_t job)
{
	bool		held;
	bool		served;

	if (DecideClaimed(cycle, job))
		return true;
	if (!DecideQuotaFilter(cycle, job, false, &held))
		return false;
	if (held)
	{
		cycle->result->held[job] = INT32_MAX;
		cycle->quotas->binds = true;
		return true;
	}
	served = job_serve(cycle, job);
	cycle->filter = NULL;
	return served;
}

/*
 * Give every job its turn, in order.  False: out of memory.
 */
static bool
jobs_try(Cycle *cycle)
{
	int32_t		turns = 0;
	int32_t		job;

	claims_charge(cycle);
	while ((job = DecideQueueNext(cycle->queue)) >= 0)
	{
		if (turns++ % 256 == 0)
			DecidePoll(cycle->arena);
		if (!job_turn(cycle, job))
			return false;
	}
	return true;
}

/*
 * Set up a cycle's state apart from its hosts.  False: out of memory.
 */
static bool
cycle_prepare(Cycle *cycle)
{
	const DecideArena *arena = cycle->arena;
	int32_t		n = cycle->input->n_requests;
	int32_t		i;

	cycle->result->waits = DecideAlloc(arena, n, sizeof(DecideWait));
	cycle->single.hosts = DecideAlloc(arena, 1, sizeof(int32_t));
	cycle->single.gpus = DecideAlloc(arena, 1, sizeof(int32_t));
	if (cycle->result->waits == NULL ||
		cycle->single.hosts == NULL || cycle->single.gpus == NULL)
		return false;
	if (!DecideClassesFind(cycle) || !DecidePlacePrepare(cycle) ||
		!DecidePreviousPrepare(cycle))
		return false;
	for (i = 0; i < n; i++)
	{
		DecideWait *wait = &cycle->result->waits[i];

		wait->reason = DECIDE_NOT_WAITING;
		wait->job = -1;
		wait->type = DECIDE_NO_TYPE;
		wait->wanted = wait->available = 0;
	}
	return true;
}

/*
 * Did a job start whose cache another wants to find that has a reservation?
 * The nodes hold it now.  Who asks for a fixed number of devices has what he
 * was told again, wherever it is.
 */
static bool
caches_came(const Cycle *cycle)
{
	const DecideInput *input = cycle->input;
	const DecideResult *result = cycle->result;
	int32_t		r;
	int32_t		s;

	for (r = 0; r < result->n_reservations; r++)
	{
		const DecideJob *job = &input->jobs[result->reservations[r].job];
		const DecideRequestClass *request = &input->requests[job->request];

		if (job->cache == 0 || request->min_gpus == request->max_gpus)
			continue;
		for (s = 0; s < result->n_starts; s++)
		{
			if (input->jobs[result->starts[s].job].cache == job->cache)
				return true;
		}
	}
	return false;
}

/*
 * Did jobs start after others had their turns in vain whom that concerns?
 * After one that has a reservation: who started is behind others now.  After
 * any, where tiers have a guaranteed share: he is at the front again, and may
 * be more than is left of it.  And whoever looked in vain for what accounts are
 * entitled to.  Whom a quota held back at his turn stood before others until
 * then, and does no longer; likewise one whom it holds back since others
 * started.
 */
static bool
starts_concern(const Cycle *cycle)
{
	const DecideResult *result = cycle->result;
	bool		binds = cycle->quotas != NULL && cycle->quotas->binds;

	if (DecideClaimsUnsettled(cycle) || (cycle->queue->n_shares > 0 && binds))
		return true;
	return result->n_reservations > 0 &&
		(binds ||
		 result->reservations[0].after < result->n_starts ||
		 ((cycle->queue->n_shares > 0 || cycle->quotas != NULL) &&
		  cycle->n_before < result->n_starts) ||
		 caches_came(cycle));
}

/*
 * Is nothing left to decide?  Nothing is where nothing was decided, or only
 * what changes nothing for anybody else; and what may start no more waits for
 * the next cycle.  Promises do change something: those who have the devices
 * will leave.
 */
static bool
round_is_over(const Cycle *cycle)
{
	const DecideResult *result = cycle->result;

	if (result->n_starts >= cycle->input->max_starts)
		return true;
	return result->n_promises == 0 &&
		(result->n_starts == 0 || !starts_concern(cycle));
}

/*
 * Give all jobs their turns once.  *over: a further round decides nothing.
 */
const char *
DecideRound(const DecideInput *input, const DecideArena *arena,
			DecideResult *result, bool *over)
{
	Cycle		cycle;
	Queue		queue;
	const char *error;

	DecideAssert(input != NULL && arena != NULL);
	DecideAssert(result != NULL && over != NULL);
	memset(result, 0, sizeof(*result));
	memset(&cycle, 0, sizeof(cycle));
	cycle.input = input;
	cycle.arena = arena;
	cycle.result = result;
	cycle.queue = &queue;
	cycle.n_before = -1;
	cycle.passes = INT32_MAX;

	error = DecideInputError(input);
	if (error == NULL)
		error = DecideHostsLoad(&cycle);
	if (error == NULL && !DecideQuotasBegin(&cycle))
		error = "out of memory";
	if (error == NULL)
		error = DecideQueueOpen(input, arena, result->held, &queue);
	if (error == NULL && !cycle_prepare(&cycle))
		error = "out of memory";
	if (error == NULL && (!DecideClaimsBegin(&cycle) || !jobs_try(&cycle) ||
						  !DecideClaimsEnd(&cycle)))
		error = "out of memory";
	if (error == NULL)
	{
		DecideQuotaFilterEnd(&cycle);
		*over = round_is_over(&cycle);
	}
	return error;
}
