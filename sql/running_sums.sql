--
-- Running sums: what an account and all below it hold, use and have spent is a
-- row of its account and the changes since, not a sum over its jobs.
--
\set VERBOSITY terse
\pset null -
SET search_path = gpucredit, public;
SET timezone = 'UTC';
SET gpucredit.clock = '2030-01-01 00:00+00';
DO $$
BEGIN
	PERFORM create_account('sums', a) FROM unnest('{"",lab,lab/ann,lab/bob,lab2}'::text[]) a;
	PERFORM issue('sums', '', 'i', 100000), set_price('T4', 3.6), create_pool('sums');
	PERFORM register_node('sums', 'sums-' || n, 'T4', 8, 16384) FROM generate_series(1, 16) n;
	PERFORM reserve('sums', a, a || n, '1xT4', '2 hours', pool => 'sums')
	FROM unnest('{lab/ann,lab/bob}'::text[]) a, generate_series(1, 60) n;
	PERFORM hold('sums', 'lab2', 'h', 5, '1 day'), hold('sums', 'lab', 'dead', 7, '1 minute');
	PERFORM place('sums');
END $$;
CREATE FUNCTION pg_temp.sums() RETURNS TABLE (account text, held numeric, used numeric, spent numeric)
LANGUAGE sql AS $$
	SELECT a.account, b.held, b.used, b.spent
	FROM account a, balance(a.org, a.account) b WHERE a.org = 'sums' ORDER BY 1 $$;
-- the differences between the sums and the rows that they are sums of
CREATE FUNCTION pg_temp.wrong() RETURNS TABLE (account text, held numeric, spent numeric)
LANGUAGE sql AS $$
	SELECT s.account, s.held - x.held, s.spent - x.spent
	FROM pg_temp.sums() s
		CROSS JOIN LATERAL (SELECT coalesce(sum(h.held::numeric) FILTER (
					WHERE h.closed_at IS NULL AND coalesce(h.expires_at > gpucredit.now(), true)), 0) AS held,
				coalesce(sum(h.captured::numeric), 0) AS spent
			FROM hold h WHERE h.org = 'sums'
				AND gpucredit_internal.is_below(h.account, s.account)) x
	WHERE s.held <> x.held OR s.spent <> x.spent $$;
SELECT * FROM pg_temp.sums();
SELECT * FROM pg_temp.wrong();
-- a dead hold holds nothing, though no sweep has released it
SET gpucredit.clock = '2030-01-01 00:01+00';
SELECT * FROM pg_temp.sums();
-- up to 100 running jobs are read, as they were last metered; of more the logged
-- use counts
SELECT count(meter(org, job, attempt, '1 min')) FROM attempt WHERE org = 'sums';
SELECT account, used FROM pg_temp.sums();
SET gpucredit.clock = '2030-01-01 00:10+00';
SELECT count(meter(org, job, attempt, '10 min')) FROM attempt WHERE org = 'sums';
SELECT account, used FROM pg_temp.sums();
SELECT sum(used::numeric) AS not_folded FROM account_delta WHERE org = 'sums';
SELECT count(*) > 0 AS folded FROM upkeep('fold_spend');
SELECT count(*) AS left FROM account_delta WHERE org = 'sums';
SELECT account, spent, held, used FROM account_total WHERE org = 'sums' ORDER BY account;
SELECT * FROM pg_temp.wrong();
-- what is settled is spent, no longer used or held; what fails is held again
SELECT count(settle(org, job, attempt, 'completed', '10 min')) FROM attempt
WHERE org = 'sums' AND account = 'lab/ann';
SELECT count(settle(org, job, attempt, 'failed', '10 min', 1)) FROM attempt
WHERE org = 'sums' AND account = 'lab/bob' AND job % 2 = 0;
SELECT * FROM pg_temp.sums();
SELECT * FROM pg_temp.wrong();
SELECT refunded FROM refund('sums', (SELECT min(job) FROM job WHERE org = 'sums'), 'r', 0.25, 'sorry');
SELECT sum(affected) > 0 AS swept FROM reap_holds();
SELECT spent FROM balance('sums', 'lab/ann');
SELECT * FROM pg_temp.wrong();
SELECT * FROM verify();
-- the heartbeats of many in one call
SET gpucredit.clock = '2030-01-01 00:20+00';
SELECT count(*) FROM meter_batch(ARRAY(SELECT org FROM attempt WHERE org = 'sums' AND ended_at IS NULL ORDER BY job),
	ARRAY(SELECT job FROM attempt WHERE org = 'sums' AND ended_at IS NULL ORDER BY job),
	ARRAY(SELECT attempt FROM attempt WHERE org = 'sums' AND ended_at IS NULL ORDER BY job),
	ARRAY(SELECT interval '20 min' FROM attempt WHERE org = 'sums' AND ended_at IS NULL)) WHERE action = 'continue';
