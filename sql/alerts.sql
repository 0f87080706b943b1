--
-- Alerts that an account's owner needs early: budgets, balances, expiring
-- credit, expensive days.
--
SET search_path = gpucredit, public;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET client_min_messages = warning;
SET gpucredit.clock = '2032-03-01 00:00+00';
CREATE FUNCTION pg_temp.at(text) RETURNS void LANGUAGE sql AS
$$ SELECT set_config('gpucredit.clock', $1, false) $$;
-- alerts that this test has not shown yet
CREATE FUNCTION pg_temp.news() RETURNS TABLE (at timestamptz, account text,
	kind text, threshold numeric, detail jsonb) LANGUAGE plpgsql AS $$
DECLARE
	seen bigint := coalesce(nullif(current_setting('test.seen', true), ''), '0');
BEGIN
	PERFORM set_config('test.seen', coalesce(max(a.alert), 0)::text, false) FROM gpucredit.alert a;
	RETURN QUERY SELECT a.at, a.account, a.kind, a.threshold,
		a.detail - '{kind,org,account,threshold,bucket}'::text[]
	FROM gpucredit.alert a WHERE a.org = 'al' AND a.alert > seen
	ORDER BY a.at, a.kind, a.account, a.threshold;
END $$;
CREATE FUNCTION pg_temp.spend(account text, key text, amount numeric)
RETURNS numeric LANGUAGE sql AS $$
	SELECT c.captured FROM gpucredit.hold('al', account, 'h' || key, amount, '1 h') h,
		gpucredit.capture('al', h.hold, 'c' || key, amount) c $$;

SELECT create_account('al'), create_account('al', 'lab'),
	create_account('al', 'lab/eve'), create_account('al', 'ops') \g /dev/null

-- Balance: below the account's threshold, whoever spent it
SELECT issue('al', '', 'i', 1000), set_alert('al', '', 500),
	set_alert('al', 'lab/eve', 700) \g /dev/null
SELECT status FROM hold('al', 'lab/eve', 'b1', 300, '10 d');
SELECT * FROM pg_temp.news();
-- the threshold itself is not below; a millionth less is, once
SELECT status FROM hold('al', 'lab/eve', 'b2', 0.000001, '1 d');
SELECT status FROM hold('al', 'lab/eve', 'b3', 1, '1 d');
SELECT * FROM pg_temp.news();
-- a sibling spends: the organisation's threshold is checked at once, the other
-- accounts' by their next call or by maintain()
SELECT set_alert('al', 'ops', 600) \g /dev/null
SELECT status FROM hold('al', 'lab', 'b4', 250, '10 d');
SELECT * FROM pg_temp.news();
SELECT maintain() \g /dev/null
SELECT * FROM pg_temp.news();
-- a denial checks the balance, too; so do transfers and revocations
SELECT issue('al', '', 'i1b', 1000, valid_for => '12 h') \g /dev/null
SELECT maintain() \g /dev/null
SELECT pg_temp.at('2032-03-02 00:00+00') \g /dev/null
SELECT status, reason FROM hold('al', 'ops', 'b5', 5000, '1 d');
SELECT * FROM pg_temp.news();
SELECT set_alert('al', '') \g /dev/null
SELECT bucket AS big FROM issue('al', 'ops', 'i2', 2000) \gset
SELECT pg_temp.at('2032-03-03 00:00+00') \g /dev/null
SELECT moved FROM transfer('al', 'ops', 'lab', 't1', 1900);
SELECT maintain() \g /dev/null
SELECT set_alert('al', 'ops', 1500) \g /dev/null
SELECT * FROM pg_temp.news();
SELECT bucket AS big FROM issue('al', 'ops', 'i3', 3000) \gset
SELECT pg_temp.at('2032-03-04 00:00+00') \g /dev/null
SELECT revoked FROM revoke('al', :big, 'r1', 'a mistake');
SELECT * FROM pg_temp.news();
-- a hold that grows checks it, too: the first extension that leaves too little
-- alerts
BEGIN;
SELECT create_pool('al'), set_price('Alert', 10), register_node('al', 'al-1', 'Alert', 1, 1000),
	create_account('al', 'jobs'), issue('al', 'jobs', 'ij', 1000) \g /dev/null
