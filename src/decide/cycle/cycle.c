/*
 * cycle.c
 *	  A round of turns: each job in order starts with the first offer that
 *	  fits now.
 *
 * A cycle consists of one or more rounds (fixpoint.c).  Within a round free
 * capacity only shrinks, so what failed once fails again.  A request that
 * could not start a job is skipped, and an offer that did not fit is not tried
 * again.  If no single host has room for a request, only gangs are tried.
 *
 * Requests that differ only in their wall limit form an equivalence class.
 * Without reservations they fit in the same places.  If there are
 * reservations, jobs with longer limits can use less: if a class could not
 * start a job with some limit, jobs with longer limits are not tried, and no
 * job is tried if reservations are not the reason.  Likewise a job with a
 * longer limit cannot have an earlier reservation than one with a shorter
 * limit.
 */
#include <string.h>

#include "decide/backfill/backfill.h"
#include "decide/cycle/cycle.h"

/*
 * Mixes a number into a hash.
 */
static uint64_t
mix(uint64_t hash, int64_t value)
{
	hash = (hash ^ (uint64_t) value) * UINT64_C(0x9E3779B97F4A7C15);
	return hash ^ hash >> 32;
}

/*
 * Computes a hash that is the same for equal classes.
 */
static uint64_t
class_hash(const DecideRequestClass *request, int32_t n_nodes)
{
	uint64_t	hash = mix(0, request->min_gpus);
	int32_t		i;

	hash = mix(hash, request->max_gpus);
	hash = mix(hash, request->share);
	hash = mix(hash,
			   request->topology << 5 | request->prefer << 2 |
			   request->spot_ok << 1 | request->stays);
	hash = mix(hash, request->cpu_milli);
	hash = mix(hash, request->memory_mib);
	hash = mix(hash, request->per_node);
	for (i = 0; i < request->n_offers; i++)
		hash = mix(mix(hash, request->offers[i].type),
				   request->offers[i].min_memory);
	for (i = 0; request->filter != NULL && i < n_nodes; i += 64)
		hash = mix(hash, (int64_t) request->filter[i / 64]);
	return hash;
}

/*
 * Whether two requests allow the same nodes.
 */
static bool
same_filter(const DecideRequestClass *a, const DecideRequestClass *b,
			int32_t n_nodes)
{
	int32_t		i;

	if (a->filter == b->filter)
		return true;
	if (a->filter == NULL || b->filter == NULL)
		return false;
	for (i = 0; i < n_nodes; i += 64)
	{
		if (a->filter[i / 64] != b->filter[i / 64])
			return false;
	}
	return true;
}

/*
 * Whether two requests are equal apart from their wall limits.
 */
static bool
same_class(const DecideRequestClass *a, const DecideRequestClass *b,
		   int32_t n_nodes)
{
	int32_t		i;

	if (a->min_gpus != b->min_gpus || a->max_gpus != b->max_gpus ||
		a->share != b->share || a->n_offers != b->n_offers ||
		a->topology != b->topology || a->prefer != b->prefer ||
		a->cpu_milli != b->cpu_milli || a->memory_mib != b->memory_mib ||
		a->spot_ok != b->spot_ok || a->stays != b->stays ||
		a->unpaid != b->unpaid ||
		a->apart || b->apart || a->per_node != b->per_node ||
		!same_filter(a, b, n_nodes))
		return false;
	for (i = 0; i < a->n_offers && a->offers != b->offers; i++)
	{
		if (a->offers[i].counted != b->offers[i].counted)
			return false;
		if (a->offers[i].type != b->offers[i].type ||
			a->offers[i].min_memory != b->offers[i].min_memory ||
			a->offers[i].tied != b->offers[i].tied)
			return false;
	}
	return true;
}

/*
 * Finds the class of each request.  Returns false if memory runs out.
 */
static bool
classes_find(Cycle *cycle)
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
		uint64_t	at = class_hash(&input->requests[i], input->n_nodes) &
			(size - 1);

		while (table[at] >= 0 &&
			   !same_class(&input->requests[table[at]], &input->requests[i],
						   input->n_nodes))
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
 * The state of a class for a job with this wall limit.  What was found for a
 * shorter limit remains valid, except the scores of hosts, which look
 * different to this job.
 */
