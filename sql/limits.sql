--
-- What an account may take: budgets limit spending by period, quotas limit
-- what it has at once.
--
SET search_path = gpucredit, public;
SET timezone = 'UTC';
SET client_min_messages = warning;
SET gpucredit.node_suspect = 0;
SET gpucredit.clock = '2027-01-31 23:00+00';

-- Budgets: one for the organisation, a daily one for a project, a soft one for
-- a user
SELECT create_account('adm'), create_account('adm', 'lab'),
	create_account('adm', 'lab/eve') \g /dev/null
SELECT issue('adm', '', 'credit', 100000) \g /dev/null
SELECT set_budget('adm', '', 100), set_budget('adm', 'lab', 50, 'day'),
	set_budget('adm', 'lab/eve', 1000, 'none', hard => false,
		alert_at => '{0.01,0.04}') \g /dev/null
SELECT * FROM budgets('adm', 'lab/eve');

-- each budget on the path counts the hold; the nearest budget that is short
-- denies it
SELECT status, reason, held FROM hold('adm', 'lab/eve', 'h1', 30, '2 h');
SELECT status, reason, held FROM hold('adm', 'lab/eve', 'h2', 30, '2 h');
SELECT status, reason, held FROM hold('adm', 'lab', 'h3', 20, '2 h');
SELECT status, reason, held FROM hold('adm', '', 'h4', 50.000001, '2 h');
SELECT account, period, reserved, spent, remaining FROM budgets('adm', 'lab/eve');
SELECT available, spendable FROM balance('adm', 'lab/eve');
SELECT available, spendable FROM balance('adm');

-- a denial is stored, and its replay stays denied after the budget is raised
SELECT set_budget('adm', 'lab', 500, 'day') \g /dev/null
SELECT status, reason, replayed FROM hold('adm', 'lab/eve', 'h2', 30, '2 h');
SELECT set_budget('adm', 'lab', 50, 'day') \g /dev/null

-- captures stay counted; a release is taken off the period that counted the
-- hold
SELECT hold AS h1 FROM hold('adm', 'lab/eve', 'h1', 30, '2 h') \gset
SELECT captured, released FROM capture('adm', :h1, 'c1', 12, final => false);
SELECT captured, released FROM capture('adm', :h1, 'c2', 10);
SELECT account, period, reserved, spent, remaining FROM budgets('adm', 'lab/eve');

-- a budget lowered below what is taken refuses new work and changes nothing
-- else
SELECT set_budget('adm', 'lab', 5, 'day') \g /dev/null
SELECT status, reason FROM hold('adm', 'lab', 'h5', 0.000001, '2 h');
SELECT hold AS h3 FROM hold('adm', 'lab', 'h3', 20, '2 h') \gset
SELECT captured, released FROM capture('adm', :h3, 'c3', 20);
SELECT account, period, spent, remaining FROM budgets('adm', 'lab');

-- a new month and a new day begin by the clock alone
SET gpucredit.clock = '2027-02-01 00:00+00';
SELECT account, period, period_start, spent, remaining FROM budgets('adm', 'lab');
SELECT set_budget('adm', 'lab', 50, 'day') \g /dev/null
SELECT status, reason FROM hold('adm', 'lab', 'h6', 50, '1 h');
SELECT status, reason FROM hold('adm', 'lab', 'h7', 1, '1 h');

-- a dead hold's share is free at its ttl, for the call that needs it
SET gpucredit.clock = '2027-02-01 01:00+00';
SELECT account, reserved, remaining FROM budgets('adm', 'lab');
SELECT status, reason FROM hold('adm', 'lab', 'h8', 50, '1 h');

-- alerts: once per period and threshold
SELECT account, period, period_start, threshold, detail ->> 'taken' AS taken
FROM alert WHERE org = 'adm' ORDER BY period_start, account, threshold;

-- a budget removed and set again counts the holds that began meanwhile
SELECT set_budget('adm', 'lab', NULL, 'day'),
	set_budget('adm', 'lab', 50, 'day') \g /dev/null
SELECT account, reserved, spent FROM budgets('adm', 'lab') WHERE account = 'lab';
SELECT hold AS h8 FROM hold('adm', 'lab', 'h8', 50, '1 h') \gset
SELECT released FROM release('adm', :h8, 'r8');
SELECT account, period, reserved, spent FROM budgets('adm', 'lab');
SELECT * FROM verify('adm');

