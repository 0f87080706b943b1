-- Balances, statements, jobs; what verify finds of every way to break the
-- books behind the extension's back, and what rebuild mends of it.
SET client_min_messages = warning;
DROP EXTENSION IF EXISTS gpucredit CASCADE;	-- numbers start from 1
CREATE EXTENSION gpucredit;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';
SET intervalstyle = 'postgres';
SET search_path = public, gpucredit;
SET gpucredit.usage_interval = 0;
\set SHOW_CONTEXT never

-- Each balance as it was at the time, to compare the past with.
CREATE TEMP TABLE seen (at timestamptz, org text, account text,
	balance gpucredit.balance_result);
CREATE FUNCTION pg_temp.see() RETURNS void LANGUAGE sql AS $$
	INSERT INTO seen SELECT gpucredit.now(), a.org, a.account,
		balance(a.org, a.account) FROM account a
$$;
CREATE FUNCTION pg_temp.at(clock text) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('gpucredit.clock', clock, false)
$$;
--
-- Accounts, buckets, holds
--
\pset format unaligned
SELECT pg_temp.at('2026-01-01 00:00+00') \g /dev/null
SELECT create_account('acme') \g /dev/null
SELECT create_account('acme', 'vision') \g /dev/null
SELECT create_account('acme', 'vision/alice') \g /dev/null
SELECT create_account('acme', 'vision-2') \g /dev/null
SELECT create_account('acme', 'visio') \g /dev/null
SELECT create_account('zeta') \g /dev/null

-- one bucket of every kind, one of them not active yet
SELECT bucket FROM issue('acme', '', 'i1', 1000);
SELECT bucket FROM issue('acme', '', 'i2', 30, 'promo',
	expires_at => '2026-01-11');
SELECT bucket FROM issue('acme', 'vision', 'i3', 20, 'grant',
	effective_at => '2026-01-03', valid_for => '20 days');
SELECT bucket FROM issue('acme', 'vision/alice', 'i4', 5, priority => 200);
SELECT bucket FROM issue('acme', 'vision-2', 'i5', 7);
SELECT bucket FROM issue('zeta', '', 'i1', 500);
SELECT pg_temp.see() \g /dev/null

-- burn order: priority, expiry, kind, depth
SELECT bucket, account, kind, priority, available, usable
FROM buckets('acme', 'vision/alice');
SELECT account, b.*
FROM account a, balance('acme', a.account) b
WHERE a.org = 'acme' ORDER BY account;

-- the grant becomes active by time alone
SELECT pg_temp.at('2026-01-03 00:00+00') \g /dev/null
SELECT available, granted, next_expiry_at, next_expiry_amount
FROM balance('acme', 'vision');
SELECT pg_temp.see() \g /dev/null

-- two holds of a caller: one is captured in part, one is forgotten
SELECT pg_temp.at('2026-01-05 00:00+00') \g /dev/null
SELECT hold, status, held FROM hold('acme', 'vision/alice', 'h1', 40, '5 days');
SELECT hold, status, held FROM hold('acme', 'vision', 'h2', 8, '20 days');
SELECT captured, released, lapsed
FROM capture('acme', 1, 'c1', 12, final => false);
SELECT pg_temp.see() \g /dev/null
SELECT account, b.available, b.held, b.spent, b.promo, b.granted, b.paid
FROM account a, balance('acme', a.account) b
WHERE a.org = 'acme' ORDER BY account;

-- past its ttl a hold is dead, released or not: the promo it drew is available
-- again
SELECT pg_temp.at('2026-01-10 00:00+00') \g /dev/null
SELECT pg_temp.see() \g /dev/null
SELECT available, held, promo, granted, next_expiry_at, next_expiry_amount
FROM balance('acme', 'vision');
SELECT bucket, issued, available, held, spent, expired, usable
FROM buckets('acme', 'vision');

-- a day later that credit has expired with its bucket
SELECT pg_temp.at('2026-01-11 00:00+00') \g /dev/null
SELECT pg_temp.see() \g /dev/null
SELECT bucket, issued, available, held, spent, expired, usable
FROM buckets('acme', 'vision');
SELECT released, lapsed FROM release('acme', 1, 'r1');
SELECT pg_temp.see() \g /dev/null
SELECT bucket, issued, available, held, spent, expired, usable
FROM buckets('acme', 'vision');

