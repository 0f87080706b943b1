--
-- The feed of events: what is in it, in which order, and who reads what.
--
SET search_path = gpucredit, public;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET client_min_messages = warning;
SET gpucredit.clock = '2033-03-01 00:00+00';
CREATE FUNCTION pg_temp.at(text) RETURNS void LANGUAGE sql AS
$$ SELECT set_config('gpucredit.clock', $1, false) $$;
-- numbers what has committed, and shows what this test has not shown yet
CREATE FUNCTION pg_temp.news(org text DEFAULT 'ev') RETURNS TABLE (at timestamptz, kind text,
	account text, job text, attempt int, decision text, reason text, detail jsonb)
LANGUAGE plpgsql AS $$
DECLARE
	seen bigint := coalesce(nullif(current_setting('test.seen', true), ''), '0');
BEGIN
	PERFORM gpucredit.upkeep('number_events');
	PERFORM set_config('test.seen', coalesce(max(e.event), 0)::text, false) FROM gpucredit.event e;
	RETURN QUERY SELECT e.at, e.kind, e.account, r.key, e.attempt, e.decision, e.reason,
		e.detail - '{key,score,turn,released,lapsed,was,waited_us,budgets,buckets,cycle,spec}'::text[]
	FROM gpucredit.event e LEFT JOIN gpucredit.request r ON r.org = e.org
			AND r.operation = 'reserve' AND r.result[1] = e.job::text
	WHERE e.org = news.org AND e.event > seen ORDER BY e.event;
END $$;
SELECT count(*) >= 0 AS numbered FROM upkeep('number_events');
SELECT set_config('test.seen', coalesce(max(event), 0)::text, false) <> '' AS start FROM event;

SELECT create_account('ev'), create_account('ev', 'lab'), create_account('ev', 'lab/ann'),
	create_account('ev', 'ops'), create_account('other') \g /dev/null
SELECT create_pool('ev'), set_price('E1', 2, 'ev') \g /dev/null
SELECT issue('ev', '', 'gift', 100), issue('other', '', 'gift', 100) \g /dev/null
SELECT kind, account, decision, detail ->> 'amount' AS amount, detail ? 'key' AS tells_key FROM pg_temp.news();
SELECT count(*) AS with_the_node FROM register_node('ev', 'e1', 'E1', 8, 1000);
SELECT kind, detail ->> 'node' AS node FROM pg_temp.news('');

-- A job's life: queued, started, saved, grown, failed and queued again, ended
SELECT status FROM reserve('ev', 'lab/ann', 'j1', '4xE1', wall_limit => '2 hours', pool => 'ev', max_retries => 1);
SELECT kind, account, job, attempt, decision FROM pg_temp.news();
SELECT action FROM place('ev');
SELECT kind, account, job, attempt, decision, detail ->> 'nodes' AS nodes FROM pg_temp.news();
CREATE TEMP TABLE j AS SELECT job FROM job WHERE org = 'ev';
SELECT pg_temp.at('2033-03-01 00:05+00') \g /dev/null
SELECT count(m) FROM j, meter('ev', j.job, 1, '5 min') m;
SELECT * FROM pg_temp.news();	-- a heartbeat is no event
SELECT checkpoint('ev', job, 1, 7, 's3://b/7', sha256('7'), 70) FROM j \g /dev/null
SELECT checkpoint('ev', job, 1, 7, 's3://b/7', sha256('7'), 70) FROM j \g /dev/null
SELECT kind, account, job, attempt, detail FROM pg_temp.news();	-- once, although reported twice
SELECT job_state FROM j, settle('ev', j.job, 1, 'node_lost', '5 min');
SELECT kind, account, job, attempt, decision, detail ->> 'job_state' AS state, detail ->> 'billed' AS billed FROM pg_temp.news();
SELECT pg_temp.at('2033-03-01 01:00+00') \g /dev/null
SELECT count(*) AS with_the_node FROM register_node('ev', 'e1', 'E1', 8, 1000);
SELECT action FROM place('ev');
SELECT job_state FROM j, settle('ev', j.job, 2, 'completed', '5 min');
SELECT kind, account, attempt, decision FROM pg_temp.news();

-- A denial, a cancellation, and one that changes nothing
SELECT status, reason FROM reserve('ev', 'ops', 'j2', '8xE1', wall_limit => '20 hours', pool => 'ev');
SELECT status FROM reserve('ev', 'ops', 'j3', '1xE1', wall_limit => '1 hour', pool => 'ev');
SELECT state FROM job j, cancel('ev', j.job, 'c3') c WHERE j.org = 'ev' AND j.account = 'ops';
SELECT count(c) FROM job j, cancel('ev', j.job, 'c4') c WHERE j.org = 'ev' AND j.account = 'ops';
SELECT kind, account, job, decision, reason FROM pg_temp.news();

-- Alerts
SELECT set_budget('ev', 'lab', 10), set_alert('ev', '', 99) \g /dev/null
SELECT status FROM reserve('ev', 'lab', 'j4', '2xE1', wall_limit => '2 hours', pool => 'ev');
SELECT kind, account, detail - 'alert' AS detail FROM pg_temp.news() WHERE kind NOT LIKE 'job.%' ORDER BY 1;

