/*-------------------------------------------------------------------------
 *
 * quota.c
 *		May this job be submitted?
 *
 * A request that alone passes the devices allowed, of every type it accepts,
 * is denied; so is one that finds as many jobs waiting as may.  For the
 * latter the quota's row is locked and the jobs are counted after, so that
 * two submissions at once cannot both be the last.  Devices in use and
 * running jobs are the scheduler's matter: the job waits.
 *
 * Jobs need no counting while the limit is far.  Who counts those that wait
 * also counts those that are not over; no more can come to wait but by a
 * submission, which has the quota's row.  So half of what is left between
 * these and the limit is noted in the row as spare: as many submissions may
 * follow without looking.  Half, and nothing where little is left, for the
 * sake of those that were under way unseen when the quota was set.  A quota
 * of one type has none: what types a job accepts may change.
 *
 * Locks: quotas with max_queued, leaf to root; before dead holds, budgets and
 * buckets.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "admission/quota.h"
#include "audit/audit.h"
#include "common/args.h"
#include "common/clock.h"
#include "common/sql.h"
#include "entry/entry.h"
#include "types/clip.h"
#include "types/gpureq.h"

ENTRY_POINT(set_quota);

#define SPARE_LEAST		64		/* less is not worth noting */

SQL_STATEMENT(quota_upsert, SPI_OK_INSERT, "text, text, text, int, int, int",
			  "INSERT INTO gpucredit.quota (org, account, gpu_type,"
			  " max_gpus, max_running, max_queued)"
			  " VALUES ($1, $2, $3, $4, $5, $6)"
			  " ON CONFLICT (org, account, gpu_type) DO UPDATE"
			  " SET max_gpus = EXCLUDED.max_gpus,"
			  " max_running = EXCLUDED.max_running,"
			  " max_queued = EXCLUDED.max_queued, spare = 0");
SQL_STATEMENT(quota_delete, SPI_OK_DELETE, "text, text, text",
			  "DELETE FROM gpucredit.quota q WHERE q.org = $1"
			  " AND q.account = $2 AND q.gpu_type = $3");
SQL_STATEMENT(quotas_read, SPI_OK_SELECT, "text, text[]",
			  "SELECT q.* FROM " PATH_LEVELS(2) ", LATERAL ("
			  "  SELECT q.gpu_type, q.max_gpus, q.max_queued IS NOT NULL,"
			  "  q.account FROM gpucredit.quota q"
			  "  WHERE q.org = $1 AND q.account = p.account OFFSET 0) q"
			  " WHERE EXISTS (SELECT FROM gpucredit.quota q"
			  "  WHERE q.org = $1)");
#define QUEUE_LIMITS \
	"SELECT q.account, q.gpu_type, q.max_queued" \
	" FROM gpucredit.quota q" \
	" WHERE q.org = $1 AND q.account = ANY ($2)" \
	" AND q.max_queued IS NOT NULL AND (q.gpu_type = '' OR $3)" \
	" ORDER BY pg_catalog.length(q.account) DESC, q.gpu_type"
SQL_STATEMENT(quotas_look, SPI_OK_SELECT, "text, text[], boolean",
			  QUEUE_LIMITS);
SQL_STATEMENT(quotas_lock, SPI_OK_SELECT, "text, text[], boolean",
			  QUEUE_LIMITS " FOR NO KEY UPDATE");
SQL_STATEMENT(quota_spare, SPI_OK_UPDATE, "text, text",
			  "UPDATE gpucredit.quota q"
			  " SET cycle = q.cycle + 1, spare = q.spare - 1"
			  " WHERE q.org = $1 AND q.account = $2 AND q.gpu_type = ''"
			  " AND q.spare > 0");
SQL_STATEMENT(quotas_count, SPI_OK_UPDATE, "text, text[], text[], int[]",
			  "UPDATE gpucredit.quota q"
			  " SET cycle = q.cycle + 1, spare = u.spare"
			  " FROM ROWS FROM (pg_catalog.unnest($2),"
			  "  pg_catalog.unnest($3), pg_catalog.unnest($4))"
			  "  AS u (account, gpu_type, spare)"
			  " WHERE q.org = $1 AND q.account = u.account"
			  " AND q.gpu_type = u.gpu_type");
#define QUEUED \
	"SELECT pg_catalog.count(*) FILTER (" \
	"  WHERE j.state IN ('queued', 'unfunded'))," \
	" pg_catalog.count(*) FROM gpucredit.job j" \
	" WHERE j.org = $1 AND j.ended_at IS NULL" \
	" AND ($2 = '' OR $2 = ANY (j.offer_types))"
