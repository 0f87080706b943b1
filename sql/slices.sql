--
-- Accounts spread over slices give the same figures, grants and refusals.
--
SET search_path = gpucredit, public;
SET timezone = 'UTC';
SET client_min_messages = warning;
SET gpucredit.node_suspect = 0;
SET gpucredit.clock = '2027-05-10 12:00+00';

SELECT create_account('sli'), create_account('sli', 'lab'),
	issue('sli', '', 'promo', 40, 'promo', '2027-05-12 12:00+00'),
	issue('sli', '', 'paid', 10000), issue('sli', 'lab', 'own', 60, 'grant') \g /dev/null
SELECT set_budget('sli', '', 5000), set_budget('sli', 'lab', 200, 'day') \g /dev/null
SELECT set_slices('sli', '', 4), set_slices('sli', 'lab', 2) \g /dev/null

-- What the tables hold: buckets and budgets, and how much their slices have.
CREATE VIEW inside AS
	SELECT 'bucket ' || r.key AS what, b.slices, b.spread, b.available,
		b.held, b.spent, count(s.slice) AS rows, sum(s.available) AS in_slices
	FROM bucket b
		LEFT JOIN bucket_slice s ON s.org = b.org AND s.bucket = b.bucket
		LEFT JOIN request r ON r.org = b.org AND r.operation = 'issue'
			AND r.result[1] = b.bucket::text
	WHERE b.org = 'sli'
	GROUP BY b.bucket, r.key, b.slices, b.spread, b.available, b.held, b.spent
	UNION ALL
	SELECT format('budget %s %s', c.account, c.period), b.slices, c.spread,
		NULL, c.reserved, c.spent, count(s.slice), sum(s.most)
	FROM budget_counter c
		JOIN budget b USING (org, account, period)
		LEFT JOIN budget_slice s ON s.org = c.org AND s.account = c.account
			AND s.period = c.period AND s.period_start = c.period_start
	WHERE c.org = 'sli'
	GROUP BY c.account, c.period, c.period_start, b.slices, c.spread,
		c.reserved, c.spent
	ORDER BY 1;

-- the first hold spreads its bucket, which has enough left to share
SELECT status, held FROM hold('sli', '', 's1', 1, '1 h');
SELECT * FROM inside;
-- each further hold touches one slice
SELECT count(*) FILTER (WHERE status = 'granted') AS granted
FROM generate_series(2, 9) n, hold('sli', '', 's' || n, 1, '1 h');
SELECT what, spread, available, held, rows, in_slices FROM inside;
SELECT slice, available, held FROM bucket_slice s WHERE org = 'sli' ORDER BY 1;
-- callers see nothing of it
SELECT kind, available, held, usable FROM buckets('sli', 'lab');
SELECT account, reserved, remaining FROM budgets('sli', 'lab');
SELECT available, spendable, held FROM balance('sli');
SELECT * FROM verify('sli');

-- The burn order is the whole account's: more than a slice has comes from all
-- slices, and the rest is too small for slices
SELECT status, held FROM hold('sli', '', 'big', 30, '1 h');
SELECT kind, available, held FROM buckets('sli');
SELECT * FROM inside;
SELECT * FROM verify('sli');

-- an account below draws its own, then from its ancestor's slices
SELECT status, held FROM hold('sli', 'lab', 'l1', 70, '1 h');
SELECT status, reason FROM hold('sli', 'lab', 'l2', 130.000001, '1 h');
SELECT status, reason FROM hold('sli', 'lab', 'l3', 130, '1 h');
SELECT kind, available, held FROM buckets('sli', 'lab');
SELECT account, reserved, remaining FROM budgets('sli', 'lab');
SELECT * FROM verify('sli');

-- What returns goes to the buckets it came from, however many slices there are
-- by then
SELECT set_slices('sli', '', 3) \g /dev/null
SELECT hold AS l1 FROM hold('sli', 'lab', 'l1', 70, '1 h') \gset
SELECT captured, released, lapsed FROM capture('sli', :l1, 'cl1', 65);
SELECT refunded, lapsed FROM refund_hold('sli', :l1, 'rl1', 6, 'sorry');
SELECT hold AS big FROM hold('sli', '', 'big', 30, '1 h') \gset
SELECT captured, released FROM capture('sli', :big, 'cb', 0, false);
SELECT released FROM release('sli', :big, 'rb');
SELECT kind, available, held, spent FROM buckets('sli', 'lab');
SELECT account, reserved, spent, remaining FROM budgets('sli', 'lab');
SELECT * FROM verify('sli');

