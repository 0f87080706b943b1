/*
 * 29_fit.sql: creates the parts of a cell or router that CREATE EXTENSION
 * cannot create.
 *
 * A dump does not contain these parts, because they belong to gpucredit's own
 * objects: guards on tables, increments of sequences, tables of publications,
 * bodies of a router's functions. fit() creates what is missing. Triggers call
 * it when rows are inserted that make the database a cell or router, for
 * example by a restore. An event trigger calls it after each change of an
 * extension.
 */
CREATE FUNCTION gpucredit_cells.published(publication text) RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE publication
		WHEN 'gpucredit_rules' THEN '{gpucredit.idle_limit,gpucredit.lost_work,gpucredit.price,gpucredit.retry_rule_custom,gpucredit.tier_custom,gpucredit_cells.rule_change}'
		WHEN 'gpucredit_cells' THEN '{gpucredit_cells.cell}'
		WHEN 'gpucredit_directory' THEN '{gpucredit_cells.cell,gpucredit_cells.change,gpucredit_cells.home,gpucredit_cells.location,gpucredit_cells.visit}'
		END::text[];
END;
COMMENT ON FUNCTION gpucredit_cells.published(text) IS
'Internal: the tables of a publication, by name.';

/* Returns what is missing, each with the statement that creates it. */
CREATE FUNCTION gpucredit_cells.unfit()
RETURNS TABLE (what text, statement text)
LANGUAGE sql STABLE PARALLEL UNSAFE ROWS 1
SET search_path = pg_catalog, pg_temp
AS $$
	WITH me AS (SELECT c.number FROM gpucredit_cells.self s
		JOIN gpucredit_cells.cell c USING (cell)),
	triggers AS (
		SELECT 'cells_guard_new' AS name, g.relation, 'BEFORE INSERT' AS at,
			'ROW EXECUTE FUNCTION gpucredit_cells.guard()' AS does,
			'O' AS fires
		FROM me, gpucredit_cells.guarded_tables() g
		UNION ALL
		SELECT 'cells_guard', g.relation, CASE g.relation
				WHEN 'gpucredit.request'::regclass THEN 'AFTER UPDATE'
				ELSE 'AFTER UPDATE OR DELETE' END,
			'ROW EXECUTE FUNCTION gpucredit_cells.guard()', 'O'
		FROM me, gpucredit_cells.guarded_tables() g
		WHERE g.relation <> 'gpucredit.entry'::regclass
		UNION ALL
		SELECT 'cells_note_rule', t::regclass, 'AFTER INSERT OR UPDATE OR DELETE',
			'ROW EXECUTE FUNCTION gpucredit_cells.note_rule()', 'O'
		FROM pg_publication p, unnest(gpucredit_cells.published('gpucredit_rules')) t
		WHERE p.pubname = 'gpucredit_rules' AND t <> 'gpucredit_cells.rule_change'
		UNION ALL
		/* For rows that arrive by replication. */
		SELECT 'cells_rule_came', t::regclass, 'AFTER INSERT OR UPDATE OR DELETE',
			'ROW EXECUTE FUNCTION gpucredit_cells.rule_came()', 'R'
		FROM me, unnest(gpucredit_cells.published('gpucredit_rules')) t
		WHERE t <> 'gpucredit_cells.rule_change')
	SELECT format('table %s has no trigger %s', t.relation, t.name),
		format('CREATE OR REPLACE TRIGGER %I %s ON %s FOR EACH %s', t.name, t.at,
			t.relation, t.does)
			|| CASE t.fires WHEN 'R' THEN format('; ALTER TABLE %s ENABLE REPLICA TRIGGER %I',
				t.relation, t.name) ELSE '' END
	FROM triggers t
	WHERE NOT EXISTS (SELECT FROM pg_trigger h
		WHERE h.tgrelid = t.relation AND h.tgname = t.name AND h.tgenabled = t.fires)
	UNION ALL
	/*
	 * Numbers of a cell are unique modulo 1000, wherever an organisation
	 * moves.
	 */
	SELECT format('sequence %s does not count in cell %s', s.seqrelid::regclass, me.number),
		/*
		 * ALTER SEQUENCE comes first, as it locks the sequence: a restore may
		 * set it in the meantime.
		 */
		format('ALTER SEQUENCE %1$s INCREMENT BY 1000; SELECT setval(%2$s,'
			' (coalesce(l.last, 0) / 1000 + 1) * 1000 + %3$s, l.last IS NOT NULL)'
			' FROM pg_sequence_last_value(%2$s) AS l (last)'
			' WHERE (l.last %% 1000 = %3$s) IS NOT TRUE',
			s.seqrelid::regclass, s.seqrelid, me.number)
	FROM me, pg_sequence s JOIN pg_class c ON c.oid = s.seqrelid,
		LATERAL (SELECT pg_sequence_last_value(s.seqrelid) AS last) l
	WHERE c.relnamespace = 'gpucredit'::regnamespace
		AND (s.seqincrement <> 1000 OR l.last % 1000 <> me.number)
	UNION ALL
	SELECT format('publication %s has not its tables', p.pubname),
		format('ALTER PUBLICATION %I SET TABLE %s', p.pubname, array_to_string(w.tables, ', '))
	FROM pg_publication p, LATERAL (SELECT gpucredit_cells.published(p.pubname) AS tables) w
	WHERE ARRAY(SELECT format('%s.%s', t.schemaname, t.tablename) COLLATE "C"
		FROM pg_publication_tables t WHERE t.pubname = p.pubname ORDER BY 1) <> w.tables
	UNION ALL
	SELECT 'PUBLIC may call functions of dblink', 'SELECT gpucredit_cells.close_dblink()'
	FROM gpucredit_cells.open_dblink() HAVING count(*) > 0
	UNION ALL
	SELECT 'a login may reach the cells as another', 'SELECT gpucredit_cells.close_server()'
	WHERE EXISTS (SELECT FROM pg_foreign_server s, aclexplode(s.srvacl) a
			WHERE s.srvname = 'gpucredit_cells' AND a.grantee <> s.srvowner)
		OR EXISTS (SELECT FROM pg_user_mappings u
			WHERE u.srvname = 'gpucredit_cells' AND u.umuser <> 0)
	UNION ALL
	SELECT format('%s functions do not go to the cells', count(*)),
		'SELECT gpucredit_cells.make_router()'
	FROM gpucredit_cells.routes() r JOIN pg_proc f ON f.oid = r.function
	WHERE f.prosrc NOT LIKE '%gc_number%' AND f.prosrc <> 'gpucredit_cells_route'
		AND to_regnamespace('gpucredit_remote') IS NOT NULL
		AND NOT EXISTS (SELECT FROM me)
	HAVING count(*) > 0
