/*
 * 87_capacity.sql: is the pool too small, too large, or of the wrong kind?
 *
 * Everything here only reads.  It derives the past from the attempts and jobs,
 * so that no collector has to run. Past supply is that of the nodes registered
 * now: removed nodes are not counted.
 *
 * Shares count as parts of a device.  A stranded device is free, but its node
 * has no cpu or memory left for it.  With F free devices on a node of G, F -
 * min(F, floor(cpu left x G / cpu), the same for memory) are stranded.
 */

/* The view has one row per node. */
CREATE VIEW gpucredit.node_capacity AS
	SELECT n.pool, n.node, n.gpu_type, n.spot, s.state, n.gpus AS devices,
		CASE WHEN s.state IN ('ready', 'suspect') OR s.takes_work
			THEN gpucredit.gpu_count(n.healthy) ELSE 0 END AS in_service,
		t.allocated::numeric(20,3),
		CASE WHEN s.takes_work THEN f.free ELSE 0 END AS free,
		CASE WHEN s.takes_work THEN f.free - LEAST(f.free,
			CASE WHEN n.cpu_milli > 0 THEN
				GREATEST(n.cpu_milli - t.cpu, 0) * n.gpus / n.cpu_milli END,
			CASE WHEN n.memory_mib > 0 THEN
				GREATEST(n.memory_mib - t.memory, 0) * n.gpus / n.memory_mib
			END) ELSE 0 END AS stranded
	FROM gpucredit.node n
		JOIN gpucredit.nodes s ON s.node = n.node
		CROSS JOIN LATERAL (
			SELECT coalesce(sum(gpucredit.gpu_count(g.gpus) * g.share), 0)
					/ 1000.0 AS allocated,
				coalesce(sum(g.cpu_milli), 0)::bigint AS cpu,
				coalesce(sum(g.memory_mib), 0)::bigint AS memory,
				coalesce(gpucredit.union_agg(g.gpus), '{}') AS gpus
			FROM gpucredit.allocated_devices g
			WHERE g.pool = n.pool AND g.node = n.node) t
		CROSS JOIN LATERAL (SELECT gpucredit.gpu_count(
			n.healthy OPERATOR(gpucredit.-) t.gpus)::bigint AS free) f
	WHERE n.gpus > 0;
COMMENT ON VIEW gpucredit.node_capacity IS
'Devices of each node: in service, allocated, free, and stranded';
COMMENT ON COLUMN gpucredit.node_capacity.gpu_type IS 'The type of its devices.';
COMMENT ON COLUMN gpucredit.node_capacity.state IS 'The node''s state, as in view nodes.';
COMMENT ON COLUMN gpucredit.node_capacity.devices IS 'All devices.';
COMMENT ON COLUMN gpucredit.node_capacity.in_service IS 'Healthy devices on nodes that neither drain nor are gone.';
COMMENT ON COLUMN gpucredit.node_capacity.allocated IS 'Devices of jobs, and fenced devices; shares count as parts.';
COMMENT ON COLUMN gpucredit.node_capacity.free IS 'Whole free devices on nodes that take work.';
COMMENT ON COLUMN gpucredit.node_capacity.stranded IS 'Free devices for which no cpu or memory is left.';

CREATE VIEW gpucredit.capacity AS
	SELECT c.pool, c.gpu_type, c.spot, c.nodes, c.devices, c.in_service,
		c.allocated::numeric(20,3) AS allocated, c.free, c.stranded,
		c.allocated_percent, r.reported_percent
	FROM (SELECT c.pool, c.gpu_type, c.spot, count(*) AS nodes,
				sum(c.devices) AS devices, sum(c.in_service) AS in_service,
				sum(c.allocated) AS allocated, sum(c.free)::bigint AS free,
				sum(c.stranded)::bigint AS stranded,
				round(100 * sum(c.allocated)
					/ NULLIF(sum(GREATEST(c.in_service, c.allocated)), 0), 1)
					AS allocated_percent
			FROM gpucredit.node_capacity c
			GROUP BY c.pool, c.gpu_type, c.spot) c
		LEFT JOIN (SELECT n.pool, n.gpu_type, n.spot,
				round((100 * sum(a.utilization * d.devices)
					/ NULLIF(sum(d.devices), 0))::numeric, 1)
					AS reported_percent
			FROM gpucredit.node n
				CROSS JOIN LATERAL (SELECT g.org, g.job, g.attempt,
						gpucredit.gpu_count(g.gpus) * g.share AS devices
					FROM gpucredit.attempt_gpu g
					WHERE g.pool = n.pool AND g.node = n.node AND NOT g.free
					OFFSET 0) d
				CROSS JOIN LATERAL (SELECT a.utilization
					FROM gpucredit.attempt a
					WHERE a.org = d.org AND a.job = d.job
						AND a.attempt = d.attempt AND a.ended_at IS NULL
						AND a.utilization IS NOT NULL
					OFFSET 0) a
			GROUP BY n.pool, n.gpu_type, n.spot) r
			ON r.pool = c.pool AND r.gpu_type = c.gpu_type AND r.spot = c.spot;
