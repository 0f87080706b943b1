# slurm.pl: jobs of Debian's Slurm run on credit
#
# Packages: libcurl4-openssl-dev libfaketime libjansson-dev libjson-perl libpq-dev lua-posix munge procps slurm-client slurmctld slurmd

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use GpuCreditSbatch;
use GpuCreditSlurm;
use Test::More;

# Credit
refused("submit nobody short $one", qr/gpucredit: account "nobody" has no credit/, 'an account without a line is refused');
refused("submit beta short --nodes=2 --gpus-per-node=h100:2 --time=600",
	qr/gpucredit: budget_exceeded/, 'and what no budget lets be, with the reason');
# newer commands refuse themselves what the cluster does not offer
refused("submit acme short --gres=shard:1",
	qr/gpucredit: gres\/shard and gres\/mps have no price|Invalid generic resource/, 'parts of a GPU, which have no price, are refused');
# a day and the grace beyond are more than a job of the tier may run
my $day = job('acme', 'short', $one, '--time=1-0');
my $never = job('acme', 'short', $one, '--mincpus=999');
done("wait_for $never CANCELLED", 'a job that Slurm can never run is cancelled');
completed($day, 'one of a day runs');
query(q{SELECT gpucredit.issue('poor', '', 'little', 0.24)});
sh('cd $SLURM_DIR; cp job_submit.lua kept.lua; sed -i s,/proc/sys/kernel/random/uuid,/nowhere, job_submit.lua; touch -d +2seconds job_submit.lua; cd /');
refused("submit acme short $one", qr/gpucredit: job_submit.lua failed/, 'what the script cannot judge is refused');
sh('cd $SLURM_DIR; mv kept.lua job_submit.lua; touch -d +4seconds job_submit.lua; cd /');
my $gang  = job('acme', 'gang', '--nodes=2', $one);
my $late  = job('beta', 'short', $one, '--time=2');
my $spent = job('poor', 'long', $one);
my $deaf  = job('poor', 'deaf', $one);
my $users = user_job('beta', 'short', $one);
completed($gang, 'a gang over both nodes runs');
done("wait_until is_held $late", 'a job without credit is held');
done("wait_until eval 'scontrol show job $late | grep -q \"waits for: insufficient_credits\"'", 'and says why');

# What a user does to a held job
refused("as_user scontrol release $users", $denied, 'a user does not release it');
refused("as_user scontrol update JobId=$users Priority=10", $denied, 'nor gives it a priority');
refused("as_user scontrol update JobId=$users TimeLimit=50", $denied, 'nor makes it longer');
refused("as_user scontrol update JobId=$users $_", $denied, "nor asks for more: $_")
  foreach 'NumNodes=2', 'NumNodes=1-2', 'NumTasks=2', 'Gres=gpu:h100:2', 'OverSubscribe=NO';
refused("as_user scontrol update JobId=$users Account=acme", $denied, 'nor has another pay');
refused("as_user scontrol update JobId=$users AdminComment=x", $denied, 'nor takes its name');
sh("as_user scontrol top $users; as_user scontrol requeue $users; as_user scontrol requeuehold $users; as_user scontrol hold $users; as_user scontrol uhold $users");
done("is_held $users && has_state $users PENDING", 'and whatever else the user does, it waits');
query(q{SELECT gpucredit.set_quota('beta', '', max_running => 1), gpucredit.issue('beta', '', 'late', 1)});
completed($late,  'it runs by itself as credit comes');
completed($users, 'so does the other');
is(scalar sh('grep -c "a quota allows no more\|requeuehold" $SLURM_DIR/bridge.log'), 0, 'after it, as a quota says');

# A limit that changed
my $free = job('acme', 'short', $one);
sh("scontrol update JobId=$free TimeLimit=4");
completed($free, 'a job whose limit was changed runs');

# The ways to ask for GPUs, and an array
my $array = job('acme', 'short', $one, '--array=1-5:2');
my @forms = map { job('acme', 'short', $_) } '--gpus=h100:1', '--gres=gpu:h100:1', '--gres=gpu:1',
  '--ntasks=2 --nodes=1 --gpus-per-task=h100:1', '', '--gpus-per-socket=h100:1 --sockets-per-node=1',
  '--exclusive', "--nodes=1-2 $one";
