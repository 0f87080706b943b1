# 000_smoke.pl: creating and dropping the extension, and its version
#
# DROP EXTENSION removes all that CREATE EXTENSION made.  CREATE EXTENSION
# refuses unsafe surroundings.  Every table with data is part of a dump.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use DBD::Pg ':async';
use JSON::PP;
use Test::More;

my $node = new_node('main');

# Everything that the extension could leave behind: objects that a fresh
# database does not have.  Roles belong to the cluster and stay.
my $leftovers = q{
	SELECT 'schema ' || nspname FROM pg_namespace
		WHERE nspname !~ '^pg_' AND nspname NOT IN ('information_schema', 'public')
	UNION ALL SELECT 'relation ' || oid::regclass FROM pg_class
		WHERE oid >= 16384 AND relnamespace <> 'pg_toast'::regnamespace
	UNION ALL SELECT 'type ' || oid::regtype FROM pg_type WHERE oid >= 16384
	UNION ALL SELECT 'function ' || oid::regprocedure FROM pg_proc WHERE oid >= 16384
	UNION ALL SELECT 'operator ' || oid::regoperator FROM pg_operator WHERE oid >= 16384
	UNION ALL SELECT 'operator class ' || opcname FROM pg_opclass WHERE oid >= 16384
	UNION ALL SELECT 'operator family ' || opfname FROM pg_opfamily WHERE oid >= 16384
	UNION ALL SELECT 'cast ' || castsource::regtype || ' ' || casttarget::regtype
		FROM pg_cast WHERE oid >= 16384
	UNION ALL SELECT 'event trigger ' || evtname FROM pg_event_trigger
	UNION ALL SELECT 'default privileges of ' || defaclrole::regrole FROM pg_default_acl
	UNION ALL SELECT 'extension ' || extname FROM pg_extension WHERE extname <> 'plpgsql'
};

# The library is not preloaded, because it must work without.
is(query($node, 'postgres', 'SHOW shared_preload_libraries'),
	'', 'the server preloads nothing');
new_database($node, 'credit');
pass('CREATE EXTENSION without preloading');

# The control file has the version; everything else follows it.
my ($version) =
  slurp_checkout('gpucredit.control') =~ /^default_version = '([^']+)'$/m;
is( query($node, 'credit',
		q{SELECT extversion FROM pg_extension WHERE extname = 'gpucredit'}),
	$version, 'the version is that of the control file');
my $meta = decode_json(slurp_checkout('META.json'));
is($meta->{version}, $version, 'META.json has the same version');
is($meta->{provides}{$_}{version}, $version, "META.json has the same version of $_")
  foreach qw(gpucredit gpucredit_report);
