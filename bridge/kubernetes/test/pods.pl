# pods.pl: pods wait for credit, run on it, are stopped as it ends, and are
# billed for the seconds of their containers
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

my $k = kubernetes('pods', conf => ["gpucredit.hold_window_min = '1s'", "gpucredit.hold_least = '1s'", "gpucredit.exhaust_grace = '1s'"]);

sql($k, q{SELECT gpucredit.set_price('B9000', 9000)});
start_bridge($k, undef, alive_file => "$k->{folder}/alive");

# one that is paid
make_pod($k, 'acme', 'train', gpus => 2, sleep => 2, annotations => { 'gpucredit.io/gpu-type' => 'B9000|T4' });
wait_for('a pod with credit runs to its end', 30,
	sub { phase($k, 'acme', 'train') eq 'Succeeded' && annotation($k, 'acme', 'train', 'billed') })
  or diag(bridge_log($k));
my $pod = pod($k, 'acme', 'train');

is($pod->{spec}{nodeSelector}{'nvidia.com/gpu.product'}, 'T4',
	'on the first of its types that there is');
is($pod->{spec}{activeDeadlineSeconds}, 60, 'kubelet knows its wall limit');
is_deeply($pod->{metadata}{finalizers} || [], [], 'and it was let go');
is(sql($k, q{SELECT state FROM gpucredit.jobs WHERE org = 'acme'}), 'completed', 'its job is completed');

cmp_ok(time() - (stat("$k->{folder}/alive"))[9], '<', 30, 'the bridge shows that it lives');

# one that fails
make_pod($k, 'acme', 'fails', sleep => 1, exit => 3);
wait_for('a pod that fails is settled', 30, sub { annotation($k, 'acme', 'fails', 'billed') });
is(sql($k, q{SELECT outcome || exit_code FROM gpucredit.attempts ORDER BY job DESC LIMIT 1}),
	'failed3', 'with its exit code');

# one tenant has no credit
make_tenant($k, 'poor', 0);
make_pod($k, 'poor', 'waits', gpus => 1, sleep => 1);
wait_for('a pod without credit is told why', 30,
	sub { status_of($k, 'poor', 'waits') eq 'refused: insufficient_credits' })
  or diag(bridge_log($k));
is(phase($k, 'poor', 'waits'), 'Gated', 'and stays behind its gate');
is((grep { $_->{involvedObject}{name} eq 'waits' } @{ api($k, 'GET', '/api/v1/namespaces/poor/events')->{items} })[0]{message},
	'refused: insufficient_credits', 'an event says so as well');
my $keys = q{FROM gpucredit.request WHERE org = 'poor' AND operation = 'reserve' AND key };
wait_for('it is asked for again, ever more rarely', 30, sub { sql($k, "SELECT count(*) $keys ~ '/[1-9]\$'") >= 2 });
kill_bridge($k);
start_bridge($k);
wait_for('a bridge that starts anew asks under a key of its own', 30,
	sub { sql($k, "SELECT count(*) $keys ~ '/[0-9]{9,}\$'") ne '0' }) or diag(bridge_log($k));
is(sql($k, "SELECT count(*) $keys ~ '/[0-9]{2,8}\$'"), '0', 'and does not repeat what was denied');
sql($k, q{SELECT gpucredit.issue('poor', '', 'later', 100)});
wait_for('it starts by itself as credit comes', 30,
	sub { phase($k, 'poor', 'waits') eq 'Succeeded' })
  or diag(bridge_log($k));

# stopped as its hold is used up
make_tenant($k, 'small', 6);
make_pod($k, 'small', 'long', sleep => 1000,
	annotations => { 'gpucredit.io/hold-window' => '3s', 'gpucredit.io/wall-limit' => '1h' });
wait_for('a pod whose credit is used up is stopped', 40, sub { phase($k, 'small', 'long') eq 'Gone' })
  or diag(bridge_log($k));
cmp_ok(sql($k, q{SELECT sum(billed) FROM gpucredit.attempts WHERE org = 'small'}), '<=', 6,
	'and costs no more than there was');
is(sql($k, q{SELECT count(*) FROM gpucredit.jobs WHERE org = 'small' AND state <> 'cancelled'}), '0',
	'its job does not wait for another pod');

# kubelet enforces the wall limit
make_pod($k, 'acme', 'over', sleep => 1000, annotations => { 'gpucredit.io/wall-limit' => '3s' });
wait_for('the wall limit ends a pod', 40, sub { phase($k, 'acme', 'over') =~ /Failed|Gone/ });
wait_for('and its job', 20, sub { sql($k, q{SELECT state FROM gpucredit.jobs ORDER BY job DESC LIMIT 1}) eq 'timeout' })
  or diag(sql($k, q{SELECT state FROM gpucredit.jobs ORDER BY job DESC LIMIT 1}), bridge_log($k));

