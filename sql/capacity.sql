-- Is the pool too small, too large, or of the wrong kind? All numbers come
-- from one scene that can be checked by hand.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
SET gpucredit.clock = '2027-04-01 00:00+00';
SET gpucredit.node_suspect = 0;
SET gpucredit.node_lost = 0;
\set VERBOSITY sqlstate
\pset null '-'

-- 12 devices of CP-A with 64 cores, or 32; 4 of CP-B, one of them on spot
DO $$
BEGIN
	PERFORM gpucredit.create_account('cp');
	PERFORM gpucredit.grant_tier('cp', '', 'production_inference');
	PERFORM gpucredit.issue('cp', '', 'i', 1000000);
	PERFORM gpucredit.create_pool('cp');
	PERFORM gpucredit.set_price(t, 1) FROM unnest('{CP-A,CP-B}'::text[]) t;
	PERFORM gpucredit.register_node('cp', 'cp-a1', 'CP-A', 8, 40960,
		cpu_milli => 64000);
	PERFORM gpucredit.register_node('cp', 'cp-a2', 'CP-A', 4, 40960,
		cpu_milli => 32000);
	PERFORM gpucredit.register_node('cp', 'cp-b1', 'CP-B', 3, 40960);
	PERFORM gpucredit.register_node('cp', 'cp-b2', 'CP-B', 1, 40960,
		spot => true);
END $$;
CREATE FUNCTION pg_temp.ask(key text, request text, cpu bigint DEFAULT 0,
	tier text DEFAULT 'standard_training', preemptible text DEFAULT NULL)
RETURNS bigint LANGUAGE sql AS $$
	SELECT r.job FROM gpucredit.reserve('cp', '', key, request, '24 h', tier,
		'cp', cpu_milli => cpu, preemptible => preemptible) r
$$;

SELECT pool, gpu_type, spot, nodes, devices, in_service, allocated, free,
	stranded, allocated_percent, reported_percent
FROM gpucredit.capacity WHERE pool = 'cp' ORDER BY 2, 3;

-- From 0:00 a job has 4 devices and 28 of its node's 32 cores, from 1:00 one
-- has 6 devices on the other node; one has half of a CP-B
SELECT pg_temp.ask('four', '4xCP-A', 28000) IS NOT NULL AS four,
	pg_temp.ask('half', '0.5xCP-B', 0, 'production_inference') IS NOT NULL AS half;
SELECT node, gpus, share FROM gpucredit.place('cp');
SET gpucredit.clock = '2027-04-01 01:00+00';
SELECT pg_temp.ask('six', '6xCP-A', 60000) IS NOT NULL AS six;
SELECT node, gpus, share FROM gpucredit.place('cp');
-- two jobs that do not fit, from 2:00 and from 3:00
SET gpucredit.clock = '2027-04-01 02:00+00';
SELECT r.status FROM gpucredit.reserve('cp', '', 'eight', '8xCP-A', '2 h',
	'batch_inference', 'cp') r;
SELECT node FROM gpucredit.place('cp') WHERE action = 'start';
SET gpucredit.clock = '2027-04-01 03:00+00';
SELECT pg_temp.ask('five', '5xCP-A') IS NOT NULL AS five;
SELECT node FROM gpucredit.place('cp') WHERE action = 'start';
SET gpucredit.clock = '2027-04-01 04:00+00';
-- agents report 50 % of four devices and 100 % of six: (4 x 50 + 6 x 100) / 10
-- = 80
SELECT count(gpucredit.meter(a.org, a.job, a.attempt, '1 h', NULL,
	CASE a.gpus WHEN 4 THEN 0.5 ELSE 1 END))
FROM gpucredit.attempt a WHERE a.pool = 'cp' AND a.gpu_type = 'CP-A';

-- cp-a1 has 2 free devices and 4 of 64 cores: neither is usable; cp-b1 has 2
-- whole free devices
SELECT node, devices, in_service, allocated, free, stranded
FROM gpucredit.node_capacity WHERE pool = 'cp' ORDER BY 1;
SELECT gpu_type, spot, nodes, devices, in_service, allocated, free, stranded,
	allocated_percent, reported_percent
FROM gpucredit.capacity WHERE pool = 'cp' ORDER BY 1, 2;
SELECT tier, gpu_type, jobs, devices, longest_wait, median_wait
FROM gpucredit.queue_depth WHERE pool = 'cp' ORDER BY 1;

