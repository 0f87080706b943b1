/*
 * 65_calibration.sql: do judges agree with people?
 *
 * A judge is its endpoint, the exact version of its model, and its template.
 * A calibration is good for a quarter.
 */
CREATE TABLE gpucredit_eval.label (
	org text COLLATE "C" NOT NULL,
	run bigint NOT NULL,
	"case" bigint NOT NULL,
	rater text COLLATE "C" NOT NULL,
	score integer NOT NULL CHECK (score BETWEEN 1 AND 5),
	labelled_at timestamptz NOT NULL,
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
	CONSTRAINT calibration_pkey PRIMARY KEY (org, judge, calibrated_at)
);
COMMENT ON TABLE gpucredit_eval.calibration IS
'How well judges agreed with people; the newest counts';

CREATE FUNCTION gpucredit_eval.judge_name(judge jsonb) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT (judge ->> 'endpoint') || ':' || (judge ->> 'model') || coalesce('#'
		|| left(encode(sha256(convert_to(judge ->> 'template', 'UTF8')), 'hex'), 12), '');
END;
COMMENT ON FUNCTION gpucredit_eval.judge_name(jsonb) IS
'Calibration: what a config''s judge is called: "ENDPOINT:MODEL", and "#" with a digest if it has a template of its own.';

/* Without a judge there is nothing to calibrate. */
CREATE FUNCTION gpucredit_eval.judge_status(org text, judge jsonb) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT CASE WHEN coalesce(jsonb_typeof(judge), 'null') = 'null' THEN 'calibrated'
		ELSE coalesce((SELECT CASE WHEN c.status = 'calibrated'
					AND c.calibrated_at < gpucredit.now() - interval '92 days' THEN 'lapsed'
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
	IF g.kind = 'held_out' THEN
		PERFORM gpucredit_eval.require_set(r.org, g.set, 'curate');
	END IF;
	INSERT INTO gpucredit_eval.label AS b
	VALUES (r.org, r.run, label."case", label.rater, label.score, gpucredit.now())
	ON CONFLICT ON CONSTRAINT label_pkey DO UPDATE
	SET score = excluded.score, labelled_at = excluded.labelled_at
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
score: 1 to 5. Result: whether it was so already. Errors: UC601 no such run; UC603 no answer to that case; 22023.';

/*
 * Agreement beyond chance.  If all scores are equal, chance explains all
 * agreement: then plain agreement decides.
 */
CREATE FUNCTION gpucredit_eval.kappa(disagreement numeric, by_chance numeric) RETURNS numeric
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT CASE WHEN by_chance > 0 THEN round(1 - disagreement / by_chance, 6)
		WHEN disagreement = 0 THEN 1 ELSE 0 END;
END;
COMMENT ON FUNCTION gpucredit_eval.kappa(numeric, numeric) IS
'Internal: Cohen''s kappa of the disagreement seen and expected.';

CREATE FUNCTION gpucredit_eval.calibrate(org text, judge text, since timestamptz,
	OUT n integer, OUT agreement numeric, OUT kappa numeric, OUT kappa_weighted numeric,
	OUT bias numeric, OUT length_correlation numeric, OUT status text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	x record;
BEGIN
	PERFORM gpucredit_eval.check_account(calibrate.org, '');
	IF calibrate.since IS NULL OR NOT isfinite(calibrate.since) THEN
		PERFORM gpucredit_eval.refuse('since is a time', 'Labels from then on are used.');
	END IF;
	WITH pair AS MATERIALIZED (
		SELECT (o.score * 4 + 1)::integer AS j, l.h, octet_length(o.output) AS size
		FROM gpucredit_eval.run r
			JOIN gpucredit_eval.config c ON c.org = r.org AND c.config = r.config
				AND c.version = r.config_version
			JOIN gpucredit_eval.result o ON o.org = r.org AND o.run = r.run
			CROSS JOIN LATERAL (
				SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY b.score) AS h
				FROM gpucredit_eval.label b
				WHERE b.org = o.org AND b.run = o.run AND b."case" = o."case"
					AND b.labelled_at >= calibrate.since) l
		WHERE r.org = calibrate.org AND l.h IS NOT NULL AND o.error IS NULL AND o.passed
			AND o.score IS NOT NULL
			AND jsonb_typeof(c.document -> 'judge') = 'object'
			AND gpucredit_eval.judge_name(c.document -> 'judge') = calibrate.judge
			AND EXISTS (SELECT FROM gpucredit_eval.judgement q
				WHERE q.org = o.org AND q.run = o.run AND q."case" = o."case")),
	/* chance: the judge's scores against people's, in any order */
	chance AS (
		SELECT sum(a.k * b.k) FILTER (WHERE a.j <> b.h) AS differ,
			sum(a.k * b.k * (a.j - b.h) * (a.j - b.h)) AS squares
		FROM (SELECT p.j, count(*) AS k FROM pair p GROUP BY p.j) a,
			(SELECT p.h, count(*) AS k FROM pair p GROUP BY p.h) b)
	SELECT count(*)::integer AS n, count(*) FILTER (WHERE p.j <> p.h)::numeric AS differ,
		sum((p.j - p.h) * (p.j - p.h))::numeric AS squares, avg(p.j - p.h) AS bias,
		max(c.differ) AS chance_differ, max(c.squares) AS chance_squares,
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
	END IF;
	calibrate.status := CASE WHEN x.n < 30 THEN 'uncalibrated'
		WHEN calibrate.kappa_weighted < 0.6 THEN 'disagrees' ELSE 'calibrated' END;
	INSERT INTO gpucredit_eval.calibration
	VALUES (calibrate.org, calibrate.judge, gpucredit.now(), calibrate.since, calibrate.n,
		calibrate.agreement, calibrate.kappa, calibrate.kappa_weighted, calibrate.bias,
		calibrate.length_correlation, calibrate.status)
	ON CONFLICT ON CONSTRAINT calibration_pkey DO UPDATE
	SET since = excluded.since, n = excluded.n, agreement = excluded.agreement,
		kappa = excluded.kappa, kappa_weighted = excluded.kappa_weighted,
		bias = excluded.bias, length_correlation = excluded.length_correlation,
		status = excluded.status;
	PERFORM gpucredit_eval.record(calibrate.org, 'calibrate', NULL,
		jsonb_build_object('judge', calibrate.judge, 'n', calibrate.n,
			'kappa_weighted', calibrate.kappa_weighted, 'status', calibrate.status));
END
$$;
COMMENT ON FUNCTION gpucredit_eval.calibrate(text, text, timestamptz) IS
'Calibration: compares a judge with people''s labels since a time; of several raters the median counts. Call it at least each quarter, as a calibration lapses after 92 days.
judge: as judge_name() says.
Result: answers compared; the share on which they agree; Cohen''s kappa, plain and with squared weights; judge less people, in points; how its scores go with the length of answers; status calibrated, disagrees (kappa_weighted below 0.6) or uncalibrated (fewer than 30 answers).
Errors: UC001 no such organisation; 22023.';
