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
	attempt int NOT NULL,		/* the job's last attempt before the claim */
	account text COLLATE "C" NOT NULL,
	why text NOT NULL,
	gpu_type text COLLATE "C",	/* NULL if the job has no GPUs */
	share int NOT NULL,
	made_at timestamptz NOT NULL,
	turn int NOT NULL,			/* its order among claims of the same instant */
	until timestamptz NOT NULL,
	CONSTRAINT claim_pkey PRIMARY KEY (pool, org, job)
);
COMMENT ON TABLE gpucredit.claim IS
'Claims: exact devices promised to a waiting job, or to a running job that moves there, while victims leave';
COMMENT ON COLUMN gpucredit.claim.attempt IS 'The job''s last attempt before the claim.';
COMMENT ON COLUMN gpucredit.claim.why IS 'Why victims leave: tier, entitlement, move, shrink or grow.';
COMMENT ON COLUMN gpucredit.claim.gpu_type IS 'The type of the devices; NULL: none.';
COMMENT ON COLUMN gpucredit.claim.made_at IS 'When it was made.';
COMMENT ON COLUMN gpucredit.claim.turn IS 'Its order among claims made at the same instant.';
COMMENT ON COLUMN gpucredit.claim.until IS 'When it ends, even if the devices are not free.';

CREATE TABLE gpucredit.claim_gpu (
	pool text COLLATE "C" NOT NULL,
	org text COLLATE "C" NOT NULL,
	job bigint NOT NULL,
	node text COLLATE "C" NOT NULL,
	gpus gpucredit.gpuset NOT NULL,
	cpu_milli bigint NOT NULL,
	memory_mib bigint NOT NULL,
	gpu_memory_mib bigint NOT NULL,	/* as in attempt_gpu */
	CONSTRAINT claim_gpu_pkey PRIMARY KEY (pool, org, job, node)
);
COMMENT ON TABLE gpucredit.claim_gpu IS
'The devices of a claim, a row per node';
COMMENT ON COLUMN gpucredit.claim_gpu.gpus IS 'Devices that are promised, numbered from 0.';
COMMENT ON COLUMN gpucredit.claim_gpu.cpu_milli IS 'Thousandths of a core that are promised.';
COMMENT ON COLUMN gpucredit.claim_gpu.gpu_memory_mib IS 'The memory floor of a share, in MiB per device; 0: share x memory.';
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
'Attempts told to leave for a claim, as long as the claim stands';
COMMENT ON COLUMN gpucredit.eviction.account IS 'The account of the evicted job.';
COMMENT ON COLUMN gpucredit.eviction.for_org IS 'The organisation whose job gets the devices.';
COMMENT ON COLUMN gpucredit.eviction.for_job IS 'The job that gets the devices.';
COMMENT ON COLUMN gpucredit.eviction.why IS 'tier, entitlement, move, shrink or grow.';
COMMENT ON COLUMN gpucredit.eviction.at IS 'When it was decided.';

SELECT pg_catalog.pg_extension_config_dump('gpucredit.claim', '');
SELECT pg_catalog.pg_extension_config_dump('gpucredit.claim_gpu', '');
SELECT pg_catalog.pg_extension_config_dump('gpucredit.eviction', '');

/*
 * How often each request was started first in a pool; only the pool's cycles
 * write this table.
 */
CREATE TABLE gpucredit.workload_mix (
	pool text COLLATE "C" NOT NULL,
	day timestamptz NOT NULL,	/* UTC day */
	request gpucredit.gpureq NOT NULL,
	cpu_milli bigint NOT NULL,	/* of the whole job */
	memory_mib bigint NOT NULL,
	jobs bigint NOT NULL,
	CONSTRAINT workload_mix_pkey
		PRIMARY KEY (pool, day, request, cpu_milli, memory_mib)
);
COMMENT ON TABLE gpucredit.workload_mix IS
'How many jobs had their first start on each day, by request; kept for 7 days';
COMMENT ON COLUMN gpucredit.workload_mix.day IS 'When the day began, in UTC.';
COMMENT ON COLUMN gpucredit.workload_mix.request IS 'What jobs asked for.';
COMMENT ON COLUMN gpucredit.workload_mix.cpu_milli IS 'Thousandths of a core, for the whole job.';
COMMENT ON COLUMN gpucredit.workload_mix.memory_mib IS 'Main memory for the whole job, in MiB.';
COMMENT ON COLUMN gpucredit.workload_mix.jobs IS 'How many such jobs started.';

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
'The last 32 cache keys of each node, from jobs that it started';
COMMENT ON COLUMN gpucredit.node_cache.cache IS 'The cache key: spec.cache of the jobs.';
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
 * Each cycle decides its reservations anew.  From this table it knows the
 * previous ones: it reserves the same devices again unless a job can start
 * earlier, and it does not write the same audit row again.  The table also has
 * the latest start that each job was guaranteed, which later cycles keep.
 */