-- A job's hold, its extension and its settlement count where they were taken
SELECT create_pool('adm') \g /dev/null
SELECT set_price('AdmH', 1), set_price('AdmA', 1),
	register_node('adm', 'adm-h1', 'AdmH', 8, 80000),
	register_node('adm', 'adm-h2', 'AdmH', 8, 80000),
	register_node('adm', 'adm-a1', 'AdmA', 8, 40000) \g /dev/null
SET gpucredit.clock = '2027-02-28 23:00+00';
SELECT job, status, held FROM reserve('adm', '', 'month', '1xAdmH', '5 h',
	pool => 'adm', hold_window => '1 h') \gset m_
SELECT :'m_status' AS status, :m_held AS held;
SELECT action, node FROM place('adm');
SELECT period_start, reserved, spent FROM budgets('adm') WHERE period = 'month';
-- an account has one budget a period; a budget set later counts only later
-- draws
SELECT set_budget('adm', '', 30, 'day') \g /dev/null
SET gpucredit.clock = '2027-03-01 00:00+00';
SELECT action, billed, held FROM meter('adm', :m_job, 1, '58 min');
SELECT period, period_start, reserved, remaining FROM budgets('adm');
SELECT set_budget('adm', '', NULL, 'day') \g /dev/null
SELECT period_start, reserved, spent FROM budget_counter
WHERE org = 'adm' AND account = '' ORDER BY period_start;
SELECT outcome, billed, released FROM settle('adm', :m_job, 1, 'completed', '60 min 36 s');
SELECT period_start, reserved, spent FROM budget_counter
WHERE org = 'adm' AND account = '' ORDER BY period_start;
SELECT set_budget('adm', '', NULL), set_budget('adm', 'lab', NULL, 'day') \g /dev/null

-- Quotas: four devices of one type for a project; devices of any type, running
-- jobs and queued jobs for the organisation
SELECT set_quota('adm', 'lab', 'AdmH', max_gpus => 4),
	set_quota('adm', '', max_gpus => 14, max_running => 5, max_queued => 7)
	\g /dev/null
SELECT n, status, reason FROM generate_series(1, 5) n,
	LATERAL reserve('adm', 'lab/eve', 'a' || n, '2xAdmH|AdmA', '1 h', pool => 'adm');
-- one request alone passes the quota of every type it accepts
SELECT status, reason FROM reserve('adm', 'lab', 'big', '6xAdmH', '1 h', pool => 'adm');
SELECT status, reason FROM reserve('adm', 'lab', 'wide', '5xAdmH|AdmA', '1 h', pool => 'adm');
-- the last job is one too many in the queue
SELECT status, reason FROM reserve('adm', '', 'last', '1xAdmA', '1 h', pool => 'adm');
SELECT status, reason FROM reserve('adm', '', 'over', '1xAdmA', '1 h', pool => 'adm');
-- a job that would pass the project's quota takes its other type; the sixth
-- and seventh wait until a running job ends
SELECT org, attempt, node, gpus FROM place('adm');
SELECT count(*) FROM place('adm');
SELECT r.key, j.state FROM jobs j JOIN request r ON r.org = j.org
	AND r.operation = 'reserve' AND r.result[1]::bigint = j.job
WHERE j.org = 'adm' AND j.state <> 'completed' ORDER BY r.key;
-- explain does not name a quota of a type that the job was not offered
SELECT set_quota('adm', 'lab/eve', 'AdmT', max_gpus => 1) \g /dev/null
SELECT q.passes, split_part(q.detail, ':', 1) AS quota
FROM reserve('adm', 'lab/eve', 'a5', '2xAdmH|AdmA', '1 h', pool => 'adm') r, explain('adm', r.job) q
WHERE q.check_name = 'quota';
SELECT set_quota('adm', 'lab/eve', 'AdmT') \g /dev/null
SELECT job AS first FROM reserve('adm', 'lab/eve', 'a1', '2xAdmH|AdmA', '1 h', pool => 'adm') \gset
SELECT outcome FROM settle('adm', :first, 1, 'completed', '0');
SELECT node, gpus FROM place('adm');
-- a cycle that starts nothing locks and writes no quota
CREATE TEMP TABLE locker AS SELECT account, gpu_type, xmax::text AS before
FROM quota_lock WHERE org = 'adm';
SELECT count(*) FROM place('adm');
SELECT account, gpu_type, q.xmax::text = before AS untouched
FROM quota_lock q JOIN locker USING (account, gpu_type) WHERE q.org = 'adm' ORDER BY 1, 2;
-- a quota set below what is in use holds back jobs that ask for devices, and
-- no others
SELECT set_quota('adm', '', max_gpus => 1) \g /dev/null
SELECT job AS none FROM reserve('adm', '', 'none', '0', '1 h', pool => 'adm') \gset
SELECT check_name, passes, detail FROM explain('adm', :none) WHERE check_name = 'quota';
SELECT job = :none AS none, gpus FROM place('adm');
-- once removed, a quota holds nobody back
SELECT set_quota('adm', ''), set_quota('adm', 'lab', 'AdmH') \g /dev/null
SELECT node, gpus FROM place('adm');

