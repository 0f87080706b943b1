-- signal_job: a signal reaches each node that shall deliver it once, and
-- nobody who may not cancel the job sends one.
\set ECHO none
\getenv folder PG_ABS_SRCDIR
\set check :folder '/sql/include/check.sql'
\i :check
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET gpucredit.clock = '2027-05-01 00:00+00';

DO $$
BEGIN
	PERFORM gpucredit.create_pool('sg');
	PERFORM gpucredit.create_pool('sg-f', '{"placed_by": "foreign"}');
	PERFORM gpucredit.set_price('SG-A', 1);
	PERFORM gpucredit.register_node('sg', 'sg-' || i, 'SG-A', 2, 40960) FROM generate_series(1, 2) i;
	PERFORM gpucredit.register_node('sg-f', 'sg-f1', 'SG-A', 8, 40960);
	PERFORM gpucredit.create_account('sg');
	PERFORM gpucredit.create_account('sg', 'ann'), gpucredit.create_account('sg', 'ben');
	PERFORM gpucredit.create_account('sg-other');
	PERFORM gpucredit.issue('sg', '', 'i', 1000);
END $$;

CREATE FUNCTION pg_temp.later(by interval) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('gpucredit.clock', (gpucredit.now() + by)::text, false)
$$;
-- What an agent that reports these signals as delivered receives: the signal, its target and the job
CREATE FUNCTION pg_temp.beat(node text, delivered text DEFAULT '[]') RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(concat_ws(' ', h.spec ->> 'signal', h.spec ->> 'target', h.org, h.attempt), ', ' ORDER BY h.job, h.spec ->> 'signal')
	FROM gpucredit.heartbeat(beat.node, running => ARRAY(SELECT concat_ws('/', a.org, a.job, a.attempt)
		FROM gpucredit.attempt_gpu a WHERE a.node = beat.node AND a.ended_at IS NULL),
		about => jsonb_build_object('signals', beat.delivered::jsonb)) h WHERE h.action = 'signal'
