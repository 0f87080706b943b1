/*
 * 82_books.sql: comparing stored figures with the entries.
 *
 * The entries are authoritative.  entry_by_bucket and entry_by_part add them
 * up, verify() compares the running sums with the results, and rebuild()
 * corrects them.  Each check reads the whole entry table a few times, never
 * bucket by bucket.
 *
 * If a row has several checks, the query builds an array of the broken ones,
 * which is empty for nearly all rows.  A join with a list of the checks would
 * cost far more for each row.
 *
 * Each function reads the organisations whose names sort from from_org to
 * to_org, in byte order; a bound that is NULL excludes none.  The planner
 * inlines the set-returning functions where they are called.
 */
/*
 * Whether an organisation is within a range.  Callers have custom plans, in
 * which the bounds are constants: then comparisons with NULL are removed, and
 * a single organisation is found by equality.
 */
CREATE FUNCTION gpucredit_internal.in_orgs(org text, from_org text, to_org text)
RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE WHEN in_orgs.from_org COLLATE "C" = in_orgs.to_org COLLATE "C"
		THEN in_orgs.org COLLATE "C" = in_orgs.from_org COLLATE "C"
		ELSE (in_orgs.from_org IS NULL
				OR in_orgs.org COLLATE "C" >= in_orgs.from_org COLLATE "C")
			AND (in_orgs.to_org IS NULL
				OR in_orgs.org COLLATE "C" <= in_orgs.to_org COLLATE "C") END;
END;
COMMENT ON FUNCTION gpucredit_internal.in_orgs(text, text, text) IS
'verify: whether an organisation''s name sorts from from_org to to_org, in byte order; NULL: no bound.';

CREATE FUNCTION gpucredit_internal.entry_by_bucket(from_org text, to_org text)
RETURNS TABLE (org text, bucket bigint, issued gpucredit.credits,
	available gpucredit.credits, held gpucredit.credits,
	spent gpucredit.credits, expired gpucredit.credits,
	revoked gpucredit.credits, moved gpucredit.credits,
	drawn_first timestamptz, drawn_last timestamptz)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT e.org, e.bucket,
		coalesce(sum(e.issued), '0'), coalesce(sum(e.available), '0'),
		coalesce(sum(e.held), '0'), coalesce(sum(e.spent), '0'),
		coalesce(sum(e.expired), '0'), coalesce(sum(e.revoked), '0'),
		coalesce(sum(e.moved), '0'), min(e.drawn_first), max(e.drawn_last)
	FROM (SELECT e.org, e.bucket,
			CASE WHEN e.source = 'issued' THEN e.amount END AS issued,
			CASE 'available' WHEN e.target THEN e.amount
				WHEN e.source THEN - e.amount END AS available,
			CASE 'held' WHEN e.target THEN e.amount
				WHEN e.source THEN - e.amount END AS held,
			CASE 'spent' WHEN e.target THEN e.amount
				WHEN e.source THEN - e.amount END AS spent,
			CASE WHEN e.target = 'expired' THEN e.amount END AS expired,
			CASE WHEN e.target = 'revoked' THEN e.amount END AS revoked,
			CASE WHEN e.target = 'moved' THEN e.amount END AS moved,
			CASE WHEN e.target = 'held' THEN e.at END AS drawn_first,
			CASE WHEN e.target = 'held' THEN e.at END AS drawn_last
		FROM gpucredit.entry e
		WHERE gpucredit_internal.in_orgs(e.org,
			entry_by_bucket.from_org, entry_by_bucket.to_org)
		UNION ALL
		SELECT n.org, n.bucket, n.issued, n.available, n.held, n.spent,
			n.expired, n.revoked, n.moved, n.drawn_first, n.drawn_last
		FROM gpucredit.closing_net n
		WHERE gpucredit_internal.in_orgs(n.org,
			entry_by_bucket.from_org, entry_by_bucket.to_org)) e
	GROUP BY e.org, e.bucket;
END;
COMMENT ON FUNCTION gpucredit_internal.entry_by_bucket(text, text) IS
'The sums of the entries of each bucket.';

CREATE FUNCTION gpucredit_internal.entry_by_part(from_org text, to_org text)
RETURNS TABLE (org text, hold bigint, part int, bucket bigint,
	drawn gpucredit.credits, held gpucredit.credits,
	spent gpucredit.credits, refunded gpucredit.credits,
	returned gpucredit.credits, lapsed gpucredit.credits)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT e.org, e.hold, e.part, e.bucket,
		coalesce(sum(e.drawn), '0'), coalesce(sum(e.held), '0'),
		coalesce(sum(e.spent), '0'), coalesce(sum(e.refunded), '0'),
		coalesce(sum(e.returned), '0'), coalesce(sum(e.lapsed), '0')
	FROM (SELECT e.org, e.hold, e.part, e.bucket,
			CASE WHEN e.target = 'held' THEN e.amount END AS drawn,
			CASE 'held' WHEN e.target THEN e.amount
				WHEN e.source THEN - e.amount END AS held,
			CASE 'spent' WHEN e.target THEN e.amount
				WHEN e.source THEN - e.amount END AS spent,
			CASE WHEN e.source = 'spent' THEN e.amount END AS refunded,
			CASE WHEN e.source = 'held' AND e.target = 'available'
				THEN e.amount END AS returned,
			CASE WHEN e.source = 'held' AND e.target IN ('expired',
				'revoked') THEN e.amount END AS lapsed
		FROM gpucredit.entry e
		WHERE gpucredit_internal.in_orgs(e.org,
			entry_by_part.from_org, entry_by_part.to_org)
			AND e.hold IS NOT NULL
		UNION ALL
		SELECT n.org, n.hold, n.part, n.bucket, n.drawn, n.held, n.spent,
			n.refunded, n.returned, n.lapsed
		FROM gpucredit.closing_net n
		WHERE gpucredit_internal.in_orgs(n.org,
			entry_by_part.from_org, entry_by_part.to_org)
			AND n.hold > 0) e
	GROUP BY e.org, e.hold, e.part, e.bucket;
