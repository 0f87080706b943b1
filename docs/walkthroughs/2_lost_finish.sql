-- A lost finish: an agent ends its job, and nobody hears of it.
--
-- After gpucredit.meter_lost (5 min) without a word the attempt is settled at
-- what was last metered.  What comes later gets the stored settlement, and
-- what it claims more is evidence, never billed.
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET client_min_messages = warning;
SET gpucredit.node_suspect = 0;
SET gpucredit.clock = '2030-03-01 08:00+00';
SELECT gpucredit.create_account('acme') \g /dev/null
SELECT gpucredit.set_price('A100', 1.20) \g /dev/null
SELECT gpucredit.register_node('default', 'n1', 'A100', 4, 40960) \g /dev/null
SELECT gpucredit.issue('acme', '', 'paid', 100) \g /dev/null
SELECT * FROM gpucredit.reserve('acme', '', 'train-1', '4xA100', '10 h', max_retries => 1);
SELECT action, job, attempt, node, gpus FROM gpucredit.place();

-- The last heartbeat that arrives says 2 hours.
SET gpucredit.clock = '2030-03-01 10:00+00';
SELECT action, reason, billed, held, deadline, time_left
FROM gpucredit.meter('acme', 1, 1, '2 h');
-- The job ran on to 2 h 30 min and ended; the network was down.  The reaper
-- waits for exactly 5 minutes of silence.
SET gpucredit.clock = '2030-03-01 10:04:59.999999+00';
SELECT * FROM gpucredit.reap_holds() WHERE task = 'settle_silent';
SET gpucredit.clock = '2030-03-01 10:05+00';
SELECT * FROM gpucredit.reap_holds() WHERE task = 'settle_silent';
SELECT outcome, elapsed, billed, job_state, ended_at FROM gpucredit.attempt;
-- It was lost with its node, for all that is known: no failure, so it waits in
-- the queue again at once.  The work is paid for as far as it was heard of,
-- 2 h x 4 x 1.20.
SELECT job, state, attempt, failures, not_before, held FROM gpucredit.jobs;
SELECT available, held, spent FROM gpucredit.balance('acme');

-- The network is back.  A heartbeat is told to stop; the finish gets the
-- settlement there is, and so does its repetition.
SET gpucredit.clock = '2030-03-01 10:40+00';
SELECT action, reason, billed, held, deadline, time_left
FROM gpucredit.meter('acme', 1, 1, '2 h 20 min');
SELECT outcome, billed, released, lapsed, refunded, job_state, retry_at, replayed
FROM gpucredit.settle('acme', 1, 1, 'completed', '2 h 30 min', 0);
SELECT outcome, billed, released, lapsed, refunded, job_state, retry_at, replayed
FROM gpucredit.settle('acme', 1, 1, 'completed', '2 h 30 min', 0);
-- What it claimed more is in the audit, once for each claim.
SELECT audit, at, operation, decision, reason, attempt,
	CASE WHEN operation <> 'place' THEN detail END AS detail
FROM gpucredit.audit WHERE org = 'acme' AND job = 1 ORDER BY audit;
-- Nothing of it was billed.
SELECT available, held, spent FROM gpucredit.balance('acme');

-- The job's user sees it has its result, and cancels the second run.
SELECT * FROM gpucredit.cancel('acme', 1, 'cancel-1', 'done already');
SELECT at, what, attempt, CASE WHEN what <> 'place start' THEN detail END AS detail
FROM gpucredit.history('acme', 1);
SELECT available, held, spent FROM gpucredit.balance('acme');
SELECT * FROM gpucredit.verify();
