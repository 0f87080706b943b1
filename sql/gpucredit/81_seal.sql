/*
 * 81_seal.sql: sealed batches of entries and audit rows, and proofs.
 *
 * A batch is the rows of two ranges of numbers, below which every transaction
 * has ended.  Its root is the root of a Merkle tree over these rows.  Its seal
 * covers the root and the seal before.  Numbers survive dump and restore, so
 * the same batches can be recomputed anywhere.
 */
CREATE TABLE gpucredit.seal (
	batch bigint NOT NULL,
	entry_from bigint NOT NULL,		/* last number before the batch's entries */
	entry_to bigint NOT NULL,		/* last number of the batch's entries */
	entries bigint NOT NULL,
	audit_from bigint NOT NULL,
	audit_to bigint NOT NULL,
	audits bigint NOT NULL,
	sealed_at timestamptz NOT NULL,
	previous bytea NOT NULL,		/* the seal before; zeros for the first */
	root bytea NOT NULL,
	seal bytea NOT NULL,
	CONSTRAINT seal_pkey PRIMARY KEY (batch),
	CONSTRAINT seal_entry_to UNIQUE (entry_to, batch),
	CONSTRAINT seal_audit_to UNIQUE (audit_to, batch)
);
COMMENT ON TABLE gpucredit.seal IS
'Append-only: the chain of seals over entries and audit rows, one link per batch';
COMMENT ON COLUMN gpucredit.seal.entry_from IS 'Entries above this number are in it.';
COMMENT ON COLUMN gpucredit.seal.entry_to IS 'Entries up to this number are in it.';
COMMENT ON COLUMN gpucredit.seal.entries IS 'How many entries are in it.';
COMMENT ON COLUMN gpucredit.seal.audit_from IS 'Rows of audit above this number are in it.';
COMMENT ON COLUMN gpucredit.seal.audit_to IS 'Rows of audit up to this number are in it.';
COMMENT ON COLUMN gpucredit.seal.audits IS 'How many rows of audit are in it.';
COMMENT ON COLUMN gpucredit.seal.sealed_at IS 'When it was sealed.';
COMMENT ON COLUMN gpucredit.seal.previous IS 'The seal before; zeros before the first.';
COMMENT ON COLUMN gpucredit.seal.root IS 'The root of the digests of its rows.';
COMMENT ON COLUMN gpucredit.seal.seal IS 'The digest of the batch and all before it.';

/*
 * Short digests of sealed rows, which only serve to name a row that differs.
 */
CREATE TABLE gpucredit.seal_row (
	batch bigint NOT NULL,
	entries bytea NOT NULL,
	audits bytea NOT NULL,
	CONSTRAINT seal_row_pkey PRIMARY KEY (batch)
);
COMMENT ON TABLE gpucredit.seal_row IS
'Append-only: the number of each sealed row, and 8 bytes of its digest';
COMMENT ON COLUMN gpucredit.seal_row.entries IS 'The number of each entry in it, and 8 bytes of its digest.';
COMMENT ON COLUMN gpucredit.seal_row.audits IS 'The number of each row of audit in it, and 8 bytes of its digest.';

/*
 * Digests of leaves, for batches of which the rows of only one kind were
 * removed.
 */
CREATE TABLE gpucredit.seal_leaf (
	batch bigint NOT NULL,
	kind text NOT NULL,
	digests bytea NOT NULL,
	CONSTRAINT seal_leaf_pkey PRIMARY KEY (batch)
);
COMMENT ON TABLE gpucredit.seal_leaf IS
'Append-only: the leaf digests of batches whose entries or audit rows were removed, so that the root can be computed';
COMMENT ON COLUMN gpucredit.seal_leaf.kind IS 'Which rows the digests are of: entry or audit.';
COMMENT ON COLUMN gpucredit.seal_leaf.digests IS 'The digests of the rows in their order, 32 bytes each.';

CREATE TRIGGER seal_append_only BEFORE UPDATE OR DELETE OR TRUNCATE
	ON gpucredit.seal
	FOR EACH STATEMENT EXECUTE FUNCTION gpucredit_internal.refuse_change();
ALTER TABLE gpucredit.seal ENABLE ALWAYS TRIGGER seal_append_only;
CREATE TRIGGER seal_row_append_only BEFORE UPDATE OR DELETE OR TRUNCATE
	ON gpucredit.seal_row
	FOR EACH STATEMENT EXECUTE FUNCTION gpucredit_internal.refuse_change();
ALTER TABLE gpucredit.seal_row ENABLE ALWAYS TRIGGER seal_row_append_only;

