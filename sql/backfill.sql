-- Reservations in the database: a gang starts at the time it was given,
-- through a stream of small jobs; learnt run times; explain.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
SET gpucredit.clock = '2027-05-01 00:00+00';
SET gpucredit.node_suspect = 0;
SET gpucredit.node_lost = 0;
SET gpucredit.heartbeat_timeout = 0;
\set VERBOSITY sqlstate
\pset null '-'

DO $$
BEGIN
	PERFORM gpucredit.create_pool('bf');
	PERFORM gpucredit.set_price('BF-A', 1);
	PERFORM gpucredit.register_node('bf', 'bf-' || n, 'BF-A', 8, 40960)
	FROM generate_series(1, 8) n;
	PERFORM gpucredit.create_account('bf');
	PERFORM gpucredit.grant_tier('bf', '', 'premium_training');
	PERFORM gpucredit.create_account('bf', 'big');
	PERFORM gpucredit.create_account('bf', 'poor');
	PERFORM gpucredit.issue('bf', '', 'i', 1000000);
END $$;
CREATE FUNCTION pg_temp.ask(key text, request text, wall interval,
	account text DEFAULT '') RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(reason, status) FROM gpucredit.reserve('bf', account, key,
		request, wall, pool => 'bf') $$;
CREATE FUNCTION pg_temp.job(job_key text) RETURNS bigint LANGUAGE sql AS $$
	SELECT r.result[1]::bigint FROM gpucredit.request r
	WHERE r.org = 'bf' AND r.operation = 'reserve' AND r.key = job_key $$;
CREATE FUNCTION pg_temp.key(id bigint) RETURNS text LANGUAGE sql AS $$
	SELECT r.key FROM gpucredit.request r WHERE r.org = 'bf'
		AND r.operation = 'reserve' AND r.result[1] = id::text $$;
-- Ends attempts that have run for their whole wall limit.
CREATE FUNCTION pg_temp.end_due() RETURNS bigint LANGUAGE sql AS $$
	SELECT count(gpucredit.settle('bf', a.job, a.attempt, 'completed',
		gpucredit.now() - a.started_at))
	FROM gpucredit.attempt a WHERE a.org = 'bf' AND a.ended_at IS NULL
		AND a.started_at + a.wall_limit <= gpucredit.now() $$;

\echo === A gang of 64 through a stream of small jobs
SELECT count(pg_temp.ask('first ' || n, '1xBF-A', n % 12 * '5 min'::interval + '5 min'))
FROM generate_series(1, 64) n;
SELECT count(*) FROM gpucredit.place('bf');
SELECT pg_temp.ask('gang', '64xBF-A', '2 h', 'big');
SELECT count(*) FROM gpucredit.place('bf');
SELECT count(*) FROM gpucredit.plan('bf');
SELECT pg_temp.key(job) AS job, attempt, node, gpus, share, gpu_type, expected_at, latest_at, limit_at
FROM gpucredit.reservations('bf') ORDER BY node LIMIT 1;
CREATE TEMP TABLE stream (at timestamptz, started bigint, gang boolean);
DO $$
BEGIN
	FOR minute IN 1..13 LOOP
		PERFORM set_config('gpucredit.clock', ('2027-05-01 00:00+00'::timestamptz
			+ minute * '5 min'::interval)::text, false);
		PERFORM pg_temp.end_due();
		-- small jobs that end soon, and some that would not
		PERFORM pg_temp.ask('small ' || minute || ' ' || n, '1xBF-A',
			CASE WHEN n <= 6 THEN '5 min' WHEN n <= 9 THEN '15 min' ELSE '90 min' END::interval)
		FROM generate_series(1, 12) n;
		INSERT INTO stream SELECT gpucredit.now(), count(*) FILTER (WHERE gang IS NOT TRUE),
			bool_or(gang)
		FROM (SELECT pg_temp.key(job) = 'gang' AS gang FROM gpucredit.place('bf')) p;
		EXIT WHEN (SELECT bool_or(gang) FROM stream);
	END LOOP;
