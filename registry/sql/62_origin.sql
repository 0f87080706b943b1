/*
 * 62_origin.sql: versions of other registries, which a mirror (63_mirror.sql)
 * or the import of an export brings.
 *
 * A version comes as the whole list of its files, and is made by the rules of
 * a commit: its bytes were sent to this registry or may be read here, lists of
 * known bad files and scanners look at it, and the repository's account pays.
 * It has an oid of its own, and "origin" has the one that it has at its
 * source, by which it is found as well. So the same version comes once,
 * however often it is brought, and a source that calls other files by the same
 * oid is refused.
 */

/*
 * When the export was made that was imported last from a source. An older one
 * moves no ref, so that nobody brings back what was replaced.
 */
CREATE TABLE gpucredit_registry.import (
	org text COLLATE "C" NOT NULL,
	model bigint NOT NULL,
	source text COLLATE "C" NOT NULL,
	exported_at timestamptz NOT NULL,
	imported_at timestamptz NOT NULL,
	CONSTRAINT import_pkey PRIMARY KEY (org, model, source),
	FOREIGN KEY (org, model) REFERENCES gpucredit_registry.model
);
COMMENT ON TABLE gpucredit_registry.import IS
'When the export was made that each repository imported last from a source';

CREATE FUNCTION gpucredit_registry.check_origin(m gpucredit_registry.model, source text,
	repository text, oid text, detail jsonb) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF coalesce(check_origin.source, '') !~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$'
		OR coalesce(check_origin.repository, '') !~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,95}(/[A-Za-z0-9][A-Za-z0-9._-]{0,95})?$'
		OR coalesce(check_origin.oid, '') !~ '^[0-9a-f]{40}$'
	THEN
		PERFORM gpucredit_registry.refuse('an origin has a source, a repository ORG/NAME and an oid of 40 hex digits',
			format('They are "%s", "%s" and "%s".', left(check_origin.source, 64),
				left(check_origin.repository, 96), left(check_origin.oid, 64)));
	ELSIF jsonb_typeof(check_origin.detail) IS DISTINCT FROM 'object'
		OR octet_length(check_origin.detail::text) > 262144
	THEN
		PERFORM gpucredit_registry.refuse('the detail of an origin is an object of at most 256 kB',
			'It says what the source says of the version.');
	ELSIF m.kind = 'image' THEN
		PERFORM gpucredit_registry.refuse('images are not mirrored or imported',
			'There are models and datasets.', 'Copy an image with skopeo.');
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.check_origin(gpucredit_registry.model, text, text, text, jsonb) IS
'Internal: refuses a malformed origin (22023).';

/*
 * Checks the list of files of a version that comes from elsewhere, and returns
 * the digest of the list. check_path() checks the paths when they are applied.
 */
CREATE FUNCTION gpucredit_registry.files_digest(files jsonb) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	wrong text;
	list text;
	n bigint;
BEGIN
	IF jsonb_typeof(files_digest.files) IS DISTINCT FROM 'array'
		OR jsonb_array_length(files_digest.files) > 100000
	THEN
		PERFORM gpucredit_registry.refuse('files are an array',
			'A version that comes from elsewhere has at most 100,000 files.');
	END IF;
	SELECT min(f.o ->> 'path') INTO wrong
	FROM jsonb_array_elements(files_digest.files) AS f (o)
	WHERE jsonb_typeof(f.o -> 'path') IS DISTINCT FROM 'string'
		OR coalesce(f.o ->> 'sha256', '') !~ '^[0-9a-f]{64}$'
		OR f.o ? 'content' AND sha256(gpucredit_registry.inline_body(f.o))
			IS DISTINCT FROM decode(f.o ->> 'sha256', 'hex');
	SELECT coalesce(string_agg(f.o ->> 'path' || E'\n' || (f.o ->> 'sha256'), E'\n'
			ORDER BY f.o ->> 'path' COLLATE "C"), ''), count(DISTINCT f.o ->> 'path')
	INTO list, n
	FROM jsonb_array_elements(files_digest.files) AS f (o);
	IF wrong IS NOT NULL OR n <> jsonb_array_length(files_digest.files) THEN
		PERFORM gpucredit_registry.refuse(format('the list of files is malformed near "%s"',
				left(coalesce(wrong, ''), 64)),
			'Each file has a path, which no other has, the SHA-256 of its bytes, and these bytes in base64 where they come along.');
	END IF;
	RETURN sha256(convert_to(list, 'UTF8'));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.files_digest(jsonb) IS
