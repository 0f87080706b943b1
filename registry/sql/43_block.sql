/*
 * 43_block.sql: blocked bytes, which nobody may read, in any version.
 *
 * quarantine() blocks the files of the version that it names, so that the same
 * bytes are blocked if they are committed elsewhere; an operator can also
 * block digests of a list. A quarantine that a version inherits blocks
 * nothing: its author chose its files, and could otherwise have other people's
 * files blocked.
 */
CREATE TABLE gpucredit_registry.blocked (
	object bytea NOT NULL CHECK (octet_length(object) = 32),
	org text COLLATE "C" NOT NULL,		/* '' with version 0 for a digest of a
										 * list */
	version bigint NOT NULL,
	reason text NOT NULL,
	blocked_at timestamptz NOT NULL,
	CONSTRAINT blocked_pkey PRIMARY KEY (object, org, version)
);
CREATE INDEX blocked_version ON gpucredit_registry.blocked (org, version);
COMMENT ON TABLE gpucredit_registry.blocked IS
'Digests that are read nowhere, and the version in quarantine or the list that names each';

CREATE FUNCTION gpucredit_registry.is_blocked(object bytea) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT EXISTS (SELECT FROM gpucredit_registry.blocked b
			WHERE b.object = is_blocked.object)
		OR EXISTS (SELECT FROM gpucredit_registry.fingerprint p
			WHERE p.object = is_blocked.object);
END;
COMMENT ON FUNCTION gpucredit_registry.is_blocked(bytea) IS
'Internal: is the reading of these bytes blocked?';

/*
 * Blocks files of a version that is put into quarantine. By default these are
 * the files that clients uploaded as binary files, except those that an older
 * version outside quarantine has, because they belong to somebody else. For an
 * image it is only the manifest, because images share most layers.
 */
CREATE FUNCTION gpucredit_registry.block_files(v gpucredit_registry.version,
	files text[], reason text) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	missing text := (SELECT min(w.path) FROM unnest(block_files.files) AS w (path)
		WHERE NOT EXISTS (SELECT FROM gpucredit_registry.file f
			WHERE f.org = (v).org AND f.version = (v).version AND f.path = w.path));
	kind text := (SELECT m.kind FROM gpucredit_registry.model m
		WHERE m.org = (v).org AND m.model = (v).model);
	n bigint;
BEGIN
	IF missing IS NOT NULL THEN
		PERFORM gpucredit_registry.not_found(format('file "%s" of version %s',
			left(missing, 96), (v).version));
	END IF;
	INSERT INTO gpucredit_registry.blocked
	SELECT DISTINCT f.object, f.org, f.version, block_files.reason, gpucredit.now()
	FROM gpucredit_registry.file f
	WHERE f.org = (v).org AND f.version = (v).version
		AND CASE WHEN block_files.files IS NOT NULL THEN f.path = ANY (block_files.files)
			WHEN kind = 'image' THEN f.path = 'manifest.json'
			ELSE f.lfs END
		AND (block_files.files IS NOT NULL OR NOT EXISTS (
				SELECT FROM gpucredit_registry.possession p
					JOIN gpucredit_registry.file g USING (org, object)
					JOIN gpucredit_registry.version o USING (org, version)
				WHERE p.object = f.object AND o.version < f.version
					AND o.quarantined_at IS NULL))
	ON CONFLICT DO NOTHING;
	GET DIAGNOSTICS n = ROW_COUNT;
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.block_files(gpucredit_registry.version, text[], text) IS
'Internal: blocks files of a version, and says how many. Errors: UC501 no such file.';

CREATE FUNCTION gpucredit_registry.block_objects(digests text[], reason text)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	n bigint;
BEGIN
	IF block_objects.digests IS NULL OR EXISTS (SELECT FROM unnest(block_objects.digests) d
			WHERE coalesce(d, '') !~ '^[0-9a-f]{64}$')
		OR coalesce(octet_length(block_objects.reason), 0) NOT BETWEEN 1 AND 1000
	THEN
		PERFORM gpucredit_registry.refuse('digests are SHA-256 of 64 hex digits, reason has 1 to 1,000 bytes',
			'Readers see the reason of the refusal.');
	END IF;
	INSERT INTO gpucredit_registry.blocked
	SELECT DISTINCT decode(d, 'hex'), '', 0, block_objects.reason, gpucredit.now()
	FROM unnest(block_objects.digests) d
	ORDER BY 1
	ON CONFLICT DO NOTHING;
	GET DIAGNOSTICS n = ROW_COUNT;
	PERFORM gpucredit_registry.record('', 'block_objects', NULL, jsonb_build_object(
		'digests', block_objects.digests, 'reason', block_objects.reason));
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.block_objects(text[], text) IS
'Scans: nobody may read files with these SHA-256 any more, in whatever version, whether they are stored yet or not; the same again changes nothing. For lists of bytes that are known to be bad.
digests: 64 hex digits each. reason: 1 to 1,000 bytes. Result: how many are new. Errors: 22023.';

CREATE FUNCTION gpucredit_registry.unblock_objects(digests text[], reason text)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	n bigint;
	unlisted bigint;
BEGIN
	DELETE FROM gpucredit_registry.blocked b
	WHERE encode(b.object, 'hex') = ANY (unblock_objects.digests);
	GET DIAGNOSTICS n = ROW_COUNT;
	DELETE FROM gpucredit_registry.fingerprint p
	WHERE encode(p.object, 'hex') = ANY (unblock_objects.digests);
	GET DIAGNOSTICS unlisted = ROW_COUNT;
	n := n + unlisted;
	PERFORM gpucredit_registry.record('', 'unblock_objects', NULL, jsonb_build_object(
		'digests', unblock_objects.digests, 'reason', unblock_objects.reason));
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.unblock_objects(text[], text) IS
'Scans: files with these SHA-256 may be read again, where nothing else forbids it; whether a list or a quarantine had blocked them.
Result: how many blocks went.';