END $$;
SELECT * FROM stream ORDER BY at;
-- the audit log names the time once, and the time is right
SELECT at, decision, reason, detail ->> 'expected_start' AS expected_start
FROM gpucredit.audit WHERE org = 'bf' AND job = pg_temp.job('gang')
	AND operation = 'place' ORDER BY audit;
-- no job started that would have been in the gang's way
SELECT count(*) FROM gpucredit.attempt a WHERE a.org = 'bf'
	AND a.job <> pg_temp.job('gang') AND a.started_at > '2027-05-01 00:00+00'
	AND a.started_at + a.wall_limit > '2027-05-01 01:00+00';
SELECT * FROM gpucredit.verify('bf');

\echo === Explain
SELECT check_name, passes, detail FROM gpucredit.explain('bf', pg_temp.job('gang'));
SELECT check_name, passes, detail FROM gpucredit.explain('bf', pg_temp.job('small 12 10'));
SELECT check_name, passes, detail FROM gpucredit.explain('bf', pg_temp.job('first 1'));
SELECT gpucredit.explain('bf', 0);
SELECT gpucredit.explain('bf-other', pg_temp.job('gang'));
-- its own quota holds it back: it has no reservation and blocks nobody
SELECT gpucredit.set_quota('bf', 'poor', max_gpus => 4);
SELECT pg_temp.ask('poor', '4xBF-A', '1 h', 'poor'), pg_temp.ask('poorer', '4xBF-A', '1 h', 'poor');
SELECT set_config('gpucredit.clock', '2027-05-01 03:00+00', false);
SELECT pg_temp.end_due();
SELECT count(*) > 0 FROM gpucredit.place('bf');
SELECT check_name, passes, detail FROM gpucredit.explain('bf', pg_temp.job('poorer'));
SELECT count(*) FROM gpucredit.reservations('bf') WHERE job = pg_temp.job('poorer');
SELECT count(*) FROM gpucredit.reservations('no such');

\echo === Learnt run times
-- five of six jobs took a quarter of their limit, one all of it: the fifth
-- longest counts
DO $$
DECLARE
	j record;
BEGIN
	PERFORM gpucredit.create_account('bf', 'fast');
	FOR n IN 1..6 LOOP
		PERFORM pg_temp.ask('fast ' || n, '1xBF-A', '4 h', 'fast');
	END LOOP;
	PERFORM set_config('gpucredit.clock', '2027-05-01 06:00+00', false);
	PERFORM pg_temp.end_due();
	PERFORM gpucredit.place('bf');
	PERFORM set_config('gpucredit.clock', '2027-05-01 12:00+00', false);
	FOR j IN SELECT a.job, a.attempt, row_number() OVER (ORDER BY a.job) AS n
		FROM gpucredit.attempt a WHERE a.account = 'fast' AND a.ended_at IS NULL
	LOOP
		PERFORM gpucredit.settle('bf', j.job, j.attempt, 'completed',
			CASE WHEN j.n < 6 THEN '1 h' ELSE '4 h' END::interval);
	END LOOP;
	PERFORM pg_temp.end_due();
END $$;
SELECT pg_temp.ask('next', '8xBF-A', '8 h', 'fast');
SELECT count(*) FROM gpucredit.place('bf');
SELECT expected_end - started_at AS expected, limit_end - started_at AS longest
FROM gpucredit.attempt_gpu WHERE job = pg_temp.job('next');
-- a job that outruns its estimate is expected to take twice as long
SELECT pg_temp.ask('all', '64xBF-A', '1 h', 'big');
SELECT expected_at, limit_at FROM gpucredit.reservations('bf') LIMIT 1;
SELECT set_config('gpucredit.clock', '2027-05-01 14:30+00', false);
SELECT expected_at, limit_at FROM gpucredit.reservations('bf') LIMIT 1;
SELECT set_config('gpucredit.clock', '2027-05-01 17:00+00', false);
SELECT expected_at, limit_at FROM gpucredit.reservations('bf') LIMIT 1;
SELECT * FROM gpucredit.verify('bf');

