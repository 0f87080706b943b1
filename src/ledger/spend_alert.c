/*-------------------------------------------------------------------------
 *
 * spend_alert.c
 *		An alert of an account that spends unusually much on a day.
 *
 * gpucredit_internal.high_spend() says what an expensive day is, and adds up
 * exactly. Nearly no day is one, and each settlement asks. So AlertSpend()
 * first adds up the same rows in floating point, and asks only if the day may
 * be one.
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

typedef struct SpendLook
{
	const AccountPath *path;
	DateADT		today;
	Spending   *of;				/* each account of the path */
	bool		past;			/* there is a day before this one */
	int			deltas;
} SpendLook;

SQL_STATEMENT(days_read, SPI_OK_SELECT, "text, text[], date, date",
			  "SELECT s.account, s.day, s.spent FROM " PATH_LEVELS(2)
			  ", LATERAL (SELECT d.account, d.day, d.spent"
			  "  FROM gpucredit.spend_day d WHERE d.org = $1"
			  "  AND d.account = p.account AND d.day >= $3 AND d.day <= $4"
			  "  OFFSET 0) s");
SQL_STATEMENT(deltas_read, SPI_OK_SELECT, "text, int",
			  "SELECT d.account, d.day, d.spent FROM gpucredit.account_delta d"
			  " WHERE d.org = $1 AND d.day IS NOT NULL"
			  " ORDER BY d.day LIMIT $2");
SQL_STATEMENT(alert_spend, SPI_OK_SELECT, "text, text[], timestamptz, int",
			  "SELECT gpucredit_internal.alert_spend(ARRAY[$1], $2, $3, $4)");

static bool might_be_dear(const AccountPath *path, TimestampTz at);
static bool see_day(void *context, const Datum *values, const bool *nulls);
static bool see_delta(void *context, const Datum *values, const bool *nulls);
static void add(SpendLook *look, int level, DateADT day, double spent);

/*
 * Alert if an account on a path spent unusually much today.
 */
void
AlertSpend(const char *org, const char *account, TimestampTz at)
{
	AccountPath path = AccountParse(org, account);

	if (IsolationIsSerializable() || !might_be_dear(&path, at))
		return;
	(void) SqlRun(&alert_spend,
				  VALUES(TextValue(org), TextArrayValue(path.accounts, path.n),
						 TimeValue(at), Int4Value(DELTAS_MOST)));
}

/*
 * May today be an expensive day for an account of the path?
 */
static bool
might_be_dear(const AccountPath *path, TimestampTz at)
{
	SpendLook	look = {.path = path};

	look.today = (DateADT) (at / USECS_PER_DAY);
	if (at < look.today * USECS_PER_DAY)
		look.today--;
	look.of = palloc0(sizeof(Spending) * path->n);
	for (int level = 0; level < path->n; level++)
		look.of[level].first = look.today;

	SqlEach(&days_read,
			VALUES(TextValue(path->org),
				   TextArrayValue(path->accounts, path->n),
				   DatumValue(DateADTGetDatum(look.today - DAYS)),
				   DatumValue(DateADTGetDatum(look.today))), false, see_day,
			&look);
	SqlEach(&deltas_read,
			VALUES(TextValue(path->org),
				   Int4Value(DELTAS_MOST + 1)), false, see_delta, &look);
	if (!look.past || look.deltas > DELTAS_MOST)
		return false;

	for (int level = 0; level < path->n; level++)
	{
		const Spending *of = &look.of[level];
		double		slack = of->most * SLACK;
		int32		days = look.today - of->first;

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
see_day(void *context, const Datum *values, const bool *nulls)
{
	SpendLook  *look = context;
	char	   *account = TextDatumGetCString(values[0]);
	double		spent = DatumGetFloat8(DirectFunctionCall1(numeric_float8_no_overflow,
														   values[2]));

	look->past |= DatumGetDateADT(values[1]) < look->today;
	for (int level = 0; level < look->path->n; level++)
	{
		if (strcmp(look->path->accounts[level], account) == 0)
			add(look, level, DatumGetDateADT(values[1]), spent);
	}
	return true;
}

/*
 * What an account spent that is not folded yet, the oldest first. The first
 * row says whether anything was spent before today.
 */
static bool
see_delta(void *context, const Datum *values, const bool *nulls)
{
	SpendLook  *look = context;
	bool		dated = !nulls[1];	/* a repair is of no day */
	char	   *account;
	double		spent;

	if (dated && DatumGetDateADT(values[1]) < look->today)
		look->past = true;
	if (!look->past || ++look->deltas > DELTAS_MOST)
		return false;
	if (!dated)
		return true;
	account = TextDatumGetCString(values[0]);
	spent = (double) DatumGetCredits(values[2]) / MICRO;
	for (int level = 0; level < look->path->n; level++)
	{
		if (PathIsBelow(account, look->path->accounts[level]))
			add(look, level, DatumGetDateADT(values[1]), spent);
	}
	return true;
}

static void
add(SpendLook *look, int level, DateADT day, double spent)
{
	Spending   *of = &look->of[level];

	if (day < look->today - DAYS || day > look->today)
		return;
	if (day == look->today)
		of->today += spent;
	else
		of->past += spent;
	of->most += Abs(spent);
	of->first = Min(of->first, day);
}
