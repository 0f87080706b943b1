/*
 * 41_move.sql: how an organisation's rows come from one cell to another.
 *
 * Tables come from the catalogue, so that none is forgotten.  Rows go as they
 * are, but entries and audit rows get new numbers: a cell's seals cover all
 * numbers up to a point.  Those of the old cell stay there with its seals, so
 * that proofs made before stay good.
 */
CREATE TABLE gpucredit_cells.incoming_entry (LIKE gpucredit.entry);
COMMENT ON TABLE gpucredit_cells.incoming_entry IS
'Entries of an organisation that is moving here, copied ahead';
CREATE INDEX incoming_entry_org ON gpucredit_cells.incoming_entry (org, entry);
CREATE TABLE gpucredit_cells.incoming_audit (LIKE gpucredit.audit);
COMMENT ON TABLE gpucredit_cells.incoming_audit IS
'Audit rows of an organisation that is moving here, copied ahead';
CREATE INDEX incoming_audit_org ON gpucredit_cells.incoming_audit (org, audit);

/* Seals of other cells that cover rows which came from there. */
CREATE TABLE gpucredit_cells.foreign_seal (LIKE gpucredit.seal);
ALTER TABLE gpucredit_cells.foreign_seal
	ADD COLUMN cell text COLLATE "C" NOT NULL,
	ADD CONSTRAINT foreign_seal_pkey PRIMARY KEY (cell, batch);
COMMENT ON TABLE gpucredit_cells.foreign_seal IS
'Seals of the cells that organisations came from: what proofs made there end in';
COMMENT ON COLUMN gpucredit_cells.foreign_seal.cell IS 'The cell whose seal it is.';
SELECT pg_catalog.pg_extension_config_dump('gpucredit_cells.foreign_seal', '');

/*
 * What a cycle makes anew stays: promises, claims and who was evicted for them.
 * So does what is known of nodes.
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
			'node_cache', 'node_strike', 'closing')
	GROUP BY c.oid, c.relname
	ORDER BY c.relname;
END;
COMMENT ON FUNCTION gpucredit_cells.moved_tables() IS
'Internal: the tables whose rows of an organisation move with it, their columns, those of the primary key, and whether rows only come.';

/*
 * A count and a sum over rows' texts, in any order, without the columns that a
 * move numbers anew.
 */
