-- A run costs price x time, whatever the caller's arguments: what its hold
-- does not cover is drawn at its end, and what no credit covers is recorded.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
SET gpucredit.clock = '2028-01-01 00:00+00';
SET gpucredit.node_suspect = '20 s';
\pset null '-'

DO $$
BEGIN
	PERFORM gpucredit.create_pool('un');
	PERFORM gpucredit.set_price('UN-A', 36, 'un');
	PERFORM gpucredit.set_price('UN-B', 72, 'un');
	PERFORM gpucredit.register_node('un', 'un-1', 'UN-A', 16, 40960);
	PERFORM gpucredit.create_account('un');
	PERFORM gpucredit.grant_tier('un', '', 'production_inference');
	PERFORM gpucredit.create_account('un', 'a');
	PERFORM gpucredit.issue('un', '', 'i', 1000);
END $$;

CREATE FUNCTION pg_temp.job(job_key text, tenant text DEFAULT 'un')
RETURNS bigint LANGUAGE sql AS $$
	SELECT r.result[1]::bigint FROM gpucredit.request r
	WHERE r.org = tenant AND r.key = job_key
$$;
-- A heartbeat of each node, then a cycle.
CREATE FUNCTION pg_temp.place() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	PERFORM gpucredit.heartbeat(n.node) FROM gpucredit.node n WHERE n.pool = 'un';
	RETURN count(*) FROM gpucredit.place('un') p WHERE p.action = 'start';
END $$;
CREATE FUNCTION pg_temp.row_of(job_key text, tenant text DEFAULT 'un',
	OUT outcome text, OUT elapsed interval, OUT held numeric,
	OUT billed numeric, OUT uncollected numeric, OUT ended_by text)
RETURNS SETOF record LANGUAGE sql AS $$
	SELECT a.outcome, a.elapsed, a.held, a.billed, a.uncollected, a.ended_by
	FROM gpucredit.attempt a
	WHERE a.org = tenant AND a.job = pg_temp.job(job_key, tenant) ORDER BY a.attempt
$$;

-- A window has a least length, unless the wall limit is shorter.
SHOW gpucredit.hold_window_min;
\set VERBOSITY default
SELECT * FROM gpucredit.reserve('un', '', 'w1', '1xUN-A', '1 h', pool => 'un', hold_window => '1 us');
SELECT * FROM gpucredit.reserve('un', '', 'w1', '1xUN-A', '1 h', pool => 'un', hold_window => '59.999999 s');
\set VERBOSITY sqlstate
SELECT * FROM gpucredit.reserve('un', '', 'w1', '1xUN-A', '10 s', pool => 'un', hold_window => '9.999999 s');
SELECT * FROM gpucredit.plan_with('un', '{"jobs": [{"org": "un", "request": "1xUN-A", "wall_limit": "1 h", "hold_window": "1 us"}]}');
SELECT status, held FROM gpucredit.reserve('un', '', 'w1', '1xUN-A', '1 h', pool => 'un', hold_window => '1 min');
SELECT status, held FROM gpucredit.reserve('un', '', 'w2', '1xUN-A', '10 s', pool => 'un', hold_window => '10 s');
SELECT status, held FROM gpucredit.reserve('un', '', 'w3', '1xUN-A', '1 us', pool => 'un');
SET gpucredit.hold_window_min = '2 h';
SELECT status, held, replayed FROM gpucredit.reserve('un', '', 'w1', '1xUN-A', '1 h', pool => 'un', hold_window => '1 min');
-- a tier without a longest run has no shorter window by default
SELECT status, held FROM gpucredit.reserve('un', '', 'w4', '1xUN-A', tier => 'production_inference', pool => 'un');
SET gpucredit.hold_window_min = 0;
SELECT status, held FROM gpucredit.reserve('un', '', 'w5', '1xUN-A', '1 h', pool => 'un', hold_window => '1 us');
RESET gpucredit.hold_window_min;
SELECT DISTINCT job_state FROM gpucredit.job j, gpucredit.cancel('un', j.job, 'c' || j.job) WHERE j.org = 'un';

