-- What changes at 100 times the load.
--
-- The same story is told for 10 jobs of one organisation and for 1,000 of
-- another, and what each left behind is counted: rows per job are the same, so
-- the work per job is, and no call reads more than its own.  Rates are of a
-- machine and stand here as tools/bench measured them (docs/benchmarks.md, 2
-- cores, one commit 0.10 ms):
--
--   reserve + settle          1,101 pairs/s   = 95 million jobs a day
--   heartbeats, one a call   14,459 /s        = 72,000 attempts at 5 s each
--   heartbeats, by thousands 188,639 /s       = 940,000 attempts at 5 s each
--   starts                   13,499 /s        a queue of 10,000 in 0.8 s
--   an idle cycle over 10,000 blocked jobs  21.3 ms
--   sequential scans of tenants' tables       none
--
-- At the load this was made for (tens of thousands of accounts, thousands of
-- running jobs) one server idles.  At 100 times that:
--   * heartbeats come by meter_batch, a collector each rack or so;
--   * an organisation whose one bucket or budget row is what all of its calls
--     wait for is the first to notice: set_slices() spreads both over rows;
--   * maintain() folds at most 10,000 rows of each kind a call: call it until
--     it has nothing to do, as here below;
--   * the audit grows by a row per decision, but not by one per denial;
--   * beyond one machine's commits organisations are spread over several:
--     nothing of one refers to another's.
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET client_min_messages = warning;
SET gpucredit.node_suspect = 0;
SET gpucredit.clock = '2030-03-01 08:00+00';
SELECT gpucredit.set_price('A100', 1) \g /dev/null
SELECT count(gpucredit.register_node('default', 'n' || n, 'A100', 8, 40960)) FROM generate_series(1, 127) n;

-- An organisation, its credit, a budget and a quota, and so many jobs that are
-- started, metered twice, and done after half an hour.
CREATE PROCEDURE pg_temp.play(org text, jobs int, at timestamptz) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('gpucredit.clock', at::text, true);
	PERFORM gpucredit.create_account(org), gpucredit.create_account(org, 'vision');
	PERFORM gpucredit.issue(org, '', 'paid', 10 * jobs);
	PERFORM gpucredit.set_budget(org, 'vision', jobs), gpucredit.set_quota(org, '', max_queued => jobs);
	PERFORM gpucredit.reserve(org, 'vision', 'job-' || n, '1xA100', '1 h') FROM generate_series(1, jobs) n;
	LOOP
		PERFORM gpucredit.place();
		EXIT WHEN NOT FOUND;
	END LOOP;
	PERFORM set_config('gpucredit.clock', (at + '10 min')::text, true);
	PERFORM gpucredit.meter(j.org, j.job, 1, '10 min') FROM gpucredit.jobs j WHERE j.org = play.org;
	PERFORM set_config('gpucredit.clock', (at + '20 min')::text, true);
	PERFORM m.action FROM (SELECT array_agg(j.org) AS orgs, array_agg(j.job) AS jobs, array_agg(1) AS attempts,
			array_agg('20 min'::interval) AS elapsed FROM gpucredit.jobs j WHERE j.org = play.org) a,
		gpucredit.meter_batch(a.orgs, a.jobs, a.attempts, a.elapsed) m;
	PERFORM set_config('gpucredit.clock', (at + '30 min')::text, true);
	PERFORM gpucredit.settle(j.org, j.job, 1, 'completed', '30 min') FROM gpucredit.jobs j WHERE j.org = play.org;
	-- and as many that ask for more than they may
	PERFORM gpucredit.set_budget(org, 'vision', jobs / 2);
	PERFORM gpucredit.reserve(org, 'vision', 'more-' || n, '1xA100', '1 h') FROM generate_series(1, jobs) n;
END $$;
CALL pg_temp.play('small', 10, '2030-03-01 08:00+00');
CALL pg_temp.play('large', 1000, '2030-03-01 09:00+00');

-- Rows per job: the same.
SELECT w.what, count(*) FILTER (WHERE w.org = 'small') / 10 AS "of 10 jobs",
	count(*) FILTER (WHERE w.org = 'large') / 1000 AS "of 1,000 jobs"
FROM (SELECT 'audit row of a job' AS what, a.org FROM gpucredit.audit a WHERE a.job IS NOT NULL
	UNION ALL SELECT 'entry', e.org FROM gpucredit.entry e WHERE e.job IS NOT NULL
	UNION ALL SELECT 'hold', h.org FROM gpucredit.hold h
	UNION ALL SELECT 'part of a hold', p.org FROM gpucredit.hold_part p
	UNION ALL SELECT 'hold in a budget', b.org FROM gpucredit.hold_budget b
	UNION ALL SELECT 'attempt', t.org FROM gpucredit.attempt t
	UNION ALL SELECT 'usage row', u.org FROM gpucredit.usage u
	UNION ALL SELECT 'key of a job', r.org FROM gpucredit.request r WHERE r.operation = 'reserve' AND 'granted' = ANY (r.result)) w
GROUP BY w.what ORDER BY w.what;
-- Denials are a row and a number.
SELECT org, count(*) AS audited FROM gpucredit.audit WHERE decision = 'denied' GROUP BY org ORDER BY org DESC;
SELECT o.org, d.account, d.operation, d.reason, d.n
FROM (VALUES ('small'), ('large')) o (org), gpucredit.denials(o.org) d;

-- The money: 100 times as much, to the micro-credit.
SELECT o.org, b.available, b.held, b.spent
FROM (VALUES ('small'), ('large')) o (org), gpucredit.balance(o.org) b;
SELECT o.org, c.reserved, c.spent, c.remaining
FROM (VALUES ('small'), ('large')) o (org), gpucredit.budgets(o.org, 'vision') c;

-- Upkeep: what it folds is what there was; a second call finds nothing.
SET gpucredit.clock = '2030-03-01 10:00+00';
SELECT * FROM gpucredit.maintain() WHERE affected > 0;
SELECT * FROM gpucredit.maintain() WHERE affected > 0;
SELECT o.org, b.available, b.held, b.spent
FROM (VALUES ('small'), ('large')) o (org), gpucredit.balance(o.org) b;
SELECT * FROM gpucredit.verify();
