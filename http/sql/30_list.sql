/*
 * 30_list.sql: lists for which the core has no function that returns a page.
 *
 * They run with the caller's rights: row-level security shows a tenant only
 * its own rows. Each list is ordered by an increasing number, newest first,
 * and "after" is the last number of the previous page.
 */
CREATE FUNCTION gpucredit_http.is_below(account text, ancestor text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
	SELECT is_below.ancestor = '' OR is_below.account = is_below.ancestor
		OR starts_with(is_below.account, is_below.ancestor || '/');
END;
COMMENT ON FUNCTION gpucredit_http.is_below(text, text) IS
'Internal: whether an account is another one or below it.';

CREATE FUNCTION gpucredit_http.jobs(org text, account text DEFAULT '',
	state text[] DEFAULT NULL, pool text DEFAULT NULL, after bigint DEFAULT NULL,
	"limit" integer DEFAULT 100)
RETURNS SETOF gpucredit.jobs
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT j.* FROM gpucredit.jobs j
	WHERE j.org = jobs.org AND gpucredit_http.is_below(j.account, jobs.account)
		AND (jobs.state IS NULL OR j.state = ANY (jobs.state))
		AND (jobs.pool IS NULL OR j.pool = jobs.pool)
		AND (jobs.after IS NULL OR j.job < jobs.after)
	ORDER BY j.job DESC
	LIMIT least(jobs."limit", 1001);
END;
COMMENT ON FUNCTION gpucredit_http.jobs(text, text, text[], text, bigint, integer) IS
'Lists: jobs of an organisation, of an account and all below it, in some states or in a pool, newest first. "after" is the last job of the page before.
Result: at most so many rows of gpucredit.jobs.';

CREATE FUNCTION gpucredit_http.job(org text, job bigint) RETURNS gpucredit.jobs
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	found_one gpucredit.jobs;
BEGIN
	SELECT j.* INTO found_one FROM gpucredit.jobs j WHERE j.org = job.org AND j.job = job.job;
	IF NOT FOUND THEN
		PERFORM gpucredit_http.raise('UC301', format('job %s does not exist', job.job),
			'It is not there, or the caller may not see it.',
			'Check the number and the organisation.');
	END IF;
	RETURN found_one;
END
$$;
COMMENT ON FUNCTION gpucredit_http.job(text, bigint) IS
'Lists: one job. Result: its row of gpucredit.jobs. Errors: UC301 no such job.';

CREATE FUNCTION gpucredit_http.attempts(org text, job bigint) RETURNS SETOF gpucredit.attempts
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT a.* FROM gpucredit.attempts a
	WHERE a.org = attempts.org AND a.job = attempts.job
	ORDER BY a.attempt;
END;
COMMENT ON FUNCTION gpucredit_http.attempts(text, bigint) IS
'Lists: the attempts of a job, with their bills, by number. Result: rows of gpucredit.attempts.';

CREATE FUNCTION gpucredit_http.accounts(org text, "limit" integer DEFAULT 1000)
RETURNS SETOF gpucredit.accounts
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT a.* FROM gpucredit.accounts a WHERE a.org = accounts.org
	ORDER BY a.account LIMIT least(accounts."limit", 1001);
END;
COMMENT ON FUNCTION gpucredit_http.accounts(text, integer) IS
'Lists: the accounts of an organisation that the caller sees, by name. Result: rows of gpucredit.accounts.';

CREATE FUNCTION gpucredit_http.alerts(org text, after bigint DEFAULT NULL,
	"limit" integer DEFAULT 100)
RETURNS SETOF gpucredit.alert
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT a.* FROM gpucredit.alert a
	WHERE a.org = alerts.org AND (alerts.after IS NULL OR a.alert < alerts.after)
	ORDER BY a.alert DESC LIMIT least(alerts."limit", 1001);
END;
COMMENT ON FUNCTION gpucredit_http.alerts(text, bigint, integer) IS
'Lists: what an organisation''s owners should know, newest first. "after" is the last alert of the page before. Result: rows of gpucredit.alert.';

CREATE FUNCTION gpucredit_http.nodes(pool text DEFAULT NULL) RETURNS SETOF gpucredit.nodes
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT n.* FROM gpucredit.nodes n WHERE nodes.pool IS NULL OR n.pool = nodes.pool
	ORDER BY n.pool, n.node;
END;
COMMENT ON FUNCTION gpucredit_http.nodes(text) IS
'Lists: the nodes of a pool, or of all. Result: rows of gpucredit.nodes.';

CREATE FUNCTION gpucredit_http.prices(pool text DEFAULT NULL) RETURNS SETOF gpucredit.prices
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT p.* FROM gpucredit.prices p WHERE prices.pool IS NULL OR p.pool = prices.pool;
END;
COMMENT ON FUNCTION gpucredit_http.prices(text) IS
'Lists: what GPUs cost in a pool, or in all. Result: rows of gpucredit.prices.';

CREATE FUNCTION gpucredit_http.audit(org text, after bigint DEFAULT NULL,
	operation text DEFAULT NULL, "limit" integer DEFAULT 100, job bigint DEFAULT NULL,
	since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL, actor text DEFAULT NULL)
RETURNS SETOF gpucredit.audit
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT a.* FROM gpucredit.audit a
	WHERE a.org = audit.org AND (audit.after IS NULL OR a.audit < audit.after)
		AND (audit.operation IS NULL OR a.operation = audit.operation)
		AND (audit.job IS NULL OR a.job = audit.job)
		AND (audit.since IS NULL OR a.at >= audit.since)
		AND (audit.until IS NULL OR a.at < audit.until)
		AND (audit.actor IS NULL OR a.actor = audit.actor)
	ORDER BY a.audit DESC LIMIT least(audit."limit", 1001);
END;
COMMENT ON FUNCTION gpucredit_http.audit(text, bigint, text, integer, bigint, timestamptz, timestamptz, text) IS
'Lists: the audit log of an organisation, newest first; of one operation, job, actor, or of [since, until). "after" is the last row of the page before. Result: rows of gpucredit.audit.';

/*
 * Returns the accounts that the caller is bound to. If there is only one,
 * requests need not name it.
 */
CREATE FUNCTION gpucredit_http.bindings()
RETURNS TABLE (org text, account text)
LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 1
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	caller name := gpucredit_http.caller();
BEGIN
	RETURN QUERY
		SELECT t.org, t.account
		FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.roleid
			JOIN gpucredit.tenant t ON t.role = r.rolname
		WHERE m.member = (SELECT c.oid FROM pg_roles c WHERE c.rolname = caller)
		UNION
		SELECT t.org, t.account FROM gpucredit.tenant t WHERE t.role = caller
		ORDER BY 1, 2;
END
$$;
COMMENT ON FUNCTION gpucredit_http.bindings() IS
'Lists: the accounts that the caller, or a role that it is a member of, was bound to by gpucredit.bind_tenant(). Result: a row each.';

CREATE FUNCTION gpucredit_http.me(OUT role name, OUT scope text, OUT token bigint,
	OUT accounts json)
LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT gpucredit_http.caller(), gpucredit_http.scope(),
		nullif(current_setting('gpucredit_http.token', true), '')::bigint,
		(SELECT coalesce(json_agg(b), '[]') FROM gpucredit_http.bindings() b);
END;
COMMENT ON FUNCTION gpucredit_http.me() IS
'Lists: who calls: the role, the scope and the number of the token, and the accounts that the role is bound to.';