static RequestState *
class_state(const Cycle *cycle, EquivalenceClass *class,
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
 * Tries to start a job.  A CPU-only request is tried once, without an offer.
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
		PlaceOutcome outcome = DecideTryOffers(cycle, state, job, request,
											   offers, n);

		if (outcome != OUTCOME_NO_FIT)
			return outcome;
		state->offer += n;
		state->spread = state->started = false;
		state->best = NULL;
	}
	return OUTCOME_NO_FIT;
}

/*
 * Charges a job's account and tier for devices.
 */
static void
job_charge(Cycle *cycle, int32_t job, int32_t type, int32_t gpus)
{
	const DecideInput *input = cycle->input;
	const DecideJob *j = &input->jobs[job];

	DecideQueueCharge(cycle->queue, j->account, j->tier, type,
					  (int64_t) gpus *
					  DecideCounted(&input->requests[j->request], type));
}

/*
 * Charges for claims of earlier cycles, as for starts.
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
			job_charge(cycle, claim->job, claim->type, claim->gpus);
		else if (!claim->running)
			DecideQueueCharge(cycle->queue, claim->account, -1, claim->type,
							  (int64_t) claim->gpus * DecideClaimCounted(claim));
	}
}

/*
 * Charges for what a job was just promised.
 */
static void
promise_charge(Cycle *cycle, int32_t job)
{
	const DecideResult *result = cycle->result;
	int32_t		i = result->n_promises - 1;

	while (i >= 0 && result->promises[i].job != job)
		i--;
	if (i >= 0)
		job_charge(cycle, job, result->promises[i].type,
				   result->promises[i].gpus);
}

/*
 * After a failed start, finds the reason, and whether any job of the class
 * could start.  Returns false if memory runs out.
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
 * Tries to start a job, unless it is known to fail.
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
						class_state(cycle, class, request->wall_limit),
						job, request);
	if (outcome == OUTCOME_NO_FIT && !class_fails(cycle, class, job, request))
		return OUTCOME_OUT_OF_MEMORY;
	return outcome;
}

/*
 * Records why a job waits to which quotas allow only a part of its request.
 * Returns false if quotas allow it all of its request.
 */
static bool
filter_explain(Cycle *cycle, int32_t job)
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
 * Sets the reasons of those requests of which only jobs wait to which quotas
 * allow a part.
 */
static void
filters_explain(Cycle *cycle)
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
 * Sets, once for each request, why its jobs wait: the reason of the last
 * failed job of its class.
 */
static void
job_explain(Cycle *cycle, int32_t job)
{
	DecideWait *wait = &cycle->result->waits[cycle->input->jobs[job].request];

	if (filter_explain(cycle, job) ||
		wait->reason != DECIDE_NOT_WAITING)
		return;
	*wait = DecideClassOf(cycle, job)->wait;
	wait->job = job;
}

/*
 * Handles a job that had its turn and waits: it may get a reservation.  Other
 * jobs of its request keep their turns only if they may get one, or a claim.
 * Returns false if memory runs out.
 */
static bool
job_waits(Cycle *cycle, int32_t job)
{
	int32_t		request = cycle->input->jobs[job].request;
	bool		more;

	if (cycle->n_before < 0)
		cycle->n_before = cycle->result->n_starts;
	job_explain(cycle, job);
	if (!DecideReserve(cycle, job, &more))
		return false;
	if (cycle->guaranteed != NULL)
	{
		cycle->guaranteed[request] -= DecideJobGuaranteed(cycle, job);
		more |= cycle->guaranteed[request] > 0;
	}
	if (cycle->filter == NULL &&
		(cycle->may_claim == NULL || !cycle->may_claim[request]) && !more)
		DecideQueueBlock(cycle->queue, request);
	return true;
}

/*
 * Records that max_starts was reached before a job's turn.
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
 * Whether it is still unknown if a job can start.
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
 * Adds the job that has just started to usage, quotas and entitlements.
 */
static void
job_started(Cycle *cycle, int32_t job)
{
	const DecideResult *result = cycle->result;
	const DecideStart *start = &result->starts[result->n_starts - 1];
	const DecideJob *j = &cycle->input->jobs[job];
	DecideUse	use = DecideJobUse(&cycle->input->requests[j->request],
								   start->type, start->gpus);

	job_charge(cycle, job, start->type, start->gpus);
	DecideQuotaAdd(cycle, j->account, start->type, &use, false);
	DecideClaimsStarted(cycle, start);
	if (cycle->guaranteed != NULL)
		cycle->guaranteed[j->request] -= DecideJobGuaranteed(cycle, job);
}

