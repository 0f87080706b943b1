/*
 * 99_grants.sql: who may do what.
 *
 * Roles that may issue credit may also invoice it, and promise it by a plan.
 * An operator may run upkeep, too. Tenants may request credit and quota, and
 * decide such requests where they are approvers. Tenants may read the invoices
 * of organisations that they are bound to as a whole. No role has a right to
 * the tables except that roles which see all organisations may read them.
 */
REVOKE ALL ON SCHEMA gpucredit_billing FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA gpucredit_billing FROM PUBLIC;
REVOKE ALL ON ALL ROUTINES IN SCHEMA gpucredit_billing FROM PUBLIC;

GRANT USAGE ON SCHEMA gpucredit_billing TO gpucredit_admin, gpucredit_auditor, gpucredit_operator,
	gpucredit_tenant;

GRANT EXECUTE ON FUNCTION gpucredit_billing.set_terms, gpucredit_billing.issue_invoice,
	gpucredit_billing.issue_credit_note, gpucredit_billing.set_plan, gpucredit_billing.end_plan,
	gpucredit_billing.set_top_up, gpucredit_billing.complete_top_up, gpucredit_billing.fail_top_up,
	gpucredit_billing.set_approver, gpucredit_billing.book_payment, gpucredit_billing.refund_payment
TO gpucredit_admin;

GRANT EXECUTE ON FUNCTION gpucredit_billing.grant_plans, gpucredit_billing.upkeep
TO gpucredit_admin, gpucredit_operator;

GRANT EXECUTE ON FUNCTION gpucredit_billing.request_allocation, gpucredit_billing.decide_allocation,
	gpucredit_billing.withdraw_allocation
TO gpucredit_admin, gpucredit_tenant;

GRANT EXECUTE ON FUNCTION gpucredit_billing.terms_of, gpucredit_billing.invoices,
	gpucredit_billing.invoice, gpucredit_billing.invoice_lines, gpucredit_billing.invoice_html,
	gpucredit_billing.focus_usage, gpucredit_billing.plans, gpucredit_billing.top_ups,
	gpucredit_billing.top_up_orders, gpucredit_billing.approvers, gpucredit_billing.allocation_requests,
	gpucredit_billing.payments
TO gpucredit_admin, gpucredit_auditor, gpucredit_tenant;

GRANT EXECUTE ON FUNCTION gpucredit_billing.verify TO gpucredit_admin, gpucredit_auditor;

GRANT SELECT ON gpucredit_billing.document, gpucredit_billing.document_line,
	gpucredit_billing.terms, gpucredit_billing.series, gpucredit_billing.event,
	gpucredit_billing.plan, gpucredit_billing.plan_grant, gpucredit_billing.top_up,
	gpucredit_billing.top_up_order, gpucredit_billing.payment, gpucredit_billing.approver,
	gpucredit_billing.asker, gpucredit_billing.allocation_request
TO gpucredit_admin, gpucredit_auditor;

/* A dump contains all tables and sequences. */
DO $$
DECLARE
	t regclass;
BEGIN
	FOR t IN
		SELECT c.oid FROM pg_catalog.pg_class c
		WHERE c.relnamespace = 'gpucredit_billing'::regnamespace AND c.relkind IN ('r', 'S')
	LOOP
		PERFORM pg_catalog.pg_extension_config_dump(t, '');
	END LOOP;
END
$$;
