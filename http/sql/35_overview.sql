/*
 * 35_overview.sql: lists for people who have no SQL access: the functions that
 * a role may call, organisations, limits, devices and upkeep.
 *
 * They run with the caller's rights, except quotas(), because tenants may not
 * read that table.
 */
CREATE FUNCTION gpucredit_http.functions()
RETURNS TABLE (function text)
LANGUAGE sql STABLE ROWS 100
BEGIN ATOMIC
	SELECT DISTINCT c.short FROM gpucredit_http.callable c
	WHERE has_function_privilege(c.function, 'EXECUTE')
		AND gpucredit_http.includes(gpucredit_http.scope(), gpucredit_http.scope_of(c.function))
	ORDER BY 1;
END;
COMMENT ON FUNCTION gpucredit_http.functions() IS
'Lists: the functions that the caller''s role may call within the scope of its token, by the names that addresses have.';

CREATE FUNCTION gpucredit_http.organisations(search text DEFAULT '', "limit" integer DEFAULT 100)
RETURNS TABLE (org text, created_at timestamptz, suspended boolean, available numeric,
	spendable numeric, held numeric, spent numeric, next_expiry_at timestamptz,
	next_expiry_amount numeric)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT a.org, a.created_at, a.suspended, b.available, b.spendable, b.held, b.spent,
		b.next_expiry_at, b.next_expiry_amount
	FROM (SELECT o.org, o.created_at, o.suspended FROM gpucredit.accounts o
			WHERE o.account = '' AND strpos(lower(o.org), lower(organisations.search)) > 0
			ORDER BY o.org LIMIT least(organisations."limit", 1001)) a
		CROSS JOIN LATERAL gpucredit.balance(a.org) b
	ORDER BY a.org;
END;
COMMENT ON FUNCTION gpucredit_http.organisations(text, integer) IS
'Lists: organisations whose name contains a text, by name, with their credit. Result: at most so many rows; amounts as balance() has them.';

CREATE TYPE gpucredit_http.quota AS (
	account text,
	gpu_type text,
	max_gpus integer,
	gpus numeric,
	max_running integer,
	running bigint,
	max_queued integer,
	queued bigint,
	max_nonpreemptible_gpus integer,
	nonpreemptible_gpus numeric,
	max_cpu_milli bigint,
	cpu_milli bigint,
	max_memory_mib bigint,
	memory_mib bigint
);
REVOKE ALL ON TYPE gpucredit_http.quota FROM PUBLIC;
COMMENT ON TYPE gpucredit_http.quota IS
'What quotas() answers: the limits of an account and what is in use of them';

/*
 * A caller that may read an account's budgets may also read its quotas. A share
 * of a device counts as it is billed, which is the part that it keeps from
 * others.
 */
CREATE FUNCTION gpucredit_http.quotas(org text, account text DEFAULT '')
RETURNS SETOF gpucredit_http.quota
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM FROM gpucredit.budgets(quotas.org, quotas.account);
	RETURN QUERY
		SELECT q.account, nullif(q.gpu_type, ''), q.max_gpus, round(u.gpus, 3), q.max_running,
			u.running, q.max_queued,
			(SELECT count(*) FROM gpucredit.jobs j
			WHERE j.org = q.org AND j.ended_at IS NULL
				AND j.state IN ('queued', 'unfunded')
				AND gpucredit_http.is_below(j.account, q.account)),
			q.max_nonpreemptible_gpus, round(u.staying, 3), q.max_cpu_milli, u.cpu_milli,
			q.max_memory_mib, u.memory_mib
		FROM gpucredit.quota q
			CROSS JOIN LATERAL (
				SELECT coalesce(sum(a.gpus * a.billed_share / 1000.000), 0.000) AS gpus,
					coalesce(sum(a.gpus * a.billed_share / 1000.000) FILTER (
						WHERE j.preemptible <> 'capacity'), 0.000) AS staying,
					count(*) AS running,
					coalesce(sum(j.cpu_milli), 0)::bigint AS cpu_milli,
					coalesce(sum(j.memory_mib), 0)::bigint AS memory_mib
				FROM gpucredit.job j
					JOIN gpucredit.attempt a ON a.org = j.org AND a.job = j.job
						AND a.attempt = j.attempt
				WHERE j.org = q.org AND j.state = 'active'
					AND gpucredit_http.is_below(j.account, q.account)
					AND (q.gpu_type = '' OR a.gpu_type = q.gpu_type)) u
		WHERE q.org = quotas.org
			AND (gpucredit_http.is_below(quotas.account, q.account)
				OR gpucredit_http.is_below(q.account, quotas.account))
			AND gpucredit_internal.may_read(q.org, q.account)
		ORDER BY q.account, q.gpu_type;
