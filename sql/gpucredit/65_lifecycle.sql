/*
 * 65_lifecycle.sql: what follows when an attempt ends badly.
 *
 * Checkpoints say where a job's next attempt starts.  Retry rules decide
 * whether there is one.  Sweeps end attempts and holds whose owner is silent.
 */

/*
 * The built-in rules are in a table of their own, so that a dump only has
 * those that users created.
 */
CREATE TABLE gpucredit.retry_rule_builtin (
	rule text COLLATE "C" NOT NULL,
	priority int NOT NULL,		/* the lowest is tried first */
	class text NOT NULL,
	outcome text,				/* NULL for any */
	exit_codes int4range,		/* NULL for any, including none */
	message text COLLATE "C",	/* a regular expression; NULL for any */
	advice text,
	CONSTRAINT retry_rule_builtin_pkey PRIMARY KEY (rule)
);
COMMENT ON TABLE gpucredit.retry_rule_builtin IS
'The retry rules that every installation has';
COMMENT ON COLUMN gpucredit.retry_rule_builtin.message IS 'A regular expression for the message; NULL: any message.';

INSERT INTO gpucredit.retry_rule_builtin VALUES
	('out_of_memory', 1000, 'permanent', 'out_of_memory', NULL, NULL,
		'It ran out of memory, and would again: ask for GPUs with more memory (as "A100@80GB"), for more memory_mib, or make the batch smaller.'),
	('gpu_memory', 1100, 'permanent', NULL, NULL,
		E'(?i)(cuda|hip)[^\\n]{0,40}out of memory|OutOfMemoryError|CUBLAS_STATUS_ALLOC_FAILED',
		'The GPU''s memory was too small: ask for GPUs with more of it (as "A100@80GB"), for more of them, or make the batch smaller.'),
	('host_memory', 1110, 'permanent', NULL, NULL,
		E'(?i)out of memory: kill|killed process|oom-?kill|cannot allocate memory|std::bad_alloc|\\mMemoryError\\M',
		'The host''s memory was too small: ask for more memory_mib, or fewer loader processes.'),
	('image_name', 1150, 'permanent', 'failed', NULL,
		E'(?i)^image: [^\\n]*(its name|manifest unknown|not found|name unknown|unauthorized|denied|authentication required)',
		'There is no such image, or the node may not have it: correct its name, or let the nodes read it.'),
	('image', 1160, 'transient', 'failed', NULL, '^image: ',
		'The node could not pull its image: it is tried again, within max_retries. The time that its devices waited is billed.'),
	('hardware', 1200, 'transient', NULL, NULL,
		E'(?i)\\mxid\\M(?!:? *(\\([^)]*\\):?)? *(13|31|43|45)\\M)|uncorrectable ecc|\\mecc error|double.?bit ecc|nccl[^\\n]{0,200}(time.?out|timed out)|nccl (error|failure)|ncclSystemError|ncclInternalError|cuda error|cuda_error_|nvlink|fallen off the bus|gpu is lost',
		'A GPU, its links or its node failed: it is tried again, within max_retries.'),
	('gpu_program', 1210, 'permanent', NULL, NULL,
		E'(?i)\\mxid:? *(\\([^)]*\\):?)? *(13|31|43|45)\\M',
		'The driver stopped the program for what it did on the GPU (Xid 13, 31, 43 or 45), as a wrong memory access: correct it.'),
	('silent', 1300, 'transient', NULL, NULL, '^not heard from for ',
		'Its agent fell silent: it is tried again, within max_retries. Should it have finished, look for the late report in its history.'),
	('stuck', 1310, 'transient', NULL, NULL, '^no progress for ',
		'It made no progress: it is tried again from its last checkpoint, within max_retries.'),
	('killed', 1400, 'permanent', NULL, '[137,138)', NULL,
		'It was killed (SIGKILL), most likely for using too much of the host''s memory: ask for more memory_mib.'),
	('usage', 1410, 'permanent', NULL, '[2,3)', NULL,
		'The command refused its arguments (exit code 2): correct them.'),
	('command', 1420, 'permanent', NULL, '[126,128)', NULL,
		'The command could not be run or was not found (exit code 126 or 127): correct its path or the image.'),
	('otherwise', 1000000, 'transient', NULL, NULL, NULL, NULL);