-- fewer than five runs give no estimate; the latest twenty count, of the same
-- account and tier; an estimate is at least a second, unless the limit is less
DO $$
BEGIN
	PERFORM set_config('gpucredit.clock', '2027-05-01 20:00+00', false);
	PERFORM gpucredit.create_pool('bl'), gpucredit.create_account('bf', 'learns'), gpucredit.create_account('bf', 'other');
	PERFORM gpucredit.register_node('bl', 'bl-1', 'BF-A', 8, 40960);
END $$;
CREATE FUNCTION pg_temp.runs(key text, account text, wall interval, tier text DEFAULT 'standard_training') RETURNS bigint
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM gpucredit.reserve('bf', account, key, '1xBF-A', wall, tier, 'bl');
	PERFORM gpucredit.place('bl');
	RETURN pg_temp.job(key);
END $$;
-- So many jobs completed after such a part of their limits.
CREATE FUNCTION pg_temp.ran(key text, times int, part float) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	id bigint;
BEGIN
	FOR n IN 1 .. times LOOP
		id := pg_temp.runs(concat(key, n), 'learns', '40 s');
		PERFORM set_config('gpucredit.clock', (gpucredit.now() + '40 s')::text, false);
		PERFORM gpucredit.settle('bf', id, 1, 'completed', '40 s'::interval * part);
	END LOOP;
END $$;
CREATE FUNCTION pg_temp.expected(key text, account text DEFAULT 'learns', wall interval DEFAULT '8 h',
	tier text DEFAULT 'standard_training') RETURNS interval LANGUAGE plpgsql AS $$
DECLARE
	id bigint := pg_temp.runs(key, account, wall, tier);
	expected interval := (SELECT expected_end - started_at FROM gpucredit.attempt_gpu WHERE org = 'bf' AND job = id);
BEGIN
	PERFORM gpucredit.cancel('bf', id, 'cancel ' || key), gpucredit.settle('bf', id, 1, 'cancelled', '0');
	RETURN expected;
END $$;
SELECT pg_temp.ran('bl four ', 4, 0.25), pg_temp.expected('bl after 4') AS after_four;
SELECT pg_temp.ran('bl fifth ', 1, 0.25), pg_temp.expected('bl after 5') AS after_five;
SELECT pg_temp.expected('bl other account', 'other') AS other_account,
	pg_temp.expected('bl other tier', tier => 'premium_training') AS other_tier;
SELECT pg_temp.expected('bl short', wall => '2 s') AS of_2_s, pg_temp.expected('bl shorter', wall => '0.5 s') AS of_half_a_second;
SELECT pg_temp.ran('bl long ', 20, 0.75), pg_temp.expected('bl after 25') AS of_the_last_20;
SELECT pg_temp.ran('bl again ', 14, 0.25), pg_temp.expected('bl after 39') AS six_are_long;
SELECT pg_temp.ran('bl and again ', 1, 0.25), pg_temp.expected('bl after 40') AS five_are_long;
SELECT * FROM gpucredit.verify('bf');

\echo === A backfilled job that is slow to start
DO $$
BEGIN
	PERFORM set_config('gpucredit.clock', '2027-05-02 00:00+00', false);
	PERFORM gpucredit.create_pool('bs');
	PERFORM gpucredit.register_node('bs', 'bs-' || n, 'BF-A', 8, 40960)
	FROM generate_series(1, 2) n;
	PERFORM gpucredit.reserve('bf', '', 'bs ' || k.key, k.request, k.wall, pool => 'bs')
	FROM (VALUES ('holder', '8xBF-A', '2 h'::interval)) k (key, request, wall);
	PERFORM gpucredit.place('bs');
	PERFORM gpucredit.reserve('bf', '', 'bs ' || k.key, k.request, k.wall, pool => 'bs')
	FROM (VALUES ('gang', '16xBF-A', '1 h'::interval), ('slow', '4xBF-A', '2 h'), ('mute', '1xBF-A', '2 h'),
		('long', '1xBF-A', '2 h 1 s')) k (key, request, wall);