CREATE TRIGGER seal_leaf_append_only BEFORE UPDATE OR DELETE OR TRUNCATE
	ON gpucredit.seal_leaf
	FOR EACH STATEMENT EXECUTE FUNCTION gpucredit_internal.refuse_change();
ALTER TABLE gpucredit.seal_leaf ENABLE ALWAYS TRIGGER seal_leaf_append_only;

/*
 * The transactions that sealing waits for.  Rows are valid only until this
 * server restarts.
 */
CREATE UNLOGGED TABLE gpucredit.seal_pending (
	entry_to bigint NOT NULL,
	audit_to bigint NOT NULL,
	waiting text[] NOT NULL,	/* virtual transaction ids that had not ended */
	since timestamptz NOT NULL,
	server_start timestamptz NOT NULL
);
COMMENT ON TABLE gpucredit.seal_pending IS
'Up to which numbers the next seal_audit seals, once the transactions it waits for have ended';
COMMENT ON COLUMN gpucredit.seal_pending.entry_to IS 'Entries up to this number are to be sealed.';
COMMENT ON COLUMN gpucredit.seal_pending.audit_to IS 'Rows of audit up to this number are to be sealed.';
COMMENT ON COLUMN gpucredit.seal_pending.waiting IS 'The open transactions that sealing waits for.';
COMMENT ON COLUMN gpucredit.seal_pending.since IS 'Since when it waits.';
COMMENT ON COLUMN gpucredit.seal_pending.server_start IS 'When the server that runs them started.';

SELECT pg_catalog.pg_extension_config_dump('gpucredit.seal', '');
SELECT pg_catalog.pg_extension_config_dump('gpucredit.seal_row', '');
SELECT pg_catalog.pg_extension_config_dump('gpucredit.seal_leaf', '');

/*
 * The entries of all organisations are sealed and removed in the order of
 * their numbers.  For audit rows their primary key serves this purpose.  (A
 * BRIN index would keep old bounds of pages that are used again.)
 */
CREATE INDEX entry_id ON gpucredit.entry (entry);

CREATE FUNCTION gpucredit_internal.lock_chain() RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'gpucredit_lock_chain';
COMMENT ON FUNCTION gpucredit_internal.lock_chain() IS
'seal_audit: locks the chain against other calls; false if another call has it.';

CREATE TYPE gpucredit.seal_audit_result AS (task text, affected bigint);
COMMENT ON TYPE gpucredit.seal_audit_result IS
'What seal_audit() did: its tasks, and how many rows each sealed.';

CREATE FUNCTION gpucredit.seal_audit()
RETURNS SETOF gpucredit.seal_audit_result
LANGUAGE c VOLATILE SECURITY DEFINER PARALLEL UNSAFE ROWS 2
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_seal_audit';
COMMENT ON FUNCTION gpucredit.seal_audit() IS
'Audit: seals the entries and audit rows of ended transactions. A call works for gpucredit.upkeep_time, on 64 batches of at most 8,192 of each at most; the next call goes on. Each batch has a Merkle root, and is chained by SHA-256. It slows and blocks nobody. Rows numbered below those of an open transaction wait for it, at most until the next call after its end. NOTIFY gpucredit_seal publishes the last seal.
Result: how many entries and audit rows were sealed; no row if another call is at work.
Errors: 25001 at REPEATABLE READ and up.';

CREATE TYPE gpucredit.verify_audit_result AS (problem text, batch bigint,
	row_name text, detail text);
COMMENT ON TYPE gpucredit.verify_audit_result IS
'A batch or row that differs from what was sealed.';

CREATE FUNCTION gpucredit.verify_audit(since timestamptz DEFAULT NULL,
	published bytea DEFAULT NULL)
RETURNS SETOF gpucredit.verify_audit_result
LANGUAGE c VOLATILE SECURITY DEFINER PARALLEL UNSAFE ROWS 1
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_verify_audit';
COMMENT ON FUNCTION gpucredit.verify_audit(timestamptz, bytea) IS
'Audit: checks every link of the chain again, and the rows of the batches sealed since an instant (NULL: all).
published: a seal that was kept outside the database, as decode(''...'', ''hex'') of the hex that view seals shows. If the chain does not contain it, the whole chain was rewritten.
Result: nothing, or the first batch that differs from what was sealed, and its first row (as "entry 17") that changed, vanished or was inserted.
Errors: 22023.';

CREATE TYPE gpucredit.audit_proof_result AS (batch bigint, leaf text,
	leaf_index int, leaves int, path bytea[], header text, previous bytea,
	root bytea, seal bytea);
