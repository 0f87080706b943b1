/*-------------------------------------------------------------------------
 *
 * database.c
 *		Calls the database, one call at a time, and repeats each call until it
 *		is answered.
 *
 * Each call about a job has an idempotency key made of UIDs, so a call whose
 * answer was lost can be repeated. At the start and after each pause,
 * DatabaseReconcile() reads the database's jobs and brings the bridge's jobs
 * to the same stage. A job of the pool that has no pod is settled or
 * cancelled. Settlements are sent before new attempts, because the attempts
 * may need the devices.
 *-------------------------------------------------------------------------
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call_repeat.h"
#include "clock.h"
#include "config.h"
#include "database.h"
#include "db.h"
#include "document.h"
#include "job.h"
#include "log.h"
#include "memory.h"
#include "place.h"
#include "runtime.h"
#include "texts.h"
#include "unpaid.h"

#define PAUSE_NS	(500 * NS_PER_MS)

static bool loaded;
static int64_t load_ns;			/* when to read the database's jobs next */
static int64_t pause_ns;		/* no call is made before this time */

static void call(KubeJob *job, const char *sql, int n,
				 const char *const *values, DbAnswer answer);
static bool answered(KubeJob *job, PGresult * result);
static bool waits_to_start(const KubeJob *job);
static void load(void);
static void add_key_to_load(const char *space, const char *key, TextArray *orgs,
							TextArray *keys);
static void read_load(PGresult * result, void *context);
static void read_row(PGresult * result, int row);
static KubeWorkload *workload_of(const char *uid, const char *key);
static bool can_adopt(const KubePod *pod);
static int	pods_listed(json_t * uids, bool open, KubePod **pods);
static int	pods_paid(const char *uid, const char *id, int most,
					  KubePod **pods);
static void meet(KubeJob *job, PGresult * result, int row);
static void resume(KubeJob *job, PGresult * result, int row);
static bool settle_next(void);
static void settle(KubeJob *job);
static const char *outcome_of(KubeJob *job, char *elapsed, size_t room,
							  char *code);
static void settled(PGresult * result, void *context);
static bool cancel_next(void);
static void cancelled(PGresult * result, void *context);
static bool place_next(void);
static void placed(PGresult * result, void *context);
static bool reserve_next(void);
static void reserve(KubeJob *job);
static void reserved(PGresult * result, void *context);
static bool meter_due(void);
static void metered(PGresult * result, void *context);
static char *spec_of(const KubeJob *job);
static char *key_with(const KubeJob *job, const char *what);

bool
DatabaseLoaded(void)
{
	return loaded;
}

/*
 * Makes the next call, if the connection is idle.
 */
void
DatabaseReconcile(void)
{
	int64_t		now = MonotonicNs();

	if (!DbIdle() || now < pause_ns)
		return;
	if (!loaded || now >= load_ns)
		load();
	else if (!NodesCall() && !settle_next() && !cancel_next() &&
			 !place_next() && !meter_due() && !UnpaidCharge())
		reserve_next();
}

/*
 * Whether the call failed with an error after which repeating it later may
 * succeed. If so, calls pause for PAUSE_NS.
 */
bool
DatabasePauses(PGresult * result)
{
	if (CallMayRepeat(result) == REPEAT_NEVER)
		return false;
	pause_ns = MonotonicNs() + PAUSE_NS;
	return true;
}

static const char *
error_of(PGresult * result)
{
	const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

	return text == NULL ? "" : text;
}

static void
call(KubeJob *job, const char *sql, int n, const char *const *values,
	 DbAnswer answer)
{
	job->calling = true;
	DbCall(sql, n, values, answer, job);
}

/*
 * Handles what is common to the answers of calls about a job. Returns false if
 * the call is repeated later or was refused.
 */
static bool
answered(KubeJob *job, PGresult * result)
{
	job->calling = false;
	if (DatabasePauses(result))
		return false;
	/* The tenant asked for something that is not allowed. */
	if (*DbState(result) != '\0' && job->id != NULL)
		LogLine("event=call_refused job=%s state=%s error=\"%s\"", job->id,
				DbState(result), error_of(result));
	return *DbState(result) == '\0';
}

/* Reading the database's jobs */

/*
 * Selects the open jobs of pool $1, and the jobs that organisations $2
 * reserved under a key that begins with one of $3; each key has only a few
 * jobs. The LIMIT makes the planner use the index for each key. Tenants may
 * reserve jobs in this pool themselves, so "spec" may be any document.
 */
