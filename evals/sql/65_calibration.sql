/*
 * 65_calibration.sql: whether judges agree with people.
 *
 * A judge is identified by everything that its config contains: the endpoint
 * and its address, the exact version of the model, template, samples,
 * temperature and limits. A calibration is valid for a quarter.
 *
 * People's labels count if at least two raters rated an answer, none of whom
 * is a role that created a config with the judge, and if their scores vary:
 * otherwise a judge that always returns the same score would agree with labels
 * that are all equal. They count only in runs that were executed by workers
 * who do not belong to the owner.
 */
CREATE TABLE gpucredit_eval.label (
	org text COLLATE "C" NOT NULL,
	run bigint NOT NULL,
	"case" bigint NOT NULL,
	rater text COLLATE "C" NOT NULL,
	score integer NOT NULL CHECK (score BETWEEN 1 AND 5),
	labelled_at timestamptz NOT NULL,
	labelled_by text COLLATE "C" NOT NULL,	/* the calling role */
	CONSTRAINT label_pkey PRIMARY KEY (org, run, "case", rater),
	FOREIGN KEY (org, run, "case") REFERENCES gpucredit_eval.result
);
COMMENT ON TABLE gpucredit_eval.label IS
'What people think of answers, 1 to 5';

CREATE TABLE gpucredit_eval.calibration (
	org text COLLATE "C" NOT NULL,
	judge text COLLATE "C" NOT NULL,
	calibrated_at timestamptz NOT NULL,
	since timestamptz NOT NULL,
	n integer NOT NULL,
	agreement numeric,
	kappa numeric,
	kappa_weighted numeric,
	bias numeric,
	length_correlation numeric,
	status text NOT NULL CHECK (status IN ('calibrated', 'disagrees', 'uncalibrated')),
	kappa_low numeric,			/* 95 % confidence interval of
								 * kappa_weighted */
	kappa_high numeric,
	raters integer NOT NULL,
	variance numeric,			/* variance of people's scores */
	announced text NOT NULL DEFAULT ''		/* which event of its lapse is
											 * published: none, soon, or
											 * lapsed */
		CHECK (announced IN ('', 'soon', 'lapsed')),
	CONSTRAINT calibration_pkey PRIMARY KEY (org, judge, calibrated_at)
);
COMMENT ON TABLE gpucredit_eval.calibration IS
'How well judges agreed with people; the newest counts';

CREATE FUNCTION gpucredit_eval.judge_name(judge jsonb) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT (judge ->> 'endpoint') || ':' || (judge ->> 'model') || '#'
		|| left(encode(sha256(convert_to((judge - '{endpoint,model}'::text[])::text, 'UTF8')), 'hex'), 32);
END;
COMMENT ON FUNCTION gpucredit_eval.judge_name(jsonb) IS
'Calibration: what a config''s judge is called: "ENDPOINT:MODEL#DIGEST", with a digest of all else that the config says of it: the endpoint''s address, template, samples, temperature, seed and limits.';

/* Returns for how long a calibration is valid. */
CREATE FUNCTION gpucredit_eval.calibration_life() RETURNS interval
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT interval '92 days';
END;
COMMENT ON FUNCTION gpucredit_eval.calibration_life() IS
'Internal: how long a calibration counts.';

/*
 * Returns whether a judge is calibrated. Without a judge there is nothing to
 * calibrate, so the status is "calibrated".
 */
CREATE FUNCTION gpucredit_eval.judge_status(org text, judge jsonb) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT CASE WHEN NOT gpucredit_eval.is_present(judge) THEN 'calibrated'
		ELSE coalesce((SELECT CASE WHEN c.status = 'calibrated'
					AND c.calibrated_at < gpucredit.now() - gpucredit_eval.calibration_life() THEN 'lapsed'
				ELSE c.status END
			FROM gpucredit_eval.calibration c
			WHERE c.org = judge_status.org
				AND c.judge = gpucredit_eval.judge_name(judge_status.judge)
			ORDER BY c.calibrated_at DESC LIMIT 1), 'uncalibrated') END;
END;
COMMENT ON FUNCTION gpucredit_eval.judge_status(text, jsonb) IS
'Internal: calibrated, lapsed, disagrees or uncalibrated.';

