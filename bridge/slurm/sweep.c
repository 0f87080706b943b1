/*-------------------------------------------------------------------------
 *
 * sweep.c
 *		Asks squeue what there is, and brings Slurm and the database together.
 *
 * A run of a job is called UUID:RESTARTS, of an array's task UUID_TASK:RESTARTS;
 * that is its key at reserve().  A denial stays one, so the next try has the
 * key with "~1", then "~2".  The bridge keeps nothing on disk: after a restart
 * the same keys have the same answers.
 *
 *	waits, held			reserve; once funded, scontrol release
 *	waits, released		the same, and hold it again while it is not funded
 *	runs, funded		placed
 *	runs, not funded	reserve and placed, else scancel
 *	runs, over			scancel
 *	ended, not placed	placed, if it ran; else cancel
 *	unknown to Slurm	cancel, after a minute
 *
 *-------------------------------------------------------------------------
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "slurm.h"
#include "slurm_job.h"
#include "util.h"

#define GONE_NS			(60 * NS_PER_S) /* unknown to Slurm for so long */
#define REFUSED_NS	(30 * NS_PER_S) /* it may run before it is placed */
#define ANYWHERE_NS	(3 * NS_PER_S)	/* between two tries of what is over */
#define MOST_DEVICES	16		/* of a node, that such a job is tried on */
#define LONGEST_PAUSE	(60 * NS_PER_S) /* between two tries to get credit */

/* A run that the bridge knows. */
typedef struct Run
{
	char	   *name;			/* UUID:RESTARTS */
	char	   *org;
	long long	job;			/* 0: nothing is reserved yet */
	bool		open;			/* not over, in the database */
	bool		waits;			/* its credit is set aside */
	bool		placed;			/* it has had an attempt */
	bool		idle;			/* it waits, funded or not */
	int			tries;			/* that were denied */
	int64_t		next_ns;		/* the next try */
	int64_t		pause_ns;
	int64_t		refused_ns;		/* placed() first refused it; 0: it did not */
	int64_t		seen_ns;		/* when Slurm last told of it */
	struct Run *next;
} Run;

static Run *runs;

static void sweep(void);
static Run *run_of(const char *name);
static void learn_states(void);
static void look(const SlurmJob *job);
static void look_waiting(Run *run, const SlurmJob *job);
static void look_running(Run *run, const SlurmJob *job);
static void look_ended(Run *run, const SlurmJob *job);
static bool fund(Run *run, const SlurmJob *job);
static void tell_why(const SlurmJob *job, const char *reason);
static bool place(Run *run, const SlurmJob *job, const char *sets);
static void place_anywhere(Run *run, const SlurmJob *job);
static void cancel(Run *run, const char *why);
static void forget_gone(void);

void
SweepRun(void)
{
	for (;;)
	{
		int64_t		began = MonotonicNs();
		int64_t		left;

		sweep();
		left = slurm.interval_ms * NS_PER_MS - (MonotonicNs() - began);
		if (left > 0)
			usleep(left / 1000);
		CommandGateLives();
	}
}

/*
 * One look at all jobs.
 */
static void
sweep(void)
{
	json_t	   *answer;
	json_t	   *jobs;
	json_t	   *row;
	size_t		i;
	PGresult   *cycle;
	const char *pool[] = {slurm.pool};

	/* funds what waits for credit, and counts use */
	cycle = SqlCall("SELECT FROM gpucredit.place($1)", 1, pool);
	if (cycle == NULL)
		return;
	PQclear(cycle);
	answer = SlurmJobs();
	jobs = json_object_get(answer, "jobs");
	if (!json_is_array(jobs))
	{
		json_decref(answer);
		return;
	}
	learn_states();
	json_array_foreach(jobs, i, row)
	{
		SlurmJob	job;

		if (!SlurmJobTake(row, &job))
			continue;
		for (int t = 0; t < job.n_tasks; t++)
		{
			SlurmJobTask(&job, t);
			look(&job);
		}
		SlurmJobFree(&job);
	}
	forget_gone();
	json_decref(answer);
}

/*
 * The run of a name, a new one if need be.
 */
static Run *
run_of(const char *name)
{
	Run		   *run;

	for (run = runs; run != NULL; run = run->next)
	{
		if (strcmp(run->name, name) == 0)
			return run;
	}
	run = Alloc(sizeof(Run));
	run->name = Dup(name);
	run->next = runs;
	runs = run;
	return run;
}

