/*
 * 30_verify_cells.sql: compares the books of all cells.
 *
 * Each cell returns its figures from one snapshot, and this function compares
 * them. The snapshots are of different instants, so a difference counts only
 * if each of several comparisons finds it.
 */
CREATE FUNCTION gpucredit_cells.books() RETURNS jsonb
LANGUAGE sql STABLE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT jsonb_build_object('cell', gpucredit_cells.here(),
		'unfit', (SELECT coalesce(jsonb_agg(u.what), '[]')
			FROM gpucredit_cells.unfit() u),
		'seal', (SELECT jsonb_build_object('batch', s.batch,
				'root', encode(s.root, 'hex'))
			FROM gpucredit.seal s ORDER BY s.batch DESC LIMIT 1),
		'orgs', (SELECT coalesce(jsonb_agg(to_jsonb(f)), '[]') FROM (
			SELECT r.org, r.state, s.*
			FROM gpucredit_cells.resident r CROSS JOIN LATERAL (
				SELECT coalesce(sum(b.issued::numeric - b.moved::numeric), 0)
						AS issued,
					coalesce(sum(b.available::numeric), 0) AS available,
					coalesce(sum(b.held::numeric), 0) AS held,
					coalesce(sum(b.spent::numeric), 0) AS spent,
					coalesce(sum(b.expired::numeric), 0) AS expired,
					coalesce(sum(b.revoked::numeric), 0) AS revoked
				FROM gpucredit.bucket_whole b WHERE b.org = r.org) s) f),
		'out', (SELECT coalesce(jsonb_agg(to_jsonb(o)
				|| jsonb_build_object('home_held',
					gpucredit_cells.held_for(o))), '[]')
			FROM gpucredit_cells.lease_out o WHERE o.status = 'granted'),
		'in', (SELECT coalesce(jsonb_agg(to_jsonb(l)
				|| jsonb_build_object('live',
					to_jsonb(gpucredit_cells.lease_figures(l)))), '[]')
			FROM gpucredit_cells.lease_in l),
		'outbox', (SELECT coalesce(jsonb_agg(to_jsonb(m)), '[]')
			FROM gpucredit_cells.outbox m));
END;
COMMENT ON FUNCTION gpucredit_cells.books() IS
'Cells: this cell''s figures, for verify_cells() of any cell or router.';

CREATE FUNCTION gpucredit_cells.ask_all(query text, patience interval)
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
			answer := gpucredit_cells.ask_in_time(
				gpucredit_cells.connect_peer(cell, patience), query, patience);
		EXCEPTION WHEN OTHERS THEN
			error := SQLSTATE || ' ' || SQLERRM;
		END;
		PERFORM gpucredit_cells.disconnect('gpucredit_cells ' || cell);
		RETURN NEXT;
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.ask_all(text, interval) IS
'Internal: every cell''s result of a query.';

CREATE TYPE gpucredit_cells.verify_cells_result AS (problem text, org text,
	subject text, detail text);
COMMENT ON TYPE gpucredit_cells.verify_cells_result IS
'What does not hold over all cells.';

/* Compares the two ends of each lease. */
CREATE FUNCTION gpucredit_cells.compare_leases(books jsonb[])
RETURNS SETOF gpucredit_cells.verify_cells_result
LANGUAGE sql STABLE PARALLEL UNSAFE ROWS 10
SET search_path = pg_catalog, pg_temp
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

CREATE FUNCTION gpucredit_cells.compare_organisations(books jsonb[])
RETURNS SETOF gpucredit_cells.verify_cells_result
LANGUAGE sql STABLE PARALLEL UNSAFE ROWS 10
SET search_path = pg_catalog, pg_temp
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
	WHERE o.org IS NULL
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
COMMENT ON FUNCTION gpucredit_cells.compare_organisations(jsonb[]) IS
'Internal: organisations whose credit does not add up over the cells.';

CREATE FUNCTION gpucredit_cells.compare_books(patience interval)
RETURNS SETOF gpucredit_cells.verify_cells_result
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 10
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	one record;
	found gpucredit_cells.verify_cells_result;
	books jsonb[] := '{}';