CREATE TABLE gpucredit.retry_rule_custom (
	LIKE gpucredit.retry_rule_builtin,
	CONSTRAINT retry_rule_custom_pkey PRIMARY KEY (rule),
	CONSTRAINT retry_rule_custom_class
		CHECK (class IN ('transient', 'permanent')),
	CONSTRAINT retry_rule_custom_outcome
		CHECK (outcome IN ('failed', 'out_of_memory'))
);
COMMENT ON TABLE gpucredit.retry_rule_custom IS
'Retry rules set by set_retry_rule; one with a built-in''s name replaces it';
COMMENT ON COLUMN gpucredit.retry_rule_custom.message IS 'A regular expression for the message; NULL: any message.';

CREATE VIEW gpucredit.retry_rule AS
	SELECT * FROM gpucredit.retry_rule_custom
	UNION ALL
	SELECT * FROM gpucredit.retry_rule_builtin b
	WHERE NOT EXISTS (SELECT FROM gpucredit.retry_rule_custom c
		WHERE c.rule = b.rule);
COMMENT ON VIEW gpucredit.retry_rule IS
'The retry rules in force: the first match, by priority and name, decides whether a failed attempt is retried';
COMMENT ON COLUMN gpucredit.retry_rule.message IS 'A regular expression for the message; NULL: any message.';

CREATE TABLE gpucredit.lost_work (
	tier text COLLATE "C" NOT NULL,
	outcome text COLLATE "C" NOT NULL,
	billed boolean NOT NULL,
	CONSTRAINT lost_work_pkey PRIMARY KEY (tier, outcome),
	CONSTRAINT lost_work_outcome CHECK (outcome IN ('failed',
		'out_of_memory', 'preempted', 'node_lost', 'resized'))
);
COMMENT ON TABLE gpucredit.lost_work IS
'Exceptions to bill_lost_work of a tier, by outcome';
COMMENT ON COLUMN gpucredit.lost_work.outcome IS 'The outcome that the exception is for.';
COMMENT ON COLUMN gpucredit.lost_work.billed IS 'True: lost work is billed.';

CREATE TABLE gpucredit.checkpoint (
	org text COLLATE "C" NOT NULL,
	job bigint NOT NULL,
	attempt int NOT NULL,
	step bigint NOT NULL,
	uri text NOT NULL,
	sha256 bytea NOT NULL,
	size_bytes bigint NOT NULL,
	at timestamptz NOT NULL,
	elapsed interval NOT NULL,	/* elapsed of the attempt at the checkpoint */
	bad_at timestamptz,			/* when its digest was found to be wrong */
	CONSTRAINT checkpoint_pkey PRIMARY KEY (org, job, attempt, step),
	CONSTRAINT checkpoint_sha256 CHECK (octet_length(sha256) = 32),
	CONSTRAINT checkpoint_numbers CHECK (step >= 0 AND size_bytes >= 0
		AND elapsed >= '0')
);
COMMENT ON TABLE gpucredit.checkpoint IS
'What attempts saved; a job''s next attempt starts from the last good checkpoint';
COMMENT ON COLUMN gpucredit.checkpoint.step IS 'The job''s own count of its work.';
COMMENT ON COLUMN gpucredit.checkpoint.uri IS 'Where it is saved.';
COMMENT ON COLUMN gpucredit.checkpoint.sha256 IS 'The SHA-256 digest of what is saved.';
COMMENT ON COLUMN gpucredit.checkpoint.size_bytes IS 'Its size, in bytes.';
COMMENT ON COLUMN gpucredit.checkpoint.at IS 'When it was reported.';
COMMENT ON COLUMN gpucredit.checkpoint.elapsed IS 'How long the attempt had run by then, as metered.';
COMMENT ON COLUMN gpucredit.checkpoint.bad_at IS 'When an attempt found that it does not match its digest; NULL: never.';

SELECT pg_catalog.pg_extension_config_dump('gpucredit.retry_rule_custom', '');
SELECT pg_catalog.pg_extension_config_dump('gpucredit.lost_work', '');
SELECT pg_catalog.pg_extension_config_dump('gpucredit.checkpoint', '');

