# crash.pl: the agent, a keeper, or both are killed at every step; each job
# runs, not twice at once, and is billed for its run time

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use PostgreSQL::Test::Utils;
use POSIX ();
use Test::More;

my $cluster = cluster('crash', "gpucredit.node_suspect = '60s'");
my $n1      = add_node($cluster, 'n1', 2);

# The agent dies: its jobs go on, and the next agent takes them over.
my $job = submit($cluster, '1xT4', q{echo x >> $OUT/runs; sleep 3});
wait_for('it runs', 20, sub { -e "$cluster->{submitted}{$job}/runs" });
kill_agent($n1);
sleep(1);
start_agent($n1);
wait_for_state($cluster, $job, 'completed');
is(slurp_file("$cluster->{submitted}{$job}/runs"), "x\n", 'the job whose agent was killed ran once');
bill_is_fair($cluster, $job, 1, 3);

# A job ends while there is no agent.
$job = submit($cluster, '1xT4', q{echo x >> $OUT/runs; sleep 1});
wait_for('it runs', 20, sub { -e "$cluster->{submitted}{$job}/runs" });
kill_agent($n1);
wait_for('it ends', 20, sub { -e attempt_dir($n1, $job, 1) . '/gone' });
start_agent($n1);
wait_for_state($cluster, $job, 'completed');
bill_is_fair($cluster, $job, 1, 1);

# The keeper dies: its processes are ended, and the job runs again.
$job = submit($cluster, '1xT4',
	q{echo x >> $OUT/runs; (setsid sleep 777 &); sleep 2});
wait_for('it runs', 20, sub { -e "$cluster->{submitted}{$job}/runs" });
kill('KILL', keeper_pid($n1, $job, 1));
wait_for_state($cluster, $job, 'completed');
is(slurp_file("$cluster->{submitted}{$job}/runs"),
	"x\nx\n", 'a second attempt ran');
is(job_row($cluster, $job, 'attempt'), '2', 'the job whose keeper was killed completed in its second attempt');

# Both die.
$job = submit($cluster, '1xT4', q{echo x >> $OUT/runs; sleep 2});
wait_for('it runs', 20, sub { -e "$cluster->{submitted}{$job}/runs" });
my $keeper = keeper_pid($n1, $job, 1);
kill_agent($n1);
kill('KILL', $keeper);
start_agent($n1);
wait_for_state($cluster, $job, 'completed');
is(slurp_file("$cluster->{submitted}{$job}/runs"),
	"x\nx\n", 'a second attempt ran');

# The machine restarts: all its processes are gone, whatever the state folder
# says.
$job = submit($cluster, '1xT4', q{echo x >> $OUT/runs; sleep 2});
wait_for('it runs', 20, sub { -e "$cluster->{submitted}{$job}/runs" });
$keeper = keeper_pid($n1, $job, 1);
kill_agent($n1);
kill('KILL', $keeper, processes_of_attempt($job, 1));
$ENV{GPUCREDIT_BOOT_ID} = 'another';
start_agent($n1);
wait_for_state($cluster, $job, 'completed');
is(job_row($cluster, $job, 'attempt'), '2', 'the job whose machine restarted completed in its second attempt');
is(query($cluster->{server}, 'credit',
		"SELECT outcome FROM gpucredit.attempt WHERE job = $job AND attempt = 1"),
	'node_lost', 'the first attempt was lost with the machine');

# An agent of the previous boot is refused, and ends.
end_agent($n1);
start_agent($n1, GPUCREDIT_BOOT_ID => '');
wait_for('an agent of an earlier boot ends itself', 20,
	sub { waitpid($n1->{pid}, POSIX::WNOHANG()) == $n1->{pid} });
like(agent_log($n1), qr/event=superseded/, 'an agent of an earlier boot says why it ends itself');
start_agent($n1);

