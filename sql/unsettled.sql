-- A running attempt counts when it is used: by day, by month, in alerts, burn
-- rate and reports. A month that is over never changes, and all months come to
-- the bill.
SET client_min_messages = warning;
DROP EXTENSION IF EXISTS gpucredit CASCADE;	-- numbers start from 1
CREATE EXTENSION gpucredit_report CASCADE;
RESET client_min_messages;
SET search_path = gpucredit, public;
\set SHOW_CONTEXT never
SET timezone = 'America/New_York';	-- days and months are of UTC all the same
SET datestyle = 'ISO';
\pset format unaligned

CREATE FUNCTION pg_temp.at(clock text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('gpucredit.clock', clock, false);
	PERFORM FROM gpucredit.node n, gpucredit.heartbeat(n.node);
END
$$;
-- an hour of T4s, used and settled
CREATE FUNCTION pg_temp.small(key text, org text DEFAULT 'acme', account text DEFAULT 'ops')
RETURNS numeric LANGUAGE plpgsql AS $$
DECLARE
	j bigint := (gpucredit.reserve(org, account, key, '1xT4', '2 h')).job;
	began timestamptz := gpucredit.now();
BEGIN
	PERFORM FROM gpucredit.place();
	PERFORM set_config('gpucredit.clock', (began + interval '1 hour')::text, false);
	RETURN (gpucredit.settle(org, j, 1, 'completed', '1 h')).billed;
END
$$;
CREATE FUNCTION pg_temp.alerts() RETURNS TABLE (account text, day text, spent text, average text)
LANGUAGE sql AS $$
	SELECT a.account, a.detail ->> 'day', a.detail ->> 'spent', a.detail ->> 'average'
	FROM gpucredit.alert a WHERE a.kind = 'spend' ORDER BY 2, 1 $$;
-- What was spent and used, where functions differ: by days, months, jobs, the
-- ledger, by what ran, and by what was settled.
CREATE FUNCTION pg_temp.differences() RETURNS TABLE (org text, told jsonb)
LANGUAGE sql AS $$
	SELECT a.org, to_jsonb(t)
	FROM gpucredit.account a
		CROSS JOIN LATERAL (SELECT array_agg(v.by) AS by,
				count(DISTINCT v.spent) AS spends, array_agg(v.spent) AS spent,
				count(DISTINCT v.refunded) AS refunds, array_agg(v.refunded) AS refunded,
				count(DISTINCT round(v.gpu_hours, 3)) AS uses, array_agg(v.gpu_hours) AS gpu_hours
			FROM (SELECT b.by, sum(u.spent), sum(u.refunded), sum(u.gpu_hours)
					FROM unnest('{day,job,account}'::text[]) b (by), gpucredit.usage_by(a.org, by => b.by) u
					GROUP BY b.by
				UNION ALL
				SELECT 'weeks of their own', sum(u.spent), sum(u.refunded), sum(u.gpu_hours)
				FROM generate_series(timestamptz '2031-01-01 00:00+00', gpucredit.now(), '7 days') d,
					gpucredit.usage_by(a.org, '', d, d + interval '7 days', 'job') u
				UNION ALL
				SELECT 'invoice', sum(i.spent), sum(i.refunded), sum(i.gpu_hours)
				FROM generate_series(timestamp '2031-01-01', gpucredit.now() AT TIME ZONE 'UTC', '1 month') m,
					gpucredit.invoice(a.org, m::date) i
				UNION ALL
				SELECT 'statement', sum(s.amount) FILTER (WHERE s.target = 'spent'),
					coalesce(sum(s.amount) FILTER (WHERE s.source = 'spent'), 0), NULL
				FROM gpucredit.statement(a.org) s
				UNION ALL
				SELECT 'attempts', sum(r.billed)::numeric, NULL,
					sum(r.gpus * r.share / 1000.0 * extract(epoch FROM r.elapsed) / 3600)
				FROM gpucredit.attempt r WHERE r.org = a.org) AS v (by, spent, refunded, gpu_hours)) t
	WHERE a.account = '' AND greatest(t.spends, t.refunds, t.uses) > 1 $$;

SELECT pg_temp.at('2031-01-20 00:00+00') \g /dev/null
SELECT create_account('acme', a) FROM unnest('{"",ops,vision,vision/alice}'::text[]) a \g /dev/null
SELECT grant_tier('acme', '', 'production_inference') \g /dev/null
SELECT create_account('zeta'), grant_tier('zeta', '', 'production_inference'), set_price('H100', 5), set_price('T4', 1),
	issue('acme', '', 'i', 100000), issue('zeta', '', 'i', 100000) \g /dev/null
SELECT register_node('default', 'h1', 'H100', 8, 81920), register_node('default', 't1', 'T4', 4, 16384) \g /dev/null

--
-- A job of three days over the end of January. Each day before cost 1.
--
SELECT pg_temp.at(d || ' 10:00+00'), pg_temp.small('s' || d)
FROM unnest('{2031-01-20,2031-01-21,2031-01-22,2031-01-23,2031-01-24,2031-01-25,2031-01-26,2031-01-27,2031-01-28}'::text[]) d \g /dev/null
SELECT maintain() \g /dev/null
SELECT pg_temp.at('2031-01-29 12:00+00'), set_budget('acme', 'vision', 240, 'month', false, '{0.5}') \g /dev/null
SELECT job FROM reserve('acme', 'vision/alice', 'long', '2xH100', '100 h', 'production_inference', hold_window => '6 h') \gset
SELECT action FROM place();
SELECT billed FROM meter('acme', :job, 1, '0');
-- nothing of it is settled, and the day is expensive already
SELECT pg_temp.at('2031-01-29 18:00+00') \g /dev/null
SELECT billed FROM meter('acme', :job, 1, '6 h');
SELECT maintain() \g /dev/null
SELECT * FROM pg_temp.alerts();
-- the budget counts it, too: as held
SELECT account, detail ->> 'taken' AS taken FROM alert WHERE kind = 'budget';
SELECT spent, used FROM balance('acme');
SELECT (regexp_match(p, 'data-net="([0-9.]+)"'))[1] AS net, (regexp_match(p, 'data-hours="([0-9.]+)"'))[1] AS hours,
	(regexp_match(p, '[0-9]+ runs?, [^<]*'))[1] AS runs
FROM report_html('acme') p;
SELECT * FROM usage_by('acme', since => '2031-01-28', by => 'day');
SELECT item, spent, accrued, jobs FROM usage_by('acme', 'vision', by => 'account');
SELECT sum(accrued) = (SELECT used FROM balance('acme')) AS accrued_is_used FROM usage_by('acme');
SELECT account, per_day FROM gpucredit_internal.spend_rate('{acme,acme}', '{"",vision}', gpucredit.now()) ORDER BY 1;
SELECT org, per_day FROM burn_rate();
SELECT rank, job, net, spent, gpu_hours, accrued FROM top_jobs('acme', 1);

-- metered hourly; a heartbeat that logs no usage counts now, not in the past
SELECT pg_temp.at((timestamptz '2031-01-29 12:00+00' + n * interval '1 h')::text),
	meter('acme', :job, 1, n * interval '1 h')
FROM generate_series(7, 11) n \g /dev/null
SELECT pg_temp.at('2031-01-29 23:58+00') \g /dev/null
SELECT billed FROM meter('acme', :job, 1, '11:58');
SELECT pg_temp.at('2031-01-29 23:59+00') \g /dev/null
SELECT billed FROM meter('acme', :job, 1, '11:59');
SELECT item, spent FROM usage_by('acme', 'vision', '2031-01-29', by => 'day');
SELECT count(*) FROM accrued;
SELECT pg_temp.at('2031-01-30 00:00+00') \g /dev/null
SELECT item, spent FROM usage_by('acme', 'vision', '2031-01-29', by => 'day');
SELECT billed FROM meter('acme', :job, 1, '12 h');
SELECT item, spent FROM usage_by('acme', 'vision', '2031-01-29', by => 'day');
SELECT pg_temp.at('2031-01-30 01:00+00') \g /dev/null
SELECT billed FROM meter('acme', :job, 1, '13 h');
SELECT * FROM accrued;
SELECT item, spent FROM usage_by('acme', 'vision', '2031-01-29', by => 'day');

-- each day is more expensive for the organisation; for the project only the
-- third one, as the first was half a day
SELECT pg_temp.at((timestamptz '2031-01-29 12:00+00' + n * interval '1 h')::text),
	meter('acme', :job, 1, n * interval '1 h')
FROM generate_series(14, 59) n \g /dev/null
SELECT maintain() \g /dev/null
SELECT * FROM pg_temp.alerts();
-- alerts and burn_rate() read sums by account and day, so they read no job
BEGIN;
CREATE TEMP VIEW scans AS SELECT sum(coalesce(seq_scan, 0) + coalesce(idx_scan, 0)) AS n FROM pg_stat_xact_user_tables
WHERE schemaname = 'gpucredit' AND relname IN ('job', 'attempt', 'usage', 'accrued', 'entry');
SELECT n AS before FROM scans \gset
SELECT count(*) FROM upkeep('raise_alerts');
SELECT org, available, held, per_day FROM burn_rate();
SELECT n - :before AS scans FROM scans;
ROLLBACK;
-- January's last usage was logged an hour before its end; the invoice is made
-- a microsecond after it
SELECT pg_temp.at('2031-02-01 00:00:00.000001+00') \g /dev/null
CREATE TEMP TABLE issued AS SELECT i.* FROM invoice('acme', '2031-01-01') i;
SELECT account, tier, gpu_type, gpu_hours, amount, accrued FROM issued;
SELECT sum(i.amount) = (SELECT sum(u.net) FROM usage_by('acme', until => '2031-02-01 00:00+00') u) AS same
FROM issued i;
SELECT billed FROM meter('acme', :job, 1, '60 h');
SELECT pg_temp.at('2031-02-01 09:00+00') \g /dev/null
SELECT billed FROM meter('acme', :job, 1, '69 h');
SELECT count(*) FROM (TABLE issued EXCEPT ALL SELECT * FROM invoice('acme', '2031-01-01')) d;
-- the job ends; the day on which its whole bill is booked is not expensive by
-- that
SELECT pg_temp.at('2031-02-01 10:00+00') \g /dev/null
SELECT billed, job_state FROM settle('acme', :job, 1, 'completed', '70 h');
SELECT maintain() \g /dev/null
SELECT * FROM pg_temp.alerts();
SELECT item, spent, accrued, gpu_hours FROM usage_by('acme', 'vision', by => 'day');
SELECT count(*) FROM (TABLE issued EXCEPT ALL SELECT * FROM invoice('acme', '2031-01-01')) d;
SELECT account, gpu_type, gpu_hours, amount, accrued FROM invoice('acme', '2031-02-01');
SELECT (SELECT sum(amount) FROM invoice('acme', '2031-01-01'))
	+ (SELECT sum(amount) FROM invoice('acme', '2031-02-01')) AS invoiced, spent
FROM balance('acme');
SELECT day, elapsed, billed FROM accrued ORDER BY day;
-- what accounts spent and used each day is what usage_by() computes from runs
SELECT day, spent, used FROM spend_day WHERE org = 'acme' AND account = 'vision' ORDER BY day;
SELECT count(*) FROM (SELECT to_char(day, 'YYYY-MM-DD'), spent + used FROM spend_day WHERE org = 'acme' AND account = 'vision'
	EXCEPT ALL SELECT item, spent FROM usage_by('acme', 'vision', by => 'day')) d;
SELECT * FROM pg_temp.differences();
SELECT * FROM verify();

--
-- Price x time that is no whole micro-credit is rounded once: all spans of a
-- run add up to its bill
--
SELECT set_price('T4', 0.000777) \g /dev/null
SELECT pg_temp.at('2031-02-10 23:20:11.3+00') \g /dev/null
SELECT job FROM reserve('zeta', '', 'odd', '3xT4', '50 h', 'production_inference', preemptible => 'never') \gset
SELECT action FROM place();
SELECT pg_temp.at((timestamptz '2031-02-10 23:20:11.3+00' + n * interval '00:06:41.7')::text),
	meter('zeta', :job, 1, n * interval '00:06:41.123457')
FROM generate_series(1, 300) n \g /dev/null
SELECT billed FROM settle('zeta', :job, 1, 'completed', '33:20:07.654321');
SELECT b.spans, sum(u.spent) AS spent, count(*) FILTER (WHERE u.spent < 0) AS below_0
FROM (VALUES (interval '1 h'), ('7 h 11 min'), ('1 d'), ('13 min')) AS b (spans),
	generate_series(timestamptz '2031-02-10 20:00+00', '2031-02-13 00:00+00', b.spans) AS s (since),
	usage_by('zeta', '', s.since, s.since + b.spans) u
GROUP BY b.spans ORDER BY 1;

--
-- Silent over two midnights: its use counts as far as it was known
--
SET gpucredit.node_lost = 0;
SET gpucredit.node_suspect = 0;
SELECT pg_temp.at('2031-03-01 22:00+00') \g /dev/null
SELECT job FROM reserve('zeta', '', 'silent', '1xH100', '200 h', 'production_inference', max_retries => 0) \gset
SELECT action FROM place();
SELECT pg_temp.at('2031-03-01 23:00+00') \g /dev/null
SELECT billed FROM meter('zeta', :job, 1, '1 h');
SELECT pg_temp.at('2031-03-03 12:00+00') \g /dev/null
CREATE TEMP TABLE told AS SELECT u.item, u.spent FROM usage_by('zeta', '', '2031-03-01', by => 'day') u;
SELECT * FROM told;
SELECT billed FROM settle('zeta', :job, 1, 'failed', '38 h');
SELECT day, elapsed, billed FROM accrued WHERE org = 'zeta' AND day >= '2031-03-01' ORDER BY day;
SELECT item, spent FROM usage_by('zeta', '', '2031-03-01', by => 'day');
SELECT * FROM pg_temp.differences();

--
-- A late finish in another month: what was settled before stays on its days,
-- and what the late report adds belongs to that report's day
--
SELECT pg_temp.at('2031-03-28 22:00+00') \g /dev/null
SELECT create_account('tardy'), grant_tier('tardy', '', 'production_inference'), issue('tardy', '', 'i', 750), set_price('T4', 1),
	set_tier('free', 5, 'capacity', false, max_wall => '1000 h', bill_lost_work => false) \g /dev/null
SELECT jsonb_object_agg(k, job) AS jobs
FROM unnest('{done,free,on,dry}'::text[]) k,
	reserve('tardy', '', k, '1xH100', '100 h', CASE k WHEN 'free' THEN 'free' ELSE 'production_inference' END,
		hold_window => '30 h') \gset
SELECT count(*) FROM place();
SELECT pg_temp.at((timestamptz '2031-03-28 22:00+00' + n * interval '9 h')::text),
	(SELECT count(meter('tardy', value::bigint, 1, n * interval '9 h')) FROM jsonb_each_text(:'jobs'))
FROM generate_series(0, 3) n \g /dev/null
-- an owner ends one job, which runs on; the server gives up the others
SELECT pg_temp.at('2031-03-30 01:05+00') \g /dev/null
CREATE ROLE ac_app IN ROLE gpucredit_app;
SELECT :'jobs'::jsonb ->> 'on' AS on, :'jobs'::jsonb ->> 'done' AS done, :'jobs'::jsonb ->> 'free' AS free,
	:'jobs'::jsonb ->> 'dry' AS dry \gset
SET ROLE ac_app;
SELECT billed, job_state FROM settle('tardy', :on, 1, 'completed');
RESET ROLE;
SELECT pg_temp.at('2031-03-30 02:00+00') \g /dev/null
SELECT task, affected FROM reap_holds() WHERE affected > 0;
SELECT item, spent, refunded, accrued, gpu_hours FROM usage_by('tardy', by => 'day');
-- March is over, and its invoice was sent
SELECT pg_temp.at('2031-04-01 00:00:00.000001+00') \g /dev/null
INSERT INTO issued SELECT i.* FROM invoice('tardy', '2031-03-01') i;
CREATE TEMP TABLE march AS SELECT u.* FROM usage_by('tardy', by => 'day') u;
CREATE TEMP TABLE march_page AS
SELECT gpucredit_report.report_lines(r) AS line FROM gpucredit_report.report_about('tardy', '2031-03-28 00:00+00', '2031-03-31 00:00+00') r;
CREATE TEMP TABLE march_hours AS
SELECT gpucredit_report.report_hours(r, ARRAY(SELECT gpucredit_report.report_lines(r))) AS line FROM gpucredit_report.report_about('tardy', '2031-03-28 00:00+00', '2031-03-31 00:00+00') r;
SELECT tier, jobs, gpu_hours, spent, refunded, accrued FROM issued WHERE line > 1 OR account = '';
-- then their agents report
SELECT pg_temp.at('2031-04-02 06:00+00') \g /dev/null
SELECT billed, refunded, uncollected, job_state FROM settle('tardy', :free, 1, 'completed', '40 h');
SELECT billed, refunded, uncollected, job_state FROM settle('tardy', :on, 1, 'failed', '29 h');
SELECT billed, refunded, uncollected, job_state FROM settle('tardy', :done, 1, 'completed', '50 h');
SELECT pg_temp.at('2031-04-03 07:00+00') \g /dev/null
SELECT refunded FROM refund('tardy', :done, 'back', 7.5, 'slow');
SELECT billed, refunded, uncollected, job_state FROM settle('tardy', :dry, 1, 'completed', '100 h');
SELECT item, spent, refunded, accrued, gpu_hours FROM usage_by('tardy', by => 'day');
SELECT tier, jobs, gpu_hours, spent, refunded, amount, accrued, uncollected FROM invoice('tardy', '2031-04-01');
SELECT sum(a.uncollected)::numeric AS uncollected, sum(a.late_uncollected)::numeric AS late FROM attempt a WHERE a.org = 'tardy';
SELECT (regexp_match(regexp_replace(report_html('tardy', '2031-03-20 00:00+00'), '<[^>]*>', '', 'g'), '(credits, less [^A]* not collected)'))[1] AS net;
SELECT count(*) FROM accrued WHERE org = 'tardy';
-- nothing in March has changed
CREATE FUNCTION pg_temp.march_changes() RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM (
		(SELECT to_jsonb(i) FROM issued i WHERE i.account = '' EXCEPT ALL
			SELECT to_jsonb(i) FROM gpucredit.invoice('tardy', '2031-03-01') i)
		UNION ALL
		(SELECT to_jsonb(m) FROM march m EXCEPT ALL SELECT to_jsonb(u) FROM gpucredit.usage_by('tardy', by => 'day') u)
		UNION ALL
		(SELECT to_jsonb(m) FROM march_page m EXCEPT ALL SELECT to_jsonb(n)
			FROM (SELECT gpucredit_report.report_lines(r) AS line
				FROM gpucredit_report.report_about('tardy', '2031-03-28 00:00+00', '2031-03-31 00:00+00') r) n)
		UNION ALL
		(SELECT to_jsonb(m) FROM march_hours m EXCEPT ALL SELECT to_jsonb(n)
			FROM (SELECT gpucredit_report.report_hours(r, ARRAY(SELECT gpucredit_report.report_lines(r))) AS line
				FROM gpucredit_report.report_about('tardy', '2031-03-28 00:00+00', '2031-03-31 00:00+00') r) n)) d $$;
SELECT pg_temp.march_changes();
SELECT * FROM pg_temp.differences();
-- each hour, day and week of the page is what usage_by answers
SELECT s.since, gpucredit_report.report_step(r) AS step, count(l) AS bars, sum(l.spent) AS spent,
	count(*) FILTER (WHERE (l.spent, l.refunded) IS DISTINCT FROM (u.spent, u.refunded)) AS others
FROM (VALUES ('2031-03-28 00:00+00'::timestamptz, '2031-03-31 00:00+00'::timestamptz),
		('2031-03-29 01:30+00', '2031-03-30 23:30+00'), ('2031-03-20 00:00+00', NULL),
		('2031-01-02 00:00+00', NULL)) AS s (since, until)
	CROSS JOIN LATERAL gpucredit_report.report_about(NULL, s.since, s.until) r
	CROSS JOIN LATERAL gpucredit_report.report_lines(r) l
	CROSS JOIN LATERAL (SELECT coalesce(sum(u.spent), 0) AS spent, coalesce(sum(u.refunded), 0) AS refunded
		FROM usage_by(NULL, '', greatest(l.bin, s.since), least(l.bin + gpucredit_report.report_step(r), s.until), 'organisation') u) u
WHERE l.kind = 'time' GROUP BY 1, 2 ORDER BY 1;
SELECT * FROM verify();
DROP ROLE ac_app;
RESET gpucredit.node_lost;
RESET gpucredit.node_suspect;

--
-- Many at once, by meter_batch; one began today, one has no GPUs
--
SELECT pg_temp.at('2031-04-30 20:00+00') \g /dev/null
SELECT array_agg(job ORDER BY job) AS jobs FROM generate_series(1, 3) n, reserve('acme', 'ops', 'b' || n, '1xH100', '20 h') \gset
SELECT job AS bare FROM reserve('acme', 'ops', 'bare', '0', '20 h', cpu_milli => 100) \gset
SELECT count(*) FROM place();
SELECT pg_temp.at('2031-04-30 21:00+00') \g /dev/null
SELECT count(*) FROM meter_batch('{acme,acme,acme,acme}', :'jobs'::bigint[] || :bare, '{1,1,1,1}', '{1 h,1 h,30 min,1 h}');
SELECT pg_temp.at('2031-05-01 02:00+00') \g /dev/null
SELECT job AS young FROM reserve('acme', 'ops', 'young', '1xH100', '20 h') \gset
SELECT count(*) FROM place();
SELECT pg_temp.at('2031-05-01 03:00+00') \g /dev/null
SELECT count(*) FROM meter_batch('{acme,acme,acme,acme,acme}', :'jobs'::bigint[] || ARRAY[:bare, :young]::bigint[],
	'{1,1,1,1,1}', '{7 h,6 h,5 h,7 h,1 h}');
SELECT job - (:'jobs'::bigint[])[1] AS job, day, elapsed, billed FROM accrued WHERE day = '2031-04-30' ORDER BY job;
-- lost work that is not billed goes back when the attempt is settled
SELECT set_lost_work('standard_training', 'node_lost', false) \g /dev/null
SELECT billed, refunded FROM settle('acme', (:'jobs'::bigint[])[1], 1, 'node_lost', '7 h');
SELECT item, spent, refunded, net, accrued FROM usage_by('acme', 'ops', '2031-04-30', by => 'day,job');

--
-- The month's figures do not need old usage rows
--
CREATE TEMP TABLE before AS
SELECT a.org, m.month::date AS month, i.*
FROM account a, generate_series('2031-01-01'::timestamp, '2031-05-01', '1 month') AS m (month), invoice(a.org, m.month::date) i
WHERE a.account = '';
CREATE TEMP TABLE days AS
SELECT a.org, u.* FROM account a, usage_by(a.org, by => 'day,account') u WHERE a.account = '';
SELECT count(*) FROM usage;
SELECT settle('acme', j, 1, 'completed') FROM unnest(:'jobs'::bigint[]) j OFFSET 1 \g /dev/null
SELECT settle('acme', :young, 1, 'completed') \g /dev/null
SET gpucredit.usage_retention = '1 min';
SELECT pg_temp.at('2031-06-01 00:00+00') \g /dev/null
SELECT affected > 0 AS left_now FROM maintain() WHERE task = 'forget_usage';
SELECT count(*) FROM usage;
SELECT count(*) FROM (SELECT b.* FROM before b WHERE b.month < '2031-05-01' EXCEPT ALL
	SELECT a.org, m.month::date AS month, i.*
	FROM account a, generate_series('2031-01-01'::timestamp, '2031-05-01', '1 month') AS m (month), invoice(a.org, m.month::date) i
	WHERE a.account = '') d;
SELECT count(*) FROM (SELECT d.item, d.spent FROM days d WHERE d.item < '2031-05' EXCEPT ALL
	SELECT u.item, u.spent FROM account a, usage_by(a.org, by => 'day,account') u WHERE a.account = '') d;
SELECT a.org, b.spent = sum(i.amount) AS months_come_to_what_was_spent
FROM account a, generate_series('2031-01-01'::timestamp, '2031-06-01', '1 month') AS m (month),
	invoice(a.org, m.month::date) i, balance(a.org) b
WHERE a.account = '' GROUP BY a.org, b.spent ORDER BY 1;
SELECT pg_temp.march_changes();
SELECT * FROM pg_temp.differences();
SELECT * FROM verify();

--
-- Several dimensions; all organisations
--
SELECT item, keys, spent FROM usage_by('acme', by => 'project,type') ORDER BY item;
SELECT item, spent FROM usage_by('acme', '', '2031-01-29', '2031-02-02', 'user, pool,day');
SELECT item, keys FROM usage_by(NULL, by => 'organisation,job') LIMIT 3;
SELECT item, net FROM usage_by(NULL, by => 'organisation');
SELECT rank, organisation, account, net FROM top_spenders();
SELECT rank, organisation, job, net FROM top_jobs(k => 2);
SELECT * FROM usage_by('acme', by => 'type,gpu_type,type');
SELECT * FROM usage_by('acme', by => '');
SELECT * FROM usage_by(NULL, 'vision');
-- a bound caller that names no organisation sees its own part
CREATE ROLE ac_vision IN ROLE gpucredit_tenant;
SET ROLE ac_vision;
SELECT * FROM top_spenders();
RESET ROLE;
SELECT bind_tenant('ac_vision', 'acme', 'vision') \g /dev/null
SET ROLE ac_vision;
SELECT rank, organisation, account, net FROM top_spenders();
SELECT item, net FROM usage_by(NULL, by => 'organisation,account');
SELECT rank, organisation, job, net FROM top_jobs();
SELECT * FROM accrued;
RESET ROLE;
SELECT unbind_tenant('ac_vision', 'acme', 'vision') \g /dev/null
DROP ROLE ac_vision;
SET ROLE gpucredit_operator;
SELECT rank, organisation, account FROM top_spenders(k => 1);
RESET ROLE;

--
-- verify finds what differs from usage; nothing changes or deletes a row
--
UPDATE accrued SET billed = '1';
SET gpucredit.usage_retention = 0;
SELECT pg_temp.at('2031-07-01 20:00+00') \g /dev/null
SELECT job FROM reserve('acme', 'ops', 'wrong', '1xH100', '90 h', 'production_inference') \gset
SELECT action FROM place();
SELECT pg_temp.at(t), meter('acme', :job, 1, t::timestamptz - '2031-07-01 20:00+00')
FROM unnest('{2031-07-01 22:00+00,2031-07-02 22:00+00,2031-07-03 22:00+00,2031-07-04 01:00+00}'::text[]) t \g /dev/null
SELECT * FROM verify();
BEGIN;
SET LOCAL session_replication_role = replica;
ALTER TABLE accrued DISABLE TRIGGER accrued_append_only;
DELETE FROM accrued WHERE job = :job AND day = '2031-07-02';
UPDATE accrued SET billed = '9999' WHERE job = :job AND day = '2031-07-03';
SELECT invariant, detail FROM verify('acme') ORDER BY 1, 2;
ROLLBACK;
SELECT * FROM verify();

--
-- Of many attempts, the latest heartbeats before an instant give what a look
-- at each gives: some just before it, some long before, some none yet
--
SELECT pg_temp.at('2031-07-05 10:00+00') \g /dev/null
SELECT create_account('wide'), grant_tier('wide', '', 'production_inference'), issue('wide', '', 'i', 100000), set_price('L4', 1) \g /dev/null
SELECT register_node('default', 'l' || n, 'L4', 64, 24576) FROM generate_series(1, 4) n \g /dev/null
SELECT array_agg(job ORDER BY job) AS jobs
FROM generate_series(1, 240) n, reserve('wide', '', 'w' || n, '1xL4', '20 h', 'production_inference') \gset
SELECT count(*) FROM place() WHERE org = 'wide';
SELECT count(*) FROM unnest('{30,50,57,62,115,175}'::int[]) WITH ORDINALITY AS m (m, n)
	CROSS JOIN LATERAL pg_temp.at((timestamptz '2031-07-05 10:00+00' + m * interval '1 min')::text)
	CROSS JOIN LATERAL (SELECT array_agg(j) AS j FROM unnest(:'jobs'::bigint[]) j WHERE j % 7 >= n) j
	CROSS JOIN LATERAL meter_batch(array_fill('wide'::text, ARRAY[cardinality(j.j)]), j.j,
		array_fill(1, ARRAY[cardinality(j.j)]), array_fill(m * interval '1 min', ARRAY[cardinality(j.j)]));
SELECT a.instant, count(*), count(DISTINCT a.billed) AS bills,
	count(*) FILTER (WHERE (a.elapsed, a.billed) IS DISTINCT FROM (u.elapsed, u.billed::numeric)) AS others
FROM gpucredit_internal.accrued_at('{wide}', ARRAY(SELECT '2031-07-05 10:00+00'::timestamptz + h * interval '1 hour' FROM generate_series(1, 3) h)) a
	LEFT JOIN LATERAL (SELECT u.elapsed, u.billed FROM usage u
		WHERE u.org = a.org AND u.job = a.job AND u.attempt = a.attempt AND u.at < a.instant
		ORDER BY u.at DESC LIMIT 1) u ON true
GROUP BY 1 ORDER BY 1;
SELECT l.bin, l.spent, u.spent AS usage_by FROM gpucredit_report.report_about('wide', '2031-07-05 10:30+00', '2031-07-05 12:50+00') r
	CROSS JOIN LATERAL gpucredit_report.report_lines(r) l
	CROSS JOIN LATERAL (SELECT sum(u.spent) AS spent
		FROM usage_by('wide', '', greatest(l.bin, r.since), least(l.bin + interval '1 hour', r.until)) u) u
WHERE l.kind = 'time' ORDER BY 1;
SELECT * FROM verify();

--
-- The first and the last day there is, with a running attempt
--
BEGIN;
SET LOCAL gpucredit.clock = '294276-12-31 23:00+00';
SELECT count(*) FROM maintain();
SELECT item, spent FROM usage_by('acme', since => '2031-07-01', by => 'day');
SELECT item, spent FROM usage_by('acme', since => '2031-08-01', by => 'day');
SELECT count(*) FROM invoice('acme', '2031-07-01');
SET LOCAL gpucredit.clock = '4713-12-01 00:00+00 BC';
SELECT count(*) FROM maintain();
SELECT count(*) FROM burn_rate();
ROLLBACK;
