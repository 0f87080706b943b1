/*
 * 10_router.sql: gpucredit's functions in a router.
 *
 * make_router() replaces the body of each public function by one that finds
 * the cell and calls the function there through PL/Proxy. Names, arguments,
 * defaults, results, comments and grants stay as gpucredit created them. A
 * function that PL/Proxy runs is in schema gpucredit_proxy, which no login may
 * use. Bodies in PL/pgSQL call it through a function of the same name in
 * schema gpucredit_remote.
 *
 * The cell executes the call as the session's role (04_caller.sql). Each call
 * is a separate transaction in its cell.
 */
CREATE FUNCTION gpucredit_cells.home_of(org text, OUT number int, OUT epoch bigint)
LANGUAGE c STABLE PARALLEL UNSAFE COST 1
AS 'MODULE_PATHNAME', 'gpucredit_cells_home_of';
COMMENT ON FUNCTION gpucredit_cells.home_of(text) IS
'Router: which cell answers for an organisation, and at which epoch; the first cell, without an epoch, where it has no home.
Errors: 42501 inside a SECURITY DEFINER function.';

CREATE FUNCTION gpucredit_cells.location_of(kind text, name text) RETURNS int
LANGUAGE c STABLE PARALLEL UNSAFE COST 1
AS 'MODULE_PATHNAME', 'gpucredit_cells_location_of';
COMMENT ON FUNCTION gpucredit_cells.location_of(text, text) IS
'Router: in which cell a pool or node is; null: the directory does not say.
Errors: 42501 inside a SECURITY DEFINER function.';

CREATE FUNCTION gpucredit_cells.reconnect(number int) RETURNS void
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'gpucredit_cells_reconnect';
COMMENT ON FUNCTION gpucredit_cells.reconnect(int) IS
'Router: connects to a cell again after a call that failed, and says who calls.';

CREATE FUNCTION gpucredit_cells.was_introduced(number int) RETURNS boolean
LANGUAGE c VOLATILE PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'gpucredit_cells_was_introduced';
COMMENT ON FUNCTION gpucredit_cells.was_introduced(int) IS
'Router: did the last call to a cell rely on what an earlier one had said of the caller? null: to any cell.';

CREATE FUNCTION gpucredit_cells.check_caller() RETURNS void
LANGUAGE c STABLE PARALLEL UNSAFE COST 1
AS 'MODULE_PATHNAME', 'gpucredit_cells_check_caller';
COMMENT ON FUNCTION gpucredit_cells.check_caller() IS
'Router: refuses a call from inside a SECURITY DEFINER function (42501).';

/*
 * Handles an error of a cell. PL/Proxy puts a prefix before the message, the
 * detail and the hint, which this function removes. PL/Proxy also drops the
 * connection, and would warn the client about that in the next call.
 */
CREATE FUNCTION gpucredit_cells.try_again(state text, message text,
	detail text, hint text, number int, epoch bigint, tries int) RETURNS int
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET client_min_messages = error
AS $$
DECLARE
	is_remote CONSTANT boolean := message LIKE 'gpucredit\_proxy.%] REMOTE %';
BEGIN
	IF state = '57014' THEN		/* cancelled in the router */
		RAISE EXCEPTION USING ERRCODE = state, MESSAGE = message;
	END IF;
	/*
	 * The cell had closed the connection, so the new one has no role yet; or a
	 * cancel of an earlier statement arrived late.
	 */
	IF tries < 3 AND is_remote AND (state = '42501' AND gpucredit_cells.was_introduced(number)
		OR state = 'UC706' AND message LIKE 'gpucredit\_proxy.act\_as%')
	THEN
		RETURN tries + 1;
	END IF;
	IF state = 'UC706' THEN		/* cancelled in the cell (src/proxy.c) */
		state := '57014';
	END IF;
	IF number IS NOT NULL AND is_remote THEN
		BEGIN
			PERFORM gpucredit_cells.reconnect(number);
		EXCEPTION WHEN OTHERS THEN
			NULL;				/* the first error is reported instead */
		END;
	END IF;
	IF (state = 'UC702' OR state = 'UC701' AND epoch IS NOT NULL) AND tries < 400 THEN
		PERFORM pg_sleep(least(0.005 * (tries + 1), 0.05));
		RETURN tries + 1;
	END IF;
	IF state = 'XX000' AND starts_with(message, 'PL/Proxy function ') THEN
		state := '08006';
		message := regexp_replace(message, '^[^:]*: ', '');
		detail := 'Whether the cell carried the call out is not known here.';
		hint := 'Call again, with the same key.';
	END IF;
	message := regexp_replace(message,
		'^gpucredit_proxy\.[^ ]*\(\d+\): \[[^]]*\] REMOTE [A-Z]+: ', '');
	detail := regexp_replace(detail, '^Remote detail: ', '');
	hint := regexp_replace(hint, '^Remote hint: ', '');
	IF detail <> '' AND hint <> '' THEN
		RAISE EXCEPTION USING ERRCODE = state, MESSAGE = message, DETAIL = detail, HINT = hint;
	ELSIF detail <> '' THEN
		RAISE EXCEPTION USING ERRCODE = state, MESSAGE = message, DETAIL = detail;
	ELSIF hint <> '' THEN
		RAISE EXCEPTION USING ERRCODE = state, MESSAGE = message, HINT = hint;
	END IF;
	RAISE EXCEPTION USING ERRCODE = state, MESSAGE = message;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.try_again(text, text, text, text, int, bigint, int) IS
