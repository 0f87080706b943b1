-- Fair share, ageing and shares of tiers in the database; the order itself
-- has scenarios of its own (test/scenarios).
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
SET search_path = gpucredit, public;
SET gpucredit.clock = '2027-01-01 00:00+00';
SET gpucredit.node_suspect = 0;
SET gpucredit.node_lost = 0;
\pset null '-'

CREATE PROCEDURE pg_temp.tick(passed interval) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('gpucredit.clock', (gpucredit.now() + passed)::text, false);
END $$;
-- Submits n jobs of one GPU; further arguments are in reserve's own words.
CREATE FUNCTION pg_temp.ask(pool text, org text, account text, key text,
	n int DEFAULT 1, more text DEFAULT '', request text DEFAULT '1xFair')
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	id bigint;
BEGIN
	FOR i IN 1 .. n LOOP
		EXECUTE format('SELECT job FROM gpucredit.reserve(%L, %L, %L, %L,'
			' pool => %L%s)', org, account, format('%s %s %s', pool, key, i),
			request, pool, coalesce(', ' || nullif(more, ''), ''))
		INTO id;
	END LOOP;
	RETURN id;
END $$;
-- How many jobs of each account a cycle starts.
CREATE FUNCTION pg_temp.cycle(pool text)
RETURNS TABLE (org text, account text, started bigint) LANGUAGE sql AS $$
	SELECT p.org, j.account, count(*) FROM gpucredit.place(cycle.pool) p
		JOIN gpucredit.job j ON j.org = p.org AND j.job = p.job
	GROUP BY 1, 2 ORDER BY 1, 2
$$;
CREATE PROCEDURE pg_temp.finish(pool text, org text DEFAULT NULL)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM gpucredit.settle(a.org, a.job, a.attempt, 'completed',
		gpucredit.now() - a.started_at)
	FROM gpucredit.attempt a
	WHERE a.pool = finish.pool AND a.ended_at IS NULL
		AND (finish.org IS NULL OR a.org = finish.org);
END $$;

SELECT create_account('fa'), create_account('fa', 'x', 3), create_account('fa', 'y'),
	create_account('fb'), create_account('fb', 'z') \g /dev/null
SELECT issue('fa', '', 'i', 1000000), issue('fb', '', 'i', 1000000) \g /dev/null

-- 100 jobs of each of two equal accounts, 100 devices, one cycle
SELECT create_pool('fs') \g /dev/null
SELECT set_price('Fair', 1) \g /dev/null
SELECT register_node('fs', 'fs-' || n, 'Fair', 10, 80000)
FROM generate_series(1, 10) n \g /dev/null
SELECT pg_temp.ask('fs', 'fa', '', 'a', 100) > 0, pg_temp.ask('fs', 'fb', '', 'b', 100) > 0;
SELECT * FROM pg_temp.cycle('fs');
SELECT * FROM fair_share('fs');
-- inside an organisation accounts share by weight; its own jobs count as an
-- account of weight 1
CALL pg_temp.tick('1 hour');
CALL pg_temp.finish('fs');
SELECT pg_temp.ask('fs', 'fa', 'x', 'x', 100) > 0, pg_temp.ask('fs', 'fa', 'y', 'y', 100) > 0;
SELECT set_quota('fb', '', max_gpus => 0) \g /dev/null
SELECT * FROM pg_temp.cycle('fs');
SELECT set_quota('fb', '') \g /dev/null
-- use is charged once, and half of it is forgotten in a week
SELECT org, account, usage, at FROM fair_usage WHERE pool = 'fs' ORDER BY 1, 2;
SELECT count(*), min(usage_charged), max(usage_charged) FROM attempt WHERE pool = 'fs' AND ended_at IS NOT NULL;
CALL pg_temp.tick('1 hour');
CALL pg_temp.finish('fs');
SELECT cancel(org, job, 'c' || job) FROM job WHERE pool = 'fs' AND state = 'queued' \g /dev/null
SELECT count(*) FROM place('fs');
CALL pg_temp.tick('7 days');
SELECT count(*) FROM place('fs');
SELECT org, account, usage, at FROM fair_usage WHERE pool = 'fs' ORDER BY 1, 2;
SELECT org, account, decayed, live, share, used, rank FROM fair_share('fs');
-- a refund lowers the bill, not the use
SELECT job FROM attempt WHERE pool = 'fs' AND org = 'fa' ORDER BY job LIMIT 1 \gset
SELECT refunded FROM refund('fa', :job, 'r', 1, 'fairness');
SELECT count(*) FROM place('fs');
SELECT org, account, decayed FROM fair_share('fs') WHERE org = 'fa' AND account = '';
-- use that has ended but is not charged yet counts as well, in plan and in a
-- cycle
SELECT pg_temp.ask('fs', 'fb', 'z', 'zz', 60) > 0;
SELECT * FROM pg_temp.cycle('fs');
CALL pg_temp.tick('30 min');
CALL pg_temp.finish('fs');
SELECT org, account, decayed, live FROM fair_share('fs') WHERE org = 'fb';
SELECT count(*) FROM place('fs');
SELECT org, account, decayed, live FROM fair_share('fs') WHERE org = 'fb';
-- the dearer type counts by its price: as 3 of the cheap one
SELECT set_price('FairBig', 3) \g /dev/null
SELECT register_node('fs', 'fs-big', 'FairBig', 8, 80000) \g /dev/null
SELECT pg_temp.ask('fs', 'fa', 'x', 'big', 2, '', '1xFairBig') > 0;
SELECT * FROM pg_temp.cycle('fs');
SELECT org, account, live FROM fair_share('fs') WHERE live > 0;
CALL pg_temp.finish('fs');
-- a free type counts as the cheapest priced one, and jobs without GPUs as
-- nothing
SELECT create_account('fd'), create_account('fe'), create_account('ff') \g /dev/null
SELECT create_pool('fs-free') \g /dev/null
SELECT set_price('FairGift', 0), register_node('fs-free', 'fs-gift', 'FairGift', 4, 80000),
	register_node('fs-free', 'fs-dear', 'FairBig', 8, 80000), register_node('fs-free', 'fs-cheap', 'Fair', 8, 80000),
	issue('fe', '', 'i', 1000) \g /dev/null
