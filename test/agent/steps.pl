# steps.pl: a script runs once, on its first node, and starts steps on all

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use PostgreSQL::Test::Utils;
use Test::More;

my $cluster = cluster('steps');
my $server  = $cluster->{server};
my @nodes   = map {
	add_node($cluster, "n$_", 2, conf => [ "address = 127.0.0.$_", 'listen = yes' ])
} 1 .. 2;
wait_for_addresses($cluster, 2);
my %once = (launch => 'once', no_lock => 1, args => ', max_retries => 0');

# The script runs on the first node alone; steps run on both.
my $job = submit($cluster, '4xT4', q{
echo "$SLURM_NNODES $SLURM_JOB_NODELIST $SLURM_NTASKS ${RANK-none}" >> $OUT/script
srun bash -c 'echo "$SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES $RANK/$WORLD_SIZE"' > $OUT/tasks
srun -n 4 --gpus-per-task=1 -l bash -c 'echo $CUDA_VISIBLE_DEVICES' > $OUT/gpus
srun -n 3 bash -c 'exit $((SLURM_PROCID * 3))'; echo $? > $OUT/code
srun -n 1 bash -c 'kill -9 $$'; echo $? > $OUT/signal
echo word | srun -l cat > $OUT/input
scontrol show hostnames > $OUT/hosts
srun nothing-of-this-name; echo $? > $OUT/missing
srun --pty bash 2> $OUT/refused; echo $? >> $OUT/refused
for i in 1 2 3 4 5 6; do srun -Q -n 1 --gpus=1 bash -c 'exec 9<>$GPUCREDIT_DEVICES; flock -n 9 || echo taken; sleep 0.3' & done > $OUT/side 2> /dev/null
wait
true}, %once);
my $out = $cluster->{submitted}{$job};
wait_for_state($cluster, $job, 'completed', 60);
is(slurp_file("$out/script"), "2 n1,n2 2 none\n", 'the script runs once');
is(sorted("$out/tasks"), "0 0 0 n1 GPU-n1-0,GPU-n1-1 0/2\n1 0 1 n2 GPU-n2-0,GPU-n2-1 1/2\n", 'a task on each node knows its place');
is(sorted("$out/gpus"), "0: GPU-n1-0\n1: GPU-n1-1\n2: GPU-n2-0\n3: GPU-n2-1\n", 'each task has its own device');
is(slurp_file("$out/code"), "6\n", 'the highest exit code is the step\'s');
is(slurp_file("$out/signal"), "137\n", 'and a signal is one');
is(sorted("$out/input"), "0: word\n1: word\n", 'standard input goes to all tasks');
is(slurp_file("$out/hosts"), "n1\nn2\n", 'the names of the nodes');
is(slurp_file("$out/missing"), "127\n", 'a program that is not there');
like(slurp_file("$out/refused"), qr/"--pty" is not supported: .*\n1\n/, 'what is not there is refused');
is(slurp_file("$out/side"), '', 'no two steps have one device at once');
bill_is_fair($cluster, $job, 4, undef, 2);
is(query($server, 'credit', "SELECT string_agg(outcome, ' ' ORDER BY rank) FROM gpucredit.attempt_part WHERE job = $job"),
	'completed completed', 'both parts have completed');

# A script that fails has failed, on all nodes, and is not started again.
$job = submit($cluster, '4xT4', 'echo x >> $OUT/ran; exit 3', %once);
wait_for_state($cluster, $job, 'failed');
is(job_row($cluster, $job, "attempt || ' ' || exit_code"), '1 3', 'a program that failed is not started again');
is(slurp_file("$cluster->{submitted}{$job}/ran"), "x\n", 'it ran once');

# Agents are killed and start again while a step runs: it runs once.
$job = submit($cluster, '4xT4', q{srun bash -c 'echo x >> $OUT/ran$SLURM_PROCID; sleep 3; echo y >> $OUT/ran$SLURM_PROCID'}, %once);
$out = $cluster->{submitted}{$job};
wait_for('the step runs', 30, sub { -e "$out/ran0" && -e "$out/ran1" });
foreach my $n (@nodes)
{
	kill_agent($n);
	start_agent($n);
}
wait_for_state($cluster, $job, 'completed', 60);
is(slurp_file("$out/ran$_"), "x\ny\n", "task $_ ran once") foreach 0, 1;

# srun is killed: so are its tasks, on both nodes.
$job = submit($cluster, '4xT4', q{
srun bash -c 'echo $$ > $OUT/pid$SLURM_PROCID; exec sleep 600' &
until [ -s $OUT/pid0 ] && [ -s $OUT/pid1 ]; do sleep 0.1; done
kill -9 $!
sleep 1
kill -0 $(cat $OUT/pid0) || kill -0 $(cat $OUT/pid1) || touch $OUT/gone
true}, %once);
wait_for_state($cluster, $job, 'completed', 60);
ok(-e "$cluster->{submitted}{$job}/gone", 'the tasks of a dead srun are gone');

# The keeper of another node is killed: the whole job runs again.
$job = submit($cluster, '4xT4', q{srun bash -c 'echo x >> $OUT/ran$SLURM_PROCID; sleep 2'}, %once);
$out = $cluster->{submitted}{$job};
wait_for('the step runs', 30, sub { -e "$out/ran0" && -e "$out/ran1" });
kill('KILL', keeper_pid($nodes[1], $job, 1));
wait_for_state($cluster, $job, 'completed', 60);
is(slurp_file("$out/ran1"), "x\nx\n", 'the platform\'s failure is made good without being asked');

end_cluster($cluster);
done_testing();

sub sorted
{
	return join('', sort(split(/^/, slurp_file($_[0]))));
}
