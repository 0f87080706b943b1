/*
 * 82_past.sql: past balances.
 *
 * The entries show the credit at any instant, and budget_log shows the
 * budgets. What a budget had counted at an instant also follows from the
 * entries: a hold counts with its draws in the period since the budget was
 * set, and returns its last draw first.
 */

/*
 * What an account's budgets left free at an instant.  A hold returns its last
 * draw first, like a stack.  So what counts is the credit it had when the
 * budget's period, or the budget itself, began: the lowest level since then
 * does not count, and all above that level does.  For draws at the very
 * instant at which the budget was set, the entry's number decides.  While the
 * budget exists, hold_budget shows whether a hold counts in it.  Of removed
 * draws only the first instant of a hold part is known, so it is used for all
 * of them.
 */
CREATE FUNCTION gpucredit_internal.budget_room_at(org text, account text,
	at timestamptz) RETURNS numeric
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH b AS MATERIALIZED (
		SELECT l.account, l.period, l.amount::numeric AS amount,
			gpucredit_internal.period_start(l.period, budget_room_at.at) AS start,
			s.at AS set_at, s.entry, NOT EXISTS (
				SELECT FROM gpucredit.budget_log r
				WHERE r.org = budget_room_at.org AND r.account = l.account
					AND r.period = l.period AND r.at > budget_room_at.at
					AND (r.amount IS NULL OR r.is_new)) AS lives
		FROM (SELECT DISTINCT ON (l.account, l.period) l.*
				FROM gpucredit.budget_log l
				WHERE l.org = budget_room_at.org AND l.account = ANY (
						gpucredit_internal.account_path(budget_room_at.account))
					AND l.at <= budget_room_at.at
				ORDER BY l.account, l.period, l.at DESC) l
			CROSS JOIN LATERAL (SELECT s.at, s.entry
				FROM gpucredit.budget_log s
				WHERE s.org = budget_room_at.org AND s.account = l.account
					AND s.period = l.period AND s.at <= budget_room_at.at
					AND s.is_new
				ORDER BY s.at DESC LIMIT 1) s
		WHERE l.amount IS NOT NULL AND l.hard),
	e AS (
		SELECT e.account, e.hold, e.at, e.entry,
			(CASE WHEN e.target = 'held' THEN e.amount
				WHEN e.target <> 'spent' THEN - e.amount
				ELSE '0' END)::numeric AS net,
			(CASE 'held' WHEN e.target THEN e.amount
				WHEN e.source THEN - e.amount
				ELSE '0' END)::numeric AS held
		FROM gpucredit.entry e
		WHERE e.org = budget_room_at.org AND e.at <= budget_room_at.at
			AND e.hold IS NOT NULL
		UNION ALL
		SELECT n.account, n.hold, n.drawn_first, 0,
			(n.drawn - n.returned - n.lapsed - n.refunded)::numeric,
			n.held::numeric
		FROM gpucredit.closing_net n
		WHERE n.org = budget_room_at.org AND n.hold > 0),
	f AS (
		SELECT b.account, b.period, b.start, b.lives, e.hold, e.net, e.held,
			e.at < greatest(b.start, b.set_at)
				OR (e.at = b.set_at AND e.entry <= b.entry) AS before,
			sum(e.net) OVER (PARTITION BY b.account, b.period, e.hold
				ORDER BY e.at, e.entry) AS level
		FROM b JOIN e ON gpucredit_internal.is_below(e.account, b.account)),
	h AS (
		SELECT f.account, f.period, f.start, f.lives, f.hold,
			sum(f.net) AS net, sum(f.held) AS held,
			least(coalesce(sum(f.net) FILTER (WHERE f.before), 0),
				min(f.level) FILTER (WHERE NOT f.before)) AS floor
		FROM f GROUP BY f.account, f.period, f.start, f.lives, f.hold)
	SELECT min(b.amount - coalesce(c.counted, 0))
	FROM b LEFT JOIN (
		SELECT h.account, h.period, sum(greatest(h.net
			- CASE WHEN d.expires_at <= budget_room_at.at THEN h.held ELSE 0 END
			- h.floor, 0)) AS counted
		FROM h LEFT JOIN gpucredit.hold d ON d.org = budget_room_at.org
			AND d.hold = h.hold
		WHERE NOT h.lives OR EXISTS (SELECT FROM gpucredit.hold_budget w
			WHERE w.org = budget_room_at.org AND w.hold = h.hold
				AND w.account = h.account AND w.period = h.period
				AND w.period_start = h.start)
		GROUP BY h.account, h.period) c
		ON c.account = b.account AND c.period = b.period;
