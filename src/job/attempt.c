/*-------------------------------------------------------------------------
 *
 * attempt.c
 *		Reads and locks an attempt's row, computes its bill, and logs its
 *		usage.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/int.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/settings.h"
#include "job/attempt.h"
#include "types/duration.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/date.h"

#define ATTEMPT_READ \
	"SELECT" ATTEMPT_COLUMNS " FROM gpucredit.attempt a" \
	" WHERE a.org = $1 AND a.job = $2 AND a.attempt = $3"

SQL_STATEMENT(attempt_read, SPI_OK_SELECT, "text, bigint, int",
			  ATTEMPT_READ);
SQL_STATEMENT(attempt_lock, SPI_OK_SELECT, "text, bigint, int",
			  ATTEMPT_READ " FOR NO KEY UPDATE OF a");
SQL_STATEMENT(attempt_lock_live, SPI_OK_SELECT, "text, bigint, int",
			  ATTEMPT_READ " AND a.ended_at IS NULL"
			  " FOR NO KEY UPDATE OF a SKIP LOCKED");
/*
 * Hash of a usage row. The hash of each row enters the usage_digest of its
 * attempt, so that verify() finds a row that was changed, removed or inserted.
 */
#define USAGE_HASH \
	"pg_catalog.hash_record_extended(ROW(n.at, n.elapsed," \
	" n.billed::pg_catalog.numeric, n.progress, n.utilization), 0)"
/*
 * What an attempt counts as used credit. Once the attempt has ended it counts
 * nothing, because its bill has become spent credit.
 */
#define USED(billed) \
	"CASE WHEN a.ended_at IS NULL THEN " billed " ELSE '0' END"
SQL_STATEMENT(usage_insert, SPI_OK_UPDATE,
			  "text, bigint, int, timestamptz, interval, gpucredit.credits,"
			  " bigint, real",
			  "WITH u AS (INSERT INTO gpucredit.usage AS n (org, job, attempt,"
			  " at, elapsed, billed, progress, utilization)"
			  " VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
			  " RETURNING " USAGE_HASH " AS hash), d AS ("
			  " INSERT INTO gpucredit.account_delta (org, account, used, at)"
			  " SELECT a.org, a.account, " USED("$6")
			  "  OPERATOR(gpucredit.-) a.used, $4 FROM gpucredit.attempt a"
			  " WHERE a.org = $1 AND a.job = $2 AND a.attempt = $3"
			  " AND a.used OPERATOR(gpucredit.<>) " USED("$6") ")"
			  " UPDATE gpucredit.attempt a SET usage_digest ="
			  " a.usage_digest OPERATOR(pg_catalog.#) u.hash,"
			  " used = " USED("$6") " FROM u"
			  " WHERE a.org = $1 AND a.job = $2 AND a.attempt = $3");
SQL_STATEMENT(usages_insert, SPI_OK_UPDATE,
			  "text[], bigint[], int[], timestamptz, interval[],"
			  " gpucredit.credits[], bigint[], real[]",
			  "WITH u AS (INSERT INTO gpucredit.usage AS n (org, job, attempt,"
			  " at, elapsed, billed, progress, utilization)"
			  " SELECT pg_catalog.unnest($1), pg_catalog.unnest($2),"
			  " pg_catalog.unnest($3), $4, pg_catalog.unnest($5),"
			  " pg_catalog.unnest($6), pg_catalog.unnest($7),"
			  " pg_catalog.unnest($8)"
			  " RETURNING n.org, n.job, n.attempt, n.billed, " USAGE_HASH
			  "  AS hash),"
			  " l AS MATERIALIZED (SELECT u.org, u.hash, k.tid, k.account,"
			  "  k.used AS was, k.now FROM u CROSS JOIN LATERAL"
			  "  (SELECT a.ctid AS tid, a.account, a.used, " USED("u.billed")
			  "    AS now FROM gpucredit.attempt a"
			  "   WHERE a.org = u.org AND a.job = u.job"
			  "   AND a.attempt = u.attempt OFFSET 0) k),"
			  " d AS (INSERT INTO gpucredit.account_delta (org, account,"
			  "  used, at) SELECT s.org, s.account, s.used, $4 FROM ("
			  "   SELECT l.org, l.account, gpucredit.sum(l.now"
			  "    OPERATOR(gpucredit.-) l.was) AS used FROM l"
			  "   GROUP BY l.org, l.account) s"
			  "  WHERE s.used OPERATOR(gpucredit.<>) '0')"
			  " UPDATE gpucredit.attempt a SET usage_digest ="
			  " a.usage_digest OPERATOR(pg_catalog.#) l.hash, used = l.now"
			  " FROM l WHERE a.ctid = l.tid");

