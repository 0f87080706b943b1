/*
 * 83_numbers.sql: tables with numeric amounts, for programs.
 *
 * Drivers do not know the type credits, so these views show amounts as
 * numeric.  A reader needs SELECT on the table, and sees the rows that its
 * policy allows.  Internal columns are left out.
 */
CREATE VIEW gpucredit.accounts WITH (security_invoker) AS
	SELECT a.org, a.account, a.weight, a.suspended, a.created_at,
		a.balance_low::numeric AS balance_low
	FROM gpucredit.account a;
COMMENT ON VIEW gpucredit.accounts IS
'Table account, with numeric amounts';
COMMENT ON COLUMN gpucredit.accounts.account IS 'A path; '''': the organisation itself.';
COMMENT ON COLUMN gpucredit.accounts.weight IS 'Its weight among its siblings in fair share.';
COMMENT ON COLUMN gpucredit.accounts.suspended IS 'True: the account and all below it may not hold or submit.';
COMMENT ON COLUMN gpucredit.accounts.balance_low IS 'An alert is raised when fewer credits are available; NULL: never.';

CREATE VIEW gpucredit.holds WITH (security_invoker) AS
	SELECT h.org, h.hold, h.account, h.job, h.drawn::numeric AS drawn,
		h.held::numeric AS held, h.captured::numeric AS captured,
		h.refunded::numeric AS refunded, h.released::numeric AS released,
		h.lapsed::numeric AS lapsed, h.uncollected::numeric AS uncollected,
		h.expires_at, h.created_at, h.closed_at, h.trace
	FROM gpucredit.hold h;
COMMENT ON VIEW gpucredit.holds IS
'Table hold, with numeric amounts: drawn = held + captured + refunded + released + lapsed';
COMMENT ON COLUMN gpucredit.holds.account IS 'The account that owns it.';
COMMENT ON COLUMN gpucredit.holds.job IS 'The job; NULL: a caller''s own hold.';
COMMENT ON COLUMN gpucredit.holds.drawn IS 'All credits ever set aside.';
COMMENT ON COLUMN gpucredit.holds.held IS 'Credits set aside now.';
COMMENT ON COLUMN gpucredit.holds.captured IS 'Credits spent, less refunds.';
COMMENT ON COLUMN gpucredit.holds.released IS 'Credits that returned to their buckets unspent.';
COMMENT ON COLUMN gpucredit.holds.uncollected IS 'Captures that no credit covered.';
COMMENT ON COLUMN gpucredit.holds.expires_at IS 'When a caller''s own hold dies.';
COMMENT ON COLUMN gpucredit.holds.closed_at IS 'When it was closed; NULL: it is open.';
COMMENT ON COLUMN gpucredit.holds.trace IS 'The trace of its job, else of its caller.';

CREATE VIEW gpucredit.entries WITH (security_invoker) AS
	SELECT e.org, e.entry, e.at, e.account, e.bucket, e.source, e.target,
		e.amount::numeric AS amount, e.operation, e.hold, e.job, e.attempt,
		e.trace
	FROM gpucredit.entry e;
COMMENT ON VIEW gpucredit.entries IS
'Table entry, with numeric amounts: each row moves an amount of one bucket from one compartment to another';
COMMENT ON COLUMN gpucredit.entries.entry IS 'The entry''s number; later ones are higher.';
COMMENT ON COLUMN gpucredit.entries.at IS 'When it was written.';
COMMENT ON COLUMN gpucredit.entries.bucket IS 'The bucket.';
COMMENT ON COLUMN gpucredit.entries.amount IS 'Credits that moved.';
COMMENT ON COLUMN gpucredit.entries.hold IS 'The hold; NULL: none.';
COMMENT ON COLUMN gpucredit.entries.job IS 'The job; NULL: none.';
COMMENT ON COLUMN gpucredit.entries.attempt IS 'The attempt; NULL: none.';
COMMENT ON COLUMN gpucredit.entries.account IS 'The account on whose behalf credit moved.';
COMMENT ON COLUMN gpucredit.entries.source IS 'The compartment it leaves: issued, available, held, spent, expired, revoked or moved.';
COMMENT ON COLUMN gpucredit.entries.target IS 'The compartment it comes to.';
COMMENT ON COLUMN gpucredit.entries.operation IS 'The function that moved it.';
COMMENT ON COLUMN gpucredit.entries.trace IS 'The trace of its hold, else of its caller.';

CREATE VIEW gpucredit.attempts WITH (security_invoker) AS
	SELECT a.org, a.job, a.attempt, a.account, a.pool, a.tier, a.hold,
		a.gpu_type, a.gpus, a.share, a.per_gpu_hour::numeric AS per_gpu_hour,
		a.wall_limit, a.hold_window, a.started_at, a.running_at, a.heard_at,
		a.elapsed, a.progress, a.progress_at, a.utilization,
		a.held::numeric AS held, a.ended_at, a.outcome,
		a.billed::numeric AS billed, a.released::numeric AS released,
		a.lapsed::numeric AS lapsed, a.refunded::numeric AS refunded,
		a.uncollected::numeric AS uncollected, a.job_state, a.retry_at,
		a.exit_code, a.message, a.log_uri, a.trace, a.ended_by, a.late_at,
		a.late_elapsed, a.late_uncollected::numeric AS late_uncollected,
		a.billed_share, a.per_hour::numeric AS per_hour, a.overhead, a.energy_j
	FROM gpucredit.attempt a;
COMMENT ON VIEW gpucredit.attempts IS
'Table attempt, with numeric amounts: runs of jobs and their settlements';
COMMENT ON COLUMN gpucredit.attempts.pool IS 'The pool that it runs in.';
COMMENT ON COLUMN gpucredit.attempts.tier IS 'The job''s tier.';
COMMENT ON COLUMN gpucredit.attempts.hold IS 'The hold that pays for it.';
COMMENT ON COLUMN gpucredit.attempts.wall_limit IS 'How long it may run; NULL: no limit.';
COMMENT ON COLUMN gpucredit.attempts.started_at IS 'When a cycle started it.';
COMMENT ON COLUMN gpucredit.attempts.ended_at IS 'When it was settled; NULL: not yet.';
COMMENT ON COLUMN gpucredit.attempts.gpu_type IS 'The type of its GPUs; NULL: none.';
COMMENT ON COLUMN gpucredit.attempts.share IS 'Thousandths of each GPU.';
COMMENT ON COLUMN gpucredit.attempts.per_gpu_hour IS 'Its price, in credits per GPU and hour.';
COMMENT ON COLUMN gpucredit.attempts.running_at IS 'Its first heartbeat.';
COMMENT ON COLUMN gpucredit.attempts.elapsed IS 'How long it has had its devices: how long it has run, as its agent reported, and overhead.';
COMMENT ON COLUMN gpucredit.attempts.overhead IS 'How long its devices were taken while its processes did not run.';
COMMENT ON COLUMN gpucredit.attempts.billed_share IS 'Thousandths of each GPU that are billed: share, or what its memory floor keeps from others if that is more.';
COMMENT ON COLUMN gpucredit.attempts.per_hour IS 'What an hour costs: per_gpu_hour x gpus x billed_share, and cpu and memory, rounded up.';
COMMENT ON COLUMN gpucredit.attempts.progress IS 'A growing count, as its agent reported it.';
COMMENT ON COLUMN gpucredit.attempts.progress_at IS 'When progress last grew.';
COMMENT ON COLUMN gpucredit.attempts.utilization IS 'How busy its devices are, 0 to 1, as its agent reported.';
COMMENT ON COLUMN gpucredit.attempts.held IS 'Credits set aside for it; its bill never exceeds them.';
COMMENT ON COLUMN gpucredit.attempts.outcome IS 'The outcome, as settle takes it; NULL: not settled.';
COMMENT ON COLUMN gpucredit.attempts.billed IS 'Credits that it was billed.';
COMMENT ON COLUMN gpucredit.attempts.released IS 'Credits of its hold that returned unspent.';
COMMENT ON COLUMN gpucredit.attempts.refunded IS 'Credits that the settlement refunded for lost work.';
COMMENT ON COLUMN gpucredit.attempts.uncollected IS 'What it cost and was not billed.';
COMMENT ON COLUMN gpucredit.attempts.job_state IS 'The job''s state after the settlement.';
COMMENT ON COLUMN gpucredit.attempts.retry_at IS 'When the job may start again.';
COMMENT ON COLUMN gpucredit.attempts.ended_by IS 'Who ended it: agent, admin, app or server.';
COMMENT ON COLUMN gpucredit.attempts.energy_j IS 'The joules that its devices used, as the agents of its nodes reported; NULL: none reported any.';
COMMENT ON COLUMN gpucredit.attempts.late_at IS 'When a late report of its agent changed its settlement; NULL: none did.';
COMMENT ON COLUMN gpucredit.attempts.late_elapsed IS 'How much run time the late report added.';
COMMENT ON COLUMN gpucredit.attempts.late_uncollected IS 'Credits that the late report added to uncollected; below 0: they were collected after all.';

CREATE VIEW gpucredit.prices WITH (security_invoker) AS
	SELECT p.gpu_type, p.pool, p.spot, p.effective_at,
		p.per_gpu_hour::numeric AS per_gpu_hour, p.revision, p.recorded_at
	FROM gpucredit.price p;
COMMENT ON VIEW gpucredit.prices IS
'Table price, with numeric amounts: of the rows whose effective_at is not in the future, the latest applies, and of several with the same effective_at the highest revision';
COMMENT ON COLUMN gpucredit.prices.effective_at IS 'It applies from this instant.';
COMMENT ON COLUMN gpucredit.prices.per_gpu_hour IS 'Credits per device and hour.';
COMMENT ON COLUMN gpucredit.prices.pool IS 'The pool; '''': every pool without a price of its own.';
COMMENT ON COLUMN gpucredit.prices.spot IS 'True: of spot nodes.';
COMMENT ON COLUMN gpucredit.prices.revision IS '0, or how often the price for this instant was set anew before.';
COMMENT ON COLUMN gpucredit.prices.recorded_at IS 'When it was set.';
