-- The public interface: names, arguments, defaults, result columns, rights.
-- What stands here does not change. It grows by new functions, which go into
-- this list, and by new result columns behind the others.
\set ON_ERROR_ROLLBACK 1
\set ON_ERROR_STOP true
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off

BEGIN;
SET LOCAL client_min_messages = warning;
SELECT no_plan();

-- Name, arguments, result, volatility, and which roles may call it (NULL: not
-- checked here).
CREATE TEMP TABLE interface (n serial, name text, arguments text,
	result text, volatility "char", roles text);
INSERT INTO interface (name, arguments, result, volatility, roles) VALUES
('now', '', 'timestamptz', 'v', 'admin agent app auditor operator tenant'),
('key_space', '', 'text', 's', 'admin agent app auditor operator tenant'),
-- setting up
('create_account',
	'org text, account text DEFAULT '''', weight numeric DEFAULT 1',
	'void', 'v', 'admin'),
('suspend_account', 'org text, account text, suspended boolean',
	'void', 'v', 'admin'),
('set_price', 'gpu_type text, per_gpu_hour numeric, pool text DEFAULT NULL, effective_at timestamptz DEFAULT NULL, spot boolean DEFAULT false',
	'void', 'v', 'admin'),
('set_resource_price', 'resource text, per_hour numeric, pool text DEFAULT NULL, effective_at timestamptz DEFAULT NULL',
	'void', 'v', 'admin'),
('set_budget', 'org text, account text, amount numeric, period text DEFAULT ''month'', hard boolean DEFAULT true, alert_at numeric[] DEFAULT ''{0.5,0.8,1}''',
	'void', 'v', 'admin'),
('set_alert', 'org text, account text, balance_low numeric DEFAULT NULL',
	'void', 'v', 'admin operator'),
('set_quota', 'org text, account text, gpu_type text DEFAULT NULL, max_gpus int DEFAULT NULL, max_running int DEFAULT NULL, max_queued int DEFAULT NULL, max_cpu_milli bigint DEFAULT NULL, max_memory_mib bigint DEFAULT NULL, max_nonpreemptible_gpus int DEFAULT NULL',
	'void', 'v', 'admin'),
('set_slices', 'org text, account text, n int', 'void', 'v', 'admin'),
('set_rate_limit', 'org text, account text, operation text, per_second double precision, burst int',
	'void', 'v', 'admin'),
('create_pool', 'pool text, policy jsonb DEFAULT ''{}''',
	'void', 'v', 'admin'),
('set_tier', 'tier text, rank int, preemptible text, can_preempt boolean, grace interval DEFAULT ''00:02:00'', min_run interval DEFAULT ''00:10:00'', max_wall interval DEFAULT ''24:00:00'', max_wait interval DEFAULT ''24:00:00'', bill_lost_work boolean DEFAULT true, price_factor numeric DEFAULT 1, open boolean DEFAULT NULL, ages_to int DEFAULT NULL',
	'void', 'v', 'admin'),
('grant_tier', 'org text, account text, tier text', 'void', 'v', 'admin'),
('revoke_tier', 'org text, account text, tier text', 'void', 'v', 'admin'),
('pool_placed_by', 'pool text', 'text', 's', 'admin app auditor tenant'),
('tiers_for', 'org text, account text DEFAULT ''''', 'SETOF tier text, rank int, open boolean, allowed boolean, granted_to text, granted_at timestamptz', 's', 'admin app auditor tenant'),
('set_lost_work', 'tier text, outcome text, billed boolean', 'void', 'v', 'admin'),
('set_idle_limit', 'tier text, idle_limit interval, idle_warning interval DEFAULT ''00:05:00''', 'void', 'v', 'admin'),
-- tenants
('bind_tenant', 'role name, org text, account text DEFAULT ''''', 'void', 'v', 'admin'),
('unbind_tenant', 'role name, org text, account text DEFAULT ''''', 'void', 'v', 'admin'),
-- credits
('write_off', 'org text, account text, key text, reason text, amount numeric DEFAULT NULL',
	'written_off numeric, owed numeric, replayed boolean', 'v', 'admin'),
('issue', 'org text, account text, key text, amount numeric, kind text DEFAULT ''paid'', expires_at timestamptz DEFAULT NULL, effective_at timestamptz DEFAULT NULL, priority int DEFAULT 100, policy jsonb DEFAULT ''{}'', memo text DEFAULT NULL, valid_for interval DEFAULT NULL',
	'bucket bigint, replayed boolean', 'v', 'admin'),
('revoke', 'org text, bucket bigint, key text, reason text',
	'revoked numeric, replayed boolean', 'v', 'admin'),
('transfer', 'org text, from_account text, to_account text, key text, amount numeric',
	'moved numeric, status text, reason text, replayed boolean', 'v', 'admin'),
('refund', 'org text, job bigint, key text, amount numeric, reason text',
	'refunded numeric, lapsed numeric, replayed boolean', 'v', 'admin'),
('refund_hold', 'org text, hold bigint, key text, amount numeric, reason text',
	'refunded numeric, lapsed numeric, replayed boolean', 'v', 'admin'),
('balance', 'org text, account text DEFAULT '''', as_of timestamptz DEFAULT NULL',
	'available numeric, spendable numeric, held numeric, used numeric, spent numeric, promo numeric, granted numeric, paid numeric, next_expiry_at timestamptz, next_expiry_amount numeric',
	's', 'admin app auditor tenant'),
('buckets', 'org text, account text DEFAULT ''''',
	'SETOF bucket bigint, account text, kind text, priority int, effective_at timestamptz, expires_at timestamptz, issued numeric, available numeric, held numeric, spent numeric, expired numeric, revoked numeric, moved numeric, policy jsonb, usable boolean',
	's', 'admin app auditor tenant'),
('buckets_for', 'org text, account text, request text DEFAULT NULL, tier text DEFAULT ''standard_training'', pool text DEFAULT ''default'', amount numeric DEFAULT NULL',
	'SETOF bucket bigint, account text, kind text, priority int, expires_at timestamptz, available numeric, policy jsonb, pays boolean, why text, most numeric',
	's', 'admin app auditor tenant'),
('job_buckets', 'org text, job bigint, amount numeric DEFAULT NULL',
	'SETOF bucket bigint, account text, kind text, priority int, expires_at timestamptz, available numeric, policy jsonb, pays boolean, why text, most numeric',
	's', 'admin app auditor tenant'),