END;
COMMENT ON FUNCTION gpucredit_internal.entry_by_part(text, text) IS
'The sums of the entries of each hold part.';

/*
 * `sound` says that no figure of the row is negative according to its entries.
 */
CREATE TYPE gpucredit.difference AS (org text, bucket bigint, hold bigint,
	part int, what text, found gpucredit.credits, expected gpucredit.credits,
	sound boolean);
COMMENT ON TYPE gpucredit.difference IS
'A figure of a bucket or hold that differs from its entries.';

CREATE FUNCTION gpucredit_internal.bucket_difference(from_org text, to_org text)
RETURNS SETOF gpucredit.difference
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(b.org, e.org), coalesce(b.bucket, e.bucket), NULL::bigint,
		NULL::int, c.name, c.found, coalesce(c.expected, '0'),
		coalesce(least(e.issued, e.available, e.held, e.spent) >= '0', true)
	FROM (SELECT * FROM gpucredit.bucket_whole b
			WHERE gpucredit_internal.in_orgs(b.org,
				bucket_difference.from_org, bucket_difference.to_org)) b
		FULL JOIN gpucredit_internal.entry_by_bucket(bucket_difference.from_org, bucket_difference.to_org) e
			ON e.org = b.org AND e.bucket = b.bucket
		CROSS JOIN LATERAL (VALUES ('issued', b.issued, e.issued),
			('available', b.available, e.available),
			('held', b.held, e.held), ('spent', b.spent, e.spent),
			('expired', b.expired, e.expired),
			('revoked', b.revoked, e.revoked), ('moved', b.moved, e.moved),
			('lent', b.lent, b.in_slices))
			AS c (name, found, expected)
	/*
	 * Few rows differ in anything, and only those are compared figure by
	 * figure.
	 */
	WHERE (b.issued, b.available, b.held, b.spent, b.expired, b.revoked, b.moved,
			b.lent) IS DISTINCT FROM (e.issued, e.available, e.held, e.spent,
			e.expired, e.revoked, e.moved, coalesce(b.in_slices, '0'))
		AND CASE WHEN b.bucket IS NULL THEN c.name = 'available'
			ELSE coalesce(c.expected, '0') <> c.found END;
END;
COMMENT ON FUNCTION gpucredit_internal.bucket_difference(text, text) IS
'Buckets whose figures differ from their entries; found NULL: the bucket is missing.';

CREATE FUNCTION gpucredit_internal.part_difference(from_org text, to_org text)
RETURNS SETOF gpucredit.difference
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(p.org, e.org), coalesce(p.bucket, e.bucket),
		coalesce(p.hold, e.hold), coalesce(p.part, e.part), c.name, c.found,
		c.expected, coalesce(e.drawn > '0'
			AND least(e.held, e.spent, e.refunded, e.returned, e.lapsed)
				>= '0', true)
	FROM (SELECT * FROM gpucredit.hold_part p
			WHERE gpucredit_internal.in_orgs(p.org,
				part_difference.from_org, part_difference.to_org)) p
		FULL JOIN gpucredit_internal.entry_by_part(part_difference.from_org, part_difference.to_org) e
			ON e.org = p.org AND e.hold = p.hold AND e.part = p.part
				AND e.bucket = p.bucket
		CROSS JOIN LATERAL (VALUES ('drawn', p.drawn, e.drawn),
			('held', p.held, e.held), ('spent', p.spent, e.spent),
			('refunded', p.refunded, e.refunded),
			('returned', p.returned, e.returned),
			('lapsed', p.lapsed, e.lapsed)) AS c (name, found, expected)
	WHERE (p.drawn, p.held, p.spent, p.refunded, p.returned, p.lapsed)
			IS DISTINCT FROM
			(e.drawn, e.held, e.spent, e.refunded, e.returned, e.lapsed)
		AND c.expected IS DISTINCT FROM c.found;
END;
COMMENT ON FUNCTION gpucredit_internal.part_difference(text, text) IS
'Hold parts whose figures differ from their entries; found NULL: the part is missing; expected NULL: it has no entries.';

CREATE FUNCTION gpucredit_internal.hold_difference(from_org text, to_org text)
RETURNS SETOF gpucredit.difference
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(h.org, e.org), NULL::bigint, coalesce(h.hold, e.hold),
		NULL::int, c.name, c.found, coalesce(c.expected, '0'),
		coalesce(least(e.held, e.spent, e.refunded, e.returned, e.lapsed)
			>= '0', true)
	FROM (SELECT * FROM gpucredit.hold h
			WHERE gpucredit_internal.in_orgs(h.org,
				hold_difference.from_org, hold_difference.to_org)) h
		FULL JOIN (SELECT e.org, e.hold, sum(e.drawn) AS drawn,
				sum(e.held) AS held, sum(e.spent) AS spent,
				sum(e.refunded) AS refunded,
				sum(e.returned) AS returned, sum(e.lapsed) AS lapsed
			FROM gpucredit_internal.entry_by_part(hold_difference.from_org, hold_difference.to_org) e
			GROUP BY e.org, e.hold) e
			ON e.org = h.org AND e.hold = h.hold
		CROSS JOIN LATERAL (VALUES ('drawn', h.drawn, e.drawn),
			('held', h.held, e.held), ('captured', h.captured, e.spent),
			('refunded', h.refunded, e.refunded),
			('released', h.released, e.returned),
			('lapsed', h.lapsed, e.lapsed)) AS c (name, found, expected)
	WHERE (h.drawn, h.held, h.captured, h.refunded, h.released, h.lapsed)
			IS DISTINCT FROM
			(e.drawn, e.held, e.spent, e.refunded, e.returned, e.lapsed)
		AND CASE WHEN h.hold IS NULL THEN c.name = 'drawn'
			ELSE coalesce(c.expected, '0') <> c.found END;
