/*
 * 10_figures.sql: the figures of report_html().
 *
 * There is one function per question.  Each reads its tables once, so a month
 * of a million attempts takes a few scans.  A report_scope says what is asked:
 * one organisation or all, a time span, and, if the caller is a tenant, its
 * accounts.  Nothing else may enter a tenant's figures.
 */
CREATE SCHEMA gpucredit_report;
COMMENT ON SCHEMA gpucredit_report IS
'Helpers of gpucredit.report_html(), not to be called';

/* As in gpucredit, the search path matters only while this script runs. */
SET LOCAL search_path = pg_catalog, gpucredit, pg_temp;

/*
 * Sets defaults for since and until, and raises an error for impossible
 * values.
 */
CREATE FUNCTION gpucredit_report.report_span(since timestamptz, until timestamptz,
	at timestamptz, OUT first timestamptz, OUT last timestamptz)
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
BEGIN
	last := coalesce(until, at);
	IF NOT isfinite(last) OR NOT coalesce(isfinite(since), true) THEN
		RAISE EXCEPTION '"since" and "until" must be finite'
			USING ERRCODE = 'invalid_parameter_value',
			DETAIL = 'A report is divided into days.', HINT = 'Pass instants.';
	END IF;
	/* Each day and bar needs two instants that a timestamp can express. */
	IF last < '4712-01-01 00:00+00 BC' OR since < '4712-01-01 00:00+00 BC'
			OR last >= '294276-01-01 00:00+00' THEN
		RAISE EXCEPTION '"since" or "until" is out of range'
			USING ERRCODE = 'invalid_parameter_value',
			DETAIL = 'A report needs room before and after.',
			HINT = 'Pass instants from the year 4712 BC on and before 294276.';
	END IF;
	first := coalesce(since, (date_trunc('day', last AT TIME ZONE 'UTC')
		- interval '29 days') AT TIME ZONE 'UTC');
	/*
	 * The difference is computed with numbers, because that of two distant
	 * instants would wrap around.
	 */
	IF first >= last OR extract(epoch FROM last) - extract(epoch FROM first)
			> 3660 * 86400 THEN
		RAISE EXCEPTION 'a report cannot be from % to %', first, last
			USING ERRCODE = 'invalid_parameter_value',
			DETAIL = 'It must be longer than 0, and 3660 days at most.',
			HINT = 'Pass a "since" before "until", at most 3660 days.';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_report.report_span(timestamptz, timestamptz,
	timestamptz) IS
'report_html: the time of the report: until NULL is now, since NULL is thirty UTC days including that of until. Raises 22023 for an impossible span.';

/*
 * Builds the scope of a report, with the list of a tenant's accounts.  If a
 * tenant has none, the error is that of require_account().
 */
CREATE FUNCTION gpucredit_report.report_about(org text, since timestamptz,
	until timestamptz) RETURNS gpucredit.report_scope
LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	s gpucredit.report_scope;
	kept timestamptz := gpucredit_internal.kept_from('entry');
	hidden text;
BEGIN
	s.org := org;
	s.at := gpucredit.now();
	PERFORM gpucredit_internal.require_kept('since', since),
		gpucredit_internal.require_kept('until', coalesce(until, s.at));
	SELECT r.first, r.last INTO s.since, s.until
	FROM gpucredit_report.report_span(since, until, s.at) r;
	IF s.since <= kept THEN		/* a bound that long ago excludes nothing */
		s.since := kept + interval '1 us';
	END IF;
	/* A caller who is no tenant sees every account. */
	s.narrow := false;
	IF gpucredit_internal.may_read(NULL, NULL) THEN
		IF org IS NOT NULL THEN
			PERFORM gpucredit_internal.require_account(org, '');
		END IF;
		RETURN s;
	END IF;
	SELECT array_agg(a.org) FILTER (WHERE v.may_read),
		array_agg(a.account) FILTER (WHERE v.may_read),
		min(a.org) FILTER (WHERE NOT v.may_read)
	INTO s.orgs, s.accounts, hidden
	FROM gpucredit.account a
		CROSS JOIN LATERAL gpucredit_internal.may_read(a.org, a.account) AS v (may_read)
	WHERE a.org = report_about.org OR report_about.org IS NULL;
	s.narrow := hidden IS NOT NULL;
	IF s.orgs IS NULL AND (org IS NOT NULL OR s.narrow) THEN
		PERFORM gpucredit_internal.require_account(coalesce(org, hidden), '');
	END IF;
	IF NOT s.narrow THEN
		s.orgs := NULL;
		s.accounts := NULL;
	END IF;
	RETURN s;
