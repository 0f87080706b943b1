-- Many holds in one transaction: each finds the bucket as the one before left
-- it, whatever else the transaction does. None reads what all before it have
-- left behind.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET gpucredit.clock = '2036-06-01 00:00+00';
\set VERBOSITY sqlstate
\pset null '-'

CREATE FUNCTION pg_temp.holds(tag text, n int, amount numeric DEFAULT 1, account text DEFAULT 'a')
RETURNS TABLE (status text, holds bigint) LANGUAGE sql AS $$
	SELECT h.status, count(*) FROM generate_series(1, n) i,
		gpucredit.hold('many', account, tag || i, amount, '1 d') h
	GROUP BY 1 ORDER BY 1
$$;
CREATE FUNCTION pg_temp.buckets() RETURNS TABLE (memo text, available numeric, held numeric,
	spent numeric, revoked numeric) LANGUAGE sql AS $$
	SELECT b.memo, u.available, u.held, u.spent, u.revoked
	FROM gpucredit.buckets('many', 'a') u
		JOIN gpucredit.bucket b ON b.org = 'many' AND b.bucket = u.bucket ORDER BY 1
$$;
-- The bucket rows and index entries that this transaction has read.
CREATE FUNCTION pg_temp.bucket_reads() RETURNS bigint LANGUAGE sql AS $$
	SELECT pg_stat_get_xact_tuples_returned('gpucredit.bucket'::regclass)
		+ (SELECT sum(pg_stat_get_xact_tuples_returned(i.indexrelid)) FROM pg_index i
			WHERE i.indrelid = 'gpucredit.bucket'::regclass)::bigint
$$;

SELECT gpucredit.create_account('many'), gpucredit.create_account('many', 'a'),
	gpucredit.create_account('many', 'b');
SELECT replayed FROM gpucredit.issue('many', '', 'i1', 10000, memo => 'paid');
SELECT replayed FROM gpucredit.issue('many', 'b', 'i2', 100, memo => 'of b');

-- a new bucket that comes first in burn order is drawn first; once it is
-- empty, the former bucket pays again
BEGIN;
SELECT * FROM pg_temp.holds('x', 100);
SELECT replayed FROM gpucredit.issue('many', 'a', 'i3', 30, 'promo', priority => 10, memo => 'promo');
SELECT * FROM pg_temp.holds('y', 50);
SELECT * FROM pg_temp.buckets();
SELECT * FROM pg_temp.holds('z', 60, 1, 'b');
SELECT memo, available, held FROM gpucredit.bucket WHERE org = 'many' ORDER BY 1;
-- captures and releases in between
SELECT sum(c.captured), sum(c.released) FROM gpucredit.request r,
	gpucredit.capture('many', r.result[1]::bigint, 'c' || r.key, 0.5) c
WHERE r.org = 'many' AND r.key ~ '^y[0-9]$';
SELECT * FROM pg_temp.holds('u', 3);
SELECT * FROM pg_temp.buckets();
COMMIT;
SELECT * FROM gpucredit.verify('many');

-- savepoints: a rolled back hold leaves nothing
BEGIN;
SELECT * FROM pg_temp.holds('s', 60);
SAVEPOINT s;
SELECT * FROM pg_temp.holds('t', 70);
ROLLBACK TO s;
SELECT * FROM pg_temp.buckets();
SELECT * FROM pg_temp.holds('t', 5);
SAVEPOINT s;
SELECT * FROM pg_temp.holds('v', 5);
RELEASE s;
DO $$
BEGIN
	PERFORM pg_temp.holds('w', 4);
	RAISE division_by_zero;
EXCEPTION WHEN division_by_zero THEN
	PERFORM pg_temp.holds('w', 2);
END $$;
SELECT * FROM pg_temp.buckets();
COMMIT;
SELECT * FROM gpucredit.verify('many');

-- meanwhile one bucket is revoked, another is spread over slices
BEGIN;
SELECT * FROM pg_temp.holds('k', 40);
SELECT r.revoked FROM gpucredit.bucket b, gpucredit.revoke('many', b.bucket, 'rev', 'test') r
WHERE b.org = 'many' AND b.memo = 'paid';
SELECT * FROM pg_temp.holds('l', 1);
SELECT replayed FROM gpucredit.issue('many', '', 'i4', 500, memo => 'more');
SELECT * FROM pg_temp.holds('m', 40);
SELECT gpucredit.set_slices('many', '', 4);
SELECT * FROM pg_temp.holds('n', 40);
SELECT gpucredit.set_slices('many', '', 1);
SELECT * FROM pg_temp.holds('o', 40, 2);
SELECT * FROM pg_temp.holds('p', 1, 1000);
SELECT * FROM pg_temp.buckets();
COMMIT;
SELECT * FROM gpucredit.verify('many');

-- two buckets in turn, one with a cap by its policy
BEGIN;
SELECT replayed FROM gpucredit.issue('many', 'a', 'i5', 50, priority => 5, policy => '{"max_share": 0.5}', memo => 'share');
SELECT * FROM pg_temp.holds('q', 60);
SELECT * FROM pg_temp.buckets();
COMMIT;
SELECT * FROM gpucredit.verify('many');

