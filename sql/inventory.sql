-- Prices, tiers, pools and nodes: each change counts from the next job on.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
SET gpucredit.clock = '2027-01-01 00:00+00';
\set VERBOSITY sqlstate
\pset null '-'

DO $$
BEGIN
	PERFORM gpucredit.create_account('in');
	PERFORM gpucredit.grant_tier('in', '', 'production_inference');
	PERFORM gpucredit.grant_tier('in', '', 'premium_training');
	PERFORM gpucredit.issue('in', '', 'i', 1000000);
	PERFORM gpucredit.create_pool('in');
	PERFORM gpucredit.create_pool('in-spot');
	PERFORM gpucredit.create_pool('in-empty');
	PERFORM gpucredit.register_node('in', 'in-1', 'IN-A', 4, 40960);
	PERFORM gpucredit.register_node('in-spot', 'in-s', 'IN-A', 4, 40960,
		spot => true);
	PERFORM gpucredit.register_node('in-spot', 'in-d', 'IN-A', 4, 40960);
END $$;

-- What a job of one GPU and one hour is quoted; it is cancelled again.
CREATE FUNCTION pg_temp.quote(request text, pool text DEFAULT 'in',
	preemptible text DEFAULT NULL, tier text DEFAULT 'standard_training')
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	r record;
	nth bigint := (SELECT count(*) FROM gpucredit.request WHERE org = 'in');
BEGIN
	SELECT * INTO r FROM gpucredit.reserve('in', '', 'quote ' || nth, request,
		'1 h', tier, pool, preemptible => preemptible);
	IF r.status = 'denied' THEN
		RETURN r.reason;
	END IF;
	PERFORM gpucredit.cancel('in', r.job, 'cancel ' || nth);
	RETURN r.held;
END $$;

-- Prices: the latest in force counts; a pool's own price wins, however old.
SELECT pg_temp.quote('1xIN-A') AS no_price_yet;
SELECT gpucredit.set_price('IN-A', 2);
SELECT gpucredit.set_price('IN-A', 3, effective_at => '2027-01-01 01:00+00');
SELECT pg_temp.quote('1xIN-A') AS now_2;
SET gpucredit.clock = '2027-01-01 00:59:59.999999+00';
SELECT pg_temp.quote('1xIN-A') AS still_2;
SET gpucredit.clock = '2027-01-01 01:00+00';
SELECT pg_temp.quote('1xIN-A') AS from_now_3;
SELECT gpucredit.set_price('IN-A', 1.5, 'in');
SELECT pg_temp.quote('1xIN-A') AS the_pools_own, pg_temp.quote('1xIN-A', 'in-spot') AS elsewhere;
SELECT gpucredit.set_price('IN-A', 0, 'in');		-- the same instant again
SELECT pg_temp.quote('1xIN-A') AS for_nothing;
SELECT gpucredit.set_price('IN-A', 4, 'in'), gpucredit.set_price('IN-A', 4, 'in');
SELECT pg_temp.quote('1xIN-A') AS corrected;
-- The history stays: a correction is a new row, the same price again is none,
-- and no price takes effect in the past.
SELECT gpucredit.set_price('IN-A', 9, 'in', gpucredit.now() - interval '1 us');
SELECT gpucredit.set_price('IN-A', 9, effective_at => '2027-01-01 00:00+00');
SELECT gpucredit.set_price('IN-A', 9, effective_at => '-infinity');
SELECT pg_temp.quote('1xIN-A') AS as_before;
SELECT gpucredit.set_price('IN-A', 6, 'in', '2027-06-01 00:00+00');
SELECT gpucredit.set_price('IN-A', 5, 'in', '2027-06-01 00:00+00');
SELECT pool, spot, effective_at, per_gpu_hour, revision, recorded_at
FROM gpucredit.prices WHERE gpu_type = 'IN-A' ORDER BY pool, spot, effective_at, revision;
SET gpucredit.clock = '2027-06-01 00:00+00';
SELECT pg_temp.quote('1xIN-A') AS the_last_announced;
SET gpucredit.clock = '2027-01-01 01:00+00';
SELECT gpucredit.set_price('IN-A', 1, 'no such pool');
-- a type that has a price, but is not in the pool; an unknown type
SELECT gpucredit.set_price('IN-B', 1);
SELECT pg_temp.quote('1xIN-B') AS not_in_the_pool;
SELECT pg_temp.quote('1xIN-C');
SELECT pg_temp.quote('1xIN-B|IN-A') AS only_what_is_there,
	pg_temp.quote('1x*') AS any_type, pg_temp.quote('1x*', 'in-empty') AS no_nodes;

