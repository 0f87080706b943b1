-- Jobs: what is held for them, what they are billed, how they end, and what
-- becomes of the rest.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
SET gpucredit.clock = '2027-01-01 00:00+00';
\set VERBOSITY sqlstate
\pset null '-'

-- Two types at 2 and 3 credits an hour, in a pool of two nodes.
DO $$
BEGIN
	PERFORM gpucredit.create_pool('jo');
	PERFORM gpucredit.set_price('JO-A', 2, 'jo');
	PERFORM gpucredit.set_price('JO-B', 3, 'jo');
	PERFORM gpucredit.register_node('jo', 'jo-a', 'JO-A', 8, 40960, 64000, 65536);
	PERFORM gpucredit.register_node('jo', 'jo-b', 'JO-B', 4, 81920);
	PERFORM gpucredit.create_account('jo');
	PERFORM gpucredit.grant_tier('jo', '', 'production_inference');
	PERFORM gpucredit.grant_tier('jo', '', 'premium_training');
	PERFORM gpucredit.create_account('jo', 'a');
	PERFORM gpucredit.issue('jo', '', 'i', 10000);
END $$;

-- Jobs by the key they were submitted with, and the calls of this test.
CREATE FUNCTION pg_temp.job(job_key text, tenant text DEFAULT 'jo')
RETURNS bigint LANGUAGE sql AS $$
	SELECT r.result[1]::bigint FROM gpucredit.request r
	WHERE r.org = tenant AND r.key = job_key
$$;
CREATE FUNCTION pg_temp.key(id bigint, tenant text DEFAULT 'jo')
RETURNS text LANGUAGE sql AS $$
	SELECT r.key FROM gpucredit.request r
	WHERE r.org = tenant AND r.result[1] = id::text
		AND r.operation = 'reserve'
$$;
CREATE FUNCTION pg_temp.state(job_key text, tenant text DEFAULT 'jo',
	OUT state text, OUT attempt int, OUT failures int, OUT held numeric,
	OUT used numeric, OUT not_before timestamptz)
LANGUAGE sql AS $$
	SELECT j.state, j.attempt, j.failures, j.held, j.used, j.not_before
	FROM gpucredit.jobs j
	WHERE j.org = tenant AND j.job = pg_temp.job(job_key, tenant)
$$;
-- A heartbeat of each node, then a cycle.
CREATE FUNCTION pg_temp.place()
RETURNS TABLE (action text, job text, attempt int, node text,
	gpus gpucredit.gpuset, share int, per_gpu_hour numeric)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM gpucredit.heartbeat(n.node) FROM gpucredit.node n
	WHERE n.pool = 'jo' ORDER BY n.node;
	RETURN QUERY SELECT p.action, pg_temp.key(p.job, p.org), p.attempt,
		p.node, p.gpus, p.share, p.per_gpu_hour FROM gpucredit.place('jo') p;
END $$;

-- Held: the dearest type x GPUs x wall limit.
SELECT r.request, s.status, s.reason, s.held
FROM (VALUES ('1xJO-A'), ('4xJO-A'), ('1xJO-A|JO-B'), ('1xJO-B|JO-A'), ('1x*'),
	('0.25xJO-A'), ('0.001xJO-A'), ('2-4xJO-A'), ('1xJO-A@30GB|JO-B@60GiB'),
	('0')) r (request),
	gpucredit.reserve('jo', 'a', 'held ' || r.request, r.request, '90 min',
		pool => 'jo') s;
-- without a wall limit the hold covers the tier's longest run, or an hour
-- where it has none
SELECT t.tier, s.status, s.held
FROM (VALUES ('production_inference'), ('premium_training'),
	('standard_training'), ('batch_inference'), ('interactive')) t (tier),
	gpucredit.reserve('jo', 'a', 'tier ' || t.tier, '1xJO-A', tier => t.tier,
		pool => 'jo') s;
-- or a hold window, where that is less
SELECT w.wall, w.win, s.status, s.held
FROM (VALUES ('10 h', '1 h'), ('1 h', '10 h'), ('1 us', NULL), (NULL, '15 min'))
		w (wall, win),
	gpucredit.reserve('jo', 'a', format('window %s %s', wall, win), '1xJO-A',
		w.wall::interval, hold_window => w.win::interval, pool => 'jo') s;

-- Denied: requests that nothing in the pool could ever run, or that nobody can
-- pay.
SELECT r.request, s.status, s.reason, s.held
FROM (VALUES ('9xJO-A'), ('5xJO-B'), ('1xJO-A@40GiB'), ('1xJO-A@41GiB'),
	('1xJO-B@81GiB|JO-A@41GiB'), ('9xJO-A|JO-B'), ('64x*')) r (request),
	gpucredit.reserve('jo', 'a', 'never ' || r.request, r.request, '1 h',
		pool => 'jo') s;
SELECT gpucredit.set_tier('jo-long', 0, 'never', true, max_wall => '36500 days') \g /dev/null
SELECT 'cpu' AS of, reason FROM gpucredit.reserve('jo', 'a', 'never 1', '1xJO-A', '1 h',
	pool => 'jo', cpu_milli => 64001)
UNION ALL SELECT 'memory', reason FROM gpucredit.reserve('jo', 'a', 'never 2', '1xJO-A', '1 h',
	pool => 'jo', memory_mib => 65537)
UNION ALL SELECT 'just fits', reason FROM gpucredit.reserve('jo', 'a', 'just', '1xJO-A', '1 h',
	pool => 'jo', cpu_milli => 64000, memory_mib => 65536)
UNION ALL SELECT 'credit', reason FROM gpucredit.reserve('jo', 'a', 'poor', '8xJO-A', '15001 h',
	tier => 'jo-long', pool => 'jo')
UNION ALL SELECT 'wall', reason FROM gpucredit.reserve('jo', 'a', 'poor 2', '8xJO-A', '36500 days',
	tier => 'jo-long', pool => 'jo');
SELECT * FROM gpucredit.reserve('jo', 'a', 'x', '1xJO-A', '2 h 1 us', 'batch_inference', 'jo');
SELECT * FROM gpucredit.reserve('jo', 'a', 'x', '1xJO-A', '1 h', 'no such', 'jo');
SELECT * FROM gpucredit.reserve('jo', 'a', 'x', '1xJO-A', '1 h', pool => 'no such');
SELECT * FROM gpucredit.reserve('jo', 'a', 'x', '1xJO-Z', '1 h', pool => 'jo');
SELECT * FROM gpucredit.reserve('jo', 'no such', 'x', '1xJO-A', '1 h', pool => 'jo');
SELECT gpucredit.suspend_account('jo', '', true);
SELECT status, reason FROM gpucredit.reserve('jo', 'a', 'suspended', '1xJO-A', '1 h', pool => 'jo');
SELECT gpucredit.suspend_account('jo', '', false);
-- all granted jobs are cancelled while they wait: nothing was spent
SELECT c.job_state, count(*) FROM gpucredit.job j,
	gpucredit.cancel('jo', j.job, 'cancel ' || j.job) c
WHERE j.org = 'jo' GROUP BY 1;
SELECT available, held, used, spent FROM gpucredit.balance('jo');
SELECT * FROM gpucredit.verify('jo');