COMMENT ON VIEW gpucredit.capacity IS
'Devices of each pool by type, on demand and spot: in service, allocated, free and stranded, with percentages';
COMMENT ON COLUMN gpucredit.capacity.spot IS 'True: of spot nodes.';
COMMENT ON COLUMN gpucredit.capacity.nodes IS 'How many nodes there are.';
COMMENT ON COLUMN gpucredit.capacity.devices IS 'All devices.';
COMMENT ON COLUMN gpucredit.capacity.in_service IS 'Healthy devices on nodes that neither drain nor are gone.';
COMMENT ON COLUMN gpucredit.capacity.allocated IS 'Devices of jobs, and fenced devices; shares count as parts.';
COMMENT ON COLUMN gpucredit.capacity.free IS 'Whole free devices on nodes that take work.';
COMMENT ON COLUMN gpucredit.capacity.stranded IS 'Free devices for which no cpu or memory is left.';
COMMENT ON COLUMN gpucredit.capacity.allocated_percent IS 'Allocated devices as a percentage of devices that are in service or allocated.';
COMMENT ON COLUMN gpucredit.capacity.reported_percent IS 'How busy allocated devices are, in percent, as agents report; NULL: none does.';

/*
 * The view has one row for each time span in which a job waited for devices.
 */
CREATE VIEW gpucredit.job_wait AS
	SELECT j.org, j.job, j.pool, j.tier, j.offer_types[1] AS gpu_type,
		(gpucredit.gpureq_min_gpus(j.request)
			* gpucredit.gpureq_share(j.request)) / 1000.0 AS devices,
		w.since, coalesce(n.started_at, j.ended_at) AS until
	FROM gpucredit.job j
		CROSS JOIN LATERAL (
			SELECT 0 AS attempt, j.submitted_at AS since
			UNION ALL
			SELECT a.attempt, a.ended_at FROM gpucredit.attempt a
			WHERE a.org = j.org AND a.job = j.job AND a.ended_at IS NOT NULL) w
		LEFT JOIN gpucredit.attempt n ON n.org = j.org AND n.job = j.job
			AND n.attempt = w.attempt + 1
	WHERE n.started_at >= w.since OR (n.started_at IS NULL
		AND coalesce(j.ended_at, 'infinity') > w.since);

COMMENT ON VIEW gpucredit.job_wait IS
'Each time span in which a job waited for devices: from its submission or the end of an attempt until the next start or the job''s end. A job that started at once has an empty span; until NULL: it still waits';
COMMENT ON COLUMN gpucredit.job_wait.gpu_type IS 'The type that it prefers; NULL: it asks for no devices.';
COMMENT ON COLUMN gpucredit.job_wait.devices IS 'The fewest devices that it accepts; shares count as parts.';
COMMENT ON COLUMN gpucredit.job_wait.since IS 'When it began to wait.';
COMMENT ON COLUMN gpucredit.job_wait.until IS 'When the next attempt started or the job ended; NULL: it still waits.';

