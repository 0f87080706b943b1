/*
 * 12_identity.sql: people and services that sign in with an identity provider
 * (OpenID Connect): the providers, and the rules that determine the database
 * role of a person.
 *
 * Each rule that matches a person gives the person an identity
 * (17_sign_in.sql). An identity has a row of table token, whose secret nobody
 * knows: the person's sessions belong to that row, and tokens that the person
 * issues end with it.
 *
 * An identity is valid as long as its rule exists. Each request checks that,
 * so the removal of a rule ends all sessions and tokens that depend on it.
 */
CREATE TABLE gpucredit_http.identity_provider (
	provider bigint GENERATED ALWAYS AS IDENTITY,
	issuer text COLLATE "C" NOT NULL,
	name text NOT NULL,
	client_id text NOT NULL,
	client_secret text,
	audiences text[] NOT NULL,
	scopes text NOT NULL,
	created_at timestamptz NOT NULL,
	CONSTRAINT identity_provider_pkey PRIMARY KEY (provider),
	CONSTRAINT identity_provider_issuer UNIQUE (issuer)
);
COMMENT ON TABLE gpucredit_http.identity_provider IS
'Identity providers: whose tokens are believed, and what each knows the console as. No role reads this table, because it has secrets';
COMMENT ON COLUMN gpucredit_http.identity_provider.issuer IS 'Its address, as its tokens have it in "iss".';
COMMENT ON COLUMN gpucredit_http.identity_provider.name IS 'What the page for signing in calls it.';
COMMENT ON COLUMN gpucredit_http.identity_provider.client_id IS 'What the provider knows the console as; empty: nobody signs in to the console by it.';
COMMENT ON COLUMN gpucredit_http.identity_provider.client_secret IS 'The secret of that client; NULL for a public client, which proves itself by PKCE alone.';
COMMENT ON COLUMN gpucredit_http.identity_provider.audiences IS 'Whom a token that a request carries must be for; empty: no request is believed by such a token.';
COMMENT ON COLUMN gpucredit_http.identity_provider.scopes IS 'What is asked of the provider when somebody signs in.';

CREATE TABLE gpucredit_http.identity_rule (
	rule bigint GENERATED ALWAYS AS IDENTITY,
	issuer text COLLATE "C" NOT NULL,
	claim text COLLATE "C" NOT NULL,
	value text COLLATE "C" NOT NULL,
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	role name,
	scope text NOT NULL,
	created_at timestamptz NOT NULL,
	created_by name NOT NULL,
	removed_at timestamptz,
	removed_by name,
	CONSTRAINT identity_rule_pkey PRIMARY KEY (rule),
	CONSTRAINT identity_rule_scope CHECK (scope IN ('read', 'label', 'submit', 'spend', 'admin')),
	CONSTRAINT identity_rule_target CHECK ((role IS NULL) = (org <> '')),
	CONSTRAINT identity_rule_removed CHECK ((removed_at IS NULL) = (removed_by IS NULL))
);
CREATE UNIQUE INDEX identity_rule_claim ON gpucredit_http.identity_rule (issuer, claim, value)
WHERE removed_at IS NULL;
COMMENT ON TABLE gpucredit_http.identity_rule IS
'Which database role somebody acts as, by what an identity provider says of him. Of the rules that fit, the one with the least number decides';
COMMENT ON COLUMN gpucredit_http.identity_rule.claim IS 'The claim that must be there: its name, or a path of names with dots.';
COMMENT ON COLUMN gpucredit_http.identity_rule.value IS 'The value that the claim is, or has among its elements; of email also a domain, as "@acme.com".';
COMMENT ON COLUMN gpucredit_http.identity_rule.org IS 'The organisation of the tenant''s role that is made; empty where role is set.';
COMMENT ON COLUMN gpucredit_http.identity_rule.account IS 'The account that the tenant''s role is bound to; empty: the organisation.';
COMMENT ON COLUMN gpucredit_http.identity_rule.role IS 'The role that all act as whom the rule fits; NULL: each gets a tenant''s role of his own.';
COMMENT ON COLUMN gpucredit_http.identity_rule.scope IS 'The most that he can do, of what the role may.';

