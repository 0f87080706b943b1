/*
 * 70_bill.sql: bills for storage and egress.
 *
 * A day (UTC) is billed once, after it has ended: byte-hours stored and bytes
 * sent, times the prices, rounded once to a micro-credit. A GB has 10^9 bytes,
 * a month 720 hours. The account of a repository pays. Bytes that several
 * repositories of an organisation share are stored once, so the cost of
 * storage is divided among the accounts in proportion to the sizes of their
 * files. An account that cannot pay may not upload; from the seventh unpaid
 * day on, its files cannot be read either. Nothing is deleted.
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
	account text COLLATE "C" NOT NULL,
	byte_hours numeric NOT NULL,
	cold_byte_hours numeric NOT NULL,
	egress_bytes bigint NOT NULL,
	amount numeric NOT NULL,
	paid_at timestamptz,
	CONSTRAINT bill_pkey PRIMARY KEY (org, day, account)
);
CREATE INDEX bill_unpaid ON gpucredit_registry.bill (org, account, day)
	WHERE paid_at IS NULL;
COMMENT ON TABLE gpucredit_registry.bill IS
'What each day cost an account; paid_at: when its credit was captured';

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

CREATE FUNCTION gpucredit_registry.in_debt(org text, model bigint) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	RETURN EXISTS (SELECT FROM gpucredit_registry.bill b
			JOIN gpucredit_registry.model m ON m.org = b.org AND m.account = b.account
		WHERE b.org = in_debt.org AND m.model = in_debt.model AND b.paid_at IS NULL
			AND b.day < (gpucredit.now() AT TIME ZONE 'UTC')::date - 7);
END
$$;
COMMENT ON FUNCTION gpucredit_registry.in_debt(text, bigint) IS
'Internal: has the account of a repository a bill that is unpaid for 7 days?';

/*
 * Returns the size of the files that each account had on a day; bytes that
 * several accounts have count for each of them. A repository that was deleted
 * since counts with its former size, so that nobody can shift costs to others
 * by deleting files before the bill is made.
 */
CREATE FUNCTION gpucredit_registry.account_bytes(org text, day date)
RETURNS TABLE (account text, bytes numeric)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT s.account, sum(s.size)
	FROM (
		SELECT k.account, b.size
		FROM (SELECT m.account, f.object
				FROM gpucredit_registry.entry f
					JOIN gpucredit_registry.version v ON v.org = f.org AND v.version = f.since
					JOIN gpucredit_registry.model m ON m.org = v.org AND m.model = v.model
				WHERE f.org = account_bytes.org
					AND v.created_at < (account_bytes.day + 1)::timestamp AT TIME ZONE 'UTC'
				UNION
				SELECT m.account, l.object
				FROM gpucredit_registry.blob l
					JOIN gpucredit_registry.model m USING (org, model)
				WHERE l.org = account_bytes.org) k
			JOIN gpucredit_registry.object b ON b.sha256 = k.object
		UNION ALL
		SELECT m.account, m.deleted_bytes
		FROM gpucredit_registry.model m
		WHERE m.org = account_bytes.org
			AND m.created_at < (account_bytes.day + 1)::timestamp AT TIME ZONE 'UTC'
			AND m.deleted_at >= account_bytes.day::timestamp AT TIME ZONE 'UTC') s
	WHERE s.size > 0
	GROUP BY s.account;
END;
COMMENT ON FUNCTION gpucredit_registry.account_bytes(text, date) IS
'Internal: how many bytes the files of each account of an organisation had on a day (UTC).';

/*
 * Returns the share of an organisation's unique bytes that nobody has read for
 * 90 days. A chunk counts as read when any object that contains it was read.
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

/* Divides what an organisation stored and sent on a day among its accounts. */
CREATE FUNCTION gpucredit_registry.make_bills(org text, day date) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	cold numeric := gpucredit_registry.cold_share(make_bills.org, make_bills.day);
	hours numeric := coalesce((SELECT u.byte_seconds / 3600 FROM gpucredit_registry.usage u
		WHERE u.org = make_bills.org AND u.day = make_bills.day), 0);
