-- Whole nodes: a job that asks for them shares none of its nodes, pays for all
-- of them, and gets no node of which something would be left.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET intervalstyle = 'postgres';
SET gpucredit.clock = '2027-06-01 00:00+00';
\pset tuples_only
\pset format unaligned

DO $$
BEGIN
	PERFORM gpucredit.create_pool('wn');
	PERFORM gpucredit.set_price('WN-A', 1), gpucredit.set_resource_price('cpu', 0.125, 'wn');
	PERFORM gpucredit.register_node('wn', 'wn-small', 'WN-A', 2, 40960, 16000, 64000),
		gpucredit.register_node('wn', 'wn-1', 'WN-A', 4, 40960, 32000, 128000),
		gpucredit.register_node('wn', 'wn-2', 'WN-A', 4, 40960, 32000, 128000),
		gpucredit.register_node('wn', 'wn-more', 'WN-A', 4, 40960, 48000, 128000),
		gpucredit.register_node('wn', 'wn-free', 'WN-A', 8, 40960);
	PERFORM gpucredit.create_account('wn');
	PERFORM gpucredit.issue('wn', '', 'i', 10000);
END $$;

CREATE FUNCTION pg_temp.holds(what text, got text, expected text) RETURNS text LANGUAGE sql AS $$
	SELECT CASE WHEN got IS NOT DISTINCT FROM expected THEN 'ok - ' || what
		ELSE format('not ok - %s: got %s, expected %s', what, got, expected) END
