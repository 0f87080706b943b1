-- A job preempted at 60 % of its hold: every entry and audit row, in order.
--
-- Vision has a promotion of 50 and the organisation 1,000 paid.  Eight H100
-- at 2.50 an hour for 10 hours are 200 credits.
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET client_min_messages = warning;
SET gpucredit.node_suspect = 0;
SET gpucredit.clock = '2030-03-01 08:00+00';
SELECT gpucredit.create_account('acme'), gpucredit.create_account('acme', 'vision') \g /dev/null
SELECT gpucredit.set_price('H100', 2.50) \g /dev/null
SELECT gpucredit.register_node('default', 'n1', 'H100', 8, 81920),
	gpucredit.register_node('default', 'n2', 'H100', 8, 81920) \g /dev/null
SELECT gpucredit.issue('acme', '', 'paid', 1000),
	gpucredit.issue('acme', 'vision', 'promo', 50, 'promo', valid_for => '30 days') \g /dev/null

-- Submitted and started: the promotion burns first, the rest is paid.
SELECT * FROM gpucredit.reserve('acme', 'vision', 'train-1', '8xH100', '10 h');
SELECT action, job, attempt, node, gpus, per_gpu_hour FROM gpucredit.place();
SELECT part, bucket, drawn, held FROM gpucredit.hold_part ORDER BY hold, part;

-- Heartbeats: nothing is written to the ledger, what was used is in the hold.
SET gpucredit.clock = '2030-03-01 13:30+00';
SELECT action, reason, billed, held, deadline, time_left
FROM gpucredit.meter('acme', 1, 1, '5 h 30 min');
SELECT gpucredit.checkpoint('acme', 1, 1, 42000, 's3://ckpt/1/42000', sha256('42000'), 1048576);
SELECT available, held, used, spent FROM gpucredit.balance('acme', 'vision');

-- After 6 of 10 hours the job must go, and its agent says so: 120 of 200 are
-- billed, first drawn first; 80 go back to where they came from last.  The
-- job is in the queue again, under a new hold, at the prices of now.
SET gpucredit.clock = '2030-03-01 14:00+00';
SELECT outcome, billed, released, lapsed, refunded, job_state, retry_at, replayed
FROM gpucredit.settle('acme', 1, 1, 'preempted', '6 h');
SELECT bucket, kind, available, held, spent FROM gpucredit.buckets('acme', 'vision');
SELECT job, state, attempt, failures, held FROM gpucredit.jobs;

-- It starts again, goes on from its checkpoint, and is done in 4.5 hours.
SELECT action, job, attempt, node, gpus FROM gpucredit.place();
SET gpucredit.clock = '2030-03-01 18:30+00';
SELECT outcome, billed, released, lapsed, refunded, job_state, retry_at, replayed
FROM gpucredit.settle('acme', 1, 2, 'completed', '4 h 30 min');

-- Every entry.
SELECT entry, at, operation, bucket, source, target, amount, hold, part, attempt
FROM gpucredit.entry WHERE org = 'acme' ORDER BY entry;
-- Every audit row (what place decided beside "start" is left out).
SELECT audit, at, operation, decision, job, attempt, hold,
	CASE WHEN operation <> 'place' THEN detail END AS detail
FROM gpucredit.audit WHERE org = 'acme' AND job IS NOT NULL ORDER BY audit;
-- What the account sees: 10.5 hours of 8 H100 at 2.50.
SELECT available, held, used, spent FROM gpucredit.balance('acme', 'vision');
SELECT * FROM gpucredit.invoice('acme', '2030-03-01');
SELECT * FROM gpucredit.verify();
