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
 * Of an account with slices (slice.h) a hold draws in its slice if it can.
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
#include "ledger/parts.h"
#include "ledger/slice.h"
#include "utils/resowner.h"

/* Credit on its way into a hold. */
typedef struct Opening
{
	Draw	   *draw;
	BudgetSet	budgets;
	Hold	   *hold;
	const Cause *cause;
	void		(*write) (struct Opening *opening);
	int64		ttl;			/* of a caller's own, new hold */
} Opening;

SQL_STATEMENT(hold_next, SPI_OK_SELECT, "",
			  "SELECT pg_catalog.nextval('gpucredit.hold_hold_seq')");
SQL_STATEMENT(hold_insert, SPI_OK_INSERT,
			  "text, bigint, text, bigint, gpucredit.credits, timestamptz,"
			  " timestamptz, boolean",
			  "INSERT INTO gpucredit.hold (org, hold, account, job, drawn,"
			  " held, expires_at, created_at, sliced)"
			  " VALUES ($1, $2, $3, $4, $5, $5, $6, $7, $8)");
#define HOLD_READ \
	"SELECT h.account, h.job, h.drawn, h.held, h.captured, h.released," \
	" h.lapsed, h.expires_at, h.closed_at, h.sliced" \
	" FROM gpucredit.hold h" \
	" WHERE h.org = $1 AND h.hold = $2 FOR NO KEY UPDATE"
SQL_STATEMENT(hold_lock, SPI_OK_SELECT, "text, bigint", HOLD_READ);
SQL_STATEMENT(hold_lock_free, SPI_OK_SELECT, "text, bigint",
			  HOLD_READ " SKIP LOCKED");
SQL_STATEMENT(hold_update, SPI_OK_UPDATE,
			  "text, bigint, gpucredit.credits, gpucredit.credits,"
			  " gpucredit.credits, gpucredit.credits, gpucredit.credits,"
			  " timestamptz, boolean",
			  "UPDATE gpucredit.hold h SET drawn = $3, held = $4,"
			  " captured = $5, released = $6, lapsed = $7, closed_at = $8,"
			  " sliced = $9"
			  " WHERE h.org = $1 AND h.hold = $2");
SQL_STATEMENT(part_last, SPI_OK_SELECT, "text, bigint",
			  "SELECT COALESCE(pg_catalog.max(p.part), 0)"
			  " FROM gpucredit.hold_part p WHERE p.org = $1 AND p.hold = $2");

static LedgerStatus carry_out(Opening *opening);
static bool draw_in_slice(Opening *opening);
static bool write_planned(Opening *opening);
static void write_open(Opening *opening);
static void write_extension(Opening *opening);
static LedgerStatus find_credit(Draw *draw, BudgetSet *budgets);
static LedgerStatus lock_credit(Draw *draw, BudgetSet *budgets);
static void post_draw(Opening *opening, int32 last_part);
static int64 next_hold(void);
static int32 last_part(const Hold *hold);
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
	Opening		opening = {&draw, .hold = hold, .cause = cause,
		.write = write_open, .ttl = ttl};
	LedgerStatus status;

	memset(hold, 0, sizeof(Hold));
	hold->org = path->org;
	hold->account = pstrdup(path->accounts[0]);
	hold->job = cause->job;
	hold->closed_at = DT_NOBEGIN;
	hold->sliced = path->sliced;
	if (hold->sliced)
		hold->hold = next_hold();	/* says which slice */
	status = carry_out(&opening);
	*at = draw.at;
	return status;
}

/*
 * Draw more into a locked, open hold, whole or not at all.
 */
LedgerStatus
HoldExtend(Hold *hold, const AccountPath *path, const Purpose *purpose,
		   const Cause *cause, Credits amount, bool wait, TimestampTz *at)
{
	Draw		draw = {.path = path, .purpose = purpose, .hold = hold,
		.amount = amount, .wait = wait};
	Opening		opening = {&draw, .hold = hold, .cause = cause,
		.write = write_extension};
	LedgerStatus status;

	hold->sliced |= path->sliced;
	status = carry_out(&opening);
	*at = draw.at;
	if (status != LEDGER_DONE)
		return status;
	hold->drawn = CreditsAdd(hold->drawn, amount);
	hold->held = CreditsAdd(hold->held, amount);
	update_hold(hold);
	return LEDGER_DONE;
}

/*
 * Find the credit, in the hold's slice if it is there, else at large; dead
 * holds are released first if it takes that.  Then write what was drawn.
 */
static LedgerStatus
carry_out(Opening *opening)
{
	Draw	   *draw = opening->draw;
	const Purpose *purpose = draw->purpose;
	LockedBuckets locked = {-1, NULL, NULL};
	Purpose		within;
	LedgerStatus status = LEDGER_DONE;

	if (draw->wait && purpose->locked == NULL)
		locked = LedgerReclaim(draw->path, purpose, draw->amount);
	if (locked.n >= 0)
	{
		within = *purpose;
		within.locked = &locked;
		draw->purpose = &within;
	}
	if (!draw->path->sliced || draw->purpose->locked != NULL ||
		!draw_in_slice(opening))
	{
		status = find_credit(draw, &opening->budgets);
		if (status == LEDGER_DONE)
			opening->write(opening);
	}
	draw->purpose = purpose;
	if (status == LEDGER_DONE)
		AlertDrawn(draw);
	else if (status == LEDGER_SHORT)
		AlertBalance(draw->path, draw->at);
	return status;
}

