/*
 * 92_oci.sql: the OCI distribution API (v2), for images and artifacts.
 *
 * An image repository is a repository of kind "image", ORG/NAME. A manifest is
 * a version: its files are manifest.json and the blobs that it names, its
 * title is its media type, and the ref sha256/HEX names it in addition to its
 * tags. So rights, lineage, scans, quarantine, quotas and garbage collection
 * work as for all versions.
 *
 * A blob is in a repository if it was sent or mounted to it, or if one of its
 * manifests names it. To mount a blob, the caller must be able to read it in
 * its repository.
 */
CREATE FUNCTION gpucredit_registry.oci_digest(word text) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF coalesce(oci_digest.word, '') !~ '^sha256:[0-9a-f]{64}$' THEN
		PERFORM gpucredit_registry.refuse(format('digest "%s" is malformed',
			left(oci_digest.word, 80)), 'It is "sha256:" and 64 hex digits.');
	END IF;
	RETURN decode(substr(oci_digest.word, 8), 'hex');
END
$$;
COMMENT ON FUNCTION gpucredit_registry.oci_digest(text) IS
'Internal: the bytes of sha256:HEX (22023).';

CREATE FUNCTION gpucredit_registry.oci_url(r gpucredit_registry.http_request,
	m gpucredit_registry.model, rest text) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT format('%s/v2/%s/%s/%s', (r).base, (m).org, (m).name, rest);
END;
COMMENT ON FUNCTION gpucredit_registry.oci_url(gpucredit_registry.http_request, gpucredit_registry.model, text) IS
'Internal: the URL of something in an image repository.';

CREATE FUNCTION gpucredit_registry.oci_error(r gpucredit_registry.http_request,
	status integer, message text) RETURNS gpucredit_registry.http_response
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT gpucredit_registry.json_response(jsonb_build_object('errors', jsonb_build_array(
			jsonb_build_object('message', oci_error.message, 'code', CASE
				WHEN oci_error.status = 401 THEN 'UNAUTHORIZED'
				WHEN oci_error.status IN (402, 403) THEN 'DENIED'
				WHEN oci_error.status = 429 THEN 'TOOMANYREQUESTS'
				WHEN oci_error.status = 405 THEN 'UNSUPPORTED'
				WHEN oci_error.status = 413 THEN 'SIZE_INVALID'
				WHEN oci_error.status = 416 THEN 'BLOB_UPLOAD_INVALID'
				WHEN (r).path ~ '/manifests/' THEN
					CASE oci_error.status WHEN 404 THEN 'MANIFEST_UNKNOWN' ELSE 'MANIFEST_INVALID' END
				WHEN (r).path ~ '/blobs/uploads/' AND oci_error.status = 404
				THEN 'BLOB_UPLOAD_UNKNOWN'
				WHEN (r).path ~ '/blobs/' THEN
					CASE oci_error.status WHEN 404 THEN 'BLOB_UNKNOWN' ELSE 'DIGEST_INVALID' END
				WHEN oci_error.status = 404 THEN 'NAME_UNKNOWN'
				ELSE 'NAME_INVALID' END))), oci_error.status,
		CASE oci_error.status WHEN 401 THEN jsonb_build_object('WWW-Authenticate',
			format('Bearer realm="%s/v2/token",service="registry"', (r).base)) ELSE '{}' END);
END;
COMMENT ON FUNCTION gpucredit_registry.oci_error(gpucredit_registry.http_request, integer, text) IS
'Internal: a refusal, as OCI clients read it.';

/*
 * Returns a token to a client that sends a name and a token of the registry:
 * it is that token.
 */
CREATE FUNCTION gpucredit_registry.oci_token(r gpucredit_registry.http_request)
RETURNS gpucredit_registry.http_response
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT gpucredit_registry.json_response(jsonb_build_object('token', t.token,
		'access_token', t.token, 'expires_in', 3600), 200, '{"Cache-Control": "no-store"}')
	FROM (SELECT CASE WHEN (r).caller IS NULL THEN 'anonymous'
		ELSE gpucredit_registry.token_of((r).headers ->> 'authorization') END AS token) t;
