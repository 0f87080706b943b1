-- Seals: committed rows are chained, and every later change is seen, also one
-- by a superuser who turns the triggers off.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET gpucredit.clock = '2027-06-01 00:00+00';
\set VERBOSITY sqlstate
\pset null '-'

SELECT gpucredit.create_account('se');
SELECT replayed FROM gpucredit.issue('se', '', 'i' || 1, 100, memo => E'with\na line and 15 %');
SELECT status, held FROM generate_series(1, 20) n, gpucredit.hold('se', '', 'h' || n, 1, '1 h') WHERE n > 18;
-- rolled back ids leave a gap
BEGIN;
SELECT status FROM gpucredit.hold('se', '', 'gone', 1, '1 h');
ROLLBACK;
SELECT status FROM gpucredit.hold('se', '', 'after', 1, '1 h');

-- All rows are sealed, once.
SELECT task, affected > 0 AS some FROM gpucredit.seal_audit();
SELECT task, affected FROM gpucredit.seal_audit();
SELECT entries_unsealed, audits_unsealed, waiting_for FROM gpucredit.seal_status;
SELECT * FROM gpucredit.verify_audit();
SELECT sum(entries) = (SELECT count(*) FROM gpucredit.entry) AS entries,
	sum(audits) = (SELECT count(*) FROM gpucredit.audit) AS audits
FROM gpucredit.seals;
-- later rows make a batch of their own
SELECT batch AS before FROM gpucredit.seals ORDER BY batch DESC LIMIT 1 \gset
SET gpucredit.clock = '2027-06-02 00:00+00';
SELECT status FROM gpucredit.hold('se', '', 'later', 2, '1 h');
SELECT task, affected FROM gpucredit.seal_audit();
-- its date is now, or the batch's before it if that is later
SELECT batch - :before AS more, entries, audits, sealed_at >= '2027-06-02' AS dated FROM gpucredit.seals WHERE batch > :before;
SELECT seal AS published FROM gpucredit.seals ORDER BY batch DESC LIMIT 1 \gset
SELECT * FROM gpucredit.verify_audit(published => decode(:'published', 'hex'));
SELECT problem, batch, detail FROM gpucredit.verify_audit(published => '\x00');
SELECT problem, batch, detail FROM gpucredit.verify_audit(published => :'published');		-- still hex
SELECT problem, batch, detail FROM gpucredit.verify_audit(published => sha256('another chain'));

-- Nobody changes a seal or a sealed row by accident.
UPDATE gpucredit.seal SET entries = 0;
DELETE FROM gpucredit.seal_row;
TRUNCATE gpucredit.seal;
-- at REPEATABLE READ a call may not see what was committed
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT * FROM gpucredit.seal_audit();
ROLLBACK;

-- A superuser can, and is seen: in which batch and row, and what became of it.
SELECT max(entry) AS entry, max(entry) FILTER (WHERE operation = 'issue') AS issued
FROM gpucredit.entry WHERE org = 'se' \gset
SELECT max(audit) AS audit FROM gpucredit.audit WHERE org = 'se' \gset
CREATE FUNCTION pg_temp.told(at bigint) RETURNS TABLE (problem text, later bigint, it boolean, detail text)
LANGUAGE sql AS $$
	SELECT v.problem, v.batch - at, v.row_name = current_setting('se.row'), v.detail
	FROM gpucredit.verify_audit() v
$$;
SET session_replication_role = replica;
ALTER TABLE gpucredit.entry DISABLE TRIGGER entry_append_only;
ALTER TABLE gpucredit.audit DISABLE TRIGGER audit_append_only;
ALTER TABLE gpucredit.seal DISABLE TRIGGER seal_append_only;
ALTER TABLE gpucredit.seal_row DISABLE TRIGGER seal_row_append_only;
-- a changed row: any of its columns
SELECT set_config('se.row', 'entry ' || :entry, false) AS row \gset
BEGIN;
UPDATE gpucredit.entry SET amount = '1.000001' WHERE org = 'se' AND entry = :entry;
SELECT * FROM pg_temp.told(:before);
ROLLBACK;
BEGIN;
UPDATE gpucredit.entry SET at = at + '1 us' WHERE org = 'se' AND entry = :entry;
SELECT * FROM pg_temp.told(:before);
ROLLBACK;
BEGIN;
UPDATE gpucredit.entry SET hold = NULL WHERE org = 'se' AND entry = :entry;
SELECT * FROM pg_temp.told(:before);
ROLLBACK;
-- a value moved into the next column
SELECT set_config('se.row', 'audit ' || :audit, false) AS row \gset
BEGIN;
UPDATE gpucredit.audit SET login = login || actor, actor = '' WHERE org = 'se' AND audit = :audit;
SELECT * FROM pg_temp.told(:before);
ROLLBACK;
-- a missing row, in an earlier batch
SELECT set_config('se.row', 'entry ' || :issued, false) AS row \gset
BEGIN;
DELETE FROM gpucredit.entry WHERE org = 'se' AND entry = :issued;
SELECT problem, later <= 0 AS earlier, it, detail FROM pg_temp.told(:before);
-- batches older than asked for are not read
SELECT v.* FROM (SELECT max(sealed_at) AS last FROM gpucredit.seals) s, gpucredit.verify_audit(s.last + interval '1 us') v;
ROLLBACK;
-- an invented row, below what is sealed
SELECT set_config('se.row', 'audit -1', false) AS row \gset
BEGIN;
INSERT INTO gpucredit.audit (org, audit, at, login, actor, operation, decision)
VALUES ('se', -1, '2027-01-01', 'x', 'x', 'issue', 'granted');
SELECT problem, it FROM pg_temp.told(:before);
UPDATE gpucredit.audit SET audit = (SELECT min(n) FROM generate_series(1, :audit) n
	WHERE NOT EXISTS (SELECT FROM gpucredit.audit a WHERE a.audit = n)) WHERE audit = -1;
