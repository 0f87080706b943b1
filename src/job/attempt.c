/*-------------------------------------------------------------------------
 *
 * attempt.c
 *		An attempt's row, its bill, its usage log.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/clock.h"
#include "common/errors.h"
#include "common/settings.h"
#include "job/attempt.h"
#include "types/duration.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

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
SQL_STATEMENT(usage_insert, SPI_OK_INSERT,
			  "text, bigint, int, timestamptz, interval, gpucredit.credits,"
			  " bigint, real",
			  "INSERT INTO gpucredit.usage (org, job, attempt, at, elapsed,"
			  " billed, progress, utilization)"
			  " VALUES ($1, $2, $3, $4, $5, $6, $7, $8)");
SQL_STATEMENT(usages_insert, SPI_OK_INSERT,
			  "text[], bigint[], int[], timestamptz, interval[],"
			  " gpucredit.credits[], bigint[], real[]",
			  "INSERT INTO gpucredit.usage (org, job, attempt, at, elapsed,"
			  " billed, progress, utilization)"
			  " SELECT pg_catalog.unnest($1), pg_catalog.unnest($2),"
			  " pg_catalog.unnest($3), $4, pg_catalog.unnest($5),"
			  " pg_catalog.unnest($6), pg_catalog.unnest($7),"
			  " pg_catalog.unnest($8)");

static void told(SqlResult rows, uint64 i, int column, Attempt *attempt);
static bool read_one(SqlStatement *statement, const char *org, int64 job,
					 int32 number, Attempt *attempt);

/*
 * An attempt from a row of ATTEMPT_COLUMNS.
 */
void
AttemptFrom(SqlResult rows, uint64 i, Attempt *attempt)
{
	attempt->org = SqlText(rows, i, 1);
	attempt->job = SqlInt8(rows, i, 2);
	attempt->attempt = SqlInt4(rows, i, 3);
	attempt->hold = SqlInt8(rows, i, 4);
	attempt->gpus = SqlInt4(rows, i, 5);
	attempt->share = SqlInt4(rows, i, 6);
	attempt->per_gpu_hour = SqlCredits(rows, i, 7);
	attempt->wall_limit = SqlIsNull(rows, i, 8) ? -1 : SqlDuration(rows, i, 8);
	attempt->hold_window = SqlIsNull(rows, i, 9) ? -1 :
		SqlDuration(rows, i, 9);
	attempt->started_at = SqlTime(rows, i, 10);
	attempt->held = SqlCredits(rows, i, 11);
	attempt->elapsed = SqlDuration(rows, i, 12);
	attempt->logged = SqlDuration(rows, i, 13);
	attempt->skewed_at = SqlTimeOr(rows, i, 14, DT_NOBEGIN);
	attempt->starved = SqlBool(rows, i, 15);
	attempt->running_at = SqlTimeOr(rows, i, 16, DT_NOBEGIN);
	attempt->running = attempt->running_at != DT_NOBEGIN;
	attempt->ended_at = SqlTimeOr(rows, i, 17, DT_NOBEGIN);
	attempt->outcome = SqlText(rows, i, 18);
	attempt->billed = attempt->outcome ? SqlCredits(rows, i, 19) : 0;
	told(rows, i, 20, attempt);
	attempt->directed = SqlBool(rows, i, 22);
	attempt->saved_at = SqlTimeOr(rows, i, 23, DT_NOBEGIN);
	attempt->save_every = SqlIsNull(rows, i, 24) ? -1 :
		SqlDuration(rows, i, 24);
	attempt->save_asked = SqlBool(rows, i, 25);
	attempt->progress_at = SqlTimeOr(rows, i, 26, DT_NOBEGIN);
	attempt->heard_at = SqlTimeOr(rows, i, 27, DT_NOBEGIN);
	attempt->ends_by = SqlTimeOr(rows, i, 28, DT_NOEND);
}