-- An hour that nobody metered is billed at its end, within the wall limit.
SELECT status, held FROM gpucredit.reserve('un', 'a', 'hour', '2xUN-A', '2 h', pool => 'un', hold_window => '1 min');
SELECT pg_temp.place();
SELECT action FROM gpucredit.meter('un', pg_temp.job('hour'), 1, '0');
SET gpucredit.clock = '2028-01-01 01:00+00';
SELECT billed, released, job_state, uncollected FROM gpucredit.settle('un', pg_temp.job('hour'), 1, 'completed', '1 h');
SELECT * FROM pg_temp.row_of('hour');
SELECT billed, uncollected, replayed FROM gpucredit.settle('un', pg_temp.job('hour'), 1, 'failed', '2 h');
-- a heartbeat of an ended attempt hears that nothing is held any more
SELECT action, reason, billed, held FROM gpucredit.meter('un', pg_temp.job('hour'), 1, '1 h');
SELECT action, reason, billed, held FROM gpucredit.meter_batch('{un}', ARRAY[pg_temp.job('hour')], '{1}', '{1 h}');
-- one was never heard of until it had ended
SELECT status, held FROM gpucredit.reserve('un', 'a', 'never', '1xUN-A', '2 h', pool => 'un', hold_window => '1 min');
SELECT pg_temp.place();
SET gpucredit.clock = '2028-01-01 01:10+00';
SELECT billed, uncollected FROM gpucredit.settle('un', pg_temp.job('never'), 1, 'failed', '10 min');
SELECT job_state FROM gpucredit.cancel('un', pg_temp.job('never'), 'c never');
-- time past the wall limit is billed like any other
SELECT status, held FROM gpucredit.reserve('un', 'a', 'wall', '1xUN-A', '90 s', pool => 'un', hold_window => '1 min');
SELECT pg_temp.place();
SET gpucredit.clock = '2028-01-01 01:12+00';
SELECT billed, uncollected FROM gpucredit.settle('un', pg_temp.job('wall'), 1, 'timeout', '100 s');
SELECT decision, detail FROM gpucredit.audit WHERE org = 'un' AND operation = 'settle' ORDER BY audit DESC LIMIT 1;
SELECT count(*) FROM gpucredit.alert WHERE org = 'un' AND kind = 'uncollected';
SELECT * FROM gpucredit.verify('un');

-- What no credit covers: the bill is what credit there is.
DO $$
BEGIN
	PERFORM gpucredit.create_account('un-poor');
	PERFORM gpucredit.issue('un-poor', '', 'i', 1);
END $$;
SELECT status, held FROM gpucredit.reserve('un-poor', '', 'p', '1xUN-A', '1 h', pool => 'un', hold_window => '1 min');
SELECT pg_temp.place();
SET gpucredit.clock = '2028-01-01 01:14+00';
SELECT billed, released, job_state, uncollected FROM gpucredit.settle('un-poor', pg_temp.job('p', 'un-poor'), 1, 'completed', '2 min');
SELECT available, held, spent FROM gpucredit.balance('un-poor');
SELECT * FROM pg_temp.row_of('p', 'un-poor');
SELECT at, account, kind, period, detail - 'job' - 'hold' AS detail FROM gpucredit.alert WHERE org = 'un-poor';
SELECT decision, detail FROM gpucredit.audit WHERE org = 'un-poor' AND operation = 'settle';
SELECT * FROM gpucredit.verify('un-poor');
-- a job that goes on waits for credit; the alert comes once a day
DO $$
BEGIN
	PERFORM gpucredit.issue('un-poor', '', 'i2', 1);
END $$;
SELECT status, held FROM gpucredit.reserve('un-poor', '', 'p2', '1xUN-A', '1 h', pool => 'un', hold_window => '1 min');
SELECT pg_temp.place();
SET gpucredit.clock = '2028-01-01 01:16+00';
SELECT billed, job_state, uncollected FROM gpucredit.settle('un-poor', pg_temp.job('p2', 'un-poor'), 1, 'preempted', '2 min');
SELECT count(*) FROM gpucredit.alert WHERE org = 'un-poor';
SELECT * FROM gpucredit.verify('un-poor');

