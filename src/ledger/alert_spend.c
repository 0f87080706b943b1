/*-------------------------------------------------------------------------
 *
 * alert_spend.c
 *		At a settlement: is the day dearer than usual?
 *
 * What that means says gpucredit_internal.high_spend(), which adds up exactly, and
 * which gpucredit_internal.alert_spend() asks; but nearly no day is dear, and each
 * settlement asks.  So the same rows are added up here first, in floating
 * point, and it is asked only where it might be so.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "util/compat.h"
#include "util/path.h"
#include "util/sql.h"
#include "ledger/alert.h"
#include "utils/builtins.h"
#include "utils/date.h"

#define DELTAS_MOST		200		/* a call looks at; maintain() at all */
#define DAYS			30		/* of an average */
#define DEAR			1.3		/* times the average */
#define MICRO			1e6		/* of a credit */
#define SLACK			1e-9	/* more than sums of so few numbers err by */

/* What one account and all below it spent. */
typedef struct Spending
{
	double		today;
	double		past;			/* the days before */
	double		most;			/* what was added, were it all of one sign */
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
			  "SELECT d.account, d.day, d.spent FROM gpucredit.spend_delta d"
			  " WHERE d.org = $1 ORDER BY d.day LIMIT $2");
SQL_STATEMENT(alert_spend, SPI_OK_SELECT, "text, text[], timestamptz, int",
			  "SELECT gpucredit_internal.alert_spend($1, $2, $3, $4)");

static bool might_be_dear(const AccountPath *path, TimestampTz at);
static bool see_day(void *context, const Datum *values, const bool *nulls);
static bool see_delta(void *context, const Datum *values, const bool *nulls);
static void add(SpendLook *look, int level, DateADT day, double spent);

/*
 * Alert where an account on a path spent more today than it uses to.
 */
void
AlertSpend(const char *org, const char *account, TimestampTz at)
{
	AccountPath path = AccountParse(org, account);
	SqlArgs		args = {0};

	if (IsolationIsSerializable() || !might_be_dear(&path, at))
		return;
	SqlArgText(&args, org);
	SqlArgTextArray(&args, path.accounts, path.n);
	SqlArgTime(&args, at);
	SqlArgInt4(&args, DELTAS_MOST);
	(void) SqlRun(&alert_spend, &args);
}

/*
 * False: it is not.
 */
static bool
might_be_dear(const AccountPath *path, TimestampTz at)
{
	SpendLook	look = {.path = path};
	SqlArgs		args = {0};

	look.today = (DateADT) (at / USECS_PER_DAY);
	if (at < look.today * USECS_PER_DAY)
		look.today--;
	look.of = palloc0(sizeof(Spending) * path->n);
	for (int level = 0; level < path->n; level++)
		look.of[level].first = look.today;

	SqlArgText(&args, path->org);
	SqlArgTextArray(&args, path->accounts, path->n);
	SqlArg(&args, DateADTGetDatum(look.today - DAYS));
	SqlArg(&args, DateADTGetDatum(look.today));
	SqlEach(&days_read, &args, false, see_day, &look);
	args = (SqlArgs){0};
	SqlArgText(&args, path->org);
	SqlArgInt4(&args, DELTAS_MOST + 1);
	SqlEach(&deltas_read, &args, false, see_delta, &look);
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
 * A day of an account and all below it, as far as it is folded.
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
 * What an account spent, and is not folded; the oldest first.  Where nothing
 * was spent before today, the first says so.
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