END
$$;
COMMENT ON FUNCTION gpucredit_report.report_about(text, timestamptz, timestamptz) IS
'report_html: the report''s scope, all of which the caller may see.';

/* Spend */

/* The time span of a bar, chosen so that there are at most 72 bars. */
CREATE FUNCTION gpucredit_report.report_step(scope gpucredit.report_scope)
RETURNS interval
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE WHEN d.span <= interval '72 hours' THEN interval '1 hour'
		WHEN d.span <= interval '62 days' THEN interval '1 day'
		WHEN d.span <= interval '434 days' THEN interval '7 days'
		ELSE interval '61 days' END
	FROM (SELECT scope.until - scope.since AS span) d;
END;
COMMENT ON FUNCTION gpucredit_report.report_step(gpucredit.report_scope) IS
'report_html: the time span of each bar of spend.';

/*
 * The start of the first bar: that of the hour, or of the UTC day, in which
 * the report begins.
 */
CREATE FUNCTION gpucredit_report.report_first(scope gpucredit.report_scope)
RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT date_bin(least(gpucredit_report.report_step(scope), interval '1 day'),
		scope.since, '2000-01-01 00:00+00'::timestamptz);
END;
COMMENT ON FUNCTION gpucredit_report.report_first(gpucredit.report_scope) IS
'report_html: where the first bar of spend begins.';

/*
 * A page has a row for each of the eight or ten organisations or accounts that
 * spent most, and one row for all others.  There may be tens of thousands of
 * others, so they are added up where the figures are read.
 */
CREATE TYPE gpucredit_report.report_line AS (kind text, row int, items int,
	org text, account text, gpu_type text, bin timestamptz, spent numeric,
	refunded numeric);
COMMENT ON TYPE gpucredit_report.report_line IS
'What the items of one row of a report spent and refunded, in one bar or in all its time.';

/* Organisations that may have spent credit in the report's time. */
CREATE FUNCTION gpucredit_report.report_scope_orgs(scope gpucredit.report_scope)
RETURNS text[]
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE WHEN (scope).org IS NOT NULL THEN ARRAY[(scope).org]
		WHEN (scope).narrow THEN (SELECT array_agg(DISTINCT o.org)
			FROM unnest((scope).orgs) AS o (org))
		ELSE (SELECT array_agg(a.org::text) FROM gpucredit.account a
			WHERE a.account = '') END;
END;
COMMENT ON FUNCTION gpucredit_report.report_scope_orgs(gpucredit.report_scope) IS
'report_html: the organisations in its scope.';

/*
 * The spend of each account, bar by bar.
 *
 * A settlement names its attempt.  A refund names the job and the hold, so it
 * counts for the GPU type of the hold's attempt, as in spend_line().  Refunded
 * credit may be spent again, so even the sums of one bucket may exceed the
 * type credits.  So sums are numeric.
 *
 * A bar's accrual is what all runs had accrued at its end, less what they had
 * accrued at its beginning.  For the bars, runs are added up at each instant;
 * accounts are distinguished only at the beginning and the end of the report.
 */
CREATE FUNCTION gpucredit_report.report_lines(scope gpucredit.report_scope)
RETURNS SETOF gpucredit_report.report_line
LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 10000
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	first timestamptz := gpucredit_report.report_first(scope);
	step interval := gpucredit_report.report_step(scope);
	until timestamptz := CASE WHEN scope.until >= scope.at THEN 'infinity'
		ELSE scope.until END;
	orgs text[] := gpucredit_report.report_scope_orgs(scope);
	ends timestamptz[] := ARRAY[scope.since, until] || ARRAY(
		SELECT b.bin FROM gpucredit_report.report_bins(scope) b
		WHERE b.bin > scope.since);
