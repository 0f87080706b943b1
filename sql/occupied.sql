--
-- What a run keeps from others is what it costs: price x time x the larger of
-- its share of the device and of its memory, from the instant its devices are
-- taken until they can be given to somebody else. Each section is an attack.
--
SET timezone = 'UTC';
SET search_path = gpucredit, public;
\pset null '-'
DO $$
BEGIN
	PERFORM create_account(o) FROM unnest('{oc,oc-poor,oc-other}'::text[]) o;
	PERFORM issue('oc', '', 'i', 100000), issue('oc-other', '', 'i', 100000), issue('oc-poor', '', 'i', 1);
	PERFORM create_pool('oc');
	PERFORM set_price('OC-H', 3.60, 'oc'), set_price('OC-T', 0.36, 'oc'), set_price('OC-S', 1, 'oc', spot => true);
	PERFORM set_config('gpucredit.clock', '2031-01-01 00:00+00', false);
	PERFORM register_node('oc', 'oc-1', 'OC-H', 1, 80000, 64000, 512 * 1024),
		register_node('oc', 'oc-2', 'OC-T', 2, 10000, 64000, 512 * 1024);
END $$;
CREATE FUNCTION pg_temp.job(job_key text, tenant text DEFAULT 'oc') RETURNS bigint LANGUAGE sql AS $$
	SELECT r.result[1]::bigint FROM gpucredit.request r WHERE r.org = tenant AND r.operation = 'reserve' AND r.key = job_key
$$;
CREATE FUNCTION pg_temp.later(by interval) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('gpucredit.clock', (gpucredit.now() + by)::text, false)
$$;
CREATE FUNCTION pg_temp.beat() RETURNS void LANGUAGE sql AS $$
	SELECT count(*) FROM gpucredit.node n, gpucredit.heartbeat(n.node, running => '{}') WHERE n.pool = 'oc'
$$;
CREATE FUNCTION pg_temp.start() RETURNS bigint LANGUAGE sql AS $$
	SELECT pg_temp.beat();
	SELECT count(*) FROM gpucredit.place('oc')
$$;
CREATE FUNCTION pg_temp.a(job_key text, tenant text DEFAULT 'oc', OUT share int, OUT billed_share int, OUT per_gpu_hour numeric,
	OUT per_hour numeric, OUT held numeric, OUT elapsed interval, OUT overhead interval, OUT billed numeric, OUT refunded numeric,
	OUT uncollected numeric) LANGUAGE sql AS $$
	SELECT a.share, a.billed_share, a.per_gpu_hour, a.per_hour, a.held, a.elapsed, a.overhead, a.billed, a.refunded, a.uncollected
	FROM gpucredit.attempts a WHERE a.org = tenant AND a.job = pg_temp.job(job_key, tenant) ORDER BY a.attempt DESC LIMIT 1
$$;

--
-- A thousandth of a device with all of its memory is the whole device.
--
SELECT k, r.status, r.held FROM (VALUES ('all', '0.001xOC-H@80000MiB'), ('half', '0.001xOC-T@5000MiB'), ('most', '0.4xOC-T@5001MiB'),
	('share', '0.5xOC-T@1MiB'), ('none', '0.001xOC-T'), ('any', '0.001x*@5000MiB'), ('too much', '0.001xOC-T@10001MiB')) v (k, ask),
	reserve('oc', '', k, ask, '1 h', pool => 'oc') r;
