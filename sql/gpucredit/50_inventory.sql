/*
 * 50_inventory.sql: prices, tiers, pools, nodes.
 *
 * Small tables that all tenants share. Free devices are not stored: they are a
 * node's healthy devices less those of live attempts.
 */
CREATE TABLE gpucredit.price (
	gpu_type text COLLATE "C" NOT NULL,
	pool text COLLATE "C" NOT NULL,		/* '' for all pools */
	spot boolean NOT NULL,
	effective_at timestamptz NOT NULL,
	per_gpu_hour gpucredit.credits NOT NULL,
	revision int NOT NULL DEFAULT 0,
	recorded_at timestamptz NOT NULL DEFAULT gpucredit.now(),
	CONSTRAINT price_pkey PRIMARY KEY (gpu_type, pool, spot, effective_at, revision),
	CONSTRAINT price_not_negative CHECK (per_gpu_hour >= '0'),
	CONSTRAINT price_not_backdated CHECK (effective_at >= recorded_at)
);
COMMENT ON TABLE gpucredit.price IS
'Price history, in which no row ever changes: of the rows whose effective_at is not in the future, the latest applies, and of several with the same effective_at the highest revision';
COMMENT ON COLUMN gpucredit.price.gpu_type IS 'The GPU type; "cpu core" and "memory GiB": a core, and a GiB of main memory.';
COMMENT ON COLUMN gpucredit.price.pool IS 'The pool; '''': every pool.';
COMMENT ON COLUMN gpucredit.price.spot IS 'True: the price on spot nodes.';
COMMENT ON COLUMN gpucredit.price.effective_at IS 'It applies from this instant.';
COMMENT ON COLUMN gpucredit.price.per_gpu_hour IS 'Credits per device, core or GiB, and hour.';
COMMENT ON COLUMN gpucredit.price.revision IS '0, or how often the price for this instant was set anew before.';
COMMENT ON COLUMN gpucredit.price.recorded_at IS 'When it was set.';

/*
 * The built-in tiers are in a table of their own, so that a dump only has
 * those that users created.
 */
CREATE TABLE gpucredit.tier_builtin (
	tier text COLLATE "C" NOT NULL,
	rank int NOT NULL,
	preemptible text NOT NULL,
	can_preempt boolean NOT NULL,
	grace interval NOT NULL,
	min_run interval NOT NULL,
	max_wall interval NOT NULL,
	max_wait interval NOT NULL,
	bill_lost_work boolean NOT NULL,
	price_factor numeric(7, 3) NOT NULL DEFAULT 1,
	open boolean NOT NULL,
	ages_to int,
	CONSTRAINT tier_builtin_pkey PRIMARY KEY (tier)
);
COMMENT ON TABLE gpucredit.tier_builtin IS 'The tiers that every installation has';

INSERT INTO gpucredit.tier_builtin (tier, rank, preemptible, can_preempt, grace,
	min_run, max_wall, max_wait, bill_lost_work, open) VALUES
	('production_inference', 0, 'never', true, '2 min', '10 min', '720 h', '24 h', true, false),
	('premium_training', 1, 'reclaim', true, '2 min', '10 min', '24 h', '24 h', true, false),
	('standard_training', 2, 'capacity', false, '2 min', '10 min', '24 h', '24 h', true, true),
	('batch_inference', 3, 'capacity', false, '2 min', '10 min', '2 h', '24 h', true, true),
	('interactive', 4, 'capacity', false, '2 min', '10 min', '12 h', '24 h', true, true);

CREATE TABLE gpucredit.tier_custom (
	LIKE gpucredit.tier_builtin INCLUDING DEFAULTS,
	CONSTRAINT tier_custom_pkey PRIMARY KEY (tier),
	CONSTRAINT tier_custom_preemptible
		CHECK (preemptible IN ('never', 'reclaim', 'capacity'))
);
COMMENT ON TABLE gpucredit.tier_custom IS
'Tiers set by set_tier; one with a built-in''s name replaces it';

CREATE VIEW gpucredit.tier AS
	SELECT * FROM gpucredit.tier_custom
	UNION ALL
	SELECT * FROM gpucredit.tier_builtin b
	WHERE NOT EXISTS (SELECT FROM gpucredit.tier_custom c
		WHERE c.tier = b.tier);
COMMENT ON VIEW gpucredit.tier IS
'The tiers in force; low rank goes first';

/*
 * How long a job of a tier may leave its GPUs idle.  A tier without a row has
 * no limit.
 */
CREATE TABLE gpucredit.idle_limit (
	tier text COLLATE "C" NOT NULL,
	idle_limit interval NOT NULL,
	idle_warning interval NOT NULL,
	CONSTRAINT idle_limit_pkey PRIMARY KEY (tier)
);
COMMENT ON TABLE gpucredit.idle_limit IS
'How long jobs of a tier may leave their GPUs idle, as set_idle_limit() sets it';
COMMENT ON COLUMN gpucredit.idle_limit.idle_limit IS 'A job ends once its GPUs were idle, and nobody typed in a terminal of it, for so long.';
COMMENT ON COLUMN gpucredit.idle_limit.idle_warning IS 'How long before that its owner is warned; 0: never.';

/*
 * Which accounts may use a tier that is not open to all.  A grant also applies
 * to all accounts below.
 */
CREATE TABLE gpucredit.tier_grant (
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	tier text COLLATE "C" NOT NULL,
	granted_at timestamptz NOT NULL,
	CONSTRAINT tier_grant_pkey PRIMARY KEY (org, account, tier)
);
COMMENT ON TABLE gpucredit.tier_grant IS
'Which accounts, with all below them, may use a tier that is not open to all';
COMMENT ON COLUMN gpucredit.tier_grant.account IS 'The account, which may use the tier with all below it.';
COMMENT ON COLUMN gpucredit.tier_grant.granted_at IS 'When it was granted.';

/*
 * The row of a pool is its lock: each scheduling cycle and each change of the
 * pool's nodes increases cycle.  The row of the default pool is inserted with
 * its first node, not by this script, so that it does not conflict with a
 * restored dump.
 */
CREATE TABLE gpucredit.pool (
	pool text COLLATE "C" NOT NULL,
	policy jsonb NOT NULL,
	cycle bigint NOT NULL DEFAULT 0,	/* counts decisions and changes */
	shape bigint NOT NULL DEFAULT 0,	/* a new number with each change of its nodes */
	created_at timestamptz NOT NULL,
	CONSTRAINT pool_pkey PRIMARY KEY (pool)
) WITH (fillfactor = 50);
COMMENT ON TABLE gpucredit.pool IS 'Sets of nodes scheduled together';
COMMENT ON COLUMN gpucredit.pool.policy IS 'How its cycles decide; create_pool sets it.';
COMMENT ON COLUMN gpucredit.pool.cycle IS 'How many decisions and changes it has had.';
COMMENT ON COLUMN gpucredit.pool.shape IS 'A number that changes whenever its set of nodes does.';

CREATE TABLE gpucredit.node (
	node text COLLATE "C" NOT NULL,
	pool text COLLATE "C" NOT NULL,
	gpu_type text COLLATE "C" NOT NULL,
	gpus int NOT NULL,
	gpu_memory_mib bigint NOT NULL,
	cpu_milli bigint NOT NULL,	/* 0 if not limited */
	memory_mib bigint NOT NULL,
	nvlink_domain text COLLATE "C",	/* NULL if it shares a domain with no other node */
	leaf text COLLATE "C",			/* NULL if it shares a leaf switch with no other node */
	spot boolean NOT NULL,
	labels jsonb NOT NULL,
	healthy gpucredit.gpuset NOT NULL,
	tells_running boolean NOT NULL DEFAULT false,
	heard_at timestamptz NOT NULL,
	draining text,				/* reason of the drain */
	drain_deadline timestamptz,
	reclaim_at timestamptz,		/* when its provider reclaims it */
	registered_at timestamptz NOT NULL,
	about jsonb,				/* as the last heartbeat described it */
	boot_before text,			/* the boot_id before the present one */
	spine text COLLATE "C",		/* NULL if register_node did not name it */
	nvlink_mbps bigint,			/* NULL if register_node did not name it */
	leaf_mbps bigint,			/* the same */
	spine_mbps bigint,			/* the same */
	topology jsonb,				/* as its agent discovered it */
	topology_at timestamptz,	/* when that last changed */
	CONSTRAINT node_pkey PRIMARY KEY (node),
	CONSTRAINT node_gpus CHECK (gpus BETWEEN 0 AND 64),
	CONSTRAINT node_mbps CHECK (nvlink_mbps >= 0 AND leaf_mbps >= 0
		AND spine_mbps >= 0),
	CONSTRAINT node_topology CHECK ((topology IS NULL) = (topology_at IS NULL))
) WITH (fillfactor = 50);
CREATE INDEX node_pool ON gpucredit.node (pool);
COMMENT ON TABLE gpucredit.node IS
'Machines with their devices, as registered and as last reported';
COMMENT ON COLUMN gpucredit.node.gpu_type IS 'The type of its devices; '''' where it has none.';
COMMENT ON COLUMN gpucredit.node.gpu_memory_mib IS 'Memory of each device, in MiB.';
COMMENT ON COLUMN gpucredit.node.cpu_milli IS 'Thousandths of a core; 0: not limited.';
COMMENT ON COLUMN gpucredit.node.memory_mib IS 'Main memory, in MiB; 0: not limited.';
COMMENT ON COLUMN gpucredit.node.nvlink_domain IS 'Its NVLink domain as registered; NULL: what topology says, else a domain of its own.';
COMMENT ON COLUMN gpucredit.node.leaf IS 'Its leaf switch as registered; NULL: what topology says, else one of its own.';
COMMENT ON COLUMN gpucredit.node.labels IS 'Labels, as register_node received them.';
COMMENT ON COLUMN gpucredit.node.healthy IS 'The devices that work, numbered from 0.';
COMMENT ON COLUMN gpucredit.node.tells_running IS 'True: its agent reports what it runs.';
COMMENT ON COLUMN gpucredit.node.draining IS 'Why the node drains; NULL: it does not.';
COMMENT ON COLUMN gpucredit.node.drain_deadline IS 'When everything that runs there must be gone; NULL: no deadline.';
COMMENT ON COLUMN gpucredit.node.reclaim_at IS 'When its provider takes it back; NULL: it does not.';
COMMENT ON COLUMN gpucredit.node.registered_at IS 'When it was registered.';
COMMENT ON COLUMN gpucredit.node.about IS 'Its agent''s last node report; NULL: none.';
COMMENT ON COLUMN gpucredit.node.boot_before IS 'The boot_id before the present one; NULL: none.';
COMMENT ON COLUMN gpucredit.node.spine IS 'Its spine as registered; NULL: what topology says, else unknown.';
COMMENT ON COLUMN gpucredit.node.nvlink_mbps IS 'Mb/s of a GPU to its NVLink domain as registered; NULL: what topology says, else unknown.';
COMMENT ON COLUMN gpucredit.node.leaf_mbps IS 'Mb/s of the node to its leaf as registered; NULL: what topology says, else unknown.';
COMMENT ON COLUMN gpucredit.node.spine_mbps IS 'The node''s part, in Mb/s, of what its leaf has to the spine, as registered; NULL: what topology says, else unknown.';
COMMENT ON COLUMN gpucredit.node.topology IS 'Where its agent found the node (report_topology); NULL: not reported.';
COMMENT ON COLUMN gpucredit.node.topology_at IS 'When topology last changed; NULL: not reported.';

