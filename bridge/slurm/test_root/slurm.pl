# slurm.pl: jobs of Debian's Slurm run on credit, whatever is killed
#
# A shell below this test has the cluster of cluster.sh, and a database of its
# own, which is killed, too.
#
# What kills its parts runs with GC_SLURM=1 only, as it still finds a fault: a
# job that ends while the database is away is now and then not billed.
#
# GC_CRASHES: rounds in which each part is killed (1); GC_OUTAGE_SECONDS: how
# long the database is away (6).
#
# Packages: libcurl4-openssl-dev libjansson-dev libpq-dev lua-posix munge procps slurm-client slurmctld slurmd

use strict;
use warnings;
use FindBin;
use IPC::Open2;
use Test::More;
use Time::HiRes qw(time sleep);

my $src = "$FindBin::RealBin/../../..";

plan skip_all => 'tools/test runs it' unless -d "$src/../pg";

my ($from, $to);
my $shell = open2($from, $to, 'bash', '-c', <<'END', 'slurm.pl', $src);
set -uo pipefail
source "$1/tools/lib/server.sh"
source "$1/bridge/slurm/cluster.sh"
gc_workdir slurm
trap 'slurm_stop $?' EXIT
gc_use_build "${1%/src/*}"
exec 3>&1
while IFS= read -r -d '' command; do
	eval "$command" >"$GC_WORK/said" 2>&1 </dev/null
	status=$?
	cat "$GC_WORK/said" >&3
	printf '\0%d\0' "$status" >&3
done
END
my $crashes = $ENV{GC_CRASHES} || 1;
my $outage  = $ENV{GC_OUTAGE_SECONDS} || 6;

# What a command of the shell writes; its exit status.
sub sh
{
	my ($command) = @_;
	local $/ = "\0";

	print $to "$command\0";
	$to->flush;
	my $said   = <$from> // die "the shell ended\n";
	my $status = <$from> // die "the shell ended: $said\n";
	chomp($said, $status);
	$said =~ s/\n\z//;
	return wantarray ? ($said, $status) : $said;
}

# A test: the command is refused, and says so.  A submission that the bridge
# has no time to judge is accepted, and made again.
sub refused
{
	my ($command, $like, $name) = @_;
	my ($said, $status) = sh($command);

	for (my $tries = 0; $status == 0 && $command =~ /^submit/ && $tries < 5; $tries++)
	{
		sh("scancel $said");
		($said, $status) = sh($command);
	}

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	ok($status != 0 && $said =~ $like, $name) or diag("$status: $said");
	return;
}

# A test: the command succeeds.
sub done
{
	my ($command, $name) = @_;
	my ($said, $status) = sh($command);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($status, 0, $name) or diag($said);
	return;
}

# Submits a job that sleeps, and returns its number.
sub job
{
	my ($account, $script, @options) = @_;

	return scalar sh("submit $account $script --time=5 @options");
}

sub completed { return done("wait_for $_[0] COMPLETED", $_[1]); }

sub query { return scalar sh(qq{sql -c "$_[0]"}); }

# A test: no bill is wrong, and the books balance.
sub books
{
	my ($name) = @_;

	done('wait_settled && bills && check_books', $name);
	return;
}

sub finish
{
	books('every bill is what the nodes saw, and the books balance');
	close($to);
	waitpid($shell, 0);
	done_testing();
	exit;
}

my $denied = qr{Access/permission denied};
my $one    = '--gpus-per-node=h100:1';

sh('slurm_database');
sh('slurm_cluster');
sh(<<'END');
script() { printf '#!/bin/sh\n%s\n' "$2" >"$SLURM_DIR/$1.sh"; }
script short 'sleep 2'
script middle 'sleep 5'
script endless 'sleep 300'
script long 'trap "echo saved; exit 0" USR1; for i in $(seq 600); do sleep 0.2; done'
script gang 'srun sleep 2'
as_user() { gc_run "$@"; }
one_runs()
{
	[ "$(sql -c "SELECT count(*) FROM gpucredit.jobs WHERE state = 'running'")" = 1 ]
}
first_number()
{
	sed -i '/^FirstJobId=/d' "$SLURM_CONF"
	echo "FirstJobId=$1" >>"$SLURM_CONF"
}
# a node that still has the job of a number given again is drained
resumed_and_over()
{
	scontrol update NodeName=n1,n2 State=RESUME 2>/dev/null
	is_over "$1"
}
END

# Credit
refused("submit nobody short $one", qr/gpucredit: account "nobody" has no credit/, 'an account without a line is refused');
refused("submit beta short --nodes=2 --gpus-per-node=h100:2 --time=600",
	qr/gpucredit: budget_exceeded/, 'and what no budget lets be, with the reason');
query(q{SELECT gpucredit.issue('poor', '', 'little', 0.12)});
my $gang  = job('acme', 'gang', '--nodes=2', $one);
my $late  = job('beta', 'short', $one, '--time=2');
my $spent = job('poor', 'long', $one);
my $users = scalar sh("as_user sbatch --parsable --account=beta --output=/dev/null --chdir=/ --time=2 $one \$SLURM_DIR/short.sh");
completed($gang, 'a gang over both nodes runs');
done("wait_until is_held $late", 'a job without credit is held');
done("wait_until eval 'scontrol show job $late | grep -q \"waits for: insufficient_credits\"'", 'and says why');