-- The limits that meter obeys: budgets, buckets' policies, suspension.
DO $$
BEGIN
	PERFORM gpucredit.create_account('un-lim');
	PERFORM gpucredit.create_account('un-lim', 'bud');
	PERFORM gpucredit.create_account('un-lim', 'share');
	PERFORM gpucredit.create_account('un-lim', 'job');
	PERFORM gpucredit.create_account('un-lim', 'sus');
	PERFORM gpucredit.create_account('un-lim', 'sli');
	PERFORM gpucredit.issue('un-lim', 'bud', 'i1', 100);
	PERFORM gpucredit.issue('un-lim', 'share', 'i2', 100, policy => '{"max_share": 0.5}');
	PERFORM gpucredit.issue('un-lim', 'share', 'i3', 1, 'promo');
	PERFORM gpucredit.issue('un-lim', 'job', 'i4', 100, policy => '{"max_per_job": 1.5}');
	PERFORM gpucredit.issue('un-lim', 'sus', 'i5', 100);
	PERFORM gpucredit.issue('un-lim', 'sli', 'i6', 100);
	PERFORM gpucredit.set_budget('un-lim', 'bud', 0.9);
	PERFORM gpucredit.set_slices('un-lim', 'sli', 4);
END $$;
SELECT a, status, held FROM unnest('{bud,share,job,sus,sli}'::text[]) a,
	gpucredit.reserve('un-lim', a, a, '1xUN-A', '1 h', pool => 'un', hold_window => '1 min');
SELECT pg_temp.place();
SELECT gpucredit.suspend_account('un-lim', 'sus', true);
SET gpucredit.clock = '2028-01-01 01:21+00';
SELECT a, billed, uncollected FROM unnest('{bud,share,job,sus,sli}'::text[]) a,
	gpucredit.settle('un-lim', pg_temp.job(a, 'un-lim'), 1, 'completed', '5 min');
SELECT account, detail ->> 'reason' AS reason, detail ->> 'uncollected' AS uncollected
FROM gpucredit.alert WHERE org = 'un-lim' AND kind = 'uncollected' ORDER BY 1;
SELECT account, reserved, spent, remaining FROM gpucredit.budgets('un-lim', 'bud');
SELECT * FROM gpucredit.verify('un-lim');

-- The excess over the cheaper type is still held: it pays first.
DO $$
BEGIN
	PERFORM gpucredit.create_account('un-sur');
	PERFORM gpucredit.issue('un-sur', '', 'i', 1.2);
END $$;
DO $$ BEGIN PERFORM gpucredit.register_node('un', 'un-2', 'UN-B', 1, 81920); END $$;
SELECT status, held FROM gpucredit.reserve('un-sur', '', 's2', '1xUN-A|UN-B', '1 h', pool => 'un', hold_window => '1 min');
SELECT pg_temp.place();
SET gpucredit.clock = '2028-01-01 01:23+00';
SELECT billed, released, uncollected FROM gpucredit.settle('un-sur', pg_temp.job('s2', 'un-sur'), 1, 'completed', '2 min');
SELECT * FROM gpucredit.verify('un-sur');
DO $$ BEGIN PERFORM gpucredit.remove_node('un-2'); END $$;

-- An owner that settles says that its job ends now: so it had its devices until
-- now, and has them until the fence ends, or until its node was last heard of.
CREATE ROLE un_app LOGIN;
GRANT gpucredit_app TO un_app;
SET gpucredit.clock = '2028-01-02 00:00+00';
SELECT k, status FROM unnest('{now,silent,short,unheard,lost}'::text[]) k,
	gpucredit.reserve('un', 'a', 'app ' || k, '1xUN-A', CASE k WHEN 'short' THEN '40 s' ELSE '1 h' END::interval,
		pool => 'un', tier => CASE k WHEN 'lost' THEN 'un-lost' ELSE 'standard_training' END)
WHERE k <> 'lost';
DO $$
BEGIN
	PERFORM gpucredit.set_tier('un-lost', 5, 'capacity', false, bill_lost_work => false);
	PERFORM gpucredit.reserve('un', 'a', 'app lost', '1xUN-A', '1 h', pool => 'un', tier => 'un-lost');
	PERFORM gpucredit.reserve('un', 'a', 'app lost 2', '1xUN-A', '1 h', pool => 'un', tier => 'un-lost');
