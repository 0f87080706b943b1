/*
 * 63_message.sql: the message that a webhook gets for an event, and its
 * signature.
 */

/* Describes an event in one line for people. */
CREATE FUNCTION gpucredit_http.event_summary(e gpucredit.event) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT concat_ws(' ', (e).kind,
			nullif(concat_ws('/', nullif((e).org, ''), nullif((e).account, '')), ''),
			'job ' || (e).job, 'attempt ' || (e).attempt)
		|| coalesce(': ' || nullif(concat_ws(', ', nullif((e).decision, ''),
			nullif((e).reason, '')), ''), '');
END;
COMMENT ON FUNCTION gpucredit_http.event_summary(gpucredit.event) IS
'Internal: an event in one line.';

/* Returns the values that a template may name. */
CREATE FUNCTION gpucredit_http.template_values(e gpucredit.event) RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
	WITH one AS (
		SELECT gpucredit_http.event_json(e)::jsonb AS event,
			gpucredit_http.event_summary(e) AS summary)
	SELECT jsonb_build_object('kind', one.event -> 'kind', 'event', one.event -> 'event',
		'at', one.event -> 'at', 'org', one.event -> 'org', 'account', one.event -> 'account',
		'job', one.event -> 'job', 'attempt', one.event -> 'attempt',
		'decision', one.event -> 'decision', 'reason', one.event -> 'reason',
		'detail', coalesce(one.event -> 'detail', '{}'), 'summary', one.summary,
		'escaped_summary', replace(replace(replace(one.summary, '&', '&amp;'), '<', '&lt;'),
			'>', '&gt;'))
	FROM one;
END;
COMMENT ON FUNCTION gpucredit_http.template_values(gpucredit.event) IS
'Internal: what an event puts in the place of the names in a template.';

/*
 * Replaces the names in a template. Each text is scanned once, so that
 * inserted text of an event is not interpreted as a name. A text that consists
 * only of {detail} becomes the object itself.
 */
CREATE FUNCTION gpucredit_http.fill_template(template jsonb, names jsonb,
	depth integer DEFAULT 1) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	words text;
BEGIN
	IF fill_template.depth > 16 THEN
		PERFORM gpucredit_http.refuse('a template is at most 16 levels deep',
			'Each object and each array is a level.');
	END IF;
	CASE jsonb_typeof(fill_template.template)
		WHEN 'string' THEN
			words := fill_template.template #>> '{}';
			IF words = '{detail}' THEN
				RETURN fill_template.names -> 'detail';
			END IF;
			RETURN to_jsonb(coalesce((
				SELECT string_agg(CASE WHEN p.piece[1] ~ '^\{[a-z_]+\}$'
						AND fill_template.names ? trim(BOTH '{}' FROM p.piece[1])
					THEN coalesce(fill_template.names ->> trim(BOTH '{}' FROM p.piece[1]), '')
					ELSE p.piece[1] END, '' ORDER BY p.n)
				FROM regexp_matches(words, '\{[a-z_]+\}|[^{]+|\{', 'g')
					WITH ORDINALITY AS p (piece, n)), ''));
		WHEN 'array' THEN
			RETURN coalesce((SELECT jsonb_agg(gpucredit_http.fill_template(a.value,
					fill_template.names, fill_template.depth + 1) ORDER BY a.n)
				FROM jsonb_array_elements(fill_template.template) WITH ORDINALITY AS a (value, n)),
				'[]');
		WHEN 'object' THEN
			RETURN coalesce((SELECT jsonb_object_agg(o.key, gpucredit_http.fill_template(o.value,
					fill_template.names, fill_template.depth + 1))
				FROM jsonb_each(fill_template.template) o), '{}');
		ELSE
			RETURN fill_template.template;
	END CASE;
END
$$;
COMMENT ON FUNCTION gpucredit_http.fill_template(jsonb, jsonb, integer) IS
'Internal: a template with {NAME} replaced in all its texts. Errors: 22023 too deep.';

