/*-------------------------------------------------------------------------
 *
 * set_slices.c
 *		SQL function set_slices: sets over how many slices an account may
 *		be spread.
 *
 * Buckets and counters that have another number of slices are folded. The next
 * draw at large spreads them again (slice.h).
 *
 * Locks: the account's row, its budgets and their counters, its buckets in
 * burn order, each with its slices.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/sql.h"
#include "api/api.h"
#include "limits/limits.h"
#include "ledger/slice.h"
#include "miscadmin.h"

API_FUNCTION(gpucredit_set_slices, set_slices);

SQL_STATEMENT(account_set, SPI_OK_UPDATE, "text, text, int",
			  "UPDATE gpucredit.account a SET slices = $3"
			  " WHERE a.org = $1 AND a.account = $2");
SQL_STATEMENT(budgets_lock, SPI_OK_SELECT, "text, text, int",
			  "SELECT b.period FROM gpucredit.budget b"
			  " WHERE b.org = $1 AND b.account = $2 AND b.slices <> $3"
			  " ORDER BY b.period COLLATE pg_catalog.\"C\""
			  " FOR NO KEY UPDATE");
SQL_STATEMENT(budgets_set, SPI_OK_UPDATE, "text, text, int",
			  "UPDATE gpucredit.budget b SET slices = $3"
			  " WHERE b.org = $1 AND b.account = $2 AND b.slices <> $3");
SQL_STATEMENT(buckets_other, SPI_OK_SELECT, "text, text, int",
			  "SELECT b.bucket, b.spread FROM gpucredit.bucket b"
			  " WHERE b.org = $1 AND b.account = $2 AND b.slices <> $3"
			  " AND b.closed_at IS NULL AND b.swept_at IS NULL"
			  " ORDER BY" BURN_ORDER " FOR NO KEY UPDATE OF b");

static void set_budgets(const char *org, const char *account, int32 n);
static void set_buckets(const char *org, const char *account, int32 n);

Datum
call_set_slices(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	char	   *account = ArgPath(fcinfo, 1, "account");
	int32		n = ArgInt4(fcinfo, 2, "n", 1, MOST_SLICES);
	AccountPath path = AccountParse(org, account);
	AuditRow	audit = {.org = org, .account = account,
		.operation = "set_slices", .decision = "set"};

	SqlConnect();
	(void) AccountSuspended(&path);
	(void) SqlRun(&account_set,
				  VALUES(TextValue(org), TextValue(account), Int4Value(n)));
	set_budgets(org, account, n);
	AccountLimitsKeep(org, account);
	set_buckets(org, account, n);
	audit.at = ClockNow();
	AuditInt8(&audit, "n", n);
	AuditWrite(&audit);
	SqlFinish();
	PG_RETURN_VOID();
}

/*
 * Stores the number in the budgets' rows, and folds counters that have another
 * number. No budget can be added meanwhile, because this call has locked the
 * account's row.
 */
static void
set_budgets(const char *org, const char *account, int32 n)
{
	Values	   *args = VALUES(TextValue(org), TextValue(account),
							  Int4Value(n));

	if (SqlRun(&budgets_lock, args).n == 0)
		return;
	(void) SqlRun(&budgets_set, args);
	BudgetFold(org, account, NULL, false);
}

/*
 * Stores the number in the rows of the buckets that may still pay, and folds
 * buckets that have another number of slices.
 */
static void
set_buckets(const char *org, const char *account, int32 n)
{
	Portal		portal;

	portal = SqlCursor(&buckets_other,
					   VALUES(TextValue(org), TextValue(account),
							  Int4Value(n)));
	while (true)
	{
		SqlResult	row = SqlFetch(portal);
		Credits		available;

		CHECK_FOR_INTERRUPTS();
		if (row.n == 0)
			break;
		if (SlicesLock(org, SqlInt8(row, 0, 1), SqlInt4(row, 0, 2), true,
					   &available))
			LedgerFold(org, SqlInt8(row, 0, 1));
		LedgerSetSlices(org, SqlInt8(row, 0, 1), n);
		SqlFree(&row);
	}
	SPI_cursor_close(portal);
}
