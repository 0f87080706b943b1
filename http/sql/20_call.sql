/*
 * 20_call.sql: calls any function of the public interface, by name and with
 * named arguments in JSON.
 *
 * Nothing here grants rights: the caller's role must be allowed to execute the
 * function. The argument names and types are read from the catalog, so a new
 * function can be called without any change here.
 */

/*
 * Returns the scope that a token needs to call a function. A function that is
 * not volatile changes nothing and needs "read". Some volatile functions are
 * listed with their scope; all others need "admin".
 */
CREATE FUNCTION gpucredit_http.scope_of(function regproc) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	changes boolean;
	name text;
BEGIN
	SELECT p.provolatile = 'v', n.nspname || '.' || p.proname INTO changes, name
	FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
	WHERE p.oid = scope_of.function;
	RETURN CASE
		WHEN NOT changes OR name IN ('gpucredit.now', 'gpucredit.metric_samples',
			'gpucredit.metrics_text', 'gpucredit.audit_proof', 'gpucredit.verify_audit') THEN 'read'
		WHEN name IN ('gpucredit_eval.label', 'gpucredit_eval.add_case_from',
			'gpucredit_eval.add_feedback') THEN 'label'
		WHEN name IN ('gpucredit.reserve', 'gpucredit.cancel', 'gpucredit.settle',
			'gpucredit.requeue_job', 'gpucredit.hold_job', 'gpucredit.release_job', 'gpucredit.log_wish',
			'gpucredit.store_file', 'gpucredit.signal_job', 'gpucredit.update_job') THEN 'submit'
		WHEN name IN ('gpucredit.hold', 'gpucredit.extend_hold', 'gpucredit.capture',
			'gpucredit.release') THEN 'spend'
		ELSE 'admin' END;
END
$$;
COMMENT ON FUNCTION gpucredit_http.scope_of(regproc) IS
'Internal: the least scope of a token that may call a function.';

CREATE FUNCTION gpucredit_http.includes(scope text, wanted text) RETURNS boolean
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT array_position('{read,label,submit,spend,admin}'::text[], includes.scope)
		>= array_position('{read,label,submit,spend,admin}'::text[], includes.wanted);
END;
COMMENT ON FUNCTION gpucredit_http.includes(text, text) IS
'Internal: whether a scope allows what another one does.';

/*
 * Returns the scope of this transaction's token. Outside of requests it is
 * "admin".
 */
CREATE FUNCTION gpucredit_http.scope() RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT coalesce(nullif(current_setting('gpucredit_http.scope', true), ''), 'admin');
END;
COMMENT ON FUNCTION gpucredit_http.scope() IS
'Internal: the scope of the token that this transaction is for.';

/*
 * The functions that can be called by name: ordinary functions with named
 * arguments of ordinary types. Operators, casts and the functions of types can
 * only be used in SQL. "short" is the name in an address, without the prefix
 * "gpucredit." or "gpucredit_".
 */
CREATE VIEW gpucredit_http.callable AS
SELECT CASE n.nspname WHEN 'gpucredit' THEN '' ELSE substr(n.nspname::text, 11) || '.' END
		|| p.proname AS short,
	p.oid AS function, n.nspname AS schema, p.proname AS name, p.proretset AS is_set,
	p.prorettype AS result, p.pronargs - p.pronargdefaults AS needed,
	p.proargtypes::oid[] AS types, p.pronargs AS arguments, p.proargnames AS names,
	p.proargmodes AS modes, p.proallargtypes AS all_types
FROM pg_catalog.pg_proc p
	JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE (n.nspname = 'gpucredit' OR n.nspname LIKE 'gpucredit\_%')
	AND n.nspname <> 'gpucredit_internal'
	AND p.prokind = 'f' AND p.provariadic = 0
	AND (p.pronargs = 0 OR (p.proargnames IS NOT NULL
			AND '' <> ALL (p.proargnames[1:p.pronargs])
			AND coalesce('i' = ALL (p.proargmodes[1:p.pronargs]), true)))
	AND NOT EXISTS (SELECT FROM unnest(p.proargtypes::oid[] || p.prorettype) AS u (type)
			JOIN pg_catalog.pg_type t ON t.oid = u.type
		WHERE t.typtype = 'p' AND t.typname NOT IN ('void', 'record'));
COMMENT ON VIEW gpucredit_http.callable IS
'Functions of gpucredit and its companions that a request may name, whoever may execute them';

/*
 * Returns the columns of a function's rows, or no row if the function returns
 * a single value.
 */
