/*-------------------------------------------------------------------------
 *
 * hold_open.c
 *		Credit on its way into a hold: one that is opened, or extended.
 *
 * Three ways lead there, and are tried in this order:
 *
 *	at once		everything is written, then the one bucket that has it all is
 *				locked and changed by one statement (hold_at_once.c);
 *	in a slice	of an account with slices, one slice of each bucket is locked,
 *				then the hold is written (hold_in_slice.c);
 *	locked		budgets and buckets are locked, as many as it takes, then the
 *				hold is written (hold_locked.c).
 *
 * The first two run in a subtransaction and leave no trace where they fail.
 * Each writes with HoldWrite(): the hold, its entry, and what the caller writes
 * with it.  That is a callback, as it belongs into the same subtransaction.
 *
 * Locks: dead holds if short, budgets leaf to root, buckets in burn order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/sql.h"
#include "ledger/alert.h"
#include "ledger/hold_opening.h"
#include "ledger/hold_part.h"

static LedgerStatus fill(HoldOpening *opening, TimestampTz *at);
static void add_drawn(Hold *hold, Credits amount);

/*
 * Draw an amount into a new hold, of a job or (ttl > 0) of a caller's own.
 * *at is the instant it was good for.
 */
LedgerStatus
HoldOpen(const AccountPath *path, const Purpose *purpose, const Cause *cause,
		 Credits amount, int64 ttl, bool wait, const Granting *granting,
		 Hold *hold, TimestampTz *at)
{
	HoldOpening opening = {
		.draw = {.path = path, .amount = amount, .wait = wait},
		.purpose = *purpose, .hold = hold, .cause = cause, .ttl = ttl,
		.granting = granting
	};

	memset(hold, 0, sizeof(Hold));
	hold->org = path->org;
	hold->account = pstrdup(path->accounts[0]);
	hold->job = cause->job;
	hold->closed_at = DT_NOBEGIN;
	hold->sliced = path->sliced;
	hold->trace = TraceOr(purpose->trace);
	if (hold->sliced)
		hold->hold = HoldNextId();	/* says which slice */
	return fill(&opening, at);
}

/*
 * Draw more into a locked, open hold, whole or not at all.
 */
LedgerStatus
HoldExtend(Hold *hold, const AccountPath *path, const Purpose *purpose,
		   const Cause *cause, Credits amount, bool wait, TimestampTz *at)
{
	HoldOpening opening = {
		.draw = {.path = path, .hold = hold, .amount = amount, .wait = wait},
		.purpose = *purpose, .hold = hold, .cause = cause
	};
	LedgerStatus status;

	hold->sliced |= path->sliced;
	status = fill(&opening, at);
	if (status == LEDGER_DONE)
		add_drawn(hold, amount);
	return status;
}

/*
 * Draw into a locked, open hold as much of an amount as there is, out of what
 * HoldsLockForNext() locked; returns how much.  Less than the amount: *status
 * says why.
 */
Credits
HoldExtendMost(Hold *hold, const AccountPath *path, const Purpose *purpose,
			   const Cause *cause, Credits amount, LedgerStatus *status)
{
	HoldOpening opening = {
		.draw = {.path = path, .purpose = purpose, .hold = hold, .wait = true},
		.hold = hold, .cause = cause
	};
	HoldDraw   *draw = &opening.draw;

	HoldAtOnceEnd();
	hold->sliced |= path->sliced;
	*status = BudgetLock(path, amount, true, purpose->locked->budgets,
						 &opening.budgets);
	draw->amount = Min(amount, BudgetRoom(&opening.budgets));
	while (draw->amount > 0 && LedgerDraw(draw) != LEDGER_DONE)
	{
		/* a bucket's max_share is of what is drawn: less of less */
		*status = LEDGER_SHORT;
		draw->amount = 0;
		for (int i = 0; i < draw->nparts; i++)
			draw->amount += draw->parts[i].amount;
	}
	if (draw->amount > 0)
	{
		BudgetTake(&opening.budgets, draw->amount, draw->at);
		HoldWrite(&opening, false);
		add_drawn(hold, draw->amount);
		AlertDrawn(draw);
	}
	return draw->amount;
}

/*
 * Find the credit the fastest way that is open, and write what is drawn.
 * *at is the instant.
 */
static LedgerStatus
fill(HoldOpening *opening, TimestampTz *at)
{
	HoldDraw   *draw = &opening->draw;
	LedgerStatus status = LEDGER_DONE;

	draw->purpose = &opening->purpose;
	if (!HoldAtOnce(opening))
	{
		HoldAtOnceEnd();
		HoldLockWithDead(opening);
		if (!HoldInSlice(opening))
			status = HoldLocked(opening);
	}
	if (status == LEDGER_DONE)
		AlertDrawn(draw);
	else if (status == LEDGER_SHORT)
		AlertBalance(draw->path, draw->at);
	*at = draw->at;
	return status;
}

/*
 * So much more is in a hold.
 */
static void
add_drawn(Hold *hold, Credits amount)
{
	hold->drawn = CreditsAdd(hold->drawn, amount);
	hold->held = CreditsAdd(hold->held, amount);
	HoldUpdate(hold);
}
