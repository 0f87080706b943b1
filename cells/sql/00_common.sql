/*
 * 00_common.sql: the schema, and the identity of this database as a cell.
 *
 * The extension is created in each cell and in each router. A router also has
 * the tables of gpucredit, empty, for their types and for the signatures of
 * the functions.
 */
CREATE SCHEMA gpucredit_cells;
COMMENT ON SCHEMA gpucredit_cells IS
'gpucredit over several servers: directory, router, leases, moves';

SET LOCAL search_path = pg_catalog, pg_temp;

/*
 * Whether a text describes only where a cell is, and not as whom, with which
 * password or with which file to connect: a router adds its own user, and the
 * text must not override it.
 */
CREATE FUNCTION gpucredit_cells.is_dsn(dsn text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN dsn ~ ('^(\s*(host|hostaddr|port|dbname|sslmode|sslrootcert|sslcrl|sslcrldir'
	'|sslsni|sslnegotiation|ssl_min_protocol_version|channel_binding|require_auth'
	'|gssencmode|target_session_attrs|load_balance_hosts|connect_timeout'
	'|keepalives|keepalives_idle|keepalives_interval|keepalives_count'
	'|tcp_user_timeout)=[^\s''"\\=]+(\s+|$))+$');
COMMENT ON FUNCTION gpucredit_cells.is_dsn(text) IS
'Internal: does the text say where a server is, as keyword=value without quotes, and no user, password, file of secrets or option of the session?';

/*
 * The cells. A cell's number is part of the number of every job, hold and
 * bucket that the cell creates.
 */
CREATE TABLE gpucredit_cells.cell (
	cell text COLLATE "C" NOT NULL,
	number int NOT NULL,
	region text COLLATE "C" NOT NULL,
	dsn text NOT NULL,
	CONSTRAINT cell_pkey PRIMARY KEY (cell),
	CONSTRAINT cell_number_key UNIQUE (number),
	CONSTRAINT cell_number CHECK (number BETWEEN 0 AND 999),
	/* PL/Proxy uses one connection for all cells with the same text. */
	CONSTRAINT cell_dsn_key UNIQUE (dsn),
	CONSTRAINT cell_dsn CHECK (gpucredit_cells.is_dsn(dsn))
);
COMMENT ON TABLE gpucredit_cells.cell IS
'All cells: their numbers from 0, without gaps, and where each one is';
COMMENT ON COLUMN gpucredit_cells.cell.cell IS 'The cell''s name.';
COMMENT ON COLUMN gpucredit_cells.cell.number IS 'Its number; never given again.';
COMMENT ON COLUMN gpucredit_cells.cell.region IS 'Where it stands.';
COMMENT ON COLUMN gpucredit_cells.cell.dsn IS 'How to connect: host, port and dbname, without user and password.';
SELECT pg_catalog.pg_extension_config_dump('gpucredit_cells.cell', '');

/*
 * The name of this cell: one row in a cell, none in a router. There is no
 * foreign key, because a parallel restore loads tables in any order.
 */
CREATE TABLE gpucredit_cells.self (
	cell text COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX self_one ON gpucredit_cells.self ((true));
COMMENT ON TABLE gpucredit_cells.self IS
'Which cell this database is; no row: it is a router';
COMMENT ON COLUMN gpucredit_cells.self.cell IS 'The cell.';
SELECT pg_catalog.pg_extension_config_dump('gpucredit_cells.self', '');