-- Nodes: for whoever runs them
SELECT drain('e1', 'fan'), resume('e1') \g /dev/null
SELECT kind, reason, detail ->> 'node' AS node FROM pg_temp.news('');

-- Companions
SELECT gpucredit_internal.write_event('model.quarantined', 'ev', 'lab', '{"model": "m"}');
SELECT kind, account, detail FROM pg_temp.news();
\set VERBOSITY terse
SELECT gpucredit_internal.write_event('model', 'ev');
SELECT gpucredit_internal.write_event('model.a', 'ev', 'lab', '[]');
SELECT gpucredit_internal.write_event('model.a', NULL);

SELECT gpucredit.publish_event('model.quarantined', 'ev', 'lab', '{"model": "m"}');
SELECT gpucredit.publish_event('job.ended', 'ev', 'lab');
SELECT gpucredit.publish_event('model.a', 'ev', 'none');
SELECT kind, account, detail FROM pg_temp.news();

-- What did not happen is not in it
BEGIN;
SELECT status FROM reserve('ev', 'lab', 'j5', '1xE1', wall_limit => '1 hour', pool => 'ev');
ROLLBACK;
BEGIN;
SAVEPOINT s;
SELECT status FROM reserve('ev', 'lab', 'j6', '1xE1', wall_limit => '1 hour', pool => 'ev');
ROLLBACK TO s;
COMMIT;
SELECT kind, job FROM pg_temp.news();

-- Reading on from a number: pages are together the whole
CREATE TEMP TABLE pages (event bigint, kind text);
DO $$
DECLARE last bigint := 0; n int;
BEGIN
	LOOP
		INSERT INTO pages SELECT e.event, e.kind FROM gpucredit.events(last, 3, 'ev') e;
		GET DIAGNOSTICS n = ROW_COUNT;
		EXIT WHEN n = 0;
		last := (SELECT max(p.event) FROM pages p);
	END LOOP;
END $$;
SELECT count(*) = (SELECT count(*) FROM event WHERE org = 'ev') AS all_of_it, count(*) = count(DISTINCT event) AS once FROM pages;
SELECT kind, count(*) FROM events(0, 1000, 'ev', kinds => '{job.started,job.ended}') GROUP BY 1 ORDER BY 1;
SELECT kind FROM events(org => 'ev', job => (SELECT job FROM j), "limit" => 2);
SELECT DISTINCT account FROM events(0, 1000, 'ev', 'lab') ORDER BY 1;
SELECT count(*) FROM events(0, 1000, 'ev', 'la');
SELECT count(*) FROM events(9223372036854775807);
SELECT * FROM events(NULL);
SELECT * FROM events(0, 0);
SELECT * FROM events(0, 10001);
SELECT * FROM events(0, 10, 'ev', NULL);

-- Tenants: what they are bound to, whatever they pass
CREATE ROLE ev_lab IN ROLE gpucredit_tenant;
CREATE ROLE ev_other IN ROLE gpucredit_tenant;
CREATE ROLE ev_nobody IN ROLE gpucredit_tenant;
SELECT bind_tenant('ev_lab', 'ev', 'lab'), bind_tenant('ev_other', 'other') \g /dev/null
SET ROLE ev_lab;
SELECT DISTINCT org, account FROM events(0, 10000) ORDER BY 1, 2;
SELECT DISTINCT org, account FROM event ORDER BY 1, 2;
SELECT count(*) FROM events(0, 10000, 'other');
SELECT count(*) FROM events(0, 10000, '');
SELECT count(*) FROM events(0, 10000, 'ev', 'ops');
SELECT * FROM event_pending;
SELECT gpucredit_internal.write_event('job.ended', 'other');
SELECT gpucredit_internal.number_events(1);
SELECT * FROM upkeep('number_events');
DELETE FROM event;
SET ROLE ev_other;
SELECT DISTINCT org, account FROM events(0, 10000) ORDER BY 1, 2;
SELECT count(*) FROM events(0, 10000, 'ev');
SELECT count(*) FROM generate_series(1, 1000) j, events(0, 10000, job => j) e WHERE e.org <> 'other';
SET ROLE ev_nobody;
SELECT count(*) FROM events(0, 10000);
RESET ROLE;
SELECT unbind_tenant('ev_lab', 'ev', 'lab'), unbind_tenant('ev_other', 'other') \g /dev/null
DROP ROLE ev_lab, ev_other, ev_nobody;

-- Nobody changes it; retention removes the oldest
UPDATE event SET kind = 'x';
DELETE FROM event;
TRUNCATE event;
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT create_account('ev', 'late') \g /dev/null
SELECT suspend_account('ev', 'late', true) \g /dev/null
SELECT * FROM upkeep('number_events');
COMMIT;
SELECT kind, account FROM pg_temp.news();
SELECT count(*) > 0 AS before FROM event WHERE org = 'ev' AND at < '2033-03-01 00:30+00';
SELECT pg_temp.at('2033-03-01 01:30+00') \g /dev/null
SET gpucredit.event_retention = '1 h';
SELECT affected > 0 AS removed FROM upkeep('forget_events');
SELECT count(*) FILTER (WHERE at < '2033-03-01 00:30+00') AS older, count(*) > 0 AS others FROM event WHERE org = 'ev';
SET gpucredit.event_retention = 0;
SELECT * FROM upkeep('forget_events');
RESET gpucredit.event_retention;
SELECT * FROM verify();
