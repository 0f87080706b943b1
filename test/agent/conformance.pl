# conformance.pl: one test for each rule of docs/agents.md, for any agent:
# tools/agent-conformance COMMAND
#
# The command runs in a shell, in the foreground, once for each node, and again
# after it was killed.  Its environment has what an agent needs:
#
#   GPUCREDIT_DATABASE   a libpq connection string
#   GPUCREDIT_NODE       the node's name
#   GPUCREDIT_NODE_KEY   a file with the node's key
#   GPUCREDIT_STATE      a folder of its own, which outlives it
#   GPUCREDIT_DEVICES    a file, a line each: UUID MEMORY_MIB ok|broken PATH,
#                        replaced when one breaks
#   GPUCREDIT_CONFIG     all of this as gpucredit-agent(8) reads it
#
# It calls heartbeat at least each second.  A job's spec has "script", a text
# that begins with #!, and "env", an object.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use Digest::SHA 'sha256_hex';
use GpuCredit;
use GpuCreditAgent;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep time);

$ENV{GC_AGENT_COMMAND} ||=
  'exec ' . ($ENV{GC_AGENT_BIN} || "$FindBin::RealBin/../../agent") . '/gpucredit-agent $GPUCREDIT_CONFIG';
my $cluster = cluster('conformance', "gpucredit.node_lost = '8s'", "gpucredit.node_suspect = '3s'");
my $server  = $cluster->{server};
my %n       = map { $_ => node($_) } qw(n1 n2);

# Who it is
start_agent($_) foreach values %n;
wait_for('it proves its node by the key', 15, sub { about('n1', 'boot_id') ne '' && about('n2', 'boot_id') ne '' });
my $boot = slurp_file('/proc/sys/kernel/random/boot_id');
chomp $boot;
is(about('n1', 'boot_id'), $boot, 'the agent tells the boot_id of the machine');
my $incarnation = about('n1', 'incarnation');
like($incarnation, qr/^\d+$/, 'the agent counts its starts');
my @heard = map { sleep(0.5); heard('n1') } 1 .. 8;
cmp_ok((sort { $b <=> $a } @heard)[0], '<', 3, 'the agent calls heartbeat at least every node_suspect');

# The loop: how jobs end
my $job = submit($cluster, '2xT4', 'echo $CUDA_VISIBLE_DEVICES > $OUT/devices; sleep 2', no_lock => 1);
wait_for_state($cluster, $job, 'running');
wait_for('it meters 0 once a job runs', 10, sub { job_row($cluster, $job, 'running_at IS NOT NULL') eq 't' });
is(query($server, 'credit', q{SELECT bool_and(tells_running) FROM gpucredit.node}), 't', 'the agent tells what runs');
wait_for_state($cluster, $job, 'completed');
is(job_row($cluster, $job, 'exit_code'), '0', 'exit 0 is completed');
bill_is_fair($cluster, $job, 2, 2);
my $devices = text_of("$cluster->{submitted}{$job}/devices");
like($devices, qr/^GPU-n\d-\d,GPU-n\d-\d$/, 'a job knows its GPUs by UUID');
$job = submit($cluster, '1xT4', 'echo "last words" >&2; exit 3', no_lock => 1, args => ', max_retries => 0');
wait_for_state($cluster, $job, 'failed');
is(job_row($cluster, $job, "exit_code || ' ' || (message LIKE '%last words%')"), '3 true', 'an exit code other than 0 is settled as failed, with the code and the last lines');
$job = submit($cluster, '1xT4', 'kill -SEGV $$', no_lock => 1, args => ', max_retries => 0');
wait_for_state($cluster, $job, 'failed');
is(job_row($cluster, $job, 'exit_code'), '139', 'a signal is 128 and it');
$job = submit($cluster, '1xT4', '', script => "#!/no/such/program\n");
wait_for_state($cluster, $job, 'failed');
is(job_row($cluster, $job, 'exit_code'), '127', 'a command that is not there is failed, 127');

