/*
 * 87_list.sql: lists for people, as the console shows them.
 *
 * Each caller gets what its other calls would show it, and no more. A run is
 * listed for those who may act as its account; of a run over held-out sets
 * there are no figures before it has finished; and a list of cases has those
 * of sets that the caller may read and that are not held out.
 */
CREATE FUNCTION gpucredit_eval.sets(org text)
RETURNS TABLE (set text, kind text, account text, permission text, cases integer,
	version integer, version_cases integer, tasks jsonb, frozen_at timestamptz,
	runs_per_month integer, created_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	PERFORM gpucredit_eval.check_member(sets.org);
	RETURN QUERY
	SELECT g.set, g.kind, g.account, p.permission, g.cases, v.version, v.cases, v.tasks, v.frozen_at,
		CASE g.kind WHEN 'held_out' THEN g.runs_per_month END, g.created_at
	FROM gpucredit_eval.golden_set g
		CROSS JOIN LATERAL (SELECT gpucredit_eval.permission_on(g) OFFSET 0) p (permission)
		LEFT JOIN gpucredit_eval.set_version v ON v.org = g.org AND v.set = g.set
			AND v.version = g.versions
	WHERE g.org = sets.org AND p.permission IS NOT NULL
	ORDER BY g.set;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.sets(text) IS
'Sets: those that the caller may run, with their newest versions.
Result: kind; account: whose it is; permission: own, curate, read or run; cases: of all that were ever added; the newest frozen version, its cases and how many each task has; how often a held-out set may be run in a month. Errors: UC001 no such organisation.';

/* Returns what the session may do with a set, or NULL for nothing. */
CREATE FUNCTION gpucredit_eval.permission_on(s gpucredit_eval.golden_set) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	need text;
BEGIN
	IF gpucredit_eval.acts_as((s).org, (s).account) THEN
		RETURN 'own';
	END IF;
	FOREACH need IN ARRAY '{curate,read,run}'::text[] LOOP
		BEGIN
			PERFORM gpucredit_eval.require_set((s).org, (s).set, need);
			RETURN need;
		EXCEPTION WHEN SQLSTATE 'UC601' THEN
			CONTINUE;
		END;
	END LOOP;
	/* All accounts below a set's may run it. */
	RETURN (SELECT 'run' FROM gpucredit.accounts a
		WHERE a.org = (s).org AND gpucredit_eval.is_below(a.account, (s).account)
			AND gpucredit_eval.acts_as(a.org, a.account) LIMIT 1);
END
$$;
COMMENT ON FUNCTION gpucredit_eval.permission_on(gpucredit_eval.golden_set) IS
'Internal: own, curate, read, run, or NULL.';

/* Whether the session may act as some account that may run a config. */
CREATE FUNCTION gpucredit_eval.may_run(org text, account text) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT gpucredit_eval.acts_as(may_run.org, may_run.account)
		OR EXISTS (SELECT FROM gpucredit.accounts a WHERE a.org = may_run.org
			AND gpucredit_eval.is_below(a.account, may_run.account)
			AND gpucredit_eval.acts_as(a.org, a.account));
END;
COMMENT ON FUNCTION gpucredit_eval.may_run(text, text) IS
'Internal: may the session act as an account, or as one below it?';

CREATE FUNCTION gpucredit_eval.configs(org text)
RETURNS TABLE (config text, version integer, account text, sets text[], gates jsonb, judge text,
	judge_status text, lapses_at timestamptz, runs bigint, created_at timestamptz, created_by text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	PERFORM gpucredit_eval.check_member(configs.org);
	RETURN QUERY
	SELECT c.config, c.version, c.account,
		ARRAY(SELECT (e ->> 'set') || '@' || (e ->> 'version')
			FROM jsonb_array_elements(c.document -> 'sets') e),
		c.document -> 'gates', gpucredit_eval.judge_of(c),
		CASE WHEN gpucredit_eval.judge_of(c) IS NOT NULL
			THEN gpucredit_eval.judge_status(c.org, c.document -> 'judge') END,
		(SELECT max(k.calibrated_at) + gpucredit_eval.calibration_life()
			FROM gpucredit_eval.calibration k
			WHERE k.org = c.org AND k.judge = gpucredit_eval.judge_of(c) AND k.status = 'calibrated'),
		(SELECT count(*) FROM gpucredit_eval.run r WHERE r.org = c.org AND r.config = c.config
			AND gpucredit_eval.acts_as(r.org, r.account)),
		c.created_at, c.created_by
	FROM gpucredit_eval.config_name n
		CROSS JOIN LATERAL (SELECT o.* FROM gpucredit_eval.config o
			WHERE o.org = n.org AND o.config = n.config ORDER BY o.version DESC LIMIT 1) c
	WHERE n.org = configs.org AND gpucredit_eval.may_run(n.org, n.account)
	ORDER BY c.config;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.configs(text) IS
'Configs: those that the caller may run, in their newest versions.
Result: the sets as "set@version"; the gates with their thresholds; what the judge is called, whether it is calibrated, and until when; how many runs the caller may see. Errors: UC001 no such organisation.';

CREATE TYPE gpucredit_eval.run_summary AS (
	run bigint, account text, config text, version integer, model text, purpose text,
	state text, verdict text, cases integer, baseline bigint, cap numeric, captured numeric,
	problem text, held_out boolean, started_at timestamptz, ended_at timestamptz, started_by text
);

CREATE FUNCTION gpucredit_eval.runs(org text, account text DEFAULT '', config text DEFAULT NULL,
	state text DEFAULT NULL, after bigint DEFAULT NULL, "limit" integer DEFAULT 100)
RETURNS SETOF gpucredit_eval.run_summary
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	blind boolean := gpucredit_eval.is_blind();
BEGIN
	PERFORM gpucredit_eval.check_account(runs.org, runs.account);
	RETURN QUERY
	SELECT r.run, r.account, r.config, r.config_version, r.model, r.purpose, r.state,
		/* A run that has not ended would add up all of its results. */
		CASE WHEN r.ended_at IS NOT NULL AND NOT blind THEN gpucredit_eval.verdict_of(r) END,
		r.cases, r.baseline, r.cap + r.gpu_held,
		CASE WHEN NOT r.held_out OR r.ended_at IS NOT NULL THEN r.captured END,
		r.problem, r.held_out, r.started_at, r.ended_at, r.started_by
	FROM gpucredit_eval.run r
	WHERE r.org = runs.org AND gpucredit_eval.is_below(r.account, runs.account)
		AND (runs.config IS NULL OR r.config = runs.config)
		AND (runs.state IS NULL OR r.state = runs.state)
		AND (runs.after IS NULL OR r.run < runs.after)
	ORDER BY r.run DESC LIMIT least(runs."limit", 1001);
END
$$;
COMMENT ON FUNCTION gpucredit_eval.runs(text, text, text, text, bigint, integer) IS
'Runs: of an account and all below, newest first.
config, state: only such; NULL: all. after: the last run of the page before.
Result: the verdict of those that have ended, which a caller who rates answers by hand does not see; amounts in credits. Of a run over held-out sets it is not said what it has cost until it has ended. Errors: UC001 no such account.';

CREATE FUNCTION gpucredit_eval.score_history(org text, config text, account text DEFAULT '',
	"limit" integer DEFAULT 100)
RETURNS TABLE (run bigint, version integer, model text, purpose text, started_at timestamptz,
	task text, score numeric, stderr numeric, n integer, threshold numeric, baseline numeric,
	passes boolean, blocking boolean, reason text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	PERFORM gpucredit_eval.check_account(score_history.org, score_history.account),
		gpucredit_eval.check_not_blind();
	RETURN QUERY
	SELECT r.run, r.config_version, r.model, r.purpose, r.started_at, g.task, g.score, g.stderr, g.n,
		g.threshold, g.baseline, g.passes, g.blocking, g.reason
	FROM (SELECT o.* FROM gpucredit_eval.run o
			WHERE o.org = score_history.org AND o.config = score_history.config
				AND o.state = 'finished' AND o.purpose <> 'preview' AND gpucredit_eval.is_below(o.account, score_history.account)
			ORDER BY o.run DESC LIMIT least(score_history."limit", 1000)) r
		CROSS JOIN LATERAL gpucredit_eval.gate_rows(r) g
	ORDER BY r.run, g.task;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.score_history(text, text, text, integer) IS
'Gates: what each task scored in the newest finished runs of a config, without previews, oldest first, with the score that it must reach.
account: its runs and those of all below. limit: of runs, at most 1,000.
Result: as gate(), a row for each run and task. Errors: UC001 no such account; 42501 the caller rates answers by hand.';

CREATE FUNCTION gpucredit_eval.compare_cases(org text, a bigint, b bigint,
	failed boolean DEFAULT true, "limit" integer DEFAULT 100)
RETURNS TABLE ("case" bigint, name text, task text, input jsonb, expected jsonb, checks jsonb,
	score_a numeric, score_b numeric, output_a text, output_b text, error_a text, error_b text,
	failures_a text, failures_b text, reasons_a text[], reasons_b text[])
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	ra gpucredit_eval.run := gpucredit_eval.require_scores(compare_cases.org, compare_cases.a);
	rb gpucredit_eval.run := gpucredit_eval.require_scores(compare_cases.org, compare_cases.b);
	readable text[] := ARRAY(SELECT unnest(gpucredit_eval.readable_sets(ra))
		INTERSECT SELECT unnest(gpucredit_eval.readable_sets(rb)));
BEGIN
	RETURN QUERY
	WITH pair AS (
		SELECT x.c, other AS oa, x.o AS ob, s.place
		FROM gpucredit_eval.run_cases(rb.org, rb.run) x
			JOIN gpucredit_eval.run_set s ON s.org = rb.org AND s.run = rb.run AND s.set = (x.c).set
			LEFT JOIN gpucredit_eval.result other ON other.org = ra.org AND other.run = ra.run
				AND other."case" = (x.c)."case"
		WHERE x.kind <> 'held_out' AND (x.c).set = ANY (readable))
	SELECT (p.c)."case", (p.c).name, (p.c).task, (p.c).input, (p.c).expected, (p.c).checks,
		(p.oa).score, (p.ob).score, gpucredit_eval.output_text(p.oa), gpucredit_eval.output_text(p.ob),
		(p.oa).error, (p.ob).error, gpucredit_eval.failed_checks(p.c, p.oa),
		gpucredit_eval.failed_checks(p.c, p.ob), gpucredit_eval.reasons_of(p.oa),
		gpucredit_eval.reasons_of(p.ob)
	FROM pair p
	WHERE compare_cases.failed IS NOT TRUE OR least((p.oa).score, (p.ob).score) < 1
		OR (p.oa).error IS NOT NULL OR (p.ob).error IS NOT NULL
	ORDER BY coalesce((p.ob).score, 0) - coalesce((p.oa).score, 0), (p.ob).score, p.place, (p.c).ordinal
	LIMIT least(compare_cases."limit", 1000);
END
$$;
COMMENT ON FUNCTION gpucredit_eval.compare_cases(text, bigint, bigint, boolean, integer) IS
'Gates: the cases of two runs side by side, those that got worst from a to b first; of sets that the caller may read and that are not held out.
failed: only cases that do not score 1 in both. limit: at most 1,000.
Result: what was asked and expected; of each run the score, the output, the error, which checks failed, and the judge''s reasons. Errors: UC601 no such run; 42501 the caller rates answers by hand.';

CREATE FUNCTION gpucredit_eval.output_text(o gpucredit_eval.result) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT coalesce(gpucredit_eval.as_text((o).output), encode((o).output, 'base64'));
END;
COMMENT ON FUNCTION gpucredit_eval.output_text(gpucredit_eval.result) IS
'Internal: the output of a case; in base64 if it is no text.';

CREATE FUNCTION gpucredit_eval.failed_checks(c gpucredit_eval.golden_case,
	o gpucredit_eval.result) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT string_agg(concat_ws(' ', k.k ->> 'type',
			left(coalesce(own.k ->> 'value', (own.k -> 'value')::text), 2000),
			k.k ->> 'reason', k.k ->> 'error'), E'\n' ORDER BY k.i)
	FROM jsonb_array_elements(CASE jsonb_typeof((o).checks) WHEN 'array' THEN (o).checks ELSE '[]' END)
			WITH ORDINALITY k (k, i)
		LEFT JOIN jsonb_array_elements((c).checks) WITH ORDINALITY own (k, i) USING (i)
	WHERE k.k -> 'pass' = 'false';
END;
COMMENT ON FUNCTION gpucredit_eval.failed_checks(gpucredit_eval.golden_case, gpucredit_eval.result) IS
'Internal: the checks that an answer failed, a line each.';

CREATE FUNCTION gpucredit_eval.reasons_of(o gpucredit_eval.result) RETURNS text[]
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT array_agg(format('%s: %s', j.score, CASE WHEN j.parsed THEN coalesce(j.reason, '')
			ELSE 'no verdict: ' || left(coalesce(gpucredit_eval.as_text(j.raw), ''), 500) END)
		ORDER BY j.sample)
	FROM gpucredit_eval.judgement j
	WHERE j.org = (o).org AND j.run = (o).run AND j."case" = (o)."case";
END;
COMMENT ON FUNCTION gpucredit_eval.reasons_of(gpucredit_eval.result) IS
'Internal: what the judge said of an answer, each sample with its score.';

/*
 * Returns answers that the caller has not rated yet, without the judge's
 * scores and without what others said, so that each rates by himself. Answers
 * that another person has rated come first, because two have to.
 */
CREATE FUNCTION gpucredit_eval.to_label(org text, run bigint, "limit" integer DEFAULT 1,
	OUT "case" bigint, OUT task text, OUT input jsonb, OUT expected jsonb, OUT rubric text,
	OUT output text, OUT rated bigint, OUT left_over bigint)
RETURNS SETOF record
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	r gpucredit_eval.run := gpucredit_eval.require_run(to_label.org, to_label.run);
	readable text[] := gpucredit_eval.readable_sets(r);
BEGIN
	RETURN QUERY
	WITH open AS MATERIALIZED (
		SELECT x.c, x.o, (SELECT count(*) FROM gpucredit_eval.label l
				WHERE l.org = r.org AND l.run = r.run AND l."case" = (x.c)."case") AS others,
			EXISTS (SELECT FROM gpucredit_eval.label l WHERE l.org = r.org AND l.run = r.run
				AND l."case" = (x.c)."case" AND l.rater = gpucredit_eval.caller()) AS mine
		FROM gpucredit_eval.run_cases(r.org, r.run) x
		WHERE x.kind <> 'held_out' AND (x.c).set = ANY (readable) AND (x.c).rubric IS NOT NULL
			AND (x.o).output IS NOT NULL AND (x.o).passed)
	SELECT (p.c)."case", (p.c).task, (p.c).input, (p.c).expected, (p.c).rubric,
		gpucredit_eval.output_text(p.o), (SELECT count(*) FROM open q WHERE q.mine),
		(SELECT count(*) FROM open q WHERE NOT q.mine)
	FROM open p WHERE NOT p.mine
	ORDER BY p.others = 1 DESC, md5((p.c)."case"::text), (p.c)."case"
	LIMIT least(to_label."limit", 100);
END
$$;
COMMENT ON FUNCTION gpucredit_eval.to_label(text, bigint, integer) IS
'Calibration: answers of a run that the caller has not rated, to be rated by label() without knowing what the judge or others think. Answers that one other person has rated come first, as two have to. Held-out cases are not among them.
Result: what was asked, what is expected, and the answer; how many the caller has rated of this run, and how many are left. Errors: UC601 no such run.';

CREATE FUNCTION gpucredit_eval.calibrations(org text)
RETURNS TABLE (judge text, status text, calibrated_at timestamptz, lapses_at timestamptz,
	n integer, raters integer, agreement numeric, kappa_weighted numeric, kappa_low numeric,
	kappa_high numeric, bias numeric, length_correlation numeric, configs text[])
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	PERFORM gpucredit_eval.check_member(calibrations.org), gpucredit_eval.check_not_blind();
	RETURN QUERY
	WITH used AS (
		SELECT gpucredit_eval.judge_of(c) AS judge, array_agg(c.config ORDER BY c.config) AS configs
		FROM gpucredit_eval.config c
		WHERE c.org = calibrations.org AND gpucredit_eval.judge_of(c) IS NOT NULL
			AND gpucredit_eval.may_run(c.org, c.account)
			AND NOT EXISTS (SELECT FROM gpucredit_eval.config n
				WHERE n.org = c.org AND n.config = c.config AND n.version > c.version)
		GROUP BY 1)
	SELECT u.judge, CASE WHEN k.status IS NULL THEN 'uncalibrated'
			WHEN k.status = 'calibrated' AND k.calibrated_at < gpucredit.now() - gpucredit_eval.calibration_life()
			THEN 'lapsed' ELSE k.status END,
		k.calibrated_at, k.calibrated_at + gpucredit_eval.calibration_life(), k.n, k.raters,
		k.agreement, k.kappa_weighted, k.kappa_low, k.kappa_high, k.bias, k.length_correlation,
		u.configs
	FROM used u LEFT JOIN LATERAL (SELECT o.* FROM gpucredit_eval.calibration o
			WHERE o.org = calibrations.org AND o.judge = u.judge
			ORDER BY o.calibrated_at DESC LIMIT 1) k ON true
	ORDER BY u.judge;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.calibrations(text) IS
'Calibration: the judges of the configs that the caller may run, and how well they agreed with people when calibrate() was last called.
Result: status calibrated, lapsed, disagrees or uncalibrated; the figures as calibrate() has them; the configs. Errors: UC001 no such organisation; 42501 the caller rates answers by hand.';

CREATE TYPE gpucredit_eval.stream_summary AS (
	stream text, kind text, source text, account text, config text, version integer,
	every integer, mu numeric, sigma numeric, lambda numeric, width numeric, t bigint, z numeric,
	signal boolean, baseline bigint, keep interval, changed_at timestamptz,
	last_at timestamptz, kept bigint
);

CREATE FUNCTION gpucredit_eval.streams(org text, account text DEFAULT '')
RETURNS SETOF gpucredit_eval.stream_summary
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
	PERFORM gpucredit_eval.check_account(streams.org, streams.account);
	RETURN QUERY
	SELECT s.stream, s.kind, s.source, s.account, s.config, s.config_version, s.every, s.mu, s.sigma,
		s.lambda, s.width, s.t, s.z, s.signal, s.baseline, s.keep, s.changed_at,
		(SELECT o.observed_at FROM gpucredit_eval.observation o
			WHERE o.org = s.org AND o.stream = s.stream AND o.t = s.t
				AND o.observed_at >= s.changed_at ORDER BY o.observation DESC LIMIT 1),
		CASE WHEN s.keep IS NOT NULL THEN (SELECT count(*) FROM gpucredit_eval.answer a
			WHERE a.org = s.org AND a.stream = s.stream AND a.expires_at > gpucredit.now()) END
	FROM gpucredit_eval.stream s
	WHERE s.org = streams.org AND gpucredit_eval.is_below(s.account, streams.account)
	ORDER BY coalesce(s.source, s.stream), s.source IS NOT NULL, s.stream;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.streams(text, text) IS
'Drift: the streams of an account and all below, and where they stood when scores were last folded, each with its rates behind it.
Result: as set_stream() and set_rate() have set them; t: scores so far, z: their weighted mean, signal: whether that is outside its limits; when the last was observed; how many answers are kept. Errors: UC001 no such account.';

CREATE FUNCTION gpucredit_eval.observations(org text, stream text, "limit" integer DEFAULT 200)
RETURNS TABLE (t bigint, observed_at timestamptz, score numeric, z numeric, lower numeric, upper numeric)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	s gpucredit_eval.stream := gpucredit_eval.require_stream(observations.org, observations.stream);
BEGIN
	RETURN QUERY
	SELECT o.t, o.observed_at, o.score, o.z, round(s.mu - half.w, 6), round(s.mu + half.w, 6)
	FROM (SELECT b.* FROM gpucredit_eval.observation b
			WHERE b.org = s.org AND b.stream = s.stream AND b.t IS NOT NULL
				AND b.observed_at >= s.changed_at
			ORDER BY b.observation DESC LIMIT least(observations."limit", 10000)) o
		CROSS JOIN LATERAL (SELECT s.width * s.sigma * sqrt(s.lambda / (2 - s.lambda)
			* CASE WHEN s.kind <> 'score' OR o.t * s.lambda >= 20 THEN 1
				ELSE 1 - power(1 - s.lambda, 2 * o.t) END)) half (w)
	ORDER BY o.t;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.observations(text, text, integer) IS
'Drift: the newest scores of a stream since it was set, oldest first, with the weighted mean after each and its limits.
Errors: UC601 no such stream.';