'Internal: the digest of a list of files (22023).';

/* Returns the operations that change the files of a version to a list. */
CREATE FUNCTION gpucredit_registry.operations_to(head gpucredit_registry.version,
	files jsonb) RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
	WITH
	wanted AS (
		SELECT f.o ->> 'path' COLLATE "C" AS path, f.o
		FROM jsonb_array_elements(operations_to.files) AS f (o)),
	present AS (
		SELECT f.path, f.object, f.lfs
		FROM gpucredit_registry.file f
		WHERE f.org = (head).org AND f.version = (head).version)
	SELECT coalesce(jsonb_agg(c.operation ORDER BY c.turn, c.path), '[]')
	FROM (
		/* A file may take the place of a folder, so deletions come first. */
		SELECT 1 AS turn, p.path, jsonb_build_object('path', p.path, 'op', 'delete') AS operation
		FROM present p
		WHERE NOT EXISTS (SELECT FROM wanted w WHERE w.path = p.path)
		UNION ALL
		SELECT 2, w.path, CASE WHEN w.o ? 'content'
			THEN jsonb_build_object('path', w.path, 'content', w.o -> 'content')
			ELSE jsonb_build_object('path', w.path, 'sha256', w.o -> 'sha256') END
		FROM wanted w LEFT JOIN present p ON p.path = w.path
		WHERE p.object IS DISTINCT FROM decode(w.o ->> 'sha256', 'hex')
			OR p.lfs IS DISTINCT FROM (NOT w.o ? 'content')) c;
END;
COMMENT ON FUNCTION gpucredit_registry.operations_to(gpucredit_registry.version, jsonb) IS
'Internal: the operations of a commit that gives a version exactly these files.';

/*
 * Returns the parents of a version that comes from elsewhere: those of its
 * parents there that came here, too, and that its account may read.
 */
CREATE FUNCTION gpucredit_registry.origin_parents(m gpucredit_registry.model, detail jsonb,
	caller gpucredit_registry.caller) RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT coalesce(jsonb_agg(DISTINCT jsonb_build_object('org', o.org, 'version', o.version,
		'kind', p.p ->> 'kind')), '[]')
	FROM jsonb_array_elements(CASE jsonb_typeof(origin_parents.detail -> 'parents')
			WHEN 'array' THEN origin_parents.detail -> 'parents' ELSE '[]' END) AS p (p)
		JOIN gpucredit_registry.origin o ON o.oid = p.p ->> 'oid'
	WHERE p.p ->> 'kind' IN ('fine_tune', 'adapter', 'quantized', 'merge')
		AND gpucredit_registry.permission_of(o.org, o.model, origin_parents.caller) IS NOT NULL;
END;
COMMENT ON FUNCTION gpucredit_registry.origin_parents(gpucredit_registry.model, jsonb, gpucredit_registry.caller) IS
'Internal: the versions here that a version of elsewhere was made from.';

/*
 * Makes a version that comes from elsewhere, or returns it where it came
 * before. The caller has locked the repository.
 */
CREATE FUNCTION gpucredit_registry.receive_version(m gpucredit_registry.model, ref text,
	source text, repository text, oid text, files jsonb, detail jsonb, author text)
RETURNS gpucredit_registry.commit_result
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
	r gpucredit_registry.commit_result;
	digest bytea := gpucredit_registry.files_digest(receive_version.files);
	caller gpucredit_registry.caller := (m.org, m.account, 'write');
	came gpucredit_registry.origin;
	head gpucredit_registry.version;
	stored record;
