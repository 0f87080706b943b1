/*
 * 83_statements.sql: reports of spend, and invoices.
 *
 * The spend of a span of time is the use in it: amounts settled or captured in
 * it, plus accruals at its end, less accruals at its beginning
 * (83_accrued.sql). Refunds count in the span in which they happen; net is the
 * difference.  A hold serves one attempt, so an entry's hold gives its GPU
 * type; callers' own holds have no job, tier, pool or GPU type.
 *
 * The entries of a few organisations are found organisation by organisation.
 * Those of many are read once by time, and a hash says which are wanted: the
 * index on time is no help for a single organisation, and would be read again
 * for each.
 */

CREATE FUNCTION gpucredit_internal.spend_line(orgs text[], top text,
	since timestamptz, until timestamptz, days boolean)
RETURNS TABLE (org text, account text, job bigint, tier text, pool text,
	gpu_type text, day date, spent numeric, refunded numeric, net numeric,
	gpu_hours numeric, accrued numeric, uncollected numeric,
	per_gpu_hour numeric, energy_j bigint)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT e.org, e.account, e.job, j.tier, j.pool, a.gpu_type, e.day,
		e.spent, e.refunded, e.spent - e.refunded, 0.000000, 0.000000,
		0.000000, a.per_gpu_hour, NULL
	FROM (SELECT e.org, e.account, e.job, e.hold,
			CASE WHEN spend_line.days THEN gpucredit_internal.utc_day(e.at) END AS day,
			coalesce(sum(e.amount) FILTER (WHERE e.target = 'spent'),
				'0')::numeric AS spent,
			coalesce(sum(e.amount) FILTER (WHERE e.source = 'spent'),
				'0')::numeric AS refunded
		FROM (SELECT e.* FROM unnest(spend_line.orgs) AS o (org)
				CROSS JOIN LATERAL (SELECT e.* FROM gpucredit.entry e
					WHERE e.org = o.org
						AND e.at >= coalesce(spend_line.since, '-infinity')
						AND e.at < coalesce(spend_line.until, 'infinity')
					OFFSET 0) e
			WHERE cardinality(spend_line.orgs) <= 100
			UNION ALL
			SELECT e.* FROM gpucredit.entry e
			WHERE cardinality(spend_line.orgs) > 100
				AND (e.org IN (SELECT o.org COLLATE "C"
					FROM unnest(spend_line.orgs) AS o (org))) IS TRUE
				AND e.at >= coalesce(spend_line.since, '-infinity')
				AND e.at < coalesce(spend_line.until, 'infinity')) e
		WHERE gpucredit_internal.is_below(e.account, spend_line.top)
			AND 'spent' IN (e.source, e.target)
		GROUP BY e.org, e.account, e.job, e.hold, 5
		UNION ALL
		SELECT n.org, n.account, n.job, n.hold, NULL, sum(n.billed)::numeric,
			sum(n.refunded)::numeric
		FROM unnest(spend_line.orgs) AS o (org)
			JOIN gpucredit.closing_net n ON n.org = o.org
		WHERE spend_line.since IS NULL
			AND gpucredit_internal.is_below(n.account, spend_line.top)
			AND (n.billed > '0' OR n.refunded > '0')
		GROUP BY n.org, n.account, n.job, n.hold) e
		LEFT JOIN gpucredit.job j ON j.org = e.org AND j.job = e.job
		LEFT JOIN LATERAL (SELECT a.gpu_type,
				a.per_gpu_hour::numeric AS per_gpu_hour
			FROM gpucredit.attempt a
			WHERE a.org = e.org AND a.job = e.job AND a.hold = e.hold
			ORDER BY a.attempt DESC LIMIT 1) a ON true
	UNION ALL
	SELECT x.org, x.account, x.job, x.tier, x.pool, x.gpu_type,
		CASE WHEN spend_line.days AND coalesce(x.at
			> gpucredit_internal.kept_from('entry'), true)
			THEN gpucredit_internal.utc_day(x.at) END,
		0.000000, 0.000000, 0.000000,
		x.share_gpus * extract(epoch FROM x.elapsed) / 3600, 0.000000,
		x.uncollected, x.per_gpu_hour, x.energy_j
	FROM gpucredit_internal.run_end(spend_line.orgs, spend_line.since,
		spend_line.until) x
	WHERE gpucredit_internal.is_below(x.account, spend_line.top)
		AND (x.share_gpus > 0 AND x.elapsed > '0' OR x.uncollected <> 0
			OR x.energy_j > 0)
	UNION ALL
	SELECT x.org, x.account, x.job, x.tier, x.pool, x.gpu_type, x.day,
		x.billed, 0.000000, x.billed,
		x.share_gpus * extract(epoch FROM x.elapsed) / 3600, x.billed,
		0.000000, x.per_gpu_hour, NULL
	FROM (SELECT x.org, x.account, x.job, x.tier, x.pool, x.gpu_type,
			x.per_gpu_hour, x.share_gpus, CASE WHEN spend_line.days THEN x.day END AS day,
			sum(x.elapsed) AS elapsed, sum(x.billed) AS billed
		FROM gpucredit_internal.accrued_change(spend_line.orgs, spend_line.since,
			spend_line.until, spend_line.days) x
		WHERE gpucredit_internal.is_below(x.account, spend_line.top)
		GROUP BY x.job, x.attempt, x.org, x.account, x.tier, x.pool,
			x.gpu_type, x.per_gpu_hour, x.share_gpus, x.day) x
	WHERE x.billed <> 0 OR x.elapsed <> '0';
