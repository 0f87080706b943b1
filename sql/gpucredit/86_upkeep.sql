/* 86_upkeep.sql: repairing running sums, and regular upkeep. */

CREATE TYPE gpucredit.rebuild_result AS (what text, was numeric,
	is_now numeric);
COMMENT ON TYPE gpucredit.rebuild_result IS
'What rebuild() repaired: a figure with its old and new value, or something that has no value.';

/*
 * Corrects the figures of one organisation, whose rows the caller has locked.
 * Each row is changed by one UPDATE, so that no check sees a row that is
 * repaired in part.  A closed hold that turns out to have credit is opened
 * again.  A repaired bucket loses its slices; its next hold spreads it again.
 * Recorded spend is corrected by one more delta, which needs no lock.
 * Differences are computed before they are joined with the rows to change.  In
 * a single query without statistics, as after a restore, the planner would
 * compute them once per row.
 */
CREATE FUNCTION gpucredit_internal.repair(tenant text, parts gpucredit.difference[],
	holds gpucredit.difference[], buckets gpucredit.difference[])
RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	DELETE FROM gpucredit.hold_part p
	USING unnest(repair.parts) AS d
	WHERE p.org = repair.tenant AND d.expected IS NULL
		AND p.hold = d.hold AND p.part = d.part;
	INSERT INTO gpucredit.hold_part AS p (org, hold, part, bucket, drawn,
		held, spent, refunded, returned, lapsed)
	SELECT repair.tenant, d.hold, d.part, d.bucket,
		max(d.expected) FILTER (WHERE d.what = 'drawn'),
		max(d.expected) FILTER (WHERE d.what = 'held'),
		max(d.expected) FILTER (WHERE d.what = 'spent'),
		max(d.expected) FILTER (WHERE d.what = 'refunded'),
		max(d.expected) FILTER (WHERE d.what = 'returned'),
		max(d.expected) FILTER (WHERE d.what = 'lapsed')
	FROM unnest(repair.parts) AS d
	WHERE d.found IS NULL
	GROUP BY d.hold, d.part, d.bucket;
	UPDATE gpucredit.hold_part p
	SET drawn = coalesce(n.drawn, p.drawn), held = coalesce(n.held, p.held),
		spent = coalesce(n.spent, p.spent),
		refunded = coalesce(n.refunded, p.refunded),
		returned = coalesce(n.returned, p.returned),
		lapsed = coalesce(n.lapsed, p.lapsed)
	FROM (SELECT d.hold, d.part,
			max(d.expected) FILTER (WHERE d.what = 'drawn') AS drawn,
			max(d.expected) FILTER (WHERE d.what = 'held') AS held,
			max(d.expected) FILTER (WHERE d.what = 'spent') AS spent,
			max(d.expected) FILTER (WHERE d.what = 'refunded') AS refunded,
			max(d.expected) FILTER (WHERE d.what = 'returned') AS returned,
			max(d.expected) FILTER (WHERE d.what = 'lapsed') AS lapsed
		FROM unnest(repair.parts) AS d
		WHERE d.found IS NOT NULL AND d.expected IS NOT NULL
		GROUP BY d.hold, d.part) n
	WHERE p.org = repair.tenant AND p.hold = n.hold AND p.part = n.part;
	UPDATE gpucredit.hold h
	SET drawn = coalesce(n.drawn, h.drawn), held = coalesce(n.held, h.held),
		captured = coalesce(n.captured, h.captured),
		refunded = coalesce(n.refunded, h.refunded),
		released = coalesce(n.released, h.released),
		lapsed = coalesce(n.lapsed, h.lapsed),
		closed_at = CASE WHEN coalesce(n.held, h.held) > '0' THEN NULL
			ELSE h.closed_at END
	FROM (SELECT d.hold,
			max(d.expected) FILTER (WHERE d.what = 'drawn') AS drawn,
			max(d.expected) FILTER (WHERE d.what = 'held') AS held,
			max(d.expected) FILTER (WHERE d.what = 'captured') AS captured,
			max(d.expected) FILTER (WHERE d.what = 'refunded') AS refunded,
			max(d.expected) FILTER (WHERE d.what = 'released') AS released,
			max(d.expected) FILTER (WHERE d.what = 'lapsed') AS lapsed
		FROM unnest(repair.holds) AS d GROUP BY d.hold) n
	WHERE h.org = repair.tenant AND h.hold = n.hold;
	UPDATE gpucredit.bucket b
	SET issued = coalesce(n.issued, w.issued),
		available = coalesce(n.available, w.available),
		held = coalesce(n.held, w.held), spent = coalesce(n.spent, w.spent),
		expired = coalesce(n.expired, w.expired),
		revoked = coalesce(n.revoked, w.revoked),
		moved = coalesce(n.moved, w.moved), lent = '0', spread = 0,
		credited_total = b.credited_total + greatest(coalesce(n.available, w.available), '0')::numeric
	FROM (SELECT d.bucket,
			max(d.expected) FILTER (WHERE d.what = 'issued') AS issued,
			max(d.expected) FILTER (WHERE d.what = 'available') AS available,
			max(d.expected) FILTER (WHERE d.what = 'held') AS held,
			max(d.expected) FILTER (WHERE d.what = 'spent') AS spent,
			max(d.expected) FILTER (WHERE d.what = 'expired') AS expired,
			max(d.expected) FILTER (WHERE d.what = 'revoked') AS revoked,
			max(d.expected) FILTER (WHERE d.what = 'moved') AS moved
		FROM unnest(repair.buckets) AS d GROUP BY d.bucket) n
		JOIN gpucredit.bucket_whole w ON w.org = repair.tenant
			AND w.bucket = n.bucket
	WHERE b.org = repair.tenant AND b.bucket = n.bucket;
	DELETE FROM gpucredit.bucket_slice s
	USING unnest(repair.buckets) AS d
	WHERE s.org = repair.tenant AND s.bucket = d.bucket;
	UPDATE gpucredit.attempt a SET used = d.expected
	FROM gpucredit_internal.used_difference(repair.tenant, repair.tenant) d
	WHERE a.org = d.org AND a.job = d.job AND a.attempt = d.attempt;
	INSERT INTO gpucredit.account_total AS t (org, account, spent, held, used)
	SELECT d.org, d.account,
		coalesce(sum(d.expected - d.found) FILTER (WHERE d.what = 'spent'), 0),
		coalesce(sum(d.expected - d.found) FILTER (WHERE d.what = 'held'), 0),
		coalesce(sum(d.expected - d.found) FILTER (WHERE d.what = 'used'), 0)
	FROM gpucredit_internal.total_difference(repair.tenant, repair.tenant) d
	GROUP BY d.org, d.account
	ON CONFLICT (org, account) DO UPDATE SET spent = t.spent + excluded.spent,
		held = t.held + excluded.held, used = t.used + excluded.used;
	WITH wrong AS MATERIALIZED (
		SELECT s.* FROM gpucredit_internal.spend_day_difference(repair.tenant, repair.tenant) s)
	UPDATE gpucredit.spend_day t SET spent = coalesce(w.spent, t.spent),
		used = coalesce(w.used, t.used)
	FROM (SELECT w.account, w.day,
			max(w.expected) FILTER (WHERE w.what = 'spent') AS spent,
			max(w.expected) FILTER (WHERE w.what = 'used') AS used
		FROM wrong w GROUP BY w.account, w.day) w
	WHERE t.org = repair.tenant AND t.account = w.account
		AND t.day = w.day;
	INSERT INTO gpucredit.attempt_watch (org, job, attempt, check_at)
	SELECT a.org, a.job, a.attempt, gpucredit.now()
	FROM gpucredit.job j
		JOIN gpucredit.attempt a ON a.org = j.org AND a.job = j.job
			AND a.attempt = j.attempt
	WHERE j.org = repair.tenant AND j.state = 'active' AND a.ended_at IS NULL
	ON CONFLICT DO NOTHING;
