/*
 * 95_screen.sql: functions that fill a screen, for an operator's psql and
 * \watch.
 *
 *   SELECT * FROM gpucredit.cluster_map() \watch 1
 *
 * They keep no state: each is a query bounded to a screen, fast enough to run
 * every second with 1,213 nodes and 10,000 waiting jobs. Names are escaped for
 * a terminal.
 */

CREATE FUNCTION gpucredit_internal.screen_name(name text, width int) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE WHEN length(n.name) > screen_name.width
		THEN left(n.name, screen_name.width - 1) || '~' ELSE n.name END
	FROM (SELECT regexp_replace(screen_name.name,
		CASE getdatabaseencoding() WHEN 'UTF8'
			THEN E'[\\x01-\\x1f\\x7f-\\x9f\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060\\u2066-\\u2069\\ufeff]'
			ELSE E'[\\x01-\\x1f\\x7f]' END, '?', 'g') AS name) n;
END;
COMMENT ON FUNCTION gpucredit_internal.screen_name(text, int) IS
'Internal: a name as a screen shows it, at most so wide.';

/*
 * Returns a row per node, with one character for the state of each device.
 * letters are the organisations that are shown by a letter, in the order of
 * the letters.
 */
CREATE FUNCTION gpucredit_internal.node_blocks(pool text, letters text[])
RETURNS TABLE (node text, gpu_type text, gpus int, state text, block text,
	used int, sole text)
LANGUAGE sql STABLE PARALLEL SAFE ROWS 1000
BEGIN ATOMIC
	WITH d AS MATERIALIZED (
		SELECT g.node, d.device, bool_or(g.ended_at IS NULL) AS live,
			min(g.share) FILTER (WHERE g.ended_at IS NULL) AS share,
			count(DISTINCT g.org) FILTER (WHERE g.ended_at IS NULL) AS orgs,
			min(g.org) FILTER (WHERE g.ended_at IS NULL) AS org
		FROM gpucredit.allocated_devices g
			CROSS JOIN LATERAL unnest(gpucredit.gpuset_to_array(g.gpus))
				AS d (device)
		WHERE g.pool = node_blocks.pool
		GROUP BY g.node, d.device)
	SELECT n.node, n.gpu_type, n.gpus, n.state, b.block, b.used, b.sole
	FROM gpucredit.nodes n
		LEFT JOIN (
			SELECT m.node, string_agg(CASE
				WHEN NOT m.healthy OPERATOR(gpucredit.@>) i.i THEN '!'
				WHEN d.node IS NULL THEN '.'
				WHEN NOT d.live THEN '%'
				WHEN d.orgs > 1 THEN '*'
				WHEN l.n IS NULL THEN '+'
				WHEN d.share < 1000 THEN chr(96 + l.n::int)
				ELSE chr(64 + l.n::int) END, '' ORDER BY i.i) AS block,
				count(d.node)::int AS used,
				mode() WITHIN GROUP (ORDER BY d.org) AS sole
			FROM gpucredit.node m
				CROSS JOIN LATERAL generate_series(0, m.gpus - 1) AS i (i)
				LEFT JOIN d ON d.node = m.node AND d.device = i.i
				LEFT JOIN unnest(node_blocks.letters) WITH ORDINALITY
					AS l (org, n) ON l.org = d.org
			WHERE m.pool = node_blocks.pool
			GROUP BY m.node) b ON b.node = n.node
	WHERE n.pool = node_blocks.pool;
END;
COMMENT ON FUNCTION gpucredit_internal.node_blocks(text, text[]) IS
'cluster_map: the devices of each node, one character each, how many are in use, and who uses most of them.';

/*
 * cluster_map(): shows as much detail as fits: nodes with their names and
 * devices, only the devices, or one character per node.
 */
CREATE FUNCTION gpucredit.cluster_map(pool text DEFAULT 'default',
	width int DEFAULT 100, height int DEFAULT 40)
