-- plan_with: what a cycle would do if there were more nodes, or more jobs.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET gpucredit.clock = '2027-09-01 00:00+00';
SET gpucredit.node_suspect = 0;
SET gpucredit.node_lost = 0;
\pset null '-'

DO $$
BEGIN
	PERFORM gpucredit.create_pool('pwi');
	PERFORM gpucredit.set_price('PW-A', 1), gpucredit.set_price('PW-B', 2);
	PERFORM gpucredit.register_node('pwi', 'pw-1', 'PW-A', 8, 40960);
	PERFORM gpucredit.create_account('pwi'), gpucredit.create_account('pwi', 'small'), gpucredit.create_account('pwi', 'off');
	PERFORM gpucredit.grant_tier('pwi', '', 'premium_training');
	PERFORM gpucredit.suspend_account('pwi', 'off', true);
	PERFORM gpucredit.issue('pwi', '', 'i', 1000000);
END $$;
CREATE FUNCTION pg_temp.ask(key text, request text) RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(reason, status) FROM gpucredit.reserve('pwi', '', key, request, '1 h', pool => 'pwi') $$;
CREATE FUNCTION pg_temp.key(id bigint) RETURNS text LANGUAGE sql AS $$
	SELECT CASE WHEN id < 0 THEN 'supposed ' || -id ELSE r.key END
	FROM (SELECT) one LEFT JOIN gpucredit.request r ON r.org = 'pwi'
		AND r.operation = 'reserve' AND r.result[1] = id::text $$;
CREATE VIEW pg_temp.state AS SELECT (SELECT count(*) FROM gpucredit.job) AS jobs,
	(SELECT count(*) FROM gpucredit.node) AS nodes, (SELECT count(*) FROM gpucredit.attempt) AS attempts,
	(SELECT count(*) FROM gpucredit.audit) AS audit, (SELECT count(*) FROM gpucredit.request) AS requests,
	(SELECT sum(cycle) FROM gpucredit.quota) AS quotas;
SELECT pg_temp.ask('full', '8xPW-A');
SELECT count(*) FROM gpucredit.place('pwi');
SELECT pg_temp.ask('next', '8xPW-A'), pg_temp.ask('gang', '16xPW-A'), pg_temp.ask('other', '8xPW-A');
CREATE TEMP TABLE before AS SELECT * FROM pg_temp.state;

\echo === What if we had two more nodes
SELECT count(*) FROM gpucredit.plan('pwi');
CREATE TEMP TABLE supposed AS SELECT * FROM gpucredit.plan_with('pwi',
	'{"nodes": [{"name": "new-1", "gpu_type": "PW-A", "gpus": 8, "gpu_memory_mib": 40960},
		{"name": "new-2", "gpu_type": "PW-A", "gpus": 8, "gpu_memory_mib": 40960}]}') WITH ORDINALITY;
SELECT action, org, pg_temp.key(job) AS job, attempt, node, gpus, share, gpu_type, per_gpu_hour, reason
FROM supposed ORDER BY ordinality;
-- nothing added gives the plan
SELECT count(*) FROM gpucredit.plan_with('pwi', '{}');
-- the same in one word, three nodes; a node that sorts first, of a type that
-- nobody waits for
SELECT action, pg_temp.key(job) AS job, node, gpus FROM gpucredit.plan_with('pwi', '{"nodes": [
	{"name": "new", "gpu_type": "PW-A", "gpus": 8, "gpu_memory_mib": 40960, "count": 3},
	{"name": "a", "gpu_type": "PW-B", "gpus": 8, "gpu_memory_mib": 81920, "spot": true, "leaf": "l", "labels": {"rack": 7}}]}');
-- once the nodes exist, place does what was answered
BEGIN;
SELECT gpucredit.register_node('pwi', 'new-' || n, 'PW-A', 8, 40960) FROM generate_series(1, 2) n;
ALTER TABLE supposed DROP COLUMN expected_at;
SELECT count(*) FROM (TABLE supposed EXCEPT ALL SELECT * FROM gpucredit.place('pwi') WITH ORDINALITY) d;
ROLLBACK;

