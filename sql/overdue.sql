-- Attempts that do not stop when they must: the server settles them a minute
-- after the order, whatever their agents report.
\set ECHO none
\getenv folder PG_ABS_SRCDIR
\set check :folder '/sql/include/check.sql'
\set scenario :folder '/sql/include/scenario.sql'
\i :check
\i :scenario
SET scenario.org = 'due';

CALL pg_temp.open_account();
CALL pg_temp.open_pool('due', 3);

-- What the first attempts of jobs are told when each reports that it has run
-- for ten minutes.
CREATE FUNCTION pg_temp.told(VARIADIC keys text[]) RETURNS TABLE (job text, action text, reason text, time_left interval)
LANGUAGE sql AS $$
	SELECT k, m.action, m.reason, m.time_left
	FROM unnest(keys) k, gpucredit.meter('due', pg_temp.job(k), 1, '10 min') m
$$;
-- A sweep, and what it did: only tasks that did something.
CREATE FUNCTION pg_temp.swept() RETURNS TABLE (task text, affected bigint) LANGUAGE sql AS $$
	SELECT r.task, r.affected FROM gpucredit.reap_holds() r WHERE r.affected <> 0
$$;

\echo
\echo # A cancelled attempt, one whose agent is silent, one beyond its wall limit, one on a drained node
CALL pg_temp.beats(1);
CALL pg_temp.submit('liar', '1xSC-A', wall => '1 h');
CALL pg_temp.submit('stays', '4xSC-A');
CALL pg_temp.submit('cancelled', '1xSC-A');
CALL pg_temp.submit('mute', '1xSC-A', wall => '4 min');
SELECT pg_temp.check_rows('the four jobs start',
$$ SELECT job, attempt FROM pg_temp.place() $$, $$
	job       | attempt
	liar      | 1
	stays     | 1
	cancelled | 1
	mute      | 1
$$);
SELECT pg_temp.check_value('four attempts are metered',
	count(gpucredit.meter('due', job, attempt, '0'))::text, '4')
FROM gpucredit.attempt WHERE org = 'due' AND ended_at IS NULL;
SELECT pg_temp.check_rows('a job that is cancelled while it runs is stopping',
$$ SELECT job_state FROM gpucredit.cancel('due', pg_temp.job('cancelled'), 'cc') $$, $$
	job_state
	stopping
$$);
CALL pg_temp.later('59.999999 s');
SELECT pg_temp.check_none('a microsecond before a minute has passed since cancel() the sweep does nothing',
$$ SELECT * FROM pg_temp.swept() $$);
CALL pg_temp.later('1 us');
SELECT pg_temp.check_rows('a minute after cancel() the sweep settles the attempt as overdue',
$$ SELECT * FROM gpucredit.reap_holds() $$, $$
	task           | affected
	release_holds  | 0
	settle_silent  | 0
	settle_overdue | 1
	fund_jobs      | 0
	skipped        | 0
$$);
SELECT pg_temp.check_rows('the cancelled attempt ends as cancelled and as last metered, and its job with it',
$$ SELECT * FROM pg_temp.attempts('cancelled') $$, $$
	job       | attempt | outcome   | elapsed  | billed   | job_state | failures | retry_in
	cancelled | 1       | cancelled | 00:00:00 | 0.000000 | cancelled | 0        | -
$$);
CALL pg_temp.beats(24);
SELECT pg_temp.check_rows('attempts that report ten minutes go on, with the time left by the wall limit and the server''s clock',
$$ SELECT * FROM pg_temp.told('liar', 'stays') $$, $$
	job   | action   | reason | time_left
	liar  | continue | -      | 00:54:55
	stays | continue | -      | 09:54:55
$$);
CALL pg_temp.later('5 s');
SELECT pg_temp.check_rows('the sweep settles the attempt of which nobody has heard for five minutes as silent',
$$ SELECT * FROM gpucredit.reap_holds() $$, $$
	task           | affected
	release_holds  | 0
	settle_silent  | 1
	settle_overdue | 0
	fund_jobs      | 0
	skipped        | 0
$$);
SELECT pg_temp.check_rows('a silent attempt whose wall limit has passed ends as timeout, not as a failure to be retried',
$$ SELECT * FROM pg_temp.attempts('mute') $$, $$
	job  | attempt | outcome | elapsed  | billed   | job_state | failures | retry_in
	mute | 1       | timeout | 00:00:00 | 0.000000 | timeout   | 0        | -
$$);
CALL pg_temp.beats(330);
SELECT pg_temp.check_value('the job of four runs on one node, which is drained as of now',
	count(gpucredit.drain(node, 'fan', gpucredit.now()))::text, '1')
