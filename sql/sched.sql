-- place and plan: who starts where. The decisions themselves have scenarios of
-- their own (test/scenarios); here the database carries them out.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
SET gpucredit.clock = '2027-01-01 00:00+00';
\set VERBOSITY sqlstate
\pset null '-'

DO $$
BEGIN
	PERFORM gpucredit.create_account('sc');
	PERFORM gpucredit.create_account('sc', 'a');
	PERFORM gpucredit.create_account('sc-2');
	PERFORM gpucredit.grant_tier('sc', '', 'production_inference');
	PERFORM gpucredit.grant_tier('sc', '', 'premium_training');
	PERFORM gpucredit.grant_tier('sc-2', '', 'production_inference');
	PERFORM gpucredit.grant_tier('sc-2', '', 'premium_training');
	PERFORM gpucredit.issue('sc', '', 'i', 1000000);
	PERFORM gpucredit.issue('sc-2', '', 'i', 1000000);
END $$;

-- A pool of its own for each scene: nodes are given as 'name type gpus' with
-- further settings by name. Prices: A 1, B 2, C 3.
CREATE FUNCTION pg_temp.scene(pool text, VARIADIC nodes text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
	node text;
	w text[];
BEGIN
	PERFORM gpucredit.create_pool(pool);
	PERFORM gpucredit.set_price(t, p, pool)
	FROM (VALUES ('SC-A', 1), ('SC-B', 2), ('SC-C', 3)) v (t, p);
	FOREACH node IN ARRAY nodes LOOP
		w := string_to_array(node, ' ');
		PERFORM gpucredit.register_node(pool, pool || '-' || w[1], 'SC-' || w[2],
			w[3]::int, coalesce(substring(node, 'memory (\d+)'), '40960')::bigint,
			coalesce(substring(node, 'cpu (\d+)'), '0')::bigint,
			coalesce(substring(node, 'ram (\d+)'), '0')::bigint,
			substring(node, 'nvlink (\w+)'), substring(node, 'leaf (\w+)'),
			node ~ 'spot');
	END LOOP;
END $$;
-- Submits a job under a key; further arguments are in reserve's own words.
CREATE FUNCTION pg_temp.ask(pool text, key text, request text,
	more text DEFAULT '', tenant text DEFAULT 'sc', wall text DEFAULT '1 h')
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('SELECT coalesce(reason, status) FROM gpucredit.reserve(%L,'
		' %L, %L, %L, %L, pool => %L%s)', tenant, '', pool || ' ' || key,
		request, wall, pool, CASE WHEN more <> '' THEN ', ' || more ELSE '' END)
	INTO result;
	RETURN result;
END $$;
CREATE FUNCTION pg_temp.key(id bigint, tenant text DEFAULT 'sc')
RETURNS text LANGUAGE sql AS $$
	SELECT substring(r.key, ' (.*)') FROM gpucredit.request r
	WHERE r.org = tenant AND r.result[1] = id::text
		AND r.operation = 'reserve'
$$;
-- A heartbeat of every node; then the starts of a cycle, in the order decided.
CREATE FUNCTION pg_temp.place(pool text, most int DEFAULT NULL,
	beat boolean DEFAULT true)
RETURNS TABLE (job text, attempt int, node text, gpus gpucredit.gpuset,
	share int, gpu_type text, per_gpu_hour numeric)
LANGUAGE plpgsql AS $$
BEGIN
	IF beat THEN
		PERFORM gpucredit.heartbeat(n.node, n.healthy)
		FROM gpucredit.node n WHERE n.pool = place.pool ORDER BY n.node;
	END IF;
	RETURN QUERY SELECT pg_temp.key(p.job, p.org), p.attempt,
		substring(p.node, '-([^-]*)$'), p.gpus, p.share, p.gpu_type,
		p.per_gpu_hour
	FROM gpucredit.place(place.pool, most) p;
END $$;
-- Ends every attempt of a pool, so that its devices are free.
CREATE FUNCTION pg_temp.clear(pool text) RETURNS bigint
LANGUAGE sql AS $$
	SELECT count(*) FROM gpucredit.attempt a, gpucredit.settle(a.org, a.job,
		a.attempt, 'completed') s
	WHERE a.pool = clear.pool AND a.ended_at IS NULL
$$;

-- Queue order: by tier, then by time of submission, then by number.
SELECT pg_temp.scene('order', 'n A 1');
SELECT pg_temp.ask('order', 'interactive', '1xSC-A', 'tier => ''interactive''');
SELECT pg_temp.ask('order', 'batch', '1xSC-A', 'tier => ''batch_inference''');
SELECT pg_temp.ask('order', 'standard', '1xSC-A');
SELECT pg_temp.ask('order', 'premium', '1xSC-A', 'tier => ''premium_training''');
SELECT pg_temp.ask('order', 'production', '1xSC-A', 'tier => ''production_inference''');
SET gpucredit.clock = '2027-01-01 00:00:01+00';
SELECT pg_temp.ask('order', 'standard, later', '1xSC-A');
SELECT pg_temp.ask('order', 'standard, later still', '1xSC-A');
SELECT pg_temp.ask('order', 'production, later', '1xSC-A', 'tier => ''production_inference''');
CREATE TEMP TABLE started (n serial, job text);
DO $$
BEGIN
	FOR i IN 1 .. 9 LOOP
		INSERT INTO started (job) SELECT job FROM pg_temp.place('order');
		PERFORM pg_temp.clear('order');
	END LOOP;
END $$;
SELECT * FROM started ORDER BY n;
-- inside an account and tier, jobs go by their priority
SELECT pg_temp.ask('order', 'plain', '1xSC-A');
SELECT pg_temp.ask('order', 'important', '1xSC-A', 'options => ''{"priority": 5}''');
SELECT pg_temp.ask('order', 'can wait', '1xSC-A', 'options => ''{"priority": -5}''');
SELECT job FROM pg_temp.place('order');
SELECT pg_temp.clear('order');
SELECT job FROM pg_temp.place('order');
SELECT pg_temp.clear('order');
-- a job that does not fit does not hold up one that does
SELECT pg_temp.scene('holes', 'n A 4');
SELECT pg_temp.ask('holes', 'three', '3xSC-A');
SELECT pg_temp.ask('holes', 'two', '2xSC-A');
SELECT pg_temp.ask('holes', 'one', '1xSC-A');
SELECT job, node, gpus FROM pg_temp.place('holes');

-- plan says what place does, and changes nothing; a second place at the same
-- instant does nothing.
SELECT pg_temp.scene('plan', 'n A 8', 'm B 8');
SELECT pg_temp.ask('plan', 'p1', '2xSC-A');
SELECT pg_temp.ask('plan', 'p2', '3xSC-B|SC-A');
SELECT pg_temp.ask('plan', 'p3', '0.5xSC-A');
CREATE TEMP TABLE planned AS SELECT * FROM gpucredit.plan('plan') WITH ORDINALITY;
CREATE TEMP TABLE planned_again AS SELECT * FROM gpucredit.plan('plan') WITH ORDINALITY;
CREATE TEMP TABLE placed AS SELECT * FROM gpucredit.place('plan') WITH ORDINALITY;
SELECT count(*) FROM planned;
SELECT count(*) AS differ FROM (TABLE planned EXCEPT TABLE placed) d;
SELECT count(*) AS differ FROM (TABLE planned EXCEPT TABLE planned_again) d;
SELECT count(*) FROM gpucredit.plan('plan');
SELECT count(*) FROM gpucredit.place('plan');
SELECT p.ordinality, p.action, pg_temp.key(p.job) AS job, p.attempt, p.node, p.gpus, p.share, p.gpu_type, p.per_gpu_hour, p.reason FROM placed p;
BEGIN READ ONLY;
SELECT count(*) FROM gpucredit.plan('plan');
SELECT count(*) FROM gpucredit.place('plan');
ROLLBACK;
SELECT count(*) FROM gpucredit.plan('no such');
SELECT count(*) FROM gpucredit.place('no such');

-- A cycle starts gpucredit.max_starts jobs at most.
SELECT pg_temp.scene('most', 'n A 8');
SELECT count(*) FROM generate_series(1, 6) n, pg_temp.ask('most', 'm' || n, '1xSC-A');
SELECT job, gpus FROM pg_temp.place('most', 2);
SELECT job, gpus FROM pg_temp.place('most', 0);
SET gpucredit.max_starts = 3;
SELECT job, gpus FROM pg_temp.place('most');
RESET gpucredit.max_starts;
SELECT job, gpus FROM pg_temp.place('most');

-- Gangs: all or nothing, over several nodes where allowed. Types are never
-- mixed, and no device is given twice.
SELECT pg_temp.scene('gang', 'a A 4', 'b A 4', 'c A 2', 'd B 8');
SELECT pg_temp.ask('gang', 'ten', '10xSC-A');
SELECT pg_temp.ask('gang', 'eleven', '11xSC-A') AS more_than_there_are;
SELECT pg_temp.ask('gang', 'node', '8xSC-A', 'topology => ''node''') AS more_than_on_a_node;
SELECT job, node, gpus FROM pg_temp.place('gang');
SELECT pg_temp.clear('gang');
SELECT pg_temp.ask('gang', 'one', '1xSC-A');
SELECT pg_temp.ask('gang', 'ten again', '10xSC-A');
SELECT job, node, gpus FROM pg_temp.place('gang');
SELECT pg_temp.clear('gang');
SELECT job, node, gpus FROM pg_temp.place('gang');
SELECT pg_temp.clear('gang');
-- the fewest nodes
SELECT pg_temp.ask('gang', 'six', '6xSC-A');
SELECT job, node, gpus FROM pg_temp.place('gang');
SELECT pg_temp.clear('gang');

-- Types in order of preference: the first that fits now. "*" takes the
-- cheapest.
SELECT pg_temp.scene('types', 'a A 1', 'b B 1', 'c C 1');
SELECT pg_temp.ask('types', 'c first', '1xSC-C|SC-A');
SELECT pg_temp.ask('types', 'c first too', '1xSC-C|SC-A');
SELECT pg_temp.ask('types', 'any', '1x*');
SELECT pg_temp.ask('types', 'none left', '1x*');
SELECT job, node, gpu_type, per_gpu_hour FROM pg_temp.place('types');
SELECT pg_temp.clear('types');
SELECT job, node, gpu_type, per_gpu_hour FROM pg_temp.place('types');
SELECT pg_temp.clear('types');

-- a type named beside "*" has its own place and floor, before it or behind
SELECT pg_temp.ask('types', 'behind', '1x*|SC-A@50GB');
SELECT pg_temp.ask('types', 'before', '1xSC-C@30GB|*|SC-A@30GB');
SELECT pg_temp.ask('types', 'floor of any', '1xSC-C|*@50GB') AS floor_of_any;
SELECT pg_temp.key(job) AS job, request, offer_types, offer_memory FROM gpucredit.job
WHERE org = 'sc' AND pool = 'types' AND state = 'queued' ORDER BY job.job;
SELECT job, node, gpu_type FROM pg_temp.place('types');
SELECT pg_temp.clear('types');

-- A memory floor is exact: GB and GiB differ.
SELECT pg_temp.scene('memory', 'small A 2 memory 40960', 'large A 2 memory 81920');
SELECT pg_temp.ask('memory', '60 GB', '1xSC-A@60GB');
SELECT pg_temp.ask('memory', '80 GiB', '1xSC-A@80GiB');
SELECT pg_temp.ask('memory', '85.9 GB', '1xSC-A@85GB');
SELECT pg_temp.ask('memory', '81 GiB', '1xSC-A@81GiB') AS never;
SELECT pg_temp.ask('memory', 'any', '1xSC-A');
SELECT job, node FROM pg_temp.place('memory');

-- Host cpu and memory are the whole job's, split over nodes by GPUs.
SELECT pg_temp.scene('host', 'a A 4 cpu 8000 ram 1000', 'b A 4 cpu 4000 ram 4000');
SELECT pg_temp.ask('host', 'cpu', '1xSC-A', 'cpu_milli => 5000');
SELECT pg_temp.ask('host', 'ram', '1xSC-A', 'memory_mib => 2000');
SELECT pg_temp.ask('host', 'both', '1xSC-A', 'cpu_milli => 5000, memory_mib => 2000') AS never;
SELECT pg_temp.ask('host', 'no cpu left', '1xSC-A', 'cpu_milli => 4000');
SELECT pg_temp.ask('host', 'cpu of b', '1xSC-A', 'cpu_milli => 3999');
SELECT pg_temp.ask('host', 'wait', '2xSC-A', 'cpu_milli => 3002');
SELECT job, node, gpus FROM pg_temp.place('host');
SELECT g.node, sum(g.cpu_milli) AS cpu, sum(g.memory_mib) AS ram
FROM gpucredit.attempt_gpu g WHERE g.pool = 'host' AND NOT g.free
GROUP BY 1 ORDER BY 1;
SELECT pg_temp.clear('host');
SELECT pg_temp.ask('host', 'split', '8xSC-A', 'cpu_milli => 8001') AS never;
SELECT pg_temp.ask('host', 'split evenly', '8xSC-A', 'cpu_milli => 8000');
SELECT job, node, gpus FROM pg_temp.place('host');
SELECT pg_temp.clear('host');
SELECT job, node, gpus FROM pg_temp.place('host');
SELECT g.node, g.gpus, g.cpu_milli FROM gpucredit.attempt_gpu g
WHERE g.pool = 'host' AND NOT g.free ORDER BY 1;
SELECT pg_temp.clear('host');
-- jobs without GPUs land where there is cpu
SELECT pg_temp.ask('host', 'cpu only', '0', 'cpu_milli => 8000');
SELECT pg_temp.ask('host', 'cpu only too', '0', 'cpu_milli => 4001');
SELECT job, node, gpus, gpu_type, per_gpu_hour FROM pg_temp.place('host');
SELECT pg_temp.clear('host');

-- Shares: several jobs on one device, never more than all of it. A device in
-- use is filled first; a job of whole devices gets whole ones.
SELECT pg_temp.scene('share', 'n A 2');
SELECT count(*) FROM unnest(ARRAY[400, 300, 300, 600, 500, 400]) WITH ORDINALITY s (share, n),
	pg_temp.ask('share', 's' || n || ' ' || share, share / 1000.0 || 'xSC-A');
SELECT job, gpus, share FROM pg_temp.place('share');
SELECT d.device, sum(g.share) AS given FROM gpucredit.attempt_gpu g,
	unnest(gpucredit.gpuset_to_array(g.gpus)) d (device)
WHERE g.pool = 'share' AND NOT g.free GROUP BY 1 ORDER BY 1;
SELECT pg_temp.ask('share', 'whole', '1xSC-A');
SELECT pg_temp.ask('share', 'the least', '0.001xSC-A');
SELECT job, gpus, share FROM pg_temp.place('share');
-- impossible rows written by hand: nothing is started, and verify says where
BEGIN;
UPDATE gpucredit.attempt_gpu SET share = 0 WHERE pool = 'share' AND NOT free;
SELECT invariant, count(*) FROM gpucredit.verify() GROUP BY 1;
SELECT * FROM pg_temp.place('share');
ROLLBACK;
BEGIN;
UPDATE gpucredit.attempt_gpu SET cpu_milli = -1 WHERE pool = 'share' AND NOT free;
SELECT invariant, count(*) FROM gpucredit.verify() GROUP BY 1;
SELECT * FROM pg_temp.place('share');
ROLLBACK;
SELECT pg_temp.clear('share');
SELECT job, gpus, share FROM pg_temp.place('share');
SELECT pg_temp.clear('share');

-- Topology: node, nvlink and leaf limit where a gang may be. A node without a
-- domain is a domain of its own, and so is one without a leaf.
SELECT pg_temp.scene('topo', 'a A 4 nvlink x leaf l', 'b A 4 nvlink x leaf l',
	'c A 4 nvlink y leaf l', 'd A 4 leaf m', 'e A 4');
SELECT r.topology, r.gpus, pg_temp.ask('topo', r.topology || ' ' || r.gpus,
	r.gpus || 'xSC-A', format('topology => %L', r.topology))
FROM (VALUES ('node', 4), ('node', 5), ('nvlink', 8), ('nvlink', 9), ('leaf', 12),
	('leaf', 13), ('any', 20), ('any', 21)) r (topology, gpus);
CREATE TEMP TABLE topo (n serial, job text, node text, gpus gpucredit.gpuset);
DO $$
BEGIN
	FOR i IN 1 .. 5 LOOP
		INSERT INTO topo (job, node, gpus) SELECT job, node, gpus FROM pg_temp.place('topo', 1);
		PERFORM pg_temp.clear('topo');
	END LOOP;
END $$;
SELECT job, node, gpus FROM topo ORDER BY n;
-- "any" still takes the fewest domains and leaves
SELECT pg_temp.ask('topo', 'any 8', '8xSC-A');
SELECT job, node, gpus FROM pg_temp.place('topo');
SELECT pg_temp.clear('topo');

-- Best fit: where it strands the fewest devices.
SELECT pg_temp.scene('fit', 'a A 8', 'b A 4', 'c A 2');
SELECT pg_temp.ask('fit', 'two', '2xSC-A');
SELECT pg_temp.ask('fit', 'four', '4xSC-A');
SELECT pg_temp.ask('fit', 'one', '1xSC-A');
SELECT pg_temp.ask('fit', 'seven', '7xSC-A', 'topology => ''node''');
SELECT job, node, gpus FROM pg_temp.place('fit');
SELECT pg_temp.clear('fit');

-- Spot nodes take preemptible jobs only, at their own price.
SELECT pg_temp.scene('spot', 's A 2 spot', 'n A 2');
SELECT gpucredit.set_price('SC-A', 0.25, 'spot', spot => true);
SELECT pg_temp.ask('spot', 'production', '2xSC-A', 'tier => ''production_inference''');
SELECT pg_temp.ask('spot', 'production too', '1xSC-A', 'tier => ''production_inference''');
SELECT pg_temp.ask('spot', 'standard', '2xSC-A');
SELECT job, node, gpus, per_gpu_hour FROM pg_temp.place('spot');
SELECT pg_temp.key(j.job) AS job, j.state, j.held FROM gpucredit.jobs j
WHERE j.org = 'sc' AND j.pool = 'spot' ORDER BY j.job;
SELECT pg_temp.clear('spot');
SELECT job, node, gpus, per_gpu_hour FROM pg_temp.place('spot');
SELECT pg_temp.clear('spot');

-- A job pays the prices of its submission, whatever they are when it starts.
SELECT pg_temp.scene('price', 'a A 2', 'b B 2');
SELECT pg_temp.ask('price', 'old price', '1xSC-A');
SELECT gpucredit.set_price('SC-A', 9, 'price'), gpucredit.set_price('SC-B', 8, 'price');
SELECT pg_temp.ask('price', 'new price', '1x*');
SELECT job, node, gpu_type, per_gpu_hour FROM pg_temp.place('price');
SELECT pg_temp.key(j.job) AS job, j.held FROM gpucredit.jobs j
WHERE j.org = 'sc' AND j.pool = 'price' ORDER BY j.job;
SELECT pg_temp.clear('price');

-- An elastic job takes what is free of its range, and holds for that.
SELECT pg_temp.scene('range', 'a A 4');
SELECT pg_temp.ask('range', 'one', '1xSC-A');
SELECT pg_temp.ask('range', 'two to eight', '2-8xSC-A');
SELECT pg_temp.ask('range', 'five to eight', '5-8xSC-A') AS never;
SELECT pg_temp.key(j.job) AS job, j.held FROM gpucredit.jobs j
WHERE j.org = 'sc' AND j.pool = 'range' ORDER BY j.job;
SELECT job, node, gpus FROM pg_temp.place('range');
SELECT pg_temp.key(j.job) AS job, j.held FROM gpucredit.jobs j
WHERE j.org = 'sc' AND j.pool = 'range' ORDER BY j.job;
SELECT pg_temp.clear('range');

-- Unfit nodes get nothing new: not heard of for 20 s, with unhealthy devices,
-- draining.
SET gpucredit.clock = '2027-01-02 00:00+00';
SELECT pg_temp.scene('fitness', 'a A 2', 'b A 2', 'c A 2');
SELECT count(*) FROM generate_series(1, 8) n, pg_temp.ask('fitness', 'f' || n, '1xSC-A');
SELECT gpucredit.drain('fitness-b', 'fan');
SET gpucredit.clock = '2027-01-02 00:00:01+00';
SELECT count(*) FROM gpucredit.heartbeat('fitness-c', '{1}');
-- silent for exactly 20 s, as the view says
SET gpucredit.clock = '2027-01-02 00:00:20+00';
SELECT node, state FROM gpucredit.nodes WHERE pool = 'fitness' ORDER BY node;
SELECT job, node, gpus FROM pg_temp.place('fitness', beat => false);
SELECT count(*) FROM gpucredit.heartbeat('fitness-a', '{0-1}');
SELECT job, node, gpus FROM pg_temp.place('fitness', beat => false);
SET gpucredit.node_suspect = 0;		-- silence is no reason any more
SELECT count(*) FROM gpucredit.heartbeat('fitness-c', '{0-1}');
SET gpucredit.clock = '2027-01-02 01:00+00';
SELECT job, node, gpus FROM pg_temp.place('fitness', beat => false);
RESET gpucredit.node_suspect;
SELECT gpucredit.resume('fitness-b');
SELECT job, node, gpus FROM pg_temp.place('fitness');
-- an attempt on a device that fails ends, and the job starts elsewhere
SELECT count(*) FROM gpucredit.heartbeat('fitness-a', '{}');
SELECT pg_temp.clear('fitness');
SELECT job, node, gpus FROM pg_temp.place('fitness');
SELECT pg_temp.clear('fitness');

-- The audit log has every start, with the devices.
SELECT a.org, pg_temp.key(a.job) AS job, a.attempt, a.decision, a.reason
FROM gpucredit.audit a JOIN gpucredit.job j ON j.org = a.org AND j.job = a.job
WHERE a.org = 'sc' AND j.pool = 'gang' AND a.operation = 'place' ORDER BY a.audit;

-- A job whose types are all gone waits, and runs when one is there again.
SELECT pg_temp.scene('gone', 'a A 1');
SELECT pg_temp.ask('gone', 'waits', '1xSC-A');
SELECT gpucredit.remove_node('gone-a');
SELECT job FROM pg_temp.place('gone');
SELECT pg_temp.scene('gone', 'b B 1');
SELECT job FROM pg_temp.place('gone');
SELECT pg_temp.scene('gone', 'c A 1');
SELECT job, node FROM pg_temp.place('gone');
SELECT pg_temp.clear('gone');

-- A large pool in one cycle: each device is given once, each gang is whole.
SELECT gpucredit.create_pool('large');
SELECT gpucredit.set_price('SC-A', 1, 'large');
SELECT count(gpucredit.register_node('large', format('large-%s', n), 'SC-A', 8, 40960, leaf => 'l' || n / 10)::text)
FROM generate_series(1, 50) n;
SELECT s.status, count(*) FROM generate_series(1, 300) n, gpucredit.reserve('sc-2', '', 'large ' || n,
	(ARRAY['1', '2', '0.3', '4', '0.5', '16'])[1 + n % 6] || 'xSC-A', '1 h', pool => 'large') s
GROUP BY 1;
SELECT count(*) > 100 AS many FROM gpucredit.place('large');
SELECT sum(gpucredit.gpu_count(g.gpus) * g.share) > 390000 AS nearly_full
FROM gpucredit.attempt_gpu g WHERE g.pool = 'large';
SELECT count(*) FROM gpucredit.place('large');
SELECT count(*) FROM gpucredit.attempt a, gpucredit.settle(a.org, a.job, a.attempt, 'completed')
WHERE a.pool = 'large' AND a.ended_at IS NULL AND a.gpus > 2;
SELECT count(*) > 0 AS more FROM gpucredit.place('large');

-- The queue is read by its index, in order, even where the planner prefers the
-- table; the session's settings stay as they were.
\c -
SET random_page_cost = 1000000;
BEGIN;
SELECT count(*) FROM gpucredit.place('large');
SELECT pg_stat_get_xact_numscans('gpucredit.job_queue'::regclass) > 0 AS by_index;
COMMIT;
SELECT current_setting('enable_seqscan') AS seqscan, current_setting('enable_bitmapscan') AS bitmapscan,
	current_setting('jit') AS jit;

SELECT * FROM gpucredit.verify();
