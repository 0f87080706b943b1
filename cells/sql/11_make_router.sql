/*
 * 11_make_router.sql: the bodies of a router's functions.
 */

/* Returns the statements between BEGIN and EXCEPTION, for each route. */
CREATE FUNCTION gpucredit_cells.route_body(function regprocedure, route text,
	name text) RETURNS text
LANGUAGE plpgsql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	p pg_proc := (SELECT q FROM pg_proc q WHERE q.oid = function);
	parameters text := (SELECT string_agg('$' || i, ', ' ORDER BY i)
		FROM generate_series(1, p.pronargs) i);
	one text := format('gpucredit_remote.%I(%s)', name,
		concat_ws(', ', 'gc_number', 'gc_epoch', parameters));
	every text := format('gpucredit_remote.%I(%s)', name || '_all',
		coalesce(parameters, ''));
	composite boolean := p.prorettype IN (SELECT t.oid FROM pg_type t
		WHERE t.typtype = 'c');
	call_one text := CASE
		WHEN p.prorettype = 'void'::regtype THEN format('PERFORM %s; RETURN;', one)
		WHEN p.proretset THEN format('RETURN QUERY SELECT * FROM %s; RETURN;', one)
		ELSE format('RETURN %s;', one) END;
	call_all text := CASE
		WHEN p.prorettype = 'void'::regtype THEN format('PERFORM %s; RETURN;', every)
		WHEN p.proretset THEN format('RETURN QUERY %s; RETURN;',
			format(gpucredit_cells.merging(p.proname), every))
		ELSE format('RETURN (SELECT %s FROM (%s) m);',
			CASE WHEN composite THEN 'm::' || format_type(p.prorettype, NULL)
				ELSE 'm.*' END,
			format(gpucredit_cells.merging(p.proname), every)) END;
	position int := array_position(p.proargnames, CASE route WHEN 'pool' THEN 'pool'
		WHEN 'node' THEN 'node' WHEN 'heartbeat' THEN 'node' WHEN 'org' THEN 'org' END);
BEGIN
	CASE route
		WHEN 'org' THEN
			RETURN CASE WHEN p.pronargdefaults = p.pronargs AND p.proretset
					AND position = 1
				THEN format('IF $1 IS NULL THEN PERFORM gpucredit_cells.check_caller(); %s END IF; ',
					call_all) ELSE '' END
				|| format('SELECT h.number, h.epoch INTO gc_number, gc_epoch'
					' FROM gpucredit_cells.home_of($%s) h; %s', position, call_one);
		WHEN 'publisher' THEN
			RETURN 'PERFORM gpucredit_cells.check_caller(); gc_number := 0; ' || call_one;
		WHEN 'entry' THEN
			RETURN 'PERFORM gpucredit_cells.check_caller(); gc_number := $1 % 1000; ' || call_one;
		WHEN 'pool' THEN
			RETURN format('gc_number := gpucredit_cells.location_of(''pool'', $%s);'
				' IF gc_number IS NOT NULL THEN %s END IF; %s', position, call_one, call_all);
		WHEN 'node' THEN
			RETURN format('gc_number := coalesce(gpucredit_cells.location_of(''node'', $%s), %s); %s',
				position, CASE WHEN p.proname = 'register_node'
					THEN 'gpucredit_cells.location_of(''pool'', $1), gpucredit_cells.cell_for_node($2)'
					ELSE format('gpucredit_cells.cell_of_node($%s)', position) END, call_one);
		WHEN 'heartbeat' THEN
			RETURN format('gc_number := coalesce(gpucredit_cells.location_of(''node'', $1),'
				' gpucredit_cells.cell_of_node($1)); RETURN QUERY SELECT r.*'
				' FROM (SELECT gc_number AS n UNION ALL SELECT v.number'
				' FROM gpucredit_cells.visited($1) v) c, LATERAL %s r'
				' WHERE gpucredit_cells.speaks_for(c.n, r.org); RETURN;',
				replace(one, 'gc_number', 'c.n'));
		WHEN 'nodes' THEN
			RETURN format('FOR gc_number, gc_nodes IN SELECT coalesce('
				'gpucredit_cells.location_of(''node'', n), gpucredit_cells.cell_of_node(n)),'
				' pg_catalog.array_agg(n) FROM pg_catalog.unnest($1) n GROUP BY 1'
				' LOOP PERFORM gpucredit_remote.%I(gc_number, NULL, gc_nodes, $2); END LOOP; RETURN;',
				name);
		WHEN 'batch' THEN			/* most agents' batches concern one
									 * organisation */
			RETURN 'PERFORM gpucredit_cells.check_caller();'
				' IF $1 IS NULL OR pg_catalog.cardinality($1) = 0'
				' OR NOT gpucredit_cells.same_length($1, $2, $3, $4, $5, $6) THEN'
				' gc_number := 0; RETURN QUERY SELECT * FROM gpucredit_remote.meter_batch'
				'(0, $1, NULL, NULL, $2, $3, $4, $5, $6); RETURN; END IF;'
				' IF $1[1] = ALL ($1) THEN SELECT h.number, h.epoch INTO gc_number, gc_epoch'
				' FROM gpucredit_cells.home_of($1[1]) h; RETURN QUERY SELECT *'
				' FROM gpucredit_remote.meter_batch(gc_number, $1, $1[1:1], ARRAY[gc_epoch],'
				' $2, $3, $4, $5, $6); RETURN; END IF;'
				' gc_epoch := 0; RETURN QUERY SELECT r.* FROM gpucredit_cells.meter_batch($1, $2, $3, $4, $5, $6) r ORDER BY r.ordinal; RETURN;';
		WHEN 'text' THEN
			RETURN 'RETURN gpucredit_cells.text_of_metrics((SELECT pg_catalog.array_agg(m)'
				' FROM gpucredit.metric_samples() m));';
		ELSE
			RETURN 'PERFORM gpucredit_cells.check_caller(); ' || call_all;
	END CASE;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.route_body(regprocedure, text, text) IS