'Router: waits where the organisation is moving or has moved, and counts; raises any other error as the cell did, and these after some 20 seconds; 08006 where the answer is lost.';

/* The routed functions of gpucredit, and the route of each. */
CREATE FUNCTION gpucredit_cells.routes()
RETURNS TABLE (function regprocedure, route text, name text)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT p.oid::regprocedure,
		CASE
			WHEN p.proname IN ('set_price', 'set_resource_price', 'set_tier', 'set_retry_rule', 'set_lost_work', 'set_idle_limit') THEN 'publisher'
			WHEN p.proname = 'meter_batch' THEN 'batch'
			WHEN p.proname = 'metrics_text' THEN 'text'
			WHEN p.proname = 'audit_proof' THEN 'entry'
			WHEN 'org' = ANY (p.proargnames) THEN 'org'
			WHEN p.proname = 'heartbeat' THEN 'heartbeat'
			WHEN 'node' = ANY (p.proargnames) THEN 'node'
			WHEN 'nodes' = ANY (p.proargnames) THEN 'nodes'
			WHEN p.proargnames[1] = 'pool' THEN 'pool'
			ELSE 'all'
		END,
		p.proname || CASE WHEN 'nodes' = ANY (p.proargnames) THEN '_nodes' ELSE '' END
	FROM pg_proc p
	WHERE p.pronamespace = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = 'gpucredit')
		AND p.prokind = 'f' AND p.provolatile <> 'i' AND p.proname NOT IN ('now', 'uninstall')
	ORDER BY p.proname, p.oid;
END;
COMMENT ON FUNCTION gpucredit_cells.routes() IS
'The public functions that depend on stored rows, and how a router sends each: by org, node, pool or to all cells; publisher is the first cell.';

/*
 * Returns the query that merges the rows of all cells into one result; its %s
 * stands for those rows. Returns NULL if the rows are returned as they are.
 */
CREATE FUNCTION gpucredit_cells.merging(name text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE
		WHEN name IN ('reap_holds', 'check_nodes', 'end_tenant_transactions', 'seal_audit',
			'maintain', 'upkeep', 'check_books', 'expire_credits')
		THEN 'SELECT r.task, pg_catalog.sum(r.affected)::bigint FROM %s r GROUP BY r.task ORDER BY r.task'
		WHEN name IN ('install_jobs', 'remove_jobs')
		THEN 'SELECT pg_catalog.sum(r)::int FROM %s r'
		WHEN name = 'audit_before' THEN 'SELECT pg_catalog.max(r) FROM %s r'
		/*
		 * It is one key space, unless a login's grants differ between cells.
		 */
		WHEN name = 'key_space'
		THEN $m$SELECT pg_catalog.string_agg(DISTINCT r, ', ') FROM %s r$m$
		WHEN name = 'place' THEN 'SELECT r.* FROM %s r'
		WHEN name IN ('top_spenders', 'top_jobs')
		THEN (SELECT 'SELECT ' || string_agg(CASE a.attname WHEN 'rank'
				THEN format('(row_number() OVER w)::%s', format_type(a.atttypid, NULL))
				ELSE 'r.' || quote_ident(a.attname) END, ', ' ORDER BY a.attnum)
				|| ' FROM %s r WINDOW w AS (ORDER BY r.net DESC, r.organisation, r.account)'
				' ORDER BY 1 LIMIT $2'
			FROM pg_attribute a
			WHERE a.attrelid = (SELECT t.typrelid FROM pg_type t
				WHERE t.oid = to_regtype('gpucredit.' || name || '_result'))
				AND a.attnum > 0)
		WHEN name = 'queue' THEN 'SELECT r.* FROM %s r ORDER BY r.waits DESC LIMIT $2'
		WHEN name = 'burn_rate' THEN 'SELECT r.* FROM %s r ORDER BY r.days_left LIMIT $1'
		WHEN name = 'recent_events' THEN 'SELECT r.* FROM %s r ORDER BY r.latest DESC'
		ELSE 'SELECT r.* FROM %s r'
	END;
END;
COMMENT ON FUNCTION gpucredit_cells.merging(text) IS
'Internal: the statement that makes one answer of the rows of all cells.';

/*
 * Returns the columns to select from a function's rows: those that this router
 * knows, because a cell that was upgraded first may return more.
 */
CREATE FUNCTION gpucredit_cells.columns_of(type regtype) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum), '*')
	FROM pg_type t JOIN pg_attribute a ON a.attrelid = t.typrelid
	WHERE t.oid = columns_of.type AND t.typtype = 'c' AND a.attnum > 0
		AND NOT a.attisdropped;
