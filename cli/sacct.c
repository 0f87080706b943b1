/*-------------------------------------------------------------------------
 *
 * sacct.c
 *		sacct and seff: what jobs used and cost.
 *
 * Fields are Slurm's, with Cost, GPUHours and GPUEff besides.  A job has one line:
 * its steps are not accounted for by themselves.
 *
 *-------------------------------------------------------------------------
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "cli.h"
#include "instant.h"
#include "job_list.h"

#define FIELDS	"JobID,JobName,Partition,Account,AllocGPUS,State,ExitCode,Cost"
#define INSTANT(column)	"coalesce(to_char(" column ", 'YYYY-MM-DD\"T\"HH24:MI:SS'), 'Unknown')"
#define LENGTH(column) "to_char(coalesce(" column ", '0'), 'HH24:MI:SS')"
#define GPU_HOURS "j.gpus * j.share / 1000.0 * extract(epoch FROM j.elapsed) / 3600"

/* Each field, and its SQL about a job "j". */
static const struct
{
	const char *name;
	const char *sql;
}			fields[] = {
	{"Account", "j.account"},
	{"AllocGPUS", "coalesce(j.gpus, 0)::text"},
	{"Comment", "j.labels ->> 'comment'"},
	{"Cost", "(coalesce(j.billed, 0) + coalesce(j.used, 0))::text"},
	{"Elapsed", LENGTH("j.elapsed")},
	{"ElapsedRaw", "extract(epoch FROM coalesce(j.elapsed, '0'))::bigint::text"},
	{"End", INSTANT("j.ended_at")},
	{"ExitCode", "CASE WHEN j.exit_code > 128 THEN '0:' || j.exit_code - 128"
	" ELSE coalesce(j.exit_code, 0) || ':0' END"},
	{"GPUEff", "coalesce(round(100 * j.utilization) || '%', '')"},
	{"GPUHours", "round((" GPU_HOURS ")::numeric, 3)::text"},
	{"JobID", SLURM_JOB_ID},
	{"JobIDRaw", "j.job::text"},
	{"JobName", "coalesce(j.name, '')"},
	{"NodeList", SLURM_NODES},
	{"Partition", "j.pool"},
	{"QOS", "j.tier"},
	{"Reason", SLURM_REASON},
	{"Reserved", LENGTH("coalesce(j.started_at, j.ended_at, gpucredit.now())"
						" - j.submitted_at")},
	{"Start", INSTANT("j.started_at")},
	{"State", "j.long"},
	{"Submit", INSTANT("j.submitted_at")},
	{"Timelimit", LENGTH("j.wall_limit")},
	{"User", "regexp_replace(j.account, '^.*/', '')"},
	{"WCKey", "j.labels ->> 'wckey'"},
};

/* The jobs that the options ask for. */
#define FOUND SLURM_FOUND( \
	"j.org = $1 AND ($2::bigint[] IS NULL OR j.job = ANY ($2::bigint[]))" \
	" AND ($3::text IS NULL OR $3 = '' OR j.account = $3" \
	"  OR starts_with(j.account, $3 || '/'))" \
	" AND ($4::text IS NULL OR regexp_replace(j.account, '^.*/', '')" \
	"  = ANY (string_to_array($4, ',')))" \
	" AND ($5::text IS NULL OR ARRAY[s.long, s.short]" \
	"  && string_to_array(upper($5), ','))" \
	" AND ($2::bigint[] IS NOT NULL" \
	"  OR coalesce(j.ended_at, gpucredit.now()) >= coalesce($6::timestamptz," \
	"   date_trunc('day', gpucredit.now())))" \
	" AND ($7::timestamptz IS NULL OR j.submitted_at <= $7)" \
	" AND ($8::text IS NULL OR j.name = ANY (string_to_array($8, ',')))")

/* The options of sacct. */
typedef struct Sacct
{
	const char *format;
	char	   *jobs;
	const char *account;
	const char *user;
	const char *states;
	const char *name;
	const char *since;
	const char *until;
	bool		heading;
	bool		parsable;
	bool		json;
} Sacct;

static void parse_options(Sacct *sacct, int argc, char **argv);
static const char *instant_option(const char *text, const char *option);
static char *field_list(const char *format);

int
CliSacct(int argc, char **argv)
{
	Sacct		sacct = {.format = FIELDS, .heading = true};
	const char *values[8];
	PGresult   *result;

	parse_options(&sacct, argc, argv);
	values[0] = CliOrg();
	values[1] = sacct.jobs;
	values[2] = sacct.account != NULL ? sacct.account : cli_account;
	values[3] = sacct.user;
	values[4] = sacct.states;
	values[5] = sacct.since;
	values[6] = sacct.until;
	values[7] = sacct.name;
	result = CliCall(CliFormat(FOUND "SELECT %s FROM" SLURM_NUMBERED
							   " ORDER BY j.job", field_list(sacct.format)), 8,
					 values);
	if (sacct.json)
		CliPrintJson(CliJsonRows(result));
	else if (!sacct.parsable)
		CliTable(result, sacct.heading);
	for (int row = sacct.heading ? -1 : 0;
		 sacct.parsable && row < PQntuples(result); row++)
	{
		for (int c = 0; c < PQnfields(result); c++)
			printf("%s%s", c == 0 ? "" : "|", row < 0 ?
				   PQfname(result, c) : PQgetvalue(result, row, c));
		putchar('\n');
	}
	PQclear(result);
	return CLI_DONE;
}

/*
 * Parse the command line; an unknown word ends the command.
 */
