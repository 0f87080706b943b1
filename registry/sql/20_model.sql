/*
 * 20_model.sql: repositories, permissions on them, and tokens.
 *
 * A principal is '*', 'org:ORG', or 'account:ORG/PATH', which is an account
 * and all below it; so a team is the account above its users. An organisation
 * owns its repositories: its tokens of the empty account may do everything.
 */
CREATE TABLE gpucredit_registry.model (
	org text COLLATE "C" NOT NULL,
	model bigint GENERATED ALWAYS AS IDENTITY,
	kind text NOT NULL DEFAULT 'model' CHECK (kind IN ('model', 'dataset', 'image')),
	name text COLLATE "C" NOT NULL
		CHECK (name ~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,95}$' AND name !~ '\.\.|\.git$'),
	account text COLLATE "C" NOT NULL,
	visibility text NOT NULL CHECK (visibility IN ('private', 'public')),
	license text,
	card text,
	created_at timestamptz NOT NULL,
	deleted_at timestamptz,
	deleted_bytes bigint,		/* size of its files when it was deleted */
	tags text[] NOT NULL DEFAULT '{}',	/* as "tag=value", for one index */
	words tsvector NOT NULL DEFAULT '',
	fields jsonb NOT NULL DEFAULT '{}',	/* metadata of the card */
	facets text[] NOT NULL DEFAULT '{}',	/* words for filters that the card
											 * states: tags, license:... and
											 * others */
	CONSTRAINT model_pkey PRIMARY KEY (org, model),
	CONSTRAINT model_number UNIQUE (model)		/* the default order of
												 * search */
);
CREATE INDEX model_find ON gpucredit_registry.model USING gin (tags, words, facets);
CREATE UNIQUE INDEX model_name ON gpucredit_registry.model (org, kind, name)
	WHERE deleted_at IS NULL;
COMMENT ON TABLE gpucredit_registry.model IS
'Repositories of models, datasets and images, and the account that pays for them';

CREATE TABLE gpucredit_registry.permission (
	org text COLLATE "C" NOT NULL,
	model bigint NOT NULL,
	principal text COLLATE "C" NOT NULL,
	permission text NOT NULL CHECK (permission IN ('read', 'write', 'admin')),
	granted_at timestamptz NOT NULL,
	CONSTRAINT permission_pkey PRIMARY KEY (org, model, principal),
	FOREIGN KEY (org, model) REFERENCES gpucredit_registry.model
);
COMMENT ON TABLE gpucredit_registry.permission IS
'What somebody beside the owner may do with a repository';

/*
 * Only the token's digest is stored; a secret of 244 random bits needs no
 * salt. The Hub's clients accept only tokens that begin with hf_.
 */
CREATE TABLE gpucredit_registry.token (
	org text COLLATE "C" NOT NULL,
	sha256 bytea NOT NULL CONSTRAINT token_sha256 UNIQUE,
	account text COLLATE "C" NOT NULL,
	scope text NOT NULL CHECK (scope IN ('read', 'write')),
	created_at timestamptz NOT NULL,
	expires_at timestamptz NOT NULL,
	token bigint GENERATED ALWAYS AS IDENTITY,
	CONSTRAINT token_pkey PRIMARY KEY (org, sha256)
);
COMMENT ON TABLE gpucredit_registry.token IS
'Digests of tokens, whose they are and until when';

/* The caller: an account, with the scope of its token. NULL if unknown. */
CREATE TYPE gpucredit_registry.caller AS (org text, account text, scope text);

CREATE FUNCTION gpucredit_registry.caller_name(caller gpucredit_registry.caller)
RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT 'account:' || (caller).org || '/' || (caller).account;
END;
COMMENT ON FUNCTION gpucredit_registry.caller_name(gpucredit_registry.caller) IS
'Internal: a caller as the event log names it.';

/*
 * Returns what a caller may do with a repository: read, write, admin, or NULL
 * for nothing. A token of scope "read" limits it. Each request calls it, so it
 * is in a language that keeps its plan.
 */
