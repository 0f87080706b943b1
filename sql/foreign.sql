--
-- Foreign pools: another scheduler chooses the devices and reports them by
-- placed(); prices, holds, bills, quotas and figures are as everywhere.
--
SET search_path = gpucredit, public;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET client_min_messages = warning;
SET gpucredit.node_suspect = 0;
SET gpucredit.clock = '2035-01-01 00:00+00';
\pset null '-'
SELECT create_pool('fo', '{"placed_by": "foreign"}'), create_pool('own') \g /dev/null
SELECT set_price('FoA', 10), set_price('FoB', 1),
	register_node('fo', 'fo-1', 'FoA', 4, 80000),
	register_node('fo', 'fo-2', 'FoA', 4, 80000),
	register_node('fo', 'fo-3', 'FoB', 4, 80000),
	register_node('own', 'own-1', 'FoA', 4, 80000),
	create_account('fo'), create_account('fo', 'a'), create_account('fp') \g /dev/null
SELECT count(issue('fo', '', 'paid', 1000)), count(issue('fp', '', 'paid', 1000)) \g /dev/null
CREATE FUNCTION pg_temp.ask(org text, key text, request text, pool text DEFAULT 'fo')
RETURNS TABLE (status text, reason text, held numeric) LANGUAGE sql AS
$$ SELECT r.status, r.reason, r.held FROM gpucredit.reserve($1,
	CASE org WHEN 'fo' THEN 'a' ELSE '' END, $2, $3, '2 hours', pool => $4) r $$;
CREATE FUNCTION pg_temp.id(k text) RETURNS bigint LANGUAGE sql AS
$$ SELECT r.result[1]::bigint FROM gpucredit.request r
	WHERE r.operation = 'reserve' AND r.org IN ('fo', 'fp') AND r.key = k $$;