$$;
COMMENT ON FUNCTION gpucredit_cells.unfit() IS
'Internal: what this cell or router lacks, as after a restore, and what makes it.';

CREATE FUNCTION gpucredit_cells.fit() RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	missing text;
BEGIN
	FOR missing IN SELECT u.statement FROM gpucredit_cells.unfit() u
	LOOP
		EXECUTE missing;
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.fit() IS
'Setup: makes what this cell or router lacks: guards, steps of sequences, tables of publications, routed functions. Triggers call it; calling it again does nothing.';

CREATE FUNCTION gpucredit_cells.cell_changed() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	/* If two rows are restored at the same time, the later one sees both. */
	LOCK TABLE gpucredit_cells.self IN SHARE ROW EXCLUSIVE MODE;
	IF NOT EXISTS (SELECT FROM gpucredit_cells.self) THEN
		PERFORM gpucredit_cells.make_server();
	END IF;
	PERFORM gpucredit_cells.fit();
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.cell_changed() IS
'Trigger: a router follows table cell, also where that is replicated or restored; a cell is made fit when its row comes.';
CREATE TRIGGER cell_changed AFTER INSERT OR UPDATE ON gpucredit_cells.cell
	FOR EACH ROW EXECUTE FUNCTION gpucredit_cells.cell_changed();
ALTER TABLE gpucredit_cells.cell ENABLE ALWAYS TRIGGER cell_changed;
CREATE TRIGGER self_changed AFTER INSERT ON gpucredit_cells.self
	FOR EACH ROW EXECUTE FUNCTION gpucredit_cells.cell_changed();

CREATE FUNCTION gpucredit_cells.extension_changed() RETURNS event_trigger
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_cells.fit();
END
$$;
COMMENT ON FUNCTION gpucredit_cells.extension_changed() IS
'Event trigger: after an upgrade new tables have their guards, and a router its functions; a publication gets its tables.';
CREATE EVENT TRIGGER gpucredit_cells ON ddl_command_end
	WHEN TAG IN ('ALTER EXTENSION', 'CREATE PUBLICATION')
	EXECUTE FUNCTION gpucredit_cells.extension_changed();

/*
 * Handles a dump of PostgreSQL 18 or later, which adds the tables to the
 * publication one by one, and fails for a table that has been added already.
 */
CREATE FUNCTION gpucredit_cells.table_added() RETURNS event_trigger
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	added text[] := regexp_match(current_query(),
		'ALTER PUBLICATION (gpucredit_\w+) ADD TABLE ONLY (gpucredit\w*\.\w+)');
BEGIN
	IF current_setting('gpucredit_cells.adding', true) = 'on' OR NOT EXISTS (
		SELECT FROM pg_publication_tables t WHERE t.pubname = added[1]
			AND format('%s.%s', t.schemaname, t.tablename) = added[2])
	THEN
		RETURN;
	END IF;
	PERFORM set_config('gpucredit_cells.adding', 'on', true);
	EXECUTE format('ALTER PUBLICATION %I DROP TABLE %s', added[1], added[2]);
	PERFORM set_config('gpucredit_cells.adding', '', true);
END
$$;
COMMENT ON FUNCTION gpucredit_cells.table_added() IS
'Event trigger: a table that a dump adds to a publication may be in it.';
CREATE EVENT TRIGGER gpucredit_cells_table ON ddl_command_start
	WHEN TAG IN ('ALTER PUBLICATION')
	EXECUTE FUNCTION gpucredit_cells.table_added();
