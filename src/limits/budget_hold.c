/*-------------------------------------------------------------------------
 *
 * budget_hold.c
 *		Changes the budgets that counted a hold when the hold spends or
 *		returns credit.
 *
 * A hold has a row for each budget and period that counted it. Credit that was
 * drawn first is spent first, so a capture counts in the earliest period.
 * Returned credit was drawn last, and refunded credit was spent last. Credit
 * that was drawn before a budget was set does not count in the budget, and was
 * drawn first.
 *
 * The hold of a lease counts only in hard budgets.  What is captured of it
 * counts in the other budgets at the time of the capture, because those never
 * refuse and only report what was spent.
 *
 * Locks: counters in BUDGET_ORDER, or the hold's slice of each.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/errors.h"
#include "util/sql.h"
#include "limits/budget_slice.h"
#include "util/clock.h"

#define SHARES_READ \
	"SELECT h.account, h.period, h.period_start, h.reserved, h.spent" \
	" FROM gpucredit.hold_budget h JOIN gpucredit.budget_counter c" \
	"  ON c.org = h.org AND c.account = h.account" \
	"  AND c.period = h.period AND c.period_start = h.period_start" \
	" WHERE h.org = $1 AND h.hold = $2 AND c.org = $1" \
	" ORDER BY" BUDGET_ORDER " FOR NO KEY UPDATE OF c"

SQL_STATEMENT(shares_lock, SPI_OK_SELECT, "text, bigint", SHARES_READ);
SQL_STATEMENT(shares_lock_free, SPI_OK_SELECT, "text, bigint",
			  SHARES_READ " SKIP LOCKED");
SQL_STATEMENT(shares_count, SPI_OK_SELECT, "text, bigint",
			  "SELECT pg_catalog.count(*) FROM gpucredit.hold_budget h"
			  " WHERE h.org = $1 AND h.hold = $2");
/* The budgets that count what a hold still holds. */
SQL_STATEMENT(shares_held, SPI_OK_SELECT, "text, bigint",
			  "SELECT DISTINCT h.account, h.period FROM gpucredit.hold_budget h"
			  " WHERE h.org = $1 AND h.hold = $2"
			  " AND h.reserved OPERATOR(gpucredit.>) '0'");
#define CHANGE \
	" SET reserved = t.reserved OPERATOR(gpucredit.-) $5," \
	" spent = t.spent OPERATOR(gpucredit.+) $6" \
	" WHERE t.org = $1 AND t.account = $2 AND t.period = $3" \
	" AND t.period_start = $4"
#define CHANGE_TYPES \
	"text, text, text, timestamptz, gpucredit.credits, gpucredit.credits"
SQL_STATEMENT(count_return, SPI_OK_UPDATE, CHANGE_TYPES,
			  "UPDATE gpucredit.budget_counter t" CHANGE);
SQL_STATEMENT(share_return, SPI_OK_UPDATE, CHANGE_TYPES ", bigint",
			  "UPDATE gpucredit.hold_budget t" CHANGE " AND t.hold = $7");

static void drop_held(const Hold *hold, BudgetSet *set);
static int	budget_end(const HoldShares *shares, int first);
static void divide(const Hold *hold, HoldShare *shares, int n,
				   Credits captured, Credits given_back);
static void write_share(const Hold *hold, const HoldShare *share);

/*
 * Locks the counters in which a hold counts.  Returns false if wait is false
 * and one of them is locked.
 */
bool
BudgetLockHold(const Hold *hold, bool wait, HoldShares *shares)
{
	Values	   *args;
	SqlResult	rows;
	int64		counted = 0;

	shares->n = 0;
	if (!hold->counted)
		return true;
	if (hold->sliced)
		return SharesLockSlices(hold, wait, shares);
	args = VALUES(TextValue(hold->org), Int8Value(hold->hold));
	if (!wait)
	{
		counted = SqlInt8(SqlRun(&shares_count, args), 0, 1);
		if (counted == 0)
			return true;
	}
	rows = SqlRun(wait ? &shares_lock : &shares_lock_free, args);
	shares->n = (int) rows.n;
	shares->shares = palloc0(sizeof(HoldShare) * (rows.n + 1));
	for (uint64 i = 0; i < rows.n; i++)
	{
		HoldShare  *share = &shares->shares[i];

		share->account = SqlText(rows, i, 1);
		share->period = SqlText(rows, i, 2);
		share->period_start = SqlTime(rows, i, 3);
		share->reserved = SqlCredits(rows, i, 4);
		share->spent = SqlCredits(rows, i, 5);
	}
	SqlFree(&rows);
	return wait || counted == shares->n;
}

/*
 * Locks the budgets that count the locked hold of a lease, and the present
 * budgets that do not. The latter become the set, which may be empty.
 */
