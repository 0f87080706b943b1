-- The page that tools/reference writes for a release.
\set ON_ERROR_STOP true
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off

\set page `perl tools/lib/reference.pl :'DBNAME' 2>&1`
BEGIN;
SELECT plan(4);
SELECT is((
	SELECT string_agg(DISTINCT p.proname, ' ')
	FROM pg_proc p CROSS JOIN LATERAL aclexplode(p.proacl) a
	WHERE p.pronamespace = 'gpucredit'::regnamespace AND a.grantee <> p.proowner
		AND :'page' !~ ('[\n`]' || p.proname || '[\n`(]')), NULL,
	'the reference has every function that a role may call');
SELECT is((
	SELECT string_agg(s.name, ' ')
	FROM pg_settings s
	WHERE s.name LIKE 'gpucredit.%' AND position('`' || s.name || '`' IN :'page') = 0), NULL,
	'the reference has every setting');
SELECT is((
	SELECT string_agg(DISTINCT c.relname, ' ')
	FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
	WHERE c.relnamespace = 'gpucredit'::regnamespace AND c.relkind = 'v'
		AND a.grantee <> c.relowner
		AND obj_description(c.oid, 'pg_class') !~ '^Internal'
		AND position('### View ' || c.relname || E'\n' IN :'page') = 0), NULL,
	'the reference has every view that a role may read and that is not internal');
SELECT is((
	SELECT string_agg(c.relname, ' ')
	FROM pg_class c
	WHERE c.relnamespace = 'gpucredit_views'::regnamespace
		AND position('### View gpucredit_views.' || c.relname || E'\n' IN :'page') = 0), NULL,
	'the reference has every view for tools that reflect a schema');
SELECT * FROM finish();
ROLLBACK;
