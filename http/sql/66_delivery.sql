/*
 * 66_delivery.sql: decides which event is sent to which webhook and when, and
 * stores the results.
 *
 * A daemon calls the following functions repeatedly:
 *
 *     number_events()      numbers committed events (35_stream.sql)
 *     notice_events()      records which webhooks have new events
 *     claim_deliveries()   leases deliveries that are due, returns messages
 *     report_deliveries()  stores the results of attempts
 *     forget_deliveries()  deletes old rows, once a minute
 *
 * A claim locks a webhook's row, reads further in the feed, and leases as many
 * deliveries as the webhook may have under way. A lease is a time before which
 * the row is not due again. If its daemon dies, another one sends the message
 * again, so a receiver gets a message at least once.
 *
 * Of each job, only the first waiting event is due. The others have due_at
 * 'infinity' until that one is delivered or given up. All changes of a
 * webhook's deliveries are made while its row is locked, so none of them stays
 * at 'infinity'.
 *
 * The pauses between attempts grow: each is as long as the time since the
 * first attempt, at least 5 s and at most 4 h, plus a random fifth at most, so
 * that attempts do not coincide. An attempt that fails a day after the first
 * one is the last. After three failures in a row a webhook has one attempt at
 * a time, after pauses of 5 s to 5 min. When an attempt succeeds then, all
 * waiting deliveries are due at once.
 *
 * An organisation with many or slow webhooks gets a limited part of the
 * daemon's connections, and no more than a third of those that are free, so
 * that several such organisations leave some for others. A delivery whose
 * webhook was disabled, removed or rewound has lost its lease, but the daemon
 * may still be sending it. Therefore the daemon passes the number of messages
 * that it is sending for each organisation.
 *
 * A claim reads much of the feed for only one webhook of an organisation, and
 * about 20,000 events in all, however many webhooks are far behind. So it ends
 * in time, and the next claim continues.
 */

/*
 * Records which webhooks have new events. It reads each event once, however
 * many webhooks there are. Webhooks that another transaction is creating or
 * enabling are not visible here; they are due as soon as it has committed.
 */