RETURNS TABLE (map text)
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE ROWS 40
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit_internal.require_report(cluster_map.pool, '1 s', NULL);
	SELECT gpucredit_internal.require_sense('width', cluster_map.width::text,
		cluster_map.width BETWEEN 40 AND 1000, 'is out of range',
		'Pass 40 to 1000 columns.');
	SELECT gpucredit_internal.require_sense('height', cluster_map.height::text,
		cluster_map.height BETWEEN 10 AND 1000, 'is out of range',
		'Pass 10 to 1000 lines.');
	WITH top AS MATERIALIZED (
		SELECT t.org, t.devices, row_number() OVER (ORDER BY t.org) AS n
		FROM (SELECT g.org, sum(gpucredit.gpu_count(g.gpus) * g.share)
					/ 1000.0 AS devices
				FROM gpucredit.attempt_gpu g
				WHERE g.pool = cluster_map.pool AND NOT g.free
					AND g.ended_at IS NULL AND gpucredit.gpu_count(g.gpus) > 0
				GROUP BY g.org
				ORDER BY 2 DESC, g.org
				LIMIT least(26, least(4, cluster_map.height / 10)
					* (cluster_map.width / 24))) t),
	b AS MATERIALIZED (
		SELECT b.*, left(CASE WHEN b.state IN ('lost', 'gone') THEN '#'
				WHEN b.state IN ('draining', 'reclaimed') THEN '('
				WHEN b.state = 'suspect' THEN '?' ELSE '[' END, 1) AS opens,
			CASE WHEN b.state IN ('lost', 'gone') THEN '#'
				WHEN b.state IN ('draining', 'reclaimed') THEN ')'
				WHEN b.state = 'suspect' THEN '?' ELSE ']' END AS closes,
			t.n AS letter, max(b.gpus) OVER w AS widest,
			least(20, max(length(b.node)) OVER w) AS longest,
			count(*) OVER w AS nodes
		FROM gpucredit_internal.node_blocks(cluster_map.pool, ARRAY(
				SELECT t.org FROM top t ORDER BY t.n)) b
			LEFT JOIN top t ON t.org = b.sole
		WINDOW w AS (PARTITION BY b.gpu_type)),
	kind AS MATERIALIZED (
		SELECT k.*, k.legend + sum(1 + ceil(k.nodes::numeric / greatest(1,
				cluster_map.width / (k.longest + k.widest + 4)))) OVER () AS named,
			k.legend + sum(1 + ceil(k.nodes::numeric / greatest(1,
				cluster_map.width / (k.widest + 3)))) OVER () AS bare
		FROM (SELECT b.gpu_type, min(b.nodes) AS nodes,
				min(b.widest) AS widest, min(b.longest) AS longest,
				sum(b.gpus) AS gpus, sum(b.used) AS used,
				ceil(11.0 / (cluster_map.width / 17)) + (SELECT
					ceil(count(*)::numeric / (cluster_map.width / 24))
					FROM top) AS legend
			FROM b GROUP BY b.gpu_type) k),
	cell AS (
		/*
		 * by_number makes n2 sort before n10: each number in a name is
		 * preceded by its number of digits.
		 */
		SELECT b.gpu_type, b.node, (SELECT string_agg(CASE
				WHEN p.part[1] ~ '^[0-9]' THEN
					lpad(length(ltrim(p.part[1], '0'))::text, 4, '0')
					|| ltrim(p.part[1], '0')
				ELSE p.part[1] END, '' ORDER BY p.i)
			FROM regexp_matches(b.node, '[0-9]+|[^0-9]+', 'g')
				WITH ORDINALITY AS p (part, i)) COLLATE "C" AS by_number, CASE
			WHEN k.named <= cluster_map.height
				THEN rpad(gpucredit_internal.screen_name(b.node, 20), k.longest::int)
					|| ' ' || rpad(b.opens || coalesce(b.block, '')
					|| b.closes, k.widest::int + 3)
			WHEN k.bare <= cluster_map.height
				THEN rpad(b.opens || coalesce(b.block, '') || b.closes,
					k.widest::int + 3)
			WHEN b.opens <> '[' THEN translate(b.opens, '(', '-')
			WHEN b.block LIKE '%!%' THEN '!'
			WHEN coalesce(b.used, 0) = 0 THEN '.'
			WHEN b.letter IS NULL THEN '+'
			WHEN b.used < b.gpus THEN chr(96 + b.letter::int)
			ELSE chr(64 + b.letter::int) END AS text,
			CASE WHEN k.named <= cluster_map.height
				THEN cluster_map.width / (k.longest + k.widest + 4)
			WHEN k.bare <= cluster_map.height
				THEN cluster_map.width / (k.widest + 3)
			ELSE cluster_map.width END AS per_line
		FROM b JOIN kind k ON k.gpu_type = b.gpu_type),
	line AS (
		SELECT c.gpu_type, (c.n - 1) / greatest(1, c.per_line) AS row,
			string_agg(c.text, '' ORDER BY c.n) AS text
		FROM (SELECT c.*, row_number() OVER (PARTITION BY c.gpu_type
				ORDER BY c.by_number, c.node) AS n FROM cell c) c
		GROUP BY 1, 2
		UNION ALL
		SELECT k.gpu_type, -1, left(format('%s: %s nodes, %s of %s devices in'
			' use', gpucredit_internal.screen_name(k.gpu_type, 20), k.nodes,
			coalesce(k.used, 0), k.gpus), cluster_map.width)
		FROM kind k),
	legend AS (
		SELECT 1 AS part, (t.n - 1) / (cluster_map.width / 24) AS row,
			string_agg(rpad(chr(64 + t.n::int) || ' '
				|| gpucredit_internal.screen_name(t.org, 11) || ' '
				|| trim_scale(t.devices), 24), '' ORDER BY t.n) AS text
		FROM top t GROUP BY 2
		UNION ALL
		SELECT 2, (w.n - 1) / (cluster_map.width / 17),
			string_agg(rpad(w.word, 17), '' ORDER BY w.n)
		FROM unnest(CASE WHEN (SELECT min(k.bare) FROM kind k)
				> cluster_map.height
			THEN ARRAY['a node each:', 'A full', 'a partly used',
				'+ of others', '. idle', '! unhealthy', '? silent',
				'- leaving', '# lost']
			ELSE ARRAY['. free', 'A whole', 'a shared', '* of several',
				'+ of others', '! unhealthy', '% not seen gone', '[ready]',
				'(leaving)', '?silent?', '#lost#'] END)
			WITH ORDINALITY AS w (word, n)
		GROUP BY 2),
	page AS (
		SELECT rtrim(l.text) AS text, row_number() OVER (ORDER BY l.gpu_type,
				l.row) AS n, count(*) OVER () AS of, cluster_map.height
				- (SELECT count(*) FROM legend) AS room
		FROM line l)
	SELECT p.text
	FROM (SELECT CASE WHEN p.n = p.room AND p.of > p.room
				THEN '... and ' || (p.of - p.room + 1) || ' lines more'
				ELSE p.text END AS text, 0 AS part, p.n
			FROM page p WHERE p.n <= p.room
		UNION ALL
		SELECT rtrim(l.text), l.part, l.row FROM legend l) p
	ORDER BY p.part, p.n;