-- demand counts a range by its least and several types by the first; a job
-- that waits for credit is not queued
BEGIN;
SELECT pg_temp.ask('wide', '6-8xCP-B|CP-A') IS NOT NULL AS wide, pg_temp.ask('range 2', '9-12xCP-A|CP-B') IS NOT NULL AS range;
SELECT tier, gpu_type, jobs, devices FROM gpucredit.queue_depth WHERE pool = 'cp' ORDER BY 1, 2;
SELECT gpucredit.suspend_account('cp', '', true);
SELECT s.job_state FROM gpucredit.attempt a, gpucredit.settle(a.org, a.job, a.attempt, 'preempted', '0') s
WHERE a.org = 'cp' AND a.gpus = 6;
SELECT tier, gpu_type, jobs, devices FROM gpucredit.queue_depth WHERE pool = 'cp' ORDER BY 1, 2;
ROLLBACK;

-- Hour by hour: 4 devices; then 10 of 12; then 8, then 13 more wait
SELECT * FROM gpucredit.demand('cp', '2027-04-01 00:00+00',
	'2027-04-01 04:00+00') WHERE gpu_type = 'CP-A';
-- half hours in which something began or ended show averages
SELECT since, gpu_type, allocated, waiting FROM gpucredit.demand('cp',
	'2027-04-01 00:30+00', '2027-04-01 04:30+00', '2 h');

-- Over the 4 hours 8.5 of 12 devices were allocated and 5.25 more were wanted.
-- Of the second half's wait (8 + 13) / 2 counts, the first half had none. No
-- attempt is over, so it is not known how long jobs run, and nothing is advised
SELECT gpu_type, supply, allocated, waiting, busy_percent, demand_percent, backlog_change, stranded
FROM gpucredit.capacity_advice('cp', '4 h');
SELECT gpu_type, advice, devices, cost, load, runs FROM gpucredit.capacity_advice('cp', '4 h');

-- A wait ends: the job of six ends at 5:00. Of the two waiting jobs the one of
-- five starts by its tier, after 2 hours; the one of eight waits on
SET gpucredit.clock = '2027-04-01 05:00+00';
SELECT s.outcome FROM gpucredit.attempt a CROSS JOIN LATERAL
	gpucredit.settle(a.org, a.job, a.attempt, 'completed', '4 h') s
WHERE a.pool = 'cp' AND a.gpus = 6;
SELECT node, gpus FROM gpucredit.place('cp') WHERE action = 'start';
SET gpucredit.clock = '2027-04-01 06:00+00';
SELECT since, allocated, waiting, starts, mean_wait
FROM gpucredit.demand('cp', '2027-04-01 04:00+00', '2027-04-01 06:00+00')
WHERE gpu_type = 'CP-A';

-- A draining node is not in service; its attempts' devices count as allocated
SELECT gpucredit.drain('cp-a2', 'disk');
SELECT gpu_type, devices, in_service, allocated, free, allocated_percent
FROM gpucredit.capacity WHERE pool = 'cp' AND gpu_type = 'CP-A';

-- Attempts without devices report no use
SELECT pg_temp.ask('none', '0', 1000) IS NOT NULL AS none;
SELECT node, gpus FROM gpucredit.place('cp') WHERE action = 'start' AND gpu_type IS NULL;
SELECT count(gpucredit.meter(a.org, a.job, a.attempt, '0 s', NULL, 0.5))
FROM gpucredit.attempt a WHERE a.pool = 'cp' AND a.gpus = 0;
SELECT gpu_type, spot, allocated, reported_percent FROM gpucredit.capacity
WHERE pool = 'cp' ORDER BY 1, 2;

-- A wait that ends at the very beginning counts as ended
SELECT since, starts, mean_wait FROM gpucredit.demand('cp', '2027-04-01 05:00+00',
	'2027-04-01 06:00+00') WHERE gpu_type = 'CP-A';