('denials', 'org text, account text DEFAULT '''', since timestamptz DEFAULT NULL',
	'SETOF account text, operation text, reason text, n bigint, first_at timestamptz, last_at timestamptz',
	's', 'admin app auditor'),
('budgets', 'org text, account text DEFAULT ''''',
	'SETOF account text, period text, period_start timestamptz, amount numeric, reserved numeric, spent numeric, remaining numeric, hard boolean',
	's', 'admin app auditor tenant'),
('statement', 'org text, account text DEFAULT '''', since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL',
	'SETOF at timestamptz, entry bigint, bucket bigint, kind text, account text, operation text, source text, target text, amount numeric, hold bigint, job bigint, attempt int, available numeric',
	's', 'admin app auditor tenant'),
('waste_by', 'org text, account text DEFAULT '''', since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL, by text DEFAULT ''account''',
	'SETOF item text, gpu_hours numeric, used_hours numeric, unused_hours numeric, unreported_hours numeric, unused_cost numeric, jobs bigint', 's', 'admin app auditor operator tenant'),
('usage_by', 'org text, account text DEFAULT '''', since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL, by text DEFAULT ''account''',
	'SETOF item text, spent numeric, refunded numeric, net numeric, gpu_hours numeric, jobs bigint, accrued numeric, keys jsonb, energy_kwh numeric',
	's', 'admin app auditor operator tenant'),
('top_spenders', 'org text DEFAULT NULL, k int DEFAULT 10, since timestamptz DEFAULT NULL',
	'SETOF rank bigint, account text, net numeric, spent numeric, refunded numeric, gpu_hours numeric, jobs bigint, organisation text, accrued numeric',
	's', 'admin app auditor operator tenant'),
('top_jobs', 'org text DEFAULT NULL, k int DEFAULT 10, since timestamptz DEFAULT NULL',
	'SETOF rank bigint, job bigint, account text, tier text, gpu_types text[], net numeric, spent numeric, refunded numeric, gpu_hours numeric, organisation text, accrued numeric',
	's', 'admin app auditor operator tenant'),
('invoice', 'org text, month date',
	'SETOF line bigint, account text, tier text, gpu_type text, jobs bigint, gpu_hours numeric, spent numeric, refunded numeric, amount numeric, accrued numeric',
	's', 'admin app auditor tenant'),
-- holds
('hold', 'org text, account text, key text, amount numeric, ttl interval',
	'hold bigint, status text, reason text, held numeric, expires_at timestamptz, replayed boolean',
	'v', 'admin app tenant'),
('extend_hold', 'org text, hold bigint, key text, amount numeric, ttl interval DEFAULT NULL',
	'hold bigint, status text, reason text, held numeric, expires_at timestamptz, replayed boolean',
	'v', 'admin app tenant'),
('capture', 'org text, hold bigint, key text, amount numeric, final boolean DEFAULT true, overrun boolean DEFAULT false',
	'captured numeric, released numeric, lapsed numeric, replayed boolean, uncollected numeric',
	'v', 'admin app tenant'),
('release', 'org text, hold bigint, key text, amount numeric DEFAULT NULL',
	'released numeric, lapsed numeric, replayed boolean', 'v', 'admin app tenant'),
-- jobs
('reserve', 'org text, account text, key text, request text, wall_limit interval DEFAULT NULL, tier text DEFAULT ''standard_training'', pool text DEFAULT ''default'', topology text DEFAULT ''any'', preemptible text DEFAULT NULL, max_retries int DEFAULT 3, cpu_milli bigint DEFAULT 0, memory_mib bigint DEFAULT 0, hold_window interval DEFAULT NULL, spec jsonb DEFAULT ''{}'', options jsonb DEFAULT ''{}''',
	'job bigint, status text, reason text, held numeric, replayed boolean',
	'v', 'admin app tenant'),
('place', 'pool text DEFAULT ''default'', max_starts int DEFAULT NULL',
	'SETOF action text, org text, job bigint, attempt int, node text, gpus gpucredit.gpuset, share int, gpu_type text, per_gpu_hour numeric, reason text',
	'v', 'admin agent operator'),
('placed', 'org text, job bigint, key text, nodes text[], gpus gpucredit.gpuset[], gpu_type text DEFAULT NULL, ran interval DEFAULT NULL',
	'attempt int, gpu_type text, per_gpu_hour numeric, held numeric, replayed boolean',
	'v', 'admin agent operator'),
('plan', 'pool text DEFAULT ''default''',
	'SETOF action text, org text, job bigint, attempt int, node text, gpus gpucredit.gpuset, share int, gpu_type text, per_gpu_hour numeric, reason text',
	's', 'admin agent auditor operator'),
('quote', 'org text, account text, request text, wall_limit interval DEFAULT NULL, tier text DEFAULT ''standard_training'', pool text DEFAULT ''default'', topology text DEFAULT ''any'', preemptible text DEFAULT NULL, max_retries int DEFAULT 3, cpu_milli bigint DEFAULT 0, memory_mib bigint DEFAULT 0, hold_window interval DEFAULT NULL, spec jsonb DEFAULT ''{}'', options jsonb DEFAULT ''{}'', plan boolean DEFAULT true',
	'decision text, reason text, held numeric, cost numeric, per_hour numeric, resources numeric, price_factor numeric, discount numeric, wall_limit interval, held_for interval, offers jsonb, buckets jsonb, payable numeric, budget_left numeric, starts text, waits_for text, expected_at timestamptz, latest_at timestamptz',
	's', 'admin app tenant'),
('plan_with', 'pool text, what jsonb',
	'SETOF action text, org text, job bigint, attempt int, node text, gpus gpucredit.gpuset, share int, gpu_type text, per_gpu_hour numeric, reason text, expected_at timestamptz',
	's', 'admin auditor operator'),
('reservations', 'pool text DEFAULT ''default''',
	'SETOF org text, job bigint, attempt int, node text, gpus gpucredit.gpuset, share int, gpu_type text, expected_at timestamptz, latest_at timestamptz, limit_at timestamptz',
	's', 'admin auditor operator'),
('fair_share', 'pool text DEFAULT ''default'', org text DEFAULT NULL, most int DEFAULT NULL, after_org text DEFAULT NULL, after_account text DEFAULT ''''',
	'SETOF org text, account text, weight numeric, decayed numeric, live numeric, share numeric, used numeric, rank int',
	's', 'admin auditor operator'),
-- a report, and screens for an operator
('report_html', 'org text DEFAULT NULL, since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL',
	'text', 's', 'admin app auditor operator tenant'),
('cluster_map', 'pool text DEFAULT ''default'', width int DEFAULT 100, height int DEFAULT 40',
	'SETOF text', 's', 'admin auditor operator'),
('node_sizes', 'pool text DEFAULT ''default''',
	'SETOF gpu_type text, gpus int, gpu_memory_mib bigint, cpu_milli bigint, memory_mib bigint',
	's', 'admin app auditor operator tenant'),
