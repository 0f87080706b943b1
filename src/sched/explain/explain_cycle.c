/*-------------------------------------------------------------------------
 *
 * explain_cycle.c
 *		Reports for explain() what the next cycle would do with a queued
 *		job.
 *
 * The cycle is planned as by plan(). Reported are quotas that other starts
 * exhaust, the job's place in the order, its turn, its claim, how many nodes
 * and devices of the pool its request could use, and its reservation.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/errors.h"
#include "util/sql.h"
#include "api/tenant.h"
#include "sched/explain/explain.h"
#include "types/duration.h"
#include "utils/memutils.h"

SQL_STATEMENT(claim_read, SPI_OK_SELECT, "text, text, bigint",
			  "SELECT c.until FROM gpucredit.claim c"
			  " WHERE c.pool = $1 AND c.org = $2 AND c.job = $3");

/*
 * A check of the request against the pool, and the reason to wait that means
 * that the check failed.
 */
typedef struct PoolCheck
{
	const char *name;
	DecideReason reason;
	const char *passes;
	const char *fails;			/* format of the text; its arguments are the
								 * numbers wanted and available */
	bool		taken;			/* whether the check fails because other jobs
								 * have the devices; advise() then reports
								 * what would make the job start */
} PoolCheck;

static const PoolCheck pool_checks[] = {
	{"type", DECIDE_NO_SUCH_TYPE, "the pool has a type it accepts",
	"the pool has no node of a type it accepts: register one, or accept another type", false},
	{"gpu_memory", DECIDE_NO_SUCH_MEMORY, "some have the memory it asks for",
	"%lld MiB on each device wanted, %lld there are at most: ask for less, or for another type", false},
	{"placement", DECIDE_FILTERED, "its placement allows some of them",
	"its placement allows no node that has a type and memory that it accepts: the names or labels are wrong, or those nodes have left", false},
	{"spot", DECIDE_SPOT_ONLY, "there are nodes it may use",
	"only spot nodes would do, and it may not be preempted: let it be", false},
	{"topology", DECIDE_POOL_TOO_SMALL, "the pool is large enough for it",
	"%lld devices wanted, %lld there are within what its topology allows: ask for fewer, or for another topology", false},
	{"nodes", DECIDE_NODES_UNAVAILABLE, "some take new work",
	"no node it could use takes new work now: see the view nodes", false},
	{"free", DECIDE_NOT_ENOUGH_SHARE, NULL,
		"%lld thousandths of a device wanted, %lld are free on the best one",
	true},
	{"free", DECIDE_GPU_MEMORY_SHORT, NULL,
	"%lld MiB of a device's memory wanted, %lld are free on the best one that has the share", true},
	{"free", DECIDE_NOT_ENOUGH_GPUS, "enough devices are free",
	"%lld devices wanted, %lld are free", true},
	{"together", DECIDE_NOT_TOGETHER, "enough of them are together",
	"%lld devices wanted, %lld are free within the best place that its topology allows", true},
	{"cpu", DECIDE_CPU_SHORT, "cpu is there",
	"%lld devices wanted, %lld free ones have the cpu beside them that it asks for", true},
	{"host_memory", DECIDE_MEMORY_SHORT, "host memory is there",
	"%lld devices wanted, %lld free ones have the host memory beside them that it asks for", true},
	{"host_memory", DECIDE_CPU_AND_MEMORY_SHORT, NULL,
	"cpu and host memory are there, but not on the same nodes", true},
	{"reserved", DECIDE_RESERVED, NULL, NULL, false},
};

static const PoolCheck one_host_checks[] = {
	{"cpu", DECIDE_CPU_SHORT, NULL,
	"%lld thousandths of a cpu wanted, %lld are free on the best node", true},
	{"host_memory", DECIDE_MEMORY_SHORT, NULL,
	"%lld MiB of host memory wanted, %lld are free on the best node", true},
};

static bool is_held(const SchedCycle *cycle, int32 index);
static void put_order(ReturnSetInfo *rsinfo, const SchedCycle *cycle,
					  int32 index);
