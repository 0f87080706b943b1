/*
 * 80_observe.sql: the present state, and its history.
 *
 * Everything here only reads, and one call uses one snapshot and one instant.
 * Credit moves by time alone, whether or not a sweep has booked it.  A bucket
 * is active in [effective_at, expires_at) until it is closed.  A hold without
 * a job is dead from the end of its ttl on, and its credit counts as available
 * in its buckets again.
 *
 * In comments, the path of an account is the account and all accounts above
 * it, whose buckets it may spend.  "Below" includes the account itself and all
 * accounts below it.
 */
CREATE FUNCTION gpucredit_internal.account_path(account text) RETURNS text[]
LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_account_path';
COMMENT ON FUNCTION gpucredit_internal.account_path(text) IS
'An account and its ancestors: the account first, the organisation ('''') last.';

/*
 * Whether an account is `top` or below it.  Each branch of the condition is a
 * range of an index on (org, account), and is empty if it does not apply; '0'
 * is the character after '/'.  The result is true or NULL, never false, so it
 * must be negated with IS NOT TRUE.
 */
CREATE FUNCTION gpucredit_internal.is_below(account text, top text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT account = top COLLATE "C"
		OR (account > (top || '/') COLLATE "C"
			AND account < (top || '0') COLLATE "C")
		OR account > (CASE WHEN top = '' THEN '' END) COLLATE "C";
END;
COMMENT ON FUNCTION gpucredit_internal.is_below(text, text) IS
'Whether an account is the given one or below it.';

CREATE FUNCTION gpucredit_internal.kind_rank(kind text) RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE kind WHEN 'promo' THEN 1 WHEN 'grant' THEN 2 ELSE 3 END;
END;
COMMENT ON FUNCTION gpucredit_internal.kind_rank(text) IS
'Which kind of bucket burns first: promo, grant, paid.';

/* Balances */

CREATE TYPE gpucredit.balance_result AS (available numeric,
	spendable numeric, held numeric, used numeric, spent numeric,
	promo numeric, granted numeric, paid numeric,
	next_expiry_at timestamptz, next_expiry_amount numeric);
COMMENT ON TYPE gpucredit.balance_result IS
'An account''s figures at one instant.';

/*
 * The credit in expired holds that are not closed, by bucket: it is free, but
 * no entry says so yet.
 */
CREATE FUNCTION gpucredit_internal.dead_held(org text, at timestamptz)
RETURNS TABLE (bucket bigint, held gpucredit.credits)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT p.bucket, sum(p.held)
	FROM gpucredit.hold h
		JOIN gpucredit.hold_part p ON p.org = dead_held.org
			AND p.hold = h.hold
	WHERE h.org = dead_held.org AND h.job IS NULL
		AND h.closed_at IS NULL AND h.expires_at <= dead_held.at
	GROUP BY p.bucket;
END;
COMMENT ON FUNCTION gpucredit_internal.dead_held(text, timestamptz) IS
'What dead holds still hold, by bucket.';

/*
 * The buckets on an account's path.  They are looked up account by account,
 * because a kept plan would otherwise read all buckets of the organisation.
 */
CREATE FUNCTION gpucredit_internal.path_buckets(org text, account text)
RETURNS SETOF gpucredit.bucket_whole
LANGUAGE sql STABLE PARALLEL SAFE ROWS 10
BEGIN ATOMIC
	SELECT b.*
	FROM unnest(gpucredit_internal.account_path(path_buckets.account)) AS p (account)
		CROSS JOIN LATERAL (SELECT b.* FROM gpucredit.bucket_whole b
			WHERE b.org = path_buckets.org AND b.account = p.account
			OFFSET 0) b;
END;
COMMENT ON FUNCTION gpucredit_internal.path_buckets(text, text) IS
'The buckets of an account and of those above it, slices included.';

/* Computes a balance from figures of the buckets. */
CREATE FUNCTION gpucredit_internal.balance_of(room numeric, held numeric,
	used numeric, spent numeric, kinds text[], expiries timestamptz[], amounts numeric[])
RETURNS SETOF gpucredit.balance_result
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH b AS (
		SELECT * FROM unnest(kinds, expiries, amounts)
			AS b (kind, expires_at, amount)
		WHERE b.amount <> 0),
	total AS (
		SELECT coalesce(sum(b.amount), 0.000000) AS available,
			coalesce(sum(b.amount) FILTER (WHERE b.kind = 'promo'),
				0.000000) AS promo,
			coalesce(sum(b.amount) FILTER (WHERE b.kind = 'grant'),
				0.000000) AS granted,
			coalesce(sum(b.amount) FILTER (WHERE b.kind = 'paid'),
				0.000000) AS paid,
			min(b.expires_at) AS next_expiry_at
		FROM b)
	SELECT t.available,
		greatest(least(t.available, balance_of.room), 0.000000),
		coalesce(balance_of.held, 0.000000),
		coalesce(balance_of.used, 0.000000),
		coalesce(balance_of.spent, 0.000000), t.promo, t.granted, t.paid,
		t.next_expiry_at, (SELECT sum(b.amount) FROM b
			WHERE b.expires_at = t.next_expiry_at)
	FROM total t;
END;
COMMENT ON FUNCTION gpucredit_internal.balance_of(numeric, numeric, numeric, numeric,
	text[], timestamptz[], numeric[]) IS
'Makes a balance from the room that budgets leave (NULL: no budget), its sums, and the kinds, expiries and available amounts of the active buckets.';

/*
 * The budgets on a path with their counts.  The part of an expired hold counts
 * as free, whether or not it was released.  Budgets are looked up level by
 * level by their keys, because a kept plan would otherwise read all budgets of
 * the organisation.
 */
CREATE FUNCTION gpucredit_internal.budgets_at(org text, account text, at timestamptz)
RETURNS SETOF gpucredit.budgets_row
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT b.account, b.period, b.start, b.amount::numeric, r.reserved,
		r.spent, b.amount::numeric - r.reserved - r.spent, b.hard
	FROM unnest(gpucredit_internal.account_path(budgets_at.account)) AS p (account)
		CROSS JOIN LATERAL (SELECT b.*,
				gpucredit_internal.period_start(b.period, budgets_at.at) AS start
			FROM gpucredit.budget b
			WHERE b.org = budgets_at.org AND b.account = p.account
			OFFSET 0) b
		LEFT JOIN LATERAL (SELECT c.reserved, c.spent
			FROM gpucredit.budget_counter_whole c
			WHERE c.org = budgets_at.org AND c.account = b.account
				AND c.period = b.period AND c.period_start = b.start
			OFFSET 0) c ON true
		CROSS JOIN LATERAL (SELECT coalesce(c.reserved, '0')::numeric
			- coalesce((SELECT sum(hb.reserved)::numeric
				FROM (SELECT h.hold FROM gpucredit.hold h
						WHERE h.org = budgets_at.org AND h.closed_at IS NULL
							AND h.expires_at <= budgets_at.at OFFSET 0) h
					CROSS JOIN LATERAL (SELECT hb.reserved
						FROM gpucredit.hold_budget hb
						WHERE hb.org = budgets_at.org AND hb.hold = h.hold
							AND hb.account = b.account
							AND hb.period = b.period
							AND hb.period_start = b.start OFFSET 0) hb), 0),
			coalesce(c.spent, '0')::numeric) r (reserved, spent)
	ORDER BY length(b.account) DESC, b.period;
END;
COMMENT ON FUNCTION gpucredit_internal.budgets_at(text, text, timestamptz) IS
'The budgets on an account''s path, in the periods of an instant.';

CREATE FUNCTION gpucredit.budgets(org text, account text DEFAULT '')
RETURNS SETOF gpucredit.budgets_row
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit_internal.require_account(budgets.org, budgets.account);
	WITH clock AS MATERIALIZED (SELECT gpucredit.now() AS at)
	SELECT b.* FROM clock c,
		LATERAL gpucredit_internal.budgets_at(budgets.org, budgets.account, c.at) b;
END;
COMMENT ON FUNCTION gpucredit.budgets(text, text) IS
'Credit: the budgets on an account''s path, nearest first, with what is left of the present period.
Errors: UC001 no such account; 22023.';

/*
 * What running jobs at and below an account have used, if the jobs are few
 * enough to be read.  Each branch of the condition is a range of the index
 * job_active.
 */
CREATE FUNCTION gpucredit_internal.used_by_few(org text, account text)
RETURNS TABLE (used numeric)
LANGUAGE sql STABLE PARALLEL SAFE ROWS 1
BEGIN ATOMIC
	WITH few AS MATERIALIZED (
		SELECT * FROM (SELECT j.job, j.attempt FROM gpucredit.job j
			WHERE j.org = used_by_few.org AND j.state = 'active'
				AND j.account = used_by_few.account
			ORDER BY j.account LIMIT 101) own
		UNION ALL
		SELECT * FROM (SELECT j.job, j.attempt FROM gpucredit.job j
			WHERE used_by_few.account <> '' AND j.org = used_by_few.org
				AND j.state = 'active'
				AND j.account > (used_by_few.account || '/') COLLATE "C"
				AND j.account < (used_by_few.account || '0') COLLATE "C"
			ORDER BY j.account LIMIT 101) below
		UNION ALL
		SELECT * FROM (SELECT j.job, j.attempt FROM gpucredit.job j
			WHERE used_by_few.account = '' AND j.org = used_by_few.org
				AND j.state = 'active' AND j.account > ''
			ORDER BY j.account LIMIT 101) below)
	SELECT coalesce(sum(gpucredit_internal.bill(a.per_hour, 1, 1000, a.elapsed,
		a.held)::numeric), 0.000000)
	FROM (SELECT f.* FROM few f WHERE (SELECT count(*) FROM few) <= 100) f
		CROSS JOIN LATERAL (SELECT t.per_hour, t.elapsed, t.held
			FROM gpucredit.attempt t
			WHERE t.org = used_by_few.org AND t.job = f.job
				AND t.attempt = f.attempt OFFSET 0) a
	HAVING (SELECT count(*) FROM few) <= 100;
END;
COMMENT ON FUNCTION gpucredit_internal.used_by_few(text, text) IS
'What running jobs at and below an account have cost by their last heartbeats; no row: more than 100 jobs run.';

CREATE FUNCTION gpucredit_internal.balance_now(org text, account text,
	at timestamptz) RETURNS SETOF gpucredit.balance_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH b AS MATERIALIZED (
		SELECT b.bucket, b.kind, b.expires_at, b.available
		FROM gpucredit_internal.path_buckets(balance_now.org, balance_now.account) b
		WHERE b.closed_at IS NULL AND b.effective_at <= balance_now.at
			AND coalesce(b.expires_at > balance_now.at, true))
	SELECT r.*
	FROM (SELECT array_agg(p.kind) AS kinds,
			array_agg(p.expires_at) AS expiries,
			array_agg(p.amount::numeric) AS amounts
		FROM (SELECT b.kind, b.expires_at, b.available FROM b
			UNION ALL
			SELECT b.kind, b.expires_at, d.held
			FROM gpucredit_internal.dead_held(balance_now.org, balance_now.at) d
				JOIN b ON b.bucket = d.bucket) p (kind, expires_at, amount)
		) b,
	(SELECT sum(s.spent) AS spent, sum(s.held) AS held, sum(s.used) AS used
		FROM (SELECT t.spent, t.held, t.used FROM gpucredit.account_total t
			WHERE t.org = balance_now.org AND t.account = balance_now.account
			UNION ALL
			SELECT d.spent::numeric, d.held::numeric, d.used::numeric
			FROM gpucredit.account_delta d
			WHERE d.org = balance_now.org
				AND gpucredit_internal.is_below(d.account, balance_now.account)
			UNION ALL
			SELECT 0, - h.held::numeric, 0 FROM gpucredit.hold h
			WHERE h.org = balance_now.org AND h.closed_at IS NULL
				AND h.expires_at <= balance_now.at
				AND gpucredit_internal.is_below(h.account, balance_now.account)) s) s,
	(SELECT max(f.used) AS used
		FROM gpucredit_internal.used_by_few(balance_now.org, balance_now.account) f) f,
	(SELECT min(u.remaining) AS room
		FROM gpucredit_internal.budgets_at(balance_now.org, balance_now.account,
			balance_now.at) u WHERE u.hard) u,
	LATERAL gpucredit_internal.balance_of(u.room, s.held,
		coalesce(f.used, s.used), s.spent, b.kinds,
		b.expiries, b.amounts) r;
END;
COMMENT ON FUNCTION gpucredit_internal.balance_now(text, text, timestamptz) IS
'The balance from the running figures; at: the present instant.';

CREATE FUNCTION gpucredit_internal.balance_kept(org text, account text,
	at timestamptz) RETURNS gpucredit.balance_result
LANGUAGE c STABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_balance_kept';
COMMENT ON FUNCTION gpucredit_internal.balance_kept(text, text, timestamptz) IS
'Internal: balance_now() with a kept plan, because balances are asked for often.';

CREATE FUNCTION gpucredit.balance(org text, account text DEFAULT '',
	as_of timestamptz DEFAULT NULL) RETURNS gpucredit.balance_result
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	at timestamptz := gpucredit.now();
	result gpucredit.balance_result;
BEGIN
	PERFORM gpucredit_internal.require_account(balance.org, balance.account);
	IF balance.as_of < at THEN
		PERFORM gpucredit_internal.require_kept('as_of', balance.as_of, 'entry'),
			gpucredit_internal.require_kept('as_of', balance.as_of, 'usage');
		SELECT r.* INTO result FROM gpucredit_internal.balance_at(balance.org,
			balance.account, balance.as_of) r;
	ELSE
		result := gpucredit_internal.balance_kept(balance.org, balance.account, at);
	END IF;
	RETURN result;
END
$$;
COMMENT ON FUNCTION gpucredit.balance(text, text, timestamptz) IS
'Credit: an account''s credit.
account: '''' for the organisation. as_of: a past instant, whose figures are computed from the entries; NULL or not past: now.
Result, in credits. available: in active buckets of the account and its ancestors. spendable: that, at most what the tightest hard budget on the path leaves. held: by the account and all below it; used: the metered part of held (where more than 100 jobs run, as logged each gpucredit.usage_interval); spent: settled, less refunds. promo + granted + paid = available. Then when the next of it expires, and how much. Expiries and dead holds count at once, booked or not.
Errors: UC001 no such account; 22023, also for an as_of before what is kept.';

