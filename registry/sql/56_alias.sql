/*
 * 56_alias.sql: aliases, as "@champion", that name the version of a repository
 * for a purpose: what is in production, or what is to be tried next.
 *
 * An alias is a ref whose name begins with "@", so it is used wherever a
 * revision is, protect_ref() protects it, and move_ref() moves it. It is
 * neither a branch, as no commit moves it, nor a tag, as it may move.
 */
CREATE FUNCTION gpucredit_registry.alias_ref(alias text) RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF coalesce(alias_ref.alias, '') !~ '^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$' THEN
		PERFORM gpucredit_registry.refuse(format('alias "%s" is malformed',
				left(alias_ref.alias, 64)),
			'An alias has 1 to 100 letters, digits, "_" or "-", and is given without "@".');
	END IF;
	RETURN '@' || alias_ref.alias;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.alias_ref(text) IS
'Internal: the ref of an alias (22023).';

/* Checks the name of a branch, a tag or, with "@", an alias. */
CREATE FUNCTION gpucredit_registry.check_any_ref(ref text) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF starts_with(check_any_ref.ref, '@') THEN
		PERFORM gpucredit_registry.alias_ref(substr(check_any_ref.ref, 2));
	ELSE
		PERFORM gpucredit_registry.check_ref(check_any_ref.ref);
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.check_any_ref(text) IS
'Internal: refuses what is no branch, tag or alias (22023).';

/* Lets an alias name a version, on behalf of a caller. */
CREATE FUNCTION gpucredit_registry.put_alias(m gpucredit_registry.model, alias text,
	version bigint, author text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	name text := gpucredit_registry.alias_ref(put_alias.alias);
	v gpucredit_registry.version;
BEGIN
	PERFORM gpucredit_registry.lock_model(m);
	PERFORM gpucredit_registry.check_movable(m, name);
	/* A concurrent quarantine waits for this lock, or is visible here. */
	SELECT * INTO v FROM gpucredit_registry.version o
	WHERE o.org = (m).org AND o.version = put_alias.version AND o.model = (m).model
		AND o.dropped_at IS NULL
	FOR KEY SHARE;
	IF NOT FOUND THEN
		PERFORM gpucredit_registry.not_found(format('version %s of "%s/%s"', put_alias.version,
			(m).org, (m).name));
	END IF;
	PERFORM gpucredit_registry.refuse_read(v, CASE
		WHEN v.quarantined_at IS NOT NULL THEN 'quarantined'
		WHEN v.restricted_at IS NOT NULL THEN 'restricted' END);
	PERFORM gpucredit_registry.put_ref(m, name, v.version, put_alias.author);
END
$$;
COMMENT ON FUNCTION gpucredit_registry.put_alias(gpucredit_registry.model, text, bigint, text) IS
'Internal: moves an alias. Errors: UC501, UC504, 42501, 22023.';

CREATE FUNCTION gpucredit_registry.remove_alias(m gpucredit_registry.model, alias text,
	author text) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	name text := gpucredit_registry.alias_ref(remove_alias.alias);
	removed boolean;
BEGIN
	PERFORM gpucredit_registry.lock_model(m);
	PERFORM gpucredit_registry.check_movable(m, name);
	DELETE FROM gpucredit_registry.ref r
	WHERE r.org = (m).org AND r.model = (m).model AND r.ref = name;
	removed := FOUND;
	IF removed THEN
		PERFORM gpucredit_registry.record((m).org, 'delete_ref', remove_alias.author,
			jsonb_build_object('model', (m).model, 'ref', name));
		PERFORM gpucredit_registry.publish_model('ref_deleted', (m).org, (m).model,
			jsonb_build_object('ref', name));
	END IF;
	RETURN removed;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.remove_alias(gpucredit_registry.model, text, text) IS
'Internal: removes an alias; whether it was there. Errors: 42501, 22023.';

CREATE FUNCTION gpucredit_registry.set_alias(org text, model bigint, alias text,
	version bigint, key text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_registry.model := gpucredit_registry.own_model(set_alias.org, set_alias.model);
BEGIN
	IF gpucredit_registry.request_begin(m.org, set_alias.key, 'set_alias',
		jsonb_build_array(m.model, set_alias.alias, set_alias.version)) IS NOT NULL
	THEN
		RETURN true;
	END IF;
	PERFORM gpucredit_registry.put_alias(m, set_alias.alias, set_alias.version, NULL);
	PERFORM gpucredit_registry.request_end(m.org, set_alias.key, 'true');
	RETURN false;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.set_alias(text, bigint, text, bigint, text) IS
'Repositories: lets an alias name a version of its repository. "@ALIAS" is then a revision, as a branch is. Clients move it by POST /api/models/ORG/NAME/alias/ALIAS with {"revision"}.
alias: 1 to 100 letters, digits, "_" or "-", without "@". Result: whether the call was replayed.
Errors: UC501 no such repository, or no such version that has its files; UC504 in quarantine or restricted; 42501 the ref "@ALIAS" is protected; UC201 key used with other arguments; 22023.';

CREATE FUNCTION gpucredit_registry.delete_alias(org text, model bigint, alias text)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN gpucredit_registry.remove_alias(gpucredit_registry.own_model(delete_alias.org,
		delete_alias.model), delete_alias.alias, NULL);
END
$$;
COMMENT ON FUNCTION gpucredit_registry.delete_alias(text, bigint, text) IS
'Repositories: removes an alias; its version stays.
Result: whether it was there. Errors: UC501 no such repository; 42501 the ref "@ALIAS" is protected; 22023.';

CREATE FUNCTION gpucredit_registry.aliases(org text, model bigint)
RETURNS TABLE (alias text, version bigint, oid text)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 3
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_registry.own_model(aliases.org, aliases.model);
	RETURN QUERY
	SELECT substr(r.ref, 2), v.version, v.oid::text
	FROM gpucredit_registry.ref r JOIN gpucredit_registry.version v USING (org, version)
	WHERE r.org = aliases.org AND r.model = aliases.model AND starts_with(r.ref, '@')
	ORDER BY 1;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.aliases(text, bigint) IS
'Repositories: the aliases of a repository, and the versions that they name.
Errors: UC501 no such repository.';