SELECT pg_temp.start();
-- "any" got the cheaper type: it pays for its part of that one
SELECT k, a.* FROM unnest('{all,half,most,share,none}'::text[]) k, pg_temp.a(k) a;
SELECT count(meter('oc', pg_temp.job(k), 1, '0')) FROM unnest('{all,half,most,share,none}'::text[]) k;
SELECT pg_temp.later('1 h');
SELECT k, s.billed, s.released FROM unnest('{all,half,most,share,none}'::text[]) k, settle('oc', pg_temp.job(k), 1, 'completed', '1 h') s;
SELECT a.* FROM pg_temp.a('any') a;
SELECT account, decayed FROM fair_share('oc') WHERE org = 'oc' AND account = '';
SELECT settle('oc', pg_temp.job('any'), 1, 'completed', '0');
-- a node with less memory that comes later: what it keeps there is billed, and
-- what the hold lacks is drawn
SELECT held FROM reserve('oc', '', 'small', '0.001xOC-T@4000MiB', '1 h', pool => 'oc');
SELECT register_node('oc', 'oc-3', 'OC-T', 1, 4000), drain('oc-2', 'repair');
SELECT pg_temp.start();
SELECT a.* FROM pg_temp.a('small') a;
SELECT action FROM meter('oc', pg_temp.job('small'), 1, '0');
SELECT pg_temp.later('1 h');
SELECT billed, uncollected FROM settle('oc', pg_temp.job('small'), 1, 'completed', '1 h');
SELECT resume('oc-2'), remove_node('oc-3');
-- the same where another scheduler places
SELECT create_pool('oc-f', '{"placed_by": "foreign"}');
SELECT register_node('oc-f', 'oc-f1', 'OC-F', 1, 10000), set_price('OC-F', 2, 'oc-f');
SELECT held FROM reserve('oc', '', 'foreign', '0.001xOC-F@10000MiB', '1 h', pool => 'oc-f');
SELECT per_gpu_hour, held FROM placed('oc', pg_temp.job('foreign'), 'p', '{oc-f1}', ARRAY['{0}']::gpuset[]);
SELECT a.* FROM pg_temp.a('foreign') a;
SELECT billed FROM settle('oc', pg_temp.job('foreign'), 1, 'cancelled', '0');
-- reports count what is kept: a device's hour each
SELECT gpu_type, gpu_hours, spent FROM invoice('oc', '2031-01-01') WHERE gpu_type = 'OC-H';
SELECT * FROM verify();

--
-- A wall limit of a microsecond, and a program that traps TERM: the time after
-- it is billed, the hold covers it, and an empty account runs nothing.
--
SELECT status, held FROM reserve('oc', '', 'trap', '1xOC-H', '1 us', pool => 'oc');
SELECT pg_temp.start();
SELECT pg_temp.later('2 s');
SELECT action, reason FROM meter('oc', pg_temp.job('trap'), 1, '0');
SELECT pg_temp.later('20 s');
SELECT action, reason FROM meter('oc', pg_temp.job('trap'), 1, '20 s');
SELECT billed, uncollected, job_state FROM settle('oc', pg_temp.job('trap'), 1, 'timeout', '20 s');
SELECT a.* FROM pg_temp.a('trap') a;
-- a poor tenant has no second one for nothing
SELECT status, held FROM reserve('oc-poor', '', 'trap', '1xOC-H', '1 us', pool => 'oc', hold_window => '1 us');
SELECT status, reason FROM hold('oc-poor', '', 'rest', 0.94, '1 day');
SELECT pg_temp.start();
SELECT action FROM meter('oc-poor', pg_temp.job('trap', 'oc-poor'), 1, '0');
SELECT pg_temp.later('90 s');
SELECT billed, uncollected FROM settle('oc-poor', pg_temp.job('trap', 'oc-poor'), 1, 'timeout', '90 s');
SELECT status, reason FROM reserve('oc-poor', '', 'again', '1xOC-H', '1 us', pool => 'oc');
-- the smallest run at the smallest price is billed a micro-credit
SELECT set_price('OC-T', 0.000001, 'oc');
SELECT held FROM reserve('oc', '', 'tiny', '0.001xOC-T', '1 us', pool => 'oc');
SELECT pg_temp.start();
SELECT action FROM meter('oc', pg_temp.job('tiny'), 1, '0');
SELECT pg_temp.later('1 us');
SELECT billed FROM settle('oc', pg_temp.job('tiny'), 1, 'completed', '1 us');
SELECT set_price('OC-T', 0.36, 'oc');
SELECT * FROM verify();