END
$$;
COMMENT ON FUNCTION gpucredit_http.quotas(text, text) IS
'Lists: the quotas on an account''s path and below it that the caller may see, by account. Result: what each limits, NULL for no limit, and what is in use of it now: devices, jobs that have started, jobs that wait, devices of jobs that nobody evicts for others, cpu in thousandths of a core, main memory in MiB. Errors: UC001 no such account; 42501.';

CREATE FUNCTION gpucredit_http.devices(pool text DEFAULT NULL)
RETURNS TABLE (node text, gpu integer, healthy boolean, org text, account text, job bigint,
	attempt integer, share integer, started_at timestamptz, ends_at timestamptz, fenced boolean)
LANGUAGE sql STABLE
BEGIN ATOMIC
	WITH device AS (
		SELECT n.node, d.gpu, n.healthy
		FROM gpucredit.nodes n, generate_series(0, n.gpus - 1) AS d (gpu)
		WHERE devices.pool IS NULL OR n.pool = devices.pool),
	used AS (
		SELECT g.node, unnest(gpucredit.gpuset_to_array(g.gpus)) AS gpu, g.org, g.account, g.job,
			g.attempt, g.share, g.started_at, g.expected_end, g.ended_at IS NOT NULL AS fenced
		FROM gpucredit.attempt_gpu g
		WHERE NOT g.free AND (devices.pool IS NULL OR g.pool = devices.pool))
	SELECT d.node, d.gpu, d.gpu = ANY (gpucredit.gpuset_to_array(d.healthy)), u.org, u.account,
		u.job, u.attempt, u.share, u.started_at, u.expected_end, u.fenced
	FROM device d LEFT JOIN used u ON u.node = d.node AND u.gpu = d.gpu
	ORDER BY d.node, d.gpu, u.job;
END;
COMMENT ON FUNCTION gpucredit_http.devices(text) IS
'Lists: the devices of a pool''s nodes, or of all, by node and number. Result: whether each works, and who has it: a row for each attempt that shares it, org NULL for nobody; share in thousandths; when its end is expected; fenced: the attempt is over, and the node has not yet said that nothing of it runs.';

CREATE FUNCTION gpucredit_http.capacity(pool text DEFAULT NULL) RETURNS SETOF gpucredit.capacity
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT c.* FROM gpucredit.capacity c WHERE capacity.pool IS NULL OR c.pool = capacity.pool
	ORDER BY c.pool, c.gpu_type, c.spot;
END;
COMMENT ON FUNCTION gpucredit_http.capacity(text) IS
'Lists: devices in service, allocated and free, by pool and type. Result: rows of gpucredit.capacity.';

CREATE FUNCTION gpucredit_http.pools() RETURNS TABLE (pool text)
LANGUAGE sql STABLE ROWS 10
BEGIN ATOMIC
	SELECT p.pool FROM gpucredit.pool p ORDER BY p.pool;
END;
COMMENT ON FUNCTION gpucredit_http.pools() IS
'Lists: the names of the pools.';

CREATE FUNCTION gpucredit_http.upkeep() RETURNS SETOF gpucredit.upkeep_lag
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT u.* FROM gpucredit.upkeep_lag u ORDER BY u.task;
END;
COMMENT ON FUNCTION gpucredit_http.upkeep() IS
'Lists: how late each task of upkeep is. Result: rows of gpucredit.upkeep_lag.';

CREATE FUNCTION gpucredit_http.seals(after bigint DEFAULT NULL, "limit" integer DEFAULT 100)
RETURNS SETOF gpucredit.seals
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT s.* FROM gpucredit.seals s
	WHERE seals.after IS NULL OR s.batch < seals.after
	ORDER BY s.batch DESC
	LIMIT least(greatest(coalesce(seals."limit", 100), 1), 10000);
END;
COMMENT ON FUNCTION gpucredit_http.seals(bigint, integer) IS
'Lists: the chain of seals, newest first. after: the last batch of the page before. Result: rows of gpucredit.seals.';

CREATE FUNCTION gpucredit_http.seal_status() RETURNS SETOF gpucredit.seal_status
LANGUAGE sql STABLE ROWS 1
BEGIN ATOMIC
	SELECT s.* FROM gpucredit.seal_status s;
