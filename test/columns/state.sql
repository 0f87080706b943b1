/*
 * state.sql: a database with something of everything, for 034_columns.pl.
 *
 * On the first day jobs of two organisations run, end and fail.  That day is
 * sealed, and its entries and usage are removed.  On the last day jobs run, a
 * claim's victims leave, and part of a gang has ended.
 */
\set ON_ERROR_STOP 1
SET search_path = gpucredit, pg_catalog, public;
CREATE FUNCTION public.at(t timestamptz) RETURNS void LANGUAGE sql AS $$
	SELECT set_config('gpucredit.clock', t::text, false) $$;
CREATE FUNCTION public.id_of(o text, k text) RETURNS bigint LANGUAGE sql AS $$
	SELECT result[1]::bigint FROM gpucredit.request WHERE org = o AND key = k $$;
/* every node reports, with its key if it has one */
CREATE FUNCTION public.beat(keyed boolean DEFAULT true) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	n text;
BEGIN
	FOR n IN SELECT node FROM gpucredit.node ORDER BY 1 LOOP
		PERFORM set_config('gpucredit.node_key', CASE WHEN keyed THEN CASE n
			WHEN 'h1' THEN 'k1' WHEN 'h2' THEN 'k3' ELSE '' END ELSE '' END, false);
		PERFORM gpucredit.heartbeat(n);
	END LOOP;
END
$$;

-- settings
SELECT at('2030-01-01 09:00+00');
SELECT create_account('acme'), create_account('acme', 'vision', 2),
	create_account('acme', 'vision/alice'), create_account('acme', 'lab'),
	create_account('bell'), create_account('bell', 'r');
SELECT create_pool('default', '{"packing": "spread", "reclaim": true, "checkpoints": "s3://c", "tier_share": {"premium_training": 0.25}}'),
	create_pool('f', '{"placed_by": "foreign"}');
SELECT set_price('H100', 3.6), set_price('H100', 3, spot => true),
	set_price('H100', 4, effective_at => '2030-02-01'), set_price('H100', 3.5, 'f'),
	set_price('T4', 0.36), set_price('T4', 0.5);
SELECT set_tier('cheap', 5, 'capacity', false, bill_lost_work => false),
	set_tier('interactive', 3, 'capacity', false),
	set_tier('closed', 6, 'capacity', false, open => false);
SELECT grant_tier('bell', '', 'premium_training'), grant_tier('bell', 'r', 'closed'),
	grant_tier('acme', 'vision', 'production_inference'), grant_tier('acme', 'lab', 'closed'),
	revoke_tier('acme', 'lab', 'closed');
SELECT set_lost_work('standard_training', 'preempted', false), set_idle_limit('standard_training', '10 h');
SELECT set_retry_rule('mine', 'transient', 10, 'failed', '[3,9]', 'flaky', 'again');
SELECT register_node('default', 'h' || i, 'H100', 8, 81559, 128000, 1048576,
	labels => '{"rack": 1}', leaf => 'l1', nvlink_domain => 'v' || i, spot => i = 3,
	spine => 's1', nvlink_mbps => 3600000, leaf_mbps => 400000, spine_mbps => 200000)
FROM generate_series(1, 3) i;
SELECT report_topology('h1', '{"leaf": "l2", "leaf_mbps": 400000}');
SELECT register_node('default', 't1', 'T4', 4, 16384, 32000, 131072),
	register_node('f', 'f1', 'H100', 8, 81559);
SELECT issue('acme', '', 'paid-1', 100000), issue('bell', '', 'paid-2', 100000),
	issue('acme', 'vision', 'promo-1', 50, 'promo', valid_for => '2 days',
		policy => '{"gpu_types": ["H100"], "max_per_job": 1000, "max_share": 0.5, "tiers": ["standard_training"], "pools": ["default"]}',
		memo => 'hello'),
	issue('acme', 'lab', 'grant-1', 20, 'grant', '2030-01-02'),
	issue('acme', '', 'bad-1', 10);
SELECT set_budget('acme', '', 90000), set_budget('acme', 'vision', 5000, 'day', false),
	set_budget('acme', 'lab', 500, 'week', true, '{0.9}'),
	set_budget('bell', 'r', 500), set_budget('bell', 'r', NULL);
