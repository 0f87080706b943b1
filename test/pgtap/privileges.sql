-- Who may do what: every object of the extension x every role, and PUBLIC.
--
-- The list is complete: what it does not name is refused, and an object, role
-- or privilege that is not in it fails the test. New objects go into it.
--
--   function  acts with its owner's rights      execute
--   internal  acts with its caller's            execute
--   table, view, sequence                       read; nobody may do anything else
--   type                                        use
--
-- Row types of tables and array types have no privileges that matter: without
-- the table they are of no use.
\set ON_ERROR_ROLLBACK 1
\set ON_ERROR_STOP true
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off

BEGIN;
SET LOCAL client_min_messages = warning;
SELECT no_plan();
CREATE ROLE gpucredit_test_nobody;

CREATE TEMP TABLE listed (kind text, roles text, names text);
INSERT INTO listed VALUES
('schema', 'admin agent app auditor operator pg_monitor tenant',
	'gpucredit'),
('schema', '',
	'gpucredit_internal gpucredit_report'),
('schema', 'admin app auditor operator tenant',
	'gpucredit_views'),
('function', '',
	'hold_leased require_account require_job require_organisation'),
('function', 'admin',
	'bind_tenant create_account create_pool grant_tier issue publish_event rebuild refund refund_hold revoke revoke_tier set_budget
		set_idle_limit set_lost_work set_price set_quota set_rate_limit set_resource_price set_slices set_tier suspend_account transfer
		unbind_tenant uninstall write_off'),
('function', 'admin agent',
	'checkpoint log_keep log_put meter meter_batch part_ended checkpoint_loaded'),
('function', 'admin agent app tenant',
	'settle'),
('function', 'admin agent operator',
	'heartbeat place placed poke_addresses reclaim report_topology'),
('function', 'admin agent auditor operator',
	'plan'),
('function', 'admin app auditor',
	'denials'),
('function', 'admin app auditor operator tenant',
	'checkpoints events explain history node_sizes report_html top_jobs top_spenders usage_by waste_by'),
('function', 'admin app auditor tenant',
	'balance buckets buckets_for budgets invoice job_buckets pool_placed_by statement tiers_for'),
('function', 'admin app operator tenant',
	'cancel hold_job log_get log_wish open_session release_job requeue_job signal_job update_job'),
('function', 'admin app tenant',
	'capture extend_hold hold quote release reserve store_file'),
('function', 'admin auditor',
	'audit_before audit_proof verify_audit'),
('function', 'admin auditor operator tenant',
	'queue'),
('function', 'admin auditor operator',
	'burn_rate capacity_advice cluster_map cron_jobs demand fair_share recent_events plan_with
		queue_reasons reservations seal_waits upkeep_lags verify verify_ranges'),
('function', 'admin auditor operator pg_monitor',
	'metric_samples metrics_text'),
('function', 'admin operator',
	'upkeep check_books check_nodes drain end_tenant_transactions expire_credits install_jobs maintain reap_holds
		register_node remove_jobs remove_node resume seal_audit set_alert set_node_key set_retry_rule'),
('internal', '',		-- of reports and screens
	'html node_blocks queue_plan queued_jobs report_about report_ahead report_balance report_bin_name
		report_bins report_cell report_chart report_credit report_day report_fairness report_first
		report_graph_cell report_grid report_head report_held report_hours report_instant report_known
		report_lines report_micros report_money report_money_cell report_more report_name
		report_orgs report_outlook report_owner_row report_owners report_page report_percent report_points report_rect report_refunds report_scope_orgs
		report_section report_series report_shares report_short report_slots report_span
		report_spend report_spenders report_stamp report_step report_style report_svg report_table
		report_tick report_tile report_tiles report_time report_use report_waiting report_waits
		runs_out screen_name spend_rate'),
('internal', '',
	'accrued_at accrued_change accrued_difference account_path account_spend alert_balances alert_budgets request_digest alert_expiries alert_spend cache_invalidate
		audit_binding audit_jobs audited_text balance_at balance_kept balance_now balance_of bucket_difference bucket_event
		bucket_fit buckets_at budget_room_at budgets_at check_accounts check_bills check_buckets check_budgets check_claims
		balances_recovered builtin_digest check_archive_batches check_devices check_guards check_history check_holds check_jobs check_seals check_settings check_shares check_slices
		check_audited_terms check_traces allocate allocate_quota clip_for_message cluster_gauges counters credits_combine credits_deserialize credits_serialize delta_day
		book_ranges check_book_range check_seals_of_late
		capacity_needed capacity_works closings_digest credits_sum_numeric cron_gauges cron_job_name cron_job_of cron_tasks dead_held demand_parts archive archive_batch_digest entry_by_bucket entry_by_part event_detail fold_denials fold_spend forget_rows upkeep_rows upkeep_tasks
		forget forget_events forget_files forget_output forget_requests forget_usage high_spend instant_text hold_difference in_orgs is_below
		job_is_sound kept_from kind_rank limits_difference lock_chain lock_events lock_name log_finding metric_families metric_labels micros
		money_gauges notify_nodes number_events is_tenant_login limit_tenant_logins
		offer_types part_difference path_buckets period_start queue_gauges raise_alert raise_alerts raise_job_alert refuse_change row_check lock_alert wait_alert next_departure
		notify_alert notify_number tenant_timeouts
		quota_is_sound raise_account_alerts raise_expiry_alerts repair require_amount require_cron require_kept require_report require_role require_sense require_slots require_wait_target
		run_end set_login_timeout set_upkeep_position settings_found audited_settings slice_is_sound spend_day_difference use_day_difference spend_line total_difference unschedule upkeep_position upkeep_until usage_words used_by_few used_difference utc_day utc_midnight write_audit write_event'),
('internal', 'admin agent app auditor operator tenant',
	'avg bill credits_accum credits_accum_inv credits_add credits_avg credits_cmp
		credits_eq credits_ge credits_gt credits_hash credits_hash_extended credits_in
		credits_larger credits_le credits_lt credits_mul credits_ne credits_neg credits_out
		credits_recv credits_send credits_smaller credits_sub credits_sum credits_to_numeric
		gpu_count gpureq_cmp gpureq_eq gpureq_ge gpureq_gt gpureq_hash
		gpureq_hash_extended gpureq_in gpureq_le gpureq_lt gpureq_max_gpus gpureq_min_gpus
		gpureq_min_memory gpureq_ne gpureq_out gpureq_recv gpureq_send gpureq_share gpureq_types
		gpuset_cmp gpuset_contained gpuset_contains gpuset_contains_device gpuset_device_contained
		gpuset_difference gpuset_eq gpuset_from_array gpuset_ge gpuset_gt gpuset_hash
		gpuset_hash_extended gpuset_in gpuset_intersection gpuset_le gpuset_lt gpuset_ne gpuset_out
		gpuset_overlaps gpuset_recv gpuset_send gpuset_to_array gpuset_union
		int2_to_credits int4_to_credits int8_to_credits key_space max min mul_credits now numeric_to_credits
		may_read sum union_agg sum_numeric'),
('view', 'admin app auditor operator tenant',
	'jobs prices tier'),
('view', 'admin auditor operator tenant',
	'attempts'),
('view', 'admin auditor tenant',
	'accounts entries holds'),
('view', 'admin auditor',
	'allocated_devices bucket_whole budget_counter_whole closing_net job_wait'),
('view', 'admin auditor operator',
	'capacity cron_status node_capacity nodes queue_depth retry_rule seal_status seals upkeep_lag'),
('view', 'admin auditor operator pg_monitor',
	'metrics'),
('view', 'admin app auditor operator tenant',		-- for tools that reflect a schema
	'gpucredit_views.events gpucredit_views.jobs gpucredit_views.prices gpucredit_views.tiers'),
('view', 'admin app auditor tenant',
	'gpucredit_views.alerts'),
('view', 'admin auditor operator tenant',
	'gpucredit_views.attempts'),
('view', 'admin auditor tenant',
	'gpucredit_views.accounts gpucredit_views.balances gpucredit_views.entries gpucredit_views.holds'),
('view', 'admin auditor operator',
	'gpucredit_views.nodes gpucredit_views.pools'),
('table', 'admin app auditor operator tenant',
	'price'),
('table', 'admin app auditor tenant',
	'alert'),
('table', '',
	'step_secret'),
('table', 'admin auditor',
	'account_delta account_total accrued attempt_part attempt_watch audit bucket bucket_slice budget budget_counter budget_log
		budget_slice claim claim_gpu closing denial event_pending eviction fair_usage hold_budget hold_part job_file job_session job_signal stored_file kept_log log_wish idle_limit lost_work node_cache node_key
		node_strike quota quota_lock rate_limit request reservation retry_rule_builtin retry_rule_custom seal seal_leaf seal_pending
		seal_row spend_day tenant tier_builtin tier_custom tier_grant uncollected upkeep_position usage usage_horizon
		workload_mix'),
('table', 'admin auditor operator',
	'attempt_gpu checkpoint archive_batch directive node pool'),
('table', 'admin app auditor operator tenant',
	'event'),
('table', 'admin auditor operator tenant',
	'attempt'),
('table', 'admin auditor tenant',
	'account entry hold job'),
('sequence', '',
	'alert_alert_seq audit_audit_seq bucket_bucket_seq entry_entry_seq event_event_seq hold_hold_seq job_job_seq usage_usage_seq'),
('type', 'admin agent app auditor operator tenant',
	'gpucredit.burn_rate_result gpucredit.tiers_for_result gpucredit.recent_events_result gpucredit.queue_reasons_result
		gpucredit.queue_result gpucredit.report_bucket gpucredit.report_owner gpucredit.report_scope'),
('type', '',
	'gpucredit_report.report_hours_line gpucredit_report.report_line gpucredit_report.report_share
		gpucredit_report.report_slot gpucredit_report.report_wait'),
('type', 'admin agent app auditor operator tenant',
	'gpucredit.audit_proof_result gpucredit.balance_result gpucredit.bucket_for_result
		gpucredit.bucket_result gpucredit.budgets_row gpucredit.cancel_result
		gpucredit.capacity_advice_result gpucredit.capture_result gpucredit.checkpoints_result gpucredit.counters_result
		gpucredit.credits gpucredit.cron_status_result gpucredit.demand_result
		gpucredit.denials_result gpucredit.difference gpucredit.expire_credits_result
		gpucredit.explain_result gpucredit.fair_share_result gpucredit.gpureq gpucredit.gpuset
		gpucredit.heartbeat_result gpucredit.history_result gpucredit.hold_job_result gpucredit.hold_result
		gpucredit.invoice_result gpucredit.issue_result gpucredit.log_result gpucredit.maintain_result
		gpucredit.node_sizes_result gpucredit.open_session_result gpucredit.meter_batch_result gpucredit.meter_result gpucredit.metrics_result gpucredit.part_ended_result
		gpucredit.place_result gpucredit.placed_result gpucredit.plan_with_result gpucredit.poke_addresses_result gpucredit.quote_result gpucredit.rebuild_result gpucredit.refund_result
		gpucredit.release_result gpucredit.requeue_job_result gpucredit.reservation_result gpucredit.reserve_result
		gpucredit.checkpoint_loaded_result gpucredit.revoke_result gpucredit.seal_audit_result
		gpucredit.settle_result gpucredit.signal_job_result gpucredit.statement_result gpucredit.sweep_result
		gpucredit.top_jobs_result gpucredit.top_spenders_result gpucredit.transfer_result gpucredit.uninstall_result
		gpucredit.update_job_result gpucredit.usage_by_result gpucredit.waste_by_result gpucredit.write_off_result gpucredit.verify_audit_result gpucredit.verify_ranges_result gpucredit.verify_result');

CREATE TEMP VIEW role AS
	SELECT r.oid, coalesce(substring(r.rolname, '^gpucredit_(?!test_)(.*)$'),
		CASE r.rolname WHEN 'pg_monitor' THEN 'pg_monitor' ELSE 'public' END) AS short
	FROM pg_roles r WHERE r.rolname = ANY (ARRAY['gpucredit_admin',
		'gpucredit_operator', 'gpucredit_app', 'gpucredit_agent',
		'gpucredit_auditor', 'gpucredit_tenant', 'pg_monitor',
		'gpucredit_test_nobody']);

-- Every object of the extension with privileges, and who has each privilege.
-- Partitions count as one, whatever their span.
CREATE TEMP VIEW object AS
	SELECT d.classid, d.objid FROM pg_depend d JOIN pg_extension e
		ON e.oid = d.refobjid AND d.refclassid = 'pg_extension'::regclass
	WHERE e.extname IN ('gpucredit', 'gpucredit_report') AND d.deptype = 'e'
	UNION
	SELECT 'pg_class'::regclass, c.oid FROM pg_class c
	WHERE c.relnamespace IN ('gpucredit'::regnamespace, 'gpucredit_views'::regnamespace)
		AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
	UNION
	SELECT 'pg_proc'::regclass, p.oid FROM pg_proc p
	WHERE p.pronamespace IN ('gpucredit'::regnamespace, 'gpucredit_internal'::regnamespace, 'gpucredit_report'::regnamespace);
CREATE TEMP VIEW privilege AS
	SELECT CASE WHEN p.prosecdef OR p.proname = 'meter' THEN 'function' ELSE 'internal' END AS kind,
		p.proname::text AS name, 'execute' AS what, r.short
	FROM object o JOIN pg_proc p ON o.classid = 'pg_proc'::regclass AND p.oid = o.objid
		LEFT JOIN role r ON has_function_privilege(r.oid, p.oid, 'EXECUTE')
	UNION ALL
	SELECT CASE c.relkind WHEN 'S' THEN 'sequence' WHEN 'v' THEN 'view' ELSE 'table' END,
		CASE WHEN c.relispartition THEN pg_partition_root(c.oid)::regclass::text || ' (partition)'
			WHEN c.relnamespace = 'gpucredit_views'::regnamespace THEN 'gpucredit_views.' || c.relname
			ELSE c.relname END,
		'read', r.short
	FROM object o JOIN pg_class c ON o.classid = 'pg_class'::regclass AND c.oid = o.objid
			AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
		LEFT JOIN role r ON CASE WHEN c.relkind = 'S' THEN has_sequence_privilege(r.oid, c.oid, 'SELECT')
			ELSE has_any_column_privilege(r.oid, c.oid, 'SELECT') END
	UNION ALL
	SELECT 'type', format_type(t.oid, NULL), 'use', r.short
	FROM object o JOIN pg_type t ON o.classid = 'pg_type'::regclass AND t.oid = o.objid
		LEFT JOIN pg_class c ON c.oid = t.typrelid
		LEFT JOIN role r ON has_type_privilege(r.oid, t.oid, 'USAGE')
	WHERE t.typelem = 0 AND coalesce(c.relkind = 'c', true)
	UNION ALL
	SELECT 'schema', n.nspname, 'use', r.short
	FROM object o JOIN pg_namespace n ON o.classid = 'pg_namespace'::regclass AND n.oid = o.objid
		LEFT JOIN role r ON has_schema_privilege(r.oid, n.oid, 'USAGE');
CREATE TEMP VIEW found AS
	SELECT p.kind, p.name, coalesce(string_agg(DISTINCT p.short, ' '), '') AS roles
	FROM privilege p GROUP BY p.kind, p.name;

CREATE TEMP TABLE may AS
	SELECT l.kind, n.name, l.roles
	FROM listed l, regexp_split_to_table(l.names, '\s+') AS n (name);

SELECT is(count(*)::int, 8, 'the roles are there') FROM role;
SELECT is(string_agg(m.kind || ' ' || m.name, ', '), NULL, 'nothing is listed twice')
FROM (SELECT kind, name FROM may GROUP BY kind, name HAVING count(*) > 1) m;
-- the matrix
SELECT is(f.roles, m.roles, coalesce(f.kind, m.kind) || ' ' || coalesce(f.name, m.name))
FROM found f FULL JOIN may m ON m.kind = f.kind AND m.name = f.name
ORDER BY coalesce(f.kind, m.kind), coalesce(f.name, m.name) COLLATE "C";

-- Overloaded functions, and partitions, are one line above: they must all
-- agree.
SELECT is(string_agg(DISTINCT d.name, ', '), NULL, 'what has one name has one set of privileges')
FROM (SELECT p.proname AS name
	FROM object o JOIN pg_proc p ON o.classid = 'pg_proc'::regclass AND p.oid = o.objid
		CROSS JOIN role r
	GROUP BY p.proname, r.oid
	HAVING bool_or(has_function_privilege(r.oid, p.oid, 'EXECUTE'))
		<> bool_and(has_function_privilege(r.oid, p.oid, 'EXECUTE'))
	UNION ALL
	SELECT c.oid::regclass::text
	FROM object o JOIN pg_class c ON o.classid = 'pg_class'::regclass AND c.oid = o.objid
			AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
		CROSS JOIN role r
	WHERE has_table_privilege(r.oid, c.oid, 'SELECT') <> has_any_column_privilege(r.oid, c.oid, 'SELECT')
	UNION ALL
	SELECT pg_partition_root(c.oid)::regclass::text
	FROM object o JOIN pg_class c ON o.classid = 'pg_class'::regclass AND c.oid = o.objid
			AND c.relispartition AND c.relkind IN ('r', 'p')
		CROSS JOIN role r
	GROUP BY pg_partition_root(c.oid), r.oid
	HAVING bool_or(has_table_privilege(r.oid, c.oid, 'SELECT'))
		<> bool_and(has_table_privilege(r.oid, c.oid, 'SELECT'))) d;

-- No role writes, creates, or grants further.
SELECT is(string_agg(format('%s: %s', r.short, c.relname), ', '), NULL,
	'no role writes a table, a column or a sequence')
FROM object o JOIN pg_class c ON o.classid = 'pg_class'::regclass AND c.oid = o.objid
	CROSS JOIN role r
WHERE CASE WHEN c.relkind = 'S' THEN has_sequence_privilege(r.oid, c.oid, 'USAGE, UPDATE')
	WHEN c.relkind IN ('r', 'p', 'v', 'm', 'f') THEN has_table_privilege(r.oid, c.oid,
			'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
		OR has_any_column_privilege(r.oid, c.oid, 'INSERT, UPDATE, REFERENCES') END;
SELECT is(string_agg(r.short, ', '), NULL, 'no role creates anything in the schemas')
FROM role r WHERE has_schema_privilege(r.oid, 'gpucredit', 'CREATE')
	OR has_schema_privilege(r.oid, 'gpucredit_internal', 'CREATE') OR has_schema_privilege(r.oid, 'gpucredit_report', 'CREATE')
	OR has_schema_privilege(r.oid, 'gpucredit_views', 'CREATE');
SELECT is(string_agg(format('%s: %s', r.short, o.objid), ', '), NULL, 'no role may grant')
FROM object o CROSS JOIN role r
WHERE CASE o.classid
	WHEN 'pg_proc'::regclass THEN has_function_privilege(r.oid, o.objid, 'EXECUTE WITH GRANT OPTION')
	WHEN 'pg_type'::regclass THEN has_type_privilege(r.oid, o.objid, 'USAGE WITH GRANT OPTION')
	WHEN 'pg_class'::regclass THEN (SELECT c.relkind IN ('r', 'p', 'v', 'm', 'f')
			AND has_table_privilege(r.oid, c.oid, 'SELECT WITH GRANT OPTION')
		FROM pg_class c WHERE c.oid = o.objid) END;
SELECT is(string_agg(format('%s: %s', r.short, x.name), ', '), NULL, 'no role owns anything here')
FROM (SELECT p.proowner AS owner, p.proname AS name FROM object o JOIN pg_proc p
		ON o.classid = 'pg_proc'::regclass AND p.oid = o.objid
	UNION ALL
	SELECT c.relowner, c.relname FROM object o JOIN pg_class c
		ON o.classid = 'pg_class'::regclass AND c.oid = o.objid
	UNION ALL
	SELECT t.typowner, t.typname FROM object o JOIN pg_type t
		ON o.classid = 'pg_type'::regclass AND t.oid = o.objid) x
	JOIN role r ON r.oid = x.owner;
-- functions with their owner's rights pin the path
SELECT is(string_agg(p.proname, ', '), NULL, 'who acts as the owner pins the search path')
FROM object o JOIN pg_proc p ON o.classid = 'pg_proc'::regclass AND p.oid = o.objid
WHERE p.prosecdef AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (p.proconfig), false);
-- functions in SQL are not compiled by LLVM: that would cost more than all
-- they do
SELECT is(string_agg(p.proname, ', '), NULL, 'who pins the search path turns JIT off')
FROM object o JOIN pg_proc p ON o.classid = 'pg_proc'::regclass AND p.oid = o.objid
	JOIN pg_language l ON l.oid = p.prolang
WHERE l.lanname IN ('sql', 'plpgsql') AND 'search_path=pg_catalog, pg_temp' = ANY (p.proconfig)
	AND 'jit=off' <> ALL (p.proconfig);
-- no kind of object is left out here
SELECT is(string_agg(DISTINCT pg_describe_object(o.classid, o.objid, 0), ', '), NULL,
	'every kind of object is looked at, or has no privileges')
FROM object o
WHERE o.classid <> ALL (ARRAY['pg_class', 'pg_proc', 'pg_type', 'pg_namespace', 'pg_operator',
	'pg_opclass', 'pg_opfamily', 'pg_cast']::regclass[]);
-- members inherit a role's privileges; no role has another's
SELECT is(string_agg(format('%s in %s', m.member::regrole, m.roleid::regrole), ', '), NULL,
	'no role is a member of another')
FROM pg_auth_members m
WHERE m.member IN (SELECT r.oid FROM role r WHERE r.short <> 'pg_monitor')
	OR m.roleid IN (SELECT r.oid FROM role r WHERE r.short <> 'pg_monitor')
	AND m.member IN (SELECT r.oid FROM role r);

SELECT * FROM finish();
ROLLBACK;
