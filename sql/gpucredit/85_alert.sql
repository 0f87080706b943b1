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
 * idle raise alerts too (src/job/end/job_alert.c).
 */
CREATE FUNCTION gpucredit.set_alert(org text, account text,
	balance_low numeric DEFAULT NULL) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_set_alert';
COMMENT ON FUNCTION gpucredit.set_alert(text, text, numeric) IS
'Setup: sets the balance below which an account''s owner is alerted: when the balance falls below it, and each time that it falls again after it has recovered, at most once a minute. Automatic top-up can rely on it. Each call of set_alert() makes the alert ready again.
balance_low: credits, above 0, compared with what the account has available; NULL: no alert.
Errors: UC001 no such account; 22003, 22023.';

CREATE FUNCTION gpucredit_internal.lock_alert(name text) RETURNS boolean
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'gpucredit_take_alert';
COMMENT ON FUNCTION gpucredit_internal.lock_alert(text) IS
'Internal: locks an alert until the transaction ends, by a hash of its name; false if another transaction has it.';

CREATE FUNCTION gpucredit_internal.wait_alert(name text) RETURNS boolean
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'gpucredit_wait_alert';
COMMENT ON FUNCTION gpucredit_internal.wait_alert(text) IS
'Internal: as lock_alert, but waits a moment (20 ms) for another transaction that has the lock, which may be ending.';

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
 * Raises an alert unless the same alert exists.  It does not wait for another
 * transaction that is raising the same alert: it leaves the alert to the next
 * call, or to maintain().
 *
 * A call that passes a budget's threshold, or whose use was not collected, sets
 * "waits". It has locked the budget's counter, or the row of what the account
 * owes, so another such call that has the alert's lock is just ending. If that
 * one was rolled back, it has not raised the alert. Therefore these wait a moment.
 *
 * Every login may LISTEN, so if tenants connect themselves, the notification has
 * only the alert's number, and listeners read the row if they may.  The name of
 * the lock does not depend on the time zone.
 */
CREATE FUNCTION gpucredit_internal.raise_alert(tenant text, at timestamptz,
	account text, kind text, period text, period_start timestamptz,
	threshold numeric, bucket bigint, detail jsonb, waits boolean DEFAULT false)
RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	WITH made AS (
		INSERT INTO gpucredit.alert AS a (org, at, account, kind, period,
			period_start, threshold, bucket, detail)
		SELECT raise_alert.tenant, raise_alert.at, raise_alert.account,
			raise_alert.kind, raise_alert.period, raise_alert.period_start,
			raise_alert.threshold, raise_alert.bucket, raise_alert.detail
		FROM concat_ws('|', raise_alert.tenant, raise_alert.account,
			raise_alert.kind, raise_alert.period,
			extract(epoch FROM raise_alert.period_start),
			raise_alert.threshold, raise_alert.bucket) AS n (name)
		/* An alert that exists is not locked: CASE asks in this order. */
		WHERE CASE WHEN EXISTS (SELECT FROM gpucredit.alert o
				WHERE o.org = raise_alert.tenant
					AND o.account = raise_alert.account
					AND o.kind = raise_alert.kind
					AND o.period = raise_alert.period
					AND o.period_start = raise_alert.period_start
					AND o.threshold = raise_alert.threshold
					AND o.bucket = raise_alert.bucket)
				THEN false
			WHEN raise_alert.waits
				THEN gpucredit_internal.wait_alert(n.name)
			ELSE gpucredit_internal.lock_alert(n.name) END
		ON CONFLICT (org, account, kind, period, period_start, threshold,
			bucket) DO NOTHING
		RETURNING a.alert, a.detail),
	event AS (
		INSERT INTO gpucredit.event_pending (org, at, kind, account, job, detail)
		SELECT raise_alert.tenant, raise_alert.at,
			CASE raise_alert.kind WHEN 'budget' THEN 'budget.threshold'
				WHEN 'balance' THEN 'balance.low'
				WHEN 'expiry' THEN 'credit.expiring'
				WHEN 'spend' THEN 'spend.high'
				WHEN 'webhook' THEN 'webhook.disabled'
				ELSE raise_alert.kind || '.alert' END,
			raise_alert.account,
			CASE WHEN jsonb_typeof(made.detail -> 'job') = 'number'
				THEN (made.detail ->> 'job')::bigint END,
			made.detail - '{org,account,job}'::text[]
				|| jsonb_build_object('alert', made.alert)
		FROM made)
	SELECT count(gpucredit_internal.notify_alert((CASE
			WHEN EXISTS (SELECT FROM gpucredit.tenant)
			THEN jsonb_build_object('alert', made.alert)
			ELSE made.detail END)::text))
	FROM made;
