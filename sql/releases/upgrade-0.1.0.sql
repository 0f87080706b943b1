-- upgrade-0.1.0.sql: what tools/upgrade cannot know of the way from 0.1.0:
-- what becomes of rows, and of tables and types that have grown.
--
-- Columns that a table got since stand last in it, whatever their place in a
-- new one.

-- first
ALTER TABLE gpucredit.budget_count RENAME TO budget_counter;
ALTER TABLE gpucredit.budget_counter
	RENAME CONSTRAINT budget_count_pkey TO budget_counter_pkey;
ALTER TABLE gpucredit.attempt RENAME COLUMN starved TO extension_denied;
DROP CAST (bigint AS gpucredit.credits);
DROP CAST (integer AS gpucredit.credits);
DROP INDEX gpucredit.attempt_live;
DROP INDEX gpucredit.attempt_surplus;
DROP INDEX gpucredit.audit_job;
DROP INDEX gpucredit.bucket_account;
DROP INDEX gpucredit.entry_at;
DROP INDEX gpucredit.entry_bucket;
DROP INDEX gpucredit.spend_delta_account;
ALTER TABLE gpucredit.bucket DROP CONSTRAINT bucket_sound;
ALTER TABLE gpucredit.hold
	DROP CONSTRAINT hold_sound,
	DROP CONSTRAINT hold_closed,
	DROP CONSTRAINT hold_mortal;
ALTER TABLE gpucredit.hold_part DROP CONSTRAINT hold_part_sound;
ALTER TABLE gpucredit.entry DROP CONSTRAINT entry_sound;
DROP FUNCTION gpucredit.entry_is_sound(text, text, gpucredit.credits);
DROP FUNCTION gpucredit.parts_are_sound(gpucredit.credits, gpucredit.credits, gpucredit.credits, gpucredit.credits, gpucredit.credits, gpucredit.credits);
DROP FUNCTION gpucredit.bucket_is_sound(text, timestamptz, timestamptz, gpucredit.credits, gpucredit.credits, gpucredit.credits, gpucredit.credits, gpucredit.credits, gpucredit.credits, gpucredit.credits);

/* A driver's double is what they take now. */
DROP FUNCTION gpucredit.meter(text, bigint, int, interval, bigint, real);
DROP FUNCTION gpucredit.meter_batch(text[], bigint[], int[], interval[], bigint[], real[]);

/* They take one argument more. */
DROP FUNCTION gpucredit.heartbeat(text, gpucredit.gpuset, text[]);
DROP FUNCTION gpucredit.release(text, bigint, text);

/* Nothing may look at a column whose type changes; it gets a new body below. */
DROP FUNCTION gpucredit_internal.check_buckets(text);
DROP FUNCTION gpucredit.capture(text, bigint, text, numeric, boolean);
DROP FUNCTION gpucredit_internal.repair(text, gpucredit.difference[], gpucredit.difference[], gpucredit.difference[]);
DROP FUNCTION gpucredit_internal.spend_difference(text);
CREATE OR REPLACE FUNCTION gpucredit_internal.balance_now(org text, account text,
	at timestamptz) RETURNS SETOF gpucredit.balance_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT (NULL::gpucredit.balance_result).* WHERE false;
END;

/* What upkeep forgets is one function's matter now. */
CREATE OR REPLACE FUNCTION gpucredit.maintain()
RETURNS SETOF gpucredit.maintain_result
LANGUAGE sql VOLATILE SECURITY DEFINER PARALLEL UNSAFE ROWS 6
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT (NULL::gpucredit.maintain_result).* WHERE false;
END;
DROP FUNCTION gpucredit.forget_requests(int);
DROP FUNCTION gpucredit.forget_directives(int);

-- at: CREATE TABLE gpucredit.audit
ALTER TABLE gpucredit.audit
	ADD COLUMN application_name text,
	ADD COLUMN client_addr inet,
	ADD COLUMN trace uuid,
	DROP CONSTRAINT audit_pkey,
	ADD CONSTRAINT audit_pkey PRIMARY KEY (audit, org);

-- at: CREATE TABLE gpucredit.request
ALTER TABLE gpucredit.request DROP CONSTRAINT request_fingerprint_size;

-- at: CREATE TABLE gpucredit.entry
ALTER TABLE gpucredit.entry
	ADD COLUMN trace uuid,
	DROP CONSTRAINT entry_pkey,
	ADD CONSTRAINT entry_pkey PRIMARY KEY (org, bucket, entry);

-- at: CREATE TYPE gpucredit.history_result
ALTER TYPE gpucredit.history_result ADD ATTRIBUTE trace text;

-- at: CREATE TABLE gpucredit.account
ALTER TABLE gpucredit.account
	ADD COLUMN slices int NOT NULL DEFAULT 1,
	ADD COLUMN balance_low gpucredit.credits,
	ADD COLUMN limits jsonb,
	ADD CONSTRAINT account_slices CHECK (slices BETWEEN 1 AND 64);

