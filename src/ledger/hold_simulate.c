/*-------------------------------------------------------------------------
 *
 * hold_simulate.c
 *		Computes whether a new hold would be granted, and which buckets would
 *		pay for it.
 *
 * This reads what hold_open.c locks, and locks and writes nothing.  If nobody
 * changes any credit in between, a hold that is opened afterwards has the same
 * status and the same parts:
 *
 *	budgets	A hold that a budget refuses releases all dead holds of the
 *			organisation.  So here a budget counts no dead hold.
 *	buckets	The draw is planned first with the dead holds released that it
 *			would release, and, if there is too little credit, with all of
 *			them, as hold_open.c tries it.
 *
 * Locks: none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "ledger/post.h"

SQL_STATEMENT(room_read, SPI_OK_SELECT, "text, text, timestamptz",
			  "SELECT GREATEST(LEAST(pg_catalog.min(b.remaining),"
			  "  9223372036854.775807), 0)::gpucredit.credits,"
			  " pg_catalog.count(*)"
			  " FROM gpucredit_internal.budgets_at($1, $2, $3) b WHERE b.hard");

static Credits read_room(const AccountPath *path, TimestampTz at);
static void set_parts(const HoldDraw *draw, HoldSimulation *simulation);

/* Computes what would happen to a new hold of an account at an instant. */
void
HoldSimulate(const AccountPath *path, const Purpose *purpose, Credits amount,
			 TimestampTz at, HoldSimulation *simulation)
{
	HoldDraw	draw = {.path = path, .purpose = purpose, .amount = amount,
		.wait = true};
	const int64 *all;
	const int64 *first = NULL;
	int			n_all = LedgerDeadFor(path, purpose, amount, true, at, &all);
	int			n_first;

	*simulation = (HoldSimulation)
	{
		.status = LEDGER_DONE, .room = read_room(path, at)
	};
	simulation->payable = LedgerPlan(&draw, all, n_all);
	if (amount > simulation->room)
		simulation->status = LEDGER_OVER_BUDGET;
	else if (amount > simulation->payable)
		simulation->status = LEDGER_SHORT;
	if (simulation->status != LEDGER_DONE)
		return;
	/* If the draw would release fewer dead holds, other buckets may pay. */
	n_first = n_all == 0 ? 0 :
		LedgerDeadFor(path, purpose, amount, false, at, &first);
	if (n_first < n_all && LedgerPlan(&draw, first, n_first) < amount)
		(void) LedgerPlan(&draw, all, n_all);
	set_parts(&draw, simulation);
}

/* Returns what the hard budgets on a path leave. */
static Credits
read_room(const AccountPath *path, TimestampTz at)
{
	SqlResult	row = SqlRun(&room_read,
							 VALUES(TextValue(path->org),
									TextValue(path->accounts[0]),
									TimeValue(at)));

	return SqlInt8(row, 0, 2) == 0 ? PG_INT64_MAX : SqlCredits(row, 0, 1);
}

/* Copies the parts of a planned draw to the result. */
static void
set_parts(const HoldDraw *draw, HoldSimulation *simulation)
{
	simulation->n = draw->nparts;
	simulation->buckets = palloc(sizeof(int64) * (draw->nparts + 1));
	simulation->amounts = palloc(sizeof(Credits) * (draw->nparts + 1));
	for (int i = 0; i < draw->nparts; i++)
	{
		simulation->buckets[i] = draw->parts[i].bucket;
		simulation->amounts[i] = draw->parts[i].amount;
	}
}