SELECT set_quota('acme', 'vision', NULL, 64, 20, 100, max_nonpreemptible_gpus => 32), set_quota('acme', 'lab', 'H100', 16),
	set_quota('bell', '', NULL, NULL, 50, NULL);
SELECT set_rate_limit('acme', '', '*', 1e6, 1000000),
	set_rate_limit('bell', 'r', 'reserve', 1e6, 1000000);
CREATE ROLE t_acme;
CREATE ROLE t_bell;
GRANT gpucredit_tenant TO t_acme, t_bell;
SELECT bind_tenant('t_acme', 'acme', 'vision'), bind_tenant('t_bell', 'bell'),
	bind_tenant('t_bell', 'acme', 'lab');
SELECT unbind_tenant('t_bell', 'acme', 'lab');
SELECT set_slices('bell', '', 4);
SELECT set_alert('acme', '', 20000000), set_alert('bell', '', 5);
SELECT transfer('acme', '', 'lab', 'tr-1', 30), transfer('acme', '', 'lab', 'tr-2', 1e9);
SELECT revoke('acme', id_of('acme', 'bad-1'), 'rv-1', 'oops');

-- holds of callers
SELECT hold('acme', 'vision', 'ho-' || i, 20, '3 days') FROM generate_series(1, 4) i;
SELECT hold('bell', 'r', 'hb-' || i, 20, '3 days') FROM generate_series(1, 3) i;
SELECT hold('acme', 'lab', 'ho-dead', 5, '1 h'), hold('acme', 'lab', 'ho-reap', 5, '1 h');
SELECT capture('acme', id_of('acme', 'ho-1'), 'ca-1', 5, false),
	capture('acme', id_of('acme', 'ho-2'), 'ca-2', 7),
	release('acme', id_of('acme', 'ho-3'), 're-1'),
	extend_hold('acme', id_of('acme', 'ho-1'), 'ex-1', 5, '5 days'),
	capture('acme', id_of('acme', 'ho-4'), 'ca-3', 20),
	refund_hold('acme', id_of('acme', 'ho-4'), 'rf-1', 3, 'nice'),
	capture('bell', id_of('bell', 'hb-1'), 'cb-1', 4);
SELECT hold('acme', '', 'deny-' || i, 1e9, '1 h') FROM generate_series(1, 3) i;
SELECT * FROM verify();

-- jobs that run, end, fail and are cancelled
SET gpucredit.traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
SELECT reserve('acme', 'vision/alice', 'run-1', '2xH100', '10 h', cpu_milli => 4000,
	memory_mib => 4096, spec => '{"checkpoint_every": "10 min", "cache": "ds1", "cmd": "x"}',
	options => '{"priority": 3, "prefer": "node"}');
RESET gpucredit.traceparent;
SELECT reserve('acme', 'vision', 'done-1', '1xH100', '5 h', hold_window => '30 min'),
	reserve('acme', 'vision', 'fail-1', '1xH100', '5 h', 'cheap', max_retries => 1),
	reserve('acme', 'lab', 'share-1', '0.5xT4@4GB', '5 h', cpu_milli => 1000),
	reserve('acme', 'lab', 'share-2', '0.5xT4', '5 h'),
	reserve('acme', '', 'elastic-1', '2-4xH100', '8 h'),
	reserve('bell', 'r', 'gang-1', '10xH100', '8 h', 'premium_training'),
	reserve('bell', 'r', 'cpu-1', '0', '2 h', cpu_milli => 2000, memory_mib => 100);
SELECT * FROM place();
SELECT meter(org, job, attempt, '0') FROM attempt WHERE ended_at IS NULL;
SELECT * FROM verify();
SELECT at('2030-01-01 09:20+00');
SELECT * FROM heartbeat('h1', about => '{"boot_id": "b1", "address": "10.0.0.1"}');
SELECT beat(false);
SELECT meter(org, job, attempt, '20 min', 100, 0.5) FROM attempt WHERE ended_at IS NULL;
SELECT checkpoint('acme', id_of('acme', 'run-1'), 1, 10, 's3://c/10', sha256('a'), 100);
SELECT at('2030-01-01 09:40+00');
SELECT meter(org, job, attempt, '40 min', 200, 0.5) FROM attempt WHERE ended_at IS NULL;
SELECT checkpoint('acme', id_of('acme', 'run-1'), 1, 20, 's3://c/20', sha256('b'), 100);
SELECT at('2030-01-01 09:50+00');
SELECT settle('acme', id_of('acme', 'done-1'), 1, 'completed', '45 min', 0, 'fine', 's3://log'),
	settle('acme', id_of('acme', 'fail-1'), 1, 'failed', '44 min', 1, 'boom');