static const char *const attempt_names[] = {
	"org", "job", "attempt", "hold", "gpus", "per_hour", "overhead",
	"started_at", "held", "elapsed", "logged", "extension_denied",
	"save_asked", "is_foreign",
	"wall_limit", "hold_window", "skewed_at", "running_at", "ended_at",
	"outcome", "billed", "progress", "utilization", "saved_at",
	"save_every", "progress_at", "heard_at", "ends_by", "idle_since",
	"idle_limit", "idle_warning", "idle_for", "idle_at", "idle_warned_at"
};
static SqlWhole attempt_row = SQL_WHOLE(attempt_names, 14);

SQL_STATEMENT(accrued_insert, SPI_OK_UPDATE, "text[], bigint[], int[], date",
			  "WITH c AS (INSERT INTO gpucredit.accrued AS n (org, day, job,"
			  " attempt, account, elapsed, billed)"
			  " SELECT k.org, $4 - n.n, k.job, k.attempt, a.account,"
			  "  u.elapsed, u.billed"
			  " FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2),"
			  "  pg_catalog.unnest($3)) AS k (org, job, attempt)"
			  " CROSS JOIN LATERAL (SELECT o.at, o.elapsed, o.billed"
			  "  FROM gpucredit.usage o WHERE o.org = k.org AND o.job = k.job"
			  "  AND o.attempt = k.attempt"
			  "  ORDER BY o.at DESC, o.elapsed DESC LIMIT 1) u"
			  " CROSS JOIN LATERAL (SELECT t.account FROM gpucredit.attempt t"
			  "  WHERE t.org = k.org AND t.job = k.job"
			  "  AND t.attempt = k.attempt OFFSET 0) a"
			  " CROSS JOIN LATERAL pg_catalog.generate_series(1,"
			  "  $4 - gpucredit_internal.utc_day(u.at)) AS n (n)"
			  " ON CONFLICT DO NOTHING"
			  " RETURNING n.org, n.job, n.attempt,"
			  "  pg_catalog.hash_record_extended(ROW(n.day, n.elapsed,"
			  "  n.billed::pg_catalog.numeric), 0) AS hash)"
			  " UPDATE gpucredit.attempt a SET accrued_digest ="
			  " a.accrued_digest OPERATOR(pg_catalog.#) l.hash"
			  " FROM (SELECT s.hash, k.tid FROM (SELECT c.org, c.job,"
			  "  c.attempt, pg_catalog.bit_xor(c.hash) AS hash FROM c"
			  "  GROUP BY c.org, c.job, c.attempt) s CROSS JOIN LATERAL"
			  "  (SELECT t.ctid AS tid FROM gpucredit.attempt t"
			  "   WHERE t.org = s.org AND t.job = s.job"
			  "   AND t.attempt = s.attempt OFFSET 0) k OFFSET 0) l"
			  " WHERE a.ctid = l.tid");

static void accrue(const Attempt *const *attempts, int n, TimestampTz at);
static int64 duration_of(Datum value);
static bool read_one(SqlStatement *statement, const char *org, int64 job,
					 int32 number, Attempt *attempt);
static DateADT utc_day(TimestampTz at);

