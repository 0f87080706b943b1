/*
 * 83_numbers.sql: tables in a form for programs.
 *
 * Drivers do not know the type credits: here amounts are numeric.  A reader
 * needs the right to the table, and sees the rows that its policy shows.
 * Internal columns are left out.
 */
CREATE VIEW gpucredit.accounts WITH (security_invoker) AS
	SELECT a.org, a.account, a.weight, a.suspended, a.created_at,
		a.balance_low::numeric AS balance_low
	FROM gpucredit.account a;
COMMENT ON VIEW gpucredit.accounts IS
'Table account, its amounts numeric';
COMMENT ON COLUMN gpucredit.accounts.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit.accounts.created_at IS 'When it was made.';
COMMENT ON COLUMN gpucredit.accounts.account IS 'A path; '''': the organisation itself.';
COMMENT ON COLUMN gpucredit.accounts.weight IS 'In fair share, beside its siblings.';
COMMENT ON COLUMN gpucredit.accounts.suspended IS 'It, and what is below it, may neither hold nor submit.';
COMMENT ON COLUMN gpucredit.accounts.balance_low IS 'Below that an alert is raised; NULL: never.';

CREATE VIEW gpucredit.holds WITH (security_invoker) AS
	SELECT h.org, h.hold, h.account, h.job, h.drawn::numeric AS drawn,
		h.held::numeric AS held, h.captured::numeric AS captured,
		h.refunded::numeric AS refunded, h.released::numeric AS released,
		h.lapsed::numeric AS lapsed, h.uncollected::numeric AS uncollected,
		h.expires_at, h.created_at, h.closed_at, h.trace
	FROM gpucredit.hold h;
COMMENT ON VIEW gpucredit.holds IS
'Table hold, its amounts numeric: drawn = held + captured + refunded + released + lapsed';
COMMENT ON COLUMN gpucredit.holds.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit.holds.hold IS 'The hold''s number.';
COMMENT ON COLUMN gpucredit.holds.created_at IS 'When it was made.';
COMMENT ON COLUMN gpucredit.holds.account IS 'Whose.';
COMMENT ON COLUMN gpucredit.holds.job IS 'NULL: a caller''s own.';
COMMENT ON COLUMN gpucredit.holds.drawn IS 'What was ever set aside.';
COMMENT ON COLUMN gpucredit.holds.held IS 'What is set aside now.';
COMMENT ON COLUMN gpucredit.holds.captured IS 'What was spent, less refunds.';
COMMENT ON COLUMN gpucredit.holds.refunded IS 'What was spent and refunded.';
COMMENT ON COLUMN gpucredit.holds.released IS 'What went back to its buckets unspent.';
COMMENT ON COLUMN gpucredit.holds.lapsed IS 'What would have gone back to a bucket that had expired or was revoked.';
COMMENT ON COLUMN gpucredit.holds.uncollected IS 'Captures that were asked for, and no credit covered.';
COMMENT ON COLUMN gpucredit.holds.expires_at IS 'Of a caller''s own: dead from then on.';
COMMENT ON COLUMN gpucredit.holds.closed_at IS 'NULL: open.';
COMMENT ON COLUMN gpucredit.holds.trace IS 'Of its job, else of who took it.';

CREATE VIEW gpucredit.entries WITH (security_invoker) AS
	SELECT e.org, e.entry, e.at, e.account, e.bucket, e.source, e.target,
		e.amount::numeric AS amount, e.operation, e.hold, e.job, e.attempt,
		e.trace
	FROM gpucredit.entry e;
COMMENT ON VIEW gpucredit.entries IS
'Table entry, its amounts numeric: each moves an amount of one bucket from one compartment to another';
COMMENT ON COLUMN gpucredit.entries.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit.entries.entry IS 'The entry''s number; later ones are higher.';
COMMENT ON COLUMN gpucredit.entries.at IS 'When it was written.';
COMMENT ON COLUMN gpucredit.entries.bucket IS 'The bucket that it is of.';
COMMENT ON COLUMN gpucredit.entries.amount IS 'Credits that moved.';
COMMENT ON COLUMN gpucredit.entries.hold IS 'The hold that it is of; NULL: of none.';
COMMENT ON COLUMN gpucredit.entries.job IS 'The job that it is of; NULL: of none.';
COMMENT ON COLUMN gpucredit.entries.attempt IS 'The attempt that it is of; NULL: of none.';
COMMENT ON COLUMN gpucredit.entries.account IS 'On whose behalf.';
COMMENT ON COLUMN gpucredit.entries.source IS 'The compartment it leaves: issued, available, held, spent, expired, revoked or moved.';
COMMENT ON COLUMN gpucredit.entries.target IS 'The compartment it comes to.';
COMMENT ON COLUMN gpucredit.entries.operation IS 'The function that moved it.';
COMMENT ON COLUMN gpucredit.entries.trace IS 'Of its hold, else of who caused it.';

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
		a.late_elapsed, a.late_uncollected::numeric AS late_uncollected
	FROM gpucredit.attempt a;
COMMENT ON VIEW gpucredit.attempts IS
'Table attempt, its amounts numeric: runs of jobs, and what was settled of them';
COMMENT ON COLUMN gpucredit.attempts.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit.attempts.job IS 'The job''s number.';
COMMENT ON COLUMN gpucredit.attempts.attempt IS 'Which run of the job, from 1.';
COMMENT ON COLUMN gpucredit.attempts.account IS 'A path below the organisation; '''' is the organisation itself.';
COMMENT ON COLUMN gpucredit.attempts.pool IS 'The pool that it runs in.';
COMMENT ON COLUMN gpucredit.attempts.tier IS 'The job''s tier.';
COMMENT ON COLUMN gpucredit.attempts.hold IS 'The hold that pays for it.';
COMMENT ON COLUMN gpucredit.attempts.gpus IS 'How many devices it has.';
COMMENT ON COLUMN gpucredit.attempts.wall_limit IS 'How long it may run; NULL: no limit.';
COMMENT ON COLUMN gpucredit.attempts.started_at IS 'When a cycle started it.';
COMMENT ON COLUMN gpucredit.attempts.ended_at IS 'When it was settled; NULL: it lives.';
COMMENT ON COLUMN gpucredit.attempts.exit_code IS 'Of the job''s program; NULL: not told.';
COMMENT ON COLUMN gpucredit.attempts.message IS 'What was told of the end, as the last lines of the output; NULL: nothing.';
COMMENT ON COLUMN gpucredit.attempts.log_uri IS 'Where the agent keeps the log; NULL: not told.';
COMMENT ON COLUMN gpucredit.attempts.trace IS 'The W3C trace it belongs to; NULL: none.';
COMMENT ON COLUMN gpucredit.attempts.gpu_type IS 'NULL: no GPUs.';
COMMENT ON COLUMN gpucredit.attempts.share IS 'Thousandths of a GPU each.';
COMMENT ON COLUMN gpucredit.attempts.per_gpu_hour IS 'The price it runs at.';
COMMENT ON COLUMN gpucredit.attempts.hold_window IS 'Credit is held for so long at a time; NULL: for the wall limit.';
COMMENT ON COLUMN gpucredit.attempts.running_at IS 'Its first heartbeat.';
COMMENT ON COLUMN gpucredit.attempts.heard_at IS 'Its last heartbeat.';
COMMENT ON COLUMN gpucredit.attempts.elapsed IS 'How long it has run, as its agent says.';
COMMENT ON COLUMN gpucredit.attempts.progress IS 'A growing count, as its agent says.';
COMMENT ON COLUMN gpucredit.attempts.progress_at IS 'When that last grew.';
COMMENT ON COLUMN gpucredit.attempts.utilization IS '0 to 1, as its agent says.';
COMMENT ON COLUMN gpucredit.attempts.held IS 'Credit set aside for it; its bill never passes that.';
COMMENT ON COLUMN gpucredit.attempts.outcome IS 'As settle takes it; NULL: it is not over.';
COMMENT ON COLUMN gpucredit.attempts.billed IS 'What was spent on it.';
COMMENT ON COLUMN gpucredit.attempts.released IS 'What its hold gave back.';
COMMENT ON COLUMN gpucredit.attempts.lapsed IS 'What would have gone back to a bucket that had expired or was revoked.';
COMMENT ON COLUMN gpucredit.attempts.refunded IS 'What the settlement refunded of work that the job must do again.';
COMMENT ON COLUMN gpucredit.attempts.uncollected IS 'What it cost and is not billed.';
COMMENT ON COLUMN gpucredit.attempts.job_state IS 'The job''s, once this was settled.';
COMMENT ON COLUMN gpucredit.attempts.retry_at IS 'When the job may start again.';
COMMENT ON COLUMN gpucredit.attempts.ended_by IS 'Who said so: agent, app or server.';
COMMENT ON COLUMN gpucredit.attempts.late_at IS 'When its agent told of its end, where somebody else had ended it; NULL: it did not.';
COMMENT ON COLUMN gpucredit.attempts.late_elapsed IS 'How much of elapsed that added.';
COMMENT ON COLUMN gpucredit.attempts.late_uncollected IS 'How much of uncollected that added; below 0: it was collected after all.';

CREATE VIEW gpucredit.prices WITH (security_invoker) AS
	SELECT p.gpu_type, p.pool, p.spot, p.effective_at,
		p.per_gpu_hour::numeric AS per_gpu_hour
	FROM gpucredit.price p;
COMMENT ON VIEW gpucredit.prices IS
'Table price, its amounts numeric: the row with the latest effective_at not in the future holds';
COMMENT ON COLUMN gpucredit.prices.gpu_type IS 'The GPU type.';
COMMENT ON COLUMN gpucredit.prices.effective_at IS 'From when on it holds.';
COMMENT ON COLUMN gpucredit.prices.per_gpu_hour IS 'Credits for a device and hour.';
COMMENT ON COLUMN gpucredit.prices.pool IS ''''': every pool without one of its own.';
COMMENT ON COLUMN gpucredit.prices.spot IS 'Of nodes that may be taken away at short notice.';
