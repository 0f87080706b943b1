/*
 * 88_metrics.sql: metrics for a monitoring system.
 *
 * Counters come from shared memory, which exists only if the library was
 * loaded at the server's start.  Gauges are read from the tables.  Names,
 * types and units follow Prometheus.  The view metrics has one row per sample,
 * and metrics_text() returns the same in the text format of Prometheus.
 * Members of pg_monitor may read all of it, so no tenant is named, except
 * accounts whose balance is low.
 */
CREATE TYPE gpucredit.counters_result AS (name text, operation text,
	kind text, value text, count double precision);
COMMENT ON TYPE gpucredit.counters_result IS
'One counter in shared memory, for the metrics.';

CREATE FUNCTION gpucredit_internal.counters()
RETURNS SETOF gpucredit.counters_result
LANGUAGE c VOLATILE ROWS 500
AS 'MODULE_PATHNAME', 'gpucredit_counters';
COMMENT ON FUNCTION gpucredit_internal.counters() IS
'metrics: the counters of this database in shared memory: operation, one more label, kind and value.';

/*
 * Each family of metrics: its name without the prefix, its type, and its
 * meaning.
 */
CREATE FUNCTION gpucredit_internal.metric_families()
RETURNS TABLE (family text, type text, help text)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 30
BEGIN ATOMIC
	VALUES
		('calls_total', 'counter', 'Calls that ended, by operation.'),
		('replays_total', 'counter', 'Calls that returned a stored result.'),
		('lock_waits_total', 'counter', 'Calls that waited for a lock.'),
		('denials_total', 'counter', 'What was denied, by operation and reason.'),
		('spent_credits_total', 'counter', 'Credits that calls spent, by operation; of those that were rolled back, too.'),
		('refunded_credits_total', 'counter', 'Spent credits that calls refunded, by operation; of those that were rolled back, too.'),
		('uncollected_credits_total', 'counter', 'Credits that runs cost and nobody paid, by operation and reason: no_credit.'),
		('errors_total', 'counter', 'Calls that failed, by operation and SQLSTATE.'),
		('internal_errors_total', 'counter', 'Calls that failed by the machine or by stored data (SQLSTATE 53..., 58..., XX...).'),
		('call_seconds', 'histogram', 'How long calls took.'),
		('scheduler_up', 'gauge', 'Whether the background worker of this database runs.'),
		('scheduler_cycles_total', 'counter', 'Scheduling cycles of the background worker.'),
		('scheduler_started_total', 'counter', 'Jobs the background worker started.'),
		('scheduler_failures_total', 'counter', 'Cycles and sweeps of the background worker that failed.'),
		('scheduler_interval_seconds', 'gauge', 'How long the background worker waits at most between two cycles (gpucredit.scheduler_interval).'),
		('scheduler_lag_seconds', 'gauge', 'Time since the background worker''s last cycle, of the pool that waits longest for one.'),
		('rate_levels_forgotten_total', 'counter', 'Counts of rate limits forgotten for want of room.'),
		('notifications_dropped_total', 'counter', 'Notifications that were not sent: the NOTIFY queue was full, or held by another commit.'),
		('notify_queue_ratio', 'gauge', 'Which share of the NOTIFY queue, one for all databases of the server, is used.'),
		('preloaded', 'gauge', 'Whether there are counters: the library was loaded at start.'),
		('jobs_open', 'gauge', 'Jobs that are not over, by pool, tier and state.'),
		('queue_oldest_seconds', 'gauge', 'How long the oldest job that may start has waited.'),
		('devices_registered', 'gauge', 'Devices of registered nodes, by pool and type.'),
		('devices_healthy', 'gauge', 'Devices their agents call healthy, on nodes that nobody takes away.'),
		('devices_usable', 'gauge', 'Devices that are healthy on nodes that get new work, or taken although they are not: devices_allocated is a part of them.'),
		('devices_allocated', 'gauge', 'Devices given to attempts; a share counts as such.'),
		('devices_fenced', 'gauge', 'Devices of attempts that are over and not seen gone.'),
		('device_out_of_service', 'gauge', 'A device that its agent does not call healthy, and why; 1 each.'),
		('nodes_registered', 'gauge', 'Nodes, by pool and state.'),
		('uncontained_nodes', 'gauge', 'Nodes whose agents cannot hold jobs together or limit their memory, for want of a cgroup.'),
		('holds_open', 'gauge', 'Open holds, of jobs and of callers.'),
		('holds_credits', 'gauge', 'Credits in open holds.'),
		('holds_dead', 'gauge', 'Holds past their ttl and not released.'),
		('low_balances', 'gauge', 'Accounts below the balance they wish to be told of.'),
		('low_balance_credits', 'gauge', 'What is available to the lowest of them.'),
		('seal_unsealed', 'gauge', 'Entries and audit rows not sealed yet.'),
		('seal_stalled_seconds', 'gauge', 'How long sealing has waited for an old transaction.'),
		('upkeep_lag_seconds', 'gauge', 'How old the oldest thing is that a task of upkeep should have done.'),
		('cron_job_age_seconds', 'gauge', 'Time since a pg_cron job last ended; of one that is due each minute and never has, since the server started.'),
		('cron_job_ok', 'gauge', 'Whether a pg_cron job succeeded the last time.');
