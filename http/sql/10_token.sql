/*
 * 10_token.sql: tokens, with which a client of the HTTP interface proves which
 * database role it acts as.
 *
 * A token belongs to a role, like a password. It grants no more than the
 * role's rights, and its scope can restrict them. Only the token's digest is
 * stored; a secret of 244 random bits needs no salt.
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
	identity bigint,
	CONSTRAINT token_pkey PRIMARY KEY (token),
	CONSTRAINT token_scope CHECK (scope IN ('read', 'label', 'submit', 'spend', 'admin')),
	CONSTRAINT token_revoked CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
);
CREATE INDEX token_role ON gpucredit_http.token (role);
CREATE INDEX token_identity ON gpucredit_http.token (identity) WHERE identity IS NOT NULL;
COMMENT ON TABLE gpucredit_http.token IS
'Tokens of the HTTP interface: the digest of each, the role that it belongs to, and how long it is good';
COMMENT ON COLUMN gpucredit_http.token.token IS 'The number by which the token is listed and revoked. It is no secret.';
COMMENT ON COLUMN gpucredit_http.token.sha256 IS 'The digest of the secret.';
COMMENT ON COLUMN gpucredit_http.token.role IS 'The database role whose rights a request with this token has.';
COMMENT ON COLUMN gpucredit_http.token.scope IS 'The most that the token can do: read; label, which adds what people think of answers; submit, which adds jobs and their end; spend, which adds holds; admin, everything that the role may do.';
COMMENT ON COLUMN gpucredit_http.token.label IS 'What its owner calls it.';
COMMENT ON COLUMN gpucredit_http.token.created_at IS 'When it was issued.';
COMMENT ON COLUMN gpucredit_http.token.created_by IS 'The role that issued it.';
COMMENT ON COLUMN gpucredit_http.token.expires_at IS 'From when on it is good no more.';
COMMENT ON COLUMN gpucredit_http.token.used_at IS 'When it was last used, at most a minute late; NULL if it never was.';
COMMENT ON COLUMN gpucredit_http.token.revoked_at IS 'When it was revoked; NULL if it was not.';
COMMENT ON COLUMN gpucredit_http.token.revoked_by IS 'The role that revoked it.';
COMMENT ON COLUMN gpucredit_http.token.identity IS 'Whose it is, if an identity provider vouches for him (12_identity.sql): the token is good as long as his rule. NULL: it was issued without one.';

/*
 * Returns the calling role: the login, or the role of SET ROLE. The functions
 * below run with their owner's rights, so current_user is the owner.
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
 * PostgreSQL's own roles that only allow reading what the server does, and
 * pg_database_owner, whose only member is the owner of the database.
 */
CREATE FUNCTION gpucredit_http.harmless_roles() RETURNS name[]
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT '{pg_monitor,pg_read_all_settings,pg_read_all_stats,pg_stat_scan_tables,pg_database_owner}'::name[];
END;
COMMENT ON FUNCTION gpucredit_http.harmless_roles() IS
'Internal: those of PostgreSQL''s own roles that a role which requests act as may be a member of.';

/*
 * Whether requests may act as a role. No network client gets the rights of a
 * superuser or of a role that bypasses row-level security. PostgreSQL's own
 * roles (pg_...) give access to the server and its files, and a member of one
 * can act as it. The gateway's own role is excluded, because it may check
 * tokens, which callers must not.
 */
CREATE FUNCTION gpucredit_http.may_serve(role name) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT EXISTS (
		SELECT FROM pg_roles r
		WHERE r.rolname = may_serve.role
			AND NOT (r.rolsuper OR r.rolbypassrls OR r.rolcreaterole OR r.rolcreatedb
				OR r.rolreplication OR starts_with(r.rolname::text, 'pg_'))
			AND r.rolname <> 'gpucredit_gateway'
			AND NOT EXISTS (SELECT FROM pg_roles p
				WHERE starts_with(p.rolname::text, 'pg_') AND p.rolname <> ALL (gpucredit_http.harmless_roles())
					AND pg_has_role(r.oid, p.oid, 'MEMBER')));
END;
COMMENT ON FUNCTION gpucredit_http.may_serve(name) IS
'Internal: whether requests may act as a role: it exists, it is not gpucredit_gateway, it is none of SUPERUSER, BYPASSRLS, CREATEROLE, CREATEDB and REPLICATION, and it is neither one of PostgreSQL''s own roles nor a member of one that does more than monitor.';

CREATE FUNCTION gpucredit_http.issue_token(role name DEFAULT NULL,
	scope text DEFAULT 'read', ttl interval DEFAULT '90 days', label text DEFAULT '',
	OUT token bigint, OUT secret text, OUT expires_at timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	caller name := gpucredit_http.caller();
	owner name := coalesce(issue_token.role, caller);
	mine bigint;			/* the identity that issues a token for itself */
	bits text := replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '');
