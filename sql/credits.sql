-- Credit revoked, moved, refunded and expired; what functions report before
-- and after a sweep.
SET client_min_messages = warning;
DROP EXTENSION IF EXISTS gpucredit CASCADE;	-- numbers start from 1
CREATE EXTENSION gpucredit;
RESET client_min_messages;
SET timezone = 'UTC';
SET search_path = public, gpucredit;
\set SHOW_CONTEXT never
\pset format unaligned

CREATE FUNCTION pg_temp.at(clock text) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('gpucredit.clock', clock, false)
$$;
-- The SQLSTATE of a call that fails and changes nothing.
CREATE FUNCTION pg_temp.fails(call text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	before text := (SELECT row(count(*), max(entry))::text FROM entry);
BEGIN
	EXECUTE call;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || CASE WHEN before = (SELECT row(count(*), max(entry))::text
		FROM entry) THEN '' ELSE ' and entries' END;
END
$$;
-- All figures of a bucket.
CREATE FUNCTION pg_temp.figures(which bigint) RETURNS TABLE (issued credits,
	available credits, held credits, spent credits, expired credits,
	revoked credits, moved credits, closed boolean) LANGUAGE sql AS $$
	SELECT b.issued, b.available, b.held, b.spent, b.expired, b.revoked,
		b.moved, b.closed_at IS NOT NULL
	FROM bucket b WHERE b.bucket = which
$$;

SELECT pg_temp.at('2026-01-01 00:00+00') \g /dev/null
SELECT create_account('acme') \g /dev/null
SELECT create_account('acme', 'vision') \g /dev/null
SELECT create_account('acme', 'vision/alice') \g /dev/null
SELECT create_account('acme', 'speech') \g /dev/null
SELECT create_account('zeta') \g /dev/null

--
-- revoke
--
SELECT bucket FROM issue('acme', 'vision', 'i1', 100);
SELECT hold, held FROM hold('acme', 'vision', 'h1', 30, '10 days');
SELECT * FROM revoke('acme', 1, 'r1', 'charged back');
SELECT * FROM pg_temp.figures(1);
SELECT bucket, available, held, revoked, usable, why
FROM buckets('acme', 'vision');
SELECT available, held FROM balance('acme', 'vision');
-- the same call again, then with each argument changed
SELECT * FROM revoke('acme', 1, 'r1', 'charged back');
SELECT pg_temp.fails($$SELECT revoke('acme', 2, 'r1', 'charged back')$$),
	pg_temp.fails($$SELECT revoke('acme', 1, 'r1', 'fraud')$$),
	pg_temp.fails($$SELECT revoke('acme', 1, 'r1', NULL)$$),
	pg_temp.fails($$SELECT release('acme', 1, 'r1')$$);
-- a second revocation finds nothing left
SELECT * FROM revoke('acme', 1, 'r2', 'again');
-- held credit stays good; credit that returns is revoked
SELECT * FROM capture('acme', 1, 'c1', 12);
SELECT * FROM pg_temp.figures(1);
-- so is refunded credit
SELECT * FROM refund_hold('acme', 1, 'f1', 2, 'bad node');
SELECT * FROM pg_temp.figures(1);
SELECT * FROM revoke('acme', 1, 'r3', 'once more');
SELECT * FROM hold('acme', 'vision', 'h2', 1, '1 day');

-- credit of a hold past its ttl is available, and is revoked with the rest
SELECT bucket FROM issue('acme', 'speech', 'i2', 10);
SELECT hold, held FROM hold('acme', 'speech', 'h3', 4, '1 hour');
SELECT pg_temp.at('2026-01-01 01:00+00') \g /dev/null
SELECT bucket, available FROM buckets('acme', 'speech');
SELECT * FROM revoke('acme', 2, 'r4', 'mistake');
SELECT * FROM pg_temp.figures(2);
SELECT * FROM release('acme', 2, 'l1');

-- credit that is not active yet is revoked; expired credit stays expired
SELECT bucket FROM issue('acme', 'speech', 'i3', 7, 'grant',
	effective_at => '2026-03-01', expires_at => '2026-04-01');
SELECT bucket FROM issue('acme', 'speech', 'i4', 9, 'promo',
	expires_at => '2026-01-02');
SELECT bucket, available, usable, why FROM buckets('acme', 'speech');
SELECT * FROM revoke('acme', 3, 'r5', 'not wanted');
SELECT pg_temp.at('2026-01-02 00:00+00') \g /dev/null
SELECT bucket, available, expired, usable, why FROM buckets('acme', 'speech')
WHERE bucket = 4;
SELECT * FROM revoke('acme', 4, 'r6', 'too late');
SELECT * FROM pg_temp.figures(4);

SELECT * FROM revoke('acme', 99, 'r7', 'unknown');
SELECT * FROM revoke('zeta', 1, 'r7', 'not theirs');
SELECT pg_temp.fails($$SELECT revoke('acme', 1, '', 'x')$$),
	pg_temp.fails($$SELECT revoke('acme', NULL, 'r8', 'x')$$),
	pg_temp.fails($$SELECT revoke(NULL, 1, 'r8', 'x')$$),
	pg_temp.fails($$SELECT revoke('acme', 1, 'r8', repeat('x', 8193))$$);
SELECT operation, decision, reason, account, bucket, detail
FROM audit WHERE operation = 'revoke' ORDER BY audit;
SELECT * FROM verify();

--
-- transfer
--
SELECT pg_temp.at('2026-02-01 00:00+00') \g /dev/null
SELECT bucket FROM issue('acme', '', 'i5', 1000);
SELECT bucket FROM issue('acme', 'vision', 'i6', 50, memo => 'order 17');
SELECT bucket FROM issue('acme', 'vision', 'i7', 20, 'promo',
	expires_at => '2026-03-01', priority => 7, memo => 'launch',
	policy => '{"gpu_types": ["H100"], "tiers": ["interactive"],
		"pools": ["default"], "max_per_job": 5, "max_share": 0.5}');
SELECT bucket FROM issue('acme', 'vision', 'i8', 40, 'grant',
	effective_at => '2026-02-02');
-- a transfer draws from the account's own active buckets in burn order; the
-- promo keeps its conditions
SELECT * FROM transfer('acme', 'vision', 'speech', 't1', 30);
SELECT bucket, account, kind, priority, effective_at, expires_at, policy,
	gpu_types, tiers, pools, max_per_job, max_share, memo, issued, available,
	moved
FROM bucket WHERE bucket IN (6, 7) OR bucket > 8 ORDER BY bucket;
SELECT available, promo, paid FROM balance('acme', 'vision');
SELECT available, promo, paid FROM balance('acme', 'speech');
-- conditions of its old account hold in the new one
SELECT status, reason FROM hold('acme', 'speech', 'h4', 1015, '1 day');
SELECT status, held FROM hold('acme', 'speech', 'h5', 10, '1 day');

-- short: only the account's own active credit counts
SELECT * FROM transfer('acme', 'vision', 'speech', 't2', 40.000001);
SELECT * FROM transfer('acme', 'vision/alice', 'speech', 't3', 0.000001);
-- a replayed denial stays denied; other arguments under its key are refused
SELECT pg_temp.at('2026-02-02 00:00+00') \g /dev/null
SELECT * FROM transfer('acme', 'vision', 'speech', 't2', 40.000001);
SELECT * FROM transfer('acme', 'vision', 'speech', 't1', 30.0);
SELECT pg_temp.fails($$SELECT transfer('acme', 'vision', 'speech', 't1', 31)$$),
	pg_temp.fails($$SELECT transfer('acme', 'vision', '', 't1', 30)$$),
	pg_temp.fails($$SELECT transfer('acme', '', 'speech', 't1', 30)$$);
-- the grant is active now
SELECT * FROM transfer('acme', 'vision', 'vision/alice', 't4', 40.000001);
SELECT bucket, account, kind, available FROM buckets('acme', 'vision/alice')
WHERE available > 0;

-- a call that is short of credit releases the account's dead holds
SELECT status, held FROM hold('acme', 'vision/alice', 'h6', 35, '1 hour');
SELECT pg_temp.at('2026-02-02 01:00+00') \g /dev/null
SELECT * FROM transfer('acme', 'vision/alice', '', 't5', 40);
-- a promotion is drawn until its last instant
SELECT pg_temp.at('2026-02-28 23:59:59.999999+00') \g /dev/null
SELECT available, promo FROM balance('acme', 'speech');
SELECT pg_temp.at('2026-03-01 00:00+00') \g /dev/null
SELECT available, promo FROM balance('acme', 'speech');
SELECT status, reason FROM transfer('acme', 'speech', 'vision', 't6', 11);

-- a suspended account gives no credit; it may receive some
SELECT suspend_account('acme', 'vision', true) \g /dev/null
SELECT * FROM transfer('acme', 'vision/alice', 'speech', 't7', 0.000001);
SELECT * FROM transfer('acme', '', 'vision', 't8', 1);
SELECT suspend_account('acme', 'vision', false) \g /dev/null

SELECT * FROM transfer('acme', 'vision', 'vision', 't9', 1);
SELECT pg_temp.fails($$SELECT transfer('acme', 'vision', 'nobody', 't9', 1)$$),
	pg_temp.fails($$SELECT transfer('acme', 'nobody', 'vision', 't9', 1)$$),
	pg_temp.fails($$SELECT transfer('nobody', 'a', 'b', 't9', 1)$$),
	pg_temp.fails($$SELECT transfer('acme', '', 'vision', 't9', 0)$$),
	pg_temp.fails($$SELECT transfer('acme', '', 'vision', 't9', -1)$$),
	pg_temp.fails($$SELECT transfer('acme', '', 'vision', 't9', 'NaN')$$),
	pg_temp.fails($$SELECT transfer('acme', '', 'vision', 't9', 0.0000001)$$),
	pg_temp.fails($$SELECT transfer('acme', '', 'vision//', 't9', 1)$$),
	pg_temp.fails($$SELECT transfer('acme', '', 'vision', 't9', NULL)$$);
SELECT decision, reason, account, detail
FROM audit WHERE operation = 'transfer' ORDER BY audit;
SELECT * FROM verify();

--
-- refund of a hold: the last spent goes back first, never more than was spent
--
SELECT pg_temp.at('2026-05-01 00:00+00') \g /dev/null
SELECT create_account('beta') \g /dev/null
SELECT bucket FROM issue('beta', '', 'i1', 10, 'promo',
	expires_at => '2026-05-10') \gset promo_
SELECT bucket FROM issue('beta', '', 'i2', 10, 'grant',
	expires_at => '2026-05-20') \gset grant_
SELECT bucket FROM issue('beta', '', 'i3', 100) \gset paid_
SELECT hold FROM hold('beta', '', 'h1', 30, '30 days') \gset
SELECT captured, released FROM capture('beta', :hold, 'c1', 25, false);
SELECT * FROM refund_hold('beta', :hold, 'f1', 2, 'sorry');
SELECT p.part, p.held, p.spent, p.refunded, p.returned
FROM hold_part p WHERE p.org = 'beta' ORDER BY p.part;
SELECT available, held, spent, promo, granted, paid FROM balance('beta');
-- replayed; each argument changed
SELECT * FROM refund_hold('beta', :hold, 'f1', 2.00, 'sorry');
SELECT pg_temp.fails(format($$SELECT refund_hold('beta', %s, 'f1', 3, 'sorry')$$, :hold)),
	pg_temp.fails(format($$SELECT refund_hold('beta', %s, 'f1', 2, 'sorry')$$, :hold + 1)),
	pg_temp.fails(format($$SELECT refund_hold('beta', %s, 'f1', 2, 'oops')$$, :hold)),
	pg_temp.fails(format($$SELECT refund('beta', %s, 'f1', 2, 'sorry')$$, :hold));
-- a refund of more than was spent is refused, and its key stays free
SELECT pg_temp.fails(format($$SELECT refund_hold('beta', %s, 'f2', 23.000001, 'x')$$, :hold));
-- after the promotion expired, its part of a refund lapses
SELECT pg_temp.at('2026-05-10 00:00+00') \g /dev/null
SELECT * FROM refund_hold('beta', :hold, 'f2', 20, 'sorry');
SELECT kind, available, held, spent, expired, why FROM buckets('beta');
SELECT p.part, p.held, p.spent, p.refunded, p.returned, p.lapsed
FROM hold_part p WHERE p.org = 'beta' ORDER BY p.part;
-- the hold still holds its credit; a refund releases nothing
SELECT * FROM capture('beta', :hold, 'c2', 1);
SELECT drawn, held, captured, refunded, released, lapsed FROM hold
WHERE org = 'beta';
SELECT * FROM refund_hold('beta', :hold, 'f3', 4, 'all of it');
SELECT pg_temp.fails(format($$SELECT refund_hold('beta', %s, 'f4', 0.000001, 'x')$$, :hold));
SELECT available, held, spent FROM balance('beta');
SELECT available, held, spent FROM balance('beta', '', '2026-05-01');
SELECT * FROM refund_hold('beta', 99, 'f5', 1, 'unknown');
SELECT pg_temp.fails(format($$SELECT refund_hold('beta', %s, 'f6', 0, 'x')$$, :hold)),
	pg_temp.fails(format($$SELECT refund_hold('beta', %s, 'f6', -1, 'x')$$, :hold)),
	pg_temp.fails(format($$SELECT refund_hold('acme', %s, 'f6', 1, 'x')$$, :hold));
-- release of a dead hold reports what its end released, not its refunds
SELECT hold FROM hold('beta', '', 'h2', 10, '1 hour') \gset
SELECT captured FROM capture('beta', :hold, 'c3', 6, false);
SELECT pg_temp.at('2026-05-10 01:00+00') \g /dev/null
SELECT status FROM hold('beta', '', 'h3', 104, '1 hour');
SELECT refunded FROM refund_hold('beta', :hold, 'f7', 5, 'late');
SELECT * FROM release('beta', :hold, 'l1');
SELECT * FROM verify();

--
-- refund of a job, over all its attempts
--
SELECT pg_temp.at('2026-06-01 00:00+00') \g /dev/null
SELECT create_account('gamma') \g /dev/null
SELECT create_account('gamma', 'lab') \g /dev/null
SELECT set_price('H100', 6) \g /dev/null
SELECT register_node('default', 'n1', 'H100', 8, 81920) \g /dev/null
SELECT bucket FROM issue('gamma', 'lab', 'i1', 10, 'promo',
	expires_at => '2026-06-02') \gset promo_
SELECT bucket FROM issue('gamma', '', 'i2', 100) \gset paid_
SELECT job, status, held FROM reserve('gamma', 'lab', 'j1', '2xH100', '2 h')
\gset
SELECT :held AS held;
SELECT action, attempt FROM place();
SELECT pg_temp.at('2026-06-01 01:00+00') \g /dev/null
SELECT billed, released, job_state FROM settle('gamma', :job, 1, 'preempted',
	'1 h');
SELECT FROM heartbeat('n1', running => '{}') \g /dev/null
SELECT action, attempt FROM place();
SELECT pg_temp.at('2026-06-01 01:20+00') \g /dev/null
SELECT billed, job_state FROM settle('gamma', :job, 2, 'node_lost',
	'20 min');
SELECT FROM heartbeat('n1', running => '{}') \g /dev/null
SELECT action, attempt FROM place();
SELECT billed FROM meter('gamma', :job, 3, '0');
-- the second attempt's hold goes back first, then the first one's, while a
-- third runs
SELECT hold, captured, held FROM hold WHERE org = 'gamma' ORDER BY hold;
SELECT h.hold - min(h.hold) OVER () AS hold, p.part, b.kind, p.spent
FROM hold h JOIN hold_part p USING (org, hold) JOIN bucket b USING (org, bucket)
WHERE org = 'gamma' AND p.spent > '0' ORDER BY 1, 2;
SELECT * FROM refund('gamma', :job, 'f1', 5, 'node fell over');
SELECT hold - min(hold) OVER () AS hold, captured, refunded
FROM hold WHERE org = 'gamma' ORDER BY hold;
SELECT * FROM refund('gamma', :job, 'f1', 5, 'node fell over');
SELECT pg_temp.fails(format($$SELECT refund('gamma', %s, 'f1', 6, 'node fell over')$$, :job)),
	pg_temp.fails(format($$SELECT refund('gamma', %s, 'f1', 5, 'x')$$, :job)),
	pg_temp.fails(format($$SELECT refund('gamma', %s, 'f1', 5, 'node fell over')$$, :job + 1)),
	pg_temp.fails(format($$SELECT refund('gamma', %s, 'f2', 11.000001, 'x')$$, :job)),
	pg_temp.fails(format($$SELECT refund_hold('gamma', %s, 'f2', 1, 'x')$$,
		(SELECT min(hold) FROM hold WHERE org = 'gamma')));
SELECT * FROM refund('gamma', 999, 'f2', 1, 'no such job');
SELECT available, held, spent FROM balance('gamma', 'lab');
-- nothing is left to refund
SELECT billed FROM settle('gamma', :job, 3, 'completed', '0');
SELECT pg_temp.at('2026-06-02 00:00+00') \g /dev/null
SELECT * FROM refund('gamma', :job, 'f3', 11, 'goodwill');
SELECT available, held, spent FROM balance('gamma', 'lab');
SELECT kind, available, held, spent, expired FROM buckets('gamma', 'lab');
SELECT source, target, amount, operation, account FROM entry
WHERE org = 'gamma' AND operation = 'refund' ORDER BY entry;
SELECT decision, reason, account, job = :job AS job, detail FROM audit
WHERE org = 'gamma' AND operation = 'refund' ORDER BY audit;
-- a job without holds has nothing to give back
SELECT job FROM reserve('gamma', 'lab', 'j2', '0', '1 h') \gset
SELECT pg_temp.fails(format($$SELECT refund('gamma', %s, 'f4', 1, 'x')$$, :job));
SELECT * FROM verify();

--
-- expiry
--
SELECT pg_temp.at('2026-07-01 00:00+00') \g /dev/null
SELECT * FROM expire_credits();
SELECT * FROM expire_credits();
SELECT create_account('delta') \g /dev/null
SELECT bucket FROM issue('delta', '', 'i1', 50, 'promo',
	expires_at => '2026-07-10') \gset
SELECT issue('delta', '', 'i2', 10, expires_at => '2026-07-10 00:00:00.000001')
\g /dev/null
SELECT issue('delta', '', 'i3', 5, expires_at => '2026-07-09') \g /dev/null
SELECT issue('delta', '', 'i4', 100) \g /dev/null
SELECT hold FROM hold('delta', '', 'h1', 15, '30 days') \gset
SELECT hold AS dead FROM hold('delta', '', 'h2', 8, '1 day') \gset
-- every reading function at several instants
CREATE FUNCTION pg_temp.seen() RETURNS TABLE (what text) LANGUAGE sql AS $$
	SELECT concat_ws(' ', t, balance('delta', '', t::timestamptz))
	FROM unnest('{2026-07-01,2026-07-08,2026-07-09,2026-07-09 23:59:59.999999,
		2026-07-10,2026-07-10 00:00:00.000001,2026-07-11,2026-08-01}'::text[]) t
	UNION ALL SELECT b::text FROM buckets('delta') b
	UNION ALL SELECT concat_ws(' ', s.at, s.bucket, s.operation, s.source,
		s.target, s.amount, s.available) FROM statement('delta') s
$$;
-- one instant before expiry, and the instant itself
SELECT pg_temp.at('2026-07-09 23:59:59.999999+00') \g /dev/null
SELECT available FROM balance('delta');
SELECT * FROM expire_credits();
SELECT pg_temp.at('2026-07-10 00:00+00') \g /dev/null
SELECT available FROM balance('delta');
CREATE TEMP TABLE before AS SELECT pg_temp.seen() AS what;
SELECT * FROM expire_credits();
SELECT * FROM expire_credits();
SELECT * FROM pg_temp.figures(:bucket);
SELECT count(*) FROM before;
(SELECT pg_temp.seen() EXCEPT ALL SELECT what FROM before)
UNION ALL (SELECT what FROM before EXCEPT ALL SELECT pg_temp.seen());
SELECT at, operation, source, target, amount, available FROM statement('delta')
WHERE operation = 'expire';
-- weeks late, the answers are the same
SELECT pg_temp.at('2026-08-01 00:00+00') \g /dev/null
TRUNCATE before;
INSERT INTO before SELECT pg_temp.seen();
SELECT * FROM expire_credits();
(SELECT pg_temp.seen() EXCEPT ALL SELECT what FROM before)
UNION ALL (SELECT what FROM before EXCEPT ALL SELECT pg_temp.seen());
-- what returns now needs no sweep: holds were open, and one of them dead
SELECT * FROM release('delta', :hold, 'l1');
SELECT * FROM release('delta', :dead, 'l2');
SELECT * FROM expire_credits();
SELECT kind, available, held, spent, expired, why FROM buckets('delta');
SELECT org, decision, detail FROM audit WHERE operation = 'expire'
ORDER BY audit;
SELECT * FROM verify();
SELECT * FROM rebuild('delta');
-- verify sees a sweep recorded at another instant, or not at all; one of a
-- bucket without expiry, or before its expiry
BEGIN;
UPDATE bucket SET swept_at = CASE WHEN expires_at IS NULL THEN gpucredit.now()
	WHEN bucket = :bucket THEN swept_at + interval '1 s'
	WHEN kind = 'paid' AND expires_at < '2026-07-10' THEN expires_at - interval '1 us' END
WHERE org = 'delta';
SELECT invariant, detail FROM verify();
ROLLBACK;

-- one call takes 10,000 buckets, in four steps
WITH b AS (
	INSERT INTO bucket (org, account, kind, priority, effective_at,
		expires_at, policy, created_at, issued, available, credited_total)
	SELECT 'delta', '', 'promo', 1, '2026-08-01', '2026-08-02', '{}',
		'2026-08-01', '0.000001', '0.000001', 0.000001 FROM generate_series(1, 10010)
	RETURNING bucket)
INSERT INTO entry (org, at, account, bucket, source, target, amount, operation)
SELECT 'delta', '2026-08-01', '', b.bucket, 'issued', 'available', '0.000001',
	'issue' FROM b;
SELECT pg_temp.at('2026-08-03 00:00+00') \g /dev/null
-- however long it takes
SET gpucredit.upkeep_time = '1min';
SELECT * FROM expire_credits();
SELECT * FROM expire_credits();
SELECT * FROM expire_credits();
SELECT detail FROM audit WHERE operation = 'expire' ORDER BY audit DESC
LIMIT 5;
RESET gpucredit.upkeep_time;
SELECT * FROM verify();

--
-- A refund credits the budgets and periods that counted its holds
--
SELECT pg_temp.at('2026-09-30 23:00+00') \g /dev/null
SELECT create_account('eta', a) FROM unnest('{"",lab}'::text[]) a \g /dev/null
SELECT issue('eta', '', 'i1', 100) \g /dev/null
SELECT set_budget('eta', '', 100, 'month') \g /dev/null
SELECT hold FROM hold('eta', 'lab', 'h0', 5, '30 days') \gset
SELECT set_budget('eta', 'lab', 20, 'day') \g /dev/null
SELECT FROM heartbeat('n1', running => '{}') \g /dev/null
SELECT job FROM reserve('eta', 'lab', 'j1', '1xH100', '2 h') \gset
SELECT count(*) FROM place();
SELECT pg_temp.at('2026-10-01 00:00+00') \g /dev/null
SELECT billed FROM settle('eta', :job, 1, 'preempted', '1 h');
SELECT FROM heartbeat('n1', running => '{}') \g /dev/null
SELECT attempt FROM place() WHERE org = 'eta';
SELECT pg_temp.at('2026-10-01 01:00+00') \g /dev/null
SELECT billed FROM settle('eta', :job, 2, 'completed', '1 h');
SELECT captured FROM capture('eta', :hold, 'c1', 3, false);
CREATE FUNCTION pg_temp.counts() RETURNS TABLE (account text, period text,
	period_start timestamptz, reserved credits, spent credits)
LANGUAGE sql AS $$
	SELECT account, period, period_start, reserved, spent
	FROM budget_counter WHERE org = 'eta' ORDER BY 1, 2, 3
$$;
SELECT * FROM pg_temp.counts();
-- October's hold first, then September's
SELECT refunded FROM refund('eta', :job, 'f1', 8, 'sorry');
SELECT * FROM pg_temp.counts();
-- the daily budget is newer than this hold: only the monthly one counted it
SELECT refunded FROM refund_hold('eta', :hold, 'f2', 2, 'sorry');
SELECT * FROM pg_temp.counts();
-- a refund of the rest; refunded credit can be spent again
SELECT refunded FROM refund('eta', :job, 'f3', 4, 'sorry');
SELECT reason FROM hold('eta', 'lab', 'h1', 20.000001, '1 h');
SELECT held FROM hold('eta', 'lab', 'h2', 20, '1 h');
SELECT * FROM pg_temp.counts();
SELECT * FROM verify();

--
-- A bucket is revoked while the clock stands before its draws: it closes no
-- earlier than they, so that the past is told in order
--
SELECT pg_temp.at('2026-05-01 00:00+00') \g /dev/null
SELECT create_account('theta') \g /dev/null
SELECT bucket AS theta FROM issue('theta', '', 'i', 10) \gset
SELECT pg_temp.at('2026-05-01 00:00:10+00') \g /dev/null
SELECT held FROM hold('theta', '', 'h1', 3, '1 h');
SELECT pg_temp.at('2026-05-01 00:00:05+00') \g /dev/null
SELECT held FROM hold('theta', '', 'h2', 2, '1 h');
SELECT * FROM revoke('theta', :theta, 'r', 'a mistake');
SELECT * FROM verify('theta');
SELECT pg_temp.at('2026-05-01 00:00:20+00') \g /dev/null
SELECT at, operation, target, amount, available FROM statement('theta');

-- the clock is set back while a hold waits for an older bucket: the hold draws
-- at the instant at which it found the bucket active
BEGIN;
SELECT bucket FROM issue('theta', '', 'i2', 10) \g /dev/null
CREATE FUNCTION pg_temp.back() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('gpucredit.clock', '2026-05-01 00:00:19+00', false);
	RETURN NEW;
END $$;
CREATE TRIGGER back BEFORE INSERT ON hold_part FOR EACH ROW EXECUTE FUNCTION pg_temp.back();
SELECT held FROM hold('theta', '', 'h3', 1, '1 h');
SELECT at FROM entry WHERE org = 'theta' AND operation = 'hold' ORDER BY entry DESC LIMIT 1;
SELECT * FROM verify('theta');
ROLLBACK;

--
-- Rows of money cannot be changed; rebuild restores refunds and moves
--
DELETE FROM entry WHERE operation = 'transfer';
UPDATE entry SET amount = '1' WHERE operation = 'refund';
TRUNCATE entry;
BEGIN;
UPDATE hold_part SET refunded = refunded - '1', spent = spent + '1'
WHERE org = 'gamma' AND refunded >= '1';
UPDATE hold SET refunded = refunded - '1', captured = captured + '1'
WHERE org = 'gamma' AND refunded >= '1';
UPDATE bucket SET moved = moved - '1', available = available + '1'
WHERE bucket = 6;
SELECT DISTINCT invariant, org FROM verify() ORDER BY 1, 2;
SELECT regexp_replace(what, '\d+', 'n', 'g'), was, is_now
FROM rebuild('gamma') ORDER BY what;
SELECT * FROM rebuild('acme');
SELECT * FROM verify();
ROLLBACK;

--
-- Privileges
--
SET ROLE gpucredit_app;
SELECT revoke('acme', 1, 'x', 'x');
SELECT transfer('acme', '', 'vision', 'x', 1);
SELECT refund('gamma', 1, 'x', 1, 'x');
SELECT refund_hold('beta', 1, 'x', 1, 'x');
SELECT expire_credits();
SET ROLE gpucredit_operator;
SELECT * FROM expire_credits();
SET ROLE gpucredit_admin;
SELECT moved, status FROM transfer('acme', '', 'vision', 'x', 1);
RESET ROLE;
SELECT * FROM verify();
