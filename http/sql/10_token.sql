/*
 * 10_token.sql: tokens, with which a client of the HTTP interface proves which
 * database role it acts as.
 *
 * A token belongs to a role, as a password does.  It can do no more than that
 * role, and its scope can make it less.  Only the token's digest is stored: 244
 * random bits need no salt.
 */
CREATE TABLE gpucredit_http.token (
	token bigint GENERATED ALWAYS AS IDENTITY,
	sha256 bytea NOT NULL CONSTRAINT token_sha256 UNIQUE,
	role name NOT NULL,
	scope text NOT NULL,
	label text NOT NULL,
	created_at timestamptz NOT NULL,
	created_by name NOT NULL,
	expires_at timestamptz NOT NULL,
	used_at timestamptz,
	revoked_at timestamptz,
	revoked_by name,
	CONSTRAINT token_pkey PRIMARY KEY (token),
	CONSTRAINT token_scope CHECK (scope IN ('read', 'submit', 'spend', 'admin')),
	CONSTRAINT token_revoked CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
);
CREATE INDEX token_role ON gpucredit_http.token (role);
COMMENT ON TABLE gpucredit_http.token IS
'Tokens of the HTTP interface: the digest of each, the role that it belongs to, and how long it is good';
COMMENT ON COLUMN gpucredit_http.token.token IS 'The number by which the token is listed and revoked. It is no secret.';
COMMENT ON COLUMN gpucredit_http.token.sha256 IS 'The digest of the secret.';
COMMENT ON COLUMN gpucredit_http.token.role IS 'The database role whose rights a request with this token has.';
COMMENT ON COLUMN gpucredit_http.token.scope IS 'The most that the token can do: read; submit, which adds jobs and their end; spend, which adds holds; admin, everything that the role may do.';
COMMENT ON COLUMN gpucredit_http.token.label IS 'What its owner calls it.';
COMMENT ON COLUMN gpucredit_http.token.created_at IS 'When it was issued.';
COMMENT ON COLUMN gpucredit_http.token.created_by IS 'The role that issued it.';
COMMENT ON COLUMN gpucredit_http.token.expires_at IS 'From when on it is good no more.';
COMMENT ON COLUMN gpucredit_http.token.used_at IS 'When it was last used, at most a minute late; NULL if it never was.';
COMMENT ON COLUMN gpucredit_http.token.revoked_at IS 'When it was revoked; NULL if it was not.';
COMMENT ON COLUMN gpucredit_http.token.revoked_by IS 'The role that revoked it.';

/*
 * The role that calls: the login, or the role that it took by SET ROLE.  The
 * functions below run with their owner's rights, so current_user is the owner.
 */
CREATE FUNCTION gpucredit_http.caller() RETURNS name
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT CASE current_setting('role') WHEN 'none' THEN session_user
		ELSE current_setting('role')::name END;
END;
COMMENT ON FUNCTION gpucredit_http.caller() IS
'Internal: the role that the session acts as, also inside functions that run with their owner''s rights.';

CREATE FUNCTION gpucredit_http.is_admin(role name) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT r.rolsuper OR pg_has_role(r.oid, 'gpucredit_admin', 'USAGE')
	FROM pg_roles r WHERE r.rolname = is_admin.role;
END;
COMMENT ON FUNCTION gpucredit_http.is_admin(name) IS
'Internal: whether a role is a superuser or a member of gpucredit_admin.';

/*
 * May requests act as this role?  No network client gets the rights of a
 * superuser or of a role that row-level security does not bind.  The gateway's
 * own role is no caller: it may check tokens, which callers must not.
 */
CREATE FUNCTION gpucredit_http.may_serve(role name) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT EXISTS (
		SELECT FROM pg_roles r
		WHERE r.rolname = may_serve.role
			AND NOT (r.rolsuper OR r.rolbypassrls OR r.rolcreaterole OR r.rolcreatedb
				OR r.rolreplication)
			AND r.rolname <> 'gpucredit_gateway');
END;
COMMENT ON FUNCTION gpucredit_http.may_serve(name) IS
'Internal: whether requests may act as a role: it exists, it is not gpucredit_gateway, and it is none of SUPERUSER, BYPASSRLS, CREATEROLE, CREATEDB and REPLICATION.';

CREATE FUNCTION gpucredit_http.issue_token(role name DEFAULT NULL,
	scope text DEFAULT 'read', ttl interval DEFAULT '90 days', label text DEFAULT '',
	OUT token bigint, OUT secret text, OUT expires_at timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	caller name := gpucredit_http.caller();
	owner name := coalesce(issue_token.role, caller);
	bits text := replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '');