'Internal: what a router''s function does, by its route.';

CREATE FUNCTION gpucredit_cells.make_router() RETURNS int
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	roles text := 'gpucredit_admin, gpucredit_operator, gpucredit_app,'
		' gpucredit_agent, gpucredit_auditor, gpucredit_tenant, pg_monitor';
	r record;
	n int := 0;
BEGIN
	IF EXISTS (SELECT FROM gpucredit_cells.self) THEN
		RAISE EXCEPTION 'this database is a cell'
			USING ERRCODE = '55000',
			DETAIL = 'A router has no organisations, pools and nodes.',
			HINT = 'Make the router in a database of its own.';
	END IF;
	PERFORM gpucredit_cells.make_server();
	PERFORM gpucredit_cells.close_server();
	EXECUTE 'DROP SCHEMA IF EXISTS gpucredit_remote CASCADE';
	EXECUTE 'DROP SCHEMA IF EXISTS gpucredit_proxy CASCADE';
	EXECUTE 'CREATE SCHEMA gpucredit_remote';
	EXECUTE 'CREATE SCHEMA gpucredit_proxy';	/* only the extension may use
												 * it */
	FOR r IN
		SELECT c.*, q.proname,
			CASE q.provolatile WHEN 's' THEN 'STABLE' ELSE 'VOLATILE' END AS volatility,
			/*
			 * a call that always goes to one home is routed in C (src/route.c)
			 */
			c.route = 'org' AND q.proargnames[1] = 'org'
				AND NOT (q.proretset AND (q.pronargdefaults = q.pronargs
					OR t.typtype <> 'c')) AS is_short,
			pg_get_function_arguments(q.oid) AS arguments,
			pg_get_function_result(q.oid) AS result
		FROM gpucredit_cells.routes() c JOIN pg_proc q ON q.oid = c.function
			JOIN pg_type t ON t.oid = q.prorettype
	LOOP
		n := n + 1;
		IF r.route = 'batch' THEN
			PERFORM gpucredit_cells.make_remote_batch();
		ELSIF r.route <> 'text' THEN
			PERFORM gpucredit_cells.make_remote(r.function, r.name, false, r.is_short);
			IF r.route IN ('pool', 'all') OR r.name IN ('verify', 'top_spenders', 'top_jobs') THEN
				PERFORM gpucredit_cells.make_remote(r.function, r.name, true, false);
			END IF;
		END IF;
		IF r.is_short THEN
			EXECUTE format($f$
				CREATE OR REPLACE FUNCTION gpucredit.%I(%s) RETURNS %s
				LANGUAGE c %s SECURITY INVOKER PARALLEL UNSAFE
				AS '$libdir/gpucredit_cells', 'gpucredit_cells_route'
				$f$, r.proname, r.arguments, r.result, r.volatility);
			CONTINUE;
		END IF;
		EXECUTE format($f$
			CREATE OR REPLACE FUNCTION gpucredit.%I(%s) RETURNS %s
			LANGUAGE plpgsql %s SECURITY INVOKER PARALLEL UNSAFE AS $b$
			#variable_conflict use_column
			DECLARE
				gc_number int;
				gc_epoch bigint;
				gc_nodes text[];
				gc_tries int := 0;
				gc_message text;
				gc_detail text;
				gc_hint text;
			BEGIN
				LOOP
					BEGIN
						%s
					EXCEPTION WHEN OTHERS OR query_canceled THEN
						GET STACKED DIAGNOSTICS gc_message = MESSAGE_TEXT,
							gc_detail = PG_EXCEPTION_DETAIL, gc_hint = PG_EXCEPTION_HINT;
						gc_tries := gpucredit_cells.try_again(SQLSTATE, gc_message,
							gc_detail, gc_hint, gc_number, gc_epoch, gc_tries);
					END;
				END LOOP;
			END
			$b$ $f$, r.proname, r.arguments, r.result,
			r.volatility,
			gpucredit_cells.route_body(r.function, r.route, r.name));
	END LOOP;

	/*
	 * A SELECT from a router's empty table would return no rows; without the
	 * right it raises an error.
	 */
	EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA gpucredit FROM %s', roles);
	EXECUTE 'REVOKE ALL ON ALL ROUTINES IN SCHEMA gpucredit_remote, gpucredit_proxy FROM PUBLIC';
	EXECUTE format('GRANT USAGE ON SCHEMA gpucredit_remote TO %s', roles);
	EXECUTE format('GRANT USAGE ON SCHEMA gpucredit_cells TO %s', roles);
	EXECUTE format('GRANT EXECUTE ON ALL ROUTINES IN SCHEMA gpucredit_remote TO %s', roles);
	EXECUTE format('GRANT EXECUTE ON FUNCTION gpucredit_cells.home_of,'
		' gpucredit_cells.location_of, gpucredit_cells.check_caller,'
		' gpucredit_cells.reconnect, gpucredit_cells.was_introduced,'
		' gpucredit_cells.try_again TO %s', roles);
	/* Functions for calls about nodes, and for batches. */
	GRANT EXECUTE ON FUNCTION gpucredit_cells.cell_of_node,
		gpucredit_cells.cell_for_node, gpucredit_cells.visited,
		gpucredit_cells.speaks_for, gpucredit_cells.same_length,
		gpucredit_cells.meter_batch
	TO gpucredit_admin, gpucredit_operator, gpucredit_agent;
	GRANT EXECUTE ON FUNCTION gpucredit_cells.text_of_metrics
	TO gpucredit_admin, gpucredit_operator, gpucredit_auditor, pg_monitor;
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.make_router() IS
'Setup: makes this database a router, or makes its functions again, as after an upgrade or a restore. Needs the extension plproxy.
Result: how many functions there are. Errors: 55000 this database is a cell.';