-- What placed() answers, with jobs called by their keys.
CREATE FUNCTION pg_temp.try(org text, k text, key text, nodes text[], gpus gpuset[],
	gpu_type text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
	detail text;
	name record;
BEGIN
	SELECT placed(try.org, pg_temp.id(k), try.key, nodes, gpus, gpu_type)::text
	INTO result;
	RETURN result;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	result := sqlstate || ' ' || sqlerrm || ': ' || detail;
	FOR name IN SELECT r.key, r.result[1] AS job FROM gpucredit.request r
		WHERE r.operation = 'reserve' AND r.org IN ('fo', 'fp')
			AND r.result[1] IS NOT NULL
	LOOP
		result := regexp_replace(result, '\mjob ' || name.job || '\M',
			'job ' || quote_literal(name.key), 'g');
	END LOOP;
	RETURN result;
END $$;

-- A policy has one of two words.
SELECT create_pool('bad', '{"placed_by": "slurm"}');

-- Submission checks and holds as ever; place() starts nothing.
SELECT * FROM pg_temp.ask('fo', 'one', '1xFoA|FoB');
SELECT * FROM pg_temp.ask('fo', 'gang', '8xFoA');
SELECT * FROM pg_temp.ask('fo', 'broke', '8xFoA');
SELECT * FROM pg_temp.ask('fo', 'in vain', '8xFoA|FoB');
SELECT * FROM pg_temp.ask('fo', 'cpu', '0');
SELECT * FROM pg_temp.ask('fo', 'own', '1xFoA', 'own');
SELECT * FROM pg_temp.ask('fp', 'other', '2xFoA');
SELECT action FROM place('fo');
SELECT action FROM plan('fo');
SELECT check_name, passes, detail FROM explain('fo', pg_temp.id('one'))
WHERE check_name NOT IN ('state', 'credit');

-- The hold covers the dearest type; the price is that of the type the job got,
-- and the excess returns at once.
SELECT pg_temp.try('fo', 'one', 'p1', '{fo-3}', '{"{1}"}', 'FoB');
SELECT pg_temp.try('fo', 'one', 'p1', '{fo-3}', '{"{1}"}', 'FoB');
SELECT pg_temp.try('fo', 'one', 'p1', '{fo-3}', '{"{2}"}', 'FoB');
SELECT pg_temp.try('fo', 'one', 'p1 again', '{fo-3}', '{"{2}"}', 'FoB');
SELECT held, spendable FROM balance('fo');
SELECT node, g.gpus, g.share, gpu_type, per_gpu_hour, a.held, surplus
FROM attempt a JOIN attempt_gpu g USING (org, job, attempt)
WHERE job = pg_temp.id('one');

-- A refused call writes nothing, and its key may be tried again.
SELECT pg_temp.try('fp', 'other', 'p2', '{fo-3}', '{"{0,1}"}');		-- of one's devices
SELECT pg_temp.try('fp', 'other', 'p2', '{fo-3}', '{"{2,3}"}');		-- not offered
SELECT pg_temp.try('fp', 'other', 'p2', '{own-1}', '{"{0,1}"}');	-- another pool's
SELECT pg_temp.try('fp', 'other', 'p2', '{fo-9}', '{"{0,1}"}');
SELECT pg_temp.try('fp', 'other', 'p2', '{fo-1}', '{"{0,7}"}');
SELECT pg_temp.try('fp', 'other', 'p2', '{fo-1}', '{"{0}"}');
SELECT pg_temp.try('fp', 'other', 'p2', '{fo-1,fo-1}', '{"{0}","{1}"}');
SELECT pg_temp.try('fp', 'other', 'p2', '{fo-1}', '{"{0,1}"}', 'FoB');
SELECT pg_temp.try('fp', 'other', 'p2', '{fo-1}', '{"{0}","{1}"}');
SELECT pg_temp.try('fp', 'other', 'p2', '{fo-1}', '{NULL}');
SELECT pg_temp.try('fp', 'other', 'p2', '{}', '{}');
SELECT pg_temp.try('fp', 'one', 'p2', '{fo-1}', '{"{0,1}"}');		-- another tenant's
SELECT pg_temp.try('fo', 'own', 'p3', '{own-1}', '{"{0}"}');		-- place() places there
SELECT placed('fo', -1, 'p3', '{fo-1}', '{"{0}"}');
SELECT pg_temp.try('fp', 'other', 'p2', '{fo-1}', '{"{0,1}"}');
SELECT pg_temp.try('fo', 'gang', 'p4', '{fo-1,fo-2}', '{"{0-3}","{0-3}"}');

-- A quota counts what runs in every pool.
SELECT set_quota('fo', 'a', max_running => 1);
SELECT pg_temp.try('fo', 'cpu', 'p5', '{fo-1}', '{"{}"}');
SELECT set_quota('fo', 'a', max_running => 2);
SELECT pg_temp.try('fo', 'cpu', 'p5', '{fo-1}', '{"{}"}');
SELECT count(*) FROM place('own');		-- the third one has to wait

-- Figures and screens show its jobs.
SELECT org, account, live FROM fair_share('fo') ORDER BY org, account;
SELECT state, request FROM jobs WHERE org = 'fo' AND pool = 'fo' ORDER BY job;
SELECT node, g.gpus, free FROM attempt_gpu g WHERE pool = 'fo' ORDER BY node, g.gpus;
SELECT * FROM verify();

-- A settled attempt is billed as metered, at its type's price.
SET gpucredit.clock = '2035-01-01 00:30+00';
SELECT action, reason, billed, held FROM meter('fo', pg_temp.id('one'), 1, '30 min');
SELECT outcome, billed, released, job_state
FROM settle('fo', pg_temp.id('one'), 1, 'completed', '30 min');
SELECT pg_temp.try('fo', 'one', 'p6', '{fo-3}', '{"{1}"}');			-- it is over
SELECT job_state FROM cancel('fp', pg_temp.id('other'), 'stop it');
SELECT action, reason FROM meter('fp', pg_temp.id('other'), 1, '30 min');
SELECT outcome, billed, job_state
FROM settle('fp', pg_temp.id('other'), 1, 'cancelled', '30 min');
SELECT pg_temp.try('fo', 'gang', 'p4', '{fo-2,fo-1}', '{"{0-3}","{0-3}"}');
SELECT set_quota('fo', 'a', max_running => 3);
SELECT pg_temp.try('fo', 'gang', 'p4', '{fo-2,fo-1}', '{"{0-3}","{0-3}"}');
SELECT * FROM verify();
SET gpucredit.clock = '2035-01-01 01:30+00';
SELECT outcome, billed, job_state
FROM settle('fo', pg_temp.id('gang'), 1, 'completed', '1 hour');

-- A preempted job is queued again, and placed again under its next hold.
SELECT outcome, job_state FROM settle('fo', pg_temp.id('cpu'), 1, 'preempted', '1 hour');
SELECT count(*) FROM place('fo');
SELECT pg_temp.try('fo', 'cpu', 'p5', '{fo-1}', '{"{}"}');			-- the first one's answer
SELECT pg_temp.try('fo', 'cpu', 'p7', '{fo-2}', '{"{}"}');
SELECT outcome, job_state FROM settle('fo', pg_temp.id('cpu'), 2, 'completed', '1 hour');

-- A job without credit for its next hold is not placed.
SELECT * FROM pg_temp.ask('fp', 'poor', '8xFoA');
SELECT pg_temp.try('fp', 'poor', 'q1', '{fo-1,fo-2}', '{"{0-3}","{0-3}"}');
SELECT revoked FROM revoke('fp', (SELECT bucket FROM bucket WHERE org = 'fp'), 'r', 'test');
SELECT outcome, job_state FROM settle('fp', pg_temp.id('poor'), 1, 'preempted', '0');
SELECT pg_temp.try('fp', 'poor', 'q2', '{fo-1,fo-2}', '{"{0-3}","{0-3}"}');
SELECT count(issue('fp', '', 'more', 1000));
SELECT count(*) FROM place('fo');		-- it has credit again, from this cycle on
SELECT pg_temp.try('fp', 'poor', 'q2', '{fo-1,fo-2}', '{"{0-3}","{0-3}"}');
SELECT outcome, job_state FROM settle('fp', pg_temp.id('poor'), 2, 'completed', '0');

-- The audit log has each start and each denial.
SELECT decision, count(*) FROM audit WHERE org IN ('fo', 'fp') AND operation = 'place'
GROUP BY 1;
SELECT * FROM usage_by('fo', '', by => 'type');
-- A start reported late is billed from the start, but never from before the
-- submission. A key's arguments do not change with the time.
SET gpucredit.clock = '2035-01-02 00:00+00';
SELECT * FROM pg_temp.ask('fp', 'late', '1xFoB');
SET gpucredit.clock = '2035-01-02 01:00+00';
SELECT attempt, replayed FROM placed('fp', pg_temp.id('late'), 'late p', '{fo-3}', '{"{3}"}', 'FoB', '40 min');
SELECT attempt, replayed FROM placed('fp', pg_temp.id('late'), 'late p', '{fo-3}', '{"{3}"}', 'FoB', '50 min');
SELECT started_at FROM attempts WHERE org = 'fp' AND job = pg_temp.id('late');
SELECT * FROM verify();
-- It was not silent before it was placed.
SELECT FROM reap_holds() \g /dev/null
SELECT outcome FROM attempts WHERE org = 'fp' AND job = pg_temp.id('late');
SELECT outcome, billed FROM settle('fp', pg_temp.id('late'), 1, 'completed', '30 min');
SELECT * FROM pg_temp.ask('fp', 'later', '1xFoB');
SELECT attempt FROM placed('fp', pg_temp.id('later'), 'later p', '{fo-3}', '{"{2}"}', 'FoB', '1 day');
SELECT started_at FROM attempts WHERE org = 'fp' AND job = pg_temp.id('later');
SELECT outcome, billed FROM settle('fp', pg_temp.id('later'), 1, 'completed', '30 min');
-- A budget refuses and counts as everywhere, and so does a quota of devices.
SELECT set_budget('fp', '', 15, 'none');
SELECT * FROM pg_temp.ask('fp', 'within', '4xFoB');
SELECT * FROM pg_temp.ask('fp', 'beyond', '4xFoB');
SELECT set_quota('fp', '', 'FoB', max_gpus => 3);
SELECT pg_temp.try('fp', 'within', 'b1', '{fo-3}', '{"{0-3}"}');
SELECT set_quota('fp', '', 'FoB', max_gpus => 4);
SELECT pg_temp.try('fp', 'within', 'b1', '{fo-3}', '{"{0-3}"}');
SELECT period, amount, reserved, spent, remaining FROM budgets('fp');
SET gpucredit.clock = '2035-01-02 02:00+00';
SELECT outcome, billed, released FROM settle('fp', pg_temp.id('within'), 1, 'completed', '1 hour');
SELECT period, amount, reserved, spent, remaining FROM budgets('fp');
SELECT * FROM pg_temp.ask('fp', 'next', '4xFoB');
SELECT job_state FROM cancel('fp', pg_temp.id('next'), 'cancel next');

-- A lost attempt fences its devices for node_lost. Then the other scheduler may
-- give them again, also on a node that is silent or drains.
SET gpucredit.node_lost = '10 min';
SELECT * FROM pg_temp.ask('fp', 'lost', '2xFoB');
SELECT * FROM pg_temp.ask('fp', 'after', '2xFoB');
SELECT pg_temp.try('fp', 'lost', 'l1', '{fo-3}', '{"{0,1}"}');
SET gpucredit.clock = '2035-01-02 02:20+00';
SELECT affected FROM check_nodes() WHERE affected > 0;
SELECT outcome, ended_at FROM attempts WHERE org = 'fp' AND job = pg_temp.id('lost');
SELECT pg_temp.try('fp', 'after', 'l2', '{fo-3}', '{"{1,2}"}');
SET gpucredit.clock = '2035-01-02 02:31+00';
SELECT drain('fo-3', 'repair') \g /dev/null
SELECT pg_temp.try('fp', 'after', 'l2', '{fo-3}', '{"{1,2}"}');
SELECT g.gpus, g.free FROM attempt_gpu g WHERE g.org = 'fp'
	AND g.job IN (pg_temp.id('lost'), pg_temp.id('after')) ORDER BY g.gpus;
SELECT * FROM verify();
SELECT outcome FROM settle('fp', pg_temp.id('after'), 1, 'completed', '0');
SELECT job_state FROM cancel('fp', pg_temp.id('lost'), 'cancel lost');
RESET gpucredit.node_lost;

-- What an attempt of another pool has is refused, too, and that is named.
SELECT action, node, gpus FROM place('own');
SELECT * FROM pg_temp.ask('fo', 'guest', '1xFoA');
SELECT pg_temp.try('fo', 'guest', 'g1', '{own-1}', '{"{0,1}"}');
SELECT outcome FROM settle('fo', pg_temp.id('own'), 1, 'completed', '0');

-- Figures count its use: of fair share, and of reports.
SELECT org, account, live, used > 0 AS used FROM fair_share('fo') ORDER BY org, account;
SELECT spent, jobs FROM top_spenders('fp', 1, '2035-01-01');
SELECT * FROM invoice('fp', '2035-01-01');
-- Two starts on one device, told late, may overlap: what the other scheduler
-- says is billed. That stays so where the pool is placed by place() later on.
SELECT * FROM pg_temp.ask('fp', 'turn 1', '1xFoB');
SELECT * FROM pg_temp.ask('fp', 'turn 2', '1xFoB');
SET gpucredit.clock = '2035-01-02 03:00+00';
SELECT attempt FROM placed('fp', pg_temp.id('turn 1'), 'turn 1 p', '{fo-3}', '{"{2}"}', 'FoB', '10 min');
SELECT outcome, billed FROM settle('fp', pg_temp.id('turn 1'), 1, 'completed', '10 min');
SELECT attempt FROM placed('fp', pg_temp.id('turn 2'), 'turn 2 p', '{fo-3}', '{"{2}"}', 'FoB', '10 min');
SELECT outcome, billed FROM settle('fp', pg_temp.id('turn 2'), 1, 'completed', '10 min');
SELECT create_pool('fo', '{}') \g /dev/null
SELECT * FROM verify();
SELECT create_pool('fo', '{"placed_by": "foreign"}') \g /dev/null
SELECT count(cancel('fo', pg_temp.id(k), 'cancel ' || k)) FROM unnest('{broke,in vain,guest}'::text[]) k;
SELECT remove_node(n) FROM unnest('{fo-1,fo-2,fo-3,own-1}'::text[]) n \g /dev/null
SELECT * FROM verify();