BEGIN
	PERFORM gpucredit_registry.check_origin(m, receive_version.source,
		receive_version.repository, receive_version.oid, receive_version.detail);
	SELECT * INTO came FROM gpucredit_registry.origin o
	WHERE o.org = m.org AND o.model = m.model AND o.oid = receive_version.oid;
	IF FOUND AND came.files <> digest OR NOT FOUND AND EXISTS (
		SELECT FROM gpucredit_registry.version v
		WHERE v.org = m.org AND v.model = m.model AND v.oid = receive_version.oid)
	THEN
		RAISE EXCEPTION 'revision % of "%/%" has other files', receive_version.oid, m.org, m.name
			USING ERRCODE = 'UC510',
			DETAIL = format('Its source "%s" now calls other files by the same oid.',
				coalesce(came.source, 'this registry')),
			HINT = 'A revision never changes: ask the source, and do not trust it until then.';
	END IF;
	r.replayed := came.version IS NOT NULL;
	IF r.replayed AND (SELECT v.dropped_at FROM gpucredit_registry.version v
		WHERE v.org = m.org AND v.version = came.version) IS NOT NULL
	THEN
		/* Retention removed its files, so it is made anew. */
		DELETE FROM gpucredit_registry.origin o
		WHERE o.org = m.org AND o.version = came.version;
		r.replayed := false;
	END IF;
	IF NOT r.replayed THEN
		head := gpucredit_registry.find_version(m, receive_version.ref);
		stored := gpucredit_registry.store_version(m, coalesce(receive_version.ref, ''), head,
			gpucredit_registry.operations_to(head, receive_version.files),
			gpucredit_registry.origin_parents(m, receive_version.detail, caller), caller,
			receive_version.author, left(receive_version.detail ->> 'title', 1000),
			left(receive_version.detail ->> 'description', 10000));
		IF stored.reason IS NOT NULL THEN
			r.status := 'denied';
			r.reason := stored.reason;
			PERFORM gpucredit_registry.record(m.org, 'receive_version', receive_version.author,
				jsonb_build_object('model', m.model, 'source', receive_version.source,
					'oid', receive_version.oid, 'denied', r.reason));
			PERFORM gpucredit_registry.report_denial(m.org, m.account, r.reason);
			RETURN r;
		END IF;
		came.version := (stored.new).version;
		INSERT INTO gpucredit_registry.origin
		VALUES (m.org, came.version, m.model, receive_version.source,
			receive_version.repository, receive_version.oid, digest, receive_version.detail,
			gpucredit.now());
		PERFORM gpucredit_registry.record(m.org, 'receive_version', receive_version.author,
			jsonb_build_object('model', m.model, 'version', came.version, 'source',
				receive_version.source, 'repository', receive_version.repository, 'oid',
				receive_version.oid));
	END IF;
	r.version := came.version;
	SELECT v.oid, CASE WHEN v.quarantined_at IS NULL THEN 'committed' ELSE 'quarantined' END
	INTO r.oid, r.status
	FROM gpucredit_registry.version v
	WHERE v.org = m.org AND v.version = r.version;
	IF NOT r.replayed THEN
		PERFORM gpucredit_registry.publish_model('committed', m.org, m.model,
			jsonb_build_object('ref', receive_version.ref, 'version', r.version, 'oid', r.oid,
				'status', r.status, 'author', receive_version.author));
	END IF;
	RETURN r;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.receive_version(gpucredit_registry.model, text, text, text, text, jsonb, jsonb, text) IS
'Internal: a version of another registry. Errors: UC510 the source calls other files by the same oid; those of a commit.';

/*
 * Lets a ref name a version that comes from elsewhere. A ref that other
 * versions have moved is left alone, unless "overwrite" says otherwise.
 */
