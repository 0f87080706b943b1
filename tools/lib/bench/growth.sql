-- growth.sql: years of history, written straight into the tables.
--
-- In each organisation :jobs jobs that ran and are over, and :holds holds
-- that their callers captured in eight pieces and released: :jobs * 3 +
-- :holds * 10 entries an organisation.  Nothing but a benchmark may write
-- like this; verify() says that the books are right all the same.
SET client_min_messages = warning;
SET synchronous_commit = off;
SET maintenance_work_mem = '512MB';
SET gpucredit.node_suspect = 0;

-- one job by calls, whose rows the others are copied from
SELECT now() - interval '20 days' AS began \gset
SELECT set_config('gpucredit.clock', :'began', false);
SELECT gpucredit.set_price('H100', 2.5);
/* 48 minutes are less than three steps of the history */
SELECT count(gpucredit.register_node('default', 'node' || n, 'H100', 64, 81920))
FROM generate_series(0, :orgs * 3 / 64) n;
SELECT job FROM gpucredit.reserve('0', '0', 'growth', '1xH100', '1 hour',
	'production_inference') \gset
SELECT count(*) FROM gpucredit.place();
SELECT set_config('gpucredit.clock',
	(:'began'::timestamptz + interval '48 minutes')::text, false);
SELECT gpucredit.settle('0', :job, 1, 'completed', '48 minutes');
RESET gpucredit.clock;

ALTER TABLE gpucredit.entry DROP CONSTRAINT entry_pkey;
DROP INDEX gpucredit.entry_pages, gpucredit.entry_id;
ALTER TABLE gpucredit.hold DROP CONSTRAINT hold_pkey;
ALTER TABLE gpucredit.hold_part DROP CONSTRAINT hold_part_pkey;

CREATE TEMP TABLE past AS
SELECT row_number() OVER (ORDER BY n, o) + 1000000 AS hold, o::text AS org,
	((n + o) % :projects)::text AS account, b.bucket,
	CASE WHEN n <= :jobs THEN row_number() OVER (ORDER BY n, o) + 1000000
	END AS job, n % 3 * :orgs + o AS device, now() - interval '19 days'
		+ n * interval '18 days' / (:jobs + :holds) AS at
FROM generate_series(1, :jobs + :holds) n
	CROSS JOIN generate_series(0, :orgs - 1) o
	JOIN gpucredit.bucket b ON b.org = o::text;

INSERT INTO gpucredit.hold (org, hold, account, job, drawn, held, captured,
	released, expires_at, created_at, closed_at)
SELECT p.org, p.hold, p.account, p.job, '2.5', '0', '2', '0.5',
	CASE WHEN p.job IS NULL THEN p.at + interval '1 hour' END, p.at,
	p.at + interval '48 minutes'
FROM past p;
INSERT INTO gpucredit.hold_part (org, hold, part, bucket, drawn, held, spent,
	returned)
SELECT p.org, p.hold, 1, p.bucket, '2.5', '0', '2', '0.5' FROM past p;
INSERT INTO gpucredit.entry (org, at, account, bucket, source, target, amount,
	operation, hold, part, job, attempt)
SELECT p.org, p.at + m.after, p.account, p.bucket, m.source, m.target,
	m.amount::gpucredit.credits, m.operation, p.hold, 1, p.job, m.attempt
FROM past p JOIN (
	VALUES (true, interval '0', 'available', 'held', '2.5', 'reserve', NULL),
		(true, '48 minutes', 'held', 'spent', '2', 'settle', 1),
		(true, '48 minutes', 'held', 'available', '0.5', 'settle', 1),
		(false, '0', 'available', 'held', '2.5', 'hold', NULL),
		(false, '48 minutes', 'held', 'available', '0.5', 'release', NULL)
	UNION ALL
	SELECT false, n * interval '6 minutes', 'held', 'spent', '0.25',
		'capture', NULL
	FROM generate_series(1, 8) n)
	AS m (of_job, after, source, target, amount, operation, attempt)
	ON m.of_job = (p.job IS NOT NULL);

/* but what the table makes itself */
SELECT string_agg(quote_ident(attname), ', ') AS given,
	string_agg('r.' || quote_ident(attname), ', ') AS copied
