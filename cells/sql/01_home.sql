/*
 * 01_home.sql: whose home this cell is.
 *
 * The cell decides by its own row of resident, never by what a router says.
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
'Trigger: refuses to change a row of an organisation whose home is elsewhere (UC501), or that is moving (UC502).';

CREATE FUNCTION gpucredit_cells.at_home(org text, epoch bigint) RETURNS text
LANGUAGE c VOLATILE PARALLEL UNSAFE COST 1
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_cells_at_home';
COMMENT ON FUNCTION gpucredit_cells.at_home(text, bigint) IS
'Internal: the organisation, if this cell is its home at that epoch. For routers'' calls.
Errors: UC501 its home is elsewhere, or the epoch is another; UC502 it is moving.';

CREATE FUNCTION gpucredit_cells.lock_moving(org text) RETURNS void
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'gpucredit_cells_lock_moving';
COMMENT ON FUNCTION gpucredit_cells.lock_moving(text) IS
'Internal: waits for every transaction that changed a row of the organisation, and keeps others away until this one ends.';