FROM gpucredit.attempt_gpu WHERE org = 'due' AND job = pg_temp.job('stays');
SELECT pg_temp.check_rows('an attempt that reports less than the wall limit is told to stop by the server''s clock, and the one on the drained node, too',
$$ SELECT * FROM pg_temp.told('liar', 'stays') $$, $$
	job   | action | reason     | time_left
	liar  | stop   | wall_limit | 00:00:00
	stays | stop   | drain      | 00:00:00
$$);
SELECT pg_temp.check_rows('the agent of a node hears of the wall limit by its heartbeat, too',
$$ SELECT h.action, h.reason FROM unnest('{due-1,due-2,due-3}'::text[]) n, gpucredit.heartbeat(n) h
	WHERE h.job = pg_temp.job('liar') $$, $$
	action | reason
	stop   | wall_limit
$$);
SELECT pg_temp.check_none('the sweep settles no attempt at the moment when its time is over', $$ SELECT * FROM pg_temp.swept() $$);
CALL pg_temp.later('59.999999 s');
SELECT pg_temp.check_rows('for a minute the attempts beyond the wall limit and on the drained node are told to stop',
$$ SELECT * FROM pg_temp.told('liar', 'stays') $$, $$
	job   | action | reason     | time_left
	liar  | stop   | wall_limit | 00:00:00
	stays | stop   | drain      | 00:00:00
$$);
SELECT pg_temp.check_none('a microsecond before a minute has passed since the orders to stop the sweep settles neither attempt',
$$ SELECT * FROM pg_temp.swept() $$);
CALL pg_temp.later('1 us');
SELECT pg_temp.check_rows('a minute after the orders to stop the sweep settles both attempts as overdue',
$$ SELECT * FROM gpucredit.reap_holds() $$, $$
	task           | affected
	release_holds  | 0
	settle_silent  | 0
	settle_overdue | 2
	fund_jobs      | 0
	skipped        | 0
$$);
SELECT pg_temp.check_rows('beyond the wall limit an attempt ends as timeout, on a drained node as preempted; both are billed as metered',
$$ SELECT * FROM pg_temp.attempts('liar', 'stays') $$, $$
	job   | attempt | outcome   | elapsed  | billed   | job_state | failures | retry_in
	liar  | 1       | timeout   | 00:10:00 | 0.166667 | timeout   | 0        | -
	stays | 1       | preempted | 00:10:00 | 0.666667 | queued    | 0        | 00:00:00
$$);
SELECT pg_temp.check_rows('audit has the wall limit and the drain as the reasons of the settlements',
$$ SELECT k AS job, pg_temp.why(k) AS reason FROM unnest('{liar,stays}'::text[]) k $$, $$
	job   | reason
	liar  | wall_limit
	stays | drain
$$);
SELECT pg_temp.check_value('one node was draining, and is resumed', count(gpucredit.resume(node))::text, '1')
FROM gpucredit.node WHERE pool = 'due' AND draining IS NOT NULL;
SELECT pg_temp.check_rows('the job that waits since the drain is cancelled at once',
$$ SELECT * FROM gpucredit.cancel('due', pg_temp.job('stays'), 'cst') $$, $$
	job_state | replayed
	cancelled | false
$$);
SELECT pg_temp.check_rows('each job is charged for what was metered, and everything else returns to the account',
$$ SELECT * FROM pg_temp.money('cancelled', 'liar', 'mute', 'stays') $$, $$
	job       | charged  | refunded | returned  | held     | uncovered
	cancelled | 0.000000 | 0.000000 | 10.000000 | 0.000000 | 0.000000
	liar      | 0.166667 | 0.000000 | 0.833333  | 0.000000 | 0.000000
	mute      | 0.000000 | 0.000000 | 0.066667  | 0.000000 | 0.000000
	stays     | 0.666667 | 0.000000 | 79.333333 | 0.000000 | 0.000000
$$);

