/*-------------------------------------------------------------------------
 *
 * place.c
 *		place: one scheduling cycle of a pool.
 *
 * Lock the pool, load, decide, check the decision, lock its quotas and jobs,
 * apply.  A job that is locked elsewhere is left out, and the cycle decides
 * again, so that neither devices nor quotas are kept for it.
 *
 * A cycle decides by the instant at which it begins to load, input.now.  It
 * dates its writes after all locks: so an end that it loaded is never later
 * than the next start on the same device.
 *
 * Locks: the pool's row, without waiting; then as fund_waiting.c, apply.c and
 * dead_holds.c say, all without waiting.
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
#include "job/run/reclaim.h"
#include "miscadmin.h"
#include "sched/sched.h"
#include "types/gpuset.h"
#include "utils/memutils.h"

API_FUNCTION(gpucredit_place, place);

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
	SetAsidePut(rsinfo, &cycle);
	SqlFinish();
	return (Datum) 0;
}

/*
 * Decide, and lock what the decision needs, until all is locked.
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
 * Lock what a decision needs.  False: some of it is locked elsewhere, and the
 * cycle must decide again without it.
 */
static bool
lock_decided(SchedCycle *cycle)
{
	return SchedQuotasLock(cycle) && CycleLock(cycle) && ClaimsLock(cycle);
}

/*
 * Apply a decision after all locks.
 */
static void
carry_out(SchedCycle *cycle)
{
	bool		changed;
	uint64		released;
	uint64		ended;
	uint64		reheld;

	cycle->now = ClockAfter(cycle->now);
	SchedQuotasCount(cycle);
	released = DependentsRelease(cycle);
	CycleApply(cycle);
	ClaimsApply(cycle);
	GuaranteesReport(cycle);
	changed = ReservationsReport(cycle);
	HoldExcessReturn(cycle->pool);
	ended = SetAsideEnd(cycle);
	reheld = ReholdApply(cycle);
	UsageCharge(cycle);
	if (has_leaving(cycle))
		ReclaimPlanAnew(cycle->pool, cycle->now);
	if (cycle->result.n_starts > 0 || cycle->result.n_promises > 0 ||
		cycle->claims_ended || changed || released > 0 || ended > 0 ||
		reheld > 0)
		PoolCount(cycle->pool);
}

/*
 * Could a provider take back a node soon?  Such nodes get no new work.
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
	Values	   *row = VALUES(TextValue("busy"));

	for (int i = 1; i < 9; i++)
		ValuesAdd(row, NullValue());
	ValuesAdd(row, TextValue("another cycle of the pool is running"));
	RowPut(rsinfo, row);
}
