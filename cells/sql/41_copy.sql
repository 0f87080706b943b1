/*
 * 41_copy.sql: copies an organisation's rows from one cell to another.
 *
 * The list of tables comes from the catalog, so that none is omitted. Rows are
 * copied unchanged, but entries and audit rows get new numbers: a cell's seals
 * cover all numbers up to a point. The original rows stay in the old cell with
 * its seals, so that proofs from before remain valid. Sums of entries that
 * were removed by age (closings) are copied, too.
 *
 * Every copy is compared: the old cell's digest of the rows that it sent, and
 * this cell's digest of the rows that it stored.
 */
CREATE TABLE gpucredit_cells.incoming_entry (LIKE gpucredit.entry);
COMMENT ON TABLE gpucredit_cells.incoming_entry IS
'Entries of an organisation that is moving here, as numbered in the old cell';
CREATE INDEX incoming_entry_org ON gpucredit_cells.incoming_entry (org, entry);
CREATE TABLE gpucredit_cells.incoming_audit (LIKE gpucredit.audit);
COMMENT ON TABLE gpucredit_cells.incoming_audit IS
'Audit rows of an organisation that is moving here, as numbered in the old cell';
CREATE INDEX incoming_audit_org ON gpucredit_cells.incoming_audit (org, audit);
CREATE TABLE gpucredit_cells.incoming_closing (LIKE gpucredit.closing);
COMMENT ON TABLE gpucredit_cells.incoming_closing IS
'Sums of entries that the old cell had removed when the others were copied';
CREATE INDEX incoming_closing_org ON gpucredit_cells.incoming_closing (org);
CREATE TABLE gpucredit_cells.incoming_number (
	relation text NOT NULL,
	org text COLLATE "C" NOT NULL,
	old bigint NOT NULL,
	here bigint NOT NULL,
	CONSTRAINT incoming_number_pkey PRIMARY KEY (relation, org, old)
);
COMMENT ON TABLE gpucredit_cells.incoming_number IS
'The numbers here of entries and audit rows that came, during a move';
COMMENT ON COLUMN gpucredit_cells.incoming_number.relation IS 'entry or audit.';
COMMENT ON COLUMN gpucredit_cells.incoming_number.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit_cells.incoming_number.old IS 'Its number in the old cell.';
COMMENT ON COLUMN gpucredit_cells.incoming_number.here IS 'Its number in this one.';

/* Seals of other cells that cover rows which were copied from there. */
CREATE TABLE gpucredit_cells.foreign_seal (LIKE gpucredit.seal);
ALTER TABLE gpucredit_cells.foreign_seal
	ADD COLUMN cell text COLLATE "C" NOT NULL,
	ADD CONSTRAINT foreign_seal_pkey PRIMARY KEY (cell, batch);
COMMENT ON TABLE gpucredit_cells.foreign_seal IS
'Seals of the cells that organisations came from: what proofs made there end in';
COMMENT ON COLUMN gpucredit_cells.foreign_seal.cell IS 'The cell whose seal it is.';
SELECT pg_catalog.pg_extension_config_dump('gpucredit_cells.foreign_seal', '');

/*
 * Returns the tables that a move copies. Rows that a cycle creates again are
 * not copied: promises, claims and their victims. Neither are rows about
 * nodes.
 */
CREATE FUNCTION gpucredit_cells.moved_tables()
RETURNS TABLE (name text, columns text, types text, key text, only_grows boolean)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT c.relname::text,
		string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum),
		string_agg(quote_ident(a.attname) || ' ' || format_type(a.atttypid, a.atttypmod),
			', ' ORDER BY a.attnum),
		string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
			FILTER (WHERE a.attnum = ANY (k.indkey)),
		EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = c.oid
			AND g.tgname = c.relname || '_append_only')
	FROM pg_class c
		LEFT JOIN pg_index k ON k.indrelid = c.oid AND k.indisprimary
		JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
			AND NOT a.attisdropped AND a.attgenerated = ''
	WHERE c.relnamespace = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = 'gpucredit')
		AND c.relkind = 'r' AND c.relpersistence = 'p'
		AND EXISTS (SELECT FROM pg_attribute o
			WHERE o.attrelid = c.oid AND o.attname = 'org')
		AND c.relname NOT IN ('claim', 'claim_gpu', 'eviction', 'reservation',
			'node_cache', 'node_strike')
	GROUP BY c.oid, c.relname
	ORDER BY c.relname;
END;
COMMENT ON FUNCTION gpucredit_cells.moved_tables() IS
'Internal: the tables whose rows of an organisation move with it, their columns, those of the primary key, and whether rows only come.';

/*
 * Returns the sums of all removed entries, as if they had been removed at
 * once.
 */
