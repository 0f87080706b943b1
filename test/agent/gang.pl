# gang.pl: a job on several nodes begins, ends, fails and is billed as one

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use PostgreSQL::Test::Utils;
use Test::More;

my $cluster = cluster('gang');
my $server  = $cluster->{server};
my @nodes   = map {
	add_node($cluster, "n$_", 2, conf => ["address = 127.0.0.$_"])
} 1 .. 2;

# Each rank knows its number, and all know the first node.
my $job = submit($cluster, '4xT4', q{
echo "$RANK of $WORLD_SIZE $MASTER_ADDR:$MASTER_PORT $SLURM_GPUS_ON_NODE" > $OUT/$RANK
sleep 2});
wait_for_state($cluster, $job, 'completed');
my $out = $cluster->{submitted}{$job};
my @said = map { slurp_file("$out/$_") } 0 .. 1;
like($said[0], qr/^0 of 2 127\.0\.0\.1:\d+ 2$/, 'the first rank');
like($said[1], qr/^1 of 2 127\.0\.0\.1:\d+ 2$/, 'the second');
is((split / /, $said[0])[3], (split / /, $said[1])[3], 'and the same first node');
bill_is_fair($cluster, $job, 4, 2);

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
	'failed 2', 'it fails as that rank did');
like(query($server, 'credit', "SELECT string_agg(detail, ' ') FROM gpucredit.history('acme', $job)"),
	qr/rank 1/, 'history names the rank');
bill_is_fair($cluster, $job, 4, 1, 2);

# An agent dies with its rank's keeper: the gang ends, and runs again.
$job = submit($cluster, '4xT4', q{echo x >> $OUT/runs$RANK; sleep 2});
$out = $cluster->{submitted}{$job};
wait_for('both run', 20, sub { -e "$out/runs0" && -e "$out/runs1" });
kill('KILL', keeper_pid($nodes[1], $job, 1));
wait_for_state($cluster, $job, 'completed');
is(slurp_file("$out/runs0"), "x\nx\n", 'both ranks ran again');

# A GPU fails: the job runs again on what is left, if that is enough.
my $n3 = add_node($cluster, 'n3', 2);
$job = submit($cluster, '4xT4', q{echo $CUDA_VISIBLE_DEVICES >> $OUT/on; sleep 3});
$out = $cluster->{submitted}{$job};
wait_for('it runs', 20, sub { -e "$out/on" && slurp_file("$out/on") =~ /\n.*\n/ });
my ($broken) = slurp_file("$out/on") =~ /GPU-(n\d)-0/;
my ($node) = grep { $_->{name} eq $broken } @nodes, $n3;
write_devices($node, 'broken', 'ok');
wait_for_state($cluster, $job, 'completed', 60);
is(job_row($cluster, $job, 'attempt'), '2', 'in a second attempt');
unlike((slurp_file("$out/on") =~ /.*\n.*\n(.*\n.*)\n/)[0],
	qr/GPU-$broken-0/, 'without the broken one');

end_cluster($cluster);
done_testing();
