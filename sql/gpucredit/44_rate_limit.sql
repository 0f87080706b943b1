/*
 * 44_rate_limit.sql: how often an account may call.
 *
 * Limits are rows; shared memory holds the token bucket of each.  A trigger
 * makes all backends read the table again once a change has committed.
 */
CREATE TABLE gpucredit.rate_limit (
	org text COLLATE "C" NOT NULL,
	account text COLLATE "C" NOT NULL,
	operation text COLLATE "C" NOT NULL,	/* a function's name, or '*' for all */
	per_second double precision NOT NULL,
	burst int NOT NULL,
	setting uuid NOT NULL DEFAULT gen_random_uuid(),	/* a new value with each set_rate_limit() */
	CONSTRAINT rate_limit_pkey PRIMARY KEY (org, account, operation),
	CONSTRAINT rate_limit_positive CHECK (per_second BETWEEN 1e-6 AND 1e9
		AND burst >= 1)
);
COMMENT ON TABLE gpucredit.rate_limit IS
'How many calls an account and all below it may make each second, and how many at once';
COMMENT ON COLUMN gpucredit.rate_limit.operation IS 'The function; *: all of them together.';
COMMENT ON COLUMN gpucredit.rate_limit.per_second IS 'Calls admitted each second.';
COMMENT ON COLUMN gpucredit.rate_limit.burst IS 'Calls admitted at once.';
COMMENT ON COLUMN gpucredit.rate_limit.setting IS 'A number that changes with each set_rate_limit.';

SELECT pg_catalog.pg_extension_config_dump('gpucredit.rate_limit', '');

CREATE TRIGGER rate_limit_changed
AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON gpucredit.rate_limit
FOR EACH STATEMENT EXECUTE FUNCTION gpucredit_internal.cache_invalidate();
ALTER TABLE gpucredit.rate_limit ENABLE ALWAYS TRIGGER rate_limit_changed;

CREATE FUNCTION gpucredit.set_rate_limit(org text, account text,
	operation text, per_second double precision, burst int) RETURNS void
LANGUAGE c VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS 'MODULE_PATHNAME', 'gpucredit_set_rate_limit';
COMMENT ON FUNCTION gpucredit.set_rate_limit(text, text, text,
	double precision, int) IS
'Setup: limits how often an account and all below it may call. The limit applies once this commits. A call takes from every limit on its path before it does anything else, whatever its result. A limit that is set again starts full. Limits apply to tenants and applications. Superusers, and members of gpucredit_agent, gpucredit_operator or gpucredit_admin that are no members of gpucredit_app or gpucredit_tenant, are never limited: nobody can use up the calls that measure or administer him.
operation: hold, extend_hold, capture, release, reserve, settle, cancel, log_wish, open_session, signal_job, or ''*'' for all of them together. per_second: calls, 0.000001 to 1e9; NULL removes the limit. burst: how many calls at once, 1 or more.
Errors: UC001 no such account; 22023; 55000 the library is not in shared_preload_libraries. A call over a limit gets UC202, and its hint says how long to wait.';
