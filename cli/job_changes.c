/*-------------------------------------------------------------------------
 *
 * job_changes.c
 *		gpucredit cancel, requeue, hold and release: make a call for each
 *		job.
 *
 * A job is cancelled only once, so the call's idempotency key is fixed, and a
 * repeated command is the same call. Each requeue, hold and release is a separate
 * request, so its key is random; within one command, the call is repeated with
 * the same key until an answer arrives.
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

/* A command's change of a job. */
typedef struct JobChange
{
	const char *use;
	const char *sql;			/* has parameters org, job and key; returns
								 * the state and who holds the job */
	bool		once;			/* the key is fixed */
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
CliRequeue(int argc, char **argv)
{
	static const JobChange change = {
		"requeue [--json] JOB...", "SELECT r.job_state, NULL"
		" FROM gpucredit.requeue_job($1, $2::bigint, $3) r", false
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
 * Makes the call for each job, even if it failed for others.
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
 * Makes one call, and repeats it with its key while the database cannot be
 * reached.
 */
static PGresult *
call(const char *job, const JobChange *change)
{
	char	   *key = change->once ? Format("gpucredit-cancel-%s", job) :
		CliKey();
	const char *values[3] = {CliOrg(), job, key};
	PGresult   *result = CliRepeat(change->sql, 3, values, 0);

	free(key);
	return result;
}

/*
 * Prints a line with the job's new state, or the reason for a refusal.
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
 * Returns the same as JSON, with the members state and held_by, or error.
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
