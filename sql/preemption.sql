-- Claims: running jobs make room for others; elastic jobs; consolidation. Who
-- may evict whom has scenarios of its own (test/scenarios); here the database
-- carries it out.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
SET gpucredit.clock = '2027-01-01 00:00+00';
-- evictions cost nothing here, so that nobody waits for them
SET gpucredit.restart_cost = 0;
\set VERBOSITY sqlstate
\pset null '-'

DO $$
BEGIN
	PERFORM gpucredit.create_account('pre');
	PERFORM gpucredit.create_account('pre-2');
	PERFORM gpucredit.create_account('pre-3');
	PERFORM gpucredit.grant_tier('pre', '', 'production_inference');
	PERFORM gpucredit.grant_tier('pre', '', 'premium_training');
	PERFORM gpucredit.grant_tier('pre-2', '', 'production_inference');
	PERFORM gpucredit.grant_tier('pre-2', '', 'premium_training');
	PERFORM gpucredit.grant_tier('pre-3', '', 'production_inference');
	PERFORM gpucredit.grant_tier('pre-3', '', 'premium_training');
	PERFORM gpucredit.issue('pre', '', 'i', 1000000);
	PERFORM gpucredit.issue('pre-2', '', 'i', 1000000);
	PERFORM gpucredit.issue('pre-3', '', 'i', 1000000);
	PERFORM gpucredit.set_price('PRE', 1);
END $$;

