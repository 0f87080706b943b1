/*
 * 50_openapi.sql: describes this interface as an OpenAPI 3.1 document, built
 * from the catalog and the functions' comments.
 *
 * It lists what the caller's role may execute, so a tenant's document is
 * shorter than an operator's.
 */
CREATE FUNCTION gpucredit_http.scalar_schema(type oid) RETURNS json
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT CASE
		WHEN t.oid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype) THEN
			json_build_object('type', 'integer')
		WHEN t.oid = 'bool'::regtype THEN json_build_object('type', 'boolean')
		WHEN t.oid IN ('float4'::regtype, 'float8'::regtype) THEN
			json_build_object('type', 'number')
		WHEN t.oid = 'numeric'::regtype THEN
			json_build_object('type', 'string', 'format', 'decimal')
		WHEN t.oid = 'timestamptz'::regtype THEN
			json_build_object('type', 'string', 'format', 'date-time')
		WHEN t.oid = 'date'::regtype THEN json_build_object('type', 'string', 'format', 'date')
		WHEN t.oid = 'interval'::regtype THEN
			json_build_object('type', 'string', 'format', 'duration')
		WHEN t.oid = 'bytea'::regtype THEN
			json_build_object('type', 'string', 'contentEncoding', 'base64')
		WHEN t.oid IN ('json'::regtype, 'jsonb'::regtype) THEN json_build_object()
		ELSE json_build_object('type', 'string') END
	FROM pg_type t WHERE t.oid = scalar_schema.type;
END;
COMMENT ON FUNCTION gpucredit_http.scalar_schema(oid) IS
'Internal: the JSON schema of a value of a type that is no array.';

CREATE FUNCTION gpucredit_http.json_schema(type oid) RETURNS json
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT CASE
		WHEN t.typsubscript = 'array_subscript_handler'::regproc AND t.typlen = -1 THEN
			json_build_object('type', 'array', 'items', gpucredit_http.scalar_schema(t.typelem))
		ELSE gpucredit_http.scalar_schema(t.oid) END
	FROM pg_type t WHERE t.oid = json_schema.type;
END;
COMMENT ON FUNCTION gpucredit_http.json_schema(oid) IS
'Internal: the JSON schema of a value of a type.';

/*
 * Adds null to a schema. Every column may be null, and so may every argument
 * that has a default.
 */
CREATE FUNCTION gpucredit_http.nullable(schema json) RETURNS json
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT CASE WHEN nullable.schema ->> 'type' IS NULL THEN nullable.schema
		ELSE (nullable.schema::jsonb || jsonb_build_object('type',
				jsonb_build_array(nullable.schema ->> 'type', 'null')))::json END;
END;
COMMENT ON FUNCTION gpucredit_http.nullable(json) IS
'Internal: a JSON schema that allows null as well.';

CREATE FUNCTION gpucredit_http.result_schema(f gpucredit_http.callable, is_list boolean)
RETURNS json
LANGUAGE sql STABLE
BEGIN ATOMIC
	WITH one AS (
		SELECT coalesce(
			(SELECT json_build_object('type', 'object', 'properties',
					json_object_agg(c.name, gpucredit_http.nullable(gpucredit_http.json_schema(c.type))))
				FROM gpucredit_http.result_columns(f) c HAVING count(*) > 0),
			CASE WHEN (f).result = 'void'::regtype THEN json_build_object('type', 'null')
				WHEN (f).is_set THEN json_build_object('type', 'object', 'properties',
					json_build_object('value', gpucredit_http.json_schema((f).result)))
				ELSE gpucredit_http.nullable(gpucredit_http.json_schema((f).result)) END) AS schema)
	SELECT CASE WHEN (f).is_set THEN json_build_object('type', 'object',
			'required', '["data", "truncated", "next"]'::json,
			'properties', json_build_object(
				'data', json_build_object('type', 'array', 'items', one.schema),
				'truncated', json_build_object('type', 'boolean'),
				'next', CASE WHEN result_schema.is_list THEN '{"type": ["integer", "null"]}'::json
					ELSE '{"type": "null"}'::json END))
		ELSE one.schema END
	FROM one;
END;
COMMENT ON FUNCTION gpucredit_http.result_schema(gpucredit_http.callable, boolean) IS
'Internal: the JSON schema of what a function answers.';

/* Describes an operation: a function that is called at an address. */
CREATE FUNCTION gpucredit_http.operation(f gpucredit_http.callable, id text, summary text,
	method text, path text, is_list boolean) RETURNS json
