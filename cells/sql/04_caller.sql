/*
 * 04_caller.sql: as whom a cell executes the calls of a router.
 *
 * A router connects as gpucredit_router, or as its own login that is a member
 * of it. That role may only call act_as(), which names the session's login and
 * the role that it has set. After that, every call runs with that role's
 * rights, which the cell checks as for any session.
 *
 * A cell allows a login to come through routers by GRANT login TO
 * gpucredit_router. So a router, or an attacker who controls its machine, can
 * act as those logins and as nobody else; act_as() refuses superusers, even if
 * they are granted.
 */
DO $role$
BEGIN
	IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles
		WHERE rolname = 'gpucredit_router') THEN
		CREATE ROLE gpucredit_router NOLOGIN NOINHERIT;
	END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
	NULL;						/* another database has created it */
END
$role$;

/*
 * The role as which the router that writes the directory, and a new home, call
 * a cell to set an organisation's home or to move it. It administers
 * gpucredit, and is not a superuser.
 */
DO $role$
BEGIN
	IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles
		WHERE rolname = 'gpucredit_mover') THEN
		CREATE ROLE gpucredit_mover NOLOGIN;
	END IF;
	IF NOT pg_catalog.pg_has_role('gpucredit_mover', 'gpucredit_admin', 'USAGE') THEN
		GRANT gpucredit_admin TO gpucredit_mover;
	END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
	NULL;						/* another database has created it */
END
$role$;

/*
 * The role as which cells and routers subscribe to what others publish: the
 * directory, and prices, tiers and rules. It reads these tables, and nothing
 * else. The operator lets it log in, with REPLICATION.
 */
DO $role$
BEGIN
	IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles
		WHERE rolname = 'gpucredit_subscriber') THEN
		CREATE ROLE gpucredit_subscriber NOLOGIN;
	END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
	NULL;						/* another database has created it */
END
$role$;

/*
 * Whether a login has more rights than gpucredit's own roles. Such a login
 * cannot come through a router.
 */
CREATE FUNCTION gpucredit_cells.is_mighty(login name) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT EXISTS (SELECT FROM pg_roles r
		WHERE (r.rolsuper OR r.rolreplication OR r.rolbypassrls
				OR r.rolname IN ('pg_execute_server_program',
					'pg_read_server_files', 'pg_write_server_files',
					'pg_read_all_data', 'pg_write_all_data',
					'pg_create_subscription', 'gpucredit_peer', 'gpucredit_router',
					'gpucredit_mover'))
			AND pg_has_role(is_mighty.login, r.oid, 'MEMBER'));
END;
COMMENT ON FUNCTION gpucredit_cells.is_mighty(name) IS
'Internal: is the role, or one that it is a member of, a superuser, or has it other rights that no router may lend?';

/*
 * Makes the connection act as a role. It is not SECURITY DEFINER, because such
 * a function cannot set the role.
 */
CREATE FUNCTION gpucredit_cells.act_as(login text, role text) RETURNS int
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	may_set CONSTANT text := CASE WHEN current_setting('server_version_num')::int >= 160000
		THEN 'SET' ELSE 'MEMBER' END;
	why text;
BEGIN
	why := CASE
		WHEN (SELECT r.rolsuper FROM pg_roles r WHERE r.rolname = session_user)
		THEN 'A router may not connect as a superuser.'
		WHEN NOT pg_has_role(session_user, 'gpucredit_router', 'MEMBER')
		THEN format('"%s" is not a member of gpucredit_router.', session_user)
		WHEN login IS NULL OR role IS NULL OR to_regrole(quote_ident(login)) IS NULL
			OR to_regrole(quote_ident(role)) IS NULL
		THEN 'The cell has no such role.'
		WHEN NOT pg_has_role(session_user, login, may_set)
		THEN format('The cell does not let "%s" come through routers.', login)
		WHEN NOT pg_has_role(login, role, may_set)
		THEN format('In the cell "%s" may not set that role.', login)
		WHEN gpucredit_cells.is_mighty(login::name) OR gpucredit_cells.is_mighty(role::name)
		THEN 'The role has rights that no router may lend.'
		END;
	IF why IS NOT NULL THEN
		RAISE EXCEPTION 'a router may not act as role "%"', role
			USING ERRCODE = '42501', DETAIL = why,
			HINT = 'Have an administrator of the cell grant the login to gpucredit_router.';
	END IF;
	PERFORM set_config('role', act_as.role, false);
	RETURN 1;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.act_as(text, text) IS
'Internal, for routers: from now on the connection acts as that role, which the login set in its session at the router.
Errors: 42501 the connection is no router''s, the login was not granted to gpucredit_router, it may not set the role, or either is a superuser''s or the like.';
