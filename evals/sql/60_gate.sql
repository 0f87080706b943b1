/*
 * 60_gate.sql: scores of tasks, and whether they allow a version to be
 * released.
 *
 * Cases that are unfinished, lost or failed have score 0, and are counted. A
 * gate that cannot be decided is inconclusive, never passed.
 *
 * The score of a task is 0 to 1, and more is better. Gates, baselines and
 * previews compare it, and JUnit, comments and pages show it. It is the mean of
 * the scores of the cases, or what the check of the cases says:
 *
 *   perplexity  its reciprocal: the geometric mean of what the model gives the
 *               texts as probability. A text without a likelihood makes it 0;
 *   mcc         Matthews' correlation coefficient of the likeliest and the
 *               right choices, at least 0;
 *   f1          F1 of the second of two choices.
 *
 * A case without an answer counts as a wrong choice. While cases are open, such
 * a score may still become any, so it is 0 until then, and all of it is open.
 */
CREATE TABLE gpucredit_eval.metric (
	org text COLLATE "C" NOT NULL,
	run bigint NOT NULL,
	task text COLLATE "C" NOT NULL,
	n integer NOT NULL,
	score numeric,				/* NULL if the cases have no weight */
	stderr numeric,				/* NULL for a single case */
	errors integer NOT NULL,
	unfinished integer NOT NULL,
	judged integer NOT NULL,
	locked_n integer NOT NULL,	/* cases of locked sets */
	locked_score numeric,
	held_out boolean NOT NULL,	/* some of its cases are held out */
	open_share numeric,			/* share of the weight of cases without a score,
								 * of which "score" counts 0 */
	locked_open_share numeric,
	metric text NOT NULL,		/* what the score is: mean, perplexity, mcc or
								 * f1 */
	value numeric,				/* perplexity or coefficient as it is; NULL if
								 * the score is a mean, or if there is none */
	CONSTRAINT metric_pkey PRIMARY KEY (org, run, task),
	FOREIGN KEY (org, run) REFERENCES gpucredit_eval.run
);
COMMENT ON TABLE gpucredit_eval.metric IS
'Scores of an ended run by task';

/*
 * Returns the standard error of a weighted mean. With equal weights, it is the
 * sample's standard deviation divided by the root of n.
 */
CREATE FUNCTION gpucredit_eval.mean_error(n bigint, w numeric, ws numeric, ww numeric,
	wws numeric, wwss numeric) RETURNS numeric
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT CASE WHEN n > 1 AND w > 0 THEN
		round(sqrt(greatest(wwss - 2 * (ws / w) * wws + (ws / w) * (ws / w) * ww, 0)
			* n / (n - 1)) / w, 12) END;
END;
COMMENT ON FUNCTION gpucredit_eval.mean_error(bigint, numeric, numeric, numeric, numeric, numeric) IS
'Internal: the standard error of a weighted mean, from the sums of w, w s, w^2, w^2 s, w^2 s^2.';

/*
 * The minimum score that an organisation requires of a task in all of its
 * runs.
 */
CREATE TABLE gpucredit_eval.task_floor (
	org text COLLATE "C" NOT NULL,
	task text COLLATE "C" NOT NULL,
	absolute numeric NOT NULL CHECK (absolute BETWEEN 0 AND 1),
	CONSTRAINT task_floor_pkey PRIMARY KEY (org, task)
);
COMMENT ON TABLE gpucredit_eval.task_floor IS
'Scores that tasks must reach, whatever configs say';

CREATE FUNCTION gpucredit_eval.set_floor(org text, task text, absolute numeric) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_eval.check_account(set_floor.org, '');
	IF octet_length(coalesce(set_floor.task, '')) NOT BETWEEN 1 AND 255
		OR NOT coalesce(set_floor.absolute BETWEEN 0 AND 1, true)
	THEN
		PERFORM gpucredit_eval.refuse('a floor is of a task, and from 0 to 1',
			format('They are "%s" and %s.', left(set_floor.task, 64), set_floor.absolute));
	END IF;
	IF set_floor.absolute IS NULL THEN
		DELETE FROM gpucredit_eval.task_floor f
		WHERE f.org = set_floor.org AND f.task = set_floor.task;
	ELSE
		INSERT INTO gpucredit_eval.task_floor
		VALUES (set_floor.org, set_floor.task, set_floor.absolute)
		ON CONFLICT ON CONSTRAINT task_floor_pkey DO UPDATE SET absolute = excluded.absolute;
	END IF;
	PERFORM gpucredit_eval.record(set_floor.org, 'set_floor', NULL,
		jsonb_build_object('task', set_floor.task, 'absolute', set_floor.absolute));
