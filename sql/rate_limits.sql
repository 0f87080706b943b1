--
-- How often an account may call. (The library must be preloaded.)
--
SET search_path = gpucredit, public;
SET timezone = 'UTC';
SET client_min_messages = warning;
SET gpucredit.node_suspect = 0;
SET gpucredit.clock = '2027-03-01 00:00+00';

-- An application that also administers is limited; a superuser is not.
CREATE ROLE rate_all IN ROLE gpucredit_app, gpucredit_admin,
	gpucredit_operator, gpucredit_agent, gpucredit_auditor;
GRANT SET ON PARAMETER gpucredit.clock TO rate_all;
SET ROLE rate_all;

SELECT create_account('rate'), create_account('rate', 'lab'),
	create_account('rate', 'lab/eve'), create_account('rate', 'labs'),
	create_account('rate-other') \g /dev/null
SELECT replayed FROM issue('rate', '', 'credit', 1000) \g /dev/null
SELECT replayed FROM issue('rate-other', '', 'credit', 1000) \g /dev/null
SELECT set_price('RateG', 1), create_pool('rate'),
	register_node('rate', 'rate-1', 'RateG', 4, 40960) \g /dev/null

-- Two calls at once, then one every half second; another account's calls cost
-- it nothing.
SELECT set_rate_limit('rate', 'lab', 'hold', 2, 2);
SELECT status FROM hold('rate', 'lab', 'h1', 1, '1 h');
SELECT status FROM hold('rate', 'labs', 'h2', 1, '1 h');
SELECT status FROM hold('rate', '', 'h3', 1, '1 h');
SELECT status FROM hold('rate-other', '', 'h1', 1, '1 h');
SELECT status FROM hold('rate', 'lab/eve', 'h4', 1, '1 h');
SELECT status FROM hold('rate', 'lab', 'h5', 1, '1 h');
SELECT status FROM hold('rate', 'lab/eve', 'h5', 1, '1 h');
SELECT status FROM hold('rate', 'labs', 'h5', 1, '1 h');

-- the hint gives the exact wait
SET gpucredit.clock = '2027-03-01 00:00:00.499+00';
SELECT status FROM hold('rate', 'lab', 'h6', 1, '1 h');
SET gpucredit.clock = '2027-03-01 00:00:00.5+00';
SELECT status FROM hold('rate', 'lab', 'h6', 1, '1 h');
SELECT status FROM hold('rate', 'lab', 'h7', 1, '1 h');

-- it never holds more than a burst
SET gpucredit.clock = '2027-03-01 01:00+00';
SELECT status FROM hold('rate', 'lab', 'h7', 1, '1 h');
SELECT status FROM hold('rate', 'lab', 'h8', 1, '1 h');
SELECT status FROM hold('rate', 'lab', 'h9', 1, '1 h');

-- Replays count, and so do calls that fail or are rolled back. The limit is
-- checked before all else, and a refused call writes nothing.
SET gpucredit.clock = '2027-03-01 02:00+00';
SELECT status, replayed FROM hold('rate', 'lab', 'h8', 1, '1 h');
SELECT status FROM hold('rate', 'lab', NULL, -1, '1 h');
SELECT status FROM hold('rate', 'lab', NULL, -1, '1 h');
SET gpucredit.clock = '2027-03-01 03:00+00';
BEGIN;
SELECT status FROM hold('rate', 'lab', 'undone', 1, '1 h');
ROLLBACK;
SELECT status FROM hold('rate', 'lab', 'h10', 1, '1 h');
SELECT status FROM hold('rate', 'lab', 'h11', 1, '1 h');
SELECT count(*) FROM request WHERE org = 'rate' AND key IN ('undone', 'h11');
SELECT count(*) FROM audit WHERE org = 'rate' AND detail ->> 'key' = 'h11';

-- Every level of the path counts, by the function's name and by '*'; a call
-- refused by one limit takes from none.
SELECT set_rate_limit('rate', 'lab', 'hold', NULL, NULL);
SELECT set_rate_limit('rate', '', '*', 0.001, 3),
	set_rate_limit('rate', 'lab/eve', 'hold', 0.001, 1),
	set_rate_limit('rate', 'lab/eve', 'reserve', 0.001, 1) \g /dev/null
