# gang.pl: a job on several nodes begins, ends, fails and is billed as one

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use IO::Socket::INET;
use PostgreSQL::Test::Utils;
use Test::More;

my $cluster = cluster('gang');
my $server  = $cluster->{server};
my @nodes   = map {
	add_node($cluster, "n$_", 2, stop_grace_ms => 20_000, conf => ["address = 127.0.0.$_"])
} 1 .. 2;

wait_for_addresses($cluster, 2);

# Each rank knows its number, and all know the first node.
my $job = submit($cluster, '4xT4', q{
echo "$RANK of $WORLD_SIZE $MASTER_ADDR:$MASTER_PORT $SLURM_GPUS_ON_NODE" > $OUT/$RANK
sleep 2});
wait_for_state($cluster, $job, 'completed');
my $out = $cluster->{submitted}{$job};
my @said = map { slurp_file("$out/$_") } 0 .. 1;
like($said[0], qr/^0 of 2 127\.0\.0\.1:\d+ 2$/, 'the first rank knows its place and the gang\'s first node');
like($said[1], qr/^1 of 2 127\.0\.0\.1:\d+ 2$/, 'the second rank knows its place and the gang\'s first node');
is((split / /, $said[0])[3], (split / /, $said[1])[3], 'both ranks know the same first node and port');
bill_is_fair($cluster, $job, 4, 2);

# A process for each GPU: their ranks count through, also where a node has
# fewer; the job ends with the last, or with the first that fails.
$job = submit($cluster, '3xT4', q{
echo "$WORLD_SIZE $LOCAL_WORLD_SIZE $LOCAL_RANK $SLURM_PROCID/$SLURM_NTASKS $SLURM_LOCALID $NODE_RANK" > $OUT/up$RANK
[ $RANK != 0 ] || echo "out of $RANK"
while [ ! -e $OUT/go ]; do sleep 0.05; done
sleep $RANK}, launch => 'per_gpu', no_lock => 1);
$out = $cluster->{submitted}{$job};
wait_for('each GPU has its process', 20, sub { 3 == glob_count("$out/up*") });
is(join('', map { slurp_file("$out/up$_") } 0 .. 2),
	"3 2 0 0/3 0 0\n3 2 1 1/3 1 0\n3 1 0 2/3 0 1\n", 'each process of a GPU knows its place');
append_to_file("$out/go", '');
wait_for_state($cluster, $job, 'completed');
like(slurp_file(attempt_dir($nodes[0], $job, 1) . '/stdout'), qr/^out of 0$/, 'the output of processes of GPUs arrives');
bill_is_fair($cluster, $job, 3, 2, 2);
foreach my $how (qw(fails cancelled))
{
	$job = submit($cluster, '2xT4', q{
trap 'echo bye > $OUT/bye$RANK; exit 7' TERM
touch $OUT/up$RANK
while [ ! -e $OUT/go$RANK ]; do sleep 0.05; done
exit 9}, launch => 'per_gpu', no_lock => 1, args => ', max_retries => 0');
	$out = $cluster->{submitted}{$job};
	wait_for('both run', 20, sub { 2 == glob_count("$out/up*") });
	if ($how eq 'fails')
	{
		append_to_file("$out/go1", '');
		wait_for_state($cluster, $job, 'failed');
		is(job_row($cluster, $job, 'exit_code'), 9, 'a process of a GPU that fails ends all, with its code');
	}
	else
	{
		query($server, 'credit', "SELECT gpucredit.cancel('acme', $job, 'c$job')");
		wait_for_state($cluster, $job, 'cancelled');
		is(glob_count("$out/bye*"), 2, 'told to stop, each may clean up');
	}
}
$job = submit($cluster, '1xT4', 'true', launch => 'per_hour', args => ', max_retries => 0');
wait_for_state($cluster, $job, 'failed');
like(job_row($cluster, $job, 'message'), qr/"launch" is once, per_node or per_gpu/, 'another word for "launch" is refused');