#define JOBS_OF_POOL \
	"WITH j AS (SELECT o.* FROM gpucredit.job o" \
	"  WHERE o.pool = $1 AND o.ended_at IS NULL" \
	" UNION ALL SELECT e.* FROM ROWS FROM" \
	"  (pg_catalog.unnest($2::pg_catalog.text[])," \
	"  pg_catalog.unnest($3::pg_catalog.text[])) k(org, key)" \
	" CROSS JOIN LATERAL (SELECT q.org, q.result[1]::pg_catalog.int8 AS job" \
	"  FROM gpucredit.request q WHERE q.org = k.org" \
	"  AND q.space = gpucredit.key_space() AND q.key >= k.key" \
	"  AND q.key < k.key || '0' AND q.operation = 'reserve'" \
	"  AND q.result[1] IS NOT NULL LIMIT 10) r" \
	" CROSS JOIN LATERAL (SELECT d.* FROM gpucredit.job d" \
	"  WHERE d.org = r.org AND d.job = r.job AND d.pool = $1" \
	"  AND d.ended_at IS NOT NULL LIMIT 1) e)" \
	"SELECT j.org, j.job, j.account, j.state, j.attempt," \
	" j.spec->'kubernetes'->>'key' AS key," \
	" j.spec->'kubernetes'->>'pods' AS pods," \
	" j.spec->'kubernetes'->>'workload' AS workload," \
	" j.spec->'kubernetes'->>'size' AS size," \
	" h.held::pg_catalog.numeric AS held, a.gpu_type," \
	" LEAST(CASE pg_catalog.jsonb_typeof(j.spec->'kubernetes'->'wall_s')" \
	"  WHEN 'number' THEN GREATEST(pg_catalog.round((j.spec->'kubernetes'" \
	"   ->>'wall_s')::pg_catalog.numeric), 1) END," \
	"  extract(epoch FROM j.wall_limit)::pg_catalog.int8) AS wall_s," \
	" extract(epoch FROM a.elapsed + CASE WHEN a.running_at IS NULL" \
	"  THEN '0'::pg_catalog.interval ELSE gpucredit.now() - a.heard_at END)" \
	"  AS ran_s," \
	" (SELECT extract(epoch FROM pg_catalog.sum(e.elapsed))" \
	"   FROM gpucredit.attempt e WHERE e.org = j.org AND e.job = j.job" \
	"   AND e.ended_at IS NOT NULL) AS settled_s," \
	" (SELECT pg_catalog.string_agg(g.node || ' ' || g.gpus::pg_catalog.text," \
	"   E'\\n') FROM gpucredit.attempt_gpu g WHERE g.org = j.org" \
	"  AND g.job = j.job AND g.attempt = j.attempt) AS shares" \
	" FROM j LEFT JOIN gpucredit.hold h ON h.org = j.org AND h.hold = j.hold" \
	" LEFT JOIN gpucredit.attempt a ON a.org = j.org AND a.job = j.job" \
	"  AND a.attempt = j.attempt ORDER BY j.job"

/*
 * Whether the job has credit and no attempt. Somebody may cancel it in the
 * meantime.
 */
static bool
waits_to_start(const KubeJob *job)
{
	return job->stage == KUBE_FUNDED || job->stage == KUBE_STARTS;
}

/*
 * Reads the jobs that are open, those that wait to start, and those of pods
 * and workloads that this bridge has not looked up yet: an earlier bridge may
 * have reserved their credit.
 */
static void
load(void)
{
	TextArray	orgs = {0};
	TextArray	keys = {0};
	const char *values[3] = {kube.pool, NULL, NULL};

	for (int i = 0; i < PodCount(); i++)
	{
		KubePod    *pod = PodAt(i);

		pod->looking_up = pod->job == NULL;
		if (pod->job == NULL || waits_to_start(pod->job) ||
			(pod->job->id == NULL && pod->job->tries == 0))
			add_key_to_load(pod->space, pod->uid, &orgs, &keys);
	}
	for (int i = 0; i < WorkloadCount(); i++)
	{
		KubeWorkload *workload = WorkloadAt(i);
		char	   *key;

		if ((workload->job != NULL && !waits_to_start(workload->job)) ||
			WorkloadCheck(workload) == NULL)
			continue;
		key = WorkloadKey(workload);
		add_key_to_load(workload->space, key, &orgs, &keys);
		free(key);
	}
	values[1] = TextsOf(&orgs);
	values[2] = TextsOf(&keys);
	DbCall(JOBS_OF_POOL, 3, values, read_load, NULL);
	TextsFree(&orgs);
	TextsFree(&keys);
}

