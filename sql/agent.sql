-- What agents report and how they prove who they are: node keys, the parts of
-- a gang, and what a heartbeat says of its node.
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

CREATE FUNCTION pg_temp.job(job_key text) RETURNS bigint LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
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
	SELECT gpucredit.heartbeat(n.node) FROM gpucredit.node n WHERE n.pool = 'ag';
	SELECT r.key, p.attempt, p.node, p.gpus FROM gpucredit.place('ag') p
		JOIN gpucredit.request r ON r.org = 'ag' AND r.operation = 'reserve'
			AND r.result[1] = p.job::text
$$;
-- Calls as an agent does, in a transaction that proves itself by a key or by
-- none.
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
-- without keys every member of the role speaks for every node
SELECT pg_temp.say(NULL, format('meter(''ag'', %s, 1, ''0'')', :one));
-- a key is a digest, and its node must exist
SELECT gpucredit.set_node_key('ag-9', sha256('k'));
SELECT gpucredit.set_node_key('ag-1', 'k');
SELECT gpucredit.set_node_key(NULL, sha256('k'));
SELECT node FROM gpucredit.attempt_gpu WHERE org = 'ag' AND job = :one \gset
SELECT min(node) AS first, max(node) AS last FROM gpucredit.attempt_gpu WHERE org = 'ag' AND job = :gang \gset
SELECT gpucredit.set_node_key(:'node', sha256('one key'));
-- once a node has a key, only the holder of the key reports on the node and
-- its attempts
SELECT split_part(call, '(', 1) AS call, pg_temp.say(NULL, call) AS nothing, pg_temp.say('two key', call) AS other
FROM unnest(ARRAY[format('heartbeat(%L)', :'node'),
	format('meter(''ag'', %s, 1, ''1 min'')', :one),
	format('meter_batch(''{ag}'', ''{%s}'', ''{1}'', ''{1 min}'')', :one),
	format('meter_batch(''{ag,ag}'', ''{%s,%s}'', ''{1,1}'', ''{0,1 min}'')', :gang, :one),
	format('checkpoint(''ag'', %s, 1, 1, ''u'', sha256(''c''), 1)', :one),
	format('checkpoint_loaded(''ag'', %s, 1, 1, 1, sha256(''c''))', :one),
	format('settle(''ag'', %s, 1, ''completed'', ''1 min'')', :one),
	format('reclaim(%L, ''1 min'')', :'node'),
	format('reclaim(ARRAY[%L, %L], ''1 min'')', :'node', :'first')]) WITH ORDINALITY c (call, n)
ORDER BY n;
SELECT elapsed, ended_at FROM gpucredit.attempt WHERE org = 'ag' AND job = :one;
-- another user of the connection cannot read what proves the key
SELECT set_config('gpucredit.node_key', 'one key', false);
SHOW gpucredit.node_key;
RESET gpucredit.node_key;
-- the server believes the holder of the key
SELECT pg_temp.say('one key', format('heartbeat(%L)', :'node')) ~ 'continue' AS goes_on;
SELECT pg_temp.say('one key', format('meter(''ag'', %s, 1, ''1 min'')', :one)) ~ 'continue' AS goes_on;
SELECT pg_temp.say('one key', format('meter_batch(''{ag}'', ''{%s}'', ''{1}'', ''{1 min}'')', :one)) ~ 'continue' AS goes_on;
-- the key belongs to this node alone; the others have none
SELECT pg_temp.say('one key', format('meter(''ag'', %s, 1, ''0'')', :gang)) ~ 'continue' AS goes_on;
SELECT pg_temp.say(NULL, format('heartbeat(%L)', :'first')) ~ 'continue' AS goes_on;
-- the key of any node of a gang proves a call on the gang, but a heartbeat
-- needs its own node's
SELECT gpucredit.set_node_key(:'first', sha256('first')), gpucredit.set_node_key(:'last', sha256('last'));
SELECT pg_temp.say('first', format('meter(''ag'', %s, 1, ''1 s'')', :gang)) ~ 'continue' AS first,
	pg_temp.say('last', format('meter(''ag'', %s, 1, ''2 s'')', :gang)) ~ 'continue' AS last,
	pg_temp.say('first', format('heartbeat(%L)', :'last')) AS other;
-- what does not exist gives the usual answer, not a refusal
SELECT regexp_replace(pg_temp.say(NULL, format('meter(''ag'', %s, 7, ''0'')', :one)), 'job \d+', 'job'), pg_temp.say(NULL, 'heartbeat(''ag-9'')'),
	pg_temp.say(NULL, 'heartbeat(NULL)'), pg_temp.say(NULL, 'meter(NULL, 1, 1, ''0'')');
-- an operator, who may set keys, needs no key
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
-- the new key counts at once; reports on what has ended need it, too
SELECT gpucredit.set_node_key(:'node', sha256('next key'));
SELECT pg_temp.say('one key', format('settle(''ag'', %s, 1, ''completed'')', :one)),
	pg_temp.say('next key', format('settle(''ag'', %s, 1, ''completed'')', :one)) ~ 'completed' AS next;
SELECT pg_temp.say(NULL, format('settle(''ag'', %s, 1, ''completed'')', :one));
-- a key that is taken back is no longer asked for; a key outlives its node
-- until then
SELECT gpucredit.cancel('ag', :gang, 'c');
SELECT pg_temp.later('2 min');
SELECT gpucredit.remove_node(:'node');
SELECT gpucredit.register_node('ag', :'node', 'AG-A', 4, 40960);
SELECT pg_temp.say(NULL, format('heartbeat(%L)', :'node'));
SELECT gpucredit.remove_node(:'node');
SELECT count(gpucredit.set_node_key(n.node, NULL)) FROM gpucredit.node_key n;
SELECT gpucredit.register_node('ag', :'node', 'AG-A', 4, 40960);
SELECT pg_temp.say(NULL, format('heartbeat(%L)', :'node'));
-- an agent reclaims its node, and never postpones what is known already; an
-- operator may
CREATE FUNCTION pg_temp.left(of text) RETURNS text LANGUAGE sql AS $$
	SELECT state || ' ' || (deadline - current_setting('gpucredit.clock')::timestamptz) FROM gpucredit.nodes WHERE node = of
