/*-------------------------------------------------------------------------
 *
 * external_hold.c
 *		A hold of a caller with a scheduler of its own: what its calls share.
 *
 * Locks: hold.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/errors.h"
#include "util/not_found.h"
#include "util/sql.h"
#include "ledger/external_hold.h"

SQL_STATEMENT(hold_end, SPI_OK_UPDATE,
			  "text, bigint, timestamptz, gpucredit.credits",
			  "UPDATE gpucredit.hold h SET expires_at = $3,"
			  " uncollected = CASE WHEN $4 OPERATOR(gpucredit.>) '0'"
			  "  THEN COALESCE(h.uncollected, '0') OPERATOR(gpucredit.+) $4"
			  "  ELSE h.uncollected END"
			  " WHERE h.org = $1 AND h.hold = $2");

/*
 * Lock a caller's own hold.
 */
void
OwnHoldLock(const char *org, int64 id, Hold *hold)
{
	if (!HoldLock(org, id, true, hold))
		NotFoundHold(id);
	if (hold->job != 0)
		OwnHoldRefuse(id, "It belongs to a job, and is settled with that.",
					  "Call gpucredit.settle() or gpucredit.cancel() for the job.");
}

void
OwnHoldRefuse(int64 id, const char *why, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_GPUCREDIT_NO_HOLD),
			 errmsg("hold %lld is not open to callers", (long long) id),
			 errdetail_internal("%s", why),
			 errhint("%s", hint)));
}

/*
 * Write when a locked hold ends, and what more of it is uncollected.
 */
void
OwnHoldSetEnd(const Hold *hold, Credits uncollected)
{
	SqlArgs		args = {0};

	SqlArgText(&args, hold->org);
	SqlArgInt8(&args, hold->hold);
	SqlArgTime(&args, hold->expires_at);
	SqlArgCredits(&args, uncollected);
	Ensure(SqlRun(&hold_end, &args).n == 1, "A hold is missing.");
}
