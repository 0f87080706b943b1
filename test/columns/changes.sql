/*
 * changes.sql: changes every column of every durable table, one at a time, and
 * notes what verify() and verify_audit() find (test/t/034_columns.pl).
 *
 * Tables, columns, keys and the checks that verify() makes come from the
 * catalogue, so that a new one takes part from the day it is added.  Each change
 * is made and rolled back in a subtransaction.  The checks are planned once.
 */
SET client_min_messages = warning;
SET gpucredit.clock = '2030-03-05 00:50+00';
ANALYZE;
CREATE SCHEMA columns;

/* A superuser who changes rows in silence turns the triggers off first. */
DO $$
DECLARE
	t regclass;
BEGIN
	FOR t IN SELECT c.oid::regclass FROM pg_class c
		WHERE c.relnamespace = 'gpucredit'::regnamespace AND c.relkind = 'r'
	LOOP
		EXECUTE format('ALTER TABLE %s DISABLE TRIGGER ALL', t);
	END LOOP;
END
$$;

/* A function for each check, which returns the first invariant that is broken. */
CREATE TABLE columns.checks AS
	SELECT m[1] AS name, row_number() OVER () AS n
	FROM pg_proc p, regexp_matches(p.prosrc,
		'gpucredit_internal\.(check_\w+)\(from_org, to_org\)', 'g') m
	WHERE p.oid = 'gpucredit.verify(text,text,text)'::regprocedure AND m[1] <> 'check_accounts'
	UNION SELECT 'check_accounts', 0;
DO $$
DECLARE
	c text;