$$;
SELECT gpucredit.set_node_key(:'node', sha256('one key'));
SELECT pg_temp.say('one key', format('reclaim(%L, ''2 min'')', :'node')), pg_temp.left(:'node');
SELECT pg_temp.say('one key', format('reclaim(%L, ''10 min'')', :'node')), pg_temp.left(:'node');
SELECT * FROM gpucredit.verify();
SELECT pg_temp.say('one key', format('reclaim(ARRAY[%L], ''1 min'')', :'node')), pg_temp.left(:'node');
SELECT gpucredit.reclaim(:'node', '5 min'), pg_temp.left(:'node');
SELECT gpucredit.resume(:'node'), pg_temp.left(:'node');
SELECT gpucredit.set_node_key(:'node', NULL);
SELECT decision, detail FROM gpucredit.audit WHERE operation = 'set_node_key'
ORDER BY audit DESC LIMIT 1;

--
-- Parts of a gang
--
CREATE FUNCTION pg_temp.part(job_key text, of_node text, outcome text, code int DEFAULT NULL,
	said text DEFAULT NULL, ran interval DEFAULT NULL, number int DEFAULT 1) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', CASE WHEN r.over THEN r.outcome ELSE 'lives' END, r.billed, r.job_state,
		r.retry_at - gpucredit.now(), 'waits for ' || nullif(r.waits_for, '{}')::text, CASE WHEN r.replayed THEN 'again' END)
	FROM gpucredit.part_ended('ag', pg_temp.job(job_key), number, of_node, outcome, code, said, ran) r
$$;
CREATE FUNCTION pg_temp.beat(VARIADIC keys text[] DEFAULT '{}') RETURNS TABLE (node text, job text, action text,
	reason text) LANGUAGE sql AS $$
	SELECT n.node, (SELECT r.key FROM gpucredit.request r WHERE r.org = 'ag'
		AND r.operation = 'reserve' AND r.result[1] = h.job::text), h.action, h.reason
	FROM (SELECT n.node FROM gpucredit.node n WHERE n.pool = 'ag' ORDER BY 1) n,
		gpucredit.heartbeat(n.node, running => ARRAY(SELECT concat_ws('/', g.org, g.job, g.attempt)
			FROM gpucredit.attempt_gpu g, unnest(keys) k WHERE g.node = n.node AND g.org = 'ag'
				AND g.job = pg_temp.job(split_part(k, '/', 1)) AND g.attempt = split_part(k, '/', 2)::int)) h
$$;
CREATE FUNCTION pg_temp.ended(VARIADIC keys text[]) RETURNS TABLE (job text, attempt int, outcome text,
	exit_code int, message text, elapsed interval, billed gpucredit.credits, refunded gpucredit.credits,
	job_state text, failures int, free boolean[]) LANGUAGE sql AS $$
	SELECT k, a.attempt, a.outcome, a.exit_code, a.message, a.elapsed, a.billed, a.refunded, a.job_state,
		j.failures, ARRAY(SELECT g.free FROM gpucredit.attempt_gpu g WHERE g.org = 'ag' AND g.job = j.job
			AND g.attempt = a.attempt ORDER BY g.node)
	FROM unnest(keys) WITH ORDINALITY k (k, n)
		JOIN gpucredit.job j ON j.org = 'ag' AND j.job = pg_temp.job(k)
		JOIN gpucredit.attempt a ON a.org = 'ag' AND a.job = j.job ORDER BY n, a.attempt
$$;
SELECT count(*) FROM pg_temp.beat();
-- One gang on three nodes completes in all its parts, in any order: the job
-- completes with the longest part's time
SELECT pg_temp.submit('all', '12xAG-A');
SELECT * FROM pg_temp.place();
SELECT action FROM gpucredit.meter('ag', pg_temp.job('all'), 1, '0');
SELECT * FROM pg_temp.beat('all/1');
SELECT pg_temp.later('10 min');
SELECT pg_temp.part('all', 'ag-2', 'completed', 0, ran => '9 min');
-- a heartbeat no longer names a part that has ended; if the node still runs
-- it, it must stop
SELECT * FROM pg_temp.beat('all/1') WHERE node <> 'ag-2';
SELECT count(*) FROM gpucredit.heartbeat('ag-2', running => '{}');
SELECT action, reason FROM gpucredit.heartbeat('ag-2', running => ARRAY[format('ag/%s/1', pg_temp.job('all'))]);
-- the first report of a part stands: a second one changes and counts nothing
SELECT pg_temp.part('all', 'ag-2', 'completed', 0), pg_temp.part('all', 'ag-2', 'failed', 1);
SELECT pg_temp.part('all', 'ag-1', 'completed', 0, ran => '9 min 30 s');
SELECT pg_temp.part('all', 'ag-3', 'completed', 0, ran => '9 min 10 s');
SELECT * FROM pg_temp.ended('all');
SELECT pg_temp.part('all', 'ag-3', 'completed', 0, ran => '9 min 10 s');
-- One part fails: the other nodes must stop at once. The attempt ends when
-- they have, and fails by the first failure, however the other parts end
SELECT pg_temp.submit('rank', '12xAG-A');
SELECT count(*) FROM pg_temp.place();
SELECT action FROM gpucredit.meter('ag', pg_temp.job('rank'), 1, '0');
SELECT count(*) FROM pg_temp.beat('rank/1');
SELECT pg_temp.later('1 min');
SELECT pg_temp.part('rank', 'ag-2', 'failed', 9, 'rank 4: Bus error');
SELECT action, reason FROM gpucredit.meter('ag', pg_temp.job('rank'), 1, '1 min');
SELECT * FROM pg_temp.beat('rank/1');
SELECT pg_temp.part('rank', 'ag-1', 'failed', 143, 'Terminated', '61 s');
SELECT pg_temp.part('rank', 'ag-3', 'failed', 137, 'Killed', '62 s');
SELECT * FROM pg_temp.ended('rank');
SELECT what, detail FROM gpucredit.history('ag', pg_temp.job('rank')) WHERE what ~ '^(part_ended|settle) ';
-- A killed part is a failure of its own, although the others had been told to
-- stop by then
SELECT pg_temp.later('1 min');
SELECT pg_temp.submit('killed', '12xAG-A');
SELECT gpucredit.cancel('ag', pg_temp.job('rank'), 'c-rank');
SELECT count(*) FROM pg_temp.place();
SELECT pg_temp.part('killed', 'ag-1', 'failed', 137), pg_temp.part('killed', 'ag-2', 'failed', 143),
	pg_temp.part('killed', 'ag-3', 'failed', 143);
