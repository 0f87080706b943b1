-- What agents tell, and who believes them: keys of nodes, the parts of a gang,
-- what a heartbeat tells about its node.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
SET gpucredit.clock = '2027-08-01 00:00+00';
SET gpucredit.backfill_depth = 0;
\set VERBOSITY terse
\pset null '-'

DO $$
BEGIN
	PERFORM gpucredit.create_pool('ag');
	PERFORM gpucredit.set_price('AG-A', 1);
	PERFORM gpucredit.register_node('ag', 'ag-' || n, 'AG-A', 4, 40960)
	FROM generate_series(1, 3) n;
	PERFORM gpucredit.create_account('ag');
	PERFORM gpucredit.issue('ag', '', 'i', 100000);
END $$;

CREATE FUNCTION pg_temp.job(job_key text) RETURNS bigint LANGUAGE sql SECURITY DEFINER AS $$
	SELECT r.result[1]::bigint FROM gpucredit.request r
	WHERE r.org = 'ag' AND r.key = job_key
$$;
CREATE FUNCTION pg_temp.later(by interval) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('gpucredit.clock', (gpucredit.now() + by)::text, false)
$$;
CREATE FUNCTION pg_temp.submit(job_key text, request text, job_spec jsonb DEFAULT '{}',
	wall interval DEFAULT '10 h') RETURNS text
LANGUAGE sql AS $$
	SELECT status FROM gpucredit.reserve('ag', '', job_key, request, wall, pool => 'ag',
		spec => job_spec)
$$;
CREATE FUNCTION pg_temp.place() RETURNS TABLE (job text, attempt int, node text,
	gpus gpucredit.gpuset) LANGUAGE sql AS $$
	SELECT r.key, p.attempt, p.node, p.gpus FROM gpucredit.place('ag') p
		JOIN gpucredit.request r ON r.org = 'ag' AND r.operation = 'reserve'
			AND r.result[1] = p.job::text
