/*
 * 00_schema.sql: creates the schema, and the role that the daemon logs in as.
 * sql/companion/common.sql follows it.
 */
CREATE SCHEMA gpucredit_http;
COMMENT ON SCHEMA gpucredit_http IS
'HTTP interface of gpucredit: tokens of database roles, and requests that are answered with the rights of such a role';

/*
 * The daemon's login. It inherits no rights, so by itself it can only check a
 * token. It does everything else as the role that the token belongs to, by SET
 * LOCAL ROLE, for one transaction.
 */
DO $$
BEGIN
	CREATE ROLE gpucredit_gateway LOGIN NOINHERIT;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
	NULL;			/* roles belong to the cluster, so another database may
					 * have created it */
END
$$;
