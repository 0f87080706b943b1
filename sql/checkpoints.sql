-- Checkpoints: when a save is due, what an attempt gets to load, and what
-- happens if that is not good.
\set ECHO none
\getenv folder PG_ABS_SRCDIR
\set check :folder '/sql/include/check.sql'
\set scenario :folder '/sql/include/scenario.sql'
\i :check
\i :scenario
SET scenario.org = 'ckp';

CALL pg_temp.open_account();
CALL pg_temp.open_pool('ckp', 3);
CALL pg_temp.act($$ SELECT gpucredit.grant_tier('ckp', '', 'production_inference') $$);

-- What the attempts of the first scenario are told when they report for how long
-- they have run, and what their nodes are told then.
CREATE FUNCTION pg_temp.saves(ran interval) RETURNS TABLE (job text, told text, save boolean,
	node_told text, node_save boolean) LANGUAGE sql AS $$
	WITH m AS MATERIALIZED (SELECT k, m.* FROM unnest('{asks,never,plain,safe,seconds}'::text[]) k,
		gpucredit.meter('ckp', pg_temp.job(k), 1, ran) m)
	SELECT m.k, concat_ws(', ', m.action, m.reason), m.save, concat_ws(', ', b.action, b.reason), b.save
	FROM m LEFT JOIN pg_temp.beat() b ON b.job = m.k ORDER BY 1
$$;
-- What first attempts of jobs are told when they report for how long they have run.
CREATE FUNCTION pg_temp.limits(ran interval, VARIADIC keys text[]) RETURNS TABLE (job text, told text, save boolean,
	time_left interval) LANGUAGE sql AS $$
	SELECT k, concat_ws(', ', m.action, m.reason), m.save, m.time_left
	FROM unnest(keys) k, gpucredit.meter('ckp', pg_temp.job(k), 1, ran) m ORDER BY 1
$$;
-- What the job "asks" is handed to load when its node is told to start it.
CREATE FUNCTION pg_temp.handed() RETURNS TABLE (attempt int, action text, step text) LANGUAGE sql AS $$
	SELECT h.attempt, h.action, h.spec -> 'checkpoint' ->> 'step' FROM unnest('{ckp-1,ckp-2,ckp-3}'::text[]) n,
		gpucredit.heartbeat(n) h WHERE h.job = pg_temp.job('asks')
$$;
-- Reports what it got as checkpoint STEP of the first attempt of "asks", and
-- returns whether that was good, and what to load now.
CREATE FUNCTION pg_temp.loaded(attempt int, step bigint, digest bytea) RETURNS TABLE (good boolean, from_attempt int,
	from_step bigint, uri text, digest_of text, size_bytes bigint) LANGUAGE sql AS $$
	SELECT l.good, l.from_attempt, l.from_step, l.uri,
		(SELECT n::text FROM generate_series(1, 3) n WHERE l.sha256 = sha256(n::text::bytea)), l.size_bytes
	FROM gpucredit.checkpoint_loaded('ckp', pg_temp.job('asks'), attempt, 1, step, digest) l
$$;

