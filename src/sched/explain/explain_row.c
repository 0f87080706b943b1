/*-------------------------------------------------------------------------
 *
 * explain_row.c
 *		Returns the rows of explain(): one for each check.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "sched/explain/explain.h"
#include "utils/timestamp.h"

/* Returns one row. */
void
ExplainPut(ReturnSetInfo *rsinfo, const char *check, bool passes,
		   const char *detail)
{
	RowPut(rsinfo,
		   VALUES(TextValue(check), BoolValue(passes), TextValue(detail)));
}

const char *
ExplainTime(TimestampTz at)
{
	return at == DT_NOEND ? "never" : pstrdup(timestamptz_to_str(at));
}
