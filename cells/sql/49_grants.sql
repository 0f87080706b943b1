/*
 * 49_grants.sql: who may do what.  PUBLIC may do nothing.
 */
REVOKE ALL ON SCHEMA gpucredit_cells FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA gpucredit_cells FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA gpucredit_cells FROM PUBLIC;
REVOKE ALL ON ALL ROUTINES IN SCHEMA gpucredit_cells FROM PUBLIC;
GRANT EXECUTE ON FUNCTION gpucredit_cells.set_cell, gpucredit_cells.set_home,
	gpucredit_cells.set_location
TO gpucredit_admin;
GRANT SELECT ON ALL TABLES IN SCHEMA gpucredit_cells
TO gpucredit_admin, gpucredit_auditor;
GRANT USAGE ON SCHEMA gpucredit_cells
TO gpucredit_admin, gpucredit_operator, gpucredit_app, gpucredit_agent,
	gpucredit_auditor, gpucredit_tenant;
GRANT EXECUTE ON FUNCTION gpucredit_cells.at_home, gpucredit_cells.at_homes
TO gpucredit_admin, gpucredit_operator, gpucredit_app, gpucredit_agent,
	gpucredit_auditor, gpucredit_tenant;
GRANT EXECUTE ON FUNCTION gpucredit_cells.node_here
TO gpucredit_admin, gpucredit_operator, gpucredit_agent;