\echo
\echo # Saves are due in time
CALL pg_temp.beats(1);
CALL pg_temp.submit('plain', '1xSC-A');
CALL pg_temp.submit('asks', '1xSC-A', '{"checkpoint_every": "10 min"}');
CALL pg_temp.submit('seconds', '1xSC-A', '{"checkpoint_every": 600}');
CALL pg_temp.submit('never', '1xSC-A', '{"checkpoint_every": 0}');
CALL pg_temp.submit('safe', '1xSC-A', tier => 'production_inference');
SELECT pg_temp.check_value('five jobs start on the three nodes', count(*)::text, '5') FROM pg_temp.place();
SELECT pg_temp.check_rows('a job saves as often as it asks, else every half hour; one that is never preempted, or asks for 0, does not',
$$ SELECT pg_temp.key(job) AS job, save_every, save_asked FROM gpucredit.attempt
	WHERE org = 'ckp' AND ended_at IS NULL ORDER BY 1 $$, $$
	job     | save_every | save_asked
	asks    | 00:10:00   | true
	never   | -          | false
	plain   | 00:30:00   | false
	safe    | -          | false
	seconds | 00:10:00   | true
$$);
SELECT pg_temp.check_rows('the nodes are told to start all five attempts, and that no save is due',
$$ SELECT job, action, save FROM pg_temp.beat() ORDER BY job $$, $$
	job     | action | save
	asks    | start  | false
	never   | start  | false
	plain   | start  | false
	safe    | start  | false
	seconds | start  | false
$$);
SELECT pg_temp.check_rows('no attempt is told to save when it begins',
$$ SELECT * FROM pg_temp.saves('0') $$, $$
	job     | told     | save  | node_told | node_save
	asks    | continue | false | continue  | false
	never   | continue | false | continue  | false
	plain   | continue | false | continue  | false
	safe    | continue | false | continue  | false
	seconds | continue | false | continue  | false
$$);
CALL pg_temp.later('9 min 59.999999 s');
SELECT pg_temp.check_rows('a microsecond before ten minutes no attempt is told to save',
$$ SELECT * FROM pg_temp.saves('9 min') $$, $$
	job     | told     | save  | node_told | node_save
	asks    | continue | false | continue  | false
	never   | continue | false | continue  | false
	plain   | continue | false | continue  | false
	safe    | continue | false | continue  | false
	seconds | continue | false | continue  | false
$$);
CALL pg_temp.later('1 us');
SELECT pg_temp.check_rows('after ten minutes exactly those that asked for it have the order to save, from meter() and heartbeat()',
$$ SELECT * FROM pg_temp.saves('10 min') $$, $$
	job     | told                 | save  | node_told            | node_save
	asks    | checkpoint, periodic | true  | checkpoint, periodic | true
	never   | continue             | false | continue             | false
	plain   | continue             | false | continue             | false
	safe    | continue             | false | continue             | false
	seconds | checkpoint, periodic | true  | checkpoint, periodic | true
$$);
CALL pg_temp.act($$ SELECT gpucredit.checkpoint('ckp', pg_temp.job('asks'), 1, 1, 'u1', sha256('1'), 1) $$);
CALL pg_temp.later('1 s');
SELECT pg_temp.check_rows('the order to save is gone for the attempt that has saved, and stands for the one that has not',
$$ SELECT * FROM pg_temp.saves('10 min 1 s') $$, $$
	job     | told                 | save  | node_told            | node_save
	asks    | continue             | false | continue             | false
	never   | continue             | false | continue             | false
	plain   | continue             | false | continue             | false
	safe    | continue             | false | continue             | false
	seconds | checkpoint, periodic | true  | checkpoint, periodic | true
$$);
CALL pg_temp.later('19 min 59 s');
SELECT pg_temp.check_rows('after half an hour an attempt that did not ask for saves is told that one is due, without an order',
$$ SELECT * FROM pg_temp.saves('30 min') $$, $$
	job     | told                 | save  | node_told            | node_save
	asks    | checkpoint, periodic | true  | checkpoint, periodic | true
	never   | continue             | false | continue             | false
	plain   | continue             | true  | continue             | true
	safe    | continue             | false | continue             | false
	seconds | checkpoint, periodic | true  | checkpoint, periodic | true
$$);

\echo
\echo # A checkpoint proves bad when the next attempt loads it
CALL pg_temp.act($$ SELECT gpucredit.checkpoint('ckp', pg_temp.job('asks'), 1, n, 'u' || n, sha256(n::text::bytea), n)
	FROM generate_series(2, 3) n $$);