void
BudgetLockLeased(const Hold *hold, BudgetSet *set)
{
	AccountPath path = AccountParse(hold->org, hold->account);

	BudgetLockUnion(&path, &hold->hold, 1, ClockNow(), set);
	drop_held(hold, set);
}

/*
 * Counts what a locked hold of a lease captures in the budgets that
 * BudgetLockLeased() locked, which do not count the hold.  It counts as
 * reserved first, and BudgetReturn() then moves it to spent.
 */
void
BudgetCountLeased(Hold *hold, const BudgetSet *known, Credits captured,
				  TimestampTz at)
{
	AccountPath path = AccountParse(hold->org, hold->account);
	BudgetSet	set;

	if (known->n == 0)
		return;
	/* The credit is already spent, so budgets cannot refuse it. */
	(void) BudgetLock(&path, captured, true, known, &set);
	BudgetDebit(&set, captured, at);
	BudgetShare(&set, hold->hold, false, captured);
	hold->counted = true;
}

/* Drops from the set the budgets that count what a hold holds. */
static void
drop_held(const Hold *hold, BudgetSet *set)
{
	SqlResult	rows = SqlRun(&shares_held,
							  VALUES(TextValue(hold->org),
									 Int8Value(hold->hold)));
	int			n = 0;

	for (int i = 0; i < set->n; i++)
	{
		bool		held = false;

		for (uint64 r = 0; r < rows.n; r++)
			held |= strcmp(set->counts[i].account, SqlText(rows, r, 1)) == 0 &&
				strcmp(set->counts[i].period, SqlText(rows, r, 2)) == 0;
		if (!held)
			set->counts[n++] = set->counts[i];
	}
	set->n = n;
	SqlFree(&rows);
}

/*
 * Changes the budgets that counted a locked hold when the hold captures one
 * amount and returns another. hold is as it was before.
 */
void
BudgetReturn(const Hold *hold, HoldShares *shares, Credits captured,
			 Credits given_back)
{
	for (int first = 0, end; first < shares->n; first = end)
	{
		end = budget_end(shares, first);
		divide(hold, &shares->shares[first], end - first, captured,
			   given_back);
	}
	for (int i = 0; i < shares->n; i++)
	{
		if (shares->shares[i].unreserve > 0)
			write_share(hold, &shares->shares[i]);
	}
}

/*
 * Changes the budgets that counted a locked hold when the hold refunds an
 * amount, beginning with the last period.
 */
void
BudgetRefund(const Hold *hold, HoldShares *shares, Credits amount)
{
	for (int first = 0, end; first < shares->n; first = end)
	{
		Credits		left = amount;

		end = budget_end(shares, first);
		for (int i = end - 1; i >= first; i--)
		{
			Credits		part = Min(left, shares->shares[i].spent);

			if (part == 0)
				continue;
			shares->shares[i].spend = -part;
			write_share(hold, &shares->shares[i]);
			left -= part;
		}
	}
}

/*
 * Returns the index after the last period of the first budget. The periods of
 * one budget follow each other, the earliest first.
 */
static int
budget_end(const HoldShares *shares, int first)
{
	const HoldShare *of = &shares->shares[first];
	int			end = first + 1;

	while (end < shares->n &&
		   strcmp(shares->shares[end].account, of->account) == 0 &&
		   strcmp(shares->shares[end].period, of->period) == 0)
		end++;
	return end;
}

/* Divides what is captured and returned over the periods of one budget. */
static void
divide(const Hold *hold, HoldShare *shares, int n, Credits captured,
	   Credits given_back)
{
	Credits		counted = 0;

	for (int i = 0; i < n; i++)
		counted += shares[i].reserved;
	if (!hold->leased)
		captured = Max(captured - (hold->held - counted), 0);
	for (int i = 0; i < n; i++)
	{
		Credits		part = Min(captured, shares[i].reserved);

		shares[i].unreserve = shares[i].spend = part;
		captured -= part;
	}
	for (int i = n - 1; i >= 0; i--)
	{
		Credits		part = Min(given_back,
							   shares[i].reserved - shares[i].unreserve);

		shares[i].unreserve += part;
		given_back -= part;
	}
}

/* Writes one share, and its counter. */
static void
write_share(const Hold *hold, const HoldShare *share)
{
	Values	   *args = VALUES(TextValue(hold->org), TextValue(share->account),
							  TextValue(share->period),
							  TimeValue(share->period_start),
							  CreditsValue(share->unreserve),
							  CreditsValue(share->spend));

	if (share->slice > 0)
		ShareReturnSlice(hold->org, share);
	else
		Ensure(SqlRun(&count_return, args).n == 1,
			   "A budget's counter is missing.");
	ValuesAdd(args, Int8Value(hold->hold));
	Ensure(SqlRun(&share_return, args).n == 1,
		   "A hold's share of a budget is missing.");
}
