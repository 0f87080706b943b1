# faults.pl: watches that break, answers that are lost, an API server and a
# database that go away, nodes that vanish, two bridges, hostile pods
#
# GC_OUTAGE_SECONDS: how long the database is away (4).
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
use Time::HiRes qw(sleep time);

my $outage = $ENV{GC_OUTAGE_SECONDS} || 4;
my $k = kubernetes('faults', nodes => 3);

$k->{settings}{node_lost_s} = 2;
start_bridge($k, 'one');

sub runs_to_its_end
{
	my ($name, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return wait_for($what, 40,
		sub { annotation($k, 'acme', $name, 'billed') })
	  || diag(bridge_log($k, 'one'));
}

# a watch that is cut goes on where it was
make_pod($k, 'acme', 'cut', sleep => 2);
wait_for('it runs', 30, sub { phase($k, 'acme', 'cut') eq 'Running' });
play($k, 'cut');
runs_to_its_end('cut', 'the watch is cut while a pod runs');

# what the API server has forgotten is listed again
make_pod($k, 'acme', 'expired', sleep => 2);
wait_for('it runs', 30, sub { phase($k, 'acme', 'expired') eq 'Running' });
play($k, 'fault?match=GET%20/api/v1/pods&status=drop&count=3');
play($k, 'cut');
api($k, 'PATCH', '/api/v1/namespaces/acme/pods/expired', { metadata => { labels => { a => $_ } } },
	'application/merge-patch+json') foreach 1 .. 3;
play($k, 'forget');
runs_to_its_end('expired', 'watches are refused as too old (410)');
like(bridge_log($k, 'one'), qr/event=watch_expired path=\/api\/v1\/pods/, 'and it was listed again');

# somebody changes the pod at the same instant; answers are lost
play($k, 'fault?match=PATCH%20.*pods&status=409&count=2');
make_pod($k, 'acme', 'conflict', sleep => 1);
runs_to_its_end('conflict', 'two patches are refused (409)');
play($k, 'fault?match=PATCH%20.*pods&status=lose&count=2');
make_pod($k, 'acme', 'lost', sleep => 1);
runs_to_its_end('lost', 'the answers of two patches are lost');
play($k, 'fault?match=PATCH%20.*pods&status=503&count=2');
make_pod($k, 'acme', 'busy', sleep => 1);
runs_to_its_end('busy', 'the API server is busy (503)');

# deleted between reserve and ungating
SKIP: {
skip 'a real API server has no faults to order', 2 if $k->{assets};
play($k, 'fault?match=PATCH%20.*pods&status=503&count=4');
make_pod($k, 'acme', 'fleeting', sleep => 1);
wait_for('its credit is held', 20, sub { sql($k, q{SELECT count(*) FROM gpucredit.job WHERE state = 'queued'}) eq '1' });
api($k, 'DELETE', '/api/v1/namespaces/acme/pods/fleeting');
wait_for('a pod that is deleted with its gate gives its credit back', 20,
	sub { sql($k, q{SELECT count(*) FROM gpucredit.holds WHERE closed_at IS NULL}) eq '0' });
}

# the API server is away: what runs goes on, what ends meanwhile is billed right
make_pod($k, 'acme', 'through', sleep => 3);
wait_for('it runs', 30, sub { phase($k, 'acme', 'through') eq 'Running' });
play($k, 'away?s=5');
sleep 5.5;
make_pod($k, 'acme', 'after', sleep => 1);
runs_to_its_end('through', 'the API server is away as a pod ends');
runs_to_its_end('after', 'and the next one runs');

# the database is away: pods wait, what runs goes on
make_pod($k, 'acme', 'ends', sleep => 4);
make_pod($k, 'acme', 'lasts', sleep => $outage + 4, annotations => { 'gpucredit.io/wall-limit' => $outage + 300 });
wait_for('two run', 30, sub { phase($k, 'acme', 'ends') eq 'Running' && phase($k, 'acme', 'lasts') eq 'Running' });
$k->{server}->stop('immediate');
my $back = time() + $outage;
make_pod($k, 'acme', 'patient', sleep => 1);
wait_for('a pod ends without a database', 20, sub { phase($k, 'acme', 'ends') eq 'Succeeded' });
sleep 0.2 while time() < $back;
is(phase($k, 'acme', 'patient'), 'Gated', 'one without credit waits for it');
is(phase($k, 'acme', 'lasts'), 'Running', 'and another runs on');
$k->{server}->start;
runs_to_its_end('ends', 'what ended is billed later');
runs_to_its_end('lasts', 'so is what ran on');
runs_to_its_end('patient', 'and what waited runs');

# a node vanishes, and one that says nothing
make_pod($k, 'acme', 'vanishes', gpus => 4, sleep => 100);
make_pod($k, 'acme', 'silent', gpus => 4, sleep => 100);
wait_for('they run', 30, sub { phase($k, 'acme', 'vanishes') eq 'Running' && phase($k, 'acme', 'silent') eq 'Running' });
wait_for('and are metered', 20, sub { sql($k, q{SELECT count(*) FROM gpucredit.jobs WHERE state = 'running' AND elapsed > '1 s'}) eq '2' });
my ($gone, $silent) = map { pod($k, 'acme', $_)->{spec}{nodeName} } qw(vanishes silent);
api($k, 'DELETE', "/api/v1/nodes/$gone");
play($k, "kubelet?node=$silent&dead=1");
wait_for('a node that vanishes ends what ran there', 30,
	sub { sql($k, q{SELECT count(*) FROM gpucredit.attempts WHERE outcome = 'node_lost'}) eq '2' })
  or diag(bridge_log($k, 'one'));
wait_for('its pod goes', 20, sub { phase($k, 'acme', 'vanishes') eq 'Gone' });
play($k, "kubelet?node=$silent&dead=0");
wait_for('and so does that of a silent one, as it comes back', 20, sub { phase($k, 'acme', 'silent') eq 'Gone' });
is(sql($k, q{SELECT count(*) FROM gpucredit.jobs WHERE state IN ('queued', 'unfunded')}), '0',
	'their jobs wait for nothing');
my %lost = map { my $r = ran_of($k, "acme/$_"); ($_ => $r->{finished} - $r->{started}) } qw(vanishes silent);
cmp_ok(sql($k, q{SELECT max(billed) FROM gpucredit.attempts WHERE outcome = 'node_lost'}) / 4, '<=',
	($lost{vanishes} > $lost{silent} ? $lost{vanishes} : $lost{silent}) + 1, 'what was not seen is not billed');
$k->{unseen}{'acme/silent'} = 1;
make_node($k, $gone, 4);

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
	[ 'unknown',  { annotations => { 'gpucredit.io/gpu-type' => 'B9000' } }, qr/^refused: / ],
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

# two bridges: the second stands by, and takes over
start_bridge($k, 'two');
make_pod($k, 'acme', 'handed', sleep => 15);
wait_for('it runs', 30, sub { phase($k, 'acme', 'handed') eq 'Running' });
unlike(bridge_log($k, 'two'), qr/event=lease_taken/, 'the second bridge stands by');
kill_bridge($k, 'one');
wait_for('it takes over as the first dies', 30, sub { bridge_log($k, 'two') =~ /event=jobs_loaded/ });
start_bridge($k, 'one');
make_pod($k, 'acme', 'anew', sleep => 1);
wait_for('what ran is settled by the other', 40, sub { annotation($k, 'acme', 'handed', 'billed') }) or diag(bridge_log($k, 'two'));
wait_for('and new pods run', 40, sub { annotation($k, 'acme', 'anew', 'billed') }) or diag(bridge_log($k, 'two'));
kill('STOP', $k->{bridges}{two});
wait_for('a bridge that hangs loses the lease', 40, sub { (() = bridge_log($k, 'one') =~ /event=lease_taken/g) == 2 });
kill('CONT', $k->{bridges}{two});
wait_for('and ends as it wakes', 30, sub { bridge_log($k, 'two') =~ /event=lease_lost/ });
make_pod($k, 'acme', 'last', sleep => 1);
runs_to_its_end('last', 'the first works again');

is(sql($k, q{SELECT count(*) FROM gpucredit.jobs WHERE org = 'acme' AND state IN ('queued', 'unfunded')}), '0', 'nothing is left');
end_kubernetes($k, refusals => 1);
done_testing();
