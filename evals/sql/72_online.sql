/*
 * 72_online.sql: production requests, judged by a stream's config.
 *
 * The application submits a request; one in "every" is granted, and the
 * highest cost of its judge is held. The request's row is inserted before
 * that, so that the same request in another transaction waits, and then finds
 * the row. A worker calls the judge and reports, which captures the cost and
 * observes the score.
 */
CREATE TABLE gpucredit_eval.online (
	org text COLLATE "C" NOT NULL,
	stream text COLLATE "C" NOT NULL,
	request text COLLATE "C" NOT NULL,
	digest bytea NOT NULL,			/* digest of input, output and rubric */
	judge jsonb NOT NULL,
	judge_terms jsonb NOT NULL,
	sample_max numeric NOT NULL,
	hold bigint,					/* NULL only inside start_observation() */
	started_at timestamptz NOT NULL,
	cost numeric,					/* NULL until it is reported */
	score numeric,					/* NULL if the judge failed */
	CONSTRAINT online_pkey PRIMARY KEY (org, stream, request),
	FOREIGN KEY (org, stream) REFERENCES gpucredit_eval.stream
);
COMMENT ON TABLE gpucredit_eval.online IS
'Requests of production that are judged, and what that cost';

/*
 * What was asked and answered in production, as long as its stream keeps it. A
 * row that has expired is treated as if it did not exist; upkeep() deletes it.
 */
CREATE TABLE gpucredit_eval.answer (
	org text COLLATE "C" NOT NULL,
	stream text COLLATE "C" NOT NULL,
	request text COLLATE "C" NOT NULL,
	input jsonb,					/* NULL if only the user's words are
									 * known */
	output bytea,
	rubric text,
	finish_reason text,
	feedback numeric,				/* what the user gave; NULL for nothing */
	complaint boolean NOT NULL DEFAULT false,
	comment text,
	set text COLLATE "C",			/* the set that it became a case of */
	case_name text COLLATE "C",
	kept_at timestamptz NOT NULL,
	expires_at timestamptz NOT NULL,
	bytes integer NOT NULL GENERATED ALWAYS AS (coalesce(octet_length(input::text), 0)
		+ coalesce(octet_length(output), 0) + coalesce(octet_length(rubric), 0)
		+ coalesce(octet_length(comment), 0)) STORED,
	CONSTRAINT answer_pkey PRIMARY KEY (org, stream, request),
	FOREIGN KEY (org, stream) REFERENCES gpucredit_eval.stream
);
CREATE INDEX answer_kept ON gpucredit_eval.answer (org, stream, kept_at, request) INCLUDE (bytes);
CREATE INDEX answer_expires ON gpucredit_eval.answer (org, expires_at);
COMMENT ON TABLE gpucredit_eval.answer IS
'Inputs and outputs of production that streams keep, and what users said of them';

/* Returns how many bytes of answers an organisation may keep, which cost nothing. */
CREATE FUNCTION gpucredit_eval.most_kept_bytes() RETURNS bigint
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT 1024::bigint * 1024 * 1024;
END;
COMMENT ON FUNCTION gpucredit_eval.most_kept_bytes() IS
'Internal: how many bytes of inputs, outputs and comments an organisation may keep: 1 GiB.';

/*
 * Deletes answers if an organisation keeps too much: the oldest ones of the
 * account whose streams keep most, so that one account cannot push out what
 * others keep. Answers that another call has locked stay for the next call.
 */
