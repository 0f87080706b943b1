-- What becomes of jobs whose attempts end badly: retry rules, checkpoints,
-- lost work, silent attempts and nodes, and late claims.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
SET gpucredit.clock = '2027-03-01 00:00+00';
\set VERBOSITY sqlstate
\pset null '-'

-- 1 credit an hour, on two nodes; tier "lc" does not bill lost work
DO $$
BEGIN
	PERFORM gpucredit.create_pool('lc');
	PERFORM gpucredit.set_price('LC-A', 1, 'lc');
	PERFORM gpucredit.register_node('lc', 'lc-1', 'LC-A', 4, 40960);
	PERFORM gpucredit.register_node('lc', 'lc-2', 'LC-A', 4, 40960);
	PERFORM gpucredit.set_tier('lc', 5, 'capacity', false,
		bill_lost_work => false);
	PERFORM gpucredit.create_account('lc');
	PERFORM gpucredit.create_account('lc', 'a');
	PERFORM gpucredit.create_account('lc-b');
	PERFORM gpucredit.issue('lc', '', 'i', 1000);
	PERFORM gpucredit.issue('lc-b', '', 'i', 1000);
END $$;

-- what other tests left is removed
DO $$ BEGIN
	PERFORM gpucredit.reap_holds();
	PERFORM gpucredit.check_nodes();
END $$;

CREATE FUNCTION pg_temp.job(job_key text, tenant text DEFAULT 'lc')
RETURNS bigint LANGUAGE sql AS $$
	SELECT r.result[1]::bigint FROM gpucredit.request r
	WHERE r.org = tenant AND r.key = job_key
$$;
CREATE FUNCTION pg_temp.key(id bigint, tenant text) RETURNS text
LANGUAGE sql AS $$
	SELECT r.key FROM gpucredit.request r
	WHERE r.org = tenant AND r.result[1] = id::text
		AND r.operation = 'reserve'
$$;
-- Both nodes report their live attempts, and no ended one.
CREATE FUNCTION pg_temp.beat() RETURNS TABLE (node text, job text,
	attempt int, action text, spec jsonb) LANGUAGE sql AS $$
	SELECT n.node, pg_temp.key(h.job, h.org), h.attempt, h.action, h.spec
	FROM (VALUES ('lc-1'), ('lc-2')) AS n (node), gpucredit.heartbeat(n.node,
		running => ARRAY(SELECT concat_ws('/', g.org, g.job, g.attempt)
			FROM gpucredit.attempt_gpu g
			WHERE g.node = n.node AND g.ended_at IS NULL)) h
$$;
-- Submits a job, starts it, and lets it run for some time.
CREATE FUNCTION pg_temp.run(job_key text, request text DEFAULT '1xLC-A',
	tier text DEFAULT 'standard_training', ran interval DEFAULT '1 h',
	tenant text DEFAULT 'lc', max_retries int DEFAULT 3) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
	id bigint;
	n int;
BEGIN
	SELECT job INTO STRICT id FROM gpucredit.reserve(tenant, '', job_key,
		request, '10 h', tier => tier, pool => 'lc',
		max_retries => max_retries);
	PERFORM * FROM pg_temp.beat();
	SELECT attempt INTO STRICT n FROM gpucredit.place('lc') p
	WHERE p.org = tenant AND p.job = id LIMIT 1;
	PERFORM set_config('gpucredit.clock',
		(gpucredit.now() + ran)::text, false);
	PERFORM gpucredit.meter(tenant, id, n, ran);
	PERFORM * FROM pg_temp.beat();
	RETURN id;
END $$;
CREATE FUNCTION pg_temp.later(by interval) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('gpucredit.clock', (gpucredit.now() + by)::text, false)
$$;

--
-- Retry rules
--
SELECT rule, priority, class, outcome, exit_codes FROM gpucredit.retry_rule
ORDER BY priority;

-- The class of each end, and the advice.
CREATE TEMP TABLE ends (n serial, outcome text, code int, message text);
INSERT INTO ends (outcome, code, message) VALUES
	('failed', NULL, NULL), ('failed', 1, 'something else'),
	('failed', 2, NULL), ('failed', 126, NULL), ('failed', 127, NULL),
	('failed', 137, NULL), ('failed', 143, NULL),
	('out_of_memory', NULL, NULL),
	('failed', 1, 'RuntimeError: CUDA out of memory. Tried to allocate 2 GiB'),
	('failed', 1, 'torch.cuda.OutOfMemoryError'),
	('failed', 1, 'RuntimeError: CUDA error: out of memory'),
	('failed', 1, 'Out of memory: Killed process 4711 (python)'),
	('failed', 1, 'std::bad_alloc'),
	('failed', 1, 'NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.'),
	('failed', 137, 'uncorrectable ECC error'),
	('failed', 1, 'Watchdog caught collective operation timeout: NCCL timeout'),
	('failed', 1, 'CUDA error: an illegal memory access was encountered'),
	('failed', 2, 'NVLink error'),
	('failed', 1, E'first line\nsecond line: Cannot allocate memory'),
	('failed', 1, repeat('a', 5000) || 'CUDA out of memory'),
	('failed', -2147483648, ''), ('failed', 2147483647, ''),
	('failed', 1, 'Xid 13 on GPU-1: graphics engine exception'),
	('failed', 1, 'NVRM: Xid (PCI:0000:3b:00): 31, pid=7, MMU Fault'),
	('failed', 1, 'Xid 79 on GPU-1: GPU has fallen off the bus; Xid 45 on GPU-1'),
	('failed', 1, 'Xid 130 on GPU-1');
CREATE FUNCTION pg_temp.try_ends() RETURNS TABLE (n int, outcome text,
	code int, message text, job_state text, retry_in interval, rule text,
	advice text) LANGUAGE plpgsql AS $$
DECLARE
	e record;
	s record;
	id bigint;
