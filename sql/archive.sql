-- The archive: old usage, entries and audit rows are deleted, and no figure
-- changes.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit_report CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
\pset null '-'
\set VERBOSITY sqlstate
-- this file archives everything, so it uses a database of its own
SELECT current_database() AS regression \gset
CREATE DATABASE gpucredit_departure;
\c gpucredit_departure
SET client_min_messages = warning;
CREATE EXTENSION gpucredit_report CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET search_path = gpucredit, public;
CREATE FUNCTION pg_temp.at(instant timestamptz) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('gpucredit.clock', instant::text, false) $$;
CREATE FUNCTION pg_temp.rest() RETURNS TABLE (entries bigint, audits bigint, usage bigint, closings bigint)
LANGUAGE sql AS $$ SELECT (SELECT count(*) FROM entry), (SELECT count(*) FROM audit
	WHERE decision <> 'departed'), (SELECT count(*) FROM usage), (SELECT count(*) FROM closing) $$;

-- A little of everything, in January
SELECT pg_temp.at('2027-01-01 00:00') \g /dev/null
SELECT create_account('acme'), create_account('acme', 'a'), create_account('zeta'),
	set_price('H100', 4), register_node('default', 'n1', 'H100', 8, 81559) \g /dev/null
SELECT issue('acme', '', 'i1', 1000), issue('zeta', '', 'i1', 7),
	issue('acme', 'a', 'p1', 50, kind => 'promo', valid_for => '7 days') \g /dev/null
SELECT hold('acme', 'a', 'dead', 10, '1 hour'), hold('acme', 'a', 'long', 20, '100 days') \g /dev/null
SELECT capture('acme', 2, 'c1', 5, false) \g /dev/null
SELECT reserve('acme', 'a', 'j1', '1xH100', '2 hours'), reserve('acme', '', 'j2', '2xH100', '3 hours') \g /dev/null
SELECT count(*) FROM place();
SELECT meter('acme', 1, 1, '0'), meter('acme', 2, 1, '0') \g /dev/null
SELECT pg_temp.at('2027-01-01 01:00') \g /dev/null
SELECT settle('acme', 1, 1, 'completed', '1 hour'), refund('acme', 1, 'r1', 1, 'sorry') \g /dev/null
SELECT settle('acme', 2, 1, 'node_lost', '1 hour') \g /dev/null
SELECT reap_holds() \g /dev/null
SELECT pg_temp.at('2027-01-09 00:00') \g /dev/null
SELECT affected FROM expire_credits();
SELECT task, affected > 0 AS some FROM seal_audit();
SELECT max(entry) AS old_entry, max(audit) AS old_audit FROM entry, audit \gset
SELECT seal AS published FROM seals ORDER BY batch DESC LIMIT 1 \gset
SELECT (audit_proof(:old_entry)).seal = decode(:'published', 'hex') AS proven;

-- and some more in March
SELECT pg_temp.at('2027-03-01 00:00') \g /dev/null
SELECT capture('acme', 2, 'c2', 1, false), refund('acme', 1, 'r2', 0.5, 'again') \g /dev/null
SELECT hold('zeta', '', 'h', 2, '1 day') \g /dev/null
SELECT task, affected > 0 AS some FROM seal_audit();