SELECT status FROM hold('rate', 'lab/eve', 'l1', 1, '1 h');
SELECT status FROM hold('rate', 'lab/eve', 'l2', 1, '1 h');
SELECT job AS job, status FROM reserve('rate', 'lab/eve', 'l3', '1xRateG',
	'1 h', pool => 'rate') \gset
\echo :status
SELECT status FROM reserve('rate', 'lab/eve', 'l4', '1xRateG', '1 h');
SELECT status FROM hold('rate', 'lab', 'l5', 1, '1 h');
SELECT status FROM hold('rate', 'lab', 'l6', 1, '1 h');
-- a refused caller may still read, as often as it likes
SELECT count(*) > 5 AS told FROM balance('rate', 'lab/eve') b, buckets('rate', 'lab'), explain('rate', :job), statement('rate', 'lab');
SELECT * FROM verify('rate');

-- A limit that is set again starts full, also with the same values.
SET gpucredit.clock = '2027-03-01 03:00:01+00';
SELECT set_rate_limit('rate', '', '*', 0.001, 3) \g /dev/null
SELECT status FROM hold('rate', 'lab', 'l6', 1, '1 h');
SELECT set_rate_limit('rate', '', '*', NULL, NULL) \g /dev/null

-- Calls on jobs and holds count for their account.
SELECT count(*) FROM place('rate');
SELECT set_rate_limit('rate', 'lab/eve', 'cancel', 1, 1),
	set_rate_limit('rate', 'lab', 'cancel', 1, 5),
	set_rate_limit('rate', 'lab', 'release', 1, 1) \g /dev/null
SELECT job_state FROM cancel('rate', :job, 'c1');
SELECT job_state FROM cancel('rate', :job, 'c2');
SELECT job_state FROM cancel('rate', 0, 'c3');
SELECT hold AS h FROM hold('rate', 'lab', 'l6', 1, '1 h') \gset
SELECT released FROM release('rate', :h, 'r1');
SELECT released FROM release('rate', :h, 'r1');

-- Quotes have a limit of their own, and count for '*'.
SELECT set_rate_limit('rate', 'lab', 'quote', 1, 1);
SELECT decision FROM quote('rate', 'lab/eve', '1xRateG', '1 h', pool => 'rate', plan => false);
SELECT decision FROM quote('rate', 'lab', '1xRateG', '1 h', pool => 'rate', plan => false);
SELECT status FROM reserve('rate', 'lab', 'quoted', '1xRateG', '1 h', pool => 'rate');
SELECT set_rate_limit('rate', 'lab', 'quote', NULL, NULL), set_rate_limit('rate', 'lab', '*', 1, 1) \g /dev/null
SELECT decision FROM quote('rate', 'lab', '1xRateG', '1 h', pool => 'rate', plan => false);
SELECT decision FROM quote('rate', 'lab', '1xRateG', '1 h', pool => 'rate', plan => false);
SELECT set_rate_limit('rate', 'lab', '*', NULL, NULL) \g /dev/null

-- What only agents and administrators call has no limit.
SELECT set_rate_limit('rate', 'lab', 'meter', 1, 1);
SELECT set_rate_limit('rate', 'lab', 'meter_batch', 1, 1);
SELECT set_rate_limit('rate', 'lab', 'part_ended', 1, 1);
SELECT set_rate_limit('rate', 'lab', 'suspend_account', 1, 1);
SELECT set_rate_limit('rate', '', '*', 0.001, 1) \g /dev/null
SELECT released FROM release('rate', :h, 'r2');
SELECT action FROM meter('rate', :job, 1, '0');
SELECT org, action, reason, billed FROM meter_batch(ARRAY['rate', 'rate'],
	ARRAY[:job, 0], ARRAY[1, 1], ARRAY[interval '1 s', '1 s']);
SELECT suspend_account('rate', 'lab', true), suspend_account('rate', 'lab', false);
SELECT bucket AS b FROM issue('rate', 'lab', 'own', 1) \gset
SELECT revoked FROM revoke('rate', :b, 'rev', 'test');