END $$;
SELECT action, pg_temp.key(job) AS job, node FROM gpucredit.place('bs');
SELECT pg_temp.key(job) AS job, node, expected_at FROM gpucredit.reservations('bs') ORDER BY node LIMIT 1;
-- a job in nobody's way has its whole limit from its first heartbeat; a
-- backfilled job has what is left of it
SELECT set_config('gpucredit.clock', '2027-05-02 00:30+00', false);
SELECT k.key, m.action, m.deadline, m.time_left
FROM unnest('{bs holder,bs slow}'::text[]) k (key), gpucredit.meter('bf', pg_temp.job(k.key), 1, '0') m;
SELECT set_config('gpucredit.clock', '2027-05-02 01:59:59.999999+00', false);
SELECT action, reason, time_left FROM gpucredit.meter('bf', pg_temp.job('bs slow'), 1, '1 h 20 min');
SELECT gpucredit.reap_holds() \g /dev/null
SELECT key, (SELECT a.outcome FROM gpucredit.attempt a WHERE a.org = 'bf' AND a.job = pg_temp.job(key))
FROM unnest('{bs holder,bs slow,bs mute}'::text[]) key;
SELECT set_config('gpucredit.clock', '2027-05-02 02:00+00', false);
SELECT k.key, m.action, m.reason, m.time_left
FROM unnest('{bs holder,bs slow}'::text[]) k (key), gpucredit.meter('bf', pg_temp.job(k.key), 1, '1 h 25 min') m;
SELECT job_state FROM gpucredit.settle('bf', pg_temp.job('bs slow'), 1, 'timeout');
SELECT job_state FROM gpucredit.settle('bf', pg_temp.job('bs holder'), 1, 'completed');
-- an attempt that never answers ends gpucredit.stop_grace later
SELECT set_config('gpucredit.clock', '2027-05-02 02:00:59.999999+00', false);
SELECT gpucredit.reap_holds() \g /dev/null
SELECT key, (SELECT a.outcome FROM gpucredit.attempt a WHERE a.org = 'bf' AND a.job = pg_temp.job(key))
FROM unnest('{bs holder,bs slow,bs mute}'::text[]) key;
SELECT set_config('gpucredit.clock', '2027-05-02 02:01+00', false);
SELECT gpucredit.reap_holds() \g /dev/null
SELECT key, (SELECT a.outcome FROM gpucredit.attempt a WHERE a.org = 'bf' AND a.job = pg_temp.job(key))
FROM unnest('{bs holder,bs slow,bs mute}'::text[]) key;
SELECT action, pg_temp.key(job) AS job, node FROM gpucredit.place('bs');
SELECT * FROM gpucredit.verify('bf');

\echo === Explain says why
CREATE FUNCTION pg_temp.why(key text, VARIADIC checks text[])
RETURNS TABLE (check_name text, passes boolean, detail text) LANGUAGE sql AS $$
	SELECT e.check_name, e.passes, e.detail
	FROM gpucredit.explain('bf', pg_temp.job(key)) e
	WHERE e.check_name = ANY (checks) $$;
-- its account is suspended: waiting jobs stay queued and may start
SELECT gpucredit.suspend_account('bf', 'big', true);
SELECT * FROM pg_temp.why('all', 'account');
SELECT gpucredit.suspend_account('bf', 'big', false);
SELECT * FROM pg_temp.why('all', 'account');
-- its own turn, and its account's turn among all accounts with jobs here
SELECT * FROM pg_temp.why('bs long', 'order', 'free', 'reservation');
-- it waited longer than its tier's max_wait
SELECT set_config('gpucredit.clock', '2027-05-03 02:00+00', false);
SELECT * FROM pg_temp.why('bs long', 'order');
-- it failed and is tried again
DO $$
BEGIN
	PERFORM set_config('gpucredit.clock', '2027-05-03 03:00+00', false);
	PERFORM gpucredit.settle('bf', pg_temp.job('bs gang'), 1, 'completed');
	PERFORM gpucredit.create_account('bf-p');
	PERFORM gpucredit.issue('bf-p', '', 'i', 1);