CREATE FUNCTION gpucredit_eval.bound_answers(org text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	total bigint;
	most record;
BEGIN
	SELECT sum(a.bytes) INTO total FROM gpucredit_eval.answer a WHERE a.org = bound_answers.org;
	IF total IS NULL OR total <= gpucredit_eval.most_kept_bytes() THEN
		RETURN;
	END IF;
	SELECT s.account, sum(a.bytes) AS bytes INTO most
	FROM gpucredit_eval.answer a JOIN gpucredit_eval.stream s ON s.org = a.org AND s.stream = a.stream
	WHERE a.org = bound_answers.org
	GROUP BY s.account ORDER BY 2 DESC, s.account LIMIT 1;
	DELETE FROM gpucredit_eval.answer d
	WHERE d.ctid = ANY (ARRAY(
		SELECT o.ctid FROM gpucredit_eval.answer o
		WHERE o.org = bound_answers.org AND (o.stream, o.request) IN (
			SELECT w.stream, w.request
			FROM (SELECT a.stream, a.request, sum(a.bytes) OVER (ORDER BY a.kept_at, a.stream, a.request
					ROWS UNBOUNDED PRECEDING) - a.bytes AS older
				FROM gpucredit_eval.answer a
					JOIN gpucredit_eval.stream s ON s.org = a.org AND s.stream = a.stream
				WHERE a.org = bound_answers.org AND s.account = most.account) w
			WHERE w.older < total - gpucredit_eval.most_kept_bytes())
		FOR UPDATE SKIP LOCKED));
END
$$;
COMMENT ON FUNCTION gpucredit_eval.bound_answers(text) IS
'Internal: deletes the oldest answers of the account that keeps most, if its organisation keeps more than it may.';

/*
 * Keeps an answer, or adds what a user said to it. A stream keeps its newest
 * 10,000 answers, and an organisation so many bytes. Finding the older ones
 * reads all of them, so only one call in a hundred does that, and more of them
 * the larger their answers are: about one for each hundredth of the bytes that
 * may be kept. So there may be some hundred answers, and a few hundredths of
 * the bytes, more.
 */
CREATE FUNCTION gpucredit_eval.keep_answer(s gpucredit_eval.stream, a gpucredit_eval.answer)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	last_kept record;
BEGIN
	IF (s).keep IS NULL THEN
		RETURN;
	END IF;
	INSERT INTO gpucredit_eval.answer AS o
	VALUES ((s).org, (s).stream, (a).request, (a).input, (a).output, (a).rubric, (a).finish_reason,
		(a).feedback, coalesce((a).complaint, false), (a).comment, NULL, NULL, gpucredit.now(),
		gpucredit.now() + (s).keep)
	ON CONFLICT ON CONSTRAINT answer_pkey DO UPDATE
	SET input = coalesce(o.input, excluded.input), output = coalesce(o.output, excluded.output),
		rubric = coalesce(o.rubric, excluded.rubric),
		finish_reason = coalesce(o.finish_reason, excluded.finish_reason),
		feedback = coalesce(o.feedback, excluded.feedback),
		complaint = o.complaint OR excluded.complaint, comment = coalesce(o.comment, excluded.comment);
	IF random() < greatest(0.01, 100.0 * (coalesce(octet_length((a).input::text), 0)
			+ coalesce(octet_length((a).output), 0) + coalesce(octet_length((a).rubric), 0)
			+ coalesce(octet_length((a).comment), 0)) / gpucredit_eval.most_kept_bytes())
	THEN
		PERFORM gpucredit_eval.bound_answers((s).org);
		SELECT o.kept_at, o.request INTO last_kept FROM gpucredit_eval.answer o
		WHERE o.org = (s).org AND o.stream = (s).stream
		ORDER BY o.kept_at DESC, o.request DESC OFFSET 10000 LIMIT 1;
		DELETE FROM gpucredit_eval.answer d
		WHERE d.ctid = ANY (ARRAY(SELECT o.ctid FROM gpucredit_eval.answer o
			WHERE o.org = (s).org AND o.stream = (s).stream
				AND (o.kept_at, o.request) <= (last_kept.kept_at, last_kept.request)
			ORDER BY o.kept_at, o.request LIMIT 1000
			FOR UPDATE SKIP LOCKED));
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.keep_answer(gpucredit_eval.stream, gpucredit_eval.answer) IS
'Internal: keeps what was asked and answered, if the stream keeps that.';

/* Observes a request in a rate of its stream, if there is that rate. */
CREATE FUNCTION gpucredit_eval.observe_rate(s gpucredit_eval.stream, kind text, request text,
	score numeric) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	SELECT gpucredit_eval.observe(o.org, o.stream, observe_rate.request, observe_rate.score)
	FROM gpucredit_eval.stream o
	WHERE o.org = (s).org AND o.source = (s).stream
		AND o.stream = (s).stream || '/' || observe_rate.kind AND observe_rate.score IS NOT NULL;
END;
COMMENT ON FUNCTION gpucredit_eval.observe_rate(gpucredit_eval.stream, text, text, numeric) IS
'Internal: observes a request in a rate of its stream.';

CREATE FUNCTION gpucredit_eval.start_observation(org text, stream text, request text,
	input jsonb, output bytea, rubric text, finish_reason text DEFAULT NULL, OUT status text, OUT reason text,
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
	judged boolean := gpucredit_eval.sampled(s.org, s.stream, start_observation.request);
	truncated boolean := lower(start_observation.finish_reason) IN ('length', 'max_tokens');
	refused boolean := lower(start_observation.finish_reason) IN ('content_filter', 'refusal', 'safety');
	a gpucredit_eval.answer;
BEGIN
	start_observation.replayed := false;
	IF octet_length(start_observation.finish_reason) > 64 THEN
		PERFORM gpucredit_eval.refuse('a finish_reason has at most 64 bytes',
			'It is why the model stopped, as its endpoint says.');
	END IF;
	PERFORM gpucredit_eval.observe_rate(s, 'truncation', start_observation.request, truncated::integer);
	PERFORM gpucredit_eval.observe_rate(s, 'refusal', start_observation.request, refused::integer);
	PERFORM gpucredit_eval.observe_rate(s, 'complaint', start_observation.request, 0);
	IF NOT judged AND NOT (coalesce(truncated OR refused, false) AND s.keep IS NOT NULL) THEN
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
	a.request := start_observation.request;
	a.input := start_observation.input;
	a.output := start_observation.output;
	a.rubric := start_observation.rubric;
	a.finish_reason := start_observation.finish_reason;
	IF coalesce(truncated OR refused, false) THEN
		PERFORM gpucredit_eval.keep_answer(s, a);
	END IF;
	IF NOT judged THEN
		start_observation.status := 'skipped';
		RETURN;
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
		/*
		 * A concurrent call with the same request waits here until this row is
		 * committed or rolled back.
		 */
		INSERT INTO gpucredit_eval.online
		VALUES (s.org, s.stream, start_observation.request, o.digest, o.judge, o.judge_terms,
			o.sample_max, NULL, gpucredit.now())
		ON CONFLICT DO NOTHING;
		IF FOUND THEN
			/*
			 * A denial is stored under its idempotency key, and there may be
			 * credit later, so each attempt has its own key.
			 */
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
				PERFORM gpucredit_eval.keep_answer(s, a);
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
COMMENT ON FUNCTION gpucredit_eval.start_observation(text, text, text, jsonb, bytea, text, text) IS
'Drift: hands a request of production in, to be judged by the stream''s config if it is one in "every". What the judge may cost at most is held for an hour.
input: what was asked. output: what the model answered. rubric: what a good answer has. finish_reason: why the model stopped, as its endpoint says; length and max_tokens count as truncated, content_filter, refusal and safety as refused, in the stream''s rates, for all requests; NULL: not known.
What is judged, truncated or refused is kept as long as set_stream() says.
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

CREATE FUNCTION gpucredit_eval.add_feedback(org text, stream text, request text, score numeric,
	comment text DEFAULT NULL, complaint boolean DEFAULT false, input jsonb DEFAULT NULL,
	output bytea DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	s gpucredit_eval.stream := gpucredit_eval.require_stream(add_feedback.org, add_feedback.stream);
	a gpucredit_eval.answer;
	/* A request has a place in the rate of complaints before anybody complains. */
	complained text := encode(sha256(convert_to('complaint ' || add_feedback.request, 'UTF8')), 'hex');
	known boolean;
BEGIN
	IF octet_length(coalesce(add_feedback.request, '')) NOT BETWEEN 1 AND 255
		OR add_feedback.score NOT BETWEEN 0 AND 1 OR add_feedback.complaint IS NULL
		OR add_feedback.score IS NULL AND NOT add_feedback.complaint
		OR octet_length(add_feedback.comment) > 8192 OR octet_length(add_feedback.output) > 1048576
		OR octet_length(add_feedback.input::text) > 1048576
	THEN
		PERFORM gpucredit_eval.refuse('feedback has a request of 1 to 255 bytes, a score of 0 to 1 or a complaint, and a comment of at most 8 kB',
			format('The request is "%s", the score %s.', left(add_feedback.request, 64), add_feedback.score),
			'Correct the argument and call again; input and output have at most 1 MiB.');
	END IF;
	SELECT count(*) > 0 INTO known FROM gpucredit_eval.observation o
	WHERE o.org = s.org AND (o.stream = s.stream || '/feedback' AND o.request = add_feedback.request
			AND add_feedback.score IS NOT NULL
		OR o.stream = s.stream || '/complaint' AND o.request = complained AND add_feedback.complaint);
	PERFORM gpucredit_eval.observe_rate(s, 'feedback', add_feedback.request, add_feedback.score);
	IF add_feedback.complaint THEN
		PERFORM gpucredit_eval.observe_rate(s, 'complaint', complained, 1);
	END IF;
	a.request := add_feedback.request;
	a.input := add_feedback.input;
	a.output := add_feedback.output;
	a.feedback := add_feedback.score;
	a.complaint := add_feedback.complaint;
	a.comment := add_feedback.comment;
	PERFORM gpucredit_eval.keep_answer(s, a);
	RETURN known;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.add_feedback(text, text, text, numeric, text, boolean, jsonb, bytea) IS
'Drift: takes in what a user thinks of an answer of production, for the rates feedback and complaint of its stream, where set_rate() has made them. The first feedback to a request stands, and its first complaint.
score: 0 to 1, as 1 for a thumb up; NULL: only a complaint. comment: the user''s words. input, output: what was asked and answered, for requests that were not judged. A stream that keeps nothing keeps none of these.
Result: whether it was known already. Errors: UC601 no such stream; 22023.';

CREATE FUNCTION gpucredit_eval.require_answer(s gpucredit_eval.stream, request text)
RETURNS gpucredit_eval.answer
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	a gpucredit_eval.answer;
BEGIN
	SELECT * INTO a FROM gpucredit_eval.answer o
	WHERE o.org = (s).org AND o.stream = (s).stream AND o.request = require_answer.request
		AND o.expires_at > gpucredit.now()
	FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'request "%" of stream "%/%" is not kept', left(require_answer.request, 64),
			(s).org, (s).stream
			USING ERRCODE = 'UC603',
			DETAIL = 'It was not judged, truncated, refused or complained of, or its time is over.',
			HINT = 'kept_answers() lists what is kept; "keep" of set_stream() says how long.';
	END IF;
	RETURN a;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.require_answer(gpucredit_eval.stream, text) IS
'Internal: an answer that is kept, locked. Errors: UC603.';

CREATE FUNCTION gpucredit_eval.add_case_from(org text, stream text, request text, set text,
	key text, more jsonb DEFAULT '{}', OUT name text, OUT added boolean, OUT replayed boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	s gpucredit_eval.stream := gpucredit_eval.require_stream(add_case_from.org, add_case_from.stream);
	g gpucredit_eval.golden_set := gpucredit_eval.require_set(add_case_from.org, add_case_from.set, 'curate');
	a gpucredit_eval.answer;
	document jsonb;
	kept jsonb;
BEGIN
	IF g.kind <> 'live' THEN
		PERFORM gpucredit_eval.wrong_state(format('set "%s/%s" is %s', g.org, g.set,
				replace(g.kind, '_', ' ')),
			'Only live sets grow from production: on locked sets baselines are compared, and held-out cases are seen by nobody who tunes models.',
			'Name a set of kind live.');
	END IF;
	kept := gpucredit_eval.request_begin(s.org, add_case_from.key, 'add_case_from', jsonb_build_array(
		s.stream, add_case_from.request, g.set, add_case_from.more));
	replayed := kept IS NOT NULL;
	IF NOT replayed THEN
		a := gpucredit_eval.require_answer(s, add_case_from.request);
		PERFORM gpucredit_eval.check_words('more', add_case_from.more,
			array_remove(gpucredit_eval.case_words(), 'source'));
		document := jsonb_strip_nulls(jsonb_build_object('rubric', a.rubric, 'input', a.input,
			'name', CASE WHEN octet_length(s.stream || '/' || a.request) <= 255 THEN s.stream || '/' || a.request
				ELSE s.stream || '/' || encode(sha256(convert_to(a.request, 'UTF8')), 'hex') END))
			|| add_case_from.more || jsonb_build_object('source', format('stream %s, request %s', s.stream, a.request));
		SELECT c.added > 0 INTO added FROM gpucredit_eval.add_cases(g.org, g.set,
			jsonb_build_array(document), 'case/' || encode(sha256(convert_to(add_case_from.key, 'UTF8')), 'hex')) c;
		UPDATE gpucredit_eval.answer o SET set = g.set, case_name = document ->> 'name'
		WHERE o.org = s.org AND o.stream = s.stream AND o.request = a.request;
		kept := gpucredit_eval.request_end(s.org, add_case_from.key,
			jsonb_build_array(document -> 'name', added));
	END IF;
	name := kept ->> 0;
	added := kept -> 1;
END
$$;
COMMENT ON FUNCTION gpucredit_eval.add_case_from(text, text, text, text, text, jsonb) IS
'Sets: makes a case of a live set from an answer of production that is kept: its input and rubric.
more: what the case has besides or instead, as in add_cases(): expected, checks, rubric, task, name, weight, threshold, tags; also input, without what must not stay, as the case stays when the answer is deleted.
Result: the case''s name; whether it was not yet there. freeze_set() makes the next version. Errors: UC201 key used with other arguments; UC601 no such stream, or a set that the caller may not curate; UC602 the set is not live; UC603 the request is not kept; 22023.';

CREATE FUNCTION gpucredit_eval.kept_answers(org text, stream text, failed boolean DEFAULT true,
	after timestamptz DEFAULT NULL, "limit" integer DEFAULT 100)
RETURNS TABLE (request text, kept_at timestamptz, score numeric, finish_reason text,
	feedback numeric, complaint boolean, comment text, input jsonb, output text, rubric text,
	set text, case_name text, expires_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
	s gpucredit_eval.stream := gpucredit_eval.require_stream(kept_answers.org, kept_answers.stream);
BEGIN
	RETURN QUERY
	SELECT a.request, a.kept_at, b.score, a.finish_reason, a.feedback, a.complaint, a.comment, a.input,
		coalesce(gpucredit_eval.as_text(a.output), encode(a.output, 'base64')), a.rubric, a.set,
		a.case_name, a.expires_at
	FROM gpucredit_eval.answer a
		LEFT JOIN gpucredit_eval.observation b ON b.org = a.org AND b.stream = a.stream
			AND b.request = a.request
	WHERE a.org = s.org AND a.stream = s.stream AND a.expires_at > gpucredit.now()
		AND (kept_answers.after IS NULL OR a.kept_at < kept_answers.after)
		AND (kept_answers.failed IS NOT TRUE OR b.score <= 0.5 OR a.complaint OR a.feedback <= 0.5
			OR lower(a.finish_reason) IN ('length', 'max_tokens', 'content_filter', 'refusal', 'safety'))
	ORDER BY a.kept_at DESC LIMIT least(kept_answers."limit", 1001);
END
$$;
COMMENT ON FUNCTION gpucredit_eval.kept_answers(text, text, boolean, timestamptz, integer) IS
'Drift: what a stream has kept of production, newest first.
failed: only answers with a score or feedback of at most 0.5, complaints, truncated and refused ones. after: the kept_at of the last row of the page before.
Result: what was asked and answered, and the judge''s score; what the user said; the case that it became; until when it is kept. Errors: UC601 no such stream.';
