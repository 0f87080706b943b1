/*
 * 46_tenant.sql: which roles are bound to which accounts.
 *
 * Bindings name roles, because roles belong to the cluster and get other oids
 * when a dump is restored into another cluster.
 */
CREATE TABLE gpucredit.tenant (
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	role name NOT NULL,
	CONSTRAINT tenant_pkey PRIMARY KEY (org, account, role)
);
COMMENT ON TABLE gpucredit.tenant IS
'Accounts that members of gpucredit_tenant see and spend, with all below them';
COMMENT ON COLUMN gpucredit.tenant.account IS 'The account that the role sees and spends, with all below it.';
COMMENT ON COLUMN gpucredit.tenant.role IS 'The role.';

SELECT pg_catalog.pg_extension_config_dump('gpucredit.tenant', '');

CREATE TRIGGER tenant_changed
AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON gpucredit.tenant
FOR EACH STATEMENT EXECUTE FUNCTION gpucredit_internal.cache_invalidate();
ALTER TABLE gpucredit.tenant ENABLE ALWAYS TRIGGER tenant_changed;

CREATE FUNCTION gpucredit_internal.may_read(org text, account text) RETURNS boolean
LANGUAGE c STABLE PARALLEL RESTRICTED LEAKPROOF COST 1
AS 'MODULE_PATHNAME', 'gpucredit_may_read';
COMMENT ON FUNCTION gpucredit_internal.may_read(text, text) IS
'Whether the caller may see an account''s rows, for row-level security. A member of gpucredit_tenant may see what it is bound to and all below; anybody else may see everything.';

CREATE FUNCTION gpucredit.bind_tenant(role name, org text,
	account text DEFAULT '') RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
BEGIN
	PERFORM gpucredit_internal.require_account(bind_tenant.org, bind_tenant.account);
	PERFORM gpucredit_internal.require_role(bind_tenant.role);
	INSERT INTO gpucredit.tenant (org, account, role)
	VALUES (bind_tenant.org, bind_tenant.account, bind_tenant.role)
	ON CONFLICT DO NOTHING;
	PERFORM gpucredit_internal.audit_binding(bind_tenant.org, bind_tenant.account,
		'bind_tenant', 'bound', bind_tenant.role);
	PERFORM gpucredit_internal.limit_tenant_logins(bind_tenant.role);
END
$$;
COMMENT ON FUNCTION gpucredit.bind_tenant(name, text, text) IS
'Setup: lets a role see and spend an account and all below it, for itself and its members. The role must be a member of gpucredit_tenant: run GRANT gpucredit_tenant first. Each binding adds to the earlier ones.
Tenants'' logins among the role and its members get timeouts in this database: logins that are no superuser and no member of another role of gpucredit. The timeouts are idle_in_transaction_session_timeout (gpucredit.tenant_idle_timeout), statement_timeout, and from PostgreSQL 17 on transaction_timeout (both gpucredit.tenant_transaction_max). A timeout that a login already has stays. Call again to give new members their timeouts.
Errors: UC001 no such account; 42704 no such role; 22023.';

CREATE FUNCTION gpucredit.unbind_tenant(role name, org text,
	account text DEFAULT '') RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
BEGIN
	PERFORM gpucredit_internal.require_account(unbind_tenant.org,
		unbind_tenant.account);
	IF unbind_tenant.role IS NULL THEN
		PERFORM gpucredit_internal.require_role(NULL);
	END IF;
	DELETE FROM gpucredit.tenant t
	WHERE t.org = unbind_tenant.org AND t.account = unbind_tenant.account
		AND t.role = unbind_tenant.role;
	IF FOUND THEN
		PERFORM gpucredit_internal.audit_binding(unbind_tenant.org,
			unbind_tenant.account, 'unbind_tenant', 'unbound',
			unbind_tenant.role);
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit.unbind_tenant(name, text, text) IS
'Setup: removes a binding of bind_tenant once this commits. The role may already be dropped. A missing binding is no error. Timeouts of logins stay.
Errors: UC001 no such account; 22023.';

/*
 * Whether the login serves one tenant only.  The login of an application does
 * not: it has other roles as well, or acts as tenants' roles by SET ROLE
 * (NOINHERIT).
 */
CREATE FUNCTION gpucredit_internal.is_tenant_login(login oid) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(bool_or(r.rolcanlogin AND NOT r.rolsuper
		AND pg_has_role(r.oid, t.oid, 'USAGE')), false)
		AND NOT EXISTS (SELECT FROM pg_roles s
			WHERE s.rolname IN ('gpucredit_admin', 'gpucredit_operator',
					'gpucredit_app', 'gpucredit_agent', 'gpucredit_auditor')
				AND pg_has_role(is_tenant_login.login, s.oid, 'MEMBER'))
	FROM pg_roles r, pg_roles t
	WHERE r.oid = is_tenant_login.login AND t.rolname = 'gpucredit_tenant';
