/*-------------------------------------------------------------------------
 *
 * sweep.c
 *		Reads squeue, and makes Slurm and the database agree.
 *
 * A run of a job is called UUID:RESTARTS, of an array's task UUID_TASK:RESTARTS;
 * that is its key at reserve().  A denial stays one, so the next try has the
 * key with "~1", then "~2".  The bridge keeps nothing on disk: jobs have the
 * name in their spec, and after a restart the same keys have the same answers.
 *
 *	waits, held			reserve; once funded, and its quotas let it start,
 *						scontrol release
 *	waits, released		the same, and hold it again while it is not funded
 *	waits, its attempt runs		stop that, in 10 seconds
 *	waits, over			scancel, if it was cancelled; else a new UUID
 *	runs, funded		placed
 *	runs, not funded	reserve and placed, else scancel
 *	runs, over			scancel, unless it began after that; else requeue
 *	ended, not placed	placed, if it ran; else cancel
 *	unknown to Slurm	placed, if it was seen to run, or has a record; else
 *						cancel, after a minute
 *
 * "Over" beside "waits" or "runs" means that slurmctld was killed and forgot a
 * run that its nodes saw: it launches the job again under the same name.
 *
 *-------------------------------------------------------------------------
 */
#include <jansson.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "record.h"
#include "slurm.h"
#include "slurm_job.h"
#include "util.h"

#define GONE_NS			(60 * NS_PER_S) /* a job that Slurm does not know for
										 * so long is cancelled */
#define FORGOTTEN_NS	(10 * NS_PER_S) /* and one that runs, as the database
										 * says */
#define REFUSED_NS	(30 * NS_PER_S) /* a run that cannot be placed goes on for
									 * so long */
#define DIFFERS_S	30			/* Slurm's seconds may differ from the nodes' */
#define ANYWHERE_NS	(3 * NS_PER_S)	/* between two tries to place a run that
									 * is over */
#define QUOTA_NS	(3 * NS_PER_S)	/* between two looks at a job's quotas */
#define TURN_NS		(10 * NS_PER_S) /* a released job takes so long to start */
#define LONGEST_PAUSE	(60 * NS_PER_S) /* between two tries to get credit */

/* A run that the bridge knows. */
typedef struct Run
{
	char	   *name;			/* UUID:RESTARTS */
	char	   *org;
	long long	job;			/* 0: nothing is reserved yet */
	bool		open;			/* not over, in the database */
	bool		waits;			/* its credit is set aside */
	bool		denied;			/* the last try, or its account has no line */
	bool		placed;			/* it has had an attempt */
	bool		idle;			/* it waits, funded or not */
	int			tries;			/* that were denied */
	int64_t		next_ns;		/* the next try */
	int64_t		pause_ns;
	int64_t		refused_ns;		/* placed() first refused it; 0: it did not */
	int64_t		over_ns;		/* since when Slurm has no such run, while its
								 * attempt runs; 0: it does not */
	int64_t		seen_ns;		/* when Slurm last listed it */
	bool		forgotten;		/* Slurm has no such run, and it is being
								 * stopped */
	SlurmJob   *seen;			/* as it ran, to be placed later */
	struct Run *next;
} Run;

/* How large a job is. */
typedef struct Size
{
	int			n_nodes;
	long		smallest;		/* devices of its smallest node */
	long		devices;		/* that it has in all */
} Size;

/* An organisation that has quotas, and which of its jobs was released last. */
typedef struct Turn
{
	char	   *org;
	char	   *name;
	int64_t		ns;				/* when */
	struct Turn *next;
} Turn;

static Turn *turns;
static Run *runs;
static void *runs_by_name;
static int64_t sweep_ns;		/* when the sweep began that goes on */

