/*-------------------------------------------------------------------------
 *
 * account.c
 *		Accounts: an organisation, and paths below it.
 *
 * Calls that move credit only read the rows of accounts.  They neither lock
 * these rows nor wait for changes to them.
 *
 * SQL functions here: require_organisation.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/compat.h"
#include "util/sql.h"
#include "util/not_found.h"
#include "api/tenant.h"
#include "api/api.h"
#include "account/account.h"
#include "types/clip.h"
#include "utils/builtins.h"

API_FUNCTION(gpucredit_create_account, create_account);
API_FUNCTION(gpucredit_suspend_account, suspend_account);
PG_FUNCTION_INFO_V1(gpucredit_require_account);
PG_FUNCTION_INFO_V1(gpucredit_require_organisation);

/* What AccountSuspended() collects while it reads the levels of a path. */
typedef struct AccountLook
{
	AccountPath *path;
	bool		exists;
	bool		suspended;
} AccountLook;

static pg_attribute_noreturn() void refuse_path(const char *account,
												const char *why);
static bool read_level(void *context, const Datum *values, const bool *nulls);
static bool account_exists(const char *org, const char *account,
						   bool read_only);

SQL_STATEMENT(account_read, SPI_OK_SELECT, "text, text[]",
			  "SELECT p.account, a.suspended, a.slices > 1,"
			  " a.balance_low IS NOT NULL, a.limits,"
			  " (SELECT gpucredit.sum(u.owed) FROM gpucredit.uncollected u"
			  "  WHERE u.org = $1) FROM " PATH_LEVELS(2)
			  " CROSS JOIN LATERAL (SELECT a.suspended, a.slices,"
			  "  a.balance_low, a.limits FROM gpucredit.account a"
			  "  WHERE a.org = $1 AND a.account = p.account OFFSET 0) a");
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
 * Splits an account's path into its levels; raises 22023 if the path is
 * malformed.
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
 * Returns whether the account, or one above it, is suspended.  Raises UC001 if
 * the account does not exist.  Also stores in the path what the next calls
 * need: whether there are slices and a balance threshold, the limits, and what
 * the organisation owes.
 */
bool
AccountSuspended(AccountPath *path)
{
	AccountLook look = {.path = path};
	Values	   *args = VALUES(TextValue(path->org),
							  TextArrayValue(path->accounts, path->n));

	path->sliced = path->watched = false;
	path->owed = 0;
	memset(path->limits, 0, sizeof(path->limits));
	path->looked_at = ClockSteady();
	SqlEach(&account_read, args, false, read_level, &look);
	if (!look.exists)
		NotFoundAccount(path->org, path->accounts[0]);
	path->looked = true;
	return look.suspended;
}

/* Called for the row of each level of the path that exists. */
static bool
read_level(void *context, const Datum *values, const bool *nulls)
{
	AccountLook *look = context;
	AccountPath *path = look->path;
	const char *account = TextDatumGetCString(values[0]);
	int			level = 0;

	while (strcmp(account, path->accounts[level]) != 0)
		level++;
	look->exists |= level == 0;
	look->suspended |= DatumGetBool(values[1]);
	path->sliced |= DatumGetBool(values[2]);
	path->watched |= DatumGetBool(values[3]);
	path->owed = nulls[5] ? 0 : DatumGetCredits(values[5]);
	if (!nulls[4])
		path->limits[level] = DatumGetJsonbPCopy(values[4]);
	return true;
}

/*
 * Whether the account exists.  Reading functions use their caller's snapshot;
 * other functions use a new one, which also shows what the present statement
 * has done.
 */
static bool
account_exists(const char *org, const char *account, bool read_only)
{
	Values	   *args = VALUES(TextValue(org), TextArrayValue(&account, 1));
	SqlResult	row = read_only ? SqlRead(&account_read, args) :
		SqlRun(&account_read, args);

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

	SqlConnect();
	if (path.n > 1 && !account_exists(org, path.accounts[1], false))
		NotFoundAccount(org, path.accounts[1]);
	(void) SqlRun(&account_upsert,
				  VALUES(TextValue(org), TextValue(account),
						 DatumValue(NumericGetDatum(CreditsToNumeric(weight))),
						 TimeValue(audit.at)));
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
		.decision = suspended ? "suspended" : "lifted"};

	(void) AccountParse(org, account);
	SqlConnect();
	if (SqlRun(&account_suspend,
			   VALUES(TextValue(org), TextValue(account),
					  BoolValue(suspended))).n == 0)
		NotFoundAccount(org,
						account);
	AuditWrite(&audit);
	SqlFinish();
	PG_RETURN_VOID();
}

/*
 * require_account(): for reading functions written in SQL.  Raises UC001 if
 * the account does not exist or the caller may not see it.
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
		NotFoundAccount(org, account);
	SqlFinish();
	PG_RETURN_VOID();
}

/*
 * require_organisation(): as require_account(), for an organisation.  A tenant
 * of any of its accounts passes, and then reads its own part.
 */
Datum
gpucredit_require_organisation(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");

	TenantCheckOrg(org);
	SqlConnect();
	if (!account_exists(org, "", true))
		NotFoundAccount(org, "");
	SqlFinish();
	PG_RETURN_VOID();
}