static bool put_start(ReturnSetInfo *rsinfo, const SchedCycle *cycle,
					  int32 index);
static bool put_claim(ReturnSetInfo *rsinfo, const SchedCycle *cycle,
					  int32 index);
static void put_request(ReturnSetInfo *rsinfo, const SchedCycle *cycle,
						int32 index);
static const char *reserved_text(const SchedCycle *cycle, int32 index);
static bool decides(const SchedCycle *cycle);
static const char *advise(const SchedCycle *cycle, int32 index);
static void put_reservation(ReturnSetInfo *rsinfo, const SchedCycle *cycle,
							int32 index);
static const char *expected_text(const SchedCycle *cycle, int32 index);
static int32 count_deep(const SchedCycle *cycle);
static bool *passed_over(const SchedCycle *cycle);
static const char *unreserved_text(const SchedCycle *cycle, int32 index,
								   bool *by_turn);

/* Reports what the next cycle would do with a job that may start. */
void
ExplainCycle(ReturnSetInfo *rsinfo, const Job *job)
{
	SchedCycle	cycle = {.pool = job->pool, .asked = job};
	int32		index;

	CyclePlan(&cycle);
	if (ExplainSetAside(rsinfo, &cycle, job))
		return;
	if (cycle.foreign)
	{
		ExplainPut(rsinfo, "placed_by", true, "its credit is set aside; "
				   "another scheduler says when and where it starts");
		return;
	}
	index = cycle.asked_index;
	if (index < 0 || is_held(&cycle, index))
	{
		bool		beside = ExplainQuotasBeside(rsinfo, &cycle, job);

		ExplainPut(rsinfo, "turn", false, beside ?
				   "the tenant's quotas hold it back, beside what else of it "
				   "starts now or is promised" :
				   "the tenant's quotas hold it back");
		return;
	}
	put_order(rsinfo, &cycle, index);
	if (put_start(rsinfo, &cycle, index) || put_claim(rsinfo, &cycle, index))
		return;
	(void) ExplainQuotasBeside(rsinfo, &cycle, job);
	if (cycle.result.waits[cycle.jobs[index].request].reason ==
		DECIDE_ENOUGH_STARTED)
	{
		ExplainPut(rsinfo, "turn", false,
				   psprintf("before its turn as many jobs start as may in one cycle: "
							"gpucredit.max_starts is %d, a later cycle goes on",
							cycle.input.max_starts));
		return;
	}
	put_request(rsinfo, &cycle, index);
	ExplainKept(rsinfo, &cycle, index);
	ExplainPreemption(rsinfo, &cycle, index);
	put_reservation(rsinfo, &cycle, index);
}

/* Whether quotas hold a job back. */
static bool
is_held(const SchedCycle *cycle, int32 index)
{
	return cycle->result.held != NULL &&
		cycle->result.held[index] != DECIDE_NOT_HELD;
}

/*
 * Reports that the next cycle starts the job. Returns false, without a row, if
 * it does not.
 */
static bool
put_start(ReturnSetInfo *rsinfo, const SchedCycle *cycle, int32 index)
{
	const DecideResult *result = &cycle->result;

	for (int i = 0; i < result->n_starts; i++)
	{
		const DecideStart *start = &result->starts[i];

		if (start->job != index)
			continue;
		ExplainPut(rsinfo, "turn", true,
				   psprintf("the next cycle starts it on %s",
							CycleNodes(cycle,
									   &result->parts[start->first_part],
									   start->n_parts)));
		return true;
	}
	return false;
}

/*
 * Returns when the attempts that have the devices of a claim should have left.
 */
static TimestampTz
expected_departure(const SchedCycle *cycle, const DecideClaim *claim)
{
	const DecidePart *parts = &cycle->input.claim_parts[claim->first_part];
	TimestampTz last = cycle->now;

	for (int32 i = 0; i < cycle->input.n_running; i++)
	{
		const DecideRunning *running = &cycle->running[i];

		for (int r = 0; r < running->n_parts; r++)
		{
			const DecidePart *has =
			&cycle->running_parts[running->first_part + r];

			for (int p = 0; p < claim->n_parts; p++)
			{
				if (parts[p].node == has->node &&
					((parts[p].devices & has->devices) != 0 ||
					 parts[p].devices == 0))
					last = Max(last, running->expected_end);
			}
		}
	}
	return last;
}

