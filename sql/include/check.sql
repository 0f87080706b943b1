-- The checks of regression tests that assert instead of printing what queries
-- return. A test includes this file near its beginning:
--
--     \set ECHO none
--     \getenv folder PG_ABS_SRCDIR
--     \set check :folder '/sql/include/check.sql'
--     \i :check
--
-- psql echoes no statement then, and prints rows without a frame. So the test's
-- output is the title of each scenario, which \echo prints, and a line for each
-- check that holds: "ok - NAME". A check that does not hold prints
-- "not ok - NAME" and below it what it got and what was expected. If the query
-- of a check fails, the error is what that check got.
--
--     check_rows(NAME, QUERY, EXPECTED)    the query returns exactly these rows
--     check_none(NAME, QUERY)              the query returns no row
--     check_value(NAME, GOT, EXPECTED)     both are the same text
--     check_error(NAME, STATEMENT, STATE)  it fails with that SQLSTATE
--     CALL act(STATEMENT)                  a step that is no check: it may not
--                                          fail, and its result is not shown
--
-- EXPECTED is a table: a line with the names of the columns, then one line for
-- each row, with "|" between columns. NULL is "-", and spaces around a value do
-- not count.
\pset tuples_only on
\pset format unaligned
\pset null '-'
\set VERBOSITY default

CREATE FUNCTION pg_temp.check_report(name text, got text, expected text) RETURNS text
LANGUAGE sql AS $$
	SELECT CASE WHEN got IS NOT DISTINCT FROM expected THEN 'ok - ' || name
		ELSE concat('not ok - ', name, E'\n  got:\n    ', replace(coalesce(got, '-'), E'\n', E'\n    '),
			E'\n  expected:\n    ', replace(coalesce(expected, '-'), E'\n', E'\n    ')) END
$$;

-- The rows that a query returns, or the error with which it fails, in the form
-- of EXPECTED.
CREATE FUNCTION pg_temp.check_result(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r record;
	head text;
	line text;
	lines text[] := '{}';
BEGIN
	FOR r IN EXECUTE query LOOP
		SELECT string_agg(c.key, ' | ' ORDER BY c.n), string_agg(coalesce(c.value, '-'), ' | ' ORDER BY c.n)
		INTO head, line FROM json_each_text(row_to_json(r)) WITH ORDINALITY c (key, value, n);
		lines := lines || line;
	END LOOP;
	RETURN CASE WHEN lines = '{}' THEN 'no rows' ELSE array_to_string(head || lines, E'\n') END;
EXCEPTION WHEN OTHERS THEN
	RETURN concat('ERROR ', SQLSTATE, ': ', SQLERRM);
END $$;

CREATE FUNCTION pg_temp.check_rows(name text, query text, expected text) RETURNS text LANGUAGE sql AS $$
	SELECT pg_temp.check_report(name, pg_temp.check_result(query),
		(SELECT string_agg(regexp_replace(btrim(line, E' \t'), '\s*\|\s*', ' | ', 'g'), E'\n' ORDER BY n)
			FROM regexp_split_to_table(expected, E'\n') WITH ORDINALITY l (line, n)
			WHERE line ~ '\S'))
$$;

CREATE FUNCTION pg_temp.check_none(name text, query text) RETURNS text LANGUAGE sql AS $$
	SELECT pg_temp.check_report(name, pg_temp.check_result(query), 'no rows')
$$;

CREATE FUNCTION pg_temp.check_value(name text, got text, expected text) RETURNS text LANGUAGE sql AS $$
	SELECT pg_temp.check_report(name, got, expected)
$$;

CREATE FUNCTION pg_temp.check_error(name text, statement text, state text) RETURNS text LANGUAGE sql AS $$
	SELECT pg_temp.check_report(name, (SELECT CASE WHEN result ~ '^ERROR' THEN left(result, 11) ELSE result END
			FROM pg_temp.check_result(statement) result), 'ERROR ' || state)
$$;

CREATE PROCEDURE pg_temp.act(statement text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE statement;
END $$;
