/*
 * 85_alert.sql: warnings for an account's owner.
 *
 * The call that passes a budget's threshold raises its alert. The other alerts
 * are: a balance below the account's threshold, credit that expires within a
 * week or a day, and an expensive day.  A day is expensive if its spend,
 * running jobs included, is above 130 % of the daily average of the 30 days
 * before. An expensive day is raised once per UTC day, an expiry once per
 * bucket, by the first call that finds it, or by maintain().  A low balance is
 * raised when the balance falls below the threshold, and again when it has
 * recovered and falls once more, but once a minute at most.  Jobs that end badly or leave their devices
 * idle raise alerts too (src/job/job_alert.c).
 */
CREATE FUNCTION gpucredit.set_alert(org text, account text,
	balance_low numeric DEFAULT NULL) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_set_alert';
COMMENT ON FUNCTION gpucredit.set_alert(text, text, numeric) IS
'Setup: sets the balance below which an account''s owner is alerted: when the balance falls below it, and each time that it falls again after it has recovered, at most once a minute. Automatic top-up can rely on it. Each call of set_alert() makes the alert ready again.
balance_low: credits, above 0, compared with what the account has available; NULL: no alert.
Errors: UC001 no such account; 22003, 22023.';

CREATE FUNCTION gpucredit_internal.take_alert(name text) RETURNS boolean
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'gpucredit_take_alert';
COMMENT ON FUNCTION gpucredit_internal.take_alert(text) IS
'Internal: locks an alert until the transaction ends, by a hash of its name; false if another transaction has it.';

CREATE FUNCTION gpucredit_internal.notify_alert(detail text) RETURNS boolean
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'gpucredit_notify_alert';
COMMENT ON FUNCTION gpucredit_internal.notify_alert(text) IS
'Internal: sends NOTIFY gpucredit_alert at commit, and returns true. A prepared transaction sends nothing.';

CREATE FUNCTION gpucredit_internal.notify_number(channel text, number bigint)
RETURNS void
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'gpucredit_notify_number';
COMMENT ON FUNCTION gpucredit_internal.notify_number(text, bigint) IS
'Internal, for companion extensions: sends NOTIFY on a channel at commit, with the number of a row as its payload; drops it if the queue is full. Every login may listen, so a payload names nothing that a role may not read.';

/*
 * Raises an alert once: it does not raise an existing one, and does not wait
 * for another transaction that raises the same.  A call that meets such a lock
 * leaves the alert to the next call.  Every login may listen, so if tenants
 * connect themselves, listeners get the number only, and read the row if they
 * may.  The lock's name is the same in every time zone.
 */
CREATE FUNCTION gpucredit_internal.raise_alert(tenant text, at timestamptz,
	account text, kind text, period text, period_start timestamptz,
	threshold numeric, bucket bigint, detail jsonb) RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	WITH made AS (
		INSERT INTO gpucredit.alert AS a (org, at, account, kind, period,
			period_start, threshold, bucket, detail)
		SELECT raise_alert.tenant, raise_alert.at, raise_alert.account,
			raise_alert.kind, raise_alert.period, raise_alert.period_start,
			raise_alert.threshold, raise_alert.bucket, raise_alert.detail
		WHERE NOT EXISTS (SELECT FROM gpucredit.alert o
				WHERE o.org = raise_alert.tenant
					AND o.account = raise_alert.account
					AND o.kind = raise_alert.kind
					AND o.period = raise_alert.period
					AND o.period_start = raise_alert.period_start
					AND o.threshold = raise_alert.threshold
					AND o.bucket = raise_alert.bucket)
			AND gpucredit_internal.take_alert(concat_ws('|', raise_alert.tenant,
				raise_alert.account, raise_alert.kind, raise_alert.period,
				extract(epoch FROM raise_alert.period_start),
				raise_alert.threshold, raise_alert.bucket))
		ON CONFLICT (org, account, kind, period, period_start, threshold,
			bucket) DO NOTHING
		RETURNING a.alert, a.detail)
	SELECT count(gpucredit_internal.notify_alert((CASE
			WHEN EXISTS (SELECT FROM gpucredit.tenant)
			THEN jsonb_build_object('alert', made.alert)
			ELSE made.detail END)::text))
	FROM made;
