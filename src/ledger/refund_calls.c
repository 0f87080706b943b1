/*-------------------------------------------------------------------------
 *
 * refund_calls.c
 *		SQL functions refund, for credit that a job has spent, and
 *		refund_hold, for credit that a caller's own hold has spent.
 *
 * Locks: key, holds by id, buckets in burn order.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/errors.h"
#include "util/sql.h"
#include "util/not_found.h"
#include "api/api.h"
#include "ledger/refund.h"
#include "request/request.h"

API_FUNCTION(gpucredit_refund, refund);
API_FUNCTION(gpucredit_refund_hold, refund_hold);

/* one call of refund or refund_hold */
typedef struct Refund
{
	Request		request;
	char	   *org;
	int64		id;				/* number of the job or of the hold */
	Credits		amount;
	char	   *reason;
	Datum		result;			/* result of a replay */
} Refund;

SQL_STATEMENT(job_holds, SPI_OK_SELECT, "text, bigint",
			  "SELECT h.hold, h.captured OPERATOR(gpucredit.>) '0'"
			  " FROM gpucredit.hold h WHERE h.org = $1 AND h.job = $2"
			  " ORDER BY h.hold");

static bool begin(Refund *refund, FunctionCallInfo fcinfo,
				  const char *operation, const char *subject);
static Datum carry_out(Refund *refund, Hold *holds, int n, int64 job);
static int	lock_job_holds(const Refund *refund, Hold **holds);
static pg_attribute_noreturn() void refuse_job_hold(int64 id);

Datum
call_refund(PG_FUNCTION_ARGS)
{
	Refund		refund;
	Hold	   *holds;
	int			n;

	if (begin(&refund, fcinfo, "refund", "job"))
		return SqlFinishRow(refund.result);
	n = lock_job_holds(&refund, &holds);
	return SqlFinishRow(carry_out(&refund, holds, n, refund.id));
}

Datum
call_refund_hold(PG_FUNCTION_ARGS)
{
	Refund		refund;
	Hold		hold;

	if (begin(&refund, fcinfo, "refund_hold", "hold"))
		return SqlFinishRow(refund.result);
	if (!HoldLock(refund.org, refund.id, true, &hold))
		NotFoundHold(refund.id);
	if (hold.job != 0)
		refuse_job_hold(refund.id);
	return SqlFinishRow(carry_out(&refund, &hold, 1, 0));
}

/*
 * Parses the arguments and inserts the key.  Returns true if the call is a
 * replay.
 */
static bool
begin(Refund *refund, FunctionCallInfo fcinfo, const char *operation,
	  const char *subject)
{
	Request    *request = &refund->request;

	refund->org = ArgName(fcinfo, 0, "org");
	RequestInit(request, fcinfo, operation, refund->org,
				ArgKey(fcinfo, 2, "key"));
	RequestInt8(request, refund->id = ArgInt8(fcinfo, 1, subject,
											  PG_INT64_MIN, PG_INT64_MAX));
	RequestInt8(request, refund->amount = ArgAmount(fcinfo, 3, "amount",
													false));
	RequestText(request, refund->reason = ArgTextOrNull(fcinfo, 4,
														"reason"));
	SqlConnect();
	return RequestBegin(request, &refund->result);
}

/*
 * Refunds an amount of locked holds, or refuses it if they have not spent that
 * much.
 */
static Datum
carry_out(Refund *refund, Hold *holds, int n, int64 job)
{
	Request    *request = &refund->request;
	Cause		cause = {request->operation, job, 0};
	AuditRow	audit = {.org = refund->org,
		.operation = request->operation, .decision = "refunded",
		.reason = refund->reason, .job = job,
		.hold = job == 0 ? refund->id : 0};
	Credits		spent = 0;
	Returned	returned;

	for (int i = 0; i < n; i++)
		spent = CreditsAdd(spent, holds[i].captured);
	if (refund->amount > spent)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"amount\" is more than %s %lld has spent",
						job == 0 ? "hold" : "job",
						(long long) (job == 0 ? refund->id : job)),
				 errdetail("It has spent %s, less refunds.",
						   CreditsToCString(spent)),
				 errhint("Refund at most that.")));
	returned = HoldsRefund(holds, n, &cause, refund->amount, &audit.at);

	audit.account = holds[0].account;
	audit.trace = holds[0].trace;
	AuditCredits(&audit, "amount", refund->amount);
	AuditCredits(&audit, "lapsed", returned.lapsed);
	AuditText(&audit, "key", request->key);
	AuditWrite(&audit);

	return RequestFinish(request,
						 VALUES(NumericValue(returned.released),
								NumericValue(returned.lapsed),
								BoolValue(false)));
}

/*
 * Locks the holds of a job that have captured credit, by id, and returns them
 * newest first. Every job has a hold, which may be of 0.
 */
static int
lock_job_holds(const Refund *refund, Hold **holds)
{
	SqlResult	rows;
	int			n = 0;

	rows = SqlRun(&job_holds,
				  VALUES(TextValue(refund->org), Int8Value(refund->id)));
	if (rows.n == 0)
		NotFoundJob(refund->id);
	for (uint64 i = 0; i < rows.n; i++)
		n += SqlBool(rows, i, 2);
	*holds = palloc(sizeof(Hold) * Max(n, 1));
	for (uint64 i = 0, next = n; i < rows.n; i++)
	{
		if (SqlBool(rows, i, 2) &&
			!HoldLock(refund->org, SqlInt8(rows, i, 1), true,
					  &(*holds)[--next]))
			Ensure(false, "A hold is missing.");
	}
	SqlFree(&rows);
	return n;
}

static void
refuse_job_hold(int64 id)
{
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_NO_HOLD),
			 errmsg("hold %lld cannot be refunded", (long long) id),
			 errdetail("The hold belongs to a job."),
			 errhint("Pass the number gpucredit.hold() returned.")));
}