BEGIN
	FOR c IN SELECT name FROM columns.checks LOOP
		EXECUTE format('CREATE FUNCTION columns.%I() RETURNS text LANGUAGE plpgsql
			SET plan_cache_mode = force_generic_plan SET jit = off
			SET enable_nestloop = off
			SET work_mem = ''16MB'' AS $f$
			DECLARE r text;
			BEGIN
				SELECT min(c.invariant) INTO r FROM gpucredit_internal.%1$I(NULL, NULL) c
				WHERE c.invariant !~ ''_is_(guarded|watched)$'';
				RETURN r;
			END $f$', c);
	END LOOP;
END
$$;
CREATE FUNCTION columns.verify_audit() RETURNS text LANGUAGE sql AS $$
	SELECT min(problem) FROM gpucredit.verify_audit() $$;
INSERT INTO columns.checks VALUES ('verify_audit', 1000);

/* found: the check and its invariant; '': nothing; NULL: no such change */
CREATE TABLE columns.result (rel text, col text, kind text, key text, found text);
CREATE TABLE columns.listed (rel text, col text, kinds text);
CREATE TABLE columns.last (rel text, col text, name text, PRIMARY KEY (rel, col));

/* The check that found the column's last change comes first. */
CREATE FUNCTION columns.found(r text, c text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	name text;
	f text;
BEGIN
	FOR name IN SELECT k.name FROM columns.checks k
		LEFT JOIN columns.last l ON l.rel = r AND l.col = c AND l.name = k.name
		ORDER BY l.name IS NULL, k.n
	LOOP
		EXECUTE format('SELECT columns.%I()', name) INTO f;
		IF f IS NOT NULL THEN
			INSERT INTO columns.last VALUES (r, c, name) ON CONFLICT (rel, col)
				DO UPDATE SET name = EXCLUDED.name;
			RETURN name || ': ' || f;
		END IF;
	END LOOP;
	RETURN '';
EXCEPTION WHEN OTHERS THEN
	RETURN 'error: ' || name || ': ' || sqlerrm;
END
$$;

CREATE FUNCTION columns.try(r text, c text, kind text, key text, change text)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	f text;
	n bigint;
BEGIN
	BEGIN
		EXECUTE change;
		GET DIAGNOSTICS n = ROW_COUNT;
		IF n > 0 THEN
			f := columns.found(r, c);
		END IF;
		RAISE EXCEPTION USING ERRCODE = 'ZZ001', MESSAGE = f;
	EXCEPTION
		WHEN SQLSTATE 'ZZ001' THEN
			NULL;
		WHEN OTHERS THEN	/* a constraint refuses it, or there is no such value */
			f := NULL;
	END;
	IF f IS NOT NULL THEN
		INSERT INTO columns.result VALUES (r, c, kind, key, f);
		IF f ~ ':' THEN
			INSERT INTO columns.last VALUES (r, c, split_part(f, ':', 1))
			ON CONFLICT (rel, col) DO UPDATE SET name = EXCLUDED.name;
		END IF;
	END IF;
END
$$;

/* Ways to change a value of a type; %1$I is the column. */
CREATE FUNCTION columns.kinds(typ text) RETURNS TABLE (kind text, expr text)
LANGUAGE sql AS $$
	SELECT k.kind, k.expr
	FROM (VALUES
		('int4', 'up', '%1$I + 1'), ('int4', 'down', '%1$I - 1'),
		('int8', 'up', '%1$I + 1'), ('int8', 'down', '%1$I - 1'),
		('numeric', 'up', '%1$I + 1'), ('_numeric', 'more', '%1$I || 0.123'),
		('float4', 'up', '%1$I + 0.1'), ('float8', 'up', '%1$I + 1'),
		('bool', 'not', 'NOT %1$I'), ('text', 'longer', '%1$I || ''x'''),
		('name', 'longer', '%1$I || ''x'''), ('_text', 'more', '%1$I || ''zz'''),
		('timestamptz', 'later', '%1$I + interval ''1 day'''),
		('timestamptz', 'earlier', '%1$I - interval ''1 day'''),
		('interval', 'longer', '%1$I + interval ''1 day'''),
		('interval', 'shorter', '%1$I - interval ''1 min'''),
		('credits', 'up', '%1$I::numeric + 1'),
		('credits', 'down', '%1$I::numeric - 0.01'),
		('_credits', 'up', '(%1$I::numeric[])[2:] || ((%1$I::numeric[])[1] + 1)'),
		('bytea', 'flip', 'set_byte(%1$I, 0, 255 - get_byte(%1$I, 0))'),
		('jsonb', 'more', 'CASE jsonb_typeof(%1$I) WHEN ''object'' THEN %1$I || ''{"zz": 1}'' ELSE ''{}'' END'),
		('_int8', 'more', '%1$I || 1::bigint'), ('date', 'later', '%1$I + 1'),
		('uuid', 'other', 'gen_random_uuid()'), ('inet', 'other', '''10.9.9.9'''),
		('int4range', 'other', '''[100,101)'''),
		('gpuset', 'other', '''{62}''')) k (typ, kind, expr)
	WHERE k.typ = kinds.typ
$$;

/*
 * Rows of a table that differ in what they are: in their states, and in which
 * columns are null.  The list of what verify() does not notice names rows of
 * this choice, so attempt.used, which is never null, has no part in it, nor have
 * the columns by which an attempt is known to be idle, and its energy.
 */
CREATE FUNCTION columns.rows(r regclass, most int)
RETURNS TABLE (n bigint, key text, tid tid) LANGUAGE plpgsql AS $$
DECLARE
	class text;
BEGIN
	SELECT string_agg(CASE WHEN a.attname IN ('state', 'outcome', 'operation',
			'decision', 'action', 'cause', 'period', 'kind', 'source', 'target',
			'free') THEN format('t.%I::text', a.attname)
			ELSE format('(t.%I IS NULL)::int::text', a.attname) END, ', ' ORDER BY a.attnum)
	INTO class FROM pg_attribute a
	WHERE a.attrelid = r AND a.attnum > 0 AND NOT a.attisdropped
		AND a.attname NOT IN ('used', 'idle_for', 'idle_at', 'idle_warned_at', 'idle_limit', 'idle_warning',
			'energy_j');
	RETURN QUERY EXECUTE format('SELECT row_number() OVER (), left(t.t::text, 120), t.ctid
		FROM (SELECT DISTINCT ON (md5(concat_ws(''|'', %1$s))) t, t.ctid
			FROM %2$s t %4$s ORDER BY md5(concat_ws(''|'', %1$s)), t.ctid) t
		ORDER BY row_number() OVER () LIMIT %3$s', class, r, most,
		/* a row that counts nothing says nothing */
		CASE r WHEN 'gpucredit.hold_budget'::regclass
			THEN 'WHERE t.reserved <> ''0'' OR t.spent <> ''0''' ELSE '' END);
END
$$;

/* A copy of a row, with another value in the last column of its key. */
CREATE FUNCTION columns.copy(r regclass, tid tid) RETURNS text
LANGUAGE sql AS $$
	SELECT format('INSERT INTO %s (%s) SELECT %s FROM %1$s WHERE ctid = %4$L', r,
		string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum),
		string_agg(CASE WHEN a.attnum = k.last THEN format(CASE t.typname
			WHEN 'text' THEN '%1$I || ''x''' WHEN 'name' THEN '%1$I || ''x'''
			WHEN 'timestamptz' THEN '%1$I + interval ''1 s''' ELSE '%1$I + 1000' END,
			a.attname) ELSE quote_ident(a.attname) END, ', ' ORDER BY a.attnum), tid)
	FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
		CROSS JOIN (SELECT max(c.conkey[array_upper(c.conkey, 1)]) AS last
			FROM pg_constraint c WHERE c.conrelid = r AND c.contype = 'p') k
	WHERE a.attrelid = r AND a.attnum > 0 AND NOT a.attisdropped
		AND a.attgenerated = ''
$$;

CREATE FUNCTION columns.run(pattern text DEFAULT '', most int DEFAULT 3)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	r record;
	w record;
	c record;
	k record;
BEGIN
	FOR r IN SELECT p.oid::regclass AS rel, p.relname FROM pg_class p
		WHERE p.relnamespace = 'gpucredit'::regnamespace AND p.relkind = 'r'
			AND p.relpersistence = 'p' AND p.relname ~ pattern
		ORDER BY p.relname
	LOOP
		FOR w IN SELECT * FROM columns.rows(r.rel, most) LOOP
			CONTINUE WHEN w.n > 1 AND EXISTS (SELECT FROM columns.listed l
				WHERE l.rel = r.relname AND l.col = '.*');
			PERFORM columns.try(r.relname, '(row)', 'delete', w.key,
				format('DELETE FROM %s WHERE ctid = %L', r.rel, w.tid));
			PERFORM columns.try(r.relname, '(row)', 'copy', w.key,
				columns.copy(r.rel, w.tid));
		END LOOP;
		FOR w IN SELECT * FROM columns.rows(r.rel, most) LOOP
			FOR c IN SELECT a.attname, t.typname, a.attnotnull,
					format_type(a.atttypid, NULL) AS typ
				FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
				WHERE a.attrelid = r.rel AND a.attnum > 0 AND NOT a.attisdropped
					AND a.attgenerated = ''
				ORDER BY a.attnum
			LOOP
				CONTINUE WHEN w.n > 1 AND EXISTS (SELECT FROM columns.listed l
					WHERE l.rel = r.relname AND l.col = '.*');
				FOR k IN SELECT * FROM columns.kinds(c.typname) LIMIT CASE w.n WHEN 1 THEN 9 ELSE 1 END LOOP
					PERFORM columns.try(r.relname, c.attname, k.kind, w.key,
						format('UPDATE %s SET %I = (%s)::%s WHERE ctid = %L AND %2$I IS NOT NULL',
							r.rel, c.attname, format(k.expr, c.attname), c.typ, w.tid));
				END LOOP;
				PERFORM columns.try(r.relname, c.attname, 'another', w.key, format(
					'UPDATE %1$s u SET %2$I = o.%2$I FROM (SELECT o.%2$I FROM %1$s o, %1$s t
						WHERE t.ctid = %3$L AND o.%2$I IS NOT NULL
							AND o.%2$I::text IS DISTINCT FROM t.%2$I::text
						ORDER BY o.ctid LIMIT 1) o WHERE u.ctid = %3$L',
					r.rel, c.attname, w.tid));
				IF NOT c.attnotnull THEN
					PERFORM columns.try(r.relname, c.attname, 'null', w.key, format(
						'UPDATE %s SET %I = NULL WHERE ctid = %L AND %2$I IS NOT NULL',
						r.rel, c.attname, w.tid));
				END IF;
			END LOOP;
		END LOOP;
	END LOOP;
END
$$;
