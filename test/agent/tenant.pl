# tenant.pl: what the program of one tenant may do to its own bill, to another's
# and to the agent, with a cgroup and without one
#
# Without a cgroup a program is found as a descendant of its keeper, so this
# holds on a machine without cgroups, too.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

my $cluster = cluster('tenant');
my $server  = $cluster->{server};

foreach my $contained (cgroup_root() ? (1, 0) : (0))
{
	my $name = $contained ? 'n1' : 'n2';
	my $n    = add_node($cluster, $name, 2, no_cgroup => !$contained);

	note($contained ? 'in a cgroup' : 'without a cgroup');
	attack($n, $contained);
	end_agent($n);
	query($server, 'credit', "SELECT gpucredit.remove_node('$name')");
}
end_cluster($cluster);
done_testing();

sub attack
{
	my ($n, $contained) = @_;
	my $dir = $n->{folder};

	# The node says what holds its jobs together.
	wait_for('the agent has reported', 20,
		sub { query($server, 'credit', "SELECT containment FROM gpucredit.nodes WHERE node = '$n->{name}'") ne '' });
	my $is = query($server, 'credit', "SELECT containment FROM gpucredit.nodes WHERE node = '$n->{name}'");
	my $uncontained = query($server, 'credit',
		q{SELECT value FROM gpucredit.metric_samples('{uncontained_nodes}')});
	like($is, $contained ? qr/^cgroup/ : qr/^none$/, "nodes says what holds jobs together: $is");
	is($uncontained, $is eq 'cgroup' ? 0 : 1, 'the metric of the alert counts nodes that have no cgroup');
	like(agent_log($n), qr/event=no_cgroup node=$n->{name}/, 'the log of its start says so') unless $contained;

	# Another's process takes the attempt's name: it neither dies with the
	# attempt, nor makes its bill longer.
	my $job = submit($cluster, '1xT4', 'echo $GPUCREDIT_ATTEMPT $GPUCREDIT_MARK > $OUT/marks; sleep 2');
	my $out = $cluster->{submitted}{$job};
	wait_for('it runs', 20, sub { -s "$out/marks" });
	my ($attempt) = split / /, slurp_file("$out/marks");
	my $mine = fork();
	if ($mine == 0)
	{
		$ENV{GPUCREDIT_ATTEMPT} = $attempt;
		exec('sleep', '60');
	}
	wait_for_state($cluster, $job, 'completed');
	bill_is_fair($cluster, $job, 1, 2, 1);
	is(kill(0, $mine), 1, 'a process with the name of the attempt outlives it');
	kill('KILL', $mine);
	waitpid($mine, 0);

	# Two agents of one machine have parts of one gang: tools/cluster and
	# gang.pl.  Here: a program that leaves its session, its parent and its
	# environment is found all the same.
	$job = submit($cluster, '1xT4',
		qq{(env -i setsid bash -c 'exec -a fled-$n->{name} sleep 4321 & disown' >/dev/null 2>&1 </dev/null &) ; while [ ! -e \$OUT/seen ]; do sleep 0.1; done});
	wait_for('it fled', 20, sub { processes_of("fled-$n->{name}\0004321") });
	append_to_file("$cluster->{submitted}{$job}/seen", '');
	wait_for_state($cluster, $job, 'completed');
	is(join(' ', processes_of("fled-$n->{name}\0004321")), '', 'a process that fled from its job is gone with the job');

	# One that ignores SIGTERM is killed after the grace, and pays until then.
	$job = submit($cluster, '1xT4', q{trap '' TERM; touch $OUT/up; while :; do sleep 0.1; done});
	wait_for('it runs', 20, sub { -e "$cluster->{submitted}{$job}/up" });
	my $told = time();
	query($server, 'credit', "SELECT gpucredit.cancel('acme', $job, 'c$job')");
	wait_for_state($cluster, $job, 'cancelled');
	cmp_ok(time() - $told, '<', 20, 'a job that ignores SIGTERM is killed after the grace');
	bill_is_fair($cluster, $job, 1, undef, 1);

	# An output that nobody reads: the keeper does not wait for it, and the job
	# can be cancelled, and pays.
	system('mkfifo', "$dir/fifo-$n->{name}") == 0 or die 'mkfifo';
	chmod 0666, "$dir/fifo-$n->{name}";
	$job = submit($cluster, '1xT4', 'true', output => "$dir/fifo-$n->{name}", no_lock => 1);
	wait_for('it waits, and is metered', 20,
		sub { (job_row($cluster, $job, "elapsed > '1 s'") || '') eq 't' });
	query($server, 'credit', "SELECT gpucredit.cancel('acme', $job, 'c$job')");
	wait_for_state($cluster, $job, 'cancelled');
	cmp_ok(job_row($cluster, $job, 'billed'), '>=', 1, 'a cancelled job whose output nobody reads pays for its wait');

	# What the job chose and does not work is its own fault, never the node's.
	symlink("$dir/loop", "$dir/loop");
	my %wrong = (
		argv   => { argv => ["$dir/loop"] },
		folder => { argv => [ $dir ] },
		output => { argv => ['true'], output => 'no/such/folder' },
		name   => { argv => ['true'], output => 'x' x 300 },
		workdir => { argv => ['true'], workdir => "$dir/nowhere" });
	my %job = map { $_ => submit($cluster, '0', '', %{ $wrong{$_} }, args => ', max_retries => 0') } sort keys %wrong;
	wait_for_state($cluster, $job{$_}, 'failed') foreach sort keys %job;
	is(query($server, 'credit', "SELECT count(*) FROM gpucredit.attempt WHERE job IN (" . join(',', values %job) . ") AND exit_code NOT IN (126, 127)"),
		0, 'each job that cannot run ends with the exit code that a shell has');
	is(query($server, 'credit', "SELECT count(*) FROM gpucredit.node_strike WHERE node = '$n->{name}'"), 0, 'none counts against the node');
	like(job_row($cluster, $job{output}, 'message'), qr{/work/no/such/folder: No such file}, 'the message names the file');

	# The retry rules read the end of standard error, wherever it goes.
	$job = submit($cluster, '0', 'echo to stdout; seq 1 5000 >&2; echo "NCCL error: unhandled" >&2; exit 1',
		output => 'all.txt', no_lock => 1, args => ', max_retries => 0');
	wait_for_state($cluster, $job, 'failed');
	like(job_row($cluster, $job, 'message'), qr/^\d*\n.*\n5000\nNCCL error: unhandled$/s, 'the message is there with an output file');
	cmp_ok(length(job_row($cluster, $job, 'message')), '>', 3900, 'the last 4 kB of it');
	my $written = slurp_file(attempt_dir($n, $job, 1) . '/work/all.txt');
	like($written, qr/^to stdout\n1\n2\n.*5000\nNCCL error: unhandled\n$/s, 'the file has all of both streams, in order');
	$job = submit($cluster, '0', 'echo "CUDA error" >&2; exit 1', output => '/dev/null', no_lock => 1, args => ', max_retries => 0');
	wait_for_state($cluster, $job, 'failed');
	is(job_row($cluster, $job, 'message'), 'CUDA error', 'even of an output that is thrown away');

	# Bytes that are no text.
	$job = submit($cluster, '0', q{printf 'a\377\376b\303' >&2; exit 1}, no_lock => 1, args => ', max_retries => 0');
	wait_for_state($cluster, $job, 'failed');
	is(job_row($cluster, $job, 'message'), 'a??b?', 'bytes that are no text do not keep it from being settled');

	checkpoints($n);
	signals($n);
	return;
}