-- Metering: the first heartbeat, which may say 0, makes the attempt running;
-- the longest elapsed reported counts.
SELECT status, held FROM gpucredit.reserve('jo', 'a', 'm1', '3xJO-A', '1 h', pool => 'jo');
SELECT * FROM pg_temp.place();
SELECT state, held FROM pg_temp.state('m1');
SELECT * FROM gpucredit.meter('jo', pg_temp.job('m1'), 1, '0');
SELECT state, held, used FROM pg_temp.state('m1');
SET gpucredit.clock = '2027-01-01 00:10+00';
SELECT * FROM gpucredit.meter('jo', pg_temp.job('m1'), 1, '10 min', 100, 0.5);
SELECT * FROM gpucredit.meter('jo', pg_temp.job('m1'), 1, '10 min', 100, 0.5);	-- repeated
SELECT * FROM gpucredit.meter('jo', pg_temp.job('m1'), 1, '5 min', 50, 0.1);	-- late
SELECT elapsed, progress, utilization FROM gpucredit.attempt
WHERE org = 'jo' AND job = pg_temp.job('m1');
SELECT held, used, spent FROM gpucredit.balance('jo', 'a');
-- the bill is rounded half up, once, from the whole: 3 x 2/3600 s x elapsed
SELECT e.elapsed, m.billed
FROM (VALUES ('600.0001 s'::interval), ('600.000299 s'), ('600.0003 s'),
	('600.0009 s'), ('601 s')) e (elapsed),
	gpucredit.meter('jo', pg_temp.job('m1'), 1, e.elapsed) m;
SELECT outcome, billed, released, lapsed, refunded, job_state, retry_at, replayed
FROM gpucredit.settle('jo', pg_temp.job('m1'), 1, 'completed', '601.3 s');
SELECT state, held, used FROM pg_temp.state('m1');
SELECT * FROM gpucredit.meter('jo', pg_temp.job('m1'), 1, '20 min');	-- it is over
-- so the number of heartbeats does not matter
SELECT status FROM gpucredit.reserve('jo', 'a', 'm2', '3xJO-A', '1 h', pool => 'jo');
SELECT status FROM gpucredit.reserve('jo', 'a', 'm3', '3xJO-A', '1 h', pool => 'jo');
SELECT job, attempt FROM pg_temp.place();
SET gpucredit.clock = '2027-01-01 00:40+00';
SELECT count(*), max(m.billed) FROM generate_series(1, 1000) n,
	gpucredit.meter('jo', pg_temp.job('m2'), 1, n * '1.234567 s'::interval) m;
SELECT m.key, s.billed FROM (VALUES ('m2'), ('m3')) m (key),
	gpucredit.settle('jo', pg_temp.job(m.key), 1, 'completed', '1234.567 s') s;
-- usage is logged every 5 minutes and at the end
SELECT m.key, u.elapsed, u.billed::numeric FROM (VALUES ('m2'), ('m3')) m (key),
	gpucredit.usage u
WHERE u.org = 'jo' AND u.job = pg_temp.job(m.key) ORDER BY m.key, u.elapsed;

-- An agent cannot have run longer than the server saw, within 5 s; more is
-- cut, and audited once.
SELECT status FROM gpucredit.reserve('jo', 'a', 'skew', '1xJO-A', '10 h', pool => 'jo');
SELECT job, attempt FROM pg_temp.place();
SET gpucredit.clock = '2027-01-01 00:41+00';
SELECT action, billed, time_left FROM gpucredit.meter('jo', pg_temp.job('skew'), 1, '65 s');
SELECT action, billed, time_left FROM gpucredit.meter('jo', pg_temp.job('skew'), 1, '2 h');
SELECT elapsed FROM gpucredit.attempt WHERE org = 'jo' AND job = pg_temp.job('skew');
SET gpucredit.clock = '2027-01-01 00:42+00';
SELECT action, billed, time_left FROM gpucredit.meter('jo', pg_temp.job('skew'), 1, '2 h');
SELECT billed FROM gpucredit.settle('jo', pg_temp.job('skew'), 1, 'completed', '36500 days');
SELECT at, operation, decision, reason FROM gpucredit.audit
WHERE org = 'jo' AND job = pg_temp.job('skew') AND reason LIKE '%clock_skew%'
	OR org = 'jo' AND job = pg_temp.job('skew') AND reason LIKE '%cut%' ORDER BY audit;

-- The wall limit ends the attempt, not its bill: what the hold lacks is drawn.
SELECT status, held FROM gpucredit.reserve('jo', 'a', 'wall', '1xJO-A', '30 min', pool => 'jo');
SELECT job, attempt FROM pg_temp.place();
SET gpucredit.clock = '2027-01-01 01:11:59.999999+00';
SELECT action, reason, billed, time_left
FROM gpucredit.meter('jo', pg_temp.job('wall'), 1, '29 min 59.999999 s');
SET gpucredit.clock = '2027-01-01 01:42+00';
SELECT action, reason, billed, held, time_left FROM gpucredit.meter('jo', pg_temp.job('wall'), 1, '30 min');
SELECT action, reason, billed FROM gpucredit.meter('jo', pg_temp.job('wall'), 1, '1 h');
SELECT billed, released, job_state FROM gpucredit.settle('jo', pg_temp.job('wall'), 1, 'timeout');
SELECT * FROM gpucredit.verify('jo');

-- A hold by the window is extended ahead of need; the last extension covers
-- what the wall limit leaves.
SET gpucredit.clock = '2027-01-02 00:00+00';
SELECT status, held FROM gpucredit.reserve('jo', 'a', 'ext', '1xJO-A', '100 min', hold_window => '1 h', pool => 'jo');
SELECT job, attempt FROM pg_temp.place();
SET gpucredit.clock = '2027-01-02 00:55+00';
SELECT action, held, time_left FROM gpucredit.meter('jo', pg_temp.job('ext'), 1, '55 min');
SELECT action, held, time_left FROM gpucredit.meter('jo', pg_temp.job('ext'), 1, '55 min 1 s');
SET gpucredit.clock = '2027-01-02 01:40+00';
SELECT action, reason, held, billed FROM gpucredit.meter('jo', pg_temp.job('ext'), 1, '99 min');
SELECT action, reason, held, billed FROM gpucredit.meter('jo', pg_temp.job('ext'), 1, '100 min');
SELECT billed, released, job_state FROM gpucredit.settle('jo', pg_temp.job('ext'), 1, 'completed');

-- A tier without a longest run has its hold extended hour by hour, without
-- end.
SELECT status, held FROM gpucredit.reserve('jo', 'a', 'serve', '2xJO-A', tier => 'production_inference', pool => 'jo');
SELECT job, attempt FROM pg_temp.place();
SET gpucredit.clock = '2027-01-02 02:40+00';
SELECT action, held, time_left FROM gpucredit.meter('jo', pg_temp.job('serve'), 1, '58 min');
SET gpucredit.clock = '2027-01-02 03:35+00';
SELECT action, held, time_left FROM gpucredit.meter('jo', pg_temp.job('serve'), 1, '115 min');
SELECT action, held, time_left FROM gpucredit.meter('jo', pg_temp.job('serve'), 1, '116 min');
SELECT billed, job_state FROM gpucredit.settle('jo', pg_temp.job('serve'), 1, 'completed');
SELECT * FROM gpucredit.verify('jo');

-- A heartbeat after the held time logs the bill that it answers: within the
-- hold as just extended.
SELECT status, held FROM gpucredit.reserve('jo', 'a', 'late', '1xJO-A', '10 h', hold_window => '1 h', pool => 'jo');
SELECT job, attempt FROM pg_temp.place();
SELECT action FROM gpucredit.meter('jo', pg_temp.job('late'), 1, '1 s');
SET gpucredit.clock = '2027-01-02 04:36+00';
SELECT action, held, billed FROM gpucredit.meter('jo', pg_temp.job('late'), 1, '61 min');
SELECT elapsed, billed FROM gpucredit.usage WHERE org = 'jo' AND job = pg_temp.job('late');
SELECT billed, job_state FROM gpucredit.settle('jo', pg_temp.job('late'), 1, 'completed');
SELECT * FROM gpucredit.verify('jo');

