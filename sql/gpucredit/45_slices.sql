/*
 * 45_slices.sql: the money of a busy account, spread over rows.
 *
 * A call that draws from a bucket, or counts in a budget, locks that row until
 * it commits.  So one row allows one commit at a time.  If buckets and budgets
 * are spread over slices, concurrent holds draw from different slices.
 *
 * A bucket (or a budget's counter) is its own row and its slices: each figure
 * is the sum over all of them.  A slice's available credit is never negative.
 * Its other figures are changes not yet added to the bucket's row.  They may
 * have either sign, because a hold drawn in one slice may be settled in
 * another.  A budget's slice may count up to "most" without looking at the
 * others. The first hold that finds enough to share makes the slices, and they
 * are dropped when too little is left (src/ledger/slice.h).
 */
CREATE TABLE gpucredit.bucket_slice (
	org text COLLATE "C" NOT NULL,
	bucket bigint NOT NULL,
	slice int NOT NULL,			/* numbered from 1 */
	lent gpucredit.credits NOT NULL,
	available gpucredit.credits NOT NULL,
	held gpucredit.credits NOT NULL DEFAULT '0',
	spent gpucredit.credits NOT NULL DEFAULT '0',
	expired gpucredit.credits NOT NULL DEFAULT '0',
	CONSTRAINT bucket_slice_pkey PRIMARY KEY (org, bucket, slice),
	CONSTRAINT bucket_slice_sound CHECK (gpucredit_internal.slice_is_sound(lent,
		available, held, spent, expired))
) WITH (fillfactor = 10);		/* few rows, each updated very often */
COMMENT ON TABLE gpucredit.bucket_slice IS
'Slices of spread buckets: their figures add to those of the bucket''s row';
COMMENT ON COLUMN gpucredit.bucket_slice.slice IS 'The slice''s number, from 1.';
COMMENT ON COLUMN gpucredit.bucket_slice.lent IS 'Credits lent to it.';

CREATE TABLE gpucredit.budget_slice (
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	period text NOT NULL,
	period_start timestamptz NOT NULL,
	slice int NOT NULL,			/* numbered from 1 */
	reserved gpucredit.credits NOT NULL DEFAULT '0',
	spent gpucredit.credits NOT NULL DEFAULT '0',
	most gpucredit.credits NOT NULL,	/* upper limit of reserved + spent */
	CONSTRAINT budget_slice_pkey
		PRIMARY KEY (org, account, period, period_start, slice)
) WITH (fillfactor = 10);
COMMENT ON TABLE gpucredit.budget_slice IS
'Slices of spread budget counters: their figures add to those of the counter''s row';
COMMENT ON COLUMN gpucredit.budget_slice.slice IS 'The slice''s number, from 1.';
COMMENT ON COLUMN gpucredit.budget_slice.spent IS 'Credits spent in the period, less refunds.';
COMMENT ON COLUMN gpucredit.budget_slice.most IS 'The most that reserved and spent may come to together.';

/*
 * There are few such buckets.  A sweep that expires credit folds their slices
 * first.
 */
CREATE INDEX bucket_spread ON gpucredit.bucket (expires_at)
	WHERE spread > 0;

SELECT pg_catalog.pg_extension_config_dump('gpucredit.bucket_slice', '');
SELECT pg_catalog.pg_extension_config_dump('gpucredit.budget_slice', '');

/* Buckets and budget counters with the figures of their slices added. */
CREATE VIEW gpucredit.bucket_whole AS
	SELECT b.org, b.bucket, b.account, b.kind, b.priority, b.effective_at,
		b.expires_at, b.closed_at, b.policy, b.issued,
		b.available + s.available AS available, b.held + s.held AS held,
		b.spent + s.spent AS spent, b.expired + s.expired AS expired,
		b.revoked, b.moved, b.lent, s.lent AS in_slices
	FROM gpucredit.bucket b
		CROSS JOIN LATERAL (SELECT coalesce(sum(s.lent), '0') AS lent,
			coalesce(sum(s.available), '0') AS available,
			coalesce(sum(s.held), '0') AS held,
			coalesce(sum(s.spent), '0') AS spent,
			coalesce(sum(s.expired), '0') AS expired
		FROM gpucredit.bucket_slice s
		WHERE b.spread > 0 AND s.org = b.org AND s.bucket = b.bucket) s;
COMMENT ON VIEW gpucredit.bucket_whole IS
'Buckets, with the figures of their slices added';
COMMENT ON COLUMN gpucredit.bucket_whole.account IS 'The account that owns it; '''' is the organisation itself.';
COMMENT ON COLUMN gpucredit.bucket_whole.kind IS 'promo, grant or paid.';
COMMENT ON COLUMN gpucredit.bucket_whole.priority IS 'Low is spent first.';
COMMENT ON COLUMN gpucredit.bucket_whole.effective_at IS 'It pays from this instant.';
COMMENT ON COLUMN gpucredit.bucket_whole.expires_at IS 'It pays until this instant; NULL: it never expires.';
COMMENT ON COLUMN gpucredit.bucket_whole.closed_at IS 'When it was revoked; NULL: it was not.';
COMMENT ON COLUMN gpucredit.bucket_whole.policy IS 'What it pays for, as issue received it.';
COMMENT ON COLUMN gpucredit.bucket_whole.issued IS 'Credits that were ever issued into it.';
COMMENT ON COLUMN gpucredit.bucket_whole.revoked IS 'Credits that were taken back.';
COMMENT ON COLUMN gpucredit.bucket_whole.moved IS 'Credits that went to another bucket.';
COMMENT ON COLUMN gpucredit.bucket_whole.lent IS 'Credits lent to its slices, as the bucket''s row says.';
COMMENT ON COLUMN gpucredit.bucket_whole.in_slices IS 'Credits lent to its slices, as the slices'' rows say.';

CREATE VIEW gpucredit.budget_counter_whole AS
	SELECT c.org, c.account, c.period, c.period_start,
		c.reserved + s.reserved AS reserved, c.spent + s.spent AS spent
	FROM gpucredit.budget_counter c
		CROSS JOIN LATERAL (SELECT
			coalesce(sum(s.reserved), '0') AS reserved,
			coalesce(sum(s.spent), '0') AS spent
		FROM gpucredit.budget_slice s
		WHERE c.spread > 0 AND s.org = c.org AND s.account = c.account
			AND s.period = c.period AND s.period_start = c.period_start) s;
COMMENT ON VIEW gpucredit.budget_counter_whole IS
'Budget counters, with the figures of their slices added';
COMMENT ON COLUMN gpucredit.budget_counter_whole.spent IS 'Credits spent in the period, less refunds.';

CREATE FUNCTION gpucredit.set_slices(org text, account text, n int)
RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_set_slices';
COMMENT ON FUNCTION gpucredit.set_slices(text, text, int) IS
'Setup: spreads an account''s buckets and budget counters over slices, so that many simultaneous calls do not queue for one row. No figure changes, nor what is granted. Use it where calls wait for each other''s commits.
account: the owner of the buckets and budgets, '''' for the organisation; accounts below it have slices of their own. n: 1 to 64, about as many as simultaneous calls; 1 puts all slices together again.
Errors: UC001 no such account; 22023.';
