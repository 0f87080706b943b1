/*
 * 21_lease_home.sql: the end of a lease at home.
 *
 * Locks: the lease's row, then those of the calls of gpucredit that follow.
 * These calls use random keys, which nobody can guess and use first; the
 * lease's row records what was done.
 */
CREATE TYPE gpucredit_cells.lease_result AS (lease uuid, status text,
	reason text, amount numeric, expires_at timestamptz, replayed boolean);
COMMENT ON TYPE gpucredit_cells.lease_result IS
'What lease() granted, or why it did not.';

CREATE FUNCTION gpucredit_cells.home_credit_of(org text, account text)
RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT jsonb_build_object('spendable', b.spendable, 'at', gpucredit.now())
	FROM gpucredit.balance(home_credit_of.org, home_credit_of.account) b;
END;
COMMENT ON FUNCTION gpucredit_cells.home_credit_of(text, text) IS
'Internal: what an account could lease, for the cell that spends.';

/*
 * Posts a grant. A grant that is sent again also contains what the home knows
 * by now.
 */
CREATE FUNCTION gpucredit_cells.post_grant(o gpucredit_cells.lease_out)
RETURNS void
LANGUAGE sql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT gpucredit_cells.post(o.cell, o.org, o.lease, 'grant', 0,
		jsonb_build_object('account', o.account, 'amount', o.amount,
			'expires_at', o.expires_at, 'parts', o.parts,
			'report', o.report, 'spent', o.spent,
			'epoch', coalesce((SELECT r.epoch FROM gpucredit_cells.resident r
				WHERE r.org = o.org), 0),
			'home', gpucredit_cells.home_credit_of(o.org, o.account)));
END;
COMMENT ON FUNCTION gpucredit_cells.post_grant(gpucredit_cells.lease_out) IS
'Internal: sends a lease to the cell that spends it.';

CREATE FUNCTION gpucredit_cells.lease(org text, account text, cell text,
	key text, amount numeric, ttl interval)
RETURNS gpucredit_cells.lease_result
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET gpucredit.key_space = 'gpucredit_cells'
AS $$
DECLARE
	skew CONSTANT interval := gpucredit_cells.clock_skew();
	asked gpucredit.hold_result;
	made gpucredit_cells.lease_out;
	lasts timestamptz;