-- Without credit: the attempt is told to save while there is time, and to stop
-- when there is none; new credit lets it go on.
DO $$
BEGIN
	PERFORM gpucredit.create_account('jo-poor');
	PERFORM gpucredit.issue('jo-poor', '', 'i', 2);
END $$;
SET gpucredit.clock = '2027-01-03 00:00+00';
SELECT status, held FROM gpucredit.reserve('jo-poor', '', 'p', '1xJO-A', '10 h', hold_window => '1 h', pool => 'jo');
SELECT job, attempt FROM pg_temp.place();
SET gpucredit.clock = '2027-01-03 00:56+00';
SELECT action, reason, held, deadline, time_left FROM gpucredit.meter('jo-poor', pg_temp.job('p', 'jo-poor'), 1, '56 min');
SET gpucredit.clock = '2027-01-03 00:57+00';
SELECT action, reason, held, deadline, time_left FROM gpucredit.meter('jo-poor', pg_temp.job('p', 'jo-poor'), 1, '57 min');
SELECT replayed FROM gpucredit.issue('jo-poor', '', 'i2', 2);
-- a repeated heartbeat tries once more, though the agent's clock stands; a
-- late one tries nothing
SELECT action, reason, held, deadline, time_left FROM gpucredit.meter('jo-poor', pg_temp.job('p', 'jo-poor'), 1, '56 min 59 s');
SELECT action, reason, held, deadline, time_left FROM gpucredit.meter('jo-poor', pg_temp.job('p', 'jo-poor'), 1, '57 min');
SELECT action, reason, held, deadline, time_left FROM gpucredit.meter('jo-poor', pg_temp.job('p', 'jo-poor'), 1, '57 min');
SET gpucredit.clock = '2027-01-03 00:58+00';
SELECT action, reason, held, deadline, time_left FROM gpucredit.meter('jo-poor', pg_temp.job('p', 'jo-poor'), 1, '58 min');
SET gpucredit.clock = '2027-01-03 01:59+00';
SELECT action, reason, held, time_left FROM gpucredit.meter('jo-poor', pg_temp.job('p', 'jo-poor'), 1, '119 min');
SET gpucredit.clock = '2027-01-03 02:10+00';
-- the very instant at which the hold is used up
SELECT action, reason, held, billed, time_left FROM gpucredit.meter('jo-poor', pg_temp.job('p', 'jo-poor'), 1, '119 min 59.999999 s');
SELECT action, reason, held, billed, time_left FROM gpucredit.meter('jo-poor', pg_temp.job('p', 'jo-poor'), 1, '2 h');
SELECT action, reason, held, billed, time_left FROM gpucredit.meter('jo-poor', pg_temp.job('p', 'jo-poor'), 1, '121 min');
-- the attempt must stop for good, unless it is metered again while there is
-- credit
SELECT replayed FROM gpucredit.issue('jo-poor', '', 'i3', 2);
SELECT gpucredit.suspend_account('jo-poor', '', true);
SELECT action, reason, held, billed FROM gpucredit.meter('jo-poor', pg_temp.job('p', 'jo-poor'), 1, '122 min');
SELECT gpucredit.suspend_account('jo-poor', '', false);
SELECT action, reason, held, billed, time_left FROM gpucredit.meter('jo-poor', pg_temp.job('p', 'jo-poor'), 1, '123 min');
-- denied extensions are audited once each time the hold runs out
SELECT at, operation, decision, reason FROM gpucredit.audit
WHERE org = 'jo-poor' AND operation = 'extend' ORDER BY audit;
SELECT billed, released, job_state FROM gpucredit.settle('jo-poor', pg_temp.job('p', 'jo-poor'), 1, 'completed');
SELECT available, held, spent FROM gpucredit.balance('jo-poor');
SELECT * FROM gpucredit.verify('jo-poor');

-- An organisation without any paying bucket is out of credit, not busy.
SET gpucredit.clock = '2027-01-03 03:00+00';
DO $$
BEGIN
	PERFORM gpucredit.create_account('jo-gone');
	PERFORM gpucredit.issue('jo-gone', '', 'i', 3, valid_for => '30 min');
	PERFORM gpucredit.reserve('jo-gone', '', 'g', '1xJO-A', '10 h', hold_window => '1 h', pool => 'jo');
END $$;
SELECT job, attempt FROM pg_temp.place();
SET gpucredit.clock = '2027-01-03 03:56+00';
SELECT action, reason, held, time_left FROM gpucredit.meter_batch('{jo-gone}', ARRAY[pg_temp.job('g', 'jo-gone')], '{1}', '{56 min}');
BEGIN;
SELECT replayed FROM gpucredit.issue('jo-gone', '', 'i2', 2);
SELECT action, reason, held, time_left FROM gpucredit.meter_batch('{jo-gone}', ARRAY[pg_temp.job('g', 'jo-gone')], '{1}', '{55 min}');
SELECT action, reason, held, time_left FROM gpucredit.meter_batch('{jo-gone}', ARRAY[pg_temp.job('g', 'jo-gone')], '{1}', '{56 min}');
SELECT action, reason, held, time_left FROM gpucredit.meter_batch('{jo-gone}', ARRAY[pg_temp.job('g', 'jo-gone')], '{1}', '{56 min}');
ROLLBACK;
SELECT outcome, billed, lapsed, job_state FROM gpucredit.settle('jo-gone', pg_temp.job('g', 'jo-gone'), 1, 'preempted');
SELECT job, attempt FROM pg_temp.place();
SELECT state FROM pg_temp.state('g', 'jo-gone');
SELECT * FROM gpucredit.cancel('jo-gone', pg_temp.job('g', 'jo-gone'), 'c');
SELECT * FROM gpucredit.verify('jo-gone');

-- Many heartbeats at once are answered in order. Of duplicates the longest
-- counts; unknown attempts are told to stop, and the others proceed.
SET gpucredit.clock = '2027-01-04 00:00+00';
SELECT status FROM generate_series(1, 3) n,
	gpucredit.reserve('jo', 'a', 'b' || n, '1xJO-A', '1 h', pool => 'jo');
SELECT job, attempt FROM pg_temp.place();
SET gpucredit.clock = '2027-01-04 00:10+00';
SELECT ordinal, org, pg_temp.key(job, org) AS job, attempt, action, reason, billed, held, deadline, time_left
FROM gpucredit.meter_batch('{jo,jo,jo,jo-poor,jo,jo,nobody}',
	ARRAY[pg_temp.job('b2'), pg_temp.job('b1'), pg_temp.job('b2'), pg_temp.job('b3'),
		pg_temp.job('b3'), 0, pg_temp.job('b3')],
	'{1,1,1,1,2,1,1}',
	'{3 min,10 min,6 min,1 min,1 min,1 min,1 min}',
	'{3,10,6,1,1,1,NULL}', '{0.3,0.1,0.6,NULL,1,1,1}');
SELECT pg_temp.key(job) AS job, elapsed, progress, utilization FROM gpucredit.attempt
WHERE org = 'jo' AND ended_at IS NULL ORDER BY 1;
SELECT ordinal, action, billed FROM gpucredit.meter_batch('{jo,jo}',
	ARRAY[pg_temp.job('b2'), pg_temp.job('b1')], '{1,1}', '{5 min,9 min}');	-- late