CREATE VIEW gpucredit.queue_depth AS
	SELECT w.pool, w.tier, w.gpu_type, count(*) AS jobs,
		sum(w.devices)::numeric(20,3) AS devices,
		max(c.at - w.since) AS longest_wait,
		percentile_disc(0.5) WITHIN GROUP (ORDER BY c.at - w.since)
			AS median_wait
	FROM (SELECT gpucredit.now() AS at) c
		CROSS JOIN gpucredit.job j
		JOIN gpucredit.job_wait w ON w.org = j.org AND w.job = j.job
	WHERE j.state = 'queued' AND w.until IS NULL
	GROUP BY w.pool, w.tier, w.gpu_type;
COMMENT ON VIEW gpucredit.queue_depth IS
'Waiting jobs by tier and preferred GPU type: how many, how many devices they need, and how long they have waited';
COMMENT ON COLUMN gpucredit.queue_depth.gpu_type IS 'The type that they prefer; NULL: they ask for no devices.';
COMMENT ON COLUMN gpucredit.queue_depth.jobs IS 'How many wait.';
COMMENT ON COLUMN gpucredit.queue_depth.devices IS 'The fewest devices that they accept; shares count as parts.';
COMMENT ON COLUMN gpucredit.queue_depth.longest_wait IS 'The longest time that one of them has waited.';
COMMENT ON COLUMN gpucredit.queue_depth.median_wait IS 'The median of their waiting times.';

/*
 * Raises an error for arguments that the reports below cannot use.  length is
 * the step of a report.  target is the band of utilisation, or NULL for a
 * report without one.
 */
CREATE FUNCTION gpucredit_internal.require_report(pool text, length interval,
	target numeric[]) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
SET jit = off
AS $require$
BEGIN
	PERFORM gpucredit_internal.require_sense('pool', pool, true, NULL,
		'Pass a pool''s name.');
	IF pool <> 'default' AND NOT EXISTS
		(SELECT FROM gpucredit.pool p WHERE p.pool = require_report.pool)
	THEN
		RAISE EXCEPTION 'pool "%" does not exist',
			gpucredit_internal.clip_for_message(pool) USING
			ERRCODE = 'UC401',
			DETAIL = 'No pool of that name was created.',
			HINT = 'Create it with gpucredit.create_pool().';
	END IF;
	IF length IS NULL OR length <= '0'
		OR extract(year FROM length) <> 0 OR extract(month FROM length) <> 0
	THEN
		RAISE EXCEPTION 'a report on pool "%" cannot have the length "%"',
			gpucredit_internal.clip_for_message(pool), coalesce(length::text, 'null')
			USING ERRCODE = 'invalid_parameter_value',
			DETAIL = 'It must be more than 0, and months have no length.',
			HINT = 'Pass days, hours or less.';
	END IF;
	IF NOT coalesce(cardinality(target) = 2 AND target[1] >= 0.001
		AND target[1] <= target[2] AND target[2] <= 1000, target IS NULL)
	THEN
		RAISE EXCEPTION '"target" is out of range' USING
			ERRCODE = 'invalid_parameter_value',
			DETAIL = 'It needs a lower and an upper end, from 0.001 to 1000.',
			HINT = 'Pass them as ''{0.7,0.9}''.';
	END IF;
	RETURN true;
END
$require$;
COMMENT ON FUNCTION gpucredit_internal.require_report(text, interval, numeric[]) IS
'Internal: raises UC401 or 22023 for arguments that allow no report.';

CREATE FUNCTION gpucredit_internal.require_slots(since timestamptz,
	until timestamptz, step interval) RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
SET jit = off
AS $require$
BEGIN
	IF NOT (isfinite(since) AND isfinite(until)) OR (step > '0'
		AND extract(epoch FROM until) - extract(epoch FROM since)
			> extract(epoch FROM step) * 100000)
	THEN
		RAISE EXCEPTION '"step" is too short' USING
			ERRCODE = 'invalid_parameter_value',
			DETAIL = 'A report has at most 100000 steps.',
			HINT = 'Pass a longer step, or a shorter time from "since" to "until".';
	END IF;
	RETURN true;
END
$require$;
COMMENT ON FUNCTION gpucredit_internal.require_slots(timestamptz, timestamptz,
	interval) IS
'Internal: raises 22023 for a time span with too many steps.';

CREATE FUNCTION gpucredit_internal.demand_parts(pool text, since timestamptz,
	until timestamptz)
