/*
 * 55_report.sql: workers' reports.
 *
 * The first report of a case is final, and so is the first report of each
 * sample. A repeated report changes nothing; one that differs is recorded.
 * Rows are locked in the order lease, result.
 */

CREATE FUNCTION gpucredit_eval.check_usage(usage jsonb) RETURNS void
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_eval_check_usage';
COMMENT ON FUNCTION gpucredit_eval.check_usage(jsonb) IS
'Internal: refuses what is no usage (22023). NULL is one: not known, so that the call counts in full.';

/*
 * Returns the cost of a call, limited to the reserved amount, so that the cap
 * holds whatever usage an endpoint reports. A higher cost is recorded for the
 * run's owner, and ends the run.
 */
CREATE FUNCTION gpucredit_eval.call_cost(r gpucredit_eval.run, terms jsonb, usage jsonb,
	bound numeric, "case" bigint) RETURNS numeric
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
	cost numeric;
BEGIN
	IF call_cost.usage IS NULL THEN
		RETURN call_cost.bound;
	END IF;
	cost := gpucredit_eval.token_cost(call_cost.terms,
		(call_cost.usage ->> 'prompt_tokens')::numeric,
		(call_cost.usage ->> 'completion_tokens')::numeric)
		+ coalesce(gpucredit_eval.token_cost((r).embedding_terms,
			(call_cost.usage #>> '{embedding,prompt_tokens}')::numeric, 0), 0);
	IF cost > call_cost.bound THEN
		INSERT INTO gpucredit_eval.overrun (org, run, "case", endpoint, usage, cost, bound, reported_at)
		VALUES ((r).org, (r).run, call_cost."case", call_cost.terms ->> 'endpoint', call_cost.usage,
			cost, call_cost.bound, gpucredit.now());
		PERFORM gpucredit_eval.record((r).org, 'cost_over_bound', NULL,
			jsonb_build_object('run', (r).run, 'case', call_cost."case", 'cost', cost,
				'bound', call_cost.bound, 'endpoint', call_cost.terms ->> 'endpoint'));
		RETURN call_cost.bound;
	END IF;
	RETURN cost;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.call_cost(gpucredit_eval.run, jsonb, jsonb, numeric, bigint) IS
'Internal: credits for a call, at most what was set aside for it.';

/*
 * Whether costs should be added to the run now. In a large run this is done
 * ten times a second, but near its end each report may be the last.
 */
CREATE FUNCTION gpucredit_eval.account_due(r gpucredit_eval.run) RETURNS boolean
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	SELECT (r).cases - (r).finished <= 100
		OR clock_timestamp() NOT BETWEEN (r).accounted_at AND (r).accounted_at + interval '0.1 s';
END;
COMMENT ON FUNCTION gpucredit_eval.account_due(gpucredit_eval.run) IS
'Internal: should a report take costs over?';

/*
 * Adds costs to the run, unless another session has locked it and so will do
 * that.
 */
CREATE FUNCTION gpucredit_eval.account_if_free(org text, run bigint) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
	r gpucredit_eval.run;
BEGIN
	SELECT * INTO r FROM gpucredit_eval.run o
	WHERE o.org = account_if_free.org AND o.run = account_if_free.run
		AND gpucredit_eval.account_due(o)
	FOR NO KEY UPDATE SKIP LOCKED;
	IF FOUND THEN
		PERFORM gpucredit_eval.account_for(r);
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.account_if_free(text, bigint) IS
'Internal: account_for(), unless that was just now or another call has the run locked.';

/*
 * Returns the checks to store if a worker's report differs from the case's own
 * checks: types and weights are the case's, and the result of each check is
 * the library's decision, if it has made one. "decided" has an element for
 * each check; NULL means that the worker's result counts. A check that could
 * not be executed fails its case.
 */
CREATE FUNCTION gpucredit_eval.settle_checks(org text, run bigint, "case" bigint, own jsonb,
	reported jsonb, decided boolean[]) RETURNS jsonb
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	settled jsonb;
	failed boolean := jsonb_path_exists(settle_checks.reported, '$[*].error');
BEGIN
	SELECT coalesce(jsonb_agg(p.r || jsonb_build_object('type', p.k -> 'type', 'weight', p.weight,
			'pass', NOT failed AND (p.passes OR p.weight = 0),
			'score', CASE WHEN failed THEN 0 WHEN p.decided IS NULL AND p.r ? 'score' THEN (p.r ->> 'score')::numeric
				WHEN p.passes THEN 1 ELSE 0 END) ORDER BY p.i), '[]')
	INTO settled
	FROM (SELECT k.k, k.i, r.r, settle_checks.decided[k.i] AS decided, coalesce((k.k ->> 'weight')::numeric, 1) AS weight,
			coalesce(settle_checks.decided[k.i], (r.r ->> 'pass')::boolean) AS passes
		FROM jsonb_array_elements(settle_checks.own) WITH ORDINALITY k (k, i)
			JOIN jsonb_array_elements(settle_checks.reported) WITH ORDINALITY r (r, i) USING (i)) p;
	IF NOT failed THEN
		PERFORM gpucredit_eval.record(settle_checks.org, 'checks_differ', NULL, jsonb_build_object(
			'run', settle_checks.run, 'case', settle_checks."case"));
	END IF;
	RETURN settled;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.settle_checks(text, bigint, bigint, jsonb, jsonb, boolean[]) IS
'Internal: the checks of a report, with the case''s own types and weights, and what the library decided.';

CREATE TYPE gpucredit_eval.report_result AS (
	action text,
	score numeric,
	cost numeric,
	replayed boolean
);

CREATE FUNCTION gpucredit_eval.report(org text, run bigint, "case" bigint, attempt integer,
	output bytea, checks jsonb, usage jsonb) RETURNS gpucredit_eval.report_result
LANGUAGE c VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_eval_report';
COMMENT ON FUNCTION gpucredit_eval.report(text, bigint, bigint, integer, bytea, jsonb, jsonb) IS
'Workers: reports what the model answered to a leased case. The first report of a case stands.
output: at most 1 MiB; NULL: the call failed. checks: an array of {"type", "pass", "score", "weight", ..}, one for each check of the case in its order; the case''s own weights count, and equals, contains, starts-with, is-json without a schema, exact_match without a filter, all without a transform, and multiple_choice and loglikelihood, are decided again here: that stands, and a difference is recorded. Without output {"error": why}. usage: {"prompt_tokens", "completion_tokens"}, and of a case with checks of type similar "embedding": {"prompt_tokens"}; NULL: not known, so that the call counts in full.
Result: action judge: ask the judge; done; retry: the case will be leased again. Its score, 0 to 1, once it has one; what the call cost, in credits.
Errors: UC603 no such case or attempt; 42501 another role leased it; 22023 also for checks that are not the case''s.';

/*
 * Checks that the caller leased the case, so that a role that may not measure
 * a run cannot report its cases.
 */
CREATE FUNCTION gpucredit_eval.check_leaseholder(leased_by text) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF check_leaseholder.leased_by <> gpucredit_eval.caller() THEN
		RAISE EXCEPTION 'another role leased the case'
			USING ERRCODE = 'insufficient_privilege',
			DETAIL = format('It is "%s".', check_leaseholder.leased_by),
			HINT = 'Let one role lease a case and report it.';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.check_leaseholder(text) IS
'Internal: refuses a report by another role than the one that leased the case (42501).';

/*
 * Handles the report of a call that failed, a repeated report, or the report
 * of a second worker. The first report is final. The cost of a second worker's
 * call counts, too; "charged" tells that its lease includes the cost already.
 * While the judge's samples are missing, the last lease stays open for them.
 */
CREATE FUNCTION gpucredit_eval.report_else(org text, run bigint, "case" bigint,
	attempt integer, failed boolean, checks jsonb, usage jsonb, digest bytea, charged boolean)
RETURNS gpucredit_eval.report_result
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
	x record;
	r gpucredit_eval.run;
	l gpucredit_eval.lease;
	o gpucredit_eval.result;
	why text;
	judging boolean;
	result gpucredit_eval.report_result;
BEGIN
	IF report_else.failed THEN
		PERFORM gpucredit_eval.check_words('checks without an output', report_else.checks, '{error}');
		why := left(coalesce(report_else.checks ->> 'error', 'no output'), 1000);
	END IF;
	SELECT u AS run, m AS lease INTO x
	FROM gpucredit_eval.lease m JOIN gpucredit_eval.run u ON u.org = m.org AND u.run = m.run
	WHERE m.org = report_else.org AND m.run = report_else.run
		AND m."case" = report_else."case" AND m.attempt = report_else.attempt
	FOR NO KEY UPDATE OF m;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'run % of "%" has no attempt % of case %', report_else.run,
			left(report_else.org, 64), report_else.attempt, report_else."case"
			USING ERRCODE = 'UC603', DETAIL = 'Nobody leased it.',
			HINT = 'Report what lease_cases() returned.';
	END IF;
	r := x.run;
	l := x.lease;
	PERFORM gpucredit_eval.check_leaseholder(l.leased_by);
	SELECT * INTO o FROM gpucredit_eval.result n
	WHERE n.org = r.org AND n.run = r.run AND n."case" = l."case";
	judging := o.run IS NOT NULL AND o.score IS NULL
		AND NOT EXISTS (SELECT FROM gpucredit_eval.lease m
			WHERE m.org = r.org AND m.run = r.run AND m."case" = l."case" AND m.attempt > l.attempt);
	result.replayed := o.run IS NOT NULL OR NOT (l.state IN ('open', 'lost') AND NOT l.accounted);
	IF NOT result.replayed OR report_else.charged
		OR l.state IN ('open', 'lost') AND NOT l.called AND NOT l.accounted
	THEN
		IF NOT report_else.charged THEN
			result.cost := gpucredit_eval.call_cost(r, r.model_terms, report_else.usage,
				l.call_max, l."case");
		END IF;
		UPDATE gpucredit_eval.lease m
		SET cost = m.cost + coalesce(result.cost, 0), called = true, finishes = false,
			open_max = CASE WHEN judging THEN m.max_cost - m.call_max - m.sample_max
				* (SELECT count(*) FROM gpucredit_eval.judgement j
					WHERE j.org = r.org AND j.run = r.run AND j."case" = l."case") ELSE 0 END,
			error = CASE WHEN result.replayed THEN m.error ELSE why END,
			state = CASE WHEN judging THEN 'open'
				WHEN result.replayed OR m.state = 'lost' THEN 'closed' ELSE 'retry' END,
			expires_at = CASE WHEN result.replayed THEN m.expires_at ELSE gpucredit.now() END
		WHERE m.org = r.org AND m.run = r.run AND m."case" = l."case" AND m.attempt = l.attempt;
		PERFORM gpucredit_eval.account_if_free(r.org, r.run);
	END IF;
	IF NOT result.replayed THEN
		result.action := 'retry';
		RETURN result;
	END IF;

	IF o.digest IS DISTINCT FROM report_else.digest
		AND (o.run IS NOT NULL OR why IS DISTINCT FROM l.error)
	THEN
		PERFORM gpucredit_eval.record(r.org, 'second_report', NULL,
			jsonb_build_object('run', r.run, 'case', l."case", 'attempt', l.attempt,
				'digest', encode(report_else.digest, 'hex')));
	END IF;
	IF o.run IS NULL AND l.state = 'lost' THEN
		/*
		 * The run has ended, and counted the lease with the whole reserved
		 * amount.
		 */
		PERFORM gpucredit_eval.record(r.org, 'late_report', NULL, jsonb_build_object('run', r.run,
			'case', l."case", 'attempt', l.attempt));
	END IF;
	result.action := CASE WHEN o.run IS NULL AND l.error IS NOT NULL THEN 'retry'
		WHEN o.run IS NOT NULL AND o.score IS NULL THEN 'judge' ELSE 'done' END;
	result.score := o.score;
	result.cost := coalesce(o.cost, l.cost);
	RETURN result;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.report_else(text, bigint, bigint, integer, boolean, jsonb, jsonb, bytea, boolean) IS
'Internal: answers every report but the first good one of a case. Errors: UC603; 22023.';

CREATE TYPE gpucredit_eval.judge_result AS (
	score integer,
	parsed boolean,
	replayed boolean
);

/*
 * Parses a judge's verdict, which is the JSON object {"score": 1..5, "reason":
 * "..."} and nothing else. It may be surrounded by white space and one
 * Markdown fence. Any other text counts as score 1.
 */
CREATE FUNCTION gpucredit_eval.parse_verdict(raw bytea, OUT score integer, OUT reason text,
	OUT parsed boolean)
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_eval_parse_verdict';
COMMENT ON FUNCTION gpucredit_eval.parse_verdict(bytea) IS
'Judges: reads a judge''s answer: one JSON object {"score": 1 to 5, "reason": text}, which may be fenced. Anything else is the score 1, parsed false. It raises no error.';

CREATE FUNCTION gpucredit_eval.report_judge(org text, run bigint, "case" bigint,
	sample integer, raw bytea, usage jsonb) RETURNS gpucredit_eval.judge_result
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r gpucredit_eval.run;
	l gpucredit_eval.lease;
	o gpucredit_eval.result;
	j gpucredit_eval.judgement;
	v record;
	judge jsonb;
	result gpucredit_eval.judge_result;
	given integer;
	cost numeric;
	unheard numeric;
BEGIN
	PERFORM gpucredit_eval.check_usage(report_judge.usage);
	SELECT * INTO r FROM gpucredit_eval.run u
	WHERE u.org = report_judge.org AND u.run = report_judge.run;
	IF FOUND THEN
		SELECT * INTO l FROM gpucredit_eval.lease m
		WHERE m.org = r.org AND m.run = r.run AND m."case" = report_judge."case"
		ORDER BY m.attempt DESC LIMIT 1
		FOR NO KEY UPDATE;
		SELECT * INTO o FROM gpucredit_eval.result res
		WHERE res.org = r.org AND res.run = r.run AND res."case" = report_judge."case"
		FOR NO KEY UPDATE;
		SELECT c.document -> 'judge' INTO judge FROM gpucredit_eval.config c
		WHERE c.org = r.org AND c.config = r.config AND c.version = r.config_version;
	END IF;
	IF o.org IS NULL OR l.org IS NULL OR o.error IS NULL AND (NOT o.passed OR NOT l.judged
			OR NOT coalesce(report_judge.sample BETWEEN 1 AND (judge ->> 'samples')::integer, false))
	THEN
		RAISE EXCEPTION 'case % of run % of "%" has no sample % to judge',
			report_judge."case", report_judge.run, left(report_judge.org, 64), report_judge.sample
			USING ERRCODE = 'UC603', DETAIL = 'Nobody reported an answer that a judge is to rate.',
			HINT = 'Ask the judge where report() returned action "judge".';
	END IF;
	IF NOT EXISTS (SELECT FROM gpucredit_eval.lease m WHERE m.org = r.org AND m.run = r.run
		AND m."case" = report_judge."case" AND m.leased_by = gpucredit_eval.caller())
	THEN
		PERFORM gpucredit_eval.check_leaseholder(l.leased_by);
	END IF;
	SELECT * INTO j FROM gpucredit_eval.judgement q
	WHERE q.org = r.org AND q.run = r.run AND q."case" = report_judge."case"
		AND q.sample = report_judge.sample;
	IF FOUND OR o.score IS NOT NULL OR l.accounted THEN
		IF j.raw IS DISTINCT FROM substring(report_judge.raw FOR 65536) THEN
			PERFORM gpucredit_eval.record(r.org, 'second_judgement', NULL,
				jsonb_build_object('run', r.run, 'case', report_judge."case",
					'sample', report_judge.sample));
		END IF;
		result.score := j.score;
		result.parsed := coalesce(j.parsed, false);
		result.replayed := true;
		RETURN result;
	END IF;

	cost := gpucredit_eval.call_cost(r, r.judge_terms, report_judge.usage, l.sample_max,
		report_judge."case");
	/*
	 * An earlier worker's answer is being judged, and the call of this lease
	 * may have been made, too.
	 */
	unheard := CASE WHEN l.called THEN 0 ELSE l.call_max END;
	IF report_judge.raw IS NULL THEN
		/*
		 * The judge's call failed: the case is leased again, only for the
		 * judge. All unreported samples may have cost something.
		 */
		cost := CASE WHEN report_judge.usage IS NULL THEN l.open_max ELSE cost + unheard END;
		UPDATE gpucredit_eval.lease m
		SET cost = m.cost + x.cost, open_max = 0, called = true, error = 'the judge failed',
			state = CASE m.state WHEN 'lost' THEN 'closed' ELSE 'retry' END,
			expires_at = gpucredit.now()
		FROM (SELECT cost) x (cost)
		WHERE m.org = r.org AND m.run = r.run AND m."case" = l."case" AND m.attempt = l.attempt;
		PERFORM gpucredit_eval.account_if_free(r.org, r.run);
		result.parsed := false;
		result.replayed := false;
		RETURN result;
	END IF;
	v := gpucredit_eval.parse_verdict(report_judge.raw);
	INSERT INTO gpucredit_eval.judgement
	VALUES (r.org, r.run, report_judge."case", report_judge.sample,
		substring(report_judge.raw FOR 65536), report_judge.usage, v.score, v.parsed,
		v.reason, cost, gpucredit.now());
	SELECT count(*), (percentile_disc(0.5) WITHIN GROUP (ORDER BY q.score) - 1) / 4.0
	INTO given, o.score
	FROM gpucredit_eval.judgement q
	WHERE q.org = r.org AND q.run = r.run AND q."case" = report_judge."case";
	UPDATE gpucredit_eval.lease m
	SET cost = m.cost + x.cost + CASE WHEN given = x.samples THEN unheard ELSE 0 END,
		called = m.called OR given = x.samples,
		open_max = CASE WHEN given = x.samples THEN 0
			ELSE greatest(m.open_max - m.sample_max, 0) END,
		state = CASE WHEN given = x.samples THEN 'closed' ELSE m.state END,
		finishes = given = x.samples
	FROM (SELECT cost, (judge ->> 'samples')::integer) x (cost, samples)
	WHERE m.org = r.org AND m.run = r.run AND m."case" = l."case" AND m.attempt = l.attempt;
	IF given = (judge ->> 'samples')::integer THEN
		UPDATE gpucredit_eval.result res SET score = o.score
		WHERE res.org = r.org AND res.run = r.run AND res."case" = report_judge."case";
		PERFORM gpucredit_eval.account_if_free(r.org, r.run);
	END IF;
	result.score := v.score;
	result.parsed := v.parsed;
	result.replayed := false;
	RETURN result;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.report_judge(text, bigint, bigint, integer, bytea, jsonb) IS
'Workers: reports what the judge answered, as it came. The first report of a sample stands; the case''s score is (median of all samples - 1) / 4.
raw: NULL: the call failed, and the case will be leased again; report all other samples before, as the lease ends. usage: as in report.
Result: the score read, 1 to 5; parsed: it was a verdict, else it counts 1. Errors: UC603 no such sample; 22023.';
