/*
 * 84_verify.sql: every invariant of jobs, bills, devices and guards, and the
 * function that checks all of them.
 *
 * Each check_... is one query over the tables it names.  It checks the
 * organisations from from_org to to_org; a bound that is NULL excludes none.
 * Each invariant has a fixed short name.
 */
/* Checks of accounts: each account that a row names must exist. */
CREATE FUNCTION gpucredit_internal.check_accounts(from_org text, to_org text)
RETURNS SETOF gpucredit.verify_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH named AS (
		SELECT b.org, b.account, 'bucket' AS by_what FROM gpucredit.bucket b
		UNION ALL SELECT h.org, h.account, 'hold' FROM gpucredit.hold h
		UNION ALL SELECT c.org, c.account, 'budget'
			FROM gpucredit.budget_counter c
		/* Entries of a hold are checked by entry_matches_hold. */
		UNION ALL SELECT e.org, e.account, 'entry' FROM gpucredit.entry e
			WHERE e.hold IS NULL
		UNION ALL SELECT c.org, c.account, 'closing'
			FROM gpucredit.closing c WHERE c.hold = 0
		UNION ALL SELECT j.org, j.account, 'job' FROM gpucredit.job j
		UNION ALL SELECT a.org, a.account, 'attempt' FROM gpucredit.attempt a
		UNION ALL SELECT t.org, t.account, 'account_total'
			FROM gpucredit.account_total t
		UNION ALL SELECT d.org, d.account, 'account_delta'
			FROM gpucredit.account_delta d
		UNION ALL SELECT d.org, d.account, 'spend_day'
			FROM gpucredit.spend_day d
		UNION ALL SELECT a.org, a.account, 'alert' FROM gpucredit.alert a
		UNION ALL
		SELECT a.org, (gpucredit_internal.account_path(a.account))[2], 'account below'
		FROM gpucredit.account a WHERE a.account <> '')
	SELECT 'account_exists', n.org, format('account "%s"', n.account),
		format('named by: %s', string_agg(n.by_what, ', ' ORDER BY n.by_what))
	FROM (SELECT n.org, n.account, n.by_what FROM named n
			WHERE gpucredit_internal.in_orgs(n.org,
				check_accounts.from_org, check_accounts.to_org)
			GROUP BY n.org, n.account, n.by_what) n
	WHERE NOT EXISTS (SELECT FROM gpucredit.account a
		WHERE a.org = n.org AND a.account = n.account
			AND gpucredit_internal.in_orgs(a.org, check_accounts.from_org,
				check_accounts.to_org))
	GROUP BY n.org, n.account;
END;
COMMENT ON FUNCTION gpucredit_internal.check_accounts(text, text) IS
'verify: every account that is named exists.';

/* Checks of jobs: each state has the attempt and the hold that it needs. */
CREATE FUNCTION gpucredit_internal.check_jobs(from_org text, to_org text)
RETURNS SETOF gpucredit.verify_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH j AS NOT MATERIALIZED (
		SELECT * FROM gpucredit.job j
		WHERE gpucredit_internal.in_orgs(j.org,
			check_jobs.from_org, check_jobs.to_org)),
	a AS NOT MATERIALIZED (
		SELECT * FROM gpucredit.attempt a
		WHERE gpucredit_internal.in_orgs(a.org,
			check_jobs.from_org, check_jobs.to_org)),
	h AS NOT MATERIALIZED (
		SELECT * FROM gpucredit.hold h
		WHERE gpucredit_internal.in_orgs(h.org,
			check_jobs.from_org, check_jobs.to_org))
	SELECT w.invariant, j.org, format('job %s', j.job),
		format('%s, attempt %s of %s (%s live), hold %s of job %s, %s',
			j.state, j.attempt, coalesce(n.attempts, 0),
			coalesce(n.live, 0), j.hold, coalesce(h.job::text, 'none'),
			CASE WHEN h.hold IS NULL THEN 'missing'
				WHEN h.closed_at IS NULL THEN 'open' ELSE 'closed' END)
	FROM j
		LEFT JOIN (SELECT a.org, a.job, count(*) AS attempts,
				max(a.attempt) AS last,
				count(*) FILTER (WHERE a.ended_at IS NULL) AS live,
				max(a.attempt) FILTER (WHERE a.ended_at IS NULL) AS live_last
			FROM a GROUP BY a.org, a.job) n
			ON n.org = j.org AND n.job = j.job
		LEFT JOIN h ON h.org = j.org AND h.hold = j.hold
		CROSS JOIN LATERAL (VALUES
		('open_job_has_hold', j.state IN ('queued', 'active')
			AND (h.closed_at IS NULL) IS NOT TRUE),
		('other_job_has_no_hold', j.state NOT IN ('queued', 'active')
			AND h.closed_at IS NULL),
		('hold_is_of_its_job', h.hold IS NULL OR h.job IS DISTINCT FROM j.job
			OR h.account <> j.account),
		('active_job_has_live_attempt', (CASE j.state WHEN 'active' THEN 1
			ELSE 0 END) <> coalesce(n.live, 0)
			OR n.live_last <> j.attempt),
		/* Sweeps find a live attempt by this row. */
		('live_attempt_is_watched', n.live > 0 AND NOT EXISTS (
			SELECT FROM gpucredit.attempt_watch w
			WHERE w.org = j.org AND w.job = j.job
				AND w.attempt = n.live_last)),
		('job_is_sound', NOT gpucredit_internal.job_is_sound(j.state, j.ended_at)),
		('ask_is_of_its_job', j.request_class <> gpucredit_internal.request_digest(j.request, j.topology, j.prefer,
				j.preemptible, j.cpu_milli, j.memory_mib, j.wall_limit,
				j.hold_window, j.offer_types, j.offer_memory, j.offer_prices,
				j.offer_spot_prices, j.resources, j.options -> 'placement')),
		/* A job that waits for other jobs has not begun. */
		('eligible_is_derived', (j.eligible AND (j.after IS NOT NULL
				OR j.held_by IS NOT NULL))
			OR (j.state = 'active' AND NOT j.eligible)
			OR j.held_by NOT IN ('owner', 'operator')
			OR (j.after IS NOT NULL AND (j.attempt > 0
				OR j.options ->> 'after' IS NULL))),
		('options_are_columns', (j.name, j.deadline IS NULL, j.array_key, j.task,
				j.at_most)
			IS DISTINCT FROM (j.options ->> 'name',
				(j.options ->> 'deadline') IS NULL, j.options ->> 'array',
				(j.options ->> 'task')::numeric::bigint,
				(j.options ->> 'at_most')::numeric::int)),
		('attempts_in_sequence', j.attempt <> coalesce(n.attempts, 0)
			OR j.attempt <> coalesce(n.last, 0)))
		AS w (invariant, broken)
	WHERE w.broken
	UNION ALL
	SELECT 'open_hold_has_job', h.org, format('hold %s', h.hold),
		format('%s held for job %s, whose hold is %s', h.held, h.job,
			coalesce(j.hold::text, 'none'))
	FROM h LEFT JOIN j ON j.org = h.org AND j.job = h.job
	WHERE h.closed_at IS NULL AND h.job IS NOT NULL
		AND j.hold IS DISTINCT FROM h.hold
	UNION ALL
	SELECT 'attempt_has_job', a.org, format('job %s attempt %s', a.job,
			a.attempt), format('account "%s", job of "%s"', a.account,
			coalesce(j.account, '(none)'))
			|| CASE WHEN (j.pool, j.tier) <> (a.pool, a.tier)
				THEN format('; pool "%s", tier "%s", job "%s", "%s"', a.pool,
				a.tier, j.pool, j.tier) ELSE '' END
	FROM a LEFT JOIN j ON j.org = a.org AND j.job = a.job
	WHERE (j.account = a.account AND j.pool = a.pool AND j.tier = a.tier)
			IS NOT TRUE
		OR (j.wall_limit, j.hold_window) IS DISTINCT FROM
			(a.wall_limit, a.hold_window)
	UNION ALL
	SELECT 'live_attempt_within_hold', a.org,
		format('job %s attempt %s', a.job, a.attempt),
		format('held %s, surplus %s, of hold %s, which %s', a.held,
			a.surplus, a.hold, CASE WHEN h.closed_at IS NULL
			THEN 'holds ' || coalesce(h.held::text, 'nothing: it is missing')
			ELSE 'is closed' END)
	FROM a
		LEFT JOIN h ON h.org = a.org AND h.hold = a.hold
		LEFT JOIN j ON j.org = a.org AND j.job = a.job
	WHERE a.ended_at IS NULL AND (h.closed_at IS NULL
		AND h.held = a.held + a.surplus AND a.surplus >= '0'
		AND j.hold = a.hold) IS NOT TRUE
	UNION ALL
	SELECT 'directive_has_attempt', d.org,
		format('job %s attempt %s', d.job, d.attempt),
		format('told to %s by %s', d.action, d.cause)
	FROM gpucredit.directive d
		LEFT JOIN a ON a.org = d.org AND a.job = d.job
			AND a.attempt = d.attempt
	WHERE gpucredit_internal.in_orgs(d.org, check_jobs.from_org, check_jobs.to_org)
		AND a.attempt IS NULL
	UNION ALL
	SELECT 'part_is_of_attempt', p.org,
		format('job %s attempt %s', p.job, p.attempt),
		format('node "%s" told how its part ended, and has none', p.node)
	FROM gpucredit.attempt_part p
	WHERE gpucredit_internal.in_orgs(p.org, check_jobs.from_org, check_jobs.to_org)
		AND NOT EXISTS (SELECT FROM gpucredit.attempt_gpu g
			WHERE g.org = p.org AND g.job = p.job AND g.attempt = p.attempt
				AND g.node = p.node
			AND gpucredit_internal.in_orgs(g.org, check_jobs.from_org,
				check_jobs.to_org))
	UNION ALL
	SELECT 'energy_is_of_parts', a.org,
		format('job %s attempt %s', a.job, a.attempt),
		format('used %s J, and its nodes reported %s J', a.energy_j, g.energy_j)
	FROM a
		LEFT JOIN (SELECT g.org, g.job, g.attempt, sum(g.energy_j) AS energy_j
			FROM gpucredit.attempt_gpu g
			WHERE g.energy_j IS NOT NULL AND gpucredit_internal.in_orgs(g.org,
				check_jobs.from_org, check_jobs.to_org)
			GROUP BY g.org, g.job, g.attempt) g
			ON g.org = a.org AND g.job = a.job AND g.attempt = a.attempt
	WHERE a.energy_j IS DISTINCT FROM g.energy_j
	UNION ALL
	SELECT 'attempt_waits_for_a_part', a.org,
		format('job %s attempt %s', a.job, a.attempt),
		'it lives, though all its parts have ended'
	FROM (SELECT DISTINCT p.org, p.job, p.attempt FROM gpucredit.attempt_part p
			WHERE gpucredit_internal.in_orgs(p.org,
				check_jobs.from_org, check_jobs.to_org)) p
		JOIN a ON a.org = p.org AND a.job = p.job AND a.attempt = p.attempt
	WHERE a.ended_at IS NULL
		AND NOT EXISTS (SELECT FROM gpucredit.attempt_gpu g
			WHERE g.org = p.org AND g.job = p.job AND g.attempt = p.attempt
				AND NOT EXISTS (SELECT FROM gpucredit.attempt_part e
					WHERE e.org = g.org AND e.job = g.job
						AND e.attempt = g.attempt AND e.node = g.node))
	UNION ALL
	SELECT 'promise_is_in_time', d.org,
		format('job %s attempt %s', d.job, d.attempt),
		format('to save from %s, promised by %s, gone at %s', d.starts_at,
			d.saved_by, d.deadline)
	FROM gpucredit.directive d
	WHERE gpucredit_internal.in_orgs(d.org, check_jobs.from_org, check_jobs.to_org)
		AND (d.starts_at > d.deadline OR d.saved_by > d.deadline
			OR d.saved_by < d.starts_at)
	UNION ALL
	SELECT 'quota_is_sound', q.org, format('quota of account "%s"', q.account),
		format('devices %s, running %s, queued %s, spare %s, cpu %s, memory %s, not preemptible %s',
			q.max_gpus, q.max_running, q.max_queued, q.spare, q.max_cpu_milli,
			q.max_memory_mib, q.max_nonpreemptible_gpus)
	FROM gpucredit.quota q
	WHERE gpucredit_internal.in_orgs(q.org, check_jobs.from_org, check_jobs.to_org)
		AND NOT gpucredit_internal.quota_is_sound(q.max_gpus, q.max_running,
			q.max_queued, q.spare, q.max_cpu_milli, q.max_memory_mib,
			q.max_nonpreemptible_gpus)
	UNION ALL
	SELECT 'quota_has_its_turn', coalesce(q.org, t.org),
		format('quota of account "%s"', coalesce(q.account, t.account)),
		CASE WHEN t.org IS NULL THEN 'no cycle can start jobs under it'
			ELSE 'a turn without a quota' END
	FROM (SELECT q.* FROM gpucredit.quota q
			WHERE gpucredit_internal.in_orgs(q.org,
				check_jobs.from_org, check_jobs.to_org)) q
		FULL JOIN (SELECT t.* FROM gpucredit.quota_lock t
			WHERE gpucredit_internal.in_orgs(t.org,
				check_jobs.from_org, check_jobs.to_org)) t
			ON t.org = q.org AND t.account = q.account
			AND t.gpu_type = q.gpu_type
	WHERE q.org IS NULL OR t.org IS NULL
	UNION ALL
	SELECT 'spare_is_spare', q.org, format('quota of account "%s"', q.account),
		format('%s more may wait without a look, %s jobs are not over, of %s',
			q.spare, n.n, coalesce(q.max_queued::text, 'no limit'))
	FROM gpucredit.quota q
		CROSS JOIN LATERAL (SELECT count(*) AS n FROM j
			WHERE j.org = q.org AND j.ended_at IS NULL
				AND (q.account = '' OR j.account = q.account
					OR starts_with(j.account, q.account || '/'))) n
	WHERE gpucredit_internal.in_orgs(q.org, check_jobs.from_org, check_jobs.to_org)
		AND q.spare > 0
		AND (q.gpu_type = '' AND n.n + q.spare <= q.max_queued) IS NOT TRUE;
