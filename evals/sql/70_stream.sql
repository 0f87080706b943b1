/*
 * 70_stream.sql: whether the scores of production drift.
 *
 * One request in "every" is judged, selected by its hash, and its score is
 * observed. z is the exponentially weighted mean of the scores; it signals
 * drift outside of
 *
 *   mu -+ width sigma sqrt(lambda / (2 - lambda) (1 - (1 - lambda)^(2 t)))
 *
 * which widens with the number t of observations. Observers insert rows, and a
 * session that finds the stream unlocked folds all present rows into z, in the
 * order of their numbers, so observers do not wait for each other. While many
 * rows wait, they are folded ten times a second.
 *
 * A stream of kind "score" has the scores of answers. Its rates are streams of
 * their own, named STREAM/KIND: how many answers were truncated or refused,
 * what users say, how many complain. set_rate() makes them.
 */
CREATE TABLE gpucredit_eval.stream (
	org text COLLATE "C" NOT NULL,
	stream text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	config text COLLATE "C" NOT NULL,
	config_version integer NOT NULL,
	every integer NOT NULL,
	mu numeric NOT NULL,
	sigma numeric NOT NULL,
	lambda numeric NOT NULL,
	width numeric NOT NULL,
	t bigint NOT NULL DEFAULT 0,
	z numeric NOT NULL,
	signal boolean NOT NULL DEFAULT false,
	changed_at timestamptz NOT NULL,
	fold_after timestamptz NOT NULL DEFAULT '-infinity',
	kind text NOT NULL DEFAULT 'score'
		CHECK (kind IN ('score', 'truncation', 'refusal', 'feedback', 'complaint')),
	source text COLLATE "C",		/* of a rate: the stream whose requests it
									 * is about */
	baseline bigint,				/* the run that mu and sigma are from; NULL
									 * if they were given */
	keep interval,					/* how long inputs and outputs are kept;
									 * NULL for not at all */
	CONSTRAINT stream_pkey PRIMARY KEY (org, stream),
	CONSTRAINT stream_rate CHECK ((kind = 'score') = (source IS NULL)),
	FOREIGN KEY (org, config, config_version) REFERENCES gpucredit_eval.config,
	FOREIGN KEY (org, source) REFERENCES gpucredit_eval.stream
);
COMMENT ON TABLE gpucredit_eval.stream IS
'Streams of production scores, their control limits, and where they stand';

CREATE TABLE gpucredit_eval.observation (
	org text COLLATE "C" NOT NULL,
	stream text COLLATE "C" NOT NULL,
	request text COLLATE "C" NOT NULL,
	observation bigint GENERATED ALWAYS AS IDENTITY,
	score numeric NOT NULL,
	observed_at timestamptz NOT NULL,
	t bigint,					/* NULL until it is folded */
	z numeric,
	CONSTRAINT observation_pkey PRIMARY KEY (org, stream, request)
);
CREATE INDEX observation_to_fold ON gpucredit_eval.observation (org, stream, observation)
WHERE t IS NULL;
COMMENT ON TABLE gpucredit_eval.observation IS
'Scores of production requests, each once. A foreign key would have all observers lock the stream';

CREATE FUNCTION gpucredit_eval.check_limits(every integer, mu numeric, sigma numeric,
	lambda numeric, width numeric) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF coalesce(check_limits.every, 0) NOT BETWEEN 1 AND 1000000000
		OR check_limits.mu IS NULL OR check_limits.mu NOT BETWEEN 0 AND 1
		OR check_limits.sigma IS NULL OR check_limits.sigma NOT BETWEEN 0.000001 AND 1
		OR check_limits.lambda IS NULL OR check_limits.lambda NOT BETWEEN 0.001 AND 1
		OR check_limits.width IS NULL OR check_limits.width NOT BETWEEN 0.1 AND 100
	THEN
		PERFORM gpucredit_eval.refuse('every is 1 or more, mu 0 to 1, sigma 0.000001 to 1, lambda 0.001 to 1, width 0.1 to 100',
			format('They are %s, %s, %s, %s and %s.', check_limits.every, check_limits.mu,
				check_limits.sigma, check_limits.lambda, check_limits.width));
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.check_limits(integer, numeric, numeric, numeric, numeric) IS
'Internal: refuses what are no limits of a stream (22023).';

/*
 * Returns the name of a judge in a config, or NULL if it has none.
 */
CREATE FUNCTION gpucredit_eval.judge_of(c gpucredit_eval.config) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT CASE WHEN gpucredit_eval.is_present((c).document -> 'judge')
		THEN gpucredit_eval.judge_name((c).document -> 'judge') END;