CREATE TYPE gpucredit.checkpoint_loaded_result AS (good boolean, from_attempt int,
	from_step bigint, uri text, sha256 bytea, size_bytes bigint);
COMMENT ON TYPE gpucredit.checkpoint_loaded_result IS
'Whether the checkpoint that was read is good; if not, the one before it.';

CREATE FUNCTION gpucredit.set_retry_rule(rule text, class text,
	priority int DEFAULT 100, outcome text DEFAULT NULL,
	exit_codes int4range DEFAULT NULL, message text DEFAULT NULL,
	advice text DEFAULT NULL) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_set_retry_rule';
COMMENT ON FUNCTION gpucredit.set_retry_rule(text, text, int, text,
	int4range, text, text) IS
'Setup: says whether attempts that end in a certain way are retried. Of the rules that match, the one with the lowest priority applies (built-in rules have 1000 and more).
class: transient (retried within the job''s max_retries) or permanent. NULL removes the rule, or restores a built-in rule of that name. outcome: failed, out_of_memory, NULL for both. exit_codes: a range such as ''[137,137]'', NULL for any. message: a regular expression of at most 256 bytes without back references, matched against the first 4096 characters of the message; NULL for any. advice: text for the audit row and the job''s history.
A preemption or the loss of a node needs no rule, because it is no failure. Nor does SIGTERM or SIGKILL (exit codes 143, 137) of an attempt that was told to stop or to save.
Errors: 22023.';

CREATE FUNCTION gpucredit.set_lost_work(tier text, outcome text,
	billed boolean) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_set_lost_work';
COMMENT ON FUNCTION gpucredit.set_lost_work(text, text, boolean) IS
'Setup: says who pays for lost work in one tier and after one outcome. Lost work is what an attempt ran since its last checkpoint (all of it without one) when its job goes back to the queue.
outcome: failed (its agent fell silent), preempted, node_lost, resized; what the program ended is always billed. billed: true, the tenant pays; false, the settlement refunds it to the buckets it came from; NULL: the tier''s bill_lost_work decides.
Errors: UC402 unknown tier; 22023.';

CREATE FUNCTION gpucredit.checkpoint(org text, job bigint, attempt int,
	step bigint, uri text, sha256 bytea, size_bytes bigint) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_checkpoint';
COMMENT ON FUNCTION gpucredit.checkpoint(text, bigint, int, bigint, text,
	bytea, bigint) IS
'Agents: reports that an attempt has saved its state. The job''s next attempt starts from the last good checkpoint, which heartbeat passes in spec as "checkpoint".
step: 0 or more, growing within the attempt; the same step with the same values changes nothing. uri: where it is. sha256: the digest of its content, 32 bytes. size_bytes: 0 or more.
The checkpoint counts for what the attempt has metered by then, so call meter first.
Errors: UC301 no such job; UC302 no such attempt; UC303 the attempt is over; 22023 a malformed argument, or a step not above the last.';

CREATE FUNCTION gpucredit.reclaim(node text, notice interval) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_reclaim';
COMMENT ON FUNCTION gpucredit.reclaim(text, interval) IS
'Nodes: says that a node''s provider takes it back (spot). Nothing new lands there, and what runs there is told to save and leave by the deadline. Then the node is gone (view nodes); check_nodes settles what is left there as preempted, and the jobs are requeued.
notice: how long until then, 0 or more. Another call replaces it, and resume cancels it; an agent''s call never postpones it. An agent needs the key of its node, if that has one. Registering a gone node makes it a new one.
If many attempts leave at once, they save in turns (table directive: starts_at), so that together they write at most gpucredit.checkpoint_bandwidth, and each at most 1 GB/s. saved_by: when the checkpoint is promised to be done; NULL: no promise. Attempts that lose most work per second of writing go first, as long as all promises can be kept. Each call and each cycle of the pool makes this plan again, until an attempt is told that its turn has come (told_at). The planned size is that of the job''s last checkpoint, else spec''s checkpoint_bytes; without either there is no promise.
Errors: UC401 no such node; 22023.';

CREATE FUNCTION gpucredit.reclaim(nodes text[], notice interval) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_reclaim_nodes';
COMMENT ON FUNCTION gpucredit.reclaim(text[], interval) IS
'Nodes: says that providers take many nodes back at once. It does what reclaim does for each node, and plans once when all their attempts save.
nodes: names, in any order and of any pools; a repeated name counts once; an empty array changes nothing. notice: as for one node. The audit log gets one row per node.
Errors: UC401 one of the nodes does not exist, and nothing is done; 22023, also for a null element.';