END $$;
SELECT count(*) FROM gpucredit.place('bs');
SELECT job_state, retry_at FROM gpucredit.settle('bf', pg_temp.job('bs long'), 1, 'node_lost');
SELECT count(*) FROM gpucredit.place('bs');
SELECT job_state, retry_at FROM gpucredit.settle('bf', pg_temp.job('bs long'), 2, 'failed', exit_code => 75);
SELECT * FROM pg_temp.why('bs long', 'state', 'backoff', 'order');
-- gpucredit.max_starts jobs start in one cycle
BEGIN;
SET LOCAL gpucredit.max_starts = 1;
SELECT status FROM gpucredit.reserve('bf', 'fast', 'bs turn 1', '1xBF-A', '1 h', pool => 'bs');
SELECT status FROM gpucredit.reserve('bf', 'fast', 'bs turn 2', '1xBF-A', '1 h', pool => 'bs');
SELECT * FROM pg_temp.why('bs turn 1', 'turn', 'reservation');
SELECT * FROM pg_temp.why('bs turn 2', 'turn', 'reservation');
-- other jobs of the account start now and use up a quota of all types, or of
-- one type; explain then tells of the other types
SET LOCAL gpucredit.max_starts = 10;
SELECT gpucredit.set_price('BF-B', 1), gpucredit.register_node('bs', 'bs-b', 'BF-B', 1, 40960), gpucredit.set_quota('bf', 'fast', max_gpus => 11, max_running => 3);
SELECT status FROM gpucredit.reserve('bf', 'fast', 'bs turn 3', '2xBF-A|BF-B', '1 h', pool => 'bs');
SELECT * FROM pg_temp.why('bs turn 3', 'quota', 'turn', 'topology');
SELECT gpucredit.set_quota('bf', 'fast'), gpucredit.set_quota('bf', 'fast', 'BF-A', max_gpus => 11);
SELECT * FROM pg_temp.why('bs turn 3', 'quota', 'turn', 'topology', 'reservation');
SELECT gpucredit.set_quota('bf', 'fast', 'BF-A', max_gpus => 9);
SELECT * FROM pg_temp.why('bs turn 3', 'quota', 'turn', 'topology', 'reservation');
SELECT gpucredit.set_quota('bf', 'fast', 'BF-A', max_gpus => 12);
SELECT * FROM pg_temp.why('bs turn 3', 'quota', 'turn', 'topology', 'reservation');
-- too little cpu: on one node, or beside devices
SELECT gpucredit.set_quota('bf', 'fast', 'BF-A'), gpucredit.register_node('bs', 'bs-b', 'BF-B', 4, 40960, cpu_milli => 4000);
SELECT status FROM gpucredit.reserve('bf', 'fast', 'bs cpu 1', '1xBF-B', '1 h', pool => 'bs', cpu_milli => 3000);
SELECT count(*) FROM gpucredit.place('bs');
SELECT gpucredit.drain('bs-1', 'x'), gpucredit.drain('bs-2', 'x');
SELECT status FROM gpucredit.reserve('bf', 'fast', 'bs cpu 2', '2xBF-B', '1 h', pool => 'bs', cpu_milli => 2001, topology => 'node');
SELECT status FROM gpucredit.reserve('bf', 'fast', 'bs cpu 3', '0', '1 h', pool => 'bs', cpu_milli => 1001);
SELECT * FROM pg_temp.why('bs cpu 2', 'cpu');
SELECT * FROM pg_temp.why('bs cpu 3', 'cpu');
ROLLBACK;
-- the job's state: starting, running, and running longer than estimated
SELECT status FROM gpucredit.reserve('bf', 'fast', 'bs learnt', '1xBF-A', '4 h', pool => 'bs');
SELECT count(*) FROM gpucredit.place('bs');
SELECT * FROM pg_temp.why('bs learnt', 'state');
SELECT action FROM gpucredit.meter('bf', pg_temp.job('bs learnt'), 1, '0');
SELECT set_config('gpucredit.clock', '2027-05-03 04:15+00', false);
SELECT * FROM pg_temp.why('bs learnt', 'state');
SELECT job_state FROM gpucredit.settle('bf', pg_temp.job('bs learnt'), 1, 'completed');
-- no credit is left for another attempt
SELECT status FROM gpucredit.reserve('bf-p', '', 'poor', '1xBF-A', '1 h', pool => 'bs');
SELECT count(*) FROM gpucredit.place('bs');
SELECT job AS poor FROM gpucredit.job WHERE org = 'bf-p' \gset
SELECT set_config('gpucredit.clock', '2027-05-03 04:45+00', false);
SELECT action FROM gpucredit.meter('bf-p', :poor, 1, '30 min');
SELECT job_state FROM gpucredit.settle('bf-p', :poor, 1, 'node_lost');
SELECT check_name, passes, detail FROM gpucredit.explain('bf-p', :poor) WHERE check_name IN ('state', 'credit', 'turn');
-- explain uses current prices, as the next hold will
BEGIN;
SELECT gpucredit.set_price('BF-A', 3);
SELECT check_name, passes, detail FROM gpucredit.explain('bf-p', :poor) WHERE check_name = 'credit';
ROLLBACK;
-- devices are promised to the job, and their holders are leaving
DO $$
BEGIN
	PERFORM gpucredit.create_pool('bc');
	PERFORM gpucredit.register_node('bc', 'bc-1', 'BF-A', 1, 40960);
	PERFORM gpucredit.reserve('bf', '', 'bc low', '1xBF-A', '8 h', pool => 'bc');
	PERFORM gpucredit.place('bc');
	PERFORM set_config('gpucredit.clock', '2027-05-03 05:30+00', false);
	PERFORM gpucredit.reserve('bf', '', 'bc high', '1xBF-A', '1 h', 'premium_training', pool => 'bc');
