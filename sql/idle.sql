-- Idle limits: a job whose GPUs are idle while nobody types is warned, and ends
-- by the ordinary stop. No outage is taken for idleness. waste_by() says what
-- was held and not used.
\set ECHO none
\getenv folder PG_ABS_SRCDIR
\set check :folder '/sql/include/check.sql'
\i :check
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET gpucredit.clock = '2027-06-01 00:00+00';
SET gpucredit.progress_timeout = 0;

DO $$
BEGIN
	PERFORM gpucredit.create_pool('il');
	PERFORM gpucredit.set_price('IL-A', 1);
	PERFORM gpucredit.register_node('il', 'il-' || i, 'IL-A', 8, 40960) FROM generate_series(1, 2) i;
	PERFORM gpucredit.create_account('il'), gpucredit.create_account('il', 'lab'), gpucredit.create_account('il', 'lab/ann'),
		gpucredit.create_account('il', 'lab/ben');
	PERFORM gpucredit.issue('il', '', 'i', 1000);
	PERFORM gpucredit.set_tier('il', 7, 'capacity', false);
	PERFORM gpucredit.set_idle_limit('il', '30 min', '10 min');
END $$;

CREATE FUNCTION pg_temp.at(minutes numeric) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('gpucredit.clock', (timestamptz '2027-06-01 00:00+00' + minutes * interval '1 min')::text, false)
$$;
-- Heartbeats of the nodes, with what terminals report
CREATE FUNCTION pg_temp.beat(node text, typed text DEFAULT NULL) RETURNS void LANGUAGE sql AS $$
	SELECT count(*) FROM gpucredit.heartbeat(beat.node, running => ARRAY(SELECT concat_ws('/', a.org, a.job, a.attempt)
		FROM gpucredit.attempt_gpu a WHERE a.node = beat.node AND a.ended_at IS NULL),
		about => CASE WHEN typed IS NOT NULL THEN jsonb_build_object('typed', jsonb_build_array(typed)) END) h
$$;
CREATE FUNCTION pg_temp.job(k text) RETURNS bigint LANGUAGE sql AS $$
	SELECT r.result[1]::bigint FROM gpucredit.request r WHERE r.org = 'il' AND r.key = k AND r.operation = 'reserve'
$$;
-- Starts a job at this minute
CREATE FUNCTION pg_temp.run(minute numeric, key text, account text, request text DEFAULT '2xIL-A', tier text DEFAULT 'il') RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_temp.at(minute);
	PERFORM pg_temp.beat('il-1'), pg_temp.beat('il-2');
	PERFORM gpucredit.reserve('il', account, key, request, '10 h', tier => tier, pool => 'il');
	PERFORM gpucredit.place('il');
	PERFORM gpucredit.meter('il', pg_temp.job(key), 1, '0');
END $$;
-- The answer to a heartbeat at this minute since the clock began, and its reason
CREATE FUNCTION pg_temp.meter(minute numeric, key text, utilization float8) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	said text;
BEGIN
	PERFORM pg_temp.at(minute);
	SELECT concat_ws(' ', m.action, m.reason, CASE WHEN m.reason = 'idle' THEN to_char(m.deadline, 'HH24:MI') END) INTO said
	FROM gpucredit.attempt a, gpucredit.meter('il', a.job, a.attempt, gpucredit.now() - a.started_at, NULL, meter.utilization) m
	WHERE a.org = 'il' AND a.job = pg_temp.job(key) AND a.ended_at IS NULL;
	RETURN said;
END $$;
-- The same every minute; returns the answers that differ from the one before
CREATE FUNCTION pg_temp.meters(since numeric, until numeric, key text, utilization float8) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	said text[] := '{}';
	this text;
BEGIN
	FOR m IN since .. until LOOP
		this := pg_temp.meter(m, key, utilization);
		IF this IS DISTINCT FROM split_part(said[cardinality(said)], ': ', 2) THEN
			said := said || format('%s: %s', m, this);
		END IF;
	END LOOP;
	RETURN array_to_string(said, ', ');