/* Lists of buckets */

CREATE TYPE gpucredit.bucket_result AS (bucket bigint, account text,
	kind text, priority int, effective_at timestamptz,
	expires_at timestamptz, issued numeric, available numeric, held numeric,
	spent numeric, expired numeric, revoked numeric, moved numeric,
	policy jsonb, usable boolean, why text);
COMMENT ON TYPE gpucredit.bucket_result IS
'A bucket that an account may spend from, its compartments, and why it does not pay.';

/* This is separate from buckets(), so that a kept plan can inline it. */
CREATE FUNCTION gpucredit_internal.buckets_at(org text, account text, at timestamptz)
RETURNS SETOF gpucredit.bucket_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH dead AS MATERIALIZED (
		SELECT d.*
		FROM gpucredit_internal.dead_held(buckets_at.org, buckets_at.at) d),
	b AS (
		SELECT b.*, coalesce(d.held, '0') AS dead,
			b.available + coalesce(d.held, '0') AS free,
			coalesce(b.expires_at <= buckets_at.at, false) AS over
		FROM gpucredit_internal.path_buckets(buckets_at.org, buckets_at.account) b
			LEFT JOIN dead d ON d.bucket = b.bucket)
	SELECT b.bucket, b.account, b.kind, b.priority, b.effective_at,
		b.expires_at, b.issued::numeric,
		(CASE WHEN b.closed_at IS NULL AND NOT b.over
			THEN b.free ELSE '0' END)::numeric,
		(b.held - b.dead)::numeric, b.spent::numeric,
		(b.expired + CASE WHEN b.closed_at IS NULL AND b.over
			THEN b.free ELSE '0' END)::numeric,
		(b.revoked + CASE WHEN b.closed_at IS NOT NULL
			THEN b.free ELSE '0' END)::numeric,
		b.moved::numeric, b.policy,
		b.why IS NULL, b.why
	FROM (SELECT b.*, CASE WHEN b.closed_at IS NOT NULL THEN 'revoked'
			WHEN b.over THEN 'expired'
			WHEN b.effective_at > buckets_at.at THEN 'not_yet_active'
			WHEN b.free <= '0' THEN 'empty' END AS why
		FROM b) b
	ORDER BY b.priority, b.expires_at, gpucredit_internal.kind_rank(b.kind),
		length(b.account) DESC, b.effective_at, b.bucket;
