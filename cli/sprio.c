/*-------------------------------------------------------------------------
 *
 * sprio.c
 *		sprio: prints what decides when waiting jobs start, in the order of
 *		the queue.
 *
 * Unlike in Slurm, the order is not a weighted sum: jobs are ordered by the
 * rank of their tier, then by fair share, then by priority within their
 * account. Therefore the formats and weights of Slurm's sprio are refused.
 *
 * queue() plans one cycle for each pool, and shows a tenant only its own jobs.
 * The long form calls explain() for each job, which returns the position in
 * the order.
 *-------------------------------------------------------------------------
 */
#include <getopt.h>
#include <stdlib.h>

#include "cli.h"
#include "fair_rows.h"
#include "job_list.h"

#define USE	"usage: sprio [-h] [-l] [-j JOBS] [-A ACCOUNT] [-u USERS]" \
	" [-p PARTITIONS] [--json]"

/* Selects the waiting jobs that the options match. */
#define FOUND SLURM_FOUND( \
	"j.org = $1 AND j.ended_at IS NULL AND s.long = 'PENDING'" \
	" AND ($2::bigint[] IS NULL OR j.job = ANY ($2::bigint[]))" \
	" AND " SLURM_OF_ACCOUNT("$3") " AND " SLURM_OF_USERS("$4") \
	" AND ($5::text IS NULL OR j.pool = ANY (string_to_array($5, ',')))")

#define COLUMNS \
	"SELECT " SLURM_JOB_ID " AS \"JOBID\", j.pool AS \"PARTITION\"," \
	" regexp_replace(j.account, '^.*/', '') AS \"USER\", j.tier AS \"QOS\"," \
	" t.rank AS \"RANK\", " SLURM_LENGTH("coalesce(q.waits, gpucredit.now()" \
	" - j.submitted_at)") " AS \"AGE\""

#define COLUMN_FAIR	", f.factor AS \"FAIRSHARE\""

#define COLUMNS_END \
	", " SLURM_INSTANT("q.expected_at", "N/A") " AS \"EXPECTED\"," \
	" coalesce(q.reason, '') AS \"REASON\""

/* explain() returns the order as "turn 3 of 7: tier ...". */
#define COLUMNS_LONG \
	", substring(o.detail FROM '^turn ([0-9]+)')::int AS \"TURN\"," \
	" coalesce(substring(o.detail FROM '^turn [^:]*: (.*)$'), '') AS \"ORDER\""

#define JOINS \
	" FROM" SLURM_NUMBERED " LEFT JOIN gpucredit.tier t ON t.tier = j.tier" \
	SLURM_JOIN_QUEUE

#define JOIN_FAIR \
	" LEFT JOIN" SLURM_FAIR_ROWS("(SELECT DISTINCT d.pool FROM found d)") \
	"f ON f.pool = j.pool" \
	" AND f.org = j.org AND f.account = j.account"

#define JOIN_LONG \
	" LEFT JOIN LATERAL (SELECT e.detail FROM gpucredit.explain(j.org, j.job) e" \
	"  WHERE e.check_name = 'order') o ON true"

/* The options of sprio. */
typedef struct Sprio
{
	char	   *jobs;			/* text of a bigint array, or NULL for all */
	const char *account;
	const char *user;
	const char *pool;
	bool		long_form;
	bool		heading;
	bool		json;
} Sprio;

static void parse_options(Sprio *s, int argc, char **argv);
static bool may_read_shares(void);

int
CliSprio(int argc, char **argv)
{
	Sprio		s = {.heading = true, .account = cli_account};
	const char *values[5];
	PGresult   *result;
	bool		shares;

	parse_options(&s, argc, argv);
	shares = may_read_shares();
	values[0] = CliOrg();
	values[1] = s.jobs;
	values[2] = s.account;
	values[3] = s.user;
	values[4] = s.pool;
	result = CliCall(Format(FOUND COLUMNS "%s" COLUMNS_END "%s"
							JOINS "%s%s ORDER BY j.pool, q.place, t.rank,"
							" j.submitted_at, j.job",
							shares ? COLUMN_FAIR : "",
							s.long_form ? COLUMNS_LONG : "",
							shares ? JOIN_FAIR : "",
							s.long_form ? JOIN_LONG : ""), 5, values);
	if (s.jobs != NULL && PQntuples(result) == 0)
		Fail(CLI_REFUSED, "Unable to find jobs matching user/id(s) specified");
	if (s.json)
		CliPrintJson(CliJsonRows(result));
	else
		CliTable(result, s.heading);
	PQclear(result);
	return CLI_DONE;
}

/*
 * Whether this login may call fair_share(), which shows other organisations.
 */
static bool
may_read_shares(void)
{
	PGresult   *result = CliCall("SELECT pg_catalog.has_function_privilege("
								 "'gpucredit.fair_share'::regproc, 'EXECUTE')", 0,
								 NULL);
	bool		may = *PQgetvalue(result, 0, 0) == 't';

	PQclear(result);
	return may;
}

/*
 * Parse the command line.
 */
static void
parse_options(Sprio *s, int argc, char **argv)
{
	static const char letters[] = ":A:hj:lp:u:";
	static const struct option options[] = {
		{"account", required_argument, NULL, 'A'},
		{"help", no_argument, NULL, 'H'},
		{"jobs", required_argument, NULL, 'j'},
		{"json", no_argument, NULL, 'J'},
		{"long", no_argument, NULL, 'l'},
		{"noheader", no_argument, NULL, 'h'},
		{"partition", required_argument, NULL, 'p'},
		{"user", required_argument, NULL, 'u'},
		{NULL, 0, NULL, 0}
	};
	int			option;

	while ((option = CliNextOption(USE, options, letters, argc, argv)) != -1)
	{
		switch (option)
		{
			case 'A':
				s->account = optarg;
				break;
			case 'J':
				s->json = true;
				break;
			case 'h':
				s->heading = false;
				break;
			case 'j':
				s->jobs = JobListParse(optarg);
				break;
			case 'l':
				s->long_form = true;
				break;
			case 'p':
				s->pool = optarg;
				break;
			case 'u':
				s->user = optarg;
				break;
		}
	}
}
