-- A retry storm on one key: a client that hears no answer and asks again, a
-- thousand times.
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET client_min_messages = warning;
SET gpucredit.node_suspect = 0;
SET gpucredit.clock = '2030-03-01 08:00+00';
SELECT gpucredit.create_account('acme') \g /dev/null
SELECT gpucredit.set_price('A100', 1) \g /dev/null
SELECT gpucredit.register_node('default', 'n1', 'A100', 4, 40960) \g /dev/null
SELECT gpucredit.issue('acme', '', 'paid', 10) \g /dev/null

-- The same call a thousand times: one job, one hold, one audit row; every
-- answer is the first one's.
SELECT job, status, held, replayed, count(*)
FROM generate_series(1, 1000), gpucredit.reserve('acme', '', 'train-1', '4xA100', '2 h')
GROUP BY 1, 2, 3, 4 ORDER BY replayed;
SELECT available, held FROM gpucredit.balance('acme');
SELECT operation, decision, count(*) FROM gpucredit.audit WHERE org = 'acme' AND job = 1 GROUP BY 1, 2;
-- Equal by value is equal: another way to write it, a default written out.
SELECT job, replayed FROM gpucredit.reserve('acme', '', 'train-1', '4xA100', '120 minutes',
	'standard_training', 'default', spec => '{}');
-- Anything else under the key is another intention.
SELECT * FROM gpucredit.reserve('acme', '', 'train-1', '4xA100', '3 h');
SELECT * FROM gpucredit.hold('acme', '', 'train-1', 1, '1 h');

-- The agent's finish, over and over: settled once.
SELECT action, job, attempt FROM gpucredit.place();
SET gpucredit.clock = '2030-03-01 09:00+00';
SELECT outcome, billed, released, replayed, count(*)
FROM generate_series(1, 1000), gpucredit.settle('acme', 1, 1, 'completed', '1 h')
GROUP BY 1, 2, 3, 4 ORDER BY replayed;
SELECT available, held, spent FROM gpucredit.balance('acme');

-- A client that takes a new key each time, without credit for any: each is
-- denied, the audit has the first, and a number.
SELECT status, reason, count(*)
FROM generate_series(1, 1000) n, gpucredit.reserve('acme', '', 'more-' || n, '4xA100', '2 h')
GROUP BY 1, 2;
SELECT * FROM gpucredit.denials('acme');
SET gpucredit.clock = '2030-03-01 09:01+00';
SELECT * FROM gpucredit.maintain() WHERE affected > 0;
SELECT at, operation, decision, reason, detail FROM gpucredit.audit
WHERE org = 'acme' AND decision = 'denied' ORDER BY audit;
SELECT * FROM gpucredit.denials('acme');
-- A stored denial stays one, also when credit has come; a new key is asked again.
SELECT gpucredit.issue('acme', '', 'more', 100) \g /dev/null
SELECT status, reason, replayed FROM gpucredit.reserve('acme', '', 'more-1', '4xA100', '2 h');
SELECT status, reason, replayed FROM gpucredit.reserve('acme', '', 'more-1001', '4xA100', '2 h');
SELECT * FROM gpucredit.verify();
