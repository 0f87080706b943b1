/*
 * 35_stream.sql: the feed of events, as the daemon sends it to clients with an
 * open stream.
 *
 * The daemon reads each event once for all listeners, and sends it to those
 * whose role may read it. The rights are determined here: by stream_rights()
 * when a stream begins, and by good_tokens() every half minute, and at once
 * when a token or a session has ended (NOTIFY gpucredit_token).
 */
CREATE FUNCTION gpucredit_http.event_json(e gpucredit.event) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT json_strip_nulls(json_build_object('event', (e).event,
		'kind', (e).kind, 'at', (e).at, 'org', (e).org, 'account', (e).account, 'job', (e).job,
		'attempt', (e).attempt, 'decision', (e).decision, 'reason', (e).reason,
		'detail', (e).detail))::text;
END;
COMMENT ON FUNCTION gpucredit_http.event_json(gpucredit.event) IS
'Internal: an event as clients get it.';

/*
 * Returns the events that a role may read, by the same rules as row-level
 * security (gpucredit_internal.may_read()).
 */
CREATE FUNCTION gpucredit_http.stream_rights(role name) RETURNS jsonb
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT jsonb_build_object(
		'all', NOT pg_has_role(r.oid, t.oid, 'MEMBER'),
		'bound', coalesce((SELECT jsonb_agg(jsonb_build_array(b.org, b.account) ORDER BY b.org, b.account)
			FROM (SELECT DISTINCT b.org, b.account FROM gpucredit.tenant b
				JOIN pg_roles o ON o.rolname = b.role
				WHERE pg_has_role(r.oid, o.oid, 'USAGE')) b), '[]'))
	FROM pg_roles r, pg_roles t
	WHERE r.rolname = stream_rights.role AND t.rolname = 'gpucredit_tenant'
		AND has_function_privilege(r.oid,
			'gpucredit.events(bigint,int,text,text,text[],bigint)'::regprocedure, 'EXECUTE');
END;
COMMENT ON FUNCTION gpucredit_http.stream_rights(name) IS
'Internal: whose events a role may read: all, or of which accounts and those below them; NULL: none.';

/* Returns one of the filters as text, or NULL. */
CREATE FUNCTION gpucredit_http.stream_filter(arguments jsonb, name text) RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF jsonb_typeof(stream_filter.arguments -> stream_filter.name) NOT IN ('string', 'null') THEN
		PERFORM gpucredit_http.refuse(format('"%s" is given twice', stream_filter.name),
			'A stream has one of it.', 'Give it once.');
	END IF;
	RETURN stream_filter.arguments ->> stream_filter.name;
END
$$;
COMMENT ON FUNCTION gpucredit_http.stream_filter(jsonb, text) IS
'Internal: an argument of a stream''s address. Errors: 22023 given twice.';

CREATE FUNCTION gpucredit_http.open_stream(query jsonb, last_event text DEFAULT NULL)
RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	caller name := gpucredit_http.caller();
	rights jsonb := gpucredit_http.stream_rights(caller);
	arguments jsonb := open_stream.query;
	unknown text;
	kinds jsonb := arguments -> 'kinds';
	after text;
	bound jsonb;
BEGIN
	IF rights IS NULL THEN
		RAISE EXCEPTION 'permission denied for function events'
			USING ERRCODE = 'insufficient_privilege',
			DETAIL = format('The token''s role "%s" may not read events.', caller),
			HINT = 'Use a token of a role that may.';
	END IF;
	SELECT min(k.key) INTO unknown FROM jsonb_object_keys(arguments) k (key)
	WHERE k.key NOT IN ('after', 'org', 'account', 'kinds', 'job');
	IF unknown IS NOT NULL THEN
		PERFORM gpucredit_http.refuse(format('a stream has no argument "%s"', left(unknown, 64)),
			'It has after, org, account, kinds and job.');
	END IF;
	IF jsonb_typeof(kinds) = 'string' THEN
		kinds := jsonb_build_array(kinds);
	END IF;
	IF jsonb_array_length(kinds) > 100 THEN
		PERFORM gpucredit_http.refuse('more than 100 kinds', 'Leave them out to get all.');
	END IF;
	after := coalesce(open_stream.last_event, gpucredit_http.stream_filter(arguments, 'after'));
	bound := rights -> 'bound';
	RETURN jsonb_build_object('role', caller,
		'token', nullif(current_setting('gpucredit_http.token', true), '')::bigint,
		'session', coalesce(nullif(current_setting('gpucredit_http.session', true), '')::bigint, 0),
		'rights', rights,
		'last', (SELECT coalesce(max(e.event), 0) FROM gpucredit.event e),
		'after', CASE WHEN after IS NOT NULL THEN greatest(after::bigint, 0) END,
		'org', coalesce(gpucredit_http.stream_filter(arguments, 'org'),
			CASE WHEN NOT (rights ->> 'all')::boolean AND jsonb_array_length(bound) = 1
				THEN bound -> 0 ->> 0 END),
		'account', coalesce(gpucredit_http.stream_filter(arguments, 'account'), ''),
		'kinds', kinds, 'job', gpucredit_http.stream_filter(arguments, 'job')::bigint);
END
$$;
COMMENT ON FUNCTION gpucredit_http.open_stream(jsonb, text) IS
'Gateway: checks a stream''s arguments, and says whose events the session''s role may read. Errors: 42501, 22023, 22P02.';

/*
 * Returns the events after a number, for a stream that is behind. A page reads
 * 2,000 rows at most, so that a filter that matches nothing does not delay
 * other streams, and returns about 60 kB, which fits into a stream's buffer.
 * The last row has no content: it tells up to which number the page goes,
 * whether there are more events, and whether events before the page may have
 * been deleted by age.
 */
