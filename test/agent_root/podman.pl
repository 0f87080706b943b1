# podman.pl: a job with an image runs in podman, and ends, is stopped, frozen,
# recovered and billed as any other, with its own GPUs only
#
# The test makes the image of busybox, and has its own store.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

plan skip_all => 'only root runs podman for users without a range of their own'
  if $> != 0;
plan skip_all => "no $_ on this machine"
  foreach grep { system("command -v $_ >/dev/null") != 0 }
  qw(podman crun busybox);
plan skip_all => 'no cgroup on this machine' unless cgroup_root();

my $store  = PostgreSQL::Test::Utils::tempdir_short();
my $podman = "$store/podman";
my @wrap   = own_cgroups();
make_store();
my $refused = `@wrap $podman --cgroup-manager=cgroupfs --runtime=crun run --cgroups=disabled --network=host --ulimit nofile=1000:1000 --ulimit nproc=1000:1000 gctest:1 true 2>&1`;
if ($? != 0)
{
	remove_store();
	plan skip_all => "this machine runs no container: $refused";
}

my $cluster = cluster('podman');
my $server  = $cluster->{server};
my $shared  = PostgreSQL::Test::Utils::tempdir_short();
my $n1      = add_node($cluster, 'n1', 2, stopped => 1, wrap => \@wrap,
	conf => [
		'first_uid = 700000', 'uids = 100', 'image_pull_s = 15', "podman = $podman", "image_mounts = $shared" ]);
my $inside = "/sys/fs/cgroup/podman-$$";
push @{ $n1->{conf} }, "cgroup = $inside";
chmod 0711, $n1->{folder};
chmod 0777, $shared;

# a file that is a device, and one that stands for one
my @gpus = ("$store/gpu0", "$n1->{folder}/gpu1");
system('mknod', '-m', '666', $gpus[0], 'c', 1, 3) == 0 or die 'mknod';
unlink "$n1->{folder}/devices";
append_to_file("$n1->{folder}/devices", "GPU-a 16384 ok $gpus[0]\nGPU-b 16384 ok $gpus[1]\n");
start_agent($n1);

# The program has the image's files and user, no capabilities; its output and
# exit code arrive.
my $job = run_in('gctest:1', '1xT4', q{
echo "in $(cat /etc/image) as $(id -u) in $PWD"; grep -E '^(CapEff|CapBnd|NoNewPrivs):' /proc/self/status
echo "$GREETING"; ls /dev/gpus; ls -d /root/nothing; ls / | grep -c boot
awk 'NR > 2 { print "interface", $1 }' /proc/net/dev
echo "progress 7" >&3; sleep 1; echo "no such layer" >&2; exit 125},
	env => { GREETING => 'a  b="c"' }, args => ', max_retries => 0');
wait_for_state($cluster, $job, 'failed');
is(job_row($cluster, $job, "exit_code || ' ' || (message LIKE '%no such layer')"),
	'125 true', 'its exit code, also one that podman has for itself, and its last words');
my $work = attempt_dir($n1, $job, 1) . '/work';
my $said = slurp_file(attempt_dir($n1, $job, 1) . '/stdout');
like($said, qr{^in gpucredit-test as 700000 in \Q$work\E$}m, 'the image\'s files, the organisation\'s user');
like($said, qr/^CapBnd:\s0+\nNoNewPrivs:\s1|^CapEff:\s0+\nCapBnd:\s0+\nNoNewPrivs:\s1$/m, 'no capabilities');
like($said, qr/^a  b="c"$/m, 'its environment');
is(join(' ', $said =~ /^(interface .*)$/mg), 'interface lo:', 'no interface of the node');
like($said, qr/^0$/m,        'and nothing of the node\'s files');
bill_is_fair($cluster, $job, 1, undef, 3);

# A program that is not there ends as it does without an image.
$job = submit($cluster, '1xT4', '', argv => ['/no/such/program'], image => 'gctest:1');
wait_for_state($cluster, $job, 'failed');
is(job_row($cluster, $job, 'exit_code'), 127, 'a command that is not there is 127');

# It sees its GPUs, from the file that the agent wrote, and no other device.
my $devices = "for d in @gpus; " . q{do [ -e $d ] && echo "has $d" && : > $d; done; echo "visible $CUDA_VISIBLE_DEVICES"; sleep 1};
my @jobs = map { run_in('gctest:1', '1xT4', $devices) } 1 .. 2;
wait_for_state($cluster, $_, 'completed') foreach @jobs;
foreach my $one (@jobs)
{
	$said = slurp_file(attempt_dir($n1, $one, 1) . '/stdout');
	my $b = $said =~ /visible GPU-b/ ? 1 : 0;
	like($said, qr/^has \Q$gpus[$b]\E\nvisible/, 'it has its own GPU alone');
	bill_is_fair($cluster, $one, 1, undef, 3);
}