CREATE FUNCTION gpucredit.checkpoint_loaded(org text, job bigint, attempt int,
	from_attempt int, from_step bigint, sha256 bytea)
RETURNS gpucredit.checkpoint_loaded_result
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_checkpoint_loaded';
COMMENT ON FUNCTION gpucredit.checkpoint_loaded(text, bigint, int, int, bigint, bytea) IS
'Agents: reports what an attempt found when it read its checkpoint, before it begins work.
from_attempt, from_step: the checkpoint, as heartbeat''s spec named it. sha256: the digest of what was read, NULL if nothing could be read. If it differs from the digest at saving, the checkpoint is bad for good, and the one before it is used.
Result: good, and the checkpoint to start from: the same one if it is good, else the last good one before it, NULL for none (start anew). A repeated call gets the same answer.
Errors: UC301 no such job; UC302 no such attempt, or no such checkpoint of an earlier one; UC303 the attempt is over; 22023.';

/*
 * Sweeps end each item in a subtransaction of its own, so that an item that
 * cannot be ended now does not stop the others. They set lock_timeout
 * themselves, longer for the search than for an item; the clause SET restores
 * the caller's value afterwards.
 */
CREATE TYPE gpucredit.sweep_result AS (task text, affected bigint);
COMMENT ON TYPE gpucredit.sweep_result IS
'What a sweep did: its tasks, and how many items each handled.';

CREATE FUNCTION gpucredit.reap_holds() RETURNS SETOF gpucredit.sweep_result
LANGUAGE c VOLATILE SECURITY DEFINER ROWS 5
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '10ms'
AS 'MODULE_PATHNAME', 'gpucredit_reap_holds';
COMMENT ON FUNCTION gpucredit.reap_holds() IS
'Upkeep: releases callers'' holds past their ttl. Settles attempts that were told to stop gpucredit.stop_grace ago and did not, as cancelled, preempted, timeout, or failed if they were stuck. Settles attempts silent for gpucredit.heartbeat_timeout at what was last metered. Silence counts from the last heartbeat, or from the start before the first one, and never from before the server came up.
A silent attempt has failed with message "not heard from for ...". Retry rules decide on its job (the built-in ones retry within max_retries). If a node of it is silent too, it is node_lost, and if it was told to leave, preempted; neither counts as a failure. Its devices stay fenced until its agents report it gone, or gpucredit.node_lost has passed. If an agent later reports completed before another attempt began, the job ends as completed and is billed for what it ran. Any other late report gets the stored settlement; what it claims beyond that is audited (decision late) and never billed.
Last it queues jobs that wait for credit where there is some, as cycles do. It waits for their rows for up to 50 ms each and 100 ms a call, because next to busy callers a cycle always finds them locked.
Holds and attempts are handled by age over all organisations, for gpucredit.upkeep_time. A lock that is not free within 10 ms leaves that one item to the next call.
Result: release_holds, settle_silent, settle_overdue, fund_jobs (queued), and skipped: how many were locked.';

CREATE FUNCTION gpucredit.check_nodes() RETURNS SETOF gpucredit.sweep_result
LANGUAGE c VOLATILE SECURITY DEFINER ROWS 2
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '10ms'
AS 'MODULE_PATHNAME', 'gpucredit_check_nodes';
COMMENT ON FUNCTION gpucredit.check_nodes() IS
'Upkeep: settles attempts whose nodes fail, at what was last metered. Attempts on nodes silent for gpucredit.node_lost, or with an unhealthy device, end as node_lost; those on reclaimed nodes that are gone end as preempted. Their jobs are requeued, and no failure is counted. Silence counts from the last heartbeat, and never from before the server came up.
Nothing depends on this call: no work is placed on a silent node, and its devices stay fenced while its agent may still work.
A call handles at most 1000 of each, by age over all organisations, for gpucredit.upkeep_time. A lock that is not free within 10 ms leaves that one item to the next call.
Result: settle_node_lost, settle_device_failed, settle_reclaimed, and skipped: how many were locked.';

