/*
 * 23_carry.sql: messages between cells.
 *
 * carry() sends the messages of the outbox to all cells over dblink; then it
 * handles the answers, and writes new messages. While it waits for another
 * cell, it only holds locks on rows of table peer. So two cells may run
 * carry() towards each other at the same time, and no tenant waits.
 *
 * Locks: rows of peer; leases, home's end before the other one, in order of
 * organisation and lease; then those of the calls of gpucredit; rows of the
 * outbox last. receive() takes them in the same order, for one lease. carry()
 * locks many leases, so it leaves those that somebody else has locked to the
 * next call, and it waits for no other lock longer than its patience.
 */
CREATE FUNCTION gpucredit_cells.resend_all(cell text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_cells.post_grant(o)
	FROM gpucredit_cells.lease_out o
	WHERE o.cell = resend_all.cell AND o.closed_at IS NULL;
	UPDATE gpucredit_cells.lease_in i SET report_due = true
	WHERE i.cell = resend_all.cell AND i.closed_at IS NULL;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.resend_all(text) IS
'Internal: sends again all that this cell has with another one, since one of them was restored.';

CREATE FUNCTION gpucredit_cells.require_message(m jsonb) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	field text;
	well_formed boolean := jsonb_typeof(m) = 'object'
		AND m->>'kind' IN ('grant', 'report', 'recall', 'resend')
		AND octet_length(m::text) <= 262144;
BEGIN
	IF well_formed THEN
		FOREACH field IN ARRAY CASE m->>'kind'
			WHEN 'grant' THEN '{amount,spent,report,epoch}'
			WHEN 'report' THEN '{amount,n,spent,returned,available,held}'
			ELSE '{}' END::text[]
		LOOP
			well_formed := well_formed AND jsonb_typeof(m->field) = 'number'
				AND (m->>field)::numeric >= 0
				AND scale(trim_scale((m->>field)::numeric)) <= 6
				AND (m->>field)::numeric < 1e13;
		END LOOP;
		FOREACH field IN ARRAY CASE m->>'kind'
			WHEN 'resend' THEN '{from,to}'
			ELSE '{from,to,org,lease}' END::text[] || CASE
			WHEN m->>'kind' IN ('grant', 'report')
			THEN '{account,expires_at}'::text[] ELSE '{}' END
		LOOP
			well_formed := well_formed AND jsonb_typeof(m->field) = 'string';
		END LOOP;
		well_formed := well_formed AND (m->>'kind' <> 'report' OR (m->>'n')::numeric >= 1)
			AND (m->>'kind' <> 'grant' OR jsonb_typeof(m->'parts') = 'array'
				AND jsonb_typeof(m->'home') = 'object'
				AND ((m->>'report')::numeric > 0	/* it was reported before,
													 * then adopted */
					OR (SELECT sum((p->>'amount')::numeric)
						FROM jsonb_array_elements(m->'parts') p)
						= (m->>'amount')::numeric));
	END IF;
	IF well_formed IS NOT TRUE THEN
		RAISE EXCEPTION 'this is not a message of a cell'
			USING ERRCODE = 'invalid_parameter_value',
			DETAIL = 'A field of it is missing or malformed.',
			HINT = 'Only carry() calls this function.';
	ELSIF m->>'to' <> gpucredit_cells.here() THEN
		RAISE EXCEPTION 'the message is for cell "%"',
			gpucredit_internal.clip_for_message(m->>'to')
			USING ERRCODE = 'UC712',
			DETAIL = format('This is cell "%s".', gpucredit_cells.here()),
			HINT = 'Correct the dsn in gpucredit_cells.cell.';
	END IF;
	PERFORM gpucredit_cells.require_peer(m->>'from');
END
$$;
COMMENT ON FUNCTION gpucredit_cells.require_message(jsonb) IS
'Internal: refuses what is no message, or one for another cell.';

CREATE FUNCTION gpucredit_cells.receive(message jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_cells.require_message(message);
	CASE message->>'kind'
		WHEN 'grant' THEN RETURN gpucredit_cells.accept_lease(message);
		WHEN 'report' THEN RETURN gpucredit_cells.accept_report(message);
		WHEN 'recall' THEN RETURN gpucredit_cells.accept_recall(message);
		ELSE
			PERFORM gpucredit_cells.resend_all(message->>'from');
			RETURN jsonb_build_object('homes', coalesce((SELECT jsonb_object_agg(r.org, r.epoch)
				FROM gpucredit_cells.resident r WHERE r.state = 'home'), '{}'));
	END CASE;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.receive(jsonb) IS
'Leases: takes a message of another cell, whose carry() calls it. The same message again changes nothing.
Errors: UC701 the organisation has moved; UC712 the message is for another cell, or from none; UC713 two leases have one name; 22023 it is no message.';

/*
 * Stops organisations that have moved away. A cell that was restored from
 * before a move would still act as the home of such an organisation. The
 * operator then closes what is left.
 */
CREATE FUNCTION gpucredit_cells.stop_moved(cell text, homes jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	moved record;
BEGIN
	FOR moved IN
		UPDATE gpucredit_cells.resident r SET state = 'moving'
		FROM jsonb_each_text(coalesce(homes, '{}')) AS h (org, epoch)
		WHERE h.org = r.org AND r.state = 'home' AND r.epoch < h.epoch::bigint
		RETURNING r.org, r.epoch, h.epoch AS theirs
	LOOP
		PERFORM gpucredit_cells.note(moved.org, '00000000-0000-0000-0000-000000000000',
			'moved', 0, format('Its home is cell "%s", at epoch %s; here it was, at epoch %s,'
			' as the cell was restored. Call gpucredit_cells.close_out(%L, %L).', cell,
			moved.theirs, moved.epoch, moved.org, cell));
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.stop_moved(text, jsonb) IS
'Internal: refuses calls of organisations whose home another cell became later.';

/*
 * Handles the answer to a message, and removes the message. A later report may
 * have taken its place in the meantime, and stays.
 */
CREATE FUNCTION gpucredit_cells.sent(m gpucredit_cells.outbox, answer jsonb)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF m.kind = 'report' THEN
		PERFORM gpucredit_cells.accept_answer(answer);
	ELSIF m.kind = 'grant' AND (answer->>'n')::bigint > 0 THEN
		PERFORM gpucredit_cells.accept_report(answer);
	ELSIF m.kind = 'resend' THEN
		PERFORM gpucredit_cells.stop_moved(m.cell, answer->'homes');
	END IF;
	DELETE FROM gpucredit_cells.outbox o
	WHERE o.cell = m.cell AND o.org = m.org AND o.lease = m.lease
		AND o.kind = m.kind AND o.n = m.n;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.sent(gpucredit_cells.outbox, jsonb) IS
'Internal: takes the answer to a message.';

/*
 * Returns an identification of the server, by which a restored database is
 * detected: it has another start time or oid. A server that was only restarted
 * has another one, too; in that case the check costs one report for each
 * lease.
 */
CREATE FUNCTION gpucredit_cells.server() RETURNS text
LANGUAGE sql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT format('%s since %s', d.oid, extract(epoch FROM pg_postmaster_start_time()))
	FROM pg_database d WHERE d.datname = current_database();
END;
COMMENT ON FUNCTION gpucredit_cells.server() IS
'Internal: which database this is, and since when it runs.';

CREATE FUNCTION gpucredit_cells.write_messages(peer text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	was text;
BEGIN
	UPDATE gpucredit_cells.peer p SET server = gpucredit_cells.server()
	FROM (SELECT q.server FROM gpucredit_cells.peer q
		WHERE q.cell = write_messages.peer) q
	WHERE p.cell = write_messages.peer
		AND p.server <> gpucredit_cells.server()
	RETURNING q.server INTO was;
	IF was IS NOT NULL THEN
		PERFORM gpucredit_cells.resend_all(peer);
		PERFORM gpucredit_cells.post(peer, '',
			'00000000-0000-0000-0000-000000000000', 'resend', 0, '{}');
	END IF;
	PERFORM gpucredit_cells.speak_all(peer);
	PERFORM gpucredit_cells.top_up(peer);
END
$$;
COMMENT ON FUNCTION gpucredit_cells.write_messages(text) IS
'Internal: writes the messages for a cell into the outbox.';

CREATE TYPE gpucredit_cells.carry_result AS (cell text, sent int, waiting int,
	error text);
COMMENT ON TYPE gpucredit_cells.carry_result IS
'What carry() did for a cell.';

/* The result of sending: an answer or an error for each message. */
CREATE TYPE gpucredit_cells.sending AS (cell text,
	messages gpucredit_cells.outbox[], answers jsonb[], errors text[],
	failed text);
COMMENT ON TYPE gpucredit_cells.sending IS
'Internal: messages to one cell, and what it answered.';

CREATE FUNCTION gpucredit_cells.send(peer text, max int, patience interval)
RETURNS gpucredit_cells.sending
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	result gpucredit_cells.sending := (peer, '{}', '{}', '{}', NULL);
	link text;
	i int := 0;
BEGIN
	SELECT coalesce(array_agg(o ORDER BY o.org, o.lease, o.kind), '{}')
	INTO result.messages
	FROM (SELECT q.* FROM gpucredit_cells.outbox q WHERE q.cell = peer
		ORDER BY q.tries, q.made_at, q.org, q.lease LIMIT max) o;
	IF result.messages = '{}' THEN
		RETURN result;
	END IF;
	BEGIN
		link := gpucredit_cells.connect_peer(peer, patience);
		FOR i IN 1 .. cardinality(result.messages)
		LOOP
			BEGIN
				result.answers[i] := gpucredit_cells.ask_in_time(link,
					format('SELECT gpucredit_cells.receive(%L)',
						(result.messages[i]).body), patience);
			EXCEPTION WHEN OTHERS THEN
				result.errors[i] := SQLSTATE || ' ' || SQLERRM;
				result.failed := result.errors[i];
				EXIT WHEN SQLSTATE ~ '^(08|57|XX)';
			END;
		END LOOP;
	EXCEPTION WHEN OTHERS THEN
		result.failed := SQLSTATE || ' ' || SQLERRM;
	END;
	PERFORM gpucredit_cells.disconnect('gpucredit_cells ' || peer);
	RETURN result;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.send(text, int, interval) IS
'Internal: sends messages to one cell, and changes nothing here.';

/*
 * Locks the leases that a call of carry() may change: those of the answers that
 * came, those whose reports are to be applied again, and those that it may
 * report. Returns those of the answers that somebody else has locked.
 */
CREATE FUNCTION gpucredit_cells.lock_leases(cells text[], answered uuid[]) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	locked uuid[];
BEGIN
	locked := ARRAY(SELECT o.lease FROM gpucredit_cells.lease_out o
		WHERE o.cell = ANY (cells) AND o.closed_at IS NULL
			AND (o.lease = ANY (answered) OR o.holds = '{}' OR o.spent > o.captured)
		ORDER BY o.org, o.lease FOR NO KEY UPDATE SKIP LOCKED);
	locked := locked || ARRAY(SELECT i.lease FROM gpucredit_cells.lease_in i
		WHERE i.cell = ANY (cells) AND i.closed_at IS NULL
			AND (i.lease = ANY (answered) OR i.report = i.acked)
		ORDER BY i.org, i.lease FOR NO KEY UPDATE SKIP LOCKED);
	RETURN ARRAY(
		SELECT l.lease FROM (
			SELECT o.lease FROM gpucredit_cells.lease_out o
			WHERE o.cell = ANY (cells) AND o.closed_at IS NULL
			UNION ALL
			SELECT i.lease FROM gpucredit_cells.lease_in i
			WHERE i.cell = ANY (cells) AND i.closed_at IS NULL) l
		WHERE l.lease = ANY (answered) AND l.lease NOT IN (SELECT unnest(locked)));
END
$$;
COMMENT ON FUNCTION gpucredit_cells.lock_leases(text[], uuid[]) IS
'Internal: locks the leases that carry() may change; those of the answers that others have locked are returned.';

CREATE FUNCTION gpucredit_cells.accept_answers(s gpucredit_cells.sending, busy uuid[])
RETURNS gpucredit_cells.carry_result
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	result gpucredit_cells.carry_result := (s.cell, 0, 0, s.failed);
	m gpucredit_cells.outbox;
	why text;
BEGIN
	FOR i IN 1 .. cardinality(s.messages)
	LOOP
		m := s.messages[i];
		why := s.errors[i];
		IF s.answers[i] IS NOT NULL AND m.lease <> ALL (busy) THEN
			BEGIN				/* a message that fails does not delay the
								 * others */
				PERFORM gpucredit_cells.sent(m, s.answers[i]);
				result.sent := result.sent + 1;
			EXCEPTION WHEN OTHERS THEN
				why := SQLSTATE || ' ' || SQLERRM;
				result.error := why;
			END;
		END IF;
		IF why IS NOT NULL THEN
			UPDATE gpucredit_cells.outbox o
			SET tries = o.tries + 1, error = why
			WHERE o.cell = m.cell AND o.org = m.org AND o.lease = m.lease
				AND o.kind = m.kind AND o.n = m.n;
		END IF;
	END LOOP;
	IF s.messages <> '{}' THEN
		UPDATE gpucredit_cells.peer p
		SET heard_at = CASE WHEN result.sent > 0 THEN gpucredit.now()
				ELSE p.heard_at END,
			failing_since = CASE WHEN result.sent = 0 AND result.error IS NOT NULL
				THEN coalesce(p.failing_since, gpucredit.now()) END,
			error = result.error
		WHERE p.cell = s.cell;
	END IF;
	BEGIN
		PERFORM gpucredit_cells.write_messages(s.cell);
	EXCEPTION WHEN lock_not_available THEN
		result.error := coalesce(result.error, SQLSTATE || ' ' || SQLERRM);
	END;
	SELECT count(*) INTO result.waiting FROM gpucredit_cells.outbox o
	WHERE o.cell = s.cell;
	RETURN result;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.accept_answers(gpucredit_cells.sending, uuid[]) IS
'Internal: takes a cell''s answers, but for those about leases that others have locked, and writes new messages to it.';

CREATE FUNCTION gpucredit_cells.carry(max int DEFAULT 100,
	patience interval DEFAULT '2 s')
RETURNS SETOF gpucredit_cells.carry_result
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 10
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	peer text;
	all_sent gpucredit_cells.sending[] := '{}';
	one gpucredit_cells.sending;
	busy uuid[];
	was CONSTANT text := current_setting('lock_timeout');
BEGIN
	PERFORM gpucredit_internal.require_sense('max', carry.max::text,
		carry.max BETWEEN 1 AND 10000, 'is not from 1 to 10000',
		'Pass how many messages to send to each cell.');
	PERFORM gpucredit_internal.require_sense('patience', carry.patience::text,
		carry.patience > '0' AND carry.patience <= '1 minute',
		'is not above 0 and at most a minute',
		'Pass how long to wait for an answer.');
	INSERT INTO gpucredit_cells.peer (cell, server)
	SELECT c.cell, gpucredit_cells.server() FROM gpucredit_cells.cell c
	WHERE c.cell <> gpucredit_cells.here()
		AND NOT EXISTS (SELECT FROM gpucredit_cells.peer p
			WHERE p.cell = c.cell)
	ON CONFLICT DO NOTHING;
	FOR peer IN
		SELECT p.cell FROM gpucredit_cells.peer p
			JOIN gpucredit_cells.cell c USING (cell)
		ORDER BY p.cell FOR NO KEY UPDATE OF p SKIP LOCKED
	LOOP
		all_sent := array_append(all_sent,
			gpucredit_cells.send(peer, carry.max, carry.patience));
	END LOOP;
	busy := gpucredit_cells.lock_leases(ARRAY(SELECT q.cell FROM unnest(all_sent) q),
		ARRAY(SELECT m.lease FROM unnest(all_sent) q, unnest(q.messages) m));
	PERFORM set_config('lock_timeout',
		ceil(extract(epoch FROM carry.patience) * 1000)::text, true);
	PERFORM gpucredit.expire_credits();
	FOREACH one IN ARRAY all_sent
	LOOP
		RETURN NEXT gpucredit_cells.accept_answers(one, busy);
	END LOOP;
	PERFORM set_config('lock_timeout', was, true);
END
$$;
COMMENT ON FUNCTION gpucredit_cells.carry(int, interval) IS
'Leases: sends waiting messages, takes the answers, and writes new messages: it tops up leases and reports what was spent. It may be called at any time; it leaves out a cell to which another call carries.
max: messages to each cell. patience: how long to wait for an answer, or for a lock that a tenant''s call has; what does not come in time waits for the next call.
Result: for each cell how many were answered, how many wait now, and the last error.
Errors: UC710 this is no cell; 22023.';

CREATE FUNCTION gpucredit_cells.carry_until(duration interval, every interval)
RETURNS timestamptz
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_internal.require_sense('duration',
		carry_until.duration::text,
		carry_until.duration > '0' AND carry_until.duration <= '1 day',
		'is not above 0 and at most a day', 'Pass how long to carry.');
	PERFORM gpucredit_internal.require_sense('every', carry_until.every::text,
		carry_until.every > '0' AND carry_until.every <= '1 minute',
		'is not above 0 and at most a minute',
		'Pass how long to rest between two calls.');
	RETURN clock_timestamp() + carry_until.duration;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.carry_until(interval, interval) IS
'Internal: when carry_for() ends.  Errors: 22023.';

/*
 * Runs carry() for a time. A procedure that commits runs with its caller's
 * rights, and cannot have a SET clause.
 */
CREATE PROCEDURE gpucredit_cells.carry_for(duration interval DEFAULT '55 s',
	every interval DEFAULT '1 s')
LANGUAGE plpgsql
AS $$
DECLARE
	until timestamptz;
BEGIN
	until := gpucredit_cells.carry_until(carry_for.duration, carry_for.every);
	LOOP
		PERFORM FROM gpucredit_cells.carry();
		COMMIT;
		EXIT WHEN pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>=) until;
		PERFORM pg_catalog.pg_sleep(
			extract(epoch FROM carry_for.every)::pg_catalog.float8);
	END LOOP;
END
$$;
COMMENT ON PROCEDURE gpucredit_cells.carry_for(interval, interval) IS
'Leases: calls carry() again and again, each time in a transaction of its own. A scheduler that starts it each minute, as pg_cron does, carries in seconds.
duration: for how long, at most a day. every: the rest between two calls.
Errors: UC710 this is no cell; 22023.';