--
-- Devices wait for their processes: that time is used, whatever the first
-- report is, unless the platform failed to start them.
--
CREATE FUNCTION pg_temp.ends(k text, outcome text, message text DEFAULT NULL, OUT billed numeric, OUT elapsed interval, OUT overhead interval)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM gpucredit.reserve('oc', '', k, '1xOC-H', '1 h', pool => 'oc', max_retries => 0);
	PERFORM pg_temp.start();
	PERFORM pg_temp.later('30 s');
	PERFORM gpucredit.heartbeat('oc-1');
	IF outcome = 'cancelled' THEN
		PERFORM gpucredit.cancel('oc', pg_temp.job(k), 'c' || k);
	END IF;
	PERFORM gpucredit.settle('oc', pg_temp.job(k), 1, outcome, '0', message => message);
	PERFORM gpucredit.cancel('oc', pg_temp.job(k), 'd' || k);
	SELECT a.billed, a.elapsed, a.overhead INTO billed, elapsed, overhead FROM pg_temp.a(k) a;
END $$;
SELECT e.k, e.outcome, x.* FROM (VALUES ('e1', 'completed', NULL), ('e2', 'failed', NULL), ('e3', 'cancelled', NULL), ('e4', 'timeout', NULL),
	('e5', 'not_started', 'no cgroup'), ('e6', 'not_started', 'image: no such image'), ('e7', 'node_lost', NULL)) e (k, outcome, message),
	pg_temp.ends(e.k, e.outcome, e.message) x;
SELECT billed, refunded, count(*) FROM attempt WHERE org = 'oc' AND job IN (SELECT pg_temp.job(k) FROM unnest('{e1,e2,e3,e4,e5,e6,e7}'::text[]) k) GROUP BY 1, 2 ORDER BY 1, 2;
-- an agent that never came costs nothing; one that comes late, five minutes
SELECT reserve('oc', '', 'never', '1xOC-H', '1 h', pool => 'oc') \g /dev/null
SELECT pg_temp.start();
SELECT pg_temp.later('10 min');
SELECT count(*) > 0 FROM check_nodes();
SELECT a.billed, a.elapsed FROM attempt a WHERE org = 'oc' AND job = pg_temp.job('never') AND attempt = 1;
SELECT pg_temp.start();
SELECT pg_temp.later('1 h');
SELECT action, billed FROM meter('oc', pg_temp.job('never'), 2, '1 min');
SELECT pg_temp.later('1 min');
SELECT action, billed FROM meter('oc', pg_temp.job('never'), 2, '2 min');
-- heartbeats of the past change nothing; the wall limit is of the processes
SELECT action, billed, time_left FROM meter_batch('{oc}', ARRAY[pg_temp.job('never')], '{2}', '{1 min}');
SELECT billed FROM settle('oc', pg_temp.job('never'), 2, 'completed', '2 min');
-- its owner ends it before its agent comes, again and again: the time until
-- then and the fence are billed
SELECT reserve('oc', '', 'owned', '1xOC-H', '1 h', pool => 'oc') \g /dev/null
SELECT pg_temp.start();
CREATE ROLE oc_app IN ROLE gpucredit_app;
SELECT pg_temp.job('owned') AS owned \gset
SET ROLE oc_app;
SELECT billed, job_state FROM settle('oc', :owned, 1, 'completed');
RESET ROLE;
SELECT a.* FROM pg_temp.a('owned') a;
-- a process that runs on after that is billed when its agent reports it
SELECT pg_temp.later('90 s');
SELECT billed FROM settle('oc', :owned, 1, 'completed', '85 s');
SELECT * FROM verify();

--
-- Only what the platform lost is forgiven.
--
SELECT set_tier('oc-free', 5, 'capacity', false, bill_lost_work => false, min_run => '0'),
	set_tier('oc-first', 1, 'never', true, max_wall => '1 h');
