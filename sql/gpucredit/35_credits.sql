/* 35_credits.sql: revoking, transferring, refunding and expiring credit. */

/*
 * Only sweeps use these indexes.  Their columns swept_at and closed_at change
 * once in a bucket's life, so other updates of the bucket stay HOT.
 */
CREATE INDEX bucket_due ON gpucredit.bucket (expires_at, org, bucket)
	WHERE expires_at IS NOT NULL AND closed_at IS NULL AND swept_at IS NULL;
/* Finds the holds of a job; each attempt has one. */
CREATE INDEX hold_job ON gpucredit.hold (org, job) WHERE job IS NOT NULL;

CREATE TYPE gpucredit.revoke_result AS (revoked numeric, replayed boolean);
COMMENT ON TYPE gpucredit.revoke_result IS
'What revoke() took from a bucket.';
CREATE TYPE gpucredit.transfer_result AS (moved numeric, status text,
	reason text, replayed boolean);
COMMENT ON TYPE gpucredit.transfer_result IS
'What transfer() moved, or why it was denied.';
CREATE TYPE gpucredit.refund_result AS (refunded numeric, lapsed numeric,
	replayed boolean);
COMMENT ON TYPE gpucredit.refund_result IS
'What was refunded, and how much lapsed.';
CREATE TYPE gpucredit.expire_credits_result AS (task text, affected bigint);
COMMENT ON TYPE gpucredit.expire_credits_result IS
'What expire_credits() did, and to how many buckets.';

/*
 * What accounts have used and no credit covered, less what was collected later
 * (owed), and what was written off.  An account without either has no row.
 */
CREATE TABLE gpucredit.uncollected (
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	owed gpucredit.credits NOT NULL,
	written_off gpucredit.credits NOT NULL DEFAULT '0',
	since timestamptz NOT NULL,
	CONSTRAINT uncollected_pkey PRIMARY KEY (org, account)
) WITH (fillfactor = 70);
COMMENT ON TABLE gpucredit.uncollected IS
'What accounts owe for use that no credit covered, less what was written off';
COMMENT ON COLUMN gpucredit.uncollected.account IS 'The account whose use it was.';
COMMENT ON COLUMN gpucredit.uncollected.owed IS 'Credits that it owes.';
COMMENT ON COLUMN gpucredit.uncollected.written_off IS 'Credits that write_off forgave.';
COMMENT ON COLUMN gpucredit.uncollected.since IS 'When the oldest part of it became due.';

SELECT pg_catalog.pg_extension_config_dump('gpucredit.uncollected', '');

CREATE TYPE gpucredit.write_off_result AS (written_off numeric, owed numeric,
	replayed boolean);
COMMENT ON TYPE gpucredit.write_off_result IS
'What write_off() forgave, and what the account still owes.';

CREATE FUNCTION gpucredit.write_off(org text, account text, key text,
	reason text, amount numeric DEFAULT NULL)
RETURNS gpucredit.write_off_result
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_write_off';
COMMENT ON FUNCTION gpucredit.write_off(text, text, text, text, numeric) IS
'Credit: forgives what an account''s use cost and no credit covered (table uncollected). Until then its organisation holds no more credit than it has beyond that debt, if the debt is above gpucredit.uncollected_max. No credit moves; the bills of attempts and holds stay as they are.
account: exactly this account, not those below it. reason: text for the audit log. amount: credits, above 0; NULL for all that it owes.
Result: written_off and what the account still owes, in credits.
Errors: UC001 no such account; UC201 key used with other arguments; 22003; 22023, also more than it owes.';

CREATE FUNCTION gpucredit.revoke(org text, bucket bigint, key text,
	reason text) RETURNS gpucredit.revoke_result
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_revoke';
COMMENT ON FUNCTION gpucredit.revoke(text, bigint, text, text) IS
'Credit: revokes the available credit of a bucket and closes it. Held credit stays good; credit that returns later is revoked too.
reason: text for the audit log.
Result: revoked, in credits; 0 if the bucket was empty, expired or already revoked.
Errors: UC002 no such bucket; UC201 key used with other arguments; 22023.';

CREATE FUNCTION gpucredit.transfer(org text, from_account text,
	to_account text, key text, amount numeric)
RETURNS gpucredit.transfer_result
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_transfer';
COMMENT ON FUNCTION gpucredit.transfer(text, text, text, text, numeric) IS
'Credit: moves available credit from an account''s own buckets to another account, in burn order. Buckets of ancestors are not touched. The other account gets a bucket like each one drawn from: the same kind, priority, span, policy and memo.
amount: credits, above 0; moved whole or not at all.
Result: status granted, or denied with reason insufficient_credits or account_suspended (moved 0). Credit may enter a suspended account, but not leave it.
Errors: UC001 no such account; UC201 key used with other arguments; 22003; 22023, also if both accounts are the same.';

CREATE FUNCTION gpucredit_internal.allocate(org text, from_account text,
	to_account text, key text, amount numeric)
RETURNS gpucredit.transfer_result
LANGUAGE c VOLATILE
AS 'MODULE_PATHNAME', 'gpucredit_allocate';
COMMENT ON FUNCTION gpucredit_internal.allocate(text, text, text, text, numeric) IS
'Internal, for companion extensions: transfer() for a caller who may be a tenant, if it is bound to from_account. The extension has to have found that the caller may approve it.';

CREATE FUNCTION gpucredit.refund(org text, job bigint, key text,
	amount numeric, reason text) RETURNS gpucredit.refund_result
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_refund';
COMMENT ON FUNCTION gpucredit.refund(text, bigint, text, numeric, text) IS
'Credit: returns credit that a job has spent to the buckets it came from, last spent first. The job may be waiting, running or over.
amount: credits, above 0, at most what was spent less earlier refunds. reason: text for the audit log.
Result: refunded + lapsed = amount; lapsed is the credit of buckets that had expired or were revoked.
Errors: UC301 no such job; UC201 key used with other arguments; 22003; 22023 more than was spent.';

CREATE FUNCTION gpucredit.refund_hold(org text, hold bigint, key text,
	amount numeric, reason text) RETURNS gpucredit.refund_result
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_refund_hold';
COMMENT ON FUNCTION gpucredit.refund_hold(text, bigint, text, numeric,
	text) IS
'Credit: returns credit that a caller''s own hold has captured to the buckets it came from, as refund does. The hold may be open or closed.
Result: refunded + lapsed = amount.
Errors: UC003 no such hold, or a job''s; UC201 key used with other arguments; 22003; 22023 more than was captured.';

CREATE FUNCTION gpucredit.expire_credits()
RETURNS gpucredit.expire_credits_result
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_expire_credits';
COMMENT ON FUNCTION gpucredit.expire_credits() IS
'Upkeep: books the unused credit of expired buckets. No balance changes, and the call waits for nobody. It works for gpucredit.upkeep_time, on 10,000 buckets at most; call again until affected is 0.
Result: how many buckets it booked.';
