/*-------------------------------------------------------------------------
 *
 * heartbeat_row.c
 *		Rows of heartbeat's result that are requests to the agent, and no
 *		orders about an attempt.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "job/run/heartbeat_row.h"
#include "util/args.h"

/*
 * Adds row i of "requests" to heartbeat's result.  Its columns are org, job,
 * attempt, and what the agent is asked for, which goes into the given column of
 * the result.  The other columns are NULL.
 */
void
HeartbeatRowPut(ReturnSetInfo *rsinfo, SqlResult requests, uint64 i,
				const char *action, int column)
{
	bool		isnull;
	Values	   *row = VALUES(TextValue(SqlText(requests, i, 1)),
							 Int8Value(SqlInt8(requests, i, 2)),
							 Int4Value(SqlInt4(requests, i, 3)),
							 TextValue(action));

	for (int c = 5; c <= HEARTBEAT_WIDTH; c++)
	{
		if (c == column)
			ValuesAdd(row, DatumValue(SqlDatum(requests, i, 4, &isnull)));
		else
			ValuesAdd(row, NullValue());
	}
	RowPut(rsinfo, row);
}