END;
COMMENT ON FUNCTION gpucredit_eval.judge_of(gpucredit_eval.config) IS
'Internal: what the judge of a config is called, or NULL.';

/*
 * Returns the run that a stream's limits are taken from: the given one, or the
 * newest gate or nightly run of the config. It has the judge that production's
 * answers will have, because another judge gives other scores.
 */
CREATE FUNCTION gpucredit_eval.find_offline(c gpucredit_eval.config, given bigint)
RETURNS gpucredit_eval.run
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r gpucredit_eval.run;
	other gpucredit_eval.config;
BEGIN
	IF find_offline.given IS NOT NULL THEN
		r := gpucredit_eval.require_run((c).org, find_offline.given);
		SELECT * INTO STRICT other FROM gpucredit_eval.config o
		WHERE o.org = r.org AND o.config = r.config AND o.version = r.config_version;
		IF r.state <> 'finished' OR r.purpose = 'preview'
			OR gpucredit_eval.judge_of(other) IS DISTINCT FROM gpucredit_eval.judge_of(c)
		THEN
			PERFORM gpucredit_eval.wrong_state(format('run %s is no baseline of config "%s@%s"', r.run,
					(c).config, (c).version),
				'It is not finished, is a preview, or has another judge.', 'Name another run, or pass mu and sigma.');
		END IF;
		RETURN r;
	END IF;
	SELECT u.* INTO r FROM gpucredit_eval.run u
		JOIN gpucredit_eval.config o ON o.org = u.org AND o.config = u.config
			AND o.version = u.config_version
	WHERE u.org = (c).org AND u.config = (c).config AND u.state = 'finished'
		AND u.purpose IN ('gate', 'production_gate', 'nightly')
		AND gpucredit_eval.judge_of(o) IS NOT DISTINCT FROM gpucredit_eval.judge_of(c)
		AND gpucredit_eval.acts_as(u.org, u.account)
		AND NOT gpucredit_eval.has_many_errors(u, (o.document ->> 'max_errors')::numeric,
			ARRAY(SELECT m FROM gpucredit_eval.metrics(u) m))
	ORDER BY u.run DESC LIMIT 1;
	IF NOT FOUND THEN
		PERFORM gpucredit_eval.wrong_state(format('config "%s" has no finished run to take mu and sigma from', (c).config),
			'They are what a gate or a nightly run has measured with the same judge.',
			'Start such a run, or pass mu and sigma.');
	END IF;
	RETURN r;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.find_offline(gpucredit_eval.config, bigint) IS
'Internal: the run whose scores a stream is compared with. Errors: UC601 no such run; UC602 none that fits.';

/*
 * Returns mean and deviation of what a run measured: of the judge's scores, or
 * of all where there is no judge, and how often answers were cut at max_tokens.
 *
 * Cases of held-out sets do not count: whoever makes a stream would otherwise
 * get a figure of those of them that a judge rates, which may be few.
 */
CREATE FUNCTION gpucredit_eval.offline_figures(r gpucredit_eval.run, OUT mu numeric,
	OUT sigma numeric, OUT truncated numeric)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	measured gpucredit_eval.config;
	n bigint;