END;
COMMENT ON FUNCTION gpucredit_internal.raise_alert(text, timestamptz, text, text, text,
	timestamptz, numeric, bigint, jsonb, boolean) IS
'Internal: writes and sends an alert unless it exists; returns how many, 0 or 1.';

/*
 * An account may get a fixed number of job alerts per hour.  Each alert gets
 * the next number, and numbers that open transactions are using are skipped.
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

/*
 * Raises alerts for the thresholds that budgets have passed in their present
 * period.
 *
 * This function and those below work on many organisations at once.  Each
 * finds the rows of an organisation by an index whatever the statistics say
 * (LATERAL ... OFFSET 0), and skips alerts that exist before it calls
 * raise_alert().  Queries for some accounts and queries for all accounts are
 * two branches of a UNION ALL, because a kept plan of "account IS NULL OR
 * account = ..." reads all accounts.
 */
CREATE FUNCTION gpucredit_internal.alert_budgets(tenants text[], account text,
	at timestamptz) RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT coalesce(sum(gpucredit_internal.raise_alert(c.org,
		alert_budgets.at, c.account, 'budget', c.period, c.period_start,
		c.threshold, 0, jsonb_build_object('kind', 'budget',
			'org', c.org, 'account', c.account,
			'period', c.period, 'threshold', c.threshold,
			'amount', c.amount, 'taken', c.taken))), 0)
	FROM (SELECT b.org, c.account, c.period, c.period_start, t.threshold,
			b.amount::numeric AS amount,
			(c.reserved + c.spent)::numeric AS taken
		FROM unnest(alert_budgets.tenants) AS o (org)
			CROSS JOIN LATERAL (SELECT b.* FROM gpucredit.budget b
				WHERE b.org = o.org AND alert_budgets.account IS NULL
				UNION ALL
				SELECT b.* FROM gpucredit.budget b
				WHERE b.org = o.org AND b.account = alert_budgets.account) b
			CROSS JOIN LATERAL (SELECT c.*
				FROM gpucredit.budget_counter_whole c
				WHERE c.org = b.org AND c.account = b.account
					AND c.period = b.period
					AND c.period_start = gpucredit_internal.period_start(b.period,
						alert_budgets.at)
				OFFSET 0) c
			CROSS JOIN unnest(b.alert_at) AS t (threshold)) c
	WHERE c.taken > 0 AND c.taken >= trunc(c.amount * c.threshold, 6)
		AND NOT EXISTS (SELECT FROM gpucredit.alert a
			WHERE a.org = c.org AND a.account = c.account
				AND a.kind = 'budget' AND a.period = c.period
				AND a.period_start = c.period_start
				AND a.threshold = c.threshold AND a.bucket = 0 OFFSET 0);
END;
COMMENT ON FUNCTION gpucredit_internal.alert_budgets(text[], text, timestamptz) IS
'Internal: raises alerts for thresholds that the budgets of an account (NULL: of all) of these organisations have passed in their present period; returns how many.';

/*
 * Marks alerts of low balances as recovered, so that they can be raised again.
 * An alert has recovered if the balance is above the threshold now, or was
 * before the present call drew credit (drawn, in micro-credits from each of
 * these buckets), or in any case if `always`.  The function never waits: an
 * alert that another transaction changes is left to the next call.  Above READ
 * COMMITTED such an alert would be an error, so all are left to the next call
 * at READ COMMITTED, or to maintain().
 */
CREATE FUNCTION gpucredit_internal.balances_recovered(tenants text[], accounts text[],
	at timestamptz, buckets bigint[], drawn bigint[], always boolean) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
	n bigint;
