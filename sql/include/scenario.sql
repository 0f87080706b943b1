-- What regression tests of jobs, attempts and nodes share: an organisation with
-- credit, pools of nodes, and short names for what users, agents and the
-- scheduler do. The test includes check.sql first, and sets scenario.org: the
-- name of its organisation, of its first pool, and the prefix of its nodes.
-- Jobs are named by the key with which they were submitted.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
SET gpucredit.clock = '2027-04-01 00:00+00';
-- each job starts as soon as it fits: reservations have tests of their own
SET gpucredit.backfill_depth = 0;

CREATE FUNCTION pg_temp.org() RETURNS text LANGUAGE sql AS $$
	SELECT current_setting('scenario.org')
$$;

-- An account with 100,000 credits, which pays 1 credit an hour for a GPU.
-- What is due of other tests is swept first, so that sweeps count only what is
-- this test's.
CREATE PROCEDURE pg_temp.open_account() LANGUAGE plpgsql AS $$
BEGIN
	IF NOT EXISTS (SELECT FROM gpucredit.price WHERE gpu_type = 'SC-A') THEN
		PERFORM gpucredit.set_price('SC-A', 1);
	END IF;
	PERFORM gpucredit.reap_holds();
	PERFORM gpucredit.check_nodes();
	PERFORM gpucredit.create_account(pg_temp.org());
	PERFORM gpucredit.issue(pg_temp.org(), '', 'i', 100000);
END $$;

-- A pool with so many nodes, POOL-1 and so on, which have four GPUs each.
CREATE PROCEDURE pg_temp.open_pool(pool text, nodes int, gpus int DEFAULT 4, spot boolean DEFAULT false)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM gpucredit.create_pool(pool);
	PERFORM gpucredit.register_node(pool, pool || '-' || n, 'SC-A', gpus, 40960, spot => spot)
	FROM generate_series(1, nodes) n;
END $$;

CREATE PROCEDURE pg_temp.later(by interval) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('gpucredit.clock', (gpucredit.now() + by)::text, false);
END $$;

CREATE FUNCTION pg_temp.job(job_key text) RETURNS bigint LANGUAGE sql AS $$
	SELECT r.result[1]::bigint FROM gpucredit.request r
	WHERE r.org = pg_temp.org() AND r.key = job_key
$$;
CREATE FUNCTION pg_temp.key(id bigint) RETURNS text LANGUAGE sql AS $$
	SELECT r.key FROM gpucredit.request r WHERE r.org = pg_temp.org()
		AND r.result[1] = id::text AND r.operation = 'reserve'
$$;

