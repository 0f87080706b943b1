# faults.pl: watches that break, answers that are lost, an API server and a
# database that go away, nodes that vanish, two bridges
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
unlike(bridge_log($k, 'one'), qr/event=(?:watch_expired|list_failed)/, 'it went on where it was');

# what the API server has forgotten is listed again
make_pod($k, 'acme', 'expired', sleep => 2);
wait_for('it runs', 30, sub { phase($k, 'acme', 'expired') eq 'Running' });
play($k, 'fault?match=GET%20/api/v1/pods&status=drop&count=3');
play($k, 'cut');
api($k, 'PATCH', '/api/v1/namespaces/acme/pods/expired', { metadata => { labels => { a => "$_" } } },
	'application/merge-patch+json') foreach 1 .. 3;
play($k, 'page?n=1');
play($k, 'fault?match=GET%20/api/v1/pods.*continue&status=410');
play($k, 'forget');
runs_to_its_end('expired', 'watches are refused as too old (410)');
like(bridge_log($k, 'one'), qr/event=watch_expired path=\/api\/v1\/pods/, 'and it was listed again');
$k->{assets} || like(bridge_log($k, 'one'), qr/event=list_failed path=\/api\/v1\/pods status=410/,
	'from its first page, as the second was too old, too');
play($k, 'page?n=0');

# among 1,100 other pods, whose list comes in three pages
play($k, 'fault?match=GET%20/api/v1/pods%5C%3F&status=drop&count=1000');
play($k, 'cut');
play($k, 'many?n=1100');
play($k, 'forget');
play($k, 'fault?count=0');
play($k, 'fault?match=GET%20/api/v1/pods%5C%3Flimit&status=429&count=2');
make_pod($k, 'acme', 'among', sleep => 1);
runs_to_its_end('among', 'a pod is found among 1,100, by a server that has too much to do (429)');

# changes and deletions that it has no time for
SKIP: {
skip 'a real API server has no faults to order', 4 if $k->{assets};
like(bridge_log($k, 'one'), qr/event=list_failed path=\/api\/v1\/pods status=429/, 'which the bridge took note of');
play($k, 'fault?match=PATCH%20.*pods&status=429&count=2');
make_pod($k, 'acme', 'throttled', sleep => 1);
runs_to_its_end('throttled', 'two patches are refused (429)');
play($k, 'fault?match=DELETE%20.*pods&status=429&count=2');
make_pod($k, 'acme', 'unpaid', sleep => 1000, ungated => 1);
wait_for('a pod goes though two deletions are refused (429)', 30, sub { phase($k, 'acme', 'unpaid') eq 'Gone' });
is(scalar(() = bridge_log($k, 'one') =~ /event=delete_refused pod=acme\/unpaid status=429/g), 2, 'which are made a second apart');
}

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
skip 'a real API server has no faults to order', 8 if $k->{assets};
play($k, 'fault?match=PATCH%20.*pods&status=503&count=100');
make_pod($k, 'acme', 'fleeting', sleep => 1);
wait_for('its credit is held', 20, sub { sql($k, q{SELECT count(*) FROM gpucredit.job WHERE state = 'queued'}) eq '1' });
api($k, 'DELETE', '/api/v1/namespaces/acme/pods/fleeting');
wait_for('a pod that is deleted with its gate gives its credit back', 20,
	sub { sql($k, q{SELECT count(*) FROM gpucredit.holds WHERE closed_at IS NULL}) eq '0' });

# so does half a gang, and the other half waits
my %gang = ('gpucredit.io/gang' => 'g', 'gpucredit.io/gang-size' => 2);

make_pod($k, 'acme', "half$_", sleep => 1, annotations => \%gang) foreach 1, 2;
wait_for('its credit is held', 20, sub { sql($k, q{SELECT count(*) FROM gpucredit.job WHERE state = 'queued'}) eq '1' });
api($k, 'DELETE', '/api/v1/namespaces/acme/pods/half1');
wait_for('half a gang gives its credit back', 20,
	sub { sql($k, q{SELECT count(*) FROM gpucredit.holds WHERE closed_at IS NULL}) eq '0' });
is(phase($k, 'acme', 'half2'), 'Gated', 'the other half waits');

# the same, while no bridge lives
make_pod($k, 'acme', 'orphan', sleep => 1);
wait_for('its credit is held', 20, sub { sql($k, q{SELECT count(*) FROM gpucredit.job WHERE state = 'queued'}) eq '1' });
kill_bridge($k, 'one');
api($k, 'DELETE', '/api/v1/namespaces/acme/pods/orphan');
play($k, 'fault?count=0');
start_bridge($k, 'one');
wait_for('the next bridge gives back the credit of one that it never saw', 20,
	sub { sql($k, q{SELECT count(*) FROM gpucredit.holds WHERE closed_at IS NULL}) eq '0' });
make_pod($k, 'acme', 'half3', sleep => 1, annotations => \%gang);
runs_to_its_end('half2', 'a gang that is whole again runs');
}

# the API server is away: what runs goes on, what ends meanwhile is billed right
make_pod($k, 'acme', 'through', sleep => 3);
wait_for('it runs', 30, sub { phase($k, 'acme', 'through') eq 'Running' });
play($k, 'away?s=5');
sleep 5.5;
make_pod($k, 'acme', 'after', sleep => 1);
runs_to_its_end('through', 'the API server is away as a pod ends');
runs_to_its_end('after', 'and the next one runs');

