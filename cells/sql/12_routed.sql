/*
 * 12_routed.sql: helpers of a router's functions for nodes, batches and
 * metrics.
 */

/*
 * Nodes of a cell that still run attempts of an organisation that has moved to
 * another cell.
 */
CREATE TABLE gpucredit_cells.visit (
	node text COLLATE "C" NOT NULL,
	cell text COLLATE "C" NOT NULL,
	CONSTRAINT visit_pkey PRIMARY KEY (node, cell)
);
COMMENT ON TABLE gpucredit_cells.visit IS
'The directory: nodes that run attempts of organisations that moved, and the cells that answer for those';
COMMENT ON COLUMN gpucredit_cells.visit.node IS 'The node.';
COMMENT ON COLUMN gpucredit_cells.visit.cell IS 'The other cell.';
SELECT pg_catalog.pg_extension_config_dump('gpucredit_cells.visit', '');

CREATE FUNCTION gpucredit_cells.visited(node text) RETURNS TABLE (number int)
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE ROWS 1
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT c.number
	FROM gpucredit_cells.visit v JOIN gpucredit_cells.cell c USING (cell)
	WHERE v.node = visited.node;
END;
COMMENT ON FUNCTION gpucredit_cells.visited(text) IS
'Router: the other cells that a node''s heartbeat goes to.';

/*
 * Whether a cell's answer about an attempt counts: of two answers, that of the
 * organisation's home does.
 */
