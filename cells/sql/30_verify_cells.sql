/*
 * 30_verify_cells.sql: compares the books of all cells.
 *
 * Organisations are compared in ranges of their names, so that a cell's answer
 * stays small however many organisations it has. Within a range each cell
 * returns its figures from one snapshot. The snapshots are of different
 * instants, so a difference counts only if each of several comparisons of its
 * range finds it.
 */
CREATE FUNCTION gpucredit_cells.books(after text DEFAULT NULL, upto text DEFAULT NULL)
RETURNS jsonb
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	low CONSTANT text := coalesce(books.after, '');
	high CONSTANT text := coalesce(books.upto,
		(SELECT max(r.org) FROM gpucredit_cells.resident r), '');
	result jsonb;
BEGIN
	SELECT jsonb_build_object('cell', gpucredit_cells.here(),
		'orgs', (SELECT coalesce(jsonb_agg(to_jsonb(f)), '[]') FROM (
			SELECT r.org, r.state, coalesce(s.issued, 0) AS issued,
				coalesce(s.available, 0) AS available, coalesce(s.held, 0) AS held,
				coalesce(s.spent, 0) AS spent, coalesce(s.expired, 0) AS expired,
				coalesce(s.revoked, 0) AS revoked
			FROM gpucredit_cells.resident r LEFT JOIN (
				SELECT b.org, sum(b.issued::numeric - b.moved::numeric) AS issued,
					sum(b.available::numeric) AS available,
					sum(b.held::numeric) AS held, sum(b.spent::numeric) AS spent,
					sum(b.expired::numeric) AS expired,
					sum(b.revoked::numeric) AS revoked
				FROM gpucredit.bucket_whole b
				WHERE b.org > low AND b.org <= high GROUP BY b.org) s USING (org)
			WHERE r.org > low AND r.org <= high) f),
		'out', (SELECT coalesce(jsonb_agg(to_jsonb(o)
				|| jsonb_build_object('home_held',
					gpucredit_cells.held_for(o))), '[]')
			FROM gpucredit_cells.lease_out o
			WHERE o.status = 'granted' AND o.org > low AND o.org <= high),
		'in', (SELECT coalesce(jsonb_agg(to_jsonb(l)
				|| jsonb_build_object('live',
					to_jsonb(gpucredit_cells.lease_figures(l)))), '[]')
			FROM gpucredit_cells.lease_in l
			WHERE l.org > low AND l.org <= high),
		'outbox', (SELECT coalesce(jsonb_agg(to_jsonb(m)), '[]')
			FROM gpucredit_cells.outbox m
			WHERE m.org > low AND m.org <= high))
	INTO result;
	RETURN result;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.books(text, text) IS
'Cells: this cell''s figures of organisations whose names are above "after" and at most "upto", for verify_cells() of any cell or router. NULL: from the first organisation, or to the last one.';

/* Lets the ranges be of equal size in the cell that has most organisations. */
CREATE FUNCTION gpucredit_cells.books_end(after text, size int) RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT r.org FROM gpucredit_cells.resident r
	WHERE r.org > books_end.after ORDER BY r.org OFFSET books_end.size - 1 LIMIT 1;
END;
COMMENT ON FUNCTION gpucredit_cells.books_end(text, int) IS
'Cells: the organisation at which a range of so many ends that begins above "after"; NULL: there are fewer. For verify_cells() of any cell or router.';

CREATE FUNCTION gpucredit_cells.books_head() RETURNS jsonb
LANGUAGE sql STABLE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT jsonb_build_object('cell', gpucredit_cells.here(),
		'unfit', (SELECT coalesce(jsonb_agg(u.what), '[]')
			FROM gpucredit_cells.unfit() u),
		'last', greatest((SELECT max(r.org) FROM gpucredit_cells.resident r),
			(SELECT max(l.org) FROM gpucredit_cells.lease_in l),
			(SELECT max(o.org) FROM gpucredit_cells.lease_out o)));
END;
COMMENT ON FUNCTION gpucredit_cells.books_head() IS
'Cells: which cell this is, what it lacks, and its last organisation, for verify_cells() of any cell or router.';

