/*
 * 42_fingerprint.sql: lists of files that are known to be bad, by the SHA-256
 * of their bytes.
 *
 * A list has a source, and each of its digests a reason. Nobody may read or
 * commit what is on a list. A version that has such a file already goes into
 * quarantine when the list is imported, and so does what was made from it.
 *
 * A commit locks the row of fingerprint_turn FOR SHARE before it looks at the
 * lists, and an import updates this row. So an import sees the versions of all
 * commits that did not see its list. A commit whose snapshot is older than an
 * import fails with a serialization failure.
 */
CREATE TABLE gpucredit_registry.fingerprint (
	object bytea NOT NULL CHECK (octet_length(object) = 32),
	source text COLLATE "C" NOT NULL,
	reason text NOT NULL,
	listed_at timestamptz NOT NULL,
	CONSTRAINT fingerprint_pkey PRIMARY KEY (object, source)
);
CREATE INDEX fingerprint_source ON gpucredit_registry.fingerprint (source, object);
COMMENT ON TABLE gpucredit_registry.fingerprint IS
'Digests of files that are known to be bad, and which list names each';

CREATE TABLE gpucredit_registry.fingerprint_turn (
	turn bigint NOT NULL
);
INSERT INTO gpucredit_registry.fingerprint_turn VALUES (0);
COMMENT ON TABLE gpucredit_registry.fingerprint_turn IS
'One row, which an import of fingerprints updates and each commit locks';

