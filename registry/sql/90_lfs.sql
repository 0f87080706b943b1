/*
 * 90_lfs.sql: the batch API of git-lfs, with the transfers basic, tus, and
 * multipart as the Hub's clients use it.
 *
 * A request's context is one composite value: method, path, query, headers,
 * body, base (the URL before the path) and caller.
 */
CREATE TYPE gpucredit_registry.http_request AS (
	method text,
	path text,
	query jsonb,
	headers jsonb,
	body bytea,
	base text,
	caller gpucredit_registry.caller
);

CREATE FUNCTION gpucredit_registry.body_of(r gpucredit_registry.http_request)
RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN convert_from((r).body, 'UTF8')::jsonb;
EXCEPTION WHEN data_exception OR statement_too_complex OR program_limit_exceeded THEN
	PERFORM gpucredit_registry.refuse_request(400, 'the body is no JSON', SQLERRM);
END
$$;
COMMENT ON FUNCTION gpucredit_registry.body_of(gpucredit_registry.http_request) IS
'Internal: the body of a request, which is JSON.';

/*
 * Returns the actions by which a client gets or sends one object, or an error.
 * "room" is passed from one object of a batch to the next, see begin_upload().
 */
CREATE FUNCTION gpucredit_registry.lfs_object(r gpucredit_registry.http_request,
	m gpucredit_registry.model, transfer text, upload boolean, o jsonb,
	INOUT room gpucredit_registry.upload_room, OUT answer jsonb)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	digest bytea;
	begun record;
	u gpucredit_registry.upload_result;
	path text;
	parts boolean;
	refusal text;
BEGIN
	answer := jsonb_build_object('oid', o -> 'oid', 'size', o -> 'size', 'authenticated', true);
	IF coalesce(o ->> 'oid', '') !~ '^[0-9a-f]{64}$'
		OR coalesce(o ->> 'size', '') !~ '^[0-9]{1,18}$'
	THEN
		answer := answer || '{"error": {"code": 422, "message": "an object has an oid of 64 hex digits and a size"}}';
		RETURN;
	END IF;
	digest := decode(o ->> 'oid', 'hex');
	IF NOT upload THEN
		IF NOT EXISTS (SELECT FROM gpucredit_registry.version v
				JOIN gpucredit_registry.file f USING (org, version)
			WHERE v.org = (m).org AND v.model = (m).model AND f.object = digest)
			AND NOT gpucredit_registry.may_use_object((m).org, digest, (r).caller)
		THEN
			answer := answer || '{"error": {"code": 404, "message": "object does not exist"}}';
			RETURN;
		END IF;
		refusal := (gpucredit_registry.object_refusal(m, digest, (r).caller)).refusal;
		IF refusal IS NOT NULL THEN
			answer := answer || jsonb_build_object('error', jsonb_build_object('code', 403,
				'message', refusal));
			RETURN;
		END IF;
		/*
		 * The URL names the reader, because the client sends no token with it.
		 */
		path := concat_ws('/', format('/lfs/%s/%s/%s', (m).org, (m).model, o ->> 'oid'),
			gpucredit_registry.url_encode(gpucredit_registry.caller_name((r).caller)));
		answer := answer || jsonb_build_object('actions', jsonb_build_object('download',
			jsonb_build_object('href', gpucredit_registry.sign((r).base, 'GET', path),
				'expires_in', 3600)));
		RETURN;
	END IF;
	parts := transfer = 'multipart' AND (o ->> 'size')::bigint > gpucredit_registry.part_bytes();
	begun := gpucredit_registry.begin_upload(m, digest, (o ->> 'size')::bigint, parts, (r).caller,
		room);
	room := begun.room;
	u := begun.r;
	IF u.status = 'present' THEN
		RETURN;
	ELSIF u.status = 'denied' THEN
		answer := answer || jsonb_build_object('error', jsonb_build_object(
			'code', CASE u.reason WHEN 'storage_quota' THEN 403 ELSE 402 END,
			'message', u.reason));
		RETURN;
	END IF;
	path := format('/lfs/%s/%s', (m).org, u.upload);
	IF parts THEN
		answer := answer || jsonb_build_object('actions', jsonb_build_object('upload',
			jsonb_build_object('href', gpucredit_registry.sign((r).base, 'POST', path),
				'expires_in', 3600,
				'header', jsonb_build_object('chunk_size', gpucredit_registry.part_bytes()::text)
					|| (SELECT jsonb_object_agg(lpad(p.part::text, 5, '0'),
							gpucredit_registry.sign((r).base, 'PUT', format('%s/%s', path, p.part)))
						FROM gpucredit_registry.upload_part p
						WHERE p.org = (m).org AND p.upload = u.upload))));
		RETURN;
	END IF;
	answer := answer || jsonb_build_object('actions', jsonb_build_object('upload',
		jsonb_build_object('href', gpucredit_registry.sign((r).base,
			CASE transfer WHEN 'tus' THEN 'PATCH' ELSE 'PUT' END, path || '/1'),
			'expires_in', 3600)));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.lfs_object(gpucredit_registry.http_request, gpucredit_registry.model, text, boolean, jsonb, gpucredit_registry.upload_room) IS