SELECT set_alert('al', 'jobs', (SELECT available FROM balance('al', 'jobs')) - 15) \g /dev/null
SELECT job, held FROM reserve('al', 'jobs', 'j', '1xAlert', '5 h', pool => 'al', hold_window => '1 h') \gset
SELECT action FROM place('al');
SELECT * FROM pg_temp.news();
SELECT pg_temp.at('2032-03-04 00:56+00') \g /dev/null
SELECT action, held FROM meter('al', :job, 1, '56 min');
SELECT * FROM pg_temp.news();
ROLLBACK;
SELECT set_alert('al', 'lab/eve'), set_alert('al', 'ops') \g /dev/null
SELECT decision, account, detail FROM audit
WHERE org = 'al' AND operation = 'set_alert' ORDER BY audit;
-- a threshold that is already passed alerts when it is set
SELECT set_alert('al', 'lab', 100000) \g /dev/null
SELECT * FROM pg_temp.news();
SELECT set_alert('al', 'lab') \g /dev/null

-- A low balance alerts when it falls, and again each time that it has recovered
-- and falls once more, so that automatic top-up can rely on it; not each day.
CREATE FUNCTION pg_temp.lows() RETURNS TABLE (at timestamptz, account text, available numeric, recovered_at timestamptz)
LANGUAGE sql AS $$ SELECT a.at, a.account, (a.detail ->> 'available')::numeric, a.recovered_at
	FROM gpucredit.alert a WHERE a.org = 'top' AND a.kind = 'balance' ORDER BY a.alert $$;
SELECT create_account('top'), create_account('top', 'lab'), issue('top', '', 'i1', 100),
	set_alert('top', '', 50), set_alert('top', 'lab', 30) \g /dev/null
SELECT captured FROM hold('top', '', 'h1', 60, '1 h') h, capture('top', h.hold, 'c1', 60);
SELECT pg_temp.at('2032-03-05 00:00+00') \g /dev/null
SELECT status FROM hold('top', '', 'h2', 1, '10 min');
SELECT maintain() \g /dev/null
SELECT * FROM pg_temp.lows();
-- topped up and spent again, before anything looked
SELECT issue('top', '', 'i2', 60) \g /dev/null
SELECT captured FROM hold('top', '', 'h3', 55, '1 h') h, capture('top', h.hold, 'c3', 55);
SELECT * FROM pg_temp.lows();
-- topped up, but not enough: it has not recovered
SELECT pg_temp.at('2032-03-05 00:05+00') \g /dev/null
SELECT issue('top', '', 'i3', 2) \g /dev/null
SELECT status FROM hold('top', '', 'h4', 1, '10 min');
SELECT count(*) FROM pg_temp.lows();
-- topped up, and seen to have recovered; an account below spends it, a release
-- brings it back, and time takes it
SELECT issue('top', '', 'i4', 60, valid_for => '1 day') \g /dev/null
SELECT maintain() \g /dev/null
SELECT count(*) AS recovered FROM pg_temp.lows() WHERE recovered_at = '2032-03-05 00:05+00';
SELECT hold AS lab FROM hold('top', 'lab', 'h5', 80, '1 h') \gset
SELECT at, account, available FROM pg_temp.lows() WHERE recovered_at IS NULL ORDER BY account;
SELECT released FROM release('top', :lab, 'r5');
SELECT pg_temp.at('2032-03-05 00:06+00') \g /dev/null
SELECT maintain() \g /dev/null
SELECT count(*) AS low FROM pg_temp.lows() WHERE recovered_at IS NULL;
SELECT pg_temp.at('2032-03-06 01:00+00') \g /dev/null
SELECT maintain() \g /dev/null
SELECT * FROM pg_temp.lows() OFFSET 3;
-- a balance that goes to and fro alerts once a minute
SELECT pg_temp.at('2032-03-06 02:00:01+00') \g /dev/null
SELECT issue('top', '', 'i6', 100) \g /dev/null
SELECT count(*) AS holds FROM generate_series(1, 20) n, LATERAL (SELECT hold FROM hold('top', '', 'f' || n, 100, '1 h')) h,
	LATERAL release('top', h.hold, 'fr' || n) r;