COMMENT ON TYPE gpucredit.audit_proof_result IS
'The path from a row to its seal, to check it without the database.';

CREATE FUNCTION gpucredit.audit_proof(entry bigint, kind text DEFAULT 'entry')
RETURNS gpucredit.audit_proof_result
LANGUAGE c VOLATILE SECURITY DEFINER PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_audit_proof';
COMMENT ON FUNCTION gpucredit.audit_proof(bigint, text) IS
'Audit: proves that an entry is what was sealed: its text, its place in the batch''s Merkle tree, the path to the root, and what the seal is made of. docs/seals.md says how to check it with nothing but SHA-256 and a published seal.
entry: its number. kind: entry, or audit for a row of the audit log.
Errors: 22023 no such row; 55000 it is not sealed yet.';

CREATE VIEW gpucredit.seals AS
	SELECT s.batch, s.sealed_at, s.entries, s.audits,
		pg_catalog.encode(s.seal, 'hex') AS seal,
		s.batch <= coalesce(l.entry, 0) AS entries_left,
		s.batch <= coalesce(l.audit, 0) AS audits_left
	FROM gpucredit.seal s CROSS JOIN (
		SELECT max(d.batch_to) FILTER (WHERE d.kind = 'entry') AS entry,
			max(d.batch_to) FILTER (WHERE d.kind = 'audit') AS audit
		FROM gpucredit.archive_batch d) l;
COMMENT ON VIEW gpucredit.seals IS
'The chain of seals, to be published: a kept seal shows whether anything before it was rewritten';
COMMENT ON COLUMN gpucredit.seals.sealed_at IS 'When it was sealed.';
COMMENT ON COLUMN gpucredit.seals.entries IS 'How many entries are in it.';
COMMENT ON COLUMN gpucredit.seals.audits IS 'How many rows of audit are in it.';
COMMENT ON COLUMN gpucredit.seals.seal IS 'The digest of the batch and all before it, in hexadecimal.';
COMMENT ON COLUMN gpucredit.seals.entries_left IS 'True: its entries were removed.';
COMMENT ON COLUMN gpucredit.seals.audits_left IS 'True: its rows of audit were removed.';

/*
 * A PL/pgSQL function, because a standby can neither read an unlogged table
 * nor plan a query on it.
 */
CREATE FUNCTION gpucredit_internal.seal_waits()
RETURNS TABLE (since timestamptz, waiting text[])
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL UNSAFE ROWS 1
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
BEGIN
	IF NOT pg_catalog.pg_is_in_recovery() THEN
		RETURN QUERY SELECT p.since, p.waiting FROM gpucredit.seal_pending p;
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_internal.seal_waits() IS
'seal_status: the open transactions (backend/number) that sealing waits for, and since when; none on a standby, which does not seal.';

/*
 * What is not sealed yet.  The view reads the rows, not the sequences, because
 * numbers of rolled back transactions, and those that a crash skipped, have no
 * rows.
 */
CREATE VIEW gpucredit.seal_status AS
	SELECT greatest(e.last - coalesce(s.entry_to, 0), 0) AS entries_unsealed,
		greatest(a.last - coalesce(s.audit_to, 0), 0) AS audits_unsealed,
		s.batch AS last_batch, s.sealed_at AS last_sealed_at,
		p.since AS waiting_since, p.waiting AS waiting_for
	FROM (SELECT max(entry) AS last FROM gpucredit.entry) e
		CROSS JOIN (SELECT max(audit) AS last FROM gpucredit.audit) a
		LEFT JOIN (SELECT * FROM gpucredit.seal
			ORDER BY seal.batch DESC LIMIT 1) s ON true
		LEFT JOIN gpucredit_internal.seal_waits() p ON true;
COMMENT ON VIEW gpucredit.seal_status IS
'How far sealing has come: how many numbers are not sealed yet, and which open transactions it waits for';
COMMENT ON COLUMN gpucredit.seal_status.entries_unsealed IS 'How many entry numbers are not sealed: an upper bound of the entries.';
COMMENT ON COLUMN gpucredit.seal_status.audits_unsealed IS 'How many audit numbers are not sealed: an upper bound of the rows.';
COMMENT ON COLUMN gpucredit.seal_status.last_batch IS 'The last batch; NULL: none.';
COMMENT ON COLUMN gpucredit.seal_status.last_sealed_at IS 'When that was sealed; NULL: never.';
COMMENT ON COLUMN gpucredit.seal_status.waiting_since IS 'Since when sealing waits for transactions; NULL: it does not wait.';
COMMENT ON COLUMN gpucredit.seal_status.waiting_for IS 'Those transactions, as backend/number.';