SELECT pg_temp.ask('fs-free', 'fd', '', 'gift', 2, '', '1xFairGift') > 0, pg_temp.ask('fs-free', 'fe', '', 'big', 2, '', '1xFairBig') > 0,
	pg_temp.ask('fs-free', 'ff', '', 'cpu', 2, '', '0') > 0;
SELECT * FROM pg_temp.cycle('fs-free');
SELECT org, live FROM fair_share('fs-free') WHERE account = '' ORDER BY 1;
CALL pg_temp.tick('1 hour');
CALL pg_temp.finish('fs-free');
SELECT count(*) FROM place('fs-free');
SELECT org, usage FROM fair_usage WHERE pool = 'fs-free' ORDER BY 1;
SELECT * FROM verify();

-- Ageing: a tier whose jobs wait an hour at most
SELECT create_pool('fs-ages') \g /dev/null
SELECT register_node('fs-ages', 'fs-ages-1', 'Fair', 1, 80000) \g /dev/null
SELECT set_tier('patient', 9, 'capacity', false, max_wait => '1 hour', ages_to => 0),
	set_tier('urgent', 1, 'never', false) \g /dev/null
SELECT pg_temp.ask('fs-ages', 'fa', '', 'block', 1, $$tier => 'urgent'$$) AS block \gset
SELECT count(*) FROM place('fs-ages');
SELECT pg_temp.ask('fs-ages', 'fb', '', 'old', 1, $$tier => 'patient'$$) AS old \gset
CALL pg_temp.tick('1 hour');
SELECT pg_temp.ask('fs-ages', 'fa', '', 'new', 1, $$tier => 'urgent'$$) AS new \gset
SELECT outcome FROM settle('fa', :block, 1, 'completed');
-- the job has not waited longer than max_wait yet
SELECT org FROM plan('fs-ages') WHERE action = 'start';
CALL pg_temp.tick('1 us');
-- aged, it passes no tier of a rank at which another can preempt, unless its tier says so
BEGIN;
SELECT set_tier('patient', 9, 'capacity', false, max_wait => '1 hour') \g /dev/null
SELECT org FROM plan('fs-ages') WHERE action = 'start';
ROLLBACK;
SELECT org FROM place('fs-ages');
SELECT state, waits_from, waited FROM job WHERE org = 'fb' AND job = :old;
-- a preempted job keeps the time it has waited
CALL pg_temp.tick('10 min');
SELECT outcome, job_state FROM settle('fb', :old, 1, 'preempted');
SELECT state, gpucredit.now() - waits_from AS waits FROM job WHERE org = 'fb' AND job = :old;
SELECT org FROM place('fs-ages');
-- a failed job waits anew, and its backoff does not count as waiting
CALL pg_temp.tick('10 min');
BEGIN;
SELECT outcome, job_state, retry_at - gpucredit.now() AS backoff FROM settle('fb', :old, 2, 'failed');
SELECT gpucredit.now() - waits_from AS waits FROM job WHERE org = 'fb' AND job = :old;
ROLLBACK;
SELECT outcome, job_state, retry_at - gpucredit.now() AS backoff FROM settle('fb', :old, 2, 'node_lost');
SELECT gpucredit.now() - waits_from AS waits FROM job WHERE org = 'fb' AND job = :old;
CALL pg_temp.tick('1 min');
SELECT gpucredit.now() - waits_from AS waits FROM job WHERE org = 'fb' AND job = :old;
-- a job without credit does not wait for the pool
SELECT org FROM place('fs-ages');
SELECT suspend_account('fb', '', true) \g /dev/null
SELECT outcome, job_state FROM settle('fb', :old, 3, 'preempted');
SELECT state, waits_from, waited FROM job WHERE org = 'fb' AND job = :old;
CALL pg_temp.tick('5 hours');
SELECT suspend_account('fb', '', false) \g /dev/null
SELECT count(*) FROM place('fs-ages');
SELECT state, attempt, waited FROM job WHERE org = 'fb' AND job = :old;
SELECT attempt, (detail ->> 'waited_us')::bigint * interval '1 us' AS waited
FROM audit WHERE org = 'fb' AND job = :old AND decision = 'start' ORDER BY audit;
CALL pg_temp.finish('fs-ages');
SELECT cancel('fa', :new, 'cn') \g /dev/null
SELECT state, waits_from IS NULL AS "does not wait", waited FROM job WHERE org = 'fa' AND job = :new;
SELECT * FROM verify();