/*
 * Gives a job its turn: it starts, or gets a claim, or gets a reason and a
 * reservation.  Starts and claims count in fair share immediately.  Returns
 * false if memory runs out.
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
		job_started(cycle, job);
		return true;
	}
	if (!DecideClaimTry(cycle, job, &promised))
		return false;
	if (promised)
		promise_charge(cycle, job);
	return promised || job_waits(cycle, job);
}

/*
 * Gives a job whose reservation is due its turn before the queue: it starts on
 * exactly these devices, or has them reserved again.  If neither is possible,
 * it has its ordinary turn later.  Returns false if memory runs out.
 */
static bool
due_turn(Cycle *cycle, int32_t job)
{
	const DecideRequestClass *request;
	PlaceOutcome outcome = OUTCOME_NO_FIT;
	bool		held;
	bool		reserved;

	if (!DecideQuotaFilter(cycle, job, false, &held))
		return false;
	if (held || (cycle->promised != NULL && cycle->promised[job]))
		return true;
	request = DecideJobRequest(cycle, job);
	if (cycle->result->n_starts < cycle->input->max_starts)
	{
		DecideAvailabilityShow(cycle, request->wall_limit);
		outcome = DecidePreviousTry(cycle, job, request, request->max_gpus == 0 ?
									NULL : request->offers, request->n_offers);
	}
	if (outcome == OUTCOME_OUT_OF_MEMORY)
		return false;
	if (outcome == OUTCOME_STARTED)
	{
		job_started(cycle, job);
		cycle->was_due[job] = true;
		return true;
	}
	if (cycle->n_before < 0)
		cycle->n_before = cycle->result->n_starts;
	cycle->was_due[job] = true; /* the reservation must yield to nobody */
	if (!DecideReserveAgain(cycle, job, &reserved))
		return false;
	cycle->was_due[job] = reserved;
	if (reserved)
		cycle->guaranteed[cycle->input->jobs[job].request]--;
	return true;
}

/*
 * Gives the jobs whose reservations are due their turns, if they go before a
 * job of this rank, which is to have its turn.  Returns false if memory runs
 * out.
 */
static bool
due_try(Cycle *cycle, int32_t rank)
{
	while (cycle->next_due < cycle->n_due)
	{
		int32_t		job = cycle->due[cycle->next_due];
		bool		fine;

		if (DecideAgedRank(cycle->input, job) > rank)
			return true;
		cycle->next_due++;
		fine = due_turn(cycle, job);
		cycle->filter = NULL;
		if (!fine)
			return false;
	}
	return true;
}

/*
 * Sets why jobs with due reservations wait, if no other job of their request
 * has its reason reported.
 */
static void
due_explain(Cycle *cycle)
{
	const DecideResult *result = cycle->result;
	int32_t		i;

	for (i = 0; i < result->n_reservations && cycle->n_due > 0; i++)
	{
		int32_t		job = result->reservations[i].job;
		DecideWait *wait = &result->waits[cycle->input->jobs[job].request];

		if (wait->reason != DECIDE_NOT_WAITING)
			continue;
		wait->reason = DECIDE_RESERVED;
		wait->job = job;
		wait->type = result->reservations[i].type;
	}
}

/*
 * Gives a job its turn to which quotas allow nothing: less important jobs
 * under the same quotas leave for it, or it is held back and delays no other
 * job.  Returns false if memory runs out.
 */
static bool
held_turn(Cycle *cycle, int32_t job)
{
	bool		promised;

	if (!DecideClaimWithinQuota(cycle, job, &promised))
		return false;
	if (promised)
	{
		promise_charge(cycle, job);
		return true;
	}
	cycle->result->held[job] = INT32_MAX;
	cycle->quotas->binds = true;
	return true;
}

/*
 * Gives a job its turn with what quotas allow of its request.  Returns false
 * if memory runs out.
 */
static bool
job_turn(Cycle *cycle, int32_t job)
{
	bool		held;
	bool		served;

	if ((cycle->promised != NULL && cycle->promised[job]) ||
		(cycle->was_due != NULL && cycle->was_due[job]))
		return true;
	if (!DecideQuotaFilter(cycle, job, false, &held))
		return false;
	if (held)
		return held_turn(cycle, job);
	served = job_serve(cycle, job);
	cycle->filter = NULL;
	return served;
}

