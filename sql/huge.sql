--
-- Amounts at the limit of credits: one bucket holds no more than that, an
-- organisation may.
--
\set SHOW_CONTEXT never
SET search_path = gpucredit, public;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit_report CASCADE;
SET gpucredit.clock = '2036-01-01 00:00+00';
SELECT create_account('hu'), create_account('hu', 'a') \g /dev/null
SELECT issue('hu', '', 'i0', 9223372036854.775808);
SELECT replayed FROM issue('hu', '', 'i1', 9223372036854.775807, 'promo', expires_at => '2036-01-03');
SELECT replayed FROM issue('hu', 'a', 'i2', 9223372036854.775807, 'grant', expires_at => '2036-01-03');
SELECT replayed FROM issue('hu', '', 'i3', 9223372036854.775807);
SELECT * FROM balance('hu', 'a') \gx
SELECT status, held FROM hold('hu', 'a', 'h1', 9223372036854.775807, '1 d');
SELECT hold AS h2 FROM hold('hu', 'a', 'h2', 9223372036854.775807, '1 d') \gset
SELECT available, spendable, held FROM balance('hu', 'a');
SELECT value > 1.8e13 AS held FROM metric_samples() WHERE name LIKE '%holds_credits' AND labels ->> 'kind' = 'caller';
SELECT issued, available, held FROM buckets('hu', 'a');
SELECT source, target, amount, available FROM statement('hu', 'a') ORDER BY entry;
-- a dead hold, and a draw that is short without its credit
SELECT captured FROM capture('hu', :h2, 'c2', 9223372036854.775807);
SELECT status, reason FROM hold('hu', 'a', 'h3', 9223372036854.775807, '1 min');
SELECT pg_catalog.set_config('gpucredit.clock', '2036-01-02 00:00+00', false);
SELECT status, reason FROM hold('hu', 'a', 'h4', 9223372036854.775807, '10 d');
SELECT status, reason FROM hold('hu', 'a', 'h5', 9223372036854.775807, '10 d');
SELECT status, reason FROM hold('hu', 'a', 'h6', 0.000001, '10 d');
SELECT pg_catalog.set_config('gpucredit.clock', '2036-01-04 00:00+00', false);
SELECT hold AS h4 FROM hold('hu', 'a', 'h4', 9223372036854.775807, '10 d') \gset
SELECT captured FROM capture('hu', :h4, 'c4', 9223372036854.775807);
-- one account spends both: figures are added up and reported, and the rest is
-- swept
SELECT available, held, spent FROM balance('hu', 'a');
SELECT count(*) FROM maintain() WHERE task = 'fold_spend' AND affected > 0;
SELECT count(*) FROM expire_credits();
SELECT available, held, spent FROM balance('hu', 'a');
SELECT account, spent FROM account_total WHERE org = 'hu';
SELECT item, spent, refunded, net FROM usage_by('hu', '', NULL, NULL, 'account');
SELECT account, spent FROM top_spenders('hu', 3, '2035-01-01');
SELECT sum(amount) FROM invoice('hu', '2036-01-01');
SELECT report_html('hu', '2035-01-01', '2036-01-05') LIKE '%18,446,744,073,709.55%' AS reported;
SELECT org, held FROM burn_rate() WHERE org = 'hu';
SELECT as_of, b.available, b.held, b.spent FROM (VALUES (timestamptz '2036-01-01 00:00+00'),
	('2036-01-03 12:00+00')) t (as_of), balance('hu', 'a', as_of) b;
-- within one bar of a report one bucket's credit is spent, refunded and spent
-- again
SELECT create_account('hr') \g /dev/null
SELECT replayed FROM issue('hr', '', 'i', 9223372036854.775807);
DO $$
DECLARE
	h bigint;
BEGIN
	FOR n IN 1 .. 3 LOOP
		IF h IS NOT NULL THEN
			PERFORM gpucredit.refund_hold('hr', h, 'r' || n, 9223372036854.775807, 'again');
		END IF;
		h := hold FROM gpucredit.hold('hr', '', 'h' || n, 9223372036854.775807, '1 d');
		PERFORM gpucredit.capture('hr', h, 'c' || n, 9223372036854.775807);
	END LOOP;
END $$;
SELECT item, spent, refunded, net FROM usage_by('hr', '', NULL, NULL, 'account');
SELECT kind, account, bin, spent, refunded FROM gpucredit_report.report_lines(gpucredit_report.report_about('hr', '2036-01-04', '2036-01-05')) ORDER BY kind;
SELECT report_html('hr', '2036-01-01', '2036-01-05') LIKE '%' || figure || '%' AS reported
FROM unnest('{"27,670,116,110,564.32","18,446,744,073,709.55","9,223,372,036,854.77"}'::text[]) figure;
SELECT * FROM verify('hr');
-- a budget that would count more than credits hold makes the call fail, and
-- nothing is written
SELECT set_budget('hu', '', 9223372036854.775807, 'none', hard => false) \g /dev/null
SELECT replayed FROM issue('hu', '', 'i4', 9223372036854.775807);
SELECT replayed FROM issue('hu', '', 'i5', 9223372036854.775807);
SELECT status FROM hold('hu', '', 'b1', 9223372036854.775807, '1 d');
SELECT status FROM hold('hu', '', 'b2', 1, '1 d');
SELECT reserved, remaining FROM budgets('hu');
-- one sweep handles two buckets that expire unused
SELECT replayed FROM issue('hu', 'a', 'i6', 9223372036854.775807, valid_for => '1 h');
SELECT replayed FROM issue('hu', 'a', 'i7', 9223372036854.775807, valid_for => '1 h');
SELECT pg_catalog.set_config('gpucredit.clock', '2036-01-04 01:00+00', false);
SELECT count(*) FROM expire_credits();
SELECT detail FROM audit WHERE org = 'hu' AND operation = 'expire' ORDER BY audit DESC LIMIT 1;
SELECT * FROM verify('hu');
