/*
 * 20_invoice.sql: invoices and credit notes.
 *
 * An invoice contains the month that gpucredit.invoice() returns, which never
 * changes once the month has ended: a line for each account, tier, GPU type
 * and price. The part that promotional and granted credit paid is subtracted
 * by separate lines. Each line is rounded to the currency, and all sums are
 * sums of rounded lines, so anybody can verify them.
 *
 * Rows are only ever added. A mistake is corrected by a credit note.
 *
 * Lock order: request key, the organisation's terms, the series.
 */
CREATE TABLE gpucredit_billing.document (
	document bigint GENERATED ALWAYS AS IDENTITY,
	kind text NOT NULL,
	series text COLLATE "C" NOT NULL,
	serial bigint NOT NULL,
	number text COLLATE "C" NOT NULL GENERATED ALWAYS AS (series || '-' || lpad(serial::text, greatest(6, length(serial::text)), '0')) STORED,
	org text COLLATE "C" NOT NULL,
	month date NOT NULL,
	corrects bigint,
	issued_at timestamptz NOT NULL,
	issued_by name NOT NULL,
	due_on date,
	currency text NOT NULL,
	digits integer NOT NULL,
	per_credit numeric NOT NULL,
	subtotal numeric NOT NULL,
	discount_percent numeric NOT NULL,
	discount numeric NOT NULL,
	taxable numeric NOT NULL,
	tax_name text NOT NULL,
	tax_percent numeric NOT NULL,
	tax numeric NOT NULL,
	total numeric NOT NULL,
	seller text NOT NULL,
	buyer text NOT NULL,
	purchase_order text NOT NULL,
	note text NOT NULL,
	reason text NOT NULL,
	CONSTRAINT document_pkey PRIMARY KEY (document),
	CONSTRAINT document_serial UNIQUE (series, serial),
	CONSTRAINT document_kind CHECK (kind IN ('invoice', 'credit_note')),
	CONSTRAINT document_corrects CHECK ((kind = 'credit_note') = (corrects IS NOT NULL)),
	CONSTRAINT document_of FOREIGN KEY (corrects) REFERENCES gpucredit_billing.document,
	CONSTRAINT document_sums CHECK (taxable = subtotal - discount AND total = taxable + tax)
);
CREATE INDEX document_org ON gpucredit_billing.document (org, document);
CREATE INDEX document_corrected ON gpucredit_billing.document (corrects) WHERE corrects IS NOT NULL;
COMMENT ON TABLE gpucredit_billing.document IS
'Invoices and credit notes, as they were issued. Amounts of a credit note are below 0';
COMMENT ON COLUMN gpucredit_billing.document.number IS 'The number on the document: its series and its place in it, without gaps.';
COMMENT ON COLUMN gpucredit_billing.document.month IS 'The first day of the month (UTC) that it is for.';
COMMENT ON COLUMN gpucredit_billing.document.corrects IS 'The invoice that a credit note takes back, or a part of it.';

CREATE TABLE gpucredit_billing.document_line (
	document bigint NOT NULL,
	line integer NOT NULL,
	kind text NOT NULL,
	account text COLLATE "C" NOT NULL,
	tier text,
	gpu_type text,
	jobs bigint,
	gpu_hours numeric,
	per_gpu_hour numeric,
	unit_price numeric,
	credits numeric NOT NULL,
	amount numeric NOT NULL,
	CONSTRAINT document_line_pkey PRIMARY KEY (document, line),
	CONSTRAINT document_line_document FOREIGN KEY (document) REFERENCES gpucredit_billing.document,
	CONSTRAINT document_line_kind CHECK (kind IN ('usage', 'holds', 'promo', 'grant', 'correction'))
);
COMMENT ON TABLE gpucredit_billing.document_line IS
'Lines of invoices and credit notes';
COMMENT ON COLUMN gpucredit_billing.document_line.kind IS 'usage of GPUs; holds: an account''s own; promo and grant: what such credit paid for, taken off; correction.';
COMMENT ON COLUMN gpucredit_billing.document_line.per_gpu_hour IS 'Credits for an hour of one GPU.';
COMMENT ON COLUMN gpucredit_billing.document_line.unit_price IS 'The same in the currency, not rounded.';
COMMENT ON COLUMN gpucredit_billing.document_line.credits IS 'What was spent less what was refunded, to the micro-credit.';
COMMENT ON COLUMN gpucredit_billing.document_line.amount IS 'credits times per_credit, rounded to the currency.';