CREATE FUNCTION gpucredit_http.check_template(template jsonb) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	known CONSTANT text[] := '{kind,event,at,org,account,job,attempt,decision,reason,detail,summary,escaped_summary}';
	wrong text;
BEGIN
	IF check_template.template IS NULL OR check_template.template = '"slack"' THEN
		RETURN;
	END IF;
	IF jsonb_typeof(check_template.template) <> 'object' THEN
		PERFORM gpucredit_http.refuse('a template is an object, or "slack"',
			format('It is of type %s.', jsonb_typeof(check_template.template)));
	ELSIF octet_length(check_template.template::text) > 8192 THEN
		PERFORM gpucredit_http.refuse('a template has at most 8 kB',
			format('It has %s bytes.', octet_length(check_template.template::text)));
	END IF;
	SELECT m.name[1] INTO wrong
	FROM regexp_matches(check_template.template::text, '\{([a-z_]+)\}', 'g') AS m (name)
	WHERE m.name[1] <> ALL (known) LIMIT 1;
	IF wrong IS NOT NULL THEN
		PERFORM gpucredit_http.refuse(format('a template has no name {%s}', left(wrong, 64)),
			format('It has: %s.', array_to_string(known, ', ')));
	ELSIF (SELECT count(*) FROM regexp_matches(check_template.template::text,
			'\{[a-z_]+\}', 'g')) > 16
	THEN
		PERFORM gpucredit_http.refuse('a template has at most 16 names',
			'Each is replaced by what an event has.');
	END IF;
	PERFORM gpucredit_http.fill_template(check_template.template, '{"detail": {}}');
END
$$;
COMMENT ON FUNCTION gpucredit_http.check_template(jsonb) IS
'Internal: refuses what is no template (22023).';

/* Returns the body of the message for an event. */
CREATE FUNCTION gpucredit_http.message_body(template jsonb, e gpucredit.event) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT CASE WHEN message_body.template IS NULL THEN
		json_build_object('type', (e).kind, 'timestamp', (e).at,
			'data', gpucredit_http.event_json(e)::json)::text
		ELSE gpucredit_http.fill_template(CASE message_body.template
				WHEN '"slack"' THEN '{"text": "{escaped_summary}"}'::jsonb
				ELSE message_body.template END,
			gpucredit_http.template_values(e))::text END;
END;
COMMENT ON FUNCTION gpucredit_http.message_body(jsonb, gpucredit.event) IS
'Internal: what a webhook is sent of an event, as JSON.';

/*
 * Returns the id of a message. It is the same for each attempt, and differs
 * between events, even if a restored database assigns an event number for the
 * second time.
 */
CREATE FUNCTION gpucredit_http.message_id(e gpucredit.event) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT format('evt_%s_%s', (e).event, (extract(epoch FROM (e).at) * 1000000)::bigint);
END;
COMMENT ON FUNCTION gpucredit_http.message_id(gpucredit.event) IS
'Internal: the header webhook-id of an event.';

/*
 * Signs a message as Standard Webhooks defines: "v1," and the base64 of
 * HMAC-SHA256 over id, timestamp and body, once for each valid key. The body
 * is parsed when the function is created, so that it calls pgcrypto's hmac().
 */
CREATE FUNCTION gpucredit_http.sign_message(org text, webhook bigint, message text)
RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT string_agg('v1,' || encode(hmac(convert_to(sign_message.message, 'UTF8'),
		s.secret, 'sha256'::text), 'base64'), ' ' ORDER BY s.generation DESC)
	FROM gpucredit_http.webhook_secret s
	WHERE s.org = sign_message.org AND s.webhook = sign_message.webhook
		AND s.ends_at > gpucredit.now();
END;
COMMENT ON FUNCTION gpucredit_http.sign_message(text, bigint, text) IS
'Internal: the header webhook-signature of a message.';
