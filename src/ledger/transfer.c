/*-------------------------------------------------------------------------
 *
 * transfer.c
 *		SQL function transfer: moves credit from one account's own buckets
 *		to another account.
 *
 * The credit becomes a bucket of the other account with the same kind,
 * priority, span and policy. So a transfer neither prolongs a promotion nor
 * frees it of its conditions. Buckets are locked one at a time in burn order,
 * as for a hold, and only as many as the amount needs.
 *
 * Credit cannot leave a suspended account or an account below one, because it
 * could then be spent elsewhere. It may be moved to one, as credit may be
 * issued to one.
 *
 * SQL functions here: transfer, for administrators, and allocate, by which a
 * companion extension moves credit for a tenant who approves a request.
 *
 * Locks: key, dead holds and budgets if the credit does not suffice, buckets
 * in burn order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/sql.h"
#include "api/api.h"
#include "lib/stringinfo.h"
#include "ledger/alert.h"
#include "ledger/post.h"
#include "request/request.h"

API_FUNCTION(gpucredit_transfer, transfer);
API_FUNCTION(gpucredit_allocate, allocate);

typedef struct Transfer
{
	char	   *org;
	char	   *from;
	char	   *to;
	Credits		amount;
	TimestampTz at;
	HoldDraw	draw;			/* draws from the account's own buckets only */
} Transfer;

static void parse_accounts(Transfer *transfer, FunctionCallInfo fcinfo);
static const char *carry_out(Transfer *transfer, AuditRow *audit);
static void move_credit(const Transfer *transfer, AuditRow *audit);

Datum
call_transfer(PG_FUNCTION_ARGS)
{
	Transfer	transfer = {.org = ArgName(fcinfo, 0, "org")};
	AuditRow	audit = {.org = transfer.org, .operation = "transfer"};
	Request		request;
	Datum		result;

	parse_accounts(&transfer, fcinfo);
	RequestInit(&request, fcinfo, "transfer", transfer.org,
				ArgKey(fcinfo, 3, "key"));
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

	return SqlFinishRow(RequestFinish(&request,
									  VALUES(NumericValue(audit.reason ? 0 :
														  transfer.amount),
											 TextValue(audit.decision),
											 TextValue(audit.reason),
											 BoolValue(false))));
}

/*
 * SQL function allocate: the same call for a tenant, which has to be bound to
 * the account that the credit leaves (api/tenant.c).
 */
Datum
call_allocate(PG_FUNCTION_ARGS)
{
	return call_transfer(fcinfo);
}

static void
parse_accounts(Transfer *transfer, FunctionCallInfo fcinfo)
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

/* Moves the credit. Returns NULL, or the reason for a denial. */
static const char *
carry_out(Transfer *transfer, AuditRow *audit)
{
	AccountPath from = AccountParse(transfer->org, transfer->from);
	AccountPath to = AccountParse(transfer->org, transfer->to);
	AccountPath own = {.org = transfer->org, .n = 1,
		.accounts = {transfer->from}};
	Purpose		purpose = {.any = true};
	LockedBuckets locked;
	LedgerStatus status;
	bool		suspended = AccountSuspended(&from);

	(void) AccountSuspended(&to);
	transfer->at = ClockNow();
	if (suspended)
		return "account_suspended";
	locked = LedgerReclaim(&own, &purpose, transfer->amount);
	if (locked.n >= 0)
		purpose.locked = &locked;
	transfer->draw = (HoldDraw)
	{
		.path = &own, .purpose = &purpose, .amount = transfer->amount,
			.wait = true
	};
	status = LedgerDraw(&transfer->draw);
	transfer->at = transfer->draw.at;
	if (status != LEDGER_DONE)
		return LedgerReason(status);
	move_credit(transfer, audit);
	AlertBalanceDrawn(&from, &transfer->draw);
	return NULL;
}

/*
 * Posts the transfer: from each bucket into a new bucket with the same terms.
 */
static void
move_credit(const Transfer *transfer, AuditRow *audit)
{
	Cause		cause = {"transfer", 0, 0};
	const HoldDraw *draw = &transfer->draw;
	Move	   *out = palloc(sizeof(Move) * draw->nparts);
	Move	   *in = palloc(sizeof(Move) * draw->nparts);
	Posting		posting = {.org = transfer->org, .account = transfer->from,
		.cause = &cause, .at = transfer->at, .n = draw->nparts,
		.moves = out};
	StringInfoData buckets;

	LedgerEven(draw);
	for (int i = 0; i < draw->nparts; i++)
		out[i] = (Move)
	{
		draw->parts[i].bucket, 0, AVAILABLE, MOVED,
			draw->parts[i].amount, 0
	};
	LedgerPost(&posting);
	initStringInfo(&buckets);
	for (int i = 0; i < draw->nparts; i++)
	{
		in[i] = (Move)
		{
			LedgerCreateBucketLike(transfer->org, out[i].bucket,
								   transfer->to, transfer->at), 0, ISSUED, AVAILABLE,
				out[i].amount, 0
		};
		appendStringInfo(&buckets, "%s{\"from\":%lld,\"to\":%lld,"
						 "\"amount\":%s}", i == 0 ? "[" : ",",
						 (long long) out[i].bucket,
						 (long long) in[i].bucket,
						 CreditsToCString(out[i].amount));
	}
	appendStringInfoChar(&buckets, ']');
	posting.account = transfer->to;
	posting.moves = in;
	LedgerPost(&posting);
	AuditNumber(audit, "buckets", buckets.data);
}