\echo === What if these were submitted
SELECT action, pg_temp.key(job) AS job, node, gpus, gpu_type, per_gpu_hour, reason, expected_at
FROM gpucredit.plan_with('pwi', '{"nodes": [{"name": "b", "gpu_type": "PW-B", "gpus": 8, "gpu_memory_mib": 81920}],
	"jobs": [{"org": "pwi", "request": "2xPW-B", "wall_limit": "30 min", "count": 2},
		{"org": "pwi", "account": "off", "request": "1xPW-B"},
		{"org": "pwi", "request": "9xPW-B", "topology": "node"},
		{"org": "pwi", "request": "0.5xPW-B", "tier": "interactive", "options": {"priority": 9}},
		{"org": "pwi", "request": "8xPW-A", "tier": "premium_training", "cpu_milli": 0}]}');
-- a job of a higher tier may take running jobs' devices
SELECT gpucredit.set_tier('pw-urgent', 0, 'never', true);
SELECT set_config('gpucredit.clock', '2027-09-01 00:30+00', false);
SELECT action, pg_temp.key(job) AS job, node, gpus, reason
FROM gpucredit.plan_with('pwi', '{"jobs": [{"org": "pwi", "request": "4xPW-A", "tier": "pw-urgent", "wall_limit": "1 h"}]}');
-- when a job would start that cannot now: behind waiting jobs, or once running
-- jobs end
SELECT action, pg_temp.key(job) AS job, node, gpus, reason, expected_at
FROM gpucredit.plan_with('pwi', '{"jobs": [{"org": "pwi", "request": "8xPW-A", "wall_limit": "1 h"}]}');
BEGIN;
SELECT count(gpucredit.cancel('pwi', j.job, 'no ' || j.job)) FROM gpucredit.jobs j WHERE j.org = 'pwi' AND j.state = 'queued';
SELECT action, pg_temp.key(job) AS job, node, gpus, reason, expected_at
FROM gpucredit.plan_with('pwi', '{"jobs": [{"org": "pwi", "request": "8xPW-A", "wall_limit": "1 h", "count": 2}]}');
ROLLBACK;
-- quotas, also of an organisation without waiting jobs
SELECT gpucredit.create_account('pw-quota'), gpucredit.set_quota('pw-quota', '', max_gpus => 3, max_queued => 0);
SELECT gpucredit.create_account('pw-limit'), gpucredit.set_quota('pw-limit', '', max_gpus => 3);
UPDATE before SET quotas = s.quotas, audit = s.audit FROM pg_temp.state s;
SELECT action, org, pg_temp.key(job) AS job, node, gpus, reason
FROM gpucredit.plan_with('pwi', '{"nodes": [{"name": "b", "gpu_type": "PW-B", "gpus": 8, "gpu_memory_mib": 0}],
	"jobs": [{"org": "pw-quota", "request": "2xPW-B"}, {"org": "pw-limit", "request": "2xPW-B", "count": 3},
		{"org": "pw-limit", "request": "4xPW-B"}]}');

-- it only reads
BEGIN READ ONLY;
SELECT count(*) FROM gpucredit.plan_with('pwi', '{"nodes": [{"name": "b", "gpu_type": "PW-B", "gpus": 8, "gpu_memory_mib": 0}],
	"jobs": [{"org": "pw-quota", "request": "2xPW-B"}, {"org": "pwi", "request": "2xPW-B"}]}');
COMMIT;
TABLE before EXCEPT TABLE pg_temp.state;