# A checkpoint is saved where the operator shares a folder.
$job = run_in('gctest:1', '1xT4', qq{echo weights > $shared/ck; echo "checkpoint 5 $shared/ck" >&3; sleep 2});
wait_for_state($cluster, $job, 'completed');
is(query($server, 'credit', "SELECT step FROM gpucredit.checkpoint WHERE org = 'acme' AND job = $job"),
	5, 'it saves a checkpoint');

# A cancelled job may clean up; one that ignores the signal is killed.
my @ends = (run_in('gctest:1', '1xT4', qq{trap 'echo bye > $shared/bye; exit 0' TERM; touch $shared/up1; while :; do sleep 0.1; done}),
	run_in('gctest:1', '1xT4', qq{trap '' TERM; touch $shared/up2; while :; do sleep 0.1; done}));
wait_for('they run', 20, sub { -e "$shared/up1" && -e "$shared/up2" });
query($server, 'credit', "SELECT gpucredit.cancel('acme', $_, 'c$_')") foreach @ends;
wait_for_state($cluster, $_, 'cancelled') foreach @ends;
ok(-e "$shared/bye", 'it could clean up');

# The keeper dies, and so does the agent: what is left of the container ends,
# and a second attempt runs.
$job = run_in('gctest:1', '1xT4', qq{echo x >> $shared/runs; sleep 2});
wait_for('it runs', 20, sub { -e "$shared/runs" });
my $keeper = keeper_pid($n1, $job, 1);
kill_agent($n1);
kill('KILL', $keeper);
start_agent($n1);
wait_for_state($cluster, $job, 'completed');
is(slurp_file("$shared/runs"), "x\nx\n", 'a second attempt ran');

pulls();

# A missing image is a failure with a clear message, and drains no node.  The
# retry rules decide: of a wrong name that it ends.
@jobs = map { run_in("localhost:1/nowhere:$_", '0', 'true', args => ', max_retries => 1') } 1 .. 4;
push @jobs, run_in('dir:/root', '0', 'true');
my $first = "FROM gpucredit.attempt WHERE job IN (" . join(',', @jobs) . ") AND attempt = 1 AND outcome = 'failed'";
wait_for('no image for any of them', 20,
	sub { place($cluster); query($server, 'credit', "SELECT count(*) $first") == 5 });
wait_for_state($cluster, $_, 'failed') foreach @jobs;
is(query($server, 'credit', "SELECT string_agg(attempt::text, ' ' ORDER BY job) FROM gpucredit.job WHERE job IN (" . join(',', @jobs) . ')'),
	'2 2 2 2 1', 'what may come back is tried again, a wrong name is not');
like(query($server, 'credit', "SELECT message $first ORDER BY job LIMIT 1"),
	qr/^image: .*localhost:1/, 'it is said why');
like(query($server, 'credit', "SELECT message $first ORDER BY job DESC LIMIT 1"),
	qr/^image: its name/, 'no path is an image');
is(query($server, 'credit', 'SELECT count(*) FROM gpucredit.node_strike'),
	0, 'they are no strikes');

wait_for('podman forgot them all', 10,
	sub { `@wrap $podman ps -aq --filter name=gpucredit` eq '' });
end_agent($n1);
unlink '/run/cdi/gpucredit-n1.json';
end_cluster($cluster);
remove_store();
done_testing();