CREATE FUNCTION gpucredit_registry.permission_of(org text, model bigint,
	caller gpucredit_registry.caller) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN (SELECT CASE
			WHEN max(g.level) > 0 AND coalesce((caller).scope, 'read') = 'read' THEN 'read'
			ELSE ('{read,write,admin}'::text[])[max(g.level)]
		END
	FROM (
		SELECT CASE WHEN (caller).org = m.org AND ((caller).account = ''
					OR (caller).account = m.account
					OR starts_with(m.account, (caller).account || '/')) THEN 3
				WHEN m.visibility = 'public' THEN 1
			END AS level
		FROM gpucredit_registry.model m
		WHERE m.org = permission_of.org AND m.model = permission_of.model
		UNION ALL
		SELECT array_position('{read,write,admin}', p.permission)
		FROM gpucredit_registry.permission p
		WHERE p.org = permission_of.org AND p.model = permission_of.model
			AND (p.principal IN ('*', 'org:' || (caller).org)
				OR starts_with('account:' || (caller).org || '/' || (caller).account || '/',
					p.principal || '/'))) g);
END
$$;
COMMENT ON FUNCTION gpucredit_registry.permission_of(text, bigint, gpucredit_registry.caller) IS
'Internal: read, write, admin or NULL: what a caller may do with a repository.';

CREATE FUNCTION gpucredit_registry.create_model(org text, account text, name text,
	key text, visibility text DEFAULT 'private', license text DEFAULT NULL,
	card text DEFAULT NULL, kind text DEFAULT 'model',
	OUT model bigint, OUT replayed boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	arguments jsonb := jsonb_build_array(create_model.account, create_model.name,
		create_model.visibility, create_model.license, create_model.card,
		create_model.kind);
	result jsonb;
BEGIN
	PERFORM gpucredit_registry.check_account(create_model.org, create_model.account);
	IF create_model.name !~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,95}$'
		OR create_model.name ~ '\.\.|\.git$' OR create_model.name IS NULL
	THEN
		PERFORM gpucredit_registry.refuse(format('repository name "%s" is malformed',
				left(create_model.name, 64)),
			'A name has 1 to 96 letters, digits, ".", "_" or "-", begins with a letter or digit,'
			' has no ".." and does not end with ".git".');
	END IF;
	IF coalesce(create_model.visibility, '') NOT IN ('private', 'public')
		OR coalesce(create_model.kind, '') NOT IN ('model', 'dataset', 'image')
	THEN
		PERFORM gpucredit_registry.refuse('visibility is private or public, kind is model, dataset or image',
			format('They are "%s" and "%s".', left(create_model.visibility, 64),
				left(create_model.kind, 64)));
	END IF;
	result := gpucredit_registry.request_begin(create_model.org, create_model.key,
		'create_model', arguments);
	replayed := result IS NOT NULL;
	IF NOT replayed THEN
		BEGIN
			INSERT INTO gpucredit_registry.model AS m (org, kind, name, account,
				visibility, license, card, created_at)
			VALUES (create_model.org, create_model.kind, create_model.name,
				create_model.account, create_model.visibility, create_model.license,
				create_model.card, gpucredit.now())
			RETURNING m.model INTO create_model.model;
		EXCEPTION WHEN unique_violation THEN
			RAISE EXCEPTION '% "%/%" exists', create_model.kind, create_model.org,
				create_model.name
				USING ERRCODE = 'UC507', DETAIL = 'A name stands for one repository.',
				HINT = 'Choose another name, or use the one that is there.';
		END;
		PERFORM gpucredit_registry.record(create_model.org, 'create_model', NULL,
			arguments || to_jsonb(create_model.model));
		PERFORM gpucredit_registry.publish_model('created', create_model.org,
			create_model.model, '{}');
		result := gpucredit_registry.request_end(create_model.org, create_model.key,
			to_jsonb(create_model.model));
	END IF;
	create_model.model := result;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.create_model(text, text, text, text, text, text, text, text) IS
'Repositories: makes one. Its account pays for what the repository keeps.
name: 1 to 96 letters, digits, ".", "_" or "-". visibility: private, or public: everybody may read. kind: model, dataset or image (OCI).
Errors: UC001 no such account; UC201 key used with other arguments; UC507 the name is taken; 22023.';

/*
 * Returns the repository of a name, if the caller has the permission. A caller
 * without the permission "read" gets the error for a missing repository; one
 * with "read" alone gets an error for a write.
 */
CREATE FUNCTION gpucredit_registry.require_model(org text, name text, kind text,
	caller gpucredit_registry.caller, need text) RETURNS gpucredit_registry.model
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model;
	has text;
