/*
 * 89_plain_views.sql: the schema gpucredit_views, for tools that reflect a
 * schema, such as SQLAlchemy, Drizzle, PostGraphile and Metabase.
 *
 * Such a tool makes a class of each table and view that it finds.  It does not
 * know the types credits, gpureq and gpuset, and it takes the table "account"
 * and the view "accounts" for the same class.  This schema has views alone,
 * each named by a plural, with columns of PostgreSQL's own types alone.
 *
 * A view of this schema acts with the rights of its reader, so a reader needs
 * SELECT on what the view reads, and row-level security and the bindings of
 * tenants hold as they do there.  The one column whose instant may be infinite
 * has NULL in its place, because many drivers have no value for it.  Columns
 * without a comment of their own have that of the same column where the view
 * reads it (98_columns.sql).
 */
CREATE SCHEMA gpucredit_views;
COMMENT ON SCHEMA gpucredit_views IS
'Views of gpucredit for tools that reflect a schema: types of PostgreSQL alone, and names that do not collide';

CREATE VIEW gpucredit_views.accounts WITH (security_invoker) AS
	SELECT a.org, a.account, a.weight, a.suspended, a.created_at, a.balance_low
	FROM gpucredit.accounts a;
COMMENT ON VIEW gpucredit_views.accounts IS
'Organisations (account ''''), projects and users, as paths. Key: org, account';

CREATE VIEW gpucredit_views.balances WITH (security_invoker) AS
	SELECT a.org, a.account, b.available, b.spendable, b.held, b.used, b.spent,
		b.promo, b.granted, b.paid, b.next_expiry_at, b.next_expiry_amount
	FROM gpucredit.account a
		CROSS JOIN LATERAL gpucredit.balance(a.org, a.account) AS b;
COMMENT ON VIEW gpucredit_views.balances IS
'What each account may spend now, as balance() answers it. Each row is one call: choose accounts by org and account where there are many. Key: org, account';
COMMENT ON COLUMN gpucredit_views.balances.available IS 'Credits in active buckets of the account and its ancestors.';
COMMENT ON COLUMN gpucredit_views.balances.spendable IS 'Credits of available that the tightest hard budget on the path leaves.';
COMMENT ON COLUMN gpucredit_views.balances.held IS 'Credits held by the account and all below it.';
COMMENT ON COLUMN gpucredit_views.balances.used IS 'Credits of held that running jobs have used.';
COMMENT ON COLUMN gpucredit_views.balances.spent IS 'Credits settled, less refunds.';
COMMENT ON COLUMN gpucredit_views.balances.promo IS 'Credits of available in promotional buckets.';
COMMENT ON COLUMN gpucredit_views.balances.granted IS 'Credits of available in granted buckets.';
COMMENT ON COLUMN gpucredit_views.balances.paid IS 'Credits of available in paid buckets.';
COMMENT ON COLUMN gpucredit_views.balances.next_expiry_at IS 'When the next of the available credits expire; NULL: none does.';
COMMENT ON COLUMN gpucredit_views.balances.next_expiry_amount IS 'Credits that expire then; NULL: none do.';

CREATE VIEW gpucredit_views.entries WITH (security_invoker) AS
	SELECT e.org, e.entry, e.at, e.account, e.bucket, e.source, e.target,
		e.amount, e.operation, e.hold, e.job, e.attempt, e.trace
	FROM gpucredit.entries e;
COMMENT ON VIEW gpucredit_views.entries IS
'Entries of the ledger: each row moves an amount of one bucket from one compartment to another. Key: org, entry';

CREATE VIEW gpucredit_views.holds WITH (security_invoker) AS
	SELECT h.org, h.hold, h.account, h.job, h.drawn, h.held, h.captured,
		h.refunded, h.released, h.lapsed, h.uncollected, h.expires_at,
		h.created_at, h.closed_at, h.trace
	FROM gpucredit.holds h;
COMMENT ON VIEW gpucredit_views.holds IS
'Credits set aside: drawn = held + captured + refunded + released + lapsed. Key: org, hold';

CREATE VIEW gpucredit_views.jobs WITH (security_invoker) AS
	SELECT j.org, j.job, j.account, j.pool, j.tier, j.request, j.state,
		j.attempt, j.failures, j.gpu_type, j.gpus, j.share, j.elapsed, j.held,
		j.used, j.submitted_at, j.not_before, j.started_at, j.ended_at,
		j.trace::uuid AS trace, j.progress, j.utilization, j.log, j.name, j.array_key, j.task, j.at_most,
		j.after, j.held_by, j.deadline, j.labels, j.wall_limit, j.per_gpu_hour,
		j.outcome, j.exit_code, j.message, j.billed, j.nodes, j.energy_j
	FROM gpucredit.jobs j;
COMMENT ON VIEW gpucredit_views.jobs IS
'Jobs: their requests, states and last attempts. Key: org, job';

CREATE VIEW gpucredit_views.attempts WITH (security_invoker) AS
	SELECT a.org, a.job, a.attempt, a.account, a.pool, a.tier, a.hold,
		a.gpu_type, a.gpus, a.share, a.per_gpu_hour, a.wall_limit,
		a.hold_window, a.started_at, a.running_at, a.heard_at, a.elapsed,
		a.progress, a.progress_at, a.utilization, a.held, a.ended_at, a.outcome,
		a.billed, a.released, a.lapsed, a.refunded, a.uncollected, a.job_state,
		a.retry_at, a.exit_code, a.message, a.log_uri, a.trace, a.ended_by,
		a.late_at, a.late_elapsed, a.late_uncollected, a.billed_share,
		a.per_hour, a.overhead, a.energy_j
	FROM gpucredit.attempts a;
COMMENT ON VIEW gpucredit_views.attempts IS
'Runs of jobs and their settlements. Key: org, job, attempt';

CREATE VIEW gpucredit_views.events WITH (security_invoker) AS
	SELECT e.org, e.event, e.at, e.kind, e.account, e.job, e.attempt,
		e.decision, e.reason, e.detail
	FROM gpucredit.event e;
COMMENT ON VIEW gpucredit_views.events IS
'The feed of what happened. A row appears after all rows with lower numbers: who has read up to a number has missed nothing. Key: event';

CREATE VIEW gpucredit_views.alerts WITH (security_invoker) AS
	SELECT a.org, a.alert, a.at, a.account, a.kind, a.period,
		CASE WHEN isfinite(a.period_start) THEN a.period_start END
			AS period_start,
		a.threshold, a.detail, a.bucket, a.recovered_at
	FROM gpucredit.alert a;
COMMENT ON VIEW gpucredit_views.alerts IS
'What an account''s owner should know. Key: org, alert';
COMMENT ON COLUMN gpucredit_views.alerts.period_start IS 'When the period began; NULL where it is none.';

CREATE VIEW gpucredit_views.prices WITH (security_invoker) AS
	SELECT p.gpu_type, p.pool, p.spot, p.effective_at, p.per_gpu_hour,
		p.revision, p.recorded_at
	FROM gpucredit.prices p;
COMMENT ON VIEW gpucredit_views.prices IS
'Prices: of the rows whose effective_at is not in the future, the latest applies, and of several with the same effective_at the highest revision. Key: gpu_type, pool, spot, effective_at, revision';

CREATE VIEW gpucredit_views.tiers WITH (security_invoker) AS
	SELECT t.tier, t.rank, t.can_preempt, t.preemptible, t.max_wait, t.max_wall,
		t.min_run, t.grace, t.ages_to, t.price_factor, t.open, t.bill_lost_work
	FROM gpucredit.tier t;
COMMENT ON VIEW gpucredit_views.tiers IS
'The tiers in force; low rank goes first. Key: tier';

CREATE VIEW gpucredit_views.pools WITH (security_invoker) AS
	SELECT p.pool, p.policy, p.created_at
	FROM gpucredit.pool p;
COMMENT ON VIEW gpucredit_views.pools IS
'Sets of nodes scheduled together. Key: pool';

CREATE VIEW gpucredit_views.nodes WITH (security_invoker) AS
	SELECT n.node, n.pool, n.gpu_type, n.gpus, n.healthy::text AS healthy,
		n.spot, n.state, n.reason, n.deadline, n.heard_at, n.takes_work,
		n.containment, n.pulling, n.nvlink_domain, n.leaf, n.spine,
		n.nvlink_mbps, n.leaf_mbps, n.spine_mbps, n.discovered,
		array_to_string(n.registered, ' ') AS registered, n.out_of_service
	FROM gpucredit.nodes n;
COMMENT ON VIEW gpucredit_views.nodes IS
'Machines with their devices, and their present states. Key: node';