/*
 * The states of nodes at the present instant, whether or not a sweep has acted
 * on them.
 */
CREATE VIEW gpucredit.nodes AS
	SELECT n.node, n.pool, n.gpu_type, n.gpus, n.healthy, n.spot,
		CASE WHEN n.reclaim_at <= c.at THEN 'gone'
			WHEN c.lost > '0' AND n.heard_at <= c.at - c.lost THEN 'lost'
			WHEN n.reclaim_at IS NOT NULL THEN 'reclaimed'
			WHEN n.draining IS NOT NULL THEN 'draining'
			WHEN c.suspect > '0' AND n.heard_at <= c.at - c.suspect
			THEN 'suspect' ELSE 'ready' END AS state,
		CASE WHEN n.reclaim_at IS NULL THEN n.draining END AS reason,
		LEAST(n.reclaim_at, n.drain_deadline) AS deadline, n.heard_at,
		n.reclaim_at IS NULL AND n.draining IS NULL AND (c.suspect = '0'
			OR n.heard_at > c.at - c.suspect) AS takes_work,
		n.about ->> 'containment' AS containment,
		coalesce(jsonb_array_length(n.about -> 'pulling'), 0) AS pulling,
		coalesce(n.nvlink_domain, n.topology ->> 'nvlink_domain')
			AS nvlink_domain,
		coalesce(n.leaf, n.topology ->> 'leaf') AS leaf,
		coalesce(n.spine, n.topology ->> 'spine') AS spine,
		coalesce(n.nvlink_mbps, (n.topology ->> 'nvlink_mbps')::bigint)
			AS nvlink_mbps,
		coalesce(n.leaf_mbps, (n.topology ->> 'leaf_mbps')::bigint)
			AS leaf_mbps,
		coalesce(n.spine_mbps, (n.topology ->> 'spine_mbps')::bigint)
			AS spine_mbps,
		n.topology AS discovered,
		array_remove(ARRAY[
			CASE WHEN n.nvlink_domain IS NOT NULL THEN 'nvlink_domain' END,
			CASE WHEN n.leaf IS NOT NULL THEN 'leaf' END,
			CASE WHEN n.spine IS NOT NULL THEN 'spine' END,
			CASE WHEN n.nvlink_mbps IS NOT NULL THEN 'nvlink_mbps' END,
			CASE WHEN n.leaf_mbps IS NOT NULL THEN 'leaf_mbps' END,
			CASE WHEN n.spine_mbps IS NOT NULL THEN 'spine_mbps' END], NULL)
			AS registered,
		nullif(n.about -> 'out_of_service', '{}') AS out_of_service
	FROM (SELECT gpucredit.now() AS at,
			pg_catalog.current_setting('gpucredit.node_suspect')::interval
				AS suspect,
			pg_catalog.current_setting('gpucredit.node_lost')::interval
				AS lost) c
		CROSS JOIN gpucredit.node n;