$$;
-- As an agent says it, in a transaction that proves it by a key, or by none.
CREATE FUNCTION pg_temp.say(key text, call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	said text;
BEGIN
	SET LOCAL ROLE gpucredit_agent;
	PERFORM set_config('gpucredit.node_key', coalesce(key, ''), true);
	EXECUTE 'SELECT string_agg(t::text, '' '') FROM gpucredit.' || call || ' t' INTO said;
	RESET ROLE;
	RETURN coalesce(said, 'nothing');
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;

--
-- Keys
--
SELECT pg_temp.submit('one', '4xAG-A'), pg_temp.submit('gang', '8xAG-A');
SELECT * FROM pg_temp.place();
SELECT pg_temp.job('one') AS one, pg_temp.job('gang') AS gang \gset
-- without keys anybody with the role speaks for any node
SELECT pg_temp.say(NULL, format('meter(''ag'', %s, 1, ''0'')', :one));
-- a key is the digest of something, of a node that is there
SELECT gpucredit.set_node_key('ag-9', sha256('k'));
SELECT gpucredit.set_node_key('ag-1', 'k');
SELECT gpucredit.set_node_key(NULL, sha256('k'));
SELECT node FROM gpucredit.attempt_gpu WHERE org = 'ag' AND job = :one \gset
SELECT min(node) AS first, max(node) AS last FROM gpucredit.attempt_gpu WHERE org = 'ag' AND job = :gang \gset
SELECT gpucredit.set_node_key(:'node', sha256('one key'));
-- with one, only who knows it: whatever is told of the node, and of what runs there
SELECT split_part(call, '(', 1) AS call, pg_temp.say(NULL, call) AS nothing, pg_temp.say('two key', call) AS other
FROM unnest(ARRAY[format('heartbeat(%L)', :'node'),
	format('meter(''ag'', %s, 1, ''1 min'')', :one),
	format('meter_batch(''{ag}'', ''{%s}'', ''{1}'', ''{1 min}'')', :one),
	format('meter_batch(''{ag,ag}'', ''{%s,%s}'', ''{1,1}'', ''{0,1 min}'')', :gang, :one),
	format('checkpoint(''ag'', %s, 1, 1, ''u'', sha256(''c''), 1)', :one),
	format('resumed(''ag'', %s, 1, 1, 1, sha256(''c''))', :one),
	format('settle(''ag'', %s, 1, ''completed'', ''1 min'')', :one)]) WITH ORDINALITY c (call, n)
ORDER BY n;
SELECT elapsed, ended_at FROM gpucredit.attempt WHERE org = 'ag' AND job = :one;
-- what proves it is not to be read by who shares the connection
SELECT set_config('gpucredit.node_key', 'one key', false);
SHOW gpucredit.node_key;
RESET gpucredit.node_key;
-- who knows it is believed
SELECT pg_temp.say('one key', format('heartbeat(%L)', :'node')) ~ 'continue' AS goes_on;
SELECT pg_temp.say('one key', format('meter(''ag'', %s, 1, ''1 min'')', :one)) ~ 'continue' AS goes_on;
SELECT pg_temp.say('one key', format('meter_batch(''{ag}'', ''{%s}'', ''{1}'', ''{1 min}'')', :one)) ~ 'continue' AS goes_on;
-- it is of this node alone; the others have none
SELECT pg_temp.say('one key', format('meter(''ag'', %s, 1, ''0'')', :gang)) ~ 'continue' AS goes_on;
SELECT pg_temp.say(NULL, format('heartbeat(%L)', :'first')) ~ 'continue' AS goes_on;
-- of a gang any of its nodes' keys will do, but it is for a node to be heard
SELECT gpucredit.set_node_key(:'first', sha256('first')), gpucredit.set_node_key(:'last', sha256('last'));
SELECT pg_temp.say('first', format('meter(''ag'', %s, 1, ''1 s'')', :gang)) ~ 'continue' AS first,
	pg_temp.say('last', format('meter(''ag'', %s, 1, ''2 s'')', :gang)) ~ 'continue' AS last,
	pg_temp.say('first', format('heartbeat(%L)', :'last')) AS other;
-- what is not there is not hidden
SELECT regexp_replace(pg_temp.say(NULL, format('meter(''ag'', %s, 7, ''0'')', :one)), 'job \d+', 'job'), pg_temp.say(NULL, 'heartbeat(''ag-9'')'),
	pg_temp.say(NULL, 'heartbeat(NULL)'), pg_temp.say(NULL, 'meter(NULL, 1, 1, ''0'')');
-- who sets keys needs none
SET ROLE gpucredit_operator;
SELECT count(*) FROM gpucredit.heartbeat(:'node');
RESET ROLE;
SELECT count(*) FROM gpucredit.heartbeat(:'node');
SET ROLE gpucredit_app;
SELECT outcome FROM gpucredit.settle('ag', :gang, 1, 'preempted');
SELECT gpucredit.set_node_key(:'node', NULL);
RESET ROLE;
SET ROLE gpucredit_agent;
SELECT gpucredit.set_node_key(:'node', NULL);
RESET ROLE;
-- another key, as of now; what ended is told by who knows it, too
SELECT gpucredit.set_node_key(:'node', sha256('next key'));
SELECT pg_temp.say('one key', format('settle(''ag'', %s, 1, ''completed'')', :one)),
	pg_temp.say('next key', format('settle(''ag'', %s, 1, ''completed'')', :one)) ~ 'completed' AS next;
SELECT pg_temp.say(NULL, format('settle(''ag'', %s, 1, ''completed'')', :one));
-- taken back, none is asked for; it outlives its node, and goes without it
SELECT gpucredit.cancel('ag', :gang, 'c');
SELECT pg_temp.later('2 min');
SELECT gpucredit.remove_node(:'node');
SELECT gpucredit.register_node('ag', :'node', 'AG-A', 4, 40960);
SELECT pg_temp.say(NULL, format('heartbeat(%L)', :'node'));
SELECT gpucredit.remove_node(:'node');
SELECT count(gpucredit.set_node_key(n.node, NULL)) FROM gpucredit.node_key n;
SELECT gpucredit.register_node('ag', :'node', 'AG-A', 4, 40960);
SELECT pg_temp.say(NULL, format('heartbeat(%L)', :'node'));
SELECT decision, detail FROM gpucredit.audit WHERE operation = 'set_node_key'
ORDER BY audit DESC LIMIT 1;

SELECT * FROM gpucredit.verify();
