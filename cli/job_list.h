/*-------------------------------------------------------------------------
 *
 * job_list.h
 *		Lists of jobs as Slurm writes them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef GPUCREDIT_CLI_JOB_LIST_H
#define GPUCREDIT_CLI_JOB_LIST_H

extern char *JobListParse(const char *text);

/*
 * The SQL of a job "j" of view jobs as Slurm numbers it: 12, or 12_3 for a task
 * of the array whose first job is 12.
 */
#define SLURM_JOB_ID \
	"CASE WHEN j.array_key IS NULL OR j.task IS NULL THEN j.job::text" \
	" ELSE (SELECT k.job FROM gpucredit.jobs k WHERE k.org = j.org" \
	"  AND k.account = j.account AND k.array_key = j.array_key" \
	"  ORDER BY k.job LIMIT 1)::text" \
	"  || '_' || j.task END"

/* Slurm's words for states and endings: state, long, short */
#define SLURM_STATES \
	" (VALUES ('queued', 'PENDING', 'PD'), ('unfunded', 'PENDING', 'PD')," \
	" ('starting', 'CONFIGURING', 'CF'), ('running', 'RUNNING', 'R')," \
	" ('stopping', 'COMPLETING', 'CG'), ('completed', 'COMPLETED', 'CD')," \
	" ('failed', 'FAILED', 'F'), ('timeout', 'TIMEOUT', 'TO')," \
	" ('cancelled', 'CANCELLED', 'CA')) AS w (state, long, short)"

/* why a job "j" of view jobs waits, as Slurm says it */
#define SLURM_REASON \
	"CASE WHEN j.state NOT IN ('queued', 'unfunded') THEN 'None'" \
	" WHEN j.held_by = 'owner' THEN 'JobHeldUser'" \
	" WHEN j.held_by IS NOT NULL THEN 'JobHeldAdmin'" \
	" WHEN j.state = 'unfunded' THEN 'AssocGrpBillingMinutes'" \
	" WHEN j.not_before > gpucredit.now() THEN 'BeginTime'" \
	" WHEN j.after IS NOT NULL THEN 'Dependency'" \
	" ELSE 'Resources' END"

/* the nodes of a job "j" of view jobs */
#define SLURM_NODES \
	"coalesce(replace(regexp_replace(j.nodes, '\\{[^}]*\\}', '', 'g'), ' ', ',')," \
	" '')"

/* what Slurm prints where there is nothing */
#define SLURM_NOTHING "('(' || 'null)')"

#endif							/* GPUCREDIT_CLI_JOB_LIST_H */
