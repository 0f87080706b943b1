/*
 * 40_route.sql: which function answers which address below /v1.
 *
 * A part of the path in braces is the argument of that name; the query and the
 * body contain the other arguments. An address whose function has an argument
 * "limit" is a list; "cursor" is the column whose last value becomes "after"
 * of the next page.
 */
CREATE FUNCTION gpucredit_http.routes()
RETURNS TABLE (method text, path text, function text, cursor text, summary text)
LANGUAGE sql IMMUTABLE ROWS 100
BEGIN ATOMIC
	VALUES
	('GET', '/v1/me', 'http.me', NULL::text, 'Who calls'),
	('GET', '/v1/tokens', 'http.tokens', NULL, 'Tokens'),
	('POST', '/v1/tokens', 'http.issue_token', NULL, 'Issue a token'),
	('DELETE', '/v1/tokens/{token}', 'http.revoke_token', NULL, 'Revoke a token'),
	('GET', '/v1/sessions', 'http.sessions', NULL, 'Browsers that are signed in'),
	('DELETE', '/v1/sessions/{session}', 'http.end_session', NULL, 'Sign a browser out'),
	('GET', '/v1/identity/providers', 'http.identity_providers', NULL, 'Identity providers'),
	('POST', '/v1/identity/providers', 'http.set_identity_provider', NULL, 'Set an identity provider'),
	('GET', '/v1/identity/rules', 'http.identity_rules', NULL, 'Whom identity providers let in'),
	('POST', '/v1/identity/rules', 'http.set_identity_rule', NULL, 'Let somebody in'),
	('DELETE', '/v1/identity/rules/{rule}', 'http.remove_identity_rule', NULL, 'Let somebody in no more'),
	('GET', '/v1/identities', 'http.identities', 'identity', 'Whom identity providers have let in'),
	('GET', '/v1/accounts', 'http.accounts', NULL, 'Accounts of an organisation'),
	('GET', '/v1/balance', 'balance', NULL, 'The balance of an account'),
	('GET', '/v1/balance/over', 'http.balance_over', NULL, 'The balance of an account over time'),
	('GET', '/v1/buckets', 'buckets', NULL, 'Credit, bucket by bucket'),
	('GET', '/v1/budgets', 'budgets', NULL, 'Budgets and what they have left'),
	('GET', '/v1/statement', 'statement', NULL, 'Entries of an account'),
	('GET', '/v1/invoices/{month}', 'invoice', NULL, 'What an organisation owes for a month'),
	('GET', '/v1/billing/invoices', 'billing.invoices', 'document', 'Invoices and credit notes, newest first'),
	('POST', '/v1/billing/invoices', 'billing.issue_invoice', NULL, 'Issue an invoice'),
	('GET', '/v1/billing/invoices/{document}', 'billing.invoice', NULL, 'An invoice or credit note'),
	('GET', '/v1/billing/invoices/{document}/lines', 'billing.invoice_lines', NULL, 'Its lines'),
	('GET', '/v1/billing/invoices/{document}/html', 'billing.invoice_html', NULL, 'It as a page of HTML'),
	('POST', '/v1/billing/invoices/{document}/credit_notes', 'billing.issue_credit_note', NULL, 'Take an invoice back, or a part of it'),
	('GET', '/v1/billing/terms', 'billing.terms_of', NULL, 'How an organisation is invoiced'),
	('POST', '/v1/billing/terms', 'billing.set_terms', NULL, 'Set how an organisation is invoiced'),
	('GET', '/v1/billing/focus/{month}', 'billing.focus_usage', NULL, 'A month''s usage in the columns of FOCUS 1.2'),
	('GET', '/v1/billing/plans', 'billing.plans', NULL, 'Credit that accounts get each month'),
	('POST', '/v1/billing/plans', 'billing.set_plan', NULL, 'Grant an account credit each month'),
	('POST', '/v1/billing/plans/{plan}/end', 'billing.end_plan', NULL, 'End a plan'),
	('GET', '/v1/billing/top_ups', 'billing.top_ups', NULL, 'Accounts that are topped up'),
	('POST', '/v1/billing/top_ups', 'billing.set_top_up', NULL, 'Top an account up when its balance is low'),
	('GET', '/v1/billing/top_ups/orders', 'billing.top_up_orders', 'top_up_order', 'Orders of top-up, newest first'),
	('POST', '/v1/billing/top_ups/orders/{top_up_order}/complete', 'billing.complete_top_up', NULL, 'Credit an order that was paid'),
	('POST', '/v1/billing/top_ups/orders/{top_up_order}/fail', 'billing.fail_top_up', NULL, 'Note that a payment failed'),
	('GET', '/v1/billing/payments', 'billing.payments', 'number', 'Payments and the credit for them, newest first'),
	('POST', '/v1/billing/payments', 'billing.book_payment', NULL, 'Credit a payment'),
	('POST', '/v1/billing/payments/{payment}/refund', 'billing.refund_payment', NULL, 'Revoke the credit of a payment that was refunded'),
	('GET', '/v1/billing/approvers', 'billing.approvers', NULL, 'Who decides requests for credit and quota'),
	('POST', '/v1/billing/approvers', 'billing.set_approver', NULL, 'Let somebody decide requests, or do so no more'),
	('GET', '/v1/billing/requests', 'billing.allocation_requests', 'request', 'Requests for credit and quota, newest first'),
	('POST', '/v1/billing/requests', 'billing.request_allocation', NULL, 'Ask for credit or quota'),
	('POST', '/v1/billing/requests/{request}/decide', 'billing.decide_allocation', NULL, 'Grant or deny a request'),
	('POST', '/v1/billing/requests/{request}/withdraw', 'billing.withdraw_allocation', NULL, 'Take a request back'),
	('GET', '/v1/evals/sets', 'eval.sets', NULL, 'Golden sets'),
	('GET', '/v1/evals/configs', 'eval.configs', NULL, 'What runs of evals do'),
	('GET', '/v1/evals/scores', 'eval.score_history', NULL, 'Scores of a config over its runs'),
	('GET', '/v1/evals/runs', 'eval.runs', 'run', 'Runs of evals, newest first'),
	('POST', '/v1/evals/runs', 'eval.start_run', NULL, 'Start a run of evals'),
	('GET', '/v1/evals/runs/{run}', 'eval.run_state', NULL, 'How far a run is, and what it costs'),
	('GET', '/v1/evals/runs/{run}/gate', 'eval.gate', NULL, 'What each task of a run scores'),
	('GET', '/v1/evals/runs/{run}/labels', 'eval.to_label', NULL, 'Answers to be rated by the caller'),
	('POST', '/v1/evals/runs/{run}/labels', 'eval.label', NULL, 'Rate an answer'),
	('GET', '/v1/evals/compare', 'eval.compare_cases', NULL, 'Cases of two runs side by side'),
	('GET', '/v1/evals/judges', 'eval.calibrations', NULL, 'Judges, and how well they agree with people'),
	('GET', '/v1/evals/streams', 'eval.streams', NULL, 'Streams of production''s scores'),
	('GET', '/v1/evals/observations', 'eval.observations', NULL, 'Scores of a stream'),
	('GET', '/v1/evals/answers', 'eval.kept_answers', 'kept_at', 'Answers of production that a stream keeps'),
	('POST', '/v1/evals/cases', 'eval.add_case_from', NULL, 'Make an answer of production a case of a live set'),
	('POST', '/v1/evals/feedback', 'eval.add_feedback', NULL, 'What a user thinks of an answer of production'),
	('GET', '/v1/registry/models', 'registry.models', NULL, 'Repositories that an account may read'),
	('GET', '/v1/registry/models/all', 'registry.all_models', NULL, 'Repositories of all organisations'),
	('GET', '/v1/registry/facets', 'registry.model_facets', NULL, 'By what a search of repositories can be narrowed'),
	('GET', '/v1/registry/facets/all', 'registry.all_model_facets', NULL, 'The same, of all organisations'),
	('GET', '/v1/registry/model', 'registry.model_details', NULL, 'A repository and its card'),
	('GET', '/v1/registry/models/{model}/versions', 'registry.versions', 'version', 'Versions of a repository, newest first'),
	('GET', '/v1/registry/models/{model}/version', 'registry.version_details', NULL, 'A version by a branch, tag, alias or oid'),
	('GET', '/v1/registry/models/{model}/files', 'registry.version_files', NULL, 'What is in a folder of a version'),
	('GET', '/v1/registry/models/{model}/traffic', 'registry.traffic', NULL, 'Downloads of a repository, day by day'),
	('GET', '/v1/registry/models/{model}/downloads', 'registry.model_downloads', 'download', 'Who downloaded from a repository, newest first'),
	('GET', '/v1/registry/models/{model}/cost', 'registry.model_cost', NULL, 'What a repository costs'),
	('GET', '/v1/registry/versions/{version}/lineage', 'registry.lineage_graph', NULL, 'What a version was made from, and what was made from it'),
	('GET', '/v1/registry/versions/{version}/lineage/all', 'registry.all_lineage_graph', NULL, 'The same, of all organisations'),
	('GET', '/v1/registry/versions/{version}/datasets', 'registry.version_datasets', NULL, 'Datasets that a version was trained on'),
	('GET', '/v1/registry/versions/{version}/scans', 'registry.scans', NULL, 'What scanners found in a version'),
	('GET', '/v1/registry/versions/{version}/scores', 'registry.scores', NULL, 'What a version scored'),
	('GET', '/v1/registry/held', 'registry.held_versions', 'version', 'Versions of an account that are held back'),
	('GET', '/v1/registry/held/all', 'registry.all_held_versions', 'version', 'Versions of all organisations that are held back'),
	('GET', '/v1/registry/mirrors', 'registry.mirrors', NULL, 'Repositories that follow one of another registry'),
	('GET', '/v1/registry/bills', 'registry.bills', NULL, 'What storing and sending cost, day by day'),
	('GET', '/v1/registry/storage', 'registry.storage', NULL, 'What an organisation keeps'),
	('GET', '/v1/usage', 'usage_by', NULL, 'Use, by account, tier or another column'),
	('GET', '/v1/denials', 'denials', NULL, 'What was denied, and why'),
	('GET', '/v1/alerts', 'http.alerts', 'alert', 'Alerts'),
	('GET', '/v1/prices', 'http.prices', NULL, 'Prices'),
	('GET', '/v1/tiers', 'tiers_for', NULL, 'Tiers that an account may use'),
	('GET', '/v1/jobs', 'http.jobs', 'job', 'Jobs, newest first'),
	('POST', '/v1/jobs', 'reserve', NULL, 'Submit a job'),
	('POST', '/v1/quote', 'quote', NULL, 'What a job would cost, and when it would start'),
	('GET', '/v1/jobs/{job}', 'http.job', NULL, 'A job'),
	('POST', '/v1/jobs/{job}/cancel', 'cancel', NULL, 'Cancel a job'),
	('POST', '/v1/jobs/{job}/requeue', 'requeue_job', NULL, 'Have a running job run again'),
	('POST', '/v1/jobs/{job}/signal', 'signal_job', NULL, 'Send a signal to a running job'),
	('POST', '/v1/jobs/{job}/hold', 'hold_job', NULL, 'Keep a waiting job from starting'),
	('POST', '/v1/jobs/{job}/release', 'release_job', NULL, 'Let a held job start'),
	('POST', '/v1/jobs/{job}/update', 'update_job', NULL, 'Change the name, labels or priority of a job'),
	('GET', '/v1/jobs/{job}/submission', 'http.submission', NULL, 'What a job was submitted with'),
	('GET', '/v1/jobs/{job}/attempts', 'http.attempts', NULL, 'A job''s attempts and their bills'),
	('GET', '/v1/jobs/{job}/history', 'history', NULL, 'What was decided about a job'),
	('GET', '/v1/jobs/{job}/explain', 'explain', NULL, 'Why a job waits'),
	('GET', '/v1/jobs/{job}/logs', 'log_get', NULL, 'A piece of a job''s output'),
	('POST', '/v1/jobs/{job}/logs', 'log_wish', NULL, 'Have a piece of a job''s output fetched'),
	('GET', '/v1/jobs/{job}/buckets', 'job_buckets', NULL, 'Which credit a job spends'),
	('POST', '/v1/holds', 'hold', NULL, 'Hold credit'),
	('POST', '/v1/holds/{hold}/extend', 'extend_hold', NULL, 'Hold more credit'),
	('POST', '/v1/holds/{hold}/capture', 'capture', NULL, 'Spend held credit'),
	('POST', '/v1/holds/{hold}/release', 'release', NULL, 'Give held credit back'),
	('GET', '/v1/events', 'events', 'event', 'What happened, oldest first; as a stream with Accept: text/event-stream'),
	('GET', '/v1/webhooks', 'http.webhooks', NULL, 'Webhooks'),
	('POST', '/v1/webhooks', 'http.set_webhook', NULL, 'Make a webhook'),
	('POST', '/v1/webhooks/{webhook}', 'http.change_webhook', NULL, 'Change a webhook'),
	('DELETE', '/v1/webhooks/{webhook}', 'http.remove_webhook', NULL, 'Remove a webhook'),
	('POST', '/v1/webhooks/{webhook}/enable', 'http.enable_webhook', NULL, 'Enable a webhook, or send events again from one on'),
	('POST', '/v1/webhooks/{webhook}/disable', 'http.disable_webhook', NULL, 'Disable a webhook'),
	('POST', '/v1/webhooks/{webhook}/secret', 'http.renew_webhook_secret', NULL, 'Make another secret of a webhook'),
	('POST', '/v1/webhooks/{webhook}/redeliver', 'http.redeliver_webhook', NULL, 'Send an event again, or those that failed'),
	('GET', '/v1/webhooks/{webhook}/deliveries', 'http.deliveries', 'event', 'What a webhook is sent, and what became of it'),
	('GET', '/v1/queue', 'queue', NULL, 'What waits in a pool'),
	('GET', '/v1/fair_share', 'fair_share', NULL, 'Shares of a pool'),
	('GET', '/v1/capacity', 'capacity_advice', NULL, 'How many GPUs a pool needs'),
	('GET', '/v1/plan', 'plan', NULL, 'What the next scheduling cycle would start'),
	('GET', '/v1/nodes', 'http.nodes', NULL, 'Nodes'),
	('POST', '/v1/nodes/{node}/drain', 'drain', NULL, 'Let no more jobs start on a node'),
	('POST', '/v1/nodes/{node}/resume', 'resume', NULL, 'Let jobs start on a node again'),
	('GET', '/v1/functions', 'http.functions', NULL, 'Functions that the caller may call'),
	('GET', '/v1/organisations', 'http.organisations', NULL, 'Organisations and their credit'),
	('GET', '/v1/burn', 'burn_rate', NULL, 'Whose credit runs out first'),
	('GET', '/v1/expiring', 'http.expiring', NULL, 'Credit that expires soon'),
	('GET', '/v1/debts', 'http.debts', NULL, 'Use that no credit covered'),
	('GET', '/v1/quotas', 'http.quotas', NULL, 'Quotas and what is in use of them'),
	('GET', '/v1/buckets/for', 'buckets_for', NULL, 'Which credit would pay for a request'),
	('GET', '/v1/alerts/all', 'http.all_alerts', 'alert', 'Alerts of all organisations'),
	('GET', '/v1/pools', 'http.pools', NULL, 'Pools'),
	('GET', '/v1/devices', 'http.devices', NULL, 'Devices and who has them'),
	('GET', '/v1/capacity/now', 'http.capacity', NULL, 'Devices in service, allocated and free'),
	('GET', '/v1/demand', 'demand', NULL, 'Supply and demand of a pool over time'),
	('GET', '/v1/reservations', 'reservations', NULL, 'Devices reserved for jobs that wait'),
	('GET', '/v1/queue/reasons', 'queue_reasons', NULL, 'Why jobs wait'),
	('GET', '/v1/recent', 'recent_events', NULL, 'What the scheduler did lately'),
	('GET', '/v1/top_jobs', 'top_jobs', NULL, 'Jobs that spent most'),
	('GET', '/v1/upkeep', 'http.upkeep', NULL, 'How late upkeep is'),
	('GET', '/v1/seals', 'http.seals', 'batch', 'The chain of seals, newest first'),
	('GET', '/v1/seals/status', 'http.seal_status', NULL, 'How far sealing has come'),
	('GET', '/v1/verify', 'verify', NULL, 'Whether the books balance'),
	('POST', '/v1/credits', 'issue', NULL, 'Issue credit'),
	('POST', '/v1/jobs/{job}/refund', 'refund', NULL, 'Refund what a job cost'),
	('POST', '/v1/prices', 'set_price', NULL, 'Set a price'),
	('POST', '/v1/debts/write_off', 'write_off', NULL, 'Forgive a debt'),
	('GET', '/v1/audit', 'http.audit', 'audit', 'The audit log');
