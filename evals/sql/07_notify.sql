/*
 * 07_notify.sql: notifications to sessions that LISTEN.
 */
CREATE FUNCTION gpucredit_eval.notify_number(channel text, number bigint) RETURNS void
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'gpucredit_eval_notify_number';
COMMENT ON FUNCTION gpucredit_eval.notify_number(text, bigint) IS
'Internal: sends NOTIFY on a channel at commit, with the number of a row of table event as its payload; drops it if the queue is used up to gpucredit.notify_queue_limit. Every login may listen, so a payload names nothing that a role may not read.';

/*
 * Publishes an event in gpucredit's feed, from which webhooks have it. Texts
 * that somebody else chose are cut, so that none is too long for an event: no
 * call fails because of what it publishes.
 */
CREATE FUNCTION gpucredit_eval.publish(kind text, org text, account text, detail jsonb)
RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	SELECT gpucredit.publish_event(publish.kind, publish.org, publish.account,
		coalesce((SELECT jsonb_object_agg(d.key, CASE jsonb_typeof(d.value)
				WHEN 'string' THEN to_jsonb(left(d.value #>> '{}', 255)) ELSE d.value END)
			FROM jsonb_each(jsonb_strip_nulls(publish.detail)) d), '{}'));
END;
COMMENT ON FUNCTION gpucredit_eval.publish(text, text, text, jsonb) IS
'Internal: publishes an event of an account in gpucredit''s feed, in this transaction.';