END;
COMMENT ON FUNCTION gpucredit_internal.repair(text, gpucredit.difference[],
	gpucredit.difference[], gpucredit.difference[]) IS
'rebuild: writes the figures that were found to be right.';

/*
 * rebuild(): locks the accounts whose limits are wrong, all holds of the
 * organisation, then its buckets in burn order, each with its slices.  It
 * reads the figures after that; rows that are inserted later are right from
 * the start.
 */
CREATE FUNCTION gpucredit.rebuild(org text)
RETURNS SETOF gpucredit.rebuild_result
LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE ROWS 10
SET search_path = pg_catalog, pg_temp
SET jit = off
SET plan_cache_mode = force_custom_plan
SET work_mem = '128MB'
AS $$
DECLARE
	limited text[];
	parts gpucredit.difference[];
	holds gpucredit.difference[];
	buckets gpucredit.difference[];
	r record;
	/* A cursor locks each row when it fetches it. */
	burn_order CURSOR FOR SELECT b.bucket, b.spread FROM gpucredit.bucket b
		WHERE b.org = rebuild.org
		ORDER BY b.priority, b.expires_at, gpucredit_internal.kind_rank(b.kind),
			length(b.account) DESC, b.effective_at, b.bucket
		FOR NO KEY UPDATE;