DO $$
DECLARE
	t text;
BEGIN
	FOREACH t IN ARRAY '{document,document_line}'::text[] LOOP
		EXECUTE format('CREATE TRIGGER %I BEFORE UPDATE OR DELETE OR TRUNCATE ON gpucredit_billing.%I'
			' FOR EACH STATEMENT EXECUTE FUNCTION gpucredit_billing.refuse_change()', t || '_append_only', t);
	END LOOP;
END
$$;

/*
 * Returns how much the credit that nobody bought has paid in a month: the
 * amount spent minus the amount refunded.
 */
CREATE FUNCTION gpucredit_billing.unpaid_credit(org text, month date)
RETURNS TABLE (kind text, account text, credits numeric)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT b.kind, e.account, sum(CASE WHEN e.target = 'spent' THEN e.amount::numeric ELSE -e.amount::numeric END)
	FROM gpucredit.entry e JOIN gpucredit.bucket b ON b.org = e.org AND b.bucket = e.bucket
	WHERE e.org = unpaid_credit.org AND b.kind IN ('promo', 'grant')
		AND e.at >= (date_trunc('month', unpaid_credit.month::timestamp) AT TIME ZONE 'UTC')
		AND e.at < ((date_trunc('month', unpaid_credit.month::timestamp) + interval '1 month') AT TIME ZONE 'UTC')
		AND (e.target = 'spent') <> (e.source = 'spent')
	GROUP BY b.kind, e.account
	HAVING sum(CASE WHEN e.target = 'spent' THEN e.amount::numeric ELSE -e.amount::numeric END) <> 0;
END;
COMMENT ON FUNCTION gpucredit_billing.unpaid_credit(text, date) IS
'Internal: what promotional and granted credit has paid in a month, by account: settlements less refunds, as entries say.';

/* Returns the lines of an invoice for a month. */
CREATE FUNCTION gpucredit_billing.lines_of_month(org text, month date, per_credit numeric, digits integer)
RETURNS TABLE (line bigint, kind text, account text, tier text, gpu_type text, jobs bigint,
	gpu_hours numeric, per_gpu_hour numeric, unit_price numeric, credits numeric, amount numeric)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT row_number() OVER (ORDER BY l.rank, l.account COLLATE "C", l.tier COLLATE "C", l.gpu_type COLLATE "C", l.per_gpu_hour),
		l.kind, l.account, l.tier, l.gpu_type, l.jobs, l.gpu_hours, l.per_gpu_hour,
		l.per_gpu_hour * lines_of_month.per_credit, l.credits,
		round(l.credits * lines_of_month.per_credit, lines_of_month.digits)
	FROM (
		SELECT 1 AS rank, CASE WHEN i.gpu_type IS NULL THEN 'holds' ELSE 'usage' END AS kind,
			i.account, i.tier, i.gpu_type, i.jobs, i.gpu_hours, i.per_gpu_hour::numeric AS per_gpu_hour,
			i.amount::numeric AS credits
		FROM gpucredit.invoice(lines_of_month.org, lines_of_month.month) i
		WHERE i.amount::numeric <> 0 OR i.gpu_hours <> 0
		UNION ALL
		SELECT 2, u.kind, u.account, NULL, NULL, NULL, NULL, NULL, -u.credits
		FROM gpucredit_billing.unpaid_credit(lines_of_month.org, lines_of_month.month) u) l
	ORDER BY 1;
END;
COMMENT ON FUNCTION gpucredit_billing.lines_of_month(text, date, numeric, integer) IS
'Internal: the lines of a month''s invoice.';

/* Returns the next number of a series. */
CREATE FUNCTION gpucredit_billing.next_serial(series text) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	serial bigint;
BEGIN
	INSERT INTO gpucredit_billing.series AS s VALUES (next_serial.series, 1)
	ON CONFLICT ON CONSTRAINT series_pkey DO UPDATE SET last = s.last + 1
	RETURNING s.last INTO serial;
	RETURN serial;
