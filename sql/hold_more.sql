-- Holds of callers with their own scheduler, whose jobs run longer or cost
-- more than expected.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET gpucredit.clock = '2028-03-01 00:00+00';
\set VERBOSITY sqlstate
\pset null '-'
DO $$
BEGIN
	PERFORM gpucredit.create_account('hm');
	PERFORM gpucredit.create_account('hm', 'a');
	PERFORM gpucredit.create_account('hm-other');
	PERFORM gpucredit.issue('hm', '', 'i', 20);
	PERFORM gpucredit.issue('hm', 'a', 'i2', 5, 'promo', valid_for => '3 h');
END $$;

-- extend_hold adds credit and time; it never takes any.
SELECT hold AS h1 FROM gpucredit.hold('hm', 'a', 'h1', 4, '1 h') \gset
SELECT status, held, expires_at, replayed FROM gpucredit.extend_hold('hm', :h1, 'e1', 6);
SELECT status, held, expires_at, replayed FROM gpucredit.extend_hold('hm', :h1, 'e2', 0, '2 h');
SELECT status, held, expires_at, replayed FROM gpucredit.extend_hold('hm', :h1, 'e3', 1, '1 h');
SELECT status, held, expires_at, replayed FROM gpucredit.extend_hold('hm', :h1, 'e1', 6.0, NULL);
SELECT gpucredit.extend_hold('hm', :h1, 'e1', 7);
SELECT kind, held FROM gpucredit.buckets('hm', 'a') ORDER BY 1;
\set VERBOSITY default
SELECT gpucredit.extend_hold('hm', :h1, 'e4', 0);
SELECT gpucredit.extend_hold('hm', 0, 'e4', 1);
\set VERBOSITY sqlstate
SELECT gpucredit.extend_hold('hm-other', :h1, 'e4', 1);
SELECT gpucredit.extend_hold('hm', :h1, 'e4', -1);
SELECT gpucredit.extend_hold('hm', :h1, 'e4', 1, '0');
SELECT gpucredit.extend_hold('hm', :h1, 'e4', 1, '1 month');
-- it denies the whole extension, and the denial stays under its key
SELECT status, reason, held, expires_at FROM gpucredit.extend_hold('hm', :h1, 'e5', 14.000001, '9 h');
SELECT gpucredit.set_budget('hm', 'a', 12) \g /dev/null
SELECT status, reason, held FROM gpucredit.extend_hold('hm', :h1, 'e6', 12.000001);
SELECT gpucredit.suspend_account('hm', 'a', true) \g /dev/null
SELECT status, reason, held FROM gpucredit.extend_hold('hm', :h1, 'e7', 0, '9 h');
SELECT gpucredit.suspend_account('hm', 'a', false) \g /dev/null
SELECT status, reason, held, replayed FROM gpucredit.extend_hold('hm', :h1, 'e7', 0, '9 h');
SELECT decision, reason, detail FROM gpucredit.audit WHERE org = 'hm' AND operation = 'extend_hold' ORDER BY audit;
-- credit of dead holds is available, and a dead hold cannot be extended
SELECT hold AS h2 FROM gpucredit.hold('hm', '', 'h2', 14, '1 min') \gset
SELECT status, reason FROM gpucredit.extend_hold('hm', :h1, 'e8', 1);
SET gpucredit.clock = '2028-03-01 00:01+00';
SELECT status, reason, held FROM gpucredit.extend_hold('hm', :h1, 'e9', 1);
SELECT gpucredit.extend_hold('hm', :h2, 'e10', 1);
SET gpucredit.clock = '2028-03-01 01:59:59.999999+00';
SELECT status, held FROM gpucredit.extend_hold('hm', :h1, 'e11', 1);
SET gpucredit.clock = '2028-03-01 02:00+00';
SELECT gpucredit.extend_hold('hm', :h1, 'e12', 1);
SELECT gpucredit.capture('hm', :h1, 'c1', 1);
SELECT * FROM gpucredit.verify('hm');

