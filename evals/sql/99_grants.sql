/*
 * 99_grants.sql: who may do what.  Workers are logins of gpucredit_eval_worker, on
 * machines that curators trust.  They are no agents of nodes, on which tenants'
 * jobs run, and whoever starts runs is none of them.
 */
DO $$
BEGIN
	CREATE ROLE gpucredit_eval_worker NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
	NULL;			/* roles belong to the cluster: another database may have made it */
END
$$;
REVOKE ALL ON SCHEMA gpucredit_eval FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA gpucredit_eval FROM PUBLIC;
REVOKE ALL ON ALL ROUTINES IN SCHEMA gpucredit_eval FROM PUBLIC;
REVOKE ALL ON TYPE gpucredit_eval.subject, gpucredit_eval.bounds, gpucredit_eval.run_result,
	gpucredit_eval.report_result, gpucredit_eval.judge_result
FROM PUBLIC;
GRANT USAGE ON SCHEMA gpucredit_eval TO gpucredit_admin, gpucredit_operator, gpucredit_app,
	gpucredit_eval_worker, gpucredit_auditor, gpucredit_tenant;
GRANT USAGE ON TYPE gpucredit_eval.run_result TO gpucredit_admin, gpucredit_app,
	gpucredit_tenant, gpucredit_eval_worker;
GRANT USAGE ON TYPE gpucredit_eval.report_result, gpucredit_eval.judge_result
TO gpucredit_admin, gpucredit_eval_worker;

GRANT EXECUTE ON FUNCTION gpucredit_eval.create_set, gpucredit_eval.grant_set,
	gpucredit_eval.add_cases, gpucredit_eval.retire_cases, gpucredit_eval.freeze_set,
	gpucredit_eval.cases, gpucredit_eval.set_config, gpucredit_eval.start_run,
	gpucredit_eval.raise_cap, gpucredit_eval.cancel_run, gpucredit_eval.rejudge,
	gpucredit_eval.label, gpucredit_eval.calibrate, gpucredit_eval.judge_name,
	gpucredit_eval.set_stream, gpucredit_eval.sampled, gpucredit_eval.observe,
	gpucredit_eval.stream_state, gpucredit_eval.start_observation, gpucredit_eval.promote, gpucredit_eval.watch_ref,
	gpucredit_eval.watched
TO gpucredit_admin, gpucredit_app, gpucredit_tenant;

/* An application, as which CI may log in, does not say what must pass. */
GRANT EXECUTE ON FUNCTION gpucredit_eval.set_release_gate, gpucredit_eval.set_floor
TO gpucredit_admin, gpucredit_tenant;

GRANT EXECUTE ON FUNCTION gpucredit_eval.gate, gpucredit_eval.verdict, gpucredit_eval.compare,
	gpucredit_eval.results, gpucredit_eval.junit, gpucredit_eval.overruns,
	gpucredit_eval.release_gates
TO gpucredit_admin, gpucredit_app, gpucredit_tenant, gpucredit_auditor;
GRANT EXECUTE ON FUNCTION gpucredit_eval.run_state
TO gpucredit_admin, gpucredit_app, gpucredit_tenant, gpucredit_auditor,
	gpucredit_eval_worker;

GRANT EXECUTE ON FUNCTION gpucredit_eval.open_runs, gpucredit_eval.lease_cases, gpucredit_eval.run_spec,
	gpucredit_eval.report, gpucredit_eval.report_judge, gpucredit_eval.release_case, gpucredit_eval.pace,
	gpucredit_eval.start_watched, gpucredit_eval.finish_observation
TO gpucredit_admin, gpucredit_eval_worker;

GRANT EXECUTE ON FUNCTION gpucredit_eval.set_endpoint
TO gpucredit_admin, gpucredit_operator;

GRANT EXECUTE ON FUNCTION gpucredit_eval.verify
TO gpucredit_admin, gpucredit_operator, gpucredit_auditor;
GRANT SELECT ON gpucredit_eval.event TO gpucredit_admin, gpucredit_auditor;

/* All of it is in a dump. */
DO $$
DECLARE
	t regclass;
BEGIN
	FOR t IN
		SELECT c.oid FROM pg_catalog.pg_class c
		WHERE c.relnamespace = 'gpucredit_eval'::regnamespace AND c.relkind IN ('r', 'S')
	LOOP
		PERFORM pg_catalog.pg_extension_config_dump(t, '');
	END LOOP;
END
$$;
