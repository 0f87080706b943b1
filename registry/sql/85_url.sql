/*
 * 85_url.sql: URLs, signatures, ranges and HTTP answers.
 */

/*
 * The keys of signed URLs. Anybody who has a signed URL may use it until it
 * expires.
 */
CREATE TABLE gpucredit_registry.url_key (
	url_key integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	secret bytea NOT NULL CHECK (octet_length(secret) = 32),
	created_at timestamptz NOT NULL
);
COMMENT ON TABLE gpucredit_registry.url_key IS
'Keys that sign upload and download URLs; the last one signs, all of an hour verify';

/*
 * The bodies of this function and the next are parsed when they are created,
 * so that they call pgcrypto's functions whatever schema these are in.
 */
CREATE FUNCTION gpucredit_registry.new_url_key() RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	INSERT INTO gpucredit_registry.url_key (secret, created_at)
	VALUES (gen_random_bytes(32), gpucredit.now());
END;
COMMENT ON FUNCTION gpucredit_registry.new_url_key() IS
'Upkeep: URLs are signed with a new key from now on; those that are out stay good for their hour.';

CREATE FUNCTION gpucredit_registry.hmac(k gpucredit_registry.url_key, message text)
RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT encode(hmac(convert_to(hmac.message, 'UTF8'), (k).secret, 'sha256'::text), 'hex');
END;
COMMENT ON FUNCTION gpucredit_registry.hmac(gpucredit_registry.url_key, text) IS
'Internal: HMAC-SHA256 of a message, in hex.';

/* Returns a URL that anybody may use for a limited time, with one method. */
CREATE FUNCTION gpucredit_registry.sign(base text, method text, path text,
	life interval DEFAULT '1 hour') RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	expires bigint := extract(epoch FROM gpucredit.now() + sign.life);
	k gpucredit_registry.url_key;
BEGIN
	SELECT * INTO k FROM gpucredit_registry.url_key ORDER BY url_key DESC LIMIT 1;
	IF NOT FOUND THEN
		PERFORM gpucredit_registry.new_url_key();
		SELECT * INTO k FROM gpucredit_registry.url_key ORDER BY url_key DESC LIMIT 1;
	END IF;
	RETURN format('%s%s?expires=%s&key=%s&signature=%s', base, path, expires, k.url_key,
		gpucredit_registry.hmac(k, format('%s %s %s', method, path, expires)));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.sign(text, text, text, interval) IS
'Internal: a signed URL of a path.';

CREATE FUNCTION gpucredit_registry.is_signed(method text, path text, query jsonb)
RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT coalesce(bool_or(gpucredit_registry.hmac(k, format('%s %s %s', is_signed.method,
		is_signed.path, is_signed.query ->> 'expires')) = is_signed.query ->> 'signature'), false)
	FROM gpucredit_registry.url_key k
	WHERE k.url_key::text = is_signed.query ->> 'key'
		AND CASE WHEN is_signed.query ->> 'expires' ~ '^[0-9]{1,12}$'
			THEN to_timestamp((is_signed.query ->> 'expires')::double precision)
				> gpucredit.now() END;
END;
COMMENT ON FUNCTION gpucredit_registry.is_signed(text, text, jsonb) IS
'Internal: has this URL a good signature that has not expired?';

CREATE FUNCTION gpucredit_registry.url_decode(word text) RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF url_decode.word !~ '%' THEN
		RETURN url_decode.word;
	END IF;
	IF url_decode.word ~ '%(?![0-9A-Fa-f]{2})' THEN
		PERFORM gpucredit_registry.refuse('the URL is malformed',
			'After "%" come two hex digits.');
	END IF;
	RETURN (SELECT convert_from(string_agg(CASE WHEN p.piece ~ '^%'
			THEN decode(substr(p.piece, 2), 'hex')
			ELSE convert_to(p.piece, 'UTF8') END, '' ORDER BY p.n), 'UTF8')
		FROM (SELECT m.piece[1] AS piece, m.n
			FROM regexp_matches(url_decode.word, '%[0-9A-Fa-f]{2}|[^%]+', 'g')
				WITH ORDINALITY AS m (piece, n)) p);
END
$$;
COMMENT ON FUNCTION gpucredit_registry.url_decode(text) IS
'Internal: a part of a URL without its %-escapes. Errors: 22023, 22021.';

CREATE FUNCTION gpucredit_registry.query_of(query text) RETURNS jsonb
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT coalesce(jsonb_object_agg(q.name, q.value), '{}')
	FROM (
		SELECT gpucredit_registry.url_decode(replace(split_part(p.word, '=', 1), '+', ' ')) AS name,
			string_agg(gpucredit_registry.url_decode(replace(substr(p.word,
				length(split_part(p.word, '=', 1)) + 2), '+', ' ')), ',' ORDER BY p.n) AS value
		FROM regexp_split_to_table(coalesce(query_of.query, ''), '&')
			WITH ORDINALITY AS p (word, n)
		WHERE p.word <> ''
		GROUP BY 1) q;