'Internal: one object of a batch.';

CREATE FUNCTION gpucredit_registry.lfs_batch(r gpucredit_registry.http_request,
	kind text, org text, name text) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	b jsonb := gpucredit_registry.body_of(r);
	upload boolean := b ->> 'operation' = 'upload';
	transfer text := CASE WHEN upload AND b -> 'transfers' ? 'tus' THEN 'tus'
		WHEN upload AND b -> 'transfers' ? 'multipart' THEN 'multipart' ELSE 'basic' END;
	m gpucredit_registry.model;
	o jsonb;
	one record;
	room gpucredit_registry.upload_room;
	objects jsonb[] := '{}';
BEGIN
	m := gpucredit_registry.require_model(lfs_batch.org, lfs_batch.name, lfs_batch.kind,
		(r).caller, CASE WHEN upload THEN 'write' ELSE 'read' END);
	IF coalesce(b ->> 'operation', '') NOT IN ('upload', 'download')
		OR jsonb_typeof(b -> 'objects') IS DISTINCT FROM 'array'
		OR jsonb_array_length(b -> 'objects') > 1000
		OR coalesce(b ->> 'hash_algo', 'sha256') NOT IN ('sha256', 'sha_256')
	THEN
		PERFORM gpucredit_registry.refuse_request(422, 'the batch is malformed',
			'It has operation upload or download, at most 1,000 objects, and SHA-256.');
	END IF;
	FOR o IN SELECT jsonb_array_elements(b -> 'objects') LOOP
		one := gpucredit_registry.lfs_object(r, m, transfer, upload, o, room);
		room := one.room;
		objects := objects || one.answer;
	END LOOP;
	RETURN gpucredit_registry.json_response(jsonb_build_object(
			'transfer', transfer,
			'hash_algo', 'sha256',
			'objects', to_jsonb(objects)),
		200, '{"Content-Type": "application/vnd.git-lfs+json"}');
END
$$;
COMMENT ON FUNCTION gpucredit_registry.lfs_batch(gpucredit_registry.http_request, text, text, text) IS
'Internal: POST REPOSITORY.git/info/lfs/objects/batch.';

/*
 * Answers a PUT of a part to a signed URL: the daemon receives the bytes. The
 * part is begun here, so that the daemon needs no call of its own for it; it has
 * sent the number of its request as the header "writer".
 */
CREATE FUNCTION gpucredit_registry.lfs_put(r gpucredit_registry.http_request,
	org text, upload bigint, part integer) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	writer bigint := (r).headers ->> 'writer';
	expected bigint := gpucredit_registry.begin_part(lfs_put.org, lfs_put.upload,
		lfs_put.part, 0, writer);
BEGIN
	RETURN (200, '{}', NULL, jsonb_build_object('receive', jsonb_build_object(
		'org', lfs_put.org, 'upload', lfs_put.upload, 'part', lfs_put.part, 'from', 0,
		'writer', writer, 'expected', expected,
		'whole', (SELECT u.part_size >= u.size FROM gpucredit_registry.upload u
			WHERE u.org = lfs_put.org AND u.upload = lfs_put.upload)))
		)::gpucredit_registry.http_response;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.lfs_put(gpucredit_registry.http_request, text, bigint, integer) IS
'Internal: PUT of a part.';

/*
 * Implements tus (1.0.0): HEAD returns how much is stored, PATCH continues at
 * that byte. The digest of the whole is known only once all bytes have been
 * read again.
 */
CREATE FUNCTION gpucredit_registry.lfs_tus(r gpucredit_registry.http_request,
	org text, upload bigint) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	o record := gpucredit_registry.require_part(lfs_tus.org, lfs_tus.upload, 1);
	start text := (r).headers ->> 'upload-offset';