END;
COMMENT ON FUNCTION gpucredit_internal.check_jobs(text, text) IS
'verify: jobs, their attempts and holds, and what quotas assume of them.';

/* Checks of budgets: their counts are the sums of what their holds count. */
CREATE FUNCTION gpucredit_internal.check_budgets(from_org text, to_org text)
RETURNS SETOF gpucredit.verify_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT 'budget_is_its_holds', coalesce(c.org, s.org),
		format('account "%s" %s of %s', coalesce(c.account, s.account),
			coalesce(c.period, s.period),
			coalesce(c.period_start, s.period_start)),
		format('expected reserved %s, spent %s, found %s, %s',
			coalesce(s.reserved, '0'), coalesce(s.spent, '0'),
			coalesce(c.reserved::text, 'no row'), c.spent)
	FROM (SELECT * FROM gpucredit.budget_counter_whole b
			WHERE gpucredit_internal.in_orgs(b.org,
				check_budgets.from_org, check_budgets.to_org)) c
		FULL JOIN (SELECT h.org, h.account, h.period, h.period_start,
				sum(h.reserved) AS reserved, sum(h.spent) AS spent
			FROM gpucredit.hold_budget h
			WHERE gpucredit_internal.in_orgs(h.org,
				check_budgets.from_org, check_budgets.to_org)
			GROUP BY h.org, h.account, h.period, h.period_start) s
			ON s.org = c.org AND s.account = c.account
				AND s.period = c.period AND s.period_start = c.period_start
	WHERE coalesce(c.reserved = coalesce(s.reserved, '0')
		AND c.spent = coalesce(s.spent, '0'), false) IS NOT TRUE
	UNION ALL
	SELECT 'budget_within_hold', b.org, format('hold %s', b.hold),
		format('counted %s reserved and %s spent in account "%s" (%s), '
			'holds %s and captured %s', b.reserved, b.spent, b.account,
			b.period, coalesce(h.held::text, 'nothing: it is missing'),
			h.captured)
			|| CASE WHEN NOT h.counted THEN ', and is not said to be counted'
				ELSE '' END
	FROM (SELECT b.org, b.hold, b.account, b.period,
				sum(b.reserved) AS reserved, sum(b.spent) AS spent
			FROM gpucredit.hold_budget b
			WHERE gpucredit_internal.in_orgs(b.org,
				check_budgets.from_org, check_budgets.to_org)
			GROUP BY b.org, b.hold, b.account, b.period) b
		LEFT JOIN gpucredit.hold h ON h.org = b.org AND h.hold = b.hold
			AND gpucredit_internal.in_orgs(h.org, check_budgets.from_org,
				check_budgets.to_org)
	WHERE (b.reserved <= h.held AND b.spent <= h.captured AND h.counted)
		IS NOT TRUE
	UNION ALL
	SELECT 'budget_is_logged', coalesce(b.org, l.org),
		format('account "%s" %s', coalesce(b.account, l.account),
			coalesce(b.period, l.period)),
		format('is %s%s, last logged as %s%s',
			coalesce(b.amount::text, 'none'),
			CASE WHEN b.hard THEN ', hard' END,
			coalesce(l.amount::text, 'none'),
			CASE WHEN l.amount IS NOT NULL AND l.hard THEN ', hard' END)
	FROM (SELECT * FROM gpucredit.budget b
			WHERE gpucredit_internal.in_orgs(b.org,
				check_budgets.from_org, check_budgets.to_org)) b
		FULL JOIN (SELECT DISTINCT ON (l.org, l.account, l.period) l.*
			FROM gpucredit.budget_log l
			WHERE gpucredit_internal.in_orgs(l.org,
				check_budgets.from_org, check_budgets.to_org)
			ORDER BY l.org, l.account, l.period, l.at DESC) l
			ON l.org = b.org AND l.account = b.account
				AND l.period = b.period
	WHERE (b.amount, b.hard) IS DISTINCT FROM
		(l.amount, CASE WHEN l.amount IS NOT NULL THEN l.hard END)
	UNION ALL
	SELECT 'budget_log_is_as_audited', l.org,
		format('account "%s" %s at %s', l.account, l.period, l.at),
		CASE WHEN l.audited THEN 'whether the budget is new follows from the row before'
			ELSE 'the audit log has no such change' END
	/* A budget that was removed and set at the same instant is new as well. */
	FROM (SELECT l.*, NOT l.is_new AND l.amount IS NOT NULL
				AND lag(l.amount) OVER (PARTITION BY l.org, l.account,
				l.period ORDER BY l.at) IS NULL AS wrong,
			EXISTS (SELECT FROM gpucredit.audit a
				WHERE a.operation = 'set_budget' AND a.org = l.org
					AND a.account = l.account AND a.at = l.at
					AND a.detail ->> 'period' = l.period
					AND gpucredit_internal.in_orgs(a.org,
						check_budgets.from_org, check_budgets.to_org)) AS audited
			FROM gpucredit.budget_log l
			WHERE gpucredit_internal.in_orgs(l.org,
				check_budgets.from_org, check_budgets.to_org)) l
		CROSS JOIN (SELECT gpucredit_internal.kept_from('audit') AS after) k
	WHERE l.wrong OR (NOT l.audited AND coalesce(l.at > k.after, true))
	UNION ALL
	SELECT 'budget_is_in_its_log', a.org,
		format('account "%s" %s at %s', a.account, a.detail ->> 'period', a.at),
		'its log has no such change'
	/*
	 * If the clock was set back, a change is logged with the instant of the
	 * one before.
	 */
	FROM (SELECT a.org, a.account, a.detail, a.at, a.decision, max(a.at) OVER (
				PARTITION BY a.org, a.account, a.detail ->> 'period'
				ORDER BY a.audit) AS logged_at
			FROM gpucredit.audit a
			WHERE a.operation = 'set_budget'
				AND gpucredit_internal.in_orgs(a.org,
					check_budgets.from_org, check_budgets.to_org)) a
		LEFT JOIN gpucredit.budget_log l ON l.org = a.org
			AND l.account = a.account AND l.period = a.detail ->> 'period'
			AND l.at = a.logged_at
	WHERE l.org IS NULL AND a.decision = 'set'
	UNION ALL
	SELECT 'account_has_its_limits', d.org, format('account "%s"', d.account),
		format('has %s, its budgets and quotas are %s',
			coalesce(d.found::text, 'none'), coalesce(d.expected::text, 'none'))
	FROM gpucredit_internal.limits_difference(check_budgets.from_org, check_budgets.to_org) d;
END;
COMMENT ON FUNCTION gpucredit_internal.check_budgets(text, text) IS
'verify: budgets count exactly what holds were counted with.';

