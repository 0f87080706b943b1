-- A screenful each: cluster_map, queue, queue_reasons, burn_rate, recent_events.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
SET gpucredit.clock = '2041-09-01 00:00+00';
\set VERBOSITY sqlstate
\pset null '-'

-- Nodes with 8, 4 and 2 devices; two tenants, one with a hostile name.
SELECT gpucredit.create_pool('sc');
SELECT gpucredit.set_price(t, 1, 'sc') FROM unnest('{SC-A,SC-B,SC-C}'::text[]) t;
SELECT gpucredit.register_node('sc', 'sc-a' || n, 'SC-A', 8, 40960) FROM generate_series(1, 4) n;
SELECT gpucredit.register_node('sc', 'sc-b' || n, 'SC-B', 4, 40960) FROM generate_series(1, 3) n;
SELECT * FROM gpucredit.cluster_map('sc');
DO $$
DECLARE
	o text;
BEGIN
	FOREACH o IN ARRAY ARRAY['sc-one', 'sc-two', 'sc[2J-three'] LOOP
		PERFORM gpucredit.create_account(o);
		PERFORM gpucredit.issue(o, '', 'paid', 100);
	END LOOP;
	PERFORM gpucredit.create_account('sc-two', 'a');
	PERFORM gpucredit.create_account('sc-two', 'b');
	PERFORM gpucredit.create_account('sc-poor');
	PERFORM gpucredit.issue('sc-poor', '', 'paid', 1.5);
END $$;
CREATE FUNCTION pg_temp.ask(org text, account text, key text, request text,
	tier text DEFAULT 'standard_training', topology text DEFAULT 'any')
RETURNS text LANGUAGE sql AS $$
	SELECT r.status FROM gpucredit.reserve(org, account, key, request, '1 h', tier, 'sc', topology) r
$$;
SELECT pg_temp.ask('sc-one', '', '1', '8xSC-A'), pg_temp.ask('sc-two', 'a', '2', '4xSC-A'),
	pg_temp.ask('sc[2J-three', '', '3', '2xSC-A'), pg_temp.ask('sc-one', '', '4', '0.5xSC-B'),
	pg_temp.ask('sc-one', '', '5', '0.3xSC-B'), pg_temp.ask('sc-two', 'b', '6', '0.6xSC-B'),
	pg_temp.ask('sc-two', 'b', '7', '0.4xSC-B'), pg_temp.ask('sc-poor', '', '8', '1xSC-B');
SELECT count(*) FROM gpucredit.place('sc');
-- One attempt ends and is not seen gone, a device fails, a node drains; the
-- other nodes fall silent, and are lost.
SET gpucredit.clock = '2041-09-01 00:00:30+00';
SELECT gpucredit.register_node('sc', 'sc-b4', 'SC-B', 4, 40960);
SELECT count(*) FROM gpucredit.heartbeat('sc-a1');
SELECT count(*) FROM gpucredit.heartbeat('sc-a2');
SELECT count(*) FROM gpucredit.heartbeat('sc-a3', '{0-5,7}');
SELECT gpucredit.drain('sc-a4', 'maintenance');
SELECT job AS poor FROM gpucredit.job WHERE org = 'sc-poor' \gset
SET ROLE gpucredit_app;
SELECT job_state FROM gpucredit.settle('sc-poor', :poor, 1, 'completed');
RESET ROLE;
SELECT * FROM gpucredit.cluster_map('sc');
SET gpucredit.clock = '2041-09-01 00:01:00+00';
SELECT * FROM gpucredit.cluster_map('sc');
-- less room: the devices alone, then several nodes a line
SELECT * FROM gpucredit.cluster_map('sc', 40, 12);
SELECT * FROM gpucredit.cluster_map('sc', 60, 10);
SELECT count(*), max(length(map)) FROM gpucredit.cluster_map('sc', 41, 10);

-- Numbers in names sort as numbers
SELECT gpucredit.create_pool('sc-order');
SELECT gpucredit.set_price('SC-D', 1, 'sc-order');
SELECT gpucredit.register_node('sc-order', name, 'SC-D', 1, 40960)
FROM unnest('{sc-n10,sc-n2,sc-n1-b12,sc-n1-b3,sc-n1,sc-n007,sc-n,SC-n3,4}'::text[]) name;
SELECT map FROM gpucredit.cluster_map('sc-order', 40) WITH ORDINALITY AS m (map, line) WHERE map LIKE '%[.]%';

