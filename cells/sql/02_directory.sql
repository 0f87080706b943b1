/*
 * 02_directory.sql: which cell has each organisation, pool and node.
 *
 * Routers keep this directory; cells have a copy of table cell. One router
 * writes it, and the other routers subscribe to its publication. Every change
 * has a key; repeating a call with the same key changes nothing.
 */
CREATE TABLE gpucredit_cells.home (
	org text COLLATE "C" NOT NULL,
	cell text COLLATE "C" NOT NULL,
	epoch bigint NOT NULL,
	CONSTRAINT home_pkey PRIMARY KEY (org)
);
COMMENT ON TABLE gpucredit_cells.home IS
'The directory: the cell that each organisation''s calls go to';
COMMENT ON COLUMN gpucredit_cells.home.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit_cells.home.cell IS 'Its home.';
COMMENT ON COLUMN gpucredit_cells.home.epoch IS 'Grows with each move; the cell knows the same.';
SELECT pg_catalog.pg_extension_config_dump('gpucredit_cells.home', '');

CREATE TABLE gpucredit_cells.location (
	kind text NOT NULL,
	name text COLLATE "C" NOT NULL,
	cell text COLLATE "C" NOT NULL,
	CONSTRAINT location_pkey PRIMARY KEY (kind, name),
	CONSTRAINT location_kind CHECK (kind IN ('pool', 'node'))
);
COMMENT ON TABLE gpucredit_cells.location IS
'The directory: pools and nodes that are in one cell; a call for another pool goes to all cells';
COMMENT ON COLUMN gpucredit_cells.location.kind IS 'pool or node.';
COMMENT ON COLUMN gpucredit_cells.location.name IS 'The pool, or the node.';
COMMENT ON COLUMN gpucredit_cells.location.cell IS 'The cell.';
SELECT pg_catalog.pg_extension_config_dump('gpucredit_cells.location', '');

CREATE TABLE gpucredit_cells.change (
	key text COLLATE "C" NOT NULL,
	fingerprint bytea NOT NULL,
	at timestamptz NOT NULL,
	CONSTRAINT change_pkey PRIMARY KEY (key)
);
COMMENT ON TABLE gpucredit_cells.change IS
'Keys of calls that changed the directory, with their arguments'' fingerprints';
COMMENT ON COLUMN gpucredit_cells.change.key IS 'The caller''s idempotency key.';
COMMENT ON COLUMN gpucredit_cells.change.fingerprint IS 'A digest of function and arguments.';
COMMENT ON COLUMN gpucredit_cells.change.at IS 'When it was made.';
SELECT pg_catalog.pg_extension_config_dump('gpucredit_cells.change', '');

/*
 * A sequence is not rolled back, so no two attempts at a change have the same
 * epoch.
 */
CREATE SEQUENCE gpucredit_cells.epoch_seq;
SELECT pg_catalog.pg_extension_config_dump('gpucredit_cells.epoch_seq', '');

/*
 * Returns true if the key is new, and false if the same change was made
 * before.
 */
CREATE FUNCTION gpucredit_cells.is_new_change(key text, VARIADIC arguments text[])
RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	digest bytea := sha256(convert_to(arguments::text, 'UTF8'));
BEGIN
	IF key IS NULL OR key = '' OR octet_length(key) > 255
		OR array_position(arguments, NULL) IS NOT NULL
	THEN
		RAISE EXCEPTION 'an argument is null, or the key is too long'
			USING ERRCODE = '22023',
			DETAIL = 'A change of the directory has a key of at most 255 bytes.',
			HINT = 'Pass all arguments.';
	END IF;
	INSERT INTO gpucredit_cells.change AS c
	VALUES (is_new_change.key, digest, gpucredit.now())
	ON CONFLICT DO NOTHING;
	IF FOUND THEN
		RETURN true;
	END IF;
	IF (SELECT c.fingerprint <> digest FROM gpucredit_cells.change c
		WHERE c.key = is_new_change.key)
	THEN
		RAISE EXCEPTION 'key "%" was used with other arguments',
			gpucredit_internal.clip_for_message(is_new_change.key)
			USING ERRCODE = 'UC201',
			DETAIL = 'A key stands for one change of the directory.',
			HINT = 'Use a new key for a new change.';
	END IF;
	RETURN false;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.is_new_change(text, text[]) IS
