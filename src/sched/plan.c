/*-------------------------------------------------------------------------
 *
 * plan.c
 *		Decide without applying, and report the decisions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/clock.h"
#include "util/compat.h"
#include "util/errors.h"
#include "util/settings.h"
#include "util/sql.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "sched/sched.h"
#include "types/clip.h"
#include "types/gpuset.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(gpucredit_plan);
PG_FUNCTION_INFO_V1(gpucredit_reservations);

static void load(SchedCycle *cycle);
static void close_nodes(const SchedCycle *cycle);
static void decide(SchedCycle *cycle);
static void set_apart(SchedCycle *cycle);
static bool load_missing(SchedCycle *cycle);
static void expect_starts(SchedCycle *cycle);
static void put_reserved(ReturnSetInfo *rsinfo, const SchedCycle *cycle);

Datum
gpucredit_plan(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	SchedCycle	cycle = {.pool = ArgName(fcinfo, 0, "pool")};

	InitMaterializedSRF(fcinfo, 0);
	SqlConnect();
	CyclePlan(&cycle);
	CyclePutStarts(rsinfo, &cycle);
	ClaimsPut(&cycle, rsinfo);
	SqlFinish();
	return (Datum) 0;
}

Datum
gpucredit_reservations(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	SchedCycle	cycle = {.pool = ArgName(fcinfo, 0, "pool")};

	InitMaterializedSRF(fcinfo, 0);
	SqlConnect();
	CyclePlan(&cycle);
	put_reserved(rsinfo, &cycle);
	SqlFinish();
	return (Datum) 0;
}

/*
 * Decide what a cycle of the pool would decide now, changing nothing.
 */
void
CyclePlan(SchedCycle *cycle)
{
	cycle->read_only = true;
	PoolExists(cycle->pool);
	CycleBegin(cycle, SettingMaxStarts());
	if (cycle->asked != NULL)
		set_apart(cycle);
	CycleDecideAll(cycle);
}

/*
 * Load what a cycle of the pool decides on.
 */
void
CycleBegin(SchedCycle *cycle, int32 max_starts)
{
	cycle->now = ClockNow();
	SchedQuotasLoad(cycle);
	load(cycle);
	FenceWaitHoldBack(cycle);
	cycle->input.max_starts = max_starts;
}

/*
 * Decide until the decision needs nothing that is not loaded.
 */
void
CycleDecideAll(SchedCycle *cycle)
{
	bool		again = true;

	while (again)
	{
		CHECK_FOR_INTERRUPTS();
		decide(cycle);
		again = load_missing(cycle);
	}
	expect_starts(cycle);
}

/*
 * Load what a decision turned out to need.  True: there was something, and
 * the cycle must decide again.
 */
static bool
load_missing(SchedCycle *cycle)
{
	bool		all_quotas = SchedQuotasCounted(cycle);
	bool		all_paid = all_quotas && CreditCheckMoves(cycle);

	return !all_paid;
}

/*
 * Estimate when what is reserved begins.
 */
static void
expect_starts(SchedCycle *cycle)
{
	DecideArena arena = ArenaOf(cycle->decided);
	const char *problem;

	RuntimeEstimateLoad(cycle);
	problem = DecideExpectedStarts(&cycle->input, &cycle->result, &arena,
								   &cycle->expected_at);
	Ensure(problem == NULL, "Expected starts could not be estimated.");
}

/*
 * Give the job asked for a request of its own, so that its own reason is
 * reported, and not that of an earlier job with the same request.
 */
static void
set_apart(SchedCycle *cycle)
{
	int32		i = 0;

	cycle->asked_index = -1;
	while (i < cycle->input.n_jobs &&
		   (cycle->jobs[i].id != cycle->asked->job ||
			strcmp(cycle->jobs[i].org, cycle->asked->org) != 0))
		i++;
	if (i == cycle->input.n_jobs)
		return;
	cycle->jobs[i].request = CycleAddRequest(cycle,
											 &cycle->requests[cycle->jobs[i].request]);
	cycle->requests[cycle->jobs[i].request].apart = true;
	cycle->asked_index = i;
}

/*
 * Decide, and check the decision with independent code.  An earlier decision
 * is freed: locked rows may make a cycle decide often.  If rows are
 * impossible, because somebody wrote past the functions, nothing starts: what
 * is free is not known.
 */