completed("${array}_$_", "task $_ of an array runs") foreach 1, 3, 5;
completed($_, 'and however a job asks for GPUs') foreach @forms;
is(query("SELECT string_agg(request::text, ' ' ORDER BY (spec ->> 'foreign_job')::int) FROM gpucredit.job WHERE spec ->> 'foreign_job' IN ('"
	. join("', '", @forms) . "')"), '1xh100 1xh100 1x* 2xh100 0 1xh100 1-2x* 1-2xh100', 'that is what is set aside');
is(query("SELECT a.gpus FROM gpucredit.job j JOIN gpucredit.attempt a USING (org, job) WHERE spec ->> 'foreign_job' = '$forms[6]'"),
	2, 'one that has its node to itself pays for the whole node');
is(query("SELECT string_agg(spec ->> 'foreign_job', ' ' ORDER BY job) FROM gpucredit.job WHERE spec ->> 'foreign_job' LIKE '${array}\\_%'"),
	"${array}_1 ${array}_3 ${array}_5", 'and each task is a job');

done("wait_over $spent", 'a job is stopped as its hold is used up');
like(scalar sh("cat \$SLURM_DIR/${spent}_4294967294.out"), qr/saved$/, 'after it heard SIGUSR1');
done("wait_for $deaf CANCELLED", 'one that does not heed that is cancelled');
books('every bill is what the nodes saw');

# The order in which words arrive.  The one job's name comes when it is over;
# the other's slurmctld tells of its end before its node does.
sh('cd $GC_SOURCE/bridge/slurm; mv run-name run-name.kept; printf "#!/bin/sh\nexit 1\n" >run-name; chmod 755 run-name');
my $nameless = job('acme', 'short', $one, '--nodelist=n1');
done("wait_until test -e \$SLURM_DIR/agent-n1/foreign/$nameless.1/end", 'a job began and ended before its node knew its name');
sh('cd $GC_SOURCE/bridge/slurm; mv run-name.kept run-name; cd /');
completed($nameless, 'it is over');
sh('cp $SLURM_DIR/epilog $SLURM_DIR/epilog.kept; sed -i "2i until [ -e $SLURM_DIR/go ]; do sleep 0.1; done" $SLURM_DIR/epilog');
my $early = job('acme', 'short', $one, '--nodelist=n1');
done("wait_until test -e \$GC_WORK/ended-$early", 'slurmctld has run EpilogSlurmctld');
refused("test -e \$SLURM_DIR/agent-n1/foreign/$early.1/end", qr//, 'and its node no Epilog yet');
sh('touch $SLURM_DIR/go');
completed($early, 'later its node has, too');
sh('mv $SLURM_DIR/epilog.kept $SLURM_DIR/epilog');
books('both are billed by what the nodes saw');

# slurmd 22.05 leaves out some Prologs of jobs that are run again
sh('cd $SLURM_DIR; mv prolog prolog.kept; printf "#!/bin/sh\n" >prolog; chmod 755 prolog; cd /');
my @untold = map { job('acme', $_, $one) } qw(short eight);
completed($_, 'a job runs of which no Prolog told') foreach @untold;
# the answer to a node that asks arrives when the run's Epilog has come and gone
sh(<<'END');
cd $GC_SOURCE/bridge/slurm; mv run-name run-name.kept
cat >run-name <<'SLOW'
#!/bin/sh
said=$("$0.kept" "$1")
case $said in *' RUNNING '*) until "$0.kept" "$1" | grep -q COMPLETED; do sleep 0.2; done ;; esac
echo "$said"
SLOW
chmod 755 run-name; cd /
END
push @untold, job('acme', 'eight', $one);
completed($untold[2], 'another one ends while its node asks for it');
done('wait_settled', 'its end is noted');
sh('cd $GC_SOURCE/bridge/slurm; mv run-name.kept run-name; cd /; mv $SLURM_DIR/prolog.kept $SLURM_DIR/prolog');
books('its node asks Slurm');
foreach my $job (@untold)
{
	my ($minutes, $seconds) = sh("scontrol show job $job") =~ /RunTime=00:(\d+):(\d+)/;
	my $billed = 100 * query("SELECT a.billed FROM gpucredit.job j JOIN gpucredit.attempt a USING (org, job) WHERE j.spec ->> 'foreign_job' = '$job'");

	# a node that is busy runs its Epilog some seconds late
	cmp_ok(abs($billed - 60 * $minutes - $seconds), '<=', 5, "and it is billed for the seconds that Slurm counts, $minutes:$seconds, not $billed");
}