END;
COMMENT ON FUNCTION gpucredit_internal.spend_line(text[], text, timestamptz,
	timestamptz, boolean) IS
'Internal: lines of what account top and all below it spent in [since, until), in these organisations: settled, run time of ended attempts, and accrued. days: by UTC day. since NULL: removed rows count too, without a day. The caller has called require_kept().';

/*
 * Raises the error for a bad argument, for functions written in SQL, in the
 * form that C functions use.
 */
CREATE FUNCTION gpucredit_internal.require_sense(name text, value text,
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
				gpucredit_internal.clip_for_message(value)), HINT = hint;
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_internal.require_sense(text, text, boolean, text,
	text) IS
'Raises 22023 for an argument that is null or makes no sense.';

/*
 * The organisations of a report: the given one, or for NULL all in which the
 * caller may see an account.  Callers use it in a sub-select, so that it runs
 * once; otherwise spend_line() would evaluate it in its conditions.
 */
CREATE FUNCTION gpucredit_internal.report_orgs(org text) RETURNS text[]
LANGUAGE plpgsql STABLE PARALLEL RESTRICTED
AS $$
DECLARE
	seen text[];
	hidden text;
BEGIN
	IF org IS NOT NULL THEN
		PERFORM gpucredit_internal.require_organisation(org);
		RETURN ARRAY[org];
	END IF;
	/*
	 * A caller who is no tenant sees every account, and every organisation has
	 * the account ''.
	 */
	IF gpucredit_internal.may_read(NULL, NULL) THEN
		RETURN ARRAY(SELECT a.org FROM gpucredit.account a WHERE a.account = '');
	END IF;
	SELECT array_agg(DISTINCT a.org) FILTER (WHERE v.may_read),
		min(a.org) FILTER (WHERE NOT v.may_read)
	INTO seen, hidden
	FROM gpucredit.account a
		CROSS JOIN LATERAL gpucredit_internal.may_read(a.org, a.account) AS v (may_read);
	IF seen IS NULL AND hidden IS NOT NULL THEN
		PERFORM gpucredit_internal.require_account(hidden, '');
	END IF;
	RETURN coalesce(seen, '{}');
END
$$;
COMMENT ON FUNCTION gpucredit_internal.report_orgs(text) IS
'Internal: the organisation, which must exist (UC001), or for NULL all whose accounts the caller may see; 42501 for a tenant bound to nothing.';

