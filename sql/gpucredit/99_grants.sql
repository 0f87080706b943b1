/*
 * 99_grants.sql: who may do what.
 *
 * PUBLIC may do nothing.  Only functions write tables, with the rights of the
 * extension's owner.  What is not listed below is internal.
 *
 *	gpucredit_admin     everything
 *	gpucredit_operator  nodes, scheduling cycles, upkeep, cancelling
 *	gpucredit_app       holds, jobs, balances
 *	gpucredit_agent     heartbeats, metering, settling, scheduling cycles
 *	gpucredit_auditor   reads everything, changes nothing
 *	gpucredit_tenant    holds, jobs, balances of what bind_tenant binds it to
 */
REVOKE ALL ON SCHEMA gpucredit, gpucredit_internal FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA gpucredit FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA gpucredit FROM PUBLIC;
REVOKE ALL ON ALL ROUTINES IN SCHEMA gpucredit, gpucredit_internal FROM PUBLIC;

/* Every role may use the types and their functions. */
DO $types$
DECLARE
	name text;
BEGIN
	FOR name IN
		SELECT t.oid::pg_catalog.regtype FROM pg_catalog.pg_type t
			LEFT JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
		WHERE t.typnamespace = 'gpucredit'::pg_catalog.regnamespace
			AND t.typelem = 0 AND coalesce(c.relkind = 'c', true)
	LOOP
		EXECUTE format('REVOKE ALL ON TYPE %s FROM PUBLIC', name);
		EXECUTE format('GRANT USAGE ON TYPE %s TO gpucredit_admin,'
			' gpucredit_operator, gpucredit_app, gpucredit_agent,'
			' gpucredit_auditor, gpucredit_tenant', name);
	END LOOP;
	FOR name IN
		SELECT p.oid::pg_catalog.regprocedure FROM pg_catalog.pg_proc p
		WHERE p.pronamespace IN ('gpucredit'::pg_catalog.regnamespace,
				'gpucredit_internal'::pg_catalog.regnamespace)
			AND NOT p.prosecdef
			AND p.proname !~ '_(sound|digest)$'	/* constraints call these functions */
			AND p.proargtypes::oid[] || p.prorettype && ARRAY[
				'gpucredit.credits'::pg_catalog.regtype,
				'gpucredit.gpureq'::pg_catalog.regtype,
				'gpucredit.gpuset'::pg_catalog.regtype]::oid[]
	LOOP
		EXECUTE format('GRANT EXECUTE ON ROUTINE %s TO gpucredit_admin,'
			' gpucredit_operator, gpucredit_app, gpucredit_agent,'
			' gpucredit_auditor, gpucredit_tenant', name);
	END LOOP;
END
$types$;

GRANT USAGE ON SCHEMA gpucredit
TO gpucredit_admin, gpucredit_operator, gpucredit_app, gpucredit_agent,
	gpucredit_auditor, gpucredit_tenant;

/* Privileges on functions */

GRANT EXECUTE ON FUNCTION gpucredit.now, gpucredit.key_space
TO gpucredit_admin, gpucredit_operator, gpucredit_app, gpucredit_agent,
	gpucredit_auditor, gpucredit_tenant;

GRANT EXECUTE ON FUNCTION			/* setting up, credits, repair */
	gpucredit.create_account, gpucredit.suspend_account,
	gpucredit.set_price, gpucredit.set_resource_price, gpucredit.create_pool, gpucredit.set_tier,
	gpucredit.set_lost_work, gpucredit.set_idle_limit, gpucredit.grant_tier, gpucredit.revoke_tier,
	gpucredit.set_budget, gpucredit.set_quota, gpucredit.set_rate_limit,
	gpucredit.set_slices,
	gpucredit.issue, gpucredit.revoke, gpucredit.transfer,
	gpucredit.refund, gpucredit.refund_hold, gpucredit.write_off,
	gpucredit.rebuild, gpucredit.publish_event
TO gpucredit_admin;

GRANT EXECUTE ON FUNCTION gpucredit.uninstall
TO gpucredit_admin;

GRANT EXECUTE ON FUNCTION gpucredit.set_alert
TO gpucredit_admin, gpucredit_operator;

GRANT EXECUTE ON FUNCTION			/* balances */
	gpucredit.balance, gpucredit.buckets, gpucredit.buckets_for,
	gpucredit.job_buckets, gpucredit.budgets, gpucredit.denials,
	gpucredit.statement, gpucredit.invoice, gpucredit.tiers_for,
	gpucredit.pool_placed_by
TO gpucredit_admin, gpucredit_app, gpucredit_auditor;

GRANT EXECUTE ON FUNCTION			/* spend, which the report page shows */
	gpucredit.usage_by, gpucredit.waste_by, gpucredit.top_spenders, gpucredit.top_jobs
TO gpucredit_admin, gpucredit_operator, gpucredit_app, gpucredit_auditor;

GRANT EXECUTE ON FUNCTION			/* screens */
	gpucredit.cluster_map, gpucredit.queue, gpucredit.queue_reasons,
	gpucredit.burn_rate, gpucredit.recent_events
