-- Attempts that make no progress: each is told to save, then to stop, then it
-- ends as a failure, and its job is tried again.
\set ECHO none
\getenv folder PG_ABS_SRCDIR
\set check :folder '/sql/include/check.sql'
\set scenario :folder '/sql/include/scenario.sql'
\i :check
\i :scenario
SET scenario.org = 'pro';

CALL pg_temp.open_account();
CALL pg_temp.open_pool('pro', 3);

-- What the attempt of a job is told when it reports its time and its count.
CREATE FUNCTION pg_temp.told(job_key text, ran interval, count bigint) RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(', ', m.action, m.reason, m.time_left)
	FROM gpucredit.meter('pro', pg_temp.job(job_key), 1, ran, count) m
$$;
-- How many attempts a sweep settles as overdue.
CREATE FUNCTION pg_temp.overdue() RETURNS text LANGUAGE sql AS $$
	SELECT affected::text FROM gpucredit.reap_holds() WHERE task = 'settle_overdue'
$$;

\echo
\echo # One attempt reports a count that stops growing, another one never reports a count
CALL pg_temp.beats(1);
CALL pg_temp.submit('stuck', '1xSC-A');
CALL pg_temp.submit('quiet', '1xSC-A');
SELECT pg_temp.check_rows('the job that will get stuck and the job that reports no count start', $$ SELECT job FROM pg_temp.place() $$, $$
	job
	stuck
	quiet
$$);
CALL pg_temp.later('1 min');
SET gpucredit.progress_timeout = '10 min';
SELECT pg_temp.check_value('the attempt that reports its first count goes on',
	pg_temp.told('stuck', '1 min', 5), 'continue, 09:59:00');
SELECT pg_temp.check_value('the attempt that reports no count goes on',
	pg_temp.told('quiet', '1 min', NULL), 'continue, 09:59:00');
CALL pg_temp.later('9 min');
SELECT pg_temp.check_value('the attempt whose count has grown goes on',
	pg_temp.told('stuck', '10 min', 6), 'continue, 09:50:00');
SELECT pg_temp.check_value('after ten minutes the attempt that reports no count goes on',
	pg_temp.told('quiet', '10 min', NULL), 'continue, 09:50:00');
CALL pg_temp.later('9 min 59.999999 s');
SELECT pg_temp.check_value('the attempt without progress goes on until a microsecond before progress_timeout since its count grew',
	pg_temp.told('stuck', '19 min', 6), 'continue, 09:41:00');
SELECT pg_temp.check_value('after almost twenty minutes the attempt that reports no count goes on',
	pg_temp.told('quiet', '19 min', NULL), 'continue, 09:41:00');
CALL pg_temp.later('1 us');
SELECT pg_temp.check_value('at progress_timeout the attempt without progress is told to save within a minute',
	pg_temp.told('stuck', '20 min', NULL), 'checkpoint, stuck, 00:01:00');
SELECT pg_temp.check_value('after twenty minutes the attempt that reports no count goes on',
	pg_temp.told('quiet', '20 min', NULL), 'continue, 09:40:00');
BEGIN;
CALL pg_temp.later('1 s');
SELECT pg_temp.check_value('a count that grows withdraws the order to save',
	pg_temp.told('stuck', '20 min 1 s', 7), 'continue, 09:39:59');
ROLLBACK;
CALL pg_temp.later('1 min');
SELECT pg_temp.check_value('a minute after the order to save the attempt without progress is told to stop; a count below the highest one is no progress',
	pg_temp.told('stuck', '21 min', 5), 'stop, stuck, 00:00:00');
SELECT pg_temp.check_value('after twenty-one minutes the attempt that reports no count goes on',
	pg_temp.told('quiet', '21 min', NULL), 'continue, 09:39:00');