BEGIN
	PERFORM gpucredit_internal.require_account(rebuild.org, '');
	limited := ARRAY(SELECT d.account
		FROM gpucredit_internal.limits_difference(rebuild.org, rebuild.org) d);
	PERFORM FROM gpucredit.account a
		WHERE a.org = rebuild.org AND a.account = ANY (limited)
		ORDER BY a.account FOR NO KEY UPDATE;
	/* Limits are compared again under the lock. */
	FOR r IN
		WITH wrong AS MATERIALIZED (
			SELECT l.* FROM gpucredit_internal.limits_difference(rebuild.org, rebuild.org) l),
		mended AS (
			UPDATE gpucredit.account a SET limits = d.expected
			FROM wrong d
			WHERE a.org = rebuild.org AND a.account = d.account
				AND d.account = ANY (limited)
			RETURNING d.account, d.found, d.expected)
		SELECT * FROM mended ORDER BY account
	LOOP
		RETURN NEXT ROW(format('account "%s" limits', r.account),
			NULL::numeric, NULL::numeric);
		PERFORM gpucredit_internal.write_audit('rebuild', 'repaired', rebuild.org,
			r.account, NULL, NULL, pg_catalog.jsonb_build_object(
				'what', 'limits', 'was', r.found, 'is_now', r.expected));
	END LOOP;
	/* A concurrent fold would change days that are being repaired. */
	LOCK TABLE gpucredit.account_total IN SHARE UPDATE EXCLUSIVE MODE;
	/*
	 * A call that owns a job's hold may wait for expired holds, so holds of
	 * jobs are locked first.
	 */
	PERFORM FROM gpucredit.hold h WHERE h.org = rebuild.org
		ORDER BY h.job IS NULL, h.hold FOR NO KEY UPDATE;
	FOR b IN burn_order LOOP
		IF b.spread > 0 THEN
			PERFORM FROM gpucredit.bucket_slice s WHERE s.org = rebuild.org
				AND s.bucket = b.bucket
				ORDER BY s.slice FOR NO KEY UPDATE;
		END IF;
	END LOOP;
	parts := ARRAY(SELECT d FROM gpucredit_internal.part_difference(rebuild.org, rebuild.org) d
		WHERE d.sound);
	holds := ARRAY(SELECT d FROM gpucredit_internal.hold_difference(rebuild.org, rebuild.org) d
		WHERE d.sound AND d.found IS NOT NULL);
	buckets := ARRAY(SELECT d FROM gpucredit_internal.bucket_difference(rebuild.org, rebuild.org) d
		WHERE d.sound AND d.found IS NOT NULL);
	FOR r IN
		SELECT d.org, d.bucket, d.hold, d.part, d.what,
			d.found::numeric AS found, d.expected::numeric AS expected,
			NULL AS account
		FROM unnest(buckets || holds || parts) AS d
		UNION ALL
		SELECT s.org, NULL, NULL, NULL, s.what, s.found, s.expected,
			s.account
		FROM gpucredit_internal.total_difference(rebuild.org, rebuild.org) s
		UNION ALL
		SELECT u.org, NULL, NULL, NULL, format('used by job %s attempt %s', u.job,
			u.attempt), u.found::numeric, u.expected::numeric, NULL
		FROM gpucredit_internal.used_difference(rebuild.org, rebuild.org) u
		UNION ALL
		SELECT s.org, NULL, NULL, NULL, format('%s on %s', s.what, s.day),
			s.found, s.expected, s.account
		FROM gpucredit_internal.spend_day_difference(rebuild.org, rebuild.org) s
		ORDER BY account, hold NULLS FIRST, part NULLS FIRST, bucket, what
	LOOP
		RETURN NEXT ROW(concat_ws(' ', 'account "' || r.account || '"',
			'hold ' || r.hold, 'part ' || r.part, 'bucket ' || r.bucket,
			r.what), r.found, r.expected);
		PERFORM gpucredit_internal.write_audit('rebuild', 'repaired', rebuild.org,
			r.account, r.bucket, r.hold,
			pg_catalog.jsonb_build_object('what', r.what, 'part', r.part,
				'was', r.found, 'is_now', r.expected));
	END LOOP;
	PERFORM gpucredit_internal.repair(rebuild.org, parts, holds, buckets);
