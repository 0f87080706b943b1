/*
 * 83_accrued.sql: the cost of runs before their settlement.
 *
 * At an instant, an unsettled attempt has accrued the amount in its last usage
 * row before that instant.  Later rows do not change it, so past figures stay.
 * A report over time spans counts for each span the amounts settled in it,
 * plus the accrued amounts at its end, less those at its beginning.  So the
 * spans of a run add up to its bill, which is rounded once.
 *
 * A future instant means the metered state of now, logged or not.
 */

CREATE FUNCTION gpucredit_internal.utc_day(at timestamptz) RETURNS date
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
	SELECT (at AT TIME ZONE 'UTC')::date;
END;
COMMENT ON FUNCTION gpucredit_internal.utc_day(timestamptz) IS
'Internal: the UTC day of an instant.';

CREATE FUNCTION gpucredit_internal.delta_day(day date, at timestamptz,
	used numeric) RETURNS date
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT coalesce(delta_day.day, CASE WHEN delta_day.used <> 0
		THEN (delta_day.at AT TIME ZONE 'UTC')::date END);
END;
COMMENT ON FUNCTION gpucredit_internal.delta_day(date, timestamptz, numeric) IS
'Internal: the UTC day on which an unfolded change of an account was spent or used; NULL: it only changed what is held.';

/* The last day that a date can express has no end. */
CREATE FUNCTION gpucredit_internal.utc_midnight(day date) RETURNS timestamptz
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE WHEN day > '294276-12-31' THEN 'infinity'
		ELSE day::timestamp AT TIME ZONE 'UTC' END;
END;
COMMENT ON FUNCTION gpucredit_internal.utc_midnight(date) IS
'Internal: when a UTC day begins.';

/*
 * The elapsed time and cost of unsettled attempts at given instants.
 *
 * An attempt that is unsettled at an instant has a row in accrued for the next
 * midnight, or it is settled before that midnight, or it is still live.  A
 * live attempt gets the row for the midnight with its next usage row; until
 * then its last usage row counts.  If usage rows of the instant's day were
 * removed, the figures of the midnight before count.
 *
 * The query looks up each attempt's last usage before the instant.  If it
 * needs a tenth of all running attempts or more, it first reads all usage of
 * the last minutes before the instant, which includes that of most attempts.
 */
CREATE FUNCTION gpucredit_internal.accrued_at(orgs text[], instants timestamptz[])
RETURNS TABLE (instant timestamptz, org text, account text, job bigint,
	attempt int, elapsed interval, billed numeric)