CREATE FUNCTION gpucredit_cells.books_sums() RETURNS jsonb
LANGUAGE sql STABLE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT to_jsonb(s) || jsonb_build_object(
		'seal', (SELECT jsonb_build_object('batch', l.batch,
				'root', encode(l.root, 'hex'))
			FROM gpucredit.seal l ORDER BY l.batch DESC LIMIT 1),
		'organisations', (SELECT count(*) FROM gpucredit_cells.resident r
			WHERE r.state IN ('home', 'moving')),
		'leased', (SELECT coalesce(sum(gpucredit_cells.held_for(o)), 0)
			FROM gpucredit_cells.lease_out o
			WHERE o.status = 'granted' AND o.closed_at IS NULL))
	FROM (SELECT sum(b.issued::numeric - b.moved::numeric) AS issued,
			sum(b.available::numeric) AS available, sum(b.held::numeric) AS held,
			sum(b.spent::numeric) AS spent, sum(b.expired::numeric) AS expired,
			sum(b.revoked::numeric) AS revoked
		FROM gpucredit_cells.resident r
			JOIN gpucredit.bucket_whole b ON b.org = r.org
		WHERE r.state IN ('home', 'moving')) s;
END;
COMMENT ON FUNCTION gpucredit_cells.books_sums() IS
'Cells: the credit of all organisations whose home this cell is, for cell_sums() of any cell or router.';

/*
 * Connects to every cell and asks each one. The connections stay open, so that
 * several ranges are asked for by one.
 */