/*
 * Reports the job's claim, an existing one or one that the next cycle makes.
 * Returns false, without a row, if it has none.
 */
static bool
put_claim(ReturnSetInfo *rsinfo, const SchedCycle *cycle, int32 index)
{
	const DecideJob *job = &cycle->jobs[index];

	for (int i = 0; i < cycle->input.n_claims; i++)
	{
		const DecideClaim *claim = &cycle->input.claims[i];
		SqlResult	row;

		if (claim->job != index)
			continue;
		row = SqlRead(&claim_read,
					  VALUES(TextValue(cycle->pool), TextValue(job->org),
							 Int8Value(job->id)));
		ExplainPut(rsinfo, "claim", true,
				   psprintf("%s promised to it, and those who have something there "
							"are leaving: expected start %s; the promise ends "
							"at %s",
							CycleNodes(cycle,
									   &cycle->input.claim_parts[claim->first_part],
									   claim->n_parts),
							ExplainTime(expected_departure(cycle, claim)),
							ExplainTime(row.n > 0 ? SqlTime(row, 0, 1) :
										cycle->now)));
		return true;
	}
	for (int i = 0; i < cycle->result.n_promises; i++)
	{
		const DecidePromise *promise = &cycle->result.promises[i];

		if (promise->job != index)
			continue;
		ExplainPut(rsinfo, "claim", true,
				   psprintf("the next cycle promises it %s, and tells those who have "
							"something there to leave",
							CycleNodes(cycle,
									   &cycle->result.promise_parts[promise->first_part],
									   promise->n_parts)));
		return true;
	}
	return false;
}

/*
 * Reports the checks of a waiting job's request against the pool, up to the
 * first that fails.
 */
static void
put_request(ReturnSetInfo *rsinfo, const SchedCycle *cycle, int32 index)
{
	const DecideRequestClass *request = &cycle->requests[cycle->jobs[index].request];
	const DecideWait *wait = &cycle->result.waits[cycle->jobs[index].request];
	bool		one_host = request->max_gpus == 0 ||
		request->share < DECIDE_WHOLE;
	const char *last = "";

	for (int c = 0; c < (int) lengthof(pool_checks); c++)
	{
		const PoolCheck *check = &pool_checks[c];

		if (check->reason == wait->reason)
		{
			for (int o = 0; o < (int) lengthof(one_host_checks) && one_host;
				 o++)
			{
				if (one_host_checks[o].reason == wait->reason)
					check = &one_host_checks[o];
			}
			ExplainPut(rsinfo, check->name, false, check->fails == NULL ?
					   reserved_text(cycle, index) :
					   psprintf("%s%s%s",
								psprintf(check->fails,
										 (long long) wait->wanted,
										 (long long) wait->available),
								check->taken && decides(cycle) ?
								", beside what starts or is promised before "
								"its turn" : "",
								check->taken ? advise(cycle, index) : ""));
			return;
		}
		if (wait->reason == DECIDE_NOT_WAITING ||
			wait->reason > DECIDE_RESERVED)
			return;
		if (check->reason == DECIDE_FILTERED && request->filter == NULL)
			continue;			/* the job has no placement */
		if (check->passes != NULL && strcmp(last, check->name) != 0)
			ExplainPut(rsinfo, last = check->name, true, check->passes);
	}
}

/*
 * Returns the text for a job whose devices are free but reserved: which wall
 * limit would let the job start before the reservations.
 */
static const char *
reserved_text(const SchedCycle *cycle, int32 index)
{
	int64		limit = ExplainShorter(cycle, index);

	return limit == 0 ?
		"what is free is reserved for jobs ahead of it, and no shorter "
		"wall_limit would let it start before them" :
		psprintf("what is free is reserved for jobs ahead of it, sooner than "
				 "its wall limit ends: with a wall_limit of at most %s it "
				 "would start now", DurationToCString(limit));
}

