-- What fails, and what becomes of the work: devices, reclaimed nodes, agents
-- that do not stop or make no progress, checkpoints due and bad.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
SET gpucredit.clock = '2027-04-01 00:00+00';
-- each job starts as soon as it fits: reservations have tests of their own
SET gpucredit.backfill_depth = 0;
\set VERBOSITY sqlstate
\pset null '-'

-- 1 credit an hour, on three nodes of 4; fl-s is a pool of spot nodes
DO $$
BEGIN
	PERFORM gpucredit.create_pool('fl');
	PERFORM gpucredit.create_pool('fl-s');
	PERFORM gpucredit.set_price('FL-A', 1);
	PERFORM gpucredit.register_node('fl', 'fl-' || n, 'FL-A', 4, 40960)
	FROM generate_series(1, 3) n;
	PERFORM gpucredit.register_node('fl-s', 'fl-s' || n, 'FL-A', 4, 40960, spot => true)
	FROM generate_series(1, 4) n;
	PERFORM gpucredit.create_account('fl');
	PERFORM gpucredit.grant_tier('fl', '', 'production_inference');
	PERFORM gpucredit.issue('fl', '', 'i', 100000);
	-- what other tests left is removed
	PERFORM gpucredit.reap_holds();
	PERFORM gpucredit.check_nodes();
END $$;

CREATE FUNCTION pg_temp.job(job_key text) RETURNS bigint LANGUAGE sql AS $$
	SELECT r.result[1]::bigint FROM gpucredit.request r
	WHERE r.org = 'fl' AND r.key = job_key
$$;
CREATE FUNCTION pg_temp.key(id bigint) RETURNS text LANGUAGE sql AS $$
	SELECT r.key FROM gpucredit.request r WHERE r.org = 'fl'
		AND r.result[1] = id::text AND r.operation = 'reserve'
$$;
CREATE FUNCTION pg_temp.later(by interval) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('gpucredit.clock', (gpucredit.now() + by)::text, false)
$$;
-- All nodes of a pool report what they run, and nothing that is over.
CREATE FUNCTION pg_temp.beat(of_pool text DEFAULT 'fl') RETURNS TABLE (
	node text, job text, attempt int, action text, reason text, save boolean,
	time_left interval) LANGUAGE sql AS $$
	SELECT n.node, pg_temp.key(h.job), h.attempt, h.action, h.reason, h.save, h.time_left
	FROM (SELECT n.node, n.healthy FROM gpucredit.node n
			WHERE n.pool = of_pool ORDER BY n.node) n,
		gpucredit.heartbeat(n.node, n.healthy, ARRAY(SELECT concat_ws('/', g.org, g.job, g.attempt)
			FROM gpucredit.attempt_gpu g
			WHERE g.node = n.node AND g.ended_at IS NULL)) h
$$;
CREATE FUNCTION pg_temp.submit(job_key text, request text, job_spec jsonb DEFAULT '{}',
	wall interval DEFAULT '10 h', of_pool text DEFAULT 'fl') RETURNS text
LANGUAGE sql AS $$
	SELECT status FROM gpucredit.reserve('fl', '', job_key, request, wall, pool => of_pool,
		spec => job_spec)
$$;
CREATE FUNCTION pg_temp.place(of_pool text DEFAULT 'fl') RETURNS TABLE (
	job text, attempt int, node text, gpus gpucredit.gpuset) LANGUAGE sql AS $$
	SELECT pg_temp.key(p.job), p.attempt, p.node, p.gpus FROM gpucredit.place(of_pool) p
$$;
CREATE FUNCTION pg_temp.attempts(VARIADIC keys text[]) RETURNS TABLE (job text,
	attempt int, outcome text, elapsed interval, billed gpucredit.credits, job_state text,
	failures int, retry_in interval) LANGUAGE sql AS $$
	SELECT k, a.attempt, a.outcome, a.elapsed, a.billed, a.job_state, j.failures,
		a.retry_at - a.ended_at
	FROM unnest(keys) k JOIN gpucredit.job j ON j.org = 'fl' AND j.job = pg_temp.job(k)
		JOIN gpucredit.attempt a ON a.org = 'fl' AND a.job = j.job ORDER BY k, a.attempt
$$;
CREATE FUNCTION pg_temp.why(job_key text) RETURNS text LANGUAGE sql AS $$
	SELECT reason FROM gpucredit.audit WHERE org = 'fl' AND job = pg_temp.job(job_key)
		AND operation = 'settle' ORDER BY audit DESC LIMIT 1
$$;

--
-- A device fails
--
-- A gang of 8 on two nodes, a job of 2 on the third
SELECT pg_temp.submit('gang', '8xFL-A'), pg_temp.submit('two', '2xFL-A');
SELECT * FROM pg_temp.place();
SELECT action FROM gpucredit.meter('fl', pg_temp.job('gang'), 1, '0');
SELECT pg_temp.later('1 h');
SELECT action FROM gpucredit.meter('fl', pg_temp.job('gang'), 1, '1 h');
-- one device of fl-1 fails: the whole gang ends as last metered, which counts
-- as no failure; jobs on other devices go on
SELECT count(*) FROM pg_temp.beat();
SELECT pg_temp.later('10 s');
SELECT pg_temp.key(job) AS job, attempt, action, reason FROM gpucredit.heartbeat('fl-1', '{0-1,3}',
	ARRAY['fl/' || pg_temp.job('gang') || '/1']);
SELECT * FROM pg_temp.attempts('gang', 'two');
SELECT pg_temp.why('gang'), message FROM gpucredit.attempt
WHERE org = 'fl' AND job = pg_temp.job('gang');
-- the other node is told; all devices of the gang there are fenced until it
-- reports them free
SELECT node, pg_temp.key(h.job) AS job, h.action, h.reason FROM unnest('{fl-2,fl-3}'::text[]) AS n (node),
	gpucredit.heartbeat(n.node, running => ARRAY['fl/' || pg_temp.job('gang') || '/1']) h;
SELECT node, gpus, free FROM gpucredit.attempt_gpu WHERE org = 'fl' AND job = pg_temp.job('gang') ORDER BY 1;
SELECT pg_temp.submit('next', '4xFL-A');
SELECT * FROM pg_temp.place();				-- two is on fl-3, the rest is fenced
SELECT * FROM gpucredit.heartbeat('fl-2', running => '{}');
SELECT * FROM pg_temp.place();
-- the device stays out of service until its node reports it healthy
SELECT node, healthy, state FROM gpucredit.nodes WHERE pool = 'fl' ORDER BY 1;
SELECT * FROM gpucredit.heartbeat('fl-1', '{0-1,3}', '{}');
SELECT pg_temp.submit('three', '3xFL-A'), pg_temp.submit('last', '1xFL-A');
SELECT * FROM pg_temp.place();
SELECT count(*) FROM gpucredit.heartbeat('fl-1', running => ARRAY['fl/' || pg_temp.job('three') || '/1']);
SELECT decision, detail FROM gpucredit.audit WHERE operation = 'heartbeat'
AND detail ->> 'node' = 'fl-1' ORDER BY audit;
SELECT count(gpucredit.settle('fl', job, attempt, 'completed')) FROM gpucredit.attempt
WHERE org = 'fl' AND ended_at IS NULL;
SELECT count(gpucredit.cancel('fl', job, 'c' || job)) FROM gpucredit.job
WHERE org = 'fl' AND ended_at IS NULL;

