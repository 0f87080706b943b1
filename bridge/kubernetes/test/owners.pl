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

my $k = kubernetes('owners', conf => ["gpucredit.hold_least = '1s'"]);
my $merge = 'application/merge-patch+json';
my $open = q{SELECT count(*) FROM gpucredit.holds WHERE closed_at IS NULL};

$k->{settings} = { %{ $k->{settings} || {} }, stop_grace_s => 4, gang_wait_s => 3, held_alert_s => 2 };
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
verify_midway($k, 'pods are refused');
make_pod($k, 'rival', 'thief', sleep => 1,
	annotations => { 'gpucredit.io/org' => 'acme', 'gpucredit.io/job' => '1', 'gpucredit.io/status' => 'funded' });
wait_for('it runs', 30, sub { annotation($k, 'rival', 'thief', 'billed') }) or diag(bridge_log($k, 'one'));
is(sql($k, q{SELECT string_agg(DISTINCT org, ' ') FROM gpucredit.jobs WHERE submitted_at = (SELECT max(submitted_at) FROM gpucredit.jobs)}),
	'rival', 'and pays itself');

# a tenant reserves a job in the bridge's pool itself, with any document
my $own = sql($k, q{SELECT job FROM gpucredit.reserve('rival', '', 'own', '1xT4', '60 s', 'standard_training', 'kubernetes',
	spec => '{"kubernetes": {"wall_s": "x", "size": {}, "pods": 1, "key": []}}')});
my $other = sql($k, q{SELECT job FROM gpucredit.reserve('rival', '', 'other', '1xT4', '60 s', 'standard_training', 'kubernetes',
	spec => '{"kubernetes": {"wall_s": 1e300, "workload": "no uid"}}')});
kill_bridge($k, 'one');
start_bridge($k, 'one');
make_pod($k, 'acme', 'beside-it', sleep => 1);
is_settled('beside-it', 'a new bridge reads it, and goes on');
unlike(bridge_log($k, 'one'), qr/event=load_refused/, 'the database refused nothing');
sql($k, "SELECT gpucredit.cancel('rival', $_, 'cancel $_')") foreach $own, $other;

# pods without a gate, and one that takes it off itself
make_pod($k, 'rival', 'bold', sleep => 100, ungated => 1, deaf => 1, spec => { terminationGracePeriodSeconds => 86400 });
wait_for('a pod without a gate is deleted', 20, sub { phase($k, 'rival', 'bold') eq 'Gone' }) or diag(bridge_log($k, 'one'));
make_tenant($k, 'broke', 0);
# it ignores SIGTERM, so that it runs for a second at least
make_pod($k, 'broke', 'sly', sleep => 100, deaf => 1);
wait_for('one has no credit', 20, sub { status_of($k, 'broke', 'sly') =~ /^refused/ });
api($k, 'PATCH', '/api/v1/namespaces/broke/pods/sly', { spec => { schedulingGates => [] } }, 'application/merge-patch+json');
wait_for('and takes its gate off: it is deleted', 20, sub { phase($k, 'broke', 'sly') eq 'Gone' }) or diag(bridge_log($k, 'one'));
api($k, 'POST', '/api/v1/namespaces', { metadata => { name => 'nobodys' } });
make_pod($k, 'nobodys', 'lost', sleep => 1);
wait_for('a namespace of no organisation is told so', 20,
	sub { status_of($k, 'nobodys', 'lost') eq 'refused: the namespace names no organisation' });

wait_for('what ran unpaid is billed, or owed', 40, sub {
	sql($k, q{SELECT string_agg(org || CASE WHEN owed > '0' THEN ' owes' END, ', ') FROM gpucredit.uncollected}) eq 'broke owes'
	  && sql($k, q{SELECT count(*) FROM gpucredit.hold WHERE job IS NULL AND org = 'rival' AND captured > '0'}) eq '1';
}) or diag(bridge_log($k, 'one'));

# grace periods: longer ones get no credit
my %slow = (
	lingers => { terminationGracePeriodSeconds => 86400 },
	probes  => { containers => [ { name => 'main', image => 'play', command => [ 'sh', '-c', 'sleep 1000' ],
		livenessProbe => { terminationGracePeriodSeconds => 86400 },
		resources => { limits => { 'nvidia.com/gpu' => '1' } } } ] });

make_pod($k, 'acme', $_, sleep => 1000, spec => $slow{$_}) foreach sort keys %slow;
foreach my $name (sort keys %slow)
{
	wait_for("\"$name\" is told how long it may take to end", 20, sub {
		status_of($k, 'acme', $name) eq 'refused: terminationGracePeriodSeconds is above 4, which is all the time that a pod has to end';
	}) or diag(status_of($k, 'acme', $name));
	api($k, 'DELETE', "/api/v1/namespaces/acme/pods/$name");
}

# who ignores SIGTERM is billed until the container is gone: past its limit, as
# its owner deletes it with a longer grace period than its own, by force, and
# by force without our finalizer
my %deaf = (sleep => 1000, deaf => 1, spec => { terminationGracePeriodSeconds => 4 });

make_pod($k, 'acme', $_, gpus => 2, %deaf) foreach qw(slow forced lost);
make_pod($k, 'acme', 'limit', gpus => 2, %deaf, annotations => { 'gpucredit.io/wall-limit' => '3s' });
runs($_) foreach qw(slow forced lost);
is(sql($k, q{SELECT string_agg(h.drawn::text, ' ') FROM gpucredit.job j JOIN gpucredit.hold h USING (org, hold)
	WHERE j.spec->'kubernetes'->>'pod' = 'limit'}), '14.000000', 'credit is held for the limit and for the time to end');
