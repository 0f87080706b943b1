/*-------------------------------------------------------------------------
 *
 * lost_work.c
 *		Who pays for work that must be done again.
 *
 * What an attempt ran since its last checkpoint is lost when its job goes back
 * to the queue.  Whether it is billed is said for a tier and an outcome
 * (set_lost_work), else for the tier (set_tier).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/sql.h"
#include "api/api.h"
#include "inventory/inventory.h"
#include "job/settlement.h"

API_FUNCTION(set_lost_work);

/* after which a job may go back to the queue */
static const char *const outcomes[] = {
	"failed", "out_of_memory", "preempted", "node_lost", "resized"
};

SQL_STATEMENT(billed_read, SPI_OK_SELECT, "text, text",
			  "SELECT COALESCE((SELECT l.billed FROM gpucredit.lost_work l"
			  "  WHERE l.tier = $1 AND l.outcome = $2),"
			  " (SELECT t.bill_lost_work FROM gpucredit.tier t"
			  "  WHERE t.tier = $1))");
SQL_STATEMENT(billed_upsert, SPI_OK_INSERT, "text, text, boolean",
			  "INSERT INTO gpucredit.lost_work (tier, outcome, billed)"
			  " VALUES ($1, $2, $3) ON CONFLICT (tier, outcome)"
			  " DO UPDATE SET billed = EXCLUDED.billed");
SQL_STATEMENT(billed_delete, SPI_OK_DELETE, "text, text",
			  "DELETE FROM gpucredit.lost_work l"
			  " WHERE l.tier = $1 AND l.outcome = $2");

/*
 * Does a job of this tier pay for what an attempt that ended so must do again?
 */
bool
LostWorkIsBilled(const char *tier, Outcome outcome)
{
	SqlArgs		args = {0};
	SqlResult	row;

	SqlArgText(&args, tier);
	SqlArgText(&args, OutcomeNames[outcome]);
	row = SqlRun(&billed_read, &args);
	Ensure(!SqlIsNull(row, 0, 1), "A job's tier is missing.");
	return SqlBool(row, 0, 1);
}

Datum
call_set_lost_work(PG_FUNCTION_ARGS)
{
	char	   *name = ArgName(fcinfo, 0, "tier");
	char	   *outcome = ArgName(fcinfo, 1, "outcome");
	bool		remove = PG_ARGISNULL(2);
	AuditRow	audit = {.operation = "set_lost_work",
		.decision = remove ? "removed" : "set"};
	SqlArgs		args = {0};
	Tier		tier;

	(void) ArgWord(outcome, "outcome", outcomes, lengthof(outcomes));
	SqlConnect();
	TierRead(name, &tier);
	SqlArgText(&args, name);
	SqlArgText(&args, outcome);
	if (remove)
		(void) SqlRun(&billed_delete, &args);
	else
	{
		SqlArgBool(&args, PG_GETARG_BOOL(2));
		(void) SqlRun(&billed_upsert, &args);
		AuditText(&audit, "billed", PG_GETARG_BOOL(2) ? "true" : "false");
	}
	AuditText(&audit, "tier", name);
	AuditText(&audit, "outcome", outcome);
	AuditWrite(&audit);
	SqlFinish();
	PG_RETURN_VOID();
}
