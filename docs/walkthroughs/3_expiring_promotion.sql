-- A promotion that expires while a job runs on it: an extension, the
-- settlement, and a refund that comes late.
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET client_min_messages = warning;
SET gpucredit.node_suspect = 0;
SET gpucredit.clock = '2030-03-01 08:00+00';
SELECT gpucredit.create_account('acme') \g /dev/null
SELECT gpucredit.set_price('A100', 1) \g /dev/null
SELECT gpucredit.register_node('default', 'n1', 'A100', 4, 40960) \g /dev/null
-- A promotion of 20 until noon, and 100 paid.
SELECT gpucredit.issue('acme', '', 'promo', 20, 'promo', expires_at => '2030-03-01 12:00+00'),
	gpucredit.issue('acme', '', 'paid', 100) \g /dev/null

-- Held for 3 hours at a time, 12 credits, all of the promotion.
SELECT * FROM gpucredit.reserve('acme', '', 'train-1', '4xA100', '9 h', hold_window => '3 h');
SELECT action, job, attempt, node, gpus FROM gpucredit.place();
-- Five minutes before the first window is used up, the next one is held: the
-- promotion gives what it has, 8, the paid credit 4.
SET gpucredit.clock = '2030-03-01 10:56+00';
SELECT action, reason, billed, held, deadline, time_left
FROM gpucredit.meter('acme', 1, 1, '2 h 56 min');
SELECT part, bucket, drawn, held FROM gpucredit.hold_part ORDER BY part;

-- At noon the promotion expires.  What is held stays good.
SET gpucredit.clock = '2030-03-01 12:00+00';
SELECT bucket, kind, issued, available, held, spent, expired, usable, why FROM gpucredit.buckets('acme');
SELECT * FROM gpucredit.expire_credits();
-- The next extension cannot draw from it.
SET gpucredit.clock = '2030-03-01 13:56+00';
SELECT action, reason, billed, held, deadline, time_left
FROM gpucredit.meter('acme', 1, 1, '5 h 56 min');
SELECT part, bucket, drawn, held FROM gpucredit.hold_part ORDER BY part;

-- Done after 6 h 30 min: 26 of 36.  First drawn is first spent, so all of the
-- promotion was used; 10 paid go back.
SET gpucredit.clock = '2030-03-01 14:30+00';
SELECT outcome, billed, released, lapsed, refunded, job_state, retry_at, replayed
FROM gpucredit.settle('acme', 1, 1, 'completed', '6 h 30 min');
SELECT bucket, kind, available, held, spent, expired FROM gpucredit.buckets('acme');

-- Days later 10 are refunded.  Last spent comes back first: the paid 6; the
-- promotion's 4 come back to a bucket that has expired, and lapse.
SET gpucredit.clock = '2030-03-05 09:00+00';
SELECT * FROM gpucredit.refund('acme', 1, 'refund-1', 10, 'a slow switch');
SELECT bucket, kind, available, held, spent, expired FROM gpucredit.buckets('acme');
-- Never more than was spent.
SELECT * FROM gpucredit.refund('acme', 1, 'refund-2', 16.000001, 'too much');

-- Every entry.
SELECT entry, at, operation, bucket, source, target, amount, part
FROM gpucredit.entry WHERE org = 'acme' ORDER BY entry;
SELECT available, held, spent FROM gpucredit.balance('acme');
SELECT * FROM gpucredit.verify();