/*
 * pg_cron calls the tasks of upkeep at READ COMMITTED, whatever the database's
 * default: with an older snapshot a task could neither seal nor remove what
 * was committed later.
 */

CREATE FUNCTION gpucredit_internal.cron_tasks()
RETURNS TABLE (task text, schedule text, command text)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT t.name, t.schedule,
		'SET TRANSACTION ISOLATION LEVEL READ COMMITTED;'
		' SELECT * FROM gpucredit.' || t.call
	FROM (SELECT u.name, '* * * * *', format('upkeep(%L)', u.name)
			FROM unnest('{fold_spend,raise_alerts,fold_denials,forget,forget_usage,number_events,forget_events,depart_entries,depart_audits}'::text[]) AS u (name)
		UNION ALL
		SELECT u.name, u.schedule, u.name || '()'
		FROM (VALUES ('expire_credits', '* * * * *'),
			('reap_holds', '* * * * *'), ('check_nodes', '* * * * *'),
			('seal_audit', '* * * * *'),
			('end_tenant_transactions', '* * * * *')) AS u (name, schedule))
		AS t (name, schedule, call)
	UNION ALL
	/*
	 * Each range has a transaction of its own, so that no snapshot becomes
	 * old.
	 */
	SELECT 'check_books', '43 2 * * *',
		'DO $check$ DECLARE r pg_catalog.record; BEGIN'
		' PERFORM pg_catalog.set_config(''default_transaction_isolation'','
		' ''read committed'', false); COMMIT;'
		' FOR r IN SELECT b.after, b.upto FROM gpucredit_internal.book_ranges() b LOOP'
		' PERFORM gpucredit_internal.check_book_range(r.after, r.upto);'
		' COMMIT; END LOOP;'
		' PERFORM gpucredit_internal.check_seals_of_late(); END $check$'
	UNION ALL
	SELECT 'prune_log', '17 3 * * *',
		'DELETE FROM cron.job_run_details d'
		' WHERE d.command LIKE ''%gpucredit.%'''
		' AND coalesce(d.end_time, d.start_time, (SELECT min('
		' coalesce(l.start_time, l.end_time)) FROM cron.job_run_details l WHERE l.runid > d.runid))'
		' < pg_catalog.now() - interval ''3 days''';
END;
COMMENT ON FUNCTION gpucredit_internal.cron_tasks() IS
'install_jobs: what runs when.';

