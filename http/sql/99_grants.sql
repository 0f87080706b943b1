/*
 * 99_grants.sql: who may do what.
 *
 * The gateway checks tokens, reads the feed of events, delivers webhooks and
 * sends spans, and can do nothing else by itself. Every role that may call
 * gpucredit may have requests answered, which gives it no additional right. No
 * role has a right to the tables that contain addresses and secrets of webhooks,
 * or the secrets by which the console is a client of identity providers.
 */
REVOKE ALL ON SCHEMA gpucredit_http FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA gpucredit_http FROM PUBLIC;
REVOKE ALL ON ALL ROUTINES IN SCHEMA gpucredit_http FROM PUBLIC;

GRANT USAGE ON SCHEMA gpucredit_http TO gpucredit_gateway, gpucredit_admin,
	gpucredit_operator, gpucredit_app, gpucredit_agent, gpucredit_auditor, gpucredit_tenant;

GRANT EXECUTE ON FUNCTION gpucredit_http.begin, gpucredit_http.enter,
	gpucredit_http.begin_session, gpucredit_http.session_answer,
	gpucredit_http.number_events, gpucredit_http.feed, gpucredit_http.feed_end,
	gpucredit_http.good_tokens, gpucredit_http.notice_events,
	gpucredit_http.claim_deliveries, gpucredit_http.report_deliveries,
	gpucredit_http.forget_deliveries, gpucredit_http.claim_spans,
	gpucredit_http.report_spans, gpucredit_http.act_as,
	gpucredit_http.begin_identity, gpucredit_http.enter_identity, gpucredit_http.sign_in,
	gpucredit_http.providers_of_gateway TO gpucredit_gateway;

GRANT EXECUTE ON FUNCTION gpucredit_http.set_webhook, gpucredit_http.change_webhook,
	gpucredit_http.renew_webhook_secret, gpucredit_http.disable_webhook,
	gpucredit_http.enable_webhook, gpucredit_http.remove_webhook,
	gpucredit_http.redeliver_webhook
TO gpucredit_admin, gpucredit_operator, gpucredit_app, gpucredit_tenant;

GRANT EXECUTE ON FUNCTION gpucredit_http.webhooks, gpucredit_http.deliveries
TO gpucredit_admin, gpucredit_operator, gpucredit_app, gpucredit_auditor, gpucredit_tenant;

GRANT EXECUTE ON FUNCTION gpucredit_http.set_identity_provider,
	gpucredit_http.remove_identity_provider, gpucredit_http.set_identity_rule,
	gpucredit_http.remove_identity_rule
TO gpucredit_admin;

GRANT EXECUTE ON FUNCTION gpucredit_http.identity_providers, gpucredit_http.identity_rules,
	gpucredit_http.identities
TO gpucredit_admin, gpucredit_auditor;

GRANT EXECUTE ON FUNCTION gpucredit_http.verify
TO gpucredit_admin, gpucredit_operator, gpucredit_auditor;

/* The functions that a request runs with the rights of its own role. */
DO $$
DECLARE
	f regprocedure;
BEGIN
	FOR f IN
		SELECT p.oid FROM pg_catalog.pg_proc p
		WHERE p.pronamespace = 'gpucredit_http'::regnamespace
			AND p.proname NOT IN ('begin', 'enter', 'begin_session', 'session_answer', 'number_events',
				'feed', 'feed_end', 'good_tokens', 'record', 'request_begin', 'request_end',
				'check_account', 'refuse_change', 'notice_events', 'claim_deliveries',
				'report_deliveries', 'forget_deliveries', 'set_webhook', 'change_webhook',
				'renew_webhook_secret', 'disable_webhook', 'enable_webhook', 'remove_webhook',
				'redeliver_webhook', 'webhooks', 'deliveries', 'verify', 'may_follow', 'may_manage',
				'check_managed', 'check_webhook', 'check_url', 'check_template', 'lock_webhook',
				'new_webhook_secret', 'stop_webhook', 'event_summary', 'template_values',
				'fill_template', 'message_body', 'message_id', 'sign_message', 'read_feed',
				'end_attempt', 'count_attempt', 'claim_spans', 'report_spans', 'spans_of',
				'span_id', 'span_instant', 'is_sampled', 'note_delivery_span', 'act_as',
				'new_session', 'begin_identity',
				'enter_identity', 'sign_in', 'providers_of_gateway', 'set_identity_provider',
				'remove_identity_provider', 'set_identity_rule', 'remove_identity_rule',
				'identity_providers', 'identity_rules', 'identities', 'end_rule', 'check_claim',
				'claim_fits', 'check_claims', 'own_role', 'make_own_role', 'identity_token',
				'find_identity', 'identity_holds', 'role_holds', 'identity_until')
	LOOP
		EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO gpucredit_admin, gpucredit_operator,'
			' gpucredit_app, gpucredit_agent, gpucredit_auditor, gpucredit_tenant', f);
	END LOOP;
END
$$;
GRANT SELECT ON gpucredit_http.callable TO gpucredit_admin, gpucredit_operator,
	gpucredit_app, gpucredit_agent, gpucredit_auditor, gpucredit_tenant;
GRANT SELECT ON gpucredit_http.event, gpucredit_http.token, gpucredit_http.session,
	gpucredit_http.delivery, gpucredit_http.identity_rule, gpucredit_http.identity
TO gpucredit_admin, gpucredit_auditor;

/* A dump contains all tables and sequences. */
DO $$
DECLARE
	t regclass;
BEGIN
	FOR t IN
		SELECT c.oid FROM pg_catalog.pg_class c
		WHERE c.relnamespace = 'gpucredit_http'::regnamespace AND c.relkind IN ('r', 'S')
	LOOP
		PERFORM pg_catalog.pg_extension_config_dump(t, '');
	END LOOP;
END
$$;
