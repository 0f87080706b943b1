/*
 * 63_top_up.sql: automatic top-up.
 *
 * set_top_up() sets a threshold and an amount. The transaction that reduces
 * the balance below the threshold writes an order and the event
 * balance.top_up. A webhook or the feed delivers the event to a program that
 * collects the customer's payment. That program calls complete_top_up(), which
 * issues the credit once.
 *
 * An account has one open order at a time, and a limited number of orders a
 * day (UTC). Nothing here makes the spending transaction wait or fail: an
 * order that cannot be written at once is left to upkeep().
 *
 * Lock order: as gpucredit's; the order's row, then as book_payment().
 */
CREATE TABLE gpucredit_billing.top_up (
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	below numeric NOT NULL,
	credits numeric NOT NULL,
	at_most integer NOT NULL,
	set_at timestamptz NOT NULL,
	set_by name NOT NULL,
	CONSTRAINT top_up_pkey PRIMARY KEY (org, account),
	CONSTRAINT top_up_below CHECK (below > 0),
	CONSTRAINT top_up_credits CHECK (credits > 0),
	CONSTRAINT top_up_at_most CHECK (at_most BETWEEN 1 AND 24)
);
COMMENT ON TABLE gpucredit_billing.top_up IS
'Accounts whose credit is topped up when their balance falls below a line';
COMMENT ON COLUMN gpucredit_billing.top_up.below IS 'The line: credits that are available.';
COMMENT ON COLUMN gpucredit_billing.top_up.credits IS 'How many credits are ordered.';
COMMENT ON COLUMN gpucredit_billing.top_up.at_most IS 'How many orders a day (UTC) may have.';

CREATE TABLE gpucredit_billing.top_up_order (
	top_up_order bigint GENERATED ALWAYS AS IDENTITY,
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	credits numeric NOT NULL,
	state text NOT NULL,
	ordered_at timestamptz NOT NULL,
	ended_at timestamptz,
	payment text,
	reason text,
	bucket bigint,
	CONSTRAINT top_up_order_pkey PRIMARY KEY (top_up_order),
	CONSTRAINT top_up_order_payment UNIQUE (payment),
	CONSTRAINT top_up_order_state CHECK (state IN ('open', 'paid', 'failed', 'lapsed')),
	CONSTRAINT top_up_order_paid CHECK ((state = 'paid') = (bucket IS NOT NULL)),
	CONSTRAINT top_up_order_ended CHECK ((state = 'open') = (ended_at IS NULL))
);
CREATE UNIQUE INDEX top_up_order_open ON gpucredit_billing.top_up_order (org, account) WHERE state = 'open';
CREATE INDEX top_up_order_org ON gpucredit_billing.top_up_order (org, account, ordered_at);
COMMENT ON TABLE gpucredit_billing.top_up_order IS
'Orders of automatic top-up, and what became of them';
COMMENT ON COLUMN gpucredit_billing.top_up_order.state IS 'open; paid; failed; lapsed: nobody answered within a day. A payment that arrives later is credited all the same.';
COMMENT ON COLUMN gpucredit_billing.top_up_order.payment IS 'The payment''s name at the payment provider. No two orders have the same.';

/*
 * Writes an order, if the account's setting allows it now. If the lock is not
 * available at once, the order is left to the transaction that holds it.
 */
CREATE FUNCTION gpucredit_billing.order_top_up(org text, account text, available numeric) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	at timestamptz := gpucredit.now();
	t gpucredit_billing.top_up;
	made bigint;
BEGIN
	SELECT o.* INTO t FROM gpucredit_billing.top_up o
	WHERE o.org = order_top_up.org AND o.account = order_top_up.account
		AND order_top_up.available < o.below;
	IF NOT FOUND OR NOT gpucredit_internal.lock_alert(concat_ws('|', 'top_up', t.org, t.account)) THEN
		RETURN 0;
	END IF;
	IF (SELECT count(*) FROM gpucredit_billing.top_up_order o
		WHERE o.org = t.org AND o.account = t.account
			AND o.ordered_at >= date_trunc('day', at, 'UTC')) >= t.at_most
		OR EXISTS (SELECT FROM gpucredit_billing.top_up_order o
			WHERE o.org = t.org AND o.account = t.account AND o.state = 'open'
				AND o.ordered_at > at - interval '1 day')
	THEN
		RETURN 0;
	END IF;
	/*
	 * An order whose row is locked is being completed by its payment, and so
	 * is skipped. At REPEATABLE READ there may be an order that the snapshot
	 * does not contain, which must not fail the transaction that spends.
	 */
	BEGIN
		UPDATE gpucredit_billing.top_up_order o SET state = 'lapsed', ended_at = at
		WHERE o.ctid = ANY (ARRAY(SELECT l.ctid FROM gpucredit_billing.top_up_order l
			WHERE l.org = t.org AND l.account = t.account AND l.state = 'open'
			FOR NO KEY UPDATE SKIP LOCKED));
		IF EXISTS (SELECT FROM gpucredit_billing.top_up_order o
			WHERE o.org = t.org AND o.account = t.account AND o.state = 'open')
		THEN
			RETURN 0;
		END IF;
		INSERT INTO gpucredit_billing.top_up_order AS o (org, account, credits, state, ordered_at)
		VALUES (t.org, t.account, t.credits, 'open', at)
		RETURNING o.top_up_order INTO made;
		PERFORM gpucredit_internal.write_event('balance.top_up', t.org, t.account, jsonb_build_object(
				'order', made, 'credits', round(t.credits, 6)::text, 'below', round(t.below, 6)::text,
				'available', round(order_top_up.available, 6)::text));
	EXCEPTION WHEN unique_violation OR serialization_failure THEN
		RETURN 0;
	END;
	RETURN 1;