END $$;
SELECT pg_temp.place();
SELECT count(gpucredit.meter('un', pg_temp.job('app ' || k), 1, '0')) FROM unnest('{now,silent,short,lost,lost 2}'::text[]) k;
SET gpucredit.clock = '2028-01-02 00:00:50+00';
SELECT count(*) > 0 AS told FROM gpucredit.heartbeat('un-1');
SET gpucredit.clock = '2028-01-02 00:00:59+00';
SET ROLE un_app;
SELECT * FROM gpucredit.settle('un', (SELECT pg_temp.job('app now')), 1, 'completed', '1 s');
RESET ROLE;
SELECT pg_temp.job('app now') AS now, pg_temp.job('app silent') AS silent, pg_temp.job('app short') AS short,
	pg_temp.job('app unheard') AS unheard, pg_temp.job('app lost') AS lost \gset
SET ROLE un_app;
SELECT billed, uncollected, job_state FROM gpucredit.settle('un', :now, 1, 'completed');
SELECT billed, uncollected, job_state FROM gpucredit.settle('un', :short, 1, 'completed');
SELECT billed, uncollected, job_state FROM gpucredit.settle('un', :unheard, 1, 'completed');
-- nor is work free that the owner calls lost
SELECT billed, refunded, uncollected, job_state FROM gpucredit.settle('un', :lost, 1, 'preempted');
RESET ROLE;
SELECT billed, refunded, uncollected, job_state FROM gpucredit.settle('un', pg_temp.job('app lost 2'), 1, 'preempted', '59 s');
-- a silent node's attempt is billed until the node was last heard of
SET gpucredit.clock = '2028-01-02 00:01:10+00';
SET ROLE un_app;
SELECT billed, uncollected, job_state FROM gpucredit.settle('un', :silent, 1, 'completed');
RESET ROLE;
SELECT k, r.* FROM unnest('{now,silent,short,unheard,lost,lost 2}'::text[]) k, pg_temp.row_of('app ' || k) r;
SELECT DISTINCT job_state FROM gpucredit.job j, gpucredit.cancel('un', j.job, 'd' || j.job) WHERE j.org = 'un' AND j.state = 'queued';
SELECT * FROM gpucredit.verify('un');

-- The server's own settlements bill what was metered, beyond the hold too.
SET gpucredit.clock = '2028-01-03 00:00+00';
DO $$
BEGIN
	PERFORM gpucredit.create_account('un-end');
	PERFORM gpucredit.issue('un-end', '', 'i', 1.3);
END $$;
SELECT k, status FROM unnest('{reaped,lost}'::text[]) k,
	gpucredit.reserve('un-end', '', k, '1xUN-A', '1 h', pool => 'un', hold_window => '1 min', max_retries => 0);
SELECT pg_temp.place();
SELECT count(gpucredit.meter('un-end', pg_temp.job(k, 'un-end'), 1, '0')) FROM unnest('{reaped,lost}'::text[]) k;
SET gpucredit.clock = '2028-01-03 00:02+00';
SELECT k, action, reason, billed, held FROM unnest('{reaped,lost}'::text[]) k, gpucredit.meter('un-end', pg_temp.job(k, 'un-end'), 1, '2 min');
DO $$ BEGIN PERFORM gpucredit.issue('un-end', '', 'i2', 0.8); END $$;
SET gpucredit.clock = '2028-01-03 00:03+00';
SELECT count(*) FROM gpucredit.reap_holds();
SELECT count(*) FROM gpucredit.check_nodes();
SELECT k, r.* FROM unnest('{reaped,lost}'::text[]) k, pg_temp.row_of(k, 'un-end') r;
SELECT available, held, spent FROM gpucredit.balance('un-end');
SELECT * FROM gpucredit.verify('un-end');

