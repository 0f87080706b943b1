/*
 * 55_report.sql: what workers report.
 *
 * The first report of a case stands, and the first of each sample.  A repeated
 * one changes nothing; one that differs is recorded.  Rows are locked in the
 * order lease, result.
 */

/* A usage, or NULL: not known, so that the call counts in full. */
CREATE FUNCTION gpucredit_eval.check_usage(usage jsonb) RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
	IF check_usage.usage IS NULL THEN
		RETURN;
	END IF;
	IF jsonb_typeof(check_usage.usage) <> 'object'
		OR jsonb_typeof(check_usage.usage -> 'prompt_tokens') IS DISTINCT FROM 'number'
		OR jsonb_typeof(check_usage.usage -> 'completion_tokens') IS DISTINCT FROM 'number'
		OR (check_usage.usage ->> 'prompt_tokens')::numeric NOT BETWEEN 0 AND 1000000000
		OR (check_usage.usage ->> 'completion_tokens')::numeric NOT BETWEEN 0 AND 1000000000
		OR (check_usage.usage ->> 'prompt_tokens')::numeric % 1 <> 0
		OR (check_usage.usage ->> 'completion_tokens')::numeric % 1 <> 0
		OR octet_length(check_usage.usage::text) > 8192
	THEN
		PERFORM gpucredit_eval.refuse('usage has whole prompt_tokens and completion_tokens, 0 or more',
			format('It is %s.', left(check_usage.usage::text, 200)),
			'Pass NULL where the endpoint did not say: the call then counts in full.');
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.check_usage(jsonb) IS
'Internal: refuses what is no usage (22023).';

/*
 * What a call cost.  It is never more than what was set aside: the cap holds
 * whatever an endpoint says, and who runs it sees the record.
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
		(call_cost.usage ->> 'completion_tokens')::numeric);
	IF cost > call_cost.bound THEN
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
 * Takes costs over, if nobody else has the run locked: who has will do it.  In
 * a large run ten times a second suffice, but near its end each report may be
 * the last.
 */
CREATE FUNCTION gpucredit_eval.account_if_free(r gpucredit_eval.run) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
	IF r.cases - r.finished > 100
		AND clock_timestamp() BETWEEN r.accounted_at AND r.accounted_at + interval '0.1 s'
	THEN
		RETURN;
	END IF;
	SELECT * INTO r FROM gpucredit_eval.run o
	WHERE o.org = r.org AND o.run = r.run FOR NO KEY UPDATE SKIP LOCKED;
	IF FOUND THEN
		PERFORM gpucredit_eval.account_for(r);
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.account_if_free(gpucredit_eval.run) IS
'Internal: account_for(), unless that was just now or another call has the run locked.';

CREATE TYPE gpucredit_eval.report_result AS (
	action text,
	score numeric,
	cost numeric,
	replayed boolean
);

/*
 * A weighted score, and whether it passes: by the threshold, or each check
 * passes.  Of no checks all pass.
 */
CREATE FUNCTION gpucredit_eval.checks_score(checks jsonb, threshold numeric,
	OUT passed boolean, OUT score numeric)
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
	weights numeric;
BEGIN
	IF jsonb_typeof(checks_score.checks) IS DISTINCT FROM 'array'
		OR jsonb_path_exists(checks_score.checks, 'lax $[*] ? (@.type() != "object"'
			' || !exists(@.pass) || @.pass.type() != "boolean"'
			' || exists(@.score ? (@.type() != "number" || @ < 0 || @ > 1))'
			' || exists(@.weight ? (@.type() != "number" || @ < 0 || @ > 1000000)))')
		OR octet_length(checks_score.checks::text) > 1048576
	THEN
		PERFORM gpucredit_eval.refuse('checks is an array of {"pass", "score", "weight", ..}',
			'pass is true or false, score 0 to 1, weight 0 or more.');
	END IF;
	SELECT sum(w), sum(w * coalesce((c ->> 'score')::numeric, (c ->> 'pass')::boolean::integer)),
		coalesce(bool_and((c ->> 'pass')::boolean), true)
	INTO weights, checks_score.score, checks_score.passed
	FROM jsonb_array_elements(checks_score.checks) c
		CROSS JOIN LATERAL (SELECT coalesce((c ->> 'weight')::numeric, 1)) v (w);
	checks_score.score := CASE WHEN weights > 0 THEN checks_score.score / weights
		WHEN weights = 0 THEN 0 ELSE 1 END;
	IF checks_score.threshold IS NOT NULL THEN
		checks_score.passed := checks_score.score >= checks_score.threshold;
	ELSE
		checks_score.score := checks_score.passed::integer;
	END IF;
	IF NOT checks_score.passed THEN
		checks_score.score := 0;
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.checks_score(jsonb, numeric) IS
'Internal: whether a case''s checks pass, and its score if no judge is asked. Errors: 22023.';

