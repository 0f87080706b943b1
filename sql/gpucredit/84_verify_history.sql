/*
 * 84_verify_history.sql: how jobs, attempts and holds began and ended, as the
 * audit log has it.
 *
 * Each comparison joins a table with the audit rows of one decision.  Rows
 * whose audit row was removed by age are not compared (85_archive.sql).
 */
CREATE FUNCTION gpucredit_internal.check_history(from_org text, to_org text)
RETURNS SETOF gpucredit.verify_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH kept AS (SELECT gpucredit_internal.kept_from('audit') AS after)
	SELECT 'job_is_as_submitted', coalesce(j.org, a.org),
		format('job %s', coalesce(j.job, a.job)),
		CASE WHEN j.job IS NULL THEN 'it is missing'
			WHEN a.job IS NULL THEN 'the audit log has no submission of it'
			ELSE format('account "%s", pool "%s", tier "%s", %s, from %s; submitted to account "%s" at %s with %s',
				j.account, j.pool, j.tier, j.request, j.submitted_at, a.account,
				a.at, a.detail - 'key') END
	FROM (SELECT * FROM gpucredit.job j
			WHERE gpucredit_internal.in_orgs(j.org,
				check_history.from_org, check_history.to_org)) j
		FULL JOIN (SELECT * FROM gpucredit.audit a
			WHERE a.operation = 'reserve' AND a.decision = 'granted'
				AND gpucredit_internal.in_orgs(a.org,
					check_history.from_org, check_history.to_org)) a
			ON a.org = j.org AND a.job = j.job
		/* update_job() writes all options that a job has after it. */
		LEFT JOIN (SELECT DISTINCT ON (u.org, u.job) u.org, u.job,
				u.detail -> 'options' AS options
			FROM gpucredit.audit u
			WHERE u.operation = 'update_job'
				AND gpucredit_internal.in_orgs(u.org,
					check_history.from_org, check_history.to_org)
			ORDER BY u.org, u.job, u.audit DESC) u
			ON u.org = j.org AND u.job = j.job
		CROSS JOIN kept k
	WHERE j.job IS NULL OR CASE WHEN a.job IS NULL
		THEN coalesce(j.submitted_at > k.after, true)
		ELSE (j.account, j.submitted_at, j.pool, j.tier, j.request::text,
			j.topology, j.max_retries, j.cpu_milli, j.memory_mib, j.options,
			j.price_factor,
			extract(epoch FROM j.wall_limit) * 1000000,
			extract(epoch FROM j.hold_window) * 1000000, j.preemptible)
			IS DISTINCT FROM (a.account, a.at, a.detail ->> 'pool',
			a.detail ->> 'tier', a.detail ->> 'request',
			coalesce(a.detail ->> 'topology', 'any'),
			coalesce((a.detail ->> 'max_retries')::int, 3),
			coalesce((a.detail ->> 'cpu_milli')::bigint, 0),
			coalesce((a.detail ->> 'memory_mib')::bigint, 0),
			coalesce(u.options, a.detail -> 'options', '{}'),
			coalesce((a.detail ->> 'price_factor_milli')::int, 1000),
			(a.detail ->> 'wall_limit_us')::numeric,
			(a.detail ->> 'hold_window_us')::numeric,
			a.detail ->> 'preemptible') END
	UNION ALL
	/* Columns that are copies of values in the job's documents. */
	SELECT 'job_is_as_its_documents', j.org, format('job %s', j.job),
		format('priority %s, prefers %s, cache %s, saves every %s; options %s, spec %s',
			j.priority, coalesce(j.prefer, 'nothing'),
			coalesce(j.cache, 'none'), coalesce(j.save_every::text, 'default'),
			j.options, left(j.spec::text, 200))
	FROM gpucredit.job j
	WHERE gpucredit_internal.in_orgs(j.org,
		check_history.from_org, check_history.to_org)
		AND (j.priority <> coalesce((j.options ->> 'priority')::int, 0)
			OR j.prefer IS DISTINCT FROM j.options ->> 'prefer'
			OR j.cache IS DISTINCT FROM j.spec ->> 'cache'
			OR (j.save_every IS NULL) <> NOT j.spec ? 'checkpoint_every')
	UNION ALL
	SELECT 'attempt_is_as_started', coalesce(t.org, a.org),
		format('job %s attempt %s', coalesce(t.job, a.job),
			coalesce(t.attempt, a.attempt)),
		CASE WHEN t.job IS NULL THEN 'it is missing'
			WHEN a.job IS NULL THEN 'the audit log has no start of it'
			ELSE format('%s %s at %s, %s thousandths, from %s; started at %s with %s',
				t.gpus, coalesce(t.gpu_type, 'GPUs'), t.per_gpu_hour, t.share,
				t.started_at, a.at, a.detail) END
	FROM (SELECT * FROM gpucredit.attempt t
			WHERE gpucredit_internal.in_orgs(t.org,
				check_history.from_org, check_history.to_org)) t
		FULL JOIN (SELECT * FROM gpucredit.audit a
			WHERE a.operation IN ('place', 'placed') AND a.decision = 'start'
				AND gpucredit_internal.in_orgs(a.org,
					check_history.from_org, check_history.to_org)) a
			ON a.org = t.org AND a.job = t.job AND a.attempt = t.attempt
		CROSS JOIN kept k
	WHERE t.job IS NULL OR CASE WHEN a.job IS NULL
		THEN coalesce(t.started_at > k.after, true)
		ELSE (t.hold, t.gpu_type, t.per_gpu_hour, t.gpus, t.share)
			IS DISTINCT FROM (a.hold, a.detail ->> 'gpu_type',
			coalesce(a.detail ->> 'per_gpu_hour', '0')::gpucredit.credits,
			coalesce((a.detail ->> 'gpus')::int, 0),
			coalesce((a.detail ->> 'share')::int, t.share))
			OR t.started_at > a.at END
	UNION ALL
	SELECT 'attempt_is_as_settled', coalesce(t.org, a.org),
		format('job %s attempt %s', coalesce(t.job, a.job),
			coalesce(t.attempt, a.attempt)),
		CASE WHEN t.job IS NULL THEN 'it is missing'
			WHEN a.job IS NULL THEN 'the audit log has no end of it'
			ELSE format('%s after %s at %s, billed %s, released %s, lapsed %s, refunded %s, uncollected %s, then %s; ended as %s at %s with %s',
				t.outcome, t.elapsed, t.ended_at, t.billed, t.released,
				t.lapsed, t.refunded, t.uncollected, t.job_state, a.decision,
				a.at, a.detail) END
	FROM (SELECT * FROM gpucredit.attempt t
			WHERE gpucredit_internal.in_orgs(t.org,
				check_history.from_org, check_history.to_org)) t
		FULL JOIN (SELECT * FROM gpucredit.audit a
			WHERE a.operation = 'settle' AND a.decision <> 'late'
				AND a.reason IS DISTINCT FROM 'late_finish'
				AND a.reason IS DISTINCT FROM 'ran_on'
				AND gpucredit_internal.in_orgs(a.org,
					check_history.from_org, check_history.to_org)) a
			ON a.org = t.org AND a.job = t.job AND a.attempt = t.attempt
		CROSS JOIN kept k
	WHERE (t.job IS NULL OR t.ended_at IS NOT NULL OR a.job IS NOT NULL)
		AND (t.job IS NULL OR CASE WHEN a.job IS NULL
		THEN coalesce(t.ended_at > k.after, true)
		ELSE (t.ended_at, t.released, t.lapsed, t.refunded)
			IS DISTINCT FROM (a.at,
			(a.detail ->> 'released')::gpucredit.credits,
			(a.detail ->> 'lapsed')::gpucredit.credits,
			coalesce(a.detail ->> 'refunded', '0')::gpucredit.credits)
			OR (t.late_at IS NULL AND (t.outcome, t.billed, t.uncollected,
			extract(epoch FROM t.elapsed) * 1000000,
			extract(epoch FROM t.overhead) * 1000000, t.job_state, t.exit_code,
			t.retry_at, t.message, t.log_uri, t.ended_by)
			IS DISTINCT FROM (a.decision,
			(a.detail ->> 'billed')::gpucredit.credits,
			coalesce(a.detail ->> 'uncollected', '0')::gpucredit.credits,
			(a.detail ->> 'elapsed_us')::numeric,
			coalesce((a.detail ->> 'overhead_us')::numeric, 0),
			a.detail ->> 'job_state', (a.detail ->> 'exit_code')::int,
			(a.detail ->> 'retry_at')::timestamptz, a.detail ->> 'message',
			a.detail ->> 'log_uri', a.detail ->> 'ended_by')) END)
	UNION ALL
	/* What a late report of the attempt's agent changed. */
	SELECT 'attempt_is_as_reported_late', t.org,
		format('job %s attempt %s', t.job, t.attempt),
		format('%s after %s, billed %s, uncollected %s, then %s, changed at %s; reported as %s at %s with %s',
			t.outcome, t.elapsed, t.billed, t.uncollected, t.job_state,
			coalesce(t.late_at::text, 'no time'),
			coalesce(a.decision, 'nothing'), a.at, a.detail)
	FROM (SELECT * FROM gpucredit.attempt t
			WHERE gpucredit_internal.in_orgs(t.org,
				check_history.from_org, check_history.to_org)) t
		LEFT JOIN (SELECT DISTINCT ON (a.org, a.job, a.attempt) *
			FROM gpucredit.audit a
			WHERE a.operation = 'settle' AND a.reason IN ('late_finish', 'ran_on')
				AND gpucredit_internal.in_orgs(a.org,
					check_history.from_org, check_history.to_org)
			ORDER BY a.org, a.job, a.attempt, a.audit DESC) a
			ON a.org = t.org AND a.job = t.job AND a.attempt = t.attempt
		CROSS JOIN kept k
	WHERE (t.late_at IS NOT NULL OR a.job IS NOT NULL)
		AND CASE WHEN a.job IS NULL THEN coalesce(t.late_at > k.after, true)
		ELSE (t.late_at, t.outcome, t.billed, t.uncollected,
			extract(epoch FROM t.elapsed) * 1000000, t.job_state)
			IS DISTINCT FROM (a.at, a.decision,
			(a.detail ->> 'billed')::gpucredit.credits,
			coalesce(a.detail ->> 'uncollected', '0')::gpucredit.credits,
			(a.detail ->> 'elapsed_us')::numeric, a.detail ->> 'job_state')
			END
	UNION ALL
	SELECT 'aged_as_started', g.org,
		format('job %s attempt %s node "%s"', g.job, g.attempt, g.node),
		format('aged is %s, it started with %s', g.aged, a.detail)
	FROM gpucredit.attempt_gpu g
		JOIN gpucredit.audit a ON a.org = g.org AND a.job = g.job
			AND a.attempt = g.attempt AND a.operation IN ('place', 'placed')
			AND a.decision = 'start'
			AND gpucredit_internal.in_orgs(a.org, check_history.from_org,
				check_history.to_org)
	WHERE gpucredit_internal.in_orgs(g.org,
		check_history.from_org, check_history.to_org)
		AND g.aged <> (a.detail ? 'aged')
	UNION ALL
	/*
	 * The devices by node, as the audit row of the start names them.  placed()
	 * may name them in any order.
	 */
	SELECT 'devices_are_as_started', t.org,
		format('job %s attempt %s', t.job, t.attempt),
		format('has %s, started on %s', t.nodes, a.detail ->> 'nodes')
	FROM (SELECT g.org, g.job, g.attempt, string_agg(g.node || g.gpus::text,
				' ' ORDER BY g.node) AS nodes
			FROM gpucredit.attempt_gpu g
			WHERE gpucredit_internal.in_orgs(g.org,
				check_history.from_org, check_history.to_org)
			GROUP BY g.org, g.job, g.attempt) t
		JOIN gpucredit.audit a ON a.org = t.org AND a.job = t.job
			AND a.attempt = t.attempt AND a.operation IN ('place', 'placed')
			AND a.decision = 'start'
	WHERE t.nodes <> a.detail ->> 'nodes'
		AND (SELECT array_agg(w ORDER BY w COLLATE "C")
				FROM string_to_table(t.nodes, ' ') w)
			IS DISTINCT FROM (SELECT array_agg(w ORDER BY w COLLATE "C")
				FROM string_to_table(a.detail ->> 'nodes', ' ') w)
		AND gpucredit_internal.in_orgs(a.org,
			check_history.from_org, check_history.to_org)
	UNION ALL
	SELECT 'part_is_as_reported', coalesce(p.org, a.org),
		format('job %s attempt %s node "%s"', coalesce(p.job, a.job),
			coalesce(p.attempt, a.attempt), coalesce(p.node, a.detail ->> 'node')),
		CASE WHEN p.job IS NULL THEN 'it is missing'
			ELSE format('%s, exit code %s, after %s at %s; reported %s at %s with %s',
				p.outcome, coalesce(p.exit_code::text, 'none'),
				coalesce(p.elapsed::text, 'no time'), p.at, a.decision, a.at,
				a.detail) END
	FROM (SELECT * FROM gpucredit.attempt_part p
			WHERE gpucredit_internal.in_orgs(p.org,
				check_history.from_org, check_history.to_org)) p
		FULL JOIN (SELECT * FROM gpucredit.audit a
			WHERE a.operation = 'part_ended' AND a.decision <> 'late'
				AND gpucredit_internal.in_orgs(a.org,
					check_history.from_org, check_history.to_org)) a
			ON a.org = p.org AND a.job = p.job AND a.attempt = p.attempt
				AND a.detail ->> 'node' = p.node
	WHERE p.job IS NULL OR (a.job IS NOT NULL
		AND (p.outcome, p.rank, p.exit_code, p.message, p.log_uri, p.gone,
			extract(epoch FROM p.elapsed) * 1000000, p.at)
			IS DISTINCT FROM (a.decision, (a.detail ->> 'rank')::int,
			(a.detail ->> 'exit_code')::int, a.detail ->> 'message',
			a.detail ->> 'log_uri', a.detail ? 'gone',
			(a.detail ->> 'elapsed_us')::numeric, a.at))
	UNION ALL
	SELECT 'claim_is_as_made', c.org, format('job %s', c.job),
		format('of %s on %s since %s (%s); the audit log says %s',
			coalesce(c.gpu_type, 'no GPUs'), g.nodes, c.made_at, c.why,
			coalesce(a.detail::text, 'nothing'))
	FROM gpucredit.claim c
		LEFT JOIN (SELECT g.pool, g.org, g.job, string_agg(g.node
				|| g.gpus::text, ' ' ORDER BY g.node) AS nodes
			FROM gpucredit.claim_gpu g GROUP BY g.pool, g.org, g.job) g
			ON g.pool = c.pool AND g.org = c.org AND g.job = c.job
		LEFT JOIN gpucredit.audit a ON a.org = c.org AND a.job = c.job
			AND a.operation = 'place' AND a.decision = 'claim'
			AND a.at = c.made_at
			AND gpucredit_internal.in_orgs(a.org, check_history.from_org,
				check_history.to_org)
		CROSS JOIN kept k
	WHERE gpucredit_internal.in_orgs(c.org,
		check_history.from_org, check_history.to_org)
		AND CASE WHEN a.job IS NULL THEN coalesce(c.made_at > k.after, true)
		ELSE (c.why, c.share, g.nodes) IS DISTINCT FROM (a.reason,
			(a.detail ->> 'share')::int, a.detail ->> 'nodes') END
	UNION ALL
	SELECT 'eviction_is_for_a_claim', e.org,
		format('job %s attempt %s', e.job, e.attempt),
		format('of "%s" in pool "%s", leaves for job %s of "%s", which has no claim there',
			e.account, e.pool, e.for_job, e.for_org)
	FROM gpucredit.eviction e
		LEFT JOIN gpucredit.attempt t ON t.org = e.org AND t.job = e.job
			AND t.attempt = e.attempt
			AND gpucredit_internal.in_orgs(t.org, check_history.from_org,
				check_history.to_org)
		LEFT JOIN gpucredit.claim c ON c.pool = e.pool AND c.org = e.for_org
			AND c.job = e.for_job
		/*
		 * A job that has ended has no claim any more; its evictions stay until
		 * the next cycle.
		 */
		LEFT JOIN gpucredit.job f ON f.org = e.for_org AND f.job = e.for_job
			AND f.pool = e.pool AND f.ended_at IS NOT NULL
	WHERE gpucredit_internal.in_orgs(e.org,
		check_history.from_org, check_history.to_org)
		AND (t.account = e.account AND t.pool = e.pool
			AND (c.job IS NOT NULL OR f.job IS NOT NULL)) IS NOT TRUE
	UNION ALL
	/*
	 * Exactly the jobs that were cancelled while they run have a directive
	 * with the cause 'cancel'.
	 */
	SELECT 'cancelled_is_told', j.org, format('job %s', j.job),
		CASE WHEN j.cancelled THEN 'cancelled while it runs; no directive says so'
			ELSE 'told to stop as cancelled, and was not cancelled' END
	FROM gpucredit.job j
		LEFT JOIN gpucredit.directive d ON d.org = j.org AND d.job = j.job
			AND d.attempt = j.attempt AND d.cause = 'cancel'
			AND d.action = 'stop'
	WHERE gpucredit_internal.in_orgs(j.org,
		check_history.from_org, check_history.to_org)
		AND j.state = 'active' AND j.cancelled <> (d.job IS NOT NULL)
	UNION ALL
	/* The end, the number of failures and the backoff. */
	SELECT 'job_is_as_its_last_attempt', j.org, format('job %s', j.job),
		format('%s, ended at %s, not before %s, %s failures; its last attempt left it %s at %s, not before %s',
			j.state, coalesce(j.ended_at::text, 'no time'),
			coalesce(j.not_before::text, 'any time'), j.failures,
			coalesce(t.job_state, 'running'), coalesce(t.ended_at::text, 'no time'),
			coalesce(t.retry_at::text, 'any time'))
	FROM gpucredit.job j
		LEFT JOIN gpucredit.attempt t ON t.org = j.org AND t.job = j.job
			AND t.attempt = j.attempt
			AND gpucredit_internal.in_orgs(t.org, check_history.from_org,
				check_history.to_org)
	WHERE gpucredit_internal.in_orgs(j.org,
		check_history.from_org, check_history.to_org)
		AND (j.failures > j.attempt
			OR (j.state = 'queued' AND j.not_before IS DISTINCT FROM t.retry_at
				/*
				 * Before its first attempt a job may have the begin of its
				 * submission.
				 */
				AND (j.attempt = 0 AND j.options ? 'begin') IS NOT TRUE)
			OR (j.state = 'active' AND j.not_before IS NOT NULL)
			OR (j.state IN ('completed', 'failed', 'timeout')
				AND (j.ended_at IN (t.ended_at, t.late_at)
					AND t.job_state = j.state) IS NOT TRUE))
	UNION ALL
	SELECT 'job_ended_as_audited', j.org, format('job %s', j.job),
		format('%s at %s, when the audit log has nothing of it', j.state,
			j.ended_at)
	FROM gpucredit.job j
		CROSS JOIN kept k
	WHERE gpucredit_internal.in_orgs(j.org,
		check_history.from_org, check_history.to_org)
		AND j.ended_at IS NOT NULL AND coalesce(j.ended_at > k.after, true)
		AND NOT EXISTS (SELECT FROM gpucredit.audit a
			WHERE a.org = j.org AND a.job = j.job AND a.at = j.ended_at
				AND gpucredit_internal.in_orgs(a.org, check_history.from_org,
					check_history.to_org)
				/* A submission, a start or an order to stop ends no job. */
				AND a.operation <> 'reserve'
				AND a.decision NOT IN ('start', 'stopping'))
	UNION ALL
	SELECT 'hold_has_no_end', h.org, format('hold %s', h.hold),
		format('of job %s, lives until %s', h.job, h.expires_at)
	FROM gpucredit.hold h
	WHERE gpucredit_internal.in_orgs(h.org,
		check_history.from_org, check_history.to_org)
		AND h.job IS NOT NULL AND h.expires_at IS NOT NULL
	UNION ALL
	SELECT 'hold_is_closed_as_audited', h.org, format('hold %s', h.hold),
		format('closed at %s, when the audit log has nothing of it',
			h.closed_at)
	FROM (SELECT h.org, h.hold, h.job, h.closed_at FROM gpucredit.hold h
			WHERE gpucredit_internal.in_orgs(h.org, check_history.from_org,
					check_history.to_org)
				AND h.closed_at IS NOT NULL
				AND NOT EXISTS (SELECT FROM gpucredit.audit a
					WHERE a.org = h.org AND a.hold = h.hold
						AND a.at = h.closed_at
						AND a.operation IN ('settle', 'capture', 'release',
							'reap', 'cancel', 'place', 'part_ended', 'requeue')
						AND gpucredit_internal.in_orgs(a.org,
							check_history.from_org, check_history.to_org))
			OFFSET 0) h
		CROSS JOIN kept k
	/*
	 * A job's holds may also be closed by its other decisions, and by a
	 * settlement that then opens a new hold or refunds; that settlement closes
	 * them a moment before its own instant.
	 */
	WHERE NOT EXISTS (SELECT FROM gpucredit.audit a
			WHERE a.org = h.org AND a.job = h.job
				AND h.closed_at IN (a.at,
					(a.detail ->> 'closed_at')::timestamptz)
				AND gpucredit_internal.in_orgs(a.org, check_history.from_org,
					check_history.to_org))
		AND coalesce(h.closed_at > k.after, true)
	UNION ALL
	SELECT 'ended_hold_is_closed', h.org, format('hold %s', h.hold),
		format('ended by %s at %s, and is open', a.operation, a.at)
	FROM gpucredit.audit a
		JOIN gpucredit.hold h ON h.org = a.org AND h.hold = a.hold
	WHERE (a.operation = 'reap' OR (a.operation = 'capture'
			AND NOT a.detail ? 'final'))
		AND h.closed_at IS NULL AND h.job IS NULL
		AND gpucredit_internal.in_orgs(a.org, check_history.from_org,
			check_history.to_org)
		AND gpucredit_internal.in_orgs(h.org, check_history.from_org,
			check_history.to_org)
	UNION ALL
	/* The instants of a hold. */
	SELECT 'hold_is_as_granted', h.org, format('hold %s', h.hold),
		format('account "%s", from %s to %s; granted to account "%s" at %s, to %s',
			h.account, h.created_at, coalesce(h.expires_at::text, 'ever'),
			a.account, a.at, a.ends)
	FROM gpucredit.hold h
		JOIN (SELECT a.org, a.hold, min(a.at) AS at, min(a.account) AS account,
				least(max(extract(epoch FROM a.at)
				+ (a.detail ->> 'ttl_us')::numeric / 1000000),
				extract(epoch FROM '294276-12-31 23:59:59.999999+00'
				::timestamptz)) AS ends,
				bool_or(a.operation = 'hold') AS own,
				bool_or(a.operation IN ('reserve', 'requeue')) AS of_job,
				bool_or(a.detail ? 'leased') AS leased
			FROM gpucredit.audit a
			WHERE ((a.operation IN ('hold', 'extend_hold', 'reserve')
				AND a.decision = 'granted') OR a.operation = 'requeue')
				AND a.hold IS NOT NULL
				AND gpucredit_internal.in_orgs(a.org,
					check_history.from_org, check_history.to_org)
			GROUP BY a.org, a.hold) a ON a.org = h.org AND a.hold = h.hold
	WHERE gpucredit_internal.in_orgs(h.org,
		check_history.from_org, check_history.to_org)
		AND ((a.own AND (h.created_at <> a.at OR h.account <> a.account
				OR h.job IS NOT NULL OR h.leased <> a.leased
				/*
				 * An overrun past a hold's ttl extends it by a moment, in
				 * which it is closed.
				 */
				OR (extract(epoch FROM h.expires_at) = a.ends
					OR h.expires_at = h.closed_at + '1 us') IS NOT TRUE))
			OR (a.of_job AND (h.created_at <> a.at OR h.account <> a.account
				OR h.job IS NULL OR h.leased)))
	UNION ALL
	/*
	 * Rows that agents report.  Usage is removed by age, the others are kept.
	 */
	SELECT 'reports_are_as_made', t.org,
		format('job %s attempt %s', t.job, t.attempt),
		format('its %s rows of table %s are not those that its agent''s reports made',
			d.n, d.name)
	FROM gpucredit.attempt t
		LEFT JOIN (SELECT u.org, u.job, u.attempt, count(*) AS n,
				bit_xor(hash_record_extended(ROW(u.at, u.elapsed,
					u.billed::numeric, u.progress, u.utilization), 0)) AS digest
			FROM gpucredit.usage u
			WHERE gpucredit_internal.in_orgs(u.org,
				check_history.from_org, check_history.to_org)
			GROUP BY u.org, u.job, u.attempt) u
			ON u.org = t.org AND u.job = t.job AND u.attempt = t.attempt
		LEFT JOIN (SELECT c.org, c.job, c.attempt, count(*) AS n,
				bit_xor(hash_record_extended(ROW(c.day, c.elapsed,
					c.billed::numeric), 0)) AS digest
			FROM gpucredit.accrued c
			WHERE gpucredit_internal.in_orgs(c.org,
				check_history.from_org, check_history.to_org)
			GROUP BY c.org, c.job, c.attempt) c
			ON c.org = t.org AND c.job = t.job AND c.attempt = t.attempt
		LEFT JOIN (SELECT p.org, p.job, p.attempt, count(*) AS n,
				bit_xor(hash_record_extended(ROW(p.step, p.uri, p.sha256,
					p.size_bytes, p.at, p.elapsed), 0)) AS digest
			FROM gpucredit.checkpoint p
			WHERE gpucredit_internal.in_orgs(p.org,
				check_history.from_org, check_history.to_org)
			GROUP BY p.org, p.job, p.attempt) p
			ON p.org = t.org AND p.job = t.job AND p.attempt = t.attempt
		CROSS JOIN (SELECT gpucredit_internal.kept_from('usage') AS after) k
		CROSS JOIN LATERAL (VALUES
			('usage', coalesce(u.n, 0), coalesce(u.digest, 0) <> t.usage_digest
				AND coalesce(t.ended_at >= k.after, true)),
			('accrued', coalesce(c.n, 0),
				coalesce(c.digest, 0) <> t.accrued_digest),
			('checkpoint', coalesce(p.n, 0),
				coalesce(p.digest, 0) <> t.checkpoint_digest))
			AS d (name, n, differs)
	WHERE gpucredit_internal.in_orgs(t.org,
		check_history.from_org, check_history.to_org)
		AND d.differs;
END;
COMMENT ON FUNCTION gpucredit_internal.check_history(text, text) IS
'verify: jobs, attempts and holds began and ended as the audit log has it.';
