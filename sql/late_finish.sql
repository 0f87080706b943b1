-- A late finish: the server ended an attempt and queued its job again before
-- the agent reports that it completed.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
SET gpucredit.clock = '2028-02-01 00:00+00';
SET gpucredit.node_suspect = 0;
\pset null '-'

DO $$
BEGIN
	PERFORM gpucredit.create_pool('late');
	PERFORM gpucredit.set_price('LATE-A', 36, 'late');
	PERFORM gpucredit.register_node('late', 'late-1', 'LATE-A', 8, 40960);
	PERFORM gpucredit.set_tier('late-free', 5, 'capacity', false, bill_lost_work => false);
	PERFORM gpucredit.create_account('late');
	PERFORM gpucredit.grant_tier('late', '', 'premium_training');
	PERFORM gpucredit.issue('late', '', 'i', 10000);
END $$;

CREATE FUNCTION pg_temp.job(job_key text, tenant text DEFAULT 'late')
RETURNS bigint LANGUAGE sql AS $$
	SELECT r.result[1]::bigint FROM gpucredit.request r
	WHERE r.org = tenant AND r.key = job_key
$$;
CREATE FUNCTION pg_temp.place() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	PERFORM gpucredit.heartbeat(n.node) FROM gpucredit.node n WHERE n.pool = 'late';
	RETURN count(*) FROM gpucredit.place('late') p WHERE p.action = 'start';
END $$;
CREATE FUNCTION pg_temp.state(job_key text, tenant text DEFAULT 'late',
	OUT state text, OUT attempt int, OUT held numeric, OUT open_holds bigint, OUT captured numeric)
LANGUAGE sql AS $$
	SELECT j.state, j.attempt, coalesce(sum(h.held::numeric), 0), count(*) FILTER (WHERE h.closed_at IS NULL),
		sum(h.captured::numeric)
	FROM gpucredit.job j JOIN gpucredit.hold h ON h.org = j.org AND h.job = j.job
	WHERE j.org = tenant AND j.job = pg_temp.job(job_key, tenant) GROUP BY j.job, j.state, j.attempt
$$;

-- Jobs are metered for an hour and then fall silent.
SELECT k, status, held FROM unnest('{done,again,free,gone,twice}'::text[]) k,
	gpucredit.reserve('late', '', k, '1xLATE-A', '10 h', pool => 'late',
		tier => CASE k WHEN 'free' THEN 'late-free' ELSE 'standard_training' END,
		hold_window => CASE k WHEN 'done' THEN '2 h'::interval END);
SELECT pg_temp.place();
SELECT count(gpucredit.meter('late', pg_temp.job(k), 1, '0')) FROM unnest('{done,again,free,gone,twice}'::text[]) k;
SET gpucredit.clock = '2028-02-01 01:00+00';
SELECT count(gpucredit.meter('late', pg_temp.job(k), 1, '1 h')) FROM unnest('{done,again,free,gone,twice}'::text[]) k;
SET gpucredit.node_lost = 0;
SET gpucredit.clock = '2028-02-01 01:10+00';
SELECT count(*) FROM gpucredit.reap_holds();
SELECT k, s.* FROM unnest('{done,again,free,gone,twice}'::text[]) k, pg_temp.state(k) s;
SELECT available, held, spent FROM gpucredit.balance('late');

-- The attempt completed after all: nothing runs again, and its whole time is
-- billed, also where that is more than the hold covered.
SET gpucredit.clock = '2028-02-01 04:10+00';
SELECT * FROM gpucredit.settle('late', pg_temp.job('done'), 1, 'completed', '3 h', 0, 'done', 'log://1');
SELECT * FROM pg_temp.state('done');
SELECT outcome, elapsed, held, billed, uncollected, ended_by, message, log_uri FROM gpucredit.attempt
WHERE org = 'late' AND job = pg_temp.job('done');
SELECT decision, reason, detail FROM gpucredit.audit WHERE org = 'late' AND job = pg_temp.job('done')
	AND operation = 'settle' ORDER BY audit;
