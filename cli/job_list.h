/*-------------------------------------------------------------------------
 *
 * job_list.h
 *		Parses lists of jobs as Slurm writes them, and provides SQL for their
 *		rows.
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CLI_JOB_LIST_H
#define GPUCREDIT_CLI_JOB_LIST_H

extern char *JobListParse(const char *text);

/* filter_values.c */
extern const char *StateListCheck(const char *text);
extern const char *NodeStateListCheck(const char *text);
extern const char *NodeListCheck(const char *text);

/*
 * SQL that numbers jobs as Slurm does: 12, or 12_3 for a task of the array
 * whose first job is 12. A query selects its jobs with
 * SLURM_FOUND(conditions), which determines the first job of each of their
 * arrays once, however many tasks are listed. It then reads the jobs as "j"
 * from SLURM_NUMBERED.
 */
#define SLURM_FOUND(conditions) \
	"WITH found AS MATERIALIZED (SELECT j.*, s.long, s.short" \
	"  FROM gpucredit.jobs j CROSS JOIN LATERAL (SELECT w.long, w.short" \
	"   FROM" SLURM_STATES " WHERE w.state = j.state) s WHERE " conditions "), " \
	"arrays AS MATERIALIZED (SELECT a.account, a.array_key, (SELECT k.job" \
	"   FROM gpucredit.jobs k WHERE k.org = $1 AND k.account = a.account" \
	"   AND k.array_key = a.array_key ORDER BY k.job LIMIT 1) AS first" \
	"  FROM (SELECT DISTINCT f.account, f.array_key FROM found f" \
	"   WHERE f.task IS NOT NULL AND f.array_key IS NOT NULL) a) "
#define SLURM_NUMBERED \
	" (SELECT f.*, coalesce(a.first, f.job) AS array_job FROM found f" \
	"  LEFT JOIN arrays a ON a.account = f.account AND f.task IS NOT NULL" \
	"   AND a.array_key = f.array_key) j"
#define SLURM_JOB_ID \
	"concat_ws('_', j.array_job, CASE WHEN j.array_key IS NOT NULL THEN" \
	" j.task END)"

/*
 * SQL of filters: whether job "j" belongs to an account or one below it, and
 * whether it belongs to one of several users, who are the last part of an
 * account's path. If the parameter is NULL, all jobs match.
 */
#define SLURM_OF_ACCOUNT(parameter) \
	"(" parameter "::text IS NULL OR " parameter " = ''" \
	" OR j.account = " parameter \
	" OR starts_with(j.account, " parameter " || '/'))"
#define SLURM_OF_USERS(parameter) \
	"(" parameter "::text IS NULL OR regexp_replace(j.account, '^.*/', '')" \
	" = ANY (string_to_array(" parameter ", ',')))"

/*
 * SQL that joins to the jobs "j" of SLURM_FOUND the rows "q" of queue() for
 * those that wait, with their positions in the order of expected starts.
 * queue() plans a cycle for each pool. It truncates names of organisations to
 * 23 characters.
 */
#define SLURM_JOIN_QUEUE \
	" LEFT JOIN (SELECT p.pool, u.org, u.job, u.waits, u.reason," \
	"   u.expected_at, u.place FROM (SELECT DISTINCT f.pool FROM found f) p" \
	"  CROSS JOIN LATERAL gpucredit.queue(p.pool, 1000) WITH ORDINALITY" \
	"   AS u (org, account, job, tier, request, waits, reason, expected_at," \
	"    place)) q ON q.pool = j.pool AND q.job = j.job" \
	"  AND left(q.org, 23) = left(j.org, 23)"

/*
 * Slurm's words for states and outcomes: the state, the long and the short
 * word.
 */
#define SLURM_STATES \
	" (VALUES ('queued', 'PENDING', 'PD'), ('unfunded', 'PENDING', 'PD')," \
	" ('starting', 'CONFIGURING', 'CF'), ('running', 'RUNNING', 'R')," \
	" ('stopping', 'COMPLETING', 'CG'), ('completed', 'COMPLETED', 'CD')," \
	" ('failed', 'FAILED', 'F'), ('timeout', 'TIMEOUT', 'TO')," \
	" ('cancelled', 'CANCELLED', 'CA')) AS w (state, long, short)"

/* Why a job "j" of view jobs waits, as one of Slurm's reasons. */
#define SLURM_REASON \
	"CASE WHEN j.state NOT IN ('queued', 'unfunded') THEN 'None'" \
	" WHEN j.held_by = 'owner' THEN 'JobHeldUser'" \
	" WHEN j.held_by IS NOT NULL THEN 'JobHeldAdmin'" \
	" WHEN j.state = 'unfunded' THEN 'AssocGrpBillingMinutes'" \
	" WHEN j.not_before > gpucredit.now() THEN 'BeginTime'" \
	" WHEN j.after IS NOT NULL THEN 'Dependency'" \
	" ELSE 'Resources' END"

/* The nodes of a job "j" of view jobs. */
#define SLURM_NODES \
	"coalesce(replace(regexp_replace(j.nodes, '\\{[^}]*\\}', '', 'g'), ' ', ',')," \
	" '')"

/* An instant as Slurm prints it, or another text if it is null. */
#define SLURM_INSTANT(instant, otherwise) \
	"coalesce(to_char(" instant ", 'YYYY-MM-DD\"T\"HH24:MI:SS')," \
	" '" otherwise "')"

/* An interval as Slurm prints it: 02:03:04, or 1-02:03:04 with days. */
#define SLURM_LENGTH(length) \
	"(coalesce(nullif(extract(day FROM justify_hours(" length "))::int, 0)" \
	" || '-', '') || to_char(justify_hours(" length "), 'HH24:MI:SS'))"

/* What Slurm prints for a missing value. */
#define SLURM_NOTHING "('(' || 'null)')"

#endif							/* GPUCREDIT_CLI_JOB_LIST_H */
