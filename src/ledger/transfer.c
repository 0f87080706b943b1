/*-------------------------------------------------------------------------
 *
 * transfer.c
 *		transfer: credit from one account's own buckets to another account.
 *
 * What is taken from a bucket becomes a bucket of the other account that is
 * its like in kind, priority, span and policy: a transfer neither prolongs a
 * promotion nor frees it of its conditions.  Buckets are locked one at a time
 * in burn order, as for a hold, and only as many as the amount needs.
 *
 * Credit leaves no account that is suspended, nor one below such: elsewhere
 * it could be spent.  It may go to one that is, as issued credit may.
 *
 * Locks: key, dead holds and budgets if short, buckets in burn order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "common/clock.h"
#include "common/errors.h"
#include "common/sql.h"
#include "entry/entry.h"
#include "lib/stringinfo.h"
#include "ledger/alert.h"
#include "ledger/post.h"
#include "miscadmin.h"
#include "request/request.h"

ENTRY_POINT(transfer);

typedef struct Transfer
{
	char	   *org;
	char	   *from;
	char	   *to;
	Credits		amount;
	TimestampTz at;
	int			n;				/* buckets it takes from */
	int			size;
	Move	   *moves;			/* out of them */
	TimestampTz *expiries;		/* of each */
} Transfer;

SQL_STATEMENT(bucket_take, SPI_OK_SELECT,
			  "text, text, timestamptz, bigint[]",
			  "SELECT b.bucket, b.available, b.expires_at"
			  " FROM gpucredit.bucket b WHERE b.org = $1 AND b.account = $2"
			  " AND b.closed_at IS NULL"
			  " AND b.available OPERATOR(gpucredit.>) '0'"
			  " AND b.effective_at <= $3"
			  " AND (b.expires_at IS NULL OR b.expires_at > $3)"
			  " AND ($4 IS NULL OR b.bucket = ANY ($4))"
			  " ORDER BY" BURN_ORDER " FOR NO KEY UPDATE");
SQL_STATEMENT(bucket_like, SPI_OK_INSERT_RETURNING,
			  "text, bigint, text, timestamptz",
			  "INSERT INTO gpucredit.bucket (org, account, kind, priority,"
			  " effective_at, expires_at, gpu_types, tiers, pools,"
			  " max_per_job, max_share, policy, memo, created_at)"
			  " SELECT b.org, $3, b.kind, b.priority, b.effective_at,"
			  " b.expires_at, b.gpu_types, b.tiers, b.pools, b.max_per_job,"
			  " b.max_share, b.policy, b.memo, $4 FROM gpucredit.bucket b"
			  " WHERE b.org = $1 AND b.bucket = $2 RETURNING bucket");

static void take_accounts(Transfer *transfer, FunctionCallInfo fcinfo);
static const char *carry_out(Transfer *transfer, AuditRow *audit);
static bool take_buckets(Transfer *transfer, LockedBuckets locked);
static void add_bucket(Transfer *transfer, SqlResult row, Credits missing);
static Credits drop_expired(Transfer *transfer);
static void move_credit(const Transfer *transfer, AuditRow *audit);
static int64 insert_like(const Transfer *transfer, int64 bucket);

Datum
call_transfer(PG_FUNCTION_ARGS)
{
	Transfer	transfer = {.org = ArgName(fcinfo, 0, "org")};
	AuditRow	audit = {.org = transfer.org, .operation = "transfer"};
	Request		request;
	Datum		result;
	Row			row = {0};

	take_accounts(&transfer, fcinfo);
	RequestInit(&request, fcinfo, "transfer", transfer.org,
				ArgName(fcinfo, 3, "key"));
	RequestText(&request, transfer.from);
	RequestText(&request, transfer.to);
	RequestInt8(&request, transfer.amount = ArgAmount(fcinfo, 4, "amount",
													  false));

	SqlConnect();
	if (RequestBegin(&request, &result))
		return SqlFinishRow(result);
	audit.account = transfer.from;
	audit.reason = carry_out(&transfer, &audit);
	audit.decision = audit.reason ? "denied" : "granted";
	audit.at = transfer.at;
	AuditText(&audit, "to", transfer.to);
	AuditCredits(&audit, "amount", transfer.amount);
	AuditDecision(&audit, request.key);

	RowCredits(&row, audit.reason ? 0 : transfer.amount);
	RowText(&row, audit.decision);
	RowText(&row, audit.reason);
	RowAdd(&row, BoolGetDatum(false));
	return SqlFinishRow(RequestFinish(&request, &row));
}

static void
take_accounts(Transfer *transfer, FunctionCallInfo fcinfo)
{
	transfer->from = ArgPath(fcinfo, 1, "from_account");
	transfer->to = ArgPath(fcinfo, 2, "to_account");
	if (strcmp(transfer->from, transfer->to) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"from_account\" and \"to_account\" are the same"),
				 errdetail("There would be nothing to move."),
				 errhint("Pass two accounts.")));
}

/*
 * Move the credit, or say why not.
 */