END
$$;
COMMENT ON FUNCTION gpucredit_eval.set_floor(text, text, numeric) IS
'Gates: demands a score of a task in every gate of the organisation, which blocks. A config may demand more, never less. Only a caller who may act as the organisation may call it.
absolute: 0 to 1; NULL ends it. It counts at once, for runs that have ended, too.
Errors: UC001 no such organisation, or the caller may not act as it; 22023.';

CREATE FUNCTION gpucredit_eval.run_cases(org text, run bigint, sample_of bigint DEFAULT NULL)
RETURNS TABLE (kind text, c gpucredit_eval.golden_case, o gpucredit_eval.result)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT g.kind, k, res
	FROM gpucredit_eval.run_set s
		JOIN gpucredit_eval.run q ON q.org = s.org AND q.run = coalesce(run_cases.sample_of, run_cases.run)
		JOIN gpucredit_eval.golden_set g ON g.org = s.org AND g.set = s.set
		JOIN gpucredit_eval.set_version v ON v.org = s.org AND v.set = s.set AND v.version = s.version
		JOIN gpucredit_eval.golden_case k ON k.org = s.org AND k.set = s.set
			AND gpucredit_eval.in_version(k, v)
			AND (q.sample IS NULL OR gpucredit_eval.in_sample(k, g.salt, q.sample))
		LEFT JOIN gpucredit_eval.result res ON res.org = s.org AND res.run = s.run
			AND res."case" = k."case"
	WHERE s.org = run_cases.org AND s.run = run_cases.run;
END;
COMMENT ON FUNCTION gpucredit_eval.run_cases(text, bigint, bigint) IS
'Internal: all cases of a run, with the results that are there; or those of them that are in the sample of another run.';

/*
 * Returns what the model's answer to a case tells of its task's score: the
 * logarithm of a text's probability, or the number of the likeliest choice.
 */
CREATE FUNCTION gpucredit_eval.measured_by(measure jsonb, output bytea) RETURNS numeric
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_eval_measured_by';
COMMENT ON FUNCTION gpucredit_eval.measured_by(jsonb, bytea) IS
'Internal: of a case with a check of metric perplexity, mcc or f1: the logarithm of the probability of its text, or the number of the likeliest choice; NULL: the output does not tell.';

/*
 * Returns Matthews' correlation coefficient of right and given answers, for any
 * number of choices (Gorodkin's R_K). It is 0 where all answers are the same.
 */
CREATE FUNCTION gpucredit_eval.mcc(wanted numeric[], given numeric[], weights numeric[])
RETURNS numeric
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	WITH answer AS (SELECT * FROM unnest(mcc.wanted, mcc.given, mcc.weights) a (wanted, given, w)),
	total AS (
		SELECT sum(a.w) AS s, coalesce(sum(a.w) FILTER (WHERE a.wanted = a.given), 0) AS c FROM answer a),
	choice AS (
		SELECT sum(x.w) AS w, sum(x.g) AS g
		FROM (SELECT a.wanted AS k, a.w, 0 AS g FROM answer a
			UNION ALL SELECT a.given, 0, a.w FROM answer a) x
		GROUP BY x.k),
	sums AS (SELECT sum(o.w * o.g) AS wg, sum(o.w * o.w) AS ww, sum(o.g * o.g) AS gg FROM choice o)
	SELECT CASE WHEN t.s = 0 THEN NULL WHEN (t.s * t.s - q.gg) * (t.s * t.s - q.ww) <= 0 THEN 0
		ELSE (t.c * t.s - q.wg) / sqrt((t.s * t.s - q.gg) * (t.s * t.s - q.ww)) END
	FROM total t, sums q;
END;
COMMENT ON FUNCTION gpucredit_eval.mcc(numeric[], numeric[], numeric[]) IS
'Internal: Matthews'' correlation coefficient, weighted; NULL: there is no weight.';

