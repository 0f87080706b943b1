/*-------------------------------------------------------------------------
 *
 * hold_write.c
 *		The rows of a hold that is opened or extended.
 *
 * Locks: none; what is drawn is locked, or locked by LedgerTake() after this.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/clock.h"
#include "util/sql.h"
#include "ledger/hold_opening.h"

SQL_STATEMENT(part_last, SPI_OK_SELECT, "text, bigint",
			  "SELECT COALESCE(pg_catalog.max(p.part), 0)"
			  " FROM gpucredit.hold_part p WHERE p.org = $1 AND p.hold = $2");

static void fill_in(HoldOpening *opening);
static int32 last_part(const Hold *hold);

/*
 * The number of the next hold.
 */
int64
HoldNextId(void)
{
	return SqlNext("hold_hold_seq");
}

/*
 * Write what is drawn, as parts in the order drawn: into a new hold, with what
 * the caller writes of it, or into one that is there.  taken: the statement that
 * locks a bucket takes from it, and comes with the shares of budgets.
 */
void
HoldWrite(HoldOpening *opening, bool taken)
{
	const HoldDraw *draw = &opening->draw;
	const Granting *granting = opening->granting;
	Hold	   *hold = opening->hold;
	bool		new = draw->hold == NULL;
	Move	   *moves = palloc(sizeof(Move) * Max(draw->nparts, 1));
	Posting		posting = {.org = draw->path->org, .account = hold->account,
		.cause = opening->cause, .at = draw->at, .trace = hold->trace,
		.n = draw->nparts, .moves = moves, .taken = taken};
	int32		before;

	if (new)
		fill_in(opening);
	else
	{
		hold->counted |= opening->budgets.n > 0;
		if (!taken)
			BudgetShare(&opening->budgets, hold->hold, false, draw->amount);
	}
	before = new ? 0 : last_part(hold);
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
	if (granting != NULL)
		granting->write(granting->context, hold, draw->at);
}

/*
 * A new hold's number, figures and end.
 */
static void
fill_in(HoldOpening *opening)
{
	const HoldDraw *draw = &opening->draw;
	Hold	   *hold = opening->hold;

	if (hold->hold == 0)
		hold->hold = HoldNextId();
	hold->drawn = hold->held = draw->amount;
	hold->expires_at = opening->ttl > 0 ? ClockAdd(draw->at, opening->ttl) :
		DT_NOEND;
	hold->counted = opening->budgets.n > 0;
}

/*
 * The highest number of a hold's parts.
 */
static int32
last_part(const Hold *hold)
{
	SqlArgs		args = {0};

	SqlArgText(&args, hold->org);
	SqlArgInt8(&args, hold->hold);
	return SqlInt4(SqlRun(&part_last, &args), 0, 1);
}