-- Where the attempt cannot be settled at once, its agent is told, and a sweep
-- ends it, although the device came back in between.
SELECT pg_temp.submit('held', '1xFL-A');
SELECT * FROM pg_temp.place();
UPDATE gpucredit.job SET topology = 'broken' WHERE org = 'fl' AND job = pg_temp.job('held');
SET client_min_messages = error;
SELECT action, reason FROM gpucredit.heartbeat('fl-1', '{}');
SELECT * FROM gpucredit.check_nodes();
RESET client_min_messages;
SELECT cause, action, reason FROM gpucredit.directive WHERE org = 'fl';
UPDATE gpucredit.job SET topology = 'any' WHERE org = 'fl' AND job = pg_temp.job('held');
SELECT action, reason FROM gpucredit.meter('fl', pg_temp.job('held'), 1, '1 s');
SELECT * FROM gpucredit.check_nodes();
SELECT * FROM pg_temp.attempts('held');
SELECT gpucredit.cancel('fl', pg_temp.job('held'), 'ch');
SELECT count(*) FROM unnest('{fl-1,fl-2,fl-3}'::text[]) n, gpucredit.heartbeat(n, running => '{}');

--
-- Fencing
--
-- An agent that keeps reporting an ended attempt keeps its devices fenced,
-- however long; silence alone does so for node_lost.
SELECT pg_temp.submit('zombie', '4xFL-A'), pg_temp.submit('after', '12xFL-A');
SELECT * FROM pg_temp.place();
SELECT pg_temp.job('zombie') AS zombie \gset
SET ROLE gpucredit_app;
SELECT outcome FROM gpucredit.settle('fl', :zombie, 1, 'preempted');
RESET ROLE;
-- nor does its job start elsewhere
SELECT count(*) FROM gpucredit.heartbeat('fl-1', running => ARRAY['fl/' || :zombie || '/1']);
SELECT * FROM pg_temp.place();
SELECT check_name, passes, detail FROM gpucredit.explain('fl', :zombie) WHERE check_name = 'earlier attempt';
SELECT gpucredit.cancel('fl', :zombie, 'cz');
-- explain tells the waiting job why these devices are kept
SELECT check_name, passes, regexp_replace(detail, ' \d{4}-.*', ' T') AS detail
FROM gpucredit.explain('fl', pg_temp.job('after')) WHERE check_name IN ('free', 'kept');
-- kept counts no devices that nobody would get: out of service, of a draining
-- or a silent node
CREATE FUNCTION pg_temp.kept() RETURNS text LANGUAGE sql AS $$
	SELECT substring(e.detail, '^\d+ devices') FROM gpucredit.explain('fl', pg_temp.job('after')) e
	WHERE e.check_name = 'kept'