/* Checks of bills: metered time, its cost, and its payment */
CREATE FUNCTION gpucredit_internal.check_bills(from_org text, to_org text)
RETURNS SETOF gpucredit.verify_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH a AS NOT MATERIALIZED (
		SELECT * FROM gpucredit.attempt a
		WHERE gpucredit_internal.in_orgs(a.org,
			check_bills.from_org, check_bills.to_org))
	SELECT 'bill_is_its_entries', coalesce(a.org, e.org),
		format('job %s attempt %s', coalesce(a.job, e.job),
			coalesce(a.attempt, e.attempt)),
		format('expected %s, found %s', coalesce(e.spent, '0'),
			coalesce(a.billed::text, CASE WHEN a.attempt IS NULL
				THEN 'no attempt' ELSE 'not settled' END))
	FROM a
		FULL JOIN (SELECT e.org, e.job, e.attempt, sum(e.amount) AS spent
			FROM (SELECT e.org, e.job, e.attempt, e.amount
				FROM gpucredit.entry e
				WHERE gpucredit_internal.in_orgs(e.org,
					check_bills.from_org, check_bills.to_org)
					AND e.target = 'spent' AND e.job IS NOT NULL
				UNION ALL
				SELECT c.org, c.job, c.attempt, c.spent
				FROM gpucredit.closing c
				WHERE gpucredit_internal.in_orgs(c.org,
					check_bills.from_org, check_bills.to_org)
					AND c.spent IS NOT NULL AND c.job IS NOT NULL) e
			GROUP BY e.org, e.job, e.attempt) e
			ON e.org = a.org AND e.job = a.job AND e.attempt = a.attempt
	WHERE coalesce(a.billed, '0') <> coalesce(e.spent, '0')
	UNION ALL
	SELECT 'refund_is_its_entries', a.org,
		format('job %s attempt %s', a.job, a.attempt),
		format('expected %s, found %s', coalesce(e.refunded, '0'), a.refunded)
	FROM a
		LEFT JOIN (SELECT e.org, e.job, e.attempt, sum(e.amount) AS refunded
			FROM (SELECT e.org, e.job, e.attempt, e.amount
				FROM gpucredit.entry e
				WHERE gpucredit_internal.in_orgs(e.org,
					check_bills.from_org, check_bills.to_org)
					AND e.source = 'spent' AND e.target = 'available'
					AND e.attempt IS NOT NULL
				UNION ALL
				SELECT c.org, c.job, c.attempt, c.given_back
				FROM gpucredit.closing c
				WHERE gpucredit_internal.in_orgs(c.org,
					check_bills.from_org, check_bills.to_org)
					AND c.given_back IS NOT NULL) e
			GROUP BY e.org, e.job, e.attempt) e
			ON e.org = a.org AND e.job = a.job AND e.attempt = a.attempt
	WHERE a.refunded <> coalesce(e.refunded, '0')
	UNION ALL
	SELECT 'attempt_is_whole', a.org,
		format('job %s attempt %s', a.job, a.attempt),
		format('ended at %s, outcome %s, billed %s of %s held, elapsed %s',
			coalesce(a.ended_at::text, 'never'), coalesce(a.outcome, 'none'),
			coalesce(a.billed::text, 'nothing'), a.held, a.elapsed)
	FROM a CROSS JOIN (SELECT current_setting('gpucredit.clock_skew')::interval
			AS skew) k
	WHERE (a.ended_at IS NULL) <> (a.outcome IS NULL)
		OR (a.ended_at IS NULL) <> (a.billed IS NULL)
		OR a.billed > a.held OR a.elapsed < '0'
		OR (a.ended_at IS NULL AND num_nonnulls(a.released, a.lapsed,
			a.refunded, a.uncollected, a.job_state, a.retry_at, a.exit_code,
			a.message, a.log_uri, a.ended_by) > 0)
		OR (a.ended_at IS NULL AND (a.logged > a.elapsed OR a.elapsed
			> greatest(a.heard_at, a.started_at) - a.started_at + k.skew))
		OR (a.late_at IS NULL) <> (a.late_elapsed IS NULL)
		OR (a.late_at IS NULL) <> (a.late_uncollected IS NULL)
		OR (a.late_elapsed BETWEEN '0' AND a.elapsed) IS FALSE
		OR (a.late_at IS NOT NULL AND a.ended_at IS NULL)
	UNION ALL
	/*
	 * Surplus was returned before the settlement or with it; credit that was
	 * refunded may have lapsed.
	 */
	SELECT 'settlement_is_of_its_hold', a.org,
		format('job %s attempt %s', a.job, a.attempt),
		format('of %s held billed %s, released %s, lapsed %s; hold %s released %s, lapsed %s, refunded %s',
			a.held, a.billed, coalesce(a.released::text, 'nothing'),
			coalesce(a.lapsed::text, 'nothing'), h.hold, h.released, h.lapsed,
			h.refunded)
	FROM a JOIN gpucredit.hold h ON h.org = a.org AND h.hold = a.hold
	WHERE a.billed IS NOT NULL
		AND gpucredit_internal.in_orgs(h.org,
			check_bills.from_org, check_bills.to_org)
		AND (a.released <= h.released AND a.lapsed <= h.lapsed + h.refunded
			AND a.billed + a.released + a.lapsed >= a.held) IS NOT TRUE
	UNION ALL
	/* A late report bills again what was refunded for lost work. */
	SELECT 'bill_is_the_metered', a.org,
		format('job %s attempt %s', a.job, a.attempt),
		format('ran %s of held %s: expected %s, found %s billed, %s uncollected',
			a.elapsed, a.held, c.cost, a.billed,
			coalesce(a.uncollected::text, 'nothing'))
	FROM a CROSS JOIN LATERAL (SELECT CASE WHEN a.elapsed >= '0'
			AND a.per_hour >= '0' THEN gpucredit_internal.bill(a.per_hour, 1,
			1000, a.elapsed, '9223372036854.775807') END AS cost) c
	WHERE a.billed IS NOT NULL AND ((a.billed::numeric
			+ a.uncollected::numeric IN (c.cost::numeric,
				CASE a.outcome WHEN 'completed' THEN c.cost::numeric
					+ a.refunded::numeric END)) IS NOT TRUE
		OR a.uncollected < '0'
		OR (a.uncollected > '0' AND a.billed <> a.held))
	UNION ALL
	SELECT 'price_is_of_what_it_keeps', a.org,
		format('job %s attempt %s', a.job, a.attempt),
		format('%s x %s of %s at %s: expected %s per hour, found %s', a.gpus,
			(a.billed_share / 1000.0)::numeric(6, 3),
			coalesce(a.gpu_type, 'no GPU'), a.per_gpu_hour,
			c.per_hour::numeric(19, 6), a.per_hour)
	FROM a
		LEFT JOIN gpucredit.job j ON j.org = a.org AND j.job = a.job
			AND j.hold = a.hold AND gpucredit_internal.in_orgs(j.org,
				check_bills.from_org, check_bills.to_org)
		CROSS JOIN LATERAL (SELECT least(ceil(a.per_gpu_hour::numeric
				* a.gpus * a.billed_share * 1000) / 1000000
				+ coalesce(j.resources, '0')::numeric, 9223372036854.775807)
				AS per_hour) c
	WHERE CASE WHEN j.job IS NULL THEN a.per_hour::numeric >= c.per_hour
			ELSE a.per_hour::numeric = c.per_hour END IS NOT TRUE
	UNION ALL
	SELECT 'elapsed_has_its_parts', a.org,
		format('job %s attempt %s', a.job, a.attempt),
		format('overhead %s of %s; billed %s of a share of %s', a.overhead,
			a.elapsed, a.billed_share, a.share)
	FROM a
	WHERE (a.billed_share BETWEEN a.share AND 1000
		AND a.overhead BETWEEN '0' AND a.elapsed) IS NOT TRUE
	UNION ALL
	/* A job's prices do not change as long as it has the same hold. */
	SELECT 'price_is_as_offered', a.org,
		format('job %s attempt %s', a.job, a.attempt),
		format('an hour of %s costs %s, offered %s, on spot nodes %s',
			coalesce(a.gpu_type, 'no GPU'), a.per_gpu_hour,
			coalesce(j.offer_prices[o.at]::text, 'at no price'),
			coalesce(j.offer_spot_prices[o.at]::text, 'at no price'))
	FROM a JOIN gpucredit.job j ON j.org = a.org AND j.job = a.job
			AND j.hold = a.hold
		CROSS JOIN LATERAL (SELECT array_position(j.offer_types, a.gpu_type)
			AS at) o
	WHERE gpucredit_internal.in_orgs(j.org,
		check_bills.from_org, check_bills.to_org)
		AND CASE WHEN a.gpu_type IS NULL THEN a.per_gpu_hour <> '0'
			ELSE (a.per_gpu_hour = j.offer_prices[o.at]
				OR a.per_gpu_hour = j.offer_spot_prices[o.at]) IS NOT TRUE END
	UNION ALL
	SELECT 'usage_within_attempt', u.org,
		format('job %s attempt %s', u.job, u.attempt),
		format('logged %s, %s; attempt has %s, %s held', u.elapsed,
			u.billed, coalesce(a.elapsed::text, 'no row'),
			coalesce(a.held::text, 'nothing'))
	FROM (SELECT u.org, u.job, u.attempt, max(u.elapsed) AS elapsed,
			max(u.billed) AS billed
		FROM gpucredit.usage u
		WHERE gpucredit_internal.in_orgs(u.org,
			check_bills.from_org, check_bills.to_org)
		GROUP BY u.org, u.job, u.attempt) u
		LEFT JOIN a ON a.org = u.org AND a.job = u.job
			AND a.attempt = u.attempt
	WHERE (u.elapsed <= a.elapsed AND u.billed <= a.held) IS NOT TRUE
	UNION ALL
	SELECT v.invariant, v.org, format('job %s attempt %s', v.job, v.attempt),
		v.detail
	FROM gpucredit_internal.accrued_difference(check_bills.from_org, check_bills.to_org) v
	UNION ALL
	SELECT 'checkpoint_within_attempt', c.org,
		format('job %s attempt %s step %s', c.job, c.attempt, c.step),
		format('saved at %s; attempt has %s', c.elapsed,
			coalesce(a.elapsed::text, 'no row'))
	FROM gpucredit.checkpoint c
		LEFT JOIN a ON a.org = c.org AND a.job = c.job
			AND a.attempt = c.attempt
	WHERE gpucredit_internal.in_orgs(c.org,
		check_bills.from_org, check_bills.to_org)
		AND (c.elapsed <= a.elapsed) IS NOT TRUE
	UNION ALL
	SELECT 'saved_is_last_checkpoint', a.org,
		format('job %s attempt %s', a.job, a.attempt),
		format('saved at %s, last checkpoint at %s',
			coalesce(a.saved_at::text, 'no time'),
			coalesce(c.at::text, 'no time'))
	FROM a
		LEFT JOIN (SELECT DISTINCT ON (c.org, c.job, c.attempt) c.org, c.job,
				c.attempt, c.at
			FROM gpucredit.checkpoint c
			WHERE gpucredit_internal.in_orgs(c.org,
				check_bills.from_org, check_bills.to_org)
			ORDER BY c.org, c.job, c.attempt, c.step DESC) c
			ON c.org = a.org AND c.job = a.job AND c.attempt = a.attempt
	WHERE a.saved_at IS DISTINCT FROM c.at;