END;
COMMENT ON FUNCTION gpucredit_registry.oci_token(gpucredit_registry.http_request) IS
'Internal: GET /v2/token.';

CREATE FUNCTION gpucredit_registry.oci_has(m gpucredit_registry.model, object bytea)
RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT EXISTS (SELECT FROM gpucredit_registry.blob b
			WHERE b.org = (m).org AND b.model = (m).model AND b.object = oci_has.object)
		OR EXISTS (SELECT FROM gpucredit_registry.file f
				JOIN gpucredit_registry.version v USING (org, version)
			WHERE f.org = (m).org AND f.object = oci_has.object AND v.model = (m).model);
END;
COMMENT ON FUNCTION gpucredit_registry.oci_has(gpucredit_registry.model, bytea) IS
'Internal: is a blob in a repository?';

/*
 * Returns a blob of a repository, if a caller who may read the repository may
 * read the blob.
 */
CREATE FUNCTION gpucredit_registry.oci_readable(m gpucredit_registry.model,
	object bytea, caller gpucredit_registry.caller) RETURNS gpucredit_registry.object
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	b gpucredit_registry.object;
	seen record;
BEGIN
	seen := gpucredit_registry.object_refusal(m, oci_readable.object, oci_readable.caller);
	/* Only its sender can see a blob that no manifest names yet. */
	IF gpucredit_registry.oci_has(m, oci_readable.object) AND ((seen.v).model = (m).model
		OR coalesce(gpucredit_registry.permission_of((m).org, (m).model, oci_readable.caller),
			'read') <> 'read')
	THEN
		SELECT * INTO b FROM gpucredit_registry.object o WHERE o.sha256 = oci_readable.object;
	END IF;
	IF b.sha256 IS NULL THEN
		PERFORM gpucredit_registry.not_found('blob sha256:'
			|| encode(oci_readable.object, 'hex'));
	END IF;
	PERFORM gpucredit_registry.refuse_read(seen.v, seen.refusal);
	RETURN b;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.oci_readable(gpucredit_registry.model, bytea, gpucredit_registry.caller) IS
'Internal: a blob that may be read. Errors: UC501, UC504.';

CREATE FUNCTION gpucredit_registry.oci_blob(r gpucredit_registry.http_request,
	m gpucredit_registry.model, digest text) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	key bytea := gpucredit_registry.oci_digest(digest);
	b gpucredit_registry.object;
BEGIN
	IF (r).method = 'DELETE' THEN
		IF EXISTS (SELECT FROM gpucredit_registry.file f
				JOIN gpucredit_registry.version v USING (org, version)
			WHERE f.org = (m).org AND f.object = key AND v.model = (m).model)
		THEN
			PERFORM gpucredit_registry.refuse_request(405, 'a manifest names the blob',
				'Delete the manifest.');
		END IF;
		DELETE FROM gpucredit_registry.blob o
		WHERE o.org = (m).org AND o.model = (m).model AND o.object = key;
		IF NOT FOUND THEN
			PERFORM gpucredit_registry.not_found('blob ' || digest);
		END IF;
		RETURN (202, '{}', NULL, NULL)::gpucredit_registry.http_response;
	END IF;
	b := gpucredit_registry.oci_readable(m, key, (r).caller);
	RETURN gpucredit_registry.send_object(r, m, NULL, b.sha256, b.size,
		jsonb_build_object('Docker-Content-Digest', digest));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.oci_blob(gpucredit_registry.http_request, gpucredit_registry.model, text) IS
'Internal: GET, HEAD and DELETE of .../blobs/DIGEST.';

/*
 * Mounts a blob of another repository in this one, if the caller may read it
 * there.
 */
CREATE FUNCTION gpucredit_registry.oci_mount(r gpucredit_registry.http_request,
	m gpucredit_registry.model, digest text, source text) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	b gpucredit_registry.object;
	fresh bytea[];
	reason text;