$$;
BEGIN;
SELECT count(*) FROM gpucredit.heartbeat('fl-1', '{0,2-3}', ARRAY['fl/' || :zombie || '/1']);
SELECT pg_temp.kept();
SELECT gpucredit.drain('fl-1', 'd');
SELECT pg_temp.kept();
ROLLBACK;
BEGIN;
SELECT pg_temp.later('20 s');
SELECT count(*) FROM unnest('{fl-2,fl-3}'::text[]) n, gpucredit.heartbeat(n);
SELECT pg_temp.kept();
ROLLBACK;
CREATE FUNCTION pg_temp.beats(n int, runs text[] DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. n LOOP
		PERFORM pg_temp.later('10 s');
		PERFORM gpucredit.heartbeat('fl-2');
		PERFORM gpucredit.heartbeat('fl-3');
		PERFORM gpucredit.heartbeat('fl-1', running => runs);
	END LOOP;
END $$;
SELECT pg_temp.beats(10, ARRAY['fl/' || :zombie || '/1']);
SELECT * FROM pg_temp.place();
SELECT gpucredit.remove_node('fl-1');
-- a heartbeat without running proves nothing
SELECT pg_temp.beats(5);
SELECT * FROM pg_temp.place();
SELECT pg_temp.beats(1);
SELECT count(*), sum(gpucredit.gpu_count(gpus)) FROM pg_temp.place();
-- the agent's own settlement frees the devices at once
SELECT outcome FROM gpucredit.settle('fl', pg_temp.job('after'), 1, 'preempted');
SELECT count(*), sum(gpucredit.gpu_count(gpus)) FROM pg_temp.place();
SELECT count(gpucredit.settle('fl', job, attempt, 'completed')) FROM gpucredit.attempt
WHERE org = 'fl' AND ended_at IS NULL;

-- where running was never reported, time alone ends the fences, and the job
-- does not wait for them
DO $$
BEGIN
	PERFORM gpucredit.create_pool('fl-n');
	PERFORM gpucredit.register_node('fl-n', 'fl-n' || n, 'FL-A', 1, 40960) FROM generate_series(1, 2) n;
END $$;
SELECT pg_temp.submit('untold', '1xFL-A', of_pool => 'fl-n');
SELECT * FROM pg_temp.place('fl-n');
SELECT count(*) FROM gpucredit.heartbeat('fl-n1');
SELECT pg_temp.job('untold') AS untold \gset
SET ROLE gpucredit_app;
SELECT outcome FROM gpucredit.settle('fl', :untold, 1, 'preempted');
RESET ROLE;
SELECT * FROM pg_temp.place('fl-n');
SET ROLE gpucredit_app;
SELECT outcome FROM gpucredit.settle('fl', :untold, 2, 'preempted');
RESET ROLE;
SELECT * FROM pg_temp.place('fl-n');
SELECT gpucredit.cancel('fl', :untold, 'cu');

-- A silent node may still run attempts that ended meanwhile. Their fences run
-- out and are not counted, but stand until the node reports. It must stop what
-- it then names, and only then are the devices free.
DO $$
BEGIN
	PERFORM gpucredit.create_pool('fl-z');
	PERFORM gpucredit.register_node('fl-z', 'fl-z1', 'FL-A', 4, 40960, 8000, 8192);
	PERFORM gpucredit.heartbeat('fl-z1', running => '{}');
END $$;
CREATE FUNCTION pg_temp.fences() RETURNS TABLE (free boolean, seen interval, counted numeric, gauge float8,
	map text) LANGUAGE sql AS $$
	SELECT bool_and(g.free), min(gpucredit.now() - g.seen_at) FILTER (WHERE NOT g.free),
		(SELECT c.allocated FROM gpucredit.node_capacity c WHERE c.node = 'fl-z1'),
		(SELECT m.value FROM gpucredit.metrics m WHERE m.name = 'gpucredit_devices_fenced'
			AND m.labels @> '{"pool": "fl-z"}'),
		(SELECT substring(c.map, 'fl-z1 *(.{6})') FROM gpucredit.cluster_map('fl-z') c
			WHERE c.map ~ 'fl-z1')
	FROM gpucredit.attempt_gpu g WHERE g.pool = 'fl-z' AND g.ended_at IS NOT NULL
$$;
CREATE FUNCTION pg_temp.hears(VARIADIC runs text[] DEFAULT '{}') RETURNS TABLE (job text, attempt int, action text,
	reason text) LANGUAGE sql AS $$
	SELECT pg_temp.key(h.job), h.attempt, h.action, h.reason FROM gpucredit.heartbeat('fl-z1',
		running => ARRAY(SELECT concat_ws('/', 'fl', pg_temp.job(split_part(r, '/', 1)), split_part(r, '/', 2))
			FROM unnest(runs) r)) h
$$;
-- an application ended this one
SELECT pg_temp.submit('z1', '3xFL-A', of_pool => 'fl-z'), pg_temp.submit('z2', '4xFL-A', of_pool => 'fl-z');
SELECT * FROM pg_temp.place('fl-z');
SELECT * FROM pg_temp.hears('z1/1');
SELECT pg_temp.job('z1') AS z1 \gset
SET ROLE gpucredit_app;
SELECT outcome FROM gpucredit.settle('fl', :z1, 1, 'cancelled');
RESET ROLE;
SELECT pg_temp.later('59.999999 s');
SELECT * FROM pg_temp.fences();
SELECT pg_temp.later('1 us');
SELECT * FROM pg_temp.fences();
SELECT pg_temp.later('1 s');
SELECT * FROM pg_temp.place('fl-z');
SELECT state FROM gpucredit.nodes WHERE node = 'fl-z1';
SELECT * FROM pg_temp.hears('z1/1');
SELECT * FROM pg_temp.fences();
SELECT * FROM pg_temp.place('fl-z');
SELECT pg_temp.later('10 s');
SELECT * FROM pg_temp.hears();
SELECT * FROM pg_temp.place('fl-z');
-- this one was settled as lost with the node; its job starts here again only
-- after it has stopped. Cycles go on meanwhile, also where the node is drained
-- and resumed.
SELECT * FROM pg_temp.hears('z2/1');
SELECT pg_temp.later('1 min');
SELECT affected FROM gpucredit.check_nodes() WHERE task = 'settle_node_lost';
SELECT pg_temp.later('1 min');
SELECT * FROM pg_temp.place('fl-z');
SELECT gpucredit.drain('fl-z1', 'looked at');
SELECT * FROM pg_temp.place('fl-z');
SELECT gpucredit.resume('fl-z1');
SELECT * FROM pg_temp.place('fl-z');
SELECT * FROM pg_temp.hears('z2/1');
SELECT * FROM pg_temp.place('fl-z');
SELECT * FROM pg_temp.fences();
SELECT * FROM pg_temp.hears();
SELECT * FROM pg_temp.place('fl-z');
-- a node that comes back by registering must report, too
SELECT pg_temp.submit('z3', '1xFL-A', of_pool => 'fl-z');
SELECT pg_temp.job('z2') AS z2 \gset
SET ROLE gpucredit_app;
SELECT outcome FROM gpucredit.settle('fl', :z2, 2, 'cancelled');
RESET ROLE;
SELECT pg_temp.later('10 min');
SELECT * FROM pg_temp.place('fl-z');
SELECT gpucredit.register_node('fl-z', 'fl-z1', 'FL-A', 4, 40960, 8000, 8192);
SELECT * FROM pg_temp.fences();
SELECT * FROM pg_temp.place('fl-z');
SELECT * FROM pg_temp.hears('z2/2');
SELECT * FROM pg_temp.place('fl-z');
SELECT * FROM pg_temp.hears();
SELECT * FROM pg_temp.place('fl-z');
-- time alone ends a fence where the node heartbeats but never lists its
-- attempts, and where silent nodes get work
SELECT pg_temp.submit('z4', '4xFL-A', of_pool => 'fl-z'), pg_temp.submit('z5', '4xFL-A', of_pool => 'fl-z');
SELECT pg_temp.job('z3') AS z3, pg_temp.job('z4') AS z4, pg_temp.job('z5') AS z5 \gset
SET ROLE gpucredit_app;
SELECT outcome FROM gpucredit.settle('fl', :z3, 1, 'cancelled');
RESET ROLE;
SELECT pg_temp.later('1 min');
SELECT * FROM pg_temp.place('fl-z');
SELECT count(*) FROM gpucredit.heartbeat('fl-z1');
SELECT * FROM pg_temp.place('fl-z');
SET ROLE gpucredit_app;
SELECT outcome FROM gpucredit.settle('fl', :z4, 1, 'cancelled');
RESET ROLE;
SELECT pg_temp.later('1 min');
SELECT * FROM pg_temp.place('fl-z');
SET gpucredit.node_suspect = 0;
SELECT * FROM pg_temp.place('fl-z');
RESET gpucredit.node_suspect;
-- another machine of that name inherits nothing once the fence has run out,
-- and the fence does not keep anybody from removing the node
SET ROLE gpucredit_app;
SELECT outcome FROM gpucredit.settle('fl', :z5, 1, 'cancelled');
RESET ROLE;
SELECT pg_temp.submit('z6', '2xFL-A', of_pool => 'fl-z');
SELECT pg_temp.later('59 s');
SELECT gpucredit.register_node('fl-z', 'fl-z1', 'FL-A', 2, 40960);
SELECT pg_temp.later('1 s');
SELECT * FROM pg_temp.place('fl-z');
SELECT free FROM pg_temp.fences();
SELECT gpucredit.register_node('fl-z', 'fl-z1', 'FL-A', 2, 40960);
SELECT free FROM pg_temp.fences();
SELECT * FROM pg_temp.place('fl-z');
SELECT pg_temp.job('z6') AS z6 \gset
SET ROLE gpucredit_app;
SELECT outcome FROM gpucredit.settle('fl', :z6, 1, 'cancelled');
RESET ROLE;
SELECT pg_temp.later('1 min');
SELECT * FROM pg_temp.place('fl-z');
SELECT free FROM pg_temp.fences();
SELECT gpucredit.remove_node('fl-z1');
SELECT free FROM pg_temp.fences();
SELECT * FROM gpucredit.verify('fl');
-- a node is removed and registered again while its machine still runs an ended
-- attempt: fenced from the heartbeat that names it until one that does not
BEGIN;
SELECT gpucredit.register_node('fl-z', 'fl-z1', 'FL-A', 2, 40960);
SELECT pg_temp.submit('z7', '2xFL-A', of_pool => 'fl-z');
SELECT * FROM pg_temp.hears('z6/1');
SELECT free, seen, counted, gauge FROM pg_temp.fences();
SELECT * FROM pg_temp.place('fl-z');
SELECT pg_temp.later('10 s');
SELECT * FROM pg_temp.hears('z6/1', 'z1/1');
SELECT seen FROM pg_temp.fences();
SELECT * FROM pg_temp.place('fl-z');
SELECT * FROM gpucredit.verify('fl');
SELECT * FROM pg_temp.hears();
SELECT * FROM pg_temp.place('fl-z');
-- another job has some of the devices by then: it keeps them
SELECT pg_temp.job('z7') AS z7 \gset
SET ROLE gpucredit_app;
SELECT outcome FROM gpucredit.settle('fl', :z7, 1, 'cancelled');
RESET ROLE;
SELECT pg_temp.later('1 min');
SELECT gpucredit.remove_node('fl-z1');
SELECT gpucredit.register_node('fl-z', 'fl-z1', 'FL-A', 2, 40960);
SELECT pg_temp.submit('z8', '1xFL-A', of_pool => 'fl-z');
SELECT * FROM pg_temp.place('fl-z');
SELECT * FROM pg_temp.hears('z7/1', 'z8/1');
SELECT free FROM pg_temp.fences();
SELECT * FROM gpucredit.verify('fl');
-- an attempt that ended after the node came is not fenced so
SELECT outcome FROM gpucredit.settle('fl', pg_temp.job('z8'), 1, 'completed');
SELECT * FROM pg_temp.hears('z8/1');
SELECT free FROM pg_temp.fences();
ROLLBACK;

--
-- A node is taken back by its provider
--
SELECT count(*) FROM pg_temp.beat('fl-s');
SELECT pg_temp.submit('spot', '4xFL-A', of_pool => 'fl-s'),
	pg_temp.submit('wide', '6xFL-A', of_pool => 'fl-s');
SELECT * FROM pg_temp.place('fl-s');
SELECT action FROM gpucredit.meter('fl', pg_temp.job('spot'), 1, '0');
SELECT action FROM gpucredit.meter('fl', pg_temp.job('wide'), 1, '0');
SELECT pg_temp.later('10 min');
SELECT count(*) FROM pg_temp.beat('fl-s');
SELECT gpucredit.reclaim('fl-s1', '2 min');
SELECT gpucredit.reclaim('fl-s2', '3 min');
SELECT * FROM pg_temp.beat('fl-s');
SELECT pg_temp.key(job) AS job, cause, action, deadline - gpucredit.now() AS left,
	starts_at - gpucredit.now() AS turn, saved_by FROM gpucredit.directive WHERE org = 'fl' ORDER BY 1;
SELECT node, state, deadline - gpucredit.now() AS left FROM gpucredit.nodes WHERE pool = 'fl-s' ORDER BY 1;
-- no new work starts there
SELECT pg_temp.submit('new', '8xFL-A', of_pool => 'fl-s');
SELECT * FROM pg_temp.place('fl-s');
-- the reclaim is withdrawn; then announced again, sooner
SELECT gpucredit.resume('fl-s2');
SELECT pg_temp.key(job) AS job, deadline - gpucredit.now() AS left FROM gpucredit.directive WHERE org = 'fl' ORDER BY 1;
SELECT gpucredit.reclaim('fl-s2', '1 min');
SELECT gpucredit.resume('fl-s2');
SELECT node, state FROM gpucredit.nodes WHERE node = 'fl-s2';
SELECT pg_temp.later('59 s');
SELECT DISTINCT node FROM pg_temp.beat('fl-s') ORDER BY node;
SELECT pg_temp.later('59 s');
SELECT DISTINCT node FROM pg_temp.beat('fl-s') ORDER BY node;
SELECT pg_temp.later('1.999999 s');
SELECT * FROM gpucredit.check_nodes();
-- the node is gone
SELECT pg_temp.later('1 us');
SELECT node, state FROM gpucredit.nodes WHERE node = 'fl-s1';
SELECT count(*) FROM pg_temp.beat('fl-s') WHERE action = 'stop';
SELECT * FROM gpucredit.check_nodes();
SELECT * FROM pg_temp.attempts('spot');
SELECT pg_temp.why('spot');
SELECT * FROM pg_temp.place('fl-s');
-- a gone node that registers is a new one
SELECT gpucredit.register_node('fl-s', 'fl-s1', 'FL-A', 4, 40960, spot => true);
SELECT node, state FROM gpucredit.nodes WHERE node = 'fl-s1';
-- reclaimed at once: all attempts must stop, also those that had been told to
-- leave later
SELECT gpucredit.reclaim(node, '10 min') FROM (SELECT DISTINCT g.node FROM gpucredit.attempt_gpu g
	WHERE g.org = 'fl' AND g.job = pg_temp.job('wide') AND g.ended_at IS NULL) n;
SELECT action, reason, time_left FROM gpucredit.meter('fl', pg_temp.job('wide'), 1, '12 min');
SELECT gpucredit.reclaim(node, '0'::interval) FROM (SELECT DISTINCT g.node FROM gpucredit.attempt_gpu g
	WHERE g.org = 'fl' AND g.job = pg_temp.job('wide') AND g.ended_at IS NULL) n;
SELECT action, reason, time_left FROM gpucredit.meter('fl', pg_temp.job('wide'), 1, '12 min 1 s');
SELECT count(gpucredit.resume(node)) FROM gpucredit.node WHERE pool = 'fl-s';
SELECT count(gpucredit.settle('fl', job, attempt, 'completed')) FROM gpucredit.attempt
WHERE org = 'fl' AND ended_at IS NULL;
SELECT count(gpucredit.cancel('fl', job, 'cs' || job)) FROM gpucredit.job
WHERE org = 'fl' AND ended_at IS NULL;

-- Many nodes at once, of any pools in any order, one named twice: planned
-- together, and the same as one after the other.
DO $$
BEGIN
	PERFORM gpucredit.create_pool('fl-t');
	PERFORM gpucredit.register_node('fl-t', 'fl-t' || n, 'FL-A', 4, 40960) FROM generate_series(1, 2) n;
END $$;
SELECT count(*) FROM pg_temp.beat('fl-s');
SELECT pg_temp.submit('set1', '4xFL-A', '{"checkpoint_bytes": 60000000000}', of_pool => 'fl-s'),
	pg_temp.submit('set2', '8xFL-A', '{"checkpoint_bytes": 60000000000}', of_pool => 'fl-s'),
	pg_temp.submit('set3', '2xFL-A', '{"checkpoint_bytes": 60000000000}', of_pool => 'fl-t');
SELECT * FROM pg_temp.place('fl-s');
SELECT * FROM pg_temp.place('fl-t');
SELECT count(gpucredit.meter('fl', pg_temp.job('set' || n), 1, '0')) FROM generate_series(1, 3) n;
SELECT pg_temp.later('10 min');
SELECT max(audit) AS before FROM gpucredit.audit \gset
SET gpucredit.checkpoint_bandwidth = 1000000000;
SELECT gpucredit.reclaim(ARRAY['fl-t1', 'fl-s3', 'fl-s1', 'fl-s2', 'fl-t1'], '2 min');
SELECT pg_temp.key(job) AS job, cause, deadline - gpucredit.now() AS left,
	starts_at - gpucredit.now() AS turn, saved_by - gpucredit.now() AS saved
FROM gpucredit.directive WHERE org = 'fl' ORDER BY 1;
SELECT node, state, deadline - gpucredit.now() AS left FROM gpucredit.nodes
WHERE pool IN ('fl-s', 'fl-t') ORDER BY 1;
SELECT operation, decision, reason, detail FROM gpucredit.audit WHERE audit > :before ORDER BY detail ->> 'node';
-- the call for one node says what the call for many does; a repeated call
-- changes the deadline
SELECT gpucredit.resume('fl-s2'), gpucredit.reclaim('fl-s2', '2 min');
SELECT pg_temp.key(job) AS job, starts_at - gpucredit.now() AS turn, saved_by - gpucredit.now() AS saved
FROM gpucredit.directive WHERE org = 'fl' ORDER BY 1;
RESET gpucredit.checkpoint_bandwidth;
SELECT gpucredit.reclaim(ARRAY['fl-s2'], '1 min');
SELECT pg_temp.key(job) AS job, deadline - gpucredit.now() AS left
FROM gpucredit.directive WHERE org = 'fl' ORDER BY 1;
-- an unknown node stops the whole call; an empty list does nothing
SELECT gpucredit.reclaim(ARRAY['fl-t2', 'fl-nowhere'], '1 min');
SELECT gpucredit.reclaim(ARRAY['fl-t2', ''], '1 min');
SELECT gpucredit.reclaim(ARRAY['fl-t2', NULL], '1 min');
SELECT gpucredit.reclaim(ARRAY[['fl-t2'], ['fl-t1']], '1 min');
SELECT gpucredit.reclaim(ARRAY['fl-t2'], '-1 min');
SELECT gpucredit.reclaim(ARRAY['fl-t2'], NULL);
SELECT gpucredit.reclaim(NULL::text[], '1 min');
SELECT gpucredit.reclaim(ARRAY[]::text[], '1 min');
SELECT node, state FROM gpucredit.nodes WHERE node = 'fl-t2';
SELECT count(gpucredit.resume(node)) FROM gpucredit.node WHERE pool IN ('fl-s', 'fl-t');
SELECT count(*) FROM gpucredit.directive WHERE org = 'fl';
SELECT count(gpucredit.settle('fl', job, attempt, 'completed')) FROM gpucredit.attempt
WHERE org = 'fl' AND ended_at IS NULL;

-- The order of names does not matter: a plan gives way to an attempt that
-- would lose more, until its own attempt was told that its turn has come. Then
-- it is kept, and so is the turn of one that saves without a promise.
SELECT count(*) FROM pg_temp.beat('fl-s');
SELECT pg_temp.submit(k, '4xFL-A', s, of_pool => 'fl-s') FROM (VALUES
	('g1', '{"checkpoint_bytes": 60000000000}'::jsonb), ('g2', '{}'),
	('g3', '{"checkpoint_bytes": 60000000000}'), ('g4', '{"checkpoint_bytes": 50000000000}')) v (k, s);
SELECT job, node FROM pg_temp.place('fl-s') ORDER BY 1;
SELECT count(gpucredit.meter('fl', job, attempt, '0')) FROM gpucredit.attempt
WHERE org = 'fl' AND ended_at IS NULL;
SELECT pg_temp.later('10 min');
SELECT gpucredit.checkpoint('fl', pg_temp.job('g1'), 1, 1, 'u', sha256('1'), 60000000000);
SELECT pg_temp.later('10 min');
SET gpucredit.checkpoint_bandwidth = 1000000000;
SELECT count(*) FROM pg_temp.beat('fl-s');
CREATE FUNCTION pg_temp.turns() RETURNS TABLE (job text, turn interval, saved interval,
	deadline interval) LANGUAGE sql AS $$
	SELECT pg_temp.key(d.job), d.starts_at - gpucredit.now(), d.saved_by - gpucredit.now(),
		d.deadline - gpucredit.now() FROM gpucredit.directive d
	WHERE d.org = 'fl' AND d.cause = 'reclaim' ORDER BY 1
$$;
SELECT count(gpucredit.reclaim(node, '100 s')) FROM unnest('{fl-s1,fl-s2,fl-s3}'::text[]) AS n (node);
SELECT * FROM pg_temp.turns();
-- a row whose plan moves by less than a second is not written again
SELECT xmin AS was FROM gpucredit.directive WHERE org = 'fl' AND job = pg_temp.job('g3') \gset
SELECT pg_temp.later('999 ms');
SELECT gpucredit.resume('fl-s4');
SELECT xmin = :was AS as_it_was FROM gpucredit.directive WHERE org = 'fl' AND job = pg_temp.job('g3');
SELECT job, action, time_left FROM pg_temp.beat('fl-s') WHERE job IN ('g1', 'g3');
-- g4 would lose as much in less time, but g3 has begun
SELECT gpucredit.reclaim('fl-s4', '99 s');
SELECT * FROM pg_temp.turns();
SELECT pg_temp.later('57.001 s');
SELECT gpucredit.resume('fl-s3');
SELECT DISTINCT job, action FROM pg_temp.beat('fl-s') ORDER BY 1;
SELECT gpucredit.reclaim('fl-s3', '90 s');
SELECT DISTINCT job, action FROM pg_temp.beat('fl-s') ORDER BY 1;
SELECT * FROM pg_temp.turns();
RESET gpucredit.checkpoint_bandwidth;
SELECT count(gpucredit.resume(node)) FROM gpucredit.node WHERE pool = 'fl-s';
SELECT count(gpucredit.settle('fl', job, attempt, 'completed')) FROM gpucredit.attempt
WHERE org = 'fl' AND ended_at IS NULL;

-- Many at once through one lane of 0.5 GB/s. Promises go to those that lose
-- most per second of writing, as long as each ends by its deadline.
SET gpucredit.checkpoint_bandwidth = 500000000;
SELECT count(*) FROM pg_temp.beat('fl-s');
SELECT pg_temp.submit(k, r || 'xFL-A', s, of_pool => 'fl-s') FROM (VALUES
	('r1', 1, '{"checkpoint_bytes": 10000000000}'::jsonb),		-- 20 s, 1 GPU
	('r2', 2, '{"checkpoint_bytes": 10000000000}'),				-- 20 s, 2 GPUs
	('r3', 1, '{"checkpoint_bytes": 40000000000}'),				-- 80 s
	('r4', 4, '{"checkpoint_bytes": 30000000000}'),				-- 60 s, 4 GPUs
	('r5', 1, '{}')) v (k, r, s);
SELECT job, node FROM pg_temp.place('fl-s') ORDER BY 1;
SELECT count(gpucredit.meter('fl', job, attempt, '0')) FROM gpucredit.attempt
WHERE org = 'fl' AND ended_at IS NULL;
SELECT pg_temp.later('20 min');
SELECT count(*) FROM pg_temp.beat('fl-s');
SELECT count(gpucredit.reclaim(node, '100 s')) FROM unnest('{fl-s1,fl-s2,fl-s3,fl-s4}'::text[]) AS n (node);
SELECT * FROM pg_temp.turns();
SELECT DISTINCT job, action, reason, time_left FROM pg_temp.beat('fl-s') ORDER BY 1;
SELECT k AS job, split_part(detail, '; ', 2) AS saves
FROM unnest('{r1,r2,r3,r5}'::text[]) k, gpucredit.explain('fl', pg_temp.job(k))
WHERE check_name = 'leaving';
BEGIN;
SELECT gpucredit.checkpoint('fl', pg_temp.job('r1'), 1, 1, 'u', sha256('1'), 10000000000);
SELECT split_part(detail, '; ', 2) AS saves FROM gpucredit.explain('fl', pg_temp.job('r1'))
WHERE check_name = 'leaving';
ROLLBACK;
-- an attempt that ends early or leaves gives its time to others: a cycle gives
-- it to those that wait for their turn
BEGIN;
SELECT pg_temp.later('10 s');
SELECT gpucredit.checkpoint('fl', pg_temp.job('r1'), 1, 1, 'u', sha256('1'), 10000000000);
SELECT count(*) FROM pg_temp.place('fl-s');
SELECT * FROM pg_temp.turns();
SELECT xmin AS was FROM gpucredit.directive WHERE org = 'fl' AND job = pg_temp.job('r3') \gset
SELECT count(*) FROM pg_temp.place('fl-s');
SELECT xmin = :was AS as_it_was FROM gpucredit.directive WHERE org = 'fl' AND job = pg_temp.job('r3');
SELECT s.outcome FROM unnest('{r2,r4}'::text[]) k, gpucredit.settle('fl', pg_temp.job(k), 1, 'preempted') s;
SELECT count(*) FROM pg_temp.place('fl-s');
SELECT * FROM pg_temp.turns();
ROLLBACK;
-- a save that has begun goes on, and a done one is done: a lower bandwidth
-- takes back only promises that nobody was told to begin
SELECT pg_temp.later('10 s');
SET gpucredit.checkpoint_bandwidth = 400000000;
SELECT gpucredit.reclaim('fl-s4', '90 s');
SELECT * FROM pg_temp.turns();
RESET gpucredit.checkpoint_bandwidth;
SELECT gpucredit.reclaim('fl-s4', '90 s');
SELECT * FROM pg_temp.turns();
SELECT pg_temp.later('59 s');
SELECT count(*) FROM pg_temp.beat('fl-s');
SELECT pg_temp.later('31 s');
SELECT * FROM gpucredit.check_nodes();
SELECT job, outcome, job_state FROM pg_temp.attempts('r1', 'r2', 'r3', 'r4', 'r5');
SELECT count(gpucredit.cancel('fl', job, 'cr' || job)) FROM gpucredit.job
WHERE org = 'fl' AND ended_at IS NULL;

--
-- Attempts that do not stop
--
-- The wall limit holds by the server's clock, too: an agent that reports less
-- is told to stop, and a minute later the attempt is over.
SELECT pg_temp.beats(1);
SELECT pg_temp.submit('liar', '1xFL-A', wall => '1 h'), pg_temp.submit('stays', '4xFL-A'),
	pg_temp.submit('cancelled', '1xFL-A'), pg_temp.submit('mute', '1xFL-A', wall => '4 min');
SELECT job FROM pg_temp.place();
SELECT count(gpucredit.meter('fl', job, attempt, '0')) FROM gpucredit.attempt
WHERE org = 'fl' AND ended_at IS NULL;
SELECT job_state FROM gpucredit.cancel('fl', pg_temp.job('cancelled'), 'cc');
CREATE FUNCTION pg_temp.hear(VARIADIC keys text[]) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT k || ': ' || concat_ws(', ', m.action, m.reason, m.time_left)
	FROM unnest(keys) k, gpucredit.meter('fl', pg_temp.job(k), 1, '10 min') m
$$;
SELECT pg_temp.later('59.999999 s');
SELECT * FROM gpucredit.reap_holds();
SELECT pg_temp.later('1 us');
SELECT * FROM gpucredit.reap_holds();
SELECT * FROM pg_temp.attempts('cancelled');
SELECT pg_temp.beats(24);
SELECT * FROM pg_temp.hear('liar', 'stays');
SELECT pg_temp.later('5 s');
SELECT * FROM gpucredit.reap_holds();
SELECT * FROM pg_temp.attempts('mute');		-- silent, and its time is over
SELECT pg_temp.beats(330);
SELECT gpucredit.drain(node, 'fan', gpucredit.now()) FROM gpucredit.attempt_gpu
WHERE org = 'fl' AND job = pg_temp.job('stays');
SELECT * FROM pg_temp.hear('liar', 'stays');
SELECT action, reason FROM unnest('{fl-1,fl-2,fl-3}'::text[]) n, gpucredit.heartbeat(n)
WHERE job = pg_temp.job('liar');
SELECT * FROM gpucredit.reap_holds();
SELECT pg_temp.later('59.999999 s');
SELECT * FROM pg_temp.hear('liar', 'stays');
SELECT * FROM gpucredit.reap_holds();
SELECT pg_temp.later('1 us');
SELECT * FROM gpucredit.reap_holds();
SELECT * FROM pg_temp.attempts('liar', 'stays');
SELECT pg_temp.why('liar'), pg_temp.why('stays');
SELECT gpucredit.resume(node) FROM gpucredit.node WHERE pool = 'fl' AND draining IS NOT NULL;
SELECT gpucredit.cancel('fl', pg_temp.job('stays'), 'cst');

-- An attempt that was to be resized ends as resized
SELECT pg_temp.beats(1);
SELECT pg_temp.submit('shrinks', '1xFL-A');
SELECT job FROM pg_temp.place();
INSERT INTO gpucredit.directive VALUES ('fl', pg_temp.job('shrinks'), 1, 'claim', 'stop', 'resized', NULL, gpucredit.now());
SELECT pg_temp.beats(6);
SELECT affected FROM gpucredit.reap_holds() WHERE task = 'settle_overdue';
SELECT job, outcome, job_state, failures FROM pg_temp.attempts('shrinks');
SELECT gpucredit.cancel('fl', pg_temp.job('shrinks'), 'csh');

-- Out of funds, it waits for credit
SELECT gpucredit.create_account('fl', 'poor');
SELECT replayed FROM gpucredit.issue('fl-p', '', 'i', 1);	-- no such account
SELECT gpucredit.create_account('fl-p');
SELECT replayed FROM gpucredit.issue('fl-p', '', 'i', 0.5);
SELECT status, held FROM gpucredit.reserve('fl-p', '', 'poor', '1xFL-A', '10 h', pool => 'fl', hold_window => '30 min');
SELECT pg_temp.beats(1);
SELECT count(*) FROM pg_temp.place();
SELECT job AS poor FROM gpucredit.job WHERE org = 'fl-p' \gset
SELECT action FROM gpucredit.meter('fl-p', :poor, 1, '0');
SELECT pg_temp.later('30 min 59 s');
SELECT action, reason, billed FROM gpucredit.meter('fl-p', :poor, 1, '30 min 59 s');
SELECT affected FROM gpucredit.reap_holds() WHERE task = 'settle_overdue';
SELECT pg_temp.later('31 s');
SELECT action, reason, billed FROM gpucredit.meter('fl-p', :poor, 1, '31 min 1 s');
SELECT affected FROM gpucredit.reap_holds() WHERE task = 'settle_overdue';
SELECT outcome, elapsed, billed, job_state FROM gpucredit.attempt WHERE org = 'fl-p';
SELECT replayed FROM gpucredit.cancel('fl-p', :poor, 'c');

-- No progress: the attempt is told to save, then to stop; then it ends, and
-- the job is tried again
SELECT pg_temp.beats(1);
SELECT pg_temp.submit('stuck', '1xFL-A'), pg_temp.submit('quiet', '1xFL-A');
SELECT job FROM pg_temp.place();
SELECT pg_temp.later('1 min');
CREATE FUNCTION pg_temp.progress(k text, ran interval, count bigint) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(', ', m.action, m.reason, m.time_left)
	FROM gpucredit.meter('fl', pg_temp.job(k), 1, ran, count) m
$$;
SET gpucredit.progress_timeout = '10 min';
SELECT pg_temp.progress('stuck', '1 min', 5), pg_temp.progress('quiet', '1 min', NULL);
SELECT pg_temp.later('9 min');
SELECT pg_temp.progress('stuck', '10 min', 6), pg_temp.progress('quiet', '10 min', NULL);
SELECT pg_temp.later('9 min 59.999999 s');
SELECT pg_temp.progress('stuck', '19 min', 6), pg_temp.progress('quiet', '19 min', NULL);
SELECT pg_temp.later('1 us');
SELECT pg_temp.progress('stuck', '20 min', NULL), pg_temp.progress('quiet', '20 min', NULL);
SELECT pg_temp.later('1 min');
SELECT pg_temp.progress('stuck', '21 min', 5), pg_temp.progress('quiet', '21 min', NULL);
SELECT affected FROM gpucredit.reap_holds() WHERE task = 'settle_overdue';
SELECT pg_temp.later('1 min');
SET gpucredit.progress_timeout = 0;
SELECT pg_temp.progress('stuck', '22 min', NULL);
SELECT affected FROM gpucredit.reap_holds() WHERE task = 'settle_overdue';
RESET gpucredit.progress_timeout;
SET gpucredit.progress_timeout = '10 min';
SELECT affected FROM gpucredit.reap_holds() WHERE task = 'settle_overdue';
SELECT * FROM pg_temp.attempts('stuck');
SELECT detail ->> 'rule', detail ->> 'message' FROM gpucredit.audit
WHERE org = 'fl' AND job = pg_temp.job('stuck') AND operation = 'settle';
RESET gpucredit.progress_timeout;
-- an attempt that is silent meanwhile counts as silent: nobody could tell it
-- to stop
SET gpucredit.heartbeat_timeout = 0;
SET gpucredit.progress_timeout = '10 min';
SELECT pg_temp.submit('away', '1xFL-A');
SELECT pg_temp.beats(1);
SELECT job FROM pg_temp.place();
SELECT action FROM gpucredit.meter('fl', pg_temp.job('away'), 1, '0', 1);
SELECT pg_temp.later('1 h');
SELECT affected FROM gpucredit.reap_holds() WHERE task = 'settle_overdue';
SELECT action, reason FROM gpucredit.meter('fl', pg_temp.job('away'), 1, '1 h', 2);
SELECT outcome FROM gpucredit.settle('fl', pg_temp.job('away'), 1, 'completed');
RESET gpucredit.heartbeat_timeout;
RESET gpucredit.progress_timeout;
-- progress in time withdraws the order
SELECT gpucredit.cancel('fl', pg_temp.job('stuck'), 'cstuck');
SELECT outcome FROM gpucredit.settle('fl', pg_temp.job('quiet'), 1, 'completed');

--
-- Checkpoints
--
-- A save is due every half hour where a job may be preempted; it is an order
-- where the job asked for it
SELECT pg_temp.beats(1);
SELECT pg_temp.submit('plain', '1xFL-A'), pg_temp.submit('asks', '1xFL-A', '{"checkpoint_every": "10 min"}'),
	pg_temp.submit('seconds', '1xFL-A', '{"checkpoint_every": 600}'),
	pg_temp.submit('never', '1xFL-A', '{"checkpoint_every": 0}');
SELECT status FROM gpucredit.reserve('fl', '', 'safe', '1xFL-A', '10 h', tier => 'production_inference', pool => 'fl');
SELECT count(*) FROM pg_temp.place();
SELECT pg_temp.key(job) AS job, save_every, save_asked FROM gpucredit.attempt
WHERE org = 'fl' AND ended_at IS NULL ORDER BY 1;
SELECT action, save FROM pg_temp.beat();
CREATE FUNCTION pg_temp.saves(ran interval) RETURNS TABLE (job text, told text, save boolean,
	node_told text, node_save boolean) LANGUAGE sql AS $$
	WITH m AS MATERIALIZED (SELECT k, m.* FROM unnest('{asks,never,plain,safe,seconds}'::text[]) k,
		gpucredit.meter('fl', pg_temp.job(k), 1, ran) m)
	SELECT m.k, concat_ws(', ', m.action, m.reason), m.save, concat_ws(', ', b.action, b.reason), b.save
	FROM m LEFT JOIN pg_temp.beat() b ON b.job = m.k ORDER BY 1
$$;
SELECT * FROM pg_temp.saves('0');
SELECT pg_temp.later('9 min 59.999999 s');
SELECT * FROM pg_temp.saves('9 min');
SELECT pg_temp.later('1 us');
SELECT * FROM pg_temp.saves('10 min');
SELECT gpucredit.checkpoint('fl', pg_temp.job('asks'), 1, 1, 'u1', sha256('1'), 1);
SELECT pg_temp.later('1 s');
SELECT * FROM pg_temp.saves('10 min 1 s');
SELECT pg_temp.later('19 min 59 s');
SELECT * FROM pg_temp.saves('30 min');

-- The checkpoint proves bad when the next attempt loads it: that attempt gets
-- the one before
SELECT gpucredit.checkpoint('fl', pg_temp.job('asks'), 1, n, 'u' || n, sha256(n::text::bytea), n)
FROM generate_series(2, 3) n;
SELECT outcome FROM gpucredit.settle('fl', pg_temp.job('asks'), 1, 'preempted');
SELECT count(*) FROM pg_temp.place();
CREATE FUNCTION pg_temp.handed() RETURNS TABLE (attempt int, action text, step text) LANGUAGE sql AS $$
	SELECT h.attempt, h.action, h.spec -> 'checkpoint' ->> 'step' FROM (VALUES ('fl-1'), ('fl-2'), ('fl-3')) n (node),
		gpucredit.heartbeat(n.node) h WHERE h.job = pg_temp.job('asks')
$$;
SELECT * FROM pg_temp.handed();
SELECT good, from_attempt, from_step, uri, sha256 = sha256('3') AS same, size_bytes
FROM gpucredit.checkpoint_loaded('fl', pg_temp.job('asks'), 2, 1, 3, sha256('3'));
SELECT good, from_attempt, from_step, uri, sha256 = sha256('2') AS of_2, size_bytes
FROM gpucredit.checkpoint_loaded('fl', pg_temp.job('asks'), 2, 1, 3, sha256('rotten'));
SELECT good, from_step FROM gpucredit.checkpoint_loaded('fl', pg_temp.job('asks'), 2, 1, 3, sha256('rotten'));	-- again
SELECT good, from_step FROM gpucredit.checkpoint_loaded('fl', pg_temp.job('asks'), 2, 1, 3, sha256('3'));	-- too late
SELECT * FROM pg_temp.handed();
SELECT good, from_step FROM gpucredit.checkpoint_loaded('fl', pg_temp.job('asks'), 2, 1, 2, NULL);	-- not to be had
SELECT good, from_step FROM gpucredit.checkpoint_loaded('fl', pg_temp.job('asks'), 2, 1, 1, sha256('1'));
SELECT action FROM gpucredit.meter('fl', pg_temp.job('asks'), 2, '0');
SELECT outcome FROM gpucredit.settle('fl', pg_temp.job('asks'), 2, 'preempted');
SELECT count(*) FROM pg_temp.place();
SELECT * FROM pg_temp.handed();
SELECT good, from_step FROM gpucredit.checkpoint_loaded('fl', pg_temp.job('asks'), 3, 1, 1, sha256('rotten'));
SELECT * FROM pg_temp.handed();
SELECT operation, decision, attempt, detail FROM gpucredit.audit
WHERE org = 'fl' AND job = pg_temp.job('asks') AND operation = 'checkpoint_loaded' ORDER BY audit;
SET ROLE gpucredit_app;
SELECT * FROM gpucredit.checkpoint_loaded('fl', 1, 1, 1, 1, NULL);
SELECT gpucredit.reclaim('fl-1', '1 min');
SET ROLE gpucredit_operator;
SELECT count(*) FROM gpucredit.nodes WHERE pool = 'fl';
RESET ROLE;

-- Before the wall limit: an attempt that saves is asked once more, until it
-- has saved; one that asked for it, or has saved before, gets an order with
-- the deadline
SELECT pg_temp.submit('lim-asks', '1xFL-A', '{"checkpoint_every": "20 min"}', wall => '10 min'), pg_temp.submit('lim-plain', '1xFL-A', wall => '10 min'),
	pg_temp.submit('lim-never', '1xFL-A', '{"checkpoint_every": 0}', wall => '10 min'),
	pg_temp.submit('lim-saved', '1xFL-A', '{"checkpoint_every": 0}', wall => '10 min'), pg_temp.submit('lim-short', '1xFL-A', wall => '90 s');
SELECT count(*) FROM pg_temp.beat();
SELECT count(*) FROM pg_temp.place();
CREATE FUNCTION pg_temp.limits(ran interval, VARIADIC keys text[]) RETURNS TABLE (job text, told text, save boolean, left_ interval) LANGUAGE sql AS $$
	SELECT k, concat_ws(', ', m.action, m.reason), m.save, m.time_left FROM unnest(keys) k, gpucredit.meter('fl', pg_temp.job(k), 1, ran) m ORDER BY 1
$$;
SELECT * FROM pg_temp.limits('0', 'lim-asks', 'lim-plain', 'lim-never', 'lim-saved', 'lim-short');
SELECT pg_temp.later('1 min');
SELECT * FROM pg_temp.limits('1 min', 'lim-short');
SELECT outcome FROM gpucredit.settle('fl', pg_temp.job('lim-short'), 1, 'completed');
SELECT gpucredit.checkpoint('fl', pg_temp.job('lim-saved'), 1, 1, 'u1', sha256('1'), 1);
SELECT pg_temp.later('7 min');
SELECT * FROM pg_temp.limits('8 min', 'lim-asks', 'lim-plain', 'lim-never', 'lim-saved');
-- run time since the last heartbeat counts
SELECT pg_temp.later('29.999999 s');
SELECT job, action, reason, save FROM pg_temp.beat() WHERE job LIKE 'lim%' ORDER BY 1;
SELECT pg_temp.later('1 us');
SELECT job, action, reason, save FROM pg_temp.beat() WHERE job LIKE 'lim%' ORDER BY 1;
SELECT * FROM pg_temp.limits('510 s', 'lim-asks', 'lim-plain', 'lim-never', 'lim-saved');
SELECT deadline - gpucredit.now() AS deadline_in FROM unnest('{fl-1,fl-2,fl-3}'::text[]) n, gpucredit.heartbeat(n) h WHERE h.job = pg_temp.job('lim-asks');
-- after a save the order is gone; one that has not saved still gets it
SELECT gpucredit.checkpoint('fl', pg_temp.job(k), 1, 2, 'u2', sha256('2'), 1) FROM unnest('{lim-asks,lim-saved}'::text[]) k;
SELECT pg_temp.later('80 s');
SELECT * FROM pg_temp.limits('590 s', 'lim-asks', 'lim-plain', 'lim-never', 'lim-saved');
SET gpucredit.save_ahead = 0;
SELECT pg_temp.later('1 s');
SELECT * FROM pg_temp.limits('591 s', 'lim-plain');
RESET gpucredit.save_ahead;
SELECT pg_temp.later('9 s');
SELECT * FROM pg_temp.limits('10 min', 'lim-asks', 'lim-plain', 'lim-never', 'lim-saved');
SELECT count(gpucredit.settle('fl', pg_temp.job(k), 1, 'timeout')) FROM unnest('{lim-asks,lim-plain,lim-never,lim-saved}'::text[]) k;

SELECT count(gpucredit.settle('fl', job, attempt, 'completed')) FROM gpucredit.attempt
WHERE org = 'fl' AND ended_at IS NULL;
SELECT * FROM gpucredit.verify();
-- verify sees a checkpoint that is not the last, and a promise past its
-- deadline
BEGIN;
UPDATE gpucredit.attempt SET saved_at = '2027-01-01' WHERE org = 'fl' AND job = pg_temp.job('asks') AND attempt = 1;
INSERT INTO gpucredit.directive SELECT 'fl', job, 1, 'reclaim', 'checkpoint', 'reclaim', '2027-05-01 00:00+00',
	'2027-04-01', '2027-05-01 00:00', '2027-05-01 00:01' FROM (VALUES (pg_temp.job('asks'))) j (job);
SELECT invariant, regexp_replace(subject, 'job \d+', 'job N') AS subject, detail FROM gpucredit.verify('fl');
ROLLBACK;

-- Where nothing can be written, upkeep is refused; no row is blamed as bad
-- data.
BEGIN READ ONLY;
SELECT * FROM gpucredit.reap_holds();
ROLLBACK;
BEGIN READ ONLY;
SELECT * FROM gpucredit.check_nodes();
ROLLBACK;
