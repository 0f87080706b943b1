/*-------------------------------------------------------------------------
 *
 * job.c
 *		gpucredit job: prints everything known about a job.
 *
 * It prints the job's request, where it ran, how it ended, its cost and use,
 * the checks of explain(), which name the cause and the advice, and its
 * history.
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static void show(const char *job, bool json, bool history);
static void print_facts(const PGresult * facts);
static void print_section(const char *heading, const PGresult * rows);

int
CliJob(int argc, char **argv)
{
	bool		json = CliFlag(&argc, argv, "--json");
	bool		history = CliFlag(&argc, argv, "--history");

	if (argc < 2)
		Fail(CLI_USAGE, "usage: gpucredit job [--json] [--history] JOB...");
	for (int i = 1; i < argc; i++)
		(void) CliNumber(argv[i], 1, INT64_MAX, "a job");
	for (int i = 1; i < argc; i++)
		show(argv[i], json, history);
	return CLI_DONE;
}

/*
 * Prints one job. Waste is the part of the GPU-hours in which its devices were
 * idle, by the utilization that was last reported.
 */
static void
show(const char *job, bool json, bool history)
{
	const char *values[2] = {CliOrg(), job};
	PGresult   *facts;
	PGresult   *checks;
	PGresult   *events;

	facts = CliCall("SELECT j.job, j.name, j.state, j.outcome, j.exit_code,"
					" CASE WHEN j.exit_code BETWEEN 129 AND 192"
					"  THEN j.exit_code - 128 END AS signal,"
					" j.account, j.pool, j.tier, j.request, j.wall_limit,"
					" j.labels, j.array_key AS array, j.task, j.at_most,"
					" j.after AS waits_for, j.held_by, j.deadline,"
					" j.submitted_at, j.not_before, j.started_at, j.ended_at,"
					" date_trunc('second', coalesce(j.started_at, j.ended_at,"
					"  gpucredit.now()) - j.submitted_at) AS until_start,"
					" j.attempt AS attempts, j.failures, j.nodes,"
					" j.gpu_type, j.gpus, date_trunc('second', j.elapsed) AS"
					" ran, j.per_gpu_hour,"
					" j.held, j.used, j.billed,"
					" round(j.energy_j / 3600000.0, 6) AS energy_kwh,"
					" round((j.gpus * j.share / 1000.0 * extract(epoch FROM"
					"  j.elapsed) / 3600)::numeric, 3) AS gpu_hours,"
					" round(j.utilization::numeric, 2) AS utilization,"
					" round((j.gpus * j.share / 1000.0 * extract(epoch FROM"
					"  j.elapsed) / 3600 * (1 - j.utilization))::numeric, 3)"
					"  AS idle_gpu_hours, j.log, j.message"
					" FROM gpucredit.jobs j WHERE j.org = $1"
					" AND j.job = $2::bigint", 2, values);
	if (PQntuples(facts) == 0)
		Fail(CLI_REFUSED, "job %s does not exist", job);
	checks = CliCall("SELECT check_name AS check, passes, detail"
					 " FROM gpucredit.explain($1, $2::bigint)", 2, values);
	events = CliCall("SELECT to_char(at, 'YYYY-MM-DD HH24:MI:SS') AS at, what,"
					 " attempt, detail FROM gpucredit.history($1, $2::bigint)",
					 2, values);
	if (json)
	{
		json_t	   *document = CliJsonRow(facts, 0);

		json_object_set_new(document, "explain", CliJsonRows(checks));
		json_object_set_new(document, "history", CliJsonRows(events));
		CliPrintJson(document);
	}
	else
	{
		print_facts(facts);
		print_section("Why", checks);
		if (history)
			print_section("History", events);
	}
	PQclear(facts);
	PQclear(checks);
	PQclear(events);
}

/*
 * Prints a line for each value that is not empty. A message of several lines
 * is indented.
 */
static void
print_facts(const PGresult * facts)
{
	for (int c = 0; c < PQnfields(facts); c++)
	{
		const char *text = PQgetvalue(facts, 0, c);

		if (*text == '\0')
			continue;
		printf("%-15s ", PQfname(facts, c));
		for (; *text != '\0'; text++)
		{
			putchar(*text);
			if (*text == '\n' && text[1] != '\0')
				printf("%-15s ", "");
		}
		if (text[-1] != '\n')
			putchar('\n');
	}
}

static void
print_section(const char *heading, const PGresult * rows)
{
	printf("\n%s\n", heading);
	CliTable(rows, false);
}
