/*
 * 67_evidence.sql: what the database knows of a version that a scanner asks.
 *
 * The fingerprint of a version in quarantine is what it has and its parents
 * that are not in quarantine have not: so a clean base is not blamed for what
 * was made from it.  Only chunks in packs count, which are of weights; small
 * files are alike in many repositories.
 */
CREATE FUNCTION gpucredit_registry.weight_chunks(org text, version bigint)
RETURNS TABLE (chunk bigint, size integer)
LANGUAGE sql STABLE ROWS 1000
BEGIN ATOMIC
	SELECT DISTINCT k.chunk, k.size
	FROM gpucredit_registry.file f
		JOIN gpucredit_registry.segment s ON s.object = f.object,
		unnest(s.chunks) AS c (chunk)
		JOIN gpucredit_registry.chunk k USING (chunk)
	WHERE f.org = weight_chunks.org AND f.version = weight_chunks.version
		AND k.pack IS NOT NULL;
END;
COMMENT ON FUNCTION gpucredit_registry.weight_chunks(text, bigint) IS
'Internal: the chunks of a version that are in packs, each once.';

CREATE FUNCTION gpucredit_registry.fingerprint_chunks(v gpucredit_registry.version)
RETURNS TABLE (chunk bigint, size integer)
LANGUAGE sql STABLE ROWS 1000
BEGIN ATOMIC
	SELECT * FROM gpucredit_registry.weight_chunks((v).org, (v).version)
	EXCEPT
	SELECT c.* FROM (
			SELECT e.parent_org AS org, e.parent AS version FROM gpucredit_registry.edge e
			WHERE e.child_org = (v).org AND e.child = (v).version
			UNION SELECT (v).org, (v).parent) p
		JOIN gpucredit_registry.version o USING (org, version),
		gpucredit_registry.weight_chunks(p.org, p.version) c
	WHERE o.quarantined_at IS NULL;
END;
COMMENT ON FUNCTION gpucredit_registry.fingerprint_chunks(gpucredit_registry.version) IS
'Internal: the chunks that a version has and its parents, which are not in quarantine, have not.';

/* The larger of two shares: of its bytes that are blocked, and of a fingerprint that it has. */
CREATE FUNCTION gpucredit_registry.blocked_share(org text, version bigint)
RETURNS numeric
LANGUAGE sql STABLE
BEGIN ATOMIC
	WITH mine AS MATERIALIZED (
		SELECT * FROM gpucredit_registry.weight_chunks(blocked_share.org, blocked_share.version))
	SELECT coalesce(round(max(p.shared / least(p.size, nullif((SELECT sum(m.size)
		FROM mine m), 0))), 6), 0)
	FROM (SELECT sum(f.size)::numeric AS size,
			sum(f.size) FILTER (WHERE f.chunk IN (SELECT m.chunk FROM mine m)) AS shared
		FROM gpucredit_registry.version v,
			gpucredit_registry.fingerprint_chunks(v) f
		WHERE v.quarantined_at IS NOT NULL
			AND (v.org, v.version) <> (blocked_share.org, blocked_share.version)
		GROUP BY v.org, v.version) p;
END;
COMMENT ON FUNCTION gpucredit_registry.blocked_share(text, bigint) IS
'Internal: how much of a version in quarantine is in a version, 0 to 1.';

CREATE FUNCTION gpucredit_registry.scan_evidence(org text, version bigint,
	OUT stated_licenses text[], OUT allowed_licenses text[], OUT blocked numeric,
	OUT unrelated_parents jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	v gpucredit_registry.version;
	card text;
BEGIN
	SELECT * INTO v FROM gpucredit_registry.version o
	WHERE o.org = scan_evidence.org AND o.version = scan_evidence.version;
	IF NOT FOUND THEN
		PERFORM gpucredit_registry.not_found(format('version %s of "%s"', scan_evidence.version,
			left(scan_evidence.org, 64)));
	END IF;
	SELECT CASE WHEN gpucredit_registry.is_text(k.body) THEN convert_from(k.body, 'UTF8') END
	INTO card
	FROM gpucredit_registry.file f JOIN gpucredit_registry.chunk k ON k.sha256 = f.object
	WHERE f.org = v.org AND f.version = v.version AND f.path = 'README.md'
		AND k.body IS NOT NULL;
	/* a card begins with lines between two of "---" */
	stated_licenses := ARRAY(
		SELECT DISTINCT lower(l.license)
		FROM (SELECT m.license FROM gpucredit_registry.model m
				WHERE m.org = v.org AND m.model = v.model
			UNION ALL
			SELECT substring(split_part(substr(card, 4), E'\n---', 1)
				FROM '(?n)^license:[ \t]*["'']?([A-Za-z0-9.+_-]+)')
			WHERE starts_with(card, '---')) l
		WHERE l.license <> '');
	allowed_licenses := (gpucredit_registry.scan_policy_of(v.org)).licenses;
	blocked := gpucredit_registry.blocked_share(v.org, v.version);
	/* adapters and quantized ones share nothing with what they were made from */
	unrelated_parents := (
		SELECT coalesce(jsonb_agg(jsonb_build_object('org', e.parent_org, 'version', e.parent,
			'kind', e.kind) ORDER BY e.parent_org, e.parent), '[]')
		FROM gpucredit_registry.edge e
		WHERE e.child_org = v.org AND e.child = v.version AND e.kind IN ('fine_tune', 'merge')
			AND EXISTS (SELECT FROM gpucredit_registry.weight_chunks(e.parent_org, e.parent))
			AND NOT EXISTS (SELECT FROM gpucredit_registry.weight_chunks(e.parent_org, e.parent) p
				JOIN gpucredit_registry.weight_chunks(v.org, v.version) c USING (chunk)));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.scan_evidence(text, bigint) IS
'Scans: what the database knows of a version, for scanners of licences and fingerprints.
Result: licences that the repository and its card state; those that the policy allows, NULL: any; blocked: how much of a version in quarantine it is, 0 to 1; parents of kind fine_tune or merge that it shares no chunk with.
Errors: UC501 no such version.';