-- With the credit scattered over slices, holds get all of it, and no more
SELECT create_account('few'), create_account('few', 'lab'),
	issue('few', '', 'few', 17), set_slices('few', '', 4) \g /dev/null
SELECT count(*) FILTER (WHERE status = 'granted') AS granted
FROM generate_series(1, 5) n, hold('few', '', 'f' || n, 0.4, '1 h');
SELECT slice, available FROM bucket_slice WHERE org = 'few' ORDER BY 1;
SELECT status, reason, moved FROM transfer('few', '', 'lab', 't1', 15.000001);
SELECT status, reason, held FROM hold('few', '', 'f6', 7, '1 h');
SELECT status, reason, moved FROM transfer('few', '', 'lab', 't2', 7.9);
SELECT status, reason, held FROM hold('few', '', 'f7', 0.1, '1 h');
SELECT available, held, moved FROM buckets('few');
SELECT status, reason, held FROM hold('few', '', 'f8', 0.000001, '1 h');
SELECT * FROM verify('few');

-- A hard budget is used to its end, and each threshold alerts once
SELECT create_account('cap'), issue('cap', '', 'i', 100000),
	set_budget('cap', '', 100, alert_at => '{0.5,0.9}'),
	set_slices('cap', '', 8) \g /dev/null
SELECT count(*) FILTER (WHERE status = 'granted') AS granted,
	count(*) FILTER (WHERE reason = 'budget_exceeded') AS over_budget
FROM generate_series(1, 1000) n, hold('cap', '', 'c' || n, 0.125, '1 h');
SELECT reserved, remaining FROM budgets('cap');
SELECT threshold, detail ->> 'taken' AS taken FROM alert WHERE org = 'cap'
ORDER BY threshold;
SELECT * FROM verify('cap');
-- raised, removed, lowered: the slices' limits follow at once
SELECT set_budget('cap', '', 10000) \g /dev/null
SELECT count(*) FILTER (WHERE status = 'granted') AS granted
FROM generate_series(1, 40) n, hold('cap', '', 'd' || n, 1, '1 h');
SELECT spread FROM budget_counter WHERE org = 'cap';
SELECT set_budget('cap', '', 141) \g /dev/null
SELECT string_agg(coalesce(reason, 'granted'), ' ' ORDER BY n)
FROM generate_series(1, 3) n, hold('cap', '', 'e' || n, 1, '1 h');
SELECT set_budget('cap', '', NULL) \g /dev/null
SELECT count(*) FROM budget_slice WHERE org = 'cap';
SELECT * FROM verify('cap');

-- A revocation, an expiry and a dead hold put the slices together
SELECT create_account('end'), issue('end', '', 'i1', 1000, expires_at =>
	'2027-05-11 12:00+00'), issue('end', '', 'i2', 1000),
	set_slices('end', '', 4) \g /dev/null
SELECT status FROM hold('end', '', 'h1', 1, '1 h');
SELECT status FROM hold('end', '', 'h2', 1, '2 days');
SELECT result[1]::bigint AS i2 FROM request WHERE org = 'end' AND key = 'i2' \gset
SELECT revoked FROM revoke('end', :i2, 'r1', 'error');
SET gpucredit.clock = '2027-05-11 12:00+00';
SELECT available, held FROM balance('end');
SELECT expire_credits() \g /dev/null
SELECT issued, available, held, expired, revoked FROM buckets('end');
SELECT hold AS h2 FROM hold('end', '', 'h2', 1, '2 days') \gset
SELECT captured, lapsed FROM capture('end', :h2, 'c2', 0.25);
SELECT issued, available, held, spent, expired FROM buckets('end');
SELECT count(*) FROM bucket_slice WHERE org = 'end';
SELECT * FROM verify('end');

-- A job: held, extended, settled, queued again and refunded over slices
SELECT create_pool('sli'), set_price('SliT', 1),
	register_node('sli', 'sli-1', 'SliT', 4, 16000) \g /dev/null
SELECT create_account('slj'), issue('slj', '', 'i', 1000),
	set_budget('slj', '', 900), set_slices('slj', '', 4) \g /dev/null
SELECT job, status, held FROM reserve('slj', '', 'j1', '1xSliT', '5 h',
	pool => 'sli', hold_window => '1 h') \gset