# Every step in turn.  Both the agent and the keeper read the point at which to
# die.
foreach my $point (
	qw(intent start keeper-lock main exec exit gone settle answer settled))
{
	end_agent($n1);
	# so many failed starts would drain the node
	query($cluster->{server}, 'credit', q{SELECT gpucredit.resume('n1')});
	$job = submit($cluster, '1xT4', q{echo x >> $OUT/runs; sleep 1});
	start_agent($n1, GPUCREDIT_CRASH_AT => $point);
	wait_for("$point: somebody died there", 20,
		sub { reached($n1, $job, $point) });
	kill_agent($n1);
	start_agent($n1);
	wait_for_state($cluster, $job, 'completed');
	my $runs = -e "$cluster->{submitted}{$job}/runs"
	  ? length(slurp_file("$cluster->{submitted}{$job}/runs")) / 2 : 0;
	my $attempts = job_row($cluster, $job, 'attempt');

	cmp_ok($runs, '<=', $attempts, "$point: no attempt ran twice ($runs of $attempts)");
	cmp_ok($runs, '>=', 1, "$point: it ran");
	bill_is_fair($cluster, $job, 1, 1);
}

# A keeper alone dies at each of its steps, and its agent sees that.
end_agent($n1);
my $n3 = add_node($cluster, 'n3', 5, stopped => 1);
my @points = qw(keeper-lock main exec exit gone);
my $real = ($ENV{GC_AGENT_BIN} || "$FindBin::RealBin/../../agent") . '/gpucredit-keeper';
$n3->{keeper} = "$n3->{folder}/keeper";
append_to_file($n3->{keeper}, qq{#!/bin/sh
for point in @points; do
	mkdir $n3->{folder}/\$point 2>/dev/null && { GPUCREDIT_CRASH_AT=\$point exec $real "\$\@"; }
done
exec $real "\$\@"
});
chmod 0755, $n3->{keeper};
query($cluster->{server}, 'credit', q{SELECT gpucredit.drain('n1', 'test')});
my %runs = map { submit($cluster, '1xT4', q{echo x >> $OUT/runs; sleep 1}) => $_ } @points;
start_agent($n3);
foreach my $one (sort { $a <=> $b } keys %runs)
{
	wait_for_state($cluster, $one, 'completed');
	my $attempts = job_row($cluster, $one, 'attempt');

	cmp_ok(length(slurp_file("$cluster->{submitted}{$one}/runs")) / 2, '<=', $attempts, 'no attempt ran twice');
	bill_is_fair($cluster, $one, 1, 1);
}
is(scalar(grep { -d "$n3->{folder}/$_" } @points), 5, 'a keeper died at each step');
end_agent($n3);
query($cluster->{server}, 'credit', q{SELECT gpucredit.drain('n3', 'test')});

# A node that can start nothing does not consume the whole queue: it is drained
# after three jobs, and they run elsewhere.
end_agent($n1);
query($cluster->{server}, 'credit', q{SELECT gpucredit.resume('n1')});
my $n2 = add_node($cluster, 'n2', 1);
$n1->{keeper} = '/nowhere/gpucredit-keeper';
start_agent($n1);
my @jobs = map { submit($cluster, '1xT4', 'sleep 2') } 1 .. 5;	# n2 is busy meanwhile
wait_for_state($cluster, $_, 'completed', 60) foreach @jobs;
is(query($cluster->{server}, 'credit',
		q{SELECT state FROM gpucredit.nodes WHERE node = 'n1'}),
	'draining', 'a node that starts nothing drains itself')
  or diag(agent_log($n1));
delete $n1->{keeper};
end_cluster($cluster);
done_testing();

# Has the process died at this point?
sub reached
{
	my ($n, $job, $point) = @_;

	return 1 if waitpid($n->{pid}, POSIX::WNOHANG()) == $n->{pid};
	return $point =~ /^(keeper-lock|main|exec|exit|gone)$/
	  && -e attempt_dir($n, $job, 1) . '/lock'
	  && !keeper_pid($n, $job, 1);
}