END;
COMMENT ON FUNCTION gpucredit_internal.check_bills(text, text) IS
'verify: settlements, entries, usage and checkpoints agree.';

/*
 * Checks of devices.  A device is taken if a live attempt has it, or an ended
 * one that its agent has not reported gone.
 */
CREATE FUNCTION gpucredit_internal.check_devices(from_org text, to_org text)
RETURNS SETOF gpucredit.verify_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH g AS NOT MATERIALIZED (
		SELECT * FROM gpucredit.attempt_gpu g
		WHERE gpucredit_internal.in_orgs(g.org,
			check_devices.from_org, check_devices.to_org)),
	taken AS NOT MATERIALIZED (
		SELECT * FROM gpucredit.attempt_gpu g WHERE NOT g.free)
	SELECT 'device_given_once', min(d.org),
		format('node "%s" device %s', d.node, d.device),
		format('%s thousandths given, to %s', sum(d.share),
			string_agg(format('%s/%s/%s', d.org, d.job, d.attempt), ', '
				ORDER BY d.org, d.job, d.attempt))
	FROM (SELECT t.*, unnest(gpucredit.gpuset_to_array(t.gpus)) AS device FROM taken t) d
	GROUP BY d.node, d.device
	HAVING sum(d.share) > 1000 AND bool_or(gpucredit_internal.in_orgs(d.org,
		check_devices.from_org, check_devices.to_org))
	UNION ALL
	SELECT 'device_given_in_turn', i.org, format('job %s attempt %s node "%s"',
			i.job, i.attempt, i.node),
		format('began at %s on device %s, when others had it: %s thousandths in all',
			i.at, i.device, i.given)
	FROM (SELECT e.*, sum(e.share) OVER w AS given,
			sum(e.share) FILTER (WHERE e.lives) OVER w AS live
		FROM (SELECT h.*, unnest(gpucredit.gpuset_to_array(h.gpus)) AS device
			FROM gpucredit.attempt_gpu a
				CROSS JOIN LATERAL (VALUES
				(a.org, a.job, a.attempt, a.node, a.gpus, a.started_at, a.share,
					a.ended_at IS NULL),
				(a.org, a.job, a.attempt, a.node, a.gpus, a.ended_at, -a.share,
					false))
				AS h (org, job, attempt, node, gpus, at, share, lives)
			WHERE h.at IS NOT NULL AND (check_devices.from_org IS NULL
				OR a.node IN (SELECT g.node FROM g))
				/* Another scheduler may report late when the attempt began. */
				AND NOT EXISTS (SELECT FROM gpucredit.attempt f
					WHERE f.org = a.org AND f.job = a.job
						AND f.attempt = a.attempt AND f.is_foreign)) e
		WINDOW w AS (PARTITION BY e.node, e.device ORDER BY e.at, e.share
			ROWS UNBOUNDED PRECEDING)) i
	WHERE i.given > 1000 AND i.share > 0
		AND coalesce(i.live, 0) <= 1000	/* more are reported by device_given_once */
		AND gpucredit_internal.in_orgs(i.org,
			check_devices.from_org, check_devices.to_org)
	UNION ALL
	SELECT 'gpu_memory_given_once', min(d.org),
		format('node "%s" device %s', d.node, d.device),
		format('%s MiB of %s given to shares, to %s', sum(d.takes),
			d.has, string_agg(format('%s/%s/%s', d.org, d.job,
				d.attempt), ', ' ORDER BY d.org, d.job, d.attempt))
	FROM (SELECT t.*, unnest(gpucredit.gpuset_to_array(t.gpus)) AS device,
			n.gpu_memory_mib AS has, coalesce(nullif(t.gpu_memory_mib, 0),
				n.gpu_memory_mib * t.share / 1000) AS takes
		FROM taken t JOIN gpucredit.node n ON n.node = t.node
		WHERE t.share < 1000) d
	GROUP BY d.node, d.device, d.has
	HAVING sum(d.takes) > d.has
		AND bool_or(gpucredit_internal.in_orgs(d.org,
			check_devices.from_org, check_devices.to_org))
	UNION ALL
	SELECT w.invariant, t.org, format('job %s attempt %s node "%s"', t.job,
			t.attempt, t.node),
		format('devices %s of an attempt on %s in pool "%s", the node %s',
			t.gpus, a.gpu_type, a.pool, CASE WHEN n.node IS NULL
				THEN 'is missing' ELSE format('has %s %s in pool "%s"',
				n.gpus, n.gpu_type, n.pool) END)
	FROM taken t
		JOIN gpucredit.attempt a ON a.org = t.org AND a.job = t.job
			AND a.attempt = t.attempt
			AND gpucredit_internal.in_orgs(a.org, check_devices.from_org,
				check_devices.to_org)
		LEFT JOIN gpucredit.node n ON n.node = t.node
		CROSS JOIN LATERAL (VALUES
		('device_exists', n.node IS NULL OR EXISTS (SELECT FROM
			unnest(gpucredit.gpuset_to_array(t.gpus)) AS d (device) WHERE d.device >= n.gpus)),
		('node_is_right', t.ended_at IS NULL AND (n.pool <> t.pool
			OR a.pool <> t.pool OR (a.gpus > 0 AND n.gpu_type <> a.gpu_type))))
		AS w (invariant, broken)
	WHERE gpucredit_internal.in_orgs(t.org,
		check_devices.from_org, check_devices.to_org)
		AND w.broken
	UNION ALL
	SELECT 'terms_are_attempts', t.org, format('job %s attempt %s node "%s"',
			t.job, t.attempt, t.node),
		format('the devices: account "%s", tier "%s", preemptible %s, %s to %s devices, from %s to %s, saved %s, expected to end %s',
			t.account, t.tier, t.preemptible, t.min_gpus, t.max_gpus,
			t.started_at, t.limit_end, t.saved_at, t.expected_end)
			|| format(', cpu %s, memory %s, gpu memory %s', t.cpu_milli,
			t.memory_mib, t.gpu_memory_mib)
			|| format('; the attempt: account "%s", tier "%s", preemptible %s, request "%s", from %s for %s until %s, saved %s',
			a.account, a.tier, j.preemptible, j.request, a.started_at,
			a.wall_limit, coalesce(a.ends_by::text, 'no given end'),
			coalesce(a.saved_at::text, 'never'))
			|| format(', %s GPUs, share %s, cpu %s, memory %s', a.gpus,
			a.share, j.cpu_milli, j.memory_mib)
	FROM taken t JOIN gpucredit.attempt a ON a.org = t.org AND a.job = t.job
		AND a.attempt = t.attempt
			AND gpucredit_internal.in_orgs(a.org, check_devices.from_org,
				check_devices.to_org)
		LEFT JOIN gpucredit.job j ON j.org = t.org AND j.job = t.job
			AND gpucredit_internal.in_orgs(j.org, check_devices.from_org,
				check_devices.to_org)
	WHERE gpucredit_internal.in_orgs(t.org,
		check_devices.from_org, check_devices.to_org)
		AND (t.account <> a.account OR t.tier <> a.tier
			OR t.preemptible <> j.preemptible
			OR t.min_gpus <> gpucredit.gpureq_min_gpus(j.request)
			OR t.max_gpus <> gpucredit.gpureq_max_gpus(j.request)
			OR t.cpu_milli <> CASE a.gpus WHEN 0 THEN j.cpu_milli ELSE
				ceil(j.cpu_milli::numeric * gpucredit.gpu_count(t.gpus)
					/ a.gpus) END
			OR t.memory_mib <> CASE a.gpus WHEN 0 THEN j.memory_mib ELSE
				ceil(j.memory_mib::numeric * gpucredit.gpu_count(t.gpus)
					/ a.gpus) END
			/* A job's offers do not change as long as it has the same hold. */
			OR (j.hold = a.hold AND t.gpu_memory_mib <> CASE a.share
				WHEN 1000 THEN 0 ELSE
				(SELECT min(ceil(m.floor::numeric / 1048576))
				FROM unnest(j.offer_types, j.offer_memory) AS m (type, floor)
				WHERE m.type = a.gpu_type) END)
			OR t.started_at <> a.started_at
			OR t.saved_at <> coalesce(a.saved_at, a.started_at) OR t.expected_end > t.limit_end
			OR CASE WHEN a.wall_limit IS NULL OR t.limit_end = 'infinity'
				THEN a.wall_limit IS NOT NULL OR t.limit_end <> 'infinity'
				ELSE extract(epoch FROM t.limit_end - t.started_at)
					<> least(extract(epoch FROM a.wall_limit),
						extract(epoch FROM a.ends_by - t.started_at)) END)
	UNION ALL
	/*
	 * Figures of an attempt that has been reported late since may have been
	 * different then.
	 */
	SELECT 'spared_as_evicted', t.org, format('job %s attempt %s node "%s"',
			t.job, t.attempt, t.node),
		format('evicted %s times before, %s lost; its attempts say %s to %s times, %s to %s',
			t.evictions, t.redone, e.least, e.most, e.least_redone,
			e.most_redone)
	FROM taken t
		CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE p.sure) AS least,
				count(*) AS most,
				coalesce(sum(p.redone) FILTER (WHERE p.sure), '0') AS least_redone,
				coalesce(sum(p.redone), '0') AS most_redone
			FROM (SELECT greatest('0', a.ended_at
						- coalesce(a.saved_at, a.started_at)) AS redone,
					a.late_at < t.started_at OR a.late_at IS NULL AS sure
				FROM gpucredit.attempt a
				WHERE a.org = t.org AND a.job = t.job AND a.attempt < t.attempt
					AND a.outcome = 'preempted' AND a.ended_by <> 'app') p) e
	WHERE gpucredit_internal.in_orgs(t.org,
		check_devices.from_org, check_devices.to_org)
		AND (t.evictions NOT BETWEEN e.least AND e.most
			OR t.redone NOT BETWEEN e.least_redone AND e.most_redone)
	UNION ALL
	SELECT 'node_not_overdrawn', min(t.org), format('node "%s"', t.node),
		format('cpu %s of %s, memory %s of %s', sum(t.cpu_milli),
			n.cpu_milli, sum(t.memory_mib), n.memory_mib)
	FROM taken t JOIN gpucredit.node n ON n.node = t.node
	GROUP BY t.node, n.cpu_milli, n.memory_mib
	HAVING bool_or(gpucredit_internal.in_orgs(t.org, check_devices.from_org,
		check_devices.to_org))
		AND ((n.cpu_milli > 0 AND sum(t.cpu_milli) > n.cpu_milli)
			OR (n.memory_mib > 0 AND sum(t.memory_mib) > n.memory_mib))
	UNION ALL
	SELECT 'gang_is_whole', a.org, format('job %s attempt %s', a.job,
			a.attempt), format('%s devices of %s, shares from %s to %s of %s',
			coalesce(g.gpus, 0), a.gpus, coalesce(g.least, 0),
			coalesce(g.most, 0), a.share)
	FROM gpucredit.attempt a
		LEFT JOIN (SELECT g.org, g.job, g.attempt,
				sum(gpucredit.gpu_count(g.gpus)) AS gpus,
				min(g.share) AS least, max(g.share) AS most
			FROM g GROUP BY g.org, g.job, g.attempt) g
			ON g.org = a.org AND g.job = a.job AND g.attempt = a.attempt
	WHERE gpucredit_internal.in_orgs(a.org,
		check_devices.from_org, check_devices.to_org)
		AND (g.gpus = a.gpus AND g.least = a.share AND g.most = a.share)
			IS NOT TRUE
	UNION ALL
	SELECT 'devices_follow_attempt', g.org, format('job %s attempt %s node "%s"',
			g.job, g.attempt, g.node),
		format('the attempt %s, its devices are %s, %s',
			CASE WHEN a.attempt IS NULL THEN 'is missing'
				WHEN a.ended_at IS NULL THEN 'is live' ELSE 'is over' END,
			CASE WHEN g.free THEN 'free' ELSE 'taken' END,
			CASE WHEN g.ended_at IS NULL THEN 'in use' ELSE 'over' END)
	FROM g
		LEFT JOIN gpucredit.attempt a ON a.org = g.org AND a.job = g.job
			AND a.attempt = g.attempt
			AND gpucredit_internal.in_orgs(a.org, check_devices.from_org,
				check_devices.to_org)
	WHERE CASE WHEN a.attempt IS NULL THEN true
		/* terms_are_attempts compares those that are not free. */
		WHEN g.free AND (g.account, g.tier, g.started_at)
			<> (a.account, a.tier, a.started_at) THEN true
		/*
		 * A node that is removed and registered in another pool while an ended
		 * attempt still runs on it takes the attempt's devices along.
		 */
		WHEN g.pool <> a.pool AND (a.ended_at IS NULL OR EXISTS (
			SELECT FROM gpucredit.node n
			WHERE n.node = g.node AND n.registered_at <= a.ended_at)) THEN true
		WHEN a.ended_at IS NULL THEN g.free OR g.ended_at IS NOT NULL
		ELSE NOT g.free AND g.ended_at IS NULL END;