END;
COMMENT ON FUNCTION gpucredit_internal.is_tenant_login(oid) IS
'Internal: whether a role is a tenant''s login: it may log in, is no superuser, and is no member of another role of gpucredit.';

/*
 * The timeouts that bind_tenant() gives a tenant's login.  Timeouts that are
 * set in the server's configuration files stay in force.
 */
CREATE FUNCTION gpucredit_internal.tenant_timeouts()
RETURNS TABLE (name text, value text)
LANGUAGE sql STABLE PARALLEL SAFE ROWS 3
BEGIN ATOMIC
	SELECT t.name, current_setting(t.source)
	FROM (VALUES
			('idle_in_transaction_session_timeout', 'gpucredit.tenant_idle_timeout'),
			('statement_timeout', 'gpucredit.tenant_transaction_max'),
			('transaction_timeout', 'gpucredit.tenant_transaction_max'))
			AS t (name, source)
		JOIN pg_settings s ON s.name = t.name
	WHERE current_setting(t.source)::interval > '0'
		AND NOT (s.source IN ('configuration file', 'command line')
			AND s.reset_val <> '0');
END;
COMMENT ON FUNCTION gpucredit_internal.tenant_timeouts() IS
'Internal: the timeouts that bind_tenant gives tenants'' logins on this server.';

CREATE FUNCTION gpucredit_internal.set_login_timeout(login name, database name,
	setting text, value text) RETURNS void
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'gpucredit_set_login_timeout';
COMMENT ON FUNCTION gpucredit_internal.set_login_timeout(name, name, text, text) IS
'Internal: ALTER ROLE login IN DATABASE database SET setting = value.';

/*
 * Sets the timeouts of a tenant's logins.  If another session is changing a
 * login's settings in an open transaction, bind_tenant() does not wait for it:
 * it skips this login with a warning.
 */
CREATE FUNCTION gpucredit_internal.limit_tenant_logins(role name) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET lock_timeout = '1s'
AS $$
DECLARE
	l record;
BEGIN
	FOR l IN
		SELECT r.rolname, t.name, t.value
		FROM pg_catalog.pg_roles b
			JOIN pg_catalog.pg_roles r
				ON pg_catalog.pg_has_role(r.oid, b.oid, 'USAGE')
			CROSS JOIN gpucredit_internal.tenant_timeouts() t
		WHERE b.rolname = limit_tenant_logins.role
			AND gpucredit_internal.is_tenant_login(r.oid)
			AND NOT EXISTS (
				SELECT FROM pg_catalog.pg_db_role_setting d
					JOIN pg_catalog.pg_database c ON d.setdatabase IN (0, c.oid)
					CROSS JOIN unnest(d.setconfig) AS v (setting)
				WHERE c.datname = pg_catalog.current_database()
					AND d.setrole IN (0, r.oid)
					AND pg_catalog.starts_with(v.setting, t.name || '='))
		ORDER BY r.rolname, t.name
	LOOP
		BEGIN
			PERFORM gpucredit_internal.set_login_timeout(l.rolname,
				pg_catalog.current_database(), l.name, l.value);
		EXCEPTION WHEN lock_not_available OR internal_error THEN
			RAISE WARNING 'role "%" has no %',
				gpucredit_internal.clip_for_message(l.rolname::text), l.name
				USING DETAIL = 'An open transaction changes settings of the role.',
				HINT = 'Call gpucredit.bind_tenant() again when it has ended.';
		END;
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_internal.limit_tenant_logins(name) IS
'bind_tenant: gives tenants'' logins of a role the timeouts that they lack.';

CREATE FUNCTION gpucredit_internal.require_role(role name) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	IF require_role.role IS NULL THEN
		RAISE EXCEPTION '"role" must not be null'
			USING ERRCODE = 'invalid_parameter_value',
			DETAIL = 'A binding needs a role.',
			HINT = 'Pass a role''s name.';
	END IF;
	IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles r
		WHERE r.rolname = require_role.role)
	THEN
		RAISE EXCEPTION 'role "%" does not exist',
			gpucredit_internal.clip_for_message(require_role.role::text)
			USING ERRCODE = 'undefined_object',
			DETAIL = 'Only an existing role can be bound.',
			HINT = 'Create it first: CREATE ROLE.';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_internal.require_role(name) IS
'Internal: refuses a role that does not exist (42704), and null (22023).';

CREATE FUNCTION gpucredit_internal.audit_binding(org text, account text,
	operation text, decision text, role name) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT gpucredit_internal.write_audit(audit_binding.operation,
		audit_binding.decision, audit_binding.org, audit_binding.account, NULL, NULL,
		jsonb_build_object('role', audit_binding.role));
END;
COMMENT ON FUNCTION gpucredit_internal.audit_binding(text, text, text, text, name) IS
'Internal: writes the audit row of a binding made or removed.';