CREATE FUNCTION gpucredit_cells.closings(org text) RETURNS SETOF gpucredit.closing
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT c.org, 0::bigint, c.account, c.bucket, c.hold, c.part, max(c.job),
		max(c.attempt), sum(c.entries)::int, min(c.drawn_first),
		max(c.drawn_last), gpucredit.sum(c.issued), gpucredit.sum(c.drawn),
		gpucredit.sum(c.spent), gpucredit.sum(c.returned),
		gpucredit.sum(c.held_expired), gpucredit.sum(c.held_revoked),
		gpucredit.sum(c.refunded), gpucredit.sum(c.given_back),
		gpucredit.sum(c.spent_expired), gpucredit.sum(c.spent_revoked),
		gpucredit.sum(c.expired), gpucredit.sum(c.revoked),
		gpucredit.sum(c.moved)
	FROM gpucredit.closing c WHERE c.org = closings.org
	GROUP BY c.org, c.account, c.bucket, c.hold, c.part;
END;
COMMENT ON FUNCTION gpucredit_cells.closings(text) IS
'Internal: the sums of an organisation''s removed entries.';

/* Returns the query for the rows of a table that a move copies. */
CREATE FUNCTION gpucredit_cells.rows_of(org text, relation text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE WHEN rows_of.relation = 'closing'
			THEN format('gpucredit_cells.closings(%L) t', rows_of.org)
		WHEN rows_of.relation LIKE 'incoming\_%' THEN format('gpucredit_cells.%I t', rows_of.relation)
		ELSE format('gpucredit.%I t', rows_of.relation) END;
END;
COMMENT ON FUNCTION gpucredit_cells.rows_of(text, text) IS
'Internal: what stands behind FROM for the rows of a table, named t.';

/*
 * Returns the SQL of a digest: a count and a sum over the texts of rows, in
 * any order, without the columns that a move renumbers.
 */
CREATE FUNCTION gpucredit_cells.digest_sum(relation text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT format('count(*) || '' '' || coalesce(sum(hashtextextended('
		'ROW(%s)::text, 0)::numeric), 0)',
		string_agg('t.' || quote_ident(a.attname), ', ' ORDER BY a.attname))
	FROM pg_attribute a
	WHERE a.attrelid = ('gpucredit.' || quote_ident(regexp_replace(digest_sum.relation,
			'^incoming_', '')))::regclass
		AND a.attnum > 0 AND NOT a.attisdropped
		AND a.attname <> CASE regexp_replace(digest_sum.relation, '^incoming_', '') WHEN 'entry' THEN 'entry'
			WHEN 'budget_log' THEN 'entry' WHEN 'audit' THEN 'audit'
			WHEN 'denial' THEN 'audit' WHEN 'closing' THEN 'archive_batch'
			ELSE '' END;
END;
COMMENT ON FUNCTION gpucredit_cells.digest_sum(text) IS
'Internal: an expression over rows t of a table, the same in two cells that have the same rows.';

CREATE FUNCTION gpucredit_cells.digest(org text, relation text,
	condition text DEFAULT 'true') RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET TimeZone = 'UTC' SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres'
SET extra_float_digits = 1 SET bytea_output = 'hex'
AS $$
DECLARE
	answer text;
BEGIN
	EXECUTE format('SELECT %s FROM %s WHERE t.org = $1 AND %s',
		gpucredit_cells.digest_sum(relation),
		gpucredit_cells.rows_of(org, relation), condition)
	INTO answer USING org;
	RETURN answer;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.digest(text, text, text) IS
'Internal: a digest of an organisation''s rows t of a table.';

CREATE FUNCTION gpucredit_cells.total(org text, relation text) RETURNS bigint
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	answer bigint;
BEGIN
	EXECUTE format('SELECT count(*) FROM gpucredit.%I t WHERE t.org = $1', relation)
	INTO answer USING org;
	RETURN answer;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.total(text, text) IS
'Internal: how many rows of a table an organisation has.';

/* Returns the last sealed number. No transaction can add rows below it. */
CREATE FUNCTION gpucredit_cells.sealed_to(relation text) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(max(CASE sealed_to.relation WHEN 'entry' THEN s.entry_to
		ELSE s.audit_to END), 0) FROM gpucredit.seal s;
END;
COMMENT ON FUNCTION gpucredit_cells.sealed_to(text) IS
'Internal: the last entry, or audit row, that a seal covers.';

/*
 * Copies rows t of a table from another cell, and returns the digest of what
 * is stored. If "again" is true, existing rows with the same key are replaced.
 */
CREATE FUNCTION gpucredit_cells.pull(source text, org text, relation text,
	target text, condition text DEFAULT 'true', again boolean DEFAULT false)
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET TimeZone = 'UTC' SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres'
SET extra_float_digits = 1 SET bytea_output = 'hex'
AS $$
DECLARE
	t record;
	answer text;
	schema text := (SELECT e.extnamespace::regnamespace::text
		FROM pg_extension e WHERE e.extname = 'dblink');
BEGIN
	SELECT * INTO STRICT t FROM gpucredit_cells.moved_tables() m WHERE m.name = relation;
	EXECUTE format('WITH put AS (INSERT INTO %s AS t (%s)'
		' SELECT * FROM %s.dblink(%L, %L) AS d (%s)%s RETURNING t.*)'
		' SELECT %s FROM put t', target, t.columns, schema, 'gpucredit_cells.' || source,
		format('SELECT %s FROM %s WHERE org = %L AND %s', t.columns,
			gpucredit_cells.rows_of(org, relation), org, condition), t.types,
		CASE WHEN again AND t.key IS NOT NULL AND NOT t.only_grows
			THEN format(' ON CONFLICT (%s) DO UPDATE SET (%s) = ROW(%s)', t.key,
			t.columns, regexp_replace(t.columns, '(^|, )', '\1excluded.', 'g'))
			ELSE '' END, gpucredit_cells.digest_sum(relation))
	INTO answer;
	RETURN answer;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.pull(text, text, text, text, text, boolean) IS
'Internal: copies an organisation''s rows of a table from another cell.';

CREATE FUNCTION gpucredit_cells.require_same(relation text, ours text, theirs text)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF ours IS DISTINCT FROM theirs THEN
		RAISE EXCEPTION 'rows of table "%" differ between the cells', relation
			USING ERRCODE = 'data_corrupted',
			DETAIL = format('Count and sum of digests: %s, in the old cell %s.', ours, theirs),
			HINT = 'The organisation stays where it is. Compare the rows of both cells.';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.require_same(text, text, text) IS
'Internal: raises XX001 where another cell has other rows.';

/* Copies rows, and compares them with the other cell in the same snapshot. */
CREATE FUNCTION gpucredit_cells.pull_same(source text, org text, relation text,
	target text, condition text DEFAULT 'true') RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT gpucredit_cells.require_same(relation,
		gpucredit_cells.pull(source, org, relation, target, condition),
		gpucredit_cells.ask(source, format('SELECT gpucredit_cells.digest(%L, %L, %L)',
			org, relation, condition)));
END;
COMMENT ON FUNCTION gpucredit_cells.pull_same(text, text, text, text, text) IS
'Internal: copies rows from another cell, and raises XX001 if what is stored differs.';

CREATE FUNCTION gpucredit_cells.forget_incoming(org text) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	DELETE FROM gpucredit_cells.incoming_entry t WHERE t.org = forget_incoming.org;
	DELETE FROM gpucredit_cells.incoming_audit t WHERE t.org = forget_incoming.org;
	DELETE FROM gpucredit_cells.incoming_closing t WHERE t.org = forget_incoming.org;
	DELETE FROM gpucredit_cells.incoming_number t WHERE t.org = forget_incoming.org;
END;
COMMENT ON FUNCTION gpucredit_cells.forget_incoming(text) IS
'Internal, in the new cell: removes what was copied ahead.';

/*
 * Copies sealed rows and the sums of removed ones, while the organisation is
 * in use. One snapshot contains each entry once.
 */
CREATE FUNCTION gpucredit_cells.copy_ahead(org text, source text) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	relation text;
BEGIN
	PERFORM gpucredit_cells.forget_incoming(org);
	PERFORM gpucredit_cells.hang_up(source);
	PERFORM gpucredit_cells.ask(source, 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
	FOREACH relation IN ARRAY ARRAY['entry', 'audit'] LOOP
		PERFORM gpucredit_cells.pull_same(source, org, relation,
			'gpucredit_cells.incoming_' || relation, format('t.%I <= %s', relation,
			gpucredit_cells.ask(source, format('SELECT gpucredit_cells.sealed_to(%L)::text', relation))));
	END LOOP;
	PERFORM gpucredit_cells.pull_same(source, org, 'closing', 'gpucredit_cells.incoming_closing');
	INSERT INTO gpucredit_cells.foreign_seal
	SELECT s.*
	FROM jsonb_populate_recordset(NULL::gpucredit_cells.foreign_seal,
		gpucredit_cells.ask(source, format('SELECT coalesce(jsonb_agg(to_jsonb(s)'
			' || jsonb_build_object(''cell'', %L::text)), ''[]'')::text'
			' FROM gpucredit.seal s WHERE s.batch > %s', source,
			(SELECT coalesce(max(f.batch), 0) FROM gpucredit_cells.foreign_seal f
				WHERE f.cell = source)))::jsonb) s
	ON CONFLICT DO NOTHING;
	PERFORM gpucredit_cells.ask(source, 'ROLLBACK');
	RETURN '';
END
$$;
COMMENT ON FUNCTION gpucredit_cells.copy_ahead(text, text) IS
'Internal, in the new cell: copies sealed entries and audit rows of an organisation that goes on to work.';