BEGIN
	IF (r).method = 'HEAD' THEN
		RETURN (200, jsonb_build_object('Tus-Resumable', '1.0.0',
				'Upload-Offset', (o.p).received::text, 'Upload-Length', (o.u).size::text,
				'Cache-Control', 'no-store'), NULL, '{"length": 0}'
			)::gpucredit_registry.http_response;
	END IF;
	IF coalesce(start, '') !~ '^[0-9]{1,18}$' THEN
		PERFORM gpucredit_registry.refuse_request(400, 'a PATCH has an Upload-Offset',
			'Ask for it by HEAD.');
	END IF;
	RETURN (204, '{"Tus-Resumable": "1.0.0"}', NULL, jsonb_build_object('receive',
		jsonb_build_object('org', lfs_tus.org, 'upload', lfs_tus.upload, 'part', 1,
			'from', start::bigint, 'partial', true, 'whole', start::bigint = 0,
			'verify', start::bigint > 0))
		)::gpucredit_registry.http_response;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.lfs_tus(gpucredit_registry.http_request, text, bigint) IS
'Internal: HEAD and PATCH of an upload.';

/*
 * Completes an upload whose parts are all stored: the daemon reads them again
 * to compute the digest.
 */
CREATE FUNCTION gpucredit_registry.lfs_complete(r gpucredit_registry.http_request,
	org text, upload bigint) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM gpucredit_registry.upload u
		WHERE u.org = lfs_complete.org AND u.upload = lfs_complete.upload)
	THEN
		PERFORM gpucredit_registry.no_upload(lfs_complete.upload);
	END IF;
	RETURN (200, '{}', NULL, jsonb_build_object('verify',
		gpucredit_registry.upload_pieces(lfs_complete.org, lfs_complete.upload))
		)::gpucredit_registry.http_response;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.lfs_complete(gpucredit_registry.http_request, text, bigint) IS
'Internal: POST after all parts.';

/*
 * Answers with the bytes of an object, all or a range; the daemon sends them
 * and then reports how many it sent. A proxy first asks whether a client may
 * have them ("check" and the method). That counts them as sent, so the bytes
 * that it then fetches for its cache ("fetch") do not count.
 */
CREATE FUNCTION gpucredit_registry.send_object(r gpucredit_registry.http_request,
	m gpucredit_registry.model, version bigint, object bytea, size bigint,
	headers jsonb) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	wanted record;
	etag text := format('"%s"', encode(object, 'hex'));
	action text := coalesce((r).headers ->> 'x-registry-proxy', '');
	d record;
BEGIN
	headers := '{"Accept-Ranges": "bytes", "Content-Type": "application/octet-stream"}'
		|| jsonb_build_object('ETag', etag, 'X-Linked-ETag', etag,
			'X-Linked-Size', size::text) || headers;
	IF action = 'check HEAD' OR (starts_with(action, 'check ')
		AND (r).headers ->> 'if-none-match' IN (etag, '*'))
	THEN
		RETURN (204, headers, NULL, NULL)::gpucredit_registry.http_response;
	ELSIF (r).headers ->> 'if-none-match' IN (etag, '*') THEN
		RETURN (304, headers, NULL, NULL)::gpucredit_registry.http_response;
	END IF;
	/*
	 * Clients request the first byte to learn the size, even of an empty file.
	 */
	IF size = 0 AND (r).headers ->> 'range' ~ '^bytes=0-' THEN
		r.headers := (r).headers - 'range';
		headers := headers || '{"Content-Range": "bytes */0"}';
	END IF;
	wanted := gpucredit_registry.range_of(CASE
		WHEN coalesce((r).headers ->> 'if-range', etag) = etag THEN (r).headers ->> 'range' END,
		size);
	IF wanted.first IS NULL THEN
		RETURN (416, headers || jsonb_build_object('Content-Range', format('bytes */%s', size)),
			''::bytea, NULL)::gpucredit_registry.http_response;
	END IF;
	IF wanted.partial THEN
		headers := headers || jsonb_build_object('Content-Range',
			format('bytes %s-%s/%s', wanted.first, wanted.last, size));
	END IF;
	IF (r).method = 'HEAD' THEN
		RETURN (CASE WHEN wanted.partial THEN 206 ELSE 200 END, headers, NULL,
			jsonb_build_object('length', wanted.last - wanted.first + 1)
			)::gpucredit_registry.http_response;
	END IF;
	IF action = 'fetch' THEN
		RETURN (CASE WHEN wanted.partial THEN 206 ELSE 200 END, headers, NULL,
			jsonb_build_object('length', wanted.last - wanted.first + 1, 'send',
				gpucredit_registry.send_plan(object, wanted.first, wanted.last))
			)::gpucredit_registry.http_response;
	END IF;
	d := gpucredit_registry.open_read((m).org, version, (m).model, object,
		(r).caller, (r).headers ->> 'client-address', wanted.last - wanted.first + 1);
	IF d.reason IS NOT NULL THEN
		PERFORM gpucredit_registry.deny_request(CASE d.reason WHEN 'egress_quota' THEN 429
			ELSE 402 END, (m).org, (m).account, d.reason);
	ELSIF starts_with(action, 'check ') THEN
		PERFORM gpucredit_registry.close_download((m).org, d.download,
			wanted.last - wanted.first + 1);
		RETURN (204, headers, NULL, NULL)::gpucredit_registry.http_response;
	END IF;
	RETURN (CASE WHEN wanted.partial THEN 206 ELSE 200 END, headers, NULL,
		jsonb_build_object('length', wanted.last - wanted.first + 1, 'org', (m).org,
			'download', d.download, 'send',
			gpucredit_registry.send_plan(object, wanted.first, wanted.last))
		)::gpucredit_registry.http_response;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.send_object(gpucredit_registry.http_request, gpucredit_registry.model, bigint, bytea, bigint, jsonb) IS
