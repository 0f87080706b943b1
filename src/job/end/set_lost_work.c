/*-------------------------------------------------------------------------
 *
 * set_lost_work.c
 *		SQL function set_lost_work: sets which jobs pay for lost work.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/args.h"
#include "util/errors.h"
#include "util/sql.h"
#include "job/end/settlement.h"
#include "api/api.h"
#include "inventory/inventory.h"

API_FUNCTION(gpucredit_set_lost_work, set_lost_work);

/* The outcomes by which the platform may lose work. */
static const char *const outcomes[] = {
	"failed", "preempted", "node_lost", "resized"
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
 * Whether a job pays for lost work: as set_lost_work says for the tier and the
 * outcome, or else as set_tier says for the tier.
 */
bool
LostWorkIsBilled(const char *tier, Outcome outcome)
{
	SqlResult	row = SqlRun(&billed_read,
							 VALUES(TextValue(tier),
									TextValue(OutcomeNames[outcome])));

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
	Values	   *args;
	Tier		tier;

	(void) ArgWord(outcome, "outcome", outcomes, lengthof(outcomes));
	SqlConnect();
	TierRead(name, &tier);
	args = VALUES(TextValue(name), TextValue(outcome));
	if (remove)
	{
		if (SqlRun(&billed_delete, args).n == 0)
			audit.decision = "unchanged";
	}
	else
	{
		ValuesAdd(args, BoolValue(PG_GETARG_BOOL(2)));
		(void) SqlRun(&billed_upsert, args);
		AuditText(&audit, "billed", PG_GETARG_BOOL(2) ? "true" : "false");
	}
	AuditText(&audit, "tier", name);
	AuditText(&audit, "outcome", outcome);
	AuditWrite(&audit);
	SqlFinish();
	PG_RETURN_VOID();
}