CREATE TABLE gpucredit.reservation (
	org text COLLATE "C" NOT NULL,
	job bigint NOT NULL,
	pool text COLLATE "C" NOT NULL,
	at timestamptz NOT NULL,	/* expected start */
	nodes text NOT NULL,
	told_at timestamptz NOT NULL,
	/*
	 * What was reserved; the next cycle reserves the same unless a job can
	 * start earlier.
	 */
	gpu_type text,				/* NULL if the job has no GPUs */
	on_nodes text[] NOT NULL,	/* sorted by name */
	gpus gpucredit.gpuset[] NOT NULL,
	limit_at timestamptz,		/* NULL if a job that must end first has no wall limit */
	latest_at timestamptz,		/* NULL if none is guaranteed */
	CONSTRAINT reservation_pkey PRIMARY KEY (pool, org, job),
	CONSTRAINT reservation_latest_check CHECK (latest_at >= limit_at)
);
COMMENT ON TABLE gpucredit.reservation IS
'The last reservation of each waiting job, as the audit log has it';
COMMENT ON COLUMN gpucredit.reservation.at IS 'When it is expected to start.';
COMMENT ON COLUMN gpucredit.reservation.nodes IS 'The nodes, as a text.';
COMMENT ON COLUMN gpucredit.reservation.told_at IS 'When a cycle last wrote it to the audit log.';
COMMENT ON COLUMN gpucredit.reservation.gpu_type IS 'The type of the devices; NULL: none.';
COMMENT ON COLUMN gpucredit.reservation.on_nodes IS 'The nodes, by name.';
COMMENT ON COLUMN gpucredit.reservation.gpus IS 'The devices on each node.';
COMMENT ON COLUMN gpucredit.reservation.limit_at IS 'When it starts if everything before it runs to its wall limit; NULL: that is not known.';
COMMENT ON COLUMN gpucredit.reservation.latest_at IS 'The latest start that the job was guaranteed; NULL: none.';

SELECT pg_catalog.pg_extension_config_dump('gpucredit.reservation', '');

CREATE TYPE gpucredit.place_result AS (action text, org text, job bigint,
	attempt int, node text, gpus gpucredit.gpuset, share int, gpu_type text,
	per_gpu_hour numeric, reason text);
COMMENT ON TYPE gpucredit.place_result IS
'What a cycle decided: one row per job and node.';

CREATE FUNCTION gpucredit.place(pool text DEFAULT 'default',
	max_starts int DEFAULT NULL) RETURNS SETOF gpucredit.place_result
LANGUAGE c VOLATILE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_place';
COMMENT ON FUNCTION gpucredit.place(text, int) IS
'Scheduling: runs one scheduling cycle of a pool. It never waits for a tenant''s rows.
max_starts: the most jobs to start, NULL for gpucredit.max_starts.
Result, by action. start: a row per node of each started job, in the order decided, share in thousandths of a GPU. claim: a row per node of devices promised to a job. preempt: a row per node of each job that is told to save and leave, for a claim or for a running job that grows into its entitlement. resize, move: a row per node where a running job is told to go on with fewer or more devices, or elsewhere. cancel: a row per waiting job that the cycle cancels, because it would end after its deadline or what it waits for can never hold (options deadline and kill_on_invalid_dep of reserve). busy: one row, another cycle is running. reason: deadline, dependency, tier, entitlement, move, shrink, grow.
Errors: UC401 no such pool; 22023; 40001 at REPEATABLE READ and up if another cycle committed since the snapshot.';

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
Errors: 42501 a node has a key and the caller did not prove it; UC301 no such job; UC303 the pool is not foreign; the job is over, unfunded, running, or not offered that type; a node is not registered in the pool; a device is another attempt''s (which the detail names); a quota allows no more, or stayed locked for two seconds; UC201; 22023.';

CREATE TYPE gpucredit.explain_result AS (check_name text, passes boolean,
	detail text);
COMMENT ON TYPE gpucredit.explain_result IS
'One check of a job, whether it passes, and its figures.';