SELECT * FROM pg_temp.ended('killed');
-- Nodes that must leave each take their grace; when one leaves unasked, the
-- others cannot go on
SELECT pg_temp.submit('moved', '12xAG-A');
SELECT count(*) FROM pg_temp.place();
SELECT action FROM gpucredit.meter('ag', pg_temp.job('moved'), 1, '0');
SELECT gpucredit.drain('ag-1', 'repair', gpucredit.now() + '5 min');
SELECT pg_temp.part('moved', 'ag-1', 'preempted');
SELECT * FROM pg_temp.beat('moved/1');
SELECT pg_temp.part('moved', 'ag-2', 'preempted'), pg_temp.part('moved', 'ag-3', 'completed');
SELECT * FROM pg_temp.ended('moved');
SELECT gpucredit.resume('ag-1'), gpucredit.cancel('ag', pg_temp.job('moved'), 'c-moved');
SELECT pg_temp.submit('left', '12xAG-A');
SELECT count(*) FROM pg_temp.place();
SELECT action FROM gpucredit.meter('ag', pg_temp.job('left'), 1, '0');
SELECT pg_temp.part('left', 'ag-1', 'preempted');
SELECT * FROM pg_temp.beat('left/1');
-- One node never reports: the server ends the attempt as its first part ended.
-- Devices of nodes that reported are free; the silent node's are fenced until
-- it reports them gone
SELECT pg_temp.part('left', 'ag-2', 'out_of_memory', 1, 'CUDA out of memory');
SELECT pg_temp.later('59 s');
SELECT affected FROM gpucredit.reap_holds() WHERE task = 'settle_overdue';
SELECT pg_temp.later('1 s');
SELECT affected FROM gpucredit.reap_holds() WHERE task = 'settle_overdue';
SELECT * FROM pg_temp.ended('left');
SELECT pg_temp.part('left', 'ag-3', 'failed', 137);
SELECT * FROM pg_temp.ended('left');
SELECT gpucredit.cancel('ag', pg_temp.job('left'), 'c-left');
-- An older agent settles the whole attempt: the server believes that all of it
-- is gone, but not that it completed
SELECT pg_temp.submit('old', '12xAG-A');
SELECT count(*) FROM pg_temp.place();
SELECT pg_temp.part('old', 'ag-3', 'out_of_memory', 1, 'CUDA out of memory');
SELECT outcome, job_state FROM gpucredit.settle('ag', pg_temp.job('old'), 1, 'completed', exit_code => 0);
SELECT * FROM pg_temp.ended('old');
-- A cancelled gang ends as cancelled, whichever node reports last
SELECT pg_temp.submit('gone', '12xAG-A');
SELECT count(*) FROM pg_temp.place();
SELECT gpucredit.cancel('ag', pg_temp.job('gone'), 'c-gone');
SELECT pg_temp.part('gone', 'ag-1', 'cancelled'), pg_temp.part('gone', 'ag-2', 'failed', 143),
	pg_temp.part('gone', 'ag-3', 'cancelled');
SELECT * FROM pg_temp.ended('gone');
-- A job on one node
SELECT pg_temp.submit('single', '1xAG-A');
SELECT node FROM pg_temp.place() \gset
SELECT pg_temp.part('single', :'node', 'completed', 0, ran => '0');
SELECT pg_temp.part('single', :'node', 'completed', 0, ran => '0');
SELECT * FROM pg_temp.ended('single');
-- A refused call writes nothing
SELECT pg_temp.submit('bad', '8xAG-A');
SELECT count(*) FROM pg_temp.place();
\set VERBOSITY sqlstate
SELECT pg_temp.part('bad', 'ag-9', 'completed');
SELECT pg_temp.part('bad', 'ag-3', 'completed');
SELECT pg_temp.part('bad', 'ag-1', 'lost');
SELECT pg_temp.part('bad', 'ag-1', 'completed', number => 2);
SELECT pg_temp.part('bad', 'ag-1', 'completed', ran => '-1 s');
SELECT pg_temp.part('none', 'ag-1', 'completed');
\set VERBOSITY terse
SELECT count(*) FROM gpucredit.attempt_part WHERE org = 'ag' AND job = pg_temp.job('bad');
SET ROLE gpucredit_app;
SELECT gpucredit.part_ended('ag', 1, 1, 'ag-1', 'completed');
SET ROLE gpucredit_operator;
SELECT gpucredit.part_ended('ag', 1, 1, 'ag-1', 'completed');
RESET ROLE;
-- only the node's own key counts, not the key of another node of the gang
SELECT gpucredit.set_node_key('ag-1', sha256('1')), gpucredit.set_node_key('ag-2', sha256('2'));
SELECT pg_temp.say(k, format('part_ended(''ag'', %s, 1, ''ag-1'', ''completed'')', pg_temp.job('bad')))
FROM unnest('{2,1}'::text[]) k;
-- an administrator's word does not prove that the attempt is gone
SELECT gpucredit.set_node_key('ag-1', NULL), gpucredit.set_node_key('ag-2', NULL);
SET ROLE gpucredit_admin;
SELECT over, outcome FROM gpucredit.part_ended('ag', pg_temp.job('bad'), 1, 'ag-2', 'completed', elapsed => '0');
RESET ROLE;
SELECT * FROM pg_temp.ended('bad');
SELECT count(*) FROM pg_temp.beat();