('queue', 'pool text DEFAULT ''default'', most int DEFAULT 20',
	'SETOF org text, account text, job bigint, tier text, request text, waits interval, reason text, expected_at timestamptz',
	's', 'admin auditor operator tenant'),
('queue_reasons', 'pool text DEFAULT ''default''',
	'SETOF reason text, tier text, jobs bigint, devices numeric, longest interval',
	's', 'admin auditor operator'),
('burn_rate', 'most int DEFAULT 20',
	'SETOF org text, available numeric, held numeric, per_day numeric, days_left numeric, runs_out timestamptz',
	's', 'admin auditor operator'),
('recent_events', 'span interval DEFAULT ''00:01:00''',
	'SETOF what text, reason text, jobs bigint, times bigint, latest timestamptz, org text, job bigint',
	's', 'admin auditor operator'),
('events', 'after bigint DEFAULT 0, "limit" int DEFAULT 100, org text DEFAULT NULL, account text DEFAULT '''', kinds text[] DEFAULT NULL, job bigint DEFAULT NULL',
	'SETOF org text, event bigint, at timestamptz, kind text, account text, job bigint, attempt int, decision text, reason text, detail jsonb',
	's', 'admin app auditor operator tenant'),
('publish_event', 'kind text, org text, account text DEFAULT '''', detail jsonb DEFAULT ''{}''',
	'void', 'v', 'admin'),
('demand', 'pool text DEFAULT ''default'', since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL, step interval DEFAULT ''01:00:00''',
	'SETOF since timestamptz, gpu_type text, supply numeric, allocated numeric, waiting numeric, demand numeric, starts bigint, mean_wait interval',
	's', 'admin auditor operator'),
('capacity_advice', 'pool text DEFAULT ''default'', period interval DEFAULT ''7 days'', target numeric[] DEFAULT ''{0.7,0.9}'', wait_target interval DEFAULT NULL',
	'SETOF gpu_type text, supply numeric, allocated numeric, waiting numeric, busy_percent numeric, demand_percent numeric, backlog_change numeric, stranded bigint, advice text, devices bigint, cost numeric, load numeric, unproven numeric, needed bigint, needed_low bigint, needed_high bigint, wait_p95 interval, runs int',
	's', 'admin auditor operator'),
('explain', 'org text, job bigint',
	'SETOF check_name text, passes boolean, detail text', 's', 'admin app auditor operator tenant'),
('meter', 'org text, job bigint, attempt int, elapsed interval, progress bigint DEFAULT NULL, utilization double precision DEFAULT NULL',
	'action text, reason text, billed numeric, held numeric, deadline timestamptz, time_left interval',
	'v', 'admin agent'),
('meter_batch', 'org text[], job bigint[], attempt int[], elapsed interval[], progress bigint[] DEFAULT NULL, utilization double precision[] DEFAULT NULL',
	'SETOF ordinal int, org text, job bigint, attempt int, action text, reason text, billed numeric, held numeric, deadline timestamptz, time_left interval',
	'v', 'admin agent'),
('settle', 'org text, job bigint, attempt int, outcome text, elapsed interval DEFAULT NULL, exit_code int DEFAULT NULL, message text DEFAULT NULL, log_uri text DEFAULT NULL',
	'outcome text, billed numeric, released numeric, lapsed numeric, refunded numeric, job_state text, retry_at timestamptz, replayed boolean, uncollected numeric',
	'v', 'admin agent app tenant'),
('part_ended', 'org text, job bigint, attempt int, node text, outcome text, exit_code int DEFAULT NULL, message text DEFAULT NULL, elapsed interval DEFAULT NULL, log_uri text DEFAULT NULL, energy_j bigint DEFAULT NULL',
	'over boolean, outcome text, billed numeric, job_state text, retry_at timestamptz, waits_for text[], replayed boolean',
	'v', 'admin agent'),
('poke_addresses', '', 'SETOF node text, address text', 's', 'admin agent operator'),
('store_file', 'org text, account text, body text', 'text', 'v', 'admin app tenant'),
('open_session', 'org text, job bigint, kind text DEFAULT ''terminal'', port int DEFAULT NULL, node text DEFAULT NULL',
	'relay text, secret text, attempt int, node text',
	'v', 'admin app operator tenant'),
('signal_job', 'org text, job bigint, key text, signal text, target text DEFAULT ''steps'', reason text DEFAULT NULL',
	'attempt int, nodes int, replayed boolean',
	'v', 'admin app operator tenant'),
('log_wish', 'org text, job bigint, from_byte bigint DEFAULT 0, stream text DEFAULT ''stdout'', attempt int DEFAULT NULL, node text DEFAULT NULL, waits boolean DEFAULT false',
	'state text, attempt int, node text, first_byte bigint, body bytea, written bigint, dropped bigint, over boolean, message text, uri text',
	'v', 'admin app operator tenant'),
('log_get', 'org text, job bigint, from_byte bigint DEFAULT 0, stream text DEFAULT ''stdout'', attempt int DEFAULT NULL, node text DEFAULT NULL',
	'state text, attempt int, node text, first_byte bigint, body bytea, written bigint, dropped bigint, over boolean, message text, uri text',
	's', 'admin app operator tenant'),
('log_put', 'org text, job bigint, attempt int, node text, stream text, from_byte bigint, first_byte bigint, body bytea, written bigint, dropped bigint DEFAULT 0, over boolean DEFAULT false, message text DEFAULT NULL',
	'boolean', 'v', 'admin agent'),
('log_keep', 'org text, job bigint, attempt int, node text, stream text, first_byte bigint, body bytea, written bigint, dropped bigint DEFAULT 0, message text DEFAULT NULL, uri text DEFAULT NULL',
	'bigint', 'v', 'admin agent'),
('cancel', 'org text, job bigint, key text, reason text DEFAULT NULL',
	'job_state text, replayed boolean', 'v', 'admin app operator tenant'),
('requeue_job', 'org text, job bigint, key text, reason text DEFAULT NULL',
	'job_state text, replayed boolean', 'v', 'admin app operator tenant'),
('hold_job', 'org text, job bigint, key text, reason text DEFAULT NULL',
	'job_state text, held_by text, replayed boolean', 'v', 'admin app operator tenant'),
('release_job', 'org text, job bigint, key text, reason text DEFAULT NULL',
	'job_state text, held_by text, replayed boolean', 'v', 'admin app operator tenant'),
('update_job', 'org text, job bigint, key text, changes jsonb, reason text DEFAULT NULL',
	'job_state text, replayed boolean', 'v', 'admin app operator tenant'),
