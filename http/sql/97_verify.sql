/*
 * 97_verify.sql: the invariants of webhooks, which hold at every instant.
 */
CREATE FUNCTION gpucredit_http.verify()
RETURNS TABLE (org text, invariant text, detail text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
BEGIN ATOMIC
	SELECT w.org, 'waiting_is_counted', format('webhook %s: %s wait, %s counted', w.webhook,
		coalesce(d.n, 0), w.waiting)
	FROM gpucredit_http.webhook w LEFT JOIN (
		SELECT d.org, d.webhook, count(*) AS n FROM gpucredit_http.delivery d
		WHERE d.state = 'waiting' GROUP BY d.org, d.webhook) d
		ON d.org = w.org AND d.webhook = w.webhook
	WHERE w.waiting <> coalesce(d.n, 0)
	UNION ALL
	/* No delivery waits forever. */
	SELECT d.org, 'waits_for_an_earlier_event', format('webhook %s, event %s', d.webhook, d.event)
	FROM gpucredit_http.delivery d
	WHERE d.state = 'waiting' AND d.due_at = 'infinity'
		AND NOT EXISTS (SELECT FROM gpucredit_http.delivery o
			WHERE o.org = d.org AND o.webhook = d.webhook AND o.job = d.job
				AND o.state = 'waiting' AND o.event < d.event)
	UNION ALL
	SELECT w.org, 'what_waits_is_due', format('webhook %s: %s wait', w.webhook, w.waiting)
	FROM gpucredit_http.webhook w
	WHERE w.disabled_at IS NULL AND w.waiting > 0 AND w.due_at = 'infinity'
	UNION ALL
	/*
	 * For each event that the feed has passed, either a notice exists, or the
	 * webhook has read it.
	 */
	SELECT w.org, 'new_events_are_noted', format('webhook %s: event %s', w.webhook, e.event)
	FROM gpucredit_http.webhook w CROSS JOIN gpucredit_http.webhook_feed f
		CROSS JOIN LATERAL (SELECT e.event FROM gpucredit.event e
			WHERE e.org = w.org AND e.event > w.after AND e.event <= f.event
				AND gpucredit_http.is_below(e.account, w.account)
				AND (w.kinds IS NULL OR e.kind = ANY (w.kinds))
			ORDER BY e.event LIMIT 1) e
	WHERE w.disabled_at IS NULL AND w.due_at = 'infinity'
		AND NOT EXISTS (SELECT FROM gpucredit_http.webhook_notice n
			WHERE n.org = w.org AND n.webhook = w.webhook)
	UNION ALL
	SELECT d.org, 'delivery_has_its_webhook', format('webhook %s, event %s', d.webhook, d.event)
	FROM gpucredit_http.delivery d
	WHERE NOT EXISTS (SELECT FROM gpucredit_http.webhook w
		WHERE w.org = d.org AND w.webhook = d.webhook)
	UNION ALL
	SELECT d.org, 'delivery_was_read', format('webhook %s, event %s', d.webhook, d.event)
	FROM gpucredit_http.delivery d
		JOIN gpucredit_http.webhook w ON w.org = d.org AND w.webhook = d.webhook
	WHERE d.event > w.after AND w.disabled_at IS NULL
	UNION ALL
	SELECT w.org, 'webhook_has_a_secret', format('webhook %s', w.webhook)
	FROM gpucredit_http.webhook w
	WHERE (w.removed_at IS NULL) <> EXISTS (SELECT FROM gpucredit_http.webhook_secret s
		WHERE s.org = w.org AND s.webhook = w.webhook AND s.ends_at = 'infinity')
	UNION ALL
	SELECT w.org, 'webhook_has_its_account', format('webhook %s: account "%s"', w.webhook, w.account)
	FROM gpucredit_http.webhook w
	WHERE w.org <> '' AND w.removed_at IS NULL
		AND NOT EXISTS (SELECT FROM gpucredit.account a
			WHERE a.org = w.org AND a.account = w.account);
END;
COMMENT ON FUNCTION gpucredit_http.verify() IS
'Upkeep: what does not hold, of webhooks and their deliveries; nothing if all is well. Result: the organisation, the invariant and what breaks it.';