RETURNS TABLE (gpu_type text, kind text, devices numeric, since timestamptz,
	until timestamptz)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT n.gpu_type, 's', n.gpus::numeric, n.registered_at, NULL::timestamptz
	FROM gpucredit.node n
	WHERE n.pool = demand_parts.pool AND n.gpus > 0
	UNION ALL
	SELECT a.gpu_type, 'a', a.gpus * a.billed_share / 1000.0, a.started_at, a.ended_at
	FROM gpucredit.attempt a
	WHERE a.pool = demand_parts.pool AND a.gpu_type IS NOT NULL
		AND a.started_at < demand_parts.until
		AND (a.ended_at IS NULL OR a.ended_at > demand_parts.since)
	UNION ALL
	SELECT w.gpu_type, 'w', w.devices, w.since, w.until
	FROM gpucredit.job_wait w
	WHERE w.pool = demand_parts.pool AND w.gpu_type IS NOT NULL
		AND w.since < demand_parts.until
		AND (w.until IS NULL OR w.until >= demand_parts.since);
END;
COMMENT ON FUNCTION gpucredit_internal.demand_parts(text, timestamptz, timestamptz) IS
'Internal: devices of a pool that were there (s), in use (a) or waited for (w) in a time span, and from when until when (NULL: still).';

CREATE TYPE gpucredit.demand_result AS (since timestamptz, gpu_type text,
	supply numeric, allocated numeric, waiting numeric, demand numeric,
	starts bigint, mean_wait interval);
COMMENT ON TYPE gpucredit.demand_result IS
'Devices available, used and wanted in one time span.';

CREATE FUNCTION gpucredit.demand(pool text DEFAULT 'default',
	since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL,
	step interval DEFAULT '1 hour')
RETURNS SETOF gpucredit.demand_result
LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER ROWS 200
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	/* These are separate statements, which no plan can leave out. */
	SELECT gpucredit_internal.require_report(demand.pool, demand.step, NULL);
	SELECT gpucredit_internal.require_slots(coalesce(demand.since,
			coalesce(demand.until, c.at) - interval '24 hours'),
		coalesce(demand.until, c.at), demand.step)
	FROM (SELECT gpucredit.now() AS at) c;
	WITH p AS (
		SELECT coalesce(demand.until, c.at) AS until, c.at,
			coalesce(demand.since, coalesce(demand.until, c.at)
				- interval '24 hours') AS since,
			/* A day counts as 24 hours, whatever the session's time zone. */
			make_interval(secs => extract(epoch FROM demand.step)
				::double precision) AS step
		FROM (SELECT gpucredit.now() AS at) c),
	whole AS (	/* a step must not end after the last possible instant */
		SELECT s.since, s.since + p.step AS until
		FROM p, generate_series(p.since, CASE WHEN extract(epoch FROM p.until)
				- extract(epoch FROM p.since) >= extract(epoch FROM p.step)
			THEN p.until - p.step END, p.step) AS s (since)),
	slot AS (
		SELECT w.since, w.until FROM whole w
		UNION ALL
		SELECT r.since, p.until
		FROM p CROSS JOIN LATERAL (SELECT coalesce(max(w.until), p.since)
			AS since FROM whole w) r
		WHERE r.since < p.until),
	part AS (
		SELECT d.* FROM p, LATERAL gpucredit_internal.demand_parts(demand.pool,
			p.since, p.until) d),
	cut AS (
		SELECT s.since, t.gpu_type, t.kind, t.devices, t.since AS from_at,
			t.until AS to_at, s.until AS slot_until,
			extract(epoch FROM LEAST(coalesce(t.until, p.at), s.until, p.at)
				- GREATEST(t.since, s.since))
				/ extract(epoch FROM LEAST(s.until, p.at) - s.since) AS part
		FROM slot s, part t, p
		WHERE t.since < LEAST(s.until, p.at)
			AND coalesce(t.until, p.at) >= s.since AND s.since < p.at)
	SELECT c.since, c.gpu_type,
		round(coalesce(sum(c.devices * c.part) FILTER (WHERE c.kind = 's'), 0),
			3),
		round(coalesce(sum(c.devices * c.part) FILTER (WHERE c.kind = 'a'), 0),
			3),
		round(coalesce(sum(c.devices * c.part) FILTER (WHERE c.kind = 'w'), 0),
			3),
		round(coalesce(sum(c.devices * c.part) FILTER (WHERE c.kind <> 's'), 0),
			3),
		count(*) FILTER (WHERE c.kind = 'a' AND c.from_at >= c.since),
		avg(c.to_at - c.from_at) FILTER (WHERE c.kind = 'w'
			AND c.to_at >= c.since AND c.to_at < c.slot_until)
	FROM cut c
	GROUP BY c.since, c.gpu_type
	ORDER BY c.since, c.gpu_type;