BEGIN
	WITH low AS MATERIALIZED (
		SELECT a.org, a.alert, a.account, a.threshold
		FROM unnest(balances_recovered.tenants) AS o (org)
			CROSS JOIN LATERAL (SELECT a.* FROM gpucredit.alert a
				WHERE a.org = o.org AND a.kind = 'balance'
					AND a.recovered_at IS NULL
					AND balances_recovered.accounts IS NULL
				UNION ALL
				SELECT a.* FROM unnest(balances_recovered.accounts) AS p (account)
					CROSS JOIN LATERAL (SELECT a.* FROM gpucredit.alert a
						WHERE a.org = o.org AND a.account = p.account
							AND a.kind = 'balance' AND a.recovered_at IS NULL
						OFFSET 0) a) a
		WHERE current_setting('transaction_isolation') = 'read committed'),
	balance AS MATERIALIZED (
		SELECT l.org, l.account, b.available + coalesce((
			SELECT sum(d.micro) / 1000000.0
			FROM unnest(balances_recovered.buckets, balances_recovered.drawn)
					AS d (bucket, micro)
				JOIN gpucredit.bucket o ON o.org = l.org
					AND o.bucket = d.bucket
			WHERE o.account = ANY (gpucredit_internal.account_path(l.account))), 0)
			AS before
		FROM (SELECT DISTINCT l.org, l.account FROM low l
				WHERE NOT balances_recovered.always) l,
			LATERAL gpucredit_internal.balance_now(l.org, l.account,
				balances_recovered.at) b),
	ready AS (
		UPDATE gpucredit.alert a SET recovered_at = balances_recovered.at
		WHERE a.ctid = ANY (ARRAY(SELECT o.ctid
			FROM low l
				LEFT JOIN balance b ON b.org = l.org AND b.account = l.account
				JOIN gpucredit.alert o ON o.org = l.org AND o.alert = l.alert
			WHERE o.recovered_at IS NULL
				AND (balances_recovered.always OR b.before >= l.threshold)
			FOR NO KEY UPDATE OF o SKIP LOCKED))
		RETURNING 1)
	SELECT count(*) INTO n FROM ready;
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit_internal.balances_recovered(text[], text[], timestamptz,
	bigint[], bigint[], boolean) IS
'Internal: lets alerts of low balances be raised again that have recovered; returns how many.';

/*
 * Raises alerts for low balances of the given accounts, or of all accounts of
 * the organisations if accounts is NULL.  Each call that draws credit at or
 * below an account with a threshold calls it.  So this function and
 * balances_recovered() are written in PL/pgSQL, which keeps plans: a function
 * in SQL would be planned in each call, which takes some milliseconds.
 */
CREATE FUNCTION gpucredit_internal.alert_balances(tenants text[], accounts text[],
	at timestamptz, buckets bigint[] DEFAULT '{}', drawn bigint[] DEFAULT '{}')
RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
	n bigint;
BEGIN
	PERFORM gpucredit_internal.balances_recovered(alert_balances.tenants,
		alert_balances.accounts, alert_balances.at, alert_balances.buckets,
		alert_balances.drawn, false);
	SELECT coalesce(sum(gpucredit_internal.raise_alert(l.org,
		alert_balances.at, l.account, 'balance', 'minute',
		date_trunc('minute', alert_balances.at, 'UTC'),
		l.balance_low, 0, jsonb_build_object('kind', 'balance',
			'org', l.org, 'account', l.account,
			'threshold', l.balance_low, 'available', l.available))), 0)
	INTO n
	FROM (SELECT a.org, a.account, a.balance_low::numeric AS balance_low,
			b.available
		FROM unnest(alert_balances.tenants) AS o (org)
			CROSS JOIN LATERAL (SELECT a.org, a.account, a.balance_low
				FROM gpucredit.account a
				WHERE a.org = o.org AND a.balance_low IS NOT NULL
					AND alert_balances.accounts IS NULL
				UNION ALL
				SELECT a.org, a.account, a.balance_low
				FROM (SELECT p.account
						FROM unnest(alert_balances.accounts) AS p (account)
						ORDER BY p.account COLLATE "C") p
					CROSS JOIN LATERAL (SELECT a.* FROM gpucredit.account a
						WHERE a.org = o.org AND a.account = p.account
							AND a.balance_low IS NOT NULL OFFSET 0) a) a
			CROSS JOIN LATERAL gpucredit_internal.balance_now(a.org, a.account,
				alert_balances.at) b
		WHERE NOT EXISTS (SELECT FROM gpucredit.alert r
			WHERE r.org = a.org AND r.account = a.account
				AND r.kind = 'balance' AND r.recovered_at IS NULL
				AND r.threshold = a.balance_low::numeric OFFSET 0)
		OFFSET 0) l
	WHERE l.available < l.balance_low;
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit_internal.alert_balances(text[], text[], timestamptz,
	bigint[], bigint[]) IS