BEGIN
	IF owner <> caller AND NOT gpucredit_http.is_admin(caller) THEN
		RAISE EXCEPTION 'role "%" may issue tokens for itself alone', caller
			USING ERRCODE = 'insufficient_privilege',
			DETAIL = 'The token was asked for another role.',
			HINT = 'Leave the role out, or have a member of gpucredit_admin issue the token.';
	END IF;
	IF issue_token.scope IS NULL OR issue_token.scope NOT IN ('read', 'submit', 'spend', 'admin') THEN
		PERFORM gpucredit_http.refuse('a token''s scope is read, submit, spend or admin',
			format('It is "%s".', left(issue_token.scope, 64)));
	ELSIF coalesce(issue_token.ttl, '0') NOT BETWEEN '1 s' AND '3660 days' THEN
		PERFORM gpucredit_http.refuse('a token''s ttl is 1 second to 10 years',
			format('It is %s.', issue_token.ttl));
	ELSIF issue_token.label IS NULL OR octet_length(issue_token.label) > 255
		OR issue_token.label ~ '[[:cntrl:]]'
	THEN
		PERFORM gpucredit_http.refuse('a token''s label has at most 255 bytes and no control characters',
			'It is shown in lists.');
	ELSIF (SELECT count(*) FROM gpucredit_http.token t
			WHERE t.role = owner AND (t.created_at > gpucredit.now() - interval '1 day'
				OR (t.revoked_at IS NULL AND t.expires_at > gpucredit.now()))) >= 1000
	THEN
		PERFORM gpucredit_http.refuse('the role has 1,000 tokens',
			'Tokens that are good are counted, and those that were made within a day.',
			'Revoke those that nobody uses, and keep a token for longer than one request.');
	ELSIF NOT gpucredit_http.may_serve(owner) THEN
		PERFORM gpucredit_http.refuse('no request may act as this role',
			format('"%s" does not exist, or has SUPERUSER, BYPASSRLS, CREATEROLE, CREATEDB or REPLICATION, or is the gateway''s own login.',
				left(owner, 64)),
			'Issue the token for a role that has none of these.');
	END IF;
	IF NOT pg_has_role('gpucredit_gateway', owner, 'MEMBER') THEN
		EXECUTE format('GRANT %I TO gpucredit_gateway', owner);
	END IF;
	issue_token.secret := 'gpc_' || bits;
	issue_token.expires_at := gpucredit.now() + issue_token.ttl;
	INSERT INTO gpucredit_http.token AS t
		(sha256, role, scope, label, created_at, created_by, expires_at)
	VALUES (sha256(convert_to(issue_token.secret, 'UTF8')), owner, issue_token.scope,
		issue_token.label, gpucredit.now(), caller, issue_token.expires_at)
	RETURNING t.token INTO issue_token.token;
	PERFORM gpucredit_http.record('', 'issue_token', caller, jsonb_build_object(
			'token', issue_token.token, 'role', owner, 'scope', issue_token.scope,
			'expires_at', issue_token.expires_at));
END
$$;
COMMENT ON FUNCTION gpucredit_http.issue_token(name, text, interval, text) IS
'Tokens: makes a token with which HTTP requests act as a role: the caller''s own if none is named. Only members of gpucredit_admin name another. The scope is the most that it can do: read; submit (jobs, and their end); spend (holds, too); admin (all that the role may). It is good for ttl. The secret is shown this once; the database keeps its digest. Each call makes another token; a role has at most 1,000 that are good or were made within a day.
Result: its number, by which it is listed and revoked, the secret, and when it ends. Errors: 42501 another role''s, by nobody of gpucredit_admin; 22023.';

CREATE FUNCTION gpucredit_http.tokens(role name DEFAULT NULL)
RETURNS TABLE (token bigint, role name, scope text, label text, created_at timestamptz,
	created_by name, expires_at timestamptz, used_at timestamptz, revoked_at timestamptz,
	revoked_by name)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 10
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT t.token, t.role, t.scope, t.label, t.created_at, t.created_by, t.expires_at,
		t.used_at, t.revoked_at, t.revoked_by
	FROM gpucredit_http.token t
	WHERE (tokens.role IS NULL OR t.role = tokens.role)
		AND (t.role = gpucredit_http.caller()
			OR gpucredit_http.is_admin(gpucredit_http.caller())
			OR pg_has_role(gpucredit_http.caller(), 'gpucredit_auditor', 'USAGE'))
	ORDER BY t.token;
END;
COMMENT ON FUNCTION gpucredit_http.tokens(name) IS
'Tokens: those of a role, or of all roles. Members of gpucredit_admin and gpucredit_auditor read all; anybody else reads his own role''s.
Result: a row each, also for those that have ended or were revoked, by number.';