END;
COMMENT ON FUNCTION gpucredit.cluster_map(text, int, int) IS
E'Screens: the nodes of a pool as a picture, for \\watch: blocks of devices by GPU type, organisations as letters. Nodes come by name, numbers in names as numbers: n2 before n10.
width, height: of the screen, in characters; 40 to 1000 columns, 10 to 1000 lines. If the blocks do not fit, one character stands for a node.
Result: lines of text, the legend last.
Errors: UC401 no such pool; 22023.';

/*
 * The queue.  To find out why jobs wait, one cycle is planned as plan() does
 * it, for all jobs that would take part in it.  explain() shows everything
 * about one job.
 */
CREATE FUNCTION gpucredit_internal.queue_plan(pool text)
RETURNS TABLE (org text, job bigint, reason text, expected_at timestamptz)
LANGUAGE c STABLE STRICT ROWS 1000
AS 'MODULE_PATHNAME', 'gpucredit_queue_plan';
COMMENT ON FUNCTION gpucredit_internal.queue_plan(text) IS
'queue, queue_reasons: what a cycle would find out of the jobs that it considers, and when it expects them to start.';

CREATE FUNCTION gpucredit_internal.queued_jobs(pool text, at timestamptz)
RETURNS TABLE (org text, account text, job bigint, tier text, request text,
	devices numeric, waits interval, reason text, expected_at timestamptz)