COMMENT ON VIEW gpucredit.nodes IS
'Nodes and their present state. ready; suspect: silent, gets no new work; draining; reclaimed: its provider takes it at deadline; lost: silent for gpucredit.node_lost; gone: its provider took it. With gpucredit.node_suspect 0, cycles start jobs on silent nodes too (takes_work)';
COMMENT ON COLUMN gpucredit.nodes.healthy IS 'The devices that work, numbered from 0.';
COMMENT ON COLUMN gpucredit.nodes.state IS 'ready, suspect, draining, reclaimed, lost or gone.';
COMMENT ON COLUMN gpucredit.nodes.reason IS 'Why the node drains; NULL: it does not, or its provider takes it back.';
COMMENT ON COLUMN gpucredit.nodes.deadline IS 'When everything that runs there must be gone; NULL: no deadline.';
COMMENT ON COLUMN gpucredit.nodes.takes_work IS 'True: cycles start jobs there.';
COMMENT ON COLUMN gpucredit.nodes.containment IS 'What holds the processes of a job together there, as its agent says: cgroup; cgroup_no_memory: nothing limits a job''s memory; none: a process that hides may outlive its bill. NULL: not reported.';
COMMENT ON COLUMN gpucredit.nodes.pulling IS 'How many attempts have devices there and wait for their image.';
COMMENT ON COLUMN gpucredit.nodes.nvlink_domain IS 'The NVLink domain by which jobs are placed; NULL: one of its own.';
COMMENT ON COLUMN gpucredit.nodes.leaf IS 'The leaf switch by which jobs are placed; NULL: one of its own.';
COMMENT ON COLUMN gpucredit.nodes.spine IS 'The spine by which gangs are placed; NULL: unknown.';
COMMENT ON COLUMN gpucredit.nodes.nvlink_mbps IS 'Mb/s of a GPU to its NVLink domain; NULL: unknown.';
COMMENT ON COLUMN gpucredit.nodes.leaf_mbps IS 'Mb/s of the node to its leaf; NULL: unknown.';
COMMENT ON COLUMN gpucredit.nodes.spine_mbps IS 'The node''s part, in Mb/s, of what its leaf has to the spine; NULL: unknown.';
COMMENT ON COLUMN gpucredit.nodes.discovered IS 'What its agent reported by report_topology; NULL: nothing.';
COMMENT ON COLUMN gpucredit.nodes.registered IS 'Which of these columns register_node named, so that they apply whatever the agent discovers.';