END
$$;
COMMENT ON FUNCTION gpucredit_billing.order_top_up(text, text, numeric) IS
'Internal: orders credit for an account whose balance is below its line, unless an order is open or there were too many today; returns how many, 0 or 1.';

/*
 * The transaction that crosses the threshold writes the alert for a low
 * balance, which fires this trigger. The rows of a dump are older than the
 * transaction that restores them, and cause no order.
 */
CREATE FUNCTION gpucredit_billing.balance_fell() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF NEW.at >= transaction_timestamp() OR coalesce(current_setting('gpucredit.clock', true), '') <> '' THEN
		PERFORM gpucredit_billing.order_top_up(NEW.org, NEW.account, (NEW.detail ->> 'available')::numeric);
	END IF;
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION gpucredit_billing.balance_fell() IS
'Internal: orders a top-up for an alert of a low balance.';
CREATE TRIGGER billing_balance_fell AFTER INSERT ON gpucredit.alert
FOR EACH ROW WHEN (NEW.kind = 'balance') EXECUTE FUNCTION gpucredit_billing.balance_fell();
/* a trigger on another extension's table is no member of this one; it goes with it all the same */
ALTER TRIGGER billing_balance_fell ON gpucredit.alert DEPENDS ON EXTENSION gpucredit_billing;

CREATE FUNCTION gpucredit_billing.set_top_up(org text, account text, below numeric,
	credits numeric DEFAULT NULL, at_most integer DEFAULT 3) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_billing.check_account(set_top_up.org, set_top_up.account);
	IF set_top_up.below IS NULL THEN
		DELETE FROM gpucredit_billing.top_up o
		WHERE o.org = set_top_up.org AND o.account = set_top_up.account;
		IF NOT FOUND THEN
			RETURN;
		END IF;
	ELSE
		IF set_top_up.credits IS NULL OR 'NaN' IN (set_top_up.below, set_top_up.credits)
			OR set_top_up.below <= 0 OR set_top_up.credits <= 0
			OR scale(trim_scale(set_top_up.below)) > 6 OR scale(trim_scale(set_top_up.credits)) > 6
			OR greatest(set_top_up.below, set_top_up.credits) > 9223372036854.775807
		THEN
			PERFORM gpucredit_billing.refuse('below and credits are amounts above 0 with at most six decimals',
				format('They are %s and %s.', set_top_up.below, coalesce(set_top_up.credits::text, 'missing')));
		ELSIF coalesce(set_top_up.at_most, 0) NOT BETWEEN 1 AND 24 THEN
			PERFORM gpucredit_billing.refuse('at_most is 1 to 24 orders a day', 'It bounds what a runaway job can cost.');
		END IF;
		INSERT INTO gpucredit_billing.top_up AS o
		VALUES (set_top_up.org, set_top_up.account, trim_scale(set_top_up.below), trim_scale(set_top_up.credits),
			set_top_up.at_most, gpucredit.now(), gpucredit_billing.caller())
		ON CONFLICT ON CONSTRAINT top_up_pkey DO UPDATE SET below = excluded.below, credits = excluded.credits,
			at_most = excluded.at_most, set_at = excluded.set_at, set_by = excluded.set_by;
	END IF;
	PERFORM gpucredit_billing.record(set_top_up.org, 'set_top_up', gpucredit_billing.caller(),
		jsonb_build_object('account', set_top_up.account, 'below', set_top_up.below,
			'credits', set_top_up.credits, 'at_most', set_top_up.at_most));
	/*
	 * This comes last: if the balance is below the threshold already, it
	 * raises the alert.
	 */
	PERFORM gpucredit.set_alert(set_top_up.org, set_top_up.account, set_top_up.below);
