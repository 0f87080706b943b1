--
-- What a tenant may not do to others: hinder who measures it, use another's
-- node, pass a promotion's cap, and more.
--
SET search_path = gpucredit, public;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET client_min_messages = warning;
SET gpucredit.node_suspect = 0;
SET gpucredit.clock = '2036-01-01 00:00+00';
\pset null '-'
CREATE FUNCTION pg_temp.at(text) RETURNS void LANGUAGE sql AS
$$ SELECT set_config('gpucredit.clock', $1, false) $$;
SELECT create_pool('ri'), set_price('RiA', 1),
	register_node('ri', 'ri-1', 'RiA', 8, 80000),
	create_account('ri'), create_account('ri', 'a'), create_account('rj') \g /dev/null
SELECT count(issue('ri', '', 'paid', 1000)), count(issue('rj', '', 'paid', 1000)) \g /dev/null
CREATE ROLE ri_tenant IN ROLE gpucredit_tenant;
SELECT bind_tenant('ri_tenant', 'ri');

-- A tenant that uses up its limit by calling cancel does not keep its agent
-- from metering and settling, nor an administrator from suspending it.
SELECT set_rate_limit('ri', '', '*', 0.001, 3) \g /dev/null
SET ROLE ri_tenant;
SELECT job AS j FROM reserve('ri', 'a', 'flood', '4xRiA', '1 h', pool => 'ri') \gset
RESET ROLE;
SELECT action, gpus FROM place('ri');
SET ROLE ri_tenant;
SELECT job_state FROM cancel('ri', 0, 'flood 1');
SELECT job_state FROM cancel('ri', 0, 'flood 2');
SELECT job_state FROM cancel('ri', 0, 'flood 3');
SET ROLE gpucredit_agent;
SELECT action FROM meter('ri', :j, 1, '0');
RESET ROLE;
SELECT pg_temp.at('2036-01-01 00:01+00') \g /dev/null
SET ROLE gpucredit_agent;
SELECT action, billed FROM meter('ri', :j, 1, '55 s');
SELECT action, reason, billed FROM meter_batch(ARRAY['ri'], ARRAY[:j], ARRAY[1],
	ARRAY[interval '56 s']);
SELECT checkpoint('ri', :j, 1, 1, 'file:///save', '\x'::bytea || decode(repeat('00', 32), 'hex'), 1);
SELECT over, outcome, billed FROM part_ended('ri', :j, 1, 'ri-1', 'completed',
	elapsed => '57 s');
SET ROLE gpucredit_admin;
SELECT suspend_account('ri', 'a', true), suspend_account('ri', 'a', false);
RESET ROLE;
SELECT set_rate_limit('ri', '', '*', NULL, NULL) \g /dev/null
SELECT * FROM verify('ri');

-- A node with a key takes a placement only from who knows the key: of several
-- nodes, the key of each.
SELECT create_pool('rf', '{"placed_by": "foreign"}'),
	register_node('rf', 'rf-' || n, 'RiA', 8, 80000) FROM generate_series(1, 3) n \g /dev/null
SELECT set_node_key('rf-1', sha256('one')), set_node_key('rf-2', sha256('two')) \g /dev/null
SELECT job AS k FROM reserve('rj', '', 'victim', '8xRiA', '1 h', pool => 'rf') \gset
SET ROLE gpucredit_agent;
SELECT attempt FROM placed('rj', :k, 'steal 1', '{rf-1}', '{"{0-7}"}');
SELECT set_config('gpucredit.node_key', 'two', false) IS NULL AS set;
SELECT attempt FROM placed('rj', :k, 'steal 2', '{rf-1}', '{"{0-7}"}');
SELECT attempt FROM placed('rj', :k, 'steal 3', '{rf-2,rf-1}', '{"{0-3}","{0-3}"}');
SELECT attempt FROM placed('rj', :k, 'steal 4', '{rf-3,rf-1}', '{"{0-3}","{0-3}"}');
SELECT attempt, held FROM placed('rj', :k, 'own', '{rf-2,rf-3}', '{"{0-3}","{0-3}"}');
-- nor does it take anything else
SELECT set_config('gpucredit.node_key', 'one', false) IS NULL AS set;
SELECT action FROM meter('rj', :k, 1, '1 s');
SELECT outcome FROM settle('rj', :k, 1, 'failed');
SELECT replayed FROM placed('rj', :k, 'own', '{rf-2,rf-3}', '{"{0-3}","{0-3}"}');
SELECT set_config('gpucredit.node_key', 'two', false) IS NULL AS set;
SELECT outcome FROM settle('rj', :k, 1, 'completed', '0');
RESET ROLE;
RESET gpucredit.node_key;
SELECT set_node_key('rf-1', NULL), set_node_key('rf-2', NULL) \g /dev/null
SELECT * FROM verify('rj');

-- A promotion's max_per_job binds a caller's own hold as it binds a job:
-- when it is taken, extended, and captured beyond what it holds.
SELECT create_account('ry'), issue('ry', '', 'promo', 100, 'promo', policy => '{"max_per_job": 4}') \g /dev/null
SELECT most FROM buckets_for('ry', '');
SELECT status, reason, held FROM hold('ry', '', 'h50', 50, '1 h');
SELECT status, reason, held FROM hold('ry', '', 'h4.000001', 4.000001, '1 h');
SELECT hold AS h, status FROM hold('ry', '', 'h4', 4, '1 h') \gset
\echo :status
SELECT status, reason, held FROM extend_hold('ry', :h, 'x1', 0.000001);
SELECT captured, released FROM capture('ry', :h, 'c1', 3, final => false);
SELECT status, reason, held FROM extend_hold('ry', :h, 'x2', 1);
SELECT captured, uncollected FROM capture('ry', :h, 'c2', 40, overrun => true);
-- a part given back may be drawn again
SELECT hold AS h FROM hold('ry', '', 'h4 again', 4, '1 h') \gset
SELECT released FROM release('ry', :h, 'r1', 3);
SELECT status, held FROM extend_hold('ry', :h, 'x3', 3);
SELECT released FROM release('ry', :h, 'r2');
-- other credit pays for the rest
SELECT count(issue('ry', '', 'paid', 100)) \g /dev/null
SELECT hold AS h FROM hold('ry', '', 'h50 again', 50, '1 h') \gset
SELECT b.kind, sum(p.held) FROM hold_part p JOIN bucket b USING (org, bucket)
WHERE p.org = 'ry' AND p.hold = :h GROUP BY 1 ORDER BY 1;
SELECT * FROM verify('ry');

-- max_share binds it likewise
SELECT create_account('rs'), issue('rs', '', 'promo', 100, 'promo', policy => '{"max_share": 0.25}'),
	issue('rs', '', 'paid', 3) \g /dev/null
SELECT status, reason FROM hold('rs', '', 'h4.000001', 4.000001, '1 h');
SELECT hold AS h, status FROM hold('rs', '', 'h4', 4, '1 h') \gset
\echo :status
SELECT status, reason FROM extend_hold('rs', :h, 'x', 1);
SELECT captured, uncollected FROM capture('rs', :h, 'c', 8, overrun => true);
SELECT * FROM verify('rs');

-- (end)
SELECT unbind_tenant('ri_tenant', 'ri');
DROP ROLE ri_tenant;