END;
COMMENT ON FUNCTION gpucredit_internal.metric_families() IS
'metrics: the families, with their types and meaning.';

CREATE FUNCTION gpucredit_internal.queue_gauges(at timestamptz)
RETURNS TABLE (name text, labels jsonb, value double precision)
LANGUAGE sql STABLE PARALLEL SAFE ROWS 20
SET enable_seqscan = off
BEGIN ATOMIC
	/*
	 * Each state has a partial index.  A condition on two states at once would
	 * match none, and all jobs that ever ran would be read.  Of the active
	 * jobs, only the entries of their index are read, and those whose attempt
	 * is not known to run yet are in an index of their own, which is small.
	 * Statistics that are older than the jobs that are over say that most jobs
	 * are active, so sequential scans are off.
	 */
	WITH active AS (
		SELECT j.pool, j.tier, count(*) AS n
		FROM gpucredit.job j
		WHERE j.state = 'active'
		GROUP BY j.pool, j.tier),
	starting AS (
		SELECT a.pool, a.tier, count(*) AS n
		FROM gpucredit.attempt a
		WHERE a.ended_at IS NULL AND a.running_at IS NULL
		GROUP BY a.pool, a.tier),
	j AS (
		SELECT j.pool, j.tier, 'queued' AS state, count(*) AS n,
			min(coalesce(j.waits_from, j.submitted_at)) FILTER (
				WHERE coalesce(j.not_before <= queue_gauges.at, true)) AS oldest
		FROM gpucredit.job j
		WHERE j.state = 'queued'
		GROUP BY j.pool, j.tier
		UNION ALL
		SELECT j.pool, j.tier, 'unfunded', count(*), NULL
		FROM gpucredit.job j
		WHERE j.state = 'unfunded'
		GROUP BY j.pool, j.tier
		UNION ALL
		SELECT r.pool, r.tier, r.state, r.n, NULL
		FROM (SELECT s.pool, s.tier, 'starting' AS state, s.n FROM starting s
			UNION ALL
			SELECT a.pool, a.tier, 'running', a.n - coalesce(s.n, 0)
			FROM active a
				LEFT JOIN starting s ON s.pool = a.pool AND s.tier = a.tier) r
		WHERE r.n > 0)
	SELECT 'jobs_open', jsonb_build_object('pool', j.pool, 'tier', j.tier,
		'state', j.state), j.n
	FROM j
	UNION ALL
	SELECT 'queue_oldest_seconds', jsonb_build_object('pool', j.pool,
		'tier', j.tier), greatest(0, extract(epoch FROM
			queue_gauges.at - j.oldest))
	FROM j WHERE j.state = 'queued';
END;
COMMENT ON FUNCTION gpucredit_internal.queue_gauges(timestamptz) IS
'metrics: jobs and how long they wait.';