SELECT * FROM gpucredit.meter_batch('{}', '{}', '{}', '{}');
SELECT * FROM gpucredit.meter_batch('{}', '{}', '{}', '{}', '{}', '{}');
SELECT * FROM gpucredit.meter_batch('{jo}', '{1}', '{1}', '{}');
SELECT * FROM gpucredit.meter_batch('{jo}', '{1}', '{1}', '{0}', '{}');
SELECT * FROM gpucredit.meter_batch('{jo}', '{1}', '{NULL}', '{0}');
SELECT * FROM gpucredit.meter_batch('{jo}', '{1}', '{1}', NULL);
-- and 10,000 of them
SELECT count(*), min(ordinal), max(ordinal), count(*) FILTER (WHERE action = 'continue') AS continue,
	count(*) FILTER (WHERE reason = 'unknown') AS unknown
FROM gpucredit.meter_batch(array_fill('jo'::text, ARRAY[10000]),
	(SELECT array_agg(CASE WHEN n % 2 = 0 THEN pg_temp.job('b3') ELSE -n END ORDER BY n) FROM generate_series(1, 10000) n),
	array_fill(1, ARRAY[10000]),
	(SELECT array_agg(n * '1 ms'::interval ORDER BY n) FROM generate_series(1, 10000) n));
SELECT elapsed FROM gpucredit.attempt WHERE org = 'jo' AND job = pg_temp.job('b3');
-- running attempts: a heartbeat that leaves out a figure keeps it, progress
-- counts from when it grew, usage is logged where due
SET gpucredit.clock = '2027-01-04 00:20+00';
SELECT ordinal, action, billed FROM gpucredit.meter_batch('{jo,jo,jo,jo}',
	ARRAY[pg_temp.job('b3'), pg_temp.job('b1'), pg_temp.job('b2'), pg_temp.job('b3')], '{1,1,1,1}',
	'{4 min,12 min,11 min,5 min}', '{9,NULL,4,NULL}', '{0.9,NULL,0.2,NULL}');
SELECT pg_temp.key(job) AS job, elapsed, logged, heard_at, progress, progress_at, utilization
FROM gpucredit.attempt WHERE org = 'jo' AND ended_at IS NULL ORDER BY 1;
-- one of them claims more time than has passed
SET gpucredit.clock = '2027-01-04 00:25+00';
SELECT ordinal, action, billed FROM gpucredit.meter_batch('{jo,jo,jo}',
	ARRAY[pg_temp.job('b1'), pg_temp.job('b2'), pg_temp.job('b3')], '{1,1,1}', '{16 min,12 min,40 min}');
SELECT pg_temp.key(job) AS job, elapsed, logged, heard_at, progress, progress_at, utilization, skewed_at
FROM gpucredit.attempt WHERE org = 'jo' AND ended_at IS NULL ORDER BY 1;
SELECT pg_temp.key(u.job) AS job, at, elapsed, billed, progress, utilization FROM gpucredit.usage u
WHERE org = 'jo' AND job IN (SELECT pg_temp.job('b' || n) FROM generate_series(1, 3) n) ORDER BY 1, 2;

-- Every kind of heartbeat updates the attempt's row in place (HOT): the first,
-- an ordinary one, one with all figures, one that is cut, one that extends the
-- hold, and those of a batch. One may leave the page, since nothing is pruned
-- from a page inside of the one transaction.
SELECT status FROM gpucredit.reserve('jo', 'a', 'hot', '1xJO-A', '3 h', hold_window => '1 h', pool => 'jo');
SELECT job FROM pg_temp.place() WHERE job = 'hot';
BEGIN;
SET LOCAL gpucredit.clock = '2027-01-04 00:50+00';
SELECT pg_stat_get_xact_tuples_updated('gpucredit.attempt'::regclass) AS all_before,
	pg_stat_get_xact_tuples_hot_updated('gpucredit.attempt'::regclass) AS hot_before \gset
SELECT action FROM gpucredit.meter('jo', pg_temp.job('hot'), 1, '0');
SELECT action FROM gpucredit.meter('jo', pg_temp.job('hot'), 1, '1 min');
SELECT action FROM gpucredit.meter('jo', pg_temp.job('hot'), 1, '20 min', 7, 0.5);
SELECT action FROM gpucredit.meter('jo', pg_temp.job('hot'), 1, '2 h');
SELECT action FROM gpucredit.meter_batch('{jo,jo}', ARRAY[pg_temp.job('b1'), pg_temp.job('b3')], '{1,1}', '{45 min,46 min}');
SELECT action FROM gpucredit.meter_batch('{jo,jo}', ARRAY[pg_temp.job('b1'), pg_temp.job('b3')], '{1,1}', '{46 min,47 min}',
	'{20,21}', '{0.1,0.2}');
SET LOCAL gpucredit.clock = '2027-01-04 01:22+00';
SELECT action, held FROM gpucredit.meter('jo', pg_temp.job('hot'), 1, '56 min');
SELECT pg_stat_get_xact_tuples_updated('gpucredit.attempt'::regclass) - :all_before AS updated,
	pg_stat_get_xact_tuples_updated('gpucredit.attempt'::regclass) - :all_before -
	(pg_stat_get_xact_tuples_hot_updated('gpucredit.attempt'::regclass) - :hot_before) <= 1 AS in_place;
ROLLBACK;
SELECT job_state FROM gpucredit.cancel('jo', pg_temp.job('hot'), 'not hot');
SELECT job_state FROM gpucredit.settle('jo', pg_temp.job('hot'), 1, 'cancelled');

-- Settling: what each outcome means for the job.
SELECT b.job_state FROM generate_series(1, 3) n,
	gpucredit.settle('jo', pg_temp.job('b' || n), 1, 'completed') b;
SET gpucredit.clock = '2027-01-05 00:00+00';
CREATE TEMP TABLE outcome (n serial, outcome text);
INSERT INTO outcome (outcome) VALUES ('completed'), ('failed'), ('out_of_memory'),
	('timeout'), ('preempted'), ('cancelled'), ('node_lost'), ('resized');
SELECT status, held FROM outcome, gpucredit.reserve('jo', 'a', 'o ' || outcome, '1xJO-A', '1 h',
	pool => 'jo', max_retries => 1);
SELECT count(*) FROM pg_temp.place();
SET gpucredit.clock = '2027-01-05 00:30+00';
SELECT o.outcome, s.billed, s.released, s.lapsed, s.refunded, s.job_state, s.retry_at, s.replayed
FROM outcome o, gpucredit.settle('jo', pg_temp.job('o ' || o.outcome), 1, o.outcome, '30 min',
	7, 'message', 'log') s ORDER BY o.n;
SELECT o.outcome, s.* FROM outcome o, pg_temp.state('o ' || o.outcome) s ORDER BY o.n;
-- exactly once: a second call with any arguments gets the first one's row
SELECT o.outcome, s.outcome AS was, s.billed, s.released, s.job_state, s.retry_at, s.replayed
FROM outcome o, gpucredit.settle('jo', pg_temp.job('o ' || o.outcome), 1, 'timeout', '40 min') s ORDER BY o.n;
SELECT exit_code, message, log_uri, elapsed FROM gpucredit.attempt
WHERE org = 'jo' AND job = pg_temp.job('o failed');
-- the second attempt: one failure too many ends the job; preemption, loss and
-- resizing never do
SET gpucredit.clock = '2027-01-05 00:30:30+00';
SELECT job, attempt, per_gpu_hour FROM pg_temp.place();
SELECT o.outcome, s.billed, s.job_state, s.retry_at FROM outcome o,
	gpucredit.settle('jo', pg_temp.job('o ' || o.outcome), 2, o.outcome) s
