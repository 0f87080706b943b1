/*
 * 70_stream.sql: do production's scores drift?
 *
 * One request in "every" is judged, chosen by its hash, and its score observed.
 * z is the exponentially weighted mean of the scores; it signals outside
 *
 *   mu -+ width sigma sqrt(lambda / (2 - lambda) (1 - (1 - lambda)^(2 t)))
 *
 * which widens with the number t of observations.  Observers insert rows, and
 * who finds the stream unlocked folds all rows that are there into z, in the
 * order of their numbers: observers do not wait for each other.  While many
 * wait, one folds them ten times a second.
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
	CONSTRAINT stream_pkey PRIMARY KEY (org, stream),
	FOREIGN KEY (org, config, config_version) REFERENCES gpucredit_eval.config
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
	t bigint,					/* NULL: not yet folded */
	z numeric,
	CONSTRAINT observation_pkey PRIMARY KEY (org, stream, request)
);
CREATE INDEX observation_to_fold ON gpucredit_eval.observation (org, stream, observation)
WHERE t IS NULL;
COMMENT ON TABLE gpucredit_eval.observation IS
'Scores of production requests, each once. A foreign key would have all observers lock the stream';

CREATE FUNCTION gpucredit_eval.set_stream(org text, stream text, config text, every integer,
	mu numeric, sigma numeric, lambda numeric DEFAULT 0.1, width numeric DEFAULT 2.7)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	c gpucredit_eval.config;
BEGIN
	PERFORM gpucredit_eval.check_name('stream', set_stream.stream);
	IF coalesce(set_stream.every, 0) NOT BETWEEN 1 AND 1000000000
		OR set_stream.mu IS NULL OR set_stream.mu NOT BETWEEN 0 AND 1
		OR set_stream.sigma IS NULL OR set_stream.sigma NOT BETWEEN 0.000001 AND 1
		OR set_stream.lambda IS NULL OR set_stream.lambda NOT BETWEEN 0.001 AND 1
		OR set_stream.width IS NULL OR set_stream.width NOT BETWEEN 0.1 AND 100
	THEN
		PERFORM gpucredit_eval.refuse('every is 1 or more, mu 0 to 1, sigma 0.000001 to 1, lambda 0.001 to 1, width 0.1 to 100',
			format('They are %s, %s, %s, %s and %s.', set_stream.every, set_stream.mu,
				set_stream.sigma, set_stream.lambda, set_stream.width));
	END IF;
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
	INSERT INTO gpucredit_eval.stream AS s
	VALUES (set_stream.org, set_stream.stream, c.account, c.config, c.version,
		set_stream.every, set_stream.mu, set_stream.sigma, set_stream.lambda,
		set_stream.width, 0, set_stream.mu, false, gpucredit.now())
	ON CONFLICT ON CONSTRAINT stream_pkey DO UPDATE
	SET account = excluded.account, config = excluded.config,
		config_version = excluded.config_version, every = excluded.every, mu = excluded.mu,
		sigma = excluded.sigma, lambda = excluded.lambda, width = excluded.width, t = 0,
		z = excluded.z, signal = false, changed_at = excluded.changed_at
	WHERE s.account = excluded.account;
	IF NOT FOUND THEN
		PERFORM gpucredit_eval.not_found(format('stream "%s/%s"', set_stream.org,
			set_stream.stream));
	END IF;
	PERFORM gpucredit_eval.record(set_stream.org, 'set_stream', NULL,
		jsonb_build_object('stream', set_stream.stream, 'config', c.config, 'every',
			set_stream.every, 'mu', set_stream.mu, 'sigma', set_stream.sigma,
			'lambda', set_stream.lambda, 'width', set_stream.width));
END
$$;
COMMENT ON FUNCTION gpucredit_eval.set_stream(text, text, text, integer, numeric, numeric, numeric, numeric) IS
'Drift: watches the scores of production requests, judged as a config says. Calling again starts over.
every: one request in so many is judged. mu, sigma: mean and deviation of scores where all is well. lambda: weight of the newest score. width: limits, in deviations of the weighted mean.
Errors: UC601 no such config; 22023.';

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

/* A signal begins.  Every login may listen, so what it hears is the event's number. */
CREATE FUNCTION gpucredit_eval.report_drift(org text, stream text, t bigint, z numeric)
RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
	PERFORM gpucredit_eval.notify_number('gpucredit_eval_drift',
		gpucredit_eval.record(s.org, 'drift', NULL, jsonb_build_object('stream', s.stream,
			't', report_drift.t, 'z', report_drift.z, 'mu', s.mu)))
	FROM gpucredit_eval.stream s
	WHERE s.org = report_drift.org AND s.stream = report_drift.stream;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.report_drift(text, text, bigint, numeric) IS
'Internal: records that a signal began, and notifies those who listen.';

CREATE FUNCTION gpucredit_eval.observe(org text, stream text, request text, score numeric,
	at timestamptz DEFAULT NULL, OUT z numeric, OUT lower numeric, OUT upper numeric,
	OUT signal boolean)
LANGUAGE c VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_eval_observe';
COMMENT ON FUNCTION gpucredit_eval.observe(text, text, text, numeric, timestamptz) IS
'Drift: takes the score of a production request in. A repeated request counts once, with its first score. The first signal is recorded in table event, and its number there is sent as NOTIFY gpucredit_eval_drift.
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
