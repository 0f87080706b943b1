/*-------------------------------------------------------------------------
 *
 * account.c
 *		Accounts: an organisation, and paths below it.
 *
 * Calls that move credit only read an account's row: they neither lock it nor
 * wait for who changes it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "common/args.h"
#include "common/clock.h"
#include "common/compat.h"
#include "common/errors.h"
#include "common/sql.h"
#include "common/unknown.h"
#include "entry/tenant.h"
#include "entry/entry.h"
#include "ledger/account.h"
#include "types/clip.h"

ENTRY_POINT(create_account);
ENTRY_POINT(suspend_account);
PG_FUNCTION_INFO_V1(gpucredit_require_account);
PG_FUNCTION_INFO_V1(gpucredit_require_organisation);

static pg_attribute_noreturn() void refuse_path(const char *account,
												const char *why);
static bool see(void *context, const Datum *values, const bool *nulls);
static bool account_exists(const char *org, const char *account,
						   bool read_only);

SQL_STATEMENT(account_read, SPI_OK_SELECT, ACCOUNT_TYPES,
			  "SELECT " ACCOUNT_COLUMNS(ORG_BUDGETED) ACCOUNT_LEVELS);
SQL_STATEMENT(account_upsert, SPI_OK_INSERT,
			  "text, text, numeric, timestamptz",
			  "INSERT INTO gpucredit.account AS a"
			  " (org, account, weight, created_at) VALUES ($1, $2, $3, $4)"
			  " ON CONFLICT (org, account) DO UPDATE"
			  " SET weight = EXCLUDED.weight");
SQL_STATEMENT(account_suspend, SPI_OK_UPDATE, "text, text, boolean",
			  "UPDATE gpucredit.account a SET suspended = $3"
			  " WHERE a.org = $1 AND a.account = $2");

/*
 * Take an account's path apart; 22023 where it is malformed.
 */
AccountPath
AccountParse(const char *org, const char *account)
{
	AccountPath path = {.org = org};
	char	   *copy = pstrdup(account);
	char	   *slash;

	if (*account != '\0')
	{
		if (*account == '/' || account[strlen(account) - 1] == '/' ||
			strstr(account, "//") != NULL)
			refuse_path(account, "It has an empty segment.");
		path.accounts[path.n++] = pstrdup(copy);
		while ((slash = strrchr(copy, '/')) != NULL)
		{
			*slash = '\0';
			if (path.n == ACCOUNT_MAX_LEVELS)
				refuse_path(account, "It has more than 8 levels.");
			path.accounts[path.n++] = pstrdup(copy);
		}
	}
	path.accounts[path.n++] = "";
	return path;
}

static void
refuse_path(const char *account, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("malformed account \"%s\"", ClipForMessage(account)),
			 errdetail_internal("%s", why),
			 errhint("Write a path as \"vision/alice\", or '' for the "
					 "organisation itself.")));
}

/*
 * Is the account, or one above it, suspended?  UC001 where there is none.
 * Tells the path, too, whether any of it has slices, or somebody to tell when
 * its balance is low, and whether the organisation has budgets.
 */
bool
AccountSuspended(AccountPath *path)
{
	AccountLook look = {.path = path};

	AccountLookWith(&account_read, see, &look);
	return look.suspended;
}

/*
 * The same by a statement that reads more: see must hand each row to
 * AccountSee().
 */
void
AccountLookWith(SqlStatement *statement, SqlRowFunction see,
				AccountLook *look)
{
	AccountPath *path = look->path;
	SqlArgs		args = {0};

	SqlArgText(&args, path->org);
	SqlArgText(&args, path->accounts[0]);
	SqlArgTextArray(&args, path->accounts, path->n);
	path->sliced = path->watched = path->budgeted = false;
	SqlEach(statement, &args, false, see, look);
	if (!look->exists)
		RefuseUnknownAccount(path->org, path->accounts[0]);
	path->looked = true;
}

static bool
see(void *context, const Datum *values, const bool *nulls)
{
	AccountSee(context, values);
	return true;
}

/*
 * A level of the path; any may come several times.
 */
void
AccountSee(AccountLook *look, const Datum *values)
{
	AccountPath *path = look->path;

	look->suspended |= DatumGetBool(values[0]);
	look->exists |= DatumGetBool(values[1]);
	path->sliced |= DatumGetBool(values[2]);
	path->watched |= DatumGetBool(values[3]);
	path->budgeted |= DatumGetBool(values[4]);
}

/*
 * Is there such an account?  Reading functions look with the snapshot of
 * their caller, others see what the statement around them did so far.
 */
static bool
account_exists(const char *org, const char *account, bool read_only)
{
	SqlArgs		args = {0};
	SqlResult	row;

	SqlArgText(&args, org);
	SqlArgText(&args, account);
	SqlArgTextArray(&args, &account, 1);
	row = read_only ? SqlRead(&account_read, &args) :
		SqlRun(&account_read, &args);
	return row.n > 0;
}

Datum
call_create_account(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	char	   *account = ArgPath(fcinfo, 1, "account");
	Credits		weight = ArgAmount(fcinfo, 2, "weight", false);
	AccountPath path = AccountParse(org, account);
	AuditRow	audit = {.org = org, .account = account,
		.operation = "create_account", .decision = "set", .at = ClockNow()};
	SqlArgs		args = {0};

	SqlConnect();
	if (path.n > 1 && !account_exists(org, path.accounts[1], false))
		RefuseUnknownAccount(org, path.accounts[1]);
	SqlArgText(&args, org);
	SqlArgText(&args, account);
	SqlArg(&args, NumericGetDatum(CreditsToNumeric(weight)));
	SqlArgTime(&args, audit.at);
	(void) SqlRun(&account_upsert, &args);
	AuditCredits(&audit, "weight", weight);
	AuditWrite(&audit);
	SqlFinish();
	PG_RETURN_VOID();
}

Datum
call_suspend_account(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	char	   *account = ArgPath(fcinfo, 1, "account");
	bool		suspended = ArgBool(fcinfo, 2, "suspended");
	AuditRow	audit = {.org = org, .account = account,
		.operation = "suspend_account",
		.decision = suspended ? "suspended" : "lifted", .at = ClockNow()};
	SqlArgs		args = {0};

	(void) AccountParse(org, account);
	SqlConnect();
	SqlArgText(&args, org);
	SqlArgText(&args, account);
	SqlArgBool(&args, suspended);
	if (SqlRun(&account_suspend, &args).n == 0)
		RefuseUnknownAccount(org, account);
	AuditWrite(&audit);
	SqlFinish();
	PG_RETURN_VOID();
}

/*
 * For reading functions written in SQL: raise UC001 unless it exists.
 */
Datum
gpucredit_require_account(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	char	   *account = ArgPath(fcinfo, 1, "account");

	(void) AccountParse(org, account);
	TenantCheckAccount(org, account);
	SqlConnect();
	if (!account_exists(org, account, true))
		RefuseUnknownAccount(org, account);
	SqlFinish();
	PG_RETURN_VOID();
}

/*
 * The same of an organisation, of which a tenant of a part is told that part.
 */
Datum
gpucredit_require_organisation(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");

	TenantCheckOrg(org);
	SqlConnect();
	if (!account_exists(org, "", true))
		RefuseUnknownAccount(org, "");
	SqlFinish();
	PG_RETURN_VOID();
}
