/*
 * 86_upkeep_lag.sql: how late each task of upkeep is.
 *
 * The lag of a task is the age of the oldest item that it has not handled.  It
 * is found by one probe of an index, with two exceptions: the tables
 * account_delta, denial and event_pending are read as a whole, because their
 * size is what the task has left, and all nodes are read.  Usage rows of
 * running attempts are not removed, so up to a thousand of the oldest usage
 * rows are read.
 */
CREATE FUNCTION gpucredit_internal.next_departure(kind text)
RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT s.sealed_at + k.kept
	FROM (SELECT CASE WHEN r.kept > '0' THEN greatest(r.kept,
				CASE next_departure.kind WHEN 'entry' THEN '40 days'::interval
				ELSE greatest(
					current_setting('gpucredit.key_retention')::interval,
					current_setting('gpucredit.denial_window')::interval)
					+ '1 day'::interval END) END AS kept
			FROM (SELECT current_setting('gpucredit.' || next_departure.kind
				|| '_retention')::interval AS kept) r) k
		CROSS JOIN LATERAL (SELECT s.sealed_at FROM gpucredit.seal s
			WHERE s.batch > coalesce((SELECT max(d.batch_to)
				FROM gpucredit.archive_batch d
				WHERE d.kind = next_departure.kind), 0)
			ORDER BY s.batch LIMIT 1) s;
END;
COMMENT ON FUNCTION gpucredit_internal.next_departure(text) IS
'upkeep_lag: when the next sealed batch of entries (kind entry) or audit rows (audit) should leave; NULL: none should.';

CREATE FUNCTION gpucredit_internal.upkeep_lags(at timestamptz)
RETURNS TABLE (task text, lag interval)
LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE ROWS 15
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
			FROM gpucredit.request r WHERE NOT r.lasting)),
		/* A standby cannot read an unlogged table. */
		('raise_alerts', CASE WHEN NOT pg_is_in_recovery() THEN
			(gpucredit_internal.upkeep_position('alerts_raised'))[1]::timestamptz
			END),
		('fold_denials', (SELECT min(d.at)
				+ current_setting('gpucredit.denial_window')::interval
			FROM gpucredit.denial d)),
		('forget_usage', (SELECT min(greatest(u.at, a.ended_at)) + k.kept
			FROM (SELECT current_setting('gpucredit.usage_retention')::interval)
					AS k (kept)
				CROSS JOIN LATERAL (SELECT u.* FROM gpucredit.usage u
					WHERE k.kept > '0' AND u.at < upkeep_lags.at - k.kept
					ORDER BY u.at LIMIT 1000) u
				CROSS JOIN LATERAL (SELECT a.ended_at FROM gpucredit.attempt a
					WHERE a.org = u.org AND a.job = u.job
						AND a.attempt = u.attempt
						AND a.ended_at < upkeep_lags.at - k.kept OFFSET 0) a
			GROUP BY k.kept)),
		('number_events', (SELECT min(p.at) FROM gpucredit.event_pending p)),
		('forget_events', (SELECT e.at + k.kept
			FROM (SELECT current_setting('gpucredit.event_retention')::interval)
					AS k (kept)
				CROSS JOIN LATERAL (SELECT o.at FROM gpucredit.event o
					WHERE k.kept > '0' ORDER BY o.event LIMIT 1) e)),
		('depart_entries', gpucredit_internal.next_departure('entry')),
		('depart_audits', gpucredit_internal.next_departure('audit')),
		('check_nodes', (SELECT min(n.since)
			FROM (SELECT m.pool, m.node, least(m.reclaim_at,
					CASE WHEN k.lost > '0' THEN greatest(m.heard_at,
						pg_postmaster_start_time()) + k.lost END) AS since
				FROM (SELECT current_setting('gpucredit.node_lost')::interval)
						AS k (lost)
					CROSS JOIN gpucredit.node m) n
			WHERE n.since <= upkeep_lags.at
				AND EXISTS (SELECT FROM gpucredit.attempt_gpu g
					WHERE g.pool = n.pool AND g.node = n.node AND NOT g.free
						AND g.ended_at IS NULL OFFSET 0))))
		AS l (task, since);
END;
COMMENT ON FUNCTION gpucredit_internal.upkeep_lags(timestamptz) IS
'upkeep_lag, metrics: the age of the oldest thing that each task has not done; NULL: there is nothing it will have to do.';

CREATE VIEW gpucredit.upkeep_lag AS
	SELECT l.task, coalesce(l.lag, '0'::interval) AS lag
	FROM gpucredit_internal.upkeep_lags(gpucredit.now()) l;
COMMENT ON VIEW gpucredit.upkeep_lag IS
'How late each task of upkeep is: the age of the oldest thing that it should have done, for raise_alerts since when no organisation''s alerts were raised. No figure is wrong meanwhile';
COMMENT ON COLUMN gpucredit.upkeep_lag.task IS 'fold_spend, seal_audit, settle_overdue and release_holds (reap_holds), expire_credits, forget_requests (upkeep(''forget'')), raise_alerts, fold_denials, forget_usage, number_events, forget_events, depart_entries, depart_audits, check_nodes.';
COMMENT ON COLUMN gpucredit.upkeep_lag.lag IS 'How late it is; 0: it is not.';