-- A capture with overrun works past the hold's end, before and after its
-- release.
SELECT available, held, spent FROM gpucredit.balance('hm', 'a');
SELECT * FROM gpucredit.capture('hm', :h1, 'c2', 9, overrun => true);
SELECT * FROM gpucredit.capture('hm', :h1, 'c2', 9, true, true);
SELECT gpucredit.capture('hm', :h1, 'c2', 9);
SELECT gpucredit.capture('hm', :h1, 'c3', 1, overrun => true);
SELECT gpucredit.release('hm', :h1, 'r1');
SELECT hold AS h3 FROM gpucredit.hold('hm', '', 'h3', 2, '1 min') \gset
SET gpucredit.clock = '2028-03-01 02:02+00';
SELECT count(*) FROM gpucredit.reap_holds();
SELECT held, released, closed_at IS NOT NULL AS closed FROM gpucredit.hold WHERE org = 'hm' AND hold = :h3;
SELECT * FROM gpucredit.capture('hm', :h3, 'c4', 3, overrun => true);
SELECT gpucredit.capture('hm', :h3, 'c5', 1, overrun => true);
SELECT drawn, captured, released, uncollected, closed_at, expires_at FROM gpucredit.hold WHERE org = 'hm' AND hold = :h3;
SELECT * FROM gpucredit.verify('hm');
-- it may take more than is held, in pieces; the answer tells what no credit
-- covers
SELECT hold AS h4 FROM gpucredit.hold('hm', '', 'h4', 1, '1 h') \gset
SELECT gpucredit.capture('hm', :h4, 'c6', 2);
SELECT * FROM gpucredit.capture('hm', :h4, 'c7', 2, false, true);
SELECT * FROM gpucredit.capture('hm', :h4, 'c8', 1, false, true);
SELECT available, held, spent FROM gpucredit.balance('hm');
SELECT * FROM gpucredit.capture('hm', :h4, 'c9', 10, false, true);
SELECT * FROM gpucredit.capture('hm', :h4, 'c10', 0.5, overrun => true);
SELECT captured, uncollected, closed_at IS NOT NULL AS closed FROM gpucredit.hold WHERE org = 'hm' AND hold = :h4;
SELECT account, kind, detail - 'hold' AS detail FROM gpucredit.alert WHERE org = 'hm' AND kind = 'uncollected';
SELECT decision, detail FROM gpucredit.audit WHERE org = 'hm' AND operation = 'capture' ORDER BY audit;
-- a hold that its owner has closed stays closed
SELECT gpucredit.issue('hm', '', 'i3', 5) IS NOT NULL AS issued;
SELECT hold AS h5 FROM gpucredit.hold('hm', '', 'h5', 1, '1 h') \gset
SELECT * FROM gpucredit.release('hm', :h5, 'r5');
SELECT gpucredit.capture('hm', :h5, 'c11', 1, overrun => true);
-- an overrun passes no budget and no suspension
SELECT gpucredit.set_budget('hm', '', 2, 'none') \g /dev/null
SELECT hold AS h6 FROM gpucredit.hold('hm', '', 'h6', 1, '1 h') \gset
SELECT captured, uncollected FROM gpucredit.capture('hm', :h6, 'c12', 3, overrun => true);
SELECT gpucredit.set_budget('hm', '', NULL, 'none') \g /dev/null
SELECT hold AS h7 FROM gpucredit.hold('hm', '', 'h7', 1, '1 h') \gset
SELECT gpucredit.suspend_account('hm', '', true) \g /dev/null
SELECT captured, uncollected FROM gpucredit.capture('hm', :h7, 'c13', 2, overrun => true);
SELECT gpucredit.suspend_account('hm', '', false) \g /dev/null
SELECT * FROM gpucredit.verify('hm');
-- credit captured by an overrun can be refunded
SELECT * FROM gpucredit.refund_hold('hm', :h3, 'f1', 3, 'sorry');

-- A bound tenant extends and captures only its own holds.
CREATE ROLE hm_tenant LOGIN;
GRANT gpucredit_tenant TO hm_tenant;
SELECT gpucredit.bind_tenant('hm_tenant', 'hm', 'a') \g /dev/null
SELECT hold AS own FROM gpucredit.hold('hm', 'a', 'own', 1, '1 h') \gset
SELECT hold AS above FROM gpucredit.hold('hm', '', 'above', 1, '1 h') \gset
SET ROLE hm_tenant;
SELECT status, held FROM gpucredit.extend_hold('hm', :own, 't1', 0.5);
SELECT gpucredit.extend_hold('hm', :above, 't2', 0.5);
SELECT captured, uncollected FROM gpucredit.capture('hm', :own, 't3', 1.6, overrun => true);
SELECT gpucredit.capture('hm', :above, 't4', 1, overrun => true);
RESET ROLE;
SELECT gpucredit.unbind_tenant('hm_tenant', 'hm', 'a') \g /dev/null
DROP ROLE hm_tenant;
SELECT * FROM gpucredit.verify('hm');