CREATE FUNCTION gpucredit_eval.label(org text, run bigint, "case" bigint, rater text,
	score integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r gpucredit_eval.run := gpucredit_eval.require_run(label.org, label.run);
	g record;
BEGIN
	IF octet_length(coalesce(label.rater, '')) NOT BETWEEN 1 AND 255
		OR label.score IS NULL OR label.score NOT BETWEEN 1 AND 5
	THEN
		PERFORM gpucredit_eval.refuse('a rater has 1 to 255 bytes, a score is 1 to 5',
			format('They are "%s" and %s.', left(label.rater, 64), label.score));
	END IF;
	SELECT s.set, s.kind INTO g
	FROM gpucredit_eval.result o
		JOIN gpucredit_eval.golden_case c ON c.org = o.org AND c."case" = o."case"
		JOIN gpucredit_eval.golden_set s ON s.org = c.org AND s.set = c.set
	WHERE o.org = r.org AND o.run = r.run AND o."case" = label."case" AND o.output IS NOT NULL;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'run % of "%" has no answer to case %', label.run, r.org, label."case"
			USING ERRCODE = 'UC603', DETAIL = 'Nobody reported an output of it.',
			HINT = 'Label what results() shows.';
	END IF;
	IF gpucredit_eval.caller_is('gpucredit_tenant') AND label.rater <> gpucredit_eval.caller() THEN
		RAISE EXCEPTION 'role "%" does not rate as "%"', gpucredit_eval.caller(), left(label.rater, 64)
			USING ERRCODE = 'insufficient_privilege',
			DETAIL = 'A tenant''s login rates as itself, so that one person is not two raters.',
			HINT = 'Pass the name of the login.';
	END IF;
	PERFORM gpucredit_eval.require_set(r.org, g.set,
		CASE g.kind WHEN 'held_out' THEN 'curate' ELSE 'read' END);
	INSERT INTO gpucredit_eval.label AS b
	VALUES (r.org, r.run, label."case", label.rater, label.score, gpucredit.now(),
		gpucredit_eval.caller())
	ON CONFLICT ON CONSTRAINT label_pkey DO UPDATE
	SET score = excluded.score, labelled_at = excluded.labelled_at,
		labelled_by = excluded.labelled_by
	WHERE b.score <> excluded.score;
	IF NOT FOUND THEN
		RETURN true;
	END IF;
	PERFORM gpucredit_eval.record(r.org, 'label', NULL, jsonb_build_object('run', r.run,
		'case', label."case", 'rater', label.rater, 'score', label.score));
	RETURN false;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.label(text, bigint, bigint, text, integer) IS
'Calibration: records a person''s score of an answer; a rater''s last one stands.
score: 1 to 5. rater: a tenant''s login passes its own name; members of gpucredit_eval_rater, and requests with a token of scope label, see no scores of runs, so that they rate without knowing what the judge thinks. Result: whether it was so already. Errors: UC601 no such run, or a set that the caller may not read; UC603 no answer to that case; 42501 a tenant rates as somebody else; 22023.';

/*
 * Returns the agreement beyond chance. If all scores are equal, chance
 * explains all agreement, and the result is NULL.
 */
CREATE FUNCTION gpucredit_eval.kappa(disagreement numeric, by_chance numeric) RETURNS numeric
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT CASE WHEN by_chance > 0 THEN round(1 - disagreement / by_chance, 6) END;
END;
COMMENT ON FUNCTION gpucredit_eval.kappa(numeric, numeric) IS
'Internal: Cohen''s kappa of the disagreement seen and expected, or NULL.';

/*
 * Returns the answers that both a judge and people have rated since a time:
 * the judge's score, the median of people's scores, and the length of the
 * answer.
 */
CREATE FUNCTION gpucredit_eval.rated_pairs(org text, judge text, since timestamptz)
RETURNS TABLE (j integer, h integer, size integer, raters text[])
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT (o.score * 4 + 1)::integer, l.h, octet_length(o.output), l.raters
	FROM gpucredit_eval.run r
		JOIN gpucredit_eval.config c ON c.org = r.org AND c.config = r.config
			AND c.version = r.config_version
		JOIN gpucredit_eval.result o ON o.org = r.org AND o.run = r.run
		CROSS JOIN LATERAL (
			SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY b.score) AS h,
				array_agg(b.rater) AS raters
			FROM gpucredit_eval.label b
			WHERE b.org = o.org AND b.run = o.run AND b."case" = o."case"
				AND b.labelled_at >= rated_pairs.since
				AND b.rater NOT IN (SELECT f.created_by FROM gpucredit_eval.config f
					WHERE f.org = rated_pairs.org AND jsonb_typeof(f.document -> 'judge') = 'object'
						AND gpucredit_eval.judge_name(f.document -> 'judge') = rated_pairs.judge)
			HAVING count(*) >= 2) l
	WHERE r.org = rated_pairs.org AND r.purpose IN ('calibration', 'production_gate')
		AND o.error IS NULL AND o.passed AND o.score IS NOT NULL
		AND jsonb_typeof(c.document -> 'judge') = 'object'
		AND gpucredit_eval.judge_name(c.document -> 'judge') = rated_pairs.judge
		AND EXISTS (SELECT FROM gpucredit_eval.judgement q
			WHERE q.org = o.org AND q.run = o.run AND q."case" = o."case");