'Internal: answers a request for an object''s bytes.';

CREATE FUNCTION gpucredit_registry.lfs_get(r gpucredit_registry.http_request,
	org text, model bigint, oid text, caller text) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model;
	b gpucredit_registry.object;
	seen record;
BEGIN
	r.caller := gpucredit_registry.named_caller(lfs_get.caller);
	SELECT * INTO m FROM gpucredit_registry.model o
	WHERE o.org = lfs_get.org AND o.model = lfs_get.model;
	SELECT o.* INTO b FROM gpucredit_registry.possession p
		JOIN gpucredit_registry.object o ON o.sha256 = p.object
	WHERE p.org = lfs_get.org AND p.object = decode(lfs_get.oid, 'hex');
	/* The right to read may have ended since the URL was signed. */
	IF b.sha256 IS NULL
		OR gpucredit_registry.permission_of(m.org, m.model, r.caller) IS NULL
		OR NOT EXISTS (SELECT FROM gpucredit_registry.file f
				JOIN gpucredit_registry.version v USING (org, version)
			WHERE f.org = m.org AND f.object = b.sha256 AND v.model = m.model)
			AND NOT gpucredit_registry.may_use_object(m.org, b.sha256, r.caller)
	THEN
		PERFORM gpucredit_registry.not_found('object ' || lfs_get.oid);
	END IF;
	seen := gpucredit_registry.object_refusal(m, b.sha256, r.caller);
	PERFORM gpucredit_registry.refuse_read(seen.v, seen.refusal);
	RETURN gpucredit_registry.send_object(r, m, NULL, b.sha256, b.size, '{}');
END
$$;
COMMENT ON FUNCTION gpucredit_registry.lfs_get(gpucredit_registry.http_request, text, bigint, text, text) IS
'Internal: GET of an object, by a signed URL, which names who asked for it.';

/*
 * Answers a scanner's read of what it has claimed. Nobody pays for it, and
 * quarantine does not prevent it.
 */
CREATE FUNCTION gpucredit_registry.scan_get(r gpucredit_registry.http_request,
	org text, version bigint, oid text) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	f gpucredit_registry.file;
	wanted record;
BEGIN
	SELECT * INTO f FROM gpucredit_registry.file o
	WHERE o.org = scan_get.org AND o.version = scan_get.version
		AND o.object = decode(scan_get.oid, 'hex')
	LIMIT 1;
	IF NOT FOUND THEN
		PERFORM gpucredit_registry.not_found('object ' || scan_get.oid);
	END IF;
	wanted := gpucredit_registry.range_of((r).headers ->> 'range', f.size);
	IF wanted.first IS NULL THEN
		RETURN (416, '{}', ''::bytea, NULL)::gpucredit_registry.http_response;
	END IF;
	RETURN (CASE WHEN wanted.partial THEN 206 ELSE 200 END, '{}', NULL, jsonb_build_object(
		'length', wanted.last - wanted.first + 1, 'send',
		gpucredit_registry.send_plan(f.object, wanted.first, wanted.last))
		)::gpucredit_registry.http_response;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.scan_get(gpucredit_registry.http_request, text, bigint, text) IS
'Internal: GET of a file of a version that is scanned, by a signed URL.';