CREATE FUNCTION gpucredit_http.result_columns(f gpucredit_http.callable)
RETURNS TABLE (name text, type oid)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT a.attname::text, a.atttypid
	FROM pg_type t JOIN pg_attribute a ON a.attrelid = t.typrelid
	WHERE t.oid = (f).result AND t.typrelid <> 0 AND a.attnum > 0 AND NOT a.attisdropped
	UNION ALL
	SELECT o.name, o.type
	FROM unnest((f).names, (f).modes, (f).all_types) WITH ORDINALITY AS o (name, mode, type, n)
	WHERE o.mode IN ('o', 'b', 't') AND (f).result = 'record'::regtype;
END;
COMMENT ON FUNCTION gpucredit_http.result_columns(gpucredit_http.callable) IS
'Internal: the columns of a function''s rows, or none where it answers a single value.';

/*
 * Converts an expression for JSON: amounts become decimal strings, because a
 * client's numbers may be floats, and bytes become base64.
 */
CREATE FUNCTION gpucredit_http.as_json_type(expression text, type oid) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT CASE as_json_type.type
			WHEN 'numeric'::regtype THEN format('%s::pg_catalog.text', as_json_type.expression)
			WHEN 'numeric[]'::regtype THEN format('%s::pg_catalog.text[]', as_json_type.expression)
			WHEN 'bytea'::regtype THEN format('pg_catalog.replace(pg_catalog.encode(%s, ''base64''), pg_catalog.chr(10), '''')',
				as_json_type.expression)
			ELSE as_json_type.expression END;
END;
COMMENT ON FUNCTION gpucredit_http.as_json_type(text, oid) IS
'Internal: an expression of a type, as its JSON is made from it.';

/*
 * Returns the SQL of an argument: the member of that name in $1, converted to
 * the type. A single value may be given for an array.
 */
CREATE FUNCTION gpucredit_http.argument_sql(name text, type oid, value jsonb)
RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	is_array boolean := EXISTS (SELECT FROM pg_type t
		WHERE t.oid = argument_sql.type AND t.typsubscript = 'array_subscript_handler'::regproc
			AND t.typlen = -1);
	kind text := jsonb_typeof(argument_sql.value);
	target text := format_type(argument_sql.type, NULL);
BEGIN
	IF kind = 'null' THEN
		RETURN format('%I => NULL::%s', argument_sql.name, target);
	ELSIF argument_sql.type IN ('json'::regtype, 'jsonb'::regtype) THEN
		RETURN format('%I => ($1 OPERATOR(pg_catalog.->) %L)::%s', argument_sql.name,
			argument_sql.name, target);
	ELSIF is_array AND kind = 'array' THEN
		RETURN format('%I => ARRAY(SELECT pg_catalog.jsonb_array_elements_text($1 OPERATOR(pg_catalog.->) %L))::%s',
			argument_sql.name, argument_sql.name, target);
	ELSIF is_array AND kind <> 'object' THEN
		RETURN format('%I => ARRAY[$1 OPERATOR(pg_catalog.->>) %L]::%s', argument_sql.name,
			argument_sql.name, target);
	ELSIF kind IN ('object', 'array') THEN
		PERFORM gpucredit_http.refuse(format('"%s" is no %s', argument_sql.name, kind),
			format('Its type is %s.', target));
	END IF;
	RETURN format('%I => ($1 OPERATOR(pg_catalog.->>) %L)::%s', argument_sql.name,
		argument_sql.name, target);
END
$$;
COMMENT ON FUNCTION gpucredit_http.argument_sql(text, oid, jsonb) IS
'Internal: the SQL that passes one named argument, whose value is in $1 at call time. Errors: 22023 an object or array for a plain value.';

/*
 * Finds the function of this name that has all these arguments, and defaults
 * for all others.
 */
CREATE FUNCTION gpucredit_http.find_function(short text, arguments jsonb)
RETURNS gpucredit_http.callable
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	split text[] := regexp_match(find_function.short, '^(?:([a-z_]+)\.)?([a-z_0-9]+)$');
	given text[] := ARRAY(SELECT jsonb_object_keys(find_function.arguments));
	found_one gpucredit_http.callable;
	f gpucredit_http.callable;
	fits integer := 0;
	exists_one boolean := false;
	others text;			/* argument types of the best match so far */
BEGIN
	FOR f IN
		SELECT c.* FROM gpucredit_http.callable c
		WHERE c.name = split[2] AND c.schema = concat_ws('_', 'gpucredit', split[1])
	LOOP
		exists_one := true;
		IF others IS NULL OR given <@ f.names[1:f.arguments] THEN
			others := array_to_string(f.names[1:f.arguments], ', ');
		END IF;
		CONTINUE WHEN NOT (given <@ coalesce(f.names[1:f.arguments], '{}')
			AND f.names[1:f.needed] <@ given IS NOT FALSE);
		/*
		 * Of several overloads, prefer the one whose array arguments are given
		 * as arrays.
		 */
		CONTINUE WHEN fits > 0 AND NOT EXISTS (
			SELECT FROM unnest(f.names[1:f.arguments], f.types) AS a (name, type)
			WHERE jsonb_typeof(find_function.arguments -> a.name) = 'array'
				AND format_type(a.type, NULL) LIKE '%[]');
		found_one := f;
		fits := fits + 1;
	END LOOP;
	IF NOT exists_one THEN
		PERFORM gpucredit_http.raise('42883', 'there is no such function',
			format('It is "%s".', left(find_function.short, 64)),
			'GET /v1/openapi.json lists those that the token''s role may call.');
	ELSIF fits = 0 THEN
		PERFORM gpucredit_http.refuse(format('function "%s" has other arguments', find_function.short),
			format('Given are: %s. It has: %s.', coalesce(nullif(left(array_to_string(given, ', '), 500), ''), 'none'),
				coalesce(nullif(others, ''), 'none')),
			'Name each argument that has no default, and no others.');
	END IF;
	RETURN found_one;
END
$$;
COMMENT ON FUNCTION gpucredit_http.find_function(text, jsonb) IS
'Internal: the function that a request names, by its short name and the names of its arguments. Errors: 42883 no such function; 22023 other arguments.';

/*
 * Calls a function. A function that returns rows yields an array of objects,
 * limited to "most"; any other function yields one value or object.
 */
CREATE FUNCTION gpucredit_http.run(short text, arguments jsonb, most integer,
	OUT result json, OUT is_set boolean, OUT truncated boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	f gpucredit_http.callable;
	call text;
	columns text;			/* the function's columns, as expressions that are
							 * converted to JSON */
	names text;
BEGIN
	f := gpucredit_http.find_function(run.short, run.arguments);
	IF NOT gpucredit_http.includes(gpucredit_http.scope(), gpucredit_http.scope_of(f.function)) THEN
		RAISE EXCEPTION 'the token''s scope does not include this call'
			USING ERRCODE = 'insufficient_privilege',
			DETAIL = format('"%s" needs scope %s, and the token has %s.', run.short,
				gpucredit_http.scope_of(f.function), gpucredit_http.scope()),
			HINT = 'Use a token of that scope.';
	END IF;
	SELECT string_agg(gpucredit_http.argument_sql(a.name, a.type, run.arguments -> a.name), ', '
			ORDER BY a.n)
	INTO call
	FROM unnest(f.names[1:f.arguments], f.types) WITH ORDINALITY AS a (name, type, n)
	WHERE run.arguments ? a.name;
	call := format('%I.%I(%s)', f.schema, f.name, call);
	run.is_set := f.is_set;
	run.truncated := false;
	SELECT string_agg(format('%s AS %I',
			gpucredit_http.as_json_type(format('r.%I', c.name), c.type), c.name), ', '),
		string_agg(format('y.%I', c.name), ', ')
	INTO columns, names
	FROM gpucredit_http.result_columns(f) c;
	IF f.is_set THEN
		/* No function has a column named "row" or "row#". */
		EXECUTE format('SELECT coalesce(json_agg(row_to_json("row")) FILTER (WHERE "row#" <= $2), %L),'
			' coalesce(max("row#"), 0) > $2'
			' FROM (SELECT %s, row_number() OVER () AS "row#" FROM %s AS r%s LIMIT $2 + 1) y,'
			' LATERAL (SELECT %s) "row"', '[]',
			coalesce(columns, gpucredit_http.as_json_type('r.value', f.result) || ' AS value'),
			call, CASE WHEN columns IS NULL THEN ' (value)' ELSE '' END,
			coalesce(names, 'y.value'))
		INTO run.result, run.truncated USING run.arguments, run.most;
	ELSIF columns IS NOT NULL THEN
		EXECUTE format('SELECT row_to_json("row") FROM (SELECT %s FROM %s AS r) "row"', columns, call)
		INTO run.result USING run.arguments;
	ELSIF f.result = 'void'::regtype THEN
		EXECUTE format('SELECT %s', call) USING run.arguments;
	ELSE
		EXECUTE format('SELECT to_json(%s)', gpucredit_http.as_json_type(call, f.result))
		INTO run.result USING run.arguments;
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_http.run(text, jsonb, integer) IS
'Internal: calls a function of the public interface with named arguments, with the caller''s rights and within the scope of the request''s token; numbers of type numeric are texts in the result, times and intervals are in ISO 8601. Errors: 42501 not within the scope, or not allowed; as find_function; and what the function raises.';