static void sweep(void);
static Run *run_of(const char *name);
static int	by_name(const void *a, const void *b);
static bool learn_states(void);
static void handle_jobs(const json_t * jobs, bool ended, bool there);
static void handle_job(const SlurmJob *job);
static void hold_unfunded(const SlurmJob *job);
static void remember(Run *run, const SlurmJob *job);
static void handle_waiting(Run *run, const SlurmJob *job);
static bool has_turn(Run *run);
static char ask_quotas(const Run *run);
static void handle_running(Run *run, const SlurmJob *job);
static void handle_ended(Run *run, const SlurmJob *job);
static void end_forgotten(Run *run, const char *why);
static bool handle_record(SlurmJob *job);
static bool check_bill(const Run *run, const SlurmJob *job);
static void replace_uuid(const SlurmJob *job);
static bool devices_are_used(const SlurmJob *job);
static bool renew(Run *run, const SlurmJob *job);
static void send_back(const SlurmJob *job);
static bool ended_at(const Run *run, long long *at);
static bool fund(Run *run, const SlurmJob *job);
static char *request_of(const SlurmJob *job);
static long largest_node(void);
static bool has_code(const PGresult * result, const char *begins);
static bool find_over(Run *run, const char *org);
static void set_admin_comment(const SlurmJob *job, const char *reason);
static bool place(Run *run, const SlurmJob *job, const char *sets);
static void place_anywhere(Run *run, const SlurmJob *job);
static bool size_of(const Run *run, const SlurmJob *job, const char *nodes,
					Size *size);
static void cancel(Run *run, const char *word, const char *why);
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
 * Sweep all jobs once.
 */
static void
sweep(void)
{
	json_t	   *answer;
	json_t	   *jobs;
	PGresult   *cycle;
	bool		there;
	const char *pool[] = {slurm.pool};

	sweep_ns = MonotonicNs();
	/* this also funds jobs that wait for credit, and counts use */
	cycle = SqlCall("SELECT FROM gpucredit.place($1)", 1, pool);
	there = cycle != NULL;
	PQclear(cycle);
	answer = SlurmJobs();
	jobs = json_object_get(answer, "jobs");
	there = there && learn_states();
	/* no node can report an end either */
	for (Run *run = runs; run != NULL && !there; run = run->next)
		run->over_ns = 0;
	handle_jobs(jobs, true, there);
	/* without an answer no job counts as gone */
	if (there && jobs != NULL)
		RecordsRead(handle_record);
	handle_jobs(jobs, false, there);
	if (there && jobs != NULL)
		forget_gone();
	json_decref(answer);
}

/*
 * Handle the jobs that ended, or the others.  An ended job takes a free device
 * before the next job does: so it is billed even on nodes that are never idle.
 */
static void
handle_jobs(const json_t * jobs, bool ended, bool there)
{
	json_t	   *row;
	size_t		i;

	json_array_foreach(jobs, i, row)
	{
		SlurmJob	job;

		if (!SlurmJobParse(row, &job))
			continue;
		for (int t = 0; t < job.n_tasks; t++)
		{
			SlurmJobTask(&job, t);
			run_of(job.name)->seen_ns = MonotonicNs();
			if ((job.state == SLURM_ENDED) != ended)
				continue;
			if (there)
				handle_job(&job);
			else
				hold_unfunded(&job);
		}
		SlurmJobFree(&job);
	}
}

/*
 * Find the run of a name, or add one.
 */
static Run *
run_of(const char *name)
{
	Run			wanted = {.name = (char *) name};
	Run		  **known = tfind(&wanted, &runs_by_name, by_name);
	Run		   *run;

	if (known != NULL)
		return *known;
	run = Alloc(sizeof(Run));
	run->name = Dup(name);
	run->seen_ns = MonotonicNs();
	run->next = runs;
	runs = run;
	if (tsearch(run, &runs_by_name, by_name) == NULL)
		Die("out of memory");
	return run;
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(((const Run *) a)->name, ((const Run *) b)->name);
}

/*
 * Read the state of the pool's open jobs.  One that Slurm does not list counts
 * as gone a minute later.
 */