BEGIN
	PERFORM gpucredit_cells.require_peer(lease.cell);
	IF gpucredit_cells.standing(lease.org) = 'guest' THEN
		RAISE EXCEPTION 'organisation "%" is a guest here',
			gpucredit_internal.clip_for_message(lease.org)
			USING ERRCODE = 'UC715',
			DETAIL = 'Its credit here is leased from its home.',
			HINT = 'Call lease() there.';
	END IF;
	PERFORM gpucredit_internal.require_sense('ttl', lease.ttl::text,
		lease.ttl > 4 * skew AND lease.ttl <= '3650 days',
		'is no time that a lease lasts',
		'Pass more than four times gpucredit.clock_skew, at most 3650 days.');
	/* The hold ends with the lease's last report, not by the clock. */
	asked := gpucredit_internal.hold_leased(lease.org, lease.account, lease.key, lease.amount,
		lease.ttl + '36500 days');
	IF asked.replayed THEN
		SELECT o.* INTO made FROM gpucredit_cells.lease_out o
		WHERE o.org = lease.org AND o.key = lease.key
		ORDER BY o.made_at DESC LIMIT 1;
		IF NOT FOUND OR made.cell <> lease.cell THEN
			RAISE EXCEPTION 'key "%" was used with other arguments',
				gpucredit_internal.clip_for_message(lease.key)
				USING ERRCODE = 'UC201',
				DETAIL = 'It was no lease in that cell.',
				HINT = 'Pass a new key for another intention.';
		END IF;
		RETURN (made.lease, made.status, made.reason,
			CASE made.status WHEN 'granted' THEN made.amount ELSE 0 END,
			made.expires_at, true);
	END IF;

	made.org := lease.org;
	made.lease := gen_random_uuid();
	made.key := lease.key;
	made.account := lease.account;
	made.cell := lease.cell;
	made.amount := lease.amount;
	made.ttl := lease.ttl;
	made.status := asked.status;
	made.reason := asked.reason;
	made.made_at := gpucredit.now();
	made.used_at := coalesce((SELECT max(o.used_at)
		FROM gpucredit_cells.lease_out o
		WHERE o.cell = lease.cell AND o.org = lease.org
			AND o.account = lease.account AND o.closed_at IS NULL),
		made.made_at);			/* renewing the hold would not help */
	made.report := 0;
	made.spent := 0; made.returned := 0; made.captured := 0;
	made.given_back := 0; made.held := 0; made.available := lease.amount;
	made.parts := '[]';
	made.holds := '{}';
	IF made.status = 'granted' THEN
		SELECT least(made.made_at + lease.ttl, min(b.expires_at) - skew),
			jsonb_agg(jsonb_build_object('amount', p.held, 'kind', b.kind,
				'priority', b.priority, 'policy', b.policy) ORDER BY p.part)
		INTO lasts, made.parts
		FROM gpucredit.hold_part p
			JOIN gpucredit.bucket b ON b.org = p.org AND b.bucket = p.bucket
		WHERE p.org = lease.org AND p.hold = asked.hold;
		IF lasts > made.made_at + 2 * skew THEN
			made.expires_at := lasts;
			made.holds := ARRAY[asked.hold];
		ELSE
			PERFORM gpucredit.release(lease.org, asked.hold,
				gen_random_uuid()::text);
			made.status := 'denied';
			made.reason := 'expires_too_soon';
		END IF;
	END IF;
	IF made.status = 'denied' THEN
		made.closed_at := made.made_at;
		made.available := 0;
	END IF;
	INSERT INTO gpucredit_cells.lease_out SELECT made.*;
	IF made.status = 'granted' THEN
		PERFORM gpucredit_cells.post_grant(made);
	END IF;
	RETURN (made.lease, made.status, made.reason,
		CASE made.status WHEN 'granted' THEN made.amount ELSE 0 END,
		made.expires_at, false);
END
$$;
COMMENT ON FUNCTION gpucredit_cells.lease(text, text, text, text, numeric,
	interval) IS
'Leases: holds credit here, in the organisation''s home, for the account to spend in another cell. carry() takes it there.
amount: credits, above 0. ttl: how long it may be reserved there; it ends before any bucket that it comes from, and a running job goes on after it.
Result: status granted, or denied with reason insufficient_credits, budget_exceeded, account_suspended or expires_too_soon (amount 0): a bucket that would have to give ends within three times gpucredit.clock_skew.
Errors: UC001 no such account; UC201 key used with other arguments; UC202 rate limited; UC701 the home is elsewhere; UC712 no such cell, or this one; UC715 the organisation is a guest here; 22003; 22023.';

/*
 * Returns what the home still holds for a lease, in its last hold, or NULL if
 * none is open.
 */
CREATE FUNCTION gpucredit_cells.held_for(o gpucredit_cells.lease_out)
RETURNS numeric
LANGUAGE sql STABLE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT h.held::numeric FROM gpucredit.hold h
	WHERE h.org = o.org AND h.hold = o.holds[cardinality(o.holds)]
		AND h.closed_at IS NULL;
END;
COMMENT ON FUNCTION gpucredit_cells.held_for(gpucredit_cells.lease_out) IS
'Internal: what home holds for a lease; NULL: its hold is closed, or it has none.';

/*
 * Opens a hold for a lease without one, because its cell was restored, or the
 * lease was written off.
 */
CREATE FUNCTION gpucredit_cells.back_lease(o gpucredit_cells.lease_out,
	amount numeric) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET gpucredit.key_space = 'gpucredit_cells'