BEGIN
	RETURN QUERY
	WITH spend AS MATERIALIZED (
		SELECT e.org::text AS org, e.account::text AS account,
			CASE WHEN scope.org IS NULL THEN '' ELSE e.account::text END
				AS item,
			e.gpu_type, e.bin, coalesce(sum(e.amount::numeric) FILTER (
				WHERE e.target = 'spent'), 0.000000) AS spent,
			coalesce(sum(e.amount::numeric) FILTER (
				WHERE e.target <> 'spent'), 0.000000) AS refunded
		FROM (SELECT e.org, e.account, e.target, e.amount,
				date_bin(step, e.at, first) AS bin,
				CASE WHEN e.attempt IS NULL AND e.job IS NOT NULL THEN
					(SELECT a.gpu_type FROM gpucredit.attempt a
					WHERE a.org = e.org AND a.job = e.job AND a.hold = e.hold
					ORDER BY a.attempt DESC LIMIT 1)
				ELSE a.gpu_type END AS gpu_type
			FROM gpucredit.entry e
				LEFT JOIN gpucredit.attempt a ON a.org = e.org
					AND a.job = e.job AND a.attempt = e.attempt
			WHERE (scope.org IS NULL OR e.org = scope.org)
				AND e.at >= scope.since AND e.at < scope.until
				AND (e.source = 'spent' OR e.target = 'spent')
				AND (NOT scope.narrow OR (e.org::text, e.account::text) IN (
					SELECT * FROM unnest(scope.orgs, scope.accounts)))
			OFFSET 0) e		/* so that the planner expects few groups */
		GROUP BY 1, 2, 3, 4, 5
		UNION ALL
		SELECT x.org, x.account, x.item, x.gpu_type, v.bin, v.billed, 0
		FROM (SELECT x.org, x.item, a.gpu_type, x.instant,
				x.owner AS account, sum(x.billed) AS billed
			FROM (SELECT x.*, CASE WHEN scope.org IS NULL THEN ''
						ELSE x.account END AS item,
					CASE WHEN x.instant IN (scope.since, until)
						THEN x.account END AS owner
				FROM gpucredit_internal.accrued_at(orgs, ends) x
				WHERE NOT scope.narrow OR (x.org, x.account) IN (
					SELECT * FROM unnest(scope.orgs, scope.accounts))) x
				JOIN gpucredit.attempt a ON a.org = x.org AND a.job = x.job
					AND a.attempt = x.attempt
			GROUP BY 1, 2, 3, 4, 5) x
			CROSS JOIN LATERAL (VALUES
				(CASE WHEN x.instant < until THEN date_bin(step, x.instant,
					first) END, - x.billed),
				(CASE WHEN x.instant > scope.since THEN date_bin(step,
					least(x.instant, scope.until) - interval '1 us', first)
					END, x.billed)) AS v (bin, billed)
		WHERE v.bin IS NOT NULL),
	account AS (
		SELECT s.org, s.account, sum(s.spent) AS spent,
			sum(s.refunded) AS refunded, least(row_number() OVER (
				ORDER BY sum(s.spent) - sum(s.refunded) DESC,
					s.org COLLATE "C", s.account COLLATE "C"), 11)::int AS row
		FROM spend s
		WHERE s.account IS NOT NULL
		GROUP BY s.org, s.account
		HAVING sum(s.spent) <> 0 OR sum(s.refunded) <> 0),
	series AS MATERIALIZED (
		SELECT s.org, s.item, least(row_number() OVER (
				ORDER BY sum(s.spent) - sum(s.refunded) DESC,
					s.org COLLATE "C", s.item COLLATE "C"), 9)::int AS row
		FROM spend s
		GROUP BY s.org, s.item
		HAVING bool_or(s.spent <> 0 OR s.refunded <> 0)),
	type AS MATERIALIZED (
		SELECT t.gpu_type, t.bin, t.spent, t.refunded, dense_rank() OVER (
				ORDER BY t.net DESC, t.gpu_type COLLATE "C")::int AS rank
		FROM (SELECT s.gpu_type, s.bin, sum(s.spent) AS spent,
				sum(s.refunded) AS refunded, sum(sum(s.spent)
					- sum(s.refunded)) OVER (PARTITION BY s.gpu_type) AS net
			FROM spend s
			GROUP BY s.gpu_type, s.bin) t
		WHERE t.spent <> 0 OR t.refunded <> 0),
	time AS MATERIALIZED (
		SELECT t.bin, sum(t.spent) AS spent, sum(t.refunded) AS refunded
		FROM type t
		GROUP BY t.bin),
	top AS MATERIALIZED (
		SELECT i.row, i.org, i.item, s.bin, sum(s.spent) AS spent,
			sum(s.refunded) AS refunded
		FROM series i JOIN spend s ON s.org = i.org AND s.item = i.item
		WHERE i.row < 9
		GROUP BY i.row, i.org, i.item, s.bin
		HAVING sum(s.spent) <> 0 OR sum(s.refunded) <> 0)
	SELECT 'account', a.row, count(*)::int, min(a.org), min(a.account),
		NULL, NULL::timestamptz, sum(a.spent), sum(a.refunded)
	FROM account a
	GROUP BY a.row
	UNION ALL
	SELECT 'series', r.row, 1, r.org, CASE WHEN scope.org IS NOT NULL
		THEN r.item END, NULL, r.bin, r.spent, r.refunded
	FROM top r
	UNION ALL
	SELECT 'series', 9, o.items, o.org, CASE WHEN scope.org IS NOT NULL
		THEN o.item END, NULL, t.bin, t.spent - coalesce(r.spent, 0),
		t.refunded - coalesce(r.refunded, 0)
	FROM time t
		LEFT JOIN (SELECT r.bin, sum(r.spent) AS spent,
				sum(r.refunded) AS refunded
			FROM top r GROUP BY r.bin) r ON r.bin = t.bin
		JOIN (SELECT count(*)::int AS items, min(i.org) AS org,
				min(i.item) AS item
			FROM series i WHERE i.row = 9) o ON o.items > 0
	WHERE t.spent <> coalesce(r.spent, 0)
		OR t.refunded <> coalesce(r.refunded, 0)
	UNION ALL
	SELECT 'type', least(t.rank, 9), greatest(max(u.types) - 8, 1), NULL,
		NULL, min(t.gpu_type), t.bin, sum(t.spent), sum(t.refunded)
	FROM type t
		LEFT JOIN (SELECT max(u.rank) AS types FROM type u) u ON t.rank > 8
	GROUP BY least(t.rank, 9), t.bin
	UNION ALL
	SELECT 'time', NULL, NULL, NULL, NULL, NULL, t.bin, t.spent, t.refunded
	FROM time t;