BEGIN
	SELECT * INTO m FROM gpucredit_registry.model o
	WHERE o.org = require_model.org AND o.kind = require_model.kind
		AND o.name = require_model.name AND o.deleted_at IS NULL;
	has := gpucredit_registry.permission_of(m.org, m.model, require_model.caller);
	IF has IS NULL THEN
		PERFORM gpucredit_registry.not_found(format('%s "%s/%s"', require_model.kind,
			left(require_model.org, 64), left(require_model.name, 96)));
	ELSIF array_position('{read,write,admin}', has)
		< array_position('{read,write,admin}', require_model.need)
	THEN
		RAISE EXCEPTION 'no permission to % % "%/%"', require_model.need,
			require_model.kind, require_model.org, require_model.name
			USING ERRCODE = 'insufficient_privilege',
			DETAIL = format('The caller may %s it.', has),
			HINT = 'Ask its owner for gpucredit_registry.grant_access(), or use a token of scope "write".';
	END IF;
	RETURN m;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.require_model(text, text, text, gpucredit_registry.caller, text) IS
'Internal: the repository of a name. Errors: UC501 it is not there, or not for the caller; 42501.';

/*
 * Returns a repository by its number, for database logins: gpucredit_app, or a
 * tenant bound to its account.
 */
CREATE FUNCTION gpucredit_registry.own_model(org text, model bigint)
RETURNS gpucredit_registry.model
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model;
BEGIN
	SELECT * INTO m FROM gpucredit_registry.model o
	WHERE o.org = own_model.org AND o.model = own_model.model AND o.deleted_at IS NULL;
	IF NOT FOUND THEN
		PERFORM gpucredit_registry.not_found(format('repository %s of "%s"',
			own_model.model, left(own_model.org, 64)));
	END IF;
	BEGIN
		PERFORM gpucredit_registry.check_account(m.org, m.account);
	EXCEPTION WHEN SQLSTATE 'UC001' THEN
		PERFORM gpucredit_registry.not_found(format('repository %s of "%s"',
			own_model.model, left(own_model.org, 64)));
	END;
	RETURN m;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.own_model(text, bigint) IS
'Internal: a repository whose account the session may see. Errors: UC501.';

