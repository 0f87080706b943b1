/*
 * 45_slices.sql: the money of a busy account, over many rows.
 *
 * A call that draws from a bucket, or counts in a budget, keeps that row until
 * it commits, so one row carries one commit at a time.  If an account's
 * buckets and budgets are spread over slices, a hold draws from one slice, and
 * concurrent holds draw from others.
 *
 * A bucket (a budget's counter) is its own row and its slices: each figure is
 * the sum over all of them.  A slice may give away its available credit, which
 * is never negative.  Its other figures are changes not yet added to the
 * bucket's row, of either sign, as a hold drawn in one slice may be settled in
 * another.  A budget's slice may take up to "most" without asking the others.
 * Slices come with the first hold that finds enough to share, and go when
 * there is too little (src/ledger/slice.h).
 *
 * Only src/ledger/post.c writes bucket_slice.
 */
CREATE TABLE gpucredit.bucket_slice (
	org text COLLATE "C" NOT NULL,
	bucket bigint NOT NULL,
	slice int NOT NULL,			/* from 1 */
	lent gpucredit.credits NOT NULL,
	available gpucredit.credits NOT NULL,
	held gpucredit.credits NOT NULL DEFAULT '0',
	spent gpucredit.credits NOT NULL DEFAULT '0',
	expired gpucredit.credits NOT NULL DEFAULT '0',
	CONSTRAINT bucket_slice_pkey PRIMARY KEY (org, bucket, slice),
	CONSTRAINT bucket_slice_sound CHECK (gpucredit_internal.slice_is_sound(lent,
		available, held, spent, expired))
) WITH (fillfactor = 10);		/* few rows, each updated all the time */
COMMENT ON TABLE gpucredit.bucket_slice IS
'Part of the figures of a bucket that is spread over slices: to be added to those of its own row';
COMMENT ON COLUMN gpucredit.bucket_slice.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit.bucket_slice.bucket IS 'The bucket''s number.';
COMMENT ON COLUMN gpucredit.bucket_slice.slice IS 'From 1.';
COMMENT ON COLUMN gpucredit.bucket_slice.lent IS 'Credits that it was given.';
COMMENT ON COLUMN gpucredit.bucket_slice.available IS 'Credits that may be held.';
COMMENT ON COLUMN gpucredit.bucket_slice.held IS 'Credits that holds have set aside.';
COMMENT ON COLUMN gpucredit.bucket_slice.spent IS 'Credits spent, less refunds.';
COMMENT ON COLUMN gpucredit.bucket_slice.expired IS 'Credits left unused at its end.';

