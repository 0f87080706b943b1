# kueue.pl: workloads of Kueue wait for credit by an AdmissionCheck, run on it,
# are evicted as it ends, and are billed for the seconds of their pods
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

plan skip_all => 'Kueue is played' if $ENV{KUBEBUILDER_ASSETS};

my $k = kubernetes('kueue', conf => ["gpucredit.hold_window_min = '1s'", "gpucredit.hold_least = '1s'", "gpucredit.exhaust_grace = '1s'"]);
my $api = '/apis/kueue.x-k8s.io/v1beta1';
my $held = q{SELECT count(*) FROM gpucredit.holds WHERE closed_at IS NULL};
my $last = q{FROM gpucredit.jobs ORDER BY job DESC LIMIT 1};

$k->{settings} = { kueue => 'v1beta1', lease_s => 2, node_lost_s => 2 };
sql($k, q{SELECT gpucredit.set_price('B9000', 9000)});
api($k, 'POST', "$api/resourceflavors", { metadata => { name => 'gpus' } });
api($k, 'POST', "$api/admissionchecks",
	{ metadata => { name => 'credit' }, spec => { controllerName => 'gpucredit.io/credit' } });
api($k, 'POST', "$api/admissionchecks",
	{ metadata => { name => 'others' }, spec => { controllerName => 'example.com/check' } });
start_bridge($k, 'one');

