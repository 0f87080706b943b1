--
-- Hold excess: what a hold has beyond the price of the job's type returns at
-- once; many returns together come to the same as one by one.
--
SET search_path = gpucredit, public;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET client_min_messages = warning;
SET gpucredit.node_suspect = 0;
SET gpucredit.clock = '2034-01-01 00:00+00';
SELECT create_pool('su') \g /dev/null
SELECT set_price('SuA', 10), set_price('SuB', 1),
	register_node('su', 'su-a', 'SuA', 16, 80000),
	register_node('su', 'su-b', 'SuB', 16, 80000) \g /dev/null
SELECT create_account('su'), create_account('su', 'a'), create_account('su', 'b'),
	create_account('sv') \g /dev/null
CREATE FUNCTION pg_temp.ask(org text, account text, key text, hours int DEFAULT 2)
RETURNS TABLE (status text, held numeric) LANGUAGE sql AS
$$ SELECT r.status, r.held FROM gpucredit.reserve($1, $2, $3, '1xSuA|SuB',
	make_interval(hours => $4), pool => 'su') r $$;
CREATE FUNCTION pg_temp.keys() RETURNS TABLE (org text, job bigint, key text)
LANGUAGE sql AS
$$ SELECT r.org, r.result[1]::bigint, r.key FROM gpucredit.request r
	WHERE r.operation = 'reserve' AND r.org IN ('su', 'sv') $$;

-- In "su" an expiring bucket pays first, the other the rest; budgets count one
-- job, and "sv" is spread over slices.
SELECT count(issue('su', '', 'short', 50, 'grant', expires_at => '2034-01-01 10:00+00')),
	count(issue('su', '', 'long', 1000)), count(issue('sv', '', 'paid', 1000)) \g /dev/null
SELECT set_budget('su', 'b', 500), set_budget('su', 'b', 600, 'quarter'),
	set_slices('sv', '', 4) \g /dev/null
SELECT * FROM pg_temp.ask('su', 'a', 'first');			-- 20 of the one
SELECT * FROM pg_temp.ask('su', 'a', 'second');			-- 20 of it
SELECT * FROM pg_temp.ask('su', 'a', 'both');			-- 10 of each
SELECT * FROM pg_temp.ask('su', 'a', 'other');			-- 20 of the other
SELECT * FROM pg_temp.ask('su', 'b', 'budgeted');
SELECT * FROM pg_temp.ask('sv', '', 'sliced');
SELECT * FROM pg_temp.ask('sv', '', 'sliced too');

SELECT drain('su-a', 'to be mended') \g /dev/null

-- The jobs get the cheaper type after the first bucket has expired: what
-- returns to it lapses. Of the job that drew from both, the last drawn returns
-- first.
SET gpucredit.clock = '2034-01-01 11:00+00';
SELECT count(*) FROM place('su');
SELECT k.key, a.held, a.surplus, a.needs_cycle, h.drawn, h.held, h.released, h.lapsed
FROM attempt a JOIN pg_temp.keys() k USING (org, job)
	JOIN hold h ON h.org = a.org AND h.hold = a.hold
ORDER BY a.org, a.job;
SELECT k.key, e.account, e.source, e.target, e.amount, e.operation, e.part,
	e.attempt, e.hold = a.hold AS its_hold, e.at
FROM entry e JOIN pg_temp.keys() k USING (org, job)
	JOIN attempt a USING (org, job)
WHERE e.operation = 'shrink' ORDER BY e.org, e.job, e.part;
SELECT k.key, p.part, p.drawn, p.held, p.returned, p.lapsed
FROM hold_part p JOIN attempt a USING (org, hold) JOIN pg_temp.keys() k USING (org, job)
ORDER BY p.org, a.job, p.part;
SELECT b.org, b.kind, b.available, b.held, b.expired, b.revoked
FROM bucket b WHERE b.org = 'su' ORDER BY b.bucket;
SELECT available, held FROM balance('sv');
SELECT account, period, reserved, spent FROM budgets('su', 'b') ORDER BY 2;
SELECT k.key, a.account, a.decision, a.reason, a.attempt, a.detail
FROM audit a JOIN pg_temp.keys() k USING (org, job)
WHERE a.operation = 'shrink' ORDER BY a.org, a.job;
SELECT * FROM verify();

-- Nothing returns to a revoked bucket, either.
SELECT resume('su-a') \g /dev/null
SELECT * FROM pg_temp.ask('su', 'a', 'revoked');
SELECT drain('su-a', 'to be mended') \g /dev/null
SELECT revoked FROM revoke('su', (SELECT max(bucket) FROM bucket WHERE org = 'su'), 'r', 'by mistake');
SELECT count(*) FROM place('su');
SELECT k.key, h.held, h.released, h.lapsed
FROM attempt a JOIN pg_temp.keys() k USING (org, job)
	JOIN hold h ON h.org = a.org AND h.hold = a.hold
WHERE k.key = 'revoked';
SELECT b.kind, b.available, b.held, b.expired, b.revoked
FROM bucket b WHERE b.org = 'su' ORDER BY b.bucket;

-- At settlement the jobs pay for what they ran.
SET gpucredit.clock = '2034-01-01 13:00+00';
SELECT k.key, s.billed, s.released, s.lapsed
FROM attempt a JOIN pg_temp.keys() k USING (org, job),
	LATERAL settle(a.org, a.job, 1, 'completed', '2 hours') s
ORDER BY a.org, a.job;
SELECT * FROM verify();
