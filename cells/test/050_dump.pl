# 050_dump.pl: a dump of a cell, or of a router, comes back as one; so does it
# after an upgrade
# Packages: postgresql-N-plproxy
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../test/perl";
use GpuCredit;
use Test::More;

my $node = new_node('main', 'jit = off');
my $dump = $node->basedir . '/dump';

new_database($node, 'cell', 'dblink');
query($node, 'cell', $_)
  foreach q{SELECT gpucredit.create_account('old'), gpucredit.issue('old', '', 'before', 5)},
  'CREATE EXTENSION gpucredit_cells', 'ALTER ROLE gpucredit_peer LOGIN',
  'ALTER ROLE gpucredit_router LOGIN', 'ALTER ROLE gpucredit_mover LOGIN', 'GRANT gpucredit_admin TO gpucredit_router', 'GRANT gpucredit_agent TO gpucredit_admin',
  sprintf(q{INSERT INTO gpucredit_cells.cell VALUES ('a', 0, 'eu', 'host=%s port=%s dbname=cell'),
	('b', 1, 'us', 'host=%1$s port=%2$s dbname=none')}, $node->host, $node->port),
  q{SELECT gpucredit_cells.join_cells('a'), gpucredit_cells.publish_rules()},
  q{SELECT gpucredit.set_price('H100', 4.5)},
  q{SELECT gpucredit_cells.set_lease_policy('old', '', 'b', 1, 2, '1 hour')},
  q{SELECT gpucredit_cells.lease('old', '', 'b', 'lease', 2, '1 hour')},
  q{SELECT gpucredit_cells.carry()};
verify_empty($node, 'cell', 'a database that becomes a cell is sound');
new_database($node, 'router', 'dblink', 'gpucredit_cells', 'plproxy');
query($node, 'router', $_)
  foreach sprintf(q{SELECT gpucredit_cells.set_cell('a', 'eu', 'host=%s port=%s dbname=cell', 'a')},
	$node->host, $node->port),
  q{SELECT gpucredit_cells.set_home('acme', 'a', 'home acme')},
  q{SELECT gpucredit_cells.set_location('pool', 'eu', 'a', 'pool eu')},
  'SELECT gpucredit_cells.make_router()',
  'CREATE PUBLICATION gpucredit_directory',
  q{SELECT gpucredit.create_account('acme'), gpucredit.issue('acme', '', 'paid', 100)};

is( query(
		$node, 'cell', q{
	SELECT string_agg(c.relname, ' ' ORDER BY c.relname) FROM pg_class c
	WHERE c.relnamespace = 'gpucredit_cells'::regnamespace AND c.relkind IN ('r', 'S')
		AND c.oid <> ALL ((SELECT e.extconfig FROM pg_extension e
			WHERE e.extname = 'gpucredit_cells')::oid[])}),
	'incoming_audit incoming_closing incoming_entry incoming_number', 'a dump has every table but what a move copies ahead');

# Restores a database under another name, by so many jobs.
sub come_back
{
	my ($name, $jobs) = @_;

	system('rm', '-rf', $dump);
	$node->command_ok([ 'pg_dump', '-Fd', '-f', $dump, $name ], "$name is dumped");
	query($node, 'postgres', "DROP DATABASE IF EXISTS copy");
	query($node, 'postgres', 'CREATE DATABASE copy');
	$node->command_ok([ 'pg_restore', '-j', $jobs, '-d', 'copy', $dump ],
		"$name is restored by $jobs jobs without an error");
	is(query($node, 'copy', 'SELECT what FROM gpucredit_cells.unfit()'), '', '... and lacks nothing');
	my $rows = q{SELECT string_agg(format('%s %s', c.relname,
		md5((query_to_xml('SELECT * FROM gpucredit_cells.' || c.relname || ' t ORDER BY t::text',
			false, false, ''))::text)), ' ' ORDER BY c.relname)
		FROM pg_class c WHERE c.relnamespace = 'gpucredit_cells'::regnamespace AND c.relkind = 'r'};
	is(query($node, 'copy', $rows), query($node, $name, $rows), '... no row either');
	return;
}

foreach my $jobs (1, 4)
{
	come_back('cell', $jobs);
	query_fails($node, 'copy', q{SELECT gpucredit.create_account('nobody')}, 'UC701',
		'a restored cell refuses an organisation whose home is elsewhere');
	is(query($node, 'copy', q{SELECT hold % 1000 FROM gpucredit.hold('old', '', 'new', 1, '1 hour')}),
		'0', 'its numbers are its own');
	query_fails($node, 'copy', q{SELECT gpucredit.release('old', (holds)[1], 'r') FROM gpucredit_cells.lease_out},
		'UC711', 'leased credit stays leased');
	query($node, 'copy', q{SELECT gpucredit.set_price('H100', 5)});
	is(query($node, 'copy', 'SELECT count(*) FROM gpucredit_cells.rule_change'), '2',
		'changes of rules are published');
	verify_empty($node, 'copy');
	come_back('router', $jobs);
	is(query($node, 'copy', q{SELECT available FROM gpucredit.balance('acme')}), '100.000000',
		'a restored router asks the cell');
}

# an upgrade brings a table, or a function's own body
query($node, 'cell', $_) foreach 'CREATE TABLE gpucredit.fresh (org text)',
  'ALTER EXTENSION gpucredit ADD TABLE gpucredit.fresh';
query_fails($node, 'cell', q{INSERT INTO gpucredit.fresh VALUES ('nobody')}, 'UC701',
	'a new table is guarded');
query($node, 'cell', $_) foreach 'ALTER EXTENSION gpucredit DROP TABLE gpucredit.fresh',
  'DROP TABLE gpucredit.fresh';
query($node, 'router', $_)
  foreach q{CREATE OR REPLACE FUNCTION gpucredit.balance(org text, account text DEFAULT '', as_of timestamptz DEFAULT NULL)
	RETURNS gpucredit.balance_result LANGUAGE sql STABLE SECURITY DEFINER
	AS 'SELECT NULL::gpucredit.balance_result'},
  'ALTER EXTENSION gpucredit UPDATE';
is(query($node, 'router', q{SELECT available FROM gpucredit.balance('acme')}), '100.000000',
	'a router that was upgraded asks the cell');

# what is missing all the same is named
query($node, 'cell', 'DROP TRIGGER cells_guard ON gpucredit.hold');
like(query($node, 'router', 'SELECT problem, subject, detail FROM gpucredit_cells.verify_cells()'),
	qr/^unfit\|cell a\|table gpucredit\.hold has no trigger cells_guard$/, 'verify_cells() names a guard that is gone');
query($node, 'cell', 'SELECT gpucredit_cells.fit()');
is(query($node, 'router', 'SELECT problem FROM gpucredit_cells.verify_cells()'), '', 'and fit() brings it back');
query($node, 'router', q{SELECT gpucredit_cells.set_cell('x', 'eu', (SELECT dsn || ' connect_timeout=9' FROM gpucredit_cells.cell), 'x')});
is(query($node, 'router', 'SELECT problem, subject FROM gpucredit_cells.verify_cells()'),
	'wrong_cell|cell x', 'it names a cell that is another');
verify_empty($node, 'cell');
done_testing();
