/*
 * 22_lease_guest.sql: the end of a lease in the cell that spends the credit.
 *
 * Locks: the lease's row, then as the calls of gpucredit that follow.
 */
/*
 * Returns the sums of a lease's buckets, including those that transfer() made
 * from them.
 */
CREATE FUNCTION gpucredit_cells.lease_figures(l gpucredit_cells.lease_in,
	OUT issued numeric, OUT available numeric, OUT held numeric,
	OUT spent numeric, OUT ended numeric)
LANGUAGE plpgsql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	moved numeric;
	mark CONSTANT text := 'lease ' || l.lease;
BEGIN
	SELECT coalesce(sum(b.issued::numeric), 0),
		coalesce(sum(b.available::numeric), 0),
		coalesce(sum(b.held::numeric), 0), coalesce(sum(b.spent::numeric), 0),
		coalesce(sum(b.expired::numeric + b.revoked::numeric), 0),
		coalesce(sum(b.moved::numeric), 0)
	INTO issued, available, held, spent, ended, moved
	FROM gpucredit.bucket_whole b
	WHERE b.org = l.org AND b.bucket = ANY (l.buckets);
	IF moved > 0 THEN
		SELECT sum(w.issued::numeric - w.moved::numeric),
			sum(w.available::numeric), sum(w.held::numeric),
			sum(w.spent::numeric),
			sum(w.expired::numeric + w.revoked::numeric)
		INTO issued, available, held, spent, ended
		FROM gpucredit.bucket b
			JOIN gpucredit.bucket_whole w ON w.org = b.org
				AND w.bucket = b.bucket
		WHERE b.org = l.org AND b.memo = mark;
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.lease_figures(gpucredit_cells.lease_in) IS
'Internal: what became of a lease''s credit by this cell''s books; ended: expired or revoked.';

/*
 * Posts the report of a lease if something has changed and the home has
 * received the previous report. So two reports with the same number never
 * differ, unless this cell was restored between them. The caller has locked
 * the row.
 */
CREATE FUNCTION gpucredit_cells.speak(l gpucredit_cells.lease_in)
RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	f record;
	spent numeric;
	returned numeric;
	result jsonb;
BEGIN
	IF l.report = l.acked THEN
		f := gpucredit_cells.lease_figures(l);
		IF l.buckets = '{}' THEN
			f.ended := l.amount;
		END IF;
		spent := f.spent + l.forgotten;
		returned := greatest(f.ended - l.forgotten, l.returned);
		IF l.report_due OR (l.spent, l.returned, l.available, l.held)
			IS DISTINCT FROM (spent, returned, f.available, f.held) THEN
			l.report := l.report + 1;
			l.spent := spent;
			l.returned := returned;
			l.available := f.available;
			l.held := f.held;
			UPDATE gpucredit_cells.lease_in i
			SET report = l.report, spent = l.spent, returned = l.returned,
				available = l.available, held = l.held, report_due = false
			WHERE i.org = l.org AND i.lease = l.lease;
		END IF;
	END IF;
	result := jsonb_build_object('account', l.account, 'amount', l.amount,
		'expires_at', l.expires_at, 'spent', l.spent,
		'returned', l.returned, 'available', l.available, 'held', l.held);
	IF l.report > l.acked THEN
		PERFORM gpucredit_cells.post(l.cell, l.org, l.lease, 'report', l.report,
			result);
	END IF;
	RETURN result || jsonb_build_object('kind', 'report', 'n', l.report,
		'org', l.org, 'lease', l.lease, 'from', gpucredit_cells.here(),
		'to', l.cell);
END
$$;
COMMENT ON FUNCTION gpucredit_cells.speak(gpucredit_cells.lease_in) IS
'Internal: this cell''s report of a lease; a new one goes into the outbox.';

/*
 * Revokes available credit of a lease, so that nothing more is reserved with
 * it.
 */