/*
 * Creates the cluster of PL/Proxy: the cells by number, and the single mapping
 * by which the router connects to them. The mapping is for PUBLIC, so that it
 * applies whichever superuser owns the functions; without USAGE on the server
 * nobody else can use, see, create or change a mapping.
 */
CREATE FUNCTION gpucredit_cells.make_server() RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	had text[] := (SELECT s.srvoptions FROM pg_foreign_server s
		WHERE s.srvname = 'gpucredit_cells');
	wanted text[] := ARRAY(SELECT 'p' || c.number || '=' || c.dsn
		FROM gpucredit_cells.cell c ORDER BY c.number);
	options text;
BEGIN
	IF NOT EXISTS (SELECT FROM pg_extension e WHERE e.extname = 'plproxy')
		OR cardinality(wanted) = 0
	THEN
		RETURN;
	END IF;
	SELECT string_agg(format('%s p%s %L', CASE WHEN had IS NULL THEN ''
			WHEN EXISTS (SELECT FROM unnest(had) o WHERE starts_with(o, format('p%s=', c.number)))
			THEN 'SET' ELSE 'ADD' END, c.number, c.dsn), ', ')
	INTO options FROM gpucredit_cells.cell c;
	IF had IS NULL THEN
		EXECUTE format('CREATE SERVER gpucredit_cells FOREIGN DATA WRAPPER plproxy'
			' OPTIONS (modular_mapping ''1'', %s)', options);
	ELSIF NOT had @> wanted THEN
		EXECUTE format('ALTER SERVER gpucredit_cells OPTIONS (%s)', options);
	END IF;
	IF NOT EXISTS (SELECT FROM pg_user_mappings u
		WHERE u.srvname = 'gpucredit_cells' AND u.umuser = 0)
	THEN
		CREATE USER MAPPING FOR PUBLIC SERVER gpucredit_cells OPTIONS (user 'gpucredit_router');
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.make_server() IS
'Internal: gives PL/Proxy the cells that the directory has, and the mapping by which it connects.';

CREATE FUNCTION gpucredit_cells.close_server() RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	who text;
BEGIN
	FOR who IN
		SELECT DISTINCT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END
		FROM pg_foreign_server s, aclexplode(s.srvacl) a
		WHERE s.srvname = 'gpucredit_cells' AND a.grantee <> s.srvowner
	LOOP
		EXECUTE format('REVOKE ALL ON FOREIGN SERVER gpucredit_cells FROM %s CASCADE', who);
	END LOOP;
	FOR who IN
		SELECT u.umuser::regrole FROM pg_user_mappings u
		WHERE u.srvname = 'gpucredit_cells' AND u.umuser <> 0
	LOOP
		EXECUTE format('DROP USER MAPPING FOR %s SERVER gpucredit_cells', who);
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.close_server() IS
'Internal: takes every right on the server from others than its owner, and drops every mapping but the router''s.';