static void
decide(SchedCycle *cycle)
{
	DecideArena arena;
	const char *problem;

	if (cycle->decided == NULL)
		cycle->decided = AllocSetContextCreate(CurrentMemoryContext,
											   "gpucredit decide",
											   ALLOCSET_DEFAULT_SIZES);
	MemoryContextReset(cycle->decided);
	arena = ArenaOf(cycle->decided);
	SchedQuotasGive(cycle);
	problem = DecideRun(&cycle->input, &arena, &cycle->result);
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("gpucredit found its own data inconsistent"),
				 errdetail_internal("In pool \"%s\" %s.",
									ClipForMessage(cycle->pool), problem),
				 errhint("Run gpucredit.verify() to see what is wrong.")));
	problem = DecideCheck(&cycle->input, &cycle->result, &arena, NULL);
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("the scheduler's decision for pool \"%s\" is wrong",
						ClipForMessage(cycle->pool)),
				 errdetail_internal("%s", problem),
				 errhint("Nothing was started. Report this as a bug.")));
}

/*
 * A row per node of each job that starts.
 */
void
CyclePutStarts(ReturnSetInfo *rsinfo, const SchedCycle *cycle)
{
	for (int i = 0; i < cycle->result.n_starts; i++)
	{
		const DecideStart *start = &cycle->result.starts[i];
		const DecideJob *job = &cycle->jobs[start->job];
		StartPrice	price = CyclePrice(cycle, start);

		for (int p = start->first_part; p < start->first_part + start->n_parts;
			 p++)
		{
			const DecidePart *part = &cycle->result.parts[p];
			Values	   *row = VALUES(TextValue("start"), TextValue(job->org),
									 Int8Value(job->id),
									 Int4Value(cycle->queued[start->job].attempt + 1),
									 TextValue(cycle->set->nodes[part->node].name),
									 DatumValue(GpuSetGetDatum(part->devices)),
									 Int4Value(start->share),
									 TextValue(price.gpu_type),
									 NumericValue(price.per_gpu_hour),
									 NullValue());

			if (cycle->hypothetical != NULL)
				ValuesAdd(row, TimeValueOrNull(cycle->now));
			RowPut(rsinfo, row);
		}
	}
}

/*
 * A row per node of each reservation.
 */
static void
put_reserved(ReturnSetInfo *rsinfo, const SchedCycle *cycle)
{
	for (int i = 0; i < cycle->result.n_reservations; i++)
	{
		const DecideReservation *r = &cycle->result.reservations[i];
		const DecideJob *job = &cycle->jobs[r->job];

		for (int p = r->first_part; p < r->first_part + r->n_parts; p++)
		{
			const DecidePart *part = &cycle->result.reserved_parts[p];

			RowPut(rsinfo,
				   VALUES(TextValue(job->org), Int8Value(job->id),
						  Int4Value(cycle->queued[r->job].attempt + 1),
						  TextValue(cycle->set->nodes[part->node].name),
						  DatumValue(GpuSetGetDatum(part->devices)),
						  Int4Value(cycle->requests[job->request].share),
						  TextValue(r->type == DECIDE_NO_TYPE ? NULL :
									cycle->set->types.names[r->type]),
						  TimeValueOrNull(cycle->expected_at[i]),
						  TimeValueOrNull(r->limit_at)));
		}
	}
}

/*
 * What a cycle decides on: nodes, what is taken, the queue.
 *
 * Each is read by its own statement after the pool's lock.  Nothing is kept
 * from one cycle to the next.
 */

/*
 * Load all that a cycle decides on.
 */
static void
load(SchedCycle *cycle)
{
	cycle->input.now = cycle->now;
	cycle->input.soon = CYCLE_SOON;
	cycle->set = NodesLoad(cycle->pool, cycle->read_only);
	HypotheticalNodes(cycle);
	ShareBegin(cycle);
	RunningLoad(cycle);
	QueueLoad(cycle);
	if (cycle->read_only)
		FundForesee(cycle);
	HypotheticalJobs(cycle);
	WorkloadMixLoad(cycle);
	CacheAffinityLoad(cycle);
	ClaimsLoad(cycle);
	PreviousLoad(cycle);
	ElasticLoad(cycle);
	if (cycle->input.n_jobs > 0)
		UsageLoad(cycle);
	ShareLoad(cycle);
	RuntimeEstimateOrder(cycle);
	cycle->input.nodes = cycle->set->nodes;
	cycle->input.n_nodes = cycle->set->n;
	if (cycle->foreign)
		close_nodes(cycle);
}

/*
 * Where another scheduler places, a cycle finds no node that takes work.  It
 * still funds jobs, returns surplus and counts use.
 */
static void
close_nodes(const SchedCycle *cycle)
{
	for (int32 i = 0; i < cycle->set->n; i++)
		cycle->set->nodes[i].schedulable = false;
}
