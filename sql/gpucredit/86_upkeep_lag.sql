/*
 * 86_upkeep_lag.sql: how late each task of upkeep is.
 *
 * The age of the oldest thing that a task has not done. Each is one probe of an
 * index, but for account_delta, which is as large as folding is late.
 */
CREATE FUNCTION gpucredit_internal.upkeep_lags(at timestamptz)
RETURNS TABLE (task text, lag interval)
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE ROWS 7
SET search_path = pg_catalog, pg_temp
SET jit = off
BEGIN ATOMIC
	SELECT l.task, greatest(upkeep_lags.at - l.since, '0'::interval)
	FROM (VALUES
		('fold_spend', (SELECT min(d.at) FROM gpucredit.account_delta d)),
		('seal_audit', (SELECT a.at FROM gpucredit.audit a
			WHERE a.audit > coalesce((SELECT s.audit_to FROM gpucredit.seal s
				ORDER BY s.batch DESC LIMIT 1), 0)
			ORDER BY a.audit LIMIT 1)),
		('settle_overdue', least(
			(SELECT min(w.overdue_since) FROM gpucredit.attempt_watch w
				WHERE w.overdue_since IS NOT NULL),
			(SELECT min(w.check_at) FROM gpucredit.attempt_watch w))),
		('release_holds', (SELECT min(h.expires_at) FROM gpucredit.hold h
			WHERE h.closed_at IS NULL AND h.expires_at IS NOT NULL)),
		('expire_credits', (SELECT min(b.expires_at) FROM gpucredit.bucket b
			WHERE b.expires_at IS NOT NULL AND b.closed_at IS NULL
				AND b.swept_at IS NULL)),
		('forget_requests', (SELECT min(r.created_at)
				+ current_setting('gpucredit.key_retention')::interval
			FROM gpucredit.request r WHERE NOT r.lasting)))
		AS l (task, since);
END;
COMMENT ON FUNCTION gpucredit_internal.upkeep_lags(timestamptz) IS
'upkeep_lag, metrics: the age of the oldest thing that each task has not done; NULL: there is nothing it will have to do.';

CREATE VIEW gpucredit.upkeep_lag AS
	SELECT l.task, coalesce(l.lag, '0'::interval) AS lag
	FROM gpucredit_internal.upkeep_lags(gpucredit.now()) l;
COMMENT ON VIEW gpucredit.upkeep_lag IS
'How late each task of upkeep is: the age of the oldest thing that it should have done. No figure is wrong meanwhile';
COMMENT ON COLUMN gpucredit.upkeep_lag.task IS 'fold_spend, seal_audit, settle_overdue and release_holds (reap_holds), expire_credits, forget_requests (upkeep(''forget'')).';
COMMENT ON COLUMN gpucredit.upkeep_lag.lag IS 'How late it is; 0: it is not.';