END
$$;
COMMENT ON FUNCTION gpucredit_report.report_lines(gpucredit.report_scope) IS
'report_html: what was spent and refunded in the time, by kind. account: in all, by each of the ten accounts that spent most, and by all others (row 11); series: in each bar, by each of the eight organisations that spent most, or accounts of a single one, and by all others (row 9); type: the same by GPU type (NULL: callers'' own holds); time: in each bar, by all. items: how many are in the row.';

CREATE TYPE gpucredit_report.report_hours_line AS (org text, account text,
	with_gpus boolean, hours numeric, attempts bigint, going bigint,
	uncollected numeric);
COMMENT ON TYPE gpucredit_report.report_hours_line IS
'The GPU-hours of an account, or of all others, in a report''s time.';

CREATE FUNCTION gpucredit_report.report_hours(scope gpucredit.report_scope,
	lines gpucredit_report.report_line[])
RETURNS SETOF gpucredit_report.report_hours_line
LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 1000
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	until timestamptz := CASE WHEN scope.until >= scope.at THEN 'infinity'
		ELSE scope.until END;
BEGIN
	RETURN QUERY
	SELECT t.org, t.account, h.gpu_type IS NOT NULL, sum(h.hours),
		sum(h.attempts)::bigint, sum(h.going)::bigint, sum(h.uncollected)
	FROM (SELECT h.org, h.account, h.gpu_type,
			round(sum(h.hours) / 3600000, 6) AS hours,
			sum(h.ended + h.going) AS attempts, sum(h.going) AS going,
			sum(h.uncollected) AS uncollected
		FROM (SELECT x.org, x.account, x.gpu_type,
				sum(extract(epoch FROM x.elapsed) * x.share_gpus) * 1000 AS hours,
				count(*) FILTER (WHERE NOT x.late) AS ended, 0 AS going,
				sum(x.uncollected) AS uncollected
			FROM gpucredit_internal.run_end(gpucredit_report.report_scope_orgs(scope),
				scope.since, scope.until) x
			WHERE NOT scope.narrow OR (x.org, x.account) IN (
				SELECT * FROM unnest(scope.orgs, scope.accounts))
			GROUP BY 1, 2, 3
			UNION ALL
			SELECT x.org, x.account, a.gpu_type, sum(c.sign
					* extract(epoch FROM x.elapsed) * (a.gpus * a.share)),
				0, count(*) FILTER (WHERE c.sign > 0), 0.000000
			FROM (VALUES (scope.since, -1), (until, 1)) AS c (instant, sign)
				JOIN gpucredit_internal.accrued_at(gpucredit_report.report_scope_orgs(scope),
					ARRAY[scope.since, until]) x ON x.instant = c.instant
				JOIN gpucredit.attempt a ON a.org = x.org AND a.job = x.job
					AND a.attempt = x.attempt
			WHERE NOT scope.narrow OR (x.org, x.account) IN (
				SELECT * FROM unnest(scope.orgs, scope.accounts))
			GROUP BY 1, 2, 3) h
		GROUP BY 1, 2, 3) h
		LEFT JOIN unnest(report_hours.lines) t ON t.kind = 'account'
			AND t.items = 1 AND t.org = h.org AND t.account = h.account
	GROUP BY 1, 2, 3;