BEGIN
	FOR e IN SELECT * FROM ends ORDER BY ends.n LOOP
		id := pg_temp.run('end ' || e.n || clock_timestamp(),
			ran => '1 min');
		s := gpucredit.settle('lc', id, 1, e.outcome, exit_code => e.code,
			message => e.message);
		RETURN QUERY SELECT e.n, e.outcome, e.code, left(e.message, 24),
			s.job_state, s.retry_at - gpucredit.now(),
			u.detail ->> 'rule', left(u.detail ->> 'advice', 30)
		FROM gpucredit.audit u
		WHERE u.org = 'lc' AND u.job = id AND u.operation = 'settle';
		PERFORM gpucredit.cancel('lc', id, 'c' || id);
	END LOOP;
END $$;
SELECT * FROM pg_temp.try_ends();

-- An operator's rules come first, replace a built-in rule of their name, and
-- restore it when they go.
SELECT gpucredit.set_retry_rule('lc flaky', 'transient', exit_codes => '[2,3]',
	message => 'storage', advice => 'try again');
SELECT gpucredit.set_retry_rule('lc big', 'permanent',
	exit_codes => '[1000,)');
SELECT gpucredit.set_retry_rule('out_of_memory', 'transient',
	outcome => 'out_of_memory', advice => 'on another node');
TRUNCATE ends;
INSERT INTO ends (outcome, code, message) VALUES
	('failed', 2, 'storage gone'), ('failed', 2, 'usage'),
	('failed', 1000, NULL), ('out_of_memory', NULL, NULL);
