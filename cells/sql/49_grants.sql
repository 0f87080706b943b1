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

GRANT EXECUTE ON FUNCTION gpucredit_cells.lease
TO gpucredit_admin, gpucredit_app;
GRANT EXECUTE ON FUNCTION gpucredit_cells.recall, gpucredit_cells.carry,
	gpucredit_cells.carry_until
TO gpucredit_admin, gpucredit_operator, gpucredit_app;
GRANT EXECUTE ON PROCEDURE gpucredit_cells.carry_for
TO gpucredit_admin, gpucredit_operator, gpucredit_app;
GRANT EXECUTE ON FUNCTION gpucredit_cells.set_lease_policy,
	gpucredit_cells.write_off
TO gpucredit_admin;
GRANT EXECUTE ON FUNCTION gpucredit_cells.verify_cells,
	gpucredit_cells.cell_sums
TO gpucredit_admin, gpucredit_operator, gpucredit_auditor;

/* what cells ask of each other */
GRANT USAGE ON SCHEMA gpucredit_cells TO gpucredit_peer;
GRANT EXECUTE ON FUNCTION gpucredit_cells.receive, gpucredit_cells.books
TO gpucredit_peer;