BEGIN
	IF owner <> caller AND NOT gpucredit_http.is_admin(caller) THEN
		RAISE EXCEPTION 'role "%" may issue tokens for itself alone', caller
			USING ERRCODE = 'insufficient_privilege',
			DETAIL = 'The token was asked for another role.',
			HINT = 'Leave the role out, or have a member of gpucredit_admin issue the token.';
	END IF;
	IF issue_token.scope IS NULL OR issue_token.scope NOT IN ('read', 'label', 'submit', 'spend', 'admin') THEN
		PERFORM gpucredit_http.refuse('a token''s scope is read, label, submit, spend or admin',
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
			format('"%s" does not exist, or has SUPERUSER, BYPASSRLS, CREATEROLE, CREATEDB or REPLICATION, or is one of PostgreSQL''s own roles or a member of one that does more than monitor, or is the gateway''s own login.',
				left(owner, 64)),
			'Issue the token for a role that has none of these.');
	END IF;
	IF NOT pg_has_role('gpucredit_gateway', owner, 'MEMBER') THEN
		EXECUTE format('GRANT %I TO gpucredit_gateway', owner);
	END IF;
	issue_token.secret := 'gpc_' || bits;
	issue_token.expires_at := gpucredit.now() + issue_token.ttl;
	IF owner = caller THEN
		SELECT t.identity INTO mine FROM gpucredit_http.token t
		WHERE t.token = nullif(current_setting('gpucredit_http.token', true), '')::bigint;
	END IF;
	/*
	 * A token must not outlive its owner's access: when a person leaves, the
	 * identity provider refuses the person, but a token is not checked there.
	 */
	IF mine IS NOT NULL THEN
		issue_token.expires_at := least(issue_token.expires_at, gpucredit_http.identity_until(mine,
				current_setting('gpucredit_http.token')::bigint));
	END IF;
	INSERT INTO gpucredit_http.token AS t
		(sha256, role, scope, label, created_at, created_by, expires_at, identity)
	VALUES (sha256(convert_to(issue_token.secret, 'UTF8')), owner, issue_token.scope,
		issue_token.label, gpucredit.now(), caller, issue_token.expires_at, mine)
	RETURNING t.token INTO issue_token.token;
	PERFORM gpucredit_http.record('', 'issue_token', caller, jsonb_build_object(
			'token', issue_token.token, 'role', owner, 'scope', issue_token.scope,
			'expires_at', issue_token.expires_at));
END
$$;
COMMENT ON FUNCTION gpucredit_http.issue_token(name, text, interval, text) IS
'Tokens: makes a token with which HTTP requests act as a role: the caller''s own if none is named. Only members of gpucredit_admin name another. The scope is the most that it can do: read; label (what people think of a model''s answers, too); submit (jobs, and their end); spend (holds, too); admin (all that the role may). It is good for ttl; one that somebody issues whom an identity provider has signed in, for himself, ends with his rule, and after 30 days, or with the token that issues it. The secret is shown this once; the database keeps its digest. Each call makes another token; a role has at most 1,000 that are good or were made within a day.
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
 * Checks a secret. The time of its last use is written at most once a minute,
 * and not by two concurrent requests, so that the requests of one token do not
 * wait for its row.
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
	IF NOT FOUND OR NOT gpucredit_http.may_serve(one.role)
		OR NOT gpucredit_http.identity_holds(one.identity)
	THEN
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
 * From here on, the transaction has the rights of a role. With scope "read" it
 * cannot change anything.
 */
CREATE FUNCTION gpucredit_http.act_as(token bigint, session text, role name, scope text,
	traceparent text) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
	PERFORM pg_catalog.set_config('gpucredit_http.token', act_as.token::pg_catalog.text, true),
		pg_catalog.set_config('gpucredit_http.session', act_as.session, true),
		pg_catalog.set_config('gpucredit_http.scope', act_as.scope, true),
		pg_catalog.set_config('gpucredit.traceparent',
			coalesce(act_as.traceparent, ''), true);
	IF act_as.scope OPERATOR(pg_catalog.=) 'read' THEN
		PERFORM pg_catalog.set_config('transaction_read_only', 'on', true);
	END IF;
	PERFORM pg_catalog.set_config('role', act_as.role, true);
END
$$;
COMMENT ON FUNCTION gpucredit_http.act_as(bigint, text, name, text, text) IS
'Gateway: makes the rest of the transaction act as a role, within a scope, for a request with this token and perhaps session, under a W3C traceparent.';

/*
 * The first statement of a request's transaction. A request with a browser's
 * cookie passes "csrf", which is empty if it has no header X-CSRF-Token
 * (15_session.sql).
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
	PERFORM gpucredit_http.act_as(who.token, session, who.role, who.scope, enter.traceparent);
	RETURN who.role;
END
$$;
COMMENT ON FUNCTION gpucredit_http.enter(text, text, text, text) IS
'Gateway: makes the rest of the transaction act as the token''s role, within its scope, under the request''s W3C traceparent (empty for none). csrf: NULL where the secret is a token, else it is a session''s, and this the request''s X-CSRF-Token. method: the request''s. Result: the role. Errors: 28000 the token or the session is not good; 42501 the request does not come from the console; 22023 the traceparent.';