SELECT pg_temp.check_value('the sweep does not settle the attempt that is just told to stop', pg_temp.overdue(), '0');
CALL pg_temp.later('1 min');
SET gpucredit.progress_timeout = 0;
SELECT pg_temp.check_value('where progress_timeout is 0 the attempt without progress goes on',
	pg_temp.told('stuck', '22 min', NULL), 'continue, 09:38:00');
SELECT pg_temp.check_value('where progress_timeout is 0 the sweep settles no attempt for want of progress',
	pg_temp.overdue(), '0');
SET gpucredit.progress_timeout = '10 min';
SELECT pg_temp.check_value('two minutes after progress_timeout the sweep settles the attempt without progress',
	pg_temp.overdue(), '1');
SELECT pg_temp.check_rows('the attempt without progress ends as failed and billed as metered; it counts as a failure, and its job is tried again after 30 s',
$$ SELECT * FROM pg_temp.attempts('stuck') $$, $$
	job   | attempt | outcome | elapsed  | billed   | job_state | failures | retry_in
	stuck | 1       | failed  | 00:22:00 | 0.366667 | queued    | 1        | 00:00:30
$$);
SELECT pg_temp.check_rows('audit has the rule by which the attempt without progress ended, and for how long it had made none',
$$ SELECT detail ->> 'rule' AS rule, detail ->> 'message' AS message FROM gpucredit.audit
	WHERE org = 'pro' AND job = pg_temp.job('stuck') AND operation = 'settle' $$, $$
	rule  | message
	stuck | no progress for 720 s
$$);
RESET gpucredit.progress_timeout;

\echo
\echo # An attempt without progress is silent, so that nobody could tell it to stop
SET gpucredit.heartbeat_timeout = 0;
SET gpucredit.progress_timeout = '10 min';
CALL pg_temp.submit('away', '1xSC-A');
CALL pg_temp.beats(1);
SELECT pg_temp.check_rows('a new job starts, and the one that failed waits', $$ SELECT job FROM pg_temp.place() $$, $$
	job
	away
$$);
SELECT pg_temp.check_value('the attempt that reports a first count is told to continue', action, 'continue')
FROM gpucredit.meter('pro', pg_temp.job('away'), 1, '0', 1);
CALL pg_temp.later('1 h');
SELECT pg_temp.check_value('after an hour of silence the sweep settles no attempt for want of progress',
	pg_temp.overdue(), '0');
SELECT pg_temp.check_rows('the silent attempt that reports again, and has made progress, is told to continue',
$$ SELECT action, reason FROM gpucredit.meter('pro', pg_temp.job('away'), 1, '1 h', 2) $$, $$
	action   | reason
	continue | -
$$);
SELECT pg_temp.check_value('the attempt that was silent completes',
	pg_temp.settle('away', 1, 'completed'), 'completed');
RESET gpucredit.heartbeat_timeout;
RESET gpucredit.progress_timeout;
SELECT pg_temp.check_rows('the job that failed waits, so it is cancelled at once',
$$ SELECT * FROM gpucredit.cancel('pro', pg_temp.job('stuck'), 'cstuck') $$, $$
	job_state | replayed
	cancelled | false
$$);
SELECT pg_temp.check_value('the attempt that never reported a count completes',
	pg_temp.settle('quiet', 1, 'completed'), 'completed');
SELECT pg_temp.check_rows('each job is charged for what was metered, and everything else returns to the account',
$$ SELECT * FROM pg_temp.money('away', 'quiet', 'stuck') $$, $$
	job   | charged  | refunded | returned  | held     | uncovered
	away  | 1.000000 | 0.000000 | 9.000000  | 0.000000 | 0.000000
	quiet | 0.350000 | 0.000000 | 9.650000  | 0.000000 | 0.000000
	stuck | 0.366667 | 0.000000 | 19.633333 | 0.000000 | 0.000000
$$);

SELECT pg_temp.check_none('verify() finds nothing wrong', 'SELECT * FROM gpucredit.verify()');