-- A day has 24 hours, also where the time zone's day has not
SET gpucredit.clock = '2027-04-05 00:00+00';
SET timezone = 'Europe/Berlin';
SELECT since, allocated FROM gpucredit.demand('cp', '2027-03-27 23:00+00', '2027-04-04 23:00+00', '4 days')
WHERE gpu_type = 'CP-A' AND allocated > 0;
SELECT gpu_type, allocated FROM gpucredit.capacity_advice('cp', '9 days');
SET timezone = 'UTC';
-- The last instant works; steps that do not fit the span are refused
BEGIN;
SET LOCAL gpucredit.clock = '294276-12-31 23:59:59.999999+00';
SELECT count(*), min(since), max(since), min(supply), max(supply)
FROM gpucredit.demand('cp') WHERE gpu_type = 'CP-A';
SELECT since, supply FROM gpucredit.demand('cp', gpucredit.now() - interval '3 h', step => '2 h')
WHERE gpu_type = 'CP-A';
SELECT since, supply FROM gpucredit.demand('cp', gpucredit.now() - interval '3 h', step => '4 h')
WHERE gpu_type = 'CP-A';
SELECT gpu_type, supply, advice FROM gpucredit.capacity_advice('cp');
ROLLBACK;

-- A new type is judged from when it came: full for two hours. Other types are
-- judged over the whole span
DO $$
BEGIN
	PERFORM gpucredit.register_node('cp', 'cp-c1', 'CP-C', 2, 40960);
	PERFORM gpucredit.set_price('CP-C', 1);
END $$;
SELECT pg_temp.ask('full', '2xCP-C') IS NOT NULL AS full, pg_temp.ask('more', '1xCP-C') IS NOT NULL AS more;
SELECT gpu_type, gpus FROM gpucredit.place('cp') WHERE node = 'cp-c1';
SET gpucredit.clock = '2027-04-05 02:00+00';
SELECT gpu_type, supply, allocated, waiting, busy_percent, backlog_change, advice, devices
FROM gpucredit.capacity_advice('cp');
-- and a type of this instant has no history of its own
DO $$
BEGIN
	PERFORM gpucredit.settle(a.org, a.job, a.attempt, 'completed', '2 h') FROM gpucredit.attempt a
	WHERE a.pool = 'cp' AND a.gpu_type = 'CP-C' AND a.ended_at IS NULL;
	PERFORM gpucredit.remove_node('cp-c1');
	PERFORM gpucredit.register_node('cp', 'cp-c1', 'CP-C', 2, 40960);
END $$;
SELECT allocated, waiting, busy_percent, backlog_change, advice, devices
FROM gpucredit.capacity_advice('cp', '4 h') WHERE gpu_type = 'CP-C';

-- 80 devices of work an hour reach 64: every hour five jobs of 8 devices that
-- run for two of their four hours. Jobs that wait are no demand of their own
DO $$
DECLARE
	begins timestamptz := '2027-05-01 00:00+00';
BEGIN
	PERFORM set_config('gpucredit.clock', begins::text, false);
	PERFORM gpucredit.create_pool('cw'), gpucredit.create_pool('ci'), gpucredit.create_pool('cn');
	PERFORM gpucredit.set_price('CP-W', 1);
	PERFORM gpucredit.create_account(o), gpucredit.issue(o, '', 'i', 1000000) FROM unnest('{cw,cx}'::text[]) o;
	PERFORM gpucredit.register_node(p, p || n, 'CP-W', 8, 40960, cpu_milli => 8000)
	FROM unnest('{cw,ci,cn}'::text[]) p, generate_series(1, 8) n;
	FOR h IN 0 .. 24 LOOP
		PERFORM set_config('gpucredit.clock', (begins + h * interval '1 h')::text, false);
		PERFORM gpucredit.settle(a.org, a.job, a.attempt, 'completed', '2 h') FROM gpucredit.attempt a
		WHERE a.pool = 'cw' AND a.ended_at IS NULL AND a.started_at <= begins + (h - 2) * interval '1 h';
		PERFORM gpucredit.reserve('cw', '', 'w' || h || ' ' || n, '8xCP-W', '4 h', 'standard_training', 'cw',
			cpu_milli => 8000) FROM generate_series(1, 5) n WHERE h < 24;
		PERFORM count(*) FROM gpucredit.place('cw');
	END LOOP;
END $$;
CREATE FUNCTION pg_temp.advice(pool text, period interval, wait_target interval DEFAULT NULL)
RETURNS TABLE (supply numeric, load numeric, unproven numeric, needed bigint, advice text, devices bigint)
LANGUAGE sql AS $$
	SELECT a.supply, a.load, a.unproven, a.needed, a.advice, a.devices
	FROM gpucredit.capacity_advice(pool, period, wait_target => wait_target) a