END;
COMMENT ON FUNCTION gpucredit_internal.hold_difference(text, text) IS
'Holds whose figures differ from their entries; found NULL: the hold is missing.';

/* Running attempts whose used figure differs from their last usage row. */
CREATE FUNCTION gpucredit_internal.used_difference(from_org text, to_org text)
RETURNS TABLE (org text, job bigint, attempt int, found gpucredit.credits,
	expected gpucredit.credits)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT a.org, a.job, a.attempt, a.used, u.billed
	FROM gpucredit.attempt a
		LEFT JOIN LATERAL (SELECT u.billed FROM gpucredit.usage u
			WHERE a.ended_at IS NULL AND u.org = a.org AND u.job = a.job
				AND u.attempt = a.attempt
			ORDER BY u.elapsed DESC, u.at DESC LIMIT 1) l ON true
		CROSS JOIN LATERAL (SELECT coalesce(l.billed, '0') AS billed) u
	WHERE (a.ended_at IS NULL OR a.used <> '0')
		AND gpucredit_internal.in_orgs(a.org,
			used_difference.from_org, used_difference.to_org)
		AND a.used <> u.billed;
END;
COMMENT ON FUNCTION gpucredit_internal.used_difference(text, text) IS
'Attempts whose used figure differs from their last usage row, or from 0 if they are over.';

/*
 * What accounts and all accounts below them hold and have spent according to
 * entries, and use according to running attempts, where it differs from what
 * is recorded.
 */
CREATE FUNCTION gpucredit_internal.total_difference(from_org text, to_org text)
RETURNS TABLE (org text, account text, what text, found numeric,
	expected numeric)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH own AS (
		SELECT d.org, d.account, coalesce(sum(d.spent), 0) AS spent,
			coalesce(sum(d.held), 0) AS held, sum(d.used) AS used
		FROM (SELECT e.org, e.account, sum(CASE 'spent'
					WHEN e.target THEN e.amount
					WHEN e.source THEN - e.amount END)::numeric AS spent,
					sum(CASE 'held' WHEN e.target THEN e.amount
						WHEN e.source THEN - e.amount END)::numeric AS held,
					0 AS used
				FROM gpucredit.entry e
				WHERE gpucredit_internal.in_orgs(e.org,
					total_difference.from_org, total_difference.to_org)
				GROUP BY e.org, e.account, e.bucket
			UNION ALL
			SELECT n.org, n.account, n.spent::numeric, n.held::numeric, 0
			FROM gpucredit.closing_net n
			WHERE gpucredit_internal.in_orgs(n.org,
				total_difference.from_org, total_difference.to_org)
			UNION ALL
			SELECT a.org, a.account, 0, 0, a.used::numeric
			FROM gpucredit.attempt a
			WHERE a.ended_at IS NULL AND gpucredit_internal.in_orgs(a.org,
				total_difference.from_org, total_difference.to_org)
			UNION ALL
			SELECT d.org, d.account, - d.spent::numeric, - d.held::numeric,
				- d.used::numeric
			FROM gpucredit.account_delta d
			WHERE gpucredit_internal.in_orgs(d.org,
				total_difference.from_org, total_difference.to_org)) d
		GROUP BY d.org, d.account),
	expected AS (
		SELECT p.org, p.account, sum(p.spent) AS spent, sum(p.held) AS held,
			sum(p.used) AS used
		FROM (SELECT o.org, o.spent, o.held, o.used,
				unnest(gpucredit_internal.account_path(o.account)) AS account
			FROM own o) p
		GROUP BY p.org, p.account)
	SELECT coalesce(t.org, e.org), coalesce(t.account, e.account), c.what,
		coalesce(c.found, 0.000000), coalesce(c.expected, 0.000000)
	FROM (SELECT * FROM gpucredit.account_total t
			WHERE gpucredit_internal.in_orgs(t.org,
				total_difference.from_org, total_difference.to_org)) t
		FULL JOIN expected e ON e.org = t.org AND e.account = t.account
		CROSS JOIN LATERAL (VALUES ('spent', t.spent, e.spent),
			('held', t.held, e.held), ('used', t.used, e.used))
			AS c (what, found, expected)
	WHERE (t.spent, t.held, t.used) IS DISTINCT FROM (e.spent, e.held, e.used)
		AND coalesce(c.found, 0) <> coalesce(c.expected, 0);
END;
COMMENT ON FUNCTION gpucredit_internal.total_difference(text, text) IS
'Accounts whose totals, unfolded changes aside, differ from entries and attempts.';

/*
 * What attempts used on each day, where it differs from what is recorded.  Use
 * on a day is the change of what the attempts had accrued: each row of accrued
 * adds its amount to its own day and subtracts it from the next day.  A
 * running attempt adds what it has used to the day of its last usage row,
 * which is the first day without a row in accrued.  If an attempt has a record
 * of an earlier instant than the record before, because a clock was set back
 * or a heartbeat waited for a lock, its use may count on another day: on any
 * from the day of the earlier instant to the day after the later one.  Such
 * days of an account are only compared by their sum, unless upkeep has deleted
 * one of them.
 */