END;
COMMENT ON FUNCTION gpucredit_internal.buckets_at(text, text, timestamptz) IS
'The buckets that an account may spend, as they are at an instant that is not past.';

CREATE FUNCTION gpucredit.buckets(org text, account text DEFAULT '')
RETURNS SETOF gpucredit.bucket_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit_internal.require_account(buckets.org, buckets.account);
	WITH clock AS MATERIALIZED (SELECT gpucredit.now() AS at)
	SELECT b.* FROM clock c,
		LATERAL gpucredit_internal.buckets_at(buckets.org, buckets.account, c.at) b;
END;
COMMENT ON FUNCTION gpucredit.buckets(text, text) IS
'Credit: the buckets that an account may spend, its own and its ancestors'', in burn order.
Result, in credits: issued = available + held + spent + expired + revoked + moved. Expiries and dead holds count at once, booked or not. usable: active now, with something available; why not: revoked, expired, not_yet_active, empty.
Errors: UC001 no such account; 22023.';

/* Statements of account */

CREATE TYPE gpucredit.statement_result AS (at timestamptz, entry bigint,
	bucket bigint, kind text, account text, operation text, source text,
	target text, amount numeric, hold bigint, job bigint, attempt int,
	available numeric);
COMMENT ON TYPE gpucredit.statement_result IS
'An entry, or what time alone changed, with what is available after it.';

