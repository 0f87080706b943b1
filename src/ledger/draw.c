/*-------------------------------------------------------------------------
 *
 * draw.c
 *		From which buckets a hold takes its credit.
 *
 * Buckets are locked one at a time in burn order, and only as many as the
 * amount needs: a cursor's rows are locked as they are fetched, and what is
 * fetched is what the bucket has after any wait.  The instant is read after
 * the last lock; a bucket that expired meanwhile is passed over.
 *
 * A policy may cap what one bucket gives: max_per_job for all holds of the
 * job together, max_share for this hold.  Each cap is the bucket's own, so
 * taking in burn order finds the amount whenever it is there.
 *
 * Locks: buckets in burn order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/clock.h"
#include "common/errors.h"
#include "common/sql.h"
#include "ledger/post.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

#define CANDIDATES \
	"SELECT b.bucket, b.available, b.expires_at, b.max_per_job, b.max_share" \
	" FROM gpucredit.bucket b WHERE" MAY_PAY \
	" AND b.available OPERATOR(gpucredit.>) '0'" \
	" ORDER BY" BURN_ORDER " FOR NO KEY UPDATE OF b"

SQL_STATEMENT(bucket_draw, SPI_OK_SELECT, MAY_PAY_TYPES, CANDIDATES);
SQL_STATEMENT(bucket_draw_free, SPI_OK_SELECT, MAY_PAY_TYPES,
			  CANDIDATES " SKIP LOCKED");
SQL_STATEMENT(job_drawn, SPI_OK_SELECT, "text, bigint, bigint",
			  "SELECT COALESCE(gpucredit.sum("
			  "  p.held OPERATOR(gpucredit.+) p.spent), '0')"
			  " FROM gpucredit.hold h JOIN gpucredit.hold_part p"
			  "  ON p.org = h.org AND p.hold = h.hold"
			  " WHERE h.org = $1 AND h.job = $2 AND p.org = $1"
			  "  AND p.bucket = $3");
SQL_STATEMENT(hold_drawn, SPI_OK_SELECT, "text, bigint, bigint",
			  "SELECT COALESCE(gpucredit.sum("
			  "  p.held OPERATOR(gpucredit.+) p.spent), '0')"
			  " FROM gpucredit.hold_part p"
			  " WHERE p.org = $1 AND p.hold = $2 AND p.bucket = $3");

static Portal open_candidates(Draw *draw, TimestampTz as_of);
static void take(Draw *draw, SqlResult row, Credits missing);
static Credits share_cap(Draw *draw, int64 bucket, Numeric max_share);
static Credits job_cap(Draw *draw, int64 bucket, Credits max_per_job);
static Credits drawn(SqlStatement *statement, const char *org, int64 owner,
					 int64 bucket);
static Credits drop_expired(Draw *draw);

/*
 * Find and lock the credit for a draw; fills its parts and its instant.
 */
LedgerStatus
LedgerDraw(Draw *draw)
{
	Portal		portal;
	Credits		missing = draw->amount;

	draw->at = ClockNow();
	draw->nparts = 0;
	draw->maxparts = 4;
	draw->parts = palloc(sizeof(DrawPart) * draw->maxparts);
	if (missing == 0)
		return LEDGER_DONE;

	portal = open_candidates(draw, draw->at);
	while (missing > 0)
	{
		SqlResult	row;

		CHECK_FOR_INTERRUPTS();
		SPI_cursor_fetch(portal, true, 1);
		row.n = SPI_processed;
		row.table = SPI_tuptable;
		if (row.n == 0)
			break;
		take(draw, row, missing);
		SqlFree(&row);

		/* waiting for this bucket may have cost an earlier one its life */
		draw->at = ClockNow();
		missing = draw->amount - drop_expired(draw);
	}
	SPI_cursor_close(portal);
	if (missing == 0)
		return LEDGER_DONE;
	/* short for good, or only of what somebody else has locked? */
	return !draw->wait &&
		LedgerAvailable(draw->path, draw->purpose, draw->at) >= draw->amount ?
		LEDGER_BUSY : LEDGER_SHORT;
}

/*
 * A cursor over the buckets that may pay, in burn order.
 */