CREATE TABLE gpucredit.budget_slice (
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	period text NOT NULL,
	period_start timestamptz NOT NULL,
	slice int NOT NULL,			/* from 1 */
	reserved gpucredit.credits NOT NULL DEFAULT '0',
	spent gpucredit.credits NOT NULL DEFAULT '0',
	most gpucredit.credits NOT NULL,	/* reserved + spent may come to */
	CONSTRAINT budget_slice_pkey
		PRIMARY KEY (org, account, period, period_start, slice)
) WITH (fillfactor = 10);
COMMENT ON TABLE gpucredit.budget_slice IS
'Part of the figures of a budget''s counter that is spread over slices: to be added to those of its own row';
COMMENT ON COLUMN gpucredit.budget_slice.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit.budget_slice.account IS 'A path below the organisation; '''' is the organisation itself.';
COMMENT ON COLUMN gpucredit.budget_slice.period IS 'none, day, week, month, quarter or year (UTC).';
COMMENT ON COLUMN gpucredit.budget_slice.period_start IS 'When the period began; -infinity where it is none.';
COMMENT ON COLUMN gpucredit.budget_slice.slice IS 'From 1.';
COMMENT ON COLUMN gpucredit.budget_slice.reserved IS 'Credits that open holds count here.';
COMMENT ON COLUMN gpucredit.budget_slice.spent IS 'Credits spent in the period, less refunds.';
COMMENT ON COLUMN gpucredit.budget_slice.most IS 'Credits that reserved and spent together may come to.';

/* few rows, and a sweep folds them first */
CREATE INDEX bucket_spread ON gpucredit.bucket (expires_at)
	WHERE spread > 0;

SELECT pg_catalog.pg_extension_config_dump('gpucredit.bucket_slice', '');
SELECT pg_catalog.pg_extension_config_dump('gpucredit.budget_slice', '');

/* Buckets and counters with all that is theirs, slices included. */
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
'Buckets with what their slices have';
COMMENT ON COLUMN gpucredit.bucket_whole.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit.bucket_whole.bucket IS 'The bucket''s number.';
COMMENT ON COLUMN gpucredit.bucket_whole.account IS 'Whose it is; '''' is the organisation itself.';
COMMENT ON COLUMN gpucredit.bucket_whole.kind IS 'promo, grant or paid.';
COMMENT ON COLUMN gpucredit.bucket_whole.priority IS 'Low is spent first.';
COMMENT ON COLUMN gpucredit.bucket_whole.effective_at IS 'From when on it pays.';
COMMENT ON COLUMN gpucredit.bucket_whole.expires_at IS 'It pays until then; NULL: for ever.';
COMMENT ON COLUMN gpucredit.bucket_whole.closed_at IS 'When it was revoked; NULL: it was not.';
COMMENT ON COLUMN gpucredit.bucket_whole.policy IS 'What it pays for, as it was given.';
COMMENT ON COLUMN gpucredit.bucket_whole.issued IS 'Credits that were ever issued into it.';
COMMENT ON COLUMN gpucredit.bucket_whole.available IS 'Credits that may be held.';
COMMENT ON COLUMN gpucredit.bucket_whole.held IS 'Credits that holds have set aside.';
COMMENT ON COLUMN gpucredit.bucket_whole.spent IS 'Credits spent, less refunds.';
COMMENT ON COLUMN gpucredit.bucket_whole.expired IS 'Credits left unused at its end.';
COMMENT ON COLUMN gpucredit.bucket_whole.revoked IS 'Credits that were taken back.';
COMMENT ON COLUMN gpucredit.bucket_whole.moved IS 'Credits that went to another bucket.';
COMMENT ON COLUMN gpucredit.bucket_whole.lent IS 'Credits that its slices were given, by the bucket.';
COMMENT ON COLUMN gpucredit.bucket_whole.in_slices IS 'Credits that its slices were given, by the slices.';

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
'Counters of budgets with what their slices have';
COMMENT ON COLUMN gpucredit.budget_counter_whole.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit.budget_counter_whole.account IS 'A path below the organisation; '''' is the organisation itself.';
COMMENT ON COLUMN gpucredit.budget_counter_whole.period IS 'none, day, week, month, quarter or year (UTC).';
COMMENT ON COLUMN gpucredit.budget_counter_whole.period_start IS 'When the period began; -infinity where it is none.';
COMMENT ON COLUMN gpucredit.budget_counter_whole.reserved IS 'Credits that open holds count here.';
COMMENT ON COLUMN gpucredit.budget_counter_whole.spent IS 'Credits spent in the period, less refunds.';

CREATE FUNCTION gpucredit.set_slices(org text, account text, n int)
RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_set_slices';
COMMENT ON FUNCTION gpucredit.set_slices(text, text, int) IS
'Setup: spreads an account''s buckets and the counters of its budgets over slices, so that many calls for it at once do not queue for one row; 1 puts them together again. No figure changes, nor what is granted. Worth it where calls wait for each other''s commits.
account: the one whose buckets and budgets these are, '''' for the organisation; accounts below it have their own. n: 1 to 64, about as many as calls at once.
Errors: UC001 no such account; UC202 rate limited; 22023.';
