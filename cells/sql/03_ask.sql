/*
 * 03_ask.sql: calls from a cell or a router to another cell.
 *
 * A cell that hangs accepts a connection or a statement and never answers, so
 * every call has a time limit. A caller that gives up closes its connection,
 * and the cell cancels what it did for the call:
 * client_connection_check_interval.
 */
/*
 * Returns the functions of dblink that PUBLIC may call. There must be none: a
 * connection of dblink belongs to the session, which could use it after the
 * call that opened it, even if that call was cancelled. Therefore nobody
 * except a superuser may call dblink's functions in the database of a cell or
 * router; this extension's functions call them with their owner's rights.
 */
CREATE FUNCTION gpucredit_cells.open_dblink() RETURNS TABLE (function regprocedure)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT p.oid::regprocedure
	FROM pg_extension e
		JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid
			AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
		JOIN pg_proc p ON p.oid = d.objid
	WHERE e.extname = 'dblink' AND EXISTS (
		SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
		WHERE a.grantee = 0);
END;
COMMENT ON FUNCTION gpucredit_cells.open_dblink() IS
'Internal: the functions of dblink that PUBLIC may call.';

CREATE FUNCTION gpucredit_cells.close_dblink() RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	function regprocedure;
BEGIN
	FOR function IN SELECT o.function FROM gpucredit_cells.open_dblink() o LOOP
		EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', function);
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.close_dblink() IS
'Internal: takes the functions of dblink from PUBLIC.';
SELECT gpucredit_cells.close_dblink();

/*
 * Returns the qualified name of a function of dblink, which may be in any
 * schema.
 */
CREATE FUNCTION gpucredit_cells.dblink(name text) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT format('%I.%I', n.nspname, 'dblink_' || dblink.name)
	FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
	WHERE e.extname = 'dblink';
END;
COMMENT ON FUNCTION gpucredit_cells.dblink(text) IS
'Internal: a function of dblink, with its schema.';

CREATE FUNCTION gpucredit_cells.patience() RETURNS interval
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(nullif(current_setting('gpucredit_cells.patience', true), ''),
		'10 min')::interval;
END;
COMMENT ON FUNCTION gpucredit_cells.patience() IS
'Internal: how long a step of a move in another cell may take: gpucredit_cells.patience, 10 minutes if it is not set.';

CREATE FUNCTION gpucredit_cells.brief() RETURNS interval
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT greatest(gpucredit_cells.patience() / 10, '5 s');
END;
COMMENT ON FUNCTION gpucredit_cells.brief() IS
'Internal: how long a step may take while others wait for it: a tenth of that, and at least 5 seconds.';

CREATE FUNCTION gpucredit_cells.set_alarm(ms int) RETURNS void
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'gpucredit_cells_set_alarm';
COMMENT ON FUNCTION gpucredit_cells.set_alarm(int) IS
'Internal: cancels the statement (57014) in so many ms; null: not any more.';

CREATE FUNCTION gpucredit_cells.connect(link text, cell text, login text,
	patience interval) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	seconds CONSTANT int := greatest(2, ceil(extract(epoch FROM patience)));
	over CONSTANT timestamptz := clock_timestamp() + make_interval(secs => seconds);
BEGIN
	/* The alarm is needed for servers whose dblink has no timeout. */
	PERFORM gpucredit_cells.set_alarm(seconds * 1000 + 500);
	EXECUTE format('SELECT %s($1, $2)', gpucredit_cells.dblink('connect'))
	USING link, format('%s user=%L application_name=gpucredit_cells'
		' connect_timeout=%s keepalives_idle=10 keepalives_interval=5'
		' keepalives_count=3 tcp_user_timeout=30000',
		(gpucredit_cells.require_cell(cell)).dsn, login, seconds);
	PERFORM gpucredit_cells.set_alarm(NULL);
EXCEPTION
	WHEN query_canceled THEN
		PERFORM gpucredit_cells.set_alarm(NULL);
		IF clock_timestamp() < over THEN
			RAISE;				/* the caller's own cancel */
		END IF;
		RAISE EXCEPTION 'cell "%" has not accepted a connection for % seconds', cell, seconds
			USING ERRCODE = 'connection_failure',
			DETAIL = 'Its server accepts the TCP connection and does not answer.',
			HINT = 'See whether it hangs. Call again with the same key.';
	WHEN OTHERS THEN
		PERFORM gpucredit_cells.set_alarm(NULL);
		RAISE;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.connect(text, text, text, interval) IS
'Internal: a connection to a cell as a login.';

CREATE FUNCTION gpucredit_cells.connect_peer(cell text, patience interval)
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	link CONSTANT text := 'gpucredit_cells ' || connect_peer.cell;
BEGIN
	PERFORM gpucredit_cells.connect(link, cell, 'gpucredit_peer', patience);
	RETURN link;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.connect_peer(text, interval) IS