/* Returns F1 of choice 1, which is 0 where neither wants nor gives it. */
CREATE FUNCTION gpucredit_eval.f1(wanted numeric[], given numeric[], weights numeric[])
RETURNS numeric
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT CASE WHEN sum(a.w) > 0 THEN coalesce(2 * coalesce(sum(a.w) FILTER (WHERE a.wanted = 1 AND a.given = 1), 0)
		/ nullif(coalesce(sum(a.w) FILTER (WHERE a.wanted = 1), 0) + coalesce(sum(a.w) FILTER (WHERE a.given = 1), 0), 0), 0) END
	FROM unnest(f1.wanted, f1.given, f1.weights) a (wanted, given, w);
END;
COMMENT ON FUNCTION gpucredit_eval.f1(numeric[], numeric[], numeric[]) IS
'Internal: F1 of choice 1, weighted; NULL: there is no weight.';

/*
 * Returns what the answers of a task amount to: "given" has the logarithm of
 * each text's probability, or the choice of each case, and "wanted" the right
 * choice. The exponent is bounded, so that the figure is a number everywhere.
 */
CREATE FUNCTION gpucredit_eval.aggregate_value(metric text, wanted numeric[], given numeric[],
	weights numeric[]) RETURNS numeric
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT round(CASE aggregate_value.metric
		WHEN 'mcc' THEN gpucredit_eval.mcc(aggregate_value.wanted, aggregate_value.given, aggregate_value.weights)
		WHEN 'f1' THEN gpucredit_eval.f1(aggregate_value.wanted, aggregate_value.given, aggregate_value.weights)
		WHEN 'perplexity' THEN (SELECT CASE WHEN bool_and(a.given IS NOT NULL) THEN
				exp(least(-sum(a.w * a.given) / nullif(sum(a.w), 0), 700)) END
			FROM unnest(aggregate_value.given, aggregate_value.weights) a (given, w)) END, 12);
END;
COMMENT ON FUNCTION gpucredit_eval.aggregate_value(text, numeric[], numeric[], numeric[]) IS
'Internal: perplexity, mcc or f1 of the answers of a task; NULL: there is no weight, or a text has no likelihood.';

/* Returns the score of a task, 0 to 1, for its perplexity, mcc or f1. */
CREATE FUNCTION gpucredit_eval.aggregate_score(metric text, value numeric, weight numeric)
RETURNS numeric
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT CASE WHEN aggregate_score.weight > 0 THEN coalesce(round(CASE aggregate_score.metric
		WHEN 'perplexity' THEN 1 / aggregate_score.value ELSE greatest(aggregate_score.value, 0) END, 12), 0) END;
END;
COMMENT ON FUNCTION gpucredit_eval.aggregate_score(text, numeric, numeric) IS
'Internal: what a perplexity, mcc or f1 is as the score of a task; weight: of the cases; NULL: they have none.';

