/*
 * 58_rejudge.sql: another judge evaluates stored outputs.
 *
 * The scores of two judges are not comparable. A run that is judged again
 * copies the answers and checks of its source, and only calls the new judge.
 */
CREATE FUNCTION gpucredit_eval.rejudge(org text, run bigint, config text, key text,
	cap numeric) RETURNS gpucredit_eval.run_result
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET gpucredit.key_space = 'gpucredit_eval'
AS $$
DECLARE
	kept jsonb;
	r gpucredit_eval.run;
	c gpucredit_eval.config;
	old gpucredit_eval.config;
	s gpucredit_eval.subject;
	judge jsonb;
	terms jsonb;
	whole numeric := 0;
	h record;
	number bigint;
	ready integer;
	named text;
BEGIN
	r := gpucredit_eval.require_run(rejudge.org, rejudge.run);
	IF rejudge.cap IS NULL OR rejudge.cap <= 0 OR rejudge.cap <> round(rejudge.cap, 6) THEN
		PERFORM gpucredit_eval.refuse('cap is positive and has at most 6 decimals',
			format('It is %s.', rejudge.cap));
	END IF;
	kept := gpucredit_eval.request_begin(r.org, rejudge.key, 'rejudge',
		jsonb_build_array(r.run, rejudge.config, trim_scale(rejudge.cap)));
	IF kept IS NOT NULL THEN
		RETURN gpucredit_eval.run_result(kept, true);
	END IF;
	c := gpucredit_eval.require_config(r.org, rejudge.config, r.account);
	SELECT * INTO STRICT old FROM gpucredit_eval.config o
	WHERE o.org = r.org AND o.config = r.config AND o.version = r.config_version;
	judge := nullif(c.document -> 'judge', 'null');
	IF c.document - '{judge,gates,serving,preview,max_errors,max_attempts}'::text[]
		<> old.document - '{judge,gates,serving,preview,max_errors,max_attempts}'::text[] OR judge IS NULL
	THEN
		PERFORM gpucredit_eval.refuse(format('config "%s@%s" differs from "%s@%s" by more than its judge',
				c.config, c.version, old.config, old.version),
			'Stored outputs answer the sets, parameters and template of their own run.');
	END IF;
	IF r.purpose = 'preview' THEN
		PERFORM gpucredit_eval.wrong_state(format('run %s is a preview', r.run),
			'It has answers of some of the cases.', 'Name a run of another purpose.');
	END IF;
	IF r.state <> 'finished' THEN
		PERFORM gpucredit_eval.wrong_state(format('run %s is %s', r.run, r.state),
			'Its answers are not complete.', 'Wait until it is finished.');
	END IF;
	FOR named IN SELECT o.set FROM gpucredit_eval.run_set o
		WHERE o.org = r.org AND o.run = r.run ORDER BY o.place
	LOOP
		PERFORM gpucredit_eval.require_set(r.org, named, 'run', r.account);
	END LOOP;
	s.endpoint := r.model_terms ->> 'endpoint';
	s.name := r.model;
	s.registry_version := r.registry_version;
	PERFORM gpucredit_eval.check_judge(r.org, s, judge);
	/*
	 * Judging the same answers by other rubrics would reveal each of them, so
	 * it counts as a run of a held-out set.
	 */
	IF NOT gpucredit_eval.check_held_out(r.org, c, r.purpose, s) THEN
		RETURN gpucredit_eval.deny_run(r.org, rejudge.key, 'quota_exceeded');
	END IF;
	terms := gpucredit_eval.endpoint_terms(gpucredit_eval.require_endpoint(r.org,
		judge ->> 'endpoint'), judge ->> 'model') || jsonb_build_object('model', judge -> 'model');
	IF terms ->> 'price_in' IS NULL THEN
		RETURN gpucredit_eval.deny_run(r.org, rejudge.key, 'no_price');
	END IF;
	IF r.purpose = 'production_gate' AND gpucredit_eval.judge_status(r.org, judge) <> 'calibrated' THEN
		RETURN gpucredit_eval.deny_run(r.org, rejudge.key, 'not_calibrated');
	END IF;
	IF r.held_out THEN
		whole := gpucredit_eval.whole_cost(c, '{"price_in": 0, "price_out": 0}', terms,
			'{"price_in": 0, "price_out": 0}');
		IF rejudge.cap < whole THEN
			PERFORM gpucredit_eval.held_out(format('a cap of %s does not suffice for all cases', rejudge.cap),
				format('Pass %s at least.', ceil(whole * 1000000) / 1000000));
		END IF;
	END IF;
	SELECT * INTO h FROM gpucredit.hold(r.org, r.account,
		gpucredit_eval.ledger_key('hold', rejudge.key), rejudge.cap, '24 hours');
	IF h.status = 'denied' THEN
		RETURN gpucredit_eval.deny_run(r.org, rejudge.key, h.reason);
	END IF;
	INSERT INTO gpucredit_eval.run AS n (org, account, config, config_version, purpose, model,
		model_terms, judge_terms, registry_model, registry_version, oid, source, cases, set_cases, cap,
		hold, deadline, gpu_held, started_by, started_at, held_out, whole_max)
	VALUES (r.org, r.account, c.config, c.version, r.purpose, r.model, r.model_terms, terms,
		r.registry_model, r.registry_version, r.oid, r.run, r.cases, r.set_cases, rejudge.cap, h.hold,
		h.expires_at, 0, gpucredit_eval.caller(), gpucredit.now(), r.held_out, whole)
	RETURNING n.run INTO number;
	INSERT INTO gpucredit_eval.run_set
	SELECT o.org, number, o.place, o.set, o.version FROM gpucredit_eval.run_set o
	WHERE o.org = r.org AND o.run = r.run;
	/*
	 * A case without an output keeps its error; a case on which the judge
	 * failed does not.
	 */
	INSERT INTO gpucredit_eval.result
	SELECT o.org, number, o."case", 0, o.output, o.checks, o.usage, o.digest, o.passed,
		CASE WHEN o.output IS NULL THEN o.error END,
		CASE WHEN o.output IS NULL OR NOT o.passed OR k.rubric IS NULL THEN o.score END,
		0, gpucredit.now()
	FROM gpucredit_eval.result o
		JOIN gpucredit_eval.golden_case k ON k.org = o.org AND k."case" = o."case"
	WHERE o.org = r.org AND o.run = r.run;
	SELECT count(*) INTO ready FROM gpucredit_eval.result o
	WHERE o.org = r.org AND o.run = number AND o.score IS NOT NULL;
	UPDATE gpucredit_eval.run o SET finished = ready WHERE o.org = r.org AND o.run = number;
	PERFORM gpucredit_eval.record(r.org, 'rejudge', NULL, jsonb_build_object('run', number,
		'source', r.run, 'config', c.config, 'version', c.version, 'cap', rejudge.cap));
	RETURN gpucredit_eval.run_result(gpucredit_eval.request_end(r.org, rejudge.key,
		jsonb_build_object('run', number, 'status', 'granted', 'held', h.held,
			'cases', r.cases)), false);
END
$$;
COMMENT ON FUNCTION gpucredit_eval.rejudge(text, bigint, text, text, numeric) IS
'Runs: makes a run that asks another judge about the stored answers of a finished one. Workers lease its cases.
config: differs from the run''s by its judge and gates alone. cap: credits.
Result: as start_run. Errors: UC201 key used with other arguments; UC601 no such run or config, or a set that the account may no longer run; UC602 the run has not finished, or is a preview; UC604 held-out cases, as start_run; 22023.';