-- The waiting jobs, and their reasons
SET gpucredit.node_suspect = 0;
SET gpucredit.node_lost = 0;
SELECT gpucredit.set_quota('sc-two', 'b', max_running => 1);
SELECT pg_temp.ask('sc-one', '', 'big', '28xSC-A'), pg_temp.ask('sc-one', '', 'node', '8xSC-A', 'interactive', 'node'),
	pg_temp.ask('sc-two', 'b', 'quota', '1xSC-B'), 
	pg_temp.ask('sc[2J-three', '', 'next', '1xSC-B');
SET gpucredit.clock = '2041-09-01 00:02:00+00';
SELECT org, account, tier, request, waits, reason, expected_at FROM gpucredit.queue('sc');
SELECT org, reason FROM gpucredit.queue('sc', 2);
SELECT * FROM gpucredit.queue_reasons('sc');
SELECT count(*) FROM gpucredit.place('sc') WHERE action = 'start';
SELECT org, account, request, waits, reason, expected_at FROM gpucredit.queue('sc');
-- with the columns of the page, every row is 80 characters wide at most
SELECT org, 12 AS job, request, waits, reason, to_char(expected_at, 'Mon DD HH24:MI') AS expected FROM gpucredit.queue('sc');

-- Money, and recent events
SET gpucredit.clock = '2041-09-01 00:30:00+00';
SELECT count(*) FROM gpucredit.job j, gpucredit.settle(j.org, j.job, 1, 'completed', '20 min') s
WHERE j.pool = 'sc' AND j.state = 'active';
SELECT * FROM gpucredit.burn_rate(1000) WHERE org LIKE 'sc%';
SELECT org, available, held, per_day, days_left FROM gpucredit.burn_rate(1000) WHERE org LIKE 'sc%';
SELECT what, reason, jobs, org, 12 AS job FROM gpucredit.recent_events() WHERE org LIKE 'sc%';
-- An organisation whose accounts have buckets of their own is listed once.
SELECT b.org FROM gpucredit.burn_rate(1000) b GROUP BY b.org HAVING count(*) > 1;
SELECT count(*) FROM gpucredit.burn_rate(1);
SELECT what, reason, jobs, times, latest, org FROM gpucredit.recent_events() WHERE org LIKE 'sc%';
SELECT what, reason, jobs, times, latest, org FROM gpucredit.recent_events('1 hour')
WHERE org LIKE 'sc%' AND what LIKE 'place%';

-- The metric measures the oldest job as queue does: a preempted job has waited
-- 10 s before it ran, and 60 s since
SELECT gpucredit.create_pool('sq'), gpucredit.set_price('SC-B', 1, 'sq'), gpucredit.register_node('sq', 'sq-1', 'SC-B', 1, 40960),
	gpucredit.issue('sc-one', '', 'sq credit', 1000) \g /dev/null
SELECT status FROM gpucredit.reserve('sc-one', '', 'sq', '1xSC-B', '20 h', pool => 'sq');
SET gpucredit.clock = '2041-09-01 00:30:10+00';
SELECT action FROM gpucredit.place('sq');
SET gpucredit.clock = '2041-09-01 10:30:10+00';
SELECT job_state FROM gpucredit.job j, gpucredit.settle(j.org, j.job, 1, 'preempted', '10 h') WHERE j.pool = 'sq';
SET gpucredit.clock = '2041-09-01 10:31:10+00';
SELECT value FROM gpucredit.metric_samples('{queue_oldest_seconds}') WHERE labels ->> 'pool' = 'sq';
SELECT waits FROM gpucredit.queue('sq');
-- a job in its backoff does not wait yet
SELECT gpucredit.create_pool('sr'), gpucredit.set_price('SC-B', 1, 'sr'), gpucredit.register_node('sr', 'sr-1', 'SC-B', 1, 40960) \g /dev/null
SELECT status FROM gpucredit.reserve('sc-one', '', 'sr', '1xSC-B', '1 h', pool => 'sr');
SELECT action FROM gpucredit.place('sr');
SELECT job_state, retry_at FROM gpucredit.job j, gpucredit.settle(j.org, j.job, j.attempt, 'failed', '0 s', 75, 'x') s WHERE j.pool = 'sr';
SELECT waits, reason FROM gpucredit.queue('sr');

