/*
 * 97_verify.sql: the invariants of invoices, which hold at every instant.
 */
CREATE FUNCTION gpucredit_billing.verify()
RETURNS TABLE (org text, invariant text, detail text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	d gpucredit_billing.document;
	kept timestamptz := gpucredit_internal.kept_from('entry');
BEGIN
	RETURN QUERY
		SELECT ''::text, 'numbers_have_no_gaps'::text, format('series %s ends at %s and has %s of %s',
			s.series, s.last, n.n, n.last)
		FROM gpucredit_billing.series s LEFT JOIN (
			SELECT o.series, count(*) AS n, max(o.serial) AS last
			FROM gpucredit_billing.document o GROUP BY o.series) n ON n.series = s.series
		WHERE s.last IS DISTINCT FROM n.n OR s.last IS DISTINCT FROM n.last;
	RETURN QUERY
		SELECT o.org, 'lines_sum_to_the_document'::text, o.number
		FROM gpucredit_billing.document o
		WHERE o.subtotal IS DISTINCT FROM (SELECT sum(l.amount) FROM gpucredit_billing.document_line l
			WHERE l.document = o.document);
	RETURN QUERY
		SELECT o.org, 'notes_do_not_exceed_the_invoice'::text, o.number
		FROM gpucredit_billing.document o CROSS JOIN LATERAL gpucredit_billing.open_amount(o.document) a
		WHERE o.kind = 'invoice' AND (a.taxable * sign(o.taxable) < 0
			OR a.tax <> round(a.taxable * o.tax_percent / 100, o.digits));
	RETURN QUERY
		SELECT o.org, 'a_month_has_one_invoice'::text, to_char(o.month, 'YYYY-MM')
		FROM gpucredit_billing.document o CROSS JOIN LATERAL gpucredit_billing.open_amount(o.document) a
		WHERE o.kind = 'invoice' AND a.is_open
		GROUP BY o.org, o.month HAVING count(*) > 1;
	RETURN QUERY
		SELECT p.org, 'a_plan_is_granted_ahead'::text, format('plan %s lacks %s', p.plan, to_char(m, 'YYYY-MM'))
		FROM gpucredit_billing.plan p CROSS JOIN LATERAL generate_series(p.first_month::timestamp,
			least(p.last_month, gpucredit_billing.this_month())::timestamp, interval '1 month') AS s (m)
		WHERE NOT EXISTS (SELECT FROM gpucredit_billing.plan_grant g WHERE g.plan = p.plan AND g.month = m::date);
	RETURN QUERY
		SELECT p.org, 'a_month_of_a_plan_is_one_bucket'::text, format('plan %s, %s', p.plan, to_char(g.month, 'YYYY-MM'))
		FROM gpucredit_billing.plan p JOIN gpucredit_billing.plan_grant g ON g.plan = p.plan
			LEFT JOIN gpucredit.bucket b ON b.org = p.org AND b.bucket = g.bucket
		WHERE g.bucket IS NOT NULL AND (b.account, b.issued::numeric, b.kind) IS DISTINCT FROM (p.account, p.credits, p.kind);
	/* A transfer makes buckets with the same memo, which were not issued. */
	RETURN QUERY
		SELECT b.org, 'a_month_of_a_plan_is_one_bucket'::text, b.memo
		FROM gpucredit.bucket b
		WHERE b.memo ~ '^plan [0-9]+, [0-9]{4}-[0-9]{2}$' AND EXISTS (SELECT FROM gpucredit.entry e
			WHERE e.org = b.org AND e.bucket = b.bucket AND e.operation = 'issue')
		GROUP BY b.org, b.memo HAVING count(*) > 1;
	RETURN QUERY
		SELECT o.org, 'a_paid_order_is_one_bucket'::text, format('order %s', o.top_up_order)
		FROM gpucredit_billing.top_up_order o
			LEFT JOIN gpucredit.bucket b ON b.org = o.org AND b.bucket = o.bucket
		WHERE o.state = 'paid' AND (b.account, b.issued::numeric, b.kind) IS DISTINCT FROM (o.account, o.credits, 'paid'::text);
	RETURN QUERY
		SELECT p.org, 'a_payment_is_one_bucket'::text, format('payment %s', p.payment)
		FROM gpucredit_billing.payment p
			LEFT JOIN gpucredit.bucket b ON b.org = p.org AND b.bucket = p.bucket
		WHERE p.bucket IS NOT NULL AND (b.account, b.issued::numeric, b.kind) IS DISTINCT FROM (p.account, p.credits, 'paid'::text)
			OR p.bucket IS NULL AND p.refunded_at IS NULL;
	/* Compare with the entries, for months whose entries are all kept. */
	FOR d IN SELECT o.* FROM gpucredit_billing.document o
		WHERE o.kind = 'invoice' AND (kept IS NULL OR o.month::timestamp AT TIME ZONE 'UTC' > kept)
	LOOP
		RETURN QUERY
			SELECT d.org, 'invoice_is_what_entries_say'::text, d.number || ', line ' || coalesce(l.line, e.line)
			FROM (SELECT i.* FROM gpucredit_billing.document_line i WHERE i.document = d.document) l
				FULL JOIN gpucredit_billing.lines_of_month(d.org, d.month, d.per_credit, d.digits) e
				ON e.line = l.line
			WHERE (l.kind, l.account, l.credits, l.amount) IS DISTINCT FROM (e.kind, e.account, e.credits, e.amount)
				OR l.unit_price IS DISTINCT FROM e.unit_price OR l.gpu_hours IS DISTINCT FROM e.gpu_hours;
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_billing.verify() IS
'Upkeep: what does not hold, of invoices, credit notes, plans, payments and top-ups; nothing if all is well. Recomputes each invoice whose month is kept from entries. Result: the organisation, the invariant and what breaks it.';