-- at: CREATE TABLE gpucredit.bucket
ALTER TABLE gpucredit.bucket
	ADD COLUMN lent gpucredit.credits NOT NULL DEFAULT '0',
	ADD COLUMN slices int NOT NULL DEFAULT 1,
	ADD COLUMN spread int NOT NULL DEFAULT 0,
	ADD COLUMN credited_total numeric(38, 6) NOT NULL DEFAULT 0;

-- at: CREATE TABLE gpucredit.hold
ALTER TABLE gpucredit.hold
	ADD COLUMN sliced boolean NOT NULL DEFAULT false,
	ADD COLUMN trace uuid,
	ADD COLUMN counted boolean NOT NULL DEFAULT true,
	ADD COLUMN uncollected gpucredit.credits,
	ADD COLUMN leased boolean NOT NULL DEFAULT false;

-- at: CREATE TYPE gpucredit.capture_result
ALTER TYPE gpucredit.capture_result ADD ATTRIBUTE uncollected numeric;

-- at: CREATE TABLE gpucredit.hold_part
/* its CHECK went first, with the function it called */

-- at: CREATE TABLE gpucredit.spend_total
ALTER TABLE gpucredit.spend_total
	ALTER COLUMN spent TYPE numeric(38, 6) USING spent::numeric;

-- at: CREATE TABLE gpucredit.spend_delta
ALTER TABLE gpucredit.spend_delta ADD COLUMN day date;

-- at: CREATE TABLE gpucredit.budget
ALTER TABLE gpucredit.budget ADD COLUMN slices int NOT NULL DEFAULT 1;

-- at: CREATE TABLE gpucredit.budget_counter
ALTER TABLE gpucredit.budget_counter
	ADD COLUMN spread int NOT NULL DEFAULT 0,
	ADD COLUMN made_at timestamptz NOT NULL DEFAULT '-infinity',
	DROP CONSTRAINT budget_count_not_negative,
	SET (fillfactor = 10);

-- at: CREATE TABLE gpucredit.hold_budget
ALTER TABLE gpucredit.hold_budget DROP CONSTRAINT hold_budget_not_negative;

-- at: CREATE TABLE gpucredit.quota
ALTER TABLE gpucredit.quota
	ADD COLUMN spare int NOT NULL DEFAULT 0,
	DROP CONSTRAINT quota_not_negative,
	SET (fillfactor = 10);

-- at: CREATE TABLE gpucredit.alert
ALTER TABLE gpucredit.alert
	ADD COLUMN bucket bigint NOT NULL DEFAULT 0,
	DROP CONSTRAINT alert_once;
ALTER TABLE gpucredit.alert
	ADD CONSTRAINT alert_once UNIQUE (org, account, kind, period, period_start,
		threshold, bucket);

-- at: CREATE TABLE gpucredit.node
ALTER TABLE gpucredit.node
	ADD COLUMN reclaim_at timestamptz,
	ADD COLUMN about jsonb,
	ADD COLUMN boot_before text;

-- at: CREATE TYPE gpucredit.heartbeat_result
ALTER TYPE gpucredit.heartbeat_result
	ADD ATTRIBUTE reason text, ADD ATTRIBUTE save boolean,
	ADD ATTRIBUTE traceparent text, ADD ATTRIBUTE nodes text[],
	ADD ATTRIBUTE addresses text[], ADD ATTRIBUTE save_to text,
	ADD ATTRIBUTE log jsonb, ADD ATTRIBUTE started_at timestamptz,
	ADD ATTRIBUTE cpu_milli bigint, ADD ATTRIBUTE memory_mib bigint,
	ADD ATTRIBUTE account text, ADD ATTRIBUTE node_gpus int[];

-- at: CREATE TYPE gpucredit.meter_result
ALTER TYPE gpucredit.meter_result ADD ATTRIBUTE save boolean;

-- at: CREATE TYPE gpucredit.meter_batch_result
ALTER TYPE gpucredit.meter_batch_result ADD ATTRIBUTE save boolean;

-- at: CREATE TYPE gpucredit.settle_result
ALTER TYPE gpucredit.settle_result ADD ATTRIBUTE uncollected numeric;

-- at: CREATE TABLE gpucredit.job
ALTER TABLE gpucredit.job
	ADD COLUMN prefer text,
	ADD COLUMN cache text COLLATE "C",
	ADD COLUMN save_every interval,
	DROP CONSTRAINT job_sound,
	ADD COLUMN traceparent text,
	ADD COLUMN waits_from timestamptz,
	ADD COLUMN waited interval NOT NULL DEFAULT '0';