WHERE o.outcome IN ('failed', 'preempted', 'node_lost', 'resized') ORDER BY o.n;
SELECT o.outcome, s.state, s.attempt, s.failures FROM outcome o, pg_temp.state('o ' || o.outcome) s
WHERE o.outcome IN ('failed', 'preempted', 'node_lost', 'resized') ORDER BY o.n;
SELECT * FROM gpucredit.settle('jo', pg_temp.job('o preempted'), 3, 'completed');	-- not yet
SELECT count(*) FROM pg_temp.place();
SELECT s.job_state FROM outcome o, gpucredit.settle('jo', pg_temp.job('o ' || o.outcome), 3, 'completed') s
WHERE o.outcome IN ('preempted', 'node_lost', 'resized');
SELECT * FROM gpucredit.verify('jo');

-- Backoff doubles up to its limit; until then the job is not placed.
SET gpucredit.retry_backoff_max = '100 s';
SET gpucredit.clock = '2027-01-06 00:00+00';
SELECT status FROM gpucredit.reserve('jo', 'a', 'retry', '1xJO-A', '1 h', pool => 'jo', max_retries => 4);
SELECT job, attempt FROM pg_temp.place();
SELECT job_state, retry_at FROM gpucredit.settle('jo', pg_temp.job('retry'), 1, 'failed');
SET gpucredit.clock = '2027-01-06 00:00:29.999999+00';
SELECT job, attempt FROM pg_temp.place();
SET gpucredit.clock = '2027-01-06 00:00:30+00';
SELECT job, attempt FROM pg_temp.place();
SELECT job_state, retry_at FROM gpucredit.settle('jo', pg_temp.job('retry'), 2, 'failed');
SET gpucredit.clock = '2027-01-06 00:01:30+00';
SELECT job, attempt FROM pg_temp.place();
SELECT job_state, retry_at FROM gpucredit.settle('jo', pg_temp.job('retry'), 3, 'failed');
SET gpucredit.clock = '2027-01-06 00:03:10+00';
SELECT job, attempt FROM pg_temp.place();
SELECT job_state, retry_at FROM gpucredit.settle('jo', pg_temp.job('retry'), 4, 'failed');
SET gpucredit.clock = '2027-01-06 00:04:50+00';
SELECT job, attempt FROM pg_temp.place();
SELECT job_state, retry_at FROM gpucredit.settle('jo', pg_temp.job('retry'), 5, 'failed');
SELECT * FROM pg_temp.state('retry');
RESET gpucredit.retry_backoff_max;

-- A requeued job holds again, at the prices of that moment; without credit it
-- waits, and place resumes it when there is some.
SET gpucredit.clock = '2027-01-07 00:00+00';
DO $$
BEGIN
	PERFORM gpucredit.create_account('jo-unf');
	PERFORM gpucredit.issue('jo-unf', '', 'i', 2.5);
END $$;
SELECT status, held FROM gpucredit.reserve('jo-unf', '', 'u', '1xJO-A', '1 h', pool => 'jo');
SELECT job, attempt, per_gpu_hour FROM pg_temp.place();
SELECT gpucredit.set_price('JO-A', 2.2, 'jo');
SET gpucredit.clock = '2027-01-07 00:12+00';
SELECT billed, released, job_state, retry_at FROM gpucredit.settle('jo-unf', pg_temp.job('u', 'jo-unf'), 1, 'preempted', '12 min');
SELECT state, held FROM pg_temp.state('u', 'jo-unf');
SELECT available, held, spent FROM gpucredit.balance('jo-unf');
SELECT job, attempt FROM pg_temp.place();
SELECT replayed FROM gpucredit.issue('jo-unf', '', 'i2', 0.099999);
SELECT job, attempt FROM pg_temp.place();
SELECT replayed FROM gpucredit.issue('jo-unf', '', 'i3', 0.000001);
SELECT job, attempt, per_gpu_hour FROM pg_temp.place();
SELECT * FROM pg_temp.state('u', 'jo-unf');
SELECT available, held, spent FROM gpucredit.balance('jo-unf');
-- an unfunded job can be cancelled
SELECT billed, job_state FROM gpucredit.settle('jo-unf', pg_temp.job('u', 'jo-unf'), 2, 'node_lost', '0');
SELECT gpucredit.suspend_account('jo-unf', '', true);
SET gpucredit.clock = '2027-01-07 00:13+00';
SELECT job, attempt FROM pg_temp.place();
SELECT billed, job_state FROM gpucredit.settle('jo-unf', pg_temp.job('u', 'jo-unf'), 3, 'preempted', '1 min');
SELECT state, held FROM pg_temp.state('u', 'jo-unf');
SELECT job_state FROM gpucredit.cancel('jo-unf', pg_temp.job('u', 'jo-unf'), 'c');
SELECT available, held, spent FROM gpucredit.balance('jo-unf');
SELECT gpucredit.set_price('JO-A', 2, 'jo');
SELECT * FROM gpucredit.verify('jo-unf');
-- Its offers are made again, too: new types count for "*", and a type that
-- nobody knows any more is passed over. Where none of its types is left, the
-- job keeps its old offers.
CREATE FUNCTION pg_temp.offers() RETURNS TABLE (request text, state text,
	offer_types text[], offer_prices text[], held numeric) LANGUAGE sql AS $$
	SELECT j.request::text, j.state, j.offer_types, j.offer_prices::text[], h.held::numeric
	FROM gpucredit.job j LEFT JOIN gpucredit.hold h ON h.org = j.org AND h.hold = j.hold
	WHERE j.org = 'renew' ORDER BY j.job
$$;
DO $$
BEGIN
	PERFORM gpucredit.create_account('renew');
	PERFORM gpucredit.issue('renew', '', 'i', 100);
	PERFORM gpucredit.create_pool('renew');
	PERFORM gpucredit.register_node('renew', 'renew-' || n, 'JO-N' || n, 8, 1000)
	FROM generate_series(1, 2) n;
	PERFORM gpucredit.set_price('JO-N1', 1, 'renew');
	PERFORM gpucredit.reserve('renew', '', r, r, '1 h', pool => 'renew')
	FROM unnest('{1x*,1xJO-N2|JO-N1,1xJO-N1}'::text[]) r;
	PERFORM gpucredit.place('renew');
END $$;
SELECT * FROM pg_temp.offers();
DO $$
BEGIN
	PERFORM gpucredit.register_node('renew', 'renew-3', 'JO-N3', 8, 1000);
	PERFORM gpucredit.set_price('JO-N3', 4, 'renew');
	PERFORM gpucredit.remove_node('renew-2');
END $$;
SELECT pg_temp.key(j.job, 'renew') AS request, s.job_state
FROM gpucredit.job j, gpucredit.settle('renew', j.job, 1, 'preempted', '0') s
WHERE j.org = 'renew' ORDER BY j.job;
SELECT * FROM pg_temp.offers();
SELECT pg_temp.key(p.job, 'renew') AS request, p.gpu_type FROM gpucredit.place('renew') p;
DO $$
BEGIN
	PERFORM gpucredit.suspend_account('renew', '', true);
	PERFORM gpucredit.settle('renew', j.job, 2, 'preempted', '0')
	FROM gpucredit.job j WHERE j.org = 'renew' ORDER BY j.job;
	PERFORM gpucredit.cancel('renew', pg_temp.job('1x*', 'renew'), 'c');
	PERFORM gpucredit.remove_node('renew-1');
	PERFORM gpucredit.suspend_account('renew', '', false);
