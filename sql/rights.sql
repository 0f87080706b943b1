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

-- Urgency is a right. An account without it cannot submit to a closed tier,
-- whatever it holds; a grant is inherited downwards, and only by those below.
SELECT create_pool('rt'), register_node('rt', 'rt-1', 'RiA', 8, 80000, 64000, 64000),
	create_account('rt'), create_account('rt', 'a'), create_account('rt', 'a/b'),
	create_account('rt', 'ab'), create_account('ru') \g /dev/null
SELECT count(issue('rt', '', 'paid', 10000)), count(issue('ru', '', 'paid', 1000)) \g /dev/null
SELECT bind_tenant('ri_tenant', 'rt', 'a');
SELECT tier, rank, open, allowed, granted_to FROM tiers_for('rt', 'a')
WHERE tier IN ('production_inference', 'premium_training', 'standard_training');
SELECT status, reason FROM reserve('rt', 'a', 'no grant', '1xRiA', '1 h', 'production_inference', 'rt');
SELECT status, reason FROM reserve('rt', '', 'no grant either', '1xRiA', '1 h', 'premium_training', 'rt');
SELECT status, reason FROM reserve('rt', 'a', 'free', '0', '1 h', 'production_inference', 'rt', cpu_milli => 64000);
SELECT grant_tier('rt', 'a', 'production_inference'), grant_tier('rt', 'a', 'production_inference');
SELECT account, status, reason FROM unnest(ARRAY['', 'a', 'a/b', 'ab']) account,
	reserve('rt', account, 'granted ' || account, '1xRiA', '1 h', 'production_inference', 'rt');
SELECT tier, allowed, granted_to FROM tiers_for('rt', 'a/b') WHERE NOT open;
SELECT tier, allowed, granted_to FROM tiers_for('rt', 'ab') WHERE NOT open;
SELECT status, reason FROM reserve('ru', '', 'other', '1xRiA', '1 h', 'production_inference', 'rt');
-- a repeat has the answer of then
SELECT grant_tier('rt', '', 'production_inference');
SELECT status, reason, replayed FROM reserve('rt', 'a', 'no grant', '1xRiA', '1 h', 'production_inference', 'rt');
SELECT revoke_tier('rt', '', 'production_inference'), revoke_tier('rt', '', 'production_inference');
-- only an administrator grants
SET ROLE ri_tenant;
SELECT grant_tier('rt', 'a', 'premium_training');
SELECT revoke_tier('rt', 'a', 'production_inference');
SELECT count(*) FROM tier_grant;
SELECT tier, allowed FROM tiers_for('rt', 'a') WHERE NOT open;
SELECT tier, allowed FROM tiers_for('rt', '') WHERE NOT open;
SELECT tier, allowed FROM tiers_for('ru', '') WHERE NOT open;
SELECT status, reason FROM reserve('rt', 'a', 'tenant', '1xRiA', '1 h', 'premium_training', 'rt');
SET ROLE gpucredit_app;
SELECT grant_tier('rt', 'a', 'premium_training');
SET ROLE gpucredit_operator;
SELECT grant_tier('rt', 'a', 'premium_training');
RESET ROLE;
SELECT grant_tier('rt', 'none', 'premium_training');
SELECT grant_tier('rt', 'a', 'no such');
SELECT grant_tier('rt', 'a', NULL);
SELECT operation, decision, account, detail FROM audit
WHERE org = 'rt' AND operation LIKE '%_tier' ORDER BY audit LIMIT 4;