-- two thousand holds read twice what a thousand do, at each level
SELECT replayed FROM gpucredit.issue('many', '', 'i6', 10000, memo => 'long');
SET client_min_messages = warning;
BEGIN;
SELECT * FROM pg_temp.holds('e', 1000);
SELECT pg_temp.bucket_reads() AS first \gset
SELECT * FROM pg_temp.holds('f', 1000);
SELECT pg_temp.bucket_reads() AS both \gset
SELECT :both < 3 * :first AS linear, :both < 50000 AS few;
ROLLBACK;
SELECT * FROM gpucredit.verify('many');

-- budgets and quotas on the path count all jobs, and each job finds them as
-- the one before left them: rolled back, spread, removed, settled meanwhile,
-- full
CREATE FUNCTION pg_temp.jobs(tag text, n int) RETURNS TABLE (status text, reason text, jobs bigint) LANGUAGE sql AS $$
	SELECT r.status, r.reason, count(*) FROM generate_series(1, n) i,
		gpucredit.reserve('many', 'a', tag || i, '1xT4', '1 hour') r
	GROUP BY 1, 2 ORDER BY 1, 2
$$;
CREATE FUNCTION pg_temp.counted() RETURNS TABLE (account text, period text, reserved numeric, spent numeric) LANGUAGE sql AS $$
	SELECT b.account, b.period, b.reserved, b.spent FROM gpucredit.budgets('many', 'a') b ORDER BY 1, 2
$$;
-- The rows and index entries of these tables that this transaction has read.
CREATE FUNCTION pg_temp.limit_reads() RETURNS bigint LANGUAGE sql AS $$
	SELECT sum(pg_stat_get_xact_tuples_returned(t.oid)
		+ (SELECT sum(pg_stat_get_xact_tuples_returned(i.indexrelid)) FROM pg_index i
			WHERE i.indrelid = t.oid))::bigint
	FROM unnest(ARRAY['gpucredit.budget_counter', 'gpucredit.quota']::regclass[]) t (oid)
$$;
SELECT gpucredit.set_price('T4', 1);
SELECT count(*) FROM gpucredit.register_node('default', 'many-n1', 'T4', 1, 16384);
SELECT gpucredit.set_budget('many', '', 1000, 'month'), gpucredit.set_budget('many', 'a', 900, 'month'),
	gpucredit.set_budget('many', 'a', 5000, 'none'), gpucredit.set_quota('many', '', NULL, NULL, NULL, 100000),
	gpucredit.set_quota('many', 'a', NULL, NULL, NULL, 100000);
BEGIN;
SELECT * FROM pg_temp.jobs('ja', 100);
SELECT * FROM pg_temp.counted();
SAVEPOINT s;
SELECT * FROM pg_temp.jobs('jb', 50);
ROLLBACK TO s;
SELECT * FROM pg_temp.jobs('jc', 10);
SELECT * FROM pg_temp.counted();
SELECT count(*) FROM gpucredit.job j, gpucredit.cancel('many', j.job, 'no ' || j.job)
WHERE j.org = 'many' AND j.spec IS NOT NULL AND j.state = 'queued' AND j.job % 10 = 0;
SELECT * FROM pg_temp.jobs('jd', 10);
SELECT * FROM pg_temp.counted();
SELECT gpucredit.set_budget('many', 'a', NULL, 'none');
SELECT * FROM pg_temp.jobs('je', 10);
SELECT gpucredit.set_budget('many', 'a', 2000, 'none');
SELECT * FROM pg_temp.jobs('jf', 10);
SELECT * FROM pg_temp.counted();
SELECT gpucredit.set_slices('many', '', 4);
SELECT * FROM pg_temp.jobs('jg', 20);
SELECT * FROM pg_temp.counted();
SELECT gpucredit.set_slices('many', '', 1);
SELECT * FROM pg_temp.jobs('jh', 20);
-- the next month, and back, as a test's clock can go
SET LOCAL gpucredit.clock = '2036-07-01 00:00+00';
SELECT * FROM pg_temp.jobs('ji', 20);
SELECT * FROM pg_temp.counted();
SET LOCAL gpucredit.clock = '2036-06-01 00:00+00';
-- until the budget denies, and after
SELECT * FROM pg_temp.jobs('jj', 1000);
SELECT * FROM pg_temp.counted();
SELECT gpucredit.set_budget('many', 'a', 910, 'month');
SELECT * FROM pg_temp.jobs('jk', 20);
SELECT * FROM pg_temp.counted();
COMMIT;
SELECT * FROM gpucredit.verify('many');
-- until the quota denies
SELECT count(*) AS waiting FROM gpucredit.job WHERE org = 'many' AND state = 'queued' \gset
SELECT gpucredit.set_budget('many', '', NULL, 'month'), gpucredit.set_budget('many', 'a', NULL, 'month'),
	gpucredit.set_quota('many', 'a', NULL, NULL, NULL, :waiting + 300);
BEGIN;
SELECT * FROM pg_temp.jobs('jl', 320);
ROLLBACK;
-- two thousand jobs read few of the row versions that those before left: not
-- 250,000
SELECT gpucredit.set_quota('many', 'a', NULL, NULL, NULL, 100000), gpucredit.set_budget('many', 'a', 9000, 'month'),
	gpucredit.set_budget('many', 'a', 9000, 'none'), gpucredit.set_budget('many', '', 9000, 'month');
BEGIN;
SELECT * FROM pg_temp.jobs('jm', 1000);
SELECT * FROM pg_temp.jobs('jn', 1000);
SELECT pg_temp.limit_reads() < 100000 AS few;
ROLLBACK;
SELECT * FROM gpucredit.verify('many');
