/*-------------------------------------------------------------------------
 *
 * scancel.c
 *		scancel: cancels jobs, arrays and tasks, or the jobs that match a
 *		filter.
 *
 * It prints nothing if a job was cancelled, or had ended already. A filter
 * only finds jobs that the login may read, and each job is cancelled by a call
 * that checks the login's rights again.
 *-------------------------------------------------------------------------
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "job_list.h"

#define USE	"usage: scancel [-Q | -v] [-i] [-u USERS | --me] [-n NAMES]" \
	" [-t STATES] [-A ACCOUNT]\n               [-p PARTITIONS] [-q QOS]" \
	" [-w NODES] [--wckey=KEYS] [JOBS...]"

/* The options. */
typedef struct Scancel
{
	bool		quiet;
	bool		verbose;
	bool		asks;
	bool		filters;
	char	   *jobs;			/* text of a bigint array; NULL for all jobs
								 * that match the filter */
	const char *user;
	const char *name;
	const char *states;
	const char *account;
	const char *pool;
	const char *tier;
	const char *nodes;
	const char *wckey;
	const char *own;			/* the account whose own jobs are to be
								 * cancelled, or NULL */
} Scancel;

/* Options that can be set in the environment, by Slurm's names. */
static const struct
{
	const char *variable;
	int			option;
}			variables[] = {
	{"SCANCEL_ACCOUNT", 'A'}, {"SCANCEL_INTERACTIVE", 'i'},
	{"SCANCEL_NAME", 'n'}, {"SCANCEL_PARTITION", 'p'}, {"SCANCEL_QOS", 'q'},
	{"SCANCEL_STATE", 't'}, {"SCANCEL_USER", 'u'}, {"SCANCEL_VERBOSE", 'v'},
	{"SCANCEL_WCKEY", 'W'},
};

static void parse_options(Scancel *s, int argc, char **argv);
static bool set_option(Scancel *s, int option, const char *value);
static void refuse_signal(char **argv);
static PGresult * find_jobs(const Scancel *s);
static bool confirm(const PGresult * jobs, int row);
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
		if (s.asks && !confirm(jobs, i))
			continue;
		if (cancel_one(&s, PQgetvalue(jobs, i, 0)) != CLI_DONE)
			status = CLI_REFUSED;
	}
	PQclear(jobs);
	return status;
}

/*
 * Parses the environment, then the command line, which overrides it. An
 * unknown word ends the command.
 */
static void
parse_options(Scancel *s, int argc, char **argv)
{
	static const char letters[] = ":A:Qin:p:q:t:u:vw:";
	static const struct option options[] = {
		{"account", required_argument, NULL, 'A'},
		{"help", no_argument, NULL, 'h'},
		{"interactive", no_argument, NULL, 'i'},
		{"jobname", required_argument, NULL, 'n'},
		{"me", no_argument, NULL, 'm'},
		{"name", required_argument, NULL, 'n'},
		{"nodelist", required_argument, NULL, 'w'},
		{"partition", required_argument, NULL, 'p'},
		{"qos", required_argument, NULL, 'q'},
		{"quiet", no_argument, NULL, 'Q'},
		{"state", required_argument, NULL, 't'},
		{"user", required_argument, NULL, 'u'},
		{"verbose", no_argument, NULL, 'v'},
		{"wckey", required_argument, NULL, 'W'},
		{NULL, 0, NULL, 0}
	};
	int			option;

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
	{
		const char *value = getenv(variables[i].variable);

		if (value != NULL)
			(void) set_option(s, variables[i].option, value);
	}
	opterr = 0;
	while ((option = getopt_long(argc, argv, letters, options, NULL)) != -1)
	{
		if (option == 'h')
		{
			CliHelp(USE, options, letters);
			exit(CLI_DONE);
		}
		if (!set_option(s, option, optarg))
		{
			refuse_signal(argv);
			CliBadOption(option, options, argv);
		}
	}
	if (optind >= argc && !s->filters)
		Fail(CLI_USAGE, USE);
	for (int i = optind; i < argc; i++)
		s->jobs = s->jobs == NULL ? Format("%s", argv[i]) :
			Format("%s,%s", s->jobs, argv[i]);
	if (s->jobs != NULL)
		s->jobs = JobListParse(s->jobs);
}

/*
 * Sets an option. Returns false if there is no such option.
 */