-- Submits a job, which must be granted.
CREATE PROCEDURE pg_temp.submit(job_key text, request text, spec jsonb DEFAULT '{}',
	wall interval DEFAULT '10 h', pool text DEFAULT pg_temp.org(), tier text DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
	answer text;
BEGIN
	IF tier IS NULL THEN
		SELECT r.status INTO answer FROM gpucredit.reserve(pg_temp.org(), '', job_key, request, wall,
			pool => submit.pool, spec => submit.spec) r;
	ELSE
		SELECT r.status INTO answer FROM gpucredit.reserve(pg_temp.org(), '', job_key, request, wall,
			pool => submit.pool, spec => submit.spec, tier => submit.tier) r;
	END IF;
	IF answer IS DISTINCT FROM 'granted' THEN
		RAISE EXCEPTION 'the job "%" is not granted: %', job_key, answer;
	END IF;
END $$;

-- A scheduling cycle, and what it starts.
CREATE FUNCTION pg_temp.place(of_pool text DEFAULT pg_temp.org()) RETURNS TABLE (
	job text, attempt int, node text, gpus gpucredit.gpuset) LANGUAGE sql AS $$
	SELECT pg_temp.key(p.job), p.attempt, p.node, p.gpus FROM gpucredit.place(of_pool) p
$$;

-- The names by which an agent lists what it runs, ORG/JOB/ATTEMPT, of attempts
-- that are given as KEY/ATTEMPT.
CREATE FUNCTION pg_temp.running(VARIADIC runs text[] DEFAULT '{}') RETURNS text[] LANGUAGE sql AS $$
	SELECT ARRAY(SELECT concat_ws('/', pg_temp.org(), pg_temp.job(split_part(r, '/', 1)), split_part(r, '/', 2))
		FROM unnest(runs) WITH ORDINALITY u (r, n) ORDER BY n)
$$;

-- What the agent of a node is told when it reports that it runs these attempts,
-- each given as KEY/ATTEMPT, and no others.
CREATE FUNCTION pg_temp.reports(node text, VARIADIC runs text[] DEFAULT '{}') RETURNS TABLE (job text,
	attempt int, action text, reason text) LANGUAGE sql AS $$
	SELECT pg_temp.key(h.job), h.attempt, h.action, h.reason
	FROM gpucredit.heartbeat(reports.node, running => pg_temp.running(VARIADIC runs)) h
$$;

-- All nodes of a pool report what they run, and nothing that is over.
CREATE FUNCTION pg_temp.beat(of_pool text DEFAULT pg_temp.org()) RETURNS TABLE (
	node text, job text, attempt int, action text, reason text, save boolean,
	time_left interval) LANGUAGE sql AS $$
	SELECT n.node, pg_temp.key(h.job), h.attempt, h.action, h.reason, h.save, h.time_left
	FROM (SELECT n.node, n.healthy FROM gpucredit.node n
			WHERE n.pool = of_pool ORDER BY n.node) n,
		gpucredit.heartbeat(n.node, n.healthy, ARRAY(SELECT concat_ws('/', g.org, g.job, g.attempt)
			FROM gpucredit.attempt_gpu g
			WHERE g.node = n.node AND g.ended_at IS NULL)) h
$$;

-- Every ten seconds, so many times, the nodes of the first pool say that they
-- are there. The first one lists what it runs, if RUNS is given; the others
-- list nothing.
CREATE PROCEDURE pg_temp.beats(times int, runs text[] DEFAULT NULL) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. times LOOP
		CALL pg_temp.later('10 s');
		PERFORM gpucredit.heartbeat(pg_temp.org() || '-2');
		PERFORM gpucredit.heartbeat(pg_temp.org() || '-3');
		PERFORM gpucredit.heartbeat(pg_temp.org() || '-1', running => runs);
	END LOOP;
END $$;

-- An application settles an attempt. It cannot know that nothing of it runs any
-- more, so the devices are fenced.
CREATE FUNCTION pg_temp.settle_as_app(job_key text, attempt int, outcome text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	id bigint := pg_temp.job(job_key);
	org text := pg_temp.org();
BEGIN
	PERFORM set_config('role', 'gpucredit_app', true);
	SELECT s.outcome INTO outcome FROM gpucredit.settle(org, id, attempt, outcome) s;
	PERFORM set_config('role', 'none', true);
	RETURN outcome;
END $$;
-- An agent settles an attempt, of which nothing runs any more.
CREATE FUNCTION pg_temp.settle(job_key text, attempt int, outcome text) RETURNS text LANGUAGE sql AS $$
	SELECT s.outcome FROM gpucredit.settle(pg_temp.org(), pg_temp.job(job_key), attempt, outcome) s
$$;

-- All attempts of a job, as they ended or run.
CREATE FUNCTION pg_temp.attempts(VARIADIC keys text[]) RETURNS TABLE (job text,
	attempt int, outcome text, elapsed interval, billed gpucredit.credits, job_state text,
	failures int, retry_in interval) LANGUAGE sql AS $$
	SELECT k, a.attempt, a.outcome, a.elapsed, a.billed, a.job_state, j.failures,
		a.retry_at - a.ended_at
	FROM unnest(keys) k JOIN gpucredit.job j ON j.org = pg_temp.org() AND j.job = pg_temp.job(k)
		JOIN gpucredit.attempt a ON a.org = j.org AND a.job = j.job ORDER BY k, a.attempt
$$;
-- The reason that the audit log has for the last settlement of a job.
CREATE FUNCTION pg_temp.why(job_key text) RETURNS text LANGUAGE sql AS $$
	SELECT reason FROM gpucredit.audit WHERE org = pg_temp.org() AND job = pg_temp.job(job_key)
		AND operation = 'settle' ORDER BY audit DESC LIMIT 1
$$;
-- The credit of jobs, over all of their holds: what was charged for use, what
-- was refunded of it, what returned unused to the account, what is still held,
-- and use that no credit covered.
CREATE FUNCTION pg_temp.money(VARIADIC keys text[]) RETURNS TABLE (job text, charged numeric,
	refunded numeric, returned numeric, held numeric, uncovered numeric) LANGUAGE sql AS $$
	SELECT k, sum(h.captured::numeric), sum(h.refunded::numeric), sum(h.released::numeric),
		sum(h.held::numeric), (SELECT sum(a.uncollected::numeric) FROM gpucredit.attempt a
			WHERE a.org = pg_temp.org() AND a.job = pg_temp.job(k))
	FROM unnest(keys) k JOIN gpucredit.hold h ON h.org = pg_temp.org() AND h.job = pg_temp.job(k)
	GROUP BY k ORDER BY k
$$;

-- Ends a scenario: attempts that still run complete, jobs that wait are
-- cancelled. Returns how many of each there were.
CREATE FUNCTION pg_temp.finish() RETURNS TABLE (completed bigint, cancelled bigint) LANGUAGE plpgsql AS $$
BEGIN
	SELECT count(gpucredit.settle(a.org, a.job, a.attempt, 'completed')) INTO completed
	FROM gpucredit.attempt a WHERE a.org = pg_temp.org() AND a.ended_at IS NULL;
	SELECT count(gpucredit.cancel(j.org, j.job, 'cancel ' || j.job)) INTO cancelled
	FROM gpucredit.job j WHERE j.org = pg_temp.org() AND j.ended_at IS NULL;
	RETURN NEXT;
END $$;
