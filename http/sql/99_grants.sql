/*
 * 99_grants.sql: who may do what.
 *
 * The gateway checks tokens and can do nothing else by itself.  Whoever calls
 * gpucredit may have requests answered: that gives no right that he has not.
 */
REVOKE ALL ON SCHEMA gpucredit_http FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA gpucredit_http FROM PUBLIC;
REVOKE ALL ON ALL ROUTINES IN SCHEMA gpucredit_http FROM PUBLIC;

GRANT USAGE ON SCHEMA gpucredit_http TO gpucredit_gateway, gpucredit_admin,
	gpucredit_operator, gpucredit_app, gpucredit_agent, gpucredit_auditor, gpucredit_tenant;

GRANT EXECUTE ON FUNCTION gpucredit_http.begin, gpucredit_http.enter,
	gpucredit_http.begin_session, gpucredit_http.session_answer,
	gpucredit_http.number_events, gpucredit_http.feed, gpucredit_http.feed_end,
	gpucredit_http.good_tokens TO gpucredit_gateway;

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
				'check_account', 'refuse_change')
	LOOP
		EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO gpucredit_admin, gpucredit_operator,'
			' gpucredit_app, gpucredit_agent, gpucredit_auditor, gpucredit_tenant', f);
	END LOOP;
END
$$;
GRANT SELECT ON gpucredit_http.callable TO gpucredit_admin, gpucredit_operator,
	gpucredit_app, gpucredit_agent, gpucredit_auditor, gpucredit_tenant;
GRANT SELECT ON gpucredit_http.event, gpucredit_http.token,
	gpucredit_http.session TO gpucredit_admin, gpucredit_auditor;

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