-- A share: a lower tier goes first up to a quarter of the pool
SELECT create_pool('fs-shares', '{"tier_share": {"patient": 0.25}}') \g /dev/null
SELECT register_node('fs-shares', 'fs-shares-1', 'Fair', 8, 80000) \g /dev/null
SELECT pg_temp.ask('fs-shares', 'fa', '', 'u', 9, $$tier => 'urgent'$$) > 0,
	pg_temp.ask('fs-shares', 'fb', '', 'p', 9, $$tier => 'patient'$$) > 0;
SELECT * FROM pg_temp.cycle('fs-shares');
CALL pg_temp.finish('fs-shares', 'fa');
SELECT * FROM pg_temp.cycle('fs-shares');
SELECT create_pool('fs-shares') \g /dev/null
CALL pg_temp.finish('fs-shares');
SELECT count(*) FROM plan('fs-shares') WHERE org = 'fa';
SELECT * FROM verify();

-- Shortest first, by learnt run times; a job without a limit goes last
SELECT create_account('fc') \g /dev/null
SELECT issue('fc', '', 'i', 1000000) \g /dev/null
SELECT create_pool('fs-short', '{"order": "shortest"}') \g /dev/null
SELECT register_node('fs-short', 'fs-short-1', 'Fair', 5, 80000) \g /dev/null
SELECT set_tier('brief', 5, 'never', false), set_tier('whole', 5, 'never', false) \g /dev/null
SELECT pg_temp.ask('fs-short', 'fc', '', 'past', 5, $$tier => 'brief', wall_limit => '8 hours'$$) > 0;
SELECT * FROM pg_temp.cycle('fs-short');
CALL pg_temp.tick('1 hour');
CALL pg_temp.finish('fs-short');
SELECT pg_temp.ask('fs-short', 'fc', '', 'forever', 1, $$tier => 'whole', hold_window => '1 hour'$$) AS forever \gset
SELECT pg_temp.ask('fs-short', 'fc', '', 'long', 1, $$tier => 'whole', wall_limit => '5 hours'$$) AS long \gset
SELECT pg_temp.ask('fs-short', 'fc', '', 'short', 1, $$tier => 'whole', wall_limit => '3 hours'$$) AS short \gset
SELECT pg_temp.ask('fs-short', 'fc', '', 'brief', 1, $$tier => 'brief', wall_limit => '16 hours'$$) AS brief \gset
SELECT job = :brief AS brief FROM place('fs-short', 1);
SELECT job = :short AS short FROM place('fs-short', 1);
SELECT job = :long AS long FROM place('fs-short', 1);
SELECT job = :forever AS forever FROM place('fs-short', 1);
CALL pg_temp.tick('1 hour');
CALL pg_temp.finish('fs-short');
SELECT * FROM verify();