CREATE FUNCTION gpucredit_http.stream_page(after bigint, org text, account text,
	kinds text[], job bigint)
RETURNS TABLE (event bigint, kind text, content text, is_more boolean, is_missing boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
/* force the index whatever the statistics are */
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
	most CONSTANT int := 2000;
	upto bigint;
	n int;
	is_cut boolean;
	one gpucredit.event;
BEGIN
	IF gpucredit_http.stream_rights(gpucredit_http.caller()) IS NULL THEN
		RAISE EXCEPTION 'permission denied for function events'
			USING ERRCODE = 'insufficient_privilege';
	END IF;
	IF stream_page.org IS NULL THEN
		SELECT count(*), max(s.event) INTO n, upto
		FROM (SELECT e.event FROM gpucredit.event e WHERE e.event > stream_page.after
			ORDER BY e.event LIMIT most) s;
	ELSE
		SELECT count(*), max(s.event) INTO n, upto
		FROM (SELECT e.event FROM gpucredit.event e WHERE e.org = stream_page.org
				AND e.event > stream_page.after
			ORDER BY e.event LIMIT most) s;
	END IF;
	is_cut := n = most;
	IF NOT is_cut THEN
		SELECT greatest(coalesce(max(e.event), 0), stream_page.after) INTO upto FROM gpucredit.event e;
	END IF;
	n := 0;
	FOR one IN
		SELECT o.* FROM gpucredit.event o
		WHERE stream_page.org IS NULL AND o.event > stream_page.after AND o.event <= upto
		UNION ALL
		SELECT o.* FROM gpucredit.event o
		WHERE o.org = stream_page.org AND o.event > stream_page.after AND o.event <= upto
		ORDER BY 2
	LOOP
		/* The conditions are ordered by cost, the cheapest first. */
		CONTINUE WHEN NOT ((stream_page.kinds IS NULL OR one.kind = ANY (stream_page.kinds))
			AND (stream_page.job IS NULL OR one.job = stream_page.job)
			AND (stream_page.account = '' OR gpucredit_http.is_below(one.account, stream_page.account))
			AND gpucredit_internal.may_read(one.org, one.account));
		stream_page.content := gpucredit_http.event_json(one);
		n := n + 64 + octet_length(stream_page.content);
		IF n > 60000 AND stream_page.event IS NOT NULL THEN
			upto := stream_page.event;
			is_cut := true;
			EXIT;
		END IF;
		stream_page.event := one.event;
		stream_page.kind := one.kind;
		RETURN NEXT;
	END LOOP;
	RETURN QUERY SELECT upto, NULL::text, NULL::text, is_cut, stream_page.after > 0
		AND NOT EXISTS (SELECT FROM gpucredit.event e WHERE e.event <= stream_page.after)
		AND EXISTS (SELECT FROM gpucredit.event e);
END
$$;
COMMENT ON FUNCTION gpucredit_http.stream_page(bigint, text, text, text[], bigint) IS
'Gateway: the next events that a stream sends, with the rights of the session''s role; a last row without content says up to which event they go, whether there is more, and whether earlier ones may have left by age. Errors: 42501.';

/* Numbers committed events, which the daemon does for all streams. */
CREATE FUNCTION gpucredit_http.number_events() RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT CASE WHEN pg_is_in_recovery() THEN 0 ELSE gpucredit_internal.number_events(5000) END
$$;
COMMENT ON FUNCTION gpucredit_http.number_events() IS
'Gateway: numbers events that have committed; returns how many. Readers see them when this has committed.';

CREATE FUNCTION gpucredit_http.feed(after bigint, most integer)
RETURNS TABLE (event bigint, kind text, org text, account text, job bigint, content text)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
	SELECT e.event, e.kind, e.org, e.account, e.job, gpucredit_http.event_json(e)
	FROM gpucredit.event e WHERE e.event > feed.after ORDER BY e.event LIMIT feed.most
$$;
COMMENT ON FUNCTION gpucredit_http.feed(bigint, integer) IS
'Gateway: events of all organisations after one, at most so many.';

CREATE FUNCTION gpucredit_http.feed_end() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$ SELECT coalesce(max(e.event), 0) FROM gpucredit.event e $$;
COMMENT ON FUNCTION gpucredit_http.feed_end() IS
'Gateway: the number of the last event, or 0.';

CREATE FUNCTION gpucredit_http.good_tokens(tokens bigint[], sessions bigint[])
RETURNS TABLE (token bigint, session bigint, rights jsonb)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT t.token, a.session, gpucredit_http.stream_rights(t.role)
	FROM (SELECT DISTINCT a.token, a.session
			FROM unnest(good_tokens.tokens, good_tokens.sessions) AS a (token, session)) a
		JOIN gpucredit_http.token t ON t.token = a.token
	WHERE t.revoked_at IS NULL AND t.expires_at > gpucredit.now()
		AND gpucredit_http.may_serve(t.role) AND gpucredit_http.identity_holds(t.identity)
		AND gpucredit_http.stream_rights(t.role) IS NOT NULL
		AND (a.session = 0 OR EXISTS (SELECT FROM gpucredit_http.session s
			WHERE s.session = a.session AND s.token = a.token AND s.ended_at IS NULL
				AND s.expires_at > gpucredit.now()
				AND s.used_at > gpucredit.now() - (gpucredit_http.session_limits()).idle))
$$;
COMMENT ON FUNCTION gpucredit_http.good_tokens(bigint[], bigint[]) IS
'Gateway: those of some tokens, each with its session or 0, that are still good, and whose events their roles may read.';
