--
-- Promotions: every word of a policy, when credits are drawn at submission and
-- at an extension; and why a bucket does not pay.
--
SET search_path = gpucredit, public;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET client_min_messages = warning;
SET gpucredit.node_suspect = 0;
SET gpucredit.clock = '2033-01-01 00:00+00';
CREATE FUNCTION pg_temp.at(text) RETURNS void LANGUAGE sql AS
$$ SELECT set_config('gpucredit.clock', $1, false) $$;
SELECT create_pool('pr'), create_pool('pr-2') \g /dev/null
SELECT set_price('PrA', 1), set_price('PrB', 1),
	register_node('pr', 'pr-a', 'PrA', 64, 80000),
	register_node('pr', 'pr-b', 'PrB', 64, 80000) \g /dev/null

-- Each policy, and whether it allows a request for one PrA (or PrA|PrB), tier
-- standard_training, pool pr, held for by the hour
CREATE TEMP TABLE policies (n serial, policy jsonb, request text, allowed boolean);
INSERT INTO policies (policy, request, allowed) VALUES
	('{}', '1xPrA', true),
	('{"gpu_types": ["PrA"]}', '1xPrA', true),
	('{"gpu_types": ["PrB", "PrA"]}', '1xPrA|PrB', true),
	('{"gpu_types": ["PrB"]}', '1xPrA', false),
	('{"gpu_types": ["PrA"]}', '1xPrA|PrB', false),
	('{"gpu_types": ["PrA"]}', '1x*', false),
	('{"gpu_types": []}', '1xPrA', false),
	('{"tiers": ["standard_training", "interactive"]}', '1xPrA', true),
	('{"tiers": ["interactive"]}', '1xPrA', false),
	('{"tiers": []}', '1xPrA', false),
	('{"pools": ["pr"]}', '1xPrA', true),
	('{"pools": ["pr-2", "PR"]}', '1xPrA', false),
	('{"pools": []}', '1xPrA', false),
	('{"max_per_job": 1}', '1xPrA', true),
	('{"max_per_job": 0.999999}', '1xPrA', false),
	('{"max_per_job": 2}', '1xPrA', true),
	('{"max_share": 1}', '1xPrA', true),
	('{"max_share": 0.999999}', '1xPrA', false),
	('{"gpu_types": ["PrA"], "tiers": ["standard_training"], "pools": ["pr"]}', '1xPrA', true),
	('{"gpu_types": ["PrA"], "tiers": ["standard_training"], "pools": ["pr-2"]}', '1xPrA', false);

-- At submission: an organisation for each policy, with one bucket of 10
SELECT count(create_account('pr' || n)), count(issue('pr' || n, '', 'i', 10,
	'promo', policy => policy)) FROM policies;
SELECT n, p.policy, p.request, f.why, f.most, r.status, r.reason,
	CASE WHEN (r.status = 'granted') <> p.allowed THEN 'WRONG' END AS wrong
FROM (SELECT p.*, 'pr' || n AS org FROM policies p) p,
	LATERAL buckets_for(p.org, '', p.request, pool => 'pr', amount => 1) f,
	LATERAL reserve(p.org, '', 'j', p.request, '10 h', pool => 'pr',
		hold_window => '1 h') r
ORDER BY n;

-- At an extension: a bucket of exactly the first hour pays for it; the next
-- hold is due after 56 minutes
SELECT count(create_account('px' || n)), count(issue('px' || n, '', 'first', 1))
FROM policies;
SELECT status, count(*) FROM policies, reserve('px' || n, '', 'j', request,
	'10 h', pool => 'pr', hold_window => '1 h') GROUP BY 1;
SELECT count(DISTINCT (org, job)) FROM place('pr') WHERE org LIKE 'px%';
SELECT pg_temp.at('2033-01-01 00:56+00') \g /dev/null
SELECT count(issue('px' || n, '', 'promo', 10, 'promo', policy => policy)) FROM policies;
SELECT n, p.policy, p.request, f.why, f.most, m.action, m.reason, m.held,
	CASE WHEN (m.held = 2) <> (p.allowed OR p.policy ? 'max_share') THEN 'WRONG' END AS wrong
FROM (SELECT p.*, 'px' || n AS org FROM policies p) p
	JOIN job j ON j.org = p.org,
	LATERAL job_buckets(p.org, j.job, 1) f,
	LATERAL meter(p.org, j.job, 1, '56 min') m
WHERE f.kind = 'promo' ORDER BY n;

-- and at each later one: caps count all that the job drew, until they are used
-- up
SELECT pg_temp.at('2033-01-01 01:56+00') \g /dev/null
SELECT n, p.policy, f.why, f.most, m.action, m.reason, m.held
FROM (SELECT p.*, 'px' || n AS org FROM policies p
		WHERE n IN (1, 2, 9, 14, 16, 17, 18)) p
	JOIN job j ON j.org = p.org,
	LATERAL job_buckets(p.org, j.job, 1) f,
	LATERAL meter(p.org, j.job, 1, '116 min') m