SELECT problem, detail FROM pg_temp.told(:before) WHERE EXISTS (SELECT FROM gpucredit.audit
	WHERE org = 'se' AND operation = 'issue' AND login = 'x' AND audit > 0);
ROLLBACK;
-- a link changed, cut out, or made again
BEGIN;
UPDATE gpucredit.seal SET entries = entries + 1 WHERE batch = :before;
SELECT * FROM pg_temp.told(:before);
SELECT invariant, subject = 'batch ' || :before AS it FROM gpucredit.verify();
ROLLBACK;
-- a link without its digest
BEGIN;
ALTER TABLE gpucredit.seal ALTER root DROP NOT NULL;
SAVEPOINT whole;
UPDATE gpucredit.seal SET root = NULL WHERE batch = :before;
SELECT * FROM pg_temp.told(:before);
ROLLBACK TO whole;
UPDATE gpucredit.seal SET root = root || '\x00' WHERE batch = :before;
SELECT * FROM pg_temp.told(:before);
ROLLBACK TO whole;
UPDATE gpucredit.seal SET previous = '' WHERE batch = :before;
SELECT * FROM pg_temp.told(:before);
ROLLBACK TO whole;
UPDATE gpucredit.seal SET previous = '' WHERE batch = 1;
SELECT problem, batch, detail FROM gpucredit.verify_audit();
ROLLBACK TO whole;
-- the digest is not even that of the seal
UPDATE gpucredit.seal SET seal = previous || root || convert_to(concat_ws(' ', batch, entry_from, entry_to, entries,
	audit_from, audit_to, audits, (extract(epoch FROM sealed_at) * 1000000)::bigint), 'UTF8') WHERE batch = :before;
SELECT sha256(seal) = (SELECT previous FROM gpucredit.seal n WHERE n.batch = s.batch + 1) AS digest_of_it
FROM gpucredit.seal s WHERE batch = :before;
SELECT * FROM pg_temp.told(:before);
ROLLBACK;
BEGIN;
DELETE FROM gpucredit.seal WHERE batch = :before;
SELECT problem, later, detail FROM pg_temp.told(:before);
ROLLBACK;
-- the end of the chain is gone, too, but the last batch's trace is there
BEGIN;
DELETE FROM gpucredit.seal WHERE batch = (SELECT max(batch) FROM gpucredit.seal);
SELECT problem, batch = (SELECT max(r.batch) FROM gpucredit.seal_row r) AS last, detail FROM gpucredit.verify_audit();
ROLLBACK;
-- everything rewritten: only a published seal shows it
BEGIN;
UPDATE gpucredit.entry SET amount = '1.5' WHERE org = 'se' AND entry = :entry;
DELETE FROM gpucredit.seal;
DELETE FROM gpucredit.seal_row;
SELECT bool_and(affected > 0) AS sealed FROM gpucredit.seal_audit();
SELECT * FROM gpucredit.verify_audit();
SELECT problem, batch, detail FROM gpucredit.verify_audit(published => decode(:'published', 'hex'));
ROLLBACK;
ALTER TABLE gpucredit.entry ENABLE ALWAYS TRIGGER entry_append_only;
ALTER TABLE gpucredit.audit ENABLE ALWAYS TRIGGER audit_append_only;
ALTER TABLE gpucredit.seal ENABLE ALWAYS TRIGGER seal_append_only;
ALTER TABLE gpucredit.seal_row ENABLE ALWAYS TRIGGER seal_row_append_only;
RESET session_replication_role;

-- Proofs: the row's own text, and the path from it to the seal.
SELECT batch - :before AS later, regexp_replace(leaf, '(entry|bucket|hold) \d+ \d+', '\1 <id>', 'g') AS leaf, leaf_index, leaves, cardinality(path) AS path, encode(seal, 'hex') = :'published' AS published
FROM gpucredit.audit_proof(:entry);
SELECT leaf_index, leaves, cardinality(path) AS path FROM gpucredit.audit_proof(:audit, 'audit');
-- the path is right: computed here by SQL alone
CREATE FUNCTION pg_temp.seal_of(p gpucredit.audit_proof_result) RETURNS bytea LANGUAGE plpgsql AS $$
DECLARE
	digest bytea := sha256('\x00' || convert_to(p.leaf, 'UTF8'));
	i int := p.leaf_index;
	width int := p.leaves;
	step int := 1;