CREATE FUNCTION gpucredit.explain(org text, job bigint)
RETURNS SETOF gpucredit.explain_result
LANGUAGE c STABLE SECURITY DEFINER ROWS 20
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_explain';
COMMENT ON FUNCTION gpucredit.explain(text, bigint) IS
'Jobs: says why a job waits, or where it stands.
Result: a row per check, in the order in which cycles make them: whether the job passes it, its figures, and what would have to change. state; last attempt: once it is over, how it ended, its exit code, its bill and what was reported of its end; retry: the rule by which it is tried again or not; advice: what the rule advises; leaving: what a running job was told to leave for, a row each, and for a reclaimed node when its turn to save comes and whether it is promised; account; credit; backoff; guarantee: the last guaranteed start that was given up since its last attempt, and what broke it (a node, a job of a tier that may go before it, quotas, a job past its wall limit, or a change of nodes, limits or settings); earlier attempt: not known to be gone; quota: a row each; order; turn; claim: devices promised to it, when they are expected to be free, and until when the claim lasts; quota again: used up by jobs that start now or are promised in any pool; type, gpu_memory, spot, topology, nodes, free, together, cpu, host_memory; reserved: with the longest wall limit that would start it now; kept: devices fenced until they are seen free; preemption: why it does not preempt yet, if it may; reservation: the expected start, that by wall limits, and the latest one, which is guaranteed. Checks after the first that fails in the pool are not shown. Free means that nobody has the device or a claim on it, whether or not it is reserved; what must come free, end or be shorter was tried. A tenant is not told how many other jobs wait or run.
Errors: UC301 no such job; 22023.';

CREATE FUNCTION gpucredit.plan(pool text DEFAULT 'default')
RETURNS SETOF gpucredit.place_result
LANGUAGE c STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_plan';
COMMENT ON FUNCTION gpucredit.plan(text) IS
'Scheduling: shows what place would do now. It changes nothing.
Result: the rows of place. Errors: UC401 no such pool; 22023.';

CREATE TYPE gpucredit.plan_with_result AS (action text, org text, job bigint,
	attempt int, node text, gpus gpucredit.gpuset, share int, gpu_type text,
	per_gpu_hour numeric, reason text, expected_at timestamptz);
COMMENT ON TYPE gpucredit.plan_with_result IS
'What a cycle would decide, and when supposed jobs would start.';

CREATE FUNCTION gpucredit.plan_with(pool text, what jsonb)
RETURNS SETOF gpucredit.plan_with_result
LANGUAGE c STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_plan_with';
COMMENT ON FUNCTION gpucredit.plan_with(text, jsonb) IS
'Scheduling: shows what place would do now with more nodes or jobs. It changes nothing.
what: {"nodes": [..], "jobs": [..]}, at most 8 kB. A node has name, and the other arguments of register_node as words. A job has org, and the other arguments of reserve but key and pool. Arguments with a default, and account, may be left out. "count": n stands for n of them, of nodes named name-1 to name-n; at most 10,000 nodes and 10,000 jobs. Nodes are idle and just registered. Jobs are just submitted, and their credit is taken to be there. All else that reserve checks is checked for each job as if it were the only one, so max_queued does not count other supposed jobs.
Result: the rows of place, and when a job would start: now, if it does. A supposed job has a negative number: -1 for the first, counting each of a "count". If it does not start now, action is wait, with why: a row for each node that would be reserved for it, with its expected start. One row without a node means that nothing would be reserved yet, because too many jobs come first (gpucredit.backfill_depth). A job that may not start whatever is free waits for hold, begin, dependency, array or deadline, as its options say. If reserve would deny it, action is denied, with the reason.
Errors: UC401 no such pool; 22023 unknown word, bad value, or a node that exists; else as register_node and reserve.';

CREATE TYPE gpucredit.quote_result AS (decision text, reason text,
	held numeric, cost numeric, per_hour numeric, resources numeric,
	price_factor numeric, discount numeric, wall_limit interval,
	held_for interval, offers jsonb, buckets jsonb, payable numeric,
	budget_left numeric, starts text, waits_for text,
	expected_at timestamptz, latest_at timestamptz);
COMMENT ON TYPE gpucredit.quote_result IS
'What a job would cost, who would pay for it, and when it would start.';

/* quote() is STABLE, because it changes nothing and also runs on a standby. */
CREATE FUNCTION gpucredit.quote(org text, account text, request text,
	wall_limit interval DEFAULT NULL, tier text DEFAULT 'standard_training',
	pool text DEFAULT 'default', topology text DEFAULT 'any',
	preemptible text DEFAULT NULL, max_retries int DEFAULT 3,
	cpu_milli bigint DEFAULT 0, memory_mib bigint DEFAULT 0,
	hold_window interval DEFAULT NULL, spec jsonb DEFAULT '{}',
	options jsonb DEFAULT '{}', plan boolean DEFAULT true)
RETURNS gpucredit.quote_result
LANGUAGE c STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_quote';
COMMENT ON FUNCTION gpucredit.quote(text, text, text, interval, text, text,
	text, text, int, bigint, bigint, interval, jsonb, jsonb, boolean) IS