/*
 * The history of the buckets on a path.  Events are entries, and instants at
 * which credit changes without an entry: the start and the end of a bucket's
 * span, and the end of a hold's ttl.  Each event has the change of the
 * bucket's free credit (free), which counts while the bucket is active.  rank
 * orders events of one instant: first a bucket's span, then a ttl, then
 * entries, then a bucket's closing.  The sums of removed entries come first of
 * all; they only determine what the bucket has when it becomes active.
 */
CREATE FUNCTION gpucredit_internal.bucket_event(tenant text, leaf text,
	now timestamptz)
RETURNS TABLE (at timestamptz, rank int, entry bigint, bucket bigint,
	kind text, account text, operation text, source text, target text,
	amount gpucredit.credits, hold bigint, job bigint, attempt int,
	free gpucredit.credits, active boolean)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH b AS (
		SELECT b.*, b.account AS owner FROM gpucredit.bucket b
		WHERE b.org = bucket_event.tenant
			AND b.account = ANY (gpucredit_internal.account_path(bucket_event.leaf))),
	line AS MATERIALIZED (
		SELECT e.*, b.kind, h.expires_at AS ttl, e.at >= b.effective_at
			AND coalesce(e.at < b.expires_at, true)
			AND coalesce(e.at <= b.closed_at, true) AS active
		FROM b
			JOIN gpucredit.entry e ON e.org = bucket_event.tenant
				AND e.bucket = b.bucket
			LEFT JOIN gpucredit.hold h ON h.org = bucket_event.tenant
				AND h.hold = e.hold),
	left_line AS MATERIALIZED (
		SELECT b.bucket, b.kind, b.owner, n.account, n.hold, n.available,
			n.held, h.expires_at AS ttl
		FROM b
			JOIN gpucredit.closing_net n ON n.org = bucket_event.tenant
				AND n.bucket = b.bucket
			LEFT JOIN gpucredit.hold h ON h.org = bucket_event.tenant
				AND h.hold = n.hold)
	SELECT l.at, 3, l.entry, l.bucket, l.kind, l.account, l.operation,
		l.source, l.target, l.amount, l.hold, l.job, l.attempt,
		CASE 'available' WHEN l.target THEN l.amount
			WHEN l.source THEN - l.amount ELSE '0' END
		- CASE WHEN l.source = 'held' AND l.at >= l.ttl
			THEN l.amount ELSE '0' END, l.active
	FROM line l
	UNION ALL
	SELECT '-infinity', 0, NULL, l.bucket, l.kind, l.owner, 'closing',
		'issued', 'available', NULL, NULL, NULL, NULL, sum(l.available), false
	FROM left_line l
	GROUP BY l.bucket, l.kind, l.owner
	UNION ALL
	SELECT d.ttl, 2, NULL, d.bucket, d.kind, d.account, 'free', 'held',
		'available', d.held, d.hold, NULL, NULL, d.held,
		d.ttl >= b.effective_at AND coalesce(d.ttl < b.expires_at, true)
			AND coalesce(d.ttl <= b.closed_at, true)
	FROM (SELECT l.ttl, l.bucket, l.kind, l.account, l.hold,
			sum(l.held) AS held
		FROM (SELECT l.ttl, l.bucket, l.kind, l.account, l.hold,
				CASE 'held' WHEN l.target THEN l.amount
					WHEN l.source THEN - l.amount END AS held
			FROM line l
			WHERE l.ttl <= bucket_event.now AND l.at < l.ttl
			UNION ALL
			SELECT l.ttl, l.bucket, l.kind, l.account, l.hold, l.held
			FROM left_line l
			WHERE l.ttl <= bucket_event.now) l
		GROUP BY l.ttl, l.bucket, l.kind, l.account, l.hold) d
		JOIN b ON b.bucket = d.bucket
	WHERE d.held <> '0'
	UNION ALL
	SELECT t.at, t.rank, NULL, b.bucket, b.kind, b.owner, t.operation,
		t.source, t.target, NULL, NULL, NULL, NULL, '0', true
	FROM b CROSS JOIN LATERAL (VALUES
		(b.effective_at, 1, 'activate', 'issued', 'available'),
		(b.expires_at, 1, 'expire', 'available', 'expired'),
		(b.closed_at, 4, 'close', 'available', 'revoked'))
		AS t (at, rank, operation, source, target)
	WHERE t.at <= bucket_event.now
		AND coalesce(t.at <= b.closed_at, true)
		AND (t.operation <> 'close' OR (t.at >= b.effective_at
			AND coalesce(t.at < b.expires_at, true)));