SELECT pg_temp.check_value('the first attempt is preempted', pg_temp.settle('asks', 1, 'preempted'), 'preempted');
SELECT pg_temp.check_rows('the job with the checkpoints starts again', $$ SELECT job, attempt FROM pg_temp.place() $$, $$
	job  | attempt
	asks | 2
$$);
SELECT pg_temp.check_rows('the second attempt is handed the last checkpoint of the first one',
$$ SELECT * FROM pg_temp.handed() $$, $$
	attempt | action | step
	2       | start  | 3
$$);
SELECT pg_temp.check_rows('a checkpoint with the digest that was saved is good',
$$ SELECT * FROM pg_temp.loaded(2, 3, sha256('3')) $$, $$
	good | from_attempt | from_step | uri | digest_of | size_bytes
	true | 1            | 3         | u3  | 3         | 3
$$);
SELECT pg_temp.check_rows('a checkpoint with another digest is bad, and the attempt gets the one before it',
$$ SELECT * FROM pg_temp.loaded(2, 3, sha256('rotten')) $$, $$
	good  | from_attempt | from_step | uri | digest_of | size_bytes
	false | 1            | 2         | u2  | 2         | 2
$$);
SELECT pg_temp.check_rows('the report of a bad checkpoint, repeated, has the same answer',
$$ SELECT good, from_step FROM pg_temp.loaded(2, 3, sha256('rotten')) $$, $$
	good  | from_step
	false | 2
$$);
SELECT pg_temp.check_rows('a checkpoint that was reported bad stays bad, also when it is reported with the right digest',
$$ SELECT good, from_step FROM pg_temp.loaded(2, 3, sha256('3')) $$, $$
	good  | from_step
	false | 2
$$);
SELECT pg_temp.check_rows('the second attempt is handed the checkpoint before the bad one',
$$ SELECT * FROM pg_temp.handed() $$, $$
	attempt | action | step
	2       | start  | 2
$$);
SELECT pg_temp.check_rows('a checkpoint that cannot be had (its digest is NULL) is bad, and the attempt gets the one before it',
$$ SELECT good, from_step FROM pg_temp.loaded(2, 2, NULL) $$, $$
	good  | from_step
	false | 1
$$);
SELECT pg_temp.check_rows('the first checkpoint is good',
$$ SELECT good, from_step FROM pg_temp.loaded(2, 1, sha256('1')) $$, $$
	good | from_step
	true | 1
$$);
SELECT pg_temp.check_value('the second attempt is told to continue', action, 'continue')
FROM gpucredit.meter('ckp', pg_temp.job('asks'), 2, '0');
SELECT pg_temp.check_value('the second attempt is preempted', pg_temp.settle('asks', 2, 'preempted'), 'preempted');
SELECT pg_temp.check_rows('the job with the checkpoints starts a third time', $$ SELECT job, attempt FROM pg_temp.place() $$, $$
	job  | attempt
	asks | 3
$$);
SELECT pg_temp.check_rows('the third attempt is handed the only checkpoint that is not bad',
$$ SELECT * FROM pg_temp.handed() $$, $$
	attempt | action | step
	3       | start  | 1
$$);
SELECT pg_temp.check_rows('when the only checkpoint left proves bad, nothing is left to load',
$$ SELECT good, from_step FROM pg_temp.loaded(3, 1, sha256('rotten')) $$, $$
	good  | from_step
	false | -
$$);
SELECT pg_temp.check_rows('the third attempt starts from nothing',
$$ SELECT * FROM pg_temp.handed() $$, $$
	attempt | action | step
	3       | start  | -
$$);
SELECT pg_temp.check_rows('audit has each bad checkpoint once, with the attempt that found it bad',
$$ SELECT operation, decision, attempt, detail FROM gpucredit.audit
	WHERE org = 'ckp' AND job = pg_temp.job('asks') AND operation = 'checkpoint_loaded' ORDER BY audit $$, $$
	operation         | decision       | attempt | detail
	checkpoint_loaded | bad_checkpoint | 2       | {"from_step": 3, "from_attempt": 1}
	checkpoint_loaded | bad_checkpoint | 2       | {"from_step": 2, "from_attempt": 1}
	checkpoint_loaded | bad_checkpoint | 3       | {"from_step": 1, "from_attempt": 1}
$$);
SET ROLE gpucredit_app;
SELECT pg_temp.check_error('an application may not say that a checkpoint is bad',
	$$ SELECT * FROM gpucredit.checkpoint_loaded('ckp', 1, 1, 1, 1, NULL) $$, '42501');
SET ROLE gpucredit_operator;
SELECT pg_temp.check_value('an operator sees the three nodes', count(*)::text, '3')
FROM gpucredit.nodes WHERE pool = 'ckp';
RESET ROLE;