'Jobs: what reserve() would answer now to the same arguments, at which prices, and when the job would start. It changes nothing, waits for nobody, and its denials are recorded nowhere. It promises nothing: prices, credit and the queue may have changed when reserve() is called.
Arguments: as reserve, without a key. plan: false leaves out when the job would start, for which a scheduling cycle of the pool is planned.
Result, amounts in credits. decision: granted or denied, and reserve''s reason. held: what is held, or would be if the credit were there; NULL, as other prices, if no type can be offered. cost: what a run up to the wall limit costs at the dearest price. per_hour: the dearest price of an hour of the whole job; resources: the part of cpu and memory. price_factor: the tier''s; discount: by how much it lowers held. wall_limit, held_for: the run time that is allowed, and that held covers. offers: the types in the order in which they are tried, each with gpu_type, gpu_memory (bytes at least), list_per_gpu_hour (without the tier''s factor), per_gpu_hour, share (thousandths of each GPU that are paid), per_hour (of the whole job) and, for jobs that may run on spot nodes, spot_per_gpu_hour and spot_per_hour; buckets: those that pay, in that order, each with bucket, account, kind, expires_at and amount; amounts in both are texts. payable: the most that the account''s buckets would pay for such a job; budget_left: what the hard budgets on its path leave, NULL for none; both NULL if it is denied before its credit is looked for.
starts, if it is granted and planned: now; soon (running jobs leave for it); later (devices would be reserved for it); waits (nothing would be reserved yet, or it asks to wait); never (its options contradict what is); elsewhere (another scheduler places in the pool). waits_for: what for, as explain and plan_with name it. expected_at: when it is expected to start, by how long earlier jobs ran; jobs that come later, but before it in the order of the queue, may move that. latest_at: by when it would be guaranteed to start (see reservations); NULL: no start would be. For tenants both are rounded up: to a minute within an hour, to 15 minutes within a day, else to an hour.
Errors: UC001 no such account; UC301 a job or task that "after" names does not exist; UC401 pool; UC402 tier or GPU type; UC202 rate limited; 22P02 request; 22003 the hold''s amount does not fit; 22007 or 22008 an instant that is none; 22023.';

CREATE TYPE gpucredit.reservation_result AS (org text, job bigint,
	attempt int, node text, gpus gpucredit.gpuset, share int, gpu_type text,
	expected_at timestamptz, latest_at timestamptz, limit_at timestamptz);
COMMENT ON TYPE gpucredit.reservation_result IS
'The devices of one node that are reserved for a job, and from when.';

CREATE FUNCTION gpucredit.reservations(pool text DEFAULT 'default')
RETURNS SETOF gpucredit.reservation_result
LANGUAGE c STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_reservations';
COMMENT ON FUNCTION gpucredit.reservations(text) IS
'Scheduling: shows what a cycle of the pool would now reserve for jobs that cannot start. It changes nothing.
Result: a row per node of each reservation, in the order of the queue. share: thousandths of a GPU. expected_at: when the job is expected to start, by how long earlier jobs of the accounts and tiers ran. latest_at: by when it is guaranteed to start; NULL: no start is guaranteed, as gpucredit.backfill_depth other jobs have a guarantee, or a wall limit is open. limit_at: when it starts if all that holds its devices runs up to its wall limit. A job that comes later, but before it in the order of the queue, may move expected_at and limit_at, but not latest_at. The guaranteed start is twice as far away as limit_at is when the job gets its guarantee, and two days more; what breaks a guarantee is written to the audit log (decision guarantee_broken), and explain shows it.
Errors: UC401 no such pool; 22023.';

CREATE TYPE gpucredit.fair_share_result AS (org text, account text,
	weight numeric, decayed numeric, live numeric, share numeric,
	used numeric, rank int);
COMMENT ON TYPE gpucredit.fair_share_result IS
'An account in a pool: its weight, its use, and its turn.';

CREATE FUNCTION gpucredit.fair_share(pool text DEFAULT 'default',
	org text DEFAULT NULL, most int DEFAULT NULL, after_org text DEFAULT NULL,
	after_account text DEFAULT '')
RETURNS SETOF gpucredit.fair_share_result
LANGUAGE c STABLE SECURITY DEFINER ROWS 1000
SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_fair_share';
COMMENT ON FUNCTION gpucredit.fair_share(text, text, int, text, text) IS
'Scheduling: shows the fair share of the accounts of a pool: of all organisations that used it, use it or wait for it.
org: one organisation; NULL: all. most: at most so many rows; NULL: all. after_org, after_account: the last row of the page before; NULL: from the first.
Result, by organisation and path in byte order, for each account with all below it. weight: among its siblings. decayed: GPU-hours used so far, halved every gpucredit.usage_halflife. live: GPUs it has now. Both count a GPU as its type''s price over the pool''s cheapest. share: the fraction of the pool due to it by weights (an inner account''s own jobs are a child of weight 1). used: its fraction of all use, with live counted for gpucredit.fair_horizon. rank: the order in which accounts'' own jobs go; equal accounts have equal ranks.
Errors: UC401 no such pool; 22023.';