-- exactly once
SELECT * FROM gpucredit.settle('late', pg_temp.job('done'), 1, 'completed', '4 h');
SELECT * FROM gpucredit.settle('late', pg_temp.job('done'), 1, 'failed', '1 min');
SELECT action, reason, billed, held FROM gpucredit.meter('late', pg_temp.job('done'), 1, '4 h');
-- a claim of more time than passed is cut
SELECT outcome, billed, job_state, uncollected FROM gpucredit.settle('late', pg_temp.job('again'), 1, 'completed', '9 h');
-- lost work that was refunded is billed again
SELECT billed, refunded FROM gpucredit.attempt WHERE org = 'late' AND job = pg_temp.job('free');
SELECT outcome, billed, refunded, job_state, uncollected FROM gpucredit.settle('late', pg_temp.job('free'), 1, 'completed', '2 h');
SELECT * FROM pg_temp.state('free');
-- any other outcome is only evidence, and so is the word of a caller that is
-- no agent
CREATE ROLE late_app LOGIN;
GRANT gpucredit_app TO late_app;
SELECT pg_temp.job('gone') AS gone, pg_temp.job('twice') AS twice \gset
SELECT outcome, billed, job_state, replayed FROM gpucredit.settle('late', :gone, 1, 'failed', '2 h');
SET ROLE late_app;
SELECT outcome, billed, job_state, replayed FROM gpucredit.settle('late', :gone, 1, 'completed');
RESET ROLE;
SELECT * FROM gpucredit.verify('late');
-- a job cancelled while it waited stays cancelled
SELECT job_state FROM gpucredit.cancel('late', :gone, 'c');
SELECT outcome, billed, job_state, replayed FROM gpucredit.settle('late', :gone, 1, 'completed', '2 h');
-- once another attempt has begun, the settlement stands
SELECT pg_temp.place();
SELECT outcome, billed, job_state, replayed FROM gpucredit.settle('late', :twice, 1, 'completed', '2 h');
SELECT * FROM pg_temp.state('twice');
SELECT outcome, billed, job_state, replayed FROM gpucredit.settle('late', :twice, 2, 'completed', '1 min');
SELECT available, held, spent FROM gpucredit.balance('late');
SELECT * FROM gpucredit.verify('late');

-- A job that waits for credit holds none: the bill is what credit there is.
SET gpucredit.clock = '2028-02-02 00:00+00';
DO $$
BEGIN
	PERFORM gpucredit.create_account('late-poor');
	PERFORM gpucredit.issue('late-poor', '', 'i', 40);
	PERFORM gpucredit.set_budget('late-poor', '', 38, 'none');
END $$;
SELECT status, held FROM gpucredit.reserve('late-poor', '', 'p', '1xLATE-A', '2 h', pool => 'late', hold_window => '1 h');
SELECT pg_temp.place();
SET gpucredit.clock = '2028-02-02 00:30+00';
SELECT action FROM gpucredit.meter('late-poor', pg_temp.job('p', 'late-poor'), 1, '30 min');
SET gpucredit.clock = '2028-02-02 01:10+00';
SELECT count(*) FROM gpucredit.reap_holds();
SELECT * FROM pg_temp.state('p', 'late-poor');
SELECT outcome, billed, released, job_state, uncollected, replayed
FROM gpucredit.settle('late-poor', pg_temp.job('p', 'late-poor'), 1, 'completed', '65 min');
SELECT * FROM pg_temp.state('p', 'late-poor');
SELECT available, held, spent FROM gpucredit.balance('late-poor');
SELECT reserved, spent FROM gpucredit.budgets('late-poor');
SELECT kind, detail ->> 'reason' AS reason, detail ->> 'uncollected' AS uncollected
FROM gpucredit.alert WHERE org = 'late-poor' AND kind = 'uncollected';
SELECT * FROM gpucredit.verify('late-poor');

