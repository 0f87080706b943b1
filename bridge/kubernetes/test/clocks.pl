# clocks.pl: the clocks of nodes, bridge, database and API server differ; events
# come late, twice, and in another order; bills are the seconds that ran
#
# Packages: libcurl4-openssl-dev libjansson-dev libpq-dev libjson-xs-perl libfaketime

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../../../test/perl";
use GpuCredit;
use GpuCreditKubernetes;
use PostgreSQL::Test::Utils;
use Test::More;

my ($library) = glob('/usr/lib/*/faketime/libfaketime.so.1');
my $k = kubernetes('clocks', nodes => 4,
	conf => ["gpucredit.hold_window_min = '1s'", "gpucredit.hold_least = '1s'", "gpucredit.exhaust_grace = '2s'"]);
$k->{settings}{lease_s} = 2;
my %window = ('gpucredit.io/hold-window' => '4s', 'gpucredit.io/wall-limit' => '1h');

sub clock
{
	my ($offset) = @_;

	return { LD_PRELOAD => $library, FAKETIME => $offset, FAKETIME_DONT_FAKE_MONOTONIC => 1 };
}

sub settled
{
	my ($what, @names) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return wait_for($what, 60, sub { !grep { annotation($k, 'acme', $_, 'billed') eq '' } @names })
	  || diag(bridge_log($k, 'one'));
}

# one node is behind, one ahead, and the bridge is ahead of all
play($k, 'skew?node=n1&s=-90');
play($k, 'skew?node=n2&s=3600');
start_bridge($k, 'one', env => clock('+1800'));
start_bridge($k, 'two', env => clock('-7200'));
make_pod($k, 'acme', "each$_", gpus => 4, sleep => 3, annotations => \%window) foreach 1 .. 4;
wait_for('two run', 30, sub { sql($k, q{SELECT count(*) FROM gpucredit.jobs WHERE state = 'running'}) >= 2 });
verify_midway($k, 'clocks differ and pods run');
settled('pods run on nodes whose clocks differ', map { "each$_" } 1 .. 4);
is(sql($k, q{SELECT count(*) FROM gpucredit.jobs WHERE state = 'completed'}), '4', 'each by its credit');
like(bridge_log($k, 'one') . bridge_log($k, 'two'), qr/\A(?!.*lease_taken.*lease_taken)/s, 'one bridge of two has worked');

# a gang over nodes whose clocks differ
make_pod($k, 'acme', "gang$_", gpus => 4, sleep => 1 + $_ % 2,
	annotations => { 'gpucredit.io/gang' => 'g', 'gpucredit.io/gang-size' => 4 }) foreach 1 .. 4;
settled('a gang runs over all of them', map { "gang$_" } 1 .. 4);
bills_are_fair($k);

# the bridges are away as pods start: on nodes of nearly the right time
play($k, 'skew?node=n1&s=-20');
play($k, 'skew?node=n2&s=20');
play($k, 'start_after?s=2');
end_bridge($k, $_, 'KILL') foreach qw(one two);
start_bridge($k, 'one');
make_pod($k, 'acme', "away$_", gpus => 4, sleep => 1 + $_) foreach 1 .. 4;
wait_for('they have credit', 30, sub { !grep { phase($k, 'acme', "away$_") eq 'Gated' } 1 .. 4 })
  or diag(bridge_log($k, 'one'));
kill_bridge($k, 'one');
wait_for('they run, one is over', 30, sub { phase($k, 'acme', 'away1') eq 'Succeeded' });
play($k, 'start_after?s=0');
start_bridge($k, 'one');
settled('what started without a bridge is settled', map { "away$_" } 1 .. 4);
bills_are_fair($k);

# events that are late, come twice, and older ones after newer ones
play($k, "skew?node=n$_&s=0") foreach 1, 2;
play($k, 'events?late=0.5&again=1');
make_pod($k, 'acme', "late$_", gpus => 2, sleep => $_ % 3, exit => $_ == 4,
	annotations => $_ == 5 ? { %window } : {}) foreach 1 .. 6;
make_pod($k, 'acme', "both$_", gpus => 4, sleep => 2,
	annotations => { 'gpucredit.io/gang' => 'h', 'gpucredit.io/gang-size' => 2 }) foreach 1, 2;
make_pod($k, 'acme', 'unwanted', gpus => 4, sleep => 1000);
wait_for('it runs', 40, sub { phase($k, 'acme', 'unwanted') eq 'Running' }) or diag(bridge_log($k, 'one'));
api($k, 'DELETE', '/api/v1/namespaces/acme/pods/unwanted');
settled('pods run while events are late and out of order', 'both1', 'both2', map { "late$_" } 1 .. 6);
is(sql($k, q{SELECT count(*) = count(DISTINCT spec->'kubernetes'->'pods') FROM gpucredit.job WHERE attempt > 0}), 't',
	'none ran by two jobs');
is(join(' ', grep { phase($k, 'acme', $_) !~ /^(?:Succeeded|Failed)$/ } map { "late$_" } 1 .. 6), '',
	'and none was deleted');
play($k, 'events');

end_kubernetes($k);
done_testing();
