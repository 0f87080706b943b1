/*
 * 91_hub.sql: the part of the Hub's API that its clients use for models and
 * datasets.
 */
CREATE FUNCTION gpucredit_registry.repo_url(r gpucredit_registry.http_request,
	m gpucredit_registry.model) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT (r).base || CASE (m).kind WHEN 'dataset' THEN '/datasets/' ELSE '/' END
		|| (m).org || '/' || (m).name;
END;
COMMENT ON FUNCTION gpucredit_registry.repo_url(gpucredit_registry.http_request, gpucredit_registry.model) IS
'Internal: where a repository is.';

CREATE FUNCTION gpucredit_registry.hub_whoami(r gpucredit_registry.http_request)
RETURNS gpucredit_registry.http_response
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT CASE WHEN (r).caller IS NULL
		THEN gpucredit_registry.error_response(401, 'a token is needed')
		ELSE gpucredit_registry.json_response(jsonb_build_object(
			'id', gpucredit_registry.caller_name((r).caller),
			'type', 'user', 'name', ((r).caller).org, 'fullname',
			rtrim(((r).caller).org || '/' || ((r).caller).account, '/'),
			'email', NULL, 'emailVerified', false, 'canPay', true, 'isPro', false,
			'avatarUrl', '', 'periodEnd', NULL, 'billingMode', 'prepaid',
			'orgs', jsonb_build_array(jsonb_build_object('id', ((r).caller).org, 'type', 'org',
				'name', ((r).caller).org, 'fullname', ((r).caller).org, 'email', NULL,
				'canPay', true, 'avatarUrl', '', 'periodEnd', NULL)),
			'auth', jsonb_build_object('type', 'access_token', 'accessToken',
				jsonb_build_object('displayName', 'token', 'role', ((r).caller).scope)))) END;
END;
COMMENT ON FUNCTION gpucredit_registry.hub_whoami(gpucredit_registry.http_request) IS
'Internal: GET /api/whoami-v2.';

/*
 * Returns the idempotency key of a request. All HTTP requests call the
 * database as the daemon. A key therefore contains its caller's account, so
 * that it cannot collide with those of other callers or of the daemon itself.
 */
CREATE FUNCTION gpucredit_registry.http_key(r gpucredit_registry.http_request)
RETURNS text
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	SELECT coalesce(CASE WHEN octet_length(h.key) BETWEEN 1 AND 255 THEN 'http/'
			|| encode(sha256(convert_to(jsonb_build_array(((r).caller).org,
				((r).caller).account, h.key)::text, 'UTF8')), 'hex')
		ELSE h.key END, gen_random_uuid()::text)
	FROM (SELECT (r).headers ->> 'idempotency-key') AS h (key);
END;
COMMENT ON FUNCTION gpucredit_registry.http_key(gpucredit_registry.http_request) IS
'Internal: the key of a request: its header Idempotency-Key, of its caller''s account alone; without the header a random one.';

/*
 * Makes a commit. A denied commit raises an error, so that nothing is stored.
 */
CREATE FUNCTION gpucredit_registry.commit_or_refuse(m gpucredit_registry.model, ref text,
	operations jsonb, key text, parent text, parents jsonb,
	caller gpucredit_registry.caller, author text, title text, description text)
RETURNS gpucredit_registry.commit_result
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	c gpucredit_registry.commit_result := gpucredit_registry.commit_as(m, commit_or_refuse.ref,
		operations, key, parent, parents, caller, author, title, description);
BEGIN
	IF c.status = 'denied' THEN
		PERFORM gpucredit_registry.deny_request(
			CASE c.reason WHEN 'insufficient_credits' THEN 402 ELSE 403 END,
			(m).org, (m).account, c.reason);
	END IF;
	RETURN c;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.commit_or_refuse(gpucredit_registry.model, text, jsonb, text, text, jsonb, gpucredit_registry.caller, text, text, text) IS
'Internal: commits on behalf of an HTTP client, or refuses the request (402, 403).';

/*
 * Creates a repository, which only accounts of the organisation itself may do.
 */
CREATE FUNCTION gpucredit_registry.hub_create(r gpucredit_registry.http_request)
RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	b jsonb := gpucredit_registry.body_of(r);
	owner text := coalesce(b ->> 'organization', ((r).caller).org);
	made record;
	m gpucredit_registry.model;
BEGIN
	IF (r).caller IS NULL THEN
		PERFORM gpucredit_registry.refuse_request(401, 'a token is needed', 'Send one.');
	ELSIF ((r).caller).org <> owner OR ((r).caller).scope <> 'write' THEN
		PERFORM gpucredit_registry.refuse_request(403, 'no permission to create repositories here',
			'Use a token of the organisation with scope write.');
	END IF;
	made := gpucredit_registry.create_model(owner, ((r).caller).account, b ->> 'name',
		gpucredit_registry.http_key(r),
		coalesce(b ->> 'visibility', CASE WHEN (b ->> 'private')::boolean IS FALSE
			THEN 'public' ELSE 'private' END),
		b ->> 'license', NULL, coalesce(b ->> 'type', 'model'));
	SELECT * INTO m FROM gpucredit_registry.model o
	WHERE o.org = owner AND o.model = made.model;
	IF jsonb_typeof(b -> 'files') = 'array' AND jsonb_array_length(b -> 'files') > 0 THEN
		PERFORM gpucredit_registry.commit_or_refuse(m, 'main',
			(SELECT jsonb_agg(jsonb_build_object('path', f -> 'path', 'content', f -> 'content'))
				FROM jsonb_array_elements(b -> 'files') f),
			format('create/%s', m.model), NULL, '[]', (r).caller,
			gpucredit_registry.caller_name((r).caller), 'initial commit', NULL);
	END IF;
	RETURN gpucredit_registry.json_response(jsonb_build_object('url',
		gpucredit_registry.repo_url(r, m), 'name', m.org || '/' || m.name, 'id', m.model::text));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.hub_create(gpucredit_registry.http_request) IS