# Told to stop, and to leave
$job = endless('n1');
cancel($job);
wait_for_state($cluster, $job, 'cancelled');
is(job_row($cluster, $job, 'outcome'), 'cancelled', 'an attempt that is told to stop for cancel() is settled as cancelled');
stands_still($job, 'the processes of a cancelled attempt are gone');
$job = endless('n1');
query($server, 'credit', q{SELECT gpucredit.drain('n1', 'conformance', now() + interval '2 s')});
wait_for('what is told to leave is gone by the deadline', 15, sub { job_row($cluster, $job, "attempt || ' ' || outcome") =~ /preempted/ || job_row($cluster, $job, 'attempt') > 1 });
is(query($server, 'credit', "SELECT outcome FROM gpucredit.attempt WHERE org = 'acme' AND job = $job AND attempt = 1"), 'preempted', 'an attempt that is told to leave is settled as preempted');
cancel($job);
wait_for_state($cluster, $job, 'cancelled');
query($server, 'credit', q{SELECT gpucredit.resume('n1')});

# A device that breaks
$job = submit($cluster, '4xT4', ticking(), no_lock => 1);
wait_for_state($cluster, $job, 'running');
my ($node) = split / /, query($server, 'credit', "SELECT node FROM gpucredit.attempt_gpu WHERE org = 'acme' AND job = $job");
$node ||= 'n1';
write_devices($n{$node}, qw(ok broken ok ok));
wait_for('a device that broke is out of healthy', 15, sub { query($server, 'credit', "SELECT healthy FROM gpucredit.node WHERE node = '$node'") eq '{0,2-3}' });
wait_for('what had it has ended', 15, sub { place($cluster); query($server, 'credit', "SELECT ended_at IS NOT NULL FROM gpucredit.attempt WHERE org = 'acme' AND job = $job AND attempt = 1") eq 't' });
write_devices($n{$node}, qw(ok ok ok ok));
cancel($job);
wait_for_state($cluster, $job, 'cancelled');
wait_for('it is back once it works', 15, sub { query($server, 'credit', "SELECT healthy FROM gpucredit.node WHERE node = '$node'") eq '{0-3}' });

# Gangs
$job = submit($cluster, '8xT4', 'echo "$NNODES $NODE_RANK $MASTER_ADDR" > $OUT/rank$NODE_RANK; sleep 1', no_lock => 1);
wait_for_state($cluster, $job, 'completed');
is(query($server, 'credit', "SELECT count(*) FROM gpucredit.attempt_part WHERE org = 'acme' AND job = $job AND outcome = 'completed' AND gone"), '2', 'each node tells the end of its part');
$job = submit($cluster, '8xT4', 'if [ $NODE_RANK = 1 ]; then sleep 1; exit 5; fi; ' . ticking(), no_lock => 1, args => ', max_retries => 0');
wait_for_state($cluster, $job, 'failed');
is(job_row($cluster, $job, 'exit_code'), '5', 'the attempt has the exit code of the part that failed');
stands_still($job, 'the other parts of an attempt with a failed part are stopped');

# After a restart of the agent
$job = submit($cluster, '1xT4', ticking(30), no_lock => 1);
wait_for_state($cluster, $job, 'running');
my $ended = submit($cluster, '1xT4', 'echo begun >> $OUT/begun; sleep 1; exit 7', no_lock => 1, args => ', max_retries => 0');
wait_for('both run', 20, sub { place($cluster); ticks($job) > 0 && -e "$cluster->{submitted}{$ended}/begun" });
kill_agent($_) foreach values %n;
sleep(1.5);
my $ticks = ticks($job);
start_agent($_) foreach values %n;
wait_for_state($cluster, $ended, 'failed');
is(job_row($cluster, $ended, 'exit_code'), '7', 'what ended meanwhile is settled with its exit code');
is(text_of("$cluster->{submitted}{$ended}/begun"), "begun\n", 'what has ended is not started again');
wait_for('it has a new incarnation', 15, sub { about('n1', 'incarnation') > $incarnation });
wait_for_state($cluster, $job, 'completed', 60);
is(job_row($cluster, $job, 'attempt'), '1', 'what runs goes on');
is(text_of("$cluster->{submitted}{$job}/begun"), "begun\n", 'the attempt that runs beyond a restart of its agent was started once');

# Fencing
$job = endless('n1');
$server->stop('immediate');
sleep(4.8);
stands_still($job, 'without an answer for half of node_lost nothing runs');
$server->start;
wait_for('once the database is back it is settled or goes on', 30,
	sub { place($cluster); my $was = ticks($job); sleep(0.3); ticks($job) > $was || job_row($cluster, $job, 'attempt') > 1 });
cancel($job);
wait_for_state($cluster, $job, 'cancelled');