TO gpucredit_admin, gpucredit_operator, gpucredit_auditor;

GRANT EXECUTE ON FUNCTION			/* holds; submitting */
	gpucredit.hold, gpucredit.extend_hold, gpucredit.capture,
	gpucredit.release, gpucredit.reserve, gpucredit.quote,
	gpucredit.store_file
TO gpucredit_admin, gpucredit_app;

GRANT EXECUTE ON FUNCTION
	gpucredit.cancel, gpucredit.requeue_job, gpucredit.hold_job,
	gpucredit.release_job, gpucredit.open_session,
	gpucredit.signal_job, gpucredit.update_job
TO gpucredit_admin, gpucredit_operator, gpucredit_app;

GRANT EXECUTE ON FUNCTION gpucredit.node_sizes
TO gpucredit_admin, gpucredit_operator, gpucredit_app, gpucredit_auditor;

GRANT EXECUTE ON FUNCTION gpucredit.log_wish, gpucredit.log_get
TO gpucredit_admin, gpucredit_operator, gpucredit_app, gpucredit_tenant;

GRANT EXECUTE ON FUNCTION gpucredit.settle
TO gpucredit_admin, gpucredit_app, gpucredit_agent;

GRANT EXECUTE ON FUNCTION			/* metering */
	gpucredit.meter, gpucredit.meter_batch, gpucredit.checkpoint,
	gpucredit.checkpoint_loaded, gpucredit.part_ended, gpucredit.log_put,
	gpucredit.log_keep
TO gpucredit_admin, gpucredit_agent;

GRANT EXECUTE ON FUNCTION			/* scheduling cycles; heartbeats */
	gpucredit.place, gpucredit.placed, gpucredit.heartbeat, gpucredit.report_topology, gpucredit.poke_addresses,
	gpucredit.reclaim(text, interval), gpucredit.reclaim(text[], interval)
TO gpucredit_admin, gpucredit_operator, gpucredit_agent;

GRANT EXECUTE ON FUNCTION gpucredit.plan
TO gpucredit_admin, gpucredit_operator, gpucredit_agent, gpucredit_auditor;

GRANT EXECUTE ON FUNCTION
	gpucredit.plan_with, gpucredit.fair_share, gpucredit.reservations
TO gpucredit_admin, gpucredit_operator, gpucredit_auditor;

GRANT EXECUTE ON FUNCTION			/* nodes, upkeep */
	gpucredit.register_node, gpucredit.set_node_key, gpucredit.drain, gpucredit.resume,
	gpucredit.remove_node, gpucredit.expire_credits, gpucredit.maintain,
	gpucredit.upkeep
TO gpucredit_admin, gpucredit_operator;

GRANT EXECUTE ON FUNCTION			/* failures, and their sweeps */
	gpucredit.set_retry_rule, gpucredit.reap_holds, gpucredit.check_nodes,
	gpucredit.end_tenant_transactions,
	gpucredit.install_jobs, gpucredit.remove_jobs, gpucredit.check_books
TO gpucredit_admin, gpucredit_operator;

GRANT EXECUTE ON FUNCTION gpucredit_internal.cron_jobs, gpucredit_internal.seal_waits,
	gpucredit_internal.upkeep_lags
TO gpucredit_admin, gpucredit_operator, gpucredit_auditor;

GRANT EXECUTE ON FUNCTION gpucredit.verify, gpucredit.verify_ranges
TO gpucredit_admin, gpucredit_operator, gpucredit_auditor;

GRANT EXECUTE ON FUNCTION gpucredit.seal_audit
TO gpucredit_admin, gpucredit_operator;

GRANT EXECUTE ON FUNCTION gpucredit.verify_audit, gpucredit.audit_proof,
	gpucredit.audit_before
TO gpucredit_admin, gpucredit_auditor;

GRANT EXECUTE ON FUNCTION gpucredit.demand, gpucredit.capacity_advice
TO gpucredit_admin, gpucredit_operator, gpucredit_auditor;

GRANT EXECUTE ON FUNCTION gpucredit.history, gpucredit.checkpoints, gpucredit.explain
TO gpucredit_admin, gpucredit_operator, gpucredit_app, gpucredit_auditor;

GRANT EXECUTE ON FUNCTION gpucredit.events
TO gpucredit_admin, gpucredit_operator, gpucredit_app, gpucredit_auditor,
	gpucredit_tenant;
GRANT SELECT ON gpucredit.event TO gpucredit_operator, gpucredit_app;

GRANT EXECUTE ON FUNCTION gpucredit.metric_samples, gpucredit.metrics_text
TO gpucredit_admin, gpucredit_operator, gpucredit_auditor, pg_monitor;
GRANT USAGE ON SCHEMA gpucredit TO pg_monitor;

/* Privileges on tables */

GRANT SELECT ON ALL TABLES IN SCHEMA gpucredit
TO gpucredit_admin, gpucredit_auditor;
REVOKE ALL ON gpucredit.step_secret FROM gpucredit_admin, gpucredit_auditor;