'Internal: POST /api/repos/create.';

CREATE FUNCTION gpucredit_registry.hub_delete(r gpucredit_registry.http_request)
RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	b jsonb := gpucredit_registry.body_of(r);
	m gpucredit_registry.model;
BEGIN
	m := gpucredit_registry.require_model(coalesce(b ->> 'organization', ((r).caller).org),
		b ->> 'name', coalesce(b ->> 'type', 'model'), (r).caller, 'admin');
	PERFORM gpucredit_registry.delete_model(m.org, m.model,
		gpucredit_registry.http_key(r));
	RETURN gpucredit_registry.json_response('{}');
END
$$;
COMMENT ON FUNCTION gpucredit_registry.hub_delete(gpucredit_registry.http_request) IS
'Internal: DELETE /api/repos/delete.';

CREATE FUNCTION gpucredit_registry.hub_model(r gpucredit_registry.http_request,
	m gpucredit_registry.model, v gpucredit_registry.version) RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT jsonb_build_object('_id', (m).model::text, 'id', (m).org || '/' || (m).name,
		'modelId', (m).org || '/' || (m).name, 'author', (m).org,
		'private', (m).visibility = 'private', 'gated', false, 'disabled', false, 'likes', 0,
		'downloads', (SELECT coalesce(sum(e.downloads), 0) FROM gpucredit_registry.egress e
			WHERE e.org = (m).org AND e.model = (m).model),
		'sha', (v).oid, 'createdAt', (m).created_at,
		'lastModified', coalesce((v).created_at, (m).created_at),
		'tags', to_jsonb((m).tags || (m).facets),
		'pipeline_tag', (m).fields #> '{pipeline_tag,0}',
		'library_name', (m).fields #> '{library_name,0}',
		'cardData', jsonb_strip_nulls(jsonb_build_object('license', (m).license))
			|| (SELECT coalesce(jsonb_object_agg(f.key, CASE jsonb_array_length(f.value)
				WHEN 1 THEN f.value -> 0 ELSE f.value END), '{}')
				FROM jsonb_each((m).fields) f),
		'siblings', (SELECT coalesce(jsonb_agg(jsonb_build_object('rfilename', f.path)
				ORDER BY f.path), '[]')
			FROM gpucredit_registry.file f
			WHERE f.org = (m).org AND f.version = (v).version));
END;
COMMENT ON FUNCTION gpucredit_registry.hub_model(gpucredit_registry.http_request, gpucredit_registry.model, gpucredit_registry.version) IS
'Internal: a repository as the Hub describes one.';

CREATE FUNCTION gpucredit_registry.hub_info(r gpucredit_registry.http_request,
	m gpucredit_registry.model, rev text) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	v gpucredit_registry.version := gpucredit_registry.find_version(m, coalesce(rev, 'main'));
BEGIN
	IF v.version IS NULL AND rev IS NOT NULL AND rev NOT IN ('main', 'HEAD') THEN
		PERFORM gpucredit_registry.no_revision(m, rev);
	END IF;
	RETURN gpucredit_registry.json_response(gpucredit_registry.hub_model(r, m, v));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.hub_info(gpucredit_registry.http_request, gpucredit_registry.model, text) IS
'Internal: GET /api/models/ORG/NAME and .../revision/REV.';

/*
 * Returns the files and folders of a version below a folder, as the Hub lists
 * them.
 */
CREATE FUNCTION gpucredit_registry.hub_entries(m gpucredit_registry.model,
	v gpucredit_registry.version, folder text, recursive boolean)
RETURNS TABLE (path text, entry jsonb)
LANGUAGE sql STABLE
BEGIN ATOMIC
	WITH
	inside AS (
		SELECT f.*, CASE WHEN hub_entries.folder = '' THEN f.path
			ELSE substr(f.path, length(hub_entries.folder) + 2) END AS rest
		FROM gpucredit_registry.file f
		WHERE f.org = (v).org AND f.version = (v).version
			AND (hub_entries.folder = '' OR starts_with(f.path, hub_entries.folder || '/'))),
	folders AS (
		SELECT DISTINCT concat_ws('/', nullif(hub_entries.folder, ''),
			array_to_string((string_to_array(i.rest, '/'))[:d.depth], '/')) AS path
		FROM inside i, generate_series(1, CASE WHEN hub_entries.recursive
			THEN array_length(string_to_array(i.rest, '/'), 1) - 1
			ELSE least(array_length(string_to_array(i.rest, '/'), 1) - 1, 1) END) AS d (depth))
	SELECT i.path, jsonb_build_object('type', 'file', 'path', i.path, 'size', i.size,
			'oid', encode(substr(i.object, 1, 20), 'hex'))
		|| CASE WHEN i.lfs THEN jsonb_build_object('lfs', jsonb_build_object(
			'oid', encode(i.object, 'hex'), 'size', i.size, 'pointerSize', 134)) ELSE '{}' END
	FROM inside i
	WHERE hub_entries.recursive OR strpos(i.rest, '/') = 0
	UNION ALL
	SELECT d.path, jsonb_build_object('type', 'directory', 'path', d.path, 'size', 0,
		'oid', encode(substr(sha256(convert_to(d.path, 'UTF8')), 1, 20), 'hex'))
	FROM folders d;