END;
COMMENT ON FUNCTION gpucredit_internal.bucket_event(text, text, timestamptz) IS
'All changes of the buckets on a path: entries, and what time alone does.';

CREATE FUNCTION gpucredit.statement(org text, account text DEFAULT '',
	since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL)
RETURNS SETOF gpucredit.statement_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL RESTRICTED
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit_internal.require_account(statement.org, statement.account);
	SELECT gpucredit_internal.require_kept('since', statement.since),
		gpucredit_internal.require_kept('until', statement.until);
	WITH clock AS MATERIALIZED (SELECT gpucredit.now() AS at),
	event AS (
		SELECT e.*, sum(e.free) OVER (PARTITION BY e.bucket
			ORDER BY e.at, e.rank, e.entry, e.hold
			ROWS UNBOUNDED PRECEDING) AS reached
		FROM clock c, LATERAL gpucredit_internal.bucket_event(statement.org,
			statement.account, c.at) e),
	effect AS (
		SELECT e.*, CASE WHEN e.rank = 0 THEN '0'
			WHEN e.operation = 'activate' AND e.rank = 1
			THEN e.reached WHEN e.amount IS NULL THEN - e.reached
			WHEN e.active THEN e.free ELSE '0' END AS effect,
			/*
			 * Whether an entry books what had already happened by time: 1 an
			 * expiry, 2 credit that became free.
			 */
			CASE WHEN e.entry IS NULL THEN 0
				WHEN e.operation = 'expire' AND e.source = 'available' THEN 1
				WHEN e.source = 'held' AND (e.target = 'available' AND e.free = '0'
					OR e.target IN ('expired', 'revoked') AND e.free < '0') THEN 2
				ELSE 0 END AS books
		FROM event e),
	/*
	 * A change that happens by time is one line, with the number of the entry
	 * that books it later.  That entry gets no line of its own.
	 */
	line AS (
		SELECT e.*, CASE e.books
			WHEN 1 THEN bool_or(e.entry IS NULL AND e.operation = 'expire'
				AND e.effect <> '0') OVER of_bucket
			WHEN 2 THEN bool_or(e.entry IS NULL AND e.operation = 'free'
				AND e.effect <> '0') OVER of_hold
			ELSE false END AS told,
			CASE WHEN e.entry IS NOT NULL THEN e.entry
				WHEN e.operation = 'expire' AND e.rank = 1
				THEN min(e.entry) FILTER (WHERE e.books = 1) OVER of_bucket
				WHEN e.operation = 'free'
				THEN min(e.entry) FILTER (WHERE e.books = 2) OVER of_hold
				END AS booked_by
		FROM effect e
		WINDOW of_bucket AS (PARTITION BY e.bucket),
			of_hold AS (PARTITION BY e.bucket, e.hold))
	SELECT r.at, r.booked_by, r.bucket, r.kind,
		CASE WHEN v.may_read THEN r.account END, r.operation, r.source, r.target,
		coalesce(r.amount, r.reached)::numeric, CASE WHEN v.may_read THEN r.hold END,
		CASE WHEN v.may_read THEN r.job END, CASE WHEN v.may_read THEN r.attempt END,
		r.available
	FROM (SELECT e.*, sum(e.effect::numeric) OVER (
				ORDER BY e.at, e.rank, e.entry, e.bucket, e.hold
				ROWS UNBOUNDED PRECEDING) AS available
		FROM line e) r
		CROSS JOIN LATERAL gpucredit_internal.may_read(statement.org, r.account) AS v (may_read)
	WHERE coalesce(r.at >= statement.since, true)
		AND coalesce(r.at < statement.until, true)
		AND (r.entry IS NOT NULL OR r.effect <> '0') AND NOT r.told
	ORDER BY r.at, r.rank, r.entry, r.bucket, r.hold;