AS $$
DECLARE
	got gpucredit.hold_result;
BEGIN
	IF back_lease.amount <= 0
		OR (SELECT b.spendable < back_lease.amount
			FROM gpucredit.balance(o.org, o.account) b) THEN
		RETURN NULL;
	END IF;
	got := gpucredit_internal.hold_leased(o.org, o.account, gen_random_uuid()::text,
		back_lease.amount, '36500 days');
	RETURN got.hold;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.back_lease(gpucredit_cells.lease_out,
	numeric) IS
'Internal: a new hold behind a lease; NULL: credit is lacking.';

/* Captures spending that the home did not know of. */
CREATE FUNCTION gpucredit_cells.capture_lease(
	INOUT o gpucredit_cells.lease_out, amount numeric)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET gpucredit.key_space = 'gpucredit_cells'
AS $$
DECLARE
	there CONSTANT numeric := gpucredit_cells.held_for(o);
	rest numeric := capture_lease.amount;
	late bigint;
	result gpucredit.capture_result;
BEGIN
	IF there IS NOT NULL THEN
		/*
		 * First capture the leased credit, then an overrun, because budgets
		 * count them differently.
		 */
		IF capture_lease.amount > there AND there > 0 THEN
			PERFORM gpucredit.capture(o.org, o.holds[cardinality(o.holds)],
				gen_random_uuid()::text, there, false);
			rest := rest - there;
		END IF;
		result := gpucredit.capture(o.org, o.holds[cardinality(o.holds)],
			gen_random_uuid()::text, rest, false, capture_lease.amount > there);
		IF result.uncollected > 0 THEN
			PERFORM gpucredit_cells.note(o.org, o.lease, 'uncollected',
				result.uncollected, 'More was spent there than was leased.');
		END IF;
		o.captured := o.captured + capture_lease.amount;
	ELSE
		late := gpucredit_cells.back_lease(o, capture_lease.amount);
		IF late IS NOT NULL THEN
			o.holds := o.holds || late;
			UPDATE gpucredit_cells.lease_out l SET holds = o.holds
			WHERE l.org = o.org AND l.lease = o.lease;
			PERFORM gpucredit.capture(o.org, late, gen_random_uuid()::text,
				capture_lease.amount);
			o.captured := o.captured + capture_lease.amount;
			PERFORM gpucredit_cells.note(o.org, o.lease, 'late',
				capture_lease.amount, 'It was spent there, and told after the lease had ended here.');
		END IF;
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.capture_lease(gpucredit_cells.lease_out,
	numeric) IS
'Internal: captures what was spent of a lease; where no credit covers it yet, the lease stays as it is.';

/*
 * Refunds spending that was refunded in the other cell and has lapsed there
 * since.
 */
CREATE FUNCTION gpucredit_cells.refund_lease(
	INOUT o gpucredit_cells.lease_out, amount numeric)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET gpucredit.key_space = 'gpucredit_cells'
AS $$
DECLARE
	rest numeric := refund_lease.amount;
	one record;
BEGIN
	FOR one IN
		SELECT h.hold, least(h.captured::numeric, rest) AS part
		FROM gpucredit.hold h
		WHERE h.org = o.org AND h.hold = ANY (o.holds)
			AND h.captured::numeric > 0
		ORDER BY h.hold DESC
	LOOP
		one.part := least(one.part, rest);
		CONTINUE WHEN one.part <= 0;
		PERFORM gpucredit.refund_hold(o.org, one.hold,
			gen_random_uuid()::text, one.part, 'refunded in cell ' || o.cell);
		rest := rest - one.part;
	END LOOP;
	o.captured := o.captured - (refund_lease.amount - rest);
	o.given_back := o.given_back + (refund_lease.amount - rest);
END
$$;
COMMENT ON FUNCTION gpucredit_cells.refund_lease(gpucredit_cells.lease_out,
	numeric) IS