CREATE FUNCTION gpucredit_registry.grant_access(org text, model bigint,
	principal text, permission text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_registry.own_model(grant_access.org, grant_access.model);
	IF coalesce(grant_access.permission, '') NOT IN ('read', 'write', 'admin') THEN
		PERFORM gpucredit_registry.refuse('permission is read, write or admin',
			format('It is "%s".', left(grant_access.permission, 64)));
	END IF;
	IF coalesce(grant_access.principal, '') !~ '^(\*|org:[^/]+|account:[^/]+(/.+)?)$'
		OR octet_length(grant_access.principal) > 1500
		OR (grant_access.principal = '*' AND grant_access.permission <> 'read')
	THEN
		PERFORM gpucredit_registry.refuse('a principal is *, org:ORG or account:ORG/PATH',
			format('It is "%s"; everybody (*) may only read.', left(grant_access.principal, 64)));
	END IF;
	INSERT INTO gpucredit_registry.permission AS p
	VALUES (grant_access.org, grant_access.model, grant_access.principal,
		grant_access.permission, gpucredit.now())
	ON CONFLICT ON CONSTRAINT permission_pkey DO UPDATE
	SET permission = excluded.permission, granted_at = excluded.granted_at
	WHERE p.permission <> excluded.permission;
	IF FOUND THEN
		PERFORM gpucredit_registry.record(grant_access.org, 'grant_access', NULL,
			jsonb_build_object('model', grant_access.model, 'principal',
				grant_access.principal, 'permission', grant_access.permission));
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.grant_access(text, bigint, text, text) IS
'Rights: lets somebody read, write or administer a repository; the last grant to a principal stands.
principal: *, org:ORG, or account:ORG/PATH, which is the account and all below it. permission: read, write, admin.
Errors: UC501 no such repository; 22023.';

CREATE FUNCTION gpucredit_registry.revoke_access(org text, model bigint,
	principal text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	was boolean;
BEGIN
	PERFORM gpucredit_registry.own_model(revoke_access.org, revoke_access.model);
	DELETE FROM gpucredit_registry.permission p
	WHERE p.org = revoke_access.org AND p.model = revoke_access.model
		AND p.principal = revoke_access.principal;
	was := FOUND;
	IF was THEN
		PERFORM gpucredit_registry.record(revoke_access.org, 'revoke_access', NULL,
			jsonb_build_object('model', revoke_access.model, 'principal',
				revoke_access.principal));
	END IF;
	RETURN was;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.revoke_access(text, bigint, text) IS
'Rights: takes back what grant_access gave.
Result: whether there was such a grant. Errors: UC501 no such repository.';

CREATE FUNCTION gpucredit_registry.issue_token(org text, account text,
	scope text DEFAULT 'write', ttl interval DEFAULT '90 days') RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	secret text := 'hf_' || replace(gen_random_uuid()::text || gen_random_uuid(), '-', '');
BEGIN
	PERFORM gpucredit_registry.check_account(issue_token.org, issue_token.account);
	IF coalesce(issue_token.scope, '') NOT IN ('read', 'write')
		OR coalesce(issue_token.ttl, '0') NOT BETWEEN '1 s' AND '3660 days'
	THEN
		PERFORM gpucredit_registry.refuse('a token''s scope is read or write, its ttl 1 second to 10 years',
			format('They are "%s" and %s.', left(issue_token.scope, 64), issue_token.ttl));
	END IF;
	INSERT INTO gpucredit_registry.token
	VALUES (issue_token.org, sha256(secret::bytea), issue_token.account,
		issue_token.scope, gpucredit.now(), gpucredit.now() + issue_token.ttl);
	PERFORM gpucredit_registry.record(issue_token.org, 'issue_token', NULL,
		jsonb_build_object('account', issue_token.account, 'scope', issue_token.scope,
			'ttl', issue_token.ttl));
	RETURN secret;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.issue_token(text, text, text, interval) IS
'Rights: makes a token, with which clients act as an account. It is shown this once; the database keeps its digest.
scope: read or write. ttl: how long it is good, 1 second to 10 years.
Errors: UC001 no such account; 22023.';

CREATE FUNCTION gpucredit_registry.tokens(org text, account text DEFAULT '')
RETURNS TABLE (token bigint, of_account text, scope text, created_at timestamptz,
	expires_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_registry.check_account(tokens.org, tokens.account);
	RETURN QUERY
	SELECT t.token, t.account, t.scope, t.created_at, t.expires_at
	FROM gpucredit_registry.token t
	WHERE t.org = tokens.org AND t.expires_at > gpucredit.now()
		AND (tokens.account IN ('', t.account) OR starts_with(t.account, tokens.account || '/'))
	ORDER BY t.token;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.tokens(text, text) IS
'Rights: the tokens of an account and all below it that are good, without their secrets.
Errors: UC001 no such account.';

CREATE FUNCTION gpucredit_registry.revoke_token(org text, token bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	t gpucredit_registry.token;
BEGIN
	SELECT * INTO t FROM gpucredit_registry.token o
	WHERE o.org = revoke_token.org AND o.token = revoke_token.token;
	IF NOT FOUND THEN
		RETURN false;
	END IF;
	BEGIN
		PERFORM gpucredit_registry.check_account(t.org, t.account);
	EXCEPTION WHEN SQLSTATE 'UC001' THEN
		RETURN false;			/* a token of another account is treated as if
								 * it did not exist */
	END;
	DELETE FROM gpucredit_registry.token o
	WHERE o.org = t.org AND o.token = t.token;
	PERFORM gpucredit_registry.record(t.org, 'revoke_token', NULL, jsonb_build_object(
		'account', t.account, 'scope', t.scope, 'token', t.token));
	RETURN true;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.revoke_token(text, bigint) IS
'Rights: ends a token at once; its number is in tokens().
Result: false where the account and those below it have no such token.';

CREATE FUNCTION gpucredit_registry.caller_of(token text)
RETURNS gpucredit_registry.caller
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT (t.org, t.account, t.scope)::gpucredit_registry.caller
	FROM gpucredit_registry.token t
	WHERE t.sha256 = sha256(convert_to(caller_of.token, 'UTF8'))
		AND t.expires_at > gpucredit.now();
END;
COMMENT ON FUNCTION gpucredit_registry.caller_of(text) IS
'Internal: whose a token is; NULL where nobody''s.';
