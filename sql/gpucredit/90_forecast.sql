/*
 * 90_forecast.sql: who has how much credit, and when it runs out.
 *
 * burn_rate() and the page of gpucredit_report show these figures.  A
 * report_scope describes what a report covers: one organisation or all, a time
 * span, and, if the caller is a tenant, its accounts.
 */
CREATE TYPE gpucredit.report_scope AS (org text, since timestamptz,
	until timestamptz, at timestamptz, narrow boolean, orgs text[],
	accounts text[]);
COMMENT ON TYPE gpucredit.report_scope IS
'The scope of a report: its time, organisations and accounts.';

CREATE TYPE gpucredit.report_bucket AS (org text, account text,
	expires_at timestamptz, available numeric);
COMMENT ON TYPE gpucredit.report_bucket IS
'A bucket in a report: its credit, and when it expires.';

/*
 * The credit that is available now, by owner and expiry, including credit in
 * expired holds.  As in buckets(), a tenant sees the buckets that it may
 * spend, including those of accounts above its own.
 *
 * A report over all organisations reads every bucket and shows organisations
 * only, so it gets no accounts.  A million buckets may have as many instants of
 * expiry; there, those that expire within one hour count as one, and expire
 * with the first of them.  The sums are computed by hashing, because sorting as many
 * rows takes longer than reading them.
 */
CREATE FUNCTION gpucredit_internal.report_credit(scope gpucredit.report_scope)
RETURNS SETOF gpucredit.report_bucket
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_sort = off
BEGIN ATOMIC
	WITH path AS MATERIALIZED (
		SELECT DISTINCT v.org, p.account
		FROM unnest(scope.orgs, scope.accounts) AS v (org, account)
			CROSS JOIN LATERAL unnest(gpucredit_internal.account_path(v.account))
				AS p (account))
	SELECT c.org, c.account, min(c.expires_at), gpucredit_internal.sum_numeric(c.amount)
	FROM (SELECT b.org, NULL::text AS account, b.effective_at, b.expires_at,
			b.closed_at, b.available AS amount
		FROM gpucredit.bucket b
		WHERE scope.org IS NULL AND NOT scope.narrow
		UNION ALL
		SELECT b.org, b.account, b.effective_at, b.expires_at, b.closed_at,
			b.available
		FROM gpucredit.bucket b
		WHERE scope.org IS NOT NULL AND b.org = scope.org
			AND (NOT scope.narrow OR EXISTS (SELECT FROM path p
				WHERE p.org = b.org AND p.account = b.account))
		UNION ALL		/* a tenant of several organisations */
		SELECT b.org, b.account, b.effective_at, b.expires_at, b.closed_at,
			b.available
		FROM (SELECT p.* FROM path p WHERE scope.org IS NULL AND scope.narrow) p
			JOIN gpucredit.bucket b ON b.org = p.org AND b.account = p.account
		UNION ALL		/* what slices have, and what expired holds return */
		SELECT b.org, CASE WHEN scope.org IS NOT NULL OR scope.narrow
				THEN b.account END, b.effective_at, b.expires_at, b.closed_at,
			r.amount
		FROM (SELECT s.org, s.bucket, s.available AS amount
				FROM gpucredit.bucket_slice s
				WHERE scope.org IS NULL OR s.org = scope.org
				UNION ALL
				SELECT h.org, p.bucket, p.held
				FROM gpucredit.hold h
					JOIN gpucredit.hold_part p ON p.org = h.org AND p.hold = h.hold
				WHERE (scope.org IS NULL OR h.org = scope.org) AND h.job IS NULL
					AND h.closed_at IS NULL AND h.expires_at <= scope.at) r
			JOIN gpucredit.bucket b ON b.org = r.org AND b.bucket = r.bucket
		WHERE NOT scope.narrow OR EXISTS (SELECT FROM path p
			WHERE p.org = b.org AND p.account = b.account)) c
	WHERE c.closed_at IS NULL AND c.effective_at <= scope.at
		AND coalesce(c.expires_at > scope.at, true)
	GROUP BY c.org, c.account, CASE WHEN scope.org IS NOT NULL OR scope.narrow
		THEN c.expires_at
		ELSE date_bin('1 hour', c.expires_at, '2000-01-01 00:00+00') END
	HAVING gpucredit_internal.sum_numeric(c.amount) <> 0;
END;
COMMENT ON FUNCTION gpucredit_internal.report_credit(gpucredit.report_scope) IS
'burn_rate, report_html: what active buckets have available now, by owner and expiry; of all organisations by hour of expiry, without their accounts.';

/*
 * What these accounts and all below them hold: recorded totals and deltas that
 * are not folded, less what is in expired holds.  None of the accounts may be
 * below another.
 */
CREATE FUNCTION gpucredit_internal.report_held(orgs text[], accounts text[],
	at timestamptz)
