/*-------------------------------------------------------------------------
 *
 * sacct.c
 *		sacct and seff: print what jobs used and cost.
 *
 * The fields are Slurm's, with Cost, GPUHours and GPUEff added. A job has one
 * line, because its steps are not accounted for separately.
 *-------------------------------------------------------------------------
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "field_list.h"
#include "instant.h"
#include "job_list.h"

#define USE	"usage: sacct [-j JOBS] [-A ACCOUNT] [-u USERS] [-s STATES]" \
	" [--name NAMES]\n             [-S INSTANT] [-E INSTANT] [-o FIELDS] [-n]" \
	" [-X] [-p | -P | --json]\n       sacct --helpformat"
#define FIELDS	"JobID,JobName,Partition,Account,AllocGPUS,State,ExitCode,Cost"
#define INSTANT(instant)	SLURM_INSTANT(instant, "Unknown")
#define LENGTH(column)	SLURM_LENGTH("coalesce(" column ", '0')")
#define GPU_HOURS "j.gpus * j.share / 1000.0 * extract(epoch FROM j.elapsed) / 3600"

/* Each field, and its SQL for a job "j". */
static const NamedField fields[] = {
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
	{NULL, NULL}
};

/* Selects the jobs that the options match. */
#define FOUND SLURM_FOUND( \
	"j.org = $1 AND ($2::bigint[] IS NULL OR j.job = ANY ($2::bigint[]))" \
	" AND " SLURM_OF_ACCOUNT("$3") " AND " SLURM_OF_USERS("$4") \
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
	FieldListForm form;
} Sacct;

static void parse_options(Sacct *sacct, int argc, char **argv);
static const char *instant_option(const char *text, const char *option);

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
	result = CliCall(Format(FOUND "SELECT %s FROM" SLURM_NUMBERED
							" ORDER BY j.job",
							FieldListSelect(fields, sacct.format)), 8,
					 values);
	FieldListPrint(result, sacct.form, sacct.heading);
	PQclear(result);
	return CLI_DONE;
}

/*
 * Parse the command line.
 */
static void
parse_options(Sacct *sacct, int argc, char **argv)
{
	static const char letters[] = ":A:E:ehj:no:pPS:s:u:X";
	static const struct option options[] = {
		{"accounts", required_argument, NULL, 'A'},
		{"allocations", no_argument, NULL, 'X'},
		{"endtime", required_argument, NULL, 'E'},
		{"format", required_argument, NULL, 'o'},
		{"jobs", required_argument, NULL, 'j'},
		{"helpformat", no_argument, NULL, 'e'},
		{"json", no_argument, NULL, 'J'},
		{"name", required_argument, NULL, 'm'},
		{"noheader", no_argument, NULL, 'n'},
		{"parsable", no_argument, NULL, 'p'},
		{"parsable2", no_argument, NULL, 'P'},
		{"starttime", required_argument, NULL, 'S'},
		{"state", required_argument, NULL, 's'},
		{"user", required_argument, NULL, 'u'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0}
	};
	int			option;

	while ((option = CliNextOption(USE, options, letters, argc, argv)) != -1)
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
				sacct->form = FIELDS_JSON;
				break;
			case 'P':
				sacct->form = FIELDS_BARS;
				break;
			case 'S':
				sacct->since = instant_option(optarg, "--starttime");
				break;
			case 'X':
				break;			/* jobs have no other lines */
			case 'e':
				FieldListNames(fields);
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
			case 'p':
				sacct->form = FIELDS_BARS_END;
				break;
			case 's':
				sacct->states = StateListCheck(optarg);
				break;
			case 'u':
				sacct->user = optarg;
				break;
		}
	}
}

/*
 * Parses an instant in the past. Returns it as text for the database.
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
 * seff JOB: prints how much of its allocation a job used.
 */
int
CliSeff(int argc, char **argv)
{
	char	   *jobs;
	const char *values[2];
	PGresult   *result;

	if (argc == 2 && strcmp(argv[1], "--help") == 0)
	{
		puts("usage: seff JOB");
		return CLI_DONE;
	}
	if (argc != 2)
		Fail(CLI_USAGE, "usage: seff JOB");
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