END;
COMMENT ON FUNCTION gpucredit_registry.hub_entries(gpucredit_registry.model, gpucredit_registry.version, text, boolean) IS
'Internal: the tree of a version.';

CREATE FUNCTION gpucredit_registry.hub_tree(r gpucredit_registry.http_request,
	m gpucredit_registry.model, rev text, folder text)
RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	v gpucredit_registry.version := gpucredit_registry.require_version(m, rev);
	cursor_at text := coalesce((r).query ->> 'cursor', '');
	page integer := least(greatest(coalesce(substring((r).query ->> 'limit'
		FROM '^[0-9]{1,4}$')::integer, 1000), 1), 1000);
	found_entries jsonb;
	n integer;
	last_path text;
BEGIN
	SELECT coalesce(jsonb_agg(e.entry ORDER BY e.path), '[]'), count(*), max(e.path)
	INTO found_entries, n, last_path
	FROM (SELECT t.path COLLATE "C" AS path, t.entry
		FROM gpucredit_registry.hub_entries(m, v, coalesce(folder, ''),
			coalesce((r).query ->> 'recursive', '') IN ('true', '1')) t
		WHERE t.path COLLATE "C" > cursor_at ORDER BY 1 LIMIT page) e;
	IF n = 0 AND coalesce(folder, '') <> '' AND cursor_at = '' THEN
		RAISE EXCEPTION 'folder "%" does not exist', left(folder, 96)
			USING ERRCODE = 'UC501', DETAIL = 'The version has no such folder.',
			HINT = 'List the folder above it.', COLUMN = 'EntryNotFound';
	END IF;
	RETURN gpucredit_registry.json_response(found_entries, 200, CASE WHEN n = page THEN
		jsonb_build_object('Link', format('<%s%s?recursive=%s&limit=%s&cursor=%s>; rel="next"',
			(r).base, (r).path, coalesce((r).query ->> 'recursive', 'false'), page,
			gpucredit_registry.url_encode(last_path))) ELSE '{}' END);
END
$$;
COMMENT ON FUNCTION gpucredit_registry.hub_tree(gpucredit_registry.http_request, gpucredit_registry.model, text, text) IS
'Internal: GET .../tree/REV/FOLDER, by pages.';

CREATE FUNCTION gpucredit_registry.url_encode(word text) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT coalesce(string_agg(CASE WHEN c.c ~ '^[A-Za-z0-9._~/-]$' THEN c.c
		ELSE regexp_replace(upper(encode(convert_to(c.c, 'UTF8'), 'hex')), '(..)', '%\1', 'g')
		END, '' ORDER BY c.n), '')
	FROM regexp_split_to_table(url_encode.word, '') WITH ORDINALITY AS c (c, n);
END;
COMMENT ON FUNCTION gpucredit_registry.url_encode(text) IS
'Internal: a word as it may stand in a URL.';

CREATE FUNCTION gpucredit_registry.hub_paths(r gpucredit_registry.http_request,
	m gpucredit_registry.model, rev text) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	b jsonb := gpucredit_registry.body_of(r);
	v gpucredit_registry.version := gpucredit_registry.require_version(m, rev);
BEGIN
	IF jsonb_typeof(b -> 'paths') IS DISTINCT FROM 'array'
		OR jsonb_array_length(b -> 'paths') > 1000
	THEN
		PERFORM gpucredit_registry.refuse_request(422, 'paths is an array of at most 1,000', 'Ask for fewer.');
	END IF;
	RETURN gpucredit_registry.json_response((SELECT coalesce(jsonb_agg(e.entry), '[]')
		FROM gpucredit_registry.hub_entries(m, v, '', true) e
		WHERE b -> 'paths' ? e.path));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.hub_paths(gpucredit_registry.http_request, gpucredit_registry.model, text) IS
'Internal: POST .../paths-info/REV.';

/*
 * Tells the client how to send each file: text up to 1 MiB is sent with the
 * commit; all other files are uploaded.
 */
CREATE FUNCTION gpucredit_registry.hub_preupload(r gpucredit_registry.http_request,
	m gpucredit_registry.model) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	b jsonb := gpucredit_registry.body_of(r);
