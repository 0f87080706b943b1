/*
 * 96_uninstall.sql: the statements that remove gpucredit from a database and
 * its cluster.
 *
 * DROP EXTENSION leaves what belongs to no extension: jobs of pg_cron,
 * settings of the database and of tenants' logins, publications, what a router
 * created for PL/Proxy, and the roles, which every database of the cluster
 * shares.  No function can drop the extension that it belongs to, so
 * uninstall() returns the statements instead of running them.
 */
CREATE TYPE gpucredit.uninstall_result AS (step int, statement text);
COMMENT ON TYPE gpucredit.uninstall_result IS
'A statement that takes gpucredit out of a database.';

CREATE FUNCTION gpucredit.uninstall() RETURNS SETOF gpucredit.uninstall_result
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL UNSAFE ROWS 30
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	core CONSTANT oid := (SELECT e.oid FROM pg_extension e WHERE e.extname = 'gpucredit');
	here CONSTANT oid := (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
	jobs text;
BEGIN
	/*
	 * pg_cron may keep its jobs in another database.  Then the error's hint
	 * has the SQL to run there.
	 */
	IF current_setting('cron.database_name', true) IS NOT NULL THEN
		BEGIN
			PERFORM gpucredit_internal.require_cron(true);
			jobs := 'SELECT gpucredit.remove_jobs()';
		EXCEPTION WHEN object_not_in_prerequisite_state THEN
			IF current_setting('cron.database_name') <> current_database() THEN
				GET STACKED DIAGNOSTICS jobs = PG_EXCEPTION_HINT;
				jobs := format('DO $do$ BEGIN RAISE NOTICE %L USING HINT = %L; END $do$',
					'the jobs of pg_cron are in another database', jobs);
			END IF;
		END;
	END IF;
	RETURN QUERY
	WITH RECURSIVE companion AS (
		SELECT core AS extension, 0 AS depth
		UNION
		SELECT d.objid, c.depth + 1
		FROM companion c JOIN pg_depend d ON d.refclassid = 'pg_extension'::regclass
			AND d.refobjid = c.extension AND d.classid = 'pg_extension'::regclass
	), role AS (
		SELECT r.oid, r.rolname,
			EXISTS (SELECT FROM pg_shdepend s WHERE s.refclassid = 'pg_authid'::regclass
				AND s.refobjid = r.oid AND s.dbid NOT IN (0, here)) AS elsewhere,
			EXISTS (SELECT FROM pg_shdepend s WHERE s.refclassid = 'pg_authid'::regclass
				AND s.refobjid = r.oid AND s.deptype = 'o' AND s.dbid IN (0, here)) AS owns
		FROM pg_roles r
		WHERE r.rolname IN ('gpucredit_admin', 'gpucredit_operator', 'gpucredit_app',
			'gpucredit_agent', 'gpucredit_auditor', 'gpucredit_tenant', 'gpucredit_peer',
			'gpucredit_router', 'gpucredit_mover', 'gpucredit_subscriber',
			'gpucredit_registry_daemon')
	), step AS (
		SELECT 1 AS number, jobs AS statement WHERE jobs IS NOT NULL
		UNION ALL
		/*
		 * The timeouts of tenants' logins, which bind_tenant() has set for
		 * this database.
		 */
		SELECT DISTINCT 2, format('ALTER ROLE %I IN DATABASE %I RESET %I', r.rolname,
			current_database(), split_part(c.setting, '=', 1))
		FROM gpucredit.tenant b
			JOIN pg_roles m ON m.rolname = b.role
			JOIN pg_roles r ON pg_has_role(r.oid, m.oid, 'USAGE')
			JOIN pg_db_role_setting s ON s.setrole = r.oid AND s.setdatabase = here
			CROSS JOIN unnest(s.setconfig) AS c (setting)
		WHERE split_part(c.setting, '=', 1) IN ('idle_in_transaction_session_timeout',
			'statement_timeout', 'transaction_timeout')
		UNION ALL
		SELECT 3, format('ALTER %s RESET %I', CASE WHEN s.setrole = 0
				THEN format('DATABASE %I', current_database())
				ELSE format('ROLE %I IN DATABASE %I', s.setrole::regrole, current_database()) END,
			split_part(c.setting, '=', 1))
		FROM pg_db_role_setting s CROSS JOIN unnest(s.setconfig) AS c (setting)
		WHERE s.setdatabase = here AND c.setting LIKE 'gpucredit%.%'
		UNION ALL
		SELECT 4, format('DROP PUBLICATION %I', p.pubname)
		FROM pg_publication p
		WHERE p.pubname IN ('gpucredit_rules', 'gpucredit_cells', 'gpucredit_directory')
		UNION ALL
		SELECT 5, format('DROP SCHEMA %I CASCADE', n.nspname)
		FROM pg_namespace n WHERE n.nspname IN ('gpucredit_remote', 'gpucredit_proxy')
		UNION ALL
		SELECT 6, 'DROP SERVER gpucredit_cells CASCADE'
		FROM pg_foreign_server s WHERE s.srvname = 'gpucredit_cells'
		UNION ALL
		/*
		 * CASCADE is needed because the guards of cells are triggers on
		 * gpucredit's tables.
		 */
		SELECT 1000 - max(c.depth), format('DROP EXTENSION %I%s', e.extname,
			CASE WHEN e.oid = core THEN '' ELSE ' CASCADE' END)
		FROM companion c JOIN pg_extension e ON e.oid = c.extension
		GROUP BY e.oid, e.extname
		UNION ALL
		/*
		 * Privileges that the owner of the database has granted to the roles.
		 */
		SELECT 1001, format('DROP OWNED BY %I', r.rolname) FROM role r WHERE NOT r.owns
		UNION ALL
		SELECT 1002, format('DROP ROLE %I', r.rolname)
		FROM role r WHERE NOT r.owns AND NOT r.elsewhere)
	SELECT (row_number() OVER (ORDER BY s.number, s.statement))::int, s.statement
	FROM step s ORDER BY 1;
END
$$;
COMMENT ON FUNCTION gpucredit.uninstall() IS
E'Setup: returns the statements that take gpucredit and its companions out of this database, with all their data, and changes nothing itself. A superuser runs them, in psql: SELECT statement FROM gpucredit.uninstall() ORDER BY step \\gexec. DROP EXTENSION alone leaves the jobs of pg_cron, settings of the database and of tenants'' logins, publications, and the roles.
The roles belong to the cluster. One that another database uses stays, and so does one that owns something: that is yours to give away first. Subscriptions have names of your own: drop them before.
An object of yours that uses a type or function of gpucredit stops DROP EXTENSION gpucredit, which then drops nothing.
Result: the statements in their order.';