static Portal
open_candidates(Draw *draw, TimestampTz as_of)
{
	SqlArgs		args = MayPayArgs(draw->path, draw->purpose, as_of);

	return SqlCursor(draw->wait ? &bucket_draw : &bucket_draw_free, &args);
}

/*
 * The parameters of MAY_PAY.
 */
SqlArgs
MayPayArgs(const AccountPath *path, const Purpose *purpose, TimestampTz at)
{
	bool		plain = purpose->job == 0;
	SqlArgs		args = {0};

	SqlArgText(&args, path->org);
	SqlArgTextArray(&args, path->accounts, path->n);
	SqlArgTime(&args, at);
	SqlArgBool(&args, plain);
	SqlArgTextArray(&args, purpose->gpu_types, purpose->ntypes);
	SqlArgText(&args, plain ? "" : purpose->tier);
	SqlArgText(&args, plain ? "" : purpose->pool);
	if (purpose->locked == NULL)
		SqlArgNull(&args);
	else
		SqlArgInt8Array(&args, purpose->locked->ids, purpose->locked->n);
	return args;
}

/*
 * Take from a locked bucket what it has and may give.
 */
static void
take(Draw *draw, SqlResult row, Credits missing)
{
	DrawPart	part;
	Credits		most = SqlCredits(row, 0, 2);
	bool		isnull;
	Datum		max_share;

	part.bucket = SqlInt8(row, 0, 1);
	part.expires_at = SqlTimeOr(row, 0, 3, DT_NOEND);
	if (!SqlIsNull(row, 0, 4) && draw->purpose->job != 0)
		most = Min(most, job_cap(draw, part.bucket, SqlCredits(row, 0, 4)));
	max_share = SqlDatum(row, 0, 5, &isnull);
	if (!isnull)
		most = Min(most, share_cap(draw, part.bucket,
								   DatumGetNumeric(max_share)));
	part.amount = Min(most, missing);
	if (part.amount <= 0)
		return;
	if (draw->nparts == draw->maxparts)
	{
		draw->maxparts *= 2;
		draw->parts = repalloc(draw->parts,
							   sizeof(DrawPart) * draw->maxparts);
	}
	draw->parts[draw->nparts++] = part;
}

/*
 * What max_per_job leaves, after all that holds of this job drew here and
 * did not give back.
 */
static Credits
job_cap(Draw *draw, int64 bucket, Credits max_per_job)
{
	return CreditsSub(max_per_job,
					  drawn(&job_drawn, draw->path->org, draw->purpose->job,
							bucket));
}

/*
 * What max_share leaves: that share, rounded down, of all this hold draws.
 */
static Credits
share_cap(Draw *draw, int64 bucket, Numeric max_share)
{
	Credits		before = draw->hold == NULL ? 0 :
		drawn(&hold_drawn, draw->path->org, draw->hold->hold, bucket);
	Credits		total = draw->hold == NULL ? draw->amount :
		CreditsAdd(CreditsAdd(draw->hold->held, draw->hold->captured),
				   draw->amount);
	Datum		cap = DirectFunctionCall2(numeric_mul,
										  NumericGetDatum(max_share),
										  NumericGetDatum(CreditsToNumeric(total)));

	cap = DirectFunctionCall2(numeric_trunc, cap, Int32GetDatum(6));
	return CreditsSub(CreditsFromNumeric(DatumGetNumeric(cap), NULL), before);
}

static Credits
drawn(SqlStatement *statement, const char *org, int64 owner, int64 bucket)
{
	SqlArgs		args = {0};

	SqlArgText(&args, org);
	SqlArgInt8(&args, owner);
	SqlArgInt8(&args, bucket);
	return SqlCredits(SqlRun(statement, &args), 0, 1);
}

/*
 * Let go what expired by now; returns what the parts come to.
 */
static Credits
drop_expired(Draw *draw)
{
	Credits		sum = 0;
	int			kept = 0;

	for (int i = 0; i < draw->nparts; i++)
	{
		if (draw->parts[i].expires_at <= draw->at)
			continue;
		sum += draw->parts[i].amount;
		draw->parts[kept++] = draw->parts[i];
	}
	draw->nparts = kept;
	return sum;
}
