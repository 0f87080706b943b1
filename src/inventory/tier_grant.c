/*-------------------------------------------------------------------------
 *
 * tier_grant.c
 *		grant_tier(), revoke_tier(): which accounts may use a closed tier.
 *
 * Jobs of an urgent tier come before others and may preempt them, so everybody
 * would choose the most urgent tier.  A tier that is not open to all may only
 * be used by the accounts to which it is granted, and by all accounts below
 * them.
 *
 * The grant is checked whenever a job gets credit: at its submission, and at
 * each later hold.  A scheduling cycle checks it again
 * (sched/load/load_queue.c), so that a job that still has its hold does not
 * start after the grant was revoked. An attempt that runs continues unchanged.
 *
 * Locks: the grant's row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/sql.h"
#include "api/api.h"
#include "inventory/tier_grant.h"

API_FUNCTION(gpucredit_grant_tier, grant_tier);
API_FUNCTION(gpucredit_revoke_tier, revoke_tier);

SQL_STATEMENT(grant_insert, SPI_OK_INSERT, "text, text, text, timestamptz",
			  "INSERT INTO gpucredit.tier_grant (org, account, tier,"
			  " granted_at) VALUES ($1, $2, $3, $4)"
			  " ON CONFLICT (org, account, tier) DO NOTHING");
SQL_STATEMENT(grant_delete, SPI_OK_DELETE, "text, text, text",
			  "DELETE FROM gpucredit.tier_grant g WHERE g.org = $1"
			  " AND g.account = $2 AND g.tier = $3");
#define ANY_GRANT \
	"SELECT 1 FROM gpucredit.tier_grant g WHERE g.org = $1" \
	" AND g.account = ANY ($2) AND g.tier = $3 LIMIT 1"
SQL_STATEMENT(grant_find, SPI_OK_SELECT, "text, text[], text", ANY_GRANT);
SQL_STATEMENT(tier_closed, SPI_OK_SELECT, "text",
			  "SELECT 1 FROM gpucredit.tier t"
			  " WHERE t.tier = $1 AND NOT t.open");

static void change(FunctionCallInfo fcinfo, bool grant);

Datum
call_grant_tier(PG_FUNCTION_ARGS)
{
	change(fcinfo, true);
	PG_RETURN_VOID();
}

Datum
call_revoke_tier(PG_FUNCTION_ARGS)
{
	change(fcinfo, false);
	PG_RETURN_VOID();
}

/* Grants a tier to an account, or revokes the grant. */
static void
change(FunctionCallInfo fcinfo, bool grant)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	char	   *account = ArgPath(fcinfo, 1, "account");
	char	   *name = ArgName(fcinfo, 2, "tier");
	AccountPath path = AccountParse(org, account);
	AuditRow	audit = {.org = org, .account = account,
		.operation = grant ? "grant_tier" : "revoke_tier",
		.decision = grant ? "granted" : "revoked", .at = ClockNow()};
	Values	   *args = VALUES(TextValue(org), TextValue(account),
							  TextValue(name));
	Tier		tier;
	SqlResult	result;

	SqlConnect();
	(void) AccountSuspended(&path);
	TierRead(name, &tier);
	if (grant)
	{
		ValuesAdd(args, TimeValue(audit.at));
		result = SqlRun(&grant_insert, args);
	}
	else
		result = SqlRun(&grant_delete, args);
	if (result.n == 0)
		audit.decision = "unchanged";
	AuditText(&audit, "tier", name);
	AuditWrite(&audit);
	SqlFinish();
}

/* Whether the tier is granted to the account or to one above it. */
bool
TierGranted(const AccountPath *path, const char *tier)
{
	return SqlRun(&grant_find,
				  VALUES(TextValue(path->org),
						 TextArrayValue(path->accounts, path->n),
						 TextValue(tier))).n > 0;
}

/*
 * Whether an account may use this tier.  If the tier was removed after the job
 * was submitted, every account may.
 */
bool
TierAllowed(const AccountPath *path, const char *tier)
{
	return SqlRun(&tier_closed, VALUES(TextValue(tier))).n == 0 ||
		TierGranted(path, tier);
}