CREATE FUNCTION gpucredit_internal.cluster_gauges(at timestamptz)
RETURNS TABLE (name text, labels jsonb, value double precision)
LANGUAGE sql STABLE PARALLEL SAFE ROWS 20
BEGIN ATOMIC
	WITH suspect AS (
		SELECT pg_catalog.current_setting('gpucredit.node_suspect')::interval
			AS after),
	n AS (
		SELECT n.node, n.pool, n.gpu_type, n.gpus,
			n.about ->> 'containment' AS containment,
			n.healthy AS works, n.about -> 'out_of_service' AS reasons,
			CASE WHEN n.draining IS NULL AND n.reclaim_at IS NULL
				THEN n.healthy ELSE '{}' END AS healthy,
			CASE WHEN n.reclaim_at <= cluster_gauges.at THEN 'gone'
				WHEN n.reclaim_at IS NOT NULL THEN 'reclaimed'
				WHEN n.draining IS NOT NULL THEN 'draining'
				WHEN s.after > interval '0' AND n.heard_at <= cluster_gauges.at
					- s.after THEN 'suspect'
				ELSE 'up' END AS state
		FROM gpucredit.node n, suspect s),
	g AS (
		SELECT g.node,
			sum(gpucredit.gpu_count(g.gpus) * g.share) FILTER (
				WHERE g.ended_at IS NULL) / 1000.0 AS allocated,
			sum(gpucredit.gpu_count(g.gpus)) FILTER (
				WHERE g.ended_at IS NOT NULL) AS fenced,
			gpucredit.union_agg(g.gpus) AS taken
		FROM gpucredit.allocated_devices g GROUP BY g.node)
	SELECT d.name, jsonb_build_object('pool', t.pool, 'gpu_type', t.gpu_type),
		d.value
	FROM (SELECT n.pool, n.gpu_type, sum(n.gpus) AS gpus,
			sum(gpucredit.gpu_count(n.healthy)) AS healthy,
			sum(gpucredit.gpu_count(
				CASE n.state WHEN 'up' THEN n.healthy ELSE '{}' END
				OPERATOR(gpucredit.|) coalesce(g.taken, '{}'))) AS usable,
			coalesce(sum(g.allocated), 0) AS allocated,
			coalesce(sum(g.fenced), 0) AS fenced
		FROM n LEFT JOIN g ON g.node = n.node
		GROUP BY n.pool, n.gpu_type) t
		CROSS JOIN LATERAL (VALUES ('devices_registered', t.gpus::double precision),
			('devices_healthy', t.healthy),
			('devices_usable', t.usable),
			('devices_allocated', t.allocated),
			('devices_fenced', t.fenced)) AS d (name, value)
	UNION ALL
	SELECT 'nodes_registered', jsonb_build_object('pool', n.pool, 'state', n.state),
		count(*)
	FROM n GROUP BY n.pool, n.state
	UNION ALL
	SELECT 'uncontained_nodes', jsonb_build_object('pool', n.pool),
		count(*) FILTER (WHERE n.containment <> 'cgroup')
	FROM n GROUP BY n.pool
	UNION ALL
	SELECT 'device_out_of_service', jsonb_build_object('pool', n.pool,
		'node', n.node, 'device', i.i::text,
		'reason', coalesce(n.reasons ->> i.i::text, '')), 1
	FROM n CROSS JOIN LATERAL generate_series(0, n.gpus - 1) AS i (i)
	WHERE gpucredit.gpu_count(n.works) < n.gpus
		AND NOT n.works OPERATOR(gpucredit.@>) i.i;
END;
COMMENT ON FUNCTION gpucredit_internal.cluster_gauges(timestamptz) IS
'metrics: nodes and devices.';

