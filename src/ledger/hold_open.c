/*-------------------------------------------------------------------------
 *
 * hold_open.c
 *		Draws credit into a new hold, or into one that is extended.
 *
 * There are three ways, which are tried in this order:
 *
 *	at once		Nearly always the first bucket in burn order has the whole
 *				amount, no policy limits what it pays, and it does not expire
 *				soon.  Then the hold is written before anything is locked: its
 *				row and part, its entry, its shares of budgets, and the rows
 *				that the caller writes with it.  At last HoldDebit() changes
 *				the budgets' counters and then the bucket, by the statements
 *				that lock them.  So another call waits for them no longer than
 *				these statements and a commit take.
 *	in a slice	If the account has slices, one slice of each bucket is locked,
 *				then the hold is written.  A read without locks determines what
 *				to lock (slice.h).
 *	locked		Budgets and as many buckets as necessary are locked, then the
 *				hold is written.
 *
 * The first two ways run in a subtransaction, which is rolled back if a locked
 * row has less than was read without locks.  A caller that writes rows of its
 * own with the hold begins the subtransaction of the first way itself, and in
 * it calls HoldWrite(), writes its rows, and calls HoldDebit().
 *
 * In the first way the hold's instant is before the locks. An instant after
 * them would give the same result: HoldDebit() requires that the bucket has
 * enough without the credit that it has received since the instant, and draws
 * since then have only left less in it.
 *
 * An extension by the first way writes its shares of budgets after the
 * counters have counted it, because a call that removes a budget locks the
 * budget's counters first and then the shares.
 *
 * Locks: dead holds if the credit does not suffice, budgets leaf to root,
 * buckets in burn order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/compat.h"
#include "util/errors.h"
#include "util/sql.h"
#include "util/subtransaction.h"
#include "ledger/alert.h"
#include "limits/budget.h"
#include "ledger/hold_part.h"
#include "ledger/post.h"
#include "storage/proc.h"

/* how long HoldDebit() may wait before its instant is too old */
#define AT_ONCE_WAITS	USECS_PER_SEC
#define AT_ONCE_OF_TTL	10		/* but at most this fraction of the hold's ttl */

/*
 * How many subtransactions for holds at once a transaction has at most. A
 * snapshot of another transaction has room for 64, and for more it must read
 * them from disk.
 */
#define MOST_SUBTRANSACTIONS	32

struct HoldOpening
{
	HoldDraw	draw;			/* draw.hold is the hold to extend, or NULL
								 * for a new one */
	Purpose		purpose;		/* purpose of the draw */
	LockedBuckets locked;		/* buckets locked together with those of dead
								 * holds */
	BudgetSet	budgets;
	Hold	   *hold;
	const Cause *cause;
	int64		ttl;			/* only of a new hold that belongs to no job */
};

SQL_STATEMENT(part_last, SPI_OK_SELECT, "text, bigint",
			  "SELECT COALESCE(pg_catalog.max(p.part), 0)"
			  " FROM gpucredit.hold_part p WHERE p.org = $1 AND p.hold = $2");
SQL_STATEMENT(hold_lease, SPI_OK_UPDATE, "text, bigint",
			  "UPDATE gpucredit.hold h SET leased = true"
			  " WHERE h.org = $1 AND h.hold = $2");

static bool write_then_debit(void *context);
static int *subtransactions(void);
static void lock_with_dead(HoldOpening *opening);
static bool in_slice(HoldOpening *opening);
static bool lock_then_write(void *context);
static LedgerStatus lock_credit(HoldOpening *opening);
static LedgerStatus lock_once(HoldDraw *draw, BudgetSet *budgets);
static void write_hold(HoldOpening *opening, bool taken);
static void note_leased(const Hold *hold);
static int32 last_part(const Hold *hold);
static void add_drawn(Hold *hold, Credits amount);

/*
 * Prepares a new hold, of a job or (with ttl > 0) of a caller.  Nothing is
 * read, locked or written yet.
 */