END $$;
SELECT count(*) FROM gpucredit.plan('renew');
SELECT key, passes, detail FROM unnest('{1xJO-N2|JO-N1,1xJO-N1}'::text[]) key,
	gpucredit.explain('renew', pg_temp.job(key, 'renew')) WHERE check_name = 'credit';
SELECT count(*) FROM gpucredit.place('renew');
SELECT * FROM pg_temp.offers();
SELECT * FROM gpucredit.verify('renew');

-- A job that nobody could pay waits for credit, too, and blocks no other: here
-- a job without end of a free type, which then gets a price.
DO $$
BEGIN
	PERFORM gpucredit.create_account('dear'), gpucredit.issue('dear', '', 'i', 100);
	PERFORM gpucredit.create_pool('dear');
	PERFORM gpucredit.register_node('dear', 'dear', 'JO-D', 8, 1000);
	PERFORM gpucredit.set_price('JO-D', 0);
	PERFORM gpucredit.set_tier('jo-ages', 0, 'never', true, max_wall => '2500000000 h');
	PERFORM gpucredit.reserve('dear', '', 'ages', '7xJO-D', '2500000000 h', 'jo-ages', 'dear');
	PERFORM gpucredit.reserve('dear', '', 'hour', '1xJO-D', '1 h', pool => 'dear');
	PERFORM gpucredit.place('dear');
	PERFORM gpucredit.set_price('JO-D', 1000);
END $$;
SELECT key, s.job_state FROM unnest('{ages,hour}'::text[]) key,
	gpucredit.settle('dear', pg_temp.job(key, 'dear'), 1, 'preempted', '0') s;
SELECT passes, detail FROM gpucredit.explain('dear', pg_temp.job('ages', 'dear')) WHERE check_name = 'credit';
SELECT replayed FROM gpucredit.issue('dear', '', 'i2', 900);
SELECT pg_temp.key(job, 'dear') AS key, attempt FROM gpucredit.plan('dear');
SELECT pg_temp.key(job, 'dear') AS key, attempt FROM gpucredit.place('dear');
SELECT gpucredit.set_price('JO-D', 0);
SELECT pg_temp.key(job, 'dear') AS key, attempt FROM gpucredit.place('dear');
SELECT * FROM gpucredit.verify('dear');

-- There is credit for some of the unfunded jobs: one cycle funds them all, the
-- oldest of each account, and plan lists them.
DO $$
BEGIN
	PERFORM gpucredit.create_account('jo-few');
	PERFORM gpucredit.create_account('jo-few', leaf) FROM unnest('{a,b}'::text[]) leaf;
	PERFORM gpucredit.create_pool('jo-few');
	PERFORM gpucredit.register_node('jo-few', 'jo-few', 'JO-F', 8, 1000);
	PERFORM gpucredit.set_price('JO-F', 1);
	PERFORM gpucredit.issue('jo-few', '', 'i', 10);
	PERFORM gpucredit.set_budget('jo-few', 'b', 100, 'none');
	PERFORM gpucredit.reserve('jo-few', leaf, leaf || n, '1xJO-F', '1 h', pool => 'jo-few')
	FROM generate_series(1, 3) n, unnest('{a,b}'::text[]) leaf;
	PERFORM gpucredit.place('jo-few');
	PERFORM gpucredit.suspend_account('jo-few', '', true);
	PERFORM gpucredit.settle('jo-few', j.job, 1, 'preempted', '0')
	FROM gpucredit.job j WHERE j.org = 'jo-few' ORDER BY j.job;
END $$;
SELECT count(*) FROM gpucredit.plan('jo-few');
SELECT gpucredit.suspend_account('jo-few', '', false);
SELECT status FROM gpucredit.hold('jo-few', '', 'h', 5.5, '1 day');
SELECT gpucredit.set_budget('jo-few', 'b', 1, 'none');
SELECT key, check_name, passes, detail FROM unnest('{a1,a3,b3}'::text[]) key,
	gpucredit.explain('jo-few', pg_temp.job(key, 'jo-few')) e WHERE check_name = 'credit';
CREATE TEMPORARY TABLE foreseen AS SELECT * FROM gpucredit.plan('jo-few');
SELECT s.key, s.attempt, EXISTS (SELECT FROM foreseen f WHERE f.job = p.job AND f.gpus::text = p.gpus::text) AS foreseen
FROM gpucredit.place('jo-few') p JOIN LATERAL (SELECT r.key, p.attempt FROM gpucredit.request r
	WHERE r.org = p.org AND r.operation = 'reserve' AND r.result[1] = p.job::text) s ON true ORDER BY 1;
SELECT count(*) FROM gpucredit.place('jo-few');
-- a job that costs nothing is held back by no budget, however far it is passed
DO $$
BEGIN
	PERFORM gpucredit.create_account('jo-few', 'c');
	PERFORM gpucredit.reserve('jo-few', 'c', 'c1', '0', '1 h', pool => 'jo-few');
	PERFORM gpucredit.place('jo-few');
	PERFORM gpucredit.suspend_account('jo-few', 'c', true);
	PERFORM gpucredit.settle('jo-few', pg_temp.job('c1', 'jo-few'), 1, 'preempted', '0');
	PERFORM gpucredit.suspend_account('jo-few', 'c', false);
	PERFORM gpucredit.set_budget('jo-few', 'c', 1, 'none');
	PERFORM gpucredit.hold('jo-few', 'c', 'hc', 0.1, '1 day');
	PERFORM gpucredit.set_budget('jo-few', 'c', 0.01, 'none');
END $$;
SELECT passes, detail FROM gpucredit.explain('jo-few', pg_temp.job('c1', 'jo-few')) WHERE check_name = 'credit';
SELECT action FROM gpucredit.plan('jo-few');
SELECT action FROM gpucredit.place('jo-few');
SELECT * FROM gpucredit.verify('jo-few');
-- explain names the budget that keeps credit from a job, and the rules of the
-- buckets that do not pay for it
DO $$
BEGIN
	PERFORM gpucredit.create_account('jo-why');
	PERFORM gpucredit.create_account('jo-why', 'p');
	PERFORM gpucredit.create_pool('jo-why');
	PERFORM gpucredit.register_node('jo-why', 'jo-why', 'JO-F', 8, 1000);
	PERFORM gpucredit.issue('jo-why', '', 'i1', 20);
	PERFORM gpucredit.issue('jo-why', '', 'i2', 50, policy => '{"gpu_types": ["JO-A"]}');
	PERFORM gpucredit.issue('jo-why', 'p', 'i3', 30, policy => '{"tiers": ["interactive"], "pools": ["jo-few"]}');
	PERFORM gpucredit.issue('jo-why', '', 'i4', 5, priority => 200, policy => '{"max_per_job": 1.5}');
	PERFORM gpucredit.issue('jo-why', '', 'i5', 7, effective_at => gpucredit.now() + interval '1 day');
	PERFORM gpucredit.reserve('jo-why', 'p', 'r', '4xJO-F', '1 h', pool => 'jo-why');
	PERFORM gpucredit.place('jo-why');
	PERFORM gpucredit.suspend_account('jo-why', '', true);
	PERFORM gpucredit.settle('jo-why', pg_temp.job('r', 'jo-why'), 1, 'preempted', '0');
	PERFORM gpucredit.suspend_account('jo-why', '', false);
	PERFORM gpucredit.set_budget('jo-why', 'p', 10, 'none');
	PERFORM gpucredit.set_budget('jo-why', 'p', 0.5, 'day', false);
	PERFORM gpucredit.set_budget('jo-why', '', 10.5, 'month');
	PERFORM gpucredit.hold('jo-why', 'p', 'h1', 7, '1 day');
