/*-------------------------------------------------------------------------
 *
 * finding.c
 *		Findings of the nightly check of the books, for the server log.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/compat.h"
#include "util/log.h"

PG_FUNCTION_INFO_V1(gpucredit_log_finding);

/* log_finding(): logs one row of verify() or verify_audit(). */
Datum
gpucredit_log_finding(PG_FUNCTION_ARGS)
{
	static const char *const names[] = {"invariant", "org", "subject",
	"detail"};
	StringInfo	line = LogBegin("verify_failed");

	for (int i = 0; i < (int) lengthof(names); i++)
		LogText(line, names[i], ArgTextOrNull(fcinfo, i, names[i]));
	LogAtCommit(line);
	PG_RETURN_VOID();
}
