/*
 * 95_http.sql: answers a request that the daemon passes on.
 *
 * The daemon contains no rules. It calls http() once for a request and
 * executes the plan in the answer:
 *
 *   {"send": PIECES, "length", "org", "download"}
 *       Send ranges of packs, then call close_download().
 *   {"length"}
 *       The length of the omitted body, for HEAD.
 *   {"receive": {"org", "upload", "part", "from", "whole"}}
 *       Receive the body: begin_part(), store_chunks() and, if the part is the
 *       whole file, finish_upload(). With "writer" and "expected", the part is
 *       begun already. With "verify", if it is the last part,
 *       first upload_pieces(), as for "verify" below. With "last", it is the
 *       last part, whatever its size. With "range", the answer contains how
 *       much is stored.
 *   {"collect": true}
 *       Ask again, with the body.
 *   {"verify": {"org", "upload", "pieces"}}
 *       Read the pieces, compute the digest, call finish_upload().
 */
CREATE FUNCTION gpucredit_registry.repo_route(r gpucredit_registry.http_request,
	kind text, org text, name text, words text[]) RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	route text := (r).method || ' ' || coalesce(words[1], '');
	rest text := array_to_string(words[3:], '/');
	m gpucredit_registry.model;
BEGIN
	m := gpucredit_registry.require_model(repo_route.org, repo_route.name, repo_route.kind,
		(r).caller, CASE WHEN route = 'PUT settings' THEN 'admin'
			WHEN route IN ('POST commit', 'POST branch', 'DELETE branch',
			'POST tag', 'DELETE tag', 'POST alias', 'DELETE alias', 'POST preupload',
			'POST scores') THEN 'write' ELSE 'read' END);
	CASE
		WHEN route = 'GET ' AND words IS NULL THEN
			RETURN gpucredit_registry.hub_info(r, m, NULL);
		WHEN route = 'GET revision' AND words[2] IS NOT NULL THEN
			RETURN gpucredit_registry.hub_info(r, m, words[2]);
		WHEN route = 'GET tree' AND words[2] IS NOT NULL THEN
			RETURN gpucredit_registry.hub_tree(r, m, words[2], rest);
		WHEN route = 'POST paths-info' AND words[2] IS NOT NULL THEN
			RETURN gpucredit_registry.hub_paths(r, m, words[2]);
		WHEN route = 'POST preupload' AND words[2] IS NOT NULL THEN
			RETURN gpucredit_registry.hub_preupload(r, m);
		WHEN route = 'POST commit' AND words[2] IS NOT NULL THEN
			RETURN gpucredit_registry.hub_commit(r, m, words[2]);
		WHEN route = 'GET commits' AND words[2] IS NOT NULL THEN
			RETURN gpucredit_registry.hub_commits(r, m, words[2]);
		WHEN route = 'GET provenance' AND words[2] IS NOT NULL THEN
			RETURN gpucredit_registry.json_response(gpucredit_registry.provenance(m,
				gpucredit_registry.require_version(m, words[2]), (r).caller));
		WHEN route ~ '^(GET|POST) scores$' AND words[2] IS NOT NULL THEN
			RETURN gpucredit_registry.hub_scores(r, m, words[2]);
		WHEN route = 'GET refs' THEN
			RETURN gpucredit_registry.hub_refs(r, m);
		WHEN route ~ '^(POST|DELETE) branch$' AND words[2] IS NOT NULL THEN
			RETURN gpucredit_registry.hub_branch(r, m, array_to_string(words[2:], '/'));
		WHEN route ~ '^(POST|DELETE) tag$' AND words[2] IS NOT NULL THEN
			RETURN gpucredit_registry.hub_tag(r, m, array_to_string(words[2:], '/'));
		WHEN route ~ '^(POST|DELETE) alias$' AND words[2] IS NOT NULL AND words[3] IS NULL THEN
			RETURN gpucredit_registry.hub_alias(r, m, words[2]);
		WHEN route = 'PUT settings' THEN
			RETURN gpucredit_registry.hub_settings(r, m);
		ELSE
			PERFORM gpucredit_registry.refuse_request(
				CASE WHEN words IS NULL THEN 404 ELSE 501 END,
				concat_ws(' ', 'there is no', (r).method, 'of', quote_ident(left(words[1], 64)),
					'of a repository here'), 'The README says what there is.');
	END CASE;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.repo_route(gpucredit_registry.http_request, text, text, text, text[]) IS
'Internal: the function that answers a request below /api/models/ORG/NAME.';

CREATE FUNCTION gpucredit_registry.route(r gpucredit_registry.http_request)
RETURNS gpucredit_registry.http_response
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	words text[] := (SELECT array_agg(gpucredit_registry.url_decode(w.word) ORDER BY w.n)
		FROM regexp_split_to_table(ltrim((r).path, '/'), '/') WITH ORDINALITY AS w (word, n));
	kind text := 'model';
	m gpucredit_registry.model;