--
-- Not started
--
-- No failure is counted and nothing billed; the job is tried again later each
-- time, on any node
SELECT pg_temp.submit('ns', '4xAG-A');
SELECT node FROM pg_temp.place() \gset
SELECT outcome, billed, refunded, job_state, retry_at - gpucredit.now() AS retry_in
FROM gpucredit.settle('ag', pg_temp.job('ns'), 1, 'not_started', message => 'no cgroup');
SELECT pg_temp.later('30 s');
SELECT node FROM pg_temp.place() \gset
SELECT pg_temp.part('ns', :'node', 'not_started', said => 'no cgroup', number => 2);
SELECT * FROM pg_temp.ended('ns');
SELECT gpucredit.cancel('ag', pg_temp.job('ns'), 'c-ns');
-- what was billed for a gang that ran elsewhere meanwhile goes back
SELECT pg_temp.submit('nsg', '8xAG-A');
SELECT node FROM pg_temp.place() ORDER BY node DESC LIMIT 1 \gset
SELECT min(node) AS other FROM gpucredit.attempt_gpu WHERE org = 'ag' AND job = pg_temp.job('nsg') \gset
SELECT action FROM gpucredit.meter('ag', pg_temp.job('nsg'), 1, '0');
SELECT pg_temp.later('1 min');
SELECT pg_temp.part('nsg', :'node', 'not_started', said => 'no cgroup');
SELECT pg_temp.part('nsg', :'other', 'failed', 143, ran => '1 min');
SELECT * FROM pg_temp.ended('nsg');
SELECT gpucredit.cancel('ag', pg_temp.job('nsg'), 'c-nsg');
-- After three jobs within ten minutes the node drains itself; two jobs, or a
-- job that no node can start, do not drain it
SELECT gpucredit.resume(n) FROM unnest('{ag-1,ag-2,ag-3}'::text[]) n;
SELECT count(*) FROM gpucredit.node_strike;
SELECT gpucredit.drain('ag-2', 'x'), gpucredit.drain('ag-3', 'x');
SELECT pg_temp.submit('s' || n, '1xAG-A') FROM generate_series(1, 4) n;
SELECT count(*) FROM pg_temp.place();
SELECT pg_temp.part('s1', 'ag-1', 'not_started'), pg_temp.part('s2', 'ag-1', 'not_started');
SELECT pg_temp.later('1 min');
SELECT * FROM pg_temp.beat();
SELECT count(*) FROM pg_temp.place();		-- s1 and s2 again
SELECT pg_temp.part('s1', 'ag-1', 'not_started', number => 2), pg_temp.part('s2', 'ag-1', 'not_started', number => 2);
SELECT node, draining FROM gpucredit.node WHERE pool = 'ag' ORDER BY 1;
SELECT gpucredit.resume('ag-2');
SELECT pg_temp.later('2 min');
SELECT count(*) FROM pg_temp.beat();
SELECT gpucredit.drain('ag-1', 'x');
SELECT * FROM pg_temp.place();				-- s1 and s2, on another node
SELECT pg_temp.submit('s5', '1xAG-A');
SELECT count(*) FROM pg_temp.place();
SELECT pg_temp.part('s1', 'ag-2', 'not_started', number => 3), pg_temp.part('s2', 'ag-2', 'not_started', number => 3),
	pg_temp.part('s5', 'ag-2', 'not_started');
SELECT node, draining FROM gpucredit.node WHERE pool = 'ag' ORDER BY 1;
UPDATE gpucredit.node SET draining = NULL WHERE node = 'ag-1';		-- as if nobody had
SELECT pg_temp.part('s3', 'ag-1', 'not_started');
SELECT pg_temp.part('s3', 'ag-1', 'not_started');
SELECT node, draining FROM gpucredit.node WHERE pool = 'ag' ORDER BY 1;
SELECT reason, detail FROM gpucredit.audit WHERE operation = 'drain' ORDER BY audit DESC LIMIT 1;
-- old failures to start are forgotten, and a resumed node counts from zero
SELECT gpucredit.resume('ag-1');
SELECT pg_temp.part('s4', 'ag-1', 'not_started');
SELECT node, count(*) FROM gpucredit.node_strike GROUP BY 1 ORDER BY 1;
SELECT draining FROM gpucredit.node WHERE node = 'ag-1';
-- only an agent may report not_started
SELECT pg_temp.submit('s6', '1xAG-A');
SELECT gpucredit.cancel('ag', pg_temp.job('s' || n), 'c-s' || n) FROM unnest('{1,2,3,4,5}'::int[]) n;
SELECT count(*) FROM pg_temp.beat();
SELECT count(*) FROM pg_temp.place();
SELECT pg_temp.job('s6') AS s6 \gset
SET ROLE gpucredit_app;
SELECT outcome, job_state FROM gpucredit.settle('ag', :s6, 1, 'not_started');
RESET ROLE;
SELECT count(*) FROM gpucredit.node_strike WHERE job = pg_temp.job('s6');

SELECT gpucredit.settle('ag', pg_temp.job('s6'), 1, 'completed');
SELECT gpucredit.cancel('ag', job, 'end' || job) FROM gpucredit.job WHERE org = 'ag' AND ended_at IS NULL;
SELECT gpucredit.resume(n) FROM unnest('{ag-1,ag-2,ag-3}'::text[]) n;

--
-- About a node
--
CREATE FUNCTION pg_temp.about(of_node text, about jsonb, VARIADIC keys text[] DEFAULT '{}') RETURNS TABLE (
	job text, attempt int, action text, reason text, nodes text[], addresses text[]) LANGUAGE sql AS $$
	SELECT (SELECT r.key FROM gpucredit.request r WHERE r.org = 'ag' AND r.operation = 'reserve'
		AND r.result[1] = h.job::text), h.attempt, h.action, h.reason, h.nodes, h.addresses
	FROM gpucredit.heartbeat(of_node, running => ARRAY(SELECT concat_ws('/', 'ag',
		pg_temp.job(split_part(k, '/', 1)), split_part(k, '/', 2)) FROM unnest(keys) k), about => about) h
$$;
SELECT count(*) FROM pg_temp.about('ag-1', '{"boot_id": "b1", "incarnation": 4, "address": "10.0.0.1:7", "version": "1", "devices": ["GPU-1", "GPU-2"], "later": {"a": 1}}');
SELECT about, boot_before FROM gpucredit.node WHERE node = 'ag-1';
SELECT count(*) FROM pg_temp.about('ag-2', '{"boot_id": "c1"}');
-- impossible values and unknown words are refused
SELECT pg_temp.say(NULL, format('heartbeat(''ag-1'', about => %L)', a)) FROM unnest(ARRAY['[]', '{"boot_id": ""}',
	'{"boot_id": 1}', '{"address": "a\u0007"}', '{"incarnation": -1}', '{"incarnation": 1.5}', '{"incarnation": "1"}',
	'{"devices": "GPU-1"}', '{"devices": [1]}', '{"devices": {"0": "a"}}', format('{"version": "%s"}', repeat('v', 256)),
	format('{"devices": [%s"x"]}', repeat('"x",', 64)), format('{"other": "%s"}', repeat('v', 9000))]) a;