static bool
learn_states(void)
{
	const char *pool[] = {slurm.pool};
	PGresult   *open = SqlCall("SELECT j.org, j.job, coalesce(j.spec->>'foreign',"
							   " format('job %s of %s', j.job, j.org)),"
							   " j.state = 'queued', j.attempt > 0,"
							   " j.state IN ('queued', 'unfunded')"
							   " FROM gpucredit.job j"
							   " WHERE j.pool = $1 AND j.ended_at IS NULL", 1, pool);

	if (open == NULL || PQresultStatus(open) != PGRES_TUPLES_OK)
	{
		if (open != NULL)
			LogLine("event=no_states error=\"%.200s\"", PQresultErrorMessage(open));
		PQclear(open);
		return false;
	}
	for (Run *run = runs; run != NULL; run = run->next)
		run->open = run->waits = run->idle = false;
	for (int i = 0; i < PQntuples(open); i++)
	{
		Run		   *run = run_of(PQgetvalue(open, i, 2));

		if (run->org == NULL)
			run->org = Dup(PQgetvalue(open, i, 0));
		run->job = atoll(PQgetvalue(open, i, 1));
		run->open = true;
		run->waits = *PQgetvalue(open, i, 3) == 't';
		run->placed = *PQgetvalue(open, i, 4) == 't';
		run->idle = *PQgetvalue(open, i, 5) == 't';
	}
	PQclear(open);
	return true;
}

static void
handle_job(const SlurmJob *job)
{
	Run		   *run = run_of(job->name);

	if (job->state == SLURM_WAITS)
		handle_waiting(run, job);
	else if (job->state == SLURM_RUNS)
		handle_running(run, job);
	else
		handle_ended(run, job);
}

/*
 * The database is away: hold the jobs that are not known to be funded.
 */
static void
hold_unfunded(const SlurmJob *job)
{
	Run		   *run = run_of(job->name);

	if (job->state == SLURM_WAITS && !job->held && !run->waits)
		CommandSlurm("scontrol", "hold", job->id);
	else if (job->state == SLURM_RUNS)
		remember(run, job);
}

/*
 * Slurm may have run it again, or forgotten it, before it can be placed.
 */
static void
remember(Run *run, const SlurmJob *job)
{
	if (run->seen == NULL)
		run->seen = SlurmJobCopy(job);
}

/*
 * Handle a waiting job: hold it until its credit is set aside, then release
 * it.
 */
static void
handle_waiting(Run *run, const SlurmJob *job)
{
	bool		funded = run->job != 0 ? run->waits : fund(run, job);
	long long	ended;

	end_forgotten(run, "slurm: it waits");
	if (funded && job->held)
	{
		if (has_turn(run))
			CommandSlurm("scontrol", "release", job->id);
	}
	else if (!funded && run->job != 0 && !run->open)
	{
		LogLine("event=over job=%s", job->id);
		if (ended_at(run, &ended))
			replace_uuid(job);
		else if (ended == 0)
			CommandSlurm("scancel", job->id, NULL);
	}
	else if (!funded && !job->held)
		CommandSlurm("scontrol", "hold", job->id);
}

/*
 * Do the quotas of its organisation let it start?  They count what runs.  So
 * jobs under quotas are released one after the other: the next one when this
 * one is placed, or Slurm has it wait for longer.
 */
static bool
has_turn(Run *run)
{
	Turn	   *turn = turns;
	Run		  **last;
	char		answer;

	if (MonotonicNs() < run->next_ns)
		return false;
	while (turn != NULL && strcmp(turn->org, run->org) != 0)
		turn = turn->next;
	if (turn != NULL && MonotonicNs() - turn->ns < TURN_NS)
	{
		Run			wanted = {.name = turn->name};

		last = tfind(&wanted, &runs_by_name, by_name);
		if (last != NULL && (*last)->open && (*last)->idle)
			return false;
	}
	answer = ask_quotas(run);
	if (answer == 'n')
		run->next_ns = MonotonicNs() + QUOTA_NS;
	if (answer != 'y')
		return answer == '-';
	if (turn == NULL)
	{
		turn = Alloc(sizeof(Turn));
		turn->org = Dup(run->org);
		turn->next = turns;
		turns = turn;
	}
	free(turn->name);
	turn->name = Dup(run->name);
	turn->ns = MonotonicNs();
	return true;
}