SQL_STATEMENT(queued_all, SPI_OK_SELECT, "text, text", QUEUED);
/* below an account: its path and what begins with it and a slash */
SQL_STATEMENT(queued_below, SPI_OK_SELECT, "text, text, text",
			  QUEUED " AND j.account >= $3 AND j.account < $3 || '0'"
			  " AND (j.account = $3 OR j.account >= $3 || '/')");

static bool alone_too_large(SqlResult quotas, const QuotaAsk *ask);
static bool queue_full(AccountPath *path, const QuotaAsk *ask,
					   SqlResult known, bool look);
static bool all_spare(const char *org, const char *const *accounts, int n);
static bool none_full(const AccountPath *path, const QuotaAsk *ask,
					  SqlResult quotas, int32 *spares);
static SqlResult count_queued(const char *org, const char *account,
							  const char *gpu_type);
static int32 spare_of(int32 max_queued, int64 open);
static void count_up(const AccountPath *path, SqlResult quotas,
					 const int32 *spares);
static bool accepts(const QuotaAsk *ask, const char *gpu_type);
static void arg_limit(FunctionCallInfo fcinfo, int n, const char *name,
					  SqlArgs *args);

/*
 * NULL, or why the quotas on a path deny a submission.  look: one that is not
 * made.
 */
const char *
QuotaCheck(AccountPath *path, const QuotaAsk *ask, bool look)
{
	SqlArgs		args = {0};
	SqlResult	quotas;

	SqlArgText(&args, path->org);
	SqlArgTextArray(&args, path->accounts, path->n);
	quotas = SqlRun(&quotas_read, &args);
	if (quotas.n == 0)
		return NULL;
	if (alone_too_large(quotas, ask) || queue_full(path, ask, quotas, look))
		return "quota_exceeded";
	return NULL;
}

/*
 * Does the request, of each type it accepts, pass some quota all alone?
 */
static bool
alone_too_large(SqlResult quotas, const QuotaAsk *ask)
{
	int64		needed = (int64) ask->min_gpus * ask->share;
	bool		fits = ask->ntypes == 0;

	for (int t = 0; t < ask->ntypes && !fits; t++)
	{
		fits = true;
		for (uint64 i = 0; i < quotas.n; i++)
		{
			char	   *type = SqlText(quotas, i, 1);

			if (!SqlIsNull(quotas, i, 2) &&
				(*type == '\0' || strcmp(type, ask->gpu_types[t]) == 0) &&
				needed > (int64) SqlInt4(quotas, i, 2) * 1000)
				fits = false;
		}
	}
	return !fits;
}

/*
 * Do as many jobs wait as may?  If not, one more will: count it, in the rows
 * that are locked and no others.  A quota that was set since is left alone:
 * it may stand before them.
 */
static bool
queue_full(AccountPath *path, const QuotaAsk *ask, SqlResult known, bool look)
{
	const char **limited = palloc(sizeof(char *) * known.n);
	int			n = 0;
	bool		typed = false;
	SqlArgs		args = {0};
	SqlResult	quotas;
	int32	   *spares;

	for (int level = 0; level < path->n; level++)
	{
		for (uint64 i = 0; i < known.n; i++)
		{
			if (!SqlBool(known, i, 3) ||
				strcmp(SqlText(known, i, 4), path->accounts[level]) != 0)
				continue;
			typed |= *SqlText(known, i, 1) != '\0';
			limited[n++] = path->accounts[level];
		}
	}
	if (n == 0)
		return false;
	path->budgeted = true;		/* by now, after a wait, it may be */
	if (!look && !typed && all_spare(path->org, limited, n))
		return false;
	SqlArgText(&args, path->org);
	SqlArgTextArray(&args, limited, n);
	SqlArgBool(&args, typed);
	quotas = SqlRun(look ? &quotas_look : &quotas_lock, &args);
	spares = palloc(sizeof(int32) * (quotas.n + 1));
	if (!none_full(path, ask, quotas, spares))
		return true;
	if (!look)
		count_up(path, quotas, spares);
	return false;
}

/*
 * Lock quotas of any type, leaf to root, and count a submission in each.
 * False: one has nothing to spare.
 */
static bool
all_spare(const char *org, const char *const *accounts, int n)
{
	for (int i = 0; i < n; i++)
	{
		SqlArgs		args = {0};

		SqlArgText(&args, org);
		SqlArgText(&args, accounts[i]);
		if (SqlRun(&quota_spare, &args).n == 0)
			return false;
	}
	return true;
}

/*
 * Do fewer jobs wait than may, under each of some quotas?  Says how many more
 * may follow without a look.
 */