('checkpoint', 'org text, job bigint, attempt int, step bigint, uri text, sha256 bytea, size_bytes bigint',
	'void', 'v', 'admin agent'),
('checkpoint_loaded', 'org text, job bigint, attempt int, from_attempt int, from_step bigint, sha256 bytea',
	'good boolean, from_attempt int, from_step bigint, uri text, sha256 bytea, size_bytes bigint',
	'v', 'admin agent'),
('set_retry_rule', 'rule text, class text, priority int DEFAULT 100, outcome text DEFAULT NULL, exit_codes int4range DEFAULT NULL, message text DEFAULT NULL, advice text DEFAULT NULL',
	'void', 'v', 'admin operator'),
('history', 'org text, job bigint',
	'SETOF at timestamptz, what text, attempt int, detail text',
	's', 'admin app auditor operator tenant'),
('checkpoints', 'org text, job bigint',
	'SETOF attempt int, step bigint, uri text, sha256 bytea, size_bytes bigint, at timestamptz, bad_at timestamptz',
	's', 'admin app auditor operator tenant'),
-- nodes
('register_node', 'pool text, node text, gpu_type text, gpus int, gpu_memory_mib bigint, cpu_milli bigint DEFAULT 0, memory_mib bigint DEFAULT 0, nvlink_domain text DEFAULT NULL, leaf text DEFAULT NULL, spot boolean DEFAULT false, labels jsonb DEFAULT ''{}'', spine text DEFAULT NULL, nvlink_mbps bigint DEFAULT NULL, leaf_mbps bigint DEFAULT NULL, spine_mbps bigint DEFAULT NULL',
	'void', 'v', 'admin operator'),
('report_topology', 'node text, topology jsonb', 'boolean', 'v', 'admin agent operator'),
('set_node_key', 'node text, sha256 bytea', 'void', 'v', 'admin operator'),
('heartbeat', 'node text, healthy gpucredit.gpuset DEFAULT NULL, running text[] DEFAULT NULL, about jsonb DEFAULT NULL',
	'SETOF org text, job bigint, attempt int, action text, gpus gpucredit.gpuset, share int, deadline timestamptz, time_left interval, spec jsonb',
	'v', 'admin agent operator'),
('drain', 'node text, reason text, deadline timestamptz DEFAULT NULL',
	'void', 'v', 'admin operator'),
('resume', 'node text', 'void', 'v', 'admin operator'),
('remove_node', 'node text', 'void', 'v', 'admin operator'),
('reclaim', 'node text, notice interval', 'void', 'v', 'admin agent operator'),
('reclaim', 'nodes text[], notice interval', 'void', 'v', 'admin agent operator'),
-- upkeep
('expire_credits', '', 'task text, affected bigint', 'v', 'admin operator'),
('reap_holds', '', 'SETOF task text, affected bigint', 'v', 'admin operator'),
('check_nodes', '', 'SETOF task text, affected bigint', 'v', 'admin operator'),
('end_tenant_transactions', '', 'SETOF task text, affected bigint', 'v', 'admin operator'),
('maintain', '', 'SETOF task text, affected bigint', 'v', 'admin operator'),
('upkeep', 'task text', 'SETOF task text, affected bigint', 'v', 'admin operator'),
('check_books', '', 'SETOF task text, affected bigint', 'v', 'admin operator'),
('install_jobs', '', 'int', 'v', 'admin operator'),
('remove_jobs', '', 'int', 'v', 'admin operator'),
('uninstall', '', 'SETOF step int, statement text', 's', 'admin'),
('metric_samples', 'families text[] DEFAULT NULL',
	'SETOF family text, name text, type text, labels jsonb, value double precision, help text',
	'v', 'admin auditor operator'),
('metrics_text', '', 'text', 'v', 'admin auditor operator'),
('verify', 'org text DEFAULT NULL, after text DEFAULT NULL, upto text DEFAULT NULL',
	'SETOF invariant text, org text, subject text, detail text',
	's', 'admin auditor operator'),
('verify_ranges', 'ranges int DEFAULT 16',
	'SETOF range int, after text, upto text, organisations bigint, entries bigint',
	'v', 'admin auditor operator'),
('seal_audit', '', 'SETOF task text, affected bigint', 'v', 'admin operator'),
('verify_audit', 'since timestamptz DEFAULT NULL, published bytea DEFAULT NULL',
	'SETOF problem text, batch bigint, row_name text, detail text', 'v', 'admin auditor'),
('audit_proof', 'entry bigint, kind text DEFAULT ''entry''',
	'batch bigint, leaf text, leaf_index int, leaves int, path bytea[], header text, previous bytea, root bytea, seal bytea',
	'v', 'admin auditor'),
('audit_before', 'at timestamptz', 'bigint', 's', 'admin auditor'),
('rebuild', 'org text', 'SETOF what text, was numeric, is_now numeric',
	'v', 'admin');