END;
COMMENT ON FUNCTION gpucredit_internal.budget_room_at(text, text, timestamptz) IS
'What the tightest hard budget on an account''s path had left at a past instant; NULL: no budget.';

/*
 * Computes a past balance from the entries.  Use is that of the last
 * heartbeat, if this was before the instant, else that of the usage rows.
 */
CREATE FUNCTION gpucredit_internal.balance_at(org text, account text,
	at timestamptz) RETURNS SETOF gpucredit.balance_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH flow AS MATERIALIZED (
		SELECT f.bucket, f.hold, f.account, f.available, f.held, f.spent,
			coalesce(h.expires_at <= balance_at.at, false) AS dead
		FROM (SELECT e.bucket, e.hold, e.account,
				coalesce(sum(CASE 'available' WHEN e.target THEN e.amount
					WHEN e.source THEN - e.amount END), '0') AS available,
				coalesce(sum(CASE 'held' WHEN e.target THEN e.amount
					WHEN e.source THEN - e.amount END), '0') AS held,
				coalesce(sum(CASE 'spent' WHEN e.target THEN e.amount
					WHEN e.source THEN - e.amount END), '0') AS spent
			FROM gpucredit.entry e
			WHERE e.org = balance_at.org AND e.at <= balance_at.at
			GROUP BY e.bucket, e.hold, e.account
			UNION ALL
			SELECT n.bucket, nullif(n.hold, 0), n.account, n.available,
				n.held, n.spent
			FROM gpucredit.closing_net n WHERE n.org = balance_at.org) f
			LEFT JOIN gpucredit.hold h ON h.org = balance_at.org
				AND h.hold = f.hold)
	SELECT r.*
	FROM (SELECT array_agg(b.kind) AS kinds,
			array_agg(b.expires_at) AS expiries,
			array_agg(f.available) AS amounts
		FROM gpucredit.bucket b
			JOIN (SELECT f.bucket, sum(f.available + CASE WHEN f.dead
					THEN f.held ELSE '0' END)::numeric AS available
				FROM flow f GROUP BY f.bucket) f ON f.bucket = b.bucket
		WHERE b.org = balance_at.org
			AND b.account = ANY (gpucredit_internal.account_path(balance_at.account))
			AND coalesce(b.closed_at > balance_at.at, true)
			AND b.effective_at <= balance_at.at
			AND coalesce(b.expires_at > balance_at.at, true)) b,
	(SELECT sum(f.held::numeric) FILTER (WHERE NOT f.dead) AS held,
			sum(f.spent::numeric) AS spent
		FROM flow f
		WHERE gpucredit_internal.is_below(f.account, balance_at.account)) f,
	(SELECT sum((CASE WHEN a.ended_at IS NULL
			AND coalesce(a.heard_at <= balance_at.at, true)
			THEN gpucredit_internal.bill(a.per_hour, 1, 1000,
			a.elapsed, a.held)
			ELSE (SELECT u.billed FROM gpucredit.usage u
				WHERE u.org = balance_at.org AND u.job = a.job
					AND u.attempt = a.attempt AND u.at <= balance_at.at
				ORDER BY u.elapsed DESC LIMIT 1)
			END)::numeric) AS used
		FROM gpucredit.attempt a
		WHERE a.org = balance_at.org
			AND gpucredit_internal.is_below(a.account, balance_at.account)
			AND a.started_at <= balance_at.at
			AND coalesce(a.ended_at > balance_at.at, true)) a,
	LATERAL gpucredit_internal.balance_of(gpucredit_internal.budget_room_at(balance_at.org,
		balance_at.account, balance_at.at), f.held, a.used, f.spent, b.kinds,
		b.expiries, b.amounts) r;
END;
COMMENT ON FUNCTION gpucredit_internal.balance_at(text, text, timestamptz) IS
'The balance at a past instant, from the entries and closings.';