static bool
none_full(const AccountPath *path, const QuotaAsk *ask, SqlResult quotas,
		  int32 *spares)
{
	for (uint64 i = 0; i < quotas.n; i++)
	{
		char	   *type = SqlText(quotas, i, 2);
		int32		max_queued = SqlInt4(quotas, i, 3);
		SqlResult	row;

		spares[i] = 0;
		if (!accepts(ask, type))
			continue;
		row = count_queued(path->org, SqlText(quotas, i, 1), type);
		if (SqlInt8(row, 0, 1) >= max_queued)
			return false;
		if (*type == '\0')
			spares[i] = spare_of(max_queued, SqlInt8(row, 0, 2));
	}
	return true;
}

/*
 * How many jobs of an account and below wait, and how many are not over.
 */
static SqlResult
count_queued(const char *org, const char *account, const char *gpu_type)
{
	SqlArgs		args = {0};

	SqlArgText(&args, org);
	SqlArgText(&args, gpu_type);
	if (*account == '\0')
		return SqlRun(&queued_all, &args);
	SqlArgText(&args, account);
	return SqlRun(&queued_below, &args);
}

/*
 * How many submissions may follow this one without a look, where so many jobs
 * are not over before it.
 */
static int32
spare_of(int32 max_queued, int64 open)
{
	int64		spare = (max_queued - 1 - open) / 2;

	return spare < SPARE_LEAST ? 0 : (int32) spare;
}

/*
 * Count a submission in the locked rows.
 */
static void
count_up(const AccountPath *path, SqlResult quotas, const int32 *spares)
{
	const char **accounts = palloc(sizeof(char *) * (quotas.n + 1));
	const char **types = palloc(sizeof(char *) * (quotas.n + 1));
	SqlArgs		args = {0};

	for (uint64 i = 0; i < quotas.n; i++)
	{
		accounts[i] = SqlText(quotas, i, 1);
		types[i] = SqlText(quotas, i, 2);
	}
	SqlArgText(&args, path->org);
	SqlArgTextArray(&args, accounts, quotas.n);
	SqlArgTextArray(&args, types, quotas.n);
	SqlArgInt4Array(&args, spares, quotas.n);
	(void) SqlRun(&quotas_count, &args);
}

static bool
accepts(const QuotaAsk *ask, const char *gpu_type)
{
	if (*gpu_type == '\0')
		return true;
	for (int t = 0; t < ask->ntypes; t++)
	{
		if (strcmp(ask->gpu_types[t], gpu_type) == 0)
			return true;
	}
	return false;
}

static void
arg_limit(FunctionCallInfo fcinfo, int n, const char *name, SqlArgs *args)
{
	if (PG_ARGISNULL(n))
		SqlArgNull(args);
	else
		SqlArgInt4(args, ArgInt4(fcinfo, n, name, 0, PG_INT32_MAX));
}

Datum
call_set_quota(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	char	   *account = ArgPath(fcinfo, 1, "account");
	char	   *type = ArgNameOrNull(fcinfo, 2, "gpu_type");
	AccountPath path = AccountParse(org, account);
	bool		remove = PG_ARGISNULL(3) && PG_ARGISNULL(4) && PG_ARGISNULL(5);
	AuditRow	audit = {.org = org, .account = account,
		.operation = "set_quota", .decision = remove ? "removed" : "set",
		.at = ClockNow()};
	static const char *const names[] = {"max_gpus", "max_running",
	"max_queued"};
	SqlArgs		args = {0};

	if (type != NULL && !GpuTypeNameValid(type, strlen(type)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("malformed GPU type \"%s\"", ClipForMessage(type)),
				 errdetail("A request could not name it."),
				 errhint("Use 1 to 63 bytes without \"|\", \"@\", \"*\" or "
						 "white space, or NULL for any.")));
	SqlConnect();
	(void) AccountSuspended(&path);
	SqlArgText(&args, org);
	SqlArgText(&args, account);
	SqlArgText(&args, type ? type : "");
	if (remove)
		(void) SqlRun(&quota_delete, &args);
	else
	{
		for (int i = 0; i < 3; i++)
		{
			arg_limit(fcinfo, 3 + i, names[i], &args);
			if (!PG_ARGISNULL(3 + i))
				AuditInt8(&audit, names[i], PG_GETARG_INT32(3 + i));
		}
		(void) SqlRun(&quota_upsert, &args);
	}
	AuditText(&audit, "gpu_type", type);
	AuditWrite(&audit);
	SqlFinish();
	PG_RETURN_VOID();
}
