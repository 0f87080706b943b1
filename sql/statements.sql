-- What was spent, on what, in a span of time; invoices to the last
-- micro-credit.
SET client_min_messages = warning;
DROP EXTENSION IF EXISTS gpucredit CASCADE;	-- numbers start from 1
CREATE EXTENSION gpucredit;
RESET client_min_messages;
SET timezone = 'America/New_York';	-- months and days are of UTC all the same
SET datestyle = 'SQL, DMY';
SET search_path = public, gpucredit;
\set SHOW_CONTEXT never
\pset format unaligned

CREATE FUNCTION pg_temp.at(clock text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('gpucredit.clock', clock, false);
	PERFORM FROM gpucredit.node n, gpucredit.heartbeat(n.node, running => '{}');
END
$$;
SELECT pg_temp.at('2026-01-15 00:00+00') \g /dev/null
SELECT create_account('acme', a) FROM unnest('{"",vision,vision/alice,vision-2,
	"vis_on",speech}'::text[]) a \g /dev/null
SELECT create_account('zeta') \g /dev/null
SELECT set_price('H100', 6) \g /dev/null
SELECT set_price('T4', 1) \g /dev/null
SELECT register_node('default', 'h1', 'H100', 8, 81920) \g /dev/null
SELECT register_node('default', 't1', 'T4', 4, 16384) \g /dev/null
SELECT issue('acme', '', 'i1', 1000) \g /dev/null
SELECT issue('acme', 'vision', 'i2', 10, 'promo') \g /dev/null
SELECT issue('zeta', '', 'i1', 1000) \g /dev/null

-- in January: two jobs of vision, one below it, one of speech, a hold without
-- a job, another organisation
SELECT job FROM reserve('acme', 'vision', 'j1', '2xH100', '2 h');
SELECT job FROM reserve('acme', 'vision/alice', 'j2', '0.5xT4', '4 h',
	tier => 'interactive');
SELECT job FROM reserve('acme', 'speech', 'j3', '1xT4', '4 h');
SELECT job FROM reserve('acme', 'vis_on', 'j4', '1xT4', '4 h');
SELECT job FROM reserve('zeta', '', 'j1', '4xH100', '1 h');
SELECT count(*) FROM place();
SELECT pg_temp.at('2026-01-15 01:00+00') \g /dev/null
SELECT billed, job_state FROM settle('acme', 1, 1, 'preempted', '1 h');
SELECT billed FROM settle('acme', 2, 1, 'completed', '20 min 0.000001 s');
SELECT billed FROM settle('acme', 3, 1, 'completed', '1 h');
SELECT billed FROM settle('acme', 4, 1, 'completed', '30 min');
SELECT billed FROM settle('zeta', 5, 1, 'completed', '1 h');
SELECT hold FROM hold('acme', 'speech', 'h1', 9, '30 days') \gset
SELECT captured FROM capture('acme', :hold, 'c1', 2.5, false);
-- the first job's second attempt runs over the end of the month
SELECT pg_temp.at('2026-01-31 23:00+00') \g /dev/null
SELECT attempt FROM place();
SELECT billed FROM meter('acme', 1, 2, '0');
SELECT pg_temp.at('2026-01-31 23:59:59.999999+00') \g /dev/null
SELECT billed FROM meter('acme', 1, 2, '59 min 59.999999 s');
SELECT captured FROM capture('acme', :hold, 'c2', 0.000001, false);
SELECT refunded FROM refund('acme', 3, 'f1', 0.25, 'slow disk');
-- February begins
SELECT pg_temp.at('2026-02-01 00:00+00') \g /dev/null
SELECT captured FROM capture('acme', :hold, 'c3', 1);
SELECT pg_temp.at('2026-02-01 00:30+00') \g /dev/null
SELECT billed FROM settle('acme', 1, 2, 'completed', '90 min');
SELECT refunded FROM refund('acme', 2, 'f2', 0.1, 'all of January');
SELECT refunded FROM refund_hold('acme', :hold, 'f3', 2.5, 'wrong account');

--
-- By every dimension, over every span
--
SELECT * FROM usage_by('acme', '', NULL, NULL, 'account');
SELECT * FROM usage_by('acme', '', NULL, NULL, 'tier');
SELECT * FROM usage_by('acme', '', NULL, NULL, 'gpu_type');
SELECT * FROM usage_by('acme', '', NULL, NULL, 'day');
SELECT * FROM usage_by('acme', '', NULL, NULL, 'job');
-- an account and all below it, but no sibling with a similar name
SELECT * FROM usage_by('acme', 'vision', NULL, NULL, 'account');
SELECT * FROM usage_by('acme', 'vis_on', NULL, NULL, 'account');
SELECT * FROM usage_by('acme', 'vision-2', NULL, NULL, 'account');
-- [since, until): an instant belongs to one of two adjacent spans
SELECT item, net FROM usage_by('acme', '', '2026-01-31 23:59:59.999999+00',
	'2026-02-01 00:00+00', 'account');
SELECT item, net FROM usage_by('acme', '', '2026-02-01 00:00+00',
	'2026-02-01 00:00:00.000001+00', 'account');
SELECT count(*) FROM usage_by('acme', '', '2026-02-01', '2026-02-01', 'job');
SELECT count(*) FROM usage_by('acme', '', '2027-01-01', NULL, 'job');
-- every dimension gives the same sum, and the one that balance gives
SELECT b.by, sum(u.net) = b.spent AS same, u.spans
FROM (SELECT 'account,tier,gpu_type,day,job'::text AS words, spent
		FROM balance('acme')) a,
	LATERAL (SELECT w AS by, a.spent FROM regexp_split_to_table(a.words, ',') w) b,
	LATERAL (SELECT sum(net) AS net, count(*) > 0 AS spans
		FROM usage_by('acme', '', NULL, NULL, b.by)) u
GROUP BY b.by, b.spent, u.spans ORDER BY 1;

--
-- Who and what spent most
--
SELECT * FROM top_spenders('acme', 2, NULL);
SELECT * FROM top_spenders('acme', 100, '2026-02-01 00:00+00');
SELECT * FROM top_jobs('acme', 2, NULL);
SELECT * FROM top_jobs('acme', 100, '2026-02-01 00:00+00');
SELECT * FROM top_jobs('zeta', 1, NULL);

--
-- Invoices
--
SELECT * FROM invoice('acme', '2026-01-01');
SELECT * FROM invoice('acme', '2026-02-28');
SELECT * FROM invoice('acme', '2026-03-01');
-- each month's lines make its entries and what accrued beside them; all
-- months' lines make what was spent
SELECT to_char(m.month, 'YYYY-MM') AS month, i.lines, i.amount,
	i.amount = e.amount + i.accrued AS same, i.accrued
FROM generate_series('2025-12-01'::timestamp, '2026-03-01', '1 month') AS m (month),
	LATERAL (SELECT count(*) AS lines, coalesce(sum(amount), 0) AS amount,
		coalesce(sum(accrued), 0) AS accrued
		FROM invoice('acme', m.month::date)) i,
	LATERAL (SELECT coalesce(sum(CASE 'spent' WHEN target THEN amount
			WHEN source THEN - amount END), '0')::numeric AS amount
		FROM entry WHERE org = 'acme'
			AND date_trunc('month', at AT TIME ZONE 'UTC') = m.month) e
ORDER BY 1;
SELECT (SELECT sum(amount) FROM invoice('acme', '2026-01-31'))
	+ (SELECT sum(amount) FROM invoice('acme', '2026-02-01')) AS invoiced,
	spent FROM balance('acme');

--
-- Bad arguments; who may call
--
SELECT * FROM usage_by('acme', '', NULL, NULL, 'node');
SELECT * FROM usage_by('acme', '', NULL, NULL, NULL);
SELECT * FROM usage_by('acme', 'nobody', NULL, NULL, 'day');
SELECT * FROM top_spenders('acme', 0, NULL);
SELECT * FROM top_jobs('acme', NULL, NULL);
SELECT * FROM top_jobs('nobody', 3, NULL);
SELECT * FROM invoice('acme', NULL);
SELECT * FROM invoice('acme', 'infinity');
SELECT * FROM invoice('acme', '5874897-12-31');
SELECT count(*) FROM invoice('acme', '294275-12-31');
SELECT * FROM invoice(NULL, '2026-01-01');
SET ROLE gpucredit_app;
SELECT sum(amount) FROM invoice('acme', '2026-01-01');
SELECT count(*) FROM usage_by('acme', '', NULL, NULL, 'job');
SELECT * FROM gpucredit_internal.spend_line(ARRAY['acme'], '', NULL, NULL, false);
SET ROLE gpucredit_auditor;
SELECT count(*) FROM top_jobs('acme', 9, NULL);
SET ROLE gpucredit_agent;
SELECT count(*) FROM top_spenders('acme', 9, NULL);
RESET ROLE;

--
-- CSV is COPY of any of these functions
--
SELECT create_account('acme', 'lab, "west"') \g /dev/null
SELECT hold FROM hold('acme', 'lab, "west"', 'h2', 3, '1 day') \gset
SELECT captured FROM capture('acme', :hold, 'c4', 1.25) \g /dev/null
COPY (SELECT * FROM statement('acme', 'vision', '2026-02-01 00:00+00')) TO STDOUT CSV HEADER;
COPY (SELECT * FROM usage_by('acme', '', NULL, NULL, 'account')) TO STDOUT CSV HEADER;
COPY (SELECT * FROM usage_by('acme', '', NULL, NULL, 'tier')) TO STDOUT CSV HEADER;
COPY (SELECT * FROM top_spenders('acme', 3, '2026-02-01 00:00+00')) TO STDOUT CSV HEADER;
COPY (SELECT * FROM top_jobs('acme', 2, NULL)) TO STDOUT CSV HEADER;
COPY (SELECT * FROM invoice('acme', '2026-02-01')) TO STDOUT CSV HEADER;
COPY (SELECT * FROM balance('acme', 'vision', '2026-01-15 00:30+00')) TO STDOUT CSV HEADER;
COPY (SELECT * FROM balance('acme', 'vision')) TO STDOUT CSV HEADER;
-- a tenant gets its own lines
CREATE ROLE st_vision IN ROLE gpucredit_tenant;
SELECT bind_tenant('st_vision', 'acme', 'vision') \g /dev/null
SET ROLE st_vision;
COPY (SELECT account, operation, source, target, amount, hold, job, attempt, available
	FROM statement('acme', 'vision/alice')) TO STDOUT CSV;
COPY (SELECT * FROM usage_by('acme', 'vision', NULL, NULL, 'job')) TO STDOUT CSV;
COPY (SELECT * FROM balance('acme', 'vision', '2026-01-15 00:30+00')) TO STDOUT CSV;
COPY (SELECT account, source, target, sum(amount) FROM entry GROUP BY 1, 2, 3 ORDER BY 1, 2, 3) TO STDOUT CSV;
COPY tenant TO STDOUT CSV;
COPY (SELECT * FROM statement('acme', 'speech')) TO STDOUT CSV;
COPY (SELECT * FROM usage_by('acme', '', NULL, NULL, 'job')) TO STDOUT CSV;
-- also where it names no account
COPY (SELECT * FROM invoice('acme', '2026-02-01')) TO STDOUT CSV;
COPY (SELECT * FROM top_spenders('acme', 3, NULL)) TO STDOUT CSV;
COPY (SELECT * FROM top_jobs('acme', 3, NULL)) TO STDOUT CSV;
RESET ROLE;
SELECT unbind_tenant('st_vision', 'acme', 'vision') \g /dev/null
DROP ROLE st_vision;

-- An invoice has a line for each price that was paid: a changed price, a
-- pool's own, and the refund at the price of its job.
SELECT pg_temp.at('2026-04-01 00:00+00') \g /dev/null
SELECT create_account('twice'), create_account('twice', 'lab'), issue('twice', '', 'i', 1000) \g /dev/null
SELECT job AS old FROM reserve('twice', 'lab', 'old', '2xT4', '2 h') \gset
SELECT count(*) FROM place();
SELECT set_price('T4', 1.25) \g /dev/null
SELECT job AS new FROM reserve('twice', 'lab', 'new', '1xT4', '2 h') \gset
SELECT count(*) FROM place();
SELECT pg_temp.at('2026-04-01 01:00+00') \g /dev/null
SELECT billed FROM settle('twice', :old, 1, 'completed', '1 h');
SELECT billed FROM meter('twice', :new, 1, '1 h');
SELECT refunded FROM refund('twice', :old, 'f', 0.5, 'slow');
COPY (SELECT account, gpu_type, jobs, gpu_hours, per_gpu_hour, spent, refunded, amount, accrued
	FROM invoice('twice', '2026-04-01')) TO STDOUT CSV HEADER;
SELECT pg_temp.at('2026-05-01 00:30+00') \g /dev/null
SELECT billed FROM settle('twice', :new, 1, 'completed', '90 min');
-- each line is its price times its hours, and the months add up to what was spent
COPY (SELECT m.month, i.per_gpu_hour, i.gpu_hours, i.spent, round(i.per_gpu_hour * i.gpu_hours, 6) = i.spent AS exact
	FROM unnest('{2026-04-01,2026-05-01}'::date[]) AS m (month), invoice('twice', m.month) i ORDER BY 1, 2) TO STDOUT CSV HEADER;
SELECT sum(i.amount) = (SELECT spent FROM balance('twice')) AS all_of_it
FROM unnest('{2026-04-01,2026-05-01}'::date[]) AS m (month), invoice('twice', m.month) i;

-- A statement shows an expiry once, dated when credit expired, also after it
-- was booked; and so it shows what a dead hold sets free.
SELECT pg_temp.at('2026-06-01 00:00+00') \g /dev/null
SELECT create_account('once'), issue('once', '', 'i', 10, valid_for => '1 day'),
	issue('once', '', 'held over', 20, valid_for => '1 day', priority => 200) \g /dev/null
SELECT status FROM hold('once', '', 'dies', 4, '1 h');
SELECT status FROM hold('once', '', 'dies late', 16, '30 h');
SELECT pg_temp.at('2026-06-03 00:00+00') \g /dev/null
CREATE TEMP TABLE told AS SELECT * FROM statement('once');
COPY (SELECT at, entry, bucket, operation, source, target, amount, hold, available FROM told) TO STDOUT CSV HEADER;
SELECT count(*) > 0 AS reaped FROM reap_holds();
SELECT count(*) > 0 AS booked FROM expire_credits();
COPY (SELECT at, entry, bucket, operation, source, target, amount, hold, available FROM statement('once')) TO STDOUT CSV HEADER;
-- nothing but the entries' numbers has changed, in each span of time
SELECT count(*) AS changed FROM ((SELECT at, bucket, operation, amount, available FROM statement('once')
		WHERE operation IN ('expire', 'free') EXCEPT ALL SELECT at, bucket, operation, amount, available FROM told)
	UNION ALL (SELECT at, bucket, operation, amount, available FROM told
		EXCEPT ALL SELECT at, bucket, operation, amount, available FROM statement('once'))) d;
SELECT count(*) AS later FROM statement('once', '', '2026-06-03 00:00+00') s WHERE s.operation = 'expire';
SELECT available FROM balance('once');
SELECT * FROM verify();

-- a report on many organisations reads the entries once, not once for each
BEGIN;
SELECT count(create_account('many' || i)), count(issue('many' || i, '', 'i', 10)) FROM generate_series(1, 150) i;
SELECT sum(c.captured) FROM (SELECT i, h.hold FROM generate_series(1, 150) i, hold('many' || i, '', 'h', 1, '1 h') h) h,
	capture('many' || h.i, h.hold, 'c', 0.5) c;
CREATE TEMP VIEW scans AS SELECT coalesce(seq_scan, 0) + coalesce(idx_scan, 0) AS n
FROM pg_stat_xact_user_tables WHERE relid = 'gpucredit.entry'::regclass;
SELECT n AS before FROM scans \gset
SELECT count(*), sum(net) FROM top_spenders(k => 1000) WHERE organisation LIKE 'many%';
SELECT n - :before <= 2 AS once FROM scans;
SELECT sum(net) FROM usage_by(NULL, by => 'organisation') WHERE item LIKE 'many%';
ROLLBACK;