'Internal: refunds what a lease had captured.';

/*
 * Applies a report: captures what was spent. For credit that can no longer be
 * spent in the other cell, it first refunds what was captured too much, then
 * releases from the hold. The caller has locked the row.
 */
CREATE FUNCTION gpucredit_cells.apply_report(
	INOUT o gpucredit_cells.lease_out)
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
SET gpucredit.key_space = 'gpucredit_cells'
AS $$
DECLARE
	rest numeric;
	part numeric;
BEGIN
	UPDATE gpucredit_cells.lease_out l SET working = pg_current_xact_id()
	WHERE l.org = o.org AND l.lease = o.lease;
	IF o.holds = '{}' AND o.closed_at IS NULL THEN
		o.given_back := o.returned;
		part := gpucredit_cells.back_lease(o, o.amount - o.returned);
		IF part IS NOT NULL THEN
			o.holds := ARRAY[part::bigint];
			UPDATE gpucredit_cells.lease_out l SET holds = o.holds
			WHERE l.org = o.org AND l.lease = o.lease;
			PERFORM gpucredit_cells.note(o.org, o.lease, 'adopted',
				o.amount - o.returned, 'This cell did not know the lease, as it was restored. It holds the credit now.');
		END IF;
	END IF;

	IF o.spent > o.captured THEN
		o := gpucredit_cells.capture_lease(o, o.spent - o.captured);
	END IF;
	rest := o.returned - o.given_back;
	part := least(rest, o.captured - o.spent);
	IF part > 0 THEN
		o := gpucredit_cells.refund_lease(o, part);
		rest := o.returned - o.given_back;
	END IF;
	part := least(rest, gpucredit_cells.held_for(o));
	IF rest > 0 AND part > 0 THEN
		PERFORM gpucredit.release(o.org, o.holds[cardinality(o.holds)],
			gen_random_uuid()::text, part);
		o.given_back := o.given_back + part;
	END IF;
	IF o.spent + o.returned >= o.amount AND o.captured >= o.spent THEN
		part := gpucredit_cells.held_for(o);
		IF part IS NOT NULL THEN
			PERFORM gpucredit.release(o.org, o.holds[cardinality(o.holds)],
				gen_random_uuid()::text);
			o.given_back := o.given_back + part;
		END IF;
		o.closed_at := coalesce(o.closed_at, gpucredit.now());
	ELSIF o.written_off_at IS NULL THEN
		o.closed_at := NULL;
	END IF;
	o.working := NULL;
	UPDATE gpucredit_cells.lease_out l
	SET report = o.report, spent = o.spent, returned = o.returned,
		captured = o.captured, given_back = o.given_back,
		available = o.available, held = o.held, heard_at = o.heard_at,
		used_at = o.used_at, closed_at = o.closed_at,
		written_off_at = o.written_off_at, working = NULL
	WHERE l.org = o.org AND l.lease = o.lease;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.apply_report(gpucredit_cells.lease_out) IS
'Internal: captures, refunds and releases what the last report of a lease says, and closes it after the last one.';

/*
 * Adds a lease that only the other cell has, because this cell was restored.
 */
CREATE FUNCTION gpucredit_cells.adopt(m jsonb)
RETURNS gpucredit_cells.lease_out
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	result gpucredit_cells.lease_out;
BEGIN
	PERFORM gpucredit_internal.require_account(m->>'org', m->>'account');
	INSERT INTO gpucredit_cells.lease_out AS o (org, lease, key, account,
		cell, amount, ttl, status, expires_at, made_at, used_at)
	VALUES (m->>'org', (m->>'lease')::uuid, m->>'lease',
		m->>'account', m->>'from', (m->>'amount')::numeric,
		'0', 'granted', (m->>'expires_at')::timestamptz, gpucredit.now(),
		gpucredit.now())
	RETURNING o.* INTO result;
	RETURN result;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.adopt(jsonb) IS