BEGIN
	BEGIN
		b := gpucredit_registry.oci_readable(gpucredit_registry.require_model(
				split_part(oci_mount.source, '/', 1), split_part(oci_mount.source, '/', 2), 'image',
				(r).caller, 'read'),
			gpucredit_registry.oci_digest(digest), (r).caller);
	EXCEPTION WHEN SQLSTATE 'UC501' OR SQLSTATE 'UC504' THEN
		RETURN false;			/* the client must then send the bytes */
	END;
	fresh := gpucredit_registry.hold_objects((m).org, ARRAY[b.sha256]);
	PERFORM gpucredit_registry.lock_usage((m).org);
	reason := gpucredit_registry.upload_denial(m, CASE fresh WHEN '{}' THEN 0 ELSE b.size END);
	IF reason IS NOT NULL THEN
		PERFORM gpucredit_registry.refuse_request(403, reason, 'Ask the owner of the repository.');
	END IF;
	PERFORM gpucredit_registry.use_objects((m).org, fresh);
	INSERT INTO gpucredit_registry.blob VALUES ((m).org, (m).model, b.sha256)
	ON CONFLICT DO NOTHING;
	RETURN true;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.oci_mount(gpucredit_registry.http_request, gpucredit_registry.model, text, text) IS
'Internal: mounts a blob; false where it must be sent.';

CREATE FUNCTION gpucredit_registry.oci_start(r gpucredit_registry.http_request,
	m gpucredit_registry.model) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	number bigint;
	reason text;
BEGIN
	IF (r).query ? 'mount' AND (r).query ? 'from' AND gpucredit_registry.oci_mount(r, m,
		(r).query ->> 'mount', (r).query ->> 'from')
	THEN
		RETURN (201, jsonb_build_object('Docker-Content-Digest', (r).query ->> 'mount', 'Location',
			gpucredit_registry.oci_url(r, m, 'blobs/' || ((r).query ->> 'mount'))), NULL, NULL
			)::gpucredit_registry.http_response;
	END IF;
	PERFORM gpucredit_registry.lock_usage((m).org);
	reason := gpucredit_registry.upload_denial(m, 0);
	IF reason IS NOT NULL THEN
		PERFORM gpucredit_registry.refuse_request(403, reason, 'Ask the owner of the repository.');
	END IF;
	INSERT INTO gpucredit_registry.upload AS u (org, model, caller, part_size, created_at,
		expires_at)
	VALUES ((m).org, (m).model, gpucredit_registry.caller_name((r).caller), 1::bigint << 42,
		gpucredit.now(),
		gpucredit.now() + interval '24 hours')
	RETURNING u.upload INTO number;
	INSERT INTO gpucredit_registry.upload_part VALUES ((m).org, number, 1);
	RETURN (202, jsonb_build_object('Location',
			gpucredit_registry.oci_url(r, m, 'blobs/uploads/' || number),
			'Docker-Upload-UUID', number::text, 'Range', '0-0'), NULL, NULL
		)::gpucredit_registry.http_response;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.oci_start(gpucredit_registry.http_request, gpucredit_registry.model) IS
'Internal: POST .../blobs/uploads/.';

/*
 * Handles an upload. Its bytes arrive by PATCH, in any number of requests, and
 * by the PUT that ends it and names its digest.
 */
CREATE FUNCTION gpucredit_registry.oci_upload(r gpucredit_registry.http_request,
	m gpucredit_registry.model, upload bigint) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	o record := gpucredit_registry.require_part((m).org, oci_upload.upload, 1);
	received bigint := (o.p).received;
	headers jsonb := jsonb_build_object('Location', gpucredit_registry.oci_url(r, m,
		'blobs/uploads/' || oci_upload.upload), 'Docker-Upload-UUID', oci_upload.upload::text);
	first text := substring((r).headers ->> 'content-range' FROM '^(?:bytes )?([0-9]{1,18})-');
	digest bytea;