RETURNS TABLE (org text, held numeric)
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	WITH top AS MATERIALIZED (
		SELECT v.org, v.account
		FROM unnest(report_held.orgs, report_held.accounts) AS v (org, account))
	SELECT s.org, sum(s.held)
	FROM (SELECT t.org, t.held
		FROM top v JOIN gpucredit.account_total t ON t.org = v.org
			AND t.account = v.account
		UNION ALL
		SELECT d.org, d.held::numeric
		FROM gpucredit.account_delta d
			CROSS JOIN LATERAL unnest(gpucredit_internal.account_path(d.account))
				AS p (account)
			JOIN top v ON v.org = d.org AND v.account = p.account
		WHERE d.held <> '0'
		UNION ALL
		SELECT h.org, - h.held::numeric
		FROM gpucredit.hold h
			CROSS JOIN LATERAL unnest(gpucredit_internal.account_path(h.account))
				AS p (account)
			JOIN top v ON v.org = h.org AND v.account = p.account
		WHERE h.closed_at IS NULL AND h.expires_at <= report_held.at) s
	GROUP BY s.org;
END;
COMMENT ON FUNCTION gpucredit_internal.report_held(text[], text[], timestamptz) IS
'burn_rate, report_html: what these accounts and all below them hold, by organisation.';

/*
 * The spend per day, averaged over the last 7 UTC days and today so far, or
 * over the account's age if that is less, but over at least one day.  The
 * function adds the days that upkeep keeps and deltas that are not folded, and
 * reads no job: the cost of running attempts counts when it is logged, every
 * gpucredit.usage_interval.
 */
CREATE FUNCTION gpucredit_internal.spend_rate(orgs text[], accounts text[],
	at timestamptz)
RETURNS TABLE (org text, account text, today numeric, week numeric,
	per_day numeric)
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	WITH t AS MATERIALIZED (
		SELECT d.today, d.today - 7 AS first,
			gpucredit_internal.utc_midnight(d.today - 7) AS first_at
		FROM (SELECT gpucredit_internal.utc_day(greatest(spend_rate.at,
			'4700-01-01 00:00+00 BC')) AS today) d),
	told AS MATERIALIZED (
		SELECT a.org, a.account, greatest(1, extract(epoch FROM spend_rate.at
			- greatest(t.first_at, a.created_at)) / 86400) AS days
		FROM t CROSS JOIN unnest(spend_rate.orgs, spend_rate.accounts)
				AS v (org, account)
			JOIN gpucredit.account a ON a.org = v.org
				AND a.account = v.account),
	used AS (		/* each account itself, without the accounts below it */
		SELECT d.org, d.account, d.day, d.spent
		FROM t CROSS JOIN LATERAL (SELECT d.org, d.account,
				gpucredit_internal.delta_day(d.day, d.at, d.used::numeric) AS day,
				d.spent::numeric + d.used::numeric AS spent
			FROM gpucredit.account_delta d) d
		WHERE d.day BETWEEN t.first AND t.today
			AND d.org IN (SELECT o.org FROM told o)),
	spend AS (
		SELECT s.org, s.account, s.day, s.spent + s.used AS spent
		FROM t CROSS JOIN told o
			JOIN gpucredit.spend_day s ON s.org = o.org
				AND s.account = o.account AND s.day BETWEEN t.first AND t.today
		UNION ALL
		SELECT u.org, p.account, u.day, u.spent
		FROM (SELECT u.org, u.account, u.day, sum(u.spent) AS spent
				FROM used u GROUP BY 1, 2, 3) u
			CROSS JOIN LATERAL unnest(gpucredit_internal.account_path(u.account))
				AS p (account))
	SELECT o.org, o.account, coalesce(s.today, 0), coalesce(s.week, 0),
		round(coalesce(s.week, 0) / o.days, 6)
	FROM told o
		LEFT JOIN (SELECT s.org, s.account,
				sum(s.spent) FILTER (WHERE s.day = t.today) AS today,
				sum(s.spent) AS week
			FROM t CROSS JOIN spend s
			GROUP BY s.org, s.account) s
			ON s.org = o.org AND s.account = o.account;
END;
COMMENT ON FUNCTION gpucredit_internal.spend_rate(text[], text[], timestamptz) IS
'What accounts and all below them spent, less refunds: on the UTC day of an instant until it, in the 7 days before, and per day on average of these, or since the account was created.';

/*
 * When credit runs out.  Spending uses the credit that expires soonest first.
 * So the credit lasts until the earliest of t + (all credit - credit that has
 * expired by t) / rate, where t is each expiry and the present instant.  More
 * than ten years ahead counts as never.  All organisations are computed by one
 * query, because a call for each of thousands would cost more than the rest of
 * burn_rate().
 */
CREATE FUNCTION gpucredit_internal.runs_out(orgs text[], rates numeric[],
	owners text[], expiries timestamptz[], amounts numeric[], at timestamptz)