-- Spot: spot nodes may have a price of their own, and the hold covers the
-- dearer one; without one they cost the usual price.
SELECT pg_temp.quote('1xIN-A', 'in-spot') AS no_spot_price;
SELECT gpucredit.set_price('IN-A', 1, 'in-spot', spot => true);
SELECT pg_temp.quote('1xIN-A', 'in-spot') AS spot_is_cheaper;
SELECT gpucredit.set_price('IN-A', 7, 'in-spot', spot => true);
SELECT pg_temp.quote('1xIN-A', 'in-spot') AS spot_is_dearer,
	pg_temp.quote('1xIN-A', 'in-spot', tier => 'production_inference') AS never_on_spot;
-- a general spot price does not replace the pool's own spot price, but does
-- replace its on-demand one
BEGIN;
SELECT gpucredit.set_price('IN-A', 11, spot => true);
SELECT pg_temp.quote('1xIN-A', 'in-spot') AS the_pools_own, pg_temp.quote('1xIN-A') AS the_general_one;
ROLLBACK;
-- a type with only a spot price costs that on all nodes
BEGIN;
SELECT gpucredit.set_price('IN-S', 5, spot => true);
SELECT gpucredit.register_node('in', 'in-only-spot', 'IN-S', 1, 40960);
SELECT pg_temp.quote('1xIN-S') AS only_spot, pg_temp.quote('1xIN-S', tier => 'production_inference') AS never_on_spot;
ROLLBACK;
-- a gang on both kinds of nodes pays one price, the dearer
BEGIN;
SELECT gpucredit.heartbeat(n) FROM unnest('{in-s,in-d}'::text[]) n;
SELECT job AS gang, held FROM gpucredit.reserve('in', '', 'gang', '8xIN-A', '1 h', pool => 'in-spot') \gset
SELECT node, gpus, per_gpu_hour FROM gpucredit.place('in-spot');
SELECT per_gpu_hour FROM gpucredit.attempt WHERE org = 'in' AND job = :gang;
ROLLBACK;
-- a type without a price is passed over while another one remains
BEGIN;
SELECT gpucredit.register_node('in', 'in-free', 'IN-F', 1, 40960);
SELECT pg_temp.quote('1xIN-F') AS no_price, pg_temp.quote('1xIN-F|IN-B|IN-A') AS of_the_last;
ROLLBACK;
-- silent, draining and broken devices count as present: they may come back
BEGIN;
SELECT gpucredit.heartbeat('in-1', '{}');
SELECT pg_temp.quote('4xIN-A') AS broken, pg_temp.quote('5xIN-A') AS more;
SELECT gpucredit.drain('in-1', 'fan');
SELECT pg_temp.quote('4xIN-A') AS draining;
SET LOCAL gpucredit.clock = '2027-01-01 03:00+00';
SELECT pg_temp.quote('4xIN-A') AS silent;
ROLLBACK;

-- Tiers: five exist from the start; set_tier adds tiers or changes these.
SELECT tier, rank, preemptible, can_preempt, grace, min_run, max_wall,
	max_wait, bill_lost_work
FROM gpucredit.tier
WHERE tier IN (SELECT tier FROM gpucredit.tier_builtin) ORDER BY rank;
BEGIN;
SELECT gpucredit.set_tier('interactive', 9, 'reclaim', true, '30 s', '1 min', '100 h', '1 h', false);
SELECT gpucredit.set_tier('in-tier', 0, 'never', false);
SELECT tier, rank, preemptible, can_preempt, grace, min_run, max_wall,
	max_wait, bill_lost_work