# the same, and kubelets report what ended only some seconds later
make_pod($k, 'acme', 'late', sleep => 3);
wait_for('it runs', 30, sub { phase($k, 'acme', 'late') eq 'Running' });
play($k, 'quiet?s=8');
play($k, 'away?s=5');
sleep 5.5;
runs_to_its_end('late', 'its end is reported when the API server has been back for a while');

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
verify_midway($k, 'two run and a node is about to go');
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
# the bridge last heard the API server when it renewed its lease
$k->{unseen}{'acme/vanishes'} = $k->{unseen}{'acme/silent'} = 1;
cmp_ok(sql($k, q{SELECT max(billed) FROM gpucredit.attempts WHERE outcome = 'node_lost'}) / 4, '>=',
	($lost{vanishes} < $lost{silent} ? $lost{vanishes} : $lost{silent}) - 3, 'and what was seen is');
make_node($k, $gone, 4);

# pods without credit on nodes that are lost: they are billed, and our finalizer
# does not keep them
kill_bridge($k, 'one');
my %ghost = map { $_ => make_pod($k, 'acme', $_, gpus => 4, sleep => 1000, ungated => 1) } qw(ghost echo);
api($k, 'PATCH', "/api/v1/namespaces/acme/pods/$_", { metadata => { finalizers => ['gpucredit.io/settle'] } },
	'application/merge-patch+json') foreach keys %ghost;
wait_for('two run unpaid', 30, sub { phase($k, 'acme', 'ghost') eq 'Running' && phase($k, 'acme', 'echo') eq 'Running' });
my %at = map { $_ => pod($k, 'acme', $_)->{spec}{nodeName} } keys %ghost;
play($k, "kubelet?node=$_&dead=1") foreach values %at;
start_bridge($k, 'one');
wait_for('both are deleted', 30, sub { !grep { !pod($k, 'acme', $_)->{metadata}{deletionTimestamp} } keys %ghost });
api($k, 'DELETE', "/api/v1/nodes/$at{ghost}");
wait_for('one goes with its node', 30, sub { phase($k, 'acme', 'ghost') eq 'Gone' }) or diag(bridge_log($k, 'one'));
wait_for('the other may go', 30, sub { my $echo = pod($k, 'acme', 'echo'); !$echo || !@{ $echo->{metadata}{finalizers} || [] } })
  or diag(bridge_log($k, 'one'));
is(sql($k, "SELECT count(*) FROM gpucredit.request WHERE operation = 'capture' AND key IN ("
	. join(', ', map { "'$_->{metadata}{uid}/unpaid bill'" } values %ghost) . ')'), '2', 'both are billed');
play($k, "kubelet?node=$at{echo}&dead=0");
make_node($k, $at{ghost}, 4);
$k->{may_run_unpaid}{"acme/$_"} = 1 foreach keys %ghost;

# an earlier bridge had the database count more devices on a node than it has
kill_bridge($k, 'one');
make_pod($k, 'acme', 'high', gpus => 2, sleep => 1000, ungated => 1);
api($k, 'PATCH', '/api/v1/namespaces/acme/pods/high', { metadata => { finalizers => ['gpucredit.io/settle'] } },
	'application/merge-patch+json');
wait_for('a pod runs', 30, sub { phase($k, 'acme', 'high') eq 'Running' });
my $high = pod($k, 'acme', 'high');
my $node = $high->{spec}{nodeName};
api($k, 'PATCH', "/api/v1/nodes/$node", { metadata => { labels => { here => 'yes' } } }, 'application/merge-patch+json');
sql($k, "SELECT gpucredit.register_node('kubernetes', '$node', 'T4', 6, 16384);
	SELECT p.attempt FROM gpucredit.reserve('acme', '', '$high->{metadata}{uid}', '2xT4', '300 s', 'standard_training', 'kubernetes',
		max_retries => 0, spec => '{\"kubernetes\": {\"key\": \"$high->{metadata}{uid}\", \"pods\": [\"$high->{metadata}{uid}\"]}}') r
		CROSS JOIN LATERAL gpucredit.placed('acme', r.job, 'high', '{$node}', '{\"{4,5}\"}', 'T4', ran => '1 s') p");
start_bridge($k, 'one');
make_pod($k, 'acme', 'low', gpus => 2, sleep => 1, spec => { nodeSelector => { here => 'yes' } });
runs_to_its_end('low', 'another pod is placed beside one whose devices have higher numbers');
is(phase($k, 'acme', 'high'), 'Running', 'while that runs');
api($k, 'DELETE', '/api/v1/namespaces/acme/pods/high');
wait_for('which ends', 30, sub { phase($k, 'acme', 'high') eq 'Gone' }) or diag(bridge_log($k, 'one'));
$k->{unseen}{'acme/high'} = 1;	# before its job was reserved

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
my $taken = () = bridge_log($k, 'one') =~ /event=lease_taken/g;
kill('STOP', $k->{bridges}{two});
wait_for('a bridge that hangs loses the lease', 40, sub { (() = bridge_log($k, 'one') =~ /event=lease_taken/g) > $taken });
kill('CONT', $k->{bridges}{two});
wait_for('and ends as it wakes', 30, sub { bridge_log($k, 'two') =~ /event=lease_lost/ });
make_pod($k, 'acme', 'last', sleep => 1);
runs_to_its_end('last', 'the first works again');

is(sql($k, q{SELECT count(*) FROM gpucredit.jobs WHERE org = 'acme' AND state IN ('queued', 'unfunded')}), '0', 'nothing is left');
end_kubernetes($k, refusals => 1);
done_testing();
