/*
 * 99_grants.sql: who may do what. Workers log in as members of
 * gpucredit_eval_worker, on machines that curators trust. They are not agents
 * of nodes, on which tenants' jobs run, and a role that starts runs is not a
 * worker. Membership of gpucredit_eval_rater gives nothing: it takes scores
 * from the sight of tenants who rate answers by hand.
 */
DO $$
DECLARE
	new_role text;
BEGIN
	FOREACH new_role IN ARRAY '{gpucredit_eval_worker,gpucredit_eval_rater}'::text[] LOOP
		BEGIN
			EXECUTE format('CREATE ROLE %I NOLOGIN', new_role);
		EXCEPTION WHEN duplicate_object OR unique_violation THEN
			NULL;		/* roles belong to the cluster, so another database may
						 * have created it */
		END;
	END LOOP;
END
$$;
REVOKE ALL ON SCHEMA gpucredit_eval FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA gpucredit_eval FROM PUBLIC;
REVOKE ALL ON ALL ROUTINES IN SCHEMA gpucredit_eval FROM PUBLIC;
REVOKE ALL ON TYPE gpucredit_eval.subject, gpucredit_eval.bounds, gpucredit_eval.run_result,
	gpucredit_eval.report_result, gpucredit_eval.judge_result, gpucredit_eval.run_summary,
	gpucredit_eval.stream_summary
FROM PUBLIC;
GRANT USAGE ON SCHEMA gpucredit_eval TO gpucredit_admin, gpucredit_operator, gpucredit_app,
	gpucredit_eval_worker, gpucredit_auditor, gpucredit_tenant;
GRANT USAGE ON TYPE gpucredit_eval.run_result TO gpucredit_admin, gpucredit_app,
	gpucredit_tenant, gpucredit_eval_worker;
GRANT USAGE ON TYPE gpucredit_eval.run_summary, gpucredit_eval.stream_summary
TO gpucredit_admin, gpucredit_app, gpucredit_tenant, gpucredit_auditor;
GRANT USAGE ON TYPE gpucredit_eval.report_result, gpucredit_eval.judge_result
TO gpucredit_admin, gpucredit_eval_worker;

GRANT EXECUTE ON FUNCTION gpucredit_eval.create_set, gpucredit_eval.grant_set,
	gpucredit_eval.add_cases, gpucredit_eval.retire_cases, gpucredit_eval.freeze_set,
	gpucredit_eval.cases, gpucredit_eval.set_config, gpucredit_eval.start_run,
	gpucredit_eval.raise_cap, gpucredit_eval.cancel_run, gpucredit_eval.rejudge,
	gpucredit_eval.label, gpucredit_eval.to_label, gpucredit_eval.calibrate, gpucredit_eval.judge_name,
	gpucredit_eval.set_stream, gpucredit_eval.set_rate, gpucredit_eval.add_feedback,
	gpucredit_eval.add_case_from, gpucredit_eval.kept_answers, gpucredit_eval.sampled, gpucredit_eval.observe,
	gpucredit_eval.stream_state, gpucredit_eval.start_observation, gpucredit_eval.promote, gpucredit_eval.watch_ref,
	gpucredit_eval.watched
TO gpucredit_admin, gpucredit_app, gpucredit_tenant;

/*
 * An application, whose login CI may use, may not define what versions must
 * pass.
 */
GRANT EXECUTE ON FUNCTION gpucredit_eval.set_release_gate, gpucredit_eval.set_floor
TO gpucredit_admin, gpucredit_tenant;

GRANT EXECUTE ON FUNCTION gpucredit_eval.gate, gpucredit_eval.verdict, gpucredit_eval.compare,
	gpucredit_eval.results, gpucredit_eval.junit, gpucredit_eval.overruns,
	gpucredit_eval.release_gates, gpucredit_eval.sets, gpucredit_eval.configs,
	gpucredit_eval.runs, gpucredit_eval.score_history, gpucredit_eval.compare_cases,
	gpucredit_eval.calibrations, gpucredit_eval.streams, gpucredit_eval.observations
TO gpucredit_admin, gpucredit_app, gpucredit_tenant, gpucredit_auditor;
GRANT EXECUTE ON FUNCTION gpucredit_eval.run_state
TO gpucredit_admin, gpucredit_app, gpucredit_tenant, gpucredit_auditor,
	gpucredit_eval_worker;

GRANT EXECUTE ON FUNCTION gpucredit_eval.open_runs, gpucredit_eval.lease_cases, gpucredit_eval.run_spec,
	gpucredit_eval.report, gpucredit_eval.report_judge, gpucredit_eval.release_case, gpucredit_eval.pace,
	gpucredit_eval.start_watched, gpucredit_eval.finish_observation
TO gpucredit_admin, gpucredit_eval_worker;

GRANT EXECUTE ON FUNCTION gpucredit_eval.upkeep
TO gpucredit_admin, gpucredit_operator, gpucredit_eval_worker;

GRANT EXECUTE ON FUNCTION gpucredit_eval.set_endpoint
TO gpucredit_admin, gpucredit_operator;

GRANT EXECUTE ON FUNCTION gpucredit_eval.verify
TO gpucredit_admin, gpucredit_operator, gpucredit_auditor;
GRANT SELECT ON gpucredit_eval.event TO gpucredit_admin, gpucredit_auditor;

/* A dump contains all tables and sequences. */
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