# Output, if the agent says that it serves it
SKIP:
{
	skip 'it serves no output', 1 if about('n1', 'logs') ne 'true';
	$job = submit($cluster, '1xT4', 'echo to be read', no_lock => 1);
	wait_for_state($cluster, $job, 'completed');
	wait_for('it answers who asks for output', 15,
		sub { query($server, 'credit', "SELECT convert_from(body, 'UTF8') = E'to be read\\n' FROM gpucredit.log_wish('acme', $job)") eq 't' });
}

# A second agent for the node
$job = endless('n1');
kill_agent($n{n1});
query($server, 'credit', qq{SELECT FROM gpucredit.heartbeat('n1', running => ARRAY['acme/$job/1'], about => '{"boot_id": "$boot", "incarnation": 1000000}')});
start_agent($n{n1});
my $gone = 0;
wait_for('an agent of before ends itself', 10, sub { $gone ||= waitpid($n{n1}{pid}, POSIX::WNOHANG()) > 0 });
my $was = ticks($job);
sleep(0.5);
cmp_ok(ticks($job), '>', $was, 'an agent of before that ends itself ends nothing that runs');
query($server, 'credit', q{UPDATE gpucredit.node SET about = about || '{"incarnation": 0}' WHERE node = 'n1'});
delete $n{n1}{pid} if $gone;
start_agent($n{n1});
cancel($job);
wait_for_state($cluster, $job, 'cancelled');

end_cluster($cluster);
done_testing();

# A node with a key of its own.
sub node
{
	my ($name) = @_;
	my $n = add_node($cluster, $name, 4, stopped => 1, conf => [ 'address = 127.0.0.1', 'listen = yes' ]);
	my $key = "key of $name";

	append_to_file("$n->{folder}/key", $key);
	chmod 0600, "$n->{folder}/key";
	push @{ $n->{conf} }, "node_key = $n->{folder}/key";
	my $sha = sha256_hex($key);
	query($server, 'credit', "SELECT gpucredit.set_node_key('$name', decode('$sha', 'hex'))");
	unless (query($server, 'credit', q{SELECT count(*) FROM pg_roles WHERE rolname = 'conforming'}))
	{
		query($server, 'credit', 'CREATE ROLE conforming LOGIN IN ROLE gpucredit_agent');
	}
	$n->{database} = sprintf('host=%s port=%s dbname=credit user=conforming', $server->host, $server->port);
	return $n;
}

# A file of a job, which an agent that breaks a rule may not have run.
sub text_of
{
	my ($file) = @_;

	return -e $file ? slurp_file($file) : '';
}

sub about
{
	my ($node, $word) = @_;

	return query($server, 'credit', "SELECT coalesce(about ->> '$word', '') FROM gpucredit.node WHERE node = '$node'");
}

# How long it has been silent.
sub heard
{
	my ($node) = @_;

	return query($server, 'credit', "SELECT date_part('epoch', now() - heard_at) FROM gpucredit.node WHERE node = '$node'");
}

# A script that shows all the time that it runs.
sub ticking
{
	my ($n) = @_;

	return 'echo begun >> $OUT/begun; i=0; while [ $i -lt ' . ($n || 100000) . ' ]; do echo $i >> $OUT/ticks; sleep 0.1; i=$((i + 1)); done';
}

sub ticks
{
	my ($job) = @_;
	my $file = "$cluster->{submitted}{$job}/ticks";

	return -e $file ? -s $file : 0;
}

# A job that runs on a node until it is ended.
sub endless
{
	my ($node) = @_;
	my @others = grep { $_ ne $node } keys %n;

	query($server, 'credit', "SELECT gpucredit.drain('$_', 'conformance')") foreach @others;
	my $job = submit($cluster, '1xT4', ticking(), no_lock => 1);

	wait_for_state($cluster, $job, 'running');
	wait_for('it runs', 10, sub { ticks($job) > 0 });
	query($server, 'credit', "SELECT gpucredit.resume('$_')") foreach @others;
	return $job;
}

sub stands_still
{
	my ($job, $what) = @_;
	my $was = ticks($job);

	sleep(0.5);
	is(ticks($job), $was, $what);
	return;
}

sub cancel
{
	my ($job) = @_;

	query($server, 'credit', "SELECT gpucredit.cancel('acme', $job, 'cancel-$job')");
	return;
}
