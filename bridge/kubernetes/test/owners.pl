# owners.pl: what tenants try with their pods: words that cannot be read, a name
# given out again, a gate or finalizer taken off, a limit lengthened, a type
# changed, annotations forged
#
# Packages: libcurl4-openssl-dev libjansson-dev libpq-dev libjson-xs-perl

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin, "$FindBin::RealBin/../../../test/perl";
use GpuCredit;
use GpuCreditKubernetes;
use PostgreSQL::Test::Utils;
use Test::More;

my $k = kubernetes('owners');
my $merge = 'application/merge-patch+json';
my $open = q{SELECT count(*) FROM gpucredit.holds WHERE closed_at IS NULL};

start_bridge($k, 'one');

# What a job of a pod, by its UID, has come to.
sub job_of
{
	my ($pod) = @_;

	return sql($k, "SELECT state FROM gpucredit.job WHERE spec->'kubernetes'->'pods' ? '$pod->{metadata}{uid}'");
}

sub change
{
	my ($name, $change) = @_;

	return api($k, 'PATCH', "/api/v1/namespaces/acme/pods/$name", $change, $merge);
}

sub runs
{
	my ($name) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return wait_for("\"$name\" runs", 30, sub { phase($k, 'acme', $name) eq 'Running' })
	  || diag(status_of($k, 'acme', $name), bridge_log($k, 'one'));
}