CREATE FUNCTION gpucredit_eval.task_scores(org text, run bigint, sample_of bigint DEFAULT NULL)
RETURNS SETOF gpucredit_eval.metric
LANGUAGE sql STABLE
BEGIN ATOMIC
	WITH aggregated AS MATERIALIZED (
		SELECT EXISTS (SELECT FROM gpucredit_eval.run_set s
				JOIN gpucredit_eval.set_version v ON v.org = s.org AND v.set = s.set AND v.version = s.version
			WHERE s.org = task_scores.org AND s.run = task_scores.run AND v.aggregates <> '{}') AS some),
	scored AS (
		SELECT x.kind, (x.c).task AS task, (x.c).weight AS w, (x.c).rubric IS NOT NULL AS judged,
			coalesce((x.o).score, 0) AS s, (x.o).score IS NULL AS unfinished,
			(x.o).error IS NOT NULL AS failed, a.own, (a.own ->> 'value')::numeric AS wanted,
			CASE WHEN a.own IS NULL THEN NULL WHEN a.own ->> 'metric' = 'perplexity' THEN m.measured
				ELSE coalesce(m.measured, CASE jsonb_array_length(a.own -> 'choices')
					WHEN 2 THEN 1 - (a.own ->> 'value')::numeric ELSE -1 END) END AS given
		FROM gpucredit_eval.run_cases(task_scores.org, task_scores.run, task_scores.sample_of) x
			CROSS JOIN LATERAL (SELECT CASE WHEN (SELECT g.some FROM aggregated g)
				THEN gpucredit_eval.aggregated_check((x.c).checks) END) a (own)
			CROSS JOIN LATERAL (SELECT CASE WHEN a.own IS NOT NULL AND (x.o).error IS NULL
				THEN gpucredit_eval.measured_by(a.own, (x.o).output) END) m (measured)),
	summed AS (
		SELECT t.task, count(*) AS n, sum(t.w) AS w, sum(t.w) FILTER (WHERE t.kind = 'locked') AS locked_w,
			sum(t.w * t.s) / nullif(sum(t.w), 0) AS mean,
			gpucredit_eval.mean_error(count(*), sum(t.w), sum(t.w * t.s), sum(t.w * t.w),
				sum(t.w * t.w * t.s), sum(t.w * t.w * t.s * t.s)) AS mean_error,
			gpucredit_eval.mean_error(count(*), sum(t.w), sum(t.w * t.given), sum(t.w * t.w),
				sum(t.w * t.w * t.given), sum(t.w * t.w * t.given * t.given)) AS given_error,
			count(*) FILTER (WHERE t.failed) AS errors,
			count(*) FILTER (WHERE t.unfinished) AS unfinished,
			count(*) FILTER (WHERE t.judged) AS judged,
			count(*) FILTER (WHERE t.kind = 'locked') AS locked_n,
			sum(t.w * t.s) FILTER (WHERE t.kind = 'locked')
				/ nullif(sum(t.w) FILTER (WHERE t.kind = 'locked'), 0) AS locked_mean,
			bool_or(t.kind = 'held_out') AS held_out,
			coalesce(sum(t.w) FILTER (WHERE t.unfinished), 0) / nullif(sum(t.w), 0) AS open_share,
			coalesce(sum(t.w) FILTER (WHERE t.kind = 'locked' AND t.unfinished), 0)
				/ nullif(sum(t.w) FILTER (WHERE t.kind = 'locked'), 0) AS locked_open_share,
			coalesce(max(t.own ->> 'metric'), 'mean') AS metric,
			array_agg(t.wanted) FILTER (WHERE t.own IS NOT NULL) AS wanted,
			array_agg(t.given) FILTER (WHERE t.own IS NOT NULL) AS given,
			array_agg(t.w) FILTER (WHERE t.own IS NOT NULL) AS weights,
			array_agg(t.wanted) FILTER (WHERE t.own IS NOT NULL AND t.kind = 'locked') AS locked_wanted,
			array_agg(t.given) FILTER (WHERE t.own IS NOT NULL AND t.kind = 'locked') AS locked_given,
			array_agg(t.w) FILTER (WHERE t.own IS NOT NULL AND t.kind = 'locked') AS locked_weights
		FROM scored t GROUP BY t.task),
	valued AS (
		SELECT t.*, t.unfinished > 0 AS open,
			CASE WHEN t.metric <> 'mean' AND t.unfinished = 0
				THEN gpucredit_eval.aggregate_value(t.metric, t.wanted, t.given, t.weights) END AS value,
			CASE WHEN t.metric <> 'mean' AND t.unfinished = 0 AND t.locked_n > 0
				THEN gpucredit_eval.aggregate_value(t.metric, t.locked_wanted, t.locked_given, t.locked_weights) END AS locked_value
		FROM summed t)
	SELECT task_scores.org, task_scores.run, t.task, t.n::integer,
		CASE t.metric WHEN 'mean' THEN t.mean ELSE gpucredit_eval.aggregate_score(t.metric, t.value, t.w) END,
		CASE t.metric WHEN 'mean' THEN t.mean_error WHEN 'perplexity' THEN round(t.given_error / t.value, 12) END,
		t.errors::integer, t.unfinished::integer, t.judged::integer, t.locked_n::integer,
		CASE t.metric WHEN 'mean' THEN t.locked_mean ELSE gpucredit_eval.aggregate_score(t.metric, t.locked_value, t.locked_w) END,
		t.held_out,
		CASE WHEN t.metric = 'mean' OR t.w = 0 THEN t.open_share WHEN t.open THEN 1 ELSE 0 END,
		CASE WHEN t.metric = 'mean' OR coalesce(t.locked_w, 0) = 0 THEN t.locked_open_share WHEN t.open THEN 1 ELSE 0 END,
		t.metric, t.value
	FROM valued t;