/*
 * Makes load() search for a key of this namespace's organisation.
 */
static void
add_key_to_load(const char *space, const char *key, TextArray *orgs, TextArray *keys)
{
	KubeSpace  *payer = SpaceFind(space);

	if (payer == NULL || payer->org == NULL)
		return;
	TextsAdd(orgs, payer->org);
	TextsAdd(keys, key);
}

/*
 * Handles the rows that load() selected.
 */
static void
read_load(PGresult * result, void *context)
{
	(void) context;
	if (DatabasePauses(result))
		return;
	if (*DbState(result) != '\0')
	{
		LogLine("event=load_refused state=%s error=\"%s\"", DbState(result),
				error_of(result));
		pause_ns = MonotonicNs() + 5 * NS_PER_S;
		return;
	}
	for (int i = 0; i < PQntuples(result); i++)
		read_row(result, i);
	for (int i = 0; i < PodCount(); i++)
		PodAt(i)->looked_up |= PodAt(i)->looking_up;
	if (!loaded)
		LogLine("event=jobs_loaded jobs=%d pods=%d nodes=%d", PQntuples(result),
				PodCount(), NodeCount());
	loaded = true;
	load_ns = MonotonicNs() + kube.meter_ms * NS_PER_MS;
}

/*
 * Handles one job's row.
 */
static void
read_row(PGresult * result, int row)
{
	const char *org = DbField(result, row, "org");
	const char *id = DbField(result, row, "job");
	const char *key = DbField(result, row, "key");
	const char *state = DbField(result, row, "state");
	const char *list = DbField(result, row, "pods");
	KubeJob    *job = JobFind(org, id);
	const char *uid = DbField(result, row, "workload");
	const char *size = DbField(result, row, "size");
	bool		open = strcmp(state, "queued") == 0 ||
		strcmp(state, "unfunded") == 0 || strcmp(state, "active") == 0;
	KubeWorkload *workload;
	json_t	   *uids;
	KubePod   **pods;
	int			n;

	if (job != NULL)
	{
		meet(job, result, row);
		return;
	}
	uids = list == NULL ? NULL : json_loads(list, 0, NULL);
	workload = workload_of(uid, key);
	pods = Alloc((PodCount() + 1) * sizeof(KubePod *));
	n = uid == NULL ? pods_listed(uids, open, pods) :
		pods_paid(uid, id, size == NULL ? 0 : atol(size), pods);
	if (n > 0 || open)
	{
		job = JobAdopt(pods, n, workload);
		if (workload != NULL)
			workload->job = job;
		job->size = uid == NULL ? (int) json_array_size(uids) :
			size == NULL ? 0 : atol(size);
		TextSet(&job->org, org);
		TextSet(&job->account, DbField(result, row, "account"));
		JobName(job, id);
		TextSet(&job->key, key == NULL ? id : key);
		TextSet(&job->held, DbField(result, row, "held"));
		if (DbField(result, row, "wall_s") != NULL)
			job->wall_s = atol(DbField(result, row, "wall_s"));
		resume(job, result, row);
		/* The attempt of this job paid for the pods, although it has ended. */
		for (int i = 0; i < job->n; i++)
			job->pods[i]->paid |= job->attempt != NULL &&
				strcmp(job->attempt, "0") != 0;
	}
	free(pods);
	json_decref(uids);
}

/*
 * Finds the workload whose present admission has this key, unless another job
 * pays for it.
 */
static KubeWorkload *
workload_of(const char *uid, const char *key)
{
	KubeWorkload *workload = WorkloadFind(uid);
	char	   *now;
	bool		is;

	if (workload == NULL || workload->job != NULL || key == NULL ||
		WorkloadCheck(workload) == NULL)
		return NULL;
	now = WorkloadKey(workload);
	is = strcmp(now, key) == 0;
	free(now);
	return is ? workload : NULL;
}

/*
 * Whether a pod may be assigned to a job of the database. A pod that belongs
 * to a job already reserved may not.
 */
static bool
can_adopt(const KubePod *pod)
{
	return !pod->gone && (pod->job == NULL || pod->job->id == NULL) &&
		(pod->job == NULL || !pod->job->calling);
}

