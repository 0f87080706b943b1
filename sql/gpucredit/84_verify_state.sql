/*
 * 84_verify_state.sql: what administrators set, and how jobs, attempts and
 * holds began and ended, as the audit log has it.
 *
 * Most of this is stored nowhere else: no entry says what a price was, whether
 * an account is suspended, or what a job asked for.  The audit row of the call
 * does.  Audit rows are removed by age (85_archive.sql), so a row without an
 * audit row is reported only while none was removed; a row that differs from
 * its audit row is always reported.
 */
/* The form in which audit rows record a long text (src/audit/arguments.c). */
CREATE FUNCTION gpucredit_internal.audited_text(value text) RETURNS jsonb
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT CASE WHEN octet_length(audited_text.value) > 256
		THEN jsonb_build_object('bytes', octet_length(audited_text.value),
			'sha256', encode(sha256(convert_to(audited_text.value,
			getdatabaseencoding())), 'hex'))
		ELSE to_jsonb(audited_text.value) END;
END;
COMMENT ON FUNCTION gpucredit_internal.audited_text(text) IS
'Internal: a text as the audit log has it: as it is, or the size and digest of a long one.';

/*
 * The settings that were made last, according to the audit log.  A NULL value
 * means that the setting was removed.
 */
CREATE FUNCTION gpucredit_internal.audited_settings(from_org text, to_org text)
RETURNS TABLE (kind text, org text, key jsonb, value jsonb)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	WITH a AS MATERIALIZED (	/* few rows of many, so that the audit log is read once */
		SELECT a.org, a.audit, a.at, a.operation, a.decision, a.reason,
			a.account, a.detail AS d
		FROM gpucredit.audit a
		WHERE gpucredit_internal.in_orgs(a.org,
			audited_settings.from_org, audited_settings.to_org)
			AND a.operation IN ('set_price', 'set_resource_price', 'set_tier', 'set_lost_work',
				'set_idle_limit',
				'set_retry_rule', 'create_pool', 'register_node',
				'remove_node', 'drain', 'resume', 'set_node_key',
				'create_account', 'suspend_account', 'set_slices',
				'set_alert', 'set_quota', 'set_budget', 'set_rate_limit',
				'bind_tenant', 'unbind_tenant', 'heartbeat',
				'grant_tier', 'revoke_tier')
			AND a.decision NOT IN ('denied', 'unchanged'))
	SELECT DISTINCT ON (t.kind, t.org, t.key) t.kind, t.org, t.key, t.value
	FROM (
		SELECT 'price' AS kind, a.org, a.audit,
			jsonb_build_array(a.d ->> 'gpu_type', coalesce(a.d ->> 'pool', ''),
				a.d ->> 'spot', (a.d ->> 'effective_at')::timestamptz,
				a.d -> 'revision') AS key,
			jsonb_build_array(a.d -> 'per_gpu_hour', a.at) AS value
		FROM a WHERE a.operation = 'set_price'
		UNION ALL
		/*
		 * Prices of resources are in the same table, under names that no GPU
		 * type has.
		 */
		SELECT 'price', a.org, a.audit, jsonb_build_array(CASE a.d ->> 'resource'
				WHEN 'cpu' THEN 'cpu core' ELSE 'memory GiB' END,
				coalesce(a.d ->> 'pool', ''), 'false',
				(a.d ->> 'effective_at')::timestamptz, a.d -> 'revision'),
			jsonb_build_array(a.d -> 'per_hour', a.at)
		FROM a WHERE a.operation = 'set_resource_price'
		UNION ALL
		SELECT 'tier', a.org, a.audit, jsonb_build_array(a.d ->> 'tier'),
			jsonb_build_array(a.d -> 'rank', a.d ->> 'preemptible',
				a.d ->> 'can_preempt',
				justify_interval((a.d ->> 'grace')::interval),
				justify_interval((a.d ->> 'min_run')::interval),
				justify_interval((a.d ->> 'max_wall')::interval),
				justify_interval((a.d ->> 'max_wait')::interval),
				a.d ->> 'bill_lost_work',
				coalesce(a.d -> 'price_factor', to_jsonb(1)), a.d -> 'ages_to')
		FROM a WHERE a.operation = 'set_tier'
		UNION ALL
		/* A call without a value for open leaves it unchanged. */
		SELECT 'tier open', a.org, a.audit, jsonb_build_array(a.d ->> 'tier'),
			CASE WHEN (a.d ->> 'open')::boolean IS DISTINCT FROM coalesce(
				(SELECT b.open FROM gpucredit.tier_builtin b
				WHERE b.tier = a.d ->> 'tier'), true)
				THEN jsonb_build_array(a.d ->> 'open') END
		FROM a WHERE a.operation = 'set_tier' AND a.d ->> 'open' IS NOT NULL
		UNION ALL
		SELECT 'tier grant', a.org, a.audit,
			jsonb_build_array(a.account, a.d ->> 'tier'),
			CASE WHEN a.operation = 'grant_tier'
				THEN jsonb_build_array(a.at) END
		FROM a WHERE a.operation IN ('grant_tier', 'revoke_tier')
		UNION ALL
		SELECT 'lost work', a.org, a.audit,
			jsonb_build_array(a.d ->> 'tier', a.d ->> 'outcome'),
			jsonb_build_array(a.d ->> 'billed')
		FROM a WHERE a.operation = 'set_lost_work' AND a.decision <> 'removed'
		UNION ALL
		SELECT 'lost work', a.org, a.audit,
			jsonb_build_array(a.d ->> 'tier', a.d ->> 'outcome'), NULL
		FROM a WHERE a.operation = 'set_lost_work' AND a.decision = 'removed'
		UNION ALL
		SELECT 'idle limit', a.org, a.audit, jsonb_build_array(a.d ->> 'tier'),
			CASE WHEN a.decision <> 'removed' THEN jsonb_build_array(
				justify_interval((a.d ->> 'idle_limit')::interval),
				justify_interval((a.d ->> 'idle_warning')::interval)) END
		FROM a WHERE a.operation = 'set_idle_limit'
		UNION ALL
		SELECT 'retry rule', a.org, a.audit, jsonb_build_array(a.d ->> 'rule'),
			CASE WHEN a.decision <> 'removed' THEN
				jsonb_build_array(a.d -> 'priority', a.d -> 'class',
				a.d -> 'outcome', a.d -> 'exit_codes', a.d -> 'message',
				a.d -> 'advice') END
		FROM a WHERE a.operation = 'set_retry_rule'
		UNION ALL
		SELECT 'pool', a.org, a.audit, jsonb_build_array(a.d ->> 'pool'),
			/* The first node inserts the default pool with an empty policy. */
			CASE WHEN a.d ->> 'pool' <> 'default' OR a.d -> 'policy' <> '{}'
				THEN jsonb_build_array(a.d -> 'policy') END
		FROM a WHERE a.operation = 'create_pool'
		UNION ALL
		SELECT 'node', a.org, a.audit, jsonb_build_array(a.d ->> 'node'),
			CASE WHEN a.operation = 'register_node' THEN jsonb_build_array(
				a.d -> 'pool', a.d -> 'gpu_type', a.d -> 'gpus',
				a.d -> 'gpu_memory_mib', a.d -> 'cpu_milli',
				a.d -> 'memory_mib', a.d -> 'nvlink_domain', a.d -> 'leaf',
				a.d -> 'spot', a.d -> 'labels', a.d -> 'spine',
				a.d -> 'nvlink_mbps', a.d -> 'leaf_mbps',
				a.d -> 'spine_mbps') END
		FROM a WHERE a.operation IN ('register_node', 'remove_node')
		UNION ALL
		SELECT 'devices of node', a.org, a.audit, jsonb_build_array(a.d ->> 'node'),
			jsonb_build_array(CASE WHEN a.operation = 'heartbeat'
				THEN a.d ->> 'healthy' ELSE CASE (a.d ->> 'gpus')::int
				WHEN 0 THEN '{}' WHEN 1 THEN '{0}'
				ELSE format('{0-%s}', (a.d ->> 'gpus')::int - 1) END END)
		FROM a WHERE a.operation = 'register_node'
			OR (a.operation = 'heartbeat'
				AND a.decision IN ('device_failed', 'device_back'))
		UNION ALL
		SELECT 'devices of node', a.org, a.audit,
			jsonb_build_array(a.d ->> 'node'), NULL
		FROM a WHERE a.operation = 'remove_node'
		UNION ALL
		SELECT 'drain', a.org, a.audit, jsonb_build_array(a.d ->> 'node'),
			CASE WHEN a.operation = 'drain' THEN jsonb_build_array(a.reason,
				(a.d ->> 'deadline')::timestamptz) END
		FROM a WHERE a.operation IN ('drain', 'resume', 'remove_node')
		UNION ALL
		SELECT 'node key', a.org, a.audit, jsonb_build_array(a.d ->> 'node'),
			CASE WHEN a.decision <> 'removed' THEN
				jsonb_build_array(a.d -> 'digest', a.at) END
		FROM a WHERE a.operation = 'set_node_key'
		UNION ALL
		SELECT 'weight', a.org, a.audit, jsonb_build_array(a.account),
			jsonb_build_array(a.d -> 'weight')
		FROM a WHERE a.operation = 'create_account'
		UNION ALL
		SELECT 'account', a.org, - a.audit, jsonb_build_array(a.account),
			jsonb_build_array(a.at)
		FROM a WHERE a.operation = 'create_account'
		UNION ALL
		SELECT 'suspension', a.org, a.audit, jsonb_build_array(a.account),
			CASE WHEN a.decision = 'suspended' THEN to_jsonb(true) END
		FROM a WHERE a.operation = 'suspend_account'
		UNION ALL
		SELECT 'slices', a.org, a.audit, jsonb_build_array(a.account),
			nullif(a.d -> 'n', to_jsonb(1))
		FROM a WHERE a.operation = 'set_slices'
		UNION ALL
		SELECT 'alert', a.org, a.audit, jsonb_build_array(a.account),
			a.d -> 'balance_low'
		FROM a WHERE a.operation = 'set_alert'
		UNION ALL
		SELECT 'quota', a.org, a.audit,
			jsonb_build_array(a.account, coalesce(a.d ->> 'gpu_type', '')),
			CASE WHEN a.decision <> 'removed' THEN jsonb_build_array(
				a.d -> 'max_gpus', a.d -> 'max_running', a.d -> 'max_queued',
				a.d -> 'max_cpu_milli', a.d -> 'max_memory_mib',
				a.d -> 'max_nonpreemptible_gpus') END
		FROM a WHERE a.operation = 'set_quota'
		UNION ALL
		SELECT 'budget', a.org, a.audit,
			jsonb_build_array(a.account, a.d -> 'period'),
			CASE WHEN a.decision <> 'removed' THEN jsonb_build_array(
				a.d -> 'amount', a.d -> 'hard', a.d -> 'alert_at', a.at) END
		FROM a WHERE a.operation = 'set_budget'
		UNION ALL
		SELECT 'rate limit', a.org, a.audit,
			jsonb_build_array(a.account, a.d -> 'limits'),
			CASE WHEN a.decision <> 'removed' THEN jsonb_build_array(
				(a.d ->> 'per_second')::float8, a.d -> 'burst') END
		FROM a WHERE a.operation = 'set_rate_limit'
		UNION ALL
		SELECT 'tenant', a.org, a.audit,
			jsonb_build_array(a.account, a.d -> 'role'),
			CASE WHEN a.operation = 'bind_tenant' THEN to_jsonb(true) END
		FROM a WHERE a.operation IN ('bind_tenant', 'unbind_tenant')) t
	ORDER BY t.kind, t.org, t.key, t.audit DESC;
