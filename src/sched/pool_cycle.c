/*-------------------------------------------------------------------------
 *
 * pool_cycle.c
 *		Runs a scheduling cycle of a pool up to its decision.
 *
 * A cycle loads what it decides on, decides, and checks the decision with
 * independent code. A decision may need data that is not loaded yet, for
 * example the quotas of jobs that could grow. The cycle then loads the missing
 * data and decides again. place() locks and applies the decision; plan(),
 * plan_with(), reservations(), queue_plan() and explain() only report it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/settings.h"
#include "util/sql.h"
#include "miscadmin.h"
#include "sched/sched.h"
#include "types/clip.h"
#include "types/gpuset.h"
#include "utils/memutils.h"

static void decide(SchedCycle *cycle);
static void set_apart(SchedCycle *cycle);
static bool load_missing(SchedCycle *cycle);
static void expect_starts(SchedCycle *cycle);

/*
 * Decides what a cycle of the pool would decide now, without writing anything.
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
	CycleLoad(cycle);
	FenceWaitHoldBack(cycle);
	cycle->input.max_starts = max_starts;
	cycle->input.max_evictions = SettingMaxStarts();
}

/*
 * Decides, and repeats the decision as long as load_missing() had to load data
 * that the decision needs.
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
 * Loads data that the last decision turned out to need: quotas of growing
 * jobs, and credit for jobs that move or grow. Returns true if something was
 * loaded, so that the cycle must decide again.
 */
static bool
load_missing(SchedCycle *cycle)
{
	bool		all_quotas = SchedQuotasCounted(cycle);
	bool		all_paid = all_quotas && CreditCheckMoves(cycle);

	return !all_paid;
}

/* Estimates when the reservations of the decision begin. */
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
 * Estimates when each job of the queue starts, whether it has a reservation or
 * not. Returns an array by job, with DECIDE_NEVER where no start can be
 * estimated.
 */
int64 *
CycleExpectQueue(const SchedCycle *cycle)
{
	DecideArena arena = ArenaOf(cycle->decided);
	int64	   *at;
	const char *problem = DecideExpectedQueue(&cycle->input, &cycle->result,
											  &arena, cycle->expected_at, &at);

	Ensure(problem == NULL, "Expected starts could not be estimated.");
	return at;
}

/*
 * Gives the job that explain() or a similar call asks for a request class of
 * its own. Reasons to wait are noted by request class, so the job would
 * otherwise report the reason of an earlier job with the same request.
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
 * Decides, and checks the decision with independent code. The memory of an
 * earlier decision is freed first, because locked rows may make a cycle decide
 * often. If the loaded rows are impossible, because somebody changed tables
 * without the extension's functions, the cycle starts nothing, as it cannot
 * know which devices are free.
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
	SchedQuotasStore(cycle);
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

/* Returns one row for each node of each job that starts. */
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

/* Returns the name of the reason why a job of the queue does not start. */
const char *
CycleWaitReason(const SchedCycle *cycle, int32 index)
{
	const DecideResult *result = &cycle->result;

	if (result->held != NULL && result->held[index] != DECIDE_NOT_HELD)
		return "quota";
	return DecideReasonName(result->waits[cycle->jobs[index].request].reason);
}
