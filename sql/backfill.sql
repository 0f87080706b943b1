-- Reservations in the database: a gang starts when it was told it would,
-- through a stream of small jobs; what is learnt of run times; explain.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
SET gpucredit.clock = '2027-05-01 00:00+00';
SET gpucredit.node_suspect = 0;
SET gpucredit.node_lost = 0;
SET gpucredit.meter_lost = 0;
\set VERBOSITY sqlstate
\pset null '-'

DO $$
BEGIN
	PERFORM gpucredit.create_pool('bf');
	PERFORM gpucredit.set_price('BF-A', 1);
	PERFORM gpucredit.register_node('bf', 'bf-' || n, 'BF-A', 8, 40960)
	FROM generate_series(1, 8) n;
	PERFORM gpucredit.create_account('bf');
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
-- Ends what has run for as long as it may.
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
SELECT pg_temp.key(job) AS job, attempt, node, gpus, share, gpu_type, expected_at, latest_at
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
-- told once, and then right
SELECT at, decision, reason, detail ->> 'expected_start' AS expected_start
FROM gpucredit.audit WHERE org = 'bf' AND job = pg_temp.job('gang')
	AND operation = 'place' ORDER BY audit;
-- nobody who would have been in its way was let in
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
-- its own quota holds it back: it has no reservation, and is in nobody's way
SELECT gpucredit.set_quota('bf', 'poor', max_gpus => 4);
SELECT pg_temp.ask('poor', '4xBF-A', '1 h', 'poor'), pg_temp.ask('poorer', '4xBF-A', '1 h', 'poor');
SELECT set_config('gpucredit.clock', '2027-05-01 03:00+00', false);
SELECT pg_temp.end_due();
SELECT count(*) > 0 FROM gpucredit.place('bf');
SELECT check_name, passes, detail FROM gpucredit.explain('bf', pg_temp.job('poorer'));
SELECT count(*) FROM gpucredit.reservations('bf') WHERE job = pg_temp.job('poorer');
SELECT count(*) FROM gpucredit.reservations('no such');

\echo === Learnt run times
-- five of six took a quarter of what they may, one all of it: the fifth counts
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
-- outrun, it is expected to take twice as long
SELECT pg_temp.ask('all', '64xBF-A', '1 h', 'big');
SELECT expected_at, latest_at FROM gpucredit.reservations('bf') LIMIT 1;
SELECT set_config('gpucredit.clock', '2027-05-01 14:30+00', false);
SELECT expected_at, latest_at FROM gpucredit.reservations('bf') LIMIT 1;
SELECT set_config('gpucredit.clock', '2027-05-01 17:00+00', false);
SELECT expected_at, latest_at FROM gpucredit.reservations('bf') LIMIT 1;
SELECT * FROM gpucredit.verify('bf');

-- nothing of this test is left for others
SELECT set_config('gpucredit.clock', '2027-05-02 12:00+00', false);
SELECT count(gpucredit.cancel('bf', j.job, 'end ' || j.job)) > 0
FROM gpucredit.jobs j WHERE j.org = 'bf' AND j.state IN ('queued', 'starting', 'running');
SELECT count(gpucredit.settle('bf', a.job, a.attempt, 'cancelled')) > 0
FROM gpucredit.attempt a WHERE a.org = 'bf' AND a.ended_at IS NULL;
SELECT * FROM gpucredit.verify('bf');