CREATE TABLE gpucredit_http.identity (
	identity bigint GENERATED ALWAYS AS IDENTITY,
	rule bigint NOT NULL,
	subject text COLLATE "C" NOT NULL,
	label text NOT NULL,
	role name NOT NULL,
	token bigint,
	created_at timestamptz NOT NULL,
	used_at timestamptz NOT NULL,
	CONSTRAINT identity_pkey PRIMARY KEY (identity),
	CONSTRAINT identity_subject UNIQUE (rule, subject),
	CONSTRAINT identity_rule FOREIGN KEY (rule) REFERENCES gpucredit_http.identity_rule
);
COMMENT ON TABLE gpucredit_http.identity IS
'Whom a rule has fitted: the provider''s name for him, and the role that he acts as by that rule';
COMMENT ON COLUMN gpucredit_http.identity.subject IS 'What the provider calls him in "sub", which never changes.';
COMMENT ON COLUMN gpucredit_http.identity.label IS 'His address or name, as the provider last gave it. It is shown, and decides nothing.';
COMMENT ON COLUMN gpucredit_http.identity.token IS 'The row of token that his sessions belong to.';
COMMENT ON COLUMN gpucredit_http.identity.used_at IS 'When he last signed in or sent a token of the provider, at most a minute late.';

CREATE INDEX identity_role ON gpucredit_http.identity (role);

CREATE FUNCTION gpucredit_http.identity_holds(identity bigint) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT identity_holds.identity IS NULL OR EXISTS (
		SELECT FROM gpucredit_http.identity i
			JOIN gpucredit_http.identity_rule r ON r.rule = i.rule
		WHERE i.identity = identity_holds.identity AND r.removed_at IS NULL);
END;
COMMENT ON FUNCTION gpucredit_http.identity_holds(bigint) IS
'Internal: whether the rule of an identity is still there; true for none.';

/*
 * Whether a role that was created for rules may still read events, which it
 * may while one of these rules exists.
 */
CREATE FUNCTION gpucredit_http.role_holds(role name) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT coalesce(bool_or(r.removed_at IS NULL), true)
	FROM gpucredit_http.identity i JOIN gpucredit_http.identity_rule r ON r.rule = i.rule
	WHERE i.role = role_holds.role AND r.role IS NULL;
END;
COMMENT ON FUNCTION gpucredit_http.role_holds(name) IS
'Internal: whether one of the rules that have made a role is still there; true for a role that none has made.';

/*
 * Sessions, and requests with the provider's own token, act by the identity's
 * row of token, and may issue tokens for 30 days. A token that was issued in
 * this way may only issue tokens that end no later than itself; otherwise a
 * chain of tokens could continue forever.
 */
CREATE FUNCTION gpucredit_http.identity_until(identity bigint, token bigint) RETURNS timestamptz
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT CASE WHEN i.token = t.token THEN gpucredit.now() + interval '30 days' ELSE t.expires_at END
	FROM gpucredit_http.identity i, gpucredit_http.token t
	WHERE i.identity = identity_until.identity AND t.token = identity_until.token;
END;
COMMENT ON FUNCTION gpucredit_http.identity_until(bigint, bigint) IS
'Internal: until when a token may be good that an identity issues for itself in a request with this token.';

/*
 * Refuses claims that most providers let people set themselves, because rights
 * must not depend on them.
 */