CREATE FUNCTION gpucredit_internal.use_day_difference(from_org text, to_org text)
RETURNS TABLE (org text, account text, day date, found numeric,
	expected numeric)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH own AS (
		SELECT c.org, c.account, v.day, v.sign * c.billed::numeric AS used
		FROM gpucredit.accrued c
			CROSS JOIN LATERAL (VALUES (c.day, 1), (c.day + 1, -1))
				AS v (day, sign)
		WHERE gpucredit_internal.in_orgs(c.org,
			use_day_difference.from_org, use_day_difference.to_org)
			AND c.day >= (SELECT min(d.day) - 1 FROM gpucredit.spend_day d)
		UNION ALL
		SELECT a.org, a.account, (u.at AT TIME ZONE 'UTC')::date,
			a.used::numeric
		FROM gpucredit.attempt a
			CROSS JOIN LATERAL (SELECT u.at FROM gpucredit.usage u
				WHERE u.org = a.org AND u.job = a.job
					AND u.attempt = a.attempt
				ORDER BY u.at DESC LIMIT 1) u
		WHERE a.ended_at IS NULL AND a.used <> '0'
			AND gpucredit_internal.in_orgs(a.org,
				use_day_difference.from_org, use_day_difference.to_org)
		UNION ALL
		SELECT d.org, d.account, (d.at AT TIME ZONE 'UTC')::date,
			- d.used::numeric
		FROM gpucredit.account_delta d
		WHERE d.used <> '0' AND gpucredit_internal.in_orgs(d.org,
			use_day_difference.from_org, use_day_difference.to_org)),
	expected AS (
		SELECT p.org, p.account, p.day, sum(p.used) AS used
		FROM (SELECT x.org, x.day, x.used,
				unnest(gpucredit_internal.account_path(x.account)) AS account
			FROM (SELECT o.org, o.account, o.day, sum(o.used) AS used
				FROM own o GROUP BY o.org, o.account, o.day) x) p
		GROUP BY p.org, p.account, p.day),
	wrong AS MATERIALIZED (
		SELECT coalesce(s.org, e.org) AS org,
			coalesce(s.account, e.account) AS account,
			coalesce(s.day, e.day) AS day, s.used AS found,
			coalesce(e.used, 0.000000) AS expected
		FROM (SELECT d.org, d.account, d.day, d.used FROM gpucredit.spend_day d
				WHERE gpucredit_internal.in_orgs(d.org,
					use_day_difference.from_org, use_day_difference.to_org)) s
			FULL JOIN expected e ON e.org = s.org AND e.account = s.account
				AND e.day = s.day
		WHERE coalesce(s.used, 0) <> coalesce(e.used, 0)),
	repeated AS (		/* attempts whose records are not in the order of time */
		SELECT m.org, m.account, daterange((m.at AT TIME ZONE 'UTC')::date,
				(m.latest AT TIME ZONE 'UTC')::date + 2) AS days
		FROM (SELECT a.org, a.account, r.at, max(r.at) OVER (
					PARTITION BY a.org, a.job, a.attempt
					ORDER BY r.elapsed, r.at ROWS UNBOUNDED PRECEDING) AS latest
			FROM gpucredit.attempt a
				CROSS JOIN LATERAL (SELECT u.elapsed, u.at
					FROM gpucredit.usage u
					WHERE u.org = a.org AND u.job = a.job
						AND u.attempt = a.attempt
					UNION ALL
					SELECT NULL, a.ended_at
					WHERE a.ended_at IS NOT NULL) r
			WHERE a.org IN (SELECT w.org FROM wrong w
				WHERE w.found IS NOT NULL)) m
		WHERE m.at < m.latest),
	span AS (
		SELECT r.org, r.account, d.days
		FROM (SELECT r.org, p.account, range_agg(r.days) AS days
			FROM repeated r,
				unnest(gpucredit_internal.account_path(r.account)) AS p (account)
			GROUP BY r.org, p.account) r
			CROSS JOIN LATERAL unnest(r.days) AS d (days))
	SELECT w.org, w.account, w.day, w.found, w.expected
	FROM (SELECT w.*, s.days, sum(coalesce(w.found, 0) - w.expected) OVER (
				PARTITION BY w.org, w.account, s.days) AS rest
		FROM wrong w
			LEFT JOIN span s ON s.org = w.org AND s.account = w.account
				AND w.day <@ s.days) w
	WHERE w.found IS NOT NULL
		AND (w.days IS NULL OR (w.rest <> 0 AND lower(w.days)
			>= (SELECT min(d.day) FROM gpucredit.spend_day d)));
END;
COMMENT ON FUNCTION gpucredit_internal.use_day_difference(text, text) IS
'Days whose recorded use differs from what attempts had accrued.';

/*
 * Compares each day that is kept with the entries of the day, less deltas that
 * are not folded.  Days that upkeep has deleted, and days with removed
 * entries, are not compared.
 */
CREATE FUNCTION gpucredit_internal.spend_day_difference(from_org text, to_org text)
RETURNS TABLE (org text, account text, day date, what text, found numeric,
	expected numeric)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT s.org, s.account, s.day, 'spent', s.spent,
		coalesce(e.spent, 0.000000)
	FROM gpucredit.spend_day s
		LEFT JOIN (SELECT p.org, p.account, p.day, sum(p.spent) AS spent
			FROM (SELECT x.org, x.day, x.spent, unnest(
				gpucredit_internal.account_path(x.account)) AS account
			FROM (SELECT e.org, e.account,
					(e.at AT TIME ZONE 'UTC')::date AS day,
					sum(CASE 'spent' WHEN e.target THEN e.amount
						ELSE - e.amount END)::numeric AS spent
				FROM gpucredit.entry e
				WHERE 'spent' IN (e.source, e.target)
					AND gpucredit_internal.in_orgs(e.org,
						spend_day_difference.from_org, spend_day_difference.to_org)
					AND e.at >= (SELECT min(d.day)::timestamp
							FROM gpucredit.spend_day d) AT TIME ZONE 'UTC'
				GROUP BY e.org, e.account, e.bucket, 3
				UNION ALL
				SELECT d.org, d.account, d.day, - d.spent::numeric
				FROM gpucredit.account_delta d
				WHERE d.day IS NOT NULL
					AND gpucredit_internal.in_orgs(d.org,
						spend_day_difference.from_org, spend_day_difference.to_org)) x) p
			GROUP BY p.org, p.account, p.day) e
			ON e.org = s.org AND e.account = s.account AND e.day = s.day
	WHERE gpucredit_internal.in_orgs(s.org,
		spend_day_difference.from_org, spend_day_difference.to_org)
		AND s.spent <> coalesce(e.spent, 0)
		AND coalesce(s.day > (gpucredit_internal.kept_from('entry')
			AT TIME ZONE 'UTC')::date,
			true)
	UNION ALL
	SELECT u.org, u.account, u.day, 'used', u.found, u.expected
	FROM gpucredit_internal.use_day_difference(spend_day_difference.from_org, spend_day_difference.to_org) u;
