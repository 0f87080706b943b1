/*-------------------------------------------------------------------------
 *
 * hold.c
 *		Holds: credit set aside, spent in the order drawn, returned last
 *		drawn first, to the very buckets it came from.
 *
 * What returns to a bucket that has expired goes to "expired", to one that
 * was revoked to "revoked": it lapsed.  A hold taken before its buckets
 * expired stays good until it is settled.
 *
 * Locks: hold, then budgets leaf to root, then buckets in burn order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/clock.h"
#include "common/errors.h"
#include "common/sql.h"
#include "ledger/alert.h"
#include "ledger/budget.h"
#include "ledger/post.h"

/* A part of a hold, with the state of its bucket. */
typedef struct Part
{
	int32		part;
	int64		bucket;
	Credits		held;
	TimestampTz expires_at;
	bool		closed;
} Part;

SQL_STATEMENT(hold_next, SPI_OK_SELECT, "",
			  "SELECT pg_catalog.nextval('gpucredit.hold_hold_seq')");
SQL_STATEMENT(hold_insert, SPI_OK_INSERT,
			  "text, bigint, text, bigint, gpucredit.credits, timestamptz,"
			  " timestamptz",
			  "INSERT INTO gpucredit.hold"
			  " (org, hold, account, job, drawn, held, expires_at, created_at)"
			  " VALUES ($1, $2, $3, $4, $5, $5, $6, $7)");
#define HOLD_READ \
	"SELECT h.account, h.job, h.drawn, h.held, h.captured, h.released," \
	" h.lapsed, h.expires_at, h.closed_at FROM gpucredit.hold h" \
	" WHERE h.org = $1 AND h.hold = $2 FOR NO KEY UPDATE"
SQL_STATEMENT(hold_lock, SPI_OK_SELECT, "text, bigint", HOLD_READ);
SQL_STATEMENT(hold_lock_free, SPI_OK_SELECT, "text, bigint",
			  HOLD_READ " SKIP LOCKED");
SQL_STATEMENT(hold_update, SPI_OK_UPDATE,
			  "text, bigint, gpucredit.credits, gpucredit.credits,"
			  " gpucredit.credits, gpucredit.credits, gpucredit.credits,"
			  " timestamptz",
			  "UPDATE gpucredit.hold h SET drawn = $3, held = $4,"
			  " captured = $5, released = $6, lapsed = $7, closed_at = $8"
			  " WHERE h.org = $1 AND h.hold = $2");
SQL_STATEMENT(part_last, SPI_OK_SELECT, "text, bigint",
			  "SELECT COALESCE(pg_catalog.max(p.part), 0)"
			  " FROM gpucredit.hold_part p WHERE p.org = $1 AND p.hold = $2");
#define PARTS_READ \
	"SELECT p.part, p.bucket, p.held, b.expires_at," \
	" b.closed_at IS NOT NULL" \
	" FROM gpucredit.hold_part p JOIN gpucredit.bucket b" \
	"  ON b.org = p.org AND b.bucket = p.bucket" \
	" WHERE p.org = $1 AND p.hold = $2 AND b.org = $1" \
	"  AND p.held OPERATOR(gpucredit.>) '0'" \
	" ORDER BY" BURN_ORDER ", p.part FOR NO KEY UPDATE OF b"
SQL_STATEMENT(parts_lock, SPI_OK_SELECT, "text, bigint", PARTS_READ);
SQL_STATEMENT(parts_lock_free, SPI_OK_SELECT, "text, bigint",
			  PARTS_READ " SKIP LOCKED");

static LedgerStatus find_credit(Draw *draw, BudgetSet *budgets);
static LedgerStatus lock_credit(Draw *draw, BudgetSet *budgets);
static void post_draw(Draw *draw, const Cause *cause, const char *account,
					  int64 hold, int32 last_part);
static int64 next_hold(void);
static int32 last_part(const Hold *hold);
static int	lock_parts(const Hold *hold, bool wait, Part **parts);
static int	compare_parts(const void *a, const void *b);
static Returned give_back(Hold *hold, const Cause *cause, Part *parts, int n,
						  Credits capture, Credits amount, TimestampTz at);
static void update_hold(const Hold *hold);

/*
 * Why a hold is denied, as callers are told.
 */
const char *
LedgerReason(LedgerStatus status)
{
	return status == LEDGER_OVER_BUDGET ? "budget_exceeded" :
		"insufficient_credits";
}