END;
COMMENT ON FUNCTION gpucredit_internal.raise_alert(text, timestamptz, text, text, text,
	timestamptz, numeric, bigint, jsonb) IS
'Internal: writes and sends an alert unless it exists; returns how many, 0 or 1.';

/*
 * An account has a fixed number of job alerts per hour; each takes the next
 * number.  Numbers of open transactions are skipped.
 */
CREATE FUNCTION gpucredit_internal.raise_job_alert(tenant text, at timestamptz,
	account text, most int, detail jsonb) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	hour timestamptz := date_trunc('hour', at, 'UTC');
	given int := coalesce((SELECT max(a.threshold) FROM gpucredit.alert a
		WHERE a.org = raise_job_alert.tenant
			AND a.account = raise_job_alert.account AND a.kind = 'job'
			AND a.period = 'hour' AND a.period_start = hour), 0);
BEGIN
	FOR number IN given + 1 .. most LOOP
		IF gpucredit_internal.raise_alert(tenant, at, account, 'job', 'hour', hour,
			number, 0, detail) > 0
		THEN
			RETURN 1;
		END IF;
	END LOOP;
	RETURN 0;
END
$$;
COMMENT ON FUNCTION gpucredit_internal.raise_job_alert(text, timestamptz, text, int,
	jsonb) IS
'Internal: writes and sends an alert of a job, unless its account had too many this hour (UTC); returns how many, 0 or 1.';

/* Budgets: thresholds that the present period has passed */
CREATE FUNCTION gpucredit_internal.alert_budgets(tenant text, account text,
	at timestamptz) RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT coalesce(sum(gpucredit_internal.raise_alert(alert_budgets.tenant,
		alert_budgets.at, c.account, 'budget', c.period, c.period_start,
		c.threshold, 0, jsonb_build_object('kind', 'budget',
			'org', alert_budgets.tenant, 'account', c.account,
			'period', c.period, 'threshold', c.threshold,
			'amount', c.amount, 'taken', c.taken))), 0)
	FROM (SELECT c.account, c.period, c.period_start, t.threshold,
			b.amount::numeric AS amount,
			(c.reserved + c.spent)::numeric AS taken
		FROM gpucredit.budget b
			JOIN gpucredit.budget_counter_whole c ON c.org = alert_budgets.tenant
				AND c.account = b.account AND c.period = b.period
				AND c.period_start = gpucredit_internal.period_start(b.period,
					alert_budgets.at),
			unnest(b.alert_at) AS t (threshold)
		WHERE b.org = alert_budgets.tenant
			AND (alert_budgets.account IS NULL
				OR b.account = alert_budgets.account)) c
	WHERE c.taken > 0 AND c.taken >= trunc(c.amount * c.threshold, 6);
END;
COMMENT ON FUNCTION gpucredit_internal.alert_budgets(text, text, timestamptz) IS
'Internal: raises alerts for thresholds that an account''s budgets (NULL: all) have passed in their present period; returns how many.';

/*
 * Makes alerts of low balances ready again: the balance has recovered, or had
 * recovered before the call drew credit (parts of these buckets, in
 * micro-credits), or always.  Nothing waits: an alert that another transaction
 * changes is left to the next call.  Above READ COMMITTED that would be an
 * error, so it is left to the next call at READ COMMITTED, or to maintain().
 */