/*
 * 'y' or 'n': its quotas let it start or not now; '-': there are none.
 */
static char
ask_quotas(const Run *run)
{
	char	   *id = Format("%lld", run->job);
	const char *values[] = {run->org, id};
	PGresult   *result = SqlCall("SELECT CASE WHEN NOT EXISTS (SELECT"
								 "  FROM gpucredit.quota q WHERE q.org = $1"
								 "  AND (q.max_gpus IS NOT NULL"
								 "   OR q.max_running IS NOT NULL))"
								 " THEN '-' ELSE (SELECT"
								 "  CASE WHEN bool_and(e.passes)"
								 "  THEN 'y' ELSE 'n' END"
								 "  FROM gpucredit.explain($1, $2) e"
								 "  WHERE e.check_name = 'quota') END",
								 2, values);
	char		answer = result == NULL || PQntuples(result) != 1 ? 'n' :
		*PQgetvalue(result, 0, 0);

	PQclear(result);
	free(id);
	return answer;
}

/*
 * Handle a running job: the database must know where it runs, and on which
 * credit.
 */
static void
handle_running(Run *run, const SlurmJob *job)
{
	bool		funded = run->job != 0 ? run->waits : fund(run, job);
	long long	ended = 0;

	run->over_ns = 0;
	if (funded)
	{
		remember(run, job);
		if (place(run, job, job->gpus) || devices_are_used(job) || renew(run, job))
			run->refused_ns = 0;
		else if (run->refused_ns == 0)
			run->refused_ns = MonotonicNs();
		else if (MonotonicNs() - run->refused_ns > REFUSED_NS)
			send_back(job);
	}
	else if (!run->open && (run->job != 0 || run->denied))
	{
		LogLine("event=%s job=%s", run->job != 0 ? "over" : "unpaid", job->id);
		if (run->job != 0 && ended_at(run, &ended) && job->start > ended)
			send_back(job);
		else if (ended >= 0)
			CommandSlurm("scancel", job->id, NULL);
	}
}

/*
 * Has another attempt one of its devices?  That one is over for Slurm, and its
 * node's agent has not reported that yet.
 */
static bool
devices_are_used(const SlurmJob *job)
{
	char	   *nodes = SlurmNodes(job->nodes);
	const char *values[] = {nodes, job->gpus};
	PGresult   *result = SqlCall("SELECT FROM gpucredit.devices_taken d"
								 " JOIN ROWS FROM (unnest($1::text[]),"
								 "  unnest($2::gpucredit.gpuset[]))"
								 "  AS j (node, gpus) ON j.node = d.node"
								 "  AND j.gpus OPERATOR(gpucredit.&&) d.gpus",
								 2, values);
	bool		taken = result == NULL || PQntuples(result) > 0;

	PQclear(result);
	free(nodes);
	return taken;
}

/*
 * Has Slurm given it other devices than credit is set aside for?  Then set it
 * aside for these.  Where there is none, the next look finds it unpaid.
 */
static bool
renew(Run *run, const SlurmJob *job)
{
	char	   *nodes = SlurmNodes(job->nodes);
	Size		size;
	bool		other = job->devices >= 0 && size_of(run, job, nodes, &size) &&
		size.devices != job->devices;

	free(nodes);
	if (!other)
		return false;
	cancel(run, "renew", "slurm: it has other devices");
	run->job = 0;
	run->open = false;
	run->tries++;
	run->next_ns = 0;
	if (fund(run, job))
		(void) place(run, job, job->gpus);
	return true;
}