END;
COMMENT ON FUNCTION gpucredit_internal.spend_day_difference(text, text) IS
'Days whose spend differs from the entries, or whose use from what attempts had accrued.';

/* Accounts whose "limits" differ from their budgets and quotas. */
CREATE FUNCTION gpucredit_internal.limits_difference(from_org text, to_org text)
RETURNS TABLE (org text, account text, found jsonb, expected jsonb)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT a.org, a.account, a.limits, l.limits
	FROM gpucredit.account a LEFT JOIN (
		SELECT coalesce(b.org, q.org) AS org,
			coalesce(b.account, q.account) AS account, jsonb_strip_nulls(
				jsonb_build_object('budgets', b.budgets, 'quotas', q.quotas))
				AS limits
		FROM (SELECT b.org, b.account, jsonb_agg(jsonb_build_array(b.period,
					b.amount::numeric, b.hard, b.slices, b.alert_at)
					ORDER BY b.period COLLATE "C") AS budgets
				FROM gpucredit.budget b
				WHERE gpucredit_internal.in_orgs(b.org,
					limits_difference.from_org, limits_difference.to_org)
				GROUP BY b.org, b.account) b
			FULL JOIN (SELECT q.org, q.account, jsonb_agg(jsonb_build_array(
					q.gpu_type, q.max_gpus, q.max_queued IS NOT NULL,
					q.max_cpu_milli, q.max_memory_mib,
					q.max_nonpreemptible_gpus)
					ORDER BY q.gpu_type) AS quotas
				FROM gpucredit.quota q
				WHERE gpucredit_internal.in_orgs(q.org,
					limits_difference.from_org, limits_difference.to_org)
				GROUP BY q.org, q.account) q
				ON q.org = b.org AND q.account = b.account) l
		ON l.org = a.org AND l.account = a.account
	WHERE gpucredit_internal.in_orgs(a.org,
		limits_difference.from_org, limits_difference.to_org)
		AND a.limits IS DISTINCT FROM l.limits;
END;
COMMENT ON FUNCTION gpucredit_internal.limits_difference(text, text) IS
'Accounts whose rows differ from their budgets and quotas.';

CREATE TYPE gpucredit.verify_result AS (invariant text, org text,
	subject text, detail text);
COMMENT ON TYPE gpucredit.verify_result IS
'An invariant that does not hold, and where it breaks.';