-- release with an amount returns the last drawn first, and the hold stays
-- open.
RESET gpucredit.clock;
SET gpucredit.clock = '2028-03-02 00:00+00';
DO $$
BEGIN
	PERFORM gpucredit.create_account('hp');
	PERFORM gpucredit.issue('hp', '', 'i1', 5, 'promo', valid_for => '3 h');
	PERFORM gpucredit.issue('hp', '', 'i2', 20);
	PERFORM gpucredit.set_budget('hp', '', 9);
END $$;
SELECT hold AS hp FROM gpucredit.hold('hp', '', 'h', 8, '4 h') \gset
SELECT * FROM gpucredit.release('hp', :hp, 'r1', 2);
SELECT * FROM gpucredit.release('hp', :hp, 'r1', 2.0);
SELECT gpucredit.release('hp', :hp, 'r1');
SELECT gpucredit.release('hp', :hp, 'r2', 6.000001);
SELECT gpucredit.release('hp', :hp, 'r2', 0);
SELECT gpucredit.release('hm', :hp, 'r2', 1);
SELECT kind, available, held FROM gpucredit.buckets('hp') ORDER BY 1;
SELECT reserved, remaining FROM gpucredit.budgets('hp');
SET gpucredit.clock = '2028-03-02 03:00+00';
SELECT * FROM gpucredit.release('hp', :hp, 'r3', 2);
SELECT * FROM gpucredit.capture('hp', :hp, 'c1', 1, final => false);
SELECT * FROM gpucredit.release('hp', :hp, 'r4', 3);
SELECT * FROM gpucredit.release('hp', :hp, 'r5');
SELECT gpucredit.release('hp', :hp, 'r6', 1);
SELECT hold AS hp2 FROM gpucredit.hold('hp', '', 'h2', 1, '1 h') \gset
SET gpucredit.clock = '2028-03-02 04:00+00';
SELECT gpucredit.release('hp', :hp2, 'r7', 1);
SELECT * FROM gpucredit.verify('hp');

-- a hold of nothing is for use that nobody asked credit for: it is granted
-- without credit, in debt, and to a suspended account
DO $$
BEGIN
	PERFORM gpucredit.create_account('hz');
	PERFORM gpucredit.create_account('hz', 'a');
END $$;
SELECT hold AS hz, status, held FROM gpucredit.hold('hz', 'a', 'h', 0, '1 h') \gset
SELECT :'status' AS status, :held AS held;
SELECT captured, uncollected, replayed FROM gpucredit.capture('hz', :hz, 'c', 2.5, overrun => true);
SELECT captured, uncollected, replayed FROM gpucredit.capture('hz', :hz, 'c', 2.5, overrun => true);
SELECT account, owed FROM gpucredit.uncollected WHERE org = 'hz';
SELECT gpucredit.issue('hz', '', 'i', 10) \g /dev/null
SELECT hold AS hz FROM gpucredit.hold('hz', 'a', 'h2', 0, '1 h') \gset
SELECT captured, uncollected FROM gpucredit.capture('hz', :hz, 'c2', 3, overrun => true);
SELECT gpucredit.suspend_account('hz', 'a', true) \g /dev/null
SELECT hold AS hz, status FROM gpucredit.hold('hz', 'a', 'h3', 0, '1 h') \gset
SELECT status, reason FROM gpucredit.hold('hz', 'a', 'h4', 1, '1 h');
SELECT captured, uncollected FROM gpucredit.capture('hz', :hz, 'c3', 3, overrun => true);
SELECT gpucredit.hold('hz', 'a', 'h5', -1, '1 h');
SELECT account, owed FROM gpucredit.uncollected WHERE org = 'hz';
SELECT * FROM gpucredit.verify('hz');
