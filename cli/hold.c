/*-------------------------------------------------------------------------
 *
 * hold.c
 *		gpucredit hold, gpucredit release: keep waiting jobs from starting.
 *
 * Each call of the command is another wish, so its key is random; within the
 * command the call is repeated under it until an answer comes.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static int	change_each(int argc, char **argv, const char *use,
						const char *sql);
static bool change(const char *job, const char *sql);

int
CliHold(int argc, char **argv)
{
	return change_each(argc, argv, "hold JOB...",
					   "SELECT h.job_state, h.held_by"
					   " FROM gpucredit.hold_job($1, $2::bigint, $3) h");
}

int
CliRelease(int argc, char **argv)
{
	return change_each(argc, argv, "release JOB...",
					   "SELECT h.job_state, h.held_by"
					   " FROM gpucredit.release_job($1, $2::bigint, $3) h");
}

/*
 * Make the call for each job, whatever became of the others.
 */
static int
change_each(int argc, char **argv, const char *use, const char *sql)
{
	int			status = CLI_DONE;

	if (argc < 2)
		Fail(CLI_USAGE, "usage: gpucredit %s", use);
	for (int i = 1; i < argc; i++)
		(void) CliNumber(argv[i], 1, INT64_MAX, "a job");
	for (int i = 1; i < argc; i++)
	{
		if (!change(argv[i], sql))
			status = CLI_REFUSED;
	}
	return status;
}

/*
 * One job; false: the database refused.
 */
static bool
change(const char *job, const char *sql)
{
	char	   *key = CliKey();
	const char *values[3] = {CliOrg(), job, key};
	PGresult   *result = CliTry(sql, 3, values);
	bool		done;

	for (int i = 0; i < 3 && CliRetries(result); i++)
	{
		PQclear(result);
		result = CliTry(sql, 3, values);
	}
	done = PQresultStatus(result) == PGRES_TUPLES_OK;
	if (done && PQgetisnull(result, 0, 1))
		printf("job %s: %s\n", job, PQgetvalue(result, 0, 0));
	else if (done)
		printf("job %s: %s, held by %s\n", job, PQgetvalue(result, 0, 0),
			   strcmp(PQgetvalue(result, 0, 1), "owner") == 0 ? "its owner" :
			   "an operator");
	else
		CliPrintRefusal(job, result);
	PQclear(result);
	free(key);
	return done;
}