/* Checks of buckets */
CREATE FUNCTION gpucredit_internal.check_buckets(from_org text, to_org text)
RETURNS SETOF gpucredit.verify_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE WHEN d.found IS NULL THEN 'entry_has_bucket'
			WHEN d.what = 'lent' THEN 'bucket_is_its_slices'
			ELSE 'bucket_is_its_entries' END, d.org,
		format('bucket %s', d.bucket), format('%s: expected %s, found %s',
			d.what, d.expected, coalesce(d.found::text, 'none'))
	FROM gpucredit_internal.bucket_difference(check_buckets.from_org, check_buckets.to_org) d
	UNION ALL
	SELECT CASE WHEN b.least < '0' THEN 'bucket_not_negative'
			ELSE 'bucket_balanced' END, b.org, format('bucket %s', b.bucket),
		format('issued %s, available %s, held %s, spent %s, expired %s, revoked %s, moved %s',
			b.issued, b.available, b.held, b.spent, b.expired, b.revoked,
			b.moved)
	FROM (SELECT b.*, least(b.issued, b.available, b.held, b.spent,
			b.expired, b.revoked, b.moved) AS least,
			b.available + b.held + b.spent + b.expired + b.revoked + b.moved
				AS whole
		FROM gpucredit.bucket_whole b
		WHERE gpucredit_internal.in_orgs(b.org,
			check_buckets.from_org, check_buckets.to_org)) b
	WHERE b.least < '0' OR b.issued <> b.whole
	UNION ALL
	SELECT 'bucket_is_issued', b.org, format('bucket %s', b.bucket),
		format('account "%s", %s, of %s: nothing was issued to it', b.account,
			b.kind, b.created_at)
	FROM gpucredit.bucket b
	WHERE gpucredit_internal.in_orgs(b.org,
		check_buckets.from_org, check_buckets.to_org)
		AND b.issued <= '0'
	UNION ALL
	/* A sweep writes an entry only if the bucket had credit left. */
	SELECT 'bucket_is_swept_as_booked', b.org, format('bucket %s', b.bucket),
		format('expires %s, swept %s, booked by a sweep %s',
			coalesce(b.expires_at::text, 'never'),
			coalesce(b.swept_at::text, 'never'),
			coalesce(e.at::text, 'never'))
	FROM gpucredit.bucket b
		LEFT JOIN (SELECT e.org, e.bucket, max(e.at) AS at
			FROM gpucredit.entry e
			WHERE e.operation = 'expire'
				AND gpucredit_internal.in_orgs(e.org,
					check_buckets.from_org, check_buckets.to_org)
			GROUP BY e.org, e.bucket) e
			ON e.org = b.org AND e.bucket = b.bucket
	WHERE gpucredit_internal.in_orgs(b.org,
		check_buckets.from_org, check_buckets.to_org)
		AND (b.swept_at < b.expires_at OR coalesce(e.at, b.swept_at)
				IS DISTINCT FROM b.swept_at
			OR (b.swept_at IS NOT NULL AND b.expires_at IS NULL))
	UNION ALL
	SELECT 'policy_is_enforced', b.org, format('bucket %s', b.bucket),
		format('policy %s; enforced is %s', b.policy,
			jsonb_strip_nulls(jsonb_build_object('gpu_types', b.gpu_types,
			'tiers', b.tiers, 'pools', b.pools, 'max_per_job',
			b.max_per_job::numeric, 'max_share', b.max_share)))
	FROM gpucredit.bucket b
	WHERE gpucredit_internal.in_orgs(b.org,
		check_buckets.from_org, check_buckets.to_org)
		AND (to_jsonb(b.gpu_types), to_jsonb(b.tiers), to_jsonb(b.pools),
			to_jsonb(b.max_per_job::numeric), to_jsonb(b.max_share))
			IS DISTINCT FROM (b.policy -> 'gpu_types', b.policy -> 'tiers',
			b.policy -> 'pools', b.policy -> 'max_per_job',
			b.policy -> 'max_share')
	UNION ALL
	SELECT 'drawn_while_active', b.org, format('bucket %s', b.bucket),
		format('drawn from %s to %s, active from %s to %s', e.drawn_first,
			e.drawn_last, b.effective_at,
			coalesce(least(b.expires_at, b.closed_at)::text, 'ever'))
	FROM gpucredit.bucket b
		JOIN (SELECT d.org, d.bucket, min(d.at) AS drawn_first,
				max(d.at) AS drawn_last
			FROM gpucredit.bucket b
				JOIN (SELECT e.org, e.bucket, e.at FROM gpucredit.entry e
					WHERE e.target = 'held'
					UNION ALL
					SELECT c.org, c.bucket, t.at FROM gpucredit.closing c,
						unnest(ARRAY[c.drawn_first, c.drawn_last]) AS t (at)
					WHERE c.drawn IS NOT NULL) d
					ON d.org = b.org AND d.bucket = b.bucket
			WHERE gpucredit_internal.in_orgs(b.org, check_buckets.from_org,
					check_buckets.to_org)
				AND gpucredit_internal.in_orgs(d.org, check_buckets.from_org,
					check_buckets.to_org)
				AND (d.at < b.effective_at OR d.at >= b.expires_at
					OR d.at > b.closed_at)
			GROUP BY d.org, d.bucket) e
			ON e.org = b.org AND e.bucket = b.bucket
	UNION ALL
	SELECT CASE s.what WHEN 'spent' THEN 'spend_is_its_entries'
			WHEN 'held' THEN 'held_is_its_entries' ELSE 'used_is_its_attempts' END,
		s.org, format('account "%s"', s.account),
		format('expected %s, found %s', s.expected, s.found)
	FROM gpucredit_internal.total_difference(check_buckets.from_org, check_buckets.to_org) s
	UNION ALL
	SELECT 'used_is_logged', u.org, format('job %s attempt %s', u.job, u.attempt),
		format('expected %s, found %s', u.expected, u.found)
	FROM gpucredit_internal.used_difference(check_buckets.from_org, check_buckets.to_org) u
	UNION ALL
	SELECT CASE s.what WHEN 'spent' THEN 'spend_day_is_its_entries'
			ELSE 'use_day_is_accrued' END, s.org,
		format('account "%s" on %s', s.account, s.day),
		format('expected %s, found %s', s.expected, s.found)
	FROM gpucredit_internal.spend_day_difference(check_buckets.from_org, check_buckets.to_org) s;
END;
COMMENT ON FUNCTION gpucredit_internal.check_buckets(text, text) IS
'verify: buckets and spend.';

/*
 * Checks of slices: their number is right, and they keep within their limits.
 */