wait_for('all are metered', 20, sub { sql($k, q{SELECT count(*) FROM gpucredit.jobs WHERE state = 'running'}) eq '4' });
verify_midway($k, 'four pods run');
api($k, 'DELETE', '/api/v1/namespaces/acme/pods/slow', { gracePeriodSeconds => 9 });
api($k, 'DELETE', '/api/v1/namespaces/acme/pods/forced', { gracePeriodSeconds => 0 });
change('lost', { metadata => { finalizers => undef } });
api($k, 'DELETE', '/api/v1/namespaces/acme/pods/lost', { gracePeriodSeconds => 0 });
is(phase($k, 'acme', 'lost'), 'Gone', 'the API server forgets one at once');
wait_for('all are gone and settled', 40, sub {
	!grep { phase($k, 'acme', $_) !~ /Gone|Failed/ } qw(slow forced lost limit)
	  and sql($k, q{SELECT count(*) FROM gpucredit.jobs WHERE state = 'running'}) eq '0';
}) or diag(bridge_log($k, 'one'));
is(join(' ', map { int(ran_of($k, "acme/$_")->{grace} + 0.5) } qw(slow forced lost)), '9 4 4', 'as kubelet ends them');
bills_are_fair($k);

# an ungated pod that its owner deletes slowly is deleted again
sql($k, q{SELECT gpucredit.issue('broke', '', 'later', 1)});
make_pod($k, 'broke', 'idle', sleep => 1000, ungated => 1, annotations => { 'gpucredit.io/account' => 'none' });
wait_for('it is deleted within seconds', 20, sub { phase($k, 'broke', 'idle') eq 'Gone' });

# parts of GPUs and claims have no price
my @container = (name => 'main', image => 'play', command => [ 'sh', '-c', 'sleep 1000' ]);
my %parts = (
	mig   => { containers => [ { @container, resources => { limits => { 'nvidia.com/mig-1g.10gb' => '1' } } } ] },
	share => { containers => [ { @container, resources => { limits => { 'nvidia.com/gpu.shared' => '1' } } } ] },
	claim => { resourceClaims => [ { name => 'gpu', resourceClaimName => 'mine' } ] });

make_pod($k, 'rival', $_, gpus => 0, spec => $parts{$_}) foreach sort keys %parts;
make_pod($k, 'rival', "$_-bold", gpus => 0, sleep => 1000, spec => $parts{$_}, ungated => 1) foreach sort keys %parts;
foreach my $name (sort keys %parts)
{
	wait_for("\"$name\" is refused", 20, sub { status_of($k, 'rival', $name) =~ /^refused: .*which ha(?:s|ve) no price$/ })
	  or diag(status_of($k, 'rival', $name));
	wait_for('and deleted where it has no gate', 20, sub { phase($k, 'rival', "$name-bold") eq 'Gone' });
	api($k, 'DELETE', "/api/v1/namespaces/rival/pods/$name");
}

# a node that does not say which GPUs it has is left alone
api($k, 'POST', '/api/v1/nodes', {
	metadata => { name => 'bare', labels => { 'kubernetes.io/hostname' => 'bare' } },
	status => { capacity => { 'nvidia.com/gpu' => '4' }, conditions => [ { type => 'Ready', status => 'True' } ] } });
make_pod($k, 'acme', 'stays', sleep => 1, spec => { nodeSelector => { 'kubernetes.io/hostname' => 'bare' } });
wait_for('a pod that no node can take is told that it has its credit and waits', 20,
	sub { status_of($k, 'acme', 'stays') =~ /^waits: \d+\.\d+ credits have been held for 2 s, and it does not run$/ })
  or diag(status_of($k, 'acme', 'stays'));
like(bridge_log($k, 'one'), qr/event=held_not_placed org=acme job=\d+ held=\S+ seconds=\d+/, 'so is the administrator');
api($k, 'PATCH', '/api/v1/nodes/bare', { metadata => { labels => { 'nvidia.com/gpu.product' => 'T4' } } }, $merge);
is_settled('stays', 'it runs as the node gets its label');
api($k, 'DELETE', '/api/v1/nodes/bare');

# a gang that has room for three of its four pods: what these ran is billed
my %gang = ('gpucredit.io/gang' => 'g', 'gpucredit.io/gang-size' => 4, 'gpucredit.io/gpu-type' => 'T4');

make_pod($k, 'acme', 'beside', sleep => 1000, annotations => { 'gpucredit.io/gpu-type' => 'T4' });
runs('beside');
make_pod($k, 'acme', "g$_", gpus => 2, sleep => 1000, annotations => \%gang) foreach 1 .. 4;
wait_for('all are deleted', 40, sub { !grep { phase($k, 'acme', "g$_") ne 'Gone' } 1 .. 4 }) or diag(bridge_log($k, 'one'));
is(scalar(grep { (ran_of($k, "acme/g$_") || {})->{started} } 1 .. 4), 3, 'three ran');
api($k, 'DELETE', '/api/v1/namespaces/acme/pods/beside');
wait_for('and are billed one by one', 20, sub {
	sql($k, q{SELECT count(*) FROM gpucredit.hold WHERE job IS NULL AND org = 'acme' AND captured > '0'}) eq '5';	# and two from above
}) or diag(bridge_log($k, 'one'));

is(sql($k, q{SELECT count(*) FROM gpucredit.jobs WHERE state IN ('queued', 'unfunded')}), '0', 'nothing is left');
end_kubernetes($k, refusals => 1);
done_testing();