# What a program can name as a checkpoint, and how often.
sub checkpoints
{
	my ($n) = @_;
	my $dir = $n->{folder};
	my $job = submit($cluster, '1xT4', qq{
echo weights > \$OUT/ck
ln -s \$OUT/ck \$OUT/link
mkfifo \$OUT/fifo
truncate -s 1000000000000 \$OUT/sparse
step=1
for what in /dev/zero \$OUT/fifo \$OUT/link \$OUT/sparse /proc/kmsg; do
	echo "checkpoint \$step \$what" >&3
	step=\$((step + 1))
	sleep 0.6
done
echo "checkpoint 9 \$OUT/ck" >&3
sleep 1.5});
	wait_for_state($cluster, $job, 'completed');
	is(query($server, 'credit', "SELECT string_agg(step::text, ' ') FROM gpucredit.checkpoint WHERE job = $job"),
		'9', 'a checkpoint is a file: no device, pipe, link or hole');
	is(scalar(grep { (readlink($_) // '') =~ m{^/dev/zero|/sparse$} } glob('/proc/[0-9]*/fd/0')),
		0, 'nothing reads on');
	bill_is_fair($cluster, $job, 1, undef, 2);

	# A last checkpoint right before the end counts, and so does the time in
	# which it is read.
	$job = submit($cluster, '1xT4', q{sleep 0.5; echo weights > $OUT/ck; echo "checkpoint 3 $OUT/ck" >&3});
	wait_for_state($cluster, $job, 'completed');
	is(query($server, 'credit', "SELECT step FROM gpucredit.checkpoint WHERE job = $job"), 3, 'the last word is read');

	# Many in a row: the keeper still hears that the job must stop.
	$job = submit($cluster, '1xT4', q{echo w > $OUT/ck; touch $OUT/up; trap '' TERM; perl -e '$|=1; open my $o, ">&=3"; for ($i = 0;; $i++) { syswrite $o, "checkpoint $i $ENV{OUT}/ck\n" }'});
	wait_for('it floods', 20, sub { -e "$cluster->{submitted}{$job}/up" });
	sleep(1);
	my $told = time();
	query($server, 'credit', "SELECT gpucredit.cancel('acme', $job, 'c$job')");
	wait_for_state($cluster, $job, 'cancelled');
	cmp_ok(time() - $told, '<', 20, 'a flood of checkpoints does not delay the end');
	return;
}

# SIGUSR1 means save only to a job that says so.
sub signals
{
	my ($n) = @_;
	my $uses = q{trap 'echo told >> $OUT/told; exit 0' USR1; touch $OUT/up; while [ ! -e $OUT/go ]; do sleep 0.1; done; sleep 0.3};
	my @jobs = (
		submit($cluster, '0', $uses, checkpoint_every => 1, no_lock => 1),
		submit($cluster, '0', $uses, checkpoint_every => 1, checkpoint_signal => 'USR1', no_lock => 1),
		submit($cluster, '0', $uses =~ s/USR1/USR2/r, checkpoint_every => 1, checkpoint_signal => 'SIGUSR2', no_lock => 1));
	my $bad = submit($cluster, '0', 'true', checkpoint_signal => 'KILL', no_lock => 1, args => ', max_retries => 0');

	wait_for('those that asked are told', 20,
		sub { -e "$cluster->{submitted}{$jobs[1]}/told" && -e "$cluster->{submitted}{$jobs[2]}/told" });
	append_to_file("$cluster->{submitted}{$jobs[0]}/go", '');
	wait_for_state($cluster, $_, 'completed') foreach @jobs;
	ok(!-e "$cluster->{submitted}{$jobs[0]}/told", 'a program that traps USR1 for itself gets none');
	wait_for_state($cluster, $bad, 'failed');
	like(job_row($cluster, $bad, 'message'), qr/checkpoint_signal/, 'no other signal can be asked for');
	return;
}
