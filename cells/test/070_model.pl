# 070_model.pl: leases against a model, with messages delivered at random
#
# Three cells are databases of one server, with clocks apart by up to the skew.
# Messages are lost, doubled, delayed and reordered.  GC_SEEDS seeds (2) of
# GC_OPS steps (600); GC_SEED=n runs that one alone, as a failure says.  At the
# end of a seed carry() empties the outboxes, and the books of all cells agree.
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../test/perl", "$FindBin::RealBin/../../test/model",
  "$FindBin::RealBin/model";
use CellsDriver;
use GpuCredit;
use Test::More;

my $ops   = $ENV{GC_OPS} || 600;
my @seeds = $ENV{GC_SEED} ? ($ENV{GC_SEED}) : (1 .. $ENV{GC_SEEDS} || 2);
my $node  = new_node('main', 'synchronous_commit = off',
	'full_page_writes = off', 'jit = off');
my @cells = qw(c0 c1 c2);

new_database($node, 'pristine', 'dblink', 'gpucredit_cells');
query($node, 'postgres', 'ALTER ROLE gpucredit_peer LOGIN');
is(query($node, 'pristine', 'SELECT gpucredit_cells.clock_skew()'), '00:00:05',
	'the skew is known to a session that has called nothing');

foreach my $seed (@seeds)
{
	my %dbh;

	foreach my $i (0 .. 2)
	{
		query($node, 'postgres', "DROP DATABASE IF EXISTS $cells[$i]");
		query($node, 'postgres', "CREATE DATABASE $cells[$i] TEMPLATE pristine");
		query($node, $cells[$i],
			join(';', map { sprintf(
				"INSERT INTO gpucredit_cells.cell VALUES ('%s', %d, 'r', 'host=%s port=%s dbname=%s')",
				$cells[$_], $_, $node->host, $node->port, $cells[$_]) } 0 .. 2)
			  . "; SELECT gpucredit_cells.join_cells('$cells[$i]')");
		$dbh{ $cells[$i] } = connect_to($node, $cells[$i]);
	}
	query($node, 'c0', "SELECT gpucredit_cells.admit('o', 1)");
	my $done = eval { CellsDriver->new(\%dbh, $seed)->run($ops) };

	ok($done, "seed $seed: extension and model agree") or diag($@);
	last unless $done;
	note("$_: $done->{$_}") foreach sort keys %$done;
	query($node, 'c0', "DELETE FROM gpucredit_cells.lease_policy");
	foreach my $round (1 .. 6)
	{
		$dbh{$_}->do('SELECT * FROM gpucredit_cells.carry(10000)') foreach @cells;
	}
	is(query($node, $_, 'SELECT count(*) FROM gpucredit_cells.under_way'), '0',
		"seed $seed: nothing is under way from $_") foreach @cells;
	is(query($node, 'c1', 'SELECT * FROM gpucredit_cells.verify_cells()'), '',
		"seed $seed: the books of all cells agree");
	verify_empty($node, $_) foreach @cells;
	$_->disconnect foreach values %dbh;
}
done_testing();