like(slurp_checkout('CHANGELOG.md'),
	qr/^## \Q$version\E\b/m, 'the changelog tells of this version');

# Every durable table and every sequence is part of a dump, except tables of
# built-in rows.
is( query(
		$node, 'credit', q{
	SELECT string_agg(c.oid::regclass::text, ' ' ORDER BY c.oid::regclass::text)
	FROM pg_depend d
	JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'gpucredit'
	JOIN pg_class c ON c.oid = d.objid
	WHERE d.classid = 'pg_class'::regclass
		AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
		AND c.relkind IN ('r', 'p', 'S') AND c.relpersistence = 'p'
		AND NOT c.oid = ANY (coalesce(e.extconfig, '{}'))
		AND c.relname !~ '_builtin$'}),
	'', 'no durable table or sequence is missing from a dump');

# Each can be published: upkeep also deletes from tables without a key.
is( query(
		$node, 'credit', q{
	SELECT string_agg(c.relname, ' ')
	FROM pg_class c
	WHERE c.relnamespace = 'gpucredit'::regnamespace AND c.relkind = 'r'
		AND c.relpersistence = 'p' AND c.relreplident <> 'f'
		AND NOT EXISTS (SELECT FROM pg_index i
			WHERE i.indrelid = c.oid AND i.indisprimary)}),
	'', 'every durable table has a replica identity');

# PUBLIC can do nothing, and a definer's path is pinned.
is( query(
		$node, 'credit', q{
	SELECT string_agg(p.oid::regprocedure::text, ' ')
	FROM pg_proc p
	WHERE pronamespace IN ('gpucredit'::regnamespace, 'gpucredit_internal'::regnamespace)
		AND prosecdef
		AND NOT 'search_path=pg_catalog, pg_temp' = ANY (coalesce(proconfig, '{}'))}),
	'', 'each SECURITY DEFINER function pins its search_path');
query($node, 'postgres', 'CREATE ROLE nobody_special');
is( query(
		$node, 'credit', q{
	SELECT has_schema_privilege('nobody_special', 'gpucredit', 'CREATE'),
		has_schema_privilege('nobody_special', 'gpucredit_internal', 'CREATE, USAGE')}),
	'f|f', 'PUBLIC cannot create in the schemas');

# The report extension requires gpucredit, and dropping it leaves gpucredit.
query($node, 'credit', 'CREATE EXTENSION gpucredit_report');
is( query($node, 'credit', q{
	SELECT extversion, gpucredit.report_html() ~ '^<!DOCTYPE html>'
	FROM pg_extension WHERE extname = 'gpucredit_report'}),
	"$version|t", 'the report page is an extension');
is( query($node, 'credit', q|
	SELECT string_agg(p.oid::regprocedure::text, ' ') FROM pg_proc p
	WHERE pronamespace = 'gpucredit_report'::regnamespace
		AND (prosecdef OR proacl::text ~ '[{,]=')
		OR p.proname = 'report_html'
			AND NOT 'search_path=pg_catalog, pg_temp' = ANY (coalesce(proconfig, '{}'))|),
	'', 'nobody calls its helpers, and its definer pins its search_path');
query_fails($node, 'credit', 'DROP EXTENSION gpucredit', '2BP01',
	'what it needs stays');
my $rest = q{SELECT count(*) FROM pg_depend
	WHERE refobjid = (SELECT oid FROM pg_extension WHERE extname = 'gpucredit') AND deptype = 'e'};
my $before = query($node, 'credit', $rest);
query($node, 'credit', 'DROP EXTENSION gpucredit_report');
is( query($node, 'credit', qq{$rest; SELECT to_regnamespace('gpucredit_report'),
		to_regproc('gpucredit.report_html')}),
	"$before\n|", 'the report page comes and goes alone');

# Everything is gone, and can be created again.
query($node, 'credit', 'DROP EXTENSION gpucredit');
is(query($node, 'credit', $leftovers), '', 'DROP EXTENSION leaves nothing');
query($node, 'credit', 'CREATE EXTENSION gpucredit');
pass('CREATE EXTENSION after DROP EXTENSION');

# In a second database the roles exist already.
new_database($node, 'second');
pass('CREATE EXTENSION in a second database');

# The owner of an existing schema of that name could own our objects.
query($node, 'postgres', 'CREATE DATABASE squatted');
query($node, 'squatted', 'CREATE SCHEMA gpucredit AUTHORIZATION nobody_special');
query_fails($node, 'squatted', 'CREATE EXTENSION gpucredit', '42P06',
	'a schema that exists is refused');
is( query(
		$node, 'squatted', q{
	SELECT count(*) FROM pg_proc WHERE pronamespace = 'gpucredit'::regnamespace}),
	'0', 'nothing is put into a schema that was there before');
query($node, 'squatted', 'DROP SCHEMA gpucredit;
	CREATE SCHEMA gpucredit_internal AUTHORIZATION nobody_special');
query_fails($node, 'squatted', 'CREATE EXTENSION gpucredit', '42P06',
	'a schema that has the name of the helpers\' is refused');

# The script must not call a function from a hostile search_path.
query($node, 'postgres', 'CREATE DATABASE hostile');
query(
	$node, 'hostile', q{
	GRANT CREATE ON SCHEMA public TO PUBLIC;
	SET ROLE nobody_special;
	CREATE FUNCTION public.now() RETURNS timestamptz LANGUAGE plpgsql
		AS $$ BEGIN RAISE 'hijacked'; END $$;
	CREATE FUNCTION public.format(text, text) RETURNS text LANGUAGE plpgsql
		AS $$ BEGIN RAISE 'hijacked'; END $$;
	RESET ROLE});
query($node, 'hostile', 'CREATE EXTENSION gpucredit');
pass('functions in schema public do not get into the way');

# Only a superuser installs it.
query($node, 'postgres',
	'CREATE ROLE creator LOGIN; CREATE DATABASE owned OWNER creator');
query_fails($node, 'owned',
	'SET SESSION AUTHORIZATION creator; CREATE EXTENSION gpucredit',
	'42501', 'the owner of a database cannot install it');

# Counters are locked in one order in every collation (in Lithuanian "year"
# sorts before "month"): a session that waits for the last counter has locked
# those before it.
$node->safe_psql('postgres', q{CREATE DATABASE lt TEMPLATE template0
	ENCODING UTF8 LOCALE_PROVIDER icu ICU_LOCALE 'lt'});
query($node, 'lt', q{
	CREATE EXTENSION gpucredit;
	SELECT gpucredit.create_account('acme'), gpucredit.issue('acme', '', 'i', 9);
	SELECT gpucredit.set_budget('acme', '', 9, p)
	FROM unnest('{year,month}'::text[]) p;
	SELECT gpucredit.hold('acme', '', 'h', 1, '1 hour');});
is(query($node, 'lt', "SELECT 'year' < 'month'"), 't', 'year before month');
my ($keeper, $holder) = map { connect_to($node, 'lt') } 1 .. 2;
foreach my $call (q{hold('acme', '', 'h2', 1, '1 hour')}, q{release('acme', 1, 'r')})
{
	$keeper->begin_work;
	$keeper->do(q{SELECT FROM gpucredit.budget_counter
		WHERE period = 'year' FOR NO KEY UPDATE});
	$holder->do("SELECT gpucredit.$call", { pg_async => PG_ASYNC });
	$node->poll_query_until('lt', q{SELECT EXISTS (SELECT FROM pg_stat_activity
		WHERE wait_event_type = 'Lock' AND datname = 'lt')});
	is( query($node, 'lt', q{SELECT count(*) FROM (SELECT FROM
			gpucredit.budget_counter FOR NO KEY UPDATE SKIP LOCKED) c}),
		0, "$call: month is locked before year");
	$keeper->rollback;
	$holder->pg_result;
}
verify_empty($node, 'lt');
$_->disconnect foreach $keeper, $holder;

$node->stop;
done_testing();