END
$$;
COMMENT ON FUNCTION gpucredit_billing.set_top_up(text, text, numeric, numeric, integer) IS
'Top-up: orders so many credits for an account whenever its available credit falls below a line. The transaction that crosses it writes the event balance.top_up, which names the order; a program takes the payment and calls complete_top_up(). One order is open at a time, and at_most (1 to 24) are made a day (UTC). It sets the account''s alert of a low balance to the same line. below NULL: no top-up and no alert any more.
Errors: UC001 no such account; 22023.';

CREATE FUNCTION gpucredit_billing.find_order(top_up_order bigint) RETURNS gpucredit_billing.top_up_order
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	o gpucredit_billing.top_up_order;
BEGIN
	SELECT r.* INTO o FROM gpucredit_billing.top_up_order r
	WHERE r.top_up_order = find_order.top_up_order FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		PERFORM gpucredit_billing.raise('UC701', 'the order does not exist', 'No order has that number.',
			'gpucredit_billing.top_up_orders() lists them.');
	END IF;
	RETURN o;
END
$$;
COMMENT ON FUNCTION gpucredit_billing.find_order(bigint) IS
'Internal: locks an order. Errors: UC701.';

CREATE TYPE gpucredit_billing.top_up_result AS (
	bucket bigint,
	credits numeric,
	replayed boolean
);
COMMENT ON TYPE gpucredit_billing.top_up_result IS
'What complete_top_up() answers: the bucket that has the credit';
REVOKE ALL ON TYPE gpucredit_billing.top_up_result FROM PUBLIC;

CREATE FUNCTION gpucredit_billing.complete_top_up(top_up_order bigint, payment text)
RETURNS gpucredit_billing.top_up_result
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET gpucredit.key_space = 'gpucredit_billing'
AS $$
DECLARE
	o gpucredit_billing.top_up_order;
	booked gpucredit_billing.payment_result;
BEGIN
	PERFORM gpucredit_billing.check_payment(complete_top_up.payment);
	o := gpucredit_billing.find_order(complete_top_up.top_up_order);
	IF o.state = 'paid' THEN
		IF o.payment <> complete_top_up.payment THEN
			PERFORM gpucredit_billing.raise('55000', 'the order has another payment',
				format('Order %s was paid by "%s".', o.top_up_order, o.payment),
				'Refund one of the two payments at the provider.');
		END IF;
		RETURN ROW(o.bucket, round(o.credits, 6), true);
	END IF;
	booked := gpucredit_billing.book_payment(o.org, o.account, complete_top_up.payment, o.credits);
	IF booked.replayed THEN
		PERFORM gpucredit_billing.raise('55000', 'the payment belongs to another order',
			'A payment is credited once.', 'Pass the payment of this order.');
	ELSIF booked.refunded THEN
		PERFORM gpucredit_billing.raise('55000', 'the payment was refunded',
			format('Payment "%s" has no credit.', complete_top_up.payment), 'Call gpucredit_billing.fail_top_up().');
	END IF;
	UPDATE gpucredit_billing.top_up_order p SET state = 'paid', ended_at = gpucredit.now(),
		payment = complete_top_up.payment, reason = NULL, bucket = booked.bucket
	WHERE p.top_up_order = o.top_up_order;
	PERFORM gpucredit_billing.record(o.org, 'complete_top_up', gpucredit_billing.caller(), jsonb_build_object(
			'order', o.top_up_order, 'account', o.account, 'credits', o.credits, 'payment', complete_top_up.payment,
			'bucket', booked.bucket));
	RETURN ROW(booked.bucket, round(o.credits, 6), false);
END
$$;
COMMENT ON FUNCTION gpucredit_billing.complete_top_up(bigint, text) IS
'Top-up: issues the credit of an order that has been paid, also of one that had failed or lapsed before. payment: its name at the payment provider, by which a repeated call is known; no two orders have the same. Repeating it changes nothing.
Result: the bucket, its credits. Errors: UC701 no such order; 55000 it was paid by another payment, or the payment is another order''s, or was refunded; 22023.';