END;
COMMENT ON FUNCTION gpucredit_internal.audited_settings(text, text) IS
'Internal: what administrators set last, by the audit log. value NULL: they removed it.';

/*
 * The present settings, from the tables, in the same form as
 * audited_settings() and in the same order of columns.
 */
CREATE FUNCTION gpucredit_internal.settings_found(from_org text, to_org text)
RETURNS TABLE (kind text, org text, key jsonb, value jsonb)
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT s.kind, s.org, s.key, s.value
	FROM (
		SELECT 'price' AS kind, '' AS org, jsonb_build_array(p.gpu_type, p.pool,
				p.spot::text, p.effective_at, p.revision) AS key,
			jsonb_build_array(p.per_gpu_hour::numeric, p.recorded_at) AS value
		FROM gpucredit.price p
		UNION ALL
		SELECT 'tier', '', jsonb_build_array(t.tier),
			jsonb_build_array(t.rank, t.preemptible, t.can_preempt::text,
				justify_interval(t.grace), justify_interval(t.min_run),
				justify_interval(t.max_wall), justify_interval(t.max_wait),
				t.bill_lost_work::text, t.price_factor, t.ages_to)
		FROM gpucredit.tier_custom t
		UNION ALL
		SELECT 'tier open', '', jsonb_build_array(t.tier),
			jsonb_build_array(t.open::text)
		FROM gpucredit.tier_custom t
			LEFT JOIN gpucredit.tier_builtin b ON b.tier = t.tier
		WHERE t.open <> coalesce(b.open, true)
		UNION ALL
		SELECT 'lost work', '', jsonb_build_array(l.tier, l.outcome),
			jsonb_build_array(l.billed::text)
		FROM gpucredit.lost_work l
		UNION ALL
		SELECT 'idle limit', '', jsonb_build_array(l.tier),
			jsonb_build_array(justify_interval(l.idle_limit),
				justify_interval(l.idle_warning))
		FROM gpucredit.idle_limit l
		UNION ALL
		SELECT 'retry rule', '', jsonb_build_array(r.rule),
			jsonb_build_array(r.priority, r.class, r.outcome,
				r.exit_codes::text,
				gpucredit_internal.audited_text(r.message),
				gpucredit_internal.audited_text(r.advice))
		FROM gpucredit.retry_rule_custom r
		UNION ALL
		SELECT 'pool', '', jsonb_build_array(p.pool),
			jsonb_build_array(p.policy)
		FROM gpucredit.pool p
		/* The first node inserts this row. */
		WHERE p.pool <> 'default' OR p.policy <> '{}'
		UNION ALL
		SELECT 'node', '', jsonb_build_array(n.node), jsonb_build_array(n.pool,
			n.gpu_type, n.gpus, n.gpu_memory_mib, n.cpu_milli, n.memory_mib,
			n.nvlink_domain, n.leaf, n.spot::text, n.labels, n.spine,
			n.nvlink_mbps, n.leaf_mbps, n.spine_mbps)
		FROM gpucredit.node n
		UNION ALL
		SELECT 'devices of node', '', jsonb_build_array(n.node),
			jsonb_build_array(n.healthy::text)
		FROM gpucredit.node n
		UNION ALL
		SELECT 'drain', '', jsonb_build_array(n.node),
			jsonb_build_array(n.draining, n.drain_deadline)
		FROM gpucredit.node n
		WHERE n.draining IS NOT NULL OR n.drain_deadline IS NOT NULL
		UNION ALL
		SELECT 'node key', '', jsonb_build_array(k.node), jsonb_build_array(
			encode(sha256(k.sha256), 'hex'), k.set_at)
		FROM gpucredit.node_key k) s
	WHERE settings_found.from_org IS NULL
	UNION ALL
	SELECT s.kind, s.org, s.key, s.value
	FROM (
		SELECT 'weight' AS kind, a.org, jsonb_build_array(a.account) AS key,
			jsonb_build_array(a.weight) AS value
		FROM gpucredit.account a
		UNION ALL
		SELECT 'account', a.org, jsonb_build_array(a.account),
			jsonb_build_array(a.created_at)
		FROM gpucredit.account a
		UNION ALL
		SELECT 'suspension', a.org, jsonb_build_array(a.account),
			to_jsonb(true)
		FROM gpucredit.account a WHERE a.suspended
		UNION ALL
		SELECT 'slices', a.org, jsonb_build_array(a.account),
			to_jsonb(a.slices)
		FROM gpucredit.account a WHERE a.slices <> 1
		UNION ALL
		SELECT 'alert', a.org, jsonb_build_array(a.account),
			to_jsonb(a.balance_low::numeric)
		FROM gpucredit.account a WHERE a.balance_low IS NOT NULL
		UNION ALL
		SELECT 'quota', q.org, jsonb_build_array(q.account, q.gpu_type),
			jsonb_build_array(q.max_gpus, q.max_running, q.max_queued,
				q.max_cpu_milli, q.max_memory_mib, q.max_nonpreemptible_gpus)
		FROM gpucredit.quota q
		UNION ALL
		SELECT 'budget', b.org, jsonb_build_array(b.account, b.period),
			jsonb_build_array(b.amount::numeric, b.hard::text,
				gpucredit_internal.audited_text(b.alert_at::text), b.set_at)
		FROM gpucredit.budget b
		UNION ALL
		SELECT 'tier grant', g.org, jsonb_build_array(g.account, g.tier),
			jsonb_build_array(g.granted_at)
		FROM gpucredit.tier_grant g
		UNION ALL
		SELECT 'rate limit', r.org, jsonb_build_array(r.account, r.operation),
			jsonb_build_array(r.per_second, r.burst)
		FROM gpucredit.rate_limit r
		UNION ALL
		SELECT 'tenant', t.org, jsonb_build_array(t.account, t.role),
			to_jsonb(true)
		FROM gpucredit.tenant t) s
	WHERE gpucredit_internal.in_orgs(s.org,
		settings_found.from_org, settings_found.to_org);
