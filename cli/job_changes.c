/*-------------------------------------------------------------------------
 *
 * job_changes.c
 *		gpucredit cancel, hold and release: a call for each job.
 *
 * A job is cancelled once, so its key is fixed, and a second try is the same call.
 * Each hold and release is another wish, so its key is random; within the command
 * the call is repeated under it until an answer comes.
 *
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* What a command does with each job. */
typedef struct JobChange
{
	const char *use;
	const char *sql;			/* of org, job and key: state, who holds it */
	bool		once;			/* with a fixed key */
} JobChange;

static int	change_each(int argc, char **argv, const JobChange *change);
static PGresult * call(const char *job, const JobChange *change);
static void print(const char *job, const PGresult * result);
static json_t * json_row(const char *job, const PGresult * result);

int
CliCancel(int argc, char **argv)
{
	static const JobChange change = {
		"cancel [--json] JOB...", "SELECT c.job_state, NULL"
		" FROM gpucredit.cancel($1, $2::bigint, $3) c", true
	};

	return change_each(argc, argv, &change);
}

int
CliHold(int argc, char **argv)
{
	static const JobChange change = {
		"hold [--json] JOB...", "SELECT h.job_state, h.held_by"
		" FROM gpucredit.hold_job($1, $2::bigint, $3) h", false
	};

	return change_each(argc, argv, &change);
}

int
CliRelease(int argc, char **argv)
{
	static const JobChange change = {
		"release [--json] JOB...", "SELECT h.job_state, h.held_by"
		" FROM gpucredit.release_job($1, $2::bigint, $3) h", false
	};

	return change_each(argc, argv, &change);
}

/*
 * Make the call for each job, whatever became of the others.
 */
static int
change_each(int argc, char **argv, const JobChange *change)
{
	bool		json = CliFlag(&argc, argv, "--json");
	json_t	   *rows = json_array();
	int			status = CLI_DONE;

	if (argc < 2)
		Fail(CLI_USAGE, "usage: gpucredit %s", change->use);
	for (int i = 1; i < argc; i++)
		(void) CliNumber(argv[i], 1, INT64_MAX, "a job");
	for (int i = 1; i < argc; i++)
	{
		PGresult   *result = call(argv[i], change);

		if (PQresultStatus(result) != PGRES_TUPLES_OK)
			status = CLI_REFUSED;
		if (json)
			json_array_append_new(rows, json_row(argv[i], result));
		else
			print(argv[i], result);
		PQclear(result);
	}
	if (json)
		CliPrintJson(rows);
	else
		json_decref(rows);
	return status;
}

/*
 * One call, repeated under its key while the database is away.
 */
static PGresult *
call(const char *job, const JobChange *change)
{
	char	   *key = change->once ? CliFormat("gpucredit-cancel-%s", job) :
		CliKey();
	const char *values[3] = {CliOrg(), job, key};
	PGresult   *result = CliTry(change->sql, 3, values);

	for (int i = 0; i < 3 && CliRetries(result); i++)
	{
		PQclear(result);
		result = CliTry(change->sql, 3, values);
	}
	free(key);
	return result;
}

/*
 * A line: what the job is now, or why it was refused.
 */
static void
print(const char *job, const PGresult * result)
{
	if (PQresultStatus(result) != PGRES_TUPLES_OK)
		CliPrintRefusal(job, result);
	else if (PQgetisnull(result, 0, 1))
		printf("job %s: %s\n", job, PQgetvalue(result, 0, 0));
	else
		printf("job %s: %s, held by %s\n", job, PQgetvalue(result, 0, 0),
			   strcmp(PQgetvalue(result, 0, 1), "owner") == 0 ? "its owner" :
			   "an operator");
}

/*
 * The same as JSON: state and held_by, or error.
 */
static json_t *
json_row(const char *job, const PGresult * result)
{
	bool		done = PQresultStatus(result) == PGRES_TUPLES_OK;
	const char *message = PQresultErrorField(result,
											 PG_DIAG_MESSAGE_PRIMARY);

	return json_pack("{s:I, s:s?, s:s?, s:s?, s:s?}",
					 "job", (json_int_t) strtoll(job, NULL, 10),
					 "state", done ? PQgetvalue(result, 0, 0) : NULL,
					 "held_by", done && !PQgetisnull(result, 0, 1) ?
					 PQgetvalue(result, 0, 1) : NULL,
					 "sqlstate", PQresultErrorField(result, PG_DIAG_SQLSTATE),
					 "error", done ? NULL :
					 message == NULL ? "no connection" : message);
}