-- A pool with nodes 'name gpus'.
CREATE FUNCTION pg_temp.scene(pool text, policy jsonb, VARIADIC nodes text[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	node text;
BEGIN
	PERFORM gpucredit.create_pool(pool, policy);
	FOREACH node IN ARRAY nodes LOOP
		PERFORM gpucredit.register_node(pool, pool || '-' ||
			split_part(node, ' ', 1), 'PRE', split_part(node, ' ', 2)::int,
			40960);
	END LOOP;
END $$;
CREATE FUNCTION pg_temp.ask(pool text, key text, request text,
	tier text DEFAULT 'standard_training', tenant text DEFAULT 'pre')
RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(r.reason, r.status) FROM gpucredit.reserve(tenant, '',
		pool || ' ' || key, request, '1 h', tier, pool) r
$$;
CREATE FUNCTION pg_temp.key(tenant text, id bigint) RETURNS text
LANGUAGE sql AS $$
	SELECT substring(r.key, ' (.*)') FROM gpucredit.request r
	WHERE r.org = tenant AND r.result[1] = id::text
		AND r.operation = 'reserve'
$$;
CREATE FUNCTION pg_temp.id(pool text, key text, OUT org text, OUT job bigint,
	OUT attempt int)
LANGUAGE sql AS $$
	SELECT r.org, j.job, j.attempt FROM gpucredit.request r
		JOIN gpucredit.job j ON j.org = r.org AND j.job = r.result[1]::bigint
	WHERE r.key = id.pool || ' ' || id.key AND r.operation = 'reserve'
$$;
CREATE FUNCTION pg_temp.beat(pool text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM gpucredit.heartbeat(n.node, n.healthy)
	FROM gpucredit.node n WHERE n.pool = beat.pool ORDER BY n.node;
END $$;
-- A node is alive, and its agent is told nothing.
CREATE FUNCTION pg_temp.alive(pool text) RETURNS void LANGUAGE sql AS $$
	UPDATE gpucredit.node SET heard_at = gpucredit.now()
	WHERE node.pool = alive.pool
$$;
CREATE FUNCTION pg_temp.place(pool text)
RETURNS TABLE (action text, job text, attempt int, node text,
	gpus gpucredit.gpuset, reason text)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_temp.alive(pool);
	RETURN QUERY SELECT p.action, pg_temp.key(p.org, p.job), p.attempt,
		substring(p.node, '-([^-]*)$'), p.gpus, p.reason
	FROM gpucredit.place(place.pool) p;
END $$;
CREATE FUNCTION pg_temp.meter(pool text, key text)
RETURNS TABLE (action text, reason text, time_left interval)
LANGUAGE sql AS $$
	SELECT m.action, m.reason, m.time_left FROM pg_temp.id(pool, key) i,
		gpucredit.meter(i.org, i.job, i.attempt, '0') m
$$;
CREATE FUNCTION pg_temp.settle(pool text, key text,
	outcome text DEFAULT 'preempted')
RETURNS TABLE (outcome text, job_state text) LANGUAGE sql AS $$
	SELECT s.outcome, s.job_state FROM pg_temp.id(pool, key) i,
		gpucredit.settle(i.org, i.job, i.attempt, settle.outcome) s
$$;
CREATE FUNCTION pg_temp.told(pool text, key text)
RETURNS TABLE (cause text, action text, reason text, told boolean)
LANGUAGE sql AS $$
	SELECT d.cause, d.action, d.reason, d.told_at IS NOT NULL
	FROM pg_temp.id(pool, key) i JOIN gpucredit.directive d
		ON d.org = i.org AND d.job = i.job AND d.attempt = i.attempt
$$;
-- What explain says of leaving.
CREATE FUNCTION pg_temp.why(pool text, key text)
RETURNS TABLE (check_name text, passes boolean, detail text)
LANGUAGE sql AS $$
	SELECT e.check_name, e.passes, e.detail FROM pg_temp.id(pool, key) i,
		gpucredit.explain(i.org, i.job) e
	WHERE e.check_name IN ('leaving', 'claim', 'preemption')
$$;
SET gpucredit.node_lost = 0;

-- A more important tier: devices are promised, and their holders told to save.
SELECT pg_temp.scene('tier', '{}', 'n 4');
SELECT pg_temp.ask('tier', 'small', '1xPRE');
SELECT pg_temp.ask('tier', 'large', '3xPRE', 'batch_inference', 'pre-2');
SELECT * FROM pg_temp.place('tier');
SELECT pg_temp.ask('tier', 'urgent', '2xPRE', 'premium_training');
-- not before the tier's min_run
SELECT * FROM pg_temp.place('tier');
SELECT * FROM pg_temp.why('tier', 'urgent');
SET gpucredit.clock = '2027-01-01 00:10+00';
SELECT pg_temp.alive('tier');
SELECT * FROM pg_temp.why('tier', 'urgent');
SELECT p.action, p.node, p.gpus, p.reason FROM gpucredit.plan('tier') p;
SELECT * FROM pg_temp.place('tier');
-- a second cycle at the same instant decides nothing
SELECT * FROM pg_temp.place('tier');
SELECT * FROM pg_temp.told('tier', 'large');
SELECT * FROM pg_temp.why('tier', 'large');
SELECT * FROM pg_temp.why('tier', 'small');
SELECT * FROM pg_temp.why('tier', 'urgent');
SELECT * FROM pg_temp.meter('tier', 'large');
SELECT * FROM pg_temp.why('tier', 'large');
SELECT * FROM pg_temp.meter('tier', 'small');
SELECT * FROM pg_temp.told('tier', 'large');
SET gpucredit.clock = '2027-01-01 00:11:30+00';
SELECT * FROM pg_temp.meter('tier', 'large');
SET gpucredit.clock = '2027-01-01 00:12+00';
SELECT * FROM pg_temp.meter('tier', 'large');
-- neither a job behind nor the victim gets the devices
SELECT pg_temp.ask('tier', 'behind', '1xPRE');
SELECT * FROM pg_temp.settle('tier', 'large');
SELECT j.state, h.held > '0' AS held FROM pg_temp.id('tier', 'large') i
	JOIN gpucredit.job j ON j.org = i.org AND j.job = i.job
	JOIN gpucredit.hold h ON h.org = j.org AND h.hold = j.hold;
SELECT * FROM pg_temp.place('tier');
SELECT count(*) FROM gpucredit.claim WHERE pool = 'tier';
SELECT count(*) FROM gpucredit.eviction WHERE pool = 'tier';
SELECT * FROM gpucredit.verify();
-- the audit log: no row names another tenant
SELECT a.org, a.decision, a.reason, a.detail - 'unsaved_us' AS detail
FROM gpucredit.audit a WHERE a.operation = 'place' AND a.org LIKE 'pre%'
	AND a.decision IN ('claim', 'preempt') ORDER BY a.audit;

-- A job that may only be preempted for its spot node is nobody's victim.
SELECT pg_temp.scene('spot', '{}', 'n 1');
SELECT pg_temp.ask('spot', 'first', '1xPRE', 'premium_training');
SELECT count(*) FROM pg_temp.place('spot');
SET gpucredit.clock = '2027-01-01 00:30+00';
SELECT pg_temp.ask('spot', 'urgent', '1xPRE', 'production_inference');
SELECT * FROM pg_temp.place('spot');
SELECT * FROM pg_temp.why('spot', 'urgent');

-- A device is lost: a victim that was not told yet is spared, one that was
-- told leaves.
SELECT pg_temp.scene('lost', '{}', 'm 1', 'n 1');
SELECT pg_temp.ask('lost', 'a', '1xPRE'), pg_temp.ask('lost', 'b', '1xPRE');
SELECT count(*) FROM pg_temp.place('lost');
SET gpucredit.clock = '2027-01-01 01:00+00';
SELECT pg_temp.ask('lost', 'pair', '2xPRE', 'premium_training');
SELECT * FROM pg_temp.place('lost');
SELECT pg_temp.ask('lost', 'late', '2xPRE', 'premium_training');
SELECT * FROM pg_temp.why('lost', 'late');
SELECT c.job_state FROM pg_temp.id('lost', 'late') i,
	gpucredit.cancel(i.org, i.job, 'lost late cancel') c;
SELECT action, reason FROM pg_temp.meter('lost', 'a');
SELECT gpucredit.drain('lost-m', 'fan');
SELECT * FROM pg_temp.place('lost');
SELECT * FROM pg_temp.told('lost', 'a');
SELECT * FROM pg_temp.told('lost', 'b');
SELECT action FROM pg_temp.meter('lost', 'b');
SELECT gpucredit.drain('lost-m', 'fan', gpucredit.now() + '10 min');
SELECT * FROM pg_temp.why('lost', 'a');
SELECT c.job_state FROM pg_temp.id('lost', 'b') i,
	gpucredit.cancel(i.org, i.job, 'lost b cancel') c;
SELECT * FROM pg_temp.why('lost', 'b');
SELECT count(*) FROM gpucredit.claim WHERE pool = 'lost';
SELECT a.decision, a.reason, pg_temp.key(a.org, a.job) AS job
FROM gpucredit.audit a WHERE a.decision IN ('claim_ended', 'spared')
	AND a.org LIKE 'pre%'
ORDER BY a.audit;
SELECT * FROM gpucredit.verify();
-- the same with a node that its provider takes back
SELECT pg_temp.scene('taken', '{}', 'm 1', 'n 1');
SELECT pg_temp.ask('taken', 'a', '1xPRE'), pg_temp.ask('taken', 'b', '1xPRE');
SELECT count(*) FROM pg_temp.place('taken');
SET gpucredit.clock = '2027-01-01 01:30+00';
SELECT pg_temp.ask('taken', 'pair', '2xPRE', 'premium_training');
SELECT action, job FROM pg_temp.place('taken') ORDER BY 1, 2;
SELECT gpucredit.reclaim('taken-m', '5 min');
SELECT action, job FROM pg_temp.place('taken');
SELECT * FROM pg_temp.why('taken', 'a');
SELECT count(*) FROM gpucredit.claim WHERE pool = 'taken';
SELECT * FROM pg_temp.told('taken', 'b');
SELECT * FROM gpucredit.verify();
-- and with a silent node: from the instant at which it is lost
SET gpucredit.node_lost = '1min';
SELECT pg_temp.scene('silent', '{}', 'm 1', 'n 1');
SELECT pg_temp.ask('silent', 'a', '1xPRE'), pg_temp.ask('silent', 'b', '1xPRE');
SELECT count(*) FROM pg_temp.place('silent');
SET gpucredit.clock = '2027-01-01 01:45+00';
SELECT pg_temp.ask('silent', 'pair', '2xPRE', 'premium_training');
SELECT action, job FROM pg_temp.place('silent') ORDER BY 1, 2;
SET gpucredit.clock = '2027-01-01 01:45:59.999999+00';
SELECT state FROM gpucredit.nodes WHERE node = 'silent-m';
SELECT count(*) FROM gpucredit.place('silent');
SELECT count(*) FROM gpucredit.claim WHERE pool = 'silent';
SET gpucredit.clock = '2027-01-01 01:46+00';
SELECT state FROM gpucredit.nodes WHERE node = 'silent-m';
SELECT count(*) FROM gpucredit.place('silent');
SELECT count(*) FROM gpucredit.claim WHERE pool = 'silent';
SET gpucredit.node_lost = 0;
SELECT * FROM gpucredit.verify();

-- A claim ends with its job, and at its time.
SELECT pg_temp.scene('end', '{}', 'n 1');
SELECT pg_temp.ask('end', 'a', '1xPRE');
SELECT count(*) FROM pg_temp.place('end');
SET gpucredit.clock = '2027-01-01 02:00+00';
SELECT pg_temp.ask('end', 'one', '1xPRE', 'premium_training');
SELECT action, job FROM pg_temp.place('end');
SELECT c.job_state FROM pg_temp.id('end', 'one') i,
	gpucredit.cancel(i.org, i.job, 'end cancel') c;
SELECT count(*) FROM gpucredit.claim WHERE pool = 'end';
SELECT * FROM gpucredit.verify();
SELECT * FROM pg_temp.place('end');
SELECT * FROM pg_temp.told('end', 'a');
SELECT pg_temp.ask('end', 'two', '1xPRE', 'premium_training');
SELECT action, job FROM pg_temp.place('end');
SELECT action, reason FROM pg_temp.meter('end', 'a');
SET gpucredit.clock = '2027-01-01 02:14:59+00';
SELECT * FROM pg_temp.place('end');
SELECT count(*) FROM gpucredit.claim WHERE pool = 'end';
SET gpucredit.clock = '2027-01-01 02:15+00';
SELECT * FROM pg_temp.place('end');
SELECT count(*) FROM gpucredit.claim WHERE pool = 'end';
SELECT * FROM gpucredit.verify();

-- Inside a tier: an account below its entitlement takes from one above.
SELECT pg_temp.scene('fair', '{"reclaim": true}', 'n 4');
SELECT pg_temp.ask('fair', k, '1xPRE') FROM unnest('{a,b,c,d}'::text[]) k;
SELECT count(*) FROM pg_temp.place('fair');
SET gpucredit.clock = '2027-01-01 03:00+00';
SELECT pg_temp.ask('fair', k, '1xPRE', tenant => 'pre-2')
FROM unnest('{x,y,z}'::text[]) k;
SELECT action, job, reason FROM pg_temp.place('fair');
SELECT * FROM pg_temp.place('fair');
SELECT pg_temp.settle('fair', pg_temp.key(e.org, e.job))
FROM gpucredit.eviction e WHERE e.pool = 'fair' ORDER BY e.job;
SELECT action, job FROM pg_temp.place('fair');
SET gpucredit.clock = '2027-01-01 03:20+00';
SELECT * FROM pg_temp.place('fair');
-- without the pool's word, the job waits its turn
SELECT pg_temp.scene('unfair', '{}', 'n 1');
SELECT pg_temp.ask('unfair', 'a', '1xPRE');
SELECT count(*) FROM pg_temp.place('unfair');
SET gpucredit.clock = '2027-01-01 04:00+00';
SELECT pg_temp.ask('unfair', 'x', '1xPRE', tenant => 'pre-2');
SELECT * FROM pg_temp.place('unfair');
SELECT * FROM gpucredit.verify();

-- The less important first: an account's batch job before its standard one.
SELECT pg_temp.scene('less', '{"reclaim": true}', 'n 2');
SELECT pg_temp.ask('less', 'batch', '1xPRE', 'batch_inference');
SELECT count(*) FROM pg_temp.place('less');
SET gpucredit.clock = '2027-01-01 04:05+00';
SELECT pg_temp.ask('less', 'standard', '1xPRE');
SELECT count(*) FROM pg_temp.place('less');
SET gpucredit.clock = '2027-01-01 04:20+00';
SELECT pg_temp.ask('less', 'x', '1xPRE', tenant => 'pre-2');
SELECT action, job, reason FROM pg_temp.place('less');
SELECT * FROM pg_temp.place('less');
-- A job of more than its account's entitlement does not protect it, nor do two
-- jobs of less; a job of exactly the entitlement stays.
SELECT pg_temp.scene('whole', '{"reclaim": true}', 'n 8'),
	pg_temp.scene('halves', '{"reclaim": true}', 'n 8'), pg_temp.scene('just', '{"reclaim": true}', 'n 8');
SELECT pg_temp.ask('whole', 'a', '8xPRE');
SELECT pg_temp.ask('halves', k, '3xPRE') FROM unnest('{a,b}'::text[]) k;
SELECT pg_temp.ask('halves', 'x', '2xPRE', tenant => 'pre-2');
SELECT pg_temp.ask('just', 'a', '4xPRE');
SELECT pg_temp.ask('just', 'x', '4xPRE', tenant => 'pre-2');
SELECT pool, count(*) FROM unnest('{whole,halves,just}'::text[]) pool, pg_temp.place(pool) GROUP BY 1 ORDER BY 1;
SET gpucredit.clock = '2027-01-01 04:40+00';
SELECT pg_temp.ask('whole', k, '2xPRE', tenant => 'pre-2') FROM unnest('{y,z}'::text[]) k;
SELECT pg_temp.ask(pool, 'y', '2xPRE', tenant => 'pre-2') FROM unnest('{halves,just}'::text[]) pool;
SELECT pool, action, count(*), min(reason) FROM unnest('{whole,halves,just}'::text[]) pool, pg_temp.place(pool)
GROUP BY 1, 2 ORDER BY 1, 2;
SELECT pg_temp.settle(e.pool, pg_temp.key(e.org, e.job)) FROM gpucredit.eviction e
WHERE e.pool IN ('whole', 'halves') ORDER BY e.pool, e.job;
-- Behind a reservation of the account's own for more than its entitlement.
SELECT pg_temp.scene('own', '{"reclaim": true}', 'n 4');
CREATE FUNCTION pg_temp.long(key text, request text, tenant text) RETURNS void LANGUAGE sql AS $$
	SELECT FROM gpucredit.reserve(tenant, '', 'own ' || key, request, '10 h', 'standard_training', 'own')
$$;
SELECT pg_temp.long('two', '2xPRE', 'pre'), pg_temp.long('one', '1xPRE', 'pre'), pg_temp.long('x', '1xPRE', 'pre-2');
SELECT count(*) FROM pg_temp.place('own');
-- the account does not take that back
SELECT pool, action, p.job FROM unnest('{whole,halves,just}'::text[]) pool, pg_temp.place(pool) p ORDER BY 1, 2, 3;
SET gpucredit.clock = '2027-01-01 04:50+00';
SELECT pool, action, p.job FROM unnest('{whole,halves,just}'::text[]) pool, pg_temp.place(pool) p ORDER BY 1, 2, 3;
SELECT pg_temp.long('large', '3xPRE', 'pre-2');
SELECT * FROM pg_temp.place('own');
SELECT pg_temp.long('due', '1xPRE', 'pre-2');
SELECT action, job, reason FROM pg_temp.place('own');
SELECT DISTINCT pg_temp.key(r.org, r.job) AS reserved FROM gpucredit.reservations('own') r;
SELECT * FROM gpucredit.verify();

-- A job that its own tenant's limits hold back evicts nobody.
SELECT pg_temp.scene('quota', '{}', 'n 1');
SELECT pg_temp.ask('quota', 'a', '1xPRE');
SELECT count(*) FROM pg_temp.place('quota');
SET gpucredit.clock = '2027-01-01 05:00+00';
SELECT gpucredit.set_quota('pre-3', '', max_running => 0);
SELECT pg_temp.ask('quota', 'x', '1xPRE', 'premium_training', 'pre-3');
SELECT * FROM pg_temp.place('quota');
SELECT gpucredit.set_quota('pre-3', '', max_running => 1);
SELECT pg_temp.ask('quota', 'y', '1xPRE', 'premium_training', 'pre-3');
SELECT action, job FROM pg_temp.place('quota');
SELECT gpucredit.set_quota('pre-3', '');
SELECT * FROM gpucredit.verify();

-- Devices promised in one pool count under quotas in all others, so nobody
-- leaves in vain.
CREATE FUNCTION pg_temp.quotas(pool text, key text)
RETURNS TABLE (check_name text, passes boolean, detail text)
LANGUAGE sql AS $$
	SELECT e.check_name, e.passes, e.detail FROM pg_temp.id(pool, key) i,
		gpucredit.explain(i.org, i.job) e
	WHERE e.check_name IN ('quota', 'turn', 'claim')
$$;
SELECT pg_temp.scene('here', '{}', 'n 3'), pg_temp.scene('there', '{}', 'n 4');
SELECT pg_temp.ask('here', 'leaves', '3xPRE');
SELECT count(*) FROM pg_temp.place('here');
SET gpucredit.clock = '2027-01-01 05:20+00';
SELECT gpucredit.set_quota('pre-3', '', 'PRE', max_gpus => 4, max_running => 2);
SELECT pg_temp.ask('here', 'promised', '3xPRE', 'premium_training', 'pre-3');
SELECT action, job FROM pg_temp.place('here');
SELECT pg_temp.ask('there', 'two', '2xPRE', 'premium_training', 'pre-3');
SELECT pg_temp.ask('there', 'half', '0.5xPRE', tenant => 'pre-3');
SELECT pg_temp.ask('there', 'half2', '0.5xPRE', tenant => 'pre-3');
SELECT pg_temp.alive('there');
SELECT p.action, pg_temp.key(p.org, p.job) AS job FROM gpucredit.plan('there') p;
SELECT action, job FROM pg_temp.place('there');
SELECT * FROM pg_temp.quotas('there', 'two');
SELECT * FROM pg_temp.quotas('there', 'half2');
-- a promise past its time counts no more, also where no cycle ends it
BEGIN;
SET LOCAL gpucredit.clock = '2027-01-01 05:35+00';
SELECT action, job FROM pg_temp.place('there');
ROLLBACK;
-- a promise past its time ends, its victim was not told and is spared: what a
-- cycle makes of that is what is planned
BEGIN;
SET LOCAL gpucredit.clock = '2027-01-01 05:50+00';
SELECT pg_temp.alive('here');
SELECT p.action, pg_temp.key(p.org, p.job) AS job FROM gpucredit.plan('here') p;
SELECT action, job FROM pg_temp.place('here');
ROLLBACK;
-- a quota set lower ends the promise: victims that were not told are spared,
-- and nothing is kept for a job that may not start
BEGIN;
SELECT gpucredit.set_quota('pre-3', '', 'PRE', max_gpus => 3);
SELECT action, job FROM pg_temp.place('here');
SELECT decision, reason, pg_temp.key(org, job) AS job FROM gpucredit.audit
WHERE operation = 'place' AND at = gpucredit.now() AND decision IN ('claim_ended', 'spared') ORDER BY 1;
SELECT * FROM pg_temp.quotas('here', 'promised');
ROLLBACK;
SELECT * FROM pg_temp.settle('here', 'leaves', 'completed');
SELECT gpucredit.set_quota('pre-3', '', 'PRE', max_running => 1);
SET gpucredit.clock = '2027-01-01 05:21+00';
SELECT * FROM pg_temp.quotas('here', 'promised');
BEGIN;
SELECT pg_temp.ask('here', 'another', '3xPRE');
SELECT action, job FROM pg_temp.place('here');
SELECT action, job FROM pg_temp.place('here');
ROLLBACK;
SELECT gpucredit.set_quota('pre-3', '', 'PRE', max_gpus => 4, max_running => 2);
SELECT action, job FROM pg_temp.place('here');
SELECT pg_temp.settle(pool, key, 'completed')
FROM (VALUES ('here', 'promised'), ('there', 'half')) v (pool, key);
SELECT action, job FROM pg_temp.place('there');
SELECT pg_temp.settle('there', k, 'completed') FROM unnest('{two,half2}'::text[]) k;
SELECT gpucredit.set_quota('pre-3', '', 'PRE');
SELECT * FROM gpucredit.verify();

-- An elastic job takes what its account is entitled to from an account that
-- has more. Where its own account has that much, nobody leaves for it.
BEGIN;
SELECT pg_temp.scene('widen', '{"reclaim": true}', 'n 4'), pg_temp.scene('narrow', '{"reclaim": true}', 'n 2');
SELECT pg_temp.ask('widen', k, '1xPRE') FROM unnest('{a,b,c}'::text[]) k;
SELECT pg_temp.ask('narrow', 'a', '1xPRE');
SELECT pool, count(*) FROM unnest('{widen,narrow}'::text[]) pool, pg_temp.place(pool) GROUP BY 1 ORDER BY 1;
SELECT pg_temp.ask(pool, 'range', '1-4xPRE', tenant => 'pre-2') FROM unnest('{widen,narrow}'::text[]) pool;
SELECT pool, count(*) FROM unnest('{widen,narrow}'::text[]) pool, pg_temp.place(pool) GROUP BY 1 ORDER BY 1;
SELECT pg_temp.ask(pool, 'd', '1xPRE') FROM unnest('{widen,narrow}'::text[]) pool;
-- not before its tier's min_run and gpucredit.elastic_idle_delay
SET LOCAL gpucredit.clock = '2027-01-01 05:30+00';
SELECT count(*) FROM pg_temp.place('widen');
SET LOCAL gpucredit.clock = '2027-01-01 05:41+00';
SAVEPOINT due;
SET LOCAL gpucredit.elastic_idle_delay = 0;
SELECT count(*) FROM pg_temp.place('widen');
ROLLBACK TO due;
SELECT * FROM pg_temp.place('narrow');
SELECT action, job, attempt, pg_catalog.length(gpus::text) > 2 AS several, reason FROM pg_temp.place('widen');
SELECT count(*) FROM pg_temp.place('widen');
SELECT pg_temp.key(i.org, i.job) AS job, e.check_name, substring(e.detail, ': (.*)') AS leaves_for
FROM gpucredit.eviction v, pg_temp.id('widen', pg_temp.key(v.org, v.job)) i, gpucredit.explain(i.org, i.job) e
WHERE v.pool = 'widen' AND e.check_name = 'leaving' ORDER BY 1;
-- nobody else gets the promised devices; the job goes on with both
SELECT pg_temp.settle('widen', pg_temp.key(v.org, v.job), CASE v.why WHEN 'grow' THEN 'resized' ELSE 'preempted' END)
FROM gpucredit.eviction v WHERE v.pool = 'widen' ORDER BY v.why;
SELECT action, job, attempt FROM pg_temp.place('widen');
SELECT count(*) FROM gpucredit.claim WHERE pool = 'widen';
-- neither account takes them back, then or later
SET LOCAL gpucredit.clock = '2027-01-01 05:56+00';
SELECT count(*) FROM pg_temp.place('widen');
SELECT * FROM gpucredit.verify();
ROLLBACK;

-- Elastic: the hold covers its most, it starts with what fits; it gives up
-- devices down to its least for a job ahead before anybody is evicted.
SELECT pg_temp.scene('elastic', '{}', 'n 4');
SELECT pg_temp.ask('elastic', 'range', '1-8xPRE');
SELECT h.held FROM pg_temp.id('elastic', 'range') i
	JOIN gpucredit.job j ON j.org = i.org AND j.job = i.job
	JOIN gpucredit.hold h ON h.org = j.org AND h.hold = j.hold;
SELECT gpucredit.register_node('elastic', 'elastic-o', 'PRE', 4, 40960);
SELECT gpucredit.drain('elastic-o', 'later');
SELECT * FROM pg_temp.place('elastic');
SET gpucredit.clock = '2027-01-01 06:00+00';
SELECT pg_temp.ask('elastic', 'urgent', '2xPRE', 'premium_training');
SELECT * FROM pg_temp.place('elastic');
SELECT * FROM pg_temp.place('elastic');
SELECT action, reason FROM pg_temp.meter('elastic', 'range');
SELECT * FROM pg_temp.settle('elastic', 'range', 'resized');
SELECT j.failures FROM pg_temp.id('elastic', 'range') i
	JOIN gpucredit.job j ON j.org = i.org AND j.job = i.job;
SELECT * FROM pg_temp.place('elastic');
SELECT * FROM gpucredit.verify();
-- it grows into devices idle for gpucredit.elastic_idle_delay, and not before
SELECT gpucredit.resume('elastic-o');
SELECT pg_temp.settle('elastic', 'urgent', 'completed');
SET gpucredit.clock = '2027-01-01 06:04:59+00';
SELECT * FROM pg_temp.place('elastic');
-- to the instant, of the devices and of its own start
SET gpucredit.elastic_idle_delay = '12min';
SET gpucredit.clock = '2027-01-01 06:11:59.999999+00';
SELECT * FROM pg_temp.place('elastic');
BEGIN;
SET LOCAL gpucredit.clock = '2027-01-01 06:12+00';
SELECT action, job, gpus, reason FROM pg_temp.place('elastic');
ROLLBACK;
-- a new node's devices are idle since it came
BEGIN;
UPDATE gpucredit.node SET registered_at = '2027-01-01 06:00:00.000001+00' WHERE node = 'elastic-o';
SET LOCAL gpucredit.clock = '2027-01-01 06:12+00';
SELECT action, job, gpus, reason FROM pg_temp.place('elastic');
ROLLBACK;
RESET gpucredit.elastic_idle_delay;
SET gpucredit.clock = '2027-01-01 06:20+00';
SELECT * FROM pg_temp.place('elastic');
SELECT * FROM pg_temp.place('elastic');
SELECT * FROM pg_temp.settle('elastic', 'range', 'resized');
SELECT * FROM pg_temp.place('elastic');
SELECT * FROM gpucredit.verify();

-- Devices of an attempt that an application ended are idle since their fence
-- fell: by a heartbeat without the attempt, or in a cycle after it ran out.
BEGIN;
SELECT pg_temp.scene('fenced', '{}', 'n 4');
SELECT pg_temp.ask('fenced', 'fill', '2xPRE', 'premium_training');
SELECT pg_temp.ask('fenced', 'wide', '2-4xPRE');
SELECT action, job, gpus FROM pg_temp.place('fenced');
SET LOCAL gpucredit.clock = '2027-01-01 06:30+00';
SELECT i.job AS fill FROM pg_temp.id('fenced', 'fill') i \gset
SET LOCAL ROLE gpucredit_app;
SELECT outcome FROM gpucredit.settle('pre', :fill, 1, 'cancelled');
RESET ROLE;
SAVEPOINT ended;
SET LOCAL gpucredit.clock = '2027-01-01 06:30:40+00';
SELECT count(*) FROM gpucredit.heartbeat('fenced-n', running => '{}');
SET LOCAL gpucredit.clock = '2027-01-01 06:35:39.999999+00';
SELECT action, job, gpus, reason FROM pg_temp.place('fenced');
SET LOCAL gpucredit.clock = '2027-01-01 06:35:40+00';
SELECT action, job, gpus, reason FROM pg_temp.place('fenced');
ROLLBACK TO ended;
SET LOCAL gpucredit.clock = '2027-01-01 06:31+00';
SELECT action, job, gpus, reason FROM pg_temp.place('fenced');
SET LOCAL gpucredit.clock = '2027-01-01 06:35:59.999999+00';
SELECT action, job, gpus, reason FROM pg_temp.place('fenced');
SET LOCAL gpucredit.clock = '2027-01-01 06:36+00';
SELECT action, job, gpus, reason FROM pg_temp.place('fenced');
ROLLBACK TO ended;
-- a plan sees the fence run out, as a cycle would
SET LOCAL gpucredit.clock = '2027-01-01 06:35+00';
UPDATE gpucredit.node SET heard_at = gpucredit.now() WHERE pool = 'fenced';
SELECT action, reason FROM gpucredit.plan('fenced');
SELECT action, job, gpus, reason FROM pg_temp.place('fenced');
SELECT * FROM gpucredit.verify();
ROLLBACK;

-- A job grows as far as its quota allows, and only where its next hold could
-- be paid.
SELECT pg_temp.scene('grow', '{}', 'g 4', 'h 4', 'i 2');
SELECT pg_temp.ask('grow', 'fill', '4xPRE', 'premium_training');
SELECT pg_temp.ask('grow', 'small', '2xPRE', 'premium_training');
SELECT pg_temp.ask('grow', 'wide', '2-8xPRE', tenant => 'pre-3');
SELECT * FROM pg_temp.place('grow');
SELECT pg_temp.settle('grow', k, 'completed') FROM unnest('{fill,small}'::text[]) k;
SET gpucredit.clock = '2027-01-01 06:30+00';
BEGIN;
SELECT gpucredit.set_quota('pre-3', '', max_gpus => 4);
SELECT * FROM pg_temp.place('grow');
SELECT gpucredit.set_quota('pre-3', '', max_gpus => 6);
SELECT * FROM pg_temp.place('grow');
ROLLBACK;
BEGIN;
SELECT gpucredit.suspend_account('pre-3', '', true);
SELECT * FROM pg_temp.place('grow');
ROLLBACK;
-- 8 for the next hour of 8, less the rest of 4 after 10 minutes and 2 of grace
BEGIN;
SELECT h.status FROM gpucredit.balance('pre-3') b, gpucredit.hold('pre-3', '', 'most',
	b.available - 4.799999, '1 h') h;
SELECT * FROM pg_temp.place('grow');
ROLLBACK;
BEGIN;
SELECT h.status FROM gpucredit.balance('pre-3') b, gpucredit.hold('pre-3', '', 'most',
	b.available - 4.8, '1 h') h;
SELECT count(*) FROM pg_temp.place('grow');
ROLLBACK;
-- devices promised to it count in its quota before it has them
SELECT gpucredit.set_quota('pre-3', '', max_gpus => 9);
SELECT * FROM pg_temp.place('grow');
SELECT pg_temp.ask('grow', 'more', '2xPRE', tenant => 'pre-3');
SELECT * FROM pg_temp.place('grow');
-- ... in other pools, too, while it still runs smaller and while it waits for
-- more
SELECT pg_temp.ask('there', 'also', '2xPRE', tenant => 'pre-3');
SELECT action, job FROM pg_temp.place('there');
SELECT gpucredit.set_quota('pre-3', '', max_gpus => 10);
BEGIN;
SELECT action, job FROM pg_temp.place('there');
ROLLBACK;
SELECT gpucredit.set_quota('pre-3', '', max_gpus => 9);
SELECT * FROM pg_temp.settle('grow', 'wide', 'resized');
SELECT action, job FROM pg_temp.place('there');
SELECT * FROM pg_temp.place('grow');
SELECT gpucredit.set_quota('pre-3', '');
SELECT * FROM gpucredit.verify();

-- A job that was told to grow, and has not left yet, needs its credit: of two
-- that could grow one does where there is credit for one, in whatever cycle.
BEGIN;
SELECT pg_temp.scene('purse', '{}', 'g 8');
SELECT pg_temp.ask('purse', 'fill', '6xPRE', 'premium_training');
SELECT pg_temp.ask('purse', 'left', '2-3xPRE', tenant => 'pre-3');
SELECT action, job, gpus FROM pg_temp.place('purse');
SELECT pg_temp.settle('purse', 'fill', 'completed');
SELECT pg_temp.ask('purse', 'filled', '4xPRE', 'premium_training');
SELECT pg_temp.ask('purse', 'right', '2-3xPRE', tenant => 'pre-3');
SELECT action, job, gpus FROM pg_temp.place('purse');
SELECT pg_temp.settle('purse', 'filled', 'completed');
SET LOCAL gpucredit.clock = '2027-01-01 06:40+00';
-- 3 for the next hour of 3, less the rest of 2 after 10 minutes and 2 of grace
SELECT h.status FROM gpucredit.balance('pre-3') b, gpucredit.hold('pre-3', '', 'one',
	b.available - 2, '1 h') h;
SELECT action, job, gpus, reason FROM pg_temp.place('purse');
SELECT count(*) FROM pg_temp.place('purse');
SET LOCAL gpucredit.clock = '2027-01-01 06:41+00';
SELECT count(*) FROM pg_temp.place('purse');
-- with more credit both grow
SELECT i.replayed FROM gpucredit.issue('pre-3', '', 'more', 10) i;
SELECT action, job, gpus, reason FROM pg_temp.place('purse');
SELECT * FROM gpucredit.verify();
ROLLBACK;

-- Consolidation: a running job moves elsewhere to make room.
SELECT pg_temp.scene('move', '{"consolidate": true}', 'm 2', 'n 2');
SELECT pg_temp.ask('move', k, '1xPRE') FROM unnest('{a,b,c}'::text[]) k;
SELECT count(*) FROM pg_temp.place('move');
SELECT pg_temp.settle('move', 'b', 'completed');
SET gpucredit.clock = '2027-01-01 07:00+00';
SELECT r.status FROM gpucredit.reserve('pre-2', '', 'move pair', '2xPRE',
	'1 h', pool => 'move', topology => 'node') r;
-- a job whose next hold could not be taken does not move
BEGIN;
SELECT gpucredit.suspend_account('pre', '', true);
SELECT * FROM pg_temp.place('move');
ROLLBACK;
SELECT * FROM pg_temp.place('move');
SELECT * FROM pg_temp.place('move');
-- its new devices are lost before it is told: the pair keeps its claim
BEGIN;
SELECT h.action FROM gpucredit.claim_gpu g
	JOIN gpucredit.eviction e USING (pool, org, job),
	gpucredit.heartbeat(g.node, gpucredit_internal.gpuset_difference('{0-1}', g.gpus)) h
WHERE g.pool = 'move';
SELECT * FROM pg_temp.place('move');
SELECT count(*) FROM gpucredit.claim c WHERE c.pool = 'move';
SELECT count(*) FROM gpucredit.directive d JOIN gpucredit.job j USING (org, job)
WHERE j.pool = 'move';
SELECT * FROM gpucredit.verify();
ROLLBACK;
-- a waiting job is promised what it asks for
BEGIN;
UPDATE gpucredit.claim_gpu SET gpus = '{1}'
WHERE pool = 'move' AND org = 'pre-2';
SELECT invariant, org FROM gpucredit.verify();
ROLLBACK;
BEGIN;
UPDATE gpucredit.claim SET share = 500 WHERE pool = 'move' AND org = 'pre-2';
SELECT invariant, org FROM gpucredit.verify();
ROLLBACK;
SELECT pg_temp.settle('move', pg_temp.key(e.org, e.job))
FROM gpucredit.eviction e WHERE e.pool = 'move';
SELECT * FROM pg_temp.place('move');
SELECT * FROM gpucredit.verify();

-- Within a quota an account's more important job takes the place of a less
-- important one, though devices are free.
SELECT gpucredit.create_account('pre-q') \g /dev/null
SELECT gpucredit.issue('pre-q', '', 'i', 1000000) \g /dev/null
SELECT gpucredit.grant_tier('pre-q', '', 'premium_training') \g /dev/null
SELECT pg_temp.scene('within', '{}', 'n 8');
SELECT pg_temp.scene('beside', '{}', 'n 8');
SELECT gpucredit.set_quota('pre-q', '', 'PRE', max_gpus => 4) \g /dev/null
SELECT pg_temp.ask('within', 'first', '2xPRE', 'batch_inference', 'pre-q');
SELECT pg_temp.ask('within', 'second', '2xPRE', 'batch_inference', 'pre-q');
SELECT * FROM pg_temp.place('within');
SELECT set_config('gpucredit.clock', (gpucredit.now() + '20 min')::text, false) \g /dev/null
SELECT pg_temp.ask('within', 'vital', '2xPRE', 'premium_training', 'pre-q');
SELECT pg_temp.ask('within', 'more', '2xPRE', 'standard_training', 'pre-q');
SELECT * FROM pg_temp.place('within');
SELECT check_name, passes, detail FROM pg_temp.why('within', 'vital');
-- the claim stays, and waits until the quota is returned; nobody else gets that
SELECT * FROM pg_temp.place('within');
SELECT pg_temp.ask('beside', 'elsewhere', '1xPRE', 'standard_training', 'pre-q');
SELECT * FROM pg_temp.place('beside');
-- in another pool the claim counts as far as it exceeds what leaves for it
BEGIN;
SELECT gpucredit.set_quota('pre-q', '', 'PRE', max_gpus => 5) \g /dev/null
SELECT * FROM pg_temp.place('beside');
ROLLBACK;
SELECT count(*) FROM gpucredit.claim c WHERE c.pool = 'within';
SELECT s.* FROM gpucredit.eviction e, pg_temp.settle('within', pg_temp.key(e.org, e.job)) s WHERE e.pool = 'within';
SELECT * FROM pg_temp.place('within');
SELECT sum(a.gpus) AS within_the_quota FROM gpucredit.attempt a
WHERE a.org = 'pre-q' AND a.ended_at IS NULL;
SELECT count(*) FROM gpucredit.claim c WHERE c.pool = 'within';
SELECT * FROM gpucredit.verify();

-- What verify finds when the books are cooked.
BEGIN;
INSERT INTO gpucredit.claim VALUES ('move', 'pre', 0, 1, '', 'tier', 'PRE',
	1000, gpucredit.now(), 1, gpucredit.now());
SELECT invariant, subject FROM gpucredit.verify() ORDER BY 1, 2;
INSERT INTO gpucredit.claim_gpu SELECT 'move', 'pre', 0, g.node, g.gpus, 0, 0, 0
FROM gpucredit.attempt_gpu g WHERE g.pool = 'move' AND NOT g.free
	AND g.ended_at IS NULL ORDER BY g.node LIMIT 1;
SELECT invariant FROM gpucredit.verify() ORDER BY 1;
INSERT INTO gpucredit.claim SELECT 'move', 'pre-2', 0, 1, '', 'tier', 'PRE',
	1000, gpucredit.now(), 1, gpucredit.now();
INSERT INTO gpucredit.claim_gpu SELECT g.pool, 'pre-2', g.job, g.node, g.gpus,
	0, 0, 0 FROM gpucredit.claim_gpu g WHERE g.pool = 'move';
SELECT invariant FROM gpucredit.verify('pre-2') ORDER BY 1;
-- shares of a quarter whose floors are more than the device has
UPDATE gpucredit.claim SET share = 250 WHERE pool = 'move';
UPDATE gpucredit.claim_gpu g SET gpu_memory_mib = n.gpu_memory_mib / 2
FROM gpucredit.node n WHERE n.node = g.node AND g.pool = 'move';
SELECT invariant FROM gpucredit.verify('pre-2') WHERE invariant ~ 'promised';
UPDATE gpucredit.claim_gpu SET gpu_memory_mib = gpu_memory_mib + 1
WHERE pool = 'move' AND org = 'pre';
SELECT invariant FROM gpucredit.verify('pre-2') WHERE invariant ~ 'promised';
ROLLBACK;
BEGIN;
INSERT INTO gpucredit.eviction SELECT 'move', a.org, a.job, a.attempt, '',
	'pre', 1, 'tier', gpucredit.now() FROM gpucredit.attempt a
WHERE a.pool = 'move' AND a.ended_at IS NULL AND a.org = 'pre-2';
SELECT invariant, org FROM gpucredit.verify();
ROLLBACK;
SELECT * FROM gpucredit.verify();