FROM gpucredit.tier WHERE tier IN ('interactive', 'in-tier') ORDER BY tier;
SELECT gpucredit.set_tier('interactive', 8, 'capacity', false, max_wall => '1 h');
SELECT tier, rank, preemptible, can_preempt, grace, min_run, max_wall,
	max_wait, bill_lost_work
FROM gpucredit.tier WHERE tier = 'interactive';
SELECT pg_temp.quote('1xIN-A', tier => 'in-tier');
ROLLBACK;
SELECT rank FROM gpucredit.tier WHERE tier = 'interactive';
-- a job may be more preemptible than its tier, not less
SELECT pg_temp.quote('1xIN-A', preemptible => 'capacity', tier => 'premium_training') AS more_willing,
	pg_temp.quote('1xIN-A', preemptible => 'reclaim', tier => 'premium_training') AS as_the_tier;
SELECT pg_temp.quote('1xIN-A', preemptible => 'never', tier => 'premium_training');

-- Nodes: registering again changes them; what is left out is not limited.
SELECT gpucredit.register_node('in', 'in-2', 'IN-A', 2, 40960, 8000, 65536,
	'domain', 'leaf', labels => '{"zone": "a"}');
SELECT gpucredit.register_node('in', 'in-2', 'IN-A', 8, 81920, 16000, 131072,
	labels => '{"zone": "b"}');
SELECT gpucredit.register_node('in', 'in-3', 'IN-A', 64, 40960);
SELECT gpucredit.register_node('in', 'in-0', 'IN-A', 0, 0, 4000);
SELECT node, gpu_type, gpus, gpu_memory_mib, cpu_milli, memory_mib,
	nvlink_domain, leaf, spot, labels, healthy, heard_at, draining
FROM gpucredit.node WHERE pool = 'in' ORDER BY node;
SELECT gpucredit.register_node('in-spot', 'in-2', 'IN-A', 8, 40960);	-- in another pool
SELECT gpucredit.register_node('nowhere', 'in-4', 'IN-A', 8, 40960);
-- after its removal nobody knows it
SELECT gpucredit.remove_node('in-3');
SELECT gpucredit.remove_node('in-3');
SELECT gpucredit.remove_node('in-0');
SELECT gpucredit.drain('in-3', 'gone');
SELECT gpucredit.resume('in-3');
SELECT * FROM gpucredit.heartbeat('in-3');

-- A heartbeat tells which devices are healthy; the next one may change that.
SET gpucredit.clock = '2027-01-01 01:00:01+00';
SELECT * FROM gpucredit.heartbeat('in-2', '{0-2,7}');
SELECT node, healthy, heard_at FROM gpucredit.node WHERE node = 'in-2';
SELECT * FROM gpucredit.heartbeat('in-2', '{}');
SELECT node, healthy FROM gpucredit.node WHERE node = 'in-2';
SELECT * FROM gpucredit.heartbeat('in-2', '{8}');
SELECT * FROM gpucredit.heartbeat('in-2');
SELECT node, healthy FROM gpucredit.node WHERE node = 'in-2';

-- Live attempts fix their node's type, spot, pool and devices.
SELECT gpucredit.remove_node('in-1');
SELECT job AS job, status FROM gpucredit.reserve('in', '', 'run', '2xIN-A', '1 h',
	pool => 'in', cpu_milli => 6000, memory_mib => 1024) \gset
SELECT * FROM gpucredit.heartbeat('in-2', '{4-7}');
SELECT action, node, gpus, share, gpu_type, per_gpu_hour FROM gpucredit.place('in');
SELECT gpucredit.remove_node('in-2');
SELECT gpucredit.register_node('in', 'in-2', 'IN-B', 8, 81920, 16000, 131072);
SELECT gpucredit.register_node('in', 'in-2', 'IN-A', 8, 81920, 16000, 131072, spot => true);
SELECT gpucredit.register_node('in', 'in-2', 'IN-A', 5, 81920, 16000, 131072);
SELECT gpucredit.register_node('in', 'in-2', 'IN-A', 8, 81920, 5999, 131072);
SELECT gpucredit.register_node('in', 'in-2', 'IN-A', 8, 81920, 16000, 1023);
SELECT gpucredit.register_node('in-spot', 'in-2', 'IN-A', 8, 81920);
SELECT gpucredit.register_node('in', 'in-2', 'IN-A', 6, 81920, 6000, 1024);
SELECT gpus, cpu_milli, memory_mib, healthy FROM gpucredit.node WHERE node = 'in-2';

