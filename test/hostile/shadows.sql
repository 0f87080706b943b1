-- A schema full of traps, made by whoever may create in it: a table for each
-- relation, a domain for each type, a function for each function and an
-- operator for each operator that is in pg_catalog or gpucredit, as the
-- catalogue lists them.  Whatever is used by mistake says so.
--
-- :schema is where; :everything is false where pg_catalog's functions and
-- operators are left out (in pg_temp nobody looks for them).
SET search_path = pg_catalog;
SET check_function_bodies = off;
SELECT set_config('hostile.schema', :'schema', false),
	set_config('hostile.everything', :'everything', false) \g /dev/null
DO $shadows$
DECLARE
	place text := current_setting('hostile.schema');
	source text[] := CASE WHEN current_setting('hostile.everything')::bool
		THEN '{pg_catalog,gpucredit}' ELSE '{gpucredit}' END;
	made int[] := '{0,0,0,0}';
	n int;
	o record;
	trap text := $$ LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''hijacked by %'', current_user USING ERRCODE = ''HIJAK''; END'$$;
BEGIN
	FOR o IN
		SELECT 1 AS kind, format('CREATE TABLE %s.%I (hijacked int)', place,
			relname) AS ddl
		FROM pg_class WHERE relkind IN ('r', 'v', 'p')
			AND relnamespace IN ('pg_catalog'::regnamespace, 'gpucredit'::regnamespace)
		UNION ALL
		SELECT 2, format('CREATE DOMAIN %s.%I AS pg_catalog.text CHECK (VALUE IS NULL)',
			place, typname)
		FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
		WHERE typtype <> 'p' AND typelem = 0
			AND coalesce(c.relkind = 'c', true)
			AND typnamespace IN ('pg_catalog'::regnamespace, 'gpucredit'::regnamespace)
		UNION ALL
		SELECT 3, format('CREATE FUNCTION %s.%I(%s) RETURNS %s %s%s', place, proname,
			(SELECT string_agg(format_type(a, NULL), ', ' ORDER BY i)
				FROM unnest(proargtypes::oid[]) WITH ORDINALITY u (a, i)),
			CASE WHEN proretset THEN 'SETOF ' ELSE '' END,
			format_type(prorettype, NULL), trap)
		FROM pg_proc
		WHERE pronamespace::regnamespace::text = ANY (source)
			AND NOT proargtypes::oid[] || prorettype && ARRAY['internal',
				'cstring', 'trigger', 'event_trigger', 'language_handler',
				'fdw_handler', 'tsm_handler', 'index_am_handler', 'anynonarray',
				'table_am_handler', '"any"', 'void']::regtype[]::oid[]
		UNION ALL
		SELECT 4, format('CREATE FUNCTION %s.op_%s(%s) RETURNS %s %s;'
			'CREATE OPERATOR %1$s.%6$s (%7$s RIGHTARG = %8$s, FUNCTION = %1$s.op_%2$s)',
			place, oid, concat_ws(', ', CASE WHEN oprleft <> 0
				THEN format_type(oprleft, NULL) END, format_type(oprright, NULL)),
			format_type(oprresult, NULL), trap, oprname,
			CASE WHEN oprleft <> 0 THEN format('LEFTARG = %s,',
				format_type(oprleft, NULL)) ELSE '' END,
			format_type(oprright, NULL))
		FROM pg_operator
		WHERE oprnamespace::regnamespace::text = ANY (source)
			AND oprright <> 0 AND oprresult <> 0
	LOOP
		BEGIN
			EXECUTE o.ddl;
			made[o.kind] := made[o.kind] + 1;
		EXCEPTION
			WHEN duplicate_table OR duplicate_object OR duplicate_function
				OR invalid_function_definition OR feature_not_supported
				OR insufficient_privilege THEN
			NULL;				-- a polymorphic twin, or one no user can make
		END;
	END LOOP;
	PERFORM set_config('hostile.made', array_to_string(made, ' '), false);
END
$shadows$;