SELECT at, entry, bucket, account, operation, source, target, amount, hold,
	available
FROM statement('acme', 'vision');
-- a statement of a span starts from the balance before it
SELECT at, entry, bucket, operation, amount, available
FROM statement('acme', 'vision', '2026-01-05', '2026-01-11');
SELECT count(*) FROM statement('acme', 'vision', '2026-02-01');

--
-- Jobs
--
SELECT set_price('H100', 6) \g /dev/null
SELECT set_price('A100', 3) \g /dev/null
SELECT set_price('T4', 1) \g /dev/null
SELECT register_node('default', 'h1', 'H100', 8, 81920, 64000, 4096)
\g /dev/null
SELECT register_node('default', 'a1', 'A100', 8, 40960) \g /dev/null
SELECT register_node('default', 't1', 'T4', 2, 16384) \g /dev/null
SELECT set_budget('acme', 'visio', 100, 'none', hard => false) \g /dev/null
SELECT job, status, held FROM reserve('acme', 'vision', 'j1', '2xH100',
	'2 h', cpu_milli => 32000, memory_mib => 2048);
SELECT job, status, held FROM reserve('acme', 'vision/alice', 'j2',
	'4xA100|H100', '10 h');
SELECT job, status, held FROM reserve('acme', 'visio', 'j3', '0.5xT4', '4 h');
SELECT job, status, held FROM reserve('acme', 'vision', 'j4', '0.5xT4', '4 h');
SELECT job, status, held FROM reserve('zeta', '', 'j1', '8xH100', '1 h');
SELECT job, status, reason FROM reserve('acme', '', 'j5', '8xH100', '24 h');
SELECT action, org, job, node, gpus, share FROM place() ORDER BY org, job;
SELECT job, account, request, state, attempt, gpu_type, gpus, held, used
FROM jobs ORDER BY org, job;
SELECT pg_temp.see() \g /dev/null

SELECT pg_temp.at('2026-01-11 01:00+00') \g /dev/null
SELECT action, billed, held FROM meter('acme', 1, 1, '1 h');
SELECT action, billed, held FROM meter('acme', 2, 1, '50 min');
SELECT job, state, elapsed, held, used FROM jobs ORDER BY org, job;
SELECT account, b.held, b.used, b.spent
FROM account a, balance('acme', a.account) b
WHERE a.org = 'acme' ORDER BY account;
SELECT pg_temp.see() \g /dev/null

SELECT pg_temp.at('2026-01-11 01:30+00') \g /dev/null
SELECT outcome, billed, released FROM settle('acme', 1, 1, 'completed',
	'80 min');
SELECT job_state FROM cancel('acme', 4, 'x4', 'not needed');
SELECT job, state, held FROM jobs WHERE org = 'acme' ORDER BY job;
SELECT * FROM history('acme', 1);
SELECT account, b.held, b.used, b.spent
FROM account a, balance('acme', a.account) b
WHERE a.org = 'acme' ORDER BY account;
SELECT pg_temp.see() \g /dev/null

--
-- The past by the entries equals the balances of the time
--
SELECT pg_temp.at('2026-01-20 00:00+00') \g /dev/null
SELECT count(*), count(DISTINCT at) AS instants,
	count(*) FILTER (WHERE s.balance <> b) AS wrong
FROM (SELECT DISTINCT ON (at, org, account) * FROM seen
		ORDER BY at, org, account, ctid DESC) s,
	LATERAL balance(s.org, s.account, s.at) b;
-- and a statement's running figure is the balance, at any time
SELECT count(*) FILTER (WHERE coalesce(l.available, 0) <> b.available)
	AS wrong, count(*) > 100 AS many
FROM account a
	CROSS JOIN generate_series('2025-12-31'::timestamptz, '2026-01-20',
		'6 h') t
	CROSS JOIN LATERAL balance(a.org, a.account, t) b
	LEFT JOIN LATERAL (SELECT (array_agg(s.available
			ORDER BY s.ordinality DESC))[1] AS available
		FROM statement(a.org, a.account, NULL, t + interval '1 us')
			WITH ORDINALITY s) l ON true;
SELECT count(*) FILTER (WHERE l.available <> b.available) AS wrong
FROM account a
	CROSS JOIN LATERAL balance(a.org, a.account) b
	JOIN LATERAL (SELECT s.available
		FROM statement(a.org, a.account) WITH ORDINALITY s
		ORDER BY s.ordinality DESC LIMIT 1) l ON true;