-- Agents, operators and administrators are not limited, whatever they call.
SET ROLE gpucredit_operator;
SELECT job_state FROM cancel('rate', :job, 'c4');
SELECT job_state FROM cancel('rate', :job, 'c5');
SET ROLE gpucredit_admin;
SELECT status FROM hold('rate', 'lab', 'admin 1', 1, '1 h');
SELECT status FROM hold('rate', 'lab', 'admin 2', 1, '1 h');
SET ROLE gpucredit_agent;
SELECT outcome, replayed FROM settle('rate', :job, 1, 'cancelled', '1 s');
SELECT outcome, replayed FROM settle('rate', :job, 1, 'cancelled', '1 s');
RESET ROLE;
SELECT status FROM hold('rate', 'lab', 'super 1', 1, '1 h');
SELECT status FROM hold('rate', 'lab', 'super 2', 1, '1 h');
SET ROLE gpucredit_app;
SELECT status FROM hold('rate', 'lab', 'app', 1, '1 h');
SET ROLE rate_all;
SELECT status FROM hold('rate', 'lab', 'app', 1, '1 h');
SELECT set_rate_limit('rate', '', '*', NULL, NULL) \g /dev/null

-- A limit set in a transaction counts in it, and is rolled back with it.
BEGIN;
SELECT set_rate_limit('rate-other', '', 'hold', 0.001, 1) \g /dev/null
SELECT status FROM hold('rate-other', '', 'b1', 1, '1 h');
SAVEPOINT s;
SELECT status FROM hold('rate-other', '', 'b2', 1, '1 h');
ROLLBACK;
SELECT status FROM hold('rate-other', '', 'b2', 1, '1 h');
BEGIN;
SAVEPOINT s;
SELECT set_rate_limit('rate-other', '', 'hold', 0.001, 1) \g /dev/null
SELECT status FROM hold('rate-other', '', 'b3', 1, '1 h');
ROLLBACK TO s;
SELECT status FROM hold('rate-other', '', 'b4', 1, '1 h');
SELECT status FROM hold('rate-other', '', 'b5', 1, '1 h');
COMMIT;

-- The clock goes to the end of time, and back to its beginning: limits go on
-- from there.
SELECT set_rate_limit('rate-other', '', 'release', 1, 1);
SET gpucredit.clock = '294276-12-31 23:59:59+00';
SELECT * FROM release('rate-other', 0, 'k');
SELECT * FROM release('rate-other', 0, 'k');
SET gpucredit.clock = '4713-01-01 00:00:00+00 BC';
SELECT * FROM release('rate-other', 0, 'k');
SET gpucredit.clock = '4713-01-01 00:00:01+00 BC';
SELECT * FROM release('rate-other', 0, 'k');
SELECT * FROM release('rate-other', 0, 'k');
RESET gpucredit.clock;
SELECT * FROM release('rate-other', 0, 'k');
SELECT set_rate_limit('rate-other', '', 'release', NULL, NULL);
SET gpucredit.clock = '2027-03-01 03:10:01+00';

-- Only the admin sets limits, and each is audited.
SELECT account, decision, detail FROM audit
WHERE org = 'rate' AND operation = 'set_rate_limit' ORDER BY audit LIMIT 2;
SELECT set_rate_limit('no such', '', 'hold', 1, 1);
SELECT set_rate_limit('rate', '', 'balance', 1, 1);
SELECT account, operation, per_second, burst FROM rate_limit ORDER BY 1, 2;

