# 000_cells.pl: the extension is created, and each role may call in it what is
# listed here, and nothing else.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../test/perl";
use GpuCredit;
use Test::More;

my $node = fresh_node('cell');

$node->safe_psql('postgres', 'CREATE DATABASE cell');
$node->safe_psql('cell', 'CREATE EXTENSION gpucredit_cells CASCADE');
is( query(
		$node, 'cell', q{
	SELECT count(*) FROM pg_proc p
		LEFT JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
			ON true
	WHERE pronamespace = 'gpucredit_cells'::regnamespace AND a.grantee = 0}),
	'0', 'PUBLIC may call nothing');
# The list is complete: a function that it does not name is for superusers.
my @people = qw(admin agent app auditor operator tenant);
my %may = (
	'act_as is_mighty' => [ @people, qw(router pg_monitor) ],
	'at_home at_homes' => [@people],
	'here' => [qw(admin auditor operator pg_monitor)],
	'node_here' => [qw(admin agent operator)],
	'set_cell set_home set_location set_lease_policy write_off acknowledge' => ['admin'],
	'lease' => [qw(admin app)],
	'recall carry carry_until carry_for' => [qw(admin app operator)],
	'verify_cells cell_sums' => [qw(admin auditor operator)],
	'find_home' => [qw(admin app auditor operator)],
	'receive books books_head books_end books_sums' => ['peer'],
	'standing admit lock_moving set_moving hold_still close_out copy_ahead receive_ahead receive_changes analyze_moved'
	  . ' require_sound forget_incoming sealed_to removed_until moved_tables closings rows_of digest_sum digest'
	  . ' digests changing total booked' => ['mover']);
my %of;
while (my ($names, $roles) = each %may)
{
	push @{ $of{$_} }, map { /^pg_/ ? $_ : "gpucredit_$_" } @$roles foreach split ' ', $names;
}
# gpucredit_mover is an administrator
$of{$_} = [ sort { $a cmp $b } @{ $of{$_} }, (grep { $_ eq 'gpucredit_admin' } @{ $of{$_} }) ? 'gpucredit_mover' : () ] foreach keys %of;
is( query(
		$node, 'cell', q{
	SELECT p.proname || ': ' || string_agg(DISTINCT r.rolname, ' ' ORDER BY r.rolname)
	FROM pg_proc p JOIN pg_roles r ON has_function_privilege(r.oid, p.oid, 'EXECUTE')
	WHERE p.pronamespace = 'gpucredit_cells'::regnamespace AND NOT r.rolsuper
	GROUP BY p.proname ORDER BY p.proname COLLATE "C"}),
	join("\n", map { "$_: @{ $of{$_} }" } sort keys %of), 'each role may call what is listed');
is( query(
		$node, 'cell', q{
	SELECT string_agg(p.oid::regprocedure::text, ' ') FROM pg_proc p
	WHERE p.pronamespace = 'gpucredit_cells'::regnamespace AND p.prosecdef
		AND (p.proconfig IS NULL OR NOT 'search_path=pg_catalog, pg_temp' = ANY (p.proconfig))}),
	'', 'a function that runs as its owner pins its search path');
is( query(
		$node, 'cell', q{
	SELECT string_agg(DISTINCT c.relname || ' ' || r.rolname || ' ' || v, ', ')
	FROM pg_class c, pg_roles r, unnest('{INSERT,UPDATE,DELETE,TRUNCATE,TRIGGER,REFERENCES}'::text[]) v
	WHERE c.relnamespace = 'gpucredit_cells'::regnamespace AND c.relkind IN ('r', 'v') AND NOT r.rolsuper
		AND r.rolname NOT IN ('pg_write_all_data') AND has_table_privilege(r.oid, c.oid, v)}),
	'', 'no role writes a table');
is( query(
		$node, 'cell', q{
	SELECT string_agg(DISTINCT r.rolname, ' ' ORDER BY r.rolname)
	FROM pg_class c, pg_roles r
	WHERE c.relnamespace = 'gpucredit_cells'::regnamespace AND c.relkind IN ('r', 'v') AND NOT r.rolsuper
		AND r.rolname NOT IN ('pg_read_all_data', 'gpucredit_subscriber') AND has_table_privilege(r.oid, c.oid, 'SELECT')}),
	'gpucredit_admin gpucredit_auditor gpucredit_mover', 'who reads the tables');
is( query(
		$node, 'cell', q{
	SELECT string_agg(t.relation, ' ' ORDER BY t.relation)
	FROM (SELECT DISTINCT c.oid::regclass::text COLLATE "C" AS relation FROM pg_class c
		WHERE c.relkind IN ('r', 'v', 'S') AND c.relnamespace::regnamespace::text ~ '^gpucredit'
			AND (has_table_privilege('gpucredit_subscriber', c.oid, 'SELECT')
				OR has_any_column_privilege('gpucredit_subscriber', c.oid, 'SELECT, INSERT, UPDATE'))) t}),
	query(
		$node, 'cell', q{
	SELECT string_agg(DISTINCT t COLLATE "C", ' ' ORDER BY t COLLATE "C")
	FROM unnest('{gpucredit_rules,gpucredit_cells,gpucredit_directory}'::text[]) p, unnest(gpucredit_cells.published(p)) t}),
	'who subscribes reads what is published, and nothing else');
is(query($node, 'cell', q{SELECT string_agg(rolname, ' ' ORDER BY rolname) FROM pg_roles
	WHERE rolname IN ('gpucredit_router', 'gpucredit_mover', 'gpucredit_peer', 'gpucredit_subscriber')
		AND NOT rolcanlogin AND NOT rolsuper AND NOT rolcreaterole AND NOT rolcreatedb AND NOT rolbypassrls AND NOT rolreplication}),
	'gpucredit_mover gpucredit_peer gpucredit_router gpucredit_subscriber', 'the roles that connect databases are let in by the operator, and are no superusers');
verify_empty($node, 'cell');
done_testing();