END;
COMMENT ON FUNCTION gpucredit_internal.check_devices(text, text) IS
'verify: devices, cpu and memory of nodes.';

/*
 * Checks of claims: they promise a device only once, and to a queued or
 * running job. The device is free, or its present attempts have been ordered
 * to stop.
 */
CREATE FUNCTION gpucredit_internal.check_claims(from_org text, to_org text)
RETURNS SETOF gpucredit.verify_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH promised AS NOT MATERIALIZED (
		SELECT g.*, c.share, c.gpu_type
		FROM gpucredit.claim_gpu g
			JOIN gpucredit.claim c ON c.pool = g.pool AND c.org = g.org
				AND c.job = g.job)
	SELECT 'device_promised_once', min(d.org),
		format('node "%s" device %s', d.node, d.device),
		format('%s thousandths promised, to %s', sum(d.share),
			string_agg(format('%s/%s', d.org, d.job), ', '
				ORDER BY d.org, d.job))
	FROM (SELECT p.*, unnest(gpucredit.gpuset_to_array(p.gpus)) AS device
		FROM promised p) d
	GROUP BY d.pool, d.node, d.device
	HAVING sum(d.share) > 1000 AND bool_or(gpucredit_internal.in_orgs(d.org,
		check_claims.from_org, check_claims.to_org))
	UNION ALL
	SELECT 'gpu_memory_promised_once', min(d.org),
		format('node "%s" device %s', d.node, d.device),
		format('%s MiB of %s promised, to %s', sum(d.takes), d.has,
			string_agg(format('%s/%s', d.org, d.job), ', '
				ORDER BY d.org, d.job))
	FROM (SELECT p.*, unnest(gpucredit.gpuset_to_array(p.gpus)) AS device,
			n.gpu_memory_mib AS has, coalesce(nullif(p.gpu_memory_mib, 0),
				n.gpu_memory_mib * p.share / 1000) AS takes
		FROM promised p JOIN gpucredit.node n ON n.node = p.node
		WHERE p.share < 1000) d
	GROUP BY d.pool, d.node, d.device, d.has
	HAVING sum(d.takes) > d.has
		AND bool_or(gpucredit_internal.in_orgs(d.org,
			check_claims.from_org, check_claims.to_org))
	UNION ALL
	SELECT 'claim_has_open_job', c.org, format('job %s', c.job),
		format('claim of "%s" in pool "%s" after attempt %s, the job %s',
			c.account, c.pool, c.attempt, CASE WHEN j.job IS NULL THEN 'is missing'
				ELSE format('of "%s" in pool "%s" is %s, attempt %s', j.account,
				j.pool, j.state, j.attempt) END)
	FROM gpucredit.claim c
		LEFT JOIN gpucredit.job j ON j.org = c.org AND j.job = c.job
			AND gpucredit_internal.in_orgs(j.org, check_claims.from_org,
				check_claims.to_org)
	WHERE gpucredit_internal.in_orgs(c.org,
		check_claims.from_org, check_claims.to_org)
		AND (j.pool = c.pool AND j.account = c.account
			AND j.attempt = c.attempt
			AND j.state IN ('queued', 'active', 'unfunded')) IS NOT TRUE
	UNION ALL
	SELECT 'claim_has_devices', coalesce(c.org, g.org),
		format('job %s', coalesce(c.job, g.job)),
		format('claim of %s, %s devices on %s nodes, %s thousandths of each, for %s',
			coalesce(c.gpu_type, 'no GPUs'), coalesce(g.gpus, 0),
			coalesce(g.nodes, 0), c.share,
			coalesce(j.request::text, 'no waiting job'))
	FROM gpucredit.claim c
		FULL JOIN (SELECT g.pool, g.org, g.job, count(*) AS nodes,
				sum(gpucredit.gpu_count(g.gpus)) AS gpus
			FROM gpucredit.claim_gpu g GROUP BY g.pool, g.org, g.job) g
			ON g.pool = c.pool AND g.org = c.org AND g.job = c.job
		/* A running job that is moved keeps the number of GPUs it has. */
		LEFT JOIN gpucredit.job j ON j.org = c.org AND j.job = c.job
			AND gpucredit_internal.in_orgs(j.org, check_claims.from_org,
				check_claims.to_org)
			AND j.state IN ('queued', 'unfunded')
	WHERE gpucredit_internal.in_orgs(coalesce(c.org, g.org), check_claims.from_org, check_claims.to_org)
		AND (c.job IS NULL OR g.job IS NULL
			OR (c.gpu_type IS NULL) <> (g.gpus = 0)
			OR c.share <> gpucredit.gpureq_share(j.request)
			OR g.gpus NOT BETWEEN gpucredit.gpureq_min_gpus(j.request)
				AND gpucredit.gpureq_max_gpus(j.request))
	UNION ALL
	SELECT 'promised_device_is_left', p.org,
		format('job %s node "%s"', p.job, p.node),
		format('promised %s, of which %s has %s and was not told to leave',
			p.gpus, format('%s/%s/%s', t.org, t.job, t.attempt), t.gpus)
	FROM promised p
		JOIN gpucredit.attempt_gpu t ON t.pool = p.pool AND t.node = p.node
			AND NOT t.free AND t.ended_at IS NULL AND t.gpus && p.gpus
	WHERE p.share = 1000
		AND gpucredit_internal.in_orgs(p.org,
			check_claims.from_org, check_claims.to_org)
		AND NOT EXISTS (SELECT FROM gpucredit.directive d
			WHERE d.org = t.org AND d.job = t.job AND d.attempt = t.attempt)
	UNION ALL
	SELECT 'eviction_has_attempt', e.org,
		format('job %s attempt %s', e.job, e.attempt),
		format('told to leave for reasons of %s; %s', e.why,
			CASE WHEN a.attempt IS NULL THEN 'it is missing'
				ELSE 'it has no directive' END)
	FROM gpucredit.eviction e
		LEFT JOIN gpucredit.attempt a ON a.org = e.org AND a.job = e.job
			AND a.attempt = e.attempt
			AND gpucredit_internal.in_orgs(a.org, check_claims.from_org,
				check_claims.to_org)
	WHERE gpucredit_internal.in_orgs(e.org,
		check_claims.from_org, check_claims.to_org)
		AND (a.attempt IS NULL OR (a.ended_at IS NULL AND NOT EXISTS
			(SELECT FROM gpucredit.directive d WHERE d.org = e.org
				AND d.job = e.job AND d.attempt = e.attempt
				AND d.cause = 'claim')));
END;
COMMENT ON FUNCTION gpucredit_internal.check_claims(text, text) IS
'verify: claims, and the victims that leave for them.';

/*
 * Checks of fair share: recorded use, and the columns from which cycles count.
 */
CREATE FUNCTION gpucredit_internal.check_shares(from_org text, to_org text)
RETURNS SETOF gpucredit.verify_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT 'fair_usage_is_charged', coalesce(f.org, a.org),
		format('account "%s" in pool "%s"', coalesce(f.account, a.account),
			coalesce(f.pool, a.pool)),
		format('recorded %s of %s charged', coalesce(f.usage::text, 'nothing'),
			coalesce(a.usage_charged, 0))
	FROM (SELECT * FROM gpucredit.fair_usage f
			WHERE gpucredit_internal.in_orgs(f.org,
				check_shares.from_org, check_shares.to_org)) f
		FULL JOIN (SELECT a.org, a.pool, a.account, sum(a.usage_charged) AS usage_charged
			FROM gpucredit.attempt a
			WHERE a.usage_charged > 0 AND gpucredit_internal.in_orgs(a.org,
				check_shares.from_org, check_shares.to_org)
			GROUP BY a.org, a.pool, a.account) a
			ON a.org = f.org AND a.pool = f.pool AND a.account = f.account
	WHERE (f.usage BETWEEN 0 AND a.usage_charged) IS NOT TRUE
	UNION ALL
	SELECT 'charged_is_over', a.org, format('job %s attempt %s', a.job,
			a.attempt), format('charged %s, ended at %s', a.usage_charged,
			coalesce(a.ended_at::text, 'never'))
	FROM gpucredit.attempt a
	WHERE gpucredit_internal.in_orgs(a.org,
		check_shares.from_org, check_shares.to_org)
		AND (a.usage_charged < 0 OR (a.usage_charged IS NOT NULL AND a.ended_at IS NULL)
			OR (a.usage_charged > 0 AND a.gpu_type IS NULL))
	UNION ALL
	SELECT 'attempt_is_due', a.org, format('job %s attempt %s', a.job,
			a.attempt), format('%s; surplus %s, charged %s, ended at %s',
			CASE WHEN a.needs_cycle THEN 'due' ELSE 'not due' END, a.surplus,
			coalesce(a.usage_charged::text, 'nothing'),
			coalesce(a.ended_at::text, 'never'))
	FROM gpucredit.attempt a
	WHERE gpucredit_internal.in_orgs(a.org,
		check_shares.from_org, check_shares.to_org)
		AND a.needs_cycle <> (a.surplus > '0'
			OR (a.ended_at IS NOT NULL AND a.usage_charged IS NULL))
	UNION ALL
	SELECT 'waiting_is_counted', j.org, format('job %s', j.job),
		format('%s, waits from %s, waited %s', j.state,
			coalesce(j.waits_from::text, 'never'), j.waited)
	FROM gpucredit.job j
	WHERE gpucredit_internal.in_orgs(j.org,
		check_shares.from_org, check_shares.to_org)
		AND ((j.state = 'queued') <> (j.waits_from IS NOT NULL)
			OR j.waited < '0');