static const char *
carry_out(Transfer *transfer, AuditRow *audit)
{
	AccountPath from = AccountParse(transfer->org, transfer->from);
	AccountPath to = AccountParse(transfer->org, transfer->to);
	AccountPath own = {transfer->org, 1, {transfer->from}};
	Purpose		purpose = {0};
	LockedBuckets locked;
	bool		suspended = AccountSuspended(&from);

	(void) AccountSuspended(&to);
	transfer->at = ClockNow();
	if (suspended)
		return "account_suspended";
	locked = LedgerReclaim(&own, &purpose, transfer->amount);
	if (!take_buckets(transfer, locked))
		return "insufficient_credits";
	move_credit(transfer, audit);
	AlertBalance(&from, transfer->at);
	return NULL;
}

/*
 * Find and lock the credit, among those locked where some are; false: there
 * is not enough.
 */
static bool
take_buckets(Transfer *transfer, LockedBuckets locked)
{
	Credits		missing = transfer->amount;
	SqlArgs		args = {0};
	Portal		portal;

	transfer->size = 4;
	transfer->moves = palloc(sizeof(Move) * transfer->size);
	transfer->expiries = palloc(sizeof(TimestampTz) * transfer->size);
	transfer->at = ClockNow();
	SqlArgText(&args, transfer->org);
	SqlArgText(&args, transfer->from);
	SqlArgTime(&args, transfer->at);
	if (locked.n < 0)
		SqlArgNull(&args);
	else
		SqlArgInt8Array(&args, locked.ids, locked.n);
	portal = SqlCursor(&bucket_take, &args);
	while (missing > 0)
	{
		SqlResult	row;

		CHECK_FOR_INTERRUPTS();
		SPI_cursor_fetch(portal, true, 1);
		row.n = SPI_processed;
		row.table = SPI_tuptable;
		if (row.n == 0)
			break;
		add_bucket(transfer, row, missing);
		SqlFree(&row);

		/* waiting for this bucket may have cost an earlier one its life */
		transfer->at = ClockNow();
		missing = transfer->amount - drop_expired(transfer);
	}
	SPI_cursor_close(portal);
	return missing == 0;
}

/*
 * Take from a locked bucket what it has.
 */
static void
add_bucket(Transfer *transfer, SqlResult row, Credits missing)
{
	if (transfer->n == transfer->size)
	{
		transfer->size *= 2;
		transfer->moves = repalloc(transfer->moves,
								   sizeof(Move) * transfer->size);
		transfer->expiries = repalloc(transfer->expiries,
									  sizeof(TimestampTz) * transfer->size);
	}
	transfer->expiries[transfer->n] = SqlTimeOr(row, 0, 3, DT_NOEND);
	transfer->moves[transfer->n++] = (Move)
	{
		SqlInt8(row, 0, 1), 0, AVAILABLE, MOVED,
			Min(SqlCredits(row, 0, 2), missing)
	};
}

/*
 * Let go what expired by now; returns what the rest comes to.
 */
static Credits
drop_expired(Transfer *transfer)
{
	Credits		sum = 0;
	int			kept = 0;

	for (int i = 0; i < transfer->n; i++)
	{
		if (transfer->expiries[i] <= transfer->at)
			continue;
		sum += transfer->moves[i].amount;
		transfer->moves[kept] = transfer->moves[i];
		transfer->expiries[kept++] = transfer->expiries[i];
	}
	transfer->n = kept;
	return sum;
}

/*
 * Enter it: out of each bucket, into one like it.
 */
static void
move_credit(const Transfer *transfer, AuditRow *audit)
{
	Cause		cause = {"transfer", 0, 0};
	Posting		posting = {.org = transfer->org, .account = transfer->from,
		.cause = &cause, .at = transfer->at, .n = transfer->n,
		.moves = transfer->moves};
	Move	   *moves = palloc(sizeof(Move) * transfer->n);
	StringInfoData buckets;

	LedgerPost(&posting);
	initStringInfo(&buckets);
	for (int i = 0; i < transfer->n; i++)
	{
		const Move *out = &transfer->moves[i];

		moves[i] = (Move)
		{
			insert_like(transfer, out->bucket), 0, ISSUED, AVAILABLE,
				out->amount
		};
		appendStringInfo(&buckets, "%s{\"from\":%lld,\"to\":%lld,"
						 "\"amount\":%s}", i == 0 ? "[" : ",",
						 (long long) out->bucket,
						 (long long) moves[i].bucket,
						 CreditsToCString(out->amount));
	}
	appendStringInfoChar(&buckets, ']');
	posting.account = transfer->to;
	posting.moves = moves;
	LedgerPost(&posting);
	AuditNumber(audit, "buckets", buckets.data);
}

/*
 * A bucket of the other account like one of this, still empty.
 */
static int64
insert_like(const Transfer *transfer, int64 bucket)
{
	SqlArgs		args = {0};

	SqlArgText(&args, transfer->org);
	SqlArgInt8(&args, bucket);
	SqlArgText(&args, transfer->to);
	SqlArgTime(&args, transfer->at);
	return SqlInt8(SqlRun(&bucket_like, &args), 0, 1);
}