\echo
\echo # An attempt that is to be resized does not stop
CALL pg_temp.beats(1);
CALL pg_temp.submit('shrinks', '1xSC-A');
SELECT pg_temp.check_rows('the job that is to be resized starts', $$ SELECT job FROM pg_temp.place() $$, $$
	job
	shrinks
$$);
INSERT INTO gpucredit.directive VALUES ('due', pg_temp.job('shrinks'), 1, 'claim', 'stop', 'resized', NULL, gpucredit.now());
CALL pg_temp.beats(6);
SELECT pg_temp.check_rows('a minute after the order the sweep settles the attempt that is to be resized as overdue',
$$ SELECT * FROM pg_temp.swept() $$, $$
	task           | affected
	settle_overdue | 1
$$);
SELECT pg_temp.check_rows('the attempt that is to be resized ends as resized, and its job is queued again without a failure',
$$ SELECT job, outcome, job_state, failures FROM pg_temp.attempts('shrinks') $$, $$
	job     | outcome | job_state | failures
	shrinks | resized | queued    | 0
$$);
SELECT pg_temp.check_rows('the job that waits to start resized is cancelled at once',
$$ SELECT * FROM gpucredit.cancel('due', pg_temp.job('shrinks'), 'csh') $$, $$
	job_state | replayed
	cancelled | false
$$);

\echo
\echo # An attempt that is out of funds does not stop
CALL pg_temp.act($$ SELECT gpucredit.create_account('due', 'poor') $$);
SELECT pg_temp.check_error('credit cannot be issued to an organisation that has no account',
	$$ SELECT gpucredit.issue('due-p', '', 'i', 1) $$, 'UC001');
CALL pg_temp.act($$ SELECT gpucredit.create_account('due-p') $$);
SELECT pg_temp.check_rows('half a credit is issued',
$$ SELECT replayed FROM gpucredit.issue('due-p', '', 'i', 0.5) $$, $$
	replayed
	false
$$);
SELECT pg_temp.check_rows('a job that holds half an hour at a time takes all of it',
$$ SELECT status, held FROM gpucredit.reserve('due-p', '', 'poor', '1xSC-A', '10 h', pool => 'due', hold_window => '30 min') $$, $$
	status  | held
	granted | 0.500000
$$);
CALL pg_temp.beats(1);
SELECT pg_temp.check_value('the poor job starts on one node', count(*)::text, '1') FROM pg_temp.place();
SELECT job AS poor FROM gpucredit.job WHERE org = 'due-p' \gset
SELECT pg_temp.check_value('the attempt that has credit is told to continue', action, 'continue')
FROM gpucredit.meter('due-p', :poor, 1, '0');
CALL pg_temp.later('30 min 59 s');
SELECT pg_temp.check_value('an attempt whose credit is used up is told to stop, and is billed no more than there was',
	concat_ws(' ', action, reason, billed), 'stop low_funds 0.500000')
FROM gpucredit.meter('due-p', :poor, 1, '30 min 59 s');
SELECT pg_temp.check_none('the sweep does not settle the attempt without credit before its minute is over',
$$ SELECT * FROM pg_temp.swept() $$);
CALL pg_temp.later('31 s');
SELECT pg_temp.check_value('half a minute later the attempt without credit is still told to stop, and is billed nothing further',
	concat_ws(' ', action, reason, billed), 'stop low_funds 0.500000')
FROM gpucredit.meter('due-p', :poor, 1, '31 min 1 s');
SELECT pg_temp.check_rows('the sweep settles the attempt without credit a minute after that was used up',
$$ SELECT * FROM pg_temp.swept() $$, $$
	task           | affected
	settle_overdue | 1
$$);
SELECT pg_temp.check_rows('the attempt without credit ends as preempted, with all of its elapsed time, and its job waits for credit',
$$ SELECT outcome, elapsed, billed, job_state FROM gpucredit.attempt WHERE org = 'due-p' $$, $$
	outcome   | elapsed  | billed   | job_state
	preempted | 00:31:01 | 0.500000 | unfunded
$$);
SELECT pg_temp.check_rows('the hold of the poor job is charged in full, and the time beyond it, 61 s, is noted as not covered',
$$ SELECT h.captured, h.refunded, h.released, h.held, a.uncollected
	FROM gpucredit.hold h JOIN gpucredit.attempt a USING (org, job) WHERE h.org = 'due-p' $$, $$
	captured | refunded | released | held | uncollected
	0.500000 | 0.000000 | 0.000000 | 0.000000 | 0.016944
$$);
SELECT pg_temp.check_value('the job that waits for credit is cancelled, as a new request', replayed::text, 'false')
FROM gpucredit.cancel('due-p', :poor, 'c');

\echo
\echo # The sweep of holds where nothing can be written
BEGIN READ ONLY;
SELECT pg_temp.check_error('the sweep of holds fails as a write in a read-only transaction, and blames no row as bad data',
	'SELECT * FROM gpucredit.reap_holds()', '25006');
ROLLBACK;

SELECT pg_temp.check_none('verify() finds nothing wrong', 'SELECT * FROM gpucredit.verify()');