END $$;
SELECT check_name, passes, detail FROM gpucredit.explain('jo-why', pg_temp.job('r', 'jo-why'));
SELECT reason FROM gpucredit.queue('jo-why');
SELECT released FROM gpucredit.release('jo-why', (SELECT max(hold) FROM gpucredit.hold WHERE org = 'jo-why'), 'h1 r');
SELECT gpucredit.set_budget('jo-why', '', 3, 'month');
SELECT check_name, passes, detail FROM gpucredit.explain('jo-why', pg_temp.job('r', 'jo-why')) WHERE check_name ~ 'budget|credit|bucket';
SELECT gpucredit.set_budget('jo-why', '', 30, 'month'), (gpucredit.hold('jo-why', '', 'h2', 18.5, '1 day')).status;
SELECT check_name, passes, detail FROM gpucredit.explain('jo-why', pg_temp.job('r', 'jo-why')) WHERE check_name ~ 'budget|credit|bucket';
SELECT count(*) FROM gpucredit.plan('jo-why');
SELECT gpucredit.set_budget('jo-why', '', 40, 'month'), (gpucredit.issue('jo-why', 'p', 'i6', 1)).replayed;
SELECT check_name, passes, detail FROM gpucredit.explain('jo-why', pg_temp.job('r', 'jo-why')) WHERE check_name ~ 'budget|credit|bucket';
SELECT action FROM gpucredit.plan('jo-why');
SELECT action FROM gpucredit.place('jo-why');
SELECT * FROM gpucredit.verify('jo-why');
-- A job that cannot be paid blocks nobody, not even in its own account: the
-- oldest wants more than there is, the next draws from another bucket
DO $$
BEGIN
	PERFORM gpucredit.create_account('jo-past');
	PERFORM gpucredit.create_pool('jo-past');
	PERFORM gpucredit.register_node('jo-past', 'jo-past-' || t, t, 17, 1000), gpucredit.set_price(t, 1)
	FROM unnest('{JO-P,JO-Q}'::text[]) t;
	PERFORM gpucredit.issue('jo-past', '', 'i', 100);
	PERFORM gpucredit.reserve('jo-past', '', r.key, r.request, '1 h', pool => 'jo-past')
	FROM (VALUES ('wide', '8xJO-P'), ('wide2', '8xJO-P'), ('other', '2xJO-Q'), ('small', '1xJO-P')) r (key, request);
	PERFORM gpucredit.place('jo-past');
	PERFORM gpucredit.revoke('jo-past', b.bucket, 'r', 'test') FROM gpucredit.bucket b WHERE b.org = 'jo-past';
	PERFORM gpucredit.settle('jo-past', j.job, 1, 'preempted', '0')
	FROM gpucredit.job j WHERE j.org = 'jo-past' AND j.state = 'active' ORDER BY j.job;
	PERFORM gpucredit.issue('jo-past', '', 'p', 7);
	PERFORM gpucredit.issue('jo-past', '', 'q', 5, policy => '{"gpu_types": ["JO-Q"]}');
END $$;
SELECT pg_temp.key(p.job, 'jo-past') AS key, p.attempt FROM gpucredit.plan('jo-past') p ORDER BY 1;
SELECT pg_temp.key(p.job, 'jo-past') AS key, p.attempt FROM gpucredit.place('jo-past') p ORDER BY 1;
SELECT available, held FROM gpucredit.balance('jo-past');
SELECT * FROM gpucredit.verify('jo-past');

-- More jobs wait than a cycle tries: accounts take turns, so an account's few
-- jobs do not wait for another's many older ones.
DO $$
BEGIN
	PERFORM gpucredit.create_account('turns'), gpucredit.create_account('turns', 'many'), gpucredit.create_account('turns', 'few');
	PERFORM gpucredit.create_pool('turns');
	PERFORM gpucredit.register_node('turns', 'turns', 'JO-F', 2, 1000);
	PERFORM gpucredit.issue('turns', '', 'i', 100);
	PERFORM gpucredit.reserve('turns', CASE WHEN n <= 1000 THEN 'many' ELSE 'few' END, 'k' || n, '0.001xJO-F', '1 h',
		pool => 'turns') FROM generate_series(1, 1030) n;
	PERFORM gpucredit.place('turns');
	PERFORM gpucredit.place('turns');
	PERFORM gpucredit.suspend_account('turns', '', true);
	PERFORM gpucredit.settle('turns', j.job, 1, 'preempted', '0')
	FROM gpucredit.job j WHERE j.org = 'turns' ORDER BY j.job;
	PERFORM gpucredit.suspend_account('turns', '', false);
END $$;
SELECT account, state, count(*) FROM gpucredit.job WHERE org = 'turns' GROUP BY 1, 2 ORDER BY 1, 2;
SELECT count(*) FROM gpucredit.plan('turns');
SELECT count(*) FROM gpucredit.place('turns');
SELECT account, state, count(*) FROM gpucredit.job WHERE org = 'turns' GROUP BY 1, 2 ORDER BY 1, 2;
SELECT count(*) FROM gpucredit.place('turns');
SELECT count(gpucredit.settle('turns', job, 2, 'completed', '0')) FROM gpucredit.job WHERE org = 'turns' AND state = 'active';
SELECT * FROM gpucredit.verify('turns');

-- A cap per job counts what all attempts of the job spent of the bucket.
SET gpucredit.clock = '2027-01-08 00:00+00';
DO $$
BEGIN
	PERFORM gpucredit.create_account('jo-cap');
	PERFORM gpucredit.issue('jo-cap', '', 'i', 100, policy => '{"max_per_job": 3}');
END $$;
SELECT status FROM gpucredit.reserve('jo-cap', '', 'c', '1xJO-A', '1 h', pool => 'jo');
SELECT job, attempt FROM pg_temp.place();
SET gpucredit.clock = '2027-01-08 00:30+00';
SELECT billed, job_state FROM gpucredit.settle('jo-cap', pg_temp.job('c', 'jo-cap'), 1, 'preempted', '30 min');
SELECT job, attempt FROM pg_temp.place();
SET gpucredit.clock = '2027-01-08 01:00+00';
SELECT billed, job_state FROM gpucredit.settle('jo-cap', pg_temp.job('c', 'jo-cap'), 2, 'preempted', '30 min');
SELECT available, held, spent FROM gpucredit.balance('jo-cap');