/*
 * Draw an amount into a new hold, of a job or (ttl > 0) of a caller's own.
 * *at is the instant it was good for.
 */
LedgerStatus
HoldOpen(const AccountPath *path, const Purpose *purpose, const Cause *cause,
		 Credits amount, int64 ttl, bool wait, Hold *hold, TimestampTz *at)
{
	Draw		draw = {.path = path, .purpose = purpose, .amount = amount,
		.wait = wait};
	BudgetSet	budgets;
	LockedBuckets locked = {-1, NULL, NULL};
	Purpose		within;
	LedgerStatus status;
	SqlArgs		args = {0};

	if (wait && purpose->locked == NULL)
		locked = LedgerReclaim(path, purpose, amount);
	if (locked.n >= 0)
	{
		within = *purpose;
		within.locked = &locked;
		draw.purpose = &within;
	}
	status = find_credit(&draw, &budgets);
	*at = draw.at;
	if (status != LEDGER_DONE)
	{
		if (status == LEDGER_SHORT)
			AlertBalance(path, *at);
		return status;
	}

	memset(hold, 0, sizeof(Hold));
	hold->org = path->org;
	hold->hold = next_hold();
	hold->account = pstrdup(path->accounts[0]);
	hold->job = cause->job;
	hold->drawn = hold->held = amount;
	hold->expires_at = ttl > 0 ? ClockAdd(draw.at, ttl) : DT_NOEND;
	hold->closed_at = DT_NOBEGIN;

	SqlArgText(&args, hold->org);
	SqlArgInt8(&args, hold->hold);
	SqlArgText(&args, hold->account);
	if (hold->job == 0)
		SqlArgNull(&args);
	else
		SqlArgInt8(&args, hold->job);
	SqlArgCredits(&args, amount);
	if (ttl > 0)
		SqlArgTime(&args, hold->expires_at);
	else
		SqlArgNull(&args);
	SqlArgTime(&args, draw.at);
	(void) SqlRun(&hold_insert, &args);
	BudgetTake(&budgets, hold->hold, amount, draw.at);
	post_draw(&draw, cause, hold->account, hold->hold, 0);
	AlertDrawn(&draw);
	return LEDGER_DONE;
}

/*
 * Lock the budgets that must allow a draw, and the buckets it comes from.
 * Short of either, dead holds that can be had without waiting are released,
 * and it is tried once more.
 */
static LedgerStatus
find_credit(Draw *draw, BudgetSet *budgets)
{
	bool		wait = draw->wait;
	LedgerStatus status = lock_credit(draw, budgets);

	if (status == LEDGER_DONE || !LedgerReclaimFree(draw->path->org))
		return status;
	draw->wait = false;			/* what is locked by now forbids it */
	status = lock_credit(draw, budgets);
	draw->wait = wait;
	return status == LEDGER_BUSY && wait ? LEDGER_SHORT : status;
}

static LedgerStatus
lock_credit(Draw *draw, BudgetSet *budgets)
{
	const LockedBuckets *locked = draw->purpose->locked;
	LedgerStatus status;

	draw->at = ClockNow();
	status = BudgetLock(draw->path, draw->amount, draw->wait,
						locked ? locked->budgets : NULL, budgets);
	return status == LEDGER_DONE ? LedgerDraw(draw) : status;
}

/*
 * Draw more into a locked, open hold, whole or not at all.
 */
LedgerStatus
HoldExtend(Hold *hold, const Purpose *purpose, const Cause *cause,
		   Credits amount, bool wait, TimestampTz *at)
{
	AccountPath path = AccountParse(hold->org, hold->account);
	Draw		draw = {.path = &path, .purpose = purpose, .hold = hold,
		.amount = amount, .wait = wait};
	BudgetSet	budgets;
	LockedBuckets locked = {-1, NULL, NULL};
	Purpose		within;
	LedgerStatus status;

	if (wait)
		locked = LedgerReclaim(&path, purpose, amount);
	if (locked.n >= 0)
	{
		within = *purpose;
		within.locked = &locked;
		draw.purpose = &within;
	}
	status = find_credit(&draw, &budgets);
	*at = draw.at;
	if (status != LEDGER_DONE)
	{
		if (status == LEDGER_SHORT)
			AlertBalance(&path, *at);
		return status;
	}
	BudgetTake(&budgets, hold->hold, amount, draw.at);
	post_draw(&draw, cause, hold->account, hold->hold, last_part(hold));
	hold->drawn = CreditsAdd(hold->drawn, amount);
	hold->held = CreditsAdd(hold->held, amount);
	update_hold(hold);
	AlertDrawn(&draw);
	return LEDGER_DONE;
}