SELECT count(*) AS alerts FROM pg_temp.lows() WHERE at = '2032-03-06 02:00:01+00';
SELECT status FROM hold('top', '', 'h7', 100, '1 h');
SELECT pg_temp.at('2032-03-06 02:01+00') \g /dev/null
SELECT maintain() \g /dev/null
SELECT at, available FROM pg_temp.lows() WHERE at > '2032-03-06 02:00+00';
-- set_alert makes it ready again
SELECT pg_temp.at('2032-03-06 02:03+00') \g /dev/null
SELECT set_alert('top', '', 50) \g /dev/null
SELECT at FROM pg_temp.lows() WHERE recovered_at IS NULL AND account = '';
SELECT set_alert('top', ''), set_alert('top', 'lab'), pg_temp.at('2032-03-04 00:00+00') \g /dev/null

-- Expiry: alerts come a week and a day ahead, once a bucket, while it has
-- credit
SELECT pg_temp.at('2032-04-01 00:00+00') \g /dev/null
SELECT bucket AS promo FROM issue('al', 'lab', 'p', 10, 'promo', valid_for => '10 days') \gset
SELECT maintain() \g /dev/null
SELECT * FROM pg_temp.news();
SELECT pg_temp.at('2032-04-03 23:59:59.999999+00') \g /dev/null
SELECT maintain() \g /dev/null
SELECT * FROM pg_temp.news();
-- maintain alerts at the instant, and not a second time
SELECT pg_temp.at('2032-04-04 00:00+00') \g /dev/null
SELECT maintain() \g /dev/null
SELECT maintain() \g /dev/null
SELECT * FROM pg_temp.news();
-- the first call that draws from the bucket and leaves something gives the
-- last day's alert
SELECT pg_temp.at('2032-04-10 00:00+00') \g /dev/null
SELECT status FROM hold('al', 'lab/eve', 'x1', 4, '30 min');
SELECT * FROM pg_temp.news();
-- a bucket with nothing left gives no alert
SELECT bucket AS promo2 FROM issue('al', 'ops', 'p2', 3, 'promo', valid_for => '1 h') \gset
SELECT status FROM hold('al', 'ops', 'x2', 3, '30 min');
SELECT maintain() \g /dev/null
SELECT * FROM pg_temp.news();
-- a dead hold's credit counts as available again
SELECT pg_temp.at('2032-04-10 00:30+00') \g /dev/null
SELECT maintain() \g /dev/null
SELECT * FROM pg_temp.news();
-- a bucket that has expired or was revoked gives no alert
SELECT issue('al', 'ops', 'p3', 3, 'promo', valid_for => '2 d') \g /dev/null
SELECT bucket AS gone FROM issue('al', 'ops', 'p4', 3, 'promo', valid_for => '2 d') \gset
SELECT revoked FROM revoke('al', :gone, 'r4', 'a mistake');
SELECT pg_temp.at('2032-04-20 00:00+00') \g /dev/null
SELECT maintain() \g /dev/null
SELECT * FROM pg_temp.news();

-- at the end of time no week is left, and a bucket that expires still gives
-- its alert
BEGIN;
SET LOCAL gpucredit.clock = '294276-12-31 23:00+00';
SELECT issue('al', 'ops', 'p5', 5, 'promo', expires_at => '294276-12-31 23:30+00') \g /dev/null
SELECT status FROM hold('al', 'ops', 'x5', 1, '1 min');
SELECT maintain() \g /dev/null
SELECT * FROM pg_temp.news();
SET LOCAL gpucredit.clock = '4713-12-01 00:00+00 BC';
SELECT maintain() \g /dev/null
SELECT * FROM pg_temp.news();
ROLLBACK;

-- Spend: 10 a day for 30 days, then a day of 13 (not above), and a little more
SELECT count(pg_temp.spend('lab/eve', d::text, 10)) FROM (SELECT d, pg_temp.at(
	(timestamptz '2032-05-01' + d * interval '1 day')::text)
	FROM generate_series(0, 29) d OFFSET 0) d;