END;
COMMENT ON FUNCTION gpucredit_internal.settings_found(text, text) IS
'Internal: what administrators set, as the tables have it.';

/*
 * Stores a digest of the built-in rows that this script has inserted, as a
 * function.
 */
DO $builtin$
BEGIN
	EXECUTE format('CREATE FUNCTION gpucredit_internal.builtin_digest() '
		'RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE '
		'RETURN %L::bigint', (SELECT bit_xor(b.hash) FROM (
			SELECT hash_record_extended(t, 1) AS hash
			FROM gpucredit.tier_builtin t
			UNION ALL
			SELECT hash_record_extended(r, 2)
			FROM gpucredit.retry_rule_builtin r) b));
END
$builtin$;
COMMENT ON FUNCTION gpucredit_internal.builtin_digest() IS
'Internal: the digest of the built-in tiers and retry rules as they were installed.';

CREATE FUNCTION gpucredit_internal.check_settings(from_org text, to_org text)
RETURNS SETOF gpucredit.verify_result
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT 'setting_is_as_audited', coalesce(f.org, t.org),
		format('%s %s', coalesce(f.kind, t.kind), (SELECT string_agg(
			quote_ident(e.value), ' ' ORDER BY e.ordinality)
			FROM jsonb_array_elements_text(coalesce(f.key, t.key))
				WITH ORDINALITY e)),
		format('is %s, last set to %s', coalesce(f.value::text, 'missing'),
			coalesce(t.value::text, CASE WHEN t.kind IS NULL THEN 'nothing'
				ELSE 'removed' END))
	FROM gpucredit_internal.settings_found(check_settings.from_org, check_settings.to_org) f
		FULL JOIN gpucredit_internal.audited_settings(check_settings.from_org, check_settings.to_org) t
			ON t.kind = f.kind AND t.org = f.org AND t.key = f.key
		CROSS JOIN (SELECT gpucredit_internal.kept_from('audit') AS after) k
	WHERE f.value IS DISTINCT FROM t.value
		AND (t.kind IS NOT NULL OR k.after IS NULL)
	UNION ALL
	SELECT 'builtin_is_as_installed', '', 'built-in tiers and retry rules',
		format('%s rows are not those that were installed', b.n)
	FROM (SELECT count(*) AS n, bit_xor(b.hash) AS digest FROM (
			SELECT hash_record_extended(t, 1) AS hash
			FROM gpucredit.tier_builtin t
			UNION ALL
			SELECT hash_record_extended(r, 2)
			FROM gpucredit.retry_rule_builtin r) b) b
	WHERE check_settings.from_org IS NULL
		AND b.digest IS DISTINCT FROM gpucredit_internal.builtin_digest()
	UNION ALL
	/*
	 * When a node's provider reclaims it follows from the last call of
	 * reclaim(), unless that was withdrawn.
	 */
	SELECT 'reclaim_is_as_audited', '', format('node "%s"', n.node),
		format('gone at %s, last told at %s with a notice of %s',
			coalesce(n.reclaim_at::text, 'never'), coalesce(a.at::text, 'no time'),
			a.detail ->> 'notice')
	FROM gpucredit.node n
		LEFT JOIN (SELECT DISTINCT ON (a.detail ->> 'node') a.*
			FROM gpucredit.audit a
			WHERE a.operation IN ('reclaim', 'resume', 'remove_node')
				AND a.org = '' AND check_settings.from_org IS NULL
			ORDER BY a.detail ->> 'node', a.audit DESC) a
			ON a.detail ->> 'node' = n.node AND a.operation = 'reclaim'
		CROSS JOIN LATERAL (SELECT CASE WHEN a.at IS NOT NULL THEN
				least(extract(epoch FROM a.at)
				+ extract(epoch FROM (a.detail ->> 'notice')::interval),
				extract(epoch FROM '294276-12-31 23:59:59.999999+00'
				::timestamptz)) END AS told) t
		CROSS JOIN (SELECT gpucredit_internal.kept_from('audit') AS after) k
	WHERE check_settings.from_org IS NULL
		AND CASE WHEN n.reclaim_at IS NOT NULL THEN
			extract(epoch FROM n.reclaim_at) <> t.told
				OR (t.told IS NULL AND k.after IS NULL)
			/* The node was registered again after that instant. */
			ELSE t.told IS NOT NULL AND NOT EXISTS (
				SELECT FROM gpucredit.audit r
				WHERE r.org = '' AND r.operation = 'register_node'
					AND r.audit > a.audit AND r.detail ->> 'node' = n.node
					AND extract(epoch FROM r.at) >= t.told) END;
END;
COMMENT ON FUNCTION gpucredit_internal.check_settings(text, text) IS
'verify: what administrators set is what the audit log says they set.';