END
$$;
COMMENT ON FUNCTION gpucredit.rebuild(text) IS
'Upkeep: recomputes an organisation''s running sums from its entries: buckets, holds and their parts, recorded spend. It also recomputes what accounts'' rows say of their budgets and quotas. It repairs what differs, and audits each repair. The organisation''s other calls wait meanwhile.
Result: each figure that differed, in credits, and each account whose limits differed (NULL; the audit log has them); no row if all was right. Negative amounts that the entries themselves cause stay, and verify reports them.
Errors: UC001 no such organisation; 22023.';

CREATE TYPE gpucredit.maintain_result AS (task text, affected bigint);
COMMENT ON TYPE gpucredit.maintain_result IS
'What maintain() did: its tasks, and how many rows each handled.';

/*
 * Adds deltas to the totals.  Only one call at a time does this.  It locks the
 * table in a mode that blocks no reader and no settlement, and a second call
 * does nothing instead of waiting.  Deltas and keys that other transactions
 * have locked are left for the next call.  Each round continues after the last
 * row that the round before has read, so that it does not scan rows that are
 * deleted already.
 */
CREATE FUNCTION gpucredit_internal.fold_spend() RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
	until timestamptz := gpucredit_internal.upkeep_until(0.75);
	most CONSTANT int := 5000;
	place tid := '(0,0)';
	rows tid[];
	orgs text[];
	accounts text[];
	days date[];
	amounts numeric[];
	holds numeric[];
	uses numeric[];
	total bigint := 0;
BEGIN
	BEGIN
		LOCK TABLE gpucredit.account_total IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
	EXCEPTION WHEN lock_not_available THEN
		RETURN 0;
	END;
	LOOP
		rows := ARRAY(SELECT s.ctid FROM gpucredit.account_delta s
			WHERE s.ctid > place LIMIT most FOR UPDATE SKIP LOCKED);
		EXIT WHEN rows = '{}';
		place := rows[cardinality(rows)];
		WITH gone AS (
			DELETE FROM gpucredit.account_delta d WHERE d.ctid = ANY (rows)
			RETURNING d.org, d.account, d.day, d.at, d.spent, d.held, d.used)
		SELECT array_agg(g.org), array_agg(g.account), array_agg(g.day),
			array_agg(g.spent), array_agg(g.held), array_agg(g.used),
			total + coalesce(sum(g.n), 0)
		INTO orgs, accounts, days, amounts, holds, uses, total
		FROM (SELECT g.org, g.account,
				gpucredit_internal.delta_day(g.day, g.at, g.used::numeric) AS day,
				sum(g.spent::numeric) AS spent, sum(g.held::numeric) AS held,
				sum(g.used::numeric) AS used, count(*) AS n
			FROM gone g GROUP BY 1, 2, 3) g;
		INSERT INTO gpucredit.account_total AS t (org, account, spent, held, used)
		SELECT a.org, p.account, sum(a.spent), sum(a.held), sum(a.used)
		FROM unnest(orgs, accounts, amounts, holds, uses)
				AS a (org, account, spent, held, used),
			unnest(gpucredit_internal.account_path(a.account)) AS p (account)
		GROUP BY a.org, p.account
		ON CONFLICT (org, account) DO UPDATE SET spent = t.spent + excluded.spent,
			held = t.held + excluded.held, used = t.used + excluded.used;
		INSERT INTO gpucredit.spend_day AS t (org, account, day, spent, used)
		SELECT a.org, p.account, a.day, sum(a.spent), sum(a.used)
		FROM unnest(orgs, accounts, days, amounts, uses)
				AS a (org, account, day, spent, used),
			unnest(gpucredit_internal.account_path(a.account)) AS p (account)
		WHERE a.day IS NOT NULL
		GROUP BY a.org, p.account, a.day
		ON CONFLICT (org, account, day)
		DO UPDATE SET spent = t.spent + excluded.spent,
			used = t.used + excluded.used;
		EXIT WHEN cardinality(rows) < most OR clock_timestamp() >= until;
	END LOOP;
	RETURN total;
END
$$;
COMMENT ON FUNCTION gpucredit_internal.fold_spend() IS
'upkeep: folds rows of account_delta into the totals and the days of each account on the path, as many as fit gpucredit.upkeep_time; returns how many.';

/* Writes the number of repeated denials to the audit log. */
CREATE FUNCTION gpucredit_internal.fold_denials(most int) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	latest timestamptz := gpucredit.now()
		- pg_catalog.current_setting('gpucredit.denial_window')::interval;
	tenant text COLLATE "C";
	firsts bigint[];
	counts bigint[];
	since timestamptz[];
	until timestamptz[];
	n bigint;
	total bigint := 0;