END
$$;
COMMENT ON FUNCTION gpucredit_report.report_hours(gpucredit.report_scope,
	gpucredit_report.report_line[]) IS
'report_html: GPU-hours used in the time by each of the accounts that spent most, and by all others (org NULL), with GPUs and without. Also how many runs, how many of them were not over at its end, and what no credit covered.';

/* Use of the devices */

/*
 * Microseconds since 1970, exactly.  The function is declared STABLE like the
 * functions it calls, so that it can be inlined.
 */
CREATE FUNCTION gpucredit_report.report_micros(at timestamptz) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT (date_part('epoch', report_micros.at) * 1000000)::bigint;
END;
COMMENT ON FUNCTION gpucredit_report.report_micros(timestamptz) IS
'report_html: an instant in microseconds.';

CREATE TYPE gpucredit_report.report_slot AS (hour timestamptz, length numeric,
	busy numeric, supply numeric);
COMMENT ON TYPE gpucredit_report.report_slot IS
'An hour of a report: devices busy and devices available.';

/*
 * The use of the devices, hour by hour.
 *
 * An attempt is two events: it adds devices at its start and subtracts them at
 * its end.  So each hour needs only two sums: that of its changes, and that of
 * each change times the time from the change to the end of the hour.
 *
 * The supply comes from the nodes that are registered now.  It is only shown
 * in a report on all organisations.
 */
CREATE FUNCTION gpucredit_report.report_slots(scope gpucredit.report_scope)
RETURNS SETOF gpucredit_report.report_slot
LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 750
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	until timestamptz := least(scope.until, scope.at);
	hour1 timestamptz := date_bin('1 hour', scope.since,
		'2000-01-01 00:00+00');