COMMENT ON COLUMN gpucredit.nodes.out_of_service IS 'Why devices are out of service, by their numbers, as its agent reported; NULL: none is, or the agent names no reasons.';

DO $dump$
DECLARE
	name text;
BEGIN
	FOREACH name IN ARRAY ARRAY['price', 'tier_custom', 'idle_limit', 'tier_grant', 'pool',
		'node']
	LOOP
		PERFORM pg_catalog.pg_extension_config_dump(
			('gpucredit.' || name)::regclass, '');
	END LOOP;
END
$dump$;

/* Functions that set up prices, tiers and pools */

CREATE FUNCTION gpucredit.set_price(gpu_type text, per_gpu_hour numeric,
	pool text DEFAULT NULL, effective_at timestamptz DEFAULT NULL,
	spot boolean DEFAULT false) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_set_price';
COMMENT ON FUNCTION gpucredit.set_price(text, numeric, text, timestamptz,
	boolean) IS
'Setup: sets what a GPU of a type costs. The history is kept, and jobs submitted earlier keep their price.
per_gpu_hour: credits per GPU and hour, 0 or more. pool: NULL for every pool; a pool''s own price wins. effective_at: NULL for at once, otherwise no earlier than now. Set again for the same instant, the price is a new row, which applies instead. spot: the price on spot nodes; without one the other price applies there.
Errors: UC401 no such pool; 22003; 22023, also for a past effective_at: what runs were billed does not change, refund() gives back what a job paid too much.';