CREATE FUNCTION gpucredit_internal.money_gauges(at timestamptz)
RETURNS TABLE (name text, labels jsonb, value double precision)
LANGUAGE sql STABLE PARALLEL SAFE ROWS 20
BEGIN ATOMIC
	WITH h AS (			/* one pass, without sorting tens of thousands of holds */
		SELECT k.*
		FROM (SELECT count(*) FILTER (WHERE h.job IS NOT NULL) AS jobs,
				gpucredit_internal.sum_numeric(h.held) FILTER (WHERE h.job IS NOT NULL) AS of_jobs,
				count(*) FILTER (WHERE h.job IS NULL) AS callers,
				gpucredit_internal.sum_numeric(h.held) FILTER (WHERE h.job IS NULL) AS of_callers,
				count(*) FILTER (WHERE h.job IS NULL
					AND h.expires_at <= money_gauges.at) AS dead
			FROM gpucredit.hold h WHERE h.closed_at IS NULL) s
			CROSS JOIN LATERAL (VALUES ('job', s.jobs, s.of_jobs, 0),
				('caller', s.callers, s.of_callers, s.dead)) k (kind, n, held, dead)
		WHERE k.n > 0),
	/*
	 * The balance of an account is that of its path.  Accounts share the
	 * buckets of those above them, so buckets are added up once for each
	 * account on any of the paths.
	 */
	wish AS MATERIALIZED (
		SELECT a.org, p.account AS above, a.account, a.balance_low
		FROM gpucredit.account a
			CROSS JOIN LATERAL unnest(gpucredit_internal.account_path(a.account))
				AS p (account)
		WHERE a.balance_low IS NOT NULL),
	dead AS MATERIALIZED (
		SELECT p.org, p.bucket, sum(p.held)::numeric AS held
		FROM gpucredit.hold h
			JOIN gpucredit.hold_part p ON p.org = h.org AND p.hold = h.hold
		WHERE h.job IS NULL AND h.closed_at IS NULL
			AND h.expires_at <= money_gauges.at
			AND EXISTS (SELECT FROM wish)
		GROUP BY p.org, p.bucket),
	owned AS (
		SELECT b.org, b.account,
			sum(b.available::numeric + coalesce(d.held, 0)) AS available
		FROM (SELECT DISTINCT w.org, w.above FROM wish w) w
			JOIN gpucredit.bucket_whole b ON b.org = w.org
				AND b.account = w.above
			LEFT JOIN dead d ON d.org = b.org AND d.bucket = b.bucket
		WHERE b.closed_at IS NULL AND b.effective_at <= money_gauges.at
			AND coalesce(b.expires_at > money_gauges.at, true)
		GROUP BY b.org, b.account),
	low AS MATERIALIZED (
		SELECT w.org, w.account, coalesce(sum(o.available), 0.000000) AS available
		FROM wish w
			LEFT JOIN owned o ON o.org = w.org AND o.account = w.above
		GROUP BY w.org, w.account, w.balance_low
		HAVING coalesce(sum(o.available), 0) < w.balance_low::numeric)
	SELECT 'holds_open', jsonb_build_object('kind', h.kind), h.n FROM h
	UNION ALL
	SELECT 'holds_credits', jsonb_build_object('kind', h.kind), h.held FROM h
	UNION ALL
	SELECT 'holds_dead', jsonb_build_object('kind', h.kind), h.dead FROM h
	UNION ALL
	SELECT 'low_balances', '{}', count(*) FROM low
	UNION ALL
	(SELECT 'low_balance_credits', jsonb_build_object('org', l.org,
		'account', l.account), l.available
	FROM low l ORDER BY l.available, l.org, l.account LIMIT 20);
END;
COMMENT ON FUNCTION gpucredit_internal.money_gauges(timestamptz) IS
'metrics: holds and low balances.';

/*
 * The gauges show the last finished run, so its age grows while a run hangs.
 * A run that could not connect counts as failed and has no times.  If a task
 * that is due each minute has never run, pg_cron may not be running.  The
 * label is not called "job", because scrapers set a label of that name.
 */
