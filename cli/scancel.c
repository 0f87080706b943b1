/*-------------------------------------------------------------------------
 *
 * scancel.c
 *		scancel: cancel jobs, arrays and tasks, or those that a filter finds.
 *
 * It is silent if a job was cancelled, or is over.
 *
 *-------------------------------------------------------------------------
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "job_list.h"

#define USE	"usage: scancel [-Qi] [-u USERS] [-n NAMES] [-t STATES] [-A ACCOUNT]" \
	" [-p PARTITIONS] [JOBS...]"

/* The options. */
typedef struct Scancel
{
	bool		quiet;
	bool		asks;
	bool		filters;
	char	   *jobs;			/* as a list; NULL: all that the filter finds */
	const char *user;
	const char *name;
	const char *states;
	const char *account;
	const char *pool;
} Scancel;

static void parse_options(Scancel *s, int argc, char **argv);
static PGresult * find_jobs(const Scancel *s);
static bool confirm(const char *job, const char *name);
static int	cancel_one(const Scancel *s, const char *job);

int
CliScancel(int argc, char **argv)
{
	Scancel		s = {0};
	PGresult   *jobs;
	int			status = CLI_DONE;

	parse_options(&s, argc, argv);
	jobs = find_jobs(&s);
	for (int i = 0; i < PQntuples(jobs); i++)
	{
		const char *job = PQgetvalue(jobs, i, 0);

		if (s.asks && !confirm(job, PQgetvalue(jobs, i, 1)))
			continue;
		if (cancel_one(&s, job) != CLI_DONE)
			status = CLI_REFUSED;
	}
	PQclear(jobs);
	return status;
}

/*
 * Parse the command line; an unknown word ends the command.
 */
static void
parse_options(Scancel *s, int argc, char **argv)
{
	static const struct option options[] = {
		{"account", required_argument, NULL, 'A'},
		{"help", no_argument, NULL, 'h'},
		{"interactive", no_argument, NULL, 'i'},
		{"jobname", required_argument, NULL, 'n'},
		{"name", required_argument, NULL, 'n'},
		{"partition", required_argument, NULL, 'p'},
		{"quiet", no_argument, NULL, 'Q'},
		{"state", required_argument, NULL, 't'},
		{"user", required_argument, NULL, 'u'},
		{NULL, 0, NULL, 0}
	};
	int			option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "A:Qin:p:t:u:", options,
								 NULL)) != -1)
	{
		switch (option)
		{
			case 'A':
				s->account = optarg;
				break;
			case 'Q':
				s->quiet = true;
				continue;
			case 'h':
				puts(USE);
				exit(CLI_DONE);
			case 'i':
				s->asks = true;
				continue;
			case 'n':
				s->name = optarg;
				break;
			case 'p':
				s->pool = optarg;
				break;
			case 't':
				s->states = optarg;
				break;
			case 'u':
				s->user = optarg;
				break;
			default:
				Fail(CLI_USAGE, "option \"%s\" is not supported",
					 argv[optind - 1]);
		}
		s->filters = true;
	}
	if (optind >= argc && !s->filters)
		Fail(CLI_USAGE, USE);
	for (int i = optind; i < argc; i++)
		s->jobs = s->jobs == NULL ? CliFormat("%s", argv[i]) :
			CliFormat("%s,%s", s->jobs, argv[i]);
	if (s->jobs != NULL)
		s->jobs = JobListParse(s->jobs);
}

/*
 * The jobs that are meant.  Named ones without a filter are cancelled whatever
 * they are, so that one which does not exist is an error.
 */
static PGresult *
find_jobs(const Scancel *s)
{
	const char *values[8] = {CliOrg(), s->jobs, s->user, s->name, s->states,
		s->account != NULL ? s->account : cli_account, s->pool,
	s->filters ? "t" : "f"};

	return CliCall("SELECT u.job, j.name FROM unnest($2::bigint[]) AS u (job)"
				   " LEFT JOIN gpucredit.jobs j ON j.org = $1 AND j.job = u.job"
				   " WHERE NOT $8::boolean"
				   " UNION ALL SELECT j.job, j.name FROM gpucredit.jobs j"
				   " CROSS JOIN LATERAL (SELECT w.long, w.short FROM"
				   SLURM_STATES "  WHERE w.state = j.state) s"
				   " WHERE $8::boolean AND j.org = $1 AND j.ended_at IS NULL"
				   " AND ($2::bigint[] IS NULL OR j.job = ANY ($2::bigint[]))"
				   " AND ($3::text IS NULL OR regexp_replace(j.account,"
				   "  '^.*/', '') = ANY (string_to_array($3, ',')))"
				   " AND ($4::text IS NULL"
				   "  OR j.name = ANY (string_to_array($4, ',')))"
				   " AND ($5::text IS NULL OR ARRAY[s.long, s.short] &&"
				   "  string_to_array(upper($5), ','))"
				   " AND ($6::text IS NULL OR $6 = '' OR j.account = $6"
				   "  OR starts_with(j.account, $6 || '/'))"
				   " AND ($7::text IS NULL"
				   "  OR j.pool = ANY (string_to_array($7, ',')))"
				   " ORDER BY 1", 8, values);
}

/*
 * Ask whoever types; without an answer the job stays.
 */
static bool
confirm(const char *job, const char *name)
{
	char		answer[16] = "";

	printf("Cancel job_id=%s name=%s [y/n]? ", job, name);
	fflush(stdout);
	return fgets(answer, sizeof(answer), stdin) != NULL && *answer == 'y';
}

/*
 * Cancel a job; its key is fixed, so a second try is the same call.
 */
static int
cancel_one(const Scancel *s, const char *job)
{
	char	   *key = CliFormat("gpucredit-cancel-%s", job);
	const char *values[3] = {CliOrg(), job, key};
	const char *sql = "SELECT gpucredit.cancel($1, $2::bigint, $3)";
	PGresult   *result = CliTry(sql, 3, values);
	int			status = CLI_DONE;

	for (int try = 0; try < 3 && CliRetries(result); try++)
	{
		PQclear(result);
		result = CliTry(sql, 3, values);
	}
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
	{
		const char *message = PQresultErrorField(result,
												 PG_DIAG_MESSAGE_PRIMARY);

		if (!s->quiet)
			fprintf(stderr, "scancel: error: Kill job error on job id %s:"
					" %s\n", job, message == NULL ? "no connection" : message);
		status = CLI_REFUSED;
	}
	PQclear(result);
	free(key);
	return status;
}
