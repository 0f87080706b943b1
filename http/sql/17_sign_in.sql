/*
 * 17_sign_in.sql: who may sign in with the token of an identity provider, and
 * as which role.
 *
 * The daemon verifies that the provider signed the token, by the keys that the
 * provider publishes. Everything else is decided here: whether the token is
 * meant for this server, how long it is valid, and which rule matches its
 * owner.
 */
/*
 * Whether a claim has a value. The claim is searched by its whole name first,
 * because names may contain dots. An e-mail address counts only if the
 * provider states, by a boolean true, that it has verified the address.
 */
CREATE FUNCTION gpucredit_http.claim_fits(claims jsonb, claim text, value text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	found_one jsonb := coalesce(claims -> claim, claims #> string_to_array(claim, '.'));
	email text;
BEGIN
	IF claim = 'email' THEN
		email := claims ->> 'email';
		RETURN jsonb_typeof(claims -> 'email') = 'string'
			AND coalesce(claims -> 'email_verified' = 'true', false)
			AND email ~ '^[^@[:space:][:cntrl:]]+@[^@[:space:][:cntrl:]]+$'
			AND (email = value OR '@' || lower(split_part(email, '@', 2)) = lower(value));
	END IF;
	RETURN CASE jsonb_typeof(found_one)
		WHEN 'string' THEN found_one #>> '{}' = value
		WHEN 'array' THEN found_one ? value
		ELSE false END;
END
$$;
COMMENT ON FUNCTION gpucredit_http.claim_fits(jsonb, text, text) IS
'Internal: whether what a provider says of somebody has a claim of that value.';

/*
 * Checks that a provider's token is meant for this server and valid now. The
 * daemon has verified its signature. Clocks may differ by a minute.
 */
CREATE FUNCTION gpucredit_http.check_claims(issuer text, claims jsonb, audiences text[], nonce text)
RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	at numeric := extract(epoch FROM gpucredit.now());
	audience jsonb := CASE jsonb_typeof(claims -> 'aud') WHEN 'array' THEN claims -> 'aud'
		ELSE jsonb_build_array(claims -> 'aud') END;
	problem text;
BEGIN
	problem := CASE
		WHEN claims ->> 'iss' IS DISTINCT FROM check_claims.issuer THEN 'Another provider issued it.'
		WHEN NOT audience ?| audiences THEN 'It is for somebody else: "aud" does not name this service.'
		WHEN check_claims.nonce IS NOT NULL AND coalesce(claims ->> 'azp', audiences[1]) <> audiences[1]
			THEN 'It was given to another client: "azp" does not name this one.'
		WHEN check_claims.nonce IS NOT NULL AND jsonb_array_length(audience) > 1
			AND NOT claims ? 'azp' THEN 'It is for several, and "azp" does not name this one.'
		WHEN check_claims.nonce IS DISTINCT FROM claims ->> 'nonce' AND check_claims.nonce IS NOT NULL
			THEN 'It belongs to another attempt to sign in: its "nonce" differs.'
		WHEN jsonb_typeof(claims -> 'exp') IS DISTINCT FROM 'number' THEN 'It has no end: "exp" is missing.'
		WHEN (claims ->> 'exp')::numeric <= at - 60 THEN 'It has expired.'
		WHEN coalesce(jsonb_typeof(claims -> 'nbf'), 'number') <> 'number'
			OR coalesce(jsonb_typeof(claims -> 'iat'), 'number') <> 'number'
			THEN 'Its times are no numbers.'
		WHEN greatest((claims ->> 'nbf')::numeric, (claims ->> 'iat')::numeric) > at + 60
			THEN 'It begins in the future. Compare the clocks.'
		WHEN jsonb_typeof(claims -> 'sub') IS DISTINCT FROM 'string'
			OR octet_length(claims ->> 'sub') NOT BETWEEN 1 AND 255 THEN 'It does not say whose it is.'
		WHEN claims ? 'events' THEN 'It is a message about signing out.'
		END;
	IF problem IS NOT NULL THEN
		RAISE EXCEPTION 'the provider''s token is not good'
			USING ERRCODE = 'invalid_authorization_specification', DETAIL = problem,
			HINT = 'Get another one from the provider, for this service.';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_http.check_claims(text, jsonb, text[], text) IS
'Internal: raises 28000 unless a provider''s token is of that issuer, for one of these audiences, good now, and, for one that somebody signs in with, of this client and nonce.';

/*
 * Returns the name of the role for a person whose rule names none. It is
 * derived from the person, the organisation and the account.
 */
CREATE FUNCTION gpucredit_http.own_role(issuer text, subject text, org text, account text)
RETURNS name
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT ('sso_' || left(encode(sha256(convert_to(jsonb_build_array(current_database(),
		own_role.issuer, own_role.subject, own_role.org, own_role.account)::text, 'UTF8')), 'hex'), 40))::name;
END;
COMMENT ON FUNCTION gpucredit_http.own_role(text, text, text, text) IS
'Internal: the name of the role that is made for one subject of a provider and one account.';

CREATE FUNCTION gpucredit_http.make_own_role(role name, org text, account text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	BEGIN
		EXECUTE format('CREATE ROLE %I NOLOGIN IN ROLE gpucredit_tenant', make_own_role.role);
	EXCEPTION WHEN duplicate_object OR unique_violation THEN
		NULL;		/* an earlier rule for the same account created it */
	END;
	EXECUTE format('GRANT %I TO gpucredit_gateway', make_own_role.role);
	/*
	 * bind_tenant() cannot be used, because gpucredit treats the gateway,
	 * which calls, as a tenant.
	 */
	INSERT INTO gpucredit.tenant (org, account, role)
	VALUES (make_own_role.org, make_own_role.account, make_own_role.role)
	ON CONFLICT DO NOTHING;
	PERFORM gpucredit_internal.audit_binding(make_own_role.org, make_own_role.account,
		'bind_tenant', 'bound', make_own_role.role);
END
$$;
COMMENT ON FUNCTION gpucredit_http.make_own_role(name, text, text) IS
'Internal: makes a tenant''s role that cannot log in, and binds it to an account.';

/* Creates the token row of an identity. Its secret is random and not kept. */
CREATE FUNCTION gpucredit_http.identity_token(one gpucredit_http.identity, scope text) RETURNS bigint
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	INSERT INTO gpucredit_http.token AS t
		(sha256, role, scope, label, created_at, created_by, expires_at, identity)
	VALUES (sha256(convert_to(gen_random_uuid()::text || gen_random_uuid()::text, 'UTF8')),
		(one).role, identity_token.scope, left('signed in: ' || (one).label, 120), gpucredit.now(),
		'gpucredit_gateway', gpucredit.now() + (gpucredit_http.session_limits()).absolute,
		(one).identity)
	RETURNING t.token;
END;
COMMENT ON FUNCTION gpucredit_http.identity_token(gpucredit_http.identity, text) IS
'Internal: makes the token row that the sessions of an identity belong to.';

/*
 * Finds the identity for a person's claims, by the first rule that matches.
 * The row of identity is inserted first, so that of two concurrent first
 * requests only one creates the role.
 */
CREATE FUNCTION gpucredit_http.find_identity(issuer text, claims jsonb,
	OUT identity bigint, OUT token bigint, OUT role name, OUT scope text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	at timestamptz := gpucredit.now();
	rule gpucredit_http.identity_rule;
	one gpucredit_http.identity;
	named text := left(regexp_replace(coalesce(claims ->> 'email', claims ->> 'preferred_username',
		claims ->> 'name', claims ->> 'sub'), '[[:cntrl:]]', ' ', 'g'), 100);
BEGIN
	SELECT r.* INTO rule FROM gpucredit_http.identity_rule r
	WHERE r.issuer = find_identity.issuer AND r.removed_at IS NULL
		AND gpucredit_http.claim_fits(find_identity.claims, r.claim, r.value)
	ORDER BY r.rule LIMIT 1;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'no rule fits you'
			USING ERRCODE = 'insufficient_privilege',
			DETAIL = format('The provider calls you "%s".', left(claims ->> 'sub', 64)),
			HINT = 'Have an administrator call gpucredit_http.set_identity_rule().';
	END IF;
	SELECT i.* INTO one FROM gpucredit_http.identity i
	WHERE i.rule = rule.rule AND i.subject = claims ->> 'sub';
	IF NOT FOUND THEN
		INSERT INTO gpucredit_http.identity AS i (rule, subject, label, role, created_at, used_at)
		VALUES (rule.rule, claims ->> 'sub', named, coalesce(rule.role, gpucredit_http.own_role(
				rule.issuer, claims ->> 'sub', rule.org, rule.account)), at, at)
		ON CONFLICT ON CONSTRAINT identity_subject DO NOTHING RETURNING i.* INTO one;
		IF FOUND THEN
			IF rule.role IS NULL THEN
				PERFORM gpucredit_http.make_own_role(one.role, rule.org, rule.account);
			END IF;
			UPDATE gpucredit_http.identity i SET token = gpucredit_http.identity_token(one, rule.scope)
			WHERE i.identity = one.identity RETURNING i.* INTO one;
			PERFORM gpucredit_http.record(rule.org, 'identity', one.role, jsonb_build_object(
					'identity', one.identity, 'rule', rule.rule, 'issuer', rule.issuer,
					'subject', one.subject, 'label', one.label));
		ELSE
			SELECT i.* INTO one FROM gpucredit_http.identity i
			WHERE i.rule = rule.rule AND i.subject = claims ->> 'sub';
		END IF;
	END IF;
	IF one.token IS NULL OR NOT gpucredit_http.may_serve(one.role) THEN
		RAISE EXCEPTION 'no request may act as your role'
			USING ERRCODE = 'invalid_authorization_specification',
			DETAIL = format('The role "%s" is gone, or has rights over the whole server.', one.role),
			HINT = 'Ask an administrator.';
	END IF;
	IF one.used_at < at - interval '1 minute' THEN
		PERFORM FROM gpucredit_http.identity i WHERE i.identity = one.identity
		FOR NO KEY UPDATE SKIP LOCKED;
		IF FOUND THEN
			UPDATE gpucredit_http.identity i SET used_at = at, label = named
			WHERE i.identity = one.identity;
		END IF;
	END IF;
	identity := one.identity;
	token := one.token;
	role := one.role;
	scope := rule.scope;
END
$$;
COMMENT ON FUNCTION gpucredit_http.find_identity(text, jsonb) IS
'Internal: the identity, the token row, the role and the scope of whom verified claims are about; makes them the first time. Errors: 42501 no rule fits; 28000 no request may act as the role.';

/*
 * Begins a request with a provider's token, whose signature the daemon has
 * verified.
 */
CREATE FUNCTION gpucredit_http.begin_identity(provider bigint, claims jsonb,
	OUT token bigint, OUT role name, OUT scope text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	p gpucredit_http.identity_provider;
BEGIN
	SELECT o.* INTO p FROM gpucredit_http.identity_provider o WHERE o.provider = begin_identity.provider;
	PERFORM gpucredit_http.check_claims(p.issuer, begin_identity.claims, p.audiences, NULL);
	SELECT f.token, f.role, f.scope INTO begin_identity.token, begin_identity.role, begin_identity.scope
	FROM gpucredit_http.find_identity(p.issuer, begin_identity.claims) f;
END
$$;
COMMENT ON FUNCTION gpucredit_http.begin_identity(bigint, jsonb) IS
'Gateway: which role a request acts as, by the claims of a provider''s token whose signature is checked. Errors: 28000 the token is not good; 42501 no rule fits its owner.';

CREATE FUNCTION gpucredit_http.enter_identity(provider text, claims text, traceparent text DEFAULT '')
RETURNS name
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
	who record;
BEGIN
	SELECT * INTO STRICT who FROM gpucredit_http.begin_identity(
		enter_identity.provider::pg_catalog.int8, enter_identity.claims::pg_catalog.jsonb);
	PERFORM gpucredit_http.act_as(who.token, '', who.role, who.scope, enter_identity.traceparent);
	RETURN who.role;
END
$$;
COMMENT ON FUNCTION gpucredit_http.enter_identity(text, text, text) IS
'Gateway: as enter(), for a request with a provider''s token: its provider and its claims, whose signature is checked.';

/*
 * Begins the session of a person who has returned from a provider. The cookie
 * lasts as long as that of any session.
 */
CREATE FUNCTION gpucredit_http.sign_in(provider bigint, claims jsonb, nonce text, label text,
	OUT cookie text, OUT max_age integer)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	p gpucredit_http.identity_provider;
	who record;
	at timestamptz := gpucredit.now();
	until timestamptz := at + (gpucredit_http.session_limits()).absolute;
BEGIN
	SELECT o.* INTO p FROM gpucredit_http.identity_provider o
	WHERE o.provider = sign_in.provider AND o.client_id <> '';
	IF NOT FOUND OR coalesce(sign_in.nonce, '') = '' THEN
		RAISE EXCEPTION 'nobody signs in by this provider'
			USING ERRCODE = 'invalid_authorization_specification',
			DETAIL = 'It was removed, or has no client for the console.',
			HINT = 'Choose another way to sign in.';
	END IF;
	PERFORM gpucredit_http.check_claims(p.issuer, sign_in.claims, ARRAY[p.client_id], sign_in.nonce);
	SELECT f.* INTO STRICT who FROM gpucredit_http.find_identity(p.issuer, sign_in.claims) f;
	UPDATE gpucredit_http.token t SET expires_at = greatest(t.expires_at, until)
	WHERE t.token = who.token AND t.revoked_at IS NULL;
	IF NOT FOUND THEN		/* the token row was revoked, which ended the
							 * sessions up to then */
		UPDATE gpucredit_http.identity i SET token = gpucredit_http.identity_token(i, who.scope)
		WHERE i.identity = who.identity RETURNING i.token INTO who.token;
	END IF;
	SELECT n.cookie, n.max_age INTO sign_in.cookie, sign_in.max_age
	FROM gpucredit_http.new_session(who.token, who.role, sign_in.label) n;
END
$$;
COMMENT ON FUNCTION gpucredit_http.sign_in(bigint, jsonb, text, text) IS
'Gateway: begins a session for somebody whom a provider has signed in, by the claims of his ID token, whose signature is checked, and the nonce that it must have. Result: the cookie, and its length in seconds. Errors: 28000 the token is not good; 42501 no rule fits; 22023 too many sessions.';

CREATE FUNCTION gpucredit_http.providers_of_gateway()
RETURNS TABLE (provider bigint, issuer text, name text, client_id text, client_secret text,
	scopes text, is_bearer boolean)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 4
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT p.provider, p.issuer, p.name, p.client_id, p.client_secret, p.scopes,
		cardinality(p.audiences) > 0
	FROM gpucredit_http.identity_provider p ORDER BY p.provider
$$;
COMMENT ON FUNCTION gpucredit_http.providers_of_gateway() IS
'Gateway: the identity providers, with the secrets by which the console is their client.';

