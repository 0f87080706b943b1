/*
 * 00_common.sql: the schemas, the roles, and the clock.
 *
 * Bodies written as BEGIN ATOMIC bind every name and operator here and now,
 * so the path below matters only while this script runs; it holds nothing a
 * user could have put there.
 */
CREATE SCHEMA gpucredit;
COMMENT ON SCHEMA gpucredit IS
'GPU credit ledger and GPU job scheduler: what you call and read';

/*
 * Only gpucredit's own bodies, operators, casts, triggers, constraints and
 * views call these functions.  They know them by oid, so no role needs USAGE
 * here.
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
				NULL;			/* another database was faster */
			END;
		END IF;
	END LOOP;
END
$roles$;

CREATE FUNCTION gpucredit.now() RETURNS timestamptz
LANGUAGE c VOLATILE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_now';
COMMENT ON FUNCTION gpucredit.now() IS
'Clock: the instant gpucredit works with: the wall clock, or gpucredit.clock where that is set.';

CREATE FUNCTION gpucredit_internal.clip_for_message(text) RETURNS text
LANGUAGE c STABLE STRICT PARALLEL SAFE
AS 'MODULE_PATHNAME', 'gpucredit_clip_for_message';
COMMENT ON FUNCTION gpucredit_internal.clip_for_message(text) IS
'Internal: a caller''s text for an error message, cut short, with control characters escaped.';

/* The guard of every append-only table, also against its owner. */
CREATE FUNCTION gpucredit_internal.refuse_change() RETURNS trigger
LANGUAGE c VOLATILE
AS 'MODULE_PATHNAME', 'gpucredit_refuse_change';
COMMENT ON FUNCTION gpucredit_internal.refuse_change() IS
'Trigger: refuses UPDATE, DELETE and TRUNCATE of an append-only table (UC901).';

CREATE FUNCTION gpucredit_internal.announce_change() RETURNS trigger
LANGUAGE c VOLATILE
AS 'MODULE_PATHNAME', 'gpucredit_announce_change';
COMMENT ON FUNCTION gpucredit_internal.announce_change() IS
'Trigger: has every backend read the table again, once this is committed.';