/* The words by which usage_by() can group; type is a synonym of gpu_type. */
CREATE FUNCTION gpucredit_internal.usage_words(by text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
DECLARE
	known CONSTANT text[] := '{organisation,account,project,user,tier,pool,gpu_type,type,day,job}';
	words text[] := regexp_split_to_array(btrim(by, ' '), ' *, *');
BEGIN
	PERFORM gpucredit_internal.require_sense('by', by, (SELECT bool_and(w = ANY (known)
				OR w ~ '^label:.{1,63}$') FROM unnest(words) AS u (w))
			AND cardinality(words) = (SELECT count(DISTINCT w)
				FROM unnest(words) AS u (w)),
		'is unknown', 'Pass one or several, with commas between, of '
		'organisation, account, project, user, tier, pool, gpu_type (or type),'
		' day, job, label:KEY; each once.');
	RETURN words;
END
$$;
COMMENT ON FUNCTION gpucredit_internal.usage_words(text) IS
'Internal: the words that usage_by() groups by; raises 22023 for others.';

CREATE TYPE gpucredit.usage_by_result AS (item text, spent numeric,
	refunded numeric, net numeric, gpu_hours numeric, jobs bigint,
	accrued numeric, keys jsonb, energy_kwh numeric);
COMMENT ON TYPE gpucredit.usage_by_result IS
'What an account, tier, GPU type, day or job has cost, or a combination of them.';
COMMENT ON COLUMN gpucredit.usage_by_result.item IS 'The values that the line is for, in the order of by; "-" for none.';
COMMENT ON COLUMN gpucredit.usage_by_result.spent IS 'Credits used in that time.';
COMMENT ON COLUMN gpucredit.usage_by_result.refunded IS 'Credits refunded in that time.';
COMMENT ON COLUMN gpucredit.usage_by_result.net IS
'spent - refunded.';
COMMENT ON COLUMN gpucredit.usage_by_result.gpu_hours IS 'GPU-hours used in that time.';
COMMENT ON COLUMN gpucredit.usage_by_result.jobs IS 'How many jobs used credits.';
COMMENT ON COLUMN gpucredit.usage_by_result.accrued IS 'The part of spent not settled in that time; below 0 where settlements were of earlier use.';
COMMENT ON COLUMN gpucredit.usage_by_result.keys IS 'The same values, by word of by.';
COMMENT ON COLUMN gpucredit.usage_by_result.energy_kwh IS 'Kilowatt-hours that the devices of attempts that ended in that time used, as agents reported; NULL: none reported any.';

CREATE FUNCTION gpucredit.usage_by(org text, account text DEFAULT '',
	since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL,
	by text DEFAULT 'account')
RETURNS SETOF gpucredit.usage_by_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL RESTRICTED
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit_internal.require_account(usage_by.org, usage_by.account)
	WHERE usage_by.org IS NOT NULL OR usage_by.account IS NULL
		OR usage_by.account <> '';
	SELECT gpucredit_internal.require_kept('since', usage_by.since),
		gpucredit_internal.require_kept('until', usage_by.until);
	WITH w AS MATERIALIZED (
		SELECT u.words, array_to_string(u.words, ',') ~ '(^|,)label:' AS labels
		FROM (SELECT gpucredit_internal.usage_words(usage_by.by) AS words
			OFFSET 0) u),
	g AS (
		SELECT w.words, k.organisation, k.account, k.project, k.user, k.tier,
			k.pool, k.gpu_type, k.day, k.job, k.labels, sum(l.spent) AS spent,
			sum(l.refunded) AS refunded, sum(l.net) AS net,
			round(coalesce(sum(l.gpu_hours), 0), 6) AS gpu_hours,
			count(DISTINCT l.job) AS jobs, sum(l.accrued) AS accrued,
			round(sum(l.energy_j) / 3600000, 6) AS energy_kwh
		FROM w
			CROSS JOIN LATERAL gpucredit_internal.spend_line(
				(SELECT gpucredit_internal.report_orgs(usage_by.org)), usage_by.account,
				usage_by.since, usage_by.until, 'day' = ANY (w.words)) l
			CROSS JOIN LATERAL (SELECT
				CASE WHEN 'organisation' = ANY (w.words) THEN l.org END
					AS organisation,
				CASE WHEN 'account' = ANY (w.words) THEN l.account END
					AS account,
				CASE WHEN 'project' = ANY (w.words)
					THEN nullif(split_part(l.account, '/', 1), '') END
					AS project,
				CASE WHEN 'user' = ANY (w.words)
					THEN nullif(split_part(l.account, '/', 2), '') END
					AS user,
				CASE WHEN 'tier' = ANY (w.words) THEN l.tier END AS tier,
				CASE WHEN 'pool' = ANY (w.words) THEN l.pool END AS pool,
				CASE WHEN w.words && '{gpu_type,type}' THEN l.gpu_type END
					AS gpu_type,
				CASE WHEN 'day' = ANY (w.words) THEN l.day END AS day,
				CASE WHEN 'job' = ANY (w.words) THEN l.job END AS job,
				CASE WHEN w.labels THEN (SELECT jsonb_object_agg(u.word,
						j.options #>> ARRAY['labels', substr(u.word, 7)])
					FROM gpucredit.job j CROSS JOIN unnest(w.words) AS u (word)
					WHERE j.org = l.org AND j.job = l.job
						AND starts_with(u.word, 'label:')) END AS labels) k
		WHERE usage_by.org IS NOT NULL OR gpucredit_internal.may_read(l.org, l.account)
		GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
	SELECT CASE cardinality(g.words) WHEN 1 THEN i.items[1]
			ELSE array_to_string(i.items, ', ', '-') END,
		g.spent, g.refunded, g.net, g.gpu_hours, g.jobs, g.accrued, i.keys,
		g.energy_kwh
	FROM g
		CROSS JOIN LATERAL (SELECT array_agg(v.value ORDER BY w.n) AS items,
			array_agg(CASE w.word WHEN 'job' THEN lpad(v.value, 20, '0')
				ELSE v.value END COLLATE "C" ORDER BY w.n) AS rank,
			jsonb_object_agg(w.word, CASE w.word WHEN 'job'
				THEN to_jsonb(g.job) ELSE to_jsonb(v.value) END) AS keys
			FROM unnest(g.words) WITH ORDINALITY AS w (word, n)
				CROSS JOIN LATERAL (SELECT CASE
					WHEN starts_with(w.word, 'label:') THEN g.labels ->> w.word
					ELSE CASE w.word
					WHEN 'organisation' THEN g.organisation
					WHEN 'account' THEN g.account
					WHEN 'project' THEN g.project
					WHEN 'user' THEN g.user
					WHEN 'tier' THEN g.tier
					WHEN 'pool' THEN g.pool
					WHEN 'day' THEN to_char(g.day, 'YYYY-MM-DD')
					WHEN 'job' THEN g.job::text
					ELSE g.gpu_type END END AS value) v) i
	ORDER BY i.rank COLLATE "C";
END;
COMMENT ON FUNCTION gpucredit.usage_by(text, text, timestamptz, timestamptz,
	text) IS
'Reports: what an account and all below it spent in [since, until), NULL for no bound.
org: NULL for all organisations that the caller may see. by: one or more, separated by commas, of organisation, account, project (first part of an account''s path), user (its second), tier, pool, gpu_type (or type), day (UTC), job, label:KEY (what options.labels of its job has under that key). Use of a running attempt counts when it is logged, every gpucredit.usage_interval; where until is NULL or lies in the future, what was metered since the last log counts, too. A refund counts when it is given. Usage that was removed counts at the end of its UTC day.
Result, a row per item: spent, refunded, net = spent - refunded, in credits; GPU-hours used; how many jobs; accrued: the part of spent not settled in that time; the values by word; energy_kwh: what the devices of attempts that ended in that time used, as agents reported, also where the report came later. item is NULL for callers'' own holds, which have no job, tier, pool or GPU type, and for accounts without a project or user, or jobs without the label.
Errors: UC001 no such account; 42501 a tenant bound to nothing; 22023, also for a since or until before what is kept.';

CREATE TYPE gpucredit.waste_by_result AS (item text, gpu_hours numeric,
	used_hours numeric, unused_hours numeric, unreported_hours numeric,
	unused_cost numeric, jobs bigint);
COMMENT ON TYPE gpucredit.waste_by_result IS
'How much of the GPU-hours that an account, project, user, tier, GPU type or job held was used.';
COMMENT ON COLUMN gpucredit.waste_by_result.item IS 'The account, project, user, tier, pool, GPU type or job; NULL: accounts without a project or user.';
COMMENT ON COLUMN gpucredit.waste_by_result.gpu_hours IS 'GPU-hours held; a share of a GPU counts as its part.';
COMMENT ON COLUMN gpucredit.waste_by_result.used_hours IS 'What was used of them, by the reported utilization.';
COMMENT ON COLUMN gpucredit.waste_by_result.unused_hours IS 'What was not used of them, by the same: the waste.';
COMMENT ON COLUMN gpucredit.waste_by_result.unreported_hours IS 'GPU-hours for which no agent reported a utilization; nobody knows whether they were used.';
COMMENT ON COLUMN gpucredit.waste_by_result.unused_cost IS 'What unused_hours cost, in credits.';
COMMENT ON COLUMN gpucredit.waste_by_result.jobs IS 'How many jobs held GPUs.';

CREATE FUNCTION gpucredit.waste_by(org text, account text DEFAULT '',
	since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL,
	by text DEFAULT 'account')
RETURNS SETOF gpucredit.waste_by_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL RESTRICTED
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit_internal.require_account(waste_by.org, waste_by.account),
		gpucredit_internal.require_kept('since', waste_by.since),
		gpucredit_internal.require_kept('until', waste_by.until),
		gpucredit_internal.require_sense('by', waste_by.by,
			waste_by.by IN ('account', 'project', 'user', 'tier', 'pool',
				'gpu_type', 'job'),
			'is unknown', 'Pass account, project, user, tier, pool, gpu_type or'
			' job.');
	WITH piece AS (
		/* A usage row stands for the time since the row before it. */
		SELECT CASE waste_by.by
				WHEN 'account' THEN a.account
				WHEN 'project' THEN nullif(split_part(a.account, '/', 1), '')
				WHEN 'user' THEN nullif(split_part(a.account, '/', 2), '')
				WHEN 'tier' THEN a.tier WHEN 'pool' THEN a.pool
				WHEN 'gpu_type' THEN a.gpu_type ELSE a.job::text END AS item,
			a.job, u.utilization::numeric AS utilization,
			a.gpus * a.share / 1000.0
				* extract(epoch FROM u.elapsed) / 3600 AS hours,
			u.billed
		FROM gpucredit.attempt a
			CROSS JOIN LATERAL (SELECT l.at, l.utilization,
					l.elapsed - lag(l.elapsed, 1, '0') OVER w AS elapsed,
					l.billed - lag(l.billed, 1, 0) OVER w AS billed
				FROM (SELECT r.at, r.usage, r.utilization, r.elapsed,
						r.billed::numeric AS billed
					FROM gpucredit.usage r
					WHERE r.org = a.org AND r.job = a.job
						AND r.attempt = a.attempt
						AND (waste_by.until IS NULL OR r.at < waste_by.until)) l
				WINDOW w AS (ORDER BY l.at, l.elapsed, l.usage)) u
		WHERE a.org = waste_by.org AND a.gpus > 0
			AND (waste_by.account = '' OR a.account = waste_by.account
				OR starts_with(a.account, waste_by.account || '/'))
			AND (waste_by.until IS NULL OR a.started_at < waste_by.until)
			AND (waste_by.since IS NULL OR a.ended_at IS NULL
				OR a.ended_at >= waste_by.since)
			AND (waste_by.since IS NULL OR u.at >= waste_by.since))
	SELECT p.item, round(sum(p.hours), 6),
		round(coalesce(sum(p.hours * p.utilization), 0), 6),
		round(coalesce(sum(p.hours * (1 - p.utilization)), 0), 6),
		round(coalesce(sum(p.hours) FILTER (WHERE p.utilization IS NULL), 0), 6),
		round(coalesce(sum(p.billed * (1 - p.utilization)), 0), 6),
		count(DISTINCT p.job)
	FROM piece p GROUP BY p.item
	ORDER BY 4 DESC, p.item COLLATE "C";
END;
COMMENT ON FUNCTION gpucredit.waste_by(text, text, timestamptz, timestamptz,
	text) IS
'Reports: how much of the GPU-hours that an account and all below it held in [since, until), NULL for no bound, was not used.
by: one of account, project (first part of an account''s path), user (its second), tier, pool, gpu_type, job. Agents report how busy the devices are; the report that comes with a usage row, every gpucredit.usage_interval and at the end, counts for the time since the row before it. Use counts when it is logged. Time without a report is unreported, and never waste. Of a share of a device the use of the whole device counts.
Result, a row per item, the most wasteful first: the GPU-hours held, used, not used and not reported, what those not used cost, and how many jobs held GPUs.
Errors: UC001 no such account; 42501 a tenant bound to nothing; 22023, also for a since or until before what is kept.';

CREATE TYPE gpucredit.top_spenders_result AS (rank bigint, account text,
	net numeric, spent numeric, refunded numeric, gpu_hours numeric,
	jobs bigint, organisation text, accrued numeric);
COMMENT ON TYPE gpucredit.top_spenders_result IS
'An account and what it spent.';

/*
 * What each account itself has ever spent, without the accounts below it:
 * recorded totals, changes that are not folded yet, and what running jobs have
 * cost so far. It reads one row for each account, and no entries.
 */
CREATE FUNCTION gpucredit_internal.account_spend()
RETURNS TABLE (org text, account text, net numeric)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT s.org, s.account, sum(s.net)
	FROM (SELECT t.org, t.account, t.spent AS net
		FROM gpucredit.account_total t WHERE t.spent <> 0
		UNION ALL
		SELECT t.org, (gpucredit_internal.account_path(t.account))[2], - t.spent
		FROM gpucredit.account_total t WHERE t.spent <> 0 AND t.account <> ''
		UNION ALL
		SELECT d.org, d.account, d.spent::numeric
		FROM gpucredit.account_delta d WHERE d.spent <> '0'
		UNION ALL
		SELECT c.org, c.account, c.billed
		FROM gpucredit_internal.accrued_change((SELECT
			gpucredit_internal.report_orgs(NULL)), NULL, NULL, false) c) s
	GROUP BY s.org, s.account;
END;
COMMENT ON FUNCTION gpucredit_internal.account_spend() IS
'top_spenders: what accounts of all organisations have spent less refunds, each without those below it, running jobs included.';

CREATE FUNCTION gpucredit.top_spenders(org text DEFAULT NULL,
	k int DEFAULT 10, since timestamptz DEFAULT NULL)
RETURNS SETOF gpucredit.top_spenders_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL RESTRICTED
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit_internal.require_kept('since', top_spenders.since);
	SELECT gpucredit_internal.require_sense('k', top_spenders.k::text,
		top_spenders.k > 0, 'is out of range', 'Pass 1 or more.');
	/*
	 * If all organisations and all of the past are asked for, the highest
	 * spenders are known without entries, and then only their entries are
	 * read.
	 */
	WITH asked AS MATERIALIZED (
		SELECT top_spenders.org IS NULL AND top_spenders.since IS NULL
			AND gpucredit_internal.may_read(NULL, NULL) AS everything),
	top AS MATERIALIZED (
		SELECT s.org, s.account FROM gpucredit_internal.account_spend() s
		WHERE (SELECT a.everything FROM asked a) AND s.net > 0
		ORDER BY s.net DESC, s.org COLLATE "C", s.account COLLATE "C"
		LIMIT top_spenders.k)
	SELECT row_number() OVER (ORDER BY u.net DESC, u.org COLLATE "C",
			u.account COLLATE "C"),
		u.account, u.net, u.spent, u.refunded, u.gpu_hours, u.jobs, u.org,
		u.accrued
	FROM (SELECT l.org, l.account, sum(l.net) AS net, sum(l.spent) AS spent,
			sum(l.refunded) AS refunded,
			round(coalesce(sum(l.gpu_hours), 0), 6) AS gpu_hours,
			count(DISTINCT l.job) AS jobs, sum(l.accrued) AS accrued
		FROM gpucredit_internal.spend_line((SELECT CASE
				WHEN (SELECT a.everything FROM asked a)
				THEN ARRAY(SELECT DISTINCT t.org FROM top t)
				ELSE gpucredit_internal.report_orgs(top_spenders.org) END),
			'', top_spenders.since, NULL, false) l
		WHERE gpucredit_internal.may_read(l.org, l.account)
			AND (NOT (SELECT a.everything FROM asked a)
				OR (l.org, l.account) IN (SELECT t.org, t.account FROM top t))
		GROUP BY l.org, l.account) u
	WHERE u.net > 0
	ORDER BY 1 LIMIT top_spenders.k;
END;
COMMENT ON FUNCTION gpucredit.top_spenders(text, int, timestamptz) IS
'Reports: the k accounts that spent most since an instant (NULL: ever). Each counts by itself, without the accounts below it.
org: NULL for all organisations that the caller may see.
Result: as usage_by, with the organisation, the highest first. A tenant sees its own accounts only.
Errors: UC001 no such organisation; 42501 a tenant bound to nothing; 22023, also for a since before what is kept.';

CREATE TYPE gpucredit.top_jobs_result AS (rank bigint, job bigint,
	account text, tier text, gpu_types text[], net numeric, spent numeric,
	refunded numeric, gpu_hours numeric, organisation text, accrued numeric);
COMMENT ON TYPE gpucredit.top_jobs_result IS
'A job and what it has cost.';

CREATE FUNCTION gpucredit.top_jobs(org text DEFAULT NULL, k int DEFAULT 10,
	since timestamptz DEFAULT NULL)
RETURNS SETOF gpucredit.top_jobs_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL RESTRICTED
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit_internal.require_kept('since', top_jobs.since);
	SELECT gpucredit_internal.require_sense('k', top_jobs.k::text,
		top_jobs.k > 0, 'is out of range', 'Pass 1 or more.');
	SELECT row_number() OVER (ORDER BY u.net DESC, u.job), u.job, u.account,
		u.tier, u.gpu_types, u.net, u.spent, u.refunded, u.gpu_hours, u.org,
		u.accrued
	FROM (SELECT l.org, l.job, l.account, l.tier,
			array_agg(DISTINCT l.gpu_type) AS gpu_types,
			sum(l.net) AS net, sum(l.spent) AS spent,
			sum(l.refunded) AS refunded,
			round(coalesce(sum(l.gpu_hours), 0), 6) AS gpu_hours,
			sum(l.accrued) AS accrued
		FROM gpucredit_internal.spend_line((SELECT gpucredit_internal.report_orgs(
			top_jobs.org)), '', top_jobs.since, NULL, false) l
		WHERE l.job IS NOT NULL AND gpucredit_internal.may_read(l.org, l.account)
		GROUP BY l.org, l.job, l.account, l.tier) u
	WHERE u.net > 0
	ORDER BY 1 LIMIT top_jobs.k;
END;
COMMENT ON FUNCTION gpucredit.top_jobs(text, int, timestamptz) IS
'Reports: the k jobs that spent most since an instant (NULL: ever), running jobs included.
org: NULL for all organisations that the caller may see.
Result: the highest first, with the organisation and the GPU types of their attempts; figures as usage_by. A tenant sees the jobs of its own accounts only.
Errors: UC001 no such organisation; 42501 a tenant bound to nothing; 22023, also for a since before what is kept.';

CREATE TYPE gpucredit.invoice_result AS (line bigint, account text,
	tier text, gpu_type text, jobs bigint, gpu_hours numeric, spent numeric,
	refunded numeric, amount numeric, accrued numeric, uncollected numeric,
	per_gpu_hour numeric);
COMMENT ON TYPE gpucredit.invoice_result IS
'An invoice line: what an account used of a tier and GPU type at one price in a month.';
COMMENT ON COLUMN gpucredit.invoice_result.per_gpu_hour IS 'The unit price: credits per GPU and hour, without cpu and memory; NULL where gpu_type is.';

CREATE FUNCTION gpucredit.invoice(org text, month date)
RETURNS SETOF gpucredit.invoice_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL RESTRICTED
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit_internal.require_organisation(invoice.org);
	SELECT gpucredit_internal.require_sense('month', invoice.month::text,
		invoice.month BETWEEN '4713-01-01 BC' AND '294275-12-31',
		'is out of range', 'Pass any day of the month.');
	SELECT gpucredit_internal.require_kept('month', date_trunc('month',
		invoice.month::timestamp) AT TIME ZONE 'UTC');
	SELECT row_number() OVER (ORDER BY l.account COLLATE "C",
			l.tier COLLATE "C", l.gpu_type COLLATE "C", u.per_gpu_hour),
		l.account, l.tier, l.gpu_type, count(DISTINCT l.job),
		round(coalesce(sum(l.gpu_hours), 0), 6), sum(l.spent),
		sum(l.refunded), sum(l.net), sum(l.accrued), sum(l.uncollected),
		u.per_gpu_hour
	FROM (VALUES (date_trunc('month', invoice.month::timestamp)))
			AS m (first),
		LATERAL gpucredit_internal.spend_line(ARRAY[invoice.org], '',
			m.first AT TIME ZONE 'UTC',
			(m.first + '1 month'::interval) AT TIME ZONE 'UTC', false) l,
		LATERAL (SELECT CASE WHEN l.gpu_type IS NOT NULL
			THEN l.per_gpu_hour END) AS u (per_gpu_hour)
	WHERE gpucredit_internal.may_read(invoice.org, l.account)
	GROUP BY l.account, l.tier, l.gpu_type, u.per_gpu_hour
	ORDER BY 1;
END;
COMMENT ON FUNCTION gpucredit.invoice(text, date) IS
'Reports: an organisation''s month (UTC): what it used, less what was refunded, to the last micro-credit.
month: any day of it. Of an attempt that runs past the month''s end, the invoice has what was logged by then (table accrued), and the next invoices have the rest. So a past month never changes; in the present month, running attempts count as metered now.
Result: a line per account, tier, GPU type and price; tier, type and price are NULL for an account''s own holds. amount = spent - refunded, below 0 if more was refunded. accrued: the part of spent not settled in the month, below 0 if settlements were of use on an earlier invoice. uncollected: what attempts that ended in the month cost and no credit covered, which is no part of amount. A tenant sees its own accounts only.
Errors: UC001 no such organisation; 22023, also for a month before what is kept.';

/* Denials: those in the audit log, and those that are not counted there yet */
CREATE TYPE gpucredit.denials_result AS (account text, operation text,
	reason text, n bigint, first_at timestamptz, last_at timestamptz);
COMMENT ON TYPE gpucredit.denials_result IS
'Denials of an account: operation, reason, how often, first and last.';

CREATE FUNCTION gpucredit.denials(org text, account text DEFAULT '',
	since timestamptz DEFAULT NULL)
RETURNS SETOF gpucredit.denials_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit_internal.require_account(denials.org, denials.account);
	SELECT gpucredit_internal.require_kept('since', denials.since, 'audit');
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
	WHERE gpucredit_internal.is_below(d.account, denials.account)
	GROUP BY d.account, d.operation, d.reason
	ORDER BY d.account COLLATE "C", d.operation, d.reason;
END;
COMMENT ON FUNCTION gpucredit.denials(text, text, timestamptz) IS
'Credit: how often an account and all below it were denied since an instant (NULL: as long as the audit log is kept). The count is exact, also for repeated denials, of which the audit log has the first and a number.
Errors: UC001 no such account; 22023, also for a since before what is kept.';

/*
 * Finds audit rows by time through the batches: a batch is sealed neither
 * before its rows were written nor before the previous batch.
 */
CREATE INDEX seal_sealed_at ON gpucredit.seal (sealed_at, batch);

CREATE FUNCTION gpucredit.audit_before(at timestamptz) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit_internal.require_sense('at', audit_before.at::text, true, NULL,
		'Pass the instant whose rows, and those since, are looked for.');
	SELECT coalesce((SELECT s.audit_from FROM gpucredit.seal s
			WHERE s.sealed_at >= audit_before.at
			ORDER BY s.sealed_at, s.batch LIMIT 1),
		(SELECT s.audit_to FROM gpucredit.seal s
			ORDER BY s.batch DESC LIMIT 1), (-9223372036854775808)::bigint);
END;
COMMENT ON FUNCTION gpucredit.audit_before(timestamptz) IS
'Audit: where to look in the audit log for decisions since an instant. Rows of then or later have numbers above the result, so that a query can use the table''s key: WHERE audit > gpucredit.audit_before(t) AND at >= t. It goes by seals. If sealing runs every minute, the query reads rows of a few minutes more; without seals it reads all.
at: a constant, or now() less an interval. Pass a volatile value, such as gpucredit.now(), by a subquery: (SELECT gpucredit.audit_before(...)).
Result: a number, perhaps of no row. If the server''s clock was set back, rows dated before that may be missed.
Errors: 22023 at is null.';