END;
COMMENT ON FUNCTION gpucredit.statement(text, text, timestamptz,
	timestamptz) IS
'Credit: what happened to the buckets that an account may spend, oldest first.
[since, until): NULL for no bound. The running figure starts with everything before since.
Result: the entries, with amounts in credits. account: on whose behalf. available: what the account had available just after. What time alone does is one row, dated when it happens: activate and expire of a bucket, free of a dead hold, close of a revoked bucket. Its entry is NULL, or the one that booked an expire or free later, which has no row of its own. If entries of a bucket were removed, activate shows what they left in it. Of others'' use of a shared bucket a tenant sees the amounts only: account, hold, job and attempt are NULL.
Errors: UC001 no such account; 22023, also for a since or until before what is kept.';

/* Lists of jobs */

CREATE VIEW gpucredit.jobs WITH (security_barrier) AS
	SELECT j.org, j.job, j.account, j.pool, j.tier, j.request::text AS request,
		CASE WHEN j.state <> 'active' THEN j.state
			WHEN j.cancelled OR EXISTS (SELECT FROM gpucredit.directive d
				WHERE d.org = j.org AND d.job = j.job
					AND d.attempt = j.attempt AND d.action = 'stop')
				THEN 'stopping'
			WHEN a.running_at IS NOT NULL THEN 'running'
			ELSE 'starting' END AS state,
		j.attempt, j.failures, a.gpu_type, a.gpus, a.share, a.elapsed,
		h.held::numeric AS held,
		CASE WHEN a.ended_at IS NULL THEN gpucredit_internal.bill(a.per_hour, 1, 1000,
			a.elapsed, a.held) END::numeric AS used,
		j.submitted_at, j.not_before, a.started_at, j.ended_at,
		substr(j.traceparent, 4, 32) AS trace, a.progress, a.utilization,
		a.log_uri AS log,
		j.name, j.array_key, j.task, j.at_most, j.after, j.held_by, j.deadline,
		j.options -> 'labels' AS labels, j.wall_limit, a.per_gpu_hour::numeric AS per_gpu_hour,
		a.outcome, a.exit_code, a.message,
		(SELECT sum(k.billed::numeric - coalesce(k.refunded::numeric, 0)) FROM gpucredit.attempt k
			WHERE k.org = j.org AND k.job = j.job) AS billed,
		(SELECT string_agg(g.node || g.gpus::text, ' ' ORDER BY g.node)
			FROM gpucredit.attempt_gpu g WHERE g.org = j.org AND g.job = j.job
				AND g.attempt = j.attempt) AS nodes,
		(SELECT sum(k.energy_j)::bigint FROM gpucredit.attempt k
			WHERE k.org = j.org AND k.job = j.job) AS energy_j
	FROM gpucredit.job j
		LEFT JOIN gpucredit.attempt a ON a.org = j.org AND a.job = j.job
			AND a.attempt = j.attempt
		LEFT JOIN gpucredit.hold h ON h.org = j.org AND h.hold = j.hold
	WHERE gpucredit_internal.may_read(j.org, j.account);