/* how long it waited before its last attempt is not known any more */
UPDATE gpucredit.job j
SET waits_from = greatest(j.submitted_at, j.not_before,
	(SELECT max(a.ended_at) FROM gpucredit.attempt a
		WHERE a.org = j.org AND a.job = j.job))
WHERE j.state = 'queued';
ALTER TABLE gpucredit.job
	ADD COLUMN request_class bytea;
UPDATE gpucredit.job SET request_class = gpucredit_internal.request_digest(request, topology, prefer,
	preemptible, cpu_milli, memory_mib, wall_limit, hold_window, offer_types,
	offer_memory, offer_prices, offer_spot_prices);
ALTER TABLE gpucredit.job ALTER COLUMN request_class SET NOT NULL;

-- at: CREATE INDEX job_queue
DROP INDEX gpucredit.job_queue;
-- as new

-- at: CREATE TABLE gpucredit.attempt
ALTER TABLE gpucredit.attempt
	ADD COLUMN tier text COLLATE "C",
	ADD COLUMN save_every interval,
	ADD COLUMN save_asked boolean NOT NULL DEFAULT false,
	ADD COLUMN saved_at timestamptz,
	ADD COLUMN progress_at timestamptz,
	ADD COLUMN trace uuid,
	ADD COLUMN ends_by timestamptz,
	ADD COLUMN usage_charged bigint,
	ADD COLUMN needs_cycle boolean NOT NULL DEFAULT false,
	ADD COLUMN uncollected gpucredit.credits,
	ADD COLUMN ended_by text,
	ADD COLUMN idle_since timestamptz,
	ADD COLUMN late_at timestamptz,
	ADD COLUMN late_elapsed interval,
	ADD COLUMN late_uncollected gpucredit.credits;
/* of what has ended before, nobody knows who said so: what was said stands */
UPDATE gpucredit.attempt a
SET ended_by = 'agent', uncollected = gpucredit_internal.bill(a.per_gpu_hour, a.gpus,
	a.share, a.elapsed, '9223372036854.775807') - a.billed
WHERE a.ended_at IS NOT NULL;
UPDATE gpucredit.attempt a
SET tier = j.tier, needs_cycle = a.surplus > '0' OR a.ended_at IS NOT NULL, saved_at = (SELECT c.at FROM gpucredit.checkpoint c
	WHERE c.org = a.org AND c.job = a.job AND c.attempt = a.attempt
	ORDER BY c.step DESC LIMIT 1)
FROM gpucredit.job j
WHERE j.org = a.org AND j.job = a.job;
ALTER TABLE gpucredit.attempt
	ALTER COLUMN tier SET NOT NULL,
	ALTER COLUMN save_asked DROP DEFAULT;

-- at: CREATE TABLE gpucredit.attempt_gpu
ALTER TABLE gpucredit.attempt_gpu
	ADD COLUMN seen_at timestamptz,
	ADD COLUMN account text COLLATE "C",
	ADD COLUMN tier text COLLATE "C",
	ADD COLUMN preemptible text,
	ADD COLUMN min_gpus int,
	ADD COLUMN max_gpus int,
	ADD COLUMN started_at timestamptz,
	ADD COLUMN saved_at timestamptz,
	ADD COLUMN expected_end timestamptz,
	ADD COLUMN limit_end timestamptz,
	ADD COLUMN gpu_memory_mib bigint NOT NULL DEFAULT 0;
ALTER TABLE gpucredit.attempt_gpu
	ALTER COLUMN gpu_memory_mib DROP DEFAULT;
/* expected to run as long as it may, as nothing has been learnt yet */
UPDATE gpucredit.attempt_gpu g
SET account = a.account, tier = a.tier, preemptible = j.preemptible,
	min_gpus = gpucredit.gpureq_min_gpus(j.request),
	max_gpus = gpucredit.gpureq_max_gpus(j.request),
	started_at = a.started_at, saved_at = coalesce(a.saved_at, a.started_at),
	expected_end = coalesce(a.started_at + a.wall_limit, 'infinity'),
	limit_end = coalesce(a.started_at + a.wall_limit, 'infinity'),
	gpu_memory_mib = CASE g.share WHEN 1000 THEN 0 ELSE coalesce(
		(SELECT min(ceil(m.floor::numeric / 1048576))
			FROM unnest(j.offer_types, j.offer_memory) AS m (type, floor)
			WHERE m.type = a.gpu_type), 0) END
FROM gpucredit.attempt a
	JOIN gpucredit.job j ON j.org = a.org AND j.job = a.job