END $$;
CREATE FUNCTION pg_temp.alerts(k text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(concat_ws(' ', to_char(a.at, 'HH24:MI'), a.account, a.detail ->> 'reason',
		a.detail ->> 'idle_s', to_char((a.detail ->> 'ends_at')::timestamptz, 'HH24:MI')), ', ' ORDER BY a.alert)
	FROM gpucredit.alert a WHERE a.org = 'il' AND a.detail -> 'job' = to_jsonb(pg_temp.job(k))
$$;
CREATE FUNCTION pg_temp.typed(minute numeric, node text, tag text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_temp.at(minute);
	PERFORM pg_temp.beat(node, tag);
END $$;
CREATE FUNCTION pg_temp.tag(k text) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws('/', 'il', pg_temp.job(k), 1)
$$;

\echo A job that is idle is warned once, and told to stop at the limit
CALL pg_temp.act($$SELECT pg_temp.run(0, 'idle', 'lab/ann')$$);
SELECT pg_temp.check_value('meter answers', pg_temp.meters(1, 32, 'idle', 0.005),
	'1: continue, 21: continue idle 00:31, 31: stop idle 00:31, 32: stop idle 00:32');
SELECT pg_temp.check_value('the owner was alerted once', pg_temp.alerts('idle'), '00:21 lab/ann idle_warning 1200 00:31');
SELECT pg_temp.check_rows('heartbeat says the same', $$
	SELECT h.action, h.reason FROM gpucredit.heartbeat('il-1', running => ARRAY(SELECT concat_ws('/', a.org, a.job, a.attempt)
		FROM gpucredit.attempt_gpu a WHERE a.node = 'il-1' AND a.ended_at IS NULL)) h WHERE h.job = pg_temp.job('idle')
	UNION ALL SELECT h.action, h.reason FROM gpucredit.heartbeat('il-2', running => ARRAY(SELECT concat_ws('/', a.org, a.job, a.attempt)
		FROM gpucredit.attempt_gpu a WHERE a.node = 'il-2' AND a.ended_at IS NULL)) h WHERE h.job = pg_temp.job('idle')$$, $$
	action | reason
	stop | idle
$$);
SELECT pg_temp.check_rows('it ends as timeout, pays what it had, and is not retried', $$
	SELECT s.outcome, s.billed, s.job_state FROM gpucredit.settle('il', pg_temp.job('idle'), 1, 'timeout', '32 min') s$$, $$
	outcome | billed | job_state
	timeout | 1.066667 | timeout
$$);
SELECT pg_temp.check_rows('the reason is in the audit log, and the message says it', $$
	SELECT u.reason, a.message FROM gpucredit.audit u JOIN gpucredit.attempt a USING (org, job, attempt)
	WHERE u.org = 'il' AND u.job = pg_temp.job('idle') AND u.operation = 'settle'$$, $$
	reason | message
	idle | its GPUs were idle for 1860 s, and nobody typed in a terminal of it
$$);
SELECT pg_temp.check_value('the end is another alert', pg_temp.alerts('idle'),
	'00:21 lab/ann idle_warning 1200 00:31, 00:32 lab/ann idle_limit');

\echo A program that SIGTERM ended after the stop was idle, and did not fail
CALL pg_temp.act($$SELECT pg_temp.run(40, 'term', 'lab/ann')$$);
SELECT pg_temp.check_value('meter answers', pg_temp.meters(41, 71, 'term', 0), '41: continue, 61: continue idle 01:11, 71: stop idle 01:11');
SELECT pg_temp.check_rows('outcome', $$SELECT s.outcome, s.job_state FROM gpucredit.settle('il', pg_temp.job('term'), 1, 'failed', '31 min', 143) s$$, $$
	outcome | job_state
	timeout | timeout
$$);
CALL pg_temp.act($$SELECT pg_temp.run(72, 'kept', 'lab/ann')$$);
CALL pg_temp.act($$SELECT pg_temp.meters(73, 103, 'kept', 0)$$);
SELECT pg_temp.check_rows('one that completed meanwhile has completed', $$
	SELECT s.outcome FROM gpucredit.settle('il', pg_temp.job('kept'), 1, 'completed', '31 min') s$$, $$
	outcome
	completed
$$);

\echo Use and key presses start the time again
CALL pg_temp.act($$SELECT pg_temp.run(120, 'used', 'lab/ben')$$);
SELECT pg_temp.check_value('idle for 25 minutes', pg_temp.meters(121, 146, 'used', 0), '121: continue, 141: continue idle 02:31');
SELECT pg_temp.check_value('one report of use is enough', pg_temp.meter(147, 'used', 0.01), 'continue');
SELECT pg_temp.check_value('then the time begins anew', pg_temp.meters(148, 170, 'used', 0), '148: continue, 167: continue idle 02:57');
CALL pg_temp.act($$SELECT pg_temp.typed(171, n, pg_temp.tag('used')) FROM unnest('{il-1,il-2}'::text[]) n$$);
SELECT pg_temp.check_value('somebody types', pg_temp.meters(172, 192, 'used', 0), '172: continue, 191: continue idle 03:21');
SELECT pg_temp.check_value('each time the owner is alerted', pg_temp.alerts('used'),
	'02:21 lab/ben idle_warning 1200 02:31, 02:47 lab/ben idle_warning 1200 02:57, 03:11 lab/ben idle_warning 1200 03:21');
SELECT pg_temp.check_value('it ends nevertheless if that was all', pg_temp.meters(193, 201, 'used', 0), '193: continue idle 03:21, 201: stop idle 03:21');
CALL pg_temp.act($$SELECT gpucredit.settle('il', pg_temp.job('used'), 1, 'timeout', '81 min')$$);

\echo Only the node of an attempt says that somebody types there
CALL pg_temp.act($$SELECT pg_temp.run(210, 'far', 'lab/ann', '8xIL-A')$$);
CALL pg_temp.act($$SELECT pg_temp.meters(211, 230, 'far', 0)$$);
CALL pg_temp.act($$SELECT pg_temp.typed(230, CASE node WHEN 'il-1' THEN 'il-2' ELSE 'il-1' END, pg_temp.tag('far'))
	FROM gpucredit.attempt_gpu WHERE org = 'il' AND job = pg_temp.job('far')$$);
SELECT pg_temp.check_value('another node has no say', pg_temp.meters(231, 241, 'far', 0), '231: continue idle 04:01, 241: stop idle 04:01');
SELECT pg_temp.check_error('a report of what is no list', $$SELECT * FROM gpucredit.heartbeat('il-1', about => '{"typed": "x"}')$$, '22023');
CALL pg_temp.act($$SELECT gpucredit.settle('il', pg_temp.job('far'), 1, 'timeout', '31 min')$$);

\echo No report is no idleness
CALL pg_temp.act($$SELECT pg_temp.run(250, 'mute', 'lab/ben')$$);
SELECT pg_temp.check_value('a job whose use is not reported', pg_temp.meters(251, 300, 'mute', NULL), '251: continue');
SELECT pg_temp.check_value('idle for 29 minutes', pg_temp.meters(301, 330, 'mute', 0), '301: continue, 321: continue idle 05:31');
SELECT pg_temp.check_value('its figures fail: the time stands still, and is stale after five minutes',
	pg_temp.meters(331, 340, 'mute', NULL), '331: continue idle 05:32, 332: continue idle 05:33, 333: continue idle 05:34,'
	' 334: continue idle 05:35, 335: continue idle 05:36, 336: continue');
SELECT pg_temp.check_value('after an outage the time begins anew', pg_temp.meters(341, 361, 'mute', 0), '341: continue, 361: continue idle 06:11');
SELECT pg_temp.check_value('so it does after a silence of the agent', pg_temp.meters(420, 440, 'mute', 0), '420: continue, 440: continue idle 07:30');
SELECT pg_temp.check_value('five minutes between two reports are no gap', pg_temp.meter(445, 'mute', 0), 'continue idle 07:30');
SELECT pg_temp.check_value('a clock that was set back adds nothing', pg_temp.meter(444, 'mute', 0), 'continue idle 07:29');
CALL pg_temp.act($$SELECT pg_temp.at(450)$$);
CALL pg_temp.act($$SELECT gpucredit.settle('il', pg_temp.job('mute'), 1, 'completed', '200 min')$$);

\echo Whom the limit is not for
CALL pg_temp.act($$SELECT pg_temp.run(460, 'gang', 'lab/ann', '16xIL-A')$$);
SELECT pg_temp.check_value('a gang, of which one node reports', pg_temp.meters(461, 500, 'gang', 0), '461: continue');
CALL pg_temp.act($$SELECT gpucredit.settle('il', pg_temp.job('gang'), 1, 'completed', '40 min')$$);
CALL pg_temp.act($$SELECT pg_temp.run(510, 'other', 'lab/ann', '2xIL-A', 'interactive')$$);
SELECT pg_temp.check_value('a job of another tier', pg_temp.meters(511, 550, 'other', 0), '511: continue');
CALL pg_temp.act($$SELECT gpucredit.settle('il', pg_temp.job('other'), 1, 'completed', '40 min')$$);
CALL pg_temp.act($$SELECT pg_temp.run(560, 'cpu', 'lab/ann', '0')$$);
SELECT pg_temp.check_value('a job without GPUs', pg_temp.meters(561, 600, 'cpu', 0), '561: continue');
CALL pg_temp.act($$SELECT gpucredit.settle('il', pg_temp.job('cpu'), 1, 'completed', '40 min')$$);

\echo A job keeps the limit that its tier had when it started
CALL pg_temp.act($$SELECT pg_temp.run(610, 'before', 'lab/ann')$$);
CALL pg_temp.act($$SELECT gpucredit.set_idle_limit('il', '10 min', '0')$$);
CALL pg_temp.act($$SELECT pg_temp.run(611, 'after', 'lab/ann')$$);
SELECT pg_temp.check_value('the new limit, without a warning', pg_temp.meters(612, 622, 'after', 0), '612: continue, 622: stop idle 10:22');
SELECT pg_temp.check_value('and no alert', pg_temp.alerts('after'), NULL);
SELECT pg_temp.check_value('the old one', pg_temp.meters(623, 653, 'before', 0), '623: continue, 643: continue idle 10:53, 653: stop idle 10:53');
CALL pg_temp.act($$SELECT gpucredit.settle('il', pg_temp.job('before'), 1, 'timeout', '43 min')$$);
CALL pg_temp.act($$SELECT gpucredit.settle('il', pg_temp.job('after'), 1, 'timeout', '42 min')$$);

\echo Settings
SELECT pg_temp.check_error('a limit that a few reports would reach', $$SELECT gpucredit.set_idle_limit('il', '59 s')$$, '22023');
SELECT pg_temp.check_error('a warning at once', $$SELECT gpucredit.set_idle_limit('il', '5 min', '5 min')$$, '22023');
SELECT pg_temp.check_error('an unknown tier', $$SELECT gpucredit.set_idle_limit('no such', '1 h')$$, 'UC402');
CALL pg_temp.act($$SELECT gpucredit.set_idle_limit('il', NULL), gpucredit.set_idle_limit('il', NULL)$$);
SELECT pg_temp.check_none('NULL removes it', $$SELECT * FROM gpucredit.idle_limit WHERE tier = 'il'$$);
SELECT pg_temp.check_rows('all of it is audited', $$SELECT u.decision, u.detail ->> 'idle_limit' AS idle_limit, u.detail ->> 'idle_warning' AS idle_warning
	FROM gpucredit.audit u WHERE u.operation = 'set_idle_limit' AND u.detail ->> 'tier' = 'il' ORDER BY u.audit$$, $$
	decision | idle_limit | idle_warning
	set | PT30M | PT10M
	set | PT10M | PT0S
	removed | - | PT5M
	unchanged | - | PT5M
$$);

\echo An agent that does not obey is overruled
CALL pg_temp.act($$SELECT gpucredit.set_idle_limit('il', '30 min', '10 min')$$);
CALL pg_temp.act($$SELECT pg_temp.run(700, 'deaf', 'lab/ann')$$);
SELECT pg_temp.check_value('meter answers', pg_temp.meters(701, 731, 'deaf', 0), '701: continue, 721: continue idle 12:11, 731: stop idle 12:11');
CALL pg_temp.act($$SELECT gpucredit.reap_holds()$$);
SELECT pg_temp.check_rows('it has stop_grace to end', $$SELECT state FROM gpucredit.jobs WHERE org = 'il' AND job = pg_temp.job('deaf')$$, $$
	state
	running
$$);
CALL pg_temp.act($$SELECT pg_temp.meter(732, 'deaf', 0), pg_temp.meter(733, 'deaf', 0), gpucredit.reap_holds()$$);
SELECT pg_temp.check_rows('then the server ends it, and bills what it had', $$
	SELECT a.outcome, a.ended_by, a.billed, a.job_state, a.message FROM gpucredit.attempt a WHERE a.org = 'il' AND a.job = pg_temp.job('deaf')$$, $$
	outcome | ended_by | billed | job_state | message
	timeout | server | 1.100000 | timeout | its GPUs were idle for 1920 s, and nobody typed in a terminal of it
$$);

\echo Waste
CALL pg_temp.act($$SELECT gpucredit.create_account('il', 'waste'), gpucredit.create_account('il', 'waste/eve'),
	gpucredit.create_account('il', 'waste/fay')$$);
CALL pg_temp.act($$SELECT set_config('gpucredit.usage_interval', '10 min', false)$$);
CALL pg_temp.act($$SELECT pg_temp.run(1440, 'w1', 'waste/eve')$$);
CALL pg_temp.act($$SELECT pg_temp.run(1440, 'w2', 'waste/fay', '1xIL-A')$$);
CALL pg_temp.act($$SELECT pg_temp.meter(1470, 'w1', 0.25), pg_temp.meter(1470, 'w2', NULL)$$);
CALL pg_temp.act($$SELECT pg_temp.meter(1500, 'w1', 0), pg_temp.meter(1500, 'w2', 1)$$);
SELECT pg_temp.check_rows('by account, the most wasteful first', $$SELECT * FROM gpucredit.waste_by('il', 'waste')$$, $$
	item | gpu_hours | used_hours | unused_hours | unreported_hours | unused_cost | jobs
	waste/eve | 2.000000 | 0.250000 | 1.750000 | 0.000000 | 1.750000 | 1
	waste/fay | 1.000000 | 0.500000 | 0.000000 | 0.500000 | 0.000000 | 1
$$);
SELECT pg_temp.check_rows('by user, of half of the time', $$SELECT item, gpu_hours, unused_hours FROM gpucredit.waste_by('il', 'waste', '2027-06-02 00:45+00', NULL, 'user')$$, $$
	item | gpu_hours | unused_hours
	eve | 1.000000 | 1.000000
	fay | 0.500000 | 0.000000
$$);
SELECT pg_temp.check_rows('of the other half', $$SELECT item, gpu_hours, unused_hours, unreported_hours FROM gpucredit.waste_by('il', 'waste', NULL, '2027-06-02 00:45+00', 'gpu_type')$$, $$
	item | gpu_hours | unused_hours | unreported_hours
	IL-A | 1.500000 | 0.750000 | 0.500000
$$);
SELECT pg_temp.check_none('of another time', $$SELECT * FROM gpucredit.waste_by('il', 'waste', NULL, '2027-06-01 00:00+00')$$);
SELECT pg_temp.check_error('an unknown word', $$SELECT * FROM gpucredit.waste_by('il', '', NULL, NULL, 'day')$$, '22023');
CREATE ROLE il_eve IN ROLE gpucredit_tenant;
CALL pg_temp.act($$SELECT gpucredit.bind_tenant('il_eve', 'il', 'waste/eve')$$);
SET ROLE il_eve;
SELECT count(*) AS rows FROM gpucredit.waste_by('il', 'waste/eve') \gset own_
\set ON_ERROR_STOP 0
\set VERBOSITY sqlstate
SELECT * FROM gpucredit.waste_by('il', 'waste/fay');
\set other :SQLSTATE
SELECT * FROM gpucredit.waste_by('il');
\set above :SQLSTATE
RESET ROLE;
SELECT pg_temp.check_value('a tenant sees its own waste', :'own_rows', '1');
SELECT pg_temp.check_value('nobody else''s', :'other' || ' ' || :'above', 'UC001 UC001');
CALL pg_temp.act($$SELECT gpucredit.unbind_tenant('il_eve', 'il', 'waste/eve')$$);
DROP ROLE il_eve;
CALL pg_temp.act($$SELECT gpucredit.settle('il', pg_temp.job(k), 1, 'completed', '1 h') FROM unnest('{w1,w2}'::text[]) k$$);

SELECT pg_temp.check_none('verify()', $$SELECT * FROM gpucredit.verify('il')$$);
