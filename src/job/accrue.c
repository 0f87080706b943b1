/*-------------------------------------------------------------------------
 *
 * accrue.c
 *		What a run that goes on over midnight had cost by then.
 *
 * Usage is about to be logged.  Where the usage before it was logged on an
 * earlier UTC day, what that said is written down for each midnight between:
 * reports by day and month's invoices rely on it, also when usage has left
 * (sql/gpucredit/83_accrued.sql).  A run that began today has no such usage,
 * so nearly no call has to look.
 *
 * Locks: the caller has locked the attempts.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "util/clock.h"
#include "job/accrue.h"
#include "utils/builtins.h"
#include "utils/date.h"

SQL_STATEMENT(accrued_insert, SPI_OK_INSERT, "text[], bigint[], int[], date",
			  "INSERT INTO gpucredit.accrued (org, day, job, attempt, account,"
			  " elapsed, billed)"
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
			  " ON CONFLICT DO NOTHING");

static DateADT utc_day(TimestampTz at);

/*
 * Attempts that live, or are being settled, log usage at an instant.
 */
void
AccrueOver(const Attempt *const *attempts, int n, TimestampTz at)
{
	static const Oid types[3] = {TEXTOID, INT8OID, INT4OID};
	DateADT		today = utc_day(at);
	Datum	   *columns[3];
	SqlArgs		args = {0};
	int			older = 0;

	for (int c = 0; c < 3; c++)
		columns[c] = palloc(sizeof(Datum) * n);
	for (int i = 0; i < n; i++)
	{
		const Attempt *attempt = attempts[i];

		if (attempt->gpus == 0 || attempt->ended_at != DT_NOBEGIN ||
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
		SqlArgArray(&args, columns[c], NULL, older, types[c]);
	SqlArg(&args, DateADTGetDatum(today));
	(void) SqlRun(&accrued_insert, &args);
}

static DateADT
utc_day(TimestampTz at)
{
	DateADT		day = (DateADT) (at / USECS_PER_DAY);

	return at < day * USECS_PER_DAY ? day - 1 : day;
}
