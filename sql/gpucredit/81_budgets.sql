/*
 * 81_budgets.sql: what budgets have left.
 *
 * A dead hold's part counts as free, whether or not it was released.
 */
CREATE FUNCTION gpucredit.budgets(org text, account text DEFAULT '')
RETURNS SETOF gpucredit.budgets_row
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT gpucredit.require_account(org, account);
	SELECT b.account, b.period, t.start, b.amount::numeric, r.reserved,
		r.spent, b.amount::numeric - r.reserved - r.spent, b.hard
	FROM (SELECT gpucredit.now() AS at OFFSET 0) n
		CROSS JOIN gpucredit.budget b
		CROSS JOIN LATERAL (SELECT
			gpucredit.period_start(b.period, n.at) AS start) t
		LEFT JOIN gpucredit.budget_count c ON c.org = budgets.org
			AND c.account = b.account AND c.period = b.period
			AND c.period_start = t.start
		CROSS JOIN LATERAL (SELECT coalesce(c.reserved, '0')::numeric
			- coalesce((SELECT sum(hb.reserved)::numeric
				FROM gpucredit.hold h JOIN gpucredit.hold_budget hb
					ON hb.org = h.org AND hb.hold = h.hold
				WHERE h.org = budgets.org AND h.closed_at IS NULL
					AND h.expires_at <= n.at AND hb.account = b.account
					AND hb.period = b.period
					AND hb.period_start = t.start), 0),
			coalesce(c.spent, '0')::numeric) r (reserved, spent)
	WHERE b.org = budgets.org
		AND b.account = ANY (gpucredit.account_path(budgets.account))
	ORDER BY length(b.account) DESC, b.period;
END;
COMMENT ON FUNCTION gpucredit.budgets(text, text) IS
'The budgets on an account''s path, nearest first, with what the present period has left.
Errors: UC001 no such account; 22023.';