END $$;
SELECT * FROM pg_temp.why('bc high', 'claim', 'free', 'reserved', 'reservation');
SELECT action, pg_temp.key(job) AS job FROM gpucredit.place('bc');
SELECT * FROM pg_temp.why('bc high', 'claim', 'free', 'reserved', 'reservation');
SELECT * FROM gpucredit.verify();

\echo === A second cycle at the same instant decides nothing
DO $$
BEGIN
	PERFORM gpucredit.set_tier('bn-2', 502, 'never', false);
	PERFORM gpucredit.set_tier('bn-3', 503, 'never', true);
	PERFORM gpucredit.set_tier('bn-4', 504, 'capacity', false, grace => '1 min', min_run => '0');
	PERFORM gpucredit.create_pool('bn');
	PERFORM gpucredit.create_account('bf', 'bn-' || n) FROM generate_series(1, 3) n;
	PERFORM gpucredit.register_node('bn', 'bn-1', 'BF-A', 3, 40960);
	PERFORM set_config('gpucredit.clock', '2027-05-04 00:00+00', false);
	PERFORM gpucredit.heartbeat('bn-1', '{0-2}');
	PERFORM gpucredit.reserve('bf', 'bn-1', 'bn runs', '1xBF-A', '1 h', pool => 'bn');
	PERFORM gpucredit.place('bn');
	PERFORM gpucredit.reserve('bf', 'bn-2', 'bn waits', '3xBF-A', '1 h', pool => 'bn');
	PERFORM gpucredit.reserve('bf', 'bn-2', 'bn short', '1xBF-A', '30 min', pool => 'bn');
	PERFORM gpucredit.reserve('bf', 'bn-3', 'bn long', '1xBF-A', '2 h', pool => 'bn');
END $$;
-- a backfilled job moves its account behind others
SELECT action, pg_temp.key(job) AS job FROM gpucredit.place('bn');
SELECT count(*) FROM gpucredit.place('bn');
-- a victim's leaving lets another job be reserved elsewhere, and a third one
-- start
DO $$
BEGIN
	PERFORM gpucredit.create_pool('bv');
	PERFORM gpucredit.register_node('bv', 'bv-1', 'BF-A', 2, 40960);
	PERFORM gpucredit.register_node('bv', 'bv-2', 'BF-A', 4, 40960);
	PERFORM gpucredit.reserve('bf', '', 'bv runs', '1xBF-A', '2 h', 'bn-2', pool => 'bv');
	PERFORM gpucredit.reserve('bf', '', 'bv leaves', '4xBF-A', '20 h', 'bn-4', pool => 'bv');
	PERFORM gpucredit.place('bv');
	PERFORM set_config('gpucredit.clock', '2027-05-04 00:01+00', false);
	PERFORM gpucredit.heartbeat('bv-1', '{0-1}'), gpucredit.heartbeat('bv-2', '{0-3}');
	PERFORM gpucredit.reserve('bf', '', 'bv waits', '2xBF-A', '2 h', 'bn-2', pool => 'bv', topology => 'node');
	PERFORM gpucredit.reserve('bf', '', 'bv comes', '2xBF-A', '1 h', 'bn-3', pool => 'bv', topology => 'node');
	PERFORM gpucredit.reserve('bf', '', 'bv long', '1xBF-A', '5 h', 'bn-3', pool => 'bv');
