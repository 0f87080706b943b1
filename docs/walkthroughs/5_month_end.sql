-- A month's end with a job running through it: what counts in which month.
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET client_min_messages = warning;
SET gpucredit.node_suspect = 0;
SET gpucredit.clock = '2030-03-31 18:00+00';
SELECT gpucredit.create_account('acme'), gpucredit.create_account('acme', 'vision') \g /dev/null
SELECT gpucredit.set_price('A100', 1) \g /dev/null
SELECT gpucredit.register_node('default', 'n1', 'A100', 4, 40960) \g /dev/null
SELECT gpucredit.issue('acme', '', 'paid', 1000) \g /dev/null
-- Vision may spend 30 a month.
SELECT gpucredit.set_budget('acme', 'vision', 30) \g /dev/null

-- Eight hours of 4 A100, held for by the 4 hours: 16 now, of March.
SELECT * FROM gpucredit.reserve('acme', 'vision', 'train-1', '4xA100', '8 h', hold_window => '4 h');
SELECT action, job, attempt FROM gpucredit.place();
SELECT account, period_start, amount, reserved, spent, remaining FROM gpucredit.budgets('acme', 'vision');
-- Another one of that size does not fit into March any more.
SELECT status, reason FROM gpucredit.reserve('acme', 'vision', 'train-2', '4xA100', '4 h');
SET gpucredit.clock = '2030-03-31 21:56+00';
SELECT action, reason, billed, held, deadline, time_left
FROM gpucredit.meter('acme', 1, 1, '3 h 56 min');
-- Nor does the extension: the job is told to save, 4 minutes before its end...
SELECT account, period_start, reserved, spent, remaining FROM gpucredit.budgets('acme', 'vision');
-- ... the budget is raised, and it goes on.
SELECT gpucredit.set_budget('acme', 'vision', 40) \g /dev/null
SET gpucredit.clock = '2030-03-31 21:57+00';
SELECT action, reason, billed, held, deadline, time_left
FROM gpucredit.meter('acme', 1, 1, '3 h 57 min');

-- Midnight.  April's budget is whole, whoever looks first.
SET gpucredit.clock = '2030-04-01 00:00+00';
SELECT account, period_start, amount, reserved, spent, remaining FROM gpucredit.budgets('acme', 'vision');
SELECT status, held FROM gpucredit.reserve('acme', 'vision', 'train-3', '4xA100', '10 h');

-- Settled in April after 7 hours: 28 of 32.  The holds were of March, so March
-- spent them, and March gets back what was too much.
SET gpucredit.clock = '2030-04-01 01:00+00';
SELECT outcome, billed, released, lapsed, refunded, job_state, retry_at, replayed
FROM gpucredit.settle('acme', 1, 1, 'completed', '7 h');
SELECT account, period_start, reserved, spent FROM gpucredit.budget_counter ORDER BY period_start;
-- A refund too counts where its hold did.
SELECT * FROM gpucredit.refund('acme', 1, 'refund-1', 8, 'a slow switch');
SELECT account, period_start, reserved, spent FROM gpucredit.budget_counter ORDER BY period_start;

-- A month's invoice has what was used in it: of this run March has what was
-- logged by its end, though it is settled in April.  The lines of all months
-- come to the entries, to the last micro-credit.
SELECT * FROM gpucredit.invoice('acme', '2030-03-01');
SELECT * FROM gpucredit.invoice('acme', '2030-04-01');
SELECT * FROM gpucredit.usage_by('acme', '', '2030-03-01', '2030-05-01', 'day');
-- What was there on the 31st at noon, at midnight, and now.
SELECT t AS as_of, b.available, b.held, b.used, b.spent
FROM unnest('{2030-03-31 17:59,2030-04-01 00:00,2030-04-01 01:00}'::timestamptz[]) t,
	gpucredit.balance('acme', 'vision', t) b;
-- Every entry of the job.
SELECT at, operation, source, target, amount FROM gpucredit.entry WHERE job = 1 ORDER BY entry;
SELECT at, account, kind, period_start, threshold, detail ->> 'taken' AS taken FROM gpucredit.alert ORDER BY alert;
SELECT * FROM gpucredit.verify();