BEGIN
	IF words[1] = 'lfs' THEN
		/* A caller who may read, or may send, can query the state. */
		IF NOT gpucredit_registry.is_signed((r).method, (r).path, (r).query)
			AND NOT ((r).method = 'HEAD'
				AND (gpucredit_registry.is_signed('GET', (r).path, (r).query)
					OR gpucredit_registry.is_signed('PATCH', (r).path, (r).query)))
		THEN
			PERFORM gpucredit_registry.refuse_request(403, 'the URL''s signature is not good, or older than an hour',
				'Ask for a new URL.');
		ELSIF (r).method = 'PUT' AND array_length(words, 1) = 4 THEN
			RETURN gpucredit_registry.lfs_put(r, words[2], words[3]::bigint, words[4]::integer);
		ELSIF (r).method = 'POST' AND array_length(words, 1) = 3 THEN
			RETURN gpucredit_registry.lfs_complete(r, words[2], words[3]::bigint);
		ELSIF (r).method IN ('PATCH', 'HEAD') AND array_length(words, 1) = 4 AND words[4] = '1' THEN
			RETURN gpucredit_registry.lfs_tus(r, words[2], words[3]::bigint);
		ELSIF (r).method IN ('GET', 'HEAD') AND array_length(words, 1) >= 4 THEN
			RETURN gpucredit_registry.lfs_get(r, words[2], words[3]::bigint, words[4],
				nullif(array_to_string(words[5:], '/'), ''));
		END IF;
	ELSIF words[1] = 'scan' AND array_length(words, 1) = 4 AND (r).method = 'GET'
		AND gpucredit_registry.is_signed('GET', (r).path, (r).query)
	THEN
		RETURN gpucredit_registry.scan_get(r, words[2], words[3]::bigint, words[4]);
	ELSIF words[1] = 'v2' THEN
		RETURN gpucredit_registry.oci_route(r, words);
	ELSIF words[1] = 'api' THEN
		IF (r).method = 'GET' AND words[2] = 'whoami-v2' THEN
			RETURN gpucredit_registry.hub_whoami(r);
		ELSIF (r).method = 'POST' AND words[2:3] = '{repos,create}' THEN
			RETURN gpucredit_registry.hub_create(r);
		ELSIF (r).method = 'DELETE' AND words[2:3] = '{repos,delete}' THEN
			RETURN gpucredit_registry.hub_delete(r);
		ELSIF (r).method = 'POST' AND words[2:3] = '{repos,move}' THEN
			RETURN gpucredit_registry.hub_move(r);
		ELSIF (r).method = 'GET' AND words[2] IN ('models', 'datasets') AND words[3] IS NULL THEN
			RETURN gpucredit_registry.hub_search(r, rtrim(words[2], 's'));
		ELSIF words[2] IN ('models', 'datasets') AND words[4] IS NOT NULL THEN
			RETURN gpucredit_registry.repo_route(r, rtrim(words[2], 's'), words[3], words[4],
				nullif(words[5:], '{}'));
		ELSIF words[2] IN ('spaces', 'collections', 'jobs', 'scheduled-jobs', 'buckets', 'papers') THEN
			PERFORM gpucredit_registry.refuse_request(501, format('there are no %s here', words[2]),
				'There are models, datasets and images.');
		END IF;
	ELSE
		/* An organisation may be called "images": only the page has this form. */
		IF words[1] = 'datasets' OR words[1] = 'images' AND array_length(words, 1) = 3 THEN
			kind := rtrim(words[1], 's');
			words := words[2:];
		END IF;
		IF (r).method = 'POST' AND words[2] LIKE '%.git'
			AND words[3:] = '{info,lfs,objects,batch}'
		THEN
			RETURN gpucredit_registry.lfs_batch(r, kind, words[1],
				left(words[2], -4));
		ELSIF (r).method IN ('GET', 'HEAD') AND words[3] IN ('resolve', 'raw')
			AND words[5] IS NOT NULL
		THEN
			m := gpucredit_registry.require_model(words[1], words[2], kind, (r).caller, 'read');
			RETURN gpucredit_registry.hub_resolve(r, m, words[4],
				array_to_string(words[5:], '/'));
		ELSIF (r).method IN ('GET', 'HEAD') AND (r).path = '/' THEN
			RETURN gpucredit_registry.page_list(r);
		ELSIF (r).method IN ('GET', 'HEAD') AND array_length(words, 1) = 2 AND words[2] <> '' THEN
			m := gpucredit_registry.require_model(words[1], words[2], kind, (r).caller, 'read');
			RETURN gpucredit_registry.page_model(r, m);
		END IF;
	END IF;
	PERFORM gpucredit_registry.refuse_request(404, 'no such endpoint', 'See the README.');