BEGIN
	FOR tenant IN
		SELECT DISTINCT d.org FROM (SELECT o.org FROM gpucredit.denial o
			WHERE o.at <= latest LIMIT most) d ORDER BY 1
	LOOP
		WITH gone AS (
			DELETE FROM gpucredit.denial d
			WHERE d.org = tenant AND d.ctid = ANY (ARRAY(
				SELECT o.ctid FROM gpucredit.denial o
				WHERE o.org = tenant AND o.at <= latest LIMIT most - total
				FOR UPDATE SKIP LOCKED))
			RETURNING d.audit, d.n, d.at)
		SELECT pg_catalog.array_agg(g.audit), pg_catalog.array_agg(g.n),
			pg_catalog.array_agg(g.first), pg_catalog.array_agg(g.last),
			coalesce(pg_catalog.sum(g.rows), 0)
		INTO firsts, counts, since, until, n
		FROM (SELECT d.audit, sum(d.n) AS n, count(*) AS rows,
				min(d.at) FILTER (WHERE d.n > 0) AS first,
				max(d.at) FILTER (WHERE d.n > 0) AS last
			FROM gone d GROUP BY d.audit) g;
		INSERT INTO gpucredit.audit (org, at, login, actor, operation,
			decision, reason, account, application_name, client_addr, trace,
			detail)
		SELECT a.org, c.last, a.login, a.actor, a.operation, a.decision,
			a.reason, a.account, a.application_name, a.client_addr, a.trace,
			coalesce(a.detail, '{}') - 'key'
				|| jsonb_build_object('repeats', c.n, 'of', a.audit,
					'since', c.first)
		FROM unnest(firsts, counts, since, until)
				AS c (audit, n, first, last)
			JOIN gpucredit.audit a ON a.org = tenant AND a.audit = c.audit
		WHERE c.n > 0
		ORDER BY c.last, a.audit;
		total := total + n;
		EXIT WHEN total >= most;
	END LOOP;
	RETURN total;
END
$$;
COMMENT ON FUNCTION gpucredit_internal.fold_denials(int) IS
'maintain: writes at most so many counts of repeated denials to the audit log; returns how many.';

/*
 * Deletes rows that nothing needs any more.  Spend is kept for two days longer
 * than averages need, because clocks differ.  Directives that were inserted
 * while their attempt was being settled may still exist, and are deleted here.
 */
CREATE FUNCTION gpucredit_internal.forget(most int)
RETURNS SETOF gpucredit.maintain_result
LANGUAGE sql VOLATILE PARALLEL UNSAFE ROWS 3
BEGIN ATOMIC
	WITH days AS (
		DELETE FROM gpucredit.spend_day s
		WHERE s.ctid = ANY (ARRAY(SELECT o.ctid FROM gpucredit.spend_day o
			WHERE o.day < (SELECT gpucredit_internal.utc_day(gpucredit.now()) - 32)
			LIMIT forget.most FOR UPDATE SKIP LOCKED))
		RETURNING 1),
	directives AS (
		DELETE FROM gpucredit.directive d
		WHERE d.ctid = ANY (ARRAY(SELECT o.ctid FROM gpucredit.directive o
				JOIN gpucredit.attempt a ON a.org = o.org AND a.job = o.job
					AND a.attempt = o.attempt
			WHERE a.ended_at IS NOT NULL
			LIMIT forget.most FOR UPDATE OF o SKIP LOCKED))
		RETURNING 1),
	logs AS (
		DELETE FROM gpucredit.log_wish w
		WHERE w.ctid = ANY (ARRAY(SELECT o.ctid FROM gpucredit.log_wish o
			WHERE GREATEST(o.asked_at, o.answered_at)
				<= (SELECT gpucredit.now() - '1 min'::interval)
			LIMIT forget.most FOR UPDATE SKIP LOCKED))
		RETURNING 1)
	SELECT 'forget_days', count(*) FROM days
	UNION ALL
	SELECT 'forget_directives', count(*) FROM directives
	UNION ALL
	SELECT 'forget_logs', count(*) FROM logs;
END;
COMMENT ON FUNCTION gpucredit_internal.forget(int) IS
'maintain: deletes at most so many of each: days of spend older than averages use, directives of ended attempts, requests for output older than a minute. Returns how many.';

/*
 * Deletes expired keys, the oldest first.  Each round begins at the age that
 * the round before has reached.  So does each call, until a call finds less
 * than a round.  The reason is that an index keeps the entries of deleted rows
 * while somebody has an old snapshot, and each round would read all of them
 * again.
 */