WHERE a.org = g.org AND a.job = g.job AND a.attempt = g.attempt;
ALTER TABLE gpucredit.attempt_gpu
	ALTER COLUMN account SET NOT NULL,
	ALTER COLUMN tier SET NOT NULL,
	ALTER COLUMN preemptible SET NOT NULL,
	ALTER COLUMN min_gpus SET NOT NULL,
	ALTER COLUMN max_gpus SET NOT NULL,
	ALTER COLUMN started_at SET NOT NULL,
	ALTER COLUMN saved_at SET NOT NULL,
	ALTER COLUMN expected_end SET NOT NULL,
	ALTER COLUMN limit_end SET NOT NULL;

-- at: CREATE TABLE gpucredit.directive
ALTER TABLE gpucredit.directive
	ADD COLUMN starts_at timestamptz,
	ADD COLUMN saved_by timestamptz,
	ADD COLUMN told_at timestamptz;

-- at: CREATE TABLE gpucredit.checkpoint
ALTER TABLE gpucredit.checkpoint ADD COLUMN bad_at timestamptz;

-- at: CREATE INDEX usage_attempt
DROP INDEX gpucredit.usage_attempt;
-- as new

-- at: CREATE TYPE gpucredit.usage_by_result
ALTER TYPE gpucredit.usage_by_result
	ADD ATTRIBUTE accrued numeric, ADD ATTRIBUTE keys jsonb;

-- at: CREATE TYPE gpucredit.top_spenders_result
ALTER TYPE gpucredit.top_spenders_result
	ADD ATTRIBUTE organisation text, ADD ATTRIBUTE accrued numeric;

-- at: CREATE TYPE gpucredit.top_jobs_result
ALTER TYPE gpucredit.top_jobs_result
	ADD ATTRIBUTE organisation text, ADD ATTRIBUTE accrued numeric;

-- at: CREATE TYPE gpucredit.invoice_result
ALTER TYPE gpucredit.invoice_result
	ADD ATTRIBUTE accrued numeric, ADD ATTRIBUTE uncollected numeric;

-- at: INSERT INTO gpucredit.retry_rule_builtin
DELETE FROM gpucredit.retry_rule_builtin;
-- as new

-- last
DROP FUNCTION gpucredit_internal.spend_line(text, text, timestamptz, timestamptz);

/* Each quota has its turn. */
INSERT INTO gpucredit.quota_lock (org, account, gpu_type)
SELECT org, account, gpu_type FROM gpucredit.quota;

/* The days that averages look at.  What is not folded yet has no day. */
INSERT INTO gpucredit.spend_day (org, account, day, spent)
SELECT e.org, p.account, e.day, sum(e.spent)
FROM (SELECT e.org, e.account, (e.at AT TIME ZONE 'UTC')::date AS day,
		(CASE 'spent' WHEN e.target THEN e.amount
			ELSE - e.amount END)::numeric AS spent
	FROM gpucredit.entry e
	WHERE 'spent' IN (e.source, e.target)
		AND e.at > gpucredit.now() - '32 days'::interval) e,
	unnest(gpucredit_internal.account_path(e.account)) AS p (account)
GROUP BY e.org, p.account, e.day;

/* Each account has what limits it. */
UPDATE gpucredit.account a SET limits = l.limits
FROM (SELECT a.org, a.account, jsonb_strip_nulls(jsonb_build_object(
			'budgets', (SELECT jsonb_agg(jsonb_build_array(b.period,
					b.amount::numeric, b.hard, b.slices, b.alert_at)
					ORDER BY b.period COLLATE "C")
				FROM gpucredit.budget b
				WHERE b.org = a.org AND b.account = a.account),
			'quotas', (SELECT jsonb_agg(jsonb_build_array(q.gpu_type,
					q.max_gpus, q.max_queued IS NOT NULL)
					ORDER BY q.gpu_type)
				FROM gpucredit.quota q
				WHERE q.org = a.org AND q.account = a.account))) AS limits
	FROM gpucredit.account a) l
WHERE l.org = a.org AND l.account = a.account AND l.limits <> '{}';

/* Budgets there are; what they were before is not known. */
INSERT INTO gpucredit.budget_log (org, account, period, at, amount, hard,
	is_new, entry)
SELECT b.org, b.account, b.period, b.set_at, b.amount, b.hard, true,
	coalesce((SELECT max(e.entry) FROM gpucredit.entry e
		WHERE e.org = b.org AND e.at <= b.set_at), 0)
FROM gpucredit.budget b;

/*
 * Created when the control file named no schema, it formally is in the
 * installer's first one, whose owner could drop it with that; and a dump would
 * name a schema that CREATE EXTENSION now refuses.  No command moves an
 * extension that is not relocatable.
 */
DELETE FROM pg_depend USING pg_extension
WHERE extname = 'gpucredit' AND classid = 'pg_extension'::regclass
	AND objid = pg_extension.oid AND refclassid = 'pg_namespace'::regclass
	AND refobjid = extnamespace;
UPDATE pg_extension SET extnamespace = 'pg_catalog'::regnamespace
WHERE extname = 'gpucredit';