END;
COMMENT ON FUNCTION gpucredit_registry.query_of(text) IS
'Internal: a query string as an object; the values of a repeated name are separated by commas.';

/*
 * Returns the token of "Bearer TOKEN", or of "Basic" with the token as the
 * password, as git sends it.
 */
CREATE FUNCTION gpucredit_registry.token_of(authorization text) RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF token_of.authorization ~* '^bearer ' THEN
		RETURN substr(token_of.authorization, 8);
	END IF;
	RETURN regexp_replace(convert_from(decode(substring(token_of.authorization
		FROM '^[Bb]asic (.*)$'), 'base64'), 'UTF8'), '^[^:]*:', '');
EXCEPTION WHEN data_exception THEN
	RETURN '';
END
$$;
COMMENT ON FUNCTION gpucredit_registry.token_of(text) IS
'Internal: the token of an Authorization header.';

/*
 * Returns the first and last byte that a Range header selects from "size"
 * bytes. Without a header, or if it is not a single range, all bytes are
 * selected; the result is NULL if it selects none.
 */
CREATE FUNCTION gpucredit_registry.range_of(range text, size bigint,
	OUT first bigint, OUT last bigint, OUT partial boolean)
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m text[] := regexp_match(range_of.range, '^bytes=([0-9]{0,18})-([0-9]{0,18})$');
BEGIN
	first := 0;
	last := range_of.size - 1;
	partial := m IS NOT NULL AND m <> ARRAY['', ''];
	IF NOT partial THEN
		RETURN;
	END IF;
	IF m[1] = '' THEN
		first := greatest(range_of.size - m[2]::bigint, 0);
	ELSE
		first := m[1]::bigint;
		IF m[2] <> '' THEN
			IF m[2]::bigint < first THEN
				first := 0;
				partial := false;
				RETURN;
			END IF;
			last := least(last, m[2]::bigint);
		END IF;
	END IF;
	IF first > last THEN
		first := NULL;
		last := NULL;
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.range_of(text, bigint) IS
'Internal: which bytes a Range header asks for.';

/* An answer, in the form in which the daemon sends it. */
CREATE TYPE gpucredit_registry.http_response AS (
	status integer,
	headers jsonb,
	body bytea,
	plan jsonb
);

CREATE FUNCTION gpucredit_registry.json_response(body jsonb, status integer DEFAULT 200,
	headers jsonb DEFAULT '{}') RETURNS gpucredit_registry.http_response
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT (json_response.status,
		'{"Content-Type": "application/json; charset=utf-8"}' || json_response.headers,
		convert_to(json_response.body::text, 'UTF8'), NULL)::gpucredit_registry.http_response;
END;
COMMENT ON FUNCTION gpucredit_registry.json_response(jsonb, integer, jsonb) IS
'Internal: an answer in JSON.';

CREATE FUNCTION gpucredit_registry.error_response(status integer, message text,
	code text DEFAULT NULL) RETURNS gpucredit_registry.http_response
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT gpucredit_registry.json_response(jsonb_build_object('error', error_response.message,
			'message', error_response.message), error_response.status,
		jsonb_strip_nulls(jsonb_build_object('X-Error-Code', error_response.code,
			'X-Error-Message', left(regexp_replace(error_response.message, '[^ -~]', '?', 'g'), 500),
			'WWW-Authenticate', CASE error_response.status WHEN 401
				THEN 'Basic realm="registry"' END)));
END;
COMMENT ON FUNCTION gpucredit_registry.error_response(integer, text, text) IS
'Internal: a refusal, in JSON.';

/*
 * Ends a request that was denied for a reason of which the owner learns. http()
 * reports it after it has rolled back what the request wrote.
 */
CREATE FUNCTION gpucredit_registry.deny_request(status integer, org text, account text,
	reason text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RAISE EXCEPTION '%', deny_request.reason
		USING ERRCODE = 'UC508', DETAIL = deny_request.status::text,
		HINT = 'Ask the owner of the repository.',
		SCHEMA = deny_request.org, TABLE = deny_request.account, COLUMN = deny_request.reason;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.deny_request(integer, text, text, text) IS
'Internal: ends a request that an owner''s quota, credit or account denies.';

CREATE FUNCTION gpucredit_registry.refuse_request(status integer, message text,
	hint text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RAISE EXCEPTION '%', refuse_request.message
		USING ERRCODE = 'UC508', DETAIL = refuse_request.status::text,
		HINT = refuse_request.hint;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.refuse_request(integer, text, text) IS
'Internal: ends a request with an HTTP status.';
