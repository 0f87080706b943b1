/*-------------------------------------------------------------------------
 *
 * place.c
 *		place: one scheduling cycle of a pool.
 *
 * Lock the pool, load, decide, check the decision, lock the quotas concerned
 * and the jobs, apply.
 * Where a job to start is not to be had, it is left out and the cycle decides
 * again, so that what it would have used is not idle, nor its quotas kept for
 * it.
 *
 * It decides by the instant at which it begins to load, input.now.  What it
 * writes is dated once all is locked: an end that the load saw is then never
 * later than the start that follows it on the same device.
 *
 * Locks: the pool's row, without waiting; then as fund_waiting.c, apply.c,
 * hold_excess.c and dead_holds.c say, none of which waits.
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
#include "api/api.h"
#include "job/reclaim.h"
#include "miscadmin.h"
#include "sched/sched.h"
#include "types/gpuset.h"
#include "utils/memutils.h"

API_FUNCTION(place);

static void decide_and_lock(SchedCycle *cycle);
static bool lock_decided(SchedCycle *cycle);
static void carry_out(SchedCycle *cycle);
static bool has_leaving(const SchedCycle *cycle);
static void put_busy(ReturnSetInfo *rsinfo);

Datum
call_place(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	char	   *pool = ArgName(fcinfo, 0, "pool");
	int32		max_starts = PG_ARGISNULL(1) ? SettingMaxStarts() :
		ArgInt4(fcinfo, 1, "max_starts", 0, 100000);
	SchedCycle	cycle = {.pool = pool};

	InitMaterializedSRF(fcinfo, 0);
	SqlConnect();
	if (!PoolTryLock(pool))
	{
		put_busy(rsinfo);
		SqlFinish();
		return (Datum) 0;
	}
	FundWaiting(pool);
	CycleBegin(&cycle, max_starts);
	decide_and_lock(&cycle);
	carry_out(&cycle);
	CyclePutStarts(rsinfo, &cycle);
	ClaimsPut(&cycle, rsinfo);
	SqlFinish();
	return (Datum) 0;
}

/*
 * Decide, and lock what that needs, until all of it is to be had.
 */
static void
decide_and_lock(SchedCycle *cycle)
{
	bool		locked = false;

	while (!locked)
	{
		CycleDecideAll(cycle);
		locked = lock_decided(cycle);
	}
}

/*
 * Lock what a decision needs.  False: some of it is not to be had, and the cycle
 * must decide again without.
 */
static bool
lock_decided(SchedCycle *cycle)
{
	return SchedQuotasLock(cycle) && CycleLock(cycle) && ClaimsLock(cycle);
}

/*
 * Carry out a decision, all that it needs being locked.
 */
static void
carry_out(SchedCycle *cycle)
{
	bool		changed;

	cycle->now = ClockAfter(cycle->now);
	SchedQuotasCount(cycle);
	CycleApply(cycle);
	ClaimsApply(cycle);
	changed = ReservationsReport(cycle);
	HoldExcessReturn(cycle->pool);
	UsageCharge(cycle);
	if (has_leaving(cycle))
		ReclaimPlanAnew(cycle->pool, cycle->now);
	if (cycle->result.n_starts > 0 || cycle->result.n_promises > 0 ||
		cycle->claims_ended || changed)
		PoolCount(cycle->pool);
}

/*
 * May a node be its provider's soon?  None that gets new work is.
 */
static bool
has_leaving(const SchedCycle *cycle)
{
	for (int32 i = 0; i < cycle->set->n; i++)
	{
		if (!cycle->set->nodes[i].schedulable)
			return true;
	}
	return false;
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
