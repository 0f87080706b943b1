# slurm.pl: jobs of Debian's Slurm run on credit
#
# Packages: libcurl4-openssl-dev libfaketime libjansson-dev libpq-dev lua-posix munge procps slurm-client slurmctld slurmd

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use GpuCreditSlurm;
use Test::More;

# Credit
refused("submit nobody short $one", qr/gpucredit: account "nobody" has no credit/, 'an account without a line is refused');
refused("submit beta short --nodes=2 --gpus-per-node=h100:2 --time=600",
	qr/gpucredit: budget_exceeded/, 'and what no budget lets be, with the reason');
query(q{SELECT gpucredit.issue('poor', '', 'little', 0.12)});
my $gang  = job('acme', 'gang', '--nodes=2', $one);
my $late  = job('beta', 'short', $one, '--time=2');
my $spent = job('poor', 'long', $one);
my $users = user_job('beta', 'short', $one);
completed($gang, 'a gang over both nodes runs');
done("wait_until is_held $late", 'a job without credit is held');
done("wait_until eval 'scontrol show job $late | grep -q \"waits for: insufficient_credits\"'", 'and says why');

# What a user does to a held job
refused("as_user scontrol release $users", $denied, 'a user does not release it');
refused("as_user scontrol update JobId=$users Priority=10", $denied, 'nor gives it a priority');
refused("as_user scontrol update JobId=$users TimeLimit=50", $denied, 'nor makes it longer');
refused("as_user scontrol update JobId=$users Account=acme", $denied, 'nor has another pay');
refused("as_user scontrol update JobId=$users AdminComment=x", $denied, 'nor takes its name');
sh("as_user scontrol top $users; as_user scontrol requeue $users; as_user scontrol requeuehold $users; as_user scontrol hold $users; as_user scontrol uhold $users");
done("is_held $users && has_state $users PENDING", 'and whatever else the user does, it waits');
query(q{SELECT gpucredit.issue('beta', '', 'late', 1)});
completed($late,  'it runs by itself as credit comes');
completed($users, 'so does the other');

# A limit that changed
my $free = job('acme', 'short', $one);
sh("scontrol update JobId=$free TimeLimit=4");
completed($free, 'a job whose limit was changed runs');

# The ways to ask for GPUs, and an array
my $array = job('acme', 'short', $one, '--array=1-5:2');
my @forms = map { job('acme', 'short', $_) } '--gpus=h100:1', '--gres=gpu:h100:1', '--gres=gpu:1',
  '--ntasks=2 --nodes=1 --gpus-per-task=h100:1', '';
completed("${array}_$_", "task $_ of an array runs") foreach 1, 3, 5;
completed($_, 'and however a job asks for GPUs') foreach @forms;
is(query("SELECT string_agg(request::text, ' ' ORDER BY (spec ->> 'foreign_job')::int) FROM gpucredit.job WHERE spec ->> 'foreign_job' IN ('"
	. join("', '", @forms) . "')"), '1xh100 1xh100 1x* 2xh100 0', 'that is what is set aside');
is(query("SELECT string_agg(spec ->> 'foreign_job', ' ' ORDER BY job) FROM gpucredit.job WHERE spec ->> 'foreign_job' LIKE '${array}\\_%'"),
	"${array}_1 ${array}_3 ${array}_5", 'and each task is a job');

done("wait_over $spent", 'a job is stopped as its hold is used up');
like(scalar sh("cat \$SLURM_DIR/${spent}_4294967294.out"), qr/saved$/, 'after it heard SIGUSR1');
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
sh('mv $SLURM_DIR/prolog.kept $SLURM_DIR/prolog');
books('its node asks Slurm');
is(query("SELECT count(*) FROM gpucredit.job j JOIN gpucredit.attempt a USING (org, job) WHERE j.spec ->> 'foreign_job' IN ('$untold[0]', '$untold[1]') AND a.billed::numeric BETWEEN 0.01 AND 0.09 AND (a.billed::numeric > 0.07) = (j.spec ->> 'foreign_job' = '$untold[1]')"),
	2, 'and they are billed for their two and eight seconds');

# A run that no look saw, as it is run again: slurmctld's record tells of it.
my $again = user_job('acme', 'middle', $one, '--begin=now+3', '--requeue');
done("wait_until eval '! is_held $again'", 'a job has its credit set aside, and is to begin later');
sh('slurm_kill bridge');
done("wait_for $again RUNNING; sleep 1.5; as_user scontrol requeue $again", 'there is no bridge, and its user has it run again');
done('wait_until eval "ls $SLURM_DIR/records/*:0"', 'slurmctld leaves a record');
sh('slurm_start bridge');
completed($again, 'the second run ends');
done('wait_until eval "[ -z \"\$(ls \$SLURM_DIR/records)\" ]"', 'the bridge looks at all records');
is(query("SELECT count(*) FROM gpucredit.job WHERE spec ->> 'foreign_job' = '$again' AND attempt > 0"), 2, 'both runs have a bill');

# Records that tell something else than the bills, or of what has none
my $run = query("SELECT spec ->> 'foreign' FROM gpucredit.job WHERE spec ->> 'foreign_job' = '$early'");
sh("echo '$run $early acme n1 1000 2000' >\$SLURM_DIR/records/one");
sh("echo '${run}9 $early acme n1 1000 2000' >\$SLURM_DIR/records/two; echo x >\$SLURM_DIR/records/three");
done("wait_until grep 'event=bill_differs job=$early .*slurm_s=1000 billed_s=[23]\$' \$SLURM_DIR/bridge.log", 'a bill that is not what slurmctld counted is told');
done("wait_until grep 'event=not_billed job=$early .*slurm_s=1000' \$SLURM_DIR/bridge.log", 'so is a run without a bill');
done("wait_until grep 'event=bad_record line=\"x' \$SLURM_DIR/bridge.log", 'and what is no record');
is(scalar sh('grep -c "event=bill_differs\|event=not_billed" $SLURM_DIR/bridge.log'), 2, 'nothing else is');

# Clocks
sh('slurm_skew n1 +200s; slurm_skew n2 -200s; for node in n1 n2; do slurm_kill agent-$node; slurm_start agent-$node; done');
my $skewed = job('acme', 'gang', '--nodes=2', $one);
completed($skewed, 'a gang runs on nodes whose clocks are 400 s apart');
books('its bill is right, as are the others');
finish();