CREATE FUNCTION gpucredit_http.revoke_token(token bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	caller name := gpucredit_http.caller();
	old gpucredit_http.token;
BEGIN
	SELECT t.* INTO old FROM gpucredit_http.token t
	WHERE t.token = revoke_token.token
		AND (t.role = caller OR gpucredit_http.is_admin(caller))
	FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		PERFORM gpucredit_http.raise('UC701', 'the token does not exist',
			'No token has that number, or it is another role''s.',
			'gpucredit_http.tokens() lists those that you may revoke.');
	ELSIF old.revoked_at IS NOT NULL THEN
		RETURN false;
	END IF;
	UPDATE gpucredit_http.token t SET revoked_at = gpucredit.now(), revoked_by = caller
	WHERE t.token = revoke_token.token;
	PERFORM gpucredit_internal.notify_number('gpucredit_token', old.token);
	PERFORM gpucredit_http.record('', 'revoke_token', caller,
		jsonb_build_object('token', revoke_token.token, 'role', old.role));
	RETURN true;
END
$$;
COMMENT ON FUNCTION gpucredit_http.revoke_token(bigint) IS
'Tokens: ends a token. Requests that begin after this has committed are refused. A role revokes its own; members of gpucredit_admin revoke all.
Result: true, or false if it was revoked before. Errors: UC701 no such token, or another role''s.';

/*
 * The time of the last use is written once a minute, and not by two at once:
 * the requests of one token do not queue for its row.
 */
CREATE FUNCTION gpucredit_http.begin(secret text, OUT token bigint, OUT role name,
	OUT scope text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	one gpucredit_http.token;
BEGIN
	SELECT t.* INTO one FROM gpucredit_http.token t
	WHERE t.sha256 = sha256(convert_to(secret, 'UTF8'))
		AND t.revoked_at IS NULL AND t.expires_at > gpucredit.now();
	IF NOT FOUND OR NOT gpucredit_http.may_serve(one.role) THEN
		RAISE EXCEPTION 'the token is not good'
			USING ERRCODE = 'invalid_authorization_specification',
			DETAIL = 'Nobody issued it, or it has ended or was revoked, or its role is gone.',
			HINT = 'Have gpucredit_http.issue_token() make another one.';
	END IF;
	IF one.used_at IS NULL OR one.used_at < gpucredit.now() - interval '1 minute' THEN
		PERFORM FROM gpucredit_http.token t WHERE t.token = one.token
		FOR NO KEY UPDATE SKIP LOCKED;
		IF FOUND THEN
			UPDATE gpucredit_http.token t SET used_at = gpucredit.now()
			WHERE t.token = one.token;
		END IF;
	END IF;
	token := one.token;
	role := one.role;
	scope := one.scope;
END
$$;
COMMENT ON FUNCTION gpucredit_http.begin(text) IS
'Gateway: which role a request acts as, by its token, and the token''s number and scope. Errors: 28000 the token is not good.';

/*
 * What a request does first, in its transaction: from here on the session has
 * the rights of the token's role, and with scope read it can change nothing.
 * A request with a browser's cookie passes csrf, which is empty where it has no
 * header X-CSRF-Token (15_session.sql).
 */
CREATE FUNCTION gpucredit_http.enter(secret text, traceparent text DEFAULT '',
	csrf text DEFAULT NULL, method text DEFAULT 'GET')
RETURNS name
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
	who record;
	session pg_catalog.text := '';
BEGIN
	IF enter.csrf IS NULL THEN
		SELECT * INTO STRICT who FROM gpucredit_http.begin(enter.secret);
	ELSE
		SELECT * INTO STRICT who
		FROM gpucredit_http.begin_session(enter.secret, enter.csrf, enter.method);
		session := who.session::pg_catalog.text;
	END IF;
	PERFORM pg_catalog.set_config('gpucredit_http.token', who.token::pg_catalog.text, true),
		pg_catalog.set_config('gpucredit_http.session', session, true),
		pg_catalog.set_config('gpucredit_http.scope', who.scope, true),
		pg_catalog.set_config('gpucredit.traceparent',
			coalesce(enter.traceparent, ''), true);
	IF who.scope OPERATOR(pg_catalog.=) 'read' THEN
		PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
	END IF;
	PERFORM pg_catalog.set_config('role', who.role, true);
	RETURN who.role;
END
$$;
COMMENT ON FUNCTION gpucredit_http.enter(text, text, text, text) IS
'Gateway: makes the rest of the transaction act as the token''s role, within its scope, under the request''s W3C traceparent (empty for none). csrf: NULL where the secret is a token, else it is a session''s, and this the request''s X-CSRF-Token. method: the request''s. Result: the role. Errors: 28000 the token or the session is not good; 42501 the request does not come from the console; 22023 the traceparent.';
