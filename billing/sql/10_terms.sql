/*
 * 10_terms.sql: the terms that an operator has agreed with an organisation:
 * currency, tax, discount, and the names on its invoices.
 *
 * An invoice copies all terms, so a change of the terms does not affect
 * invoices that were issued before.
 */
CREATE TABLE gpucredit_billing.terms (
	org text COLLATE "C" NOT NULL,
	series text COLLATE "C" NOT NULL,
	currency text NOT NULL,
	digits integer NOT NULL,
	per_credit numeric NOT NULL,
	discount_percent numeric NOT NULL,
	tax_name text NOT NULL,
	tax_percent numeric NOT NULL,
	due_days integer NOT NULL,
	seller text NOT NULL,
	buyer text NOT NULL,
	purchase_order text NOT NULL,
	note text NOT NULL,
	changed_at timestamptz NOT NULL,
	changed_by name NOT NULL,
	CONSTRAINT terms_pkey PRIMARY KEY (org),
	CONSTRAINT terms_series CHECK (series ~ '^[A-Z][A-Z0-9]{0,11}$'),
	CONSTRAINT terms_currency CHECK (currency ~ '^[A-Z]{3}$'),
	CONSTRAINT terms_digits CHECK (digits BETWEEN 0 AND 3),
	CONSTRAINT terms_per_credit CHECK (per_credit > 0 AND per_credit <= 1000000 AND scale(per_credit) <= 9),
	CONSTRAINT terms_discount CHECK (discount_percent BETWEEN 0 AND 100 AND scale(discount_percent) <= 4),
	CONSTRAINT terms_tax CHECK (tax_percent BETWEEN 0 AND 100 AND scale(tax_percent) <= 4),
	CONSTRAINT terms_due CHECK (due_days BETWEEN 0 AND 365)
);
COMMENT ON TABLE gpucredit_billing.terms IS
'How an organisation is invoiced, from the next invoice on';
COMMENT ON COLUMN gpucredit_billing.terms.series IS 'The series that its invoices'' numbers belong to: a seller''s.';
COMMENT ON COLUMN gpucredit_billing.terms.digits IS 'Decimals of the currency, to which each amount is rounded.';
COMMENT ON COLUMN gpucredit_billing.terms.per_credit IS 'The price of one credit, in the currency.';
COMMENT ON COLUMN gpucredit_billing.terms.discount_percent IS 'Of the sum of the lines, before tax.';
COMMENT ON COLUMN gpucredit_billing.terms.tax_percent IS 'Of the sum less the discount.';

/*
 * The last number of each series. A transaction that issues a document locks
 * the row until it commits, and a rollback returns the number, so the series
 * has no gaps.
 */
CREATE TABLE gpucredit_billing.series (
	series text COLLATE "C" NOT NULL,
	last bigint NOT NULL,
	CONSTRAINT series_pkey PRIMARY KEY (series),
	CONSTRAINT series_last CHECK (last >= 0)
);
COMMENT ON TABLE gpucredit_billing.series IS
'The last number of each series of invoices and credit notes';

/*
 * Returns the login, or the role of SET ROLE, as which the HTTP interface
 * calls. SECURITY DEFINER functions do not change it.
 */
CREATE FUNCTION gpucredit_billing.caller() RETURNS name
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT coalesce(nullif(current_setting('role'), 'none'), session_user)::name;
END;
COMMENT ON FUNCTION gpucredit_billing.caller() IS
'Internal: the role on whose behalf the session calls.';

/*
 * An organisation's invoices show the use of all of its accounts. A caller who
 * may only see some of the accounts gets the error for an organisation that
 * does not exist.
 */
CREATE FUNCTION gpucredit_billing.require_org(org text) RETURNS void
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT gpucredit_billing.check_account(require_org.org, '');
END;
COMMENT ON FUNCTION gpucredit_billing.require_org(text) IS
'Internal: raises UC001 unless the organisation exists and the session may see all of it.';

CREATE FUNCTION gpucredit_billing.set_terms(org text, currency text, per_credit numeric DEFAULT 1,
	tax_percent numeric DEFAULT 0, tax_name text DEFAULT 'Tax', discount_percent numeric DEFAULT 0,
	seller text DEFAULT '', buyer text DEFAULT '', purchase_order text DEFAULT '',
	note text DEFAULT '', due_days integer DEFAULT 30, series text DEFAULT 'INV',
	digits integer DEFAULT 2) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	problem text;