$$;
-- The status of a submission, or its error
CREATE FUNCTION pg_temp.ask(name text, request text, per_node int, cores int DEFAULT 0, memory_mib int DEFAULT 0, whole text DEFAULT 'true', node text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r record;
	detail text;
BEGIN
	SELECT * INTO r FROM gpucredit.reserve('wn', '', name, request, '1 h', pool => 'wn', cpu_milli => 1000 * ask.cores, memory_mib => ask.memory_mib, max_retries => 0,
		options => jsonb_build_object('name', name) || CASE WHEN per_node IS NULL AND whole IS NULL AND node IS NULL THEN '{}'
			ELSE jsonb_build_object('placement', jsonb_strip_nulls(jsonb_build_object('gpus_per_node', per_node, 'whole_nodes', whole::jsonb,
				'nodes', CASE WHEN node IS NOT NULL THEN jsonb_build_array(node) END))) END);
	RETURN concat_ws(' ', r.status, r.reason, trim_scale(r.held));
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN SQLSTATE || ' ' || detail;
END $$;
-- Where jobs run after a cycle
CREATE FUNCTION pg_temp.cycle() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM gpucredit.heartbeat(node) FROM unnest('{wn-small,wn-1,wn-2,wn-more,wn-free}'::text[]) node;
	PERFORM gpucredit.place('wn');
	RETURN (SELECT string_agg(j.name || ' ' || j.nodes, ', ' ORDER BY j.job) FROM gpucredit.jobs j WHERE j.org = 'wn' AND j.state = 'starting');
END $$;
CREATE FUNCTION pg_temp.settle(job_name text) RETURNS text LANGUAGE sql AS $$
	SELECT set_config('gpucredit.clock', (gpucredit.now() + interval '1 h')::text, false);
	SELECT trim_scale(s.billed)::text FROM gpucredit.jobs j, gpucredit.settle('wn', j.job, 1, 'completed', '1 h', 0) s WHERE j.org = 'wn' AND j.name = job_name
$$;

SELECT pg_temp.holds('tenants see which sizes there are', string_agg(concat_ws(' ', n.gpu_type, n.gpus, n.gpu_memory_mib, n.cpu_milli, n.memory_mib), ', '),
	'WN-A 2 40960 16000 64000, WN-A 4 40960 32000 128000, WN-A 4 40960 48000 128000, WN-A 8 40960 0 0') FROM gpucredit.node_sizes('wn') n;
-- A job of two whole nodes waits while a job without GPUs has a cpu of one.
SELECT pg_temp.holds('a cpu', pg_temp.ask('cpu', '0', NULL, 1, whole => NULL, node => 'wn-2'), 'granted 0.125');
SELECT pg_temp.holds('it runs', pg_temp.cycle(), 'cpu wn-2{}');
SELECT pg_temp.holds('two whole nodes are paid for', pg_temp.ask('whole', '8xWN-A', 4, 64, 256000), 'granted 16');
SELECT pg_temp.holds('it waits while somebody else is on its nodes', (pg_temp.cycle() ~ 'whole')::text, 'false');
SELECT pg_temp.holds('the cpu is free', pg_temp.settle('cpu'), '0.125');
SELECT pg_temp.holds('then it has both, and no larger one', pg_temp.cycle(), 'whole wn-1{0-3} wn-2{0-3}');
-- Nobody else gets anything of its nodes.
SELECT pg_temp.holds('one GPU', pg_temp.ask('one', '4xWN-A', NULL, 1, whole => NULL), 'granted 4.125');
SELECT pg_temp.holds('a cpu', pg_temp.ask('cpu 4', '0', NULL, 33, whole => NULL), 'granted 4.125');
SELECT pg_temp.holds('they run elsewhere', (pg_temp.cycle() ~ '^whole wn-1\{0-3\} wn-2\{0-3\}, one wn-(free|more)\S+, cpu 4 wn-(free|more)\S+$')::text, 'true');
SELECT pg_temp.holds('the bill is that of both nodes', pg_temp.settle('whole'), '16');
SELECT pg_temp.holds('the others end', (pg_temp.settle('one') || pg_temp.settle('cpu 4') <> '')::text, 'true');
-- A node without limits has only GPUs that it could leave to others.
SELECT pg_temp.holds('a node without limits', pg_temp.ask('unlimited', '8xWN-A', 8), 'granted 8');
SELECT pg_temp.holds('is whole by its GPUs', pg_temp.cycle(), 'unlimited wn-free{0-7}');
-- Who asks for less than a node gets none: nobody gets a node for a part of its price.
SELECT pg_temp.holds('all GPUs without the cpus', pg_temp.ask('no cpus', '4xWN-A', 4, 0, 128000), 'denied impossible_request 0');
SELECT pg_temp.holds('all cpus but one', pg_temp.ask('31', '4xWN-A', 4, 31, 128000), 'denied impossible_request 0');
SELECT pg_temp.holds('without the memory', pg_temp.ask('no memory', '4xWN-A', 4, 32, 127999), 'denied impossible_request 0');
SELECT pg_temp.holds('some of the GPUs', pg_temp.ask('3', '3xWN-A', 3, 48, 128000), 'denied impossible_request 0');
SELECT pg_temp.holds('two of the nodes, and the cpus of one', pg_temp.ask('half', '8xWN-A', 4, 32, 256000), 'denied impossible_request 0');
SELECT pg_temp.holds('without a number of GPUs', left(pg_temp.ask('any', '4xWN-A', NULL, 32, 128000), 5), '22023');
SELECT pg_temp.holds('a number is no yes', left(pg_temp.ask('number', '4xWN-A', 4, 32, 128000, '1'), 5), '22023');
SELECT pg_temp.holds('false is like nothing', pg_temp.ask('false', '1xWN-A', 1, whole => 'false'), 'granted 1');
SELECT c.job_state FROM gpucredit.jobs j, gpucredit.cancel('wn', j.job, 'c') c WHERE j.org = 'wn' AND j.name = 'false';
-- A node that grows while a job waits is no longer whole by it.
SELECT pg_temp.holds('a whole small node', pg_temp.ask('small', '2xWN-A', 2, 16, 64000), 'granted 4');
SELECT FROM gpucredit.register_node('wn', 'wn-small', 'WN-A', 2, 40960, 17000, 64000);
SELECT pg_temp.holds('a node that has grown', (pg_temp.cycle() ~ 'small')::text, 'false');
SELECT FROM gpucredit.register_node('wn', 'wn-small', 'WN-A', 2, 40960, 16000, 64000);
SELECT pg_temp.holds('and shrinks again', (pg_temp.cycle() ~ 'small wn-small\{0-1\}')::text, 'true');
SELECT * FROM gpucredit.verify();