END;
COMMENT ON FUNCTION gpucredit_internal.check_shares(text, text) IS
'verify: what fair share and ageing use.';

/*
 * Checks that the triggers and policies which guard the tables are in place.
 */
CREATE FUNCTION gpucredit_internal.check_guards(from_org text, to_org text)
RETURNS SETOF gpucredit.verify_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH audited AS NOT MATERIALIZED (
		SELECT a.org, a.audit, a.detail ->> 'key' AS key, a.operation, a.at
		FROM gpucredit.audit a
		WHERE a.detail ? 'key' AND gpucredit_internal.in_orgs(a.org,
			check_guards.from_org, check_guards.to_org)),
	r AS NOT MATERIALIZED (
		SELECT * FROM gpucredit.request r
		WHERE gpucredit_internal.in_orgs(r.org, check_guards.from_org,
			check_guards.to_org)),
	gone AS MATERIALIZED (
		SELECT a.* FROM audited a
		WHERE a.at > (SELECT gpucredit.now()
				- current_setting('gpucredit.key_retention')::interval)
			AND NOT EXISTS (SELECT FROM r WHERE r.org = a.org
				AND r.key = a.key AND r.operation = a.operation
				AND r.created_at <= a.at)),
	first_kept AS (		/* the oldest key that expires; needed rarely */
		SELECT a.org, min(a.audit) AS audit
		FROM audited a
			JOIN r ON r.org = a.org AND r.key = a.key
				AND r.operation = a.operation AND NOT r.lasting
		WHERE (SELECT count(*) > 0 FROM gone)
			AND EXISTS (SELECT FROM r u WHERE u.org = a.org
				AND u.key = a.key AND u.operation = a.operation
				AND u.created_at <= a.at)
		GROUP BY a.org)
	SELECT w.invariant, r.org, format('key "%s"', r.key),
		CASE w.invariant WHEN 'fingerprint_has_size'
			THEN format('%s bytes', octet_length(r.fingerprint))
			ELSE format('of %s at %s', r.operation, r.created_at) END
			|| CASE w.invariant WHEN 'request_is_as_answered'
				THEN ': a column differs from what the call wrote' ELSE '' END
	FROM (SELECT r.*, array_remove(ARRAY[
			CASE WHEN r.result IS NULL THEN 'request_has_result'
				/* Whether a column differs from what the call wrote. */
				WHEN r.digest IS DISTINCT FROM hash_record_extended(ROW(r.org,
					r.space, r.key, r.operation, r.fingerprint, r.result,
					r.created_at), 0) THEN 'request_is_as_answered' END,
			CASE WHEN octet_length(r.fingerprint) <> 16
				THEN 'fingerprint_has_size' END], NULL) AS broken
		FROM r) r CROSS JOIN LATERAL unnest(r.broken) AS w (invariant)
	WHERE r.broken <> '{}'
	UNION ALL
	/*
	 * Keys that expire are deleted by age, the oldest first.  So no key may be
	 * missing that was used after the oldest one still present.  A key that
	 * never expires tells nothing about the age of others, and a key may be
	 * used anew once it has expired.  The key of a payment must never be
	 * missing.
	 */
	SELECT 'audited_key_is_kept', g.org, format('key "%s"', g.key),
		format('used by %s at %s, and gone', g.operation, g.at)
	FROM gone g LEFT JOIN first_kept f ON f.org = g.org
	WHERE g.audit > f.audit OR g.operation IN ('issue', 'transfer', 'revoke',
		'refund', 'refund_hold')
	UNION ALL
	SELECT 'denial_is_audited', d.org, format('audit %s', d.audit),
		format('%s denials at %s are like one that is not there', sum(d.n),
			min(d.at))
	FROM gpucredit.denial d
		LEFT JOIN gpucredit.audit a ON a.org = d.org AND a.audit = d.audit
			AND a.decision = 'denied'
			AND gpucredit_internal.in_orgs(a.org, check_guards.from_org,
				check_guards.to_org)
	WHERE gpucredit_internal.in_orgs(d.org,
		check_guards.from_org, check_guards.to_org)
		AND a.audit IS NULL
	GROUP BY d.org, d.audit
	UNION ALL
	SELECT 'denials_are_counted', r.org, r.operation,
		format('%s denials are remembered, %s counted', r.n, coalesce(c.n, 0))
	FROM (SELECT r.org, r.operation, count(*) AS n FROM gpucredit.request r
			WHERE gpucredit_internal.in_orgs(r.org,
				check_guards.from_org, check_guards.to_org)
				AND r.operation IN ('hold', 'extend_hold', 'reserve', 'transfer')
				AND 'denied' = ANY (r.result)
				/*
				 * The key of a transfer is kept for ever, but its audit row
				 * may have been removed.
				 */
				AND (NOT r.lasting OR r.created_at > (SELECT gpucredit.now()
					- current_setting('gpucredit.key_retention')::interval))
			GROUP BY r.org, r.operation) r
		LEFT JOIN (SELECT c.org, c.operation, sum(c.n) AS n
			FROM (SELECT a.org, a.operation,
					coalesce((a.detail ->> 'repeats')::bigint, 1) AS n
				FROM gpucredit.audit a WHERE a.decision = 'denied'
			AND gpucredit_internal.in_orgs(a.org, check_guards.from_org,
				check_guards.to_org)
				UNION ALL
				SELECT a.org, a.operation, d.n FROM gpucredit.denial d
					JOIN gpucredit.audit a ON a.org = d.org
						AND a.audit = d.audit
			AND gpucredit_internal.in_orgs(a.org, check_guards.from_org,
				check_guards.to_org)) c
			GROUP BY c.org, c.operation) c
			ON c.org = r.org AND c.operation = r.operation
	WHERE r.n > coalesce(c.n, 0)
	UNION ALL
	SELECT 'no_key_to_account', '', format('table %s', c.conrelid::regclass),
		format('foreign key %s', c.conname)
	FROM pg_catalog.pg_constraint c
	WHERE c.contype = 'f'
		AND c.confrelid = 'gpucredit.account'::regclass
	UNION ALL
	SELECT g.invariant, '', format('table gpucredit.%s', g.name),
		'trigger missing, or not enabled ALWAYS'
	FROM (SELECT 'append_only_is_guarded', t.name,
			'gpucredit_internal.refuse_change'::regproc, ARRAY[58]
		FROM unnest(ARRAY['accrued', 'audit', 'closing', 'archive_batch', 'entry', 'event',
			'seal', 'seal_leaf', 'seal_row', 'usage']) AS t (name)
		UNION ALL
		SELECT 'soundness_is_guarded', t.name,
			'gpucredit_internal.row_check'::regproc, ARRAY[7, 17]
		FROM unnest(ARRAY['bucket', 'budget_counter', 'hold', 'hold_budget',
			'hold_part']) AS t (name)
		UNION ALL
		SELECT 'soundness_is_guarded', 'entry',
			'gpucredit_internal.row_check'::regproc, ARRAY[7]
		UNION ALL
		SELECT t.name || '_is_watched', t.name,
			'gpucredit_internal.cache_invalidate'::regproc, ARRAY[60]
		FROM unnest(ARRAY['node_key', 'rate_limit', 'tenant']) AS t (name))
		AS g (invariant, name, function, types)
	WHERE NOT g.types <@ ARRAY(SELECT t.tgtype::int FROM pg_catalog.pg_trigger t
		WHERE t.tgrelid = ('gpucredit.' || g.name)::regclass
			AND t.tgfoid = g.function AND t.tgenabled = 'A'
			AND t.tgqual IS NULL AND t.tgattr = '')
	UNION ALL
	/* Other checks do not notice a NULL. */
	SELECT 'column_is_filled', '', format('table gpucredit.%s', c.relname),
		format('column %s may be null', a.attname)
	FROM pg_catalog.pg_class c
		JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid
			AND a.attnum > 0 AND NOT a.attisdropped AND NOT a.attnotnull
		JOIN (SELECT t.name, regexp_split_to_array(v.columns, E'\\s+') AS columns
			FROM (VALUES
			('accrued bucket_slice budget budget_counter budget_slice claim_gpu
				denial archive_batch eviction fair_usage hold_budget hold_part
				job_file job_signal stored_file idle_limit lost_work node_cache node_key node_strike pool price quota_lock rate_limit seal seal_leaf
				seal_pending seal_row spend_day step_secret account_total tenant tier_grant uncollected workload_mix
				usage_horizon upkeep_position', ''),
			('account', 'balance_low limits'),
			('attempt_gpu', 'ended_at seen_at energy_j'),
			('attempt_watch', 'overdue_since'),
			('attempt_part', 'exit_code message log_uri elapsed'),
			('kept_log', 'message uri'),
			('job_session', 'port accepted_at ended_at'),
			('log_wish', 'answered_at first_byte body written dropped over
				message'),
			('attempt', 'gpu_type wall_limit hold_window save_every ends_by
				skewed_at saved_at running_at heard_at progress
				progress_at utilization ended_at outcome billed released
				lapsed refunded job_state retry_at exit_code message
				log_uri usage_charged trace uncollected ended_by idle_since idle_for idle_at
				idle_warned_at idle_limit idle_warning late_at
				late_elapsed late_uncollected energy_j'),
			('alert', 'recovered_at'),
			('event', 'job attempt decision reason'),
			('event_pending', 'job attempt decision reason detail'),
			('audit', 'reason account bucket hold job attempt detail
				application_name client_addr trace'),
			('bucket', 'expires_at closed_at swept_at gpu_types tiers pools
				max_per_job max_share memo'),
			('budget_log', 'amount'),
			('checkpoint', 'bad_at'),
			('claim', 'gpu_type'),
			('closing', 'job attempt drawn_first drawn_last issued drawn spent
				returned held_expired held_revoked refunded given_back
				spent_expired spent_revoked expired revoked moved'),
			('directive', 'deadline starts_at saved_by told_at'),
			('entry', 'hold part job attempt trace'),
			('hold', 'job expires_at closed_at trace uncollected'),
			('job', 'prefer wall_limit hold_window cache save_every not_before
				ended_at waits_from traceparent name array_key task at_most after
				held_by deadline'),
			('node', 'nvlink_domain leaf draining drain_deadline reclaim_at about
				boot_before spine nvlink_mbps leaf_mbps spine_mbps topology
				topology_at'),
			('quota', 'max_gpus max_running max_queued max_cpu_milli max_memory_mib
				max_nonpreemptible_gpus'),
			('request', 'result digest'),
			('reservation', 'gpu_type limit_at latest_at'),
			('retry_rule_builtin retry_rule_custom',
				'outcome exit_codes message advice'),
			('account_delta', 'day'),
			('tier_builtin tier_custom', 'ages_to'),
			('usage', 'progress utilization'))
				AS v (tables, columns)
				CROSS JOIN LATERAL regexp_split_to_table(v.tables, E'\\s+')
					AS t (name) OFFSET 0) n ON n.name = c.relname
	WHERE c.relnamespace = 'gpucredit'::regnamespace
		AND a.attname <> ALL (n.columns)
	UNION ALL
	SELECT 'rows_are_kept_apart', '', format('table gpucredit.%s', t.name),
		'row-level security off, or not by the policy for tenants'
	FROM unnest(ARRAY['account', 'alert', 'attempt', 'entry', 'event', 'hold', 'job'])
		AS t (name)
	WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_class c
			JOIN pg_catalog.pg_policy p ON p.polrelid = c.oid
		WHERE c.oid = ('gpucredit.' || t.name)::regclass AND c.relrowsecurity
			AND p.polcmd = 'r' AND NOT p.polpermissive
			AND p.polroles = ARRAY[0::oid]
			AND pg_get_expr(p.polqual, p.polrelid)
				= 'gpucredit_internal.may_read(org, account)')
	UNION ALL
	SELECT 'kept_log_has_attempt', k.org, format('job %s attempt %s', k.job,
			k.attempt), format('%s of node "%s" is kept, which has no part of it',
			k.stream, k.node)
	FROM gpucredit.kept_log k
	WHERE gpucredit_internal.in_orgs(k.org,
		check_guards.from_org, check_guards.to_org)
		AND NOT EXISTS (SELECT FROM gpucredit.attempt_gpu p
			WHERE p.org = k.org AND p.job = k.job AND p.attempt = k.attempt
			AND p.node = k.node)
	UNION ALL
	SELECT 'stored_file_digest', f.org, format('account "%s" text %s', f.account,
			encode(f.sha256, 'hex')), 'is the digest of another text'
	FROM gpucredit.stored_file f
	WHERE gpucredit_internal.in_orgs(f.org,
		check_guards.from_org, check_guards.to_org)
		AND f.sha256 <> sha256(convert_to(f.body, 'UTF8'))
	UNION ALL
	SELECT 'job_file_is_stored', k.org, format('job %s', k.job),
		format('needs a text as %s that its account has not stored, or that its spec does not name',
			k.word)
	FROM gpucredit.job_file k
	WHERE gpucredit_internal.in_orgs(k.org,
		check_guards.from_org, check_guards.to_org)
		AND NOT EXISTS (SELECT FROM gpucredit.job j
				JOIN gpucredit.stored_file f ON f.org = j.org
					AND f.account = j.account AND f.sha256 = k.sha256
			WHERE j.org = k.org AND j.job = k.job AND j.account = k.account
				AND j.spec ->> (k.word || '_sha256') = encode(k.sha256, 'hex'))
	UNION ALL
	SELECT 'job_keeps_files', j.org, format('job %s', j.job),
		format('is not over, and the text that its spec names as %s may be removed',
			w.word)
	FROM gpucredit.job j
		CROSS JOIN (VALUES ('script'), ('env')) AS w (word)
	WHERE gpucredit_internal.in_orgs(j.org,
		check_guards.from_org, check_guards.to_org)
		AND j.ended_at IS NULL AND j.spec ? (w.word || '_sha256')
		AND NOT EXISTS (SELECT FROM gpucredit.job_file k
			WHERE k.org = j.org AND k.job = j.job AND k.word = w.word)
	UNION ALL
	SELECT 'rate_limit_has_account', r.org, format('account "%s"', r.account),
		format('%s a second of %s, but no such account', r.per_second,
			r.operation)
	FROM gpucredit.rate_limit r
	WHERE gpucredit_internal.in_orgs(r.org,
		check_guards.from_org, check_guards.to_org)
		AND NOT EXISTS (SELECT FROM gpucredit.account a
			WHERE a.org = r.org AND a.account = r.account
			AND gpucredit_internal.in_orgs(a.org, check_guards.from_org,
				check_guards.to_org))
	UNION ALL
	SELECT 'owed_was_uncollected', o.org, format('account "%s"', o.account),
		format('owes %s, and %s was written off, of its use %s is unpaid',
			o.owed, o.written_off, o.unpaid)
	FROM (SELECT o.org, o.account, sum(o.owed) AS owed,
			sum(o.written_off) AS written_off, sum(o.unpaid) AS unpaid
		FROM (SELECT u.org, u.account, u.owed::numeric AS owed,
				u.written_off::numeric AS written_off, 0 AS unpaid
			FROM gpucredit.uncollected u
			UNION ALL
			SELECT a.org, a.account, 0, 0, a.uncollected::numeric
			FROM gpucredit.attempt a WHERE a.uncollected > '0'
			UNION ALL
			SELECT h.org, h.account, 0, 0, h.uncollected::numeric
			FROM gpucredit.hold h WHERE h.uncollected > '0') o
		WHERE gpucredit_internal.in_orgs(o.org,
			check_guards.from_org, check_guards.to_org)
		GROUP BY o.org, o.account) o
	WHERE o.owed < 0 OR o.written_off < 0
		OR o.owed + o.written_off <> o.unpaid
	UNION ALL
	SELECT 'write_offs_are_audited', u.org, format('account "%s"', u.account),
		format('%s was written off, by the audit log %s', u.written_off,
			coalesce(w.amount, 0))
	FROM gpucredit.uncollected u
		LEFT JOIN (SELECT a.org, a.account,
				sum((a.detail ->> 'amount')::numeric) AS amount
			FROM gpucredit.audit a
			WHERE a.operation = 'write_off' AND a.decision = 'written_off'
				AND gpucredit_internal.in_orgs(a.org,
					check_guards.from_org, check_guards.to_org)
			GROUP BY a.org, a.account) w
			ON w.org = u.org AND w.account = u.account
	WHERE gpucredit_internal.in_orgs(u.org,
		check_guards.from_org, check_guards.to_org)
		AND u.written_off::numeric > coalesce(w.amount, 0)
		AND gpucredit_internal.kept_from('audit') IS NULL
	UNION ALL
	SELECT 'tier_grant_names_both', g.org, format('account "%s"', g.account),
		format('tier "%s" is granted, but there is no such %s', g.tier,
			CASE WHEN t.tier IS NULL THEN 'tier' ELSE 'account' END)
	FROM gpucredit.tier_grant g
		LEFT JOIN gpucredit.tier t ON t.tier = g.tier
		LEFT JOIN gpucredit.account a ON a.org = g.org
			AND a.account = g.account
			AND gpucredit_internal.in_orgs(a.org, check_guards.from_org,
				check_guards.to_org)
	WHERE gpucredit_internal.in_orgs(g.org,
		check_guards.from_org, check_guards.to_org)
		AND (t.tier IS NULL OR a.account IS NULL)
	UNION ALL
	SELECT 'lost_work_has_tier', '', format('tier "%s"', l.tier),
		format('after %s, but no such tier', l.outcome)
	FROM gpucredit.lost_work l
	WHERE check_guards.from_org IS NULL
		AND NOT EXISTS (SELECT FROM gpucredit.tier t WHERE t.tier = l.tier)
	UNION ALL
	SELECT 'tenant_has_account', t.org, format('role "%s"', t.role),
		format('bound to account "%s", which is not there', t.account)
	FROM gpucredit.tenant t
	WHERE gpucredit_internal.in_orgs(t.org,
		check_guards.from_org, check_guards.to_org)
		AND NOT EXISTS (SELECT FROM gpucredit.account a
			WHERE a.org = t.org AND a.account = t.account
			AND gpucredit_internal.in_orgs(a.org, check_guards.from_org,
				check_guards.to_org))
	UNION ALL
	SELECT 'sequence_not_behind', '', format('sequence gpucredit.%s', s.name),
		format('at %s, ids go to %s', coalesce(s.at, 0), s.newest)
	FROM (VALUES
		('bucket_bucket_seq', (SELECT max(b.bucket) FROM gpucredit.bucket b)),
		('hold_hold_seq', (SELECT max(h.hold) FROM gpucredit.hold h)),
		('entry_entry_seq', (SELECT max(e.entry) FROM gpucredit.entry e)),
		('audit_audit_seq', (SELECT max(a.audit) FROM gpucredit.audit a)),
		('alert_alert_seq', (SELECT max(a.alert) FROM gpucredit.alert a)),
		('job_job_seq', (SELECT max(j.job) FROM gpucredit.job j)))
		AS m (name, newest)
		CROSS JOIN LATERAL (SELECT m.name, m.newest, pg_sequence_last_value(
			('gpucredit.' || m.name)::regclass) AS at) s
	WHERE check_guards.from_org IS NULL AND s.newest > coalesce(s.at, 0);
END;
COMMENT ON FUNCTION gpucredit_internal.check_guards(text, text) IS
'verify: requests, and the triggers that guard the tables.';

/*
 * Checks of seals: each must be the digest of its own row and of the seal
 * before.
 */
CREATE FUNCTION gpucredit_internal.check_seals(from_org text, to_org text)
RETURNS SETOF gpucredit.verify_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH s AS (
		SELECT s.*, lag(s.batch, 1, 0::bigint) OVER chain AS batch_before,
			lag(s.seal, 1, decode(repeat('00', 32), 'hex')) OVER chain
				AS seal_before,
			lag(s.entry_to, 1, (-9223372036854775808)::bigint) OVER chain AS entry_before,
			lag(s.audit_to, 1, (-9223372036854775808)::bigint) OVER chain AS audit_before
		FROM gpucredit.seal s WHERE check_seals.from_org IS NULL
		WINDOW chain AS (ORDER BY s.batch))
	SELECT 'chain_unbroken', '', format('batch %s', s.batch),
		CASE WHEN s.batch <> s.batch_before + 1
			THEN format('follows batch %s', s.batch_before)
			ELSE format('entries above %s up to %s, after batch %s',
				s.entry_from, s.entry_to, s.batch_before) END
	FROM s
	WHERE s.batch <> s.batch_before + 1 OR s.previous <> s.seal_before
		OR s.entry_from <> s.entry_before OR s.audit_from <> s.audit_before
		OR s.seal <> sha256(s.previous || s.root || convert_to(concat_ws(' ',
			s.batch, s.entry_from, s.entry_to, s.entries, s.audit_from,
			s.audit_to, s.audits,
			gpucredit_internal.micros(s.sealed_at)), 'UTF8'))
	UNION ALL
	SELECT 'leaves_have_seal', '', format('batch %s', l.batch),
		'the chain has no such batch'
	FROM gpucredit.seal_leaf l
		LEFT JOIN gpucredit.seal s ON s.batch = l.batch
	WHERE check_seals.from_org IS NULL AND s.batch IS NULL;
END;
COMMENT ON FUNCTION gpucredit_internal.check_seals(text, text) IS
'verify: the chain of seals is unbroken; verify_audit() reads the rows too.';

/*
 * verify(): calls all checks.  The best plans for one organisation and for all
 * of them differ, so it is written in PL/pgSQL with custom plans.  work_mem is
 * raised for the sums over all entries.  Policies are compared by their text.
 * With many organisations, each check joins whole tables.  With outdated
 * statistics, a nested loop would take time in proportion to the square of the
 * rows, and with correct ones it would save little, so nested loops are off.
 */
CREATE FUNCTION gpucredit.verify(org text DEFAULT NULL, after text DEFAULT NULL,
	upto text DEFAULT NULL)
RETURNS SETOF gpucredit.verify_result
LANGUAGE plpgsql STABLE SECURITY DEFINER PARALLEL UNSAFE ROWS 10
SET search_path = pg_catalog, pg_temp
SET quote_all_identifiers = off
SET plan_cache_mode = force_custom_plan
SET work_mem = '128MB'
SET enable_nestloop = on
SET jit = off
AS $$
DECLARE
	/* No name sorts between a name and this name with chr(1) appended. */
	from_org CONSTANT text := coalesce(verify.org, verify.after || chr(1));
	to_org CONSTANT text := coalesce(verify.org, verify.upto);
BEGIN
	PERFORM gpucredit_internal.require_sense(b.name,
			/*
			 * Comparing a value of megabytes with every row would take too
			 * long.
			 */
			left(b.value, 256), octet_length(b.value) <= 255, 'is too long',
			b.hint)
	FROM (VALUES
		('org', verify.org, 'Pass an organisation, or NULL for all.'),
		('after', verify.after, 'Pass the name that the range before ends with.'),
		('upto', verify.upto, 'Pass the name that the range ends with.'))
		AS b (name, value, hint)
	WHERE b.value IS NOT NULL;
	IF verify.org IS NOT NULL THEN
		PERFORM gpucredit_internal.require_sense('org', verify.org,
			verify.after IS NULL AND verify.upto IS NULL,
			'is one organisation, and a range is given, too',
			'Pass an organisation, or after and upto.');
		/*
		 * Without this check, an organisation that does not exist would seem
		 * to be in order.
		 */
		IF NOT EXISTS (SELECT FROM gpucredit.account a
				WHERE a.org = verify.org)
			AND NOT EXISTS (SELECT FROM gpucredit_internal.check_accounts(from_org, to_org))
		THEN
			PERFORM gpucredit_internal.require_account(verify.org, '');
		END IF;
	ELSE
		/* The same holds for a range without any organisation. */
		PERFORM gpucredit_internal.require_sense('upto', verify.upto,
			verify.upto COLLATE "C" > verify.after COLLATE "C",
			'does not sort behind after', 'Pass a later name, or NULL.')
		WHERE verify.upto IS NOT NULL AND verify.after IS NOT NULL;
		PERFORM set_config('enable_nestloop', 'off', true);
	END IF;
	RETURN QUERY SELECT c.* FROM gpucredit_internal.check_buckets(from_org, to_org) c
		ORDER BY 1, 2, 3, 4;
	RETURN QUERY SELECT c.* FROM gpucredit_internal.check_slices(from_org, to_org) c
		ORDER BY 1, 2, 3, 4;
	RETURN QUERY SELECT c.* FROM gpucredit_internal.check_holds(from_org, to_org) c
		ORDER BY 1, 2, 3, 4;
	RETURN QUERY SELECT c.* FROM gpucredit_internal.check_budgets(from_org, to_org) c
		ORDER BY 1, 2, 3, 4;
	RETURN QUERY SELECT c.* FROM gpucredit_internal.check_accounts(from_org, to_org) c
		ORDER BY 1, 2, 3, 4;
	RETURN QUERY SELECT c.* FROM gpucredit_internal.check_jobs(from_org, to_org) c
		ORDER BY 1, 2, 3, 4;
	RETURN QUERY SELECT c.* FROM gpucredit_internal.check_bills(from_org, to_org) c
		ORDER BY 1, 2, 3, 4;
	RETURN QUERY SELECT c.* FROM gpucredit_internal.check_devices(from_org, to_org) c
		ORDER BY 1, 2, 3, 4;
	RETURN QUERY SELECT c.* FROM gpucredit_internal.check_traces(from_org, to_org) c
		ORDER BY 1, 2, 3, 4;
	RETURN QUERY SELECT c.* FROM gpucredit_internal.check_audited_terms(from_org, to_org) c
		ORDER BY 1, 2, 3, 4;
	RETURN QUERY SELECT c.* FROM gpucredit_internal.check_settings(from_org, to_org) c
		ORDER BY 1, 2, 3, 4;
	RETURN QUERY SELECT c.* FROM gpucredit_internal.check_seals(from_org, to_org) c
		ORDER BY 1, 2, 3, 4;
	RETURN QUERY SELECT c.* FROM gpucredit_internal.check_archive_batches(from_org, to_org) c
		ORDER BY 1, 2, 3, 4;
	RETURN QUERY SELECT c.* FROM gpucredit_internal.check_claims(from_org, to_org) c
		ORDER BY 1, 2, 3, 4;
	RETURN QUERY SELECT c.* FROM gpucredit_internal.check_shares(from_org, to_org) c
		ORDER BY 1, 2, 3, 4;
	/*
	 * These checks join whole tables with the audit log, even for one
	 * organisation.
	 */
	PERFORM set_config('enable_nestloop', 'off', true);
	RETURN QUERY SELECT c.* FROM gpucredit_internal.check_history(from_org, to_org) c
		ORDER BY 1, 2, 3, 4;
	RETURN QUERY SELECT c.* FROM gpucredit_internal.check_guards(from_org, to_org) c
		ORDER BY 1, 2, 3, 4;
END
$$;
COMMENT ON FUNCTION gpucredit.verify(text, text, text) IS
'Upkeep: recomputes every figure from the entries and reports what does not hold; no row means that all is well. It reads one snapshot and is safe on a live system.
org: one organisation; NULL: all. after, upto: only organisations whose names sort after the one and up to the other, in byte order; NULL: no bound. verify_ranges() divides all organisations into ranges, which several sessions may verify at once, and of which those that are done need not be done again. What concerns no organisation, such as prices, nodes and seals, is in the range whose after is NULL. A table without its guards is reported by each call.
Result: the invariant, the organisation ('''' for none), what breaks it, and the numbers. Money comes first, and rows that belong together are side by side. What two organisations break together, such as a device given twice, is reported in the range of each.
Errors: UC001 no such account: nothing names that organisation; 22023 a name that is too long, org together with a range, or a range that ends before it begins.';

/*
 * Divides the organisations into ranges of about the same number of entries,
 * which is estimated from a sample of the table's pages, whatever the
 * statistics say. Checking an account takes about as long as checking an
 * entry.
 */
CREATE TYPE gpucredit.verify_ranges_result AS (range int, after text,
	upto text, organisations bigint, entries bigint);
COMMENT ON TYPE gpucredit.verify_ranges_result IS
'A range of organisations that verify() checks in one call.';

CREATE FUNCTION gpucredit.verify_ranges(ranges int DEFAULT 16)
RETURNS SETOF gpucredit.verify_ranges_result
LANGUAGE sql VOLATILE SECURITY DEFINER PARALLEL UNSAFE ROWS 16
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit_internal.require_sense('ranges', verify_ranges.ranges::text,
		verify_ranges.ranges BETWEEN 1 AND 10000, 'is out of range',
		'Pass 1 to 10000.');
	WITH share AS MATERIALIZED (	/* the percentage of the table that is 2,000 pages */
		SELECT least(100, 100 * 2000.0 * current_setting('block_size')::int
			/ greatest(1, pg_relation_size('gpucredit.entry')))::real AS percent),
	size AS (
		SELECT a.org, a.accounts, coalesce(e.entries, 0) AS entries
		FROM (SELECT a.org, count(*) AS accounts FROM gpucredit.account a
				GROUP BY a.org) a
			LEFT JOIN (SELECT e.org, count(*) * 100
					/ (SELECT s.percent FROM share s) AS entries
				FROM gpucredit.entry e
					TABLESAMPLE SYSTEM ((SELECT s.percent FROM share s))
				GROUP BY e.org) e ON e.org = a.org),
	placed AS (
		/* Sums of estimates are rounded. */
		SELECT s.org, s.entries, least(verify_ranges.ranges,
			ceil(sum(s.accounts + s.entries) OVER (ORDER BY s.org)
				* verify_ranges.ranges
			/ sum(s.accounts + s.entries) OVER ())) AS range
		FROM size s),
	ended AS (
		SELECT max(p.org) AS last, count(*) AS organisations,
			sum(p.entries) AS entries, row_number() OVER w AS range,
			lead(1) OVER w AS next
		FROM placed p GROUP BY p.range WINDOW w AS (ORDER BY p.range))
	SELECT e.range::int, lag(e.last) OVER (ORDER BY e.range),
		CASE WHEN e.next IS NOT NULL THEN e.last END, e.organisations,
		e.entries::bigint
	FROM ended e
	UNION ALL
	SELECT 1, NULL, NULL, 0, 0
	WHERE NOT EXISTS (SELECT FROM gpucredit.account)
	ORDER BY 1;
END;
COMMENT ON FUNCTION gpucredit.verify_ranges(int) IS
'Upkeep: divides all organisations into at most so many ranges (1 to 10000) for verify(after => ..., upto => ...), each about equally much work. An organisation is never divided, so a very large one is a range of its own. Together the ranges cover every name, also of organisations that come later.
Result: the range''s number, its bounds (NULL: none), how many organisations it has, and about how many entries. The ranges may differ from call to call, so keep them until all are verified.
Errors: 22023.';