END;
COMMENT ON FUNCTION gpucredit_eval.rated_pairs(text, text, timestamptz) IS
'Internal: what a judge and people think of the same answers.';

/*
 * Returns the standard error of kappa with squared weights, by Fleiss, Cohen
 * and Everitt (1969). Scores are 1 to 5, so weights are 1 - (i - j)^2 / 16.
 */
CREATE FUNCTION gpucredit_eval.kappa_error(j integer[], h integer[], kappa numeric)
RETURNS numeric
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	WITH pair AS (SELECT * FROM unnest(j, h) p (j, h)),
	size AS (SELECT count(*)::numeric AS n FROM pair),
	a AS (SELECT p.j, count(*) / (SELECT n FROM size) AS p FROM pair p GROUP BY p.j),
	b AS (SELECT p.h, count(*) / (SELECT n FROM size) AS p FROM pair p GROUP BY p.h),
	of_j AS (SELECT a.j, sum(b.p * (1 - (a.j - b.h) * (a.j - b.h) / 16.0)) AS w FROM a, b GROUP BY a.j),
	of_h AS (SELECT b.h, sum(a.p * (1 - (a.j - b.h) * (a.j - b.h) / 16.0)) AS w FROM a, b GROUP BY b.h),
	chance AS (SELECT sum(a.p * of_j.w) AS pe FROM a JOIN of_j USING (j)),
	spread AS (
		SELECT avg(power(1 - (p.j - p.h) * (p.j - p.h) / 16.0 - (x.w + y.w) * (1 - kappa), 2)) AS s
		FROM pair p JOIN of_j x USING (j) JOIN of_h y USING (h))
	SELECT CASE WHEN chance.pe < 1 THEN sqrt(greatest(spread.s
			- power(kappa - chance.pe * (1 - kappa), 2), 0) / size.n) / (1 - chance.pe) END
	FROM size, chance, spread;
END;
COMMENT ON FUNCTION gpucredit_eval.kappa_error(integer[], integer[], numeric) IS
'Internal: the standard error of Cohen''s kappa with squared weights.';

CREATE FUNCTION gpucredit_eval.calibrate(org text, judge text, since timestamptz,
	OUT n integer, OUT agreement numeric, OUT kappa numeric, OUT kappa_weighted numeric,
	OUT bias numeric, OUT length_correlation numeric, OUT status text, OUT kappa_low numeric,
	OUT kappa_high numeric, OUT raters integer, OUT variance numeric)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	x record;
	spread numeric;
	/* The caller must not be able to exclude labels of this quarter. */
	used timestamptz := least(calibrate.since, gpucredit.now() - gpucredit_eval.calibration_life());
