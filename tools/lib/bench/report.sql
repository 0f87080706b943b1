-- report.sql: a month of :jobs jobs that ran and are over, on 4 types of GPU
-- and in 5 tiers, written straight into the tables.  Nothing but a benchmark
-- may write like this; verify() says that the books are right all the same.
SET client_min_messages = warning;
SET synchronous_commit = off;
SET maintenance_work_mem = '512MB';
SET work_mem = '256MB';
SET gpucredit.node_suspect = 0;

-- one job by calls, whose rows the others are copied from
SELECT set_config('gpucredit.clock', (now() - interval '29 days 23 hours')::text, false);
SELECT gpucredit.set_price(t, 2.5) FROM unnest('{A100,H100,L40S,T4}'::text[]) t;
SELECT gpucredit.register_node('default', t || '-' || n, t, 64, 81920)
FROM unnest('{A100,H100,L40S,T4}'::text[]) t, generate_series(1, 6) n;
SELECT job FROM gpucredit.reserve('0', '0', 'report', '1xH100', '1 hour',
	'production_inference') \gset
SELECT count(*) FROM gpucredit.place();
SELECT set_config('gpucredit.clock', (now() - interval '29 days 22 hours')::text, false);
SELECT gpucredit.settle('0', :job, 1, 'completed', '48 minutes');
RESET gpucredit.clock;

CREATE TEMP TABLE past AS
SELECT n + 1000000 AS id, (n % :orgs)::text AS org,
	(n / :orgs % :projects)::text AS account, b.bucket,
	(ARRAY['A100', 'H100', 'L40S', 'T4'])[1 + n * 7 % 4] AS gpu_type,
	/* a type has 384 devices, and each job the next of them */
	1 + n / 4 / 64 % 6 AS node, format('{%s}', n / 4 % 64)::gpucredit.gpuset
		AS device,
	(ARRAY['production_inference', 'premium_training', 'standard_training',
		'batch_inference', 'interactive'])[1 + n % 5] AS tier,
	now() - interval '29 days 21 hours' + n * interval '29 days 20 hours' / :jobs
		AS at,
	n % 7200 * 7919 % 7200 * interval '1 s' AS waited,
	(1 + n % 4) * interval '12 minutes' AS elapsed,
	((1 + n % 4) * 0.5)::gpucredit.credits AS spent,
	(2.5 - (1 + n % 4) * 0.5)::gpucredit.credits AS returned
FROM generate_series(1, :jobs) n
	JOIN gpucredit.bucket b ON b.org = (n % :orgs)::text;

ALTER TABLE gpucredit.entry DROP CONSTRAINT entry_pkey;
DROP INDEX gpucredit.entry_pages;
INSERT INTO gpucredit.hold (org, hold, account, job, drawn, held, captured,
	released, created_at, closed_at)
SELECT p.org, p.id, p.account, p.id, '2.5', '0', p.spent, p.returned, p.at,
	p.at + p.elapsed
FROM past p;
INSERT INTO gpucredit.hold_part (org, hold, part, bucket, drawn, held, spent,
	returned)
SELECT p.org, p.id, 1, p.bucket, '2.5', '0', p.spent, p.returned FROM past p;
INSERT INTO gpucredit.entry (org, at, account, bucket, source, target, amount,
	operation, hold, part, job, attempt)
SELECT p.org, m.at, p.account, p.bucket, m.source, m.target, m.amount,
	m.operation, p.id, 1, p.id, m.attempt
FROM past p CROSS JOIN LATERAL (VALUES
	(p.at, 'available', 'held', '2.5'::gpucredit.credits, 'reserve', NULL),
	(p.at + p.elapsed, 'held', 'spent', p.spent, 'settle', 1),
	(p.at + p.elapsed, 'held', 'available', p.returned, 'settle', 1))
	AS m (at, source, target, amount, operation, attempt)
WHERE m.amount > '0'
ORDER BY m.at;


INSERT INTO gpucredit.job (org, job, account, pool, tier, request, topology,
	prefer, preemptible, priority, cpu_milli, memory_mib, wall_limit,
	hold_window, max_retries, spec, cache, options, save_every, offer_types,
	offer_memory, offer_prices, offer_spot_prices, request_class, state, hold, attempt,
	failures, cancelled, submitted_at, not_before, ended_at, waits_from,
	waited, price_factor, resources)
