/*
 * 62_payment.sql: payments that a payment provider has collected, and the
 * credit for them.
 *
 * A provider may report a payment many times, late, and in any order, for
 * example a refund before the payment itself. A payment keeps its row forever,
 * so it is credited once, however late a report is repeated; idempotency keys
 * are only kept for a week.
 *
 * Lock order: the payment's row, then as gpucredit.issue() or revoke().
 */
CREATE TABLE gpucredit_billing.payment (
	payment text COLLATE "C" NOT NULL,
	number bigint GENERATED ALWAYS AS IDENTITY,
	org text COLLATE "C",
	account text COLLATE "C",
	credits numeric,
	bucket bigint,
	booked_at timestamptz,
	refunded_at timestamptz,
	reason text,
	revoked numeric,
	CONSTRAINT payment_pkey PRIMARY KEY (payment),
	CONSTRAINT payment_name CHECK (octet_length(payment) BETWEEN 1 AND 255),
	CONSTRAINT payment_booked CHECK ((booked_at IS NOT NULL) = (org IS NOT NULL AND account IS NOT NULL AND credits IS NOT NULL)),
	CONSTRAINT payment_credited CHECK (bucket IS NULL OR booked_at IS NOT NULL),
	CONSTRAINT payment_known CHECK (booked_at IS NOT NULL OR refunded_at IS NOT NULL)
);
CREATE INDEX payment_org ON gpucredit_billing.payment (org, number);
COMMENT ON TABLE gpucredit_billing.payment IS
'Payments by their names at the payment provider, and the credit for them';
COMMENT ON COLUMN gpucredit_billing.payment.bucket IS 'The bucket that has the credit; NULL: it was refunded before it was told of.';
COMMENT ON COLUMN gpucredit_billing.payment.revoked IS 'How many of the credits nobody had spent or held when the payment was refunded.';

CREATE TYPE gpucredit_billing.payment_result AS (
	bucket bigint,
	credits numeric,
	refunded boolean,
	replayed boolean
);
COMMENT ON TYPE gpucredit_billing.payment_result IS
'What book_payment() answers: the bucket that has the credit, and whether the payment was refunded';
REVOKE ALL ON TYPE gpucredit_billing.payment_result FROM PUBLIC;

CREATE FUNCTION gpucredit_billing.check_payment(payment text) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF coalesce(octet_length(check_payment.payment), 0) NOT BETWEEN 1 AND 255
		OR check_payment.payment ~ '[[:cntrl:]]'
	THEN
		PERFORM gpucredit_billing.refuse('payment is the payment''s name at its provider, of 1 to 255 bytes',
			'It says which payment the credit is for.');
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_billing.check_payment(text) IS
'Internal: refuses what is no name of a payment (22023).';

CREATE FUNCTION gpucredit_billing.book_payment(org text, account text, payment text, credits numeric)
RETURNS gpucredit_billing.payment_result
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET gpucredit.key_space = 'gpucredit_billing'
AS $$
DECLARE
	at timestamptz := gpucredit.now();
	p gpucredit_billing.payment;
	is_new boolean;
	made bigint;
BEGIN
	PERFORM gpucredit_billing.check_payment(book_payment.payment);
	PERFORM gpucredit_billing.check_account(book_payment.org, book_payment.account);
	IF book_payment.credits IS NULL OR book_payment.credits = 'NaN' OR book_payment.credits <= 0
		OR scale(trim_scale(book_payment.credits)) > 6 OR book_payment.credits > 9223372036854.775807
	THEN
		PERFORM gpucredit_billing.refuse('credits is an amount above 0 with at most six decimals',
			format('It is %s.', coalesce(book_payment.credits::text, 'missing')));
	END IF;
	/* A concurrent call about the same payment waits here. */
	INSERT INTO gpucredit_billing.payment (payment, org, account, credits, booked_at)
	VALUES (book_payment.payment, book_payment.org, book_payment.account, trim_scale(book_payment.credits), at)
	ON CONFLICT ON CONSTRAINT payment_pkey DO NOTHING;
	is_new := FOUND;
	SELECT o.* INTO p FROM gpucredit_billing.payment o WHERE o.payment = book_payment.payment FOR NO KEY UPDATE;
	IF p.booked_at IS NOT NULL
		AND (p.org, p.account, p.credits) IS DISTINCT FROM (book_payment.org, book_payment.account, book_payment.credits)
	THEN
		PERFORM gpucredit_billing.raise('55000', 'the payment was booked otherwise',
			'It was credited to another account, or with another amount.', 'A payment is credited once.');
	ELSIF p.booked_at IS NULL THEN
		/* The refund of this payment was reported first. */
		UPDATE gpucredit_billing.payment o SET org = book_payment.org, account = book_payment.account,
			credits = trim_scale(book_payment.credits), booked_at = at, revoked = 0
		WHERE o.payment = book_payment.payment;
	ELSIF is_new THEN
		made := (gpucredit.issue(p.org, p.account, format('payment/%s', p.number), p.credits, 'paid',
				memo => format('payment %s', p.payment))).bucket;
		UPDATE gpucredit_billing.payment o SET bucket = made WHERE o.payment = book_payment.payment;
		p.bucket := made;
	END IF;
	IF is_new OR p.booked_at IS NULL THEN
		PERFORM gpucredit_billing.record(book_payment.org, 'book_payment', gpucredit_billing.caller(),
			jsonb_build_object('payment', p.payment, 'account', book_payment.account,
				'credits', book_payment.credits, 'bucket', p.bucket));
	END IF;
	RETURN ROW(p.bucket, round(book_payment.credits, 6), p.refunded_at IS NOT NULL,
		NOT is_new AND p.booked_at IS NOT NULL)::gpucredit_billing.payment_result;
