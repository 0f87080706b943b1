# 080_failover.pl: a cell dies for good, and its synchronous standby is the cell
# Packages: postgresql-N-plproxy
use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../../test/perl", "$FindBin::RealBin/lib";
use GpuCredit;
use GpuCreditCells;
use Test::More;

my $cells   = GpuCreditCells->new(qw(a b));
my $router  = $cells->{router};
my $standby = PostgreSQL::Test::Cluster->new('standby');

$cells->{a}->backup('taken');
$standby->init_from_backup($cells->{a}, 'taken', has_streaming => 1);
$standby->start;
query($cells->{a}, 'credit', q{ALTER SYSTEM SET synchronous_standby_names = 'standby'});
$cells->{a}->reload;
$cells->{a}->poll_query_until('credit',
	q{SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'}) or die "no synchronous standby\n";
$cells->at_router($_)
  foreach q{SELECT gpucredit_cells.set_home('acme', 'a', 'home acme')},
  q{SELECT gpucredit.create_account('acme'), gpucredit.issue('acme', '', 'paid', 1000)};
my ($lease) = split /\|/, query($cells->{a}, 'credit',
	q{SELECT lease FROM gpucredit_cells.lease('acme', '', 'b', 'lease', 100, '1 hour')});

sub carry_all
{
	my (@at) = @_;

	foreach my $round (1 .. 12)
	{
		my $n = 0;
		$n += query($_, 'credit', q{SELECT coalesce(sum(sent + waiting), 0) FROM gpucredit_cells.carry()}) foreach @at;
		last unless $n;
	}
	return;
}

carry_all($cells->{a}, $cells->{b});
query($cells->{b}, 'credit', q{SELECT gpucredit.capture('acme', (gpucredit.hold('acme', '', 'there', 30, '1 hour')).hold, 'spent there', 30)});

# A client works while its cell dies.  Every answer that it got is true.
pipe my $said, my $say or die;
my ($client) = in_parallel(1, sub {
	my $dbh = connect_to($router, 'credit');
	my $told = 0;
	foreach my $i (1 .. 1000)
	{
		last unless eval { $dbh->do("SELECT gpucredit.issue('acme', '', 'more $i', 1)"); 1 };
		syswrite $say, "$i\n";
	}
});
close $say;
while (defined(my $i = readline $said)) { last if $i >= 20 }
kill_server($cells->{a});
my $told = 20;
while (defined(my $i = readline $said)) { $told = $i + 0 }
wait_for_children($client);

$standby->promote;
query($standby, 'credit', 'ALTER SYSTEM RESET synchronous_standby_names');
$standby->reload;
$cells->{a} = $standby;
$cells->at_router(sprintf q{SELECT gpucredit_cells.set_cell('a', 'region a', '%s', 'a fails over')}, $cells->dsn('a'));
$cells->send_cell_table($_) foreach qw(a b);

is($cells->at_router(qq{SELECT count(*) FROM generate_series(1, $told) i,
	LATERAL gpucredit.issue('acme', '', 'more ' || i, 1) WHERE replayed}), $told,
	'what the router answered is in the standby');
is($cells->at_router(q{SELECT status FROM gpucredit.hold('acme', '', 'on', 1, '1 hour')}), 'granted',
	'and the organisation works there');
like($cells->at_router(q{SELECT gpucredit_cells.set_home('zeta', 'a', 'home zeta')}), qr/^\d+$/,
	'so does the directory');
carry_all($cells->{a}, $cells->{b});
is(query($cells->{a}, 'credit', q{SELECT trim_scale(spent), trim_scale(available) FROM gpucredit_cells.lease_out}),
	'30|70', 'a lease goes on: home hears what was spent');
query($cells->{a}, 'credit', "SELECT gpucredit_cells.recall('acme', '$lease')");
carry_all($cells->{a}, $cells->{b});
is(query($cells->{a}, 'credit', q{SELECT closed_at IS NOT NULL, trim_scale(given_back) FROM gpucredit_cells.lease_out}),
	't|70', 'and comes back');

# the first cell publishes rules: its followers must subscribe again
query($cells->{b}, 'credit', $_) foreach 'ALTER SUBSCRIPTION rules_of_b DISABLE',
  'ALTER SUBSCRIPTION rules_of_b SET (slot_name = NONE)', 'DROP SUBSCRIPTION rules_of_b';
query($cells->{b}, 'credit', sprintf q{CREATE SUBSCRIPTION rules_of_b CONNECTION '%s'
	PUBLICATION gpucredit_rules WITH (copy_data = false)}, $cells->dsn('a'));
$cells->at_router(q{SELECT gpucredit.set_price('H100', 4.5)});
$cells->{b}->poll_query_until('credit', q{SELECT count(*) = 1 FROM gpucredit.price});
pass('prices come to the other cell');

$cells->verify_all;
is($cells->at_router('SELECT * FROM gpucredit_cells.verify_cells()'), '', 'verify_cells() is empty');
done_testing();