'Internal: a connection to a cell as gpucredit_peer.';

CREATE FUNCTION gpucredit_cells.disconnect(link text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	EXECUTE format('SELECT %s($1) WHERE $1 = ANY (%s())',
		gpucredit_cells.dblink('disconnect'),
		gpucredit_cells.dblink('get_connections')) USING link;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.disconnect(text) IS
'Internal: ends a connection, if there is one; what is open there is rolled back.';

CREATE FUNCTION gpucredit_cells.end_result(link text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	EXECUTE format('SELECT FROM %s($1) AS t (r text)',
		gpucredit_cells.dblink('get_result')) USING link;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.end_result(text) IS
'Internal: reads that an answer is over, so that another query may follow.';

CREATE FUNCTION gpucredit_cells.answer(link text, patience interval) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	until CONSTANT timestamptz := clock_timestamp() + patience;
	is_busy CONSTANT text := format('SELECT %s($1)', gpucredit_cells.dblink('is_busy'));
	nap float8 := 0.0002;
	busy int;
	result text;
BEGIN
	LOOP
		EXECUTE is_busy INTO busy USING link;
		EXIT WHEN busy = 0;
		IF clock_timestamp() > until THEN
			RAISE EXCEPTION 'cell "%" has not answered for %', substr(link, 17), patience
				USING ERRCODE = 'connection_failure',
				DETAIL = 'Whether the cell carries the statement out is not known here.',
				HINT = 'See whether it hangs. Call again with the same key, with more patience if the cell has much to do.';
		END IF;
		PERFORM pg_sleep(nap);
		nap := least(nap * 1.5, 0.01);
	END LOOP;
	BEGIN
		EXECUTE format('SELECT r FROM %s($1) AS t (r text)',
			gpucredit_cells.dblink('get_result')) INTO result USING link;
	EXCEPTION WHEN OTHERS THEN
		PERFORM gpucredit_cells.end_result(link);
		RAISE;
	END;
	PERFORM gpucredit_cells.end_result(link);
	RETURN result;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.answer(text, interval) IS
'Internal: the answer to a query that was sent. Errors: 08006 it takes too long; those of the query.';

CREATE FUNCTION gpucredit_cells.send_query(link text, query text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	EXECUTE format('SELECT %s($1, $2)', gpucredit_cells.dblink('send_query'))
	USING link, query;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.send_query(text, text) IS
'Internal: sends a query, whose answer() is to follow.';

CREATE FUNCTION gpucredit_cells.ask_in_time(link text, query text, patience interval)
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_cells.send_query(link, query);
	RETURN gpucredit_cells.answer(link, patience);
END
$$;
COMMENT ON FUNCTION gpucredit_cells.ask_in_time(text, text, interval) IS
'Internal: what a query says in another cell, unless it takes too long.';

/*
 * Runs a statement in a cell as gpucredit_mover, which may do there what
 * set_home() and move_org() need, and is not a superuser. The connection stays
 * open for the session, and the other cell applies the same time limit to the
 * cells that it calls.
 */
CREATE FUNCTION gpucredit_cells.ask(cell text, statement text,
	patience interval DEFAULT gpucredit_cells.patience()) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	link CONSTANT text := 'gpucredit_cells.' || ask.cell;
	open text[];
BEGIN
	EXECUTE format('SELECT %s()', gpucredit_cells.dblink('get_connections')) INTO open;
	IF (link = ANY (open)) IS NOT TRUE THEN
		PERFORM gpucredit_cells.connect(link, cell, 'gpucredit_mover', least(patience, '10 s'));
		PERFORM gpucredit_cells.ask_in_time(link, format(
			'SELECT set_config(''client_connection_check_interval'', ''2s'', false)'
			' || set_config(''gpucredit_cells.patience'', %L, false)',
			gpucredit_cells.patience()), patience);
	END IF;
	RETURN gpucredit_cells.ask_in_time(link, statement, patience);
EXCEPTION WHEN connection_exception OR sqlclient_unable_to_establish_sqlconnection
	OR connection_failure OR admin_shutdown OR crash_shutdown OR cannot_connect_now
	OR query_canceled THEN
	PERFORM gpucredit_cells.hang_up(ask.cell);
	RAISE;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.ask(text, text, interval) IS
'Internal: runs a statement of one column in another cell, in a transaction of its own there unless one is open, and returns the first row''s text.
Errors: 08006 the cell cannot be asked, or takes too long; those of the statement.';

CREATE FUNCTION gpucredit_cells.hang_up(cell text) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT gpucredit_cells.disconnect('gpucredit_cells.' || hang_up.cell);
END;
COMMENT ON FUNCTION gpucredit_cells.hang_up(text) IS
'Internal: ends the session''s connection to a cell; what is open there is rolled back.';