'Internal: raises alerts for balances that have fallen below what set_alert set; returns how many. buckets, drawn: what the calling transaction has just drawn, in micro-credits.';

/* Raises alerts for the expiry of the given buckets, of any organisations. */
CREATE FUNCTION gpucredit_internal.alert_expiries(tenants text[], buckets bigint[],
	at timestamptz) RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT coalesce(sum(gpucredit_internal.raise_alert(e.org,
		alert_expiries.at, e.account, 'expiry', 'none', '-infinity', e.days,
		e.bucket, jsonb_build_object('kind', 'expiry',
			'org', e.org, 'account', e.account,
			'bucket', e.bucket, 'threshold', e.days,
			'expires_at', to_char(e.expires_at AT TIME ZONE 'UTC',
				'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
			'available', e.available))), 0)
	FROM (SELECT b.org, b.bucket, b.account, b.expires_at, b.days,
			(b.available + coalesce((SELECT sum(d.held)
				FROM gpucredit_internal.dead_held(b.org, alert_expiries.at) d
				WHERE d.bucket = b.bucket), '0'))::numeric AS available
		FROM (SELECT b.*,
				CASE WHEN b.expires_at - alert_expiries.at <= '1 day'::interval
					THEN 1 ELSE 7 END AS days
			FROM unnest(alert_expiries.tenants, alert_expiries.buckets)
					AS u (org, bucket)
				CROSS JOIN LATERAL (SELECT b.* FROM gpucredit.bucket_whole b
					WHERE b.org = u.org AND b.bucket = u.bucket OFFSET 0) b) b
		WHERE b.closed_at IS NULL
			AND b.effective_at <= alert_expiries.at
			AND b.expires_at > alert_expiries.at
			AND b.expires_at <= least(alert_expiries.at,
				'294276-12-24 23:59:59.999999+00') + '7 days'::interval
			AND NOT EXISTS (SELECT FROM gpucredit.alert a
				WHERE a.org = b.org AND a.account = b.account
					AND a.kind = 'expiry' AND a.period = 'none'
					AND a.period_start = '-infinity'
					AND a.threshold = b.days AND a.bucket = b.bucket
				OFFSET 0)) e
	WHERE e.available > 0;
END;
COMMENT ON FUNCTION gpucredit_internal.alert_expiries(text[], bigint[], timestamptz) IS
'Internal: raises alerts for those of these buckets that expire within 7 days, and within 1; returns how many.';

/*
 * Returns the accounts for which today is an expensive day: today's spend so
 * far is above 130 % of the daily average of the 30 days before, or of the
 * days since the first spend among them.  Without earlier spend no day is
 * expensive.  A day's spend is its use: settled amounts, and the increase of
 * the logged cost of running attempts.  Both are recorded as sums by account
 * and day, so the function reads no attempt except that of the job `settling`,
 * whose settlement has spent what the attempt's row still counts as used.
 *
 * Deltas that are not folded count as well.  If there are more than `most` of
 * them, the function returns no account and leaves the check to upkeep; if
 * `most` is NULL, it reads no deltas.  src/ledger/spend_alert.c first
 * estimates whether calling this function is worth its cost.
 *
 * If accounts is NULL, all accounts that spent or used something today are
 * checked.
 */
CREATE FUNCTION gpucredit_internal.high_spend(tenants text[], accounts text[],
	at timestamptz, most int, settling bigint)
RETURNS TABLE (org text, account text, spent numeric, average numeric)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH delta AS MATERIALIZED (
		SELECT o.org, d.account, d.day, d.spent
		FROM unnest(high_spend.tenants) AS o (org)
			CROSS JOIN LATERAL (SELECT d.account,
					gpucredit_internal.delta_day(d.day, d.at, d.used::numeric) AS day,
					d.spent::numeric + d.used::numeric AS spent
				FROM gpucredit.account_delta d
				WHERE d.org = o.org AND (d.day IS NOT NULL OR d.used <> '0')
				LIMIT coalesce(high_spend.most + 1, 0)) d),
	t AS MATERIALIZED (
		SELECT n.today, n.today - 30 AS first
		FROM (SELECT gpucredit_internal.utc_day(greatest(high_spend.at,
				'4700-01-01 00:00+00 BC')) AS today) n
		WHERE coalesce((SELECT count(*) FROM delta d) <= high_spend.most,
			true)),
	asked AS MATERIALIZED (
		SELECT o.org, a.account
		FROM unnest(high_spend.tenants) AS o (org)
			CROSS JOIN unnest(high_spend.accounts) AS a (account)
		UNION
		SELECT o.org, s.account
		FROM t CROSS JOIN unnest(high_spend.tenants) AS o (org)
			CROSS JOIN LATERAL (SELECT s.account FROM gpucredit.spend_day s
				WHERE s.day = t.today AND s.org = o.org OFFSET 0) s
		WHERE high_spend.accounts IS NULL),
	used AS (		/* each account itself, without the accounts below it */
		SELECT d.org, d.account, d.day, d.spent FROM delta d
		UNION ALL
		SELECT a.org, a.account, t.today, - a.used::numeric
		FROM t CROSS JOIN unnest(high_spend.tenants) AS o (org)
			CROSS JOIN LATERAL (SELECT a.org, a.account, a.used
				FROM gpucredit.attempt a
				WHERE a.org = o.org AND a.job = high_spend.settling
					AND a.ended_at IS NULL OFFSET 0) a
		WHERE high_spend.settling IS NOT NULL),
	spend AS (
		SELECT k.org, k.account, s.day, s.spent
		FROM t CROSS JOIN asked k
			CROSS JOIN LATERAL (SELECT s.day, s.spent + s.used AS spent
				FROM gpucredit.spend_day s
				WHERE s.org = k.org AND s.account = k.account
					AND s.day >= t.first AND s.day <= t.today OFFSET 0) s
		UNION ALL
		SELECT k.org, k.account, u.day, u.spent
		FROM t
			JOIN (SELECT u.org, u.account, u.day, sum(u.spent) AS spent
				FROM used u GROUP BY u.org, u.account, u.day) u
				ON u.day >= t.first
			CROSS JOIN LATERAL unnest(gpucredit_internal.account_path(u.account))
				AS p (account)
			JOIN asked k ON k.org = u.org AND k.account = p.account)
	SELECT a.org, a.account, a.today, a.past / a.days
	FROM (SELECT s.org, s.account,
			sum(s.spent) FILTER (WHERE s.day = t.today) AS today,
			sum(s.spent) FILTER (WHERE s.day < t.today) AS past,
			t.today - min(s.day) AS days
		FROM t CROSS JOIN spend s
		GROUP BY s.org, s.account, t.today) a
	WHERE a.past > 0 AND a.today * 10 * a.days > a.past * 13;
END;
COMMENT ON FUNCTION gpucredit_internal.high_spend(text[], text[], timestamptz, int,
	bigint) IS
'Internal: the accounts of these organisations that, with all below them, spent today more than 130 % of their daily average of 30 days.';

CREATE FUNCTION gpucredit_internal.alert_spend(tenants text[], accounts text[],
	at timestamptz, most int, settling bigint) RETURNS bigint
LANGUAGE sql VOLATILE PARALLEL UNSAFE
BEGIN ATOMIC
	SELECT coalesce(sum(gpucredit_internal.raise_alert(h.org,
		alert_spend.at, h.account, 'spend', 'day',
		gpucredit_internal.period_start('day', alert_spend.at), 1.3, 0,
		jsonb_build_object('kind', 'spend', 'org', h.org,
			'account', h.account, 'threshold', 1.3,
			'day', gpucredit_internal.utc_day(alert_spend.at), 'spent', h.spent,
			'average', round(h.average, 6)))), 0)
	FROM (SELECT s.* FROM gpucredit_internal.high_spend(alert_spend.tenants,
			alert_spend.accounts, alert_spend.at, alert_spend.most,
			alert_spend.settling) s
		WHERE NOT EXISTS (SELECT FROM gpucredit.alert a
			WHERE a.org = s.org AND a.account = s.account AND a.kind = 'spend'
				AND a.period = 'day'
				AND a.period_start = gpucredit_internal.period_start('day',
					alert_spend.at)
				AND a.threshold = 1.3 AND a.bucket = 0 OFFSET 0)
		ORDER BY s.org, s.account COLLATE "C" DESC) h;	/* the deepest account first */
END;
COMMENT ON FUNCTION gpucredit_internal.alert_spend(text[], text[], timestamptz, int,
	bigint) IS
'Internal: raises alerts for expensive days; returns how many.';

/*
 * Raises alerts for buckets that expire within a week.  They are read in the
 * order of the index that expire_credits uses, from the position where the
 * last call stopped.
 */
CREATE FUNCTION gpucredit_internal.raise_expiry_alerts(at timestamptz,
	until timestamptz) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET plan_cache_mode = force_generic_plan
SET datestyle = 'ISO'		/* for the instants in its position */
SET timezone = 'UTC'
AS $$
DECLARE
	last CONSTANT timestamptz := least(at, '294276-12-24 23:59:59.999999+00')
		+ '7 days'::interval;
	/* NULL if no position is stored */
	place text[] := gpucredit_internal.upkeep_position('expiry_alerts');
	place_at timestamptz := greatest(place[1]::timestamptz, at);
	place_org text := coalesce(place[2], '');
	place_bucket bigint := coalesce(place[3], '0');
	first boolean := place IS NULL;
	most int := 64;
	orgs text[];
	buckets bigint[];
	ends timestamptz[];
	began timestamptz;
	n bigint := 0;
BEGIN
	LOOP
		began := clock_timestamp();
		SELECT array_agg(d.org ORDER BY d.expires_at, d.org, d.bucket),
			array_agg(d.bucket ORDER BY d.expires_at, d.org, d.bucket),
			array_agg(d.expires_at ORDER BY d.expires_at, d.org, d.bucket)
		INTO orgs, buckets, ends
		FROM (SELECT b.org, b.bucket, b.expires_at FROM gpucredit.bucket b
			WHERE (b.expires_at, b.org, b.bucket)
					> (place_at, place_org, place_bucket)
				AND b.expires_at IS NOT NULL AND b.expires_at <= last
				AND b.closed_at IS NULL AND b.swept_at IS NULL
			ORDER BY b.expires_at, b.org, b.bucket LIMIT most) d;
		n := n + gpucredit_internal.alert_expiries(orgs, buckets, at);
		IF coalesce(cardinality(orgs), 0) < most THEN
			/* At the end, continue once from the beginning. */
			EXIT WHEN first OR clock_timestamp() >= until;
			first := true;
			place_at := at;
			place_org := '';
			place_bucket := 0;
			CONTINUE;
		END IF;
		place_at := ends[most];
		place_org := orgs[most];
		place_bucket := buckets[most];
		IF clock_timestamp() >= until THEN
			PERFORM gpucredit_internal.set_upkeep_position('expiry_alerts',
				ARRAY[place_at::text, place_org, place_bucket::text]);
			RETURN n;
		END IF;
		IF clock_timestamp() - began < (until - began) / 8 THEN
			most := least(most * 2, 8192);
		END IF;
	END LOOP;
	PERFORM gpucredit_internal.set_upkeep_position('expiry_alerts', NULL);
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit_internal.raise_expiry_alerts(timestamptz, timestamptz) IS
'raise_alerts: raises the due alerts of credit that expires, until an instant of the server''s clock; returns how many.';

/*
 * Raises alerts of budgets, balances and expensive days, organisation by
 * organisation, from the one at which the last call stopped.  A skip scan of
 * the primary key finds the next organisations.  A call handles each
 * organisation at most once.
 */
CREATE FUNCTION gpucredit_internal.raise_account_alerts(at timestamptz,
	until timestamptz) RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
SET plan_cache_mode = force_generic_plan
SET datestyle = 'ISO'		/* for the instants in its position */
SET timezone = 'UTC'
AS $$
DECLARE
	stopped CONSTANT text[] := gpucredit_internal.upkeep_position('account_alerts');
	start CONSTANT text := coalesce(stopped[1], '');
	place text := start;
	/* When this pass over all organisations began. */
	pass timestamptz := coalesce(stopped[2]::timestamptz, at);
	wrapped boolean := start = '';
	most int := 16;
	orgs text[];
	began timestamptz;
	n bigint := 0;
BEGIN
	LOOP
		began := clock_timestamp();
		WITH RECURSIVE next (org, n) AS (
			(SELECT a.org, 1 FROM gpucredit.account a
			WHERE a.org > place ORDER BY a.org LIMIT 1)
			UNION ALL
			SELECT f.org, x.n + 1
			FROM next x CROSS JOIN LATERAL (SELECT a.org FROM gpucredit.account a
				WHERE a.org > x.org ORDER BY a.org LIMIT 1) f
			WHERE x.n < most)
		SELECT array_agg(x.org ORDER BY x.org) INTO orgs FROM next x;
		IF orgs IS NULL THEN
			EXIT WHEN wrapped OR clock_timestamp() >= until;
			PERFORM gpucredit_internal.set_upkeep_position('alerts_raised',
				ARRAY[gpucredit_internal.instant_text(pass)]);
			pass := at;
			wrapped := true;
			place := '';
			CONTINUE;
		END IF;
		n := n + gpucredit_internal.alert_budgets(orgs, NULL, at)
			+ gpucredit_internal.alert_balances(orgs, NULL, at)
			+ gpucredit_internal.alert_spend(orgs, NULL, at, NULL, NULL);
		place := orgs[cardinality(orgs)];
		EXIT WHEN wrapped AND start <> '' AND place >= start;
		IF clock_timestamp() >= until THEN
			PERFORM gpucredit_internal.set_upkeep_position('account_alerts',
				ARRAY[place, gpucredit_internal.instant_text(pass)]);
			RETURN n;
		END IF;
		IF clock_timestamp() - began < (until - began) / 8 THEN
			most := least(most * 2, 512);
		END IF;
	END LOOP;
	PERFORM gpucredit_internal.set_upkeep_position('alerts_raised',
		ARRAY[gpucredit_internal.instant_text(
			CASE WHEN orgs IS NULL AND NOT wrapped THEN pass ELSE at END)]);
	PERFORM gpucredit_internal.set_upkeep_position('account_alerts', NULL);
	RETURN n;
END
$$;
COMMENT ON FUNCTION gpucredit_internal.raise_account_alerts(timestamptz, timestamptz) IS
'raise_alerts: raises the due alerts of budgets, balances and expensive days, until an instant of the server''s clock; returns how many.';

CREATE FUNCTION gpucredit_internal.raise_alerts() RETURNS bigint
LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE
AS $$
DECLARE
	at timestamptz := gpucredit.now();
	most_of_it CONSTANT timestamptz := gpucredit_internal.upkeep_until(0.7);
	all_of_it CONSTANT timestamptz := gpucredit_internal.upkeep_until(1);
	n bigint;
BEGIN
	n := gpucredit_internal.raise_account_alerts(at, most_of_it);
	RETURN n + gpucredit_internal.raise_expiry_alerts(at, all_of_it);
END
$$;
COMMENT ON FUNCTION gpucredit_internal.raise_alerts() IS
'maintain: raises the due alerts that no call has raised, for gpucredit.upkeep_time at most; returns how many.';