LANGUAGE sql STABLE ROWS 1000
BEGIN ATOMIC
	SELECT j.org, j.account, j.job, j.tier, j.request::text,
		gpucredit.gpureq_min_gpus(j.request)
			* gpucredit.gpureq_share(j.request) / 1000.0,
		greatest(queued_jobs.at - coalesce(j.waits_from, j.submitted_at),
			'0'),	/* the wait begins after the backoff */
		coalesce(t.reason, CASE
			WHEN j.state = 'unfunded' AND EXISTS (
				SELECT FROM gpucredit.account a WHERE a.org = j.org
				AND a.suspended AND gpucredit_internal.is_below(j.account, a.account))
				THEN 'account suspended'
			WHEN j.state = 'unfunded' THEN 'no credit or budget'
			WHEN j.held_by = 'owner' THEN 'held by its owner'
			WHEN j.held_by IS NOT NULL THEN 'held by an operator'
			WHEN j.not_before > queued_jobs.at AND j.attempt = 0
				THEN 'begins later, as it asked'
			WHEN j.not_before > queued_jobs.at THEN 'backs off after a failure'
			ELSE 'an earlier attempt may still run' END), t.expected_at
	FROM (SELECT q.* FROM gpucredit.job q	/* each state has a partial index */
			WHERE q.pool = queued_jobs.pool AND q.state = 'queued'
			UNION ALL
			SELECT u.* FROM gpucredit.job u
			WHERE u.pool = queued_jobs.pool AND u.state = 'unfunded') j
		LEFT JOIN gpucredit_internal.queue_plan(queued_jobs.pool) t
			ON t.org COLLATE "C" = j.org AND t.job = j.job;
END;
COMMENT ON FUNCTION gpucredit_internal.queued_jobs(text, timestamptz) IS
'queue, queue_reasons: the waiting jobs of a pool, and why they wait.';

CREATE TYPE gpucredit.queue_result AS (org text, account text, job bigint,
	tier text, request text, waits interval, reason text,
	expected_at timestamptz);
COMMENT ON TYPE gpucredit.queue_result IS
'A waiting job: how long it has waited, for what, and when it is expected to start.';

CREATE TYPE gpucredit.node_sizes_result AS (gpu_type text, gpus int,
	gpu_memory_mib bigint, cpu_milli bigint, memory_mib bigint);
COMMENT ON TYPE gpucredit.node_sizes_result IS
'What nodes of one size have.';

CREATE FUNCTION gpucredit.node_sizes(pool text DEFAULT 'default')
RETURNS SETOF gpucredit.node_sizes_result
LANGUAGE sql STABLE PARALLEL SAFE SECURITY DEFINER ROWS 10
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit_internal.require_report(node_sizes.pool, '1 s', NULL);
	SELECT DISTINCT n.gpu_type, n.gpus, n.gpu_memory_mib, n.cpu_milli,
		n.memory_mib
	FROM gpucredit.node n WHERE n.pool = node_sizes.pool
	ORDER BY 1, 2, 3, 4, 5;