static void
parse_options(Sacct *sacct, int argc, char **argv)
{
	static const struct option options[] = {
		{"accounts", required_argument, NULL, 'A'},
		{"allocations", no_argument, NULL, 'X'},
		{"endtime", required_argument, NULL, 'E'},
		{"format", required_argument, NULL, 'o'},
		{"jobs", required_argument, NULL, 'j'},
		{"json", no_argument, NULL, 'J'},
		{"name", required_argument, NULL, 'm'},
		{"noheader", no_argument, NULL, 'n'},
		{"parsable2", no_argument, NULL, 'P'},
		{"starttime", required_argument, NULL, 'S'},
		{"state", required_argument, NULL, 's'},
		{"user", required_argument, NULL, 'u'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0}
	};
	int			option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, "A:E:j:hno:PS:s:u:X", options,
								 NULL)) != -1)
	{
		switch (option)
		{
			case 'A':
				sacct->account = optarg;
				break;
			case 'E':
				sacct->until = instant_option(optarg, "--endtime");
				break;
			case 'J':
				sacct->json = true;
				break;
			case 'P':
				sacct->parsable = true;
				break;
			case 'S':
				sacct->since = instant_option(optarg, "--starttime");
				break;
			case 'X':
				break;			/* there are no other lines */
			case 'h':
				puts("usage: sacct [-j JOBS] [-A ACCOUNT] [-u USERS]"
					 " [-s STATES] [--name NAMES]\n"
					 "             [-S INSTANT] [-E INSTANT] [-o FIELDS] [-n]"
					 " [-P] [-X] [--json]\nFields:");
				for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
					puts(fields[i].name);
				exit(CLI_DONE);
			case 'j':
				sacct->jobs = JobListParse(optarg);
				break;
			case 'm':
				sacct->name = optarg;
				break;
			case 'n':
				sacct->heading = false;
				break;
			case 'o':
				sacct->format = optarg;
				break;
			case 's':
				sacct->states = optarg;
				break;
			case 'u':
				sacct->user = optarg;
				break;
			default:
				Fail(CLI_USAGE, "option \"%s\" is not supported",
					 argv[optind - 1]);
		}
	}
	if (optind < argc)
		Fail(CLI_USAGE, "\"%s\" is no option", argv[optind]);
}

/*
 * An instant of the past, as text for the database.
 */
static const char *
instant_option(const char *text, const char *option)
{
	time_t		instant;

	if (!InstantParse(text, time(NULL), true, &instant))
		Fail(CLI_USAGE, "\"%s\" of %s is no instant, as 2030-01-20T12:34:00",
			 text, option);
	return InstantPrint(instant);
}

/*
 * The columns of "JobID,State%20": Slurm's widths are read, and columns are as
 * wide as their content.
 */
static char *
field_list(const char *format)
{
	char	   *copy = CliFormat("%s", format);
	char	   *list = CliFormat("%s", "");
	char	   *save = NULL;

	for (char *word = strtok_r(copy, ",", &save); word != NULL;
		 word = strtok_r(NULL, ",", &save))
	{
		size_t		n = sizeof(fields) / sizeof(fields[0]);
		size_t		i = 0;

		word[strcspn(word, "%")] = '\0';
		while (i < n && strcasecmp(word, fields[i].name) != 0)
			i++;
		if (i == n)
			Fail(CLI_USAGE, "field \"%s\" is not supported; sacct --help lists"
				 " those that are", word);
		list = CliFormat("%s%s%s AS \"%s\"", list, *list == '\0' ? "" : ", ",
						 fields[i].sql, fields[i].name);
	}
	free(copy);
	if (*list == '\0')
		Fail(CLI_USAGE, "the format has no fields");
	return list;
}

/*
 * seff JOB: how much of what it held a job used.
 */
int
CliSeff(int argc, char **argv)
{
	char	   *jobs;
	const char *values[2];
	PGresult   *result;

	if (argc != 2 || strcmp(argv[1], "--help") == 0)
		Fail(argc == 2 ? CLI_DONE : CLI_USAGE, "usage: seff JOB");
	jobs = JobListParse(argv[1]);
	values[0] = CliOrg();
	values[1] = jobs;
	result = CliCall(SLURM_FOUND("j.org = $1 AND j.job = ANY ($2::bigint[])")
					 "SELECT format(E'Job ID: %s\\nUser/Account: %s\\n"
					 "State: %s%s\\nNodes: %s\\nGPUs: %s\\nWall-clock time: %s"
					 " of %s\\nGPU-hours: %s\\nGPU Efficiency: %s\\nCost: %s',"
					 " " SLURM_JOB_ID ", j.account, j.long,"
					 " ' (exit code ' || j.exit_code || ')', " SLURM_NODES ","
					 " j.gpus, " LENGTH("j.elapsed") ", " LENGTH("j.wall_limit")
					 ", round((" GPU_HOURS ")::numeric, 3),"
					 " coalesce(round(100 * j.utilization)"
					 "  || '% (as last reported)', 'not reported'),"
					 " coalesce(j.billed, 0) + coalesce(j.used, 0))"
					 " FROM" SLURM_NUMBERED " ORDER BY j.job", 2, values);
	for (int row = 0; row < PQntuples(result); row++)
		printf("%s%s\n", row == 0 ? "" : "\n", PQgetvalue(result, row, 0));
	if (PQntuples(result) == 0)
		Fail(CLI_REFUSED, "job %s does not exist", argv[1]);
	PQclear(result);
	return CLI_DONE;
}