BEGIN
	PERFORM gpucredit_eval.check_account(calibrate.org, ''), gpucredit_eval.check_not_blind();
	IF calibrate.since IS NULL OR NOT isfinite(calibrate.since) THEN
		PERFORM gpucredit_eval.refuse('since is a time', 'Labels from then on are used.');
	END IF;
	WITH pair AS MATERIALIZED (
		SELECT * FROM gpucredit_eval.rated_pairs(calibrate.org, calibrate.judge, used)),
	/*
	 * Agreement by chance: the judge's scores paired with people's in any
	 * order.
	 */
	chance AS (
		SELECT sum(a.k * b.k) FILTER (WHERE a.j <> b.h) AS differ,
			sum(a.k * b.k * (a.j - b.h) * (a.j - b.h)) AS squares
		FROM (SELECT p.j, count(*) AS k FROM pair p GROUP BY p.j) a,
			(SELECT p.h, count(*) AS k FROM pair p GROUP BY p.h) b)
	SELECT count(*)::integer AS n, count(*) FILTER (WHERE p.j <> p.h)::numeric AS differ,
		sum((p.j - p.h) * (p.j - p.h))::numeric AS squares, avg(p.j - p.h) AS bias,
		max(c.differ) AS chance_differ, max(c.squares) AS chance_squares,
		(SELECT count(DISTINCT q) FROM pair o, unnest(o.raters) q) AS raters,
		var_samp(p.h) AS variance, array_agg(p.j) AS js, array_agg(p.h) AS hs,
		count(*) * sum(p.j::numeric * p.size) - sum(p.j)::numeric * sum(p.size) AS covariance,
		(count(*) * sum(p.j::numeric * p.j) - sum(p.j)::numeric * sum(p.j))
			* (count(*) * sum(p.size::numeric * p.size) - sum(p.size)::numeric * sum(p.size))
			AS variances
	INTO x FROM pair p, chance c;
	calibrate.n := x.n;
	IF x.n > 0 THEN
		calibrate.agreement := round(1 - x.differ / x.n, 6);
		calibrate.kappa := gpucredit_eval.kappa(x.differ / x.n,
			coalesce(x.chance_differ, 0) / (x.n::numeric * x.n));
		calibrate.kappa_weighted := gpucredit_eval.kappa(x.squares / x.n,
			x.chance_squares / (x.n::numeric * x.n));
		calibrate.bias := round(x.bias, 6);
		calibrate.length_correlation := CASE WHEN x.variances > 0
			THEN round(x.covariance / sqrt(x.variances), 6) END;
		spread := 1.96 * gpucredit_eval.kappa_error(x.js, x.hs, calibrate.kappa_weighted);
		calibrate.kappa_low := round(calibrate.kappa_weighted - spread, 6);
		calibrate.kappa_high := round(least(calibrate.kappa_weighted + spread, 1), 6);
		calibrate.variance := round(x.variance, 6);
	END IF;
	calibrate.raters := x.raters;
	calibrate.status := CASE
		WHEN x.n < 30 OR coalesce(x.variance, 0) < 0.25 OR calibrate.kappa_weighted IS NULL THEN 'uncalibrated'
		WHEN calibrate.kappa_weighted < 0.6 THEN 'disagrees'
		WHEN calibrate.kappa_low < 0.4 THEN 'uncalibrated' ELSE 'calibrated' END;
	INSERT INTO gpucredit_eval.calibration
	VALUES (calibrate.org, calibrate.judge, gpucredit.now(), used, calibrate.n,
		calibrate.agreement, calibrate.kappa, calibrate.kappa_weighted, calibrate.bias,
		calibrate.length_correlation, calibrate.status, calibrate.kappa_low, calibrate.kappa_high, calibrate.raters,
		calibrate.variance)
	ON CONFLICT ON CONSTRAINT calibration_pkey DO UPDATE
	SET since = excluded.since, n = excluded.n, agreement = excluded.agreement,
		kappa = excluded.kappa, kappa_weighted = excluded.kappa_weighted,
		bias = excluded.bias, length_correlation = excluded.length_correlation,
		status = excluded.status, kappa_low = excluded.kappa_low,
		kappa_high = excluded.kappa_high, raters = excluded.raters, variance = excluded.variance;
	PERFORM gpucredit_eval.record(calibrate.org, 'calibrate', NULL,
		jsonb_build_object('judge', calibrate.judge, 'n', calibrate.n,
			'kappa_weighted', calibrate.kappa_weighted, 'status', calibrate.status));
END
$$;
COMMENT ON FUNCTION gpucredit_eval.calibrate(text, text, timestamptz) IS
'Calibration: compares a judge with people''s labels since a time; of several raters the median counts. Call it at least each quarter, as a calibration lapses after 92 days.
judge: as judge_name() says. since: at the latest 92 days ago, so that no label of the quarter is left out. Answers count that at least two raters rated, other than roles that made a config with the judge, in runs of purpose calibration or production_gate.
Result: answers compared; the share on which they agree; Cohen''s kappa, plain and with squared weights; judge less people, in points; how its scores go with the length of answers; status calibrated, disagrees (kappa_weighted below 0.6) or uncalibrated (fewer than 30 answers, people''s scores vary by less than 0.25, or kappa_low is below 0.4); kappa_low and kappa_high: the interval that has kappa_weighted at 95 %; how many people rated; the variance of their scores.
Errors: UC001 no such organisation; 42501 the caller rates answers by hand; 22023.';