CREATE FUNCTION gpucredit_internal.check_slices(from_org text, to_org text)
RETURNS SETOF gpucredit.verify_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT 'bucket_has_its_slices', coalesce(b.org, s.org),
		format('bucket %s', coalesce(b.bucket, s.bucket)),
		format('over %s slices, there are %s, %s', coalesce(b.spread::text,
			'no bucket'), coalesce(s.n, 0), CASE WHEN b.closed_at IS NULL
			THEN 'open' ELSE 'closed' END)
	FROM (SELECT * FROM gpucredit.bucket b
			WHERE gpucredit_internal.in_orgs(b.org,
				check_slices.from_org, check_slices.to_org) AND b.spread > 0) b
		FULL JOIN (SELECT s.org, s.bucket, count(*) AS n,
				min(s.slice) AS first, max(s.slice) AS last
			FROM gpucredit.bucket_slice s
			WHERE gpucredit_internal.in_orgs(s.org,
				check_slices.from_org, check_slices.to_org)
			GROUP BY s.org, s.bucket) s
			ON s.org = b.org AND s.bucket = b.bucket
	WHERE (b.spread = s.n AND s.first = 1 AND s.last = s.n
		AND b.closed_at IS NULL) IS NOT TRUE
	UNION ALL
	/*
	 * A bucket that no longer pays keeps the number of slices that its account
	 * had then. So does one that was issued while another call changed the
	 * account's number.
	 */
	SELECT 'slices_are_as_set', b.org, format('bucket %s', b.bucket),
		format('over %s slices of %s, the account of %s', b.spread, b.slices,
			a.slices)
	FROM gpucredit.bucket b
		JOIN gpucredit.account a ON a.org = b.org AND a.account = b.account
			AND gpucredit_internal.in_orgs(a.org, check_slices.from_org,
				check_slices.to_org)
	WHERE gpucredit_internal.in_orgs(b.org,
		check_slices.from_org, check_slices.to_org)
		AND (b.spread NOT BETWEEN 0 AND b.slices
			OR (b.slices NOT IN (1, a.slices)
				AND coalesce(a.created_at
					> gpucredit_internal.kept_from('audit'), true)
				AND NOT EXISTS (SELECT FROM gpucredit.audit x
					WHERE x.operation = 'set_slices' AND x.org = b.org
						AND x.account = b.account
						AND x.detail -> 'n' = to_jsonb(b.slices)
			AND gpucredit_internal.in_orgs(x.org, check_slices.from_org,
				check_slices.to_org))))
	UNION ALL
	/*
	 * When slices are folded, their credit counts as coming in, and so does
	 * what rebuild() adds.
	 */
	SELECT 'bucket_has_its_credit', b.org, format('bucket %s', b.bucket),
		format('%s came in, entries say %s', b.credited_total,
			coalesce(e.credited, 0))
	FROM gpucredit.bucket b
		LEFT JOIN (SELECT c.org, c.bucket, sum(c.credited) AS credited
			FROM (SELECT e.org, e.bucket, e.amount::numeric AS credited
				FROM gpucredit.entry e
				WHERE e.target = 'available'
					AND gpucredit_internal.in_orgs(e.org,
						check_slices.from_org, check_slices.to_org)
				UNION ALL
				SELECT c.org, c.bucket, coalesce(c.issued::numeric, 0)
					+ coalesce(c.returned::numeric, 0)
					+ coalesce(c.refunded::numeric, 0)
				FROM gpucredit.closing c
				WHERE gpucredit_internal.in_orgs(c.org,
					check_slices.from_org, check_slices.to_org)) c
			GROUP BY c.org, c.bucket) e
			ON e.org = b.org AND e.bucket = b.bucket
	WHERE gpucredit_internal.in_orgs(b.org,
		check_slices.from_org, check_slices.to_org)
		AND b.credited_total < coalesce(e.credited, 0) AND b.slices = 1
		AND gpucredit_internal.kept_from('audit') IS NULL
		AND NOT EXISTS (SELECT FROM gpucredit.audit a
			WHERE a.operation = 'set_slices' AND a.org = b.org
			AND gpucredit_internal.in_orgs(a.org, check_slices.from_org,
				check_slices.to_org))
	UNION ALL
	SELECT 'slice_is_sound', s.org,
		format('bucket %s slice %s', s.bucket, s.slice),
		format('lent %s, available %s, held %s, spent %s, expired %s',
			s.lent, s.available, s.held, s.spent, s.expired)
	FROM gpucredit.bucket_slice s
	WHERE gpucredit_internal.in_orgs(s.org,
		check_slices.from_org, check_slices.to_org)
		AND NOT gpucredit_internal.slice_is_sound(s.lent, s.available, s.held,
			s.spent, s.expired)
	UNION ALL
	SELECT 'budget_has_its_slices', coalesce(c.org, s.org),
		format('account "%s" %s of %s', coalesce(c.account, s.account),
			coalesce(c.period, s.period),
			coalesce(c.period_start, s.period_start)),
		format('over %s slices, there are %s', coalesce(c.spread::text,
			'no counter'), coalesce(s.n, 0))
	FROM (SELECT * FROM gpucredit.budget_counter c
			WHERE gpucredit_internal.in_orgs(c.org,
				check_slices.from_org, check_slices.to_org) AND c.spread > 0) c
		FULL JOIN (SELECT s.org, s.account, s.period, s.period_start,
				count(*) AS n, min(s.slice) AS first, max(s.slice) AS last
			FROM gpucredit.budget_slice s
			WHERE gpucredit_internal.in_orgs(s.org,
				check_slices.from_org, check_slices.to_org)
			GROUP BY s.org, s.account, s.period, s.period_start) s
			ON s.org = c.org AND s.account = c.account
				AND s.period = c.period AND s.period_start = c.period_start
	WHERE (c.spread = s.n AND s.first = 1 AND s.last = s.n) IS NOT TRUE
	UNION ALL
	SELECT 'budget_is_over_slices', c.org,
		format('account "%s" %s of %s', c.account, c.period, c.period_start),
		format('over %s slices', c.spread)
	FROM gpucredit.budget_counter c
	WHERE gpucredit_internal.in_orgs(c.org,
		check_slices.from_org, check_slices.to_org)
		AND c.spread NOT BETWEEN 0 AND 64
	UNION ALL
	SELECT 'slices_within_budget', c.org,
		format('account "%s" %s of %s', c.account, c.period, c.period_start),
		format('slices may take %s, %s beside them, of %s', s.most,
			c.reserved + c.spent, b.amount)
	FROM gpucredit.budget_counter c
		JOIN gpucredit.budget b ON b.org = c.org AND b.account = c.account
			AND b.period = c.period AND b.hard
		CROSS JOIN LATERAL (SELECT sum(s.most) AS most
			FROM gpucredit.budget_slice s
			WHERE b.hard AND s.org = c.org AND s.account = c.account
				AND s.period = c.period AND s.period_start = c.period_start) s
	WHERE gpucredit_internal.in_orgs(c.org,
		check_slices.from_org, check_slices.to_org)
		AND c.spread > 0 AND c.reserved + c.spent + s.most > b.amount
	UNION ALL
	SELECT 'slice_within_its_most', s.org,
		format('account "%s" %s of %s slice %s', s.account, s.period,
			s.period_start, s.slice),
		format('reserved %s, spent %s, may take %s', s.reserved, s.spent,
			s.most)
	FROM gpucredit.budget_slice s
	WHERE gpucredit_internal.in_orgs(s.org,
		check_slices.from_org, check_slices.to_org)
		AND s.reserved + s.spent > s.most;
END;
COMMENT ON FUNCTION gpucredit_internal.check_slices(text, text) IS
'verify: slices of buckets and budgets.';