CREATE FUNCTION gpucredit_cells.speaks_for(number int, org text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT NOT EXISTS (SELECT FROM gpucredit_cells.home h
			JOIN gpucredit_cells.cell c USING (cell)
		WHERE h.org = speaks_for.org AND c.number <> speaks_for.number);
END;
COMMENT ON FUNCTION gpucredit_cells.speaks_for(int, text) IS
'Router: false where another cell is the organisation''s home.';

CREATE TABLE gpucredit_cells.guest_node (
	node text COLLATE "C" NOT NULL,
	CONSTRAINT guest_node_pkey PRIMARY KEY (node)
);
COMMENT ON TABLE gpucredit_cells.guest_node IS
'Nodes of other cells, here for attempts of organisations that moved';
COMMENT ON COLUMN gpucredit_cells.guest_node.node IS 'The node.';
SELECT pg_catalog.pg_extension_config_dump('gpucredit_cells.guest_node', '');

/* Asks all cells, as the caller, whether they have a node. */
CREATE FUNCTION gpucredit_cells.has_node(node text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT EXISTS (SELECT FROM gpucredit.node n
		WHERE n.node = has_node.node
			AND NOT EXISTS (SELECT FROM gpucredit_cells.guest_node g
				WHERE g.node = n.node));
END;
COMMENT ON FUNCTION gpucredit_cells.has_node(text) IS
'Internal: is the node one of this cell''s own?';

CREATE FUNCTION gpucredit_cells.cell_of_node(node text) RETURNS int
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	/* If no cell has the node, the first cell refuses the call. */
	RETURN coalesce((SELECT pg_catalog.min(r.number)
		FROM gpucredit_remote.has_node($1) r WHERE r.is_there), 0);
END
$$;
COMMENT ON FUNCTION gpucredit_cells.cell_of_node(text) IS
'Router: which cell has a node that the directory does not list.';

CREATE FUNCTION gpucredit_cells.cell_for_node(node text) RETURNS int
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	known int := (SELECT pg_catalog.min(r.number)
		FROM gpucredit_remote.has_node($1) r
		WHERE r.is_there OR r.cells = 1);
BEGIN
	IF known IS NULL THEN
		RAISE EXCEPTION 'the cell of the new node is not known'
			USING ERRCODE = 'UC703',
			DETAIL = 'Neither the node nor its pool is in the directory.',
			HINT = 'Call gpucredit_cells.set_location() first.';
	END IF;
	RETURN known;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.cell_for_node(text) IS
'Router: in which cell a node is registered that the directory does not list: the one that has it, or the only one.
Errors: UC703 the directory must say.';

CREATE FUNCTION gpucredit_cells.node_here(node text)
RETURNS TABLE (number int, is_there boolean, cells int)
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE ROWS 1
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT c.number, gpucredit_cells.has_node(node_here.node),
		(SELECT count(*)::int FROM gpucredit_cells.cell)
	FROM gpucredit_cells.self s JOIN gpucredit_cells.cell c USING (cell);
END;
COMMENT ON FUNCTION gpucredit_cells.node_here(text) IS
'Internal: this cell''s number, and whether it has the node.';

CREATE FUNCTION gpucredit_cells.at_homes(org text[], homes text[], epochs bigint[])
RETURNS text[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	FOR i IN 1 .. coalesce(cardinality(homes), 0) LOOP
		PERFORM gpucredit_cells.at_home(homes[i], epochs[i]);
	END LOOP;
	RETURN org;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.at_homes(text[], text[], bigint[]) IS
'Internal: the organisations of a batch, if this cell is the home of each; homes names each once, with its epoch.';

CREATE FUNCTION gpucredit_cells.make_remote_batch() RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	EXECUTE format($f$
		CREATE FUNCTION gpucredit_proxy.meter_batch(gc_number int, a1 text[],
			gc_homes text[], gc_epochs bigint[], a2 bigint[], a3 int[], a4 interval[], a5 bigint[],
			a6 double precision[])
		RETURNS SETOF gpucredit.meter_batch_result LANGUAGE plproxy VOLATILE AS $b$
			CLUSTER 'gpucredit_cells';
			RUN ON gc_number;
			SELECT %s FROM gpucredit.meter_batch(gpucredit_cells.at_homes(a1::text[],
				gc_homes::text[], gc_epochs::bigint[]), a2::bigint[], a3::int[], a4::interval[],
				a5::bigint[], a6::double precision[]);
		$b$ $f$, gpucredit_cells.columns_of('gpucredit.meter_batch_result'));
	EXECUTE $f$
		CREATE FUNCTION gpucredit_proxy.has_node(a1 text, OUT number int,
			OUT is_there boolean, OUT cells int)
		RETURNS SETOF record LANGUAGE plproxy VOLATILE AS $b$
			CLUSTER 'gpucredit_cells';
			RUN ON ALL;
			SELECT * FROM gpucredit_cells.node_here(a1::text);
		$b$ $f$;
	EXECUTE $f$
		CREATE FUNCTION gpucredit_proxy.act_as(gc_number int, a1 text, a2 text)
		RETURNS int LANGUAGE plproxy VOLATILE AS $b$
			CLUSTER 'gpucredit_cells';
			RUN ON gc_number;
			SELECT gpucredit_cells.act_as(a1::text, a2::text);
		$b$ $f$;
	PERFORM gpucredit_cells.make_caller('meter_batch', 'gc_number int, a1 text[],'
		' gc_homes text[], gc_epochs bigint[], a2 bigint[], a3 int[], a4 interval[],'
		' a5 bigint[], a6 double precision[]',
		'RETURNS SETOF gpucredit.meter_batch_result', false);
	PERFORM gpucredit_cells.make_caller('has_node', 'a1 text, OUT number int,'
		' OUT is_there boolean, OUT cells int', 'RETURNS SETOF record', true);
END
$$;
COMMENT ON FUNCTION gpucredit_cells.make_remote_batch() IS
'Internal: the functions of gpucredit_proxy that are not one of gpucredit''s.';

CREATE FUNCTION gpucredit_cells.same_length(org text[], job bigint[], attempt int[],
	elapsed interval[], progress bigint[], utilization double precision[]) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(cardinality(org) = ALL (ARRAY[cardinality(job), cardinality(attempt),
		cardinality(elapsed), coalesce(cardinality(progress), cardinality(org)),
		coalesce(cardinality(utilization), cardinality(org))])
		AND array_ndims(org) = 1, false);
END;
COMMENT ON FUNCTION gpucredit_cells.same_length(text[], bigint[], int[], interval[], bigint[], double precision[]) IS
'Router: can a batch be divided? One that cannot goes to the first cell, which refuses it.';

CREATE FUNCTION gpucredit_cells.meter_batch(org text[], job bigint[], attempt int[],
	elapsed interval[], progress bigint[], utilization double precision[])
RETURNS SETOF gpucredit.meter_batch_result
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	at record;
	part record;
	orgs_of record;
	orgs text[];
	numbers int[];
	epochs bigint[];
BEGIN
	/*
	 * The rows are many and belong to few organisations, so each home is
	 * looked up once.
	 */
	SELECT pg_catalog.array_agg(o.org), pg_catalog.array_agg(h.number),
		pg_catalog.array_agg(h.epoch)
	INTO orgs, numbers, epochs
	FROM (SELECT DISTINCT u.org FROM pg_catalog.unnest($1) AS u (org)) o,
		LATERAL gpucredit_cells.home_of(o.org) h;
	FOR part IN
		SELECT h.number, pg_catalog.array_agg(u.i ORDER BY u.i) AS i,
			pg_catalog.array_agg(u.org ORDER BY u.i) AS org,
			pg_catalog.array_agg(u.job ORDER BY u.i) AS job,
			pg_catalog.array_agg(u.attempt ORDER BY u.i) AS attempt,
			pg_catalog.array_agg(u.elapsed ORDER BY u.i) AS elapsed,
			pg_catalog.array_agg(u.progress ORDER BY u.i) AS progress,
			pg_catalog.array_agg(u.utilization ORDER BY u.i) AS utilization
		FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2),
				pg_catalog.unnest($3), pg_catalog.unnest($4),
				pg_catalog.unnest($5), pg_catalog.unnest($6)) WITH ORDINALITY
				AS u (org, job, attempt, elapsed, progress, utilization, i)
			JOIN ROWS FROM (pg_catalog.unnest(orgs), pg_catalog.unnest(numbers),
				pg_catalog.unnest(epochs)) AS h (org, number, epoch)
				ON h.org IS NOT DISTINCT FROM u.org
		GROUP BY h.number
	LOOP
		SELECT pg_catalog.array_agg(h.org) AS orgs, pg_catalog.array_agg(h.epoch) AS epochs
		INTO orgs_of
		FROM ROWS FROM (pg_catalog.unnest(orgs), pg_catalog.unnest(numbers),
			pg_catalog.unnest(epochs)) AS h (org, number, epoch)
		WHERE h.number = part.number;
		FOR at IN
			SELECT r.* FROM gpucredit_remote.meter_batch(part.number, part.org,
				orgs_of.orgs, orgs_of.epochs, part.job, part.attempt, part.elapsed,
				CASE WHEN $5 IS NULL THEN NULL ELSE part.progress END,
				CASE WHEN $6 IS NULL THEN NULL ELSE part.utilization END) r
		LOOP
			at.ordinal := part.i[at.ordinal];
			RETURN NEXT at;
		END LOOP;
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.meter_batch(text[], bigint[], int[], interval[], bigint[], double precision[]) IS
'Router: a batch, divided among the cells.';

CREATE FUNCTION gpucredit_cells.text_of_metrics(samples gpucredit.metrics_result[])
RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT string_agg(f.text, '' ORDER BY f.family COLLATE "C")
	FROM (SELECT m.family, format(E'# HELP %s %s\n# TYPE %s %s\n', m.family,
			min(m.help), m.family, m.type) || string_agg(m.name
				|| gpucredit_internal.metric_labels(m.labels) || ' ' || m.value
				|| E'\n', '' ORDER BY m.labels ->> 'cell' COLLATE "C",
				m.labels ->> 'operation' COLLATE "C",
				m.name COLLATE "C", (m.labels ->> 'le')::float8,
				m.labels::text COLLATE "C") AS text
		FROM unnest(text_of_metrics.samples) m
		GROUP BY m.family, m.type) f;
END;
COMMENT ON FUNCTION gpucredit_cells.text_of_metrics(gpucredit.metrics_result[]) IS
'Router: samples in Prometheus'' text format.';