CREATE FUNCTION gpucredit_cells.stop_lease(l gpucredit_cells.lease_in)
RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET gpucredit.key_space = 'gpucredit_cells'
BEGIN ATOMIC
	SELECT gpucredit.revoke(b.org, b.bucket, gen_random_uuid()::text,
		'the lease is over')
	FROM gpucredit.bucket b
	WHERE b.org = l.org AND b.closed_at IS NULL
		AND (b.bucket = ANY (l.buckets) OR b.memo = 'lease ' || l.lease)
	ORDER BY b.bucket;
	UPDATE gpucredit_cells.lease_in i SET report_due = true
	WHERE i.org = l.org AND i.lease = l.lease;
END;
COMMENT ON FUNCTION gpucredit_cells.stop_lease(gpucredit_cells.lease_in) IS
'Internal: revokes what is available of a lease.';

CREATE FUNCTION gpucredit_cells.require_guest(org text, account text,
	epoch bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	path text := '';
	segment text;
BEGIN
	INSERT INTO gpucredit_cells.resident AS r (org, epoch, state)
	VALUES (require_guest.org, require_guest.epoch, 'guest')
	ON CONFLICT ON CONSTRAINT resident_pkey DO UPDATE
	SET state = 'guest', epoch = excluded.epoch
	WHERE r.state IN ('guest', 'gone') AND r.epoch < excluded.epoch
		OR r.state = 'gone' AND r.epoch = excluded.epoch;
	IF NOT EXISTS (SELECT FROM gpucredit_cells.resident r
		WHERE r.org = require_guest.org AND r.state = 'guest') THEN
		RETURN false;
	END IF;
	IF NOT EXISTS (SELECT FROM gpucredit.account a
		WHERE a.org = require_guest.org AND a.account = '') THEN
		PERFORM gpucredit.create_account(require_guest.org);
	END IF;
	FOREACH segment IN ARRAY string_to_array(require_guest.account, '/')
	LOOP
		path := ltrim(path || '/' || segment, '/');
		IF NOT EXISTS (SELECT FROM gpucredit.account a
			WHERE a.org = require_guest.org AND a.account = path) THEN
			PERFORM gpucredit.create_account(require_guest.org, path);
		END IF;
	END LOOP;
	RETURN true;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.require_guest(text, text, bigint) IS
'Internal: makes an organisation and an account of it a guest; false: this cell is its home by now.';

/*
 * Handles a lease from the home. A lease that arrives too late gets no bucket.
 * Neither does a lease that this cell had before it was restored: the home
 * knows how much of it was spent, and the remaining credit is returned.
 */
CREATE FUNCTION gpucredit_cells.accept_lease(m jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET gpucredit.key_space = 'gpucredit_cells'
AS $$
DECLARE
	l gpucredit_cells.lease_in;
	part jsonb;
BEGIN
	INSERT INTO gpucredit_cells.lease_in AS i (org, lease, account, cell,
		amount, expires_at, forgotten, report, acked, made_at)
	VALUES (m->>'org', (m->>'lease')::uuid, m->>'account', m->>'from',
		(m->>'amount')::numeric, (m->>'expires_at')::timestamptz,
		(m->>'spent')::numeric, (m->>'report')::bigint, (m->>'report')::bigint,
		gpucredit.now())
	ON CONFLICT ON CONSTRAINT lease_in_pkey DO NOTHING
	RETURNING i.* INTO l;
	IF NOT FOUND THEN
		SELECT i.* INTO STRICT l FROM gpucredit_cells.lease_in i
		WHERE i.org = m->>'org' AND i.lease = (m->>'lease')::uuid
		FOR NO KEY UPDATE;
	ELSIF l.report > 0 THEN
		PERFORM gpucredit_cells.note(l.org, l.lease, 'forgotten',
			l.forgotten, 'This cell did not know the lease, as it was restored. What home knows as spent counts as spent.');
	ELSIF l.expires_at > gpucredit.now() AND gpucredit_cells.require_guest(
		l.org, l.account, (m->>'epoch')::bigint) THEN
		FOR part IN SELECT * FROM jsonb_array_elements(m->'parts')
		LOOP
			l.buckets := l.buckets || (gpucredit.issue(l.org, l.account,
				gen_random_uuid()::text, (part->>'amount')::numeric,
				part->>'kind', l.expires_at, NULL, (part->>'priority')::int,
				part->'policy', 'lease ' || l.lease)).bucket;
		END LOOP;
		UPDATE gpucredit_cells.lease_in i SET buckets = l.buckets
		WHERE i.org = l.org AND i.lease = l.lease;
	END IF;
	PERFORM gpucredit_cells.keep_home_credit(l, m->'home');
	RETURN gpucredit_cells.speak(l);
END
$$;
COMMENT ON FUNCTION gpucredit_cells.accept_lease(jsonb) IS
'Internal: takes a lease from home, once, and answers with its report.';

CREATE FUNCTION gpucredit_cells.keep_home_credit(l gpucredit_cells.lease_in,
	home jsonb) RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	INSERT INTO gpucredit_cells.home_credit AS c (org, account, cell,
		spendable, at)
	VALUES (l.org, l.account, l.cell, (home->>'spendable')::numeric,
		(home->>'at')::timestamptz)
	ON CONFLICT ON CONSTRAINT home_credit_pkey DO UPDATE
	SET cell = excluded.cell, spendable = excluded.spendable, at = excluded.at
	WHERE c.at < excluded.at;
END;
COMMENT ON FUNCTION gpucredit_cells.keep_home_credit(gpucredit_cells.lease_in,
	jsonb) IS
'Internal: stores what home still has, by its own account.';

CREATE FUNCTION gpucredit_cells.accept_recall(m jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	l gpucredit_cells.lease_in;
BEGIN
	SELECT i.* INTO l FROM gpucredit_cells.lease_in i
	WHERE i.org = m->>'org' AND i.lease = (m->>'lease')::uuid
	FOR NO KEY UPDATE;
	IF FOUND THEN
		PERFORM gpucredit_cells.stop_lease(l);
	END IF;
	RETURN jsonb_build_object('known', FOUND);
END
$$;
COMMENT ON FUNCTION gpucredit_cells.accept_recall(jsonb) IS
'Internal: home recalls the unused part of a lease.';

/*
 * Handles the home's answer to a report. If the home knows of more than this
 * cell has ever reported, the cell was restored. Then the lost spending is
 * added to what the cell books from now on, and nothing more is reserved with
 * the lease.
 */
CREATE FUNCTION gpucredit_cells.accept_answer(answer jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	l gpucredit_cells.lease_in;
	n CONSTANT bigint := (answer->>'report')::bigint;
	home_spent CONSTANT numeric := (answer->>'spent')::numeric;
	home_returned CONSTANT numeric := (answer->>'returned')::numeric;
	since numeric;
	lost numeric;
BEGIN
	SELECT i.* INTO STRICT l FROM gpucredit_cells.lease_in i
	WHERE i.org = answer->>'org' AND i.lease = (answer->>'lease')::uuid
	FOR NO KEY UPDATE;
	PERFORM gpucredit_cells.keep_home_credit(l, answer->'home');
	IF n < l.report THEN
		RETURN;
	ELSIF n > l.report OR (home_spent, home_returned)
		IS DISTINCT FROM (l.spent, l.returned) THEN
		SELECT coalesce(sum(CASE WHEN e.target = 'spent'
			THEN e.amount::numeric ELSE -e.amount::numeric END), 0)
		INTO since
		FROM gpucredit.entry e
			JOIN gpucredit.bucket b ON b.org = e.org AND b.bucket = e.bucket
		WHERE e.org = l.org AND b.org = l.org
			AND gpucredit_cells.lease_of(b.memo) = l.lease
			AND 'spent' IN (e.source, e.target)
			AND e.at >= pg_postmaster_start_time();
		lost := home_spent + since - (gpucredit_cells.lease_figures(l)).spent;
		PERFORM gpucredit_cells.note(l.org, l.lease, 'forgotten',
			lost - l.forgotten, 'Home knows of more than this cell''s books have, as the cell was restored.');
		DELETE FROM gpucredit_cells.outbox o
		WHERE o.cell = l.cell AND o.org = l.org AND o.lease = l.lease
			AND o.kind = 'report';
		UPDATE gpucredit_cells.lease_in i
		SET report = n, acked = n, spent = home_spent,
			returned = home_returned, forgotten = lost,
			closed_at = NULL
		WHERE i.org = l.org AND i.lease = l.lease;
		PERFORM gpucredit_cells.stop_lease(l);
		RETURN;
	END IF;
	UPDATE gpucredit_cells.lease_in i
	SET acked = n, closed_at = CASE WHEN NOT i.report_due
		AND i.spent + i.returned >= i.amount THEN gpucredit.now() END
	WHERE i.org = l.org AND i.lease = l.lease;
	IF NOT (answer->>'backed')::boolean THEN
		PERFORM gpucredit_cells.stop_lease(l);
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.accept_answer(jsonb) IS
'Internal: takes home''s answer to a report.';

/*
 * Returns the lease that credit stems from. transfer() copies the memo, so the
 * memo names the lease of any credit.
 */
CREATE FUNCTION gpucredit_cells.lease_of(memo text) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN substring(memo FROM '^lease ([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$')::uuid;
COMMENT ON FUNCTION gpucredit_cells.lease_of(text) IS
'Internal: the lease that a bucket of this memo belongs to; NULL: none.';

/*
 * Suppresses the alert that a lease's bucket expires, because its unused part
 * is returned to the home.
 */
CREATE FUNCTION gpucredit_cells.skip_alert() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF EXISTS (SELECT FROM gpucredit.bucket b
			JOIN gpucredit_cells.lease_in i ON i.org = b.org
				AND i.lease = gpucredit_cells.lease_of(b.memo)
		WHERE b.org = NEW.org AND b.bucket = NEW.bucket) THEN
		RETURN NULL;
	END IF;
	RETURN NEW;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.skip_alert() IS
'Trigger: no alert that leased credit expires soon.';
CREATE TRIGGER cells_skip_alert BEFORE INSERT ON gpucredit.alert FOR EACH ROW
	WHEN (NEW.kind = 'expiry')
	EXECUTE FUNCTION gpucredit_cells.skip_alert();

/* Reports a refund that is made after the last report. */
CREATE FUNCTION gpucredit_cells.report_refund() RETURNS trigger
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	UPDATE gpucredit_cells.lease_in i SET report_due = true, closed_at = NULL
	FROM gpucredit.hold_part p
		JOIN gpucredit.bucket b ON b.org = p.org AND b.bucket = p.bucket
	WHERE p.org = NEW.org AND p.hold = NEW.hold AND b.org = NEW.org
		AND i.org = NEW.org AND i.lease = gpucredit_cells.lease_of(b.memo);
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.report_refund() IS
'Trigger: a refund of leased credit makes the lease''s next report due.';
/* Only a refund sets this column, so no other statement is slowed down. */
CREATE TRIGGER cells_refund AFTER UPDATE OF refunded ON gpucredit.hold
	FOR EACH ROW EXECUTE FUNCTION gpucredit_cells.report_refund();

CREATE FUNCTION gpucredit_cells.speak_all(cell text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	l gpucredit_cells.lease_in;
BEGIN
	FOR l IN
		SELECT i.* FROM gpucredit_cells.lease_in i
		WHERE i.cell = speak_all.cell AND i.closed_at IS NULL
			AND i.report = i.acked
		ORDER BY i.org, i.lease FOR NO KEY UPDATE SKIP LOCKED
	LOOP
		PERFORM gpucredit_cells.speak(l);
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.speak_all(text) IS
'Internal: writes the reports of leases that changed.';