-- addresses stand in the order of nodes; an unknown address is NULL
SELECT pg_temp.submit('ab', '8xAG-A'), pg_temp.submit('solo', '1xAG-A');
SELECT gpucredit.drain('ag-3', 'x');
SELECT count(*) FROM pg_temp.place();
SELECT gpucredit.resume('ag-3');
SELECT node FROM pg_temp.place();
SELECT * FROM pg_temp.about('ag-1', NULL);
SELECT * FROM pg_temp.about('ag-3', '{"address": "10.0.0.3"}');
-- the older of two agents is refused, and its report is ignored
SELECT pg_temp.say(NULL, 'heartbeat(''ag-1'', ''{0}'', about => ''{"boot_id": "b1", "incarnation": 3}'')');
SELECT healthy, about ->> 'incarnation' AS incarnation FROM gpucredit.node WHERE node = 'ag-1';
SELECT count(*) FROM pg_temp.about('ag-1', '{"boot_id": "b1", "incarnation": 5, "address": "10.0.0.1"}', 'ab/1');
SELECT count(*) FROM pg_temp.about('ag-2', '{"boot_id": "c1", "address": "10.0.0.2"}', 'ab/1');
SELECT action FROM gpucredit.meter('ag', pg_temp.job('ab'), 1, '0');
-- an agent that restarts without its machine finds its attempts: nothing
-- changes
SELECT * FROM pg_temp.about('ag-1', '{"boot_id": "b1", "incarnation": 6, "address": "10.0.0.1"}', 'ab/1');
-- After another boot the attempts of this node end at once on all nodes, and
-- not as failures. This node's devices are free; other nodes' are free once
-- they report them gone
SELECT pg_temp.later('1 min');
SELECT action FROM gpucredit.meter('ag', pg_temp.job('ab'), 1, '1 min');
SELECT * FROM pg_temp.about('ag-1', '{"boot_id": "b2", "incarnation": 1, "address": "10.0.0.1"}');
SELECT * FROM pg_temp.ended('ab');
SELECT message, exit_code FROM gpucredit.attempt WHERE org = 'ag' AND job = pg_temp.job('ab');
SELECT * FROM pg_temp.about('ag-2', '{"boot_id": "c1", "address": "10.0.0.2"}', 'ab/1');
SELECT decision, detail FROM gpucredit.audit WHERE operation = 'heartbeat' AND decision = 'rebooted' ORDER BY audit DESC LIMIT 1;
-- the same report again ends nothing; an agent of the boot before is refused
SELECT count(*) FROM pg_temp.about('ag-1', '{"boot_id": "b2", "incarnation": 1}');
SELECT pg_temp.say(NULL, 'heartbeat(''ag-1'', about => ''{"boot_id": "b1", "incarnation": 9}'')');
SELECT count(*) FROM pg_temp.about('ag-2', '{"boot_id": "c1"}');
-- an attempt placed while the machine started is to start; older fences end,
-- also without a list of running attempts
SELECT * FROM pg_temp.place() ORDER BY node;
SELECT * FROM pg_temp.about('ag-2', '{"boot_id": "c2", "address": "10.0.0.2"}');
SELECT gpucredit.cancel('ag', pg_temp.job('ab'), 'c-ab');
SELECT pg_temp.job('ab') AS ab \gset
SET ROLE gpucredit_app;
SELECT outcome FROM gpucredit.settle('ag', :ab, 2, 'cancelled');
RESET ROLE;
SELECT count(*) FROM gpucredit.heartbeat('ag-2', about => '{"boot_id": "c3"}');
SELECT node, free FROM gpucredit.attempt_gpu WHERE org = 'ag' AND job = :ab AND attempt = 2 ORDER BY 1;
SELECT count(*) FROM gpucredit.heartbeat('ag-1', running => '{}');
-- an attempt that is locked is reported, and ends with a later heartbeat
SELECT pg_temp.submit('busy', '4xAG-A');
SELECT node FROM pg_temp.place() WHERE job = 'busy' \gset
SELECT count(*) FROM pg_temp.about(:'node', '{"boot_id": "d1"}', 'busy/1');
SELECT action FROM gpucredit.meter('ag', pg_temp.job('busy'), 1, '0');
UPDATE gpucredit.job SET topology = 'broken' WHERE org = 'ag' AND job = pg_temp.job('busy');
SET client_min_messages = error;
SELECT * FROM pg_temp.about(:'node', '{"boot_id": "d2"}');
RESET client_min_messages;
SELECT cause, reason FROM gpucredit.directive WHERE org = 'ag' AND job = pg_temp.job('busy');
UPDATE gpucredit.job SET topology = 'any' WHERE org = 'ag' AND job = pg_temp.job('busy');
SELECT * FROM pg_temp.about(:'node', '{"boot_id": "d2"}');
SELECT * FROM pg_temp.ended('busy');

--
-- Where to save
--
SELECT gpucredit.create_pool('ag', '{"checkpoints": "s3://bucket/ck//"}');
SELECT gpucredit.cancel('ag', job, 'end--' || job) FROM gpucredit.job WHERE org = 'ag' AND ended_at IS NULL AND state <> 'active';
SELECT pg_temp.submit('path', '1xAG-A'), pg_temp.submit('own', '1xAG-A', '{"checkpoint_to": "/home/a"}');
SELECT gpucredit.create_account('../a b'), gpucredit.create_account('../a b', 'c d');
SELECT replayed FROM gpucredit.issue('../a b', '', 'i', 100);
SELECT status FROM gpucredit.reserve('../a b', 'c d', 'k', '2xAG-A', '1 h', pool => 'ag');
SELECT count(*) FROM pg_temp.place();
SELECT DISTINCT h.org, h.account, h.node_gpus, regexp_replace(h.save_to, '\d+/1$', 'JOB/1') AS save_to FROM unnest('{ag-1,ag-2,ag-3}'::text[]) n, gpucredit.heartbeat(n) h
WHERE h.action = 'start' ORDER BY 4;
SELECT gpucredit.create_pool('ag', '{"checkpoints": ""}');
SELECT gpucredit.create_pool('ag', '{"checkpoints": 1}');
SELECT pg_temp.submit('bad-path', '1xAG-A', '{"checkpoint_to": "a\nb"}');
SELECT gpucredit.create_pool('ag', '{}');
SELECT count(gpucredit.settle(a.org, a.job, a.attempt, 'cancelled')) FROM gpucredit.attempt a
WHERE a.pool = 'ag' AND a.ended_at IS NULL;
SELECT gpucredit.cancel('ag', job, 'end' || job) FROM gpucredit.job WHERE org = 'ag' AND ended_at IS NULL;
SELECT * FROM gpucredit.verify();

--
-- A job's output
--
CREATE FUNCTION pg_temp.wished(of_node text) RETURNS TABLE (job text, attempt int, log jsonb)
LANGUAGE sql AS $$
	SELECT r.key, h.attempt, h.log FROM gpucredit.heartbeat(of_node) h
		JOIN gpucredit.request r ON r.org = h.org AND r.operation = 'reserve' AND r.result[1] = h.job::text
	WHERE h.action = 'log' ORDER BY h.log
$$;
CREATE FUNCTION pg_temp.wish(job_key text, from_byte bigint DEFAULT 0, stream text DEFAULT 'stdout',
	waits boolean DEFAULT false) RETURNS gpucredit.log_result LANGUAGE sql AS $$
	SELECT * FROM gpucredit.log_wish('ag', pg_temp.job(job_key), from_byte, stream, waits => waits)