END;
COMMENT ON FUNCTION gpucredit.demand(text, timestamptz, timestamptz,
	interval) IS
'Reports: what a pool had, and what was wanted of it, over time, from its attempts and jobs.
since, until: NULL for the last 24 hours. step: the time span of a row.
Result, by time and GPU type, in devices on average: supply, allocated, waiting (by the preferred type), demand (allocated and waiting). Then how many attempts started, and how long jobs whose wait ended then had waited on average (0 for one that started at once). Only nodes that are registered now count, from their registration.
Errors: UC401 no such pool; 22023 a step that is not above 0.';

/*
 * The work that was submitted for a type, as rows of CapacityWork
 * (src/decide/capacity).
 */
CREATE FUNCTION gpucredit_internal.capacity_works(pool text, since timestamptz,
	until timestamptz)
RETURNS TABLE (gpu_type text, org text, account text, devices numeric,
	arrived timestamptz, started timestamptz, ended timestamptz,
	wall_limit interval)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	/*
	 * An attempt began to wait when the one before it ended, or at the job's
	 * submission, or later if the job waited for other jobs or its begin.
	 */
	SELECT a.gpu_type, a.org, a.account, a.gpus * a.billed_share / 1000.0,
		GREATEST(coalesce(b.ended_at, j.submitted_at), CASE
			WHEN j.attempt = a.attempt THEN a.started_at - j.waited END),
		a.started_at, a.ended_at, a.wall_limit
	FROM gpucredit.attempt a
		JOIN gpucredit.job j ON j.org = a.org AND j.job = a.job
		LEFT JOIN gpucredit.attempt b ON b.org = a.org AND b.job = a.job
			AND b.attempt = a.attempt - 1
	WHERE a.pool = capacity_works.pool AND a.gpu_type IS NOT NULL
		AND a.started_at >= capacity_works.since
		AND a.started_at <= capacity_works.until
	UNION ALL
	/* Jobs that ended while they waited. */
	SELECT j.offer_types[1], j.org, j.account,
		gpucredit.gpureq_min_gpus(j.request)
			* gpucredit.gpureq_share(j.request) / 1000.0,
		coalesce(b.ended_at, j.submitted_at), NULL, j.ended_at, j.wall_limit
	FROM gpucredit.job j
		LEFT JOIN gpucredit.attempt b ON b.org = j.org AND b.job = j.job
			AND b.attempt = j.attempt
	WHERE j.pool = capacity_works.pool AND j.offer_types[1] IS NOT NULL
		AND j.ended_at > coalesce(b.ended_at, j.submitted_at)
		AND j.ended_at >= capacity_works.since
		AND j.ended_at <= capacity_works.until
	UNION ALL
	/* Jobs that wait for devices, and either hold credit or need none. */
	SELECT j.offer_types[1], j.org, j.account,
		gpucredit.gpureq_min_gpus(j.request)
			* gpucredit.gpureq_share(j.request) / 1000.0,
		GREATEST(coalesce(b.ended_at, j.submitted_at), j.waits_from),
		NULL, NULL, j.wall_limit
	FROM gpucredit.job j
		LEFT JOIN gpucredit.attempt b ON b.org = j.org AND b.job = j.job
			AND b.attempt = j.attempt
	WHERE j.pool = capacity_works.pool AND j.offer_types[1] IS NOT NULL
		AND j.state = 'queued' AND j.eligible AND j.held_by IS NULL;
END;
COMMENT ON FUNCTION gpucredit_internal.capacity_works(text, timestamptz, timestamptz) IS
'Internal: waits for devices in a time span, each with the attempt that ended it: devices, when it began to wait, when the attempt started (NULL: not) and ended (NULL: it runs or waits), the wall limit.';

