-- What was spendable at past instants, from the entries and from the log of
-- budgets.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
SET search_path = gpucredit, public;
\pset null '-'

CREATE FUNCTION pg_temp.at(clock text) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('gpucredit.clock', clock, false)
$$;
-- What is spendable now, in account a and below it, for the comparison later.
CREATE TEMP TABLE seen (n serial, at timestamptz, account text,
	balance gpucredit.balance_result);
CREATE FUNCTION pg_temp.see(OUT organisation numeric, OUT a numeric,
	OUT below numeric) LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO seen (at, account, balance)
	SELECT gpucredit.now(), v.account, gpucredit.balance('pa', v.account)
	FROM unnest('{"",a,a/x}'::text[]) v (account);
	SELECT (gpucredit.balance('pa', '')).spendable, (gpucredit.balance('pa', 'a')).spendable,
		(gpucredit.balance('pa', 'a/x')).spendable INTO organisation, a, below;
END $$;
SELECT pg_temp.at('2026-04-10 10:00+00') \g /dev/null
SELECT create_account('pa', v) FROM unnest('{"",a,a/x,b}'::text[]) v \g /dev/null
SELECT create_pool('pa') \g /dev/null
SELECT set_price('Past', 10, 'pa') \g /dev/null
SELECT register_node('pa', 'pa-1', 'Past', 4, 16384) \g /dev/null
SELECT issue('pa', '', 'i', 1000) \g /dev/null
SELECT hold AS early FROM hold('pa', 'a', 'h1', 30, '100 days') \gset
SELECT * FROM pg_temp.see();
-- at the very instant: earlier draws do not count, later ones do
SELECT pg_temp.at('2026-04-10 11:00+00') \g /dev/null
SELECT status FROM hold('pa', 'a/x', 'h2', 7, '100 days');
SELECT set_budget('pa', 'a', 100, 'day');
SELECT hold AS late FROM hold('pa', 'a/x', 'h3', 20, '100 days') \gset
SELECT * FROM pg_temp.see();
-- a lower one; a second one, tighter
SELECT pg_temp.at('2026-04-10 12:00+00') \g /dev/null
SELECT set_budget('pa', 'a', 50, 'day'), set_budget('pa', 'a/x', 25, 'none');
SELECT * FROM pg_temp.see();
-- captures spend the first drawn; what returns frees its budget
SELECT pg_temp.at('2026-04-10 13:00+00') \g /dev/null
SELECT captured FROM capture('pa', :early, 'c1', 10, false);
SELECT captured, released FROM capture('pa', :late, 'c2', 12);
SELECT * FROM pg_temp.see();
SELECT pg_temp.at('2026-04-10 14:00+00') \g /dev/null
SELECT refunded FROM refund_hold('pa', :late, 'f1', 5, 'sorry');
SELECT * FROM pg_temp.see();
-- a hold that dies
SELECT pg_temp.at('2026-04-10 15:00+00') \g /dev/null
SELECT status FROM hold('pa', 'a/x', 'h4', 6, '30 min');
SELECT * FROM pg_temp.see();
SELECT pg_temp.at('2026-04-10 15:30+00') \g /dev/null
SELECT * FROM pg_temp.see();
-- the budget is removed and set again: it counts again
SELECT pg_temp.at('2026-04-10 16:00+00') \g /dev/null
SELECT set_budget('pa', 'a', NULL, 'day');
SELECT * FROM pg_temp.see();
SELECT pg_temp.at('2026-04-10 17:00+00') \g /dev/null
SELECT set_budget('pa', 'a', 40, 'day');
SELECT * FROM pg_temp.see();
-- a job whose hold grows in the next period, and ends in it
SELECT pg_temp.at('2026-04-10 23:00+00') \g /dev/null
SELECT heartbeat('pa-1') \g /dev/null
SELECT job FROM reserve('pa', 'a', 'j1', '1xPast', '3 h', pool => 'pa', hold_window => '1 h') \gset
SELECT count(*) FROM place('pa');
SELECT * FROM pg_temp.see();
SELECT pg_temp.at('2026-04-11 00:00+00') \g /dev/null
SELECT * FROM pg_temp.see();
SELECT pg_temp.at('2026-04-11 00:01+00') \g /dev/null
SELECT action, held FROM meter('pa', :job, 1, '61 min');
SELECT * FROM pg_temp.see();
SELECT pg_temp.at('2026-04-11 00:30+00') \g /dev/null
SELECT billed, released FROM settle('pa', :job, 1, 'completed', '72 min');
SELECT * FROM pg_temp.see();
SELECT pg_temp.at('2026-04-11 01:00+00') \g /dev/null
SELECT refunded FROM refund('pa', :job, 'f2', 5, 'sorry');
SELECT set_budget('pa', 'a', 30, 'day', hard => false), set_budget('pa', '', 500, 'year');
SELECT * FROM pg_temp.see();
-- at its start a job gives back excess that it held before the budget was set;
-- its extension counts all the same
SELECT pg_temp.at('2026-04-11 01:10+00') \g /dev/null
SELECT set_price('Past-2', 30, 'pa'), register_node('pa', 'pa-2', 'Past-2', 1, 16384) \g /dev/null
SELECT drain('pa-2', 'fan') \g /dev/null
SELECT job, held FROM reserve('pa', 'a/x', 'j2', '1xPast|Past-2', '4 h', pool => 'pa', hold_window => '30 min') \gset
SELECT set_budget('pa', 'a/x', NULL, 'none'), set_budget('pa', 'a/x', 60, 'day');
SELECT * FROM pg_temp.see();
SELECT pg_temp.at('2026-04-11 01:11+00') \g /dev/null
SELECT heartbeat('pa-1') \g /dev/null
SELECT action, per_gpu_hour FROM place('pa');
SELECT pg_temp.at('2026-04-11 01:40+00') \g /dev/null
SELECT held FROM meter('pa', :job, 1, '27 min');
SELECT * FROM pg_temp.see();
SELECT pg_temp.at('2026-04-11 01:50+00') \g /dev/null
SELECT billed FROM settle('pa', :job, 1, 'completed', '39 min');
SELECT * FROM pg_temp.see();
SELECT pg_temp.at('2026-04-11 01:55+00') \g /dev/null
SELECT set_budget('pa', 'a/x', NULL, 'day'), set_budget('pa', 'a/x', 25, 'none');
-- below what is taken
SELECT pg_temp.at('2026-04-11 02:00+00') \g /dev/null
SELECT status FROM hold('pa', 'b', 'h5', 300, '100 days');
SELECT set_budget('pa', '', 200, 'year');
SELECT * FROM pg_temp.see();