LANGUAGE sql STABLE
BEGIN ATOMIC
	WITH argument AS (
		SELECT a.name, a.n, a.n <= (f).needed AND a.name NOT IN ('org', 'key') AS needed,
			strpos(operation.path, '{' || a.name || '}') > 0 AS in_path,
			CASE WHEN a.n <= (f).needed THEN gpucredit_http.json_schema(a.type)
				ELSE gpucredit_http.nullable(gpucredit_http.json_schema(a.type)) END AS schema,
			gpucredit_http.json_schema(a.type) AS plain
		FROM unnest((f).names[1:(f).arguments], (f).types) WITH ORDINALITY AS a (name, type, n)),
	parameter AS (
		SELECT a.n, json_build_object('name', a.name,
			'in', CASE WHEN a.in_path THEN 'path' ELSE 'query' END,
			'required', a.in_path OR a.needed, 'schema', a.plain) AS one
		FROM argument a
		WHERE a.in_path OR operation.method IN ('GET', 'DELETE')
		UNION ALL
		SELECT 1000, '{"name": "Idempotency-Key", "in": "header", "required": false,
			"schema": {"type": "string", "maxLength": 255},
			"description": "The key of the call, if the body has none."}'::json
		FROM argument a WHERE a.name = 'key' AND operation.method = 'POST')
	SELECT json_strip_nulls(json_build_object(
		'operationId', operation.id,
		'summary', operation.summary,
		'description', obj_description((f).function, 'pg_proc'),
		'tags', json_build_array(CASE (f).schema WHEN 'gpucredit' THEN 'core'
			ELSE substr((f).schema::text, 11) END),
		'x-scope', gpucredit_http.scope_of((f).function),
		'parameters', (SELECT json_agg(p.one ORDER BY p.n) FROM parameter p),
		'requestBody', CASE WHEN operation.method = 'POST' THEN
			(SELECT json_build_object('required', count(*) FILTER (WHERE a.needed) > 0,
				'content', json_build_object('application/json', json_build_object('schema',
					json_build_object('type', 'object', 'additionalProperties', false,
						'required', json_agg(a.name ORDER BY a.n) FILTER (WHERE a.needed),
						'properties', coalesce(json_object_agg(a.name, a.schema ORDER BY a.n)
							FILTER (WHERE a.name IS NOT NULL), '{}')))))
				FROM argument a WHERE NOT a.in_path) END,
		'responses', json_build_object(
			'200', json_build_object('description', 'The result.',
				'content', json_build_object('application/json', json_build_object('schema',
					gpucredit_http.result_schema(f, operation.is_list)))),
			'4XX', '{"$ref": "#/components/responses/problem"}'::json,
			'5XX', '{"$ref": "#/components/responses/problem"}'::json)));
END;
COMMENT ON FUNCTION gpucredit_http.operation(gpucredit_http.callable, text, text, text, text, boolean) IS
'Internal: the OpenAPI operation of a function at an address.';

CREATE FUNCTION gpucredit_http.openapi() RETURNS json
LANGUAGE sql STABLE
BEGIN ATOMIC
	WITH mine AS (
		SELECT DISTINCT ON (c.short) c AS f, c.short
		FROM gpucredit_http.callable c
		WHERE has_function_privilege(c.function, 'EXECUTE')
			AND c.short NOT IN ('http.begin', 'http.enter', 'http.begin_session', 'http.session_answer', 'http.answer', 'http.openapi',
				'http.open_stream', 'http.stream_page', 'http.event_json')
		ORDER BY c.short, c.function),
	operation AS (
		SELECT r.path, lower(r.method) AS method,
			gpucredit_http.operation(m.f,
				lower(r.method) || regexp_replace(replace(r.path, '/v1', ''), '[^a-z]+', '_', 'g'),
				r.summary, r.method, r.path, r.cursor IS NOT NULL) AS one
		FROM gpucredit_http.routes() r JOIN mine m ON m.short = r.function
		UNION ALL
		SELECT '/v1/call/' || m.short, 'post', gpucredit_http.operation(m.f,
			'call_' || replace(m.short, '.', '_'), 'Call ' || m.short, 'POST',
			'/v1/call/' || m.short, false)
		FROM mine m),
	path AS (
		SELECT o.path, json_object_agg(o.method, o.one ORDER BY o.method) AS item
		FROM operation o GROUP BY o.path)
	SELECT json_build_object(
		'openapi', '3.1.0',
		'info', json_build_object('title', 'gpucredit',
			'version', (SELECT e.extversion FROM pg_extension e WHERE e.extname = 'gpucredit'),
			'summary', 'GPU credit and GPU jobs',
			'description', 'Every function is called with the rights of the token''s database role. Amounts are decimal texts, times RFC 3339, durations ISO 8601.',
			'license', json_build_object('name', 'PostgreSQL License', 'identifier', 'PostgreSQL')),
		'servers', '[{"url": "/"}]'::json,
		'security', '[{"token": []}]'::json,
		'tags', (SELECT json_agg(json_build_object('name', t.name,
					'description', 'Functions of ' || t.schema || '.') ORDER BY t.name)
			FROM (SELECT DISTINCT CASE (m.f).schema WHEN 'gpucredit' THEN 'core'
					ELSE substr((m.f).schema::text, 11) END AS name, (m.f).schema::text AS schema
				FROM mine m) t),
		'paths', (SELECT json_object_agg(p.path, p.item ORDER BY p.path) FROM path p),
		'components', '{
			"securitySchemes": {"token": {"type": "http", "scheme": "bearer",
				"description": "The secret that gpucredit_http.issue_token() showed."}},
			"schemas": {"problem": {"type": "object",
				"description": "RFC 9457. A denial has the call''s result as well.",
				"required": ["type", "title", "status"],
				"properties": {"type": {"type": "string"}, "title": {"type": "string"},
					"status": {"type": "integer"}, "detail": {"type": "string"},
					"hint": {"type": "string"}, "sqlstate": {"type": "string"},
					"result": {"type": "object"}}}},
			"responses": {"problem": {"description": "What was wrong, and what to do.",
				"content": {"application/problem+json":
					{"schema": {"$ref": "#/components/schemas/problem"}}}}}}'::json);
END;
COMMENT ON FUNCTION gpucredit_http.openapi() IS
'Lists: an OpenAPI 3.1 document of what the caller may call, made from the catalogue and the functions'' comments.';
