# hostile.pl: an unkillable process, and a job that fills the disk, block their
# own device only
#
# A file system whose server does not answer makes the process unkillable; the
# other job fills a small file system.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::RealBin/../perl";
use GpuCredit;
use GpuCreditAgent;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(sleep);

plan skip_all => 'only root can mount' if $> != 0;

my $cluster = cluster('hostile');
my $server  = $cluster->{server};
my $n1      = add_node($cluster, 'n1', 2, stopped => 1, conf => ['first_uid = 700000']);
my $hung    = "$n1->{folder}/hung";

query($server, 'credit', q{ALTER DATABASE credit SET gpucredit.node_lost = '10s'});
chmod 0711, $n1->{folder};
mkdir $hung;
mkdir "$n1->{folder}/state";
my $small = system('mount', '-t', 'tmpfs', '-o', 'size=2m,mode=711',
	'none', "$n1->{folder}/state") == 0;
my $fuse = hang($hung);
start_agent($n1);

SKIP:
{
	skip 'no cgroup, or no FUSE on this machine', 10
	  unless $fuse && cgroup_root();
	my $stuck = submit($cluster, '1xT4',
		qq{(exec 3>&-; exec stat $hung/file) & sleep 1; echo up > \$OUT/up; wait});
	wait_for('it hangs', 20, sub { -e "$cluster->{submitted}{$stuck}/up" });
	my ($device) = job_devices($stuck);

	# its agent stands still: as it cannot be frozen, its keeper kills it
	kill('STOP', $n1->{pid});
	wait_for('it is fenced', 20, sub { agent_log($n1) =~ m{event=fenced attempt=acme/$stuck/1} });
	wait_for('what cannot be frozen is killed', 20,
		sub { -e attempt_dir($n1, $stuck, 1) . '/exit' });
	kill('CONT', $n1->{pid});
	query($server, 'credit', "SELECT gpucredit.cancel('acme', $stuck, 'c$stuck')");
	sleep(2);
	ok(!-e attempt_dir($n1, $stuck, 1) . '/gone', 'a process of it is left');

	# other jobs run, and its device is not given out
	my $other = submit($cluster, '1xT4', 'sleep 1');
	wait_for_state($cluster, $other, 'completed');
	isnt((job_devices($other))[0], $device, 'on another device');
	my $both = submit($cluster, '2xT4', 'sleep 1');
	sleep(1);
	isnt(job_state($cluster, $both), 'running', 'nobody gets its device');
	kill('KILL', $n1->{fuse});
	waitpid($n1->{fuse}, 0);
	close($fuse);
	wait_for_state($cluster, $stuck, 'cancelled');
	wait_for_state($cluster, $both,  'completed');
	bill_is_fair($cluster, $both, 2, 1);
}

SKIP:
{
	skip 'no small file system', 7 unless $small;
	my $job = submit($cluster, '1xT4',
		q{dd if=/dev/zero of=fill bs=64k 2>/dev/null; yes | head -c 300000; echo up > $OUT/up; sleep 2});
	wait_for('the disk is full', 20, sub { -e "$cluster->{submitted}{$job}/up" });
	my $next = submit($cluster, '1xT4', 'sleep 1');
	wait_for('nothing is begun that cannot be written down', 20,
		sub { agent_log($n1) =~ /(?:intent_not_written|event=not_started) attempt=acme\/$next/ });
	wait_for_state($cluster, $job,  'completed');
	bill_is_fair($cluster, $job, 1, 2);
	query($server, 'credit', "SELECT gpucredit.log_wish('acme', $job)");
	wait_for('what its log had no room for is counted', 20,
		sub { query($server, 'credit', "SELECT written = 300000 AND dropped > 0 FROM gpucredit.log_get('acme', $job)") eq 't' });
	wait_for_state($cluster, $next, 'completed', 60);
	bill_is_fair($cluster, $next, 1, 1);
}
end_agent($n1);
system('umount', '-l', "$n1->{folder}/state") if $small;
system('umount', '-l', $hung) if $fuse;
end_cluster($cluster);
done_testing();

sub job_devices
{
	my ($job) = @_;

	return query($server, 'credit',
		"SELECT gpus FROM gpucredit.attempt_gpu WHERE org = 'acme' AND job = $job ORDER BY attempt DESC LIMIT 1");
}

# A FUSE file system whose server reads requests and never answers; undef if
# this machine has no FUSE.  It ends when the handle is closed.
sub hang
{
	my ($folder) = @_;
	my $request;

	open(my $device, '+<', '/dev/fuse') or return;
	my $fd = fileno($device);
	my $options = "fd=$fd,rootmode=40000,user_id=0,group_id=0,allow_other";

	# SYS_mount: mount(8) would close the descriptor
	my ($none, $type) = ('hung', 'fuse');
	return if syscall(165, $none, $folder, $type, 0, $options) != 0;
	sysread($device, $request, 1 << 20) or return;
	my ($unique) = unpack('x8 Q', $request);

	# FUSE_INIT's answer: version 7.31, and the least that it may say
	my $init = pack('LLLLSSLLSSLL6', 7, 31, 0, 0, 0, 0, 4096, 1, 1, 0, 0, (0) x 6);
	syswrite($device, pack('LlQ', 16 + length($init), 0, $unique) . $init)
	  or return;

	my $pid = fork();
	die "fork: $!" unless defined $pid;
	if ($pid == 0)
	{
		sysread($device, $request, 1 << 20);
		sleep(1) while getppid() != 1;
		POSIX::_exit(0);
	}
	$n1->{fuse} = $pid;
	return $device;
}