COMMENT ON VIEW gpucredit.jobs IS
'Jobs: their requests, states and last attempts. held: credit set aside for the job now; used: how much of it the live attempt has metered';
COMMENT ON COLUMN gpucredit.jobs.pool IS 'The pool that it was submitted to.';
COMMENT ON COLUMN gpucredit.jobs.tier IS 'Its tier.';
COMMENT ON COLUMN gpucredit.jobs.request IS 'The devices it asks for.';
COMMENT ON COLUMN gpucredit.jobs.state IS 'queued, unfunded, starting, running, stopping, completed, failed, timeout or cancelled.';
COMMENT ON COLUMN gpucredit.jobs.attempt IS 'Its last attempt; 0: none yet.';
COMMENT ON COLUMN gpucredit.jobs.failures IS 'How often it failed.';
COMMENT ON COLUMN gpucredit.jobs.gpu_type IS 'The type of its last attempt''s devices; NULL: none.';
COMMENT ON COLUMN gpucredit.jobs.gpus IS 'How many devices its last attempt has; NULL: it has not started.';
COMMENT ON COLUMN gpucredit.jobs.share IS 'Thousandths of each device; NULL: it has not started.';
COMMENT ON COLUMN gpucredit.jobs.elapsed IS 'How long its last attempt has run; NULL: it has not started.';
COMMENT ON COLUMN gpucredit.jobs.held IS 'Credits set aside for it now.';
COMMENT ON COLUMN gpucredit.jobs.used IS 'Credits of held that the live attempt has used; NULL: it does not run.';
COMMENT ON COLUMN gpucredit.jobs.submitted_at IS 'When it was submitted.';
COMMENT ON COLUMN gpucredit.jobs.not_before IS 'The earliest start; NULL: at once.';
COMMENT ON COLUMN gpucredit.jobs.started_at IS 'When its last attempt started; NULL: it has not started.';
COMMENT ON COLUMN gpucredit.jobs.ended_at IS 'When it ended; NULL: not yet.';
COMMENT ON COLUMN gpucredit.jobs.progress IS 'A growing count, as the agent last reported it; NULL: not reported.';
COMMENT ON COLUMN gpucredit.jobs.utilization IS 'How busy its devices are, 0 to 1, as last reported; NULL: not reported.';
COMMENT ON COLUMN gpucredit.jobs.log IS 'Where the agent keeps its last attempt''s log; NULL: not reported yet.';
COMMENT ON COLUMN gpucredit.jobs.name IS 'Its name; NULL: none.';
COMMENT ON COLUMN gpucredit.jobs.array_key IS 'The array that it belongs to, together with its account; NULL: none.';
COMMENT ON COLUMN gpucredit.jobs.task IS 'Its number within the array; NULL: none.';
COMMENT ON COLUMN gpucredit.jobs.at_most IS 'It starts only while fewer jobs of its array run in its pool; NULL: no limit.';
COMMENT ON COLUMN gpucredit.jobs.after IS 'The other jobs that it still waits for; NULL: none.';
COMMENT ON COLUMN gpucredit.jobs.held_by IS 'Who keeps it from starting: owner or operator; NULL: nobody.';
COMMENT ON COLUMN gpucredit.jobs.deadline IS 'When it must have ended at the latest; NULL: none.';
COMMENT ON COLUMN gpucredit.jobs.labels IS 'Its labels, keys and values, for reports; NULL: none.';
COMMENT ON COLUMN gpucredit.jobs.wall_limit IS 'How long an attempt may run; NULL: no limit.';
COMMENT ON COLUMN gpucredit.jobs.per_gpu_hour IS 'The price of its last attempt, in credits per GPU and hour; NULL: it has not started.';
COMMENT ON COLUMN gpucredit.jobs.outcome IS 'How its last attempt ended; NULL: it has not ended.';
COMMENT ON COLUMN gpucredit.jobs.exit_code IS 'The exit code of its program in its last attempt, 128 + the signal that killed it; NULL: not reported.';
COMMENT ON COLUMN gpucredit.jobs.message IS 'What was reported of the end of its last attempt; NULL: nothing.';
COMMENT ON COLUMN gpucredit.jobs.billed IS 'Credits that all of its attempts were billed, less what their settlements refunded; NULL: none has ended.';
COMMENT ON COLUMN gpucredit.jobs.nodes IS 'The nodes and devices of its last attempt; NULL: it has none.';
COMMENT ON COLUMN gpucredit.jobs.energy_j IS 'The joules that the devices of all of its attempts used, as agents reported at their ends; NULL: none was reported.';

CREATE FUNCTION gpucredit_internal.require_job(org text, job bigint) RETURNS void
LANGUAGE c STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_require_job';
COMMENT ON FUNCTION gpucredit_internal.require_job(text, bigint) IS
'Raises UC301 unless the organisation has the job.';

CREATE TYPE gpucredit.history_result AS (at timestamptz, what text,
	attempt int, detail text, trace text);
COMMENT ON TYPE gpucredit.history_result IS
'Something that happened to a job, or was decided about it.';

/*
 * Entries are appended in the order of time, and jobs are numbered in that
 * order. So a BRIN index of a few pages finds the entries of a time span and
 * of a job. It keeps several ranges of jobs per block range, because of jobs
 * that run for weeks.  An insert rarely has to update it.
 */
CREATE INDEX entry_pages ON gpucredit.entry
	USING brin (at, job pg_catalog.int8_minmax_multi_ops)
	WITH (pages_per_range = 32, autosummarize = on);

/*
 * history(): the decisions on a job and their entries.  Lines of one instant
 * are in the order of the decisions (turn), each decision before its entries.
 * A settlement writes its audit row last, when it knows the job's next state,
 * so the line of the requeue follows it.
 */