HoldOpening *
HoldAsk(const AccountPath *path, const Purpose *purpose, const Cause *cause,
		Credits amount, int64 ttl, bool wait, Hold *hold)
{
	HoldOpening *opening = palloc0(sizeof(HoldOpening));

	*hold = (Hold)
	{
		.org = path->org, .account = pstrdup(path->accounts[0]),
			.job = cause->job, .closed_at = DT_NOBEGIN,
			.sliced = path->sliced, .leased = path->leased,
			.trace = TraceOr(purpose->trace)
	};
	if (hold->sliced)
		hold->hold = SqlNext("hold_hold_seq");	/* its number determines the
												 * slice */
	opening->purpose = *purpose;
	opening->draw = (HoldDraw)
	{
		.path = path, .purpose = &opening->purpose, .amount = amount,
			.wait = wait
	};
	opening->hold = hold;
	opening->cause = cause;
	opening->ttl = ttl;
	return opening;
}

/*
 * Opens a hold with which the caller writes nothing.  *at is set to the
 * instant for which the hold is valid.
 */
LedgerStatus
HoldOpen(HoldOpening *opening, TimestampTz *at)
{
	if (HoldMayBeAtOnce(opening, at) &&
		SubtransactionTry(write_then_debit, opening, NULL))
		return LEDGER_DONE;
	return HoldLocked(opening, at);
}

static bool
write_then_debit(void *context)
{
	HoldWrite(context);
	return HoldDebit(context);
}

/* Draws an amount into a locked, open hold, whole or not at all. */
LedgerStatus
HoldExtend(Hold *hold, const AccountPath *path, const Purpose *purpose,
		   const Cause *cause, Credits amount, bool wait, TimestampTz *at)
{
	HoldOpening opening = {
		.draw = {.path = path, .hold = hold, .amount = amount, .wait = wait},
		.purpose = *purpose, .hold = hold, .cause = cause
	};
	LedgerStatus status;

	opening.draw.purpose = &opening.purpose;
	hold->sliced |= path->sliced;
	status = HoldOpen(&opening, at);
	if (status == LEDGER_DONE)
		add_drawn(hold, amount);
	return status;
}

/*
 * Draws as much of an amount as there is into a locked, open hold, from what
 * HoldsLockForNext() locked. Returns the amount drawn. If it is less than the
 * requested one, *status is set to the reason.
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

	*subtransactions() = MOST_SUBTRANSACTIONS;
	hold->sliced |= path->sliced;
	*status = BudgetLock(path, amount, true, purpose->locked->budgets,
						 &opening.budgets);
	draw->amount = Min(amount, BudgetRoom(&opening.budgets));
	while (draw->amount > 0 && LedgerDraw(draw) != LEDGER_DONE)
	{
		/*
		 * max_share limits a bucket to a share of the draw, so it pays less
		 * for a smaller draw.
		 */
		*status = LEDGER_SHORT;
		draw->amount = 0;
		for (int i = 0; i < draw->nparts; i++)
			draw->amount += draw->parts[i].amount;
	}
	if (draw->amount > 0)
	{
		BudgetDebit(&opening.budgets, draw->amount, draw->at);
		write_hold(&opening, false);
		add_drawn(hold, draw->amount);
		AlertDrawn(draw);
	}
	return draw->amount;
}

/*
 * Whether, according to a read without locks, the hold can be written before
 * anything is locked.  If so, *at is set to the hold's instant.
 */
bool
HoldMayBeAtOnce(HoldOpening *opening, TimestampTz *at)
{
	HoldDraw   *draw = &opening->draw;

	if (!draw->wait || draw->purpose->locked != NULL || draw->path->sliced ||
		draw->amount == 0 ||
		*subtransactions() >= MOST_SUBTRANSACTIONS || !LedgerFindOneBucket(draw) ||
		!BudgetReadUnlocked(draw->path, draw->amount, &opening->budgets))
		return false;

	/*
	 * The hold must not begin before the instant of the data just read,
	 * because a budget counts only holds that begin after it was set.
	 */
	*at = draw->at = ClockAfter(draw->at);
	if (BudgetTurned(&opening->budgets, draw->at) != NULL)
		return false;
	++*subtransactions();
	return true;
}

/*
 * Writes a hold that HoldDebit() then debits, in a subtransaction of the
 * caller.
 */
void
HoldWrite(HoldOpening *opening)
{
	write_hold(opening, true);
}

/*
 * Locks the budget counters and the bucket of a hold that is already written,
 * and debits them.  Returns false if one of them refuses, or if the wait was
 * too long for the hold's instant.  The caller then rolls back.
 */