SELECT * FROM pg_temp.news();
SELECT pg_temp.at('2032-05-31 12:00+00') \g /dev/null
-- a job's settlement counts as a capture does
BEGIN;
SELECT create_pool('al'), set_price('Alert', 10), register_node('al', 'al-1', 'Alert', 1, 1000) \g /dev/null
SELECT job FROM reserve('al', 'lab/eve', 'dear', '1xAlert', '5 h', pool => 'al') \gset
SELECT action FROM place('al');
SELECT action FROM meter('al', :job, 1, '0');
SELECT pg_temp.at('2032-05-31 14:00+00') \g /dev/null
SELECT billed FROM settle('al', :job, 1, 'completed', '78 min');
SELECT * FROM pg_temp.news();
ROLLBACK;
BEGIN;
SELECT create_pool('al'), set_price('Alert', 10), register_node('al', 'al-1', 'Alert', 1, 1000) \g /dev/null
SELECT job FROM reserve('al', 'lab/eve', 'dear', '1xAlert', '5 h', pool => 'al') \gset
SELECT action FROM place('al');
SELECT action FROM meter('al', :job, 1, '0');
SELECT pg_temp.at('2032-05-31 14:00+00') \g /dev/null
SELECT billed FROM settle('al', :job, 1, 'completed', '78 min 1 s');
SELECT * FROM pg_temp.news();
ROLLBACK;
SELECT pg_temp.at('2032-05-31 12:00+00') \g /dev/null
SELECT pg_temp.spend('lab/eve', 'a', 13);
SELECT * FROM pg_temp.news();
SELECT pg_temp.spend('lab/eve', 'b', 0.000001);
SELECT pg_temp.spend('lab/eve', 'c', 5);
SELECT * FROM pg_temp.news();
-- figures are the same before and after they are added up
SELECT maintain() \g /dev/null
SELECT account, day, spent FROM spend_day
WHERE org = 'al' AND day >= '2032-05-30' ORDER BY account, day;
SELECT * FROM verify('al');
-- credit refunded today does not count as spent today
SELECT pg_temp.at('2032-06-01 00:00+00') \g /dev/null
SELECT pg_temp.spend('lab/eve', 'd', 13);
SELECT refunded FROM refund_hold('al', (SELECT max(hold) FROM hold WHERE org = 'al'), 'rd', 5, 'sorry');
SELECT pg_temp.spend('lab/eve', 'e', 5);
SELECT * FROM pg_temp.news();
SELECT pg_temp.spend('lab', 'f', 1);
SELECT * FROM pg_temp.news();
-- a call that finds too many rows to add up leaves the alert to maintain
SELECT pg_temp.at('2032-06-02 00:00+00') \g /dev/null
SELECT maintain() \g /dev/null
INSERT INTO account_delta (org, account, spent, day, at) SELECT 'al', 'ops', '0', '2032-06-02', '2032-06-02' FROM generate_series(1, 201);
SELECT pg_temp.spend('lab/eve', 'g', 20);
SELECT * FROM pg_temp.news();
SELECT maintain() \g /dev/null
SELECT * FROM pg_temp.news();
-- an account that spent nothing for 30 days has no average
SELECT pg_temp.at('2032-08-01 00:00+00') \g /dev/null
SELECT pg_temp.spend('lab/eve', 'h', 50);
SELECT * FROM pg_temp.news();
-- days that no average reads are deleted
SELECT maintain() \g /dev/null
SELECT min(day) FROM spend_day WHERE org = 'al';
SELECT * FROM verify('al');

-- Budgets: a budget lowered below what is taken alerts once, when it is set
SELECT set_budget('al', 'ops', 1000) \g /dev/null
SELECT status FROM hold('al', 'ops', 'z1', 100, '1 h');
SELECT * FROM pg_temp.news();
SELECT set_budget('al', 'ops', 150) \g /dev/null
SELECT account, kind, threshold, detail FROM pg_temp.news();
SELECT set_budget('al', 'ops', 150), set_budget('al', 'ops', 90) \g /dev/null
SELECT account, kind, threshold, detail FROM pg_temp.news();
SELECT * FROM verify('al');

