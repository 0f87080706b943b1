/*-------------------------------------------------------------------------
 *
 * run_fund.c
 *		Reserves credit for a run.
 *
 * The run's name is the idempotency key (sweep.c). A denial is repeated under
 * another key after a pause that grows, and is written into the admin comment
 * of Slurm's job.
 *-------------------------------------------------------------------------
 */
#include <stdlib.h>
#include <string.h>

#include "call_repeat.h"
#include "clock.h"
#include "command.h"
#include "memory.h"
#include "run.h"
#include "slurm.h"

#define LONGEST_PAUSE	(60 * NS_PER_S) /* longest pause between two attempts
										 * to reserve credit */

static char *request_of(const SlurmJob *job);
static long largest_node(void);
static bool has_code(const PGresult * result, const char *begins);
static void set_admin_comment(const SlurmJob *job, const char *reason);

/*
 * Reserves credit. Returns false if the call is denied or gets no answer.
 */
bool
RunFund(Run *run, const SlurmJob *job)
{
	SlurmPayer	payer = {0};
	bool		again = true;

	if (MonotonicNs() < run->next_ns)
		return false;
	run->denied = !PayerFind(job->account, &payer);
	if (run->denied)
		return false;
	while (again && run->job == 0)
	{
		char	   *key = run->tries == 0 ? Dup(run->name) :
			Format("%s~%d", run->name, run->tries);
		char	   *spec = Format("{\"foreign\": \"%s\", \"foreign_job\": \"%s\"}",
								  run->name, job->id);
		char	   *request = request_of(job);
		PGresult   *result = Reserve(&payer, key, request, job->minutes,
									 spec, false);

		again = false;
		if (result != NULL && PQntuples(result) == 1)
		{
			if (strcmp(PQgetvalue(result, 0, 1), "granted") == 0)
			{
				free(run->org);
				run->org = Dup(payer.org);
				run->job = atoll(PQgetvalue(result, 0, 0));

				/*
				 * the sweep finds open jobs by name, so a replayed answer
				 * belongs to a job that has ended.
				 */
				run->open = run->waits = run->idle =
					*PQgetvalue(result, 0, 3) == 'f';
			}
			else
			{
				again = *PQgetvalue(result, 0, 3) == 't';
				run->tries++;
				run->denied = true;
				if (!again)
					set_admin_comment(job, PQgetvalue(result, 0, 2));
			}
		}
		else if (has_code(result, "UC201"))
		{
			/*
			 * The key was used with other arguments: the job's time limit or
			 * a setting has changed since.
			 */
			again = !RunFindOver(run, payer.org);
			run->tries += again;
		}
		else if (CallMayRepeat(result) == REPEAT_NEVER &&
				 (has_code(result, "UC") || has_code(result, "22")))
		{
			run->denied = true;
			set_admin_comment(job, PQresultErrorField(result,
													  PG_DIAG_MESSAGE_PRIMARY));
		}
		PQclear(result);
		free(key);
		free(spec);
		free(request);
	}
	if (run->job == 0)
	{
		run->pause_ns = run->pause_ns == 0 ? slurm.interval_ms * NS_PER_MS :
			run->pause_ns * 2 < LONGEST_PAUSE ? run->pause_ns * 2 :
			LONGEST_PAUSE;
		run->next_ns = MonotonicNs() + run->pause_ns;
	}
	PayerFree(&payer);
	return run->waits;
}

/*
 * Returns the request that credit is held for: the devices that the job has,
 * or those that it may get.
 */
static char *
request_of(const SlurmJob *job)
{
	long		least = job->least;
	long		most = job->most;

	if (job->devices >= 0 && job->state == SLURM_RUNS)
		least = most = job->devices;
	else if (job->whole && job->most_nodes * largest_node() > most)
	{
		least = least == 0 ? 1 : least;
		most = job->most_nodes * largest_node();
	}
	return most == 0 ? Dup("0") : Format("%ld-%ldx%s", least, most,
										 *job->type == '\0' ? "*" : job->type);
}

/*
 * Returns the number of devices of the pool's largest node.
 */
static long
largest_node(void)
{
	const char *pool[] = {slurm.pool};
	PGresult   *result = SqlCall("SELECT coalesce(max(n.gpus), 0)"
								 " FROM gpucredit.node n WHERE n.pool = $1",
								 1, pool);
	long		gpus = result == NULL || PQntuples(result) != 1 ? 0 :
		atol(PQgetvalue(result, 0, 0));

	PQclear(result);
	return gpus;
}

/*
 * Whether a result is an error whose SQLSTATE begins with a prefix.
 */
static bool
has_code(const PGresult * result, const char *begins)
{
	const char *code = result == NULL ? NULL :
		PQresultErrorField(result, PG_DIAG_SQLSTATE);

	return code != NULL && strncmp(code, begins, strlen(begins)) == 0;
}

/*
 * Whether the job of a replayed answer has ended. If it has not, the replayed
 * answer is a denial.
 */
bool
RunFindOver(Run *run, const char *org)
{
	const char *values[] = {org, slurm.pool, run->name};
	PGresult   *result = SqlCall("SELECT j.job FROM gpucredit.job j"
								 " WHERE j.org = $1 AND j.pool = $2"
								 " AND j.spec->>'foreign' = $3", 3, values);
	bool		found = result == NULL || PQntuples(result) > 0;

	if (result != NULL && PQntuples(result) > 0)
	{
		run->org = Dup(org);
		run->job = atoll(PQgetvalue(result, 0, 0));
	}
	PQclear(result);
	return found;
}

/*
 * Sets the job's admin comment, which "scontrol show job" prints.
 */
static void
set_admin_comment(const SlurmJob *job, const char *reason)
{
	char	   *comment = Format("AdminComment=gpucredit:%s waits for: %s",
								 job->uuid, reason);
	char	   *id = Format("JobId=%s", job->id);

	if (strstr(job->comment, reason) == NULL)
		CommandSlurm3("scontrol", "update", id, comment);
	free(comment);
	free(id);
}
