# signals.pl: a signal that somebody sends to a running job reaches the
# processes that are meant, once

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use PostgreSQL::Test::Utils;
use Test::More;

# What the agent ignores, its jobs do not.
$SIG{HUP} = 'IGNORE';
my $cluster = cluster('signals');
my $server  = $cluster->{server};
my @nodes   = map {
	add_node($cluster, "n$_", 2, conf => [ "address = 127.0.0.$_", 'listen = yes' ])
} 1 .. 2;
wait_for_addresses($cluster, 2);
my $sent = 0;

# A process that writes a line for each signal, until the job may end.
sub listener
{
	my ($name) = @_;

	return qq{for s in USR1 USR2 HUP; do trap "echo \$s >> \$OUT/$name" \$s; done; touch \$OUT/ready-$name; until [ -e \$OUT/end ]; do sleep 0.05; done};
}

sub send_signal
{
	my ($job, @arguments) = @_;

	$sent++;
	return query($server, 'credit', "SELECT nodes FROM gpucredit.signal_job('acme', $job, 'signal-$sent', " . join(', ', map { "'$_'" } @arguments) . ')');
}

sub got
{
	my ($job, $name) = @_;
	my $file = "$cluster->{submitted}{$job}/$name";

	return -e $file ? join(' ', split /\n/, slurp_file($file)) : '';
}

sub wait_for_got
{
	my ($job, $name, $expected) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return wait_for("$name gets $expected", 60, sub { got($job, $name) eq $expected }) || diag(got($job, $name));
}

sub wait_for_ready
{
	my ($job, @names) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	wait_for_state($cluster, $job, 'running', 60);
	return wait_for('it runs: ' . join(' ', @names), 60, sub { !grep { !-e "$cluster->{submitted}{$job}/ready-$_" } @names });
}

sub delivered
{
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	return wait_for('the agents have reported that they delivered it', 60, sub { query($server, 'credit', 'SELECT count(*) FROM gpucredit.job_signal') eq '0' });
}

sub end_job
{
	my ($job) = @_;
	local $Test::Builder::Level = $Test::Builder::Level + 1;

	append_to_file("$cluster->{submitted}{$job}/end", '');
	return wait_for_state($cluster, $job, 'completed', 60);
}

# A script, a process that it starts, and the tasks of its step on two nodes
my $job = submit($cluster, '4xT4', 'cat > $OUT/task <<\'EOT\'
' . listener('task$SLURM_PROCID') . '
EOT
cat > $OUT/child.sh <<\'EOT\'
' . listener('child') . '
EOT
srun bash $OUT/task & bash $OUT/child.sh &
' . listener('script') . '
wait', launch => 'once', no_lock => 1, args => ', max_retries => 0');
my @all = qw(script child task0 task1);

wait_for_ready($job, @all);
is(send_signal($job, 'USR1'), '1', 'a signal for the tasks of a step is delivered by the node of the script');
wait_for_got($job, $_, 'USR1') foreach qw(task0 task1);
delivered();
is(send_signal($job, 'USR1'), '1', 'the same signal again');
wait_for_got($job, $_, 'USR1 USR1') foreach qw(task0 task1);
is(send_signal($job, 'USR2', 'script'), '1', 'one for the script alone');
wait_for_got($job, 'script', 'USR2');
is(send_signal($job, 'HUP', 'all'), '2', 'one for all is delivered by both nodes');
wait_for_got($job, 'script', 'USR2 HUP');
wait_for_got($job, 'child',  'HUP');
wait_for_got($job, $_,       'USR1 USR1 HUP') foreach qw(task0 task1);
delivered();

# The agent is killed before it hears of the signal, and just after it was sent.
kill_agent($nodes[0]);
is(send_signal($job, 'USR1', 'script'), '1', 'an agent that is away');
start_agent($nodes[0], GPUCREDIT_CRASH_AT => 'signal');
wait_for_got($job, 'script', 'USR2 HUP USR1');
waitpid($nodes[0]{pid}, 0);
is($? & 127, 9, 'the agent dies once it has sent the signal');
isnt(query($server, 'credit', 'SELECT count(*) FROM gpucredit.job_signal'), '0', 'before it could report that');
start_agent($nodes[0]);
delivered();
end_job($job);
is(got($job, 'script'), 'USR2 HUP USR1', 'the script has each signal once');
is(got($job, 'child'), 'HUP', 'a process that it started has that for all');
is(got($job, $_), 'USR1 USR1 HUP', "and $_ its own and that for all") foreach qw(task0 task1);
like(agent_log($nodes[0]), qr/event=signal attempt=\S+ signal=10 target=steps/, 'the agent\'s log has the signal');

# A job begins with every signal as a login's shell does
$job = submit($cluster, '1xT4', 'grep SigIgn /proc/self/status > $OUT/ignored; grep SigBlk /proc/self/status >> $OUT/ignored', no_lock => 1);
wait_for_state($cluster, $job, 'completed', 60);
is(got($job, 'ignored'), "SigIgn:\t0000000000000000 SigBlk:\t0000000000000000", 'a job\'s program ignores and blocks no signal');

# A program on each node
$job = submit($cluster, '4xT4', 'cat > $OUT/task <<\'EOT\'
' . listener('task$RANK') . '
EOT
exec bash $OUT/task', no_lock => 1, args => ', max_retries => 0');
wait_for_ready($job, qw(task0 task1));
is(send_signal($job, 'USR1'), '2', 'programs on both nodes');
wait_for_got($job, $_, 'USR1') foreach qw(task0 task1);
is(send_signal($job, 'USR2', 'script'), '2', 'each is its node\'s script');
wait_for_got($job, $_, 'USR1 USR2') foreach qw(task0 task1);
delivered();
end_job($job);
is(got($job, $_), 'USR1 USR2', "$_ has each signal once") foreach qw(task0 task1);

# A signal that ends the script: the job has failed, and is billed for what it ran.
$job = submit($cluster, '1xT4', listener('script'), launch => 'once', args => ', max_retries => 0');
wait_for_ready($job, 'script');
send_signal($job, 'TERM', 'script');
wait_for_state($cluster, $job, 'failed', 60);
is(job_row($cluster, $job, 'exit_code'), '143', 'a script that a signal ends has failed');
bill_is_fair($cluster, $job, 1);

end_cluster($cluster);
done_testing();