static bool
set_option(Scancel *s, int option, const char *value)
{
	switch (option)
	{
		case 'A':
			s->account = value;
			break;
		case 'Q':
			s->quiet = true;
			return true;
		case 'W':
			s->wckey = value;
			break;
		case 'i':
			s->asks = true;
			return true;
		case 'm':
			if (cli_account == NULL || *cli_account == '\0')
				Fail(CLI_USAGE, "--me means the account that GPUCREDIT_ACCOUNT"
					 " names, and it names none");
			s->own = cli_account;
			break;
		case 'n':
			s->name = value;
			break;
		case 'p':
			s->pool = value;
			break;
		case 'q':
			s->tier = value;
			break;
		case 't':
			s->states = StateListCheck(value);
			break;
		case 'u':
			s->user = value;
			break;
		case 'v':
			s->verbose = true;
			return true;
		case 'w':
			s->nodes = NodeListCheck(value);
			break;
		default:
			return false;
	}
	s->filters = true;
	return true;
}

/*
 * Refuses options about signals, because ending a job in another way than
 * requested would be worse than not ending it.
 */
static void
refuse_signal(char **argv)
{
	const char *word = argv[optind - 1];

	/* For an unknown long option, getopt_long() sets optopt to 0. */
	if (optopt == 0 ? strncmp(word, "--signal", 8) == 0 ||
		strcmp(word, "--batch") == 0 || strcmp(word, "--full") == 0 :
		optopt == 's' || optopt == 'b' || optopt == 'f')
		Fail(CLI_USAGE, "a running job cannot be sent a signal; without"
			 " --signal, --batch and --full scancel ends the job");
}

/*
 * Selects the jobs to cancel. Jobs that are named without a filter are
 * selected in any state, so that one that does not exist is reported as an
 * error.
 */
static PGresult *
find_jobs(const Scancel *s)
{
	const char *values[12] = {CliOrg(), s->jobs, s->user, s->name, s->states,
		s->account != NULL ? s->account : cli_account, s->pool,
	s->filters ? "t" : "f", s->tier, s->nodes, s->wckey, s->own};

	return CliCall("SELECT u.job, j.name, j.pool FROM unnest($2::bigint[])"
				   "  AS u (job)"
				   " LEFT JOIN gpucredit.jobs j ON j.org = $1 AND j.job = u.job"
				   " WHERE NOT $8::boolean"
				   " UNION ALL SELECT j.job, j.name, j.pool"
				   " FROM gpucredit.jobs j"
				   " CROSS JOIN LATERAL (SELECT w.long, w.short FROM"
				   SLURM_STATES "  WHERE w.state = j.state) s"
				   " WHERE $8::boolean AND j.org = $1 AND j.ended_at IS NULL"
				   " AND ($2::bigint[] IS NULL OR j.job = ANY ($2::bigint[]))"
				   " AND " SLURM_OF_USERS("$3")
				   " AND ($4::text IS NULL"
				   "  OR j.name = ANY (string_to_array($4, ',')))"
				   " AND ($5::text IS NULL OR ARRAY[s.long, s.short] &&"
				   "  string_to_array(upper($5), ','))"
				   " AND " SLURM_OF_ACCOUNT("$6")
				   " AND ($7::text IS NULL"
				   "  OR j.pool = ANY (string_to_array($7, ',')))"
				   " AND ($9::text IS NULL"
				   "  OR j.tier = ANY (string_to_array($9, ',')))"
				   " AND ($10::text IS NULL OR string_to_array(" SLURM_NODES
				   "  , ',') && string_to_array($10, ','))"
				   " AND ($11::text IS NULL OR j.labels ->> 'wckey'"
				   "  = ANY (string_to_array($11, ',')))"
				   " AND ($12::text IS NULL OR j.account = $12)"
				   " ORDER BY 1", 12, values);
}

/*
 * Asks the user for confirmation until the answer is yes or no. Without an
 * answer, the job is not cancelled.
 */
static bool
confirm(const PGresult * jobs, int row)
{
	char	   *answer = NULL;
	size_t		size = 0;

	for (;;)
	{
		printf("Cancel job_id=%s name=%s partition=%s [y/n]? ",
			   PQgetvalue(jobs, row, 0), PQgetvalue(jobs, row, 1),
			   PQgetvalue(jobs, row, 2));
		fflush(stdout);
		if (getline(&answer, &size, stdin) < 0 ||
			strchr("nN", *answer) != NULL)
		{
			free(answer);
			return false;
		}
		if (strchr("yY", *answer) != NULL)
		{
			free(answer);
			return true;
		}
	}
}

/*
 * Cancels a job. The call's idempotency key is fixed, so a repeated command is
 * the same call.
 */
static int
cancel_one(const Scancel *s, const char *job)
{
	char	   *key = Format("gpucredit-cancel-%s", job);
	const char *values[3] = {CliOrg(), job, key};
	const char *sql = "SELECT gpucredit.cancel($1, $2::bigint, $3)";
	PGresult   *result;
	int			status = CLI_DONE;

	if (s->verbose)
		fprintf(stderr, "scancel: Terminating job %s\n", job);
	result = CliRepeat(sql, 3, values, 0);
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
