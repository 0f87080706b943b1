/*
 * 70_sched.sql: the scheduling cycle of a pool.
 *
 * Claims belong to their pool: the holder of the pool's lock makes and ends
 * them, and a job's end deletes its own claim.  They name jobs of several
 * tenants and reference none.
 */
CREATE TABLE gpucredit.claim (
	pool text COLLATE "C" NOT NULL,
	org text COLLATE "C" NOT NULL,
	job bigint NOT NULL,
	attempt int NOT NULL,		/* the job's last, that it was made after */
	account text COLLATE "C" NOT NULL,
	why text NOT NULL,
	gpu_type text COLLATE "C",	/* NULL: no GPUs */
	share int NOT NULL,
	made_at timestamptz NOT NULL,
	turn int NOT NULL,			/* among those made at that instant */
	until timestamptz NOT NULL,
	CONSTRAINT claim_pkey PRIMARY KEY (pool, org, job)
);
COMMENT ON TABLE gpucredit.claim IS
'Jobs that exact devices are promised to: waiting ones, until those who have the devices have left, and running ones that are to go on there';
COMMENT ON COLUMN gpucredit.claim.pool IS 'The pool''s name.';
COMMENT ON COLUMN gpucredit.claim.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit.claim.job IS 'The job''s number.';
COMMENT ON COLUMN gpucredit.claim.attempt IS 'The job''s last attempt before the claim.';
COMMENT ON COLUMN gpucredit.claim.account IS 'A path below the organisation; '''' is the organisation itself.';
COMMENT ON COLUMN gpucredit.claim.why IS 'Why others leave them to it: tier, entitlement, move, shrink or grow.';
COMMENT ON COLUMN gpucredit.claim.gpu_type IS 'The type of the devices; NULL: none.';
COMMENT ON COLUMN gpucredit.claim.share IS 'Thousandths of each device.';
COMMENT ON COLUMN gpucredit.claim.made_at IS 'When it was made.';
COMMENT ON COLUMN gpucredit.claim.turn IS 'Among those made at that instant.';
COMMENT ON COLUMN gpucredit.claim.until IS 'It ends then, whether or not the devices are free.';

CREATE TABLE gpucredit.claim_gpu (
	pool text COLLATE "C" NOT NULL,
	org text COLLATE "C" NOT NULL,
	job bigint NOT NULL,
	node text COLLATE "C" NOT NULL,
	gpus gpucredit.gpuset NOT NULL,
	cpu_milli bigint NOT NULL,
	memory_mib bigint NOT NULL,
	gpu_memory_mib bigint NOT NULL,	/* as of attempt_gpu */
	CONSTRAINT claim_gpu_pkey PRIMARY KEY (pool, org, job, node)
);
COMMENT ON TABLE gpucredit.claim_gpu IS
'The devices of a claim, a row per node';
COMMENT ON COLUMN gpucredit.claim_gpu.pool IS 'The pool''s name.';
COMMENT ON COLUMN gpucredit.claim_gpu.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit.claim_gpu.job IS 'The job''s number.';
COMMENT ON COLUMN gpucredit.claim_gpu.node IS 'The node''s name.';
COMMENT ON COLUMN gpucredit.claim_gpu.gpus IS 'Devices that are promised, numbered from 0.';
COMMENT ON COLUMN gpucredit.claim_gpu.cpu_milli IS 'Thousandths of a core that are promised.';
COMMENT ON COLUMN gpucredit.claim_gpu.gpu_memory_mib IS 'Of each device, the memory that a share asked for at least, in MiB; 0: it takes share x memory.';
COMMENT ON COLUMN gpucredit.claim_gpu.memory_mib IS 'Main memory that is promised, in MiB.';

CREATE TABLE gpucredit.eviction (
	pool text COLLATE "C" NOT NULL,
	org text COLLATE "C" NOT NULL,
	job bigint NOT NULL,
	attempt int NOT NULL,
	account text COLLATE "C" NOT NULL,
	for_org text COLLATE "C" NOT NULL,
	for_job bigint NOT NULL,
	why text NOT NULL,
	at timestamptz NOT NULL,
	CONSTRAINT eviction_pkey PRIMARY KEY (pool, org, job, attempt)
);
COMMENT ON TABLE gpucredit.eviction IS
'Attempts that were told to leave, and the claim it was for; as long as that stands';
COMMENT ON COLUMN gpucredit.eviction.pool IS 'The pool''s name.';
COMMENT ON COLUMN gpucredit.eviction.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit.eviction.job IS 'The job''s number.';
COMMENT ON COLUMN gpucredit.eviction.attempt IS 'Which run of the job, from 1.';
COMMENT ON COLUMN gpucredit.eviction.account IS 'Whose job it was.';
COMMENT ON COLUMN gpucredit.eviction.for_org IS 'The organisation whose job gets the devices.';
COMMENT ON COLUMN gpucredit.eviction.for_job IS 'The job that gets the devices.';
COMMENT ON COLUMN gpucredit.eviction.why IS 'tier, entitlement, move, shrink or grow.';
COMMENT ON COLUMN gpucredit.eviction.at IS 'When it was decided.';

SELECT pg_catalog.pg_extension_config_dump('gpucredit.claim', '');
SELECT pg_catalog.pg_extension_config_dump('gpucredit.claim_gpu', '');
SELECT pg_catalog.pg_extension_config_dump('gpucredit.eviction', '');

/* A pool's statistics of its starts; only its cycle writes them. */
CREATE TABLE gpucredit.workload_mix (
	pool text COLLATE "C" NOT NULL,
	day timestamptz NOT NULL,	/* UTC */
	request gpucredit.gpureq NOT NULL,
	cpu_milli bigint NOT NULL,	/* of the whole job */
	memory_mib bigint NOT NULL,
	jobs bigint NOT NULL,
	CONSTRAINT workload_mix_pkey
		PRIMARY KEY (pool, day, request, cpu_milli, memory_mib)
);
COMMENT ON TABLE gpucredit.workload_mix IS
'How many jobs started for the first time, by day and by what they ask; kept for 7 days';
COMMENT ON COLUMN gpucredit.workload_mix.pool IS 'The pool''s name.';
COMMENT ON COLUMN gpucredit.workload_mix.day IS 'When the day began, in UTC.';
COMMENT ON COLUMN gpucredit.workload_mix.request IS 'What jobs asked for.';
COMMENT ON COLUMN gpucredit.workload_mix.cpu_milli IS 'Thousandths of a core, of the whole job.';
COMMENT ON COLUMN gpucredit.workload_mix.memory_mib IS 'Main memory of the whole job, in MiB.';
COMMENT ON COLUMN gpucredit.workload_mix.jobs IS 'How many such jobs were submitted.';

CREATE TABLE gpucredit.node_cache (
	org text COLLATE "C" NOT NULL,
	cache text COLLATE "C" NOT NULL,	/* spec.cache of the job */
	node text COLLATE "C" NOT NULL,
	pool text COLLATE "C" NOT NULL,
	used_at timestamptz NOT NULL,
	CONSTRAINT node_cache_pkey PRIMARY KEY (org, cache, node)
);
CREATE INDEX node_cache_pool ON gpucredit.node_cache (pool, node);
COMMENT ON TABLE gpucredit.node_cache IS
'Which nodes lately started jobs of a cache key, the last 32 keys of each node';
COMMENT ON COLUMN gpucredit.node_cache.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit.node_cache.cache IS 'spec.cache of the jobs.';
COMMENT ON COLUMN gpucredit.node_cache.node IS 'The node''s name.';
COMMENT ON COLUMN gpucredit.node_cache.pool IS 'The pool''s name.';
COMMENT ON COLUMN gpucredit.node_cache.used_at IS 'When the last of them started there.';

DO $dump$
DECLARE
	name text;
BEGIN
	FOREACH name IN ARRAY ARRAY['workload_mix', 'node_cache']
	LOOP
		PERFORM pg_catalog.pg_extension_config_dump(
			('gpucredit.' || name)::regclass, '');
	END LOOP;
END
$dump$;

/*
 * Each cycle reserves again; this keeps it from telling the audit log the same
 * again, and lets it reserve the same devices where nothing is earlier.
 */
CREATE TABLE gpucredit.reservation (
	org text COLLATE "C" NOT NULL,
	job bigint NOT NULL,
	pool text COLLATE "C" NOT NULL,
	at timestamptz NOT NULL,	/* the expected start */
	nodes text NOT NULL,
	told_at timestamptz NOT NULL,
	/* the next cycle reserves this again, unless it finds an earlier start */
	gpu_type text,				/* NULL: no GPUs */
	on_nodes text[] NOT NULL,	/* by name */
	gpus gpucredit.gpuset[] NOT NULL,
	CONSTRAINT reservation_pkey PRIMARY KEY (pool, org, job)
);
COMMENT ON TABLE gpucredit.reservation IS
'What was last reserved for jobs that wait, as the audit log was told';
COMMENT ON COLUMN gpucredit.reservation.org IS 'The organisation.';
COMMENT ON COLUMN gpucredit.reservation.job IS 'The job''s number.';
COMMENT ON COLUMN gpucredit.reservation.pool IS 'The pool''s name.';
COMMENT ON COLUMN gpucredit.reservation.at IS 'When it is expected to start.';
COMMENT ON COLUMN gpucredit.reservation.nodes IS 'The nodes, as a text.';
COMMENT ON COLUMN gpucredit.reservation.told_at IS 'When a cycle last said so.';
COMMENT ON COLUMN gpucredit.reservation.gpu_type IS 'The type of the devices; NULL: none.';
COMMENT ON COLUMN gpucredit.reservation.on_nodes IS 'The nodes, by name.';
COMMENT ON COLUMN gpucredit.reservation.gpus IS 'Of each node, the devices.';

SELECT pg_catalog.pg_extension_config_dump('gpucredit.reservation', '');

CREATE TYPE gpucredit.place_result AS (action text, org text, job bigint,
	attempt int, node text, gpus gpucredit.gpuset, share int, gpu_type text,
	per_gpu_hour numeric, reason text);
COMMENT ON TYPE gpucredit.place_result IS
'What a cycle of the scheduler decided: a row a job and node.';

CREATE FUNCTION gpucredit.place(pool text DEFAULT 'default',
	max_starts int DEFAULT NULL) RETURNS SETOF gpucredit.place_result
LANGUAGE c VOLATILE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_place';
COMMENT ON FUNCTION gpucredit.place(text, int) IS
'Scheduling: one scheduling cycle of a pool; never waits for a tenant''s rows.
max_starts: at most so many jobs, NULL for gpucredit.max_starts.
Result: action start, a row per node of each job started (share in thousandths of a GPU), in the order decided. claim: a row per node of devices promised to a job. preempt: a row per node of each job that is told to save and leave for a claim, or for a running job that grows into what its account is entitled to. resize, move: a row per node where a running job is told to go on with fewer or more devices, or elsewhere. busy: one row, where another cycle is running. reason: tier, entitlement, move, shrink, grow.
Errors: UC401 no such pool; 22023; 40001 at REPEATABLE READ and up where another cycle committed since the snapshot.';

CREATE TYPE gpucredit.placed_result AS (attempt int, gpu_type text,
	per_gpu_hour numeric, held numeric, replayed boolean);
COMMENT ON TYPE gpucredit.placed_result IS
'An attempt that another scheduler placed: its number, type, price, and what is held for it.';

CREATE FUNCTION gpucredit.placed(org text, job bigint, key text, nodes text[],
	gpus gpucredit.gpuset[], gpu_type text DEFAULT NULL,
	ran interval DEFAULT NULL)
RETURNS gpucredit.placed_result
LANGUAGE c VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_placed';
COMMENT ON FUNCTION gpucredit.placed(text, bigint, text, text[],
	gpucredit.gpuset[], text, interval) IS
'Scheduling: another scheduler has placed a job of a pool whose policy says "placed_by": "foreign"; makes the attempt.
nodes: registered in the pool, each once. gpus: of each node, the devices, alongside; empty sets for a job without GPUs. gpu_type: of all nodes; NULL: take theirs. ran: for how long it has run already, where that is told late; NULL: it starts now. It lets meter and settle bill that time, from the submission on at most, and is no part of what the key stands for.
Result: the attempt''s number, its type and price as reserve fixed it for that type, what is held for it (a surplus returns at once), replayed.
Errors: UC202; UC301 no such job; UC303 the pool is not foreign; the job is over, unfunded, running, or not offered that type; a node is not registered in the pool; a device is another attempt''s (which the detail names); a quota allows no more, or stayed locked for two seconds; UC201; 22023.';

CREATE TYPE gpucredit.explain_result AS (check_name text, passes boolean,
	detail text);
COMMENT ON TYPE gpucredit.explain_result IS
'One check that a job passes or does not pass, with its figures.';

CREATE FUNCTION gpucredit.explain(org text, job bigint)
RETURNS SETOF gpucredit.explain_result
LANGUAGE c STABLE SECURITY DEFINER ROWS 20
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_explain';
COMMENT ON FUNCTION gpucredit.explain(text, bigint) IS
'Jobs: why a job waits, or where it stands.
Result: a row per check, in the order in which they are made, whether it stands in no one''s way, and its numbers, with what would have to change: state, leaving (a row for each thing a running job was told to leave for; where that is a reclaimed node, when its turn to save comes and whether it is promised to be through by then), account, credit, backoff, earlier attempt (not known to be gone), quota (a row each), order, turn, claim (devices promised to it, when they are expected to be free, and until when), quota again (one that is used up by what else starts now, or is promised in any pool), type, gpu_memory, spot, topology, nodes, free, together, cpu, host_memory, reserved (with the longest wall limit that would start it now), kept (devices nothing is known to run on, not seen free yet), preemption (why one that may make others leave does not yet), reservation (the expected start, and by when at the latest). What comes after the check that fails in the pool is not told. Free is what nobody has or is promised, whether or not it is reserved; what must come free, end or be shorter was tried. A tenant is not told how many others wait or run.
Errors: UC301 no such job; 22023.';

CREATE FUNCTION gpucredit.plan(pool text DEFAULT 'default')
RETURNS SETOF gpucredit.place_result
LANGUAGE c STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_plan';
COMMENT ON FUNCTION gpucredit.plan(text) IS
'Scheduling: what place would do now, changing nothing.
Result: the rows of place. Errors: UC401 no such pool; 22023.';

CREATE TYPE gpucredit.plan_with_result AS (action text, org text, job bigint,
	attempt int, node text, gpus gpucredit.gpuset, share int, gpu_type text,
	per_gpu_hour numeric, reason text, expected_at timestamptz);
COMMENT ON TYPE gpucredit.plan_with_result IS
'What a cycle would decide, and when what is supposed would start.';

CREATE FUNCTION gpucredit.plan_with(pool text, what jsonb)
RETURNS SETOF gpucredit.plan_with_result
LANGUAGE c STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_plan_with';
COMMENT ON FUNCTION gpucredit.plan_with(text, jsonb) IS
'Scheduling: what place would do now if there were more nodes or jobs, changing nothing.
what: {"nodes": [..], "jobs": [..]}, at most 8 kB. A node has name, and the other arguments of register_node as words; a job has org, and the other arguments of reserve but key and pool; what has a default there may be left out, and so may account. "count": n stands for n of them, of nodes named name-1 to name-n; 10,000 nodes and 10,000 jobs at most. Nodes are idle and just registered. Jobs are just submitted, and their credit is taken to be there; what else reserve looks at, it looks at, for each as if it were the only one (max_queued does not count those supposed beside it).
Result: the rows of place, and when a job would start: now, where it does. A supposed job has a number below 0: -1 for the first, counting each of a "count". Where it does not start now, action is wait, with why. There is a row for each node that would be reserved for it, with its expected start. There is one row without a node where nothing would be reserved yet, as too many come before it (gpucredit.backfill_depth). Where reserve would deny it, action is denied, with the reason.
Errors: UC401 no such pool; 22023 unknown word, bad value, node that is there already; else as register_node and reserve.';

CREATE TYPE gpucredit.reservation_result AS (org text, job bigint,
	attempt int, node text, gpus gpucredit.gpuset, share int, gpu_type text,
	expected_at timestamptz, latest_at timestamptz);
COMMENT ON TYPE gpucredit.reservation_result IS
'The devices of one node that wait for a job, and from when on.';

CREATE FUNCTION gpucredit.reservations(pool text DEFAULT 'default')
RETURNS SETOF gpucredit.reservation_result
LANGUAGE c STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_reservations';
COMMENT ON FUNCTION gpucredit.reservations(text) IS
'Scheduling: what a cycle of the pool would now reserve for jobs that cannot start, changing nothing.
Result: a row per node of each reservation, in the order of the queue: share in thousandths of a GPU; expected_at, when the job is expected to start there; latest_at, when it does if all that runs before it takes as long as it may, NULL where something has no limit.
Errors: UC401 no such pool; 22023.';

CREATE TYPE gpucredit.fair_share_result AS (org text, account text,
	weight numeric, decayed numeric, live numeric, share numeric,
	used numeric, rank int);
COMMENT ON TYPE gpucredit.fair_share_result IS
'An account in a pool: its weight, its use, and its turn.';

CREATE FUNCTION gpucredit.fair_share(pool text DEFAULT 'default')
RETURNS SETOF gpucredit.fair_share_result
LANGUAGE c STABLE SECURITY DEFINER ROWS 1000
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_fair_share';
COMMENT ON FUNCTION gpucredit.fair_share(text) IS
'Scheduling: how the accounts of a pool stand in fair share: all of the organisations that used it, use it or wait for it.
Result, of each account and all below it: weight among its siblings; decayed, GPU-hours used so far, half of it forgotten in each gpucredit.usage_halflife; live, GPUs it has now; both count a GPU as its type''s price over the pool''s cheapest. share: the fraction of the pool due to it by weights (an inner account''s own jobs are a child of weight 1). used: its fraction of all use, live counted for gpucredit.fair_horizon. rank: in the order in which accounts'' own jobs go, equals alike.
Errors: UC401 no such pool; 22023.';