END
$$;
COMMENT ON FUNCTION gpucredit_billing.next_serial(text) IS
'Internal: the next number of a series, whose row stays locked until the transaction ends.';

/*
 * Returns the amount of an invoice that no credit note has taken back: before
 * tax, the tax, and with tax. An invoice of zero counts as open until a credit
 * note takes it back.
 */
CREATE FUNCTION gpucredit_billing.open_amount(document bigint, OUT taxable numeric, OUT tax numeric,
	OUT total numeric, OUT is_open boolean)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT sum(p.taxable), sum(p.tax), sum(p.total), sum(p.taxable) <> 0 OR count(*) = 1 FROM gpucredit_billing.document p
	WHERE p.document = open_amount.document OR p.corrects = open_amount.document;
END;
COMMENT ON FUNCTION gpucredit_billing.open_amount(bigint) IS
'Internal: what is left of an invoice after its credit notes, and whether no note has taken it back as a whole.';

CREATE TYPE gpucredit_billing.issue_result AS (
	document bigint,
	number text,
	total numeric,
	currency text,
	replayed boolean
);
COMMENT ON TYPE gpucredit_billing.issue_result IS
'What issue_invoice() and issue_credit_note() answer: the document''s number in lists, the number on it, and its total';
REVOKE ALL ON TYPE gpucredit_billing.issue_result FROM PUBLIC;

CREATE FUNCTION gpucredit_billing.answer_document(document bigint, replayed boolean)
RETURNS gpucredit_billing.issue_result
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT p.document, p.number, p.total, p.currency, answer_document.replayed
	FROM gpucredit_billing.document p WHERE p.document = answer_document.document;
END;
COMMENT ON FUNCTION gpucredit_billing.answer_document(bigint, boolean) IS
'Internal: what a call answers that has issued a document.';

CREATE FUNCTION gpucredit_billing.issue_invoice(org text, month date, key text,
	purchase_order text DEFAULT NULL) RETURNS gpucredit_billing.issue_result
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	first date := date_trunc('month', issue_invoice.month::timestamp);
	old jsonb;
	t gpucredit_billing.terms;
	number bigint;
	serial bigint;
	sums record;
	at timestamptz := gpucredit.now();
	discount numeric;
	tax numeric;