-- Quotas on cpu and memory, also of jobs without devices: a request that alone
-- passes one is denied, what more wants to run waits, and explain says for what.
-- max_gpus counts a share as the part of the device's memory that its floor keeps.
SELECT create_account('cm'), create_account('cm', 'p'), issue('cm', '', 'i', 1000),
	create_pool('cm'), register_node('cm', 'cm-1', 'AdmA', 8, 40000, 64000, 640000) \g /dev/null
SELECT set_quota('cm', '', max_cpu_milli => 16000, max_memory_mib => 100000),
	set_quota('cm', 'p', 'AdmA', max_gpus => 1) \g /dev/null
SELECT k, status, reason FROM unnest('{0,0,1xAdmA,1xAdmA}'::text[], '{16001,16000,1000,1000}'::int[],
	'{0,0,100001,100000}'::int[], '{cpu,full,memory,small}'::text[]) AS u (request, cpu, memory, k),
	LATERAL reserve('cm', '', k, request, '1 h', pool => 'cm', cpu_milli => cpu, memory_mib => memory);
SELECT r.key, p.action FROM place('cm') p JOIN request r ON r.org = p.org AND r.operation = 'reserve'
	AND r.result[1]::bigint = p.job;
SELECT q.passes, q.detail FROM request r, explain('cm', r.result[1]::bigint) q
WHERE r.org = 'cm' AND r.key = 'small' AND r.operation = 'reserve' AND q.check_name = 'quota';
SELECT count(settle(org, job, attempt, 'completed', '1 min')) FROM attempt WHERE org = 'cm' AND ended_at IS NULL;
SELECT count(*) FROM place('cm');
SELECT r.status, r.reason FROM reserve('cm', 'p', 'kept', '0.001xAdmA@40000MiB', '1 h', pool => 'cm') r;
SELECT count(*) FROM generate_series(1, 3) n, reserve('cm', 'p', 'half ' || n, '0.001xAdmA@20000MiB', '1 h', pool => 'cm')
WHERE status = 'granted';
SELECT count(*) FROM place('cm');
SELECT billed_share FROM attempt WHERE org = 'cm' AND ended_at IS NULL ORDER BY job;
SELECT DISTINCT q.passes, q.detail FROM job j, explain('cm', j.job) q
WHERE j.org = 'cm' AND j.state = 'queued' AND q.check_name = 'quota' AND NOT q.passes;
SELECT count(settle(org, job, attempt, 'completed', '1 min')) FROM attempt WHERE org = 'cm' AND ended_at IS NULL;
SELECT count(*) FROM place('cm');
SELECT billed_share FROM attempt WHERE org = 'cm' AND ended_at IS NULL ORDER BY job;
-- a second pool counts what the first has started
SELECT create_pool('cm2'), register_node('cm2', 'cm2-1', 'AdmA', 8, 40000, 64000, 640000) \g /dev/null
SELECT status FROM reserve('cm', '', 'first', '0', '1 h', pool => 'cm', cpu_milli => 9000);
SELECT status FROM reserve('cm', '', 'second', '0', '1 h', pool => 'cm2', cpu_milli => 9000);
SELECT (SELECT count(*) FROM place('cm')) AS first, (SELECT count(*) FROM place('cm2')) AS second;
SELECT * FROM verify('cm');
UPDATE quota SET max_cpu_milli = -1 WHERE org = 'cm' AND account = '';
SELECT invariant, detail FROM verify('cm');
SELECT set_quota('cm', '', max_cpu_milli => 16000) \g /dev/null
SELECT set_quota('cm', '', max_cpu_milli => -1);

-- Work that nobody evicts for what others are due: its devices may be limited,
-- so that it does not keep what others lend. A request that alone passes the
-- limit is denied, what more wants to run waits, and preemptible jobs pass it.
SELECT create_account('np'), create_account('np', 'p'), issue('np', '', 'i', 1000), grant_tier('np', '', 'production_inference'),
	grant_tier('np', '', 'premium_training'), create_pool('np'), register_node('np', 'np-1', 'AdmA', 8, 40000) \g /dev/null
