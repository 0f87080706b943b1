/*
 * 70_bill.sql: bills for storage and egress.
 *
 * A day (UTC) is billed once, when it is over: byte-hours stored and bytes
 * sent, times the prices, rounded once to a micro-credit.  A GB has 10^9
 * bytes, a month 720 hours.  An organisation that cannot pay may not upload;
 * from the seventh unpaid day on nobody reads its files either.  Nothing is
 * deleted.
 */
CREATE TABLE gpucredit_registry.price (
	item text PRIMARY KEY CHECK (item IN ('storage', 'cold', 'egress')),
	price numeric NOT NULL CHECK (price >= 0 AND price < 1000000)
);
COMMENT ON TABLE gpucredit_registry.price IS
'Credits per GB-month stored (cold: not read for 90 days) and per GB sent, where set';

CREATE FUNCTION gpucredit_registry.price_of(item text) RETURNS numeric
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT coalesce((SELECT p.price FROM gpucredit_registry.price p
			WHERE p.item = price_of.item),
		CASE price_of.item WHEN 'storage' THEN 0.023 WHEN 'cold' THEN 0.004 ELSE 0.09 END);
END;
COMMENT ON FUNCTION gpucredit_registry.price_of(text) IS
'Internal: a price, or its default: 0.023, 0.004, 0.09.';

CREATE TABLE gpucredit_registry.bill (
	org text COLLATE "C" NOT NULL,
	day date NOT NULL,
	byte_hours numeric NOT NULL,
	cold_byte_hours numeric NOT NULL,
	egress_bytes bigint NOT NULL,
	amount numeric NOT NULL,
	paid_at timestamptz,
	CONSTRAINT bill_pkey PRIMARY KEY (org, day)
);
COMMENT ON TABLE gpucredit_registry.bill IS
'What each day cost an organisation; paid_at: when its credit was captured';

CREATE FUNCTION gpucredit_registry.set_storage_price(item text, price numeric)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	IF coalesce(set_storage_price.item, '') NOT IN ('storage', 'cold', 'egress')
		OR coalesce(set_storage_price.price, -1) NOT BETWEEN 0 AND 999999
	THEN
		PERFORM gpucredit_registry.refuse('a price is of storage, cold or egress, 0 to 999,999',
			format('They are "%s" and %s.', left(set_storage_price.item, 64),
				set_storage_price.price));
	END IF;
	INSERT INTO gpucredit_registry.price
	VALUES (set_storage_price.item, set_storage_price.price)
	ON CONFLICT ON CONSTRAINT price_pkey DO UPDATE SET price = excluded.price;
	PERFORM gpucredit_registry.record('', 'set_storage_price', NULL,
		jsonb_build_object('item', set_storage_price.item, 'price', set_storage_price.price));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.set_storage_price(text, numeric) IS
'Prices: what days that are billed from now on cost.
item: storage or cold (not read for 90 days), credits per GB-month; egress, credits per GB. Errors: 22023.';

CREATE FUNCTION gpucredit_registry.in_debt(org text) RETURNS boolean
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT EXISTS (SELECT FROM gpucredit_registry.bill b
		WHERE b.org = in_debt.org AND b.paid_at IS NULL
			AND b.day < (gpucredit.now() AT TIME ZONE 'UTC')::date - 7);
END;
COMMENT ON FUNCTION gpucredit_registry.in_debt(text) IS
'Internal: has an organisation a bill that is unpaid for 7 days?';

/*
 * The share of the unique bytes of an organisation's objects that nobody read
 * for 90 days.
 * A chunk is as warm as the warmest object that has it.
 */
CREATE FUNCTION gpucredit_registry.cold_share(org text, day date) RETURNS numeric
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT CASE WHEN sum(k.size) > 0 THEN
		coalesce(sum(k.size) FILTER (WHERE c.read_on <= cold_share.day - 90), 0)
			/ sum(k.size)::numeric
		ELSE 0 END
	FROM (SELECT u.chunk, max(p.read_on) AS read_on
		FROM gpucredit_registry.possession p
			JOIN gpucredit_registry.segment s ON s.object = p.object,
			unnest(s.chunks) AS u (chunk)
		WHERE p.org = cold_share.org GROUP BY u.chunk) c
		JOIN gpucredit_registry.chunk k USING (chunk);
END;
COMMENT ON FUNCTION gpucredit_registry.cold_share(text, date) IS
'Internal: which share of what an organisation stores is cold on a day.';