CREATE FUNCTION gpucredit_internal.forget_requests(until timestamptz)
RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $$
DECLARE
	most CONSTANT int := 2000;
	before timestamptz := gpucredit.now()
		- current_setting('gpucredit.key_retention')::interval;
	place timestamptz := coalesce((gpucredit_internal.upkeep_position(
		'forget_requests'))[1]::timestamptz, '-infinity');
	latest timestamptz;
	n bigint;
	total bigint := 0;
BEGIN
	LOOP
		WITH gone AS (
			DELETE FROM gpucredit.request r
			WHERE r.ctid = ANY (ARRAY(SELECT o.ctid FROM gpucredit.request o
				WHERE NOT o.lasting AND o.created_at >= place
					AND o.created_at < before
				ORDER BY o.created_at LIMIT most FOR UPDATE SKIP LOCKED))
			RETURNING r.created_at)
		SELECT count(*), max(g.created_at) INTO n, latest FROM gone g;
		total := total + n;
		EXIT WHEN n < most OR clock_timestamp() >= until;
		place := latest;
	END LOOP;
	PERFORM gpucredit_internal.set_upkeep_position('forget_requests',
		CASE WHEN n = most
			THEN ARRAY[gpucredit_internal.instant_text(latest)] END);
	RETURN total;
END
$$;
COMMENT ON FUNCTION gpucredit_internal.forget_requests(timestamptz) IS
'upkeep: deletes keys past gpucredit.key_retention other than those of payments, until an instant of the server''s clock; returns how many.';

/*
 * Removes kept output past its age, then, of organisations that have more than
 * the limit, the oldest.  The index kept_log_age has all that the sums need;
 * what is removed is subtracted from them.
 */
CREATE FUNCTION gpucredit_internal.forget_output(until timestamptz)
RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	most CONSTANT int := 200;	/* a low limit, as pieces are large */
	kept CONSTANT interval := current_setting('gpucredit.log_retention');
	room CONSTANT bigint := pg_size_bytes(current_setting('gpucredit.log_org_max'));
	crowded text;
	excess bigint;	/* bytes that the organisation has above the limit */
	freed bigint;
	n bigint;
	total bigint := 0;
BEGIN
	WHILE kept > '0' LOOP
		DELETE FROM gpucredit.kept_log k
		WHERE k.ctid = ANY (ARRAY(SELECT o.ctid FROM gpucredit.kept_log o
			WHERE o.kept_at <= gpucredit.now() - kept
			ORDER BY o.kept_at LIMIT most FOR UPDATE SKIP LOCKED));
		GET DIAGNOSTICS n = ROW_COUNT;
		total := total + n;
		EXIT WHEN n < most OR clock_timestamp() >= until;
	END LOOP;
	IF room = 0 THEN
		RETURN total;
	END IF;
	FOR crowded, excess IN SELECT k.org, sum(k.bytes) - room
		FROM gpucredit.kept_log k GROUP BY k.org HAVING sum(k.bytes) > room
	LOOP
		WHILE excess > 0 AND clock_timestamp() < until LOOP
			WITH gone AS (
				DELETE FROM gpucredit.kept_log k
				WHERE k.ctid = ANY (ARRAY(SELECT o.ctid
					FROM gpucredit.kept_log o
					WHERE o.ctid = ANY (ARRAY(SELECT s.ctid
						FROM (SELECT l.ctid, sum(l.bytes) OVER (
								ORDER BY l.kept_at, l.ctid) - l.bytes AS before
							FROM (SELECT p.ctid, p.kept_at, p.bytes
								FROM gpucredit.kept_log p WHERE p.org = crowded
								ORDER BY p.kept_at LIMIT most) l) s
						WHERE s.before < excess))
					FOR UPDATE SKIP LOCKED))
				RETURNING k.bytes)
			SELECT count(*), coalesce(sum(g.bytes), 0) INTO n, freed
			FROM gone g;
			total := total + n;
			excess := excess - freed;
			EXIT WHEN n = 0;	/* another session removes them */
		END LOOP;
	END LOOP;
	RETURN total;
END
$$;
COMMENT ON FUNCTION gpucredit_internal.forget_output(timestamptz) IS
'upkeep: removes kept output past gpucredit.log_retention, and the oldest of organisations that have more than gpucredit.log_org_max, until an instant of the server''s clock; returns how many pieces.';

/*
 * Removes which texts the jobs need that are over, and then the texts that no
 * job has needed for an hour.  A text that reserve() or store_file() has locked
 * stays.  Whether a job needs a text is read after the text is locked, by a
 * statement of its own, whose snapshot has what reserve() committed before: so
 * the function does nothing above READ COMMITTED, where a transaction has one
 * snapshot.
 */
