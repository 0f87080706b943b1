/*
 * 97_verify.sql: the invariants of all that is stored.
 */
CREATE FUNCTION gpucredit_registry.verify()
RETURNS TABLE (org text, invariant text, detail text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	/* Each organisation pays for the chunks of its objects and uploads. */
	WITH
	counted AS (
		SELECT u.org, u.chunk, count(*) AS uses
		FROM (
			SELECT p.org, c.chunk, p.object, NULL::bigint AS upload, 0 AS part, 0::bigint AS byte
			FROM gpucredit_registry.possession p
				JOIN gpucredit_registry.segment s ON s.object = p.object,
				unnest(s.chunks) AS c (chunk)
			UNION
			SELECT r.org, c.chunk, NULL, r.upload, r.part, r.first_byte
			FROM gpucredit_registry.upload_run r, unnest(r.chunks) AS c (chunk)) u
		GROUP BY u.org, u.chunk)
	SELECT coalesce(c.org, o.org), 'chunks_are_used',
		format('chunk %s: %s uses, %s counted', coalesce(c.chunk, o.chunk),
			coalesce(o.uses, 0), coalesce(c.uses, 0))
	FROM counted c FULL JOIN gpucredit_registry.org_chunk o USING (org, chunk)
	WHERE c.uses IS DISTINCT FROM o.uses
	UNION ALL
	SELECT coalesce(o.org, u.org), 'usage_is_unique_bytes', format('%s bytes, usage says %s',
		coalesce(o.bytes, 0), coalesce(u.bytes, 0))
	FROM (SELECT o.org, sum(c.size) AS bytes FROM gpucredit_registry.org_chunk o
			JOIN gpucredit_registry.chunk c USING (chunk) GROUP BY o.org) o
		FULL JOIN (SELECT DISTINCT ON (u.org) u.org, u.bytes
			FROM gpucredit_registry.usage u ORDER BY u.org, u.day DESC) u USING (org)
	WHERE coalesce(o.bytes, 0) <> coalesce(u.bytes, 0)
	UNION ALL
	SELECT NULL, 'object_is_its_chunks', format('object %s: %s bytes, its chunks have %s',
		encode(b.sha256, 'hex'), b.size, coalesce(s.bytes, 0))
	FROM gpucredit_registry.object b LEFT JOIN (
		SELECT s.object, sum(c.size) AS bytes
		FROM gpucredit_registry.segment s, unnest(s.chunks) AS k (chunk)
			JOIN gpucredit_registry.chunk c USING (chunk)
		GROUP BY s.object) s ON s.object = b.sha256
	WHERE b.size <> coalesce(s.bytes, 0)
	UNION ALL
	SELECT NULL, 'packed_is_its_chunks', format('object %s', encode(b.sha256, 'hex'))
	FROM gpucredit_registry.object b
	WHERE b.packed IS DISTINCT FROM (
		SELECT coalesce(range_agg(int8range(c.chunk, c.chunk, '[]'))
			FILTER (WHERE c.pack IS NOT NULL), '{}')
		FROM gpucredit_registry.segment s, unnest(s.chunks) AS k (chunk)
			JOIN gpucredit_registry.chunk c USING (chunk)
		WHERE s.object = b.sha256)
	UNION ALL
	SELECT NULL, 'chunk_is_there', format('object %s names chunk %s', encode(s.object, 'hex'), k.chunk)
	FROM gpucredit_registry.segment s, unnest(s.chunks) AS k (chunk)
	WHERE NOT EXISTS (SELECT FROM gpucredit_registry.chunk c WHERE c.chunk = k.chunk)
	UNION ALL
	SELECT NULL, 'body_has_its_digest', format('chunk %s', c.chunk)
	FROM gpucredit_registry.chunk c
	WHERE c.body IS NOT NULL AND sha256(c.body) <> c.sha256
	UNION ALL
	SELECT NULL, 'condemned_is_empty', format('pack %s', p.pack)
	FROM gpucredit_registry.pack p
	WHERE p.state = 'condemned'
		AND EXISTS (SELECT FROM gpucredit_registry.chunk c WHERE c.pack = p.pack)
	UNION ALL
	SELECT v.org, 'files_are_counted', format('version %s: %s files, %s counted', v.version,
		s.files, v.files)
	FROM (
		SELECT n.org, n.line, n.version,
			sum(sum(n.change)) OVER (PARTITION BY n.org, n.line ORDER BY n.version) AS files
		FROM (
			SELECT e.org, e.line, e.since AS version, 1 AS change FROM gpucredit_registry.entry e
			UNION ALL
			SELECT e.org, e.line, e.until, -1 FROM gpucredit_registry.entry e
			WHERE e.until IS NOT NULL
			UNION ALL
			SELECT o.org, o.line, o.version, 0 FROM gpucredit_registry.version o) n
		GROUP BY n.org, n.line, n.version) s
		JOIN gpucredit_registry.version v USING (org, version)
	WHERE v.line = s.line AND v.dropped_at IS NULL AND s.files <> v.files
	UNION ALL
	SELECT f.org, 'file_has_its_size', format('version %s: %s', f.since, f.path)
	FROM gpucredit_registry.entry f JOIN gpucredit_registry.object b ON b.sha256 = f.object
	WHERE f.size <> b.size
	UNION ALL
	SELECT e.child_org, 'quarantine_is_inherited', format('version %s', e.child)
	FROM gpucredit_registry.edge e
		JOIN gpucredit_registry.version p ON p.org = e.parent_org AND p.version = e.parent
		JOIN gpucredit_registry.version c ON c.org = e.child_org AND c.version = e.child
	WHERE p.quarantined_at IS NOT NULL AND c.quarantined_at IS NULL
		AND c.created_at > p.quarantined_at
		AND NOT EXISTS (SELECT FROM gpucredit_registry.event v
			WHERE v.org = c.org AND v.operation = 'release_quarantine'
				AND v.detail ->> 'version' = c.version::text)
	UNION ALL
	SELECT s.org, 'failed_is_restricted', format('version %s, scan "%s"', s.version, s.scanner)
	FROM gpucredit_registry.scan s JOIN gpucredit_registry.version v USING (org, version)
	WHERE s.verdict = 'failed' AND v.restricted_at IS NULL
	UNION ALL
	SELECT v.org, 'restricted_has_failed', format('version %s', v.version)
	FROM gpucredit_registry.version v JOIN gpucredit_registry.model m USING (org, model)
	WHERE v.restricted_at IS NOT NULL AND m.deleted_at IS NULL
		AND NOT EXISTS (SELECT FROM gpucredit_registry.scan s
			WHERE s.org = v.org AND s.version = v.version
				AND coalesce(s.verdict, 'failed') = 'failed')
	UNION ALL
	SELECT v.org, 'kept_has_its_files', format('version %s', v.version)
	FROM gpucredit_registry.version v JOIN gpucredit_registry.model m USING (org, model)
	WHERE v.dropped_at IS NOT NULL
		AND (EXISTS (SELECT FROM gpucredit_registry.legal_hold h
				WHERE h.org = v.org AND h.version = v.version)
			OR m.deleted_at IS NULL AND EXISTS (SELECT FROM gpucredit_registry.ref r
				WHERE r.org = v.org AND r.model = v.model AND r.version = v.version))
	UNION ALL
	SELECT o.org, 'origin_is_its_files', format('version %s', o.version)
	FROM gpucredit_registry.origin o
		JOIN gpucredit_registry.version v USING (org, version)
	WHERE v.dropped_at IS NULL AND o.files <> sha256(convert_to((
		SELECT coalesce(string_agg(f.path || E'\n' || encode(f.object, 'hex'), E'\n'
			ORDER BY f.path), '')
		FROM gpucredit_registry.file f
		WHERE f.org = o.org AND f.version = o.version), 'UTF8'))
	UNION ALL
	SELECT o.org, 'mirror_has_its_turn', format('repository %s of remote "%s"', o.model, o.remote)
	FROM gpucredit_registry.mirror o
		LEFT JOIN gpucredit_registry.mirror_turn t USING (org, remote)
	WHERE t.ready_at IS NULL OR t.ready_at > greatest(o.ready_at, t.claimed_at)
	UNION ALL
	/* What is past its retention has left the log; the sums stay. */
	SELECT d.org, 'downloads_are_counted', format(
		'repository %s: %s downloads of %s bytes in the log, %s of %s counted', d.model,
		d.downloads, d.bytes, coalesce(e.downloads, 0), coalesce(e.bytes, 0))
	FROM (SELECT l.org, l.model, count(*) AS downloads, sum(l.bytes) AS bytes
			FROM gpucredit_registry.download l GROUP BY l.org, l.model) d
		LEFT JOIN (SELECT g.org, g.model, sum(g.downloads) AS downloads, sum(g.bytes) AS bytes
			FROM gpucredit_registry.egress g GROUP BY g.org, g.model) e USING (org, model)
	WHERE d.downloads > coalesce(e.downloads, 0) OR d.bytes > coalesce(e.bytes, 0)
	UNION ALL
	SELECT b.org, 'bill_is_captured', format('day %s, account "%s": %s billed', b.day, b.account,
		b.amount)
	FROM gpucredit_registry.bill b
	WHERE b.paid_at IS NOT NULL AND b.amount > 0
		AND NOT EXISTS (SELECT FROM gpucredit_registry.event v
			WHERE v.org = b.org AND v.operation = 'bill'
				AND v.detail ->> 'day' = b.day::text AND v.detail ->> 'account' = b.account
				AND (v.detail ->> 'amount')::numeric = b.amount);
END;
COMMENT ON FUNCTION gpucredit_registry.verify() IS
'Upkeep: what does not hold, of all that the registry stores; nothing if all is well. "registryd verify" reads the packs.
Result: the organisation (NULL: none), the invariant and what breaks it.';