$$;
CREATE FUNCTION pg_temp.put(key text, job_key text, attempt int, of_node text, from_byte bigint,
	body text, written bigint, rest text DEFAULT '') RETURNS text LANGUAGE sql AS $$
	SELECT pg_temp.say(key, format('log_put(''ag'', %s, %s, %L, ''stdout'', %s, %s, %L, %s%s)',
		pg_temp.job(job_key), attempt, of_node, from_byte, from_byte, body, written, rest))
$$;
SELECT pg_temp.submit('log', '2xAG-A'), pg_temp.submit('wide', '8xAG-A');
SELECT * FROM pg_temp.wish('log');
SELECT count(*) > 0 AS placed, min(node) FILTER (WHERE job = 'log') AS node,
	min(node) FILTER (WHERE job = 'wide') AS first FROM pg_temp.place() \gset
-- the node's agent has not said that it serves output
SELECT state, node = :'node' AS there FROM pg_temp.wish('log');
SELECT count(*) FROM gpucredit.log_wish;
SELECT count(*) FROM gpucredit.node n, gpucredit.heartbeat(n.node, about => '{"logs": true}') WHERE n.pool = 'ag';
-- each heartbeat repeats the wish until the agent answers
SELECT state, attempt, first_byte, body, over FROM pg_temp.wish('log');
SELECT state FROM pg_temp.wish('log');
SELECT state FROM pg_temp.wish('log', 7, 'stderr', true);
SELECT state FROM gpucredit.log_get('ag', pg_temp.job('log'), 8);
SELECT * FROM pg_temp.wished(:'node');
SELECT * FROM pg_temp.wished(:'node');
SELECT pg_temp.put(NULL, 'log', 1, :'node', 0, 'hello', 5);
SELECT state, first_byte, convert_from(body, 'UTF8') AS body, written, dropped, over, message
FROM gpucredit.log_get('ag', pg_temp.job('log'));
-- an answer to no wish, or to one that is over, is refused
SELECT pg_temp.put(NULL, 'log', 1, :'node', 0, 'again', 5), pg_temp.put(NULL, 'log', 1, :'node', 64, 'x', 65);
SELECT state, convert_from(body, 'UTF8') AS body FROM pg_temp.wish('log');
-- a follower waits; other readers get what there is
SELECT state FROM pg_temp.wish('log', 5, waits => true);
SELECT * FROM pg_temp.wished(:'node');
SELECT state FROM pg_temp.wish('log', 5);
SELECT state FROM pg_temp.wish('log', 5, waits => true);
SELECT * FROM pg_temp.wished(:'node');
SELECT pg_temp.put(NULL, 'log', 1, :'node', 5, '', 5);
SELECT state, body FROM gpucredit.log_get('ag', pg_temp.job('log'), 5);
SELECT state FROM pg_temp.wish('log', 5, waits => true);
SELECT pg_temp.put(NULL, 'log', 1, :'node', 5, '', 5, ', 3, true, ''gone''');
SELECT * FROM pg_temp.wish('log', 5, waits => true) \gset said_
SELECT :'said_state' AS state, :'said_dropped' AS dropped, :'said_over' AS over, :'said_message' AS message;
-- only this node's key counts
SELECT gpucredit.set_node_key(:'node', sha256('k'));
SELECT state FROM pg_temp.wish('log', 9);
SELECT regexp_replace(pg_temp.put(k, 'log', 1, :'node', 9, 'x', 10), 'ag-\d', 'its') AS put
FROM unnest(ARRAY[NULL, 'other', 'k']) k;
SELECT gpucredit.set_node_key(:'node', NULL);
-- the first node of a gang answers, or another one by name
SELECT node = :'first' AS first FROM pg_temp.wish('wide');
SELECT l.node = g.node AS named, l.state FROM gpucredit.attempt_gpu g, gpucredit.log_wish('ag', g.job, node => g.node) l
WHERE g.org = 'ag' AND g.job = pg_temp.job('wide') ORDER BY g.node;
\set VERBOSITY sqlstate
SELECT gpucredit.log_wish('ag', pg_temp.job('log'), node => 'no such');
\set VERBOSITY terse
-- the newest 16 wishes of a job are kept; each ends after a minute; silent
-- nodes get none
SELECT pg_temp.later('1 s');
SELECT count(gpucredit.log_wish('ag', pg_temp.job('log'), n)) FROM generate_series(100, 119) n;
SELECT count(*), min(from_byte) FROM gpucredit.log_wish WHERE job = pg_temp.job('log');
SELECT count(*) FROM pg_temp.wished(:'node');
SELECT pg_temp.later('59 s');
SELECT count(*) FROM pg_temp.wished(:'node');
SELECT pg_temp.later('1 s');
SELECT count(*) FROM pg_temp.wished(:'node');
SELECT state FROM gpucredit.log_get('ag', pg_temp.job('log'), 119);
SELECT pg_temp.later('20 s');
SELECT state FROM pg_temp.wish('log');
SELECT count(*) FROM gpucredit.log_wish;
SELECT pg_temp.later('60 s');
SELECT affected FROM gpucredit.maintain() WHERE task = 'forget_logs';
SELECT count(*) FROM gpucredit.log_wish;
-- the head and the tail of what is over are kept; the node is asked for the rest
CREATE FUNCTION pg_temp.keep(job_key text, node text, stream text, first_byte bigint, body text, written bigint, more text DEFAULT '')
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	behind bigint;
BEGIN
	EXECUTE format('SELECT gpucredit.log_keep(''ag'', %s, 1, %L, %L, %s, %L, %s%s)', pg_temp.job(job_key), node, stream,
		first_byte, convert_to(body, 'UTF8'), written, more) INTO behind;
	RETURN behind;
END $$;
CREATE FUNCTION pg_temp.kept(from_byte bigint, stream text DEFAULT 'stdout')
RETURNS TABLE (state text, first_byte bigint, bytes int, written bigint, over boolean, message text, uri text) LANGUAGE sql AS $$
	SELECT l.state, l.first_byte, octet_length(l.body), l.written, l.over, l.message, l.uri
	FROM gpucredit.log_get('ag', pg_temp.job('log'), from_byte, stream) l