BEGIN
	IF (o.u).model <> (m).model OR (o.u).object IS NOT NULL THEN
		PERFORM gpucredit_registry.no_upload(oci_upload.upload);
	ELSIF (r).method = 'DELETE' THEN
		PERFORM gpucredit_registry.drop_upload((m).org, oci_upload.upload);
		RETURN (204, '{}', NULL, NULL)::gpucredit_registry.http_response;
	ELSIF (r).method IN ('GET', 'HEAD') THEN
		RETURN (204, headers || jsonb_build_object('Range',
			format('0-%s', greatest(received - 1, 0))), NULL, NULL
			)::gpucredit_registry.http_response;
	ELSIF (r).headers ? 'content-range' AND first::bigint IS DISTINCT FROM received THEN
		RETURN (416, headers || jsonb_build_object('Range',
			format('0-%s', greatest(received - 1, 0))), ''::bytea, NULL
			)::gpucredit_registry.http_response;
	ELSIF (r).method = 'PATCH' THEN
		RETURN (202, headers, NULL, jsonb_build_object('receive', jsonb_build_object(
			'org', (m).org, 'upload', oci_upload.upload, 'part', 1, 'from', received,
			'partial', true, 'range', true)))::gpucredit_registry.http_response;
	END IF;
	digest := gpucredit_registry.oci_digest((r).query ->> 'digest');
	UPDATE gpucredit_registry.upload u SET announced = digest
	WHERE u.org = (m).org AND u.upload = oci_upload.upload;
	RETURN (201, jsonb_build_object('Location',
			gpucredit_registry.oci_url(r, m, 'blobs/' || ((r).query ->> 'digest')),
			'Docker-Content-Digest', (r).query ->> 'digest'), NULL,
		jsonb_build_object('receive', jsonb_build_object(
			'org', (m).org, 'upload', oci_upload.upload, 'part', 1, 'from', received,
			'partial', true, 'last', true, 'whole', received = 0, 'verify', received > 0))
		)::gpucredit_registry.http_response;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.oci_upload(gpucredit_registry.http_request, gpucredit_registry.model, bigint) IS
'Internal: GET, PATCH, PUT and DELETE of .../blobs/uploads/UPLOAD.';

/* Returns the digests that a manifest names: blobs, and other manifests. */
CREATE FUNCTION gpucredit_registry.oci_named(manifest jsonb,
	OUT blobs text[], OUT manifests text[])
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF jsonb_typeof(manifest) IS DISTINCT FROM 'object'
		OR manifest -> 'schemaVersion' IS DISTINCT FROM '2'
		OR EXISTS (SELECT FROM unnest('{layers,blobs,manifests}'::text[]) k (k)
			WHERE jsonb_typeof(manifest -> k.k) <> 'array'
				OR CASE jsonb_typeof(manifest -> k.k) WHEN 'array'
					THEN jsonb_array_length(manifest -> k.k) > 1000 END)
		OR NOT manifest ?| '{config,manifests,blobs}'
	THEN
		PERFORM gpucredit_registry.refuse('the manifest is malformed',
			'It has schemaVersion 2, and config and layers, or manifests, at most 1,000 each.');
	END IF;
	SELECT coalesce(array_agg(DISTINCT n.d ->> 'digest')
			FILTER (WHERE NOT n.of_manifest AND NOT n.d ? 'urls'), '{}'),
		coalesce(array_agg(DISTINCT n.d ->> 'digest') FILTER (WHERE n.of_manifest), '{}')
	INTO oci_named.blobs, oci_named.manifests
	FROM (SELECT manifest -> 'config' AS d, false AS of_manifest WHERE manifest ? 'config'
		UNION ALL SELECT jsonb_array_elements(manifest -> 'layers'), false
		UNION ALL SELECT jsonb_array_elements(manifest -> 'blobs'), false
		UNION ALL SELECT jsonb_array_elements(manifest -> 'manifests'), true) n;
	PERFORM gpucredit_registry.oci_digest(d)
	FROM unnest(oci_named.blobs || oci_named.manifests) d;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.oci_named(jsonb) IS
'Internal: what a manifest or an index names (22023).';

CREATE FUNCTION gpucredit_registry.oci_put_manifest(r gpucredit_registry.http_request,
	m gpucredit_registry.model, reference text) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	b jsonb;
	named record;
	hex text;
	media text;
	missing text;
	v gpucredit_registry.version;
	tag text := CASE WHEN reference !~ '^sha256:' THEN reference END;