BEGIN
	RETURN QUERY
	WITH change AS (
		SELECT 'a' AS kind, v.t / 3600000000 AS hour, sum(v.w) AS w,
			sum(v.w * (3600000000 - v.t % 3600000000)) AS rest
		FROM (SELECT gpucredit_report.report_micros(greatest(a.started_at,
					scope.since)) AS s,
				gpucredit_report.report_micros(least(a.ended_at, until)) AS e,
				a.gpus::bigint * a.share AS w
			FROM gpucredit.attempt a
			WHERE (scope.org IS NULL OR a.org = scope.org)
				AND a.gpu_type IS NOT NULL AND a.started_at < until
				AND (a.ended_at IS NULL OR a.ended_at > scope.since)
				AND (NOT scope.narrow OR (a.org::text, a.account::text) IN (
					SELECT * FROM unnest(scope.orgs, scope.accounts)))) a
			CROSS JOIN LATERAL (VALUES (a.s, a.w), (a.e, - a.w)) AS v (t, w)
		GROUP BY 2
		UNION ALL
		SELECT 's', v.t / 3600000000, sum(v.w),
			sum(v.w * (3600000000 - v.t % 3600000000))
		FROM gpucredit.node n
			CROSS JOIN LATERAL (VALUES
				(gpucredit_report.report_micros(greatest(n.registered_at,
					scope.since)), 1000::bigint * n.gpus),
				(gpucredit_report.report_micros(until), -1000::bigint * n.gpus))
				AS v (t, w)
		WHERE scope.org IS NULL AND NOT scope.narrow
			AND n.registered_at < until
		GROUP BY 2),
	hour AS (
		SELECT h.hour, coalesce(sum(c.w) FILTER (WHERE c.kind = 'a'), 0) AS aw,
			coalesce(sum(c.rest) FILTER (WHERE c.kind = 'a'), 0) AS ar,
			coalesce(sum(c.w) FILTER (WHERE c.kind = 's'), 0) AS sw,
			coalesce(sum(c.rest) FILTER (WHERE c.kind = 's'), 0) AS sr
		FROM generate_series(hour1, until, '1 hour') AS h (hour)
			LEFT JOIN change c
				ON c.hour = gpucredit_report.report_micros(h.hour) / 3600000000
		GROUP BY h.hour)
	SELECT h.hour, extract(epoch FROM least(h.hour + interval '1 hour', until)
			- greatest(h.hour, scope.since)) / 3600,
		(h.ar + 3600000000 * (sum(h.aw) OVER w - h.aw)) / 3600000000000,
		(h.sr + 3600000000 * (sum(h.sw) OVER w - h.sw)) / 3600000000000
	FROM hour h
	WHERE h.hour < until AND scope.since < until	/* no hours in the future */
	WINDOW w AS (ORDER BY h.hour);
END
$$;
COMMENT ON FUNCTION gpucredit_report.report_slots(gpucredit.report_scope) IS
'report_html: for each hour, how much of it counts, and device-hours allocated and available (0 if only some tenants are in scope).';

/* Waits */

CREATE TYPE gpucredit_report.report_wait AS (tier text, rank int, started bigint,
	median interval, p95 interval, longest interval, waiting bigint,
	waiting_longest interval);
COMMENT ON TYPE gpucredit_report.report_wait IS
'How long the jobs of a tier waited in a report''s time.';

/*
 * Waits are first counted by second, because parallel workers can do that; a
 * sort of all waits could not be parallel.
 */
