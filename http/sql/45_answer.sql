/*
 * 45_answer.sql: answers one request, with the rights of the session's role.
 *
 * Errors are raised, so that the request is rolled back completely; the daemon
 * turns them into problem documents.
 */

/*
 * Collects the arguments of a request from its path, its query and its body.
 */
CREATE FUNCTION gpucredit_http.request_arguments(in_path jsonb, query jsonb, body text)
RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	in_body jsonb := '{}';
	twice text;
BEGIN
	IF coalesce(request_arguments.body, '') <> '' THEN
		in_body := request_arguments.body::jsonb;
		IF jsonb_typeof(in_body) <> 'object' THEN
			PERFORM gpucredit_http.refuse('the body is no JSON object',
				format('It is of type %s.', jsonb_typeof(in_body)),
				'Send the arguments by name, as in {"org": "acme"}.');
		END IF;
	END IF;
	SELECT k.key INTO twice
	FROM (SELECT jsonb_object_keys(request_arguments.in_path) UNION ALL
		SELECT jsonb_object_keys(request_arguments.query) UNION ALL
		SELECT jsonb_object_keys(in_body)) k (key)
	GROUP BY k.key HAVING count(*) > 1 LIMIT 1;
	IF twice IS NOT NULL THEN
		PERFORM gpucredit_http.refuse(format('"%s" is given twice', left(twice, 64)),
			'Path, query and body are one set of arguments.', 'Give it once.');
	END IF;
	RETURN request_arguments.in_path || request_arguments.query || in_body;
END
$$;
COMMENT ON FUNCTION gpucredit_http.request_arguments(jsonb, jsonb, text) IS
'Internal: the arguments of a request by name. Errors: 22023 one is given twice, or the body is no object; 22P02 the body is no JSON.';

/*
 * Adds organisation and account to the arguments of a tenant that has a single
 * binding, so that it need not name them.
 */
CREATE FUNCTION gpucredit_http.with_defaults(short text, arguments jsonb, key text)
RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	missing jsonb := '{}';
	names text[];
	org text;
	account text;
BEGIN
	IF with_defaults.arguments ? 'org' AND with_defaults.key IS NULL THEN
		RETURN with_defaults.arguments;
	END IF;
	SELECT p.proargnames[1:p.pronargs] INTO names
	FROM pg_proc p
	WHERE p.proname = split_part(with_defaults.short, '.', -1)
		AND p.pronamespace = to_regnamespace(concat_ws('_', 'gpucredit',
				nullif(split_part(with_defaults.short, '.', -2), '')))
	ORDER BY p.oid LIMIT 1;
	IF 'org' = ANY (names) AND NOT with_defaults.arguments ? 'org' THEN
		SELECT min(b.org), min(b.account) INTO org, account
		FROM gpucredit_http.bindings() b
		HAVING count(*) = 1;
		IF org IS NOT NULL THEN
			missing := jsonb_build_object('org', org);
			IF 'account' = ANY (names) AND NOT with_defaults.arguments ? 'account' THEN
				missing := missing || jsonb_build_object('account', account);
			END IF;
		END IF;
	END IF;
	IF with_defaults.key IS NOT NULL AND 'key' = ANY (names) THEN
		IF with_defaults.arguments ? 'key' AND with_defaults.arguments ->> 'key' <> with_defaults.key THEN
			PERFORM gpucredit_http.refuse('the key is given twice',
				'The body has another one than the header Idempotency-Key.', 'Give it once.');
		END IF;
		missing := missing || jsonb_build_object('key', with_defaults.key);
	END IF;
	RETURN with_defaults.arguments || missing;
END
$$;
COMMENT ON FUNCTION gpucredit_http.with_defaults(text, jsonb, text) IS
'Internal: the arguments of a call, with the only organisation that a tenant is bound to and the key of the request''s header. Errors: 22023 two keys.';

/*
 * Returns the HTTP status of a result. A denial is a result that the database
 * stores, but a client should not have to search for it in a body with status
 * 200.
 */
CREATE FUNCTION gpucredit_http.status_of(result json) RETURNS integer
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT CASE WHEN json_typeof(status_of.result) = 'object'
			AND status_of.result ->> 'status' = 'denied' THEN
		CASE WHEN status_of.result ->> 'reason' IN ('insufficient_credits', 'budget_exceeded',
				'uncollected') THEN 402
			WHEN status_of.result ->> 'reason' = 'account_suspended' THEN 403
			WHEN status_of.result ->> 'reason' = 'impossible_request' THEN 422
			ELSE 409 END
		ELSE 200 END;
END;
COMMENT ON FUNCTION gpucredit_http.status_of(json) IS
'Internal: the HTTP status of a result: 402 denied for lack of credit or budget, 403 by a suspended account, 422 for what no pool could ever run, 409 for another reason, else 200.';

CREATE FUNCTION gpucredit_http.answer(method text, path text[], query jsonb DEFAULT '{}',
	key text DEFAULT NULL, body text DEFAULT NULL,
	OUT status integer, OUT type text, OUT content text, OUT allow text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	route record;
	called text;
	arguments jsonb;
	most integer := 10000;
	r record;
BEGIN
	answer.type := 'application/json';
	SELECT NULL::text AS function, NULL::text AS cursor, '{}'::jsonb AS arguments,
		NULL::text[] AS allowed
	INTO route;
	IF answer.path = '{v1,openapi.json}' AND answer.method = 'GET' THEN
		answer.status := 200;
		answer.content := gpucredit_http.openapi();
		RETURN;
	ELSIF answer.path = '{metrics}' AND answer.method = 'GET' THEN
		answer.status := 200;
		answer.type := 'text/plain; version=0.0.4';
		answer.content := gpucredit.metrics_text();
		RETURN;
	ELSIF answer.path[1:2] = '{v1,call}' AND cardinality(answer.path) = 3 THEN
		route.allowed := '{POST}';
		called := CASE answer.method WHEN 'POST' THEN answer.path[3] END;
	ELSIF answer.path[1] = 'v1' THEN
		SELECT * INTO route FROM gpucredit_http.find_route(answer.method, answer.path);
		called := route.function;
	END IF;
	IF called IS NULL THEN
		answer.status := CASE WHEN route.allowed IS NULL THEN 404 ELSE 405 END;
		answer.allow := array_to_string(route.allowed, ', ');
		RETURN;
	END IF;
	arguments := gpucredit_http.with_defaults(called,
		gpucredit_http.request_arguments(route.arguments, answer.query, answer.body),
		answer.key);
	IF route.cursor IS NOT NULL THEN
		most := least(greatest(coalesce((arguments ->> 'limit')::integer, 100), 1), 1000);
		arguments := arguments || jsonb_build_object('limit', most + 1);
	END IF;
	SELECT * INTO r FROM gpucredit_http.run(called, arguments, most);
	answer.status := gpucredit_http.status_of(r.result);
	IF r.is_set THEN
		answer.content := json_build_object('data', r.result, 'truncated', r.truncated,
			'next', CASE WHEN r.truncated AND route.cursor IS NOT NULL
				THEN r.result -> (most - 1) -> route.cursor END);
	ELSE
		answer.content := coalesce(r.result, 'null');
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_http.answer(text, text[], jsonb, text, text) IS
'Gateway: answers one request with the rights of the session''s role. The path comes as its decoded words, the query as one object.
Result: the HTTP status, the type and text of the answer, and the methods that the address has where it has not this one (405). Errors: what the called function raises; 42883 no such function; 42501; 22023; 22P02.';
