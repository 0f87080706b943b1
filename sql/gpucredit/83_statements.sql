/*
 * 83_statements.sql: what was spent, on what, and what is to be invoiced.
 *
 * All of it is told by the entries: spent is what was settled or captured in
 * a span of time, refunded what was given back in it (of whatever time), net
 * the difference.  A hold serves one attempt, so an entry's hold says which
 * GPU type it was for; callers' own holds have no job, tier or GPU type.
 */

CREATE FUNCTION gpucredit.spend_line(tenant text, top text,
	since timestamptz, until timestamptz)
RETURNS TABLE (account text, job bigint, tier text, gpu_type text, day text,
	spent numeric, refunded numeric, net numeric, gpu_hours numeric)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT e.account, e.job, j.tier, a.gpu_type, e.day, e.spent, e.refunded,
		e.spent - e.refunded, CASE WHEN e.spent > 0
		THEN a.gpus * a.share / 1000.0 * extract(epoch FROM a.elapsed) / 3600
		END
	FROM (SELECT e.account, e.job, e.hold,
			to_char(e.at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day,
			coalesce(sum(e.amount) FILTER (WHERE e.target = 'spent'),
				'0')::numeric AS spent,
			coalesce(sum(e.amount) FILTER (WHERE e.source = 'spent'),
				'0')::numeric AS refunded
		FROM gpucredit.entry e
		WHERE e.org = spend_line.tenant
			AND gpucredit.is_below(e.account, spend_line.top)
			AND 'spent' IN (e.source, e.target)
			AND e.at >= coalesce(spend_line.since, '-infinity')
			AND e.at < coalesce(spend_line.until, 'infinity')
		GROUP BY e.account, e.job, e.hold, 4
		UNION ALL
		SELECT n.account, n.job, n.hold, NULL, sum(n.billed)::numeric,
			sum(n.refunded)::numeric
		FROM gpucredit.closing_net n
		WHERE n.org = spend_line.tenant AND spend_line.since IS NULL
			AND gpucredit.is_below(n.account, spend_line.top)
			AND (n.billed > '0' OR n.refunded > '0')
		GROUP BY n.account, n.job, n.hold) e
		LEFT JOIN gpucredit.job j ON j.org = spend_line.tenant
			AND j.job = e.job
		LEFT JOIN LATERAL (SELECT a.gpu_type, a.gpus, a.share, a.elapsed
			FROM gpucredit.attempt a
			WHERE a.org = spend_line.tenant AND a.job = e.job
				AND a.hold = e.hold
			ORDER BY a.attempt DESC LIMIT 1) a ON true;
END;
COMMENT ON FUNCTION gpucredit.spend_line(text, text, timestamptz,
	timestamptz) IS
'What an account and all below it spent in [since, until), a line per hold and UTC day; since NULL: also what left, of no day. The caller has asked require_kept().';

/* How arguments are refused in C, for functions written in SQL. */
CREATE FUNCTION gpucredit.require_sense(name text, value text,
	sense boolean, problem text, hint text) RETURNS void
LANGUAGE plpgsql STABLE PARALLEL SAFE
AS $$
BEGIN
	IF value IS NULL THEN
		RAISE EXCEPTION '"%" must not be null', name
			USING ERRCODE = 'invalid_parameter_value',
			DETAIL = 'NULL has no meaning for this argument.', HINT = hint;
	ELSIF NOT sense THEN
		RAISE EXCEPTION '"%" %', name, problem
			USING ERRCODE = 'invalid_parameter_value',
			DETAIL = format('It is "%s".',
				gpucredit.clip_for_message(value)), HINT = hint;
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit.require_sense(text, text, boolean, text,
	text) IS
'Refuses an argument that is null or makes no sense (22023).';

CREATE TYPE gpucredit.usage_by_result AS (item text, spent numeric,
	refunded numeric, net numeric, gpu_hours numeric, jobs bigint);
COMMENT ON TYPE gpucredit.usage_by_result IS
'What one account, tier, GPU type, day or job has cost.';

CREATE FUNCTION gpucredit.usage_by(org text, account text,
	since timestamptz, until timestamptz, by text)
RETURNS SETOF gpucredit.usage_by_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit.require_account(usage_by.org, usage_by.account);
	SELECT gpucredit.require_kept('since', usage_by.since),
		gpucredit.require_kept('until', usage_by.until);
	SELECT gpucredit.require_sense('by', usage_by.by, usage_by.by
		IN ('account', 'tier', 'gpu_type', 'day', 'job'), 'is unknown',
		'Pass account, tier, gpu_type, day or job.');
	SELECT u.item, sum(u.spent), sum(u.refunded), sum(u.net),
		round(coalesce(sum(u.gpu_hours), 0), 6), count(DISTINCT u.job)
	FROM (SELECT l.*, CASE usage_by.by WHEN 'account' THEN l.account
			WHEN 'tier' THEN l.tier WHEN 'gpu_type' THEN l.gpu_type
			WHEN 'day' THEN l.day WHEN 'job' THEN l.job::text END AS item,
			CASE usage_by.by WHEN 'job' THEN l.job END AS number
		FROM gpucredit.spend_line(usage_by.org, usage_by.account,
			usage_by.since, usage_by.until) l) u
	GROUP BY u.item, u.number
	ORDER BY u.number, u.item COLLATE "C";
END;
COMMENT ON FUNCTION gpucredit.usage_by(text, text, timestamptz, timestamptz,
	text) IS
'What an account and all below it spent in [since, until), NULL for no bound.
by: account, tier, gpu_type, day (UTC), job. What is running counts when it is settled, a refund when it is given.
Result: a row per item (NULL: callers'' own holds, which have no job, tier or GPU type), in credits: spent, refunded, net = spent - refunded; GPU hours of the attempts settled; how many jobs.
Errors: UC001 no such account; 22023, also for a since or until before what is kept.';

CREATE TYPE gpucredit.top_spenders_result AS (rank bigint, account text,
	net numeric, spent numeric, refunded numeric, gpu_hours numeric,
	jobs bigint);
COMMENT ON TYPE gpucredit.top_spenders_result IS
'An account, by what it and those below it spent.';

CREATE FUNCTION gpucredit.top_spenders(org text, k int, since timestamptz)
RETURNS SETOF gpucredit.top_spenders_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL RESTRICTED
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit.require_organisation(top_spenders.org);
	SELECT gpucredit.require_kept('since', top_spenders.since);
	SELECT gpucredit.require_sense('k', top_spenders.k::text,
		top_spenders.k > 0, 'is out of range', 'Pass 1 or more.');
	SELECT row_number() OVER (ORDER BY u.net DESC, u.account COLLATE "C"),
		u.account, u.net, u.spent, u.refunded, u.gpu_hours, u.jobs
	FROM (SELECT l.account, sum(l.net) AS net, sum(l.spent) AS spent,
			sum(l.refunded) AS refunded,
			round(coalesce(sum(l.gpu_hours), 0), 6) AS gpu_hours,
			count(DISTINCT l.job) AS jobs
		FROM gpucredit.spend_line(top_spenders.org, '', top_spenders.since,
			NULL) l
		WHERE gpucredit.sees(top_spenders.org, l.account)
		GROUP BY l.account) u
	WHERE u.net > 0
	ORDER BY 1 LIMIT top_spenders.k;
END;
COMMENT ON FUNCTION gpucredit.top_spenders(text, int, timestamptz) IS
'The k accounts that spent most since an instant (NULL: ever), each by itself, without those below it.
Result: as usage_by, the most first. A tenant is told of its own accounts alone.
Errors: UC001 no such organisation; 22023, also for a since before what is kept.';

CREATE TYPE gpucredit.top_jobs_result AS (rank bigint, job bigint,
	account text, tier text, gpu_types text[], net numeric, spent numeric,
	refunded numeric, gpu_hours numeric);
COMMENT ON TYPE gpucredit.top_jobs_result IS
'A job, by what it has cost.';

CREATE FUNCTION gpucredit.top_jobs(org text, k int, since timestamptz)
RETURNS SETOF gpucredit.top_jobs_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL RESTRICTED
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit.require_organisation(top_jobs.org);
	SELECT gpucredit.require_kept('since', top_jobs.since);
	SELECT gpucredit.require_sense('k', top_jobs.k::text,
		top_jobs.k > 0, 'is out of range', 'Pass 1 or more.');
	SELECT row_number() OVER (ORDER BY u.net DESC, u.job), u.job, u.account,
		u.tier, u.gpu_types, u.net, u.spent, u.refunded, u.gpu_hours
	FROM (SELECT l.job, l.account, l.tier,
			array_agg(DISTINCT l.gpu_type) AS gpu_types,
			sum(l.net) AS net, sum(l.spent) AS spent,
			sum(l.refunded) AS refunded,
			round(coalesce(sum(l.gpu_hours), 0), 6) AS gpu_hours
		FROM gpucredit.spend_line(top_jobs.org, '', top_jobs.since, NULL) l
		WHERE l.job IS NOT NULL
			AND gpucredit.sees(top_jobs.org, l.account)
		GROUP BY l.job, l.account, l.tier) u
	WHERE u.net > 0
	ORDER BY 1 LIMIT top_jobs.k;
END;
COMMENT ON FUNCTION gpucredit.top_jobs(text, int, timestamptz) IS
'The k jobs that spent most since an instant (NULL: ever).
Result: the most first, with the GPU types their attempts ran on; figures as usage_by. A tenant is told of the jobs of its own accounts alone.
Errors: UC001 no such organisation; 22023, also for a since before what is kept.';

CREATE TYPE gpucredit.invoice_result AS (line bigint, account text,
	tier text, gpu_type text, jobs bigint, gpu_hours numeric, spent numeric,
	refunded numeric, amount numeric);
COMMENT ON TYPE gpucredit.invoice_result IS
'A line of an invoice: what an account used of a tier and GPU type in a month.';

CREATE FUNCTION gpucredit.invoice(org text, month date)
RETURNS SETOF gpucredit.invoice_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL RESTRICTED
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit.require_organisation(invoice.org);
	SELECT gpucredit.require_sense('month', invoice.month::text,
		invoice.month BETWEEN '4713-01-01 BC' AND '294275-12-31',
		'is out of range', 'Pass any day of the month.');
	SELECT gpucredit.require_kept('month', date_trunc('month',
		invoice.month::timestamp) AT TIME ZONE 'UTC');
	SELECT row_number() OVER (ORDER BY l.account COLLATE "C",
			l.tier COLLATE "C", l.gpu_type COLLATE "C"),
		l.account, l.tier, l.gpu_type, count(DISTINCT l.job),
		round(coalesce(sum(l.gpu_hours), 0), 6), sum(l.spent),
		sum(l.refunded), sum(l.net)
	FROM (VALUES (date_trunc('month', invoice.month::timestamp)))
			AS m (first),
		LATERAL gpucredit.spend_line(invoice.org, '',
			m.first AT TIME ZONE 'UTC',
			(m.first + '1 month'::interval) AT TIME ZONE 'UTC') l
	WHERE gpucredit.sees(invoice.org, l.account)
	GROUP BY l.account, l.tier, l.gpu_type
	ORDER BY 1;
END;
COMMENT ON FUNCTION gpucredit.invoice(text, date) IS
'An organisation''s month (UTC): what was settled in it, less what was refunded in it, to the last micro-credit.
month: any day of it.
Result: a line per account, tier and GPU type; the last two are NULL on the line of an account''s own holds without a job. amount = spent - refunded, below 0 where more was refunded than spent. A tenant is told of its own accounts alone.
Errors: UC001 no such organisation; 22023, also for a month before what is kept.';

/* Denials: those in the audit, and those not counted there yet */
CREATE TYPE gpucredit.denials_result AS (account text, operation text,
	reason text, n bigint, first_at timestamptz, last_at timestamptz);
COMMENT ON TYPE gpucredit.denials_result IS
'What an account was denied: how often, why, when first and last.';

CREATE FUNCTION gpucredit.denials(org text, account text DEFAULT '',
	since timestamptz DEFAULT NULL)
RETURNS SETOF gpucredit.denials_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit.require_account(denials.org, denials.account);
	SELECT gpucredit.require_kept('since', denials.since, 'audit');
	SELECT d.account, d.operation, d.reason, sum(d.n)::bigint, min(d.first),
		max(d.last)
	FROM (SELECT a.account, a.operation, a.reason,
			coalesce((a.detail ->> 'repeats')::bigint, 1) AS n,
			coalesce((a.detail ->> 'since')::timestamptz, a.at) AS first,
			a.at AS last
		FROM gpucredit.audit a
		WHERE a.org = denials.org AND a.decision = 'denied'
			AND a.at >= coalesce(denials.since, '-infinity')
		UNION ALL
		SELECT a.account, a.operation, a.reason, d.n, d.at, d.at
		FROM gpucredit.denial d
			JOIN gpucredit.audit a ON a.org = denials.org
				AND a.audit = d.audit
		WHERE d.org = denials.org AND d.n > 0
			AND d.at >= coalesce(denials.since, '-infinity')) d
	WHERE gpucredit.is_below(d.account, denials.account)
	GROUP BY d.account, d.operation, d.reason
	ORDER BY d.account COLLATE "C", d.operation, d.reason;
END;
COMMENT ON FUNCTION gpucredit.denials(text, text, timestamptz) IS
'How often an account and those below it were denied since an instant (NULL: as long as the audit is kept), exactly: also those of a storm, of which the audit has the first and a number.
Errors: UC001 no such account; 22023, also for a since before what is kept.';

/* The trail by time: no batch is dated before one of its rows, or one before it. */
CREATE INDEX seal_sealed_at ON gpucredit.seal (sealed_at, batch);

CREATE FUNCTION gpucredit.audit_before(at timestamptz) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit.require_sense('at', audit_before.at::text, true, NULL,
		'Pass the instant whose rows, and those since, are looked for.');
	SELECT coalesce((SELECT s.audit_from FROM gpucredit.seal s
			WHERE s.sealed_at >= audit_before.at
			ORDER BY s.sealed_at, s.batch LIMIT 1),
		(SELECT s.audit_to FROM gpucredit.seal s
			ORDER BY s.batch DESC LIMIT 1), (-9223372036854775808)::bigint);
END;
COMMENT ON FUNCTION gpucredit.audit_before(timestamptz) IS
'Where to look in the trail for what was decided since an instant: each row of it, or later, has a number above the result, so that the table''s key finds them: WHERE audit > gpucredit.audit_before(t) AND at >= t. It goes by what is sealed: sealed every minute, the rows of at most some minutes before are read, too; never sealed, all are.
at: in a condition a constant, or now() less some time; of what is volatile, as gpucredit.now(), by a subquery (SELECT gpucredit.audit_before(...)).
Result: a number, perhaps of no row. Rows dated before the server''s clock was set back may be missed.
Errors: 22023 at is null.';