-- the future is answered with now
SELECT balance('acme', '', '2036-01-01') = balance('acme', '') AS now;

SELECT * FROM balance('acme', 'nobody');
SELECT * FROM balance('nobody');
SELECT * FROM balance(NULL);
SELECT * FROM balance('acme', '/');
SELECT * FROM buckets('acme', 'visio/');
SELECT * FROM statement('acme', NULL);
SELECT * FROM history('zeta', 1);
SELECT * FROM history('acme', NULL);

--
-- All is well; then the test breaks it
--
SELECT * FROM verify();
SELECT * FROM rebuild('acme');

-- What verify finds after a change that no function would make, with every
-- check off; what rebuild repairs, and what is left after it. All of it is
-- undone.
CREATE FUNCTION pg_temp.after(VARIADIC deeds text[]) RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
	deed text;
	found text[];
	mended text[];
	remaining text[];
BEGIN
	BEGIN
		FOR deed IN
			SELECT format('ALTER TABLE %s DROP CONSTRAINT %I',
				c.conrelid::regclass, c.conname)
			FROM pg_constraint c
			WHERE c.contype = 'c'
				AND c.connamespace = 'gpucredit'::regnamespace
		LOOP
			EXECUTE deed;
		END LOOP;
		FOR deed IN
			SELECT format('ALTER TABLE %s DISABLE TRIGGER %I',
				g.tgrelid::regclass, g.tgname)
			FROM pg_trigger g
			WHERE g.tgfoid = 'gpucredit_internal.row_check'::regproc
		LOOP
			EXECUTE deed;
		END LOOP;
		FOREACH deed IN ARRAY deeds LOOP
			EXECUTE deed;
		END LOOP;
		found := ARRAY(SELECT concat_ws(' ', v.invariant || ':', v.org,
			v.subject || ':', v.detail)
			COLLATE "C" FROM gpucredit.verify() v
			WHERE v.invariant <> 'soundness_is_guarded' ORDER BY 1);
		mended := ARRAY(SELECT format('rebuilt %s: %s, was %s', r.what,
			coalesce(trim_scale(r.is_now)::text, 'none'),
			coalesce(trim_scale(r.was)::text, 'none'))
			FROM gpucredit.rebuild('acme') r);
		IF mended <> '{}' THEN
			remaining := ARRAY(SELECT concat_ws(' ', 'still',
				v.invariant || ':', v.org, v.subject || ':', v.detail)
				COLLATE "C" FROM gpucredit.verify() v
				WHERE v.invariant <> 'soundness_is_guarded' ORDER BY 1)
				|| format('audited %s', (SELECT count(*)
					FROM gpucredit.audit a WHERE a.operation = 'rebuild'));
		END IF;
		RAISE EXCEPTION USING ERRCODE = 'XX999';
	EXCEPTION WHEN SQLSTATE 'XX999' THEN
		NULL;					/* undone */
	END;
	RETURN QUERY SELECT unnest(found || mended || remaining);
END
$$;
\pset tuples_only on

\echo === buckets
-- credit out of nothing
SELECT pg_temp.after($$UPDATE bucket SET available = '5000', issued = '5020'
	WHERE bucket = 3$$);
-- a negative available amount, though the row balances
SELECT pg_temp.after($$UPDATE bucket SET expired = expired + '30',
	available = available - '30' WHERE bucket = 2$$);
-- the row does not balance
SELECT pg_temp.after($$UPDATE bucket SET spent = '1' WHERE bucket = 5$$);
-- a bucket that nobody issued, and a missing one
SELECT pg_temp.after($$INSERT INTO bucket (org, bucket, account, kind,
	priority, effective_at, policy, created_at, issued, available)
	VALUES ('acme', 0, '', 'paid', 1, '2026-01-01', '{}', '2026-01-01',
	'9', '9')$$);
SELECT pg_temp.after($$DELETE FROM bucket WHERE bucket = 5$$);
-- drawn before it was active, after it expired, after it closed
SELECT pg_temp.after($$UPDATE bucket SET effective_at = '2026-01-06'
	WHERE bucket = 2$$);
SELECT pg_temp.after($$UPDATE bucket SET expires_at = '2026-01-11'
	WHERE bucket = 3$$);
