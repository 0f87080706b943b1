/*
 * 49_grants.sql: who may do what.  PUBLIC may do nothing.
 */
REVOKE ALL ON SCHEMA gpucredit_cells FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA gpucredit_cells FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA gpucredit_cells FROM PUBLIC;
REVOKE ALL ON ALL ROUTINES IN SCHEMA gpucredit_cells FROM PUBLIC;
GRANT SELECT ON ALL TABLES IN SCHEMA gpucredit_cells
TO gpucredit_admin, gpucredit_auditor;
GRANT USAGE ON SCHEMA gpucredit_cells
TO gpucredit_admin, gpucredit_operator, gpucredit_app, gpucredit_agent,
	gpucredit_auditor, gpucredit_tenant;