-- What a policy may say
\set VERBOSITY sqlstate
SELECT create_pool('fs-words', '{"order": "shortest"}');
SELECT create_pool('fs-words', '{"order": "fair", "tier_share": {"patient": 1}}');
SELECT create_pool('fs-words', '{"order": "longest"}');
SELECT create_pool('fs-words', '{"order": 1}');
SELECT create_pool('fs-words', '{"tier_share": 0.5}');
SELECT create_pool('fs-words', '{"tier_share": {"patient": 1.000001}}');
SELECT create_pool('fs-words', '{"tier_share": {"patient": -0.1}}');
SELECT create_pool('fs-words', '{"tier_share": {"patient": "x"}}');
SELECT create_pool('fs-words', '{"tier_share": {"patient": 0.6, "urgent": 0.5}}');
SELECT create_pool('fs-words', '{"tier_share": {"nobody": 0.5}}');
SELECT policy FROM pool WHERE pool = 'fs-words';
\set VERBOSITY default
SELECT create_pool('fs-words', '{"colour": "blue"}');
SELECT * FROM fair_share('fs-words');
-- Weights may add up to more than one
SELECT create_pool('fs-heavy'), register_node('fs-heavy', 'fs-heavy-1', 'Fair', 2, 80000) \g /dev/null
SELECT create_account('fh' || n, '', 4611686018427.387904), create_account('fh' || n, 'a', 9223372036854.775807),
	create_account('fh' || n, 'b', 9223372036854.775807), issue('fh' || n, '', 'i', 1000)
FROM generate_series(1, 4) n \g /dev/null
SELECT count(pg_temp.ask('fs-heavy', 'fh' || n, a, a)) FROM generate_series(1, 4) n, unnest('{a,b}'::text[]) a;
SELECT org, account, started FROM pg_temp.cycle('fs-heavy');
CALL pg_temp.tick('1 hour');
SELECT org, account, share, used, rank FROM fair_share('fs-heavy') WHERE org <= 'fh2';
SELECT sum(share::numeric) FROM fair_share('fs-heavy') WHERE account = '';
-- Page by page it has the same rows, and so has one organisation
WITH w AS MATERIALIZED (SELECT f, f.org, f.account, row_number() OVER () AS n FROM fair_share('fs-heavy') f)
SELECT count(*), bool_and((SELECT array_agg(p) FROM fair_share('fs-heavy', NULL, 5, w.org, w.account) p)
	IS NOT DISTINCT FROM (SELECT array_agg(x.f ORDER BY x.n) FROM w x WHERE x.n BETWEEN w.n + 1 AND w.n + 5)) AS same
FROM w;
SELECT org, account, share, used, rank FROM fair_share('fs-heavy', org => 'fh2');
SELECT org, account FROM fair_share('fs-heavy', most => 2);
SELECT count(*) FROM fair_share('fs-heavy', org => 'no such');
-- An attempt whose image cannot be had counts as five minutes, whether it was not
-- started or has failed; another that ends at once counts as what it took
SELECT create_pool('fs-image'), register_node('fs-image', 'fs-image-1', 'Fair', 3, 80000) \g /dev/null
SELECT count(pg_temp.ask('fs-image', 'fh' || n, 'a', 'image')) FROM generate_series(1, 3) n;
SELECT org, account, started FROM pg_temp.cycle('fs-image');
SELECT s.outcome, s.billed, s.job_state FROM attempt a,
	settle(a.org, a.job, a.attempt, CASE a.org WHEN 'fh1' THEN 'not_started' WHEN 'fh2' THEN 'completed' ELSE 'failed' END, '0',
		message => CASE WHEN a.org <> 'fh2' THEN 'image: no such image' END) s
WHERE a.pool = 'fs-image' ORDER BY a.org;
SELECT FROM place('fs-image') \g /dev/null
SELECT org, usage_charged FROM attempt WHERE pool = 'fs-image' AND attempt = 1 ORDER BY org;
SELECT c.job_state FROM job j, cancel(j.org, j.job, 'no image') c WHERE j.pool = 'fs-image' AND j.state = 'queued';
SELECT * FROM verify();