CREATE FUNCTION gpucredit_registry.receive_ref(m gpucredit_registry.model, ref text,
	tag boolean, version bigint, source text, overwrite boolean, author text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r gpucredit_registry.ref;
BEGIN
	PERFORM gpucredit_registry.check_ref(receive_ref.ref);
	SELECT * INTO r FROM gpucredit_registry.ref o
	WHERE o.org = m.org AND o.model = m.model AND o.ref = receive_ref.ref;
	IF r.version = receive_ref.version AND r.tag = receive_ref.tag THEN
		RETURN false;
	ELSIF r.version IS NOT NULL AND (r.tag <> receive_ref.tag OR NOT receive_ref.overwrite
		AND NOT EXISTS (SELECT FROM gpucredit_registry.origin o
			WHERE o.org = m.org AND o.version = r.version AND o.source = receive_ref.source))
	THEN
		RAISE EXCEPTION 'ref "%" of "%/%" does not come from "%"', receive_ref.ref, m.org, m.name,
			receive_ref.source
			USING ERRCODE = 'UC506',
			DETAIL = 'It was made here, or comes from elsewhere, or is a tag there and a branch here.',
			HINT = 'Bring the source''s versions to a repository of their own, or say that refs may be overwritten.';
	END IF;
	PERFORM gpucredit_registry.check_protected(m, receive_ref.ref, receive_ref.version);
	IF r.version IS NULL THEN
		INSERT INTO gpucredit_registry.ref
		VALUES (m.org, m.model, receive_ref.ref, receive_ref.version, receive_ref.tag);
	END IF;
	PERFORM gpucredit_registry.put_ref(m, receive_ref.ref, receive_ref.version,
		receive_ref.author);
	RETURN true;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.receive_ref(gpucredit_registry.model, text, boolean, bigint, text, boolean, text) IS
'Internal: moves a ref to a version of another registry, and says whether it moved. Errors: UC506 the ref is not from there; 42501; 22023.';

/*
 * Opens an upload for an object that a mirror or an import brings. The address
 * is of registryd, and takes what tus takes: PATCH, from byte "received" on.
 */
CREATE FUNCTION gpucredit_registry.receive_object(m gpucredit_registry.model, sha256 text,
	size bigint, OUT status text, OUT reason text, OUT received bigint, OUT url text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	digest bytea := CASE WHEN receive_object.sha256 ~ '^[0-9a-f]{64}$'
		THEN decode(receive_object.sha256, 'hex') END;
	u gpucredit_registry.upload_result;
BEGIN
	PERFORM gpucredit_registry.check_fingerprints(ARRAY[digest]);
	u := (gpucredit_registry.begin_upload(m, digest, receive_object.size, false,
		(m.org, m.account, 'write')::gpucredit_registry.caller, NULL)).r;
	status := u.status;
	reason := u.reason;
	received := u.received;
	IF u.status = 'open' THEN
		url := gpucredit_registry.sign('', 'PATCH', format('/lfs/%s/%s/1', m.org, u.upload));
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.receive_object(gpucredit_registry.model, text, bigint) IS
'Internal: an upload on behalf of a repository''s account. Errors: UC504 the file is on a list of known bad ones; 22023.';

CREATE FUNCTION gpucredit_registry.find_model(org text, name text, kind text DEFAULT 'model')
RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	n bigint := (SELECT m.model FROM gpucredit_registry.model m
		WHERE m.org = find_model.org AND m.kind = find_model.kind AND m.name = find_model.name
			AND m.deleted_at IS NULL);
BEGIN
	BEGIN
		PERFORM gpucredit_registry.own_model(find_model.org, n);
	EXCEPTION WHEN SQLSTATE 'UC501' THEN
		PERFORM gpucredit_registry.not_found(format('%s "%s/%s"', left(find_model.kind, 64),
			left(find_model.org, 64), left(find_model.name, 96)));
	END;
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.find_model(text, text, text) IS
'Repositories: the number of one.
kind: model, dataset or image. Errors: UC501 there is none, or its account is not the session''s.';

CREATE FUNCTION gpucredit_registry.import_object(org text, model bigint, sha256 text,
	size bigint, OUT status text, OUT reason text, OUT received bigint, OUT url text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r record := gpucredit_registry.receive_object(gpucredit_registry.own_model(
		import_object.org, import_object.model), import_object.sha256, import_object.size);
BEGIN
	status := r.status;
	reason := r.reason;
	received := r.received;
	url := r.url;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.import_object(text, bigint, text, bigint) IS
'Federation: opens an upload of a file that is imported into a repository, on behalf of its account; the same again goes on with it.
sha256: 64 hex digits. size: bytes, at most 4 TiB.
Result: status open, present or denied with a reason, as start_upload(); received: what is stored of it; url: a path of registryd, which takes the rest by PATCH with Upload-Offset (tus), if that begins within an hour.
Errors: UC501 no such repository; UC504 the file is on a list of known bad ones; 22023.';

CREATE FUNCTION gpucredit_registry.import_version(org text, model bigint, source text,
	repository text, oid text, files jsonb, detail jsonb DEFAULT '{}', ref text DEFAULT NULL)
RETURNS gpucredit_registry.commit_result
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model :=
		gpucredit_registry.own_model(import_version.org, import_version.model);
BEGIN
	IF import_version.ref IS NOT NULL THEN
		PERFORM gpucredit_registry.check_ref(import_version.ref);
	END IF;
	PERFORM gpucredit_registry.lock_model(m);
	RETURN gpucredit_registry.receive_version(m, import_version.ref, import_version.source,
		import_version.repository, import_version.oid, import_version.files,
		import_version.detail, session_user);
END
$$;
COMMENT ON FUNCTION gpucredit_registry.import_version(text, bigint, text, text, text, jsonb, jsonb, text) IS
'Federation: makes a version that another registry has, once its bytes were sent (import_object). It keeps the oid that it has there as a revision, beside one of its own. The same again changes nothing. No ref moves: see import_refs().
source: whose word it is, 1 to 63 letters, digits, ".", "_" or "-". repository: ORG/NAME there. oid: 40 hex digits, there. files: all its files, an array of {"path", "sha256"}, with "content" (BASE64) of text of at most 1 MiB. detail: an object: title, description, author, parents ({"oid", "kind"}), and what else the source says. ref: the branch whose version it follows, as its parent.
Result: as commit(). Errors: UC501 no such repository; UC503 bytes were not sent; UC504 a file is on a list of known bad ones; UC510 the source called other files by this oid before; 22023.';

CREATE FUNCTION gpucredit_registry.lock_model(m gpucredit_registry.model) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM FROM gpucredit_registry.model o
	WHERE o.org = m.org AND o.model = m.model AND o.deleted_at IS NULL
	FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		PERFORM gpucredit_registry.not_found(format('repository %s of "%s"', m.model, m.org));
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.lock_model(gpucredit_registry.model) IS
'Internal: waits until nobody else commits to a repository. Errors: UC501 it was deleted.';

/*
 * Locks a repository as lock_model() does, for a decision about what may be done
 * with it from now on. The row gets a new version, so that a transaction above
 * READ COMMITTED whose snapshot is older, and does not show the decision, fails
 * with 40001 when it locks the repository.
 */
CREATE FUNCTION gpucredit_registry.fence_model(m gpucredit_registry.model) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	UPDATE gpucredit_registry.model o SET account = o.account
	WHERE o.org = m.org AND o.model = m.model AND o.deleted_at IS NULL;
	IF NOT FOUND THEN
		PERFORM gpucredit_registry.not_found(format('repository %s of "%s"', m.model, m.org));
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.fence_model(gpucredit_registry.model) IS
'Internal: locks a repository, and has transactions with older snapshots be repeated. Errors: UC501 it was deleted.';

CREATE FUNCTION gpucredit_registry.import_refs(org text, model bigint, source text,
	exported_at timestamptz, refs jsonb, older boolean DEFAULT false,
	overwrite boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model :=
		gpucredit_registry.own_model(import_refs.org, import_refs.model);
	last timestamptz;
	o record;
	moved bigint := 0;
BEGIN
	IF jsonb_typeof(import_refs.refs) IS DISTINCT FROM 'array'
		OR jsonb_array_length(import_refs.refs) > 1000
		OR coalesce(import_refs.exported_at, 'infinity') > gpucredit.now() + interval '1 day'
		OR import_refs.older IS NULL OR import_refs.overwrite IS NULL
	THEN
		PERFORM gpucredit_registry.refuse('refs are an array of at most 1,000, exported_at is no time to come',
			format('The export was made at %s.', import_refs.exported_at));
	END IF;
	PERFORM gpucredit_registry.lock_model(m);
	SELECT i.exported_at INTO last FROM gpucredit_registry.import i
	WHERE i.org = m.org AND i.model = m.model AND i.source = import_refs.source;
	IF import_refs.exported_at < last AND NOT import_refs.older THEN
		RAISE EXCEPTION 'the export is older than what was imported from "%"', import_refs.source
			USING ERRCODE = 'UC506',
			DETAIL = format('It was made at %s, the other at %s.', import_refs.exported_at, last),
			HINT = 'Import a newer one, or say that an older one is meant.';
	END IF;
	FOR o IN
		SELECT r.o ->> 'ref' AS ref, coalesce(r.o ->> 'tag', 'false') = 'true' AS tag, g.version,
			r.o ->> 'oid' AS oid
		FROM jsonb_array_elements(import_refs.refs) AS r (o)
			LEFT JOIN gpucredit_registry.origin g ON g.org = m.org AND g.model = m.model
				AND g.oid = r.o ->> 'oid' AND g.source = import_refs.source
		ORDER BY r.o ->> 'ref'
	LOOP
		IF o.version IS NULL THEN
			PERFORM gpucredit_registry.not_found(format('version %s of "%s" from "%s"',
				left(o.oid, 64), m.name, left(import_refs.source, 64)));
		END IF;
		PERFORM gpucredit_registry.check_movable(m, o.ref, o.version);
		moved := moved + gpucredit_registry.receive_ref(m, o.ref, o.tag, o.version,
			import_refs.source, import_refs.overwrite, session_user)::integer;
	END LOOP;
	INSERT INTO gpucredit_registry.import
	VALUES (m.org, m.model, import_refs.source, import_refs.exported_at, gpucredit.now())
	ON CONFLICT ON CONSTRAINT import_pkey DO UPDATE
	SET exported_at = excluded.exported_at, imported_at = excluded.imported_at;
	PERFORM gpucredit_registry.record(m.org, 'import_refs', NULL, jsonb_build_object(
		'model', m.model, 'source', import_refs.source, 'exported_at', import_refs.exported_at,
		'refs', import_refs.refs, 'moved', moved, 'older', import_refs.older,
		'overwrite', import_refs.overwrite));
	RETURN moved;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.import_refs(text, bigint, text, timestamptz, jsonb, boolean, boolean) IS
'Federation: moves refs to versions that were imported from a source (import_version). The same again changes nothing.
exported_at: when the source said so. refs: an array of {"ref", "oid", "tag"}: the oid is the source''s. older: also where a later export of the source was imported. overwrite: also refs that do not come from this source.
Result: how many refs moved. Errors: UC501 no such repository or version; UC506 the export is older than what was imported, or a ref is not from this source; 42501 a ref is protected, immutable or mirrored; 22023.';

CREATE FUNCTION gpucredit_registry.imports(org text, model bigint)
RETURNS TABLE (source text, exported_at timestamptz, imported_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 3
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_registry.own_model(imports.org, imports.model);
	RETURN QUERY
	SELECT i.source::text, i.exported_at, i.imported_at
	FROM gpucredit_registry.import i
	WHERE i.org = imports.org AND i.model = imports.model
	ORDER BY 1;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.imports(text, bigint) IS
'Federation: from which sources a repository was imported, and when the last export of each was made.
Errors: UC501 no such repository.';

CREATE FUNCTION gpucredit_registry.origins(org text, model bigint, after bigint DEFAULT 0,
	n integer DEFAULT 100)
RETURNS TABLE (version bigint, oid text, source text, repository text, source_oid text,
	detail jsonb, recorded_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_registry.own_model(origins.org, origins.model);
	IF coalesce(origins.n, 0) NOT BETWEEN 1 AND 1000 THEN
		PERFORM gpucredit_registry.refuse('n is 1 to 1,000', format('It is %s.', origins.n));
	END IF;
	RETURN QUERY
	SELECT o.version, v.oid::text, o.source::text, o.repository, o.oid::text, o.detail,
		o.recorded_at
	FROM gpucredit_registry.version v
		JOIN gpucredit_registry.origin o USING (org, version)
	WHERE v.org = origins.org AND v.model = origins.model AND o.version > origins.after
	ORDER BY o.version
	LIMIT origins.n;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.origins(text, bigint, bigint, integer) IS
'Federation: the versions of a repository that were mirrored or imported, in order, and where they come from.
after: the last version that was read. n: 1 to 1,000. Result: source_oid: the oid there; detail: what the source said. Errors: UC501 no such repository; 22023.';

/*
 * Returns what is said of a version to somebody who mirrors or exports it. Of
 * its parents only those are named that the caller may read.
 */
CREATE FUNCTION gpucredit_registry.provenance(m gpucredit_registry.model,
	v gpucredit_registry.version, caller gpucredit_registry.caller) RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT jsonb_build_object('oid', (v).oid, 'title', (v).title, 'description', (v).description,
		'author', (v).author, 'created_at', (v).created_at, 'license',
		coalesce((m).fields #>> '{license,0}', (m).license),
		'quarantined', (v).quarantined_at IS NOT NULL,
		'parents', (SELECT coalesce(jsonb_agg(jsonb_build_object('repository',
				p.org || '/' || p.name, 'oid', o.oid, 'kind', e.kind) ORDER BY o.version), '[]')
			FROM gpucredit_registry.edge e
				JOIN gpucredit_registry.version o ON o.org = e.parent_org AND o.version = e.parent
				JOIN gpucredit_registry.model p ON p.org = o.org AND p.model = o.model
			WHERE e.child_org = (v).org AND e.child = (v).version AND p.deleted_at IS NULL
				AND gpucredit_registry.permission_of(p.org, p.model, provenance.caller)
					IS NOT NULL),
		'datasets', (SELECT coalesce(jsonb_agg(jsonb_build_object('dataset', d.dataset,
				'license', d.license) ORDER BY d.dataset), '[]')
			FROM gpucredit_registry.dataset d
			WHERE d.org = (v).org AND d.version = (v).version),
		'origin', (SELECT jsonb_build_object('source', o.source, 'repository', o.repository,
				'oid', o.oid)
			FROM gpucredit_registry.origin o
			WHERE o.org = (v).org AND o.version = (v).version));
END;
COMMENT ON FUNCTION gpucredit_registry.provenance(gpucredit_registry.model, gpucredit_registry.version, gpucredit_registry.caller) IS
'Internal: what a version was made from, and where it comes from.';