END;
COMMENT ON FUNCTION gpucredit_http.routes() IS
'Internal: the addresses of the API, each with the function that answers it.';

/* Finds the route of a request, and the arguments in its path. */
CREATE FUNCTION gpucredit_http.find_route(method text, path text[],
	OUT function text, OUT cursor text, OUT arguments jsonb, OUT allowed text[])
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r record;
	words text[];
	fits boolean;
	in_path jsonb;
BEGIN
	FOR r IN
		SELECT t.method, t.path, t.function, t.cursor FROM gpucredit_http.routes() t
		WHERE split_part(t.path, '/', 3) = find_route.path[2]
	LOOP
		words := string_to_array(substr(r.path, 2), '/');
		fits := cardinality(words) = cardinality(find_route.path);
		in_path := '{}';
		FOR i IN 3 .. cardinality(words) LOOP
			EXIT WHEN NOT fits;
			IF words[i] LIKE '{%' THEN
				in_path := in_path || jsonb_build_object(trim(BOTH '{}' FROM words[i]),
					find_route.path[i]);
			ELSE
				fits := words[i] = find_route.path[i];
			END IF;
		END LOOP;
		CONTINUE WHEN NOT fits;
		find_route.allowed := find_route.allowed || r.method;
		IF r.method = find_route.method THEN
			find_route.function := r.function;
			find_route.cursor := r.cursor;
			find_route.arguments := in_path;
		END IF;
	END LOOP;
END
$$;
COMMENT ON FUNCTION gpucredit_http.find_route(text, text[]) IS
'Internal: the function that answers a request, the arguments in its path, and the methods that this address has.';