BEGIN
	PERFORM gpucredit_billing.require_org(issue_invoice.org);
	IF issue_invoice.month IS NULL OR NOT isfinite(issue_invoice.month)
		OR issue_invoice.month < '2000-01-01'
		OR ((first + interval '1 month') AT TIME ZONE 'UTC') > at
	THEN
		PERFORM gpucredit_billing.refuse('the month is not over',
			format('An invoice is for a month (UTC) that has ended; it was asked for %s.', coalesce(issue_invoice.month::text, 'none')),
			'Pass any day of an earlier month.');
	ELSIF octet_length(issue_invoice.purchase_order) > 100 OR issue_invoice.purchase_order ~ '[[:cntrl:]]' THEN
		PERFORM gpucredit_billing.refuse('purchase_order has 100 bytes at most, and no control characters',
			'It stands on the invoice.');
	END IF;
	old := gpucredit_billing.request_begin(issue_invoice.org, issue_invoice.key, 'issue_invoice',
		jsonb_build_object('month', first, 'purchase_order', issue_invoice.purchase_order));
	IF old IS NOT NULL THEN
		RETURN gpucredit_billing.answer_document((old ->> 'document')::bigint, true);
	END IF;
	/*
	 * Of two concurrent calls, the second waits here, and then finds the
	 * invoice of the first.
	 */
	SELECT o.* INTO t FROM gpucredit_billing.terms o WHERE o.org = issue_invoice.org FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		PERFORM gpucredit_billing.raise('UC701', 'the organisation has no terms',
			'An invoice needs a currency, a price for one credit, and more.',
			'Call gpucredit_billing.set_terms() first.');
	END IF;
	UPDATE gpucredit_billing.terms o SET changed_at = o.changed_at WHERE o.org = issue_invoice.org;
	IF EXISTS (SELECT FROM gpucredit_billing.document p, gpucredit_billing.open_amount(p.document) o
		WHERE p.org = issue_invoice.org AND p.month = first AND p.kind = 'invoice' AND o.is_open)
	THEN
		PERFORM gpucredit_billing.raise('55000', 'the month has an invoice',
			format('Organisation "%s" has one for %s that no credit note has taken back as a whole.',
				issue_invoice.org, to_char(first, 'YYYY-MM')),
			'Call gpucredit_billing.issue_credit_note() first, or leave it as it is.');
	END IF;
	SELECT count(*) AS n, coalesce(sum(l.amount), 0) AS subtotal INTO sums
	FROM gpucredit_billing.lines_of_month(issue_invoice.org, first, t.per_credit, t.digits) l;
	IF sums.n = 0 THEN
		PERFORM gpucredit_billing.refuse('the month has nothing to invoice',
			format('Organisation "%s" used nothing in %s.', issue_invoice.org, to_char(first, 'YYYY-MM')),
			'Pass another month.');
	END IF;
	/*
	 * This also applies to a negative subtotal: returned amounts had been
	 * invoiced with the discount.
	 */
	discount := round(sums.subtotal * t.discount_percent / 100, t.digits);
	tax := round((sums.subtotal - discount) * t.tax_percent / 100, t.digits);
	serial := gpucredit_billing.next_serial(t.series);
	at := gpucredit.now();		/* read under the series' lock, so that a later
								 * number never has an earlier date */
	INSERT INTO gpucredit_billing.document AS p (kind, series, serial, org, month, issued_at, issued_by,
		due_on, currency, digits, per_credit, subtotal, discount_percent, discount, taxable,
		tax_name, tax_percent, tax, total, seller, buyer, purchase_order, note, reason)
	VALUES ('invoice', t.series, serial, issue_invoice.org, first,
		at, gpucredit_billing.caller(), (at AT TIME ZONE 'UTC')::date + t.due_days, t.currency, t.digits,
		t.per_credit, sums.subtotal, t.discount_percent, discount, sums.subtotal - discount,
		t.tax_name, t.tax_percent, tax, sums.subtotal - discount + tax, t.seller, t.buyer,
		coalesce(issue_invoice.purchase_order, t.purchase_order), t.note, '')
	RETURNING p.document INTO number;
	INSERT INTO gpucredit_billing.document_line
	SELECT number, l.* FROM gpucredit_billing.lines_of_month(issue_invoice.org, first, t.per_credit, t.digits) l;
	IF (SELECT sum(l.amount) FROM gpucredit_billing.document_line l WHERE l.document = number)
		IS DISTINCT FROM sums.subtotal
	THEN
		RAISE EXCEPTION 'the month changed while it was invoiced'
			USING ERRCODE = 'serialization_failure', HINT = 'Repeat the call.';
	END IF;
	PERFORM gpucredit_billing.grant_plans(issue_invoice.org);
	PERFORM gpucredit_billing.record(issue_invoice.org, 'issue_invoice', gpucredit_billing.caller(),
		jsonb_build_object('document', number, 'month', first, 'total', sums.subtotal - discount + tax));
	PERFORM gpucredit_billing.request_end(issue_invoice.org, issue_invoice.key,
		jsonb_build_object('document', number));
	RETURN gpucredit_billing.answer_document(number, false);
END
$$;
COMMENT ON FUNCTION gpucredit_billing.issue_invoice(text, date, text, text) IS
'Invoices: issues the invoice of an organisation''s month (UTC) that is over, under its terms, with the next number of its series. month: any day of it. A line for each account, tier, type of GPU and price, as gpucredit.invoice() has them, and lines that take off what promotional and granted credit paid. purchase_order: the buyer''s, in place of that of the terms. Key: names the call; repeating it answers the same invoice. A month has one invoice, and another one after credit notes have taken the first back as a whole.
Result: the document, its number and its total. Errors: UC001; UC701 no terms; 55000 the month has an invoice; UC201 the key was used with other arguments; 22023.';

CREATE FUNCTION gpucredit_billing.issue_credit_note(document bigint, key text, reason text,
	amount numeric DEFAULT NULL) RETURNS gpucredit_billing.issue_result
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	old jsonb;
	i gpucredit_billing.document;
	rest record;
	net numeric;
	tax numeric;
	number bigint;
	serial bigint;
	at timestamptz;
