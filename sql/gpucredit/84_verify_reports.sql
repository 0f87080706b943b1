/*
 * 84_verify_reports.sql: facts that only the audit log proves.
 *
 * No entry says when a bucket expires, what it pays for, or which devices a
 * job was promised.  The audit row of that decision does.  Audit rows are
 * removed (85_archive.sql), so decisions as old as the newest removed row are
 * not checked.
 */
CREATE FUNCTION gpucredit_internal.check_audited_terms(from_org text, to_org text)
RETURNS SETOF gpucredit.verify_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH a AS MATERIALIZED (	/* few rows of many, so that the audit log is read once */
		SELECT a.org, a.audit, a.at, a.operation, a.account, a.bucket,
			a.detail
		FROM gpucredit.audit a
		WHERE gpucredit_internal.in_orgs(a.org,
			check_audited_terms.from_org, check_audited_terms.to_org)
			AND a.operation IN ('issue', 'transfer', 'revoke', 'set_slices')
			AND a.decision <> 'denied'),
	b AS NOT MATERIALIZED (
		SELECT * FROM gpucredit.bucket b
		WHERE gpucredit_internal.in_orgs(b.org,
			check_audited_terms.from_org, check_audited_terms.to_org)),
	kept AS (SELECT gpucredit_internal.kept_from('audit') AS after)
	/* Release 0.1.0 wrote only the kind. */
	SELECT 'bucket_is_as_issued', b.org, format('bucket %s', b.bucket),
		format('account "%s", %s, priority %s, from %s to %s, policy %s; issued to account "%s" at %s with %s',
			b.account, b.kind, b.priority, b.effective_at,
			coalesce(b.expires_at::text, 'ever'), b.policy, a.account, a.at,
			a.detail - 'key')
	FROM a JOIN b ON b.org = a.org AND b.bucket = a.bucket
		CROSS JOIN LATERAL (SELECT coalesce((a.detail ->> 'effective_at')
			::timestamptz, a.at) AS effective_at) t
	WHERE a.operation = 'issue'
		AND (a.account <> b.account OR a.at <> b.created_at
			OR a.detail ->> 'kind' <> b.kind
			OR (a.detail ? 'priority'
				AND ((a.detail ->> 'priority')::int <> b.priority
				OR a.detail -> 'policy' <> b.policy
				OR t.effective_at <> b.effective_at
				/*
				 * A day of valid_for has 24 hours, and no instant is later
				 * than the last timestamp.
				 */
				OR extract(epoch FROM b.expires_at) IS DISTINCT FROM
					CASE WHEN a.detail ? 'valid_for' THEN least(
						extract(epoch FROM t.effective_at)
						+ extract(epoch FROM (a.detail ->> 'valid_for')
							::interval), extract(epoch FROM
							'294276-12-31 23:59:59.999999+00'::timestamptz))
					ELSE extract(epoch FROM (a.detail ->> 'expires_at')
						::timestamptz) END
				OR CASE WHEN jsonb_typeof(a.detail -> 'memo') = 'object'
					THEN (a.detail -> 'memo' ->> 'sha256') IS DISTINCT FROM
						encode(sha256(convert_to(b.memo,
							getdatabaseencoding())), 'hex')
					ELSE (a.detail ->> 'memo') IS DISTINCT FROM b.memo END)))
	UNION ALL
	SELECT 'bucket_is_as_its_origin', b.org, format('bucket %s', b.bucket),
		format('account "%s", %s, priority %s, from %s to %s, policy %s; '
			'moved to account "%s" at %s from bucket %s, %s, priority %s, from %s to %s, policy %s',
			b.account, b.kind, b.priority, b.effective_at,
			coalesce(b.expires_at::text, 'ever'), b.policy,
			a.detail ->> 'to', a.at, o.bucket, o.kind, o.priority,
			o.effective_at, coalesce(o.expires_at::text, 'ever'), o.policy)
	FROM a
		CROSS JOIN LATERAL jsonb_to_recordset(a.detail -> 'buckets')
			AS m ("from" bigint, "to" bigint)
		JOIN b ON b.org = a.org AND b.bucket = m."to"
		JOIN gpucredit.bucket o ON o.org = a.org AND o.bucket = m."from"
	WHERE a.operation = 'transfer'
		AND (a.detail ->> 'to' <> b.account OR a.at <> b.created_at
			OR (b.kind, b.priority, b.effective_at, b.expires_at, b.policy,
				b.memo) IS DISTINCT FROM (o.kind, o.priority, o.effective_at,
				o.expires_at, o.policy, o.memo))
	UNION ALL
	SELECT 'bucket_is_closed_as_told', b.org, format('bucket %s', b.bucket),
		format('closed %s, first revoked %s',
			coalesce(b.closed_at::text, 'never'),
			coalesce(r.at::text, 'never'))
	FROM b
		LEFT JOIN (SELECT DISTINCT ON (a.org, a.bucket) a.org, a.bucket, a.at
			FROM a WHERE a.operation = 'revoke'
			ORDER BY a.org, a.bucket, a.audit) r
			ON r.org = b.org AND r.bucket = b.bucket
		CROSS JOIN kept k
	WHERE b.closed_at IS DISTINCT FROM r.at
		AND coalesce(b.closed_at > k.after, true)
	UNION ALL
	/* The account's row has the present state, the audit log the past ones. */
	SELECT 'sliced_hold_is_of_slices', h.org,
		format('account "%s"', h.account),
		format('%s holds give back to slices, from hold %s on, and no account above ever had any',
			h.n, h.first)
	FROM (SELECT h.org, h.account, count(*) AS n, min(h.hold) AS first
			FROM gpucredit.hold h
			WHERE h.sliced AND gpucredit_internal.in_orgs(h.org,
				check_audited_terms.from_org, check_audited_terms.to_org)
			GROUP BY h.org, h.account) h
		CROSS JOIN kept k
	WHERE k.after IS NULL
		AND NOT EXISTS (SELECT FROM gpucredit.account c
			WHERE c.org = h.org AND c.slices > 1
				AND gpucredit_internal.is_below(h.account, c.account))
		AND NOT EXISTS (SELECT FROM a
			WHERE a.org = h.org AND a.operation = 'set_slices'
				AND (a.detail ->> 'n')::int > 1
				AND gpucredit_internal.is_below(h.account, a.account))
	UNION ALL
	SELECT 'reservation_is_as_told', r.org, format('job %s', r.job),
		format('in pool "%s" of %s (%s) from %s on, by limit %s, guaranteed by %s, told at %s; %s',
			r.pool, r.nodes, coalesce(r.gpu_type, 'no GPUs'), r.at,
			coalesce(r.limit_at::text, 'never'),
			coalesce(r.latest_at::text, 'never'), r.told_at, CASE WHEN j.job IS NULL THEN 'there is no such job'
				WHEN j.pool <> r.pool THEN format('the job is in pool "%s"',
					j.pool)
				WHEN p.nodes IS DISTINCT FROM r.nodes
					THEN 'the devices are ' || coalesce(p.nodes, 'none')
				ELSE 'the audit log was told no such thing' END)
	FROM gpucredit.reservation r
		LEFT JOIN gpucredit.job j ON j.org = r.org AND j.job = r.job
		CROSS JOIN LATERAL (SELECT string_agg(u.node || u.gpus::text, ' '
				ORDER BY u.n) AS nodes
			FROM ROWS FROM (unnest(r.on_nodes), unnest(r.gpus))
				WITH ORDINALITY AS u (node, gpus, n)) p
		CROSS JOIN kept k
	WHERE gpucredit_internal.in_orgs(r.org,
		check_audited_terms.from_org, check_audited_terms.to_org)
		AND ((j.pool = r.pool AND p.nodes = r.nodes) IS NOT TRUE
			OR (coalesce(r.told_at > k.after, true) AND NOT EXISTS (
				SELECT FROM gpucredit.audit a
				WHERE a.org = r.org AND a.job = r.job AND a.at = r.told_at
					AND a.operation = 'place' AND a.decision = 'reserve'
					AND a.detail ->> 'nodes' = r.nodes
					AND a.detail ->> 'gpu_type' IS NOT DISTINCT FROM
						r.gpu_type
					AND (a.detail ->> 'start_by_limit')::timestamptz
						IS NOT DISTINCT FROM r.limit_at
					AND (a.detail ->> 'latest_start')::timestamptz
						IS NOT DISTINCT FROM r.latest_at
					AND (a.detail ->> 'expected_start')::timestamptz = r.at)));
END;
COMMENT ON FUNCTION gpucredit_internal.check_audited_terms(text, text) IS
'verify: the terms of buckets, and reservations, match the audit log.';