CREATE FUNCTION gpucredit_internal.forget_files(most int) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	old tid[];
	n bigint;
	total bigint := 0;
BEGIN
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		RETURN 0;
	END IF;
	DELETE FROM gpucredit.job_file f
	WHERE f.ctid = ANY (ARRAY(SELECT o.ctid FROM gpucredit.job_file o
			JOIN gpucredit.job j ON j.org = o.org AND j.job = o.job
		WHERE j.ended_at IS NOT NULL LIMIT most FOR UPDATE OF o SKIP LOCKED));
	GET DIAGNOSTICS n = ROW_COUNT;
	total := n;
	old := ARRAY(SELECT o.ctid FROM gpucredit.stored_file o
		WHERE o.stored_at <= gpucredit.now() - interval '1 hour'
			AND NOT EXISTS (SELECT FROM gpucredit.job_file k
				WHERE k.org = o.org AND k.account = o.account
					AND k.sha256 = o.sha256)
		ORDER BY o.stored_at LIMIT most FOR UPDATE SKIP LOCKED);
	DELETE FROM gpucredit.stored_file f
	WHERE f.ctid = ANY (old)
		AND NOT EXISTS (SELECT FROM gpucredit.job_file k
			WHERE k.org = f.org AND k.account = f.account
				AND k.sha256 = f.sha256);
	GET DIAGNOSTICS n = ROW_COUNT;
	RETURN total + n;
END
$$;
COMMENT ON FUNCTION gpucredit_internal.forget_files(int) IS
'upkeep: removes up to so many references of jobs that are over to stored texts, and texts that no unfinished job has needed for an hour; returns how many.';

CREATE FUNCTION gpucredit.end_tenant_transactions()
RETURNS SETOF gpucredit.sweep_result
LANGUAGE c VOLATILE SECURITY DEFINER PARALLEL UNSAFE ROWS 1
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_end_tenant_transactions';
COMMENT ON FUNCTION gpucredit.end_tenant_transactions() IS
'Upkeep: ends sessions of tenants'' logins whose transaction in this database is open for longer than gpucredit.tenant_transaction_max, or has kept another that is no tenant''s waiting for longer than gpucredit.tenant_block_max. It audits and logs each. It spares superusers, members of another role of gpucredit, and logins that take on a tenant''s role by SET ROLE only. The upkeep worker calls it every 5 s; install_jobs() schedules it, and maintain() calls it too.
Result: end_tenant_transactions, how many.';

/*
 * Expired keys get two thirds of the time, because every call adds a key.  The
 * other rows are deleted a number at a time, until there are fewer, or
 * gpucredit.upkeep_time has passed.
 */
CREATE FUNCTION gpucredit_internal.forget_rows()
RETURNS SETOF gpucredit.maintain_result
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE ROWS 5
AS $$
DECLARE
	until timestamptz := gpucredit_internal.upkeep_until(0.75);
	most CONSTANT int := 2000;
	tasks text[];
	counts bigint[];
	total bigint[];
	keys CONSTANT bigint := gpucredit_internal.forget_requests(
		gpucredit_internal.upkeep_until(0.5));
	output CONSTANT bigint := gpucredit_internal.forget_output(
		gpucredit_internal.upkeep_until(0.6));
	files CONSTANT bigint := gpucredit_internal.forget_files(200);
BEGIN
	LOOP
		SELECT array_agg(f.task), array_agg(f.affected) INTO tasks, counts
		FROM gpucredit_internal.forget(most) f;
		total := ARRAY(SELECT c.n + coalesce(t.n, 0)
			FROM unnest(counts) WITH ORDINALITY AS c (n, i)
				LEFT JOIN unnest(total) WITH ORDINALITY AS t (n, i) USING (i)
			ORDER BY i);
		EXIT WHEN most > ALL (counts) OR clock_timestamp() >= until;
	END LOOP;
	RETURN QUERY SELECT u.task, u.n
		FROM unnest(tasks[:1] || 'forget_requests'::text || tasks[2:]
				|| 'forget_output'::text || 'forget_files'::text,
			total[:1] || keys || total[2:] || output || files) AS u (task, n);
END
$$;
COMMENT ON FUNCTION gpucredit_internal.forget_rows() IS
'upkeep: deletes rows that nothing reads any more, for gpucredit.upkeep_time at most; returns how many of each kind.';

/*
 * Runs a task whose function returns how many rows it handled, until it
 * handles none or half of gpucredit.upkeep_time has passed.
 */
