/*-------------------------------------------------------------------------
 *
 * write_off.c
 *		SQL function write_off: an administrator forgives uncollected use.
 *
 * Use that no credit covered is stored for each account
 * (ledger/uncollected.c), and keeps its organisation from opening holds until
 * credit covers it.  A write-off reduces it.  No credit moves, so there is no
 * entry. The audit log has the amount, the reason and who decided.
 *
 * Locks: request key, the account's row of gpucredit.uncollected.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "audit/audit.h"
#include "util/args.h"
#include "util/clock.h"
#include "util/errors.h"
#include "util/sql.h"
#include "api/api.h"
#include "ledger/uncollected.h"
#include "request/request.h"
#include "shmem/wake.h"

API_FUNCTION(gpucredit_write_off, write_off);

SQL_STATEMENT(owed_lock, SPI_OK_SELECT, "text, text",
			  "SELECT u.owed FROM gpucredit.uncollected u"
			  " WHERE u.org = $1 AND u.account = $2 FOR NO KEY UPDATE");

Datum
call_write_off(PG_FUNCTION_ARGS)
{
	char	   *org = ArgName(fcinfo, 0, "org");
	char	   *account = ArgPath(fcinfo, 1, "account");
	AccountPath path = AccountParse(org, account);
	bool		all = PG_ARGISNULL(4);
	AuditRow	audit = {.org = org, .account = account,
		.operation = "write_off", .decision = "written_off"};
	Credits		owed;
	Credits		amount;
	Request		request;
	Datum		result;
	SqlResult	row;

	RequestInit(&request, fcinfo, "write_off", org, ArgKey(fcinfo, 2, "key"));
	RequestText(&request, account);
	audit.reason = ArgText(fcinfo, 3, "reason");
	RequestText(&request, audit.reason);
	amount = all ? -1 : ArgAmount(fcinfo, 4, "amount", false);
	RequestInt8(&request, amount);

	SqlConnect();
	if (RequestBegin(&request, &result))
		return SqlFinishRow(result);
	(void) AccountSuspended(&path);
	row = SqlRun(&owed_lock, VALUES(TextValue(org), TextValue(account)));
	owed = row.n == 0 ? 0 : SqlCredits(row, 0, 1);
	if (all)
		amount = owed;
	if (amount > owed)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"amount\" is more than is uncollected"),
				 errdetail("Account \"%s\" itself owes %s.", account,
						   CreditsToCString(owed)),
				 errhint("Write off at most that, or leave the amount out. "
						 "What accounts below it owe is written off there.")));
	UncollectedWriteOff(org, account, amount);
	audit.at = ClockNow();
	AuditCredits(&audit, "amount", amount);
	AuditCredits(&audit, "owed", owed - amount);
	AuditText(&audit, "key", request.key);
	AuditWrite(&audit);
	return SqlFinishRow(RequestFinish(&request,
									  VALUES(NumericValue(amount),
											 NumericValue(owed - amount),
											 BoolValue(false))));
}
