/*-------------------------------------------------------------------------
 *
 * sweep.c
 *		Reads squeue, and makes Slurm and the database agree.
 *
 * A run of a job is named UUID:RESTARTS, a run of an array's task
 * UUID_TASK:RESTARTS. The name is the run's idempotency key at reserve().
 * Since a replay of a denial is a denial, the next attempt has the key with
 * "~1" appended, then "~2". The bridge keeps no state on disk: the jobs in the
 * database have the name in their spec, and after a restart the same keys get
 * the same answers.
 *
 * The left column is the job's state in Slurm and in the database; the right
 * column is what a sweep does:
 *
 *     waiting, held             reserve; once the job is funded and its quotas
 *                               let it start, scontrol release
 *     waiting, released         reserve, and hold the job again while it is not
 *                               funded
 *     waiting, attempt running  stop the attempt after 10 seconds
 *     waiting, can never run    scancel
 *     waiting, over             scancel if the job was cancelled; otherwise
 *                               replace its UUID
 *     running, funded           placed
 *     running, not funded       reserve and placed; if denied, scancel
 *     running, over             scancel, or requeue if the run began after the
 *                               attempt had ended
 *     ended, not placed         placed if the job ran; otherwise cancel
 *     not listed by Slurm       placed if a sweep saw the job run, or it has a
 *                               record; otherwise cancel after a minute
 *
 * "Over" means that the database's job has ended. If Slurm's job still waits
 * or runs, slurmctld was killed and forgot a run that its nodes executed, and
 * launches the job again under the same name.
 *-------------------------------------------------------------------------
 */
#include <jansson.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "call_repeat.h"
#include "clock.h"
#include "command.h"
#include "log.h"
#include "memory.h"
#include "record.h"
#include "run.h"
#include "slurm.h"
#include "slurm_job.h"

#define GONE_NS			(60 * NS_PER_S) /* a waiting job that Slurm does not
										 * list for so long is cancelled */
#define FORGOTTEN_NS	(10 * NS_PER_S) /* a job that runs according to the
										 * database and that Slurm does not
										 * list is stopped after so long */
#define REFUSED_NS	(30 * NS_PER_S) /* a run that cannot be placed may go on
									 * for so long */
#define DIFFERS_S	30			/* how many seconds Slurm's run time may
								 * differ from the nodes' without a log line */
#define ANYWHERE_NS	(3 * NS_PER_S)	/* time between two attempts to place a
									 * run that has ended */
#define QUOTA_NS	(3 * NS_PER_S)	/* time between two checks of a job's
									 * quotas */
#define TURN_NS		(10 * NS_PER_S) /* how long a released job may take to
									 * start before the next one is released */

/* The size of a job. */
typedef struct Size
{
	int			n_nodes;
	long		smallest;		/* number of devices of its smallest node */
	long		devices;		/* number of devices on all its nodes */
} Size;

/* An organisation that has quotas, and its job that was released last. */
typedef struct Turn
{
	char	   *org;
	char	   *name;
	int64_t		ns;				/* when that job was released */
	struct Turn *next;
} Turn;

static Turn *turns;
static Run *runs;
static void *runs_by_name;
static int64_t sweep_ns;		/* when the present sweep began */

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

	/*
	 * place() also funds jobs that wait for credit, and charges use for fair
	 * share.
	 */
	cycle = SqlCall("SELECT FROM gpucredit.place($1)", 1, pool);
	there = cycle != NULL;
	PQclear(cycle);
	answer = SlurmJobs();
	jobs = json_object_get(answer, "jobs");
	there = there && learn_states();

	/*
	 * Without the database, no node's agent could report the end of a run
	 * either, so the time without one starts anew.
	 */
	for (Run *run = runs; run != NULL && !there; run = run->next)
		run->over_ns = 0;
	handle_jobs(jobs, true, there);
	/* If squeue gave no answer, no job counts as gone. */
	if (there && jobs != NULL)
		RecordsRead(handle_record);
	handle_jobs(jobs, false, there);
	if (there && jobs != NULL)
		forget_gone();
	json_decref(answer);
}

/*
 * Handles either the jobs that ended, or the others. The jobs that ended come
 * first: they take a free device before the next job does, and so are billed
 * even on nodes that are never idle.
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
 * Finds the run of a name, or adds it.
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
 * Reads the state of the pool's open jobs. A job that Slurm does not list
 * counts as gone after a minute. Returns false if the database gives no
 * answer.
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
 * Holds a waiting job that is not known to be funded, while the database
 * cannot be reached.
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
 * Keeps a copy of a running job, because Slurm may run it again or forget it
 * before it can be placed.
 */
