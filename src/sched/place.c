/*-------------------------------------------------------------------------
 *
 * place.c
 *		place: one scheduling cycle of a pool.  plan: the same, in thought.
 *
 * Lock the pool and the quotas concerned, load, decide, check the decision,
 * lock the jobs, apply.
 * Where a job to start is not to be had, it is left out and the cycle decides
 * again, so that what it would have used is not idle.
 *
 * Locks: the pool's row, without waiting; then as fund.c, apply.c and
 * surplus.c say, none of which waits.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/args.h"
#include "common/clock.h"
#include "common/compat.h"
#include "common/errors.h"
#include "common/settings.h"
#include "common/sql.h"
#include "entry/entry.h"
#include "miscadmin.h"
#include "sched/sched.h"
#include "types/gpuset.h"
#include "utils/memutils.h"

ENTRY_POINT(place);
PG_FUNCTION_INFO_V1(gpucredit_plan);

static void decide(Cycle *cycle);
static void put_busy(ReturnSetInfo *rsinfo);
static void put_starts(ReturnSetInfo *rsinfo, const Cycle *cycle);

Datum
call_place(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	char	   *pool = ArgName(fcinfo, 0, "pool");
	int32		max_starts = PG_ARGISNULL(1) ? SettingMaxStarts() :
		ArgInt4(fcinfo, 1, "max_starts", 0, 100000);
	Cycle		cycle = {.pool = pool};

	InitMaterializedSRF(fcinfo, 0);
	SqlConnect();
	if (!PoolTryLock(pool))
	{
		put_busy(rsinfo);
		SqlFinish();
		return (Datum) 0;
	}
	FundWaiting(pool);
	LimitsLoad(&cycle);
	cycle.now = ClockNow();
	CycleLoad(&cycle);
	StillHoldBack(&cycle);
	LimitsHoldBack(&cycle);
	cycle.input.max_starts = max_starts;
	do
	{
		CHECK_FOR_INTERRUPTS();
		decide(&cycle);
	} while (!LimitsKept(&cycle) || !CycleLock(&cycle) ||
			 !ClaimsLock(&cycle));
	LimitsCount(&cycle);
	CycleApply(&cycle);
	ClaimsApply(&cycle);
	SurplusReturn(pool);
	UsageCharge(&cycle);
	if (cycle.result.n_starts > 0 || cycle.result.n_promises > 0 ||
		cycle.claims_ended)
		PoolCount(pool);
	put_starts(rsinfo, &cycle);
	ClaimsPut(&cycle, rsinfo);
	SqlFinish();
	return (Datum) 0;
}

Datum
gpucredit_plan(PG_FUNCTION_ARGS)
{
	char	   *pool = ArgName(fcinfo, 0, "pool");
	Cycle		cycle = {.pool = pool, .read_only = true};

	InitMaterializedSRF(fcinfo, 0);
	SqlConnect();
	PoolExists(pool);
	cycle.now = ClockNow();
	LimitsLoad(&cycle);
	CycleLoad(&cycle);
	StillHoldBack(&cycle);
	LimitsHoldBack(&cycle);
	cycle.input.max_starts = SettingMaxStarts();
	do
	{
		CHECK_FOR_INTERRUPTS();
		decide(&cycle);
	} while (!LimitsKept(&cycle));
	put_starts((ReturnSetInfo *) fcinfo->resultinfo, &cycle);
	ClaimsPut(&cycle, (ReturnSetInfo *) fcinfo->resultinfo);
	SqlFinish();
	return (Datum) 0;
}

/*
 * Decide, and have the decision checked by code of its own.
 */
static void
decide(Cycle *cycle)
{
	DecideArena arena = ArenaOf(AllocSetContextCreate(CurrentMemoryContext,
													  "gpucredit decide",
													  ALLOCSET_DEFAULT_SIZES));
	const char *problem = DecideRun(&cycle->input, &arena, &cycle->result);

	if (problem == NULL)
		problem = DecideCheck(&cycle->input, &cycle->result, &arena, NULL);
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("the scheduler's decision does not hold"),
				 errdetail_internal("%s", problem),
				 errhint("Nothing was started; report this.")));
}

static void
put_busy(ReturnSetInfo *rsinfo)
{
	Row			row = {0};

	RowText(&row, "busy");
	for (int i = 1; i < 9; i++)
		RowNull(&row);
	RowText(&row, "another cycle of the pool is running");
	RowPut(rsinfo, &row);
}

/*
 * A row per node of each job that starts.
 */
static void
put_starts(ReturnSetInfo *rsinfo, const Cycle *cycle)
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
			Row			row = {0};

			RowText(&row, "start");
			RowText(&row, job->org);
			RowAdd(&row, Int64GetDatum(job->id));
			RowAdd(&row, Int32GetDatum(cycle->queued[start->job].attempt + 1));
			RowText(&row, cycle->set->nodes[part->node].name);
			RowAdd(&row, GpuSetGetDatum(part->devices));
			RowAdd(&row, Int32GetDatum(start->share));
			RowText(&row, price.gpu_type);
			RowCredits(&row, price.per_gpu_hour);
			RowNull(&row);
			RowPut(rsinfo, &row);
		}
	}
}
