/*
 * 43_move_org.sql: moves an organisation, in steps of a router.
 *
 * Each step is a row that is committed before the next step begins. A cell
 * executes its part of a step once. So a move that was interrupted continues
 * when it is called again, from any session.
 *
 *   begun     the new cell copies sealed rows, while the organisation is in
 *             use
 *   copied    the new cell copies everything and verifies it, while the
 *             organisation is in use; then the old cell stops all changes, and
 *             the new cell copies what has changed
 *   taken     the new cell is its home; routers have to be informed
 *   switched  the new cell verifies again; the old cell closes what is left
 *   done      the move is complete
 *   undone    the new cell refused the organisation, which never moved
 */
CREATE TABLE gpucredit_cells.move (
	key text COLLATE "C" NOT NULL,
	org text COLLATE "C" NOT NULL,
	source text COLLATE "C" NOT NULL,
	target text COLLATE "C" NOT NULL,
	epoch bigint NOT NULL,
	step text NOT NULL,
	begun_at timestamptz NOT NULL,
	frozen_at timestamptz,
	switched_at timestamptz,
	detail text,
	CONSTRAINT move_pkey PRIMARY KEY (key),
	CONSTRAINT move_step CHECK (step IN ('begun', 'copied', 'taken', 'switched',
		'done', 'undone'))
);
CREATE UNIQUE INDEX move_under_way ON gpucredit_cells.move (org)
	WHERE step NOT IN ('done', 'undone');
COMMENT ON TABLE gpucredit_cells.move IS
'Moves of organisations, and how far each has come';
COMMENT ON COLUMN gpucredit_cells.move.key IS 'The caller''s idempotency key.';
COMMENT ON COLUMN gpucredit_cells.move.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit_cells.move.source IS 'The old cell.';
COMMENT ON COLUMN gpucredit_cells.move.target IS 'The new cell.';
COMMENT ON COLUMN gpucredit_cells.move.epoch IS 'The epoch in the new cell.';
COMMENT ON COLUMN gpucredit_cells.move.step IS 'The last step that was done.';
COMMENT ON COLUMN gpucredit_cells.move.begun_at IS 'When it began.';
COMMENT ON COLUMN gpucredit_cells.move.frozen_at IS 'From when on calls were refused.';
COMMENT ON COLUMN gpucredit_cells.move.switched_at IS 'Until when.';
COMMENT ON COLUMN gpucredit_cells.move.detail IS 'Of one undone, why.';
SELECT pg_catalog.pg_extension_config_dump('gpucredit_cells.move', '');

CREATE FUNCTION gpucredit_cells.begin_move(org text, cell text, key text)
RETURNS gpucredit_cells.move
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	brief CONSTANT interval := gpucredit_cells.brief();
	version CONSTANT text := $q$SELECT string_agg(e.extname || ' ' || e.extversion, ', ' ORDER BY e.extname)
		FROM pg_extension e WHERE e.extname IN ('gpucredit', 'gpucredit_cells')$q$;
	at gpucredit_cells.home;
	m gpucredit_cells.move;
	why text;
BEGIN
	PERFORM gpucredit_cells.lock_directory();
	PERFORM gpucredit_cells.require_cell(cell);
	SELECT * INTO m FROM gpucredit_cells.move v WHERE v.key = begin_move.key;
	IF FOUND AND (m.org, m.target) = (begin_move.org, begin_move.cell) THEN
		RETURN m;
	END IF;
	/* Refuses a key that was used for another move, or another change. */
	PERFORM gpucredit_cells.is_new_change(begin_move.key, 'move_org', begin_move.org, begin_move.cell);
	SELECT * INTO at FROM gpucredit_cells.home h WHERE h.org = begin_move.org;
	why := CASE
		WHEN at.org IS NULL THEN 'It has no home.'
		WHEN at.cell = begin_move.cell THEN 'It is at home there.'
		WHEN EXISTS (SELECT FROM gpucredit_cells.move v
			WHERE v.org = begin_move.org AND v.step NOT IN ('done', 'undone'))
		THEN 'Another move of it is under way.'
		WHEN gpucredit_cells.ask(begin_move.cell, format('SELECT gpucredit_cells.standing(%L)', org), brief) IS NOT NULL
		THEN 'It was there before, or is a guest there.'
		WHEN gpucredit_cells.ask(at.cell, format('SELECT (EXISTS (SELECT FROM'
			' gpucredit_cells.lease_out o WHERE o.org = %L AND o.closed_at IS NULL))::text', org), brief) = 'true'
		THEN 'It has leases that are not closed.'
		WHEN gpucredit_cells.ask(begin_move.cell, version, brief) <> gpucredit_cells.ask(at.cell, version, brief)
		THEN 'That cell has another version of gpucredit than its home.'
		END;
	IF why IS NOT NULL THEN
		RAISE EXCEPTION 'organisation "%" cannot move to cell "%"',
			gpucredit_internal.clip_for_message(org), cell
			USING ERRCODE = 'UC703', DETAIL = why,
			HINT = 'Call the move under way again, with its key; recall leases; upgrade the cell; or name another one.';
	END IF;
	INSERT INTO gpucredit_cells.move
	VALUES (key, org, at.cell, begin_move.cell, nextval('gpucredit_cells.epoch_seq'),
		'begun', clock_timestamp())
	RETURNING * INTO m;
	RETURN m;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.begin_move(text, text, text) IS