-- What the functions answer now
CREATE TEMP TABLE told AS
SELECT 'balance ' || a.org || '/' || a.account AS what, b::text FROM account a, balance(a.org, a.account) b
UNION ALL SELECT 'buckets ' || a.org || '/' || a.account, b::text FROM account a, buckets(a.org, a.account) b
UNION ALL SELECT 'top ' || org, t::text FROM (SELECT DISTINCT org FROM account) a, top_spenders(org, 10, NULL) t
UNION ALL SELECT 'jobs ' || org, t::text FROM (SELECT DISTINCT org FROM account) a, top_jobs(org, 10, NULL) t
UNION ALL SELECT 'by tier ' || org, t::text FROM (SELECT DISTINCT org FROM account) a, usage_by(org, '', NULL, NULL, 'tier') t
UNION ALL SELECT 'by job ' || org, t::text FROM (SELECT DISTINCT org FROM account) a, usage_by(org, '', NULL, NULL, 'job') t
UNION ALL SELECT 'march ' || a.org || '/' || a.account, s::text FROM account a, statement(a.org, a.account, '2027-02-01') s
UNION ALL SELECT 'invoice ' || org, t::text FROM (SELECT DISTINCT org FROM account) a, invoice(org, '2027-03-01') t
UNION ALL SELECT 'february ' || a.org || '/' || a.account, b::text FROM account a, balance(a.org, a.account, '2027-02-10') b
UNION ALL SELECT 'page ' || coalesce(p.org, ''), report_html(p.org, '2027-02-01') FROM unnest('{acme,zeta,NULL}'::text[]) AS p (org);
CREATE FUNCTION pg_temp.told_otherwise() RETURNS SETOF text LANGUAGE sql AS $$
	SELECT what || ' ' || b FROM (
	SELECT 'balance ' || a.org || '/' || a.account AS what, b::text FROM account a, balance(a.org, a.account) b
	UNION ALL SELECT 'buckets ' || a.org || '/' || a.account, b::text FROM account a, buckets(a.org, a.account) b
	UNION ALL SELECT 'top ' || org, t::text FROM (SELECT DISTINCT org FROM account) a, top_spenders(org, 10, NULL) t
	UNION ALL SELECT 'jobs ' || org, t::text FROM (SELECT DISTINCT org FROM account) a, top_jobs(org, 10, NULL) t
	UNION ALL SELECT 'by tier ' || org, t::text FROM (SELECT DISTINCT org FROM account) a, usage_by(org, '', NULL, NULL, 'tier') t
	UNION ALL SELECT 'by job ' || org, t::text FROM (SELECT DISTINCT org FROM account) a, usage_by(org, '', NULL, NULL, 'job') t
	UNION ALL SELECT 'march ' || a.org || '/' || a.account, s::text FROM account a, statement(a.org, a.account, '2027-02-01') s
	UNION ALL SELECT 'invoice ' || org, t::text FROM (SELECT DISTINCT org FROM account) a, invoice(org, '2027-03-01') t
	UNION ALL SELECT 'february ' || a.org || '/' || a.account, b::text FROM account a, balance(a.org, a.account, '2027-02-10') b
	UNION ALL SELECT 'page ' || coalesce(p.org, ''), report_html(p.org, '2027-02-01') FROM unnest('{acme,zeta,NULL}'::text[]) AS p (org)
	EXCEPT ALL SELECT what, b FROM told) d $$;

-- By default everything is kept; unsealed rows always are
SELECT task, affected FROM maintain() WHERE task ~ 'usage|depart';
SET gpucredit.entry_retention = '1 min';
SET gpucredit.audit_retention = '1 min';
SET gpucredit.usage_retention = '30 d';
-- the last 40 days of entries and the days in which keys replay are kept
SELECT pg_temp.at('2027-01-10 00:00') \g /dev/null
SELECT task, affected FROM maintain() WHERE task ~ 'usage|depart';
-- at REPEATABLE READ a call cannot see who else is active
SELECT pg_temp.at('2027-03-01 00:00') \g /dev/null
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT task, affected FROM maintain() WHERE task ~ 'usage|depart';
ROLLBACK;
-- no other role may archive
DELETE FROM entry;
DELETE FROM usage;
DELETE FROM closing;