FROM pg_attribute
WHERE attrelid = 'gpucredit.job'::regclass AND attnum > 0
	AND NOT attisdropped AND attgenerated = '' \gset
INSERT INTO gpucredit.job (:given)
SELECT :copied
FROM past p, gpucredit.job j, jsonb_populate_record(NULL::gpucredit.job,
	to_jsonb(j) || jsonb_build_object('org', p.org, 'job', p.job,
		'hold', p.hold, 'account', p.account, 'submitted_at', p.at,
		'ended_at', p.at + interval '48 minutes')) r
WHERE p.job IS NOT NULL AND j.org = '0' AND j.job = :job;
INSERT INTO gpucredit.attempt
SELECT (jsonb_populate_record(NULL::gpucredit.attempt, to_jsonb(a)
	|| jsonb_build_object('org', p.org, 'job', p.job, 'hold', p.hold,
		'account', p.account, 'started_at', p.at,
		'ended_at', p.at + interval '48 minutes', 'usage_digest', 0))).*
FROM past p, gpucredit.attempt a
WHERE p.job IS NOT NULL AND a.org = '0' AND a.job = :job;
INSERT INTO gpucredit.attempt_gpu
SELECT (jsonb_populate_record(NULL::gpucredit.attempt_gpu, to_jsonb(g)
	|| jsonb_build_object('org', p.org, 'job', p.job,
		'account', p.account, 'node', 'node' || p.device / 64,
		'gpus', format('{%s}', p.device % 64), 'started_at', p.at,
		'saved_at', p.at, 'ended_at', p.at + interval '48 minutes',
		'seen_at', p.at + interval '48 minutes',
		'expected_end', p.at + interval '1 hour',
		'limit_end', p.at + interval '1 hour'))).*
FROM past p, gpucredit.attempt_gpu g
WHERE p.job IS NOT NULL AND g.org = '0' AND g.job = :job;

UPDATE gpucredit.bucket b
SET available = b.available - n.spent, spent = b.spent + n.spent,
	credited_total = b.credited_total + n.returned::numeric
FROM (SELECT p.org, gpucredit.sum('2'::gpucredit.credits) AS spent,
		gpucredit.sum('0.5'::gpucredit.credits) AS returned
	FROM past p GROUP BY p.org) n
WHERE b.org = n.org;
INSERT INTO gpucredit.account_delta (org, account, spent, at)
SELECT p.org, p.account, gpucredit.sum('2'::gpucredit.credits), gpucredit.now()
FROM past p GROUP BY p.org, p.account;
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
SELECT count(*) FROM gpucredit.upkeep('fold_spend');
SELECT setval('gpucredit.hold_hold_seq', max(hold)),
	setval('gpucredit.job_job_seq', max(hold)) FROM past;

ALTER TABLE gpucredit.hold ADD CONSTRAINT hold_pkey PRIMARY KEY (org, hold);
ALTER TABLE gpucredit.hold_part ADD CONSTRAINT hold_part_pkey
	PRIMARY KEY (org, hold, part);
ALTER TABLE gpucredit.entry ADD CONSTRAINT entry_pkey
	PRIMARY KEY (org, bucket, entry);
CREATE INDEX entry_id ON gpucredit.entry (entry);
CREATE INDEX entry_pages ON gpucredit.entry
	USING brin (at, job pg_catalog.int8_minmax_multi_ops)
	WITH (pages_per_range = 32, autosummarize = on);
CREATE TABLE bench.live (n int PRIMARY KEY, org text, job bigint);
VACUUM ANALYZE;
CHECKPOINT;

-- Every organisation is called once: a page's first change after a
-- checkpoint is written to the log whole, which is no cost of a call.
DO $$
DECLARE
	tenant text;
BEGIN
	FOR tenant IN SELECT org FROM gpucredit.account WHERE account = '' LOOP
		PERFORM gpucredit.cancel(tenant, r.job, 'warmed')
		FROM gpucredit.reserve(tenant, '0', 'warm', '1xH100', '4 hours',
			'production_inference') r;
	END LOOP;
END
$$;