-- Devices promised to the job go to others.
SET gpucredit.clock = '2028-02-03 00:00+00';
SELECT status FROM gpucredit.reserve('late', '', 'promised', '8xLATE-A', '10 h', pool => 'late', tier => 'premium_training');
SELECT pg_temp.place();
SELECT action FROM gpucredit.meter('late', pg_temp.job('promised'), 1, '0');
SET gpucredit.clock = '2028-02-03 00:10+00';
SELECT count(*) FROM gpucredit.reap_holds();
SELECT free FROM gpucredit.attempt_gpu WHERE org = 'late' AND job = pg_temp.job('promised');
UPDATE gpucredit.attempt_gpu SET free = true WHERE org = 'late' AND job = pg_temp.job('promised');
UPDATE gpucredit.job SET not_before = '2028-02-03 00:11+00' WHERE org = 'late' AND job = pg_temp.job('promised');
SELECT status FROM gpucredit.reserve('late', '', 'batch', '8xLATE-A', '2 h', pool => 'late', tier => 'batch_inference');
SELECT pg_temp.place();
SELECT action FROM gpucredit.meter('late', pg_temp.job('batch'), 1, '0');
SET gpucredit.clock = '2028-02-03 00:25+00';
SELECT action FROM gpucredit.meter('late', pg_temp.job('batch'), 1, '15 min');
SELECT p.action, p.job = pg_temp.job('promised') AS promised FROM gpucredit.place('late') p ORDER BY 1;
SELECT count(*) FROM gpucredit.claim WHERE org = 'late';
SELECT outcome, billed, job_state, replayed FROM gpucredit.settle('late', pg_temp.job('promised'), 1, 'completed', '10 min');
SELECT (SELECT count(*) FROM gpucredit.claim WHERE org = 'late') AS claims,
	(SELECT count(*) FROM gpucredit.claim_gpu WHERE org = 'late') AS devices;
SELECT * FROM gpucredit.place('late');
SELECT job_state FROM gpucredit.settle('late', pg_temp.job('batch'), 1, 'completed', '20 min');
SELECT * FROM gpucredit.verify('late');

-- An owner ends its job, whose process runs on until its agent notices: that
-- time is billed once the agent reports it, whatever the job does by then.
SET gpucredit.clock = '2028-02-04 00:00+00';
SELECT k, status FROM unnest('{on,requeued}'::text[]) k,
	gpucredit.reserve('late', '', k, '1xLATE-A', '1 h', pool => 'late');
SELECT pg_temp.place();
SELECT count(gpucredit.meter('late', pg_temp.job(k), 1, '0')) FROM unnest('{on,requeued}'::text[]) k;
SELECT pg_temp.job('on') AS on, pg_temp.job('requeued') AS requeued \gset
SET gpucredit.clock = '2028-02-04 00:01+00';
SET ROLE late_app;
SELECT outcome, billed, job_state, replayed FROM gpucredit.settle('late', :on, 1, 'completed');
SELECT outcome, billed, job_state, replayed FROM gpucredit.settle('late', :requeued, 1, 'preempted');
RESET ROLE;
SELECT pg_temp.place();
SET gpucredit.clock = '2028-02-04 00:02:10+00';
SELECT outcome, billed, released, job_state, uncollected, replayed FROM gpucredit.settle('late', :on, 1, 'failed', '2 min', 137);
SELECT outcome, billed, released, job_state, uncollected, replayed FROM gpucredit.settle('late', :on, 1, 'failed', '3 min', 137);
SELECT outcome, billed, released, job_state, uncollected, replayed FROM gpucredit.settle('late', :requeued, 1, 'failed', '2 min', 137);
SELECT k, s.* FROM unnest('{on,requeued}'::text[]) k, pg_temp.state(k) s;
SELECT outcome, billed, job_state, uncollected, replayed FROM gpucredit.settle('late', :requeued, 2, 'completed', '1 min');
SELECT k, a.attempt, a.outcome, a.elapsed, a.billed, a.uncollected, a.ended_by, a.exit_code
FROM unnest('{on,requeued}'::text[]) k, gpucredit.attempt a WHERE a.org = 'late' AND a.job = pg_temp.job(k) ORDER BY 1, 2;
SELECT * FROM gpucredit.verify('late');

