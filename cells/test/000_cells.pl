# 000_cells.pl: the extension is created, and PUBLIC may do nothing in it.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../test/perl";
use GpuCredit;
use Test::More;

my $node = new_node('cell');

$node->safe_psql('postgres', 'CREATE DATABASE cell');
$node->safe_psql('cell', 'CREATE EXTENSION gpucredit_cells CASCADE');
is( query(
		$node, 'cell', q{
	SELECT count(*) FROM pg_proc p
		LEFT JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
			ON true
	WHERE pronamespace = 'gpucredit_cells'::regnamespace AND a.grantee = 0}),
	'0', 'PUBLIC may call nothing');
verify_empty($node, 'cell');
done_testing();
