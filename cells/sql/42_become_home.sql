/*
 * 42_become_home.sql: how a cell becomes the home of an organisation.
 *
 * One transaction of the new cell copies everything. While the organisation is
 * in use, it stores and compares all rows from before the oldest transaction
 * of the old cell, which is the horizon. Then it rehearses the copy of the
 * remaining rows, runs verify(), and rolls the rehearsal back. During the
 * freeze it copies what has changed since the horizon. So the duration of the
 * freeze depends on the amount of changes; only the counts of rows read whole
 * tables.
 */
/*
 * Writes audit rows for a node that was copied: its registration, its devices,
 * and why it accepts no new work.
 */
CREATE FUNCTION gpucredit_cells.note_node(n gpucredit.node, source text) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET IntervalStyle = 'postgres'
BEGIN ATOMIC
	INSERT INTO gpucredit.audit (org, at, login, actor, operation, decision, reason, detail)
	SELECT '', gpucredit.now(), session_user, current_user, t.operation, t.decision, t.reason,
		jsonb_build_object('node', n.node) || t.detail
	FROM (VALUES
		(1, 'register_node', 'arrived', source, jsonb_build_object('pool', n.pool,
			'gpu_type', n.gpu_type, 'gpus', n.gpus, 'gpu_memory_mib', n.gpu_memory_mib,
			'cpu_milli', n.cpu_milli, 'memory_mib', n.memory_mib,
			'nvlink_domain', n.nvlink_domain, 'leaf', n.leaf, 'spot', n.spot::text,
			'labels', n.labels, 'spine', n.spine, 'nvlink_mbps', n.nvlink_mbps,
			'leaf_mbps', n.leaf_mbps, 'spine_mbps', n.spine_mbps), true),
		(2, 'heartbeat', 'device_failed', source,
			jsonb_build_object('healthy', n.healthy::text),
			n.healthy::text <> CASE n.gpus WHEN 0 THEN '{}' WHEN 1 THEN '{0}'
				ELSE format('{0-%s}', n.gpus - 1) END),
		(3, 'drain', 'arrived', n.draining,
			jsonb_build_object('deadline', n.drain_deadline), true),
		(4, 'reclaim', 'arrived', source,
			jsonb_build_object('notice', (n.reclaim_at - gpucredit.now())::text),
			n.reclaim_at IS NOT NULL))
		AS t (step, operation, decision, reason, detail, applies)
	WHERE t.applies
	ORDER BY t.step;
END;
COMMENT ON FUNCTION gpucredit_cells.note_node(gpucredit.node, text) IS
'Internal: the audit rows of a node that came with an organisation.';