sub is_check
{
	my ($space, $name, $expected, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return wait_for($what, 30, sub { check_of($k, $space, $name) =~ $expected })
	  || diag(check_of($k, $space, $name), bridge_log($k, 'one'));
}

sub is_rejected
{
	my ($space, $name, $expected, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return wait_for($what, 30,
		sub { bridge_log($k, 'one') =~ m{event=workload_rejected workload=$space/$name reason="refused: .*$expected} })
	  || diag(bridge_log($k, 'one'));
}

sub finished
{
	my ($space, $name) = @_;

	return grep { $_->{type} eq 'Finished' && $_->{status} eq 'True' }
	  @{ (workload($k, $space, $name) || {})->{status}{conditions} || [] };
}

sub runs_to_its_end
{
	my ($space, $name, $what) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return wait_for($what, 40, sub { finished($space, $name) && !grep { @{ $_->{metadata}{finalizers} || [] } } pods_of($k, $space, $name) })
	  || diag(check_of($k, $space, $name), bridge_log($k, 'one'));
}

sub is_running
{
	my ($space, $name, $pods) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return wait_for("$name runs, and is metered", 30, sub {
		$pods == grep { $_->{status}{phase} eq 'Running' } pods_of($k, $space, $name)
	} ) && wait_for('by the database', 20, sub { sql($k, "SELECT state $last") eq 'running' })
	  || diag(bridge_log($k, 'one'));
}

wait_for('the check is active, another controller\'s is left alone', 20, sub {
	my %active = map { $_->{metadata}{name} => $_->{status}{conditions}[0]{status} // '' }
	  @{ api($k, 'GET', "$api/admissionchecks")->{items} };

	return $active{credit} eq 'True' && $active{others} eq '';
});

# one that is paid, of two pod sets and a launcher
make_workload($k, 'acme', 'train', sleep => 2, limit => 40,
	annotations => { 'gpucredit.io/gpu-type' => 'B9000|T4', 'gpucredit.io/wall-limit' => '50s' },
	sets => [ [ 'launcher', 1, 0 ], [ 'workers', 2, 2 ], [ 'judge', 1, 1 ] ]);
runs_to_its_end('acme', 'train', 'a workload with credit runs to its end');
my ($pod) = grep { $_->{spec}{nodeSelector} } pods_of($k, 'acme', 'train');

is($pod->{spec}{nodeSelector}{'nvidia.com/gpu.product'}, 'T4', 'its pods are on the type that was priced');
is($pod->{spec}{activeDeadlineSeconds}, 40, 'kubelet knows the limit, the lower of two');
is(sql($k, "SELECT state || ' ' || request $last"), 'completed 5xB9000|T4', 'it was one job');
like(check_of($k, 'acme', 'train'), qr/^Ready: funded: \d/, 'and its check is Ready');

# without credit it waits, and starts by itself
make_tenant($k, 'poor', 0);
make_workload($k, 'poor', 'waits', sleep => 1);
is_check('poor', 'waits', qr/^Pending: refused: insufficient_credits$/, 'a workload without credit is told why, and waits');
is(scalar pods_of($k, 'poor', 'waits'), 0, 'with no pod');
sql($k, q{SELECT gpucredit.issue('poor', '', 'later', 70)});
runs_to_its_end('poor', 'waits', 'it starts by itself as credit comes');

# what can never be paid is rejected
my %never = (
	unpriced => [ { 'gpucredit.io/gpu-type' => 'X1' }, qr/unknown GPU type/ ],
	nonsense => [ { 'gpucredit.io/wall-limit' => 'soon' }, qr/wall-limit is no duration/ ],
	climbs   => [ { 'gpucredit.io/account' => '../acme' }, qr/account/ ]);

make_workload($k, 'poor', $_, annotations => $never{$_}[0]) foreach sort keys %never;
foreach (sort keys %never)
{
	# Kueue evicts it at once, and the check's message goes
	is_rejected('poor', $_, $never{$_}[1], "\"$_\" is rejected");
	wait_for('and switched off', 20, sub { !workload($k, 'poor', $_)->{spec}{active} });
}
make_workload($k, 'poor', 'free', gpus => 0);
is_check('poor', 'free', qr/^Ready: it asks for no/, 'who asks for no GPU pays nothing');

# a node that does not say which GPUs it has: what runs there is evicted, and billed
# at the dearest price
api($k, 'POST', '/api/v1/nodes', {
	metadata => { name => 'bare', labels => { 'kubernetes.io/hostname' => 'bare' } },
	status => { capacity => { 'nvidia.com/gpu' => '4' }, conditions => [ { type => 'Ready', status => 'True' } ] } });
make_workload($k, 'acme', 'nowhere', sleep => 1000, spec => { nodeSelector => { 'kubernetes.io/hostname' => 'bare' } });
wait_for('a workload on a node of no type is evicted', 40, sub { bridge_log($k, 'one') =~ m{event=node_without_type org=acme job=\d+ node=bare} })
  or diag(bridge_log($k, 'one'));
api($k, 'DELETE', "$api/namespaces/acme/workloads/nowhere");
wait_for('its pods go', 20, sub { !grep { $_->{status}{phase} !~ /^(?:Succeeded|Failed)$/ } pods_of($k, 'acme', 'nowhere') });
api($k, 'DELETE', '/api/v1/nodes/bare');
# Kueue may have let it in once more before it was deleted
my @there = grep { ($_->{node} // '') eq 'bare' && $_->{started} } values %{ play($k, 'ran')->{ran} };
my ($billed, $cost) = (0, 0);

$cost += 2.5 * ($_->{finished} - $_->{started}) foreach @there;
wait_for('and what they ran is billed at the dearest price', 30, sub {
	$billed = sql($k, q{SELECT coalesce(sum(captured::numeric), 0) FROM gpucredit.hold WHERE job IS NULL});
	return $billed > 0 && abs($billed - $cost) <= 2.6 * @there;
}) or diag("$billed for $cost, " . @there . ' pods');
$k->{may_run_unpaid}{ $_->{name} } = 1 foreach grep { ($_->{node} // '') eq 'bare' } values %{ play($k, 'ran')->{ran} };

# the resource flavor decides the type
api($k, 'PATCH', "$api/resourceflavors/gpus", { spec => { nodeLabels => { 'nvidia.com/gpu.product' => 'T4' } } },
	'application/merge-patch+json');
make_workload($k, 'acme', 'other', annotations => { 'gpucredit.io/gpu-type' => 'B9000' });
is_rejected('acme', 'other', qr/the resource flavor is of another GPU type/, 'a flavor of another type');
make_workload($k, 'acme', 'flavored', sleep => 1);
runs_to_its_end('acme', 'flavored', 'a flavor of a priced type');
is(sql($k, "SELECT request $last"), '1xT4', 'is what is reserved');

# its hold is used up: it is evicted, and waits for credit in the queue
make_tenant($k, 'small', 6);
make_workload($k, 'small', 'long', sleep => 15,
	annotations => { 'gpucredit.io/hold-window' => '3s', 'gpucredit.io/wall-limit' => '1h', 'gpucredit.io/account' => '' }, gpus => 2);
wait_for('a workload whose credit is used up is evicted', 40, sub {
	bridge_log($k, 'one') =~ m{event=workload_evicted workload=small/long} })
  or diag(bridge_log($k, 'one'));
is_check('small', 'long', qr/^Pending: refused: /, 'and waits in the queue');
cmp_ok(sql($k, q{SELECT sum(billed) FROM gpucredit.attempts WHERE org = 'small'}), '<=', 6, 'it cost no more than there was');
is(scalar(grep { $_->{status}{phase} eq 'Running' } pods_of($k, 'small', 'long')), 0, 'none of its pods runs');
sql($k, q{SELECT gpucredit.issue('small', '', 'later', 1000)});
runs_to_its_end('small', 'long', 'more credit lets it run again');

# cancelled in the database: it is switched off
make_workload($k, 'acme', 'cancelled', sleep => 1000, count => 2);
is_running('acme', 'cancelled', 2);
verify_empty($k->{server}, 'credit', 'verify() is empty while a workload runs');
sql($k, qq{SELECT gpucredit.cancel('acme', (SELECT job $last), 'c1')});
is_check('acme', 'cancelled', qr/^(?:Rejected: cancelled|Pending: )/, 'a job that is cancelled takes its workload along');
wait_for('its pods go', 20, sub { !grep { $_->{status}{phase} eq 'Running' } pods_of($k, 'acme', 'cancelled') });
ok(!workload($k, 'acme', 'cancelled')->{spec}{active}, 'and it does not come back');

# a pod that its owner makes again is a job of its own
make_workload($k, 'acme', 'again', sleep => 1, exit => 1, restarts => 1);
runs_to_its_end('acme', 'again', 'a pod that fails is made again');
is(sql($k, q{SELECT count(*) FROM gpucredit.jobs WHERE org = 'acme' AND state = 'failed'}), '2', 'each time it has credit of its own');

# switched off and on while it runs: another admission, and another hold
make_workload($k, 'acme', 'paused', sleep => 6);
is_running('acme', 'paused', 1);
my $path = "$api/namespaces/acme/workloads/paused";

api($k, 'PATCH', $path, { spec => { active => JSON::PP::false } }, 'application/merge-patch+json');
wait_for('a workload that is switched off gives its credit back', 20, sub { sql($k, $held) eq '0' })
  or diag(bridge_log($k, 'one'));
api($k, 'PATCH', $path, { spec => { active => JSON::PP::true } }, 'application/merge-patch+json');
runs_to_its_end('acme', 'paused', 'switched on again, it runs');
is(sql($k, q{SELECT string_agg(state, ' ' ORDER BY job) FROM gpucredit.job WHERE spec->'kubernetes'->>'pod' = 'paused'}),
	'failed completed', 'by a job of its own');

# deleted while it waits for a node, and while it runs
make_workload($k, 'acme', 'block', gpus => 4, count => 2, sleep => 1000);
is_running('acme', 'block', 2);
make_workload($k, 'acme', 'queued', gpus => 4);
is_check('acme', 'queued', qr/^Ready/, 'one with credit waits for a node');
api($k, 'DELETE', "$api/namespaces/acme/workloads/queued");
wait_for('deleted before it starts, it gives its credit back', 20, sub { sql($k, $held) eq '1' })
  or diag(bridge_log($k, 'one'));
is(sql($k, "SELECT state $last"), 'cancelled', 'its job is cancelled');

# two bridges: the other one goes on in the middle of it, and with what waits
make_workload($k, 'acme', 'second', gpus => 4, sleep => 1);
is_check('acme', 'second', qr/^Ready/, 'another has credit');
start_bridge($k, 'two');
kill_bridge($k, 'one');
wait_for('the second bridge takes over', 30, sub { bridge_log($k, 'two') =~ /event=jobs_loaded/ })
  or diag(bridge_log($k, 'two'));
start_bridge($k, 'one');
api($k, 'DELETE', "$api/namespaces/acme/workloads/block");
runs_to_its_end('acme', 'second', 'what had credit runs under the other bridge');
is(sql($k, qq{SELECT count(DISTINCT spec->'kubernetes'->>'key') = count(*) FROM gpucredit.job WHERE state = 'completed'}), 't',
	'nothing was reserved twice');

# a pod that names another's workload pays for itself, or goes
my $uid = workload($k, 'acme', 'second')->{metadata}{uid};

$k->{may_run_unpaid}{'poor/thief'} = 1;
make_pod($k, 'poor', 'thief', sleep => 100, ungated => 1, annotations => { 'gpucredit.io/workload' => $uid });
wait_for('a pod that names another\'s workload goes', 20, sub { phase($k, 'poor', 'thief') eq 'Gone' })
  or diag(bridge_log($k, 'two'));

# answers are lost, and somebody is faster
play($k, 'fault?match=PATCH%20.*workloads&status=lose&count=1');
play($k, 'fault?match=PATCH%20.*workloads&status=409&count=1');
# (its pods carry the gate, too)
make_workload($k, 'acme', 'faulty', sleep => 1,
	spec => { schedulingGates => [ { name => 'gpucredit.io/credit' } ] });
runs_to_its_end('acme', 'faulty', 'answers are lost and refused (409)');

end_kubernetes($k, refusals => 1);
done_testing();