bool
HoldDebit(HoldOpening *opening)
{
	const HoldDraw *draw = &opening->draw;
	const HoldDrawPart *part = &draw->parts[0];
	BudgetSet  *budgets = &opening->budgets;
	int64		waits = AT_ONCE_WAITS;

	if (opening->ttl > 0)
		waits = Min(waits, opening->ttl / AT_ONCE_OF_TTL);
	if (draw->purpose->first)
		LedgerQueue(draw->path->org, part->bucket);
	if (!BudgetTryCount(draw->path, budgets, draw->amount, draw->at))
		return false;
	if (draw->hold != NULL)
		BudgetShare(budgets, draw->hold->hold, false, draw->amount);
	if (!LedgerDebit(draw->path->org, part->bucket, draw->amount,
					 part->credited_total) ||
		ClockNow() - draw->at > waits)
		return false;
	BudgetAlert(budgets, draw->amount, draw->at);
	AlertDrawn(draw);
	return true;
}

/*
 * Returns how many subtransactions this transaction has used for holds at
 * once.  After a hold that locked first, the number is set to the maximum, so
 * that there are no more: a row that the transaction has locked could be
 * changed by a subtransaction only with a multixact.
 */
static int *
subtransactions(void)
{
	static LocalTransactionId transaction = InvalidLocalTransactionId;
	static int	n;

	if (transaction != MyLocalTransactionId)
		n = 0;
	transaction = MyLocalTransactionId;
	return &n;
}

/*
 * Locks the credit, in the hold's slice or at large, and writes the hold.  *at
 * is set to the hold's instant.
 */
LedgerStatus
HoldLocked(HoldOpening *opening, TimestampTz *at)
{
	HoldDraw   *draw = &opening->draw;
	LedgerStatus status = LEDGER_DONE;

	*subtransactions() = MOST_SUBTRANSACTIONS;
	lock_with_dead(opening);
	if (!in_slice(opening))
	{
		status = lock_credit(opening);
		if (status == LEDGER_DONE)
		{
			BudgetDebit(&opening->budgets, draw->amount, draw->at);
			write_hold(opening, false);
		}
	}
	if (status == LEDGER_DONE)
		AlertDrawn(draw);
	else if (status == LEDGER_SHORT)
		AlertBalance(draw->path, draw->at);
	*at = draw->at;
	return status;
}

/*
 * Releases dead holds if the draw would otherwise lack credit.  The draw then
 * uses only what is locked together with them.
 */
static void
lock_with_dead(HoldOpening *opening)
{
	const HoldDraw *draw = &opening->draw;

	/*
	 * The hold to extend may itself be dead, and it is locked. Waiting for
	 * another dead hold could then deadlock.
	 */
	if (!draw->wait || draw->purpose->locked != NULL ||
		(draw->hold != NULL && draw->hold->job == 0))
		return;
	opening->locked = LedgerReclaim(draw->path, draw->purpose, draw->amount);
	if (opening->locked.n >= 0)
		opening->purpose.locked = &opening->locked;
}

/*
 * Draws from the hold's slice. Returns false if the slice has too little. Then
 * nothing was changed and, unless the call never waits, nothing stays locked.
 *
 * The same subtransaction locks and writes, because a row that one locks and
 * another updates needs a multixact.
 */
static bool
in_slice(HoldOpening *opening)
{
	HoldDraw   *draw = &opening->draw;
	int64		hold = opening->hold->hold;

	if (!draw->path->sliced || draw->purpose->locked != NULL ||
		draw->amount == 0 || !LedgerPlanSlice(draw, hold) ||
		!BudgetPlanSlice(draw->path, hold, &opening->budgets))
		return false;
	return draw->wait ? SubtransactionTry(lock_then_write, opening, NULL) :
		lock_then_write(opening);
}

/*
 * Locks what was planned in the hold's slice, and writes the hold.  A slice
 * that has too little stays locked until the subtransaction ends, so this
 * function does not wait for another slice.
 */