SELECT pg_temp.after($$UPDATE bucket SET closed_at = '2026-01-05'
	WHERE bucket = 1$$);
-- an empty bucket that nobody issued
SELECT pg_temp.after($$INSERT INTO bucket (org, bucket, account, kind,
	priority, effective_at, policy, created_at)
	VALUES ('acme', 0, '', 'paid', 1, '2026-01-01', '{}', '2026-01-01')$$);
-- its limits differ from its policy
SELECT pg_temp.after($$UPDATE bucket SET tiers = '{interactive}',
	max_per_job = '1' WHERE bucket = 1$$);

\echo === entries
-- an entry that makes a bucket negative: nothing to rebuild
SELECT pg_temp.after($$INSERT INTO entry (org, at, account, bucket, source,
	target, amount, operation) VALUES ('acme', '2026-01-11', 'visio', 5,
	'available', 'expired', '8', 'expire')$$);
-- an entry of a hold, for another account and another job
SELECT pg_temp.after($$INSERT INTO entry (org, at, account, bucket, source,
	target, amount, operation, hold, part, job) VALUES ('acme', '2026-01-11',
	'visio', 1, 'held', 'available', '1', 'settle', 4, 1, 77)$$);

\echo === holds
SELECT pg_temp.after($$UPDATE hold SET held = '6', captured = '2'
	WHERE hold = 2$$);
SELECT pg_temp.after($$UPDATE hold SET released = '-1' WHERE hold = 2$$);
SELECT pg_temp.after($$UPDATE hold SET closed_at = '2026-01-11', held = '7'
	WHERE hold = 2$$);
SELECT pg_temp.after($$UPDATE hold_part SET held = held - '1',
	spent = spent + '1' WHERE hold = 2$$);
SELECT pg_temp.after($$UPDATE hold_part SET returned = '-4' WHERE hold = 2$$);
-- a missing part, an invented one, one of a bucket below the account
SELECT pg_temp.after($$DELETE FROM hold_part WHERE hold = 3 AND part = 2$$);
SELECT pg_temp.after($$INSERT INTO hold_part
	VALUES ('acme', 2, 2, 1, '5', '5')$$);
SELECT pg_temp.after($$UPDATE hold_part SET bucket = 4 WHERE hold = 2$$);
-- all its parts are missing
SELECT pg_temp.after($$DELETE FROM hold WHERE hold = 2$$);

\echo === spend
SELECT pg_temp.after($$UPDATE account_delta SET spent = '1'
	WHERE account = 'vision'$$);
SELECT pg_temp.after($$DELETE FROM account_delta$$);
SELECT pg_temp.after($$INSERT INTO account_total
	VALUES ('acme', 'nobody', '3')$$);

\echo === accounts
SELECT pg_temp.after($$DELETE FROM account
	WHERE account IN ('visio', 'vision')$$);

\echo === jobs
-- running without a hold; with the hold of another job
SELECT pg_temp.after($$UPDATE hold SET closed_at = '2026-01-11'
	WHERE job = 3$$);
SELECT pg_temp.after($$UPDATE job SET hold = 4 WHERE job = 3$$);
-- an unknown state, and an end without a final state
SELECT pg_temp.after($$UPDATE job SET state = 'gone' WHERE job = 3$$);
SELECT pg_temp.after($$UPDATE job SET ended_at = NULL
	WHERE job = (SELECT min(job) FROM job WHERE ended_at IS NOT NULL)$$);
-- a negative quota; a key with unreadable arguments
SELECT pg_temp.after($$INSERT INTO quota (org, account, gpu_type, max_gpus)
	VALUES ('acme', '', '', -1)$$);
-- limits in an account's row that nobody set, and a missing one: both are
-- mended
SELECT pg_temp.after($$UPDATE account SET limits
	= '{"budgets": [["day", 1, true, 1, [1]]]}'
	WHERE account IN ('vision', '') AND org = 'acme'$$,
	$$SELECT gpucredit.set_budget('acme', 'visio', 50, 'week')$$,
	$$SELECT gpucredit.set_quota('acme', 'visio', max_running => 2)$$,
	$$UPDATE account SET limits = limits - 'budgets'
	WHERE account = 'visio'$$);
SELECT pg_temp.after($$INSERT INTO quota_lock (org, account, gpu_type)
	VALUES ('acme', '', 'H100')$$);
