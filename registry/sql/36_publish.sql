/*
 * 36_publish.sql: events of repositories in gpucredit's feed, from which
 * webhooks, streams and events() have them.
 *
 * An event is written in the transaction that makes it happen, for the account
 * of the repository: those above the account may read it, too. So its detail
 * has only what they may know anyway. No call fails because of what it
 * publishes: texts that somebody else chose are cut.
 */
CREATE FUNCTION gpucredit_registry.publish(kind text, org text, account text, detail jsonb)
RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	SELECT gpucredit_internal.write_event(publish.kind, publish.org, publish.account,
		coalesce((SELECT jsonb_object_agg(d.key, CASE jsonb_typeof(d.value)
				WHEN 'string' THEN to_jsonb(left(d.value #>> '{}', 255)) ELSE d.value END)
			FROM jsonb_each(jsonb_strip_nulls(publish.detail)) d), '{}'));
END;
COMMENT ON FUNCTION gpucredit_registry.publish(text, text, text, jsonb) IS
'Internal: publishes an event of an account in gpucredit''s feed, in this transaction.';

CREATE FUNCTION gpucredit_registry.publish_model(happened text, org text, model bigint,
	detail jsonb) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
	SELECT gpucredit_registry.publish('model.' || publish_model.happened, m.org, m.account,
		jsonb_build_object('model', m.model, 'name', m.name, 'kind', m.kind)
			|| publish_model.detail)
	FROM gpucredit_registry.model m
	WHERE m.org = publish_model.org AND m.model = publish_model.model;
END;
COMMENT ON FUNCTION gpucredit_registry.publish_model(text, text, bigint, jsonb) IS
'Internal: publishes an event of a repository, as model.committed.';
