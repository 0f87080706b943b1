-- registry_lineage.sql: 200,000 versions of 100 organisations.  Each was made
-- from one before it, and every fifth from two.  The first 50,000 have one
-- base, the next 10,000 another.
SET client_min_messages = warning;
SELECT setseed(0.5);
SET session_replication_role = replica;		-- rows are right; no checks
INSERT INTO gpucredit_registry.model (org, name, account, visibility, created_at)
SELECT (o % 100)::text, 'l' || o, '', 'public', now() FROM generate_series(0, 9999) o;
RESET session_replication_role;
CREATE TABLE bench.tree AS
SELECT n, b.first, ((n - b.first) * 7919 % 100)::text AS org,
	CASE WHEN n > b.first THEN b.first + floor((n - b.first) * random())::int END AS one,
	CASE WHEN n > b.first + 1 AND n % 5 = 0 THEN b.first + floor((n - b.first) * random())::int END AS two
FROM (VALUES (1, 50001), (50002, 60002), (60003, 200000)) AS b (first, last),
	generate_series(b.first, b.last) n;
WITH m AS (SELECT org, array_agg(model) AS models FROM gpucredit_registry.model
	WHERE name LIKE 'l%' GROUP BY org)
INSERT INTO gpucredit_registry.version (org, version, model, oid, title, author, created_at)
OVERRIDING SYSTEM VALUE
SELECT t.org, 1000000 + t.n, m.models[1 + t.n % array_length(m.models, 1)],
	substr(encode(sha256(t.n::text::bytea), 'hex'), 1, 40), '', '', now()
FROM bench.tree t JOIN m USING (org);
INSERT INTO gpucredit_registry.edge
SELECT p.org, 1000000 + p.n, t.org, 1000000 + t.n, 'fine_tune'
FROM bench.tree t JOIN bench.tree p ON p.n = t.one
UNION
SELECT p.org, 1000000 + p.n, t.org, 1000000 + t.n, 'fine_tune'
FROM bench.tree t JOIN bench.tree p ON p.n = t.two;
VACUUM ANALYZE gpucredit_registry.edge, gpucredit_registry.version, gpucredit_registry.model;

CREATE FUNCTION bench.base(below integer) RETURNS bigint LANGUAGE sql IMMUTABLE
RETURN 1000000 + CASE below WHEN 50000 THEN 1 ELSE 50002 END;

-- What descendants() answers, by a plain recursive query.
CREATE FUNCTION bench.plain(org text, version bigint)
RETURNS TABLE (child_org text, model text, child bigint, oid text, depth integer,
	kind text, quarantined boolean)
LANGUAGE sql STABLE
BEGIN ATOMIC
	WITH RECURSIVE below AS (
		SELECT plain.org COLLATE "C" AS org, plain.version, 0 AS depth
		UNION
		SELECT e.child_org, e.child, b.depth + 1
		FROM below b JOIN gpucredit_registry.edge e
			ON e.parent_org = b.org AND e.parent = b.version)
	SELECT v.org, m.name, v.version, v.oid, b.depth,
		(SELECT string_agg(DISTINCT e.kind, ', ') FROM gpucredit_registry.edge e
			WHERE e.child_org = v.org AND e.child = v.version),
		v.quarantined_at IS NOT NULL
	FROM (SELECT b.org, b.version, min(b.depth) AS depth FROM below b
			WHERE b.depth > 0 GROUP BY b.org, b.version) b
		JOIN gpucredit_registry.version v USING (org, version)
		JOIN gpucredit_registry.model m ON m.org = v.org AND m.model = v.model
	ORDER BY b.depth, v.org, v.version;
END;