BEGIN
	IF NOT EXISTS (SELECT FROM gpucredit_cells.self) THEN
		RETURN QUERY SELECT 'unfit', '', 'router', u.what
		FROM gpucredit_cells.unfit() u;
	END IF;
	FOR one IN SELECT * FROM gpucredit_cells.ask_all(
		'SELECT gpucredit_cells.books()', patience)
	LOOP
		IF one.answer IS NULL THEN
			found := ('unreachable', '', 'cell ' || one.cell, one.error);
			RETURN NEXT found;
		ELSIF one.answer->>'cell' <> one.cell THEN
			found := ('wrong_cell', '', 'cell ' || one.cell,
				format('it says that it is %s', one.answer->>'cell'));
			RETURN NEXT found;
		ELSE
			books := array_append(books, one.answer);
			RETURN QUERY SELECT 'unfit', '', 'cell ' || one.cell, u
			FROM jsonb_array_elements_text(one.answer->'unfit') u;
		END IF;
	END LOOP;
	RETURN QUERY SELECT * FROM gpucredit_cells.compare_organisations(books);
	RETURN QUERY SELECT * FROM gpucredit_cells.compare_leases(books);
END
$$;
COMMENT ON FUNCTION gpucredit_cells.compare_books(interval) IS
'Internal: one look of verify_cells().';

CREATE FUNCTION gpucredit_cells.verify_cells(patience interval DEFAULT '30 s')
RETURNS SETOF gpucredit_cells.verify_cells_result
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 10
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	found gpucredit_cells.verify_cells_result[];
	again gpucredit_cells.verify_cells_result[];
BEGIN
	PERFORM gpucredit_internal.require_sense('patience',
		verify_cells.patience::text,
		verify_cells.patience > '0' AND verify_cells.patience <= '1 hour',
		'is not above 0 and at most an hour',
		'Pass how long to wait for a cell.');
	FOR look IN 1 .. 3
	LOOP
		SELECT coalesce(array_agg(c), '{}') INTO again
		FROM gpucredit_cells.compare_books(verify_cells.patience) c;
		SELECT coalesce(array_agg(a), '{}') INTO found
		FROM unnest(again) a
		WHERE look = 1 OR EXISTS (SELECT FROM unnest(found) f
			WHERE (f.problem, f.org, f.subject)
				= (a.problem, a.org, a.subject));
		EXIT WHEN found = '{}';
		PERFORM pg_sleep(0.1 * (look % 3));
	END LOOP;
	RETURN QUERY SELECT f.* FROM unnest(found) f ORDER BY 1, 2, 3;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.verify_cells(interval) IS
'Cells: compares the books of all cells and returns what does not hold; no row if all does. Of each organisation issued = available + held + spent + expired + revoked + leased out, in each cell; the two ends of each lease agree, or differ by a message that is under way (gpucredit_cells.under_way). Call verify() in each cell for the rest.
A row "unfit": a restore or an upgrade left something out; call gpucredit_cells.fit() there.
patience: how long to wait for each cell.
Errors: 22023.';

CREATE TYPE gpucredit_cells.cell_sums_row AS (cell text, organisations bigint,
	issued numeric, available numeric, held numeric, leased numeric,
	spent numeric, expired numeric, revoked numeric, seal_batch bigint,
	seal_root text, error text);
COMMENT ON TYPE gpucredit_cells.cell_sums_row IS
'A cell''s credit of the organisations whose home it is, and its last seal.';

CREATE FUNCTION gpucredit_cells.cell_sums(patience interval DEFAULT '30 s')
RETURNS SETOF gpucredit_cells.cell_sums_row
LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 10
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT a.cell, s.organisations, s.issued, s.available,
		s.held - coalesce(l.held, 0), coalesce(l.held, 0), s.spent, s.expired,
		s.revoked, (a.answer->'seal'->>'batch')::bigint,
		a.answer->'seal'->>'root', a.error
	FROM gpucredit_cells.ask_all('SELECT gpucredit_cells.books()',
			cell_sums.patience) a
		CROSS JOIN LATERAL (
			SELECT count(*) AS organisations, sum(f.issued) AS issued,
				sum(f.available) AS available, sum(f.held) AS held,
				sum(f.spent) AS spent, sum(f.expired) AS expired,
				sum(f.revoked) AS revoked
			FROM jsonb_to_recordset(a.answer->'orgs') AS f (state text,
				issued numeric, available numeric, held numeric,
				spent numeric, expired numeric, revoked numeric)
			WHERE f.state IN ('home', 'moving')) s
		CROSS JOIN LATERAL (
			SELECT sum(o.home_held) AS held
			FROM jsonb_to_recordset(a.answer->'out')
				AS o (home_held numeric)) l;
END;
COMMENT ON FUNCTION gpucredit_cells.cell_sums(interval) IS
'Cells: a row a cell, with the credit of the organisations whose home it is, and the root of its last seal: what to publish.';

CREATE VIEW gpucredit_cells.under_way AS
	SELECT o.cell, o.org, o.lease, o.kind, o.n, o.made_at, o.tries, o.error
	FROM gpucredit_cells.outbox o;
COMMENT ON VIEW gpucredit_cells.under_way IS
'Messages of this cell that are not known to have arrived';