CREATE FUNCTION gpucredit_internal.balances_recovered(tenant text, accounts text[],
	at timestamptz, buckets bigint[], drawn bigint[], always boolean) RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	WITH low AS MATERIALIZED (
		SELECT a.alert, a.account, a.threshold FROM gpucredit.alert a
		WHERE a.org = balances_recovered.tenant AND a.kind = 'balance'
			AND a.recovered_at IS NULL
			AND (balances_recovered.accounts IS NULL
				OR a.account = ANY (balances_recovered.accounts))
			AND current_setting('transaction_isolation') = 'read committed'),
	balance AS MATERIALIZED (
		SELECT l.account, b.available + coalesce((
			SELECT sum(d.micro) / 1000000.0
			FROM unnest(balances_recovered.buckets, balances_recovered.drawn)
					AS d (bucket, micro)
				JOIN gpucredit.bucket o ON o.org = balances_recovered.tenant
					AND o.bucket = d.bucket
			WHERE o.account = ANY (gpucredit_internal.account_path(l.account))), 0)
			AS before
		FROM (SELECT DISTINCT l.account FROM low l
				WHERE NOT balances_recovered.always) l,
			LATERAL gpucredit_internal.balance_now(balances_recovered.tenant,
				l.account, balances_recovered.at) b),
	ready AS (
		UPDATE gpucredit.alert a SET recovered_at = balances_recovered.at
		WHERE a.ctid = ANY (ARRAY(SELECT o.ctid FROM gpucredit.alert o
			WHERE o.org = balances_recovered.tenant AND o.recovered_at IS NULL
				AND o.alert IN (SELECT l.alert FROM low l
					LEFT JOIN balance b ON b.account = l.account
					WHERE balances_recovered.always OR b.before >= l.threshold)
			FOR NO KEY UPDATE SKIP LOCKED))
		RETURNING 1)
	SELECT count(*) FROM ready;
END;
COMMENT ON FUNCTION gpucredit_internal.balances_recovered(text, text[], timestamptz,
	bigint[], bigint[], boolean) IS
'Internal: lets alerts of low balances be raised again that have recovered; returns how many.';

/* Balances of the given accounts, NULL for all of the organisation */
CREATE FUNCTION gpucredit_internal.alert_balances(tenant text, accounts text[],
	at timestamptz, buckets bigint[] DEFAULT '{}', drawn bigint[] DEFAULT '{}')
RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT gpucredit_internal.balances_recovered(alert_balances.tenant,
		alert_balances.accounts, alert_balances.at, alert_balances.buckets,
		alert_balances.drawn, false);
	SELECT coalesce(sum(gpucredit_internal.raise_alert(alert_balances.tenant,
		alert_balances.at, l.account, 'balance', 'minute',
		date_trunc('minute', alert_balances.at, 'UTC'),
		l.balance_low, 0, jsonb_build_object('kind', 'balance',
			'org', alert_balances.tenant, 'account', l.account,
			'threshold', l.balance_low, 'available', l.available))), 0)
	FROM (SELECT a.account, a.balance_low::numeric AS balance_low,
			b.available
		FROM gpucredit.account a,
			LATERAL gpucredit_internal.balance_now(alert_balances.tenant, a.account,
				alert_balances.at) b
		WHERE a.org = alert_balances.tenant AND a.balance_low IS NOT NULL
			AND (alert_balances.accounts IS NULL
				OR a.account = ANY (alert_balances.accounts))
			AND NOT EXISTS (SELECT FROM gpucredit.alert o
				WHERE o.org = alert_balances.tenant AND o.account = a.account
					AND o.kind = 'balance' AND o.recovered_at IS NULL
					AND o.threshold = a.balance_low::numeric)) l
	WHERE l.available < l.balance_low;
END;
COMMENT ON FUNCTION gpucredit_internal.alert_balances(text, text[], timestamptz,
	bigint[], bigint[]) IS
'Internal: raises alerts for balances that have fallen below what set_alert set; returns how many. buckets, drawn: what the calling transaction has just drawn, in micro-credits.';