CREATE FUNCTION gpucredit.history(org text, job bigint)
RETURNS SETOF gpucredit.history_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit_internal.require_job(history.org, history.job);
	WITH told AS (
		SELECT a.*, coalesce(CASE WHEN a.operation = 'requeue'
				THEN min(a.audit) FILTER (WHERE a.operation = 'settle') OVER (
					PARTITION BY a.at ORDER BY a.audit ROWS BETWEEN CURRENT ROW
					AND UNBOUNDED FOLLOWING) END, a.audit) AS turn
		FROM gpucredit.audit a
		WHERE a.org = history.org AND a.job = history.job),
	line AS (
		SELECT a.at, a.turn, CASE a.operation WHEN 'requeue' THEN 7 ELSE 1 END
			AS rank, a.audit AS id, a.operation || ' ' || a.decision AS what,
			a.attempt,
			concat_ws(', ', a.reason, (SELECT string_agg(CASE
					WHEN d.key LIKE E'%\\_us'	/* a time span in microseconds */
					THEN left(d.key, -3) || ' ' || d.value::bigint
						* interval '1 microsecond'
					ELSE d.key || ' ' || (d.value #>> '{}') END, ', '
					ORDER BY d.key)
				FROM jsonb_each(a.detail) d)) AS detail, a.trace
		FROM told a
		UNION ALL
		SELECT a.running_at, coalesce((SELECT max(t.turn) FROM told t
				WHERE t.at = a.running_at AND t.operation = 'place'
					AND t.attempt = a.attempt), 0),
			2, a.attempt, 'first heartbeat', a.attempt,
			format('%s x %s of %s at %s per hour', a.gpus,
				(a.share / 1000.0)::numeric(6, 3), a.gpu_type,
				a.per_gpu_hour::numeric), a.trace
		FROM gpucredit.attempt a
		WHERE a.org = history.org AND a.job = history.job
			AND a.running_at IS NOT NULL
		UNION ALL
		SELECT u.at, coalesce((SELECT min(t.turn) FROM told t
				WHERE t.at = u.at AND t.operation = 'settle'
					AND t.attempt = u.attempt AND u.nth = 'last usage'),
				(SELECT max(t.turn) FROM told t
				WHERE t.at = u.at AND t.operation = 'place'
					AND t.attempt = u.attempt), 0),
			CASE u.nth WHEN 'first usage' THEN 3 ELSE 4 END, u.attempt, u.nth, u.attempt,
			format('elapsed %s, billed %s', u.elapsed, u.billed::numeric),
			(SELECT a.trace FROM gpucredit.attempt a
				WHERE a.org = history.org AND a.job = history.job
					AND a.attempt = u.attempt)
		FROM (SELECT u.*, CASE 1
				WHEN row_number() OVER (PARTITION BY u.attempt
					ORDER BY u.elapsed DESC, u.at DESC)
				THEN 'last usage'
				WHEN row_number() OVER (PARTITION BY u.attempt
					ORDER BY u.elapsed, u.at)
				THEN 'first usage' END AS nth
			FROM gpucredit.usage u
			WHERE u.org = history.org AND u.job = history.job) u
		WHERE u.nth IS NOT NULL
		UNION ALL
		SELECT e.at, coalesce((SELECT min(t.turn) FROM told t
				WHERE t.at = e.at AND (e.attempt IS NULL
						OR t.attempt = e.attempt)
					AND t.operation = CASE WHEN e.operation = 'refund'
							AND e.attempt IS NOT NULL
						THEN 'settle'	/* the refund of a settlement for lost work */
						ELSE e.operation END), 9223372036854775807),
			CASE e.operation WHEN 'requeue' THEN 8 ELSE 5 END, e.entry, e.source || ' to ' || e.target, e.attempt,
			format('%s of bucket %s, hold %s, by %s', e.amount::numeric,
				e.bucket, e.hold, e.operation), e.trace
		FROM gpucredit.entry e
		WHERE e.org = history.org AND e.job = history.job
		UNION ALL
		SELECT c.at, coalesce(s.turn, 9223372036854775807),
			CASE WHEN s.turn IS NULL THEN 6 ELSE 0 END, c.step, 'checkpoint',
			c.attempt,
			format('step %s, %s bytes at %s, after %s', c.step, c.size_bytes,
				c.uri, c.elapsed), a.trace
		FROM gpucredit.checkpoint c
			JOIN gpucredit.attempt a ON a.org = history.org
				AND a.job = history.job AND a.attempt = c.attempt
			CROSS JOIN LATERAL (SELECT min(t.turn) AS turn FROM told t
				WHERE t.at = c.at AND t.operation = 'settle'
					AND t.attempt = c.attempt) s
		WHERE c.org = history.org AND c.job = history.job)
	SELECT l.at, l.what, l.attempt, l.detail,
		replace(l.trace::text, '-', '')
	FROM line l
	ORDER BY l.at, l.turn, l.rank, l.id;
END;
COMMENT ON FUNCTION gpucredit.history(text, bigint) IS
'Jobs: a job''s whole story as far as it is kept, oldest first: decisions, credit moved for it, checkpoints, and the first and last usage of each attempt. trace: the W3C trace of a line, NULL for none; it is the job''s if the job was submitted with gpucredit.traceparent.
Errors: UC301 no such job; 22023.';

CREATE TYPE gpucredit.checkpoints_result AS (attempt int, step bigint,
	uri text, sha256 bytea, size_bytes bigint, at timestamptz,
	bad_at timestamptz);
COMMENT ON TYPE gpucredit.checkpoints_result IS
'A checkpoint of a job, as the agent reported it.';

CREATE FUNCTION gpucredit.checkpoints(org text, job bigint)
RETURNS SETOF gpucredit.checkpoints_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit_internal.require_job(checkpoints.org, checkpoints.job);
	SELECT c.attempt, c.step, c.uri, c.sha256, c.size_bytes, c.at, c.bad_at
	FROM gpucredit.checkpoint c
	WHERE c.org = checkpoints.org AND c.job = checkpoints.job
	ORDER BY c.attempt, c.step;
END;
COMMENT ON FUNCTION gpucredit.checkpoints(text, bigint) IS
'Jobs: what a job''s attempts saved, as their agents reported it, oldest first. sha256: the digest that the agent computed of the file or folder; a folder''s is that of the lines that sha256sum prints of its files, sorted by name. bad_at: when an attempt found another digest there; NULL: never.
Errors: UC301 no such job; 22023.';
