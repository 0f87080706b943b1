/*
 * 42_quota.sql: how much an account may have at once.
 *
 * A quota limits an account and all accounts below it: their devices, running
 * jobs, cpu, memory, and the devices of jobs that are not preemptible (a job
 * beyond these limits waits), and their queued jobs (a job beyond this limit
 * is denied).  Live attempts and queued jobs are counted by each call, not
 * stored as numbers.  While far fewer jobs are queued than max_queued allows,
 * the column spare replaces the count.
 *
 * A call that admits a job under a quota locks the quota's row and increases
 * cycle, so a transaction with an older snapshot gets 40001 at REPEATABLE READ
 * and SERIALIZABLE.
 */
CREATE FUNCTION gpucredit_internal.quota_is_sound(max_gpus int, max_running int,
	max_queued int, spare int, max_cpu_milli bigint, max_memory_mib bigint,
	max_nonpreemptible_gpus int)
RETURNS boolean
LANGUAGE c IMMUTABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_quota_is_sound';
COMMENT ON FUNCTION gpucredit_internal.quota_is_sound(int, int, int, int, bigint, bigint, int) IS
'Internal: whether a quota''s limits and its spare are not negative.';

CREATE TABLE gpucredit.quota (
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	gpu_type text COLLATE "C" NOT NULL,	/* '' for all types together */
	max_gpus int,
	max_running int,
	max_queued int,
	cycle bigint NOT NULL DEFAULT 0,	/* number of submissions counted so far */
	/*
	 * How many jobs may still be queued before the queued jobs must be counted
	 * again.
	 */
	spare int NOT NULL DEFAULT 0,
	max_cpu_milli bigint,
	max_memory_mib bigint,
	max_nonpreemptible_gpus int,
	CONSTRAINT quota_pkey PRIMARY KEY (org, account, gpu_type)
) WITH (fillfactor = 10);		/* each row is updated very often */
COMMENT ON TABLE gpucredit.quota IS
'Limits on devices (of all jobs, and of those that are not preemptible), running and queued jobs, cpu and memory of an account and all below it; NULL: no limit';
COMMENT ON COLUMN gpucredit.quota.gpu_type IS 'The GPU type; '''': any.';
COMMENT ON COLUMN gpucredit.quota.max_gpus IS 'The most devices in use, a share as the part that it keeps from others; NULL: no limit.';
COMMENT ON COLUMN gpucredit.quota.max_running IS 'The most jobs started at once; NULL: no limit.';
COMMENT ON COLUMN gpucredit.quota.max_queued IS 'The most jobs that wait; NULL: no limit.';
COMMENT ON COLUMN gpucredit.quota.max_cpu_milli IS 'The most cpu of running jobs, in thousandths of a core; NULL: no limit.';
COMMENT ON COLUMN gpucredit.quota.max_memory_mib IS 'The most host memory of running jobs, in MiB; NULL: no limit.';
COMMENT ON COLUMN gpucredit.quota.max_nonpreemptible_gpus IS 'The most devices in use by jobs that are not preemptible for capacity; NULL: no limit.';
COMMENT ON COLUMN gpucredit.quota.cycle IS 'Submissions counted so far.';
COMMENT ON COLUMN gpucredit.quota.spare IS 'How many more jobs may be queued before they are counted again.';

SELECT pg_catalog.pg_extension_config_dump('gpucredit.quota', '');

CREATE TABLE gpucredit.quota_lock (
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	gpu_type text COLLATE "C" NOT NULL,
	turn bigint NOT NULL DEFAULT 0,		/* number of cycles that started jobs so far */
	CONSTRAINT quota_lock_pkey PRIMARY KEY (org, account, gpu_type)
) WITH (fillfactor = 10);		/* each row is updated very often */
COMMENT ON TABLE gpucredit.quota_lock IS
'The row of each quota that a cycle locks to start jobs under it';
COMMENT ON COLUMN gpucredit.quota_lock.gpu_type IS 'The GPU type; '''': any.';
COMMENT ON COLUMN gpucredit.quota_lock.turn IS 'Cycles that started jobs under it so far.';

SELECT pg_catalog.pg_extension_config_dump('gpucredit.quota_lock', '');

CREATE FUNCTION gpucredit.set_quota(org text, account text,
	gpu_type text DEFAULT NULL, max_gpus int DEFAULT NULL,
	max_running int DEFAULT NULL, max_queued int DEFAULT NULL,
	max_cpu_milli bigint DEFAULT NULL, max_memory_mib bigint DEFAULT NULL,
	max_nonpreemptible_gpus int DEFAULT NULL)
RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_set_quota';
CREATE FUNCTION gpucredit_internal.allocate_quota(org text, account text,
	gpu_type text, max_gpus int, max_running int, max_queued int,
	max_cpu_milli bigint, max_memory_mib bigint, max_nonpreemptible_gpus int)
RETURNS void
LANGUAGE c VOLATILE
AS 'MODULE_PATHNAME', 'gpucredit_allocate_quota';
COMMENT ON FUNCTION gpucredit_internal.allocate_quota(text, text, text, int, int, int, bigint, bigint, int) IS
'Internal, for companion extensions: set_quota() for a caller who may be a tenant, if it is bound to the account. The extension has to have found that the caller may approve it.';

COMMENT ON FUNCTION gpucredit.set_quota(text, text, text, int, int, int, bigint, bigint, int) IS
'Setup: limits what an account and all below it may have at once, of one GPU type or (NULL) of all types.
max_gpus: devices in use; a share of a device counts as its thousandths, or as the part of the device''s memory that its floor keeps from others if that is more. max_running: started jobs. max_cpu_milli: cpu of started jobs, in thousandths of a core. max_memory_mib: host memory of started jobs, in MiB. max_nonpreemptible_gpus: devices in use, counted in the same way, by jobs whose preemptible is never or reclaim, which nobody evicts for what others are due. A quota of one type counts cpu and memory of jobs that have devices of that type. More jobs wait; for one whose tier may preempt, less important preemptible jobs that the quota counts are told to leave. max_queued: waiting jobs; more are denied as quota_exceeded, as is a request that alone exceeds max_gpus, max_cpu_milli, max_memory_mib or, if it is not preemptible, max_nonpreemptible_gpus. NULL: no limit. All NULL removes the quota.
Errors: UC001 no such account; 22023.';