'Internal: the move of that key, noted if it is new.';

/*
 * Makes the new cell begin a transaction and copy while the organisation is in
 * use. The horizon is for hand_over(); it is null if the new cell has
 * everything already.
 */
CREATE FUNCTION gpucredit_cells.begin_copy(m gpucredit_cells.move, OUT horizon text, OUT why text)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	detail text;
BEGIN
	PERFORM gpucredit_cells.hang_up(m.source);
	PERFORM gpucredit_cells.hang_up(m.target);
	PERFORM gpucredit_cells.ask(m.target, 'BEGIN');
	horizon := gpucredit_cells.ask(m.target, format(
		'SELECT gpucredit_cells.receive_ahead(%L, %L, %s)', m.org, m.source, m.epoch));
EXCEPTION WHEN OTHERS THEN
	IF m.frozen_at IS NULL AND SQLSTATE ~ '^(08|57)' THEN
		PERFORM gpucredit_cells.hang_up(m.target);
		RAISE;					/* the move continues when it is called
								 * again */
	END IF;
	GET STACKED DIAGNOSTICS why = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
	why := gpucredit_cells.abandon_move(m, why || '. ' || detail, m.frozen_at IS NOT NULL);
END
$$;
COMMENT ON FUNCTION gpucredit_cells.begin_copy(gpucredit_cells.move) IS
'Internal: has the new cell copy the organisation in a transaction that stays open; or why it did not.';

/*
 * Freezes the old cell and makes the new cell take over. Returns null if it
 * did; otherwise the reason, and the old cell continues.
 */
CREATE FUNCTION gpucredit_cells.hand_over(m gpucredit_cells.move, horizon text) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	brief CONSTANT interval := gpucredit_cells.brief();
	committing boolean := false;
	why text;
	detail text;
BEGIN
	PERFORM gpucredit_cells.ask(m.source, format(
		'SELECT gpucredit_cells.set_moving(%L, %s, true)', m.org, m.epoch), brief);
	PERFORM gpucredit_cells.ask(m.source, 'BEGIN', brief);
	PERFORM gpucredit_cells.ask(m.source, format(
		'SELECT gpucredit_cells.hold_still(%L)::text', m.org), brief);
	PERFORM gpucredit_cells.ask(m.target, format(
		'SELECT gpucredit_cells.receive_changes(%L, %L, %s, %L)', m.org, m.source, m.epoch, horizon), brief);
	committing := true;
	PERFORM gpucredit_cells.ask(m.target, 'COMMIT', brief);
	RETURN NULL;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS why = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
	RETURN gpucredit_cells.abandon_move(m, why || '. ' || detail, committing);
END
$$;
COMMENT ON FUNCTION gpucredit_cells.hand_over(gpucredit_cells.move, text) IS
'Internal: freezes the organisation in the old cell and has the new one take it; returns why it did not.';

/*
 * Gives up a move. If the answer to a commit was lost, it waits until the
 * result is known. Without a commit, the transaction of the new cell cannot
 * succeed any more, even if that cell hangs, because no session is left that
 * could commit it.
 */
CREATE FUNCTION gpucredit_cells.abandon_move(m gpucredit_cells.move, why text,
	in_doubt boolean) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_cells.hang_up(m.source);
	PERFORM gpucredit_cells.hang_up(m.target);
	IF in_doubt THEN
		PERFORM gpucredit_cells.ask(m.target, format('SELECT gpucredit_cells.lock_moving(%L)::text',
			m.org), gpucredit_cells.brief());
		IF gpucredit_cells.ask(m.target, format('SELECT gpucredit_cells.standing(%L)',
			m.org), gpucredit_cells.brief()) = 'home'
		THEN
			RETURN NULL;
		END IF;
	END IF;
	IF m.frozen_at IS NOT NULL THEN
		PERFORM gpucredit_cells.ask(m.source, format('SELECT gpucredit_cells.set_moving(%L, %s, false)',
			m.org, m.epoch), gpucredit_cells.brief());
	END IF;
	RETURN why;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.abandon_move(gpucredit_cells.move, text, boolean) IS
'Internal: lets the organisation work where it was, unless the new cell has it after all; null then. in_doubt: a commit may have been lost.';