CREATE FUNCTION gpucredit_internal.capacity_needed(works bigint[],
	period bigint, utilisation integer, wait bigint, OUT load bigint,
	OUT load_high bigint, OUT unproven bigint, OUT needed bigint, OUT needed_low bigint,
	OUT needed_high bigint, OUT wait_p95 bigint, OUT runs integer,
	OUT enough boolean)
LANGUAGE c STABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_capacity_needed';
COMMENT ON FUNCTION gpucredit_internal.capacity_needed(bigint[], bigint, integer, bigint) IS
'Internal: how many devices works need (src/decide/capacity). works: rows of account, thousandths of a device, and microseconds since the period began: arrived, started, ended, wall limit. wait: -1 for any.';

CREATE FUNCTION gpucredit_internal.require_wait_target(wait_target interval)
RETURNS boolean
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
SET jit = off
AS $require$
BEGIN
	IF NOT coalesce(wait_target >= '0' AND wait_target <= '3650 days'
		AND extract(year FROM wait_target) = 0
		AND extract(month FROM wait_target) = 0, true)
	THEN
		RAISE EXCEPTION '"wait_target" is out of range' USING
			ERRCODE = 'invalid_parameter_value',
			DETAIL = 'It is from 0 to 3650 days, and months have no length.',
			HINT = 'Pass days, hours or less, or NULL for any wait.';
	END IF;
	RETURN true;
END
$require$;
COMMENT ON FUNCTION gpucredit_internal.require_wait_target(interval) IS
'Internal: raises 22023 for a waiting time that cannot be a target.';

CREATE TYPE gpucredit.capacity_advice_result AS (gpu_type text,
	supply numeric, allocated numeric, waiting numeric,
	busy_percent numeric, demand_percent numeric, backlog_change numeric,
	stranded bigint, advice text, devices bigint, cost numeric,
	load numeric, unproven numeric, needed bigint, needed_low bigint,
	needed_high bigint, wait_p95 interval, runs integer);
COMMENT ON TYPE gpucredit.capacity_advice_result IS
'A GPU type of a pool: how busy it is, how its queue changes, how many devices its jobs need, and the advice.';

CREATE FUNCTION gpucredit.capacity_advice(pool text DEFAULT 'default',
	period interval DEFAULT '7 days',
	target numeric[] DEFAULT '{0.7,0.9}',
	wait_target interval DEFAULT NULL)
