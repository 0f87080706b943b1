# checkpoint.pl: a job goes on from its last checkpoint, but never from a
# changed one

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use PostgreSQL::Test::Utils;
use Test::More;

my $cluster = cluster('checkpoint');
my $server  = $cluster->{server};
my $n1      = add_node($cluster, 'n1', 1);

# counts to ten, saves at each third number, and fails once at the fifth
my $counts = q{
at=${RESUME_STEP:-0}
echo "from $at ${RESUME_FROM##*/}" >> $OUT/began
while [ $at -lt 10 ]; do
	at=$((at + 1))
	echo $at >> $OUT/steps
	echo "progress $at" >&3
	if [ $((at % 3)) = 0 ]; then
		echo "weights $at" > $OUT/save-$at
		echo "checkpoint $at $OUT/save-$at" >&3
	fi
	sleep 0.3
	if [ $at = 5 ] && [ ! -e $OUT/broke ]; then
		touch $OUT/broke
		echo "NCCL error" >&2
		exit 1
	fi
done
};
my $job = submit($cluster, '1xT4', $counts);
my $out = $cluster->{submitted}{$job};
wait_for_state($cluster, $job, 'completed', 60);
is(slurp_file("$out/began"), "from 0 \nfrom 3 save-3\n",
	'the second attempt goes on from what the first one saved');
is(slurp_file("$out/steps"),
	join("\n", 1 .. 5, 4 .. 10, ''), 'only what was not saved is done again');
is(query($server, 'credit',
		"SELECT string_agg(attempt || ':' || step, ' ' ORDER BY attempt, step) FROM gpucredit.checkpoint WHERE job = $job"),
	'1:3 2:6 2:9', 'the database knows what is saved');

# Somebody changed the checkpoint: the job goes on from the one before.
$job = submit($cluster, '1xT4', q{
echo "from ${RESUME_STEP:-0}" >> $OUT/began
if [ ! -e $OUT/broke ]; then
	for at in 1 2; do
		echo "weights $at" > $OUT/save-$at
		echo "checkpoint $at $OUT/save-$at" >&3
		sleep 1.5
	done
	touch $OUT/broke
	echo "weights, changed" > $OUT/save-2
	echo "NCCL error" >&2
	exit 1
fi
});
$out = $cluster->{submitted}{$job};
wait_for_state($cluster, $job, 'completed', 60);
is(slurp_file("$out/began"), "from 0\nfrom 1\n",
	'no attempt goes on from a checkpoint that was changed');
like(agent_log($n1), qr{event=bad_checkpoint attempt=acme/$job/2},
	'the log has the bad checkpoint');

# A checkpoint that is a folder, and a missing one.
$job = submit($cluster, '1xT4', q{
mkdir $OUT/dir && echo a > $OUT/dir/a && echo b > "$OUT/dir/b c"
echo "checkpoint 7 $OUT/dir" >&3
echo "checkpoint 8 $OUT/nowhere" >&3
echo "checkpoint nine" >&3
echo "progress -1" >&3
sleep 1.5
});
wait_for_state($cluster, $job, 'completed', 60);
is(query($server, 'credit', "SELECT count(*) FROM gpucredit.checkpoint WHERE job = $job AND step > 7"),
	'0', 'nothing is known of what cannot be read');

# A server that cannot store a checkpoint gets it again when it can.
query($server, 'credit', q{
CREATE FUNCTION public.no_space() RETURNS trigger LANGUAGE plpgsql AS
	$$ BEGIN RAISE 'no space' USING ERRCODE = 'disk_full'; END $$;
CREATE TRIGGER no_space BEFORE INSERT ON gpucredit.checkpoint
	FOR EACH ROW EXECUTE FUNCTION public.no_space()});
$job = submit($cluster, '1xT4', q{
echo weights > $OUT/save
echo "checkpoint 3 $OUT/save" >&3
while [ ! -e $OUT/end ]; do sleep 0.1; done
});
wait_for('the server has refused it', 20,
	sub { agent_log($n1) =~ m{event=checkpoint_delayed attempt=acme/$job/1 state=53100} });
query($server, 'credit', 'DROP FUNCTION public.no_space CASCADE');
wait_for('the checkpoint is stored once the server has space', 20,
	sub { query($server, 'credit', "SELECT count(*) FROM gpucredit.checkpoint WHERE job = $job AND step = 3") eq '1' });
append_to_file("$cluster->{submitted}{$job}/end", '');
wait_for_state($cluster, $job, 'completed', 60);