LANGUAGE sql STABLE PARALLEL SAFE ROWS 1000
BEGIN ATOMIC
	WITH clock AS MATERIALIZED (SELECT gpucredit.now() AS now),
	t AS MATERIALIZED (
		SELECT i.at, i.at > c.now AS open, m.midnight,
			gpucredit_internal.utc_day(m.midnight) - 1 AS day, i.at - 1.2 *
			current_setting('gpucredit.usage_interval')::interval AS recently
		FROM clock c
			CROSS JOIN (SELECT DISTINCT u.at
				FROM unnest(accrued_at.instants) AS u (at)
				WHERE u.at > '4700-01-01 00:00+00 BC') i
			CROSS JOIN LATERAL (SELECT gpucredit_internal.utc_midnight(
				gpucredit_internal.utc_day(least(i.at, c.now) - interval '1 us') + 1)
				AS midnight) m
		WHERE c.now > '4700-01-01 00:00+00 BC'),
	live AS MATERIALIZED (
		SELECT a.org, a.account, a.job, a.attempt, a.elapsed,
			gpucredit_internal.bill(a.per_hour, 1, 1000, a.elapsed, a.held)
				AS billed, u.at, u.elapsed AS logged, u.billed AS logged_bill
		FROM unnest(accrued_at.orgs) AS o (org)
			JOIN gpucredit.job j ON j.org = o.org AND j.state = 'active'
			CROSS JOIN LATERAL (SELECT r.* FROM gpucredit.attempt r
				WHERE r.org = j.org AND r.job = j.job
					AND r.attempt = j.attempt OFFSET 0) a
			LEFT JOIN LATERAL (SELECT u.at, u.elapsed, u.billed
				FROM gpucredit.usage u
				WHERE u.org = a.org AND u.job = a.job
					AND u.attempt = a.attempt
					AND EXISTS (SELECT FROM t WHERE NOT t.open)
				ORDER BY u.at DESC, u.elapsed DESC LIMIT 1) u ON true
		WHERE a.per_hour > '0'),
	running AS MATERIALIZED (
		SELECT count(*) AS n FROM gpucredit.job j WHERE j.state = 'active')
	SELECT t.at, l.org, l.account, l.job, l.attempt, l.elapsed,
		l.billed::numeric
	FROM t JOIN live l ON t.open
	WHERE l.elapsed > '0'
	UNION ALL
	SELECT t.at, k.org, k.account, k.job, k.attempt, k.elapsed,
		k.billed::numeric
	FROM t CROSS JOIN LATERAL (
		WITH unsettled AS MATERIALIZED (
			SELECT c.org, c.account, c.job, c.attempt,
				CASE WHEN t.at = t.midnight THEN c.elapsed END AS elapsed,
				CASE WHEN t.at = t.midnight THEN c.billed END AS billed
			FROM unnest(accrued_at.orgs) AS o (org)
				JOIN gpucredit.accrued c ON c.org = o.org AND c.day = t.day
			UNION ALL
			SELECT l.org, l.account, l.job, l.attempt,
				CASE WHEN l.at < t.at THEN l.logged END,
				CASE WHEN l.at < t.at THEN l.logged_bill END
			FROM live l
			WHERE l.at < t.midnight
			UNION ALL
			SELECT a.org, a.account, a.job, a.attempt, NULL, NULL
			FROM unnest(accrued_at.orgs) AS o (org)
				JOIN gpucredit.attempt a ON a.org = o.org
					AND a.ended_at >= t.at AND a.ended_at < t.midnight
					AND a.started_at < t.at
					AND a.per_hour > '0'
			WHERE t.at < t.midnight)
		SELECT n.org, n.account, n.job, n.attempt,
			coalesce(n.elapsed, u.elapsed, c.elapsed) AS elapsed,
			coalesce(n.billed, u.billed, c.billed) AS billed
		FROM (SELECT m.org, m.job, m.attempt, max(m.account) AS account,
				max(m.elapsed) AS elapsed, max(m.billed) AS billed
			FROM (SELECT * FROM unsettled
				UNION ALL
				SELECT u.org, NULL, u.job, u.attempt, u.elapsed, u.billed
				FROM gpucredit.usage u
				WHERE u.at >= t.recently AND u.at < t.at
					AND t.at < t.midnight
					AND (SELECT CASE WHEN count(*) > 100 THEN count(*)
							> (SELECT r.n / 10 FROM running r) END
						FROM unsettled)) m
			GROUP BY m.job, m.attempt, m.org
			HAVING max(m.account) IS NOT NULL) n
			LEFT JOIN LATERAL (SELECT u.elapsed, u.billed
				FROM gpucredit.usage u
				WHERE n.elapsed IS NULL AND u.org = n.org AND u.job = n.job
					AND u.attempt = n.attempt AND u.at < t.at
				ORDER BY u.at DESC, u.elapsed DESC LIMIT 1) u ON true
			LEFT JOIN LATERAL (SELECT c.elapsed, c.billed
				FROM gpucredit.accrued c
				WHERE n.elapsed IS NULL AND u.elapsed IS NULL
					AND c.org = n.org AND c.day = t.day - 1 AND c.job = n.job
					AND c.attempt = n.attempt OFFSET 0) c ON true) k
	WHERE NOT t.open AND k.elapsed IS NOT NULL;