CREATE FUNCTION gpucredit_internal.upkeep_rows(task text) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	until timestamptz := gpucredit_internal.upkeep_until(0.5);
	n bigint;
	total bigint := 0;
BEGIN
	LOOP
		n := CASE task
			WHEN 'fold_denials' THEN gpucredit_internal.fold_denials(2000)
			WHEN 'forget_usage' THEN gpucredit_internal.forget_usage(2000)
			WHEN 'number_events' THEN gpucredit_internal.number_events(2000)
			WHEN 'forget_events' THEN gpucredit_internal.forget_events(2000)
			WHEN 'depart_entries' THEN gpucredit_internal.archive('entry', 4)
			WHEN 'depart_audits' THEN gpucredit_internal.archive('audit', 4)
			END;
		total := total + n;
		EXIT WHEN n = 0 OR clock_timestamp() >= until;
	END LOOP;
	RETURN total;
END
$$;
COMMENT ON FUNCTION gpucredit_internal.upkeep_rows(text) IS
'upkeep: does fold_denials, forget_usage, number_events, forget_events, depart_entries or depart_audits, for gpucredit.upkeep_time at most; returns how many rows it handled.';

/* The tasks of upkeep(), in the order in which maintain() calls them. */
CREATE FUNCTION gpucredit_internal.upkeep_tasks() RETURNS text[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT '{fold_spend,raise_alerts,fold_denials,forget,forget_usage,number_events,forget_events,depart_entries,depart_audits}'::text[];
END;
COMMENT ON FUNCTION gpucredit_internal.upkeep_tasks() IS
'upkeep: its tasks.';

CREATE FUNCTION gpucredit.upkeep(task text)
RETURNS SETOF gpucredit.maintain_result
LANGUAGE plpgsql VOLATILE SECURITY DEFINER PARALLEL UNSAFE ROWS 4
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
BEGIN
	IF task IS NULL OR task <> ALL (gpucredit_internal.upkeep_tasks()) THEN
		RAISE EXCEPTION 'there is no task of upkeep %',
				coalesce('"' || gpucredit_internal.clip_for_message(task) || '"', 'NULL')
			USING ERRCODE = 'invalid_parameter_value',
			DETAIL = 'Each task of upkeep is called by its name.',
			HINT = 'The tasks are: ' || array_to_string(
				gpucredit_internal.upkeep_tasks(), ', ') || '.';
	END IF;
	IF task = 'forget' THEN
		RETURN QUERY SELECT f.task, f.affected
			FROM gpucredit_internal.forget_rows() f;
		RETURN;
	END IF;
	RETURN NEXT ROW(task, CASE task
		WHEN 'fold_spend' THEN gpucredit_internal.fold_spend()
		WHEN 'raise_alerts' THEN gpucredit_internal.raise_alerts()
		ELSE gpucredit_internal.upkeep_rows(task) END);
END
$$;
COMMENT ON FUNCTION gpucredit.upkeep(text) IS
'Upkeep: does one task, for gpucredit.upkeep_time at most; the next call resumes where it stopped. It waits for nobody, and two calls at once do no harm. install_jobs() schedules each task.
task: fold_spend (adds settled spend to the totals), raise_alerts (those that no call has raised), fold_denials (audits how often the same was denied), forget (deletes old days of spend, keys past gpucredit.key_retention other than those of payments, directives of ended attempts, old requests for output, kept output past gpucredit.log_retention or gpucredit.log_org_max, and stored texts that no job needs), number_events (moves committed events into the feed), forget_usage, forget_events, depart_entries, depart_audits (remove usage rows, events, entries and audit rows past their retention, not above READ COMMITTED).
Result: each part of the task, and how many rows it handled.
Errors: 22023 no such task.';

CREATE FUNCTION gpucredit.maintain()
RETURNS SETOF gpucredit.maintain_result
LANGUAGE sql VOLATILE SECURITY DEFINER PARALLEL UNSAFE ROWS 11
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT u.*
	FROM unnest(gpucredit_internal.upkeep_tasks()) WITH ORDINALITY AS t (task, i)
		CROSS JOIN LATERAL gpucredit.upkeep(t.task) u
	UNION ALL
	SELECT * FROM gpucredit.end_tenant_transactions();
END;
COMMENT ON FUNCTION gpucredit.maintain() IS
'Upkeep: calls upkeep() for each task in turn, in one transaction, then ends tenants'' transactions that are open too long. Where there is much to do, call the tasks one by one instead, as install_jobs() has pg_cron do: the call is as long as all of them together. It waits for nobody.
Result: each task, and how many rows it handled.';