CREATE FUNCTION gpucredit_cells.open_books(query text, patience interval)
RETURNS TABLE (cell text, answer jsonb, error text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	FOR cell IN SELECT c.cell FROM gpucredit_cells.cell c ORDER BY c.number
	LOOP
		answer := NULL;
		error := NULL;
		BEGIN
			/* A call that was cancelled may have left its connection open. */
			PERFORM gpucredit_cells.disconnect('gpucredit_cells ' || cell);
			answer := gpucredit_cells.ask_in_time(
				gpucredit_cells.connect_peer(cell, patience), query, patience);
		EXCEPTION WHEN OTHERS THEN
			error := SQLSTATE || ' ' || SQLERRM;
		END;
		RETURN NEXT;
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.open_books(text, interval) IS
'Internal: connects to all cells, and returns every cell''s result of a query.';

CREATE FUNCTION gpucredit_cells.close_books() RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT gpucredit_cells.disconnect('gpucredit_cells ' || c.cell)
	FROM gpucredit_cells.cell c ORDER BY c.number;
END;
COMMENT ON FUNCTION gpucredit_cells.close_books() IS
'Internal: ends the connections that open_books() made.';

/* Asks cells at the same time, over connections that are open. */
CREATE FUNCTION gpucredit_cells.ask_cells(cells text[], query text, patience interval)
RETURNS TABLE (cell text, answer text, error text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	asked text[] := '{}';
BEGIN
	FOREACH cell IN ARRAY cells LOOP
		BEGIN
			PERFORM gpucredit_cells.send_query('gpucredit_cells ' || cell, query);
			asked := asked || cell;
		EXCEPTION WHEN OTHERS THEN
			error := SQLSTATE || ' ' || SQLERRM;
			RETURN NEXT;
		END;
	END LOOP;
	FOREACH cell IN ARRAY asked LOOP
		answer := NULL;
		error := NULL;
		BEGIN
			answer := gpucredit_cells.answer('gpucredit_cells ' || cell, patience);
		EXCEPTION WHEN OTHERS THEN
			error := SQLSTATE || ' ' || SQLERRM;
		END;
		RETURN NEXT;
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.ask_cells(text[], text, interval) IS
'Internal: what each of these cells says to a query, after open_books().';

/*
 * Rows of verify_cells() that stay although what they say was settled by hand,
 * as after a cell was restored from an old backup.
 */
CREATE TABLE gpucredit_cells.acknowledged (
	problem text NOT NULL,
	org text COLLATE "C" NOT NULL,
	subject text NOT NULL,
	detail text NOT NULL,
	reason text NOT NULL,
	login text NOT NULL,
	at timestamptz NOT NULL,
	CONSTRAINT acknowledged_pkey PRIMARY KEY (problem, org, subject, detail)
);
COMMENT ON TABLE gpucredit_cells.acknowledged IS
'Rows of verify_cells() that were settled by hand, and are not returned any more here';
COMMENT ON COLUMN gpucredit_cells.acknowledged.problem IS 'As verify_cells() returned it.';
COMMENT ON COLUMN gpucredit_cells.acknowledged.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit_cells.acknowledged.subject IS 'As verify_cells() returned it.';
COMMENT ON COLUMN gpucredit_cells.acknowledged.detail IS 'As verify_cells() returned it; with another detail the row comes again.';
COMMENT ON COLUMN gpucredit_cells.acknowledged.reason IS 'How it was settled.';
COMMENT ON COLUMN gpucredit_cells.acknowledged.login IS 'Who said so.';
COMMENT ON COLUMN gpucredit_cells.acknowledged.at IS 'When.';
SELECT pg_catalog.pg_extension_config_dump('gpucredit_cells.acknowledged', '');

CREATE FUNCTION gpucredit_cells.acknowledge(problem text, org text, subject text,
	detail text, reason text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_internal.require_sense('problem', acknowledge.problem,
		acknowledge.problem IN ('lease_not_there', 'lease_not_at_home',
			'lease_amounts_differ', 'reports_differ', 'spent_without_credit',
			'hold_differs', 'more_than_leased', 'guest_credit'),
		'is not a difference between the ends of a lease',
		'Mend what verify_cells() names; only leases are settled by hand.');
	PERFORM gpucredit_internal.require_sense('org', acknowledge.org,
		octet_length(acknowledge.org) BETWEEN 1 AND 255,
		'is no organisation', 'Pass the row as verify_cells() returned it.');
	PERFORM gpucredit_internal.require_sense('subject', acknowledge.subject,
		octet_length(acknowledge.subject) BETWEEN 1 AND 8192,
		'has no text, or too much', 'Pass the row as verify_cells() returned it.');
	PERFORM gpucredit_internal.require_sense('detail', acknowledge.detail,
		octet_length(acknowledge.detail) BETWEEN 1 AND 8192,
		'has no text, or too much', 'Pass the row as verify_cells() returned it.');
	PERFORM gpucredit_internal.require_sense('reason', acknowledge.reason,
		octet_length(acknowledge.reason) BETWEEN 1 AND 8192,
		'has no text, or too much', 'Say how it was settled, in at most 8 kB.');
	INSERT INTO gpucredit_cells.acknowledged
	VALUES (acknowledge.problem, acknowledge.org, acknowledge.subject,
		acknowledge.detail, acknowledge.reason, session_user, gpucredit.now())
	ON CONFLICT DO NOTHING;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.acknowledge(text, text, text, text, text) IS
'Cells, by an administrator: verify_cells() of this database does not return this row about a lease any more, since what it says was settled by hand. A row with another detail comes again. Table acknowledged keeps who said so, and why; the first reason stays.
problem, org, subject, detail: as verify_cells() returned them. reason: how it was settled.
Errors: 22023 another kind of problem, or an empty argument.';

CREATE TYPE gpucredit_cells.verify_cells_result AS (problem text, org text,
	subject text, detail text);
COMMENT ON TYPE gpucredit_cells.verify_cells_result IS
'What does not hold over all cells.';

/*
 * Compares the two ends of each lease. The planner expects a hundred rows of
 * any JSON, and would compare thousands of rows with each other in turn.
 */
CREATE FUNCTION gpucredit_cells.compare_leases(books jsonb[])
RETURNS SETOF gpucredit_cells.verify_cells_result
LANGUAGE sql STABLE PARALLEL UNSAFE ROWS 10
SET search_path = pg_catalog, pg_temp
SET enable_nestloop = off
SET jit = off
BEGIN ATOMIC
	WITH cells AS (SELECT b->>'cell' AS cell, b FROM unnest(books) b),
	given AS (SELECT c.cell AS home, o.* FROM cells c,
		jsonb_to_recordset(c.b->'out') AS o (org text, lease uuid, cell text,
			amount numeric, report bigint, spent numeric, returned numeric,
			captured numeric, given_back numeric, holds bigint[],
			closed_at timestamptz, written_off_at timestamptz,
			home_held numeric)),
	taken AS (SELECT c.cell AS there, l.*, f.* FROM cells c,
		jsonb_to_recordset(c.b->'in') AS l (org text, lease uuid, cell text,
			amount numeric, report bigint, acked bigint, spent numeric,
			returned numeric, available numeric, held numeric,
			forgotten numeric, buckets bigint[], live jsonb),
		jsonb_to_record(l.live) AS f (issued numeric, ended numeric)),
	under_way AS (SELECT c.cell AS source, m.* FROM cells c,
		jsonb_to_recordset(c.b->'outbox') AS m (cell text, org text,
			lease uuid, kind text, n bigint)),
	found AS (
		SELECT g.org, g.lease, g.cell AS there, 'lease_not_there' AS problem,
			format('home %s leased %s credits', g.home, g.amount) AS detail
		FROM given g LEFT JOIN taken t USING (org, lease)
		WHERE t.lease IS NULL AND g.written_off_at IS NULL
			AND EXISTS (SELECT FROM cells c WHERE c.cell = g.cell)
			AND NOT EXISTS (SELECT FROM under_way u WHERE u.org = g.org
				AND u.lease = g.lease AND u.kind = 'grant')
		UNION ALL
		SELECT t.org, t.lease, t.there, 'lease_not_at_home',
			format('it spent %s of %s credits of home %s', t.spent, t.amount,
				t.cell)
		FROM taken t LEFT JOIN given g USING (org, lease)
		WHERE g.lease IS NULL AND EXISTS (SELECT FROM cells c
			WHERE c.cell = t.cell)
		UNION ALL
		SELECT t.org, t.lease, t.there, 'lease_amounts_differ',
			format('%s at home, %s there, %s in buckets', g.amount, t.amount,
				t.issued)
		FROM taken t JOIN given g USING (org, lease)
		WHERE g.amount <> t.amount
			OR t.buckets <> '{}' AND t.issued <> t.amount
		UNION ALL
		SELECT t.org, t.lease, t.there, 'reports_differ',
			format('home has report %s (%s spent, %s returned), there report %s (%s, %s), of which home has %s',
				g.report, g.spent, g.returned, t.report, t.spent, t.returned,
				t.acked)
		FROM taken t JOIN given g USING (org, lease)
		WHERE g.written_off_at IS NULL AND (g.report NOT IN (t.report, t.acked)
			OR g.report = t.report
				AND (g.spent, g.returned) <> (t.spent, t.returned)
			OR t.report > t.acked AND NOT EXISTS (SELECT FROM under_way u
				WHERE u.org = t.org AND u.lease = t.lease
					AND u.kind = 'report' AND u.n = t.report))
		UNION ALL
		SELECT g.org, g.lease, g.cell, 'spent_without_credit',
			format('%s was spent, %s is captured', g.spent, g.captured)
		FROM given g WHERE g.captured < g.spent
		UNION ALL
		SELECT g.org, g.lease, g.cell, 'hold_differs',
			format('home holds %s for %s credits, %s captured, %s given back',
				g.home_held, g.amount, g.captured, g.given_back)
		FROM given g
		WHERE g.closed_at IS NULL AND g.holds <> '{}'
			AND coalesce(g.home_held, 0) <>
				greatest(g.amount - g.captured - g.given_back, 0)
			OR g.closed_at IS NOT NULL AND g.home_held IS NOT NULL
		UNION ALL
		SELECT t.org, t.lease, t.there, 'more_than_leased',
			format('%s spent, %s returned, %s available and %s held of %s',
				t.spent, t.returned, t.available, t.held, t.amount)
		FROM taken t
		WHERE t.spent + t.returned + t.available + t.held > t.amount)
	SELECT f.problem, f.org, format('lease %s in cell %s', f.lease, f.there),
		f.detail
	FROM found f;
END;
COMMENT ON FUNCTION gpucredit_cells.compare_leases(jsonb[]) IS
'Internal: leases whose two ends differ, though no message under way explains it.';

/* The directory is compared above "after", up to "upto"; NULL: has no bound. */
CREATE FUNCTION gpucredit_cells.compare_organisations(books jsonb[],
	after text DEFAULT NULL, upto text DEFAULT NULL)
RETURNS SETOF gpucredit_cells.verify_cells_result
LANGUAGE sql STABLE PARALLEL UNSAFE ROWS 10
SET search_path = pg_catalog, pg_temp
SET enable_nestloop = off
SET jit = off
BEGIN ATOMIC
	WITH cells AS (SELECT b->>'cell' AS cell, b FROM unnest(books) b),
	orgs AS (SELECT c.cell, f.* FROM cells c,
		jsonb_to_recordset(c.b->'orgs') AS f (org text, state text,
			issued numeric, available numeric, held numeric, spent numeric,
			expired numeric, revoked numeric)),
	leased AS (SELECT c.cell, o.org, sum(o.home_held) AS held FROM cells c,
		jsonb_to_recordset(c.b->'out') AS o (org text, home_held numeric)
		GROUP BY 1, 2),
	guests AS (SELECT c.cell, l.org, sum(l.amount) AS amount FROM cells c,
		jsonb_to_recordset(c.b->'in') AS l (org text, amount numeric,
			buckets bigint[])
		WHERE l.buckets <> '{}' GROUP BY 1, 2)
	SELECT 'two_homes', o.org, string_agg(o.cell, ', ' ORDER BY o.cell),
		'each of these cells takes the organisation''s calls'
	FROM orgs o WHERE o.state = 'home' GROUP BY o.org HAVING count(*) > 1
	UNION ALL
	SELECT 'not_at_home', h.org, 'cell ' || h.cell,
		'the directory says that the cell is its home'
	FROM gpucredit_cells.home h JOIN cells c ON c.cell = h.cell
		LEFT JOIN orgs o ON o.cell = h.cell AND o.org = h.org
			AND o.state IN ('home', 'moving')
	WHERE o.org IS NULL AND h.org > coalesce(after, '')
		AND h.org <= coalesce(upto, (SELECT max(l.org) FROM gpucredit_cells.home l))
	UNION ALL
	SELECT 'sum', o.org, 'cell ' || o.cell,
		format('issued %s = available %s + held %s + spent %s + expired %s + revoked %s + leased %s',
			o.issued, o.available, o.held - coalesce(l.held, 0), o.spent,
			o.expired, o.revoked, coalesce(l.held, 0))
	FROM orgs o LEFT JOIN leased l USING (cell, org)
	WHERE o.issued <> o.available + o.held + o.spent + o.expired + o.revoked
		OR o.held < coalesce(l.held, 0)
	UNION ALL
	SELECT 'guest_credit', o.org, 'cell ' || o.cell,
		format('%s credits were issued, %s leased', o.issued,
			coalesce(g.amount, 0))
	FROM orgs o LEFT JOIN guests g USING (cell, org)
	WHERE o.state = 'guest' AND o.issued < coalesce(g.amount, 0);
END;
COMMENT ON FUNCTION gpucredit_cells.compare_organisations(jsonb[], text, text) IS
'Internal: organisations whose credit does not add up over the cells.';

CREATE TYPE gpucredit_cells.books_difference AS (problem text, org text,
	subject text, detail text, after text, upto text);
COMMENT ON TYPE gpucredit_cells.books_difference IS
'Internal: what does not hold over all cells, and in which range of organisations it was found.';

CREATE FUNCTION gpucredit_cells.books_upto(cells text[], after text, last text,
	size int, patience interval) RETURNS text
LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT least(last, min(e.upto COLLATE "C")) FROM (
		SELECT a.answer AS upto FROM gpucredit_cells.ask_cells(cells,
			format('SELECT gpucredit_cells.books_end(%L, %s)', after, size),
			patience) a
		UNION ALL
		(SELECT h.org FROM gpucredit_cells.home h
			WHERE h.org > books_upto.after ORDER BY h.org OFFSET size - 1 LIMIT 1)) e;
END;
COMMENT ON FUNCTION gpucredit_cells.books_upto(text[], text, text, int, interval) IS
'Internal: where a range ends that has at most so many organisations of each cell, and of the directory.';

/* Compares what the cells have of one range of organisations. */
CREATE FUNCTION gpucredit_cells.compare_range(INOUT cells text[], after text,
	upto text, patience interval, OUT differences gpucredit_cells.books_difference[])
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	one record;
	books jsonb[] := '{}';
BEGIN
	differences := '{}';
	FOR one IN SELECT * FROM gpucredit_cells.ask_cells(cells,
		format('SELECT gpucredit_cells.books(%L, %L)', after, upto), patience)
	LOOP
		IF one.answer IS NULL THEN
			cells := array_remove(cells, one.cell);
			differences := differences || (ROW('unreachable', '', 'cell ' || one.cell, one.error,
				NULL, NULL)::gpucredit_cells.books_difference);
		ELSE
			books := books || one.answer::jsonb;
		END IF;
	END LOOP;
	differences := differences || ARRAY(
		SELECT ROW(c.problem, c.org, c.subject, c.detail, after, upto)
			::gpucredit_cells.books_difference
		FROM (SELECT * FROM gpucredit_cells.compare_organisations(books, after, upto)
			UNION ALL
			SELECT * FROM gpucredit_cells.compare_leases(books)) c);
END
$$;
COMMENT ON FUNCTION gpucredit_cells.compare_range(text[], text, text, interval) IS
'Internal: what differs between cells in one range of organisations; cells: those that answered.';

/*
 * Compares the ranges in which differences were found, or all of them (NULL).
 * A cell that cannot be reached is named once and left out.
 */
CREATE FUNCTION gpucredit_cells.compare_books(patience interval, size int,
	ranges gpucredit_cells.books_difference[] DEFAULT NULL)
RETURNS gpucredit_cells.books_difference[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	one record;
	compared record;
	result gpucredit_cells.books_difference[];
	cells text[] := '{}';
	after text := '';
	last text COLLATE "C" := coalesce((SELECT max(h.org) FROM gpucredit_cells.home h), '');
	upto text;
BEGIN
	result := ARRAY(SELECT ROW('unfit', '', 'router', u.what, NULL, NULL)
			::gpucredit_cells.books_difference
		FROM gpucredit_cells.unfit() u
		WHERE NOT EXISTS (SELECT FROM gpucredit_cells.self));
	FOR one IN SELECT * FROM gpucredit_cells.open_books(
		'SELECT gpucredit_cells.books_head()', patience)
	LOOP
		IF one.answer->>'cell' = one.cell THEN
			cells := cells || one.cell;
			last := greatest(last, one.answer->>'last');
		END IF;
		result := result || ARRAY(SELECT ROW(f.problem, '', 'cell ' || one.cell,
				f.detail, NULL, NULL)::gpucredit_cells.books_difference
			FROM (SELECT 'unreachable' AS problem, one.error AS detail
					WHERE one.answer IS NULL
				UNION ALL
				SELECT 'wrong_cell', format('it says that it is %s', one.answer->>'cell')
					WHERE one.answer->>'cell' <> one.cell
				UNION ALL
				SELECT 'unfit', u FROM jsonb_array_elements_text(one.answer->'unfit') u
					WHERE one.answer->>'cell' = one.cell) f);
	END LOOP;
	IF ranges IS NULL THEN
		WHILE after < last COLLATE "C" LOOP
			upto := gpucredit_cells.books_upto(cells, after, last, size, patience);
			compared := gpucredit_cells.compare_range(cells, after, upto, patience);
			cells := compared.cells;
			result := result || compared.differences;
			after := upto;
		END LOOP;
	ELSE
		FOR one IN SELECT DISTINCT o.after, o.upto FROM unnest(ranges) o
			WHERE o.upto IS NOT NULL
		LOOP
			compared := gpucredit_cells.compare_range(cells, one.after, one.upto, patience);
			cells := compared.cells;
			result := result || compared.differences;
		END LOOP;
	END IF;
	PERFORM gpucredit_cells.close_books();
	RETURN result;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.compare_books(interval, int,
	gpucredit_cells.books_difference[]) IS
'Internal: one look of verify_cells(), by ranges of at most so many organisations of each cell.';

CREATE FUNCTION gpucredit_cells.verify_cells(patience interval DEFAULT '30 s')
RETURNS SETOF gpucredit_cells.verify_cells_result
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 10
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	size CONSTANT int := 10000;
	found gpucredit_cells.books_difference[];
	again gpucredit_cells.books_difference[];
BEGIN
	PERFORM gpucredit_internal.require_sense('patience',
		verify_cells.patience::text,
		verify_cells.patience > '0' AND verify_cells.patience <= '1 hour',
		'is not above 0 and at most an hour',
		'Pass how long to wait for a cell.');
	FOR look IN 1 .. 3
	LOOP
		again := gpucredit_cells.compare_books(verify_cells.patience, size, found);
		SELECT coalesce(array_agg(a), '{}') INTO found
		FROM unnest(again) a
		WHERE look = 1 OR EXISTS (SELECT FROM unnest(found) f
			WHERE (f.problem, f.org, f.subject)
				= (a.problem, a.org, a.subject));
		EXIT WHEN found = '{}';
		PERFORM pg_sleep(0.1 * (look % 3));
	END LOOP;
	RETURN QUERY SELECT DISTINCT f.problem, f.org, f.subject, f.detail
	FROM unnest(found) f
	WHERE NOT EXISTS (SELECT FROM gpucredit_cells.acknowledged k
		WHERE k.problem = f.problem AND k.org = f.org AND k.subject = f.subject
			AND k.detail = f.detail)
	ORDER BY 1, 2, 3;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.verify_cells(interval) IS
'Cells: compares the books of all cells and returns what does not hold; no row if all does. Of each organisation issued = available + held + spent + expired + revoked + leased out, in each cell; the two ends of each lease agree, or differ by a message that is under way (gpucredit_cells.under_way). Call verify() in each cell for the rest.
A row "unfit": a restore or an upgrade left something out; call gpucredit_cells.fit() there. A row that you settled by hand and that stays: gpucredit_cells.acknowledge().
patience: how long to wait for each answer of a cell; organisations are compared 10,000 at a time.
Errors: 22023.';

CREATE TYPE gpucredit_cells.cell_sums_row AS (cell text, organisations bigint,
	issued numeric, available numeric, held numeric, leased numeric,
	spent numeric, expired numeric, revoked numeric, seal_batch bigint,
	seal_root text, error text);
COMMENT ON TYPE gpucredit_cells.cell_sums_row IS
'A cell''s credit of the organisations whose home it is, and its last seal.';

CREATE FUNCTION gpucredit_cells.cell_sums(patience interval DEFAULT '30 s')
RETURNS SETOF gpucredit_cells.cell_sums_row
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 10
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN QUERY
	SELECT a.cell, s.organisations, s.issued, s.available, s.held - s.leased,
		s.leased, s.spent, s.expired, s.revoked, (s.seal->>'batch')::bigint,
		s.seal->>'root', a.error
	FROM gpucredit_cells.open_books('SELECT gpucredit_cells.books_sums()',
			cell_sums.patience) a
		LEFT JOIN LATERAL jsonb_to_record(a.answer) AS s (organisations bigint,
			issued numeric, available numeric, held numeric, leased numeric,
			spent numeric, expired numeric, revoked numeric, seal jsonb) ON true;
	PERFORM gpucredit_cells.close_books();
END
$$;
COMMENT ON FUNCTION gpucredit_cells.cell_sums(interval) IS
'Cells: a row a cell, with the credit of the organisations whose home it is, and the root of its last seal: what to publish.';

CREATE VIEW gpucredit_cells.under_way AS
	SELECT o.cell, o.org, o.lease, o.kind, o.n, o.made_at, o.tries, o.error
	FROM gpucredit_cells.outbox o;
COMMENT ON VIEW gpucredit_cells.under_way IS
'Messages of this cell that are not known to have arrived';
