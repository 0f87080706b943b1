/*-------------------------------------------------------------------------
 *
 * spend_alert.c
 *		Raises an alert if an account spends unusually much on a day.
 *
 * gpucredit_internal.high_spend() defines what an expensive day is, and
 * computes the sums exactly. Nearly no day is expensive, and each settlement
 * checks. So AlertSpend() first adds up the same rows in floating point, and
 * calls that function only if the day may be expensive.  It leaves out what
 * running attempts have used since the last upkeep; upkeep raises an alert
 * that is missed because of this.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "util/sql.h"
#include "ledger/alert.h"
#include "utils/builtins.h"
#include "util/path.h"
#include "utils/date.h"

#define DELTAS_MOST		200		/* rows that a call reads at most; maintain()
								 * reads all */
#define DAYS			30		/* days over which the average is computed */
#define DEAR			1.3		/* an expensive day spends more than this many
								 * times the average */
#define MICRO			1e6		/* micro-credits in a credit */
#define SLACK			1e-9	/* larger than the relative rounding error of
								 * these sums */

/* What one account and all accounts below it spent. */
typedef struct Spending
{
	double		today;
	double		past;			/* on the days before today */
	double		most;			/* sum of the absolute values */
	DateADT		first;			/* first day of which there is a row */
} Spending;

typedef struct SpendSums
{
	const AccountPath *path;
	DateADT		today;
	Spending   *of;				/* one element for each account of the path */
	bool		past;			/* whether there is a day before today */
	int			deltas;
} SpendSums;

SQL_STATEMENT(days_read, SPI_OK_SELECT, "text, text[], date, date",
			  "SELECT s.account, s.day,"
			  " s.spent OPERATOR(pg_catalog.+) s.used FROM " PATH_LEVELS(2)
			  ", LATERAL (SELECT d.account, d.day, d.spent,"
			  "  d.used FROM gpucredit.spend_day d WHERE d.org = $1"
			  "  AND d.account = p.account AND d.day >= $3 AND d.day <= $4"
			  "  OFFSET 0) s");
SQL_STATEMENT(deltas_read, SPI_OK_SELECT, "text, int",
			  "SELECT d.account, d.day, d.spent FROM gpucredit.account_delta d"
			  " WHERE d.org = $1 AND d.day IS NOT NULL"
			  " ORDER BY d.day LIMIT $2");
SQL_STATEMENT(alert_spend, SPI_OK_SELECT,
			  "text, text[], timestamptz, int, bigint",
			  "SELECT gpucredit_internal.alert_spend(ARRAY[$1], $2, $3, $4,"
			  " $5)");

static bool might_be_dear(const AccountPath *path, TimestampTz at);
static bool add_day_spent(void *context, const Datum *values, const bool *nulls);
static bool add_unfolded_spent(void *context, const Datum *values, const bool *nulls);
static void add(SpendSums *sums, int level, DateADT day, double spent);

/*
 * Raises an alert if an account on a path has spent unusually much today.
 * settling is the job whose attempt is being settled, or 0.
 */
void
AlertSpend(const char *org, const char *account, TimestampTz at,
		   int64 settling)
{
	AccountPath path = AccountParse(org, account);

	if (IsolationIsSerializable() || !might_be_dear(&path, at))
		return;
	(void) SqlRun(&alert_spend,
				  VALUES(TextValue(org), TextArrayValue(path.accounts, path.n),
						 TimeValue(at), Int4Value(DELTAS_MOST),
						 Int8ValueOrNull(settling)));
}

/* Whether today may be an expensive day for an account of the path. */
static bool
might_be_dear(const AccountPath *path, TimestampTz at)
{
	SpendSums	sums = {.path = path};

	sums.today = (DateADT) (at / USECS_PER_DAY);
	if (at < sums.today * USECS_PER_DAY)
		sums.today--;
	sums.of = palloc0(sizeof(Spending) * path->n);
	for (int level = 0; level < path->n; level++)
		sums.of[level].first = sums.today;

	SqlEach(&days_read,
			VALUES(TextValue(path->org),
				   TextArrayValue(path->accounts, path->n),
				   DatumValue(DateADTGetDatum(sums.today - DAYS)),
				   DatumValue(DateADTGetDatum(sums.today))), false, add_day_spent,
			&sums);
	SqlEach(&deltas_read,
			VALUES(TextValue(path->org),
				   Int4Value(DELTAS_MOST + 1)), false, add_unfolded_spent, &sums);
	if (!sums.past || sums.deltas > DELTAS_MOST)
		return false;

	for (int level = 0; level < path->n; level++)
	{
		const Spending *of = &sums.of[level];
		double		slack = of->most * SLACK;
		int32		days = sums.today - of->first;

		if (days > 0 && of->past > -slack &&
			(of->today + slack) * days > (of->past - slack) * DEAR)
			return true;
	}
	return false;
}

/*
 * Adds what an account and all accounts below it spent on a day that upkeep
 * has already summed up.
 */
static bool
add_day_spent(void *context, const Datum *values, const bool *nulls)
{
	SpendSums  *sums = context;
	char	   *account = TextDatumGetCString(values[0]);
	double		spent = DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow,
														   values[2]));

	sums->past |= DatumGetDateADT(values[1]) < sums->today;
	for (int level = 0; level < sums->path->n; level++)
	{
		if (strcmp(sums->path->accounts[level], account) == 0)
			add(sums, level, DatumGetDateADT(values[1]), spent);
	}
	return true;
}

/*
 * Adds what an account spent that upkeep has not summed up yet. The oldest row
 * comes first, so the first row shows whether anything was spent before today.
 */
static bool
add_unfolded_spent(void *context, const Datum *values, const bool *nulls)
{
	SpendSums  *sums = context;
	bool		dated = !nulls[1];	/* a row that repairs sums belongs to no
									 * day */
		char	   *account;
	double		spent;

	if (dated && DatumGetDateADT(values[1]) < sums->today)
		sums->past = true;
	if (!sums->past || ++sums->deltas > DELTAS_MOST)
		return false;
	if (!dated)
		return true;
	account = TextDatumGetCString(values[0]);
	spent = (double) DatumGetCredits(values[2]) / MICRO;
	for (int level = 0; level < sums->path->n; level++)
	{
		if (PathIsBelow(account, sums->path->accounts[level]))
			add(sums, level, DatumGetDateADT(values[1]), spent);
	}
	return true;
}

static void
add(SpendSums *sums, int level, DateADT day, double spent)
{
	Spending   *of = &sums->of[level];

	if (day < sums->today - DAYS || day > sums->today)
		return;
	if (day == sums->today)
		of->today += spent;
	else
		of->past += spent;
	of->most += Abs(spent);
	of->first = Min(of->first, day);
}
