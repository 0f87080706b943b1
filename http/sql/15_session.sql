/*
 * 15_session.sql: sessions of browsers, which have a cookie in place of a
 * token.
 *
 * A session acts as its token's role within its token's scope, and ends no
 * later than the token. Only the digest of its secret is stored. A browser
 * sends a cookie whatever page caused the request. Therefore every request
 * that may change something must carry a second secret, which only the
 * console's own pages can read.
 */
CREATE TABLE gpucredit_http.session (
	session bigint GENERATED ALWAYS AS IDENTITY,
	sha256 bytea NOT NULL CONSTRAINT session_sha256 UNIQUE,
	token bigint NOT NULL,
	label text NOT NULL,
	created_at timestamptz NOT NULL,
	used_at timestamptz NOT NULL,
	expires_at timestamptz NOT NULL,
	ended_at timestamptz,
	CONSTRAINT session_pkey PRIMARY KEY (session)
);
CREATE INDEX session_token ON gpucredit_http.session (token, session);
COMMENT ON TABLE gpucredit_http.session IS
'Sessions of browsers: the digest of each one''s secret, the token that it was begun with, and how long it is good';
COMMENT ON COLUMN gpucredit_http.session.session IS 'The number by which the session is listed and ended. It is no secret.';
COMMENT ON COLUMN gpucredit_http.session.sha256 IS 'The digest of the cookie''s value.';
COMMENT ON COLUMN gpucredit_http.session.token IS 'The token that it was begun with: its role, its scope, and its end at the latest.';
COMMENT ON COLUMN gpucredit_http.session.label IS 'The browser, as it names itself.';
COMMENT ON COLUMN gpucredit_http.session.created_at IS 'When somebody signed in.';
COMMENT ON COLUMN gpucredit_http.session.used_at IS 'When it was last used, at most a minute late.';
COMMENT ON COLUMN gpucredit_http.session.expires_at IS 'From when on it is good no more, however much it is used.';
COMMENT ON COLUMN gpucredit_http.session.ended_at IS 'When somebody signed out; NULL if nobody did.';

CREATE FUNCTION gpucredit_http.session_limits(OUT idle interval, OUT absolute interval,
	OUT per_token integer, OUT per_day integer)
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT '2 hours'::interval, '12 hours'::interval, 100, 1000;
END;
COMMENT ON FUNCTION gpucredit_http.session_limits() IS
'Internal: how long a session lasts unused, how long at most, how many of one token are good at once, and how many of one token begin within a day.';

/*
 * Returns the secret for the header X-CSRF-Token. It is derived from the
 * cookie's secret, so it need not be stored, and a page that cannot read the
 * cookie cannot compute it.
 */
CREATE FUNCTION gpucredit_http.csrf_of(secret text) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT encode(sha256(convert_to('csrf ' || csrf_of.secret, 'UTF8')), 'hex');
END;
COMMENT ON FUNCTION gpucredit_http.csrf_of(text) IS
'Internal: what a request of a session has in its header X-CSRF-Token.';

/*
 * Returns the session of a request. Refuses a session that has ended or whose
 * token has, and a request that may change something and does not come from a
 * page of the console.
 */