/*
 * Collects the pods whose UIDs are listed. If the job has ended, pods that
 * still wait are left out, as they reserve credit anew.
 */
static int
pods_listed(json_t * uids, bool open, KubePod **pods)
{
	json_t	   *uid;
	size_t		i;
	int			n = 0;

	json_array_foreach(uids, i, uid)
	{
		KubePod    *pod = PodFind(json_string_value(uid));

		if (pod != NULL && can_adopt(pod) && (open || !pod->gated))
			pods[n++] = pod;
	}
	return n;
}

/*
 * Collects the pods of a workload for which this job pays, as the bridge's
 * annotation on each pod states.
 */
static int
pods_paid(const char *uid, const char *id, int most, KubePod **pods)
{
	int			n = 0;

	for (int i = 0; i < PodCount() && n < most; i++)
	{
		KubePod    *pod = PodAt(i);

		if (pod->kept && pod->workload != NULL && pod->paid_by != NULL &&
			strcmp(pod->workload, uid) == 0 &&
			strcmp(pod->paid_by, id) == 0 && can_adopt(pod))
			pods[n++] = pod;
	}
	return n;
}

/*
 * Continues a job where another bridge, or an earlier run of this one,
 * stopped. If the server ended a silent attempt whose pods still run, the job
 * gets another attempt for the remaining time.
 */
static void
resume(KubeJob *job, PGresult * result, int row)
{
	const char *state = DbField(result, row, "state");
	const char *shares = DbField(result, row, "shares");
	const char *ran = DbField(result, row, "ran_s");
	const char *settled_s = DbField(result, row, "settled_s");
	bool		queued = strcmp(state, "queued") == 0;

	TextSet(&job->attempt, DbField(result, row, "attempt"));
	job->settled_s = settled_s == NULL ? 0 : strtod(settled_s, NULL);
	PlaceForget(job);
	if (strcmp(state, "active") == 0)
	{
		TextSet(&job->chosen, DbField(result, row, "gpu_type"));
		PlaceRead(job, shares == NULL ? "" : shares);
		JobBegin(job, ran == NULL ? 0 : strtod(ran, NULL) * NS_PER_S);
	}
	else if (queued && PlaceStands(job) &&
			 (job->n == job->size || job->workload != NULL))
	{
		JobFunded(job);
		TextSet(&job->chosen, DbField(result, row, "gpu_type") == NULL ?
				job->chosen : DbField(result, row, "gpu_type"));
	}
	else if (queued || strcmp(state, "unfunded") == 0)
		JobEndPods(job, "its credit ended");
	else
	{
		job->stage = KUBE_OVER;
		job->ends_pods = true;
	}
}

/*
 * Applies the database's state to a job that the bridge knows. It may have
 * been cancelled in the database, or have an attempt because an answer was
 * lost.
 */
static void
meet(KubeJob *job, PGresult * result, int row)
{
	const char *state = DbField(result, row, "state");
	bool		waits = waits_to_start(job);

	if (job->calling)
		return;
	job->for_good |= strcmp(state, "cancelled") == 0;
	if ((strcmp(state, "active") == 0 && waits) ||
		(strcmp(state, "queued") == 0 && job->stage == KUBE_RUNS))
		resume(job, result, row);
	else if (waits && strcmp(state, "queued") != 0)
		JobEndPods(job, "its job was cancelled");
	else if (job->stage == KUBE_RUNS && strcmp(state, "active") != 0)
		JobEndPods(job, "its job was ended");
}

/* Settlement and cancellation */

static bool
settle_next(void)
{
	for (int i = 0; i < JobCount(); i++)
		if (JobAt(i)->stage == KUBE_RUNS && !JobAt(i)->calling &&
			JobEnded(JobAt(i)))
		{
			settle(JobAt(i));
			return true;
		}
	return false;
}

static void
settle(KubeJob *job)
{
	char		elapsed[64];
	char		code[16];
	const char *values[] = {job->org, job->id, job->attempt,
		outcome_of(job, elapsed, sizeof(elapsed), code),
		*elapsed == '\0' ? NULL : elapsed, *code == '\0' ? NULL : code,
	job->stop_reason};

	call(job, "SELECT outcome, billed, job_state FROM gpucredit.settle($1,"
		 " $2::pg_catalog.int8, $3::pg_catalog.int4, $4,"
		 " $5::pg_catalog.interval, $6::pg_catalog.int4, $7)", 7, values,
		 settled);
}