CREATE FUNCTION gpucredit_report.report_waits(scope gpucredit.report_scope)
RETURNS SETOF gpucredit_report.report_wait
LANGUAGE plpgsql STABLE PARALLEL SAFE ROWS 8
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
BEGIN
	RETURN QUERY
	SELECT w.tier, t.rank, w.started, make_interval(secs => w.waits[1]),
		make_interval(secs => w.waits[2]), make_interval(secs => w.waits[3]),
		w.waiting, scope.at - w.oldest
	FROM (SELECT n.tier, coalesce(sum(n.n) FILTER (WHERE n.started), 0)::bigint
				AS started,
			ARRAY[min(n.wait) FILTER (WHERE n.started AND n.upto >= 0.5 * n.of),
				min(n.wait) FILTER (WHERE n.started AND n.upto >= 0.95 * n.of),
				max(n.wait) FILTER (WHERE n.started)] AS waits,
			sum(n.waiting)::bigint AS waiting, min(n.oldest) AS oldest
		FROM (SELECT n.*, sum(n.n) OVER (PARTITION BY n.tier, n.started
					ORDER BY n.wait) AS upto,
				sum(n.n) OVER (PARTITION BY n.tier, n.started) AS of
			FROM (SELECT j.tier, j.started, j.wait, count(*) AS n,
					count(*) FILTER (WHERE j.waits) AS waiting,
					min(j.waits_from) FILTER (WHERE j.waits) AS oldest
				FROM (SELECT j.tier::text AS tier, j.attempt > 0 AS started,
						floor(date_part('epoch', j.waited)) AS wait,
						j.state = 'queued' AS waits, j.waits_from
					FROM gpucredit.job j
					WHERE (scope.org IS NULL OR j.org = scope.org)
						AND j.submitted_at >= scope.since
						AND j.submitted_at < scope.until
						AND (NOT scope.narrow
							OR (j.org::text, j.account::text) IN (SELECT *
								FROM unnest(scope.orgs, scope.accounts)))
					OFFSET 0) j	/* so that the planner does not expect many groups */
				GROUP BY j.tier, j.started, j.wait) n) n
		GROUP BY n.tier) w
		LEFT JOIN gpucredit.tier t ON t.tier = w.tier
	ORDER BY t.rank, w.tier COLLATE "C";
END
$$;
COMMENT ON FUNCTION gpucredit_report.report_waits(gpucredit.report_scope) IS
'report_html: how long jobs submitted in the time have waited, in whole seconds, by tier: started jobs, and jobs that still wait.';

/*
 * Fair share of organisations, or of the accounts just below one.  fair_share()
 * reads all accounts of a pool, so pools that the page does not show are left
 * out.
 */
CREATE TYPE gpucredit_report.report_share AS (pool text, org text, account text,
	weight numeric, due numeric, used numeric);
COMMENT ON TYPE gpucredit_report.report_share IS
'An account in a report: its share of a pool, and what it used.';

CREATE FUNCTION gpucredit_report.report_shares(scope gpucredit.report_scope)
RETURNS SETOF gpucredit_report.report_share
LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $$
DECLARE
	of_pool text;
	pools int := 0;
BEGIN
	FOR of_pool IN
		SELECT p.pool FROM gpucredit.pool p ORDER BY p.pool COLLATE "C"
	LOOP
		RETURN QUERY
		WITH f AS MATERIALIZED (
			SELECT f.org, f.account, f.weight, f.share, f.used,
				CASE WHEN f.account LIKE '%/%'
					THEN regexp_replace(f.account, '/[^/]*$', '')
					WHEN f.account <> '' THEN '' END AS above
			FROM gpucredit.fair_share(of_pool, scope.org) f
			WHERE (scope.org IS NOT NULL OR scope.narrow OR f.account = '')
				AND (NOT scope.narrow OR (f.org, f.account) IN (
					SELECT v.org, v.account
					FROM unnest(scope.orgs, scope.accounts) AS v (org, account)))),
		top AS (	/* if an ancestor is in the list, so is the parent */
			SELECT f.* FROM f
			WHERE NOT EXISTS (SELECT FROM f u
				WHERE u.org = f.org AND u.account = f.above)),
		chosen AS (
			SELECT t.* FROM top t
			WHERE (scope.org IS NULL AND NOT scope.narrow) OR NOT EXISTS (
				SELECT FROM f WHERE f.org = t.org AND f.account <> t.account
					AND gpucredit_internal.is_below(f.account, t.account))
			UNION ALL
			SELECT f.* FROM f
				JOIN top t ON t.org = f.org AND t.account
					= (gpucredit_internal.account_path(f.account))[2]
			WHERE scope.org IS NOT NULL OR scope.narrow)
		SELECT of_pool, c.org, c.account, c.weight,
			c.share / nullif(sum(c.share) OVER (), 0),
			c.used / nullif(sum(c.used) OVER (), 0)
		FROM chosen c;
		pools := pools + CASE WHEN FOUND THEN 1 ELSE 0 END;
		EXIT WHEN pools = 4;
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_report.report_shares(gpucredit.report_scope) IS
'report_html: the fair share of the accounts in scope, as fractions of what is due to and used by all of them, in each of the first four pools where they have any.';