'Internal: a row for a lease that this cell granted before it was restored.';

/*
 * Handles the other cell's report of a lease, and returns what is known here.
 */
CREATE FUNCTION gpucredit_cells.accept_report(m jsonb) RETURNS jsonb
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	o gpucredit_cells.lease_out;
	was numeric;
BEGIN
	SELECT l.* INTO o FROM gpucredit_cells.lease_out l
	WHERE l.org = m->>'org' AND l.lease = (m->>'lease')::uuid
	FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		o := gpucredit_cells.adopt(m);
	ELSIF o.cell <> m->>'from' OR o.amount <> (m->>'amount')::numeric
		OR o.status <> 'granted' THEN
		RAISE EXCEPTION 'lease % has other terms here', o.lease
			USING ERRCODE = 'UC713',
			DETAIL = format('Here it is a lease of %s credits to cell "%s".',
				o.amount, o.cell),
			HINT = 'Compare both ends with gpucredit_cells.verify_cells().';
	END IF;
	IF (m->>'n')::bigint > o.report THEN
		was := o.spent + o.held;
		o.report := (m->>'n')::bigint;
		o.spent := (m->>'spent')::numeric;
		o.returned := (m->>'returned')::numeric;
		o.available := (m->>'available')::numeric;
		o.held := (m->>'held')::numeric;
		o.heard_at := gpucredit.now();
		IF o.spent + o.held <> was THEN
			o.used_at := o.heard_at;
		END IF;
		o := gpucredit_cells.apply_report(o);
		IF o.holds = '{}' AND o.closed_at IS NULL AND o.report = 1 THEN
			PERFORM gpucredit_cells.note(o.org, o.lease, 'unbacked',
				o.amount - o.returned, 'This cell did not know the lease, as it was restored, and lacks the credit for it.');
		END IF;
	ELSIF (m->>'n')::bigint = o.report THEN
		/*
		 * The other cell repeats its report on request; top_up() waits for
		 * that again.
		 */
		UPDATE gpucredit_cells.lease_out l SET heard_at = gpucredit.now()
		WHERE l.org = o.org AND l.lease = o.lease;
	END IF;
	RETURN jsonb_build_object('org', o.org, 'lease', o.lease,
		'report', o.report, 'spent', o.spent, 'returned', o.returned,
		'backed', o.holds <> '{}' OR o.closed_at IS NOT NULL,
		'home', gpucredit_cells.home_credit_of(o.org, o.account));
END
$$;
COMMENT ON FUNCTION gpucredit_cells.accept_report(jsonb) IS
'Internal: takes the other cell''s report of a lease, unless a later one was taken.
Errors: UC713 the lease has other terms here.';

CREATE FUNCTION gpucredit_cells.require_lease(org text, lease uuid)
RETURNS gpucredit_cells.lease_out
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	result gpucredit_cells.lease_out;
BEGIN
	PERFORM gpucredit_internal.require_account(require_lease.org, '');
	SELECT o.* INTO result FROM gpucredit_cells.lease_out o
	WHERE o.org = require_lease.org AND o.lease = require_lease.lease
		AND o.status = 'granted'
	FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'lease % does not exist', require_lease.lease
			USING ERRCODE = 'UC712',
			DETAIL = 'The organisation granted none of that name here.',
			HINT = 'Look at gpucredit_cells.lease_out.';
	END IF;
	RETURN result;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.require_lease(text, uuid) IS
'Internal: locks a lease of this home; UC712 where there is none.';
CREATE FUNCTION gpucredit_cells.recall(org text, lease uuid) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	o gpucredit_cells.lease_out;
BEGIN
	o := gpucredit_cells.require_lease(recall.org, recall.lease);
	IF o.closed_at IS NULL THEN
		PERFORM gpucredit_cells.post(o.cell, o.org, o.lease, 'recall', 0, '{}');
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.recall(text, uuid) IS
'Leases: takes back the unused part of a lease. The other cell revokes it when the message comes; what is held there comes when it is settled. Call it as often as you like.
Errors: UC001 no such organisation; UC712 no such lease.';