BEGIN
	WHILE width > 1 LOOP
		IF (i # 1) < width THEN
			digest := sha256(CASE WHEN i % 2 = 1 THEN '\x01' || p.path[step] || digest
				ELSE '\x01' || digest || p.path[step] END);
			step := step + 1;
		END IF;
		i := i / 2;
		width := (width + 1) / 2;
	END LOOP;
	RETURN sha256(p.previous || digest || convert_to(p.header, 'UTF8'));
END $$;
SELECT count(*) FROM gpucredit.entry e, gpucredit.audit_proof(e.entry) p
WHERE e.org = 'se' AND pg_temp.seal_of(p) IS DISTINCT FROM p.seal;
SELECT count(*) FROM gpucredit.audit a, gpucredit.audit_proof(a.audit, 'audit') p
WHERE a.org = 'se' AND pg_temp.seal_of(p) IS DISTINCT FROM p.seal;
-- refusals
SELECT status FROM gpucredit.hold('se', '', 'new', 1, '1 h');
SELECT batch FROM gpucredit.audit_proof((SELECT max(entry) FROM gpucredit.entry));
SELECT batch FROM gpucredit.audit_proof(-5);
SELECT batch FROM gpucredit.audit_proof(NULL);
SELECT batch FROM gpucredit.audit_proof(1, 'usage');

-- sealing does not wait for ids that no row has
SELECT max(affected) > 0 AS some FROM gpucredit.seal_audit();
BEGIN;
SELECT status FROM gpucredit.hold('se', '', 'gone too', 1, '1 h');
ROLLBACK;
SELECT entries_unsealed, audits_unsealed FROM gpucredit.seal_status;
SELECT max(affected) FROM gpucredit.seal_audit();
SELECT status FROM gpucredit.hold('se', '', 'there', 1, '1 h');
SELECT entries_unsealed > 0 AS entries, audits_unsealed > 0 AS audits FROM gpucredit.seal_status;

-- Rows decided since an instant have numbers above one that the seals know.
SET gpucredit.clock = '2027-06-03 00:00+00';
SELECT status FROM gpucredit.hold('se', '', 'third', 1, '1 h');
SELECT max(affected) > 0 AS some FROM gpucredit.seal_audit();
SET gpucredit.clock = '2027-06-04 00:00+00';
SELECT status FROM gpucredit.hold('se', '', 'fourth', 1, '1 h');
SELECT max(affected) > 0 AS some FROM gpucredit.seal_audit();
SET gpucredit.clock = '2027-06-05 00:00+00';
SELECT status FROM gpucredit.hold('se', '', 'fifth', 1, '1 h');
SELECT t.since, count(a.audit) FILTER (WHERE a.audit > gpucredit.audit_before(t.since)) AS found,
	count(a.audit) AS there, gpucredit.audit_before(t.since) >= lag(gpucredit.audit_before(t.since)) OVER (ORDER BY t.since) AS onward
FROM (VALUES ('2027-06-02 12:00+00'::timestamptz), ('2027-06-03 00:00+00'), ('2027-06-03 12:00+00'),
	('2027-06-04 00:00:01+00'), ('infinity')) t (since)
	LEFT JOIN gpucredit.audit a ON a.org = 'se' AND a.at >= t.since AND a.at < '2028-01-01'
GROUP BY t.since ORDER BY t.since;
SELECT gpucredit.audit_before('-infinity') AS all;
SELECT gpucredit.audit_before(NULL);

-- A batch written by hand that the next call would wait for is an error, and
-- no more.
CREATE FUNCTION pg_temp.seal_after(waiting text[]) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO gpucredit.seal_pending (entry_to, audit_to, waiting, since, server_start)
	VALUES (0, 0, waiting, now(), pg_postmaster_start_time());
	PERFORM gpucredit.seal_audit();
	RETURN 'sealed';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
SELECT w AS waiting, pg_temp.seal_after(w) FROM (VALUES ('{someone}'::text[]), ('{3}'), ('{3/0}'), ('{3/x}')) v (w);

-- At the end of time the chain works as at any other.
BEGIN;
SET LOCAL gpucredit.clock = '294276-12-31 23:59:59.999999+00';
SELECT status FROM gpucredit.hold('se', '', 'last', 1, '1 h');
SELECT max(affected) > 0 AS some FROM gpucredit.seal_audit();
SELECT sealed_at FROM gpucredit.seals ORDER BY batch DESC LIMIT 1;
SELECT substring(p.leaf FROM 'at \d+ \d+') AS leaf, split_part(p.header, ' ', 8) AS header, pg_temp.seal_of(p) = p.seal AS proven
FROM gpucredit.audit_proof((SELECT max(entry) FROM gpucredit.entry)) p;
SELECT * FROM gpucredit.verify_audit();
SELECT * FROM gpucredit.verify();
ROLLBACK;

SELECT * FROM gpucredit.verify();