/* The name of a pg_cron job, of which pg_cron keeps 63 bytes. */
CREATE FUNCTION gpucredit_internal.cron_job_of(database text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE WHEN octet_length(database) <= 36 THEN database
		ELSE md5(database) END;
END;
COMMENT ON FUNCTION gpucredit_internal.cron_job_of(text) IS
'install_jobs: the ending of the job names of a database.';

CREATE FUNCTION gpucredit_internal.cron_job_name(task text, database text)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format('gpucredit %s %s', task, gpucredit_internal.cron_job_of(database));
END;
COMMENT ON FUNCTION gpucredit_internal.cron_job_name(text, text) IS
'install_jobs: the name of a task''s job in pg_cron.';

/*
 * Raises an error if pg_cron cannot be called from this database.  The hint is
 * SQL that can be run as it is.
 */
CREATE FUNCTION gpucredit_internal.require_cron(removing boolean) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
DECLARE
	home text := pg_catalog.current_setting('cron.database_name', true);
	here text := pg_catalog.current_database();
BEGIN
	IF home IS NULL THEN
		RAISE EXCEPTION 'pg_cron is not loaded'
			USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = 'Its background worker runs the jobs.',
			HINT = format('Add pg_cron to shared_preload_libraries and set'
				' cron.database_name = ''%s'' and cron.host = ''%s'''
				' in postgresql.conf, restart, and run: CREATE EXTENSION pg_cron;',
				here, split_part(
					pg_catalog.current_setting('unix_socket_directories'), ',', 1));
	END IF;
	IF home <> here THEN
		RAISE EXCEPTION 'pg_cron lives in database "%"', home
			USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = 'Its jobs can be set up in that database only.',
			HINT = 'Run there, as a superuser: ' || format(
				'SELECT count(cron.unschedule(jobid)) FROM cron.job WHERE'
				' substring(jobname::text FROM %L) = %L;',
				'^gpucredit [^ ]+ (.*)$', gpucredit_internal.cron_job_of(here))
				|| CASE WHEN removing THEN '' ELSE (SELECT string_agg(
				format(CASE t.task
					WHEN 'prune_log' THEN ' SELECT cron.schedule(%L, %L, %L);'
					ELSE ' SELECT cron.schedule_in_database(%L, %L, %L, %L);'
					END, gpucredit_internal.cron_job_name(t.task, here), t.schedule,
					t.command, here), '') FROM gpucredit_internal.cron_tasks() t) END;
	END IF;
	IF NOT EXISTS (SELECT FROM pg_catalog.pg_extension e
		WHERE e.extname = 'pg_cron')
	THEN
		RAISE EXCEPTION 'extension "pg_cron" does not exist'
			USING ERRCODE = 'object_not_in_prerequisite_state',
			DETAIL = 'It is loaded, but not created in this database.',
			HINT = 'Run, as a superuser: CREATE EXTENSION pg_cron;';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_internal.require_cron(boolean) IS
'install_jobs: raises 55000 if there is no pg_cron, and says what to run.';

/*
 * Removes pg_cron jobs that are not wanted: those of tasks that an upgrade
 * dropped, those of a dropped or renamed database, and those that would
 * continue under another cron.host or port, in another database, or as another
 * user.
 */
CREATE FUNCTION gpucredit_internal.unschedule(keep text[]) RETURNS int
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	n int;
BEGIN
	EXECUTE 'SELECT count(cron.unschedule(j.jobid)) FROM cron.job j,'
		' substring(j.jobname::text FROM ''^gpucredit [^ ]+ (.*)$'') AS o (of)'
		' WHERE o.of = gpucredit_internal.cron_job_of($2)'
		'  AND (j.jobname <> ALL ($1) OR (j.nodename, j.nodeport, j.database,'
		'   j.username) IS DISTINCT FROM (coalesce($3, j.nodename), $4, $2,'
		'   current_user::text))'
		' OR o.of <> ALL (ARRAY(SELECT gpucredit_internal.cron_job_of(d.datname)'
		'  FROM pg_catalog.pg_database d))'
	INTO n USING keep, pg_catalog.current_database()::text,
		pg_catalog.current_setting('cron.host', true),
		pg_catalog.current_setting('port')::int;
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit_internal.unschedule(text[]) IS
'install_jobs, remove_jobs: removes this database''s jobs from pg_cron, except the named ones that are as they should be, and jobs of dropped databases. Returns how many.';

CREATE FUNCTION gpucredit_internal.audit_jobs(operation text, decision text, n int)
RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT gpucredit_internal.write_audit(audit_jobs.operation,
		audit_jobs.decision, '', NULL, NULL, NULL,
		jsonb_build_object('jobs', audit_jobs.n));
END;
COMMENT ON FUNCTION gpucredit_internal.audit_jobs(text, text, int) IS
'install_jobs, remove_jobs: writes the audit row.';

CREATE FUNCTION gpucredit.install_jobs() RETURNS int
LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	t record;
	names text[];
BEGIN
	PERFORM gpucredit_internal.require_cron(false);
	IF pg_catalog.current_setting('cron.use_background_workers', true)::boolean THEN
		RAISE WARNING 'one slow job will hold up all other jobs of pg_cron'
			USING DETAIL = 'With cron.use_background_workers on, pg_cron waits for a job that it has started before it looks at any other.',
			HINT = format('Set cron.use_background_workers = off and cron.host = ''%s'' in postgresql.conf, restart, and call install_jobs again.',
				split_part(pg_catalog.current_setting('unix_socket_directories'), ',', 1));
	END IF;
	names := ARRAY(SELECT gpucredit_internal.cron_job_name(c.task,
			pg_catalog.current_database()) FROM gpucredit_internal.cron_tasks() c);
	PERFORM gpucredit_internal.unschedule(names);
	FOR t IN SELECT gpucredit_internal.cron_job_name(c.task,
			pg_catalog.current_database()) AS name, c.schedule, c.command
		FROM gpucredit_internal.cron_tasks() c
	LOOP
		EXECUTE 'SELECT cron.alter_job(cron.schedule($1, $2, $3),'
			' active => true)'
			USING t.name, t.schedule, t.command;
	END LOOP;
	PERFORM gpucredit_internal.audit_jobs('install_jobs', 'installed',
		cardinality(names));
	RETURN cardinality(names);
END
$$;
COMMENT ON FUNCTION gpucredit.install_jobs() IS
'Upkeep: schedules the upkeep with pg_cron, as the owner of the extension. Each minute, a job each: the tasks of upkeep(), and reap_holds, check_nodes, expire_credits, seal_audit and end_tenant_transactions. Once a day: check_books, and the deletion of their run logs older than 3 days. Another call restores changed jobs; call it after cron.host, the port or a database''s name changed. Call remove_jobs before DROP EXTENSION gpucredit. Warns if cron.use_background_workers is on, as one slow job then holds up all others.
Result: the number of jobs; view gpucredit.cron_status shows their runs.
Errors: 55000 pg_cron is not loaded, not created, or in another database; the hint is the SQL to run there.';

CREATE FUNCTION gpucredit.remove_jobs() RETURNS int
LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	n int;
BEGIN
	PERFORM gpucredit_internal.require_cron(true);
	n := gpucredit_internal.unschedule('{}');
	PERFORM gpucredit_internal.audit_jobs('remove_jobs', 'removed', n);
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit.remove_jobs() IS
'Upkeep: removes the jobs of install_jobs from pg_cron.
Result: how many there were. Errors: 55000 as install_jobs.';

CREATE TYPE gpucredit.cron_status_result AS (job text, schedule text,
	active boolean, last_status text, last_message text,
	last_started_at timestamptz, last_ended_at timestamptz,
	failures bigint);
COMMENT ON TYPE gpucredit.cron_status_result IS
'A pg_cron job of the extension, and its last run.';

CREATE FUNCTION gpucredit_internal.cron_jobs()
RETURNS SETOF gpucredit.cron_status_result
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL UNSAFE ROWS 10
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM pg_catalog.pg_extension e
		WHERE e.extname = 'pg_cron')
	THEN
		RETURN;
	END IF;
	RETURN QUERY EXECUTE
		'SELECT j.jobname::text, j.schedule, j.active, r.status,'
		' r.return_message, r.start_time, r.end_time, coalesce(f.n, 0)'
		' FROM cron.job j'
		' LEFT JOIN (SELECT DISTINCT ON (d.jobid) d.*'
		'  FROM cron.job_run_details d ORDER BY d.jobid, d.runid DESC) r'
		'  ON r.jobid = j.jobid'
		' LEFT JOIN (SELECT d.jobid, count(*) AS n'
		'  FROM cron.job_run_details d WHERE d.status = ''failed'''
		'  GROUP BY d.jobid) f ON f.jobid = j.jobid'
		' WHERE j.jobname LIKE ''gpucredit %'' ORDER BY j.jobname';