# What a user does to a held job
refused("as_user scontrol release $users", $denied, 'a user does not release it');
refused("as_user scontrol update JobId=$users Priority=10", $denied, 'nor gives it a priority');
refused("as_user scontrol update JobId=$users TimeLimit=50", $denied, 'nor makes it longer');
refused("as_user scontrol update JobId=$users Account=acme", $denied, 'nor has another pay');
refused("as_user scontrol update JobId=$users AdminComment=x", $denied, 'nor takes its name');
is(scalar sh("state_of $users"), 'PENDING', 'it waits');
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
is(query("SELECT string_agg(request::text, ' ' ORDER BY (spec ->> 'slurm_job')::int) FROM gpucredit.job WHERE spec ->> 'slurm_job' IN ('"
	. join("', '", @forms) . "')"), '1xh100 1xh100 1x* 2xh100 0', 'that is what is set aside');
is(query("SELECT string_agg(spec ->> 'slurm_job', ' ' ORDER BY job) FROM gpucredit.job WHERE spec ->> 'slurm_job' LIKE '${array}\\_%'"),
	"${array}_1 ${array}_3 ${array}_5", 'and each task is a job');

done("wait_over $spent", 'a job is stopped as its hold is used up');
like(scalar sh("cat \$SLURM_DIR/${spent}_4294967294.out"), qr/saved$/, 'after it heard SIGUSR1');

finish() unless $ENV{GC_SLURM};

# A database that is away.  Of the jobs, one runs, one is about to, one is new.
sub fastest
{
	my ($best) = (1e9);

	foreach (1 .. 3)
	{
		my $began = time;
		my $job   = job('acme', 'short', $one);

		$best = time - $began if time - $began < $best;
		sh("scancel $job");
	}
	return $best;
}

my $usual = fastest();
my $runs  = job('acme', 'short', $one);
done("wait_for $runs RUNNING", 'a job runs');
my $soon  = job('acme', 'short', $one, '--begin=now+6');
my $again = scalar sh("as_user sbatch --parsable --requeue --account=acme --output=/dev/null --chdir=/ --time=5 $one --begin=now+6 \$SLURM_DIR/middle.sh");
done("wait_until eval '! is_held $soon && ! is_held $again'", 'two have their credit set aside, and are to begin later');
refused("as_user scontrol update JobId=$again TimeLimit=50", $denied, 'and are made no longer');
sh('slurm_kill server');
my $away = time;
my $new  = job('acme', 'short', $one);
ok(fastest() < $usual + 0.25, 'the database is away, and sbatch is as quick as ever');
done("is_held $new", 'what is submitted then waits');
done("wait_for $again RUNNING; sleep 1.5; as_user scontrol requeue $again", 'a user has a job run again');
sh("scontrol release $new; sleep 0.1");
done("wait_over $soon", 'what has credit runs');
sleep 0.5 while time < $away + $outage;
sh('kill -STOP $(pgrep -P $(cat $SLURM_DIR/bridge.pid)) $(cat $SLURM_DIR/bridge.pid)');
ok(fastest() < $usual + 0.4, 'a bridge that does not answer costs sbatch 200 ms');
sh('kill -CONT $(pgrep -P $(cat $SLURM_DIR/bridge.pid)) $(cat $SLURM_DIR/bridge.pid)');
sh('slurm_start server');
completed($new, 'it is back, and what waited runs');
completed($again, 'so does what was run again');

# Each part, killed while jobs come, start and end
my @all;
foreach my $round (1 .. $crashes)
{
	foreach my $part (qw(ctld n1 agent-n1 bridge server))
	{
		my @jobs = map { job('acme', 'short', $one) } 1 .. 3;

		sleep rand 3;
		push @jobs, job('acme', 'short', $one);
		sh("slurm_kill $part");
		sh('first_number ' . (100 + (sort { $b <=> $a } @jobs)[0])) if $part eq 'ctld';
		sh("slurm_start $part");
		push @jobs, job('acme', 'short', $one);
		my @known = grep { scalar(sh("state_of $_")) ne '' } @jobs;
		if ($part eq 'ctld')
		{
			# it forgets its last seconds
			@jobs = @known;
		}
		is("@known", "@jobs", "$part is killed in round $round, and Slurm knows the jobs");
		sh("wait_until resumed_and_over $_") foreach @known;
		push @all, @known;
	}
}
done('wait_settled', 'all is settled');
is(query("SELECT count(*) FROM gpucredit.job WHERE spec ->> 'slurm_job' = '$again' AND attempt > 0"), 2, 'both runs of the job that was run again have a bill');
is(join(' ', grep { query("SELECT sum(a.billed::numeric) >= 0.018 FROM gpucredit.job j JOIN gpucredit.attempt a USING (org, job) WHERE j.spec ->> 'slurm_job' = '$_'") ne 't' } @all),
	'', 'all those jobs have run for their two seconds, and are billed');

# A number that is given out again, as that job runs; elsewhere, because slurmd
# runs no Prolog for a number that it knows
sh('scontrol reconfigure; cp -a $SLURM_DIR/ctld $SLURM_DIR/ctld.before');
my $first = job('acme', 'endless', $one, '--nodelist=n1');
done("wait_for $first RUNNING", 'a job runs');
done('wait_until one_runs', 'as the database knows');
sh('slurm_kill ctld; rm -rf $SLURM_DIR/ctld; mv $SLURM_DIR/ctld.before $SLURM_DIR/ctld; slurm_start ctld');
done("wait_until eval 'test -e \$SLURM_DIR/agent-n?/foreign/$first.1/end'", 'slurmctld forgot it, and ends it');
my $second = job('acme', 'short', $one, '--nodelist=n2');
is($second, $first, 'and gives its number to another');
done("wait_until resumed_and_over $second; has_state $second COMPLETED", 'which runs');
is(query("SELECT count(DISTINCT spec ->> 'foreign') FROM gpucredit.job WHERE spec ->> 'slurm_job' = '$first'"), 2, 'they are two jobs');

finish();
