/*
 * 67_evidence.sql: what a scanner can query about a version.
 *
 * The fingerprint of a version in quarantine consists of the chunks that its
 * parents outside quarantine do not have, so that a clean base model does not
 * match what was made from it. Only chunks in packs count, which contain
 * weights; small files are similar in many repositories.
 */
CREATE FUNCTION gpucredit_registry.weight_chunks(org text, version bigint)
RETURNS int8multirange
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT coalesce(range_agg(b.packed), '{}')
	FROM gpucredit_registry.file f JOIN gpucredit_registry.object b ON b.sha256 = f.object
	WHERE f.org = weight_chunks.org AND f.version = weight_chunks.version;
END;
COMMENT ON FUNCTION gpucredit_registry.weight_chunks(text, bigint) IS
'Internal: the chunks of a version that are in packs.';

CREATE FUNCTION gpucredit_registry.fingerprint_chunks(v gpucredit_registry.version)
RETURNS int8multirange
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT gpucredit_registry.weight_chunks((v).org, (v).version)
		- coalesce(range_agg(gpucredit_registry.weight_chunks(o.org, o.version)), '{}')
	FROM (
			SELECT e.parent_org AS org, e.parent AS version FROM gpucredit_registry.edge e
			WHERE e.child_org = (v).org AND e.child = (v).version
			UNION SELECT (v).org, (v).parent) p
		JOIN gpucredit_registry.version o USING (org, version)
	WHERE o.quarantined_at IS NULL;
END;
COMMENT ON FUNCTION gpucredit_registry.fingerprint_chunks(gpucredit_registry.version) IS
'Internal: the chunks that a version has and its parents, which are not in quarantine, have not.';

CREATE FUNCTION gpucredit_registry.bytes_of(chunks int8multirange) RETURNS numeric
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT coalesce(sum(k.size), 0)
	FROM unnest(bytes_of.chunks) r
		JOIN gpucredit_registry.chunk k ON k.chunk >= lower(r) AND k.chunk < upper(r);
END;
COMMENT ON FUNCTION gpucredit_registry.bytes_of(int8multirange) IS
'Internal: how many bytes chunks have.';

/*
 * Returns the larger of two shares of a version: the share of its bytes that
 * are blocked, and the share of a fingerprint that it has. Only versions that
 * have one of its chunks are compared.
 */
CREATE FUNCTION gpucredit_registry.blocked_share(org text, version bigint)
RETURNS numeric
LANGUAGE sql STABLE
BEGIN ATOMIC
	WITH mine AS MATERIALIZED (
		SELECT gpucredit_registry.weight_chunks(blocked_share.org, blocked_share.version)
			AS chunks),
	kin AS (
		SELECT DISTINCT f.org, f.version, m.chunks
		FROM mine m
			JOIN gpucredit_registry.object b ON b.packed && m.chunks AND b.packed <> '{}'
			JOIN gpucredit_registry.possession p ON p.object = b.sha256
			JOIN gpucredit_registry.file f ON f.org = p.org AND f.object = p.object
		WHERE (f.org, f.version) <> (blocked_share.org, blocked_share.version)),
	blocked AS MATERIALIZED (
		SELECT k.chunks AS mine, gpucredit_registry.fingerprint_chunks(v) AS chunks
		FROM kin k JOIN gpucredit_registry.version v USING (org, version)
		WHERE v.quarantined_at IS NOT NULL)
	SELECT coalesce(round(max(gpucredit_registry.bytes_of(b.chunks * b.mine)
		/ least(gpucredit_registry.bytes_of(b.chunks),
			gpucredit_registry.bytes_of(b.mine))), 6), 0)
	FROM blocked b
	WHERE b.chunks && b.mine;
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
	/* A card begins with metadata between two lines "---". */
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
	/* Adapters and quantized versions share no chunk with their parents. */
	unrelated_parents := (
		SELECT coalesce(jsonb_agg(jsonb_build_object('org', e.parent_org, 'version', e.parent,
			'kind', e.kind) ORDER BY e.parent_org, e.parent), '[]')
		FROM gpucredit_registry.edge e
		WHERE e.child_org = v.org AND e.child = v.version AND e.kind IN ('fine_tune', 'merge')
			AND gpucredit_registry.weight_chunks(e.parent_org, e.parent) <> '{}'
			AND NOT gpucredit_registry.weight_chunks(e.parent_org, e.parent)
				&& gpucredit_registry.weight_chunks(v.org, v.version));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.scan_evidence(text, bigint) IS
'Scans: what the database knows of a version, for scanners of licences and fingerprints.
Result: licences that the repository and its card state; those that the policy allows, NULL: any; blocked: how much of a version in quarantine it is, 0 to 1; parents of kind fine_tune or merge that it shares no chunk with.
Errors: UC501 no such version.';