END;
COMMENT ON FUNCTION gpucredit_eval.task_scores(text, bigint, bigint) IS
'Internal: scores of a run by task, as its results are now; or of the cases that are in the sample of another run.';

CREATE FUNCTION gpucredit_eval.keep_metrics(r gpucredit_eval.run) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	INSERT INTO gpucredit_eval.metric
	SELECT * FROM gpucredit_eval.task_scores((r).org, (r).run) ORDER BY task;
END;
COMMENT ON FUNCTION gpucredit_eval.keep_metrics(gpucredit_eval.run) IS
'Internal: keeps the scores of a run that ends.';

CREATE FUNCTION gpucredit_eval.metrics(r gpucredit_eval.run)
RETURNS SETOF gpucredit_eval.metric
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF (r).ended_at IS NULL THEN
		RETURN QUERY SELECT * FROM gpucredit_eval.task_scores((r).org, (r).run);
	ELSE
		RETURN QUERY SELECT m.* FROM gpucredit_eval.metric m
			WHERE m.org = (r).org AND m.run = (r).run;
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.metrics(gpucredit_eval.run) IS
'Internal: scores of a run by task.';

/*
 * Whether a run has too many errors. An error counts as score 0. Therefore
 * such a run does not pass, whatever its config allows, and is not a baseline,
 * because any other run would be better.
 */
CREATE FUNCTION gpucredit_eval.has_many_errors(r gpucredit_eval.run, max_errors numeric,
	scores gpucredit_eval.metric[]) RETURNS boolean
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT coalesce(sum(m.errors) > CASE (r).purpose WHEN 'production_gate' THEN 0
			ELSE has_many_errors.max_errors END
		OR bool_or(m.errors * 20 > m.n), false)
	FROM unnest(has_many_errors.scores) m;
END;
COMMENT ON FUNCTION gpucredit_eval.has_many_errors(gpucredit_eval.run, numeric, gpucredit_eval.metric[]) IS
'Internal: whether more cases of a run failed than its config, its purpose or one in twenty of a task allow.';

/*
 * Returns why a baseline is not comparable with a run, or NULL: it is a preview,
 * has another measure or other cases, did not finish, or has too many errors.
 */
CREATE FUNCTION gpucredit_eval.why_no_baseline(r gpucredit_eval.run) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT CASE WHEN (r).baseline IS NULL THEN NULL
		WHEN b.purpose = 'preview' THEN 'baseline_sampled'
		WHEN b.state <> 'finished' THEN 'baseline_unfinished'
		WHEN cb.measure <> c.measure THEN 'baseline_differs'
		WHEN gpucredit_eval.has_many_errors(b, (cb.document ->> 'max_errors')::numeric,
			ARRAY(SELECT m FROM gpucredit_eval.metrics(b) m)) THEN 'baseline_errors'
		END
	FROM gpucredit_eval.config c
		LEFT JOIN gpucredit_eval.run b ON b.org = (r).org AND b.run = (r).baseline
		LEFT JOIN gpucredit_eval.config cb ON cb.org = b.org AND cb.config = b.config
			AND cb.version = b.config_version
	WHERE c.org = (r).org AND c.config = (r).config AND c.version = (r).config_version;
END;
COMMENT ON FUNCTION gpucredit_eval.why_no_baseline(gpucredit_eval.run) IS
'Internal: why the baseline of a run does not compare with it, or NULL.';

/*
 * Whether a run may have too many errors in the end, if it is not finished.
 */
CREATE FUNCTION gpucredit_eval.may_have_many_errors(r gpucredit_eval.run, max_errors numeric,
	scores gpucredit_eval.metric[]) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	m gpucredit_eval.metric;
	worst gpucredit_eval.metric[] := '{}';
BEGIN
	FOREACH m IN ARRAY may_have_many_errors.scores LOOP
		m.errors := m.errors + m.unfinished;
		worst := worst || m;
	END LOOP;
	RETURN gpucredit_eval.has_many_errors(r, may_have_many_errors.max_errors, worst);
END
$$;
COMMENT ON FUNCTION gpucredit_eval.may_have_many_errors(gpucredit_eval.run, numeric, gpucredit_eval.metric[]) IS
'Internal: whether a run would have too many errors if all of its other cases failed.';