-- Entries leave first: closings hold their sums, and every answer stays the
-- same.
SET gpucredit.audit_retention = 0;
SELECT task, affected FROM maintain() WHERE task ~ 'usage|depart';
SELECT * FROM pg_temp.rest();
SELECT org, account, bucket, hold, part, job, entries, issued, drawn, spent, returned, refunded, given_back, expired
FROM closing ORDER BY org, bucket, hold, part;
SELECT * FROM pg_temp.told_otherwise();
SELECT * FROM verify();
SELECT * FROM verify_audit(published => decode(:'published', 'hex'));
SELECT batch, entries, audits, entries_left, audits_left FROM seals ORDER BY batch;
SELECT archive_batch, kind, batch_from, batch_to, rows, until, at FROM archive_batch ORDER BY 1;
SELECT org, decision, reason, detail - 'digest' AS detail, detail ->> 'digest' = encode(d.digest, 'hex') AS digest
FROM audit a, archive_batch d WHERE operation = 'maintain';
-- rebuild finds nothing to repair
SELECT * FROM rebuild('acme');
-- calls refuse instants before what is kept instead of guessing
SELECT available FROM balance('acme', '', '2027-01-09 00:00');
SELECT entry FROM statement('acme', '', since => '2027-01-02');
SELECT entry FROM statement('acme', '', until => '2027-01-02');
SELECT spent FROM usage_by('acme', '', '2027-01-02', NULL, 'job');
SELECT spent FROM top_spenders('acme', 1, '2027-01-02');
SELECT spent FROM top_jobs('acme', 1, '2027-01-02');
SELECT spent FROM invoice('acme', '2027-01-02');
SELECT length(report_html('acme', '2027-01-02'));
SELECT length(report_html('acme', NULL, '2027-01-02'));
-- without a start, a page begins with what is kept
SELECT substring(report_html('acme', NULL, '2027-01-20') FROM 'data-since="([^"]*)"') AS since,
	to_char(gpucredit_internal.kept_from('entry') + interval '1 us', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS kept;
-- the page's balances are closings and entries together; its figures of a span
-- are entries alone
CREATE FUNCTION pg_temp.page_is_wrong(since timestamptz) RETURNS TABLE (org text, what text, page numeric, books numeric)
LANGUAGE sql AS $$
	WITH books AS (
		SELECT org, sum(available) AS available, sum(held) AS held
		FROM (SELECT org, available::numeric, held::numeric FROM closing_net
			UNION ALL SELECT e.org, CASE 'available' WHEN e.target THEN e.amount WHEN e.source THEN - e.amount ELSE '0' END::numeric,
				CASE 'held' WHEN e.target THEN e.amount WHEN e.source THEN - e.amount ELSE '0' END::numeric FROM entry e) b
		GROUP BY org),
	told AS (
		SELECT a.org, report_html(a.org, since) AS page, b.available, b.held, u.net
		FROM (SELECT DISTINCT org FROM account) a JOIN books b USING (org),
			LATERAL (SELECT coalesce(sum(net), 0) AS net FROM usage_by(a.org, '', since, NULL, 'account')) u)
	SELECT t.org, w.what, w.page, w.books
	FROM told t, LATERAL (VALUES
		('available', substring(t.page FROM '<dd data-available="([^"]*)"')::numeric, t.available),
		('net', substring(t.page FROM '<dd data-net="([^"]*)"')::numeric, t.net),
		/* where nothing is held there is no such column */
		('held', coalesce(substring(substring(t.page FROM '<table role="table" id="balances">.*?</table>')
			FROM '.*data-held="([^"]*)"')::numeric, 0), t.held)) AS w (what, page, books)
	WHERE w.page IS DISTINCT FROM w.books $$;
SELECT pg_temp.at('2027-03-01 00:01') \g /dev/null
SELECT * FROM pg_temp.page_is_wrong('2027-02-01');
SELECT pg_temp.at('2027-03-01 00:00') \g /dev/null
-- a deleted row is reported as archived, not as unknown; a proof of audit rows
-- needs none of it
\set VERBOSITY default
SELECT audit_proof(:old_entry);
\set VERBOSITY sqlstate
SELECT (audit_proof(:old_audit, 'audit')).seal = decode(:'published', 'hex') AS proven;

-- Nobody changes archived batches or closings unseen.
ALTER TABLE closing DISABLE TRIGGER closing_append_only;
ALTER TABLE archive_batch DISABLE TRIGGER archive_batch_append_only;
ALTER TABLE entry DISABLE TRIGGER entry_append_only;
ALTER TABLE seal_leaf DISABLE TRIGGER seal_leaf_append_only;
BEGIN;
UPDATE closing SET spent = spent + '1', returned = returned - '1' WHERE hold = 3;
SELECT invariant, subject FROM verify() WHERE invariant !~ 'trigger|guarded' ORDER BY 1, 2;
SELECT * FROM verify_audit();
ROLLBACK;
BEGIN;
INSERT INTO closing (org, archive_batch, account, bucket, hold, part, entries, issued) VALUES ('zeta', 9, '', 3, 0, 0, 1, '5');
SELECT invariant, subject FROM verify() WHERE invariant !~ 'trigger|guarded' ORDER BY 1, 2;
ROLLBACK;
BEGIN;
UPDATE archive_batch SET rows = rows - 1;
SELECT invariant, subject FROM verify() WHERE invariant !~ 'trigger|guarded' ORDER BY 1, 2;
SELECT problem, row_name FROM verify_audit();
ROLLBACK;
BEGIN;
DELETE FROM archive_batch;
SELECT DISTINCT invariant FROM verify() WHERE invariant !~ 'trigger|guarded' ORDER BY 1;
SELECT problem, row_name FROM verify_audit();
ROLLBACK;
BEGIN;
UPDATE closing SET job = 2 WHERE hold = 3;
SELECT invariant, subject FROM verify() WHERE invariant ~ 'closing' ORDER BY 1, 2;
ROLLBACK;
-- a row of an archived batch comes back
BEGIN;
INSERT INTO entry (org, entry, at, account, bucket, source, target, amount, operation)
VALUES ('zeta', :old_entry, '2027-01-01', '', 3, 'available', 'moved', '1', 'transfer');
SELECT invariant, subject FROM verify() WHERE invariant ~ 'left' ORDER BY 1, 2;
SELECT problem, batch, row_name = 'entry ' || :old_entry AS it, detail FROM verify_audit();
ROLLBACK;
-- a kept digest is not the sealed one
BEGIN;
UPDATE seal_leaf SET digests = set_byte(digests, 0, get_byte(digests, 0) # 1);
SELECT problem, batch, row_name, detail FROM verify_audit();
ROLLBACK;
-- a row of the audit log is missing that was not archived
ALTER TABLE audit DISABLE TRIGGER audit_append_only;
BEGIN;
DELETE FROM audit WHERE audit = :old_audit;
SELECT problem, batch, row_name = 'audit ' || :old_audit AS it FROM verify_audit();
ROLLBACK;
-- rows that were tampered with are not archived
BEGIN;
UPDATE audit SET reason = 'other' WHERE audit = :old_audit;
SET gpucredit.audit_retention = '20 d';
SET LOCAL client_min_messages = error;
SELECT task, affected FROM maintain() WHERE task ~ 'depart_audits';
ROLLBACK;
ALTER TABLE closing ENABLE ALWAYS TRIGGER closing_append_only;
ALTER TABLE archive_batch ENABLE ALWAYS TRIGGER archive_batch_append_only;
ALTER TABLE entry ENABLE ALWAYS TRIGGER entry_append_only;
ALTER TABLE seal_leaf ENABLE ALWAYS TRIGGER seal_leaf_append_only;
ALTER TABLE audit ENABLE ALWAYS TRIGGER audit_append_only;

-- The audit rows of the same batch leave: only its seal stays.
SET gpucredit.audit_retention = '20 d';
SELECT task, affected FROM maintain() WHERE task ~ 'depart';
SELECT * FROM pg_temp.rest();
SELECT (SELECT count(*) FROM seal_leaf) AS leaves, (SELECT count(*) FROM seal_row WHERE batch = 1) AS traces;
SELECT * FROM verify();
SELECT * FROM verify_audit(published => decode(:'published', 'hex'));
SELECT * FROM pg_temp.told_otherwise();
SELECT denials('acme', '', '2027-01-01');

-- Later calls continue from what is kept: a waiting job, an open hold.
SELECT job_state FROM cancel('acme', 2, 'x', 'no more');
SELECT released, lapsed FROM release('acme', 2, 'rel');
SELECT refunded, lapsed FROM refund('acme', 1, 'r3', 2.5, 'all of it');
SELECT refunded FROM refund('acme', 1, 'r4', 0.000001, 'more than all');
SELECT outcome, billed, replayed FROM settle('acme', 1, 1, 'failed', '2 hours');	-- settled once, for good
SELECT * FROM verify();
SELECT * FROM rebuild('acme');

-- A year on: audit rows may leave before the entries of their batch, too.
SELECT pg_temp.at('2028-06-01 00:00') \g /dev/null
SELECT count(*) FROM seal_audit();
SET gpucredit.entry_retention = 0;
SELECT task, affected > 0 AS some FROM maintain() WHERE task ~ 'depart_audits';
SELECT * FROM verify_audit();
SELECT (audit_proof((SELECT min(entry) FROM entry))).leaf_index;
SET gpucredit.entry_retention = '1 min';
SELECT task, affected > 0 AS some FROM maintain() WHERE task ~ 'depart_entries|usage';
SELECT entries, usage FROM pg_temp.rest();
SELECT * FROM verify();
SELECT * FROM verify_audit(published => decode(:'published', 'hex'));
SELECT account, available, held, spent FROM account a, balance(a.org, a.account) b ORDER BY org, account;
SELECT spent, refunded FROM top_jobs('acme', 5, NULL);
-- a page counts a dead hold as given back
SELECT affected FROM reap_holds() WHERE task = 'release_holds';
SELECT pg_temp.at('2028-06-01 00:01') \g /dev/null
SELECT * FROM pg_temp.page_is_wrong('2028-05-20');
-- rebuild repairs wrong sums from closings alone
BEGIN;
UPDATE bucket SET spent = spent + '1', available = available - '1' WHERE bucket = 1;
UPDATE account_total SET spent = spent + 1 WHERE org = 'acme' AND account = 'a';
SELECT invariant, subject, detail FROM verify() ORDER BY 1, 2, 3;
SELECT * FROM rebuild('acme');
SELECT * FROM verify();
-- what only archived audit rows told is not checked
UPDATE bucket SET priority = 7, memo = 'x';
UPDATE bucket SET closed_at = '2027-01-08' WHERE bucket = 3;
UPDATE hold SET sliced = true WHERE hold = (SELECT min(hold) FROM hold);
SELECT * FROM verify();
ROLLBACK;

\c :regression
DROP DATABASE gpucredit_departure;
