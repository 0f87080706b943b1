/*
 * 99_grants.sql: who may do what.
 *
 * The gateway checks tokens, reads the feed of events and delivers webhooks,
 * and can do nothing else by itself.  Whoever calls gpucredit may have requests
 * answered: that gives no right that he has not.  Nobody has a right to the
 * tables that hold addresses and secrets of webhooks.
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
	gpucredit_http.forget_deliveries TO gpucredit_gateway;

GRANT EXECUTE ON FUNCTION gpucredit_http.set_webhook, gpucredit_http.change_webhook,
	gpucredit_http.renew_webhook_secret, gpucredit_http.disable_webhook,
	gpucredit_http.enable_webhook, gpucredit_http.remove_webhook,
	gpucredit_http.redeliver_webhook
TO gpucredit_admin, gpucredit_operator, gpucredit_app, gpucredit_tenant;

GRANT EXECUTE ON FUNCTION gpucredit_http.webhooks, gpucredit_http.deliveries
TO gpucredit_admin, gpucredit_operator, gpucredit_app, gpucredit_auditor, gpucredit_tenant;

GRANT EXECUTE ON FUNCTION gpucredit_http.verify
TO gpucredit_admin, gpucredit_operator, gpucredit_auditor;

/* What a request runs with the rights of its own role. */
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
				'end_attempt', 'count_attempt')
	LOOP
		EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO gpucredit_admin, gpucredit_operator,'
			' gpucredit_app, gpucredit_agent, gpucredit_auditor, gpucredit_tenant', f);
	END LOOP;
END
$$;
GRANT SELECT ON gpucredit_http.callable TO gpucredit_admin, gpucredit_operator,
	gpucredit_app, gpucredit_agent, gpucredit_auditor, gpucredit_tenant;
GRANT SELECT ON gpucredit_http.event, gpucredit_http.token, gpucredit_http.session,
	gpucredit_http.delivery TO gpucredit_admin, gpucredit_auditor;

/* All of it is in a dump. */
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