SELECT pg_temp.after($$UPDATE request SET fingerprint = '\x00'
	WHERE key = (SELECT min(key) FROM request)$$);
-- a hold whose job is over; whose job is missing
SELECT pg_temp.after($$UPDATE job SET state = 'failed',
	ended_at = '2026-01-11' WHERE job = 5$$);
SELECT pg_temp.after($$DELETE FROM job WHERE job = 5$$);
-- queued and running at once; running without an attempt
SELECT pg_temp.after($$UPDATE job SET state = 'queued' WHERE job = 3$$);
SELECT pg_temp.after($$DELETE FROM attempt WHERE job = 3$$);
SELECT pg_temp.after($$UPDATE job SET attempt = 2 WHERE job = 1$$);
SELECT pg_temp.after($$UPDATE attempt SET account = '' WHERE job = 3$$);
SELECT pg_temp.after($$UPDATE attempt SET tier = 'interactive'
	WHERE job = 3$$);
-- devices on terms that differ from the job's
SELECT pg_temp.after($$UPDATE attempt_gpu SET preemptible = 'never',
	max_gpus = 64 WHERE job = 3$$);
-- a settlement that says more, or less, went back than did
SELECT pg_temp.after($$UPDATE attempt SET released = released + '1'
	WHERE job = 1 AND attempt = 1$$);
SELECT pg_temp.after($$UPDATE attempt SET lapsed = NULL
	WHERE job = 1 AND attempt = 1$$);
-- an attempt that assumes more than is held
SELECT pg_temp.after($$UPDATE attempt SET held = '2.5' WHERE job = 3$$);
SELECT pg_temp.after($$INSERT INTO directive VALUES ('acme', 1, 2, 'cancel',
	'stop', 'cancelled', NULL, '2026-01-11')$$);

\echo === budgets
SELECT pg_temp.after($$UPDATE budget_counter SET reserved = reserved - '1',
	spent = spent + '1'$$);
SELECT pg_temp.after($$DELETE FROM budget_counter$$);
SELECT pg_temp.after($$UPDATE hold_budget SET reserved = '3'$$,
	$$UPDATE budget_counter SET reserved = '3'$$);
SELECT pg_temp.after($$UPDATE hold SET counted = false WHERE hold = 5$$);

\echo === bills
SELECT pg_temp.after($$UPDATE attempt SET billed = '15' WHERE job = 1$$);
SELECT pg_temp.after($$UPDATE attempt SET outcome = NULL WHERE job = 1$$);
SELECT pg_temp.after($$UPDATE attempt SET elapsed = '81 min' WHERE job = 1$$);
-- a price that was not offered, of an ended and of a running attempt
SELECT pg_temp.after($$UPDATE attempt SET per_gpu_hour = per_gpu_hour
	+ '0.000001' WHERE attempt = 1$$);
SELECT pg_temp.after($$INSERT INTO usage VALUES ('acme', 2, 1, '2026-01-12',
	'56 min', '11.2')$$);

\echo === shares
-- use that did not happen; use that is not recorded; use of a live attempt
SELECT pg_temp.after($$INSERT INTO fair_usage VALUES ('acme', 'default', '', 1,
	'2026-01-12')$$);
SELECT pg_temp.after($$UPDATE attempt SET usage_charged = 5 WHERE job = 1$$);
SELECT pg_temp.after($$UPDATE attempt SET usage_charged = 0 WHERE ended_at IS NULL$$);
-- attempts that no cycle would charge, or would look at in vain
SELECT pg_temp.after($$UPDATE attempt SET needs_cycle = NOT needs_cycle$$);
-- a queued job that would start as something else
SELECT pg_temp.after($$UPDATE job SET cpu_milli = 1 WHERE state = 'queued'$$);
-- a queued job that nobody counts
SELECT pg_temp.after($$UPDATE job SET waits_from = NULL WHERE state = 'queued'$$);
SELECT pg_temp.after($$UPDATE job SET waited = '-1 s' WHERE job = 3$$);

\echo === devices
-- a device given to two jobs; a shared one given too often
SELECT pg_temp.after($$UPDATE attempt_gpu SET node = 'a1', gpus = '{3}'
	WHERE job = 3$$);
SELECT pg_temp.after($$UPDATE attempt_gpu SET share = 501 WHERE job = 3$$);
-- devices that do not exist, on a missing node, of another type
SELECT pg_temp.after($$UPDATE attempt_gpu SET gpus = '{6-9}'
	WHERE job = 2$$);
