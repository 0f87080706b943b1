-- A lost finish: an agent ends its job, and nobody hears of it.
--
-- After gpucredit.heartbeat_timeout (5 min) without a word the attempt is settled at
-- what was last metered, and its job queued again.  Should it have completed,
-- and its agent say so before another attempt began, the job is complete.
-- After that the settlement stands: what comes then is evidence, never billed.
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET client_min_messages = warning;
SET gpucredit.node_suspect = 0;
SET gpucredit.clock = '2030-03-01 08:00+00';
SELECT gpucredit.create_account('acme') \g /dev/null
SELECT gpucredit.set_price('A100', 1.20) \g /dev/null
SELECT gpucredit.register_node('default', 'n1', 'A100', 8, 40960) \g /dev/null
SELECT gpucredit.issue('acme', '', 'paid', 200) \g /dev/null
SELECT * FROM gpucredit.reserve('acme', '', 'train-1', '4xA100', '10 h', max_retries => 1);
SELECT * FROM gpucredit.reserve('acme', '', 'train-2', '4xA100', '10 h', max_retries => 1);
SELECT action, job, attempt, node, gpus FROM gpucredit.place();

-- The last heartbeats that arrive say 2 hours.
SET gpucredit.clock = '2030-03-01 10:00+00';
SELECT action, reason, billed, held, deadline, time_left
FROM gpucredit.meter('acme', 1, 1, '2 h');
SELECT action, reason, billed, held, deadline, time_left
FROM gpucredit.meter('acme', 2, 1, '2 h');
-- Both jobs ran on to 2 h 30 min and ended; the network was down.  The reaper
-- waits for exactly 5 minutes of silence.
SET gpucredit.clock = '2030-03-01 10:04:59.999999+00';
SELECT * FROM gpucredit.reap_holds() WHERE task = 'settle_silent';
SET gpucredit.clock = '2030-03-01 10:05+00';
SELECT * FROM gpucredit.reap_holds() WHERE task = 'settle_silent';
SELECT job, outcome, elapsed, billed, job_state, ended_at FROM gpucredit.attempt ORDER BY job;
-- They were lost with their node, for all that is known: no failure, so they
-- wait in the queue again at once.  The work is paid for as far as it was
-- heard of, 2 h x 4 x 1.20 each.
SELECT job, state, attempt, failures, not_before, held FROM gpucredit.jobs ORDER BY job;
SELECT available, held, spent FROM gpucredit.balance('acme');

-- The network is back.  The answer to a heartbeat is stop.  Job 1 has not
-- started again, so its late report counts: it completed, and is billed for
-- 2 h 30 min.  The same report again gets the same answer.
SET gpucredit.clock = '2030-03-01 10:40+00';
SELECT action, reason, billed, held, deadline, time_left
FROM gpucredit.meter('acme', 1, 1, '2 h 20 min');
SELECT outcome, billed, released, lapsed, refunded, job_state, retry_at, replayed, uncollected
FROM gpucredit.settle('acme', 1, 1, 'completed', '2 h 30 min', 0);
SELECT outcome, billed, released, lapsed, refunded, job_state, retry_at, replayed, uncollected
FROM gpucredit.settle('acme', 1, 1, 'completed', '2 h 30 min', 0);
-- What was held for its second run is free.
SELECT job, state, attempt, failures, not_before, held FROM gpucredit.jobs ORDER BY job;

-- The second one starts again before its agent has said anything.  Now there
-- are two runs, and the settlement of the first one stands.
SELECT count(*) FROM gpucredit.heartbeat('n1', running => '{}');
SELECT action, job, attempt, node, gpus FROM gpucredit.place();
SELECT outcome, billed, released, lapsed, refunded, job_state, retry_at, replayed, uncollected
FROM gpucredit.settle('acme', 2, 1, 'completed', '2 h 30 min', 0);
-- What it claimed more is in the audit, once for each claim; none was billed.
SELECT audit, at, operation, decision, reason, attempt,
	CASE WHEN operation <> 'place' THEN detail END AS detail
FROM gpucredit.audit WHERE org = 'acme' AND job = 2 ORDER BY audit;
SELECT available, held, spent FROM gpucredit.balance('acme');

-- The job's user sees it has its result, and cancels the second run.
SELECT * FROM gpucredit.cancel('acme', 2, 'cancel-2', 'done already');
SELECT outcome, billed, job_state FROM gpucredit.settle('acme', 2, 2, 'cancelled', '0');
SELECT at, what, attempt, CASE WHEN what <> 'place start' THEN detail END AS detail
FROM gpucredit.history('acme', 1);
SELECT available, held, spent FROM gpucredit.balance('acme');
SELECT * FROM gpucredit.verify();
