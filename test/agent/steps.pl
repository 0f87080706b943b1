# steps.pl: a script runs once, on its first node, and starts steps on all

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use PostgreSQL::Test::Utils;
use Test::More;

my $cluster = cluster('steps', "gpucredit.retry_backoff = '1s'");
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
{ srun -l cat && srun -l --input=none cat && srun -l cat < /dev/null && srun -l cat <&- && echo over; } > $OUT/no-input 2>&1
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
is(slurp_file("$out/signal"), "137\n", 'a task that a signal ends makes 128 and the signal the step\'s exit code');
is(sorted("$out/input"), "0: word\n1: word\n", 'standard input goes to all tasks');
is(slurp_file("$out/no-input"), "over\n", 'where there is none, a task that reads it comes to its end');
is(slurp_file("$out/hosts"), "n1\nn2\n", 'the step has the names of the nodes');
is(slurp_file("$out/missing"), "127\n", 'a program that does not exist makes 127 the step\'s exit code');
like(slurp_file("$out/refused"), qr/"--pty" is not supported: .*\n1\n/, 'an option that is not supported is refused');
is(slurp_file("$out/side"), '', 'no two steps have one device at once');
bill_is_fair($cluster, $job, 4, undef, 2);
is(query($server, 'credit', "SELECT string_agg(outcome, ' ' ORDER BY rank) FROM gpucredit.attempt_part WHERE job = $job"),
	'completed completed', 'the parts on both nodes have completed');

# A script that fails has failed, on all nodes, and is not started again.
$job = submit($cluster, '4xT4', 'echo x >> $OUT/ran; exit 3', %once);
wait_for_state($cluster, $job, 'failed');
is(job_row($cluster, $job, "attempt || ' ' || exit_code"), '1 3', 'a program that failed is not started again');
is(slurp_file("$cluster->{submitted}{$job}/ran"), "x\n", 'the script that failed ran once');

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

# sbcast: a file on every node, whole or not at all
$job = submit($cluster, '4xT4', q{
mkdir $OUT/n1 $OUT/n2
head -c 3000000 /dev/urandom > $OUT/data; chmod 750 $OUT/data; touch -d @1000000000 $OUT/data
sbcast -p $OUT/data $OUT/copy -f; echo $? >> $OUT/codes
cmp $OUT/data $OUT/copy && stat -c '%a %Y' $OUT/copy > $OUT/kept
echo old > $OUT/there; sbcast $OUT/data $OUT/there 2>> $OUT/said; echo $? >> $OUT/codes
sbcast -f $OUT/data $OUT/n1/; echo $? >> $OUT/codes
sbcast $OUT/none $OUT/x 2>> $OUT/said; echo $? >> $OUT/codes
sbcast -j 999999 $OUT/data $OUT/x 2>> $OUT/said; echo $? >> $OUT/codes
sbcast -f $OUT/data /nowhere/x 2>> $OUT/said; echo $? >> $OUT/codes
cat $OUT/there > $OUT/still; cmp $OUT/data $OUT/n1/data && touch $OUT/in_folder; ls $OUT | grep '[.]' > $OUT/left
true}, %once);
$out = $cluster->{submitted}{$job};
wait_for_state($cluster, $job, 'completed', 60);
is(slurp_file("$out/kept"), "750 1000000000\n", 'sbcast copies a file to all nodes, with -p its mode and time');
is(slurp_file("$out/still"), "old\n", 'it replaces nothing without -f');
ok(-e "$out/in_folder", 'into a folder under its name');
is(join(' ', split /\n/, slurp_file("$out/codes")), '0 1 0 1 1 1', 'a file that exists, or is missing, another job and a folder that is missing are errors');
like(slurp_file("$out/said"), qr/sbcast: error: n[12]: \S+there exists; -f replaces it.*could not read \S+none: .*--jobid=999999 is another job/s, '... with the reason');
is(slurp_file("$out/left"), '', 'nothing is left of a copy that failed');

# A job has itself run again: from a task on either node, whose program has
# closed the job's descriptor, and from a script that ends at once.
my $closes = q{perl -MPOSIX -e 'POSIX::close($_) for 3 .. 20; exec "scontrol", "requeue", $ENV{SLURM_JOB_ID}'};
foreach my $asks ([ 'a task beside the script', "srun -n 1 $closes; sleep 600" ],
	[ 'a task on another node', "srun -N 2 -n 2 bash -c '[ \$SLURM_PROCID = 0 ] || exec bash \$OUT/asks'; sleep 600" ],
	[ 'a script that then ends with 0', 'scontrol requeue $SLURM_JOB_ID; exit 0' ],
	[ 'a line to its descriptor', 'echo requeue >&3; sleep 600' ])
{
	my ($who, $command) = @$asks;

	$job = submit($cluster, '4xT4', qq{
echo "\$SLURM_JOB_ID run \$SLURM_RESTART_COUNT" >> \$OUT/runs
[ \$SLURM_RESTART_COUNT = 0 ] || exit 0
cat > \$OUT/asks <<'EOT'
$closes
EOT
$command}, %once);
	$out = $cluster->{submitted}{$job};
	wait_for_state($cluster, $job, 'completed', 60);
	is(slurp_file("$out/runs"), "$job run 0\n$job run 1\n", "$who has the job run again under its number");
	is(query($server, 'credit', "SELECT string_agg(outcome, ' ' ORDER BY attempt) || ' ' || (SELECT failures FROM gpucredit.job WHERE job = $job)
		FROM gpucredit.attempt WHERE job = $job"), 'requeued completed 0', '... which is no failure');
}
bill_is_fair($cluster, $job, 4, undef, 2);
$job = submit($cluster, '1xT4', q{
scontrol requeue 999999 2> $OUT/other; echo $? >> $OUT/other
SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=3 scontrol requeue 7_4 2>> $OUT/other; echo $? >> $OUT/other
env -i PATH="$PATH" SLURM_JOB_ID=$SLURM_JOB_ID scontrol requeue $SLURM_JOB_ID 2>> $OUT/other; echo $? >> $OUT/other}, %once);
wait_for_state($cluster, $job, 'completed', 60);
is(slurp_file("$cluster->{submitted}{$job}/other"), qq{scontrol: inside a job, only the job itself can be requeued; "999999" is another one
1
scontrol: inside a job, only the job itself can be requeued; "7_4" is another one
1
scontrol: the job could not be requeued: no process above this one has the job's descriptor (GPUCREDIT_FD)
1
}, 'another job is not requeued, and a command without the job\'s environment fails');

# Its owner has it run again, while its agents are away.
$job = submit($cluster, '1xT4', q{echo x >> $OUT/runs; [ $SLURM_RESTART_COUNT = 0 ] || exit 0; trap 'exit 0' TERM; sleep 600 & wait}, %once);
$out = $cluster->{submitted}{$job};
wait_for('it runs', 30, sub { -s "$out/runs" });
kill_agent($_) foreach @nodes;
is(query($server, 'credit', "SELECT job_state FROM gpucredit.requeue_job('acme', $job, 'again')"), 'stopping', 'a running job is told to stop');
start_agent($_) foreach @nodes;
wait_for_state($cluster, $job, 'completed', 60);
is(slurp_file("$out/runs"), "x\nx\n", 'and runs once more');
is(query($server, 'credit', "SELECT string_agg(outcome || ' ' || exit_code, ', ' ORDER BY attempt) FROM gpucredit.attempt WHERE job = $job"),
	'requeued 0, completed 0', 'though its program ended with 0');

end_cluster($cluster);
done_testing();

sub sorted
{
	return join('', sort(split(/^/, slurp_file($_[0]))));
}