CREATE FUNCTION gpucredit_http.check_claim(claim text, value text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF coalesce(octet_length(check_claim.claim), 0) NOT BETWEEN 1 AND 255
		OR coalesce(octet_length(check_claim.value), 0) NOT BETWEEN 1 AND 255
		OR check_claim.claim || check_claim.value ~ '[[:cntrl:]]'
	THEN
		PERFORM gpucredit_http.refuse('a rule''s claim and value have 1 to 255 bytes and no control characters',
			format('They are "%s" and "%s".', left(check_claim.claim, 64), left(check_claim.value, 64)));
	ELSIF split_part(check_claim.claim, '.', 1) IN ('name', 'given_name', 'family_name', 'middle_name',
		'nickname', 'preferred_username', 'profile', 'picture', 'website', 'gender', 'birthdate',
		'zoneinfo', 'locale', 'address', 'phone_number', 'phone_number_verified', 'email_verified',
		'user_metadata', 'unsafe_metadata')
	THEN
		PERFORM gpucredit_http.refuse(format('no rule is about the claim "%s"', check_claim.claim),
			'At most providers people choose its value themselves.',
			'Use "sub", "groups", "roles", or "email", which counts where the provider has verified it.');
	ELSIF check_claim.claim = 'email' AND check_claim.value !~ '^[^@]*@[^@]+$' THEN
		PERFORM gpucredit_http.refuse('an address has one @',
			format('The value is "%s".', check_claim.value),
			'Give a whole address, or "@" and a domain.');
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_http.check_claim(text, text) IS
'Internal: raises 22023 for a claim that no rule may be about.';

CREATE FUNCTION gpucredit_http.set_identity_provider(issuer text, client_id text DEFAULT '',
	client_secret text DEFAULT NULL, audiences text[] DEFAULT '{}', name text DEFAULT '',
	scopes text DEFAULT 'openid email profile') RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	shown text := coalesce(nullif(set_identity_provider.name, ''),
		split_part(split_part(set_identity_provider.issuer, '://', 2), '/', 1));
	number bigint;
BEGIN
	IF coalesce(set_identity_provider.issuer, '') !~ '^https?://[^[:space:][:cntrl:]?#@\\]+$'
		OR octet_length(set_identity_provider.issuer) > 255
	THEN
		PERFORM gpucredit_http.refuse('an issuer is an address without query and fragment, of 255 bytes at most',
			format('It is "%s".', left(set_identity_provider.issuer, 64)),
			'Give it exactly as the provider''s tokens have it in "iss".');
	ELSIF set_identity_provider.client_id IS NULL OR set_identity_provider.audiences IS NULL
		OR set_identity_provider.scopes IS NULL OR set_identity_provider.name IS NULL
		OR octet_length(set_identity_provider.client_id) > 255
		OR octet_length(set_identity_provider.client_secret) NOT BETWEEN 1 AND 1024
		OR octet_length(shown) > 100 OR octet_length(set_identity_provider.scopes) > 255
		OR cardinality(set_identity_provider.audiences) > 20
		OR array_position(set_identity_provider.audiences, NULL) IS NOT NULL
		OR '' = ANY (set_identity_provider.audiences)
		OR octet_length(array_to_string(set_identity_provider.audiences, ' ')) > 2000
		OR concat(set_identity_provider.client_id, set_identity_provider.client_secret, shown,
			set_identity_provider.scopes) ~ '[[:cntrl:]]'
	THEN
		PERFORM gpucredit_http.refuse('an argument is too long, NULL, or has control characters',
			'A client''s id has 255 bytes at most, its secret 1,024, the name 100, scopes 255; of audiences there are 20 at most, and none is empty.');
	ELSIF NOT 'openid' = ANY (string_to_array(set_identity_provider.scopes, ' ')) THEN
		PERFORM gpucredit_http.refuse('scopes must have "openid"',
			'Without it a provider says nothing about who signs in.');
	END IF;
	INSERT INTO gpucredit_http.identity_provider AS p
		(issuer, name, client_id, client_secret, audiences, scopes, created_at)
	VALUES (set_identity_provider.issuer, shown, set_identity_provider.client_id,
		set_identity_provider.client_secret, set_identity_provider.audiences,
		set_identity_provider.scopes, gpucredit.now())
	ON CONFLICT ON CONSTRAINT identity_provider_issuer DO UPDATE SET name = excluded.name,
		client_id = excluded.client_id, client_secret = excluded.client_secret,
		audiences = excluded.audiences, scopes = excluded.scopes
	RETURNING p.provider INTO number;
	PERFORM gpucredit_http.record('', 'set_identity_provider', gpucredit_http.caller(),
		jsonb_build_object('provider', number, 'issuer', set_identity_provider.issuer,
			'client_id', set_identity_provider.client_id, 'audiences', set_identity_provider.audiences));
	RETURN number;
END
$$;
COMMENT ON FUNCTION gpucredit_http.set_identity_provider(text, text, text, text[], text, text) IS
'Identity: sets an OpenID Connect provider whose tokens are believed, by its issuer. client_id and client_secret are what it knows the console as; without them nobody signs in to the console by it. audiences: whom a token that a request carries must be for; without them no such token is believed. name: what the page for signing in calls it, or the issuer''s host. By itself a provider lets nobody in: set_identity_rule() does. Repeating a call changes nothing.
Result: the provider''s number, which is in its redirect address: https://HOST/v1/sign_in/NUMBER/callback. Errors: 22023.';

CREATE FUNCTION gpucredit_http.identity_providers()
RETURNS TABLE (provider bigint, issuer text, name text, client_id text, has_secret boolean,
	audiences text[], scopes text, created_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 4
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT p.provider, p.issuer, p.name, p.client_id, p.client_secret IS NOT NULL, p.audiences,
		p.scopes, p.created_at
	FROM gpucredit_http.identity_provider p ORDER BY p.provider
$$;
COMMENT ON FUNCTION gpucredit_http.identity_providers() IS
'Identity: the providers whose tokens are believed, without their secrets. Result: a row each, by number.';

/*
 * Ends a rule with all its sessions and tokens, and notifies the daemons,
 * which end the streams.
 */
CREATE FUNCTION gpucredit_http.end_rule(rule bigint) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	caller name := gpucredit_http.caller();
BEGIN
	UPDATE gpucredit_http.identity_rule r SET removed_at = gpucredit.now(), removed_by = caller
	WHERE r.rule = end_rule.rule AND r.removed_at IS NULL;
	UPDATE gpucredit_http.token t SET revoked_at = gpucredit.now(), revoked_by = caller
	FROM gpucredit_http.identity i
	WHERE i.rule = end_rule.rule AND t.identity = i.identity AND t.revoked_at IS NULL;
	PERFORM gpucredit_internal.notify_number('gpucredit_token', end_rule.rule);
END
$$;
COMMENT ON FUNCTION gpucredit_http.end_rule(bigint) IS
'Internal: removes a rule, and revokes the tokens and so ends the sessions that came of it.';

CREATE FUNCTION gpucredit_http.remove_identity_provider(issuer text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	found_one boolean;
BEGIN
	DELETE FROM gpucredit_http.identity_provider p WHERE p.issuer = remove_identity_provider.issuer;
	found_one := FOUND;
	PERFORM gpucredit_http.end_rule(r.rule) FROM gpucredit_http.identity_rule r
	WHERE r.issuer = remove_identity_provider.issuer AND r.removed_at IS NULL;
	IF found_one THEN
		PERFORM gpucredit_http.record('', 'remove_identity_provider', gpucredit_http.caller(),
			jsonb_build_object('issuer', remove_identity_provider.issuer));
	END IF;
	RETURN found_one;
END
$$;
COMMENT ON FUNCTION gpucredit_http.remove_identity_provider(text) IS
'Identity: believes a provider no more. Its rules are removed, and the sessions and tokens that came of them end when this commits.
Result: true, or false if there was none.';

CREATE FUNCTION gpucredit_http.set_identity_rule(issuer text, claim text, value text,
	org text DEFAULT '', account text DEFAULT '', role name DEFAULT NULL,
	scope text DEFAULT 'admin') RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	caller name := gpucredit_http.caller();
	old gpucredit_http.identity_rule;
	number bigint;
BEGIN
	PERFORM gpucredit_http.check_claim(set_identity_rule.claim, set_identity_rule.value);
	IF set_identity_rule.scope IS NULL OR set_identity_rule.scope NOT IN ('read', 'label', 'submit', 'spend', 'admin') THEN
		PERFORM gpucredit_http.refuse('a rule''s scope is read, label, submit, spend or admin',
			format('It is "%s".', left(set_identity_rule.scope, 64)));
	ELSIF set_identity_rule.org IS NULL OR set_identity_rule.account IS NULL
		OR (set_identity_rule.role IS NULL) = (set_identity_rule.org = '')
		OR (set_identity_rule.role IS NOT NULL AND set_identity_rule.account <> '')
	THEN
		PERFORM gpucredit_http.refuse('a rule has either an organisation or a role',
			'With an organisation each gets a tenant''s role of his own, bound to the account; with a role all act as that role.',
			'Leave one of them out.');
	ELSIF set_identity_rule.role IS NOT NULL AND NOT gpucredit_http.may_serve(set_identity_rule.role) THEN
		PERFORM gpucredit_http.refuse('no request may act as this role',
			format('"%s" does not exist, or has SUPERUSER, BYPASSRLS, CREATEROLE, CREATEDB or REPLICATION, or is the gateway''s own login.',
				left(set_identity_rule.role, 64)),
			'Name a role that has none of these.');
	END IF;
	IF set_identity_rule.role IS NULL THEN
		PERFORM gpucredit_http.check_account(set_identity_rule.org, set_identity_rule.account);
	END IF;
	/*
	 * This is an update, so that of two concurrent calls, or of this one and
	 * the provider's end, each sees the other's change.
	 */
	UPDATE gpucredit_http.identity_provider p SET created_at = p.created_at
	WHERE p.issuer = set_identity_rule.issuer;
	IF NOT FOUND THEN
		PERFORM gpucredit_http.raise('UC701', 'the identity provider does not exist',
			format('The issuer is "%s".', left(set_identity_rule.issuer, 64)),
			'gpucredit_http.set_identity_provider() makes one.');
	END IF;
	SELECT r.* INTO old FROM gpucredit_http.identity_rule r
	WHERE r.issuer = set_identity_rule.issuer AND r.claim = set_identity_rule.claim
		AND r.value = set_identity_rule.value AND r.removed_at IS NULL;
	IF FOUND AND (old.org, old.account, old.scope) =
			(set_identity_rule.org, set_identity_rule.account, set_identity_rule.scope)
		AND old.role IS NOT DISTINCT FROM set_identity_rule.role
	THEN
		RETURN old.rule;
	ELSIF FOUND THEN
		PERFORM gpucredit_http.end_rule(old.rule);
	END IF;
	IF set_identity_rule.role IS NOT NULL
		AND NOT pg_has_role('gpucredit_gateway', set_identity_rule.role, 'MEMBER')
	THEN
		EXECUTE format('GRANT %I TO gpucredit_gateway', set_identity_rule.role);
	END IF;
	INSERT INTO gpucredit_http.identity_rule AS r
		(issuer, claim, value, org, account, role, scope, created_at, created_by)
	VALUES (set_identity_rule.issuer, set_identity_rule.claim, set_identity_rule.value,
		set_identity_rule.org, set_identity_rule.account, set_identity_rule.role,
		set_identity_rule.scope, gpucredit.now(), caller)
	RETURNING r.rule INTO number;
	PERFORM gpucredit_http.record(set_identity_rule.org, 'set_identity_rule', caller,
		jsonb_build_object('rule', number, 'instead_of', old.rule, 'issuer', set_identity_rule.issuer,
			'claim', set_identity_rule.claim, 'value', set_identity_rule.value,
			'account', set_identity_rule.account, 'role', set_identity_rule.role,
			'scope', set_identity_rule.scope));
	RETURN number;
END
$$;
COMMENT ON FUNCTION gpucredit_http.set_identity_rule(text, text, text, text, text, name, text) IS
'Identity: whom a provider lets in, and as which role: everybody whose claim is this value, or has it among its elements. A claim with dots in its name may be a path, as "realm_access.roles". Of "email" the value is an address or "@" and a domain, and counts only where the provider says email_verified. Claims that people choose themselves, such as names, are refused. Either org, and perhaps account: then each gets a tenant''s role of his own at his first request, which cannot log in and is bound to that account. Or role: then all act as that role. scope: the most that they can do. Of the rules that fit somebody the first that was set decides. Another rule for the same claim and value takes its place, and ends what came of it. Repeating a call changes nothing.
Result: the rule''s number. Errors: UC701 no such provider; UC001 no such account; 22023.';

CREATE FUNCTION gpucredit_http.remove_identity_rule(rule bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	old gpucredit_http.identity_rule;
BEGIN
	SELECT r.* INTO old FROM gpucredit_http.identity_rule r
	WHERE r.rule = remove_identity_rule.rule FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		PERFORM gpucredit_http.raise('UC701', 'the rule does not exist', 'No rule has that number.',
			'gpucredit_http.identity_rules() lists them.');
	ELSIF old.removed_at IS NOT NULL THEN
		RETURN false;
	END IF;
	PERFORM gpucredit_http.end_rule(old.rule);
	PERFORM gpucredit_http.record(old.org, 'remove_identity_rule', gpucredit_http.caller(),
		jsonb_build_object('rule', old.rule, 'issuer', old.issuer, 'claim', old.claim, 'value', old.value));
	RETURN true;
END
$$;
COMMENT ON FUNCTION gpucredit_http.remove_identity_rule(bigint) IS
'Identity: removes a rule. The sessions that began by it, and the tokens that were issued in them, end when this commits. Roles that it made stay, and nobody can act as them; a webhook that such a role has set is disabled at its next event, unless another rule that made the role is still there.
Result: true, or false if it was removed before. Errors: UC701 no such rule.';

CREATE FUNCTION gpucredit_http.identity_rules()
RETURNS TABLE (rule bigint, issuer text, claim text, value text, org text, account text,
	role name, scope text, created_at timestamptz, created_by name, identities bigint)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 20
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT r.rule, r.issuer, r.claim, r.value, r.org, r.account, r.role, r.scope, r.created_at,
		r.created_by, (SELECT count(*) FROM gpucredit_http.identity i WHERE i.rule = r.rule)
	FROM gpucredit_http.identity_rule r WHERE r.removed_at IS NULL ORDER BY r.rule
$$;
COMMENT ON FUNCTION gpucredit_http.identity_rules() IS
'Identity: the rules, in the order in which they decide. Result: a row each; identities: how many people and services it has let in.';

CREATE FUNCTION gpucredit_http.identities("limit" integer DEFAULT 100, after bigint DEFAULT NULL)
RETURNS TABLE (identity bigint, issuer text, subject text, label text, role name, org text,
	account text, rule bigint, token bigint, created_at timestamptz, used_at timestamptz,
	holds boolean)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT i.identity, r.issuer, i.subject, i.label, i.role, r.org, r.account, i.rule, i.token,
		i.created_at, i.used_at, r.removed_at IS NULL
	FROM gpucredit_http.identity i JOIN gpucredit_http.identity_rule r ON r.rule = i.rule
	WHERE identities.after IS NULL OR i.identity < identities.after
	ORDER BY i.identity DESC LIMIT least(identities."limit", 1001)
$$;
COMMENT ON FUNCTION gpucredit_http.identities(integer, bigint) IS
'Identity: the people and services that signed in by a provider, the newest first, below the number after. Result: a row each; label: what the provider called them last; holds: whether their rule is still there. revoke_token() with their token ends their sessions, until they sign in again.';