/* Whether the next cycle starts other jobs or claims devices for them. */
static bool
decides(const SchedCycle *cycle)
{
	return cycle->result.n_starts > 0 || cycle->result.n_promises > 0;
}

/*
 * Returns in words what other jobs would have to release for the job to start.
 */
static const char *
advise(const SchedCycle *cycle, int32 index)
{
	int32		n = cycle->input.n_running;
	bool	   *gone = palloc(sizeof(bool) * (n + 1));
	Counterfactual without = {.running = gone, .others = true,
		.claims = true,
		.quotas = true};

	for (int32 i = 0; i < n; i++)
		gone[i] = cycle->running[i].over;
	if (ExplainCounterfactual(cycle, index, &without).starts)
		return ": what is kept, promised to others, or given to jobs ahead of "
			"it must come free first";
	for (int32 i = 0; i < n; i++)
		gone[i] = true;
	return ExplainCounterfactual(cycle, index, &without).starts ?
		": some that run must end first" :
		": it could not start on what is in service and takes new work even "
		"if nothing ran there";
}

/*
 * Returns a text such as " of 12", or an empty text for a tenant, who may know
 * only its own turn.
 */
static const char *
of_all(int32 n)
{
	return TenantCalls() ? "" : psprintf(" of %d", n);
}

/*
 * Returns a text such as "account 3 of 12 by fair share, ". The rank is among
 * the accounts with waiting or running jobs in the pool, and the accounts
 * above them.
 */
static char *
fair_text(const SchedCycle *cycle, const DecideArena *arena, int32 account)
{
	int32	   *ranks;
	const char *problem = DecideFairRank(&cycle->input, arena, &ranks);

	Ensure(problem == NULL, problem);
	return psprintf("account %d of %d by fair share, ", ranks[account],
					cycle->input.n_accounts);
}

/* Reports the job's place in the order of the queue. */
static void
put_order(ReturnSetInfo *rsinfo, const SchedCycle *cycle, int32 index)
{
	const DecideJob *job = &cycle->jobs[index];
	DecideArena arena = ArenaOf(AllocSetContextCreate(CurrentMemoryContext,
													  "gpucredit order",
													  ALLOCSET_DEFAULT_SIZES));
	int32		turn = 0;
	int32		turns = 0;
	bool		aged = job->aged_at < cycle->now;

	(void) DecideTurn(&cycle->input, &arena, cycle->result.held, index, &turn,
					  &turns);
	ExplainPut(rsinfo, "order", turn == 1,
			   psprintf("turn %d%s: tier \"%s\" of rank %d, %s%s, priority "
						"%d within its account", turn, of_all(turns),
						cycle->tier_names[job->tier],
						cycle->tiers[job->tier].rank,
						TenantCalls() ? "" : fair_text(cycle, &arena,
													   job->account),
						aged ? psprintf("aged since %s",
										ExplainTime(job->aged_at)) :
						job->aged_at == DECIDE_NEVER ? "it does not age" :
						psprintf("aged, and first of its rank, from %s on",
								 ExplainTime(job->aged_at)), job->priority));
}

/* Reports the job's reservation, or why it has none. */
static void
put_reservation(ReturnSetInfo *rsinfo, const SchedCycle *cycle, int32 index)
{
	bool		by_turn = false;
	const char *why;

	for (int i = 0; i < cycle->result.n_reservations; i++)
	{
		const DecideReservation *r = &cycle->result.reservations[i];

		if (r->job != index)
			continue;
		ExplainPut(rsinfo, "reservation", true,
				   psprintf("%s, expected start %s, by limit %s%s",
							CycleNodes(cycle,
									   &cycle->result.reserved_parts[r->first_part],
									   r->n_parts),
							ExplainTime(cycle->expected_at[i]),
							ExplainTime(r->limit_at), r->latest == 0 ? "" :
							psprintf(", guaranteed by %s",
									 ExplainTime(r->latest))));
		return;
	}
	why = unreserved_text(cycle, index, &by_turn);
	ExplainPut(rsinfo, "reservation", false,
			   psprintf("nothing is reserved for it: %s%s", why,
						by_turn ? expected_text(cycle, index) : ""));
}

