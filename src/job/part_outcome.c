/*-------------------------------------------------------------------------
 *
 * part_outcome.c
 *		How an attempt ended, by what its parts told.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "util/args.h"
#include "util/sql.h"
#include "job/part_outcome.h"

SQL_STATEMENT(parts_told, SPI_OK_SELECT, "text, bigint, int",
			  "SELECT p.outcome, p.exit_code, p.message, p.node, p.rank,"
			  " p.log_uri, pg_catalog.max(p.elapsed) OVER ()"
			  " FROM gpucredit.attempt_part p WHERE p.org = $1"
			  " AND p.job = $2 AND p.attempt = $3"
			  " ORDER BY p.outcome = 'completed', p.turn LIMIT 1");

/*
 * How an attempt ended by what its parts told.  all: they all did; else only a
 * part that did not complete says anything, and false means that there is none.
 */
bool
PartsOutcome(const Attempt *attempt, bool all, Settlement *settlement)
{
	SqlArgs		args = {0};
	SqlResult	row;

	SqlArgText(&args, attempt->org);
	SqlArgInt8(&args, attempt->job);
	SqlArgInt4(&args, attempt->attempt);
	row = SqlRun(&parts_told, &args);
	if (row.n == 0 || (!all && strcmp(SqlText(row, 0, 1),
									  OutcomeNames[COMPLETED]) == 0))
		return false;
	settlement->outcome = (Outcome) ArgWord(SqlText(row, 0, 1), "outcome",
											OutcomeNames, OUTCOMES);
	settlement->has_exit_code = !SqlIsNull(row, 0, 2);
	if (settlement->has_exit_code)
		settlement->exit_code = SqlInt4(row, 0, 2);
	settlement->message = SqlText(row, 0, 3);
	settlement->node = SqlText(row, 0, 4);
	settlement->rank = SqlInt4(row, 0, 5);
	settlement->log_uri = SqlText(row, 0, 6);
	if (!SqlIsNull(row, 0, 7))
		settlement->elapsed = Max(settlement->elapsed,
								  SqlDuration(row, 0, 7));
	return true;
}