-- From a later time on: all of it as it was
SELECT pg_temp.at('2026-05-01 00:00+00') \g /dev/null
SELECT set_budget('pa', 'a', NULL, 'day'), set_budget('pa', 'a/x', 1000, 'none');
SELECT reap_holds() \g /dev/null
SELECT s.at, s.account, (s.balance).spendable AS was, b.spendable AS told
FROM seen s, balance('pa', s.account, s.at) b
WHERE (s.balance).spendable <> b.spendable ORDER BY n;
SELECT count(*), count(DISTINCT (s.balance).spendable) AS different FROM seen s;
-- and just before each change
SELECT s.at, b.spendable FROM (SELECT DISTINCT at FROM seen) s, balance('pa', 'a/x', s.at - interval '1 us') b ORDER BY 1;
SELECT spendable, available FROM balance('pa', 'a/x', '-infinity');

-- verify watches the log of budgets
SELECT * FROM verify('pa');
BEGIN;
UPDATE budget_log SET amount = '7' WHERE org = 'pa' AND account = 'a/x' AND at = (SELECT max(at) FROM budget_log WHERE org = 'pa' AND account = 'a/x');
UPDATE budget SET hard = false WHERE org = 'pa' AND account = '';
DELETE FROM budget_log WHERE org = 'pa' AND account = 'a' AND amount IS NULL;
SELECT invariant, subject, detail FROM verify('pa')
ORDER BY detail;
ROLLBACK;
SET ROLE gpucredit_auditor;
SELECT count(*) FROM budget_log WHERE org = 'pa';
SET ROLE gpucredit_app;
SELECT spendable FROM balance('pa', 'a', '2026-04-10 12:00+00');
SELECT gpucredit_internal.budget_room_at('pa', 'a', '2026-04-10 12:00+00');
RESET ROLE;
