-- Where a job goes among nodes that serve it equally well: the pool's packing,
-- what the pool learns for it, caches, preferences. The decisions themselves
-- have scenarios of their own (test/scenarios).
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS gpucredit CASCADE;
RESET client_min_messages;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SET intervalstyle = 'postgres';
SET gpucredit.clock = '2027-03-01 00:00+00';
\set VERBOSITY sqlstate
\pset null '-'

DO $$
BEGIN
	PERFORM gpucredit.create_account('pk');
	PERFORM gpucredit.create_account('pk-2');
	PERFORM gpucredit.issue('pk', '', 'i', 1000000);
	PERFORM gpucredit.issue('pk-2', '', 'i', 1000000);
	PERFORM gpucredit.set_price(t, 1) FROM unnest('{PK-A,PK-B}'::text[]) t;
END $$;
CREATE FUNCTION pg_temp.scene(pool text, policy jsonb, VARIADIC nodes text[])
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	n text;
	w text[];
BEGIN
	PERFORM gpucredit.create_pool(pool, policy);
	FOREACH n IN ARRAY nodes LOOP
		w := string_to_array(n, ' ');
		PERFORM gpucredit.register_node(pool, pool || '-' || w[1],
			'PK-' || w[2], w[3]::int, 40960, coalesce(w[4], '0')::bigint,
			leaf => w[5], nvlink_domain => w[6]);
	END LOOP;
END $$;
CREATE FUNCTION pg_temp.ask(pool text, key text, request text,
	cpu bigint DEFAULT 0, spec jsonb DEFAULT '{}', options jsonb DEFAULT '{}',
	org text DEFAULT 'pk') RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(r.reason, r.status) FROM gpucredit.reserve(org, '',
		pool || key, request, '1 h', pool => pool, cpu_milli => cpu,
		spec => spec, options => options) r