SELECT pg_temp.after($$DELETE FROM node WHERE node = 'a1'$$);
SELECT pg_temp.after($$UPDATE attempt_gpu SET node = 'h1' WHERE job = 2$$);
-- part of a gang; no part of one
SELECT pg_temp.after($$UPDATE attempt_gpu SET gpus = '{0-2}'
	WHERE job = 2$$);
SELECT pg_temp.after($$DELETE FROM attempt_gpu WHERE job = 2$$);
-- cpu and memory that differ from the job's part
SELECT pg_temp.after($$UPDATE attempt_gpu SET cpu_milli = cpu_milli + 1
	WHERE job = 2$$);
SELECT pg_temp.after($$UPDATE attempt_gpu SET memory_mib = -1 WHERE job = 2$$);
-- of another account than its attempt, or until another time
SELECT pg_temp.after($$UPDATE attempt_gpu SET account = 'elsewhere'
	WHERE job = 2$$);
SELECT pg_temp.after($$UPDATE attempt_gpu SET limit_end = 'infinity'
	WHERE job = 2$$);
-- given out while in use; kept by an ended job
SELECT pg_temp.after($$UPDATE attempt_gpu SET free = true WHERE job = 2$$);
SELECT pg_temp.after($$UPDATE attempt_gpu SET free = false, ended_at = NULL
	WHERE job = 1$$);
-- more cpu than the node has
SELECT pg_temp.after($$UPDATE attempt_gpu SET node = 'h1', cpu_milli = 64001
	WHERE job = 4$$);

\echo === guards
SELECT pg_temp.after($$UPDATE request SET result = NULL WHERE key = 'h2'$$);
SELECT pg_temp.after($$ALTER TABLE bucket ADD CONSTRAINT bucket_of
	FOREIGN KEY (org, account) REFERENCES account$$);
SELECT pg_temp.after($$ALTER TABLE usage DISABLE TRIGGER usage_append_only$$,
	$$ALTER TABLE audit ENABLE TRIGGER audit_append_only$$);
SELECT pg_temp.after($$ALTER SEQUENCE job_job_seq RESTART$$,
	$$ALTER SEQUENCE bucket_bucket_seq RESTART$$,
	$$ALTER SEQUENCE audit_audit_seq RESTART$$);

\pset tuples_only off
-- guards that are missing, switched off, or look at some rows only
BEGIN;
ALTER TABLE bucket DISABLE TRIGGER bucket_sound;
ALTER TABLE hold ENABLE TRIGGER hold_sound_new;
DROP TRIGGER hold_part_sound ON hold_part;
CREATE TRIGGER hold_part_sound AFTER UPDATE OF held ON hold_part
	FOR EACH ROW EXECUTE FUNCTION gpucredit_internal.row_check();
ALTER TABLE hold_part ENABLE ALWAYS TRIGGER hold_part_sound;
ALTER TABLE entry DISABLE TRIGGER entry_sound_new;
ALTER TABLE budget_counter ENABLE TRIGGER budget_counter_sound;
DROP TRIGGER hold_budget_sound_new ON hold_budget;
DROP TRIGGER entry_append_only ON entry;
DROP TRIGGER seal_append_only ON seal;
CREATE TRIGGER seal_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON seal
	FOR EACH STATEMENT WHEN (false) EXECUTE FUNCTION gpucredit_internal.refuse_change();
ALTER TABLE seal ENABLE ALWAYS TRIGGER seal_append_only;
ALTER TABLE job DISABLE ROW LEVEL SECURITY;
DROP POLICY tenants_own ON attempt;
ALTER POLICY tenants_own ON account USING (true);
-- what may be missing now is not checked
ALTER TABLE bucket ALTER available DROP NOT NULL;
ALTER TABLE hold ALTER counted DROP NOT NULL;
ALTER TABLE attempt_gpu ALTER free DROP NOT NULL;
ALTER TABLE fair_usage ALTER usage DROP NOT NULL;
UPDATE hold SET counted = NULL;
UPDATE attempt_gpu SET free = NULL;
SELECT invariant, subject, detail FROM verify() ORDER BY subject, invariant;
ROLLBACK;

-- each table with a nullable column is known
BEGIN;
DO $$
DECLARE
	c record;
