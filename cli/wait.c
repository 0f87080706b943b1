/*-------------------------------------------------------------------------
 *
 * wait.c
 *		gpucredit wait: waits until jobs have ended.
 *
 * The exit status is the highest exit code of the jobs' programs, where a
 * program killed by a signal counts as 128 + the signal, and a job that ended
 * in another way without completing counts as 1. The command polls every 0.2
 * to 2 seconds, and survives an absence of the database.
 *-------------------------------------------------------------------------
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "wait.h"

#define PATIENCE	600			/* seconds to wait for the database */

static char *job_array(const int64_t *jobs, int n);
static PGresult * call(const char *const *values);
static int	exit_status(const PGresult * result, WaitOutput output);
static void print_json(const PGresult * result);

int
CliWait(int argc, char **argv)
{
	bool		json = CliFlag(&argc, argv, "--json");
	int64_t    *jobs = Alloc(sizeof(int64_t) * argc);

	if (argc < 2)
		Fail(CLI_USAGE, "usage: gpucredit wait [--json] JOB...");
	for (int i = 1; i < argc; i++)
		jobs[i - 1] = CliNumber(argv[i], 1, INT64_MAX, "a job");
	return WaitForJobs(jobs, argc - 1, json ? WAIT_JSON : WAIT_TEXT);
}

/*
 * Waits until all jobs have ended. Returns the exit status.
 */
int
WaitForJobs(const int64_t *jobs, int n, WaitOutput output)
{
	const char *values[2] = {CliOrg(), job_array(jobs, n)};
	useconds_t	pause = 200000;

	if (n == 0)
		return CLI_DONE;
	for (;;)
	{
		PGresult   *result = call(values);
		bool		over = true;

		for (int i = 0; i < PQntuples(result); i++)
		{
			if (PQgetisnull(result, i, 1))
				Fail(CLI_REFUSED, "job %s does not exist",
					 PQgetvalue(result, i, 0));
			over &= strcmp(PQgetvalue(result, i, 2), "t") == 0;
		}
		if (over)
			return exit_status(result, output);
		PQclear(result);
		usleep(pause);
		pause = pause < 2000000 ? pause * 5 / 4 : pause;
	}
}

/* Returns the jobs as text of a bigint array. */
static char *
job_array(const int64_t *jobs, int n)
{
	char	   *text;
	size_t		size;
	FILE	   *out = open_memstream(&text, &size);

	if (out == NULL)
		Fail(CLI_REFUSED, "out of memory");
	fputc('{', out);
	for (int i = 0; i < n; i++)
		fprintf(out, "%s%lld", i == 0 ? "" : ",", (long long) jobs[i]);
	fputc('}', out);
	fclose(out);
	return text;
}

/*
 * Reads the states of the jobs. Waits while the database cannot be reached.
 */
static PGresult *
call(const char *const *values)
{
	PGresult   *result = CliRepeat("SELECT u.job, j.state,"
								   " j.ended_at IS NOT NULL AS over,"
								   " a.exit_code"
								   " FROM unnest($2::bigint[]) AS u (job)"
								   " LEFT JOIN gpucredit.jobs j"
								   "  ON j.org = $1 AND j.job = u.job"
								   " LEFT JOIN gpucredit.attempts a"
								   "  ON a.org = $1 AND a.job = j.job"
								   "  AND a.attempt = j.attempt"
								   " ORDER BY u.job", 2, values, PATIENCE);

	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		CliRefused(result);
	return result;
}

/*
 * Returns the highest exit code of the jobs that have ended, and prints them.
 */
static int
exit_status(const PGresult * result, WaitOutput output)
{
	int			status = CLI_DONE;

	if (output == WAIT_JSON)
		print_json(result);
	for (int i = 0; i < PQntuples(result); i++)
	{
		const char *state = PQgetvalue(result, i, 1);
		int			code = atoi(PQgetvalue(result, i, 3));

		if (strcmp(state, "completed") == 0)
			code = 0;
		else if (code <= 0 || code > 255)
			code = 1;
		if (output == WAIT_TEXT)
			printf("job %s: %s%s\n", PQgetvalue(result, i, 0), state,
				   code > 1 ? Format(", exit code %d", code) : "");
		status = code > status ? code : status;
	}
	return status;
}

/*
 * Prints each job with its state and its program's exit code.
 */
static void
print_json(const PGresult * result)
{
	json_t	   *rows = CliJsonRows(result);
	size_t		i;
	json_t	   *row;

	json_array_foreach(rows, i, row)
		json_object_del(row, "over");
	CliPrintJson(rows);
}