\echo === Refused
CREATE FUNCTION pg_temp.refused(what jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	message text;
	detail text;
	hint text;
BEGIN
	PERFORM gpucredit.plan_with('pwi', what);
	RETURN 'it is not';
EXCEPTION WHEN others THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' ', SQLSTATE || ':', message || '.', CASE WHEN detail <> '' THEN 'D' END, CASE WHEN hint <> '' THEN 'H' END);
END $$;
SELECT b.what, pg_temp.refused(b.what::jsonb) FROM (VALUES
	('{"node": []}'), ('{"nodes": {}}'), ('{"nodes": 1}'), ('{"jobs": [1]}'), ('{"jobs": [[]]}'), ('{"jobs": [null]}'),
	('{"nodes": [{}]}'), ('{"jobs": [{}]}'),
	('{"nodes": [{"name": "x", "gpu_type": "PW-A", "gpus": 8}]}'),
	('{"nodes": [{"name": "x", "gpu_type": "P W", "gpus": 8, "gpu_memory_mib": 1}]}'),
	('{"nodes": [{"name": "x", "gpu_type": "PW-A", "gpus": 65, "gpu_memory_mib": 1}]}'),
	('{"nodes": [{"name": "x", "gpu_type": "PW-A", "gpus": -1, "gpu_memory_mib": 1}]}'),
	('{"nodes": [{"name": "x", "gpu_type": "PW-A", "gpus": 1.5, "gpu_memory_mib": 1}]}'),
	('{"nodes": [{"name": "x", "gpu_type": "PW-A", "gpus": 1e30, "gpu_memory_mib": 1}]}'),
	('{"nodes": [{"name": "x", "gpu_type": "PW-A", "gpus": "8", "gpu_memory_mib": 1}]}'),
	('{"nodes": [{"name": 7, "gpu_type": "PW-A", "gpus": 8, "gpu_memory_mib": 1}]}'),
	('{"nodes": [{"name": "x", "gpu_type": "PW-A", "gpus": 8, "gpu_memory_mib": 1, "spot": "yes"}]}'),
	('{"nodes": [{"name": "x", "gpu_type": "PW-A", "gpus": 8, "gpu_memory_mib": 1, "labels": []}]}'),
	('{"nodes": [{"name": "x", "gpu_type": "PW-A", "gpus": 8, "gpu_memory_mib": 1, "pool": "pwi"}]}'),
	('{"nodes": [{"name": "x", "gpu_type": "PW-A", "gpus": 8, "gpu_memory_mib": 1, "count": 0}]}'),
	('{"nodes": [{"name": "x", "gpu_type": "PW-A", "gpus": 8, "gpu_memory_mib": 1, "count": 10001}]}'),
	('{"nodes": [{"name": "x", "gpu_type": "PW-A", "gpus": 8, "gpu_memory_mib": 1, "count": 10000}, {"name": "y", "gpu_type": "PW-A", "gpus": 8, "gpu_memory_mib": 1}]}'),
	('{"nodes": [{"name": "pw-1", "gpu_type": "PW-A", "gpus": 8, "gpu_memory_mib": 1}]}'),
	('{"nodes": [{"name": "x-2", "gpu_type": "PW-A", "gpus": 8, "gpu_memory_mib": 1}, {"name": "x", "gpu_type": "PW-A", "gpus": 8, "gpu_memory_mib": 1, "count": 2}]}'),
	('{"jobs": [{"org": "pwi", "request": "1xPW-A", "key": "k"}]}'),
	('{"jobs": [{"org": "no such", "request": "1xPW-A"}]}'),
	('{"jobs": [{"org": "pwi", "account": "no such", "request": "1xPW-A"}]}'),
	('{"jobs": [{"org": "pwi", "request": "PW-A"}]}'),
	('{"jobs": [{"org": "pwi", "request": "1xPW-NONE"}]}'),
	('{"jobs": [{"org": "pwi", "request": "1xPW-A", "tier": "no such"}]}'),
	('{"jobs": [{"org": "pwi", "request": "1xPW-A", "tier": null}]}'),
	('{"jobs": [{"org": "pwi", "request": "1xPW-A", "wall_limit": "1 mon"}]}'),
	('{"jobs": [{"org": "pwi", "request": "1xPW-A", "wall_limit": "0 s"}]}'),
	('{"jobs": [{"org": "pwi", "request": "1xPW-A", "wall_limit": 3600}]}'),
	('{"jobs": [{"org": "pwi", "request": "1xPW-A", "wall_limit": "48 h"}]}'),
	('{"jobs": [{"org": "pwi", "request": "1xPW-A", "topology": "rack"}]}'),
	('{"jobs": [{"org": "pwi", "request": "1xPW-A", "preemptible": "never"}]}'),
	('{"jobs": [{"org": "pwi", "request": "1xPW-A", "max_retries": 1001}]}'),
	('{"jobs": [{"org": "pwi", "request": "1xPW-A", "spec": {"cache": 1}}]}'),
	('{"jobs": [{"org": "pwi", "request": "1xPW-A", "options": {"prio": 1}}]}')) b (what);
SELECT gpucredit.plan_with('no such', '{}');
SELECT gpucredit.plan_with('pwi', NULL);
SELECT gpucredit.plan_with('pwi', '[]');
SELECT gpucredit.plan_with(NULL, '{}');

-- the test removes what it made
SELECT count(gpucredit.cancel('pwi', j.job, 'end ' || j.job)) > 0
FROM gpucredit.jobs j WHERE j.org = 'pwi' AND j.state IN ('queued', 'starting', 'running');
SELECT count(gpucredit.settle('pwi', a.job, a.attempt, 'cancelled')) > 0
FROM gpucredit.attempt a WHERE a.org = 'pwi' AND a.ended_at IS NULL;
SELECT * FROM gpucredit.verify();
