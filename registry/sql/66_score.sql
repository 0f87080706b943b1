/*
 * 66_score.sql: results of evaluations, by version.
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
	CONSTRAINT score_pkey PRIMARY KEY (org, version, benchmark, metric),
	FOREIGN KEY (org, version) REFERENCES gpucredit_registry.version
);
COMMENT ON TABLE gpucredit_registry.score IS
'What each version scored in which benchmark, by which metric';

CREATE FUNCTION gpucredit_registry.set_score_as(v gpucredit_registry.version,
	benchmark text, metric text, score numeric, detail jsonb, author text) RETURNS void
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
	/* no NaN either, which is above every number */
	IF abs(set_score_as.score) > 1e15 OR scale(set_score_as.score) > 15
		OR octet_length(set_score_as.detail::text) > 65536
	THEN
		PERFORM gpucredit_registry.refuse('a score is -10^15 to 10^15 with 15 decimals, its detail has 64 kB at most',
			format('The score is %s.', left(set_score_as.score::text, 64)));
	END IF;
	IF set_score_as.score IS NULL THEN
		DELETE FROM gpucredit_registry.score s
		WHERE s.org = (v).org AND s.version = (v).version
			AND s.benchmark = set_score_as.benchmark AND s.metric = set_score_as.metric;
	ELSE
		INSERT INTO gpucredit_registry.score AS s
		VALUES ((v).org, (v).version, set_score_as.benchmark, set_score_as.metric,
			set_score_as.score, set_score_as.detail, set_score_as.author, gpucredit.now())
		ON CONFLICT ON CONSTRAINT score_pkey DO UPDATE
		SET score = excluded.score, detail = excluded.detail, set_by = excluded.set_by,
			set_at = excluded.set_at
		WHERE (s.score, s.detail) IS DISTINCT FROM (excluded.score, excluded.detail);
	END IF;
	IF FOUND THEN
		PERFORM gpucredit_registry.record((v).org, 'set_score', set_score_as.author,
			jsonb_build_object('version', (v).version, 'benchmark', set_score_as.benchmark,
				'metric', set_score_as.metric, 'score', set_score_as.score));
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.set_score_as(gpucredit_registry.version, text, text, numeric, jsonb, text) IS
'Internal: sets a score on behalf of somebody.';

CREATE FUNCTION gpucredit_registry.set_score(org text, version bigint, benchmark text,
	metric text, score numeric, detail jsonb DEFAULT NULL) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT gpucredit_registry.set_score_as(gpucredit_registry.own_version(set_score.org,
			set_score.version), set_score.benchmark, set_score.metric, set_score.score,
		set_score.detail, session_user);
END;
COMMENT ON FUNCTION gpucredit_registry.set_score(text, bigint, text, text, numeric, jsonb) IS
'Scores: what a version scored in a benchmark; the last one stands, the same again changes nothing.
score: NULL: the score goes. detail: how it was measured, at most 64 kB.
Errors: UC501 no such version; 22023.';

CREATE FUNCTION gpucredit_registry.scores(org text, version bigint)
RETURNS TABLE (benchmark text, metric text, score numeric, detail jsonb, set_by text,
	set_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	v gpucredit_registry.version := gpucredit_registry.own_version(scores.org, scores.version);
BEGIN
	RETURN QUERY
	SELECT s.benchmark, s.metric, s.score, s.detail, s.set_by, s.set_at
	FROM gpucredit_registry.score s
	WHERE s.org = v.org AND s.version = v.version
	ORDER BY s.benchmark, s.metric;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.scores(text, bigint) IS
'Scores: those of a version. Who may read the repository gets them by GET /api/models/ORG/NAME/scores/REV.
Errors: UC501 no such version.';