-- A grant that is withdrawn stops what waits, at once and whatever it holds;
-- what runs goes on to its end, and is not queued again.
SELECT job AS r FROM reserve('rt', 'a/b', 'runs', '8xRiA', '1 h', 'production_inference', 'rt') \gset
SELECT count(*) FROM job, cancel('rt', job, 'make room ' || job)
WHERE org = 'rt' AND state = 'queued' AND job <> :r;
SELECT action, job = :r AS runs FROM place('rt');
SELECT job AS w FROM reserve('rt', 'a', 'waits', '1xRiA', '1 h', 'production_inference', 'rt') \gset
SELECT revoke_tier('rt', 'a', 'production_inference') \g /dev/null
SELECT action FROM meter('rt', :r, 1, '0');
SELECT outcome, job_state FROM settle('rt', :r, 1, 'node_lost', '0');
SELECT count(*) FROM place('rt');
SELECT check_name, passes, detail FROM explain('rt', :w) WHERE NOT passes;
SELECT check_name, passes, detail FROM explain('rt', :r) WHERE check_name = 'tier';
SELECT count(*) FROM reap_holds() \g /dev/null
SELECT state FROM job WHERE org = 'rt' AND job = :r;
SELECT * FROM verify('rt');
SELECT grant_tier('rt', '', 'production_inference') \g /dev/null
SELECT pg_temp.at('2036-01-01 00:03+00') \g /dev/null
SELECT action, job = :w AS waited FROM place('rt') ORDER BY job, action;
SELECT job = :r AS ran, state FROM job WHERE org = 'rt' AND job IN (:r, :w) ORDER BY job;
SELECT * FROM verify('rt');
-- the same of a pool that another scheduler places
SELECT job AS f FROM reserve('rt', '', 'foreign', '1xRiA', '1 h', 'production_inference', 'rf') \gset
SELECT revoke_tier('rt', '', 'production_inference') \g /dev/null
\set VERBOSITY sqlstate
SELECT attempt FROM placed('rt', :f, 'p', '{rf-3}', '{"{7}"}') \g /dev/null
\set VERBOSITY default
SELECT check_name, detail FROM explain('rt', :f) WHERE NOT passes;
SELECT job_state FROM cancel('rt', :f, 'c');

-- Closing a tier works as withdrawing all grants; set_tier keeps what is not
-- given, and a new tier is open. Every tier has a wall limit.
SELECT set_tier('ri own', 0, 'never', true) \g /dev/null
SELECT status FROM reserve('ru', '', 'own', '1xRiA', '1 h', 'ri own', 'rt');
SELECT set_tier('ri own', 0, 'never', true, open => false) \g /dev/null
SELECT set_tier('ri own', 1, 'never', true) \g /dev/null
SELECT status, reason FROM reserve('ru', '', 'own 2', '1xRiA', '1 h', 'ri own', 'rt');
SELECT count(*) FROM place('rt') WHERE org = 'ru';
SELECT set_tier('production_inference', 0, 'never', true) \g /dev/null
SELECT tier, open, max_wall FROM tier
WHERE tier IN ('ri own', 'production_inference', 'premium_training', 'standard_training') ORDER BY rank, tier;
SELECT count(*) AS endless FROM tier WHERE max_wall IS NULL;
SELECT set_tier('production_inference', 0, 'never', true, max_wall => '720 h') \g /dev/null
SELECT set_tier('ri own', 0, 'never', true, max_wall => NULL);
SELECT job_state FROM job, cancel('ru', job, 'c') WHERE org = 'ru';
SELECT unbind_tenant('ri_tenant', 'rt', 'a');
SELECT * FROM verify();
-- found where somebody opens a tier, or grants one, by hand
BEGIN;
UPDATE tier_custom SET open = true WHERE tier = 'ri own';
INSERT INTO tier_grant VALUES ('ru', '', 'premium_training', '2036-01-01');
SELECT invariant, subject, detail FROM verify() ORDER BY subject;
ROLLBACK;

-- A job that holds no credit makes nobody leave and reserves nothing, whatever
-- its tier: it takes what is free, for its wall limit at most.
SELECT create_pool('rz'), register_node('rz', 'rz-1', 'RiA', 8, 80000, 64000, 64000),
	create_account('rz'), create_account('rz', 'a'), create_account('rv'), grant_tier('rz', '', 'production_inference'),
	grant_tier('rv', '', 'production_inference') \g /dev/null
SELECT count(issue('rv', '', 'paid', 1000)) \g /dev/null
SELECT set_price('RiFree', 0), register_node('rz', 'rz-2', 'RiFree', 4, 80000) \g /dev/null
SELECT job AS p FROM reserve('rv', '', 'pays', '8xRiA', '20 h', pool => 'rz', cpu_milli => 64000) \gset
SELECT action, job = :p AS pays FROM place('rz');
SELECT status, held FROM reserve('rz', '', 'zero', '0', '1 h', 'production_inference', 'rz', cpu_milli => 64000);
SELECT status, held FROM reserve('rz', '', 'price 0', '4xRiFree', '1 h', 'production_inference', 'rz');
SELECT status, held FROM reserve('rz', '', 'price 0 too', '4xRiFree', '1 h', 'production_inference', 'rz');
SELECT pg_temp.at('2036-01-01 01:00+00') \g /dev/null
SELECT action, node FROM place('rz');
SELECT count(*) FROM place('rz');
SELECT count(*) FROM reservation WHERE pool = 'rz';
SELECT count(*) FROM directive d WHERE d.org = 'rv' AND d.job = :p;
-- one that pays makes it leave
SELECT status FROM reserve('rv', '', 'pays more', '8xRiA', '1 h', 'production_inference', 'rz', cpu_milli => 64000);
SELECT action, job = :p AS evicted FROM place('rz') ORDER BY action;
SELECT status, reason FROM reserve('rz', '', 'endless', '0', NULL, 'production_inference', 'rz', cpu_milli => 1);
SELECT wall_limit, hold_window FROM job WHERE org = 'rz' ORDER BY job DESC LIMIT 1;
SELECT status FROM reserve('rz', '', 'longer', '0', '721 h', 'production_inference', 'rz', cpu_milli => 1);