SELECT * FROM pg_temp.try_ends();
SELECT gpucredit.set_retry_rule('out_of_memory', NULL);
SELECT gpucredit.set_retry_rule('lc flaky', NULL);
SELECT gpucredit.set_retry_rule('lc big', NULL);
SELECT gpucredit.set_retry_rule('no such', NULL);
SELECT rule, class, priority FROM gpucredit.retry_rule
WHERE rule IN ('out_of_memory', 'lc flaky', 'lc big');
-- attempts that end alike in one statement, while the rules change
CREATE FUNCTION pg_temp.end_alike(n int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	id bigint := pg_temp.run('alike ' || n, ran => '0');
	state text;
BEGIN
	SELECT s.job_state INTO state FROM gpucredit.settle('lc', id, 1, 'failed',
		exit_code => 1, message => 'it ended alike') s;
	PERFORM gpucredit.cancel('lc', id, 'c' || id);
	RETURN state;
END $$;
SELECT pg_temp.end_alike(1) AS first, pg_temp.end_alike(2) AS second,
	gpucredit.set_retry_rule('lc alike', 'permanent', message => 'ended alike') IS NOT NULL AS rule,
	pg_temp.end_alike(3) AS third,
	gpucredit.set_retry_rule('lc alike', NULL) IS NOT NULL AS no_rule,
	pg_temp.end_alike(4) AS fourth;
-- backoff doubles, and a transient failure ends within max_retries
SELECT pg_temp.run('often', max_retries => 2) > 0;
SELECT job_state, retry_at - gpucredit.now() AS retry_in
FROM gpucredit.settle('lc', pg_temp.job('often'), 1, 'failed');
SELECT pg_temp.later('30 s');
SELECT * FROM pg_temp.beat();
SELECT action, attempt FROM gpucredit.place('lc');
SELECT job_state, retry_at - gpucredit.now() AS retry_in
FROM gpucredit.settle('lc', pg_temp.job('often'), 2, 'failed');
SELECT pg_temp.later('60 s');
SELECT * FROM pg_temp.beat();
SELECT action, attempt FROM gpucredit.place('lc');
SELECT job_state, retry_at
FROM gpucredit.settle('lc', pg_temp.job('often'), 3, 'failed');
-- a hostile pattern or message costs no time
SET statement_timeout = '5 s';
SELECT gpucredit.set_retry_rule('lc slow', 'permanent',
	message => '(((((a*)*)*)*)*)*b');
SELECT pg_temp.run('hostile') > 0;
SELECT job_state FROM gpucredit.settle('lc', pg_temp.job('hostile'), 1,
	'failed', message => repeat('a', 8192));
SELECT replayed FROM gpucredit.cancel('lc', pg_temp.job('hostile'), 'kh');
SELECT gpucredit.set_retry_rule('lc slow', 'permanent',
	message => '(a|aa)+(a|aa)+(a|aa)+$x');
SELECT gpucredit.set_retry_rule('lc slow', NULL);
RESET statement_timeout;

--
-- Told to leave
--
-- After an order to save and leave SIGTERM is no failure; SIGKILL is none once
-- the grace is over. Before that the job may have run out of memory
SELECT pg_temp.run('drained', '2xLC-A') > 0, pg_temp.run('killed') > 0,
	pg_temp.run('early') > 0;
SELECT node, count(*) FROM gpucredit.attempt_gpu
WHERE org = 'lc' AND ended_at IS NULL GROUP BY 1;
SELECT gpucredit.drain('lc-1', 'repair', gpucredit.now() + '10 min'),
	gpucredit.drain('lc-2', 'repair', gpucredit.now() + '10 min');
SELECT s.outcome, s.job_state, s.retry_at = gpucredit.now() AS at_once, j.failures
FROM gpucredit.settle('lc', pg_temp.job('drained'), 1, 'failed', exit_code => 143) s,
	gpucredit.jobs j WHERE j.job = pg_temp.job('drained');
SELECT outcome, job_state
FROM gpucredit.settle('lc', pg_temp.job('early'), 1, 'failed', exit_code => 137);
SELECT pg_temp.later('10 min');
SELECT outcome, job_state
FROM gpucredit.settle('lc', pg_temp.job('killed'), 1, 'failed', exit_code => 137);
SELECT gpucredit.resume('lc-1'), gpucredit.resume('lc-2');
SELECT pg_temp.key(job, org), failures FROM gpucredit.job
WHERE job IN (pg_temp.job('drained'), pg_temp.job('killed'), pg_temp.job('early')) ORDER BY job;
SELECT replayed FROM gpucredit.cancel('lc', pg_temp.job('drained'), 'kd');
SELECT replayed FROM gpucredit.cancel('lc', pg_temp.job('killed'), 'kk');
-- a cancelled attempt ends as cancelled
SELECT pg_temp.run('stopped') > 0;
SELECT job_state FROM gpucredit.cancel('lc', pg_temp.job('stopped'), 'ks');
SELECT outcome, job_state, retry_at
FROM gpucredit.settle('lc', pg_temp.job('stopped'), 1, 'failed', exit_code => 143);

--
-- Checkpoints
--
SELECT pg_temp.run('saves', ran => '1 h') > 0;
SELECT gpucredit.checkpoint('lc', pg_temp.job('saves'), 1, 100, 's3://b/100', sha256('100'), 1000);
SELECT gpucredit.checkpoint('lc', pg_temp.job('saves'), 1, 100, 's3://b/100', sha256('100'), 1000);
SELECT gpucredit.checkpoint('lc', pg_temp.job('saves'), 1, 100, 's3://b/100', sha256('other'), 1000);
SELECT gpucredit.checkpoint('lc', pg_temp.job('saves'), 1, 99, 's3://b/99', sha256('99'), 1000);
SELECT pg_temp.later('1 h');
SELECT action FROM gpucredit.meter('lc', pg_temp.job('saves'), 1, '2 h');
SELECT gpucredit.checkpoint('lc', pg_temp.job('saves'), 1, 200, 's3://b/200', sha256('200'), 2000);
SELECT attempt, step, uri, encode(sha256, 'hex') = encode(sha256('200'), 'hex') AS of_200, size_bytes, elapsed
FROM gpucredit.checkpoint WHERE org = 'lc' ORDER BY attempt, step;
-- no such job, none in this organisation, no such attempt
SELECT gpucredit.checkpoint('lc', 0, 1, 1, 'u', sha256(''), 1);
SELECT gpucredit.checkpoint('lc-b', pg_temp.job('saves'), 1, 300, 'u', sha256(''), 1);
SELECT gpucredit.checkpoint('lc', pg_temp.job('saves'), 2, 300, 'u', sha256(''), 1);
SELECT gpucredit.checkpoint('lc', pg_temp.job('saves'), 1, 300, 'u', '\x00', 1);
-- the next attempt is told its checkpoint, as long as it has not begun
SELECT outcome, refunded FROM gpucredit.settle('lc', pg_temp.job('saves'), 1, 'preempted');
SELECT gpucredit.checkpoint('lc', pg_temp.job('saves'), 1, 300, 'u', sha256(''), 1);	-- over
SELECT gpucredit.checkpoint('lc', pg_temp.job('saves'), 1, 200, 's3://b/200', sha256('200'), 2000);
SELECT * FROM pg_temp.beat();
SELECT action, attempt FROM gpucredit.place('lc');
SELECT job, attempt, action, spec - 'checkpoint' AS rest, spec -> 'checkpoint' ->> 'step' AS step,
	spec -> 'checkpoint' ->> 'uri' AS uri,
	spec -> 'checkpoint' ->> 'sha256' = encode(sha256('200'), 'hex') AS of_200
FROM pg_temp.beat();
SELECT action FROM gpucredit.meter('lc', pg_temp.job('saves'), 2, '0');
SELECT job, attempt, action, spec FROM pg_temp.beat();
-- it saves nothing itself: the one after it gets the same checkpoint
SELECT outcome FROM gpucredit.settle('lc', pg_temp.job('saves'), 2, 'preempted');
SELECT * FROM pg_temp.beat();
SELECT action, attempt FROM gpucredit.place('lc');
SELECT attempt, spec -> 'checkpoint' ->> 'step' AS step FROM pg_temp.beat();
SELECT outcome FROM gpucredit.settle('lc', pg_temp.job('saves'), 3, 'completed');

-- only checkpoints say where to go on
SELECT gpucredit.reserve('lc', '', 'forged', '1xLC-A', '1 h', pool => 'lc',
	spec => '{"checkpoint": {"attempt": 0, "step": 9, "uri": "s3://others/9"}}');
-- also of a job submitted before that was refused
SELECT status FROM gpucredit.reserve('lc', '', 'forged', '1xLC-A', '1 h', pool => 'lc', spec => '{"image": "a"}');
UPDATE gpucredit.job SET spec = spec || '{"checkpoint": {"attempt": 0, "step": 9, "uri": "s3://others/9"}}'
WHERE org = 'lc' AND job = pg_temp.job('forged');
SELECT action, attempt FROM gpucredit.place('lc');
SELECT job, attempt, action, spec FROM pg_temp.beat();
SELECT action FROM gpucredit.meter('lc', pg_temp.job('forged'), 1, '0');
SELECT job, attempt, action, spec FROM pg_temp.beat();
SELECT outcome FROM gpucredit.settle('lc', pg_temp.job('forged'), 1, 'completed');

--
-- Lost work
--
-- The platform takes the devices of a job away, by a drain of its nodes.
CREATE FUNCTION pg_temp.drain(id bigint) RETURNS void LANGUAGE sql AS $$
	SELECT gpucredit.drain(g.node, 'repair', gpucredit.now() + interval '10 min') FROM gpucredit.attempt_gpu g WHERE g.job = drain.id AND g.ended_at IS NULL
$$;
CREATE FUNCTION pg_temp.undrain() RETURNS void LANGUAGE sql AS $$
	SELECT gpucredit.resume(n.node) FROM gpucredit.node n WHERE n.pool = 'lc' AND n.draining = 'repair'
$$;
-- 2 GPUs for 3 hours are 6 credits, 4 of them since the last checkpoint
SELECT pg_temp.run('loses', '2xLC-A', 'lc', '1 h') > 0;
SELECT gpucredit.checkpoint('lc', pg_temp.job('loses'), 1, 1, 'u', sha256(''), 1);
SELECT pg_temp.later('2 h');
SELECT billed, held FROM gpucredit.meter('lc', pg_temp.job('loses'), 1, '3 h');
SELECT available, held, spent FROM gpucredit.balance('lc') \gset before_
SELECT pg_temp.drain(pg_temp.job('loses'));
SELECT outcome, billed, released, lapsed, refunded, job_state, replayed
FROM gpucredit.settle('lc', pg_temp.job('loses'), 1, 'preempted');
SELECT pg_temp.undrain();
SELECT outcome, billed, released, lapsed, refunded, job_state, replayed
FROM gpucredit.settle('lc', pg_temp.job('loses'), 1, 'completed');
SELECT available - :before_available AS back, held - :before_held AS held, spent - :before_spent AS spent
FROM gpucredit.balance('lc');
SELECT source, target, amount, operation FROM gpucredit.entry
WHERE org = 'lc' AND job = pg_temp.job('loses') AND attempt = 1 ORDER BY entry;
SELECT replayed FROM gpucredit.cancel('lc', pg_temp.job('loses'), 'kl');
-- the history tells it before the requeue of the same instant
SELECT h.what, h.attempt FROM gpucredit.history('lc', pg_temp.job('loses')) h;
-- without a checkpoint all work is lost
SELECT pg_temp.run('loses all', '2xLC-A', 'lc', '1 h') > 0;
SELECT billed, refunded, job_state FROM gpucredit.settle('lc', pg_temp.job('loses all'), 1, 'node_lost');
SELECT replayed FROM gpucredit.cancel('lc', pg_temp.job('loses all'), 'kla');
-- what the program ended is billed, whether or not it is tried again, and so
-- is an end that no order of the platform explains
SELECT pg_temp.run('fails', '2xLC-A', 'lc', '8 h') > 0;
SELECT billed, refunded, job_state FROM gpucredit.settle('lc', pg_temp.job('fails'), 1, 'failed', exit_code => 1);
SELECT replayed FROM gpucredit.cancel('lc', pg_temp.job('fails'), 'kf');
SELECT pg_temp.run('claims', '2xLC-A', 'lc', '1 h') > 0;
SELECT billed, refunded, job_state FROM gpucredit.settle('lc', pg_temp.job('claims'), 1, 'preempted', exit_code => 143);
SELECT replayed FROM gpucredit.cancel('lc', pg_temp.job('claims'), 'kcl');
SELECT pg_temp.run('pays', '2xLC-A', 'lc', '1 h') > 0;
SELECT billed, refunded, job_state FROM gpucredit.settle('lc', pg_temp.job('pays'), 1, 'failed', exit_code => 127);
SELECT pg_temp.run('pays, too', '2xLC-A', 'lc', '1 h') > 0;
SELECT gpucredit.checkpoint('lc', pg_temp.job('pays, too'), 1, 1, 'u', sha256(''), 1);
SELECT billed, refunded, job_state FROM gpucredit.settle('lc', pg_temp.job('pays, too'), 1, 'completed');
-- metering and saving at the instant of the settlement came before it
SELECT h.what, h.attempt FROM gpucredit.history('lc', pg_temp.job('pays, too')) h;
-- credit that expired meanwhile lapses
DO $$ BEGIN PERFORM gpucredit.issue('lc-b', '', 'short', 2, 'promo', priority => 1,
	valid_for => '90 min'); END $$;
SELECT pg_temp.run('lapses', '2xLC-A', 'lc', '2 h', 'lc-b') > 0;
SELECT pg_temp.drain(pg_temp.job('lapses', 'lc-b'));
SELECT billed, lapsed, refunded, job_state
FROM gpucredit.settle('lc-b', pg_temp.job('lapses', 'lc-b'), 1, 'preempted');
SELECT pg_temp.undrain();
SELECT replayed FROM gpucredit.cancel('lc-b', pg_temp.job('lapses', 'lc-b'), 'kl');
-- a tier may decide otherwise for an outcome, either way, and undo that
SELECT gpucredit.set_lost_work('lc', 'preempted', true),
	gpucredit.set_lost_work('standard_training', 'node_lost', false);
CREATE FUNCTION pg_temp.lose(tier text, outcome text, OUT billed numeric,
	OUT refunded numeric, OUT job_state text) LANGUAGE plpgsql AS $$
DECLARE
	id bigint := pg_temp.run(concat_ws(' ', 'lose', tier, outcome, clock_timestamp()), '2xLC-A', tier);
BEGIN
	PERFORM gpucredit.checkpoint('lc', id, 1, 1, 'u', sha256(''), 1);
	PERFORM pg_temp.later('30 min');
	IF outcome IN ('preempted', 'resized') THEN
		PERFORM pg_temp.drain(id);
	END IF;
	SELECT s.billed, s.refunded, s.job_state INTO billed, refunded, job_state
	FROM gpucredit.settle('lc', id, 1, outcome, '90 min', exit_code => 1) s;
	PERFORM pg_temp.undrain();
	PERFORM gpucredit.cancel('lc', id, 'cancel ' || id);
END $$;
CREATE TEMP TABLE losers (n serial, tier text, outcome text);
INSERT INTO losers (tier, outcome) SELECT t, o
FROM unnest('{lc,standard_training}'::text[]) t, unnest('{preempted,node_lost,failed,resized,out_of_memory,timeout,completed}'::text[]) o;
SELECT l.tier, l.outcome, p.* FROM losers l, pg_temp.lose(l.tier, l.outcome) p ORDER BY n;
SELECT gpucredit.set_lost_work('lc', 'preempted', NULL),
	gpucredit.set_lost_work('lc', 'resized', NULL),
	gpucredit.set_lost_work('standard_training', 'node_lost', true);
SELECT l.tier, l.outcome, p.* FROM losers l, pg_temp.lose(l.tier, l.outcome) p
WHERE l.outcome IN ('preempted', 'node_lost') ORDER BY n;
SELECT gpucredit.set_lost_work('standard_training', 'node_lost', NULL);
SELECT gpucredit.set_lost_work('lc', 'completed', false);
SELECT gpucredit.set_lost_work('lc', 'out_of_memory', false);
SELECT gpucredit.set_lost_work('no such', 'preempted', false);
SELECT decision, detail FROM gpucredit.audit WHERE operation = 'set_lost_work' ORDER BY audit LIMIT 3;
SELECT count(*) FROM gpucredit.lost_work;

--
-- A lost finish
--
SELECT pg_temp.beat();
SELECT pg_temp.run('silent', ran => '1 h') > 0;
DO $$ BEGIN PERFORM gpucredit.hold('lc', 'a', 'dead', 7, '4 min');
	PERFORM gpucredit.hold('lc', 'a', 'alive', 7, '1 day'); END $$;
SELECT pg_temp.later('299.999999 s');
SELECT pg_temp.beat();
SELECT gpucredit.reap_holds() \g /dev/null
-- the hold is dead, the attempt is not yet
SELECT r.key, h.closed_at IS NOT NULL AS released FROM gpucredit.hold h
	JOIN gpucredit.request r ON r.org = h.org AND r.operation = 'hold' AND r.result[1] = h.hold::text
WHERE h.org = 'lc' AND r.key IN ('alive', 'dead') ORDER BY 1;
SELECT outcome FROM gpucredit.attempt WHERE org = 'lc' AND job = pg_temp.job('silent');
SELECT pg_temp.later('1 us');
SELECT pg_temp.beat();						-- its node lives
SET gpucredit.heartbeat_timeout = 0;
SELECT * FROM gpucredit.reap_holds();
RESET gpucredit.heartbeat_timeout;
SELECT * FROM gpucredit.reap_holds();
SELECT * FROM gpucredit.reap_holds();
SELECT state, failures, not_before - gpucredit.now() AS backoff FROM gpucredit.job
WHERE org = 'lc' AND job = pg_temp.job('silent');
-- The bill is what was metered; the devices stay fenced until the agent
-- reports. A heartbeat is only evidence; a completion before the next attempt
-- ends the job
SELECT gpus, free FROM gpucredit.attempt_gpu WHERE org = 'lc' AND job = pg_temp.job('silent');
SELECT action, reason, billed FROM gpucredit.meter('lc', pg_temp.job('silent'), 1, '65 min');
SELECT action, reason, billed FROM gpucredit.meter('lc', pg_temp.job('silent'), 1, '66 min');
SELECT action, reason, billed FROM gpucredit.meter_batch('{lc}', ARRAY[pg_temp.job('silent')], '{1}', '{67 min}');
SELECT outcome, billed, released, job_state, replayed
FROM gpucredit.settle('lc', pg_temp.job('silent'), 1, 'completed', '65 min');
SELECT outcome, billed, released, job_state, replayed
FROM gpucredit.settle('lc', pg_temp.job('silent'), 1, 'completed', '65 min');
SELECT outcome, elapsed, billed FROM gpucredit.attempt WHERE org = 'lc' AND job = pg_temp.job('silent');
SELECT operation, decision, reason, detail - 'hold' AS detail FROM gpucredit.audit
WHERE org = 'lc' AND job = pg_temp.job('silent') AND operation IN ('settle', 'meter') ORDER BY audit;
SELECT * FROM pg_temp.beat();
SELECT free FROM gpucredit.attempt_gpu WHERE org = 'lc' AND job = pg_temp.job('silent');
SELECT replayed FROM gpucredit.cancel('lc', pg_temp.job('silent'), 'ksi');
-- the same finish again, or one that claims no more, changes nothing
SELECT pg_temp.run('again') > 0;
SELECT replayed FROM gpucredit.settle('lc', pg_temp.job('again'), 1, 'completed', '2 h');	-- cut
SELECT replayed FROM gpucredit.settle('lc', pg_temp.job('again'), 1, 'completed', '2 h');
SELECT replayed FROM gpucredit.settle('lc', pg_temp.job('again'), 1, 'failed', '1 min');
SELECT decision, reason FROM gpucredit.audit
WHERE org = 'lc' AND job = pg_temp.job('again') AND operation = 'settle';
-- one attempt was never heard of, one told to leave, one cancelled
SELECT status FROM gpucredit.reserve('lc', '', 'mute', '1xLC-A', '1 h', pool => 'lc', max_retries => 0);
SELECT pg_temp.beat();
SELECT action FROM gpucredit.place('lc');
SELECT pg_temp.run('told', ran => '1 s') > 0, pg_temp.run('given up', ran => '1 s') > 0;
SELECT job_state FROM gpucredit.cancel('lc', pg_temp.job('given up'), 'kg');
INSERT INTO gpucredit.directive SELECT 'lc', pg_temp.job('told'), 1, 'drain/lc-1', 'checkpoint',
	'drain', NULL, gpucredit.now();
SELECT pg_temp.later('5 min');
SELECT pg_temp.beat();
SELECT * FROM gpucredit.reap_holds();
SELECT pg_temp.key(a.job, a.org), a.outcome, a.elapsed, a.billed, a.message, a.job_state, j.failures
FROM gpucredit.attempt a JOIN gpucredit.job j USING (org, job)
WHERE a.org = 'lc' AND job IN (pg_temp.job('mute'), pg_temp.job('told'), pg_temp.job('given up')) ORDER BY job;
-- an agent that fell silent is no failure of the program: it is tried again though max_retries is 0
SELECT job_state FROM gpucredit.cancel('lc', pg_temp.job('mute'), 'mute again');
SELECT replayed FROM gpucredit.cancel('lc', pg_temp.job('told'), 'kt');

--
-- A lost node
--
-- One attempt of two organisations on each node; lc-2 falls silent.
SELECT * FROM pg_temp.beat();
SELECT pg_temp.run('here', '3xLC-A') > 0, pg_temp.run('there', '3xLC-A', tenant => 'lc-b') > 0,
	pg_temp.run('gang', '2xLC-A') > 0;
SELECT node, pg_temp.key(job, org), gpus FROM gpucredit.attempt_gpu
WHERE ended_at IS NULL AND pool = 'lc' ORDER BY 1, 2;
SELECT pg_temp.later('59.999999 s');
SELECT * FROM gpucredit.check_nodes();
SELECT pg_temp.later('1 us');
SELECT count(*) >= 0 AS beat FROM gpucredit.heartbeat('lc-1');
SET gpucredit.node_lost = 0;
SELECT * FROM gpucredit.check_nodes();
RESET gpucredit.node_lost;
SELECT * FROM gpucredit.check_nodes();
SELECT * FROM gpucredit.check_nodes();
SELECT pg_temp.key(a.job, a.org), a.attempt, a.outcome, a.elapsed, a.billed, j.state, j.failures, j.not_before
FROM gpucredit.attempt a JOIN gpucredit.job j USING (org, job)
WHERE a.pool = 'lc' AND pg_temp.key(a.job, a.org) IN ('here', 'there', 'gang') ORDER BY 1;
-- the gang's devices on the living node are fenced, too
SELECT node, pg_temp.key(job, org), gpus, ended_at IS NOT NULL AS over, free FROM gpucredit.attempt_gpu
WHERE pool = 'lc' AND pg_temp.key(job, org) IN ('here', 'there', 'gang') ORDER BY 1, 2;
SELECT count(*) FROM gpucredit.place('lc') WHERE action = 'start' AND node = 'lc-2';
-- the agent comes back and is told to stop; its claim is not billed
SELECT pg_temp.key(h.job, h.org), h.attempt, h.action FROM gpucredit.heartbeat('lc-2',
	running => ARRAY(SELECT concat_ws('/', g.org, g.job, g.attempt)
	FROM gpucredit.attempt_gpu g WHERE g.node = 'lc-2' AND NOT g.free)) h ORDER BY 1;

--
-- Privileges
--
SET ROLE gpucredit_app;
SELECT gpucredit.checkpoint('lc', 1, 1, 1, 'u', sha256(''), 1);
SELECT * FROM gpucredit.reap_holds();
SELECT * FROM gpucredit.check_nodes();
SELECT gpucredit.set_retry_rule('mine', 'transient');
SELECT gpucredit.set_lost_work('lc', 'failed', true);
SELECT gpucredit.install_jobs();
SET ROLE gpucredit_agent;
SELECT gpucredit.checkpoint('lc', 0, 1, 1, 'u', sha256(''), 1);
SELECT gpucredit.set_retry_rule('mine', 'transient');
SELECT count(*) FROM gpucredit.checkpoint;
SET ROLE gpucredit_operator;
SELECT task, affected FROM gpucredit.reap_holds();
SELECT task, affected FROM gpucredit.check_nodes();
SELECT gpucredit.set_retry_rule('mine', 'permanent', advice => 'ask');
SELECT rule, class, advice FROM gpucredit.retry_rule WHERE rule = 'mine';
SELECT gpucredit.set_retry_rule('mine', NULL);
SELECT gpucredit.install_jobs();			-- pg_cron is not loaded here
SELECT gpucredit.remove_jobs();
SELECT count(*) FROM gpucredit.cron_status;
SET ROLE gpucredit_auditor;
SELECT count(*) > 0 FROM gpucredit.checkpoint;
SELECT count(*) > 0 FROM gpucredit.retry_rule;
SELECT count(*) FROM gpucredit.cron_status;
RESET ROLE;
SELECT actor, decision, detail FROM gpucredit.audit WHERE operation = 'set_retry_rule' AND org = ''
ORDER BY audit DESC LIMIT 2;

-- the history of a job has all of it
SELECT h.at, h.what, h.attempt, regexp_replace(left(h.detail, 60), '(bucket|hold) \d+', '\1 N', 'g') AS detail
FROM gpucredit.history('lc', pg_temp.job('silent')) h;
SELECT count(gpucredit.cancel(org, job, 'end ' || job)) FROM gpucredit.job
WHERE pool = 'lc' AND ended_at IS NULL;
-- An attempt killed at the wall limit timed out; a stuck one is tried again as
-- stuck; one that used up its hold waits for credit. The job is not blamed for
-- the signal of its agent
SET gpucredit.progress_timeout = '30 min';
SELECT pg_temp.run('late', ran => '1 s') > 0, pg_temp.run('stuck', ran => '1 s') > 0;
SELECT action, reason FROM gpucredit.meter('lc', pg_temp.job('stuck'), 1, '2 s', 7);
SELECT job AS broke, status FROM gpucredit.reserve('lc-b', '', 'broke', '4xLC-A', '10 h', pool => 'lc', hold_window => '1 h') \gset
SELECT count(*) FROM gpucredit.place('lc');
SELECT status, held FROM gpucredit.hold('lc-b', '', 'rest', (SELECT available FROM gpucredit.balance('lc-b')), '365 days');
SELECT action FROM gpucredit.meter('lc-b', :broke, 1, '0');
SELECT pg_temp.later('1 h');
SELECT k.key, action, reason FROM (VALUES ('late', '1 h'::interval), ('stuck', '1 h')) k (key, ran),
	gpucredit.meter('lc', pg_temp.job(k.key), 1, k.ran);
SELECT action, reason FROM gpucredit.meter('lc-b', :broke, 1, '1 h');
SELECT outcome, job_state FROM gpucredit.settle('lc-b', :broke, 1, 'failed', exit_code => 137);
SELECT outcome, job_state FROM gpucredit.settle('lc', pg_temp.job('stuck'), 1, 'failed', exit_code => 137, message => 'SIGKILL');
SELECT pg_temp.later('9 h');
SELECT action, reason FROM gpucredit.meter('lc', pg_temp.job('late'), 1, '10 h');
SELECT outcome, job_state FROM gpucredit.settle('lc', pg_temp.job('late'), 1, 'failed', exit_code => 143);
SELECT pg_temp.key(u.job, u.org) AS job, u.decision, u.reason, u.detail ->> 'rule' AS rule, u.detail ->> 'message' AS message
FROM gpucredit.audit u WHERE u.operation = 'settle' AND (u.job = :broke OR u.job IN (pg_temp.job('late'), pg_temp.job('stuck')))
ORDER BY u.audit;
RESET gpucredit.progress_timeout;
SELECT gpucredit.cancel('lc-b', :broke, 'kb'), gpucredit.cancel('lc', pg_temp.job('stuck'), 'kst');
SELECT released FROM gpucredit.release('lc-b', (SELECT hold FROM gpucredit.hold WHERE org = 'lc-b' AND closed_at IS NULL), 'rest back');
SELECT * FROM gpucredit.verify();
-- verify sees an impossible refund and an impossible checkpoint
BEGIN;
UPDATE gpucredit.attempt SET refunded = '3' WHERE org = 'lc' AND job = pg_temp.job('loses') AND attempt = 1;
UPDATE gpucredit.checkpoint SET elapsed = '5 h' WHERE org = 'lc' AND job = pg_temp.job('loses');
INSERT INTO gpucredit.lost_work VALUES ('no such', 'failed', true);
INSERT INTO gpucredit.checkpoint
SELECT org, job, 99, step, uri, sha256, size_bytes, at, elapsed FROM gpucredit.checkpoint
WHERE org = 'lc' AND job = pg_temp.job('loses');
SELECT invariant, regexp_replace(subject, 'job \d+', 'job N') AS subject, detail FROM gpucredit.verify('lc');
SELECT invariant, subject, detail FROM gpucredit.verify() WHERE invariant LIKE 'lost%';
ROLLBACK;

--
-- A sweep funds waiting jobs, too
--
RESET gpucredit.clock_skew;
SET gpucredit.clock = '2027-04-01 00:00+00';
DO $$
DECLARE
	j record;
BEGIN
	PERFORM gpucredit.create_pool('lf');
	PERFORM gpucredit.set_price('LF', 1, 'lf');
	PERFORM gpucredit.register_node('lf', 'lf-1', 'LF', 8, 40960);
	PERFORM gpucredit.create_account('lf');
	PERFORM gpucredit.create_account('lf', 'off');
	PERFORM gpucredit.issue('lf', '', 'i1', 7);
	PERFORM gpucredit.reserve('lf', a.account, a.key, a.request, '1 h', pool => 'lf')
	FROM (VALUES ('', 'first', '2xLF'), ('', 'same', '2xLF'), ('', 'less', '1xLF'),
		('off', 'off', '2xLF')) AS a (account, key, request);
	PERFORM FROM gpucredit.place('lf');
	PERFORM set_config('gpucredit.clock', '2027-04-01 01:00+00', false);
	FOR j IN SELECT * FROM gpucredit.job WHERE org = 'lf' ORDER BY job LOOP
		PERFORM gpucredit.settle('lf', j.job, 1, 'preempted', '1 h');
	END LOOP;
	PERFORM gpucredit.suspend_account('lf', 'off', true);
END $$;
CREATE FUNCTION pg_temp.states() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(r.key || ' ' || j.state, ', ' ORDER BY j.job) FROM gpucredit.job j
		JOIN gpucredit.request r ON r.org = j.org AND r.operation = 'reserve' AND r.result[1] = j.job::text
	WHERE j.org = 'lf' $$;
SELECT * FROM gpucredit.reap_holds();
SELECT pg_temp.states();
-- a sweep waits for a row only briefly, and never as long as deadlock_timeout
CREATE TEMP TABLE waits (deadlock_timeout text, what text, most text);
CREATE FUNCTION pg_temp.tell_timeout() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO pg_temp.waits (deadlock_timeout, what, most)
	VALUES (current_setting('deadlock_timeout'), TG_TABLE_NAME, current_setting('lock_timeout'));
	RETURN new;
END $$;
CREATE FUNCTION pg_temp.fund_one() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	n bigint;
BEGIN
	LOOP
		SELECT affected INTO n FROM gpucredit.reap_holds() WHERE task = 'fund_jobs';
		IF n > 0 THEN
			RETURN n;
		END IF;
	END LOOP;
END $$;
CREATE TRIGGER tell_timeout BEFORE UPDATE ON gpucredit.hold FOR EACH ROW
	WHEN (new.job IS NULL) EXECUTE FUNCTION pg_temp.tell_timeout();
CREATE TRIGGER tell_timeout BEFORE UPDATE ON gpucredit.job FOR EACH ROW
	WHEN (old.state = 'unfunded') EXECUTE FUNCTION pg_temp.tell_timeout();
-- as in a cycle, behind a job that cannot be paid only smaller jobs are tried
SELECT count(gpucredit.issue('lf', '', 'i2', 1));
SET deadlock_timeout = '20ms';
SELECT pg_temp.fund_one();
SET deadlock_timeout = '1s';
SELECT pg_temp.states();
SELECT count(gpucredit.issue('lf', '', 'i3', 3));
SELECT * FROM gpucredit.reap_holds() WHERE task = 'fund_jobs';
SELECT pg_temp.states();
SELECT count(gpucredit.issue('lf', '', 'i4', 3)), count(gpucredit.suspend_account('lf', 'off', false));
SELECT * FROM gpucredit.reap_holds() WHERE task = 'fund_jobs';
SELECT pg_temp.states();
SELECT operation, decision, detail FROM gpucredit.audit WHERE org = 'lf' AND operation = 'fund' ORDER BY audit;
SET deadlock_timeout = '1s';
DO $$
BEGIN
	FOR i IN 1 .. 2 LOOP
		PERFORM gpucredit.issue('lf', '', 'paid-' || i, 3),
			gpucredit.hold('lf', '', 'waits-' || i, 1, '1 s');
		PERFORM set_config('gpucredit.clock', '2027-04-01 01:0' || i || '+00', false);
		PERFORM gpucredit.reap_holds();
		SET deadlock_timeout = '20ms';
	END LOOP;
END $$;
RESET deadlock_timeout;
SELECT DISTINCT * FROM pg_temp.waits ORDER BY deadlock_timeout, what;
SHOW lock_timeout;
DROP TRIGGER tell_timeout ON gpucredit.hold;
DROP TRIGGER tell_timeout ON gpucredit.job;
SELECT * FROM gpucredit.reap_holds() WHERE task = 'fund_jobs';

--
-- A gang begins on one node after another
--
DO $$ BEGIN
	PERFORM * FROM pg_temp.beat();
	PERFORM gpucredit.settle(a.org, a.job, a.attempt, 'completed')
	FROM gpucredit.attempt a WHERE a.pool = 'lc' AND a.ended_at IS NULL;
	PERFORM gpucredit.cancel(j.org, j.job, 'over' || j.job) FROM gpucredit.job j
	WHERE j.pool = 'lc' AND j.state IN ('queued', 'unfunded');
	PERFORM gpucredit.reserve('lc', '', 'both', '8xLC-A', '10 h', pool => 'lc', spec => '{"image": "i"}');
	PERFORM * FROM pg_temp.beat();
END $$;
SELECT pg_temp.job('both') AS both \gset
SELECT node, gpus FROM gpucredit.place('lc');
-- each node hears of all; a node that named its part gets start again until
-- the attempt is metered
SELECT action, gpus, nodes FROM gpucredit.heartbeat('lc-1', running => '{}');
SELECT action, gpus, nodes FROM gpucredit.heartbeat('lc-1', running => ARRAY[format('lc/%s/1', :both)]);
SELECT action FROM gpucredit.meter('lc', :both, 1, '0');
SELECT action FROM gpucredit.heartbeat('lc-1', running => ARRAY[format('lc/%s/1', :both)]);
-- the other node hears of it late: it still has to start its part, until it
-- names it
SELECT action, gpus, nodes, spec FROM gpucredit.heartbeat('lc-2', running => '{}');
SELECT action FROM gpucredit.heartbeat('lc-2', running => '{}');
SELECT action FROM gpucredit.heartbeat('lc-2');		-- not told: the attempt runs
SELECT action FROM gpucredit.heartbeat('lc-2', running => ARRAY[format('lc/%s/1', :both)]);
-- parts end one after another: none starts again
SELECT action FROM gpucredit.heartbeat('lc-2', running => '{}');
SELECT action FROM gpucredit.heartbeat('lc-1', running => '{}');
-- the next attempt has a checkpoint: both parts are told of it
SELECT gpucredit.checkpoint('lc', :both, 1, 7, 'u', sha256('7'), 1);
SELECT job_state FROM gpucredit.settle('lc', :both, 1, 'preempted');
SELECT node FROM gpucredit.place('lc');
SELECT action, spec FROM gpucredit.heartbeat('lc-2', running => '{}');
SELECT action FROM gpucredit.meter('lc', :both, 2, '0');
SELECT action, spec FROM gpucredit.heartbeat('lc-1', running => '{}');
SELECT action, spec FROM gpucredit.heartbeat('lc-1', running => ARRAY[format('lc/%s/2', :both)]);
SELECT action, spec FROM gpucredit.heartbeat('lc-1', running => '{}');
-- the attempt must leave before a part has begun: nothing is started
SELECT job_state FROM gpucredit.cancel('lc', :both, 'both over');
SELECT action FROM gpucredit.heartbeat('lc-2', running => '{}');
SELECT job_state FROM gpucredit.settle('lc', :both, 2, 'cancelled');
-- a gang keeps its devices, however long ago its parts were named, when
-- another job's fence runs out and when its node is registered with more
-- memory
DO $$ BEGIN
	PERFORM gpucredit.register_node('lc', 'lc-3', 'LC-A', 1, 40960);
	PERFORM gpucredit.reserve('lc', '', 'keeps', '8xLC-A', '10 h', pool => 'lc');
	PERFORM gpucredit.reserve('lc', '', 'alone', '1xLC-A', '10 h', pool => 'lc');
	PERFORM * FROM pg_temp.beat();
	PERFORM * FROM gpucredit.place('lc');
	PERFORM * FROM pg_temp.beat();
	PERFORM gpucredit.heartbeat('lc-3');
END $$;
SELECT pg_temp.later('1 min');
SELECT * FROM pg_temp.beat();
SELECT * FROM gpucredit.check_nodes();		-- lc-3 is silent
SELECT job_state FROM gpucredit.cancel('lc', pg_temp.job('alone'), 'alone over');
SELECT pg_temp.later('1 min');
SELECT * FROM pg_temp.beat();
SELECT * FROM gpucredit.heartbeat('lc-3');
SELECT * FROM gpucredit.place('lc');
SELECT gpucredit.register_node('lc', 'lc-2', 'LC-A', 4, 40960, memory_mib => 1000000);
SELECT node, pg_temp.key(job, org), ended_at IS NOT NULL AS over, free FROM gpucredit.attempt_gpu
WHERE org = 'lc' AND job IN (pg_temp.job('keeps'), pg_temp.job('alone')) ORDER BY 1;
SELECT job_state FROM gpucredit.settle('lc', pg_temp.job('keeps'), 1, 'completed');
SELECT * FROM gpucredit.verify();