BEGIN
	SELECT p.* INTO i FROM gpucredit_billing.document p
	WHERE p.document = issue_credit_note.document AND p.kind = 'invoice'
		AND gpucredit_internal.may_read(p.org, '');
	IF NOT FOUND THEN
		PERFORM gpucredit_billing.raise('UC701', 'the invoice does not exist',
			'No invoice has that number, or the session may not see it.',
			'gpucredit_billing.invoices() lists them.');
	ELSIF coalesce(octet_length(issue_credit_note.reason), 0) NOT BETWEEN 1 AND 500
		OR issue_credit_note.reason ~ '[[:cntrl:]]'
	THEN
		PERFORM gpucredit_billing.refuse('a credit note needs a reason of 500 bytes at most, without control characters',
			'It stands on the document.');
	END IF;
	old := gpucredit_billing.request_begin(i.org, issue_credit_note.key, 'issue_credit_note',
		jsonb_build_object('document', i.document, 'reason', issue_credit_note.reason,
			'amount', trim_scale(issue_credit_note.amount)));
	IF old IS NOT NULL THEN
		RETURN gpucredit_billing.answer_document((old ->> 'document')::bigint, true);
	END IF;
	/*
	 * This is an update, so that of two concurrent calls each sees the other's
	 * credit note.
	 */
	UPDATE gpucredit_billing.terms o SET changed_at = o.changed_at WHERE o.org = i.org;
	SELECT * INTO rest FROM gpucredit_billing.open_amount(i.document);
	net := coalesce(issue_credit_note.amount, rest.taxable);
	IF NOT rest.is_open OR net = 'NaN' OR net <> round(net, i.digits) OR (net = 0) <> (rest.taxable = 0)
		OR net * sign(rest.taxable) < 0 OR abs(net) > abs(rest.taxable)
	THEN
		PERFORM gpucredit_billing.refuse('a credit note is for what is left of its invoice, or a part of it',
			format('Left are %s %s before tax, and it was asked for %s.', rest.taxable, i.currency, net),
			'Pass an amount before tax with the decimals of the currency, or none for all that is left.');
	END IF;
	/*
	 * Computed from the rest, so that many small notes, each rounded, do not
	 * take back more tax than was charged.
	 */
	tax := rest.tax - round((rest.taxable - net) * i.tax_percent / 100, i.digits);
	serial := gpucredit_billing.next_serial(i.series);
	at := gpucredit.now();
	INSERT INTO gpucredit_billing.document AS p (kind, series, serial, org, month, corrects, issued_at,
		issued_by, due_on, currency, digits, per_credit, subtotal, discount_percent, discount,
		taxable, tax_name, tax_percent, tax, total, seller, buyer, purchase_order, note, reason)
	VALUES ('credit_note', i.series, serial, i.org, i.month, i.document,
		at, gpucredit_billing.caller(), NULL, i.currency, i.digits, i.per_credit, -net, 0, 0, -net, i.tax_name,
		i.tax_percent, -tax, -net - tax, i.seller, i.buyer, i.purchase_order, i.note,
		issue_credit_note.reason)
	RETURNING p.document INTO number;
	INSERT INTO gpucredit_billing.document_line (document, line, kind, account, credits, amount)
	VALUES (number, 1, 'correction', '', 0, -net);
	PERFORM gpucredit_billing.record(i.org, 'issue_credit_note', gpucredit_billing.caller(), jsonb_build_object(
			'document', number, 'corrects', i.document, 'total', -net - tax, 'reason', issue_credit_note.reason));
	PERFORM gpucredit_billing.request_end(i.org, issue_credit_note.key, jsonb_build_object('document', number));
	RETURN gpucredit_billing.answer_document(number, false);
END
$$;
COMMENT ON FUNCTION gpucredit_billing.issue_credit_note(bigint, text, text, numeric) IS
'Invoices: takes an invoice back, or a part of it, by a credit note with the next number of its series. document: the invoice. amount: before tax, in the invoice''s currency; without it all that is left. Its tax is that by which the tax of what is left falls, so of what is left the tax is always right, and in the end an invoice and its notes sum to nothing. An invoice of nothing is taken back by a note of nothing. reason: stands on the document. No credit moves: gpucredit.refund() gives credit back. Key: names the call; repeating it answers the same note.
Result: the document, its number and its total, which is below 0. Errors: UC701 no such invoice; UC201 the key was used with other arguments; 22023.';