END;
COMMENT ON FUNCTION gpucredit_internal.accrued_at(text[], timestamptz[]) IS
'Internal: how long each unsettled attempt had run, and what it had cost, at each of these instants, by the usage logged before. For a future instant: what is metered now.';

/*
 * The change of accruals over a span, as a whole or by UTC day.  A run is a
 * series of known costs: at the span's beginning (day -infinity), at
 * midnights, and at the span's end.  Each cost contributes its difference from
 * the cost before to its day.  The last cost is subtracted on the day of
 * settlement, if that day is within the span.  The last usage of a live run
 * counts on its own day.  Usage that is logged after an attempt's end
 * (late_finish.c) is billed at once, so it does not accrue.
 */
CREATE FUNCTION gpucredit_internal.accrued_change(orgs text[], since timestamptz,
	until timestamptz, days boolean)
RETURNS TABLE (org text, account text, job bigint, attempt int, tier text,
	pool text, gpu_type text, share_gpus numeric, day date,
	elapsed interval, billed numeric, per_gpu_hour numeric)
LANGUAGE sql STABLE PARALLEL SAFE ROWS 10000
BEGIN ATOMIC
	WITH s AS MATERIALIZED (
		SELECT s.since, s.until, CASE WHEN accrued_change.days
				THEN gpucredit_internal.utc_day(least(gpucredit.now(),
					s.until - interval '1 us')) ELSE 'infinity' END AS last,
			greatest(s.since, gpucredit_internal.kept_from('entry')) AS inner_since
		FROM (SELECT coalesce(accrued_change.since, '-infinity') AS since,
			coalesce(accrued_change.until, 'infinity') AS until) s
		WHERE s.since < s.until AND s.until > '4700-01-01 00:00+00 BC'),
	known AS (
		SELECT x.org, x.job, x.attempt, CASE WHEN x.instant = s.since
				THEN '-infinity' ELSE s.last END AS day,
			x.elapsed, x.billed
		FROM s CROSS JOIN LATERAL gpucredit_internal.accrued_at(accrued_change.orgs,
			ARRAY[s.since, s.until]) x
		UNION ALL
		SELECT c.org, c.job, c.attempt, c.day, c.elapsed, c.billed::numeric
		FROM s CROSS JOIN unnest(accrued_change.orgs) AS o (org)
			JOIN gpucredit.accrued c ON c.org = o.org
				AND c.day >= gpucredit_internal.utc_day(s.inner_since)
				AND c.day < gpucredit_internal.utc_day(s.until)
		WHERE accrued_change.days
		UNION ALL
		SELECT j.org, j.job, j.attempt, gpucredit_internal.utc_day(u.at), u.elapsed,
			u.billed::numeric
		FROM s CROSS JOIN unnest(accrued_change.orgs) AS o (org)
			JOIN gpucredit.job j ON j.org = o.org AND j.state = 'active'
			CROSS JOIN LATERAL (SELECT u.at, u.elapsed, u.billed
				FROM gpucredit.usage u
				WHERE u.org = j.org AND u.job = j.job
					AND u.attempt = j.attempt
				ORDER BY u.at DESC, u.elapsed DESC LIMIT 1) u
		WHERE accrued_change.days AND u.at >= s.since AND u.at < s.until)
	SELECT r.org, r.account, r.job, r.attempt, r.tier, r.pool, r.gpu_type,
		r.share_gpus, v.day, v.elapsed, v.billed, r.per_gpu_hour
	FROM (SELECT a.org, a.account, a.job, a.attempt, a.tier, a.pool,
			a.gpu_type, a.gpus * a.billed_share / 1000.0 AS share_gpus, k.day,
			k.elapsed, k.billed, lag(k.elapsed, 1, '0') OVER w AS ran,
			lag(k.billed, 1, 0.000000) OVER w AS cost,
			CASE WHEN lead(k.day) OVER w IS NULL THEN e.day END AS settled,
			a.per_gpu_hour::numeric AS per_gpu_hour
		FROM s CROSS JOIN known k
			JOIN gpucredit.attempt a ON a.org = k.org AND a.job = k.job
				AND a.attempt = k.attempt AND a.per_hour > '0'
			CROSS JOIN LATERAL (SELECT CASE WHEN a.ended_at >= s.until THEN NULL
				WHEN accrued_change.days THEN gpucredit_internal.utc_day(a.ended_at)
				WHEN a.ended_at IS NOT NULL THEN 'infinity' END AS day) e
		WHERE coalesce(k.day < e.day, true)
		WINDOW w AS (PARTITION BY a.job, a.attempt, a.org
			ORDER BY k.day, k.billed, k.elapsed)) r
		CROSS JOIN LATERAL (VALUES
			(r.day, r.elapsed - r.ran, r.billed - r.cost),
			(r.settled, - r.elapsed, - r.billed)) AS v (day, elapsed, billed)
	WHERE v.day > '-infinity';