END
$$;
COMMENT ON FUNCTION gpucredit_internal.cron_jobs() IS
'cron_status: the jobs in pg_cron; none without pg_cron.';

CREATE VIEW gpucredit.cron_status AS
	SELECT * FROM gpucredit_internal.cron_jobs();
COMMENT ON VIEW gpucredit.cron_status IS
'The pg_cron jobs of install_jobs, each with its last run and its logged failures. In the database of pg_cron also those of other databases';
COMMENT ON COLUMN gpucredit.cron_status.job IS 'Its name in pg_cron.';
COMMENT ON COLUMN gpucredit.cron_status.schedule IS 'When it runs, in pg_cron''s form.';
COMMENT ON COLUMN gpucredit.cron_status.active IS 'True: pg_cron runs it.';
COMMENT ON COLUMN gpucredit.cron_status.last_status IS 'The status of its last run; NULL: it has not run.';
COMMENT ON COLUMN gpucredit.cron_status.last_message IS 'The message of its last run; NULL: it has not run.';
COMMENT ON COLUMN gpucredit.cron_status.last_started_at IS 'When its last run began; NULL: it has not run.';
COMMENT ON COLUMN gpucredit.cron_status.last_ended_at IS 'When its last run ended; NULL: it has not.';
COMMENT ON COLUMN gpucredit.cron_status.failures IS 'How many of the logged runs failed.';
