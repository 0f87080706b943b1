/*
 * 00_common.sql: the schemas, the roles, and the clock.
 *
 * Bodies written as BEGIN ATOMIC bind every name and operator when this script
 * runs.  So the path below matters only until then, and no user can put
 * anything into it.
 */
CREATE SCHEMA gpucredit;
COMMENT ON SCHEMA gpucredit IS
'GPU credit ledger and GPU job scheduler: what you call and read';

/*
 * Only gpucredit's own function bodies, operators, casts, triggers,
 * constraints and views call the functions of this schema.  They refer to them
 * by oid, so no role needs USAGE on it.
 */
CREATE SCHEMA gpucredit_internal;
COMMENT ON SCHEMA gpucredit_internal IS
'Helpers of schema gpucredit, not to be called';

SET LOCAL search_path = pg_catalog, gpucredit, pg_temp;

/* Roles belong to the cluster, so they may exist already. */
DO $roles$
DECLARE
	name text;
BEGIN
	FOREACH name IN ARRAY ARRAY['gpucredit_admin', 'gpucredit_operator',
		'gpucredit_app', 'gpucredit_agent', 'gpucredit_auditor',
		'gpucredit_tenant']
	LOOP
		IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = name)
		THEN
			BEGIN
				EXECUTE format('CREATE ROLE %I NOLOGIN', name);
			EXCEPTION WHEN duplicate_object OR unique_violation THEN
				NULL;			/* another database has created it meanwhile */
			END;
		END IF;
	END LOOP;
END
$roles$;

CREATE FUNCTION gpucredit.now() RETURNS timestamptz
LANGUAGE c VOLATILE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_now';
COMMENT ON FUNCTION gpucredit.now() IS
'Clock: the instant by which gpucredit works: gpucredit.clock if it is set, else the wall clock.';

CREATE FUNCTION gpucredit_internal.clip_for_message(text) RETURNS text
LANGUAGE c STABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_clip_for_message';
COMMENT ON FUNCTION gpucredit_internal.clip_for_message(text) IS
'Internal: makes a caller''s text fit for an error message: cuts it short and escapes control characters.';

CREATE FUNCTION gpucredit_internal.lock_name(name text,
	wait boolean DEFAULT true) RETURNS boolean
LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE
AS 'MODULE_PATHNAME', 'gpucredit_lock_name';
COMMENT ON FUNCTION gpucredit_internal.lock_name(text, boolean) IS
'Internal: takes the lock of a name until the end of the transaction, for companion extensions. No login can take it otherwise. Result: false without "wait" where another transaction has it.';

/*
 * The trigger function on every append-only table, which also stops the
 * tables' owner.
 */
CREATE FUNCTION gpucredit_internal.refuse_change() RETURNS trigger
LANGUAGE c VOLATILE
AS 'MODULE_PATHNAME', 'gpucredit_refuse_change';
COMMENT ON FUNCTION gpucredit_internal.refuse_change() IS
'Trigger: refuses UPDATE, DELETE and TRUNCATE of an append-only table (UC901).';

CREATE FUNCTION gpucredit_internal.cache_invalidate() RETURNS trigger
LANGUAGE c VOLATILE
AS 'MODULE_PATHNAME', 'gpucredit_cache_invalidate';
COMMENT ON FUNCTION gpucredit_internal.cache_invalidate() IS
'Trigger: makes every backend read the table again once this transaction has committed.';