# The port is taken: a job on one node has the next, a gang is started again
# with another.
my ($single, $wide) = ($job + 1, $job + 2);
my @taken = map { IO::Socket::INET->new(Listen => 1, LocalPort => port($_)) } $single, $wide;
is(submit($cluster, '1xT4', 'echo $MASTER_PORT > $OUT/port'), $single, 'the job of one node has the number that was reckoned with');
wait_for_state($cluster, $single, 'completed');
is(slurp_file("$cluster->{submitted}{$single}/port"), port($single) + 1 . "\n", 'a job of one node whose port is taken has the next port');
is(submit($cluster, '4xT4', 'echo $MASTER_PORT > $OUT/port$RANK'), $wide, 'the gang has the number that was reckoned with');
wait_for_state($cluster, $wide, 'completed');
is(query($server, 'credit', "SELECT outcome || ' ' || message FROM gpucredit.attempt WHERE job = $wide AND attempt = 1"),
	'not_started MASTER_PORT ' . port($wide) . ' of this node is taken', 'a gang whose port is taken on its first node is not started there');
is(slurp_file("$cluster->{submitted}{$wide}/port$_"), port($wide) + 1 . "\n", 'the gang is started with another port')
  foreach 0, 1;
close($_) foreach @taken;

# One rank ends later than the other: the whole gang is billed until then.
$job = submit($cluster, '4xT4', q{sleep $((1 + RANK * 2))});
wait_for_state($cluster, $job, 'completed');
bill_is_fair($cluster, $job, 4, 3);

# A rank fails: the others are stopped at once, and the failed rank is
# recorded.
$job = submit($cluster, '4xT4', q{
echo up > $OUT/up$RANK
[ $RANK = 0 ] || { sleep 1; echo "rank one broke" >&2; exit 2; }
exec sleep 600});
wait_for_state($cluster, $job, 'failed', 20);
is(job_row($cluster, $job, "outcome || ' ' || exit_code"),
	'failed 2', 'the gang fails with the exit code of the rank that failed');
like(query($server, 'credit', "SELECT string_agg(detail, ' ') FROM gpucredit.history('acme', $job)"),
	qr/rank 1/, 'history names the rank');
bill_is_fair($cluster, $job, 4, 1, 2);

# An agent dies with its rank's keeper: the gang ends, and runs again.
$job = submit($cluster, '4xT4', q{echo x >> $OUT/runs$RANK; sleep 2});
$out = $cluster->{submitted}{$job};
wait_for('both run', 20, sub { -e "$out/runs0" && -e "$out/runs1" });
kill('KILL', keeper_pid($nodes[1], $job, 1));
wait_for_state($cluster, $job, 'completed');
is(slurp_file("$out/runs0"), "x\nx\n", 'both ranks ran again after one was killed');

# A GPU fails: the job runs again on what is left, if that is enough.
my $n3 = add_node($cluster, 'n3', 2);
$job = submit($cluster, '4xT4', q{echo $CUDA_VISIBLE_DEVICES >> $OUT/on; sleep 3});
$out = $cluster->{submitted}{$job};
wait_for('it runs', 20, sub { -e "$out/on" && slurp_file("$out/on") =~ /\n.*\n/ });
my ($broken) = slurp_file("$out/on") =~ /GPU-(n\d)-0/;
my ($node) = grep { $_->{name} eq $broken } @nodes, $n3;
write_devices($node, 'broken', 'ok');
wait_for_state($cluster, $job, 'completed', 60);
is(job_row($cluster, $job, 'attempt'), '2', 'the gang with the broken device completes in a second attempt');
unlike((slurp_file("$out/on") =~ /.*\n.*\n(.*\n.*)\n/)[0],
	qr/GPU-$broken-0/, 'the second attempt does not have the broken device');

end_cluster($cluster);
done_testing();

sub glob_count
{
	my @found = glob($_[0]);

	return scalar(@found);
}

# The port of a job's first attempt.
sub port
{
	my ($number) = @_;

	return 20000 + ($number * 31 + 1) % 12000;
}