END
$$;
COMMENT ON FUNCTION gpucredit_billing.book_payment(text, text, text, numeric) IS
'Payments: issues the credit of a payment, once for ever. payment: its name at the payment provider, such as pi_1. One that was refunded before it was told of is booked without credit. Repeating it changes nothing.
Result: the bucket (NULL: none), the credits, whether the payment was refunded. Errors: UC001 no such account; 55000 it was booked for another account or amount; 22023.';

CREATE FUNCTION gpucredit_billing.refund_payment(payment text, reason text DEFAULT 'refunded') RETURNS numeric
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET gpucredit.key_space = 'gpucredit_billing'
AS $$
DECLARE
	at timestamptz := gpucredit.now();
	p gpucredit_billing.payment;
	is_new boolean;
	gone numeric := 0;
BEGIN
	PERFORM gpucredit_billing.check_payment(refund_payment.payment);
	IF coalesce(octet_length(refund_payment.reason), 0) NOT BETWEEN 1 AND 500 OR refund_payment.reason ~ '[[:cntrl:]]' THEN
		PERFORM gpucredit_billing.refuse('a reason has 1 to 500 bytes and no control characters', 'It is in the audit log.');
	END IF;
	INSERT INTO gpucredit_billing.payment (payment, refunded_at, reason)
	VALUES (refund_payment.payment, at, refund_payment.reason)
	ON CONFLICT ON CONSTRAINT payment_pkey DO NOTHING;
	is_new := FOUND;
	SELECT o.* INTO p FROM gpucredit_billing.payment o WHERE o.payment = refund_payment.payment FOR NO KEY UPDATE;
	IF p.refunded_at IS NOT NULL THEN
		IF is_new THEN
			PERFORM gpucredit_billing.record('', 'refund_payment', gpucredit_billing.caller(),
				jsonb_build_object('payment', p.payment, 'reason', p.reason));
		END IF;
		RETURN round(coalesce(p.revoked, 0), 6);
	END IF;
	gone := (gpucredit.revoke(p.org, p.bucket, format('payment/%s/refund', p.number),
			format('payment %s was refunded: %s', left(p.payment, 100), refund_payment.reason))).revoked;
	UPDATE gpucredit_billing.payment o SET refunded_at = at, reason = refund_payment.reason, revoked = gone
	WHERE o.payment = refund_payment.payment;
	PERFORM gpucredit_billing.record(p.org, 'refund_payment', gpucredit_billing.caller(), jsonb_build_object(
			'payment', p.payment, 'account', p.account, 'bucket', p.bucket, 'revoked', gone, 'reason', refund_payment.reason));
	RETURN gone;
END
$$;
COMMENT ON FUNCTION gpucredit_billing.refund_payment(text, text) IS
'Payments: notes that a payment was refunded as a whole, and revokes what is left of its credit; what jobs hold stays good until they end, and is revoked when it returns. What was transferred to another account stays there. A payment that nobody has booked yet will get no credit. Repeating it changes nothing. Result: how many credits were revoked. Errors: 22023.';

CREATE FUNCTION gpucredit_billing.payments(org text, after bigint DEFAULT NULL, "limit" integer DEFAULT 100)
RETURNS TABLE (number bigint, payment text, account text, credits numeric, bucket bigint, booked_at timestamptz,
	refunded_at timestamptz, reason text, revoked numeric)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_billing.check_account(payments.org, '');
	RETURN QUERY
		SELECT p.number, p.payment, p.account, p.credits, p.bucket, p.booked_at, p.refunded_at, p.reason, p.revoked
		FROM gpucredit_billing.payment p
		WHERE p.org = payments.org
			AND (payments.after IS NULL OR p.number < payments.after)
		ORDER BY p.number DESC
		LIMIT least(greatest(coalesce(payments."limit", 100), 1), 10000);
END
$$;
COMMENT ON FUNCTION gpucredit_billing.payments(text, bigint, integer) IS
'Payments: those of an organisation, newest first, with the credit for each and what was revoked of it. after: the number of the last payment of the page before. Errors: UC001 no such organisation, or one that the session sees a part of.';