/*
 * Requeue it, or cancel it if Slurm may not run it twice.
 */
static void
send_back(const SlurmJob *job)
{
	if (!CommandSlurm("scontrol", "requeuehold", job->id))
		CommandSlurm("scancel", job->id, NULL);
}

/*
 * Did it run?  "at": when that ended, in seconds of the epoch; 0: it did not
 * run, or its owner cancelled it; -1: the database gives no answer.
 */
static bool
ended_at(const Run *run, long long *at)
{
	char	   *id = Format("%lld", run->job);
	char	   *key = Format("cancel %s", run->name);
	const char *values[] = {run->org, id, key};
	PGresult   *result = SqlCall("SELECT CASE WHEN j.attempt > 0"
								 " AND (j.state <> 'cancelled' OR EXISTS"
								 "  (SELECT FROM gpucredit.request r"
								 "   WHERE r.org = $1"
								 "   AND r.space = gpucredit.key_space()"
								 "   AND r.key = $3"
								 "   AND r.operation = 'cancel'))"
								 " THEN extract(epoch FROM j.ended_at)::bigint"
								 " ELSE 0 END FROM gpucredit.job j"
								 " WHERE j.org = $1 AND j.job = $2", 3, values);

	*at = result == NULL || PQntuples(result) != 1 ? -1 :
		atoll(PQgetvalue(result, 0, 0));
	PQclear(result);
	free(id);
	free(key);
	return *at > 0;
}

/*
 * Give a job another UUID, because a run that has ended had the same one: each
 * run is known to the database by its own.
 */
static void
replace_uuid(const SlurmJob *job)
{
	PGresult   *uuid = SqlCall("SELECT gen_random_uuid()", 0, NULL);
	char	   *id = Format("JobId=%s", job->id);
	char	   *comment;

	if (uuid != NULL && PQntuples(uuid) == 1)
	{
		comment = Format("AdminComment=gpucredit:%s", PQgetvalue(uuid, 0, 0));
		CommandSlurm3("scontrol", "update", id, comment);
		free(comment);
	}
	PQclear(uuid);
	free(id);
}

/*
 * Place a job that was over before a sweep saw it run.
 */
static void
handle_ended(Run *run, const SlurmJob *job)
{
	if (run->job == 0 && (!job->ran || !fund(run, job)))
		return;
	end_forgotten(run, "slurm: it is over");
	if (!run->open || !run->idle)
		return;
	if (job->ran && !run->placed && run->waits)
	{
		remember(run, job);
		place_anywhere(run, run->seen);
	}
	else
		cancel(run, "cancel", "slurm: it is over");
}

/*
 * The database has a run that Slurm does not have.  Its node may report the
 * end soon.  It never will if slurmd was killed, or slurmctld, which then runs
 * no Epilog for what it forgot.
 */
static void
end_forgotten(Run *run, const char *why)
{
	if (!run->open || run->idle || run->forgotten)
		return;
	if (run->over_ns == 0)
		run->over_ns = MonotonicNs();
	else if (MonotonicNs() - run->over_ns > FORGOTTEN_NS)
	{
		run->forgotten = true;
		cancel(run, "cancel", why);
	}
}

/*
 * Handle a record of a run that began, and may have ended.  True: its bill is
 * made, or never will be.
 */
static bool
handle_record(SlurmJob *job)
{
	Run		   *run = run_of(job->name);
	SlurmPayer	payer;
	bool		ended = job->end != 0;

	/*
	 * a run that slurmctld still lists, and that has not ended, needs no
	 * record
	 */
	if (!ended && (run->seen_ns >= sweep_ns ||
				   MonotonicNs() - run->seen_ns < FORGOTTEN_NS))
		return false;
	if (ended)
		run->seen_ns = MonotonicNs();
	if (run->open)
	{
		handle_ended(run, job);
		return false;
	}
	if (run->job == 0 && PayerFind(job->account, &payer))
	{
		bool		known = find_over(run, payer.org);

		PayerFree(&payer);
		if (known && run->job == 0)
			return false;
	}
	return check_bill(run, job);
}