/*
 * Returns the text "; expected start ..." for a job that waits behind others,
 * or an empty text if its start is not known.
 */
static const char *
expected_text(const SchedCycle *cycle, int32 index)
{
	int64		at = CycleExpectQueue(cycle)[index];

	return TIMESTAMP_NOT_FINITE(at) ? "" :
		psprintf("; expected start %s, after those who go before it",
				 ExplainTime(at));
}

/*
 * Counts the reservations to which gpucredit.backfill_depth applies. There may
 * be more than that setting allows: a job that was guaranteed a start keeps
 * its reservation when other jobs come before it.
 */
static int32
count_deep(const SchedCycle *cycle)
{
	int32		n = 0;

	for (int i = 0; i < cycle->result.n_reservations; i++)
		n += cycle->jobs[cycle->result.reservations[i].job].aged_at >=
			cycle->input.now;
	return n;
}

/* Returns, by waiting job, whether it gets no start, claim or reservation. */
static bool *
passed_over(const SchedCycle *cycle)
{
	const DecideResult *result = &cycle->result;
	bool	   *jobs = MemoryContextAllocHuge(CurrentMemoryContext,
											  sizeof(bool) *
											  (cycle->input.n_jobs + 1));

	memset(jobs, true, sizeof(bool) * cycle->input.n_jobs);
	for (int i = 0; i < result->n_starts; i++)
		jobs[result->starts[i].job] = false;
	for (int i = 0; i < result->n_reservations; i++)
		jobs[result->reservations[i].job] = false;
	for (int i = 0; i < result->n_promises; i++)
	{
		if (result->promises[i].job >= 0)
			jobs[result->promises[i].job] = false;
	}
	for (int i = 0; i < cycle->input.n_claims; i++)
	{
		if (cycle->input.claims[i].job >= 0)
			jobs[cycle->input.claims[i].job] = false;
	}
	return jobs;
}

/*
 * Returns in words why a waiting job has no reservation. Sets *by_turn to true
 * if the only reason is that other jobs go before it.
 */
static const char *
unreserved_text(const SchedCycle *cycle, int32 index, bool *by_turn)
{
	int32		n = cycle->input.n_running;
	bool	   *gone = palloc(sizeof(bool) * (n + 1));
	bool		deep = cycle->jobs[index].aged_at >= cycle->input.now;
	int32		depth = cycle->input.policy.backfill_depth;
	int32		n_deep = count_deep(cycle);
	Counterfactual deeper = {.depth = Max(depth, n_deep) + 1,
		.jobs = passed_over(cycle)};
	WouldBe		would;

	for (int32 i = 0; i < n; i++)
		gone[i] = true;
	if (!deep || !ExplainCounterfactual(cycle, index, &deeper).reserved)
	{
		if (!ExplainCounterfactual(cycle, index,
								   &(Counterfactual){.running = gone,
													   .others = true,
													   .claims = true,
													   .quotas = true}).starts)
			return "it could not start on what is in service and takes new "
				"work even if nothing ran there";
		would = ExplainCounterfactual(cycle, index,
									  &(Counterfactual){.quotas = true});
		if (would.starts || would.promised || would.reserved)
			return EXPLAIN_QUOTAS_LEAVE_NOTHING;
		would = ExplainCounterfactual(cycle, index,
									  &(Counterfactual){.jobs = deeper.jobs});
		if (would.starts || would.promised || would.reserved)
		{
			*by_turn = true;
			return "jobs ahead of it that get nothing now are in its way";
		}
		deeper.quotas = true;
		would = ExplainCounterfactual(cycle, index, &deeper);
		if (!would.starts && !would.promised && !would.reserved)
			return "of what is in its way not enough is known to end";
		if (!deep || n_deep < depth)
			return EXPLAIN_QUOTAS_LEAVE_NOTHING;
	}
	*by_turn = true;
	return psprintf("jobs ahead of it have as many reservations as "
					"gpucredit.backfill_depth allows, which is %d", depth);
}