/*
 * Where the open jobs of the pool stand.  One that no run is known of has
 * vanished from Slurm.
 */
static void
learn_states(void)
{
	const char *pool[] = {slurm.pool};
	PGresult   *open = SqlCall("SELECT j.org, j.job, j.state = 'queued',"
							   " j.state IN ('queued', 'unfunded')"
							   " AND j.submitted_at < gpucredit.now() - '1 min'::interval,"
							   " j.attempt > 0, j.state IN ('queued', 'unfunded')"
							   " FROM gpucredit.jobs j"
							   " WHERE j.pool = $1 AND j.ended_at IS NULL", 1, pool);

	if (open == NULL || PQresultStatus(open) != PGRES_TUPLES_OK)
	{
		PQclear(open);
		return;
	}
	for (Run *run = runs; run != NULL; run = run->next)
		run->open = run->waits = run->idle = false;
	for (int i = 0; i < PQntuples(open); i++)
	{
		long long	id = atoll(PQgetvalue(open, i, 1));
		Run		   *run = runs;

		while (run != NULL && (run->job != id || strcmp(run->org,
														PQgetvalue(open, i, 0)) != 0))
			run = run->next;
		if (run != NULL)
		{
			run->open = true;
			run->waits = *PQgetvalue(open, i, 2) == 't';
			run->placed = *PQgetvalue(open, i, 4) == 't';
			run->idle = *PQgetvalue(open, i, 5) == 't';
		}
		else if (*PQgetvalue(open, i, 3) == 't')
		{
			/* known again by its key, if Slurm still has it */
			run = run_of(Format("job %lld of %s", id, PQgetvalue(open, i, 0)));
			run->org = Dup(PQgetvalue(open, i, 0));
			run->job = id;
			run->open = run->idle = true;
			run->seen_ns = MonotonicNs();
		}
	}
	PQclear(open);
}

static void
look(const SlurmJob *job)
{
	Run		   *run = run_of(job->name);

	run->seen_ns = MonotonicNs();
	if (job->state == SLURM_WAITS)
		look_waiting(run, job);
	else if (job->state == SLURM_RUNS)
		look_running(run, job);
	else
		look_ended(run, job);
}

static void
look_waiting(Run *run, const SlurmJob *job)
{
	bool		funded = run->job != 0 ? run->waits : fund(run, job);

	if (funded && job->held)
		CommandSlurm("scontrol", "release", job->id);
	else if (!funded && run->job != 0 && !run->open)
	{
		Say("event=over job=%s", job->id);
		CommandSlurm("scancel", job->id, NULL);
	}
	else if (!funded && !job->held)
		CommandSlurm("scontrol", "hold", job->id);
}

/*
 * It runs: the database must know where, and on which credit.
 */
static void
look_running(Run *run, const SlurmJob *job)
{
	bool		funded = run->job != 0 ? run->waits : fund(run, job);

	if (funded)
	{
		/* the attempt before it on a device may be about to be settled */
		if (place(run, job, job->gpus))
			run->refused_ns = 0;
		else if (run->refused_ns == 0)
			run->refused_ns = MonotonicNs();
		else if (MonotonicNs() - run->refused_ns > REFUSED_NS)
			CommandSlurm("scontrol", "requeuehold", job->id);
	}
	else if (!run->open)
	{
		Say("event=unpaid job=%s", job->id);
		CommandSlurm("scancel", job->id, NULL);
	}
}

/*
 * It was over before a sweep saw it run.
 */
static void
look_ended(Run *run, const SlurmJob *job)
{
	if (run->job == 0 && !job->ran)
		return;
	if (run->job == 0 && !fund(run, job))
		return;
	if (!run->open || !run->idle)
		return;
	if (job->ran && !run->placed && run->waits)
		place_anywhere(run, job);
	else
		cancel(run, "slurm: it is over");
}

/*
 * Have credit set aside.  False: there is none now, or no answer.
 */