-- An attempt that did not complete, but ran on, pays for that time. What was
-- refunded for its lost work stays refunded.
SET gpucredit.clock = '2028-02-04 01:00+00';
SELECT status FROM gpucredit.reserve('late', '', 'lost', '1xLATE-A', '2 h', pool => 'late', tier => 'late-free');
SELECT pg_temp.place();
SELECT action FROM gpucredit.meter('late', pg_temp.job('lost'), 1, '0');
SET gpucredit.clock = '2028-02-04 01:30+00';
SELECT action FROM gpucredit.meter('late', pg_temp.job('lost'), 1, '30 min');
SET gpucredit.clock = '2028-02-04 01:40+00';
SELECT count(*) FROM gpucredit.reap_holds();
SELECT outcome, elapsed, billed, refunded, uncollected FROM gpucredit.attempt WHERE org = 'late' AND job = pg_temp.job('lost');
SET gpucredit.heartbeat_timeout = 0;
SELECT outcome, billed, refunded, uncollected, replayed FROM gpucredit.settle('late', pg_temp.job('lost'), 1, 'failed', '35 min', 1);
RESET gpucredit.heartbeat_timeout;
SELECT outcome, elapsed, billed, refunded, uncollected FROM gpucredit.attempt WHERE org = 'late' AND job = pg_temp.job('lost');
SELECT * FROM gpucredit.verify('late');

-- On one node part_ended is settle: an agent that is slow to end a program which
-- the server has ended says so by it, and the time until then is paid.
SET gpucredit.clock = '2028-02-04 03:00+00';
SELECT status FROM gpucredit.reserve('late', '', 'slow', '1xLATE-A', '2 h', pool => 'late');
SELECT pg_temp.place();
SELECT action FROM gpucredit.meter('late', pg_temp.job('slow'), 1, '0');
SELECT job_state FROM gpucredit.cancel('late', pg_temp.job('slow'), 'c slow');
SET gpucredit.clock = '2028-02-04 03:05+00';
SELECT action FROM gpucredit.meter('late', pg_temp.job('slow'), 1, '5 min');
SELECT affected FROM gpucredit.reap_holds() WHERE task = 'settle_overdue';
SELECT outcome, elapsed, billed FROM gpucredit.attempt WHERE org = 'late' AND job = pg_temp.job('slow');
SET gpucredit.clock = '2028-02-04 03:15+00';
SELECT node AS n FROM gpucredit.attempt_gpu WHERE org = 'late' AND job = pg_temp.job('slow') \gset
SELECT replayed FROM gpucredit.part_ended('late', pg_temp.job('slow'), 1, :'n', 'cancelled', 137, NULL, '15 min');
SELECT replayed FROM gpucredit.part_ended('late', pg_temp.job('slow'), 1, :'n', 'cancelled', 137, NULL, '16 min');
SELECT outcome, elapsed, billed, uncollected FROM gpucredit.attempt WHERE org = 'late' AND job = pg_temp.job('slow');
SELECT free FROM gpucredit.attempt_gpu WHERE org = 'late' AND job = pg_temp.job('slow');
SELECT * FROM gpucredit.verify('late');

-- The parts of a gang end after its owner ended it: the last report bills the
-- time for which each node kept its devices, once, weighted by these.
SET gpucredit.clock = '2028-02-04 04:00+00';
SELECT gpucredit.create_pool('late-gang'), gpucredit.set_price('LATE-G', 36, 'late-gang'),
	gpucredit.register_node('late-gang', 'lg-1', 'LATE-G', 4, 40960),
	gpucredit.register_node('late-gang', 'lg-2', 'LATE-G', 2, 40960) \g /dev/null