END $$;
SELECT action, pg_temp.key(job) AS job, node, gpus, reason FROM gpucredit.place('bv');
SELECT pg_temp.key(job) AS job, node, gpus, expected_at FROM gpucredit.reservations('bv');
SELECT count(*) FROM gpucredit.place('bv');
-- the job that would have passed the quota is gone, so another one grows after
-- all
DO $$
BEGIN
	PERFORM gpucredit.set_price('BF-B', 1);
	PERFORM gpucredit.create_pool('bg');
	PERFORM gpucredit.create_account('bf', 'bg'), gpucredit.create_account('bf', 'bg/one'),
		gpucredit.create_account('bf', 'bg-2');
	PERFORM gpucredit.set_quota('bf', 'bg', 'BF-A', max_gpus => 3),
		gpucredit.set_quota('bf', 'bg/one', max_running => 1),
		gpucredit.set_quota('bf', 'bg-2', max_gpus => 1);
	PERFORM gpucredit.register_node('bg', 'bg-1', 'BF-A', 1, 40960);
	PERFORM gpucredit.reserve('bf', 'bg', 'bg grows', '1-3xBF-A', '9 h', pool => 'bg');
	PERFORM gpucredit.place('bg');
	PERFORM gpucredit.register_node('bg', 'bg-2', 'BF-A', 8, 40960);
	PERFORM gpucredit.register_node('bg', 'bg-3', 'BF-B', 1, 40960);
	PERFORM set_config('gpucredit.clock', '2027-05-04 01:01+00', false);
	PERFORM set_config('gpucredit.backfill_depth', '0', false);
	PERFORM gpucredit.heartbeat('bg-1', '{0}'), gpucredit.heartbeat('bg-2', '{0-7}'), gpucredit.heartbeat('bg-3', '{0}');
	PERFORM gpucredit.reserve('bf', 'bg-2', 'bg first', '1xBF-A', '1 h', 'premium_training', pool => 'bg');
	PERFORM gpucredit.reserve('bf', 'bg-2', 'bg held', '1xBF-B', '1 h', 'premium_training', pool => 'bg');
	PERFORM gpucredit.reserve('bf', 'bg/one', 'bg other', '1xBF-B', '1 h', pool => 'bg');
	PERFORM gpucredit.reserve('bf', 'bg/one', 'bg second', '2xBF-A', '1 h', pool => 'bg');
END $$;
SELECT action, pg_temp.key(job) AS job, node, gpus FROM gpucredit.place('bg');
SELECT count(*) FROM gpucredit.place('bg');
RESET gpucredit.backfill_depth;
SELECT * FROM gpucredit.verify();

\echo === What the audit log says of a reservation
DO $$
BEGIN
	PERFORM gpucredit.create_pool('bh');
	PERFORM gpucredit.register_node('bh', 'bh-1', 'BF-A', 2, 40960);
	PERFORM gpucredit.reserve('bf', '', 'bh holds', '2xBF-A', '2 h', pool => 'bh');
	PERFORM gpucredit.place('bh');
	PERFORM gpucredit.reserve('bf', '', 'bh waits', '1xBF-A', '1 h', pool => 'bh');