SELECT set_quota('np', '', max_nonpreemptible_gpus => 3) \g /dev/null
SELECT k, status, reason FROM unnest('{production_inference,production_inference,premium_training,standard_training,standard_training}'::text[],
	'{4xAdmA,2xAdmA,2xAdmA,3xAdmA,1xAdmA}'::text[], '{large,first,second,may leave,last}'::text[]) AS u (tier, request, k),
	LATERAL reserve('np', 'p', k, request, '1 h', pool => 'np', tier => u.tier);
SELECT r.key, p.action, p.gpus FROM place('np') p JOIN request r ON r.org = p.org AND r.operation = 'reserve'
	AND r.result[1]::bigint = p.job;
SELECT q.passes, q.detail FROM request r, explain('np', r.result[1]::bigint) q
WHERE r.org = 'np' AND r.key = 'second' AND r.operation = 'reserve' AND q.check_name = 'quota';
-- the plan, what would be, and a quote say the same, and count what others start
SELECT count(*) FROM plan('np');
SELECT action, job, reason FROM plan_with('np', '{"jobs": [{"org": "np", "request": "1xAdmA", "wall_limit": "1 h", "tier": "premium_training", "count": 2},
	{"org": "np", "request": "1xAdmA", "wall_limit": "1 h"}]}') WHERE job < 0 ORDER BY job DESC;
SELECT n, q.decision, q.reason, q.starts, q.waits_for FROM generate_series(1, 4) n,
	quote('np', 'p', n || 'xAdmA', '1 h', pool => 'np', tier => 'production_inference') q;
-- another pool counts what this one has started
SELECT create_pool('np2'), register_node('np2', 'np2-1', 'AdmA', 8, 40000) \g /dev/null
SELECT status FROM reserve('np', '', 'there', '2xAdmA', '1 h', pool => 'np2', tier => 'production_inference');
SELECT count(*) FROM place('np2');
-- with one more device allowed, one of the two starts
SELECT set_quota('np', '', max_nonpreemptible_gpus => 4) \g /dev/null
SELECT count(*) AS here FROM place('np');
SELECT count(*) AS there FROM place('np2');
SELECT * FROM verify('np');
UPDATE quota SET max_nonpreemptible_gpus = -1 WHERE org = 'np';
SELECT invariant, detail FROM verify('np');
SELECT set_quota('np', '', max_nonpreemptible_gpus => 4) \g /dev/null
SELECT set_quota('np', '', max_nonpreemptible_gpus => -1);
-- a claim counts in other pools before its job starts
SELECT set_tier('np-leaves', 5, 'capacity', false, min_run => '0'), create_account('nq'), issue('nq', '', 'i', 1000),
	grant_tier('nq', '', 'production_inference'), create_pool('nq'), register_node('nq', 'nq-1', 'AdmA', 2, 40000) \g /dev/null
SELECT set_quota('nq', '', 'AdmA', max_nonpreemptible_gpus => 2) \g /dev/null
SELECT status FROM reserve('nq', '', 'leaves', '2xAdmA', '1 h', pool => 'nq', tier => 'np-leaves');
SELECT action FROM place('nq');
SELECT current_setting('gpucredit.clock') AS clock, gpucredit.now() + '1 min' AS later \gset
SET gpucredit.clock = :'later';
SELECT status FROM reserve('nq', '', 'takes', '2xAdmA', '1 h', pool => 'nq', tier => 'production_inference');
SELECT action, reason FROM place('nq');
SELECT status FROM reserve('nq', '', 'there', '1xAdmA', '1 h', pool => 'np2', tier => 'production_inference');
SELECT count(*) AS there FROM place('np2') WHERE org = 'nq';
SELECT q.passes, q.detail FROM request r, explain('nq', r.result[1]::bigint) q
WHERE r.org = 'nq' AND r.key = 'there' AND r.operation = 'reserve' AND q.check_name = 'quota';
SELECT count(settle(org, job, attempt, 'preempted', '1 min')) FROM attempt WHERE org = 'nq' AND ended_at IS NULL;
SELECT r.key, p.action FROM place('nq') p JOIN request r ON r.org = p.org AND r.operation = 'reserve' AND r.result[1]::bigint = p.job;
SELECT count(*) AS there FROM place('np2') WHERE org = 'nq';
SELECT count(settle(org, job, attempt, 'completed', '1 min')) FROM attempt WHERE org = 'nq' AND ended_at IS NULL;
SELECT count(*) AS there FROM place('np2') WHERE org = 'nq';
SELECT * FROM verify('nq');
SET gpucredit.clock = :'clock';