CREATE PROCEDURE gpucredit_cells.move_org(org text, cell text, key text)
LANGUAGE plpgsql
AS $$
DECLARE
	m gpucredit_cells.move;
	horizon text;
	why text;
BEGIN
	m := gpucredit_cells.begin_move(org, cell, key);
	COMMIT;
	/* The shortest retention is a day. */
	IF m.step = 'begun' OR m.step = 'copied' AND m.begun_at < pg_catalog.now() - '1 day'::interval THEN
		PERFORM gpucredit_cells.ask(m.source,
			'SELECT pg_catalog.count(*)::text FROM gpucredit.seal_audit()')
		FROM pg_catalog.generate_series(1, 2);
		PERFORM gpucredit_cells.ask(m.target, pg_catalog.format(
			'SELECT gpucredit_cells.copy_ahead(%L, %L)', m.org, m.source));
		m := gpucredit_cells.note_step(m, 'copied');
		COMMIT;
	END IF;
	IF m.step = 'copied' THEN
		SELECT t.horizon, t.why INTO horizon, why FROM gpucredit_cells.begin_copy(m) t;
		IF horizon <> 'here' THEN
			m := gpucredit_cells.note_step(m, 'copied');
			COMMIT;
			why := gpucredit_cells.hand_over(m, horizon);
		END IF;
		m := gpucredit_cells.note_step(m, CASE WHEN why IS NULL THEN 'taken' ELSE 'undone' END, why);
		COMMIT;
	END IF;
	IF m.step = 'taken' THEN
		m := gpucredit_cells.note_step(m, 'switched');
		COMMIT;
	END IF;
	IF m.step = 'switched' THEN
		PERFORM gpucredit_cells.ask(m.source, 'ROLLBACK');
		PERFORM gpucredit_cells.ask(m.target, 'SELECT gpucredit_cells.analyze_moved()::text');
		PERFORM gpucredit_cells.ask(m.target, pg_catalog.format(
			'SELECT gpucredit_cells.require_sound(%L)::text', m.org));
		PERFORM gpucredit_cells.ask(m.target, pg_catalog.format(
			'SELECT gpucredit_cells.forget_incoming(%L)::text', m.org));
		PERFORM gpucredit_cells.ask(m.source, pg_catalog.format(
			'SELECT gpucredit_cells.close_out(%L, %L)', m.org, m.target));
		m := gpucredit_cells.note_step(m, 'done');
		COMMIT;
	END IF;
	IF m.step = 'undone' THEN
		RAISE EXCEPTION 'organisation "%" did not move to cell "%"',
			gpucredit_internal.clip_for_message(m.org), m.target
			USING ERRCODE = 'UC704', DETAIL = m.detail,
			HINT = 'It works where it was. Move it again with a new key.';
	END IF;
END
$$;
COMMENT ON PROCEDURE gpucredit_cells.move_org(text, text, text) IS
'Directory, by the superuser of the router that writes it: moves an organisation to another cell while it works; at the end it is frozen for seconds, and calls through routers wait. Broken off, it goes on when called again with the same key. An organisation comes to a cell once: it does not come back.
Errors: UC703 it cannot move there; UC704 the new cell could not take it, and it works where it was; UC201 key reused; 08006 a cell cannot be asked, or takes longer than gpucredit_cells.patience (10 minutes; while the organisation is frozen a tenth of it): call again.';

CREATE FUNCTION gpucredit_cells.note_step(m gpucredit_cells.move, step text,
	detail text DEFAULT NULL) RETURNS gpucredit_cells.move
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	UPDATE gpucredit_cells.move v SET step = note_step.step,
		frozen_at = CASE WHEN (m.step, note_step.step) = ('copied', 'copied')
				AND v.frozen_at IS NULL
			THEN clock_timestamp() ELSE v.frozen_at END,
		switched_at = CASE note_step.step WHEN 'switched' THEN clock_timestamp()
			ELSE v.switched_at END,
		detail = coalesce(note_step.detail, v.detail)
	WHERE v.key = m.key
	RETURNING * INTO m;
	IF step = 'switched' THEN
		UPDATE gpucredit_cells.home h SET cell = m.target, epoch = m.epoch
		WHERE h.org = m.org AND h.epoch < m.epoch;
		INSERT INTO gpucredit_cells.visit (node, cell)
		SELECT n.node, m.target
		FROM unnest(gpucredit_cells.ask(m.target,
			'SELECT pg_catalog.array_agg(g.node)::text FROM gpucredit_cells.guest_node g')::text[])
			AS n (node)
		ON CONFLICT DO NOTHING;
	END IF;
	RETURN m;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.note_step(gpucredit_cells.move, text, text) IS
'Internal: a step of a move is done; "switched" changes the directory.';