BEGIN
	PERFORM gpucredit_billing.require_org(set_terms.org);
	problem := CASE
		WHEN coalesce(set_terms.currency, '') !~ '^[A-Z]{3}$' THEN 'currency is three capital letters, such as EUR'
		WHEN coalesce(set_terms.series, '') !~ '^[A-Z][A-Z0-9]{0,11}$' THEN 'series is a capital letter and up to eleven more capitals or digits'
		WHEN coalesce(set_terms.digits, -1) NOT BETWEEN 0 AND 3 THEN 'digits is 0 to 3'
		WHEN coalesce(set_terms.per_credit, 0) <= 0 OR set_terms.per_credit > 1000000
			OR scale(set_terms.per_credit) > 9 OR set_terms.per_credit = 'NaN'
			THEN 'per_credit is above 0, a million at most, and has nine decimals at most'
		WHEN coalesce(set_terms.discount_percent, -1) NOT BETWEEN 0 AND 100 OR scale(set_terms.discount_percent) > 4
			THEN 'discount_percent is 0 to 100, with four decimals at most'
		WHEN coalesce(set_terms.tax_percent, -1) NOT BETWEEN 0 AND 100 OR scale(set_terms.tax_percent) > 4
			THEN 'tax_percent is 0 to 100, with four decimals at most'
		WHEN coalesce(set_terms.due_days, -1) NOT BETWEEN 0 AND 365 THEN 'due_days is 0 to 365'
		WHEN set_terms.seller IS NULL OR set_terms.buyer IS NULL OR set_terms.note IS NULL
			OR octet_length(set_terms.seller) > 2000 OR octet_length(set_terms.buyer) > 2000
			OR octet_length(set_terms.note) > 2000
			OR translate(set_terms.seller || set_terms.buyer || set_terms.note, E'\n', '') ~ '[[:cntrl:]]'
			THEN 'seller, buyer and note are texts of 2,000 bytes at most, whose only control characters are ends of lines'
		WHEN set_terms.tax_name IS NULL OR set_terms.purchase_order IS NULL
			OR octet_length(set_terms.tax_name) > 100 OR octet_length(set_terms.purchase_order) > 100
			OR set_terms.tax_name || set_terms.purchase_order ~ '[[:cntrl:]]'
			THEN 'tax_name and purchase_order are texts of 100 bytes at most, without control characters'
		END;
	IF problem IS NOT NULL THEN
		PERFORM gpucredit_billing.refuse('these terms make no invoice', problem || '.');
	END IF;
	INSERT INTO gpucredit_billing.terms AS t
	VALUES (set_terms.org, set_terms.series, set_terms.currency, set_terms.digits,
		set_terms.per_credit, set_terms.discount_percent, set_terms.tax_name, set_terms.tax_percent,
		set_terms.due_days, set_terms.seller, set_terms.buyer, set_terms.purchase_order,
		set_terms.note, gpucredit.now(), gpucredit_billing.caller())
	ON CONFLICT ON CONSTRAINT terms_pkey DO UPDATE SET series = excluded.series,
		currency = excluded.currency, digits = excluded.digits, per_credit = excluded.per_credit,
		discount_percent = excluded.discount_percent, tax_name = excluded.tax_name,
		tax_percent = excluded.tax_percent, due_days = excluded.due_days, seller = excluded.seller,
		buyer = excluded.buyer, purchase_order = excluded.purchase_order, note = excluded.note,
		changed_at = excluded.changed_at, changed_by = excluded.changed_by;
	PERFORM gpucredit_billing.record(set_terms.org, 'set_terms', gpucredit_billing.caller(), jsonb_build_object(
			'series', set_terms.series, 'currency', set_terms.currency, 'digits', set_terms.digits,
			'per_credit', set_terms.per_credit, 'discount_percent', set_terms.discount_percent,
			'tax_name', set_terms.tax_name, 'tax_percent', set_terms.tax_percent,
			'due_days', set_terms.due_days, 'seller', set_terms.seller, 'buyer', set_terms.buyer,
			'purchase_order', set_terms.purchase_order, 'note', set_terms.note));
END
$$;
COMMENT ON FUNCTION gpucredit_billing.set_terms(text, text, numeric, numeric, text, numeric, text, text, text, text, integer, text, integer) IS
'Terms: how an organisation is invoiced from the next invoice on. currency: three letters (ISO 4217), with so many digits behind the point. per_credit: what one credit costs in it. discount_percent: of the sum of the lines. tax_percent: of the sum less the discount, under tax_name. seller and buyer: the addresses on the invoice, with ends of lines. purchase_order: the buyer''s, unless issue_invoice() names another. note: stands below the sums. series: whose numbers are counted together: one for each seller. Repeating a call changes nothing; invoices that were issued keep their terms.
Errors: UC001 no such organisation; 22023.';

CREATE FUNCTION gpucredit_billing.terms_of(org text) RETURNS SETOF gpucredit_billing.terms
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 1
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_billing.require_org(terms_of.org);
	RETURN QUERY SELECT t.* FROM gpucredit_billing.terms t WHERE t.org = terms_of.org;
END
$$;
COMMENT ON FUNCTION gpucredit_billing.terms_of(text) IS
'Terms: how an organisation is invoiced. Result: a row, or none if nobody has set its terms. Errors: UC001 no such organisation, or one that the session sees a part of.';