CREATE FUNCTION gpucredit_cells.write_off(org text, lease uuid,
	spent numeric, reason text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	o gpucredit_cells.lease_out;
	told gpucredit_cells.lease_out;
BEGIN
	o := gpucredit_cells.require_lease(write_off.org, write_off.lease);
	PERFORM gpucredit_internal.require_sense('reason', write_off.reason,
		octet_length(write_off.reason) BETWEEN 1 AND 8192,
		'has no text, or too much', 'Say why, in at most 8 kB.');
	PERFORM gpucredit_internal.require_sense('spent', write_off.spent::text,
		write_off.spent BETWEEN o.spent AND o.amount
			AND scale(trim_scale(write_off.spent)) <= 6,
		'is not between what is known to be spent and the lease''s amount',
		format('Pass %s to %s.', o.spent, o.amount));
	IF o.closed_at IS NOT NULL THEN
		RETURN;
	ELSIF o.expires_at + gpucredit_cells.clock_skew() >= gpucredit.now() THEN
		RAISE EXCEPTION 'lease % may still be spent', o.lease
			USING ERRCODE = 'UC714',
			DETAIL = format('It ends at %s.', o.expires_at),
			HINT = 'Wait until then, or call gpucredit_cells.recall().';
	END IF;
	told := o;
	o.spent := write_off.spent;
	o.returned := o.amount - o.spent;
	o.written_off_at := gpucredit.now();
	o := gpucredit_cells.apply_report(o);
	/* The last report is kept unchanged, because the cell may repeat it. */
	UPDATE gpucredit_cells.lease_out l
	SET spent = told.spent, returned = told.returned
	WHERE l.org = o.org AND l.lease = o.lease;
	PERFORM gpucredit_cells.note(o.org, o.lease, 'written_off',
		o.amount - o.spent, write_off.reason);
END
$$;
COMMENT ON FUNCTION gpucredit_cells.write_off(text, uuid, numeric, text) IS
'Leases: ends a lease whose cell is lost for good, at what it has spent as far as you know; the rest goes back. If the cell comes back after all and has spent more, that is captured from what there is.
Errors: UC001; UC712 no such lease; UC714 it may still be spent; 22023.';

CREATE FUNCTION gpucredit_cells.set_lease_policy(org text, account text,
	cell text, minimum numeric, target numeric DEFAULT NULL,
	ttl interval DEFAULT '1 hour') RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_internal.require_account(set_lease_policy.org,
		set_lease_policy.account);
	PERFORM gpucredit_cells.require_peer(set_lease_policy.cell);
	IF set_lease_policy.minimum IS NULL THEN
		DELETE FROM gpucredit_cells.lease_policy p
		WHERE p.org = set_lease_policy.org
			AND p.account = set_lease_policy.account
			AND p.cell = set_lease_policy.cell;
		PERFORM gpucredit_cells.recall(o.org, o.lease)
		FROM gpucredit_cells.lease_out o
		WHERE o.cell = set_lease_policy.cell AND o.org = set_lease_policy.org
			AND o.account = set_lease_policy.account AND o.closed_at IS NULL;
		RETURN;
	END IF;
	PERFORM gpucredit_internal.require_sense('minimum',
		set_lease_policy.minimum::text,
		set_lease_policy.minimum > 0 AND set_lease_policy.minimum < 1e12
			AND scale(trim_scale(set_lease_policy.minimum)) <= 6,
		'is no amount of credits', 'Pass credits above 0, or NULL for no policy.');
	PERFORM gpucredit_internal.require_sense('target',
		set_lease_policy.target::text,
		set_lease_policy.target >= set_lease_policy.minimum
			AND set_lease_policy.target < 1e12
			AND scale(trim_scale(set_lease_policy.target)) <= 6,
		'is less than "minimum", or no amount', 'Pass what it is topped up to.');
	PERFORM gpucredit_internal.require_sense('ttl',
		set_lease_policy.ttl::text,
		set_lease_policy.ttl > 4 * gpucredit_cells.clock_skew()
			AND set_lease_policy.ttl <= '3650 days',
		'is no time that a lease lasts',
		'Pass more than four times gpucredit.clock_skew, at most 3650 days.');
	INSERT INTO gpucredit_cells.lease_policy AS p (org, account, cell, minimum,
		target, ttl)
	VALUES (set_lease_policy.org, set_lease_policy.account,
		set_lease_policy.cell, set_lease_policy.minimum,
		set_lease_policy.target, set_lease_policy.ttl)
	ON CONFLICT ON CONSTRAINT lease_policy_pkey DO UPDATE
	SET minimum = excluded.minimum, target = excluded.target, ttl = excluded.ttl;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.set_lease_policy(text, text, text,
	numeric, numeric, interval) IS
'Leases: keeps an account able to spend in another cell. carry() leases up to target when less than minimum is there and lasts for a quarter of ttl; for an account that used nothing for a ttl only up to minimum, so that the rest drains home as leases end.
minimum NULL: no policy any more; what is unused is recalled. ttl: of each lease.
Errors: UC001 no such account; UC712 no such cell; 22023.';

/*
 * Makes the leases that policies require, and requests reports on leases that
 * have ended. carry() calls it.
 */
CREATE FUNCTION gpucredit_cells.top_up(cell text) RETURNS void
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	now CONSTANT timestamptz := gpucredit.now();
	p record;
	o gpucredit_cells.lease_out;
	spendable numeric;
BEGIN
	FOR o IN
		SELECT l.* FROM gpucredit_cells.lease_out l
		WHERE l.cell = top_up.cell AND l.closed_at IS NULL
			AND (l.holds = '{}' OR l.spent > l.captured)
		ORDER BY l.org, l.lease FOR NO KEY UPDATE SKIP LOCKED
	LOOP
		PERFORM gpucredit_cells.apply_report(o);
	END LOOP;
	/* Request a report on a lease that has ended and has sent none. */
	PERFORM gpucredit_cells.post_grant(l)
	FROM gpucredit_cells.lease_out l
	WHERE l.cell = top_up.cell AND l.closed_at IS NULL
		AND l.expires_at + gpucredit_cells.clock_skew() < now
		AND l.heard_at < now - interval '1 minute';

	FOR p IN
		SELECT q.org, q.account, q.ttl, q.minimum,
			CASE WHEN f.used_at <= now - q.ttl THEN q.minimum ELSE q.target END
				- coalesce(f.there, 0) AS missing
		FROM gpucredit_cells.lease_policy q CROSS JOIN LATERAL (
			SELECT sum(l.available) FILTER (WHERE l.closed_at IS NULL
					AND l.expires_at - now
						> least(q.ttl, l.expires_at - l.made_at) / 4) AS there,
				max(l.used_at) AS used_at
			FROM gpucredit_cells.lease_out l
			WHERE l.cell = q.cell AND l.org = q.org
				AND l.account = q.account AND l.status = 'granted'
				AND (l.closed_at IS NULL OR l.used_at > now - q.ttl)) f
		WHERE q.cell = top_up.cell AND coalesce(f.there, 0) < q.minimum
		ORDER BY q.org, q.account
	LOOP
		SELECT b.spendable INTO spendable
		FROM gpucredit.balance(p.org, p.account) b;
		IF least(p.missing, spendable) > 0 THEN
			PERFORM gpucredit_cells.lease(p.org, p.account, top_up.cell,
				'lease/' || gen_random_uuid(), least(p.missing, spendable),
				p.ttl);
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_cells.top_up(text) IS
'Internal: leases what policies want in another cell, and asks after leases that are over.';