BEGIN
	IF (r).body IS NULL THEN
		RETURN (200, '{}', NULL, '{"collect": true}')::gpucredit_registry.http_response;
	ELSIF octet_length((r).body) > 1048576 THEN
		PERFORM gpucredit_registry.refuse_request(413, 'a manifest has at most 1 MiB',
			'Name fewer layers.');
	END IF;
	b := gpucredit_registry.body_of(r);
	named := gpucredit_registry.oci_named(b);
	hex := encode(sha256((r).body), 'hex');
	media := coalesce(b ->> 'mediaType', (r).headers ->> 'content-type',
		'application/vnd.oci.image.manifest.v1+json');
	IF media !~ '^[A-Za-z0-9][A-Za-z0-9!#$&^_.+/-]{0,254}$'
		OR tag IS NULL AND reference <> 'sha256:' || hex
	THEN
		PERFORM gpucredit_registry.refuse('the manifest is not what it is said to be',
			format('It is sha256:%s, and of type "%s".', hex, left(media, 96)));
	END IF;
	SELECT min(d) INTO missing FROM unnest(named.blobs) d
	WHERE NOT gpucredit_registry.oci_has(m, gpucredit_registry.oci_digest(d));
	missing := coalesce(missing, (SELECT min(d) FROM unnest(named.manifests) d
		WHERE (gpucredit_registry.find_version(m, replace(d, ':', '/'))).version IS NULL));
	IF missing IS NOT NULL THEN
		PERFORM gpucredit_registry.refuse_request(404, format('%s is not in the repository', missing),
			'Push what a manifest names before it.');
	END IF;
	PERFORM gpucredit_registry.lock_model(m);
	v := gpucredit_registry.find_version(m, 'sha256/' || hex);
	IF v.version IS NULL THEN
		PERFORM gpucredit_registry.commit_or_refuse(m, 'sha256/' || hex,
			jsonb_build_array(jsonb_build_object('path', 'manifest.json', 'content',
				translate(encode((r).body, 'base64'), E'\n', '')))
			|| (SELECT coalesce(jsonb_agg(jsonb_build_object(
					'path', 'blobs/' || replace(d, ':', '/'), 'sha256', substr(d, 8))), '[]')
				FROM unnest(named.blobs) d),
			gen_random_uuid()::text, NULL, '[]', (r).caller,
			gpucredit_registry.caller_name((r).caller), media, NULL);
		v := gpucredit_registry.find_version(m, 'sha256/' || hex);
	END IF;
	IF tag IS NOT NULL THEN
		PERFORM gpucredit_registry.check_ref(tag);
		PERFORM gpucredit_registry.check_movable(m, tag, v.version);
		PERFORM gpucredit_registry.put_ref(m, tag, v.version,
			gpucredit_registry.caller_name((r).caller));
	END IF;
	RETURN (201, jsonb_build_object('Docker-Content-Digest', 'sha256:' || hex, 'Location',
		gpucredit_registry.oci_url(r, m, 'manifests/sha256:' || hex)), NULL, NULL
		)::gpucredit_registry.http_response;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.oci_put_manifest(gpucredit_registry.http_request, gpucredit_registry.model, text) IS
'Internal: PUT .../manifests/REFERENCE.';

/*
 * Deletes a manifest. A digest deletes the manifest with all its tags, a tag
 * deletes only the tag.
 */
CREATE FUNCTION gpucredit_registry.oci_delete_manifest(r gpucredit_registry.http_request,
	m gpucredit_registry.model, rev text) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	v gpucredit_registry.version;