CREATE FUNCTION gpucredit.set_resource_price(resource text, per_hour numeric,
	pool text DEFAULT NULL, effective_at timestamptz DEFAULT NULL) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_set_resource_price';
COMMENT ON FUNCTION gpucredit.set_resource_price(text, numeric, text,
	timestamptz) IS
'Setup: sets what a core or a GiB of main memory costs, for jobs with GPUs and without. Until it is set they cost nothing. The history is kept, and jobs submitted earlier keep their price.
resource: cpu or memory. per_hour: credits per core and hour, or per GiB and hour, 0 or more. pool: NULL for every pool; a pool''s own price wins. effective_at: NULL for at once, otherwise no earlier than now. Set again for the same instant, the price is a new row, which applies instead.
Errors: UC401 no such pool; 22003; 22023, also for a past effective_at.';

CREATE FUNCTION gpucredit.create_pool(pool text, policy jsonb DEFAULT '{}')
RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_create_pool';
COMMENT ON FUNCTION gpucredit.create_pool(text, jsonb) IS
'Setup: creates a pool, or sets the policy of an existing one. Pool "default" always exists.
policy: {"checkpoints": path or URI, "image_wait": interval, "order": "fair"|"shortest", "packing": "pack"|"spread"|"fgd", "reclaim": true|false, "consolidate": true|false, "placed_by": "place"|"foreign", "tier_share": {tier: fraction, ...}}. checkpoints: heartbeat tells jobs to save below this (save_to), unless their spec names a place. image_wait: how long an attempt keeps its devices, and pays for them, while its node pulls its image, at most a day; 0: it gives them back at once, the node goes on pulling, and the job is placed again later. Without it devices wait as long as the node''s agent lets a pull take. order (default fair): jobs of one account go by submit time, or by learnt run time. packing (default pack): among equally good nodes, the fullest, the emptiest, or the one that leaves most room for the workload mix of the last 7 days. reclaim (default false): inside a tier, accounts take their entitlement from those above theirs, by preempting jobs with preemptible capacity. consolidate (default false): such jobs are moved to free devices to make room for a job that would not fit. placed_by (default place): foreign if another scheduler chooses the devices and reports them with placed(); place starts nothing there. tier_share (default none): the fraction of the pool''s healthy devices up to which a tier''s jobs go before others whatever its rank, aged jobs aside; together at most 1. It is an order of starts: it evicts nobody, so in a full pool such a tier is first for what comes free, and its jobs may be evicted like others. A policy replaces the one before, so words that it lacks have their defaults again.
Errors: UC402 no such tier; 22023.';

CREATE FUNCTION gpucredit.set_tier(tier text, rank int, preemptible text,
	can_preempt boolean, grace interval DEFAULT '2 min',
	min_run interval DEFAULT '10 min', max_wall interval DEFAULT '24 h',
	max_wait interval DEFAULT '24 h', bill_lost_work boolean DEFAULT true,
	price_factor numeric DEFAULT 1, open boolean DEFAULT NULL, ages_to int DEFAULT NULL)
RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_set_tier';
COMMENT ON FUNCTION gpucredit.set_tier(text, int, text, boolean, interval,
	interval, interval, interval, boolean, numeric, boolean, int) IS