END
$$;
COMMENT ON FUNCTION gpucredit_registry.route(gpucredit_registry.http_request) IS
'Internal: the function that answers a request.';

CREATE FUNCTION gpucredit_registry.http_status(state text) RETURNS integer
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT CASE
		WHEN state IN ('UC501', 'UC502', 'UC001') THEN 404
		WHEN state = 'UC503' THEN 422
		WHEN state IN ('UC504', '42501') THEN 403
		WHEN state IN ('UC201', 'UC507') THEN 409
		WHEN state = 'UC505' THEN 422
		WHEN state = 'UC506' THEN 412
		WHEN state = 'UC202' THEN 429
		WHEN state ~ '^(22|54)' THEN 400
	END;
END;
COMMENT ON FUNCTION gpucredit_registry.http_status(text) IS
'Internal: the HTTP status of an error; NULL: it is no answer to a client.';

CREATE FUNCTION gpucredit_registry.knows_token("authorization" text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT coalesce((gpucredit_registry.caller_of(gpucredit_registry.token_of(
		knows_token."authorization"))).org IS NOT NULL, false);
END;
COMMENT ON FUNCTION gpucredit_registry.knows_token(text) IS
'Daemon: is the token of this header good? It is asked before a long body is read.';

CREATE FUNCTION gpucredit_registry.http(method text, target text, headers jsonb,
	body bytea, OUT status integer, OUT response_headers jsonb, OUT response_body bytea,
	OUT plan jsonb)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r gpucredit_registry.http_request;
	a gpucredit_registry.http_response;
	state text;
	message text;
	detail text;
	hint text;
	code text;
	owner_org text;
	owner_account text;
BEGIN
	r.method := http.method;
	r.path := split_part(http.target, '?', 1);
	r.headers := http.headers;
	r.body := http.body;
	r.base := format('%s://%s', coalesce(http.headers ->> 'x-forwarded-proto', 'http'),
		http.headers ->> 'host');
	BEGIN
		r.query := gpucredit_registry.query_of(substr(http.target, length(r.path) + 2));
		IF http.headers ? 'authorization'
			AND http.headers ->> 'authorization' <> 'Bearer anonymous'
		THEN
			r.caller := gpucredit_registry.caller_of(
				gpucredit_registry.token_of(http.headers ->> 'authorization'));
			IF r.caller IS NULL THEN
				PERFORM gpucredit_registry.refuse_request(401, 'the token is not good, or not any more',
					'Get a new one by gpucredit_registry.issue_token().');
			END IF;
		END IF;
		a := gpucredit_registry.route(r);
	EXCEPTION WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT,
			detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT, code = COLUMN_NAME,
			owner_org = SCHEMA_NAME, owner_account = TABLE_NAME;
		IF state = 'UC508' THEN
			IF code <> '' THEN
				PERFORM gpucredit_registry.report_denial(owner_org, owner_account, code);
			END IF;
			a := gpucredit_registry.error_response(detail::integer, message || '. ' || hint);
		ELSIF gpucredit_registry.http_status(state) IS NULL THEN
			RAISE;
		ELSIF state = 'UC501' AND r.caller IS NULL AND code = '' THEN
			/*
			 * git asks the user for a name and a token only after this status.
			 */
			a := gpucredit_registry.error_response(401, message, 'RepoNotFound');
		ELSE
			a := gpucredit_registry.error_response(gpucredit_registry.http_status(state),
				concat_ws('. ', message, rtrim(detail, '.')),
				CASE state WHEN 'UC501' THEN coalesce(nullif(code, ''), 'RepoNotFound')
					WHEN 'UC504' THEN nullif(code, '') END);
		END IF;
		IF r.path ~ '^/v2/' THEN
			a := gpucredit_registry.oci_error(r, a.status,
				convert_from(a.body, 'UTF8')::jsonb ->> 'message');
		END IF;
	END;
	/*
	 * A proxy that checks a request only distinguishes success from failure,
	 * and then asks for the reason.
	 */
	status := CASE WHEN a.status >= 300
			AND starts_with(http.headers ->> 'x-registry-proxy', 'check ') THEN 403
		ELSE a.status END;
	response_headers := a.headers;
	response_body := a.body;
	plan := a.plan;
	/*
	 * These write only what is read again or lost without harm: that a download
	 * or a part of an upload began. So they do not wait for the disk. All else,
	 * what a refusal reports included, does.
	 */
	IF a.plan ? 'download' OR a.plan -> 'receive' ? 'writer' THEN
		PERFORM set_config('synchronous_commit', 'off', true);
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.http(text, text, jsonb, bytea) IS
'Daemon: answers a request; a refused request writes nothing but, once a day, an alert for the owner whose quota or credit denied it.
method, target, body: of the request; a PUT''s body is NULL, and received or collected as the plan says. headers: an object, names in lower case; "writer" is a number that no other request has.
Result: status, headers, body, and the plan of what bytes to send or receive.';
