/*
 * 83_upkeep_position.sql: where a task of upkeep stopped.
 *
 * A call of upkeep ends after gpucredit.upkeep_time, and the next call resumes
 * where it stopped. A position that is lost costs nothing but time: the task
 * begins at the start.  So the table is unlogged, and nobody waits for its
 * rows.
 */
CREATE UNLOGGED TABLE gpucredit.upkeep_position (
	task text COLLATE "C" NOT NULL,
	place text[] NOT NULL,
	CONSTRAINT upkeep_position_pkey PRIMARY KEY (task)
);
COMMENT ON TABLE gpucredit.upkeep_position IS
'Where tasks of upkeep stopped that did not reach their end in their last call';
COMMENT ON COLUMN gpucredit.upkeep_position.task IS 'The task.';
COMMENT ON COLUMN gpucredit.upkeep_position.place IS 'The last key that it handled; of alerts_raised: since when alerts of all organisations were looked for.';

/*
 * The text of an instant, which does not depend on the session's DateStyle and
 * TimeZone.
 */
CREATE FUNCTION gpucredit_internal.instant_text(instant timestamptz)
RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT to_jsonb(instant_text.instant) #>> '{}';
END;
COMMENT ON FUNCTION gpucredit_internal.instant_text(timestamptz) IS
'Upkeep: an instant as it is written into a position.';

CREATE FUNCTION gpucredit_internal.upkeep_position(task text) RETURNS text[]
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT p.place FROM gpucredit.upkeep_position p
	WHERE p.task = upkeep_position.task;
END;
COMMENT ON FUNCTION gpucredit_internal.upkeep_position(text) IS
'Upkeep: the last key that a task handled; NULL: it begins at the start.';

/*
 * Stores a position.  If two calls write at once, the second keeps what the
 * first wrote.  Above READ COMMITTED its write would be an error, so the
 * position is left unchanged.
 */
CREATE FUNCTION gpucredit_internal.set_upkeep_position(task text, place text[])
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
BEGIN
	IF current_setting('transaction_isolation') <> 'read committed'
		OR NOT gpucredit_internal.lock_name('upkeep ' || task, false)
	THEN
		RETURN;
	END IF;
	IF place IS NULL THEN
		DELETE FROM gpucredit.upkeep_position p
		WHERE p.task = set_upkeep_position.task;
		RETURN;
	END IF;
	INSERT INTO gpucredit.upkeep_position AS p (task, place)
	VALUES (set_upkeep_position.task, set_upkeep_position.place)
	ON CONFLICT ON CONSTRAINT upkeep_position_pkey
	DO UPDATE SET place = excluded.place;
END
$$;
COMMENT ON FUNCTION gpucredit_internal.set_upkeep_position(text, text[]) IS
'Upkeep: notes where a task stopped; NULL: at its end.';

/*
 * Until when a call of upkeep may work.  The call of gpucredit.now() loads the
 * library, which defines the setting.
 */
CREATE FUNCTION gpucredit_internal.upkeep_until(share numeric)
RETURNS timestamptz
LANGUAGE sql VOLATILE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE WHEN gpucredit.now() IS NOT NULL THEN clock_timestamp()
		+ current_setting('gpucredit.upkeep_time')::interval * upkeep_until.share END;
END;
COMMENT ON FUNCTION gpucredit_internal.upkeep_until(numeric) IS
'Upkeep: the instant of the server''s clock at which a share of gpucredit.upkeep_time has passed.';