/*
 * Returns the gate of each task. A gate of a preview is decided as soon as the
 * cases that are left cannot change it: it fails if it would fail with all of
 * them right, and passes if it would pass with all of them wrong or failed.
 */
CREATE FUNCTION gpucredit_eval.gate_rows(r gpucredit_eval.run)
RETURNS TABLE (task text, score numeric, n integer, stderr numeric, threshold numeric,
	baseline numeric, passes boolean, blocking boolean, reason text, metric text, value numeric)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	document jsonb;
	scores gpucredit_eval.metric[] := ARRAY(SELECT m FROM gpucredit_eval.metrics(r) m);
	nothing text;		/* why no gate can be decided */
	no_baseline text;
	judge_status text;
	may_fail boolean;
BEGIN
	SELECT c.document INTO document FROM gpucredit_eval.config c
	WHERE c.org = (r).org AND c.config = (r).config AND c.version = (r).config_version;
	SELECT CASE WHEN (r).problem IS NOT NULL THEN (r).problem
		WHEN (r).state IN ('paused', 'cancelled') THEN (r).state
		WHEN sum(m.unfinished) > 0 AND (r).purpose <> 'preview' THEN 'unfinished'
		WHEN gpucredit_eval.has_many_errors(r, (document ->> 'max_errors')::numeric, scores)
			THEN 'errors' END
	INTO nothing FROM unnest(scores) m;
	no_baseline := gpucredit_eval.why_no_baseline(r);
	may_fail := (r).purpose = 'preview' AND gpucredit_eval.may_have_many_errors(r,
		(document ->> 'max_errors')::numeric, scores);
	judge_status := CASE WHEN (r).purpose IN ('development', 'calibration') THEN 'calibrated'
		ELSE gpucredit_eval.judge_status((r).org, document -> 'judge') END;
	RETURN QUERY
	WITH base AS MATERIALIZED (
		SELECT m.task, m.locked_n, m.locked_score
		FROM gpucredit_eval.run b
			CROSS JOIN LATERAL (
				SELECT * FROM gpucredit_eval.metrics(b) WHERE (r).sample IS NULL
				UNION ALL
				SELECT * FROM gpucredit_eval.task_scores(b.org, b.run, (r).run)
				WHERE (r).sample IS NOT NULL) m
		WHERE b.org = (r).org AND b.run = (r).baseline),
	gates AS (
		SELECT g ->> 'task' AS task, g AS gate
		FROM jsonb_array_elements(document -> 'gates') g),
	measured AS (
		SELECT coalesce(m.task, g.task) AS task, m.score, m.n, m.stderr, m.judged,
			m.locked_n, m.locked_score, b.locked_score AS base_score,
			m.unfinished, m.open_share, m.locked_open_share, m.metric, m.value,
			greatest(coalesce((g.gate ->> 'absolute')::numeric, 0.85), f.absolute) AS absolute,
			CASE g.gate ->> 'mode' WHEN 'points' THEN b.locked_score - coalesce((g.gate ->> 'relative')::numeric, 0.02)
				ELSE b.locked_score * (1 - coalesce((g.gate ->> 'relative')::numeric, 0.02)) END AS base_limit,
			coalesce((g.gate ->> 'blocking')::boolean, true) OR f.task IS NOT NULL AS blocking,
			coalesce(m.held_out, false) AND (r).state <> 'finished' AS hidden
		FROM unnest(scores) m
			FULL JOIN gates g ON g.task = m.task
			LEFT JOIN gpucredit_eval.task_floor f ON f.org = (r).org
				AND f.task = coalesce(m.task, g.task)
			LEFT JOIN base b ON b.task = m.task),
	reasoned AS (
		SELECT d.*, CASE
				WHEN d.n IS NULL THEN 'no_cases'
				WHEN nothing IS NOT NULL THEN nothing
				WHEN d.hidden THEN 'unfinished'
				WHEN d.score IS NULL THEN 'no_weight'
				WHEN d.judged > 0 AND judge_status <> 'calibrated' THEN judge_status
				WHEN d.score + d.open_share < d.absolute THEN 'below_threshold'
				WHEN d.score < d.absolute OR d.unfinished > 0 AND may_fail THEN 'unfinished'
				WHEN (r).baseline IS NULL OR d.locked_n = 0 THEN 'passes'
				WHEN no_baseline IS NOT NULL THEN no_baseline
				WHEN d.base_score IS NULL THEN 'baseline_differs'
				WHEN d.locked_score + d.locked_open_share < d.base_limit THEN 'below_baseline'
				WHEN d.locked_score < d.base_limit THEN 'unfinished'
				ELSE 'passes' END AS reason
		FROM measured d)
	/* Of a preview that has asked some cases, these are the score. */
	SELECT q.task, CASE WHEN q.hidden OR q.metric <> 'mean' AND q.unfinished > 0 THEN NULL
			WHEN (r).purpose = 'preview' THEN round(q.score / nullif(1 - q.open_share, 0), 6)
			ELSE round(q.score, 6) END,
		CASE WHEN (r).purpose = 'preview' THEN q.n - q.unfinished ELSE q.n END,
		CASE WHEN NOT q.hidden AND ((r).purpose <> 'preview' OR q.unfinished = 0) THEN round(q.stderr, 6) END,
		q.absolute,
		CASE WHEN no_baseline IS NULL THEN round(q.base_score, 6) END,
		CASE WHEN q.reason = 'passes' THEN true
			WHEN q.reason IN ('below_threshold', 'below_baseline') THEN false END,
		q.blocking, q.reason, q.metric, CASE WHEN NOT q.hidden THEN round(q.value, 6) END
	FROM reasoned q ORDER BY q.task;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.gate_rows(gpucredit_eval.run) IS
