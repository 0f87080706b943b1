/*
 * 72_online.sql: requests of production, judged by a stream's config.
 *
 * The application hands a request in; one in "every" is granted, and what its
 * judge may cost at most is held.  Its row is inserted before that, so that the
 * same request in another transaction waits, and finds the row.  A worker asks
 * the judge and reports, which captures the cost and observes the score.
 */
CREATE TABLE gpucredit_eval.online (
	org text COLLATE "C" NOT NULL,
	stream text COLLATE "C" NOT NULL,
	request text COLLATE "C" NOT NULL,
	digest bytea NOT NULL,			/* of input, output and rubric */
	judge jsonb NOT NULL,
	judge_terms jsonb NOT NULL,
	sample_max numeric NOT NULL,
	hold bigint,					/* NULL only inside start_observation() */
	started_at timestamptz NOT NULL,
	cost numeric,					/* NULL: not yet reported */
	score numeric,					/* NULL: the judge failed */
	CONSTRAINT online_pkey PRIMARY KEY (org, stream, request),
	FOREIGN KEY (org, stream) REFERENCES gpucredit_eval.stream
);
COMMENT ON TABLE gpucredit_eval.online IS
'Requests of production that are judged, and what that cost';

CREATE FUNCTION gpucredit_eval.start_observation(org text, stream text, request text,
	input jsonb, output bytea, rubric text, OUT status text, OUT reason text,
	OUT max_cost numeric, OUT judge jsonb, OUT judge_endpoint jsonb, OUT replayed boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET gpucredit.key_space = 'gpucredit_eval'
AS $$
DECLARE
	s gpucredit_eval.stream := gpucredit_eval.require_stream(start_observation.org,
		start_observation.stream);
	o gpucredit_eval.online;
	old gpucredit_eval.online;
	h record;
BEGIN
	start_observation.replayed := false;
	IF NOT gpucredit_eval.sampled(s.org, s.stream, start_observation.request) THEN
		start_observation.status := 'skipped';
		RETURN;
	END IF;
	IF start_observation.input IS NULL OR start_observation.output IS NULL
		OR octet_length(start_observation.output) > 1048576
		OR octet_length(start_observation.input::text) > 1048576
		OR octet_length(coalesce(start_observation.rubric, '')) NOT BETWEEN 1 AND 8192
	THEN
		PERFORM gpucredit_eval.refuse('an observation has an input and an output of at most 1 MiB, and a rubric of 1 to 8,192 bytes',
			format('The request is "%s".', left(start_observation.request, 64)));
	END IF;
	SELECT nullif(c.document -> 'judge', 'null') INTO o.judge FROM gpucredit_eval.config c
	WHERE c.org = s.org AND c.config = s.config AND c.version = s.config_version;
	IF o.judge IS NULL THEN
		PERFORM gpucredit_eval.wrong_state(format('config "%s" of stream "%s" has no judge', s.config,
				s.stream),
			'Its scores come from elsewhere.', 'Call observe(), or name a config with a judge.');
	END IF;
	o.digest := sha256(start_observation.output || convert_to(jsonb_build_array(
		start_observation.input, start_observation.rubric)::text, 'UTF8'));
	SELECT * INTO old FROM gpucredit_eval.online n
	WHERE n.org = s.org AND n.stream = s.stream AND n.request = start_observation.request;
	IF NOT FOUND THEN
		o.judge_terms := gpucredit_eval.endpoint_terms(gpucredit_eval.require_endpoint(s.org,
			o.judge ->> 'endpoint'), o.judge ->> 'model') || jsonb_build_object('model', o.judge -> 'model');
		IF o.judge_terms ->> 'price_in' IS NULL THEN
			start_observation.status := 'denied';
			start_observation.reason := 'no_price';
			RETURN;
		END IF;
		o.sample_max := gpucredit_eval.token_cost(o.judge_terms,
			gpucredit_eval.most_tokens((o.judge ->> 'max_input_tokens')::numeric,
				coalesce(octet_length(o.judge ->> 'template'), 4096)
				+ octet_length(start_observation.rubric) + octet_length(start_observation.input::text)
				+ (o.judge ->> 'max_response_bytes')::integer,
				coalesce(octet_length(o.judge ->> 'template'), 1024)
				+ octet_length(start_observation.rubric) + octet_length(start_observation.input::text)
				+ (o.judge ->> 'max_response_bytes')::integer),
			(o.judge ->> 'max_tokens')::numeric);
		start_observation.max_cost := (o.judge ->> 'samples')::integer * o.sample_max;
		/* a twin waits here, until this one's row is committed or gone */
		INSERT INTO gpucredit_eval.online
		VALUES (s.org, s.stream, start_observation.request, o.digest, o.judge, o.judge_terms,
			o.sample_max, NULL, gpucredit.now())
		ON CONFLICT DO NOTHING;
		IF FOUND THEN
			/* a denial sticks to its key, and later there may be credit */
			SELECT * INTO h FROM gpucredit.hold(s.org, s.account,
				format('eval/observe/%s', gen_random_uuid()),
				greatest(ceil(start_observation.max_cost * 1000000) / 1000000, 0.000001), '1 hour');
			start_observation.status := h.status;
			start_observation.reason := h.reason;
			IF h.status = 'granted' THEN
				UPDATE gpucredit_eval.online n SET hold = h.hold
				WHERE n.org = s.org AND n.stream = s.stream AND n.request = start_observation.request;
				start_observation.judge := o.judge;
				start_observation.judge_endpoint := o.judge_terms;
			ELSE
				DELETE FROM gpucredit_eval.online n
				WHERE n.org = s.org AND n.stream = s.stream AND n.request = start_observation.request;
			END IF;
			RETURN;
		END IF;
		SELECT * INTO STRICT old FROM gpucredit_eval.online n
		WHERE n.org = s.org AND n.stream = s.stream AND n.request = start_observation.request;
	END IF;
	IF old.digest <> o.digest THEN
		RAISE EXCEPTION 'request "%" was handed in with other content',
			left(start_observation.request, 64)
			USING ERRCODE = 'UC201', DETAIL = 'A request has one answer.',
			HINT = 'Name each request of production differently.';
	END IF;
	start_observation.status := CASE WHEN old.cost IS NULL THEN 'granted' ELSE 'done' END;
	start_observation.judge := old.judge;
	start_observation.judge_endpoint := old.judge_terms;
	start_observation.max_cost := (old.judge ->> 'samples')::integer * old.sample_max;
	start_observation.replayed := true;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.start_observation(text, text, text, jsonb, bytea, text) IS
'Drift: hands a request of production in, to be judged by the stream''s config if it is one in "every". What the judge may cost at most is held for an hour.
input: what was asked. output: what the model answered. rubric: what a good answer has.
Result: status skipped; granted: ask the judge so many samples, then finish_observation(); done: it was judged; denied, with a reason of gpucredit.hold or no_price.
Errors: UC201 handed in before with other content; UC601 no such stream; UC602 the config has no judge; 22023.';

CREATE FUNCTION gpucredit_eval.finish_observation(org text, stream text, request text,
	raw bytea[], usage jsonb[], OUT score numeric, OUT cost numeric, OUT z numeric,
	OUT lower numeric, OUT upper numeric, OUT signal boolean, OUT replayed boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	s gpucredit_eval.stream := gpucredit_eval.require_stream(finish_observation.org,
		finish_observation.stream);
	o gpucredit_eval.online;
	n integer;
	v record;
BEGIN
	SELECT * INTO o FROM gpucredit_eval.online q
	WHERE q.org = s.org AND q.stream = s.stream AND q.request = finish_observation.request
	FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'request "%" of stream "%/%" was not handed in',
			left(finish_observation.request, 64), s.org, s.stream
			USING ERRCODE = 'UC603', DETAIL = 'Nothing is held for its judge.',
			HINT = 'Call start_observation() first.';
	END IF;
	finish_observation.replayed := o.cost IS NOT NULL;
	IF NOT finish_observation.replayed THEN
		n := (o.judge ->> 'samples')::integer;
		IF cardinality(finish_observation.raw) IS DISTINCT FROM n
			OR cardinality(finish_observation.usage) IS DISTINCT FROM n
		THEN
			PERFORM gpucredit_eval.refuse(format('raw and usage have %s elements', n),
				'They are what the judge answered, each sample; NULL: the call failed.');
		END IF;
		SELECT sum(least(coalesce(gpucredit_eval.token_cost(o.judge_terms,
				(u.u ->> 'prompt_tokens')::numeric, (u.u ->> 'completion_tokens')::numeric),
				o.sample_max), o.sample_max)),
			CASE WHEN bool_and(r.r IS NOT NULL) THEN
				(percentile_disc(0.5) WITHIN GROUP (ORDER BY (gpucredit_eval.parse_verdict(r.r)).score)
					- 1) * 0.25 END
		INTO o.cost, o.score
		FROM (SELECT u, i, gpucredit_eval.check_usage(u)
				FROM unnest(finish_observation.usage) WITH ORDINALITY x (u, i)) u
			JOIN unnest(finish_observation.raw) WITH ORDINALITY r (r, i) USING (i);
		IF NOT gpucredit_eval.charge(s.org, s.account, o.hold, round(o.cost, 6),
			gpucredit_eval.ledger_key('observed', s.stream || '/' || o.request, ''))
		THEN
			PERFORM gpucredit_eval.record(s.org, 'unpaid', NULL, jsonb_build_object('stream', s.stream,
				'request', o.request, 'amount', round(o.cost, 6)));
		END IF;
		UPDATE gpucredit_eval.online q SET cost = o.cost, score = o.score
		WHERE q.org = s.org AND q.stream = s.stream AND q.request = o.request;
	END IF;
	finish_observation.score := o.score;
	finish_observation.cost := o.cost;
	IF o.score IS NOT NULL THEN
		SELECT * INTO v FROM gpucredit_eval.observe(s.org, s.stream, o.request, o.score);
		finish_observation.z := v.z;
		finish_observation.lower := v.lower;
		finish_observation.upper := v.upper;
		finish_observation.signal := v.signal;
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.finish_observation(text, text, text, bytea[], jsonb[]) IS
'Workers: reports what the judge answered about a request of production, all samples at once; the first report stands.
raw: each as it came; NULL: the call failed, and nothing is observed. usage: as in report.
Result: the score, 0 to 1, and what it cost, in credits; the stream''s weighted mean, its limits, whether it is outside.
Errors: UC601 no such stream; UC603 the request was not handed in; 22023.';
