/*
 * 66_score.sql: evaluation results of versions.
 */
CREATE TABLE gpucredit_registry.score (
	org text COLLATE "C" NOT NULL,
	version bigint NOT NULL,
	benchmark text COLLATE "C" NOT NULL,
	metric text COLLATE "C" NOT NULL,
	score numeric NOT NULL,
	detail jsonb,
	set_by text NOT NULL,
	set_at timestamptz NOT NULL,
	measured boolean NOT NULL DEFAULT false,	/* by an evaluation run;
												 * otherwise stated by its
												 * author */
	CONSTRAINT score_pkey PRIMARY KEY (org, version, benchmark, metric),
	FOREIGN KEY (org, version) REFERENCES gpucredit_registry.version
);
COMMENT ON TABLE gpucredit_registry.score IS
'What each version scored in which benchmark, by which metric';

CREATE FUNCTION gpucredit_registry.set_score_as(v gpucredit_registry.version,
	benchmark text, metric text, score numeric, detail jsonb, author text,
	measured boolean) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF coalesce(set_score_as.benchmark, '') !~ '^[A-Za-z0-9][A-Za-z0-9_./:@ -]{0,199}$'
		OR coalesce(set_score_as.metric, '') !~ '^[A-Za-z0-9][A-Za-z0-9_.:@-]{0,62}$'
	THEN
		PERFORM gpucredit_registry.refuse(format('benchmark "%s" or metric "%s" is malformed',
				left(set_score_as.benchmark, 64), left(set_score_as.metric, 64)),
			'A benchmark has 1 to 200, a metric 1 to 63 letters, digits, "_", ".", ":", "@" or "-", a benchmark "/" and spaces, too.');
	END IF;
	/* This also refuses NaN, which is greater than every number. */
	IF abs(set_score_as.score) > 1e15 OR scale(set_score_as.score) > 15
		OR octet_length(set_score_as.detail::text) > 65536
	THEN
		PERFORM gpucredit_registry.refuse('a score is -10^15 to 10^15 with 15 decimals, its detail has 64 kB at most',
			format('The score is %s.', left(set_score_as.score::text, 64)));
	END IF;
	/* Another call may be storing a measured score now. */
	PERFORM FROM gpucredit_registry.version o
	WHERE o.org = (v).org AND o.version = (v).version FOR NO KEY UPDATE;
	IF NOT set_score_as.measured AND EXISTS (SELECT FROM gpucredit_registry.score s
		WHERE s.org = (v).org AND s.version = (v).version AND s.measured
			AND s.benchmark = set_score_as.benchmark AND s.metric = set_score_as.metric)
	THEN
		RAISE EXCEPTION 'the score "%" of benchmark "%" was measured by an evaluation run',
			set_score_as.metric, set_score_as.benchmark
			USING ERRCODE = 'UC506',
			DETAIL = 'What was measured is replaced only by another run.',
			HINT = 'State your own score under another benchmark or metric.';
	END IF;
	IF set_score_as.score IS NULL THEN
		DELETE FROM gpucredit_registry.score s
		WHERE s.org = (v).org AND s.version = (v).version
			AND s.benchmark = set_score_as.benchmark AND s.metric = set_score_as.metric;
	ELSE
		INSERT INTO gpucredit_registry.score AS s
		VALUES ((v).org, (v).version, set_score_as.benchmark, set_score_as.metric,
			set_score_as.score, set_score_as.detail, set_score_as.author, gpucredit.now(),
			set_score_as.measured)
		ON CONFLICT ON CONSTRAINT score_pkey DO UPDATE
		SET score = excluded.score, detail = excluded.detail, set_by = excluded.set_by,
			set_at = excluded.set_at, measured = excluded.measured
		WHERE (s.score, s.detail, s.measured)
			IS DISTINCT FROM (excluded.score, excluded.detail, excluded.measured);
	END IF;
	IF FOUND THEN
		PERFORM gpucredit_registry.record((v).org, 'set_score', set_score_as.author,
			jsonb_build_object('version', (v).version, 'benchmark', set_score_as.benchmark,
				'metric', set_score_as.metric, 'score', set_score_as.score,
				'measured', set_score_as.measured));
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.set_score_as(gpucredit_registry.version, text, text, numeric, jsonb, text, boolean) IS
'Internal: sets a score on behalf of somebody.';

CREATE FUNCTION gpucredit_registry.set_score(org text, version bigint, benchmark text,
	metric text, score numeric, detail jsonb DEFAULT NULL) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT gpucredit_registry.set_score_as(gpucredit_registry.own_version(set_score.org,
			set_score.version), set_score.benchmark, set_score.metric, set_score.score,
		set_score.detail, session_user, false);
END;
COMMENT ON FUNCTION gpucredit_registry.set_score(text, bigint, text, text, numeric, jsonb) IS
'Scores: states what a version scored in a benchmark; the last one stands, the same again changes nothing. What an evaluation run measured stays.
score: NULL: the score goes. detail: how it was measured, at most 64 kB.
Errors: UC501 no such version; UC506 an evaluation run measured it; 22023.';

/*
 * Stores a measured score. No role may call it; only extensions that measure
 * do.
 */
CREATE FUNCTION gpucredit_registry.record_score(org text, version bigint, benchmark text,
	metric text, score numeric, detail jsonb DEFAULT NULL) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT gpucredit_registry.set_score_as(v, record_score.benchmark, record_score.metric,
		record_score.score, record_score.detail, session_user, true)
	FROM gpucredit_registry.version v
	WHERE v.org = record_score.org AND v.version = record_score.version;
END;
COMMENT ON FUNCTION gpucredit_registry.record_score(text, bigint, text, text, numeric, jsonb) IS
'Internal: keeps what an evaluation run measured; it replaces what somebody stated. Errors: 22023.';

CREATE FUNCTION gpucredit_registry.scores(org text, version bigint)
RETURNS TABLE (benchmark text, metric text, score numeric, detail jsonb, set_by text,
	set_at timestamptz, measured boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	v gpucredit_registry.version := gpucredit_registry.own_version(scores.org, scores.version);
BEGIN
	RETURN QUERY
	SELECT s.benchmark, s.metric, s.score, s.detail, s.set_by, s.set_at, s.measured
	FROM gpucredit_registry.score s
	WHERE s.org = v.org AND s.version = v.version
	ORDER BY s.benchmark, s.metric;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.scores(text, bigint) IS
'Scores: those of a version, and who set them. Who may read the repository gets them by GET /api/models/ORG/NAME/scores/REV.
Result: measured: an evaluation run measured it; otherwise set_by stated it.
Errors: UC501 no such version.';