'Internal: each task''s gate.';

CREATE FUNCTION gpucredit_eval.gate(org text, run bigint)
RETURNS TABLE (task text, score numeric, n integer, stderr numeric, threshold numeric,
	baseline numeric, passes boolean, blocking boolean, reason text, metric text, value numeric)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT * FROM gpucredit_eval.gate_rows(gpucredit_eval.require_scores(gate.org, gate.run));
END;
COMMENT ON FUNCTION gpucredit_eval.gate(text, bigint) IS
'Gates: what each task scores and whether that lets the model ship.
Result: score 0 to 1, of n cases, failed ones count 0; its standard error; the score it must reach, which set_floor() may have raised; the baseline''s on locked sets; passes: NULL: inconclusive; reason: passes, below_threshold, below_baseline, or why nothing is decided: unfinished, paused, cancelled, over_bound, not_served (the job that serves the model ended before the run), other_model (its agent reported another digest than the version''s), entered (a session of that job was opened, or another job of its account ran beside it), errors, uncalibrated, lapsed, disagrees, baseline_differs, baseline_unfinished, baseline_errors (too many of its cases failed), baseline_sampled (it is a preview), no_cases, no_weight; metric: what the score is: mean of the cases; perplexity: its reciprocal; mcc, at least 0; f1; value: of the last three the figure itself. These three have no score until all cases are finished, and mcc and f1 no standard error; a case without an answer counts as a wrong choice, and makes a perplexity''s score 0.
A preview compares the cases of its sample with the same cases of the baseline. Until all of them are asked, score and n are of those that are, without standard error, and a gate is decided as soon as the others cannot change it.
A task with held-out cases has no score until its run is finished.
Errors: UC601 no such run; 42501 the caller rates answers by hand.';

CREATE FUNCTION gpucredit_eval.verdict_of(r gpucredit_eval.run) RETURNS text
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT CASE WHEN count(*) = 0 THEN 'inconclusive'
		WHEN bool_or(g.blocking AND g.passes IS FALSE) THEN 'block'
		WHEN bool_or(g.blocking AND g.passes IS NULL) THEN 'inconclusive'
		WHEN bool_or(g.passes IS NOT TRUE) THEN 'warn'
		ELSE 'pass' END
	FROM gpucredit_eval.gate_rows(r) g;
END;
COMMENT ON FUNCTION gpucredit_eval.verdict_of(gpucredit_eval.run) IS
'Internal: pass, warn, block or inconclusive.';

/*
 * Whether the cases that are left cannot change a run's verdict any more.
 */
CREATE FUNCTION gpucredit_eval.is_decided(r gpucredit_eval.run) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT coalesce(bool_or(g.reason = 'errors' OR g.blocking AND g.passes IS FALSE)
		OR bool_and(g.passes IS NOT NULL), false)
	FROM gpucredit_eval.gate_rows(r) g;
