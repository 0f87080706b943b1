/*
 * 30_html.sql: an invoice as an HTML page, which a browser can print and
 * WeasyPrint can convert to a PDF (tools/invoice-pdf).
 *
 * The page is built only from the issued document and loads nothing from
 * elsewhere: no script, picture, font or address.
 */
CREATE FUNCTION gpucredit_billing.escape_html(value text) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT replace(replace(replace(replace(replace(coalesce(escape_html.value, ''), '&', '&amp;'),
		'<', '&lt;'), '>', '&gt;'), '"', '&quot;'), '''', '&#39;');
END;
COMMENT ON FUNCTION gpucredit_billing.escape_html(text) IS
'Internal: a text as HTML shows it.';

/*
 * Formats an amount with its decimals, and with blanks between groups of three
 * digits.
 */
CREATE FUNCTION gpucredit_billing.show_amount(amount numeric, digits integer) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT replace(regexp_replace(split_part(round(show_amount.amount, show_amount.digits)::text, '.', 1),
			'(\d)(?=(\d{3})+$)', '\1' || chr(8239), 'g'), '-', chr(8722))
		|| CASE WHEN show_amount.digits > 0
			THEN '.' || split_part(round(show_amount.amount, show_amount.digits)::text, '.', 2) ELSE '' END;
END;
COMMENT ON FUNCTION gpucredit_billing.show_amount(numeric, integer) IS
'Internal: an amount as people read it.';

CREATE FUNCTION gpucredit_billing.line_text(l gpucredit_billing.document_line, reason text) RETURNS text
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
	SELECT CASE (l).kind
		WHEN 'usage' THEN concat_ws(', ', (l).gpu_type, replace((l).tier, '_', ' '),
			(l).jobs || CASE (l).jobs WHEN 1 THEN ' job' ELSE ' jobs' END)
		WHEN 'holds' THEN 'Holds of applications'
		WHEN 'promo' THEN 'Paid by promotional credit'
		WHEN 'grant' THEN 'Paid by granted credit'
		ELSE line_text.reason END;
END;
COMMENT ON FUNCTION gpucredit_billing.line_text(gpucredit_billing.document_line, text) IS
'Internal: what a line is for.';

CREATE FUNCTION gpucredit_billing.invoice_html(document bigint) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	d gpucredit_billing.document := gpucredit_billing.find_document(invoice_html.document);
	title text := CASE d.kind WHEN 'invoice' THEN 'Invoice ' ELSE 'Credit note ' END || d.number;
	corrected gpucredit_billing.document;
	lines text;
	facts text;
	sums text;
BEGIN
	IF d.corrects IS NOT NULL THEN
		corrected := gpucredit_billing.find_document(d.corrects);
	END IF;
	SELECT string_agg(format('<tr><td>%s<td>%s<td class=n>%s<td class=n>%s<td class=n>%s',
			gpucredit_billing.escape_html(coalesce(nullif(l.account, ''), d.org)),
			gpucredit_billing.escape_html(gpucredit_billing.line_text(l, d.reason)),
			CASE WHEN l.gpu_hours IS NOT NULL THEN gpucredit_billing.show_amount(l.gpu_hours, 3) ELSE '' END,
			CASE WHEN l.unit_price IS NOT NULL THEN gpucredit_billing.show_amount(l.unit_price,
				greatest(scale(trim_scale(l.unit_price)), d.digits)) ELSE '' END,
			gpucredit_billing.show_amount(l.amount, d.digits)), E'\n' ORDER BY l.line)
	INTO lines FROM gpucredit_billing.document_line l WHERE l.document = d.document;
	SELECT string_agg(format('<tr><th>%s<td>%s', f.name, gpucredit_billing.escape_html(f.value)), E'\n' ORDER BY f.n)
	INTO facts
	FROM (VALUES (1, 'Issued', to_char(d.issued_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')),
			(2, 'Month', to_char(d.month, 'YYYY-MM')),
			(3, 'Due', to_char(d.due_on, 'YYYY-MM-DD')),
			(4, 'Purchase order', nullif(d.purchase_order, '')),
			(5, 'For invoice', corrected.number)) AS f (n, name, value)
	WHERE f.value IS NOT NULL;
	SELECT string_agg(format('<tr%s><th colspan=4>%s<td class=n>%s', s.class,
			gpucredit_billing.escape_html(s.name), gpucredit_billing.show_amount(s.amount, d.digits)), E'\n' ORDER BY s.n)
	INTO sums
	FROM (VALUES (1, '', 'Sum', d.subtotal),
			(2, '', format('Discount %s %%', trim_scale(d.discount_percent)), nullif(-d.discount, 0)),
			(3, '', format('%s %s %%', d.tax_name, trim_scale(d.tax_percent)), d.tax),
			(4, ' class=total', 'Total ' || d.currency, d.total)) AS s (n, class, name, amount)
	WHERE s.amount IS NOT NULL;
	RETURN format($html$<!doctype html>
<html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width"><title>%1$s</title>
<style>
@page { size: A4; margin: 20mm; @bottom-right { content: counter(page) " / " counter(pages); font: 8pt sans-serif; color: #5a6167 } }
body { font: 10.5pt/1.45 system-ui, "DejaVu Sans", sans-serif; color: #16191c; max-width: 46rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 17pt; font-weight: 600; margin: 0 0 1.5rem }
.parties { display: flex; gap: 3rem; flex-wrap: wrap; justify-content: space-between; margin-bottom: 2rem }
.parties p { white-space: pre-line; margin: 0 0 1rem; overflow-wrap: anywhere }
.wide { overflow-x: auto }
@media screen { .wide table { min-width: 34rem } }
table { width: 100%%; border-collapse: collapse } th, td { font-weight: inherit; text-align: left; padding: .3rem .6rem .3rem 0; vertical-align: top; overflow-wrap: anywhere }
thead th { color: #5a6167; font-weight: 400; border-bottom: 1px solid #16191c } .n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; padding-right: 0; padding-left: .6rem }
tbody tr { break-inside: avoid } tfoot th { font-weight: 400; text-align: right } tfoot tr:first-child > * { border-top: 1px solid #c9ced2 } .total > * { font-weight: 600 }
table.facts { width: auto } .facts th, .facts td { padding-top: 0; padding-bottom: 0 } .facts th { color: #5a6167; font-weight: 400; padding-right: 1.25rem }
.note { white-space: pre-line; margin-top: 2rem; color: #5a6167; overflow-wrap: anywhere }
@media screen and (prefers-color-scheme: dark) { body { background: #14171a; color: #e8eaec } .facts th, thead th, .note { color: #a6adb3 } thead th { border-color: #e8eaec } }
</style>
<div class=parties><p>%2$s</p><div><h1>%1$s</h1><table class=facts>%3$s</table></div></div>
<p class=buyer style="white-space: pre-line">%4$s</p>
<div class=wide><table><thead><tr><th>Account<th>For<th class=n>GPU-hours<th class=n>Price, %7$s<th class=n>Amount, %7$s<tbody>
%5$s
<tfoot>
%6$s
</table></div>
<p class=note>%8$s</p>
</html>
$html$, gpucredit_billing.escape_html(title), gpucredit_billing.escape_html(d.seller), facts,
		gpucredit_billing.escape_html(coalesce(nullif(d.buyer, ''), d.org)), lines, sums,
		gpucredit_billing.escape_html(d.currency), gpucredit_billing.escape_html(d.note));
END
$$;
COMMENT ON FUNCTION gpucredit_billing.invoice_html(bigint) IS
'Invoices: an invoice or credit note as a page of HTML, for screen and print, without anything from elsewhere. The same document is always the same page. Errors: UC701 none, or one that the session may not see.';