END;
COMMENT ON FUNCTION gpucredit_internal.accrued_change(text[], timestamptz, timestamptz,
	boolean) IS
'Internal: what accrued in [since, until) and was not settled in it, less what accrued before and was settled in it. Lines to be added up: by attempt, and by UTC day, or all as day infinity.';

/*
 * The run time of attempts that ended in a span.  A run counts at its end with
 * its settled time.  What a late report adds counts when the report came, as
 * its cost does; its energy counts at the run's end.
 */
CREATE FUNCTION gpucredit_internal.run_end(orgs text[], since timestamptz,
	until timestamptz)
RETURNS TABLE (org text, account text, job bigint, attempt int, tier text,
	pool text, gpu_type text, share_gpus numeric, at timestamptz,
	elapsed interval, uncollected numeric, late boolean,
	per_gpu_hour numeric, energy_j bigint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT a.org, a.account, a.job, a.attempt, a.tier, a.pool, a.gpu_type,
		a.gpus * a.billed_share / 1000.0, a.ended_at,
		a.elapsed - coalesce(a.late_elapsed, '0'),
		coalesce(a.uncollected, '0')::numeric
			- coalesce(a.late_uncollected, '0')::numeric, false,
		a.per_gpu_hour::numeric, a.energy_j
	FROM unnest(run_end.orgs) AS o (org)
		JOIN gpucredit.attempt a ON a.org = o.org
			AND a.ended_at >= coalesce(run_end.since, '-infinity')
			AND a.ended_at < coalesce(run_end.until, 'infinity')
	UNION ALL
	SELECT a.org, a.account, a.job, a.attempt, a.tier, a.pool, a.gpu_type,
		a.gpus * a.billed_share / 1000.0, a.late_at, a.late_elapsed,
		a.late_uncollected::numeric, true, a.per_gpu_hour::numeric, NULL
	FROM unnest(run_end.orgs) AS o (org)
		JOIN gpucredit.attempt a ON a.org = o.org
			AND a.late_at >= coalesce(run_end.since, '-infinity')
			AND a.late_at < coalesce(run_end.until, 'infinity');
END;
COMMENT ON FUNCTION gpucredit_internal.run_end(text[], timestamptz, timestamptz) IS
'Internal: attempts that ended in [since, until), and late reports in it: how much run time each adds, and what no credit covered. share_gpus: devices.';

/*
 * Checks accrued.  An attempt's row for a midnight must equal its last usage
 * row before, if that row is kept.  From midnight to midnight these rows must
 * not decrease, and they must not exceed the bill.  No midnight may be missing
 * between an attempt's first usage and its last usage before its end.  The
 * rows of attempts of an older release may begin on any day.
 */
CREATE FUNCTION gpucredit_internal.accrued_difference(from_org text, to_org text)
RETURNS TABLE (invariant text, org text, job bigint, attempt int, detail text)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH c AS NOT MATERIALIZED (
		SELECT * FROM gpucredit.accrued c
		WHERE gpucredit_internal.in_orgs(c.org,
			accrued_difference.from_org, accrued_difference.to_org)),
	last AS (		/* the last usage row of each day that has any */
		SELECT DISTINCT ON (u.org, u.job, u.attempt, gpucredit_internal.utc_day(u.at))
			u.org, u.job, u.attempt, gpucredit_internal.utc_day(u.at) AS day,
			u.elapsed, u.billed
		FROM gpucredit.usage u
		WHERE gpucredit_internal.in_orgs(u.org,
			accrued_difference.from_org, accrued_difference.to_org)
		ORDER BY u.org, u.job, u.attempt, gpucredit_internal.utc_day(u.at), u.at DESC,
			u.elapsed DESC),
	due AS (
		SELECT l.*, lead(l.day) OVER (PARTITION BY l.org, l.job, l.attempt
			ORDER BY l.day) - 1 AS until
		FROM last l)
	SELECT 'accrued_is_logged', d.org, d.job, d.attempt,
		format('at the end of %s: expected %s, %s, found %s, %s', n.day,
			d.elapsed, d.billed, coalesce(c.elapsed::text, 'no row'),
			coalesce(c.billed::text, 'no row'))
	FROM due d
		CROSS JOIN LATERAL generate_series(0, d.until - d.day) AS g (n)
		CROSS JOIN LATERAL (SELECT d.day + g.n AS day) n
		JOIN gpucredit.attempt a ON a.org = d.org AND a.job = d.job
			AND a.attempt = d.attempt AND a.per_hour > '0'
			AND gpucredit_internal.in_orgs(a.org, accrued_difference.from_org,
				accrued_difference.to_org)
		LEFT JOIN gpucredit.accrued c ON c.org = d.org AND c.day = n.day
			AND c.job = d.job AND c.attempt = d.attempt
			AND gpucredit_internal.in_orgs(c.org, accrued_difference.from_org,
				accrued_difference.to_org)
	WHERE (c.elapsed IS DISTINCT FROM d.elapsed
			OR c.billed IS DISTINCT FROM d.billed)
		AND coalesce(n.day < gpucredit_internal.utc_day(a.ended_at), true)
		AND (c.day IS NOT NULL OR gpucredit_internal.utc_day(a.started_at)
				> (SELECT min(m.day) FROM gpucredit.accrued m)
			OR EXISTS (SELECT FROM gpucredit.accrued o
				WHERE o.org = d.org AND o.day < n.day AND o.job = d.job
					AND o.attempt = d.attempt))
	UNION ALL
	SELECT 'accrued_within_bill', c.org, c.job, c.attempt,
		format('at the end of %s %s, %s; next %s; in all %s, %s, until %s',
			c.day, c.elapsed, c.billed, coalesce(c.next::text, 'none'),
			coalesce(a.elapsed::text, 'no row'),
			coalesce(a.billed::text, 'no bill'),
			coalesce(a.ended_at::text, 'now'))
	FROM (SELECT c.*, lead(c.billed) OVER (PARTITION BY c.org, c.job,
				c.attempt ORDER BY c.day) AS next FROM c) c
		LEFT JOIN gpucredit.attempt a ON a.org = c.org AND a.job = c.job
			AND a.attempt = c.attempt
			AND gpucredit_internal.in_orgs(a.org, accrued_difference.from_org,
				accrued_difference.to_org)
	WHERE (c.elapsed <= a.elapsed AND c.account = a.account
			AND c.billed <= coalesce(a.billed, a.held)
			AND coalesce(c.billed <= c.next, true)
			AND c.day >= gpucredit_internal.utc_day(a.started_at)
			AND coalesce(c.day < gpucredit_internal.utc_day(a.ended_at), true))
		IS NOT TRUE;
END;
COMMENT ON FUNCTION gpucredit_internal.accrued_difference(text, text) IS
'verify: rows of accrued that differ from usage, or exceed their attempt''s bill.';