# Told to leave, the job saves, leaves, and goes on when there is room again.
$job = submit($cluster, '1xT4', q{
save() { echo "weights $at" > $OUT/save-$at; echo "checkpoint $at $OUT/save-$at" >&3; }
trap 'save; exit 0' USR1
at=${RESUME_STEP:-0}
echo "from $at" >> $OUT/began
while [ $at -lt 20 ]; do at=$((at + 1)); echo $at >> $OUT/steps; sleep 0.2; done
}, checkpoint_signal => 'USR1');
$out = $cluster->{submitted}{$job};
wait_for('it runs', 20, sub { -e "$out/steps" && -s "$out/steps" > 8 });
query($server, 'credit', q{SELECT gpucredit.drain('n1', 'a new fan', now() + interval '20 s')});
wait_for('it has left', 30,
	sub { query($server, 'credit', "SELECT outcome FROM gpucredit.attempt WHERE job = $job AND attempt = 1") eq 'preempted' });
query($server, 'credit', q{SELECT gpucredit.resume('n1')});
wait_for_state($cluster, $job, 'completed', 60);
my @steps = split /\n/, slurp_file("$out/steps");
my %seen;
is(scalar(grep { $seen{$_}++ } @steps), 0, 'no step was done twice')
  or diag(slurp_file("$out/began"), grep { m{ attempt=acme/$job/} } agent_log($n1) =~ /^.*\n/mg);
is(scalar(@steps), 20, 'every step was done once');

# One that does not leave hears SIGUSR1 at once, SIGTERM a grace before the
# deadline, and is killed at the deadline.
$job = submit($cluster, '1xT4', q{
trap 'date +%s.%N > $OUT/usr1' USR1
trap 'date +%s.%N > $OUT/term' TERM
touch $OUT/runs
while :; do sleep 0.1; done
}, no_lock => 1, checkpoint_signal => 'USR1');
$out = $cluster->{submitted}{$job};
wait_for('it runs', 20, sub { -e "$out/runs" });
my $deadline = query($server, 'credit', q{SELECT date_part('epoch', clock_timestamp()) + 8});
query($server, 'credit', "SELECT gpucredit.drain('n1', 'a new fan', to_timestamp($deadline))");
wait_for('it is gone', 30,
	sub { query($server, 'credit', "SELECT outcome FROM gpucredit.attempt WHERE job = $job AND attempt = 1") eq 'preempted' });
cmp_ok(slurp_file("$out/usr1") - $deadline, '<', -2, 'a job on a draining node is told to save at once');
my $late = slurp_file("$out/term") - $deadline;
ok($late >= -2 && $late < 10, 'a job on a draining node is told to leave a grace before the deadline') or diag($late);
$late = (Time::HiRes::stat(attempt_dir($n1, $job, 1) . '/exit'))[9] - $deadline;
ok($late >= -1 && $late < 12, 'a job on a draining node that does not leave is killed at the deadline') or diag($late);
query($server, 'credit', "SELECT gpucredit.cancel('acme', $job, 'c$job')");
wait_for_state($cluster, $job, 'cancelled');

# Before its wall limit a job is told to save once, and runs on.  A job that
# would die of the signal gets none.
query($server, 'credit', q{SELECT gpucredit.resume('n1')});
query($server, 'credit', q{ALTER DATABASE credit SET gpucredit.save_ahead = '4 s'});
kill_agent($n1);
start_agent($n1);
my $told = submit($cluster, '0.5xT4', q{
trap 'echo told >> $OUT/told' USR1
touch $OUT/runs
while :; do sleep 0.1; done
}, wall => '8 s', checkpoint_every => '1 h', checkpoint_signal => 'USR1', no_lock => 1);
my $deaf = submit($cluster, '0.5xT4', 'touch $OUT/runs; exec sleep 60',
	wall => '8 s', checkpoint_every => '1 h', checkpoint_signal => 'USR1', no_lock => 1);
wait_for_state($cluster, $_, 'timeout', 60) foreach $told, $deaf;
is(slurp_file("$cluster->{submitted}{$told}/told"), "told\n",
	'a job is told once to save before its wall limit');
like(agent_log($n1), qr{event=told_to_save attempt=acme/$deaf/1 reason=wall_limit},
	'the log has the order to save of a job that would die of the signal');
is(job_row($cluster, $deaf, "outcome || ' ' || (elapsed >= '8 s')"),
	'timeout true', 'a job that would die of the signal is left alone until its wall limit');

end_cluster($cluster);
done_testing();