-- Draining: no new work starts. What runs may finish, unless there is a
-- deadline: then it is told to save, and at the deadline to stop.
SELECT gpucredit.drain('in-2', 'fan broken');
SELECT status FROM gpucredit.reserve('in', '', 'wait', '1xIN-A', '1 h', pool => 'in') \gset
SELECT * FROM gpucredit.place('in');
SELECT action, deadline FROM gpucredit.heartbeat('in-2');
SELECT action, reason, deadline, time_left FROM gpucredit.meter('in', :job, 1, '1 s');
SELECT gpucredit.drain('in-2', 'fan broken', '2027-01-01 01:10+00');
SELECT action, deadline, time_left FROM gpucredit.heartbeat('in-2');
SELECT action, reason, deadline, time_left FROM gpucredit.meter('in', :job, 1, '2 s');
SET gpucredit.clock = '2027-01-01 01:09:59.999999+00';
SELECT action, reason, time_left FROM gpucredit.meter('in', :job, 1, '3 s');
SET gpucredit.clock = '2027-01-01 01:10+00';
SELECT action, reason, deadline, time_left FROM gpucredit.meter('in', :job, 1, '4 s');
SELECT action, time_left FROM gpucredit.heartbeat('in-2');
-- draining without a deadline withdraws the order, and so does resuming
SELECT gpucredit.drain('in-2', 'no hurry');
SELECT action, reason FROM gpucredit.meter('in', :job, 1, '5 s');
SELECT gpucredit.drain('in-2', 'hurry', '2027-01-01 01:10+00');
SELECT action, reason FROM gpucredit.meter('in', :job, 1, '6 s');
-- registering the node again does not end its draining
SELECT gpucredit.register_node('in', 'in-2', 'IN-A', 6, 81920, 6000, 1024);
SELECT draining, drain_deadline FROM gpucredit.node WHERE node = 'in-2';
SELECT * FROM gpucredit.place('in');
SELECT action, reason FROM gpucredit.meter('in', :job, 1, '6 s');
SELECT gpucredit.resume('in-2');
SELECT action, reason FROM gpucredit.meter('in', :job, 1, '7 s');
SELECT draining, drain_deadline FROM gpucredit.node WHERE node = 'in-2';
SELECT action, node, gpus FROM gpucredit.place('in');

-- A node can be removed when nothing lives there and its last attempts are
-- gone.
SELECT job_state FROM gpucredit.settle('in', :job, 1, 'completed');
SELECT j.job_state FROM gpucredit.job q, gpucredit.settle('in', q.job, 1, 'completed') j
WHERE q.org = 'in' AND q.state = 'active';
SELECT gpucredit.remove_node('in-2');
SELECT node FROM gpucredit.node WHERE pool = 'in';
SELECT pg_temp.quote('1xIN-A') AS nothing_left;

-- The audit log has every change.
SELECT operation, decision, count(*) FROM gpucredit.audit
WHERE org = '' AND (detail ->> 'pool' LIKE 'in%' OR detail ->> 'node' LIKE 'in-%'
	OR detail ->> 'gpu_type' LIKE 'IN-%')
GROUP BY 1, 2 ORDER BY 1, 2;

-- Where a node is: what register_node named goes before what its agent found.
SET gpucredit.clock = '2028-02-01 09:00+00';
SELECT gpucredit.create_pool('in-top');
SELECT gpucredit.register_node('in-top', 'in-t1', 'IN-A', 8, 40960),
	gpucredit.register_node('in-top', 'in-t2', 'IN-A', 8, 40960, leaf => 'mine', spine_mbps => 7);
CREATE FUNCTION pg_temp.places(OUT node text, OUT nvlink_domain text, OUT leaf text,
	OUT spine text, OUT mbps text, OUT registered text[]) RETURNS SETOF record
