--
-- A storm of identical denials: the audit log has the first, and counts the
-- others exactly.
--
SET search_path = gpucredit, public;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET client_min_messages = warning;
SET gpucredit.clock = '2034-01-01 00:00+00';
CREATE FUNCTION pg_temp.at(text) RETURNS void LANGUAGE sql AS
$$ SELECT set_config('gpucredit.clock', $1, false) $$;
SELECT create_account('de'), create_account('de', 'a'), create_account('de', 'b') \g /dev/null
SELECT issue('de', '', 'i', 10), issue('de', 'a', 'ia', 1) \g /dev/null

-- 500 requests of one kind; others differ in account, amount, reason
SELECT count(*), min(status), max(status), count(DISTINCT reason)
FROM generate_series(1, 500) n, hold('de', 'a', 'k' || n, 50, '1 h');
SELECT status FROM hold('de', 'b', 'b1', 50, '1 h');
SELECT status FROM hold('de', 'a', 'a1', 51, '1 h');
SELECT suspend_account('de', 'a', true) \g /dev/null
SELECT status, reason FROM hold('de', 'a', 'a2', 50, '1 h');
SELECT suspend_account('de', 'a', false) \g /dev/null
SELECT status, reason FROM generate_series(1, 2) n, transfer('de', 'a', 'b', 't' || n, 5);
-- a replay counts as no new denial
SELECT status, replayed FROM hold('de', 'a', 'k7', 50, '1 h');
SELECT operation, account, reason, detail FROM audit
WHERE org = 'de' AND decision = 'denied' ORDER BY audit;
SELECT * FROM denials('de');
SELECT * FROM denials('de', 'b', '2033-12-31');
SELECT * FROM verify('de');

-- grants are never counted like that
SELECT count(*) FROM generate_series(1, 3) n, hold('de', 'b', 'g' || n, 1, '1 h');
SELECT count(*) FROM audit WHERE org = 'de' AND operation = 'hold' AND decision = 'granted';

-- within the window denials still belong to the same storm; at its end a new
-- one begins
SELECT pg_temp.at('2034-01-01 00:00:59.999999+00') \g /dev/null
SELECT status FROM hold('de', 'a', 'l1', 50, '1 h');
SELECT maintain() \g /dev/null
SELECT pg_temp.at('2034-01-01 00:01+00') \g /dev/null
SELECT status FROM hold('de', 'a', 'l2', 50, '1 h');
SELECT at, operation, account, reason, detail FROM audit
WHERE org = 'de' AND decision = 'denied' ORDER BY audit OFFSET 5;

-- upkeep writes how many there were; none is lost meanwhile
SELECT maintain() \g /dev/null
SELECT pg_temp.at('2034-01-01 00:03+00') \g /dev/null
SELECT maintain() \g /dev/null
SELECT maintain() \g /dev/null
SELECT at, operation, account, reason, detail - 'of' AS detail FROM audit
WHERE org = 'de' AND decision = 'denied' ORDER BY audit OFFSET 6;
SELECT * FROM denials('de');
SELECT count(*) FROM denial WHERE org = 'de';
SELECT * FROM verify('de');

-- switched off, each denial has an audit row
SET gpucredit.denial_window = 0;
SELECT count(*) FROM generate_series(1, 4) n, hold('de', 'a', 'm' || n, 50, '1 h');
SELECT count(*) FROM audit WHERE org = 'de' AND decision = 'denied'
	AND at = '2034-01-01 00:03+00';
SELECT account, operation, reason, n FROM denials('de');
RESET gpucredit.denial_window;
-- also at SERIALIZABLE, where reading others' denials would be a conflict
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT count(*) FROM generate_series(1, 4) n, hold('de', 'a', 's' || n, 50, '1 h');
COMMIT;
SELECT count(*) FROM audit WHERE org = 'de' AND decision = 'denied'
	AND at = '2034-01-01 00:03+00';
SELECT account, operation, reason, n FROM denials('de', 'a');

-- verify sees a lost denial, and a count without a first row
BEGIN;
SELECT count(*) FROM generate_series(1, 4) n, hold('de', 'b', 'n' || n, 60, '1 h');
DELETE FROM denial WHERE n = 1;
SELECT * FROM verify('de');
ROLLBACK;
BEGIN;
INSERT INTO denial VALUES ('de', '\x00', now(), 0, 1);
SELECT invariant, org, subject FROM verify('de');
ROLLBACK;
SELECT * FROM denials('nobody');
SELECT * FROM verify('de');