SELECT job AS w FROM reserve('slj', '', 'j2', '1xSliT', '5 h', pool => 'sli') \gset
SELECT action FROM place('sli');
SET gpucredit.clock = '2027-05-11 12:56+00';
SELECT action, billed, held FROM meter('slj', :job, 1, '56 min');
SET gpucredit.clock = '2027-05-11 13:30+00';
SELECT outcome, billed, released, job_state
FROM settle('slj', :job, 1, 'preempted', '90 min');
SELECT refunded FROM refund('slj', :job, 'rf', 1, 'sorry');
SELECT available, held, spent FROM balance('slj');
SELECT reserved, spent FROM budgets('slj');
SELECT count(*), sum(held) AS held, sum(spent) AS spent FROM bucket_slice WHERE org = 'slj';
SELECT * FROM verify('slj');

-- More slices, fewer, the same again: figures stand; 1 restores the plain form
SELECT set_slices('slj', '', 64), set_slices('slj', '', 64) \g /dev/null
SELECT status FROM hold('slj', '', 'a', 0.01, '1 h');
SELECT spread FROM bucket WHERE org = 'slj';
SELECT set_slices('slj', '', 1) \g /dev/null
SELECT slices, spread, lent, available, held, spent FROM bucket WHERE org = 'slj';
SELECT slices, spread, reserved, c.spent FROM budget b JOIN budget_counter c
	USING (org, account, period) WHERE org = 'slj';
SELECT (SELECT count(*) FROM bucket_slice WHERE org = 'slj') AS bucket_slices,
	(SELECT count(*) FROM budget_slice WHERE org = 'slj') AS budget_slices;
SELECT status FROM hold('slj', '', 'b', 0.01, '1 h');
SELECT spread FROM bucket WHERE org = 'slj';
SELECT set_slices('slj', '', 65);
SELECT set_slices('slj', 'nobody', 2);
SELECT decision, detail FROM audit WHERE org = 'slj'
	AND operation = 'set_slices' ORDER BY audit;

-- Each invariant of slices is broken, found and mended
SELECT set_slices('slj', '', 2) \g /dev/null
SELECT status FROM hold('slj', '', 'c', 1, '1 h');
SELECT spread FROM bucket WHERE org = 'slj';
BEGIN;
UPDATE bucket_slice SET available = available + '5', lent = lent + '5'
WHERE org = 'slj' AND slice = 1;
SELECT invariant FROM verify('slj') ORDER BY 1;
SELECT regexp_replace(what, '\d+', 'N') AS what, was - is_now AS too_much
FROM rebuild('slj');
SELECT * FROM verify('slj');
SELECT spread FROM bucket WHERE org = 'slj';
ROLLBACK;
BEGIN;
DELETE FROM bucket_slice WHERE org = 'slj' AND slice = 2;
SELECT invariant FROM verify('slj') ORDER BY 1;
ROLLBACK;
BEGIN;
UPDATE bucket SET closed_at = '2027-05-11 15:00+00' WHERE org = 'slj';
SELECT invariant FROM verify('slj') ORDER BY 1;
ROLLBACK;
BEGIN;
UPDATE bucket_slice SET bucket = bucket + 1000000 WHERE org = 'slj' AND slice = 2;
SELECT invariant FROM verify('slj') ORDER BY 1;
ROLLBACK;
BEGIN;
ALTER TABLE bucket_slice DROP CONSTRAINT bucket_slice_sound;
UPDATE bucket_slice SET available = - available, held = held + available
	+ available WHERE org = 'slj' AND slice = 1;
SELECT invariant FROM verify('slj') ORDER BY 1;
ROLLBACK;
BEGIN;
UPDATE budget_slice SET most = most + '500' WHERE org = 'slj' AND slice = 1;
SELECT invariant FROM verify('slj') ORDER BY 1;
ROLLBACK;
BEGIN;
UPDATE budget_slice SET most = '-1000' WHERE org = 'slj' AND slice = 1;
SELECT invariant FROM verify('slj') ORDER BY 1;
ROLLBACK;
BEGIN;
DELETE FROM budget_slice WHERE org = 'slj' AND slice = 2;
SELECT invariant FROM verify('slj') ORDER BY 1;
ROLLBACK;
-- the tables refuse a negative slice
\set VERBOSITY terse
UPDATE bucket_slice SET available = - available, held = held + available
	+ available WHERE org = 'slj' AND slice = 1;
SELECT * FROM verify();