LANGUAGE sql AS $$
	SELECT n.node, n.nvlink_domain, n.leaf, n.spine, format('%s/%s/%s', n.nvlink_mbps,
		n.leaf_mbps, n.spine_mbps), n.registered
	FROM gpucredit.nodes n WHERE n.pool = 'in-top' ORDER BY n.node;
$$;
SELECT gpucredit.report_topology(n, '{"nvlink_domain": "d", "leaf": "l", "spine": "s",
	"leaf_mbps": 400000, "spine_mbps": 200000, "pcie": ["{0-3}", "{4-7}"],
	"source": "ibnetdiscover:/f", "newer": [1]}')
FROM unnest('{in-t1,in-t2}'::text[]) n;
SELECT * FROM pg_temp.places();
SELECT discovered FROM gpucredit.nodes WHERE node = 'in-t1';
-- the same again is in force, and neither changes nor audits anything
SELECT shape AS shape_before FROM gpucredit.pool WHERE pool = 'in-top' \gset
SELECT gpucredit.report_topology('in-t1', discovered) FROM gpucredit.nodes WHERE node = 'in-t1';
SELECT shape = :shape_before AS unchanged FROM gpucredit.pool WHERE pool = 'in-top';
-- a change within a minute has to wait, and moves nothing
SET gpucredit.clock = '2028-02-01 09:00:59+00';
SELECT gpucredit.report_topology('in-t1', '{"leaf": "other"}');
SELECT shape = :shape_before AS unchanged FROM gpucredit.pool WHERE pool = 'in-top';
SELECT leaf FROM pg_temp.places() WHERE node = 'in-t1';
SET gpucredit.clock = '2028-02-01 09:01+00';
SELECT gpucredit.report_topology('in-t1', '{"leaf": "other"}');
SELECT shape = :shape_before AS unchanged FROM gpucredit.pool WHERE pool = 'in-top';
-- an operator's word goes before it, and what he takes back is found again
SELECT gpucredit.register_node('in-top', 'in-t1', 'IN-A', 8, 40960, nvlink_domain => 'his',
	leaf => 'his', spine => 'his', nvlink_mbps => 1, leaf_mbps => 2, spine_mbps => 0);
SELECT gpucredit.register_node('in-top', 'in-t2', 'IN-A', 8, 40960);
SELECT * FROM pg_temp.places();
-- nothing is known any more
SET gpucredit.clock = '2028-02-01 09:02+00';
SELECT gpucredit.report_topology('in-t2', '{}');
SELECT * FROM pg_temp.places();
SELECT detail ->> 'node' AS node, decision, detail -> 'topology' ->> 'leaf' AS leaf
FROM gpucredit.audit WHERE operation = 'report_topology' ORDER BY audit;
-- gangs go by it: eight nodes below one spine before lower names over two
SELECT gpucredit.remove_node('in-t1'), gpucredit.remove_node('in-t2');
SELECT gpucredit.register_node('in-top', format('in-g%s', lpad(i::text, 2, '0')), 'IN-A', 8, 40960)
FROM generate_series(1, 15) i;
SELECT count(*) FILTER (WHERE gpucredit.report_topology(n.node, jsonb_build_object(
	'leaf', format('l%s', (i + 3) / 4), 'spine', CASE WHEN i <= 7 THEN 's1' ELSE 's2' END)))
FROM gpucredit.node n CROSS JOIN LATERAL (SELECT right(n.node, 2)::int AS i) x
WHERE n.pool = 'in-top';
SELECT gpucredit.set_price('IN-A', 0.01), gpucredit.create_account('in-gang');
SELECT replayed FROM gpucredit.issue('in-gang', '', 'paid', 1000);
SELECT status FROM gpucredit.reserve('in-gang', '', 'gang', '64xIN-A', '1 h', pool => 'in-top');
SELECT action, node, gpus FROM gpucredit.place('in-top') ORDER BY node;
SELECT detail -> 'score' ->> 'spines' AS spines FROM gpucredit.audit
WHERE operation = 'place' AND org = 'in-gang';

SELECT * FROM gpucredit.verify();