CREATE FUNCTION gpucredit_internal.cron_gauges()
RETURNS TABLE (name text, labels jsonb, value double precision)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE ROWS 20
AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM pg_catalog.pg_extension e
		WHERE e.extname = 'pg_cron')
	THEN
		RETURN;
	END IF;
	RETURN QUERY EXECUTE
		'SELECT g.name, jsonb_build_object(''cron_job'', j.jobname), g.value'
		' FROM cron.job j'
		' LEFT JOIN (SELECT DISTINCT ON (d.jobid) d.jobid, d.status,'
		'   max(d.end_time) OVER (PARTITION BY d.jobid) AS ended_at'
		'  FROM cron.job_run_details d'
		'  WHERE d.status IN (''succeeded'', ''failed'')'
		'  ORDER BY d.jobid, d.runid DESC) r ON r.jobid = j.jobid'
		' CROSS JOIN LATERAL (VALUES (''cron_job_age_seconds'','
		'   extract(epoch FROM clock_timestamp() - coalesce(r.ended_at,'
		'    CASE j.schedule WHEN ''* * * * *'''
		'    THEN pg_postmaster_start_time() END))::float8),'
		'  (''cron_job_ok'', (r.status = ''succeeded'')::int)) g (name, value)'
		' WHERE j.jobname LIKE ''gpucredit %'' AND g.value IS NOT NULL';
END
$$;
COMMENT ON FUNCTION gpucredit_internal.cron_gauges() IS
'metrics: upkeep by pg_cron; none without pg_cron.';

CREATE TYPE gpucredit.metrics_result AS (family text, name text, type text,
	labels jsonb, value double precision, help text);
COMMENT ON TYPE gpucredit.metrics_result IS
'One sample of the metrics, with its family.';

/* Computes only the families that are asked for; NULL means all. */
CREATE FUNCTION gpucredit.metric_samples(families text[] DEFAULT NULL)
RETURNS SETOF gpucredit.metrics_result
LANGUAGE sql VOLATILE SECURITY DEFINER PARALLEL UNSAFE ROWS 500
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	WITH asked AS MATERIALIZED (
		SELECT f.* FROM gpucredit_internal.metric_families() f
		WHERE metric_samples.families IS NULL
			OR f.family = ANY (metric_samples.families)),
	c AS MATERIALIZED (SELECT * FROM gpucredit_internal.counters()),
	clock AS MATERIALIZED (SELECT gpucredit.now() AS at),
	s AS (
		SELECT c.name, jsonb_strip_nulls(jsonb_build_object('operation',
			c.operation, coalesce(c.kind, 'kind'), c.value)) AS labels,
			c.count AS value
		FROM c
		UNION ALL
		SELECT 'preloaded', '{}', (EXISTS (SELECT FROM c))::int
		UNION ALL
		SELECT 'notify_queue_ratio', '{}', pg_notification_queue_usage()
		WHERE (metric_samples.families IS NULL
			OR metric_samples.families && '{notify_queue_ratio}')
		UNION ALL
		SELECT 'internal_errors_total', '{}', coalesce(sum(c.count) FILTER (
			WHERE c.kind = 'sqlstate' AND c.value ~ '^(53|58|XX)'), 0)
		FROM c HAVING count(*) > 0
		UNION ALL
		SELECT g.* FROM clock, LATERAL gpucredit_internal.queue_gauges(clock.at) g
		WHERE (metric_samples.families IS NULL
			OR metric_samples.families && '{jobs_open,queue_oldest_seconds}')
		UNION ALL
		SELECT g.* FROM clock, LATERAL gpucredit_internal.cluster_gauges(clock.at) g
		WHERE (metric_samples.families IS NULL
			OR metric_samples.families && '{devices_registered,devices_healthy,devices_usable,devices_allocated,devices_fenced,device_out_of_service,nodes_registered,uncontained_nodes}')
		UNION ALL
		SELECT g.* FROM clock, LATERAL gpucredit_internal.money_gauges(clock.at) g
		WHERE (metric_samples.families IS NULL
			OR metric_samples.families && '{holds_open,holds_credits,holds_dead,low_balances,low_balance_credits}')
		UNION ALL
		SELECT v.name, v.labels, v.value
		FROM clock, gpucredit.seal_status t CROSS JOIN LATERAL (VALUES
			('seal_unsealed', '{"kind": "entry"}'::jsonb,
				t.entries_unsealed::double precision),
			('seal_unsealed', '{"kind": "audit"}', t.audits_unsealed),
			('seal_stalled_seconds', '{}', coalesce(greatest(0, extract(
				epoch FROM clock.at - t.waiting_since)), 0)))
			AS v (name, labels, value)
		WHERE (metric_samples.families IS NULL
			OR metric_samples.families && '{seal_unsealed,seal_stalled_seconds}')
		UNION ALL
		SELECT 'upkeep_lag_seconds', jsonb_build_object('task', l.task),
			coalesce(extract(epoch FROM l.lag), 0)
		FROM clock, LATERAL gpucredit_internal.upkeep_lags(clock.at) l
		WHERE (metric_samples.families IS NULL
			OR metric_samples.families && '{upkeep_lag_seconds}')
		UNION ALL
		SELECT g.* FROM gpucredit_internal.cron_gauges() g
		WHERE (metric_samples.families IS NULL
			OR metric_samples.families && '{cron_job_age_seconds,cron_job_ok}'))
	SELECT 'gpucredit_' || f.family, 'gpucredit_' || s.name, f.type, s.labels,
		s.value, f.help
	FROM s JOIN asked f
		ON f.family = s.name OR (f.type = 'histogram'
			AND s.name IN (f.family || '_bucket', f.family || '_sum',
				f.family || '_count'));