/*
 * Determines how a job ended, and how long it ran by kubelet's clock, or by
 * the bridge's clock if kubelet reported no end.
 */
static const char *
outcome_of(KubeJob *job, char *elapsed, size_t room, char *code)
{
	bool		known = job->n > 0;
	bool		failed = job->n == 0;
	bool		late = false;
	bool		oom = false;
	const char *reason = job->stop_reason == NULL ? "" : job->stop_reason;

	*code = '\0';
	for (int i = 0; i < job->n; i++)
	{
		KubePod    *pod = job->pods[i];

		known &= pod->over && pod->started != 0 && pod->finished != 0;
		failed |= pod->failed || !pod->over;
		late |= pod->late;
		oom |= pod->oom;
		if (pod->coded && (*code == '\0' || strcmp(code, "0") == 0))
			snprintf(code, 16, "%d", pod->exit_code);
	}
	if (known)
		snprintf(elapsed, room, "%ld s", JobRuntimeSeconds(job));
	else if (job->n > 0)
		snprintf(elapsed, room, "%.3f s",
				 (double) JobRuntimeNowNs(job) / NS_PER_S);
	else
		*elapsed = '\0';
	if (job->lost)
		return "node_lost";
	if (!failed)
		return "completed";
	if (late || strcmp(reason, "wall_limit") == 0)
		return "timeout";
	if (strcmp(reason, "cancelled") == 0)
		return "cancelled";
	if (*reason != '\0' && strcmp(reason, "part_failed") != 0 &&
		strcmp(reason, "stuck") != 0)
		return "preempted";
	return oom ? "out_of_memory" : "failed";
}

/*
 * Handles the answer of settle(): the attempt is settled, now or by an earlier
 * call.
 */
static void
settled(PGresult * result, void *context)
{
	KubeJob    *job = context;
	const char *state;

	if (!answered(job, result))
	{
		if (result != NULL && !DatabasePauses(result))
			job->stage = KUBE_DROPS;
		return;
	}
	state = DbField(result, 0, "job_state");
	TextSet(&job->billed, DbField(result, 0, "billed"));
	LogLine("event=settled org=%s job=%s outcome=%s billed=%s", job->org, job->id,
			DbField(result, 0, "outcome"), job->billed);

	/*
	 * A pod runs only once: a retry by its controller creates another pod, so
	 * the database's retry of the job is cancelled.
	 */
	job->stage = state != NULL && (strcmp(state, "queued") == 0 ||
								   strcmp(state, "unfunded") == 0) ?
		KUBE_DROPS : KUBE_OVER;
}

/*
 * Cancels the next job in stage KUBE_DROPS.
 */
static bool
cancel_next(void)
{
	for (int i = 0; i < JobCount(); i++)
	{
		KubeJob    *job = JobAt(i);
		const char *values[4] = {job->org, job->id, NULL, job->refusal};
		char	   *key;

		if (job->stage != KUBE_DROPS || job->calling)
			continue;
		values[2] = key = key_with(job, "/cancel");
		call(job, "SELECT job_state FROM gpucredit.cancel($1,"
			 " $2::pg_catalog.int8, $3, $4)", 4, values, cancelled);
		free(key);
		return true;
	}
	return false;
}

static void
cancelled(PGresult * result, void *context)
{
	KubeJob    *job = context;

	if (!answered(job, result) && (result == NULL || DatabasePauses(result)))
		return;
	job->stage = KUBE_OVER;
}

/* Attempts */

static bool
place_next(void)
{
	for (int i = 0; i < JobCount(); i++)
	{
		KubeJob    *job = JobAt(i);
		TextArray	nodes = {0};
		TextArray	gpus = {0};
		const char *type = NULL;
		const char *values[7];
		char		ran[32];
		char	   *key;
		char	   *suffix;
		bool		fits;

		if (job->stage != KUBE_STARTS || job->calling || !JobReady(job) ||
			MonotonicNs() < job->again_ns)
			continue;
		fits = PlaceChoose(job, &nodes, &gpus, &type);
		if (fits)
		{
			snprintf(ran, sizeof(ran), "%ld s", JobRuntimeAtMostSeconds(job));
			suffix = Format("/placed/%s", job->attempt);
			key = key_with(job, suffix);
			free(suffix);
			values[0] = job->org;
			values[1] = job->id;
			values[2] = key;
			values[3] = TextsOf(&nodes);
			values[4] = TextsOf(&gpus);
			values[5] = type;
			values[6] = ran;
			call(job, "SELECT attempt FROM gpucredit.placed($1,"
				 " $2::pg_catalog.int8, $3, $4::pg_catalog.text[],"
				 " $5::gpucredit.gpuset[], $6, $7::pg_catalog.interval)", 7,
				 values, placed);
			free(key);
		}
		else
		{
			if (job->again_ns <= MonotonicNs())
				job->again_ns = MonotonicNs() + NS_PER_S / 10;
		}
		TextsFree(&nodes);
		TextsFree(&gpus);
		if (fits)
			return true;
	}
	return false;
}

