/*
 * 35_alert.sql: alerts for the owner of an account, each with an event.
 *
 * Use of 80 % of a quota raises one alert, and another only after the use has
 * fallen below 80 %. No subject gets two alerts on the same day (UTC).
 */
CREATE TABLE gpucredit_registry.alert (
	org text COLLATE "C" NOT NULL,
	alert bigint GENERATED ALWAYS AS IDENTITY,
	at timestamptz NOT NULL,
	account text COLLATE "C" NOT NULL,
	kind text NOT NULL CHECK (kind IN ('storage_quota', 'egress_quota', 'scan', 'quarantine', 'denied', 'unpaid', 'mirror')),
	subject text COLLATE "C" NOT NULL,
	day date NOT NULL,
	detail jsonb NOT NULL,
	CONSTRAINT alert_pkey PRIMARY KEY (org, alert),
	CONSTRAINT alert_once UNIQUE (org, kind, subject, day)
);
COMMENT ON TABLE gpucredit_registry.alert IS
'What owners should know: quotas that are nearly used, versions that failed a scan or are in quarantine, what was denied, bills that could not be paid, mirrors that failed';

CREATE FUNCTION gpucredit_registry.raise_alert(org text, account text, kind text,
	subject text, detail jsonb) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	INSERT INTO gpucredit_registry.alert (org, at, account, kind, subject, day, detail)
	VALUES (raise_alert.org, gpucredit.now(), raise_alert.account, raise_alert.kind,
		raise_alert.subject, (gpucredit.now() AT TIME ZONE 'UTC')::date, raise_alert.detail)
	ON CONFLICT ON CONSTRAINT alert_once DO NOTHING;
	RETURN FOUND;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.raise_alert(text, text, text, text, jsonb) IS
'Internal: adds an alert for an owner, once a day, and says whether it did.';

/*
 * Tells an owner, once a day for each reason, that an upload, commit or
 * download of one of his repositories was denied.
 */
CREATE FUNCTION gpucredit_registry.report_denial(org text, account text, reason text)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	/* A quota is the organisation's, whose owner alone can have it raised. */
	owner text := CASE WHEN report_denial.reason LIKE '%quota' THEN ''
		ELSE report_denial.account END;
BEGIN
	IF gpucredit_registry.raise_alert(report_denial.org, owner, 'denied',
		concat_ws(' ', report_denial.reason, nullif(owner, '')),
		jsonb_build_object('reason', report_denial.reason))
	THEN
		PERFORM gpucredit_registry.publish('registry.denied', report_denial.org, owner,
			jsonb_build_object('reason', report_denial.reason));
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.report_denial(text, text, text) IS
'Internal: alerts an owner that something was denied, and publishes registry.denied.';

/* Compares an organisation's present use with its quota. */
CREATE FUNCTION gpucredit_registry.alert_quota(org text, kind text, used bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	storage boolean := alert_quota.kind = 'storage_quota';
	allowed bigint;
	told boolean;
	passed boolean;
BEGIN
	SELECT CASE WHEN storage THEN q.bytes ELSE q.egress_bytes END,
		CASE WHEN storage THEN q.storage_told ELSE q.egress_told END
	INTO allowed, told
	FROM gpucredit_registry.quota q WHERE q.org = alert_quota.org;
	passed := used > 0 AND used >= allowed * 0.8;
	IF passed IS NULL OR passed = told THEN
		RETURN;
	END IF;
	UPDATE gpucredit_registry.quota q
	SET storage_told = CASE WHEN storage THEN passed ELSE q.storage_told END,
		egress_told = CASE WHEN storage THEN q.egress_told ELSE passed END
	WHERE q.org = alert_quota.org;
	IF passed THEN
		PERFORM gpucredit_registry.raise_alert(alert_quota.org, '', alert_quota.kind, '',
			jsonb_build_object('threshold', 0.8, 'used', used, 'quota', allowed));
		PERFORM gpucredit_registry.publish('registry.quota_used', alert_quota.org, '',
			jsonb_build_object('kind', alert_quota.kind, 'threshold', 0.8, 'used', used,
				'quota', allowed));
	END IF;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.alert_quota(text, text, bigint) IS
'Internal: adds an alert when an organisation uses 80 % of a quota.';

CREATE FUNCTION gpucredit_registry.alerts(org text, account text DEFAULT '',
	after bigint DEFAULT 0, n integer DEFAULT 100)
RETURNS TABLE (alert bigint, at timestamptz, of_account text, kind text, detail jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
	PERFORM gpucredit_registry.check_account(alerts.org, alerts.account);
	IF coalesce(alerts.n, 0) NOT BETWEEN 1 AND 1000 THEN
		PERFORM gpucredit_registry.refuse('n is 1 to 1,000', format('It is %s.', alerts.n));
	END IF;
	RETURN QUERY
	SELECT a.alert, a.at, a.account, a.kind, a.detail
	FROM gpucredit_registry.alert a
	WHERE a.org = alerts.org AND a.alert > alerts.after
		AND (alerts.account IN ('', a.account)
			OR starts_with(a.account, alerts.account || '/'))
	ORDER BY a.alert
	LIMIT alerts.n;
END
$$;
COMMENT ON FUNCTION gpucredit_registry.alerts(text, text, bigint, integer) IS
'Alerts: what an account, and all below it, should know, oldest first.
after: the last alert that was read. n: 1 to 1,000.
Result: kind: storage_quota, egress_quota: 80 % of it is used; scan: a version failed one, and is restricted; quarantine: versions of a repository are in it; denied: an upload, commit or download was, for the reason in detail; unpaid: a day could not be charged; mirror: a repository could not follow its remote.
Errors: UC001 no such account; 22023.';