/* Adds the nodes on which the organisation runs. They accept no new work. */
CREATE FUNCTION gpucredit_cells.bring_nodes(org text, source text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	came gpucredit.node;
	rows jsonb := gpucredit_cells.ask(source, format($q$
		SELECT coalesce(jsonb_agg(n), '[]')::text FROM gpucredit.node n
		WHERE n.node IN (SELECT g.node FROM gpucredit.attempt_gpu g
			WHERE g.org = %L AND g.ended_at IS NULL)$q$, org))::jsonb;
	pools jsonb := gpucredit_cells.ask(source, format($q$
		SELECT coalesce(jsonb_agg(p), '[]')::text FROM gpucredit.pool p
		WHERE p.pool IN (SELECT j.pool FROM gpucredit.job j WHERE j.org = %L)
			OR p.pool IN (SELECT g.pool FROM gpucredit.attempt_gpu g WHERE g.org = %1$L)$q$,
		org))::jsonb;
BEGIN
	WITH made AS (
		INSERT INTO gpucredit.pool
		SELECT p.* FROM jsonb_populate_recordset(NULL::gpucredit.pool, pools) p
		ON CONFLICT DO NOTHING
		RETURNING pool, policy)
	INSERT INTO gpucredit.audit (org, at, login, actor, operation, decision, reason, detail)
	SELECT '', gpucredit.now(), session_user, current_user, 'create_pool', 'arrived', source,
		jsonb_build_object('pool', m.pool, 'policy', m.policy)
	FROM made m;
	INSERT INTO gpucredit_cells.guest_node
	SELECT n.node FROM jsonb_populate_recordset(NULL::gpucredit.node, rows) n
	WHERE NOT EXISTS (SELECT FROM gpucredit.node o WHERE o.node = n.node)
	ON CONFLICT DO NOTHING;
	FOR came IN
		INSERT INTO gpucredit.node
		SELECT (jsonb_populate_record(r, '{"draining": "its cell is another"}')).*
		FROM jsonb_populate_recordset(NULL::gpucredit.node, rows) r
		ON CONFLICT DO NOTHING
		RETURNING *
	LOOP
		PERFORM gpucredit_cells.note_node(came, source);
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.bring_nodes(text, text) IS
'Internal: rows of pools and nodes that an organisation''s jobs name.';

/*
 * Gives copied rows, from a number on, new numbers of this cell in the same
 * order.
 */
CREATE FUNCTION gpucredit_cells.renumber_rows(org text, relation text, above bigint)
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET TimeZone = 'UTC' SET DateStyle = 'ISO, YMD' SET IntervalStyle = 'postgres'
SET extra_float_digits = 1 SET bytea_output = 'hex'
AS $$
DECLARE
	others text := (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
		FROM pg_attribute a
		WHERE a.attrelid = ('gpucredit.' || relation)::regclass AND a.attnum > 0
			AND NOT a.attisdropped AND a.attname <> relation);
	answer text;
BEGIN
	EXECUTE format('WITH came AS (SELECT i.*, nextval(%5$L) AS gpucredit_here'
		' FROM (SELECT * FROM gpucredit_cells.%3$I c WHERE c.org = $1 AND c.%1$I > $2'
		' ORDER BY c.%1$I) i),'
		' known AS (INSERT INTO gpucredit_cells.incoming_number'
		' SELECT %1$L, $1, c.%1$I, c.gpucredit_here FROM came c),'
		' put AS (INSERT INTO gpucredit.%1$I AS t (%1$I, %2$s)'
		' SELECT c.gpucredit_here, %2$s FROM came c RETURNING t.*)'
		' SELECT %4$s FROM put t',
		relation, others, 'incoming_' || relation, gpucredit_cells.digest_sum(relation),
		pg_get_serial_sequence('gpucredit.' || relation, relation))
	INTO answer USING org, above;
	RETURN answer;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.renumber_rows(text, text, bigint) IS
'Internal: entries or audit rows that came get numbers of this cell; returns the digest of what is stored.';

/*
 * Changes references to renumbered rows. A reference to a number that was not
 * copied becomes one to the number before it.
 */
CREATE FUNCTION gpucredit_cells.follow_numbers(org text, relation text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	EXECUTE format('UPDATE gpucredit.%1$I f SET %2$I = coalesce((SELECT n.here'
		' FROM gpucredit_cells.incoming_number n WHERE n.relation = %2$L AND n.org = $1'
		' AND n.old <= f.%2$I ORDER BY n.old DESC LIMIT 1), 0) WHERE f.org = $1',
		CASE relation WHEN 'entry' THEN 'budget_log' ELSE 'denial' END, relation)
	USING org;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.follow_numbers(text, text) IS
'Internal: rows that refer to entries or audit rows follow these to their new numbers.';

/*
 * Called in the old cell: returns the instant up to which rows may have been
 * removed.
 */
CREATE FUNCTION gpucredit_cells.removed_until(org text, kind text) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT gpucredit_internal.kept_from(removed_until.kind)
	WHERE CASE removed_until.kind WHEN 'entry' THEN EXISTS (
			SELECT FROM gpucredit.closing c WHERE c.org = removed_until.org)
		ELSE EXISTS (SELECT FROM gpucredit.account a
			WHERE a.org = removed_until.org AND a.created_at <=
				gpucredit_internal.kept_from(removed_until.kind)) END;
END;
COMMENT ON FUNCTION gpucredit_cells.removed_until(text, text) IS
'Internal: the instant up to which rows of the organisation left by age; null: none did.';

/*
 * Records a removal in this cell: an archive batch without a sealed batch,
 * with the copied closings, and an audit row, as for any removal.
 */
CREATE FUNCTION gpucredit_cells.note_removed(org text, source text, kind text,
	until timestamptz)
RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	link gpucredit.archive_batch;
BEGIN
	SELECT coalesce(max(d.archive_batch), 0) + 1, note_removed.kind,
		coalesce(max(d.batch_to) FILTER (WHERE d.kind = note_removed.kind), 0),
		coalesce(max(d.batch_to) FILTER (WHERE d.kind = note_removed.kind), 0), 0,
		note_removed.until, gpucredit.now(), NULL,
		coalesce((array_agg(d.digest ORDER BY d.archive_batch DESC))[1],
			decode(repeat('00', 32), 'hex')), NULL
	INTO link FROM gpucredit.archive_batch d;
	IF kind = 'entry' THEN
		INSERT INTO gpucredit.closing
		SELECT (jsonb_populate_record(c, jsonb_build_object('archive_batch', link.archive_batch))).*
		FROM gpucredit_cells.incoming_closing c WHERE c.org = note_removed.org;
		PERFORM gpucredit_cells.require_same('closing', gpucredit_cells.digest(org, 'closing'),
			gpucredit_cells.digest(org, 'incoming_closing'));
	END IF;
	link.closings := gpucredit_internal.closings_digest(link.archive_batch);
	link.digest := gpucredit_internal.archive_batch_digest(link);
	INSERT INTO gpucredit.archive_batch SELECT link.*;
	INSERT INTO gpucredit.audit (org, at, login, actor, operation, decision, reason, detail)
	VALUES ('', link.at, session_user, current_user, 'maintain', 'arrived', kind,
		jsonb_build_object('archive_batch', link.archive_batch, 'cell', source,
			'digest', encode(link.digest, 'hex')));
END
$$;
COMMENT ON FUNCTION gpucredit_cells.note_removed(text, text, text, timestamptz) IS
'Internal: from now on this cell has no rows of a kind up to that instant to count on.';

/*
 * Copies the closings. Rows that were removed by age make the past of the
 * whole cell incomplete. Therefore a cell accepts such an organisation only if
 * its own retention is as short.
 */
CREATE FUNCTION gpucredit_cells.bring_closings(org text, source text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	kind text;
	until timestamptz;
	kept interval;
	news boolean;
BEGIN
	WHILE NOT gpucredit_internal.lock_chain() LOOP
		PERFORM pg_sleep(0.1);
	END LOOP;
	FOREACH kind IN ARRAY ARRAY['entry', 'audit', 'usage'] LOOP
		until := gpucredit_cells.ask(source, format(
			'SELECT gpucredit_cells.removed_until(%L, %L)::text', org, kind));
		CONTINUE WHEN until IS NULL;
		kept := current_setting(format('gpucredit.%s_retention', kind));
		news := (until <= gpucredit_internal.kept_from(kind)) IS NOT TRUE;
		IF news AND (kept = '0' OR until > gpucredit.now() - kept + gpucredit_cells.clock_skew()) THEN
			RAISE EXCEPTION 'cell "%" keeps what cell "%" has removed', gpucredit_cells.here(), source
				USING ERRCODE = 'object_not_in_prerequisite_state',
				DETAIL = format('Table %s: removed there up to %s, kept here %s.', kind, until,
					CASE WHEN kept = '0' THEN 'for ever' ELSE 'for ' || kept END),
				HINT = format('Set gpucredit.%s_retention alike in both cells.', kind);
		END IF;
		IF kind = 'usage' AND news THEN
			DELETE FROM gpucredit.usage_horizon;
			INSERT INTO gpucredit.usage_horizon VALUES (until);
		ELSIF kind = 'entry' OR kind = 'audit' AND news THEN
			PERFORM gpucredit_cells.note_removed(org, source, kind, until);
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.bring_closings(text, text) IS
'Internal, in the new cell: sums of entries that left by age, and since when rows are complete.
Errors: 55000 this cell keeps rows for longer.';

/*
 * Returns the condition for rows of a table that changed after the horizon,
 * given that entries and audit rows were copied ahead.
 */
CREATE FUNCTION gpucredit_cells.changing(relation text, horizon text, copied jsonb)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE WHEN changing.copied ? changing.relation
			THEN format('t.%I > %s', changing.relation, changing.copied ->> changing.relation)
		/* These refer to renumbered rows, so always copy all of them. */
		WHEN changing.relation IN ('budget_log', 'denial') THEN 'true'
		ELSE format('age(t.xmin) <= age(%L::xid)', changing.horizon) END;
END;
COMMENT ON FUNCTION gpucredit_cells.changing(text, text, jsonb) IS
'Internal: the condition of rows t that are not stored before the freeze.';

/*
 * Returns the query for the sum of entries. An entry that was removed by age
 * is included in its closing.
 */
CREATE FUNCTION gpucredit_cells.booked(org text) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT (gpucredit_cells.total(booked.org, 'entry')
		+ (SELECT coalesce(sum(c.entries), 0) FROM gpucredit.closing c
			WHERE c.org = booked.org))::text;
END;
COMMENT ON FUNCTION gpucredit_cells.booked(text) IS
'Internal: how many entries an organisation ever had.';

/*
 * Returns digests of all tables. Deleted rows show in the total count. In
 * append-only tables, rows that the old cell has removed by age in the
 * meantime stay in the new cell.
 */
CREATE FUNCTION gpucredit_cells.digests(org text, horizon text, copied jsonb)
RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT jsonb_object_agg(m.name,
			gpucredit_cells.digest(digests.org, m.name,
				gpucredit_cells.changing(m.name, digests.horizon, digests.copied))
			|| CASE WHEN m.only_grows THEN '' ELSE ' of '
				|| gpucredit_cells.total(digests.org, m.name) END)
		|| jsonb_build_object('booked', gpucredit_cells.booked(digests.org))
	FROM gpucredit_cells.moved_tables() m WHERE m.name <> 'closing';
END;
COMMENT ON FUNCTION gpucredit_cells.digests(text, text, jsonb) IS
'Internal, in the old cell: digests of what changes after the horizon.';

/*
 * Starts the computation of digests in the old cell, which runs while this
 * cell copies what has changed.
 */
CREATE FUNCTION gpucredit_cells.begin_digests(org text, source text, horizon text, copied jsonb)
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	link CONSTANT text := 'gpucredit_cells digests';
	snapshot text := gpucredit_cells.ask(source, 'SELECT pg_export_snapshot()');
BEGIN
	PERFORM gpucredit_cells.disconnect(link);
	PERFORM gpucredit_cells.connect(link, source, 'gpucredit_mover', gpucredit_cells.brief());
	PERFORM gpucredit_cells.ask_in_time(link, q, gpucredit_cells.brief())
	FROM unnest(ARRAY['BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY',
		format('SET TRANSACTION SNAPSHOT %L', snapshot)]) WITH ORDINALITY t (q, i);
	PERFORM gpucredit_cells.send_query(link,
		format('SELECT gpucredit_cells.digests(%L, %L, %L)', org, horizon, copied));
	RETURN link;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.begin_digests(text, text, text, jsonb) IS
'Internal: has the old cell compute digests of what an open transaction sees there; returns the connection that will have them.';

/*
 * Copies what has changed since the horizon, as an open transaction of the old
 * cell sees it.
 */
CREATE FUNCTION gpucredit_cells.catch_up(org text, source text, horizon text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	one record;
	copied jsonb := jsonb_build_object(
		'entry', (SELECT coalesce(max(t.entry), 0) FROM gpucredit_cells.incoming_entry t
			WHERE t.org = catch_up.org),
		'audit', (SELECT coalesce(max(t.audit), 0) FROM gpucredit_cells.incoming_audit t
			WHERE t.org = catch_up.org));
	link text := gpucredit_cells.begin_digests(org, source, horizon, copied);
	which text;
	ours jsonb := '{}';
	theirs jsonb;
BEGIN
	PERFORM gpucredit_cells.bring_nodes(org, source);
	FOR one IN SELECT * FROM gpucredit_cells.moved_tables() m WHERE m.name <> 'closing' LOOP
		which := gpucredit_cells.changing(one.name, horizon, copied);
		IF copied ? one.name THEN
			ours := ours || jsonb_build_object(one.name, gpucredit_cells.pull(source, org,
				one.name, 'gpucredit_cells.incoming_' || one.name, which));
			PERFORM gpucredit_cells.require_same(one.name, gpucredit_cells.renumber_rows(org,
				one.name, (copied ->> one.name)::bigint), ours ->> one.name);
			CONTINUE;
		END IF;
		BEGIN
			ours := ours || jsonb_build_object(one.name, gpucredit_cells.pull(source, org,
				one.name, 'gpucredit.' || quote_ident(one.name), which, true)
				|| CASE WHEN one.only_grows THEN '' ELSE ' of '
				|| gpucredit_cells.total(org, one.name) END);
		EXCEPTION WHEN unique_violation THEN
			NULL;			/* the new row has the key of a row that was
							 * deleted in the old cell */
		END;
	END LOOP;
	ours := ours || jsonb_build_object('booked', gpucredit_cells.booked(org));
	theirs := gpucredit_cells.answer(link, gpucredit_cells.patience());
	PERFORM gpucredit_cells.disconnect(link);
	FOR one IN SELECT d.key AS name, m.only_grows
		FROM jsonb_each(theirs) d LEFT JOIN gpucredit_cells.moved_tables() m ON m.name = d.key
		WHERE ours -> d.key IS DISTINCT FROM d.value
	LOOP
		IF one.only_grows IS NOT FALSE THEN
			PERFORM gpucredit_cells.require_same(one.name, ours ->> one.name, theirs ->> one.name);
		END IF;
		/* Rows were deleted in the old cell. */
		EXECUTE format('DELETE FROM gpucredit.%I t WHERE t.org = $1', one.name) USING org;
		PERFORM gpucredit_cells.pull_same(source, org, one.name, 'gpucredit.' || quote_ident(one.name));
	END LOOP;
	PERFORM gpucredit_cells.follow_numbers(org, r) FROM unnest('{entry,audit}'::text[]) r;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.catch_up(text, text, text) IS
'Internal, in the new cell: takes what changed since the horizon, and compares what is stored with the old cell.
Errors: XX001 rows differ.';

/* Analyzes the tables, which verify() needs after so many rows were copied. */
CREATE FUNCTION gpucredit_cells.analyze_moved() RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	EXECUTE (SELECT 'ANALYZE ' || string_agg(format('gpucredit.%I', t.name), ', ')
		FROM gpucredit_cells.moved_tables() t);
END
$$;
COMMENT ON FUNCTION gpucredit_cells.analyze_moved() IS
'Internal, in the new cell: has the tables that came analysed.';

CREATE FUNCTION gpucredit_cells.require_sound(org text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	wrong text;
BEGIN
	SELECT string_agg(format('%s: %s, %s', v.invariant, v.subject, v.detail), '; ')
	INTO wrong FROM (SELECT * FROM gpucredit.verify(org) LIMIT 5) v;
	IF wrong IS NOT NULL THEN
		RAISE EXCEPTION 'organisation "%" is not sound in cell "%"',
			gpucredit_internal.clip_for_message(org), gpucredit_cells.here()
			USING ERRCODE = 'data_corrupted', DETAIL = wrong,
			HINT = 'Run gpucredit.verify() in both cells; what is wrong in the old one is there, too.';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.require_sound(text) IS
'Internal: raises XX001 with what verify() finds.';

/*
 * Copies everything while the organisation is in use; receive_changes()
 * completes the transaction. The rehearsal is rolled back.
 */
CREATE FUNCTION gpucredit_cells.receive_ahead(org text, source text, epoch bigint) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET session_replication_role = replica
SET enable_nestloop = off		/* there are no statistics on the copied rows
								 * yet */
AS $$
DECLARE
	horizon text;
BEGIN
	/* After this lock, any other attempt has ended. */
	PERFORM gpucredit_cells.lock_moving(org);
	IF EXISTS (SELECT FROM gpucredit_cells.resident r
		WHERE r.org = receive_ahead.org AND r.epoch = receive_ahead.epoch AND r.state = 'home')
	THEN
		RETURN 'here';
	END IF;
	PERFORM gpucredit_cells.hang_up(source);
	PERFORM gpucredit_cells.ask(source, 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
	horizon := gpucredit_cells.ask(source,
		'SELECT (pg_snapshot_xmin(pg_current_snapshot())::text::numeric % 4294967296)::text');
	PERFORM gpucredit_cells.pull_same(source, org, m.name, 'gpucredit.' || quote_ident(m.name),
		format('NOT %s', gpucredit_cells.changing(m.name, horizon, '{}')))
	FROM gpucredit_cells.moved_tables() m
	WHERE m.name NOT IN ('entry', 'audit', 'closing');
	PERFORM gpucredit_cells.require_same(r, gpucredit_cells.renumber_rows(org, r, 0),
		gpucredit_cells.digest(org, 'incoming_' || r))
	FROM unnest('{entry,audit}'::text[]) r;
	PERFORM gpucredit_cells.bring_closings(org, source);
	BEGIN
		PERFORM gpucredit_cells.catch_up(org, source, horizon);
		PERFORM gpucredit_cells.require_sound(org);
		RAISE EXCEPTION SQLSTATE 'UC799';
	EXCEPTION WHEN SQLSTATE 'UC799' THEN
		NULL;
	END;
	PERFORM gpucredit_cells.ask(source, 'ROLLBACK');
	RETURN horizon;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.receive_ahead(text, text, bigint) IS
'Internal, in the new cell: stores, compares and verifies an organisation''s rows while it works. Result: the transaction of the old cell from which on changes have to follow; "here": it has come already.
Errors: XX001 rows differ, or verify() finds something; 55000 this cell keeps rows for longer.';

/* Copies the remaining changes during the freeze, or fails. */
CREATE FUNCTION gpucredit_cells.receive_changes(org text, source text, epoch bigint, horizon text)
RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET session_replication_role = replica
SET enable_nestloop = off
AS $$
BEGIN
	PERFORM gpucredit_cells.ask(source, 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
	PERFORM gpucredit_cells.catch_up(org, source, horizon);
	PERFORM gpucredit_cells.hang_up(source);
	PERFORM gpucredit_cells.pass_numbers(r.name, r.last)
	FROM (SELECT 'bucket_bucket_seq' AS name, (SELECT max(t.bucket) FROM gpucredit.bucket t WHERE t.org = receive_changes.org) AS last
		UNION ALL SELECT 'hold_hold_seq', (SELECT max(t.hold) FROM gpucredit.hold t WHERE t.org = receive_changes.org)
		UNION ALL SELECT 'job_job_seq', (SELECT max(t.job) FROM gpucredit.job t WHERE t.org = receive_changes.org)
		UNION ALL SELECT 'event_event_seq', (SELECT max(t.event) FROM gpucredit.event t WHERE t.org = receive_changes.org)
		UNION ALL SELECT 'alert_alert_seq', (SELECT max(t.alert) FROM gpucredit.alert t WHERE t.org = receive_changes.org)) r
	WHERE r.last IS NOT NULL;
	INSERT INTO gpucredit_cells.resident AS r VALUES (org, epoch, 'home')
	ON CONFLICT ON CONSTRAINT resident_pkey
		DO UPDATE SET epoch = excluded.epoch, state = 'home';
	RETURN 'taken';
END
$$;
COMMENT ON FUNCTION gpucredit_cells.receive_changes(text, text, bigint, text) IS
'Internal, in the new cell, after receive_ahead(): takes what changed since the horizon; this cell is the home when the transaction commits.
Errors: XX001 rows differ.';

/*
 * Advances a sequence, so that new numbers of this cell are above the copied
 * ones.
 */
CREATE FUNCTION gpucredit_cells.pass_numbers(sequence text, last bigint) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT setval(('gpucredit.' || sequence)::regclass, (last / 1000 + 1) * 1000 + c.number)
	FROM gpucredit_cells.self s JOIN gpucredit_cells.cell c USING (cell)
	WHERE coalesce(pg_sequence_last_value(('gpucredit.' || sequence)::regclass), 0) <= last
$$;
COMMENT ON FUNCTION gpucredit_cells.pass_numbers(text, bigint) IS
'Internal: sets a sequence to continue above a number.';

/*
 * Called in the old cell: records that the organisation is moving, or no
 * longer is.
 */
CREATE FUNCTION gpucredit_cells.set_moving(org text, epoch bigint, moving boolean)
RETURNS text
LANGUAGE sql VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	UPDATE gpucredit_cells.resident r
	SET state = CASE WHEN set_moving.moving THEN 'moving' ELSE 'home' END
	WHERE r.org = set_moving.org AND r.epoch < set_moving.epoch
		AND r.state IN ('home', 'moving')
	RETURNING r.state;
END;
COMMENT ON FUNCTION gpucredit_cells.set_moving(text, bigint, boolean) IS
'Internal, in the old cell: freezes the organisation from the commit on, or ends that.';

/* Locks rows of the organisation, so that cycles and sweeps skip them. */
CREATE FUNCTION gpucredit_cells.hold_still(org text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $$
BEGIN
	PERFORM gpucredit_cells.lock_moving(org);
	PERFORM FROM gpucredit.job j
	WHERE j.org = hold_still.org AND j.state IN ('queued', 'active')
	ORDER BY j.job FOR UPDATE;
	PERFORM FROM gpucredit.attempt a
	WHERE a.org = hold_still.org AND a.ended_at IS NULL
	ORDER BY a.job, a.attempt FOR UPDATE;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.hold_still(text) IS
'Internal, in the old cell: waits for transactions that changed rows of the organisation, and keeps its jobs from cycles until this one ends.
Errors: 55P03 a transaction stays open.';

/*
 * Closes the organisation in the old cell, by gpucredit's own functions: its
 * jobs are cancelled, and its credit is revoked. So the cell's verify() holds,
 * its seals remain valid, and devices of running attempts are allocated again
 * once their nodes report that nothing runs there any more.
 */
CREATE FUNCTION gpucredit_cells.close_out(org text, target text) RETURNS text
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET gpucredit.key_space = 'gpucredit_cells'
AS $$
DECLARE
	reason text := format('the organisation moved to cell %s', target);
	r record;
BEGIN
	/*
	 * Otherwise the cell would reuse the devices of a node that does not
	 * report what runs.
	 */
	PERFORM gpucredit.drain(n.node, reason)
	FROM gpucredit.node n
	WHERE n.draining IS NULL
		AND (NOT n.tells_running
			OR current_setting('gpucredit.node_lost')::interval = '0')
		AND n.node IN (SELECT g.node FROM gpucredit.attempt_gpu g
			WHERE g.org = close_out.org AND g.ended_at IS NULL);
	PERFORM gpucredit_cells.hold_still(org);
	DELETE FROM gpucredit.rate_limit l WHERE l.org = close_out.org;
	DELETE FROM gpucredit.tenant t WHERE t.org = close_out.org;
	FOR r IN SELECT a.job, a.attempt FROM gpucredit.attempt a
		WHERE a.org = close_out.org AND a.ended_at IS NULL ORDER BY 1, 2
	LOOP
		PERFORM gpucredit.cancel(org, r.job, 'cells: moved, job ' || r.job, reason);
		PERFORM gpucredit.settle(org, r.job, r.attempt, 'cancelled');
	END LOOP;
	FOR r IN SELECT j.job FROM gpucredit.job j
		WHERE j.org = close_out.org AND j.state IN ('queued', 'active') ORDER BY 1
	LOOP
		PERFORM gpucredit.cancel(org, r.job, 'cells: moved, job ' || r.job, reason);
	END LOOP;
	FOR r IN SELECT h.hold FROM gpucredit.hold h
		WHERE h.org = close_out.org AND h.closed_at IS NULL ORDER BY 1
	LOOP
		PERFORM gpucredit.release(org, r.hold, 'cells: moved, hold ' || r.hold);
	END LOOP;
	FOR r IN SELECT b.bucket FROM gpucredit.bucket b
		WHERE b.org = close_out.org AND b.closed_at IS NULL ORDER BY 1
	LOOP
		PERFORM gpucredit.revoke(org, r.bucket, 'cells: moved, bucket ' || r.bucket, reason);
	END LOOP;
	/* The new cell charges the use for fair share. */
	UPDATE gpucredit.attempt a SET usage_charged = 0, needs_cycle = false
	WHERE a.org = close_out.org AND a.needs_cycle;
	UPDATE gpucredit_cells.resident t SET state = 'gone' WHERE t.org = close_out.org;
	RETURN 'closed';
END
$$;
COMMENT ON FUNCTION gpucredit_cells.close_out(text, text) IS
'Internal, in the old cell: ends what the organisation has there, once it is at home elsewhere.';