/*
 * A repetition, or a second worker's report: the first stands.  What a second
 * worker's call cost counts, too.
 */
CREATE FUNCTION gpucredit_eval.report_again(r gpucredit_eval.run, l gpucredit_eval.lease,
	o gpucredit_eval.result, print bytea, failed text, usage jsonb)
RETURNS gpucredit_eval.report_result
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
	call_cost numeric;
	result gpucredit_eval.report_result;
BEGIN
	IF o.digest IS DISTINCT FROM print AND (o.run IS NOT NULL OR failed IS DISTINCT FROM l.error) THEN
		PERFORM gpucredit_eval.record(r.org, 'second_report', NULL,
			jsonb_build_object('run', r.run, 'case', l."case", 'attempt', l.attempt,
				'digest', encode(print, 'hex')));
	END IF;
	IF o.run IS NOT NULL AND o.attempt <> l.attempt AND l.state IN ('open', 'lost')
		AND NOT l.accounted AND l.call_max > 0
	THEN
		call_cost := gpucredit_eval.call_cost(r, r.model_terms, usage, l.call_max, l."case");
		UPDATE gpucredit_eval.lease m
		SET cost = m.cost + call_cost, open_max = 0, state = 'closed'
		WHERE m.org = r.org AND m.run = r.run AND m."case" = l."case" AND m.attempt = l.attempt;
		PERFORM gpucredit_eval.account_if_free(r);
	END IF;
	IF o.run IS NULL AND l.state = 'lost' THEN
		/* the run has ended, and counted the lease in full */
		PERFORM gpucredit_eval.record(r.org, 'late_report', NULL, jsonb_build_object('run', r.run,
			'case', l."case", 'attempt', l.attempt));
	END IF;
	result.action := CASE WHEN o.run IS NULL AND l.error IS NOT NULL THEN 'retry'
		WHEN o.run IS NOT NULL AND o.score IS NULL THEN 'judge' ELSE 'done' END;
	result.score := o.score;
	result.cost := coalesce(o.cost, l.cost);
	result.replayed := true;
	RETURN result;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.report_again(gpucredit_eval.run, gpucredit_eval.lease, gpucredit_eval.result, bytea, text, jsonb) IS
'Internal: answers a report of a case that is reported, or of a lease that has ended.';

CREATE FUNCTION gpucredit_eval.report(org text, run bigint, "case" bigint, attempt integer,
	output bytea, checks jsonb, usage jsonb) RETURNS gpucredit_eval.report_result
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	x record;
	r gpucredit_eval.run;
	l gpucredit_eval.lease;
	o gpucredit_eval.result;
	s record;
	print bytea;
	failed text;
	call_cost numeric;
	result gpucredit_eval.report_result;
BEGIN
	PERFORM gpucredit_eval.check_usage(report.usage);
	IF octet_length(report.output) > 1048576 THEN
		PERFORM gpucredit_eval.refuse('an output has at most 1 MiB',
			format('It has %s bytes.', octet_length(report.output)));
	END IF;
	IF report.output IS NULL THEN
		PERFORM gpucredit_eval.check_words('checks without an output', report.checks, '{error}');
		failed := left(coalesce(report.checks ->> 'error', 'no output'), 1000);
	END IF;
	SELECT u AS run, m AS lease, g.threshold, g.rubric IS NOT NULL AS judged INTO x
	FROM gpucredit_eval.lease m
		JOIN gpucredit_eval.run u ON u.org = m.org AND u.run = m.run
		JOIN gpucredit_eval.golden_case g ON g.org = m.org AND g."case" = m."case"
	WHERE m.org = report.org AND m.run = report.run AND m."case" = report."case"
		AND m.attempt = report.attempt
	FOR NO KEY UPDATE OF m;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'run % of "%" has no attempt % of case %', report.run,
			left(report.org, 64), report.attempt, report."case"
			USING ERRCODE = 'UC603', DETAIL = 'Nobody leased it.',
			HINT = 'Report what lease_cases() returned.';
	END IF;
	r := x.run;
	l := x.lease;
	print := sha256(coalesce(report.output, '\x') || convert_to(
		jsonb_build_array(report.output IS NULL, report.checks, report.usage)::text, 'UTF8'));

	IF l.state IN ('open', 'lost') AND NOT l.accounted THEN
		call_cost := gpucredit_eval.call_cost(r, r.model_terms, report.usage, l.call_max,
			report."case");
		IF failed IS NULL THEN
			s := gpucredit_eval.checks_score(report.checks, x.threshold);
			INSERT INTO gpucredit_eval.result
			VALUES (r.org, r.run, report."case", report.attempt, report.output, report.checks,
				report.usage, print, s.passed, NULL,
				CASE WHEN NOT s.passed THEN 0 WHEN NOT x.judged THEN s.score END, call_cost,
				gpucredit.now())
			ON CONFLICT DO NOTHING;
			IF FOUND THEN
				result.action := CASE WHEN s.passed AND x.judged THEN 'judge' ELSE 'done' END;
				result.score := CASE WHEN NOT s.passed THEN 0 WHEN NOT x.judged THEN s.score END;
			END IF;
		ELSIF NOT EXISTS (SELECT FROM gpucredit_eval.result n
			WHERE n.org = r.org AND n.run = r.run AND n."case" = report."case")
		THEN
			result.action := 'retry';
		END IF;
	END IF;
	IF result.action IS NULL THEN
		SELECT * INTO o FROM gpucredit_eval.result n
		WHERE n.org = r.org AND n.run = r.run AND n."case" = report."case";
		RETURN gpucredit_eval.report_again(r, l, o, print, failed, report.usage);
	END IF;
	UPDATE gpucredit_eval.lease m
	SET cost = m.cost + call_cost, error = failed, finishes = result.action = 'done',
		open_max = CASE result.action WHEN 'judge' THEN m.open_max - m.call_max ELSE 0 END,
		state = CASE WHEN result.action = 'judge' THEN m.state
			WHEN result.action = 'retry' AND m.state = 'open' THEN 'retry' ELSE 'closed' END,
		expires_at = CASE result.action WHEN 'retry' THEN gpucredit.now() ELSE m.expires_at END
	WHERE m.org = r.org AND m.run = r.run AND m."case" = l."case" AND m.attempt = l.attempt;
	IF result.action <> 'judge' THEN
		PERFORM gpucredit_eval.account_if_free(r);
	END IF;
	result.cost := call_cost;
	result.replayed := false;
	RETURN result;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.report(text, bigint, bigint, integer, bytea, jsonb, jsonb) IS