\echo
\echo # A last save before the wall limit
CALL pg_temp.submit('lim-asks', '1xSC-A', '{"checkpoint_every": "20 min"}', wall => '10 min');
CALL pg_temp.submit('lim-plain', '1xSC-A', wall => '10 min');
CALL pg_temp.submit('lim-never', '1xSC-A', '{"checkpoint_every": 0}', wall => '10 min');
CALL pg_temp.submit('lim-saved', '1xSC-A', '{"checkpoint_every": 0}', wall => '10 min');
CALL pg_temp.submit('lim-short', '1xSC-A', wall => '90 s');
SELECT pg_temp.check_value('the nodes have the five attempts that run so far to report', count(*)::text, '5') FROM pg_temp.beat();
SELECT pg_temp.check_value('five more jobs start', count(*)::text, '5') FROM pg_temp.place();
SELECT pg_temp.check_rows('no attempt is told to save when it begins, also where the wall limit is no longer than save_ahead',
$$ SELECT * FROM pg_temp.limits('0', 'lim-asks', 'lim-plain', 'lim-never', 'lim-saved', 'lim-short') $$, $$
	job       | told     | save  | time_left
	lim-asks  | continue | false | 00:10:00
	lim-never | continue | false | 00:10:00
	lim-plain | continue | false | 00:10:00
	lim-saved | continue | false | 00:10:00
	lim-short | continue | false | 00:01:30
$$);
CALL pg_temp.later('1 min');
SELECT pg_temp.check_rows('an attempt with a wall limit that is no longer than save_ahead is never told to save',
$$ SELECT * FROM pg_temp.limits('1 min', 'lim-short') $$, $$
	job       | told     | save  | time_left
	lim-short | continue | false | 00:00:30
$$);
SELECT pg_temp.check_value('the attempt with the short wall limit completes', pg_temp.settle('lim-short', 1, 'completed'), 'completed');
CALL pg_temp.act($$ SELECT gpucredit.checkpoint('ckp', pg_temp.job('lim-saved'), 1, 1, 'u1', sha256('1'), 1) $$);
CALL pg_temp.later('7 min');
SELECT pg_temp.check_rows('two minutes before the wall limit no attempt is told to save',
$$ SELECT * FROM pg_temp.limits('8 min', 'lim-asks', 'lim-plain', 'lim-never', 'lim-saved') $$, $$
	job       | told     | save  | time_left
	lim-asks  | continue | false | 00:02:00
	lim-never | continue | false | 00:02:00
	lim-plain | continue | false | 00:02:00
	lim-saved | continue | false | 00:02:00
$$);
CALL pg_temp.later('29.999999 s');
SELECT pg_temp.check_rows('a microsecond before save_ahead no attempt is told to save',
$$ SELECT job, action, reason, save FROM pg_temp.beat() WHERE job LIKE 'lim%' ORDER BY job $$, $$
	job       | action   | reason | save
	lim-asks  | continue | -      | false
	lim-never | continue | -      | false
	lim-plain | continue | -      | false
	lim-saved | continue | -      | false
$$);
CALL pg_temp.later('1 us');
SELECT pg_temp.check_rows('at save_ahead before the wall limit, by the time since the last report, those that asked or have saved get an order; one that saves by default hears that a save is due',
$$ SELECT job, action, reason, save FROM pg_temp.beat() WHERE job LIKE 'lim%' ORDER BY job $$, $$
	job       | action     | reason     | save
	lim-asks  | checkpoint | wall_limit | true
	lim-never | continue   | -          | false
	lim-plain | continue   | -          | true
	lim-saved | checkpoint | wall_limit | true
$$);
SELECT pg_temp.check_rows('meter() tells the attempts the same as heartbeat() tells their nodes',
$$ SELECT * FROM pg_temp.limits('510 s', 'lim-asks', 'lim-plain', 'lim-never', 'lim-saved') $$, $$
	job       | told                   | save  | time_left
	lim-asks  | checkpoint, wall_limit | true  | 00:01:30
	lim-never | continue               | false | 00:01:30
	lim-plain | continue               | true  | 00:01:30
	lim-saved | checkpoint, wall_limit | true  | 00:01:30
$$);
SELECT pg_temp.check_rows('the order before the wall limit has the wall limit as its deadline',
$$ SELECT h.deadline - gpucredit.now() AS deadline_in FROM unnest('{ckp-1,ckp-2,ckp-3}'::text[]) n,
	gpucredit.heartbeat(n) h WHERE h.job = pg_temp.job('lim-asks') $$, $$
	deadline_in
	00:01:30
$$);
CALL pg_temp.act($$ SELECT gpucredit.checkpoint('ckp', pg_temp.job(k), 1, 2, 'u2', sha256('2'), 1)
	FROM unnest('{lim-asks,lim-saved}'::text[]) k $$);