END;
COMMENT ON FUNCTION gpucredit_eval.is_decided(gpucredit_eval.run) IS
'Internal: whether a preview cannot pass any more, or each of its gates is decided.';

CREATE FUNCTION gpucredit_eval.verdict(org text, run bigint) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT gpucredit_eval.verdict_of(gpucredit_eval.require_scores(verdict.org, verdict.run));
END;
COMMENT ON FUNCTION gpucredit_eval.verdict(text, bigint) IS
'Gates: pass; warn: an advisory gate does not pass; block: a blocking gate fails; inconclusive: a blocking gate cannot decide.
Errors: UC601 no such run; 42501 the caller rates answers by hand.';

/*
 * Compares the cases that both runs finished: the difference is b minus a.
 */
CREATE FUNCTION gpucredit_eval.compare(org text, a bigint, b bigint, OUT n integer,
	OUT score_a numeric, OUT score_b numeric, OUT difference numeric, OUT stderr numeric)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	ra gpucredit_eval.run := gpucredit_eval.require_scores(compare.org, compare.a);
	rb gpucredit_eval.run := gpucredit_eval.require_scores(compare.org, compare.b);
	hidden integer;
	other text;
BEGIN
	/* Comparing runs over parts of the cases would reveal them one by one. */
	SELECT s.set INTO other
	FROM gpucredit_eval.run_set s
		JOIN gpucredit_eval.golden_set g ON g.org = s.org AND g.set = s.set AND g.kind = 'held_out'
	WHERE s.org = ra.org AND s.run IN (ra.run, rb.run)
		AND (ra.state <> 'finished' OR rb.state <> 'finished'
			OR 2 <> (SELECT count(*) FROM gpucredit_eval.run_set o
				WHERE o.org = s.org AND o.run IN (ra.run, rb.run) AND o.set = s.set
					AND o.version = s.version) AND ra.run <> rb.run)
	LIMIT 1;
	IF FOUND THEN
		PERFORM gpucredit_eval.held_out(format('the runs have not both finished version %s of the held-out set "%s"',
				(SELECT max(o.version) FROM gpucredit_eval.run_set o WHERE o.org = ra.org
					AND o.run IN (ra.run, rb.run) AND o.set = other), other),
			'Compare runs that have finished the same version of it.');
	END IF;
	WITH pairs AS (
		SELECT (x.c).weight AS w, (x.o).score AS sa, y.score AS sb, x.kind
		FROM gpucredit_eval.run_cases(ra.org, ra.run) x
			JOIN gpucredit_eval.result y ON y.org = rb.org AND y.run = rb.run
				AND y."case" = (x.c)."case"
		WHERE (x.o).score IS NOT NULL AND y.score IS NOT NULL
			AND gpucredit_eval.aggregate_of((x.c).checks) <> 'perplexity')
	SELECT count(*), count(*) FILTER (WHERE p.kind = 'held_out'),
		round(sum(p.w * p.sa) / nullif(sum(p.w), 0), 6),
		round(sum(p.w * p.sb) / nullif(sum(p.w), 0), 6),
		round(sum(p.w * (p.sb - p.sa)) / nullif(sum(p.w), 0), 6),
		round(gpucredit_eval.mean_error(count(*), sum(p.w), sum(p.w * (p.sb - p.sa)),
			sum(p.w * p.w), sum(p.w * p.w * (p.sb - p.sa)),
			sum(p.w * p.w * (p.sb - p.sa) * (p.sb - p.sa))), 6)
	INTO compare.n, hidden, compare.score_a, compare.score_b, compare.difference,
		compare.stderr
	FROM pairs p;
	IF hidden BETWEEN 1 AND 19 THEN
		PERFORM gpucredit_eval.held_out('fewer than 20 held-out cases are compared',
			'Compare runs that have finished.');
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.compare(text, bigint, bigint) IS
'Gates: the paired difference of two runs, over the cases that both have finished; those of metric perplexity are left out, as they have no scores of their own.
Result: how many cases; both scores; the second less the first, and its standard error. Errors: UC601 no such run; 42501 the caller rates answers by hand; UC604 so few held-out cases that their results would show.';