-- node_suspect is 0: a lost node takes new work, and every screen agrees
SELECT gpucredit.create_pool('st'), gpucredit.set_price('SC-B', 1, 'st'), gpucredit.register_node('st', 'st-1', 'SC-B', 1, 40960) \g /dev/null
SELECT status FROM gpucredit.reserve('sc-one', '', 'st', '1xSC-B', '1 h', pool => 'st');
SET gpucredit.clock = '2041-09-01 20:00:00+00';
SET gpucredit.node_lost = '1 min';
SELECT n.state, n.takes_work, c.free FROM gpucredit.nodes n JOIN gpucredit.capacity c USING (pool) WHERE n.pool = 'st';
SELECT reason FROM gpucredit.queue('st');
SELECT e.detail FROM gpucredit.job j, gpucredit.explain(j.org, j.job) e WHERE j.pool = 'st' AND e.check_name = 'turn';
SET gpucredit.node_suspect = '20 s';
SELECT n.state, n.takes_work, c.free FROM gpucredit.nodes n JOIN gpucredit.capacity c USING (pool) WHERE n.pool = 'st';
SELECT reason FROM gpucredit.queue('st');
SELECT e.check_name, e.detail FROM gpucredit.job j, gpucredit.explain(j.org, j.job) e WHERE j.pool = 'st' AND e.check_name IN ('nodes', 'free');
-- the only waiting job is behind nobody: it lacks cpu, host memory, a memory
-- floor, spot nodes; all nodes drain
RESET gpucredit.node_suspect;
DO $$
BEGIN
	PERFORM gpucredit.heartbeat('st-1');
	PERFORM gpucredit.register_node('st', 'st-c', 'SC-C', 1, 16384, cpu_milli => 4000, memory_mib => 4096);
	PERFORM gpucredit.register_node('st', 'st-s', 'SC-S', 1, 40960, spot => true);
	PERFORM gpucredit.set_price(t, 1, 'st') FROM unnest('{SC-C,SC-S}'::text[]) t;
	PERFORM gpucredit.set_tier('st', 9, 'never', false);
END $$;
CREATE FUNCTION pg_temp.alone(request text, tier text, cpu bigint, memory bigint, away text)
RETURNS TABLE (status text, queue text, failed text) LANGUAGE plpgsql AS $$
DECLARE
	id bigint;
BEGIN
	SELECT r.job, r.status INTO id, status FROM gpucredit.reserve('sc-one', '', 'alone ' || request || away, request, '1 h', tier,
		pool => 'st', cpu_milli => cpu, memory_mib => memory) r;
	PERFORM gpucredit.drain(n, 'x') FROM unnest(string_to_array(away, ' ')) n;
	SELECT q.reason INTO queue FROM gpucredit.queue('st') q WHERE q.job = id;
	SELECT e.check_name || ': ' || e.detail INTO failed FROM gpucredit.explain('sc-one', id) e WHERE NOT e.passes AND e.check_name <> 'reservation';
	PERFORM gpucredit.cancel('sc-one', id, 'c ' || id), gpucredit.resume(n) FROM unnest(string_to_array(away, ' ')) n;
	RETURN NEXT;
END $$;
SELECT gpucredit.cancel(org, job, 'c st') IS NOT NULL AS cancelled FROM gpucredit.job WHERE pool = 'st';
SELECT gpucredit.register_node('st', 'st-d', 'SC-C', 1, 40960, cpu_milli => 64000, memory_mib => 65536);
SELECT * FROM pg_temp.alone('1xSC-C', 'st', 8000, 0, 'st-d');
SELECT * FROM pg_temp.alone('1xSC-C@1GB', 'st', 0, 8192, 'st-d');
SELECT * FROM pg_temp.alone('1xSC-C@30GB', 'st', 0, 0, 'st-d');
SELECT gpucredit.register_node('st', 'st-t', 'SC-S', 1, 40960);
SELECT status FROM gpucredit.reserve('sc-one', '', 'alone on demand', '1xSC-S', '1 h', 'st', pool => 'st');
SELECT gpucredit.remove_node('st-t');
SELECT reason FROM gpucredit.queue('st');
SELECT e.check_name, e.detail FROM gpucredit.job j, gpucredit.explain(j.org, j.job) e WHERE j.pool = 'st' AND j.state = 'queued' AND NOT e.passes;
SELECT job_state FROM gpucredit.job j, gpucredit.cancel(j.org, j.job, 'c alone') WHERE j.pool = 'st' AND j.state = 'queued';
SELECT * FROM pg_temp.alone('1xSC-B', 'st', 0, 0, 'st-1 st-d');

-- No such pool, impossible sizes
SELECT * FROM gpucredit.cluster_map('no such');
SELECT * FROM gpucredit.cluster_map('sc', 39);
SELECT * FROM gpucredit.queue('no such');
SELECT * FROM gpucredit.queue('sc', 0);
SELECT * FROM gpucredit.queue_reasons(NULL);
SELECT * FROM gpucredit.burn_rate(NULL);
SELECT * FROM gpucredit.recent_events('2 days');
SELECT * FROM gpucredit.verify('sc-one');