CALL pg_temp.later('80 s');
SELECT pg_temp.check_rows('before the wall limit the order to save is gone for those that have saved, and the one that has not is still told that a save is due',
$$ SELECT * FROM pg_temp.limits('590 s', 'lim-asks', 'lim-plain', 'lim-never', 'lim-saved') $$, $$
	job       | told     | save  | time_left
	lim-asks  | continue | false | 00:00:10
	lim-never | continue | false | 00:00:10
	lim-plain | continue | true  | 00:00:10
	lim-saved | continue | false | 00:00:10
$$);
SET gpucredit.save_ahead = 0;
CALL pg_temp.later('1 s');
SELECT pg_temp.check_rows('where save_ahead is 0 no save is due before the wall limit',
$$ SELECT * FROM pg_temp.limits('591 s', 'lim-plain') $$, $$
	job       | told     | save  | time_left
	lim-plain | continue | false | 00:00:09
$$);
RESET gpucredit.save_ahead;
CALL pg_temp.later('9 s');
SELECT pg_temp.check_rows('at the wall limit all attempts are told to stop, and none to save',
$$ SELECT * FROM pg_temp.limits('10 min', 'lim-asks', 'lim-plain', 'lim-never', 'lim-saved') $$, $$
	job       | told             | save  | time_left
	lim-asks  | stop, wall_limit | false | 00:00:00
	lim-never | stop, wall_limit | false | 00:00:00
	lim-plain | stop, wall_limit | false | 00:00:00
	lim-saved | stop, wall_limit | false | 00:00:00
$$);
SELECT pg_temp.check_rows('agents settle the four attempts at their wall limit as timeout',
$$ SELECT k AS job, pg_temp.settle(k, 1, 'timeout') AS outcome
	FROM unnest('{lim-asks,lim-plain,lim-never,lim-saved}'::text[]) k $$, $$
	job       | outcome
	lim-asks  | timeout
	lim-plain | timeout
	lim-never | timeout
	lim-saved | timeout
$$);
SELECT pg_temp.check_rows('the five attempts of the first scenario still run, and no job waits',
$$ SELECT * FROM pg_temp.finish() $$, $$
	completed | cancelled
	5         | 0
$$);
SELECT pg_temp.check_rows('two attempts with bad checkpoints were preempted, and the third one completed; an attempt that was never metered is billed for the time of its start, startup_max at most',
$$ SELECT * FROM pg_temp.attempts('asks') $$, $$
	job  | attempt | outcome   | elapsed  | billed   | job_state | failures | retry_in
	asks | 1       | preempted | 00:30:00 | 0.500000 | queued    | 0        | 00:00:00
	asks | 2       | preempted | 00:00:00 | 0.000000 | queued    | 0        | 00:00:00
	asks | 3       | completed | 00:05:00 | 0.083333 | completed | 0        | -
$$);
SELECT pg_temp.check_rows('each job is charged for what was metered, and everything else returns to the account',
$$ SELECT * FROM pg_temp.money('asks', 'lim-asks', 'lim-short', 'plain') $$, $$
	job       | charged  | refunded | returned  | held     | uncovered
	asks      | 0.583333 | 0.000000 | 29.416667 | 0.000000 | 0.000000
	lim-asks  | 0.166667 | 0.000000 | 0.000000  | 0.000000 | 0.000000
	lim-short | 0.016667 | 0.000000 | 0.008333  | 0.000000 | 0.000000
	plain     | 0.500000 | 0.000000 | 9.500000  | 0.000000 | 0.000000
$$);
SELECT pg_temp.check_none('verify() finds nothing wrong', 'SELECT * FROM gpucredit.verify()');

BEGIN;
\echo
\echo # verify() notices a wrong time of a save, and a promise beyond its deadline
UPDATE gpucredit.attempt SET saved_at = '2027-01-01' WHERE org = 'ckp' AND job = pg_temp.job('asks') AND attempt = 1;
INSERT INTO gpucredit.directive SELECT 'ckp', job, 1, 'reclaim', 'checkpoint', 'reclaim', '2027-05-01 00:00+00',
	'2027-04-01', '2027-05-01 00:00', '2027-05-01 00:01' FROM (VALUES (pg_temp.job('asks'))) j (job);
SELECT pg_temp.check_rows('verify() reports the late promise, and the attempt whose time of the last save is not that of its last checkpoint',
$$ SELECT invariant, regexp_replace(subject, 'job \d+', 'job N') AS subject, detail FROM gpucredit.verify('ckp') $$, $$
	invariant                | subject         | detail
	promise_is_in_time       | job N attempt 1 | to save from 2027-05-01 00:00:00+00, promised by 2027-05-01 00:01:00+00, gone at 2027-05-01 00:00:00+00
	saved_is_last_checkpoint | job N attempt 1 | saved at 2027-01-01 00:00:00+00, last checkpoint at 2027-04-01 00:30:10+00
$$);
ROLLBACK;