/* Refuses objects that are on a list; a commit calls it before it stores them. */
CREATE FUNCTION gpucredit_registry.check_fingerprints(objects bytea[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	p gpucredit_registry.fingerprint;
BEGIN
	PERFORM FROM gpucredit_registry.fingerprint_turn FOR SHARE;
	SELECT * INTO p FROM gpucredit_registry.fingerprint o
	WHERE o.object = ANY (check_fingerprints.objects)
	ORDER BY o.object, o.source LIMIT 1;
	IF FOUND THEN
		RAISE EXCEPTION 'object % is known to be bad', encode(p.object, 'hex')
			USING ERRCODE = 'UC504',
			DETAIL = format('The list "%s" says: %s', p.source, p.reason),
			HINT = 'Commit without this file, or ask the operator.', COLUMN = 'Quarantined';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.check_fingerprints(bytea[]) IS
'Internal: raises UC504 if an object is on a list of files that are known to be bad.';

/*
 * Parses the text of a list. Each line has a digest, and after it the reason;
 * empty lines and what follows "#" at the beginning of a line are skipped.
 */
CREATE FUNCTION gpucredit_registry.parse_fingerprints(list text, reason text)
RETURNS TABLE (object bytea, why text)
LANGUAGE plpgsql IMMUTABLE ROWS 1000
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	wrong record;
BEGIN
	SELECT l.n, l.line INTO wrong
	FROM string_to_table(replace(parse_fingerprints.list, E'\r', ''), E'\n')
		WITH ORDINALITY AS l (line, n)
	WHERE l.line !~ '^\s*(#|$)' AND (l.line !~* '^\s*[0-9a-f]{64}([\s,;]|$)'
		OR lower(substring(l.line FROM '^\s*(\S{64})')) = encode(sha256(''), 'hex')
		OR octet_length(coalesce(substring(l.line FROM '^\s*\S{64}[\s,;]+(.*\S)'),
			parse_fingerprints.reason, '')) NOT BETWEEN 1 AND 1000)
	ORDER BY l.n LIMIT 1;
	IF FOUND THEN
		PERFORM gpucredit_registry.refuse(format('line %s of the list is malformed', wrong.n),
			format('It is "%s".', left(wrong.line, 96)),
			'A line has a SHA-256 of 64 hex digits, but not that of the empty file, and a reason of 1 to 1,000 bytes.');
	END IF;
	RETURN QUERY
	SELECT DISTINCT ON (d.object) d.object, d.why
	FROM (SELECT decode(substring(l.line FROM '^\s*(\S{64})'), 'hex') AS object, l.n,
			coalesce(substring(l.line FROM '^\s*\S{64}[\s,;]+(.*\S)'),
				parse_fingerprints.reason) AS why
		FROM string_to_table(replace(parse_fingerprints.list, E'\r', ''), E'\n')
			WITH ORDINALITY AS l (line, n)
		WHERE l.line !~ '^\s*(#|$)') d
	ORDER BY d.object, d.n DESC;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.parse_fingerprints(text, text) IS
'Internal: the digests of a list, each once, with its reason. Errors: 22023 a malformed line.';

/* Returns the versions outside quarantine that have a file on a list. */
CREATE FUNCTION gpucredit_registry.listed_versions(source text, objects bytea[])
RETURNS TABLE (org text, version bigint, reason text)
LANGUAGE plpgsql STABLE ROWS 10
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN QUERY
	SELECT DISTINCT ON (v.version) v.org, v.version,
		left(format('"%s" is on the list "%s"', left(f.path, 96), listed_versions.source), 1000)
	FROM unnest(listed_versions.objects) AS l (object)
		JOIN gpucredit_registry.possession p ON p.object = l.object
		JOIN gpucredit_registry.file f ON f.org = p.org AND f.object = p.object
		JOIN gpucredit_registry.version v ON v.org = f.org AND v.version = f.version
	WHERE v.quarantined_at IS NULL
	ORDER BY v.version, f.path;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.listed_versions(text, bytea[]) IS
'Internal: the versions outside quarantine that have one of these objects, and what their readers are told.';

CREATE FUNCTION gpucredit_registry.import_fingerprints(source text, list text,
	reason text DEFAULT NULL, dry_run boolean DEFAULT false,
	OUT listed bigint, OUT quarantined bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	objects bytea[];
	reasons text[];
	roots bigint[];
	v record;
BEGIN
	IF coalesce(import_fingerprints.source, '') !~ '^\S(.{0,198}\S)?$'
		OR import_fingerprints.list IS NULL OR octet_length(import_fingerprints.list) > 64 << 20
		OR import_fingerprints.dry_run IS NULL
	THEN
		PERFORM gpucredit_registry.refuse('source has 1 to 200 characters, list at most 64 MiB, and dry_run is true or false',
			format('The source is "%s".', left(import_fingerprints.source, 64)));
	END IF;
	SELECT coalesce(array_agg(p.object), '{}'), coalesce(array_agg(p.why), '{}')
	INTO objects, reasons
	FROM gpucredit_registry.parse_fingerprints(import_fingerprints.list,
		import_fingerprints.reason) p;
	IF import_fingerprints.dry_run THEN
		import_fingerprints.listed := cardinality(objects) - (
			SELECT count(*) FROM gpucredit_registry.fingerprint p
			WHERE p.source = import_fingerprints.source AND p.object = ANY (objects));
		SELECT count(*) INTO import_fingerprints.quarantined
		FROM (SELECT l.version
				FROM gpucredit_registry.listed_versions(import_fingerprints.source, objects) l
			UNION
			SELECT d.related
			FROM gpucredit_registry.listed_versions(import_fingerprints.source, objects) l,
				gpucredit_registry.related(l.version, true) d) q
			JOIN gpucredit_registry.version o USING (version)
		WHERE o.quarantined_at IS NULL;
		RETURN;
	END IF;
	PERFORM gpucredit_registry.require_read_committed('import of fingerprints');
	UPDATE gpucredit_registry.fingerprint_turn SET turn = turn + 1;
	WITH added AS (
		INSERT INTO gpucredit_registry.fingerprint AS p
		SELECT d.object, import_fingerprints.source, d.why, gpucredit.now()
		FROM unnest(objects, reasons) AS d (object, why)
		ORDER BY d.object
		ON CONFLICT ON CONSTRAINT fingerprint_pkey DO UPDATE SET reason = excluded.reason
		RETURNING xmax = 0 AS fresh)
	SELECT count(*) FILTER (WHERE a.fresh) INTO import_fingerprints.listed FROM added a;
	import_fingerprints.quarantined := 0;
	/* As a quarantine does, lock all versions in order of their numbers. */
	roots := ARRAY(SELECT l.version
		FROM gpucredit_registry.listed_versions(import_fingerprints.source, objects) l);
	PERFORM FROM gpucredit_registry.version o
	WHERE o.version IN (SELECT unnest(roots)
		UNION SELECT d.related FROM unnest(roots) AS r (version),
			gpucredit_registry.related(r.version, true) d)
	ORDER BY o.version FOR UPDATE;
	FOR v IN
		SELECT l.* FROM gpucredit_registry.listed_versions(import_fingerprints.source, objects) l
		ORDER BY l.version
	LOOP
		import_fingerprints.quarantined := import_fingerprints.quarantined
			+ gpucredit_registry.set_quarantine(v.org, v.version, v.reason);
	END LOOP;
	PERFORM gpucredit_registry.record('', 'import_fingerprints', NULL, jsonb_build_object(
		'source', import_fingerprints.source, 'digests', cardinality(objects),
		'listed', import_fingerprints.listed, 'quarantined', import_fingerprints.quarantined));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.import_fingerprints(text, text, text, boolean) IS
'Scans: imports a list of files that are known to be bad. Nobody may read or commit them any more; versions that have one, and all that was made from these, go into quarantine, of which their owners learn by model.quarantined and alerts(). The same again changes nothing, but for versions that were released in the meantime.
source: where the list is from, 1 to 200 characters. list: the text of a file: in each line a SHA-256 of 64 hex digits, then the reason; "#" begins a comment. reason: for lines without one. dry_run: changes nothing, and returns what would change.
Result: listed: how many digests are new in this list; quarantined: how many versions went into quarantine.
Errors: 25001 above READ COMMITTED; 22023 a malformed line, or the digest of the empty file.';

CREATE FUNCTION gpucredit_registry.delete_fingerprints(source text,
	digests text[] DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	n bigint;
BEGIN
	DELETE FROM gpucredit_registry.fingerprint p
	WHERE p.source = delete_fingerprints.source AND (delete_fingerprints.digests IS NULL
		OR encode(p.object, 'hex') = ANY (delete_fingerprints.digests));
	GET DIAGNOSTICS n = ROW_COUNT;
	PERFORM gpucredit_registry.record('', 'delete_fingerprints', NULL, jsonb_build_object(
		'source', delete_fingerprints.source, 'digests', delete_fingerprints.digests,
		'deleted', n));
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.delete_fingerprints(text, text[]) IS
'Scans: takes digests off a list. Versions stay in quarantine until they are released (release_quarantine).
digests: 64 small hex digits each; NULL: all of the list. Result: how many were on it.';

CREATE FUNCTION gpucredit_registry.fingerprints(source text DEFAULT NULL,
	after text DEFAULT '', n integer DEFAULT 100)
RETURNS TABLE (sha256 text, of_source text, reason text, listed_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF coalesce(fingerprints.n, 0) NOT BETWEEN 1 AND 1000
		OR coalesce(fingerprints.after, 'x') !~ '^([0-9a-f]{64})?$'
	THEN
		PERFORM gpucredit_registry.refuse('n is 1 to 1,000, after a SHA-256 or empty',
			format('n is %s.', fingerprints.n));
	END IF;
	RETURN QUERY
	SELECT encode(l.object, 'hex'), l.source, l.reason, l.listed_at
	FROM (SELECT p.object, p.source, p.reason, p.listed_at
		FROM gpucredit_registry.fingerprint p
		WHERE (fingerprints.source IS NULL OR p.source = fingerprints.source)
			AND p.object > decode(fingerprints.after, 'hex')
		ORDER BY p.object
		FETCH FIRST fingerprints.n ROWS WITH TIES) l
	ORDER BY l.object, l.source;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.fingerprints(text, text, integer) IS
'Scans: the digests of a list of files that are known to be bad, in order; without source those of all lists.
after: the last digest that was read. n: 1 to 1,000; a few more rows where several lists have the last digest. Errors: 22023.';
