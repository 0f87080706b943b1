/*-------------------------------------------------------------------------
 *
 * explain_end.c
 *		Reports for explain() how a job's last attempt ended, whether and
 *		why the job is retried, and what to do about it.
 *
 * The audit row of the settlement names the retry rule that matched. Where
 * audit rows were removed by age, only what the attempt's own row contains is
 * reported.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "sched/explain/explain.h"
#include "util/sql.h"

SQL_STATEMENT(end_read, SPI_OK_SELECT, "text, bigint, int",
			  "SELECT a.outcome, pg_catalog.justify_hours("
			  "  pg_catalog.date_trunc('second', a.elapsed))::text,"
			  " a.exit_code, pg_catalog.regexp_replace(pg_catalog.btrim("
			  "  pg_catalog.\"right\"(a.message, 500), E' \\n\\r\\t'),"
			  "  '[[:space:]]*[\\n\\r][[:space:]]*', ' / ', 'g'),"
			  " a.billed::text, a.refunded::text, a.job_state,"
			  " s.detail ->> 'rule', s.detail ->> 'advice', a.ended_by,"
			  " (SELECT pg_catalog.string_agg(g.node || g.gpus::text, ' '"
			  "   ORDER BY g.node) FROM gpucredit.attempt_gpu g"
			  "  WHERE g.org = $1 AND g.job = $2 AND g.attempt = $3),"
			  " j.failures, j.max_retries FROM gpucredit.attempt a"
			  " JOIN gpucredit.job j ON j.org = a.org AND j.job = a.job"
			  " LEFT JOIN LATERAL (SELECT d.detail FROM gpucredit.audit d"
			  "  WHERE d.org = $1 AND d.job = $2 AND d.attempt = $3"
			  "  AND d.operation = 'settle' ORDER BY d.audit DESC LIMIT 1) s"
			  "  ON true WHERE a.org = $1 AND a.job = $2 AND a.attempt = $3"
			  " AND a.ended_at IS NOT NULL");

static char *end_text(SqlResult row, int32 attempt);

/*
 * Returns the rows about the last attempt, and none if it still runs. How an
 * attempt ended does not keep a job that is retried from starting, so the
 * checks of such a job pass.
 */
void
ExplainEnd(ReturnSetInfo *rsinfo, const char *org, int64 job, int32 attempt)
{
	SqlResult	row = SqlRead(&end_read, VALUES(TextValue(org), Int8Value(job),
												Int4Value(attempt)));
	bool		good;
	bool		again;

	if (row.n == 0)
		return;
	good = strcmp(SqlText(row, 0, 1), "completed") == 0;
	again = strcmp(SqlText(row, 0, 7), "queued") == 0 ||
		strcmp(SqlText(row, 0, 7), "unfunded") == 0;
	ExplainPut(rsinfo, "last attempt", good || again, end_text(row, attempt));
	if (!good && strcmp(SqlText(row, 0, 1), "cancelled") != 0)
		ExplainPut(rsinfo, "retry", again,
				   psprintf("%s%s: %d failures so far, of which %d are tried "
							"again; what the platform did to it does not count",
							SqlIsNull(row, 0, 8) ? "no rule matches its end" :
							"by rule ",
							SqlIsNull(row, 0, 8) ? "" : SqlText(row, 0, 8),
							SqlInt4(row, 0, 12), SqlInt4(row, 0, 13)));
	if (!good && !SqlIsNull(row, 0, 9))
		ExplainPut(rsinfo, "advice", again, SqlText(row, 0, 9));
}

/* Returns in words how the attempt ended. */
static char *
end_text(SqlResult row, int32 attempt)
{
	char	   *code = "";
	int32		exit_code = SqlIsNull(row, 0, 3) ? 0 : SqlInt4(row, 0, 3);

	if (exit_code > 128 && exit_code < 193)
		code = psprintf(", exit code %d (signal %d)", exit_code,
						exit_code - 128);
	else if (!SqlIsNull(row, 0, 3))
		code = psprintf(", exit code %d", exit_code);
	return psprintf("attempt %d on %s ended as %s after %s%s, billed %s, "
					"refunded %s%s%s", attempt, SqlIsNull(row, 0, 11) ?
					"no node" : SqlText(row, 0, 11), SqlText(row, 0, 1),
					SqlText(row, 0, 2), code, SqlText(row, 0, 5),
					SqlText(row, 0, 6), SqlIsNull(row, 0, 4) ? "" : ": ",
					SqlIsNull(row, 0, 4) ? "" : SqlText(row, 0, 4));
}