/*
 * What its agent told: progress in a column, utilization in the next.
 */
static void
told(SqlResult rows, uint64 i, int column, Attempt *attempt)
{
	bool		isnull;
	Datum		value = SqlDatum(rows, i, column, &isnull);

	attempt->has_progress = !isnull;
	attempt->progress = isnull ? 0 : DatumGetInt64(value);
	value = SqlDatum(rows, i, column + 1, &isnull);
	attempt->has_utilization = !isnull;
	attempt->utilization = isnull ? 0 : DatumGetFloat4(value);
}

/*
 * Run one of the statements that read an attempt by its key.
 */
static bool
read_one(SqlStatement *statement, const char *org, int64 job, int32 number,
		 Attempt *attempt)
{
	SqlArgs		args = {0};
	SqlResult	row;

	SqlArgText(&args, org);
	SqlArgInt8(&args, job);
	SqlArgInt4(&args, number);
	row = SqlRun(statement, &args);
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
 * The same without waiting, of one that lives.  False: it is over, or another
 * transaction has it.
 */
bool
AttemptLockLive(const char *org, int64 job, int32 number, Attempt *attempt)
{
	return read_one(&attempt_lock_live, org, job, number, attempt);
}

/*
 * When an attempt must have reached its wall limit, whatever its agent says:
 * by the server's own clock, from the first heartbeat.  One that was let in
 * before a reservation is over by an instant that was fixed when it started,
 * however long it takes to start.
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
 * From when on an attempt is stuck; DT_NOEND where its progress was never
 * told, or nobody asks.
 */
TimestampTz
AttemptStuckAt(const Attempt *attempt)
{
	if (SettingStuckAfter() == 0 || attempt->progress_at == DT_NOBEGIN)
		return DT_NOEND;
	return ClockAdd(attempt->progress_at, SettingStuckAfter());
}

/*
 * What an attempt owes for its elapsed time: from the cumulative figure,
 * rounded once, never more than is held for it.
 */
Credits
AttemptBill(const Attempt *attempt)
{
	return CreditsBillWithin(attempt->per_gpu_hour, attempt->gpus,
							 attempt->share, attempt->elapsed,
							 attempt->held);
}

/*
 * Log what was metered so far.
 */
void
AttemptLogUsage(const Attempt *attempt, Credits billed, TimestampTz at)
{
	SqlArgs		args = {0};

	SqlArgText(&args, attempt->org);
	SqlArgInt8(&args, attempt->job);
	SqlArgInt4(&args, attempt->attempt);
	SqlArgTime(&args, at);
	SqlArgDuration(&args, attempt->elapsed);
	SqlArgCredits(&args, billed);
	if (attempt->has_progress)
		SqlArgInt8(&args, attempt->progress);
	else
		SqlArgNull(&args);
	if (attempt->has_utilization)
		SqlArg(&args, Float4GetDatum(attempt->utilization));
	else
		SqlArgNull(&args);
	(void) SqlRun(&usage_insert, &args);
}

/*
 * The same of many, each with the bill it has.
 */
void
AttemptsLogUsage(const Attempt *const *attempts, int n, TimestampTz at)
{
	static const Oid types[5] = {TEXTOID, INT8OID, INT4OID, INTERVALOID,
	INT8OID};
	Datum	   *columns[6];
	bool	   *nulls[6] = {NULL};
	Credits    *billed = palloc(sizeof(Credits) * n);
	SqlArgs		args = {0};

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
		SqlArgArray(&args, columns[c], NULL, n, types[c]);
	SqlArgTime(&args, at);
	SqlArgArray(&args, columns[3], NULL, n, types[3]);
	SqlArgCreditsArray(&args, billed, n);
	SqlArgArray(&args, columns[4], nulls[4], n, types[4]);
	SqlArgArray(&args, columns[5], nulls[5], n, FLOAT4OID);
	(void) SqlRun(&usages_insert, &args);
}