-- a budget of 0 alerts at the first credit taken; a hard one grants none, and
-- a denied call passes no budget
SELECT create_account('al0'), issue('al0', '', 'i', 10), set_budget('al0', '', 0) \g /dev/null
SELECT reason FROM hold('al0', '', 'h1', 1, '1 h');
SELECT maintain(), set_budget('al0', '', 0) \g /dev/null
SELECT count(*) FROM alert WHERE org = 'al0';
SELECT set_budget('al0', '', 0, hard => false) \g /dev/null
SELECT status FROM hold('al0', '', 'h2', 0.000001, '1 h');
SELECT threshold, detail -> 'taken' AS taken FROM alert WHERE org = 'al0' ORDER BY 1;
SELECT maintain() \g /dev/null
SELECT count(*) FROM alert WHERE org = 'al0';

-- at SERIALIZABLE set_budget reads no other transaction's alerts; upkeep does
SELECT create_account('als'), issue('als', '', 'i', 10), set_budget('als', '', 10) \g /dev/null
SELECT status FROM hold('als', '', 'h1', 4, '1 h');
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT set_budget('als', '', 5) \g /dev/null
COMMIT;
SELECT count(*) FROM alert WHERE org = 'als';
SELECT maintain() \g /dev/null
SELECT threshold, detail -> 'taken' AS taken FROM alert WHERE org = 'als' ORDER BY 1;

-- no login can take the lock that limits an alert to one transaction, or a
-- companion's: advisory locks of SQL have objsubid 1 and 2
BEGIN;
SELECT create_account('al1'), issue('al1', '', 'i', 10), set_budget('al1', '', 5) \g /dev/null
SELECT status FROM hold('al1', '', 'h1', 3, '1 h');
SELECT count(*) AS raised FROM alert WHERE org = 'al1';
SELECT gpucredit_internal.lock_name('a companion''s'), gpucredit_internal.lock_name('another', wait => false);
SELECT locktype, objsubid, mode FROM pg_locks
WHERE pid = pg_backend_pid() AND locktype = 'advisory' AND objsubid <> 26467 ORDER BY 2;
ROLLBACK;

-- Jobs: an account gets an alert when a job ends badly or leaves its devices
-- idle
SELECT pg_temp.at('2032-09-01 00:00+00') \g /dev/null
SELECT create_pool('alj'), set_price('Alj', 1, 'alj'), register_node('alj', 'alj-1', 'Alj', 8, 1000),
	create_account('alj'), create_account('alj', 'a'), create_account('alj', 'b'), issue('alj', '', 'i', 1000)
\g /dev/null
CREATE FUNCTION pg_temp.job(k text) RETURNS bigint LANGUAGE sql AS $$
	SELECT r.result[1]::bigint FROM gpucredit.request r WHERE r.org = 'alj' AND r.key = k AND r.operation = 'reserve' $$;
-- starts jobs and meters each of them
CREATE FUNCTION pg_temp.run(account text, VARIADIC keys text[]) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	PERFORM gpucredit.heartbeat('alj-1', running => ARRAY(SELECT concat_ws('/', g.org, g.job, g.attempt)
		FROM gpucredit.attempt_gpu g WHERE g.node = 'alj-1' AND g.ended_at IS NULL));
	PERFORM gpucredit.reserve('alj', account, k, '1xAlj', '5 h', pool => 'alj', max_retries => 1) FROM unnest(keys) k;
	PERFORM gpucredit.place('alj');
	RETURN count(gpucredit.meter('alj', pg_temp.job(k), 1, '0')) FROM unnest(keys) k;
END $$;
CREATE FUNCTION pg_temp.told(key text DEFAULT NULL) RETURNS TABLE (at timestamptz, account text, kind text, nth numeric,
	detail jsonb) LANGUAGE sql AS $$
	SELECT a.at, a.account, a.kind, a.threshold, a.detail - '{kind,org,account,job,advice}'::text[]
	FROM gpucredit.alert a WHERE a.org = 'alj' AND (key IS NULL OR a.detail -> 'job' = to_jsonb(pg_temp.job(key))) ORDER BY alert $$;