static void
remember(Run *run, const SlurmJob *job)
{
	if (run->seen == NULL)
		run->seen = SlurmJobCopy(job);
}

/*
 * Handles a waiting job: holds it until its credit is reserved, then releases
 * it.
 */
static void
handle_waiting(Run *run, const SlurmJob *job)
{
	bool		funded;
	long long	ended;

	/*
	 * If this job were released, slurmctld would hold it again as soon as it
	 * tried to schedule it.
	 */
	if (job->never || job->shares)
	{
		LogLine("event=cannot_run job=%s reason=%s", job->id,
				job->shares ? "shares" : "constraints");
		CommandSlurm("scancel", job->id, NULL);
		return;
	}
	funded = run->job != 0 ? run->waits : RunFund(run, job);
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
 * Whether the quotas of the job's organisation let it start. Quotas count only
 * running jobs, so jobs under quotas are released one after the other: the
 * next one once this one is placed, or once it has waited for TURN_NS.
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
 * Checks the job's quotas. Returns 'y' if they let it start, 'n' if they do
 * not now, and '-' if there are none.
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
 * Handles a running job: the database must know where it runs, and whose
 * credit it spends.
 */
static void
handle_running(Run *run, const SlurmJob *job)
{
	bool		funded = !job->shares &&
		(run->job != 0 ? run->waits : RunFund(run, job));
	long long	ended = 0;

	run->over_ns = 0;
	if (job->shares)
	{
		LogLine("event=unpaid job=%s", job->id);
		CommandSlurm("scancel", job->id, NULL);
	}
	else if (funded)
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
 * Whether another attempt still has one of the job's devices. That attempt has
 * ended in Slurm, but its node's agent has not reported the end yet.
 */
static bool
devices_are_used(const SlurmJob *job)
{
	char	   *nodes = SlurmNodes(job->nodes);
	const char *values[] = {nodes, job->gpus};
	PGresult   *result = SqlCall("SELECT FROM gpucredit.allocated_devices d"
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
 * If Slurm gave the job other devices than credit is held for, cancels the
 * reservation, reserves credit for these devices, and places the job. If the
 * reservation is denied, the next sweep handles the job as not funded. Returns
 * whether the devices differed.
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
	if (RunFund(run, job))
		(void) place(run, job, job->gpus);
	return true;
}

/*
 * Requeues the job, or cancels it if Slurm may not run it twice.
 */
static void
send_back(const SlurmJob *job)
{
	if (!CommandSlurm("scontrol", "requeuehold", job->id))
		CommandSlurm("scancel", job->id, NULL);
}

/*
 * Determines whether the job's attempt ran. "at" becomes its end in seconds
 * since the epoch; 0 if it did not run or its owner cancelled it; -1 if the
 * database gives no answer.
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
 * Gives a job another UUID, because a run that has ended has the same name,
 * and the database knows each run by its own name.
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
 * Handles a job that has ended. One that ended before a sweep saw it run is
 * placed now, so that it is billed.
 */
static void
handle_ended(Run *run, const SlurmJob *job)
{
	if (run->job == 0 && (!job->ran || !RunFund(run, job)))
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
 * Handles a run that the database has and Slurm does not. The agent of its
 * node may report the end soon. It never reports it if slurmd was killed, or
 * if slurmctld was, which then runs no Epilog for a job that it forgot. So the
 * run is stopped after FORGOTTEN_NS.
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
 * Handles a record of a run that began, and may have ended. Returns true if
 * the run is billed, or never will be.
 */
static bool
handle_record(SlurmJob *job)
{
	Run		   *run = run_of(job->name);
	SlurmPayer	payer;
	bool		ended = job->end != 0;

	/*
	 * A run that slurmctld still lists, and that has not ended, needs no
	 * record.
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
		bool		known = RunFindOver(run, payer.org);

		PayerFree(&payer);
		if (known && run->job == 0)
			return false;
	}
	return check_bill(run, job);
}

/*
 * Compares the metered seconds with slurmctld's. Returns false if the database
 * gives no answer.
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
 * Reports to the database where the job runs. Returns false if the job may not
 * run.
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
 * Places a job that has ended and whose devices Slurm no longer lists. Any
 * free devices of its nodes will do, as they have the same price.
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
 * Determines the size of a job that has these nodes: what it had according to
 * its record, within the request that credit is held for. Returns false if the
 * database gives no answer.
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
 * Handles the runs that Slurm no longer lists.
 */
static void
forget_gone(void)
{
	Run		  **link = &runs;

	while (*link != NULL)
	{
		Run		   *run = *link;

		/*
		 * Count up to the sweep's start, because the sweep itself may take
		 * long.
		 */
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
