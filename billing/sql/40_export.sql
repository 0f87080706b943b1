/*
 * 40_export.sql: a month's usage in the columns of FOCUS 1.2, the FinOps Open
 * Cost and Usage Specification.
 *
 * A row is a line of gpucredit.invoice(): one account, tier, GPU type and
 * price. All amounts are in the currency of the organisation's terms. Columns
 * for things that do not exist here, such as regions, are NULL, as FOCUS
 * requires.
 */
CREATE FUNCTION gpucredit_billing.focus_usage(org text, month date)
RETURNS TABLE ("BilledCost" numeric, "BillingAccountId" text, "BillingAccountName" text,
	"BillingAccountType" text, "BillingCurrency" text, "BillingPeriodEnd" timestamptz,
	"BillingPeriodStart" timestamptz, "ChargeCategory" text, "ChargeClass" text,
	"ChargeDescription" text, "ChargeFrequency" text, "ChargePeriodEnd" timestamptz,
	"ChargePeriodStart" timestamptz, "ConsumedQuantity" numeric, "ConsumedUnit" text,
	"ContractedCost" numeric, "ContractedUnitPrice" numeric, "EffectiveCost" numeric,
	"InvoiceId" text, "InvoiceIssuerName" text, "ListCost" numeric, "ListUnitPrice" numeric,
	"PricingCategory" text, "PricingCurrency" text, "PricingQuantity" numeric, "PricingUnit" text,
	"ProviderName" text, "PublisherName" text, "RegionId" text, "ResourceId" text,
	"ServiceCategory" text, "ServiceName" text, "ServiceSubcategory" text, "SkuId" text,
	"SkuPriceId" text, "SubAccountId" text, "SubAccountName" text, "SubAccountType" text,
	"Tags" json)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 20
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	t gpucredit_billing.terms;
	first timestamptz := date_trunc('month', focus_usage.month::timestamp) AT TIME ZONE 'UTC';
	upto timestamptz := (date_trunc('month', focus_usage.month::timestamp) + interval '1 month') AT TIME ZONE 'UTC';
	invoiced text;
	issuer text;
BEGIN
	PERFORM gpucredit_billing.require_org(focus_usage.org);
	SELECT o.* INTO t FROM gpucredit_billing.terms o WHERE o.org = focus_usage.org;
	IF NOT FOUND THEN
		PERFORM gpucredit_billing.raise('UC701', 'the organisation has no terms',
			'The export needs a currency and a price for one credit.',
			'Call gpucredit_billing.set_terms() first.');
	END IF;
	SELECT d.number INTO invoiced FROM gpucredit_billing.document d
	WHERE d.org = focus_usage.org AND d.kind = 'invoice'
		AND d.month = date_trunc('month', focus_usage.month::timestamp)::date
		AND (gpucredit_billing.open_amount(d.document)).is_open
	ORDER BY d.document DESC LIMIT 1;
	issuer := coalesce(nullif(split_part(t.seller, E'\n', 1), ''), 'gpucredit');
	RETURN QUERY
		SELECT round(l.credits * t.per_credit, 6), focus_usage.org, focus_usage.org, 'Organisation'::text,
			t.currency, upto, first,
			CASE WHEN l.kind IN ('promo', 'grant') THEN 'Credit' ELSE 'Usage' END, NULL::text,
			CASE l.kind WHEN 'usage' THEN format('%s GPU, tier %s', l.gpu_type, l.tier)
				WHEN 'holds' THEN 'Holds of applications'
				WHEN 'promo' THEN 'Promotional credit' ELSE 'Granted credit' END,
			'Usage-Based'::text, upto, first, l.gpu_hours,
			CASE WHEN l.gpu_hours IS NOT NULL THEN 'GPU-Hours' END,
			round(l.credits * t.per_credit, 6), l.unit_price,
			round(l.credits * t.per_credit, 6), invoiced, issuer,
			round(l.credits * t.per_credit, 6), l.unit_price,
			CASE WHEN l.kind = 'usage' THEN 'Standard' END, t.currency, l.gpu_hours,
			CASE WHEN l.gpu_hours IS NOT NULL THEN 'GPU-Hours' END, issuer, issuer,
			NULL::text, NULL::text, 'AI and Machine Learning'::text, 'GPU jobs'::text,
			'Other (AI and Machine Learning)'::text, l.gpu_type,
			CASE WHEN l.kind = 'usage' THEN concat_ws('/', l.gpu_type, l.tier, trim_scale(l.per_gpu_hour)) END,
			nullif(l.account, ''), nullif(l.account, ''),
			CASE WHEN l.account <> '' THEN 'Account' END,
			CASE WHEN l.tier IS NOT NULL THEN json_build_object('tier', l.tier) ELSE '{}'::json END
		FROM gpucredit_billing.lines_of_month(focus_usage.org, focus_usage.month, t.per_credit, t.digits) l;
END
$$;
COMMENT ON FUNCTION gpucredit_billing.focus_usage(text, date) IS
'Exports: an organisation''s month (UTC) in the columns of FOCUS 1.2, at the price of its present terms, before discount and tax. month: any day of it; the present month is as metered so far. Result: a row for each account, tier, type of GPU and price; amounts to six decimals. A program writes it as CSV with COPY. Errors: UC001 no such organisation, or one that the session sees a part of; UC701 no terms; 22023.';