-- verify() finds limits changed behind the extension's back, which count all
-- the same.
RESET ROLE;
GRANT INSERT, TRUNCATE ON rate_limit TO rate_all;
INSERT INTO rate_limit VALUES ('rate', 'ghost', '*', 1, 1);
UPDATE rate_limit SET burst = 1 WHERE account = 'lab' AND operation = 'release';
SELECT invariant, org, subject, detail FROM verify();
DELETE FROM rate_limit WHERE account = 'ghost';
ALTER TABLE rate_limit ENABLE TRIGGER rate_limit_changed;
SELECT invariant, org, subject, detail FROM verify();
ALTER TABLE rate_limit ENABLE ALWAYS TRIGGER rate_limit_changed;
SET ROLE rate_all;
SELECT status FROM hold('rate', 'labs', 'behind', 1, '1 h');
INSERT INTO rate_limit VALUES ('rate', 'labs', 'hold', 1, 1);
SELECT status FROM hold('rate', 'labs', 'behind', 1, '1 h');
SELECT status FROM hold('rate', 'labs', 'behind', 1, '1 h');
CREATE TEMP TABLE cut AS SELECT * FROM rate_limit;
TRUNCATE rate_limit;
SELECT status FROM hold('rate', 'labs', 'behind', 1, '1 h');
-- verify() misses them until they are removed as they were set
SELECT count(*) > 3 AS missed FROM verify() WHERE invariant = 'setting_is_as_audited';
INSERT INTO rate_limit SELECT * FROM cut;
SELECT set_rate_limit(org, account, operation, NULL, NULL) FROM cut \g /dev/null
DROP TABLE cut;
SELECT * FROM verify();

-- A limited call reads no further table: limits and accounts are read once a
-- session.
SELECT set_rate_limit('rate', 'lab/eve', 'cancel', 1000, 1000) \g /dev/null
SELECT job_state FROM cancel('rate', :job, 'read');
BEGIN;
CREATE TEMP VIEW scans AS SELECT relname AS name,
	coalesce(seq_scan, 0) + coalesce(idx_scan, 0) AS n
FROM pg_stat_xact_all_tables
WHERE schemaname = 'gpucredit' AND relname IN ('rate_limit', 'job', 'account');
CREATE TEMP TABLE before AS SELECT * FROM scans;
SELECT count(*) FROM generate_series(1, 50) n, cancel('rate', :job, 'read');
SELECT s.name, s.n - coalesce(b.n, 0) AS scans FROM scans s LEFT JOIN before b USING (name)
WHERE s.n > coalesce(b.n, 0) ORDER BY 1;
DROP VIEW scans;
DROP TABLE before;
COMMIT;
SELECT set_rate_limit('rate', 'lab/eve', 'cancel', NULL, NULL) \g /dev/null

-- A limit of an unknown function, as in a dump of another version, counts for
-- nothing.
INSERT INTO rate_limit (org, account, operation, per_second, burst)
VALUES ('rate', 'lab/eve', 'meter', 1, 1);
SELECT count(*) FROM generate_series(1, 50) n, cancel('rate', :job, 'read');
RESET ROLE;
DELETE FROM rate_limit WHERE operation = 'meter';

-- Every function that acts for an organisation checks limits; hold_leased()
-- those of hold().
SELECT p.proname FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
WHERE p.pronamespace IN ('gpucredit'::regnamespace, 'gpucredit_internal'::regnamespace)
	AND l.lanname = 'c'
	AND p.provolatile = 'v' AND p.proargnames[1] = 'org'
	AND NOT EXISTS (SELECT FROM gpucredit_internal.counters() c
		WHERE c.name = 'calls_total'
			AND c.operation = replace(p.proname, 'hold_leased', 'hold'));
SELECT * FROM verify();

-- An organisation's limits are read once, and again after a change
CREATE TEMP VIEW reads AS SELECT coalesce(seq_scan, 0) + coalesce(idx_scan, 0) AS n
FROM pg_stat_xact_user_tables WHERE relid = 'gpucredit.rate_limit'::regclass;
GRANT SELECT ON reads TO rate_all;
SET ROLE rate_all;
BEGIN;
SELECT n AS n0 FROM reads \gset
SELECT create_account('rate-none') \g /dev/null
SELECT status FROM hold('rate-none', '', 'n1', 1, '1 h');
SELECT status FROM hold('rate-none', '', 'n2', 1, '1 h');
SELECT status FROM hold('rate-none', '', 'n3', 1, '1 h');
SELECT n - :n0 AS reads FROM reads;
SELECT set_rate_limit('rate-other', '', 'release', 1, 1);
SELECT n AS n0 FROM reads \gset
SELECT status FROM hold('rate-none', '', 'n4', 1, '1 h');
SELECT status FROM hold('rate-none', '', 'n5', 1, '1 h');
SELECT n - :n0 AS reads FROM reads;
ROLLBACK;
RESET ROLE;
DROP OWNED BY rate_all;
DROP ROLE rate_all;