BEGIN
	PERFORM gpucredit_registry.lock_model(m);
	SELECT o.* INTO v FROM gpucredit_registry.ref f
		JOIN gpucredit_registry.version o USING (org, version)
	WHERE f.org = (m).org AND f.model = (m).model AND f.ref = rev;
	IF NOT FOUND THEN
		PERFORM gpucredit_registry.no_revision(m, rev);
	END IF;
	PERFORM gpucredit_registry.check_movable(m, f.ref) FROM gpucredit_registry.ref f
	WHERE f.org = v.org AND f.model = v.model AND f.version = v.version
		AND (rev LIKE 'sha256/%' OR f.ref = rev);
	IF rev LIKE 'sha256/%' THEN
		PERFORM gpucredit_registry.check_held(m, v.version);
		IF EXISTS (SELECT FROM gpucredit_registry.immutable_tags(m) t WHERE t.version = v.version)
			OR EXISTS (SELECT FROM gpucredit_registry.ref f WHERE f.org = v.org
				AND f.model = v.model AND f.version = v.version AND starts_with(f.ref, '@'))
		THEN
			PERFORM gpucredit_registry.refuse_request(403, 'an alias or an immutable tag keeps it',
				'Move the alias first; an immutable tag stays.');
		END IF;
	END IF;
	DELETE FROM gpucredit_registry.ref f
	WHERE f.org = v.org AND f.model = v.model AND f.version = v.version
		AND (rev LIKE 'sha256/%' OR f.ref = rev);
	IF rev LIKE 'sha256/%' THEN
		UPDATE gpucredit_registry.version o
		SET restricted_at = NULL, restricted_reason = NULL
		WHERE o.org = v.org AND o.version = v.version AND o.restricted_at IS NOT NULL;
		DELETE FROM gpucredit_registry.scan s WHERE s.org = v.org AND s.version = v.version;
		PERFORM gpucredit_registry.drop_files(v.org, v.version);
	END IF;
	PERFORM gpucredit_registry.record((m).org, 'delete_ref',
		gpucredit_registry.caller_name((r).caller),
		jsonb_build_object('model', (m).model, 'ref', rev, 'version', v.version));
	PERFORM gpucredit_registry.publish_model('ref_deleted', (m).org, (m).model,
		jsonb_build_object('ref', rev));
	RETURN (202, '{}', NULL, NULL)::gpucredit_registry.http_response;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.oci_delete_manifest(gpucredit_registry.http_request, gpucredit_registry.model, text) IS
'Internal: DELETE .../manifests/REFERENCE.';

CREATE FUNCTION gpucredit_registry.oci_manifest(r gpucredit_registry.http_request,
	m gpucredit_registry.model, reference text) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	rev text := CASE WHEN reference ~ '^sha256:'
		THEN 'sha256/' || encode(gpucredit_registry.oci_digest(reference), 'hex')
		ELSE reference END;
	o record;
BEGIN
	IF (r).method = 'PUT' THEN
		RETURN gpucredit_registry.oci_put_manifest(r, m, reference);
	ELSIF (r).method = 'DELETE' THEN
		RETURN gpucredit_registry.oci_delete_manifest(r, m, rev);
	END IF;
	o := gpucredit_registry.require_file(m, rev, 'manifest.json', (r).caller);
	RETURN gpucredit_registry.send_object(r, m, (o.v).version, (o.f).object, (o.f).size,
		jsonb_build_object('Content-Type', (o.v).title, 'Docker-Content-Digest',
			'sha256:' || encode((o.f).object, 'hex')));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.oci_manifest(gpucredit_registry.http_request, gpucredit_registry.model, text) IS
'Internal: .../manifests/REFERENCE, a tag or a digest.';

CREATE FUNCTION gpucredit_registry.oci_tags(r gpucredit_registry.http_request,
	m gpucredit_registry.model) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	page integer := least(coalesce(substring((r).query ->> 'n' FROM '^[0-9]{1,5}$')::integer,
		1000), 1000);
	list text[];
BEGIN
	SELECT coalesce(array_agg(t.ref ORDER BY t.ref), '{}') INTO list
	FROM (SELECT f.ref FROM gpucredit_registry.ref f
		WHERE f.org = (m).org AND f.model = (m).model AND strpos(f.ref, '/') = 0
			AND NOT starts_with(f.ref, '@')
			AND f.ref > coalesce((r).query ->> 'last', '')
		ORDER BY f.ref LIMIT page) t;
	RETURN gpucredit_registry.json_response(jsonb_build_object(
			'name', (m).org || '/' || (m).name, 'tags', to_jsonb(list)), 200,
		CASE WHEN cardinality(list) = page AND page > 0 THEN jsonb_build_object('Link',
			format('<%s?n=%s&last=%s>; rel="next"', gpucredit_registry.oci_url(r, m, 'tags/list'),
				page, list[page])) ELSE '{}' END);