RETURNS SETOF gpucredit.capacity_advice_result
LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER ROWS 8
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit_internal.require_report(capacity_advice.pool,
		capacity_advice.period, coalesce(capacity_advice.target, '{}'));
	SELECT gpucredit_internal.require_wait_target(capacity_advice.wait_target);
	WITH p AS (
		SELECT c.at, c.at - make_interval(secs =>
				extract(epoch FROM capacity_advice.period)::double precision)
				AS since
		FROM (SELECT gpucredit.now() AS at) c),
	young AS (	/* types whose first node was registered within the period */
		SELECT n.gpu_type, min(n.registered_at) AS since
		FROM gpucredit.node n, p
		WHERE n.pool = capacity_advice.pool AND n.gpus > 0
		GROUP BY n.gpu_type, p.since, p.at
		HAVING min(n.registered_at) > p.since AND min(n.registered_at) < p.at),
	part AS MATERIALIZED (
		SELECT d.* FROM p CROSS JOIN LATERAL gpucredit_internal.demand_parts(
			capacity_advice.pool, p.since, p.at) d),
	begun AS (
		SELECT t.gpu_type, s.since, p.at, s.since + make_interval(secs =>
				extract(epoch FROM p.at - s.since)::double precision / 2)
				AS middle
		FROM (SELECT DISTINCT d.gpu_type FROM part d) t
			LEFT JOIN young y ON y.gpu_type = t.gpu_type
			CROSS JOIN p
			CROSS JOIN LATERAL (SELECT coalesce(y.since, p.since)) s (since)),
	half AS (
		SELECT d.gpu_type, h.n,
			round(coalesce(sum(d.devices * l.part)
				FILTER (WHERE d.kind = 'a'), 0), 3) AS allocated,
			round(coalesce(sum(d.devices * l.part)
				FILTER (WHERE d.kind = 'w'), 0), 3) AS waiting
		FROM (SELECT b.gpu_type, 0 AS n, b.since, b.middle AS until, b.at
				FROM begun b
				UNION ALL
				SELECT b.gpu_type, 1, b.middle, b.at, b.at FROM begun b) h
			JOIN part d ON d.gpu_type = h.gpu_type AND d.since < h.until
				AND coalesce(d.until, h.at) >= h.since
			CROSS JOIN LATERAL (SELECT extract(epoch FROM
					LEAST(coalesce(d.until, h.at), h.until)
						- GREATEST(d.since, h.since))
					/ extract(epoch FROM h.until - h.since)) l (part)
		WHERE h.since < h.until
		GROUP BY d.gpu_type, h.n),
	known AS (
		SELECT h.gpu_type, avg(h.allocated) AS allocated,
			avg(h.waiting) AS waiting,
			coalesce(sum(h.waiting) FILTER (WHERE h.n = 1), 0)
				- coalesce(sum(h.waiting) FILTER (WHERE h.n = 0), 0) AS growth
		FROM (SELECT t.gpu_type, n.n, coalesce(x.allocated, 0) AS allocated,
				coalesce(x.waiting, 0) AS waiting
			FROM (SELECT DISTINCT half.gpu_type FROM half) t
				CROSS JOIN generate_series(0, 1) AS n (n)
				LEFT JOIN half x ON x.gpu_type = t.gpu_type AND x.n = n.n) h
		GROUP BY h.gpu_type),
	stock AS (
		SELECT c.gpu_type, sum(c.in_service)::numeric AS supply,
			sum(c.stranded)::bigint AS stranded
		FROM gpucredit.capacity c WHERE c.pool = capacity_advice.pool
		GROUP BY c.gpu_type),
	told AS (
		SELECT coalesce(k.gpu_type, s.gpu_type) AS gpu_type,
			coalesce(s.supply, 0) AS supply,
			coalesce(k.allocated, 0) AS allocated,
			coalesce(k.waiting, 0) AS waiting, coalesce(k.growth, 0) AS growth,
			coalesce(s.stranded, 0) AS stranded,
			coalesce(k.allocated + k.waiting, 0) AS wanted
		FROM known k FULL JOIN stock s ON s.gpu_type = k.gpu_type),
	work AS (
		SELECT w.gpu_type, array_agg(ARRAY[w.account,
				round(w.devices * 1000)::bigint,
				(extract(epoch FROM w.arrived - w.since) * 1000000)::bigint,
				(extract(epoch FROM w.started - w.since) * 1000000)::bigint,
				(extract(epoch FROM w.ended - w.since) * 1000000)::bigint,
				(extract(epoch FROM w.wall_limit) * 1000000)::bigint]) AS works
		FROM (SELECT w.*, b.since, dense_rank() OVER (PARTITION BY w.gpu_type
					ORDER BY w.org, w.path) - 1 AS account
				FROM p CROSS JOIN LATERAL gpucredit_internal.capacity_works(
						capacity_advice.pool, p.since, p.at)
					AS w (gpu_type, org, path, devices, arrived, started,
						ended, wall_limit)
					JOIN begun b ON b.gpu_type = w.gpu_type
				WHERE w.arrived >= b.since) AS w (gpu_type, org, path, devices,
					arrived, started, ended, wall_limit, since, account)
		GROUP BY w.gpu_type),
	judged AS (
		SELECT t.*, n.load / 1000.0 AS load, n.unproven / 1000.0 AS unproven,
			n.needed, n.needed_low, n.needed_high, n.runs, n.wait_p95,
			CASE WHEN w.works IS NULL AND t.wanted = 0 THEN
				/*
				 * Without any work, there are enough devices if the type's
				 * nodes were there before the period began.
				 */
				NOT EXISTS (SELECT FROM young y WHERE y.gpu_type = t.gpu_type)
				AND EXISTS (SELECT FROM begun b WHERE b.gpu_type = t.gpu_type)
			ELSE coalesce(n.enough, false) END AS enough,
			coalesce(n.needed, 0) - t.supply AS short,
			/*
			 * The estimate is cautious: it uses the upper end of the interval.
			 */
			t.supply - GREATEST(coalesce(n.needed_high, 0),
				ceil(coalesce(n.load_high, 0) / 1000.0
					/ capacity_advice.target[1])) AS spare
		FROM told t LEFT JOIN work w ON w.gpu_type = t.gpu_type
			LEFT JOIN begun b ON b.gpu_type = t.gpu_type
			LEFT JOIN p ON true
			LEFT JOIN LATERAL gpucredit_internal.capacity_needed(w.works,
				CASE WHEN p.at - b.since >= interval '1 s' THEN
					(extract(epoch FROM p.at - b.since) * 1000000)::bigint END,
				(capacity_advice.target[2] * 1000)::integer,
				coalesce((extract(epoch FROM capacity_advice.wait_target)
					* 1000000)::bigint, -1)) n ON true)
	SELECT j.gpu_type, j.supply, round(j.allocated, 3), round(j.waiting, 3),
		round(100 * j.allocated / NULLIF(j.supply, 0), 1),
		round(100 * j.wanted / NULLIF(j.supply, 0), 1),
		round(j.growth, 3), j.stranded,
		CASE WHEN NOT j.enough THEN 'unknown'
			WHEN j.short > 0 AND j.stranded >= j.short THEN 'feed'
			WHEN j.short > 0 THEN 'buy'
			WHEN j.spare > 0 THEN 'release' ELSE 'keep' END,
		d.devices::bigint, round(d.devices * x.per_gpu_hour
			* extract(epoch FROM capacity_advice.period) / 3600, 6),
		round(j.load, 3), round(j.unproven, 3), j.needed, j.needed_low,
		j.needed_high, make_interval(secs => j.wait_p95 / 1000000.0), j.runs
	FROM judged j
		CROSS JOIN LATERAL (SELECT CASE WHEN NOT j.enough THEN 0
			WHEN j.short > 0 THEN j.short
			ELSE greatest(j.spare, 0) END) d (devices)
		LEFT JOIN LATERAL (SELECT r.per_gpu_hour::numeric AS per_gpu_hour
			FROM gpucredit.price r, p
			WHERE r.gpu_type = j.gpu_type
				AND r.pool IN (capacity_advice.pool, '')
				AND r.effective_at <= p.at
			ORDER BY r.spot, r.pool DESC, r.effective_at DESC, r.revision DESC
			LIMIT 1) x ON true
	ORDER BY j.gpu_type;