END;
COMMENT ON FUNCTION gpucredit_http.seal_status() IS
'Lists: how far sealing has come, and what it waits for. Result: the row of gpucredit.seal_status.';

CREATE FUNCTION gpucredit_http.all_alerts(after bigint DEFAULT NULL, "limit" integer DEFAULT 100)
RETURNS SETOF gpucredit.alert
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT a.* FROM gpucredit.alert a
	WHERE all_alerts.after IS NULL OR a.alert < all_alerts.after
	ORDER BY a.alert DESC LIMIT least(all_alerts."limit", 1001);
END;
COMMENT ON FUNCTION gpucredit_http.all_alerts(bigint, integer) IS
'Lists: alerts of all organisations that the caller sees, newest first. "after" is the last alert of the page before. Result: rows of gpucredit.alert.';

CREATE FUNCTION gpucredit_http.expiring(within interval DEFAULT '30 days')
RETURNS TABLE (org text, account text, bucket bigint, kind text, expires_at timestamptz,
	available numeric, held numeric)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT b.org, b.account, b.bucket, b.kind, b.expires_at, b.available::numeric,
		b.held::numeric
	FROM gpucredit.bucket_whole b
	WHERE b.expires_at > gpucredit.now() AND b.expires_at <= gpucredit.now() + expiring.within
		AND b.closed_at IS NULL AND b.available::numeric + b.held::numeric > 0
	ORDER BY b.expires_at, b.org, b.bucket;
END;
COMMENT ON FUNCTION gpucredit_http.expiring(interval) IS
'Lists: credit of all organisations that expires soon, the soonest first. Result: a row each bucket.';

CREATE FUNCTION gpucredit_http.debts()
RETURNS TABLE (org text, account text, owed numeric, since timestamptz)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT u.org, u.account, u.owed::numeric, u.since FROM gpucredit.uncollected u
	WHERE u.owed::numeric > 0
	ORDER BY u.owed::numeric DESC, u.org, u.account;
END;
COMMENT ON FUNCTION gpucredit_http.debts() IS
'Lists: use that no credit covered and that is neither paid nor written off, by account, the largest first. Result: credits.';

/*
 * Returns the last row of each step. Rows with the same time are in the order
 * in which they were written.
 */
CREATE FUNCTION gpucredit_http.balance_over(org text, account text DEFAULT '',
	since timestamptz DEFAULT NULL, step interval DEFAULT '6 hours')
RETURNS TABLE (at timestamptz, available numeric)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT y.at, y.available
	FROM (SELECT s.at, s.available, row_number() OVER (
				PARTITION BY date_bin(balance_over.step, s.at, 'epoch') ORDER BY s.n DESC) AS back
		FROM gpucredit.statement(balance_over.org, balance_over.account,
				coalesce(balance_over.since, gpucredit.now() - interval '14 days'),
				gpucredit.now() + interval '1 s')
			WITH ORDINALITY AS s (at, entry, bucket, kind, account, operation, source, target,
				amount, hold, job, attempt, available, n)) y
	WHERE y.back = 1
	ORDER BY y.at;
END;
COMMENT ON FUNCTION gpucredit_http.balance_over(text, text, timestamptz, interval) IS
'Lists: what an account had available over time, since an instant (NULL: 14 days ago): the last change of each step. Result: instants, oldest first, and credits. Errors: as statement().';

CREATE FUNCTION gpucredit_http.submission(org text, job bigint, OUT account text,
	OUT request text, OUT wall_limit interval, OUT tier text, OUT pool text, OUT topology text,
	OUT preemptible text, OUT max_retries integer, OUT cpu_milli bigint, OUT memory_mib bigint,
	OUT hold_window interval, OUT spec jsonb, OUT options jsonb)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	SELECT j.account, j.request::text, j.wall_limit, j.tier, j.pool, j.topology, j.preemptible,
		j.max_retries, j.cpu_milli, j.memory_mib, j.hold_window, j.spec, j.options
	INTO account, request, wall_limit, tier, pool, topology, preemptible, max_retries,
		cpu_milli, memory_mib, hold_window, spec, options
	FROM gpucredit.job j WHERE j.org = submission.org AND j.job = submission.job;
	IF NOT FOUND THEN
		PERFORM gpucredit_http.raise('UC301', format('job %s does not exist', submission.job),
			'It is not there, or the caller may not see it.',
			'Check the number and the organisation.');
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_http.submission(text, bigint) IS
'Lists: what a job was submitted with, as reserve() takes it. Errors: UC301 no such job.';