-- Of such jobs an organisation has no more waiting than
-- gpucredit.unpaid_queued_max; jobs that pay are not counted.
SET gpucredit.unpaid_queued_max = 5;
SELECT n, account, status, reason FROM generate_series(1, 5) n, LATERAL (SELECT (ARRAY['', 'a'])[1 + n % 2] AS account) a,
	reserve('rz', account, 'flood ' || n, '0', '1 h', pool => 'rz', cpu_milli => n) ORDER BY n;
SELECT status FROM reserve('rv', '', 'own', '0', '1 h', pool => 'rz', cpu_milli => 1);
SELECT count(*) FROM generate_series(1, 10) n, reserve('rv', '', 'paid ' || n, '1xRiA', '1 h', pool => 'rz')
WHERE status = 'granted';
RESET gpucredit.unpaid_queued_max;
SELECT * FROM verify();

-- What was not collected counts: an organisation that owes holds nothing more,
-- under any of its accounts, until its credit covers the debt as well.
SELECT create_account('rd'), create_account('rd', 'a'), create_account('rd', 'b'), issue('rd', '', 'paid', 10) \g /dev/null
SELECT bind_tenant('ri_tenant', 'rd');
SELECT hold AS h FROM hold('rd', 'a', 'overrun', 10, '1 h') \gset
SELECT captured, uncollected FROM capture('rd', :h, 'c', 14, overrun => true);
SELECT account, owed FROM uncollected WHERE org = 'rd';
SELECT count(issue('rd', '', 'more', 5)) \g /dev/null
SELECT status, reason FROM hold('rd', 'a', 'again', 1.000001, '1 h');
SELECT status, reason FROM hold('rd', 'b', 'sibling', 1.000001, '1 h');
SELECT status, reason FROM reserve('rd', 'b', 'job', '2xRiA', '1 h', pool => 'ri');
SELECT status, reason FROM reserve('rd', 'b', 'free job', '0', '1 h', pool => 'ri');
SELECT hold AS h2, status FROM hold('rd', 'b', 'covered', 1, '1 h') \gset
\echo :status
SELECT status, reason FROM extend_hold('rd', :h2, 'x', 0.5);
SELECT status, reason FROM reserve('rd', 'b', 'free job 2', '0', '1 h', pool => 'ri');
-- a repeat has the answer of then
SELECT count(issue('rd', '', 'more still', 2)) \g /dev/null
SELECT status, reason, replayed FROM hold('rd', 'a', 'again', 1.000001, '1 h');
SELECT status, reason FROM extend_hold('rd', :h2, 'x 2', 0.5);
-- a debt up to the setting is tolerated
SET gpucredit.uncollected_max = 4;
SELECT status, reason FROM hold('rd', 'a', 'tolerated', 1.5, '1 h');
SET gpucredit.uncollected_max = 3;
SELECT status, reason FROM hold('rd', 'a', 'not tolerated', 1, '1 h');
SET gpucredit.uncollected_max = -1;
SELECT status, reason FROM hold('rd', 'a', 'switched off', 1, '1 h');
RESET gpucredit.uncollected_max;
-- only an administrator writes it off, once under a key
SET ROLE ri_tenant;
SELECT write_off('rd', 'a', 'mine', 'please');
SELECT set_config('gpucredit.uncollected_max', '-1', false);
SET ROLE gpucredit_app;
SELECT write_off('rd', 'a', 'mine', 'please');
RESET ROLE;
SELECT * FROM write_off('rd', 'a', 'w1', 'goodwill', 4.000001);
SELECT * FROM write_off('rd', 'a', 'w1', 'goodwill', 1);
SELECT * FROM write_off('rd', 'a', 'w1', 'goodwill', 1);
SELECT * FROM write_off('rd', 'a', 'w1', 'goodwill', 2);
SELECT * FROM write_off('rd', '', 'w2', 'not below');
SELECT * FROM write_off('rd', 'a', 'w3', 'the rest');
SELECT account, owed, written_off FROM uncollected WHERE org = 'rd';
SELECT status, reason FROM hold('rd', 'a', 'forgiven', 1, '1 h');
SELECT decision, reason, account, detail FROM audit WHERE org = 'rd' AND operation = 'write_off' ORDER BY audit;
SELECT uncollected FROM hold WHERE org = 'rd' AND hold = :h;
SELECT * FROM verify('rd');

