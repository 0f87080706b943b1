# hostile.pl: programs that flee, leave zombies, or fork without end are ended
# completely, and their devices are free

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

plan skip_all => 'no cgroup on this machine: nothing holds what flees'
  unless cgroup_root();

my $cluster = cluster('hostile');
my $n1      = add_node($cluster, 'n1', 1, conf => ['most_processes = 64']);
my $cgroup  = $n1->{cgroup};

# It forks twice, leaves its session, its parent and its environment.
my $job = submit($cluster, '1xT4',
	q{(env -i setsid bash -c 'exec -a fled sleep 4321 & disown' >/dev/null 2>&1 </dev/null &) ; while [ ! -e $OUT/seen ]; do sleep 0.1; done});
wait_for('it fled', 20, sub { processes_of("fled\0004321") });
append_to_file("$cluster->{submitted}{$job}/seen", '');
wait_for_state($cluster, $job, 'completed');
is(join(' ', processes_of("fled\0004321")), '', 'it did not get away');
bill_is_fair($cluster, $job, 1);

# Zombies that their parent never waits for, and orphaned ones.
$job = submit($cluster, '1xT4',
	q{perl -e 'for (1 .. 200) { fork or exit } if (!fork) { for (1 .. 200) { fork or exit } exit } sleep 1'});
wait_for_state($cluster, $job, 'completed');
bill_is_fair($cluster, $job, 1);

# Processes that fork and exit without end, faster than anyone can list them.
$job = submit($cluster, '1xT4',
	q{trap '' TERM; perl -e '$SIG{TERM} = "IGNORE"; for (1 .. 20) { fork or do { while (1) { my $p = fork; exit if !defined $p || $p; } } } open my $up, ">", "$ENV{OUT}/up"; sleep 1000'});
wait_for('it forks', 20, sub { -e "$cluster->{submitted}{$job}/up" });
query($cluster->{server}, 'credit',
	"SELECT gpucredit.cancel('acme', $job, 'c$job')");
wait_for_state($cluster, $job, 'cancelled');

# More processes, and more memory, than a job may have.
my $has = slurp_file(cgroup_root() . '/cgroup.controllers');
like(agent_log($n1), qr/event=no_memory_limit/, 'an agent that cannot limit memory says so')
  if $has !~ /\bmemory\b/;
SKIP:
{
	skip 'the machine gives cgroups no pids controller', 2
	  unless $has =~ /\bpids\b/;
	$job = submit($cluster, '1xT4',
		q{perl -e 'fork or exec "bash", "-c", ":(){ :|:& };:; sleep 600"; sleep 1; exit 3'}, args => ', max_retries => 0');
	wait_for_state($cluster, $job, 'failed');
	is(job_row($cluster, $job, 'exit_code'), 3, 'a fork bomb ends like any job');
}
SKIP:
{
	skip 'the machine gives cgroups no memory controller', 2
	  unless $has =~ /\bmemory\b/;
	$job = submit($cluster, '1xT4', q{perl -e '$a = "x" x (512 << 20); sleep 5'},
		args => ', memory_mib => 64');
	wait_for_state($cluster, $job, 'failed');
	is(job_row($cluster, $job, 'outcome'), 'out_of_memory',
		'the kernel ended it for its memory');
}

# The next job finds its device free at once.
$job = submit($cluster, '1xT4', 'sleep 1');
wait_for_state($cluster, $job, 'completed');
bill_is_fair($cluster, $job, 1, 1);
end_cluster($cluster);
done_testing();