-- Who settles: an agent reports how long the attempt ran; an application may
-- only end it.
SET gpucredit.clock = '2027-01-09 00:00+00';
SELECT status FROM generate_series(1, 2) n, gpucredit.reserve('jo', 'a', 'app' || n, '4xJO-B', '1 h', pool => 'jo');
SELECT job, node, gpus FROM pg_temp.place();
SET gpucredit.clock = '2027-01-09 00:00:10+00';
SELECT action FROM gpucredit.meter('jo', pg_temp.job('app1'), 1, '10 s');
CREATE ROLE gpucredit_test_app IN ROLE gpucredit_app;
SELECT pg_temp.job('app1') AS app1, pg_temp.job('app2') AS app2 \gset
SET ROLE gpucredit_test_app;
SELECT * FROM gpucredit.settle('jo', :app1, 1, 'completed', '5 s');
SELECT * FROM gpucredit.settle('jo', :app1, 1, 'completed', '0');
SELECT billed, job_state FROM gpucredit.settle('jo', :app1, 1, 'completed');
SELECT * FROM gpucredit.meter('jo', :app1, 1, '1 s');
RESET ROLE;
-- its devices are given out again when its node was seen without it, or may be
-- taken for lost, not before
SELECT action FROM gpucredit.heartbeat('jo-b', running => ARRAY[format('jo/%s/1', :app1)]);
SELECT * FROM gpucredit.place('jo');
SELECT action FROM gpucredit.heartbeat('jo-b');		-- not told
SELECT * FROM gpucredit.place('jo');
SELECT * FROM gpucredit.heartbeat('jo-b', running => '{}');
SELECT pg_temp.key(job) AS job, node, gpus FROM gpucredit.place('jo');
SET ROLE gpucredit_test_app;
SELECT job_state FROM gpucredit.settle('jo', :app2, 1, 'failed');
RESET ROLE;
SET gpucredit.clock = '2027-01-09 00:01:09.999999+00';
SELECT job, attempt FROM pg_temp.place();
SET gpucredit.clock = '2027-01-09 00:01:10+00';
SELECT job, attempt FROM pg_temp.place();
-- an administrator may settle as an agent does
CREATE ROLE gpucredit_test_admin IN ROLE gpucredit_admin;
SET ROLE gpucredit_test_admin;
SELECT billed > 0 AS billed, job_state FROM gpucredit.settle('jo', :app2, 2, 'completed', '3 s');
RESET ROLE;
DROP ROLE gpucredit_test_admin;
-- a node is told to stop an attempt that it should not run
SELECT org, job, attempt, action, gpus FROM gpucredit.heartbeat('jo-b', running => '{gone/17/3}');
DROP ROLE gpucredit_test_app;

-- Cancelling, in each state.
SET gpucredit.clock = '2027-01-10 00:00+00';
SELECT status, held FROM generate_series(1, 3) n, gpucredit.reserve('jo', 'a', 'c' || n, '4xJO-B', '1 h', pool => 'jo');
SELECT job, attempt FROM pg_temp.place();
SELECT job_state, replayed FROM gpucredit.cancel('jo', pg_temp.job('c2'), 'k2');	-- queued
SELECT job_state, replayed FROM gpucredit.cancel('jo', pg_temp.job('c2'), 'k2');
SELECT job_state, replayed FROM gpucredit.cancel('jo', pg_temp.job('c2'), 'k2b');	-- over
SELECT job_state, replayed FROM gpucredit.cancel('jo', pg_temp.job('c1'), 'k1', 'changed my mind');	-- starting
SELECT state, held FROM pg_temp.state('c1');
SELECT job_state, replayed FROM gpucredit.cancel('jo', pg_temp.job('c1'), 'k1b');	-- stopping
SELECT action, reason, time_left FROM gpucredit.meter('jo', pg_temp.job('c1'), 1, '1 s');
SELECT action, time_left FROM gpucredit.heartbeat('jo-b');
-- the attempt ends when its agent says so, as cancelled unless it completed
SET gpucredit.clock = '2027-01-10 00:01+00';
SELECT outcome, billed, released, job_state, retry_at FROM gpucredit.settle('jo', pg_temp.job('c1'), 1, 'failed', '1 min');
SELECT job_state, replayed FROM gpucredit.cancel('jo', pg_temp.job('c1'), 'k1c');
SELECT job, attempt FROM pg_temp.place();
SELECT action FROM gpucredit.meter('jo', pg_temp.job('c3'), 1, '0');
SELECT job_state FROM gpucredit.cancel('jo', pg_temp.job('c3'), 'k3');	-- running
SELECT outcome, job_state FROM gpucredit.settle('jo', pg_temp.job('c3'), 1, 'completed');
SELECT job_state FROM gpucredit.cancel('jo', pg_temp.job('c3'), 'k3b');

-- A job that got a cheaper type than its hold covers gets the rest back at
-- once.
SET gpucredit.clock = '2027-01-11 00:00+00';
SELECT available FROM gpucredit.balance('jo');
SELECT status, held FROM gpucredit.reserve('jo', 'a', 'cheap', '2xJO-A|JO-B', '2 h', pool => 'jo');
SELECT job, node, per_gpu_hour FROM pg_temp.place();
SELECT held FROM pg_temp.state('cheap');
SELECT available, held FROM gpucredit.balance('jo');
SET gpucredit.clock = '2027-01-11 02:00+00';
SELECT action, reason, billed FROM gpucredit.meter('jo', pg_temp.job('cheap'), 1, '2 h');
SELECT billed, released, job_state FROM gpucredit.settle('jo', pg_temp.job('cheap'), 1, 'completed');

-- Nothing is billed for a job without GPUs.
SELECT status, held FROM gpucredit.reserve('jo', 'a', 'cpu', '0', '1 h', pool => 'jo', cpu_milli => 1000);
SELECT job, node, gpus, share, per_gpu_hour FROM pg_temp.place();
SET gpucredit.clock = '2027-01-11 02:30+00';
SELECT action, billed, held, time_left FROM gpucredit.meter('jo', pg_temp.job('cpu'), 1, '30 min');
SELECT billed, released, job_state FROM gpucredit.settle('jo', pg_temp.job('cpu'), 1, 'completed');

-- A settlement with less elapsed than metered changes nothing.
SELECT status FROM gpucredit.reserve('jo', 'a', 'less', '1xJO-A', '2 h', pool => 'jo');
SELECT job, node FROM pg_temp.place();
SET gpucredit.clock = '2027-01-11 03:30+00';
SELECT action, billed FROM gpucredit.meter('jo', pg_temp.job('less'), 1, '45 min');
SELECT billed, released, job_state FROM gpucredit.settle('jo', pg_temp.job('less'), 1, 'completed', '10 min');

-- meter acts as its owner on a search path of its own, whatever its caller's
-- is, and restores both, also after an error.
CREATE SCHEMA jo_hostile;
CREATE FUNCTION jo_hostile.seen(text, text) RETURNS boolean LANGUAGE plpgsql
AS $$ BEGIN RAISE 'a hostile operator ran as %', current_user; END $$;
CREATE OPERATOR jo_hostile.= (LEFTARG = text, RIGHTARG = text, FUNCTION = jo_hostile.seen);
CREATE ROLE gpucredit_test_agent IN ROLE gpucredit_agent;
GRANT USAGE ON SCHEMA jo_hostile TO gpucredit_test_agent;
SELECT status FROM gpucredit.reserve('jo', 'a', 'path', '1xJO-A', '2 h', pool => 'jo');
SELECT job, node FROM pg_temp.place();
SELECT pg_temp.job('path') AS path \gset
SET ROLE gpucredit_test_agent;
SET search_path = jo_hostile, pg_catalog;
SELECT action, billed FROM gpucredit.meter('jo', :path, 1, '0');
SELECT action FROM gpucredit.meter('jo', :path, 2, '0');
SELECT current_user, current_schemas(false);
SELECT count(*) FROM gpucredit.attempt;
RESET search_path;
RESET ROLE;
SELECT job_state FROM gpucredit.settle('jo', :path, 1, 'completed');
DROP SCHEMA jo_hostile CASCADE;
DROP ROLE gpucredit_test_agent;

-- In all: all credit is accounted for, and nothing is held for jobs that are
-- over.
SELECT available, held, used, spent, available + held + spent AS issued FROM gpucredit.balance('jo');
SELECT state, count(*) FROM gpucredit.jobs WHERE org LIKE 'jo%' GROUP BY 1 ORDER BY 1;
SELECT sum(billed)::numeric AS billed FROM gpucredit.attempt WHERE org = 'jo';
-- the history of one of them
SELECT h.at, h.what, h.attempt FROM gpucredit.history('jo', pg_temp.job('cheap')) h;

SELECT * FROM gpucredit.verify();