-- However a run ends, and whatever was requested and reported: the bill and
-- what is uncollected make price x time, from the start of the attempt until
-- its devices are free. Where there is credit, nothing is uncollected.
\set VERBOSITY default
CREATE TABLE pg_temp.run (org text, job bigint, attempt int, ends text, price numeric, gpus int, share int,
	wall interval, ran interval);
DO $$
DECLARE
	asks constant text[] := '{1xUN-A,3xUN-A,0.001xUN-A,0.333xUN-A,2-6xUN-A,0}';
	walls constant interval[] := '{1 us,7 s,90 s,1 h,1 h,1 h}';
	windows constant interval[] := '{NULL,1 us,1 min,13 min}';
	ways constant text[] := '{told,told,untold,app,cancelled,silent,overdue,device,lost}';
	t timestamptz := '2028-02-01 00:00+00';
	tenant text; ask text; way text; wall interval; ran interval; over interval; heard boolean; price numeric;
	id bigint; p record;
BEGIN
	PERFORM setseed(0.2801);
	PERFORM set_config('gpucredit.hold_window_min', '0', false);
	PERFORM set_config('gpucredit.hold_least', '0', false);
	/* one that owes goes on */
	PERFORM set_config('gpucredit.uncollected_max', '-1', false);
	PERFORM gpucredit.create_account(o) FROM unnest('{un-rich,un-few}'::text[]) o;
	PERFORM gpucredit.issue('un-rich', '', 'i', 1000000);
	FOR n IN 1 .. 200 LOOP
		t := t + interval '3 h';
		PERFORM set_config('gpucredit.clock', t::text, false);
		tenant := CASE WHEN n % 3 = 0 THEN 'un-few' ELSE 'un-rich' END;
		ask := asks[1 + floor(random() * 6)];
		way := ways[1 + floor(random() * 9)];
		wall := walls[1 + floor(random() * 6)];
		price := (ARRAY[0.000001, 0.37, 36, 4321.098765])[1 + floor(random() * 4)];
		PERFORM gpucredit.set_price('UN-A', price, 'un');
		IF tenant = 'un-few' THEN
			PERFORM gpucredit.issue(tenant, '', 'i' || n, (0.000001 + random() * 10 ^ (random() * 9 - 6))::numeric(20, 6),
				valid_for => '2 h');
		END IF;
		SELECT r.job INTO id FROM gpucredit.reserve(tenant, '', 'n' || n, ask, wall, pool => 'un',
			hold_window => windows[1 + floor(random() * 4)], max_retries => 5) r;
		CONTINUE WHEN id IS NULL;
		/* dearer, or cheaper, while it waits */
		PERFORM gpucredit.set_price('UN-A', price * 7, 'un');
		PERFORM gpucredit.heartbeat('un-1', running => '{}');
		SELECT s.* INTO STRICT p FROM gpucredit.place('un') s WHERE s.job = id;
		ran := '0';
		FOR beat IN 1 .. floor(random() * 4) LOOP
			t := t + random() * 600 * interval '1 s';
			PERFORM set_config('gpucredit.clock', t::text, false);
			ran := ran + random() * 600 * interval '1 s';
			PERFORM gpucredit.meter(tenant, id, 1, ran);
		END LOOP;
		/* what was claimed beyond what passed was cut */
		SELECT a.elapsed, a.overhead, a.running_at IS NOT NULL INTO ran, over, heard
		FROM gpucredit.attempt a WHERE a.org = tenant AND a.job = id;
		t := t + interval '50 s';
		PERFORM set_config('gpucredit.clock', t::text, false);
		IF way IN ('told', 'cancelled') THEN
			ran := ran + random() * 50 * interval '1 s';
			IF way = 'cancelled' THEN
				PERFORM gpucredit.cancel(tenant, id, 'c' || n);
			END IF;
			PERFORM gpucredit.settle(tenant, id, 1, CASE WHEN way = 'told' THEN 'failed' ELSE 'cancelled' END, ran - over);
			/* a first report: the devices waited for it until now */
			ran := CASE WHEN heard THEN ran ELSE '50 s' END;
		ELSIF way = 'untold' THEN
			PERFORM gpucredit.settle(tenant, id, 1, 'completed');
			ran := CASE WHEN heard THEN ran ELSE '50 s' END;
		ELSIF way = 'app' THEN
			PERFORM gpucredit.heartbeat('un-1');
			/* until now, and while the devices are fenced */
			ran := ran + interval '50 s' + interval '20 s';
			SET LOCAL ROLE un_app;
			PERFORM gpucredit.settle(tenant, id, 1, 'preempted');
			RESET ROLE;
		ELSIF way = 'device' THEN
			PERFORM gpucredit.heartbeat('un-1', '{}');
			PERFORM gpucredit.heartbeat('un-1');
			/* one without devices goes on */
			PERFORM gpucredit.settle(tenant, id, 1, 'node_lost') WHERE ask = '0';
		ELSE
			PERFORM set_config('gpucredit.clock', (t + interval '1 h')::text, false);
			IF way = 'lost' THEN
				PERFORM gpucredit.check_nodes();
			ELSE
				PERFORM gpucredit.heartbeat('un-1');
				PERFORM set_config('gpucredit.heartbeat_timeout', CASE way WHEN 'overdue' THEN '0' ELSE '300' END, false);
				PERFORM gpucredit.reap_holds();
				PERFORM set_config('gpucredit.heartbeat_timeout', '300', false);
				PERFORM gpucredit.settle(tenant, id, 1, 'timeout');
				ran := CASE WHEN heard OR way = 'silent' THEN ran ELSE '300 s' END;
			END IF;
		END IF;
		PERFORM gpucredit.cancel(tenant, id, 'd' || n);
		INSERT INTO pg_temp.run VALUES (tenant, id, 1, way, price, CASE ask WHEN '0' THEN 0
			ELSE gpucredit.gpu_count(p.gpus) END, CASE WHEN ask LIKE '0.%' THEN split_part(ask, 'x', 1)::numeric * 1000 ELSE 1000 END, wall, ran);
	END LOOP;
