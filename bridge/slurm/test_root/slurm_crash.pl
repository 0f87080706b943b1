# slurm_crash.pl: jobs of Debian's Slurm run on credit, whatever is killed
#
# GC_CRASHES: rounds in which each part is killed (1); GC_OUTAGE_SECONDS: how
# long the database is away (6); GC_BURST: how many jobs are submitted at once
# (20).
#
# Packages: libcurl4-openssl-dev libfaketime libjansson-dev libpq-dev lua-posix munge procps slurm-client slurmctld slurmd

use strict;
use warnings;
use FindBin;
use lib $FindBin::RealBin;
use GpuCreditSlurm;
use List::Util qw(max);
use Test::More;
use Time::HiRes qw(time sleep);

my $crashes = $ENV{GC_CRASHES} || 1;
my $outage  = $ENV{GC_OUTAGE_SECONDS} || 6;
my $burst   = $ENV{GC_BURST} || 20;

sh(<<'END');
first_number()
{
	sed -i '/^FirstJobId=/d' "$SLURM_CONF"
	echo "FirstJobId=$1" >>"$SLURM_CONF"
}
# A node that still has the job of a number given again is drained.  A job that
# a killed slurmd never began is missed when its node registers again, as it does
# on SIGHUP.  A slurmctld 24.11 that reconfigures takes its jobs for active.
resumed_and_over()
{
	scontrol update NodeName=n1,n2 State=RESUME 2>/dev/null
	[ $((++looks % 25)) != 0 ] || kill -HUP $(cat "$SLURM_DIR"/n?.pid)
	is_over "$1"
}
looks=0
END

# How long slurmctld waited for the bridge each time since the last call, in ms
sub waits
{
	return map { $_ / 1000 } sort { $a <=> $b }
	  split /\n/, scalar sh('cat $SLURM_DIR/asked 2>/dev/null; rm -f $SLURM_DIR/asked');
}

sub longest_wait { return max(0, waits()); }

# A database that is away.  Of the jobs, one runs, one is about to, one is new.
sh('slurm_time_asks');
my $runs = job('acme', 'short', $one);
done("wait_for $runs RUNNING", 'a job runs');
my $soon  = job('acme', 'short', $one, '--begin=now+6');
my $again = user_job('acme', 'middle', $one, '--begin=now+6', '--requeue', '--time=5');
done("wait_until eval '! is_held $soon && ! is_held $again'", 'two have their credit set aside, and are to begin later');
refused("as_user scontrol update JobId=$again TimeLimit=50", $denied, 'and are made no longer');
ok(longest_wait() > 0, 'slurmctld asked the bridge');
sh('slurm_kill server');
my $away = time;
my $new  = job('acme', 'short', $one);
my $freed = job('acme', 'short', $one, '--begin=now+60');
done("is_held $new", 'the database is away, and what is submitted waits');
done("scontrol release $freed; wait_until is_held $freed", 'so does what root releases');
done("wait_for $again RUNNING; sleep 1.5; as_user scontrol requeue $again", 'a user has a job run again');
done("wait_over $soon", 'what has credit runs');
my @more;
while (time < $away + $outage)
{
	push @more, job('acme', 'short', $one) if @more < ($outage - 3) / 30;
	sleep 0.5;
}
done("is_held $_", 'what is new still waits') foreach $new, $freed, @more;
sh('kill -STOP $(pgrep -P $(cat $SLURM_DIR/bridge.pid)) $(cat $SLURM_DIR/bridge.pid)');
job('acme', 'short', $one) foreach 1 .. 3;
sh('kill -CONT $(pgrep -P $(cat $SLURM_DIR/bridge.pid)) $(cat $SLURM_DIR/bridge.pid)');
my $longest = longest_wait();
diag(sprintf 'slurmctld waited %.0f ms at most', $longest);
# it waits for 200 ms, and a busy machine wakes it up later
ok($longest > 0 && $longest < 3000, 'slurmctld waited for no answer that did not come, not of a bridge that stands still either');
sh('slurm_start server');
sh("scontrol update JobId=$freed StartTime=now");
completed($_, 'the database is back, and what waited runs') foreach $new, $freed, @more;
completed($again, 'so does what was run again');
books('all that ran is billed, and the books balance');
is(query("SELECT count(*) FROM gpucredit.job WHERE spec ->> 'foreign_job' = '$again' AND attempt > 0"), 2, 'both runs of the job that was run again have a bill');

# Many submissions at once
waits();
sh('script brief true');
is(scalar sh("seq $burst | xargs -P 32 -I{} sbatch --parsable --account=acme --chdir=/ --output=/dev/null --time=5 \$SLURM_DIR/brief.sh | wc -l"),
	$burst, "$burst jobs are submitted at once");
my @waits = waits();
diag(sprintf 'slurmctld waited %.0f ms at most', $waits[-1]);
# it waits for 200 ms, and a busy machine wakes it up later, now and then much later
ok(@waits == $burst && $waits[ $#waits / 2 ] < 300, 'slurmctld asked for each, and waited for few');
my $until = time + 120 + $burst;
sleep 0.2 while time < $until && sh('squeue --noheader') ne '';
is(query("SELECT count(*) FROM gpucredit.job WHERE attempt = 1 AND spec ->> 'foreign_job' IN (SELECT unnest(string_to_array('"
	. join(',', split /\n/, scalar sh('squeue --noheader --states=COMPLETED --name=brief.sh -o %i')) . "', ',')))"), $burst, 'all of them run, each once');
books('and are billed');

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
		done("wait_until resumed_and_over $_", "job $_ ends") foreach @known;
		# what Slurm ended because its node was gone has run for less
		push @all, grep { sh("state_of $_") eq 'COMPLETED' } @known;
	}
	books("all is billed in round $round, and the books balance");
}
cmp_ok(scalar(@all), '>=', 10 * $crashes, 'most of those jobs are completed');
my %billed = map { $_ => query("SELECT coalesce(sum(a.billed::numeric), 0) FROM gpucredit.job j JOIN gpucredit.attempt a USING (org, job) WHERE j.spec ->> 'foreign_job' = '$_'") } @all;
is(join(', ', map { "job $_: $billed{$_}" } grep { $billed{$_} < 0.018 } @all),
	'', 'they have run for their two seconds, and are billed');

# A number that is given out again, as that job runs; elsewhere, because slurmd
# runs no Prolog for a number that it knows
# slurmctld saves its last number a little after it was asked to
sh('touch $SLURM_DIR/asked; scontrol reconfigure; for i in $(seq 100); do [ $SLURM_DIR/ctld/job_state -nt $SLURM_DIR/asked ] && break; sleep 0.1; done; cp -a $SLURM_DIR/ctld $SLURM_DIR/ctld.before');
my $first = job('acme', 'endless', $one, '--nodelist=n1');
done("wait_for $first RUNNING", 'a job runs');
done('wait_until one_runs', 'as the database knows');
sh('slurm_kill ctld; rm -rf $SLURM_DIR/ctld; mv $SLURM_DIR/ctld.before $SLURM_DIR/ctld; slurm_start ctld');
done("wait_until eval 'test -e \$SLURM_DIR/agent-n?/foreign/$first.1/end'", 'slurmctld forgot it, and ends it');
my $second = job('acme', 'short', $one, '--nodelist=n2');
is($second, $first, 'and gives its number to another');
done("wait_until resumed_and_over $second; has_state $second COMPLETED", 'which runs');
is(query("SELECT count(DISTINCT spec ->> 'foreign') FROM gpucredit.job WHERE spec ->> 'foreign_job' = '$first'"), 2, 'they are two jobs');
books('each is billed to its own');
finish();