END $$;
CREATE FUNCTION pg_temp.heard() RETURNS TABLE (reason text, told jsonb) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM gpucredit.place('bh');
	RETURN QUERY SELECT a.reason, a.detail FROM gpucredit.audit a WHERE a.org = 'bf'
		AND a.job = pg_temp.job('bh waits') AND a.decision = 'reserve' ORDER BY a.audit;
END $$;
SELECT * FROM pg_temp.heard();
-- a cycle that changes nothing writes nothing
SELECT xmin AS was FROM gpucredit.reservation WHERE org = 'bf' AND job = pg_temp.job('bh waits') \gset
SELECT set_config('gpucredit.clock', (gpucredit.now() + '1 s')::text, false) \g /dev/null
SELECT count(*) FROM pg_temp.heard();
SELECT xmin = :was AS as_it_was FROM gpucredit.reservation WHERE org = 'bf' AND job = pg_temp.job('bh waits');
-- a reservation moves by a minute, either way; by more; to other devices
CREATE FUNCTION pg_temp.heard_of(deed text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	told bigint;
BEGIN
	EXECUTE format('UPDATE gpucredit.reservation SET %s WHERE pool = %L', deed, 'bh');
	PERFORM set_config('gpucredit.clock', (gpucredit.now() + '1 us')::text, false);
	SELECT count(*) - 1 INTO told FROM pg_temp.heard();
	RAISE EXCEPTION USING ERRCODE = 'XX999';
EXCEPTION WHEN SQLSTATE 'XX999' THEN
	RETURN told;
END $$;
SELECT deed, pg_temp.heard_of(deed) FROM unnest(ARRAY['at = at + ''60 s''', 'at = at - interval ''60 s''',
	'at = at + ''60.000001 s''', 'at = at - interval ''60.000001 s''', 'nodes = ''bh-2''',
	'limit_at = limit_at - interval ''60 s''', 'limit_at = limit_at - interval ''60.000001 s''', 'latest_at = NULL']) deed;
SELECT * FROM gpucredit.verify('bf');

\echo === A start is guaranteed, and what breaks that is named
-- what is stored is what callers see
SELECT latest_at AS was FROM gpucredit.reservation WHERE org = 'bf' AND job = pg_temp.job('bh waits') \gset
SELECT latest_at = :'was' AS shown FROM gpucredit.reservations('bh');
SELECT detail ~ ', guaranteed by ' AS explained FROM pg_temp.why('bh waits', 'reservation');
-- its node takes no new work any more
SELECT gpucredit.drain('bh-1', 'it fails');
SELECT count(*) FROM gpucredit.place('bh');
SELECT decision, reason, (detail ->> 'latest_start')::timestamptz = :'was' AS of_it, detail ->> 'node' AS node
FROM gpucredit.audit WHERE org = 'bf' AND job = pg_temp.job('bh waits') AND decision = 'guarantee_broken';
SELECT count(*) FROM gpucredit.reservation WHERE pool = 'bh';
SELECT passes, regexp_replace(detail, '\d{4}-\S+ \S+ ?', 'T ', 'g') AS detail FROM pg_temp.why('bh waits', 'guarantee');
-- once that is known, no cycle writes it again
SELECT count(*) FROM gpucredit.place('bh');
SELECT count(*) FROM gpucredit.audit WHERE org = 'bf' AND decision = 'guarantee_broken';
-- a node that comes back gives a new one
SELECT gpucredit.resume('bh-1');
SELECT count(*) FROM gpucredit.place('bh');
SELECT count(latest_at) FROM gpucredit.reservation WHERE org = 'bf' AND job = pg_temp.job('bh waits');
SELECT * FROM gpucredit.verify('bf');

-- the test removes what it made
SELECT set_config('gpucredit.clock', '2027-05-02 12:00+00', false);
SELECT count(gpucredit.cancel('bf', j.job, 'end ' || j.job)) > 0
FROM gpucredit.jobs j WHERE j.org = 'bf' AND j.state IN ('queued', 'starting', 'running');
SELECT count(gpucredit.settle('bf', a.job, a.attempt, 'cancelled')) > 0
FROM gpucredit.attempt a WHERE a.org = 'bf' AND a.ended_at IS NULL;
SELECT * FROM gpucredit.verify('bf');