SELECT refund('acme', id_of('acme', 'done-1'), 'rf-2', 0.5, 'kind');
SELECT part_ended('bell', job, attempt, min(node), 'completed', 0, elapsed => '45 min',
	log_uri => 's3://p')
FROM attempt_gpu WHERE org = 'bell' AND job = id_of('bell', 'gang-1') GROUP BY job, attempt;
SELECT reserve('acme', 'vision', 'q-' || i, '8xH100', '5 h') FROM generate_series(1, 3) i;
SELECT reserve('acme', 'vision', 'held-q', '8xH100', '5 h', options => '{"hold": true,
	"after": "afterok:1", "name": "eval", "array": "sweep", "task": 1, "at_most": 1,
	"deadline": "2031-01-01 00:00+00"}');
SELECT reserve('acme', 'vision', 'cancel-q', '8xH100', '5 h'),
	reserve('acme', 'vision', 'deny-q', '999xH100', '5 h');
SELECT cancel('acme', id_of('acme', 'cancel-q'), 'cq-1', 'no need'),
	cancel('acme', id_of('acme', 'elastic-1'), 'ce-1', 'stop it');
SELECT * FROM verify();

-- another scheduler's pool
SELECT reserve('bell', '', 'for-1', '1xH100', '5 h', pool => 'f'),
	reserve('bell', '', 'for-2', '1xH100', '5 h', pool => 'f');
SELECT placed('bell', id_of('bell', 'for-1'), 'pl-1', ARRAY['f1'], ARRAY['{0}'::gpuset]);
SELECT meter('bell', id_of('bell', 'for-1'), 1, '1 min');
SELECT * FROM place();
SELECT beat(false);
SELECT at('2030-01-01 10:10+00');
SELECT meter(org, job, attempt, elapsed + '20 min', 300, 0.5) FROM attempt WHERE ended_at IS NULL;
SELECT reserve('bell', '', 'big-1', '8xH100', '5 h', 'premium_training', topology => 'node');
SELECT * FROM place();
SELECT drain('t1', 'fan', '2030-01-03');
SELECT settle(a.org, a.job, a.attempt, 'node_lost') FROM attempt a
WHERE a.job = id_of('acme', 'share-2') AND ended_at IS NULL;
SELECT * FROM verify();

-- all fall silent; upkeep; the day is sealed, and its entries go
SELECT at('2030-01-02 00:20+00');
SELECT beat(false);
SELECT set_node_key('h1', sha256('k1')), set_node_key('h2', sha256('k2')),
	set_node_key('h2', NULL), set_node_key('h2', sha256('k3'));
SELECT * FROM expire_credits();
SELECT * FROM reap_holds();
SELECT * FROM maintain();
SELECT * FROM place();
SELECT * FROM seal_audit();
SELECT at('2030-03-05 00:25+00');
SELECT reserve('bell', '', 'for-3', '1xH100', '5 h', pool => 'f');
SELECT at('2030-03-05 00:30+00');
SET gpucredit.entry_retention = '1 min';
SET gpucredit.usage_retention = '1 min';
SELECT * FROM maintain();
RESET gpucredit.entry_retention;
RESET gpucredit.usage_retention;
SELECT * FROM verify();

-- the last day: jobs run
SELECT resume('t1');
SELECT beat();
SELECT cancel(org, job, 'cx-' || job) FROM job
WHERE state = 'queued' AND org = 'acme' AND request::text ~ '8x';
SELECT reserve('acme', 'vision', 's-' || i, '4xH100', '5 h', hold_window => '1 h',
	spec => '{"checkpoint_every": "5 min"}') FROM generate_series(1, 5) i;