$$;
CREATE FUNCTION pg_temp.ids(node text) RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(jsonb_agg(s.id), '[]')::text FROM gpucredit.job_signal s WHERE s.node = ids.node
$$;
-- A job that runs
CREATE FUNCTION pg_temp.running(name text, request text, launch text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	id bigint;
BEGIN
	SELECT r.job INTO id FROM gpucredit.reserve('sg', 'ann', name, request, '10 h', pool => 'sg', spec => jsonb_build_object('launch', launch)) r;
	PERFORM pg_temp.beat('sg-1'), pg_temp.beat('sg-2');
	PERFORM gpucredit.place('sg');
	PERFORM gpucredit.meter('sg', id, 1, '0');
	RETURN id;
END $$;
-- The error of a call
CREATE FUNCTION pg_temp.error_of(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
BEGIN
	EXECUTE call;
	RETURN 'none';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN SQLSTATE || ' ' || detail;
END $$;
CREATE FUNCTION pg_temp.refusal(job bigint, key text, signal text DEFAULT 'USR1', target text DEFAULT 'steps', org text DEFAULT 'sg') RETURNS text LANGUAGE sql AS $$
	SELECT pg_temp.error_of(format('SELECT gpucredit.signal_job(%L, %s, %L, %L, %L)', org, job, key, signal, target))
$$;

--
-- A script on its first node passes signals on; a signal for all goes to every node
--
SELECT pg_temp.running('once', '4xSG-A', 'once') AS job \gset
SELECT pg_temp.check_value('the steps of a script are reached from one node', attempt || ' ' || nodes || ' ' || replayed, '1 1 false')
FROM gpucredit.signal_job('sg', :job, 's1', 'USR1');
SELECT pg_temp.check_value('the same call again sends nothing', attempt || ' ' || nodes || ' ' || replayed, '1 1 true')
FROM gpucredit.signal_job('sg', :job, 's1', 'USR1');
SELECT pg_temp.check_value('the first node gets it', pg_temp.beat('sg-1'), 'USR1 steps sg 1');
SELECT pg_temp.check_value('the second gets none', pg_temp.beat('sg-2'), NULL);
SELECT pg_temp.check_value('it is repeated until it is delivered', pg_temp.beat('sg-1'), 'USR1 steps sg 1');
SELECT pg_temp.ids('sg-1') AS ids \gset
SELECT pg_temp.check_value('another node''s report delivers nothing', pg_temp.beat('sg-2', :'ids'), NULL);
SELECT pg_temp.check_value('the same signal is sent again', nodes::text, '1') FROM gpucredit.signal_job('sg', :job, 's2', 'USR1');
SELECT pg_temp.check_value('a report of the first does not take back the second', pg_temp.beat('sg-1', :'ids'), 'USR1 steps sg 1');
SELECT pg_temp.check_value('what is delivered is repeated no more', pg_temp.beat('sg-1', pg_temp.ids('sg-1')), NULL);
SELECT pg_temp.check_value('nothing is left', count(*)::text, '0') FROM gpucredit.job_signal;
SELECT pg_temp.check_value('a replay after delivery sends nothing', replayed || ' ' || (SELECT count(*) FROM gpucredit.job_signal), 'true 0')
FROM gpucredit.signal_job('sg', :job, 's2', 'USR1');
SELECT pg_temp.check_value('the script alone', nodes::text, '1') FROM gpucredit.signal_job('sg', :job, 's3', 'TERM', 'script');
SELECT pg_temp.check_value('all of it, on both nodes', nodes::text, '2') FROM gpucredit.signal_job('sg', :job, 's4', 'CONT', 'all', 'go on');
SELECT pg_temp.check_value('the first node gets both', pg_temp.beat('sg-1'), 'CONT all sg 1, TERM script sg 1');
SELECT pg_temp.check_value('the second gets one', pg_temp.beat('sg-2'), 'CONT all sg 1');

-- A node that is away for a minute gets nothing late.
SELECT FROM pg_temp.later('60 s');
SELECT pg_temp.check_value('after a minute a signal is void', pg_temp.beat('sg-1'), NULL);
SELECT pg_temp.beat('sg-2');
SELECT pg_temp.check_value('sent again it is valid', nodes::text, '1') FROM gpucredit.signal_job('sg', :job, 's5', 'TERM', 'script');
SELECT pg_temp.check_value('the void ones are removed', string_agg(signal || ' ' || node, ', '), 'TERM sg-1') FROM gpucredit.job_signal;
SELECT FROM pg_temp.later('19 s');
SELECT pg_temp.check_value('it is still valid', pg_temp.beat('sg-1'), 'TERM script sg 1');
SELECT pg_temp.beat('sg-2');

-- Refusals
SELECT pg_temp.check_value('a key is for one signal', left(pg_temp.refusal(:job, 's5', 'HUP', 'script'), 5), 'UC201');
SELECT pg_temp.check_value('KILL is none', left(pg_temp.refusal(:job, 'k', 'KILL'), 5), '22023');
SELECT pg_temp.check_value('nor is a number', left(pg_temp.refusal(:job, 'k', '10'), 5), '22023');
SELECT pg_temp.check_value('nor a name with SIG', left(pg_temp.refusal(:job, 'k', 'SIGUSR1'), 5), '22023');
SELECT pg_temp.check_value('a target is one of three words', left(pg_temp.refusal(:job, 'k', 'USR1', 'keeper'), 5), '22023');
SELECT pg_temp.check_value('another organisation''s job is unknown', left(pg_temp.refusal(:job, 'k', org => 'sg-other'), 5), 'UC301');
SELECT pg_temp.check_value('a refusal writes nothing', count(*)::text, '0') FROM gpucredit.request WHERE org = 'sg' AND key = 'k';
SELECT r.job AS waiting FROM gpucredit.reserve('sg', 'ann', 'waiting', '4xSG-A', '1 h', pool => 'sg') r \gset
SELECT pg_temp.check_value('a job that waits gets none', pg_temp.refusal(:waiting, 'k'), 'UC303 It has not started.');
SELECT FROM gpucredit.heartbeat('sg-2', about => '{"logs": true}');
SELECT pg_temp.check_value('an agent that delivers none is named', pg_temp.refusal(:job, 'k', 'USR1', 'all'), 'UC303 The agent of its node "sg-2" delivers no signals.');
SELECT pg_temp.check_value('its other node still gets one', nodes::text, '1') FROM gpucredit.signal_job('sg', :job, 's6', 'INT');
SELECT pg_temp.beat('sg-2');
SELECT FROM pg_temp.later('30 s');
SELECT pg_temp.check_value('a silent node is named', pg_temp.refusal(:job, 'k'), 'UC303 Its node "sg-1" is silent.');

-- Whoever may cancel the job may send it a signal, and nobody else.
SELECT pg_temp.beat('sg-1'), pg_temp.beat('sg-2');
CREATE ROLE sg_ann IN ROLE gpucredit_tenant;
CREATE ROLE sg_ben IN ROLE gpucredit_tenant;
CREATE ROLE sg_nobody;
CREATE ROLE sg_agent IN ROLE gpucredit_agent;
DO $$ BEGIN PERFORM gpucredit.bind_tenant('sg_ann', 'sg', 'ann'), gpucredit.bind_tenant('sg_ben', 'sg', 'ben'); END $$;
SET ROLE sg_ben;
SELECT pg_temp.check_value('another tenant''s job is unknown', left(pg_temp.refusal(:job, 'b'), 5), 'UC301');
SET ROLE sg_nobody;
SELECT pg_temp.check_value('PUBLIC sends none', left(pg_temp.refusal(:job, 'n'), 5), '42501');
SET ROLE sg_agent;
SELECT pg_temp.check_value('nor does an agent', left(pg_temp.refusal(:job, 'a'), 5), '42501');
SET ROLE sg_ann;
SELECT pg_temp.check_value('its owner does', nodes::text, '1') FROM gpucredit.signal_job('sg', :job, 's7', 'USR2');
RESET ROLE;
SELECT pg_temp.check_value('the audit log has each signal once', string_agg(concat_ws(' ', detail ->> 'signal', detail ->> 'target', detail ->> 'nodes', reason), ', ' ORDER BY audit),
	'USR1 steps 1, USR1 steps 1, TERM script 1, CONT all 2 go on, TERM script 1, INT steps 1, USR2 steps 1')
FROM gpucredit.audit WHERE org = 'sg' AND operation = 'signal_job' AND decision = 'sent';

-- An attempt that is over gets nothing that was sent to it.
SELECT FROM gpucredit.settle('sg', :job, 1, 'completed', '1 h', 0);
SELECT pg_temp.check_value('a job that is over gets none', pg_temp.refusal(:job, 'k'), 'UC303 Its last attempt has ended, or has not begun to run yet.');
SELECT pg_temp.check_value('nor what was on its way', pg_temp.beat('sg-1'), NULL);

-- Where each node has its program, each node delivers.
SELECT FROM gpucredit.cancel('sg', :waiting, 'c');
SELECT pg_temp.beat('sg-1'), pg_temp.beat('sg-2');
SELECT pg_temp.running('per node', '4xSG-A', 'per_node') AS job \gset
SELECT pg_temp.check_value('programs on each node are reached there', nodes::text, '2') FROM gpucredit.signal_job('sg', :job, 'p1', 'USR1', 'script');
SELECT FROM gpucredit.settle('sg', :job, 1, 'completed', '1 h', 0);

-- Another scheduler's run
SELECT r.job FROM gpucredit.reserve('sg', '', 'f', '1xSG-A', '1 h', pool => 'sg-f') r \gset
SELECT FROM gpucredit.placed('sg', :job, 'pf', '{sg-f1}', '{"{0}"}', 'SG-A');
SELECT FROM gpucredit.meter('sg', :job, 1, '0');
SELECT pg_temp.check_value('a run of another scheduler gets none', pg_temp.refusal(:job, 'k'), 'UC303 Another scheduler runs it.');
SELECT FROM gpucredit.settle('sg', :job, 1, 'completed', '1 h', 0);
SELECT pg_temp.check_none('verify() finds nothing', 'SELECT * FROM gpucredit.verify()');
DROP ROLE sg_ann, sg_ben, sg_nobody, sg_agent;