/*
 * Gives the postponed jobs of ranks below this one their turns.  Their
 * accounts have their entitlements already: with policy reclaim such a job
 * would be evicted as soon as it may be, for a job of its rank or a more
 * important one whose account has less.  So it has its turn after all of
 * those.  Returns false if memory runs out.
 */
static bool
postponed_try(Cycle *cycle, int32_t below)
{
	int32_t		kept = 0;
	int32_t		i;

	for (i = 0; i < cycle->n_postponed; i++)
	{
		int32_t		job = cycle->postponed[i];

		if (i % 256 == 0)
			DecidePoll(cycle->arena);
		if (cycle->queue->blocked[cycle->input->jobs[job].request])
			continue;
		if (cycle->input->tiers[cycle->input->jobs[job].tier].rank >= below)
			cycle->postponed[kept++] = job;
		else if (!job_turn(cycle, job))
			return false;
	}
	cycle->n_postponed = kept;
	return true;
}

/*
 * Gives every job its turn, in order.  Returns false if memory runs out.
 */
static bool
jobs_try(Cycle *cycle)
{
	int32_t		turns = 0;
	int32_t		job;

	claims_charge(cycle);
	if (cycle->input->policy.reclaim && cycle->input->n_jobs > 0)
	{
		/* entitlements influence turns and reservations, too */
		if (!DecideClaimsLoad(cycle))
			return false;
		cycle->postponed = DecideAlloc(cycle->arena, cycle->input->n_jobs,
									   sizeof(int32_t));
		if (cycle->postponed == NULL)
			return false;
	}
	while ((job = DecideQueueNext(cycle->queue)) >= 0)
	{
		if (turns++ % 256 == 0)
			DecidePoll(cycle->arena);
		if (!due_try(cycle, DecideTurnRank(cycle->input, job)))
			return false;
		if (cycle->input->policy.reclaim &&
			!postponed_try(cycle, DecideTurnRank(cycle->input, job)))
			return false;
		if (cycle->queue->blocked[cycle->input->jobs[job].request])
			continue;			/* a postponed job has blocked its request
								 * since its turn came */
		if (cycle->input->policy.reclaim && DecideClaimBeyond(cycle, job))
			cycle->postponed[cycle->n_postponed++] = job;
		else if (!job_turn(cycle, job))
			return false;
	}
	return due_try(cycle, INT32_MAX) && postponed_try(cycle, INT32_MAX);
}

/*
 * Sets up a cycle's state apart from its hosts.  Returns false if memory runs
 * out.
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
	if (!classes_find(cycle) || !DecidePlacePrepare(cycle) ||
		!DecideDuePrepare(cycle))
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
 * Whether a job has started whose cache a job with a reservation wants.  The
 * nodes then hold the cache.  A job with a fixed number of devices keeps its
 * previous reservation anyway.
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
 * Whether starts of this round may change the decision about jobs that failed
 * before them.
 *
 * A start moves its account behind others, which matters for jobs with
 * reservations.  With shares of tiers, a start may exceed what is left of a
 * share.  Jobs may have searched for an entitlement in vain.  A job that
 * quotas held back at its turn was ahead of other jobs until then.
 */
static bool
starts_concern(const Cycle *cycle)
{
	const DecideResult *result = cycle->result;
	bool		binds = cycle->quotas != NULL && cycle->quotas->binds;

	if (cycle->unsettled || (cycle->queue->n_shares > 0 && binds))
		return true;
	return result->n_reservations > 0 &&
		(binds ||
		 result->reservations[0].after < result->n_starts ||
		 ((cycle->queue->n_shares > 0 || cycle->quotas != NULL) &&
		  cycle->n_before < result->n_starts) ||
		 caches_came(cycle));
}

/*
 * Whether nothing is left to decide: nothing was decided, or only what changes
 * nothing for other jobs.  After max_starts the remaining jobs wait for the
 * next cycle.  A promise always concerns other jobs, because the holders of
 * its devices will leave.
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
 * Gives all jobs their turns once.  *over becomes true if another round would
 * decide nothing.
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
		filters_explain(&cycle);
		due_explain(&cycle);
		*over = round_is_over(&cycle);
	}
	return error;
}