/* Expiry of the given buckets, NULL for all of the organisation */
CREATE FUNCTION gpucredit_internal.alert_expiries(tenant text, buckets bigint[],
	at timestamptz) RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT coalesce(sum(gpucredit_internal.raise_alert(alert_expiries.tenant,
		alert_expiries.at, e.account, 'expiry', 'none', '-infinity', e.days,
		e.bucket, jsonb_build_object('kind', 'expiry',
			'org', alert_expiries.tenant, 'account', e.account,
			'bucket', e.bucket, 'threshold', e.days,
			'expires_at', to_char(e.expires_at AT TIME ZONE 'UTC',
				'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
			'available', e.available))), 0)
	FROM (SELECT b.bucket, b.account, b.expires_at,
			(b.available + coalesce((SELECT sum(d.held)
				FROM gpucredit_internal.dead_held(alert_expiries.tenant,
					alert_expiries.at) d
				WHERE d.bucket = b.bucket), '0'))::numeric AS available,
			CASE WHEN b.expires_at - alert_expiries.at <= '1 day'::interval
				THEN 1 ELSE 7 END AS days
		FROM gpucredit.bucket_whole b
		WHERE b.org = alert_expiries.tenant AND b.closed_at IS NULL
			AND b.effective_at <= alert_expiries.at
			AND b.expires_at > alert_expiries.at
			AND b.expires_at <= least(alert_expiries.at,
				'294276-12-24 23:59:59.999999+00') + '7 days'::interval
			AND (alert_expiries.buckets IS NULL
				OR b.bucket = ANY (alert_expiries.buckets))) e
	WHERE e.available > 0;
END;
COMMENT ON FUNCTION gpucredit_internal.alert_expiries(text, bigint[], timestamptz) IS
'Internal: raises alerts for credit that expires within 7 days, and within 1; returns how many.';

/*
 * An expensive day: today's spend so far is above 130 % of the daily average
 * of the 30 days before, or of the days since the first spend among them.
 * Without earlier spend no day is expensive.  A day counts its use: settled
 * amounts, and the change of accruals.  Over several days only the accruals at
 * both ends matter, because those in between cancel out.
 *
 * Unfolded deltas and running attempts count.  With more running attempts than
 * most, the function returns no account and leaves the check to maintain().
 * most NULL: no limit, and no deltas. src/ledger/alert.c checks settled
 * amounts first, to see whether this is worth calling.
 */
CREATE FUNCTION gpucredit_internal.high_spend(tenant text, accounts text[],
	at timestamptz, most int)
RETURNS TABLE (account text, spent numeric, average numeric)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH delta AS MATERIALIZED (
		SELECT d.account, d.day, d.spent FROM gpucredit.spend_delta d
		WHERE d.org = high_spend.tenant
		LIMIT coalesce(high_spend.most + 1, 0)),
	runs AS MATERIALIZED (
		SELECT j.job FROM gpucredit.job j
		WHERE j.org = high_spend.tenant AND j.state = 'active'
		LIMIT high_spend.most + 1),
	t AS MATERIALIZED (
		SELECT n.today, n.today - 30 AS first,
			n.today::timestamp AT TIME ZONE 'UTC' AS today_at,
			(n.today - 30)::timestamp AT TIME ZONE 'UTC' AS first_at
		FROM (SELECT gpucredit_internal.utc_day(greatest(high_spend.at,
				'4700-01-01 00:00+00 BC')) AS today) n
		WHERE coalesce((SELECT count(*) FROM delta d) <= high_spend.most
			AND (SELECT count(*) FROM runs r) <= high_spend.most, true)),
	used AS (		/* without the accounts below */
		SELECT d.account, d.day, d.spent::numeric AS spent FROM delta d
		UNION ALL
		SELECT x.account, v.day, v.spent
		FROM t
			CROSS JOIN LATERAL gpucredit_internal.accrued_at(ARRAY[high_spend.tenant],
				ARRAY[t.first_at, t.today_at, 'infinity']) x
			CROSS JOIN LATERAL (VALUES
				(t.first_at, t.first, - x.billed),
				(t.today_at, t.today - 1, x.billed),
				(t.today_at, t.today, - x.billed),
				('infinity', t.today, x.billed)) AS v (at, day, spent)
		WHERE v.at = x.instant AND (x.instant < 'infinity' OR NOT EXISTS (
			SELECT FROM gpucredit.attempt a
				JOIN gpucredit.hold h ON h.org = a.org AND h.hold = a.hold
			WHERE a.org = x.org AND a.job = x.job AND a.attempt = x.attempt
				AND h.closed_at IS NOT NULL))	/* just being settled */
		UNION ALL
		SELECT c.account, min(c.day), 0
		FROM t JOIN gpucredit.accrued c ON c.org = high_spend.tenant
			AND c.day >= t.first AND c.day < t.today
		GROUP BY c.account),
	spend AS (
		SELECT s.account, s.day, s.spent
		FROM t JOIN gpucredit.spend_day s ON s.org = high_spend.tenant
			AND s.account = ANY (high_spend.accounts)
			AND s.day >= t.first AND s.day <= t.today
		UNION ALL
		SELECT p.account, u.day, u.spent
		FROM t
			JOIN (SELECT u.account, u.day, sum(u.spent) AS spent
				FROM used u GROUP BY u.account, u.day) u
				ON u.day >= t.first
			CROSS JOIN LATERAL unnest(gpucredit_internal.account_path(u.account))
				AS p (account)
		WHERE p.account = ANY (high_spend.accounts))
	SELECT a.account, a.today, a.past / a.days
	FROM (SELECT s.account,
			sum(s.spent) FILTER (WHERE s.day = t.today) AS today,
			sum(s.spent) FILTER (WHERE s.day < t.today) AS past,
			t.today - min(s.day) AS days
		FROM t CROSS JOIN spend s
		GROUP BY s.account, t.today) a
	WHERE a.past > 0 AND a.today * 10 * a.days > a.past * 13;
END;
COMMENT ON FUNCTION gpucredit_internal.high_spend(text, text[], timestamptz, int) IS
'Internal: the accounts that, with all below them, spent today more than 130 % of their daily average of 30 days.';

CREATE FUNCTION gpucredit_internal.alert_spend(tenant text, accounts text[],
	at timestamptz, most int) RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT coalesce(sum(gpucredit_internal.raise_alert(alert_spend.tenant,
		alert_spend.at, h.account, 'spend', 'day',
		gpucredit_internal.period_start('day', alert_spend.at), 1.3, 0,
		jsonb_build_object('kind', 'spend', 'org', alert_spend.tenant,
			'account', h.account, 'threshold', 1.3,
			'day', gpucredit_internal.utc_day(alert_spend.at), 'spent', h.spent,
			'average', round(h.average, 6)))), 0)
	FROM (SELECT s.* FROM gpucredit_internal.high_spend(alert_spend.tenant,
			alert_spend.accounts, alert_spend.at, alert_spend.most) s
		ORDER BY s.account COLLATE "C" DESC) h;	/* the deepest account first */
END;
COMMENT ON FUNCTION gpucredit_internal.alert_spend(text, text[], timestamptz, int) IS
'Internal: raises alerts for expensive days; returns how many.';

/*
 * Looks only at organisations that can have a due alert.  The index of
 * expire_credits finds the buckets that end next, the index of spend_day finds
 * days.
 */
CREATE FUNCTION gpucredit_internal.raise_alerts() RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	at timestamptz := gpucredit.now();
	tenant text COLLATE "C";
	n bigint := 0;
BEGIN
	FOR tenant IN SELECT DISTINCT b.org FROM gpucredit.budget b ORDER BY 1
	LOOP
		n := n + gpucredit_internal.alert_budgets(tenant, NULL, at);
	END LOOP;
	FOR tenant IN
		SELECT DISTINCT a.org FROM gpucredit.account a
		WHERE a.balance_low IS NOT NULL ORDER BY 1
	LOOP
		n := n + gpucredit_internal.alert_balances(tenant, NULL, at);
	END LOOP;
	FOR tenant IN
		SELECT DISTINCT b.org FROM gpucredit.bucket b
		WHERE b.expires_at > at AND b.expires_at <= least(at,
				'294276-12-24 23:59:59.999999+00') + '7 days'::interval
			AND b.closed_at IS NULL AND b.swept_at IS NULL ORDER BY 1
	LOOP
		n := n + gpucredit_internal.alert_expiries(tenant, NULL, at);
	END LOOP;
	FOR tenant IN
		SELECT s.org FROM gpucredit.spend_day s
		WHERE s.day = gpucredit_internal.utc_day(at)
		UNION
		SELECT j.org FROM gpucredit.job j WHERE j.state = 'active'
		ORDER BY 1
	LOOP
		n := n + gpucredit_internal.alert_spend(tenant,
			ARRAY(SELECT s.account FROM gpucredit.spend_day s
				WHERE s.org = tenant AND s.day = gpucredit_internal.utc_day(at)
				UNION
				SELECT p.account
				FROM (SELECT DISTINCT j.account FROM gpucredit.job j
						WHERE j.org = tenant AND j.state = 'active') j
					CROSS JOIN LATERAL unnest(
						gpucredit_internal.account_path(j.account)) AS p (account)),
			at, NULL);
	END LOOP;
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit_internal.raise_alerts() IS
'maintain: raises the due alerts that no call has raised; returns how many.';
