/*
 * 81_policy.sql: which buckets would pay for a request, and why others would
 * not.
 *
 * These are the checks of a draw (src/ledger/hold_draw.c), without locks.
 */
CREATE FUNCTION gpucredit_internal.offer_types(request text, tier text, pool text)
RETURNS text[]
LANGUAGE c STABLE PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_offer_types';
COMMENT ON FUNCTION gpucredit_internal.offer_types(text, text, text) IS
'Internal: the GPU types that a pool would offer a request now, in order; NULL for no request. Raises UC401, UC402, 22P02.';

CREATE TYPE gpucredit.bucket_for_result AS (bucket bigint, account text,
	kind text, priority int, expires_at timestamptz, available numeric,
	policy jsonb, pays boolean, why text, most numeric);
COMMENT ON TYPE gpucredit.bucket_for_result IS
'A bucket, whether it would pay for the request, and the most it would pay.';

/*
 * gpu_types is NULL for a hold without a job.  job is the job whose draws
 * count for max_per_job.  hold is the hold that is to be extended by the
 * amount.
 */
CREATE FUNCTION gpucredit_internal.bucket_fit(tenant text, leaf text,
	gpu_types text[], tier text, pool text, job bigint, hold bigint,
	amount numeric)
RETURNS SETOF gpucredit.bucket_for_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH clock AS MATERIALIZED (SELECT gpucredit.now() AS at),
	part AS MATERIALIZED (
		SELECT p.bucket, (p.held + p.spent)::numeric AS kept,
			h.hold = bucket_fit.hold AS extended
		FROM gpucredit.hold h
			JOIN gpucredit.hold_part p ON p.org = bucket_fit.tenant
				AND p.hold = h.hold
		WHERE h.org = bucket_fit.tenant AND h.job = bucket_fit.job
			AND h.account = bucket_fit.leaf)
	SELECT b.bucket, b.account, b.kind, b.priority, b.expires_at, b.available,
		b.policy, b.why IS NULL, b.why,
		CASE WHEN b.why IS NULL THEN b.most ELSE 0.000000 END
	FROM (SELECT b.bucket, b.account, b.kind, b.priority, b.expires_at,
			b.available, b.policy, b.effective_at, coalesce(b.why, CASE
			WHEN bucket_fit.gpu_types IS NOT NULL
				AND NOT r.gpu_types @> bucket_fit.gpu_types
				OR bucket_fit.gpu_types IS NULL AND r.gpu_types IS NOT NULL
				THEN 'gpu_types'
			WHEN bucket_fit.gpu_types IS NOT NULL
				AND bucket_fit.tier <> ALL (r.tiers)
				OR bucket_fit.gpu_types IS NULL AND r.tiers IS NOT NULL
				THEN 'tiers'
			WHEN bucket_fit.gpu_types IS NOT NULL
				AND bucket_fit.pool <> ALL (r.pools)
				OR bucket_fit.gpu_types IS NULL AND r.pools IS NOT NULL
				THEN 'pools'
			WHEN c.per_job <= 0 THEN 'max_per_job'
			WHEN c.share <= 0 THEN 'max_share' END) AS why,
			least(b.available, c.per_job, c.share) AS most
		FROM clock
			CROSS JOIN LATERAL gpucredit_internal.buckets_at(bucket_fit.tenant,
				bucket_fit.leaf, clock.at) b
			JOIN gpucredit.bucket r ON r.org = bucket_fit.tenant
				AND r.bucket = b.bucket
			CROSS JOIN LATERAL (SELECT coalesce(sum(p.kept), 0),
					coalesce(sum(p.kept) FILTER (WHERE p.extended), 0)
				FROM part p WHERE p.bucket = b.bucket) k (of_job, of_hold)
			CROSS JOIN LATERAL (SELECT
				r.max_per_job::numeric - k.of_job,
				trunc(r.max_share * (bucket_fit.amount
					+ coalesce((SELECT sum(p.kept) FROM part p
						WHERE p.extended), 0)), 6) - k.of_hold)
				c (per_job, share)) b
	ORDER BY b.priority, b.expires_at, gpucredit_internal.kind_rank(b.kind),
		length(b.account) DESC, b.effective_at, b.bucket;
END;
COMMENT ON FUNCTION gpucredit_internal.bucket_fit(text, text, text[], text, text,
	bigint, bigint, numeric) IS
'Internal: what buckets_for and job_buckets have in common.';

CREATE FUNCTION gpucredit_internal.require_amount(amount numeric) RETURNS void
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
AS $$
BEGIN
	IF amount <= 0 OR amount = 'NaN' OR amount = 'Infinity' THEN
		RAISE EXCEPTION '"amount" is out of range'
			USING ERRCODE = 'invalid_parameter_value',
			DETAIL = format('It is %s.', amount),
			HINT = 'Pass an amount above 0, or leave it out.';
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_internal.require_amount(numeric) IS
'Internal: raises 22023 for an amount that is not above 0; NULL passes.';

CREATE FUNCTION gpucredit.buckets_for(org text, account text,
	request text DEFAULT NULL, tier text DEFAULT 'standard_training',
	pool text DEFAULT 'default', amount numeric DEFAULT NULL)
RETURNS SETOF gpucredit.bucket_for_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit_internal.require_account(buckets_for.org, buckets_for.account);
	SELECT gpucredit_internal.require_amount(buckets_for.amount);
	SELECT f.* FROM gpucredit_internal.bucket_fit(buckets_for.org, buckets_for.account,
		gpucredit_internal.offer_types(buckets_for.request, buckets_for.tier,
			buckets_for.pool),
		buckets_for.tier, buckets_for.pool, NULL, NULL, buckets_for.amount) f;
END;
COMMENT ON FUNCTION gpucredit.buckets_for(text, text, text, text, text,
	numeric) IS
'Credit: the buckets of buckets(), in burn order, and whether each would pay for a request submitted now.
request, tier, pool: as reserve takes them; request NULL: a caller''s own hold. amount: what would be held, in credits, to apply max_share; NULL: max_share is ignored.
Result: pays; why not: revoked, expired, not_yet_active, empty, or the policy word that forbids it (gpu_types, tiers, pools, max_per_job, max_share); most: the most that it would pay.
Errors: UC001 no such account; UC401, UC402; 22P02, 22023.';

CREATE FUNCTION gpucredit.job_buckets(org text, job bigint,
	amount numeric DEFAULT NULL)
RETURNS SETOF gpucredit.bucket_for_result
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT gpucredit_internal.require_job(job_buckets.org, job_buckets.job);
	SELECT gpucredit_internal.require_amount(job_buckets.amount);
	SELECT f.* FROM gpucredit.job j
		LEFT JOIN gpucredit.hold h ON h.org = job_buckets.org
			AND h.hold = j.hold AND h.closed_at IS NULL,
		LATERAL gpucredit_internal.bucket_fit(job_buckets.org, j.account,
			j.offer_types, j.tier, j.pool, j.job, h.hold,
			job_buckets.amount) f
	WHERE j.org = job_buckets.org AND j.job = job_buckets.job;
END;
COMMENT ON FUNCTION gpucredit.job_buckets(text, bigint, numeric) IS
'Credit: which buckets would pay for an extension of an existing job''s hold, or for its next hold, as buckets_for shows them.
amount: credits of that hold or extension; NULL: max_share is ignored.
Result: as buckets_for. Errors: UC301 no such job; 22023.';