CREATE FUNCTION gpucredit_http.notice_events(most integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
/* force the index whatever the statistics are */
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
	begins bigint;
	last bigint;
	n bigint;
BEGIN
	IF pg_is_in_recovery()
		OR NOT EXISTS (SELECT FROM gpucredit_http.webhook w WHERE w.disabled_at IS NULL)
	THEN
		RETURN -1;
	END IF;
	IF NOT EXISTS (SELECT FROM gpucredit_http.webhook_feed) THEN
		INSERT INTO gpucredit_http.webhook_feed (event) VALUES (0) ON CONFLICT DO NOTHING;
	END IF;
	SELECT f.event INTO begins FROM gpucredit_http.webhook_feed f
	FOR NO KEY UPDATE SKIP LOCKED;
	IF NOT FOUND OR NOT EXISTS (SELECT FROM gpucredit.event e WHERE e.event > begins) THEN
		RETURN 0;
	END IF;
	/* Events from times without any webhook need not be read. */
	SELECT greatest(begins, min(w.after)) INTO begins
	FROM gpucredit_http.webhook w WHERE w.disabled_at IS NULL;
	WITH page AS (
		SELECT e.event, e.org, e.account, e.kind FROM gpucredit.event e
		WHERE e.event > begins ORDER BY e.event LIMIT notice_events.most),
	noted AS (
		INSERT INTO gpucredit_http.webhook_notice (org, webhook)
		SELECT DISTINCT w.org, w.webhook
		FROM page p JOIN gpucredit_http.webhook w ON w.org = p.org
		WHERE w.disabled_at IS NULL AND p.event > w.after
			AND gpucredit_http.is_below(p.account, w.account)
			AND (w.kinds IS NULL OR p.kind = ANY (w.kinds))
		ORDER BY w.org, w.webhook
		ON CONFLICT DO NOTHING)
	SELECT count(*), coalesce(max(p.event), begins) INTO n, last FROM page p;
	UPDATE gpucredit_http.webhook_feed f SET event = last WHERE f.event < last;
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit_http.notice_events(integer) IS
'Gateway: notes which webhooks have new events, of so many events at most; returns how many were read. 0 while another daemon does it; -1: no webhook is enabled, or this is a standby.';

/*
 * Reads further in the feed for a locked webhook, as long as few of its
 * deliveries wait; later events stay in the feed. A job whose first event
 * fails makes its later events wait, so those are not counted.
 */
CREATE FUNCTION gpucredit_http.read_feed(w gpucredit_http.webhook, at timestamptz,
	OUT after bigint, OUT events integer, OUT added integer, OUT has_more boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
	most CONSTANT integer := 5000;
	noted bigint;
	last bigint;
BEGIN
	read_feed.after := (w).after;
	read_feed.events := 0;
	read_feed.added := 0;
	read_feed.has_more := false;
	IF (w).waiting >= 10000 OR (SELECT count(*) FROM (
			SELECT FROM gpucredit_http.delivery d
			WHERE d.org = (w).org AND d.webhook = (w).webhook AND d.state = 'waiting'
				AND d.due_at < 'infinity' LIMIT 1000) d) >= 1000
	THEN
		RETURN;
	END IF;
	/* This is read first, so that all events up to here are visible below. */
	SELECT f.event INTO noted FROM gpucredit_http.webhook_feed f;
	SELECT count(*), max(s.event) INTO read_feed.events, last
	FROM (SELECT e.event FROM gpucredit.event e
		WHERE e.org = (w).org AND e.event > (w).after ORDER BY e.event LIMIT most) s;
	read_feed.has_more := read_feed.events = most;
	IF read_feed.events > 0 THEN
		INSERT INTO gpucredit_http.delivery (org, webhook, event, kind, job, due_at)
		SELECT (w).org, (w).webhook, c.event, c.kind, c.job,
			CASE WHEN c.job IS NOT NULL AND (c.place > 1 OR EXISTS (
				SELECT FROM gpucredit_http.delivery d
				WHERE d.org = (w).org AND d.webhook = (w).webhook AND d.job = c.job
					AND d.state = 'waiting')) THEN 'infinity' ELSE read_feed.at END
		FROM (SELECT e.event, e.kind, e.job,
				row_number() OVER (PARTITION BY e.job ORDER BY e.event) AS place
			FROM gpucredit.event e
			WHERE e.org = (w).org AND e.event > (w).after AND e.event <= last
				AND gpucredit_http.is_below(e.account, (w).account)
				AND ((w).kinds IS NULL OR e.kind = ANY ((w).kinds))
				AND NOT EXISTS (SELECT FROM gpucredit_http.delivery d
					WHERE d.org = (w).org AND d.webhook = (w).webhook AND d.event = e.event)) c
		ORDER BY c.event;
		GET DIAGNOSTICS added = ROW_COUNT;
	END IF;
	read_feed.after := greatest(last, (w).after, CASE WHEN NOT has_more THEN noted END);
END
$$;
COMMENT ON FUNCTION gpucredit_http.read_feed(gpucredit_http.webhook, timestamptz) IS
'Internal: adds deliveries of the next events of a locked webhook. Result: up to which event it has read, how many events that were, how many deliveries it added, and whether there may be more.';

CREATE FUNCTION gpucredit_http.claim_deliveries(most integer, per_org integer, lease interval,
	sending jsonb DEFAULT '{}')
RETURNS TABLE (org text, webhook bigint, event bigint, attempt integer, url text, id text,
	sent_at bigint, signature text, body text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER ROWS 32
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
	at timestamptz := gpucredit.now();
	claimed integer := 0;
	w gpucredit_http.webhook;
	page record;
	busy record;			/* number of deliveries under way, for the
							 * organisation and for the webhook */
	abreast integer;		/* how many deliveries of the webhook may be under
							 * way */
	share integer;			/* how many deliveries of the organisation may be
							 * under way */
	events integer := 0;	/* number of events that were read */
	far_behind text[] := '{}';	/* organisations for which many events were
								 * read */
	room integer;
	d gpucredit_http.delivery;
	e gpucredit.event;
BEGIN
	IF pg_is_in_recovery() OR claim_deliveries.most < 1 THEN
		RETURN;
	END IF;
	WITH noted AS (
		SELECT o.org, o.webhook
		FROM gpucredit_http.webhook_notice n
			JOIN gpucredit_http.webhook o ON o.org = n.org AND o.webhook = n.webhook
		ORDER BY n.org, n.webhook LIMIT 1000
		FOR NO KEY UPDATE OF o SKIP LOCKED),
	gone AS (
		DELETE FROM gpucredit_http.webhook_notice n USING noted o
		WHERE n.org = o.org AND n.webhook = o.webhook)
	UPDATE gpucredit_http.webhook o
	SET due_at = least(o.due_at, greatest(at, o.paused_until))
	FROM noted n
	WHERE o.org = n.org AND o.webhook = n.webhook AND o.disabled_at IS NULL;
	FOR w IN
		SELECT o.* FROM gpucredit_http.webhook o
		WHERE o.disabled_at IS NULL AND o.due_at <= at
		ORDER BY o.due_at LIMIT 200
		FOR NO KEY UPDATE SKIP LOCKED
	LOOP
		EXIT WHEN claimed >= claim_deliveries.most OR events >= 20000;
		IF NOT gpucredit_http.may_follow(w.role, w.org, w.account) THEN
			PERFORM gpucredit_http.stop_webhook(w, 'rights');
			CONTINUE;
		END IF;
		SELECT count(*) AS org, count(*) FILTER (WHERE o.webhook = w.webhook) AS webhook INTO busy
		FROM gpucredit_http.delivery o WHERE o.org = w.org AND o.underway AND o.due_at > at;
		busy.org := greatest(busy.org, (claim_deliveries.sending ->> w.org)::bigint);
		share := least(claim_deliveries.per_org,
			greatest((claim_deliveries.most - claimed) / 3, 1));
		IF busy.org >= share OR w.org = ANY (far_behind) THEN
			UPDATE gpucredit_http.webhook o
			SET due_at = greatest(o.paused_until, at + CASE WHEN busy.org >= share
				THEN interval '1 s' ELSE interval '100 ms' END)
			WHERE o.org = w.org AND o.webhook = w.webhook;
			CONTINUE;
		END IF;
		page := gpucredit_http.read_feed(w, at);
		IF page.added > 0 THEN
			UPDATE gpucredit_http.webhook o SET waiting = o.waiting + page.added
			WHERE o.org = w.org AND o.webhook = w.webhook;
		END IF;
		events := events + page.events;
		IF page.events >= 500 THEN
			far_behind := far_behind || w.org;
		END IF;
		abreast := CASE WHEN w.failures >= 3 THEN 1 ELSE 4 END;
		room := greatest(least(claim_deliveries.most - claimed, share - busy.org,
				abreast - busy.webhook), 0);
		FOR d IN
			UPDATE gpucredit_http.delivery o
			SET underway = true, attempts = o.attempts + 1, due_at = at + claim_deliveries.lease,
				first_at = coalesce(o.first_at, at), last_at = at
			WHERE o.org = w.org AND o.webhook = w.webhook AND o.event = ANY (ARRAY(
				SELECT p.event FROM gpucredit_http.delivery p
				WHERE p.org = w.org AND p.webhook = w.webhook AND p.state = 'waiting'
					AND p.due_at <= at
				ORDER BY p.due_at, p.event LIMIT room))
			RETURNING o.*
		LOOP
			SELECT v.* INTO e FROM gpucredit.event v WHERE v.event = d.event AND v.org = w.org;
			IF NOT FOUND THEN
				PERFORM gpucredit_http.end_attempt(w.org, w.webhook, d.event, d.attempts, NULL,
					'the event has left the feed by age', NULL, true);
				CONTINUE;
			END IF;
			BEGIN
				claim_deliveries.id := gpucredit_http.message_id(e);
				claim_deliveries.sent_at := extract(epoch FROM at)::bigint;
				claim_deliveries.body := gpucredit_http.message_body(w.template, e);
				claim_deliveries.signature := gpucredit_http.sign_message(w.org, w.webhook,
					format('%s.%s.%s', claim_deliveries.id, claim_deliveries.sent_at,
						claim_deliveries.body));
			EXCEPTION WHEN OTHERS THEN		/* a message that cannot be built
											 * must not prevent others */
				RAISE LOG 'gpucredit_http: no message of event % for webhook %: %', d.event,
					w.webhook, SQLERRM;
				PERFORM gpucredit_http.end_attempt(w.org, w.webhook, d.event, d.attempts, NULL,
					format('the message could not be made (%s)', SQLSTATE), NULL);
				CONTINUE;
			END;
			claimed := claimed + 1;
			busy.org := busy.org + 1;
			busy.webhook := busy.webhook + 1;
			claim_deliveries.org := w.org;
			claim_deliveries.webhook := w.webhook;
			claim_deliveries.event := d.event;
			claim_deliveries.attempt := d.attempts;
			claim_deliveries.url := w.url;
			RETURN NEXT;
		END LOOP;
		claim_deliveries.sending := claim_deliveries.sending || jsonb_build_object(w.org, busy.org);
		UPDATE gpucredit_http.webhook o
		SET after = page.after,
			due_at = greatest(o.paused_until,
				CASE WHEN busy.org >= share THEN at + interval '1 s' END,
				CASE WHEN page.has_more AND busy.webhook < abreast THEN at
					ELSE coalesce((SELECT min(p.due_at) FROM gpucredit_http.delivery p
						WHERE p.org = w.org AND p.webhook = w.webhook AND p.state = 'waiting'
							AND (p.underway OR busy.webhook < abreast)), 'infinity') END)
		WHERE o.org = w.org AND o.webhook = w.webhook AND o.disabled_at IS NULL;
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_http.claim_deliveries(integer, integer, interval, jsonb) IS
'Gateway: leases at most so many deliveries that are due, of which an organisation has so many underway at most, for a time: what is not reported by then is sent again. sending: how many messages of each organisation the daemon is sending, as an object. Result: for each the webhook, the event, the number of the attempt, the address, and the message with its headers.';

/*
 * Stores the result of an attempt. The webhook's row is locked. A success
 * counts even if the lease had ended, because the receiver has the message.
 */
CREATE FUNCTION gpucredit_http.end_attempt(org text, webhook bigint, event bigint,
	attempt integer, status integer, problem text, retry_after integer,
	is_last boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
	at timestamptz := gpucredit.now();
	ok boolean := coalesce(end_attempt.status BETWEEN 200 AND 299, false);
	ended boolean;
	d gpucredit_http.delivery;
	since interval;
BEGIN
	SELECT o.* INTO d FROM gpucredit_http.delivery o
	WHERE o.org = end_attempt.org AND o.webhook = end_attempt.webhook
		AND o.event = end_attempt.event;
	IF NOT FOUND OR d.state = 'delivered'
		OR (NOT ok AND (d.state = 'failed' OR d.attempts <> end_attempt.attempt))
	THEN
		RETURN;
	END IF;
	since := at - coalesce(d.first_at, at);
	ended := ok OR end_attempt.is_last OR since >= interval '1 day';
	UPDATE gpucredit_http.delivery o
	SET state = CASE WHEN ok THEN 'delivered' WHEN ended THEN 'failed' ELSE 'waiting' END,
		due_at = CASE WHEN ended THEN 'infinity'
			ELSE least(at + least(greatest(since, interval '5 s'), interval '4 hours')
					* (1 + random() / 5),
				greatest(d.first_at + interval '1 day', at + interval '5 s')) END,
		ended_at = CASE WHEN ended THEN at END,
		underway = false, status = end_attempt.status,
		problem = CASE WHEN NOT ok THEN end_attempt.problem END
	WHERE o.org = d.org AND o.webhook = d.webhook AND o.event = d.event;
	IF d.state <> 'waiting' THEN		/* its webhook was disabled in the
										 * meantime */
		RETURN;
	END IF;
	IF ended AND d.job IS NOT NULL THEN		/* the job's next event becomes
											 * due */
		UPDATE gpucredit_http.delivery o SET due_at = at
		WHERE o.org = d.org AND o.webhook = d.webhook AND o.due_at = 'infinity'
			AND o.state = 'waiting' AND o.event = (
				SELECT min(n.event) FROM gpucredit_http.delivery n
				WHERE n.org = d.org AND n.webhook = d.webhook AND n.job = d.job
					AND n.state = 'waiting');
	END IF;
	IF ended THEN
		UPDATE gpucredit_http.webhook o SET waiting = o.waiting - 1
		WHERE o.org = d.org AND o.webhook = d.webhook;
		IF d.job IS NOT NULL THEN
			PERFORM gpucredit_http.note_delivery_span(d, at, end_attempt.status, ok);
		END IF;
	END IF;
	IF NOT end_attempt.is_last THEN
		PERFORM gpucredit_http.count_attempt(d.org, d.webhook, ok, end_attempt.status,
			end_attempt.retry_after, ended);
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_http.end_attempt(text, bigint, bigint, integer, integer, text, integer, boolean) IS
'Internal: what became of an attempt of a delivery, whose webhook is locked. is_last: it is given up, whatever its age, and no failure of the receiver.';

/*
 * Applies the result of an attempt to its webhook, whose row is locked. A
 * pause is never shortened: an attempt that ends during a pause began before
 * it.
 */
CREATE FUNCTION gpucredit_http.count_attempt(org text, webhook bigint, ok boolean,
	status integer, retry_after integer, ended boolean) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off SET enable_bitmapscan = off
AS $$
DECLARE
	at timestamptz := gpucredit.now();
	w gpucredit_http.webhook;
BEGIN
	SELECT o.* INTO STRICT w FROM gpucredit_http.webhook o
	WHERE o.org = count_attempt.org AND o.webhook = count_attempt.webhook;
	IF count_attempt.ok THEN
		IF w.failures >= 3 THEN		/* the receiver works again */
			UPDATE gpucredit_http.delivery o SET due_at = at
			WHERE o.org = w.org AND o.webhook = w.webhook AND o.state = 'waiting'
				AND NOT o.underway AND o.due_at > at AND o.due_at < 'infinity';
		END IF;
		UPDATE gpucredit_http.webhook o
		SET failures = 0, failing_since = NULL, delivered_at = at,
			paused_until = CASE WHEN w.paused_until > at THEN w.paused_until ELSE '-infinity' END,
			due_at = greatest(at, w.paused_until)
		WHERE o.org = w.org AND o.webhook = w.webhook;
		RETURN;
	END IF;
	w.failing_since := CASE WHEN w.failing_since IS NULL
			OR w.failed_at < at - interval '2 days' THEN at ELSE w.failing_since END;
	w.paused_until := greatest(w.paused_until,
		CASE WHEN w.failures >= 2 THEN at + least(interval '5 s'
			* power(2::double precision, least(w.failures - 2, 10)), interval '5 min') END,
		CASE WHEN count_attempt.status IN (429, 503) THEN at + interval '1 s'
			* least(greatest(count_attempt.retry_after, 0), 3600) END);
	UPDATE gpucredit_http.webhook o
	SET failures = w.failures + 1, failing_since = w.failing_since, failed_at = at,
		paused_until = w.paused_until,
		due_at = greatest(w.paused_until, CASE WHEN count_attempt.ended THEN at
			ELSE (SELECT min(p.due_at) FROM gpucredit_http.delivery p
				WHERE p.org = w.org AND p.webhook = w.webhook AND p.state = 'waiting') END)
	WHERE o.org = w.org AND o.webhook = w.webhook;
	IF count_attempt.status = 410 THEN
		PERFORM gpucredit_http.stop_webhook(w, 'gone');
	ELSIF w.failing_since <= at - interval '7 days' THEN
		PERFORM gpucredit_http.stop_webhook(w, 'failures');
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_http.count_attempt(text, bigint, boolean, integer, integer, boolean) IS
'Internal: counts an attempt of a locked webhook, pauses it after failures, and disables it after a week of them, or where the receiver answered 410.';

CREATE FUNCTION gpucredit_http.report_deliveries(results jsonb)
RETURNS TABLE (org text, webhook bigint, event bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER ROWS 1
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r record;
BEGIN
	FOR r IN
		SELECT x.* FROM jsonb_to_recordset(report_deliveries.results) AS x (org text,
			webhook bigint, event bigint, attempt integer, status integer, problem text,
			retry_after integer)
		ORDER BY x.org COLLATE "C", x.webhook, x.event
	LOOP
		PERFORM FROM gpucredit_http.webhook o
		WHERE o.org = r.org AND o.webhook = r.webhook
		FOR NO KEY UPDATE SKIP LOCKED;
		IF FOUND THEN
			PERFORM gpucredit_http.end_attempt(r.org, r.webhook, r.event, r.attempt, r.status,
				r.problem, r.retry_after);
		ELSIF EXISTS (SELECT FROM gpucredit_http.webhook o
				WHERE o.org = r.org AND o.webhook = r.webhook)
		THEN
			report_deliveries.org := r.org;
			report_deliveries.webhook := r.webhook;
			report_deliveries.event := r.event;
			RETURN NEXT;
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_http.report_deliveries(jsonb) IS
'Gateway: what became of deliveries: an array of objects with org, webhook, event, attempt, status (the HTTP status that answered; none: nothing did), problem, and retry_after in seconds. Result: those to report again, because somebody is changing their webhook.';

/*
 * Deletes deliveries that ended a week ago, keys that are no longer valid, and
 * webhooks that were removed a day ago. It skips rows that are locked.
 */
CREATE FUNCTION gpucredit_http.forget_deliveries(most integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	at timestamptz := gpucredit.now();
	n bigint;
	w gpucredit_http.webhook;
BEGIN
	IF pg_is_in_recovery() THEN
		RETURN 0;
	END IF;
	DELETE FROM gpucredit_http.delivery d
	WHERE d.ctid = ANY (ARRAY(SELECT o.ctid FROM gpucredit_http.delivery o
		WHERE o.state <> 'waiting' AND o.ended_at < at - interval '7 days'
		ORDER BY o.ended_at LIMIT forget_deliveries.most FOR UPDATE SKIP LOCKED));
	GET DIAGNOSTICS n = ROW_COUNT;
	DELETE FROM gpucredit_http.span_delivery s WHERE s.ended_at < at - interval '1 day';
	DELETE FROM gpucredit_http.webhook_secret s
	WHERE s.ctid = ANY (ARRAY(SELECT o.ctid FROM gpucredit_http.webhook_secret o
		WHERE o.ends_at <= at FOR UPDATE SKIP LOCKED));
	FOR w IN
		SELECT o.* FROM gpucredit_http.webhook o
		WHERE o.removed_at < at - interval '1 day'
		ORDER BY o.removed_at LIMIT 10 FOR UPDATE SKIP LOCKED
	LOOP
		DELETE FROM gpucredit_http.delivery d
		WHERE d.ctid = ANY (ARRAY(SELECT o.ctid FROM gpucredit_http.delivery o
			WHERE o.org = w.org AND o.webhook = w.webhook
			LIMIT forget_deliveries.most FOR UPDATE SKIP LOCKED));
		CONTINUE WHEN EXISTS (SELECT FROM gpucredit_http.delivery d
			WHERE d.org = w.org AND d.webhook = w.webhook);
		DELETE FROM gpucredit_http.webhook_notice o WHERE o.org = w.org AND o.webhook = w.webhook;
		DELETE FROM gpucredit_http.webhook o WHERE o.org = w.org AND o.webhook = w.webhook;
	END LOOP;
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit_http.forget_deliveries(integer) IS
'Gateway: deletes at most so many deliveries that ended a week ago, and webhooks that were removed a day ago; returns how many deliveries.';

CREATE FUNCTION gpucredit_http.redeliver_webhook(org text, webhook bigint, key text,
	event bigint DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	now_at timestamptz := gpucredit.now();
	w gpucredit_http.webhook;
	earlier jsonb;
	chosen bigint[];
	n bigint;
BEGIN
	w := gpucredit_http.lock_webhook(redeliver_webhook.org, redeliver_webhook.webhook);
	earlier := gpucredit_http.request_begin(redeliver_webhook.org, redeliver_webhook.key,
		'redeliver_webhook', jsonb_build_object('webhook', redeliver_webhook.webhook,
			'event', redeliver_webhook.event));
	IF earlier IS NOT NULL THEN
		RETURN (earlier ->> 'deliveries')::bigint;
	ELSIF w.disabled_at IS NOT NULL THEN
		PERFORM gpucredit_http.raise('55000', 'the webhook is disabled',
			format('It was disabled at %s (%s).', w.disabled_at, w.disabled_why),
			'Call enable_webhook() first.');
	END IF;
	IF redeliver_webhook.event IS NULL THEN
		chosen := ARRAY(SELECT d.event FROM gpucredit_http.delivery d
			WHERE d.org = w.org AND d.webhook = w.webhook AND d.state = 'failed'
			ORDER BY d.event LIMIT greatest(10000 - w.waiting, 0));
	ELSE
		INSERT INTO gpucredit_http.delivery (org, webhook, event, kind, job, state, due_at, ended_at)
		SELECT w.org, w.webhook, e.event, e.kind, e.job, 'failed', 'infinity', now_at
		FROM gpucredit.event e
		WHERE e.org = w.org AND e.event = redeliver_webhook.event AND e.event <= w.after
			AND gpucredit_http.is_below(e.account, w.account)
		ON CONFLICT ON CONSTRAINT delivery_pkey DO NOTHING;
		IF NOT FOUND AND NOT EXISTS (SELECT FROM gpucredit_http.delivery d
				JOIN gpucredit.event e ON e.event = d.event AND e.org = d.org
			WHERE d.org = w.org AND d.webhook = w.webhook AND d.event = redeliver_webhook.event)
		THEN
			PERFORM gpucredit_http.raise('UC701', 'the webhook has no such event',
				'It is none of its account, it has left the feed by age, or the webhook has not come as far.',
				'gpucredit.events() lists the events of the account.');
		END IF;
		chosen := ARRAY[redeliver_webhook.event];
	END IF;
	UPDATE gpucredit_http.delivery d
	SET state = 'waiting', due_at = 'infinity', first_at = NULL, ended_at = NULL,
		status = NULL, problem = NULL
	WHERE d.org = w.org AND d.webhook = w.webhook AND d.event = ANY (chosen)
		AND d.state <> 'waiting';
	GET DIAGNOSTICS n = ROW_COUNT;
	/* Of each job, the first waiting event becomes due. */
	UPDATE gpucredit_http.delivery d
	SET due_at = CASE WHEN d.job IS NOT NULL AND EXISTS (SELECT FROM gpucredit_http.delivery o
				WHERE o.org = d.org AND o.webhook = d.webhook AND o.job = d.job
					AND o.state = 'waiting' AND o.event < d.event) THEN 'infinity'
			WHEN d.event = ANY (chosen) THEN now_at
			ELSE d.due_at END
	WHERE d.org = w.org AND d.webhook = w.webhook AND d.state = 'waiting' AND NOT d.underway
		AND (d.event = ANY (chosen) OR d.job IN (SELECT o.job FROM gpucredit_http.delivery o
			WHERE o.org = w.org AND o.webhook = w.webhook AND o.event = ANY (chosen)));
	UPDATE gpucredit_http.webhook o
	SET waiting = o.waiting + n, due_at = least(o.due_at, greatest(now_at, o.paused_until))
	WHERE o.org = w.org AND o.webhook = w.webhook;
	PERFORM gpucredit_http.record(w.org, 'redeliver_webhook', gpucredit_http.caller(),
		jsonb_build_object('webhook', w.webhook, 'event', redeliver_webhook.event,
			'deliveries', n));
	PERFORM gpucredit_http.request_end(w.org, redeliver_webhook.key,
		jsonb_build_object('deliveries', n));
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit_http.redeliver_webhook(text, bigint, text, bigint) IS
'Webhooks: sends an event to a webhook again, or those that failed, the first 10,000 of them: for another day, in the order of their job. The event has the same webhook-id as before.
event: its number, of any kind; NULL for all that failed within a week. Result: how many. Errors: UC701 no such webhook, or another''s, or no such event; 55000 the webhook is disabled; UC201; 22023.';

CREATE FUNCTION gpucredit_http.deliveries(org text, webhook bigint, state text DEFAULT NULL,
	after bigint DEFAULT NULL, "limit" integer DEFAULT 100)
RETURNS TABLE (event bigint, kind text, job bigint, state text, attempts integer,
	first_at timestamptz, last_at timestamptz, due_at timestamptz, status integer,
	problem text, ended_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT d.event, d.kind, d.job, d.state, d.attempts, d.first_at, d.last_at,
		CASE WHEN isfinite(d.due_at) THEN d.due_at END, d.status, d.problem, d.ended_at
	FROM gpucredit_http.webhook w
		JOIN gpucredit_http.delivery d ON d.org = w.org AND d.webhook = w.webhook
	WHERE w.org = deliveries.org AND w.webhook = deliveries.webhook AND w.removed_at IS NULL
		AND gpucredit_http.may_follow(gpucredit_http.caller(), w.org, w.account)
		AND (deliveries.state IS NULL OR d.state = deliveries.state)
		AND (deliveries.after IS NULL OR d.event < deliveries.after)
	ORDER BY d.event DESC LIMIT least(deliveries."limit", 1001);
END;
COMMENT ON FUNCTION gpucredit_http.deliveries(text, bigint, text, bigint, integer) IS
'Webhooks: what a webhook is sent next, and what became of what it was sent within a week, newest first. state: waiting, delivered or failed; NULL for all. "after" is the last event of the page before.
Result: at most so many rows. status: the HTTP status that answered the last attempt. problem: why that failed. due_at: when it is sent; NULL: after an earlier event of its job, or never.';