-- far from max_queued, calls do not count the queue each time; near it they
-- count to the last job
SELECT create_account('far'), issue('far', '', 'i', 1000000),
	create_account('far', 'p') \g /dev/null
SELECT set_quota('far', '', max_queued => 150), set_quota('far', 'p', max_queued => 1000) \g /dev/null
SELECT status FROM reserve('far', 'p', 'f0', '1xAdmA', '1 h', pool => 'adm');
SELECT account, spare FROM quota WHERE org = 'far' ORDER BY account;
SELECT status FROM reserve('far', '', 'f00', '1xAdmA', '1 h', pool => 'adm');
SELECT account, spare FROM quota WHERE org = 'far' ORDER BY account;
SELECT status, reason, count(*), min(n), max(n) FROM generate_series(1, 160) n,
	LATERAL reserve('far', 'p', 'f' || n, '1xAdmA', '1 h', pool => 'adm')
GROUP BY status, reason ORDER BY min(n);
SELECT account, spare FROM quota WHERE org = 'far' ORDER BY account;
-- an older, smaller quota denies although the newer one has some to spare
SELECT set_quota('far', 'p', max_queued => 100), set_quota('far', '', max_queued => 1000) \g /dev/null
SELECT status FROM reserve('far', '', 'f1000', '1xAdmA', '1 h', pool => 'adm');
SELECT status, reason FROM reserve('far', 'p', 'f1001', '1xAdmA', '1 h', pool => 'adm');
SELECT account, spare FROM quota WHERE org = 'far' ORDER BY account;
SELECT * FROM verify('far');
UPDATE quota SET spare = 900 WHERE org = 'far' AND account = '';
SELECT * FROM verify('far');
SELECT set_quota('far', '', max_queued => 1000) \g /dev/null

-- A month turns while a hold waits for a dead hold's share of the budget. The
-- hold is counted in the month that has ended, which is full. Asked again, it
-- counts in the new month.
SET gpucredit.clock = '2027-03-31 22:00+00';
SELECT create_account('turn') \g /dev/null
SELECT issue('turn', '', 'i', 100), set_budget('turn', '', 20) \g /dev/null
SELECT status FROM hold('turn', '', 'h', 8, '10 h');
SELECT status FROM hold('turn', '', 'dead', 10, '1 h');
SET gpucredit.clock = '2027-03-31 23:00+00';
BEGIN;
CREATE FUNCTION pg_temp.meanwhile() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('gpucredit.clock', '2027-04-01 00:00+00', false);
	UPDATE gpucredit.budget_counter SET reserved = reserved + TG_ARGV[0]::gpucredit.credits
	WHERE org = 'turn';
	RETURN NEW;
END $$;
SAVEPOINT s;
CREATE TRIGGER meanwhile BEFORE UPDATE ON hold FOR EACH ROW EXECUTE FUNCTION pg_temp.meanwhile('0');
SELECT status, reason FROM hold('turn', '', 'counted', 12, '1 h');
\echo :SQLSTATE
ROLLBACK TO s;
CREATE TRIGGER meanwhile BEFORE UPDATE ON hold FOR EACH ROW EXECUTE FUNCTION pg_temp.meanwhile('1');
SELECT status, reason FROM hold('turn', '', 'full', 12, '1 h');
\echo :SQLSTATE
ROLLBACK;
SET gpucredit.clock = '2027-04-01 00:00+00';
SELECT status, reason FROM hold('turn', '', 'full', 12, '1 h');
SELECT period_start, reserved FROM budgets('turn');
SELECT * FROM verify('turn');

-- The next time, a hold reads the budget that refused the last one before it
-- writes anything.
SELECT create_account('look'), issue('look', '', 'i', 100), set_budget('look', '', 10, 'none')
	\g /dev/null
SELECT status, reason FROM hold('look', '', 'first', 6, '1 h');
SELECT status, reason FROM hold('look', '', 'second', 6, '1 h');
SELECT pg_sequence_last_value('entry_entry_seq') AS entries \gset
SELECT status, reason FROM hold('look', '', 'third', 6, '1 h');
SELECT pg_sequence_last_value('entry_entry_seq') - :entries AS written_in_vain;
SELECT status, reason FROM hold('look', '', 'fourth', 4, '1 h');

SELECT * FROM verify('look');
SELECT * FROM verify('adm');
SELECT * FROM verify('cm');
SELECT * FROM verify('far');
SELECT * FROM verify('turn');