END;
COMMENT ON FUNCTION gpucredit_cells.columns_of(regtype) IS
'Internal: the columns of a composite type; of another one, *.';

/*
 * Creates the function by which a body in PL/pgSQL calls one that PL/Proxy
 * runs.
 */
CREATE FUNCTION gpucredit_cells.make_caller(name text, arguments text,
	result text, in_all boolean) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	EXECUTE format('CREATE FUNCTION gpucredit_remote.%I(%s) %s'
		' LANGUAGE c VOLATILE PARALLEL UNSAFE AS ''$libdir/gpucredit_cells'', %L',
		name, arguments, result, CASE WHEN in_all THEN 'gpucredit_cells_remote_all'
			ELSE 'gpucredit_cells_remote' END);
END
$$;
COMMENT ON FUNCTION gpucredit_cells.make_caller(text, text, text, boolean) IS
'Internal: makes the function of schema gpucredit_remote that calls the one of the same name in gpucredit_proxy.';

/* Creates the function that PL/Proxy runs, in one cell or in all. */
CREATE FUNCTION gpucredit_cells.make_remote(function regprocedure, name text,
	in_all boolean, is_short boolean) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	p pg_proc := (SELECT q FROM pg_proc q WHERE q.oid = function);
	types text[] := ARRAY(SELECT format_type(t.type, NULL)
		FROM unnest(p.proargtypes) WITH ORDINALITY t (type, i) ORDER BY t.i);
	result text := CASE p.prorettype WHEN 'void'::regtype THEN 'int'
		ELSE format_type(p.prorettype, NULL) END;
	arguments text := (SELECT string_agg(CASE WHEN p.proargnames[a.i] = 'org'
			AND NOT in_all THEN format('gpucredit_cells.at_home(a%s, gc_epoch)', a.i)
			ELSE format('a%s', a.i) END, ', ' ORDER BY a.i)
		FROM unnest(types) WITH ORDINALITY a (type, i));
	called text := format('gpucredit.%I(%s)', p.proname, arguments);
	full_name text := name || CASE WHEN in_all THEN '_all' ELSE '' END;
	parameters text := concat_ws(', ',
		CASE WHEN NOT in_all THEN 'gc_number int, gc_epoch bigint' END,
		(SELECT string_agg(format('a%s %s', a.i, a.type), ', ' ORDER BY a.i)
			FROM unnest(types) WITH ORDINALITY a (type, i)));
	returns text := 'RETURNS ' || CASE WHEN p.proretset OR in_all THEN 'SETOF '
		ELSE '' END || result;
BEGIN
	IF NOT is_short THEN
		PERFORM gpucredit_cells.make_caller(full_name, parameters, returns, in_all);
	END IF;
	EXECUTE format($f$
		CREATE FUNCTION gpucredit_proxy.%I(%s)
		%s LANGUAGE plproxy VOLATILE AS $b$
			CLUSTER 'gpucredit_cells';
			RUN ON %s;
			SELECT %s;
		$b$ $f$,
		full_name, parameters, returns,
		CASE WHEN in_all THEN 'ALL' ELSE 'gc_number' END,
		CASE WHEN p.prorettype = 'void'::regtype THEN '1 FROM ' || called
			WHEN p.proname = 'metric_samples' THEN
				$m$m.family, m.name, m.type, m.labels || pg_catalog.jsonb_build_object('cell',
				(SELECT gpucredit_cells.here())) AS labels, m.value, m.help FROM $m$
				|| called || ' m'
			ELSE format('%s FROM %s', gpucredit_cells.columns_of(p.prorettype), called) END);
END
$$;
COMMENT ON FUNCTION gpucredit_cells.make_remote(regprocedure, text, boolean, boolean) IS
'Internal: makes the function of schema gpucredit_proxy that runs another in a cell, and the one that calls it, unless it is called from C.';