# A run that no look saw, as it is run again: slurmctld's record tells of it.
my $again = user_job('acme', 'middle', '--exclusive', '--begin=now+3', '--requeue');
done("wait_until eval '! is_held $again'", 'a job has its credit set aside, and is to begin later');
sh('slurm_kill bridge');
done("wait_for $again RUNNING", 'there is no bridge, and the job runs');
is(query('SELECT count(*) FROM gpucredit.verify()'), '0', 'verify() is empty while it runs');
done("sleep 1.5; as_user scontrol requeue $again", 'its user has it run again');
done('wait_until eval "ls $SLURM_DIR/records/*:0"', 'slurmctld leaves a record');
sh('slurm_start bridge');
completed($again, 'the second run ends');
done('wait_until eval "[ -z \"\$(ls \$SLURM_DIR/records)\" ]"', 'the bridge looks at all records');
is(query("SELECT string_agg(a.gpus::text, ' ') FROM gpucredit.job j JOIN gpucredit.attempt a USING (org, job) WHERE spec ->> 'foreign_job' = '$again'"), '2 2', 'both runs have a bill, for all GPUs that they had');

# Records that tell something else than the bills, or of what has none
my $run = query("SELECT spec ->> 'foreign' FROM gpucredit.job WHERE spec ->> 'foreign_job' = '$early'");
sh("echo '$run $early acme n1 1000 2000' >\$SLURM_DIR/records/one");
sh("echo '${run}9 $early acme n1 1000 2000' >\$SLURM_DIR/records/two; echo x >\$SLURM_DIR/records/three");
my $billed = query("SELECT extract(epoch FROM a.elapsed)::bigint FROM gpucredit.job j JOIN gpucredit.attempt a USING (org, job) WHERE spec ->> 'foreign_job' = '$early'");
done("wait_until grep 'event=bill_differs job=$early .*slurm_s=1000 billed_s=$billed\$' \$SLURM_DIR/bridge.log", 'a bill that is not what slurmctld counted is told');
done("wait_until grep 'event=not_billed job=$early .*slurm_s=1000' \$SLURM_DIR/bridge.log", 'so is a run without a bill');
done("wait_until grep 'event=bad_record line=\"x' \$SLURM_DIR/bridge.log", 'and what is no record');
is(scalar sh('grep -c "event=bill_differs\|event=not_billed" $SLURM_DIR/bridge.log'), 2, 'nothing else is');

# Clocks
sh('slurm_skew n1 +200s; slurm_skew n2 -200s; for node in n1 n2; do slurm_kill agent-$node; slurm_start agent-$node; done');
my $skewed = job('acme', 'gang', '--nodes=2', $one);
done("wait_for $skewed RUNNING", 'a gang begins on nodes whose clocks are 400 s apart');
is(query('SELECT count(*) FROM gpucredit.verify()'), '0', 'verify() is empty while it runs');
completed($skewed, 'it runs to its end');
books('its bill is right, as are the others');

# Other devices than credit was set aside for, from the next look on
my $grown = job('acme', 'middle', $one, '--nodes=1', '--begin=now+3');
done("wait_until eval '! is_held $grown'; scontrol update JobId=$grown NumNodes=2-2", 'root makes a job larger whose credit is set aside');
completed($grown, 'it runs');
done('wait_settled && check_books', 'and is billed');
is(query("SELECT string_agg(a.gpus::text, ' ') FROM gpucredit.job j JOIN gpucredit.attempt a USING (org, job) WHERE spec ->> 'foreign_job' = '$grown'"), '2', 'for what it had');
is(scalar sh('sinfo -h -t drain,down -o %N'), '', 'no node was drained in all that');

# Our sbatch beside Slurm's.  Later versions refuse other combinations.
compare() if sh('slurmctld -V') =~ / 22\./;
finish();