'Internal: stores the key of a change; false if the same change was made before. Errors: UC201, 22023.';

CREATE FUNCTION gpucredit_cells.require_cell(cell text)
RETURNS gpucredit_cells.cell
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	called gpucredit_cells.cell;
BEGIN
	SELECT * INTO called FROM gpucredit_cells.cell c
	WHERE c.cell = require_cell.cell;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'cell "%" does not exist',
			gpucredit_internal.clip_for_message(coalesce(require_cell.cell, ''))
			USING ERRCODE = 'UC703',
			DETAIL = 'The directory has no such cell.',
			HINT = 'Add it with gpucredit_cells.set_cell().';
	END IF;
	RETURN called;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.require_cell(text) IS
'Internal: the cell; UC703 where there is none.';

/* Serializes the calls that change the directory. */
CREATE FUNCTION gpucredit_cells.lock_directory() RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT gpucredit_cells.lock_moving('');
END;
COMMENT ON FUNCTION gpucredit_cells.lock_directory() IS
'Internal: one change of the directory at a time.';

CREATE FUNCTION gpucredit_cells.set_cell(cell text, region text, dsn text,
	key text) RETURNS int
LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	given int;
BEGIN
	IF NOT gpucredit_cells.is_dsn(set_cell.dsn) THEN
		RAISE EXCEPTION 'the dsn of cell "%" is not where a server is',
			gpucredit_internal.clip_for_message(set_cell.cell)
			USING ERRCODE = '22023',
			DETAIL = 'It may have keywords as host, port, dbname and sslmode, with values without quotes, but no user, password, file of secrets, service or options.',
			HINT = 'Pass host=... port=... dbname=...';
	END IF;
	PERFORM gpucredit_cells.lock_directory();
	IF gpucredit_cells.is_new_change(set_cell.key, 'set_cell', set_cell.cell,
		set_cell.region, set_cell.dsn)
	THEN
		INSERT INTO gpucredit_cells.cell AS c (cell, number, region, dsn)
		VALUES (set_cell.cell, (SELECT count(*) FROM gpucredit_cells.cell),
			set_cell.region, set_cell.dsn)
		ON CONFLICT ON CONSTRAINT cell_pkey DO UPDATE
		SET region = excluded.region, dsn = excluded.dsn;
	END IF;
	SELECT c.number INTO given FROM gpucredit_cells.cell c
	WHERE c.cell = set_cell.cell;
	RETURN given;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.set_cell(text, text, text, text) IS
'Directory: adds a cell, or says where it is now, as after a failover. The dsn names host, port, dbname and how to trust the server, never a user or a secret.
Result: the cell''s number. Errors: UC201 key reused; 22023.';

