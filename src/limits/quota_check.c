/*-------------------------------------------------------------------------
 *
 * quota_check.c
 *		Checks quotas when a job is submitted.
 *
 * A request is denied if it alone exceeds the limits on devices, cpu or memory
 * with every type that it accepts, or if as many jobs are queued as a quota
 * allows. What is in use now does not matter here: the job waits until the
 * scheduler can start it.
 *
 * The quota's row is locked before the jobs are counted, so that of two
 * submissions at the same time only one can be the last that is allowed.
 *
 * Far below the limit no count is needed. A count of queued jobs also counts
 * the live ones; only a submission that locks the quota's row can queue
 * another one. So half of the difference between the limit and the number of
 * live jobs is stored in the row as spare: as many submissions may follow
 * without a count. Only half is stored, and nothing near the limit, because
 * submissions may have been in progress when the quota was set. A quota of one
 * type has no spare, because the types that a job accepts may change.
 *
 * Locks: quotas with max_queued, leaf to root; before dead holds, budgets and
 * buckets.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "limits/quota_check.h"
#include "limits/limits.h"
#include "utils/fmgrprotos.h"
#include "utils/numeric.h"
#include "util/row_location.h"
#include "util/sql.h"

/* A quota on a path, read from its account's row. */
typedef struct Quota
{
	const char *account;
	const char *gpu_type;		/* "" if the quota counts devices of any type */
	int64		max_gpus;		/* -1 if there is no limit, as in the next
								 * three fields */
	int64		max_cpu_milli;
	int64		max_memory_mib;
	int64		max_nonpreemptible_gpus;
	bool		limited;		/* whether it has a max_queued */
} Quota;

#define SPARE_LEAST		64		/* a smaller spare is not worth storing */

#define QUEUE_LIMITS(also) \
	"SELECT q.account, q.gpu_type, q.max_queued" \
	" FROM gpucredit.quota q" \
	" WHERE q.org = $1 AND q.account = ANY ($2)" \
	" AND q.max_queued IS NOT NULL AND (q.gpu_type = '' OR $3)" also \
	" ORDER BY pg_catalog.length(q.account) DESC, q.gpu_type"
/* A quota that has spare is not full, and needs no count. */
SQL_STATEMENT(quotas_look, SPI_OK_SELECT, "text, text[], boolean",
			  QUEUE_LIMITS(" AND q.spare = 0"));
SQL_STATEMENT(quotas_lock, SPI_OK_SELECT, "text, text[], boolean",
			  QUEUE_LIMITS("") " FOR NO KEY UPDATE");
/* Each quota is found, locked and changed before the next one. */
SQL_STATEMENT(quotas_spare, SPI_OK_UPDATE_RETURNING,
			  "text, text[], int[], int",
			  "UPDATE gpucredit.quota q SET cycle = q.cycle + 1,"
			  " spare = CASE WHEN q.spare > 0 THEN q.spare - 1 ELSE 0 END"
			  " FROM (SELECT pg_catalog.unnest($3) AS n) u"
			  " WHERE u.n = $4 AND q.org = $1 AND q.account = ($2)[u.n]"
			  " AND q.gpu_type = '' RETURNING q.spare");
/*
 * Changes one quota and returns its location. The first statement finds it by
 * its key, the second by its noted location.
 */
#define QUOTA_SPARE(also) \
	"UPDATE gpucredit.quota q SET cycle = q.cycle + 1," \
	" spare = CASE WHEN q.spare > 0 THEN q.spare - 1 ELSE 0 END" \
	" WHERE q.org = $1 AND q.account = $2 AND q.gpu_type = ''" also \
	" RETURNING q.spare, q.ctid"
SQL_STATEMENT(quota_spare_place, SPI_OK_UPDATE_RETURNING, "text, text",
			  QUOTA_SPARE(""));
SQL_STATEMENT(quota_spare_own, SPI_OK_UPDATE_RETURNING, "text, text, tid",
			  QUOTA_SPARE(" AND q.ctid = $3"));
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
/*
 * Jobs of an account and all below it: their account's path is the same, or
 * begins with the path and a slash.
 */
SQL_STATEMENT(queued_below, SPI_OK_SELECT, "text, text, text",
			  QUEUED " AND j.account >= $3 AND j.account < $3 || '0'"
			  " AND (j.account = $3 OR j.account >= $3 || '/')");

/* the state while quotas are counted */
typedef struct Sparing
{
	int			found;
	int			spared;			/* how many quotas, from the first, had spare */
	ItemPointerData place;		/* location of the last one found */
} Sparing;

static bool queue_full(const AccountPath *path, const List *quotas,
					   const QuotaRequest *request, bool supposed);
static List *quotas_of(const AccountPath *path);
static int64 amount_of(const JsonbValue *value);
static bool alone_too_large(const List *quotas, const QuotaRequest *request);
static bool type_fits(const List *quotas, const QuotaRequest *request,
					  const char *gpu_type, int64 milli);
