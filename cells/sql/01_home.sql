/*
 * 01_home.sql: the organisations whose home this cell is.
 *
 * The cell decides by its own row of resident, never by what a router claims.
 * A guest is an organisation that spends leased credit here.
 */
CREATE TABLE gpucredit_cells.resident (
	org text COLLATE "C" NOT NULL,
	epoch bigint NOT NULL,
	state text NOT NULL,
	CONSTRAINT resident_pkey PRIMARY KEY (org),
	CONSTRAINT resident_org CHECK (org <> ''),
	CONSTRAINT resident_state CHECK (state IN ('home', 'guest', 'moving', 'gone'))
);
COMMENT ON TABLE gpucredit_cells.resident IS
'Organisations that this cell knows, and what it is to each';
COMMENT ON COLUMN gpucredit_cells.resident.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit_cells.resident.epoch IS 'How often its home has changed, by then.';
COMMENT ON COLUMN gpucredit_cells.resident.state IS 'home; guest: leased credit only; moving: nothing changes; gone: its home is elsewhere.';
SELECT pg_catalog.pg_extension_config_dump('gpucredit_cells.resident', '');

CREATE FUNCTION gpucredit_cells.guard() RETURNS trigger
LANGUAGE c VOLATILE
AS 'MODULE_PATHNAME', 'gpucredit_cells_guard';
COMMENT ON FUNCTION gpucredit_cells.guard() IS
'Trigger: refuses to change a row of an organisation whose home is elsewhere (UC701), or that is moving (UC702).';

CREATE FUNCTION gpucredit_cells.at_home(org text, epoch bigint) RETURNS text
LANGUAGE c VOLATILE PARALLEL UNSAFE COST 1
AS 'MODULE_PATHNAME', 'gpucredit_cells_at_home';
COMMENT ON FUNCTION gpucredit_cells.at_home(text, bigint) IS
'Internal: the organisation, if this cell is its home at that epoch. For routers'' calls.
Errors: UC701 its home is elsewhere, or the epoch is another; UC702 it is moving.';

CREATE FUNCTION gpucredit_cells.lock_moving(org text) RETURNS void
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'gpucredit_cells_lock_moving';
COMMENT ON FUNCTION gpucredit_cells.lock_moving(text) IS
'Internal: waits for every transaction that changed a row of the organisation, and keeps others away until this one ends.';

CREATE FUNCTION gpucredit_cells.standing(org text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT r.state FROM gpucredit_cells.resident r WHERE r.org = standing.org;
END;
COMMENT ON FUNCTION gpucredit_cells.standing(text) IS
'Internal: what this cell is to the organisation; null: it does not know it.';

CREATE FUNCTION gpucredit_cells.admit(org text, epoch bigint) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	INSERT INTO gpucredit_cells.resident AS r (org, epoch, state)
	VALUES (admit.org, admit.epoch, 'home')
	ON CONFLICT ON CONSTRAINT resident_pkey
		DO UPDATE SET epoch = excluded.epoch WHERE r.state = 'home';
END;
COMMENT ON FUNCTION gpucredit_cells.admit(text, bigint) IS
'Internal: this cell is the organisation''s home from now on.';

/*
 * Returns the tables that guard() protects. It omits sums and records that
 * upkeep writes for any organisation, and what a node's heartbeat or a pool's
 * cycle writes about devices; these depend on rows that are guarded.
 */
CREATE FUNCTION gpucredit_cells.guarded_tables()
RETURNS TABLE (relation regclass)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT c.oid::regclass
	FROM pg_class c
		JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'org'
	WHERE c.relnamespace = (SELECT n.oid FROM pg_namespace n
			WHERE n.nspname = 'gpucredit')
		AND c.relkind = 'r' AND c.relpersistence = 'p'
		AND c.relname NOT IN ('account_delta', 'account_total', 'spend_day', 'usage',
			'accrued', 'fair_usage', 'denial', 'closing', 'audit', 'alert', 'event',
			'event_pending', 'kept_log', 'stored_file', 'job_file',
			'node_cache', 'node_strike', 'eviction', 'reservation', 'claim', 'claim_gpu',
			'attempt_gpu', 'attempt_watch', 'directive')
	ORDER BY c.relname;
END;
COMMENT ON FUNCTION gpucredit_cells.guarded_tables() IS
'Internal: the tables of gpucredit that only an organisation''s home changes.';

CREATE FUNCTION gpucredit_cells.join_cells(cell text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	at gpucredit_cells.cell := gpucredit_cells.require_cell(join_cells.cell);
BEGIN
	IF NOT EXISTS (SELECT FROM gpucredit_cells.self s WHERE s.cell = at.cell) THEN
		/* fires the trigger that calls fit() */
		INSERT INTO gpucredit_cells.self VALUES (at.cell);
		INSERT INTO gpucredit_cells.resident
		SELECT DISTINCT a.org, 0, 'home' FROM gpucredit.account a;
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.join_cells(text) IS
'Setup, once in each cell, by its superuser: makes this database the cell that gpucredit_cells.cell names so. Organisations that it has are at home in it.
Errors: UC703 no such cell.';
