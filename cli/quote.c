/*-------------------------------------------------------------------------
 *
 * quote.c
 *		submit --dry-run and sbatch --test-only: print what a submission would
 *		cost, who would pay, and when the job would start. Nothing is
 *		submitted.
 *
 * For an array, the command quotes one task with the array's options; all
 * tasks together would hold that amount times their number.
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "quote.h"

/*
 * $13 is the index of a task of an array; $14 is the number of its tasks, or
 * 1; $15 is how the options were understood.
 */
#define QUOTE \
	"WITH q AS MATERIALIZED (SELECT * FROM gpucredit.quote($1, $2, $3," \
	" $4::interval, $5, $6, $7, max_retries => $8::int," \
	" cpu_milli => ($9::bigint[])[1], memory_mib => ($9::bigint[])[2]," \
	" hold_window => $10::interval, spec => $11::jsonb," \
	" options => $12::jsonb || CASE WHEN $13::bigint IS NULL THEN '{}'" \
	"  ELSE jsonb_build_object('array', gen_random_uuid()::text," \
	"   'task', $13::bigint) END)), jobs (n, asks) AS (VALUES ($14::bigint, $15::text)) "
#define INSTANT(at)	"to_char(" at ", 'YYYY-MM-DD HH24:MI:SSOF')"
#define START \
	"CASE q.starts WHEN 'now' THEN 'now'" \
	" WHEN 'soon' THEN concat('by ', " INSTANT("q.latest_at") "," \
	"  ', when others have left')" \
	" WHEN 'later' THEN concat('about ', " INSTANT("q.expected_at") "," \
	"  ', at the latest ' || " INSTANT("q.latest_at") ")" \
	" WHEN 'elsewhere' THEN 'when the other scheduler starts it'" \
	" WHEN 'waits' THEN concat_ws(': ', 'not known', q.waits_for)" \
	" WHEN 'never' THEN concat_ws(': ', 'never', q.waits_for) END"
#define OFFER \
	"format('%s at %s per GPU and hour%s', o.o ->> 'gpu_type'," \
	" o.o ->> 'per_gpu_hour', ', on spot nodes '" \
	"  || nullif(o.o ->> 'spot_per_gpu_hour', o.o ->> 'per_gpu_hour'))"
#define BUCKET \
	"format('%s of bucket %s (%s) of %s', b.b ->> 'amount'," \
	" b.b ->> 'bucket', b.b ->> 'kind', coalesce('account '" \
	"  || nullif(b.b ->> 'account', ''), 'the organisation'))"
#define FIGURES \
	"SELECT f.name, f.value FROM q, jobs, LATERAL (VALUES" \
	" (1, 'decision', concat_ws(': ', q.decision, q.reason))," \
	" (2, 'asks', jobs.asks)," \
	" (3, 'held', CASE WHEN q.held IS NOT NULL AND jobs.n > 1 THEN" \
	"  format('%s for %s, %s for all %s jobs', q.held, q.held_for," \
	"   q.held * jobs.n, jobs.n) ELSE q.held || ' for ' || q.held_for END)," \
	" (4, 'cost', q.cost || ' at most, in ' || q.wall_limit)," \
	" (5, 'per hour', q.per_hour::text)," \
	" (6, 'discount', CASE WHEN q.discount > 0 THEN" \
	"  format('%s of held, by the factor %s of the tier', q.discount," \
	"   trim_scale(q.price_factor)) END)," \
	" (7, 'cpu, memory', CASE WHEN q.resources > 0 THEN" \
	"  q.resources || ' per hour' END)," \
	" (200000, 'can pay', q.payable::text)," \
	" (200001, 'budgets leave', q.budget_left::text)," \
	" (200002, 'starts', " START ")" \
	" UNION ALL SELECT 1000 + o.n, 'offer', " OFFER \
	" FROM jsonb_array_elements(q.offers) WITH ORDINALITY AS o (o, n)" \
	" UNION ALL SELECT 100000 + b.n, 'pays', " BUCKET \
	" FROM jsonb_array_elements(q.buckets) WITH ORDINALITY AS b (b, n))" \
	" f (n, name, value) WHERE f.value IS NOT NULL ORDER BY f.n"

static int	show_start(const PGresult * result, const char *pool,
					   int64_t processors);
static char *local_time(const char *epoch);

/*
 * Prints the expected start on standard error, as sbatch does. The job has no
 * number yet, and its nodes are chosen only when it starts.
 */
int
QuoteStart(const char *const *values, int64_t processors)
{
	PGresult   *result = CliCall(QUOTE "SELECT q.decision, q.reason,"
								 " extract(epoch FROM q.expected_at)::bigint"
								 " FROM q, jobs", QUOTE_VALUES, values);
	int			status = show_start(result, values[QUOTE_POOL],
									processors);

	PQclear(result);
	return status;
}

/*
 * Prints Slurm's line about the start, or why the job would be denied.
 */
static int
show_start(const PGresult * result, const char *pool, int64_t processors)
{
	if (strcmp(PQgetvalue(result, 0, 0), "denied") == 0)
	{
		fprintf(stderr, "%s: error: allocation failure: %s\n", cli_program,
				PQgetvalue(result, 0, 1));
		return CLI_REFUSED;
	}
	fprintf(stderr, "%s: Job 0 to start at %s using %lld processors on nodes"
			" n/a in partition %s\n", cli_program,
			PQgetisnull(result, 0, 2) ? "Unknown" :
			local_time(PQgetvalue(result, 0, 2)), (long long) processors,
			pool);
	return CLI_DONE;
}

/* Formats an instant as Slurm does, in the user's time zone. */
static char *
local_time(const char *epoch)
{
	time_t		instant = (time_t) strtoll(epoch, NULL, 10);
	struct tm	local;
	char		text[32];

	localtime_r(&instant, &local);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &local);
	return Format("%s", text);
}

/*
 * Prints the quote as submit does: a line for each figure, offered type and
 * bucket. For JSON output, "asks" describes how the options were understood;
 * otherwise it is NULL.
 */
int
QuoteShow(const char *const *values, json_t * asks)
{
	PGresult   *result;
	int			status;

	if (asks != NULL)
	{
		json_t	   *document;

		result = CliCall(QUOTE "SELECT q.*, jobs.n AS jobs FROM q, jobs",
						 QUOTE_VALUES, values);
		status = strcmp(PQgetvalue(result, 0, 0), "denied") == 0 ?
			CLI_REFUSED : CLI_DONE;
		document = CliJsonRow(result, 0);
		json_object_set_new(document, "asks", asks);
		CliPrintJson(document);
		PQclear(result);
		return status;
	}
	result = CliCall(QUOTE FIGURES, QUOTE_VALUES, values);
	status = strncmp(PQgetvalue(result, 0, 1), "denied", 6) == 0 ?
		CLI_REFUSED : CLI_DONE;
	CliTable(result, false);
	PQclear(result);
	return status;
}