SELECT p.org, p.id, p.account, j.pool, p.tier, j.request, j.topology, j.prefer,
	j.preemptible, j.priority, j.cpu_milli, j.memory_mib, j.wall_limit,
	j.hold_window, j.max_retries, j.spec, j.cache, j.options, j.save_every,
	j.offer_types, j.offer_memory, j.offer_prices, j.offer_spot_prices,
	j.request_class, j.state, p.id, 1, 0, false, p.at - p.waited, j.not_before,
	p.at + p.elapsed, NULL, p.waited, j.price_factor,
	j.resources
FROM past p, gpucredit.job j
WHERE j.org = '0' AND j.job = :job;
INSERT INTO gpucredit.attempt (org, job, attempt, account, pool, tier, hold,
	gpu_type, gpus, share, billed_share, per_gpu_hour, per_hour, wall_limit, hold_window, save_every,
	save_asked, is_foreign, started_at, held, surplus, logged, skewed_at, extension_denied,
	saved_at, running_at, heard_at, elapsed, progress, progress_at,
	utilization, ended_at, outcome, billed, released, lapsed, refunded,
	job_state, retry_at, exit_code, message, log_uri, usage_charged, uncollected)
SELECT p.org, p.id, 1, p.account, a.pool, p.tier, p.id, p.gpu_type, a.gpus,
	a.share, a.billed_share, a.per_gpu_hour, a.per_hour, a.wall_limit, a.hold_window, a.save_every,
	a.save_asked, a.is_foreign, p.at, a.held, a.surplus, p.elapsed, a.skewed_at, a.extension_denied,
	a.saved_at, p.at, p.at + p.elapsed, p.elapsed, a.progress, a.progress_at,
	a.utilization, p.at + p.elapsed, a.outcome, p.spent, p.returned, a.lapsed,
	a.refunded, a.job_state, a.retry_at, a.exit_code, a.message, a.log_uri, 0,
	a.uncollected
FROM past p, gpucredit.attempt a
WHERE a.org = '0' AND a.job = :job;
INSERT INTO gpucredit.attempt_gpu (org, job, attempt, node, pool, gpus, share,
	cpu_milli, memory_mib, gpu_memory_mib, ended_at, seen_at, free, account, tier, preemptible,
	min_gpus, max_gpus, started_at, saved_at, expected_end, limit_end)
SELECT p.org, p.id, 1, p.gpu_type || '-' || p.node, g.pool, p.device, g.share,
	g.cpu_milli, g.memory_mib, g.gpu_memory_mib, p.at + p.elapsed, p.at + p.elapsed, true,
	p.account, p.tier, g.preemptible, g.min_gpus, g.max_gpus, p.at, p.at,
	p.at + interval '1 hour', p.at + interval '1 hour'
FROM past p, gpucredit.attempt_gpu g
WHERE g.org = '0' AND g.job = :job;

UPDATE gpucredit.bucket b
SET available = b.available - n.spent, spent = b.spent + n.spent,
	credited_total = b.credited_total + n.returned::numeric
FROM (SELECT p.org, gpucredit.sum(p.spent) AS spent,
		gpucredit.sum(p.returned) AS returned
	FROM past p GROUP BY p.org) n
WHERE b.org = n.org;
INSERT INTO gpucredit.account_delta (org, account, spent, day, at)
SELECT p.org, p.account, gpucredit.sum(p.spent),
	((p.at + p.elapsed) AT TIME ZONE 'UTC')::date, max(p.at + p.elapsed)
FROM past p GROUP BY p.org, p.account, 4;
/*
 * The history has no audit rows, as if an organisation had come from another
 * server after retention had removed them.
 */
INSERT INTO gpucredit.archive_batch
SELECT (r.d).archive_batch, (r.d).kind, (r.d).batch_from, (r.d).batch_to,
	(r.d).rows, (r.d).until, (r.d).at, (r.d).closings, (r.d).previous,
	gpucredit_internal.archive_batch_digest(r.d)
FROM (SELECT ROW(1, 'audit', 0, 0, 0, now(), now(),
		gpucredit_internal.closings_digest(1), decode(repeat('00', 32), 'hex'),
		'')::gpucredit.archive_batch AS d) r;
SELECT setval('gpucredit.hold_hold_seq', max(id)),
	setval('gpucredit.job_job_seq', max(id)) FROM past;

ALTER TABLE gpucredit.entry ADD CONSTRAINT entry_pkey
	PRIMARY KEY (org, bucket, entry);
CREATE INDEX entry_pages ON gpucredit.entry
	USING brin (at, job pg_catalog.int8_minmax_multi_ops)
	WITH (pages_per_range = 32, autosummarize = on);
SELECT count(affected) FROM gpucredit.maintain();
VACUUM ANALYZE;