# An image that takes long: the attempt is heard of, and pays, while its devices
# wait.  The agent may be restarted meanwhile.
sub pulls
{
	query($server, 'credit', "ALTER DATABASE credit SET gpucredit.heartbeat_timeout = '8 s'");
	my $job = run_in('localhost/slow:1', '1xT4', 'sleep 1');
	wait_for('it is being pulled', 20, sub { -e "$store/pulling" });
	wait_for('the node says so', 10,
		sub { query($server, 'credit', "SELECT pulling FROM gpucredit.nodes WHERE node = 'n1'") eq '1' });
	like(query($server, 'credit', "SELECT detail FROM gpucredit.explain('acme', $job) WHERE check_name = 'image'"),
		qr/being pulled on n1/, 'and explain');
	wait_for('its time runs', 10, sub { (job_row($cluster, $job, "elapsed > '2 s'") || '') eq 't' });
	kill_agent($n1);
	start_agent($n1);
	wait_for('its time runs on', 60, sub {
		query($server, 'credit', 'SELECT FROM gpucredit.reap_holds()');
		(job_row($cluster, $job, "elapsed > '10 s'") || '') eq 't' });
	append_to_file("$store/go", '');
	wait_for_state($cluster, $job, 'completed');
	is(job_row($cluster, $job, 'attempt'), 1, 'it ran at its first try');
	cmp_ok(job_row($cluster, $job, 'billed'), '>=', 10, 'and paid for the wait');
	is(query($server, 'credit', "SELECT pulling FROM gpucredit.nodes WHERE node = 'n1'"), 0, 'nothing is pulled any more');

	# One that never ends is ended, and paid for; so is one that is cancelled.
	my @jobs = map { run_in("localhost/endless:$_", '1xT4', 'true', args => ', max_retries => 0') } 1 .. 2;
	wait_for('their time runs', 10, sub { (job_row($cluster, $jobs[1], "elapsed > '1 s'") || '') eq 't' });
	query($server, 'credit', "SELECT gpucredit.cancel('acme', $jobs[1], 'c')");
	wait_for_state($cluster, $jobs[1], 'cancelled');
	cmp_ok(job_row($cluster, $jobs[1], 'billed'), '>=', 1, 'a cancelled one paid for its wait');
	wait_for_state($cluster, $jobs[0], 'failed', 40);
	is(job_row($cluster, $jobs[0], 'message'), 'image: it was not pulled within 15 s', 'the other was ended');
	cmp_ok(job_row($cluster, $jobs[0], 'billed'), '>=', 14, 'and paid, too');

	# Devices that wait for no image.
	query($server, 'credit', q{SELECT gpucredit.create_pool('default', '{"image_wait": "0"}')});
	unlink "$store/go", "$store/pulling";
	$job = run_in('localhost/slow:2', '1xT4', 'sleep 1');
	wait_for('it gives its device back', 20,
		sub { (job_row($cluster, $job, 'outcome') || '') eq 'not_started' });
	like(job_row($cluster, $job, 'message'), qr/^image: it is still being pulled/, 'and says why');
	append_to_file("$store/go", '');
	wait_for_state($cluster, $job, 'completed', 60);
	is(query($server, 'credit', "SELECT gpucredit.create_pool('default', '{}')"), '', 'the policy is as before');
	query($server, 'credit', 'ALTER DATABASE credit RESET gpucredit.heartbeat_timeout');
	return;
}

sub run_in
{
	my ($image, $request, $command, %options) = @_;

	return submit($cluster, $request, '', argv => [ '/bin/sh', '-c', $command ],
		image => $image, %options);
}

# crun uses cgroups of version 2 only if no others are mounted, so the test has
# a mount namespace of its own.
sub own_cgroups
{
	return () if -e '/sys/fs/cgroup/cgroup.controllers';
	my $script = "$store/own_cgroups";

	append_to_file($script, qq{#!/bin/sh
exec unshare -m --propagation slave sh -c 'mount -t cgroup2 none /sys/fs/cgroup && exec "\$\@"' sh "\$\@"
});
	chmod 0755, $script;
	return ($script);
}

# A store and an image of the test's own.
sub make_store
{
	my $root = "$store/image";

	append_to_file($podman, qq{#!/bin/sh
# a registry that is slow, and one that never answers
case "\$*" in
*pull*docker://localhost/slow:*)
	touch $store/pulling
	while [ ! -e $store/go ]; do sleep 0.2; done
	exec "\$0" tag gctest:1 "\${*##*docker://}" ;;
*pull*docker://localhost/endless:*) exec sleep 1000 ;;
esac
exec /usr/bin/podman --root $store/store --runroot $store/run --tmpdir $store/tmp "\$\@"
});
	chmod 0755, $podman;
	mkdir $_ foreach $root, "$root/bin", "$root/etc", "$root/tmp";
	append_to_file("$root/etc/image", "gpucredit-test\n");
	system("cp /bin/busybox $root/bin/ && $root/bin/busybox --install -s $root/bin && cd $root/bin && ln -sf busybox sh") == 0
	  or die 'busybox';
	system(q{cd } . $root . q{/bin && for a in *; do [ $a = busybox ] || ln -sf busybox $a; done});
	system("tar -C $root -c . | $podman import -q - gctest:1 >/dev/null 2>&1") == 0
	  or diag('podman import failed');
	return;
}

sub remove_store
{
	system("$podman rm -fa >/dev/null 2>&1; umount $store/store/overlay 2>/dev/null");
	return;
}