BEGIN
	IF jsonb_typeof(b -> 'files') IS DISTINCT FROM 'array'
		OR jsonb_array_length(b -> 'files') > 1000
	THEN
		PERFORM gpucredit_registry.refuse_request(422, 'files is an array of at most 1,000', 'Ask for fewer.');
	END IF;
	RETURN gpucredit_registry.json_response(jsonb_build_object('files',
		(SELECT coalesce(jsonb_agg(jsonb_build_object('path', f -> 'path', 'shouldIgnore', false,
			'uploadMode', CASE WHEN coalesce(f ->> 'size', '') ~ '^[0-9]{1,6}$'
					AND gpucredit_registry.has_no_zero_byte(f ->> 'sample')
				THEN 'regular' ELSE 'lfs' END) ORDER BY o.n), '[]')
		FROM jsonb_array_elements(b -> 'files') WITH ORDINALITY AS o (f, n))));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.hub_preupload(gpucredit_registry.http_request, gpucredit_registry.model) IS
'Internal: POST .../preupload/REV.';

CREATE FUNCTION gpucredit_registry.has_no_zero_byte(sample text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	/* The sample may end inside a character. */
	RETURN encode(decode(sample, 'base64'), 'escape') !~ '\\000';
EXCEPTION WHEN invalid_parameter_value THEN
	RETURN false;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.has_no_zero_byte(text) IS
'Internal: has a file''s beginning, in base64, no zero byte?';

/* Makes a commit from lines of JSON objects: a header, then files. */
CREATE FUNCTION gpucredit_registry.hub_commit(r gpucredit_registry.http_request,
	m gpucredit_registry.model, rev text) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	header jsonb;
	operations jsonb;
	unknown text;
	c gpucredit_registry.commit_result;
BEGIN
	BEGIN
		SELECT (array_agg(l.line -> 'value') FILTER (WHERE l.line ->> 'key' = 'header'))[1],
			coalesce(jsonb_agg(CASE l.line ->> 'key'
				WHEN 'file' THEN jsonb_build_object('path', l.line #> '{value,path}', 'content',
					CASE l.line #>> '{value,encoding}' WHEN 'base64' THEN l.line #>> '{value,content}'
						ELSE translate(encode(convert_to(l.line #>> '{value,content}', 'UTF8'),
							'base64'), E'\n', '') END)
				WHEN 'lfsFile' THEN jsonb_build_object('path', l.line #> '{value,path}',
					'sha256', l.line #> '{value,oid}')
				WHEN 'deletedFile' THEN jsonb_build_object('path', l.line #> '{value,path}',
					'op', 'delete')
				WHEN 'deletedFolder' THEN jsonb_build_object('path',
					rtrim(l.line #>> '{value,path}', '/'), 'op', 'delete_folder')
				END ORDER BY l.n) FILTER (WHERE l.line ->> 'key' <> 'header'), '[]'),
			min(coalesce(l.line ->> 'key', l.line::text)) FILTER (WHERE coalesce(l.line ->> 'key', '')
				NOT IN ('header', 'file', 'lfsFile', 'deletedFile', 'deletedFolder'))
		INTO header, operations, unknown
		FROM (SELECT w.word::jsonb AS line, w.n
			FROM regexp_split_to_table(convert_from((r).body, 'UTF8'), E'\n')
				WITH ORDINALITY AS w (word, n)
			WHERE w.word ~ '\S') l;
	EXCEPTION WHEN data_exception OR statement_too_complex OR program_limit_exceeded THEN
		PERFORM gpucredit_registry.refuse_request(400, 'the body is no JSON, one object a line', SQLERRM);
	END;
	IF coalesce((r).query ->> 'create_pr', '0') NOT IN ('0', 'false') THEN
		PERFORM gpucredit_registry.refuse_request(501, 'there are no pull requests here',
			'Make a branch, and commit to it.');
	END IF;
	rev := CASE rev WHEN 'HEAD' THEN 'main' ELSE rev END;
	IF rev <> 'main' AND (gpucredit_registry.find_version(m, rev)).version IS NULL THEN
		PERFORM gpucredit_registry.check_ref(rev);
		PERFORM gpucredit_registry.no_revision(m, rev);
	END IF;
	IF header IS NULL OR unknown IS NOT NULL THEN
		PERFORM gpucredit_registry.refuse_request(422, 'the commit is malformed',
			format('It has a header, and no lines but file, lfsFile, deletedFile, deletedFolder: "%s".',
				left(unknown, 64)));
	END IF;
	c := gpucredit_registry.commit_or_refuse(m, rev, operations,
		gpucredit_registry.http_key(r),
		header ->> 'parentCommit', coalesce(header -> 'parents', '[]'), (r).caller,
		gpucredit_registry.caller_name((r).caller), header ->> 'summary', header ->> 'description');
	RETURN gpucredit_registry.json_response(jsonb_build_object('success', true,
		'commitOid', c.oid, 'commitUrl', format('%s/commit/%s',
			gpucredit_registry.repo_url(r, m), c.oid), 'hookOutput', c.status,
		'version', c.version));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.hub_commit(gpucredit_registry.http_request, gpucredit_registry.model, text) IS
'Internal: POST .../commit/REV, a branch that exists, or main.';

CREATE FUNCTION gpucredit_registry.hub_commits(r gpucredit_registry.http_request,
	m gpucredit_registry.model, rev text) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	v gpucredit_registry.version := gpucredit_registry.require_version(m, rev);
	size integer := least(greatest(coalesce(substring((r).query ->> 'limit'
		FROM '^[0-9]{1,4}$')::integer, 1000), 1), 1000);
	page integer := coalesce(substring((r).query ->> 'p' FROM '^[0-9]{1,6}$')::integer, 0);
	list jsonb;
	total bigint;
BEGIN
	WITH RECURSIVE back AS (
		SELECT o.*, 1 AS n FROM gpucredit_registry.version o
		WHERE o.org = v.org AND o.version = v.version
		UNION ALL
		SELECT o.*, b.n + 1 FROM back b JOIN gpucredit_registry.version o
			ON o.org = b.org AND o.version = b.parent)
	SELECT coalesce(jsonb_agg(jsonb_build_object('id', b.oid, 'title', b.title,
			'message', coalesce(b.description, ''), 'date', b.created_at,
			'authors', jsonb_build_array(jsonb_build_object('user', b.author, 'avatar', '')))
			ORDER BY b.n) FILTER (WHERE b.n > page * size AND b.n <= (page + 1) * size), '[]'),
		count(*)
	INTO list, total
	FROM back b;
	RETURN gpucredit_registry.json_response(list, 200, jsonb_build_object('X-Total-Count',
			total::text) || CASE WHEN (page + 1) * size < total THEN jsonb_build_object('Link',
				format('<%s%s?limit=%s&p=%s>; rel="next"', (r).base, (r).path, size, page + 1))
			ELSE '{}' END);
END
$$;
COMMENT ON FUNCTION gpucredit_registry.hub_commits(gpucredit_registry.http_request, gpucredit_registry.model, text) IS
'Internal: GET .../commits/REV, by pages (limit, p), and how many there are.';

CREATE FUNCTION gpucredit_registry.delete_ref(r gpucredit_registry.http_request,
	m gpucredit_registry.model, name text, tag boolean)
RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	DELETE FROM gpucredit_registry.ref o
	WHERE o.org = (m).org AND o.model = (m).model AND o.ref = delete_ref.name
		AND o.tag = delete_ref.tag AND o.ref <> 'main';
	IF NOT FOUND THEN
		PERFORM gpucredit_registry.no_revision(m, delete_ref.name);
	END IF;
	PERFORM gpucredit_registry.record((m).org, 'delete_ref',
		gpucredit_registry.caller_name((r).caller),
		jsonb_build_object('model', (m).model, 'ref', delete_ref.name));
	PERFORM gpucredit_registry.publish_model('ref_deleted', (m).org, (m).model,
		jsonb_build_object('ref', delete_ref.name));
	RETURN gpucredit_registry.json_response('{}');
END
$$;
COMMENT ON FUNCTION gpucredit_registry.delete_ref(gpucredit_registry.http_request, gpucredit_registry.model, text, boolean) IS
'Internal: deletes a branch, but not main, or a tag. The caller has locked the repository.';

CREATE FUNCTION gpucredit_registry.make_ref(r gpucredit_registry.http_request,
	m gpucredit_registry.model, name text, rev text, tag boolean, overwrite boolean)
RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	v gpucredit_registry.version := gpucredit_registry.require_version(m, make_ref.rev);
BEGIN
	/* The oid of a version whose files were removed is still known. */
	PERFORM FROM gpucredit_registry.version o
	WHERE o.org = v.org AND o.version = v.version AND o.dropped_at IS NULL
	FOR KEY SHARE;
	IF NOT FOUND THEN
		PERFORM gpucredit_registry.no_revision(m, make_ref.rev);
	END IF;
	INSERT INTO gpucredit_registry.ref AS o
	VALUES (v.org, v.model, make_ref.name, v.version, make_ref.tag)
	ON CONFLICT ON CONSTRAINT ref_pkey DO UPDATE SET version = excluded.version
	WHERE o.tag = excluded.tag AND (make_ref.overwrite OR o.version = excluded.version);
	IF NOT FOUND THEN
		PERFORM gpucredit_registry.refuse_request(409, format('ref "%s" exists', make_ref.name),
			'Pass overwrite, or choose another name.');
	END IF;
	PERFORM gpucredit_registry.record((m).org, 'set_ref',
		gpucredit_registry.caller_name((r).caller), jsonb_build_object('model', (m).model,
			'ref', make_ref.name, 'version', v.version, 'tag', make_ref.tag));
	PERFORM gpucredit_registry.publish_model('ref_moved', (m).org, (m).model,
		jsonb_build_object('ref', make_ref.name, 'version', v.version));
	RETURN gpucredit_registry.json_response('{}', 201);
END
$$;
COMMENT ON FUNCTION gpucredit_registry.make_ref(gpucredit_registry.http_request, gpucredit_registry.model, text, text, boolean, boolean) IS
'Internal: makes a branch or a tag at a revision. The caller has locked the repository.';

CREATE FUNCTION gpucredit_registry.hub_branch(r gpucredit_registry.http_request,
	m gpucredit_registry.model, name text) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	b jsonb := CASE WHEN octet_length((r).body) > 0 THEN gpucredit_registry.body_of(r) ELSE '{}' END;
	overwrite boolean := coalesce((b ->> 'overwrite')::boolean, false);
	exists boolean;
BEGIN
	PERFORM gpucredit_registry.check_ref(name);
	PERFORM gpucredit_registry.lock_model(m);
	PERFORM gpucredit_registry.check_movable(m, name);
	IF (r).method = 'DELETE' THEN
		RETURN gpucredit_registry.delete_ref(r, m, name, false);
	END IF;
	exists := EXISTS (SELECT FROM gpucredit_registry.ref o
		WHERE o.org = (m).org AND o.model = (m).model AND o.ref = name);
	IF coalesce((b ->> 'emptyBranch')::boolean, false) THEN
		IF exists THEN
			PERFORM gpucredit_registry.refuse_request(409, format('ref "%s" exists', name),
				'Delete it, or choose another name.');
		END IF;
		PERFORM gpucredit_registry.commit_or_refuse(m, name, '[]',
			gpucredit_registry.http_key(r), NULL, '[]', (r).caller,
			gpucredit_registry.caller_name((r).caller), 'empty branch', NULL);
		RETURN gpucredit_registry.json_response('{}', 201);
	ELSIF exists AND overwrite AND b ->> 'startingPoint' IS NULL THEN
		RETURN gpucredit_registry.json_response('{}', 201);
	END IF;
	RETURN gpucredit_registry.make_ref(r, m, name, coalesce(b ->> 'startingPoint', 'main'),
		false, overwrite);
END
$$;
COMMENT ON FUNCTION gpucredit_registry.hub_branch(gpucredit_registry.http_request, gpucredit_registry.model, text) IS
'Internal: POST and DELETE .../branch/NAME.';

/*
 * Implements POST .../tag/REVISION with {"tag": NAME}, and DELETE
 * .../tag/NAME.
 */
CREATE FUNCTION gpucredit_registry.hub_tag(r gpucredit_registry.http_request,
	m gpucredit_registry.model, word text) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	name text := CASE (r).method WHEN 'DELETE' THEN word
		ELSE gpucredit_registry.body_of(r) ->> 'tag' END;
BEGIN
	PERFORM gpucredit_registry.check_ref(name);
	PERFORM gpucredit_registry.lock_model(m);
	PERFORM gpucredit_registry.check_movable(m, name);
	IF (r).method = 'DELETE' THEN
		RETURN gpucredit_registry.delete_ref(r, m, name, true);
	END IF;
	RETURN gpucredit_registry.make_ref(r, m, name, word, true, false);
END
$$;
COMMENT ON FUNCTION gpucredit_registry.hub_tag(gpucredit_registry.http_request, gpucredit_registry.model, text) IS
'Internal: POST and DELETE .../tag/WORD.';

/*
 * Implements POST .../alias/NAME with {"revision"}, main by default, and DELETE
 * .../alias/NAME.
 */
CREATE FUNCTION gpucredit_registry.hub_alias(r gpucredit_registry.http_request,
	m gpucredit_registry.model, name text) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	author text := gpucredit_registry.caller_name((r).caller);
	v gpucredit_registry.version;
BEGIN
	IF (r).method = 'DELETE' THEN
		IF NOT gpucredit_registry.remove_alias(m, name, author) THEN
			PERFORM gpucredit_registry.no_revision(m, '@' || name);
		END IF;
		RETURN gpucredit_registry.json_response('{}');
	END IF;
	v := gpucredit_registry.require_version(m, coalesce(
		CASE WHEN octet_length((r).body) > 0 THEN gpucredit_registry.body_of(r) ->> 'revision' END,
		'main'));
	PERFORM gpucredit_registry.put_alias(m, name, v.version, author);
	RETURN gpucredit_registry.json_response(jsonb_build_object('alias', name, 'version', v.version,
		'oid', v.oid));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.hub_alias(gpucredit_registry.http_request, gpucredit_registry.model, text) IS
'Internal: POST and DELETE .../alias/NAME.';

/* Implements PUT .../settings, which sets whether a repository is private. */
CREATE FUNCTION gpucredit_registry.hub_settings(r gpucredit_registry.http_request,
	m gpucredit_registry.model) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	b jsonb;
	shown text;
BEGIN
	IF (r).body IS NULL THEN
		RETURN (200, '{}', NULL, '{"collect": true}')::gpucredit_registry.http_response;
	END IF;
	b := gpucredit_registry.body_of(r);
	shown := coalesce(b ->> 'visibility', CASE b ->> 'private' WHEN 'true' THEN 'private'
		WHEN 'false' THEN 'public' END);
	IF coalesce(shown, '') NOT IN ('private', 'public')
		OR b - '{private,visibility}'::text[] <> '{}'
	THEN
		PERFORM gpucredit_registry.refuse_request(501, 'the only settings here are private and visibility',
			'Access is granted by gpucredit_registry.grant_access().');
	END IF;
	UPDATE gpucredit_registry.model o SET visibility = shown
	WHERE o.org = (m).org AND o.model = (m).model;
	PERFORM gpucredit_registry.record((m).org, 'set_visibility',
		gpucredit_registry.caller_name((r).caller),
		jsonb_build_object('model', (m).model, 'visibility', shown));
	RETURN gpucredit_registry.json_response(jsonb_build_object('private',
		shown = 'private'));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.hub_settings(gpucredit_registry.http_request, gpucredit_registry.model) IS
'Internal: PUT .../settings.';

/*
 * Implements POST /api/repos/move, which changes the name within the same
 * organisation.
 */
CREATE FUNCTION gpucredit_registry.hub_move(r gpucredit_registry.http_request)
RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	b jsonb := gpucredit_registry.body_of(r);
	m gpucredit_registry.model := gpucredit_registry.require_model(
		split_part(b ->> 'fromRepo', '/', 1), split_part(b ->> 'fromRepo', '/', 2),
		coalesce(b ->> 'type', 'model'), (r).caller, 'admin');
	new_name text := split_part(b ->> 'toRepo', '/', 2);
BEGIN
	IF split_part(b ->> 'toRepo', '/', 1) <> m.org THEN
		PERFORM gpucredit_registry.refuse_request(501, 'a repository stays in its organisation',
			'Push it to the other one.');
	ELSIF new_name !~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,95}$' OR new_name ~ '\.\.|\.git$' THEN
		PERFORM gpucredit_registry.refuse_request(400, format('repository name "%s" is malformed',
			left(new_name, 64)), 'A name has 1 to 96 letters, digits, ".", "_" or "-".');
	END IF;
	BEGIN
		UPDATE gpucredit_registry.model o SET name = new_name
		WHERE o.org = m.org AND o.model = m.model;
	EXCEPTION WHEN unique_violation THEN
		PERFORM gpucredit_registry.refuse_request(409, format('"%s" exists', b ->> 'toRepo'),
			'Choose another name.');
	END;
	PERFORM gpucredit_registry.record(m.org, 'move_model',
		gpucredit_registry.caller_name((r).caller),
		jsonb_build_object('model', m.model, 'from', m.name, 'to', new_name));
	RETURN gpucredit_registry.json_response('{}');
END
$$;
COMMENT ON FUNCTION gpucredit_registry.hub_move(gpucredit_registry.http_request) IS
'Internal: POST /api/repos/move.';

/*
 * Returns the scores of a version. The Hub has no endpoint for scores; this
 * one is the registry's own.
 */
CREATE FUNCTION gpucredit_registry.hub_scores(r gpucredit_registry.http_request,
	m gpucredit_registry.model, rev text) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	b jsonb;
	v gpucredit_registry.version := gpucredit_registry.require_version(m, rev);
BEGIN
	IF (r).method = 'POST' THEN
		b := gpucredit_registry.body_of(r);
		PERFORM gpucredit_registry.set_score_as(v, b ->> 'benchmark', b ->> 'metric',
			(b ->> 'score')::numeric, b -> 'detail',
			gpucredit_registry.caller_name((r).caller), false);
	END IF;
	RETURN gpucredit_registry.json_response((SELECT coalesce(jsonb_agg(jsonb_build_object(
			'benchmark', s.benchmark, 'metric', s.metric, 'score', s.score,
			'detail', s.detail, 'set_by', s.set_by, 'measured', s.measured) ORDER BY s.benchmark, s.metric), '[]')
		FROM gpucredit_registry.score s
		WHERE s.org = v.org AND s.version = v.version));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.hub_scores(gpucredit_registry.http_request, gpucredit_registry.model, text) IS
'Internal: GET .../scores/REV, and POST of {"benchmark", "metric", "score", "detail"}.';

CREATE FUNCTION gpucredit_registry.ref_list(m gpucredit_registry.model, tags boolean)
RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT coalesce(jsonb_agg(jsonb_build_object('name', o.ref, 'ref',
		CASE WHEN o.tag THEN 'refs/tags/' ELSE 'refs/heads/' END || o.ref, 'targetCommit', v.oid)
		ORDER BY o.ref), '[]')
	FROM gpucredit_registry.ref o
		JOIN gpucredit_registry.version v USING (org, version)
	WHERE o.org = (m).org AND o.model = (m).model AND o.tag = ref_list.tags
		AND NOT starts_with(o.ref, '@');
END;
COMMENT ON FUNCTION gpucredit_registry.ref_list(gpucredit_registry.model, boolean) IS
'Internal: the branches or the tags of a repository.';

CREATE FUNCTION gpucredit_registry.hub_refs(r gpucredit_registry.http_request,
	m gpucredit_registry.model) RETURNS gpucredit_registry.http_response
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT gpucredit_registry.json_response(jsonb_build_object('converts', '[]'::jsonb,
		'tags', t.list, 'branches', b.list, 'aliases',
		(SELECT coalesce(jsonb_agg(jsonb_build_object('name', a.ref, 'targetCommit', v.oid)
				ORDER BY a.ref), '[]')
			FROM gpucredit_registry.ref a JOIN gpucredit_registry.version v USING (org, version)
			WHERE a.org = (m).org AND a.model = (m).model AND starts_with(a.ref, '@'))))
	FROM gpucredit_registry.ref_list(m, true) AS t (list),
		gpucredit_registry.ref_list(m, false) AS b (list);
END;
COMMENT ON FUNCTION gpucredit_registry.hub_refs(gpucredit_registry.http_request, gpucredit_registry.model) IS
'Internal: GET .../refs.';

CREATE FUNCTION gpucredit_registry.hub_resolve(r gpucredit_registry.http_request,
	m gpucredit_registry.model, rev text, path text)
RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	o record := gpucredit_registry.require_file(m, rev, path, (r).caller);
BEGIN
	RETURN gpucredit_registry.send_object(r, m, (o.v).version, (o.f).object, (o.f).size,
		jsonb_build_object('X-Repo-Commit', (o.v).oid, 'Cache-Control',
			CASE WHEN m.visibility = 'public' AND rev = (o.v).oid
				THEN 'public, max-age=2592000, immutable'
				WHEN m.visibility = 'public' THEN 'public, max-age=60'
				ELSE 'private, no-store' END,
			'Content-Disposition', format('inline; filename*=UTF-8''''%s',
				gpucredit_registry.url_encode(regexp_replace(path, '^.*/', '')))));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.hub_resolve(gpucredit_registry.http_request, gpucredit_registry.model, text, text) IS
'Internal: GET and HEAD REPOSITORY/resolve/REV/PATH.';

/* Builds a query string of these values. */
CREATE FUNCTION gpucredit_registry.query_string(query jsonb) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT string_agg(gpucredit_registry.url_encode(q.key) || '='
		|| gpucredit_registry.url_encode(q.value), '&' ORDER BY q.key)
	FROM jsonb_each_text(query_string.query) q;
END;
COMMENT ON FUNCTION gpucredit_registry.query_string(jsonb) IS
'Internal: a query string of an object.';

/*
 * Returns the filters of a search: words of the query that name facets, and
 * tags.
 */
CREATE FUNCTION gpucredit_registry.search_filters(query jsonb, OUT facets text[],
	OUT tags jsonb)
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT coalesce(array_agg(DISTINCT f.prefix || w.word) FILTER (WHERE w.word NOT LIKE '%=%'), '{}'),
		coalesce(jsonb_object_agg(split_part(w.word, '=', 1),
			substr(w.word, length(split_part(w.word, '=', 1)) + 2))
			FILTER (WHERE w.word LIKE '%=%'), '{}')
	FROM (VALUES ('filter', ''), ('tags', ''), ('pipeline_tag', ''), ('library', ''),
			('language', ''), ('trained_dataset', 'dataset:')) AS f (name, prefix),
		regexp_split_to_table(search_filters.query ->> f.name, ',') AS w (word)
	WHERE w.word <> '';
END;
COMMENT ON FUNCTION gpucredit_registry.search_filters(jsonb) IS
'Internal: the facets and the tags that a query string asks for.';

/*
 * Searches by words, tags and facets, sorted. The answer contains a link to
 * the next page.
 */
CREATE FUNCTION gpucredit_registry.hub_search(r gpucredit_registry.http_request,
	kind text) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	q jsonb := (r).query;
	page integer := least(greatest(coalesce(substring(q ->> 'limit'
		FROM '^[0-9]{1,4}$')::integer, 20), 1), 1000);
	at bigint := substring(q ->> 'cursor' FROM '^[0-9]{1,18}$')::bigint;
	filters record := gpucredit_registry.search_filters(q);
	order_by text := CASE q ->> 'sort' WHEN 'createdAt' THEN 'created' WHEN 'created_at' THEN 'created'
		WHEN 'lastModified' THEN 'modified' WHEN 'last_modified' THEN 'modified'
		WHEN 'downloads' THEN 'downloads' WHEN 'id' THEN 'name' END;
	unknown text := CASE WHEN q ? 'sort' AND order_by IS NULL THEN 'sort'
		WHEN q ? 'inference_provider' THEN 'inference_provider' WHEN q ? 'apps' THEN 'apps' END;
	list jsonb;
	n integer;
	last bigint;
BEGIN
	IF unknown IS NOT NULL THEN
		PERFORM gpucredit_registry.refuse_request(400,
			format('nothing is known here of %s=%s', unknown, left(q ->> unknown, 64)),
			'Sort by createdAt, lastModified, downloads or id.');
	END IF;
	SELECT coalesce(jsonb_agg(gpucredit_registry.hub_model(r, m,
			gpucredit_registry.find_version(m, 'main')) ORDER BY s.n), '[]'),
		count(*), min(m.model)
	INTO list, n, last
	FROM gpucredit_registry.search(gpucredit_registry.caller_name((r).caller),
			q ->> 'search', filters.tags, CASE WHEN order_by IS NULL THEN at END, page,
			q ->> 'author', hub_search.kind, filters.facets, order_by,
			coalesce(q ->> 'direction', '-1') = '1',
			CASE WHEN order_by IS NULL THEN 0 ELSE least(coalesce(at, 0), 1000000) END)
			WITH ORDINALITY AS s (org, model, name, kind, visibility, license, has_tags, n)
		JOIN gpucredit_registry.model m USING (org, model);
	RETURN gpucredit_registry.json_response(list, 200, CASE WHEN n = page THEN
		jsonb_build_object('Link', format('<%s%s?%s>; rel="next"', (r).base, (r).path,
			gpucredit_registry.query_string(q || jsonb_build_object('limit', page::text,
				'cursor', (CASE WHEN order_by IS NULL THEN last ELSE coalesce(at, 0) + page END)::text))))
		ELSE '{}' END);
END
$$;
COMMENT ON FUNCTION gpucredit_registry.hub_search(gpucredit_registry.http_request, text) IS
'Internal: GET /api/models?search=...&filter=...';