END $$;
SELECT org, count(*) > 50 AS many, count(DISTINCT ends) AS ways FROM pg_temp.run GROUP BY 1 ORDER BY 1;
SELECT r.*, a.gpus, a.share, a.elapsed, a.held, a.billed, a.uncollected, c.cost
FROM pg_temp.run r JOIN gpucredit.attempt a USING (org, job, attempt),
	LATERAL (SELECT ceil(r.price * r.gpus * r.share * 1000) / 1000000 AS per_hour) h,
	LATERAL (SELECT greatest(round(h.per_hour * extract(epoch FROM r.ran) / 3600, 6),
		CASE WHEN h.per_hour > 0 AND r.ran > '0' THEN 0.000001 ELSE 0 END) AS cost) c
WHERE a.ended_at IS NULL OR a.billed::numeric + a.uncollected::numeric <> c.cost
	OR (r.org = 'un-rich' AND a.uncollected <> '0');
SELECT count(*) FILTER (WHERE a.uncollected > '0' AND r.org = 'un-few') > 3 AS short_of_credit,
	count(*) FILTER (WHERE a.billed > '0' AND a.uncollected = '0' AND r.ran > r.wall) > 5 AS paid_past_the_wall,
	count(*) FILTER (WHERE a.uncollected = '0' AND a.billed > '0') > 20 AS paid
FROM pg_temp.run r JOIN gpucredit.attempt a USING (org, job, attempt);
RESET gpucredit.hold_window_min;
RESET gpucredit.hold_least;
RESET gpucredit.uncollected_max;
RESET gpucredit.heartbeat_timeout;
SELECT * FROM gpucredit.verify('un-rich');
SELECT * FROM gpucredit.verify('un-few');

-- verify() knows of what is uncollected.
BEGIN;
UPDATE gpucredit.attempt SET uncollected = uncollected + '0.000001' WHERE org = 'un-poor' AND job = pg_temp.job('p', 'un-poor');
SELECT invariant, detail FROM gpucredit.verify('un-poor');
ROLLBACK;
BEGIN;
UPDATE gpucredit.attempt SET uncollected = NULL WHERE org = 'un-poor' AND job = pg_temp.job('p', 'un-poor');
SELECT invariant, detail FROM gpucredit.verify('un-poor');
ROLLBACK;

DROP ROLE un_app;