/*
 * Compare the metered seconds with slurmctld's.  False: the database gives no
 * answer.
 */
static bool
check_bill(const Run *run, const SlurmJob *job)
{
	char	   *id = Format("%lld", run->job);
	const char *values[] = {run->job == 0 ? "" : run->org, id};
	PGresult   *result = SqlCall("SELECT extract(epoch FROM a.elapsed)::bigint"
								 " FROM gpucredit.attempt a WHERE a.org = $1"
								 " AND a.job = $2", 2, values);
	bool		answered = result != NULL &&
		PQresultStatus(result) == PGRES_TUPLES_OK;
	bool		billed = answered && PQntuples(result) > 0;
	long long	ran = job->end == 0 ? 0 : job->end - job->start;
	long long	metered = billed ? atoll(PQgetvalue(result, 0, 0)) : 0;

	if (answered && !billed)
		LogLine("event=not_billed job=%s name=%s slurm_s=%lld", job->id,
				job->name, ran);
	else if (answered && job->end != 0 && llabs(ran - metered) > DIFFERS_S)
		LogLine("event=bill_differs job=%s name=%s slurm_s=%lld billed_s=%lld",
				job->id, job->name, ran, metered);
	PQclear(result);
	free(id);
	return answered;
}

/*
 * Reserve credit.  False: there is none now, or no answer.
 */
static bool
fund(Run *run, const SlurmJob *job)
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
				/* open jobs are known by name, so a replay is over */
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
			/* its time limit or a setting has changed since */
			again = !find_over(run, payer.org);
			run->tries += again;
		}
		else if (has_code(result, "UC") || has_code(result, "22"))
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
 * What credit is set aside for: the devices that it has, or may get.
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
 * The most devices that a node of the pool has.
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
 * Is it an error whose SQLSTATE begins with this?
 */
static bool
has_code(const PGresult * result, const char *begins)
{
	const char *code = result == NULL ? NULL :
		PQresultErrorField(result, PG_DIAG_SQLSTATE);

	return code != NULL && strncmp(code, begins, strlen(begins)) == 0;
}

/*
 * Is the replayed job over?  Otherwise the replay is of a denial.
 */
static bool
find_over(Run *run, const char *org)
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
 * Set the job's admin comment, which "scontrol show job" prints.
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

/*
 * Report to the database where it runs.  False: it may not run.
 */
static bool
place(Run *run, const SlurmJob *job, const char *sets)
{
	char	   *nodes = SlurmNodes(job->nodes);
	char	   *id = Format("%lld", run->job);
	const char *values[] = {run->org, id, NULL, nodes, sets, NULL};
	char	   *key = Format("placed %s", run->name);
	char	   *ran = Format("%lld s", job->start > 0 && job->start < time(NULL) ?
							 (long long) time(NULL) - job->start : 0);
	PGresult   *result;
	bool		refused;

	values[2] = key;
	values[5] = ran;
	result = SqlCall("SELECT p.attempt FROM gpucredit.placed($1, $2, $3,"
					 " $4, $5, ran => $6) p", 6, values);
	refused = result != NULL && PQresultStatus(result) != PGRES_TUPLES_OK;
	if (refused)
		LogLine("event=not_placed job=%s nodes=%s gpus=%s error=\"%s: %s\"",
				job->id, nodes, sets, PQresultErrorField(result,
														 PG_DIAG_MESSAGE_PRIMARY),
				PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL));
	else if (result != NULL)
		run->waits = false;
	PQclear(result);
	free(nodes);
	free(id);
	free(key);
	free(ran);
	return !refused;
}

