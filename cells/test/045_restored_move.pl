# 045_restored_move.pl: a cell is restored from before an organisation moved away
# Packages: postgresql-N-plproxy
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../test/perl", "$FindBin::RealBin/lib";
use GpuCredit;
use GpuCreditCells;
use Test::More;

my $cells = GpuCreditCells->new(qw(a b));
my $data  = $cells->{a}->data_dir;

sub at
{
	my ($name, $sql) = @_;

	return query($cells->{$name}, 'credit', $sql);
}

sub carry_all
{
	at($_, 'SELECT * FROM gpucredit_cells.carry()') foreach qw(a b a b a b);
	return;
}

sub found
{
	return $cells->at_router('SELECT problem, org, subject FROM gpucredit_cells.verify_cells()');
}

$cells->at_router($_) foreach q{SELECT gpucredit_cells.set_home('acme', 'a', 'home acme')},
  q{SELECT gpucredit.create_account('acme'), gpucredit.issue('acme', '', 'bought', 1000),
	gpucredit.hold('acme', '', 'held', 10, '1 hour')};
carry_all();
$cells->{a}->stop;
system('cp', '-a', $data, "$data.kept") == 0 or die "cp: $?\n";
$cells->{a}->start;
$cells->at_router($_) foreach q{CALL gpucredit_cells.move_org('acme', 'b', 'move')},
  q{SELECT gpucredit.capture('acme', (gpucredit.hold('acme', '', 'all', 990, '1 hour')).hold, 'spent', 990)},
  q{SELECT gpucredit_cells.set_home('zeta', 'a', 'home zeta')}, q{SELECT gpucredit.create_account('zeta')};
is(found(), '', 'nothing is amiss');

$cells->{a}->stop('immediate');
system('rm', '-rf', $data) == 0 && rename("$data.kept", $data) or die "could not restore a\n";
$cells->{a}->start;
is(found(), "not_at_home|zeta|cell a\ntwo_homes|acme|a, b", 'what the restored cell has forgotten is named');
carry_all();
is(at('a', 'SELECT what, org FROM gpucredit_cells.finding'), 'moved|acme', 'it hears who moved away');
query_fails($cells->{a}, 'credit', q{SELECT gpucredit.hold('acme', '', 'twice', 990, '1 hour')}, 'UC702',
	'so nothing is spent twice');
is($cells->at_router(q{SELECT trim_scale(available), trim_scale(held), trim_scale(spent) FROM gpucredit.balance('acme')}),
	'0|10|990', 'at home nothing has changed');
is(found(), 'not_at_home|zeta|cell a', 'there is one home again');

# What an operator does then
at('a', q{SELECT gpucredit_cells.close_out('acme', 'b')});
query_fails($cells->{a}, 'credit', q{SELECT gpucredit.hold('acme', '', 'twice', 990, '1 hour')}, 'UC701', 'it is closed there');
my $epoch = $cells->at_router(q{SELECT epoch FROM gpucredit_cells.home WHERE org = 'zeta'});
at('a', "SELECT gpucredit_cells.admit('zeta', $epoch)");
$cells->at_router(q{SELECT gpucredit.create_account('zeta')});
$cells->verify_all;
is(found(), '', 'verify_cells() is empty');
done_testing();