CREATE FUNCTION gpucredit_http.begin_session(secret text, csrf text, method text,
	OUT session bigint, OUT token bigint, OUT role name, OUT scope text,
	OUT expires_at timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	one record;
	at timestamptz := gpucredit.now();
BEGIN
	SELECT s.session, s.used_at, t.token, t.role, t.scope,
		least(s.expires_at, t.expires_at) AS expires_at INTO one
	FROM gpucredit_http.session s JOIN gpucredit_http.token t ON t.token = s.token
	WHERE s.sha256 = sha256(convert_to(begin_session.secret, 'UTF8'))
		AND s.ended_at IS NULL AND s.expires_at > at
		AND s.used_at > at - (gpucredit_http.session_limits()).idle
		AND t.revoked_at IS NULL AND t.expires_at > at
		AND gpucredit_http.identity_holds(t.identity);
	IF NOT FOUND OR NOT gpucredit_http.may_serve(one.role) THEN
		RAISE EXCEPTION 'the session is over'
			USING ERRCODE = 'invalid_authorization_specification',
			DETAIL = 'It was ended, was not used for long, has reached its end, or its token was revoked.',
			HINT = 'Sign in again.';
	ELSIF begin_session.method NOT IN ('GET', 'HEAD')
		AND begin_session.csrf IS DISTINCT FROM gpucredit_http.csrf_of(begin_session.secret)
	THEN
		RAISE EXCEPTION 'the request does not come from the console'
			USING ERRCODE = 'insufficient_privilege',
			DETAIL = 'Its header X-CSRF-Token is missing, or is not that of the session.',
			HINT = 'GET /v1/session answers the value.';
	END IF;
	IF one.used_at < at - interval '1 minute' THEN
		PERFORM FROM gpucredit_http.session s WHERE s.session = one.session
		FOR NO KEY UPDATE SKIP LOCKED;
		IF FOUND THEN
			UPDATE gpucredit_http.session s SET used_at = at WHERE s.session = one.session;
		END IF;
	END IF;
	session := one.session;
	token := one.token;
	role := one.role;
	scope := one.scope;
	expires_at := one.expires_at;
END
$$;
COMMENT ON FUNCTION gpucredit_http.begin_session(text, text, text) IS
'Gateway: which role a request with a session''s cookie acts as, and the session''s and its token''s numbers. Errors: 28000 the session is over; 42501 a request that may change something, without the session''s X-CSRF-Token.';

/* Begins a session of a token whose role has just been authenticated. */
CREATE FUNCTION gpucredit_http.new_session(token bigint, role name, label text,
	OUT cookie text, OUT max_age integer)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	limits record := gpucredit_http.session_limits();
	at timestamptz := gpucredit.now();
	until timestamptz;
	number bigint;
BEGIN
	/*
	 * Two concurrent sign-ins wait for each other here, so that both are
	 * counted.
	 */
	SELECT least(at + limits.absolute, t.expires_at) INTO STRICT until
	FROM gpucredit_http.token t WHERE t.token = new_session.token FOR NO KEY UPDATE;
	IF (SELECT s.created_at FROM gpucredit_http.session s WHERE s.token = new_session.token
			ORDER BY s.session DESC OFFSET limits.per_day - 1 LIMIT 1) > at - interval '1 day'
	THEN
		PERFORM gpucredit_http.refuse('the token has begun 1,000 sessions within a day',
			'Each session that begins is kept for a month and is on record.',
			'Send the token itself with each request of a program, and keep a browser''s cookie.');
	END IF;
	DELETE FROM gpucredit_http.session s
	WHERE s.token = new_session.token AND s.expires_at < at - interval '30 days';
	UPDATE gpucredit_http.session s SET ended_at = at
	WHERE s.ended_at IS NULL AND s.session IN (
		SELECT o.session FROM gpucredit_http.session o
		WHERE o.token = new_session.token AND o.ended_at IS NULL AND o.expires_at > at
		ORDER BY o.session DESC OFFSET limits.per_token - 1);
	cookie := 'gps_' || replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '');
	INSERT INTO gpucredit_http.session AS s (sha256, token, label, created_at, used_at, expires_at)
	VALUES (sha256(convert_to(cookie, 'UTF8')), new_session.token,
		regexp_replace(left(coalesce(new_session.label, ''), 200), '[[:cntrl:]]', ' ', 'g'),
		at, at, until)
	RETURNING s.session INTO number;
	max_age := greatest(extract(epoch FROM until - at), 1);
	PERFORM gpucredit_http.record('', 'sign_in', new_session.role,
		jsonb_build_object('session', number, 'token', new_session.token));
END
$$;
COMMENT ON FUNCTION gpucredit_http.new_session(bigint, name, text) IS
'Internal: begins a session of a token: its cookie, and the seconds that it lasts. Errors: 22023 the token has begun 1,000 sessions within a day.';

/*
 * Implements POST, GET and DELETE of /v1/session. It runs with the gateway's
 * rights, not the role's, because a token that may only read can begin a
 * session, too.
 */
CREATE FUNCTION gpucredit_http.session_answer(method text, secret text, csrf text,
	label text, query jsonb, OUT status integer, OUT type text, OUT content text,
	OUT allow text, OUT cookie text, OUT max_age integer)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	who record;
	at timestamptz := gpucredit.now();
	many boolean := coalesce(session_answer.query ->> 'everywhere', '') = 'true';
	ended bigint;
	mine bigint;			/* the identity that signs out */
