/*-------------------------------------------------------------------------
 *
 * place.c
 *		The function place(): runs one scheduling cycle of a pool.
 *
 * The cycle locks the pool, loads, decides, checks the decision, locks its
 * quotas and jobs, and applies it. A job that is locked elsewhere is left out,
 * and the cycle decides again, so that neither devices nor quotas are kept for
 * that job.
 *
 * A cycle decides by the instant at which it begins to load, input.now. It
 * dates its writes after all locks, so that an end that it loaded is never
 * later than the next start on the same device.
 *
 * Locks: the pool's row, without waiting; then the locks that fund_waiting.c,
 * apply.c and dead_holds.c list, all without waiting.
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
 * Decides, and locks what the decision needs. Repeats both until everything is
 * locked.
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
 * Locks the rows that a decision needs. Returns false if some are locked
 * elsewhere; the cycle must then decide again without them.
 */
static bool
lock_decided(SchedCycle *cycle)
{
	return SchedQuotasLock(cycle) && CycleLock(cycle) && ClaimsLock(cycle);
}

/* Applies the decision, after everything is locked. */
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
		ReclaimReplan(cycle->pool, cycle->now);
	if (cycle->result.n_starts > 0 || cycle->result.n_promises > 0 ||
		cycle->claims_ended || changed || released > 0 || ended > 0 ||
		reheld > 0)
		PoolCount(cycle->pool);
}

/*
 * Whether the pool has nodes that get no new work, for example because their
 * provider could take them back soon.
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