/*
 * Draw in the hold's slice.  False: it is not all there, and nothing was done
 * or (unless that never waits) locked.  What is locked here is written here:
 * a row that a subtransaction locks and another updates needs a multixact.
 */
static bool
draw_in_slice(Opening *opening)
{
	Draw	   *draw = opening->draw;
	int64		hold = opening->hold->hold;
	MemoryContext memory = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool found = false;

	if (draw->amount == 0 || !LedgerPlanSlice(draw, hold) ||
		!BudgetPlanSlice(draw->path, hold, &opening->budgets))
		return false;
	if (!draw->wait)
		return write_planned(opening);
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(memory);
	PG_TRY();
	{
		found = write_planned(opening);
		if (found)
			ReleaseCurrentSubTransaction();
		else
			RollbackAndReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(memory);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		ReThrowError(error);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(memory);
	CurrentResourceOwner = owner;
	return found;
}

/*
 * Lock what was planned in the hold's slice, and write it.
 */
static bool
write_planned(Opening *opening)
{
	Draw	   *draw = opening->draw;

	if (!BudgetLockPlanned(&opening->budgets, draw->amount, draw->wait) ||
		!LedgerLockPlanned(draw))
		return false;
	opening->write(opening);
	return true;
}

/*
 * Write a new hold and what it draws.
 */
static void
write_open(Opening *opening)
{
	Draw	   *draw = opening->draw;
	Hold	   *hold = opening->hold;
	SqlArgs		args = {0};

	if (hold->hold == 0)
		hold->hold = next_hold();
	hold->drawn = hold->held = draw->amount;
	hold->expires_at = opening->ttl > 0 ? ClockAdd(draw->at, opening->ttl) :
		DT_NOEND;

	SqlArgText(&args, hold->org);
	SqlArgInt8(&args, hold->hold);
	SqlArgText(&args, hold->account);
	if (hold->job == 0)
		SqlArgNull(&args);
	else
		SqlArgInt8(&args, hold->job);
	SqlArgCredits(&args, draw->amount);
	if (opening->ttl > 0)
		SqlArgTime(&args, hold->expires_at);
	else
		SqlArgNull(&args);
	SqlArgTime(&args, draw->at);
	SqlArgBool(&args, hold->sliced);
	(void) SqlRun(&hold_insert, &args);
	BudgetTake(&opening->budgets, hold->hold, draw->amount, draw->at);
	post_draw(opening, 0);
}

/*
 * Write what an extension draws.
 */
static void
write_extension(Opening *opening)
{
	Draw	   *draw = opening->draw;
	Hold	   *hold = opening->hold;

	BudgetTake(&opening->budgets, hold->hold, draw->amount, draw->at);
	post_draw(opening, last_part(hold));
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
 * Give an amount of a locked, open hold back, last drawn first.
 */
LedgerStatus
HoldShrink(Hold *hold, const Cause *cause, Credits amount, bool wait,
		   Returned *returned)
{
	HoldPart   *parts;
	HoldShares	shares;
	int			n;

	if (!BudgetLockHold(hold, wait, &shares))
		return LEDGER_BUSY;
	n = PartsLock(hold, wait, &parts);
	if (n < 0)
		return LEDGER_BUSY;
	BudgetReturn(hold, &shares, 0, amount);
	*returned = PartsGiveBack(hold, cause, parts, n, 0, amount, ClockNow());
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
	HoldPart   *parts;
	HoldShares	shares;
	Returned	returned;
	int			n;

	(void) BudgetLockHold(hold, true, &shares);
	n = PartsLock(hold, true, &parts);
	Ensure(n >= 0 && captured <= hold->held,
		   "A settlement passes what is held.");
	*at = ClockNow();
	BudgetReturn(hold, &shares, captured,
				 final ? hold->held - captured : 0);
	returned = PartsGiveBack(hold, cause, parts, n, captured,
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
	hold->sliced = SqlBool(row, 0, 10);
	SqlFree(&row);
	return true;
}

/*
 * Enter what was drawn, as parts in the order drawn.
 */
static void
post_draw(Opening *opening, int32 last_part)
{
	Draw	   *draw = opening->draw;
	Hold	   *hold = opening->hold;
	Move	   *moves = palloc(sizeof(Move) * Max(draw->nparts, 1));
	Posting		posting = {.org = draw->path->org, .account = hold->account,
		.cause = opening->cause, .hold = hold->hold, .at = draw->at,
		.n = draw->nparts, .moves = moves};

	LedgerEven(draw);
	for (int i = 0; i < draw->nparts; i++)
		moves[i] = (Move)
	{
		draw->parts[i].bucket, last_part + 1 + i, AVAILABLE, HELD,
			draw->parts[i].amount, draw->parts[i].slice
	};
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
	SqlArgBool(&args, hold->sliced);
	Ensure(SqlRun(&hold_update, &args).n == 1, "A hold is missing.");
}