-- A run that its credit does not cover counts, and its job waits; what an agent
-- reports late is collected after all, and owed no more.
SELECT create_account('re'), issue('re', '', 'paid', 1) \g /dev/null
SELECT job AS j FROM reserve('re', '', 'runs on', '1xRiA', '10 h', pool => 'ri', hold_window => '1 h') \gset
SELECT count(*) FROM place('ri') WHERE org = 're';
SELECT action FROM meter('re', :j, 1, '0');
SELECT pg_temp.at('2036-01-01 03:00+00') \g /dev/null
SELECT outcome, billed, uncollected, job_state FROM settle('re', :j, 1, 'node_lost', '2 h');
SELECT account, owed FROM uncollected WHERE org = 're';
SELECT count(issue('re', '', 'more', 1.5)) \g /dev/null
SELECT count(*) FROM place('ri') \g /dev/null
SELECT state FROM job WHERE org = 're' AND job = :j;
SELECT check_name, detail FROM explain('re', :j) WHERE NOT passes;
SELECT count(issue('re', '', 'enough', 0.5)) \g /dev/null
SELECT count(*) FROM place('ri') \g /dev/null
SELECT state FROM job WHERE org = 're' AND job = :j;
SELECT * FROM verify('re');
-- what a dead hold holds covers a debt, too, though no sweep has returned it
SELECT create_account('rg'), issue('rg', '', 'paid', 10) \g /dev/null
SELECT hold AS h FROM hold('rg', '', 'overrun', 10, '1 h') \gset
SELECT captured, uncollected FROM capture('rg', :h, 'c', 14, overrun => true);
SELECT count(issue('rg', '', 'more', 20)) \g /dev/null
SELECT status, reason FROM hold('rg', '', 'dead', 16, '1 min');
SELECT status, reason FROM hold('rg', '', 'not covered', 1, '1 h');
SELECT pg_temp.at('2036-01-01 03:02+00') \g /dev/null
SELECT status, reason FROM hold('rg', '', 'more than all', 16.000001, '1 h');
SELECT status, reason FROM hold('rg', '', 'covered', 16, '1 h');
SELECT * FROM verify('rg');
-- found by verify() where somebody changes it by hand
BEGIN;
UPDATE uncollected SET owed = 7 WHERE org = 're';
SELECT invariant, detail FROM verify('re');
UPDATE uncollected SET owed = 0, written_off = 1 WHERE org = 're';
SELECT invariant, detail FROM verify('re');
DELETE FROM uncollected WHERE org = 're';
SELECT invariant, detail FROM verify('re');
ROLLBACK;
SELECT unbind_tenant('ri_tenant', 'rd');
SELECT * FROM verify();

-- A share whose memory floor keeps a whole device counts as a device, so that
-- its account leaves others what they are entitled to.
SELECT create_pool('rw', '{"reclaim": true}'), register_node('rw', 'rw-1', 'RiA', 8, 80000),
	create_account('rw'), create_account('rx') \g /dev/null
SELECT count(issue(org, '', 'paid', 1000)) FROM unnest('{rw,rx}'::text[]) org \g /dev/null
SELECT count(*) FROM generate_series(1, 8) n, reserve('rw', '', 'whole ' || n, '0.1xRiA@80000MiB', '2 h', pool => 'rw')
WHERE status = 'granted';
SELECT count(*) FROM place('rw') WHERE action = 'start';
SELECT pg_temp.at('2036-01-01 03:20+00') \g /dev/null
SELECT status FROM reserve('rx', '', 'entitled', '4xRiA', '1 h', pool => 'rw');
-- evictions cost nothing, so that nobody waits for them
SET gpucredit.restart_cost = 0;
SELECT action, count(*) FROM place('rw') GROUP BY action ORDER BY action;
RESET gpucredit.restart_cost;
SELECT * FROM verify();

-- (end)
SELECT unbind_tenant('ri_tenant', 'ri');
DROP ROLE ri_tenant;