/* Checks of holds */
CREATE FUNCTION gpucredit_internal.check_holds(from_org text, to_org text)
RETURNS SETOF gpucredit.verify_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH h AS NOT MATERIALIZED (
		SELECT * FROM gpucredit.hold h
		WHERE gpucredit_internal.in_orgs(h.org,
			check_holds.from_org, check_holds.to_org)),
	p AS NOT MATERIALIZED (
		SELECT * FROM gpucredit.hold_part p
		WHERE gpucredit_internal.in_orgs(p.org,
			check_holds.from_org, check_holds.to_org))
	SELECT 'part_is_its_entries', d.org,
		format('hold %s part %s', d.hold, d.part),
		format('bucket %s, %s: expected %s, found %s', d.bucket, d.what,
			coalesce(d.expected::text, 'none'),
			coalesce(d.found::text, 'none'))
	FROM gpucredit_internal.part_difference(check_holds.from_org, check_holds.to_org) d
	UNION ALL
	SELECT 'hold_is_its_parts', coalesce(h.org, p.org),
		format('hold %s', coalesce(h.hold, p.hold)),
		format('%s: expected %s, found %s', c.name,
			coalesce(c.expected::text, 'none'),
			coalesce(c.found::text, 'none'))
	FROM h
		FULL JOIN (SELECT p.org, p.hold, sum(p.drawn) AS drawn,
				sum(p.held) AS held, sum(p.spent) AS spent,
				sum(p.refunded) AS refunded,
				sum(p.returned) AS returned, sum(p.lapsed) AS lapsed
			FROM p GROUP BY p.org, p.hold) p
			ON p.org = h.org AND p.hold = h.hold
		CROSS JOIN LATERAL (VALUES ('drawn', h.drawn, p.drawn),
			('held', h.held, p.held), ('captured', h.captured, p.spent),
			('refunded', h.refunded, p.refunded),
			('released', h.released, p.returned),
			('lapsed', h.lapsed, p.lapsed)) AS c (name, found, expected)
	WHERE (h.drawn, h.held, h.captured, h.refunded, h.released, h.lapsed)
			IS DISTINCT FROM
			(p.drawn, p.held, p.spent, p.refunded, p.returned, p.lapsed)
		AND c.found IS DISTINCT FROM coalesce(c.expected, '0')
	UNION ALL
	SELECT w.invariant, h.org, format('hold %s', h.hold),
		format('drawn %s, held %s, captured %s, refunded %s, released %s, lapsed %s, closed %s',
			h.drawn, h.held, h.captured, h.refunded, h.released, h.lapsed,
			coalesce(h.closed_at::text, 'never'))
	FROM (SELECT h.*, array_remove(ARRAY[
			CASE WHEN h.drawn <> h.held + h.captured + h.refunded
				+ h.released + h.lapsed THEN 'hold_balanced' END,
			CASE WHEN least(h.held, h.captured, h.refunded, h.released,
				h.lapsed) < '0' THEN 'hold_not_negative' END,
			CASE WHEN h.closed_at IS NOT NULL AND h.held <> '0'
				THEN 'closed_hold_is_empty' END,
			CASE WHEN h.uncollected <= '0' OR (h.uncollected > '0'
				AND h.job IS NOT NULL) THEN 'uncollected_is_of_caller' END],
			NULL) AS broken
		FROM h) h CROSS JOIN LATERAL unnest(h.broken) AS w (invariant)
	WHERE h.broken <> '{}'
	UNION ALL
	SELECT w.invariant, p.org, format('hold %s part %s', p.hold, p.part),
		format('drawn %s, held %s, spent %s, refunded %s, returned %s, lapsed %s',
			p.drawn, p.held, p.spent, p.refunded, p.returned, p.lapsed)
	FROM (SELECT p.*, array_remove(ARRAY[
			CASE WHEN p.drawn <> p.held + p.spent + p.refunded + p.returned
				+ p.lapsed THEN 'part_balanced' END,
			CASE WHEN p.drawn <= '0' OR least(p.held, p.spent, p.refunded,
				p.returned, p.lapsed) < '0' THEN 'part_not_negative' END],
			NULL) AS broken
		FROM p) p CROSS JOIN LATERAL unnest(p.broken) AS w (invariant)
	WHERE p.broken <> '{}'
	UNION ALL
	SELECT 'entry_matches_hold', e.org, format('entry %s', e.entry),
		format('hold %s: expected job %s of "%s", found job %s of "%s"',
			h.hold, coalesce(h.job::text, 'none'), h.account,
			coalesce(e.job::text, 'none'), e.account)
	FROM gpucredit.entry e JOIN h ON h.org = e.org AND h.hold = e.hold
	WHERE gpucredit_internal.in_orgs(e.org,
		check_holds.from_org, check_holds.to_org)
		AND (e.job IS DISTINCT FROM h.job OR e.account <> h.account)
	UNION ALL
	SELECT 'closing_matches_hold', c.org,
		format('archive batch %s hold %s', c.archive_batch, c.hold),
		format('expected job %s of "%s", found job %s of "%s"',
			coalesce(h.job::text, 'none'), coalesce(h.account, '(no hold)'),
			coalesce(c.job::text, 'none'), c.account)
	FROM gpucredit.closing c
		LEFT JOIN h ON h.org = c.org AND h.hold = c.hold
	WHERE gpucredit_internal.in_orgs(c.org,
		check_holds.from_org, check_holds.to_org)
		AND c.hold > 0 AND (h.hold IS NULL
			OR c.job IS DISTINCT FROM h.job OR c.account <> h.account)
	UNION ALL
	SELECT 'bucket_on_path', p.org, format('hold %s part %s', p.hold, p.part),
		format('of account "%s", from a bucket of "%s"', h.account,
			b.account)
	FROM p
		JOIN h ON h.org = p.org AND h.hold = p.hold
		JOIN gpucredit.bucket b ON b.org = p.org AND b.bucket = p.bucket
			AND gpucredit_internal.in_orgs(b.org, check_holds.from_org,
				check_holds.to_org)
	WHERE gpucredit_internal.is_below(h.account, b.account) IS NOT TRUE;
END;
COMMENT ON FUNCTION gpucredit_internal.check_holds(text, text) IS
'verify: holds and their parts.';