$$;
CREATE FUNCTION pg_temp.placed(pool text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(substr(p.node, length(pool) + 2) || p.gpus::text
		|| CASE WHEN p.share < 1000 THEN '/' || p.share ELSE '' END, ' '
		ORDER BY n)
	FROM gpucredit.place(pool) WITH ORDINALITY AS p
		(action, org, job, attempt, node, gpus, share, gpu_type,
		per_gpu_hour, reason, n)
	WHERE p.action = 'start'
$$;

-- pack fills nodes in use, spread fills empty ones
SELECT pg_temp.scene('pk-pack', '{"packing": "pack"}', 'n1 A 4', 'n2 A 4');
SELECT pg_temp.scene('pk-spread', '{"packing": "spread"}', 'n1 A 4', 'n2 A 4');
SELECT pool, key, pg_temp.ask(pool, key, '1xPK-A')
FROM unnest('{pk-pack,pk-spread}'::text[]) pool,
	unnest('{a,b}'::text[]) key ORDER BY 1, 2;
SELECT pg_temp.placed('pk-pack') AS pack, pg_temp.placed('pk-spread') AS spread;

-- fgd: jobs here are one device with 8 cores. n1 has cores for one more such
-- job, so a job of one core goes elsewhere
SELECT pg_temp.scene('pk-fgd', '{"packing": "fgd"}',
	'n1 A 4 16000', 'n2 A 4 64000');
SELECT pg_temp.ask('pk-fgd', 'a' || n, '1xPK-A', 8000)
FROM generate_series(1, 2) n;
SELECT pg_temp.placed('pk-fgd') AS eight_cores_each;
SELECT request, cpu_milli, memory_mib, jobs, day FROM gpucredit.workload_mix
WHERE pool = 'pk-fgd';
SELECT pg_temp.ask('pk-fgd', 'b', '1xPK-A', 1000);
SELECT pg_temp.placed('pk-fgd') AS one_core;
SELECT request, cpu_milli, jobs FROM gpucredit.workload_mix WHERE pool = 'pk-fgd'
ORDER BY 2;
-- a job that runs again is not counted again
SELECT job_state FROM gpucredit.settle('pk', (SELECT max(job)
	FROM gpucredit.job WHERE pool = 'pk-fgd'), 1, 'preempted');
SELECT pg_temp.placed('pk-fgd') <> '' AS again;
SELECT sum(jobs) FROM gpucredit.workload_mix WHERE pool = 'pk-fgd';
-- a day has 1,000 kinds at most; known kinds are counted on
BEGIN;
INSERT INTO gpucredit.workload_mix (pool, day, request, cpu_milli, memory_mib, jobs)
SELECT 'pk-fgd', '2027-03-01 00:00+00', '1xPK-A', 100000 + n, 0, 1
FROM generate_series(1, 1000 - (SELECT count(*) FROM gpucredit.workload_mix WHERE pool = 'pk-fgd')::int) n;
SELECT count(*), sum(jobs) FROM gpucredit.workload_mix WHERE pool = 'pk-fgd';
SELECT pg_temp.ask('pk-fgd', 'new', '1xPK-A', 2000), pg_temp.ask('pk-fgd', 'known', '1xPK-A', 1000);
SELECT pg_temp.placed('pk-fgd') <> '' AS both;
SELECT count(*), sum(jobs), sum(jobs) FILTER (WHERE cpu_milli = 1000) AS known FROM gpucredit.workload_mix WHERE pool = 'pk-fgd';
ROLLBACK;
-- a cycle adds as many new kinds as there is room for, the most frequent first
BEGIN;
INSERT INTO gpucredit.workload_mix (pool, day, request, cpu_milli, memory_mib, jobs)
SELECT 'pk-fgd', '2027-03-01 00:00+00', '1xPK-A', 100000 + n, 0, 1
FROM generate_series(1, 999 - (SELECT count(*) FROM gpucredit.workload_mix WHERE pool = 'pk-fgd')::int) n;
SELECT pg_temp.ask('pk-fgd', 'new', '1xPK-A', 2000), pg_temp.ask('pk-fgd', 'twice', '1xPK-A', 3000), pg_temp.ask('pk-fgd', 'again', '1xPK-A', 3000);
SELECT pg_temp.placed('pk-fgd') <> '' AS three;
SELECT count(*), max(cpu_milli) FILTER (WHERE cpu_milli BETWEEN 2000 AND 3000) AS new FROM gpucredit.workload_mix WHERE pool = 'pk-fgd';
ROLLBACK;
-- by fgd, types of one price compete for "*": devices that only A can serve
-- stay free
SELECT pg_temp.scene('pk-any', '{"packing": "fgd"}', 'n1 A 2', 'n2 B 2');
SELECT pg_temp.ask('pk-any', 'a', '1xPK-A');
SELECT pg_temp.placed('pk-any') AS only_a;
SELECT pg_temp.ask('pk-any', 'b', '1x*');
SELECT pg_temp.placed('pk-any') AS any_type;
-- the 256 most frequent kinds are read, ties by request: with the 256th kind A
-- is kept for requests that only A can serve, without it not
SELECT pg_temp.scene('pk-many', '{"packing": "fgd"}', 'n1 A 2', 'n2 B 2');
INSERT INTO gpucredit.workload_mix (pool, day, request, cpu_milli, memory_mib, jobs)
SELECT 'pk-many', '2027-03-01 00:00+00', r.request::gpucredit.gpureq, n, 0, 2
FROM (VALUES ('0.25x*', 255), ('0.25xPK-A', 1)) r (request, kinds),
	generate_series(1, r.kinds) n;
BEGIN;
SELECT pg_temp.ask('pk-many', 'a', '1x*');
SELECT pg_temp.placed('pk-many') AS with_the_256th;
ROLLBACK;
INSERT INTO gpucredit.workload_mix (pool, day, request, cpu_milli, memory_mib, jobs)
VALUES ('pk-many', '2027-03-01 00:00+00', '0.25x*', 256, 0, 2);
SELECT pg_temp.ask('pk-many', 'a', '1x*');
SELECT pg_temp.placed('pk-many') AS without_the_257th;
-- what is older than 7 days is forgotten
SET gpucredit.clock = '2027-03-08 00:00+00';


SELECT gpucredit.register_node('pk-fgd', 'pk-fgd-n3', 'PK-A', 4, 40960);
SELECT pg_temp.ask('pk-fgd', 'c', '2xPK-A');
SELECT pg_temp.placed('pk-fgd') AS a_week_later;
SELECT request, jobs, day FROM gpucredit.workload_mix WHERE pool = 'pk-fgd';
SET gpucredit.clock = '2027-03-01 00:00+00';

-- A thousandth of a device
SELECT pg_temp.scene('pk-milli', '{}', 'n1 A 1');
SELECT pg_temp.ask('pk-milli', 'a', '0.001xPK-A'),
	pg_temp.ask('pk-milli', 'b', '0.999xPK-A'),
	pg_temp.ask('pk-milli', 'c', '0.001xPK-A');
SELECT pg_temp.placed('pk-milli') AS full_to_the_thousandth;

-- A node that holds the job's cache comes before the name, after the policy
SELECT pg_temp.scene('pk-cache', '{}', 'n1 A 2', 'n2 A 2', 'n3 A 2');
SELECT pg_temp.ask('pk-cache', 'a', '2xPK-A'),
	pg_temp.ask('pk-cache', 'b', '2xPK-A', spec => '{"cache": "llama"}');
SELECT pg_temp.placed('pk-cache') AS first_the_name_decides;
SELECT org, cache, node FROM gpucredit.node_cache WHERE pool = 'pk-cache';
SELECT count(gpucredit.settle('pk', job, 1, 'completed', '0'))
FROM gpucredit.job WHERE pool = 'pk-cache';
SELECT pg_temp.ask('pk-cache', 'c', '2xPK-A', spec => '{"cache": "llama"}');
SELECT pg_temp.placed('pk-cache') AS where_it_is;
SELECT pg_temp.ask('pk-cache', 'd', '2xPK-A', spec => '{"cache": "llama"}',
	org => 'pk-2');
SELECT pg_temp.placed('pk-cache') AS of_another_tenant_it_is_not;
-- a cache counts for 7 days, to the instant
SELECT count(gpucredit.settle(org, job, 1, 'completed', '0')) FROM gpucredit.job
WHERE pool = 'pk-cache' AND state = 'active';
SET gpucredit.node_suspect = 0;
BEGIN;
SET LOCAL gpucredit.clock = '2027-03-07 23:59:59.999999+00';
SELECT pg_temp.ask('pk-cache', 'f', '2xPK-A', spec => '{"cache": "llama"}');
SELECT pg_temp.placed('pk-cache') AS still;
ROLLBACK;
BEGIN;
SET LOCAL gpucredit.clock = '2027-03-08 00:00+00';
SELECT pg_temp.ask('pk-cache', 'f', '2xPK-A', spec => '{"cache": "llama"}');
SELECT pg_temp.placed('pk-cache') AS forgotten;
ROLLBACK;
RESET gpucredit.node_suspect;
SELECT pg_temp.ask('pk-cache', 'e', '1xPK-A', spec => '{"cache": 1}');
SELECT pg_temp.ask('pk-cache', 'e', '1xPK-A', spec => '{"cache": ""}');

-- A node keeps its latest 32 cache keys
SELECT pg_temp.scene('pk-many', '{}', 'n1 A 64');
SELECT count(pg_temp.ask('pk-many', 'k' || n, '1xPK-A',
	spec => jsonb_build_object('cache', 'k' || n)))
FROM generate_series(10, 49) n;
SELECT length(pg_temp.placed('pk-many')) > 0 AS started;
SELECT count(*), min(cache), max(cache) FROM gpucredit.node_cache
WHERE node = 'pk-many-n1';

-- A preference puts its kind of place first
SELECT pg_temp.scene('pk-prefer', '{}', 'n1 A 4 0 l1 d1', 'n2 A 4 0 l2 d1',
	'n3 A 4 0 l3 d2', 'n4 A 4 0 l3 d3');
SELECT pg_temp.ask('pk-prefer', 'a', '8xPK-A', options => '{"prefer": "leaf"}');
SELECT pg_temp.placed('pk-prefer') AS one_leaf;
SELECT pg_temp.ask('pk-prefer', 'b', '8xPK-A',
	options => '{"prefer": "nvlink"}');
SELECT pg_temp.placed('pk-prefer') AS one_domain;

-- a share takes memory of its device: after a quarter that wants 15 GB 2 GB
-- are left
SELECT gpucredit.create_pool('pk-mem', '{"reclaim": false}');
SELECT gpucredit.register_node('pk-mem', 'pk-mem-n1', 'PK-A', 1, 16384);
SELECT n, pg_temp.ask('pk-mem', 'a' || n, '0.25xPK-A@15GB')
FROM generate_series(1, 4) n;
-- no device has so much, so the pool could never run it
SELECT pg_temp.ask('pk-mem', 'never', '0.25xPK-A@18GB');
SELECT gpu_type, share, count(*) FROM gpucredit.plan('pk-mem') GROUP BY 1, 2;
SELECT node, count(*) FROM gpucredit.plan_with('pk-mem',
	'{"nodes": [{"name": "pk-mem-n2", "gpu_type": "PK-A", "gpus": 2, "gpu_memory_mib": 16384}]}')
WHERE action = 'start' GROUP BY 1 ORDER BY 1;
SELECT pg_temp.placed('pk-mem') AS one, pg_temp.placed('pk-mem') AS no_other;
SELECT x.check_name, x.detail FROM gpucredit.job j,
	gpucredit.explain(j.org, j.job) x
WHERE j.pool = 'pk-mem' AND j.state = 'queued' AND NOT x.passes
	AND x.check_name = 'free' ORDER BY j.job LIMIT 1;
SELECT gpu_memory_mib, count(*) FROM gpucredit.attempt_gpu
WHERE pool = 'pk-mem' GROUP BY 1;
-- the rest serves a job that wants that much; without a floor a job takes as
-- much of the memory as of the device
SELECT pg_temp.ask('pk-mem', 'b', '0.5xPK-A'),
	pg_temp.ask('pk-mem', 'c', '0.5xPK-A@1GiB'),
	pg_temp.ask('pk-mem', 'd', '0.1xPK-A');
SELECT pg_temp.placed('pk-mem') AS a_gigabyte_and_none_else;
SELECT share, gpu_memory_mib FROM gpucredit.attempt_gpu WHERE pool = 'pk-mem'
ORDER BY job;
-- its node cannot be registered with less memory than its jobs have
SELECT gpucredit.register_node('pk-mem', 'pk-mem-n1', 'PK-A', 1, 15000);
SELECT gpucredit.register_node('pk-mem', 'pk-mem-n1', 'PK-A', 1, 15330);
SELECT gpucredit.register_node('pk-mem', 'pk-mem-n1', 'PK-A', 1, 16384);
-- a job that ends gives it back
SELECT job_state FROM gpucredit.settle('pk', (SELECT min(job)
	FROM gpucredit.job WHERE pool = 'pk-mem' AND state = 'active'), 1,
	'completed');
SELECT pg_temp.placed('pk-mem') AS another;
-- verify() finds floors that pass the memory, and one that is not the job's
BEGIN;
UPDATE gpucredit.attempt_gpu SET gpu_memory_mib = 2079
WHERE pool = 'pk-mem' AND NOT free AND share = 500;
SELECT invariant, substring(detail, '^\d+ MiB of \d+') AS detail
FROM gpucredit.verify() ORDER BY invariant COLLATE "C";
ROLLBACK;
BEGIN;
UPDATE gpucredit.attempt_gpu SET gpu_memory_mib = 0
WHERE pool = 'pk-mem' AND NOT free AND share = 500;
SELECT invariant, substring(detail, '^\d+ MiB of \d+') AS detail
FROM gpucredit.verify() ORDER BY invariant COLLATE "C";
ROLLBACK;
-- a share without a floor takes its part of the node's memory when the node
-- comes back
SELECT gpucredit.create_pool('pk-back', '{"reclaim": false}');
SELECT gpucredit.register_node('pk-back', 'pk-back-n1', 'PK-A', 1, 16384);
SELECT pg_temp.ask('pk-back', 'a', '0.5xPK-A'),
	pg_temp.ask('pk-back', 'b', '0.5xPK-A@12GiB');
SELECT pg_temp.placed('pk-back') AS one_half;
SELECT gpucredit.register_node('pk-back', 'pk-back-n1', 'PK-A', 1, 24576);
SELECT pg_temp.placed('pk-back') AS the_other;
SELECT gpucredit.register_node('pk-back', 'pk-back-n1', 'PK-A', 1, 24574);
SELECT gpucredit.register_node('pk-back', 'pk-back-n1', 'PK-A', 1, 24575);
SELECT * FROM gpucredit.verify();

-- a job's placement: nodes, excluded nodes, labels, GPUs on each node
SELECT gpucredit.create_pool('pk-on');
SELECT gpucredit.register_node('pk-on', 'pk-on-n' || n, 'PK-A', 2, 40960,
	labels => l::jsonb)
FROM (VALUES (1, '{}'), (2, '{"disk": "nvme", "ib": true}'),
	(3, '{"disk": "sata"}'), (4, '{"disk": "nvme", "gen": 4}')) v (n, l);
SELECT k, pg_temp.ask('pk-on', k, r, options => jsonb_build_object('placement', o::jsonb))
FROM (VALUES ('named', '1xPK-A', '{"nodes": ["pk-on-n3", "no such"]}'),
	('labelled', '1xPK-A', '{"labels": ["disk=nvme"], "exclude": ["pk-on-n4"]}'),
	('either', '1xPK-A', '{"labels": [["gen=4", "gen=5"], "disk"]}'),
	('each', '2xPK-A', '{"gpus_per_node": 1, "exclude": ["pk-on-n2"]}'),
	('nowhere', '1xPK-A', '{"labels": ["disk=tape"]}'),
	('too many', '6xPK-A', '{"labels": ["disk=nvme"]}'),
	('no room', '8xPK-A', '{"gpus_per_node": 1}')) v (k, r, o);
SELECT pg_temp.placed('pk-on') AS where_allowed;
-- a label that leaves while a job waits: explain() says so; it comes back
SELECT pg_temp.ask('pk-on', 'waits', '1xPK-A',
	options => '{"placement": {"labels": ["ib=true"]}}');
SELECT gpucredit.register_node('pk-on', 'pk-on-n2', 'PK-A', 2, 40960);
SELECT count(*) AS not_allowed_anywhere FROM gpucredit.jobs j,
	gpucredit.explain(j.org, j.job) e
WHERE j.pool = 'pk-on' AND j.state = 'queued' AND NOT e.passes
	AND e.check_name = 'placement';
SELECT pg_temp.placed('pk-on') AS not_without_the_label;
SELECT gpucredit.register_node('pk-on', 'pk-on-n2', 'PK-A', 2, 40960,
	labels => '{"ib": true}');
SELECT pg_temp.placed('pk-on') AS with_the_label;
-- what is no placement
SELECT pg_temp.ask('pk-on', 'bad', '3xPK-A', options => '{"placement": {"gpus_per_node": 2}}');
SELECT pg_temp.ask('pk-on', 'bad', '1-2xPK-A', options => '{"placement": {"gpus_per_node": 1}}');
SELECT pg_temp.ask('pk-on', 'bad', '1xPK-A', options => '{"placement": {"nodes": []}}');
SELECT pg_temp.ask('pk-on', 'bad', '1xPK-A', options => '{"placement": {"nodes": "n1"}}');
SELECT pg_temp.ask('pk-on', 'bad', '1xPK-A', options => '{"placement": {"rack": ["a"]}}');
SELECT pg_temp.ask('pk-on', 'bad', '1xPK-A', options => jsonb_build_object('placement',
	jsonb_build_object('exclude', (SELECT jsonb_agg(n::text) FROM generate_series(1, 65) n))));
SELECT * FROM gpucredit.verify();

SELECT gpucredit.create_pool('pk-bad', '{"packing": "tight"}');
SELECT * FROM gpucredit.verify();
