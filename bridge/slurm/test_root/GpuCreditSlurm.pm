# GpuCreditSlurm.pm: tests of a cluster whose shell is below the test
#
# The shell has cluster.sh, so a test's commands are those of the demo.

package GpuCreditSlurm;

use strict;
use warnings;
use Exporter 'import';
use FindBin;
use IPC::Open2;
use Test::More;

our @EXPORT = qw(sh done refused job user_job completed query books finish $one
  $denied);

our $one    = '--gpus-per-node=h100:1';
our $denied = qr{Access/permission denied};

my $src = "$FindBin::RealBin/../../..";

plan skip_all => 'tools/test runs it' unless -d "$src/../pg";

my ($from, $to);
my $shell = open2($from, $to, 'bash', '-c', <<'END', 'slurm', $src);
set -uo pipefail
source "$1/tools/lib/server.sh"
source "$1/bridge/slurm/cluster.sh"
gc_workdir slurm
exec 3>&1
# A command that waited too long ends the shell; the test prints what it said.
trap 'status=$?; [ $status = 0 ] || cat "$GC_WORK/said" >&3; slurm_stop $status' EXIT
gc_use_build "${1%/src/*}"
while IFS= read -r -d '' command; do
	eval "$command" >"$GC_WORK/said" 2>&1 </dev/null
	status=$?
	cat "$GC_WORK/said" >&3
	printf '\0%d\0' "$status" >&3
done
END

sh('slurm_database');
sh('printf "#!/bin/sh\ntouch $GC_WORK/ended-\$SLURM_JOB_ID\n" >$GC_WORK/ended; chmod 755 $GC_WORK/ended');
sh('slurm_cluster EpilogSlurmctld=$GC_WORK/ended');
sh(<<'END');
script() { printf '#!/bin/sh\n%s\n' "$2" >"$SLURM_DIR/$1.sh"; }
script short 'sleep 2'
script middle 'sleep 5'
script eight 'sleep 8'
script endless 'sleep 300'
script long 'trap "echo saved; exit 0" USR1; for i in $(seq 600); do sleep 0.2; done'
script deaf 'trap "" USR1; for i in $(seq 600); do sleep 0.2; done'
script gang 'srun sleep 2'
as_user() { gc_run "$@"; }
one_runs()
{
	[ "$(sql -c "SELECT count(*) FROM gpucredit.jobs WHERE state = 'running'")" = 1 ]
}
END

# What a command of the shell writes; its exit status.
sub sh
{
	my ($command) = @_;
	local $/ = "\0";

	print $to "$command\0";
	$to->flush;
	my $said   = <$from> // die "the shell ended in: $command\n";
	my $status = <$from> // die "the shell ended in: $command\n$said\n";
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

# The same, by a user who is not root.
sub user_job
{
	my ($account, $script, @options) = @_;

	return scalar sh("as_user sbatch --parsable --account=$account --output=/dev/null --chdir=/ --time=2 @options \$SLURM_DIR/$script.sh");
}

sub completed
{
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return done("wait_for $_[0] COMPLETED", $_[1]);
}

sub query { return scalar sh(qq{sql -c "$_[0]"}); }

# A test: no bill is wrong, and the books balance.
sub books
{
	my ($name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	done('wait_settled && bills && check_books', $name);
	return;
}

sub finish
{
	close($to);
	waitpid($shell, 0);
	done_testing();
	exit;
}

1;