/*
 * Handles the answer of placed(). A refusal ends the pods, unless another job
 * has the devices or an earlier call took effect; then the jobs are read from
 * the database again.
 */
static void
placed(PGresult * result, void *context)
{
	KubeJob    *job = context;

	if (!answered(job, result))
	{
		const char *detail = result == NULL ? NULL :
			PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);

		if (result == NULL || DatabasePauses(result))
			return;
		load_ns = 0;
		job->again_ns = MonotonicNs() + NS_PER_S;
		if (strcmp(DbState(result), "UC201") == 0)
			return;				/* an earlier call took effect: load() will
								 * find the attempt */
		PlaceForget(job);
		if (strcmp(DbState(result), "UC303") != 0 || detail == NULL ||
			strstr(detail, "attempt") == NULL)
			JobEndPods(job, error_of(result));
		return;
	}
	TextSet(&job->attempt, DbField(result, 0, "attempt"));
	JobBegin(job, JobRuntimeAtLeastNs(job));
}

/* Credit */

static bool
reserve_next(void)
{
	static int	turn;

	for (int i = 0; i < JobCount(); i++)
	{
		KubeJob    *job = JobAt((turn + i) % JobCount());

		if (job->stage != KUBE_ASKS || job->calling ||
			MonotonicNs() < job->again_ns)
			continue;
		turn = (turn + i) % JobCount();
		reserve(job);
		return true;
	}
	return false;
}

/*
 * Reserves the credit of a job, for its wall limit plus the time that its pods
 * may need to end, as far as the tier allows.
 */
static void
reserve(KubeJob *job)
{
	char	   *key = key_with(job, "");
	char	   *request = Format("%ldx%s", job->gpus,
								 job->type == NULL ? "*" : job->type);
	char	   *spec = spec_of(job);
	char		wall[32];
	char		end[32];
	char		window[32];
	const char *values[] = {job->org, job->account, key, request, wall,
	job->tier, kube.pool, job->window_s > 0 ? window : NULL, spec, end};

	snprintf(wall, sizeof(wall), "%ld s", job->wall_s);
	snprintf(end, sizeof(end), "%ld s", job->end_s);
	snprintf(window, sizeof(window), "%ld s", job->window_s);
	call(job, "SELECT r.job, r.status, r.reason, r.held, r.replayed,"
		 " j.state AS state_before"
		 " FROM gpucredit.reserve($1,"
		 " $2, $3, $4, LEAST($5::pg_catalog.interval"
		 "  + $10::pg_catalog.interval, GREATEST($5::pg_catalog.interval,"
		 "  (SELECT t.max_wall FROM gpucredit.tier t WHERE t.tier = $6))),"
		 " $6, $7, max_retries => 0,"
		 " hold_window => $8::pg_catalog.interval,"
		 " spec => $9::pg_catalog.jsonb) r LEFT JOIN gpucredit.job j"
		 " ON j.org = $1 AND j.job = r.job", 10, values, reserved);
	free(key);
	free(request);
	free(spec);
}

/*
 * Handles the answer of reserve(). The next key is used after a replayed
 * denial, and for a key whose pod had a different request when the key was
 * used first.
 */