CREATE FUNCTION gpucredit_registry.bill(org text, day date,
	OUT amount numeric, OUT status text, OUT reason text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET gpucredit.key_space = 'gpucredit_registry'
AS $$
DECLARE
	b gpucredit_registry.bill;
	share numeric;
	h record;
BEGIN
	PERFORM gpucredit_registry.check_account(bill.org, '');
	IF bill.day IS NULL OR bill.day >= (gpucredit.now() AT TIME ZONE 'UTC')::date THEN
		PERFORM gpucredit_registry.refuse('a day is billed when it is over',
			format('It is %s now (UTC).', gpucredit.now() AT TIME ZONE 'UTC'));
	END IF;
	/* bring usage up to now, so that the day's row is complete */
	PERFORM gpucredit_registry.change_usage(bill.org, 0);
	SELECT * INTO b FROM gpucredit_registry.bill o
	WHERE o.org = bill.org AND o.day = bill.day FOR UPDATE;
	IF NOT FOUND THEN
		share := gpucredit_registry.cold_share(bill.org, bill.day);
		SELECT u.byte_seconds * (1 - share) / 3600, u.byte_seconds * share / 3600
		INTO b.byte_hours, b.cold_byte_hours
		FROM gpucredit_registry.usage u
		WHERE u.org = bill.org AND u.day = bill.day;
		b.byte_hours := coalesce(b.byte_hours, 0);
		b.cold_byte_hours := coalesce(b.cold_byte_hours, 0);
		SELECT coalesce(sum(e.bytes), 0) INTO b.egress_bytes
		FROM gpucredit_registry.egress e
		WHERE e.org = bill.org AND e.day = bill.day;
		b.amount := round(((b.byte_hours * gpucredit_registry.price_of('storage')
				+ b.cold_byte_hours * gpucredit_registry.price_of('cold')) / 720
			+ b.egress_bytes * gpucredit_registry.price_of('egress')) / 1000000000, 6);
		INSERT INTO gpucredit_registry.bill
		VALUES (bill.org, bill.day, b.byte_hours, b.cold_byte_hours, b.egress_bytes,
			b.amount, CASE b.amount WHEN 0 THEN gpucredit.now() END)
		RETURNING * INTO b;
	END IF;
	bill.amount := b.amount;
	bill.status := 'paid';
	IF b.paid_at IS NOT NULL THEN
		RETURN;
	END IF;
	/* a denial is stored under its key, so each try has its own; the capture has the day's */
	SELECT * INTO h FROM gpucredit.hold(bill.org, '',
		format('registry/hold/%s/%s', bill.day, gen_random_uuid()), b.amount, '1 hour');
	IF h.status = 'denied' THEN
		bill.status := 'denied';
		bill.reason := h.reason;
		RETURN;
	END IF;
	PERFORM gpucredit.capture(bill.org, h.hold, format('registry/storage/%s', bill.day),
		b.amount);
	UPDATE gpucredit_registry.bill o SET paid_at = gpucredit.now()
	WHERE o.org = bill.org AND o.day = bill.day;
	PERFORM gpucredit_registry.record(bill.org, 'bill', NULL,
		jsonb_build_object('day', bill.day, 'amount', b.amount));
END
$$;
COMMENT ON FUNCTION gpucredit_registry.bill(text, date) IS
'Billing: charges an organisation for a day that is over, once; calling again pays what could not be paid.
day: UTC. Result: the amount in credits; status paid, or denied with reason insufficient_credits, budget_exceeded or account_suspended: uploads are refused until it is paid, reading from the seventh day on.
Errors: UC001 no such organisation; 22023 the day is not over.';

CREATE FUNCTION gpucredit_registry.storage(org text, OUT logical bigint,
	OUT "unique" bigint, OUT billed numeric)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_registry.check_account(storage.org, '');
	SELECT coalesce(sum(b.size), 0) INTO storage.logical
	FROM gpucredit_registry.possession p
		JOIN gpucredit_registry.object b ON b.sha256 = p.object
	WHERE p.org = storage.org;
	storage."unique" := gpucredit_registry.unique_bytes(storage.org);
	SELECT coalesce(sum(b.amount), 0) INTO storage.billed
	FROM gpucredit_registry.bill b WHERE b.org = storage.org;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.storage(text) IS
'Billing: what an organisation keeps: bytes of its files, unique bytes, which it pays for, and what it was billed so far, in credits.
Errors: UC001 no such organisation.';