/*
 * Give an amount of a locked, open hold back, last drawn first.
 */
LedgerStatus
HoldShrink(Hold *hold, const Cause *cause, Credits amount, bool wait,
		   Returned *returned)
{
	Part	   *parts;
	HoldShares	shares;
	int			n;

	if (!BudgetLockHold(hold, wait, &shares))
		return LEDGER_BUSY;
	n = lock_parts(hold, wait, &parts);
	if (n < 0)
		return LEDGER_BUSY;
	BudgetReturn(hold, &shares, 0, amount);
	*returned = give_back(hold, cause, parts, n, 0, amount, ClockNow());
	update_hold(hold);
	return LEDGER_DONE;
}

/*
 * Spend part of a locked, open hold, first drawn first; final: give the rest
 * back and close it.  *at is the instant.
 */
Returned
HoldSettle(Hold *hold, const Cause *cause, Credits captured, bool final,
		   TimestampTz *at)
{
	Part	   *parts;
	HoldShares	shares;
	Returned	returned;
	int			n;

	(void) BudgetLockHold(hold, true, &shares);
	n = lock_parts(hold, true, &parts);
	Ensure(n >= 0 && captured <= hold->held,
		   "A settlement passes what is held.");
	*at = ClockNow();
	BudgetReturn(hold, &shares, captured,
				 final ? hold->held - captured : 0);
	returned = give_back(hold, cause, parts, n, captured,
						 final ? hold->held - captured : 0, *at);
	if (final)
		hold->closed_at = *at;
	update_hold(hold);
	if (captured > 0)
		SpendAdd(hold, captured, *at);
	return returned;
}

/*
 * Give all of a locked, open hold back and close it, unless a row it needs is
 * locked.
 */
LedgerStatus
HoldTryRelease(Hold *hold, const Cause *cause, Returned *returned,
			   TimestampTz *at)
{
	LedgerStatus status = HoldShrink(hold, cause, hold->held, false,
									 returned);

	if (status != LEDGER_DONE)
		return status;
	*at = hold->closed_at = ClockNow();
	update_hold(hold);
	return LEDGER_DONE;
}

/*
 * Lock a hold's row and read it.  False: there is none (or, with wait =
 * false, another transaction has it).
 */
bool
HoldLock(const char *org, int64 id, bool wait, Hold *hold)
{
	SqlArgs		args = {0};
	SqlResult	row;

	SqlArgText(&args, org);
	SqlArgInt8(&args, id);
	row = SqlRun(wait ? &hold_lock : &hold_lock_free, &args);
	if (row.n == 0)
		return false;
	hold->org = org;
	hold->hold = id;
	hold->account = SqlText(row, 0, 1);
	hold->job = SqlIsNull(row, 0, 2) ? 0 : SqlInt8(row, 0, 2);
	hold->drawn = SqlCredits(row, 0, 3);
	hold->held = SqlCredits(row, 0, 4);
	hold->captured = SqlCredits(row, 0, 5);
	hold->released = SqlCredits(row, 0, 6);
	hold->lapsed = SqlCredits(row, 0, 7);
	hold->expires_at = SqlTimeOr(row, 0, 8, DT_NOEND);
	hold->closed_at = SqlTimeOr(row, 0, 9, DT_NOBEGIN);
	SqlFree(&row);
	return true;
}

/*
 * Enter what was drawn, as parts in the order drawn.
 */
static void
post_draw(Draw *draw, const Cause *cause, const char *account, int64 hold,
		  int32 last_part)
{
	Move	   *moves = palloc(sizeof(Move) * Max(draw->nparts, 1));
	Posting		posting = {.org = draw->path->org, .account = account,
		.cause = cause, .hold = hold, .at = draw->at, .n = draw->nparts,
		.moves = moves};

	for (int i = 0; i < draw->nparts; i++)
	{
		moves[i].bucket = draw->parts[i].bucket;
		moves[i].part = last_part + 1 + i;
		moves[i].source = AVAILABLE;
		moves[i].target = HELD;
		moves[i].amount = draw->parts[i].amount;
	}
	LedgerPost(&posting);
}