SELECT status FROM gpucredit.reserve('late', '', 'gang', '6xLATE-G', '2 h', pool => 'late-gang');
SELECT count(*) FROM gpucredit.place('late-gang');
SELECT action FROM gpucredit.meter('late', pg_temp.job('gang'), 1, '0');
SET gpucredit.clock = '2028-02-04 04:10+00';
SET ROLE gpucredit_app;
SELECT outcome, billed FROM gpucredit.settle('late', (SELECT job FROM gpucredit.jobs WHERE pool = 'late-gang'), 1, 'cancelled');
RESET ROLE;
SET gpucredit.clock = '2028-02-04 04:16+00';
SELECT over, billed, replayed FROM gpucredit.part_ended('late', pg_temp.job('gang'), 1, 'lg-1', 'failed', 137, NULL, '13 min');
SELECT over, billed, replayed FROM gpucredit.part_ended('late', pg_temp.job('gang'), 1, 'lg-1', 'failed', 137, NULL, '16 min');
SELECT over, billed, replayed FROM gpucredit.part_ended('late', pg_temp.job('gang'), 1, 'lg-2', 'failed', 137, NULL, '16 min');
SELECT over, billed, replayed FROM gpucredit.part_ended('late', pg_temp.job('gang'), 1, 'lg-2', 'failed', 137, NULL, '16 min');
-- 10 min of 6 devices, 3 min more of 4, 6 min more of 2
SELECT outcome, elapsed, billed, uncollected, late_elapsed, billed = 0.6 * (10 * 6 + 3 * 4 + 6 * 2) AS as_kept
FROM gpucredit.attempt WHERE org = 'late' AND job = pg_temp.job('gang');
SELECT node, free FROM gpucredit.attempt_gpu WHERE org = 'late' AND job = pg_temp.job('gang') ORDER BY node;
SELECT * FROM gpucredit.verify('late');
-- The server ended a gang that was not heard of; it had completed. No part claims
-- more than the time that passed.
SELECT status FROM gpucredit.reserve('late', '', 'unheard', '6xLATE-G', '2 h', pool => 'late-gang');
SELECT count(*) FROM gpucredit.place('late-gang');
SELECT action FROM gpucredit.meter('late', pg_temp.job('unheard'), 1, '0');
SET gpucredit.clock = '2028-02-04 04:26+00';
SELECT sum(affected) > 0 AS ended FROM gpucredit.reap_holds();
SELECT state FROM gpucredit.jobs WHERE org = 'late' AND job = pg_temp.job('unheard');
SELECT over, outcome, job_state FROM gpucredit.part_ended('late', pg_temp.job('unheard'), 1, 'lg-2', 'completed', 0, NULL, '9 min');
SELECT over, outcome, job_state FROM gpucredit.part_ended('late', pg_temp.job('unheard'), 1, 'lg-1', 'completed', 0, NULL, '9 days');
SELECT state, open_holds FROM pg_temp.state('unheard');
SELECT outcome, elapsed, billed FROM gpucredit.attempt WHERE org = 'late' AND job = pg_temp.job('unheard');
SELECT * FROM gpucredit.verify('late');

-- On a clock that goes on, the holds that a settlement closes end at different
-- instants, and the books are right all the same.
RESET gpucredit.clock;
SELECT gpucredit.create_pool('late-now');
SELECT gpucredit.set_price('LATE-N', 36, 'late-now');
SELECT gpucredit.register_node('late-now', 'late-now-1', 'LATE-N', 1, 40960);
SELECT gpucredit.create_account('late-now');
SELECT count(gpucredit.issue('late-now', '', 'i', 100));
SELECT job AS now FROM gpucredit.reserve('late-now', '', 'now', '1xLATE-N', '1 h', pool => 'late-now') \gset
SELECT count(*) FROM gpucredit.place('late-now') p WHERE p.action = 'start';
SELECT count(gpucredit.meter('late-now', :now, 1, '0'));
SET ROLE late_app;
SELECT outcome, job_state FROM gpucredit.settle('late-now', :now, 1, 'preempted');
RESET ROLE;
SELECT * FROM gpucredit.verify('late-now');
SELECT outcome, billed >= 0.05 AS pays, job_state, replayed FROM gpucredit.settle('late-now', :now, 1, 'completed', '5 s', 0);
SELECT count(*) AS holds, count(*) FILTER (WHERE closed_at IS NULL) AS open_holds FROM gpucredit.hold WHERE org = 'late-now';
SELECT * FROM gpucredit.verify('late-now');
DROP ROLE late_app;