'Workers: reports what the model answered to a leased case. The first report of a case stands.
output: at most 1 MiB; NULL: the call failed. checks: an array of {"pass", "score", "weight", ..}; without output {"error": why}. usage: {"prompt_tokens", "completion_tokens"}; NULL: not known, so that the call counts in full.
Result: action judge: ask the judge; done; retry: the case will be leased again. Its score, 0 to 1, once it has one; what the call cost, in credits.
Errors: UC603 no such case or attempt; 22023.';

CREATE TYPE gpucredit_eval.judge_result AS (
	score integer,
	parsed boolean,
	replayed boolean
);

/*
 * "{"score": 1..5, "reason": ..}" and nothing else, but for white space and
 * one fence around it; all else is the score 1.
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
	IF o.org IS NULL OR l.org IS NULL OR o.error IS NULL AND (NOT o.passed OR l.sample_max = 0
			OR NOT coalesce(report_judge.sample BETWEEN 1 AND (judge ->> 'samples')::integer, false))
	THEN
		RAISE EXCEPTION 'case % of run % of "%" has no sample % to judge',
			report_judge."case", report_judge.run, left(report_judge.org, 64), report_judge.sample
			USING ERRCODE = 'UC603', DETAIL = 'Nobody reported an answer that a judge is to rate.',
			HINT = 'Ask the judge where report() returned action "judge".';
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
	IF report_judge.raw IS NULL THEN
		/*
		 * The call failed: the case is leased again, for the judge alone.  All
		 * samples that are not reported may have been asked.
		 */
		IF report_judge.usage IS NULL THEN
			cost := l.open_max;
		END IF;
		UPDATE gpucredit_eval.lease m
		SET cost = m.cost + x.cost, open_max = 0, error = 'the judge failed',
			state = CASE m.state WHEN 'lost' THEN 'closed' ELSE 'retry' END,
			expires_at = gpucredit.now()
		FROM (SELECT cost) x (cost)
		WHERE m.org = r.org AND m.run = r.run AND m."case" = l."case" AND m.attempt = l.attempt;
		PERFORM gpucredit_eval.account_if_free(r);
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
	SET cost = m.cost + x.cost, open_max = greatest(m.open_max - m.sample_max, 0),
		state = CASE WHEN given = x.samples THEN 'closed' ELSE m.state END,
		finishes = given = x.samples
	FROM (SELECT cost, (judge ->> 'samples')::integer) x (cost, samples)
	WHERE m.org = r.org AND m.run = r.run AND m."case" = l."case" AND m.attempt = l.attempt;
	IF given = (judge ->> 'samples')::integer THEN
		UPDATE gpucredit_eval.result res SET score = o.score
		WHERE res.org = r.org AND res.run = r.run AND res."case" = report_judge."case";
		PERFORM gpucredit_eval.account_if_free(r);
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
