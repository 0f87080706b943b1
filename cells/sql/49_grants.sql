/*
 * 49_grants.sql: who may do what. PUBLIC has no rights.
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
GRANT EXECUTE ON FUNCTION gpucredit_cells.here	/* for the labels of metrics */
TO gpucredit_admin, gpucredit_operator, gpucredit_auditor, pg_monitor;
GRANT EXECUTE ON FUNCTION gpucredit_cells.find_home
TO gpucredit_admin, gpucredit_operator, gpucredit_app, gpucredit_auditor;
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
	gpucredit_cells.write_off, gpucredit_cells.acknowledge
TO gpucredit_admin;
GRANT EXECUTE ON FUNCTION gpucredit_cells.verify_cells,
	gpucredit_cells.cell_sums
TO gpucredit_admin, gpucredit_operator, gpucredit_auditor;

/* What is published: gpucredit_cells.published() lists the same tables. */
GRANT USAGE ON SCHEMA gpucredit, gpucredit_cells TO gpucredit_subscriber;
GRANT SELECT ON gpucredit.idle_limit, gpucredit.lost_work, gpucredit.price, gpucredit.retry_rule_custom,
	gpucredit.tier_custom, gpucredit_cells.rule_change, gpucredit_cells.cell,
	gpucredit_cells.change, gpucredit_cells.home, gpucredit_cells.location,
	gpucredit_cells.visit
TO gpucredit_subscriber;

/* Calls between cells. */
GRANT USAGE ON SCHEMA gpucredit_cells TO gpucredit_peer;
GRANT EXECUTE ON FUNCTION gpucredit_cells.receive, gpucredit_cells.books,
	gpucredit_cells.books_head, gpucredit_cells.books_end, gpucredit_cells.books_sums
TO gpucredit_peer;

/* Calls of a router; act_as() itself checks as whom it may act. */
GRANT USAGE ON SCHEMA gpucredit_cells TO gpucredit_router, pg_monitor;
GRANT EXECUTE ON FUNCTION gpucredit_cells.act_as, gpucredit_cells.is_mighty
TO gpucredit_router, gpucredit_admin, gpucredit_operator, gpucredit_app,
	gpucredit_agent, gpucredit_auditor, gpucredit_tenant, pg_monitor;

/*
 * Calls of a router that sets a home or moves an organisation, and of a new
 * home to the old one.
 */
GRANT USAGE ON SCHEMA gpucredit_cells TO gpucredit_mover;
GRANT EXECUTE ON FUNCTION gpucredit_cells.standing, gpucredit_cells.admit,
	gpucredit_cells.lock_moving, gpucredit_cells.set_moving,
	gpucredit_cells.hold_still, gpucredit_cells.close_out,
	gpucredit_cells.copy_ahead, gpucredit_cells.receive_ahead,
	gpucredit_cells.receive_changes, gpucredit_cells.analyze_moved,
	gpucredit_cells.require_sound, gpucredit_cells.forget_incoming,
	gpucredit_cells.sealed_to, gpucredit_cells.removed_until,
	gpucredit_cells.moved_tables, gpucredit_cells.closings,
	gpucredit_cells.rows_of, gpucredit_cells.digest_sum,
	gpucredit_cells.digest, gpucredit_cells.digests,
	gpucredit_cells.changing, gpucredit_cells.total, gpucredit_cells.booked
TO gpucredit_mover;