CREATE FUNCTION gpucredit_billing.fail_top_up(top_up_order bigint, reason text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	o gpucredit_billing.top_up_order;
BEGIN
	IF coalesce(octet_length(fail_top_up.reason), 0) NOT BETWEEN 1 AND 500 OR fail_top_up.reason ~ '[[:cntrl:]]' THEN
		PERFORM gpucredit_billing.refuse('a reason has 1 to 500 bytes and no control characters', 'It is shown to the account''s owner.');
	END IF;
	o := gpucredit_billing.find_order(fail_top_up.top_up_order);
	/* A provider may report a failure after the payment that followed it. */
	IF o.state <> 'open' THEN
		RETURN false;
	END IF;
	UPDATE gpucredit_billing.top_up_order p SET state = 'failed', ended_at = gpucredit.now(), reason = fail_top_up.reason
	WHERE p.top_up_order = o.top_up_order;
	PERFORM gpucredit_billing.record(o.org, 'fail_top_up', gpucredit_billing.caller(),
		jsonb_build_object('order', o.top_up_order, 'account', o.account, 'reason', fail_top_up.reason));
	PERFORM gpucredit_internal.write_event('balance.top_up_failed', o.org, o.account,
		jsonb_build_object('order', o.top_up_order, 'credits', round(o.credits, 6)::text, 'reason', fail_top_up.reason));
	RETURN true;
END
$$;
COMMENT ON FUNCTION gpucredit_billing.fail_top_up(bigint, text) IS
'Top-up: notes that an order''s payment has failed, and writes the event balance.top_up_failed. Another order may follow on the same day. Result: whether the order was open; an order that was paid stays paid. Errors: UC701 no such order; 22023.';

CREATE TYPE gpucredit_billing.top_ups_result AS (
	account text,
	below numeric,
	credits numeric,
	at_most integer,
	set_at timestamptz,
	set_by name
);
COMMENT ON TYPE gpucredit_billing.top_ups_result IS
'An account that is topped up, as top_ups() lists it';
REVOKE ALL ON TYPE gpucredit_billing.top_ups_result FROM PUBLIC;

CREATE FUNCTION gpucredit_billing.top_ups(org text, account text DEFAULT '')
RETURNS SETOF gpucredit_billing.top_ups_result
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_billing.check_account(top_ups.org, top_ups.account);
	RETURN QUERY
		SELECT t.account, t.below, t.credits, t.at_most, t.set_at, t.set_by
		FROM gpucredit_billing.top_up t
		WHERE t.org = top_ups.org AND gpucredit_internal.may_read(t.org, t.account)
			AND (top_ups.account = '' OR t.account = top_ups.account OR starts_with(t.account, top_ups.account || '/'))
		ORDER BY t.account;
END
$$;
COMMENT ON FUNCTION gpucredit_billing.top_ups(text, text) IS
'Top-up: which accounts at or below one are topped up, below which line, and by how many credits. Errors: UC001.';

CREATE TYPE gpucredit_billing.top_up_orders_result AS (
	top_up_order bigint,
	account text,
	credits numeric,
	state text,
	ordered_at timestamptz,
	ended_at timestamptz,
	payment text,
	reason text,
	bucket bigint
);
COMMENT ON TYPE gpucredit_billing.top_up_orders_result IS
'An order, as top_up_orders() lists it';
REVOKE ALL ON TYPE gpucredit_billing.top_up_orders_result FROM PUBLIC;

CREATE FUNCTION gpucredit_billing.top_up_orders(org text, account text DEFAULT '', after bigint DEFAULT NULL,
	"limit" integer DEFAULT 100)
RETURNS SETOF gpucredit_billing.top_up_orders_result
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 10
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_billing.check_account(top_up_orders.org, top_up_orders.account);
	RETURN QUERY
		SELECT o.top_up_order, o.account, o.credits, o.state, o.ordered_at, o.ended_at, o.payment, o.reason, o.bucket
		FROM gpucredit_billing.top_up_order o
		WHERE o.org = top_up_orders.org AND gpucredit_internal.may_read(o.org, o.account)
			AND (top_up_orders.account = '' OR o.account = top_up_orders.account
				OR starts_with(o.account, top_up_orders.account || '/'))
			AND (top_up_orders.after IS NULL OR o.top_up_order < top_up_orders.after)
		ORDER BY o.top_up_order DESC
		LIMIT least(greatest(coalesce(top_up_orders."limit", 100), 1), 10000);
END
$$;
COMMENT ON FUNCTION gpucredit_billing.top_up_orders(text, text, bigint, integer) IS
'Top-up: the orders of an account and all below it, newest first, and what became of them. after: the last order of the page before. Errors: UC001.';

CREATE FUNCTION gpucredit_billing.upkeep() RETURNS TABLE (task text, affected bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	t gpucredit_billing.top_up;
	n bigint := 0;
BEGIN
	RETURN QUERY SELECT 'plans'::text, gpucredit_billing.grant_plans();
	FOR t IN SELECT o.* FROM gpucredit_billing.top_up o ORDER BY o.org, o.account LOOP
		n := n + gpucredit_billing.order_top_up(t.org, t.account,
			(SELECT b.available FROM gpucredit_internal.balance_now(t.org, t.account, gpucredit.now()) b));
	END LOOP;
	RETURN QUERY SELECT 'top_ups'::text, n;
END
$$;
COMMENT ON FUNCTION gpucredit_billing.upkeep() IS
'Upkeep: grants the months of plans that are due, and orders the top-ups that no transaction could order: those of a day after one with too many orders, and those whose order failed. Have it called each few minutes, by pg_cron or a timer. No balance depends on it. Result: how many of each.';