END;
COMMENT ON FUNCTION gpucredit.metric_samples(text[]) IS
'Metrics: the rows of the view metrics, of some families (without the prefix), or of all (NULL).';

CREATE VIEW gpucredit.metrics AS
	SELECT * FROM gpucredit.metric_samples();
COMMENT ON VIEW gpucredit.metrics IS
'Metrics for a monitoring system, one row per sample, with Prometheus'' names, types and units. Counters need the library in shared_preload_libraries, and start from 0 with the server';
COMMENT ON COLUMN gpucredit.metrics.family IS 'The metric.';
COMMENT ON COLUMN gpucredit.metrics.name IS 'The name of the sample.';
COMMENT ON COLUMN gpucredit.metrics.type IS 'Its type in Prometheus.';
COMMENT ON COLUMN gpucredit.metrics.labels IS 'The labels of the sample.';
COMMENT ON COLUMN gpucredit.metrics.value IS 'The sample''s value, in the unit that ends its name.';
COMMENT ON COLUMN gpucredit.metrics.help IS 'What the metric is.';

/* In the text format, backslash, quote and newline are escaped. */
CREATE FUNCTION gpucredit_internal.metric_labels(labels jsonb) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE WHEN count(*) = 0 THEN '' ELSE '{' || string_agg(l.key || '="'
			|| replace(replace(replace(l.value, E'\\', E'\\\\'), '"', E'\\"'),
				E'\n', E'\\n') || '"', ',' ORDER BY l.key = 'le', l.key)
		|| '}' END
	FROM jsonb_each_text(labels) AS l (key, value);
END;
COMMENT ON FUNCTION gpucredit_internal.metric_labels(jsonb) IS
'metrics_text: labels in the text format.';

CREATE FUNCTION gpucredit.metrics_text() RETURNS text
LANGUAGE sql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT string_agg(f.text, '' ORDER BY f.family COLLATE "C")
	FROM (SELECT m.family, format(E'# HELP %s %s\n# TYPE %s %s\n', m.family,
			m.help, m.family, m.type) || string_agg(m.name
				|| gpucredit_internal.metric_labels(m.labels) || ' ' || m.value
				|| E'\n', '' ORDER BY m.labels ->> 'operation' COLLATE "C",
				m.name COLLATE "C", (m.labels ->> 'le')::float8,
				m.labels::text COLLATE "C") AS text
		FROM gpucredit.metric_samples() m
		GROUP BY m.family, m.help, m.type) f;
END;
COMMENT ON FUNCTION gpucredit.metrics_text() IS
'Metrics: the view metrics in Prometheus'' text format, to be served to a scraper.';
