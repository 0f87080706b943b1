-- docs/reference.md is what the catalogue says: tools/reference writes it again.
\set ON_ERROR_STOP true
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off

\set difference `perl tools/lib/reference.pl :'DBNAME' 2>&1 | diff docs/reference.md - 2>&1 | head -n 20`
BEGIN;
SELECT plan(1);
SELECT is(:'difference'::text, '', 'docs/reference.md is current; else run tools/reference');
SELECT * FROM finish();
ROLLBACK;