WHERE f.kind = 'promo' ORDER BY n;
SELECT pg_temp.at('2033-01-01 02:56+00') \g /dev/null
SELECT n, p.policy, f.why, f.most, m.action, m.reason, m.held
FROM (SELECT p.*, 'px' || n AS org FROM policies p WHERE n IN (1, 16, 17)) p
	JOIN job j ON j.org = p.org,
	LATERAL job_buckets(p.org, j.job, 1) f,
	LATERAL meter(p.org, j.job, 1, '176 min') m
WHERE f.kind = 'promo' ORDER BY n;

-- at submission max_share is of this hold, whoever pays the rest; rounded down
SELECT create_account('ps') \g /dev/null
SELECT issue('ps', '', 'promo', 100, 'promo', policy => '{"max_share": 0.333333}'),
	issue('ps', '', 'paid', 100) \g /dev/null
SELECT kind, pays, why, most FROM buckets_for('ps', '', '1xPrA', pool => 'pr', amount => 2);
SELECT status, held FROM reserve('ps', '', 'j', '1xPrA', '2 h', pool => 'pr');
SELECT b.kind, p.drawn FROM hold_part p JOIN bucket b USING (org, bucket)
WHERE p.org = 'ps' ORDER BY p.part;

-- Why a bucket does not pay: time and closing come before policies. For a
-- caller's hold the three conditions forbid it, and the cap per job counts as
-- a cap per hold
SELECT create_account('pw'), create_account('pw', 'a') \g /dev/null
SELECT issue('pw', 'a', 'ok', 5, policy => '{"max_per_job": 1}'),
	issue('pw', '', 'later', 5, effective_at => '2033-02-01', policy => '{"tiers": []}'),
	issue('pw', '', 'gone', 5, expires_at => '2033-01-01 03:00+00', policy => '{"pools": []}'),
	issue('pw', '', 'types', 5, policy => '{"gpu_types": ["PrA"]}'),
	issue('pw', '', 'tiers', 5, policy => '{"tiers": ["interactive"]}'),
	issue('pw', '', 'pools', 5, policy => '{"pools": ["pr"]}') \g /dev/null
SELECT bucket AS closed FROM issue('pw', '', 'closed', 5, policy => '{"tiers": []}') \gset
SELECT revoked FROM revoke('pw', :closed, 'r', 'a mistake');
SELECT pg_temp.at('2033-01-01 03:00+00') \g /dev/null
SELECT policy, pays, why, most FROM buckets_for('pw', 'a') ORDER BY policy::text, why;
SELECT policy, pays, why, most FROM buckets_for('pw', 'a', '1xPrA', 'interactive', 'pr')
ORDER BY policy::text, why;
SELECT status, held FROM hold('pw', 'a', 'h5', 5, '1 h');
SELECT status, held FROM hold('pw', 'a', 'h1', 1, '1 h');
SELECT pays, why FROM buckets_for('pw', 'a') WHERE account = 'a';

-- A batch of heartbeats waits for no lock, and tells a cap from a lock
SELECT create_account('pb') \g /dev/null
SELECT issue('pb', '', 'promo', 100, 'promo', policy => '{"max_per_job": 1}') \g /dev/null
SELECT job AS capped FROM reserve('pb', '', 'j', '1xPrA', '10 h', pool => 'pr',
	hold_window => '1 h') \gset
SELECT * FROM place('pr') \g /dev/null
SELECT action FROM meter('pb', :capped, 1, '0') \g /dev/null
SELECT pg_temp.at('2033-01-01 03:56+00') \g /dev/null
SELECT action, reason, held FROM meter_batch('{pb}', ARRAY[:capped], '{1}', '{56 min}');
SELECT operation, decision, reason FROM audit
WHERE org = 'pb' AND operation = 'extend' AND job = :capped;
SELECT outcome FROM settle('pb', :capped, 1, 'failed', '57 min', exit_code => 143);

-- Nothing to explain
SELECT count(*) FROM job_buckets('pw', 0);
SELECT * FROM buckets_for('nobody', '');
SELECT * FROM buckets_for('pw', '', '1xPrA', pool => 'nowhere');
SELECT * FROM buckets_for('pw', '', '1xNoSuch', pool => 'pr');
SELECT * FROM buckets_for('pw', '', 'x', pool => 'pr');
SELECT v.* FROM generate_series(1, 20) n, unnest(ARRAY['pr' || n, 'px' || n]) o, verify(o) v;
SELECT * FROM verify('pb');
SELECT * FROM verify('ps');
SELECT * FROM verify('pw');