CREATE FUNCTION gpucredit_cells.digest(org text, relation text, above bigint DEFAULT NULL,
	upto bigint DEFAULT NULL, incoming boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET TimeZone = 'UTC'
SET DateStyle = 'ISO, YMD'
SET IntervalStyle = 'postgres'
SET extra_float_digits = 1
AS $$
DECLARE
	number text := CASE relation WHEN 'entry' THEN 'entry' WHEN 'audit' THEN 'audit' END;
	without text[] := CASE relation WHEN 'entry' THEN '{entry}' WHEN 'audit' THEN '{audit}'
		WHEN 'denial' THEN '{audit}' WHEN 'budget_log' THEN '{entry}' ELSE '{}' END;
	answer text;
BEGIN
	EXECUTE format('SELECT count(*) || '' '' || coalesce(sum(hashtextextended(ROW(%s)::text, 0)::numeric), 0)'
		' FROM %s t WHERE t.org = $1 %s',
		(SELECT string_agg('t.' || quote_ident(a.attname), ', ' ORDER BY a.attname)
			FROM pg_attribute a
			WHERE a.attrelid = ('gpucredit.' || quote_ident(relation))::regclass
				AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> ALL (without)),
		CASE WHEN incoming THEN 'gpucredit_cells.incoming_' ELSE 'gpucredit.' END
			|| quote_ident(relation),
		CASE WHEN number IS NOT NULL AND NOT (above IS NULL AND upto IS NULL)
			THEN format('AND t.%I > coalesce($2, 0) AND t.%I <= coalesce($3, 9223372036854775807)',
				number, number) ELSE '' END)
	INTO answer USING org, above, upto;
	RETURN answer;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.digest(text, text, bigint, bigint, boolean) IS
'Internal: a digest of an organisation''s rows of a table, the same in two cells that have the same rows.';

/* Up to which numbers rows are sealed: no transaction adds any below. */
CREATE FUNCTION gpucredit_cells.sealed_to(relation text) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(max(CASE sealed_to.relation WHEN 'entry' THEN s.entry_to
		ELSE s.audit_to END), 0) FROM gpucredit.seal s;
END;
COMMENT ON FUNCTION gpucredit_cells.sealed_to(text) IS
'Internal: the last entry, or audit row, that a seal covers.';

/*
 * Copies rows of a table from another cell.  Those of the same key are replaced
 * in a table that has some already.
 */
CREATE FUNCTION gpucredit_cells.pull(source text, org text, relation text,
	target text, condition text DEFAULT 'true', again boolean DEFAULT false)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET TimeZone = 'UTC'
AS $$
DECLARE
	t record;
	schema text := (SELECT e.extnamespace::regnamespace::text
		FROM pg_extension e WHERE e.extname = 'dblink');
BEGIN
	SELECT * INTO STRICT t FROM gpucredit_cells.moved_tables() m WHERE m.name = relation;
	EXECUTE format('INSERT INTO %s (%s) SELECT * FROM %s.dblink(%L, %L) AS d (%s)',
		target, t.columns, schema, 'gpucredit_cells.' || source,
		format('SELECT %s FROM gpucredit.%I WHERE org = %L AND %s', t.columns, relation, org,
			condition), t.types)
		|| CASE WHEN NOT again THEN ''
			WHEN t.only_grows THEN ' ON CONFLICT DO NOTHING'
			ELSE format(' ON CONFLICT (%s) DO UPDATE SET (%s) = ROW(%s)', t.key,
			t.columns, regexp_replace(t.columns, '(^|, )', '\1excluded.', 'g')) END;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.pull(text, text, text, text, text, boolean) IS
'Internal: copies an organisation''s rows of a table from another cell.';

/* While it works: what is sealed, checked by its digest. */
CREATE FUNCTION gpucredit_cells.copy_ahead(org text, source text) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	relation text;
	upto bigint;
BEGIN
	PERFORM gpucredit_cells.forget_incoming(org);
	FOREACH relation IN ARRAY ARRAY['entry', 'audit'] LOOP
		upto := gpucredit_cells.ask(source, format(
			'SELECT gpucredit_cells.sealed_to(%L)::text', relation));
		PERFORM gpucredit_cells.pull(source, org, relation,
			'gpucredit_cells.incoming_' || relation, format('%I <= %s', relation, upto));
		PERFORM gpucredit_cells.require_same(source, org, relation, NULL, upto, true);
	END LOOP;
	INSERT INTO gpucredit_cells.foreign_seal
	SELECT s.*
	FROM jsonb_populate_recordset(NULL::gpucredit_cells.foreign_seal,
		gpucredit_cells.ask(source, format('SELECT coalesce(jsonb_agg(to_jsonb(s)'
			' || jsonb_build_object(''cell'', %L::text)), ''[]'')::text'
			' FROM gpucredit.seal s WHERE s.batch > %s', source,
			(SELECT coalesce(max(f.batch), 0) FROM gpucredit_cells.foreign_seal f
				WHERE f.cell = source)))::jsonb) s
	ON CONFLICT DO NOTHING;
	RETURN '';
END
$$;
COMMENT ON FUNCTION gpucredit_cells.copy_ahead(text, text) IS
'Internal, in the new cell: copies sealed entries and audit rows of an organisation that goes on to work.';

CREATE FUNCTION gpucredit_cells.require_same(source text, org text, relation text,
	above bigint, upto bigint, incoming boolean) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	ours text := gpucredit_cells.digest(org, relation, above, upto, incoming);
	theirs text := gpucredit_cells.ask(source, format('SELECT gpucredit_cells.digest(%L, %L, %s, %s)',
		org, relation, coalesce(above::text, 'NULL'), coalesce(upto::text, 'NULL')));
BEGIN
	IF ours IS DISTINCT FROM theirs THEN
		RAISE EXCEPTION 'rows of table "%" differ between the cells', relation
			USING ERRCODE = 'data_corrupted',
			DETAIL = format('Count and sum of digests: %s, in the old cell %s.', ours, theirs),
			HINT = 'The organisation stays where it is. Compare the rows of both cells.';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.require_same(text, text, text, bigint, bigint, boolean) IS
'Internal: raises XX001 where another cell has other rows.';

/* Rows that came, from a number on, get numbers of this cell in their order. */
CREATE FUNCTION gpucredit_cells.number_anew(org text, relation text, above bigint) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	others text := (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
		FROM pg_attribute a
		WHERE a.attrelid = ('gpucredit.' || relation)::regclass AND a.attnum > 0
			AND NOT a.attisdropped AND a.attname <> relation);
BEGIN
	EXECUTE format('INSERT INTO gpucredit.%I (%s) SELECT %2$s'
		' FROM gpucredit_cells.%I t WHERE t.org = $1 AND t.%1$I > $2 ORDER BY t.%1$I',
		relation, others, 'incoming_' || relation)
	USING org, above;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.number_anew(text, text, bigint) IS
'Internal: entries or audit rows that came get numbers of this cell.';

/* The i-th row that came is the i-th here. */
CREATE FUNCTION gpucredit_cells.follow_numbers(org text, relation text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	follower text := CASE relation WHEN 'entry' THEN 'budget_log' ELSE 'denial' END;
	any_follows boolean;
BEGIN
	EXECUTE format('SELECT EXISTS (SELECT FROM gpucredit.%I f WHERE f.org = $1)', follower)
	INTO any_follows USING org;
	IF any_follows THEN
		EXECUTE format('WITH names AS (SELECT f.%1$I AS old, NULL::bigint AS i'
			' FROM gpucredit.%3$I f WHERE f.org = $1'
			' UNION ALL SELECT t.%1$I, row_number() OVER (ORDER BY t.%1$I)'
			' FROM gpucredit_cells.%2$I t WHERE t.org = $1),'
			' known AS (SELECT n.old, max(n.i) AS i FROM (SELECT m.old,'
			' max(m.i) OVER (ORDER BY m.old) AS i FROM names m) n GROUP BY n.old),'
			' new AS (SELECT t.%1$I AS new, row_number() OVER (ORDER BY t.%1$I) AS i'
			' FROM gpucredit.%1$I t WHERE t.org = $1)'
			' UPDATE gpucredit.%3$I f SET %1$I = coalesce(n.new, 0)'
			' FROM known k LEFT JOIN new n USING (i) WHERE f.org = $1 AND f.%1$I = k.old',
			relation, 'incoming_' || relation, follower)
		USING org;
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.follow_numbers(text, text) IS
'Internal: rows that refer to entries or audit rows follow these to their new numbers.';

CREATE FUNCTION gpucredit_cells.forget_incoming(org text) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	DELETE FROM gpucredit_cells.incoming_entry t WHERE t.org = forget_incoming.org;
	DELETE FROM gpucredit_cells.incoming_audit t WHERE t.org = forget_incoming.org;
END;
COMMENT ON FUNCTION gpucredit_cells.forget_incoming(text) IS
'Internal, in the new cell: removes what was copied ahead.';

/* Nodes on which the organisation runs: no new work goes there. */
CREATE FUNCTION gpucredit_cells.bring_nodes(org text, source text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	rows jsonb := gpucredit_cells.ask(source, format($q$
		SELECT coalesce(jsonb_agg(n), '[]')::text FROM gpucredit.node n
		WHERE n.node IN (SELECT g.node FROM gpucredit.attempt_gpu g
			WHERE g.org = %L AND g.ended_at IS NULL)$q$, org))::jsonb;
	pools jsonb := gpucredit_cells.ask(source, format($q$
		SELECT coalesce(jsonb_agg(p), '[]')::text FROM gpucredit.pool p
		WHERE p.pool IN (SELECT j.pool FROM gpucredit.job j WHERE j.org = %L)
			OR p.pool IN (SELECT g.pool FROM gpucredit.attempt_gpu g WHERE g.org = %1$L)$q$,
		org))::jsonb;
BEGIN
	INSERT INTO gpucredit.pool
	SELECT p.* FROM jsonb_populate_recordset(NULL::gpucredit.pool, pools) p
	ON CONFLICT DO NOTHING;
	INSERT INTO gpucredit_cells.guest_node
	SELECT n.node FROM jsonb_populate_recordset(NULL::gpucredit.node, rows) n
	WHERE NOT EXISTS (SELECT FROM gpucredit.node o WHERE o.node = n.node)
	ON CONFLICT DO NOTHING;
	INSERT INTO gpucredit.node
	SELECT (jsonb_populate_record(n, '{"draining": "its cell is another"}')).*
	FROM jsonb_populate_recordset(NULL::gpucredit.node, rows) n
	ON CONFLICT DO NOTHING;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.bring_nodes(text, text) IS
'Internal: rows of pools and nodes that an organisation''s jobs name.';

/*
 * In the new cell, in the transaction that take_in() ends: everything, while the
 * organisation works.  What changes from the result on is not all here.
 */
CREATE FUNCTION gpucredit_cells.take_ahead(org text, source text, epoch bigint) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET session_replication_role = replica
AS $$
DECLARE
	horizon text;
BEGIN
	/* another attempt has ended then */
	PERFORM gpucredit_cells.lock_moving(org);
	IF EXISTS (SELECT FROM gpucredit_cells.resident r
		WHERE r.org = take_ahead.org AND r.epoch = take_ahead.epoch AND r.state = 'home')
	THEN
		RETURN 'here';
	END IF;
	PERFORM gpucredit_cells.hang_up(source);
	PERFORM gpucredit_cells.ask(source, 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
	horizon := gpucredit_cells.ask(source,
		'SELECT (pg_snapshot_xmin(pg_current_snapshot())::text::numeric % 4294967296)::text');
	PERFORM gpucredit_cells.pull(source, org, m.name, 'gpucredit.' || quote_ident(m.name))
	FROM gpucredit_cells.moved_tables() m
	WHERE m.name NOT IN ('entry', 'audit') AND m.key IS NOT NULL;
	PERFORM gpucredit_cells.ask(source, 'ROLLBACK');
	PERFORM gpucredit_cells.number_anew(org, r, 0) FROM unnest('{entry,audit}'::text[]) r;
	RETURN horizon;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.take_ahead(text, text, bigint) IS
'Internal, in the new cell: copies an organisation''s rows while it works. Result: the transaction of the old cell from which on changes have to follow; "here": it has come already.';

/* The old cell computes digests while this one takes what changed. */
CREATE FUNCTION gpucredit_cells.begin_digests(org text, source text, entry bigint, audit bigint)
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	link CONSTANT text := 'gpucredit_cells digests';
	snapshot text := gpucredit_cells.ask(source, 'SELECT pg_export_snapshot()');
BEGIN
	PERFORM gpucredit_cells.disconnect(link);
	EXECUTE format('SELECT %s($1, $2)', gpucredit_cells.dblink('connect'))
	USING link, (gpucredit_cells.require_cell(source)).dsn || ' user=' || quote_literal(current_user)
		|| ' application_name=gpucredit_cells';
	EXECUTE format('SELECT %s($1, $2)', gpucredit_cells.dblink('exec'))
	USING link, format('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;'
		' SET TRANSACTION SNAPSHOT %L', snapshot);
	EXECUTE format('SELECT %s($1, $2)', gpucredit_cells.dblink('send_query'))
	USING link, format('SELECT jsonb_object_agg(m.name, gpucredit_cells.digest(%L, m.name,'
		' CASE m.name WHEN ''entry'' THEN %s WHEN ''audit'' THEN %s END))'
		' FROM gpucredit_cells.moved_tables() m', org, entry, audit);
	RETURN link;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.begin_digests(text, text, bigint, bigint) IS
'Internal: has the old cell compute digests of what an open transaction sees there; returns the connection that will have them.';

/* In the new cell, the organisation being frozen: the rest, or nothing. */
CREATE FUNCTION gpucredit_cells.take_in(org text, source text, epoch bigint, horizon text)
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET session_replication_role = replica
SET enable_nestloop = off		/* nothing that came is analysed yet */
AS $$
DECLARE
	one record;
	last jsonb := '{}';
	high bigint;
	ours jsonb := '{}';
	theirs jsonb;
	link text;
	wrong text;
BEGIN
	PERFORM gpucredit_cells.ask(source, 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
	FOR one IN SELECT r AS name FROM unnest('{entry,audit}'::text[]) r LOOP
		EXECUTE format('SELECT coalesce(max(t.%I), 0) FROM gpucredit_cells.%I t WHERE t.org = $1',
			one.name, 'incoming_' || one.name) INTO high USING org;
		last := last || jsonb_build_object(one.name, high);
	END LOOP;
	link := gpucredit_cells.begin_digests(org, source, (last->>'entry')::bigint,
		(last->>'audit')::bigint);
	PERFORM gpucredit_cells.bring_nodes(org, source);
	FOR one IN SELECT * FROM gpucredit_cells.moved_tables() LOOP
		IF last ? one.name THEN
			high := (last->>one.name)::bigint;
			PERFORM gpucredit_cells.pull(source, org, one.name,
				'gpucredit_cells.incoming_' || one.name, format('%I > %s', one.name, high));
			PERFORM gpucredit_cells.number_anew(org, one.name, high);
			ours := ours || jsonb_build_object(one.name,
				gpucredit_cells.digest(org, one.name, high, NULL, true));
		ELSE
			BEGIN
				PERFORM gpucredit_cells.pull(source, org, one.name, 'gpucredit.' || quote_ident(one.name),
					CASE WHEN one.key IS NULL THEN 'true'
						ELSE format('age(xmin) <= age(%L::xid)', horizon) END, one.key IS NOT NULL);
			EXCEPTION WHEN unique_violation THEN
				NULL;			/* a row that is gone there had the name of a new one */
			END;
			ours := ours || jsonb_build_object(one.name, gpucredit_cells.digest(org, one.name));
		END IF;
	END LOOP;
	theirs := gpucredit_cells.ask_result(link);
	PERFORM gpucredit_cells.disconnect(link);
	FOR one IN SELECT m.name FROM gpucredit_cells.moved_tables() m
		WHERE ours->>m.name IS DISTINCT FROM theirs->>m.name
	LOOP
		IF NOT last ? one.name THEN	/* rows were deleted there */
			EXECUTE format('DELETE FROM gpucredit.%I t WHERE t.org = $1', one.name) USING org;
			PERFORM gpucredit_cells.pull(source, org, one.name, 'gpucredit.' || quote_ident(one.name));
		END IF;
		PERFORM gpucredit_cells.require_same(source, org, one.name, (last->>one.name)::bigint, NULL,
			last ? one.name);
	END LOOP;
	PERFORM gpucredit_cells.follow_numbers(org, r) FROM unnest('{entry,audit}'::text[]) r;
	PERFORM gpucredit_cells.hang_up(source);
	PERFORM gpucredit_cells.pass_numbers(r.name, r.last)
	FROM (SELECT 'bucket_bucket_seq' AS name, (SELECT max(t.bucket) FROM gpucredit.bucket t WHERE t.org = take_in.org) AS last
		UNION ALL SELECT 'hold_hold_seq', (SELECT max(t.hold) FROM gpucredit.hold t WHERE t.org = take_in.org)
		UNION ALL SELECT 'job_job_seq', (SELECT max(t.job) FROM gpucredit.job t WHERE t.org = take_in.org)
		UNION ALL SELECT 'alert_alert_seq', (SELECT max(t.alert) FROM gpucredit.alert t WHERE t.org = take_in.org)) r
	WHERE r.last IS NOT NULL;
	INSERT INTO gpucredit_cells.resident AS r VALUES (org, epoch, 'home')
	ON CONFLICT ON CONSTRAINT resident_pkey
		DO UPDATE SET epoch = excluded.epoch, state = 'home';
	SELECT string_agg(format('%s: %s, %s', v.invariant, v.subject, v.detail), '; ')
	INTO wrong FROM (SELECT * FROM gpucredit.verify(org) LIMIT 5) v;
	IF wrong IS NOT NULL THEN
		RAISE EXCEPTION 'organisation "%" would not be sound in the new cell',
			gpucredit_internal.clip_for_message(org)
			USING ERRCODE = 'data_corrupted', DETAIL = wrong,
			HINT = 'It stays where it is. Run gpucredit.verify() there.';
	END IF;
	RETURN 'taken';
END
$$;
COMMENT ON FUNCTION gpucredit_cells.take_in(text, text, bigint, text) IS
'Internal, in the new cell, after take_ahead(): takes what changed since the horizon, compares all rows by digest and verifies; this cell is the home when the transaction commits.';

/* Numbers of this cell that come later are above those that came. */
CREATE FUNCTION gpucredit_cells.pass_numbers(sequence text, last bigint) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT setval(('gpucredit.' || sequence)::regclass, (last / 1000 + 1) * 1000 + c.number)
	FROM gpucredit_cells.self s JOIN gpucredit_cells.cell c USING (cell)
	WHERE coalesce(pg_sequence_last_value(('gpucredit.' || sequence)::regclass), 0) <= last
$$;
COMMENT ON FUNCTION gpucredit_cells.pass_numbers(text, bigint) IS
'Internal: lets a sequence go on above a number.';

/* In the old cell */
CREATE FUNCTION gpucredit_cells.set_moving(org text, epoch bigint, moving boolean)
RETURNS text
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	UPDATE gpucredit_cells.resident r
	SET state = CASE WHEN set_moving.moving THEN 'moving' ELSE 'home' END
	WHERE r.org = set_moving.org AND r.epoch < set_moving.epoch
		AND r.state IN ('home', 'moving')
	RETURNING r.state;
END;
COMMENT ON FUNCTION gpucredit_cells.set_moving(text, bigint, boolean) IS
'Internal, in the old cell: from the commit on nothing of the organisation changes, or it goes on.';

/* Cycles and sweeps pass over rows that are locked. */
CREATE FUNCTION gpucredit_cells.hold_still(org text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $$
BEGIN
	PERFORM gpucredit_cells.lock_moving(org);
	PERFORM FROM gpucredit.job j
	WHERE j.org = hold_still.org AND j.state IN ('queued', 'active')
	ORDER BY j.job FOR UPDATE;
	PERFORM FROM gpucredit.attempt a
	WHERE a.org = hold_still.org AND a.ended_at IS NULL
	ORDER BY a.job, a.attempt FOR UPDATE;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.hold_still(text) IS
'Internal, in the old cell: waits for transactions that changed rows of the organisation, and keeps its jobs from cycles until this one ends.
Errors: 55P03 a transaction stays open.';

/*
 * What stays in the old cell is a closed account: its jobs cancelled, its credit
 * revoked, by gpucredit's own functions.  So its verify() holds, its seals stay,
 * and devices of running attempts are given out when their nodes say that
 * nothing runs there any more.
 */
CREATE FUNCTION gpucredit_cells.close_out(org text, target text) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	reason text := format('the organisation moved to cell %s', target);
	r record;
BEGIN
	/* devices of a node that does not tell what runs would be given out again */
	PERFORM gpucredit.drain(n.node, reason)
	FROM gpucredit.node n
	WHERE n.draining IS NULL
		AND (NOT n.tells_running
			OR current_setting('gpucredit.node_lost')::interval = '0')
		AND n.node IN (SELECT g.node FROM gpucredit.attempt_gpu g
			WHERE g.org = close_out.org AND g.ended_at IS NULL);
	PERFORM gpucredit_cells.hold_still(org);
	DELETE FROM gpucredit.rate_limit l WHERE l.org = close_out.org;
	DELETE FROM gpucredit.tenant t WHERE t.org = close_out.org;
	FOR r IN SELECT a.job, a.attempt FROM gpucredit.attempt a
		WHERE a.org = close_out.org AND a.ended_at IS NULL ORDER BY 1, 2
	LOOP
		PERFORM gpucredit.cancel(org, r.job, 'cells: moved, job ' || r.job, reason);
		PERFORM gpucredit.settle(org, r.job, r.attempt, 'cancelled');
	END LOOP;
	FOR r IN SELECT j.job FROM gpucredit.job j
		WHERE j.org = close_out.org AND j.state IN ('queued', 'active') ORDER BY 1
	LOOP
		PERFORM gpucredit.cancel(org, r.job, 'cells: moved, job ' || r.job, reason);
	END LOOP;
	FOR r IN SELECT h.hold FROM gpucredit.hold h
		WHERE h.org = close_out.org AND h.closed_at IS NULL ORDER BY 1
	LOOP
		PERFORM gpucredit.release(org, r.hold, 'cells: moved, hold ' || r.hold);
	END LOOP;
	FOR r IN SELECT b.bucket FROM gpucredit.bucket b
		WHERE b.org = close_out.org AND b.closed_at IS NULL ORDER BY 1
	LOOP
		PERFORM gpucredit.revoke(org, r.bucket, 'cells: moved, bucket ' || r.bucket, reason);
	END LOOP;
	/* fair share is charged in the new cell */
	UPDATE gpucredit.attempt a SET usage_charged = 0, needs_cycle = false
	WHERE a.org = close_out.org AND a.needs_cycle;
	UPDATE gpucredit_cells.resident t SET state = 'gone' WHERE t.org = close_out.org;
	RETURN 'closed';
END
$$;
COMMENT ON FUNCTION gpucredit_cells.close_out(text, text) IS
'Internal, in the old cell: ends what the organisation has there, once it is at home elsewhere.';