END;
COMMENT ON FUNCTION gpucredit.capacity_advice(text, interval, numeric[], interval) IS
'Reports: what a pool lacks or has too much of. It answers: "95 % busy and the backlog grows, what should we buy?"
period: the time to judge by; for a newer type, the time since its first node was registered. target: the band, as fractions of the supply, in which the load should be. wait_target: jobs with 95 of 100 parts of the device time are to wait no longer than this, too; NULL: any wait will do.
Result, by GPU type: devices in service; allocated and waiting on average; which fractions of the supply were allocated and wanted; how many more devices waited in the second half of the period than in the first; devices stranded now. advice: buy so many devices that there are as many as needed; feed: the same, but as many devices are stranded, and cpu or memory for them is cheaper; release so many that the load comes to the lower end of the band, or waits to the target, even at the interval''s upper end; keep; unknown: there is not enough history, and devices is 0. cost: those devices x hours of period x the price per GPU-hour in force, in credits; the spot price if there is no other; NULL without a price.
load: device time of the jobs that began to wait in the period over its length, by what ran; what is still to run counts by what its account''s jobs ran of their wall limits, and at most as much again as the account ran in the period. Jobs that were cancelled before they started, and jobs without credit, count nothing. unproven: what waits beyond that. needed: devices for the band''s upper end, and for wait_target by a replay of the period that counts devices, not nodes or quotas; needed_low and needed_high: an interval of nine in ten, the latter with unproven. wait_p95: jobs with 95 of 100 parts of the device time waited no longer. runs: attempts that are over; with fewer than 20 of them, or a load less certain than by its own size, advice is unknown. NULL: nothing ran or waited.
Errors: UC401 no such pool; 22023 a period that is not above 0, a target that is no band, or a wait_target below 0 or above 3650 days.';