/* Reads an attempt from the columns of ATTEMPT_COLUMNS. */
void
AttemptParse(const Datum *values, Attempt *attempt)
{
	Datum		value[lengthof(attempt_names)];
	bool		null[lengthof(attempt_names)];

	SqlDeformRow(&attempt_row, values[0], value, null);
	attempt->directed = DatumGetBool(values[1]);
	attempt->org = TextDatumGetCString(value[0]);
	attempt->job = DatumGetInt64(value[1]);
	attempt->attempt = DatumGetInt32(value[2]);
	attempt->hold = DatumGetInt64(value[3]);
	attempt->gpus = DatumGetInt32(value[4]);
	attempt->per_hour = DatumGetCredits(value[5]);
	attempt->overhead = duration_of(value[6]);
	attempt->wall_limit = null[14] ? -1 : duration_of(value[14]);
	attempt->hold_window = null[15] ? -1 : duration_of(value[15]);
	attempt->started_at = DatumGetTimestampTz(value[7]);
	attempt->held = DatumGetCredits(value[8]);
	attempt->elapsed = duration_of(value[9]);
	attempt->logged = duration_of(value[10]);
	attempt->skewed_at = null[16] ? DT_NOBEGIN :
		DatumGetTimestampTz(value[16]);
	attempt->extension_denied = DatumGetBool(value[11]);
	attempt->is_foreign = DatumGetBool(value[13]);
	attempt->running = !null[17];
	attempt->running_at = null[17] ? DT_NOBEGIN :
		DatumGetTimestampTz(value[17]);
	attempt->ended_at = null[18] ? DT_NOBEGIN :
		DatumGetTimestampTz(value[18]);
	attempt->outcome = null[19] ? NULL : TextDatumGetCString(value[19]);
	Ensure(attempt->outcome == NULL || !null[20],
		   "An attempt that is over has no bill.");
	attempt->billed = attempt->outcome == NULL ? 0 :
		DatumGetCredits(value[20]);
	attempt->has_progress = !null[21];
	attempt->progress = null[21] ? 0 : DatumGetInt64(value[21]);
	attempt->has_utilization = !null[22];
	attempt->utilization = null[22] ? 0 : DatumGetFloat4(value[22]);
	attempt->saved_at = null[23] ? DT_NOBEGIN :
		DatumGetTimestampTz(value[23]);
	attempt->save_every = null[24] ? -1 : duration_of(value[24]);
	attempt->save_asked = DatumGetBool(value[12]);
	attempt->progress_at = null[25] ? DT_NOBEGIN :
		DatumGetTimestampTz(value[25]);
	attempt->heard_at = null[26] ? DT_NOBEGIN :
		DatumGetTimestampTz(value[26]);
	attempt->ends_by = null[27] ? DT_NOEND : DatumGetTimestampTz(value[27]);
	attempt->idle_since = null[28] ? DT_NOBEGIN :
		DatumGetTimestampTz(value[28]);
	attempt->idle_limit = null[29] ? -1 : duration_of(value[29]);
	attempt->idle_warning = null[30] ? 0 : duration_of(value[30]);
	attempt->idle_for = null[31] ? 0 : duration_of(value[31]);
	attempt->idle_at = null[32] ? DT_NOBEGIN : DatumGetTimestampTz(value[32]);
	attempt->idle_warned_at = null[33] ? DT_NOBEGIN :
		DatumGetTimestampTz(value[33]);
}

static int64
duration_of(Datum value)
{
	return DurationFromInterval(DatumGetIntervalP(value), NULL);
}

/*
 * Reads an attempt from row i of a result that has the columns of
 * ATTEMPT_COLUMNS.
 */
void
AttemptFrom(SqlResult rows, uint64 i, Attempt *attempt)
{
	Datum		values[ATTEMPT_WIDTH];

	for (int c = 0; c < ATTEMPT_WIDTH; c++)
		values[c] = SqlNotNull(rows, i, c + 1);
	AttemptParse(values, attempt);
}

/*
 * Runs one of the statements that read an attempt by its key. Returns false if
 * the statement finds no row.
 */
