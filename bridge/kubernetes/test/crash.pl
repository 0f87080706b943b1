# crash.pl: bridge, database and API server are killed with -9 in the middle of
# submissions, starts, runs, deletions and ends; a burst of pods
#
# Packages: libcurl4-openssl-dev libjansson-dev libpq-dev libjson-xs-perl
#
# GC_KILLS kills of each (3); GC_BURST pods in the burst (60).

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../../../test/perl";
use GpuCredit;
use GpuCreditKubernetes;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $kills = $ENV{GC_KILLS} || 3;
my $burst = $ENV{GC_BURST} || 60;
my $k     = kubernetes('crash', nodes => 4, gpus => 8, apart => 1);
my $made  = 0;

$k->{settings}{lease_s} = 2;
$k->{settings}{report_late_s} = 5;		# the default, as in a burst much is late
srand(7);

sub make_four_pods
{
	foreach (1 .. 4)
	{
		my $n = ++$made;

		make_pod($k, 'acme', "p$n", gpus => 1 + $n % 3, sleep => 1 + $n % 2, exit => $n % 5 == 0);
	}
	my %gang = ('gpucredit.io/gang' => "g$made", 'gpucredit.io/gang-size' => 2);

	make_pod($k, 'acme', "p$made-$_", gpus => 4, sleep => 1, annotations => \%gang) foreach 1, 2;
	return;
}

# One of the last pods goes, whatever it does.
sub delete_one
{
	my $n = $made - int rand 4;

	api($k, 'DELETE', "/api/v1/namespaces/acme/pods/p$n");
	return;
}

start_bridge($k);
foreach my $turn (1 .. $kills)
{
	make_four_pods();
	sleep rand(2.5);
	kill_bridge($k);
	delete_one();
	sleep rand(0.5);
	start_bridge($k);
	make_four_pods();
	sleep rand(2.5);
	kill_server($k->{server});
	sleep rand(0.5);
	$k->{server}->start;
	make_four_pods();
	sleep rand(2);
	verify_midway($k, 'pods run and each part was killed') if $turn == 1;
	delete_one();
	kill_apiserver($k, rand(0.5));
}
wait_for('all pods ran and were settled', 120, sub {
	my @left = grep { $_->{metadata}{finalizers} && @{ $_->{metadata}{finalizers} } || $_->{status}{phase} !~ /^(?:Succeeded|Failed)$/ }
	  @{ api($k, 'GET', '/api/v1/namespaces/acme/pods')->{items} };

	return !@left;
}) or diag(bridge_log($k));
is(sql($k, q{SELECT count(DISTINCT spec->'kubernetes'->'pods') = count(*) FROM gpucredit.job WHERE state IN ('completed', 'failed')}),
	't', 'none ran twice');

# a burst
my $from = time();

make_pod($k, 'acme', "b$_", sleep => 0.2) foreach 1 .. $burst;
my $posted = time() - $from;

wait_for("a burst of $burst pods runs to its end", 60 + $burst, sub {
	sql($k, q{SELECT count(*) FROM gpucredit.jobs WHERE state = 'completed' AND submitted_at > now() - interval '1 h'}) >= $burst
	  && !grep { !$_->{metadata}{annotations}{'gpucredit.io/billed'} }
	  grep { $_->{metadata}{name} =~ /^b/ } @{ api($k, 'GET', '/api/v1/namespaces/acme/pods')->{items} };
}) or diag(bridge_log($k));
note(sprintf('%d pods: posted in %.1f s, settled %.1f s after the first', $burst, $posted, time() - $from));
end_kubernetes($k, refusals => 1);
done_testing();