static bool
lock_then_write(void *context)
{
	HoldOpening *opening = context;
	HoldDraw   *draw = &opening->draw;
	TakeStatus	taken = opening->budgets.n > 0 ? TAKE_BUSY :
		LedgerDebitPlanned(draw);

	if (taken == TAKE_SHORT ||
		(taken == TAKE_BUSY &&
		 (!BudgetLockPlanned(&opening->budgets, draw->amount, draw->wait) ||
		  !LedgerLockPlanned(draw))))
		return false;
	if (taken == TAKE_DONE)
	{
		draw->at = ClockAfter(draw->at);
		DrawCheckUnexpired(draw);
	}
	BudgetDebit(&opening->budgets, draw->amount, draw->at);
	write_hold(opening, taken == TAKE_DONE);
	return true;
}

/*
 * Locks the budgets that must allow a draw, and the buckets that pay for it.
 * If either is not enough, releases the dead holds for which no lock has to be
 * waited for, and tries again.
 */
static LedgerStatus
lock_credit(HoldOpening *opening)
{
	HoldDraw	again = opening->draw;
	LedgerStatus status = lock_once(&opening->draw, &opening->budgets);

	if (status == LEDGER_DONE || !LedgerReclaimFree(again.path->org))
		return status;
	again.wait = false;			/* Rows are locked by now, so waiting for more
								 * locks could deadlock. */
	status = lock_once(&again, &opening->budgets);
	if (status == LEDGER_BUSY && opening->draw.wait)
		status = LEDGER_SHORT;
	opening->draw = again;
	return status;
}

static LedgerStatus
lock_once(HoldDraw *draw, BudgetSet *budgets)
{
	const LockedBuckets *locked = draw->purpose->locked;
	LedgerStatus status;

	draw->at = ClockNow();
	status = BudgetLock(draw->path, draw->amount, draw->wait,
						locked ? locked->budgets : NULL, budgets);
	return status == LEDGER_DONE ? LedgerDraw(draw) : status;
}

/*
 * Writes what is drawn, as parts in the order drawn, into a new hold or one to
 * extend.  taken is true if the statement that locks a bucket also debits it.
 */
static void
write_hold(HoldOpening *opening, bool taken)
{
	const HoldDraw *draw = &opening->draw;
	Hold	   *hold = opening->hold;
	bool		new = draw->hold == NULL;
	Move	   *moves = palloc(sizeof(Move) * Max(draw->nparts, 1));
	Posting		posting = {.org = draw->path->org, .account = hold->account,
		.cause = opening->cause, .at = draw->at, .trace = hold->trace,
		.n = draw->nparts, .moves = moves, .taken = taken};
	int32		before = 0;

	if (new)
	{
		if (hold->hold == 0)
			hold->hold = SqlNext("hold_hold_seq");
		hold->drawn = hold->held = draw->amount;
		hold->expires_at = opening->ttl > 0 ?
			ClockAdd(draw->at, opening->ttl) : DT_NOEND;
		hold->counted = opening->budgets.n > 0;
	}
	else
	{
		hold->counted |= opening->budgets.n > 0;
		if (!taken)
			BudgetShare(&opening->budgets, hold->hold, false, draw->amount);
		before = last_part(hold);
	}
	if (!taken)
		LedgerEven(draw);
	for (int i = 0; i < draw->nparts; i++)
		moves[i] = (Move)
	{
		draw->parts[i].bucket, before + 1 + i, AVAILABLE, HELD,
			draw->parts[i].amount, draw->parts[i].slice
	};
	posting.hold = hold->hold;
	if (new)
		LedgerOpen(hold, &posting, &opening->budgets);
	else
		LedgerPost(&posting);
	if (new && hold->leased)
		note_leased(hold);
}

/*
 * Marks a new hold as that of a lease.  Few holds are, so the statement that
 * inserts a hold does not write the column.
 */
static void
note_leased(const Hold *hold)
{
	Ensure(SqlRun(&hold_lease,
				  VALUES(TextValue(hold->org),
						 Int8Value(hold->hold))).n == 1, "A hold is missing.");
}

/* Returns the highest number of a hold's parts. */
static int32
last_part(const Hold *hold)
{
	return SqlInt4(SqlRun(&part_last,
						  VALUES(TextValue(hold->org),
								 Int8Value(hold->hold))), 0, 1);
}

static void
add_drawn(Hold *hold, Credits amount)
{
	hold->drawn = CreditsAdd(hold->drawn, amount);
	hold->held = CreditsAdd(hold->held, amount);
	HoldUpdate(hold);
}
