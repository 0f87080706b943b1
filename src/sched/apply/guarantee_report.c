/*-------------------------------------------------------------------------
 *
 * guarantee_report.c
 *		Writes audit rows of guaranteed latest starts that cannot be kept.
 *
 * A cycle writes a row when it finds that a guarantee is broken, and the row
 * names what broke it. The job then has no guarantee any more, or a new one,
 * so later cycles do not write the row again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "miscadmin.h"
#include "sched/sched.h"

/* Audits the guarantees that this cycle breaks. */
void
GuaranteesReport(const SchedCycle *cycle)
{
	const DecideResult *result = &cycle->result;
	AuditRow   *rows;

	if (result->n_broken == 0)
		return;
	rows = palloc0(sizeof(AuditRow) * result->n_broken);
	for (int i = 0; i < result->n_broken; i++)
	{
		const DecideBroken *broken = &result->broken[i];
		const Queued *queued = &cycle->queued[broken->job];
		AuditRow   *row = &rows[i];

		CHECK_FOR_INTERRUPTS();
		row->org = cycle->jobs[broken->job].org;
		row->account = queued->account;
		row->operation = "place";
		row->decision = "guarantee_broken";
		row->reason = DecideBreakerName(broken->by);
		row->hold = queued->hold;
		row->job = cycle->jobs[broken->job].id;
		row->at = cycle->now;
		AuditTime(row, "latest_start", broken->latest);
		if (broken->node >= 0)
			AuditText(row, "node", cycle->set->nodes[broken->node].name);
		if (broken->tier >= 0)
			AuditText(row, "tier", cycle->tier_names[broken->tier]);
	}
	JobTraces(rows, result->n_broken);
	AuditWriteMany(rows, result->n_broken);
}