CREATE FUNCTION pg_temp.done(key text, outcome text, code int DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(', ', s.outcome, s.job_state, s.replayed)
	FROM gpucredit.job j, gpucredit.settle('alj', j.job, j.attempt, outcome, exit_code => code) s
	WHERE j.org = 'alj' AND j.job = pg_temp.job(key) $$;
SELECT pg_temp.run('a', 'memory', 'wall', 'fails', 'twice', 'fine', 'leaves');
SELECT pg_temp.done('memory', 'out_of_memory'), pg_temp.done('wall', 'timeout'), pg_temp.done('fails', 'failed', 127);
SELECT * FROM pg_temp.told();
SELECT detail ->> 'advice' AS advice FROM alert WHERE org = 'alj' AND detail -> 'job' = to_jsonb(pg_temp.job('memory'));
-- no alert comes from a second settlement, or from jobs that completed, left
-- as told or will be tried again
SELECT pg_temp.done('memory', 'out_of_memory'), pg_temp.done('memory', 'failed'), pg_temp.done('fine', 'completed'),
	pg_temp.done('leaves', 'preempted'), pg_temp.done('twice', 'failed', 1);
SELECT count(*) FROM pg_temp.told();
-- the last failure gives an alert
SELECT pg_temp.at('2032-09-01 00:01+00') \g /dev/null
SELECT pg_temp.run('a', VARIADIC '{}');
SELECT pg_temp.done('twice', 'failed', 1);
SELECT * FROM pg_temp.told('twice');
-- a cancelled job gives none
SELECT pg_temp.run('a', 'unwanted');
SELECT job_state FROM cancel('alj', pg_temp.job('unwanted'), 'no');
SELECT pg_temp.done('unwanted', 'out_of_memory');
SELECT count(*) FROM pg_temp.told('unwanted');
-- stuck by the agent's report or by the server's clock; lost with its node
SELECT pg_temp.run('b', 'stuck', 'deaf', 'lost');
SET gpucredit.progress_timeout = '10 min';
SELECT count(meter('alj', pg_temp.job(k), 1, '1 s', 7)) FROM unnest('{stuck,deaf}'::text[]) k;
SELECT pg_temp.at('2032-09-01 00:11+00') \g /dev/null
SELECT k, action, reason FROM unnest('{stuck,deaf}'::text[]) k, meter('alj', pg_temp.job(k), 1, '10 min', 7);
SELECT pg_temp.done('stuck', 'failed', 1);
SELECT pg_temp.at('2032-09-01 00:13+00') \g /dev/null
SELECT action, reason FROM meter('alj', pg_temp.job('deaf'), 1, '11 min', 7);
SELECT affected FROM reap_holds() WHERE task = 'settle_overdue';
RESET gpucredit.progress_timeout;
SELECT affected FROM check_nodes() WHERE task = 'settle_node_lost';
SELECT * FROM pg_temp.told('stuck') UNION ALL SELECT * FROM pg_temp.told('deaf') UNION ALL SELECT * FROM pg_temp.told('lost') ORDER BY nth;
-- a late report changes the job's end: the alert that was given stands, and no
-- second comes
SELECT pg_temp.done('lost', 'completed');
SELECT pg_temp.done('lost', 'failed');
SELECT count(*) FROM pg_temp.told('lost');
-- an account gets at most so many alerts an hour; each account and each hour
-- has its own count
SET gpucredit.job_alerts = 6;
SELECT pg_temp.run('a', 'm1', 'm2', 'm3'), pg_temp.run('b', 'other');
SELECT pg_temp.done(k, 'out_of_memory') FROM unnest('{m1,m2,m3,other}'::text[]) k;
SELECT account, array_agg(nth ORDER BY nth) AS numbers FROM pg_temp.told() GROUP BY 1 ORDER BY 1;
SELECT pg_temp.at('2032-09-01 01:00+00') \g /dev/null
SELECT pg_temp.run('a', 'm4');
SELECT pg_temp.done('m4', 'out_of_memory');
SELECT at, account, nth FROM pg_temp.told('m4');
SET gpucredit.job_alerts = 0;
SELECT pg_temp.run('a', 'm5');
SELECT pg_temp.done('m5', 'out_of_memory');
SELECT count(*) FROM pg_temp.told('m5');
RESET gpucredit.job_alerts;
-- an alert is rolled back with its call
BEGIN;
SELECT pg_temp.run('a', 'm6');
SELECT pg_temp.done('m6', 'out_of_memory');
SELECT count(*) FROM pg_temp.told('m6');
ROLLBACK;
-- Idle: use below a hundredth for progress_timeout, whatever the progress. An
-- attempt that reports no use, or has no devices, is not idle
SELECT pg_temp.run('b', 'idle', 'busy', 'silent', 'once');
SELECT status FROM reserve('alj', 'b', 'cpu', '0', '5 h', pool => 'alj');
SELECT count(*) FROM place('alj');
SET gpucredit.progress_timeout = '10 min';
CREATE FUNCTION pg_temp.use(ran interval, idle real, busy real) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_temp.at((timestamptz '2032-09-01 01:00+00' + ran)::text);
	RETURN count(m) FROM (VALUES ('idle', NULL::bigint, idle), ('cpu', NULL, idle), ('busy', NULL, busy), ('silent', NULL, NULL)) k (k, p, u),
		gpucredit.meter('alj', pg_temp.job(k.k), 1, ran, k.p, k.u) m;
END $$;
SELECT action FROM meter('alj', pg_temp.job('once'), 1, '1 s', NULL, 0);
SELECT pg_temp.use('1 min', 0, 0), pg_temp.use('6 min', 0.0099, 0.01), pg_temp.use('10 min 59.999999 s', 0, 0);
SELECT count(*) FROM alert WHERE org = 'alj' AND detail ->> 'reason' = 'idle';
SELECT pg_temp.use('11 min', 0, 0);
SELECT * FROM pg_temp.told('idle');
-- the alert comes again after the same time, not with each heartbeat;
-- meter_batch alerts, too
SELECT pg_temp.use('11 min 1 s', 0, 0), pg_temp.use('20 min 59 s', NULL, 0.5);
SELECT pg_temp.at('2032-09-01 01:21+00') \g /dev/null
SELECT action FROM meter_batch('{alj,alj}', ARRAY[pg_temp.job('idle'), pg_temp.job('busy')], '{1,1}', '{21 min,21 min}',
	utilization => '{0.005,0}');
SELECT at, detail FROM pg_temp.told('idle');
-- after some use the time starts again
SELECT pg_temp.use('22 min', 0.3, 0), pg_temp.use('23 min', 0, 0), pg_temp.use('32 min 59 s', 0, 1);
SELECT DISTINCT k, at FROM unnest('{idle,busy,silent,cpu,once}'::text[]) k, pg_temp.told(k) ORDER BY 1, 2;
SELECT pg_temp.use('33 min', 0, 0);
SELECT at FROM pg_temp.told('idle') ORDER BY at DESC LIMIT 1;
SET gpucredit.progress_timeout = 0;
SELECT pg_temp.use('2 h', 0, 0);
SELECT count(*) FROM pg_temp.told('idle');
RESET gpucredit.progress_timeout;
-- a tenant reads its own account's alerts only
CREATE ROLE alj_b IN ROLE gpucredit_tenant;
SELECT bind_tenant('alj_b', 'alj', 'b') \g /dev/null
SET ROLE alj_b;
SELECT DISTINCT org, account, kind FROM gpucredit.alert ORDER BY 1, 2, 3;
RESET ROLE;
SELECT unbind_tenant('alj_b', 'alj', 'b') \g /dev/null
DROP ROLE alj_b;
SELECT count(settle('alj', job, attempt, 'cancelled')) FROM attempt WHERE org = 'alj' AND ended_at IS NULL;
SELECT * FROM verify('alj');

-- metrics name the 20 lowest of the accounts that have a threshold and are
-- below it
BEGIN;
SELECT create_account('alm') \g /dev/null
SELECT create_account('alm', 'm' || n), issue('alm', 'm' || n, 'i' || n, 1 + n * 0.001), set_alert('alm', 'm' || n, 1.024)
FROM generate_series(1, 30) n \g /dev/null
SELECT labels ->> 'org' AS org, count(*), min(value), max(value) FROM metric_samples('{low_balance_credits}') GROUP BY 1;
SELECT value >= 23 AS all_of_them FROM metric_samples('{low_balances}');
-- each is what balance() says: with the accounts above, slices and dead holds,
-- without what has expired or is to come
SELECT create_account('alm', 'm1/deep'), set_alert('alm', 'm1/deep', 1000), set_alert('alm', 'm1', 1000), set_slices('alm', 'm1', 4),
	issue('alm', 'm1/deep', 'deep', 0.25) \g /dev/null
SELECT hold('alm', 'm1/deep', 'dead', 0.5, '1 min') \g /dev/null
SELECT hold('alm', 'm1/deep', 'alive', 0.25, '1 day') \g /dev/null
SELECT issue('alm', 'm1/deep', 'soon', 7, valid_for => '1 min'),
	issue('alm', 'm1/deep', 'later', 7, effective_at => gpucredit.now() + '1 day') \g /dev/null
SELECT set_config('gpucredit.clock', (gpucredit.now() + '2 min')::text, true) \g /dev/null
SELECT count(*), bool_and(m.value = b.available) AS as_balance, min(m.value) FILTER (WHERE m.labels ->> 'account' = 'm1/deep') AS deep
FROM metric_samples('{low_balance_credits}') m, LATERAL balance(m.labels ->> 'org', m.labels ->> 'account') b;
ROLLBACK;
-- each family is computed only where it is asked for
BEGIN;
CREATE TEMP VIEW reads AS SELECT sum(coalesce(seq_scan, 0) + coalesce(idx_scan, 0)) AS n
FROM pg_stat_xact_user_tables WHERE schemaname = 'gpucredit';
CREATE FUNCTION pg_temp.reads(family text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	before bigint := (SELECT n FROM reads);
BEGIN
	PERFORM * FROM gpucredit.metric_samples(ARRAY[family]);
	RETURN (SELECT n FROM reads) - before;
END $$;
SELECT CASE WHEN r.n > 0 THEN 'tables' ELSE 'none' END AS reads, string_agg(f.family, ' ' ORDER BY f.family) AS families
FROM gpucredit_internal.metric_families() f, LATERAL (SELECT pg_temp.reads(f.family) AS n) r GROUP BY 1 ORDER BY 1;
DROP FUNCTION pg_temp.reads(text);
DROP VIEW reads;
COMMIT;

-- verify sees a wrong day of spend, and rebuild mends it
UPDATE spend_day SET spent = '1' WHERE org = 'al' AND account = 'lab' AND day = '2032-08-01';
INSERT INTO alert (org, at, account, kind, period, period_start, threshold, detail)
VALUES ('al', now(), 'nobody', 'balance', 'day', now(), 1, '{}');
SELECT * FROM verify('al');
DELETE FROM alert WHERE org = 'al' AND account = 'nobody';
SELECT * FROM rebuild('al');
SELECT * FROM verify('al');
-- the same of a day's use
UPDATE spend_day SET used = '1' WHERE org = 'al' AND account = 'lab' AND day = '2032-08-01';
SELECT * FROM verify('al');
SELECT * FROM rebuild('al');
SELECT * FROM verify('al');

-- a balance is compared by kept plans: a function that is planned in each call
-- made a hold below an alert take more than twenty times as long as another
SELECT create_account('kept'), issue('kept', '', 'i', 1000), set_alert('kept', '', 1),
	create_account('kept2'), issue('kept2', '', 'i', 1000) \g /dev/null
CREATE FUNCTION pg_temp.fastest(org text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	began timestamptz;
	best float8;
BEGIN
	FOR round IN 1 .. 40 LOOP
		began := clock_timestamp();
		PERFORM gpucredit.hold(org, '', round || '/' || i, 1, '1 h') FROM generate_series(1, 4) i;
		best := least(best, extract(epoch FROM clock_timestamp() - began));
	END LOOP;
	RETURN best;
END $$;
SELECT pg_temp.fastest('kept') < 12 * pg_temp.fastest('kept2') AS planned_once;
SELECT * FROM verify('kept');