BEGIN
	FOR c IN SELECT a.attrelid::regclass AS name, min(a.attname) AS col
		FROM pg_attribute a JOIN pg_class r ON r.oid = a.attrelid
		WHERE r.relnamespace = 'gpucredit'::regnamespace AND r.relkind = 'r'
			AND a.attnum > 0 AND a.attnotnull AND NOT EXISTS (SELECT
				FROM pg_index i WHERE i.indrelid = a.attrelid
				AND i.indisprimary AND a.attnum = ANY (i.indkey))
		GROUP BY a.attrelid
	LOOP
		EXECUTE format('ALTER TABLE %s ALTER %I DROP NOT NULL', c.name, c.col);
	END LOOP;
END $$;
WITH v AS MATERIALIZED (SELECT v.subject FROM verify() v
	WHERE v.invariant = 'column_is_filled')
SELECT r.relname AS not_told FROM pg_class r
WHERE r.relnamespace = 'gpucredit'::regnamespace AND r.relkind = 'r'
	AND 'table gpucredit.' || r.relname NOT IN (SELECT v.subject FROM v) ORDER BY 1;
ROLLBACK;

-- verify's rows have one order, whatever the plan and the rows' places: by
-- check, then by invariant, organisation, subject
BEGIN;
ALTER TABLE bucket DISABLE TRIGGER bucket_sound;
UPDATE bucket SET spent = spent + '1' WHERE bucket = 5;
UPDATE bucket SET available = available - '1', spent = spent + '1'
WHERE bucket IN (1, 6);
UPDATE bucket SET available = available - '1', spent = spent + '1'
WHERE bucket = 4;
UPDATE job SET ended_at = NULL WHERE job = 1;
SELECT invariant, org, subject, detail FROM verify();
ROLLBACK;

-- verify checks one organisation, rebuild mends one
BEGIN;
UPDATE bucket SET available = available - '1', spent = spent + '1'
WHERE bucket IN (1, 6);
SELECT invariant, org, detail FROM verify('zeta') ORDER BY detail;
SELECT * FROM rebuild('acme');
SELECT login = current_user AS login, actor = current_user AS actor, decision,
	bucket, detail
FROM audit WHERE operation = 'rebuild' ORDER BY audit;
SELECT invariant, org, detail FROM verify() ORDER BY detail;
ROLLBACK;
SELECT * FROM rebuild('nobody');
SELECT * FROM verify('nobody');

--
-- Upkeep
--
SELECT org, account, spent FROM account_delta ORDER BY org, account, spent;
SELECT pg_temp.at('2026-01-12 00:00+00') \g /dev/null
SELECT * FROM maintain();
SELECT * FROM account_total ORDER BY org, account;
SELECT b.spent FROM balance('acme') b;
-- a key lives for gpucredit.key_retention, not longer, but a payment's for ever
SELECT org, key FROM request ORDER BY org, key;
-- a directive outlives its attempt only briefly
INSERT INTO directive VALUES ('acme', 1, 1, 'drain/h1', 'checkpoint',
	'drained', NULL, '2026-01-11');
SELECT pg_temp.at('2026-01-12 00:00:00.000001+00') \g /dev/null
SELECT * FROM maintain();
SELECT org, key FROM request ORDER BY org, key;

-- the end of the job's history
SELECT pg_temp.at('2026-01-11 02:00+00') \g /dev/null
SELECT outcome, billed, released, retry_at FROM settle('acme', 2, 1, 'failed',
	'1 h');
SELECT outcome, billed FROM settle('acme', 4, 1, 'cancelled');
SELECT outcome, billed FROM settle('acme', 3, 1, 'node_lost', '30 min');
SELECT job, state, attempt, failures, held FROM jobs ORDER BY org, job;
SELECT * FROM verify();
SELECT * FROM rebuild('acme');

-- a forced null where none may be is refused, and found
BEGIN;
ALTER TABLE hold ALTER counted DROP NOT NULL;
ALTER TABLE attempt ALTER gpus DROP NOT NULL;
UPDATE hold SET counted = NULL WHERE org = 'acme' AND hold = 1;
UPDATE attempt SET gpus = NULL WHERE org = 'acme' AND job = 1;
SAVEPOINT forced;
SELECT * FROM release('acme', 1, 'forced');
ROLLBACK TO forced;
SELECT * FROM meter('acme', 1, 1, '1 h');
ROLLBACK TO forced;
\set VERBOSITY sqlstate
SELECT * FROM meter('acme', 1, 1, '1 h');
\set VERBOSITY default
ROLLBACK TO forced;
SELECT invariant, subject, detail FROM verify('acme');
ROLLBACK;