static bool all_spare(const char *org, const char *const *accounts, int n);
static void spare_by_place(const char *org, const char *const *accounts,
						   int n, Sparing *sparing);
static bool count_up_quota(void *context, const Datum *values, const bool *nulls);
static bool count_free_place(void *context, const Datum *values, const bool *nulls);
static bool none_full(const AccountPath *path, const QuotaRequest *request,
					  SqlResult quotas, int32 *spares);
static SqlResult count_queued(const char *org, const char *account,
							  const char *gpu_type);
static int32 spare_of(int32 max_queued, int64 open);
static void count_up(const AccountPath *path, SqlResult quotas,
					 const int32 *spares);
static bool accepts(const QuotaRequest *request, const char *gpu_type);

/*
 * Returns NULL, or the reason for which the quotas on a path deny a
 * submission.  supposed is whether the submission is only hypothetical, so
 * that nothing is locked or counted.
 */
const char *
QuotaCheck(const AccountPath *path, const QuotaRequest *request, bool supposed)
{
	List	   *quotas = quotas_of(path);

	if (quotas != NIL && (alone_too_large(quotas, request) ||
						  queue_full(path, quotas, request, supposed)))
		return "quota_exceeded";
	return NULL;
}

/* Returns a limit from an account's row, or -1 if there is none. */
static int64
amount_of(const JsonbValue *value)
{
	return value->type == jbvNull ? -1 :
		DatumGetInt64(DirectFunctionCall1(numeric_int8,
										  NumericGetDatum(value->val.numeric)));
}

/* Returns the quotas on a path, leaf to root. */
static List *
quotas_of(const AccountPath *path)
{
	List	   *quotas = NIL;
	ListCell   *lc;

	for (int level = 0; level < path->n; level++)
	{
		foreach(lc, AccountLimitsOf(path, level, LIMIT_QUOTAS))
		{
			const JsonbValue *values = lfirst(lc);
			Quota	   *quota = palloc(sizeof(Quota));

			quota->account = path->accounts[level];
			quota->gpu_type = pnstrdup(values[0].val.string.val,
									   values[0].val.string.len);
			quota->max_gpus = amount_of(&values[1]);
			quota->limited = values[2].val.boolean;
			quota->max_cpu_milli = amount_of(&values[3]);
			quota->max_memory_mib = amount_of(&values[4]);
			quota->max_nonpreemptible_gpus = amount_of(&values[5]);
			quotas = lappend(quotas, quota);
		}
	}
	return quotas;
}

/*
 * Whether the request alone exceeds a quota, whichever of its GPU types it
 * gets.
 */
static bool
alone_too_large(const List *quotas, const QuotaRequest *request)
{
	bool		fits = request->ntypes == 0 &&
		type_fits(quotas, request, NULL, 0);

	for (int t = 0; t < request->ntypes && !fits; t++)
		fits = type_fits(quotas, request, request->gpu_types[t],
						 request->milli[t]);
	return !fits;
}

/*
 * Whether a request alone keeps within the quotas that count devices of a
 * type. The type is NULL if the request has no devices.
 */
static bool
type_fits(const List *quotas, const QuotaRequest *request,
		  const char *gpu_type, int64 milli)
{
	ListCell   *lc;

	foreach(lc, quotas)
	{
		const Quota *quota = lfirst(lc);

		if (*quota->gpu_type != '\0' &&
			(gpu_type == NULL || strcmp(quota->gpu_type, gpu_type) != 0))
			continue;
		if ((quota->max_gpus >= 0 && milli > quota->max_gpus * 1000) ||
			(request->stays && quota->max_nonpreemptible_gpus >= 0 &&
			 milli > quota->max_nonpreemptible_gpus * 1000) ||
			(quota->max_cpu_milli >= 0 &&
			 request->cpu_milli > quota->max_cpu_milli) ||
			(quota->max_memory_mib >= 0 &&
			 request->memory_mib > quota->max_memory_mib))
			return false;
	}
	return true;
}

/*
 * Whether as many jobs are queued as a quota allows.  If not, one more is
 * counted in the locked rows.  A quota that was set after the path was read is
 * not changed, because it may come before the locked rows in the lock order.
 */
static bool
queue_full(const AccountPath *path, const List *quotas,
		   const QuotaRequest *request, bool supposed)
{
	const char **limited = palloc(sizeof(char *) * list_length(quotas));
	int			n = 0;
	bool		typed = false;
	SqlResult	rows;
	int32	   *spares;
	ListCell   *lc;

	foreach(lc, quotas)
	{
		const Quota *quota = lfirst(lc);

		if (!quota->limited)
			continue;
		typed |= *quota->gpu_type != '\0';
		limited[n++] = quota->account;
	}
	if (n == 0)
		return false;
	if (!supposed && !typed && all_spare(path->org, limited, n))
		return false;
	rows = SqlRun(supposed ? &quotas_look : &quotas_lock,
				  VALUES(TextValue(path->org), TextArrayValue(limited, n),
						 BoolValue(typed)));
	spares = palloc(sizeof(int32) * (rows.n + 1));
	if (!none_full(path, request, rows, spares))
		return true;
	if (!supposed)
		count_up(path, rows, spares);
	return false;
}