CREATE FUNCTION gpucredit_cells.set_location(kind text, name text, cell text,
	key text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_cells.lock_directory();
	PERFORM gpucredit_cells.require_cell(set_location.cell);
	IF gpucredit_cells.is_new_change(set_location.key, 'set_location', set_location.kind,
		set_location.name, set_location.cell)
	THEN
		INSERT INTO gpucredit_cells.location AS l (kind, name, cell)
		VALUES (set_location.kind, set_location.name, set_location.cell)
		ON CONFLICT ON CONSTRAINT location_pkey DO UPDATE SET cell = excluded.cell;
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.set_location(text, text, text, text) IS
'Directory: says in which cell a pool or a node is (kind: pool or node).
Errors: UC703 no such cell; UC201 key reused; 22023; 23514 another kind.';

/*
 * Sets the home of an organisation, first in the cell. If an attempt fails in
 * between, the cell has an epoch that no router uses; repeating the call
 * corrects that.
 */
CREATE FUNCTION gpucredit_cells.set_home(org text, cell text, key text)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	other text;
	at gpucredit_cells.home;
BEGIN
	PERFORM gpucredit_cells.lock_directory();
	PERFORM gpucredit_cells.require_cell(set_home.cell);
	IF gpucredit_cells.is_new_change(set_home.key, 'set_home', set_home.org,
		set_home.cell)
	THEN
		SELECT * INTO at FROM gpucredit_cells.home h WHERE h.org = set_home.org;
		FOR other IN SELECT c.cell FROM gpucredit_cells.cell c
			WHERE c.cell <> set_home.cell ORDER BY 1
		LOOP
			IF at.cell = other OR gpucredit_cells.ask(other,
				format('SELECT gpucredit_cells.standing(%L)', set_home.org), gpucredit_cells.brief())
				IN ('home', 'moving')
			THEN
				RAISE EXCEPTION 'organisation "%" has its home in cell "%"',
					gpucredit_internal.clip_for_message(set_home.org), other
					USING ERRCODE = 'UC703',
					DETAIL = 'An organisation has one home.',
					HINT = 'Move it: CALL gpucredit_cells.move_org().';
			END IF;
		END LOOP;
		IF at.org IS NULL THEN
			at := ROW(set_home.org, set_home.cell,
				nextval('gpucredit_cells.epoch_seq'));
			PERFORM gpucredit_cells.ask(set_home.cell,
				format('SELECT gpucredit_cells.admit(%L, %s)::text', at.org, at.epoch),
				gpucredit_cells.brief());
			INSERT INTO gpucredit_cells.home SELECT at.*;
		END IF;
	END IF;
	RETURN (SELECT h.epoch FROM gpucredit_cells.home h
		WHERE h.org = set_home.org);
END
$$;
COMMENT ON FUNCTION gpucredit_cells.set_home(text, text, text) IS
'Directory: gives an organisation its home, before create_account(), or after the cell of an existing organisation joined.
Result: the epoch. Errors: UC703 no such cell, or it has another home; UC201 key reused; 08001 a cell cannot be asked; 22023.';

/*
 * Tells a caller where an organisation is, so that it can connect to that cell
 * straight instead of through a router. A cell answers for organisations whose
 * home it is itself.
 */
CREATE FUNCTION gpucredit_cells.find_home(org text, OUT cell text, OUT region text,
	OUT dsn text, OUT epoch bigint)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	SELECT c.cell, c.region, c.dsn, h.epoch
	INTO find_home.cell, find_home.region, find_home.dsn, find_home.epoch
	FROM (SELECT d.cell, d.epoch FROM gpucredit_cells.home d
			WHERE d.org = find_home.org
		UNION ALL
		SELECT s.cell, r.epoch FROM gpucredit_cells.resident r, gpucredit_cells.self s
			WHERE r.org = find_home.org AND r.state IN ('home', 'moving')) h
		JOIN gpucredit_cells.cell c ON c.cell = h.cell;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'the home of organisation "%" is not known here',
			gpucredit_internal.clip_for_message(coalesce(find_home.org, ''))
			USING ERRCODE = 'UC701',
			DETAIL = 'A router knows all homes, a cell only its own organisations.',
			HINT = 'Ask a router. A new organisation gets its home by set_home().';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.find_home(text) IS
'Cells: where an organisation has its home, for callers who connect to its cell straight, which saves the router''s time. Ask again when a call there ends with UC701, or with UC702 after a moment: the organisation has moved, or is moving; call again with the same key.
Result: dsn: host, port, dbname and how to trust the server, without user or secret. epoch: pass gpucredit_cells.at_home(org, epoch) in place of org to calls that only read, so that an old home refuses them, too.
Errors: UC701 no home is known here.';