-- an account's limits, written by hand in other forms: refused, found, and
-- written again by the next call that sets one
BEGIN;
CREATE FUNCTION pg_temp.refused(call text) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
	/* on a machine so busy that a look grew old, a call reads the tables */
	FOR i IN 1 .. 1000 LOOP
		BEGIN
			EXECUTE call;
			RAISE 'done';
		EXCEPTION WHEN OTHERS THEN
			IF SQLERRM <> 'done' THEN
				RETURN SQLSTATE;
			END IF;
		END;
	END LOOP;
	RETURN 'never';
END $$;
CREATE FUNCTION pg_temp.limited(call text, VARIADIC forms jsonb[])
RETURNS TABLE (limits jsonb, refused text, told bigint)
LANGUAGE plpgsql AS $$
BEGIN
	FOREACH limits IN ARRAY forms LOOP
		UPDATE gpucredit.account a SET limits = limited.limits
		WHERE a.org = 'acme' AND a.account = '';
		refused := pg_temp.refused(call);
		told := (SELECT count(*) FROM gpucredit.verify('acme') v
			WHERE v.invariant = 'account_has_its_limits');
		RETURN NEXT;
	END LOOP;
END $$;
SELECT * FROM pg_temp.limited($$SELECT gpucredit.hold('acme', '', 'by hand', 1, '1 h')$$,
	'3', '"budgets"', '[]', 'null', '[{"budgets": []}]',
	'{"budgets": 3}', '{"budgets": null}', '{"budgets": {}}', '{"budgets": [3]}', '{"budgets": [{}]}',
	'{"budgets": [[]]}', '{"budgets": [["day"]]}', '{"budgets": [["day", 1, true, 1, []], null]}',
	'{"budgets": [["day", 1, true, 1, [], 1]]}', '{"budgets": [[1, 1, true, 1, []]]}',
	'{"budgets": [["day", "1", true, 1, []]]}', '{"budgets": [["day", null, true, 1, []]]}',
	'{"budgets": [["day", 1, 1, 1, []]]}', '{"budgets": [["day", 1, true, [], []]]}',
	'{"budgets": [["day", 1, true, 1, 1]]}', '{"budgets": [["day", 1, true, 1, {}]]}',
	'{"budgets": [["day", 1, true, 1, [1, "1"]]]}', '{"budgets": [["day", 1, true, 1, [[]]]]}',
	'{"budgets": [["day", 1e30, true, 1, []]]}', '{"budgets": [["day", 1, true, 1e30, []]]}');
SELECT * FROM pg_temp.limited($$SELECT gpucredit.reserve('acme', '', 'by hand', '1xH100', '1 h')$$,
	'{"quotas": 3}', '{"quotas": {}}', '{"quotas": [["H100", 1]]}',
	'{"quotas": [["H100", "1", false, null, null, null]]}', '{"quotas": [[null, 1, false, null, null, null]]}',
	'{"quotas": [["H100", null, null, null, null, null]]}', '{"quotas": [["H100", 1e30, false, null, null, null]]}', '[]');
SAVEPOINT forced;
SELECT status FROM reserve('acme', '', 'by hand', '1xH100', '1 h');
ROLLBACK TO forced;
SELECT set_quota('acme', '', 'H100');
SELECT status FROM reserve('acme', '', 'by hand', '1xH100', '1 h');
SELECT account, limits FROM account WHERE org = 'acme' ORDER BY account;
SELECT * FROM verify('acme');
ROLLBACK;

--
-- Privileges
--
SET ROLE gpucredit_app;
SELECT available FROM balance('acme', 'visio');
SELECT count(*) FROM history('acme', 2) WHERE what LIKE 'settle%';
SELECT job, state FROM jobs WHERE org = 'zeta';
SELECT * FROM bucket;
SELECT * FROM verify();
SET ROLE gpucredit_auditor;
SELECT * FROM verify();
SELECT count(*) FROM bucket;
SELECT * FROM rebuild('acme');
SELECT * FROM maintain();
SET ROLE gpucredit_agent;
SELECT available FROM balance('acme');
RESET ROLE;
