/*-------------------------------------------------------------------------
 *
 * scancel.c
 *		scancel: cancels jobs, arrays and tasks, or the jobs that match a
 *		filter, or sends them a signal.
 *
 * It prints nothing if a job was cancelled, or had ended already. A filter
 * only finds jobs that the login may read, and each job is cancelled by a call
 * that checks the login's rights again. A signal other than KILL goes to jobs
 * that run; a filter leaves out others.
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
	" [-w NODES] [--wckey=KEYS]\n               [-s SIGNAL [-b | -f]] [JOBS...]"

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
	const char *signal;			/* the signal to send; NULL to cancel */
	bool		batch;			/* it goes to the script alone */
	bool		full;			/* it goes to the script and all it started */
} Scancel;

/* Options that can be set in the environment, by Slurm's names. */
static const struct
{
	const char *variable;
	int			option;
}			variables[] = {
	{"SCANCEL_ACCOUNT", 'A'}, {"SCANCEL_BATCH", 'b'}, {"SCANCEL_FULL", 'f'},
	{"SCANCEL_INTERACTIVE", 'i'},
	{"SCANCEL_NAME", 'n'}, {"SCANCEL_PARTITION", 'p'}, {"SCANCEL_QOS", 'q'},
	{"SCANCEL_STATE", 't'}, {"SCANCEL_USER", 'u'}, {"SCANCEL_VERBOSE", 'v'},
	{"SCANCEL_WCKEY", 'W'},
};

static void parse_options(Scancel *s, int argc, char **argv);
static bool set_option(Scancel *s, int option, const char *value);
static const char *signal_name(const char *value);
static void check_signal(Scancel *s);
static PGresult * find_jobs(const Scancel *s);
static bool confirm(const PGresult * jobs, int row);
static int	change_one(const Scancel *s, const char *job);
static PGresult * cancel_one(const char *job);
static PGresult * signal_one(const Scancel *s, const char *job);

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
		if (change_one(&s, PQgetvalue(jobs, i, 0)) != CLI_DONE)
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
	static const char letters[] = ":A:Qbfin:p:q:s:t:u:vw:";
	static const struct option options[] = {
		{"account", required_argument, NULL, 'A'},
		{"batch", no_argument, NULL, 'b'},
		{"full", no_argument, NULL, 'f'},
		{"help", no_argument, NULL, 'h'},
		{"interactive", no_argument, NULL, 'i'},
		{"jobname", required_argument, NULL, 'n'},
		{"me", no_argument, NULL, 'm'},
		{"name", required_argument, NULL, 'n'},
		{"nodelist", required_argument, NULL, 'w'},
		{"partition", required_argument, NULL, 'p'},
		{"qos", required_argument, NULL, 'q'},
		{"quiet", no_argument, NULL, 'Q'},
		{"signal", required_argument, NULL, 's'},
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
			CliBadOption(option, options, argv);
	}
	check_signal(s);
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
		case 'b':
			s->batch = true;
			return true;
		case 'f':
			s->full = true;
			return true;
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
		case 's':
			s->signal = signal_name(value);
			return true;
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
 * Returns the name of a signal that is given by its name or number. Refuses
 * one that jobs cannot get: ending a job in another way than requested would
 * be worse than not ending it.
 */
static const char *
signal_name(const char *value)
{
	static const struct
	{
		const char *name;
		const char *number;
	}			signals[] = {
		{"HUP", "1"}, {"INT", "2"}, {"QUIT", "3"}, {"KILL", "9"},
		{"USR1", "10"}, {"USR2", "12"}, {"TERM", "15"}, {"CONT", "18"}
	};
	const char *word = strncasecmp(value, "SIG", 3) == 0 ? value + 3 : value;

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
	{
		if (strcasecmp(word, signals[i].name) == 0 ||
			strcmp(value, signals[i].number) == 0)
			return signals[i].name;
	}
	Fail(CLI_USAGE, "--signal=%s is not supported; use one of HUP, INT, QUIT,"
		 " USR1, USR2, TERM, CONT and KILL", value);
}

/*
 * Checks --signal, --batch and --full together. KILL ends the job, as without
 * --signal.
 */
static void
check_signal(Scancel *s)
{
	if (s->batch && s->full)
		Fail(CLI_USAGE, "--batch and --full are given; the signal goes to the"
			 " script alone, or to the script and all that it started");
	if (s->signal == NULL || strcmp(s->signal, "KILL") == 0)
	{
		if (s->batch)
			Fail(CLI_USAGE, "--batch needs --signal with a signal other than"
				 " KILL, as --signal=USR1; without both, scancel ends the job");
		s->signal = NULL;
	}
}

/*
 * Selects the jobs to cancel. Jobs that are named without a filter are
 * selected in any state, so that one that does not exist is reported as an
 * error.
 */
static PGresult *
find_jobs(const Scancel *s)
{
	const char *values[13] = {CliOrg(), s->jobs, s->user, s->name, s->states,
		s->account != NULL ? s->account : cli_account, s->pool,
	s->filters ? "t" : "f", s->tier, s->nodes, s->wckey, s->own, s->signal};

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
				   " AND ($13::text IS NULL"
				   "  OR j.state IN ('running', 'stopping'))"
				   " ORDER BY 1", 13, values);
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
 * Cancels a job or sends it the signal, and prints a refusal.
 */
static int
change_one(const Scancel *s, const char *job)
{
	PGresult   *result;
	int			status = CLI_DONE;

	if (s->verbose && s->signal != NULL)
		fprintf(stderr, "scancel: Signal %s to job %s\n", s->signal, job);
	else if (s->verbose)
		fprintf(stderr, "scancel: Terminating job %s\n", job);
	result = s->signal == NULL ? cancel_one(job) : signal_one(s, job);
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
	{
		const char *message = PQresultErrorField(result,
												 PG_DIAG_MESSAGE_PRIMARY);
		const char *detail = PQresultErrorField(result,
												PG_DIAG_MESSAGE_DETAIL);

		if (!s->quiet)
			fprintf(stderr, "scancel: error: Kill job error on job id %s:"
					" %s%s%s\n", job, message == NULL ? "no connection" :
					message, s->signal == NULL || detail == NULL ? "" : ": ",
					s->signal == NULL || detail == NULL ? "" : detail);
		status = CLI_REFUSED;
	}
	PQclear(result);
	return status;
}

/*
 * Cancels a job. The call's idempotency key is fixed, so a repeated command is
 * the same call.
 */
static PGresult *
cancel_one(const char *job)
{
	char	   *key = Format("gpucredit-cancel-%s", job);
	const char *values[3] = {CliOrg(), job, key};
	PGresult   *result = CliRepeat("SELECT gpucredit.cancel($1, $2::bigint,"
								   " $3)", 3, values, 0);

	free(key);
	return result;
}

/*
 * Sends the signal to a job. Each command is a signal of its own, so the key
 * is random; the call is repeated with it until an answer arrives.
 */
static PGresult *
signal_one(const Scancel *s, const char *job)
{
	char	   *key = CliKey();
	const char *values[5] = {CliOrg(), job, key, s->signal,
	s->batch ? "script" : s->full ? "all" : "steps"};
	PGresult   *result = CliRepeat("SELECT gpucredit.signal_job($1,"
								   " $2::bigint, $3, $4, $5)", 5, values, 0);

	free(key);
	return result;
}