sub is_settled
{
	my ($name, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return wait_for($what, 40, sub { annotation($k, 'acme', $name, 'billed') })
	  || diag(status_of($k, 'acme', $name), bridge_log($k, 'one'));
}

# a name is given out again while the first pod of it has credit, and no bridge
# lives
play($k, 'start_after?s=1000');
my $first = make_pod($k, 'acme', 'twice', sleep => 1000);
wait_for('it has credit', 30, sub { phase($k, 'acme', 'twice') eq 'Pending' });
kill_bridge($k, 'one');
api($k, 'DELETE', '/api/v1/namespaces/acme/pods/twice');
make_pod($k, 'acme', 'twice', sleep => 1);
is($k->{status}, 409, 'a name is taken as long as its pod is not settled');
change('twice', { metadata => { finalizers => undef } });
wait_for('its owner takes the finalizer off', 20, sub { phase($k, 'acme', 'twice') eq 'Gone' });
play($k, 'start_after?s=0');
my $second = make_pod($k, 'acme', 'twice', gpus => 2, sleep => 2);
start_bridge($k, 'one');
is_settled('twice', 'another pod of the name runs by credit of its own');
is(job_of($first) . ' ' . job_of($second), 'cancelled completed', 'the job of the first is cancelled');

# the same of one that runs
$first = make_pod($k, 'acme', 'thrice', gpus => 3, sleep => 1000);
runs('thrice');
wait_for('and is metered', 20, sub { job_of($first) eq 'active' });
change('thrice', { metadata => { finalizers => undef } });
api($k, 'DELETE', '/api/v1/namespaces/acme/pods/thrice');
wait_for('its owner lets it go, and deletes it', 20, sub { phase($k, 'acme', 'thrice') eq 'Gone' });
$second = make_pod($k, 'acme', 'thrice', sleep => 1);
is_settled('thrice', 'the name runs again');
wait_for('what ran before is settled as well', 20, sub { job_of($first) eq 'failed' }) or diag(bridge_log($k, 'one'));
bills_are_fair($k);

# a limit that is lengthened while it runs
make_pod($k, 'acme', 'longer', sleep => 1000, annotations => { 'gpucredit.io/wall-limit' => '3s' });
runs('longer');
change('longer', { spec => { activeDeadlineSeconds => 3600 } });
is($k->{status}, 422, 'the API server refuses a later end');
change('longer', { metadata => { annotations => { 'gpucredit.io/wall-limit' => '1h' } } });
is_settled('longer', 'what the annotation says later counts for nothing');
is(job_of(pod($k, 'acme', 'longer')), 'timeout', 'it ended as its credit did');

SKIP: {
skip 'a real API server has no faults to order', 4 if $k->{assets};
# between reserve and ungating a pod becomes one of another type
sql($k, q{SELECT gpucredit.set_price('B9000', 3600)});
make_node($k, 'other', 4);
api($k, 'PATCH', '/api/v1/nodes/other', { metadata => { labels => { 'nvidia.com/gpu.product' => 'B9000' } } }, $merge);
play($k, 'fault?match=PATCH%20.*pods&status=503&count=100');
make_pod($k, 'acme', 'shifts', sleep => 1, annotations => { 'gpucredit.io/gpu-type' => 'T4' });
wait_for('its credit is held', 20, sub { sql($k, $open) eq '1' });
play($k, 'fault?count=0');
change('shifts', { spec => { nodeSelector => { 'nvidia.com/gpu.product' => 'B9000' } } });
is_settled('shifts', 'it runs');
is(sql($k, q{SELECT string_agg(state || ' ' || request, ', ' ORDER BY job) FROM gpucredit.jobs
	WHERE job > (SELECT max(job) - 2 FROM gpucredit.jobs)}), 'cancelled 1xT4, completed 1xB9000',
	'by credit for that type');
}

# a gate that is taken off while no bridge lives, and one with forged words
kill_bridge($k, 'one');
$k->{may_run_unpaid}{"acme/$_"} = 1 foreach qw(sneaks forges);
make_pod($k, 'acme', 'sneaks', sleep => 1000);
change('sneaks', { spec => { schedulingGates => [] } });
my %forged = ('gpucredit.io/job' => '1', 'gpucredit.io/status' => 'funded: 1000 credits are held');
make_pod($k, 'acme', 'forges', sleep => 1000, ungated => 1, annotations => \%forged);
change('forges', { metadata => { finalizers => ['gpucredit.io/settle'] } });
runs($_) foreach qw(sneaks forges);
start_bridge($k, 'one');
wait_for('both are deleted as a bridge comes', 40, sub { !grep { phase($k, 'acme', $_) ne 'Gone' } qw(sneaks forges) })
  or diag(bridge_log($k, 'one'));

# hostile pods
make_tenant($k, 'rival', 1000);
my @bad = (
	[ 'negative', { gpus => -1 }, 422 ],
	[ 'fraction', { gpus => '0.5' }, 422 ],
	[ 'words',    { gpus => 'all' }, 422 ],
	[ 'huge',     { gpus => '9' x 400 }, 'refused: the number of GPUs cannot be read' ],
	[ 'kilo',     { gpus => '1k' }, 'refused: the number of GPUs cannot be read' ],
	[ 'sixtyfive', { gpus => 65 }, 'refused: it asks for more than 64 GPUs' ],
	[ 'none',     { gpus => 0 }, 'refused: it asks for no nvidia.com/gpu' ],
	[ 'forever',  { annotations => { 'gpucredit.io/wall-limit' => '99999999999d' } }, 'refused: wall-limit is no duration' ],
	[ 'injects',  { annotations => { 'gpucredit.io/gpu-type' => "T4'; DROP TABLE x" } }, 'refused: the GPU type cannot be read' ],
	[ 'unknown',  { annotations => { 'gpucredit.io/gpu-type' => 'X1' } }, qr/^refused: / ],
	[ 'climbs',   { annotations => { 'gpucredit.io/account' => '../acme' } }, qr/^refused: .*account/ ],
	[ 'tierless', { annotations => { 'gpucredit.io/tier' => 'x' x 5000 } }, qr/^refused: / ],
	[ 'gangster', { annotations => { 'gpucredit.io/gang' => 'g', 'gpucredit.io/gang-size' => '-1' } }, 'refused: gang-size is no count from 1 to 1024' ]);

foreach my $case (@bad)
{
	my ($name, $options, $expected) = @$case;

	make_pod($k, 'rival', $name, %$options);
	$case->[3] = $k->{status};
}
foreach my $case (@bad)
{
	my ($name, undef, $expected, $status) = @$case;

	if (!ref $expected && $expected =~ /^\d+$/)
	{
		like($status, $k->{assets} ? qr/^4/ : qr/^$expected$/, "the API server itself refuses \"$name\"");
		next;
	}
	wait_for("\"$name\" is refused", 20, sub {
		my $said = status_of($k, 'rival', $name);

		return ref $expected ? $said =~ $expected : $said eq $expected;
	}) or diag(status_of($k, 'rival', $name), bridge_log($k, 'one'));
}
is(sql($k, q{SELECT count(*) FROM gpucredit.job WHERE org = 'rival'}), '0', 'none of them has a job');
api($k, 'DELETE', "/api/v1/namespaces/rival/pods/$_->[0]") foreach @bad;

# a pod says that it is another tenant's: its namespace counts
make_pod($k, 'rival', 'thief', sleep => 1,
	annotations => { 'gpucredit.io/org' => 'acme', 'gpucredit.io/job' => '1', 'gpucredit.io/status' => 'funded' });
wait_for('it runs', 30, sub { annotation($k, 'rival', 'thief', 'billed') }) or diag(bridge_log($k, 'one'));
is(sql($k, q{SELECT string_agg(DISTINCT org, ' ') FROM gpucredit.jobs WHERE submitted_at = (SELECT max(submitted_at) FROM gpucredit.jobs)}),
	'rival', 'and pays itself');

# pods without a gate, and one that takes it off itself
$k->{may_run_unpaid}{'rival/bold'} = $k->{may_run_unpaid}{'rival/sly'} = 1;
make_pod($k, 'rival', 'bold', sleep => 100, ungated => 1);
wait_for('a pod without a gate is deleted', 20, sub { phase($k, 'rival', 'bold') eq 'Gone' }) or diag(bridge_log($k, 'one'));
make_tenant($k, 'broke', 0);
$k->{may_run_unpaid}{'broke/sly'} = 1;
make_pod($k, 'broke', 'sly', sleep => 100);
wait_for('one has no credit', 20, sub { status_of($k, 'broke', 'sly') =~ /^refused/ });
api($k, 'PATCH', '/api/v1/namespaces/broke/pods/sly', { spec => { schedulingGates => [] } }, 'application/merge-patch+json');
wait_for('and takes its gate off: it is deleted', 20, sub { phase($k, 'broke', 'sly') eq 'Gone' }) or diag(bridge_log($k, 'one'));
api($k, 'POST', '/api/v1/namespaces', { metadata => { name => 'nobodys' } });
make_pod($k, 'nobodys', 'lost', sleep => 1);
wait_for('a namespace of no organisation is told so', 20,
	sub { status_of($k, 'nobodys', 'lost') eq 'refused: the namespace names no organisation' });

is(sql($k, q{SELECT count(*) FROM gpucredit.jobs WHERE state IN ('queued', 'unfunded')}), '0', 'nothing is left');
end_kubernetes($k, refusals => 1);
done_testing();