CREATE FUNCTION gpucredit_billing.invoices(org text DEFAULT NULL, "limit" integer DEFAULT 100,
	after bigint DEFAULT NULL)
RETURNS TABLE (document bigint, kind text, number text, org text, month date,
	issued_at timestamptz, due_on date, currency text, total numeric, open numeric, corrects text,
	purchase_order text)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT gpucredit_billing.require_org(invoices.org) WHERE invoices.org IS NOT NULL;
	SELECT d.document, d.kind, d.number, d.org, d.month, d.issued_at, d.due_on, d.currency, d.total,
		CASE WHEN d.kind = 'invoice' THEN (gpucredit_billing.open_amount(d.document)).total END,
		(SELECT c.number FROM gpucredit_billing.document c WHERE c.document = d.corrects),
		d.purchase_order
	FROM gpucredit_billing.document d
	WHERE (invoices.org IS NULL OR d.org = invoices.org)
		AND gpucredit_internal.may_read(d.org, '')
		AND (invoices.after IS NULL OR d.document < invoices.after)
	ORDER BY d.document DESC LIMIT least(invoices."limit", 1001)
$$;
COMMENT ON FUNCTION gpucredit_billing.invoices(text, integer, bigint) IS
'Invoices: those of an organisation and their credit notes, or of all that the session may see, the newest first, below the document after. Tenants see those of organisations that they are bound to as a whole.
Result: a row each; open: what an invoice has left after its credit notes; corrects: the number of the invoice that a note is for. Errors: UC001 no such organisation, or one that the session sees a part of.';

/* Returns the document, if the session may see it. */
CREATE FUNCTION gpucredit_billing.find_document(document bigint) RETURNS gpucredit_billing.document
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	p gpucredit_billing.document;
BEGIN
	SELECT o.* INTO p FROM gpucredit_billing.document o
	WHERE o.document = find_document.document AND gpucredit_internal.may_read(o.org, '');
	IF NOT FOUND THEN
		PERFORM gpucredit_billing.raise('UC701', 'the invoice does not exist',
			'No invoice or credit note has that number, or the session may not see it.',
			'gpucredit_billing.invoices() lists them.');
	END IF;
	RETURN p;
END
$$;
COMMENT ON FUNCTION gpucredit_billing.find_document(bigint) IS
'Internal: an invoice or credit note. Errors: UC701 none, or one that the session may not see.';

CREATE FUNCTION gpucredit_billing.invoice(document bigint) RETURNS gpucredit_billing.document
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$ SELECT gpucredit_billing.find_document(invoice.document) $$;
COMMENT ON FUNCTION gpucredit_billing.invoice(bigint) IS
'Invoices: all that stands on an invoice or credit note but its lines. Errors: UC701 none, or one that the session may not see.';

CREATE FUNCTION gpucredit_billing.invoice_lines(document bigint)
RETURNS TABLE (line integer, kind text, account text, tier text, gpu_type text, jobs bigint,
	gpu_hours numeric, per_gpu_hour numeric, unit_price numeric, credits numeric, amount numeric)
LANGUAGE sql STABLE SECURITY DEFINER ROWS 20
SET search_path = pg_catalog, pg_temp
AS $$
	SELECT l.line, l.kind, l.account, l.tier, l.gpu_type, l.jobs, l.gpu_hours, l.per_gpu_hour,
		l.unit_price, l.credits, l.amount
	FROM gpucredit_billing.find_document(invoice_lines.document) p
		JOIN gpucredit_billing.document_line l ON l.document = p.document
	ORDER BY l.line
$$;
COMMENT ON FUNCTION gpucredit_billing.invoice_lines(bigint) IS
'Invoices: the lines of an invoice or credit note. Result: per_gpu_hour in credits and unit_price in the currency, for one hour of one GPU; credits to the micro-credit; amount in the currency. Errors: UC701 none, or one that the session may not see.';