RETURNS TABLE (org text, runs_out timestamptz)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT r.org, min(g.t + make_interval(secs => (l.days * 86400)::float8))
	FROM unnest(runs_out.orgs, runs_out.rates) AS r (org, per_day)
		JOIN (SELECT e.org, e.t, sum(e.amount) OVER (PARTITION BY e.org)
					- sum(e.amount) OVER (PARTITION BY e.org ORDER BY e.t)
				AS rest
			FROM (SELECT x.org, x.t, sum(x.amount) AS amount
				FROM (SELECT o.org, runs_out.at, 0
					FROM unnest(runs_out.orgs) AS o (org)
					UNION ALL
					SELECT * FROM unnest(runs_out.owners, runs_out.expiries,
						runs_out.amounts)) AS x (org, t, amount)
				GROUP BY x.org, x.t) e) g ON g.org = r.org
		CROSS JOIN LATERAL (SELECT CASE WHEN g.rest <= 0 THEN 0
			WHEN r.per_day > 0 AND g.rest / r.per_day < 3653
			THEN g.rest / r.per_day END AS days) l
	GROUP BY r.org;
END;
COMMENT ON FUNCTION gpucredit_internal.runs_out(text[], numeric[], text[],
	timestamptz[], numeric[], timestamptz) IS
'When the credit of each organisation is used up or expired at its rate of spend a day, the soonest to expire first; NULL: not within ten years. owners, expiries (NULL: never), amounts: the credit. Each organisation of orgs is there once.';

/*
 * One row per organisation (account is NULL), or per owner within a single
 * organisation.
 */
CREATE TYPE gpucredit.report_owner AS (org text, account text,
	available numeric, held numeric, per_day numeric, expiries timestamptz[],
	amounts numeric[], runs_out timestamptz);
COMMENT ON TYPE gpucredit.report_owner IS
'An account in a report: its credit, and when that runs out.';

CREATE FUNCTION gpucredit_internal.report_owners(scope gpucredit.report_scope)
RETURNS SETOF gpucredit.report_owner
LANGUAGE sql STABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	WITH top AS MATERIALIZED (
		SELECT a.org::text AS org, a.account::text AS account
		FROM gpucredit.account a
		WHERE NOT scope.narrow AND a.account = ''
			AND (scope.org IS NULL OR a.org = scope.org)
		UNION ALL
		SELECT v.org, v.account
		FROM unnest(scope.orgs, scope.accounts) AS v (org, account)
		WHERE NOT EXISTS (
			SELECT FROM unnest(scope.orgs, scope.accounts) AS u (org, account)
			WHERE u.org = v.org AND u.account = ANY (
				(gpucredit_internal.account_path(v.account))[2:]))),
	credit AS MATERIALIZED (
		SELECT c.* FROM gpucredit_internal.report_credit(scope) c),
	each AS MATERIALIZED (
		SELECT array_agg(t.org) AS orgs, array_agg(t.account) AS accounts
		FROM top t),
	rate AS MATERIALIZED (
		SELECT t.org, coalesce(r.per_day, 0.000000) AS per_day
		FROM (SELECT DISTINCT top.org FROM top) t
			LEFT JOIN (SELECT r.org, sum(r.per_day) AS per_day
				FROM each CROSS JOIN LATERAL gpucredit_internal.spend_rate(
					each.orgs, each.accounts, scope.at) r
				GROUP BY r.org) r ON r.org = t.org),
	pile AS (
		SELECT c.org, NULL AS account, sum(c.available) AS available,
			array_agg(c.expires_at) AS expiries,
			array_agg(c.available) AS amounts
		FROM credit c
		GROUP BY c.org
		UNION ALL
		SELECT c.org, c.account, sum(c.available), array_agg(c.expires_at),
			array_agg(c.available)
		FROM credit c
		WHERE scope.org IS NOT NULL
		GROUP BY c.org, c.account)
	SELECT r.org, NULL, coalesce(p.available, 0.000000),
		coalesce(h.held, 0.000000), r.per_day, coalesce(p.expiries, '{}'),
		coalesce(p.amounts, '{}'), o.runs_out
	FROM rate r
		LEFT JOIN pile p ON p.org = r.org AND p.account IS NULL
		LEFT JOIN (SELECT h.*
			FROM each CROSS JOIN LATERAL gpucredit_internal.report_held(
				each.orgs, each.accounts, scope.at) h) h ON h.org = r.org
		LEFT JOIN (SELECT o.*
			FROM (SELECT array_agg(r.org) AS orgs,
					array_agg(r.per_day) AS rates FROM rate r) r
				CROSS JOIN (SELECT array_agg(c.org) AS owners,
					array_agg(c.expires_at) AS expiries,
					array_agg(c.available) AS amounts FROM credit c) c
				CROSS JOIN LATERAL gpucredit_internal.runs_out(r.orgs, r.rates,
					c.owners, c.expiries, c.amounts, scope.at) o) o
			ON o.org = r.org
	UNION ALL
	SELECT p.org, p.account, p.available, NULL, NULL, p.expiries, p.amounts,
		NULL
	FROM pile p
	WHERE p.account IS NOT NULL;
END;
COMMENT ON FUNCTION gpucredit_internal.report_owners(gpucredit.report_scope) IS
'burn_rate, report_html: accounts with their credit, daily spend, and when the credit runs out.';
