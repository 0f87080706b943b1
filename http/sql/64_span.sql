/*
 * 64_span.sql: spans of jobs that were submitted with a W3C traceparent, for a
 * collector of OpenTelemetry that the operator names to the daemon.
 *
 * The feed of events is the queue. One row (span_feed) says up to which event
 * spans were sent. A daemon leases the next events, sends their spans, and
 * reports that; the lease makes the others wait meanwhile, so a span is sent
 * twice only where a daemon died, or was slower than its lease, before it had
 * reported. The identifier of a span is computed from what it is of, so a span
 * that is sent twice is the same span.
 *
 * A delivery of a job's event to a webhook ends later than the event. So the end
 * of a delivery is noted in a table of its own (span_delivery) while daemons send
 * spans, and is a part of the next lease.
 *
 * Only the trace of a caller who records it is sent: the traceparent's flag
 * "sampled" is set. What happened more than a day ago is passed over, because
 * collectors refuse such spans.
 *
 * Locks: span_feed, which nothing but claim_spans() and report_spans() locks;
 * then span_delivery, of which others only insert rows.
 */
CREATE TABLE gpucredit_http.span_feed (
	feed boolean NOT NULL DEFAULT true,
	event bigint NOT NULL,
	lease bigint NOT NULL DEFAULT 0,
	leased_until timestamptz NOT NULL DEFAULT '-infinity',
	leased_event bigint NOT NULL,
	asked_at timestamptz NOT NULL,
	CONSTRAINT span_feed_pkey PRIMARY KEY (feed),
	CONSTRAINT span_feed_one CHECK (feed),
	CONSTRAINT span_feed_leased CHECK (leased_event >= event)
);
COMMENT ON TABLE gpucredit_http.span_feed IS
'One row, once a daemon has sent spans: up to which event of the feed they were sent';
COMMENT ON COLUMN gpucredit_http.span_feed.feed IS 'True.';
COMMENT ON COLUMN gpucredit_http.span_feed.event IS 'The number of the event.';
COMMENT ON COLUMN gpucredit_http.span_feed.lease IS 'The number of the last lease.';
COMMENT ON COLUMN gpucredit_http.span_feed.leased_until IS 'Until when its daemon sends what it has leased; -infinity: no lease.';
COMMENT ON COLUMN gpucredit_http.span_feed.leased_event IS 'Up to which event the last lease goes.';
COMMENT ON COLUMN gpucredit_http.span_feed.asked_at IS 'When a daemon last asked for spans, to the minute.';

CREATE TABLE gpucredit_http.span_delivery (
	org text COLLATE "C" NOT NULL,
	webhook bigint NOT NULL,
	event bigint NOT NULL,
	first_at timestamptz NOT NULL,
	ended_at timestamptz NOT NULL,
	job bigint NOT NULL,
	kind text NOT NULL,
	attempts integer NOT NULL,
	status integer,
	delivered boolean NOT NULL,
	lease bigint NOT NULL DEFAULT 0,
	CONSTRAINT span_delivery_pkey PRIMARY KEY (org, webhook, event, first_at)
);
CREATE INDEX span_delivery_ended ON gpucredit_http.span_delivery (ended_at);
COMMENT ON TABLE gpucredit_http.span_delivery IS
'Deliveries that have ended and whose span was not sent';
COMMENT ON COLUMN gpucredit_http.span_delivery.org IS 'The webhook''s organisation.';
COMMENT ON COLUMN gpucredit_http.span_delivery.webhook IS 'The webhook.';
COMMENT ON COLUMN gpucredit_http.span_delivery.event IS 'The event.';
COMMENT ON COLUMN gpucredit_http.span_delivery.first_at IS 'When its first attempt began.';
COMMENT ON COLUMN gpucredit_http.span_delivery.ended_at IS 'When it was delivered or given up.';
COMMENT ON COLUMN gpucredit_http.span_delivery.job IS 'The job that the event is of.';
COMMENT ON COLUMN gpucredit_http.span_delivery.kind IS 'The event''s kind.';
COMMENT ON COLUMN gpucredit_http.span_delivery.attempts IS 'How many attempts there were.';
COMMENT ON COLUMN gpucredit_http.span_delivery.status IS 'The HTTP status of the last one; NULL: none.';
COMMENT ON COLUMN gpucredit_http.span_delivery.delivered IS 'False: it was given up.';
COMMENT ON COLUMN gpucredit_http.span_delivery.lease IS 'The last lease that it was a part of; 0: none.';