/*
 * Slurm has forgotten which devices an ended job had.  Any free ones will do:
 * its nodes know what it costs.
 */
static void
place_anywhere(Run *run, const SlurmJob *job)
{
	char	   *nodes;
	Size		size;
	long		each;
	bool		known;

	if (MonotonicNs() < run->next_ns ||
		(*job->gpus != '\0' && place(run, job, job->gpus)))
		return;
	run->next_ns = MonotonicNs() + ANYWHERE_NS;
	nodes = SlurmNodes(job->nodes);
	known = size_of(run, job, nodes, &size) && size.n_nodes > 0;
	each = known ? (size.devices + size.n_nodes - 1) / size.n_nodes : 0;
	for (int from = 0; known && run->waits && from + each <= size.smallest;
		 from++)
	{
		char	   *sets = SlurmAnyDevices(size.n_nodes, size.devices, from);

		(void) place(run, job, sets);
		free(sets);
		if (each == 0)
			break;
	}
	free(nodes);
}

/*
 * How large a job is that has these nodes: what it had, within what credit is
 * set aside for.  False: the database does not say.
 */
static bool
size_of(const Run *run, const SlurmJob *job, const char *nodes, Size *size)
{
	char	   *id = Format("%lld", run->job);
	char	   *devices = Format("%ld", job->devices >= 0 ? job->devices :
								 RecordDevices(run->name));
	const char *values[] = {run->org, id, nodes, devices};
	PGresult   *result = SqlCall("SELECT cardinality($3::text[]),"
								 " (SELECT coalesce(min(n.gpus), 0)"
								 "  FROM gpucredit.node n"
								 "  WHERE n.node = ANY ($3::text[])),"
								 " LEAST(GREATEST($4::integer,"
								 "  gpucredit.gpureq_min_gpus(j.request)),"
								 "  gpucredit.gpureq_max_gpus(j.request))"
								 " FROM gpucredit.job j"
								 " WHERE j.org = $1 AND j.job = $2", 4, values);
	bool		known = result != NULL && PQntuples(result) == 1;

	if (known)
	{
		size->n_nodes = atoi(PQgetvalue(result, 0, 0));
		size->smallest = atol(PQgetvalue(result, 0, 1));
		size->devices = atol(PQgetvalue(result, 0, 2));
	}
	PQclear(result);
	free(id);
	free(devices);
	return known;
}

static void
cancel(Run *run, const char *word, const char *why)
{
	char	   *id = Format("%lld", run->job);
	char	   *key = Format("%s %s", word, run->name);
	const char *values[] = {run->org, id, key, why};

	PQclear(SqlCall("SELECT FROM gpucredit.cancel($1, $2, $3, $4)", 4,
					values));
	run->waits = run->idle = false;
	LogLine("event=cancelled job=%lld reason=\"%s\"", run->job, why);
	free(id);
	free(key);
}

/*
 * Handle the runs that Slurm no longer lists.
 */
static void
forget_gone(void)
{
	Run		  **link = &runs;

	while (*link != NULL)
	{
		Run		   *run = *link;

		/* before this sweep, which may take long itself */
		int64_t		unseen = sweep_ns - run->seen_ns;

		if (run->seen_ns < sweep_ns && run->seen != NULL && run->waits)
			place_anywhere(run, run->seen);
		if (run->seen_ns < sweep_ns)
			end_forgotten(run, "slurm: it is forgotten");
		if (unseen <= GONE_NS || (run->seen != NULL && run->waits))
		{
			link = &run->next;
			continue;
		}
		if (run->job != 0 && run->open && run->idle)
			cancel(run, "cancel", "slurm: it is gone");
		*link = run->next;
		(void) tdelete(run, &runs_by_name, by_name);
		if (run->seen != NULL)
			SlurmJobFree(run->seen);
		free(run->seen);
		free(run->name);
		free(run->org);
		free(run);
	}
}
