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
 * buckets.  set_quota: the quota, then its turn, which cycles have (limit.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "admission/quota.h"
#include "audit/audit.h"
#include "common/args.h"
#include "common/clock.h"
#include "common/errors.h"
#include "common/sql.h"
#include "entry/entry.h"
#include "types/clip.h"
#include "types/gpureq.h"
#include "utils/builtins.h"

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
SQL_STATEMENT(turn_upsert, SPI_OK_INSERT, "text, text, text",
			  "INSERT INTO gpucredit.quota_turn AS t (org, account, gpu_type)"
			  " VALUES ($1, $2, $3) ON CONFLICT (org, account, gpu_type)"
			  " DO UPDATE SET turn = t.turn + 1");
SQL_STATEMENT(turn_delete, SPI_OK_DELETE, "text, text, text",
			  "DELETE FROM gpucredit.quota_turn t WHERE t.org = $1"
			  " AND t.account = $2 AND t.gpu_type = $3");
/* who finds a limited one looks for budgets anyway (queue_full) */
SQL_STATEMENT(quotas_read, SPI_OK_SELECT, ACCOUNT_TYPES,
			  "SELECT " ACCOUNT_COLUMNS("q.limited IS TRUE OR " ORG_BUDGETED)
			  ", q.account, q.gpu_type, q.max_gpus, q.limited" ACCOUNT_LEVELS
			  " LEFT JOIN LATERAL (SELECT q.account, q.gpu_type, q.max_gpus,"
			  "  q.max_queued IS NOT NULL AS limited FROM gpucredit.quota q"
			  "  WHERE q.org = $1 AND q.account = p.account OFFSET 0) q"
			  " ON true");
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
/* in their turn: each is found, locked and changed before the next */
SQL_STATEMENT(quotas_spare, SPI_OK_UPDATE_RETURNING,
			  "text, text[], int[], int",
			  "UPDATE gpucredit.quota q SET cycle = q.cycle + 1,"
			  " spare = CASE WHEN q.spare > 0 THEN q.spare - 1 ELSE 0 END"
			  " FROM (SELECT pg_catalog.unnest($3) AS n) u"
			  " WHERE u.n = $4 AND q.org = $1 AND q.account = ($2)[u.n]"
			  " AND q.gpu_type = '' RETURNING q.spare");
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

/* A quota on a path, as an unlocked look says. */
typedef struct Quota
{
	const char *account;
	const char *gpu_type;		/* "": any */
	int32		max_gpus;		/* -1: no limit */
	bool		limited;		/* it has a max_queued */
} Quota;

/* Quotas that a submission is counted in by the statement that locks them. */
typedef struct Sparing
{
	int			spared;			/* the first so many had something to spare */
	bool		none;			/* the one after these had nothing */
} Sparing;

static bool see_quota(void *context, const Datum *values, const bool *nulls);
static bool alone_too_large(const List *quotas, const QuotaAsk *ask);
static bool queue_full(const QuotaLook *look, const QuotaAsk *ask,
					   bool supposed);
static bool all_spare(const char *org, const char *const *accounts, int n);
static bool see_spare(void *context, const Datum *values, const bool *nulls);
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
 * Look at an account, and at the quotas on its path.
 */
void
QuotaRead(QuotaLook *look)
{
	AccountLookWith(&quotas_read, see_quota, &look->account);
}

/*
 * A level of the path, with one of its quotas if it has any.
 */
static bool
see_quota(void *context, const Datum *values, const bool *nulls)
{
	QuotaLook  *look = context;
	Quota	   *quota;

	AccountSee(&look->account, values);
	if (nulls[5])
		return true;			/* the level has none */
	quota = palloc(sizeof(Quota));
	quota->account = TextDatumGetCString(values[5]);
	quota->gpu_type = TextDatumGetCString(values[6]);
	quota->max_gpus = nulls[7] ? -1 : DatumGetInt32(values[7]);
	quota->limited = DatumGetBool(values[8]);
	look->quotas = lappend(look->quotas, quota);
	return true;
}

/*
 * NULL, or why the quotas on a path deny a submission.  supposed: one that is
 * not made.
 */
const char *
QuotaCheck(const QuotaLook *look, const QuotaAsk *ask, bool supposed)
{
	if (look->quotas != NIL && (alone_too_large(look->quotas, ask) ||
								queue_full(look, ask, supposed)))
		return "quota_exceeded";
	return NULL;
}

/*
 * Does the request, of each type it accepts, pass some quota all alone?
 */
static bool
alone_too_large(const List *quotas, const QuotaAsk *ask)
{
	int64		needed = (int64) ask->min_gpus * ask->share;
	bool		fits = ask->ntypes == 0;
	ListCell   *lc;

	for (int t = 0; t < ask->ntypes && !fits; t++)
	{
		fits = true;
		foreach(lc, quotas)
		{
			const Quota *quota = lfirst(lc);

			if (quota->max_gpus >= 0 &&
				(*quota->gpu_type == '\0' ||
				 strcmp(quota->gpu_type, ask->gpu_types[t]) == 0) &&
				needed > (int64) quota->max_gpus * 1000)
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
queue_full(const QuotaLook *look, const QuotaAsk *ask, bool supposed)
{
	AccountPath *path = look->account.path;
	const char **limited = palloc(sizeof(char *) * list_length(look->quotas));
	int			n = 0;
	bool		typed = false;
	SqlArgs		args = {0};
	SqlResult	quotas;
	int32	   *spares;
	ListCell   *lc;

	for (int level = 0; level < path->n; level++)
	{
		foreach(lc, look->quotas)
		{
			const Quota *quota = lfirst(lc);

			if (!quota->limited ||
				strcmp(quota->account, path->accounts[level]) != 0)
				continue;
			typed |= *quota->gpu_type != '\0';
			limited[n++] = path->accounts[level];
		}
	}
	if (n == 0)
		return false;
	path->budgeted = true;		/* by now, after a wait, it may be */
	if (!supposed && !typed && all_spare(path->org, limited, n))
		return false;
	SqlArgText(&args, path->org);
	SqlArgTextArray(&args, limited, n);
	SqlArgBool(&args, typed);
	quotas = SqlRun(supposed ? &quotas_look : &quotas_lock, &args);
	spares = palloc(sizeof(int32) * (quotas.n + 1));
	if (!none_full(path, ask, quotas, spares))
		return true;
	if (!supposed)
		count_up(path, quotas, spares);
	return false;
}

/*
 * Lock quotas of any type, leaf to root, and count a submission in each.
 * False: one has nothing left to spare, or is no more; those behind it are
 * left alone.
 */
static bool
all_spare(const char *org, const char *const *accounts, int n)
{
	Sparing		sparing = {0};
	int32	   *numbers = palloc(sizeof(int32) * n);
	int			before = -1;

	for (int i = 0; i < n; i++)
		numbers[i] = i + 1;
	while (before < sparing.spared && sparing.spared < n && !sparing.none)
	{
		SqlArgs		args = {0};

		before = sparing.spared;
		SqlArgText(&args, org);
		SqlArgTextArray(&args, accounts, n);
		SqlArgInt4Array(&args, numbers, n);
		SqlArgInt4(&args, before + 1);
		SqlEachInTurn(&quotas_spare, &args, see_spare, &sparing);
	}
	return sparing.spared == n;
}

/*
 * The next quota, locked and counted up.  One that comes to nothing is looked
 * at, as if it had nothing before.
 */
static bool
see_spare(void *context, const Datum *values, const bool *nulls)
{
	Sparing    *sparing = context;

	sparing->none = DatumGetInt32(values[0]) == 0;
	if (!sparing->none)
		sparing->spared++;
	return !sparing->none;
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
	SqlArgs		key;

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
	key = args;
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
	(void) SqlRun(remove ? &turn_delete : &turn_upsert, &key);
	AuditText(&audit, "gpu_type", type);
	AuditWrite(&audit);
	SqlFinish();
	PG_RETURN_VOID();
}