static bool
read_one(SqlStatement *statement, const char *org, int64 job, int32 number,
		 Attempt *attempt)
{
	SqlResult	row = SqlRun(statement,
							 VALUES(TextValue(org), Int8Value(job),
									Int4Value(number)));

	if (row.n == 0)
		return false;
	AttemptFrom(row, 0, attempt);
	SqlFree(&row);
	return true;
}

bool
AttemptRead(const char *org, int64 job, int32 number, Attempt *attempt)
{
	return read_one(&attempt_read, org, job, number, attempt);
}

bool
AttemptLock(const char *org, int64 job, int32 number, Attempt *attempt)
{
	return read_one(&attempt_lock, org, job, number, attempt);
}

/*
 * Locks a live attempt without waiting. Returns false if the attempt has ended
 * or another transaction has locked it.
 */
bool
AttemptLockLive(const char *org, int64 job, int32 number, Attempt *attempt)
{
	return read_one(&attempt_lock_live, org, job, number, attempt);
}

/*
 * Returns when an attempt reaches its wall limit by the server's clock,
 * counted from its first heartbeat. An attempt that was started before a
 * reservation must also end by an instant that was fixed at its start, however
 * long its processes took to start.
 */
TimestampTz
AttemptWallEnd(const Attempt *attempt)
{
	TimestampTz end = attempt->ends_by;

	if (attempt->wall_limit >= 0 && attempt->running_at != DT_NOBEGIN)
		end = Min(end, ClockAdd(ClockAdd(attempt->running_at,
										 attempt->wall_limit),
								SettingClockSkew()));
	return end;
}

/*
 * Returns when an attempt counts as stuck, or DT_NOEND if it never reported
 * progress or no timeout is set.
 */
TimestampTz
AttemptStuckAt(const Attempt *attempt)
{
	if (SettingProgressTimeout() == 0 || attempt->progress_at == DT_NOBEGIN)
		return DT_NOEND;
	return ClockAdd(attempt->progress_at, SettingProgressTimeout());
}

/*
 * Computes an attempt's bill from the cumulative elapsed time, rounded once.
 * The bill is at most what is held for the attempt.
 */
Credits
AttemptBill(const Attempt *attempt)
{
	return Min(AttemptCost(attempt, attempt->elapsed), attempt->held);
}

/*
 * Returns what an attempt costs that has had its devices for the given time.
 * AttemptHoldFor() returns the hold for that time, which is rounded up. The
 * greatest amount stands for any amount that does not fit.
 */
Credits
AttemptCost(const Attempt *attempt, int64 elapsed)
{
	return CreditsBillWithin(attempt->per_hour, 1, SHARE_WHOLE, elapsed,
							 PG_INT64_MAX);
}

Credits
AttemptHoldFor(const Attempt *attempt, int64 duration, Credits most)
{
	return CreditsHoldWithin(attempt->per_hour, 1, SHARE_WHOLE, duration,
							 most);
}

/*
 * Returns how long an attempt has had its devices, if its agent reports that
 * its processes have run for the given time.
 */
int64
AttemptHad(const Attempt *attempt, int64 ran)
{
	int64		had;

	return pg_add_s64_overflow(ran, attempt->overhead, &had) ? PG_INT64_MAX :
		had;
}

/*
 * Returns the time from an attempt's start to the start of its processes. It
 * is computed at the agent's first report, according to which the processes
 * have run for the time `ran`. The time is billed, because nobody else could
 * use the devices. Time beyond gpucredit.startup_max is the platform's delay
 * and is not billed. Where another scheduler places jobs, that scheduler's
 * records tell when the devices were allocated, so the result is 0.
 */
int64
AttemptStartup(const Attempt *attempt, int64 ran, TimestampTz now)
{
	int64		gap = Max(now - attempt->started_at - Max(ran, 0), 0);

	return attempt->is_foreign ? 0 : Min(gap, SettingStartupMax());
}