BEGIN
	session_answer.type := 'application/json';
	session_answer.status := 200;
	IF session_answer.method = 'POST' AND session_answer.csrf IS NULL THEN
		SELECT b.token, b.role INTO STRICT who FROM gpucredit_http.begin(session_answer.secret) b;
		SELECT n.cookie, n.max_age INTO session_answer.cookie, session_answer.max_age
		FROM gpucredit_http.new_session(who.token, who.role, session_answer.label) n;
		SELECT * INTO STRICT who
		FROM gpucredit_http.begin_session(session_answer.cookie, NULL, 'GET');
	ELSIF session_answer.csrf IS NULL OR session_answer.method = 'POST' THEN
		RAISE EXCEPTION 'a token is needed'
			USING ERRCODE = 'invalid_authorization_specification',
			DETAIL = 'A session is begun with a token, and shown or ended with its cookie.',
			HINT = 'POST /v1/session with "Authorization: Bearer TOKEN".';
	ELSE
		SELECT * INTO STRICT who FROM gpucredit_http.begin_session(session_answer.secret,
			session_answer.csrf, session_answer.method);
	END IF;
	IF session_answer.method = 'DELETE' THEN
		SELECT t.identity INTO mine FROM gpucredit_http.token t WHERE t.token = who.token;
		UPDATE gpucredit_http.session s SET ended_at = at
		FROM gpucredit_http.token t
		WHERE t.token = s.token AND s.ended_at IS NULL AND t.role = who.role
			AND (many OR s.session = who.session)
			/*
			 * Several people may sign in as the same role; each ends only the
			 * person's own sessions.
			 */
			AND (t.token = who.token OR t.identity = mine OR mine IS NULL);
		GET DIAGNOSTICS ended = ROW_COUNT;
		PERFORM gpucredit_internal.notify_number('gpucredit_token', who.session);
		session_answer.cookie := '';
		session_answer.content := json_build_object('ended', ended);
		PERFORM gpucredit_http.record('', 'sign_out', who.role,
			jsonb_build_object('session', who.session, 'ended', ended));
	ELSIF session_answer.method IN ('GET', 'POST') THEN
		session_answer.content := json_build_object('role', who.role, 'scope', who.scope,
			'session', who.session, 'token', who.token, 'expires_at', who.expires_at,
			'csrf', gpucredit_http.csrf_of(coalesce(session_answer.cookie, session_answer.secret)));
	ELSE
		session_answer.status := 405;
		session_answer.allow := 'GET, POST, DELETE';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_http.session_answer(text, text, text, text, jsonb) IS
'Gateway: begins a session with a token (POST), shows it (GET), ends it, or with everywhere=true all of its role, of a person whom an identity provider has let in all of his (DELETE). csrf is NULL for a request with a token, and for one with a cookie the header X-CSRF-Token or an empty text.
Result: as answer(), and the cookie''s new value, empty to remove it, with its length in seconds. Errors: as begin() and begin_session(); 22023 the token has begun 1,000 sessions within a day.';

CREATE FUNCTION gpucredit_http.sessions(role name DEFAULT NULL)
RETURNS TABLE (session bigint, role name, token bigint, label text, created_at timestamptz,
	used_at timestamptz, expires_at timestamptz, here boolean)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 10
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT s.session, t.role, s.token, s.label, s.created_at, s.used_at,
		least(s.expires_at, t.expires_at),
		s.session::text = coalesce(current_setting('gpucredit_http.session', true), '')
	FROM gpucredit_http.session s JOIN gpucredit_http.token t ON t.token = s.token
	WHERE (sessions.role IS NULL OR t.role = sessions.role)
		AND s.ended_at IS NULL AND s.expires_at > gpucredit.now()
		AND s.used_at > gpucredit.now() - (gpucredit_http.session_limits()).idle
		AND t.revoked_at IS NULL AND t.expires_at > gpucredit.now()
		AND gpucredit_http.identity_holds(t.identity)
		AND (t.role = gpucredit_http.caller()
			OR gpucredit_http.is_admin(gpucredit_http.caller())
			OR pg_has_role(gpucredit_http.caller(), 'gpucredit_auditor', 'USAGE'))
	ORDER BY s.session DESC;
END;
COMMENT ON FUNCTION gpucredit_http.sessions(name) IS
'Tokens: the browsers that are signed in as a role, or as any. Members of gpucredit_admin and gpucredit_auditor read all; anybody else reads his own role''s.
Result: a row each, the newest first; here: the session that this request belongs to.';

CREATE FUNCTION gpucredit_http.end_session(session bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	caller name := gpucredit_http.caller();
	ended timestamptz;
BEGIN
	SELECT s.ended_at INTO ended
	FROM gpucredit_http.session s JOIN gpucredit_http.token t ON t.token = s.token
	WHERE s.session = end_session.session
		AND (t.role = caller OR gpucredit_http.is_admin(caller))
	FOR NO KEY UPDATE OF s;
	IF NOT FOUND THEN
		PERFORM gpucredit_http.raise('UC701', 'the session does not exist',
			'No session has that number, or it is another role''s.',
			'gpucredit_http.sessions() lists those that you may end.');
	ELSIF ended IS NOT NULL THEN
		RETURN false;
	END IF;
	UPDATE gpucredit_http.session s SET ended_at = gpucredit.now()
	WHERE s.session = end_session.session;
	PERFORM gpucredit_internal.notify_number('gpucredit_token', end_session.session);
	PERFORM gpucredit_http.record('', 'end_session', caller,
		jsonb_build_object('session', end_session.session));
	RETURN true;
END
$$;
COMMENT ON FUNCTION gpucredit_http.end_session(bigint) IS
'Tokens: signs a browser out. A role ends its own sessions; members of gpucredit_admin end all.
Result: true, or false if it was ended before. Errors: UC701 no such session, or another role''s.';
