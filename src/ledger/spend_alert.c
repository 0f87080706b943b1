/*-------------------------------------------------------------------------
 *
 * spend_alert.c
 *		An alert of an account that spends unusually much on a day.
 *
 * gpucredit_internal.high_spend() says what an expensive day is, and adds up
 * exactly. Nearly no day is one, and each settlement asks. So AlertSpend()
 * first adds up the same rows in floating point, and asks only if the day may
 * be one.  It leaves out what running attempts used since the last folding:
 * upkeep raises an alert that this would have raised.
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

#define DELTAS_MOST		200		/* a call reads no more; maintain() does */
#define DAYS			30		/* of an average */
#define DEAR			1.3		/* times the average */
#define MICRO			1e6		/* of a credit */
#define SLACK			1e-9	/* more than the rounding error of these sums */

/* What one account and all below it spent. */
typedef struct Spending
{
	double		today;
	double		past;			/* the days before */
	double		most;			/* sum of the absolute values */
	DateADT		first;			/* day of any */
} Spending;

typedef struct SpendSums
{
	const AccountPath *path;
	DateADT		today;
	Spending   *of;				/* each account of the path */
	bool		past;			/* there is a day before this one */
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
 * Alert if an account on a path spent unusually much today.  settling: the job
 * whose attempt is being settled, 0 if none is.
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

/*
 * May today be an expensive day for an account of the path?
 */
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
 * A folded day of an account and all below it.
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
 * What an account spent that is not folded yet, the oldest first. The first
 * row says whether anything was spent before today.
 */
static bool
add_unfolded_spent(void *context, const Datum *values, const bool *nulls)
{
	SpendSums  *sums = context;
	bool		dated = !nulls[1];	/* a repair is of no day */
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