$$;
SELECT * FROM pg_temp.advice('cw', '1 day');
SELECT needed_low < needed AND needed_high > needed AS interval, wait_p95, runs
FROM gpucredit.capacity_advice('cw', '1 day');
-- nobody waits on 80 devices; nobody is to wait, and nine in ten are to be used
SELECT * FROM pg_temp.advice('cw', '1 day', '0 s');
-- another tenant has run nothing: what it submits makes nobody buy, nor what it
-- cancels
SELECT count(gpucredit.reserve('cx', '', 'x' || n, '8xCP-W', '24 h', 'standard_training', 'cw')) FROM generate_series(1, 50) n;
SET gpucredit.clock = '2027-05-02 00:00:01+00';
SELECT * FROM pg_temp.advice('cw', '24 h 1 s');
SELECT count(gpucredit.cancel(j.org, j.job, 'c' || j.job)) FROM gpucredit.job j WHERE j.org = 'cx';
SELECT * FROM pg_temp.advice('cw', '24 h 1 s');
-- who cancelled all that he ever submitted is expected to do so again
SELECT count(gpucredit.reserve('cx', '', 'y' || n, '8xCP-W', '24 h', 'standard_training', 'cw')) FROM generate_series(1, 50) n;
SET gpucredit.clock = '2027-05-02 00:00:02+00';
SELECT * FROM pg_temp.advice('cw', '24 h 2 s');
SELECT count(gpucredit.cancel(j.org, j.job, 'c' || j.job)) FROM gpucredit.job j WHERE j.org = 'cx' AND j.ended_at IS NULL;
-- a node of which a job took the cpu: its devices need some, and that is cheaper
SELECT gpucredit.register_node('cw', 'w9', 'CP-W', 8, 40960, cpu_milli => 8000) IS NOT NULL AS node;
SELECT r.status FROM gpucredit.reserve('cx', '', 'cpu', '0', '1 h', 'standard_training', 'cw', cpu_milli => 8000) r;
SELECT node FROM gpucredit.place('cw') WHERE action = 'start';
SELECT supply, stranded, advice, devices FROM gpucredit.capacity_advice('cw', '24 h 2 s', '{0.7,1.05}');
SELECT supply, stranded, advice, devices FROM gpucredit.capacity_advice('cw', '24 h 2 s');
-- a pool that was idle all the time, and one in which nothing has run yet
SELECT supply, advice, devices FROM pg_temp.advice('ci', '12 h');
SELECT count(gpucredit.reserve('cw', '', 'n' || n, '8xCP-W', '24 h', 'standard_training', 'cn')) FROM generate_series(1, 100) n;
SELECT count(DISTINCT job) FROM gpucredit.place('cn');
SET gpucredit.clock = '2027-05-02 00:00:03+00';
SELECT supply, advice, devices FROM pg_temp.advice('cn', '7 days');

-- Jobs weigh by their device time: 4,000 jobs of one device and one second that
-- all come at once, in 16 devices' work of two days, have no device bought,
-- though nobody is to wait
SELECT few.needed = most.needed AS same, most.needed, most.wait_p95
FROM (SELECT array_agg(ARRAY[0, 8000, n * 3600e6, n * 3600e6, n * 3600e6 + 7200e6, 14400e6]::bigint[]) AS works
		FROM generate_series(0, 47) n) long,
	(SELECT array_agg(ARRAY[1, 1000, 100e6, 103e6, 104e6, 60e6]::bigint[]) AS works FROM generate_series(1, 4000)) short,
	LATERAL gpucredit_internal.capacity_needed(long.works, 172800000000, 900, 0) few,
	LATERAL gpucredit_internal.capacity_needed(long.works || short.works, 172800000000, 900, 0) most;

-- A pool that does not exist
SELECT * FROM gpucredit.demand('no such pool');
SELECT * FROM gpucredit.capacity_advice('no such pool');
SELECT * FROM gpucredit.capacity_advice('cp', wait_target => '-1 s');
SELECT * FROM gpucredit.capacity_advice('cp', wait_target => '1 month');
SELECT * FROM gpucredit.demand('cp', step => '0');
SELECT * FROM gpucredit.verify();