SELECT account, used FROM account_delta WHERE org = 'sums' AND used > '0' ORDER BY 1, 2;
SELECT * FROM verify();
-- a heartbeat that waited for an attempt's row has an earlier instant than the one
-- before it, and tells of more
SET gpucredit.clock = '2030-01-01 00:40+00';
SELECT count(meter(org, job, attempt, '26 min')) FROM attempt WHERE org = 'sums' AND ended_at IS NULL;
SET gpucredit.clock = '2030-01-01 00:39+00';
SELECT count(meter(org, job, attempt, '32 min')) FROM attempt WHERE org = 'sums' AND ended_at IS NULL;
SELECT u.at, u.elapsed, count(*) FROM usage u WHERE u.org = 'sums' AND u.at >= '2030-01-01 00:39+00' GROUP BY 1, 2 ORDER BY 2;
SELECT * FROM verify();
SET gpucredit.clock = '2030-01-01 00:40+00';
-- verify finds sums that were changed past the functions, and rebuild mends them
BEGIN;
UPDATE account_total SET held = held + 1 WHERE org = 'sums' AND account = 'lab';
UPDATE account_delta SET used = '1' WHERE org = 'sums' AND used <> '0' AND account = 'lab/bob';
UPDATE attempt SET used = '0.5' WHERE org = 'sums' AND job = (SELECT max(job) FROM job
	WHERE org = 'sums' AND state = 'active');
DELETE FROM account_total WHERE org = 'sums' AND account = 'lab2';
SELECT invariant, detail FROM verify('sums') ORDER BY 1, 2;
SELECT count(*) FROM rebuild('sums');
SELECT * FROM verify('sums');
ROLLBACK;

-- The clock goes back over midnight while an attempt runs: the days that occur twice
-- are compared by their sum.  No false day hides behind that, there or elsewhere.
SET gpucredit.clock = '2030-03-01 21:00+00';
SELECT create_account('back'), create_account('back', 'lab'), issue('back', '', 'i', 1000), create_pool('back'),
	set_price('Back', 1, 'back'), register_node('back', 'back-1', 'Back', 2, 1000) \g /dev/null
SELECT count(r) FROM generate_series(1, 2) n, reserve('back', 'lab', 'j' || n, '1xBack', wall_limit => '24 hours', pool => 'back') r;
SELECT count(*) AS started FROM place('back');
CREATE FUNCTION pg_temp.use(clock text, elapsed interval) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('gpucredit.clock', clock, false);
	PERFORM FROM gpucredit.job j, gpucredit.meter(j.org, j.job, 1, elapsed)
	WHERE j.org = 'back' AND j.state = 'active';
	PERFORM gpucredit.upkeep('fold_spend');
	RETURN (SELECT count(*) FROM gpucredit.verify('back'));
END
$$;
SELECT pg_temp.use('2030-03-02 00:30+00', '3 h') AS differences;
SET gpucredit.clock = '2030-03-01 23:30+00';
SELECT s.job_state, s.billed FROM (SELECT min(job) AS job FROM job WHERE org = 'back') j, settle('back', j.job, 1, 'completed', '2 h') s;
SELECT pg_temp.use('2030-03-01 23:30+00', '3 h') AS differences;
SELECT day, used FROM spend_day WHERE org = 'back' AND account = 'lab' ORDER BY day;
SELECT clock, pg_temp.use(clock, elapsed) AS differences FROM (VALUES ('2030-03-02 00:20+00', interval '5 h'),
	('2030-03-03 00:30+00', '12 h'), ('2030-03-04 00:30+00', '20 h')) AS u (clock, elapsed);
SELECT day, used FROM spend_day WHERE org = 'back' AND account = 'lab' ORDER BY day;
-- what upkeep deletes of these days is no difference
BEGIN;
DELETE FROM spend_day WHERE day < '2030-03-02';
SELECT * FROM verify('back');
ROLLBACK;
BEGIN;
UPDATE spend_day SET used = used + 1 WHERE org = 'back' AND account = 'lab' AND day = '2030-03-04';
SELECT invariant, subject FROM verify('back');
UPDATE spend_day SET used = used + 1 WHERE org = 'back' AND account = 'lab' AND day = '2030-03-01';
SELECT count(*) > 1 AS both FROM verify('back');
SELECT count(*) > 1 AS both FROM rebuild('back');
SELECT * FROM verify('back');
ROLLBACK;
SELECT s.job_state FROM job j, settle(j.org, j.job, 1, 'completed', '20 h') s WHERE j.org = 'back' AND j.state = 'active';
SELECT affected > 0 AS folded FROM upkeep('fold_spend');
SELECT * FROM verify();