GRANT SELECT ON gpucredit.metrics TO gpucredit_operator, pg_monitor;

GRANT SELECT ON gpucredit.jobs, gpucredit.price, gpucredit.prices,
	gpucredit.tier
TO gpucredit_operator, gpucredit_app;

/* A listener that receives an alert's number reads the row. */
GRANT SELECT ON gpucredit.alert TO gpucredit_app;

GRANT SELECT ON gpucredit.pool, gpucredit.node, gpucredit.nodes,
	gpucredit.attempt, gpucredit.attempts,
	gpucredit.attempt_gpu, gpucredit.directive, gpucredit.checkpoint,
	gpucredit.retry_rule, gpucredit.cron_status, gpucredit.upkeep_lag, gpucredit.seals,
	gpucredit.seal_status, gpucredit.archive_batch, gpucredit.node_capacity, gpucredit.capacity,
	gpucredit.queue_depth
TO gpucredit_operator;

/*
 * Tenants call the functions of an application, and see only their own rows.
 * Functions check that themselves (src/api/tenant.c).  SELECT goes through a
 * restrictive policy, so that no other grant widens it.  The policy applies to
 * every role: a view or SECURITY DEFINER function shows a tenant only its own
 * rows, unless a superuser owns it.
 */
GRANT EXECUTE ON FUNCTION gpucredit.bind_tenant, gpucredit.unbind_tenant
TO gpucredit_admin;

GRANT EXECUTE ON FUNCTION gpucredit_internal.may_read
TO gpucredit_admin, gpucredit_operator, gpucredit_app, gpucredit_agent,
	gpucredit_auditor, gpucredit_tenant;

GRANT EXECUTE ON FUNCTION
	gpucredit.hold, gpucredit.extend_hold, gpucredit.capture,
	gpucredit.release, gpucredit.reserve, gpucredit.quote,
	gpucredit.store_file, gpucredit.settle, gpucredit.cancel,
	gpucredit.requeue_job, gpucredit.hold_job, gpucredit.release_job,
	gpucredit.open_session, gpucredit.signal_job, gpucredit.update_job, gpucredit.balance, gpucredit.buckets, gpucredit.budgets,
	gpucredit.statement, gpucredit.usage_by, gpucredit.waste_by, gpucredit.top_spenders,
	gpucredit.top_jobs, gpucredit.invoice, gpucredit.buckets_for,
	gpucredit.job_buckets, gpucredit.history, gpucredit.checkpoints,
	gpucredit.explain,
	gpucredit.queue, gpucredit.tiers_for, gpucredit.pool_placed_by,
	gpucredit.node_sizes
TO gpucredit_tenant;

GRANT SELECT ON gpucredit.jobs, gpucredit.price, gpucredit.prices,
	gpucredit.tier, gpucredit.accounts, gpucredit.attempts,
	gpucredit.entries, gpucredit.holds
TO gpucredit_tenant;

DO $tenant$
DECLARE
	name text;
BEGIN
	FOREACH name IN ARRAY ARRAY['account', 'alert', 'attempt', 'entry', 'event', 'hold',
		'job']
	LOOP
		EXECUTE format('ALTER TABLE gpucredit.%I ENABLE ROW LEVEL SECURITY',
			name);
		EXECUTE format('CREATE POLICY whoever_may ON gpucredit.%I'
			' FOR SELECT USING (true)', name);
		EXECUTE format('CREATE POLICY tenants_own ON gpucredit.%I'
			' AS RESTRICTIVE FOR SELECT'
			' USING (gpucredit_internal.may_read(org, account))', name);
		EXECUTE format('GRANT SELECT ON gpucredit.%I TO gpucredit_tenant',
			name);
	END LOOP;
END
$tenant$;

/*
 * The views for tools act with their reader's rights, so each is granted to
 * the roles that may read what it reads.
 */
REVOKE ALL ON SCHEMA gpucredit_views FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA gpucredit_views FROM PUBLIC;
GRANT USAGE ON SCHEMA gpucredit_views
TO gpucredit_admin, gpucredit_operator, gpucredit_app, gpucredit_auditor,
	gpucredit_tenant;
GRANT SELECT ON ALL TABLES IN SCHEMA gpucredit_views
TO gpucredit_admin, gpucredit_auditor;
GRANT SELECT ON gpucredit_views.events, gpucredit_views.jobs,
	gpucredit_views.prices, gpucredit_views.tiers
TO gpucredit_operator, gpucredit_app, gpucredit_tenant;
GRANT SELECT ON gpucredit_views.alerts
TO gpucredit_app, gpucredit_tenant;
GRANT SELECT ON gpucredit_views.attempts
TO gpucredit_operator, gpucredit_tenant;
GRANT SELECT ON gpucredit_views.accounts, gpucredit_views.balances,
	gpucredit_views.entries, gpucredit_views.holds
TO gpucredit_tenant;
GRANT SELECT ON gpucredit_views.nodes, gpucredit_views.pools
TO gpucredit_operator;