END
$$;
COMMENT ON FUNCTION gpucredit_registry.oci_tags(gpucredit_registry.http_request, gpucredit_registry.model) IS
'Internal: GET .../tags/list, by pages.';

/*
 * Returns the repository. The first push to a name in the caller's own
 * organisation creates it.
 */
CREATE FUNCTION gpucredit_registry.oci_model(r gpucredit_registry.http_request,
	org text, name text) RETURNS gpucredit_registry.model
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF (r).method IN ('POST', 'PUT') AND ((r).caller).org = oci_model.org
		AND ((r).caller).scope = 'write'
		AND NOT EXISTS (SELECT FROM gpucredit_registry.model o
			WHERE o.org = oci_model.org AND o.kind = 'image' AND o.name = oci_model.name
				AND o.deleted_at IS NULL)
	THEN
		BEGIN
			PERFORM gpucredit_registry.create_model(oci_model.org, ((r).caller).account,
				oci_model.name, gen_random_uuid()::text, kind => 'image');
		EXCEPTION WHEN SQLSTATE 'UC507' THEN
			NULL;				/* a concurrent push has created it */
		END;
	END IF;
	RETURN gpucredit_registry.require_model(oci_model.org, oci_model.name, 'image', (r).caller,
		CASE WHEN (r).method IN ('GET', 'HEAD') AND (r).path !~ '/blobs/uploads/'
			THEN 'read' ELSE 'write' END);
END
$$;
COMMENT ON FUNCTION gpucredit_registry.oci_model(gpucredit_registry.http_request, text, text) IS
'Internal: the image repository of a name.';

CREATE FUNCTION gpucredit_registry.oci_route(r gpucredit_registry.http_request,
	words text[]) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	n integer := array_length(words, 1);
	m gpucredit_registry.model;
BEGIN
	IF n = 2 AND words[2] = 'token' THEN
		RETURN gpucredit_registry.oci_token(r);
	ELSIF coalesce(words[2], '') = '' THEN
		/* The status tells clients that they can authenticate. */
		IF NOT (r).headers ? 'authorization' THEN
			PERFORM gpucredit_registry.refuse_request(401, 'a token is needed', 'Send one.');
		END IF;
		RETURN gpucredit_registry.json_response('{}', 200,
			'{"Docker-Distribution-Api-Version": "registry/2.0"}');
	END IF;
	IF n = 5 AND words[4:5] = '{tags,list}' AND (r).method IN ('GET', 'HEAD')
		OR n = 5 AND words[4] = 'manifests' AND (r).method IN ('GET', 'HEAD', 'PUT', 'DELETE')
		OR n = 5 AND words[4] = 'blobs' AND (r).method IN ('GET', 'HEAD', 'DELETE')
		OR n = 6 AND words[4:5] = '{blobs,uploads}' AND (words[6] = ''
			AND (r).method = 'POST'
			OR words[6] ~ '^[0-9]{1,18}$' AND (r).method <> 'POST')
	THEN
		m := gpucredit_registry.oci_model(r, words[2], words[3]);
	END IF;
	RETURN CASE
		WHEN m.model IS NULL THEN gpucredit_registry.oci_error(r, 404, 'no such endpoint')
		WHEN words[4] = 'tags' THEN gpucredit_registry.oci_tags(r, m)
		WHEN words[4] = 'manifests' THEN gpucredit_registry.oci_manifest(r, m, words[5])
		WHEN n = 5 THEN gpucredit_registry.oci_blob(r, m, words[5])
		WHEN words[6] = '' THEN gpucredit_registry.oci_start(r, m)
		ELSE gpucredit_registry.oci_upload(r, m, words[6]::bigint) END;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.oci_route(gpucredit_registry.http_request, text[]) IS
'Internal: the function that answers a request below /v2/.';