$$;
BEGIN;
SET LOCAL gpucredit.log_head = '128kB';
SET LOCAL gpucredit.log_tail = '64kB';
SELECT pg_temp.keep('log', :'node', 'stdout', 0, repeat('a', 65536), 1000000) AS next;
SELECT pg_temp.keep('log', :'node', 'stdout', 0, repeat('x', 65536), 1000000) AS the_first_stands;
SELECT pg_temp.keep('log', :'node', 'stdout', 65536, repeat('b', 65536), 1000000) AS next;
SELECT pg_temp.keep('log', :'node', 'stdout', 131072, repeat('c', 65536), 1000000) AS no_part_of_either;
SELECT pg_temp.keep('log', :'node', 'stdout', 917504, repeat('d', 65536), 1000000) AS next;
SELECT pg_temp.keep('log', :'node', 'stdout', 983040, repeat('e', 16960), 1000000) AS next;
SELECT pg_temp.keep('log', :'node', 'stderr', 0, '', 0) AS next;
SELECT first_byte, bytes, convert_from(substring(body, 1, 1), 'UTF8') AS of FROM gpucredit.kept_log WHERE stream = 'stdout' ORDER BY 1;
SELECT * FROM pg_temp.kept(0) UNION ALL SELECT * FROM pg_temp.kept(65535) UNION ALL SELECT * FROM pg_temp.kept(131071)
UNION ALL SELECT * FROM pg_temp.kept(131072) UNION ALL SELECT * FROM pg_temp.kept(999999) UNION ALL SELECT * FROM pg_temp.kept(1000000)
UNION ALL SELECT * FROM pg_temp.kept(9223372036854775807) UNION ALL SELECT * FROM pg_temp.kept(0, 'stderr');
-- no request goes out for what is kept, and one for what is not
SELECT state FROM pg_temp.wish('log', 70000) UNION ALL SELECT state FROM pg_temp.wish('log', 131072);
SELECT from_byte FROM gpucredit.log_wish;
-- the node has forgotten it: what is kept behind the gap comes
SELECT pg_temp.put(NULL, 'log', 1, :'node', 131072, '', 0, ', 0, true, ''forgotten''') IS NOT NULL AS put;
SELECT * FROM pg_temp.kept(131072);
-- no more pieces of a stream than its head and tail have
SELECT count(pg_temp.keep('log', :'node', 'stdout', 983041 + n, 'y', 1000000)) FROM generate_series(1, 50) n;
SELECT count(*) FROM gpucredit.kept_log WHERE stream = 'stdout';
SELECT count(*) FROM gpucredit.verify('ag');
-- upkeep: by age, and the oldest above what an organisation may have
SELECT affected FROM gpucredit.upkeep('forget') WHERE task = 'forget_output';
SET LOCAL gpucredit.log_org_max = '1MB';
INSERT INTO gpucredit.kept_log SELECT k.org, k.job, k.attempt, k.node, k.stream, 2000000 + n * 65536, convert_to(repeat('z', 65536), 'UTF8'), 65536, 9000000, 0, NULL, NULL,
	k.kept_at + n * interval '1 s' FROM gpucredit.kept_log k, generate_series(1, 16) n WHERE k.stream = 'stderr';
SELECT affected > 0 AS removed FROM gpucredit.upkeep('forget') WHERE task = 'forget_output';
SELECT count(*), sum(bytes), min(first_byte) FROM gpucredit.kept_log;
SELECT pg_temp.later('31 d');
SELECT affected FROM gpucredit.upkeep('forget') WHERE task = 'forget_output';
SELECT count(*) FROM gpucredit.kept_log;
ROLLBACK;
-- a site that keeps nothing, a stream that is elsewhere, a node without a part
BEGIN;
SET LOCAL gpucredit.log_head = 0;
SET LOCAL gpucredit.log_tail = 0;
SELECT pg_temp.keep('log', :'node', 'stdout', 0, 'abc', 3) AS next;
SELECT count(*) FROM gpucredit.kept_log;
ROLLBACK;
BEGIN;
SELECT pg_temp.keep('log', :'node', 'stdout', 0, '', 3, $$, 0, 'it is in a file'$$) AS next;
SELECT pg_temp.keep('log', :'node', 'stderr', 0, '', 3, $$, 0, NULL, '/site/1'$$) AS next;
UPDATE gpucredit.node SET about = '{}' WHERE node = :'node';
SELECT * FROM pg_temp.kept(0) UNION ALL SELECT * FROM pg_temp.kept(0, 'stderr');
UPDATE gpucredit.kept_log SET node = 'no such' WHERE stream = 'stdout';
SELECT invariant FROM gpucredit.verify('ag') WHERE invariant LIKE 'kept%';
ROLLBACK;
-- a script and an environment that are too large for a spec are stored once for the account
SELECT gpucredit.create_account('ag', 'mine'), gpucredit.create_account('ag', 'other') \g /dev/null
SELECT encode(sha256(convert_to(repeat('#', 900000), 'UTF8')), 'hex') AS script,
	encode(sha256(convert_to('{"A": "of the file", "B": "b"}', 'UTF8')), 'hex') AS env \gset