SELECT create_pool('c'), create_pool('g');
SELECT register_node('c', 'c1', 'T4', 2, 16384), register_node('g', 'g1', 'T4', 1, 16384),
	register_node('g', 'g2', 'T4', 1, 16384);
SELECT set_budget('bell', '', 50000);
SELECT reserve('acme', '', 'v1', '1xT4', '1 h', pool => 'c'),
	reserve('acme', '', 'v2', '1xT4', '1 h', pool => 'c'),
	reserve('acme', '', 'gang-2', '2xT4', '4 h', pool => 'g');
SELECT * FROM place();
SELECT * FROM place('c');
SELECT * FROM place('g');
SELECT meter(org, job, attempt, '0') FROM attempt WHERE ended_at IS NULL;
SELECT placed('bell', id_of('bell', 'for-3'), 'pl-3', ARRAY['f1'], ARRAY['{1}'::gpuset],
	NULL, '1 s');
SELECT * FROM verify();
SELECT at('2030-03-05 00:50+00');
SELECT beat();
SELECT meter(org, job, attempt, '20 min', 10, 0.9) FROM attempt WHERE ended_at IS NULL;
SELECT checkpoint(org, job, attempt, 5, 's3://c/5', sha256('c'), 10) FROM attempt
WHERE ended_at IS NULL AND org = 'acme' AND gpu_type = 'H100' LIMIT 2;
SELECT checkpoint(org, job, attempt, 6, 's3://c/6', sha256('c'), 10) FROM attempt
WHERE ended_at IS NULL AND org = 'acme' AND gpu_type = 'H100' LIMIT 1;
SELECT settle(org, job, attempt, 'not_started', NULL, 1, 'no image') FROM attempt
WHERE ended_at IS NULL AND account = 'lab' LIMIT 1;
SELECT * FROM maintain();
SELECT * FROM seal_audit();

-- a claim, directives, a gang of which one part has ended
SELECT reserve('bell', '', 'big', '2xT4', '1 h', 'premium_training', pool => 'c'),
	reserve('acme', '', 'behind', '1xT4', '1 h', pool => 'c', spec => jsonb_build_object(
		'script_sha256', store_file('acme', '', 'true')));
SELECT * FROM place('c');
SELECT * FROM verify();
SELECT part_ended('acme', id_of('acme', 'gang-2'), 1, 'g1', 'completed', 0, elapsed => '15 min');
SELECT log_keep('acme', id_of('acme', 'gang-2'), 1, 'g1', 'stdout', 0, 'fine', 4);
SELECT reserve('bell', '', 'big-2', '16xH100', '5 h', 'premium_training'),
	reserve('acme', 'vision', 'late-1', '8xH100', '3 h', 'interactive');
SELECT * FROM place();
SELECT meter(org, job, attempt, '21 min', 11, 0.9) FROM attempt
WHERE ended_at IS NULL AND job % 2 = 0;
SELECT cancel(org, job, 'cr-' || job) FROM attempt
WHERE ended_at IS NULL AND account = 'r' LIMIT 1;
SELECT hold('acme', '', 'deny2-' || i, 1e9, '1 h') FROM generate_series(1, 3) i;
SELECT reclaim('h3', '10 min');
SELECT capture('acme', (hold('acme', 'vision', 'last', 1, '1 day')).hold, 'ca-9', 0.5, false, true);
SELECT set_budget('acme', 'lab', 600, 'week', true, '{0.5}');
SELECT set_slices('acme', 'lab', 2), set_slices('acme', 'lab', 1);
-- owed, of which a part is written off
SELECT capture('acme', (hold('acme', 'lab', 'owed', 1, '1 day')).hold, 'ca-owed', 5000, true, true);
SELECT write_off('acme', 'lab', 'wo-1', 'goodwill', 10);
SELECT suspend_account('bell', 'r', true);
SELECT hold('bell', '', 'hb-s' || i, 1, '1 day') FROM generate_series(1, 3) i;
SELECT settle('acme', 1, attempt, 'completed', '19 min') FROM job WHERE org = 'acme' AND job = 1;
SELECT * FROM seal_audit();
SELECT * FROM verify();