static bool
fund(Run *run, const SlurmJob *job)
{
	SlurmPayer	payer = {0};
	bool		again = true;

	if (MonotonicNs() < run->next_ns || !PayerFind(job->account, &payer))
		return false;
	while (again && run->job == 0)
	{
		char	   *key = run->tries == 0 ? Dup(run->name) :
			Format("%s~%d", run->name, run->tries);
		char	   *spec = Format("{\"foreign\": \"%s\", \"slurm_job\": \"%s\"}",
								  run->name, job->id);
		PGresult   *result = Reserve(&payer, key, job->request, job->minutes,
									 spec);

		again = false;
		if (result != NULL && PQntuples(result) == 1)
		{
			if (strcmp(PQgetvalue(result, 0, 1), "granted") == 0)
			{
				run->org = Dup(payer.org);
				run->job = atoll(PQgetvalue(result, 0, 0));
				/* a replay may be of one that is placed, or over */
				run->open = run->waits = run->idle =
					*PQgetvalue(result, 0, 3) == 'f';
				if (!run->waits)
					learn_states();
			}
			else
			{
				again = *PQgetvalue(result, 0, 3) == 't';
				run->tries++;
				if (!again)
					tell_why(job, PQgetvalue(result, 0, 2));
			}
		}
		else if (result != NULL)
			tell_why(job, PQresultErrorField(result,
											 PG_DIAG_MESSAGE_PRIMARY));
		PQclear(result);
		free(key);
		free(spec);
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
 * Where scontrol show job looks.
 */
static void
tell_why(const SlurmJob *job, const char *reason)
{
	char	   *comment = Format("AdminComment=gpucredit:%s waits for: %s",
								 job->uuid, reason);
	char	   *id = Format("JobId=%s", job->id);

	if (strstr(job->comment, reason) == NULL)
		CommandSlurm3("scontrol", "update", id, comment);
	free(comment);
	free(id);
}

/*
 * Tell the database where it runs.  False: it may not.
 */
static bool
place(Run *run, const SlurmJob *job, const char *sets)
{
	char	   *nodes = SlurmNodes(job->nodes);
	char	   *id = Format("%lld", run->job);
	const char *values[] = {run->org, id, NULL, nodes, sets};
	char	   *key = Format("placed %s", run->name);
	PGresult   *result;
	bool		refused;

	values[2] = key;
	result = SqlCall("SELECT p.attempt FROM gpucredit.placed($1, $2, $3,"
					 " $4, $5) p", 5, values);
	refused = result != NULL && PQresultStatus(result) != PGRES_TUPLES_OK;
	if (refused)
		Say("event=not_placed job=%s nodes=%s gpus=%s error=\"%s: %s\"",
			job->id, nodes, sets, PQresultErrorField(result,
													 PG_DIAG_MESSAGE_PRIMARY),
			PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL));
	else if (result != NULL)
		run->waits = false;
	PQclear(result);
	free(nodes);
	free(id);
	free(key);
	return !refused;
}

/*
 * Slurm has forgotten which devices a job had that is over.  Any that are free
 * now will do: what it costs is known by its nodes.
 */
static void
place_anywhere(Run *run, const SlurmJob *job)
{
	if (MonotonicNs() < run->next_ns ||
		(*job->gpus != '\0' && place(run, job, job->gpus)))
		return;
	run->next_ns = MonotonicNs() + ANYWHERE_NS;
	for (int from = 0; from < MOST_DEVICES && run->waits; from++)
	{
		char	   *sets = SlurmAnyDevices(job, from);

		if (sets == NULL)
			break;
		(void) place(run, job, sets);
		free(sets);
	}
}

static void
cancel(Run *run, const char *why)
{
	char	   *id = Format("%lld", run->job);
	char	   *key = Format("cancel %s", run->name);
	const char *values[] = {run->org, id, key, why};

	PQclear(SqlCall("SELECT FROM gpucredit.cancel($1, $2, $3, $4)", 4,
					values));
	run->waits = run->idle = false;
	Say("event=cancelled job=%lld reason=\"%s\"", run->job, why);
	free(id);
	free(key);
}

/*
 * What Slurm no longer tells of.
 */
static void
forget_gone(void)
{
	Run		  **link = &runs;

	while (*link != NULL)
	{
		Run		   *run = *link;

		if (MonotonicNs() - run->seen_ns <= GONE_NS)
		{
			link = &run->next;
			continue;
		}
		if (run->job != 0 && run->open && run->idle)
			cancel(run, "slurm: it is gone");
		*link = run->next;
		free(run->name);
		free(run->org);
		free(run);
	}
}