BEGIN
	INSERT INTO gpucredit_registry.bill
	SELECT make_bills.org, make_bills.day, l.account, l.hours, l.cold_hours, l.sent, l.amount,
		CASE l.amount WHEN 0 THEN gpucredit.now() END
	FROM (
		SELECT a.account, a.hours, a.cold_hours, a.sent,
			round(((a.hours * gpucredit_registry.price_of('storage')
				+ a.cold_hours * gpucredit_registry.price_of('cold')) / 720
				+ a.sent * gpucredit_registry.price_of('egress')) / 1000000000, 6) AS amount
		FROM (
			SELECT w.account, hours * (1 - cold) * sum(w.share) AS hours,
				hours * cold * sum(w.share) AS cold_hours, sum(w.sent)::bigint AS sent
			FROM (
				SELECT b.account, b.bytes / sum(b.bytes) OVER () AS share, 0 AS sent
				FROM gpucredit_registry.account_bytes(make_bills.org, make_bills.day) b
				UNION ALL
				/* If no account has files, the organisation pays. */
				SELECT '', (NOT EXISTS (SELECT FROM
					gpucredit_registry.account_bytes(make_bills.org, make_bills.day)))::integer, 0
				UNION ALL
				SELECT m.account, 0, e.bytes
				FROM gpucredit_registry.egress e
					JOIN gpucredit_registry.model m USING (org, model)
				WHERE e.org = make_bills.org AND e.day = make_bills.day) w
			GROUP BY w.account) a) l;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.make_bills(text, date) IS
'Internal: the bills of an organisation''s accounts for a day.';

CREATE FUNCTION gpucredit_registry.pay_bill(b gpucredit_registry.bill) RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET gpucredit.key_space = 'gpucredit_registry'
AS $$
DECLARE
	h record;
BEGIN
	/*
	 * A denial is stored under its idempotency key, so each attempt has its
	 * own key; the capture has the key of the bill.
	 */
	SELECT * INTO h FROM gpucredit.hold((b).org, (b).account,
		format('registry/hold/%s/%s', (b).day, gen_random_uuid()), (b).amount, '1 hour');
	IF h.status = 'denied' THEN
		RETURN h.reason;
	END IF;
	PERFORM gpucredit.capture((b).org, h.hold, format('registry/storage/%s/%s', (b).day,
		encode(sha256(convert_to((b).account, 'UTF8')), 'hex')), (b).amount);
	UPDATE gpucredit_registry.bill o SET paid_at = gpucredit.now()
	WHERE o.org = (b).org AND o.day = (b).day AND o.account = (b).account;
	PERFORM gpucredit_registry.record((b).org, 'bill', NULL, jsonb_build_object(
		'day', (b).day, 'account', (b).account, 'amount', (b).amount));
	RETURN NULL;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.pay_bill(gpucredit_registry.bill) IS
'Internal: charges an account for a day; NULL, or why it cannot pay.';

CREATE FUNCTION gpucredit_registry.bill(org text, day date,
	OUT amount numeric, OUT status text, OUT reason text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	b gpucredit_registry.bill;
	refusal text;
BEGIN
	PERFORM gpucredit_registry.check_account(bill.org, '');
	IF bill.day IS NULL OR bill.day >= (gpucredit.now() AT TIME ZONE 'UTC')::date THEN
		PERFORM gpucredit_registry.refuse('a day is billed when it is over',
			format('It is %s now (UTC).', gpucredit.now() AT TIME ZONE 'UTC'));
	END IF;
	/* Update the usage up to now, so that the day's row is complete. */
	PERFORM gpucredit_registry.change_usage(bill.org, 0);
	IF NOT EXISTS (SELECT FROM gpucredit_registry.bill o
		WHERE o.org = bill.org AND o.day = bill.day)
	THEN
		PERFORM gpucredit_registry.make_bills(bill.org, bill.day);
	END IF;
	bill.amount := 0;
	bill.status := 'paid';
	FOR b IN
		SELECT * FROM gpucredit_registry.bill o
		WHERE o.org = bill.org AND o.day = bill.day
		ORDER BY o.account FOR UPDATE
	LOOP
		bill.amount := bill.amount + b.amount;
		IF b.paid_at IS NULL THEN
			refusal := gpucredit_registry.pay_bill(b);
			bill.reason := coalesce(bill.reason, refusal);
			IF refusal IS NOT NULL AND gpucredit_registry.raise_alert(b.org, b.account,
				'unpaid', concat_ws(' ', b.day, nullif(b.account, '')), jsonb_build_object(
					'day', b.day, 'amount', b.amount::text, 'reason', refusal))
			THEN
				PERFORM gpucredit_registry.publish('registry.unpaid', b.org, b.account,
					jsonb_build_object('day', b.day, 'amount', b.amount::text, 'reason', refusal));
			END IF;
		END IF;
	END LOOP;
	IF bill.reason IS NOT NULL THEN
		bill.status := 'denied';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.bill(text, date) IS
'Billing: charges the accounts of an organisation''s repositories for a day that is over, once; calling again charges those that could not pay.
day: UTC. Result: the amount of all in credits; status paid, or denied, where an account could not pay, with reason insufficient_credits, budget_exceeded or account_suspended: its uploads are refused until it is paid, reading from the seventh day on.
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