/* Logs an attempt's metered figures as a usage row. */
void
AttemptLogUsage(const Attempt *attempt, Credits billed, TimestampTz at)
{
	accrue(&attempt, 1, at);
	(void) SqlRun(&usage_insert,
				  VALUES(ATTEMPT_KEY(attempt), TimeValue(at),
						 DurationValue(attempt->elapsed), CreditsValue(billed),
						 attempt->has_progress ? Int8Value(attempt->progress) :
						 NullValue(),
						 attempt->has_utilization ?
						 DatumValue(Float4GetDatum(attempt->utilization)) :
						 NullValue()));
}

/* Logs the usage of many attempts, each with its present bill. */
void
AttemptsLogUsage(const Attempt *const *attempts, int n, TimestampTz at)
{
	static const Oid types[5] = {TEXTOID, INT8OID, INT4OID, INTERVALOID,
	INT8OID};
	Datum	   *columns[6];
	bool	   *nulls[6] = {NULL};
	Credits    *billed = palloc(sizeof(Credits) * n);
	Values		args = {0};

	accrue(attempts, n, at);
	for (int c = 0; c < 6; c++)
		columns[c] = palloc(sizeof(Datum) * n);
	nulls[4] = palloc(sizeof(bool) * n);
	nulls[5] = palloc(sizeof(bool) * n);
	for (int i = 0; i < n; i++)
	{
		const Attempt *attempt = attempts[i];

		columns[0][i] = CStringGetTextDatum(attempt->org);
		columns[1][i] = Int64GetDatum(attempt->job);
		columns[2][i] = Int32GetDatum(attempt->attempt);
		columns[3][i] = IntervalPGetDatum(DurationToInterval(attempt->elapsed));
		billed[i] = AttemptBill(attempt);
		columns[4][i] = Int64GetDatum(attempt->progress);
		nulls[4][i] = !attempt->has_progress;
		columns[5][i] = Float4GetDatum(attempt->utilization);
		nulls[5][i] = !attempt->has_utilization;
	}
	for (int c = 0; c < 3; c++)
		ValuesAdd(&args, ArrayValue(columns[c], NULL, n, types[c]));
	ValuesAdd(&args, TimeValue(at), ArrayValue(columns[3], NULL, n, types[3]),
			  CreditsArrayValue(billed, n),
			  ArrayValue(columns[4], nulls[4], n, types[4]),
			  ArrayValue(columns[5], nulls[5], n, FLOAT4OID));
	(void) SqlRun(&usages_insert, &args);
}

/*
 * Stores, for each midnight since an attempt's last usage row, what that row
 * says the attempt had cost. This happens when attempts log usage for the
 * first time after midnight. Reports by day and monthly invoices read these
 * rows after usage is removed (sql/gpucredit/83_accrued.sql). An attempt that
 * began today has no earlier row, so nearly no call runs the query.
 */
static void
accrue(const Attempt *const *attempts, int n, TimestampTz at)
{
	static const Oid types[3] = {TEXTOID, INT8OID, INT4OID};
	DateADT		today = utc_day(at);
	Datum	   *columns[3];
	Values		args = {0};
	int			older = 0;

	for (int c = 0; c < 3; c++)
		columns[c] = palloc(sizeof(Datum) * n);
	for (int i = 0; i < n; i++)
	{
		const Attempt *attempt = attempts[i];

		if (attempt->per_hour == 0 || attempt->ended_at != DT_NOBEGIN ||
			utc_day(attempt->started_at) >= today)
			continue;
		columns[0][older] = CStringGetTextDatum(attempt->org);
		columns[1][older] = Int64GetDatum(attempt->job);
		columns[2][older] = Int32GetDatum(attempt->attempt);
		older++;
	}
	if (older == 0)
		return;
	for (int c = 0; c < 3; c++)
		ValuesAdd(&args, ArrayValue(columns[c], NULL, older, types[c]));
	ValuesAdd(&args, DatumValue(DateADTGetDatum(today)));
	(void) SqlRun(&accrued_insert, &args);
}

static DateADT
utc_day(TimestampTz at)
{
	DateADT		day = (DateADT) (at / USECS_PER_DAY);

	return at < day * USECS_PER_DAY ? day - 1 : day;
}