END;
COMMENT ON FUNCTION gpucredit.node_sizes(text) IS
'Nodes: the sizes of a pool''s nodes, each once, so that a job can ask for whole nodes ("whole_nodes" of placement). It says neither how many nodes there are nor what is free.
Result: type and number of GPUs, the memory of each, and the node''s cpu (thousandths of a core) and memory; 0: not limited.
Errors: UC401 no such pool; 22023.';

CREATE FUNCTION gpucredit.queue(pool text DEFAULT 'default',
	most int DEFAULT 20) RETURNS SETOF gpucredit.queue_result
LANGUAGE sql STABLE SECURITY DEFINER ROWS 20
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit_internal.require_report(queue.pool, '1 s', NULL);
	SELECT gpucredit_internal.require_sense('most', queue.most::text,
		queue.most BETWEEN 1 AND 1000, 'is out of range', 'Pass 1 to 1000.');
	SELECT gpucredit_internal.screen_name(q.org, 24),
		gpucredit_internal.screen_name(q.account, 32), q.job, q.tier,
		gpucredit_internal.screen_name(q.request, 24), date_trunc('second', q.waits),
		q.reason, date_trunc('second', q.expected_at)
	FROM (SELECT gpucredit.now() AS at) c
		CROSS JOIN LATERAL gpucredit_internal.queued_jobs(queue.pool, c.at) q
		LEFT JOIN gpucredit.tier t ON t.tier = q.tier
	WHERE gpucredit_internal.may_read(q.org, q.account)
	ORDER BY q.expected_at, t.rank, q.waits DESC, q.org, q.job
	LIMIT queue.most;
END;
COMMENT ON FUNCTION gpucredit.queue(text, int) IS
E'Screens: the waiting jobs of a pool, at most so many (1 to 1000), and why they wait; for \\watch. They come by expected start; then those whose start is not known, by tier and waiting time.
Result: names as a screen shows them. waits: time in the queue so far. reason: what a cycle would find now; explain() says it in full. expected_at: when the cycle expects the job to start, by its reservation or else by those who go before it; NULL where that is not known: it starts now, has a promise, needs no GPU, is held back by a quota, or cannot run as the pool is. A tenant sees the jobs of its own accounts only, and nothing of other jobs or its place among them.
Errors: UC401 no such pool; 22023.';

CREATE TYPE gpucredit.queue_reasons_result AS (reason text, tier text,
	jobs bigint, devices numeric, longest interval);
COMMENT ON TYPE gpucredit.queue_reasons_result IS
'How many jobs of a tier wait for the same reason.';

CREATE FUNCTION gpucredit.queue_reasons(pool text DEFAULT 'default')
RETURNS SETOF gpucredit.queue_reasons_result
LANGUAGE sql STABLE SECURITY DEFINER ROWS 20
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit_internal.require_report(queue_reasons.pool, '1 s', NULL);
	SELECT q.reason, q.tier, count(*), trim_scale(sum(q.devices)),
		date_trunc('second', max(q.waits))
	FROM (SELECT gpucredit.now() AS at) c
		CROSS JOIN LATERAL gpucredit_internal.queued_jobs(queue_reasons.pool, c.at) q
	GROUP BY q.reason, q.tier
	ORDER BY 3 DESC, q.reason, q.tier;
END;
COMMENT ON FUNCTION gpucredit.queue_reasons(text) IS
E'Screens: how many jobs of a pool wait for each reason, by tier, and the fewest devices they accept; for \\watch.
Errors: UC401 no such pool; 22023.';