BEGIN;
SELECT gpucredit.store_file('ag', 'mine', repeat('#', 900000)) = :'script' AS its_digest;
SELECT gpucredit.store_file('ag', 'mine', repeat('#', 900000)) = :'script' AS stored_once;
SELECT gpucredit.store_file('ag', 'mine', '{"A": "of the file", "B": "b"}') = :'env' AS its_digest;
SELECT account, bytes FROM gpucredit.stored_file ORDER BY bytes;
SELECT jsonb_build_object('script_sha256', :'script', 'env_sha256', :'env', 'env', jsonb_build_object('A', 'own'), 'signal', jsonb_build_object('name', 'USR1', 'before', 60)) AS spec \gset
SELECT count(r.job) FROM generate_series(1, 2) n, gpucredit.reserve('ag', 'mine', 'files-' || n, '1xAG-A', '1 h', pool => 'ag', spec => :'spec') r;
SELECT status, replayed FROM gpucredit.reserve('ag', 'mine', 'files-1', '1xAG-A', '1 h', pool => 'ag', spec => :'spec');
SELECT count(*) FROM pg_temp.place() WHERE job LIKE 'files-%';
CREATE TEMP TABLE started ON COMMIT DROP AS
SELECT n.node, h.* FROM gpucredit.node n, gpucredit.heartbeat(n.node, running => '{}') h
WHERE n.pool = 'ag' AND h.job IN (pg_temp.job('files-1'), pg_temp.job('files-2'));
SELECT action, length(spec ->> 'script'), spec -> 'env' AS env, spec -> 'wall_seconds' AS wall FROM started;
SELECT job AS ran, node AS on_node FROM started ORDER BY job LIMIT 1 \gset
SELECT gpucredit.meter('ag', :ran, 1, '0 s') \g /dev/null
SELECT action, spec ? 'script' AS sent_again FROM gpucredit.heartbeat(:'on_node') WHERE job = :ran;
SELECT * FROM gpucredit.verify('ag');
-- what an unfinished job needs stays; the rest goes after an hour
SELECT pg_temp.later('61 min');
SELECT affected FROM gpucredit.upkeep('forget') WHERE task = 'forget_files';
SELECT count(gpucredit.settle('ag', s.job, 1, 'completed', '1 s')) FROM started s;
SELECT affected FROM gpucredit.upkeep('forget') WHERE task = 'forget_files';
SELECT count(*) FROM gpucredit.stored_file;
ROLLBACK;
-- verify() finds a text that was changed, and one that a job lacks
BEGIN;
SELECT gpucredit.store_file('ag', 'mine', 'x') AS x \gset
SELECT status FROM gpucredit.reserve('ag', 'mine', 'files-1', '1xAG-A', '1 h', pool => 'ag', spec => jsonb_build_object('script_sha256', :'x'));
UPDATE gpucredit.stored_file SET body = 'y';
SELECT invariant FROM gpucredit.verify('ag');
DELETE FROM gpucredit.job_file;
SELECT invariant FROM gpucredit.verify('ag') ORDER BY 1;
ROLLBACK;
-- only the account's own texts are there, for another account and another tenant of the organisation
SELECT gpucredit.store_file('ag', 'mine', 'a secret') AS secret \gset
SELECT gpucredit.reserve('ag', 'other', 'files-3', '1xAG-A', pool => 'ag', spec => jsonb_build_object('script_sha256', :'secret'));
SELECT gpucredit.reserve('ag', 'other', 'files-3', '1xAG-A', pool => 'ag', spec => jsonb_build_object('script_sha256', repeat('0', 64)));
SELECT gpucredit.reserve('ag', 'mine', 'files-3', '1xAG-A', pool => 'ag', spec => jsonb_build_object('env_sha256', :'secret'));
SELECT gpucredit.store_file('ag', 'mine', '[1]') AS list \gset
SELECT gpucredit.reserve('ag', 'mine', 'files-3', '1xAG-A', pool => 'ag', spec => jsonb_build_object('env_sha256', :'list'));
SELECT gpucredit.reserve('ag', 'mine', 'files-3', '1xAG-A', pool => 'ag', spec => jsonb_build_object('script_sha256', :'secret', 'script', 'true'));
SELECT gpucredit.reserve('ag', 'mine', 'files-3', '1xAG-A', pool => 'ag', spec => jsonb_build_object('env_sha256', :'list', 'env', 5));
SELECT gpucredit.reserve('ag', 'mine', 'files-3', '1xAG-A', pool => 'ag', spec => '{"script_sha256": "../x"}');
SELECT gpucredit.store_file('ag', 'mine', repeat('x', 1048577));
CREATE ROLE ag_mine IN ROLE gpucredit_tenant;
SELECT gpucredit.bind_tenant('ag_mine', 'ag', 'other');
SET ROLE ag_mine;
SELECT gpucredit.store_file('ag', 'mine', 'x');
SELECT gpucredit.store_file('ag', 'none', 'x');
SELECT gpucredit.store_file('ag', 'other', 'a secret') = :'secret' AS no_matter_who_else_has_it;
TABLE gpucredit.stored_file;
RESET ROLE;
SELECT gpucredit.unbind_tenant('ag_mine', 'ag', 'other');
DROP ROLE ag_mine;
-- an organisation stores so much and no more
BEGIN;
SET LOCAL gpucredit.file_org_max = '1MB';
SELECT count(gpucredit.store_file('ag', 'mine', 'text ' || n)) FROM generate_series(1, 125) n;
SELECT gpucredit.store_file('ag', 'other', 'one more');
ROLLBACK;
DELETE FROM gpucredit.stored_file;
-- the output of a job that is over can be read; another tenant's never
SELECT count(w) FROM unnest('{ag-1,ag-2,ag-3}'::text[]) n, pg_temp.wished(n) w;
SELECT outcome, job_state FROM gpucredit.settle('ag', pg_temp.job('log'), 1, 'completed', '1 s');
SELECT state FROM pg_temp.wish('log');
SELECT job FROM pg_temp.wished(:'node');
CREATE ROLE ag_tenant IN ROLE gpucredit_tenant;
SELECT gpucredit.create_account('ag-other');
SELECT gpucredit.bind_tenant('ag_tenant', 'ag-other');
SELECT pg_temp.job('log') AS log \gset
SET ROLE ag_tenant;
SELECT gpucredit.log_wish('ag', :log);
SELECT gpucredit.log_get('ag', :log);
SELECT gpucredit.log_put('ag', :log, 1, 'ag-1', 'stdout', 0, 0, '', 0);
SELECT gpucredit.log_keep('ag', :log, 1, 'ag-1', 'stdout', 0, '', 0);
TABLE gpucredit.kept_log;
RESET ROLE;
SELECT gpucredit.unbind_tenant('ag_tenant', 'ag-other');
SELECT gpucredit.bind_tenant('ag_tenant', 'ag');
SET ROLE ag_tenant;
SELECT state FROM gpucredit.log_wish('ag', :log);
SELECT state FROM gpucredit.log_get('ag', :log);
RESET ROLE;
SELECT gpucredit.unbind_tenant('ag_tenant', 'ag');
DROP ROLE ag_tenant;
SELECT gpucredit.cancel('ag', pg_temp.job('wide'), 'c-wide');
-- An image that does not exist is no strike against the node
SELECT pg_temp.submit('img' || n, '0') FROM generate_series(1, 2) n;
SELECT count(*) FROM pg_temp.place();
SELECT outcome, billed, job_state, s.strikes FROM (SELECT count(*) AS strikes FROM gpucredit.node_strike) s,
	gpucredit.settle('ag', pg_temp.job('img1'), 1, 'not_started', message => 'image: manifest unknown');
SELECT p.outcome FROM gpucredit.attempt a, gpucredit.part_ended('ag', a.job, 1, (SELECT min(g.node) FROM gpucredit.attempt_gpu g WHERE g.org = 'ag' AND g.job = a.job), 'not_started', message => 'image: manifest unknown') p
WHERE a.org = 'ag' AND a.job = pg_temp.job('img2');
SELECT count(*) FROM gpucredit.node_strike s WHERE s.job IN (pg_temp.job('img1'), pg_temp.job('img2'));
SELECT count(gpucredit.settle(a.org, a.job, a.attempt, 'cancelled')) FROM gpucredit.attempt a
WHERE a.pool = 'ag' AND a.ended_at IS NULL;
SELECT * FROM gpucredit.verify();
