/*-------------------------------------------------------------------------
 *
 * claim_report.c
 *		Reports new claims to the audit log, and to the caller of the
 *		cycle.
 *
 * Each tenant reads its own audit log, so a victim's row does not name the job
 * for which it leaves.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "sched/sched.h"
#include "util/args.h"
#include "util/sql.h"
#include "audit/audit.h"
#include "miscadmin.h"
#include "sched/apply/claim_report.h"
#include "types/gpuset.h"

static void audit_claims(const SchedCycle *cycle);
static void audit_evictions(const SchedCycle *cycle);
static void put_part(const SchedCycle *cycle, ReturnSetInfo *rsinfo,
					 const char *action, const char *org, int64 job,
					 int32 attempt, const DecidePart *part, int32 share,
					 int32 type, DecideWhy why);

/*
 * Returns the job that a promise keeps devices for: a waiting job, or a
 * running one that moves or is resized.
 */
ClaimOwner
ClaimOwnerOf(const SchedCycle *cycle, const DecidePromise *promise)
{
	ClaimOwner	owner;

	if (promise->job >= 0)
	{
		const DecideJob *job = &cycle->jobs[promise->job];

		owner = (ClaimOwner)
		{
			job->org, job->id, cycle->queued[promise->job].attempt,
				cycle->queued[promise->job].account
		};
	}
	else
	{
		const DecideRunning *running = &cycle->running[promise->running];

		owner = (ClaimOwner)
		{
			running->org, running->id, running->attempt,
				cycle->account_names[running->account].path
		};
	}
	return owner;
}

/* Writes the audit rows of new claims and of their victims. */
void
ClaimsAudit(const SchedCycle *cycle)
{
	audit_claims(cycle);
	audit_evictions(cycle);
}

/* Writes one row of the audit log for each claim. */
static void
audit_claims(const SchedCycle *cycle)
{
	int			n = cycle->result.n_promises;
	AuditRow   *rows = palloc0(sizeof(AuditRow) * n);

	for (int i = 0; i < n; i++)
	{
		const DecidePromise *promise = &cycle->result.promises[i];
		ClaimOwner	owner = ClaimOwnerOf(cycle, promise);
		AuditRow   *row = &rows[i];

		CHECK_FOR_INTERRUPTS();
		row->org = owner.org;
		row->account = owner.account;
		row->operation = "place";
		row->decision = "claim";
		row->reason = DecideWhyName(promise->why);
		row->job = owner.job;
		row->at = cycle->now;
		AuditText(row, "nodes",
				  CycleNodes(cycle, &cycle->result.promise_parts
							 [promise->first_part], promise->n_parts));
		AuditInt8(row, "gpus", promise->gpus);
		AuditInt8(row, "share", promise->share);
		AuditInt8(row, "evictions", promise->n_evictions);
	}
	JobTraces(rows, n);
	AuditWriteMany(rows, n);
}

/*
 * Writes one row of the audit log for each victim. The row does not name the
 * claim's job, which may be another tenant's.
 */
static void
audit_evictions(const SchedCycle *cycle)
{
	int			n = cycle->result.n_evictions;
	AuditRow   *rows = palloc0(sizeof(AuditRow) * (n + 1));

	for (int i = 0; i < n; i++)
	{
		const DecideEviction *eviction = &cycle->result.evictions[i];
		const DecideRunning *running = &cycle->running[eviction->running];
		AuditRow   *row = &rows[i];

		CHECK_FOR_INTERRUPTS();
		row->org = running->org;
		row->account = cycle->account_names[running->account].path;
		row->operation = "place";
		row->decision = eviction->why == DECIDE_WHY_MOVE ? "move" :
			eviction->why == DECIDE_WHY_TIER ||
			eviction->why == DECIDE_WHY_ENTITLEMENT ? "preempt" : "resize";
		row->reason = DecideWhyName(eviction->why);
		row->job = running->id;
		row->attempt = running->attempt;
		row->at = cycle->now;
		AuditInt8(row, "grace_us", cycle->tiers[running->tier].grace);
		AuditInt8(row, "unsaved_us", cycle->now - running->saved_at);
	}
	JobTraces(rows, n);
	AuditWriteMany(rows, n);
}

/* Returns one row for each node of each new claim and of each victim. */
void
ClaimsPut(const SchedCycle *cycle, ReturnSetInfo *rsinfo)
{
	for (int i = 0; i < cycle->result.n_promises; i++)
	{
		const DecidePromise *promise = &cycle->result.promises[i];
		ClaimOwner	owner = ClaimOwnerOf(cycle, promise);
		const char *action = promise->job >= 0 ? "claim" :
			promise->why == DECIDE_WHY_MOVE ? "move" : "resize";

		for (int p = 0; p < promise->n_parts; p++)
			put_part(cycle, rsinfo, action, owner.org, owner.job,
					 owner.attempt + 1,
					 &cycle->result.promise_parts[promise->first_part + p],
					 promise->share, promise->type, promise->why);
		for (int e = 0; e < promise->n_evictions; e++)
		{
			const DecideEviction *eviction =
			&cycle->result.evictions[promise->first_eviction + e];
			const DecideRunning *running = &cycle->running[eviction->running];

			if (eviction->why != DECIDE_WHY_TIER &&
				eviction->why != DECIDE_WHY_ENTITLEMENT)
				continue;
			for (int p = 0; p < running->n_parts; p++)
				put_part(cycle, rsinfo, "preempt", running->org, running->id,
						 running->attempt,
						 &cycle->running_parts[running->first_part + p],
						 running->share, running->type, eviction->why);
		}
	}
}

/* Returns one row of the result. */
static void
put_part(const SchedCycle *cycle, ReturnSetInfo *rsinfo, const char *action,
		 const char *org, int64 job, int32 attempt, const DecidePart *part,
		 int32 share, int32 type, DecideWhy why)
{
	Values	   *row = VALUES(TextValue(action), TextValue(org), Int8Value(job),
							 Int4Value(attempt),
							 TextValue(cycle->set->nodes[part->node].name),
							 DatumValue(GpuSetGetDatum(part->devices)),
							 Int4Value(share),
							 TextValue(type == DECIDE_NO_TYPE ? NULL :
									   cycle->set->types.names[type]),
							 NullValue(), TextValue(DecideWhyName(why)));

	if (cycle->hypothetical != NULL)
		ValuesAdd(row, NullValue());	/* column expected_at of plan_with() */
	RowPut(rsinfo, row);
}