static int64
next_hold(void)
{
	return SqlInt8(SqlRun(&hold_next, NULL), 0, 1);
}

static int32
last_part(const Hold *hold)
{
	SqlArgs		args = {0};

	SqlArgText(&args, hold->org);
	SqlArgInt8(&args, hold->hold);
	return SqlInt4(SqlRun(&part_last, &args), 0, 1);
}

/*
 * Lock the buckets of what a hold still holds, in burn order; the parts come
 * in the order drawn.  -1: one of them is locked, and wait was false.
 */
static int
lock_parts(const Hold *hold, bool wait, Part **parts)
{
	SqlArgs		args = {0};
	SqlResult	rows;
	Credits		sum = 0;

	SqlArgText(&args, hold->org);
	SqlArgInt8(&args, hold->hold);
	rows = SqlRun(wait ? &parts_lock : &parts_lock_free, &args);
	*parts = palloc(sizeof(Part) * Max(rows.n, 1));
	for (uint64 i = 0; i < rows.n; i++)
	{
		Part	   *part = &(*parts)[i];

		part->part = SqlInt4(rows, i, 1);
		part->bucket = SqlInt8(rows, i, 2);
		part->held = SqlCredits(rows, i, 3);
		part->expires_at = SqlTimeOr(rows, i, 4, DT_NOEND);
		part->closed = SqlBool(rows, i, 5);
		sum += part->held;
	}
	SqlFree(&rows);
	if (sum != hold->held)
	{
		Ensure(!wait, "A hold is not the sum of its parts.");
		return -1;
	}
	qsort(*parts, rows.n, sizeof(Part), compare_parts);
	return (int) rows.n;
}

static int
compare_parts(const void *a, const void *b)
{
	int32		pa = ((const Part *) a)->part;
	int32		pb = ((const Part *) b)->part;

	return (pa > pb) - (pa < pb);
}

/*
 * Spend the first of the parts, return the last, and enter both.
 */
static Returned
give_back(Hold *hold, const Cause *cause, Part *parts, int n, Credits capture,
		  Credits amount, TimestampTz at)
{
	Returned	returned = {0, 0};
	Move	   *moves = palloc(sizeof(Move) * (2 * n + 1));
	Posting		posting = {.org = hold->org, .account = hold->account,
		.cause = cause, .hold = hold->hold, .at = at, .n = 0,
		.moves = moves};

	for (int i = 0; i < n && capture > 0; i++)
	{
		Credits		part = Min(parts[i].held, capture);

		moves[posting.n++] = (Move)
		{
			parts[i].bucket, parts[i].part, HELD, SPENT, part
		};
		parts[i].held -= part;
		capture -= part;
		hold->held -= part;
		hold->captured += part;
	}
	for (int i = n - 1; i >= 0 && amount > 0; i--)
	{
		Credits		part = Min(parts[i].held, amount);
		Compartment target = parts[i].closed ? REVOKED :
			parts[i].expires_at <= at ? EXPIRED : AVAILABLE;

		if (part == 0)
			continue;
		moves[posting.n++] = (Move)
		{
			parts[i].bucket, parts[i].part, HELD, target, part
		};
		amount -= part;
		hold->held -= part;
		if (target == AVAILABLE)
			returned.released += part;
		else
			returned.lapsed += part;
	}
	Ensure(capture == 0 && amount == 0, "A hold has less than it should.");
	hold->released += returned.released;
	hold->lapsed += returned.lapsed;
	LedgerPost(&posting);
	return returned;
}

/*
 * Write a hold's row as it now is.
 */
static void
update_hold(const Hold *hold)
{
	SqlArgs		args = {0};

	SqlArgText(&args, hold->org);
	SqlArgInt8(&args, hold->hold);
	SqlArgCredits(&args, hold->drawn);
	SqlArgCredits(&args, hold->held);
	SqlArgCredits(&args, hold->captured);
	SqlArgCredits(&args, hold->released);
	SqlArgCredits(&args, hold->lapsed);
	if (HoldIsOpen(hold))
		SqlArgNull(&args);
	else
		SqlArgTime(&args, hold->closed_at);
	Ensure(SqlRun(&hold_update, &args).n == 1, "A hold is missing.");
}