'Setup: creates or replaces a tier; built-in tiers can be replaced too.
rank: 0 to 1000, low goes first. preemptible: never, reclaim, capacity. grace, min_run, max_wait: 0 or more. max_wall: above 0; the longest that a job may run, and the wall limit of jobs that name none. bill_lost_work: false refunds, at settlement, what an attempt spent since its last checkpoint if the platform ended it and its job goes back to the queue: after preemption for another organisation, a drain, a reclaim, a resize, or the loss of its node, device or agent. What the program itself ended is billed, whatever its exit code. set_lost_work sets it for one of these outcomes. price_factor: 0 to 1000 with at most 3 decimals; jobs submitted to the tier pay list prices times this, rounded up to a micro-credit. open: true, every account may use the tier; false, those to which grant_tier grants it; NULL: as before, and a new tier is open. ages_to: 0 to 1000; jobs that have waited longer than max_wait go before the others of their rank, and before all jobs of this rank and higher. NULL: before all ranks above the highest, below their own, of a tier that can preempt; so a job that waits is not in the way of one that could evict it.
Errors: 22023.';

CREATE FUNCTION gpucredit.set_idle_limit(tier text, idle_limit interval,
	idle_warning interval DEFAULT '5 min')
RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_set_idle_limit';
COMMENT ON FUNCTION gpucredit.set_idle_limit(text, interval, interval) IS
'Setup: says how long a job of a tier may leave its GPUs idle before it ends, as interactive jobs do whose users have gone. It applies to attempts that start afterwards.
idle_limit: at least 1 minute; NULL: no limit, as every tier has at first. idle_warning: how long before the end the owner is warned, by an alert (kind job, reason idle_warning) and by a notice in the terminals of the job; 0 or more, below idle_limit; 0: no warning.
A job is idle while its agent reports a utilization below 0.01 and nobody types in a terminal that open_session() opened. Any use and any key press starts the time again; a key press counts for a minute. So does a gap of more than 5 minutes between two reports, because without reports nobody knows whether the GPUs were used: no outage ends a job as idle. At the limit meter and heartbeat answer stop with reason idle. The attempt ends as timeout, is billed like any other, and the job is not retried.
The limit is for jobs whose GPUs are on one node: of a gang only the first node reports. It is not for jobs without GPUs, nor for those that another scheduler places. Of a share of a GPU the use of the whole device counts.
Errors: UC402 no such tier; 22023.';

CREATE FUNCTION gpucredit.grant_tier(org text, account text, tier text)
RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_grant_tier';
COMMENT ON FUNCTION gpucredit.grant_tier(text, text, text) IS
'Setup: lets an account and all below it use a tier that is not open to all, such as production_inference or premium_training. A repeated call changes nothing. Waiting jobs that lacked the grant may start with the next cycle.
Errors: UC001 no such account; UC402 no such tier; 22023.';

CREATE FUNCTION gpucredit.revoke_tier(org text, account text, tier text)
RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_revoke_tier';
COMMENT ON FUNCTION gpucredit.revoke_tier(text, text, text) IS
'Setup: withdraws what grant_tier granted to exactly this account; a grant of an account above stays. A missing grant is no error. New submissions are denied as tier_not_granted. Waiting jobs keep their holds and do not start; a job that would need a new hold waits as unfunded. Attempts that run go on to their end.
Errors: UC001 no such account; UC402 no such tier; 22023.';

CREATE TYPE gpucredit.tiers_for_result AS (tier text, rank int, open boolean,
	allowed boolean, granted_to text, granted_at timestamptz);
COMMENT ON TYPE gpucredit.tiers_for_result IS
'A tier, and whether an account may use it.';

CREATE FUNCTION gpucredit.tiers_for(org text, account text DEFAULT '')
RETURNS SETOF gpucredit.tiers_for_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit_internal.require_account(tiers_for.org, tiers_for.account);
	SELECT t.tier, t.rank, t.open, t.open OR g.tier IS NOT NULL, g.account,
		g.granted_at
	FROM gpucredit.tier t
		LEFT JOIN LATERAL (SELECT g.* FROM gpucredit.tier_grant g
			WHERE g.org = tiers_for.org AND g.tier = t.tier
				AND (g.account IN ('', tiers_for.account)
					OR starts_with(tiers_for.account, g.account || '/'))
			ORDER BY length(g.account) DESC LIMIT 1) g ON true
	ORDER BY t.rank, t.tier;
END;
COMMENT ON FUNCTION gpucredit.tiers_for(text, text) IS
'Setup: the tiers, most urgent first, and which of them an account may use.
Result: open: the tier is open to all. allowed: the account may use it. granted_to: the nearest account on its path to which the tier is granted, and granted_at, when; NULL: it is granted to none.
Errors: UC001 no such account.';