BEGIN
	SELECT * INTO STRICT measured FROM gpucredit_eval.config o
	WHERE o.org = (r).org AND o.config = (r).config AND o.version = (r).config_version;
	SELECT count(*), round(avg((x.o).score), 6), greatest(round(stddev_samp((x.o).score), 6), 0.05),
		round(avg(CASE WHEN ((x.o).usage ->> 'completion_tokens')::numeric
			>= (measured.document #>> '{model,max_tokens}')::numeric THEN 1 ELSE 0 END), 6)
	INTO n, offline_figures.mu, offline_figures.sigma, offline_figures.truncated
	FROM gpucredit_eval.run_cases((r).org, (r).run) x
	WHERE x.kind <> 'held_out' AND (x.o).score IS NOT NULL AND (x.o).error IS NULL
		AND NOT gpucredit_eval.scores_texts((x.c).checks)
		AND (gpucredit_eval.judge_of(measured) IS NULL OR (x.c).rubric IS NOT NULL AND (x.o).passed);
	IF n < 20 THEN
		PERFORM gpucredit_eval.wrong_state(format('run %s has %s scores to take mu and sigma from, fewer than 20', (r).run, n),
			'Those of cases count that are not held out, and where the config has a judge, those that it rated.',
			'Name another run, or pass mu and sigma.');
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.offline_figures(gpucredit_eval.run) IS
'Internal: mean and deviation of the scores of a run, and the share of truncated answers. Errors: UC602 fewer than 20 scores.';

CREATE FUNCTION gpucredit_eval.set_stream(org text, stream text, config text,
	every integer DEFAULT 1000, mu numeric DEFAULT NULL, sigma numeric DEFAULT NULL,
	lambda numeric DEFAULT 0.1, width numeric DEFAULT 2.7, baseline bigint DEFAULT NULL,
	keep interval DEFAULT NULL, OUT from_run bigint, OUT mean numeric, OUT deviation numeric)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	c gpucredit_eval.config;
	r gpucredit_eval.run;
	f record;
BEGIN
	PERFORM gpucredit_eval.check_name('stream', set_stream.stream);
	SELECT * INTO c FROM gpucredit_eval.config o
	WHERE o.org = set_stream.org
		AND o.config = (regexp_match(set_stream.config, '^([^@]+)(?:@[1-9][0-9]{0,8})?$'))[1]
	ORDER BY o.version DESC LIMIT 1;
	IF FOUND AND gpucredit_eval.acts_as(c.org, c.account) THEN
		c := gpucredit_eval.require_config(set_stream.org, set_stream.config, c.account);
	ELSE
		PERFORM gpucredit_eval.not_found(format('config "%s/%s"', left(set_stream.org, 64),
			left(set_stream.config, 96)));
	END IF;
	IF NOT coalesce(set_stream.keep BETWEEN interval '1 hour' AND interval '366 days', true) THEN
		PERFORM gpucredit_eval.refuse('keep is 1 hour to 366 days, or NULL', format('It is %s.', set_stream.keep));
	END IF;
	IF (set_stream.mu IS NULL) <> (set_stream.sigma IS NULL)
		OR set_stream.mu IS NOT NULL AND set_stream.baseline IS NOT NULL
	THEN
		PERFORM gpucredit_eval.refuse('mu and sigma are given both, or both are taken from a baseline',
			format('They are %s and %s, the baseline is %s.', coalesce(set_stream.mu::text, 'NULL'),
				coalesce(set_stream.sigma::text, 'NULL'), coalesce(set_stream.baseline::text, 'NULL')));
	END IF;
	mean := set_stream.mu;
	deviation := set_stream.sigma;
	IF mean IS NULL THEN
		r := gpucredit_eval.find_offline(c, set_stream.baseline);
		SELECT * INTO f FROM gpucredit_eval.offline_figures(r);
		from_run := r.run;
		mean := f.mu;
		deviation := f.sigma;
	END IF;
	PERFORM gpucredit_eval.check_limits(set_stream.every, mean, deviation, set_stream.lambda,
		set_stream.width);
	INSERT INTO gpucredit_eval.stream AS s (org, stream, account, config, config_version, every, mu,
		sigma, lambda, width, z, changed_at, baseline, keep)
	VALUES (set_stream.org, set_stream.stream, c.account, c.config, c.version, set_stream.every,
		mean, deviation, set_stream.lambda, set_stream.width, mean, gpucredit.now(), from_run,
		set_stream.keep)
	ON CONFLICT ON CONSTRAINT stream_pkey DO UPDATE
	SET config = excluded.config, config_version = excluded.config_version, every = excluded.every,
		mu = excluded.mu, sigma = excluded.sigma, lambda = excluded.lambda, width = excluded.width,
		t = 0, z = excluded.z, signal = false, changed_at = excluded.changed_at,
		baseline = excluded.baseline, keep = excluded.keep
	WHERE s.account = excluded.account AND s.kind = 'score';
	IF NOT FOUND THEN
		PERFORM gpucredit_eval.not_found(format('stream "%s/%s"', set_stream.org,
			set_stream.stream));
	END IF;
	/* Who shortens the retention means what is kept already, too. */
	UPDATE gpucredit_eval.answer a
	SET expires_at = least(a.expires_at, a.kept_at + coalesce(set_stream.keep, '0'))
	WHERE a.org = set_stream.org AND a.stream = set_stream.stream
		AND a.expires_at > a.kept_at + coalesce(set_stream.keep, '0');
	PERFORM gpucredit_eval.record(set_stream.org, 'set_stream', NULL,
		jsonb_build_object('stream', set_stream.stream, 'config', c.config, 'every',
			set_stream.every, 'mu', mean, 'sigma', deviation, 'baseline', from_run,
			'lambda', set_stream.lambda, 'width', set_stream.width, 'keep', set_stream.keep));
END
$$;
COMMENT ON FUNCTION gpucredit_eval.set_stream(text, text, text, integer, numeric, numeric, numeric, numeric, bigint, interval) IS
'Drift: watches the scores of production requests, judged as a config says. Calling again starts over.
every: one request in so many is judged. mu, sigma: mean and deviation of scores where all is well; NULL: as a run has measured them: baseline, or else the newest gate or nightly run of the config that has finished with the same judge. A run has 20 scores at least of cases that are not held out; its deviation counts as 0.05 at least. lambda: weight of the newest score. width: limits, in deviations of the weighted mean. keep: how long inputs and outputs are kept of requests that were judged, truncated, refused or complained of, 1 hour to 366 days; NULL: not at all.
Result: the run that mu and sigma are from, and both. Errors: UC601 no such config or run; UC602 no run to take them from; 22023.';

CREATE FUNCTION gpucredit_eval.require_stream(org text, stream text)
RETURNS gpucredit_eval.stream
LANGUAGE plpgsql STABLE
AS $$
DECLARE
	s gpucredit_eval.stream;
BEGIN
	SELECT * INTO s FROM gpucredit_eval.stream o
	WHERE o.org = require_stream.org AND o.stream = require_stream.stream;
	IF NOT FOUND OR NOT gpucredit_eval.acts_as(s.org, s.account) THEN
		PERFORM gpucredit_eval.not_found(format('stream "%s/%s"', left(require_stream.org, 64),
			left(require_stream.stream, 96)));
	END IF;
	RETURN s;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.require_stream(text, text) IS
'Internal: a stream whose account the session may act as. Errors: UC601.';

/*
 * The limits of a rate are as wide from the first answer on as they are after
 * many: of answers that are truncated once in a hundred times, the first may
 * well be one.
 */
CREATE FUNCTION gpucredit_eval.set_rate(org text, stream text, kind text,
	mu numeric DEFAULT NULL, sigma numeric DEFAULT NULL, lambda numeric DEFAULT 0.01,
	width numeric DEFAULT 5, OUT rate text, OUT mean numeric, OUT deviation numeric)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	s gpucredit_eval.stream := gpucredit_eval.require_stream(set_rate.org, set_rate.stream);
	r gpucredit_eval.run;
BEGIN
	IF coalesce(set_rate.kind, '') NOT IN ('truncation', 'refusal', 'feedback', 'complaint')
		OR s.kind <> 'score'
	THEN
		PERFORM gpucredit_eval.refuse('a rate is truncation, refusal, feedback or complaint of a stream of scores',
			format('They are "%s" and a stream of kind %s.', left(set_rate.kind, 64), s.kind));
	END IF;
	rate := format('%s/%s', s.stream, set_rate.kind);
	PERFORM gpucredit_eval.check_name('stream', rate);
	mean := set_rate.mu;
	IF mean IS NULL AND set_rate.kind = 'truncation' AND s.baseline IS NOT NULL THEN
		SELECT * INTO STRICT r FROM gpucredit_eval.run u WHERE u.org = s.org AND u.run = s.baseline;
		SELECT f.truncated INTO mean FROM gpucredit_eval.offline_figures(r) f;
		mean := greatest(mean, 0.001);
	END IF;
	mean := coalesce(mean, CASE set_rate.kind WHEN 'feedback' THEN s.mu ELSE 0.01 END);
	/* No score between 0 and 1 deviates further from its mean. */
	deviation := coalesce(set_rate.sigma, greatest(round(sqrt(greatest(mean * (1 - mean), 0)), 6), 0.01));
	PERFORM gpucredit_eval.check_limits(1, mean, deviation, set_rate.lambda, set_rate.width);
	INSERT INTO gpucredit_eval.stream AS o (org, stream, account, config, config_version, every, mu,
		sigma, lambda, width, z, changed_at, kind, source, baseline)
	VALUES (s.org, rate, s.account, s.config, s.config_version, 1, mean, deviation,
		set_rate.lambda, set_rate.width, mean, gpucredit.now(), set_rate.kind, s.stream, r.run)
	ON CONFLICT ON CONSTRAINT stream_pkey DO UPDATE
	SET mu = excluded.mu, sigma = excluded.sigma, lambda = excluded.lambda, width = excluded.width,
		t = 0, z = excluded.z, signal = false, changed_at = excluded.changed_at,
		baseline = excluded.baseline
	WHERE o.source = s.stream AND o.kind = excluded.kind;
	IF NOT FOUND THEN
		PERFORM gpucredit_eval.wrong_state(format('stream "%s/%s" is something else', s.org, rate),
			'The rate would have its name.', 'Name the stream of scores otherwise.');
	END IF;
	PERFORM gpucredit_eval.record(s.org, 'set_rate', NULL, jsonb_build_object('stream', s.stream,
		'kind', set_rate.kind, 'mu', mean, 'sigma', deviation, 'lambda', set_rate.lambda,
		'width', set_rate.width));
END
$$;
COMMENT ON FUNCTION gpucredit_eval.set_rate(text, text, text, numeric, numeric, numeric, numeric) IS
'Drift: watches a rate of a stream''s requests beside their scores, as the stream STREAM/KIND. Calling again starts over.
kind: truncation, refusal: how many answers are cut or refused, as start_observation() hears; feedback: what users give, as add_feedback() hears; complaint: how many complain. mu: the rate where all is well; NULL: of truncation what the stream''s baseline has measured, 0.001 at least; of feedback the stream''s mu; else 0.01. sigma: NULL: the largest that a mean of mu allows. lambda, width: as of set_stream().
Result: the stream''s name, its mu and sigma. Errors: UC601 no such stream; UC602 another stream has the name; 22023.';

CREATE FUNCTION gpucredit_eval.sampled(org text, stream text, request text) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	s gpucredit_eval.stream := gpucredit_eval.require_stream(sampled.org, sampled.stream);
BEGIN
	IF octet_length(coalesce(sampled.request, '')) NOT BETWEEN 1 AND 255 THEN
		PERFORM gpucredit_eval.refuse('a request has 1 to 255 bytes', 'It names one request of production.');
	END IF;
	RETURN ('x' || left(encode(sha256(convert_to(format('%s/%s/%s', s.org, s.stream,
		sampled.request), 'UTF8')), 'hex'), 15))::bit(60)::bigint % s.every = 0;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.sampled(text, text, text) IS
'Drift: is this request one that is judged? The same request gives the same answer, by its hash.
Errors: UC601 no such stream; 22023.';

/*
 * Reports that a signal begins or ends. Every login may LISTEN, so the
 * notification contains only the event's number.
 */
CREATE FUNCTION gpucredit_eval.report_drift(org text, stream text, t bigint, z numeric,
	signal boolean) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
	s gpucredit_eval.stream;
	detail jsonb;
	number bigint;
BEGIN
	SELECT * INTO STRICT s FROM gpucredit_eval.stream o
	WHERE o.org = report_drift.org AND o.stream = report_drift.stream;
	detail := jsonb_build_object('stream', s.stream, 't', report_drift.t, 'z', report_drift.z,
		'mu', s.mu);
	number := gpucredit_eval.record(s.org, CASE WHEN report_drift.signal THEN 'drift' ELSE 'drift_end' END,
		NULL, detail);
	IF report_drift.signal THEN
		PERFORM gpucredit_eval.notify_number('gpucredit_eval_drift', number);
	END IF;
	PERFORM gpucredit_eval.publish(CASE WHEN report_drift.signal THEN 'eval_stream.drifted'
			ELSE 'eval_stream.recovered' END, s.org, s.account,
		detail || jsonb_build_object('kind', s.kind, 'config', s.config));
END
$$;
COMMENT ON FUNCTION gpucredit_eval.report_drift(text, text, bigint, numeric, boolean) IS
'Internal: records and publishes that a signal begins or ends; of one that begins it notifies those who listen.';

CREATE FUNCTION gpucredit_eval.observe(org text, stream text, request text, score numeric,
	at timestamptz DEFAULT NULL, OUT z numeric, OUT lower numeric, OUT upper numeric,
	OUT signal boolean)
LANGUAGE c VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_eval_observe';
COMMENT ON FUNCTION gpucredit_eval.observe(text, text, text, numeric, timestamptz) IS
'Drift: takes the score of a production request in. A repeated request counts once, with its first score. The first signal is recorded in table event, its number there is sent as NOTIFY gpucredit_eval_drift, and gpucredit''s feed has it as eval_stream.drifted; its end is eval_stream.recovered.
score: 0 to 1. at: when it was; NULL: now.
Result: the weighted mean, its limits, whether it is outside. Errors: UC601 no such stream; 22023.';

CREATE FUNCTION gpucredit_eval.stream_state(org text, stream text, OUT t bigint, OUT z numeric,
	OUT lower numeric, OUT upper numeric, OUT signal boolean)
LANGUAGE c VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_eval_stream_state';
COMMENT ON FUNCTION gpucredit_eval.stream_state(text, text) IS
'Drift: where a stream stands, with all scores observed.
Errors: UC601 no such stream.';
