/*
 * 99_grants.sql: who may call report_html().  It shows a tenant only its own
 * data.
 */
REVOKE ALL ON SCHEMA gpucredit_report FROM PUBLIC;
REVOKE ALL ON ALL ROUTINES IN SCHEMA gpucredit_report FROM PUBLIC;
REVOKE ALL ON FUNCTION gpucredit.report_html FROM PUBLIC;
REVOKE ALL ON TYPE gpucredit_report.report_line, gpucredit_report.report_hours_line,
	gpucredit_report.report_slot, gpucredit_report.report_wait,
	gpucredit_report.report_share
FROM PUBLIC;

GRANT EXECUTE ON FUNCTION gpucredit.report_html
TO gpucredit_admin, gpucredit_operator, gpucredit_app, gpucredit_auditor,
	gpucredit_tenant;