/* The instant in nanoseconds since 1970, as OpenTelemetry writes it. */
CREATE FUNCTION gpucredit_http.span_instant(at timestamptz) RETURNS text
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
	SELECT trunc(extract(epoch FROM span_instant.at) * 1000000)::bigint::text || '000';
END;
COMMENT ON FUNCTION gpucredit_http.span_instant(timestamptz) IS
'Internal: an instant in nanoseconds since 1970.';

/* Eight bytes, which are the same whenever the span is computed. */
CREATE FUNCTION gpucredit_http.span_id(traceparent text, org text, job bigint, what text)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT substr(encode(sha256(convert_to(json_build_array(span_id.traceparent,
			span_id.org, span_id.job, span_id.what)::text, 'UTF8')), 'hex'), 1, 16);
END;
COMMENT ON FUNCTION gpucredit_http.span_id(text, text, bigint, text) IS
'Internal: the identifier of a span, 16 hexadecimal digits.';

/*
 * Whether somebody records the trace: the last two digits of the traceparent
 * are flags, the lowest of which is "sampled".
 */
CREATE FUNCTION gpucredit_http.is_sampled(traceparent text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(substr(is_sampled.traceparent, 55, 1) ~ '[13579bdf]'
		AND substr(is_sampled.traceparent, 54, 1) ~ '[0-9a-f]', false);
END;
COMMENT ON FUNCTION gpucredit_http.is_sampled(text) IS
'Internal: whether a traceparent says that its trace is recorded.';

/*
 * The spans that an event is the end of. A job that was submitted has "submit",
 * whose parent is the caller's span, and which is the parent of all others. An
 * attempt that started has "wait" and "place"; one that ended has "start" (until
 * its agent reported it), "run" and "settle". A job that ended before it started
 * has "wait".
 */
CREATE FUNCTION gpucredit_http.spans_of(e gpucredit.event)
RETURNS TABLE (trace text, span text, parent text, name text, begins timestamptz,
	ends timestamptz, error text, attributes jsonb)
LANGUAGE sql STABLE ROWS 3
BEGIN ATOMIC
	SELECT substr(j.traceparent, 4, 32),
		gpucredit_http.span_id(j.traceparent, j.org, j.job,
			CASE WHEN s.name = 'submit' THEN 'submit'
				ELSE format('%s %s', s.name, s.attempt) END),
		CASE WHEN s.name = 'submit' THEN substr(j.traceparent, 37, 16)
			ELSE gpucredit_http.span_id(j.traceparent, j.org, j.job, 'submit') END,
		s.name, least(s.begins, s.ends), s.ends, s.error,
		jsonb_strip_nulls(jsonb_build_object('gpucredit.org', j.org,
			'gpucredit.account', j.account, 'gpucredit.job', j.job,
			'gpucredit.attempt', s.attempt, 'gpucredit.pool', j.pool,
			'gpucredit.tier', j.tier) || s.attributes)
	FROM gpucredit.job j
		LEFT JOIN gpucredit.attempt a ON a.org = j.org AND a.job = j.job
			AND a.attempt = (e).attempt
		LEFT JOIN gpucredit.attempt b ON b.org = j.org AND b.job = j.job
			AND b.attempt = CASE WHEN a.attempt IS NULL THEN j.attempt ELSE a.attempt - 1 END
		CROSS JOIN LATERAL (
			SELECT 'submit' AS name, NULL::integer AS attempt, j.submitted_at AS begins,
				j.submitted_at AS ends, NULL AS error,
				jsonb_build_object('gpucredit.request', left(j.request::text, 500)) AS attributes
			WHERE (e).kind = 'job.queued'
			UNION ALL
			SELECT 'wait', a.attempt, coalesce(b.ended_at, j.submitted_at), a.started_at, NULL, '{}'
			WHERE (e).kind = 'job.started' AND a.attempt IS NOT NULL
			UNION ALL
			SELECT 'place', a.attempt, a.started_at, a.started_at, NULL,
				jsonb_build_object('gpucredit.gpu_type', a.gpu_type, 'gpucredit.gpus', a.gpus,
					'gpucredit.per_hour', a.per_hour::numeric::text,
					'gpucredit.nodes', (SELECT string_agg(g.node, ' ' ORDER BY g.node)
						FROM (SELECT o.node FROM gpucredit.attempt_gpu o
							WHERE o.org = a.org AND o.job = a.job AND o.attempt = a.attempt
							ORDER BY o.node LIMIT 100) g))
			WHERE (e).kind = 'job.started' AND a.attempt IS NOT NULL
			UNION ALL
			SELECT 'start', a.attempt, a.started_at, coalesce(a.running_at, a.ended_at),
				CASE WHEN a.running_at IS NULL THEN 'it did not start' END, '{}'
			WHERE (e).kind IN ('job.ended', 'job.requeued') AND a.ended_at IS NOT NULL
			UNION ALL
			SELECT 'run', a.attempt, a.running_at, a.ended_at,
				CASE WHEN a.outcome IN ('completed', 'cancelled', 'preempted') THEN NULL
					ELSE a.outcome END,
				jsonb_build_object('gpucredit.outcome', a.outcome,
					'gpucredit.exit_code', a.exit_code)
			WHERE (e).kind IN ('job.ended', 'job.requeued') AND a.ended_at IS NOT NULL
				AND a.running_at IS NOT NULL
			UNION ALL
			SELECT 'settle', a.attempt, a.ended_at, a.ended_at, NULL,
				jsonb_build_object('gpucredit.outcome', a.outcome,
					'gpucredit.billed', a.billed::numeric::text,
					'gpucredit.refunded', a.refunded::numeric::text,
					'gpucredit.uncollected', a.uncollected::numeric::text)
			WHERE (e).kind IN ('job.ended', 'job.requeued') AND a.ended_at IS NOT NULL
			UNION ALL
			SELECT 'wait', j.attempt + 1, coalesce(b.ended_at, j.submitted_at), (e).at, NULL,
				jsonb_build_object('gpucredit.outcome', 'cancelled')
			WHERE (e).kind = 'job.ended' AND a.attempt IS NULL) s
	WHERE j.org = (e).org AND j.job = (e).job
		AND (e).kind IN ('job.queued', 'job.started', 'job.requeued', 'job.ended')
		AND gpucredit_http.is_sampled(j.traceparent);
END;
COMMENT ON FUNCTION gpucredit_http.spans_of(gpucredit.event) IS
'Internal: the spans that end with an event of a job that has a trace.';

/* Notes the end of a delivery, if a daemon has asked for spans lately. */
CREATE FUNCTION gpucredit_http.note_delivery_span(d gpucredit_http.delivery, at timestamptz,
	status integer, delivered boolean) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	INSERT INTO gpucredit_http.span_delivery (org, webhook, event, first_at, ended_at, job,
		kind, attempts, status, delivered)
	SELECT (d).org, (d).webhook, (d).event, coalesce((d).first_at, note_delivery_span.at),
		note_delivery_span.at, j.job, (d).kind, (d).attempts, note_delivery_span.status,
		note_delivery_span.delivered
	FROM gpucredit.job j
	WHERE j.org = (d).org AND j.job = (d).job AND gpucredit_http.is_sampled(j.traceparent)
		AND EXISTS (SELECT FROM gpucredit_http.span_feed f
			WHERE f.asked_at > note_delivery_span.at - interval '1 hour')
	ON CONFLICT DO NOTHING;
END;
COMMENT ON FUNCTION gpucredit_http.note_delivery_span(gpucredit_http.delivery, timestamptz, integer, boolean) IS
'Internal: notes a delivery that has ended, of a job that has a trace, for daemons that send spans.';

CREATE FUNCTION gpucredit_http.claim_spans(lease_time interval, most integer DEFAULT 200)
RETURNS TABLE (lease bigint, trace text, span text, parent text, name text, begins text,
	ends text, error text, attributes jsonb)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
/* force the indexes whatever the statistics are */
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
#variable_conflict use_column
DECLARE
	now_at CONSTANT timestamptz := gpucredit.now();
	oldest CONSTANT timestamptz := now_at - interval '1 day';
	pages CONSTANT integer := 50;
	feed gpucredit_http.span_feed;
	begins_after bigint;
	last bigint;
	n bigint;
	spans bigint;
BEGIN
	IF pg_is_in_recovery() THEN
		RETURN;
	END IF;
	IF NOT EXISTS (SELECT FROM gpucredit_http.span_feed) THEN
		INSERT INTO gpucredit_http.span_feed (event, leased_event, asked_at)
		SELECT m.event, m.event, now_at
		FROM (SELECT coalesce(max(e.event), 0) AS event FROM gpucredit.event e) m
		ON CONFLICT DO NOTHING;
	END IF;
	SELECT f.* INTO feed FROM gpucredit_http.span_feed f FOR NO KEY UPDATE SKIP LOCKED;
	IF NOT FOUND OR feed.leased_until > now_at THEN
		RETURN;
	END IF;
	begins_after := feed.event;
	FOR page IN 1 .. pages LOOP
		SELECT count(*), coalesce(max(p.event), begins_after) INTO n, last
		FROM (SELECT e.event FROM gpucredit.event e
			WHERE e.event > begins_after ORDER BY e.event LIMIT claim_spans.most) p;
		RETURN QUERY
		SELECT feed.lease + 1, s.trace, s.span, s.parent, s.name,
			gpucredit_http.span_instant(s.begins), gpucredit_http.span_instant(s.ends),
			s.error, s.attributes
		FROM gpucredit.event e CROSS JOIN LATERAL gpucredit_http.spans_of(e) s
		WHERE e.event > begins_after AND e.event <= last AND e.at > oldest
			AND e.job IS NOT NULL
		ORDER BY e.event;
		GET DIAGNOSTICS spans = ROW_COUNT;
		EXIT WHEN spans > 0 OR n < claim_spans.most;
		begins_after := last;
	END LOOP;

	UPDATE gpucredit_http.span_delivery d SET lease = feed.lease + 1
	WHERE d.ctid = ANY (ARRAY(SELECT o.ctid FROM gpucredit_http.span_delivery o
		WHERE o.ended_at > oldest ORDER BY o.ended_at LIMIT claim_spans.most));
	RETURN QUERY
	SELECT feed.lease + 1, substr(j.traceparent, 4, 32),
		gpucredit_http.span_id(j.traceparent, j.org, j.job,
			format('webhook %s %s %s', d.webhook, d.event, extract(epoch FROM d.first_at))),
		gpucredit_http.span_id(j.traceparent, j.org, j.job, 'submit'), 'webhook',
		gpucredit_http.span_instant(least(d.first_at, d.ended_at)),
		gpucredit_http.span_instant(d.ended_at),
		CASE WHEN NOT d.delivered THEN 'it was not delivered' END,
		jsonb_strip_nulls(jsonb_build_object('gpucredit.org', j.org,
			'gpucredit.account', j.account, 'gpucredit.job', j.job,
			'gpucredit.webhook', d.webhook, 'gpucredit.event', d.event,
			'gpucredit.kind', d.kind, 'gpucredit.attempts', d.attempts,
			'http.response.status_code', d.status))
	FROM gpucredit_http.span_delivery d
		JOIN gpucredit.job j ON j.org = d.org AND j.job = d.job
	WHERE d.lease = feed.lease + 1
	ORDER BY d.ended_at;
	GET DIAGNOSTICS n = ROW_COUNT;
	spans := spans + n;

	UPDATE gpucredit_http.span_feed f
	SET lease = feed.lease + 1, leased_event = last, asked_at = now_at,
		event = CASE WHEN spans = 0 THEN last ELSE f.event END,
		leased_until = CASE WHEN spans = 0 THEN '-infinity'
			ELSE now_at + claim_spans.lease_time END
	WHERE spans > 0 OR last > f.event OR f.asked_at < now_at - interval '1 minute';
END
$$;
COMMENT ON FUNCTION gpucredit_http.claim_spans(interval, integer) IS
'Gateway: leases the spans of at most so many events, and of as many deliveries, for a time; none while another daemon has a lease, or a pause lasts. Result: the spans, each with the number of the lease; begins and ends in nanoseconds since 1970; error: NULL where all went well.';

CREATE FUNCTION gpucredit_http.report_spans(lease bigint, done boolean,
	pause interval DEFAULT '0') RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
BEGIN
	UPDATE gpucredit_http.span_feed f
	SET event = CASE WHEN report_spans.done THEN f.leased_event ELSE f.event END,
		leased_until = CASE WHEN report_spans.done THEN '-infinity'
			ELSE gpucredit.now() + report_spans.pause END
	WHERE f.lease = report_spans.lease AND f.leased_until > '-infinity';
	IF FOUND AND report_spans.done THEN
		DELETE FROM gpucredit_http.span_delivery d WHERE d.lease = report_spans.lease;
		RETURN true;
	END IF;
	RETURN FOUND;
END
$$;
COMMENT ON FUNCTION gpucredit_http.report_spans(bigint, boolean, interval) IS
'Gateway: ends a lease. done: its spans need not be sent again; else the next lease has them, after a pause. Result: false if another daemon has leased them meanwhile.';