CREATE FUNCTION pg_temp.lost(k text, outcome text, exit_code int, prepare text DEFAULT NULL, OUT billed numeric, OUT refunded numeric, OUT job_state text)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM gpucredit.reserve('oc', '', k, '1xOC-H', '10 h', 'oc-free', 'oc', hold_window => CASE WHEN prepare = 'poor' THEN '1 h'::interval END);
	PERFORM pg_temp.start();
	PERFORM gpucredit.meter('oc', pg_temp.job(k), 1, '0');
	IF prepare = 'poor' THEN
		PERFORM gpucredit.set_budget('oc', '', 0);
	END IF;
	PERFORM pg_temp.later('8 h');
	PERFORM gpucredit.heartbeat('oc-1');
	PERFORM gpucredit.meter('oc', pg_temp.job(k), 1, '8 h');
	IF prepare LIKE 'evict %' THEN
		PERFORM gpucredit.reserve(substr(prepare, 7), '', 'evicts ' || k, '1xOC-H', '1 h', 'oc-first', 'oc');
		PERFORM pg_temp.beat();
		PERFORM gpucredit.place('oc');
		PERFORM gpucredit.meter('oc', pg_temp.job(k), 1, '8 h');
		IF k = 'ld' THEN
			/* the directive outlives what it was for */
			PERFORM gpucredit.cancel('oc', pg_temp.job('evicts ' || k), 'd evicts ' || k);
		END IF;
	ELSIF prepare = 'drain' THEN
		PERFORM gpucredit.drain('oc-1', 'repair', gpucredit.now() + interval '10 min');
	ELSIF prepare = 'reclaim' THEN
		PERFORM gpucredit.reclaim('oc-1', '2 min');
	END IF;
	SELECT s.billed, s.refunded, s.job_state INTO billed, refunded, job_state
	FROM gpucredit.settle('oc', pg_temp.job(k), 1, outcome, '8 h', exit_code) s;
	PERFORM gpucredit.set_budget('oc', '', NULL);
	PERFORM gpucredit.resume('oc-1');
	PERFORM gpucredit.cancel('oc', pg_temp.job(k), 'd' || k);
	PERFORM gpucredit.cancel(substr(prepare, 7), pg_temp.job('evicts ' || k, substr(prepare, 7)), 'd evicts ' || k) WHERE prepare LIKE 'evict %';
END $$;
SELECT l.*, x.* FROM (VALUES ('l1', 'failed', 1, NULL), ('l2', 'failed', 75, NULL), ('l3', 'preempted', 143, NULL), ('l4', 'resized', 0, NULL),
	('l5', 'out_of_memory', 137, NULL), ('l6', 'preempted', 143, 'poor'), ('l7', 'preempted', 0, 'evict oc'), ('l8', 'preempted', 0, 'evict oc-other'),
	('l9', 'preempted', 143, 'drain'), ('la', 'preempted', 143, 'reclaim'), ('lb', 'failed', 1, 'drain'), ('lc', 'node_lost', NULL, NULL), ('ld', 'preempted', 0, 'evict oc'))
	l (k, outcome, exit_code, prepare), pg_temp.lost(l.k, l.outcome, l.exit_code, l.prepare) x;
SELECT * FROM verify();

--
-- Cpu and memory have a price if the operator sets one, and a tier has a factor.
--
SELECT owed FROM write_off('oc-poor', '', 'goodwill', 'what it ran before does not count here');
SELECT status, held FROM reserve('oc-poor', '', 'free', '0', '1 h', pool => 'oc', cpu_milli => 64000);
SELECT cancel('oc-poor', pg_temp.job('free', 'oc-poor'), 'c free');
SELECT set_resource_price('cpu', 0.02), set_resource_price('memory', 0.001), set_resource_price('cpu', 0.03, 'oc-f');
SELECT set_resource_price('disk', 1);
SELECT set_resource_price('cpu', -1);
SELECT set_resource_price('cpu', 1, 'no such');
SELECT gpu_type, pool, per_gpu_hour FROM prices WHERE gpu_type IN ('cpu core', 'memory GiB') ORDER BY 1, 2;
SELECT status, reason, held FROM reserve('oc-poor', '', 'cpu', '0', '10 h', pool => 'oc', cpu_milli => 64000);
SELECT k, r.status, r.held FROM (VALUES ('c1', '0', 1000, 0), ('c2', '0', 0, 1), ('c3', '0', 1500, 2560), ('c4', '1xOC-H', 64000, 512 * 1024), ('c5', '0', 0, 0)) v (k, ask, cpu, memory),
	reserve('oc', '', k, ask, '1 h', pool => 'oc', cpu_milli => cpu, memory_mib => memory) r;