static void
reserved(PGresult * result, void *context)
{
	KubeJob    *job = context;

	const char *reason;
	const char *before;

	if (!answered(job, result))
	{
		if (result != NULL && !DatabasePauses(result))
		{
			job->for_good = true;
			JobRefuse(job, error_of(result),
					  strcmp(DbState(result), "UC201") == 0);
		}
		return;
	}
	if (strcmp(DbField(result, 0, "status"), "granted") != 0)
	{
		reason = DbField(result, 0, "reason");
		job->for_good = strcmp(reason, "no_price") == 0 ||
			strcmp(reason, "impossible_request") == 0;
		JobRefuse(job, reason, strcmp(DbField(result, 0, "replayed"), "t") == 0);
		return;
	}
	before = DbField(result, 0, "state_before");
	JobName(job, DbField(result, 0, "job"));
	TextSet(&job->held, DbField(result, 0, "held"));
	TextSet(&job->attempt, "0");
	if (before == NULL || strcmp(before, "queued") == 0)
		JobFunded(job);
	else
		JobEndPods(job, "its job is over");
}

/* Metering */

/*
 * Meters in one call all attempts that are due.
 */
static bool
meter_due(void)
{
	TextArray	orgs = {0};
	TextArray	ids = {0};
	TextArray	attempts = {0};
	TextArray	elapsed = {0};
	int64_t		now = MonotonicNs();
	const char *values[4];

	for (int i = 0; i < JobCount() && ids.n < 500; i++)
	{
		KubeJob    *job = JobAt(i);
		char		ran[32];

		if (job->stage != KUBE_RUNS || job->calling ||
			(job->metered_ns != 0 &&
			 now < job->metered_ns + kube.meter_ms * NS_PER_MS))
			continue;
		snprintf(ran, sizeof(ran), "%.3f s",
				 (double) JobRuntimeMeteredNs(job) / NS_PER_S);
		TextsAdd(&orgs, job->org);
		TextsAdd(&ids, job->id);
		TextsAdd(&attempts, job->attempt);
		TextsAdd(&elapsed, ran);
		job->metered_ns = now;
	}
	values[0] = TextsOf(&orgs);
	values[1] = TextsOf(&ids);
	values[2] = TextsOf(&attempts);
	values[3] = TextsOf(&elapsed);
	if (ids.n > 0)
		DbCall("SELECT org, job, action, reason,"
			   " extract(epoch FROM time_left) AS left_s"
			   " FROM gpucredit.meter_batch($1::pg_catalog.text[],"
			   " $2::pg_catalog.int8[], $3::pg_catalog.int4[],"
			   " $4::pg_catalog.interval[])", 4, values, metered, NULL);
	TextsFree(&orgs);
	TextsFree(&attempts);
	TextsFree(&elapsed);
	TextsFree(&ids);
	return !DbIdle();
}

/*
 * Executes the directives in the answer to meter_due().
 */
static void
metered(PGresult * result, void *context)
{
	(void) context;
	if (DatabasePauses(result))
		return;
	if (*DbState(result) != '\0')
	{
		LogLine("event=meter_refused state=%s error=\"%s\"", DbState(result),
				error_of(result));
		return;
	}
	for (int i = 0; i < PQntuples(result); i++)
	{
		KubeJob    *job = JobFind(DbField(result, i, "org"),
								  DbField(result, i, "job"));
		const char *reason = DbField(result, i, "reason");
		const char *left = DbField(result, i, "left_s");

		if (job != NULL)
			JobObey(job, DbField(result, i, "action"),
					reason == NULL ? "" : reason,
					left == NULL ? 0 : strtod(left, NULL));
	}
}

/* Builds the document about the pods that the database stores with the job. */
static char *
spec_of(const KubeJob *job)
{
	json_t	   *uids = json_array();
	json_t	   *spec;
	char	   *text;
	bool		set = job->workload != NULL;

	for (int i = 0; i < job->n; i++)
		json_array_append_new(uids, json_string(job->pods[i]->uid));
	spec = json_pack("{s:{s:s,s:s,s:s,s:o,s:I}}", "kubernetes", "namespace",
					 set ? job->workload->space : job->pods[0]->space,
					 "pod", set ? job->workload->name : job->pods[0]->name,
					 "key", job->key, "pods", uids, "wall_s",
					 (json_int_t) job->wall_s);
	if (set)
		json_object_update_new(json_object_get(spec, "kubernetes"),
							   json_pack("{s:s,s:i}", "workload",
										 job->workload->uid, "size",
										 job->size));
	text = json_dumps(spec, JSON_COMPACT | JSON_SORT_KEYS);
	json_decref(spec);
	return text;
}

static char *
key_with(const KubeJob *job, const char *what)
{
	return job->tries == 0 ? Format("%s%s", job->key, what) :
		Format("%s/%lld%s", job->key, (long long) job->tries, what);
}