/*
 * Locks quotas of any type, leaf to root, and counts a submission in each.
 * Returns false if one has no spare left, or was removed. The quotas after
 * that one are not changed.
 */
static bool
all_spare(const char *org, const char *const *accounts, int n)
{
	Sparing		sparing = {0};

	if (PlacesAreKept())
		spare_by_place(org, accounts, n, &sparing);
	else
	{
		SqlUpdateInOrder(&quotas_spare,
						 VALUES(TextValue(org),
								TextArrayValue(accounts, n)), n, count_up_quota,
						 &sparing);
	}
	return sparing.spared == n;
}

/*
 * Does the same as the statement quotas_spare, with one statement for each
 * quota. It finds the quota by its noted location if there is one.
 */
static void
spare_by_place(const char *org, const char *const *accounts, int n,
			   Sparing *sparing)
{
	for (int i = 0; i < n && sparing->spared == i; i++)
	{
		const char *names[] = {"quota", org, accounts[i]};
		uint64		key = PlaceKey(names, lengthof(names), 0);
		ItemPointer place = PlaceFind(key);
		Values	   *args = VALUES(TextValue(org), TextValue(accounts[i]));

		if (place != NULL)
		{
			ValuesAdd(args, DatumValue(PointerGetDatum(place)));
			SqlEach(&quota_spare_own, args, false, count_free_place, sparing);
			args->n--;
		}
		if (sparing->found == i)
			SqlEach(&quota_spare_place, args, false, count_free_place, sparing);
		if (sparing->found > i)
			PlaceNote(key, &sparing->place);
	}
}

static bool
count_free_place(void *context, const Datum *values, const bool *nulls)
{
	Sparing    *sparing = context;

	sparing->place = *(ItemPointer) DatumGetPointer(values[1]);
	return count_up_quota(context, values, nulls);
}

/*
 * Handles the next quota, which is locked and changed.  Returns false if it
 * has no spare, so that the jobs must be counted.
 */
static bool
count_up_quota(void *context, const Datum *values, const bool *nulls)
{
	Sparing    *sparing = context;

	sparing->found++;
	if (DatumGetInt32(values[0]) == 0)
		return false;
	sparing->spared++;
	return true;
}

/*
 * Whether fewer jobs are queued than each of some quotas allows.  Sets how
 * many more may follow without a count.
 */
static bool
none_full(const AccountPath *path, const QuotaRequest *request,
		  SqlResult quotas,
		  int32 *spares)
{
	for (uint64 i = 0; i < quotas.n; i++)
	{
		char	   *type = SqlText(quotas, i, 2);
		int32		max_queued = SqlInt4(quotas, i, 3);
		SqlResult	row;

		spares[i] = 0;
		if (!accepts(request, type))
			continue;
		row = count_queued(path->org, SqlText(quotas, i, 1), type);
		if (SqlInt8(row, 0, 1) >= max_queued)
			return false;
		if (*type == '\0')
			spares[i] = spare_of(max_queued, SqlInt8(row, 0, 2));
	}
	return true;
}

/* Counts the queued jobs and the live jobs of an account and all below it. */
static SqlResult
count_queued(const char *org, const char *account, const char *gpu_type)
{
	Values	   *args = VALUES(TextValue(org), TextValue(gpu_type));

	if (*account == '\0')
		return SqlRun(&queued_all, args);
	ValuesAdd(args, TextValue(account));
	return SqlRun(&queued_below, args);
}

/*
 * Returns how many submissions may follow this one without a count, if there
 * were `open` live jobs before it.
 */
static int32
spare_of(int32 max_queued, int64 open)
{
	int64		spare = (max_queued - 1 - open) / 2;

	return spare < SPARE_LEAST ? 0 : (int32) spare;
}

/* Counts a submission in the locked rows. */
static void
count_up(const AccountPath *path, SqlResult quotas, const int32 *spares)
{
	const char **accounts = palloc(sizeof(char *) * (quotas.n + 1));
	const char **types = palloc(sizeof(char *) * (quotas.n + 1));

	for (uint64 i = 0; i < quotas.n; i++)
	{
		accounts[i] = SqlText(quotas, i, 1);
		types[i] = SqlText(quotas, i, 2);
	}
	(void) SqlRun(&quotas_count,
				  VALUES(TextValue(path->org),
						 TextArrayValue(accounts, quotas.n),
						 TextArrayValue(types, quotas.n),
						 Int4ArrayValue(spares, quotas.n)));
}

static bool
accepts(const QuotaRequest *request, const char *gpu_type)
{
	if (*gpu_type == '\0')
		return true;
	for (int t = 0; t < request->ntypes; t++)
	{
		if (strcmp(request->gpu_types[t], gpu_type) == 0)
			return true;
	}
	return false;
}