SELECT status, held FROM reserve('oc', '', 'core', '0', '1 h', pool => 'oc-f', cpu_milli => 1000);
SELECT cancel('oc', pg_temp.job('core'), 'c core');
-- prices change, those of jobs do not
SELECT set_resource_price('cpu', 5), set_resource_price('memory', 5);
SELECT pg_temp.start();
SELECT k, a.* FROM unnest('{c1,c2,c3,c5}'::text[]) k, pg_temp.a(k) a;
SELECT count(meter('oc', pg_temp.job(k), 1, '0')) FROM unnest('{c1,c2,c3,c5}'::text[]) k;
SELECT pg_temp.later('30 min');
SELECT count(meter('oc', pg_temp.job(k), 1, '30 min')) FROM unnest('{c1,c2,c3,c5}'::text[]) k;
SELECT used FROM balance('oc');
SELECT k, s.billed, s.released FROM unnest('{c1,c2,c3,c5}'::text[]) k, settle('oc', pg_temp.job(k), 1, 'completed', '30 min') s;
SELECT pg_temp.start();
SELECT a.* FROM pg_temp.a('c4') a;
SELECT action FROM meter('oc', pg_temp.job('c4'), 1, '0');
SELECT pg_temp.later('1 h');
SELECT billed FROM settle('oc', pg_temp.job('c4'), 1, 'completed', '1 h');
SELECT set_resource_price('cpu', 0), set_resource_price('memory', 0), set_resource_price('cpu', 0, 'oc-f');
-- a tier's factor multiplies all of it, and stays that of the submission
SELECT set_tier('oc-dear', 5, 'capacity', false, price_factor => 2.5);
SELECT tier, price_factor FROM tier WHERE tier LIKE 'oc%' ORDER BY 1;
SELECT set_tier('oc-dear', 5, 'capacity', false, price_factor => 2.5001);
SELECT set_resource_price('cpu', 0.02);
SELECT status, held FROM reserve('oc', '', 'f1', '1xOC-H', '1 h', 'oc-dear', 'oc', cpu_milli => 1000);
SELECT set_tier('oc-dear', 5, 'capacity', false, price_factor => 0);
SELECT pg_temp.start();
SELECT a.* FROM pg_temp.a('f1') a;
SELECT pg_temp.later('30 s');
SELECT outcome, job_state, billed FROM settle('oc', pg_temp.job('f1'), 1, 'node_lost');
SELECT pg_temp.start();
SELECT a.* FROM pg_temp.a('f1') a;
SELECT billed FROM settle('oc', pg_temp.job('f1'), 2, 'completed', '0');
SELECT status, held FROM reserve('oc', '', 'f2', '1xOC-H', '1 h', 'oc-dear', 'oc', cpu_milli => 1000);
SELECT cancel('oc', pg_temp.job('f2'), 'cf2');
SELECT set_resource_price('cpu', 0);
-- what verify() knows
BEGIN;
UPDATE attempt SET per_hour = '0' WHERE org = 'oc' AND job = pg_temp.job('all');
UPDATE attempt SET billed_share = 1 WHERE org = 'oc' AND job = pg_temp.job('half');
UPDATE attempt SET overhead = '2 h' WHERE org = 'oc' AND job = pg_temp.job('most');
SELECT invariant, detail FROM verify('oc') ORDER BY 1, 2;
ROLLBACK;
SELECT * FROM verify();
DROP ROLE oc_app;