/* Functions about nodes */

CREATE FUNCTION gpucredit.register_node(pool text, node text, gpu_type text,
	gpus int, gpu_memory_mib bigint, cpu_milli bigint DEFAULT 0,
	memory_mib bigint DEFAULT 0, nvlink_domain text DEFAULT NULL,
	leaf text DEFAULT NULL, spot boolean DEFAULT false,
	labels jsonb DEFAULT '{}', spine text DEFAULT NULL,
	nvlink_mbps bigint DEFAULT NULL, leaf_mbps bigint DEFAULT NULL,
	spine_mbps bigint DEFAULT NULL) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_register_node';
COMMENT ON FUNCTION gpucredit.register_node(text, text, text, int, bigint,
	bigint, bigint, text, text, boolean, jsonb, text, bigint, bigint, bigint) IS
'Nodes: registers a node, or changes an existing one. It counts as a heartbeat with all devices healthy. Devices of attempts that ended without their agent''s report stay fenced until a heartbeat reports the attempts gone, or gpucredit.node_lost has passed.
gpus: 0 to 64 devices, numbered from 0. gpu_memory_mib: of each device; the memory floors of shares on it never exceed it. cpu_milli (thousandths of a core), memory_mib: of the node, 0 for not limited. nvlink_domain, leaf, spine: NULL for what its agent discovers (report_topology); where that is nothing, a domain and a leaf of its own, and an unknown spine. To keep a node alone whatever is discovered, name a domain or leaf that no other node has. nvlink_mbps, leaf_mbps, spine_mbps: Mb/s of a GPU to its NVLink domain, of the node to its leaf, and the node''s part of what its leaf has to the spine; NULL for what is discovered.
Errors: UC401 no such pool; UC303 moving to another pool, changing type or spot, or shrinking below live attempts; 22023.';

CREATE FUNCTION gpucredit.report_topology(node text, topology jsonb)
RETURNS boolean
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_report_topology';
COMMENT ON FUNCTION gpucredit.report_topology(text, jsonb) IS
'Nodes: reports where a node''s agent found it in the cluster. What register_node named goes before it. An agent needs the key of its node, if that has one.
topology: {"nvlink_domain": name, "leaf": name, "spine": name, "nvlink_mbps": n, "leaf_mbps": n, "spine_mbps": n, "pcie": [gpuset, ...], "source": text}; each word may be left out, and {} says that nothing is known. Other words are dropped. pcie: the sets of devices that share a PCIe switch or host bridge, for readers.
A report replaces the one before. It is applied and audited once, and the same report again changes nothing. Jobs that run stay where they are.
Result: false if the report differs from one that was applied less than a minute ago; it is then not applied, and the agent repeats it later.
Errors: UC401 no such node; 22023.';

CREATE TYPE gpucredit.heartbeat_result AS (org text, job bigint, attempt int,
	action text, gpus gpucredit.gpuset, share int, deadline timestamptz,
	time_left interval, spec jsonb, reason text, save boolean,
	traceparent text, nodes text[], addresses text[], save_to text,
	log jsonb, started_at timestamptz, cpu_milli bigint, memory_mib bigint,
	account text, node_gpus int[]);
COMMENT ON TYPE gpucredit.heartbeat_result IS
'What a node should be doing now: a row per attempt, also for each reported one that should not run, and a row per piece of output that is asked for.';

CREATE FUNCTION gpucredit.drain(node text, reason text,
	deadline timestamptz DEFAULT NULL) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_drain';
COMMENT ON FUNCTION gpucredit.drain(text, text, timestamptz) IS
'Nodes: stops new work from landing on a node. deadline: what runs there is told to checkpoint now and to stop at the deadline; NULL lets it finish.
Errors: UC401 no such node; 22023.';

CREATE FUNCTION gpucredit.resume(node text) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_resume';
COMMENT ON FUNCTION gpucredit.resume(text) IS
'Nodes: ends the draining of a node. Attempts that were told to leave only because of it may stay.
Errors: UC401 no such node; 22023.';

CREATE FUNCTION gpucredit.remove_node(node text) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_remove_node';
COMMENT ON FUNCTION gpucredit.remove_node(text) IS
'Nodes: removes a node on which nothing runs.
Errors: UC401 no such node; UC303 attempts still run there; 22023.';