/* Who places the jobs of a pool */
CREATE FUNCTION gpucredit.pool_placed_by(pool text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit_internal.require_report(pool_placed_by.pool, '1 s', NULL);
	SELECT coalesce(p.policy ->> 'placed_by', 'place') FROM gpucredit.pool p
	WHERE p.pool = pool_placed_by.pool;
END;
COMMENT ON FUNCTION gpucredit.pool_placed_by(text) IS
'Setup: who chooses the devices of a pool''s jobs, and runs them.
Result: place: gpucredit, whose agents run what a job''s spec says. foreign: another scheduler, as Slurm or Kubernetes behind a bridge, which runs programs of its own.
Errors: UC401 no such pool; 22023.';

/* Whose credit runs out first */
CREATE TYPE gpucredit.burn_rate_result AS (org text, available numeric,
	held numeric, per_day numeric, days_left numeric, runs_out timestamptz);
COMMENT ON TYPE gpucredit.burn_rate_result IS
'An organisation''s credit, its daily spend, and when the credit runs out.';

CREATE FUNCTION gpucredit.burn_rate(most int DEFAULT 20)
RETURNS SETOF gpucredit.burn_rate_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL RESTRICTED ROWS 20
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit_internal.require_sense('most', burn_rate.most::text,
		burn_rate.most BETWEEN 1 AND 1000, 'is out of range',
		'Pass 1 to 1000.');
	SELECT gpucredit_internal.screen_name(o.org, 32), o.available, o.held, o.per_day,
		round(extract(epoch FROM o.runs_out - c.at) / 86400, 1),
		date_trunc('second', o.runs_out)
	FROM (SELECT gpucredit.now() AS at) c
		CROSS JOIN LATERAL gpucredit_internal.report_owners(ROW(NULL, NULL, NULL, c.at,
			false, NULL, NULL)::gpucredit.report_scope) o
	ORDER BY o.runs_out, o.available, o.org
	LIMIT burn_rate.most;
END;
COMMENT ON FUNCTION gpucredit.burn_rate(int) IS
E'Screens: the organisations whose credit runs out first, at most so many (1 to 1000); for \\watch.
Result, in credits: available in active buckets; held; spent a day in the last 7 days, running jobs included as logged each gpucredit.usage_interval; days left until the credit is used up or expired at that rate, NULL: not within ten years.
Errors: 22023.';

CREATE TYPE gpucredit.recent_events_result AS (what text, reason text,
	jobs bigint, times bigint, latest timestamptz, org text, job bigint);
COMMENT ON TYPE gpucredit.recent_events_result IS
'A kind of recent decision, how often it was made, and its latest job.';

CREATE FUNCTION gpucredit.recent_events(span interval DEFAULT '1 min')
RETURNS SETOF gpucredit.recent_events_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE ROWS 20
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit_internal.require_sense('span', recent_events.span::text,
		recent_events.span > '0' AND recent_events.span <= '1 day',
		'is out of range', 'Pass more than 0, and at most a day.');
	SELECT a.operation || ' ' || a.decision,
		gpucredit_internal.screen_name(a.reason, 40), count(DISTINCT (a.org, a.job)),
		count(*), date_trunc('second', max(a.at)),
		gpucredit_internal.screen_name((array_agg(a.org ORDER BY a.at DESC,
			a.audit DESC))[1], 24),
		(array_agg(a.job ORDER BY a.at DESC, a.audit DESC))[1]
	FROM (SELECT gpucredit.now() AS at) c
		JOIN gpucredit.audit a		/* the planner expects few rows of such a range */
			ON a.audit > (SELECT gpucredit.audit_before(gpucredit.now()
				- recent_events.span))
			AND a.audit <= (SELECT max(l.audit) FROM gpucredit.audit l)
			AND a.at > c.at - recent_events.span AND a.at <= c.at
	WHERE a.operation IN ('place', 'settle', 'requeue', 'fund', 'cancel',
			'reap', 'heartbeat', 'check_nodes', 'drain', 'resume', 'reclaim')
	GROUP BY a.operation, a.decision, gpucredit_internal.screen_name(a.reason, 40)
	ORDER BY a.operation = 'place' DESC, count(*) DESC, 1, 2
	LIMIT 40;
END;
COMMENT ON FUNCTION gpucredit.recent_events(interval) IS
E'Screens: what the scheduler did in the last minute, or in another recent span (at most a day), and what became of jobs; for \\watch.
Result: the decision, its reason, of how many jobs and how often, when last, and of which job.
Errors: 22023.';