-- The catalogue's words as written above.
CREATE FUNCTION pg_temp.short(catalog text) RETURNS text
LANGUAGE sql AS $$
	SELECT regexp_replace(replace(replace(replace(catalog,
		'timestamp with time zone', 'timestamptz'), 'integer', 'int'),
		'''{}''::jsonb', '''{}'''), '::[a-z0-9_. ]+(\[\])?', '', 'g')
$$;
CREATE FUNCTION pg_temp.result(f oid) RETURNS text
LANGUAGE sql AS $$
	SELECT CASE WHEN p.proretset THEN 'SETOF ' ELSE '' END || pg_temp.short(
		coalesce((SELECT string_agg(a.attname || ' '
				|| format_type(a.atttypid, a.atttypmod), ', '
				ORDER BY a.attnum)
			FROM pg_type t JOIN pg_attribute a ON a.attrelid = t.typrelid
			WHERE t.oid = p.prorettype AND a.attnum > 0
				AND NOT a.attisdropped),
			format_type(p.prorettype, NULL)))
	FROM pg_proc p WHERE p.oid = f
$$;
CREATE TEMP TABLE roles AS
	SELECT r.oid, r.rolname, substring(r.rolname, 'gpucredit_(.*)') AS short
	FROM pg_roles r WHERE r.rolname = ANY (ARRAY['gpucredit_admin',
		'gpucredit_operator', 'gpucredit_app', 'gpucredit_agent',
		'gpucredit_auditor', 'gpucredit_tenant']);
CREATE TEMP TABLE public_function AS
	SELECT i.*, p.oid, p.proname
	FROM interface i
		JOIN pg_proc p ON p.pronamespace = 'gpucredit'::regnamespace
			AND p.proname = i.name
	WHERE (SELECT count(*) FROM interface o WHERE o.name = i.name) = 1
		OR pg_temp.short(pg_get_function_arguments(p.oid)) = i.arguments;

SELECT is(count(*)::int, 6, 'the roles are there') FROM roles;
SELECT isnt(count(*)::int, 0, 'there are functions') FROM public_function;
SELECT is((SELECT count(*) FROM pg_proc p
		WHERE p.pronamespace = 'gpucredit'::regnamespace AND p.proname = i.name),
	count(*), format('%s is one function for each time it is in the list', name))
FROM interface i GROUP BY name ORDER BY min(n);
SELECT is(count(*)::int, 1, format('%s(%s) is one function', name, arguments))
FROM public_function GROUP BY name, arguments ORDER BY min(n);
SELECT is(string_agg(p.proname, ' ' ORDER BY p.proname), NULL,
	'every function that a caller may use is in the list')
FROM pg_proc p
WHERE p.pronamespace = 'gpucredit'::regnamespace AND p.prosecdef
	AND p.proname <> ALL (SELECT name FROM interface);

-- \df+ and the reference group functions by the first word of their comments.
SELECT is(string_agg(p.oid::regprocedure::text, ' '), NULL, 'every comment begins with its group')
FROM pg_proc p
WHERE p.pronamespace = 'gpucredit'::regnamespace
	AND obj_description(p.oid, 'pg_proc') !~ '^(Agents|Audit|Clock|Credit|Holds|Jobs|Metrics|Nodes|Reports|Scheduling|Screens|Setup|Types|Upkeep): ';

-- Each function is as written here.
SELECT is(pg_temp.short(pg_get_function_arguments(oid)), arguments,
	format('arguments of %s', name))
FROM public_function ORDER BY n;
SELECT ok(pg_temp.result(oid) = result
		OR starts_with(pg_temp.result(oid), result || ', '),
	format('result of %s: %s', name, pg_temp.result(oid)))
FROM public_function ORDER BY n;
SELECT is(p.provolatile, f.volatility, format('volatility of %s', f.name))
FROM public_function f JOIN pg_proc p ON p.oid = f.oid ORDER BY f.n;
SELECT ok(obj_description(oid, 'pg_proc') <> '', format('%s says what it does', name))
FROM public_function ORDER BY n;
SELECT ok(obj_description(f.oid, 'pg_proc') ~ 'Errors: ' OR p.proretset
		OR p.pronargs = 0,
	format('%s says what it refuses', name))
FROM public_function f JOIN pg_proc p ON p.oid = f.oid ORDER BY f.n;
CREATE FUNCTION pg_temp.limited(name text) RETURNS boolean
LANGUAGE plpgsql AS $limited$
BEGIN
	PERFORM gpucredit.set_rate_limit('comments', '', name, 1, 1);
	RETURN true;
EXCEPTION WHEN invalid_parameter_value THEN
	RETURN false;
END
$limited$;
SELECT gpucredit.create_account('comments');
SELECT is(obj_description(oid, 'pg_proc') ~ 'UC202', pg_temp.limited(name),
	format('%s says whether its calls may be too many', name))
FROM public_function WHERE name NOT IN ('set_rate_limit', 'meter_batch')
ORDER BY n;
SELECT ok(obj_description(f.oid, 'pg_proc') ~ ('\m' || reason || '\M'),
	format('%s says that it may deny as %s', name, reason))
FROM public_function f JOIN (VALUES
	('hold', '{insufficient_credits,budget_exceeded,account_suspended,uncollected}'::text[]),
	('extend_hold', '{insufficient_credits,budget_exceeded,account_suspended,uncollected}'),
	('transfer', '{insufficient_credits,account_suspended}'),
	('reserve', '{insufficient_credits,budget_exceeded,quota_exceeded,account_suspended,tier_not_granted,uncollected,no_price,impossible_request}'))
	d (name, reasons) USING (name), unnest(reasons) reason
ORDER BY f.n, reason;

-- Each runs with its owner's rights, on a fixed path. (meter does so by
-- itself, faster: sql/job.sql tests that.)
SELECT ok(p.prosecdef, format('%s runs with its owner''s rights', f.name))
FROM public_function f JOIN pg_proc p ON p.oid = f.oid
WHERE f.name NOT IN ('now', 'key_space', 'meter') ORDER BY f.n;
SELECT ok('search_path=pg_catalog, pg_temp' = ANY (p.proconfig),
	format('%s has its search_path pinned', p.oid::regprocedure))
FROM pg_proc p
WHERE p.pronamespace = ANY ('{gpucredit,gpucredit_internal,gpucredit_report}'::regnamespace[])
	AND p.prosecdef
ORDER BY p.proname;

-- Who may call it.
SELECT is(string_agg(r.short, ' ' ORDER BY r.short) FILTER (WHERE
		has_function_privilege(r.oid, f.oid, 'EXECUTE')), f.roles,
	format('who may call %s', f.name))
FROM public_function f CROSS JOIN roles r
WHERE f.roles IS NOT NULL
GROUP BY f.n, f.name, f.roles ORDER BY f.n;
-- and no others but those that compute with the types
SELECT is(string_agg(DISTINCT p.oid::regprocedure::text, ' '), NULL,
	format('what %s may call besides', r.rolname))
FROM roles r LEFT JOIN pg_proc p
	ON p.pronamespace = ANY ('{gpucredit,gpucredit_internal,gpucredit_report}'::regnamespace[])
	AND has_function_privilege(r.oid, p.oid, 'EXECUTE')
	AND p.oid <> ALL (SELECT oid FROM public_function)
	AND p.oid::regproc::text NOT IN ('gpucredit_internal.may_read',		-- what policies ask
		'gpucredit_internal.cron_jobs', 'gpucredit_internal.seal_waits',
		'gpucredit_internal.upkeep_lags')	-- and views
	AND (p.prosecdef OR p.proname ~ '_sound$' OR NOT p.proargtypes::oid[] || p.prorettype && ARRAY[
		'gpucredit.credits', 'gpucredit.gpureq', 'gpucredit.gpuset']::regtype[]::oid[])
GROUP BY r.rolname ORDER BY r.rolname;

-- Roles read tables; only functions write them.
SELECT is(string_agg(c.relname, ' ' ORDER BY c.relname COLLATE "C"), expected.tables,
	format('what %s may read', r.rolname))
FROM (VALUES
	('gpucredit_agent', NULL),
	('gpucredit_app', 'alert event jobs price prices tier'),
	('gpucredit_tenant', 'account accounts alert attempt attempts entries entry event hold holds job jobs price prices tier'),
	('gpucredit_operator', 'archive_batch attempt attempt_gpu attempts capacity checkpoint cron_status directive event jobs metrics node node_capacity nodes pool price prices queue_depth retry_rule seal_status seals tier upkeep_lag'))
	expected (role, tables)
	JOIN roles r ON r.rolname = expected.role
	LEFT JOIN pg_class c ON c.relnamespace = 'gpucredit'::regnamespace
		AND c.relkind IN ('r', 'p', 'v', 'm')
		AND has_table_privilege(r.oid, c.oid, 'SELECT')
GROUP BY r.rolname, expected.tables ORDER BY r.rolname;
-- nobody needs the secret that the keys of steps are derived from
SELECT is(string_agg(c.relname, ' '), 'step_secret',
	format('what %s may not read', r.rolname))
FROM roles r LEFT JOIN pg_class c ON c.relnamespace = 'gpucredit'::regnamespace
	AND c.relkind IN ('r', 'p', 'v', 'm')
	AND NOT has_table_privilege(r.oid, c.oid, 'SELECT')
WHERE r.short IN ('admin', 'auditor')
GROUP BY r.rolname ORDER BY r.rolname;
SELECT is(string_agg(c.relname, ' '), NULL,
	format('what %s may write', r.rolname))
FROM roles r LEFT JOIN pg_class c ON c.relnamespace = 'gpucredit'::regnamespace
	AND CASE WHEN c.relkind = 'S' THEN has_sequence_privilege(r.oid, c.oid, 'USAGE, UPDATE')
		WHEN c.relkind IN ('r', 'p', 'v') THEN has_table_privilege(r.oid, c.oid,
			'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER') END
GROUP BY r.rolname ORDER BY r.rolname;
SELECT is(string_agg(r.rolname, ' '), NULL, 'no role may create anything in the schema')
FROM roles r WHERE has_schema_privilege(r.oid, 'gpucredit', 'CREATE');

-- The schema shows what people call; helpers are in a schema that nobody may
-- use.
SELECT is(string_agg(p.oid::regprocedure::text, ' '), NULL, 'everything in schema gpucredit is for somebody to call')
FROM pg_proc p
WHERE p.pronamespace = 'gpucredit'::regnamespace
	AND NOT EXISTS (SELECT FROM roles r WHERE has_function_privilege(r.oid, p.oid, 'EXECUTE'));
SELECT is(string_agg(r.rolname, ' '), NULL, format('no role may look into %s', s))
FROM unnest('{gpucredit_internal,gpucredit_report}'::text[]) s LEFT JOIN pg_roles r ON NOT r.rolsuper
	AND r.rolname !~ '^pg_(read|write)_all_data$' AND has_schema_privilege(r.oid, s, 'USAGE, CREATE')
GROUP BY s;

-- The views for drivers give amounts as numeric.
SELECT is(string_agg(c.relname || '.' || a.attname, ' '), NULL, 'no view for programs has a column of type credits')
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
WHERE c.relnamespace = 'gpucredit'::regnamespace AND c.relkind = 'v'
	AND a.atttypid = ANY ('{gpucredit.credits,gpucredit.credits[]}'::regtype[])
	AND (SELECT bool_or(has_table_privilege(r.oid, c.oid, 'SELECT')) FROM roles r WHERE r.short IN ('app', 'operator', 'tenant'));
-- and each readable table with amounts has such a view, with its columns'
-- names.
SELECT is(string_agg(t.relname || '.' || a.attname, ' ' ORDER BY t.relname, a.attnum), 'attempt.surplus attempt.used job.offer_prices job.offer_spot_prices job.resources',
	'amounts of tables that programs read, and no view has')
FROM pg_class t JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0
	LEFT JOIN pg_class v ON v.relnamespace = t.relnamespace AND v.relkind = 'v'
		AND v.relname IN (t.relname || 's', replace(t.relname || 's', 'ys', 'ies'))
	LEFT JOIN pg_attribute n ON n.attrelid = v.oid AND n.attname = a.attname AND n.atttypid = 'numeric'::regtype
WHERE t.relnamespace = 'gpucredit'::regnamespace AND t.relkind = 'r' AND n.attname IS NULL
	AND a.atttypid = ANY ('{gpucredit.credits,gpucredit.credits[]}'::regtype[])
	AND (SELECT bool_or(has_table_privilege(r.oid, t.oid, 'SELECT')) FROM roles r WHERE r.short IN ('app', 'operator', 'tenant'));
-- The schema for tools that reflect one. Column for column, so that a view
-- keeps the columns that it had; new ones come at its end.
SELECT is(string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attnum),
	v.columns, format('the columns of %s', v.name))
FROM (VALUES
	('accounts', 'org text, account text, weight numeric, suspended boolean, created_at timestamp with time zone, balance_low numeric'),
	('alerts', 'org text, alert bigint, at timestamp with time zone, account text, kind text, period text, period_start timestamp with time zone, threshold numeric, detail jsonb, bucket bigint, recovered_at timestamp with time zone'),
	('attempts', 'org text, job bigint, attempt integer, account text, pool text, tier text, hold bigint, gpu_type text, gpus integer, share integer, per_gpu_hour numeric, wall_limit interval, hold_window interval, started_at timestamp with time zone, running_at timestamp with time zone, heard_at timestamp with time zone, elapsed interval, progress bigint, progress_at timestamp with time zone, utilization real, held numeric, ended_at timestamp with time zone, outcome text, billed numeric, released numeric, lapsed numeric, refunded numeric, uncollected numeric, job_state text, retry_at timestamp with time zone, exit_code integer, message text, log_uri text, trace uuid, ended_by text, late_at timestamp with time zone, late_elapsed interval, late_uncollected numeric, billed_share integer, per_hour numeric, overhead interval, energy_j bigint'),
	('balances', 'org text, account text, available numeric, spendable numeric, held numeric, used numeric, spent numeric, promo numeric, granted numeric, paid numeric, next_expiry_at timestamp with time zone, next_expiry_amount numeric'),
	('entries', 'org text, entry bigint, at timestamp with time zone, account text, bucket bigint, source text, target text, amount numeric, operation text, hold bigint, job bigint, attempt integer, trace uuid'),
	('events', 'org text, event bigint, at timestamp with time zone, kind text, account text, job bigint, attempt integer, decision text, reason text, detail jsonb'),
	('holds', 'org text, hold bigint, account text, job bigint, drawn numeric, held numeric, captured numeric, refunded numeric, released numeric, lapsed numeric, uncollected numeric, expires_at timestamp with time zone, created_at timestamp with time zone, closed_at timestamp with time zone, trace uuid'),
	('jobs', 'org text, job bigint, account text, pool text, tier text, request text, state text, attempt integer, failures integer, gpu_type text, gpus integer, share integer, elapsed interval, held numeric, used numeric, submitted_at timestamp with time zone, not_before timestamp with time zone, started_at timestamp with time zone, ended_at timestamp with time zone, trace uuid, progress bigint, utilization real, log text, name text, array_key text, task bigint, at_most integer, after text, held_by text, deadline timestamp with time zone, labels jsonb, wall_limit interval, per_gpu_hour numeric, outcome text, exit_code integer, message text, billed numeric, nodes text, energy_j bigint'),
	('nodes', 'node text, pool text, gpu_type text, gpus integer, healthy text, spot boolean, state text, reason text, deadline timestamp with time zone, heard_at timestamp with time zone, takes_work boolean, containment text, pulling integer, nvlink_domain text, leaf text, spine text, nvlink_mbps bigint, leaf_mbps bigint, spine_mbps bigint, discovered jsonb, registered text, out_of_service jsonb'),
	('pools', 'pool text, policy jsonb, created_at timestamp with time zone'),
	('prices', 'gpu_type text, pool text, spot boolean, effective_at timestamp with time zone, per_gpu_hour numeric, revision integer, recorded_at timestamp with time zone'),
	('tiers', 'tier text, rank integer, can_preempt boolean, preemptible text, max_wait interval, max_wall interval, min_run interval, grace interval, ages_to integer, price_factor numeric(7,3), open boolean, bill_lost_work boolean')) AS v (name, columns)
	JOIN pg_attribute a ON a.attrelid = ('gpucredit_views.' || v.name)::regclass AND a.attnum > 0
GROUP BY v.name, v.columns ORDER BY v.name;
SELECT is(string_agg(c.relname, ' '), NULL, 'schema gpucredit_views has only views with their readers'' rights, named by plurals')
FROM pg_class c WHERE c.relnamespace = 'gpucredit_views'::regnamespace
	AND NOT (c.relkind = 'v' AND 'security_invoker=true' = ANY (c.reloptions) AND c.relname ~ 's$');
SELECT is((SELECT count(*) FROM pg_proc p WHERE p.pronamespace = 'gpucredit_views'::regnamespace)
	+ (SELECT count(*) FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
		WHERE t.typnamespace = 'gpucredit_views'::regnamespace AND t.typelem = 0 AND coalesce(c.relkind, '-') <> 'v'),
	0::bigint, 'and no function or type');
SELECT is(string_agg(format('%s.%s', c.relname, a.attname), ' '), NULL, 'all of their columns have types of PostgreSQL''s own, none of them a domain or composite')
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
	JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typcategory = 'A'
WHERE c.relnamespace = 'gpucredit_views'::regnamespace
	AND (t.typnamespace <> 'pg_catalog'::regnamespace OR coalesce(e.typnamespace, t.typnamespace) <> 'pg_catalog'::regnamespace
		OR coalesce(e.typtype, t.typtype) <> 'b');
-- What a role may read there it can read: no right is missing below a view.
CREATE FUNCTION pg_temp.refused(role text, view regclass) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SET LOCAL ROLE %I', role);
	EXECUTE format('SELECT count(v.*) FROM %s v', view);
	RESET ROLE;
	RETURN NULL;
EXCEPTION WHEN insufficient_privilege THEN
	RETURN SQLERRM;
END $$;
SELECT is(pg_temp.refused(r.rolname, c.oid), NULL, format('%s reads %s', r.rolname, c.oid::regclass))
FROM pg_class c CROSS JOIN roles r
WHERE c.relnamespace = 'gpucredit_views'::regnamespace AND has_table_privilege(r.oid, c.oid, 'SELECT')
ORDER BY r.rolname, c.relname;

-- A reader's search path changes nothing of what they do.
CREATE SCHEMA gpucredit_test_evil;
GRANT USAGE ON SCHEMA gpucredit_test_evil TO PUBLIC;
CREATE FUNCTION gpucredit_test_evil.trap() RETURNS text LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'hijacked' USING ERRCODE = 'HIJAK'; END$$;
CREATE FUNCTION gpucredit_test_evil.isfinite(timestamptz) RETURNS boolean LANGUAGE sql AS 'SELECT gpucredit_test_evil.trap() IS NULL';
CREATE FUNCTION gpucredit_test_evil.may_read(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT gpucredit_test_evil.trap() IS NULL';
CREATE FUNCTION gpucredit_test_evil.balance(text, text) RETURNS text LANGUAGE sql AS 'SELECT gpucredit_test_evil.trap()';
CREATE FUNCTION gpucredit_test_evil.same(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT gpucredit_test_evil.trap() IS NULL';
CREATE OPERATOR gpucredit_test_evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = gpucredit_test_evil.same);
CREATE TABLE gpucredit_test_evil.account (org text, account text);
CREATE DOMAIN gpucredit_test_evil.text AS pg_catalog.text CHECK (gpucredit_test_evil.trap() IS NULL);
CREATE DOMAIN gpucredit_test_evil.numeric AS pg_catalog.numeric CHECK (gpucredit_test_evil.trap() IS NULL);
CREATE FUNCTION pg_temp.among_traps(statement text) RETURNS text LANGUAGE plpgsql
SET search_path = gpucredit_test_evil, pg_catalog AS $$
BEGIN
	EXECUTE statement;
	RETURN NULL;
EXCEPTION WHEN SQLSTATE 'HIJAK' THEN
	RETURN SQLERRM;
END $$;
SET LOCAL ROLE gpucredit_auditor;
SELECT is(pg_temp.among_traps($$SELECT 'a'::pg_catalog.text = 'a'::pg_catalog.text$$), 'hijacked', 'the traps work');
SELECT is(pg_temp.among_traps(format('SELECT pg_catalog.count(v.*) FROM gpucredit_views.%I v', c.relname)), NULL,
	format('%s does without a search path', c.relname))
FROM pg_class c WHERE c.relnamespace = 'gpucredit_views'::regnamespace
ORDER BY c.relname;
RESET ROLE;

-- A driver's double may be a utilization, and never an amount.
SELECT throws_ok($$SELECT * FROM gpucredit.meter('tap', 0, 1, '0', utilization => 0.5::double precision)$$, 'UC301', NULL, 'a double is a utilization');
SELECT throws_ok($$SELECT * FROM gpucredit.meter('tap', 0, 1, '0', utilization => 0.5::real)$$, 'UC301', NULL, 'so is a real');
SELECT lives_ok($$SELECT * FROM gpucredit.meter_batch('{tap}', '{0}', '{1}', '{0}', utilization => ARRAY[0.5::double precision])$$, 'and many');
SELECT lives_ok($$SELECT * FROM gpucredit.meter_batch('{tap}', '{0}', '{1}', '{0}', utilization => ARRAY[0.5::real])$$, 'of either');
SELECT throws_ok($$SELECT * FROM gpucredit.meter('tap', 0, 1, '0', utilization => 1.0000000000000002::double precision)$$, '22023', NULL, 'more than all is refused before it is rounded');
SELECT throws_ok($$SELECT * FROM gpucredit.hold('tap', '', 'k', 0.5::double precision, '1 h')$$, '42883', NULL, 'no amount is a double');

-- PUBLIC may do nothing at all.
CREATE ROLE gpucredit_test_nobody;
SELECT ok(NOT has_schema_privilege('gpucredit_test_nobody', s, 'USAGE, CREATE'),
	format('schema %s is closed to PUBLIC', s))
FROM unnest(ARRAY['gpucredit', 'gpucredit_internal', 'gpucredit_report', 'gpucredit_views']) s;
SELECT is(string_agg(p.oid::regprocedure::text, ' '), NULL, 'PUBLIC may execute nothing')
FROM pg_proc p WHERE p.pronamespace = ANY ('{gpucredit,gpucredit_internal,gpucredit_report}'::regnamespace[])
	AND has_function_privilege('gpucredit_test_nobody', p.oid, 'EXECUTE');
SELECT is(string_agg(c.relname, ' '), NULL, 'PUBLIC may read and write nothing')
FROM pg_class c WHERE c.relnamespace IN ('gpucredit'::regnamespace, 'gpucredit_views'::regnamespace)
	AND CASE WHEN c.relkind = 'S' THEN has_sequence_privilege('gpucredit_test_nobody', c.oid, 'USAGE, SELECT, UPDATE')
		WHEN c.relkind IN ('r', 'p', 'v', 'm') THEN has_table_privilege('gpucredit_test_nobody', c.oid,
			'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER') END;
SELECT is(string_agg(t.oid::regtype::text, ' '), NULL, 'PUBLIC may use no type')
FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
WHERE t.typnamespace = 'gpucredit'::regnamespace
	AND t.typelem = 0 AND coalesce(c.relkind = 'c', true)
	AND has_type_privilege('gpucredit_test_nobody', t.oid, 'USAGE');

-- The same, as a caller meets it.
SELECT gpucredit.create_account('tap');
GRANT SELECT ON interface TO PUBLIC;
CREATE ROLE gpucredit_test_app IN ROLE gpucredit_app;
SET LOCAL ROLE gpucredit_test_app;
SELECT lives_ok($$SELECT * FROM gpucredit.balance('tap')$$, 'an application reads balances');
SELECT throws_ok($$SELECT gpucredit.issue('tap', '', 'k', 1)$$, '42501', NULL, 'an application issues nothing');
SELECT throws_ok($$SELECT * FROM gpucredit.bucket$$, '42501', NULL, 'an application reads no table of money');
SELECT throws_ok($$INSERT INTO gpucredit.entry DEFAULT VALUES$$, '42501', NULL, 'an application writes no entry');
RESET ROLE;
SET LOCAL ROLE gpucredit_auditor;
SELECT lives_ok($$SELECT * FROM gpucredit.audit$$, 'an auditor reads the audit');
SELECT throws_ok($$DELETE FROM gpucredit.audit$$, '42501', NULL, 'an auditor deletes nothing');
SELECT throws_ok($$SELECT gpucredit.create_account('tap-2')$$, '42501', NULL, 'an auditor changes nothing');
RESET ROLE;
SET LOCAL ROLE gpucredit_agent;
SELECT throws_ok($$SELECT * FROM gpucredit.meter('tap', 0, 1, '0')$$, 'UC301', NULL, 'an agent meters');
SELECT throws_ok($$SELECT * FROM gpucredit.balance('tap')$$, '42501', NULL, 'an agent reads no balance');
SELECT throws_ok($$SELECT * FROM gpucredit.reserve('tap', '', 'k', '1x*')$$, '42501', NULL, 'an agent submits nothing');
RESET ROLE;
SET LOCAL ROLE gpucredit_test_nobody;
SELECT throws_ok($$SELECT gpucredit.now()$$, '42501', NULL, 'nobody reads not even the clock');
RESET ROLE;

-- Every table, view, type and operator has a comment.
SELECT ok(obj_description(c.oid, 'pg_class') <> '', format('%s says what it is', c.oid::regclass))
FROM pg_class c
WHERE c.relnamespace IN ('gpucredit'::regnamespace, 'gpucredit_views'::regnamespace) AND c.relkind IN ('r', 'p', 'v')
ORDER BY c.oid::regclass::text;
SELECT is(string_agg(format('%s.%s', c.oid::regclass, a.attname), ' '), NULL, 'every column that somebody may read says what it is')
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.relnamespace IN ('gpucredit'::regnamespace, 'gpucredit_views'::regnamespace) AND c.relkind IN ('r', 'p', 'v')
	AND coalesce(col_description(c.oid, a.attnum), '') = ''
	AND EXISTS (SELECT FROM pg_roles r WHERE r.rolname ~ '^(gpucredit_|pg_monitor$)'
		AND has_column_privilege(r.oid, c.oid, a.attnum, 'SELECT'));
SELECT ok(obj_description(t.oid, 'pg_type') <> '', format('%s says what it is', t.oid::regtype))
FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
WHERE t.typnamespace = 'gpucredit'::regnamespace
	AND (t.typcategory <> 'A' AND c.oid IS NULL OR c.relkind = 'c')
ORDER BY t.typname;
SELECT ok(obj_description(oid, 'pg_operator') <> '', format('%s says what it does', oid::regoperator))
FROM pg_operator WHERE oprnamespace = 'gpucredit'::regnamespace
ORDER BY oprname, oprleft, oprright;
SELECT ok(obj_description(s, 'pg_namespace') <> '', format('schema %s says what it is', s))
FROM unnest(ARRAY['gpucredit', 'gpucredit_internal', 'gpucredit_report', 'gpucredit_views']::regnamespace[]) s;
SELECT ok(obj_description(p.oid, 'pg_proc') <> '', format('%s says what it does', p.oid::regprocedure))
FROM pg_proc p
WHERE p.pronamespace = ANY ('{gpucredit,gpucredit_internal,gpucredit_report}'::regnamespace[])
	AND p.oid <> ALL (SELECT oid FROM public_function)
	AND NOT p.proargtypes::oid[] || p.prorettype && ARRAY[
		'gpucredit.credits', 'gpucredit.gpureq', 'gpucredit.gpuset',
		'internal']::regtype[]::oid[]
ORDER BY p.proname;

SELECT * FROM finish();
ROLLBACK;
