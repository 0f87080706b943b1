/*
 * 46_tenant.sql: which roles are bound to which accounts.
 *
 * By role name: roles belong to the cluster and have other numbers after a
 * restore into another one.
 */
CREATE TABLE gpucredit.tenant (
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	role name NOT NULL,
	CONSTRAINT tenant_pkey PRIMARY KEY (org, account, role)
);
COMMENT ON TABLE gpucredit.tenant IS
'Accounts that members of gpucredit_tenant see and spend, with all below';

SELECT pg_catalog.pg_extension_config_dump('gpucredit.tenant', '');

CREATE TRIGGER tenant_changed
AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON gpucredit.tenant
FOR EACH STATEMENT EXECUTE FUNCTION gpucredit.announce_change();
ALTER TABLE gpucredit.tenant ENABLE ALWAYS TRIGGER tenant_changed;

CREATE FUNCTION gpucredit.sees(org text, account text) RETURNS boolean
LANGUAGE c STABLE PARALLEL RESTRICTED LEAKPROOF COST 1
AS 'MODULE_PATHNAME', 'gpucredit_sees';
COMMENT ON FUNCTION gpucredit.sees(text, text) IS
'May the caller see an account''s rows? A member of gpucredit_tenant those it is bound to and what is below, anybody else all. For row-level security.';

CREATE FUNCTION gpucredit.bind_tenant(role name, org text,
	account text DEFAULT '') RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
BEGIN
	PERFORM gpucredit.require_account(bind_tenant.org, bind_tenant.account);
	PERFORM gpucredit.require_role(bind_tenant.role);
	INSERT INTO gpucredit.tenant (org, account, role)
	VALUES (bind_tenant.org, bind_tenant.account, bind_tenant.role)
	ON CONFLICT DO NOTHING;
	PERFORM gpucredit.audit_binding(bind_tenant.org, bind_tenant.account,
		'bind_tenant', 'bound', bind_tenant.role);
END
$$;
COMMENT ON FUNCTION gpucredit.bind_tenant(name, text, text) IS
'Lets a role, and the members of it, who are members of gpucredit_tenant see and spend an account and all below it. Each binding adds to those it has. Grant the membership apart: GRANT gpucredit_tenant TO the role.
Errors: UC001 no such account; 42704 no such role; 22023.';

CREATE FUNCTION gpucredit.unbind_tenant(role name, org text,
	account text DEFAULT '') RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
BEGIN
	PERFORM gpucredit.require_account(unbind_tenant.org,
		unbind_tenant.account);
	IF unbind_tenant.role IS NULL THEN
		PERFORM gpucredit.require_role(NULL);
	END IF;
	DELETE FROM gpucredit.tenant t
	WHERE t.org = unbind_tenant.org AND t.account = unbind_tenant.account
		AND t.role = unbind_tenant.role;
	IF FOUND THEN
		PERFORM gpucredit.audit_binding(unbind_tenant.org,
			unbind_tenant.account, 'unbind_tenant', 'unbound',
			unbind_tenant.role);
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit.unbind_tenant(name, text, text) IS
'Takes a binding of bind_tenant back, from the commit on; the role may be gone already. One that is not there is no error.
Errors: UC001 no such account; 22023.';

CREATE FUNCTION gpucredit.require_role(role name) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	IF require_role.role IS NULL THEN
		RAISE EXCEPTION '"role" must not be null'
			USING ERRCODE = 'invalid_parameter_value',
			DETAIL = 'A binding is of a role to an account.',
			HINT = 'Pass a role''s name.';
	END IF;
	IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles r
		WHERE r.rolname = require_role.role)
	THEN
		RAISE EXCEPTION 'no such role: "%"',
			gpucredit.clip_for_message(require_role.role::text)
			USING ERRCODE = 'undefined_object',
			DETAIL = 'Only a role that is there can be bound.',
			HINT = 'Create it first: CREATE ROLE.';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit.require_role(name) IS
'Internal: refuses what is no role (42704), and null (22023).';

CREATE FUNCTION gpucredit.audit_binding(org text, account text,
	operation text, decision text, role name) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT gpucredit.write_audit(audit_binding.operation,
		audit_binding.decision, audit_binding.org, audit_binding.account, NULL, NULL,
		jsonb_build_object('role', audit_binding.role));
END;
COMMENT ON FUNCTION gpucredit.audit_binding(text, text, text, text, name) IS
'Internal: the audit row of a binding made or taken back.';