# cancelled in the database
make_pod($k, 'acme', 'cancelled', sleep => 1000);
wait_for('it runs', 20, sub { phase($k, 'acme', 'cancelled') eq 'Running' });
wait_for('and is metered', 20, sub { sql($k, q{SELECT state FROM gpucredit.jobs ORDER BY job DESC LIMIT 1}) eq 'running' });
verify_empty($k->{server}, 'credit', 'verify() is empty while it runs');
sql($k, q{SELECT gpucredit.cancel('acme', (SELECT max(job) FROM gpucredit.jobs WHERE org = 'acme'), 'c1')});
wait_for('a job that is cancelled takes its pod along', 30, sub { phase($k, 'acme', 'cancelled') eq 'Gone' })
  or diag(bridge_log($k));
is(sql($k, q{SELECT state FROM gpucredit.jobs ORDER BY job DESC LIMIT 1}), 'cancelled', 'it is cancelled');

# cancelled in the database before it starts: a bridge lives, and none does
play($k, 'start_after?s=1000');
make_pod($k, 'acme', 'unwanted', sleep => 1000);
wait_for('it has credit', 20, sub { phase($k, 'acme', 'unwanted') eq 'Pending' });
sql($k, q{SELECT gpucredit.cancel('acme', (SELECT max(job) FROM gpucredit.jobs WHERE org = 'acme'), 'c0')});
wait_for('a job that is cancelled before it starts takes its pod along', 30, sub { phase($k, 'acme', 'unwanted') eq 'Gone' })
  or diag(bridge_log($k));
make_pod($k, 'acme', 'undone', sleep => 1000);
wait_for('it has credit', 20, sub { phase($k, 'acme', 'undone') eq 'Pending' });
kill_bridge($k);
sql($k, q{SELECT gpucredit.cancel('acme', (SELECT max(job) FROM gpucredit.jobs WHERE org = 'acme'), 'c2')});
start_bridge($k);
wait_for('a job that was cancelled without a bridge takes its pod along', 30, sub { phase($k, 'acme', 'undone') eq 'Gone' })
  or diag(bridge_log($k));
is(sql($k, q{SELECT count(*) FROM gpucredit.jobs WHERE state = 'queued'}), '0', 'and nothing is reserved anew');
play($k, 'start_after?s=0');

# deleted by its owner while it runs
make_pod($k, 'acme', 'deleted', gpus => 2, sleep => 1000);
wait_for('it runs', 20, sub { phase($k, 'acme', 'deleted') eq 'Running' });
api($k, 'DELETE', '/api/v1/namespaces/acme/pods/deleted');
wait_for('a pod that its owner deletes is gone', 20, sub { phase($k, 'acme', 'deleted') eq 'Gone' })
  or diag(bridge_log($k));

# deleted while it waits for a node
make_pod($k, 'acme', 'block', gpus => 4, sleep => 4);
make_pod($k, 'acme', 'block2', gpus => 4, sleep => 4);
wait_for('both nodes are full', 20, sub { phase($k, 'acme', 'block') eq 'Running' && phase($k, 'acme', 'block2') eq 'Running' });
make_pod($k, 'acme', 'queued', gpus => 4, sleep => 1);
wait_for('it has credit', 20, sub { phase($k, 'acme', 'queued') eq 'Pending' });
api($k, 'DELETE', '/api/v1/namespaces/acme/pods/queued');
wait_for('one that is deleted before it started is gone', 20, sub { phase($k, 'acme', 'queued') eq 'Gone' })
  or diag(bridge_log($k));

# a gang: all or nothing
my %gang = ('gpucredit.io/gang' => 'g1', 'gpucredit.io/gang-size' => 2, 'gpucredit.io/gpu-type' => 'T4');
make_pod($k, 'acme', 'g-a', gpus => 4, sleep => 2, annotations => \%gang);
sleep 1;
is(phase($k, 'acme', 'g-a'), 'Gated', 'half a gang waits');
make_pod($k, 'acme', 'g-b', gpus => 4, sleep => 3, annotations => \%gang);
wait_for('a gang runs once it is whole', 30,
	sub { phase($k, 'acme', 'g-a') eq 'Succeeded' && annotation($k, 'acme', 'g-b', 'billed') })
  or diag(bridge_log($k));
is(sql($k, q{SELECT request || ' ' || gpus FROM gpucredit.jobs ORDER BY job DESC LIMIT 1}), '8xT4 8',
	'it is one job') or diag(sql($k, q{SELECT request FROM gpucredit.jobs}));

end_kubernetes($k);
done_testing();
